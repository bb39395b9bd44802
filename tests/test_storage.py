import dataclasses
import fcntl
import functools
import io
import json
import operator
import os
import pickle
import stat
import time
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

from itofit import ARFF, DataWarning, InputError, LearnedSDE, ModelFileError, Transitions, fit, load
from itofit.model import storage
from itofit.model.known import KnownSDE
from itofit.model.storage import FORMAT
from itofit.model.training import Candidate

QUICK = ARFF(n_features=8, delta=0.5, min_iterations=2, max_iterations=6)
RNG = np.random.default_rng(0)
X0 = RNG.normal(size=(60, 2))
X1 = X0 + 0.1 * RNG.normal(size=(60, 2))
ORNSTEIN_UHLENBECK = KnownSDE(f=lambda x: -x, sigma=lambda x: np.full((len(x), 1, 1), 1.0))
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
    """Everything a model holds, also in the records and models within it, in a form that compares."""
    if dataclasses.is_dataclass(value):
        fields = {field.name: contents(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return type(value), fields
    if isinstance(value, tuple):
        return type(value), [contents(part) for part in value]
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
        (Transitions.from_pairs(X0[:, 0], X1[:, 0], 0.1), {}),
        (Transitions.from_trajectories(ORNSTEIN_UHLENBECK.simulate(0.0, 0.1, 6000, rng=0)[0], dt=0.1), {}),
    ],
    ids=[
        "auto",
        "full",
        "diagonal",
        "no seed",
        "weighted",
        "underdamped",
        "general",
        "no iterations",
        "a subset",
        "one",
        "gathered",
    ],
)
@ALGORITHMS
def test_a_model_comes_back_as_it_was(data, how, refine, tmp_path):
    assert_comes_back(learn(data, refine=refine, **how), tmp_path / "model.npz")


RICH = ["algorithm 2", "automatic", "ensemble", "corrected", "corrected ensemble", "long"]
LINEAR = Transitions.from_trajectories(ORNSTEIN_UHLENBECK.simulate(0.0, 0.3, 400, rng=0)[0], dt=0.3)
UNEVEN = Transitions(LINEAR.inputs, LINEAR.increments, np.where(np.arange(400) < 20, 0.6, 0.3))


@functools.cache
def rich(name):
    """Models that hold every kind of record."""
    if name in ("algorithm 2", "automatic"):
        return learn(structure="full", refine=name == "automatic", correct_step=False)
    how = {"ensemble": {"ensemble": 3}, "corrected": {"correct_step": True}, "long": {"max_h": 0.35}}
    chosen = {key: value for word in name.split() for key, value in how[word].items()}
    return learn(UNEVEN if name == "long" else LINEAR, **{"correct_step": False, **chosen})


@pytest.mark.parametrize("name", RICH)
def test_every_field_of_every_record_comes_back(name, tmp_path):
    sde = rich(name)
    assert len(sde.members) == (2 if "ensemble" in name else 0)
    assert (sde.one_step is not None) == (sde.step_correction is not None) == ("corrected" in name)
    if "corrected" in name:
        assert sde.scheme == "corrected"
        assert len(sde.one_step.members) == len(sde.members)
    assert_comes_back(sde, tmp_path / "model.npz")
    back = load(tmp_path / "model.npz")
    x = sde.box[0] + np.linspace(0, 1, 20)[:, None] * np.ptp(sde.box, axis=0)
    np.testing.assert_array_equal(back.drift(x), sde.drift(x))
    np.testing.assert_array_equal(back.covariance(x), sde.covariance(x))
    if sde.has_error_bars:
        np.testing.assert_array_equal(back.drift(x, return_std=True)[1], sde.drift(x, return_std=True)[1])
        np.testing.assert_array_equal(back.covariance(x, return_std=True)[1], sde.covariance(x, return_std=True)[1])
    if "corrected" in name:
        np.testing.assert_array_equal(back.step_trust(x), sde.step_trust(x))


def test_comparing_contents_finds_every_difference():
    sde = rich("corrected ensemble")
    for change in (
        {"members": sde.members[:1]},
        {"one_step": dataclasses.replace(sde.one_step, seed=1)},
        {"members": (sde.members[0], dataclasses.replace(sde.members[1], floored_share=0.5))},
        {"candidates": (*sde.candidates, Candidate("full", "search", "log", 0.0))},
        {"limits": np.nextafter(sde.limits, 0.0)},
    ):
        assert contents(dataclasses.replace(sde, **change)) != contents(sde)


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
    for refine, judge in ((True, "log-evidence"), (False, "validation error")):
        model(refine).save(tmp_path / "model.npz")
        back = load(tmp_path / "model.npz")
        for name in ("drift_function", "covariance_function"):
            training, expected = getattr(back, name).training, getattr(model(refine), name).training
            assert training.judge == judge
            np.testing.assert_array_equal(training.score, expected.score)
            assert repr(training) == repr(expected)


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
    plain = metadata["model"]
    assert plain["kind of record"] == "LearnedSDE"
    assert plain["seed"] == 7
    assert plain["data"]["n_transitions"] == 60
    assert plain["drift_function"]["training"]["n_features"] == 8
    linear = 2 if plain["drift_function"]["training"]["judge"] == "log-evidence" else 0
    assert arrays["drift_function.series.omega"].shape == (8 + linear, 2)
    assert {array.dtype.kind for array in arrays.values()} <= {"f", "i", "c", "U"}


def test_the_drift_follows_from_the_members_of_the_file_as_documented(sde, file_bytes):
    with np.load(io.BytesIO(file_bytes), allow_pickle=False) as file:
        omega, beta, shift, scale, offset = (
            file[f"drift_function.series.{name}"] for name in ("omega", "beta", "shift", "scale", "offset")
        )
    u = (X0 - shift) / scale
    np.testing.assert_allclose(sde.drift(X0), offset + (np.exp(1j * u @ omega.T) @ beta).real, rtol=1e-10, atol=1e-12)


# Messages


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays, metadata: metadata.pop("model"), "the model in its metadata must be a dict, got NoneType"),
        (lambda arrays, metadata: metadata["model"].pop("kind of record"), "of unknown kind: None"),
        (lambda arrays, metadata: metadata["model"]["data"].update({"kind of record": "Bomb"}), "unknown kind: 'Bomb'"),
        (lambda arrays, metadata: metadata["model"].pop("link"), "link of a LearnedSDE is missing"),
        (lambda arrays, metadata: arrays.pop("drift_function.series.beta"), "beta of a FourierSeries is missing"),
        (
            lambda arrays, metadata: arrays.update(box=np.zeros((2, 3))),
            r"box must be float64 of shape \(2, 2\), got float64 of shape \(2, 3\)",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said(file_bytes, tmp_path, change, message):
    path = rewritten(file_bytes, tmp_path / "model.npz", change)
    with pytest.raises(ModelFileError, match=rf"model\.npz is not a complete itofit model: .*{message}"):
        load(path)


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


def test_what_is_no_file_is_not_replaced(sde, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is a device or the like, which a file would replace"):
        sde.save(tmp_path / "pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


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
    anywhere = rng.integers(len(file_bytes), size=150)
    directory = rng.integers(directory_entries(file_bytes)[0], len(file_bytes), size=150)
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
    assert n_refused > 150


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


def with_pickle(file_bytes, path, member):
    """A file with an array of objects that makes a directory when it is read, whose path is returned."""
    victim = path.with_name("executed")
    with np.load(io.BytesIO(file_bytes), allow_pickle=False) as file:
        arrays = dict(file)
    bomb = np.empty(1, dtype=object)
    bomb[0] = Bomb(str(victim))
    np.savez(path, **{**arrays, member: bomb})
    return victim


@pytest.mark.parametrize("member", ["metadata", "box", "drift_function.series.omega"])
def test_a_pickle_inside_is_refused_and_not_executed(file_bytes, tmp_path, member):
    victim = with_pickle(file_bytes, tmp_path / "model.npz", member)
    with pytest.raises(ModelFileError, match=r"model\.npz"):
        load(tmp_path / "model.npz")
    assert not victim.exists()


def test_a_pickle_that_is_no_part_of_the_model_is_not_looked_at(sde, file_bytes, tmp_path):
    victim = with_pickle(file_bytes, tmp_path / "model.npz", "extra")
    assert contents(load(tmp_path / "model.npz")) == contents(sde)
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
    "npz with metadata alone": npz_with_metadata(json.dumps({"program": "itofit", "format": FORMAT})),
    "npz with an empty model": npz_with_metadata(json.dumps({"program": "itofit", "format": FORMAT, "model": {}})),
    "npy": lambda file: np.save(file, np.zeros(3)),
    "npy then npz": npy_then_npz,
    "zip": zip_with("readme.txt", "hello"),
    "zip with raw metadata": zip_with("metadata", json.dumps({"program": "itofit", "format": FORMAT})),
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


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_formats_of_before_any_release_are_refused(file_bytes, tmp_path, version):
    path = rewritten(file_bytes, tmp_path / "model.npz", metadata_of("format", version))
    message = rf"has file format {version}, this version .* reads 8 and {FORMAT}; it was written before any release"
    with pytest.raises(ModelFileError, match=message):
        load(path)


def test_a_model_of_before_places_were_kept_has_none(tmp_path):
    sde = rich("corrected ensemble")
    sde.save(tmp_path / "model.npz")

    def as_before(plain):
        if isinstance(plain, list):
            return [as_before(part) for part in plain]
        if isinstance(plain, dict):
            return {name: as_before(part) for name, part in plain.items() if name != "places"}
        return plain

    def change(arrays, metadata):
        del arrays["data.places.inputs"]
        metadata.update(as_before(metadata), format=8)

    old = load(rewritten((tmp_path / "model.npz").read_bytes(), tmp_path / "old.npz", change))
    assert old.data.places is None
    assert contents(old) == contents(dataclasses.replace(sde, data=dataclasses.replace(sde.data, places=None)))


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
        if name in arrays:
            del arrays[name]
        else:
            *parents, last = name.split(".")
            for parent in parents:
                metadata = metadata[parent]
            del metadata[last]

    return apply


def first_is(value):
    def change(array):
        array = array.copy()
        array.flat[0] = value
        return array

    return change


def one_candidate(without=None, **changes):
    """One candidate, as it stands in a file but for changes."""
    fields = {"kind of record": "Candidate", "structure": "full", "frequencies": "search", "link": "log", "loss": 0.0}
    return metadata_of("model.candidates", [{k: v for k, v in (fields | changes).items() if k != without}])


INCONSISTENT = {
    "no omega": without("drift_function.series.omega"),
    "no acceptance": without("drift_function.training.acceptance"),
    "no box": without("box"),
    "no kind": without("model.kind"),
    "no data": without("model.data"),
    "no parameters": without("model.drift_function.training.parameters"),
    "NaN amplitude": array_of("drift_function.series.beta", first_is(np.nan)),
    "infinite frequency": array_of("covariance_function.series.omega", first_is(np.inf)),
    "NaN offset": array_of("drift_function.series.offset", first_is(np.nan)),
    "scale of zero": array_of("drift_function.series.scale", first_is(0.0)),
    "NaN box": array_of("box", first_is(np.nan)),
    "inverted box": array_of("box", lambda box: box[::-1]),
    "singular factor": array_of("floor_factor", np.zeros_like),
    "infinite factor": array_of("floor_factor", first_is(np.inf)),
    "no factor": without("floor_factor"),
    "a number for the factor": array_of("floor_factor", lambda factor: np.array(1.0)),
    "fewer amplitudes": array_of("drift_function.series.beta", lambda beta: beta[:-1]),
    "fewer outputs": array_of("drift_function.series.beta", lambda beta: beta[:, :1]),
    "fewer entries": array_of("covariance_function.series.beta", lambda beta: beta[:, :2]),
    "flat frequencies": array_of("drift_function.series.omega", np.ravel),
    "a number for frequencies": array_of("drift_function.series.omega", lambda omega: np.array(1.0)),
    "real amplitudes": array_of("drift_function.series.beta", np.real),
    "single precision": array_of("drift_function.series.omega", lambda omega: omega.astype(np.float32)),
    "words for the box": array_of("box", lambda box: box.astype(str)),
    "a number for durations": array_of("covariance_function.training.seconds", lambda seconds: np.array(1.0)),
    "words for acceptance": array_of("drift_function.training.acceptance", lambda acceptance: acceptance.astype(str)),
    "other structure": metadata_of("model.structure", "diagonal"),
    "unknown structure": metadata_of("model.structure", "banded"),
    "unknown kind": metadata_of("model.kind", "jump"),
    "kind of other shape": metadata_of("model.kind", "underdamped"),
    "covariates of other shape": metadata_of("model.n_covariates", 1),
    "no state besides covariates": metadata_of("model.n_covariates", 2),
    "a word for covariates": metadata_of("model.n_covariates", "all"),
    "no covariates": without("model.n_covariates"),
    "no periods": without("periods"),
    "NaN period": array_of("periods", first_is(np.nan)),
    "a period that is not the range": array_of("periods", lambda periods: periods + np.array([[0.0], [1.0]])),
    "periods of one input": array_of("periods", lambda periods: periods[:, :1]),
    "no limits": without("limits"),
    "negative limit": array_of("limits", first_is(-1.0)),
    "NaN limit": array_of("limits", first_is(np.nan)),
    "largest limit first": array_of("limits", lambda limits: limits[::-1]),
    "limits of one entry": array_of("limits", lambda limits: limits[:, :1]),
    "words for limits": array_of("limits", lambda limits: limits.astype(str)),
    "no link": without("model.link"),
    "unknown link": metadata_of("model.link", "cube"),
    "noise units a word": metadata_of("model.drift_in_noise_units", "no"),
    "searched on a number": metadata_of("model.searched_on", 400),
    "no candidates": without("model.candidates"),
    "candidates a word": metadata_of("model.candidates", "all"),
    "a short candidate": one_candidate(without="loss"),
    "a candidate of unknown structure": one_candidate(structure="banded"),
    "a candidate of unknown link": one_candidate(link="cube"),
    "a candidate of NaN loss": one_candidate(loss=float("nan")),
    "a candidate whose loss is a word": one_candidate(loss="low"),
    "a candidate of unknown frequencies": one_candidate(frequencies="guess"),
    "a candidate of another kind": one_candidate(**{"kind of record": "DataSummary"}),
    "share a word": metadata_of("model.floored_share", "none"),
    "share of two": metadata_of("model.floored_share", 2.0),
    "unknown parameter": metadata_of("model.drift_function.training.parameters.momentum", 0.9),
    "features a word": metadata_of("model.drift_function.training.n_features", "many"),
    "unknown kind of training": metadata_of("model.drift_function.training.kind of record", "Guess"),
    "training of another kind": metadata_of("model.drift_function.training.kind of record", "DataSummary"),
    "data of another kind": metadata_of("model.data.kind of record", "Training"),
    "no kind of training": metadata_of("model.drift_function.training", {"stopped": "max_iterations"}),
    "no training": without("model.drift_function.training"),
    "no stop": without("model.drift_function.training.stopped"),
    "no score": without("drift_function.training.score"),
    "no ridges of the covariance": without("covariance_function.training.ridges"),
    "no place for scores": array_of("drift_function.training.iteration", lambda iteration: iteration[:0]),
    "fewer durations": array_of("drift_function.training.seconds", lambda seconds: seconds[:-1]),
    "a group of no input": array_of("drift_function.training.groups", first_is(6)),
    "a monomial of no input": array_of("drift_function.training.groups", first_is(-10)),
    "determined less than nothing": metadata_of("model.drift_function.training.determined", -1.0),
    "unknown judge": metadata_of("model.drift_function.training.judge", "taste"),
    "no judge": without("model.drift_function.training.judge"),
    "features of the parameters a word": metadata_of("model.drift_function.training.parameters.n_features", "many"),
    "a series for a function": metadata_of("model.drift_function.kind of record", "FourierSeries"),
    "no spread": without("model.drift_function.spread"),
    "spread a word": metadata_of("model.covariance_function.spread", "wide"),
    "members a word": metadata_of("model.members", "all"),
    "members of another kind": metadata_of("model.members", [1, 2]),
    "no members": without("model.members"),
    "one step without correction": metadata_of("model.one_step", "before"),
    "an unknown field": metadata_of("model.colour", "red"),
    "an absurd number": metadata_of("model.data.h_min", 10**400),
    "a model within a model without end": lambda arrays, metadata: metadata["model"].update(
        one_step=functools.reduce(lambda inner, _: {"one_step": inner}, range(900), "end")
    ),
    "another record": metadata_of("model.kind of record", "Training"),
    "model a word": metadata_of("model", "mine"),
    "no model": without("model"),
    "stopped by something": metadata_of("model.covariance_function.training.stopped", "boredom"),
    "parameters a list": metadata_of("model.drift_function.training.parameters", [1, 2]),
    "data a word": metadata_of("model.data", "mine"),
    "duration a word": metadata_of("model.data.h_min", "short"),
    "format a word": metadata_of("format", "one"),
    "format missing": metadata_of("format", None),
}


@pytest.mark.parametrize("change", INCONSISTENT.values(), ids=INCONSISTENT)
def test_parts_that_do_not_fit_together_are_refused(file_bytes, tmp_path, change):
    path = rewritten(file_bytes, tmp_path / "model.npz", change)
    with pytest.raises(ModelFileError, match=r"model\.npz"):
        load(path)


def data_in_place_of(name):
    """The record of the data where another should be."""

    def apply(arrays, metadata):
        metadata_of(f"model.{name}", metadata["model"]["data"])(arrays, metadata)
        for array in [array for array in arrays if array.startswith(f"{name}.")]:
            del arrays[array]

    return apply


INCONSISTENT_AUTOMATIC = {
    "fewer scores": array_of("drift_function.training.score", lambda values: values[:1]),
    "no scores": array_of("drift_function.training.score", lambda values: values[:0]),
    "no iterations": without("drift_function.training.iteration"),
    "NaN evidence": array_of("drift_function.training.score", first_is(np.nan)),
    "best iteration a word": metadata_of("model.drift_function.training.best_iteration", "last"),
    "no ridges": without("drift_function.training.ridges"),
    "NaN ridge": array_of("drift_function.training.ridges", first_is(np.nan)),
    "ridges of one output": array_of("drift_function.training.ridges", lambda ridges: ridges[:1]),
    "ridges of fewer groups": array_of("drift_function.training.ridges", lambda ridges: ridges[:, :-1]),
    "flat ridges": array_of("drift_function.training.ridges", np.ravel),
    "words for groups": array_of("drift_function.training.groups", lambda groups: groups.astype(str)),
    "determined a word": metadata_of("model.drift_function.training.determined", "some"),
    "data in place of a training": data_in_place_of("drift_function.training"),
    "data in place of parameters": data_in_place_of("drift_function.training.parameters"),
}


@pytest.mark.parametrize("change", INCONSISTENT_AUTOMATIC.values(), ids=INCONSISTENT_AUTOMATIC)
def test_parts_of_an_automatic_model_that_do_not_fit_together_are_refused(tmp_path, change):
    path = tmp_path / "model.npz"
    rewritten(saved(model(True), path), path, change)
    with pytest.raises(ModelFileError, match=r"model\.npz"):
        load(path)


INCONSISTENT_ALGORITHM_2 = {
    "scores of fewer iterations": lambda arrays, metadata: arrays.update(
        {name: arrays[name][:2] for name in ("drift_function.training.score", "drift_function.training.iteration")}
    ),
    "fewer scores": array_of("drift_function.training.score", lambda errors: errors[:2]),
    "no scores": array_of("drift_function.training.score", lambda errors: errors[:0]),
    "ridge a word": metadata_of("model.drift_function.training.parameters.ridge", "weak"),
    "no ridge": metadata_of("model.drift_function.training.parameters.ridge", None),
    "unknown pairing": metadata_of("model.drift_function.training.parameters.pairing", "swap"),
    "data in place of a training": data_in_place_of("drift_function.training"),
    "data in place of parameters": data_in_place_of("drift_function.training.parameters"),
}


@pytest.mark.parametrize("change", INCONSISTENT_ALGORITHM_2.values(), ids=INCONSISTENT_ALGORITHM_2)
def test_parts_of_a_model_of_algorithm_2_that_do_not_fit_together_are_refused(tmp_path, change):
    path = tmp_path / "model.npz"
    rewritten(saved(model(False), path), path, change)
    with pytest.raises(ModelFileError, match=r"model\.npz"):
        load(path)


def test_a_candidate_that_is_right_is_accepted(file_bytes, tmp_path):
    path = rewritten(file_bytes, tmp_path / "model.npz", one_candidate())
    assert load(path).candidates == (Candidate("full", "search", "log", 0.0),)


# Every part of every model


def leaves(plain, path=()):
    """The paths to all values in JSON that are no dictionaries, and to those."""
    for key, value in plain.items() if isinstance(plain, dict) else enumerate(plain):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, key))


def changed(plain, path, change):
    """A copy of JSON in which the value at a path was changed."""
    copy = json.loads(json.dumps(plain))
    place = functools.reduce(operator.getitem, path[:-1], copy)
    change(place, path[-1])
    return copy


FREE_TEXT = {"version", "searched_on"}


@pytest.fixture(params=RICH[:-2])  # the last ones have no part that these have not
def parts(request, tmp_path, monkeypatch):
    """Arrays and metadata of a model, and a function that reads others in their place."""
    rich(request.param).save(tmp_path / "model.npz")
    arrays, metadata = storage.read(tmp_path / "model.npz")

    def assert_refused(arrays, plain):
        monkeypatch.setattr(storage, "read", lambda path, wanted: (arrays, {"model": plain}))
        with pytest.raises(ModelFileError, match=r"model\.npz"):
            load(tmp_path / "model.npz")

    return arrays, metadata["model"], assert_refused


def test_no_array_of_a_model_can_be_left_out_or_damaged(parts):
    arrays, plain, assert_refused = parts
    for name, array in arrays.items():
        assert_refused({key: value for key, value in arrays.items() if key != name}, plain)
        assert_refused(arrays | {name: array.astype(str)}, plain)
        assert_refused(arrays | {name: array[None]}, plain)
        if array.size:
            assert_refused(arrays | {name: array * np.nan}, plain)
            assert_refused(arrays | {name: array[:-1]}, plain)


def test_no_metadata_of_a_model_can_be_left_out_or_damaged(parts):
    arrays, plain, assert_refused = parts
    for path in leaves(plain):
        if not isinstance(path[-1], int):
            assert_refused(arrays, changed(plain, path, dict.pop))
        if path[-1] not in FREE_TEXT and "input_names" not in path[:-1] and "output_names" not in path[:-1]:
            assert_refused(arrays, changed(plain, path, lambda place, key: operator.setitem(place, key, "nonsense")))
        assert_refused(arrays, changed(plain, path, lambda place, key: operator.setitem(place, key, {"unknown": 1})))


def test_a_raw_member_in_place_of_an_array_is_refused(file_bytes, tmp_path):
    path = tmp_path / "model.npz"
    with zipfile.ZipFile(io.BytesIO(file_bytes)) as whole, zipfile.ZipFile(path, "w") as copy:
        for name in whole.namelist():
            copy.writestr(name, b"raw" if name == "drift_function.series.omega.npy" else whole.read(name))
    with pytest.raises(ModelFileError, match=r"model\.npz"):
        load(path)


# Files that are made to do harm


@pytest.mark.parametrize("name", ["other", "other.omega", "drift_function.training.other"])
def test_unknown_members_are_ignored(sde, file_bytes, tmp_path, name):
    path = rewritten(file_bytes, tmp_path / "model.npz", lambda arrays, metadata: arrays.update({name: np.zeros(3)}))
    assert contents(load(path)) == contents(sde)


def test_large_members_that_nobody_needs_are_not_unpacked(sde, file_bytes, tmp_path):
    path = tmp_path / "model.npz"
    path.write_bytes(file_bytes)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file, file.open("other.npy", "w") as member:
        for _ in range(200):
            member.write(bytes(1_000_000))
    tracemalloc.start()
    try:
        assert contents(load(path)) == contents(sde)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def header(shape, dtype="<f8"):
    """The beginning of an array in NumPy's format."""
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


HARMFUL = {
    "far more than the file holds": (header("(2, 1000000)") + bytes(60_000_000), "would take 60,000,"),
    "more than there is": (header("(2, 1000000)") + bytes(64), "64 bytes of data, its header says 16,000,000"),
    "more than any computer has": (header(f"({10**30},)"), "more than any computer has"),
    "a truth value for a length": (header("(True, 2)") + bytes(16), "no shape"),
    "a negative length": (header("(-1, 2)") + bytes(16), "no shape"),
    "nothing without end": (header(f"({10**15},)", "<U0"), "holds nothing"),
    "texts of absurd length": (header("()", f"<U{10**8}"), "its header says 400,000,000"),
    "a long header": (header("(2, 2)" + " " * 20_000), "corrupt"),
    "records": (header("(1,)", [("a", "<f8")]) + bytes(8), "expected numbers or text"),
    "no header": (b"nothing", "corrupt"),
}


@pytest.mark.parametrize(("member", "message"), HARMFUL.values(), ids=HARMFUL)
def test_absurd_arrays_are_refused_before_they_are_read(tmp_path, member, message):
    path = tmp_path / "model.npz"
    file_bytes = saved(model(True), path)
    with (
        zipfile.ZipFile(io.BytesIO(file_bytes)) as whole,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as copy,
    ):
        for name in whole.namelist():
            copy.writestr(name, member if name == "box.npy" else whole.read(name))
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=rf"model\.npz .*{message}"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("place", ["model.data.n_transitions", "model.seed", "model.floored_share", "format", "model"])
def test_absurd_numbers_in_metadata_are_refused(file_bytes, tmp_path, place):
    path = rewritten(file_bytes, tmp_path / "model.npz", metadata_of(place, 10**400))
    with pytest.raises(ModelFileError, match=r"model\.npz"):
        load(path)


NOT_FINITE = {
    "drift_function.series.beta": (1e300, "amplitudes whose squares are not finite"),
    "covariance_function.series.offset": (1e200, "amplitudes whose squares are not finite"),
    "drift_function.series.omega": (1e200, "waves too short for the range of the data"),
    "drift_function.series.scale": (1e-200, "waves too short for the range of the data"),
    "floor_factor": (1e200, "not finite|Singular"),
}


@pytest.mark.parametrize("name", NOT_FINITE)
def test_a_model_that_would_not_be_finite_is_not_loaded(tmp_path, name):
    value, message = NOT_FINITE[name]
    path = tmp_path / "model.npz"
    change = array_of(
        name, lambda array: np.where(np.eye(*np.atleast_2d(array).shape).reshape(array.shape), value, array)
    )
    rewritten(saved(model(True), path), path, change)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ModelFileError, match=message):
            load(path)


# Writers


def test_nothing_is_saved_that_could_not_be_loaded(tmp_path):
    training = model(True).drift_function.training
    damaged = dataclasses.replace(training, score=training.score * np.nan)
    function = dataclasses.replace(model(True).drift_function, training=damaged)
    path = tmp_path / "model.npz"
    path.write_bytes(b"old")
    with pytest.raises(ModelFileError, match=r"nothing was written to .*model\.npz: .*score must be finite"):
        dataclasses.replace(model(True), drift_function=function).save(path)
    assert path.read_bytes() == b"old"


def test_increments_that_follow_from_others_make_a_model_that_can_be_loaded(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    data = Transitions.from_pairs(x, x + 0.3 * rng.normal(size=(400, 1)), 0.1, names=["a", "b", "c"])
    with pytest.warns(DataWarning) as caught:
        sde = fit(data, rng=0)
    assert [str(each.message)[:90] for each in caught] == [
        f"the noise of increments column {i} ({name}) follows from that of increments column 0 (a) in every row"[:90]
        for i, name in ((1, "b"), (2, "c"))
    ]
    sde.save(tmp_path / "model.npz")
    sigma = load(tmp_path / "model.npz").covariance(x)
    np.testing.assert_allclose(sigma, np.full(sigma.shape, 0.9), rtol=0.4)
    assert (np.linalg.eigvalsh(sigma) > 0).all()


def test_the_mode_of_a_file_is_kept_and_nobody_else_reads_it_meanwhile(sde, tmp_path, monkeypatch):
    path, modes = tmp_path / "model.npz", []
    path.write_bytes(b"old")
    path.chmod(0o600)
    sync = os.fsync
    monkeypatch.setattr("os.fsync", lambda file: (modes.append(stat.S_IMODE(os.fstat(file).st_mode)), sync(file))[1])
    sde.save(path)
    assert modes == [0o600]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_must_not_be_written_to_stays(sde, tmp_path):
    path = tmp_path / "model.npz"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(PermissionError, match=r"model\.npz: the file must not be written to; change its permissions"):
        sde.save(path)
    assert path.read_bytes() == b"old"


def test_what_a_killed_writer_left_is_removed_at_the_next_write(sde, tmp_path):
    old, held, new, other = (tmp_path / f".model.npz.{i * 8}.partial" for i in "0123")
    for path in (old, held, new, other):
        path.write_bytes(b"half")
    other.rename(tmp_path / ".other.npz.33333333.partial")
    for path in (old, held):
        os.utime(path, (1e9, time.time() - 120))
    with held.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as a writer that is still alive does
        sde.save(tmp_path / "model.npz")
    left = {".model.npz.11111111.partial", ".model.npz.22222222.partial", ".other.npz.33333333.partial", "model.npz"}
    assert set(os.listdir(tmp_path)) == left


def test_names_as_long_as_the_file_system_allows(sde, tmp_path):
    path = tmp_path / ("é" * 120 + ".npz")
    sde.save(path)
    assert os.listdir(tmp_path) == [path.name]


# Reading what is no file


def test_a_missing_file_is_named_with_one_that_is_there(sde, tmp_path):
    sde.save(tmp_path / "model.npz")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*modl\.npz \(is it model\.npz that you mean\?\)"):
        load(tmp_path / "modl.npz")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "model.npz")
    with pytest.raises(InputError, match=r"model\.npz is a pipe, a device or the like: give the path of a file"):
        load(tmp_path / "model.npz")
    with pytest.raises(InputError, match="is a directory"):
        load(tmp_path)
