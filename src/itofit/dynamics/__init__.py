"""Answers from an equation: where it rests, how long until it leaves, what it looks like in the long run.

Every function takes an equation, learned or known, and returns an answer with `value`, `std`, `interval(level)` and
`plot(ax)`; printed, it says what it is. Errors are those of the posterior: each answer is computed for `samples`
equations drawn from it (`LearnedSDE.sample`). Times are in the units of the data's h. Answers about the long run and
about passages come from a grid of cells over the range of the data, with reflecting edges, for up to three variables,
and from simulation beyond.

>>> from itofit import dynamics
>>> dynamics.fixed_points(sde)                                       # doctest: +SKIP
>>> dynamics.first_passage_time(sde, start=-1, target=1)             # doctest: +SKIP
"""

from itofit.dynamics.answers import Answer, Edge
from itofit.dynamics.cycles import Period, period
from itofit.dynamics.long_run import (
    Current,
    Density,
    OnGrid,
    entropy_production,
    probability_current,
    quasi_potential,
    stationary_density,
)
from itofit.dynamics.outlook import Outlook, outlook
from itofit.dynamics.passages import (
    ExitProbabilities,
    PassageTime,
    escape_rate,
    exit_probabilities,
    first_passage_time,
)
from itofit.dynamics.relaxation import Autocorrelation, RelaxationTimes, autocorrelation, relaxation_times
from itofit.dynamics.resting import FixedPoints, fixed_points
from itofit.dynamics.wells import Potential, potential
from itofit.dynamics.zero_lines import Nullclines, nullclines

__all__ = [
    "Answer",
    "Autocorrelation",
    "Current",
    "Density",
    "Edge",
    "ExitProbabilities",
    "FixedPoints",
    "Nullclines",
    "OnGrid",
    "Outlook",
    "PassageTime",
    "Period",
    "Potential",
    "RelaxationTimes",
    "autocorrelation",
    "entropy_production",
    "escape_rate",
    "exit_probabilities",
    "first_passage_time",
    "fixed_points",
    "nullclines",
    "outlook",
    "period",
    "potential",
    "probability_current",
    "quasi_potential",
    "relaxation_times",
    "stationary_density",
]


def __dir__() -> list[str]:
    return sorted(__all__)
