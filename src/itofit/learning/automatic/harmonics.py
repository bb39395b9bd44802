"""Frequencies of periodic inputs: whole multiples of 2π in scaled units, in which a period is one.

A function of such an input is a sum of its harmonics, so that it is exactly periodic. Everywhere in the search for
frequencies their components along periodic inputs stay on this lattice:

- *Start.* Harmonics are drawn from a normal distribution and rounded: the first is there most often, higher ones ever
  less. As often as one is drawn, so large may its amplitude be (`itofit.learning.automatic.principal`).
- *Steps* are whole numbers of harmonics.
- *Waves that stand out* are compared with harmonics alone (`itofit.learning.automatic.periodogram`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from itofit._checks import Float

TURN = 2 * np.pi
"""The first harmonic."""
START = 1.0
"""Spread of the harmonics to start from."""

Bool = npt.NDArray[np.bool_]


def on_lattice(omega: Float, periodic: Bool) -> Float:
    """Frequencies (K, m) with components along periodic inputs rounded to harmonics."""
    if not periodic.any():
        return omega
    return np.where(periodic, TURN * np.rint(omega / TURN), omega)


def first_harmonics(omega: Float, free: Float, periodic: Bool) -> Float:
    """Waves of one periodic input alone that are constant become its first harmonic."""
    alone = (free.sum(axis=1) == 1) & (omega == 0).all(axis=1) & (free @ periodic > 0)
    return np.where(alone[:, None], TURN * free, omega) if alone.any() else omega


def start_spread(spread: Float, periodic: Bool) -> Float:
    """The spread (m,) of frequencies to start from, with that of harmonics for periodic inputs."""
    return np.where(periodic, START * TURN, spread)


def stretched(rng: np.random.Generator, omega: Float, times: float, reach: float, periodic: Bool) -> Float:
    """Frequencies (K, m) that are some times as large, at most as large as the reach.

    Harmonics are first spread over what was rounded to them, so that those in between come as well.
    """
    if not periodic.any():
        return np.clip(times * omega, -reach, reach)
    number = np.rint(np.abs(omega) / TURN)
    low = np.where(number == 1, 0.0, number - 0.5)  # the first stands for what would have been none, too
    within = np.copysign(TURN * (low + (number + 0.5 - low) * rng.random(omega.shape)), omega)
    larger = np.clip(times * np.where(periodic & (omega != 0), within, omega), -reach, reach)
    highest = TURN * np.floor(reach / TURN)
    whole = np.clip(on_lattice(larger, periodic), -highest, highest)
    none = periodic & (omega != 0) & (whole == 0)
    return np.where(periodic, np.where(none, np.copysign(TURN, omega), whole), larger)
