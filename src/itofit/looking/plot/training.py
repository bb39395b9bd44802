"""How training went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from itofit._checks import Float
from itofit.learning.automatic.search import SearchHistory
from itofit.learning.paper.arff import History
from itofit.looking.plot.canvas import LOOKS, axes_or_new
from itofit.looking.plot.views import checked
from itofit.model.learned import LearnedSDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

APART = 8.0
"""Two curves of which one changes by so many times more than the other have axes of their own."""
MATTERS = 1.0
"""A log-evidence that changes by less needs no axis to be seen on."""
ERROR, EVIDENCE = "validation error (scaled)", "log-evidence above the start"


def history(sde: LearnedSDE, ax: Axes | None = None) -> Axes:
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

    drift, covariance = sde.drift_history, sde.covariance_history
    apart = type(drift) is not type(covariance) or _spans_differ(drift, covariance)
    right = ax.twinx() if apart else ax
    lines = []
    for panel, record, name, (color, marker, dashes) in (
        (ax, drift, "drift", LOOKS[0]),
        (right, covariance, "covariance", LOOKS[1]),
    ):
        at, values = curve_of(record)
        # few judged iterations are dots, many a line
        look: dict[str, Any] = {
            "color": color,
            "linestyle": dashes,
            "marker": marker if len(at) <= 30 else "",
            "markersize": 4,
        }
        label = f"{name} (kept: iteration {record.best_iteration})"
        lines += panel.plot(at, values, linewidth=1.6, label=label, **look)
        best = int(np.argmin(np.abs(at - record.best_iteration)))
        panel.plot(at[best], values[best], marker=marker, markersize=10, fillstyle="none", color=color, linewidth=0)
        what = ERROR if isinstance(record, History) else EVIDENCE
        panel.set_ylabel(f"{what}, {name}" if apart else what)
        if isinstance(record, History) and values.min() > 0 and values.max() > 10 * values.min():
            panel.set_yscale("log")
    if apart:
        right.spines["right"].set_visible(True)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("iteration")
    ax.legend(handles=lines, frameon=False, fontsize="small")
    return ax


def curve_of(history: History | SearchHistory) -> tuple[Float, Float]:
    """Iterations and how good they were, shape (J,) each."""
    if isinstance(history, History):
        return np.arange(history.n_iterations + 1.0), history.validation_error
    return np.asarray(history.iteration, dtype=np.float64), history.log_evidence


def _spans_differ(one: History | SearchHistory, other: History | SearchHistory) -> bool:
    spans = sorted(float(np.ptp(curve_of(record)[1])) for record in (one, other))
    least = 0.0 if isinstance(one, History) else MATTERS
    return spans[0] > least and spans[1] > APART * spans[0]
