"""From finished runs to tables, figures and one page."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from itofit.experiments import figures
from itofit.experiments.catalogue import CASES
from itofit.experiments.methods import LABELS
from itofit.experiments.processes import end_with_parent
from itofit.experiments.reproduction_page import write_page
from itofit.experiments.result_tables import (
    as_markdown,
    order_of_experiments,
    results_table,
    rows_of,
    verdict_table,
    verdicts,
)
from itofit.experiments.results import Results, Run, write_tidy
from itofit.model.storage import write_whole

SHOWN = ("algorithm-2", "adam", "default")
"""Methods whose functions and paths are drawn."""


def write_report(results: Results, n_jobs: int, listen: Callable[[int, int], None]) -> Path:
    """Write the tidy tables, the table of results, all figures, and the page; returns the page's path.

    Parameters
    ----------
    results : Results
    n_jobs : int
        Processes that draw.
    listen : callable
        listen(done, of) after each experiment's figures.
    """
    runs = results.all()
    write_tidy(runs, results.directory)
    claims = verdicts(runs)
    tables = [as_markdown(*results_table(rows_of(runs), runs))]
    if claims:
        tables.append(as_markdown(*verdict_table(claims)))
    write_whole(results.directory / "results.md", "\n".join(tables))
    drawn = _draw_all(results, order_of_experiments(runs), n_jobs, listen)
    page = results.directory / "index.html"
    write_whole(page, write_page(runs, drawn, results.quick))
    return page


def _draw_all(
    results: Results, experiments: Sequence[str], n_jobs: int, listen: Callable[[int, int], None]
) -> dict[tuple[str, str], Path]:
    drawn: dict[tuple[str, str], Path] = {}
    draw = partial(draw_experiment, results)
    if n_jobs == 1 or len(experiments) == 1:
        for done, name in enumerate(experiments, 1):
            drawn |= draw(name)
            listen(done, len(experiments))
        return drawn
    with multiprocessing.get_context("spawn").Pool(n_jobs, end_with_parent) as pool:
        for done, part in enumerate(pool.imap(draw, experiments), 1):
            drawn |= part
            listen(done, len(experiments))
    return drawn


def draw_experiment(results: Results, name: str) -> dict[tuple[str, str], Path]:
    """Draw the figures of one experiment as PNG and SVG; returns the PNG files by experiment and kind."""
    case, runs = CASES[name], results.all(name)
    folder = results.directory / "figures"
    folder.mkdir(exist_ok=True)
    pictures = {
        "loss": figures.loss_against_time(case, runs, LABELS),
        "functions": figures.true_against_trained(case, runs, LABELS, SHOWN),
    }
    if _has_paths(runs):
        pictures["paths"] = figures.trajectory_distributions(case, runs, LABELS, SHOWN)
    files = {}
    for kind, picture in pictures.items():
        path = folder / f"{name}-{kind}"
        figures.save(picture, path)
        files[name, kind] = path.with_name(f"{path.name}.png")
    return files


def _has_paths(runs: Sequence[Run]) -> bool:
    return any(run.histogram.size and run.method in SHOWN for run in runs)
