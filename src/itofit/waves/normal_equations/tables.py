"""Sums over data in large boxes of frequencies: nodes that stand for the data, and tables of φ and ψ.

- Nodes are few weighted points with the same Chebyshev moments as the data. The squared error of a network is a sum
  over them.
- The tables hold φ and ψ on a uniform grid of frequencies with spacing π, from which they are interpolated at any
  frequency. This is half of a non-uniform fast Fourier transform, and finufft does it: with its kernel κ,
  Σ_j κ(ω/π − j) exp(iπj·u) = κ̂(u) exp(iω·u), so what is tabulated are the data weighted by 1/κ̂(u).
"""

from __future__ import annotations

import threading
from functools import cache
from math import ceil

import finufft
import numpy as np

from itofit._blocks import map_chunks
from itofit._checks import Complex, Float, Int
from itofit.waves.chebyshev import nodes, weights_at_nodes
from itofit.waves.normal_equations.moments import Moments
from itofit.waves.trigonometry import cos_sin

WIDTH = 16
"""Of finufft's kernel, in steps of the grid, at most."""


class NodeSums:
    """The squared error of networks whose frequencies are within a box.

    ======  ==================  ==================================================
    name    shape               meaning
    ======  ==================  ==================================================
    points  D arrays (Q_d,)     coordinates of the nodes, a tensor product
    weight  (Q_1, ..., Q_D)     how many rows a node stands for; may be negative
    target  (…, p, Q_D)         the same times twice their targets
    ======  ==================  ==================================================

    Parameters
    ----------
    data : Moments
        At least Q of them in each direction.
    Q : tuple of int
        From `itofit.waves.chebyshev.n_terms`.
    """

    def __init__(self, data: Moments, Q: tuple[int, ...]) -> None:
        values = weights_at_nodes(data.values, Q)
        self.points = [0.5 * nodes(q) for q in Q]
        self.weight = values[0]
        self.target = 2 * np.moveaxis(values[1:].reshape(len(values) - 1, -1, Q[-1]), 0, 1)
        self.squares = data.squares

    def squared_error(self, omega: Float, beta: Complex) -> float:
        """Σ_n |y_n − Re(S β̂)_n|², over rows and outputs."""
        K, p = beta.shape
        first = np.ones((K, 1), dtype=complex)  # features at the nodes of all directions but the last
        for d in range(len(self.points) - 1):
            first = (first[:, :, None] * self._features(omega, d)[:, None]).reshape(K, -1)
        last = beta[:, :, None] * self._features(omega, len(self.points) - 1)[:, None]
        left = np.concatenate([first.real, first.imag]).T
        right = np.concatenate([last.real, -last.imag]).reshape(2 * K, -1)
        network = (left @ right).reshape(len(left), p, -1)
        misfit = self.weight.reshape(len(left), 1, -1) * network - self.target
        return max(float(np.vdot(network, misfit) + self.squares.sum()), 0.0)

    def _features(self, omega: Float, d: int) -> Complex:
        """exp(i ω_kd u) at the coordinates of direction d: shape (K, Q_d)."""
        CD = cos_sin(omega[:, d : d + 1], self.points[d][:, None])
        return np.asarray(CD[: len(omega)] + 1j * CD[len(omega) :])


class TableSums:
    """Gram matrix and right side at frequencies within a box.

    ======  ==================  =============
    name    shape               meaning
    ======  ==================  =============
    phi     (M_1, ..., M_D)     table of φ
    psi     (p, M_1, ..., M_D)  table of ψ
    ======  ==================  =============

    Parameters
    ----------
    data : Moments
        At least Q of them in each direction.
    Q : tuple of int
        From `itofit.waves.chebyshev.n_terms`.
    box : array of shape (D,)
        Largest |ω| in each direction.
    accuracy : float
        Of the sums, relative to Σ|y|.
    """

    def __init__(self, data: Moments, Q: tuple[int, ...], box: Float, accuracy: float) -> None:
        self.accuracy = accuracy
        self.sizes = tuple(2 * (ceil(2 * side / np.pi) + WIDTH) for side in box)
        tables = weights_at_nodes(data.values, Q).astype(complex)
        for axis, (size, q) in enumerate(zip(self.sizes, Q, strict=True), start=1):
            grid = np.exp(1j * np.pi * np.outer(np.arange(size) - size // 2, 0.5 * nodes(q)))
            grid /= _kernel_transform(0.5 * nodes(q), len(Q), accuracy)
            tables = np.moveaxis(np.tensordot(grid, tables, axes=(1, axis)), 0, axis)
        self.phi, self.psi = np.ascontiguousarray(tables[0]), np.ascontiguousarray(tables[1:])
        self.plans = threading.local()

    def gram(self, omega: Float) -> tuple[Complex, Complex]:
        """The lower triangle of SᴴS (K, K), and Sᴴy (K, p)."""
        K = len(omega)
        rows, cols = _lower_triangle(K)
        gram = np.zeros((K, K), dtype=complex)

        def interpolate(chunk: slice) -> None:
            k, other = rows[chunk], cols[chunk]
            gram[k, other] = self._interpolated(self.phi, [column.take(other) - column.take(k) for column in omega.T])

        map_chunks(interpolate, len(rows), chunk_rows=4096)
        return gram, self._interpolated(self.psi, list(-omega.T)).reshape(-1, K).T

    def real_gram(self, omega: Float) -> tuple[Float, Float]:
        """[C D]ᵀ[C D] of shape (2K, 2K) and [C D]ᵀy of shape (2K, p), from φ(ω_l − ω_k) and φ(ω_l + ω_k)."""
        K = len(omega)
        rows, cols = _lower_triangle(K)
        minus, plus = np.empty((K, K), dtype=complex), np.empty((K, K), dtype=complex)

        def interpolate(chunk: slice) -> None:
            k, other = rows[chunk], cols[chunk]
            both = [(column.take(other), column.take(k)) for column in omega.T]
            there = [np.concatenate([second - first, second + first]) for second, first in both]
            difference, total = np.split(self._interpolated(self.phi, there), 2)
            minus[k, other], minus[other, k] = difference, difference.conj()
            plus[k, other] = plus[other, k] = total

        map_chunks(interpolate, len(rows), chunk_rows=2048)
        G = np.empty((2 * K, 2 * K))
        G[:K, :K], G[K:, K:] = 0.5 * (minus + plus).real, 0.5 * (minus - plus).real
        G[:K, K:] = 0.5 * (minus + plus).imag
        G[K:, :K] = G[:K, K:].T
        right = self._interpolated(self.psi, list(-omega.T)).reshape(-1, K).T
        return G, np.concatenate([right.real, -right.imag])

    def _interpolated(self, table: Complex, omega: list[Float]) -> Complex:
        """A table, or a stack of them, at frequencies given by D columns of shape (n,)."""
        n_tables = len(table) if table.ndim > len(omega) else 1
        plans: dict[int, finufft.Plan] = self.plans.__dict__  # type: ignore[assignment]
        if n_tables not in plans:  # of this thread
            plans[n_tables] = _interpolation(self.sizes, n_tables, self.accuracy)
        plans[n_tables].setpts(*(column * (2 / size) for column, size in zip(omega, self.sizes, strict=True)))
        return np.asarray(plans[n_tables].execute(table))


def _interpolation(sizes: tuple[int, ...], n_tables: int, accuracy: float) -> finufft.Plan:
    eps = max(0.3 * accuracy, 1e-13)  # what finufft makes of it is a few times larger
    return finufft.Plan(
        2, sizes, n_trans=n_tables, eps=eps, isign=1, spreadinterponly=1, upsampfac=2.0, nthreads=1, spread_sort=0
    )


def _kernel_transform(u: Float, D: int, accuracy: float) -> Float:
    """κ̂(u) = Σ_j κ(j) exp(iπju), real because κ is even; in each of D directions the same."""
    kernel = _kernel(D, accuracy)
    j = np.arange(len(kernel)) - len(kernel) // 2
    return np.asarray(np.cos(np.pi * np.outer(u, j)) @ kernel)


@cache
def _kernel(D: int, accuracy: float) -> Float:
    """κ(j) for whole j from −WIDTH to WIDTH: what interpolating a table with a single one gives in steps from it."""
    size = 4 * WIDTH
    table = np.zeros((size,) * D, dtype=complex)
    table[(size // 2,) * D] = 1.0
    steps = 2 * np.pi / size * np.arange(-WIDTH, WIDTH + 1)
    plan = _interpolation(table.shape, 1, accuracy)
    plan.setpts(steps, *[np.zeros_like(steps)] * (D - 1))
    products = plan.execute(table).real  # κ(j) κ(0) ⋯ κ(0)
    return np.asarray(products / products[WIDTH] ** ((D - 1) / D))


@cache
def _lower_triangle(K: int) -> tuple[Int, Int]:
    return np.tril_indices(K)
