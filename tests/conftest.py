"""What all tests share."""

import os

if "PYTEST_XDIST_WORKER" in os.environ:  # as many processes as cores already: before NumPy is imported
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)  # a failure must come back
settings.load_profile("repeatable")
