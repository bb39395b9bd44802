"""Covariance matrices Σ: as vectors of their entries, made positive definite, and factored. No loops over points.

A structure says which entries of Σ are learned: the diagonal, or the lower triangle row by row, so that entry (i, j)
stands at place i(i − 1)/2 + j of the vector, counted from one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from itofit._blocks import map_chunks
from itofit._checks import Float, Int

Structure = Literal["diagonal", "full"]
Factor = Literal["cholesky", "symmetric"]

FLOOR = 1e-3
"""Default for the smallest eigenvalue of Σ(x), relative to the mean covariance of the data."""

LEAST_RATIO = 1e-5
"""Of the eigenvalues of a full Σ at one place, in units of the mean covariance: less would be lost in rounding."""
LEAST_EIGENVALUE = 1e-13
"""Of correlations that are to have a Cholesky factor."""
LEAST_FLOOR = 1e-6
"""A smaller floor would be lost in the rounding of a nearly singular noise."""


def entries(structure: Structure, d: int) -> tuple[Int, Int]:
    """Row and column of each learned entry of a d × d covariance."""
    if structure == "diagonal":
        return np.arange(d), np.arange(d)
    return np.tril_indices(d)


def outer_entries(r: Float, structure: Structure) -> Float:
    """The learned entries of r rᵀ for each row r: shape (n, d) to (n, number of entries)."""
    rows, cols = entries(structure, r.shape[1])
    return r[:, rows] * r[:, cols]


def to_matrices(vectors: Float, structure: Structure, d: int) -> Float:
    """Symmetric matrices from their learned entries: shape (n, number of entries) to (n, d, d)."""
    rows, cols = entries(structure, d)
    matrices = np.zeros((len(vectors), d, d))
    matrices[:, rows, cols] = vectors
    matrices[:, cols, rows] = vectors
    return matrices


def eigenvalues(matrices: Float) -> tuple[Float, Float]:
    """Eigenvalues (n, d), ascending, and eigenvectors (n, d, d) of symmetric matrices, on all cores."""
    parts = map_chunks(lambda chunk: np.linalg.eigh(matrices[chunk]), len(matrices), level="matrices")
    values, vectors = zip(*parts, strict=True)
    return np.concatenate(values), np.concatenate(vectors)


def reference_factor(mean: Float, floor: float = FLOOR) -> Float:
    """L with L Lᵀ = the mean covariance of shape (d, d), made positive definite if it is (nearly) singular.

    In units of its own diagonal, its eigenvalues are at least 1e-8, and so large that `floor` times them stands
    clear of rounding.
    """
    unit = np.sqrt(np.diagonal(mean))
    values, vectors = np.linalg.eigh(mean / np.outer(unit, unit))
    values = np.maximum(values, max(1e-8, 100 * len(mean) * np.finfo(float).eps / floor))
    factor: Float = unit[:, None] * np.linalg.cholesky((vectors * values) @ vectors.T)
    return factor


def floor_limits(floor: float, d: int) -> Float:
    """Limits (2, d) of eigenvalues that are a floor alone."""
    return np.array([[floor] * d, [np.inf] * d])


def symmetric(matrices: Float) -> Float:
    """Matrices (n, d, d) that are symmetric up to rounding, made so to the last bit."""
    return np.asarray(0.5 * (matrices + matrices.swapaxes(1, 2)))


def positive_definite(
    vectors: Float, structure: Structure, factor: Float, limits: Float
) -> tuple[Float, npt.NDArray[np.bool_]]:
    """Σ from its learned entries, with eigenvalues kept within limits, in the units of a reference covariance.

    With the reference L Lᵀ, the eigenvalues are those of L⁻¹ Σ L⁻ᵀ. So the result does not depend on the units or
    the directions in which the state was measured, and a noise that is nearly singular as a whole is kept as it is.

    Parameters
    ----------
    vectors : array of shape (n, number of entries)
    structure : {"diagonal", "full"}
    factor : array of shape (d, d)
        L, lower triangular; for structure "diagonal" it is diagonal.
    limits : array of shape (2, d)
        Least and largest, for each entry of a diagonal Σ; of a full one see `kept_within`.

    Returns
    -------
    sigma : array of shape (n, d, d)
        With the entries unchanged to the last bit where everything was within the limits.
    changed : array of bool, shape (n,)
        Where something was not.
    """
    d = len(factor)
    if structure == "diagonal" or d == 1:
        kept = np.clip(vectors, *(limits * np.diagonal(factor) ** 2))
        return to_matrices(kept, structure, d), np.any(kept != vectors, axis=1)
    sigma = to_matrices(vectors, structure, d)
    unit = np.linalg.norm(factor, axis=1)  # so that columns of very different units lose no digits
    factor = factor / unit[:, None]
    inverse = np.linalg.inv(factor)
    white = inverse @ (sigma / np.outer(unit, unit)) @ inverse.T
    try:  # far cheaper than eigenvalues, and usually all there is to do
        (floor, ceiling), least = limits[:, 0], limits[0, -1]
        np.linalg.cholesky(white - floor * np.eye(d))
        trace = np.trace(white, axis1=1, axis2=2)
        if trace.min(initial=np.inf) >= d * least and trace.max(initial=0.0) < min(ceiling, floor / LEAST_RATIO):
            return sigma, np.zeros(len(sigma), dtype=bool)
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(white)
    kept = kept_within(values, limits)
    changed: npt.NDArray[np.bool_] = (kept != values).any(axis=1)
    kept, vectors = kept[changed], vectors[changed]
    root = factor @ (vectors * np.sqrt(kept)[:, None, :])
    sigma[changed] = np.outer(unit, unit) * (root @ root.swapaxes(1, 2))
    return sigma, changed


def kept_within(values: Float, limits: Float) -> Float:
    """Eigenvalues (n, d) of a full matrix within limits (2, d), the smallest at least a small share of the largest.

    The first of the lower limits is that of all eigenvalues, and the last that of the largest: where it is less, all
    are raised by one factor. Waves that go astray at a place that was hardly seen make all of them small there, and
    not only those that are small elsewhere.
    """
    kept = raised(values, limits[0, 0], limits[1, 0], limits[0, -1])
    return np.maximum(kept, LEAST_RATIO * kept.max(axis=1, keepdims=True))


def raised(values: Float, lower: Float | float, upper: Float | float, top: float) -> Float:
    """Values (n, d) between limits, all of them raised by one factor where the largest is less than `top`."""
    kept = np.clip(values, lower, np.maximum(upper, lower))
    return np.asarray(kept * np.maximum(1.0, top / kept.max(axis=1, keepdims=True))) if top > 0 else kept


def with_eigenvalues(matrix: Float, unit: Float, change: Callable[[Float], Float]) -> Float:
    """A symmetric matrix (d, d) whose eigenvalues, in units of a positive definite one, are changed by a function."""
    L = np.linalg.cholesky(unit)
    back = np.linalg.inv(L)
    values, vectors = np.linalg.eigh(back @ matrix @ back.T)
    axes = L @ vectors
    return np.asarray((axes * change(values)) @ axes.T)


def factors(sigma: Float) -> Float:
    """Cholesky factors of covariances (n, d, d), also where units differ or rounding has left them hardly definite."""
    if sigma.shape[1] == 1 and (sigma > 0).all():
        return np.sqrt(sigma)
    unit = np.sqrt(np.diagonal(sigma, axis1=1, axis2=2))[:, :, None]
    correlation = symmetric(sigma / (unit * unit.swapaxes(1, 2)))
    try:
        return np.asarray(unit * np.linalg.cholesky(correlation))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(correlation)
        kept = np.maximum(values, LEAST_EIGENVALUE)
        raised = symmetric((vectors * kept[:, None, :]) @ vectors.swapaxes(1, 2))
        return np.asarray(unit * np.linalg.cholesky(raised))


def square_root(sigma: Float, factor: Factor) -> Float:
    """σ with σσᵀ = Σ for each matrix: lower triangular, or the principal (symmetric) square root.

    Parameters
    ----------
    sigma : array of shape (n, d, d)
        Positive definite.
    factor : {"cholesky", "symmetric"}

    Returns
    -------
    array of shape (n, d, d)
    """
    if factor == "cholesky":
        return np.asarray(np.linalg.cholesky(sigma))
    values, vectors = np.linalg.eigh(sigma)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]) @ vectors.swapaxes(1, 2))
