"""What all tests share."""

import os

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:  # there are as many processes as cores; NumPy reads this when it is imported
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import settings
from threadpoolctl import threadpool_limits

settings.register_profile("repeatable", derandomize=True, deadline=None)  # a failure must come back
settings.load_profile("repeatable")


@pytest.fixture
def all_threads():
    """As many threads as cores, also where tests run in several processes of one thread each."""
    with threadpool_limits(os.cpu_count()):
        yield
