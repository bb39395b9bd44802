"""The units in which networks are trained; the table in `itofit.experiments.networks` has the symbols."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from itofit._checks import Float
from itofit.data.rows import column_range, scaled
from itofit.data.transitions import Transitions
from itofit.matrices.symmetric import Structure


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkUnits:
    """The units in which networks are trained.

    Parameters
    ----------
    box : array of shape (2, m)
        Smallest and largest value of each input in the training data.
    mean : array of shape (d,)
        f̄, the mean drift.
    unit : array of shape (d, d)
        L₀, lower triangular.
    h : float
        h̄, the mean time step.
    """

    box: Float
    mean: Float
    unit: Float
    h: float

    @classmethod
    def of(cls, data: Transitions, structure: Structure) -> NetworkUnits:
        """The units of training data: inputs by their range, increments by their mean drift and their covariance."""
        mean = data.increments.sum(axis=0) / data.h.sum()
        noise = (data.increments - data.h[:, None] * mean) / np.sqrt(data.h)[:, None]
        size = np.sqrt((noise**2).mean(axis=0))
        size[size == 0] = 1.0  # an output that never moves: any unit will do
        unit = np.diag(size)
        if structure == "full" and data.n_outputs > 1:
            correlation = (noise / size).T @ (noise / size) / len(data)
            # The small number keeps the factor regular if outputs are nearly dependent
            unit = size[:, None] * np.linalg.cholesky(correlation + 1e-9 * np.eye(len(size)))
        return cls(box=np.array(column_range(data.inputs)), mean=mean, unit=unit, h=float(data.h.mean()))

    @property
    def shift(self) -> Float:
        """The middle of the inputs' range."""
        return np.asarray(0.5 * self.box.sum(axis=0))

    @property
    def scale(self) -> Float:
        """The width of the inputs' range; one where an input never changes."""
        width = self.box[1] - self.box[0]
        return np.where(width > 0, width, 1.0)

    @property
    def drift_unit(self) -> Float:
        """L₀ / √h̄, shape (d, d)."""
        return self.unit / np.sqrt(self.h)

    def points(self, x: Float) -> Float:
        """The scaled inputs u at the points x, both of shape (n, m)."""
        return scaled(x, self.shift, self.scale)

    def rows(self, data: Transitions) -> Float:
        """The rows [u, w, ρ] that training needs of transitions: shape (n, m + d + 1)."""
        noise = (data.increments - data.h[:, None] * self.mean) / np.sqrt(data.h)[:, None]
        w = np.linalg.solve(self.unit, noise.T).T
        return np.column_stack([self.points(data.inputs), w, np.sqrt(data.h / self.h)])

    def constant(self, data: Transitions) -> float:
        """The part of the mean loss that does not depend on the networks, log det L₀ + (d/2) log(2π h)."""
        log_det = np.log(np.diagonal(self.unit)).sum()
        return float(log_det + 0.5 * len(self.mean) * np.log(2 * np.pi * data.h).mean())
