"""itofit: learn stochastic differential equations from data.

Given observed transitions, `fit` returns the drift f and the covariance Σ of dx = f dt + σ dW, Σ = σσᵀ, as functions.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from itofit._checks import ConvergenceWarning, DataWarning, ExtrapolationWarning, InputError, ModelFileError
from itofit._version import __version__
from itofit.arff import ARFF, History
from itofit.files import read_transitions
from itofit.fourier import FourierSeries
from itofit.learn import fit
from itofit.records import AutomaticSettings
from itofit.report import report
from itofit.sde import LearnedSDE, load
from itofit.search import SearchHistory
from itofit.transitions import BlockedTransitions, Transitions

if TYPE_CHECKING:
    from itofit import plot
    from itofit.diagnostics import Diagnosis, Finding, check
    from itofit.regressor import ARFFRegressor

__all__ = [
    "ARFF",
    "ARFFRegressor",
    "AutomaticSettings",
    "BlockedTransitions",
    "ConvergenceWarning",
    "DataWarning",
    "Diagnosis",
    "ExtrapolationWarning",
    "Finding",
    "FourierSeries",
    "History",
    "InputError",
    "LearnedSDE",
    "ModelFileError",
    "SearchHistory",
    "Transitions",
    "__version__",
    "check",
    "fit",
    "load",
    "plot",
    "read_transitions",
    "report",
]


_LATER = {"ARFFRegressor": "regressor", "Diagnosis": "diagnostics", "Finding": "diagnostics", "check": "diagnostics"}
"""Names whose modules are imported when they are asked for, since with what they need that takes long."""


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import what is asked for the first time."""
    if name == "plot":
        return import_module("itofit.plot")
    if name not in _LATER:
        raise AttributeError(f"module 'itofit' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"itofit.{_LATER[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
