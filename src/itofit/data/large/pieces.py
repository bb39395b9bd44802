"""A trajectory that comes in pieces: the moves within each, and from each to the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from itofit._checks import Float, InputError, Option, columns, float_array
from itofit.data.covariates import covariate_rows
from itofit.data.names import plural
from itofit.data.trajectories import first_backward, moves


class Pieces:
    """A trajectory that comes in pieces: the moves within each, and from each to the next.

    Parameters
    ----------
    dt : float or None
        Time between observations, if pieces bring no times.
    """

    def __init__(self, dt: float | None) -> None:
        self.dt = dt
        self.d = 0  # columns that move
        self.last: tuple[Float, Float] | None = None  # the last observation and its time

    def moves(self, piece: object) -> tuple[Float, Float, Float]:
        """Starts, increments and durations of the moves into and within a piece: an array, or one with its times.

        A piece may also be a dictionary with the names path, times and covariates; these are last in the starts.
        """
        path, times, covariates = _parts_of_piece(piece)
        rows = columns("the trajectory", path, allow_nan=True)
        self.d = rows.shape[1]
        if covariates is not None:
            rows = np.concatenate([rows, covariate_rows(covariates, len(rows), "observation")], axis=1)
        if not len(rows):
            raise InputError("is empty; leave such blocks out")
        if times is None and self.dt is None:
            text = "the time between observations is missing: give {h}, or tuples (path, times)"
            raise InputError(text, h=Option("h", keyword=True))
        if times is not None and self.dt is not None:
            text = "the time between observations was given twice, as {h} and as times"
            raise InputError(text, h=Option("h", keyword=True))
        if times is None:
            clock = np.arange(1.0, len(rows) + 1)
        else:
            clock = float_array("times", times)
            if clock.shape != (len(rows),):
                raise InputError(f"times must have one entry for each of {len(rows)} observations, got {clock.shape}")
        if self.last is not None:
            last_row, last_time = self.last
            if last_row.shape[1] != rows.shape[1]:
                width = plural(rows.shape[1], "column")
                raise InputError(f"has {width}, the block before it has {last_row.shape[1]}")
            rows = np.concatenate([last_row, rows])
            clock = np.concatenate([last_time if times is not None else np.zeros(1), clock])
        if (i := first_backward(clock)) is not None:
            raise InputError(
                f"times must be increasing, also from block to block: {clock[i]:g} is followed by {clock[i + 1]:g}; a "
                "block that starts another trajectory can be given as Transitions.from_trajectories(...)"
            )
        self.last = rows[-1:].copy(), clock[-1:].copy()
        steps = np.diff(clock) if self.dt is None else np.full(len(rows) - 1, self.dt)
        starts, increments, h = moves(rows, steps, d=self.d)
        if not np.isfinite(increments).all():
            raise InputError("has steps that are too large for double precision; change the unit")
        return starts, increments, h


def _parts_of_piece(piece: Any) -> tuple[Any, Any, Any]:  # noqa: ANN401
    """The observations of a piece, its times and its covariates, the last two None if there are none."""
    if isinstance(piece, Mapping):
        if "path" not in piece or not set(piece) <= {"path", "times", "covariates"}:
            got = ", ".join(map(str, piece))
            raise InputError(f"must have the name path, and may have times and covariates, got {got}")
        return piece["path"], piece.get("times"), piece.get("covariates")
    return (*piece, None) if isinstance(piece, tuple) and len(piece) == 2 else (piece, None, None)
