"""Options that say which columns of files hold what, and how the files are read with them."""

from __future__ import annotations

import csv
import glob
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import itofit
from itofit._progress import Progress
from itofit.cli.app import print_note
from itofit.cli.arguments import Decimal
from itofit.cli.held_out import AnyTransitions
from itofit.cli.outside import periods_from, units_from
from itofit.data.large.blocked import BlockedTransitions
from itofit.data.large.cluster import Client, on_cluster
from itofit.data.passes import add_up
from itofit.data.reading.files import CHUNK_ROWS


@dataclass(frozen=True)
class Columns:
    """Which columns of a file hold what: a group of options of every command that reads data."""

    time: Annotated[str | None, typer.Option(help="Column of times; one called time or t if left out.")] = None
    state: Annotated[
        str | None,
        typer.Option(
            help='Columns of the variables, comma-separated ("a,b" in quotes is one); all numbers if left out.'
        ),
    ] = None
    track: Annotated[str | None, typer.Option(help="Column that tells tracks apart; one called track if left out.")] = (
        None
    )
    velocity: Annotated[str | None, typer.Option(help="Columns of velocities, one for each of --state.")] = None
    dt: Annotated[float | None, typer.Option("--dt", help="Time between rows, if there is no column of times.")] = None
    unit: Annotated[str | None, typer.Option(help="Of time, if times are dates: ns, us, ms, s, min, h, D or W.")] = None
    covariate: Annotated[
        str | None, typer.Option(help="Columns of inputs from outside, which do not move, comma-separated.")
    ] = None
    periodic: Annotated[
        str | None, typer.Option(help="Variables that are periodic, and their periods: angle=2pi, hour=24, a=-180:180.")
    ] = None
    units: Annotated[
        str | None, typer.Option(help="Units of variables and of time, for labels and answers: x=µm,y=µm,time=s.")
    ] = None
    min_step: Annotated[float | None, typer.Option(help="Leave out moves that took less time.")] = None
    max_step: Annotated[float | None, typer.Option(help="Leave out moves that took more time, over breaks, say.")] = (
        None
    )
    second_order: Annotated[
        bool,
        typer.Option("--second-order", help="--state are positions of a thing with inertia; velocities were not seen."),
    ] = False
    wide: Annotated[
        bool, typer.Option("--wide", help="Every column of --state, or of all, is a track of one variable.")
    ] = False
    decimal: Decimal = "."
    dayfirst: Annotated[bool, typer.Option("--dayfirst", help="Dates begin with the day: 31.1.2024.")] = False
    sheet: Annotated[str | None, typer.Option(help="Sheet of an Excel file; the first if left out.")] = None

    def read(self, files: Sequence[str], client: Client | None = None) -> AnyTransitions:
        """The transitions in some files, with a note that names the variables if the user did not choose them.

        Given the client of a cluster, its workers read them, however few they are.
        """
        units, time_unit = units_from(self.units)
        data = itofit.read_transitions(
            files[0] if len(files) == 1 else files,
            time=None if self.time is None else self.time.strip(),
            state=_names(self.state),
            track=_names(self.track),
            velocity=_names(self.velocity),
            dt=self.dt,
            unit=self.unit,
            min_h=self.min_step,
            max_h=self.max_step,
            covariates=_names(self.covariate),
            periodic=periods_from(self.periodic),
            second_order=self.second_order,
            units=units,
            time_unit=time_unit,
            wide=self.wide,
            decimal=self.decimal,
            dayfirst=self.dayfirst,
            sheet=self.sheet,
            chunk_rows=None if client is None else CHUNK_ROWS,
        )
        chosen = self.state is not None or self.velocity is not None
        names = data.input_names[: data.n_inputs - data.n_covariates]
        if not chosen and len(names) > 1 and not files[0].lower().endswith(".npz"):
            print_note(f"variables are {', '.join(names)}; choose others with --state")
        if isinstance(data, BlockedTransitions):
            _count(data)
        return on_cluster(data, client)


def title_of(files: Sequence[str]) -> str:
    """What to call the data in some files."""
    path = Path(files[0])
    return path.parent.name if glob.has_magic(path.name) else path.stem


def _names(text: str | None) -> list[str] | None:
    """Names separated by commas, as in a line of a CSV file: a name with a comma is quoted."""
    if text is None:
        return None
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), []) if name.strip()]


def _count(data: BlockedTransitions) -> None:
    """Make the first pass, which counts the transitions and may take a while, with a display of its progress."""
    with Progress(None) as bar:
        add_up(data, lambda block, number: len(block), shown=lambda n: bar.show("reading", f"{n:,} transitions"))
