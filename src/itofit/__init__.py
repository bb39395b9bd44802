"""itofit: learn stochastic differential equations from data.

Given observed transitions, `fit` returns the drift f and the covariance Σ of dx = f dt + σ dW, Σ = σσᵀ, as functions.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from itofit._checks import ConvergenceWarning, DataWarning, ExtrapolationWarning, InputError, ModelFileError
from itofit._version import __version__
from itofit.data.blocked import BlockedTransitions
from itofit.data.parts import PartedTransitions
from itofit.data.transitions import Transitions
from itofit.looking.report import report
from itofit.model.hidden.observed import States
from itofit.model.learned import LearnedSDE, load
from itofit.model.measurement import HiddenVelocity, MeasurementNoise
from itofit.model.training import LearnedFunction, Training
from itofit.waves.parameters import ARFF
from itofit.waves.series import FourierSeries

if TYPE_CHECKING:
    from itofit import diagnostics as diagnostics
    from itofit import files as files
    from itofit import likelihood as likelihood
    from itofit import plot
    from itofit.data.files import read_transitions
    from itofit.learning.fit import fit
    from itofit.learning.regressor import ARFFRegressor
    from itofit.looking.check import Diagnosis, Finding, check

__all__ = [
    "ARFF",
    "ARFFRegressor",
    "BlockedTransitions",
    "ConvergenceWarning",
    "DataWarning",
    "Diagnosis",
    "ExtrapolationWarning",
    "Finding",
    "FourierSeries",
    "HiddenVelocity",
    "InputError",
    "LearnedFunction",
    "LearnedSDE",
    "MeasurementNoise",
    "ModelFileError",
    "PartedTransitions",
    "States",
    "Training",
    "Transitions",
    "__version__",
    "check",
    "fit",
    "load",
    "plot",
    "read_transitions",
    "report",
]


_LATER = {
    "ARFFRegressor": "learning.regressor",
    "Diagnosis": "looking.check",
    "Finding": "looking.check",
    "check": "looking.check",
    "fit": "learning.fit",
    "read_transitions": "data.files",
}
"""Names whose modules are imported when they are asked for, since with what they need that takes long."""
_OTHER_NAMES = ("diagnostics", "files", "likelihood", "plot")
"""Modules that users know by names that are not those of their rooms."""


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import what is asked for the first time."""
    if name in _OTHER_NAMES:
        return import_module(f"itofit.{name}")
    if name not in _LATER:
        raise AttributeError(f"module 'itofit' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"itofit.{_LATER[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
