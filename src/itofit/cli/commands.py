"""Commands for one's own data: `itofit fit`, `info`, `check`, `report` and `simulate`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Literal

import numpy as np
import typer

import itofit
from itofit._checks import InputError, message_of, printable
from itofit.cli.app import app, explained, print_aside, print_json, print_text
from itofit.cli.arguments import (
    MODELS,
    TABLES,
    Decimal,
    Files,
    Force,
    Json,
    Model,
    Seed,
    Svg,
    check_installed,
    check_writable,
    equation_in,
    model_in,
    writing,
)
from itofit.cli.columns import Columns, title_of
from itofit.cli.formula_command import formula_facts
from itofit.cli.held_out import hold_out
from itofit.cli.machines import Machines
from itofit.cli.option_groups import with_option_groups
from itofit.cli.outside import drive_from
from itofit.cli.words import word, worded
from itofit.data.periods import is_periodic
from itofit.looking.check.examined import without_longer
from itofit.model.learned import LearnedSDE
from itofit.model.storage import PAGES, write_whole

BAD_FINDING = 1
"""Exit code of `itofit check` if a finding is bad."""
STANDARD_OUTPUT = Path("-")
"""The --output of `itofit simulate` that prints the table."""


class Structure(StrEnum):
    """Values of --structure."""

    auto, full, diagonal = "auto", "full", "diagonal"


class Link(StrEnum):
    """Values of --link."""

    auto, identity, square, log = "auto", "identity", "square", "log"


class Scheme(StrEnum):
    """Values of --scheme."""

    euler, corrected = "euler", "corrected"


@app.command()
@explained
@with_option_groups
def fit(
    files: Files,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the model goes, a .npz file.")],
    columns: Columns,
    machines: Machines,
    structure: Annotated[Structure, typer.Option(help="Off-diagonal noise or not.")] = Structure.auto,
    link: Annotated[Link, typer.Option(help="How the covariance is built.")] = Link.auto,
    correct_step: Annotated[
        bool | None,
        typer.Option(
            "--correct-step/--no-correct-step",
            help="Undo what the length of the steps makes of drift and covariance, or not; where the data show it if "
            "left out.",
        ),
    ] = None,
    keep_long_steps: Annotated[
        bool,
        typer.Option("--keep-long-steps", help="Learn also from steps that are too long; see --max-step."),
    ] = False,
    measurement_noise: Annotated[
        str,
        typer.Option(
            help="Errors of measurement in tracks: auto, none, or the standard deviation of one observation.",
            metavar="SD",
        ),
    ] = "auto",
    ensemble: Annotated[int | None, typer.Option(min=2, help="Learn so many times, for better error bars.")] = None,
    bootstrap: Annotated[
        int | None,
        typer.Option(min=10, help="Learn from so many draws of the tracks, for error bars from how they differ."),
    ] = None,
    held_out: Annotated[
        float, typer.Option(help="Share of the data, whole tracks if there are many, that judges the result.")
    ] = 0.1,
    seed: Seed = 0,
    report: Annotated[Path | None, typer.Option(help="Write a page that shows the result, a .html file.")] = None,
    svg: Svg = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Learn drift and noise from files of observations, judge them on held-out data, and save them."""
    check_writable("--output", output, *map(Path, files), suffixes=MODELS, force=force)
    if report is not None:
        check_writable("--report", report, *map(Path, files), output, suffixes=PAGES, force=force)
        check_installed("matplotlib", "plot", "--report")
    if not 0 <= held_out < 1:
        raise InputError(f"--held-out must be at least 0 and less than 1, got {held_out:g}")
    noise = _noise_option(measurement_noise)
    with machines.client() as client:
        started = perf_counter()
        data = columns.read(files, client)
        train, rest = hold_out(data, held_out, seed)
        data_read = perf_counter()
        try:
            sde = itofit.fit(
                train,
                structure=structure.value,
                link=link.value,
                ensemble=ensemble,
                bootstrap=bootstrap,
                correct_step="auto" if correct_step is None else correct_step,
                max_h=None if keep_long_steps else "auto",
                measurement_noise=noise,
                rng=seed,
                client=client,
            )
        except InputError as error:
            raise InputError(worded(message_of(error), data)) from None
        learned = perf_counter()
        with writing(output):
            sde.save(output)
        judging = train if rest is None else rest
        diagnosis = itofit.check(sde, judging)
        held_out_data = None if rest is None else without_longer(sde, rest)
        loss = None if held_out_data is None else sde.nll(held_out_data)
        checked = perf_counter()
        if report is not None:
            from itofit.looking.report.found_formula import formula_for  # noqa: PLC0415  (few ask for it)

            with writing(report):
                found: Any = formula_for(sde, train, held_out_data)  # the page also says why there is none
                itofit.report(
                    sde,
                    judging,
                    report,
                    title=title_of(files),
                    saved_as=output,
                    formula=found,
                    figures="svg" if svg else "png",
                )
        n_held_out = 0 if held_out_data is None else len(held_out_data)
    if as_json:
        content = _facts(sde) | {"file": str(output), "check": diagnosis.as_dict(), "held_out_loss": loss}
        seconds = {"reading": data_read - started, "learning": learned - data_read, "checking": checked - learned}
        print_json(content | {"seconds": seconds})
        return
    print_text(sde.summary())
    print_text(f"\n{diagnosis.text(word)}\n")
    if held_out_data is not None:
        print_text(f"loss on {n_held_out:,} held-out transitions: {loss:.4f}")
    print_text(f"saved as {output}; load it with itofit.load({str(output)!r})")
    if report is not None:
        print_text(f"report: {report}")


@app.command()
@explained
def info(model: Model, as_json: Json = False) -> None:
    """Say what a model holds and how it was learned."""
    sde = equation_in(model)
    if isinstance(sde, itofit.Formula):
        if as_json:
            print_json(formula_facts(sde))
        else:
            print_text(str(sde))
        return
    if as_json:
        print_json(_facts(sde))
    else:
        print_text(sde.summary())


@app.command()
@explained
@with_option_groups
def check(model: Model, files: Files, columns: Columns, machines: Machines, as_json: Json = False) -> None:
    """Examine a model on data: residuals, memory, step length, coverage. Exits with 1 if something is bad."""
    sde = equation_in(model)
    with machines.client() as client:
        diagnosis = itofit.check(sde, columns.read(files, client))
    if as_json:
        print_json(diagnosis.as_dict())
    else:
        print_text(diagnosis.text(word))
    if diagnosis.worst == "bad":
        raise typer.Exit(BAD_FINDING)


@app.command()
@explained
@with_option_groups
def report(
    model: Model,
    files: Files,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the page goes, a .html file.")],
    columns: Columns,
    machines: Machines,
    svg: Svg = False,
    force: Force = False,
) -> None:
    """Write a page that shows what was learned and how far to trust it on some data."""
    check_writable("--output", output, model, *map(Path, files), suffixes=PAGES, force=force)
    check_installed("matplotlib", "plot", "itofit report")
    sde = model_in(model)
    with machines.client() as client:
        data = columns.read(files, client)
        with writing(output):
            itofit.report(sde, data, output, title=model.stem, saved_as=model, figures="svg" if svg else "png")
    print_aside(f"report: {output}")


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
    covariates: Annotated[
        str | None,
        typer.Option(help="What drives the equation: constants as in dose=1, or a table with a row for each step."),
    ] = None,
    decimal: Decimal = ".",
    scheme: Annotated[
        Scheme | None,
        typer.Option(help="Steps of Euler and Maruyama, or corrected for their length; the model's own if left out."),
    ] = None,
    observed: Annotated[
        bool, typer.Option("--observed", help="Add errors of measurement as the data had them.")
    ] = False,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Simulate paths of a learned equation into a table with the columns track, time and those of the state."""
    if output != STANDARD_OUTPUT:
        if output.suffix.lower() not in TABLES:
            raise InputError(f"--output must end in .csv or .parquet, or be -, got {output.name}")
        check_writable("--output", output, model, force=force)
    as_parquet = output.suffix.lower() == ".parquet"
    if as_parquet:
        check_installed("pyarrow", "data", "writing .parquet files")
    sde = equation_in(model)
    x0 = np.repeat([_start_values(start, sde)], paths, axis=0)
    chosen: Literal["euler", "corrected"] | None = None if scheme is None else scheme.value
    drive = drive_from(covariates, sde, steps, decimal)
    if drive is None and sde.n_covariates:
        names = ", ".join(sde.covariate_names)
        raise InputError(f"this equation is driven by {names}: give --covariates, a table with these columns")
    frame = sde.simulate(x0, dt, steps, covariates=drive, scheme=chosen, observed=observed, rng=seed, as_frame=True)
    if output == STANDARD_OUTPUT:
        if sys.stdout.isatty():  # which names must not steer
            frame.columns = [printable(name) for name in frame.columns]
        frame.to_csv(sys.stdout, index=False)
        return
    with writing(output):
        write_whole(output, frame.to_parquet(index=False) if as_parquet else frame.to_csv(index=False))
    print_aside(f"{len(frame):,} rows in {output}")


def _noise_option(text: str) -> Literal["auto", False] | float:
    """The value of --measurement-noise."""
    if text == "auto":
        return "auto"
    if text == "none":
        return False
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < float("inf"):
        raise InputError(f"--measurement-noise must be auto, none or a standard deviation > 0, got {text!r}")
    return value


def _start_values(text: str, sde: LearnedSDE | itofit.Formula) -> list[float]:
    """The values of --start, one for each variable of the state."""
    names = sde.state_names
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) != len(names) or not np.isfinite(values).all():
        expected = "a finite number" if len(names) == 1 else f"{len(names)} finite numbers separated by commas"
        raise InputError(f"--start must be {expected}, for {', '.join(names)}, got {text!r}")
    return values


def _facts(sde: LearnedSDE) -> dict[str, Any]:
    """What a model is and how it was learned, for machines."""
    return {
        "itofit": sde.version,
        "kind": sde.kind,
        "inputs": list(sde.input_names),
        "outputs": list(sde.output_names),
        "covariates": list(sde.covariate_names),
        "periods": {
            name: sde.periods[:, place].tolist()
            for place, name in enumerate(sde.input_names)
            if is_periodic(sde.periods)[place]
        },
        "units": sde.units.as_dict(),
        "structure": sde.structure,
        "link": sde.link,
        "box": sde.box.tolist(),
        "transitions": sde.data.n_transitions,
        "h_mean": sde.data.h_mean,
        "left_out": 0 if sde.data.left_out is None else sde.data.left_out.n,
        "scheme": sde.scheme,
        "measurement_noise": None if sde.measurement_noise is None else sde.measurement_noise.covariance.tolist(),
        "seed": sde.seed,
        "members": len(sde.members),
    }
