"""Data that come in blocks: the same as in memory, whatever gives the blocks and however they are cut."""

import functools
import pickle
import re
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import itofit
from itofit import ARFF, InputError, Transitions
from itofit.learning.automatic.cells import SIDE_OF_ALL

pytestmark = [
    pytest.mark.filterwarnings("ignore::itofit.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::itofit.DataWarning"),
]

from_blocks = Transitions.from_blocks
equal = np.testing.assert_array_equal
PASS = 64
FEW = ARFF(n_features=8, ridge=1e-2, delta=0.5, min_iterations=3, max_iterations=12)
FREE = ARFF(n_features=8, delta=0.5, min_iterations=3, max_iterations=12)
ALGORITHMS = pytest.mark.parametrize("refine", [True, False], ids=["automatic", "algorithm 2"])
SIZES = [1, 7, 300, (1, 62, 2, 64, 65, 3, 103)]
SIZES_TO_LEARN_FROM = [7, (1, 62, 2, 64, 65, 3, 103)]
"""Fits see the blocks of a pass, which are the same for all of `SIZES`, as the tests of every form say."""


@pytest.fixture(autouse=True)
def short_passes(set_everywhere):
    set_everywhere("PASS_ROWS", PASS)


def quick_fit(data, **kwargs):
    return itofit.fit(data, **{"drift": FEW, "covariance": FEW, "rng": 0, **kwargs})


class Counted:
    """Blocks that can be read again and again, and how often they were: from the start, and to the end."""

    def __init__(self, blocks):
        self.blocks, self.starts, self.ends = blocks, 0, 0

    def __iter__(self):
        self.starts += 1
        yield from self.blocks
        self.ends += 1


class Changing:
    """Other blocks from some pass on; the first pass reads one block alone, when the data are made."""

    def __init__(self, before, after, passes=2):
        self.before, self.after, self.left = before, after, passes

    def __call__(self):
        self.left -= 1
        return iter(self.before if self.left >= 0 else self.after)


def walk(n=300, m=2, seed=0):
    """x0, x1 and h of a linear system with noise that depends on where it is."""
    rng = np.random.default_rng(seed)
    x0, h = rng.uniform(-1, 1, (n, m)), rng.uniform(0.01, 0.1, n)
    noise = (0.5 + 0.2 * x0) * np.sqrt(h)[:, None] * rng.normal(size=(n, m))
    noise[:, -1] += 0.8 * noise[:, 0]
    return x0, x0 - 2 * x0 * h[:, None] + noise, h


def cut(size, *arrays):
    """Tuples of slices of arrays: blocks of one size, or of the sizes in a tuple."""
    n = len(arrays[0])
    ends = np.cumsum(size) if isinstance(size, tuple) else np.arange(size, n + size, size)
    assert ends[-1] >= n
    return [tuple(array[a:b] for array in arrays) for a, b in pairwise([0, *ends])]


def whole(data):
    """All transitions in memory; passes come in blocks of a fixed size."""
    blocks = list(data.blocks())
    assert [len(block) for block in blocks[:-1]] == [PASS] * (len(blocks) - 1)
    assert 1 <= len(blocks[-1]) <= PASS
    return Transitions.concatenate(blocks)


def assert_same(data, expected):
    found = whole(data)
    for name in ("inputs", "increments", "h"):
        equal(getattr(found, name), getattr(expected, name))
        assert getattr(found, name).dtype == np.float64
    assert found.kind == data.kind == expected.kind
    assert (data.n_inputs, data.n_outputs, len(data)) == (expected.n_inputs, expected.n_outputs, len(expected))


X0, X1, H = walk()
PAIRS = Transitions.from_pairs(X0, X1, H)
PATH = np.cumsum(walk(200, seed=1)[0], axis=0)
CLOCK = np.cumsum(walk(200, seed=1)[2])
BLOCKS = cut(50, X0, X1, H)


@functools.cache
def model_of_pairs(**kwargs):
    """`quick_fit` to data in memory, for tests of what a model does with data in blocks."""
    return quick_fit(PAIRS, **kwargs)


def generator_function():
    yield from BLOCKS


# The source


SOURCES = {
    "generator function": generator_function,
    "function": lambda: (block for block in BLOCKS),
    "function that gives a list": lambda: BLOCKS,
    "partial": functools.partial(cut, 50, X0, X1, H),
    "list": BLOCKS,
    "tuple": tuple(BLOCKS),
    "re-iterable": Counted(BLOCKS),
    "view of a dictionary": dict(enumerate(BLOCKS)).values(),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_anything_that_can_be_read_again_is_a_source(source):
    data = from_blocks(source)
    for _ in range(3):
        assert_same(data, PAIRS)


ONE_SHOT = {
    "generator": generator_function,
    "iterator": lambda: iter(BLOCKS),
    "zip": lambda: zip(X0, X1, H, strict=True),
    "map": lambda: map(tuple, BLOCKS),
}


@pytest.mark.parametrize("make", ONE_SHOT.values(), ids=ONE_SHOT)
def test_what_can_be_read_once_is_refused_with_advice(make):
    with pytest.raises(InputError, match=r"source is a \w+, which can be read once: give a function that starts a new"):
        from_blocks(make())


def test_a_function_that_gives_one_iterator_again_and_again_loses_nothing_silently():
    blocks = iter(BLOCKS)
    with pytest.raises(InputError, match="new iteration each time"):
        len(from_blocks(lambda: blocks))


@pytest.mark.parametrize("use", [quick_fit, lambda data: model_of_pairs().nll(data)], ids=["fit", "nll"])
def test_an_object_whose_iterator_is_used_up_is_noticed(use):
    class Once:
        blocks = iter(BLOCKS)

        def __iter__(self):
            return self.blocks

    data = from_blocks(Once())
    with pytest.raises(InputError, match="new iteration each time"):
        use(data)


def test_a_source_may_fill_the_same_buffers_again():
    """Readers that do so are common, and fast."""

    def pairs():
        a, b = np.empty((2, 10, 2))
        for x0, x1, h in cut(10, X0, X1, H):
            a[:], b[:] = x0, x1
            yield a, b, h.copy()

    def trajectory():
        a = np.empty((10, 2))
        for (piece,) in cut(10, PATH):
            a[:] = piece
            yield a

    assert_same(from_blocks(pairs), PAIRS)
    assert_same(from_blocks(trajectory, "trajectory", h=0.1), Transitions.from_trajectories(PATH, dt=0.1))


def test_making_them_reads_one_block_and_each_pass_all():
    source = Counted(BLOCKS)
    data = from_blocks(source)
    assert (source.starts, source.ends) == (1, 0)
    assert repr(data) == "BlockedTransitions(not read yet, 2 inputs, 2 outputs, kind = diffusion)"
    assert source.ends == 0
    assert len(data) == 300
    assert len(data) == 300
    assert source.ends == 1
    assert repr(data) == "BlockedTransitions(300 transitions in 6 blocks, 2 inputs, 2 outputs, kind = diffusion)"
    whole(data)
    assert source.ends == 2


def test_the_representation_counts_in_words():
    data = from_blocks([([0.0], [[1.0, 2.0]], 0.1)], "increments")
    assert len(data) == 1
    assert repr(data) == "BlockedTransitions(1 transition in 1 block, 1 input, 2 outputs, kind = general)"


# Every form


@pytest.mark.parametrize("size", SIZES)
def test_pairs_in_tuples_dictionaries_lists_and_transitions(size):
    for blocks in (
        cut(size, X0, X1, H),
        [list(block) for block in cut(size, X0, X1, H)],
        [{"h": h, "x1": x1, "x0": x0} for x0, x1, h in cut(size, X0, X1, H)],
        [Transitions.from_pairs(*block) for block in cut(size, X0, X1, H)],
    ):
        assert_same(from_blocks(blocks), PAIRS)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", [None, "general", "diffusion"])
def test_increments(size, kind):
    blocks = cut(size, X0, X1 - X0, H)
    expected = Transitions(X0, X1 - X0, H, kind=kind)
    assert_same(from_blocks(blocks, "increments", kind=kind), expected)
    named = [dict(zip(("inputs", "increments", "h"), block, strict=True)) for block in blocks]
    assert_same(from_blocks(named, "increments", kind=kind), expected)


def test_increments_of_a_second_order_system():
    data = from_blocks(cut(7, X0, X1[:, 0] - X0[:, 0], H), "increments", kind="underdamped")
    assert_same(data, Transitions(X0, X1[:, 0] - X0[:, 0], H, kind="underdamped"))


@pytest.mark.parametrize("size", SIZES)
def test_underdamped(size):
    arrays = (X0[:, 0], X0[:, 1], X1[:, 0], X1[:, 1], H)
    expected = Transitions.from_underdamped(*arrays)
    assert_same(from_blocks(cut(size, *arrays), "underdamped"), expected)
    names = ("x0", "v0", "x1", "v1", "h")
    named = [dict(zip(names, block, strict=True)) for block in cut(size, *arrays)]
    assert_same(from_blocks(named, "underdamped"), expected)


@pytest.mark.parametrize("form", ["pairs", "increments", "underdamped"])
def test_h_is_that_of_each_block_or_that_of_all(form):
    arrays = {"pairs": (X0, X1), "increments": (X0, X1 - X0), "underdamped": (X0, X0, X1, X1)}[form]
    names = {"pairs": ("x0", "x1"), "increments": ("inputs", "increments"), "underdamped": ("x0", "v0", "x1", "v1")}
    named = dict(zip(names[form], arrays, strict=True))
    found = whole(from_blocks([(*arrays, 0.5), {**named, "h": 0.25}, (*arrays, H)], form))
    equal(found.h, np.concatenate([np.full(300, 0.5), np.full(300, 0.25), H]))
    found = whole(from_blocks([arrays, named, (*arrays, np.arange(300))], form, h=0.25))
    equal(found.h, np.full(900, 0.25))
    assert found.groups is None
    with pytest.raises(InputError, match="block 0 of the source: h was given twice"):
        from_blocks([{**named, "h": H}], form, h=0.25)


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_mapped_files_give_the_same_in_each_pass(mode, tmp_path, set_everywhere):
    set_everywhere("PASS_ROWS", 64)
    np.save(tmp_path / "path.npy", X0)
    path, expected = np.load(tmp_path / "path.npy", mmap_mode=mode), X0.copy()
    if mode != "r":
        path[7] = expected[7] = 0.5  # must survive that memory is given back
    data = from_blocks(path, "trajectory", h=0.1)
    for _ in range(3):
        equal(whole(data).inputs, expected[:-1])


@pytest.mark.parametrize("form", ["pairs", "increments", "underdamped"])
def test_transitions_are_one_block(form):
    assert len(from_blocks(PAIRS, form)) == len(PAIRS)


@pytest.mark.parametrize("form", ["pairs", "increments", "underdamped"])
def test_whole_arrays_are_sliced(form, set_everywhere):
    set_everywhere("PASS_ROWS", 64)
    arrays = {"pairs": (X0, X1), "increments": (X0, X1 - X0), "underdamped": (X0, X0, X1, X1)}[form]
    for source, kwargs in (
        ((*arrays, H), {}),
        ([*arrays, 0.25], {}),
        (arrays, {"h": 0.25}),
        (lambda: (*arrays, H), {}),
    ):
        found = from_blocks(source, form, **kwargs)
        assert len(found) == 300
        equal(whole(found).inputs[:, 0], X1[:, 0] if form == "underdamped" else X0[:, 0])
        assert "in 5 blocks" in repr(found)
    with pytest.raises(InputError, match="all arrays of source must have the same length, got 299 and 300"):
        from_blocks((*arrays[:-1], arrays[-1][1:], H), form)


@ALGORITHMS
def test_groups_are_kept_and_counted_across_blocks(refine):
    groups = np.repeat(np.arange(30), 10)
    for labels in (groups, groups.astype(str), np.array([f"track {label}" for label in groups], dtype=object)):
        data = from_blocks(cut(7, X0, X1, H, labels))
        assert list(whole(data).groups) == list(labels)
        sde = quick_fit(data, refine=refine)
        assert sde.data.n_groups == 30
        assert_same_model(sde, quick_fit(Transitions.from_pairs(X0, X1, H, labels), refine=refine))
    named = [dict(zip(("x0", "x1", "h", "groups"), block, strict=True)) for block in cut(7, X0, X1, H, groups)]
    equal(whole(from_blocks(named)).groups, groups)


@ALGORITHMS
@pytest.mark.parametrize("first", [True, False])
def test_groups_that_some_blocks_lack_do_not_count(first, refine):
    blocks = [(X0, X1, H, np.arange(300)), (X0, X1, H)]
    data = from_blocks(blocks if first else blocks[::-1])
    assert quick_fit(data, refine=refine).data.n_groups is None


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8, ">f8"])
def test_numbers_of_any_type(dtype):
    x0, x1, h = (np.round(100 + 20 * array).astype(dtype) for array in (X0, X1, H))
    assert_same(from_blocks(cut(7, x0, x1, h)), Transitions.from_pairs(x0, x1, h))
    assert_same(from_blocks(x0, "trajectory", h=0.1), Transitions.from_trajectories(x0, dt=0.1))


def test_blocks_of_different_types():
    blocks = [(X0[:150].astype(np.float32), X1[:150], 1), (X0[150:].tolist(), X1[150:].tolist(), H[150:].tolist())]
    found = whole(from_blocks(blocks))
    equal(found.inputs, np.concatenate([X0[:150].astype(np.float32), X0[150:]]))
    equal(found.h, np.concatenate([np.ones(150), H[150:]]))


def test_pandas_columns():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"x": X0[:, 0], "y": X0[:, 1], "x later": X1[:, 0], "y later": X1[:, 1], "h": H})
    table["track"] = np.repeat(["a", "b", "c"], 100)

    def chunks():
        for start in range(0, 300, 41):
            rows = table[start : start + 41]
            yield rows[["x", "y"]], rows[["x later", "y later"]], rows["h"], rows["track"]

    data = from_blocks(chunks)
    assert_same(data, PAIRS)
    assert list(whole(data).groups) == list(table["track"])
    pieces = [table[["x", "y"]][:100], table[["x", "y"]][100:]]
    assert_same(from_blocks(pieces, "trajectory", h=0.1), Transitions.from_trajectories(X0, dt=0.1))


def test_tables_read_in_chunks(tmp_path):
    pd = pytest.importorskip("pandas")
    file = tmp_path / "table.csv"
    x0, x1, h = (np.ceil(array * 64) / 64 for array in (X0, X1, H))  # few digits, which any parser gets right
    columns = {"x": x0[:, 0], "y": x0[:, 1], "x later": x1[:, 0], "y later": x1[:, 1], "h": h}
    pd.DataFrame(columns).to_csv(file, index=False)

    def chunks():
        with pd.read_csv(file, chunksize=37) as reader:
            for rows in reader:
                yield rows[["x", "y"]], rows[["x later", "y later"]], rows["h"]

    assert_same(from_blocks(chunks), Transitions.from_pairs(x0, x1, h))


def test_row_groups_of_parquet_files(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "table.parquet"
    columns = {"x0": X0[:, 0], "x1": X1[:, 0], "h": H, "groups": np.arange(300) // 30}
    pq.write_table(pa.table(columns), file, row_group_size=70)

    def row_groups():
        with pq.ParquetFile(file) as opened:
            for i in range(opened.num_row_groups):
                table = opened.read_row_group(i)
                yield {name: table[name].to_numpy() for name in table.column_names}

    data = from_blocks(row_groups)
    assert_same(data, Transitions.from_pairs(X0[:, 0], X1[:, 0], H))
    equal(whole(data).groups, columns["groups"])


@ALGORITHMS
def test_memory_mapped_files(tmp_path, refine):
    for name, array in {"x0": X0, "x1": X1, "h": H, "path": PATH}.items():
        np.save(tmp_path / f"{name}.npy", array)
    x0, x1, h, path = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("x0", "x1", "h", "path"))
    assert isinstance(x0, np.memmap)
    data = from_blocks(lambda: iter(cut(47, x0, x1, h)))
    assert_same(data, PAIRS)
    assert_same_model(*(quick_fit(each, refine=refine) for each in (data, PAIRS)))
    assert_same(from_blocks(path, "trajectory", h=0.1), Transitions.from_trajectories(PATH, dt=0.1))


def test_raw_memory_maps(tmp_path):
    X0.astype(np.float32).tofile(tmp_path / "x0")
    x0 = np.memmap(tmp_path / "x0", dtype=np.float32, mode="r", shape=(300, 2))
    expected = Transitions.from_trajectories(X0.astype(np.float32), dt=0.1)
    assert_same(from_blocks(x0, "trajectory", h=0.1), expected)
    assert_same(from_blocks(x0[::2], "trajectory", h=0.1), Transitions.from_trajectories(x0[::2], dt=0.1))


# Trajectories


@pytest.mark.parametrize("length", [2, PASS - 1, PASS, PASS + 1, 2 * PASS, 2 * PASS + 1, 200])
def test_a_whole_trajectory_of_any_length(length):
    assert_same(from_blocks(PATH[:length], "trajectory", h=0.1), Transitions.from_trajectories(PATH[:length], dt=0.1))
    line = PATH[:length, 0]
    assert_same(from_blocks(line, "trajectory", h=0.1), Transitions.from_trajectories(line, dt=0.1))


@pytest.mark.parametrize("size", [1, 2, 7, 64, 65, 200, (1, 1, 100, 2, 96)])
def test_a_trajectory_goes_on_from_block_to_block(size):
    pieces = [piece for (piece,) in cut(size, PATH)]
    assert_same(from_blocks(pieces, "trajectory", h=0.1), Transitions.from_trajectories(PATH, dt=0.1))
    timed = cut(size, PATH, CLOCK)
    assert_same(from_blocks(timed, "trajectory"), Transitions.from_trajectories(PATH, times=CLOCK))


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 30).flatmap(
        lambda n: st.tuples(
            hnp.arrays(float, (n, 2), elements=st.floats(-5, 5) | st.just(np.nan), fill=st.nothing()),
            hnp.arrays(float, n, elements=st.sampled_from([0.25, 0.5, 1.0, 3.0]), fill=st.nothing()),
            st.lists(st.integers(1, 9), min_size=n, max_size=n),
        )
    ),
    st.booleans(),
)
def test_gaps_anywhere_in_blocks_of_any_length_equal_the_trajectory_in_one_piece(observed, timed):
    path, steps, sizes = observed
    clock = np.cumsum(steps)
    pieces = cut(tuple(sizes), path, clock)
    pieces = [piece if timed else piece[0] for piece in pieces if len(piece[0])]
    h = None if timed else 0.5
    try:
        expected = Transitions.from_trajectories(path, dt=h, times=clock if timed else None)
    except InputError:
        with pytest.raises(InputError, match="holds no transition"):
            from_blocks(pieces, "trajectory", h=h)
    else:
        assert_same(from_blocks(pieces, "trajectory", h=h), expected)


def test_gaps_at_the_edges_of_blocks_are_not_bridged():
    path = PATH.copy()
    path[[0, 9, 20, 29, 30, 40, 41, 199], 0] = np.nan
    pieces = [piece for (piece,) in cut(10, path)]
    assert_same(from_blocks(pieces, "trajectory", h=0.1), Transitions.from_trajectories(path, dt=0.1))
    path[10:30] = np.nan
    pieces = [piece for (piece,) in cut(10, path)]
    assert_same(from_blocks(pieces, "trajectory", h=0.1), Transitions.from_trajectories(path, dt=0.1))


class Dataset:
    """What h5py and zarr give: an array on disk that is no NumPy array, whose iteration gives its rows."""

    def __init__(self, array):
        self.array, self.shape, self.ndim, self.dtype = array, array.shape, array.ndim, array.dtype

    def __len__(self):
        return len(self.array)

    def __getitem__(self, rows):
        return self.array[rows]

    def __iter__(self):
        return iter(self.array)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.array, dtype)


@pytest.mark.parametrize("source", [Dataset(PATH), lambda: PATH], ids=["dataset", "function that gives an array"])
def test_a_trajectory_is_not_taken_for_a_sequence_of_its_rows(source):
    """A row of two variables would be read as two observations of one."""
    assert_same(from_blocks(source, "trajectory", h=0.1), Transitions.from_trajectories(PATH, dt=0.1))


# The same result


def assert_same_model(found, expected, tolerance=1e-8):
    """Functions, histories and records of two models agree."""
    low, high = expected.box
    x = np.random.default_rng(0).uniform(low, high, (100, len(low)))

    def close(a, b):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)

    close(found.drift(x), expected.drift(x))
    close(found.covariance(x), expected.covariance(x))
    close(found.covariance(x, raw=True), expected.covariance(x, raw=True))
    close(found.floor_factor, expected.floor_factor)
    for a, b in (
        (found.drift_function.training, expected.drift_function.training),
        (found.covariance_function.training, expected.covariance_function.training),
    ):
        close(a.score, b.score)
        equal(a.iteration, b.iteration)
        equal(a.acceptance, b.acceptance)
        equal(a.groups, b.groups)
        np.testing.assert_allclose(a.ridges, b.ridges, rtol=tolerance)
        close(a.determined, b.determined)
        for field in ("judge", "stopped", "best_iteration", "n_features", "n_standing_out", "parameters"):
            assert getattr(a, field) == getattr(b, field)
    equal(found.box, expected.box)
    equal(found.limits[0], expected.limits[0])
    close(np.minimum(found.limits[1], 1e9), np.minimum(expected.limits[1], 1e9))
    for field in ("seed", "kind", "structure", "link", "floored_share", "searched_on"):
        assert getattr(found, field) == getattr(expected, field)
    assert [candidate[:3] for candidate in found.candidates] == [candidate[:3] for candidate in expected.candidates]
    close([candidate.loss for candidate in found.candidates], [candidate.loss for candidate in expected.candidates])
    assert found.data == expected.data
    seconds = r" in [\d.]+ s\b"
    assert re.sub(seconds, "", found.summary()) == re.sub(seconds, "", expected.summary())


def fit_all_cuts(m, structure, arff, refine, n=300):
    """Models from memory and from every cut into blocks, with the same seed."""
    arrays = walk(n, m, seed=m)
    kwargs = {"structure": structure, "drift": arff, "covariance": arff, "refine": refine, "rng": 5}
    expected = itofit.fit(Transitions.from_pairs(*arrays), **kwargs)
    for size in SIZES_TO_LEARN_FROM:
        yield itofit.fit(from_blocks(cut(size, *arrays)), **kwargs), expected


@ALGORITHMS
@pytest.mark.parametrize(
    ("m", "form", "structure"),
    [
        (1, "gridded", "full"),
        (2, "gridded", "diagonal"),
        (3, "gridded", "full"),
        (1, "direct", "diagonal"),
        (2, "direct", "full"),
        (3, "direct", "diagonal"),
        (5, "direct", "diagonal"),
    ],
)
def test_the_cut_into_blocks_does_not_show_in_what_is_learned(structure, m, form, refine):
    arff = replace(FREE if refine else FEW, normal_equations=form)
    models = list(fit_all_cuts(m, structure, arff, refine))
    for found, expected in models:
        assert_same_model(found, expected, 1e-8)
        assert_same_model(found, models[0][0], 0)  # between cuts no bit may differ
        assert refine or found.drift_function.training.parameters.normal_equations == form


@ALGORITHMS
@pytest.mark.parametrize(("m", "form"), [(1, "gridded"), (2, "gridded"), (2, "direct"), (3, "direct")])
def test_nor_does_it_where_the_search_sees_some_of_the_rows(m, form, refine):
    arff = replace(FREE if refine else FEW, search_rows=100, normal_equations=form)
    models = list(fit_all_cuts(m, "full", arff, refine))
    for found, expected in models:
        assert_same_model(found, expected, 1e-8)
        assert_same_model(found, models[0][0], 0)
        assert not refine or found.searched_on == "100 of them, drawn at random"


@ALGORITHMS
@pytest.mark.parametrize("structure", ["auto", "full"])
def test_nor_with_parameters_chosen_from_the_data(structure, refine):
    for found, expected in fit_all_cuts(2, structure, ARFF(), refine):
        assert_same_model(found, expected, 1e-8)


def test_nor_where_transitions_are_gathered_on_a_grid(set_everywhere):
    set_everywhere("MOST_ROWS_ALONE", 200)
    models = list(fit_all_cuts(1, "auto", ARFF(), True))
    for found, expected in models:
        assert "a grid of 1024 cells" in found.searched_on
        assert_same_model(found, expected, 1e-8)
        assert_same_model(found, models[0][0], 0)


@ALGORITHMS
@pytest.mark.parametrize("form", ["pairs", "increments", "underdamped", "trajectory"])
def test_every_form_is_learned_from_as_in_memory(form, refine):
    increments = (X1 - X0)[:, 0]
    velocity = np.cumsum(increments[:200])
    blocks, expected = {
        "pairs": (cut(7, X0, X1, H), PAIRS),
        "increments": (cut(7, X0, increments, H), Transitions(X0, increments, H)),
        "underdamped": (
            cut(7, X0[:, 0], X0[:, 1], X1[:, 0], X1[:, 1], H),
            Transitions.from_underdamped(X0[:, 0], X0[:, 1], X1[:, 0], X1[:, 1], H),
        ),
        "trajectory": (cut(7, velocity, CLOCK), Transitions(velocity[:-1], np.diff(velocity), np.diff(CLOCK))),
    }[form]
    models = [quick_fit(each, rng=1, refine=refine) for each in (from_blocks(blocks, form), expected)]
    assert_same_model(*models)


@ALGORITHMS
@pytest.mark.parametrize(("search_rows", "validation_fraction"), [(20, 0.15), (30, 0.3), (40, 0.5), (20, 0.1)])
def test_a_search_on_fewer_rows_than_there_are_blocks(search_rows, validation_fraction, refine):
    arff = ARFF(n_features=4, max_iterations=5, search_rows=search_rows, validation_fraction=validation_fraction)
    arrays = walk(3000, 1)
    data = Transitions.from_pairs(*arrays), from_blocks(cut(1000, *arrays))
    assert_same_model(*(itofit.fit(each, drift=arff, covariance=arff, refine=refine, rng=0) for each in data))


# Passes and memory


@pytest.mark.parametrize(
    ("m", "n", "form", "passes"),
    [
        (1, 2000, "gridded", 4),
        (2, 2000, "gridded", 4),
        (3, 2000, "gridded", 4),
        (2, 2000, "direct", 4),
        (4, 26_000, None, 6),
        (5, 26_000, None, 6),
        (5, 2000, None, 4),  # so few that all are searched
    ],
)
@pytest.mark.parametrize("iterations", [2, 60])
def test_a_fit_passes_over_the_data_a_fixed_number_of_times(set_everywhere, m, n, form, passes, iterations):
    set_everywhere("PASS_ROWS", 4096)
    set_everywhere("KEPT_ROWS", 100)  # as if there were far more rows
    source = Counted(cut(1000, *walk(n, m)))
    data = from_blocks(source)
    arff = ARFF(n_features=8, min_iterations=iterations, max_iterations=iterations, normal_equations=form)
    itofit.fit(data, structure="diagonal", drift=arff, covariance=arff, refine=False, rng=0)
    assert (source.starts, source.ends) == (1 + passes, passes)


@pytest.mark.parametrize(
    ("m", "n", "search_rows", "passes"),
    [
        (1, 2000, None, 4),
        (1, 6000, None, 4),  # gathered on a grid, from which residuals follow
        (2, 2000, None, 4),
        (4, 2000, None, 4),
        (1, 6000, 2000, 7),  # a subset, and all rows at the end
        (2, 2000, 500, 7),
        (2, 17_000, None, 4),
    ],
)
@pytest.mark.parametrize("iterations", [2, 20])
def test_an_automatic_fit_passes_over_the_data_a_fixed_number_of_times(
    set_everywhere, m, n, search_rows, passes, iterations
):
    set_everywhere("PASS_ROWS", 4096)
    source = Counted(cut(1000, *walk(n, m)))
    data = from_blocks(source)
    arff = ARFF(n_features=8, min_iterations=iterations, max_iterations=iterations, search_rows=search_rows)
    itofit.fit(data, structure="diagonal", drift=arff, covariance=arff, rng=0)
    assert (source.starts, source.ends) == (1 + passes, passes)


@pytest.mark.parametrize(("form", "passes"), [("pairs", 3), ("trajectory", 4)])
def test_errors_of_measurement_are_looked_for_in_one_pass_more_where_transitions_follow_each_other(form, passes):
    x0, x1, h = walk(400, 1)
    path = np.cumsum(0.1 * np.random.default_rng(0).standard_normal(401))
    blocks = cut(100, x0, x1, h) if form == "pairs" else np.split(path, [100, 200, 300])
    source = Counted(blocks)
    data = from_blocks(source, form, h=None if form == "pairs" else 0.1)
    itofit.fit(data, structure="diagonal", drift=FREE, covariance=FREE, correct_step=False, rng=0)
    assert source.ends == passes


def test_a_search_on_some_of_the_rows_takes_two_passes_more():
    source = Counted(BLOCKS)
    data = from_blocks(source)
    for arff, passes in ((ARFF(n_features=8, search_rows=100), 6), (ARFF(n_features=8, search_rows=300), 4)):
        source.ends = 0
        itofit.fit(data, drift=arff, covariance=arff, refine=False, rng=0)
        assert source.ends == passes


@pytest.mark.parametrize(
    ("m", "parameters", "passes"),
    [
        (1, {"delta": 30.0}, 4),
        (1, {"delta": 1000.0}, 7),  # starts again with direct sums, both times
        (2, {"delta": 100.0}, 9),  # after more moments did not suffice
        (3, {"delta": 20.0}, 6),
        (2, {"ridge": 0.0, "search_rows": 100, "normal_equations": "direct"}, 6),
    ],
    ids=["1 input, wide steps", "1 input, wider", "2 inputs, wide steps", "3 inputs, wide steps", "no ridge"],
)
def test_passes_stay_few_with_wide_steps_and_without_a_ridge(set_everywhere, m, parameters, passes):
    set_everywhere("PASS_ROWS", 4096)
    set_everywhere("KEPT_ROWS", 100)
    source = Counted(cut(1000, *walk(2000, m)))
    arff = ARFF(**{"n_features": 16, "max_iterations": 20, "normal_equations": "gridded", **parameters})
    itofit.fit(from_blocks(source), structure="diagonal", drift=arff, covariance=arff, refine=False, rng=0)
    assert source.ends == passes


@ALGORITHMS
def test_values_that_change_between_passes_are_an_error(refine):
    noise = np.random.default_rng(0)

    def blocks():
        for x0, x1, h in cut(50, X0, X1, H):
            yield x0, x1 + 1e-6 * noise.normal(size=x1.shape), h

    with pytest.raises(InputError, match="block 0 of the source has other values than in an earlier pass"):
        quick_fit(from_blocks(blocks), refine=refine)


def test_each_block_a_trajectory_of_its_own():
    paths = [X0[:100], X0[100:103], X0[103:104], X0[104:]]
    data, expected = from_blocks(paths, "trajectories", h=0.1), Transitions.from_trajectories(paths, dt=0.1)
    found = whole(data)
    equal(found.inputs, expected.inputs)
    equal(found.increments, expected.increments)
    equal(found.groups, expected.groups)
    times = [np.arange(len(path)) * 0.1 for path in paths]  # each starts again
    equal(whole(from_blocks(list(zip(paths, times, strict=True)), "trajectories")).increments, expected.increments)


def test_a_trajectory_with_its_times_is_sliced(set_everywhere):
    set_everywhere("PASS_ROWS", 64)
    times = np.cumsum(np.random.default_rng(0).uniform(0.1, 0.2, len(X0)))
    for path in (X0, X0[:, 0]):
        found, expected = (
            whole(from_blocks((path, times), "trajectory")),
            Transitions.from_trajectories(path, times=times),
        )
        equal(found.inputs, expected.inputs)
        equal(found.h, expected.h)


def test_tables_with_named_columns_are_blocks():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x0": X0[:, 0], "x1": X1[:, 0], "h": H})
    found = whole(from_blocks(lambda: (frame[i : i + 70] for i in range(0, 300, 70))))
    equal(found.inputs, X0[:, :1])
    with pytest.raises(InputError, match="source must be a function or a sequence that gives blocks, got DataFrame"):
        from_blocks(frame)


def test_parts_of_blocked_data_are_read_through_the_whole(set_everywhere):
    set_everywhere("PASS_ROWS", 64)
    data = from_blocks(BLOCKS)
    rest, held_out = data.split(0.2, rng=3)
    assert (len(rest), len(held_out)) == (240, 60)
    together = np.concatenate([whole(rest).inputs, whole(held_out).inputs])
    equal(np.sort(together, axis=0), np.sort(X0, axis=0))
    again, _ = data.split(0.2, rng=3)
    equal(whole(again).inputs, whole(rest).inputs)
    sde = quick_fit(rest)
    assert np.isfinite(sde.nll(held_out))
    with pytest.raises(InputError, match="cannot split 1 row"):
        from_blocks([(X0[:1], X1[:1], H[:1])]).split()


def test_likelihood_is_one_pass():
    source = Counted(BLOCKS)
    sde = model_of_pairs()
    data = from_blocks(source)
    sde.nll(data)
    assert source.ends == 1


@ALGORITHMS
@pytest.mark.parametrize(("m", "form"), [(2, "gridded"), (2, "direct")])
def test_memory_of_a_fit_does_not_depend_on_the_number_of_blocks(set_everywhere, m, form, refine):
    set_everywhere("PASS_ROWS", 512)
    set_everywhere("KEPT_ROWS", 500)
    set_everywhere("MOST_ROWS", 500)
    arff = ARFF(n_features=8, max_iterations=3, search_rows=None if form == "gridded" else 500, normal_equations=form)

    def fitted(n_blocks):
        data = from_blocks(lambda: (walk(500, m, seed=i) for i in range(n_blocks)))
        sde = itofit.fit(data, drift=arff, covariance=arff, refine=refine, rng=0)
        sde.nll(data)
        assert sde.data.n_transitions == 500 * n_blocks

    def peak(n_blocks):
        tracemalloc.start()
        fitted(n_blocks)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    fitted(2)  # what is made once and kept is not counted
    added_blocks, bytes_of_a_block = 14, 500 * 8 * (2 * m + 1)
    # 17 and 31 parts in each pass: sums are added as a tree, of which both keep at most five partial ones
    added = peak(17 + added_blocks) - peak(17)
    partial = 9 * SIDE_OF_ALL[m] ** m * 8 if refine and form == "gridded" else 0  # sums over cells
    assert added < partial + 0.5 * added_blocks * bytes_of_a_block  # the length and the ranges of a block are kept


# Bad sources


def changed(array, index, value):
    copy = np.array(array, dtype=float)
    copy[index] = value
    return copy


NOT_A_SOURCE = {
    "nothing": None,
    "a number": 3,
    "a file name": "data.npy",
    "bytes": b"data",
    "a dictionary": {"x0": X0, "x1": X1, "h": H},
    "an object": object(),
    "a function without a result": lambda: None,
}


@pytest.mark.parametrize("source", NOT_A_SOURCE.values(), ids=NOT_A_SOURCE)
def test_what_gives_no_blocks_is_refused(source):
    with pytest.raises(InputError, match="source must be a function or a sequence that gives blocks, got"):
        from_blocks(source)


ARGUMENTS = {
    "an array of pairs": (lambda: from_blocks(X0, h=0.1), "source is one array, but a block has several"),
    "an array of no rows": (lambda: from_blocks(X0[:0], "trajectory", h=0.1), "holds no transition"),
    "a number in an array": (
        lambda: from_blocks(np.array(3.0), "trajectory", h=0.1),
        "sequence that gives blocks, got ndarray",
    ),
    "three axes": (lambda: from_blocks(X0[None], "trajectory", h=0.1), r"shape \(n, d\).* got \(1, 300, 2\)"),
    "no blocks": (lambda: from_blocks([]), "the source of blocks holds no transition"),
    "a function of no blocks": (lambda: from_blocks(lambda: iter(())), "the source of blocks holds no transition"),
    "one observation": (lambda: from_blocks([X0[:1]], "trajectory", h=0.1), "holds no transition"),
    "gaps alone": (lambda: from_blocks([X0 * np.nan] * 3, "trajectory", h=0.1), "holds no transition"),
    "form": (lambda: from_blocks(BLOCKS, "triples"), "form must be one of 'pairs', .* got 'triples'"),
    "kind": (lambda: from_blocks(BLOCKS, "increments", kind="langevin"), "kind must be one of .* got 'langevin'"),
    "kind of pairs": (lambda: from_blocks(BLOCKS, kind="langevin"), "kind"),
    "h zero": (lambda: from_blocks(BLOCKS, h=0.0), "h must be a number > 0, got 0.0"),
    "h of an array": (lambda: from_blocks(BLOCKS, h=H), r"h must be a number > 0, got an array of shape \(300,\)"),
}


@pytest.mark.parametrize(("call", "message"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_that_cannot_be_used_are_refused_at_once(call, message):
    with pytest.raises(InputError, match=message):
        call()


A, B, C = X0[:30], X1[:30], H[:30]
TIMES = np.arange(30.0)
BAD_BLOCKS = {  # form, the block, what is said of it
    "NaN": ("pairs", (changed(A, (4, 1), np.nan), B, C), r"x0 must be finite: 1 of 60 .*\(4, 1\)"),
    "NaN in x1": ("pairs", (A, changed(B, (4, 1), np.nan), C), r"x1 must be finite: 1 of 60 .*\(4, 1\)"),
    "infinity": ("pairs", (A, changed(B, (0, 0), -np.inf), C), "x1 must be finite"),
    "NaN in h": ("pairs", (A, B, changed(C, 7, np.nan)), "h must be finite: 1 of 30 .* index 7"),
    "h zero": ("pairs", (A, B, changed(C, 3, 0.0)), "h must be > 0: 1 of 30 values are not, the smallest is 0"),
    "h negative": ("pairs", (A, B, -1.0), "h must be > 0"),
    "h missing": ("pairs", (A, B), "h is missing; give it in each block, or to from_blocks as h="),
    "h missing in names": ("pairs", {"x0": A, "x1": B}, "h is missing; give it in each block"),
    "h too short": ("pairs", (A, B, C[:9]), r"h must be a number or have shape \(30,\), got \(9,\)"),
    "x1 missing": ("pairs", (A,), "x1 and h are missing"),
    "nothing in it": ("pairs", (), "x0.* x1 and h are missing"),
    "too many arrays": ("pairs", (A, B, C, None, A), r"must be a tuple \(x0, x1, h\).* got 5 elements"),
    "four arrays for five": ("underdamped", (A, A, B, B), "h is missing"),
    "unknown name": ("pairs", {"x0": A, "x1": B, "h": C, "dt": 1}, "has dt, which is none of x0, x1, h, groups"),
    "names of another form": (
        "increments",
        {"x0": A, "x1": B, "h": C},
        "has x0, x1, which is none of inputs, increments",
    ),
    "an array": ("pairs", A, r"must be a tuple \(x0, x1, h\), a dictionary or Transitions, got ndarray"),
    "a word": ("pairs", "block.npy", "must be a tuple .* got str"),
    "None": ("pairs", None, "must be a tuple .* got NoneType"),
    "empty": ("pairs", (A[:0], B[:0], C[:0]), "is empty; leave such blocks out"),
    "empty piece": ("trajectory", (A[:0], C[:0]), "is empty; leave such blocks out"),
    "another width": ("pairs", (A[:, :1], B[:, :1], C), "has 1 input and 1 output, kind diffusion; the first has 2"),
    "another kind": ("pairs", Transitions(A, B, C, kind="general"), "kind general; the first has 2 and 2, kind diff"),
    "another width of a piece": ("trajectory", (A[:, 0], TIMES + 100), "has 1 column, the block before it has 2"),
    "different rows": ("pairs", (A, B[:9], C), r"x1 must have the shape of x0: expected \(30, 2\), got \(9, 2\)"),
    "ragged": ("pairs", ([[1.0, 2.0], [3.0]], B[:2], 0.1), "x0 must be a rectangular array"),
    "masked": ("pairs", (np.ma.array(A), B, C), "x0 is a masked array"),
    "words": ("pairs", (A.astype(str), B, C), "x0 must be an array of real numbers, got dtype <U"),
    "fractional groups": ("pairs", (A, B, C, C), "groups must be one whole number or string"),
    "infinite observation": ("trajectory", (changed(A, (2, 0), np.inf), TIMES + 100), r"or NaN: 1 of 60.*\(2, 0\)"),
    "times of before": ("trajectory", (A, TIMES), "times must be increasing.*: 59 is followed by 0"),
    "the same time again": ("trajectory", (A, TIMES + 59), "times must be increasing.*: 59 is followed by 59"),
    "times backward": ("trajectory", (A, 200 - TIMES), "increasing.*: 200 is followed by 199"),
    "too few times": ("trajectory", (A, TIMES[:9] + 100), r"times must have one entry .* 30 observations, got \(9,\)"),
    "no times": ("trajectory", A, "the time between observations is missing: give h=, or tuples"),
    "NaN in times": ("trajectory", (A, changed(TIMES + 100, 3, np.nan)), "times must be finite"),
}
GOOD_BLOCKS = {
    "pairs": [(A, B, C)] * 2,
    "increments": [(A, B, C)] * 2,
    "underdamped": [(A, A, B, B, C)] * 2,
    "trajectory": [(A, TIMES), (B, TIMES + 30)],
}


@pytest.mark.parametrize(("form", "block", "message"), BAD_BLOCKS.values(), ids=BAD_BLOCKS)
def test_a_bad_block_is_named(form, block, message):
    data = from_blocks([*GOOD_BLOCKS[form], block], form)  # reads the first block alone
    for use in (len, quick_fit):
        with pytest.raises(InputError, match=rf"^block 2 of the source:? .*(?:{message})"):
            use(data)


def test_a_bad_first_block_is_named_when_the_data_are_made():
    with pytest.raises(InputError, match=r"^block 0 of the source: x0 must be finite"):
        from_blocks([(changed(A, 0, np.nan), B, C)])


LONGER, SHORTER = ((X0[:n], X1[:n], H[:n]) for n in (51, 49))
CHANGES = {
    "longer block": ([*BLOCKS[:3], LONGER, *BLOCKS[4:]], "block 3 .* has 51 transitions and had 50"),
    "shorter block": ([*BLOCKS[:3], SHORTER, *BLOCKS[4:]], "block 3 .* has 49 transitions and had 50"),
    "longer last block": ([*BLOCKS[:5], LONGER], "block 5 .* has 51 transitions and had 50"),
    "more": ([*BLOCKS, BLOCKS[0]], "block 6 .* has 50 transitions and did not exist"),
    "fewer": (BLOCKS[:4], "block 4 .* is missing: it gave 6 blocks in an earlier pass"),
    "none": ([], "block 0 .* is missing: it gave 6 blocks"),
    "another cut of the same rows": (cut(100, X0, X1, H), "block 0 .* has 100 transitions and had 50"),
}


USES = {
    "fit": quick_fit,
    "fit by algorithm 2": lambda data: quick_fit(data, refine=False),
    "nll": lambda data: [model_of_pairs().nll(data) for _ in range(2)],
    "blocks": lambda data: [list(data.blocks()) for _ in range(2)],
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize(("after", "message"), CHANGES.values(), ids=CHANGES)
def test_a_source_that_changes_between_passes_is_noticed(after, message, use):
    data = from_blocks(Changing(BLOCKS, after))
    with pytest.raises(InputError, match=message):
        use(data)


def test_blocks_without_transitions_count_in_the_number_of_a_block():
    pieces = [PATH[:1], PATH[1:2] * np.nan, PATH[2:50], PATH[50:100], PATH[100:]]
    data = from_blocks(Changing(pieces, [*pieces[:3], PATH[50:99], PATH[99:]]), "trajectory", h=0.1)
    assert len(data) == 197
    with pytest.raises(InputError, match="block 3 of the source has 49 transitions and had 50"):
        list(data.blocks())
    with pytest.raises(InputError, match=r"block 3 of the source has .* kind general"):
        len(from_blocks([*pieces[:3], Transitions(A, B, 0.1, kind="general")], "trajectory", h=0.1))


@ALGORITHMS
@pytest.mark.parametrize("at", [0, 1, 5])
def test_an_exception_of_the_source_comes_through_unchanged(at, refine):
    error = LookupError("the source's own")

    def source():
        for i, block in enumerate(BLOCKS):
            if i == at:
                raise error
            yield block

    with pytest.raises(LookupError, match="own") as caught:
        quick_fit(from_blocks(source), refine=refine)
    assert caught.value is error
    assert caught.value.__cause__ is None


@ALGORITHMS
def test_a_failure_in_a_later_pass_comes_through_and_leaves_the_data_usable(refine):
    class Flaky(Counted):
        def __iter__(self):
            for block in super().__iter__():
                if self.starts == 4:
                    raise OSError("network down")
                yield block

    data = from_blocks(Flaky(BLOCKS))
    with pytest.raises(OSError, match="network down"):
        quick_fit(data, refine=refine)
    assert_same(data, PAIRS)


def test_a_pass_that_is_left_early_closes_the_source():
    closed = []

    def source():
        try:
            yield from BLOCKS
        finally:
            closed.append(True)

    data = from_blocks(source)
    assert len(closed) == 1
    passing = data.blocks()
    next(passing)
    passing.close()
    assert len(closed) == 2


@pytest.mark.parametrize("n", [1, 19])
def test_too_few_transitions_are_refused(n):
    with pytest.raises(InputError, match=f"at least 20 transitions are needed to learn from, got {n}"):
        itofit.fit(from_blocks(cut(4, X0[:n], X1[:n], H[:n])))


@ALGORITHMS
def test_a_column_that_is_constant_in_all_blocks_is_refused_and_one_in_some_is_not(refine):
    x0 = X0.copy()
    x0[:150, 0] = 0.5
    quick_fit(from_blocks(cut(50, x0, X1, H)), refine=refine)
    x0[:, 0] = 0.5
    with pytest.raises(InputError, match="inputs column 0 is constant"):
        itofit.fit(from_blocks(cut(50, x0, X1, H)), refine=refine)


# Likelihood


@ALGORITHMS
@pytest.mark.parametrize("structure", ["full", "diagonal"])
@pytest.mark.parametrize("size", SIZES)
def test_likelihood_is_that_of_the_data_in_memory(structure, size, refine):
    sde = model_of_pairs(structure=structure, refine=refine)
    data = from_blocks(cut(size, X0, X1, H))
    np.testing.assert_allclose(sde.nll(data), sde.nll(PAIRS), rtol=1e-13)
    pointwise = sde.nll(data, pointwise=True)
    assert pointwise.shape == (300,)
    np.testing.assert_allclose(pointwise, sde.nll(PAIRS, pointwise=True), rtol=1e-13)
    np.testing.assert_allclose(pointwise.mean(), sde.nll(data), rtol=1e-13)


def test_likelihood_of_blocks_of_another_width_is_refused():
    sde = model_of_pairs()
    source = Counted(cut(50, X0[:, :1], X1[:, :1], H))
    with pytest.raises(InputError, match="the model has 2 inputs and 2 outputs, the data 1 and 1"):
        sde.nll(from_blocks(source))
    assert source.ends == 0


# concatenate


def test_concatenated_transitions_are_those_of_the_parts_in_order():
    groups = np.repeat(["a", "long name", "b"], 100)
    parts = [Transitions.from_pairs(*block) for block in cut(37, X0, X1, H, groups)]
    found, expected = Transitions.concatenate(parts), Transitions.from_pairs(X0, X1, H, groups)
    for name in ("inputs", "increments", "h", "groups"):
        equal(getattr(found, name), getattr(expected, name))
    assert found.kind == "diffusion"
    assert repr(found) == repr(expected)
    for one in (Transitions.concatenate(tuple(parts)), Transitions.concatenate(part for part in parts)):
        equal(one.inputs, X0)


def test_one_part_is_itself_and_h_of_a_number_is_repeated():
    one, two = Transitions.from_pairs(A, B, 0.1), Transitions.from_pairs(A, B, 0.2)
    equal(Transitions.concatenate([one]).inputs, A)
    equal(Transitions.concatenate([one, two]).h, np.repeat([0.1, 0.2], 30))


def test_groups_are_kept_if_all_parts_have_some():
    grouped, plain = Transitions.from_pairs(A, B, C, np.arange(30)), Transitions.from_pairs(A, B, C)
    equal(Transitions.concatenate([grouped, grouped]).groups, np.tile(np.arange(30), 2))
    assert Transitions.concatenate([grouped, plain]).groups is None
    assert Transitions.concatenate([plain, grouped]).groups is None


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "concatenate needs a list of Transitions, at least one"),
        ([PAIRS, X0], "concatenate needs a list of Transitions"),
        ([PAIRS, Transitions.from_pairs(X0[:, 0], X1[:, 0], H)], "the same inputs, outputs and kind"),
        (
            [PAIRS, Transitions(X0, X1, H, kind="general")],
            "the same inputs, outputs and kind, got .*diffusion.*general",
        ),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(parts, message):
    with pytest.raises(InputError, match=message):
        Transitions.concatenate(parts)


def test_blocked_data_that_were_read_can_be_read_in_another_process():
    data = from_blocks(list(cut(50, X0, X1, H)))
    assert len(data) == 300
    code = "import pickle, sys; data = pickle.load(sys.stdin.buffer); print(sum(len(block) for block in data.blocks()))"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, input=pickle.dumps(data), capture_output=True, check=False)
    assert run.stdout.split() == [b"300"], run.stderr
