"""Commands for one's own data: `itofit fit`, `info`, `check`, `report` and `simulate`."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import itofit
from itofit._checks import InputError
from itofit.cli.app import app, console, errors, explained
from itofit.sde import LearnedSDE
from itofit.storage import checked_target, write_whole
from itofit.transitions import BlockedTransitions, Transitions

Data = Transitions | BlockedTransitions

FOUND_BAD = 1
"""Exit code of `itofit check` if a finding is bad."""


class Structure(StrEnum):
    """Of the covariance."""

    auto, full, diagonal = "auto", "full", "diagonal"


class Link(StrEnum):
    """Of the covariance."""

    auto, identity, square, log = "auto", "identity", "square", "log"


File = Annotated[Path, typer.Argument(help="Data: .csv, .tsv (also .gz), .parquet or .npz.", metavar="FILE")]
Model = Annotated[Path, typer.Argument(help="A model that itofit saved.", metavar="MODEL")]
Time = Annotated[str | None, typer.Option(help="Column of times; one called time or t if left out.")]
State = Annotated[str | None, typer.Option(help="Columns of the variables, comma-separated; all numbers if left out.")]
Track = Annotated[str | None, typer.Option(help="Column that tells tracks apart; one called track if left out.")]
Velocity = Annotated[str | None, typer.Option(help="Columns of velocities, one for each of --state.")]
Dt = Annotated[float | None, typer.Option("--dt", help="Time between rows, if there is no column of times.")]
Unit = Annotated[str | None, typer.Option(help="Of time, if times are dates: ns, us, ms, s, min, h, D or W.")]
Json = Annotated[bool, typer.Option("--json", help="Print for machines.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same result.")]


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
    structure: Annotated[Structure, typer.Option(help="Off-diagonal noise or not.")] = Structure.auto,
    link: Annotated[Link, typer.Option(help="How the covariance is built.")] = Link.auto,
    ensemble: Annotated[int | None, typer.Option(help="Learn so many times, for better error bars.")] = None,
    held_out: Annotated[
        float, typer.Option(help="Share of the data, whole tracks if there are several, that judges the result.")
    ] = 0.1,
    seed: Seed = 0,
    report: Annotated[Path | None, typer.Option(help="Write a page that shows the result, a .html file.")] = None,
    as_json: Json = False,
) -> None:
    """Learn drift and noise from a file of observations, judge them on held-out data, and save them."""
    checked_target(output)
    if report is not None:
        checked_target(report)
    data = _read(file, time, state, track, velocity, dt, unit)
    train, rest = _split(data, held_out, seed)
    sde = itofit.fit(train, structure=structure.value, link=link.value, ensemble=ensemble, rng=seed)
    sde.save(output)
    judging = train if rest is None else rest
    diagnosis = itofit.check(sde, judging)
    if report is not None:
        itofit.report(sde, judging, report, title=file.stem)
    if as_json:
        told = _described(sde) | {"file": str(output), "check": diagnosis.as_dict()}
        told["held_out_loss"] = None if rest is None else sde.nll(rest)
        print_json(told)
        return
    print_text(sde.summary())
    print_text(f"\n{diagnosis}\n")
    if rest is not None:
        print_text(f"loss on {len(rest):,} held-out transitions: {sde.nll(rest):.4f}")
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
    as_json: Json = False,
) -> None:
    """Examine a model on data: residuals, memory, step length, coverage. Exits with 1 if something is bad."""
    sde = itofit.load(model)
    diagnosis = itofit.check(sde, _read(file, time, state, track, velocity, dt, unit))
    if as_json:
        print_json(diagnosis.as_dict())
    else:
        print_text(str(diagnosis))
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
) -> None:
    """Write a page that shows what was learned and how far to trust it on some data."""
    checked_target(output)
    sde = itofit.load(model)
    itofit.report(sde, _read(file, time, state, track, velocity, dt, unit), output, title=model.stem)
    errors.print(f"report: {output}", markup=False)


@app.command()
@explained
def simulate(
    model: Model,
    output: Annotated[Path, typer.Option("--output", "-o", help="A .csv or .parquet file.")],
    start: Annotated[str, typer.Option(help="Values of the state where all paths start, comma-separated.")],
    dt: Annotated[float, typer.Option("--dt", help="Time step.")],
    steps: Annotated[int, typer.Option(help="Number of steps.")] = 1000,
    paths: Annotated[int, typer.Option(help="Number of paths.")] = 1,
    seed: Seed = 0,
) -> None:
    """Simulate paths of a learned equation into a table with the columns track, time and those of the state."""
    if output.suffix not in (".csv", ".parquet"):
        raise InputError(f"--output must end in .csv or .parquet, got {output.name}")
    if paths < 1:
        raise InputError(f"--paths must be at least 1, got {paths}")
    checked_target(output)
    sde = itofit.load(model)
    x0 = np.repeat([_numbers("--start", start)], paths, axis=0)
    frame = sde.simulate(x0, dt, steps, rng=seed, as_frame=True)
    if output.suffix == ".csv":
        write_whole(output, frame.to_csv(index=False))
    else:
        write_whole(output, frame.to_parquet(index=False))
    errors.print(f"{len(frame):,} rows in {output}", markup=False)


# Arguments


def _read(
    file: Path,
    time: str | None,
    state: str | None,
    track: str | None,
    velocity: str | None,
    dt: float | None,
    unit: str | None,
) -> Data:
    return itofit.read_transitions(
        file, time=time, state=_listed(state), track=_listed(track), velocity=_listed(velocity), dt=dt, unit=unit
    )


def _listed(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",")]


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} must be numbers separated by commas, got {text!r}") from None


def _split(data: Data, share: float, seed: int) -> tuple[Data, Data | None]:
    """Data to learn from, and data that judge; whole tracks if there are enough of them."""
    if share == 0:
        return data, None
    if isinstance(data, BlockedTransitions):
        return data.split(share, rng=seed)
    several = data.groups is not None and len(np.unique(data.groups)) >= 2 / min(share, 1 - share)
    return data.split(share, by="groups" if several else "rows", rng=seed)


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
    console.print_json(json.dumps(content))


def print_text(text: str) -> None:
    """Print text as it is."""
    console.print(text, markup=False, soft_wrap=True)
