"""Covariates during a simulation: an array with a row for each step, or a function of time.

They are frozen during a step: that from time i·dt to (i + 1)·dt is made with their values at i·dt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, InputError, Option, answer_of, float_array, plain_array
from itofit.data.names import in_order

Drive: TypeAlias = npt.ArrayLike | Callable[[float], npt.ArrayLike]
"""Covariates of a simulation, as a user gives them."""


def refuse_state_alone(x: npt.ArrayLike, state: tuple[str, ...], drivers: tuple[str, ...]) -> None:
    """Raise if points hold values of the state and none of the covariates."""
    shape, s = plain_array("x", x).shape, len(state)
    if shape[1:] == (s,) or (s == 1 and len(shape) < 2):
        raise InputError(
            "{x} holds values of {state} alone, but drift and covariance also depend on {drivers}, from outside: "
            "give {x} of shape (n, {m}), as in np.column_stack([{state}, {drivers}])",
            x=Option("x"),
            state=", ".join(state),
            drivers=", ".join(drivers),
            m=s + len(drivers),
        )


class Driver(NamedTuple):
    """Covariates at the start of each step, by its number."""

    at: Callable[[int], Float]  # the number of a step to (n_paths, k)
    known: int  # numbers up to which they are known, exclusively

    def over(self, n_times: int) -> Float:
        """Their values at so many times: shape (n_paths, n_times, k), NaN where they are not known."""
        values = [self.at(i) for i in range(min(n_times, self.known))]
        missing = [np.full_like(values[0], np.nan)] * (n_times - len(values))
        return np.stack(values + missing, axis=1)


def driver_of(
    drive: Drive | None, names: tuple[str, ...], n_paths: int, n_steps: int, dt: float, *, asked_again: bool = False
) -> Driver | None:
    """The covariates that a user gave for a simulation; None if the equation has none.

    Parameters
    ----------
    drive : array or callable
        As in `SDE.simulate`.
    names : tuple of k str
        What they are called.
    n_paths, n_steps, dt
        Of the simulation.
    asked_again : bool
        Whether those of all steps are asked for after the simulation.
    """
    k = len(names)
    if drive is None and not k:
        return None
    if not k:
        text = "{covariates} were given, but nothing drives this equation from outside: leave them out"
        raise InputError(text, covariates=Option("covariates"))
    if drive is None:
        raise InputError(
            "this equation is driven by {names}: give {covariates}, an array of shape (n_steps, {k}) or a function of "
            "time",
            names=", ".join(names),
            covariates=Option("covariates", keyword=True),
            k=k,
        )
    if callable(drive):
        return Driver(_FunctionOfTime(drive, n_paths, k, dt, asked_again=asked_again), n_steps + 1)
    given = plain_array("covariates", in_order("covariates", drive, names))
    values = float_array("covariates", given.astype(float) if given.dtype.kind == "b" else given)
    return _array(values, n_paths, n_steps, k)


class _FunctionOfTime:
    """The covariates that a function of time gives, which is called once for each step: it may draw them at random.

    Parameters
    ----------
    drive : callable
        As a user gives it.
    n_paths, k, dt
        Of the simulation.
    asked_again : bool
        Whether values of all steps are kept, and not those of the last one alone.
    """

    def __init__(
        self, drive: Callable[[float], npt.ArrayLike], n_paths: int, k: int, dt: float, *, asked_again: bool
    ) -> None:
        self.drive, self.shape, self.dt, self.asked_again = drive, (n_paths, k), dt, asked_again
        self.values = {0: self._called(0)}  # by the number of the step; at once, so that an error comes before any work

    def __call__(self, i: int) -> Float:
        """The covariates at the start of step i: shape (n_paths, k)."""
        if i not in self.values:
            values = self._called(i)
            if not self.asked_again:
                self.values.clear()
            self.values[i] = values
        return np.broadcast_to(self.values[i], self.shape)

    def _called(self, i: int) -> Float:
        """What the function gives: shape (k,), (1, k) or (n_paths, k)."""
        n_paths, k = self.shape
        values = float_array("covariates(t)", answer_of("covariates", self.drive, i * self.dt))
        if values.ndim == 0 or (k == 1 and values.shape == (n_paths,)):
            values = values.reshape(-1, 1)
        if values.shape not in ((k,), (1, k), (n_paths, k)):
            raise InputError(
                "{covariates} must give an array of shape ({k},) or ({n_paths}, {k}) at each time, got {got}",
                covariates=Option("covariates"),
                k=k,
                n_paths=n_paths,
                got=values.shape,
            )
        return values.copy()  # the function may use its array again


def _array(values: Float, n_paths: int, n_steps: int, k: int) -> Driver:
    """The covariates that an array gives: at all times, at each of them, or of each path."""
    lengths = (n_steps, n_steps + 1)
    if (values.ndim == 0 and k == 1) or (values.shape == (k,) and (k > 1 or n_steps > 1)):
        constant = np.broadcast_to(values.reshape(-1), (n_paths, k))
        return Driver(lambda i: constant, n_steps + 1)
    if values.ndim == 1 and k == 1:
        values = values[:, None]
    if values.ndim == 2 and values.shape[1] == k:
        values = values[None]
    if (
        values.ndim != 3
        or values.shape[0] not in (1, n_paths)
        or values.shape[1] not in lengths
        or values.shape[2] != k
    ):
        raise InputError(
            "{covariates} must have a row for each step: expected shape ({n_steps}, {k}), or ({n_paths}, {n_steps}, "
            "{k}) for each path its own, got {got}",
            covariates=Option("covariates"),
            n_steps=n_steps,
            n_paths=n_paths,
            k=k,
            got=values.shape[1:] if values.ndim == 3 and len(values) == 1 else values.shape,
        )
    everywhere = np.broadcast_to(values, (n_paths, *values.shape[1:]))
    return Driver(lambda i: everywhere[:, i], values.shape[1])
