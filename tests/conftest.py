"""What all tests share."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)  # a failure must come back
settings.load_profile("repeatable")
