"""Whether the functions of a model are finite where they will be used: what a file must hold to be loaded.

Parts may each be finite and their sums and products not, as amplitudes of 1e300 are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from itofit._checks import Float, InputError
from itofit.waves.series import FourierSeries

if TYPE_CHECKING:
    from itofit.model.learned import LearnedSDE

LARGEST_VALUE = 1e150
"""Of a function: the square of more is not finite."""
LARGEST_PHASE = 1e12
"""Of a wave in the range of the data: rounding of more is felt in its sine."""


def check_finite_in_use(sde: LearnedSDE) -> None:
    """Raise if drift, covariance or their error bars overflow within the range of the data."""
    box = sde.box
    for name, series in _series_of(sde):
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.abs(series.offset) + np.abs(series.beta).sum(axis=0)
            phase = np.abs(series.omega) @ np.abs((box - series.shift) / series.scale).max(axis=0)
        if not (size < LARGEST_VALUE).all():
            raise InputError(f"{name} has amplitudes whose squares are not finite")
        if not (phase < LARGEST_PHASE).all():
            raise InputError(f"{name} has waves too short for the range of the data")
    points = np.stack([box[0], 0.5 * box[0] + 0.5 * box[1], box[1]])
    with np.errstate(all="ignore"):
        values = list(_values(sde, points))
    if not all(np.isfinite(value).all() for value in values):
        raise InputError("its functions are not finite in the range of the data")


def _series_of(sde: LearnedSDE) -> Iterator[tuple[str, FourierSeries]]:
    for name in ("drift_function", "covariance_function"):
        function = getattr(sde, name)
        yield f"{name}.series", function.series
        if function.spread is not None:
            yield f"{name}.spread", function.spread
    if sde.step_correction is not None:
        yield "step_correction.spread", sde.step_correction.spread


def _values(sde: LearnedSDE, points: Float) -> Iterator[Float]:
    """What a model says at some points."""
    if sde.has_error_bars:
        yield from sde.drift(points, return_std=True)
        yield from sde.covariance(points, return_std=True)
    else:
        yield sde.drift(points)
        yield sde.covariance(points)
    yield sde.diffusion(points)
