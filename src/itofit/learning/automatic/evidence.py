"""Ridge regression whose ridges are chosen by the data: principal features, and the evidence of a model.

The waves cos(ω_k·u) and sin(ω_k·u) of many frequencies say nearly the same on the data, so few combinations of them
carry everything: within each group of frequencies, the principal components of the waves. A component whose variance
is a share μ of the largest has the ridge λ_g / μ, which is what a ridge λ_g on all amplitudes of the group amounts to.
One λ_g for each group lets the data switch groups off.

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
import scipy.linalg

from itofit._blocks import one_blas_thread
from itofit._checks import Float, Int
from itofit.model.training import SWITCHED_OFF
from itofit.waves.scaling import Scaling
from itofit.waves.series import FourierSeries, real_sum

LEAST_VARIANCE = 1e-9
"""Principal components whose variance is a smaller share of their group's largest are left out."""
LEAST_NOISE = 1e-10
"""Least variance of the noise, relative to that of the targets: what errors of A leave of a fit without noise."""
ERROR_OF_SUMS = 1e-11
"""Least λ of a regression, above the error of sums from moments: they may leave less than nothing of features that are
combinations of others."""
JITTERS = (1e-12, 1e-9, 1e-6, 1e-4, 1e-2)
"""Added to the diagonal of normal equations, in units of itself: the first that makes them positive definite."""
FIRST_RIDGE_OF_ALL = 100.0
"""Ridge that waves in all directions start from, against 1 along the axes."""
LEAST_RIDGE = 1e-10
"""Ridges below change nothing but rounding."""
MOST_ROUNDS = 60
"""Of the ridges of a regression; most settle within ten."""
ROUNDS_OF_KNOWN_NOISE = 40
"""The same where the variance of the noise is known."""
SETTLED = 0.2
"""Change of log λ_g at which the ridges have settled."""
DOUBT = 1.0
"""Amplitudes' worth of doubt: a group that explains less than so many random ones would is switched off."""
UNDETERMINED = 1e-3
"""A group of which the data determine less than this many amplitudes is switched off."""


class Basis(NamedTuple):
    """Principal features of grouped frequencies; X has mean zero and unit variance on the data."""

    omega: Float  # (K, m)
    transform: Float  # (2K, R)
    mean: Float  # (R,)
    penalty: Float  # (R,)
    group: Int  # (R,)
    largest: Float  # (G,): the largest variance of a principal component of each group

    def at(self, u: Float) -> Float:
        """The features X at scaled points u (n, m): shape (n, R)."""
        K = len(self.omega)
        return real_sum(self.omega, self.transform[:K] - 1j * self.transform[K:], u) - self.mean

    def series(self, intercept: Float, c: Float, scaling: Scaling) -> FourierSeries:
        """The function intercept (p,) + X c of x = shift + scale · u, for amplitudes c of shape (R, p)."""
        K, amplitudes = len(self.omega), self.transform @ c
        return FourierSeries(
            omega=self.omega,
            beta=amplitudes[:K] - 1j * amplitudes[K:],
            shift=scaling.shift,
            scale=scaling.scale,
            offset=intercept - self.mean @ c,
        )

    def of_groups(self, groups: Int) -> Basis:
        """The features of some groups alone."""
        kept = np.isin(self.group, groups)
        used = np.flatnonzero(self.transform[:, kept].any(axis=1))
        K = len(self.omega)
        waves = np.unique(used % K)
        rows = np.concatenate([waves, waves + K])
        return Basis(
            omega=self.omega[waves],
            transform=self.transform[np.ix_(rows, kept)],
            mean=self.mean[kept],
            penalty=self.penalty[kept],
            group=self.group[kept],
            largest=self.largest[np.isin(np.unique(self.group), groups)],
        )


NO_FEATURES = Basis(np.zeros((0, 1)), np.zeros((0, 0)), np.zeros(0), np.zeros(0), np.zeros(0, dtype=int), np.zeros(0))
"""The features of a constant."""


class Solved(NamedTuple):
    """A ridge regression with noise of known variance and its solution: what error bars are made of."""

    A: Float  # (q, q)
    b: Float  # (q,)
    P: Float  # (q,): ridge of each amplitude
    c: Float  # (q,)
    group: Int  # (q,): which amplitudes have a ridge in common; negative for those without one
    variance: float = 1.0  # σ²


def with_intercept(X: Float) -> Float:
    """Features X (n, R) after a column of ones: shape (n, R + 1)."""
    return np.concatenate([np.ones((len(X), 1)), X], axis=1)


def principal_features(omega: Float, group: Int, gram: Float, right: Float) -> tuple[Basis, Float, Float]:
    """The principal features of grouped frequencies, with their A (R, R) and b (R, p).

    Parameters
    ----------
    omega : array of shape (K, m)
    group : array of shape (K,)
        The group of each frequency, ascending.
    gram, right : arrays of shape (2K + 2, 2K + 2) and (2K + 2, p)
        `real_gram` at these frequencies and a last one of zero.
    """
    K = len(omega)
    waves, one = np.r_[0:K, K + 1 : 2 * K + 1], K
    total = gram[one, one]
    mean = gram[waves, one] / total
    G = gram[np.ix_(waves, waves)] / total - np.outer(mean, mean)
    b = right[waves] - np.outer(mean, right[one])
    both = np.concatenate([group, group])
    parts, penalties, groups = [], [], []
    largest: list[float] = []
    with one_blas_thread:
        for g in np.unique(group):
            places = np.flatnonzero(both == g)
            values, vectors = scipy.linalg.eigh(G[np.ix_(places, places)], check_finite=False)
            kept = values > LEAST_VARIANCE * max(values[-1], LEAST_VARIANCE)  # a group may be constant on the data
            part = np.zeros((2 * K, int(kept.sum())))
            part[places] = vectors[:, kept] / np.sqrt(values[kept])
            parts.append(part)
            penalties.append(values[-1] / values[kept])
            groups.append(np.full(part.shape[1], g))
            largest += [values[-1]] * bool(kept.any())
        T = np.concatenate(parts, axis=1)
        A = total * (T.T @ G @ T)
        basis = Basis(omega, T, mean @ T, np.concatenate(penalties), np.concatenate(groups), np.array(largest))
        return basis, A, T.T @ b


class Regression(NamedTuple):
    """The amplitudes of largest evidence."""

    c: Float  # (R,)
    ridges: Float  # (G,)
    variance: float  # σ²
    determined: float  # number of amplitudes that the data determine
    log_evidence: float


def regress(A: Float, b: Float, squares: float, n: float, basis: Basis, ridge: float | None = None) -> Regression:
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
    """
    _, place = np.unique(basis.group, return_inverse=True)
    least = given_ridges(ERROR_OF_SUMS, n, basis)

    def solve(ridges: Float) -> Solution:
        P = np.maximum(ridges, least)[place] * basis.penalty
        c, inverse_diagonal, log_det = solve_penalised(A, b, P)
        determined = np.bincount(place, 1 - inverse_diagonal * P).astype(float)
        rss = max(float(squares - 2 * b @ c + c @ A @ c), LEAST_NOISE * squares)
        variance = float(rss / max(n - 1 - determined.sum(), 1.0))
        used = np.bincount(place, basis.penalty * c**2).astype(float)
        penalised = rss + P @ c**2
        log_evidence = -0.5 * ((n - 1) * np.log(penalised / n) + log_det - np.log(np.maximum(P, 1e-300)).sum())
        return Solution(ridges, c, determined, used, variance, float(log_evidence))

    if ridge is not None:
        ridges = given_ridges(ridge, n, basis)
        solution = solve(ridges)
    else:
        ridges, solution, _ = maximise_evidence(solve, first_ridges(basis), MOST_ROUNDS)
    return Regression(solution.c, ridges, solution.variance, float(solution.determined.sum()), solution.log_evidence)


class Solution(NamedTuple):
    """A ridge regression with certain ridges, and what the next ridges depend on."""

    ridges: Float  # (G,)
    c: Float  # amplitudes
    determined: Float  # (G,): γ_g, the number of amplitudes of each group that the data determine
    used: Float  # (G,): Σ c²/μ over each group
    variance: float  # σ²
    log_evidence: float = 0.0
    root: Float | None = None  # W with WᵀW = (A + P)⁻¹, for who needs it


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
        ridges = updated_ridges(ridges, solution.determined, solution.variance, solution.used)
        settled = bool(np.abs(np.log(ridges / solution.ridges)).max(initial=0.0) < SETTLED)
        if settled:
            break
    return MostEvident(ridges, solution, settled)


def given_ridges(ridge: float, n: float, basis: Basis) -> Float:
    """Algorithm 1's λ for n observations as ridges (G,) of principal features; zero would let rounding decide."""
    return np.maximum(ridge * n / basis.largest, LEAST_RIDGE)


def first_ridges(basis: Basis) -> Float:
    """Ridges (G,) to start from: larger for waves in all directions, so that what one input explains is left to it."""
    n_inputs = basis.omega.shape[1]
    return np.where((np.unique(basis.group) == n_inputs) & (n_inputs > 1), FIRST_RIDGE_OF_ALL, 1.0)


def updated_ridges(ridges: Float, determined: Float, variance: float, used: Float) -> Float:
    """One step of the ridges towards σ² (γ + DOUBT) / used, a longer one up; groups without effect go off."""
    wanted = variance * (determined + DOUBT)
    ratio = np.clip(wanted / np.maximum(used * ridges, 1e-6 * wanted), 1e-4, 1e3)
    new = np.clip(ridges * np.where(ratio > 1, ratio**1.5, ratio), LEAST_RIDGE, SWITCHED_OFF)
    return np.asarray(np.where((determined < UNDETERMINED) | (ridges >= SWITCHED_OFF), SWITCHED_OFF, new))


def solve_penalised(A: Float, b: Float, P: Float) -> tuple[Float, Float, float]:
    """(A + P)⁻¹ b, the diagonal of (A + P)⁻¹, and log det (A + P)."""
    root, log_det = inverse_root(A, P)
    return root.T @ (root @ b), np.einsum("ij,ij->j", root, root), log_det


def inverse_root(A: Float, P: Float) -> tuple[Float, float]:
    """A lower triangular matrix W with WᵀW = (A + P)⁻¹, and log det (A + P); columns are scaled first."""
    scale = 1 / np.sqrt(np.maximum(np.diagonal(A) + P, 1e-300))  # zero where there are no data
    M = A * np.outer(scale, scale)
    for jitter in JITTERS:
        M[np.diag_indices(len(M))] = 1.0 + jitter
        factor, failed = scipy.linalg.lapack.dpotrf(M, lower=1)
        if not failed:
            break
    else:
        raise np.linalg.LinAlgError("the normal equations are not positive definite")
    inverse_factor, _ = scipy.linalg.lapack.dtrtri(factor, lower=1)
    return inverse_factor * scale, 2 * float(np.log(np.diagonal(factor) / scale).sum())


# Ridges of several outputs, for noise of known variance


def amplitude_ridges(ridges: Float, basis: Basis) -> Float:
    """The ridge of every amplitude, output by output, its intercept first: shape (d (R + 1),)."""
    place = _places(basis)
    P = np.zeros((len(ridges), len(place) + 1))
    P[:, 1:] = ridges[:, place] * basis.penalty
    return P.ravel()


def _places(basis: Basis) -> Int:
    """The place of each feature's group among all groups, which ascend: shape (R,)."""
    return np.cumsum(np.diff(basis.group, prepend=basis.group[:1]) != 0)


def ridge_groups(basis: Basis, d: int) -> Int:
    """Which amplitudes have a ridge in common, output by output; −1 for intercepts: shape (d (R + 1),)."""
    place = _places(basis)
    of_output = np.arange(d)[:, None] * (place.max(initial=-1) + 1) + place
    return np.asarray(np.concatenate([np.full((d, 1), -1), of_output], axis=1).ravel())


def best_ridges(
    H: Float, g: Float, basis: Basis, ridges: Float, rounds: int = ROUNDS_OF_KNOWN_NOISE, variance: float = 1.0
) -> Float:
    """Ridges (d, G) of largest evidence for noise of known variance, from those to start with.

    The first of the R + 1 amplitudes of an output is its intercept, without a ridge.
    """
    d, G = ridges.shape
    groups = ridge_groups(basis, d)
    penalised = groups >= 0
    everywhere = groups[penalised]  # output and group of each amplitude with a ridge
    penalty = np.tile(basis.penalty, d)

    def solve(flat: Float) -> Solution:
        P = amplitude_ridges(flat.reshape(d, G), basis)
        active = P < SWITCHED_OFF
        c, inverse_diagonal = np.zeros(len(P)), np.zeros(len(P))
        c[active], inverse_diagonal[active], _ = solve_penalised(H[np.ix_(active, active)], g[active], P[active])
        shares = np.where(active, 1 - inverse_diagonal * P, 0.0)[penalised]
        determined = np.bincount(everywhere, np.clip(shares, 0.0, 1.0), d * G).astype(float)
        used = np.bincount(everywhere, penalty * c[penalised] ** 2, d * G).astype(float)
        return Solution(flat, c, determined, used, variance)

    return maximise_evidence(solve, ridges.ravel(), rounds).ridges.reshape(d, G)
