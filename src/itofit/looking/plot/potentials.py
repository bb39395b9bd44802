"""The potential of one variable, and that of its stationary density."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from itofit._checks import Float, InputError
from itofit.data.passes import Data
from itofit.data.transitions import Transitions
from itofit.data.units import with_unit
from itofit.looking.plot.canvas import LEARNED, SECOND, axes_or_new, escaped, lines
from itofit.looking.plot.curves import Curve, draw_data, y_range
from itofit.looking.plot.views import View, checked, view_of
from itofit.model.learned import LearnedSDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EVEN_NOISE = 1.01
"""Noise whose largest variance is at most this times the smallest counts as even: two potentials would coincide."""


def potential(sde: LearnedSDE, data: Data | None = None, *, ax: Axes | None = None) -> Axes:
    """The potential U = −∫ f dx of one variable, and if the noise is not even, that of the stationary density.

    The stationary density of dx = f dt + σ dW is p ∝ exp(∫ 2f/Σ dx) / Σ. With the same noise everywhere
    −(Σ/2) log p is U; otherwise it is drawn beside it, with the mean of Σ over the data (or the range): its minima are
    where x is most often. Both are zero at their minimum.

    Parameters
    ----------
    sde : LearnedSDE
        With one variable that moves, of kind "diffusion". Covariates are at their medians. Over one period of a
        periodic variable U need not return to its value, and no density is drawn, as there may be a current.
    data, ax
        As for `drift`.

    Returns
    -------
    Axes

    Examples
    --------
    >>> ax = itofit.plot.potential(sde, data)  # doctest: +SKIP
    """
    rows = checked(sde, data)
    if sde.kind != "diffusion" or sde.n_outputs != 1:
        raise InputError(
            f"a potential needs one variable that moves and is the input, kind 'diffusion'; this model has inputs "
            f"{', '.join(sde.input_names)}, outputs {', '.join(sde.output_names)} and kind {sde.kind!r}"
        )
    view = view_of(sde, rows)
    U, V = potentials(sde, view, rows)
    ax = axes_or_new(ax)
    first = not ax.has_data()
    ax.plot(view.x, U, color=LEARNED, linewidth=1.8, label="potential U = −∫ f dx")
    curves = [Curve(U)]
    if V is not None:
        ax.plot(view.x, V, color=SECOND, linewidth=1.6, linestyle=(0, (5, 2)), label="of the density p: −½ Σ log p")
        curves.append(Curve(V))
    draw_data(ax, view)
    if first:
        ax.set(xlim=view.x[[0, -1]], ylim=y_range(view, curves))
    name = sde.output_names[0]
    label = escaped(with_unit(f"potential of {name}", sde.units.covariance(name, name)))  # that of f times x
    ax.set(xlabel=lines(view.name, 48), ylabel=lines(label))
    if view.title:
        ax.set_title(view.title, fontsize="small")
    ax.legend(frameon=False, fontsize="small")
    return ax


def potentials(sde: LearnedSDE, view: View, data: Transitions | None) -> tuple[Float, Float | None]:
    """U and −½ Σ̄ log p along a view, (n,) each; the second None if the noise is even."""
    from scipy.integrate import cumulative_trapezoid  # noqa: PLC0415  (a third of the time to import the plots)

    x, f = view.x, sde.drift(view.points)[:, 0]
    Sigma = sde.covariance(view.points)[:, 0, 0]
    U = -cumulative_trapezoid(f, x, initial=0.0)
    if Sigma.max() <= EVEN_NOISE * Sigma.min() or sde.periods[:, 0].any():
        return U - U.min(), None
    minus_log_p = np.log(Sigma) - cumulative_trapezoid(2 * f / Sigma, x, initial=0.0)
    weights = np.ones_like(x) if data is None else np.interp(x, _middles(view.edges), view.counts)
    V = 0.5 * np.average(Sigma, weights=weights) * minus_log_p
    return U - U.min(), V - V.min()


def _middles(edges: Float) -> Float:
    return (edges[1:] + edges[:-1]) / 2
