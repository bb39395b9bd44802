"""`itofit dynamics`: answers from a learned equation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import itofit
from itofit import dynamics as answers_of
from itofit._checks import InputError
from itofit.cli.app import app, explained, print_aside, print_json, print_text
from itofit.cli.arguments import Force, Json, Model, Seed, check_picture, equation_in, write_picture
from itofit.cli.outside import drive_from, number_from
from itofit.dynamics.answers import Answer
from itofit.model.sde import SDE

SETS = "a number, an interval as in 0.5:1.5 or 0.5: (no end), or intervals by name as in x=0.5:,y=-1:1"


@app.command()
@explained
def dynamics(
    model: Model,
    start: Annotated[
        str | None,
        typer.Option(help="Where paths start: values of the state, comma-separated, or a set."),
    ] = None,
    target: Annotated[str | None, typer.Option(help=f"What they shall reach: {SETS}.")] = None,
    covariates: Annotated[
        str | None, typer.Option(help="Values at which inputs from outside are held, as in dose=1,season=0.5.")
    ] = None,
    samples: Annotated[int, typer.Option(min=0, help="Equations from the posterior, for error bars.")] = 50,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Draw a figure: a .png, .svg or .pdf file.")
    ] = None,
    force: Force = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Answer questions about a learned equation: fixed points, relaxation and passage times, entropy production.

    With --start and --target it is the mean first-passage time between them.
    """
    if output is not None:
        check_picture("--output", output, model, force=force)
    if (start is None) != (target is None):
        raise InputError("--start and --target belong together: give both, or neither")
    sde = equation_in(model)
    if covariates is not None and "=" not in covariates:
        raise InputError(f"--covariates must be values at which inputs are held, as in dose=1, got {covariates!r}")
    held = drive_from(covariates, sde, 1)
    if held is None and sde.n_covariates:
        names = ",".join(f"{name}=0" for name in sde.covariate_names)
        raise InputError(f"this equation is driven from outside: say at which values, as in --covariates {names}")
    options: dict[str, Any] = {"covariates": held, "samples": samples, "rng": seed}
    if start is None or target is None:
        found = answers_of.outlook(sde, **options)
    else:
        ends = states_from("--start", start, sde), states_from("--target", target, sde)
        found = answers_of.Outlook((answers_of.first_passage_time(sde, *ends, **options),))
    if output is not None:
        _draw(sde, found.answers, options, output)
    if as_json:
        facts = [_facts(answer) for answer in found.answers]
        print_json({"units": sde.units.as_dict(), "answers": facts, "notes": list(found.notes)})
    else:
        print_text(str(found))
    if output is not None:
        print_aside(f"figure: {output}")


def states_from(option: str, text: str, sde: SDE) -> Any:  # noqa: ANN401
    """A point or a set of states that --start or --target names."""
    parts = [part.strip() for part in text.split(",")]
    if all("=" in part for part in parts):
        named = [part.rpartition("=") for part in parts]
        return {name.strip(): _ends(option, value) for name, _, value in named}
    if len(parts) == 1 and ":" in text:
        if len(sde.state_names) > 1:
            raise InputError(f"{option} must name its variables, as in {sde.state_names[0]}={text}, got {text!r}")
        return _ends(option, text)
    values = [number_from(part) for part in parts]
    if None in values or len(values) != len(sde.state_names):
        raise InputError(f"{option} must be {SETS}; the state is {', '.join(sde.state_names)}; got {text!r}")
    return values[0] if len(values) == 1 else values


def _ends(option: str, text: str) -> tuple[float | None, float | None] | float:
    """An interval low:high, either of which may be missing, or a number."""
    if ":" not in text:
        value = number_from(text)
        if value is None:
            raise InputError(f"{option} must be {SETS}, got {text!r}")
        return value
    low, _, high = text.partition(":")
    ends = [None if not end.strip() else number_from(end) for end in (low, high)]
    if any(end is None and given.strip() for end, given in zip(ends, (low, high), strict=True)) or ends == [None, None]:
        raise InputError(f"{option} must be {SETS}, got {text!r}")
    return ends[0], ends[1]


def _facts(answer: Answer) -> dict[str, Any]:
    """An answer for machines."""
    low, high = answer.interval()
    facts: dict[str, Any] = {
        "what": answer.what,
        "unit": answer.unit,
        "value": answer.value,
        "std": answer.std,
        "low": low,
        "high": high,
    }
    facts = {name: part.tolist() if isinstance(part, np.ndarray) else part for name, part in facts.items()}
    for name in ("kinds", "names"):
        if hasattr(answer, name):
            facts[name] = list(getattr(answer, name))
    if answer.edge is not None:
        facts |= {"edge_mass": answer.edge.mass, "edge_flux": answer.edge.flux, "escapes": bool(answer.edge.escapes)}
    return facts | {"unit": answer.unit, "grid_error": answer.grid_error, "notes": list(answer.notes)}


def _draw(sde: SDE, answers: tuple[Answer, ...], options: dict[str, Any], output: Path) -> None:
    """The figure of --output: the flow or the potential, the stationary density, and the last passage time."""
    from itofit.looking.plot.canvas import style  # noqa: PLC0415  (matplotlib)

    with style():
        from matplotlib import pyplot  # noqa: PLC0415

        times = [answer for answer in answers if isinstance(answer, answers_of.PassageTime)]
        panels = 2 + bool(times)
        figure, axes = pyplot.subplots(1, panels, figsize=(5.2 * panels, 4.2), layout="compressed")
        if len(sde.state_names) == 1:
            answers_of.potential(sde, **options).plot(axes[0])
        elif len(sde.state_names) == 2:
            itofit.plot.phase_portrait(sde, ax=axes[0], **options)
        else:
            answers_of.fixed_points(sde, **options).plot(axes[0])
        answers_of.stationary_density(sde, **options).plot(axes[1])
        if times:
            times[0].plot(axes[2])
        write_picture(output, figure, dpi=150)
        pyplot.close(figure)
