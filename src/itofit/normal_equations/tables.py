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
from itofit._trigonometry import cos_sin
from itofit.chebyshev import apply_along, nodes, weights_at_nodes
from itofit.normal_equations.moments import Moments


class TableSums:
    """Gram matrix, right side and squared error at frequencies within a box.

    ======  ==================  ==================================================
    name    shape               meaning
    ======  ==================  ==================================================
    points  D arrays (Q_d,)     coordinates of the nodes, a tensor product
    weight  (Q_1, ..., Q_D)     how many rows a node stands for; may be negative
    target  (p, Q_1, ..., Q_D)  the same times their targets
    phi     (M_1, ..., M_D)     table of φ
    psi     (p, M_1, ..., M_D)  table of ψ
    ======  ==================  ==================================================

    Parameters
    ----------
    data : Moments
        At least Q of them in each direction.
    Q : tuple of int
        From `itofit.chebyshev.n_terms`.
    box : array of shape (D,)
        Largest |ω| in each direction.
    accuracy : float
        Of the sums, relative to Σ|y|.
    """

    def __init__(self, data: Moments, Q: tuple[int, ...], box: Float, accuracy: float) -> None:
        values = weights_at_nodes(data.values, Q)
        self.points = [0.5 * nodes(q) for q in Q]
        self.weight, self.target = values[0], values[1:]
        self.n_points = self.weight.size
        self.squares = data.squares
        self.accuracy = accuracy
        width = ceil(-np.log10(accuracy)) + 2  # of finufft's kernel, at most
        self.sizes = tuple(2 * (ceil(2 * side / np.pi) + width) for side in box)
        tables = values.astype(complex)
        for axis, (size, u) in enumerate(zip(self.sizes, self.points, strict=True), start=1):
            grid = np.exp(1j * np.pi * np.outer(np.arange(size) - size // 2, u))
            tables = apply_along(grid / _kernel_transform(grid, accuracy), tables, axis)
        self.phi, self.psi = np.ascontiguousarray(tables[0]), np.ascontiguousarray(tables[1:])
        self.plans = threading.local()

    def gram(self, omega: Float) -> tuple[Complex, Complex]:
        """The lower triangle of SᴴS (K, K), and Sᴴy (K, p)."""
        K = len(omega)
        rows, cols = _lower_triangle(K)
        differences = omega[cols] - omega[rows]
        values = np.empty(len(rows), dtype=complex)

        def interpolate(chunk: slice) -> None:
            values[chunk] = self._interpolated(self.phi, differences[chunk])

        map_chunks(interpolate, len(rows))
        gram = np.zeros((K, K), dtype=complex)
        gram[rows, cols] = values
        return gram, self._interpolated(self.psi, -omega).reshape(-1, K).T

    def squared_error(self, omega: Float, beta: Complex) -> float:
        """Σ_n |y_n − Re(S β̂)_n|², over rows and outputs."""
        K = len(omega)
        left = np.ones((K, 1), dtype=complex)  # features at the nodes of all directions but the last
        for d, u in enumerate(self.points[:-1]):
            CD = cos_sin(omega[:, d : d + 1], u[:, None])
            left = (left[:, :, None] * (CD[:K] + 1j * CD[K:])[:, None]).reshape(K, -1)
        right = cos_sin(omega[:, -1:], self.points[-1][:, None])
        weight = self.weight.reshape(left.shape[1], -1)
        total = float(self.squares.sum())
        for target, amplitudes in zip(self.target, beta.T, strict=True):
            product = amplitudes[:, None] * left
            network = np.concatenate([product.real, -product.imag]).T @ right
            total += float(np.vdot(network, weight * network - 2 * target.reshape(weight.shape)))
        return max(total, 0.0)

    def _interpolated(self, table: Complex, omega: Float) -> Complex:
        """A table, or a stack of them, at the frequencies omega of shape (n, D)."""
        n_tables = len(table) if table.ndim > omega.shape[1] else 1
        plans: dict[int, finufft.Plan] = self.plans.__dict__  # type: ignore[assignment]
        if n_tables not in plans:  # of this thread
            plans[n_tables] = _interpolation(self.sizes, n_tables, self.accuracy)
        plans[n_tables].setpts(*(np.ascontiguousarray(column) for column in (omega * (2 / np.array(self.sizes))).T))
        return np.asarray(plans[n_tables].execute(table))


def _interpolation(sizes: tuple[int, ...], n_tables: int, accuracy: float) -> finufft.Plan:
    return finufft.Plan(
        2, sizes, n_trans=n_tables, eps=accuracy, isign=1, spreadinterponly=1, upsampfac=2.0, nthreads=1, spread_sort=0
    )


def _kernel_transform(grid: Complex, accuracy: float) -> Float:
    """κ̂ at Q points: what interpolating their exponentials (size, Q) at frequency zero gives, where they are one."""
    plan = _interpolation((len(grid),), grid.shape[1], accuracy)
    plan.setpts(np.zeros(1))
    return np.asarray(plan.execute(np.ascontiguousarray(grid.T)).real.ravel())


@cache
def _lower_triangle(K: int) -> tuple[Int, Int]:
    return np.tril_indices(K)
