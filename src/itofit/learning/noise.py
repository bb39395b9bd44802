"""Whether there is any noise to learn."""

from __future__ import annotations

import numpy as np

from itofit._checks import Float, InputError, Message, Variable


def check_noise(mean: Float, names: tuple[str, ...]) -> None:
    """Raise if the mean covariance (d, d) of residuals says that an output has no noise at all."""
    for column, variance in enumerate(np.diagonal(mean)):
        if not variance > 0:
            raise InputError(
                Message(
                    "{column} follows the drift exactly: it carries no noise to learn",
                    column=Variable("increments", column, names[column]),
                )
            )
