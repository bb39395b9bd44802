"""How uncertain learned functions are: the posterior of their amplitudes, given the frequencies.

A function a + X c whose amplitudes have the posterior covariance WᵀW has at each point the variance |W (1, X)|², a sum
of squares of the functions that the rows of W are amplitudes of. Those functions are kept as one Fourier series, the
largest of them first, q for each output.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from itofit._checks import Float
from itofit.evidence import Basis
from itofit.fourier import FourierSeries

NEGLIGIBLE = 1e-4
"""Directions whose standard deviation is a smaller share of the largest are left out."""


def spread_series(basis: Basis, root: Float, shift: Float, scale: Float) -> FourierSeries:
    """The functions whose squares add up to the variances of p outputs, q for each: a series with p·q outputs.

    Parameters
    ----------
    basis : Basis
    root : array of shape (Q, p, R + 1)
        W of the posterior covariance WᵀW of intercept and c.
    shift, scale : arrays of shape (m,)
        Of the inputs.
    """
    parts = []
    for own in np.moveaxis(root, 1, 0):
        _, size, directions = np.linalg.svd(own, full_matrices=False)
        parts.append((size[:, None] * directions)[size > NEGLIGIBLE * size.max(initial=0.0)])
    q = max(1, *(len(part) for part in parts))
    rows = np.zeros((len(parts), q, root.shape[2]))
    for place, part in zip(rows, parts, strict=True):
        place[: len(part)] = part
    flat = rows.reshape(-1, root.shape[2])
    return basis.series(flat[:, 0], flat[:, 1:].T, shift, scale)


def standard_deviations(series: FourierSeries, x: npt.ArrayLike, p: int) -> Float:
    """Those of p outputs at points x of shape (n, m): shape (n, p)."""
    values = series(x)
    return np.sqrt((values.reshape(len(values), p, -1) ** 2).sum(axis=2))


def with_members(own: Float, values: Float, others: Sequence[Float]) -> Float:
    """Standard deviations of values with what other fits of the same data say of the choice of frequencies.

    Two fits differ by twice the variance that the choice gives to one.
    """
    if not others:
        return own
    return np.sqrt(own**2 + 0.5 * np.mean([(other - values) ** 2 for other in others], axis=0))
