"""Positions of a second-order system whose velocities are not observed.

A row is a move from one position to the next: inputs are positions (n, d), increments their differences. Velocities
give the outputs their names, as f and Σ move them; they follow from the whole track, not from a row
(`itofit.learning.second_order`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy.typing as npt

from itofit.data.names import Names, underdamped_names
from itofit.data.step_limits import step_limits
from itofit.data.trajectories import Moves, moves_in_trajectories

if TYPE_CHECKING:
    from itofit.data.transitions import Transitions


class FromPositions:
    """The constructors of `Transitions` for positions alone."""

    @classmethod
    def from_positions(
        cls,
        paths: npt.ArrayLike | Sequence[npt.ArrayLike],
        dt: float | None = None,
        times: npt.ArrayLike | Sequence[npt.ArrayLike] | None = None,
        min_h: float | None = None,
        max_h: float | None = None,
        names: Names | None = None,
        velocity_names: Names | None = None,
    ) -> Transitions:
        """Positions of a second-order system, dx = v dt, dv = f(x, v) dt + σ(x, v) dW, whose velocities are not seen.

        `fit` learns f and Σ from whole tracks, with the velocities that they imply; ``sde.states(data)`` returns these.
        Rows are the moves from one position to the next, as in `from_trajectories`. Where all velocities were measured,
        use `from_underdamped`.

        Parameters
        ----------
        paths, dt, times, min_h, max_h
            As in `from_trajectories`: positions (T, d), (n, T, d) or a list of such; rows with NaN are gaps.
        names, velocity_names : sequences of d str, optional
            What the positions and the velocities are called. Default: that of position "angle" is "v_angle".

        Examples
        --------
        >>> import numpy as np, itofit
        >>> data = itofit.Transitions.from_positions(np.sin(np.arange(50.0)), dt=1.0, names="angle")
        >>> data
        Transitions(49 transitions, 1 input, 1 output, h = 1, 1 group, kind = positions)
        >>> data.input_names, data.output_names
        (('angle',), ('v_angle',))
        """
        (starts, increments, h, groups), _ = moves_in_trajectories(paths, dt, times, step_limits(min_h, max_h))
        return cls._of_positions(Moves(starts, starts + increments, h, groups), names, velocity_names)

    @classmethod
    def _of_positions(cls, moves: Moves, names: Names | None, velocity_names: Names | None = None) -> Transitions:
        """Transitions from moves of positions."""
        d = moves.start.shape[1]
        both = underdamped_names(d, names, velocity_names)
        positions, velocities = (None, None) if both is None else (both[:d], both[d:])
        increments = moves.end - moves.start
        return cls(moves.start, increments, moves.h, moves.groups, "positions", positions, velocities)  # type: ignore[call-arg, return-value]
