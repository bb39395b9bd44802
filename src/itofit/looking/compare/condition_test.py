"""Whether two data sets follow one equation: tests of a difference between their drifts and between their covariances.

Both are explained by one equation, the mean of those that were learned from each, with the mean rate g and the
covariance S of a step. What that leaves of the steps of data set c,

    r = Δx − h g,

is regressed on polynomials φ (R of them) of the inputs, with weights S⁻¹: under one equation the coefficients of both
data sets agree, whatever g leaves out, if polynomials can express that. Errors of g cancel. With W = S⁻¹,

    G = Σ h φφᵀ ⊗ W,    c = G⁻¹ Σ φ ⊗ W r,    Cov c = G⁻¹ (Σ h φφᵀ ⊗ W S_c W) G⁻¹,

and (c_a − c_b)ᵀ (Cov c_a + Cov c_b)⁻¹ (c_a − c_b) is χ² of as many degrees of freedom as there are coefficients.

Whether the noise differs is told by the same with products z_i z_j, whose covariances are taken from the data. Here z
is what the equation of each data set leaves of its own steps, without what their length makes of noise (a steeper drift
makes less of the same noise), in units of the mean of both Σ.

How much the length of steps makes of noise depends on the slope of the drift, which is learned as well. An error of the
drift changes the covariance C of a step by some ΔC (`itofit.looking.compare.uncertain_steps`), and so the products by

    −T ΔC Tᵀ,    T = U⁻¹ Σ^½ C^−½,    U Uᵀ = mean of both Σ.

For drifts drawn from the posterior, that is regressed on the same polynomials, and the covariance of these coefficients
is added. Errors of a drift and the products of what it leaves over are uncorrelated.

Steps of a track need not be independent of each other: what is left of a step is, given all steps before it.

Polynomials take few coefficients, so that a difference all over the range is seen early; they are of places within two
standard deviations of the mean, and constant beyond, so that no single row decides.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.polynomial.legendre import legvander
from scipy.special import chdtrc

from itofit._checks import Float
from itofit.data.passes import Data, add_up, added
from itofit.data.periods import is_periodic
from itofit.data.transitions import Transitions
from itofit.looking.compare.uncertain_steps import uncertain_steps
from itofit.model.finite_step import Scheme
from itofit.model.likelihood import BATCH_ROWS
from itofit.model.sampled import SampledSDEs
from itofit.model.sde import SDE

DRIFT_DEGREE, NOISE_DEGREE = 3, 2
"""Of polynomials, at most."""
MOST_TERMS = 40
"""With more inputs the degree is lower."""
ROWS_PER_COEFFICIENT = 10
"""Fewer do not make the coefficients normal."""
REACH = 2.0
"""Standard deviations around the mean of the inputs within which polynomials are not constant."""
PLACES = 4000
"""Where drawn drifts are evaluated, on the way of steps of each data set."""


class ConditionTest(NamedTuple):
    """The answer of one test.

    Parameters
    ----------
    statistic : float
        Distance of the two data sets' coefficients in units of its standard error, squared.
    n_coefficients : int
        Its expected value if there is no difference.
    p : float
        Probability of so large a distance by chance.
    degree : int
        Of the polynomials.
    """

    statistic: float
    n_coefficients: int
    p: float
    degree: int


class Polynomials(NamedTuple):
    """Products of Legendre polynomials of the inputs, of some total degree; of periodic ones cosines and sines.

    The cosine and the sine of k times an angle are of degree k.
    """

    centre: Float  # (m,)
    reach: Float  # (m,)
    periods: Float  # (2, m)
    degree: int

    def __call__(self, x: Float) -> Float:
        """At points (n, m): shape (n, R)."""
        u = np.clip((x - self.centre) / self.reach, -1, 1)
        factors = [legvander(column, self.degree) for column in u.T]
        for i in np.flatnonzero(is_periodic(self.periods)):
            low, high = self.periods[:, i]
            turns = np.outer(2 * np.pi * (x[:, i] - low) / (high - low), np.arange(1, self.degree + 1))
            waves = np.stack([np.cos(turns), np.sin(turns)], axis=2).reshape(len(x), -1)
            factors[i] = np.concatenate([np.ones((len(x), 1)), waves], axis=1)
        chosen = products_of(is_periodic(self.periods), self.degree)
        return np.stack([np.prod([f[:, k] for f, k in zip(factors, each, strict=True)], axis=0) for each in chosen], 1)


def products_of(periodic: npt.NDArray[np.bool_], degree: int) -> list[tuple[int, ...]]:
    """The numbers of the factors of each product of a total degree, at most: of an angle there are two of each."""
    degrees = [[(k + 1) // 2 for k in range(2 * degree + 1)] if turns else range(degree + 1) for turns in periodic]
    numbers = product(*(range(len(own)) for own in degrees))
    return [each for each in numbers if sum(own[k] for own, k in zip(degrees, each, strict=True)) <= degree]


class _Sums(NamedTuple):
    """Sums over the rows of one data set."""

    n: int
    G: Float  # (dR, dR)
    right: Float  # (dR,)
    spread: Float  # (dR, dR)
    A: Float  # (R₂, R₂)
    Az: Float  # (R₂, p)
    zz: Float  # (p, p)


class _Coefficients(NamedTuple):
    """Coefficients of one data set, and the covariance of their errors."""

    values: Float
    covariance: Float


class Drawn(NamedTuple):
    """Equations from the posterior of a learned one, and steps of the data that it was learned from."""

    samples: SampledSDEs
    rows: Transitions


def condition_tests(
    a: SDE, b: SDE, data_a: Data, data_b: Data, drawn: tuple[Drawn, Drawn] | None = None
) -> tuple[ConditionTest, ConditionTest] | None:
    """Tests of the drift and of the noise; None if there are too few rows.

    Parameters
    ----------
    a, b : SDE
        Learned from each condition.
    data_a, data_b : Data
    drawn : two of Drawn, optional
        How uncertain the drifts are; without, they count as known.
    """
    n_least = min(len(data_a), len(data_b))
    periodic, d = is_periodic(a.periods), a.n_outputs
    degrees = _degree(periodic, d, n_least, DRIFT_DEGREE), _degree(periodic, d * (d + 1) // 2, n_least, NOISE_DEGREE)
    if min(degrees) < 0:
        return None
    place = _places(data_a, data_b)
    bases = tuple(Polynomials(*place, a.periods, degree) for degree in degrees)
    of_a, of_b = (_sums_of(data, (a, b), own, bases) for own, data in enumerate((data_a, data_b)))
    drift = _compared(_drift_coefficients(of_a), _drift_coefficients(of_b), degrees[0])
    noises = [_noise_coefficients(of_a), _noise_coefficients(of_b)]
    if drawn is not None and _scheme((a, b)) == "corrected":
        for own in (0, 1):
            more = _spread_by_drift((a, b), own, *drawn[own], bases[1])
            noises[own] = noises[own]._replace(covariance=noises[own].covariance + more)
    return drift, _compared(noises[0], noises[1], degrees[1])


def _degree(periodic: npt.NDArray[np.bool_], n_functions: int, n_rows: int, most: int) -> int:
    """The largest degree that is not too much for these inputs and some rows; −1 if there is none."""
    for degree in range(most, -1, -1):
        terms = len(products_of(periodic, degree))
        if terms <= MOST_TERMS and terms * n_functions * ROWS_PER_COEFFICIENT <= n_rows:
            return degree
    return -1


def _places(data_a: Data, data_b: Data) -> tuple[Float, Float]:
    """Mean of the inputs of both data sets, and REACH standard deviations: shapes (m,)."""

    def of_block(block: Transitions, number: int) -> tuple[int, Float, Float]:
        return len(block), block.inputs.sum(axis=0), (block.inputs**2).sum(axis=0)

    n, total, squares = added(add_up(data_a, of_block), add_up(data_b, of_block))
    mean = total / n
    variance = np.maximum(squares / n - mean**2, 0)
    return mean, REACH * np.where(variance > 0, np.sqrt(variance), 1.0)


def _sums_of(data: Data, both: tuple[SDE, SDE], own: int, bases: tuple[Polynomials, ...]) -> _Sums:
    """Of the data set to which the equation both[own] belongs."""
    d = both[0].n_outputs
    i, j = np.tril_indices(d)

    def of_block(block: Transitions, number: int) -> _Sums:
        x, h = block.inputs, block.h
        rates, covariances = zip(*(sde._moments(x, h, _scheme(both)) for sde in both), strict=True)
        S = np.mean(covariances, axis=0)
        left = block.increments - h[:, None] * np.mean(rates, axis=0)
        W = np.linalg.inv(S)
        sigmas = [sde.covariance(x) for sde in both]
        own_left = (block.increments - h[:, None] * rates[own]) / np.sqrt(h)[:, None]
        z = _standardised(own_left, covariances[own], sigmas[own], np.mean(sigmas, axis=0))
        phi, psi = (basis(x) for basis in bases)
        size = d * phi.shape[1]
        products = z[:, i] * z[:, j]
        return _Sums(
            n=len(block),
            G=_kronecker_sum(h[:, None, None] * W, phi).reshape(size, size),
            right=(np.einsum("nij,nj->in", W, left) @ phi).ravel(),
            spread=_kronecker_sum(h[:, None, None] * (W @ covariances[own] @ W), phi).reshape(size, size),
            A=psi.T @ psi,
            Az=psi.T @ products,
            zz=products.T @ products,
        )

    return add_up(data, of_block, most_rows=BATCH_ROWS)


def _standardised(left: Float, covariance: Float, sigma: Float, mean: Float) -> Float:
    """What is left of steps, z (n, d): as noise of the covariance σ would be without their length, in units of a mean.

    Parameters
    ----------
    left : array of shape (n, d)
        r / √h, of covariance `covariance` (n, d, d) by the equation that was learned from these steps.
    sigma, mean : arrays of shape (n, d, d)
        Σ of that equation, and the mean of both.
    """
    return _turned(left[:, :, None], covariance, sigma, mean)[:, :, 0]


def _turned(columns: Float, covariance: Float, sigma: Float, mean: Float) -> Float:
    """T times columns (n, d, k), T = U⁻¹ Σ^½ C^−½ as above."""
    root, step, unit = (np.linalg.cholesky(own) for own in (sigma, covariance, mean))
    return np.asarray(np.linalg.solve(unit, root @ np.linalg.solve(step, columns)))


def _spread_by_drift(
    both: tuple[SDE, SDE], own: int, samples: SampledSDEs, rows: Transitions, psi: Polynomials
) -> Float:
    """What errors of a drift add to the covariance of the coefficients of products, by way of the length of steps."""
    d = both[own].n_outputs
    some = rows[:: -(-len(rows) * 2 * d // PLACES)]
    x = some.inputs
    covariance, changes = uncertain_steps(both[own], samples, x, some.h)
    sigmas = [each.covariance(x) for each in both]
    T = _turned(np.eye(d), covariance, sigmas[own], np.mean(sigmas, axis=0))
    i, j = np.tril_indices(d)
    products = -(T @ changes @ T.swapaxes(1, 2))[:, :, i, j]  # (k, n, p)
    polynomials = psi(x)
    back = np.linalg.pinv(polynomials.T @ polynomials, hermitian=True) @ polynomials.T
    coefficients = np.einsum("rn,knp->kpr", back, products).reshape(len(samples), -1)
    return np.atleast_2d(np.cov(coefficients.T))


def _scheme(both: tuple[SDE, SDE]) -> Scheme:
    """The moments of steps that both equations have, so that steps of different lengths can be compared."""
    return "euler" if any(sde.kind == "general" or sde.scheme == "euler" for sde in both) else "corrected"


def _kronecker_sum(weight: Float, phi: Float) -> Float:
    """Σ_n W_n ⊗ φ_n φ_nᵀ for weights (n, d, d): shape (d, R, d, R)."""
    d, R = weight.shape[1], phi.shape[1]
    total = np.empty((d, R, d, R))
    for i in range(d):
        for j in range(d):
            total[i, :, j] = (phi.T * weight[:, i, j]) @ phi
    return total


def _drift_coefficients(sums: _Sums) -> _Coefficients:
    inverse = np.linalg.pinv(sums.G, hermitian=True)
    return _Coefficients(inverse @ sums.right, inverse @ sums.spread @ inverse)


def _noise_coefficients(sums: _Sums) -> _Coefficients:
    inverse = np.linalg.pinv(sums.A, hermitian=True)
    c = inverse @ sums.Az
    left = (sums.zz - c.T @ sums.Az) / (sums.n - len(c))
    return _Coefficients(c.T.ravel(), np.asarray(np.kron(left, inverse), dtype=np.float64))


def _compared(a: _Coefficients, b: _Coefficients, degree: int) -> ConditionTest:
    """The distance of two data sets' coefficients."""
    difference, covariance = a.values - b.values, a.covariance + b.covariance
    scale = np.sqrt(np.maximum(np.diagonal(covariance), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    kept = values > values[-1] * 1e-10  # polynomials of inputs that do not vary are no new ones
    along = (vectors[:, kept].T @ (difference / scale)) ** 2 / values[kept]
    statistic = float(along.sum())
    return ConditionTest(statistic, int(kept.sum()), float(chdtrc(int(kept.sum()), statistic)), degree)
