"""Principal features of waves: the few combinations of them that carry everything.

The waves cos(ω_k·u) and sin(ω_k·u) of many frequencies say nearly the same on the data. Within each group of
frequencies, the principal components of the waves are features X of mean zero and unit variance. A component whose
variance is a share μ of the largest has the penalty 1/μ (`itofit.learning.automatic.evidence`).

Linear terms are groups as well, one for each input: sines so long that they are straight on the data, without cosines.
So are monomials of second and third degree: sums of a few waves that are as long. Waves of the same
inputs are taken without what linear terms and monomials explain of them.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg

from itofit._blocks import one_blas_thread
from itofit._checks import Complex, Float, Int
from itofit.learning.automatic.sparsity import OddsOfZero
from itofit.waves.scaling import Scaling
from itofit.waves.series import FourierSeries, real_sum
from itofit.waves.wave_groups import LONG, inputs_of_group, linear_terms, monomial_waves

LEAST_VARIANCE = 1e-9
"""Principal components whose variance is a smaller share of their group's largest are left out."""
MOST_AMPLITUDE = 2e5
"""Of waves in a feature of unit variance: with larger ones, rounding of sums over the data is felt in it. Beside
monomials, small differences of long waves, there may be little else where nearly all data are at one place."""
LEAST_IN_PARTS, MOST_IN_PARTS = 20_000, 0.6
"""Size of the transform from waves to features from which on groups may be made one by one, and the largest share of
it that they need then."""
DOUBT, DOUBT_BESIDE_LINEAR = 1.0, 2.0
"""Amplitudes' worth of doubt: a group that explains less than so many random ones would is switched off.

Beside the linear term of a single input waves must explain more: what is linear is to stay so. Otherwise what several
inputs have to say is divided among groups.
"""


class LinearPrior(NamedTuple):
    """What is assumed of linear terms that are never switched off, see `updated_ridges`."""

    doubt: float  # amplitudes' worth, as of other groups
    doubt_of_waves: float  # of the groups beside them
    least: float  # least square of an amplitude, in units of what noise makes of it
    alone: bool = False  # whether waves beside them are switched off: a polynomial
    odds: OddsOfZero | None = None  # None: not known, `least` is assumed
    doubt_of_terms: float = 0.0  # of monomials, if it is more than that of waves


class Features(NamedTuple):
    """Arrays of a `Basis`."""

    omega: Float  # (K, m)
    transform: Float  # (2K, R)
    mean: Float  # (R,)
    penalty: Float  # (R,)
    group: Int  # (R,): see `itofit.waves.wave_groups`
    largest: Float  # (G,): the largest variance of a principal component of each group
    linear: LinearPrior | None = None  # of linear terms that are never switched off; None: they are like other groups
    without_waves: bool = False  # whether waves are switched off from the beginning


class Basis(Features):
    """Principal features of grouped frequencies; X has mean zero and unit variance on the data.

    What follows of groups is made once: regressions ask for it in every round.
    """

    @property
    def n_waves(self) -> int:
        """The number of frequencies, but for those of linear terms and monomials."""
        long = np.isin(np.abs(self.omega), LONG).all(axis=1)
        return len(self.omega) - int(long.sum())

    @cached_property
    def groups(self) -> Int:
        """The groups, ascending: shape (G,)."""
        return np.unique(self.group)

    @cached_property
    def place(self) -> Int:
        """The place of each feature's group among them: shape (R,)."""
        return np.searchsorted(self.groups, self.group)

    @cached_property
    def stays(self) -> npt.NDArray[np.bool_]:
        """Which groups are never switched off, shape (G,)."""
        return linear_terms(self.groups, self.omega.shape[1]) & (self.linear is not None)

    @cached_property
    def doubt(self) -> Float:
        """Of each group, shape (G,): see `updated_ridges`."""
        if self.linear is None:
            return np.full(len(self.stays), DOUBT)
        beside = np.full(len(self.stays), self.linear.doubt_of_waves)
        beside[self.groups < -self.omega.shape[1]] = max(self.linear.doubt_of_waves, self.linear.doubt_of_terms)
        return np.where(self.stays, self.linear.doubt, beside)

    @cached_property
    def least(self) -> Float:
        """The same: the least square of an amplitude, zero for groups that may be switched off."""
        return np.where(self.stays, 0.0 if self.linear is None else self.linear.least, 0.0)

    @cached_property
    def within_monomials(self) -> npt.NDArray[np.bool_]:
        """Whether a group is a monomial and another the linear term of one of its inputs: shape (G, G)."""
        m, groups = self.omega.shape[1], self.groups.tolist()
        within = np.zeros((len(groups), len(groups)), dtype=bool)
        for row, g in enumerate(groups):
            inputs = inputs_of_group(g, m) if g < -m else ()
            within[row] = [-m <= other < 0 and other + m in inputs for other in groups]
        return within

    @cached_property
    def parts(self) -> list[tuple[Int, Int]] | None:
        """The features of each group and the rows of the transform they need; None if all at once cost no more."""
        if self.transform.size < LEAST_IN_PARTS:
            return None
        of_groups = [np.flatnonzero(self.place == k) for k in range(len(self.groups))]
        parts = [(own, np.flatnonzero(self.transform[:, own].any(axis=1))) for own in of_groups]
        needed = sum(len(own) * len(rows) for own, rows in parts)
        return parts if needed < MOST_IN_PARTS * self.transform.size else None

    def at(self, u: Float) -> Float:
        """The features X at scaled points u (n, m): shape (n, R)."""
        K = len(self.omega)
        return real_sum(self.omega, self.transform[:K] - 1j * self.transform[K:], u, self.parts) - self.mean

    def sums(self, u: Float, c: Float) -> Float:
        """X c at scaled points u (n, m), for amplitudes c of shape (R, p): shape (n, p)."""
        return real_sum(self.omega, self._beta(c), u) - self.mean @ c

    def _beta(self, c: Float) -> Complex:
        """Amplitudes (K, p) of complex waves, for c of shape (R, p)."""
        K, amplitudes = len(self.omega), self.transform @ c
        return amplitudes[:K] - 1j * amplitudes[K:]

    def series(self, intercept: Float, c: Float, scaling: Scaling) -> FourierSeries:
        """The function intercept (p,) + X c of x = shift + scale · u, for amplitudes c of shape (R, p)."""
        beta = self._beta(c)
        used = beta.any(axis=1) if self.without_waves else np.ones(len(beta), dtype=bool)
        return FourierSeries(
            omega=self.omega[used],
            beta=beta[used],
            shift=scaling.shift,
            scale=scaling.scale,
            offset=intercept - self.mean @ c,
        )

    def with_odds(self, odds: OddsOfZero) -> Basis:
        """The same where it is known how likely linear terms are zero."""
        return self if self.linear is None else self._replace(linear=self.linear._replace(odds=odds))

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
            largest=self.largest[np.isin(self.groups, groups)],
            linear=self.linear,
            without_waves=self.without_waves,
        )


NO_FEATURES = Basis(np.zeros((0, 1)), np.zeros((0, 0)), np.zeros(0), np.zeros(0), np.zeros(0, dtype=int), np.zeros(0))
"""The features of a constant."""


def with_intercept(X: Float) -> Float:
    """Features X (n, R) after a column of ones: shape (n, R + 1)."""
    return np.concatenate([np.ones((len(X), 1)), X], axis=1)


def principal_features(
    omega: Float, group: Int, gram: Float, right: Float, *, apart: bool = True, origin: Float | None = None
) -> tuple[Basis, Float, Float]:
    """The principal features of grouped frequencies, with their A (R, R) and b (R, p).

    Parameters
    ----------
    omega : array of shape (K, m)
    group : array of shape (K,)
        The group of each frequency, ascending; negative for linear terms and monomials.
    gram, right : arrays of shape (2K + 2, 2K + 2) and (2K + 2, p)
        `real_gram` at these frequencies and a last one of zero.
    apart : bool
        Take from waves what linear terms and monomials of the same inputs explain of them, so that each group has its
        own to say.
    origin : array of shape (m,), optional
        Where monomials are zero; at u = 0 if left out.
    """
    K, m = omega.shape
    waves, one = np.r_[0:K, K + 1 : 2 * K + 1], K
    total = gram[one, one]
    mean = gram[waves, one] / total
    G = gram[np.ix_(waves, waves)] / total - np.outer(mean, mean)
    b = right[waves] - np.outer(mean, right[one])
    monomials = np.unique(group[group < -m])
    E = _monomials_of_waves(omega, group, monomials, np.zeros(m) if origin is None else origin)
    if len(monomials):  # waves, then monomials
        mixed = G @ E
        G = np.block([[G, mixed], [mixed.T, E.T @ mixed]])
    # Where each group stands among waves and monomials; of linear terms the sine alone
    own_group = np.concatenate([np.where(group < 0, np.inf, group), np.where(group < -m, np.inf, group), monomials])
    simple = np.flatnonzero((own_group < 0) & (np.diagonal(G) > LEAST_VARIANCE**2))
    parts, penalties, groups = [], [], []
    largest: list[float] = []
    with one_blas_thread:
        for g in np.unique(group).tolist():
            places, inputs = np.flatnonzero(own_group == g), set(inputs_of_group(g, m))
            simpler = [k for k in simple if inputs.issuperset(inputs_of_group(int(own_group[k]), m))]
            if g < 0:
                simpler = [k for k in simpler if g < -m <= own_group[k]]  # monomials do without linear terms alone
            part, share = _principal(G, places, np.array(simpler if apart else [], dtype=int))
            if len(monomials):
                sure = np.sqrt((_of_waves(part, E) ** 2).sum(axis=0)) < MOST_AMPLITUDE
                part, share = part[:, sure], share[sure]
            parts.append(part)
            penalties.append(1 / share)
            groups.append(np.full(part.shape[1], g))
            if part.shape[1]:
                largest.append(1.0 if g < 0 else 1 / float((part[places, -1] ** 2).sum()))
        T = np.concatenate(parts, axis=1)
        A = total * (T.T @ G @ T)
        T = _of_waves(T, E)
        basis = Basis(omega, T, mean @ T, np.concatenate(penalties), np.concatenate(groups), np.array(largest))
        return basis, A, T.T @ b


def _monomials_of_waves(omega: Float, group: Int, monomials: Int, origin: Float) -> Float:
    """The coefficients (2K, P) of monomials, which are sums of a few waves."""
    K, m = omega.shape
    E = np.zeros((2 * K, len(monomials)))
    for k, g in enumerate(monomials.tolist()):
        places = np.flatnonzero(group == g)
        cosines, sines = np.split(monomial_waves(g, m)[1], 2)
        moved = (cosines - 1j * sines) * np.exp(-1j * omega[places] @ origin)
        E[places, k], E[K + places, k] = moved.real, -moved.imag
    return E


def _of_waves(T: Float, E: Float) -> Float:
    """Coefficients (2K, R) of waves alone, from those (2K + P, R) of waves and monomials."""
    return T[: len(E)] + E @ T[len(E) :] if E.shape[1] else T


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
        mixed = G[np.ix_(linear, places)]
        # SciPy's solver takes longer to begin than one division does
        alone = len(linear) == 1
        explained = mixed / G[linear, linear] if alone else scipy.linalg.lstsq(G[np.ix_(linear, linear)], mixed)[0]
        inner = inner - mixed.T @ explained
    values, vectors = np.linalg.eigh(inner)
    kept = values > LEAST_VARIANCE * max(most, LEAST_VARIANCE)  # a group may be constant on the data
    part = np.zeros((len(G), int(kept.sum())))
    part[places] = vectors[:, kept] / np.sqrt(values[kept])
    part[linear] = -explained @ part[places]
    return part, values[kept] / values[-1]
