"""Pictures of answers: curves with bands, maps of two variables, currents, modes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from itofit._checks import Float
from itofit.data.units import Units, behind, with_unit
from itofit.dynamics.axes import LEARNED, axes_or_new, colour_bar, escaped, label_plane
from itofit.dynamics.mesh import Mesh

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from itofit.dynamics.answers import Answer

LOOKS: tuple[tuple[str, Any], ...] = (
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#CC79A7", ":"),
)
"""Colour and dashes of the first, second, ... of several curves."""
HIGHEST_POTENTIAL = 12.0
"""Of a quasi-potential that a map tells apart: states still higher have less than 1e-5 of the largest density."""
ARROWS = 17
"""Along each side of a map."""


def look(i: int) -> tuple[str, Any]:
    """Colour and dashes of curve i from 0; colours return with other dashes, so that no two of 16 are alike."""
    n = len(LOOKS)
    return LOOKS[i % n][0], LOOKS[(i + i // n) % n][1]


def top_of(value: Float, high: Float) -> float:
    """The upper end of an axis for a curve (n,) with the upper edge of its band (n,).

    It is the highest place of the band, but leaves out where the band is far wider than elsewhere: not higher above
    the curve than half of its range, or than twice the width that the band typically has where the curve is high.
    """
    known = np.isfinite(value) & np.isfinite(high)
    if not known.any():
        return np.nan
    value, high = value[known], high[known]
    above, span = high - value, float(np.ptp(value))
    weight = (value - value.min()) / span if span > 0 else np.ones(len(value))
    order = np.argsort(above)
    share = np.cumsum(weight[order])
    typical = above[order][np.searchsorted(share, 0.5 * share[-1])]
    return float(min(high.max(), value.max() + max(0.5 * span, 2 * typical)))


def draw_curve(x: Float, answer: Answer, name: str, ax: Axes | None = None) -> Axes:
    """A function of one variable with its 95 % band."""
    ax = axes_or_new(ax)
    value = np.asarray(answer.value)
    if len(answer.samples):
        low, high = (np.asarray(end) for end in answer.interval())
        ax.fill_between(x, low, high, color=LEARNED, alpha=0.25, linewidth=0, label="95 % interval")
    ax.plot(x, value, color=LEARNED, linewidth=1.8)
    xlabel = escaped(answer.units.labelled(name))
    ax.set(xlabel=xlabel, ylabel=escaped(answer.label), xlim=(x[0], x[-1]))
    if answer.scale == "log" and ax.get_yscale() == "linear":
        ax.set_ylim(bottom=0.0)
    if len(answer.samples):
        top = top_of(value, high)
        if top < np.nanmax(high):
            ax.set_ylim(top=top)
        ax.legend(frameon=False, fontsize="small")
    return ax


def draw_map(answer: Answer, values: Float, names: tuple[str, ...], mesh: Mesh, ax: Axes | None = None) -> Axes:
    """A function of two variables as a map; of three, its mean over the third, as the label says."""
    ax = axes_or_new(ax, (5.6, 4.4))
    flat, label = values, answer.label
    if values.ndim > 2:
        flat, label = values.mean(axis=tuple(range(2, values.ndim))), f"{label}, mean over {', '.join(names[2:])}"
    most = HIGHEST_POTENTIAL if answer.what.startswith("quasi") and flat.max() > HIGHEST_POTENTIAL else None
    picture = ax.pcolormesh(*_edges(mesh), flat.T, cmap="viridis", vmax=most, shading="flat", rasterized=True)
    colour_bar(ax, picture, escaped(label), extend="neither" if most is None else "max")
    _label(ax, names, mesh, answer.units)
    return ax


def draw_current(answer: Answer, density: Float, names: tuple[str, ...], mesh: Mesh, ax: Axes | None = None) -> Axes:
    """Arrows of a current (*cells, s) on the density (*cells,); of three variables integrals over the third."""
    ax = axes_or_new(ax, (5.6, 4.4))
    J = np.asarray(answer.value)
    others, width = tuple(range(2, density.ndim)), float(np.prod(mesh.size[2:]))
    rho, flow = width * density.sum(axis=others), width * J.sum(axis=others)[..., :2]
    picture = ax.pcolormesh(*_edges(mesh), rho.T, cmap="Greys", shading="flat", rasterized=True)
    label = "stationary density" + (f" of {names[0]}, {names[1]}" if others else "")
    colour_bar(ax, picture, escaped(with_unit(label, answer.units.product(dict.fromkeys(names[:2], -1)))))
    places = [np.unique(np.linspace(0, k - 1, ARROWS).astype(int)) for k in mesh.shape[:2]]
    some = flow[np.ix_(*places)]
    x, y = np.meshgrid(mesh.axes[0][places[0]], mesh.axes[1][places[1]], indexing="ij")
    size = np.linalg.norm(some / (mesh.box[1] - mesh.box[0])[:2], axis=-1)
    some = np.where(size[..., None] > 0.02 * size.max(), some, np.nan)
    ax.quiver(x, y, some[..., 0], some[..., 1], color="#D55E00", angles="xy", width=0.006)
    ax.set_title("arrows: probability current", fontsize="small")
    _label(ax, names, mesh, answer.units)
    return ax


def draw_modes(answer: Answer, modes: Float, names: tuple[str, ...], mesh: Mesh, ax: Axes | None = None) -> Axes:
    """Slowest modes of one variable as curves; the slowest one of two as a map."""
    times, unit = np.asarray(answer.value), escaped(behind(answer.unit))
    if len(names) == 1:
        ax = axes_or_new(ax)
        for i, (time, mode) in enumerate(zip(times, modes, strict=True)):
            color, dashes = look(i)
            ax.plot(mesh.axes[0], mode, color=color, linestyle=dashes, label=f"relaxation time {time:.3g}{unit}")
        ax.axhline(0.0, color="0.7", linewidth=0.8, zorder=0)
        ax.set(xlabel=escaped(answer.units.labelled(names[0])), ylabel="mode", xlim=mesh.box[:, 0])
        ax.legend(frameon=False, fontsize="small")
        return ax
    ax = axes_or_new(ax, (5.6, 4.4))
    picture = ax.pcolormesh(*_edges(mesh), modes[0].T, cmap="RdBu_r", vmin=-1, vmax=1, shading="flat", rasterized=True)
    colour_bar(ax, picture, f"slowest mode, relaxation time {times[0]:.3g}{unit}")
    _label(ax, names, mesh, answer.units)
    return ax


def _edges(mesh: Mesh) -> list[Float]:
    return [np.linspace(low, high, k + 1) for low, high, k in zip(*mesh.box[:, :2], mesh.shape[:2], strict=True)]


def _label(ax: Axes, names: tuple[str, ...], mesh: Mesh, units: Units) -> None:
    ax.set(xlim=mesh.box[:, 0], ylim=mesh.box[:, 1])
    label_plane(ax, names, units)
