"""Checks of what comes with the arrays of transitions: the time each took, and the label of its trajectory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, InputError, Option, float_array, plain_array, same_rows


def checked_durations(h: npt.ArrayLike, n: int) -> Float:
    """The durations of n transitions, of shape (n,); a single number serves all of them and takes no memory."""
    durations = float_array("h", h)
    if durations.ndim == 2 and durations.shape == (n, 1):
        durations = durations[:, 0]
    if durations.ndim > 1 or (durations.ndim == 1 and len(durations) != n):
        text = "{h} must be a number or have shape ({n},), got {got}"
        raise InputError(text, h=Option("h"), n=n, got=durations.shape)
    if not (durations > 0).all():
        raise InputError(
            "{h} must be > 0: {n_bad} of {size} values are not, the smallest is {smallest:g}",
            h=Option("h"),
            n_bad=int((durations <= 0).sum()),
            size=durations.size,
            smallest=durations.min(),
        )
    return np.broadcast_to(durations, (n,))


def checked_groups(groups: npt.ArrayLike | None, inputs: Float) -> npt.NDArray[np.generic] | None:
    """The labels of the trajectories that transitions came from, of shape (n,), if they are known."""
    if groups is None:
        return None
    labels = plain_array("groups", groups)
    if labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels.ravel()):
        labels = labels.astype(str)
    if labels.ndim != 1 or labels.dtype.kind not in "iubUS":
        raise InputError(
            "{groups} must be one whole number or string for each transition, got shape {shape}, {dtype}",
            groups=Option("groups"),
            shape=labels.shape,
            dtype=labels.dtype,
        )
    same_rows("groups", labels, "inputs", inputs)
    return labels
