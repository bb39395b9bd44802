"""A grid of cells over a box, and positive weights of steps between them.

Any positive definite matrix D of two or three dimensions is a sum of at most 3 or 6 terms w v vᵀ with weights w ≥ 0 and
vectors v of whole numbers (Selling, 1874; Bonnans and Zidani, 2003). So noise that mixes the variables is a sum of
noises along steps from cell to cell, none with a negative rate.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, Int
from itofit.dynamics.motion import Motion

MOST_TURNS = 60
"""Of Selling's algorithm; each lengthens the steps, and noise that needs as many is singular to rounding."""
LONGEST = 10
"""Steps in cells."""
WEAKER = 0.98
"""Factor of correlations whose steps would be longer, again and again until they are not."""
PAIRS_OF_THREE = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
Bool: TypeAlias = npt.NDArray[np.bool_]


class Mesh(NamedTuple):
    """Cells of the same size over a box, in the order of NumPy's arrays: the last variable runs fastest."""

    box: Float  # (2, s)
    shape: tuple[int, ...]  # number of cells in each direction
    periodic: tuple[bool, ...]

    @property
    def size(self) -> Float:
        """Of a cell in each direction: shape (s,)."""
        return np.asarray((self.box[1] - self.box[0]) / self.shape)

    @property
    def n(self) -> int:
        """Number of cells."""
        return int(np.prod(self.shape))

    @property
    def volume(self) -> float:
        """Of one cell."""
        return float(np.prod(self.size))

    @property
    def axes(self) -> list[Float]:
        """Coordinates of the centres in each direction."""
        return [
            low + size * (np.arange(k) + 0.5) for low, size, k in zip(self.box[0], self.size, self.shape, strict=True)
        ]

    @property
    def centres(self) -> Float:
        """Shape (n, s)."""
        return np.stack([part.ravel() for part in np.meshgrid(*self.axes, indexing="ij")], axis=1)

    @property
    def places(self) -> Int:
        """Number of each cell in each direction: shape (n, s)."""
        return np.stack(np.unravel_index(np.arange(self.n), self.shape), axis=1)

    def neighbours(self, steps: Int) -> Int:
        """Numbers of the cells that steps (n, s) lead to from each cell, −1 beyond the edge: shape (n,)."""
        to = self.places + steps
        beyond = np.zeros(self.n, dtype=bool)
        for i, (k, wraps) in enumerate(zip(self.shape, self.periodic, strict=True)):
            if wraps:
                to[:, i] %= k
            else:
                beyond |= (to[:, i] < 0) | (to[:, i] >= k)
                to[:, i] = to[:, i].clip(0, k - 1)
        return np.where(beyond, -1, np.ravel_multi_index(tuple(to.T), self.shape))

    def edge_layer(self, share: float) -> Bool:
        """The cells within a share of the range of an edge: shape (n,)."""
        at_edge = np.zeros(self.n, dtype=bool)
        for i, (k, wraps) in enumerate(zip(self.shape, self.periodic, strict=True)):
            if not wraps:
                depth = max(1, round(share * k))
                at_edge |= (self.places[:, i] < depth) | (self.places[:, i] >= k - depth)
        return at_edge

    def interpolate(self, values: Float, points: Float) -> Float:
        """Linear interpolation of values (n, ...) at the centres, at points (k, s): shape (k, ...)."""
        out = np.zeros((len(points), *values.shape[1:]))
        scaled = (points - self.box[0]) / self.size - 0.5
        low = np.floor(scaled).astype(int)
        for corner in np.ndindex(*(2,) * len(self.shape)):
            weight, place = np.ones(len(points)), []
            for i, up in enumerate(corner):
                k = self.shape[i]
                at = scaled[:, i] if self.periodic[i] else scaled[:, i].clip(0, k - 1)
                base = low[:, i] if self.periodic[i] else low[:, i].clip(0, max(k - 2, 0))
                weight *= at - base if up else 1 - (at - base)
                place.append((base + up) % k if self.periodic[i] else (base + up).clip(0, k - 1))
            index = np.ravel_multi_index(tuple(place), self.shape)
            out += weight.reshape(-1, *[1] * (values.ndim - 1)) * values[index]
        return out


def mesh_of(motion: Motion, cells: int | tuple[int, ...]) -> Mesh:
    """A grid over the box of a motion."""
    shape = (cells,) * motion.s if isinstance(cells, int) else cells
    return Mesh(motion.box, shape, tuple(bool(p) for p in motion.periodic))


def positive_steps(D: Float) -> tuple[Int, Float]:
    """Steps v (k, n, s) of whole numbers and weights w ≥ 0 (k, n) with Σ_k w v vᵀ = D, for D of shape (n, s, s).

    Where D is so nearly singular that steps would be longer than `LONGEST` cells, correlations are taken as somewhat
    weaker, as little as makes them shorter.
    """
    n, s = D.shape[:2]
    if s == 1:
        return np.ones((1, n, 1), dtype=int), D[:, :, 0].T
    decompose = _of_two if s == 2 else _of_three
    v, w = decompose(D)
    weaker = np.where(np.eye(s, dtype=bool), 1.0, WEAKER)
    while (long := np.flatnonzero(np.abs(v).max(axis=(0, 2)) > LONGEST)).size:
        D = D.copy()
        D[long] *= weaker
        v[:, long], w[:, long] = decompose(D[long])
    return v, w


def _of_two(D: Float) -> tuple[Int, Float]:
    n = len(D)
    e = np.broadcast_to(np.array([[-1, -1], [1, 0], [0, 1]]), (n, 3, 2)).copy()
    tolerance = 1e-12 * np.trace(D, axis1=1, axis2=2)
    for _ in range(MOST_TURNS):
        settled = True
        for i, j in ((0, 1), (0, 2), (1, 2)):
            k = 3 - i - j
            wide = np.einsum("na,nab,nb->n", e[:, i], D, e[:, j]) > tolerance
            if wide.any():
                settled = False
                first, second = e[wide, i].copy(), e[wide, j].copy()
                e[wide, i], e[wide, j], e[wide, k] = -first, second, first - second
        if settled:
            break
    v = np.stack([-e[:, :, 1], e[:, :, 0]], axis=2).swapaxes(0, 1).copy()
    pairs = ((1, 2), (0, 2), (0, 1))
    w = np.stack([-np.einsum("na,nab,nb->n", e[:, i], D, e[:, j]) for i, j in pairs])
    return v, np.maximum(w, 0.0)


def _of_three(D: Float) -> tuple[Int, Float]:
    n = len(D)
    e = np.broadcast_to(np.array([[-1, -1, -1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]), (n, 4, 3)).copy()
    tolerance = 1e-12 * np.trace(D, axis1=1, axis2=2)
    for _ in range(MOST_TURNS):
        settled = True
        for i, j in PAIRS_OF_THREE:
            k, m = (a for a in range(4) if a not in (i, j))
            wide = np.einsum("na,nab,nb->n", e[:, i], D, e[:, j]) > tolerance
            if wide.any():
                settled = False
                first = e[wide, i].copy()
                e[wide, k] += first
                e[wide, m] += first
                e[wide, i] = -first
        if settled:
            break
    v, w = [], []
    for i, j in PAIRS_OF_THREE:
        k, m = (a for a in range(4) if a not in (i, j))
        v.append(np.cross(e[:, k], e[:, m]))
        w.append(-np.einsum("na,nab,nb->n", e[:, i], D, e[:, j]))
    return np.stack(v), np.maximum(np.stack(w), 0.0)
