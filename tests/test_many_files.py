"""Many files are one table: the same transitions from the same rows, however they are cut, wherever they are."""

import pickle
import re
import warnings
from contextlib import contextmanager
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import itofit
from itofit import DataWarning, InputError, Transitions, read_transitions
from itofit.data.large.parts import PartedTransitions
from itofit.data.reading import interleaved
from itofit.data.reading.label_ranges import shared_ranges
from itofit.data.reading.parquet_files import ParquetSection

equal = np.testing.assert_array_equal


def tracks(lengths, seed=0, gaps=0.1):
    """Rows of tracks in order: x is the number of the row, so that transitions can be told apart."""
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    table = pd.DataFrame({"track": np.repeat(np.arange(len(lengths)), lengths)})
    table["time"] = np.concatenate([rng.uniform(0, 5) + np.cumsum(rng.uniform(0.1, 0.3, k)) for k in lengths])
    table["x"] = np.where(rng.random(n) < gaps, np.nan, np.arange(n, dtype=float))
    table["u"] = np.where(rng.random(n) < gaps / 2, np.nan, rng.normal(size=n))
    return table


def relaxing(n):
    """Tracks of 60 rows that relax."""
    rng = np.random.default_rng(0)
    x = np.zeros((n, 60))
    for i in range(59):
        x[:, i + 1] = 0.9 * x[:, i] + 0.3 * rng.normal(size=n)
    table = pd.DataFrame({"track": np.repeat(np.arange(n), 60), "time": np.tile(0.1 * np.arange(60), n)})
    return table.assign(x=x.ravel())


def written(table, path, row_group_size=1000):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path, index=False, row_group_size=row_group_size)
    return path


def cut(table, cuts):
    edges = [0, *sorted(cuts), len(table)]
    return [table.iloc[a:b] for a, b in pairwise(edges)]


def gathered(data):
    assert isinstance(data, PartedTransitions)
    whole = Transitions.concatenate(list(data.blocks()))
    assert len(data) == len(whole) == sum(data.lengths)
    return whole


def assert_same(found, expected, *, in_order=True):
    if not in_order:
        found, expected = (data[np.argsort(data.inputs[:, 0])] for data in (found, expected))
    for name in ("inputs", "increments", "h"):
        equal(getattr(found, name), getattr(expected, name))
    assert found._variables[:4] == expected._variables[:4]
    if expected.groups is None:
        assert found.groups is None
    else:
        equal(found.groups.astype(str), expected.groups.astype(str))


def quietly(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return function(*arguments, **options)


def attempt(function, *arguments, **options):
    """The result, or None if there is no transition."""
    try:
        return quietly(function, *arguments, **options)
    except InputError as error:
        if "no transition" not in str(error):
            raise
        return None


# Cut anywhere


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    cuts=st.lists(st.integers(0, 40), max_size=6),
    rows=st.integers(1, 12),
    group=st.integers(1, 7),
    kind=st.sampled_from([".parquet", ".csv"]),
    labels=st.sampled_from(["int", "str", "category", None]),
    clock=st.sampled_from(["time", "dates", "dt"]),
    order=st.sampled_from(["tracks", "times", "files shuffled", "rows shuffled", "one file, shuffled"]),
    window=st.sampled_from([1, 5, 20, 1000]),
    driven=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_files_are_one_table(
    tmp_path_factory, lengths, cuts, rows, group, kind, labels, clock, order, window, driven, seed
):
    rng = np.random.default_rng(seed)
    if labels is None:
        lengths = [sum(lengths)]
    table = tracks(lengths, seed)
    if clock == "dates":
        table["time"] = pd.Timestamp("2024-01-01") + pd.to_timedelta((table["time"] * 1e6).round(), unit="us")
    if order == "times" and clock != "dt":
        table = table.sort_values("time", kind="stable", ignore_index=True)
    if order == "one file, shuffled" and clock != "dt":
        table, cuts = table.sample(frac=1, random_state=seed), []
    pieces = cut(table, [c for c in cuts if c <= len(table)])
    if order == "files shuffled" and clock != "dt":
        rng.shuffle(pieces)
    if order == "rows shuffled" and clock != "dt":
        pieces = [piece.sample(frac=1, random_state=seed) for piece in pieces]
    if labels is None:
        pieces = [piece.drop(columns="track") for piece in pieces]
    if labels in ("str", "category"):
        pieces = [piece.assign(track=("t" + piece["track"].astype(str)).astype(labels)) for piece in pieces]
    folder = tmp_path_factory.mktemp("files")
    for i, piece in enumerate(pieces):
        written(piece, folder / f"part-{i}{kind}", group)
    how = {"state": "x"} | ({"dt": 0.5} if clock == "dt" else {"time": "time"})
    how |= {} if labels is None else {"track": "track"}
    how |= {"unit": "s"} if clock == "dates" else {}
    how |= {"covariates": "u"} if driven else {}
    expected = attempt(Transitions.from_dataframe, pd.concat(pieces), **how)
    whole = attempt(read_transitions, folder, **how)
    data = quietly(read_transitions, folder, chunk_rows=rows, **how)
    if expected is None:
        assert whole is None
        assert attempt(gathered, data) is None
        return
    assert_same(whole, expected)
    with windows_of(window):
        parts = quietly(gathered, data)
    assert_same(parts, expected, in_order=order == "tracks")


@contextmanager
def windows_of(n_rows, most_reads=1e9):
    """Rows in no order of time are read in windows of about so many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interleaved, "WINDOW_ROWS", (n_rows,))
        patch.setattr(interleaved, "MOST_READS", most_reads)
        yield


# In no order


def in_row_groups(pieces, path):
    """One file with these row groups."""
    with pq.ParquetWriter(path, pa.Table.from_pandas(pieces[0], preserve_index=False).schema) as writer:
        for piece in pieces:
            writer.write_table(pa.Table.from_pandas(piece, preserve_index=False))
    return path


def late(table, by):
    """Rows sorted by time over all tracks, but for delays of up to so many rows."""
    rng = np.random.default_rng(0)
    table = table.sort_values("time", kind="stable", ignore_index=True)
    return table.iloc[np.argsort(np.arange(len(table)) + rng.uniform(0, by, len(table)), kind="stable")]


ORDERS = {
    "row groups shuffled": lambda table: [
        cut(table, range(20, 400, 20))[i] for i in np.random.default_rng(0).permutation(20)
    ],
    "rows shuffled": lambda table: cut(table.sample(frac=1, random_state=0), range(20, 400, 20)),
    "every other row": lambda table: cut(pd.concat([table[::2], table[1::2]]), range(20, 400, 20)),
    "late rows": lambda table: cut(late(table, 15), range(20, 400, 20)),
}
HOW = {"time": "time", "state": "x", "track": "track"}


@pytest.mark.parametrize("window", [25, 60, 100_000])
@pytest.mark.parametrize("order", ORDERS)
def test_rows_of_one_file_in_any_order(tmp_path, order, window):
    pieces = ORDERS[order](tracks([150, 1, 80, 169]))
    path = in_row_groups(pieces, tmp_path / "rows.parquet")
    expected = quietly(Transitions.from_dataframe, pd.concat(pieces), **HOW)
    with windows_of(window):
        data = read_transitions(path, chunk_rows=45, **HOW)
        assert_same(quietly(gathered, data), expected, in_order=order != "late rows" or window > 1000)
        sections = {len(part.reading.sections) for part in data.parts if hasattr(part.reading, "window")}
    assert sections or order == "late rows"
    if order == "late rows" and window == 60:  # few are read for each window of times
        assert max(sections) <= 6
    if order == "row groups shuffled" and window == 60:
        assert max(sections) <= 6


def test_only_what_is_not_in_order_is_read_in_windows(tmp_path):
    table = tracks([50] * 8, gaps=0)
    for i, piece in enumerate(cut(table, range(100, 400, 100))):
        mixed = piece.sample(frac=1, random_state=0) if i == 2 else piece
        written(mixed, tmp_path / f"{i}.parquet", 20)
    with windows_of(50):
        data = read_transitions(tmp_path, chunk_rows=20, **HOW)
        assert_same(quietly(gathered, data), Transitions.from_dataframe(table, **HOW), in_order=False)
    names = [part.name for part in data.parts]
    assert sum("window" in name for name in names) == 2
    assert all("2.parquet" in name for name in names if "window" in name)
    assert len(names) == 15 + 2


@pytest.mark.parametrize("clock", ["time", "dt"])
@pytest.mark.parametrize("group", [40, 7, 200])
def test_of_the_last_part_of_a_stretch_the_beginning_is_read(tmp_path, monkeypatch, group, clock):
    monkeypatch.setattr(itofit.data.rows, "PASS_ROWS", 32)
    monkeypatch.setattr("itofit.data.large.stretches.MARGIN", 6)
    table = tracks([30, 200, 1, 300, 69], gaps=0.2)
    table.loc[[41, 80, 300], "time"] = np.nan
    how = {"state": "x", "track": "track", "covariates": "u"} | ({"time": "time"} if clock == "time" else {"dt": 0.1})
    expected = quietly(Transitions.from_dataframe, table, **how)
    path = written(table, tmp_path / "rows.parquet", group)
    data = read_transitions(path, chunk_rows=group, **how)
    quietly(len, data)
    begun, first_rows = [], ParquetSection.first_rows
    monkeypatch.setattr(
        ParquetSection, "first_rows", lambda own, *rest: begun.append(first_rows(own, *rest)) or begun[-1]
    )
    for n_threads in (1, 3, 8):
        blocks = [block for stretch in data.stretches(n_threads) for block in stretch.blocks({})]
        assert {len(block) for block in blocks[:-1]} == {32}
        assert_same(Transitions.concatenate(blocks), expected)
    assert any(table is not None for table in begun)
    part = data.parts[-1]
    assert_same(next(part.beginning(3))[:3], next(iter(part.blocks()))[:3])
    assert sum(len(block) for block in part.beginning(10**6)) == data.lengths[-1]


def test_the_same_model_to_the_last_bit_from_rows_in_any_order(tmp_path):
    table = relaxing(20).sample(frac=1, random_state=0)
    with pytest.warns(DataWarning, match="20 of 20 tracks were not in the order"):
        one = itofit.fit(Transitions.from_dataframe(table, **HOW), rng=0)
    path = in_row_groups(cut(table, range(100, 1200, 100)), tmp_path / "rows.parquet")
    data = read_transitions(path, chunk_rows=150)
    with windows_of(300), pytest.warns(DataWarning, match="20 of 20 tracks were not in the order"):
        other = itofit.fit(data, rng=0)
    assert len(data.parts) == 4
    grid = np.linspace(-1, 1, 20)
    equal(other.drift(grid, return_std=True), one.drift(grid, return_std=True))
    equal(other.covariance(grid, return_std=True), one.covariance(grid, return_std=True))


def test_rows_without_a_time_in_no_order(tmp_path):
    table = tracks([40, 40], gaps=0)
    mixed = pd.concat([table[::2], table[1::2]], ignore_index=True)
    mixed.loc[[5, 50, 51], "time"] = np.nan  # each follows a row in its row group
    pieces = cut(mixed, [20, 40, 60])
    path = in_row_groups(pieces, tmp_path / "rows.parquet")
    expected = quietly(Transitions.from_dataframe, mixed, **HOW)
    with windows_of(15):
        assert_same(quietly(gathered, read_transitions(path, chunk_rows=20, **HOW)), expected)
    mixed.loc[60, "time"] = np.nan  # the first of its row group
    path = in_row_groups(cut(mixed, [20, 40, 60]), tmp_path / "rows.parquet")
    expected = quietly(Transitions.from_dataframe, mixed, **HOW)
    data = read_transitions(path, chunk_rows=20, **HOW)
    with windows_of(15), pytest.raises(InputError, match=r"^row 60 has no time, and it is not known which row it foll"):
        len(data)
    with windows_of(1000):  # with all of its track
        assert_same(quietly(gathered, data), expected)


def test_the_same_time_in_two_row_groups(tmp_path):
    table = tracks([40], gaps=0)
    table.loc[33, "time"] = table.loc[3, "time"]
    path = in_row_groups(cut(table, [20]), tmp_path / "rows.parquet")
    with pytest.raises(
        InputError, match=r"track 0 has the time [0-9.]+ twice, in row 3 of .*rows.parquet and in row 33 of .*rows.parq"
    ):
        len(read_transitions(path, chunk_rows=20, **HOW))


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of dask.dataframe.read_parquet
def test_what_is_too_far_from_any_order_is_to_be_sorted_once(tmp_path):
    dask = pytest.importorskip("dask.dataframe")
    table = tracks([200] * 4, gaps=0)
    path = written(table.sample(frac=1, random_state=0), tmp_path / "rows.parquet", 20)
    data = read_transitions(path, chunk_rows=20, **HOW)
    with windows_of(20, most_reads=16), pytest.raises(InputError, match="read them 28 times; sort them once") as error:
        len(data)
    (advice,) = re.findall(r"as with (.*), and read the result", str(error.value))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        exec(advice, {"dask": SimpleNamespace(dataframe=dask)})
        found = read_transitions("sorted", chunk_rows=20, **HOW)
        assert_same(quietly(gathered, found), Transitions.from_dataframe(table, **HOW), in_order=False)


def test_the_same_model_from_any_files(tmp_path):
    table = relaxing(30)
    one = itofit.fit(Transitions.from_dataframe(table, time="time", state="x", track="track"), rng=0)
    grid = np.linspace(-1, 1, 20)
    for number, cuts in enumerate([[], [7, 900], list(range(50, 1800, 50))]):
        for i, piece in enumerate(cut(table, cuts)):
            written(piece, tmp_path / str(number) / f"{i}.parquet", 100)
        data = read_transitions(tmp_path / str(number), chunk_rows=150)
        assert isinstance(data, PartedTransitions)
        other = itofit.fit(data, rng=0)
        np.testing.assert_allclose(other.drift(grid), one.drift(grid), rtol=1e-10)
        np.testing.assert_allclose(other.covariance(grid), one.covariance(grid), rtol=1e-10)
        assert other.data.n_groups == 30


@pytest.mark.parametrize("how", [{"velocity": "v"}, {"second_order": True}, {"periodic": {"x": 10.0}}, {"max_h": 0.2}])
def test_options_mean_the_same(tmp_path, how):
    table = tracks([20, 30, 10], gaps=0)
    table["v"] = np.cos(table["x"])
    for i, piece in enumerate(cut(table, [5, 25, 26, 50])):
        written(piece, tmp_path / f"{i}.parquet", 4)
    options = {"time": "time", "state": "x", "track": "track"} | how
    assert_same(
        gathered(read_transitions(tmp_path, chunk_rows=6, **options)), Transitions.from_dataframe(table, **options)
    )


def test_time_as_a_covariate_counts_from_the_first(tmp_path):
    table = tracks([20, 20], gaps=0)
    table["time"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(table["time"], unit="h")
    for i, piece in enumerate(cut(table, [13, 30])):
        written(piece, tmp_path / f"{i}.parquet", 5)
    how = {"time": "time", "state": "x", "track": "track", "unit": "min", "covariates": "time"}
    assert_same(gathered(read_transitions(tmp_path, chunk_rows=5, **how)), Transitions.from_dataframe(table, **how))


def test_row_groups_that_are_large_are_read_in_batches(tmp_path):
    table = tracks([100, 3, 300])
    path = written(table, tmp_path / "one.parquet", 403)
    data = quietly(read_transitions, path, chunk_rows=10)
    assert_same(quietly(gathered, data), quietly(read_transitions, path), in_order=True)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=40))
def test_labels_that_units_have_in_common(pairs):
    ranges = [(low, low + length) for low, length in pairs]
    for i, (own, shared) in enumerate(zip(ranges, shared_ranges(ranges), strict=True)):
        others = [other for j, other in enumerate(ranges) if j != i]
        for label in range(own[0], own[1] + 1):
            common = any(low <= label <= high for low, high in others)
            if shared is None:
                assert len(others) >= 16
            else:
                assert common == any(low <= label <= high for low, high in shared)


def test_of_tracks_that_cannot_cross_nothing_is_told(tmp_path):
    lengths = [5] * 100 + [1]
    for labels in ("int", "str"):
        table = tracks(lengths, gaps=0)
        if labels == "str":
            table["track"] = table["track"].map("{:03d}".format)
        path = written(table, tmp_path / f"{labels}.parquet", 52)
        data = read_transitions(path, state="x", chunk_rows=100)
        seen = []

        def run(function, items, seen=seen):
            results = [function(item) for item in items]
            seen += [own for result in results if isinstance(result, dict) for own in result.values()]
            return results

        with pytest.warns(DataWarning, match="1 of 101 tracks has one row"):
            looked = data._layout.look(run)
        assert sum(looked.lengths) == 400
        assert len(seen) == len(looked.parts) == 5
        assert all(len(own.last.labels) <= 2 for own in seen)
        assert sum(own.n_inner + len(own.last.labels) for own in seen) == 101 + 4


def test_labels_that_are_almost_whole(tmp_path):
    for i, label in enumerate((1.0, 2.5)):
        written(tracks([5], gaps=0).assign(track=label), tmp_path / f"{i}.parquet")
    data = read_transitions(tmp_path, chunk_rows=5, state="x")
    with pytest.raises(
        InputError, match=r"'track' must be of one type, .* whole numbers in .*0\.parquet.* '2\.5' in .*1"
    ):
        len(data)


def test_warnings_are_given_once(tmp_path):
    table = tracks([4, 1, 6], gaps=0).sample(frac=1, random_state=0)
    table.loc[table.index[:2], "track"] = np.nan
    written(table, tmp_path / "0.parquet")
    other = tracks([1], gaps=0).assign(track=7)
    written(other, tmp_path / "1.parquet")
    how = {"time": "time", "state": "x", "track": "track"}
    with pytest.warns(DataWarning) as expected:
        Transitions.from_dataframe(pd.concat([table, other]), **how)
    data = read_transitions(tmp_path, chunk_rows=50, **how)
    with pytest.warns(DataWarning) as caught:
        len(data)
    messages = [[str(warning.message) for warning in own] for own in (caught, expected)]
    assert messages[0] == messages[1]
    assert len(messages[0]) == 3
    assert {warning.filename for warning in caught} == {__file__}
    gathered(data)


# Directories, patterns, lists, addresses


def test_what_a_path_may_be(tmp_path):
    table = tracks([30, 30, 30], gaps=0)
    pieces = cut(table, range(10, 90, 10))
    files = [written(piece, tmp_path / "data" / f"part.{i}.parquet") for i, piece in enumerate(pieces)]
    for name in ("_SUCCESS", ".part.0.parquet.crc", "_metadata.parquet", "notes.txt"):
        (tmp_path / "data" / name).write_text("no data")
    expected = Transitions.from_dataframe(table, time="time", state=["x", "u"], track="track")
    for path in (
        tmp_path / "data",
        str(tmp_path / "data" / "*.parquet").replace("*", "part.*"),
        str(tmp_path / "*" / "part.*.parquet"),
        [str(file) for file in files],
        files,
        [tmp_path / "data" / "part.[0-4].parquet", *files[5:]],
    ):
        assert_same(read_transitions(path), expected)
    whole = Transitions.from_dataframe(pd.concat(pieces[5:]), time="time", state=["x", "u"], track="track")
    assert_same(read_transitions(files[5:]), whole)
    assert_same(read_transitions(files[::-1], dt=1.0, state="x"), read_transitions(files[::-1], dt=1.0, state="x"))


def test_numbers_in_names_count(tmp_path):
    for i in range(12):
        written(pd.DataFrame({"x": [float(i), i + 0.5]}), tmp_path / f"part-{i}.csv")
    with pytest.warns(DataWarning, match="without times and tracks"):
        data = read_transitions(tmp_path, dt=1.0)
    equal(data.inputs.ravel(), np.arange(0, 11.5, 0.5))


def test_directories_named_after_columns(tmp_path):
    table = tracks([15, 12, 20, 9], gaps=0)
    table["dose"] = np.where(table["track"] < 2, 0.5, 2.0)
    for (dose, track), piece in table.groupby(["dose", "track"]):
        rest = piece.drop(columns=["dose", "track"])
        for i, part in enumerate(cut(rest, [5])):
            written(part, tmp_path / "parquet" / f"dose={dose}" / f"track={track}" / f"{i}.parquet", 3)
            written(part, tmp_path / "csv" / f"dose={dose}" / f"track={track}" / f"{i}.csv")
    how = {"time": "time", "state": "x", "covariates": "dose"}
    expected = Transitions.from_dataframe(table, track="track", **how)
    for kind in ("parquet", "csv"):
        assert_same(read_transitions(tmp_path / kind, **how), expected)
        assert_same(read_transitions(tmp_path / kind, track="track", **how), expected)
        assert_same(gathered(read_transitions(tmp_path / kind, chunk_rows=8, **how)), expected)
    assert read_transitions(tmp_path / "csv").input_names == ("x", "u")  # what directories say is no state


def test_directories_written_by_others(tmp_path):
    table = tracks([15, 12, 20], gaps=0).assign(track=np.repeat(["a b", "c/d", None], [15, 12, 20]))
    pq.write_to_dataset(pa.Table.from_pandas(table, preserve_index=False), tmp_path, partition_cols=["track"])
    with pytest.warns(DataWarning, match="20 rows have no track"):
        data = read_transitions(tmp_path, time="time", state="x")
    with pytest.warns(DataWarning, match="20 rows have no track"):
        expected = Transitions.from_dataframe(table, time="time", state="x", track="track")
    assert_same(data, expected, in_order=False)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_file_may_be_a_track(tmp_path, kind):
    table = tracks([15, 12, 20], gaps=0)
    files = [written(piece, tmp_path / f"{i}.{kind}") for i, piece in table.groupby("track")]
    expected = Transitions.from_dataframe(table, time="time", state="x", track="track")
    for chunk_rows in (None, 10):
        data = read_transitions(tmp_path, time="time", state="x", track="__filename", chunk_rows=chunk_rows)
        whole = data if chunk_rows is None else gathered(data)
        equal(whole.inputs, expected.inputs)
        assert sorted(set(whole.groups.tolist())) == [str(file) for file in files]


@pytest.mark.parametrize("kind", ["parquet", "csv", "csv.gz"])
def test_files_elsewhere(kind):
    fsspec = pytest.importorskip("fsspec")
    table = tracks([30, 20, 25])
    memory = fsspec.filesystem("memory")
    memory.rm("/tracks", recursive=True) if memory.exists("/tracks") else None
    for i, piece in enumerate(cut(table, [10, 11, 40, 40])):
        with memory.open(f"/tracks/cell={i % 2}/{i}.{kind}", "wb") as file:
            if kind == "parquet":
                piece.to_parquet(file, index=False, row_group_size=4)
            else:
                piece.to_csv(file, index=False, compression="gzip" if kind == "csv.gz" else None)
    how = {"time": "time", "state": "x", "track": "track"}
    expected = quietly(Transitions.from_dataframe, table, **how)
    for path in ("memory://tracks", f"memory://tracks/cell=*/*.{kind}", "memory:///tracks/"):
        assert_same(read_transitions(path, **how), expected, in_order=False)
        data = read_transitions(path, chunk_rows=9, **how)
        assert_same(gathered(pickle.loads(pickle.dumps(data))), expected, in_order=False)
    one = read_transitions(f"memory://tracks/cell=0/0.{kind}", **how)
    assert_same(one, quietly(Transitions.from_dataframe, table[:10], **how))
    with pytest.raises(FileNotFoundError, match=r"there is no file memory://tracks/nothing\.csv"):
        read_transitions("memory://tracks/nothing.csv")
    with pytest.raises(FileNotFoundError, match="no file matches memory"):
        read_transitions("memory://tracks/*.txt")
    with pytest.raises(InputError, match=r"nowhere://tracks cannot be opened: .*nowhere"):
        read_transitions("nowhere://tracks")


# What cannot be read


def test_rows_that_overlap_in_two_files(tmp_path):
    table = tracks([20, 20], gaps=0)
    written(table.iloc[:30:2], tmp_path / "one.parquet")
    written(pd.concat([table.iloc[1:30:2], table.iloc[30:]]), tmp_path / "two.parquet")
    with pytest.raises(
        InputError, match=r"rows of track 0 overlap in time: .*one\.parquet .* in .*two\.parquet; write"
    ):
        read_transitions(tmp_path, state="x")
    for chunk_rows in (15, 1000):  # in two parts, and both in one
        data = read_transitions(tmp_path, state="x", chunk_rows=chunk_rows)
        with pytest.raises(InputError, match=r"track 0 overlap in time: those in .*one\.parquet.* to .*two\.parquet"):
            len(data)


def test_overlap_of_dates_and_of_one_trajectory(tmp_path):
    times = pd.date_range("2024-01-01", periods=20, freq="h")
    for i, own in enumerate((times[:10], times[5:])):
        written(pd.DataFrame({"time": own, "x": np.arange(float(len(own)))}), tmp_path / f"{i}.csv")
    data = read_transitions(tmp_path, unit="h", chunk_rows=5)
    with pytest.raises(
        InputError, match=r"the trajectory overlap .* 2024-01-01T0[05]:00:00.* to 2024-01-01T09.*give track"
    ):
        len(data)
    with pytest.raises(InputError, match=r"the trajectory overlap in time|the trajectory has the time .* twice"):
        read_transitions(tmp_path, unit="h")


@pytest.mark.parametrize("chunk_rows", [None, 5])
def test_files_that_are_a_track_each_without_a_label(tmp_path, chunk_rows):
    for i in range(3):
        written(pd.DataFrame({"time": np.arange(5.0), "x": np.arange(5.0) + i}), tmp_path / f"{i}.csv")
    with pytest.raises(InputError, match=r"overlap in time: .* give track=, .* or track='__filename' if every file is"):
        len(read_transitions(tmp_path, chunk_rows=chunk_rows))
    assert len(read_transitions(tmp_path, chunk_rows=chunk_rows, track="__filename")) == 12


def test_ranges_of_a_csv_file_do_not_read_its_names_again(tmp_path, monkeypatch):
    file = written(tracks([40, 40], gaps=0), tmp_path / "a.csv")
    data = read_transitions(tmp_path / "a.csv", state="x", chunk_rows=10)
    monkeypatch.setattr("itofit.data.reading.readers.Csv.dialect", None)
    assert len(data) == 78
    assert len(data.parts) > 4, file


def test_what_is_no_path_is_told_where_to_go(tmp_path):
    table = tracks([20, 20], gaps=0)
    with pytest.raises(InputError, match=r"path must be .*, got DataFrame; data frames go to .*from_dataframe"):
        read_transitions(table)
    with pytest.raises(InputError, match=r"got DataFrame; data frames go to itofit\.Transitions\.from_dask"):
        read_transitions(pytest.importorskip("dask.dataframe").from_pandas(table, npartitions=2, sort=False))
    written(table, tmp_path / "a.parquet")
    dataset = pytest.importorskip("pyarrow.dataset").dataset(tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a FileSystemDataset, which holds no rows yet: give df\.to_table\(\), or"):
        Transitions.from_dataframe(dataset, time="time", state="x")
    with pytest.raises(InputError, match=r"storage_options must be a dict, as in .*, got 5"):
        read_transitions("memory://tracks", storage_options=5)


def test_the_same_time_in_two_files(tmp_path):
    for i, times in enumerate(([0.0, 1.0, 2.0], [2.0, 3.0, 4.0])):
        written(pd.DataFrame({"track": "a", "time": times, "x": times}), tmp_path / f"{i}.parquet")
    with pytest.raises(
        InputError, match=r"track a has the time 2\.0 twice, in row 2 of .*0\.parquet and in row 0 of .*1\."
    ):
        read_transitions(tmp_path)
    with pytest.raises(
        InputError, match=r"track a overlap in time: those in .*0\.parquet.* 0 to 2, .*1\.parquet.* 2 to 4"
    ):
        len(read_transitions(tmp_path, chunk_rows=3))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("chunk_rows", [None, 10])
def test_files_of_other_columns(tmp_path, kind, chunk_rows):
    table = tracks([20, 20], gaps=0)
    written(table.iloc[:20], tmp_path / f"a.{kind}")
    written(table.iloc[20:].rename(columns={"x": "y"}), tmp_path / f"b.{kind}")
    with pytest.raises(InputError, match=rf"b\.{kind}: state: there is no column 'x'.* are 'track', 'time', 'y', 'u'"):
        len(read_transitions(tmp_path, state="x", chunk_rows=chunk_rows))


def test_files_of_other_types(tmp_path):
    table = tracks([20, 20], gaps=0)
    written(table.iloc[:20], tmp_path / "a.parquet")
    written(table.iloc[20:].assign(track="b"), tmp_path / "b.parquet")
    with pytest.raises(
        InputError, match=r"b\.parquet: track: column 'track' holds .*string, but int64 in .*a\.parquet"
    ):
        read_transitions(tmp_path, state="x")
    written(table.iloc[20:].assign(track=np.int32(5)), tmp_path / "b.parquet")
    assert len(read_transitions(tmp_path, state="x")) == 38


def test_empty_files_are_legal(tmp_path):
    table = tracks([20, 20], gaps=0)
    expected = Transitions.from_dataframe(table, time="time", state="x", track="track")
    for kind in ("parquet", "csv"):
        for i, piece in enumerate([table[:0], table[:7], table[:0], table[7:], table[:0]]):
            written(piece, tmp_path / kind / f"{i}.{kind}")
        (tmp_path / "csv" / "5.csv").parent.mkdir(exist_ok=True)
        (tmp_path / "csv" / "5.csv").write_text("")
        assert_same(read_transitions(tmp_path / kind, state="x"), expected)
        assert_same(gathered(read_transitions(tmp_path / kind, state="x", chunk_rows=4)), expected)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    table = tracks([20, 20], gaps=0)
    written(table[:20], tmp_path / "a.parquet", 5)
    bad = written(table[20:], tmp_path / "b.parquet", 5)
    data = read_transitions(tmp_path, state="x", chunk_rows=5)
    content = bad.read_bytes()
    bad.write_bytes(b"PAR1" + bytes(len(content) // 2 - 4) + content[len(content) // 2 :])
    with pytest.raises(InputError, match=r"b\.parquet.* cannot be read"):
        len(data)
    bad.write_bytes(b"something else")
    with pytest.raises(InputError, match=r"b\.parquet: cannot be read"):
        read_transitions(tmp_path, state="x")


def test_files_of_several_kinds(tmp_path):
    table = tracks([20, 20], gaps=0)
    written(table[:20], tmp_path / "a.parquet")
    written(table[20:], tmp_path / "b.csv")
    with pytest.raises(
        InputError, match=r"there are CSV and Parquet files, as .*b\.csv and .*a\.parquet; give a pattern"
    ):
        read_transitions(tmp_path)
    with pytest.raises(InputError, match=r"names .*a\.parquet twice"):
        read_transitions([tmp_path / "a.parquet", tmp_path / "*.parquet"])
    with pytest.raises(InputError, match="must name at least one file, got an empty list"):
        read_transitions([])
    with pytest.raises(InputError, match="must be a path, or a list of paths, got int in a list"):
        read_transitions([5])
