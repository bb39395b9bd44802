"""The command `itofit compare`: two conditions, each with its model and its data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import itofit
from itofit._checks import InputError
from itofit.cli.app import app, explained, print_aside, print_json, print_text
from itofit.cli.arguments import Force, Json, Seed, check_picture, model_in, writing
from itofit.cli.columns import Columns
from itofit.cli.option_groups import with_option_groups
from itofit.looking.plot.canvas import style
from itofit.model.storage import write_whole


@app.command()
@explained
@with_option_groups
def compare(
    first: Annotated[Path, typer.Argument(help="The model of one condition.", metavar="MODEL_A")],
    second: Annotated[Path, typer.Argument(help="The model of the other condition.", metavar="MODEL_B")],
    columns: Columns,
    data_first: Annotated[
        Path | None, typer.Argument(help="What the first was learned from.", metavar="FILE_A", show_default=False)
    ] = None,
    data_second: Annotated[
        Path | None, typer.Argument(help="What the second was learned from.", metavar="FILE_B", show_default=False)
    ] = None,
    level: Annotated[float, typer.Option(help="Probability of a difference that is not there.")] = 0.05,
    samples: Annotated[int, typer.Option(help="Equations drawn from each posterior, for the bands.")] = 200,
    answers: Annotated[
        bool, typer.Option("--answers", help="Compare also fixed points, relaxation and passage times, entropy.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A picture, .png, .svg or .pdf.", show_default=False)
    ] = None,
    force: Force = False,
    as_json: Json = False,
    seed: Seed = 0,
) -> None:
    """Say where drift and noise of two conditions differ, by how much and how surely."""
    if (data_first is None) != (data_second is None):
        raise InputError("give the data of both conditions, or of none")
    needed = [path for path in (first, second, data_first, data_second) if path is not None]
    if output is not None:
        check_picture("--output", output, *needed, force=force)
    models = model_in(first), model_in(second)
    data = [None if path is None else columns.read([str(path)]) for path in (data_first, data_second)]
    comparison = itofit.compare(
        *models, *data, names=(first.stem, second.stem), level=level, samples=samples, answers=answers, rng=seed
    )
    if as_json:
        print_json(comparison.as_dict())
    else:
        print_text(str(comparison))
    if output is not None:
        with style(), writing(output):
            write_whole(output, comparison.picture(output.suffix[1:].lower()))
        print_aside(f"picture: {output}")
