"""`itofit demo`: data to try the other commands on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from itofit._checks import Float, InputError
from itofit.cli.app import app, explained, print_text
from itofit.cli.arguments import Force, check_writable
from itofit.model.known import KnownSDE
from itofit.model.storage import write_whole

N_TRACKS, N_ROWS, SUBSTEPS, DT = 40, 250, 10, 0.05
LOST = 0.03
"""Share of the observations that are gaps."""


@app.command()
@explained
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="A directory for the data.")] = Path("itofit-demo"),
    seed: Annotated[int, typer.Option(help="The same seed gives the same data.")] = 0,
    force: Force = False,
) -> None:
    """Write tracks of a noisy double well, with gaps, to a CSV file, and say what to do with them."""
    if seed < 0:
        raise InputError(f"--seed must be at least 0, got {seed}")
    if output.exists() and not output.is_dir():
        raise InputError(f"--output must be a directory, but {output} is a file; give another name")
    output.mkdir(parents=True, exist_ok=True)
    file, content = output / "tracks.csv", tracks_as_csv(np.random.default_rng(seed))
    if not (file.is_file() and file.read_bytes() == content.encode()):
        check_writable("--output", file, force=force)
        write_whole(file, content)
    print_text(
        f"{file}: {N_TRACKS} tracks of a particle in a double well, dx = (x - x³) dt + (0.4 + 0.2 x²) dW,\n"
        f"seen every {DT}, with {LOST:.0%} of the observations lost. Try:\n\n"
        f"  itofit fit {file} --time t --state x --track id -o {output / 'sde.npz'} --report {output / 'report.html'}\n"
        f"  itofit info {output / 'sde.npz'}\n"
        f"  itofit simulate {output / 'sde.npz'} --start 1 --dt {DT} --paths 5 -o {output / 'paths.csv'}"
    )


def tracks_as_csv(rng: np.random.Generator) -> str:
    """The content of the file, with the columns id, t and x."""
    double_well = KnownSDE(f=lambda x: x - x**3, sigma=_noise)
    starts = rng.uniform(-1.5, 1.5, (N_TRACKS, 1))
    paths = double_well.simulate(starts, DT / SUBSTEPS, N_ROWS * SUBSTEPS, rng=rng, progress=False)
    seen = paths[:, ::SUBSTEPS, 0]
    lost = rng.random(seen.shape) < LOST
    lines = ["id,t,x"]
    for track, (values, gaps) in enumerate(zip(seen, lost, strict=True)):
        lines += [
            f"{track},{DT * i:.2f},{'' if gap else f'{x:.6f}'}"
            for i, (x, gap) in enumerate(zip(values, gaps, strict=True))
        ]
    return "\n".join(lines) + "\n"


def _noise(x: Float) -> Float:
    return (0.4 + 0.2 * x**2)[:, :, None]
