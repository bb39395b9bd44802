"""Commands for one's own data: `itofit fit`, `info`, `check`, `report` and `simulate`."""

from __future__ import annotations

import csv
import errno
import importlib.util
import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Literal

import numpy as np
import typer

import itofit
from itofit._checks import InputError
from itofit._progress import Progress
from itofit.cli.app import app, console, errors, explained
from itofit.cli.split import Data, split
from itofit.cli.words import named, spoken
from itofit.data.blocked import BlockedTransitions
from itofit.model.learned import LearnedSDE
from itofit.model.storage import checked_target, write_whole

FOUND_BAD = 1
"""Exit code of `itofit check` if a finding is bad."""
PRINTED = Path("-")
"""The output of `itofit simulate` that is printed."""


class Structure(StrEnum):
    """Of the covariance."""

    auto, full, diagonal = "auto", "full", "diagonal"


class Link(StrEnum):
    """Of the covariance."""

    auto, identity, square, log = "auto", "identity", "square", "log"


class Scheme(StrEnum):
    """Of simulated steps."""

    euler, corrected = "euler", "corrected"


File = Annotated[Path, typer.Argument(help="Data: .csv, .tsv (also .gz), .parquet or .npz.", metavar="FILE")]
Model = Annotated[Path, typer.Argument(help="A model that itofit saved.", metavar="MODEL")]
Time = Annotated[str | None, typer.Option(help="Column of times; one called time or t if left out.")]
State = Annotated[
    str | None,
    typer.Option(help='Columns of the variables, comma-separated ("a,b" in quotes is one); all numbers if left out.'),
]
Track = Annotated[str | None, typer.Option(help="Column that tells tracks apart; one called track if left out.")]
Velocity = Annotated[str | None, typer.Option(help="Columns of velocities, one for each of --state.")]
Dt = Annotated[float | None, typer.Option("--dt", help="Time between rows, if there is no column of times.")]
Unit = Annotated[str | None, typer.Option(help="Of time, if times are dates: ns, us, ms, s, min, h, D or W.")]
MinStep = Annotated[float | None, typer.Option(help="Leave out moves that took less time.")]
MaxStep = Annotated[float | None, typer.Option(help="Leave out moves that took more time, over breaks, say.")]
Json = Annotated[bool, typer.Option("--json", help="Print for machines.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")]


@app.command()
@explained
def fit(
    file: File,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the model goes, a .npz file.")],
    time: Time = None,
    state: State = None,
    track: Track = None,
    velocity: Velocity = None,
    dt: Dt = None,
    unit: Unit = None,
    min_step: MinStep = None,
    max_step: MaxStep = None,
    structure: Annotated[Structure, typer.Option(help="Off-diagonal noise or not.")] = Structure.auto,
    link: Annotated[Link, typer.Option(help="How the covariance is built.")] = Link.auto,
    correct_step: Annotated[
        bool, typer.Option("--correct-step", help="Undo what the length of the steps makes of drift and covariance.")
    ] = False,
    ensemble: Annotated[int | None, typer.Option(min=2, help="Learn so many times, for better error bars.")] = None,
    held_out: Annotated[
        float, typer.Option(help="Share of the data, whole tracks if there are many, that judges the result.")
    ] = 0.1,
    seed: Seed = 0,
    report: Annotated[Path | None, typer.Option(help="Write a page that shows the result, a .html file.")] = None,
    as_json: Json = False,
) -> None:
    """Learn drift and noise from a file of observations, judge them on held-out data, and save them."""
    _check_writable("--output", output, file)
    if report is not None:
        _check_writable("--report", report, file, output)
        _check_installed("matplotlib", "plot", "--report")
    if not 0 <= held_out < 1:
        raise InputError(f"--held-out must be at least 0 and less than 1, got {held_out:g}")
    began = perf_counter()
    data = _read(file, time, state, track, velocity, dt, unit, min_step, max_step)
    train, rest = split(data, held_out, seed)
    read = perf_counter()
    try:
        sde = itofit.fit(
            train,
            structure=structure.value,
            link=link.value,
            ensemble=ensemble,
            correct_step=correct_step,
            rng=seed,
        )
    except InputError as error:
        raise InputError(named(str(error), data.input_names, data.output_names)) from None
    learned = perf_counter()
    with _writing(output):
        sde.save(output)
    judging = train if rest is None else rest
    diagnosis = itofit.check(sde, judging)
    loss = None if rest is None else sde.nll(rest)
    checked = perf_counter()
    if report is not None:
        with _writing(report):
            itofit.report(sde, judging, report, title=file.stem, saved_as=output)
    if as_json:
        told = _described(sde) | {"file": str(output), "check": diagnosis.as_dict(), "held_out_loss": loss}
        told["seconds"] = {"reading": read - began, "learning": learned - read, "checking": checked - learned}
        print_json(told)
        return
    print_text(sde.summary())
    print_text(spoken(f"\n{diagnosis}\n"))
    if rest is not None:
        print_text(f"loss on {len(rest):,} held-out transitions: {loss:.4f}")
    print_text(f"saved as {output}; load it with itofit.load({str(output)!r})")
    if report is not None:
        print_text(f"report: {report}")


@app.command()
@explained
def info(model: Model, as_json: Json = False) -> None:
    """Say what a model holds and how it was learned."""
    sde = itofit.load(model)
    if as_json:
        print_json(_described(sde))
    else:
        print_text(sde.summary())


@app.command()
@explained
def check(
    model: Model,
    file: File,
    time: Time = None,
    state: State = None,
    track: Track = None,
    velocity: Velocity = None,
    dt: Dt = None,
    unit: Unit = None,
    min_step: MinStep = None,
    max_step: MaxStep = None,
    as_json: Json = False,
) -> None:
    """Examine a model on data: residuals, memory, step length, coverage. Exits with 1 if something is bad."""
    sde = itofit.load(model)
    diagnosis = itofit.check(sde, _read(file, time, state, track, velocity, dt, unit, min_step, max_step))
    if as_json:
        print_json(diagnosis.as_dict())
    else:
        print_text(spoken(str(diagnosis)))
    if diagnosis.worst == "bad":
        raise typer.Exit(FOUND_BAD)


@app.command()
@explained
def report(
    model: Model,
    file: File,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the page goes, a .html file.")],
    time: Time = None,
    state: State = None,
    track: Track = None,
    velocity: Velocity = None,
    dt: Dt = None,
    unit: Unit = None,
    min_step: MinStep = None,
    max_step: MaxStep = None,
) -> None:
    """Write a page that shows what was learned and how far to trust it on some data."""
    _check_writable("--output", output, model, file)
    _check_installed("matplotlib", "plot", "itofit report")
    sde = itofit.load(model)
    data = _read(file, time, state, track, velocity, dt, unit, min_step, max_step)
    with _writing(output):
        itofit.report(sde, data, output, title=model.stem, saved_as=model)
    errors.print(f"report: {output}", markup=False, soft_wrap=True)


@app.command()
@explained
def simulate(
    model: Model,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A .csv or .parquet file, or - to print the table as CSV.")
    ],
    start: Annotated[str, typer.Option(help="Values of the state where all paths start, comma-separated.")],
    dt: Annotated[float, typer.Option("--dt", help="Time step.")],
    steps: Annotated[int, typer.Option(min=1, help="Number of steps.")] = 1000,
    paths: Annotated[int, typer.Option(min=1, help="Number of paths.")] = 1,
    scheme: Annotated[
        Scheme | None,
        typer.Option(help="Steps of Euler and Maruyama, or corrected for their length; the model's own if left out."),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Simulate paths of a learned equation into a table with the columns track, time and those of the state."""
    if output != PRINTED:
        if output.suffix.lower() not in (".csv", ".parquet"):
            raise InputError(f"--output must end in .csv or .parquet, or be -, got {output.name}")
        _check_writable("--output", output, model)
    as_parquet = output.suffix.lower() == ".parquet"
    if as_parquet:
        _check_installed("pyarrow", "data", "writing .parquet files")
    sde = itofit.load(model)
    x0 = np.repeat([_start(start, sde)], paths, axis=0)
    chosen: Literal["euler", "corrected"] | None = None if scheme is None else scheme.value
    frame = sde.simulate(x0, dt, steps, scheme=chosen, rng=seed, as_frame=True)
    if output == PRINTED:
        frame.to_csv(sys.stdout, index=False)
        return
    with _writing(output):
        write_whole(output, frame.to_parquet(index=False) if as_parquet else frame.to_csv(index=False))
    errors.print(f"{len(frame):,} rows in {output}", markup=False, soft_wrap=True)


# Arguments


def _read(
    file: Path,
    time: str | None,
    state: str | None,
    track: str | None,
    velocity: str | None,
    dt: float | None,
    unit: str | None,
    min_step: float | None,
    max_step: float | None,
) -> Data:
    data = itofit.read_transitions(
        file,
        time=None if time is None else time.strip(),
        state=_listed(state),
        track=_listed(track),
        velocity=_listed(velocity),
        dt=dt,
        unit=unit,
        min_h=min_step,
        max_h=max_step,
    )
    if state is None and velocity is None and len(data.input_names) > 1 and file.suffix != ".npz":
        names = ", ".join(data.input_names)
        errors.print(f"note: variables are {names}; choose others with --state", markup=False, soft_wrap=True)
    if isinstance(data, BlockedTransitions):  # the first pass, which counts them, and may take a while
        n = 0
        with Progress(None) as bar:
            for block in data.blocks():
                n += len(block)
                bar.show("reading", f"{n:,} transitions")
    return data


def _listed(names: str | None) -> list[str] | None:
    """Names separated by commas, as in a line of a CSV file: one with a comma is quoted."""
    if names is None:
        return None
    return [name.strip() for name in next(csv.reader([names], skipinitialspace=True), []) if name.strip()]


def _start(text: str, sde: LearnedSDE) -> list[float]:
    names = sde.input_names
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) != len(names) or not np.isfinite(values).all():
        one = "a finite number" if len(names) == 1 else f"{len(names)} finite numbers separated by commas"
        raise InputError(f"--start must be {one}, for {', '.join(names)}, got {text!r}")
    return values


def _check_writable(option: str, path: Path, *others: Path) -> None:
    """Raise before any work if a file cannot be written, or would replace another that the command needs."""
    target = checked_target(path)
    if target.exists() and not target.is_file():
        raise InputError(f"{option}: {path} is not a file that could be replaced")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, f"cannot write there: {os.strerror(errno.EACCES)}", str(path))
    for other in others:
        if target == Path(os.path.realpath(other)):
            raise InputError(f"{option}: {path} is needed for something else; give another name")


def _check_installed(package: str, extra: str, what: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise InputError(f'{what} needs {package}, which is not installed: pip install "itofit[{extra}]"')


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Errors of the operating system that name the file that is written, and not a temporary one."""
    try:
        yield
    except OSError as error:
        if error.errno is None or not str(error.filename or ".partial").endswith(".partial"):
            raise
        raise OSError(error.errno, f"{os.strerror(error.errno)}; nothing was written", str(path)) from error


# What is printed


def _described(sde: LearnedSDE) -> dict[str, Any]:
    return {
        "itofit": sde.version,
        "kind": sde.kind,
        "inputs": list(sde.input_names),
        "outputs": list(sde.output_names),
        "structure": sde.structure,
        "link": sde.link,
        "box": sde.box.tolist(),
        "transitions": sde.data.n_transitions,
        "h_mean": sde.data.h_mean,
        "seed": sde.seed,
        "members": len(sde.members),
    }


def print_json(content: dict[str, Any]) -> None:
    """Print what a machine can read."""
    console.print_json(json.dumps(_with_nulls(content), allow_nan=False), ensure_ascii=False)


def _with_nulls(content: Any) -> Any:  # noqa: ANN401
    """What is no number as null: JSON has no NaN."""
    if isinstance(content, dict):
        return {str(name): _with_nulls(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_with_nulls(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def print_text(text: str) -> None:
    """Print text as it is."""
    console.print(text, markup=False, soft_wrap=True)
