"""How good drift and covariance were during training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from itofit.looking.plot.canvas import LOOKS, axes_or_new
from itofit.looking.plot.views import checked
from itofit.model.learned import LearnedSDE
from itofit.model.training import Training

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

LABELS = {"validation error": "validation error (scaled)", "log-evidence": "log-evidence above the start"}
"""What each judge's scores are called on an axis."""
APART = 8.0
"""Two curves of which one changes by so many times more than the other have axes of their own."""
VISIBLE = {"validation error": 0.0, "log-evidence": 1.0}
"""Changes of a score that need no axis to be seen on: evidence that differs by less than 1 says nothing."""
LOGARITHMIC = 10.0
"""Errors that fall by more than this factor are on a logarithmic axis."""
MOST_MARKERS = 30
"""Judged iterations that are drawn as dots; more of them are a line alone."""


def history(sde: LearnedSDE, *, ax: Axes | None = None) -> Axes:
    """How good drift and covariance were after each iteration of their training; the one that was kept is marked.

    For what `fit` learns by default it is the log-evidence above that of the start, larger is better; with
    ``refine=False`` the mean squared error on held-out rows, smaller is better.

    Parameters
    ----------
    sde : LearnedSDE
    ax : Axes, optional
        Default: those of a new figure.

    Returns
    -------
    Axes
        Those of the drift. If the two trainings differ much, the covariance has an axis of its own on the right.

    Examples
    --------
    >>> ax = itofit.plot.history(sde)  # doctest: +SKIP
    """
    checked(sde, None)
    ax = axes_or_new(ax)
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    drift, covariance = sde.drift_function.training, sde.covariance_function.training
    apart = drift.judge != covariance.judge or _spans_differ(drift, covariance)
    right = ax.twinx() if apart else ax
    handles = _draw(ax, drift, "drift", 0, apart) + _draw(right, covariance, "covariance", 1, apart)
    if apart:
        right.spines["right"].set_visible(True)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("iteration")
    ax.legend(handles=handles, frameon=False, fontsize="small")
    return ax


def _draw(ax: Axes, training: Training, name: str, place: int, apart: bool) -> list[Line2D]:
    """One training, with a ring around the iteration that was kept; the line, for the legend."""
    color, marker, dashes = LOOKS[place]
    look: dict[str, Any] = {
        "color": color,
        "linestyle": dashes,
        "marker": marker if len(training.iteration) <= MOST_MARKERS else "",
        "markersize": 4,
    }
    label = f"{name} (kept: iteration {training.best_iteration})"
    handles = ax.plot(training.iteration, training.score, linewidth=1.6, label=label, **look)
    kept = int(np.argmin(np.abs(training.iteration - training.best_iteration)))
    at = training.iteration[kept], training.score[kept]
    ax.plot(*at, marker=marker, markersize=10, fillstyle="none", color=color, linewidth=0)
    ax.set_ylabel(f"{LABELS[training.judge]}, {name}" if apart else LABELS[training.judge])
    low, high = training.score.min(), training.score.max()
    if training.judge == "validation error" and low > 0 and high > LOGARITHMIC * low:
        ax.set_yscale("log")
    return handles


def _spans_differ(one: Training, other: Training) -> bool:
    """Whether two curves of one judge change by so different amounts that one axis would hide one of them."""
    small, large = sorted(float(np.ptp(training.score)) for training in (one, other))
    return small > VISIBLE[one.judge] and large > APART * small
