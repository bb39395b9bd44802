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
import scipy.linalg

from itofit._blocks import one_blas_thread
from itofit._checks import Float, Int
from itofit.model.training import SWITCHED_OFF
from itofit.waves.scaling import Scaling
from itofit.waves.series import FourierSeries, real_sum
from itofit.waves.wave_groups import LINEAR_FREQUENCY, inputs_of_group, stood_out

LEAST_VARIANCE = 1e-9
"""Principal components whose variance is a smaller share of their group's largest are left out."""
LEAST_NOISE = 1e-10
"""Least variance of the noise, relative to that of the targets: what errors of A leave of a fit without noise."""
ERROR_OF_SUMS = 1e-11
"""Least λ of a regression, above the error of sums from moments: they may leave less than nothing of features that are
combinations of others."""
JITTERS = (1e-12, 1e-9, 1e-6, 1e-4, 1e-2)
"""Added to the diagonal of normal equations, in units of itself: the first that makes them positive definite."""
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
DOUBT = 1.0
"""Amplitudes' worth of doubt: a group that explains less than so many random ones would is switched off."""
UNDETERMINED = 1e-3
"""A group of which the data determine less than this many amplitudes is switched off."""


class LinearPrior(NamedTuple):
    """What is assumed of linear terms that are never switched off, see `updated_ridges`."""

    doubt: float  # amplitudes' worth, as of other groups
    least: float  # least square of an amplitude, in units of what noise makes of it


class Basis(NamedTuple):
    """Principal features of grouped frequencies; X has mean zero and unit variance on the data."""

    omega: Float  # (K, m)
    transform: Float  # (2K, R)
    mean: Float  # (R,)
    penalty: Float  # (R,)
    group: Int  # (R,): see `itofit.waves.wave_groups`
    largest: Float  # (G,): the largest variance of a principal component of each group
    linear: LinearPrior | None = None  # of linear terms that are never switched off; None: they are like other groups

    @property
    def n_waves(self) -> int:
        """The number of frequencies, but for those of linear terms."""
        return len(self.omega) - int(np.isin(self.omega, (0.0, LINEAR_FREQUENCY)).all(axis=1).sum())

    @property
    def stays(self) -> npt.NDArray[np.bool_]:
        """Which groups are never switched off, shape (G,)."""
        return (np.unique(self.group) < 0) & (self.linear is not None)

    @property
    def doubt(self) -> Float:
        """Of each group, shape (G,): see `updated_ridges`."""
        return np.where(self.stays, 0.0 if self.linear is None else self.linear.doubt, DOUBT)

    @property
    def least(self) -> Float:
        """The same: the least square of an amplitude, zero for groups that may be switched off."""
        return np.where(self.stays, 0.0 if self.linear is None else self.linear.least, 0.0)

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
            linear=self.linear,
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
    stays: dict[int, LinearPrior] = {}  # groups that are never switched off  # noqa: RUF012


def with_intercept(X: Float) -> Float:
    """Features X (n, R) after a column of ones: shape (n, R + 1)."""
    return np.concatenate([np.ones((len(X), 1)), X], axis=1)


def principal_features(
    omega: Float, group: Int, gram: Float, right: Float, *, apart: bool = True
) -> tuple[Basis, Float, Float]:
    """The principal features of grouped frequencies, with their A (R, R) and b (R, p).

    Parameters
    ----------
    omega : array of shape (K, m)
    group : array of shape (K,)
        The group of each frequency, ascending; negative for linear terms.
    gram, right : arrays of shape (2K + 2, 2K + 2) and (2K + 2, p)
        `real_gram` at these frequencies and a last one of zero.
    apart : bool
        Take from waves what linear terms of the same inputs explain of them, so that each group has its own to say.
    """
    K, m = omega.shape
    waves, one = np.r_[0:K, K + 1 : 2 * K + 1], K
    total = gram[one, one]
    mean = gram[waves, one] / total
    G = gram[np.ix_(waves, waves)] / total - np.outer(mean, mean)
    b = right[waves] - np.outer(mean, right[one])
    both = np.concatenate([group, group])
    parts, penalties, groups = [], [], []
    largest: list[float] = []
    with one_blas_thread:
        for g in np.unique(group).tolist():
            places = np.flatnonzero(both == g)
            linear = places[:0]
            if g < 0:
                places = places[places >= K]  # the sine alone
            elif apart:
                own = [i - m for i in inputs_of_group(g, m)]
                linear = K + np.flatnonzero(np.isin(group, own) & (np.diagonal(G)[K:] > LEAST_VARIANCE**2))
            part, share = _principal(G, places, linear)
            parts.append(part)
            penalties.append(1 / share)
            groups.append(np.full(part.shape[1], g))
            if part.shape[1]:
                largest.append(1.0 if g < 0 else 1 / float((part[places, -1] ** 2).sum()))
        T = np.concatenate(parts, axis=1)
        A = total * (T.T @ G @ T)
        basis = Basis(omega, T, mean @ T, np.concatenate(penalties), np.concatenate(groups), np.array(largest))
        return basis, A, T.T @ b


def _principal(G: Float, places: Int, linear: Int) -> tuple[Float, Float]:
    """Principal components of some waves, without what others explain of them.

    Parameters
    ----------
    G : array of shape (2K, 2K)
        Covariance of all waves.
    places, linear : arrays of shapes (k,) and (l,)
        Which waves, and which ones explain a part of them.

    Returns
    -------
    part : array of shape (2K, r)
        Coefficients of r components of unit variance.
    share : array of shape (r,)
        Their variance before they were scaled, relative to the largest.
    """
    inner = G[np.ix_(places, places)]
    most = float(np.diagonal(inner).sum())
    explained = np.zeros((len(linear), len(places)))
    if len(linear):
        explained = scipy.linalg.lstsq(G[np.ix_(linear, linear)], G[np.ix_(linear, places)])[0]
        inner = inner - G[np.ix_(places, linear)] @ explained
    values, vectors = scipy.linalg.eigh(inner, check_finite=False)
    kept = values > LEAST_VARIANCE * max(most, LEAST_VARIANCE)  # a group may be constant on the data
    part = np.zeros((len(G), int(kept.sum())))
    part[places] = vectors[:, kept] / np.sqrt(values[kept])
    part[linear] = -explained @ part[places]
    return part, values[kept] / values[-1]


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
    smallest = given_ridges(ERROR_OF_SUMS, n, basis)

    def solve(ridges: Float) -> Solution:
        P = np.maximum(ridges, smallest)[place] * basis.penalty
        c, inverse_diagonal, log_det = solve_penalised(A, b, P)
        determined = np.bincount(place, 1 - inverse_diagonal * P).astype(float)
        rss = max(float(squares - 2 * b @ c + c @ A @ c), LEAST_NOISE * squares)
        variance = float(rss / max(n - 1 - determined.sum(), 1.0))
        used = np.bincount(place, basis.penalty * c**2).astype(float)
        penalised = rss + P @ c**2
        log_evidence = -0.5 * ((n - 1) * np.log(penalised / n) + log_det - np.log(np.maximum(P, 1e-300)).sum())
        information = np.bincount(place, np.diagonal(A)).astype(float)
        least = least_used(np.bincount(place), information, variance, basis.least)
        return Solution(ridges, c, determined, used, variance, float(log_evidence), least=least, doubt=basis.doubt)

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
    least: Float | float = 0.0  # (G,): see `updated_ridges`
    doubt: Float | float = DOUBT  # (G,)


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
        ridges = updated_ridges(
            ridges, solution.determined, solution.variance, solution.used, solution.least, solution.doubt
        )
        settled = bool(np.abs(np.log(ridges / solution.ridges)).max(initial=0.0) < SETTLED)
        if settled:
            break
    return MostEvident(ridges, solution, settled)


def given_ridges(ridge: float, n: float, basis: Basis) -> Float:
    """Algorithm 1's λ for n observations as ridges (G,) of principal features; zero would let rounding decide."""
    return np.maximum(ridge * n / basis.largest, LEAST_RIDGE)


def first_ridges(basis: Basis) -> Float:
    """Ridges (G,) to start from: larger for waves in all directions, so that what one input explains is left to it."""
    m, groups = basis.omega.shape[1], np.unique(basis.group)
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
) -> Float:
    """One step of the ridges towards σ² (γ + doubt) / (used + least), a longer one up; groups without effect go off.

    Groups of which `least` is positive are never switched off.
    """
    stays = np.broadcast_to(np.greater(least, 0), used.shape)
    wanted = variance * (determined + doubt)
    ratio = np.clip(wanted / np.maximum((used + least) * ridges, 1e-6 * wanted), 1e-4, 1e3)
    new = np.clip(ridges * np.where((ratio > 1) & ~stays, ratio**1.5, ratio), LEAST_RIDGE, SWITCHED_OFF)
    off = (determined < UNDETERMINED) | (ridges >= SWITCHED_OFF)
    return np.asarray(np.where(off & ~stays, SWITCHED_OFF, new))


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


def staying_groups(basis: Basis, d: int) -> dict[int, LinearPrior]:
    """Those of `ridge_groups` that are never switched off."""
    if basis.linear is None:
        return {}
    return dict.fromkeys(np.flatnonzero(np.tile(basis.stays, d)).tolist(), basis.linear)


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
    size = np.bincount(everywhere, minlength=d * G)
    information = np.bincount(everywhere, np.diagonal(H)[penalised], d * G).astype(float)
    least, doubt = least_used(size, information, variance, np.tile(basis.least, d)), np.tile(basis.doubt, d)

    def solve(flat: Float) -> Solution:
        P = amplitude_ridges(flat.reshape(d, G), basis)
        active = P < SWITCHED_OFF
        c, inverse_diagonal = np.zeros(len(P)), np.zeros(len(P))
        c[active], inverse_diagonal[active], _ = solve_penalised(H[np.ix_(active, active)], g[active], P[active])
        shares = np.where(active, 1 - inverse_diagonal * P, 0.0)[penalised]
        determined = np.bincount(everywhere, np.clip(shares, 0.0, 1.0), d * G).astype(float)
        used = np.bincount(everywhere, penalty * c[penalised] ** 2, d * G).astype(float)
        return Solution(flat, c, determined, used, variance, least=least, doubt=doubt)

    return maximise_evidence(solve, ridges.ravel(), rounds).ridges.reshape(d, G)
