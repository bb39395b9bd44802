"""The command `itofit formula`: a short formula for a learned equation."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import itofit
from itofit.cli.app import app, explained, print_json, print_text
from itofit.cli.arguments import (
    MODELS,
    Files,
    Force,
    Json,
    Model,
    check_installed,
    check_picture,
    check_writable,
    model_in,
    write_picture,
    writing,
)
from itofit.cli.columns import Columns
from itofit.cli.machines import Machines
from itofit.cli.option_groups import with_option_groups
from itofit.looking.plot.canvas import style
from itofit.model.formula.written import coefficient_unit


class Noise(StrEnum):
    """Values of --noise."""

    covariance, diffusion = "covariance", "diffusion"


class Form(StrEnum):
    """Values of --as."""

    text, latex, sympy = "text", "latex", "sympy"


@app.command()
@explained
@with_option_groups
def formula(
    model: Model,
    files: Files,
    columns: Columns,
    machines: Machines,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where the formula goes, a .npz file.")] = None,
    degree: Annotated[
        int | None,
        typer.Option(min=0, help="Of the monomials that are tried; 4 or 3 if left out, less with many inputs."),
    ] = None,
    terms: Annotated[
        str | None, typer.Option(help='Further terms to try, comma-separated, as in "sin(x), x^5, x y^4".')
    ] = None,
    noise: Annotated[Noise, typer.Option(help="Terms of Σ, or of the lower triangular σ.")] = Noise.covariance,
    false_alarms: Annotated[float, typer.Option(help="Chance of any false term that is allowed.")] = 0.01,
    held_out: Annotated[
        Path | None, typer.Option(help="Another file, to judge by; folds of the first if left out.", metavar="FILE")
    ] = None,
    form: Annotated[Form, typer.Option("--as", help="How to print it.")] = Form.text,
    picture: Annotated[
        Path | None, typer.Option(help="Draw it beside the learned functions, a .png, .svg or .pdf.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Find a short formula for drift and noise, and say whether it predicts as well as the learned functions."""
    needed = [model, *map(Path, files), *([] if held_out is None else [held_out])]
    if output is not None:
        check_writable("--output", output, *needed, suffixes=MODELS, force=force)
    if picture is not None:
        check_picture("--picture", picture, *needed, force=force)
    if form is Form.sympy:
        check_installed("sympy", "formula", "--as sympy")
    sde = model_in(model)
    with machines.client() as client:
        data = columns.read(files, client)
        found = sde.formula(
            data,
            terms=None if terms is None else [part.strip() for part in terms.split(",") if part.strip()],
            degree=degree,
            noise=noise.value,
            held_out=None if held_out is None else columns.read([str(held_out)], client),
            false_alarms=false_alarms,
        )
        if output is not None:
            with writing(output):
                found.save(output)
        if picture is not None:
            with style():
                write_picture(picture, found.plot(sde, data), dpi=130)
    if as_json:
        print_json(formula_facts(found) | ({} if output is None else {"file": str(output)}))
    elif form is Form.text:
        print_text(str(found))
    else:
        print_text(found.latex() if form is Form.latex else _symbolic(found))


def _symbolic(found: itofit.Formula) -> str:
    symbols, drift, covariance, diffusion = found.sympy()
    parts = {"symbols": symbols, "drift": drift, "covariance": covariance, "diffusion": diffusion}
    return "\n".join(f"{name} = {value}" for name, value in parts.items() if value is not None)


def formula_facts(found: itofit.Formula) -> dict[str, Any]:
    """A formula for machines."""
    prediction = found.prediction
    return {
        "lines": {
            name: {
                "terms": [term.name for term in line.terms],
                "coefficients": line.coefficients.tolist(),
                "std": line.std.tolist(),
                "covariance": line.covariance.tolist(),
                "units": [coefficient_unit(found, line.slot, term) for term in line.terms],
                "difference": line.difference,
                "error": line.error,
            }
            for name, line in found.lines.items()
        },
        "units": found.units.as_dict(),
        "measurement_noise": None if found.measurement_noise is None else found.measurement_noise.covariance.tolist(),
        "short": found.is_short,
        "library": list(found.library),
        "false_alarms": found.false_alarms,
        "transitions": found.data.n_transitions,
        "difference": None if prediction is None else prediction.difference,
        "error": None if prediction is None else prediction.error,
        "verdict": None if prediction is None else prediction.verdict,
        "clipped": found.clipped_share,
    }
