"""Frequencies on their way: Algorithm 1's iterations within groups, and waves that stand out of what is left over."""

from __future__ import annotations

import time

import numpy as np

from itofit._blocks import one_blas_thread
from itofit._checks import Float, Int
from itofit.learning.automatic.fitted_waves import FittedWaves, Targets, fitted_waves
from itofit.learning.automatic.harmonics import TURN, first_harmonics, on_lattice, start_spread
from itofit.learning.automatic.periodogram import MOST_TOGETHER, Lattice, Waves, separate_peaks, top_of_peak
from itofit.learning.automatic.refinement import moved_waves
from itofit.learning.metropolis import Kernel, magnitude, metropolis_step
from itofit.waves.parameters import ARFF
from itofit.waves.wave_groups import directions, group_of_inputs

START = 0.5
"""Spread of the frequencies at the start: waves twelve times as long as the data."""
SHORTEST_STEP, LONGEST_STEP = 0.1, 3.0
"""Of proposals, whose lengths are spread evenly over one and a half decades: one of them is right."""
RIDGE = 1e-4
"""Of the solves between which frequencies move; the ridges of the result are chosen from the data."""
FEATURES_ALONE = 48
"""Frequencies to start with, for one input."""
FEATURES_OF_AXIS, FEATURES_OF_AXIS_MANY = {2: 16, 3: 16}, 12
"""The same along each axis of two, three and more inputs."""
FEATURES_OF_ALL, FEATURES_OF_ALL_MANY = {2: 32, 3: 48}, 96
"""The same in all directions."""
FEATURES_OF_PAIR = 12
"""The same in a plane in which something stands out."""
ROWS_PER_FEATURE = 8
"""Fewer rows for each frequency determine none of its amplitudes."""
MOST_FEATURES = 512
"""Beyond, solves take seconds."""
REACH, REACH_MANY = {1: 256.0, 2: 60.0, 3: 24.0}, 24.0
"""Frequencies beyond are not proposed: 40, 10 and 4 waves across the data."""
MOST_LOOKS, MOST_PEAKS = 8, 12
"""At what is left over, one after the other, and waves that are taken from it each time."""
MOST_REFINED, SEEN = 4, 1.0
"""Steps in which waves that stood out are moved to where they leave least over, and log-evidence worth another one."""
FEW_WAVES = 8
"""That a covariance may be made of, if those that stood out are to be moved: one that turns is no sum of few waves."""
FALSE_ALARM, FALSE_ALARM_AFTER_ONE = 0.002, 0.05
"""Probability that noise alone gives the search a frequency, before and after one has stood out."""


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


def reach_of(n_inputs: int) -> float:
    """The largest frequency that is proposed."""
    return REACH.get(n_inputs, REACH_MANY)


def long_waves(rng: np.random.Generator, group: Int, targets: Targets) -> Float:
    """Frequencies (K, m) to start from: waves much longer than the data."""
    free, periodic = directions(group, targets.n_inputs), targets.periodic
    spread = np.minimum(START * targets.spread, reach_of(targets.n_inputs) / 4)
    omega = free * start_spread(spread, periodic) * rng.standard_normal(free.shape)
    return first_harmonics(on_lattice(omega, periodic), free, periodic)


class Walk:
    """The frequencies on their way: Algorithm 1's iterations within groups."""

    def __init__(
        self,
        rng: np.random.Generator,
        targets: Targets,
        arff: ARFF,
        V: Float,
        omega: Float,
        group: Int,
        monomials: Int | tuple[()] = (),
    ) -> None:
        self.rng, self.targets, self.arff, self.V, self.omega, self.group = rng, targets, arff, V, omega, group
        self.n_inputs = targets.n_inputs
        self.reach = reach_of(self.n_inputs)
        self.free = directions(group, self.n_inputs)
        self.ridge = RIDGE if arff.ridge is None else arff.ridge
        self.false_alarm = FALSE_ALARM
        self.found = np.empty((0, self.n_inputs))  # frequencies that stood out
        self.monomials = monomials  # groups of monomials that stood out
        self.lattice = Lattice(rng, self.n_inputs, self.reach, targets.periodic)
        self.power = self.left = Waves(self.found, np.empty(0), len(V))  # at the last look, and what stood out
        self.compared: FittedWaves | None = None  # whose power this is
        self.looked_at: FittedWaves | None = None  # the last one that was extended, or could not be
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
        """|β̂_k| for the outputs V y, beside those of the waves that stood out."""
        everything = np.concatenate([omega, self.found])
        return magnitude(self.targets.equations.solve(everything, self.ridge)[: len(omega)] @ self.V.T)

    def _proposal(self, rng: np.random.Generator, omega: Float) -> Float:
        """Steps of many lengths, in the free directions, that stay within reach."""
        K = len(omega)
        if self.arff.delta is None:
            delta = np.exp(rng.uniform(np.log(SHORTEST_STEP), np.log(LONGEST_STEP), (K, 1)))
        else:
            delta = np.full((K, 1), self.arff.delta)
        periodic = self.targets.periodic
        step = self.free * delta * rng.standard_normal(omega.shape)
        proposal = omega + np.where(periodic, TURN * np.rint(step), step)
        size = np.abs(proposal).max(axis=1, keepdims=True)  # zero, if harmonics lead back to none
        return np.where((size > self.reach) | (size == 0), omega, proposal)

    def _members(self) -> list[Int]:
        return [np.flatnonzero(self.group == g) for g in np.unique(self.group)]

    def fitted(self) -> FittedWaves:
        """The regression on where the frequencies are."""
        return fitted_waves(self.omega, self.group, self.found, self.targets, self.V, self.arff.ridge, self.monomials)

    def fitted_without_long_waves(self) -> FittedWaves:
        """The regression on linear terms, monomials and waves that stood out alone."""
        none = self.omega[:0], self.group[:0]
        return fitted_waves(*none, self.found, self.targets, self.V, self.arff.ridge, self.monomials)

    def go_to(self, omega: Float, group: Int, found: Float) -> None:
        """Be at other frequencies (K, m) of some groups (K,), with waves (F, m) that stood out."""
        self.omega, self.group, self.found = omega, group, found
        self.free = directions(group, self.n_inputs)

    def look(self, fit: FittedWaves) -> FittedWaves:
        """Add waves that stand out of what a fit leaves over, until none does; the fit with them."""
        self.compare(fit)
        before, drift = fit, self.targets.linear_stays
        for _ in range(MOST_LOOKS if self.arff.n_features is None else 0):
            room = int(min(MOST_FEATURES, self.targets.n / ROWS_PER_FEATURE)) - len(fit.basis.omega)
            if not len(self.left.omega) or room <= 0:
                break
            peaks = separate_peaks(self.left, min(room, MOST_PEAKS)).omega
            if not self._add_pairs(peaks):
                strengths = self._strengths(fit)
                tops = [top_of_peak(omega, self.targets.u, strengths, self.targets.periodic) for omega in peaks]
                self.found = np.concatenate([self.found, tops])
            fit = self._refined(self.fitted()) if drift else self.fitted()
            self.compare(fit)
        if not drift and fit is not before and len(self.found) <= FEW_WAVES:
            fit = self._refined(fit)
            self.compare(fit)
        return fit

    def _refined(self, fit: FittedWaves) -> FittedWaves:
        """A fit with the waves that stood out where they leave least over, as far as that is seen."""
        whole = self.n_inputs <= MOST_TOGETHER  # else waves stand for others in directions that no plane has
        for _ in range(MOST_REFINED if whole and len(self.found) else 0):
            before, self.found = self.found, moved_waves(fit, self.targets)
            moved = self.fitted()
            gain = moved.log_evidence - fit.log_evidence
            if gain < 0:
                self.found = before
                break
            fit = moved
            if gain < SEEN:
                break
        return fit

    def _add_pairs(self, peaks: Float) -> bool:
        """Long waves in the planes of two of more inputs in which something stands out; whether there are new ones."""
        m = self.n_inputs
        supports = {tuple(np.flatnonzero(omega).tolist()) for omega in peaks}
        pairs = (group_of_inputs(inputs, m) for inputs in supports if len(inputs) == 2 < m)
        new = sorted(g for g in pairs if g not in self.group)
        if not new:
            return False
        group = np.repeat(new, FEATURES_OF_PAIR)
        order = np.argsort(np.concatenate([self.group, group]), kind="stable")
        self.omega = np.concatenate([self.omega, long_waves(self.rng, group, self.targets)])[order]
        self.group = np.concatenate([self.group, group])[order]
        self.free = directions(self.group, m)
        return True

    def seed(self) -> int:
        """Let half of each group start at waves that are still left over; how many there are."""
        waves, self.omega = self.left, self.omega.copy()  # the start keeps its own
        for places in self._members():
            drawn = self._drawn(waves.omega, np.sqrt(waves.power), self.free[places[0]], (len(places) + 1) // 2)
            self.omega[places[: len(drawn)]] = drawn
        return len(waves.omega)

    def extended(self, best: FittedWaves) -> FittedWaves | None:
        """Go on from the best frequencies with more, at waves that they leave over, if there are any."""
        if best is self.looked_at or self.arff.n_features is not None:
            return None
        self.looked_at = best
        self.go_to(*best.walking, best.found)
        fit = self.look(best)
        return None if fit is best else fit

    def _strengths(self, fit: FittedWaves) -> Float:
        """What a fit leaves over of V y, times the weights: shape (n, p)."""
        targets = self.targets
        left = targets.y - fit.basis.sums(targets.u, fit.amplitudes)
        return np.ascontiguousarray((left @ self.V.T).T * targets.weight).T

    def compare(self, fit: FittedWaves) -> None:
        """See which waves stand out of the noise in what a fit leaves over."""
        if fit is not self.compared:
            self.power, self.compared = self.lattice.power(self.lattice.sums(self.targets.u, self._strengths(fit))), fit
        self.left = self.power.standing_out(self.false_alarm)
        if len(self.left.omega):
            self.false_alarm = FALSE_ALARM_AFTER_ONE

    def _drawn(self, waves: Float, size: Float, free: Float, n: int) -> Float:
        """As many of the waves that move in free directions only, larger ones more often; none if there is none."""
        possible = np.flatnonzero((waves * (1 - free) == 0).all(axis=1))
        if not len(possible):
            return np.empty((0, self.n_inputs))
        return waves[self.rng.choice(possible, n, p=size[possible] / size[possible].sum())]
