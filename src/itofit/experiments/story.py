"""Sentences about the results, computed from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from itofit.experiments.catalogue import CASES
from itofit.experiments.methods import LABELS
from itofit.experiments.result_tables import CLEAR, Row, Spread, Verdict, conclusion, order_of_experiments
from itofit.experiments.results import Run


def agreement(rows: Sequence[Row]) -> list[str]:
    """How many losses of Algorithm 2 agree with the published ones."""
    compared = [row for row in rows if row.method == "algorithm-2" and row.agreement]
    if not compared:
        return []
    lines = [f"experiment {row.experiment}: {row.agreement}" for row in compared]
    agreeing = sum(row.agreement.startswith("agrees") for row in compared)
    return [
        f"Of {len(compared)} mean losses of Algorithm 2 with the paper's settings, {agreeing} agree with the published "
        "ones within two standard errors, if each of the published ten runs had data of its own; if they shared one "
        "data set, the published means are uncertain by three times as much.",
        "In detail: " + "; ".join(lines) + ".",
    ]


def speed(rows: Sequence[Row]) -> list[str]:
    """How training times compare with the published ones."""
    ratios = {
        row.experiment: row.published.seconds / row.seconds.mean
        for row in rows
        if row.method == "algorithm-2" and row.published is not None
    }
    if not ratios:
        return []
    slowest, fastest = min(ratios, key=lambda name: ratios[name]), max(ratios, key=lambda name: ratios[name])
    return [
        f"Algorithm 2 took between {ratios[slowest]:.0f} times (experiment {slowest}) and {ratios[fastest]:,.0f} times "
        f"(experiment {fastest}) less time than published, on another machine; the published times end at the best "
        "network, these are whole ones."
    ]


def paired(runs: Sequence[Run], method: str, other: str) -> dict[str, Spread]:
    """Loss of a method minus that of another on the same data, by experiment."""
    differences = {}
    for experiment in order_of_experiments(runs):
        losses = {(run.method, run.run): run.loss for run in runs if run.experiment == experiment}
        numbers = [n for name, n in losses if name == method and (other, n) in losses]
        if numbers:
            differences[experiment] = Spread.of([losses[method, n] - losses[other, n] for n in numbers])
    return differences


def comparison(runs: Sequence[Run], method: str, other: str) -> list[str]:
    """In which experiments a method has a lower loss than another on the same data, and in which a higher one."""
    differences = paired(runs, method, other)
    if not differences:
        return []
    where: dict[str, list[str]] = {"lower": [], "higher": [], "not distinguishable": []}
    for experiment, spread in differences.items():
        clear = abs(spread.mean) > CLEAR * spread.error
        what = "not distinguishable" if not clear else "lower" if spread.mean < 0 else "higher"
        where[what].append(f"{experiment} ({spread.mean:+.4f})")
    parts = [f"{what} in {', '.join(names)}" for what, names in where.items() if names]
    return [f"{LABELS[method]} against {LABELS[other]}, loss on the same data: {'; '.join(parts)}."]


def claims(verdicts: Sequence[Verdict]) -> list[str]:
    """Whether the claim about Adam holds, and how the losses compare after more time."""
    if not verdicts:
        return []
    better = [v.experiment for v in verdicts if v.difference.mean < -CLEAR * v.difference.error]
    never = [v.experiment for v in verdicts if v.reached == 0]
    lines = [conclusion(verdicts)]
    if better:
        lines.append(f"Given more time it ends lower in {', '.join(better)}.")
    if never:
        lines.append(f"In {', '.join(never)} it never comes down to the same loss in any run.")
    return lines


def hybrid(runs: Sequence[Run]) -> list[str]:
    """Losses of the hybrids against those of the other methods, and their training times."""
    lines = []
    for experiment in order_of_experiments(runs):
        for method in ("hybrid", "hybrid-deep"):
            mine = [run for run in runs if (run.experiment, run.method) == (experiment, method)]
            if not mine:
                continue
            against = [
                f"{spread[experiment].text(4)} against {LABELS[other]}"
                for other in ("algorithm-2", "default", "adam")
                if experiment in (spread := paired(runs, method, other))
            ]
            lines.append(
                f"Experiment {experiment}, {LABELS[method].lower()}: loss {', '.join(against)}, on the same data, "
                f"after {np.mean([run.seconds_to_best for run in mine]):.2g} seconds on average."
            )
    return lines


def remarks(runs: Sequence[Run]) -> dict[str, str]:
    """The remarks on the experiments, by name."""
    return {name: CASES[name].remark for name in order_of_experiments(runs)}
