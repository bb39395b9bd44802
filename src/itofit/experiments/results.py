"""The record of one training, and the directory in which all records are stored.

A directory of results holds `manifest.json`, with the version and options that made it, and one file for each finished
training, `runs/<experiment>/<method>/<run>.npz`. Files are written whole or not at all, so every file that exists is
finished.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, fields
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from itofit._checks import Float, InputError, ModelFileError
from itofit._version import __version__
from itofit.model import storage

FORMAT = 1
"""Version of the layout of a directory of results."""
TRUTH = "truth"
"""The name of the true equation among the methods."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """One training of one method on the data of one experiment and seed, or the truth on the same data.

    Parameters
    ----------
    experiment, method : str
    run : int
        Runs of all methods with the same experiment and number share their data.
    seed : int
        The seed from which data, split and training follow.
    n_train, n_validation : int
    loss : float
        Validation loss of the equation that the method returned.
    truth_loss : float
        Validation loss of the true equation on the same points.
    expected_loss : float
        The expected minimum loss.
    lowest_loss : float
        The lowest validation loss at any epoch; for methods without epochs the same as `loss`.
    seconds, seconds_to_best : float
        Time of the whole training, and until the returned equation was reached; without compilation.
    compile_seconds : float
    settings : str
    versions : str
        Versions of itofit, Python and the libraries that compute.
    curve_seconds, curve_losses : arrays of shape (E,)
        Training time and validation loss after each epoch; one value for methods without epochs.
    points : array of shape (n, m)
        Points at which drift and covariance were evaluated; the same for all methods of an experiment and run.
    drift : array of shape (n, d)
    covariance : array of shape (n, d, d)
    histogram : array of shape (C, T, B)
        Share of simulated paths in each of B bins, at T times, for C components; empty if none were simulated.
    edges : array of shape (C, B + 1)
        Edges of the bins.
    """

    experiment: str
    method: str
    run: int
    seed: int
    n_train: int
    n_validation: int
    loss: float
    truth_loss: float
    expected_loss: float
    lowest_loss: float
    seconds: float
    seconds_to_best: float
    compile_seconds: float
    settings: str
    versions: str
    curve_seconds: Float
    curve_losses: Float
    points: Float
    drift: Float
    covariance: Float
    histogram: Float
    edges: Float

    @property
    def excess(self) -> float:
        """How much the loss is above the truth's."""
        return self.loss - self.truth_loss

    def scalars(self) -> dict[str, Any]:
        """All fields but the arrays."""
        return {name: value for name, value in self._items() if not isinstance(value, np.ndarray)}

    def arrays(self) -> dict[str, Float]:
        """The arrays."""
        return {name: value for name, value in self._items() if isinstance(value, np.ndarray)}

    def _items(self) -> Iterable[tuple[str, Any]]:
        return ((field.name, getattr(self, field.name)) for field in fields(self))


@dataclass(frozen=True)
class Results:
    """A directory of results."""

    directory: Path
    quick: bool

    @classmethod
    def open(cls, directory: str | os.PathLike[str], quick: bool, seed: int) -> Results:
        """The results in a directory, which is made if it does not exist.

        Raises InputError if it holds results of another version, seed or size, or anything else.
        """
        root = Path(directory)
        manifest = root / "manifest.json"
        wanted = {"format": FORMAT, "itofit": __version__, "quick": quick, "seed": seed}
        if manifest.exists():
            _check_manifest(manifest, wanted)
        elif root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise InputError(f"{root} is not a directory of results, nor empty; choose another one with -o")
        else:
            root.mkdir(parents=True, exist_ok=True)
            storage.write_whole(manifest, json.dumps(wanted, indent=1) + "\n")
        return cls(root, quick)

    def path(self, experiment: str, method: str, run: int) -> Path:
        """The file of a run."""
        return self.directory / "runs" / experiment / method / f"{run}.npz"

    def has(self, experiment: str, method: str, run: int) -> bool:
        """Whether a run is finished and saved."""
        return self.path(experiment, method, run).exists()

    def save(self, run: Run) -> None:
        """Write a run to its file."""
        path = self.path(run.experiment, run.method, run.run)
        path.parent.mkdir(parents=True, exist_ok=True)
        storage.write(path, run.arrays(), run.scalars())

    def load(self, experiment: str, method: str, run: int) -> Run:
        """Read a finished run."""
        path = self.path(experiment, method, run)
        known = {field.name for field in fields(Run)}
        arrays, metadata = storage.read(path, lambda metadata: known)
        try:
            return Run(**{name: value for name, value in (metadata | arrays).items() if name in known})
        except TypeError as error:
            raise ModelFileError(f"{path} is not a run of this version of itofit ({error}); delete it") from error

    def all(self, experiment: str = "*") -> list[Run]:
        """Every finished run, or those of one experiment, by experiment, method and number."""
        paths = sorted(self.directory.glob(f"runs/{experiment}/*/*.npz"))
        runs = [self.load(path.parts[-3], path.parts[-2], int(path.stem)) for path in paths]
        return sorted(runs, key=lambda run: (run.experiment, run.method, run.run))


def _check_manifest(path: Path, wanted: dict[str, Any]) -> None:
    try:
        manifest = dict(json.loads(path.read_text(encoding="utf-8")))
        made_by, _, quick, seed = (manifest[name] for name in ("itofit", "format", "quick", "seed"))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error!r}); choose another directory with -o") from error
    if any(manifest[name] != wanted[name] for name in ("itofit", "format")):
        raise InputError(
            f"{path.parent} holds results of itofit {made_by} (format {manifest['format']}), this is {__version__} "
            f"(format {FORMAT}); runs of two versions are not mixed: choose another directory with -o"
        )
    if quick != wanted["quick"]:
        what = "the quick version; add --quick" if quick else "the full version; leave out --quick"
        raise InputError(f"{path.parent} holds results of {what}, or choose another directory with -o")
    if seed != wanted["seed"]:
        raise InputError(f"{path.parent} holds results of seed {seed}; use --seed {seed}, or another directory with -o")


def write_tidy(runs: list[Run], directory: Path) -> None:
    """`runs.csv`, a row for each run, and `losses.csv`, a row for each epoch of each run."""
    rows = [run.scalars() | {"excess": run.excess} for run in runs if run.method != TRUTH]
    _write_csv(directory / "runs.csv", rows)
    epochs = [
        {"experiment": run.experiment, "method": run.method, "run": run.run, "epoch": epoch, "seconds": s, "loss": v}
        for run in runs
        if run.method != TRUTH
        for epoch, (s, v) in enumerate(zip(run.curve_seconds.tolist(), run.curve_losses.tolist(), strict=True))
    ]
    _write_csv(directory / "losses.csv", epochs)


def _write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    text = StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    storage.write_whole(path, text.getvalue())
