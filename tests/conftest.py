"""What all tests share."""

import gc
import os
import sys
from importlib import import_module

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:  # there are as many processes as cores; NumPy reads this when it is imported
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # most programs take longer to compile than to run

from hypothesis import settings
from threadpoolctl import threadpool_limits

gc.set_threshold(20_000, 20, 20)  # tests make many objects, of which few are garbage in cycles
settings.register_profile("repeatable", derandomize=True, deadline=None)  # a failure must come back
settings.load_profile("repeatable")


def pytest_collection_finish():
    """Let garbage collections pass over all that imports have made, which stays."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def few_paths():
    """Reports and plots of distributions simulate fewer states, for tests that do not look at what they show."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PATH_STEPS", "PATH_STEPS_MANY"):
            patch.setattr(f"itofit.looking.plot.simulated.{name}", 10_000)
        yield


@pytest.fixture
def all_threads():
    """As many threads as cores, also where tests run in several processes of one thread each."""
    with threadpool_limits(os.cpu_count()):
        yield


@pytest.fixture
def set_everywhere(monkeypatch):
    """Sets a constant of itofit for a test, in its own module and in those that import it."""
    for module in ("data.reading.files", "learning.fit", "learning.paper.algorithm_2", "looking.check", "looking.plot"):
        import_module(f"itofit.{module}")  # later imports would keep what was set

    def set_constant(name, value):
        known = [module for key, module in sys.modules.items() if key.split(".")[0] == "itofit"]
        owners = [module for module in known if hasattr(module, name)]
        assert owners
        for module in owners:
            monkeypatch.setattr(module, name, value)

    return set_constant
