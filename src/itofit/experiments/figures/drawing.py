"""The look and the titles that the figures share, and how they are written to files."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from contextlib import _GeneratorContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from itofit._checks import Float
from itofit.experiments.catalogue import Case
from itofit.experiments.results import TRUTH, Run
from itofit.looking.plot import canvas
from itofit.model.storage import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 150
WIDTH = 11.0
"""Width of the widest figure, in inches."""
HIDDEN = 0.005
"""The share of values beyond the axes is printed if it is larger than this."""
RC = {"font.size": 9, "axes.titlesize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8, "legend.fontsize": 8.5}
LOOKS = {
    "algorithm-2": ("#0072B2", "o", "-"),
    "default": ("#009E73", "s", "-"),
    "adam": ("#D55E00", "^", (0, (6, 1.5))),
    "no-resampling": ("#56B4E9", "D", "-"),
    "drift-step": ("#777777", "P", "-"),
    "adam-deep": ("#E69F00", "v", (0, (4, 1, 1, 1))),
    "hybrid": ("#CC79A7", "X", (0, (2, 1))),
    "hybrid-deep": ("#000000", "*", (0, (1, 1))),
}
"""Colour (Okabe and Ito), marker and dashes of each method."""
OTHER_LOOK = ("#000000", "h", "-")


def style() -> _GeneratorContextManager[None]:
    """Within this context, matplotlib has its own defaults and ours; afterwards the user's settings again."""
    return canvas.style(RC | {"svg.hashsalt": "itofit"})


@style()
def save(figure: Figure, path: Path) -> None:
    """Write `path`.png and `path`.svg, each whole or not at all, and close the figure."""
    contents = {kind: canvas.drawn(figure, kind, DPI) for kind in ("png", "svg")}
    for kind, content in contents.items():
        write_whole(path.with_name(f"{path.name}.{kind}"), content)
    figure.clear()


def titled_figure(case: Case, width: float, height: float, note: str = "") -> Figure:
    """A figure under the title of an experiment, with a note below."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(f"Experiment {case.name}: {case.title}", fontsize=11)
    if note:
        figure.supxlabel(note, fontsize=9)
    return figure


def empty_figure(case: Case, why: str) -> Figure:
    """A figure that says why there is nothing in it."""
    figure = titled_figure(case, 8.0, 4.0)
    figure.text(0.5, 0.5, f"nothing to draw: {why}", ha="center")
    return figure


def by_method(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs of each method but the truth, in the order of LOOKS."""
    present = {run.method for run in runs} - {TRUTH}
    order = [*(method for method in LOOKS if method in present), *sorted(present - set(LOOKS))]
    return {method: [run for run in runs if run.method == method] for method in order}


def corner(axes: Axes, text: str) -> None:
    """Text in the upper left corner of a panel."""
    box: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1.5}
    axes.text(0.03, 0.97, text, transform=axes.transAxes, ha="left", va="top", fontsize=8, bbox=box)


def wrapped(title: str, width: float) -> str:
    """A title broken into lines that fit a panel of some width in inches."""
    return textwrap.fill(title, max(8, int(13 * width)))


def title_height(titles: Sequence[str], width: float) -> float:
    """Height in inches of the titles of panels of some width."""
    return 0.16 * max(wrapped(title, width).count("\n") + 1 for title in titles)


def number_text(value: float) -> str:
    """A number with a proper minus sign."""
    return f"{value:.4g}".replace("-", "−")


def outside_text(share: float) -> str:
    """A text that says which share of the values lies beyond the axes."""
    return f"{float(f'{100 * share:.2g}'):g} % outside"


def moments(values: Float) -> tuple[Float, Float]:
    """Mean and standard deviation of the finite values in each column; nan if there are too few for them."""
    finite = np.isfinite(values)
    n = finite.sum(axis=0)
    with np.errstate(all="ignore"):
        mean = np.where(finite, values, 0.0).sum(axis=0) / n
        return mean, np.sqrt(np.where(finite, (values - mean) ** 2, 0.0).sum(axis=0) / (n - 1))
