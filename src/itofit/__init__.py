"""itofit: learn stochastic differential equations from data.

Given observed transitions, `fit` returns the drift f and the covariance Σ of dx = f dt + σ dW, Σ = σσᵀ, as functions.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from itofit._version import __version__

if TYPE_CHECKING:
    from itofit import diagnostics as diagnostics
    from itofit import dynamics, plot
    from itofit import files as files
    from itofit import likelihood as likelihood
    from itofit._checks import ConvergenceWarning, DataWarning, ExtrapolationWarning, InputError, ModelFileError
    from itofit.data.large.blocked import BlockedTransitions
    from itofit.data.large.parts import PartedTransitions
    from itofit.data.reading.files import read_transitions
    from itofit.data.transitions import Transitions
    from itofit.data.units import Units
    from itofit.learning.fit import fit
    from itofit.learning.regressor import ARFFRegressor
    from itofit.looking.check import Diagnosis, Finding, check
    from itofit.looking.compare import Comparison, compare
    from itofit.looking.report import report
    from itofit.model.formula.drawn_formulas import SampledFormulas
    from itofit.model.formula.formula_sde import Formula, load_formula
    from itofit.model.hidden.observed import States
    from itofit.model.learned import LearnedSDE, load
    from itofit.model.measurement import HiddenVelocity, MeasurementNoise
    from itofit.model.sampled import SampledSDEs
    from itofit.model.training import LearnedFunction, Training
    from itofit.waves.parameters import ARFF
    from itofit.waves.series import FourierSeries

__all__ = [
    "ARFF",
    "ARFFRegressor",
    "BlockedTransitions",
    "Comparison",
    "ConvergenceWarning",
    "DataWarning",
    "Diagnosis",
    "ExtrapolationWarning",
    "Finding",
    "Formula",
    "FourierSeries",
    "HiddenVelocity",
    "InputError",
    "LearnedFunction",
    "LearnedSDE",
    "MeasurementNoise",
    "ModelFileError",
    "PartedTransitions",
    "SampledFormulas",
    "SampledSDEs",
    "States",
    "Training",
    "Transitions",
    "Units",
    "__version__",
    "check",
    "compare",
    "dynamics",
    "fit",
    "load",
    "load_formula",
    "plot",
    "read_transitions",
    "report",
]


_LATER = {
    "ARFF": "waves.parameters",
    "ARFFRegressor": "learning.regressor",
    "BlockedTransitions": "data.large.blocked",
    "Comparison": "looking.compare",
    "ConvergenceWarning": "_checks",
    "DataWarning": "_checks",
    "Diagnosis": "looking.check",
    "ExtrapolationWarning": "_checks",
    "Finding": "looking.check",
    "Formula": "model.formula.formula_sde",
    "FourierSeries": "waves.series",
    "HiddenVelocity": "model.measurement",
    "InputError": "_checks",
    "LearnedFunction": "model.training",
    "LearnedSDE": "model.learned",
    "MeasurementNoise": "model.measurement",
    "ModelFileError": "_checks",
    "PartedTransitions": "data.large.parts",
    "SampledFormulas": "model.formula.drawn_formulas",
    "SampledSDEs": "model.sampled",
    "States": "model.hidden.observed",
    "Training": "model.training",
    "Transitions": "data.transitions",
    "Units": "data.units",
    "check": "looking.check",
    "compare": "looking.compare",
    "fit": "learning.fit",
    "load": "model.learned",
    "load_formula": "model.formula.formula_sde",
    "read_transitions": "data.reading.files",
    "report": "looking.report",
}
"""Names whose modules are imported when they are asked for, since with what they need that takes long: so the command
is soon at a place where it can say that it was interrupted."""
_MODULES = ("diagnostics", "dynamics", "files", "likelihood", "plot")
"""Modules that users know: a room, and those whose names are not those of their rooms."""


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import what is asked for the first time."""
    if name in _MODULES:
        return import_module(f"itofit.{name}")
    if name not in _LATER:
        raise AttributeError(f"module 'itofit' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"itofit.{_LATER[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
