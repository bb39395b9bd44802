"""Experiment 7: a wave equation with a deterministic and a random force, learned from its numerical scheme.

On the whole line,

    ∂²u/∂t² = ∂²u/∂x² + f(x) + σ(x) Ẇ(x, t),    u(x, 0) = u₀(x),    ∂u/∂t(x, 0) = v₀(x).

On the staggered grid x_i = ih, t_j = jh, with values where i + j is even (the paper's "i(j+1) even" read as
"i + j + 1 even"), the scheme is

    u_{i,1}   = ½ (u₀(x_{i+1}) + u₀(x_{i−1})) + h v₀(x_i) + ½ h² f(x_i) + ½ σ(x_i) W_{i,0},             i odd,
    u_{i,j+1} = u_{i+1,j} + u_{i−1,j} − u_{i,j−1} + h² f(x_i) + ½ σ(x_i) W_{i,j},      i + j + 1 even, j ≥ 1.

W_{i,j} is the white noise of the cell that the four points surround, a diamond of area 2h², and W_{i,0} that of the
upper half of one. Every step narrows the grid by one point at each end, so that no boundary condition is needed: the
first level is as wide as the last one asks for. With

    h̃ = ½h²,    ũ_{i,j} = ½ (u_{i+1,j} + u_{i−1,j}),    ũ_{i,j+1} = ½ (u_{i,j+1} + u_{i,j−1}),

one step is ũ_{i,j+1} − ũ_{i,j} = h̃ f(x_i) + ¼ σ(x_i) W_{i,j}, whose noise has variance σ² h² / 8 = (σ/2)² h̃: an
Euler-Maruyama step of length h̃ with the diffusion σ/2, at a place that alternates between even and odd grid points.

======  ==============  ==================================
symbol  name            shape
======  ==============  ==================================
h       1 / n_cells
x_i     Level.x         (number of points of the level,)
u_ij    Level.u         (number of points of the level,)
T       T_END
======  ==============  ==================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import RNG, Float, InputError, columns, count, generator, positive
from itofit.data.transitions import Transitions
from itofit.matrices.symmetric import Structure
from itofit.model.known import KnownSDE
from itofit.waves.parameters import ARFF

N_CELLS = 1000
T_END = 2
MARGIN = 2
"""The data leave out this many grid points at each end of [0, 1)."""

STRUCTURE: Structure = "diagonal"
DRIFT_SETTINGS = ARFF(
    n_features=128, ridge=2e-3, delta=0.2, gamma=1.0, pairing="printed", min_iterations=50, max_iterations=300
)
COVARIANCE_SETTINGS = replace(DRIFT_SETTINGS, delta=0.4)
PUBLISHED_LOSS = -9.4084
"""Mean validation loss of Algorithm 2 over ten runs, as published."""


# The equation


def drift(x: npt.ArrayLike) -> Float:
    """The deterministic force f(x) = 5 sin(4πx).

    Parameters
    ----------
    x : array of shape (n, 1)
        Or (n,).

    Returns
    -------
    array of shape (n, 1)

    Examples
    --------
    >>> from itofit.experiments import wave
    >>> wave.drift([0.125])
    array([[5.]])
    """
    return EQUATION.drift(x)


def sigma(x: npt.ArrayLike) -> Float:
    """The random force σ(x) = (1 + exp(−150 (x − ½)²)) / 20, twice the diffusion that the data show.

    Parameters
    ----------
    x : array of shape (n, 1)
        Or (n,).

    Returns
    -------
    array of shape (n, 1)

    Examples
    --------
    >>> from itofit.experiments import wave
    >>> wave.sigma([0.5])
    array([[0.1]])
    """
    return _random_force(columns("x", x, n_columns=1))


def covariance(x: npt.ArrayLike) -> Float:
    """Σ(x) = (σ(x)/2)², the covariance of the Euler-Maruyama form of the scheme: shape (n, 1) to (n, 1, 1).

    Examples
    --------
    >>> from itofit.experiments import wave
    >>> round(float(wave.covariance([0.5]).item()), 6)
    0.0025
    """
    return EQUATION.covariance(x)


def true_nll(data: Transitions) -> Float:
    """Loss of each transition under the true drift and covariance, shape (n,)."""
    return EQUATION.nll(data, pointwise=True)


def _force(x: Float) -> Float:
    return 5 * np.sin(4 * np.pi * x)


def _bump(x: Float) -> Float:
    return np.exp(-150 * (x - 0.5) ** 2)


def _random_force(x: Float) -> Float:
    return (1 + _bump(x)) / 20


EQUATION = KnownSDE(f=_force, sigma=lambda x: (_random_force(x) / 2)[:, :, None], general=True)
"""The Euler-Maruyama form of a step; its input, the position, does not follow from ũ, which moves."""


def _initial_value(x: Float) -> Float:
    """u₀(x) = exp(−150 (x − ½)²) / 20."""
    return _bump(x) / 20


def _initial_velocity(x: Float) -> Float:
    """v₀(x) = −2 u₀'(x)."""
    return 600 * (x - 0.5) * _initial_value(x)


# The scheme


class Level(NamedTuple):
    """The field at one time level: the grid points of its parity, and the values there."""

    x: Float
    u: Float


def wave_levels(n_cells: int = N_CELLS, rng: RNG = None, *, noise: float = 1.0) -> Iterator[Level]:
    """The field at the times 0, h, 2h, ..., T, each level a point narrower at both ends than the one before.

    The last level reaches over [0, 1]. Point k of a level lies between points k and k + 1 of the level before.

    Parameters
    ----------
    n_cells : int
        1 / h, an even number.
    rng : int, Generator or None
    noise : float
        A factor of σ; 0 gives the solution without noise.

    Returns
    -------
    iterator of Level
        (x, u), two arrays of the same length.

    Examples
    --------
    >>> from itofit.experiments import wave
    >>> *_, last = wave.wave_levels(10, rng=0)
    >>> last.x
    array([0. , 0.2, 0.4, 0.6, 0.8, 1. ])
    """
    random, _ = generator(rng)
    return _levels(_even("n_cells", n_cells), random, positive("noise", noise, zero=True))


def _levels(n: int, random: np.random.Generator, noise: float) -> Iterator[Level]:
    h, last = 1 / n, T_END * n
    grid = np.arange(-last, n + last + 1) / n
    force = h**2 * _force(grid)
    kick = noise * 0.5 * _random_force(grid) * np.sqrt(2) * h  # ½ σ times the standard deviation of W

    before = _initial_value(grid[::2])
    yield Level(grid[::2], before)
    x = grid[1:-1:2]
    half = np.sqrt(0.5) * kick[1:-1:2] * random.standard_normal(len(x))
    now = (before[1:] + before[:-1]) / 2 + h * _initial_velocity(x) + force[1:-1:2] / 2 + half
    yield Level(x, now)
    for j in range(2, last + 1):
        inner = slice(j, len(grid) - j, 2)
        x = grid[inner]
        forces = force[inner] + kick[inner] * random.standard_normal(len(x))
        before, now = now, now[1:] + now[:-1] - before[1:-1] + forces
        yield Level(x, now)


def _even(name: str, value: object) -> int:
    number = count(name, value, least=2 * MARGIN + 2)
    if number % 2:
        raise InputError(f"{name} must be even, as the grid is staggered, got {value!r}")
    return number


# The data


def sample_wave(n_cells: int = N_CELLS, rng: RNG = None) -> Transitions:
    """Transitions ũ_{i,j} → ũ_{i,j+1}, with the position x_i as input.

    They are those with 2 ≤ j < 2 n_cells and 2 ≤ i < n_cells − 2, and i + j odd: n_cells/2 − 2 of them in each of
    2 n_cells − 2 steps, 995,004 in all on the paper's grid.

    Parameters
    ----------
    n_cells : int
        1 / h, an even number.
    rng : int, Generator or None

    Returns
    -------
    Transitions
        Their step is h̃ = h²/2; they are sorted by time, then by position.

    Examples
    --------
    >>> from itofit.experiments import wave
    >>> wave.sample_wave(100, rng=0)
    Transitions(9504 transitions, 1 input, 1 output, h = 5e-05, kind = general)
    """
    n = _even("n_cells", n_cells)
    levels = list(wave_levels(n, rng))
    width, last = n // 2 - MARGIN, T_END * n
    x, step = (np.empty((last - 2, width)) for _ in range(2))
    for row, j in enumerate(range(2, last)):
        before, now, after = levels[j - 1 : j + 2]
        # index in level j + 1, whose first point is i = j + 1 − last, of the first i ≥ MARGIN of its parity
        k = (MARGIN + last - j) // 2
        here = slice(k, k + width)
        right = slice(k + 1, k + 1 + width)
        x[row] = after.x[here]
        step[row] = (after.u[here] + before.u[right]) / 2 - (now.u[right] + now.u[here]) / 2
    return Transitions(x.reshape(-1, 1), step.reshape(-1, 1), 0.5 / n**2, kind="general")
