"""The pictures of a page: one for each panel, so that a phone can show them one by one and a screen in columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from itofit.data.transitions import Transitions
from itofit.dynamics.answers import Answer
from itofit.dynamics.resting import FixedPoints
from itofit.learning.automatic.search import LEAST_EVIDENCE_GAIN
from itofit.looking import plot
from itofit.looking.check import Diagnosis
from itofit.looking.check.phrases import capitalised
from itofit.looking.plot.canvas import drawn, few_ticks, lines, unescaped
from itofit.looking.plot.formula_panels import MOST_LINES, draw_line, draw_losses
from itofit.looking.plot.grids import MOST_SLICES, panels_of
from itofit.looking.plot.simulated import compare_all, draw_compared
from itofit.looking.plot.views import rest_point, slice_title
from itofit.model.formula.formula_sde import Formula
from itofit.model.formula.lines import Line
from itofit.model.formula.written import line_name
from itofit.model.learned import LearnedSDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI, MAPS_DPI = 160, 120
"""Dots per inch; fewer for pictures of several maps, whose colours make large files."""
PANEL, PLANE, HALF = (4.2, 3.0), (4.2, 3.6), (2.1, 1.55)
"""Width and height in inches of a panel with curves, of one with a plane, and of one of several small ones.

Pages show them about 5.3 inches wide in rows of three, so that their text of 10 points is about as large as captions.
"""
ANSWER_SAMPLES = 30
"""Equations from the posterior for error bars of answers."""
MAPPED = 3
"""Outputs up to which drifts over three inputs are mapped, and covariances drawn: there are three pairs of them."""
Format = Literal["png", "svg"]
TYPES: dict[Format, str] = {"png": "image/png", "svg": "image/svg+xml"}
"""What browsers call the formats."""


class Picture(NamedTuple):
    """A picture as PNG or SVG, and what it shows."""

    content: bytes
    type: str  # as browsers call it
    width: int
    height: int
    text: str


def about_model(sde: LearnedSDE, data: Transitions) -> list[Picture]:
    """Pictures of drift and noise."""
    pictures = []
    if sde.n_inputs <= 2 and sde.n_outputs <= 2:
        size = PANEL if sde.n_inputs == 1 else PLANE
        pictures = [one_panel(panel.draw, sentence(panel.about), size) for panel in panels_of(sde, data)]
    if sde.n_inputs >= 2 or sde.n_outputs > 2:
        pictures += [small_panels(sde, data, j) for j in range(min(sde.n_outputs, MOST_SLICES))]
    if sde.n_inputs == 3 and sde.n_outputs <= MAPPED:
        pictures += [drift_maps(sde, data, j) for j in range(sde.n_outputs)]
    varies = not sde.noise_is_constant and sde.structure == "full"
    if varies and (sde.n_inputs, sde.n_outputs) != (2, 2) and sde.n_outputs <= MAPPED:
        pictures += [covariance_panels(sde, data, pair) for pair in combinations(range(sde.n_outputs), 2)]
    return pictures


def about_formula(formula: Formula, sde: LearnedSDE, data: Transitions) -> list[Picture]:
    """The lines of a formula beside the learned functions, and where it predicts worse."""
    shown = [*formula.drift_lines, *formula.noise_lines][:MOST_LINES]
    pictures = [
        one_panel(
            partial(_drawn_line, formula, sde, data, line),
            f"{line_name(formula, line.slot)}, learned and by the formula",
            PANEL,
        )
        for line in shown
        if not all(term.constant for term in line.terms)
    ]
    if formula.prediction is not None:
        pictures += [
            one_panel(partial(_drawn_losses, formula, place), f"Where the formula predicts worse, along {name}", PANEL)
            for place, name in enumerate(formula.input_names[:MOST_SLICES])
        ]
    return pictures


def _drawn_line(formula: Formula, sde: LearnedSDE, data: Transitions, line: Line, *, ax: Axes) -> Axes:
    return draw_line(ax, formula, sde, data, line)


def _drawn_losses(formula: Formula, place: int, *, ax: Axes) -> Axes:
    return draw_losses(ax, formula, place)


def about_answers(sde: LearnedSDE, data: Transitions, answers: Sequence[Answer], seed: int) -> list[Picture]:
    """What follows from drift and noise: the stationary density, and passage times or the phase portrait."""
    given: dict[str, Any] = {"samples": ANSWER_SAMPLES, "rng": seed}
    size = PANEL if len(sde.state_names) == 1 else PLANE
    density = "Stationary density of the learned equation, and states that were observed"
    pictures = [one_panel(partial(plot.density, sde, data, **given), density, size)]
    points = answers[0]
    if len(sde.state_names) == 2:
        text = "Flow, with fixed points and the lines on which one variable stays"
        return [*pictures, one_panel(partial(plot.phase_portrait, sde, data, **given), text, PLANE)]
    stable = np.asarray(points.value)[points.stable, 0].tolist() if isinstance(points, FixedPoints) else []
    if len(stable) > 1:
        text = "Mean times until a stable fixed point is reached, from anywhere"
        pictures.append(one_panel(partial(plot.passage_times, sde, targets=stable, **given), text, PANEL))
    return pictures


def about_residuals(sde: LearnedSDE, diagnosis: Diagnosis) -> list[Picture]:
    """Residuals against the normal distribution and each input."""
    figures = [new_figure(PANEL) for _ in range(1 + sde.n_inputs)]
    plot.residuals(diagnosis, axes=[figure.add_subplot() for figure in figures], sde=sde)
    texts = ["Quantiles of the residuals against those of the normal distribution"]
    texts += [f"Mean and variance of the residuals along {name}" for name in sde.input_names]
    return [picture(figure, text) for figure, text in zip(figures, texts, strict=True)]


def about_distributions(sde: LearnedSDE, data: Transitions, rng: np.random.Generator) -> list[Picture]:
    """Simulated against observed states, of each variable that can be compared."""
    compared = list(compare_all(sde, data, None, rng).items())[: 2 * MOST_SLICES]
    return [
        one_panel(
            partial(draw_compared, states, name, sde.units.of(name)),
            f"Simulated and observed distribution of {name}",
            PANEL,
        )
        for name, states in compared
    ]


def about_training(sde: LearnedSDE) -> list[Picture]:
    """A picture of both trainings."""
    text = f"How good drift and covariance were during training{kept_text(sde)}"
    return [one_panel(partial(plot.history, sde), text, PANEL)]


def kept_text(sde: LearnedSDE) -> str:
    """Why the iteration that was kept need not be the best that is drawn."""
    covariance = sde.covariance_function.training
    if not covariance.by_evidence:
        return ""
    text = (
        f". Frequencies are kept until later ones have a log-evidence that is larger by more than "
        f"{LEAST_EVIDENCE_GAIN:g}: a slightly higher one may follow the one that is marked."
    )
    if covariance.best_iteration:
        text += (
            " Of the covariance, those that are marked are used only if they also predict held-out data better than "
            "those of the start: see “structure” below."
        )
    return text


# Making them


def small_panels(sde: LearnedSDE, data: Transitions, output: int) -> Picture:
    """Drift and variance of one output, side by side, along each input below each other; no variance if constant."""
    m, constant = min(sde.n_inputs, MOST_SLICES), sde.noise_is_constant
    figure = new_figure((2 * HALF[0], 0.4 + HALF[1] * m))
    panels = figure.subplots(m, 1 if constant else 2, squeeze=False)
    for i, (left, *right) in enumerate(panels):
        plot.drift(sde, data, output=output, along=i, ax=left)
        for ax in right:
            plot.diffusion(sde, data, entry=(output, output), along=i, ax=ax)
    for column in panels.T:
        _one_column(list(column))
    name = sde.output_names[output]
    what = "Drift" if constant else "Drift and noise variance"
    return picture(figure, f"{what} of {name} along each input{_others(sde, data)}")


def drift_maps(sde: LearnedSDE, data: Transitions, output: int) -> Picture:
    """Maps of one component of the drift over each two inputs, below each other."""
    planes = list(combinations(range(sde.n_inputs), 2))
    figure = new_figure((PLANE[0], 2.9 * len(planes)))
    for along, ax in zip(planes, figure.subplots(len(planes), squeeze=False)[:, 0], strict=True):
        plot.heatmap(sde, data, what="drift", entry=output, along=along, ax=ax)
    return picture(figure, f"Maps of the drift of {sde.output_names[output]} over each two inputs", MAPS_DPI)


def covariance_panels(sde: LearnedSDE, data: Transitions, pair: tuple[int, int]) -> Picture:
    """One covariance along each input, below each other, in the same range."""
    m = min(sde.n_inputs, MOST_SLICES)
    figure = new_figure((2 * HALF[0], 0.4 + HALF[1] * m))
    panels = figure.subplots(m, 1, squeeze=False)[:, 0]
    for i, ax in enumerate(panels):
        plot.diffusion(sde, data, entry=pair, along=i, ax=ax)
    _one_column(list(panels), 48)
    a, b = (sde.output_names[j] for j in pair)
    return picture(figure, f"Noise covariance of {a} and {b} along each input{_others(sde, data)}")


def _one_column(panels: list[Axes], width: int = 24) -> None:
    """Make panels of one quantity fit below each other: one range, its label above all, few ticks, no legends."""
    label = lines(panels[0].get_ylabel().replace("\n", " "), width)
    edges = np.array([ax.get_ylim() for ax in panels])
    for ax in panels:
        few_ticks(ax, 4)
        ax.set(xlabel=lines(ax.get_xlabel(), 24), ylabel="", title="")
        ax.set_ylim(edges[:, 0].min(), edges[:, 1].max())
        if (legend := ax.get_legend()) is not None:
            legend.remove()
    panels[0].set_title(label, fontsize="medium")


def _others(sde: LearnedSDE, data: Transitions) -> str:
    """The end of a caption that says at which values the other inputs are held."""
    point, chosen = rest_point(sde, data, None)
    others = slice_title(sde, (), point, chosen, 1000) if sde.n_inputs > 1 else ""
    return f", the others {unescaped(others)}" if others else ""


def one_panel(draw: Callable[..., Any], text: str, size: tuple[float, float]) -> Picture:
    """A picture with one panel, drawn by a function that takes ``ax=``."""
    figure = new_figure(size)
    draw(ax=figure.add_subplot())
    return picture(figure, text)


def new_figure(size: tuple[float, float]) -> Figure:
    """A figure that pyplot does not keep."""
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

    return Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.07, compress=True))


def picture(figure: Figure, text: str, dpi: int = DPI) -> Picture:
    """A figure in the format of matplotlib's settings, which `itofit.report` sets, without the date."""
    from matplotlib import rcParams  # noqa: PLC0415

    kind = rcParams["savefig.format"]
    width, height = (round(dpi * float(inches)) for inches in figure.get_size_inches())
    return Picture(drawn(figure, kind, dpi), TYPES[kind], width, height, text)


def sentence(text: str) -> str:
    """A label as a sentence: with a capital letter, and without escapes."""
    return unescaped(capitalised(text))
