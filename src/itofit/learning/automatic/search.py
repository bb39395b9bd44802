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
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from itofit._blocks import map_chunks, one_blas_thread
from itofit._checks import Float, Int
from itofit.learning.automatic.evidence import OFF, Basis, Regression, principal_features, regress
from itofit.learning.paper.arff import ARFF, draw, magnitude
from itofit.waves.normal_equations import NormalEquations
from itofit.waves.series import feature_blocks

SearchStop = Literal["evidence", "max_iterations"]

START = 0.5
"""Spread of the frequencies at the start: waves twelve times as long as the data."""
SHORTEST_STEP, LONGEST_STEP = 0.1, 3.0
RIDGE = 1e-4
"""Of the solves between which frequencies move; the ridges of the result are chosen from the data."""
MILESTONES = (32, 64, 128)
"""Iterations after which frequencies are added, if waves stand out, although the search still improves."""
ROUNDS_OF_UNITS = 2
LEAST_NOISE = 1e-14
LEAST_GAIN = 2.0
"""Of log-evidence, for which frequencies are preferred to earlier ones."""
LEAST_ITERATIONS, LEAST_ITERATIONS_WITH_WAVES = 4, 24
MOST_ITERATIONS = 256
FEATURES_ALONE = 48
FEATURES_OF_AXIS = {2: 16, 3: 16}
FEATURES_OF_AXIS_MANY = 12
FEATURES_OF_ALL = {2: 32, 3: 48}
FEATURES_OF_ALL_MANY = 96
ROWS_PER_FEATURE = 8
MOST_FEATURES = 512
REACH = {1: 256.0, 2: 60.0, 3: 24.0}
REACH_MANY = 24.0
"""Frequencies beyond are not proposed."""
MOST_SCREENED = 6_000
"""Points that the comparison takes, at most."""
SCREENED = 512
"""Frequencies that what the first fit leaves over is compared with, for more than one input."""
FALSE_ALARM, FALSE_ALARM_AFTER_ONE = 0.01, 0.05
"""Probability that noise alone gives the search a frequency, before and after one has stood out."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SearchHistory:
    """How an automatic search went.

    Parameters
    ----------
    iteration : array of shape (J,)
        The iterations whose network was judged; 0 is the start.
    log_evidence : array of shape (J,)
        Of those networks, relative to the start.
    acceptance, seconds : arrays of shape (M,)
        Share of the proposals that each iteration accepted, and its duration.
    best_iteration : int
        The iteration whose frequencies were kept; 0 is the start, left for a significantly larger evidence only.
    n_found : int
        Frequencies of the grid that stood out of the noise.
    n_features : int
        Frequencies of the result.
    stopped : {"evidence", "max_iterations"}
    """

    iteration: Float
    log_evidence: Float
    acceptance: Float
    seconds: Float
    best_iteration: int
    n_found: int
    n_features: int
    stopped: SearchStop

    @property
    def n_iterations(self) -> int:
        """M, the number of iterations made."""
        return len(self.acceptance)

    def __repr__(self) -> str:
        return (
            f"SearchHistory({self.n_iterations} iterations in {self.seconds.sum():.2f} s, best {self.best_iteration}, "
            f"log-evidence {self.log_evidence.max():.1f} above the start's)"
        )


class Found(NamedTuple):
    """Frequencies, and the regression on them of the outputs V y."""

    basis: Basis
    A: Float  # (R, R): XᵀWX
    b: Float  # (R, p): XᵀWy
    V: Float  # (p, p)
    fits: list[Regression]
    history: SearchHistory | None
    start: Found | None = None  # the same for the frequencies at the start

    @property
    def log_evidence(self) -> float:
        """Of all outputs."""
        return sum(fit.log_evidence for fit in self.fits)

    @property
    def amplitudes(self) -> Float:
        """Of y, shape (R, p)."""
        return np.column_stack([fit.c for fit in self.fits]) @ np.linalg.inv(self.V).T

    @property
    def groups_in_use(self) -> Int:
        """Groups of which the data determine something for at least one output."""
        ridges = np.min([fit.ridges for fit in self.fits], axis=0)
        return np.unique(self.basis.group)[ridges < OFF]


class Targets(NamedTuple):
    """What a search learns: values y at points u, of weighted mean zero."""

    u: Float  # (n, m)
    y: Float  # (n, p)
    weight: Float  # (n,)
    squares: Float  # (p, p): Σ w y yᵀ over what stands behind the points, of which there may be several for each
    n: float  # number of observations
    equations: NormalEquations  # of u, y and weight
    spread: Float  # (m,): by how much the range of the points exceeds that of most of them


def judged(omega: Float, group: Int, targets: Targets, V: Float, ridge: float | None) -> Found:
    """The regression of V y on the principal features of some frequencies."""
    zero = np.zeros((1, omega.shape[1]))
    gram, right = targets.equations.real_gram(np.concatenate([omega, zero]))
    basis, A, b = principal_features(omega, group, gram, right)
    return regressed(basis, A, b, targets, V, ridge)


def regressed(basis: Basis, A: Float, b: Float, targets: Targets, V: Float, ridge: float | None) -> Found:
    """The regression of V y, for A and b = Xᵀ W y."""
    squares, right = np.einsum("ij,jk,ik->i", V, targets.squares, V), b @ V.T
    with one_blas_thread:
        fits = [regress(A, right[:, j], float(squares[j]), targets.n, basis, ridge) for j in range(len(V))]
    return Found(basis, A, b, V, fits, None)


def noise_units(found: Found, targets: Targets) -> Float:
    """V such that the residuals of V y are uncorrelated and of unit variance."""
    c = found.amplitudes
    mixed = targets.squares - found.b.T @ c - c.T @ found.b + c.T @ found.A @ c
    scale = 1 / np.sqrt(np.diagonal(targets.squares))
    values, vectors = np.linalg.eigh(mixed * np.outer(scale, scale))
    values = np.maximum(values, LEAST_NOISE) * (1 / targets.n)
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
) -> Found:
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
    walk = _Walk(rng, targets, arff)
    V = np.diag(np.sqrt(targets.n / np.diagonal(targets.squares)))
    best = judged(walk.omega, walk.group, targets, V, arff.ridge)
    for _ in range(ROUNDS_OF_UNITS if mixed else 0):
        V = noise_units(best, targets)
        best = regressed(*best[:3], targets, V, arff.ridge)
    walk.V = V
    first, best_iteration = best, 0
    iterations, values = [0], [best.log_evidence]

    def judge(i: int) -> None:
        nonlocal best, best_iteration
        found = judged(walk.omega, walk.group, targets, V, arff.ridge)
        iterations.append(i)
        values.append(found.log_evidence)
        if found.log_evidence > best.log_evidence + LEAST_GAIN:
            best, best_iteration = found, i
        on_iteration(i, best.log_evidence - first.log_evidence)

    n_found = walk.seed(best)
    most = MOST_ITERATIONS if arff.max_iterations is None else arff.max_iterations
    needed = LEAST_ITERATIONS_WITH_WAVES if n_found else LEAST_ITERATIONS
    least = min(needed if arff.min_iterations is None else arff.min_iterations, most)
    stopped: SearchStop = "max_iterations"
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
    history = SearchHistory(
        iteration=np.array(iterations, dtype=float),
        log_evidence=np.array(values) - values[0],
        acceptance=np.array(walk.acceptance),
        seconds=np.array(walk.seconds),
        best_iteration=best_iteration,
        n_found=n_found,
        n_features=len(best.basis.omega),
        stopped=stopped,
    )
    return best._replace(history=history, start=first)


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

    def __init__(self, rng: np.random.Generator, targets: Targets, arff: ARFF) -> None:
        self.rng, self.targets, self.arff = rng, targets, arff
        self.n_inputs = targets.equations.n_inputs
        self.reach = reach_of(self.n_inputs)
        self.group = groups_for(targets.n, self.n_inputs, arff.n_features)
        self.free = directions(self.group, self.n_inputs)
        spread = np.minimum(START * targets.spread, self.reach / 4)
        self.omega = self.free * spread * rng.standard_normal(self.free.shape)
        self.ridge = RIDGE if arff.ridge is None else arff.ridge
        self.gamma = 1.0 if arff.gamma is None else arff.gamma
        self.V = np.eye(len(targets.squares))
        self.false_alarm = FALSE_ALARM
        self.smooth: Float | None = None  # frequencies that leave nothing over
        self.acceptance: list[float] = []
        self.seconds: list[float] = []

    def amplitudes(self, omega: Float) -> Float:
        """|β̂_k| for the outputs V y."""
        return magnitude(self.targets.equations.solve(omega, self.ridge) @ self.V.T)

    def step(self) -> None:
        """One iteration: resampling, proposal, Metropolis test."""
        began, rng, K = time.perf_counter(), self.rng, len(self.omega)
        with one_blas_thread:
            size = self.amplitudes(self.omega)
            omega = self.omega
            if self.arff.resample:
                j = np.concatenate([places[draw(rng, size[places])] for places in self._members()])
                omega = omega[j]
                if self.arff.pairing == "reindex":
                    size = size[j]
                elif self.arff.pairing == "solve":
                    size = self.amplitudes(omega)
            if self.arff.delta is None:
                delta = np.exp(rng.uniform(np.log(SHORTEST_STEP), np.log(LONGEST_STEP), (K, 1)))
            else:
                delta = np.full((K, 1), self.arff.delta)
            proposal = omega + self.free * delta * rng.standard_normal(omega.shape)
            proposal = np.where(np.abs(proposal).max(axis=1, keepdims=True) > self.reach, omega, proposal)
            accepted = self.amplitudes(proposal) > rng.random(K) * size**self.gamma
            self.omega = np.where(accepted[:, None], proposal, omega)
        self.acceptance.append(float(accepted.mean()))
        self.seconds.append(time.perf_counter() - began)

    def _members(self) -> list[Int]:
        return [np.flatnonzero(self.group == g) for g in np.unique(self.group)]

    def seed(self, start: Found) -> int:
        """Let half of each group start at waves that stand out of the noise of the first fit; how many there are."""
        waves, size = self._standing_out(start)
        self.omega = self.omega.copy()  # the start keeps its own
        if not len(waves):
            self.smooth = start.basis.omega
        for places in self._members():
            drawn = self._drawn(waves, size, self.free[places[0]], (len(places) + 1) // 2)
            self.omega[places[: len(drawn)]] = drawn
        return len(waves)

    def extend(self, best: Found) -> bool:
        """Go on from the best frequencies with half as many more, at waves that they leave over, if there are any."""
        K = len(best.basis.omega)
        if min(MOST_FEATURES, self.targets.n / ROWS_PER_FEATURE) < 3 * K // 2 or len(self.group) > K:
            return False  # or the last extension was for nothing
        if best.basis.omega is self.smooth:  # which has been looked at
            return False
        waves, size = self._standing_out(best)
        found = [self._drawn(waves, size, self.free[places[0]], len(places) // 2) for places in self._members()]
        if not sum(map(len, found)):
            return False
        kept = [best.basis.omega[self.group == g] for g in np.unique(self.group)]
        self.omega = np.concatenate([omega for pair in zip(kept, found, strict=True) for omega in pair])
        sizes = [len(old) + len(new) for old, new in zip(kept, found, strict=True)]
        self.group = np.repeat(np.unique(self.group), sizes)
        self.free = directions(self.group, self.n_inputs)
        return True

    def _standing_out(self, fit: Found) -> tuple[Float, Float]:
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
