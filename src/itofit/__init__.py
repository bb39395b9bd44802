"""itofit: learn stochastic differential equations from data.

Given observed transitions, `fit` returns the drift f and the covariance Σ of dx = f dt + σ dW, Σ = σσᵀ, as functions.
"""

from typing import TYPE_CHECKING, Any

from itofit import plot
from itofit._checks import ConvergenceWarning, DataWarning, ExtrapolationWarning, InputError, ModelFileError
from itofit._version import __version__
from itofit.arff import ARFF, History
from itofit.diagnostics import Diagnosis, Finding, check
from itofit.files import read_transitions
from itofit.fourier import FourierSeries
from itofit.learn import fit
from itofit.records import AutomaticSettings
from itofit.report import report
from itofit.sde import LearnedSDE, load
from itofit.search import SearchHistory
from itofit.transitions import BlockedTransitions, Transitions

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import the estimator when it is asked for: scikit-learn takes longer to import than all the rest."""
    if name == "ARFFRegressor":
        from itofit.regressor import ARFFRegressor  # noqa: PLC0415

        return ARFFRegressor
    raise AttributeError(f"module 'itofit' has no attribute {name!r}")
