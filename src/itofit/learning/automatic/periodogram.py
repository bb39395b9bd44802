"""The periodogram of what a fit leaves over, at every frequency of a lattice.

For residuals s at scaled points u, noise alone makes

    |Σ s exp(iω·u)|² / Σ s²

an exponential number of mean one at each frequency, so that the largest of M of them exceeds log(M / α) with the
probability α at most. The lattice has all half waves across the data, π k with integers k, up to the reach of the
search. One transform gives all of it, for up to three inputs together. With more inputs the lattice is that of each
pair of them; besides, there are frequencies in random directions.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import finufft
import numpy as np
import numpy.typing as npt

from itofit._blocks import map_chunks
from itofit._checks import Complex, Float, Int
from itofit.learning.automatic.harmonics import on_lattice
from itofit.waves.series import feature_blocks

MOST_TOGETHER = 3
"""Inputs whose lattice is taken as a whole."""
ACCURACY = 1e-6
"""Of the transforms, relative to the largest sums."""
RANDOM = 512
"""Frequencies in random directions, with more inputs than that."""
LEAST_RANDOM = 4.0
"""The shortest of them; longer waves belong to the start."""
LEAST_OF_PEAKS = 0.1
"""Power relative to the largest for which peaks are taken at the same time: smaller ones may be its foothills."""
WIDTH = 2 * np.pi
"""Of a peak, to each side."""
STEPS_TO_THE_TOP, NEIGHBOURS = (np.pi / 6, np.pi / 30), 3
"""Steps in which the neighbourhood of a frequency is looked at, and their number to each side."""


class Waves(NamedTuple):
    """Frequencies, and how much of the residuals each of them explains."""

    omega: Float  # (M, m)
    power: Float  # (M,): of which noise has the mean one; the largest of all outputs
    n_outputs: int

    def standing_out(self, false_alarm: float) -> Waves:
        """Those whose power noise alone would reach with a small probability, at any frequency and output."""
        chosen = self.power > np.log(len(self.power) * self.n_outputs / false_alarm)
        return self.at(np.flatnonzero(chosen))

    def at(self, places: Int) -> Waves:
        """Some of them."""
        return Waves(self.omega[places], self.power[places], self.n_outputs)


class Lattice:
    """The frequencies that residuals are compared with.

    Parameters
    ----------
    rng : Generator
        For frequencies in random directions.
    m : int
        Number of inputs.
    reach : float
        Largest component of a frequency.
    periodic : array of shape (m,), optional
        Whether each input is periodic; then it has whole waves alone.
    """

    def __init__(
        self, rng: np.random.Generator, m: int, reach: float, periodic: npt.NDArray[np.bool_] | None = None
    ) -> None:
        periodic = np.zeros(m, dtype=bool) if periodic is None else periodic
        self.n = int(reach / np.pi)
        together = m <= MOST_TOGETHER
        self.planes = [tuple(range(m))] if together else list(combinations(range(m), 2))
        self.elsewhere = np.empty((0, m)) if together else on_lattice(_random_directions(rng, m, reach), periodic)
        omega = np.concatenate([*(self._half_waves(inputs, m) for inputs in self.planes), self.elsewhere])
        self.omega, self.first = np.unique(
            omega, axis=0, return_index=True
        )  # pairs have waves along an input in common
        if periodic.any():
            whole = (on_lattice(self.omega, periodic) == self.omega).all(axis=1) & self.omega.any(axis=1)
            self.omega, self.first = self.omega[whole], self.first[whole]

    def _half_waves(self, inputs: tuple[int, ...], m: int) -> Float:
        """All frequencies of some inputs, each but once: of ω and −ω one is left out, and zero."""
        axis = np.arange(-self.n, self.n + 1)
        points = np.stack(np.meshgrid(*[axis] * len(inputs), indexing="ij"), axis=-1).reshape(-1, len(inputs))
        omega = np.zeros((len(points), m))
        omega[:, list(inputs)] = np.pi * points  # exactly TURN times whole numbers, if these are even
        return omega[len(omega) // 2 + 1 :]

    def sums(self, u: Float, strengths: Float) -> Sums:
        """Of residuals at scaled points u (n, m), times their weights: strengths (n, p)."""
        squares = (strengths**2).sum(axis=0)
        parts = [self._together(u, strengths, squares)] if len(self.planes) == 1 else self._in_planes(u, strengths)
        if len(self.elsewhere):
            parts.append(_direct(self.elsewhere, u, strengths))
        return Sums(np.concatenate(parts)[self.first], squares)

    def _together(self, u: Float, strengths: Float, squares: Float) -> Complex:
        """Those of all inputs together, (M, p), by one transform; squares (p,) are those of the strengths."""
        unit = np.sqrt(np.maximum(squares, 1e-300))
        pairs = _in_pairs(strengths.T / unit[:, None])
        sums = _transform(list(np.pi * np.ascontiguousarray(u.T)), pairs, (2 * self.n + 1,) * u.shape[1])
        return _of_each(sums.reshape(len(pairs), -1), len(unit)).T * unit

    def _in_planes(self, u: Float, strengths: Float) -> list[Complex]:
        """Those of each pair of inputs, (M, p): products of waves along one and along the other."""
        (n_rows, m), p, size = u.shape, strengths.shape[1], 2 * (self.n + 1)
        waves: Float = np.pi * np.kron(np.eye(m), np.arange(self.n + 1.0)[:, None])  # (m (n + 1), m)

        def products(chunk: slice) -> Float:
            total = np.zeros((p * size, len(self.planes) * size))
            for block, CD in feature_blocks(waves, u, chunk):
                # of each input its cosines, then its sines
                own = np.moveaxis(CD.reshape(2, m, self.n + 1, -1), 0, 1).reshape(m, size, -1)
                weighted, first = strengths[block].T[:, None], 0
                for i in range(m - 1):  # the planes of an input and those after it
                    later = own[i + 1 :].reshape(-1, own.shape[2])
                    total[:, first : first + len(later)] += (weighted * own[i]).reshape(p * size, -1) @ later.T
                    first += len(later)
            return total

        total: Float = sum(map_chunks(products, n_rows, 8 * p * size**2 * len(self.planes)), start=np.zeros(1))
        total = total.reshape(p, 2, self.n + 1, len(self.planes), 2, self.n + 1)
        return [_of_products(total[:, :, :, k]) for k in range(len(self.planes))]

    def power(self, sums: Sums) -> Waves:
        """The periodogram."""
        power = np.abs(sums.waves) ** 2 / np.maximum(sums.squares, 1e-300)
        return Waves(self.omega, power.max(axis=1), len(sums.squares))


class Sums(NamedTuple):
    """What a periodogram needs of residuals, for sums over parts of them."""

    waves: Complex  # (M, p): Σ s exp(iω·u)
    squares: Float  # (p,): Σ s²

    def plus(self, other: Sums) -> Sums:
        """Those of both parts."""
        return Sums(self.waves + other.waves, self.squares + other.squares)


def _random_directions(rng: np.random.Generator, m: int, reach: float) -> Float:
    """Frequencies of many lengths in all directions, shape (RANDOM, m)."""
    length = np.exp(rng.uniform(np.log(LEAST_RANDOM), np.log(0.8 * reach), (RANDOM, 1)))
    direction = rng.standard_normal((RANDOM, m))
    return np.asarray(length * direction / np.linalg.norm(direction, axis=1, keepdims=True))


def _in_pairs(strengths: Float) -> Complex:
    """Real strengths (p, n) as complex ones, two by two, the last alone if p is odd: one transform is that of both."""
    pairs = strengths[::2].astype(complex)
    pairs.imag[: len(strengths) // 2] = strengths[1::2]
    return pairs


def _of_each(sums: Complex, p: int) -> Complex:
    """The sums (p, M) of p real strengths, at the last M of 2M + 1 modes, from those of all modes of pairs of them.

    The sums of real numbers s at −k are the conjugates of those at k, so those F of s + it are S + iT at k, and the
    conjugates of S − iT at −k.
    """
    half = sums.shape[1] // 2
    there, back = sums[:, half + 1 :], sums[:, :half][:, ::-1].conj()
    each = np.stack([0.5 * (there + back), -0.5j * (there - back)], axis=1)
    return np.asarray(each.reshape(-1, half)[:p])


def _of_products(products: Float) -> Complex:
    """Σ s exp(i (k·u)) in the order of a plane's half waves, (M, p), from sums of products of waves.

    Parameters
    ----------
    products : array of shape (p, 2, n + 1, 2, n + 1)
        Of s, the cosine or sine of a wave along one input, and of one along the other.
    """
    p, n = len(products), products.shape[2] - 1
    (CC, CD), (DC, DD) = (np.moveaxis(products[:, side], 2, 0) for side in (0, 1))
    there, back = (CC - DD) + 1j * (CD + DC), (CC + DD) + 1j * (DC - CD)  # at k and at (k_1, −k_2)
    both = np.concatenate([back[:, :, :0:-1], there], axis=2)  # (p, n + 1, 2n + 1)
    return np.asarray(both.reshape(p, -1)[:, n + 1 :].T)


def _direct(omega: Float, u: Float, strengths: Float) -> Complex:
    """Σ s exp(iω·u) by its definition."""

    def sums(chunk: slice) -> Float:
        return sum(
            (CD @ strengths[block] for block, CD in feature_blocks(omega, u, chunk)),
            start=np.zeros((2 * len(omega), strengths.shape[1])),
        )

    total: Float = sum(map_chunks(sums, len(u)), start=np.zeros(1))
    return total[: len(omega)] + 1j * total[len(omega) :]


# Peaks


def separate_peaks(waves: Waves, most: int) -> Waves:
    """The largest of some waves, each no nearer to a larger one than a peak is wide, and not far smaller."""
    left = list(np.argsort(-waves.power))
    chosen: list[int] = []
    while left and len(chosen) < most and waves.power[left[0]] > LEAST_OF_PEAKS * waves.power.max():
        best = left[0]
        chosen.append(best)
        near = [np.abs(waves.omega[best] - sign * waves.omega[left]).max(axis=1) for sign in (1, -1)]
        left = [place for place, distance in zip(left, np.minimum(*near), strict=True) if distance > WIDTH]
    return waves.at(np.array(chosen, dtype=int))


def top_of_peak(omega: Float, u: Float, strengths: Float, periodic: npt.NDArray[np.bool_] | None = None) -> Float:
    """The frequency near omega (m,) at which residuals have the largest power, of all outputs together: shape (m,).

    Components of zero stay zero, so that a wave along one input remains one; harmonics of periodic inputs stay, too.
    """
    free = np.flatnonzero(omega if periodic is None else np.where(periodic, 0.0, omega))
    if not len(free) or len(free) > MOST_TOGETHER:
        return omega
    size = (strengths**2).sum(axis=0)
    for step in STEPS_TO_THE_TOP:
        turned = strengths.T * np.exp(1j * (u @ omega))
        points = [step * np.ascontiguousarray(u[:, i]) for i in free]
        squares = np.abs(_transform(points, turned, (2 * NEIGHBOURS + 1,) * len(free))) ** 2
        best = np.unravel_index(np.argmax(np.tensordot(1 / size, squares, 1)), squares.shape[1:])
        omega = omega.copy()
        omega[free] += step * (np.array(best) - NEIGHBOURS)
    return omega


def _transform(points: list[Float], strengths: Complex | Float, modes: tuple[int, ...]) -> Complex:
    """Σ s exp(ik·x) for all integers k of some modes about zero, and s (p, n): shape (p, *modes)."""
    transform = getattr(finufft, f"nufft{len(points)}d1")
    strengths = np.ascontiguousarray(strengths, dtype=complex)
    sums = transform(*points, strengths, modes, eps=ACCURACY, isign=1, nthreads=1)  # more threads add up in any order
    return np.asarray(sums).reshape(-1, *modes)
