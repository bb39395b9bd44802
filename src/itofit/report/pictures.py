"""The pictures of a page: one for each panel, so that they are legible on a phone and stand in columns on a desk."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from itofit import plot
from itofit.diagnostics import Diagnosis
from itofit.plot.canvas import few_ticks, lines, plain
from itofit.plot.grids import MOST, panels_of
from itofit.plot.simulated import comparable
from itofit.plot.views import rest_point, slice_title
from itofit.sde import LearnedSDE
from itofit.transitions import Transitions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 130
PANEL, PLANE, HALF = (5.2, 3.6), (5.2, 4.4), (2.6, 2.1)
"""Width and height in inches: of curves, of planes, of one of many small panels."""


class Picture(NamedTuple):
    """A picture as PNG, and what it shows."""

    png: bytes
    width: int
    height: int
    text: str


def about_model(sde: LearnedSDE, data: Transitions) -> list[Picture]:
    """Drift and noise."""
    found = []
    if sde.n_inputs <= 2 and sde.n_outputs <= 2:
        size = PANEL if sde.n_inputs == 1 else PLANE
        found = [one_panel(panel.draw, sentence(panel.about), size) for panel in panels_of(sde, data)]
    if sde.n_inputs >= 2 or sde.n_outputs > 2:
        found += [small_panels(sde, data, j) for j in range(min(sde.n_outputs, MOST))]
    return found


def about_residuals(sde: LearnedSDE, diagnosis: Diagnosis) -> list[Picture]:
    """Residuals against the normal distribution and each input."""
    figures = [new_figure(PANEL) for _ in range(1 + sde.n_inputs)]
    plot.residuals(diagnosis, [figure.add_subplot() for figure in figures], sde=sde)
    texts = ["Quantiles of the residuals against those of the normal distribution"]
    texts += [f"Mean and variance of the residuals along {name}" for name in sde.input_names]
    return [picture(figure, text) for figure, text in zip(figures, texts, strict=True)]


def about_distributions(sde: LearnedSDE, data: Transitions, rng: np.random.Generator) -> list[Picture]:
    """Simulated against observed states, of each variable that can be compared."""

    def drawing(name: str) -> Callable[..., Any]:
        return lambda ax: plot.distributions(sde, data, component=name, rng=rng, ax=ax)

    names = comparable(sde, data)[: 2 * MOST]
    return [one_panel(drawing(name), f"Simulated and observed distribution of {name}", PANEL) for name in names]


def about_training(sde: LearnedSDE) -> list[Picture]:
    """How training went."""
    return [one_panel(lambda ax: plot.history(sde, ax), "How good drift and covariance were during training", PANEL)]


# Making them


def small_panels(sde: LearnedSDE, data: Transitions, output: int) -> Picture:
    """Drift and variance of one output, side by side, along each input below each other."""
    m = min(sde.n_inputs, MOST)
    figure = new_figure((2 * HALF[0], 0.3 + HALF[1] * m))
    panels = figure.subplots(m, 2, squeeze=False)
    for i, (left, right) in enumerate(panels):
        plot.drift(sde, data, output=output, along=i, ax=left)
        plot.diffusion(sde, data, entry=(output, output), along=i, ax=right)
    for column in panels.T:
        edges = np.array([ax.get_ylim() for ax in column])
        for ax in column:
            few_ticks(ax, 4)
            ax.set(xlabel=lines(ax.get_xlabel(), 24), ylabel=lines(ax.get_ylabel(), 22))
            ax.set_ylim(edges[:, 0].min(), edges[:, 1].max())
            ax.set_title("")
            ax.get_legend().remove()
            ax.xaxis.label.set_size("small")
            ax.yaxis.label.set_size("small")
    point, chosen = rest_point(sde, data, None)
    others = slice_title(sde, (), point, chosen, 1000) if sde.n_inputs > 1 else ""
    text = f"Drift and noise variance of {sde.output_names[output]} along each input"
    return picture(figure, f"{text}, the others {plain(others)}" if others else text)


def one_panel(draw: Callable[..., Any], text: str, size: tuple[float, float]) -> Picture:
    """A picture that a function draws, given ``ax=``."""
    figure = new_figure(size)
    draw(ax=figure.add_subplot())
    return picture(figure, text)


def new_figure(size: tuple[float, float]) -> Figure:
    """A figure that pyplot knows nothing of."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    return Figure(figsize=size, layout="constrained")


def picture(figure: Figure, text: str) -> Picture:
    """A figure as PNG."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    width, height = (round(DPI * float(inches)) for inches in figure.get_size_inches())
    return Picture(buffer.getvalue(), width, height, text)


def sentence(text: str) -> str:
    """With a capital letter, and as people write it."""
    return plain(text[:1].upper() + text[1:])
