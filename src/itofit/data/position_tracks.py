"""Positions of a second-order system whose velocities are not observed.

A row is a move from one position to the next: inputs are positions (n, d), increments their differences. Velocities
give the outputs their names, as f and Σ move them; they follow from the whole track, not from a row
(`itofit.learning.second_order`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy.typing as npt

from itofit.data.covariates import Covariates
from itofit.data.names import Names, position_names
from itofit.data.periods import Periodic
from itofit.data.step_limits import step_limits
from itofit.data.trajectories import moves_in_trajectories

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
        covariates: Covariates | None = None,
        covariate_names: Names | None = None,
        periodic: Periodic | None = None,
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
        covariates, covariate_names, periodic
            As in `from_trajectories`; a position may be an angle, and force and noise may depend on what drives the
            system from outside.

        Examples
        --------
        >>> import numpy as np, itofit
        >>> data = itofit.Transitions.from_positions(np.sin(np.arange(50.0)), dt=1.0, names="angle")
        >>> data
        Transitions(49 transitions, 1 input, 1 output, h = 1, 1 group, kind = positions)
        >>> data.input_names, data.output_names
        (('angle',), ('v_angle',))
        """
        moves, u = moves_in_trajectories(paths, dt, times, step_limits(min_h, max_h), covariates)
        starts, increments, h, groups = moves
        own = position_names(starts.shape[1], names, velocity_names)
        moved, driven = (starts + increments) - starts, (u, covariate_names, periodic)
        return cls(starts, moved, h, groups, "positions", *own, *driven)  # type: ignore[call-arg, return-value]
