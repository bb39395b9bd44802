"""Algorithm 1 without anything to tune: frequencies that suit the data.

The steps are those of Algorithm 1 (`itofit.learning.paper.arff`): resampling, a random walk, a Metropolis test. What
differs:

- *Groups.* With several inputs, some frequencies move along one axis only, so that what depends on one input need not
  be put together from waves in all directions. Frequencies are drawn again within their group.
- *Start.* Waves much longer than the data, with which the first fit is made. What it leaves over is compared with a
  grid of shorter waves, and half of the frequencies start at those that stand out of the noise, if any do.
- *Step.* Every proposal has a length of its own, over one and a half decades, so that one of them is right.
- *Judge.* The evidence of the network (`itofit.learning.automatic.evidence`), which takes all rows and chooses the
  ridges on the way, after 1, 2, 4, 8, … iterations.
- *End.* When the last three quarters of the iterations have brought no improvement, 4 at least, 24 if a wave stood out.
- *Number.* Where waves still stand out of the noise at the end, half as many frequencies are added, at those, and the
  search goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from itofit._blocks import map_chunks, one_blas_thread
from itofit._checks import Float, Int
from itofit.learning.automatic.evidence import Basis, Regression, principal_features, regress
from itofit.learning.metropolis import Kernel, magnitude, metropolis_step
from itofit.model.training import SWITCHED_OFF, Stop, Training
from itofit.waves.normal_equations import NormalEquations
from itofit.waves.parameters import ARFF
from itofit.waves.series import feature_blocks

START = 0.5
"""Spread of the frequencies at the start: waves twelve times as long as the data."""
SHORTEST_STEP, LONGEST_STEP = 0.1, 3.0
"""Of proposals, whose lengths are spread evenly over one and a half decades: one of them is right."""
RIDGE = 1e-4
"""Of the solves between which frequencies move; the ridges of the result are chosen from the data."""
MILESTONES = (32, 64, 128)
"""Iterations after which frequencies are added, if waves stand out, although the search still improves."""
ROUNDS_OF_UNITS = 2
"""In which combinations of outputs with independent noise are found; a third changes nothing."""
LEAST_EIGENVALUE = 1e-14
"""Of the residuals' covariance, relative to that of the targets: less is rounding."""
LEAST_EVIDENCE_GAIN = 2.0
"""Of log-evidence, for which frequencies are preferred to earlier ones."""
LEAST_ITERATIONS, LEAST_ITERATIONS_WITH_WAVES = 4, 24
"""Before a search may end, without and with a wave that stood out."""
MOST_ITERATIONS = 256
"""Searches that still improve then gain little more."""
FEATURES_ALONE = 48
"""Frequencies to start with, for one input."""
FEATURES_OF_AXIS, FEATURES_OF_AXIS_MANY = {2: 16, 3: 16}, 12
"""The same along each axis of two, three and more inputs."""
FEATURES_OF_ALL, FEATURES_OF_ALL_MANY = {2: 32, 3: 48}, 96
"""The same in all directions."""
ROWS_PER_FEATURE = 8
"""Fewer rows for each frequency determine none of its amplitudes."""
MOST_FEATURES = 512
"""Beyond, solves take seconds."""
REACH, REACH_MANY = {1: 256.0, 2: 60.0, 3: 24.0}, 24.0
"""Frequencies beyond are not proposed: 40, 10 and 4 waves across the data."""
MOST_SCREENED = 6_000
"""Points that the comparison takes, at most."""
SCREENED = 512
"""Frequencies that what the first fit leaves over is compared with, for more than one input."""
FALSE_ALARM, FALSE_ALARM_AFTER_ONE = 0.01, 0.05
"""Probability that noise alone gives the search a frequency, before and after one has stood out."""


class FittedWaves(NamedTuple):
    """Frequencies, and the regression on them of the outputs V y."""

    basis: Basis
    A: Float  # (R, R): XᵀWX
    b: Float  # (R, p): XᵀWy
    V: Float  # (p, p)
    fits: list[Regression]

    @property
    def log_evidence(self) -> float:
        """Of all outputs."""
        return sum(fit.log_evidence for fit in self.fits)

    @property
    def amplitudes(self) -> Float:
        """Of y, shape (R, p)."""
        return np.column_stack([fit.c for fit in self.fits]) @ np.linalg.inv(self.V).T

    @property
    def basis_in_use(self) -> Basis | None:
        """The features of the groups of which the data determine something for an output; None if there are none."""
        ridges = np.min([fit.ridges for fit in self.fits], axis=0)
        groups = np.unique(self.basis.group)[ridges < SWITCHED_OFF]
        return self.basis.of_groups(groups) if len(groups) else None


class Searched(NamedTuple):
    """The waves of largest evidence, and how the search for them went."""

    best: FittedWaves
    start: FittedWaves
    iteration: list[int]  # that were judged; 0 is the start
    log_evidence: list[float]  # of those
    acceptance: list[float]  # of each iteration
    seconds: list[float]
    best_iteration: int  # 0 is the start, left for a significantly larger evidence only
    n_standing_out: int  # frequencies of the grid that stood out of the noise at the start
    stopped: Stop

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
            n_features=0 if basis is None else len(basis.omega),
            parameters=arff,
            determined=determined,
            groups=np.array([], dtype=int) if basis is None else np.unique(basis.group),
            ridges=ridges,
            n_standing_out=self.n_standing_out,
        )


class Targets(NamedTuple):
    """What a search learns: values y at points u, of weighted mean zero."""

    u: Float  # (n, m)
    y: Float  # (n, p)
    weight: Float  # (n,)
    squares: Float  # (p, p): Σ w y yᵀ over what stands behind the points, of which there may be several for each
    n: float  # number of observations
    equations: NormalEquations  # of u, y and weight
    spread: Float  # (m,): by how much the range of the points exceeds that of most of them

    @property
    def n_inputs(self) -> int:
        """The number m of inputs."""
        return self.u.shape[1]


def fitted_waves(omega: Float, group: Int, targets: Targets, V: Float, ridge: float | None) -> FittedWaves:
    """The regression of V y on the principal features of some frequencies."""
    zero = np.zeros((1, omega.shape[1]))
    gram, right = targets.equations.real_gram(np.concatenate([omega, zero]))
    basis, A, b = principal_features(omega, group, gram, right)
    return regressed(basis, A, b, targets, V, ridge)


def regressed(basis: Basis, A: Float, b: Float, targets: Targets, V: Float, ridge: float | None) -> FittedWaves:
    """The regression of V y, for A and b = Xᵀ W y."""
    squares, right = np.einsum("ij,jk,ik->i", V, targets.squares, V), b @ V.T
    with one_blas_thread:
        fits = [regress(A, right[:, j], float(squares[j]), targets.n, basis, ridge) for j in range(len(V))]
    return FittedWaves(basis, A, b, V, fits)


def noise_units(waves: FittedWaves, targets: Targets) -> Float:
    """V such that the residuals of V y are uncorrelated and of unit variance."""
    c = waves.amplitudes
    mixed = targets.squares - waves.b.T @ c - c.T @ waves.b + c.T @ waves.A @ c
    scale = 1 / np.sqrt(np.diagonal(targets.squares))
    values, vectors = np.linalg.eigh(mixed * np.outer(scale, scale))
    values = np.maximum(values, LEAST_EIGENVALUE) * (1 / targets.n)
    return np.asarray((vectors / np.sqrt(values)).T * scale)


def groups_for(n_rows: float, n_inputs: int, n_features: int | None) -> Int:
    """The group of each frequency: with several inputs, group i moves along axis i, the last one in all directions."""
    if n_inputs == 1:
        sizes = [FEATURES_ALONE]
    else:
        axis = FEATURES_OF_AXIS.get(n_inputs, FEATURES_OF_AXIS_MANY)
        sizes = [axis] * n_inputs + [FEATURES_OF_ALL.get(n_inputs, FEATURES_OF_ALL_MANY)]
    if n_features is not None:
        cut = np.round(np.cumsum([0, *sizes]) * (n_features / sum(sizes))).astype(int)
        sizes = list(np.diff(cut))
    else:
        most = max(n_rows / ROWS_PER_FEATURE, 8.0 * len(sizes))
        sizes = [max(int(size * min(1.0, most / sum(sizes))), 4) for size in sizes]
    return np.repeat(np.arange(len(sizes)), sizes)


def directions(group: Int, n_inputs: int) -> Float:
    """Which components of each frequency may differ from zero: an array of zeros and ones of shape (K, m)."""
    if n_inputs == 1:
        return np.ones((len(group), 1))
    return np.concatenate([np.eye(n_inputs), np.ones((1, n_inputs))])[group]


def reach_of(n_inputs: int) -> float:
    """The largest frequency that is proposed."""
    return REACH.get(n_inputs, REACH_MANY)


def search(
    rng: np.random.Generator,
    targets: Targets,
    arff: ARFF,
    mixed: bool = False,
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
    on_iteration : callable, optional
        Called as on_iteration(i, gain) with the gain of log-evidence over the start.
    """
    group = groups_for(targets.n, targets.n_inputs, arff.n_features)
    omega = long_waves(rng, group, targets)
    V = np.diag(np.sqrt(targets.n / np.diagonal(targets.squares)))
    best = fitted_waves(omega, group, targets, V, arff.ridge)
    for _ in range(ROUNDS_OF_UNITS if mixed else 0):
        V = noise_units(best, targets)
        best = regressed(*best[:3], targets, V, arff.ridge)
    start, best_iteration = best, 0
    walk = _Walk(rng, targets, arff, V, omega, group)
    iterations, values = [0], [best.log_evidence]

    def judge(i: int) -> None:
        nonlocal best, best_iteration
        waves = fitted_waves(walk.omega, walk.group, targets, V, arff.ridge)
        iterations.append(i)
        values.append(waves.log_evidence)
        if waves.log_evidence > best.log_evidence + LEAST_EVIDENCE_GAIN:
            best, best_iteration = waves, i
        on_iteration(i, best.log_evidence - start.log_evidence)

    n_standing_out = walk.seed(start)
    most = MOST_ITERATIONS if arff.max_iterations is None else arff.max_iterations
    needed = LEAST_ITERATIONS_WITH_WAVES if n_standing_out else LEAST_ITERATIONS
    least = min(needed if arff.min_iterations is None else arff.min_iterations, most)
    stopped: Stop = "max_iterations"
    i, due = 0, 1
    while i < most:
        walk.step()
        i += 1
        if i not in (due, most):
            continue
        judge(i)
        due = max(i + 1, min(2 * i, most))
        settled = i >= max(least, 4 * best_iteration)
        if settled or i in MILESTONES:
            if arff.n_features is None and i < most and walk.extend(best):
                judge(i)
                least, due = i + LEAST_ITERATIONS, i + 1
            elif settled:
                stopped = "evidence"
                break
    return Searched(
        best=best,
        start=start,
        iteration=iterations,
        log_evidence=values,
        acceptance=walk.acceptance,
        seconds=walk.seconds,
        best_iteration=best_iteration,
        n_standing_out=n_standing_out,
        stopped=stopped,
    )


def long_waves(rng: np.random.Generator, group: Int, targets: Targets) -> Float:
    """Frequencies (K, m) to start from: waves much longer than the data."""
    free = directions(group, targets.n_inputs)
    spread = np.minimum(START * targets.spread, reach_of(targets.n_inputs) / 4)
    return np.asarray(free * spread * rng.standard_normal(free.shape))


def _power(grid: Float, u: Float, strengths: Float) -> Float:
    """|Σ s exp(iω·u)|² / Σ s² at each frequency of a grid, of which noise has the mean one; the largest of all s."""

    def sums(chunk: slice) -> Float:
        return sum(
            (CD @ strengths[block] for block, CD in feature_blocks(grid, u, chunk)),
            start=np.zeros((2 * len(grid), strengths.shape[1])),
        )

    total: Float = sum(map_chunks(sums, len(u)), start=np.zeros(1))
    squares = total[: len(grid)] ** 2 + total[len(grid) :] ** 2
    return np.asarray((squares / (strengths**2).sum(axis=0)).max(axis=1))


class _Walk:
    """The frequencies on their way: Algorithm 1's iterations within groups."""

    def __init__(
        self, rng: np.random.Generator, targets: Targets, arff: ARFF, V: Float, omega: Float, group: Int
    ) -> None:
        self.rng, self.targets, self.arff, self.V, self.omega, self.group = rng, targets, arff, V, omega, group
        self.n_inputs = targets.n_inputs
        self.reach = reach_of(self.n_inputs)
        self.free = directions(group, self.n_inputs)
        self.ridge = RIDGE if arff.ridge is None else arff.ridge
        self.false_alarm = FALSE_ALARM
        self.smooth: Float | None = None  # frequencies that leave nothing over
        self.acceptance: list[float] = []
        self.seconds: list[float] = []
        self.kernel = Kernel(
            sizes=self._sizes,
            propose=self._proposal,
            resample=arff.resample,
            pairing=arff.pairing or "printed",
            gamma=1.0 if arff.gamma is None else arff.gamma,
        )

    def step(self) -> None:
        """One iteration: resampling, proposal, Metropolis test."""
        began = time.perf_counter()
        with one_blas_thread:
            moved = metropolis_step(self.rng, self.omega, self._sizes(self.omega), self.kernel, self._members())
        self.omega = moved.omega
        self.acceptance.append(float(moved.accepted.mean()))
        self.seconds.append(time.perf_counter() - began)

    def _sizes(self, omega: Float) -> Float:
        """|β̂_k| for the outputs V y."""
        return magnitude(self.targets.equations.solve(omega, self.ridge) @ self.V.T)

    def _proposal(self, rng: np.random.Generator, omega: Float) -> Float:
        """Steps of many lengths, in the free directions, that stay within reach."""
        K = len(omega)
        if self.arff.delta is None:
            delta = np.exp(rng.uniform(np.log(SHORTEST_STEP), np.log(LONGEST_STEP), (K, 1)))
        else:
            delta = np.full((K, 1), self.arff.delta)
        proposal = omega + self.free * delta * rng.standard_normal(omega.shape)
        return np.where(np.abs(proposal).max(axis=1, keepdims=True) > self.reach, omega, proposal)

    def _members(self) -> list[Int]:
        return [np.flatnonzero(self.group == g) for g in np.unique(self.group)]

    def seed(self, start: FittedWaves) -> int:
        """Let half of each group start at waves that stand out of the noise of the first fit; how many there are."""
        waves, size = self._standing_out(start)
        self.omega = self.omega.copy()  # the start keeps its own
        if not len(waves):
            self.smooth = start.basis.omega
        for places in self._members():
            drawn = self._drawn(waves, size, self.free[places[0]], (len(places) + 1) // 2)
            self.omega[places[: len(drawn)]] = drawn
        return len(waves)

    def extend(self, best: FittedWaves) -> bool:
        """Go on from the best frequencies with half as many more, at waves that they leave over, if there are any."""
        K = len(best.basis.omega)
        if min(MOST_FEATURES, self.targets.n / ROWS_PER_FEATURE) < 3 * K // 2 or len(self.group) > K:
            return False  # or the last extension was for nothing
        if best.basis.omega is self.smooth:  # which has been looked at
            return False
        waves, size = self._standing_out(best)
        added = [self._drawn(waves, size, self.free[places[0]], len(places) // 2) for places in self._members()]
        if not sum(map(len, added)):
            return False
        kept = [best.basis.omega[self.group == g] for g in np.unique(self.group)]
        self.omega = np.concatenate([omega for pair in zip(kept, added, strict=True) for omega in pair])
        sizes = [len(old) + len(new) for old, new in zip(kept, added, strict=True)]
        self.group = np.repeat(np.unique(self.group), sizes)
        self.free = directions(self.group, self.n_inputs)
        return True

    def _standing_out(self, fit: FittedWaves) -> tuple[Float, Float]:
        """Waves of the grid that stand out of the noise in what a fit leaves over, and their sizes."""
        targets, grid = self.targets, self._grid()
        rows = slice(None, None, -(-len(targets.u) // MOST_SCREENED))
        u = np.ascontiguousarray(targets.u[rows])
        left = (targets.y[rows] - fit.basis.at(u) @ fit.amplitudes) @ self.V.T
        power = _power(grid, u, (left.T * targets.weight[rows]).T)
        stands_out = power > np.log(power.size * left.shape[1] / self.false_alarm)
        if stands_out.any():
            self.false_alarm = FALSE_ALARM_AFTER_ONE
        return grid[stands_out], np.sqrt(power[stands_out])

    def _drawn(self, waves: Float, size: Float, free: Float, n: int) -> Float:
        """As many of the waves that move in free directions only, larger ones more often; none if there is none."""
        possible = np.flatnonzero((waves * (1 - free) == 0).all(axis=1))
        if not len(possible):
            return np.empty((0, self.n_inputs))
        return waves[self.rng.choice(possible, n, p=size[possible] / size[possible].sum())]

    def _grid(self) -> Float:
        """Frequencies to compare with: all half waves in one dimension, else random ones, a quarter along the axes."""
        m = self.n_inputs
        if m == 1:
            return np.pi * np.arange(1.0, 1 + self.reach // np.pi)[:, None]
        M = SCREENED
        length = np.exp(self.rng.uniform(np.log(4.0), np.log(0.8 * self.reach), (M, 1)))
        direction = self.rng.standard_normal((M, m))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        direction[: M // 4] = np.eye(m)[np.arange(M // 4) % m]
        return length * direction
