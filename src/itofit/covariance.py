"""Covariance matrices Σ: as vectors of their entries, made positive definite, and factored. No loops over points.

A structure says which entries of Σ are learned: the diagonal, or the lower triangle row by row, so that entry (i, j)
stands at place i(i − 1)/2 + j of the vector, counted from one.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, Int

Structure = Literal["diagonal", "full"]
Factor = Literal["cholesky", "symmetric"]

FLOOR = 1e-3
"""Default for the smallest eigenvalue of Σ(x), relative to the mean covariance of the data."""

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


def positive_definite(
    vectors: Float, structure: Structure, factor: Float, floor: float
) -> tuple[Float, npt.NDArray[np.bool_]]:
    """Σ from its learned entries, with eigenvalues below a floor raised to it, in the units of a reference covariance.

    With the reference L Lᵀ, the eigenvalues are those of L⁻¹ Σ L⁻ᵀ. So the result does not depend on the units or
    the directions in which the state was measured, and a noise that is nearly singular as a whole is kept as it is.

    Parameters
    ----------
    vectors : array of shape (n, number of entries)
    structure : {"diagonal", "full"}
    factor : array of shape (d, d)
        L, lower triangular; for structure "diagonal" it is diagonal.
    floor : float

    Returns
    -------
    sigma : array of shape (n, d, d)
        With the entries unchanged to the last bit where nothing was below the floor.
    below : array of bool, shape (n,)
        Where something was.
    """
    d = len(factor)
    if structure == "diagonal" or d == 1:
        least = floor * np.diagonal(factor) ** 2
        below: npt.NDArray[np.bool_] = np.any(vectors < least, axis=1)
        return to_matrices(np.maximum(vectors, least), structure, d), below
    sigma = to_matrices(vectors, structure, d)
    unit = np.linalg.norm(factor, axis=1)  # so that columns of very different units lose no digits
    factor = factor / unit[:, None]
    inverse = np.linalg.inv(factor)
    white = inverse @ (sigma / np.outer(unit, unit)) @ inverse.T
    try:  # far cheaper than eigenvalues, and usually all there is to do
        np.linalg.cholesky(white - floor * np.eye(d))
        return sigma, np.zeros(len(sigma), dtype=bool)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(white)
    below = values[:, 0] < floor
    values, vectors = values[below], vectors[below]
    root = factor @ (vectors * np.sqrt(np.maximum(values, floor))[:, None, :])
    sigma[below] = np.outer(unit, unit) * (root @ root.swapaxes(1, 2))
    return sigma, below


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
