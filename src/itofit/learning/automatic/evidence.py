"""Ridge regression whose ridges are chosen by the data: principal features, and the evidence of a model.

The waves cos(ω_k·u) and sin(ω_k·u) of many frequencies say nearly the same on the data, so few combinations of them
carry everything: within each group of frequencies, the principal components of the waves. A component whose variance
is a share μ of the largest has the ridge λ_g / μ, which is what a ridge λ_g on all amplitudes of the group amounts to.
One λ_g for each group lets the data switch groups off.

Linear terms are groups as well, one for each input: sines so long that they are straight on the data, without cosines.
For a drift they are never switched off, see `updated_ridges`.

=======  ==========  ==========  ===============================================================
symbol   name        shape       meaning
=======  ==========  ==========  ===============================================================
Z        [C D]       (n, 2K)     waves at the data
T        transform   (2K, R)     from waves to principal features, X = Z T − mean
A, b     A, b        (R, R), …   XᵀWX and XᵀWy, with the weights W of the data
1 / μ    penalty     (R,)        ridge of each principal feature, in units of its group's
g        group       (R,)        the group of each principal feature
λ_g      ridges      (G,)        ridge of each group
c        c           (R,)        amplitudes of the principal features
=======  ==========  ==========  ===============================================================

The ridges maximise the evidence, the probability of the data with the amplitudes integrated out: with noise σ² and
the prior c ~ N(0, σ² P⁻¹), P = diag(λ_g / μ), minus twice its logarithm is, up to constants,

    (n − 1) log (rss + cᵀPc) + log det (A + P) − log det P.

Its maximum is where λ_g = σ² γ_g / Σ c²/μ over the group, γ_g being the number of amplitudes of the group that the data
determine; iterating that is the method of MacKay, and of Fellner and Schall.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, Int
from itofit.learning.automatic.penalised import Penalised, solve_penalised
from itofit.learning.automatic.principal import DOUBT, Basis, LinearPrior
from itofit.model.training import SWITCHED_OFF
from itofit.waves.wave_groups import stood_out

LEAST_NOISE = 1e-10
"""Least variance of the noise, relative to that of the targets: what errors of A leave of a fit without noise."""
ERROR_OF_SUMS = 1e-11
"""Least λ of a regression, above the error of sums from moments: they may leave less than nothing of features that are
combinations of others."""
FIRST_RIDGE_OF_ALL, FIRST_RIDGE_OF_PAIRS = 100.0, 10.0
"""Ridges that waves in all directions start from, and in the plane of two of more inputs, against 1 for others."""
LEAST_RIDGE = 1e-10
"""Ridges below change nothing but rounding."""
MOST_ROUNDS = 60
"""Of the ridges of a regression; most settle within ten."""
ROUNDS_OF_KNOWN_NOISE = 40
"""The same where the variance of the noise is known."""
SETTLED = 0.2
"""Change of log λ_g at which the ridges have settled."""
UNDETERMINED = 1e-3
"""A group of which the data determine less than this many amplitudes is switched off."""


class Solved(NamedTuple):
    """A ridge regression with noise of known variance and its solution: what error bars are made of."""

    A: Float  # (q, q)
    b: Float  # (q,)
    P: Float  # (q,): ridge of each amplitude
    c: Float  # (q,)
    group: Int  # (q,): which amplitudes have a ridge in common; negative for those without one
    variance: float = 1.0  # σ²
    stays: dict[int, LinearPrior] = {}  # groups that are never switched off  # noqa: RUF012

    @property
    def log_evidence(self) -> float:
        """Of the data with the amplitudes integrated out, above that of those without a ridge alone."""
        free, none = self.group < 0, np.zeros(int((self.group < 0).sum()))
        c, _, log_det = solve_penalised(self.A, self.b, self.P)
        alone, _, log_det_alone = solve_penalised(self.A[np.ix_(free, free)], self.b[free], none)
        explained = (self.b @ c - self.b[free] @ alone) / self.variance
        return float(0.5 * (explained - log_det + log_det_alone + np.log(self.P[~free]).sum()))


class Regression(NamedTuple):
    """The amplitudes of largest evidence."""

    c: Float  # (R,)
    ridges: Float  # (G,)
    variance: float  # σ²
    determined: float  # number of amplitudes that the data determine
    log_evidence: float  # above that of a constant


def regress(
    A: Float,
    b: Float,
    squares: float,
    n: float,
    basis: Basis,
    ridge: float | None = None,
    started: Penalised | None = None,
) -> Regression:
    """The amplitudes of one output, with ridges of largest evidence or with a given one.

    Parameters
    ----------
    A, b : arrays of shape (R, R) and (R,)
    squares : float
        Σ w y², for targets of mean zero.
    n : float
        Number of observations.
    basis : Basis
    ridge : float, optional
        Algorithm 1's λ, instead of ridges of largest evidence.
    started : Penalised, optional
        What `start_of_regressions` returned: all outputs have it in common.
    """
    place, smallest, first = basis.place, given_ridges(ERROR_OF_SUMS, n, basis), _start_from(n, basis, ridge)
    size, information = np.bincount(place), _sums_of_groups(place, A.diagonal())

    def penalties(ridges: Float) -> Float:
        return np.asarray(np.maximum(ridges, smallest)[place] * basis.penalty)

    def left_over(c: Float) -> float:
        return max(float(squares - 2 * b @ c + c @ A @ c), LEAST_NOISE * squares)

    def solve(ridges: Float) -> Solution:
        P = penalties(ridges)
        factored = started if started is not None and ridges is first else Penalised.of(A, P)
        c = factored.solution(b)
        determined = _sums_of_groups(place, 1 - factored.inverse_diagonal * P)
        variance = left_over(c) / max(n - 1 - float(determined.sum()), 1.0)
        used = _sums_of_groups(place, basis.penalty * c**2)
        least = least_used(size, information, variance, basis.least)
        return Solution(ridges, c, determined, used, variance, factored.log_det, least=least, doubt=basis.doubt)

    if ridge is not None:
        ridges, solution = first, solve(first)
    else:
        ridges, solution, _ = maximise_evidence(solve, first, MOST_ROUNDS)
    c, P = solution.c, penalties(solution.ridges)
    misfit = (n - 1) * np.log((left_over(c) + P @ c**2) / squares)
    log_evidence = -0.5 * float(misfit + solution.log_det - np.log(np.maximum(P, 1e-300)).sum())
    return Regression(c, ridges, solution.variance, float(solution.determined.sum()), log_evidence)


def _sums_of_groups(place: Int, values: Float, n_groups: int = 0) -> Float:
    """Values (q,) summed over groups, of which there are so many at least."""
    return np.asarray(np.bincount(place, values, n_groups), dtype=float)  # whole numbers if there are no values


def start_of_regressions(A: Float, n: float, basis: Basis, ridge: float | None = None) -> Penalised:
    """The first round of `regress`, as far as it does not depend on the output; parameters as there."""
    ridges = np.maximum(_start_from(n, basis, ridge), given_ridges(ERROR_OF_SUMS, n, basis))
    return Penalised.of(A, ridges[basis.place] * basis.penalty)


def _start_from(n: float, basis: Basis, ridge: float | None) -> Float:
    """Ridges (G,) of the first round."""
    return first_ridges(basis) if ridge is None else given_ridges(ridge, n, basis)


class Solution(NamedTuple):
    """A ridge regression with certain ridges, and what the next ridges depend on."""

    ridges: Float  # (G,)
    c: Float  # amplitudes
    determined: Float  # (G,): γ_g, the number of amplitudes of each group that the data determine
    used: Float  # (G,): Σ c²/μ over each group
    variance: float  # σ²
    log_det: float = 0.0  # of A + P, for who needs it
    root: Float | None = None  # W with WᵀW = (A + P)⁻¹, for who needs it
    least: Float | float = 0.0  # (G,): see `updated_ridges`
    doubt: Float | float = DOUBT  # (G,)
    odds: Float | float = 0.0  # (G,): of zero


class MostEvident(NamedTuple):
    """Ridges of largest evidence."""

    ridges: Float  # (G,)
    solution: Solution  # with the ridges of the last round
    settled: bool  # whether these hardly differ


def maximise_evidence(solve: Callable[[Float], Solution], ridges: Float, rounds: int) -> MostEvident:
    """Move ridges to where the evidence is largest: solve, see what the data determine, and again.

    Parameters
    ----------
    solve : callable
        The regression with ridges (G,).
    ridges : array of shape (G,)
        To start from.
    rounds : int
        At most.
    """
    for _ in range(rounds):
        solution = solve(ridges)
        _, _, determined, used, variance, _, _, least, doubt, odds = solution
        ridges = updated_ridges(ridges, determined, variance, used, least, doubt, odds)
        settled = bool(np.abs(np.log(ridges / solution.ridges)).max(initial=0.0) < SETTLED)
        if settled:
            break
    return MostEvident(ridges, solution, settled)


def given_ridges(ridge: float, n: float, basis: Basis) -> Float:
    """Algorithm 1's λ for n observations as ridges (G,) of principal features; zero would let rounding decide."""
    return np.maximum(ridge * n / basis.largest, LEAST_RIDGE)


def first_ridges(basis: Basis) -> Float:
    """Ridges (G,) to start from: larger for waves in all directions, so that what one input explains is left to it."""
    m, groups = basis.omega.shape[1], basis.groups
    if basis.without_waves:
        return np.where(groups >= 0, SWITCHED_OFF, 1.0)
    ridges = np.where((groups == m) & (m > 1), FIRST_RIDGE_OF_ALL, 1.0)
    return np.where((groups > m) & ~stood_out(groups, m), FIRST_RIDGE_OF_PAIRS, ridges)


def least_used(size: Int, information: Float, variance: float, least: Float) -> Float:
    """The least Σ c²/μ (G,) that the ridges of groups assume which are never switched off; zero for others.

    Parameters
    ----------
    size, information : arrays of shape (G,)
        Number of amplitudes of each group, and the sum of the diagonal of A over them.
    variance : float
        σ².
    least : array of shape (G,)
        Least square of an amplitude, in units of what noise makes of it; zero for other groups.
    """
    return np.asarray(least * variance * size**2 / np.maximum(information, 1e-300))


def updated_ridges(
    ridges: Float,
    determined: Float,
    variance: float,
    used: Float,
    least: Float | float = 0.0,
    doubt: Float | float = DOUBT,
    odds: Float | float = 0.0,
) -> Float:
    """One step of the ridges towards σ² (γ + doubt) / (used + least), a longer one up; groups without effect go off.

    Groups of which `least` is positive are never switched off. With odds K that they are zero, single amplitudes are
    shrunk by a further K, see `itofit.learning.automatic.sparsity`.
    """
    stays = np.greater(least, 0)
    wanted = variance * (determined + doubt)
    ratio = wanted / np.maximum((used + least) * ridges, 1e-6 * wanted)
    if isinstance(odds, np.ndarray):
        ratio = ratio + odds * np.clip(determined, 1e-9, 1.0) / np.clip(1 - determined, 1e-9, 1.0)
    ratio = np.minimum(np.maximum(ratio, 1e-4), 1e3)  # faster than np.clip where groups are few, here and below
    new = ridges * np.where((ratio > 1) & ~stays, ratio**1.5, ratio)
    new = np.minimum(np.maximum(new, LEAST_RIDGE), SWITCHED_OFF)
    off = (determined < UNDETERMINED) | (ridges >= SWITCHED_OFF)
    return np.asarray(np.where(off & ~stays, SWITCHED_OFF, new))


def squares_without_ridge(ridges: Float, determined: Float, used: Float, variance: float) -> Float:
    """Squares (G,) of single amplitudes as they would be without their ridge, in standard errors."""
    known, free = np.clip(determined, 1e-9, 1.0), np.clip(1 - determined, 1e-9, 1.0)
    return np.asarray(used * ridges / (variance * known * free))


# Ridges of several outputs, for noise of known variance


def amplitude_ridges(ridges: Float, basis: Basis) -> Float:
    """The ridge of every amplitude, output by output, its intercept first: shape (d (R + 1),)."""
    P = np.zeros((len(ridges), len(basis.place) + 1))
    P[:, 1:] = ridges[:, basis.place] * basis.penalty
    return P.ravel()


def amplitudes_in_use(ridges: Float, basis: Basis) -> npt.NDArray[np.bool_]:
    """Which amplitudes of each output belong to groups that are not switched off, or are its intercept: (d, R + 1)."""
    on = np.ones((len(ridges), len(basis.penalty) + 1), dtype=bool)
    on[:, 1:] = (ridges < SWITCHED_OFF)[:, basis.place]
    return on


def ridge_groups(basis: Basis, d: int) -> Int:
    """Which amplitudes have a ridge in common, output by output; −1 for intercepts: shape (d (R + 1),)."""
    of_output = np.arange(d)[:, None] * len(basis.groups) + basis.place
    return np.asarray(np.concatenate([np.full((d, 1), -1), of_output], axis=1).ravel())


def staying_groups(basis: Basis, d: int) -> dict[int, LinearPrior]:
    """Those of `ridge_groups` that are never switched off."""
    if basis.linear is None:
        return {}
    return dict.fromkeys(np.flatnonzero(np.tile(basis.stays, d)).tolist(), basis.linear)


def best_ridges(
    H: Float,
    g: Float,
    basis: Basis,
    ridges: Float,
    rounds: int = ROUNDS_OF_KNOWN_NOISE,
    variance: float = 1.0,
    started: Penalised | None = None,
) -> Float:
    """Ridges (d, G) of largest evidence for noise of known variance, from those to start with.

    The first of the R + 1 amplitudes of an output is its intercept, without a ridge. What `Penalised.of` makes of the
    first ridges may be given.
    """
    d, G = ridges.shape
    groups = ridge_groups(basis, d)
    penalised = groups >= 0
    everywhere = groups[penalised]  # output and group of each amplitude with a ridge
    penalty = np.tile(basis.penalty, d)
    size = np.bincount(everywhere, minlength=d * G)
    information = np.bincount(everywhere, np.diagonal(H)[penalised], d * G).astype(float)
    least = least_used(size, information, variance, np.tile(basis.least, d))
    doubt, within, prior = np.tile(basis.doubt, d), basis.within_monomials, basis.linear

    first = ridges.ravel()

    def solve(flat: Float) -> Solution:
        P = amplitude_ridges(flat.reshape(d, G), basis)
        factored = started if started is not None and flat is first else Penalised.of(H, P)
        c = factored.solution(g)
        shares = (1 - factored.inverse_diagonal * P)[penalised]
        determined = _sums_of_groups(everywhere, np.minimum(np.maximum(shares, 0.0), 1.0), d * G)
        used = _sums_of_groups(everywhere, penalty * c[penalised] ** 2, d * G)
        odds: Float | float = 0.0
        if prior is not None and prior.odds is not None:
            of_monomials = (flat.reshape(d, G) < SWITCHED_OFF) @ within  # whose linear terms depend on where zero is
            squares = squares_without_ridge(flat, determined, used, variance)
            odds = np.where(basis.stays & ~of_monomials, prior.odds.given(squares).reshape(d, G), 0.0).ravel()
        return Solution(flat, c, determined, used, variance, least=least, doubt=doubt, odds=odds)

    return maximise_evidence(solve, first, rounds).ridges.reshape(d, G)
