"""Damaged files of models and tables: two parts of `campaign.py`.

Of a model or formula, bytes are changed, cut or doubled, members of the archive left out, swapped with another
model's or given another header, arrays and metadata changed. It must be refused as a ModelFileError, or be an
equation that works: finite in the range of its data, positive definite, with a summary, simulated, saved and loaded
again with the same values, and within 300 MB of memory.

Of a table, bytes, cells, columns, rows, types and headers are changed in CSV (also compressed), Parquet and NPZ
files, read at once and in parts. It must be refused, or give transitions that are finite and, where there are enough
of them, can be learned from or are refused by `fit`.
"""

import gzip
import io
import json
import resource
import sys
import time
import warnings
import zipfile

import fuzz_rules
import numpy as np
import pandas as pd
from fuzz_material import TEXTS, arrays, folder, frame, paths

import itofit

MOST_MEMORY = 300_000_000
EXTREME = (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e300, -1e300, 1e-300, 1e150, 5e-324)
JSON_VALUES = (None, True, 0, -1, 1, 2**70, 10**400, 1.5, float("nan"), float("inf"), "", "x", "\x1b[2J", [], [1],
               {}, {"kind of record": "ARFF"}, "diffusion", "underdamped", "log", "full", "a" * 1000, [[]],
               [None])  # fmt: skip


# Models


def model_trial(seed):
    """One damaged file of a model or a formula."""
    rng = np.random.default_rng([seed, 13])
    files = {name: path for name, path in paths().items() if path.suffix == ".npz" and name != "arrays"}
    name = str(rng.choice(list(files)))
    how = str(rng.choice(list(MODEL_DAMAGE)))
    other = files[str(rng.choice(list(files)))].read_bytes()
    path = folder() / "damaged.npz"
    path.write_bytes(MODEL_DAMAGE[how](rng, files[name].read_bytes(), other))
    began, before = time.perf_counter(), _peak()
    load = itofit.load_formula if name == "formula" else itofit.load
    judged = fuzz_rules.judged(lambda: load(path), lambda sde: _wrong_with_model(sde, load))
    if judged.outcome == "refusal" and not judged.text.startswith("ModelFileError"):
        judged = fuzz_rules.Judged("fault", f"refused by another class: {judged.text[:300]}")
    if _peak() - before > MOST_MEMORY:
        judged = fuzz_rules.Judged("fault", f"{_peak() - before:,} bytes of memory")
    return {
        "kind": how,
        "outcome": judged.outcome,
        "text": judged.text[:400],
        "model": name,
        "seconds": round(time.perf_counter() - began, 3),
    }


def _peak():
    """Bytes of memory that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _wrong_with_model(sde, load):
    """Texts of what is wrong with an equation that was loaded."""
    x = sde.box[0] + (sde.box[1] - sde.box[0]) * np.linspace(0, 1, 5)[:, None]
    yield from fuzz_rules.unfit_model(sde, x)
    if sde.kind != "general":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", itofit.ExtrapolationWarning)
            state, driven = sde.n_inputs - sde.n_covariates, {}
            if sde.n_covariates:
                driven = {"covariates": x[0, state:]}
            path = sde.simulate(x[:, :state], dt=sde.data.h_mean, n_steps=3, rng=0, **driven)
        yield from fuzz_rules.not_finite("paths", path)
    again = folder() / "again.npz"
    sde.save(again)
    if not np.array_equal(load(again).drift(x), sde.drift(x)):
        yield "another drift after saving and loading"


def _flipped(rng, content, other):
    """Some bytes are others."""
    damaged = bytearray(content)
    for place in rng.integers(len(damaged), size=int(rng.integers(1, 20))):
        damaged[place] = rng.integers(256)
    return bytes(damaged)


def _cut(rng, content, other):
    return content[: int(rng.integers(len(content)))]


def _spliced(rng, content, other):
    """A range of bytes is zero, doubled, left out, or from another file."""
    a, b = sorted(int(place) for place in rng.integers(len(content), size=2))
    middle = [bytes(b - a), content[a:b] * 2, b"", other[a:b]][rng.integers(4)]
    return content[:a] + middle + content[b:]


def _members(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _archive(members, packed=zipfile.ZIP_STORED):
    content = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(content, "w", packed) as archive:
        warnings.simplefilter("ignore")
        for name, member in members:
            archive.writestr(name, member)
    return content.getvalue()


def _other_members(rng, content, other):
    """A member is left out, doubled, renamed, empty, or another model's."""
    members, others = _members(content), _members(other)
    names = list(members)
    chosen = str(rng.choice(names))
    listed = list(members.items())
    place = names.index(chosen)
    kind = rng.integers(6)
    if kind == 0:
        del listed[place]
    elif kind == 1:
        listed.append((chosen, members[str(rng.choice(names))]))
    elif kind == 2:
        listed[place] = (
            str(rng.choice(["x.npy", "../up.npy", "metadata.npy", chosen.upper(), "é.npy"])),
            members[chosen],
        )
    elif kind == 3:
        listed[place] = (chosen, b"")
    elif kind == 4:
        listed[place] = (chosen, others.get(chosen, members[str(rng.choice(names))]))
    else:
        listed.append(("unknown.npy", _npy(np.zeros(10))))
    return _archive(listed, zipfile.ZIP_DEFLATED if rng.random() < 0.3 else zipfile.ZIP_STORED)


def _npy(array):
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def _headers(rng, content, other):
    """The header of an array says something else."""
    members = _members(content)
    chosen = str(rng.choice([name for name in members if name != "metadata.npy"]))
    array = np.load(io.BytesIO(members[chosen]))
    shape = [(10**30,), (True,), (-1,), (2**62, 2), (), tuple(reversed(array.shape)), (*array.shape, 1), "x"][
        rng.integers(8)
    ]
    descr = [array.dtype.str, ">f8", "<f4", "|O", "<i8", "<c16", "<U3", "|V8", "m8[s]", 3][rng.integers(10)]
    header = repr({"descr": descr, "fortran_order": bool(rng.random() < 0.3), "shape": shape}).encode()
    padded = header + b" " * (63 - (10 + len(header)) % 64) + b"\n"
    members[chosen] = b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + array.tobytes()
    return _archive(members.items())


def _arrays_changed(rng, content, other):
    """Values, shapes or types of arrays are others."""
    members = _members(content)
    for _ in range(int(rng.integers(1, 4))):
        chosen = str(rng.choice([name for name in members if name != "metadata.npy"]))
        array = np.load(io.BytesIO(members[chosen]))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            members[chosen] = _npy(_changed(rng, array))
    return _archive(members.items())


def _changed(rng, array):
    kind = int(rng.integers(9))
    if kind < 4 and array.size and array.dtype.kind in "fc":
        array = array.copy()
        places = rng.integers(array.size, size=int(rng.integers(1, 4)))
        array.reshape(-1)[places] = rng.choice(EXTREME)
        return array
    changes = [
        lambda: array * 10.0 ** rng.integers(-320, 308),
        lambda: -array,
        lambda: array[: len(array) // 2] if array.ndim else array,
        lambda: array.T,
        lambda: array.astype(np.float32),
    ]
    return changes[kind % 5]() if array.dtype.kind in "fciu" else array[:0]


def _metadata(rng, content, other):
    """Something in the metadata is another value, missing or more."""
    members = _members(content)
    metadata = json.loads(str(np.load(io.BytesIO(members["metadata.npy"]))))
    for _ in range(int(rng.integers(1, 3))):
        holder, key = _place(rng, metadata)
        act = rng.random()
        if act < 0.15:
            del holder[key]
        elif act < 0.25 and isinstance(holder, dict):
            holder["new"] = 1
        else:
            holder[key] = JSON_VALUES[rng.integers(len(JSON_VALUES))]
    members["metadata.npy"] = _npy(np.array(json.dumps(metadata)))
    return _archive(members.items())


def _place(rng, value):
    """A holder and a key in nested dictionaries and lists."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = keys[rng.integers(len(keys))]
        if not isinstance(value[key], dict | list) or not value[key] or rng.random() < 0.1:
            return value, key
        value = value[key]


MODEL_DAMAGE = {
    "bytes": _flipped,
    "cut": _cut,
    "spliced": _spliced,
    "members": _other_members,
    "headers": _headers,
    "arrays": _arrays_changed,
    "metadata": _metadata,
}


# Tables


def table_trial(seed):
    """One damaged table."""
    rng = np.random.default_rng([seed, 17])
    kind = str(rng.choice(list(TABLES)))
    path = folder() / f"damaged{kind}"
    if kind == ".npz":
        path.write_bytes(_damaged_npz(rng))
    else:
        content = TABLES[kind](rng, _damaged_frame(rng, frame().copy()))
        path.write_bytes(_damaged_text(rng, content) if kind in TEXT_FILES else _damaged_bytes(rng, content))
    options = _options(rng) if kind != ".npz" else [{}, {}, {"time": "times"}, {"dt": 0.1}][rng.integers(4)]
    options |= {"chunk_rows": int(rng.integers(3, 40))} if rng.random() < 0.3 else {}
    began = time.perf_counter()
    judged = fuzz_rules.judged(lambda: itofit.read_transitions(path, **options), _wrong_with_data)
    if judged.outcome == "answer" and len(judged.result) >= 20 and rng.random() < 0.3:
        judged = fuzz_rules.judged(lambda: itofit.fit(judged.result, rng=0), _wrong_with_fit)
    return {
        "kind": kind,
        "outcome": judged.outcome,
        "text": judged.text[:400],
        "options": {name: repr(value)[:60] for name, value in options.items()},
        "seconds": round(time.perf_counter() - began, 3),
    }


def _wrong_with_data(data):
    for block in data.blocks():
        yield from fuzz_rules.unfit_transitions(block)
    if len(data) == 0:
        yield "no transitions"


def _wrong_with_fit(sde):
    yield from fuzz_rules.unfit_model(sde, np.stack([sde.box[0], sde.box.mean(axis=0), sde.box[1]]))


def _options(rng):
    """How a table is read: mostly as it is, at times by columns that are not there."""
    options = {"time": "t", "state": ["x", "y"], "track": "id"}
    more = [{}, {}, {}, {"covariates": "u"}, {"state": "x", "velocity": "y"}, {"second_order": True}, {"max_h": 0.15},
            {"periodic": {"x": 7.0}}, {"track": None}, {"time": None, "dt": 0.1}, {"unit": "s"}, {"state": ["x", "z"]},
            {"time": "x"}, {"track": "t"}, {"state": None}]  # fmt: skip
    return {name: value for name, value in (options | more[rng.integers(len(more))]).items() if value is not None}


CELLS = (np.nan, np.inf, -np.inf, None, "", "text", "1,5", "1e400", "-", "NaN", "NULL", True, 10**30, 1e308, -0.0,
         "0x10", "2020-01-01", "12:30", "1 000", "\x1b[2J", "é", '"', "a,b", "#", "1;2")  # fmt: skip


def _damaged_frame(rng, table):
    """Cells, columns, rows or types of a table are others."""
    for _ in range(int(rng.integers(0, 4))):
        act, name = int(rng.integers(12)), str(rng.choice(table.columns))
        if act < 4 and len(table):
            column = table[name].astype(object)
            rows = rng.integers(len(table), size=int(rng.integers(1, 5)))
            column.iloc[rows] = CELLS[rng.integers(len(CELLS))]
            table[name] = column
        elif act == 4 and len(table.columns) > 1:
            table = table.drop(columns=name)
        elif act == 5:
            table = table.rename(columns={name: str(rng.choice([text for text in TEXTS if "\udcff" not in text]))})
        elif act == 6:
            table = table.iloc[rng.permutation(len(table))]
        elif act == 7:
            table = pd.concat([table, table.iloc[: len(table) // 2]])
        elif act == 8:
            table = table.iloc[: int(rng.integers(0, 5))]
        elif act == 9:
            table = table.assign(**{name: _of_other_type(rng, len(table))})
        elif act == 10:
            table = table.assign(**{name: 1.0})
        else:
            table = table.assign(
                **{name: pd.to_numeric(table[name], errors="coerce") * 10.0 ** rng.integers(-300, 300)}
            )
        table = table.loc[:, ~table.columns.duplicated()]
    return table


def _of_other_type(rng, n):
    makers = [
        lambda: pd.date_range("2020-01-01", periods=n, freq="s"),
        lambda: pd.date_range("2020-01-01", periods=n, freq="s", tz="Europe/Paris"),
        lambda: pd.to_timedelta(np.arange(n), unit="s"),
        lambda: pd.Categorical(np.arange(n) % 3),
        lambda: [str(i) for i in range(n)],
        lambda: np.arange(n) % 2 == 0,
        lambda: [[1.0]] * n,
        lambda: [{"a": 1}] * n,
        lambda: [b"xy"] * n,
        lambda: pd.array([None] * n, dtype="Int64"),
        lambda: np.arange(n, dtype=np.uint64) + 2**63,
        lambda: [None] * n,
    ]
    return makers[rng.integers(len(makers))]()


def _csv(separator, compressed=False):
    def written(rng, table):
        text = table.to_csv(index=False, sep=separator).encode(errors="replace")
        return gzip.compress(text, mtime=0) if compressed else text

    return written


def _parquet(rng, table):
    content = io.BytesIO()
    try:
        table.to_parquet(content, index=False, row_group_size=int(rng.choice([5, 1000])))
    except Exception:  # what Arrow cannot write: mixed types as texts
        content = io.BytesIO()
        table.astype(str).to_parquet(content, index=False)
    return content.getvalue()


TABLES = {".csv": _csv(","), ".tsv": _csv("\t"), ".csv.gz": _csv(",", True), ".parquet": _parquet, ".npz": None}
TEXT_FILES = (".csv", ".tsv")


def _damaged_bytes(rng, content):
    if rng.random() < 0.6 or not content:
        return content
    return [_flipped, _cut, _spliced][rng.integers(3)](rng, content, content)


def _damaged_text(rng, content):
    """Separators, quotes, encodings and ends of lines are others."""
    changes = [
        lambda: content,
        lambda: content,
        lambda: content,
        lambda: _damaged_bytes(rng, content),
        lambda: content.replace(b",", b";"),
        lambda: content.replace(b"\n", b"\r\n"),
        lambda: content.replace(b".", b","),
        lambda: b"\xef\xbb\xbf" + content,
        lambda: content.decode(errors="replace").encode("utf-16"),
        lambda: b"# a comment\n" + content,
        lambda: content.split(b"\n", 1)[-1],
        lambda: content + b'"unclosed',
        lambda: content + b"1,2\n",
        lambda: content + b"1,2,3,4,5,6,7,8\n",
        lambda: content + b"\n\n\n",
        lambda: b"",
        lambda: b"\n",
        lambda: content.split(b"\n", 1)[0],
        lambda: content + bytes(100),
        lambda: bytes(rng.integers(256, size=200, dtype=np.uint8)),
    ]
    return changes[rng.integers(len(changes))]()


def _damaged_npz(rng):
    """Arrays of pairs or trajectories, of which some are others."""
    given = arrays()
    forms = [
        {"x0": given["x"], "x1": given["x1"], "h": np.full(len(given["x"]), 0.1)},
        {"x0": given["x"], "x1": given["x1"], "h": np.array(0.1)},
        {"inputs": given["x"], "increments": given["x1"] - given["x"], "h": np.array(0.1)},
        {"path": given["path"], "times": given["times"]},
    ]
    members = dict(forms[rng.integers(len(forms))])
    for _ in range(int(rng.integers(0, 3))):
        name = str(rng.choice(list(members)))
        act = rng.random()
        with np.errstate(all="ignore"):
            if act < 0.2:
                del members[name]
            elif act < 0.3:
                members["more"] = given["x"]
            elif act < 0.4:
                members[name] = members[name].astype(str)
            elif act < 0.5:
                members[name] = np.array([{"a": 1}], dtype=object)
            else:
                members[name] = _changed(rng, np.asarray(members[name]))
        if not members:
            break
    content = io.BytesIO()
    np.savez(content, **members)
    return _damaged_bytes(rng, content.getvalue())
