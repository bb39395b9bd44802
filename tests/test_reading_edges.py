"""Where reading went wrong without a word, or refused what it should read: each test is of one such case."""

import os
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from itofit import DataWarning, InputError, Transitions, read_transitions
from itofit.cli.held_out import hold_out
from itofit.data.frames.table_columns import Table
from itofit.data.large.blocked import BlockedTransitions
from itofit.data.large.parts import PartedTransitions
from itofit.data.rows import VALIDATION
from itofit.data.stretch_split import STRETCH_ROWS, StretchSplit

equal = np.testing.assert_array_equal
DAY = pd.Timedelta(days=1)


def gathered(data):
    return data if isinstance(data, Transitions) else Transitions.concatenate(list(data.blocks()))


def series(n, seed=0):
    """A track of one variable that relaxes, observed at 0, 0.1, ..."""
    x = np.zeros(n)
    noise = np.random.default_rng(seed).normal(size=n)
    for i in range(1, n):
        x[i] = 0.9 * x[i - 1] + 0.3 * noise[i]
    return pd.DataFrame({"time": 0.1 * np.arange(n), "x": x})


def written(table, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    elif path.suffix == ".npz":
        np.savez(path, **{name: table[name].to_numpy() for name in table})
    elif path.suffix == ".npy":
        np.save(path, table.to_records(index=False))
    else:
        table.to_json(path, orient="records", lines=True, double_precision=15)
    return path


# Held out of data in parts


def n_cuts(data):
    """How often a transition does not start where the one before it ended."""
    whole = gathered(data)
    return int((~np.isclose(whole.inputs[:-1] + whole.increments[:-1], whole.inputs[1:])).any(axis=1).sum())


@pytest.mark.parametrize(("kind", "in_parts"), [(".csv", PartedTransitions), (".npz", BlockedTransitions)])
@pytest.mark.parametrize("second_order", [False, True])
def test_stretches_of_a_track_are_held_out_of_data_in_parts(tmp_path, kind, in_parts, second_order):
    path = written(series(1500), tmp_path / f"a{kind}")
    whole = hold_out(read_transitions(path, second_order=second_order), 0.1, 3)
    parts = read_transitions(path, second_order=second_order, chunk_rows=500)
    assert isinstance(parts, in_parts)
    for own, same in zip(hold_out(parts, 0.1, 3), whole, strict=True):
        equal(gathered(own).inputs, same.inputs)
        assert n_cuts(own) <= 2
        assert len(own) == len(same)


def test_positions_are_held_out_in_stretches_though_tracks_alternate(tmp_path):
    tables = [series(100, seed).assign(track=seed) for seed in range(3)]
    table = pd.concat(tables).sort_values(["time", "track"])
    data = read_transitions(written(table, tmp_path / "a.jsonl"), second_order=True, chunk_rows=3)  # a row of each
    train, rest = hold_out(data, 0.1, 0)
    assert n_cuts(data) > len(data) / 2
    at = np.flatnonzero(np.isin(gathered(data).inputs.ravel(), gathered(rest).inputs.ravel()))
    assert (np.diff(at) > 1).sum() <= 1
    assert len(train) + len(rest) == len(data)


def test_single_rows_are_held_out_where_rows_do_not_follow_each_other(tmp_path):
    x = np.random.default_rng(0).normal(size=(600, 2))
    np.savez(tmp_path / "pairs.npz", x0=x[:, 0], x1=x[:, 1], h=np.full(600, 0.1))
    train, rest = hold_out(read_transitions(tmp_path / "pairs.npz", chunk_rows=100), 0.1, 0)
    assert (len(train), len(rest)) == (540, 60)
    at = np.flatnonzero(np.isin(x[:, 0], gathered(rest).inputs.ravel()))
    assert (np.diff(at) == 1).mean() < 1 / 2


def test_too_few_rows_in_parts_to_hold_some_out(tmp_path):
    data = read_transitions(written(series(60), tmp_path / "a.csv"), chunk_rows=20)
    with pytest.warns(DataWarning, match=r"too few transitions \(59\) to hold some out"):
        assert hold_out(data, 0.1, 0) == (data, None)


def test_what_is_held_out_in_parts_keeps_its_units(tmp_path):
    for kind in (".csv", ".npz"):
        path = written(series(600), tmp_path / f"a{kind}")
        data = read_transitions(path, chunk_rows=100, units={"x": "mm"}, time_unit="s")
        for own in hold_out(data, 0.2, 0):
            assert own.units == data.units


@settings(max_examples=30)
@given(st.integers(40, 2 * 10**6), st.sampled_from([0.05, 0.1, 0.3, 0.5, 0.75]), st.integers(0, 99))
def test_a_split_in_stretches(n, share, seed):
    split = StretchSplit(seed, n, share)
    start = n // 3
    stop = min(n, start + 300_000)
    whole = split.held_out(0, n)
    equal(split.held_out(start, stop), whole[start:stop])
    equal(split.parts(0) == VALIDATION, whole[: 2**18])
    assert abs(whole.mean() - share) < 0.03 + 5 / n * split.n_together
    assert np.diff(np.flatnonzero(np.diff(whole))).min(initial=n) >= min(n // split.n_together, STRETCH_ROWS)
    equal(pickle.loads(pickle.dumps(split)).held_out(start, stop), whole[start:stop])


# Dates as a covariate


def daily(n=20):
    """A day a row, from the first of March 2024."""
    dates = pd.date_range("2024-03-01", periods=n, freq="D")
    return pd.DataFrame({"time": dates, "x": np.random.default_rng(0).normal(size=n)})


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
@pytest.mark.parametrize("chunk_rows", [None, 4])
def test_dates_as_a_covariate_are_the_same_in_all_data(tmp_path, kind, chunk_rows):
    table = daily()
    days = (table["time"] - pd.Timestamp(0)) // DAY
    for name, rows in (("all", table), ("later", table[10:])):
        path = written(rows, tmp_path / f"{name}{kind}")
        data = gathered(read_transitions(path, unit="D", covariates="time", chunk_rows=chunk_rows))
        equal(data.inputs[:, 1], days[rows.index[:-1]])
        equal(data.h, 1)
    season = read_transitions(path, unit="D", covariates="time", periodic={"time": 365.25}, chunk_rows=chunk_rows)
    equal(gathered(season).inputs[:, 1], days[10:-1] % 365.25)


def test_dates_as_a_covariate_do_not_depend_on_the_order_of_rows():
    table = daily()
    expected = Transitions.from_dataframe(table, time="time", state="x", unit="h", covariates="time")
    with pytest.warns(DataWarning, match="have been sorted"):
        data = Transitions.from_dataframe(table[::-1], time="time", state="x", unit="h", covariates="time")
    equal(data.inputs, expected.inputs)
    assert data.inputs[0, 1] == pd.Timestamp("2024-03-01").timestamp() / 3600


def test_missing_dates_and_durations_as_a_covariate():
    table = daily(6)
    table.loc[2, "time"] = pd.NaT
    data = Transitions.from_dataframe(table, time="time", state="x", unit="D", covariates="time")
    equal(np.diff(data.inputs[:, 1]), [3, 1])  # the row without a time is a gap
    table = daily(6).assign(time=pd.to_timedelta(np.arange(5, 11), unit="D"))
    data = Transitions.from_dataframe(table, time="time", state="x", unit="D", covariates="time")
    equal(data.inputs[:, 1], [5, 6, 7, 8, 9])


def test_large_whole_numbers_as_a_covariate_are_what_they_are():
    time = 2**60 + 1000 * np.arange(10)
    for rows in (slice(None), slice(4, None)):
        table = pd.DataFrame({"time": time[rows], "x": np.arange(10.0)[rows]})
        data = Transitions.from_dataframe(table, time="time", state="x", covariates="time")
        equal(data.inputs[:, 1], time[rows][:-1].astype(float))
        equal(data.h, 1000)


def test_dates_of_a_wide_table_may_drive(tmp_path):
    table = daily()
    path = written(table.rename(columns={"x": "cell1"}).assign(cell2=table["x"] + 1), tmp_path / "a.csv")
    data = read_transitions(path, unit="D", covariates="time", wide=True)
    assert data.input_names == ("x", "time")
    equal(data.inputs[[0, 19], 1], 19783)  # the first of March 2024, of both


# Several files that nothing tells apart


@pytest.mark.parametrize("kind", [".csv", ".parquet", ".npy"])
@pytest.mark.parametrize("chunk_rows", [None, 3])
def test_files_without_times_and_tracks_are_joined_with_a_warning(tmp_path, kind, chunk_rows):
    for i, start in enumerate((0, 100)):
        written(pd.DataFrame({"x": start + np.arange(5.0)}), tmp_path / f"r{i}{kind}")
    with pytest.warns(DataWarning, match=r"2 files without times and tracks .* track='__filename' if every") as caught:
        data = read_transitions(tmp_path, dt=0.1, chunk_rows=chunk_rows)
    assert caught[0].filename == __file__
    assert len(data) == 9
    data = gathered(read_transitions(tmp_path, dt=0.1, chunk_rows=chunk_rows, track="__filename"))
    equal(data.increments, 1)


def test_tracks_may_go_on_from_file_to_file_without_times(tmp_path):
    for i in range(2):
        written(pd.DataFrame({"x": 5.0 * i + np.arange(5), "id": 1}), tmp_path / f"{i}.csv")
    equal(read_transitions(tmp_path, dt=0.1, track="id").increments, np.ones((9, 1)))
    with pytest.warns(DataWarning, match="files without times and tracks"):
        read_transitions(tmp_path, dt=0.1, state="x")


def test_files_that_number_their_tracks_are_joined_with_a_warning(tmp_path):
    for i, start in enumerate((0, 100)):
        np.save(tmp_path / f"{i}.npy", start + np.arange(24.0).reshape(3, 4, 2))
    with pytest.warns(DataWarning, match=r"each of 2 files numbers its tracks .* track=\['__filename', 'track'\]"):
        assert len(read_transitions(tmp_path, dt=0.1)) == 21
    data = read_transitions(tmp_path, dt=0.1, track=["__filename", "track"])
    equal(data.increments, 2)
    assert len(np.unique(data.groups)) == 6


# Arrays that are columns, or transitions


def test_columns_called_x0_and_x1_are_columns(tmp_path):
    path, x = tmp_path / "a.npz", np.random.default_rng(0).normal(size=(50, 2))
    time = 0.1 * np.arange(50)
    np.savez(path, time=time, x0=x[:, 0], x1=x[:, 1])
    expected = Transitions.from_trajectories(x, times=time)
    for chunk_rows in (None, 7):
        data = gathered(read_transitions(path, chunk_rows=chunk_rows))
        equal(data.inputs, expected.inputs)
        assert data.input_names == ("x0", "x1")
        assert gathered(read_transitions(path, dt=1.0, chunk_rows=chunk_rows)).n_inputs == 2
    np.savez(path, track=np.repeat([0, 1], 25), x0=x[:, 0], x1=x[:, 1])
    assert len(read_transitions(path, dt=1.0)) == 48
    np.savez(path, time=time, x0=x[:, 0], x1=x[:, 1], h=np.full(50, 0.1))
    assert len(read_transitions(path)) == 50
    np.savez(path, x0=x[:, 0], x1=x[:, 1])
    message = r"no array h, .* if x0 and x1 are columns of observations, say so: state=\['x0', 'x1'\]"
    with pytest.raises(InputError, match=message):
        read_transitions(path)
    assert read_transitions(path, state=["x0", "x1"], dt=1.0).n_inputs == 2


@pytest.mark.parametrize("chunk_rows", [None, 10])
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"track": "nonsense"}, "for which track says nothing: leave it out, since tracks .* an array called groups"),
        ({"velocity": "nonsense"}, "for which velocity says nothing: .* arrays called v0 and v1"),
        ({"unit": "h"}, "for which unit says nothing: .* time_unit= tells"),
        ({"decimal": ","}, "for which decimal says nothing"),
        ({"dayfirst": True}, "for which dayfirst=True says nothing"),
        ({"second_order": True}, "for which second_order=True says nothing"),
    ],
)
def test_options_of_columns_are_refused_for_arrays_of_transitions(tmp_path, option, message, chunk_rows):
    np.savez(tmp_path / "a.npz", x0=np.zeros(50), x1=np.arange(50.0), h=np.ones(50))
    with pytest.raises(InputError, match=rf"a\.npz: .*{message}"):
        read_transitions(tmp_path / "a.npz", chunk_rows=chunk_rows, **option)
    data = read_transitions(tmp_path / "a.npz", chunk_rows=chunk_rows, time_unit="h")
    assert data.units.time == "h"


# Labels of tracks


@pytest.mark.parametrize("kind", [".csv", ".parquet", ".jsonl"])
@pytest.mark.parametrize("chunk_rows", [None, 2])
def test_labels_of_several_columns_do_not_collide(tmp_path, kind, chunk_rows):
    table = pd.DataFrame({"a": ["p, q"] * 3 + ["p"] * 3, "b": ["r"] * 3 + ["q, r"] * 3, "time": np.arange(6.0)})
    path = written(table.assign(x=np.arange(6.0)), tmp_path / f"a{kind}")
    data = gathered(read_transitions(path, track=["a", "b"], chunk_rows=chunk_rows))
    assert sorted(data.groups.tolist()) == ['"p, q", r'] * 2 + ['p, "q, r"'] * 2


@given(st.lists(st.tuples(*[st.text(alphabet='ab," ', min_size=1)] * 3), min_size=1, max_size=6, unique=True))
def test_joined_labels_tell_tracks_apart(labels):
    table = Table(
        {name: np.array(own, dtype=object) for name, own in zip("abc", zip(*labels, strict=True), strict=True)}
    )
    code, joined = table.labels(("a", "b", "c"))
    known = [all(part.strip() for part in own) for own in labels]  # others are missing
    assert ((code >= 0) == known).all()
    assert len(set(joined.tolist())) == len(joined) == sum(known)


def test_numbers_and_texts_that_look_the_same_are_no_labels(tmp_path):
    table = pd.DataFrame({"id": np.array([1, 1, "1", "1"], dtype=object), "x": np.arange(4.0)})
    with pytest.raises(InputError, match="track: column 'id' holds 1 and '1', which are two labels and the same text"):
        Transitions.from_dataframe(table, state="x", track="id", dt=1.0)
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"id": {label}, "x": {i}}}\n' for i, label in enumerate(["1", "1", '"1"', '"1"'])))
    with pytest.raises(InputError, match="column 'id' holds 1 and '1'"):
        read_transitions(path, track="id", dt=1.0)
    with pytest.raises(InputError, match="track: some rows have whole numbers and others do not"):
        len(read_transitions(path, track="id", dt=1.0, chunk_rows=2))
    mixed = table.assign(id=np.array([1, 1, "a", "a"], dtype=object))
    assert Transitions.from_dataframe(mixed, state="x", track="id", dt=1.0).groups.tolist() == ["1", "a"]


# Links


def test_a_directory_that_links_to_itself_is_read_once(tmp_path):
    own = tmp_path / "data" / "cell=1"
    written(series(20), own / "a.csv")
    (own / "loop").symlink_to(own)
    (own / "other").symlink_to(tmp_path / "data")
    (tmp_path / "data" / "again.csv").symlink_to(own / "a.csv")
    for path in (tmp_path / "data", tmp_path / "dat*", tmp_path / "data" / "*"):
        assert len(read_transitions(path, track="cell")) == 19
    with pytest.raises(InputError, match=r"names .*again\.csv twice, also as .*a\.csv"):
        read_transitions([own / "a.csv", tmp_path / "data" / "again.csv"])
    here = os.getcwd()
    os.chdir(own)
    try:
        with pytest.raises(InputError, match=r"twice, also as a\.csv"):
            read_transitions(["a.csv", own / "a.csv"])
    finally:
        os.chdir(here)


def test_links_to_directories_elsewhere_are_followed(tmp_path):
    written(series(20), tmp_path / "elsewhere" / "a.csv")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "cell=1").symlink_to(tmp_path / "elsewhere")
    assert len(read_transitions(tmp_path / "data", track="cell")) == 19


def test_every_file_below_a_pattern_is_read_once(tmp_path):
    written(series(20), tmp_path / "data" / "b" / "a.csv")
    (tmp_path / "data" / "a").symlink_to(tmp_path / "data" / "b")
    data = read_transitions(str(tmp_path / "data" / "**" / "*.csv"), track="__filename")
    assert set(data.groups.tolist()) == {str(tmp_path / "data" / "b" / "a.csv")}


# The name of a file that is alone


@pytest.mark.parametrize("kind", [".csv", ".parquet", ".jsonl", ".npz", ".npy"])
@pytest.mark.parametrize("chunk_rows", [None, 7])
def test_a_file_that_is_alone_has_a_name(tmp_path, kind, chunk_rows):
    path = written(series(20), tmp_path / "cell=7" / f"a{kind}")
    paths = [path] if kind == ".npz" else [path, path.parent, path.parent / f"*{kind}", [path]]
    for own in paths:
        data = gathered(read_transitions(own, track="__filename", chunk_rows=chunk_rows))
        assert set(data.groups.tolist()) == {str(path)}
        assert data.input_names == ("x",)
        if kind != ".npz":
            data = gathered(read_transitions(own, covariates="cell", chunk_rows=chunk_rows))
            equal(data.inputs[:, 1], 7)


# Columns with two roles


def test_a_column_has_one_role_in_tables_too():
    table = series(20).assign(v=0.0, id=1)
    for roles, message in (
        ({"state": ["time", "x"]}, "the column 'time' is named twice, as state= and as time="),
        ({"state": "x", "velocity": "x"}, "the column 'x' is named twice, as state= and as velocity="),
        ({"state": ["x", "id"], "track": "id"}, "the column 'id' is named twice, as state= and as track="),
        ({"state": "x", "covariates": "x"}, "the column 'x' is named twice, among covariates= and otherwise"),
    ):
        with pytest.raises(InputError, match=message):
            Transitions.from_dataframe(table, time="time", **roles)
