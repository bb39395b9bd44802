"""`itofit reproduce`: the experiments of the paper."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from itofit._checks import InputError
from itofit.cli.app import INTERRUPTED, app, console, errors, explained
from itofit.experiments.catalogue import CASES
from itofit.experiments.methods import METHODS, MOST_SECONDS
from itofit.experiments.result_tables import rows_of, short_table, short_verdicts, verdicts
from itofit.experiments.results import Results
from itofit.experiments.runner import Done, Job, methods_of, missing, run_all
from itofit.experiments.story import claims

RUNS, QUICK_RUNS = 10, 2
LEFT_COLUMNS = 2


@app.command()
@explained
def reproduce(
    experiments: Annotated[
        list[str] | None, typer.Argument(help=f"Which of {', '.join(CASES)}; all of them if left out.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(help=f"Runs of each method, each on new data: {RUNS}, or {QUICK_RUNS} with --quick.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help=f"Comma-separated, of {', '.join(METHODS)}; each where it belongs if left out.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version of everything, in two minutes.")] = False,
    jobs: Annotated[int, typer.Option(help="Runs at the same time, each on its share of the cores.")] = 2,
    seed: Annotated[int, typer.Option(help="From which all data and trainings follow.")] = 0,
    seconds: Annotated[float, typer.Option(help="No epoch of a gradient training is started later.")] = MOST_SECONDS,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Directory of the results; finished runs in it are not repeated.")
    ] = Path("reproduction"),
) -> None:
    """Run the paper's experiments, and write tables, figures and one page that shows them.

    Interrupt it at any time: the same command goes on with what is missing.
    """
    names = [_known("experiment", name, CASES) for name in dict.fromkeys(experiments or CASES)]
    chosen = None if methods is None else _chosen(methods)
    n_runs = _at_least_one("--runs", (QUICK_RUNS if quick else RUNS) if runs is None else runs)
    _at_least_one("--jobs", jobs)
    if not seconds > 0:
        raise InputError(f"--seconds must be positive, got {seconds}")
    if seed < 0:
        raise InputError(f"--seed must be at least 0, got {seed}")
    _check_extras({method for name in names for method in methods_of(name, chosen)})
    results = Results.open(output, quick, seed)
    try:
        failed = _run(results, missing(results, names, chosen, n_runs, seed, seconds), jobs)
        _report(results, jobs, failed)
    except KeyboardInterrupt:
        errors.print("Interrupted. What is finished is kept: the same command goes on from here.")
        raise typer.Exit(INTERRUPTED) from None


# Arguments


def _chosen(text: str) -> list[str]:
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise InputError(f"--methods names none; known are {', '.join(METHODS)}")
    return [_known("method", name, METHODS) for name in dict.fromkeys(names)]


def _known(what: str, name: str, known: Iterable[str]) -> str:
    if name in known:
        return name
    close = difflib.get_close_matches(name, list(known), 1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise InputError(f"there is no {what} {name!r}{hint}; known are {', '.join(known)}")


def _at_least_one(option: str, value: int) -> int:
    if value < 1:
        raise InputError(f"{option} must be at least 1, got {value}")
    return value


def _check_extras(methods: Iterable[str]) -> None:
    """Raise if a package that the figures or the methods need is missing."""
    gradients = [name for name in METHODS if name in methods and METHODS[name].needs_jax]
    needed = [("matplotlib", "plot", "the figures")]
    needed += [(package, "adam", f"the methods {', '.join(gradients)}") for package in ("jax", "optax") if gradients]
    for package, extra, what in needed:
        if importlib.util.find_spec(package) is None:
            raise InputError(f'{what} need {package}, which is not installed: pip install "itofit[{extra}]"')


# Work


def _run(results: Results, work: Sequence[Job], n_jobs: int) -> list[Done]:
    """Do the jobs, with a line for each run that is under way; return those that failed."""
    total = sum(len(job.methods) for job in work)
    if not total:
        console.print("All runs are finished already.")
        return []
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    failed = []
    with Progress(*columns, console=errors, transient=True) as progress:
        everything = progress.add_task("trainings", total=total)
        lines: dict[str, TaskID] = {}

        def listen(message: tuple[str, str, int, int]) -> None:
            label, method, done, of = message
            if label not in lines:
                lines[label] = progress.add_task(label, total=of)
            progress.update(lines[label], description=f"  {label}: {method}", completed=done, total=of)

        for done in run_all(results, work, n_jobs, listen):
            progress.advance(everything)
            if done.error:
                failed.append(done)
            if done.job.label in lines and done.method in ("", done.job.methods[-1]):
                progress.remove_task(lines.pop(done.job.label))
    return failed


def _report(results: Results, n_jobs: int, failed: Sequence[Done]) -> None:
    from itofit.experiments.reproduce import write_report  # noqa: PLC0415  (drawing takes long to import)

    columns = (SpinnerColumn(), TextColumn("figures"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True) as progress:
        task = progress.add_task("figures", total=None)
        page = write_report(results, n_jobs, lambda done, of: progress.update(task, completed=done, total=of))
    runs = results.all()
    _print_table(*short_table(rows_of(runs)))
    verdict_rows = verdicts(runs)
    if verdict_rows:
        console.print('\nThe claim "in no experiment does Adam reach a smaller loss in a shorter time":')
        _print_table(*short_verdicts(verdict_rows))
        for line in claims(verdict_rows):
            console.print(line)
    console.print(f"\nEverything is in {results.directory}; open {page}", soft_wrap=True)
    for done in failed:
        errors.print(f"\n{done.job.label}, {done.method or 'before any method'} failed:\n{done.error}", markup=False)
    if failed:
        raise typer.Exit(1)


def _print_table(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold underline")
    for i, head in enumerate(heads):
        table.add_column(head, justify="left" if i < LEFT_COLUMNS else "right", no_wrap=True)
    before = ""
    for row in cells:
        table.add_row(row[0] if row[0] != before else "", *row[1:])
        before = row[0]
    console.print(table)
