"""Data frames of any library: the same transitions as from pandas."""

import datetime
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from itofit import InputError, Transitions
from itofit.data.frames import any_frame

equal = np.testing.assert_array_equal
read = Transitions.from_dataframe


def columns():
    return {
        "cell": ["a", "a", "a", "b", "b", None],
        "number": [7, 7, 7, 2**60, 2**60, 3],
        "t": [0.0, 0.5, 1.5, 3.0, 4.0, 5.0],
        "when": [datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=h) for h in (0, 1, 3, 0, 2, 9)],
        "x": [1.0, 2.0, None, 0.0, 5.0, 6.0],
        "k": [1, 2, 3, 4, 5, 6],
    }


def polars_frame():
    polars = pytest.importorskip("polars")
    return polars.DataFrame(columns()).with_columns(polars.col("cell").cast(polars.Categorical).alias("kind"))


def arrow_table():
    table = pa.table(columns())
    return table.append_column("kind", table["cell"].dictionary_encode())


MAKE = {
    "polars": polars_frame,
    "arrow": arrow_table,
    "batch": lambda: arrow_table().to_batches()[0],
    "chunks": lambda: pa.concat_tables([arrow_table()[:2], arrow_table()[2:2], arrow_table()[2:]]),
    "arrow in pandas": lambda: arrow_table().to_pandas(types_mapper=pd.ArrowDtype),
}


def pandas_frame():
    return pd.DataFrame(columns()).assign(kind=lambda df: df["cell"].astype("category"))


def assert_same(found, expected):
    for name in ("inputs", "increments", "h"):
        equal(getattr(found, name), getattr(expected, name))
    equal(found.groups, expected.groups)
    assert found._variables[:4] == expected._variables[:4]


@pytest.mark.filterwarnings("ignore::itofit.DataWarning")
@pytest.mark.parametrize("track", ["cell", "kind", "number", ["cell", "number"]])
@pytest.mark.parametrize("time", ["t", "when"])
@pytest.mark.parametrize("make", MAKE)
def test_the_same_from_any_library(make, time, track):
    how = {"state": ["x", "k"], "track": track, "time": time} | ({"unit": "min"} if time == "when" else {})
    assert_same(read(MAKE[make](), **how), read(pandas_frame(), **how))


@pytest.mark.filterwarnings("ignore::itofit.DataWarning")
def test_without_pyarrow_narwhals_reads(monkeypatch):
    frame = polars_frame()
    monkeypatch.setattr(any_frame, "find_spec", lambda name: None if name == "pyarrow" else sys.modules.get(name, name))
    how = {"state": "x", "time": "t", "track": "cell"}
    assert_same(read(frame, **how), read(pandas_frame(), **how))
    monkeypatch.setattr(any_frame, "find_spec", lambda name: None)  # nor narwhals
    assert_same(read(frame, **how), read(pandas_frame(), **how))


TRACKS = {
    "tuples": [(1, 2)] * 3 + [(1, 3)] * 3,
    "lists": [[1]] * 3 + [[2]] * 3,
    "dicts": [{"a": 1}] * 3 + [{"a": 2}] * 3,
    "sets": [{1}] * 3 + [{2}] * 3,
    "bytes": [b"a"] * 3 + [b"b"] * 3,
}


@pytest.mark.parametrize("kind", TRACKS)
def test_tracks_that_are_no_labels(kind):
    message = r"track: column 'id' must hold a number or a string in each row, got .*; give what it consists of"
    frames = [pd.DataFrame(columns()).assign(id=pd.Series(TRACKS[kind]))]
    if kind != "sets":
        column = pa.array(TRACKS[kind])
        frames.append(pa.table(columns()).append_column("id", column))
        frames.append(pd.DataFrame(columns()).assign(id=pd.array(column, dtype=pd.ArrowDtype(column.type))))
    for frame in frames:
        with pytest.raises(InputError, match=message):
            read(frame, state="k", time="t", track="id")


def test_tracks_of_extension_types():
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16] * 6, pa.binary(16)))
    with pytest.raises(
        InputError, match=r"'id' must hold a number or a string in each row, got extension<arrow\.uuid>"
    ):
        read(pa.table(columns()).append_column("id", ids), state="k", time="t", track="id")


def test_states_that_are_no_numbers():
    lists = pa.table(columns()).append_column("id", pa.array([[1.0]] * 6))
    with pytest.raises(InputError, match=r"column 'id' must hold real numbers, got list<item: double>"):
        read(lists, state="id", time="t")


def test_names_of_columns_in_any_order_of_things():
    df = pd.DataFrame({"t": np.arange(5.0), "x": np.arange(5.0), "y": np.ones(5)})
    expected = read(df, time="t", state=["x", "y"])
    for state in (df.columns[1:], np.array(["x", "y"]), ("x", "y"), dict.fromkeys("xy").keys(), iter("xy")):
        equal(read(df, time="t", state=state).inputs, expected.inputs)
    with pytest.raises(InputError, match="state must name columns in order, got a set"):
        read(df, time="t", state={"x", "y"})
    with pytest.raises(InputError, match=r"list of names, got the list \['x'\] in it"):
        read(df, time="t", state=[["x"]])
    with pytest.raises(InputError, match="state must name at least one column"):
        read(df, time="t", state=df.columns[:0])


def test_frames_that_hold_no_rows():
    polars = pytest.importorskip("polars")
    with pytest.raises(InputError, match=r"df is a LazyFrame, which holds no rows yet: give df\.collect\(\)"):
        read(polars.LazyFrame({"t": [0.0], "x": [1.0]}), time="t", state="x")
    dd = pytest.importorskip("dask.dataframe")
    with pytest.raises(InputError, match=r"df is a Dask data frame: give it to Transitions\.from_dask"):
        read(dd.from_pandas(pandas_frame(), npartitions=2), time="t", state="x")
