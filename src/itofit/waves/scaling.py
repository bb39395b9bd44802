"""From the user's points and targets to those that waves are fitted to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from itofit._checks import Float
from itofit.data.rows import scaled


@dataclass(frozen=True)
class Scaling:
    """From the user's points to scaled ones, u = (x − shift) / scale, and from targets to y − offset."""

    shift: Float
    scale: Float
    offset: Float
    varies: npt.NDArray[np.bool_]  # which inputs are not constant

    @classmethod
    def of(cls, low: Float, high: Float, offset: Float) -> Scaling:
        """Inputs between low and high go to [−½, ½]; a constant one goes to zero."""
        shift = low + 0.5 * (high - low)
        scale = 2 * np.maximum(high - shift, shift - low)  # the range, and not less if shift was rounded
        return cls(shift, np.where(scale > 0, scale, 1.0), offset, scale > 0)

    def __call__(self, x: Float, y: Float) -> tuple[Float, Float]:
        """Scaled points and targets."""
        return scaled(x, self.shift, self.scale), (y.T - self.offset[:, None]).T

    def points(self, x: Float) -> Float:
        """The points alone."""
        return scaled(x, self.shift, self.scale)
