"""Inputs from outside: what drives a system and is not moved by it, one row for each observation.

In the inputs of transitions they come last, after the state; during a step they keep the value that they had at its
start.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from itofit._checks import DataWarning, Float, InputError, Option, columns, plain_array, user_level
from itofit.data.names import HasVariables, plural

Covariates = npt.ArrayLike | Sequence[npt.ArrayLike]


def moving(variables: HasVariables) -> slice:
    """The columns of the inputs that noise moves: of the state the last, which covariates follow."""
    n_state = variables.n_inputs - variables.n_covariates
    return slice(n_state - variables.n_outputs, n_state)


def covariate_rows(covariates: npt.ArrayLike, n: int, each: str, name: str = "covariates") -> Float:
    """Covariates as an array of shape (n, k), which may hold NaN; an error unless there are n rows."""
    if isinstance(covariates, dict):
        advice = "give np.column_stack(list(u.values())), and covariate_names=list(u)"
        raise InputError(f"{{option}} must be an array with a column for each, got dict; {advice}", option=Option(name))
    given = plain_array(name, covariates)
    rows = columns(name, given.astype(float) if given.dtype.kind == "b" else given, allow_nan=True)
    if len(rows) != n:
        raise InputError(
            "{option} must have one row for each {each}: expected {n}, got {got}{advice}",
            option=Option(name),
            each=each,
            n=n,
            got=len(rows),
            advice=f"; is it {name}.T that you mean?" if rows.shape[1] == n else "",
        )
    return rows


def covariates_of_trajectories(covariates: Covariates, paths: list[Float]) -> list[Float]:
    """Covariates of each trajectory, of shape (T, k); one array serves all trajectories of its length."""
    each, given = "observation", covariates
    if isinstance(given, np.ndarray):
        shape = len(paths), len(paths[0])
        if given.ndim == 3 or (given.ndim == 2 and len(paths) > 1 and given.shape == shape and len(given) != shape[1]):
            given = list(given)
    if isinstance(given, list | tuple) and given and np.ndim(given[0]) > 0:
        if len(given) != len(paths):
            raise InputError(
                "{option} must have one array for each trajectory: expected {expected}, got {got}",
                option=Option("covariates"),
                expected=len(paths),
                got=len(given),
            )
        parts = [
            covariate_rows(own, len(path), each, f"covariates[{i}]")
            for i, (own, path) in enumerate(zip(given, paths, strict=True))
        ]
    else:
        whole = covariate_rows(given, len(paths[0]), each)  # type: ignore[arg-type]
        parts = [covariate_rows(whole, len(path), each) for path in paths]
    widths = {part.shape[1] for part in parts}
    if len(widths) > 1:
        text = "{option} must have the same columns for all trajectories, got {got}"
        raise InputError(text, option=Option("covariates"), got=sorted(widths))
    return parts


def warn_of_unknown(n: int, n_all: int) -> None:
    """Warn of transitions that were left out because a covariate is missing where they start."""
    if n == n_all:
        raise InputError("no transition starts where all covariates are known: they are missing in every row")
    if n:
        text = f"{plural(n, 'transition')} left out of {n_all:,}: a covariate is missing where "
        warnings.warn(text + ("it starts" if n == 1 else "they start"), DataWarning, stacklevel=user_level())
