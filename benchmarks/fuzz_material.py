"""Good data and models that the campaign damages, and values that are no good: used by `fuzz_inputs.py` and others."""

import datetime
import decimal
import fractions
import functools
import os
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import itofit
from itofit import Transitions

ROWS = 60


@functools.cache
def directory():
    """Where everything is written: a directory that vanishes at the end."""
    return tempfile.TemporaryDirectory(prefix="itofit-campaign-")


def folder():
    return Path(directory().name)


def _quiet(function):
    """A function that is called once, without warnings."""

    @functools.cache
    def quiet():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function()

    return quiet


@_quiet
def arrays():
    """Places, moves and times of a small data set."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 2))
    x1 = x - 0.1 * x + 0.3 * rng.normal(size=(ROWS, 2))
    path = np.cumsum(0.3 * rng.normal(size=(ROWS, 2)), axis=0)
    return {"x": x, "x1": x1, "path": path - path.mean(axis=0), "times": np.cumsum(rng.uniform(0.5, 1.5, ROWS))}


@_quiet
def frame():
    """A table of three tracks."""
    given = arrays()
    return pd.DataFrame(
        {
            "id": np.repeat([0, 1, 2], ROWS // 3),
            "t": np.tile(np.arange(ROWS // 3) * 0.1, 3),
            "x": given["path"][:, 0],
            "y": given["path"][:, 1],
            "u": np.sin(np.arange(ROWS)),
        }
    )


@_quiet
def data():
    """Transitions of every kind, by name."""
    given, table = arrays(), frame()
    angle = np.cumsum(0.4 * np.random.default_rng(1).normal(size=100))
    return {
        "pairs": Transitions.from_pairs(given["x"], given["x1"], 0.1),
        "one": Transitions.from_pairs(given["x"][:, 0], given["x1"][:, 0], 0.1),
        "tracks": Transitions.from_dataframe(table, time="t", state=["x", "y"], track="id"),
        "driven": Transitions.from_dataframe(table, time="t", state="x", track="id", covariates="u"),
        "angle": Transitions.from_trajectories(angle, dt=0.1, periodic={0: 2 * np.pi}),
        "inertia": Transitions.from_underdamped(
            given["x"][:, 0], given["x"][:, 1], given["x"][:, 0] + 0.1 * given["x"][:, 1], given["x1"][:, 1], 0.1
        ),
        "general": Transitions(given["x"], given["x1"][:, :1] - given["x"][:, :1], 0.1),
    }


@_quiet
def models():
    """Learned equations of every kind, by name."""
    made = {name: itofit.fit(each, rng=0) for name, each in data().items()}
    made["ensemble"] = itofit.fit(data()["pairs"], ensemble=3, rng=0)
    made["corrected"] = itofit.fit(data()["one"], correct_step=True, rng=0)
    made["noisy"] = itofit.fit(data()["tracks"], measurement_noise=0.05, rng=0)
    quick = itofit.ARFF(n_features=8, max_iterations=5)
    made["published"] = itofit.fit(data()["pairs"], refine=False, drift=quick, covariance=quick, rng=0)
    return made


@_quiet
def formula():
    return models()["one"].formula(data()["one"])


@_quiet
def diagnosis():
    return itofit.check(models()["one"], data()["one"])


@_quiet
def paths():
    """Files of good models and tables, by name."""
    made = {}
    for name, sde in models().items():
        made[name] = folder() / f"{name}.npz"
        sde.save(made[name])
    made["formula"] = folder() / "formula.npz"
    formula().save(made["formula"])
    made["csv"], made["parquet"] = folder() / "tracks.csv", folder() / "tracks.parquet"
    frame().to_csv(made["csv"], index=False)
    frame().to_parquet(made["parquet"], index=False)
    made["arrays"] = folder() / "places.npz"
    np.savez(made["arrays"], x0=arrays()["x"], x1=arrays()["x1"], h=np.full(ROWS, 0.1))
    os.mkfifo(folder() / "pipe.csv")
    (folder() / "empty.csv").touch()
    (folder() / "folder.npz").mkdir()
    return made


# Values that are no good


class Unfriendly:
    """Something that fails at whatever is asked of it."""

    def __array__(self, *args, **kwargs):
        raise ValueError("no array")

    def __repr__(self):
        return "Unfriendly()"


def _circle():
    circle = []
    circle.append(circle)
    return circle


TEXTS = (
    "", " ", "auto", "x", "y", "t", "full", "log", "nonsense", "\x1b[2J\x1b]0;title\x07", "é\u202egnp", "a" * 1000,
    "1e5", "None", "nan", "-1", "0", "{option}", "%s", "\udcff", "x,y", "2pi", "../x", "pipe.csv", "empty.csv",
    "folder.npz", "missing/none.npz",
)  # fmt: skip

STRANGE = (
    lambda: None, lambda: True, lambda: False, lambda: 0, lambda: 1, lambda: -1, lambda: 2, lambda: 7, lambda: 0.5,
    lambda: 1.5, lambda: -0.0, lambda: np.nan, lambda: np.inf, lambda: -np.inf, lambda: 1e308, lambda: 1e-320,
    lambda: 2**70, lambda: 10**400, lambda: 1j, lambda: 3 + 0j, lambda: np.float32(0.1), lambda: np.int8(3),
    lambda: np.bool_(True), lambda: np.longdouble("1e4000"), lambda: np.timedelta64(5, "s"),
    lambda: np.datetime64("2020-01-01"), lambda: np.datetime64("NaT"), lambda: datetime.timedelta(seconds=1),
    lambda: datetime.date(2020, 1, 1), lambda: decimal.Decimal("0.1"), lambda: decimal.Decimal("NaN"),
    lambda: fractions.Fraction(1, 3), lambda: b"bytes", lambda: bytearray(b"xy"), lambda: memoryview(b"xy"),
    lambda: (), list, dict, set, lambda: {"x": 1}, lambda: {0: 1.0}, lambda: {"x": (1, 0)}, lambda: {None: None},
    lambda: {5: 1.0}, lambda: [None], lambda: [1, "x"], lambda: [[1, 2], [3]], lambda: [[]], lambda: [[], []],
    lambda: (0, 1), lambda: (1, 0), lambda: ("x", "y"), lambda: ["x", "x"], lambda: ("x", 1), lambda: range(3),
    lambda: slice(3), lambda: Ellipsis, object, Unfriendly, lambda: (lambda: None), lambda: (lambda *a: np.nan),
    lambda: iter([1.0, 2.0]), lambda: (i for i in range(3)), lambda: np,
    lambda: pd.NA, lambda: pd.NaT, lambda: pd.Timedelta("1s"), lambda: pd.Timestamp("2020-01-01"),
    lambda: pd.Series([1.0, 2.0]), lambda: pd.Series(["a", None]), lambda: pd.DataFrame({"x": [1.0, np.nan]}),
    pd.DataFrame, lambda: pd.Categorical(["a", "b"]), lambda: pd.Index(["x", "y"]),
    lambda: np.empty(0), lambda: np.empty((0, 2)), lambda: np.empty((3, 0)), lambda: np.empty((0, 0)),
    lambda: np.zeros((2, 2, 2)), lambda: np.array(1.0), lambda: np.array(["a", "b"]), lambda: np.array([1, None]),
    lambda: np.array([object()]), lambda: np.array([1j, 2]), lambda: np.ones(3, dtype=">f8"),
    lambda: np.ones((3, 2), dtype=np.float16), lambda: np.array([True, False]), lambda: np.zeros(3, dtype="m8[s]"),
    lambda: np.zeros(3, dtype="M8[s]"), lambda: np.zeros(2, dtype=[("a", float), ("b", int)]),
    lambda: np.ma.masked_array([1.0, 2.0], mask=[True, False]), lambda: np.full((ROWS, 2), np.nan),
    lambda: np.zeros((ROWS, 2)), lambda: np.ones((ROWS, 1)), lambda: np.zeros(ROWS), lambda: np.full(ROWS, 1e200),
    lambda: np.arange(ROWS), lambda: np.array([2**63], dtype=np.uint64), lambda: np.matrix([[1.0, 2.0]]), _circle,
    lambda: Path("missing.npz"), Path, lambda: np.random.default_rng(0),
    lambda: np.random.RandomState(0), lambda: np.random.SeedSequence(1), lambda: data()["pairs"], lambda: data()["one"],
    lambda: data()["driven"], lambda: data()["inertia"], lambda: data()["general"], lambda: models()["one"],
    lambda: models()["pairs"], lambda: models()["driven"], lambda: models()["published"], formula, frame,
    lambda: itofit.ARFF(n_features=4, max_iterations=3),
)  # fmt: skip
"""Makers of values that some argument or other does not take."""


def strange(rng):
    """One of the strange values, or a text."""
    if rng.random() < 0.15:
        return str(rng.choice(TEXTS))
    return STRANGE[rng.integers(len(STRANGE))]()


def damaged_array(rng, array):
    """An array that is no longer what it was: shape, values, type or order."""
    array = np.atleast_1d(np.array(array, dtype=float))
    flat = array.reshape(-1)
    n_bad = int(rng.integers(1, max(2, array.size // 3)))
    where = rng.choice(array.size, size=min(n_bad, array.size), replace=False) if array.size else []
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = int(rng.integers(20))
        if kind < 5 and array.size:
            flat[where] = [np.nan, np.inf, -np.inf, 0.0, 1e300][kind]
        return (
            array if kind < 5
            else array * 10.0 ** rng.integers(-300, 300) if kind < 7
            else array * 0 + rng.normal() if kind == 7
            else array.T if kind == 8
            else array[: int(rng.integers(0, max(1, len(array))))] if kind == 9
            else array[None] if kind == 10
            else array.reshape(-1) if kind == 11
            else array.tolist() if kind == 12
            else array.astype(object) if kind == 13
            else array.astype(str) if kind == 14
            else array.astype(complex) if kind == 15
            else array.astype(np.int8) if kind == 16
            else array + 1e12 if kind == 17
            else np.repeat(array[:1], len(array), axis=0) if kind == 18
            else array[::-1]
        )  # fmt: skip
