"""Algorithm 1 on data in the user's units: scale, hold out, search, solve, and scale back."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from itofit._checks import ConvergenceWarning, Float
from itofit._progress import Progress
from itofit.arff import ARFF, History, Info, Problem, Settings, State, train
from itofit.fourier import FourierSeries
from itofit.normal_equations import DirectNormalEquations


class Fitted(NamedTuple):
    """A learned function, how its training went, and with what settings."""

    series: FourierSeries
    history: History
    settings: Settings


def fit_series(
    rng: np.random.Generator,
    x: Float,
    y: Float,
    arff: ARFF,
    *,
    offset: Float,
    unit: Float,
    progress: Progress,
    label: str = "training",
) -> Fitted:
    """Learn y ≈ g(x) as a Fourier series.

    Inputs are scaled to [0, 1] in each column, targets to (y − offset) / unit. A random share of the rows is held out
    to judge networks. With more than `search_rows` rows the search sees a random subset of that size; the amplitudes
    of the best frequencies are then solved again on every row that is not held out.

    Parameters
    ----------
    rng : Generator
    x : array of shape (n, m)
    y : array of shape (n, p)
    arff : ARFF
    offset, unit : arrays of shape (p,)
    progress : Progress
    label : str
        What progress and warnings call this training.
    """
    n = len(x)
    settings = arff.resolve(n)
    shift = x.min(axis=0)
    scale = np.ptp(x, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    u, z = (x - shift) / scale, (y - offset) / unit

    order = rng.permutation(n)
    searched = order[: settings.search_rows]
    n_out = min(max(round(settings.validation_fraction * len(searched)), 1), len(searched) - 1)
    held_out, kept = np.sort(searched[:n_out]), np.sort(searched[n_out:])
    problem = Problem(DirectNormalEquations(u[kept], z[kept]), DirectNormalEquations(u[held_out], z[held_out]))

    def show(iteration: int, info: Info) -> None:
        detail = f"validation error {info.validation_error:.4g}, {info.acceptance:.0%} accepted"
        progress.show(label, iteration, settings.max_iterations, detail)

    best, history = train(rng, problem, settings, show)
    if history.stopped == "max_iterations":
        warnings.warn(
            f"{label} ended at max_iterations = {settings.max_iterations} before its validation error settled; "
            "allow more iterations",
            ConvergenceWarning,
            stacklevel=3,
        )
    if len(searched) < n:
        rest = np.sort(order[n_out:])
        best = State(best.omega, DirectNormalEquations(u[rest], z[rest]).solve(best.omega, settings.ridge))
    series = FourierSeries(omega=best.omega, beta=best.beta * unit, shift=shift, scale=scale, offset=offset)
    return Fitted(series, history, settings)
