"""Algorithm 1 without anything to tune: frequencies that suit the data.

The steps are those of Algorithm 1 (`itofit.learning.paper.arff`): resampling, a random walk, a Metropolis test. What
differs:

- *Groups.* With several inputs, some frequencies move along one axis only, so that what depends on one input need not
  be put together from waves in all directions. Frequencies are drawn again within their group.
- *Start.* Linear terms, products of inputs that stand out, and waves much longer than the data, with which the
  first fit is made; or shorter ones, if their evidence is larger.
- *Waves that stand out.* What a fit leaves over is compared with all half waves across the data
  (`itofit.learning.automatic.periodogram`). Those that stand out of the noise are moved to the top of their peak, then
  together to where they leave least over (`itofit.learning.automatic.refinement`). They become a group of their own,
  which does not walk; then what is left over is looked at again.
- *Step.* Every proposal has a length of its own, over one and a half decades, so that one of them is right.
- *Judge.* The evidence of the network (`itofit.learning.automatic.evidence`), which takes all rows and chooses the
  ridges on the way, after 1, 2, 4, 8, … iterations.
- *Result.* For a drift, the first of a polynomial of few terms, long waves and shorter ones (with one input), and what
  the search ended with, from which the evidence tells no other by more than two: frequencies that were chosen cost
  evidence that nothing counts.
- *End.* When the last three quarters of the iterations have brought no improvement, 4 at least, 24 if waves are still
  left over, 2 if all waves were switched off wherever they were; and what is left over is looked at once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from itofit._checks import Float
from itofit.learning.automatic.fitted_waves import FittedWaves, Targets, fitted_waves, noise_units, regressed
from itofit.learning.automatic.harmonics import stretched
from itofit.learning.automatic.known_sums import KnownSums
from itofit.learning.automatic.principal import Basis
from itofit.learning.automatic.product_terms import NO_MONOMIALS, polynomial, with_products
from itofit.learning.automatic.sparsity import OddsOfZero
from itofit.learning.automatic.walk import Walk, groups_for, long_waves
from itofit.model.training import Stop, Training
from itofit.waves.normal_equations import GriddedNormalEquations
from itofit.waves.parameters import ARFF

SHORTER, SHORTER_MANY = {1: (4.0, 16.0)}, (4.0,)
"""By how much shorter waves of a drift than those of the start are tried before the search: three times as long as the
data, and shorter than these with one input."""
MILESTONES = (32, 64, 128)
"""Iterations after which frequencies are added, if waves stand out, although the search still improves."""
ROUNDS_OF_UNITS = 2
"""In which combinations of outputs with independent noise are found; a third changes nothing."""
LEAST_EVIDENCE_GAIN = 2.0
"""Of log-evidence, for which frequencies are preferred to earlier ones, times the root of the number of outputs."""
LEAST_SHARE = 0.05
"""Of all log-evidence, that is as clear a margin where there is little of it: few data do not choose what is simple."""
LEAST_ITERATIONS, LEAST_ITERATIONS_WITH_WAVES, ITERATIONS_WITHOUT_ANY = 4, 24, 2
"""Before a search may end, without and with a wave that stood out; and where none carries anything, wherever it was."""
MOST_ITERATIONS, MOST_WORK = 256, 4e11
"""Searches that still improve then gain little more: iterations, and multiplications where sums are direct."""

C = TypeVar("C")


class Searched(NamedTuple):
    """The waves of largest evidence, and how the search for them went."""

    best: FittedWaves
    start: FittedWaves
    iteration: list[int]  # that were judged; 0 is the start
    log_evidence: list[float]  # of those
    acceptance: list[float]  # of each iteration
    seconds: list[float]
    best_iteration: int  # 0 is the start, left for a significantly larger evidence only
    n_standing_out: int  # waves that stood out of the noise at the start
    stopped: Stop
    simpler: tuple[FittedWaves, ...] = ()  # for a drift: a polynomial; with one input, long waves and shorter ones

    @property
    def improved(self) -> bool:
        """Whether the start was left for other frequencies."""
        return self.best is not self.start

    @property
    def candidates(self) -> tuple[FittedWaves, ...]:
        """What a drift may be made of, the simplest first."""
        if any(waves is self.best for waves in self.simpler):
            return self.simpler
        return (*self.simpler, self.best)

    @property
    def simplest(self) -> FittedWaves:
        """The simplest of them whose evidence is about the largest."""
        return simplest(self.candidates, lambda waves: waves.log_evidence)

    def with_odds(self, odds: OddsOfZero) -> Searched:
        """The same where it is known how likely linear terms are zero."""
        best, *simpler = (waves._replace(basis=waves.basis.with_odds(odds)) for waves in (self.best, *self.simpler))
        return self._replace(best=best, simpler=tuple(simpler))

    def training(self, arff: ARFF, basis: Basis | None, ridges: Float, determined: float) -> Training:
        """The record of a training that ended with these features, ridges and amplitudes."""
        return Training(
            judge="log-evidence",
            iteration=np.array(self.iteration, dtype=float),
            score=np.array(self.log_evidence) - self.log_evidence[0],
            acceptance=np.array(self.acceptance),
            seconds=np.array(self.seconds),
            best_iteration=self.best_iteration,
            stopped=self.stopped,
            n_features=0 if basis is None or basis.without_waves else basis.n_waves,
            parameters=arff,
            determined=determined,
            groups=np.array([], dtype=int) if basis is None else basis.groups,
            ridges=ridges,
            n_standing_out=self.n_standing_out,
        )


def simplest(candidates: Sequence[C], log_evidence: Callable[[C], float]) -> C:
    """The first of some candidates, simpler ones first, from which the evidence tells no other by a clear margin.

    Evidence is above that of a constant.
    """
    if len(candidates) == 1:
        return candidates[0]
    values = [log_evidence(each) for each in candidates]
    least = max(values) - min(LEAST_EVIDENCE_GAIN, LEAST_SHARE * max(0.0, *values))
    return next(each for each, value in zip(candidates, values, strict=True) if value >= least)


def search(
    rng: np.random.Generator,
    targets: Targets,
    arff: ARFF,
    mixed: bool = False,
    found: Float | None = None,
    on_iteration: Callable[[int, float], None] = lambda iteration, gain: None,
) -> Searched:
    """Look for the frequencies of largest evidence.

    Parameters
    ----------
    rng : Generator
    targets : Targets
    arff : ARFF
        Fields that are not None are obeyed.
    mixed : bool
        Judge combinations of the outputs whose noise is independent, instead of the outputs.
    found : array of shape (F, m), optional
        Frequencies that stood out before.
    on_iteration : callable, optional
        Called as on_iteration(i, gain) with the gain of log-evidence over the start.
    """
    gridded = isinstance(targets.equations, GriddedNormalEquations)
    targets = targets._replace(equations=KnownSums(targets.equations))
    group = groups_for(targets.n, targets.n_inputs, arff.n_features)
    omega, none = long_waves(rng, group, targets), np.empty((0, targets.n_inputs))
    V = np.diag(np.sqrt(targets.n / np.diagonal(targets.squares)))
    start, products = fitted_waves(omega, group, none, targets, V, arff.ridge), NO_MONOMIALS
    if targets.linear_stays and targets.n_inputs > 1 and arff.ridge is None and arff.n_features is None:
        start, products = with_products(start, targets)
    for _ in range(ROUNDS_OF_UNITS if mixed else 0):
        V = noise_units(start, targets)
        start = regressed(*start[:4], targets, V, arff.ridge)
    judge = _Judge(start, on_iteration)
    walk = Walk(rng, targets, arff, V, omega, group, products)
    _look_first(walk, judge, none if found is None else found)
    n_left = walk.seed()
    n_standing_out = len(walk.found) + n_left
    most = _most_iterations(walk, gridded) if arff.max_iterations is None else arff.max_iterations
    needed = LEAST_ITERATIONS_WITH_WAVES if n_left else LEAST_ITERATIONS
    least = min(needed if arff.min_iterations is None else arff.min_iterations, most)
    empty = ITERATIONS_WITHOUT_ANY if arff.min_iterations is None and not n_left else least
    stopped: Stop = "max_iterations"
    i, due = 0, 1
    while i < most:
        walk.step()
        i += 1
        if i not in (due, most):
            continue
        judge(i, walk.fitted())
        due = max(i + 1, min(2 * i, most))
        settled = i >= max(least if judge.any_waves else empty, 4 * judge.best_iteration)
        if settled or i in MILESTONES:
            extended = walk.extended(judge.best) if i < most else None
            if extended is not None:
                judge(i, extended)
                least, due = i + LEAST_ITERATIONS, i + 1
            elif settled:
                stopped = "evidence"
                break
    return Searched(
        best=judge.best,
        start=start,
        iteration=judge.iterations,
        log_evidence=judge.values,
        acceptance=walk.acceptance,
        seconds=walk.seconds,
        best_iteration=judge.best_iteration,
        n_standing_out=n_standing_out,
        stopped=stopped,
        simpler=tuple(judge.simpler),
    )


def _most_iterations(walk: Walk, gridded: bool) -> int:
    """As many as are affordable."""
    if gridded:
        return MOST_ITERATIONS
    n_waves = 2 * (len(walk.omega) + len(walk.found))
    affordable = MOST_WORK / (2 * len(walk.targets.u) * n_waves**2)
    return int(np.clip(affordable, LEAST_ITERATIONS_WITH_WAVES, MOST_ITERATIONS))


class _Judge:
    """Who keeps the waves of largest evidence, beginning with those of the start."""

    def __init__(self, start: FittedWaves, on_iteration: Callable[[int, float], None]) -> None:
        self.start = self.best = start
        self.best_iteration, self.on_iteration = 0, on_iteration
        self.iterations, self.values = [0], [start.log_evidence]
        self.any_waves = start.any_waves
        self.simpler: list[FittedWaves] = []

    def __call__(self, i: int, waves: FittedWaves, least_gain: float = LEAST_EVIDENCE_GAIN) -> None:
        """Judge the waves of an iteration."""
        self.iterations.append(i)
        self.values.append(waves.log_evidence)
        self.any_waves |= waves.any_waves
        if waves.log_evidence > self.best.log_evidence + least_gain * np.sqrt(len(waves.V)):
            self.best, self.best_iteration = waves, i
        self.on_iteration(i, self.best.log_evidence - self.start.log_evidence)


def _look_first(walk: Walk, judge: _Judge, found: Float) -> None:
    """Add waves that stand out to those of the start and to shorter ones; walks begin where evidence is largest.

    They stand out of what the start leaves over, or of what linear terms alone do.
    """
    (omega, group), start = judge.start.walking, judge.start
    walk.found = found
    looked = walk.look(walk.fitted() if len(found) else start)
    if looked is not start:
        judge(0, looked)
        walk.go_to(omega, group, found)
        if len(found) or not walk.targets.periodic.all():  # there are linear terms, or waves that stood out before
            judge(0, walk.look(walk.fitted_without_long_waves()))  # long ones distort peaks of hardly shorter ones
    of_drift = walk.targets.linear_stays and walk.arff.ridge is None
    if walk.n_inputs == 1 and of_drift:
        judge.simpler.append(start)
    for times in SHORTER.get(walk.n_inputs, SHORTER_MANY) if walk.targets.linear_stays else ():
        walk.go_to(stretched(walk.rng, omega, times, walk.reach, walk.targets.periodic), group, found)
        shorter = walk.fitted()
        terms = walk.arff.n_features is None and not walk.targets.periodic.all()
        if of_drift and terms and times == SHORTER_MANY[0]:
            judge.simpler.insert(0, polynomial(shorter, walk.targets))
        if walk.n_inputs == 1 and of_drift:
            judge.simpler.append(shorter)
        if shorter.log_evidence > start.log_evidence:
            judge(0, walk.look(shorter), least_gain=0.0)  # for as much evidence the more flexible ones
    walk.go_to(*judge.best.walking, judge.best.found)
    walk.compare(judge.best)
