import ast
import datetime
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import itofit
from itofit import DataWarning, InputError, Transitions, fit

equal = np.testing.assert_array_equal
read = Transitions.from_dataframe


def parts(data):
    return data.inputs, data.increments, data.h


def frame():
    return pd.DataFrame(
        {
            "cell": ["a", "a", "a", "b", "b"],
            "t": [0.0, 0.5, 1.5, 3.0, 4.0],
            "x": [1.0, 2.0, 4.0, 0.0, 5.0],
            "y": [0.0, 0.0, 1.0, 1.0, 1.0],
        },
        index=list("pqrst"),
    )


# What it is


def test_moves_that_took_too_short_or_too_long_are_left_out():
    data = read(frame(), time="t", state="x", track="cell", max_h=0.9)
    equal(data.h, [0.5])
    equal(data.groups, ["a"])
    data = read(frame(), time="t", state="x", track="cell", min_h=0.9)
    equal(data.inputs.ravel(), [2.0, 0.0])
    equal(data.groups, ["a", "b"])
    with pytest.raises(InputError, match=r"between min_h and max_h: they took 0\.5 to 1"):
        read(frame(), time="t", state="x", track="cell", min_h=2.0)
    for limits in ({"min_h": 0.0}, {"max_h": "long"}, {"min_h": 2.0, "max_h": 1.0}):
        with pytest.raises(InputError, match="_h must be"):
            read(frame(), time="t", state="x", track="cell", **limits)


def test_moves_go_from_a_row_to_the_next_of_its_track():
    data = read(frame(), time="t", state=["x", "y"], track="cell")
    equal(data.inputs, [[1, 0], [2, 0], [0, 1]])
    equal(data.increments, [[1, 0], [2, 1], [5, 0]])
    equal(data.h, [0.5, 1.0, 1.0])
    equal(data.groups, ["a", "a", "b"])
    assert data.input_names == data.output_names == ("x", "y")
    assert data.kind == "diffusion"


def test_without_times_rows_are_dt_apart():
    data = read(frame(), dt=0.25, state="x", track="cell")
    equal(data.h, [0.25, 0.25, 0.25])
    equal(read(frame(), dt=0.25, state="x").increments.ravel(), [1, 2, -4, 5])
    assert read(frame(), dt=0.25, state="x").groups is None


def test_velocities_make_an_underdamped_system():
    table = frame().rename(columns={"y": "speed"})
    data = read(table, time="t", state="x", velocity="speed", track="cell")
    expected = Transitions.from_underdamped([1, 2, 0], [0, 0, 1], [2, 4, 5], [0, 1, 1], [0.5, 1, 1])
    for found, wanted in zip(parts(data), parts(expected), strict=True):
        equal(found, wanted)
    assert data.kind == "underdamped"
    assert (data.input_names, data.output_names) == (("x", "speed"), ("speed",))


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(2, 6), min_size=1, max_size=5),
    seed=st.integers(0, 2**32 - 1),
    gaps=st.sampled_from([0.0, 0.2]),
    shuffled=st.booleans(),
)
def test_it_is_what_from_trajectories_gives(lengths, seed, gaps, shuffled):
    rng = np.random.default_rng(seed)
    paths = [rng.normal(size=(n, 2)) for n in lengths]
    for path in paths:
        path[rng.random(len(path)) < gaps, rng.integers(2)] = np.nan
    times = [np.cumsum(rng.uniform(0.1, 1, n)) for n in lengths]
    table = pd.DataFrame(np.concatenate(paths), columns=["x", "y"])
    table["t"] = np.concatenate(times)
    table["track"] = np.repeat(np.arange(len(paths)), lengths)
    if shuffled:
        table = table.sample(frac=1, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # that rows were sorted
        try:
            expected = Transitions.from_trajectories(paths, times=times)
        except InputError:
            with pytest.raises(InputError, match="there is no transition"):
                read(table, time="t", state=["x", "y"], track="track")
            return
        data = read(table, time="t", state=["x", "y"], track="track")
    order = np.lexsort((data.inputs[:, 0], data.groups)) if shuffled else slice(None)
    wanted = np.lexsort((expected.inputs[:, 0], expected.groups)) if shuffled else slice(None)
    for found, right in zip((*parts(data), data.groups), (*parts(expected), expected.groups), strict=True):
        equal(found[order], right[wanted])


# Tracks


def test_rows_of_tracks_may_alternate():
    table = frame().iloc[[0, 3, 1, 4, 2]]
    found, expected = (read(t, time="t", state="x", track="cell") for t in (table, frame()))
    for a, b in zip(parts(found), parts(expected), strict=True):
        equal(a, b)
    equal(found.groups, expected.groups)


@pytest.mark.parametrize(
    ("labels", "groups"),
    [
        ([7, 7, 7, 3, 3], [7, 7, 3]),
        ([7.0, 7.0, 7.0, 3.0, 3.0], [7, 7, 3]),
        ([0.5, 0.5, 0.5, 3.0, 3.0], ["0.5", "0.5", "3.0"]),
        (pd.Categorical(["u", "u", "u", "v", "v"]), ["u", "u", "v"]),
        (pd.array([7, 7, 7, 3, 3], dtype="Int64"), [7, 7, 3]),
        (pd.array(["u", "u", "u", "v", "v"], dtype="string"), ["u", "u", "v"]),
        ([True, True, True, False, False], ["True", "True", "False"]),
        ([1, 1, 1, "1b", "1b"], ["1", "1", "1b"]),
    ],
)
def test_labels_of_tracks(labels, groups):
    table = frame()
    table["cell"] = labels
    data = read(table, time="t", state="x", track="cell")
    equal(data.groups, groups)
    assert data.groups.dtype.kind in "iU"


def test_tracks_may_have_names_of_several_columns():
    table = frame().assign(day=[1, 1, 1, 1, 1], t=[0, 1, 2, 0, 1])
    equal(read(table, time="t", state="x", track=["day", "cell"]).groups, ["1, a", "1, a", "1, b"])


def test_rows_without_a_track_are_left_out():
    table = frame()
    table.loc["q", "cell"] = None
    with pytest.warns(DataWarning, match="1 row has no track and was left out"):
        data = read(table, time="t", state="x", track="cell")
    equal(data.h, [1.5, 1.0])


def test_a_track_of_one_row_is_left_out():
    table = pd.concat([frame(), pd.DataFrame({"cell": ["c", "d"], "t": [0.0, 0.0], "x": [1.0, 1.0], "y": [0.0, 0.0]})])
    with pytest.warns(DataWarning, match="2 of 4 tracks have one row and were left out"):
        data = read(table, time="t", state="x", track="cell")
    assert len(data) == 3


@pytest.mark.parametrize("rows", [0, 1, [0, 3]])
def test_no_transition_at_all_is_an_error(rows):
    table = frame().iloc[rows if isinstance(rows, list) else slice(rows)]
    with pytest.raises(InputError, match="there is no transition"):
        read(table, time="t", state="x", track="cell")


def test_labels_that_are_all_missing_are_counted():
    n = len(frame())
    with pytest.raises(InputError, match=rf"no transition: .*\(0 rows in 0 tracks, and {n} rows without a track\)"):
        read(frame().assign(cell=None), time="t", state="x", track="cell")


# Gaps


def test_a_missing_value_is_a_gap():
    table = frame()
    table.loc["q", "y"] = np.nan
    assert len(read(table, time="t", state=["x", "y"], track="cell")) == 1
    assert len(read(table, time="t", state="x", track="cell")) == 3


@pytest.mark.parametrize("sort", [False, True])
def test_a_missing_time_is_a_gap_where_it_stands(sort):
    table = pd.DataFrame({"k": [0] * 5 + [1] * 3, "t": [0, 1, np.nan, 2, 3, np.nan, 0, 1], "x": np.arange(8.0)})
    if sort:
        table.loc[[6, 7], "t"] = [1.0, 0.0]
    with pytest.warns(DataWarning, match="1 of 2 tracks") if sort else warnings.catch_warnings():
        data = read(table, time="t", state="x", track="k")
    equal(data.inputs.ravel(), [0, 3, 7 if sort else 6])
    equal(data.h, [1, 1, 1])


# Times


def test_unsorted_times_are_sorted_with_a_warning():
    table = frame().iloc[[1, 0, 2, 3, 4]]
    with pytest.warns(DataWarning, match="the rows of 1 of 2 tracks were not in the order of their times"):
        data = read(table, time="t", state="x", track="cell")
    equal(data.inputs.ravel(), [1, 2, 0])
    with pytest.warns(DataWarning, match="the rows were not in the order"):
        read(table, time="t", state="x")


def test_a_time_that_occurs_twice_in_a_track():
    table = frame()
    table.loc["t", "t"] = 3.0
    with pytest.raises(InputError, match=r"track b has the time 3\.0 twice, in row 3 .*'s'.* and in row 4 .*'t'"):
        read(table, time="t", state="x", track="cell")
    with pytest.raises(InputError, match=r"the trajectory has the time 3\.0 twice.*give track="):
        read(table, time="t", state="x")


START = pd.Timestamp("2024-03-01 12:00")


@pytest.mark.parametrize(
    "times",
    [
        START + pd.to_timedelta([0, 30, 90, 180, 240], unit="min"),
        (START + pd.to_timedelta([0, 30, 90, 180, 240], unit="min")).tz_localize("Europe/Oslo"),
        (START + pd.to_timedelta([0, 30, 90, 180, 240], unit="min")).astype("datetime64[s]"),
        pd.to_timedelta([0, 30, 90, 180, 240], unit="min"),
        pd.array(START + pd.to_timedelta([0, 30, 90, 180, 240], unit="min"), dtype="timestamp[us][pyarrow]"),
        pd.array(pd.to_timedelta([0, 30, 90, 180, 240], unit="min"), dtype="duration[us][pyarrow]"),
        ["2024-03-01 12:00", "2024-03-01 12:30", "2024-03-01T13:30", "2024-03-01 15:00:00", "2024-03-01 16:00"],
        pd.Series([START + pd.Timedelta(minutes=m) for m in (0, 30, 90, 180, 240)], dtype=object, index=list("pqrst")),
    ],
)
def test_dates_and_durations_need_a_unit(times):
    table = frame()
    table["t"] = times
    np.testing.assert_allclose(read(table, time="t", state="x", track="cell", unit="h").h, [0.5, 1, 1], rtol=1e-15)
    np.testing.assert_allclose(read(table, time="t", state="x", track="cell", unit="min").h, [30, 60, 60], rtol=1e-15)
    with pytest.raises(InputError, match="give unit=, the unit of h and of all rates, one of 'ns', 'us'"):
        read(table, time="t", state="x", track="cell")


def test_days_of_dates():
    table = frame().assign(t=[datetime.date(2024, 1, day) for day in (1, 2, 4, 8, 9)])
    equal(read(table, time="t", state="x", track="cell", unit="D").h, [1, 2, 1])


def test_a_missing_date_is_a_gap():
    table = frame().assign(t=START + pd.to_timedelta([0, 1, 2, 3, 4], unit="s"))
    table.loc["q", "t"] = pd.NaT
    equal(read(table, time="t", state="x", track="cell", unit="s").inputs.ravel(), [0])


def test_units_that_do_not_fit():
    with pytest.raises(InputError, match="unit='s' is for dates, but column 't' holds numbers"):
        read(frame(), time="t", state="x", track="cell", unit="s")
    with pytest.raises(InputError, match="unit must be one of"):
        read(frame(), time="t", state="x", track="cell", unit="fortnight")
    with pytest.raises(InputError, match="no column of times was given"):
        read(frame(), dt=1.0, state="x", track="cell", unit="s")
    table = frame().assign(t=["2024-01-01", "2024-01-02", "soon", "2024-01-01", "2024-01-02"])
    with pytest.raises(InputError, match=r"dates as in .* got 'soon' in row 2"):
        read(table, time="t", state="x", track="cell", unit="s")


def test_whole_numbers_keep_all_their_digits():
    table = frame().assign(t=np.array([0, 1, 3, 6, 7]) + 1_700_000_000_000_000_001)
    equal(read(table, time="t", state="x", track="cell").h, [1, 2, 1])


# Columns


@pytest.mark.parametrize(
    "dtype",
    [
        "float32",
        "int64",
        "uint8",
        "Float64",
        "Int16",
        "float64[pyarrow]",
        "int32[pyarrow]",
        "object",
        "category",
        "str",
    ],
)
def test_numbers_of_any_type(dtype):
    table = frame()
    table["x"] = table["x"].astype("int64").astype(dtype) if "nt" in dtype else table["x"].astype(dtype)
    equal(read(table, time="t", state="x", track="cell").increments.ravel(), [1, 2, 5])


@pytest.mark.parametrize("dtype", ["bool", "boolean", "bool[pyarrow]"])
def test_true_and_false_are_one_and_zero(dtype):
    table = frame()
    table["x"] = pd.array([True, False, True, True, False], dtype=dtype)
    equal(read(table, time="t", state="x", track="cell").increments.ravel(), [-1, 1, -1])


@pytest.mark.parametrize("dtype", ["Float64", "float64[pyarrow]", "object", "Int64"])
def test_missing_values_of_any_type(dtype):
    table = frame()
    table["x"] = pd.array([1, 2, None, 0, 5], dtype=dtype)
    equal(read(table, time="t", state="x", track="cell").increments.ravel(), [1, 5])


def test_text_among_numbers_is_named():
    table = frame().assign(x=["1", "2", " ", "oops", "5"])
    with pytest.raises(InputError, match=r"column 'x' must hold numbers, got 'oops' in row 3 \(index label 's'\)"):
        read(table, time="t", state="x", track="cell")
    with pytest.raises(InputError, match=r"got '1,5' in row 0 .*; write decimals with a point"):
        read(frame().assign(x=["1,5"] * 5), time="t", state="x", track="cell")
    with pytest.raises(InputError, match="column 't' must hold numbers, got 'late' in row 4"):
        read(frame().assign(t=[0, 1, 2, 3, "late"]), time="t", state="x", track="cell")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [1, 2, np.inf, 0, 0],
            r"must be finite or missing: 1 of 5 values are not, the first in row 2 \(index label 'r'",
        ),
        ([1j] * 5, "must hold real numbers, got complex128"),
        (pd.to_datetime(["2024-01-01"] * 5), "must hold real numbers, got datetime64"),
        ([[1], [2], [3], [4], [5]], r"must hold numbers, got \[1\] in row 0"),
    ],
)
def test_columns_that_cannot_be_a_state(values, message):
    with pytest.raises(InputError, match=message):
        read(frame().assign(x=values), time="t", state="x", track="cell")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"state": "X"}, r"state: there is no column 'X' \(is it 'x' that you mean\?\); the columns are 'cell', 't'"),
        ({"state": ["x", "why"]}, "there is no column 'why'"),
        ({"time": "T"}, r"time: there is no column 'T' \(is it 't'"),
        ({"track": "cells"}, r"track: there is no column 'cells' \(is it 'cell'"),
        ({"state": []}, "state must name at least one column"),
        ({"state": ["x", "x"]}, "state names a column twice"),
        ({"time": None}, "give either time, .* neither was given"),
        ({"dt": 1.0}, "give either time, .* not both"),
        ({"time": None, "dt": -1.0}, "dt must be a number > 0"),
        ({"velocity": ["x", "y"]}, "velocity must name one column for each of state: expected 1, got 2"),
    ],
)
def test_arguments_that_do_not_fit(arguments, message):
    with pytest.raises(InputError, match=message):
        read(frame(), **({"time": "t", "state": "x", "track": "cell"} | arguments))


def test_an_index_is_no_column():
    with pytest.raises(InputError, match=r"it is the index: use df\.reset_index\(\)"):
        read(frame().set_index("t"), time="t", state="x", track="cell")


def test_columns_of_the_same_name():
    table = frame()
    table.columns = ["cell", "t", "x", "x"]
    with pytest.raises(InputError, match="state: there are 2 columns called 'x'; rename them"):
        read(table, time="t", state="x", track="cell")


def test_names_need_not_be_strings():
    table = pd.DataFrame(np.arange(12.0).reshape(4, 3))
    assert read(table, time=0, state=[1, 2]).input_names == ("1", "2")
    table.columns = pd.MultiIndex.from_tuples([("t", ""), ("x", "a"), ("x", "b")])
    assert read(table, time=[("t", "")][0], state=[("x", "a")]).input_names == ("('x', 'a')",)


@pytest.mark.parametrize("wrong", [np.zeros((3, 2)), [1, 2], None, "file.csv"])
def test_what_is_no_table(wrong):
    with pytest.raises(InputError, match="df must be a table"):
        read(wrong, dt=1.0, state="x")


def test_other_tables_with_columns():
    class Table:
        def __init__(self, values):
            self.values = values
            self.columns = list(values)

        def __getitem__(self, name):
            return np.asarray(self.values[name])

        def to_numpy(self):
            raise NotImplementedError

    table = Table({"k": [1, 1, 2, 2], "t": [0.0, 1.0, 0.0, 1.0], "x": [0.0, 1.0, 2.0, 4.0]})
    equal(read(table, time="t", state="x", track="k").increments.ravel(), [1, 2])
    table.values["t"] = [0.0, 0.0, 0.0, 1.0]
    with pytest.raises(InputError, match=r"track 1 has the time 0\.0 twice, in row 0 and in row 1"):
        read(table, time="t", state="x", track="k")


def test_the_table_is_not_changed():
    table = frame()
    table.loc["q", ["t", "x"]] = np.nan
    before = table.copy()
    read(table, time="t", state=["x", "y"], track="cell")
    pd.testing.assert_frame_equal(table, before)


# Without pandas


def test_no_module_imports_pandas_or_pyarrow_at_once():
    for path in Path(itofit.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            found = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            found += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] in ("pandas", "pyarrow") for name in found), path


def test_without_pandas_other_tables_and_arrays_are_read(tmp_path):
    code = """
import sys
sys.modules["pandas"] = sys.modules["pyarrow"] = None
import numpy as np, itofit
from itofit.data.reading.files import read_transitions
np.savez("data.npz", state=[0.0, 1.0, 5.0, 6.0, 8.0], time=[0.0, 1.0, 0.0, 1.0, 2.0], track=["b", "b", "a", "a", "a"])
data = read_transitions("data.npz")
assert data.groups.tolist() == ["b", "a", "a"], data.groups
assert data.increments.ravel().tolist() == [1.0, 1.0, 2.0]
open("data.csv", "w").write("time,x\\n0,1\\n1,2\\n")
open("data.parquet", "w").write("PAR1")
for name in ("data.csv", "data.parquet"):
    try:
        read_transitions(name)
    except ImportError as error:
        assert isinstance(error, itofit.InputError)
        assert 'pip install "itofit[data]"' in str(error), error
    else:
        raise AssertionError(name)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, timeout=120)


# And back


@pytest.fixture(scope="module")
def sde():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    return fit(Transitions.from_pairs(x, 0.9 * x + 0.1 * rng.normal(size=(200, 2)), 0.1, names=["a", "b"]), rng=0)


def test_simulated_paths_as_a_table(sde):
    start = [[0.0, 0.0], [0.1, 0.1], [0.2, 0.0]]
    paths = sde.simulate(start, 0.05, 4, rng=1)
    table = sde.simulate(start, 0.05, 4, rng=1, as_frame=True)
    assert table.columns.tolist() == ["track", "time", "a", "b"]
    equal(table[["a", "b"]].to_numpy().reshape(3, 5, 2), paths)
    equal(table["track"], np.repeat([0, 1, 2], 5))
    equal(table["time"], np.tile(0.05 * np.arange(5), 3))
    again = read(table, time="time", state=["a", "b"], track="track")
    expected = Transitions.from_trajectories(paths, dt=0.05, names=["a", "b"])
    equal(again.increments, expected.increments)
    equal(again.groups, expected.groups)
    assert again.input_names == expected.input_names
    np.testing.assert_allclose(again.h, expected.h)


def test_simulated_positions_and_velocities_as_a_table():
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=(2, 200))
    data = Transitions.from_underdamped(x, v, x + 0.1 * v, 0.9 * v - 0.1 * x + 0.1 * rng.normal(size=200), 0.1)
    table = fit(data, rng=0).simulate([0.0, 0.0], 0.1, 2, rng=0, as_frame=True)
    assert table.columns.tolist() == ["track", "time", "x", "v"]


def test_a_variable_called_time_cannot_be_in_the_table(sde):
    rng = np.random.default_rng(0)
    x = rng.normal(size=100)
    clash = fit(Transitions.from_pairs(x, x + rng.normal(size=100), 0.1, names="time"), rng=0)
    with pytest.raises(InputError, match="needs the column 'time', but a variable is called so"):
        clash.simulate([0.0], 0.1, 2, as_frame=True)
    with pytest.raises(InputError, match="as_frame must be True or False"):
        sde.simulate([0.0, 0.0], 0.1, 2, as_frame="yes")
