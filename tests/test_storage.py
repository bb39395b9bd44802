import dataclasses
import functools
import io
import json
import os
import pickle
import stat
import warnings
import zipfile

import numpy as np
import pytest

from itofit import ARFF, InputError, LearnedSDE, ModelFileError, Transitions, fit, load
from itofit.learning.automatic.search import SearchHistory
from itofit.learning.paper.arff import History
from itofit.model.storage import FORMAT

QUICK = ARFF(n_features=8, delta=0.5, min_iterations=2, max_iterations=6)
RNG = np.random.default_rng(0)
X0 = RNG.normal(size=(60, 2))
X1 = X0 + 0.1 * RNG.normal(size=(60, 2))
DATA = Transitions.from_pairs(X0, X1, RNG.uniform(0.1, 0.2, 60), groups=np.repeat(np.arange(6), 10))


def learn(data=DATA, *, arff=QUICK, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(data, drift=arff, covariance=arff, **{"rng": 7, **kwargs})


ALGORITHMS = pytest.mark.parametrize("refine", [True, False], ids=["automatic", "algorithm 2"])


@functools.cache
def model(refine):
    """One model of each kind; all of Σ, so that it has entries to leave out."""
    return learn(structure="full", refine=refine)


@pytest.fixture(scope="module", params=[True, False], ids=["automatic", "algorithm 2"])
def sde(request):
    return model(request.param)


def saved(sde, path):
    sde.save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def file_bytes(sde, tmp_path_factory):
    return saved(sde, tmp_path_factory.mktemp("saved") / "model.npz")


def contents(value):
    """Everything a model holds, in a form that compares."""
    if dataclasses.is_dataclass(value):
        return {field.name: contents(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return type(value), value


def rewritten(file_bytes, path, change):
    """A file with the same members after `change(arrays, metadata)`."""
    with np.load(io.BytesIO(file_bytes), allow_pickle=False) as file:
        arrays = dict(file)
    metadata = json.loads(str(arrays.pop("metadata")))
    change(arrays, metadata)
    np.savez(path, metadata=np.array(json.dumps(metadata)), **arrays)
    return path


# Round trip


@pytest.mark.parametrize(
    ("data", "how"),
    [
        (DATA, {}),
        (DATA, {"structure": "full"}),
        (DATA, {"structure": "diagonal", "rng": np.random.default_rng(0)}),
        (DATA, {"rng": None}),
        (DATA, {"weight_drift": True}),
        (Transitions.from_underdamped(X0[:, :1], X0[:, 1:], X1[:, :1], X1[:, 1:], 0.1), {}),
        (Transitions(X0, X1[:, 0] - X0[:, 0], 0.1), {}),
        (DATA, {"arff": ARFF(n_features=4, max_iterations=0)}),
        (DATA, {"arff": ARFF(search_rows=40)}),
    ],
    ids=["auto", "full", "diagonal", "no seed", "weighted", "underdamped", "general", "no iterations", "a subset"],
)
@ALGORITHMS
def test_a_model_comes_back_as_it_was(data, how, refine, tmp_path):
    assert_comes_back(learn(data, refine=refine, **how), tmp_path / "model.npz")


@pytest.mark.parametrize("link", ["identity", "square", "log"])
@pytest.mark.parametrize("structure", ["diagonal", "full"])
def test_a_model_of_every_link_comes_back_as_it_was(structure, link, tmp_path):
    sde = learn(structure=structure, link=link)
    assert sde.link == link
    assert_comes_back(sde, tmp_path / "model.npz")


def assert_comes_back(sde, path):
    sde.save(path)
    back = load(path)
    assert isinstance(back, LearnedSDE)
    assert contents(back) == contents(sde)
    assert back.summary() == sde.summary()
    assert repr(back) == repr(sde)


def test_the_functions_come_back_to_the_last_bit(sde, tmp_path):
    sde.save(tmp_path / "model.npz")
    back = load(tmp_path / "model.npz")
    x = np.random.default_rng(1).normal(size=(50, 2))
    for call in (
        lambda model: model.drift(x),
        lambda model: model.covariance(x),
        lambda model: model.covariance(x, raw=True),
        lambda model: model.drift_jacobian(x),
        lambda model: model.nll(DATA),
        lambda model: model.nll(DATA, pointwise=True),
        lambda model: model.simulate(X0[:3], 0.01, 3, rng=0, outside="stop"),
    ):
        np.testing.assert_array_equal(call(back), call(sde))
    assert back.seed == 7
    assert back.drift_function.training.n_features == 8
    assert back.data.n_transitions == 60
    assert back.data.n_groups == 6
    assert back.floor == sde.floor
    np.testing.assert_array_equal(back.limits, sde.limits)
    np.testing.assert_array_equal(back.drift_function.training.seconds, sde.drift_function.training.seconds)


def test_the_course_of_the_training_comes_back(tmp_path):
    for refine, kind, judged in ((True, SearchHistory, "log_evidence"), (False, History, "validation_error")):
        model(refine).save(tmp_path / "model.npz")
        back = load(tmp_path / "model.npz")
        for name in ("drift_history", "covariance_history"):
            assert type(getattr(back, name)) is kind
            expected = getattr(getattr(model(refine), name), judged)
            np.testing.assert_array_equal(getattr(getattr(back, name), judged), expected)


def test_saving_twice_changes_nothing(sde, tmp_path):
    sde.save(tmp_path / "a.npz")
    load(tmp_path / "a.npz").save(tmp_path / "b.npz")
    assert contents(load(tmp_path / "b.npz")) == contents(sde)


@ALGORITHMS
def test_numbers_of_numpy_types_are_saved(tmp_path, refine):
    arff = ARFF(
        n_features=np.int64(4),
        ridge=np.float32(1e-3),
        min_iterations=np.int32(1),
        max_iterations=np.int64(2),
        search_rows=np.int64(50),
    )
    sde = learn(arff=arff, floor=np.float64(1e-2), refine=np.bool_(refine), rng=np.int64(3))
    sde.save(tmp_path / "model.npz")
    assert load(tmp_path / "model.npz").summary() == sde.summary()


def test_the_file_is_one_npz_of_plain_arrays_and_json(file_bytes):
    with np.load(io.BytesIO(file_bytes), allow_pickle=False) as file:
        arrays = dict(file)
    metadata = json.loads(str(arrays["metadata"]))
    assert metadata["program"] == "itofit"
    assert metadata["format"] == FORMAT
    assert metadata["seed"] == 7
    assert metadata["data"]["n_transitions"] == 60
    assert metadata["drift_settings"]["n_features"] == 8
    assert {array.dtype.kind for array in arrays.values()} <= {"f", "i", "c", "U"}


# Where it is written


@pytest.mark.parametrize("name", ["model.npz", "model", "model.sde", "with space.npz", "модель.npz", ".hidden"])
def test_exactly_the_given_path_is_used(sde, tmp_path, name):
    sde.save(tmp_path / name)
    assert os.listdir(tmp_path) == [name]
    assert contents(load(tmp_path / name)) == contents(sde)


def test_strings_and_relative_paths_are_accepted(sde, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sde.save("model.npz")
    assert contents(load("model.npz")) == contents(sde)
    assert contents(load(str(tmp_path / "model.npz"))) == contents(sde)


def test_a_new_file_replaces_the_old_one(sde, tmp_path):
    path = tmp_path / "model.npz"
    path.write_bytes(b"something much longer than nothing" * 10_000)
    sde.save(path)
    assert contents(load(path)) == contents(sde)


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_the_file_has_the_permissions_of_any_new_file(sde, tmp_path):
    sde.save(tmp_path / "model.npz")
    (tmp_path / "other").touch()
    assert stat.S_IMODE((tmp_path / "model.npz").stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)


class DiskFullError(OSError):
    pass


def half_written(file, *args, **arrays):
    file.write(b"PK\x03\x04 the first half")
    raise DiskFullError("no space left")


def interrupted(*args, **kwargs):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("function", "failure", "error"),
    [
        ("numpy.savez", half_written, DiskFullError),
        ("numpy.savez", interrupted, KeyboardInterrupt),
        ("os.fsync", interrupted, KeyboardInterrupt),
        ("os.replace", interrupted, KeyboardInterrupt),
    ],
)
@pytest.mark.parametrize("existing", [True, False])
def test_a_failed_write_leaves_things_as_they_were(sde, tmp_path, monkeypatch, function, failure, error, existing):
    path = tmp_path / "model.npz"
    if existing:
        path.write_bytes(b"old")
    monkeypatch.setattr(function, failure)
    with pytest.raises(error):
        sde.save(path)
    assert os.listdir(tmp_path) == (["model.npz"] if existing else [])
    if existing:
        assert path.read_bytes() == b"old"


def test_a_missing_directory_is_named(sde, tmp_path):
    missing = tmp_path / "results"
    with pytest.raises((FileNotFoundError, InputError)) as caught:
        sde.save(missing / "model.npz")
    assert str(missing) in str(caught.value)
    assert ".partial" not in str(caught.value)
    assert not missing.exists()


def test_a_directory_is_not_overwritten(sde, tmp_path):
    with pytest.raises((OSError, InputError), match="director"):
        sde.save(tmp_path)
    assert os.listdir(tmp_path) == []
    assert not [name for name in os.listdir(tmp_path.parent) if name.endswith(".partial")]


# Files that are not models


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.npz"):
        load(tmp_path / "nowhere.npz")


def test_a_truncated_file_is_refused_at_every_length(file_bytes, tmp_path):
    path = tmp_path / "model.npz"
    lengths = {*range(64), *range(0, len(file_bytes), 97), *range(len(file_bytes) - 64, len(file_bytes))}
    for length in sorted(lengths):
        path.write_bytes(file_bytes[:length])
        with pytest.raises(ModelFileError, match=r"model\.npz .*(truncated|corrupt)"):
            load(path)


def test_a_file_without_its_beginning_or_middle_is_refused(file_bytes, tmp_path):
    path = tmp_path / "model.npz"
    half = len(file_bytes) // 2
    for damaged in (file_bytes[1:], file_bytes[half:], file_bytes[: half - 50] + file_bytes[half + 50 :]):
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match=r"model\.npz"):
            load(path)


def directory_entries(file_bytes):
    """Where the entries of the zip directory begin."""
    start = file_bytes.index(b"PK\x01\x02")
    return [i for i in range(start, len(file_bytes)) if file_bytes[i : i + 4] == b"PK\x01\x02"]


def test_flipped_bytes_are_refused_or_change_nothing(sde, file_bytes, tmp_path):
    path = tmp_path / "model.npz"
    rng = np.random.default_rng(0)
    whole = contents(sde)
    n_refused = 0
    anywhere = rng.integers(len(file_bytes), size=300)
    directory = rng.integers(directory_entries(file_bytes)[0], len(file_bytes), size=300)
    for position in np.concatenate([anywhere, directory]):
        damaged = bytearray(file_bytes)
        damaged[position] ^= rng.integers(1, 256)
        path.write_bytes(damaged)
        try:
            back = load(path)
        except ModelFileError:
            n_refused += 1
        else:
            assert contents(back) == whole
    assert n_refused > 300


@pytest.mark.parametrize("n_bytes", [2, 20, 200])
def test_several_flipped_bytes_are_refused_or_change_nothing(sde, file_bytes, tmp_path, n_bytes):
    path = tmp_path / "model.npz"
    rng = np.random.default_rng(n_bytes)
    for _ in range(50):
        damaged = np.frombuffer(file_bytes, dtype=np.uint8).copy()
        damaged[rng.integers(len(damaged), size=n_bytes)] = rng.integers(256, size=n_bytes)
        path.write_bytes(damaged.tobytes())
        try:
            back = load(path)
        except ModelFileError:
            continue
        assert contents(back) == contents(sde)


@pytest.mark.parametrize(
    ("offset", "value"),
    [(8, 0x01), (8, 0x40), (10, 8), (10, 12), (10, 14), (10, 93), (10, 99)],
    ids=["encrypted", "strongly encrypted", "deflate", "bzip2", "lzma", "zstandard", "aes"],
)
def test_a_member_marked_as_encrypted_or_compressed_is_refused(file_bytes, tmp_path, offset, value):
    path = tmp_path / "model.npz"
    for entry in directory_entries(file_bytes):
        damaged = bytearray(file_bytes)
        damaged[entry + offset] = value
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match=r"model\.npz"):
            load(path)


@pytest.mark.filterwarnings("error::ResourceWarning")
def test_a_refused_file_is_closed_again(file_bytes, tmp_path):
    path = tmp_path / "model.npz"
    entry = directory_entries(file_bytes)[0]
    path.write_bytes(file_bytes[:entry] + b"XX" + file_bytes[entry + 2 :])
    with pytest.raises(ModelFileError, match=r"model\.npz"):
        load(path)


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("member", ["metadata", "box", "drift_series.omega", "extra"])
def test_a_pickle_inside_is_refused_and_not_executed(file_bytes, tmp_path, member):
    victim = tmp_path / "executed"
    with np.load(io.BytesIO(file_bytes), allow_pickle=False) as file:
        arrays = dict(file)
    bomb = np.empty(1, dtype=object)
    bomb[0] = Bomb(str(victim))
    np.savez(tmp_path / "model.npz", **{**arrays, member: bomb})
    with pytest.raises(ModelFileError, match=r"model\.npz"):
        load(tmp_path / "model.npz")
    assert not victim.exists()


def test_a_bare_pickle_is_refused_and_not_executed(tmp_path):
    victim = tmp_path / "executed"
    path = tmp_path / "model.npz"
    path.write_bytes(pickle.dumps(Bomb(str(victim))))
    with pytest.raises(ModelFileError, match=r"model\.npz"):
        load(path)
    assert not victim.exists()


def zip_with(name, text):
    def write(file):
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(name, text)

    return write


def npz_with_metadata(text):
    return lambda file: np.savez(file, metadata=np.array(text))


def npy_then_npz(file):
    np.save(file, np.zeros(3))
    np.savez(file, x=np.zeros(3))


OTHER_KINDS = {
    "npz": lambda file: np.savez(file, x=np.zeros(3)),
    "npz with other metadata": npz_with_metadata("{}"),
    "npz of another program": npz_with_metadata(json.dumps({"program": "other", "format": 1})),
    "npz with numbers as metadata": npz_with_metadata([1.0, 2.0]),
    "npz with text as metadata": npz_with_metadata("made by hand"),
    "npz with deep metadata": npz_with_metadata("[" * 100_000),
    "npz with metadata alone": npz_with_metadata(json.dumps({"program": "itofit", "format": 1})),
    "npy": lambda file: np.save(file, np.zeros(3)),
    "npy then npz": npy_then_npz,
    "zip": zip_with("readme.txt", "hello"),
    "zip with raw metadata": zip_with("metadata", json.dumps({"program": "itofit", "format": 1})),
    "text": lambda file: file.write(b"x,y\n1,2\n"),
    "nothing": lambda file: None,
    "noise": lambda file: file.write(np.random.default_rng(0).bytes(5000)),
}


@pytest.mark.parametrize("write", OTHER_KINDS.values(), ids=OTHER_KINDS)
def test_a_file_of_another_kind_is_refused(tmp_path, write):
    path = tmp_path / "other.npz"
    with open(path, "wb") as file:
        write(file)
    with pytest.raises(ModelFileError, match=r"other\.npz"):
        load(path)


@pytest.mark.parametrize("version", [FORMAT + 1, 1000])
def test_a_newer_format_asks_for_an_upgrade(file_bytes, tmp_path, version):
    def change(arrays, metadata):
        metadata["format"] += version - FORMAT
        arrays.clear()

    path = rewritten(file_bytes, tmp_path / "model.npz", change)
    with pytest.raises(ModelFileError, match=rf"model\.npz has file format {version}, .* upgrade itofit"):
        load(path)


def test_a_rewritten_file_is_still_the_same_model(sde, file_bytes, tmp_path):
    path = rewritten(file_bytes, tmp_path / "model.npz", lambda arrays, metadata: None)
    assert contents(load(path)) == contents(sde)


# Files of the first format


def to_format_1(arrays, metadata):
    """What a model of Algorithm 2 was written as before there was anything else."""
    floor = float(arrays.pop("limits")[0, 0])
    for name in ("link", "candidates", "searched_on", "drift_in_noise_units"):
        del metadata[name]
    for name in ("drift", "covariance"):
        metadata[f"{name}_stopped"] = metadata.pop(f"{name}_history")["stopped"]
        del metadata[f"{name}_settings"]["kind"]
    del metadata["data"]["kind"]
    metadata |= {"format": 1, "floor": floor}


@pytest.mark.parametrize("how", [{}, {"structure": "diagonal"}, {"floor": 0.1}], ids=["full", "diagonal", "floor"])
def test_a_file_of_the_first_format_is_the_same_model(how, tmp_path):
    sde, path = learn(refine=False, **how), tmp_path / "model.npz"
    back = load(rewritten(saved(sde, path), path, to_format_1))
    assert contents(back) == contents(dataclasses.replace(sde, searched_on=""))
    assert back.summary() == sde.summary()
    for call in (lambda model: model.drift(X0), lambda model: model.covariance(X0), lambda model: model.nll(DATA)):
        np.testing.assert_array_equal(call(back), call(sde))
    back.save(path)
    assert contents(load(path)) == contents(back)


# Files whose parts are whole and do not fit together


def array_of(name, change):
    def apply(arrays, metadata):
        arrays[name] = change(arrays[name])

    return apply


def metadata_of(name, value):
    def apply(arrays, metadata):
        *parents, last = name.split(".")
        for parent in parents:
            metadata = metadata[parent]
        metadata[last] = value

    return apply


def without(name):
    def apply(arrays, metadata):
        del (arrays if name in arrays else metadata)[name]

    return apply


def first_is(value):
    def change(array):
        array = array.copy()
        array.flat[0] = value
        return array

    return change


INCONSISTENT = {
    "no omega": without("drift_series.omega"),
    "no history": without("drift_history.acceptance"),
    "no box": without("box"),
    "no kind": without("kind"),
    "no data": without("data"),
    "no settings": without("drift_settings"),
    "NaN amplitude": array_of("drift_series.beta", first_is(np.nan)),
    "infinite frequency": array_of("covariance_series.omega", first_is(np.inf)),
    "NaN offset": array_of("drift_series.offset", first_is(np.nan)),
    "scale of zero": array_of("drift_series.scale", first_is(0.0)),
    "NaN box": array_of("box", first_is(np.nan)),
    "inverted box": array_of("box", lambda box: box[::-1]),
    "singular factor": array_of("floor_factor", np.zeros_like),
    "infinite factor": array_of("floor_factor", first_is(np.inf)),
    "fewer amplitudes": array_of("drift_series.beta", lambda beta: beta[:-1]),
    "fewer outputs": array_of("drift_series.beta", lambda beta: beta[:, :1]),
    "fewer entries": array_of("covariance_series.beta", lambda beta: beta[:, :2]),
    "flat frequencies": array_of("drift_series.omega", np.ravel),
    "a number for frequencies": array_of("drift_series.omega", lambda omega: np.array(1.0)),
    "real amplitudes": array_of("drift_series.beta", np.real),
    "single precision": array_of("drift_series.omega", lambda omega: omega.astype(np.float32)),
    "words for the box": array_of("box", lambda box: box.astype(str)),
    "flat history": array_of("covariance_history.seconds", lambda seconds: np.array(1.0)),
    "words for history": array_of("drift_history.acceptance", lambda acceptance: acceptance.astype(str)),
    "other structure": metadata_of("structure", "diagonal"),
    "unknown structure": metadata_of("structure", "banded"),
    "unknown kind": metadata_of("kind", "jump"),
    "kind of other shape": metadata_of("kind", "underdamped"),
    "no limits": without("limits"),
    "negative limit": array_of("limits", first_is(-1.0)),
    "NaN limit": array_of("limits", first_is(np.nan)),
    "largest limit first": array_of("limits", lambda limits: limits[::-1]),
    "limits of one entry": array_of("limits", lambda limits: limits[:, :1]),
    "words for limits": array_of("limits", lambda limits: limits.astype(str)),
    "no link": without("link"),
    "unknown link": metadata_of("link", "cube"),
    "noise units a word": metadata_of("drift_in_noise_units", "no"),
    "searched on a number": metadata_of("searched_on", 400),
    "no candidates": without("candidates"),
    "candidates a word": metadata_of("candidates", "all"),
    "a short candidate": metadata_of("candidates", [["full", "search", "log"]]),
    "a candidate of unknown structure": metadata_of("candidates", [["banded", "search", "log", 0.0]]),
    "a candidate of unknown link": metadata_of("candidates", [["full", "search", "cube", 0.0]]),
    "a candidate of NaN loss": metadata_of("candidates", [["full", "search", "log", float("nan")]]),
    "a candidate whose loss is a word": metadata_of("candidates", [["full", "search", "log", "low"]]),
    "share a word": metadata_of("floored_share", "none"),
    "share of two": metadata_of("floored_share", 2.0),
    "unknown setting": metadata_of("drift_settings.momentum", 0.9),
    "features a word": metadata_of("drift_settings.n_features", "many"),
    "unknown kind of settings": metadata_of("drift_settings.kind", "Guess"),
    "settings of another kind": metadata_of("drift_settings.kind", "DataSummary"),
    "data of another kind": metadata_of("data.kind", "History"),
    "no kind of history": metadata_of("drift_history", {"stopped": "max_iterations"}),
    "stopped by something": metadata_of("covariance_history.stopped", "boredom"),
    "settings a list": metadata_of("drift_settings", [1, 2]),
    "data a word": metadata_of("data", "mine"),
    "duration a word": metadata_of("data.h_min", "short"),
    "format a word": metadata_of("format", "one"),
    "format missing": metadata_of("format", None),
}


@pytest.mark.parametrize("change", INCONSISTENT.values(), ids=INCONSISTENT)
def test_parts_that_do_not_fit_together_are_refused(file_bytes, tmp_path, change):
    path = rewritten(file_bytes, tmp_path / "model.npz", change)
    with pytest.raises(ModelFileError, match=r"model\.npz"):
        load(path)


def data_in_place_of(name):
    """The record of the data where that of a training should be."""

    def apply(arrays, metadata):
        metadata[name] = metadata["data"]
        for array in [array for array in arrays if array.startswith(f"{name}.")]:
            del arrays[array]

    return apply


INCONSISTENT_AUTOMATIC = {
    "short history": array_of("drift_history.log_evidence", lambda values: values[:1]),
    "empty history": array_of("drift_history.log_evidence", lambda values: values[:0]),
    "no times": without("drift_history.iteration"),
    "NaN evidence": array_of("drift_history.log_evidence", first_is(np.nan)),
    "best iteration a word": metadata_of("drift_history.best_iteration", "last"),
    "no ridges": without("drift_settings.ridges"),
    "NaN ridge": array_of("drift_settings.ridges", first_is(np.nan)),
    "ridges of one output": array_of("drift_settings.ridges", lambda ridges: ridges[:1]),
    "ridges of fewer groups": array_of("drift_settings.ridges", lambda ridges: ridges[:, :-1]),
    "flat ridges": array_of("drift_settings.ridges", np.ravel),
    "words for groups": array_of("drift_settings.groups", lambda groups: groups.astype(str)),
    "determined a word": metadata_of("drift_settings.determined", "some"),
    "history of the data": data_in_place_of("drift_history"),
    "settings of the data": data_in_place_of("drift_settings"),
}


@pytest.mark.parametrize("change", INCONSISTENT_AUTOMATIC.values(), ids=INCONSISTENT_AUTOMATIC)
def test_parts_of_an_automatic_model_that_do_not_fit_together_are_refused(tmp_path, change):
    path = tmp_path / "model.npz"
    rewritten(saved(model(True), path), path, change)
    with pytest.raises(ModelFileError, match=r"model\.npz"):
        load(path)


INCONSISTENT_ALGORITHM_2 = {
    "short history": array_of("drift_history.validation_error", lambda errors: errors[:2]),
    "empty history": array_of("drift_history.validation_error", lambda errors: errors[:0]),
    "ridge a word": metadata_of("drift_settings.ridge", "weak"),
    "unknown pairing": metadata_of("drift_settings.pairing", "swap"),
    "history of the data": data_in_place_of("drift_history"),
    "settings of the data": data_in_place_of("drift_settings"),
}


@pytest.mark.parametrize("change", INCONSISTENT_ALGORITHM_2.values(), ids=INCONSISTENT_ALGORITHM_2)
def test_parts_of_a_model_of_algorithm_2_that_do_not_fit_together_are_refused(tmp_path, change):
    path = tmp_path / "model.npz"
    rewritten(saved(model(False), path), path, change)
    with pytest.raises(ModelFileError, match=r"model\.npz"):
        load(path)


INCONSISTENT_FORMAT_1 = {
    "no floor": without("floor"),
    "negative floor": metadata_of("floor", -1.0),
    "floor of two": metadata_of("floor", 2.0),
    "NaN floor": metadata_of("floor", float("nan")),
    "floor a word": metadata_of("floor", "low"),
    "no stop": without("drift_stopped"),
    "stopped by something": metadata_of("covariance_stopped", "boredom"),
    "no settings": without("drift_settings"),
    "settings a list": metadata_of("drift_settings", [1, 2]),
    "data a word": metadata_of("data", "mine"),
    "no factor": without("floor_factor"),
    "a number for the factor": array_of("floor_factor", lambda factor: np.array(1.0)),
    "short history": array_of("drift_history.validation_error", lambda errors: errors[:2]),
}


@pytest.mark.parametrize("change", INCONSISTENT_FORMAT_1.values(), ids=INCONSISTENT_FORMAT_1)
def test_parts_of_a_file_of_the_first_format_that_do_not_fit_together_are_refused(tmp_path, change):
    path = tmp_path / "model.npz"
    rewritten(saved(model(False), path), path, to_format_1)
    rewritten(path.read_bytes(), path, change)
    with pytest.raises(ModelFileError, match=r"model\.npz"):
        load(path)


def test_a_raw_member_in_place_of_an_array_is_refused(file_bytes, tmp_path):
    path = tmp_path / "model.npz"
    with zipfile.ZipFile(io.BytesIO(file_bytes)) as whole, zipfile.ZipFile(path, "w") as copy:
        for name in whole.namelist():
            copy.writestr(name, b"raw" if name == "drift_series.omega.npy" else whole.read(name))
    with pytest.raises(ModelFileError, match=r"model\.npz"):
        load(path)
