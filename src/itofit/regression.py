"""Algorithm 1 on data in the user's units: scale, hold out, search, solve, and scale back."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from itofit._checks import ConvergenceWarning, Float, Int
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
    of the best frequencies are then solved again on all rows.

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

    def equations(rows: Int | slice) -> DirectNormalEquations:
        return DirectNormalEquations((x[rows] - shift) / scale, (y[rows] - offset) / unit)

    searched = rng.permutation(n)[: settings.search_rows]
    n_out = min(max(round(settings.validation_fraction * len(searched)), 1), len(searched) - 1)
    problem = Problem(train=equations(np.sort(searched[n_out:])), validation=equations(np.sort(searched[:n_out])))

    def show(iteration: int, info: Info) -> None:
        error = f"validation error {info.validation_error:.4g}"
        progress.show(label, f"iteration {iteration} of at most {settings.max_iterations}, {error}")

    best, history = train(rng, problem, settings, show)
    if history.stopped == "max_iterations":
        warnings.warn(
            f"{label} ended at max_iterations = {settings.max_iterations} before its validation error settled; "
            "allow more iterations",
            ConvergenceWarning,
            stacklevel=3,
        )
    if len(searched) < n:
        best = State(best.omega, equations(slice(None)).solve(best.omega, settings.ridge))
    series = FourierSeries(omega=best.omega, beta=best.beta * unit, shift=shift, scale=scale, offset=offset)
    return Fitted(series, history, settings)
