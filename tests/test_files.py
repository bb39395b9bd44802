import gzip
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import itofit.files
from itofit import DataWarning, InputError, Transitions, fit
from itofit.data.large.parts import PartedTransitions
from itofit.data.reading.files import read_transitions

equal = np.testing.assert_array_equal
KINDS = [".csv", ".csv.gz", ".tsv", ".parquet", ".npz", ".txt", ".jsonl", ".jsonl.xz", ".feather", ".arrow", ".xlsx"]


def tracks(n_tracks=7, n_rows=12, seed=0, gaps=0.1):
    """A table of tracks with irregular times and gaps."""
    rng = np.random.default_rng(seed)
    n = n_tracks * n_rows
    table = pd.DataFrame({"track": np.repeat(np.arange(n_tracks), n_rows)})
    table["time"] = np.cumsum(rng.uniform(0.1, 0.3, (n_tracks, n_rows)), axis=1).ravel()
    table["x"], table["y"] = rng.normal(size=(2, n))
    table.loc[rng.random(n) < gaps, "x"] = np.nan
    return table.round(12)  # some programs write 15 digits


def written(table, path):
    name = path.name
    if name.endswith((".csv", ".csv.gz")):
        table.to_csv(path, index=False)
    elif name.endswith(".tsv"):
        table.to_csv(path, index=False, sep="\t")
    elif name.endswith(".txt"):
        table.to_csv(path, index=False, sep=" ", na_rep="nan")
    elif name.endswith((".jsonl", ".jsonl.xz")):
        table.to_json(path, orient="records", lines=True, double_precision=15)
    elif name.endswith(".feather"):
        table.to_feather(path, chunksize=30)
    elif name.endswith(".arrow"):
        whole = pyarrow.Table.from_pandas(table)
        with pyarrow.ipc.new_stream(path, whole.schema) as stream:
            stream.write_table(whole, max_chunksize=30)
    elif name.endswith(".xlsx"):
        table.to_excel(path, index=False)
    elif name.endswith(".parquet"):
        table.to_parquet(path, row_group_size=30)
    else:
        np.savez(path, **{column: table[column].to_numpy() for column in table})
    return path


def text_file(path, text):
    path.write_text(text)
    return path


def gathered(data):
    assert not data.in_memory
    return Transitions.concatenate(list(data.blocks()))


def assert_same(found, expected):
    for name in ("inputs", "increments", "h"):
        equal(getattr(found, name), getattr(expected, name))
    assert found.kind == expected.kind
    assert (found.input_names, found.output_names) == (expected.input_names, expected.output_names)
    if expected.groups is None:
        assert found.groups is None
    else:
        equal(found.groups.astype(str), expected.groups.astype(str))


# Whole and in parts


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_the_table_it_was_written_from(tmp_path, kind):
    table = tracks()
    expected = Transitions.from_dataframe(table, time="time", state=["x", "y"], track="track")
    path = written(table, tmp_path / f"data{kind}")
    whole = read_transitions(path)
    assert isinstance(whole, Transitions)
    assert_same(whole, expected)
    assert_same(read_transitions(str(path), time="time", state=["x", "y"], track="track"), expected)


@pytest.mark.parametrize("chunk_rows", [1, 2, 5, 12, 30, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_in_parts_is_the_same(tmp_path, kind, chunk_rows):
    path = written(tracks(), tmp_path / f"data{kind}")
    data = read_transitions(path, chunk_rows=chunk_rows)
    assert_same(gathered(data), read_transitions(path))
    assert_same(gathered(data), read_transitions(path))  # and again


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    chunk_rows=st.integers(1, 8),
    alternate=st.booleans(),
    timed=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_tracks_go_on_from_part_to_part(tmp_path_factory, lengths, chunk_rows, alternate, timed, seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"track": np.repeat(np.arange(len(lengths)), lengths)})
    table["time"] = np.concatenate([np.cumsum(rng.uniform(0.1, 1.0, n)) for n in lengths])
    table["x"] = np.where(rng.random(len(table)) < 0.15, np.nan, np.arange(len(table)))
    if alternate:
        table = table.sort_values("time")
    path = written(table, tmp_path_factory.mktemp("files") / "data.csv")
    how = {"state": "x"} | ({"time": "time"} if timed else {"dt": 0.5})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # tracks of one row
        try:
            whole = read_transitions(path, **how)
        except InputError:
            with pytest.raises(InputError, match="holds no transition"):
                len(read_transitions(path, chunk_rows=chunk_rows, **how))
            return
        parts = gathered(read_transitions(path, chunk_rows=chunk_rows, **how))
    a, b = (np.argsort(data.inputs[:, 0]) for data in (whole, parts))
    assert_same(parts[b], whole[a])


def test_large_files_are_read_in_parts(tmp_path, monkeypatch):
    for kind in KINDS:
        path = written(tracks(), tmp_path / f"data{kind}")
        assert isinstance(read_transitions(path), Transitions)
        with monkeypatch.context() as patch:
            patch.setattr(itofit.files, "LARGE_FILE", 500)
            patch.setattr(itofit.files, "CHUNK_ROWS", 9)
            assert_same(gathered(read_transitions(path)), gathered(read_transitions(path, chunk_rows=1000)))


def test_a_model_is_the_same_from_parts(tmp_path):
    rng = np.random.default_rng(0)
    x = np.zeros((20, 50))
    for i in range(49):
        x[:, i + 1] = 0.9 * x[:, i] + 0.3 * rng.normal(size=20)
    table = pd.DataFrame({"track": np.repeat(np.arange(20), 50), "time": np.tile(0.1 * np.arange(50), 20)})
    path = written(table.assign(height=x.ravel()), tmp_path / "data.csv")
    a, b = (fit(read_transitions(path, chunk_rows=rows), rng=0) for rows in (None, 64))
    grid = np.linspace(-1, 1, 20)
    np.testing.assert_allclose(a.drift(grid), b.drift(grid), rtol=1e-9)
    assert a.input_names == b.input_names == ("height",)
    assert b.data.n_groups == 20


def test_a_file_in_parts_can_be_pickled(tmp_path):
    data = read_transitions(written(tracks(), tmp_path / "data.csv"), chunk_rows=10)
    assert_same(gathered(pickle.loads(pickle.dumps(data))), gathered(data))


def test_dates_in_parts(tmp_path):
    table = tracks().drop(columns="time")
    table["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(len(table)) * 90, unit="s")
    for kind in (".csv", ".parquet"):
        path = written(table, tmp_path / f"data{kind}")
        data = read_transitions(path, time="when", unit="min")
        np.testing.assert_allclose(data.h, 1.5, rtol=1e-12)
        assert_same(gathered(read_transitions(path, time="when", unit="min", chunk_rows=7)), data)
        with pytest.raises(InputError, match="give unit="):
            read_transitions(path, time="when")


def test_a_part_without_any_date(tmp_path):
    text = "time,x\n2024-01-01,0\n2024-01-02,1\n,2\n,3\n2024-01-05,4\n2024-01-06,5\n"
    path = text_file(tmp_path / "data.csv", text)
    data = read_transitions(path, unit="D")
    equal(data.inputs.ravel(), [0, 4])
    assert_same(gathered(read_transitions(path, unit="D", chunk_rows=2)), data)


def test_dates_in_arrays(tmp_path):
    days = np.arange("2024-01-01", "2024-01-06", dtype="datetime64[D]")
    for times in (days, days.astype(str), days - days[0]):
        np.savez(tmp_path / "data.npz", state=np.arange(5.0), time=times)
        equal(read_transitions(tmp_path / "data.npz", unit="h").h, [24, 24, 24, 24])


def test_times_that_are_whole_numbers_in_some_parts_alone(tmp_path):
    path = text_file(tmp_path / "data.csv", "time,x\n1,0\n2,1\n2.5,3\n4.5,4\n6,7\n7,8\n")
    data = gathered(read_transitions(path, chunk_rows=2))
    equal(data.h, [1, 0.5, 2, 1.5, 1])
    assert_same(data, read_transitions(path))


def test_labels_that_are_numbers_in_some_parts_alone(tmp_path):
    path = text_file(tmp_path / "data.csv", "track,time,x\n1,0,0\n1,1,1\n07,0,3\n07,1,4\n1b,0,7\n1b,1,8\n")
    data = gathered(read_transitions(path, chunk_rows=2))
    equal(data.groups, ["1", "07", "1b"])
    assert_same(data, read_transitions(path))


def test_velocities(tmp_path):
    path = written(tracks(), tmp_path / "data.csv")
    data = read_transitions(path, state="x", velocity="y")
    assert data.kind == "underdamped"
    assert data.input_names == ("x", "y")
    assert_same(gathered(read_transitions(path, state="x", velocity="y", chunk_rows=5)), data)
    assert_same(read_transitions(path, velocity="y"), data)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk_rows", [None, 5])
def test_limits_of_time_steps(tmp_path, kind, chunk_rows):
    path = written(tracks(gaps=0), tmp_path / f"data{kind}")
    everything = read_transitions(path)
    kept = (everything.h >= 0.15) & (everything.h <= 0.25)
    assert 0 < kept.sum() < len(kept)
    data = read_transitions(path, min_h=0.15, max_h=0.25, chunk_rows=chunk_rows)
    assert_same(data if chunk_rows is None else gathered(data), everything[kept])
    with pytest.raises(InputError, match=r"no transition took a time between min_h and max_h: they took 0\.1"):
        len(read_transitions(path, max_h=0.01, chunk_rows=chunk_rows))


@pytest.mark.parametrize("chunk_rows", [None, 4])
def test_limits_of_time_steps_in_arrays(tmp_path, chunk_rows):
    np.savez(tmp_path / "data.npz", x0=X0, x1=X1, h=np.arange(1.0, 26))
    data = read_transitions(tmp_path / "data.npz", min_h=3, max_h=20, chunk_rows=chunk_rows)
    equal((data if chunk_rows is None else gathered(data)).h, np.arange(3, 21))
    with pytest.raises(InputError, match="no transition took a time between min_h and max_h: they took 1 to 25"):
        len(read_transitions(tmp_path / "data.npz", min_h=100, chunk_rows=chunk_rows))


def test_limits_of_time_steps_bear_rounding(tmp_path):
    table = pd.DataFrame({"time": 1000 + 0.05 * np.arange(200), "x": np.arange(200.0) ** 0.5})
    path = written(table, tmp_path / "data.csv")
    h = read_transitions(path).h
    assert h.min() < 0.05 < h.max()
    assert len(read_transitions(path, min_h=0.05, max_h=0.05)) == 199
    with pytest.raises(InputError, match="min_h must be at most max_h, got 2 and 1"):
        read_transitions(path, min_h=2, max_h=1)
    with pytest.raises(InputError, match="max_h must be a number > 0"):
        read_transitions(path, max_h=0)


# Warnings and what parts need


def test_what_is_left_out_is_said_once(tmp_path):
    path = text_file(tmp_path / "data.csv", "track,time,x\na,0,1\na,1,2\nb,0,5\n,0,5\n,1,6\na,2,3\n")
    with pytest.warns(DataWarning) as caught:
        read_transitions(path)
    said = sorted(str(warning.message) for warning in caught)
    assert said == [
        "1 of 2 tracks has one row and was left out: a move needs two",
        "2 rows have no track and were left out",
    ]
    data = read_transitions(path, chunk_rows=2)
    with pytest.warns(DataWarning) as caught:
        assert len(data) == 2
    assert sorted(str(warning.message) for warning in caught) == said
    list(data.blocks())


def test_unsorted_times_are_sorted(tmp_path):
    path = text_file(tmp_path / "data.csv", "track,time,x\na,0,1\na,2,3\na,1,2\nb,0,1\nb,1,2\n")
    for chunk_rows in (None, 1, 2, 3, 100):
        with pytest.warns(DataWarning, match="the rows of 1 of 2 tracks"):
            equal(all_of(read_transitions(path, chunk_rows=chunk_rows)).h, [1, 1, 1])


def all_of(data):
    return data if isinstance(data, Transitions) else gathered(data)


def test_unsorted_times_of_arrays_are_sorted_in_whole_files_alone(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, track=[0, 0, 0, 1, 1], time=[0, 2, 1, 0, 1], x=[1.0, 3.0, 2.0, 1.0, 2.0])
    with pytest.warns(DataWarning, match="the rows of 1 of 2 tracks"):
        equal(read_transitions(path).h, [1, 1, 1])
    for chunk_rows in (2, 3, 100):
        with pytest.raises(
            InputError, match=r"data\.npz: the times of track 0 go backward to 1 in row 2: .* sorted by"
        ):
            len(read_transitions(path, chunk_rows=chunk_rows))


def test_a_time_that_occurs_twice(tmp_path):
    path = text_file(tmp_path / "data.csv", "track,time,x\na,0,1\na,1,3\na,1,2\nb,0,1\n")
    with pytest.raises(InputError, match=r"data\.csv: track a has the time 1 twice, in line 3 and in line 4"):
        read_transitions(path)
    with pytest.raises(InputError, match=r"time 1 twice, in line 3 of .*data\.csv and in line 4 of .*data\.csv"):
        len(read_transitions(path, chunk_rows=1))


# CSV


@pytest.mark.parametrize("chunk_rows", [None, 2])
def test_text_among_numbers_is_found_in_its_line(tmp_path, chunk_rows):
    text = 'name,time,x\n"a\nb",0,1\n\nc,1,2\n   \nd,2,\ne,3,oops\n'
    for name in ("data.csv", "data.csv.gz"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
        with pytest.raises(InputError, match=rf"{name}: column 'x' must hold numbers, got 'oops' in line 8"):
            len(read_transitions(path, chunk_rows=chunk_rows))


@pytest.mark.parametrize("kind", [".parquet", ".npz"])
def test_text_among_numbers_is_found_in_its_row(tmp_path, kind):
    table = tracks().assign(x=[*["1.5"] * 50, "oops", *["2.5"] * 33])
    path = written(table.astype({"x": str}), tmp_path / f"data{kind}") if kind == ".parquet" else tmp_path / "data.npz"
    if kind == ".npz":
        np.savez(path, x=table["x"].to_numpy(dtype="U5"), time=table["time"], track=table["track"])
    for chunk_rows in (None, 7):
        with pytest.raises(InputError, match="column 'x' must hold numbers, got 'oops' in row 50"):
            len(read_transitions(path, state="x", chunk_rows=chunk_rows))


@settings(max_examples=25, deadline=None)
@given(
    quotes=st.sampled_from(["none", "names", "line breaks"]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    separator=st.sampled_from([",", ";", "\t"]),
    blank=st.booleans(),
    mark=st.booleans(),
    closed=st.booleans(),
    chunk_rows=st.integers(2, 15),
    seed=st.integers(0, 1000),
)
def test_a_file_in_ranges_is_the_whole_file(
    tmp_path_factory, quotes, end, separator, blank, mark, closed, chunk_rows, seed
):
    rng = np.random.default_rng(seed)
    blank &= end != "\r"  # pandas loses lines there
    lines = [separator.join(['"a name"' if quotes == "names" else "name", "track", "time", "x"])]
    for i in range(30):
        name = {"none": "é" * rng.integers(5), "names": '"say ""x"""', "line breaks": f'"{i}{end}{end}"'}[quotes]
        lines.append(separator.join([name, str(i // 10), repr(0.1 * (i % 10)), repr(float(rng.normal()))]))
        lines += [""] * (blank and rng.random() < 0.2)
    text = end * blank + end.join(lines) + end * closed
    path = tmp_path_factory.mktemp("files") / "data.csv"
    path.write_bytes(text.encode("utf-8-sig" if mark else "utf-8"))
    data = read_transitions(path, state="x", chunk_rows=chunk_rows)
    assert_same(gathered(data), read_transitions(path, state="x"))
    if end != "\r" and chunk_rows < 8:
        assert len(data.parts) > 2


def test_line_breaks_within_quotes_that_come_late(tmp_path, monkeypatch):
    monkeypatch.setattr("itofit.data.reading.csv_ranges.BEGINNING", 40)
    rows = [f"{i},{i}," for i in range(20)]
    rows[10] = '10,10,"a' + 50 * "\n" + '"'
    path = text_file(tmp_path / "data.csv", "\n".join(["time,x,name", *rows]) + "\n")
    assert len(read_transitions(path)) == 19
    with pytest.raises(InputError, match=r"data\.csv: there is a line break within quotes near byte \d+, .* Parquet"):
        len(read_transitions(path, state="x", chunk_rows=3))


def test_a_large_file_is_read_by_threads_and_workers(tmp_path):
    path = written(tracks(), tmp_path / "data.csv")
    data = read_transitions(path, chunk_rows=10)
    assert isinstance(data, PartedTransitions)
    assert len(data.parts) > 4
    assert re.fullmatch(r".*data\.csv, bytes \d+ to \d+", data.parts[1].name)


def test_blank_lines_in_a_single_column_are_gaps(tmp_path):
    path = text_file(tmp_path / "data.csv", "x\n0\n1\n\n5\n6\n")
    for data in (read_transitions(path, dt=0.1), gathered(read_transitions(path, dt=0.1, chunk_rows=1))):
        equal(data.inputs.ravel(), [0, 5])
    bad = text_file(tmp_path / "bad.csv", "x\n0\n1\n\noops\n6\n")
    for chunk_rows in (None, 1):
        with pytest.raises(InputError, match="'oops' in line 5"):
            len(read_transitions(bad, dt=0.1, chunk_rows=chunk_rows, state="x"))


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_separators_and_marks(tmp_path, separator, mark):
    text = mark + "time,x,y\n0,1,2\n1,3,5\n".replace(",", separator)
    path = tmp_path / "data.csv"
    path.write_text(text, encoding="utf-8")
    equal(read_transitions(path).increments, [[2, 3]])


def test_spaces_around_names_and_values(tmp_path):
    path = text_file(tmp_path / "data.csv", 'Time, x , "a, b"\r\n0, 1, 2\r\n1, 3, 5\r\n')
    data = read_transitions(path)
    equal(data.increments, [[2, 3]])
    assert data.input_names == ("x", "a, b")
    assert_same(gathered(read_transitions(path, chunk_rows=1)), data)


def test_names_for_nothing_and_names_of_several_lines(tmp_path):
    path = text_file(tmp_path / "data.csv", 't,"x\n[m]",note,\n0,1,NA,\n1,NaN,,\n2,3,,\n3,4,,\n')
    data = read_transitions(path)
    equal(data.increments, [[1]])
    assert data.input_names == ("x\n[m]",)


def test_a_column_of_two_roles(tmp_path):
    path = written(tracks(), tmp_path / "data.csv")
    with pytest.raises(InputError, match=r"the column 'x' is named twice, as state= and as velocity="):
        read_transitions(path, state="x", velocity="x")


def test_columns_that_are_not_taken_for_the_state(tmp_path):
    table = tracks()[["track", "time", "x"]].assign(note="text", seen=True, empty=np.nan)
    path = tmp_path / "data.csv"
    table.to_csv(path)  # with an index
    assert read_transitions(path).input_names == ("x",)
    assert read_transitions(path, dt=0.1).input_names == ("x",)
    table.to_parquet(tmp_path / "data.parquet")
    assert read_transitions(tmp_path / "data.parquet").input_names == ("x",)


def test_simulated_paths_come_back(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    sde = fit(Transitions.from_pairs(x, 0.9 * x + 0.1 * rng.normal(size=x.shape), 0.1, names=["a", "b"]), rng=0)
    table = sde.simulate(x[:3] / 10, 0.1, 20, rng=0, as_frame=True)
    data = read_transitions(written(table, tmp_path / "data.csv"))
    assert len(data) == 60
    assert data.input_names == ("a", "b")


BAD_TEXT = {
    "empty": ("", "holds nothing"),
    "blank": ("\n\n", "holds nothing"),
    "header alone": ("time,x\n", "holds names of columns and no rows"),
    "no header": ("0,1\n1,2\n", r"the first line must name the columns, got numbers \(0,1\)"),
    "long lines": ("time,x\n0,1,5\n1,2,5\n", "lines have more values than the header has names"),
    "a long line": ("time,x\n0,1\n1,2,5\n", "cannot be read: .* line 3"),
    "a column twice": ("time,x,x\n0,1,2\n", "several columns are called 'x'"),
    "decimal commas": (
        "time;x\n0;1,5\n1;2,5\n",
        "column 'x' must hold numbers, got '1,5' in line 2; write decimals with a point",
    ),
    "no numbers": ("time,x\n0,a\n1,b\n", "no column holds numbers that could be a state; the columns are 'time', 'x'"),
    "no time": ("x,y\n0,1\n1,2\n", "give time=, the column of times, or dt=.*; the columns are 'x', 'y'"),
    "infinite": ("time,x\n0,1\n1,inf\n2,3\n", "column 'x' must be finite or missing: .* the first in line 3"),
    "one row": ("time,x\n0,1\n", "there is no transition"),
}


@pytest.mark.parametrize(("text", "message"), BAD_TEXT.values(), ids=BAD_TEXT)
def test_texts_that_cannot_be_read(tmp_path, text, message):
    path = text_file(tmp_path / "data.csv", text)
    with pytest.raises(InputError, match=rf"data\.csv: {message}"):
        read_transitions(path)


def test_arguments_that_do_not_fit(tmp_path):
    path = written(tracks(), tmp_path / "data.csv")
    for chunk_rows in (None, 5):
        with pytest.raises(InputError, match=r"data\.csv: state: there is no column 'X' \(is it 'x' that you mean"):
            read_transitions(path, state="X", chunk_rows=chunk_rows)
        with pytest.raises(InputError, match="not both"):
            read_transitions(path, time="time", dt=1.0, chunk_rows=chunk_rows)
    with pytest.raises(InputError, match="chunk_rows must be a whole number >= 1"):
        read_transitions(path, chunk_rows=0)
    with pytest.raises(InputError, match=r"path must be the path of a file or a directory, .* got int"):
        read_transitions(5)


# Files that are not there, or something else


def test_files_that_are_not_there(tmp_path):
    written(tracks(), tmp_path / "tracks.csv")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*track\.csv \(is it tracks\.csv that you mean\?\)"):
        read_transitions(tmp_path / "track.csv")
    for name in ("nowhere/data.csv", "something.csv"):
        with pytest.raises(FileNotFoundError, match=r"there is no file .*\.csv$"):
            read_transitions(tmp_path / name)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty holds no file that ends in \.parquet, \.pq, \.csv"):
        read_transitions(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match=r"no file matches .*\*\.parquet"):
        read_transitions(tmp_path / "*.parquet")


@pytest.mark.parametrize("name", ["data.xls", "data", "data.mat", "data.json"])
def test_kinds_that_are_not_known(tmp_path, name):
    path = text_file(tmp_path / name, "time,x\n0,1\n")
    with pytest.raises(InputError, match=r"of a kind that cannot be read: expected \.csv, .*from_dataframe"):
        read_transitions(path)


@pytest.mark.parametrize(
    "kind",
    [".csv", ".csv.gz", ".txt", ".jsonl", ".jsonl.xz", ".parquet", ".npz", ".npy", ".feather", ".arrow", ".xlsx"],
)
def test_files_that_are_something_else(tmp_path, kind):
    path = tmp_path / f"data{kind}"
    path.write_bytes(bytes(range(128, 256)) * 10)
    for chunk_rows in (None, 5):
        with pytest.raises(InputError, match=rf"data{kind}: cannot be read"):
            read_transitions(path, chunk_rows=chunk_rows)


@pytest.mark.parametrize("kind", [".csv.gz", ".parquet", ".npz", ".jsonl.xz", ".feather", ".xlsx"])
def test_files_that_are_cut_off(tmp_path, kind):
    path = written(tracks(), tmp_path / f"data{kind}")
    path.write_bytes(path.read_bytes()[:-40])
    for chunk_rows in (None, 5):
        with pytest.raises(InputError, match=rf"data{kind}: cannot be read"):
            len(read_transitions(path, chunk_rows=chunk_rows))


def test_a_file_that_changes_between_passes(tmp_path):
    path = written(tracks(), tmp_path / "data.csv")
    data = read_transitions(path, chunk_rows=10)
    len(data)
    written(tracks(seed=1), path)
    with pytest.raises(InputError, match="in an earlier pass"):
        list(data.blocks())


def test_an_empty_parquet_file(tmp_path):
    path = written(tracks().iloc[:0], tmp_path / "data.parquet")
    with pytest.raises(InputError, match="holds names of columns and no rows"):
        read_transitions(path)


# NPZ


RNG = np.random.default_rng(0)
X0, X1 = RNG.normal(size=(2, 25, 2))


def without_groups(data):
    return Transitions(data.inputs, data.increments, data.h, None, data.kind, data.input_names, data.output_names)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("chunk_rows", [None, 4, 100])
@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"x0": X0, "x1": X1, "h": 0.1}, Transitions.from_pairs(X0, X1, 0.1)),
        (
            {"x0": X0, "x1": X1, "h": np.arange(1, 26), "groups": np.arange(25) // 5, "other": "text"},
            Transitions.from_pairs(X0, X1, np.arange(1, 26), np.arange(25) // 5),
        ),
        (
            {"x0": X0, "v0": X1, "x1": X1, "v1": X0, "h": 0.1},
            Transitions.from_underdamped(X0, X1, X1, X0, 0.1),
        ),
        ({"inputs": X0, "increments": X1[:, :1], "h": 0.1}, Transitions(X0, X1[:, :1], 0.1)),
        (
            {"state": X0, "time": np.arange(25) ** 1.5, "note": 5.0},
            Transitions.from_trajectories(X0, times=np.arange(25) ** 1.5),
        ),
        (
            {"position": X0, "t": np.arange(25)},
            Transitions.from_trajectories(X0, dt=1, names=["position1", "position2"]),
        ),
    ],
)
def test_arrays_by_name(tmp_path, arrays, expected, chunk_rows, compressed):
    (np.savez_compressed if compressed else np.savez)(tmp_path / "data.npz", **arrays)
    data = read_transitions(tmp_path / "data.npz", chunk_rows=chunk_rows)
    found = data if chunk_rows is None else gathered(data)
    assert_same(found, expected if "groups" in arrays else without_groups(expected))


def test_arrays_with_one_step_for_all(tmp_path):
    np.savez(tmp_path / "data.npz", x0=X0, x1=X1)
    expected = Transitions.from_pairs(X0, X1, 0.2)
    assert_same(read_transitions(tmp_path / "data.npz", dt=0.2), expected)
    assert_same(gathered(read_transitions(tmp_path / "data.npz", dt=0.2, chunk_rows=7)), expected)
    with pytest.raises(InputError, match=r"there is no array h, .* give dt="):
        read_transitions(tmp_path / "data.npz")
    np.savez(tmp_path / "data.npz", x0=X0, x1=X1, h=0.1)
    with pytest.raises(InputError, match="h was given twice"):
        read_transitions(tmp_path / "data.npz", dt=0.2)


def test_arrays_stored_by_columns(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, state=np.asfortranarray(X0), time=np.arange(25))
    assert_same(read_transitions(path, track=None)[:], read_transitions(path)[:])
    equal(read_transitions(path).inputs, X0[:-1])
    with pytest.raises(
        InputError, match="state is stored by columns, which cannot be read in parts: save it in C order"
    ):
        read_transitions(path, chunk_rows=5)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"state": X0, "time": np.arange(24)}, "same number of rows.* got 25 in state, 24 in time"),
        ({"state": X0, "time": np.array([object()] * 25)}, "holds Python objects"),
        ({}, "names of columns and no rows"),
        ({"state": X0}, "give time=, the column of times, or dt="),
        ({"x0": X0, "x1": X1[:, :1], "h": 0.1}, "x1 must have the shape of x0"),
        ({"x0": X0, "x1": X1[:3], "h": 0.1}, "same number of rows.* got 25 in x0, 3 in x1"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, arrays, message):
    np.savez(tmp_path / "data.npz", **arrays)
    for chunk_rows in (None, 5):
        with pytest.raises(InputError, match=message):
            len(read_transitions(tmp_path / "data.npz", chunk_rows=chunk_rows))


def test_a_model_is_no_data(tmp_path):
    sde = fit(Transitions.from_pairs(X0, X1, 0.1), rng=0)
    sde.save(tmp_path / "sde.npz")
    with pytest.raises(InputError, match=r"sde\.npz: this is a learned model, not data: itofit\.load reads it"):
        read_transitions(tmp_path / "sde.npz", state="box", dt=1.0)
