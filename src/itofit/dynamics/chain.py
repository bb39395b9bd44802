"""A Markov chain on the cells of a grid that moves as the equation does, with rates that are never negative.

The equation of the probability density, ∂ρ/∂t = −∇·(bρ − ∇·(Dρ)), in Itô's sense, has with D = Σ_v w_v v vᵀ
(`itofit.dynamics.mesh`) and B = D⁻¹b the current

    Σ_v v (B·v w_v ρ − v·∇(w_v ρ)),

a sum of currents along lines. Each is discretised as Scharfetter and Gummel (1969) and Chang and Cooper (1970) did in
one dimension: from x to x ± v at the rate

    w_v(x) F(∓E),    F(z) = z / (exp z − 1),

where E is the mean of B·v at the two ends. Rates are positive for a drift of any strength, probability is conserved, no
current crosses the edge of the box, and if b is a gradient and D constant the chain rests in exp(−U/D) to second order
in the size of a cell. Variables with a period are closed to a ring.

That is best where balance matters: densities, and passages over barriers. But F makes the noise larger by a factor of
1 + E²/12, so that a chain forgets too fast. For relaxation the rates w (max(1, |E|/2) ± E/2), with E = B·v
where the step begins, are better: as long as |E| ≤ 2 the chain moves with exactly the mean and variance of the
equation.

Positions of a second-order system move by the velocity alone, to the neighbour downstream (first order in the size of a
cell, no scheme with positive rates is better); at an edge the velocity turns round.

To a set that absorbs the last step is as long as the way to its boundary, a share θ of the whole one, and steps of
lengths θ₊ and θ₋ have rates 2 w F(∓θ± E) / (θ± (θ₊ + θ₋)) (Shortley and Weller, 1938), so that the position of
the boundary between cells counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from itofit._checks import Float, Int
from itofit.dynamics.mesh import Mesh, positive_steps
from itofit.dynamics.regions import Region

NO_CELL = -1
LEAST_SHARE = 1e-4
"""Of a step to the boundary of a set: rates of shorter ones would swamp all others."""


class Jumps(NamedTuple):
    """Where n cells lead to in J ways, and how fast."""

    to: Int  # (J, n): the numbers of cells; −1 beyond the edge, or into a set that absorbs
    rate: Float  # (J, n)
    step: Int  # (J, n, s): in cells
    into: Int  # (J, n): the number of the set it leads into; −1 if none

    def matrix(self) -> Any:  # noqa: ANN401  (SciPy has no types)
        """The generator (n, n), a CSC matrix: rates off the diagonal, and on it minus all that lead away."""
        n = self.to.shape[1]
        inner = self.to >= 0
        rows = np.broadcast_to(np.arange(n), self.to.shape)[inner]
        leaving = np.where(inner | (self.into >= 0), self.rate, 0.0).sum(axis=0)
        diagonal = np.arange(n)
        return sparse.csc_matrix(
            (
                np.concatenate([self.rate[inner], -leaving]),
                (np.concatenate([rows, diagonal]), np.concatenate([self.to[inner], diagonal])),
            ),
            shape=(n, n),
        )

    def currents(self, p: Float, size: Float) -> Float:
        """Probability current at each cell, for probabilities p (n,) of the cells: shape (n, s), length per time."""
        inner = self.to >= 0
        flux = np.where(inner, self.rate * p, 0.0)[:, :, None] * self.step * size
        current = 0.5 * flux.sum(axis=0)
        for way in range(len(self.to)):
            own = inner[way]
            for i in range(current.shape[1]):
                current[:, i] += 0.5 * np.bincount(self.to[way, own], flux[way, own, i], len(current))
        return np.asarray(current)

    def absorbed(self, number: int) -> Float:
        """Rates (n,) at which cells lead into a set."""
        return np.where(self.into == number, self.rate, 0.0).sum(axis=0)


def bernoulli(z: Float) -> Float:
    """Z / (exp z − 1)."""
    z = np.clip(z, -700.0, 700.0)
    small = np.abs(z) < 1e-5
    safe = np.where(small, 1.0, z)
    return np.where(small, 1 - 0.5 * z, safe / np.expm1(safe))


def with_exact_moments(z: Float) -> Float:
    """What takes the place of F(z) where mean and variance of the motion matter most."""
    return np.maximum(1.0, 0.5 * np.abs(z)) - 0.5 * z


def jumps_of(
    mesh: Mesh, b: Float, D: Float, *, underdamped: bool, sets: tuple[Region, ...] = (), moments: bool = False
) -> Jumps:
    """The chain of a flow b (n, s) and noise D (n, s, s) at the centres of cells.

    Cells within one of the sets lead nowhere. With `moments` it moves with the mean and variance of the equation,
    otherwise it rests as the equation does.
    """
    F = with_exact_moments if moments else bernoulli
    size = mesh.size
    b, D = b / size, D / np.outer(size, size)
    if underdamped:
        last = b.shape[1] - 1
        v = np.zeros((1, mesh.n, 2), dtype=int)
        v[:, :, last] = 1
        w, B = D[None, :, last, last], np.zeros_like(b)
        B[:, last] = b[:, last] / D[:, last, last]
    else:
        v, w = positive_steps(D)
        B = np.asarray(np.linalg.solve(D, b[:, :, None])[:, :, 0], dtype=np.float64)
    step = np.stack([v, -v], axis=1).reshape(-1, *v.shape[1:])
    to = np.stack([mesh.neighbours(own) for own in step])
    beyond = to == NO_CELL
    along = np.einsum("jni,ni->jn", step, B)
    ahead = np.einsum("jni,jni->jn", step, B[to])
    E = along if moments else np.where(beyond, along, 0.5 * (along + ahead))
    weight = np.repeat(w, 2, axis=0)
    into, share = _into_sets(mesh, step, to, sets)
    if sets:
        opposite = share.reshape(-1, 2, mesh.n)[:, ::-1].reshape(share.shape)
        rate = 2 * weight * F(-share * E) / (share * (share + opposite))
    else:
        rate = weight * F(-E)
    jumps = Jumps(np.where(into >= 0, NO_CELL, to), np.where(beyond & (into < 0), 0.0, rate), step, into)
    if underdamped:
        jumps = _with_transport(jumps, mesh, b[:, 0], sets)
    return _without_inside(jumps, mesh, sets)


def _with_transport(jumps: Jumps, mesh: Mesh, speed: Float, sets: tuple[Region, ...]) -> Jumps:
    """With the motion of positions by their velocity, in cells per time."""
    step = np.zeros((1, mesh.n, 2), dtype=int)
    step[0, :, 0] = np.sign(speed)
    to = np.stack([mesh.neighbours(own) for own in step])
    into, share = _into_sets(mesh, step, to, sets)
    turned = mesh.places.copy()
    centre = (-mesh.centres[:, 1] - mesh.box[0, 1]) / mesh.size[1] - 0.5
    turned[:, 1] = np.rint(centre).astype(int).clip(0, mesh.shape[1] - 1)
    back = np.ravel_multi_index(tuple(turned.T), mesh.shape)
    stuck = (turned[:, 1] == mesh.places[:, 1]) | (speed == 0)
    turns = (to == NO_CELL) & ~stuck
    to = np.where(turns, back, to)
    step = np.where(turns[:, :, None], 0, step)  # the position stays
    rate = np.where((to == NO_CELL) & (into < 0), 0.0, np.abs(speed) / share)
    return Jumps(
        np.concatenate([jumps.to, np.where(into >= 0, NO_CELL, to)]),
        np.concatenate([jumps.rate, rate]),
        np.concatenate([jumps.step, step]),
        np.concatenate([jumps.into, into]),
    )


def _into_sets(mesh: Mesh, step: Int, to: Int, sets: tuple[Region, ...]) -> tuple[Int, Float]:
    """The number of the set (J, n) that steps lead into, −1 if none, and the share of the way to it, else one."""
    into, share = np.full(to.shape, -1), np.ones(to.shape)
    if sets:
        start = np.broadcast_to(mesh.centres, step.shape).reshape(-1, step.shape[2])
        end = (mesh.centres + step * mesh.size).reshape(start.shape)
        for number, own in enumerate(sets):
            way = own.way_to(start, end).reshape(to.shape)
            there = (to >= 0) & own.inside(mesh.centres)[to]
            way = np.where(there, np.minimum(way, 1.0), way)  # rounding may take the end out of the set again
            nearer = way < np.where(into >= 0, share, np.inf)
            into, share = np.where(nearer, number, into), np.where(nearer, np.maximum(way, LEAST_SHARE), share)
    return into, share


def _without_inside(jumps: Jumps, mesh: Mesh, sets: tuple[Region, ...]) -> Jumps:
    """Cells within a set lead nowhere."""
    if not sets:
        return jumps
    inside = np.any([own.inside(mesh.centres) for own in sets], axis=0)
    away = np.where(inside, NO_CELL, jumps.to), np.where(inside, 0.0, jumps.rate)
    return Jumps(*away, jumps.step, np.where(inside, -1, jumps.into))
