"""What is special about each kind of file; `test_files.py` has what all of them do."""

import gzip
import io
import tracemalloc
import warnings
import zipfile
from datetime import datetime, time, timedelta
from importlib import import_module

import fsspec
import numpy as np
import openpyxl
import pandas as pd
import pyarrow
import pytest
from test_files import assert_same, gathered, text_file, tracks, written
from typer.testing import CliRunner

import itofit
from itofit import DataWarning, InputError, Transitions, read_transitions
from itofit.cli import app
from itofit.data.frames.day_first import iso_date
from itofit.data.reading import excel_files

equal = np.testing.assert_array_equal
RNG = np.random.default_rng(0)
PATHS = RNG.normal(size=(4, 30, 2)).round(9)


def read_both(path, **how):
    """The transitions of a file, which are the same in parts."""
    whole = read_transitions(path, **how)
    assert_same(gathered(read_transitions(path, chunk_rows=7, **how)), whole)
    return whole


# Texts


TEXTS = {
    "spaces": ("t x y\n0 1.5 2\n1 2.5 4\n", {}),
    "many spaces": ("  t   x  y\n  0  1.5   2\n\n  1 2.5 4  \n", {}),
    "commas": ("t, x, y\n0, 1.5, 2\n1, 2.5, 4\n", {}),
    "semicolons": ("t;x;y\n0;1.5;2\n1;2.5;4\n", {}),
    "tabs": ("t\tx\ty\n0\t1.5\t2\n1\t2.5\t4\n", {}),
    "comments": ("# made by me\n# on a Monday\n\nt x y\n0 1.5 2\n1 2.5 4\n", {}),
    "names in a comment": ("# t x y\n0 1.5 2\n1 2.5 4\n", {}),
    "decimal commas": ("t;x;y\n0,0;1,5;2\n1;2,5;4\n", {"decimal": ","}),
    "decimal commas between spaces": ("t x y\n0,0 1,5 2,0\n1,0 2,5 4,0\n", {"decimal": ","}),
}


@pytest.mark.parametrize("kind", [".txt", ".dat", ".txt.gz"])
@pytest.mark.parametrize(("text", "how"), TEXTS.values(), ids=TEXTS)
def test_plain_texts(tmp_path, text, how, kind):
    path = tmp_path / f"data{kind}"
    path.write_bytes(gzip.compress(text.encode()) if kind.endswith("gz") else text.encode())
    data = read_both(path, **how)
    equal(data.inputs, [[1.5, 2]])
    equal(data.increments, [[1, 2]])
    assert data.input_names == ("x", "y")


@pytest.mark.parametrize(("name", "mark"), [("a.txt", " "), ("a.txt", ";"), ("a.tsv", "\t")])
def test_texts_without_names(tmp_path, name, mark):
    path = text_file(tmp_path / name, "0 1.5 2\n1 2.5 4\n".replace(" ", mark))
    assert read_both(path, dt=1).input_names == ("x1", "x2", "x3")
    data = read_both(path, time="x1")
    equal(data.inputs, [[1.5, 2]])
    assert data.input_names == ("x2", "x3")
    with pytest.raises(InputError, match=r"give time=, .* or dt=.* the columns are 'x1', 'x2', 'x3'"):
        read_transitions(path)
    bad = text_file(tmp_path / name, "0 1.5 2\n\n1 oops 4\n".replace(" ", mark))
    with pytest.raises(InputError, match="column 'x2' must hold numbers, got 'oops' in line 3"):
        read_transitions(bad, dt=1)


def test_one_column_without_a_name(tmp_path):
    np.savetxt(tmp_path / "a.txt", PATHS[0, :, 0])
    assert_same(read_both(tmp_path / "a.txt", dt=0.1), read_transitions(tmp_path / "a.txt", dt=0.1, state="x"))
    np.savetxt(tmp_path / "b.txt", PATHS[0], header="speed height")
    data = read_both(tmp_path / "b.txt", dt=0.1)
    assert data.input_names == ("speed", "height")
    equal(data.inputs, PATHS[0, :-1])


def test_a_line_that_is_too_long_is_named(tmp_path):
    path = text_file(tmp_path / "a.txt", "t x\n0 1\n1 2 3\n")
    with pytest.raises(InputError, match=r"a\.txt: cannot be read: .* line 3"):
        read_transitions(path)


def test_comments_in_a_csv_file_are_named(tmp_path):
    path = text_file(tmp_path / "a.csv", "# made by me\nt,x\n0,1\n1,2\n")
    with pytest.raises(InputError, match=r"a\.csv: the first line must name .* got a comment \(# made by me\); remove"):
        read_transitions(path)
    with pytest.raises(InputError, match=r"a\.csv: cannot be read: .* line 3"):  # the rest is as it was
        read_transitions(text_file(path, "t,x\n0,1\n1,2,3\n"))


@pytest.mark.parametrize("chunk_rows", [None, 5])
@pytest.mark.parametrize(
    ("time", "x", "how", "message"),
    [
        (
            "{:.1f}",
            "1",
            {"decimal": ","},
            r"'t' must hold numbers, got '0\.0' in line 2; .* has a point: leave",
        ),
        ("{},0", "1", {}, "'t' must hold numbers, got '0,0' in line 2; write decimals with a point"),
        ("01/{:02}/2024", "1", {"unit": "D", "dayfirst": True}, "'t' must hold dates .* got '01/00/2024' in line 2"),
        ("{}", "oops", {"wide": True}, "'x' must hold numbers, got 'oops' in line 32"),
    ],
)
def test_errors_name_file_and_line_also_in_parts(tmp_path, time, x, how, message, chunk_rows):
    rows = [f"{time.format(i)};{1 if i < 30 else x};{i}\n" for i in range(60)]
    path = text_file(tmp_path / "a.csv", "t;x;y\n" + "".join(rows))
    with pytest.raises(InputError, match=rf"a\.csv: column {message}"):
        len(read_transitions(path, state=["x", "y"], chunk_rows=chunk_rows, **how))


@pytest.mark.parametrize(
    ("text", "how", "message"),
    [
        ("x;y\n1,5;1\n", {}, "got '1,5' in line 2; write decimals with a point, or read the file with decimal=','"),
        ("x\n1,5\n2,5\n", {}, "got '1,5' in line 2; write decimals with a point"),
        ("x;y\n1,5;1\n2.5;1\n", {"decimal": ","}, r"got '2\.5' in line 3; with decimal=',' no number has a point"),
        ("x;y\n1.234,5;1\n2;1\n", {"decimal": ","}, r"got '1\.234,5' in line 2; write numbers without marks"),
        ("x;y\n1,234.5;1\n2;1\n", {}, r"got '1,234\.5' in line 2; write numbers without marks"),
        ("x;y\n1;1\n", {"decimal": "x"}, r"decimal must be one of '\.', ','"),
        ("x;y\n1;1\n", {"dayfirst": "yes"}, "dayfirst must be True or False"),
        ("x;y\n1;1\n", {"sheet": "a"}, "sheet is for Excel files, and .*csv is none"),
    ],
)
def test_numbers_in_other_writing(tmp_path, text, how, message):
    path = text_file(tmp_path / "data.csv", text)
    with pytest.raises(InputError, match=message):
        read_transitions(path, dt=1, **how)


def test_decimal_commas_in_quotes_and_in_a_single_column(tmp_path):
    path = text_file(tmp_path / "a.csv", 't,x\n"0,5","1,5"\n"1,5","2,5"\n')
    equal(read_both(path, decimal=",").increments, [[1]])
    path = text_file(tmp_path / "b.csv", "x\n1,5\n2,5\n")
    equal(read_both(path, decimal=",", dt=1).increments, [[1]])


# Dates


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("31.1.2024", "2024-01-31"),
        ("31/01/2024 09:05", "2024-01-31 09:05:00"),
        ("1-2-68T9:05:07.25", "2068-02-01 09:05:07.25"),
        ("1.2.69 9:05:07,25", "1969-02-01 09:05:07.25"),
        ("2024-01-31 12:00", "2024-01-31 12:00"),
        ("31.1/2024", "31.1/2024"),
        (None, None),
    ],
)
def test_dates_that_begin_with_the_day(text, expected):
    assert iso_date(text) == expected


@pytest.mark.parametrize("chunk_rows", [None, 2])
def test_days_first(tmp_path, chunk_rows):
    days = pd.date_range("2024-01-30", periods=6, freq="36h")
    dates = {"t": days.strftime("%d.%m.%Y %H:%M"), "x": np.arange(6)}
    path = written(pd.DataFrame(dates), tmp_path / "a.csv")
    data = read_transitions(path, unit="D", dayfirst=True, chunk_rows=chunk_rows)
    equal((data if chunk_rows is None else gathered(data)).h, np.full(5, 1.5))
    with pytest.raises(InputError, match=r"got '30\.01\.2024 00:00' in line 2; read the file with dayfirst=True"):
        read_transitions(path, unit="D")
    bad = text_file(tmp_path / "b.csv", "t,x\n31.1.2024,1\n1.13.2024,2\n")  # no month: never turned round
    with pytest.raises(InputError, match=r"'31\.1\.2024 12:00' or .* got '1\.13\.2024' in line 3"):
        len(read_transitions(bad, unit="D", dayfirst=True, chunk_rows=chunk_rows))


# JSON lines


def test_lines_need_not_have_the_same_keys(tmp_path):
    text = (
        '{"t": 0, "x": 1}\n{"t": 1, "x": 2.5, "note": {"a": [1]}}\n\n{"t": 2}\n{"x": 4, "t": 3}\n{"t": 4, "x": NaN}\n'
    )
    data = read_both(text_file(tmp_path / "a.ndjson", text + '{"t": 5, "x": 1}\n{"t": 6, "x": 2}\n'))
    equal(data.inputs.ravel(), [1, 1])
    assert data.input_names == ("x",)


def test_labels_of_lines_stay_what_they_are(tmp_path):
    rows = [f'{{"track": {track}, "t": {t}, "x": {t}}}' for track in ('"07"', '"7"') for t in (0, 1)]
    data = read_both(text_file(tmp_path / "a.jsonl", "\n".join(rows)))
    equal(data.groups, ["07", "7"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds nothing"),
        ('[{"t": 0, "x": 1}]', r"line 1 must be a JSON object such as .* got '\[\{"),
        ('{"t": 0, "x": 1}\n{"t": 1, "x":\n', r"line 2 must be a JSON object .*Expecting value"),
        ('{"t": 0, "x": ' + "[" * 10**5, r"line 1 must be a JSON object .*recursion"),
        ('{"t": 0, "x": 1}\n\n{"t": 1, "x": {"a": 1}}', r"column 'x' must hold numbers, got \{'a': 1\} in line 3"),
        ('{"t": 0, "x": 1}\n{"t": 1, "x": 1e999}', "column 'x' must be finite .* the first in line 2"),
        (
            '{"t": 0, "x": 1}\n{"t": 1, "x": 1' + "0" * 400 + "}",
            r"column 'x' must hold numbers, got 100000.*… in line 2",
        ),
        ('{"t": 0, "x": 1}\n{"t": 1, "x": 1' + "0" * 5000 + "}", "line 2 must be a JSON object"),
    ],
)
def test_lines_that_cannot_be_read(tmp_path, text, message):
    path = text_file(tmp_path / "a.jsonl", text)
    for chunk_rows in (None, 1):
        with pytest.raises(InputError, match=message):
            len(read_transitions(path, chunk_rows=chunk_rows))


# Excel


def book(path, *sheets):
    """An Excel file of some sheets, each a list of rows."""
    whole = openpyxl.Workbook()
    for number, rows in enumerate(sheets):
        sheet = whole.active if not number else whole.create_sheet(f"sheet {number}")
        for row in rows:
            sheet.append(row)
    whole.save(path)
    return path


DAY = datetime(2024, 1, 31)
SHEETS = {
    "plain": ([["t", "x"], [0, 1], [1, 2.5]], {}),
    "not in the corner": ([[], [], [None, "t", "x"], [None, 0, 1], [], [None, 1, 2.5], []], {}),
    "dates": ([["t", "x"], [DAY, 1], [DAY + timedelta(hours=1), 2.5]], {"unit": "h"}),
    "durations": ([["t", "x"], [timedelta(hours=3), 1], [timedelta(hours=4), 2.5]], {"unit": "h"}),
    "texts": (
        [["t", "x"], ["31.1.2024 9:00", "1"], ["31.1.2024 10:00", "2,5"]],
        {"unit": "h", "dayfirst": True, "decimal": ","},
    ),
    "gaps": ([["t", "x", "y"], [0, 1, "a"], [1, 2.5, None], [2, "#N/A", "b"], [3, 4, None], [4, None, None]], {}),
    "truths and names": ([["name", "t", "x", "seen"], ["a", 0, 1, True], ["b", 1, 2.5, False]], {}),
}


@pytest.mark.parametrize(("rows", "how"), SHEETS.values(), ids=SHEETS)
def test_sheets(tmp_path, rows, how):
    data = read_both(book(tmp_path / "a.xlsx", rows), **how)
    equal(data.inputs, [[1]])
    equal(data.increments, [[1.5]])
    equal(data.h, [1])


BAD_SHEETS = {
    "nothing": ([], {}, "holds nothing"),
    "names alone": ([["t", "x"]], {}, "holds names of columns and no rows"),
    "no names": ([[0, 1], [1, 2]], {}, r"the first line must name the columns, got numbers \(0, 1\)"),
    "a name twice": ([["t", "x", "x"], [0, 1, 2]], {}, "several columns are called 'x'"),
    "values without a name": ([["t", "x"], [0, 1], [1, 2, 3]], {}, "row 3 has more values than the header has names"),
    "an error": ([["t", "x"], [0, 1], [], [1, "#DIV/0!"]], {}, "column 'x' must hold numbers, got '#DIV/0!' in row 4"),
    "formulas without results": ([["t", "x"], [0, "=1"], [1, "=B2+1"]], {}, "no column holds numbers"),
    "times of day": ([["t", "x"], [time(9), 1], [time(10), 2]], {"unit": "h"}, r"got datetime\.time\(9, 0\) in row 2"),
    "no unit": ([["t", "x"], [DAY, 1], [DAY, 2]], {}, "holds dates or durations: give unit="),
    "another sheet": ([["t", "x"], [0, 1]], {"sheet": "shet"}, r"there is no sheet 'shet' \(is it 'Sheet' that you"),
    "no name": ([["t", "x"], [0, 1]], {"sheet": 0}, "sheet must be the name of a sheet, got 0"),
}


@pytest.mark.parametrize(("rows", "how", "message"), BAD_SHEETS.values(), ids=BAD_SHEETS)
def test_sheets_that_cannot_be_read(tmp_path, rows, how, message):
    with pytest.raises(InputError, match=message):
        read_transitions(book(tmp_path / "a.xlsx", rows), **how)


def test_a_sheet_is_chosen(tmp_path):
    path = book(tmp_path / "a.xlsx", [["t", "x"], [0, 1], [1, 2]], [["t", "y"], [0, 1], [2, 3]], [])
    with pytest.warns(DataWarning, match=r"the sheet 'Sheet' is read and not 'sheet 1'; choose with sheet=") as caught:
        assert read_transitions(path).input_names == ("x",)
    assert caught[0].filename == __file__
    assert read_both(path, sheet="sheet 1").input_names == ("y",)
    with pytest.raises(InputError, match="holds nothing"):
        read_transitions(path, sheet="sheet 2")


def rezipped(path, change):
    """An archive whose members were changed."""
    content = io.BytesIO(path.read_bytes())
    with zipfile.ZipFile(content) as whole, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as copy:
        for name in whole.namelist():
            if (member := change(name, whole.read(name))) is not None:
                copy.writestr(name, member)
    return path


def test_damaged_sheets(tmp_path, monkeypatch):
    """What is wrong inside of an Excel file makes openpyxl raise whatever it meets first."""
    monkeypatch.setattr(excel_files, "MOST_BESIDES", 100_000)
    rows = [["t", "x", "name"], *([i, i**0.5, "a"] for i in range(20))]
    changes = {
        "no book": lambda name, member: None if name == "xl/workbook.xml" else member,
        "no types": lambda name, member: None if "Content_Types" in name else member,
        "no sheet": lambda name, member: None if "sheet1" in name else member,
        "cut off": lambda name, member: member[:300] if "sheet1" in name else member,
        "a far row": lambda name, member: member.replace(b'r="3"', b'r="99999999999"') if "sheet1" in name else member,
        "a far column": lambda name, member: member.replace(b'"B3"', b'"ZZZZZ3"') if "sheet1" in name else member,
        "much text": lambda name, member: member + b" " * 10**6 if "styles" in name else member,
    }
    for name, change in changes.items():
        path = rezipped(book(tmp_path / "a.xlsx", rows), change)
        with pytest.raises(InputError, match=r"a\.xlsx: ") as caught:
            read_transitions(path)
        assert len(str(caught.value)) < 400, name


def test_what_reads_excel_files_is_named_if_it_is_missing(tmp_path, monkeypatch):
    path = book(tmp_path / "a.xlsx", [["t", "x"], [0, 1], [1, 2]])

    def without(name):
        if name.startswith("openpyxl"):
            raise ImportError(name)
        return import_module(name)

    monkeypatch.setattr("itofit.data.frames.table_columns.import_module", without)
    with pytest.raises(ImportError, match=r'reading Excel files needs openpyxl, .* pip install "itofit\[excel\]"'):
        read_transitions(path)


# Arrow


def test_arrow_files_of_two_forms_and_compressed(tmp_path):
    table = pyarrow.Table.from_pandas(tracks())
    for make in (pyarrow.ipc.new_file, pyarrow.ipc.new_stream):
        for codec in (None, "lz4", "zstd"):
            how = pyarrow.ipc.IpcWriteOptions(compression=codec)
            with make(tmp_path / "a.ipc", table.schema, options=how) as file:
                file.write_table(table, max_chunksize=17)
            assert_same(read_both(tmp_path / "a.ipc"), read_transitions(written(tracks(), tmp_path / "b.parquet")))


def test_arrow_files_that_cannot_be_read(tmp_path):
    (tmp_path / "a.feather").write_bytes(b"FEA1" + bytes(100))
    with pytest.raises(InputError, match="is of version 1 of Feather"):
        read_transitions(tmp_path / "a.feather")
    (tmp_path / "a.feather").write_bytes(b"")
    with pytest.raises(InputError, match="holds nothing"):
        read_transitions(tmp_path / "a.feather")
    tracks().iloc[:0].to_feather(tmp_path / "a.feather")
    with pytest.raises(InputError, match="holds names of columns and no rows"):
        read_transitions(tmp_path / "a.feather")
    table = pa_nested()
    with pyarrow.ipc.new_file(tmp_path / "a.arrow", table.schema) as file:
        file.write_table(table)
    with pytest.raises(InputError, match="column 'x' must hold real numbers, got list"):
        read_transitions(tmp_path / "a.arrow", state="x")


def pa_nested():
    return pyarrow.table({"t": [0, 1], "x": [[1.0], [2.0]]})


# Arrays


ARRAYS = {
    "one variable": (PATHS[0, :, 0], PATHS[0, :, :1], ("x",)),
    "one track": (PATHS[0], PATHS[0], ("x1", "x2")),
    "tracks": (PATHS, PATHS, ("x1", "x2")),
    "by columns": (np.asfortranarray(PATHS[0]), PATHS[0], ("x1", "x2")),
    "tracks by columns": (np.asfortranarray(PATHS), PATHS, ("x1", "x2")),
    "whole numbers": (np.arange(60).reshape(2, 30, 1) ** 2, np.arange(60.0).reshape(2, 30, 1) ** 2, ("x",)),
}


@pytest.mark.parametrize(("array", "paths", "names"), ARRAYS.values(), ids=ARRAYS)
def test_arrays(tmp_path, array, paths, names):
    np.save(tmp_path / "a.npy", array)
    data = read_both(tmp_path / "a.npy", dt=0.1)
    expected = Transitions.from_trajectories(paths, dt=0.1)
    for name in ("inputs", "increments", "h"):
        equal(getattr(data, name), getattr(expected, name))
    assert data.input_names == names
    if paths.ndim == 3:
        equal(data.groups, expected.groups)


def test_arrays_of_records(tmp_path):
    records = np.array([(0.0, 1, "a"), (0.5, 3, "b")], dtype=[("time", float), ("height", int), ("note", "U3")])
    np.save(tmp_path / "a.npy", records)
    data = read_both(tmp_path / "a.npy")
    assert (data.input_names, data.h.tolist(), data.increments.tolist()) == (("height",), [0.5], [[2]])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([1.0, None]), "the array holds Python objects, which are not read"),
        (PATHS + 1j, "the array must hold real numbers, got complex128"),
        (np.array(["a", "b"]), "the array must hold real numbers, got <U1"),
        (PATHS[None], r"must have shape \(n,\), \(n, d\) or \(n_tracks, n, d\), got \(1, 4, 30, 2\)"),
        (np.float64(1), r"must have shape .* got \(\)"),
        (np.zeros((0, 2)), "holds names of columns and no rows"),
        (np.zeros((2, 100_001), dtype=bool), "has more than 100,000 columns: should it be transposed"),
        (np.zeros((2, 2), dtype=[("a", float)]), r"must have shape \(n,\) of records"),
    ],
)
def test_arrays_that_cannot_be_read(tmp_path, array, message):
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(InputError, match=message):
        read_transitions(tmp_path / "a.npy", dt=1)


def array_bytes(shape, kind="<f8", version=1, length=None, data=b""):
    """An array file whose header says what it likes."""
    text = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    size = (len(text) if length is None else length).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + data


HARMFUL = {
    "more than there is": (array_bytes("(1000000, 2)"), "has 0 bytes of data, its header says 16,000,000"),
    "more than any computer has": (array_bytes(f"({10**30}, 2)"), "more than any computer has"),
    "a truth value": (array_bytes("(True, 2)", data=bytes(16)), "has no shape"),
    "a negative number": (array_bytes("(-1,)"), "has no shape"),
    "nothing without end": (array_bytes(f"({10**15},)", "<U0"), "holds nothing very many times"),
    "objects": (array_bytes("(2,)", "|O", data=bytes(16)), "holds Python objects"),
    "no end of a bracket": (array_bytes("(2,"), "has no header that can be read"),
    "an absurd header": (array_bytes("(2,)", version=2, length=2 * 10**8) + bytes(10**7), "has 200,000,000 bytes"),
    "another version": (array_bytes("(2,)", version=9), "only support format version|holds records"),
}


@pytest.mark.parametrize(("content", "message"), HARMFUL.values(), ids=HARMFUL)
@pytest.mark.parametrize("kind", [".npy", ".npz"])
def test_headers_are_not_believed(tmp_path, kind, content, message):
    path = tmp_path / f"a{kind}"
    path.write_bytes(content)
    if kind == ".npz":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("state.npy", content)
    assert kind == ".npy" or path.stat().st_size < 200_000
    tracemalloc.start()
    try:
        for chunk_rows in (None, 5):
            with pytest.raises(InputError, match=message):
                read_transitions(path, dt=0.1, chunk_rows=chunk_rows)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "arrays",
    [
        {"state": np.zeros((10, 2)), "time": np.arange(10), "movie": np.zeros((10, 100_001), dtype=bool)},
        {"state": np.zeros((10, 2)), "time": np.arange(10), "movie": np.zeros((10, 400, 300), dtype=bool)},
        {"state": np.zeros((10, 2)), "time": np.arange(10), "note": np.array(["x" * 10**6] * 10)},
    ],
)
def test_arrays_that_nobody_asks_for_may_be_large(tmp_path, arrays):
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    assert len(read_transitions(tmp_path / "a.npz", state="state")) == 9


def test_a_small_file_of_large_arrays_takes_little_memory(tmp_path):
    """Zeros pack well: 160 MB in 160 kB, of which a part is unpacked at a time."""
    np.savez_compressed(tmp_path / "a.npz", state=np.zeros((10_000_000, 2)))
    tracemalloc.start()
    try:
        blocks = read_transitions(tmp_path / "a.npz", dt=0.1, state="state", chunk_rows=10_000).blocks()
        assert len(next(blocks)) > 0
        blocks.close()
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


# Wide tables


def wide_table(n=40, k=12):
    table = pd.DataFrame({"time": (0.1 * np.arange(n)).round(9)})
    for i in range(k):
        table[f"cell {i + 1}"] = RNG.normal(size=n).cumsum().round(9)
    table.loc[5, "cell 3"] = np.nan
    return table.assign(dose=np.arange(n) // 10)


def long_form(table):
    columns = [name for name in table if name.startswith("cell")]
    return table.melt(["time", "dose"], columns, "track", "x")


@pytest.mark.parametrize("kind", [".csv", ".parquet", ".xlsx", ".jsonl", ".npz", ".feather"])
def test_wide_tables(tmp_path, kind):
    table = wide_table()
    path = written(table, tmp_path / f"data{kind}")
    expected = Transitions.from_dataframe(
        long_form(table), time="time", state="x", track="track", covariates="dose", periodic={"x": 50.0}
    )
    data = read_transitions(path, wide=True, covariates="dose", periodic={"x": 50.0})
    assert_same(data, expected)
    parts = gathered(read_transitions(path, wide=True, covariates="dose", periodic={"x": 50.0}, chunk_rows=60))
    order = [np.lexsort([rows.inputs[:, 0], rows.groups]) for rows in (parts, data)]
    assert_same(parts[order[0]], data[order[1]])
    some = read_transitions(path, wide=True, state=["cell 1", "cell 4"])
    assert sorted(set(some.groups.tolist())) == ["cell 1", "cell 4"]


def test_wide_tables_in_several_files(tmp_path):
    table = wide_table().drop(columns="dose")
    for number in range(4):
        written(table[10 * number : 10 * number + 10], tmp_path / f"part {number}.csv")
    data = read_transitions(tmp_path, wide=True)
    assert_same(data, read_transitions(written(table, tmp_path / "whole.parquet"), wide=True))
    table.loc[[35], "cell 7"] = np.inf
    written(table[30:], tmp_path / "part 3.csv")
    with pytest.raises(InputError, match=r"column 'cell 7' must be finite .* in line 7 of .*part 3\.csv"):
        read_transitions(str(tmp_path / "*.csv"), wide=True)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"track": "cell 1"}, "wide=True says that every column is a track of one variable: leave out track"),
        ({"velocity": "cell 1"}, "leave out velocity"),
        ({"wide": 1}, "wide must be True or False"),
        ({"state": "cell 77"}, "there is no column 'cell 77'"),
        ({"time": "x"}, "there is no column 'x'"),
    ],
)
def test_wide_tables_that_do_not_fit(tmp_path, how, message):
    path = written(wide_table(), tmp_path / "data.csv")
    with pytest.raises(InputError, match=message):
        read_transitions(path, **({"wide": True} | how))


def test_a_long_table_is_not_wide(tmp_path):
    path = written(tracks(), tmp_path / "data.csv")
    with pytest.raises(InputError, match="there is a column 'track', so rows are observations of several tracks"):
        read_transitions(path, wide=True)
    path = text_file(tmp_path / "b.csv", "x,a,b\n0,1,2\n1,2,3\n")
    with pytest.raises(InputError, match="the column 'x' cannot be a time or a covariate"):
        read_transitions(path, wide=True, time="x")


@pytest.mark.parametrize(
    ("names", "is_wide"),
    [
        ([f"x{i}" for i in range(1, 11)], False),  # as many variables as a system may have
        ([f"x{i}" for i in range(1, 12)], True),
        (["temperature", "pressure", "wind"], False),
        (["cell 1", "cell 2", "cell 3"], True),
        (["run_1", "run_2"], False),
        (["1", "2", "3"], True),
        (["cell 1", "cell 2", "height"], False),
    ],
)
def test_tables_that_look_wide(tmp_path, names, is_wide):
    table = pd.DataFrame(RNG.normal(size=(50, len(names))), columns=names).assign(t=np.arange(50))
    path = written(table, tmp_path / "data.csv")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = read_transitions(path)
    assert data.n_inputs == len(names)  # a hint changes nothing
    said = [str(each.message) for each in caught]
    n = len(names)
    assert said == (
        [
            f"the columns {names[0]!r} to {names[-1]!r} look like {n} tracks of one variable: if they are, give "
            "wide=True; if they are variables, name them with state="
        ]
        if is_wide
        else []
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_transitions(path, state=names)  # chosen, so no hint
        read_transitions(path, wide=True)
        units = table.assign(**{names[0]: 1000 * table[names[0]]})  # columns of different sizes are variables
        read_transitions(written(units, tmp_path / "units.csv"))


# Several files


@pytest.mark.parametrize("kind", [".xlsx", ".feather", ".jsonl", ".txt", ".csv.bz2"])
def test_several_files_of_a_kind(tmp_path, kind):
    table = tracks()
    files = fsspec.filesystem("memory")
    for number in range(3):
        folder = tmp_path / f"dose={number}"
        folder.mkdir()
        own = table[table["track"] % 3 == number]
        if kind == ".csv.bz2":
            own.to_csv(folder / f"a{kind}", index=False)
        else:
            written(own.reset_index(drop=True), folder / f"a{kind}")
        files.put(str(folder / f"a{kind}"), f"/kinds/{kind}/dose={number}/a{kind}")
    expected = Transitions.from_dataframe(
        table.assign(dose=table["track"] % 3).sort_values(["dose", "track"], kind="stable"),
        state=["x", "y"],
        time="time",
        track="track",
        covariates="dose",
    )
    for path in (f"{tmp_path}/*/*{kind}", f"memory://kinds/{kind}/*/*{kind}"):
        assert_same(read_transitions(path, covariates="dose"), expected)
        assert_same(gathered(read_transitions(path, covariates="dose", chunk_rows=10)), expected)
    if kind != ".txt":
        assert_same(read_transitions(tmp_path, covariates="dose"), expected)


def test_arrays_that_are_a_track_each(tmp_path):
    for number, path in enumerate(PATHS):
        np.save(tmp_path / f"run {number}.npy", path)
    data = read_transitions(tmp_path, dt=0.1, track="__filename")
    equal(data.inputs, Transitions.from_trajectories(PATHS, dt=0.1).inputs)
    assert_same(gathered(read_transitions(tmp_path, dt=0.1, track="__filename", chunk_rows=7)), data)


def test_which_files_of_a_directory_are_read(tmp_path):
    written(tracks(), tmp_path / "a.csv")
    (tmp_path / "readme.txt").write_text("notes")
    book(tmp_path / "summary.xlsx", [["a"], [1]])
    (tmp_path / "~$summary.xlsx").write_bytes(b"open elsewhere")
    assert len(read_transitions(tmp_path)) == len(read_transitions(tmp_path / "a.csv"))
    (tmp_path / "a.csv").unlink()
    written(tracks(), tmp_path / "summary.xlsx")
    assert len(read_transitions(tmp_path)) > 0
    written(tracks(), tmp_path / "b.jsonl")
    with pytest.raises(InputError, match=r"there are JSON lines and Excel files, as .*b\.jsonl and .*summary\.xlsx"):
        read_transitions(tmp_path)
    np.savez(tmp_path / "c.npz", state=PATHS[0])
    with pytest.raises(InputError, match=r"c\.npz is read alone and from this machine"):
        read_transitions([tmp_path / "b.jsonl", tmp_path / "c.npz"])


# The command line


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_options_of_the_command_line(tmp_path):
    x = np.zeros((60, 4))
    for i in range(59):
        x[i + 1] = 0.9 * x[i] + 0.3 * RNG.normal(size=4)
    days = pd.date_range("2024-01-31", periods=60, freq="D").strftime("%d.%m.%Y")
    table = pd.DataFrame(x, columns=[f"run {i}" for i in range(4)])
    table.insert(0, "when", days)
    table.to_csv(tmp_path / "a.csv", sep=";", decimal=",", index=False)
    read = (tmp_path / "a.csv", "--time", "when", "--unit", "D")
    result = call("fit", *read, "--wide", "--decimal", ",", "--dayfirst", "-o", tmp_path / "a.npz")
    assert result.exit_code == 0, result.output
    assert itofit.load(tmp_path / "a.npz").data.n_groups == 4
    for options, message in (
        ((), "read the file with --dayfirst if days come before months"),
        (("--dayfirst",), "got '0,0' in line 2; write decimals with a point, or read the file with --decimal ,"),
        (("--dayfirst", "--decimal", ",", "--sheet", "a"), "--sheet is for Excel files"),
        (("--decimal", "p"), "--decimal must be one of"),
    ):
        result = call("fit", *read, *options, "-o", tmp_path / "b.npz")
        assert result.exit_code == 2
        assert message in result.output
    result = call("fit", *read, "--dayfirst", "--decimal", ",", "-o", tmp_path / "b.npz")
    assert "look like 4 tracks of one variable: if they are, give --wide; if they are" in result.output


def test_a_table_of_covariates_of_any_kind(tmp_path):
    u = np.tile([0.0, 1.0], 200)
    path = np.zeros(401)
    for i in range(400):
        path[i + 1] = path[i] + 0.1 * (u[i] - path[i]) + 0.1 * RNG.normal()
    data = Transitions.from_trajectories(path, dt=0.1, covariates=np.append(u, 0), covariate_names="u")
    itofit.fit(data, rng=0).save(tmp_path / "a.npz")
    simulate = ("simulate", tmp_path / "a.npz", "--start", "0", "--dt", "0.1", "--steps", "20", "-o", "-")
    (tmp_path / "u.jsonl").write_text("\n".join('{"u": 0.5}' for _ in range(20)))
    result = call(*simulate, "--covariates", tmp_path / "u.jsonl")
    assert result.exit_code == 0, result.output
    commas = ("--covariates", text_file(tmp_path / "commas.csv", "u\n" + "0,5\n" * 20))
    assert "write decimals with a point, or read the file with --decimal ," in call(*simulate, *commas).output
    assert call(*simulate, *commas, "--decimal", ",").output == result.output
    assert "--decimal must be one of" in call(*simulate, *commas, "--decimal", "x").output
    for name, text, message in (
        ("u.csv", 'u\n"1\n', "cannot be read"),
        ("v.csv", "v\n1\n", "there is no column 'u'"),
        ("w.csv", "u\noops\n", "no column holds|must hold numbers"),
        ("x.csv", "u\n1\n", "has 1 rows: one for each of 20 steps is needed"),
    ):
        result = call(*simulate, "--covariates", text_file(tmp_path / name, text))
        assert result.exit_code == 2, (name, result.output)
        assert any(part in result.output for part in message.split("|")), result.output
