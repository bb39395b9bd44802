"""What all plots share: matplotlib when it is needed, axes and figures to draw on, colours, labels."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import ndtri as normal_quantile

from itofit._checks import InputError
from itofit._version import __version__
from itofit.data.units import with_unit
from itofit.dynamics.axes import (
    DATA,
    LEARNED,
    SECOND,
    SIZE,
    axes_or_new,
    colour_bar,
    escaped,
    missing_matplotlib,
    one_scale,
)
from itofit.model.learned import LearnedSDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "DATA",
    "LEARNED",
    "SECOND",
    "SIZE",
    "axes_or_new",
    "colour_bar",
    "escaped",
    "one_scale",
]  # besides what is defined here
LOOKS = (
    ("#0072B2", "o", "-"),
    ("#D55E00", "s", "--"),
    ("#009E73", "^", "-."),
    ("#CC79A7", "D", ":"),
    ("#E69F00", "v", (0, (5, 1, 1, 1, 1, 1))),
    ("#56B4E9", "P", (0, (1, 1))),
)
"""Colour, marker and dashes of the first, second, ... of several outputs."""
INTERVAL = "95 % interval"
"""What bands and bars are called: the level that most people expect, and the default of `variance_interval`."""
INTERVAL_STDS = float(normal_quantile(0.975))  # 1.96
"""Standard deviations on either side of a normal variable's 95 % interval."""
RC = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "itofit"}
What = Literal["variance", "sigma"]
BREAK = "\0"
"""Marks a place within a name where a line may end."""


@contextmanager
def style(rc: Mapping[str, Any] = RC) -> Iterator[None]:
    """Use matplotlib's defaults and ours within the block, for pictures in files; the user's settings return after."""
    with missing_matplotlib():
        from matplotlib import style  # noqa: PLC0415
    with style.context(["default", dict(rc)]):
        yield


def drawn(figure: Figure, form: str, dpi: int) -> bytes:
    """A figure as the content of a .png, .svg or .pdf file, which says that itofit drew it, and no date."""
    by, content = f"itofit {__version__}", BytesIO()
    says = {
        "png": {"Software": by},
        "svg": {"Creator": by, "Date": None},
        "pdf": {"Creator": by, "CreationDate": None},
    }
    figure.savefig(content, format=form, dpi=dpi, metadata=says[form])
    return content.getvalue()


def figure_or_new(figure: Any, size: tuple[float, float]) -> Figure:  # noqa: ANN401
    """The figure (or part of one) that was given, or a new one of pyplot."""
    with missing_matplotlib():
        from matplotlib.figure import FigureBase  # noqa: PLC0415
    if isinstance(figure, FigureBase):
        return figure  # type: ignore[return-value]
    if figure is not None:
        raise InputError(f"figure must be a matplotlib Figure, a part of one or None, got {type(figure).__name__}")
    from matplotlib import pyplot  # noqa: PLC0415

    return pyplot.figure(figsize=size, layout="compressed")


def panels_size(n: int, columns: int, panel: tuple[float, float]) -> tuple[float, float]:
    """Width and height of a figure with n panels of the given size in at most `columns` columns."""
    columns = min(n, columns)
    return panel[0] * columns, panel[1] * -(-n // columns)


def grid_of_axes(figure: Figure, n: int, columns: int) -> list[Axes]:
    """Axes of n panels on a figure, in at most `columns` columns."""
    columns = min(n, columns)
    return [figure.add_subplot(-(-n // columns), columns, i + 1) for i in range(n)]


def unescaped(text: str) -> str:
    """The text of a picture as people write it, without those backslashes."""
    return text.replace(r"\$", "$")


def lines(text: str, width: int = 34) -> str:
    """A label, broken into lines of about the same length if it is long; long names break after _."""
    return "\n".join(_balanced(line, width) for line in text.split("\n"))


def _balanced(line: str, width: int) -> str:
    """As few lines as the width allows, and these as short as their number allows."""
    widest = _wrapped(line, width)
    narrower = (_wrapped(line, less) for less in range(1, width))
    return "\n".join(next((parts for parts in narrower if len(parts) == len(widest)), widest))


def _wrapped(line: str, width: int) -> list[str]:
    """Lines of at most `width` letters, unless a word has more."""
    words = [word if len(word) <= width else word.replace("_", f"_{BREAK} ") for word in line.split()]
    parts = textwrap.wrap(" ".join(words), width, break_long_words=False, break_on_hyphens=False)
    return [part.replace(f"{BREAK} ", "").rstrip(BREAK) for part in parts]


def few_ticks(ax: Axes, most: int = 6) -> None:
    """Put at most `most` intervals between ticks along x, so that numbers of several digits do not touch."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    ax.xaxis.set_major_locator(MaxNLocator(most))


def number_text(value: float) -> str:
    """A number with a proper minus sign."""
    return f"{value:.3g}".replace("-", "−")


def drift_label(sde: LearnedSDE, output: int) -> str:
    """The label of a component of the drift, with its unit."""
    return with_unit(drift_name(sde, output), escaped(sde.units.drift(sde.output_names[output])))


def drift_name(sde: LearnedSDE, output: int) -> str:
    """What a component of the drift is called."""
    if sde.n_inputs == sde.n_outputs == 1:
        return f"drift f({escaped(sde.input_names[0])})"
    return f"drift of {escaped(sde.output_names[output])}"


def noise_label(sde: LearnedSDE, i: int, j: int, what: What = "variance") -> str:
    """The label of an entry of Σ or σ, with its unit."""
    row, column = sde.output_names[i], sde.output_names[j]
    unit = sde.units.diffusion(row) if what == "sigma" else sde.units.covariance(row, column)
    return with_unit(noise_name(sde, i, j, what), escaped(unit))


def noise_name(sde: LearnedSDE, i: int, j: int, what: What = "variance") -> str:
    """What an entry of Σ or σ is called."""
    letter, word = ("σ", "strength") if what == "sigma" else ("Σ", "variance")
    if sde.n_inputs == sde.n_outputs == 1:
        return f"noise {word} {letter}({escaped(sde.input_names[0])})"
    row, column = (escaped(sde.output_names[k]) for k in (i, j))
    if what == "sigma":
        return f"noise σ[{row}, {column}]"
    return f"noise variance of {row}" if i == j else f"noise covariance of {row} and {column}"


def legend_below(ax: Axes, handles: Sequence[Any] | None = None, columns: int = 2) -> None:
    """A legend under the panel and its label, where it hides nothing and leaves room for titles."""
    from matplotlib.transforms import offset_copy  # noqa: PLC0415

    figure: Any = ax.figure  # or a part of one
    size = float(ax.xaxis.label.get_fontsize())
    down = 2.6 * size + 1.2 * size * (1 + ax.get_xlabel().count("\n"))  # numbers at ticks, and the label
    under = offset_copy(ax.transAxes, fig=figure, y=-down, units="points")
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, 0.0), "bbox_transform": under}
    look: dict[str, Any] = {
        "frameon": False,
        "fontsize": "small",
        "ncols": columns,
        "columnspacing": 1.2,
        "borderaxespad": 0,
    }
    ax.legend(**({} if handles is None else {"handles": handles}), **place, **look)


def shared_legend(figure: Figure, panels: Iterable[Axes], columns: int = 4) -> None:
    """One legend for all panels, below them."""
    handles: dict[str, Any] = {}
    for ax in panels:
        handles |= {label: handle for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    given = list(handles.values()), list(handles)
    figure.legend(*given, loc="outside lower center", ncols=columns, frameon=False, fontsize="small")


def nice_below(value: float) -> float:
    """The largest of 1, 1.5, 2, 3, 5 or 7 times a power of ten that is not above a positive number."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(power * max((s for s in (1, 1.5, 2, 3, 5, 7) if s * power <= value * (1 + 1e-9)), default=1))
