"""How a state was observed, as a part of a learned model: with errors, or without its velocities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from itofit._checks import Float
from itofit.data.units import NO_UNITS, Units, behind

LEAST_P = 1e-16
"""Smaller probabilities are not told apart."""


def shown_p(p: float) -> str:
    """A probability in words."""
    return f"p = {p:.2g}" if p >= LEAST_P else f"p < {LEAST_P:g}"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MeasurementNoise:
    """Errors of measurement: y = x + η, η ~ N(0, Λ), independent at each observation.

    Parameters
    ----------
    covariance : array of shape (d, d)
        Λ.
    std : array of shape (d, d)
        Standard errors of its entries; zero if it was given.
    known : bool
        Whether it was given.
    gain : float
        Log-likelihood of all observations above that of the best model without errors of measurement, in nats.
    p : float
        The probability of such a gain if there were none; level 0.01 is asked for.
    corrected : bool
        Whether steps have the moments of finite ones, so that f and Σ are those of the equation.
    """

    covariance: Float
    std: Float
    known: bool
    gain: float
    p: float
    corrected: bool

    @property
    def sd(self) -> Float:
        """Standard deviation of the error of each variable, shape (d,)."""
        return np.sqrt(np.maximum(np.diagonal(self.covariance), 0.0))

    @property
    def sd_std(self) -> Float:
        """Standard errors of these, shape (d,)."""
        return np.asarray(np.diagonal(self.std) / (2 * np.maximum(self.sd, 1e-300)))

    def __repr__(self) -> str:
        sds = ", ".join(f"{value:.3g}" for value in self.sd)
        return f"MeasurementNoise(sd = {sds}{', known' if self.known else ''})"

    def text(self, names: tuple[str, ...], units: Units = NO_UNITS) -> str:
        """One line in words."""
        known = "given, " if self.known else ""
        gain = f"; it makes the observations more likely by {self.gain:.1f} nats ({shown_p(self.p)})"
        sds = self.sd_text(names, units)
        return f"{known}standard deviation {sds}{'' if self.known else gain}; f and Σ are without it"

    def sd_text(self, names: tuple[str, ...], units: Units = NO_UNITS) -> str:
        """The standard deviations of the variables, with their errors unless they are known."""
        return ", ".join(
            f"{value:.3g}{'' if self.known else f' ± {error:.2g}'}{behind(units.of(name))} of {name}"
            for value, error, name in zip(self.sd, self.sd_std, names, strict=True)
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HiddenVelocity:
    """Velocities of a second-order system whose positions alone were observed, where a track starts.

    Parameters
    ----------
    mean : array of shape (d,)
    covariance : array of shape (d, d)
    substeps : int
        Parts that the filter makes a step of, one after the other, where a step is long.
    """

    mean: Float
    covariance: Float
    substeps: int

    def __repr__(self) -> str:
        speeds = ", ".join(f"{value:.3g}" for value in np.sqrt(np.diagonal(self.covariance)))
        return f"HiddenVelocity(sd of velocities where tracks start = {speeds}, {self.substeps} substeps)"
