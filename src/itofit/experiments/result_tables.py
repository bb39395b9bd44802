"""Results in rows: ours beside the published ones, and the paper's claim about Adam, experiment by experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.experiments.catalogue import CASES, Published
from itofit.experiments.methods import LABELS, METHODS
from itofit.experiments.results import TRUTH, Run

CLEAR = 2.0
"""Standard errors beyond which a difference is called one."""


class Spread(NamedTuple):
    """Mean and standard deviation over runs; the standard deviation is NaN for a single run."""

    mean: float
    deviation: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float] | Float) -> Spread:
        """Mean and standard deviation of some values."""
        array = np.asarray(values, dtype=float)
        return cls(float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else float("nan"), len(array))

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return self.deviation / float(np.sqrt(self.n))

    def text(self, digits: int) -> str:
        """Mean ± standard deviation with a number of digits after the point."""
        if np.isnan(self.deviation):
            return f"{self.mean:.{digits}f}"
        return f"{self.mean:.{digits}f} ± {self.deviation:.{digits}f}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One method in one experiment, over all runs.

    Parameters
    ----------
    experiment, method : str
    loss : Spread
        Validation loss.
    lowest_loss : Spread
        The lowest validation loss at any epoch, also after stagnation.
    excess : Spread
        Validation loss above the truth's on the same points.
    seconds, seconds_to_best, compile_seconds : Spread
    published : Published or None
    """

    experiment: str
    method: str
    loss: Spread
    lowest_loss: Spread
    excess: Spread
    seconds: Spread
    seconds_to_best: Spread
    compile_seconds: Spread
    published: Published | None

    @property
    def label(self) -> str:
        """The method's name in tables and figures."""
        return LABELS[self.method]

    @property
    def agreement(self) -> str:
        """How the loss compares with the published one, which is a mean of ten runs on other data."""
        if self.published is None or np.isnan(self.loss.deviation):
            return ""
        error = self.loss.deviation * np.sqrt(1 / self.loss.n + 1 / 10)
        z = (self.loss.mean - self.published.loss) / error
        return f"{'agrees' if abs(z) <= CLEAR else 'lower' if z < 0 else 'higher'} ({z:+.1f} standard errors)"


def order_of_experiments(runs: Sequence[Run]) -> list[str]:
    """Names of the experiments that have runs, in the paper's order."""
    present = {run.experiment for run in runs}
    return [name for name in CASES if name in present]


def rows_of(runs: Sequence[Run]) -> list[Row]:
    """All rows, by experiment and method."""
    rows = []
    for experiment in order_of_experiments(runs):
        for method in METHODS:
            mine = [run for run in runs if (run.experiment, run.method) == (experiment, method)]
            if mine:
                rows.append(
                    Row(
                        experiment=experiment,
                        method=method,
                        loss=Spread.of([run.loss for run in mine]),
                        lowest_loss=Spread.of([run.lowest_loss for run in mine]),
                        excess=Spread.of([run.excess for run in mine]),
                        seconds=Spread.of([run.seconds for run in mine]),
                        seconds_to_best=Spread.of([run.seconds_to_best for run in mine]),
                        compile_seconds=Spread.of([run.compile_seconds for run in mine]),
                        published=CASES[experiment].published.get(method),
                    )
                )
    return rows


# The claim


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a method trained by gradients was ever better and earlier than another one in one experiment.

    Parameters
    ----------
    experiment : str
    method : str
        The method that the claim is made for.
    rival : str
        The method trained by gradients.
    n : int
        Number of runs that both have.
    difference : Spread
        Final loss of the rival minus that of the method, on the same data.
    reached : int
        Number of runs in which the rival came down to the method's loss at some epoch.
    times_as_long : float
        Median over those runs of its time until then, relative to the method's whole time; NaN if there are none.
    holds : bool
        Whether no epoch of the rival had a smaller mean loss at a smaller mean time.
    """

    experiment: str
    method: str
    rival: str
    n: int
    difference: Spread
    reached: int
    times_as_long: float
    holds: bool

    @property
    def final(self) -> str:
        """Which of the two has the smaller loss in the end."""
        if abs(self.difference.mean) <= CLEAR * self.difference.error or np.isnan(self.difference.error):
            return "not distinguishable"
        return f"{LABELS[self.rival if self.difference.mean < 0 else self.method]} is lower"


def verdicts(runs: Sequence[Run], method: str = "algorithm-2", rival: str = "adam") -> list[Verdict]:
    """The paper's claim, "in no experiment does Adam reach a smaller loss in a shorter time", row by row.

    The method's time is that of its whole training, because its best iteration is known only in hindsight. The rival's
    times do not include its compilation.
    """
    rows = []
    for experiment in order_of_experiments(runs):
        own = {run.run: run for run in runs if (run.experiment, run.method) == (experiment, method)}
        other = {run.run: run for run in runs if (run.experiment, run.method) == (experiment, rival)}
        pairs = [(own[number], other[number]) for number in sorted(own.keys() & other.keys())]
        if pairs:
            rows.append(_verdict(experiment, method, rival, pairs))
    return rows


def _verdict(experiment: str, method: str, rival: str, pairs: list[tuple[Run, Run]]) -> Verdict:
    ratios = []
    for mine, theirs in pairs:
        below = np.flatnonzero(theirs.curve_losses <= mine.loss)
        if len(below):
            ratios.append(float(theirs.curve_seconds[below[0]]) / mine.seconds)
    epochs = min(len(theirs.curve_losses) for _, theirs in pairs)
    losses = np.mean([theirs.curve_losses[:epochs] for _, theirs in pairs], axis=0)
    times = np.mean([theirs.curve_seconds[:epochs] for _, theirs in pairs], axis=0)
    loss, seconds = (np.mean([getattr(mine, name) for mine, _ in pairs]) for name in ("loss", "seconds"))
    return Verdict(
        experiment=experiment,
        method=method,
        rival=rival,
        n=len(pairs),
        difference=Spread.of([theirs.loss - mine.loss for mine, theirs in pairs]),
        reached=len(ratios),
        times_as_long=float(np.median(ratios)) if ratios else float("nan"),
        holds=not bool(((losses < loss) & (times < seconds)).any()),
    )


# As text


def results_table(rows: Sequence[Row], runs: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of the table of losses and times beside the published ones."""
    heads = [
        "experiment",
        "method",
        "runs",
        "expected",
        "loss",
        "published",
        "above the truth",
        "lowest at any epoch",
        "seconds, whole",
        "seconds to best",
        "published s",
        "compilation s",
    ]
    cells = []
    for row in rows:
        expected = np.mean([r.expected_loss for r in runs if r.experiment == row.experiment and r.method == TRUTH])
        cells.append(
            [
                row.experiment,
                row.label,
                str(row.loss.n),
                f"{expected:.4f}",
                row.loss.text(4),
                "" if row.published is None else f"{row.published.loss:.4f}",
                row.excess.text(4),
                f"{row.lowest_loss.mean:.4f}" if METHODS[row.method].needs_jax else "",
                row.seconds.text(_digits(row.seconds.mean)),
                row.seconds_to_best.text(_digits(row.seconds_to_best.mean)),
                "" if row.published is None else f"{row.published.seconds:g}",
                f"{row.compile_seconds.mean:.1f}" if METHODS[row.method].needs_jax else "",
            ]
        )
    return heads, cells


def verdict_table(claims: Sequence[Verdict]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of the table of the claim, a row for each experiment."""
    heads = [
        "experiment",
        "runs",
        "no smaller loss in a shorter time",
        "loss of the rival minus ours, at the end",
        "in the end",
        "runs that came down to our loss",
        "in how many times our time",
    ]
    return heads, [
        [
            v.experiment,
            str(v.n),
            "holds" if v.holds else "fails",
            v.difference.text(4),
            v.final,
            f"{v.reached} of {v.n}",
            "never" if np.isnan(v.times_as_long) else f"{v.times_as_long:.3g}",
        ]
        for v in claims
    ]


def short_table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of a table of results that fits on a terminal of eighty columns."""
    heads = ["exp.", "method", "loss", "paper", "− truth", "seconds", "paper"]
    return heads, [
        [
            row.experiment,
            row.method,
            row.loss.text(4),
            "" if row.published is None else f"{row.published.loss:.4f}",
            f"{row.excess.mean:+.4f}",
            f"{row.seconds.mean:.3g}",
            "" if row.published is None else f"{row.published.seconds:g}",
        ]
        for row in rows
    ]


def short_verdicts(claims: Sequence[Verdict]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of a table of the claim that fits on a terminal of eighty columns."""
    method, rival = LABELS[claims[0].method], LABELS[claims[0].rival]
    heads = ["exp.", "claim", f"{rival} − {method}", "came down to it", "in × its time"]
    _, cells = verdict_table(claims)
    return heads, [[row[0], row[2], row[3], row[5], row[6]] for row in cells]


def conclusion(claims: Sequence[Verdict]) -> str:
    """The claim in one sentence."""
    method, rival = LABELS[claims[0].method], LABELS[claims[0].rival]
    failing = [v.experiment for v in claims if not v.holds]
    if not failing:
        return (
            f"In none of {len(claims)} experiments does {rival} reach a smaller loss in a shorter time than {method}."
        )
    return (
        f"In {len(failing)} of {len(claims)} experiments ({', '.join(failing)}) {rival} reaches a smaller loss in a "
        f"shorter time than {method}."
    )


def as_markdown(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _digits(seconds: float) -> int:
    return 3 if seconds < 1 else 2 if seconds < 10 else 1
