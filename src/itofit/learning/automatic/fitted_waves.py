"""Waves fitted to targets: the regression on which a search for frequencies is judged."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.special

from itofit._blocks import one_blas_thread
from itofit._checks import Float, Int
from itofit.learning.automatic.evidence import Regression, regress, start_of_regressions
from itofit.learning.automatic.principal import DOUBT, DOUBT_BESIDE_LINEAR, Basis, LinearPrior, principal_features
from itofit.model.training import SWITCHED_OFF
from itofit.waves.normal_equations import NormalEquations
from itofit.waves.wave_groups import LINEAR_FREQUENCY, group_of_wave, monomial_waves, stood_out

LEAST_EIGENVALUE = 1e-14
"""Of the residuals' covariance, relative to that of the targets: less is rounding."""
LEAST_SQUARES = 0.5
"""Of outputs V y in units of noise, for each observation: less is rounding, in directions without any noise."""
ROWS_OF_DOUBT, LEAST_SQUARE = 100.0, 3.0
"""For each of the m² linear terms of m variables: with fewer rows they are doubted, with more their squares are assumed
to be so many times what noise makes of them, at least, so that they are shrunk but little."""

FALSE_TERMS = 1.0
"""Monomials of a polynomial that noise alone keeps at most, of all inputs and outputs, on average over data sets."""


class Targets(NamedTuple):
    """What a search learns: values y at points u, of weighted mean zero."""

    u: Float  # (n, m)
    y: Float  # (n, p)
    weight: Float  # (n,)
    squares: Float  # (p, p): Σ w y yᵀ over what stands behind the points, of which there may be several for each
    n: float  # number of observations
    equations: NormalEquations  # of u, y and weight
    spread: Float  # (m,): by how much the range of the points exceeds that of most of them
    mean: Float  # (p,): what was taken off the targets
    linear_stays: bool = False  # whether linear terms are never switched off
    origin: Float | None = None  # (m,): where monomials are zero
    periods: tuple[bool, ...] = ()  # whether each input is periodic; none is, if there are no entries

    @property
    def periodic(self) -> npt.NDArray[np.bool_]:
        """Whether each input is periodic, shape (m,)."""
        return np.array(self.periods or (False,) * self.n_inputs)

    @property
    def n_inputs(self) -> int:
        """The number m of inputs."""
        return self.u.shape[1]

    @property
    def linear(self) -> LinearPrior | None:
        """Of linear terms that are never switched off: where data are few each of them costs, and is doubted."""
        if not self.linear_stays:
            return None
        share = min(1.0, self.n / (ROWS_OF_DOUBT * self.n_inputs**2))
        of_waves = DOUBT_BESIDE_LINEAR if self.n_inputs == 1 else DOUBT
        return LinearPrior(doubt=1 - share, doubt_of_waves=of_waves, least=LEAST_SQUARE * share)


class FittedWaves(NamedTuple):
    """Frequencies, and the regression on them of the outputs V y."""

    basis: Basis
    kind: Int  # (K,): the group of each frequency
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
        groups = self._groups_in_use
        return self.basis.of_groups(groups) if len(groups) else None

    @property
    def any_waves(self) -> bool:
        """Whether the data determine something of a wave, besides linear terms and products."""
        return bool((self._groups_in_use >= 0).any())

    @property
    def _groups_in_use(self) -> Int:
        """The groups that are not switched off for all outputs."""
        ridges = np.min([fit.ridges for fit in self.fits], axis=0)
        return self.basis.groups[ridges < SWITCHED_OFF]

    @property
    def walking(self) -> tuple[Float, Int]:
        """The frequencies that did not stand out, but for linear terms, and their groups."""
        chosen = (self.kind >= 0) & ~stood_out(self.kind, self.basis.omega.shape[1])
        return self.basis.omega[chosen], self.kind[chosen]

    @property
    def found(self) -> Float:
        """The frequencies that stood out."""
        return self.basis.omega[stood_out(self.kind, self.basis.omega.shape[1])]


def fitted_waves(
    omega: Float,
    group: Int,
    found: Float,
    targets: Targets,
    V: Float,
    ridge: float | None,
    monomials: Int | tuple[()] = (),
    *,
    without_waves: bool = False,
) -> FittedWaves:
    """The regression of V y on linear terms, some monomials and the principal features of some frequencies.

    Parameters
    ----------
    omega, group : arrays of shape (K, m) and (K,)
        Frequencies and their groups.
    found : array of shape (F, m)
        Frequencies that stood out.
    targets : Targets
    V : array of shape (p, p)
    ridge : float or None
        Algorithm 1's λ, instead of ridges of largest evidence.
    monomials : array of shape (P,), optional
        Groups of monomials.
    without_waves : bool
        Switch waves off: what there is to them counts in error bars alone.
    """
    m = targets.n_inputs
    straight = np.flatnonzero(~targets.periodic)  # a periodic input has no linear term
    long = [monomial_waves(g, m)[0] for g in monomials]
    waves = np.concatenate([LINEAR_FREQUENCY * np.eye(m)[straight], *long, omega, found])
    of_long = np.repeat(np.array(monomials, dtype=int), [len(each) for each in long])
    of_found = np.array([group_of_wave(wave) for wave in found], dtype=int)
    kind = np.concatenate([straight - m, of_long, group, of_found])
    order = np.argsort(kind, kind="stable")
    waves, kind = waves[order], kind[order]
    gram, right = targets.equations.real_gram(np.concatenate([waves, np.zeros((1, m))]))
    apart = ridge is None and targets.linear_stays
    basis, A, b = principal_features(waves, kind, gram, right, apart=apart, origin=targets.origin)
    prior = targets.linear
    if prior is not None and without_waves:
        prior = prior._replace(alone=True, doubt_of_terms=doubt_of_terms(len(monomials) * len(V)))
    basis = basis._replace(linear=prior, without_waves=without_waves)
    return regressed(basis, kind, A, b, targets, V, ridge)


def doubt_of_terms(n_terms: int) -> float:
    """The doubt with which noise keeps at most `FALSE_TERMS` of n_terms single amplitudes on average.

    A single amplitude that is z standard errors without a ridge has a ridge λ = σ² (γ + doubt) / c² if
    γ (1 − γ) z² = γ + doubt for a γ between 0 and 1, which is where z ≥ √doubt + √(1 + doubt).
    """
    z = -float(scipy.special.ndtri(0.5 * min(1.0, FALSE_TERMS / max(n_terms, 1))))
    return (0.5 * (z - 1 / z)) ** 2 if z > 1 else 0.0


def regressed(
    basis: Basis, kind: Int, A: Float, b: Float, targets: Targets, V: Float, ridge: float | None
) -> FittedWaves:
    """The regression of V y, for A and b = Xᵀ W y."""
    squares, right = np.einsum("ij,jk,ik->i", V, targets.squares, V), b @ V.T
    squares = np.maximum(squares, LEAST_SQUARES * targets.n)
    with one_blas_thread:
        started = start_of_regressions(A, targets.n, basis, ridge)
        fits = [regress(A, right[:, j], float(squares[j]), targets.n, basis, ridge, started) for j in range(len(V))]
    return FittedWaves(basis, kind, A, b, V, fits)


def noise_units(waves: FittedWaves, targets: Targets) -> Float:
    """V such that the residuals of V y are uncorrelated and of unit variance."""
    c = waves.amplitudes
    mixed = targets.squares - waves.b.T @ c - c.T @ waves.b + c.T @ waves.A @ c
    scale = 1 / np.sqrt(np.diagonal(targets.squares))
    values, vectors = np.linalg.eigh(mixed * np.outer(scale, scale))
    values = np.maximum(values, LEAST_EIGENVALUE) * (1 / targets.n)
    return np.asarray((vectors / np.sqrt(values)).T * scale)
