"""Whether steps of periodic variables are short enough to know which way round they went."""

from __future__ import annotations

import warnings

import numpy as np

from itofit._checks import DataWarning, user_level
from itofit.data.covariates import moving
from itofit.data.passes import Data
from itofit.data.periods import is_periodic

LONG, MANY = 0.4, 0.01
"""Of a period, from which on a step is long: from half of it on, it is taken for one the other way round; and the share
of long steps that is too many. Steps that are normal with a standard deviation of a sixth of the period have that."""


def warn_of_turns(data: Data) -> None:
    """Warn if many steps of a periodic variable, errors of measurement included, are nearly half a period long.

    Of data that are read in parts, the first part is looked at.
    """
    periods = data.periods[:, moving(data)]
    turning = np.flatnonzero(is_periodic(periods))
    if not len(turning):
        return
    steps = np.abs(next(iter(data.blocks())).increments)
    for place in turning:
        share = float(np.mean(steps[:, place] > LONG * (periods[1, place] - periods[0, place])))
        if share > MANY:
            name = data.input_names[moving(data)][place]
            warnings.warn(
                f"{share:.0%} of the steps of {name} are longer than {LONG} of its period: motion and errors of "
                "measurement together are so large that steps which went round one way are taken for steps the other "
                "way round, and neither drift nor noise can be trusted. Observe more often or more precisely",
                DataWarning,
                stacklevel=user_level(),
            )
