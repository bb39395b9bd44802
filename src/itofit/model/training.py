"""What a model says of its origin: the data, how its functions were learned, what was compared and corrected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, InputError, Int
from itofit.data.names import plural, shown_range
from itofit.data.periods import is_periodic
from itofit.data.units import behind
from itofit.matrices.links import LinkName
from itofit.matrices.symmetric import Structure
from itofit.model.finite_step import trusted
from itofit.waves.parameters import ARFF
from itofit.waves.series import FourierSeries
from itofit.waves.wave_groups import depends_on, terms_in_words

if TYPE_CHECKING:
    from itofit.model.formula.formula_sde import Formula
    from itofit.model.learned import LearnedSDE

Judge = Literal["validation error", "log-evidence"]
Stop = Literal["stagnation", "evidence", "max_iterations"]

SWITCHED_OFF = 1e12
"""The ridge of a group of waves that the data have switched off: far above any that shrinks an amplitude only."""
MOST_PLACES = 2000
"""Inputs of its data that a model keeps: enough to see where data are, and 16 kB for each variable."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Training:
    """How a function was learned: Algorithm 1's search for frequencies, and what it ended with.

    Parameters
    ----------
    judge : {"validation error", "log-evidence"}
        What judged the networks: the mean squared error on held-out rows, in scaled units, which should be small, as in
        the paper; or the evidence of all rows, relative to the start's, which should be large.
    iteration, score : arrays of shape (J,)
        The iterations whose network was judged, and its score; the first is the start, iteration 0.
    acceptance, seconds : arrays of shape (M,)
        Share of the proposed frequencies that each iteration accepted, and its duration.
    best_iteration : int
        The iteration whose network was kept; 0 is the start.
    stopped : {"stagnation", "evidence", "max_iterations"}
        What ended the search: scores that no longer improved, or the limit.
    n_features : int
        Number of frequencies.
    parameters : ARFF
        Algorithm 1's parameters; None in a field: chosen from the data on the way.
    determined : float
        Number of amplitudes that the data determine; all of them if the ridge was not chosen from the data.
    groups : array of shape (G,)
        The groups of frequencies, as `itofit.waves.wave_groups` counts them: i moves along input i, the number of
        inputs (0, if there is one) in all directions.
    ridges : array of shape (p, G)
        Ridge of each output and group; 1e12 where the data have switched it off, and for linear terms that are zero
        within their error.
    n_standing_out : int
        Short waves that stood out of the noise at the start of the search.
    """

    judge: Judge
    iteration: Float
    score: Float
    acceptance: Float
    seconds: Float
    best_iteration: int
    stopped: Stop
    n_features: int
    parameters: ARFF
    determined: float
    groups: Int
    ridges: Float
    n_standing_out: int = 0

    @property
    def n_iterations(self) -> int:
        """M, the number of iterations made."""
        return len(self.acceptance)

    @property
    def by_evidence(self) -> bool:
        """Whether the data decided what each output depends on."""
        return self.judge == "log-evidence"

    @property
    def best_score(self) -> float:
        """The best of the scores."""
        return float(self.score.max() if self.by_evidence else self.score.min())

    def depends_on(self, output: int, inputs: tuple[str, ...]) -> str | None:
        """What one output depends on, in words that use the names of the inputs; None if it is constant."""
        groups = self.groups[self.ridges[output] < SWITCHED_OFF]
        terms = self.polynomial and bool((groups < -len(inputs)).any())  # else it is linear
        return terms_in_words(groups, inputs) if terms else depends_on(groups, inputs)

    @property
    def polynomial(self) -> bool:
        """Whether all that was learned are linear terms and monomials."""
        return self.n_features == 0 and bool((self.groups < 0).any())

    def __repr__(self) -> str:
        best = f"best {self.judge} {self.best_score:.4g}, iteration {self.best_iteration} kept"
        return (
            f"Training({self.n_features} features, {self.n_iterations} iterations in {self.seconds.sum():.2f} s, "
            f"stopped by {self.stopped}, {best})"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedFunction:
    """A function that was learned.

    Parameters
    ----------
    series : FourierSeries
        The function.
    training : Training
        How it was learned.
    spread : FourierSeries or None
        Functions whose squares add up to the variances of its values, as many for each output; None if it was learned
        without error bars.
    """

    series: FourierSeries
    training: Training
    spread: FourierSeries | None = None

    def std(self, x: npt.ArrayLike) -> Float:
        """Standard deviations of the values at points x of shape (n, m): shape (n, p)."""
        if self.spread is None:
            raise InputError(
                "this model carries no error bars: they belong to what fit learns by default, with refine=True"
            )
        return np.sqrt(variances(self.spread(x), self.series.n_outputs))


def variances(values: Float, p: int) -> Float:
    """Of p outputs, from values (n, p·q) of functions whose squares add up to them: shape (n, p)."""
    return np.asarray((values.reshape(len(values), p, values.shape[1] // p) ** 2).sum(axis=2))


def with_members(own: Float, values: Float, others: list[Float], bootstrapped: bool) -> Float:
    """Standard deviations of values with what other fits say of them.

    Two fits of the same data differ by twice the variance that the choice of frequencies gives to one. Those of data
    sets that were drawn with replacement differ by all that there is.
    """
    if not others:
        return own
    if bootstrapped:
        return np.asarray(np.std(others, axis=0, ddof=1))
    return np.sqrt(own**2 + 0.5 * np.mean([(other - values) ** 2 for other in others], axis=0))


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Transitions that a model was not learned from, because they took too long.

    Parameters
    ----------
    n : int
        How many.
    max_h : float
        The time that all of them took longer than.
    longest : float
        What the longest took.
    """

    n: int
    max_h: float
    longest: float

    def text(self, time_unit: str = "") -> str:
        """In words."""
        clock = behind(time_unit)
        return f"{self.n} longer than {self.max_h:.3g}{clock} left out (up to {self.longest:.3g}{clock})"


@dataclass(frozen=True, kw_only=True)
class Work:
    """What was done on a cluster, and what on the client.

    Parameters
    ----------
    n_passes : int
        Passes over the data that workers made; 0 if the data were in the client's memory.
    n_workers : int
        The most workers that there were.
    pass_seconds, client_seconds : float
        The time that these passes took, and that of everything else.
    """

    n_passes: int
    n_workers: int
    pass_seconds: float
    client_seconds: float

    def __str__(self) -> str:
        if not self.n_passes:
            return f"all of it on the client, in whose memory the data are, in {self.client_seconds:.1f} s"
        workers = plural(self.n_workers, "worker")
        passes = f"{self.n_passes} passes over the data on {workers} in {self.pass_seconds:.1f} s"
        return f"{passes}; {self.client_seconds:.1f} s on the client, with sums and samples of them"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Places:
    """Where data were: the inputs of some transitions, drawn at random, in no order.

    Parameters
    ----------
    inputs : array of shape (k, m)
        At most `MOST_PLACES` of them, all if there are fewer. Where states are hidden they were drawn from what
        observations say of them.
    """

    inputs: Float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Places) and np.array_equal(self.inputs, other.inputs)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Places({plural(len(self.inputs), 'input')})"


@dataclass(frozen=True, kw_only=True)
class DataSummary:
    """What a model was learned from, in a few numbers; and some places at which it was."""

    n_transitions: int
    n_groups: int | None
    h_min: float
    h_mean: float
    h_max: float
    left_out: LeftOut | None = None
    work: Work | None = None  # on a cluster, if a client was given
    told: float | None = None  # share of the variance of an observation that the one before it tells, if hardly any
    places: Places | None = None  # None in models within models, and in files of before there were any

    def __str__(self) -> str:
        return self.text()

    def text(self, time_unit: str = "") -> str:
        """In a line, with the unit of time if it is known."""
        groups = "" if self.n_groups is None else f" in {plural(self.n_groups, 'group')}"
        left_out = "" if self.left_out is None else f"; {self.left_out.text(time_unit)}"
        told = "" if self.told is None else f"; an observation tells {100 * self.told:.1g} % of the next"
        h = f"{shown_range(self.h_min, self.h_max)}{behind(time_unit)}"
        return f"{plural(self.n_transitions, 'transition')}{groups}, h = {h}{left_out}{told}"


def learned_from(sde: LearnedSDE | Formula, n: int, low: Float, high: Float) -> bool:
    """Whether n transitions with inputs between low and high, (m,) each, are by that those a model was learned from."""
    own = ~is_periodic(sde.periods)  # of others the range is a period, whatever the data
    return n == sde.data.n_transitions and np.array_equal(np.stack([low, high])[:, own], sde.box[:, own])


StepOutcome = Literal["corrected", "too small", "uncertain", "too long"]
NOT_CORRECTED: dict[StepOutcome, str] = {
    "too small": "what it makes of f and Σ is less than the data can show",
    "uncertain": "what it makes of f and Σ cannot be told from noise",
    "too long": "no drift and covariance were found that make such steps",
}
"""Why drift and covariance were not corrected for the length of steps, in words."""


class Candidate(NamedTuple):
    """A covariance that was tried, and its loss on folds that it was not fitted to."""

    structure: Structure
    frequencies: str  # "start", "search", or "none" for a constant
    link: LinkName
    loss: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StepCorrection:
    """How far drift and covariance were corrected for the length of the observed steps.

    Parameters
    ----------
    h : float
        Mean length of the steps, weighted by their length.
    signal : array of shape (d,)
        Mean square of the drift's correction over the data, without its noise.
    drift_change, covariance_change : float
        Root mean square of what was corrected, relative to that of the drift and to Σ.
    drift_trust, covariance_trust : float
        Share of what the length of the steps makes of them that was corrected, over all data.
    distrusted : float
        Share of the data at which less than half of the drift's was.
    excess : float
        Loss of the data with the steps that the corrected drift and covariance make, above that with what was learned
        of one step, in nats per transition.
    rounds : int
        How often drift and covariance were corrected with the steps that they themselves make.
    lengths_chosen : bool
        Whether the paths chose the lengths of their steps, so that Σ was left as it was.
    outcome : {"corrected", "too small", "uncertain", "too long"}
        Whether it was corrected. If not: because the data could not show such a correction; because it is less than
        its uncertainty; or because no drift and covariance were found that make such steps.
    spread : FourierSeries
        Functions whose squares add up to the variances of the noise in the drift of one step, by which trust in its
        correction is measured.
    """

    h: float
    signal: Float
    drift_change: float
    covariance_change: float
    drift_trust: float
    covariance_trust: float
    distrusted: float
    excess: float
    rounds: int
    lengths_chosen: bool
    outcome: StepOutcome
    spread: FourierSeries

    def trust(self, variance: Float, squares: Float) -> Float:
        """The share of corrections that is made, given their variances and squares: all of shape (n, d)."""
        return trusted(self.signal, variance, squares)

    @property
    def withheld(self) -> bool:
        """Whether nothing was corrected."""
        return self.outcome != "corrected"

    def __str__(self) -> str:
        return self.text()

    def text(self, time_unit: str = "") -> str:
        """In a line, with the unit of time if it is known."""
        h = f"{self.h:.4g}{behind(time_unit)}"
        if self.withheld:
            return f"not corrected for h = {h}: {NOT_CORRECTED[self.outcome]}"
        held = f"; held back at {self.distrusted:.1%} of the data" if self.distrusted >= 0.0005 else ""
        return f"corrected for h = {h}: {self._drift_text()}, {self._covariance_text()}{held}"

    def __repr__(self) -> str:
        return f"StepCorrection({self})"

    def _drift_text(self) -> str:
        if not self.signal.any():
            return f"f not, since {NOT_CORRECTED['uncertain']}"
        return f"f by {self.drift_change:.2%} ({self.drift_trust:.0%} of what the length makes of it)"

    def _covariance_text(self) -> str:
        if self.lengths_chosen:
            return "Σ not, since the paths chose the lengths of their steps"
        return f"Σ by {self.covariance_change:.2%} ({self.covariance_trust:.0%})"
