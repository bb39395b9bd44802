"""Data in parts: the same rows in any parts are the same data, to the last bit."""

import pickle
from functools import cache, reduce
from itertools import pairwise

import numpy as np
import pytest

import itofit
from itofit._checks import InputError
from itofit.data import rows
from itofit.data.large.parts import Looked, PartedTransitions
from itofit.data.large.stretches import stretches
from itofit.data.passes import Done, add_up, sums_of_stretch
from itofit.model.hidden.windows import InOrder

N = 1000


class Rows:
    """Some rows of a random walk, in blocks of a few."""

    def __init__(self, first, stop, at_once=7, name=None):
        self.first, self.stop, self.at_once = first, stop, at_once
        self.name = name or f"rows {first} to {stop}"

    def blocks(self):
        data = walk()
        for start in range(self.first, self.stop, self.at_once):
            yield data[start : min(start + self.at_once, self.stop)]


@cache
def walk():
    path = np.cumsum(np.random.default_rng(0).normal(size=N + 1))
    return itofit.Transitions.from_trajectories(path, dt=0.1)


def parted(cuts, at_once=7):
    edges = [0, *cuts, N]
    return PartedTransitions([Rows(a, b, at_once) for a, b in pairwise(edges)])


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(rows, "PASS_ROWS", 32)
    monkeypatch.setattr("itofit.data.large.stretches.MARGIN", 6)


CUTS = [[], [500], [1, 2, 3, 999], [32, 64, 64, 64, 65, 900], list(range(1, N)), [0, 0, 31, 31, 33], [999, 1000, 1000]]


@pytest.mark.parametrize("at_once", [1, 7, 32, 2000])
@pytest.mark.parametrize("cuts", CUTS, ids=len)
def test_blocks_do_not_depend_on_the_parts(cuts, at_once):
    data, expected = parted(cuts, at_once), list(itofit.Transitions.from_blocks([walk()]).blocks())
    blocks = list(data.blocks())
    assert [len(block) for block in blocks] == [len(block) for block in expected]
    for own, other in zip(blocks, expected, strict=True):
        np.testing.assert_array_equal(own.inputs, other.inputs)
        np.testing.assert_array_equal(own.increments, other.increments)
        np.testing.assert_array_equal(own.groups, other.groups)
    assert len(data) == N


@pytest.mark.parametrize("cuts", CUTS, ids=len)
@pytest.mark.parametrize("n_threads", [1, 2, 5, 100])
def test_stretches_hold_all_blocks_once(cuts, n_threads):
    data = parted(cuts)
    own = stretches(data.parts, data.lengths, 32, data._variables, n_threads)
    numbers = [stretch.first + i for stretch in own for i in range(-(-stretch.n_rows // 32))]
    assert numbers == list(range(-(-N // 32)))
    assert all(sum(piece.n_rows for piece in stretch.pieces) >= stretch.n_skipped + stretch.n_rows for stretch in own)
    starts = np.cumsum([0, *data.lengths])
    for stretch in own[1:]:  # little is read in vain
        assert stretch.n_skipped < 32 + 6 + max(data.lengths) * (max(data.lengths) < 38)
        assert starts[stretch.pieces[0].number] + stretch.n_skipped == 32 * stretch.first


@pytest.mark.parametrize("most_rows", [None, 8, 5])
@pytest.mark.parametrize("cuts", CUTS, ids=len)
def test_sums_do_not_depend_on_the_parts(cuts, most_rows):
    def function(block, number):
        rng = np.random.default_rng(number)
        return float(block.increments.sum() / 3), [number], float(rng.normal() * block.inputs[0, 0])

    expected = add_up(itofit.Transitions.from_blocks([walk()]), function, most_rows=most_rows)
    assert add_up(parted(cuts), function, most_rows=most_rows) == expected
    assert add_up(walk(), function, most_rows=most_rows) == expected


@pytest.mark.parametrize("overlap", [1, 5, 20])
@pytest.mark.parametrize("cuts", CUTS, ids=len)
def test_tracks_go_on_across_parts(cuts, overlap):
    def function(block, number):
        return [(number, block.n_before, block.rows.inputs[:, 0].tolist())]

    expected = add_up(InOrder(itofit.Transitions.from_blocks([walk()]), overlap), function)
    assert add_up(InOrder(parted(cuts), overlap), function) == expected


# Some of the rows


@pytest.mark.parametrize("cuts", CUTS, ids=len)
def test_splits_do_not_depend_on_the_parts(cuts):
    expected = itofit.Transitions.from_blocks([walk()]).split(0.3, rng=1)
    own = parted(cuts).split(0.3, rng=1)
    for one, other in zip(own, expected, strict=True):
        assert len(one) == len(other)
        both = (np.concatenate([block.inputs for block in data.blocks()]) for data in (one, other))
        np.testing.assert_array_equal(*both)


@pytest.mark.parametrize("cuts", CUTS, ids=len)
def test_kept_rows_do_not_depend_on_the_parts(cuts):
    own = parted(cuts).those(lambda block: block.inputs[:, 0] > 0)
    x = walk().inputs[:, 0]
    np.testing.assert_array_equal(np.concatenate([block.inputs[:, 0] for block in own.blocks()]), x[x > 0])
    assert len(own) == (x > 0).sum()


def test_parts_are_looked_at_once_and_counted_where_they_say_so():
    looks = []

    def look(run):
        looks.append(run(len, [[1], [2, 3]]))
        return Looked([Rows(0, 400), Rows(400, 400), Rows(400, N)])

    data = PartedTransitions(look, walk())
    assert looks == []
    assert "not read yet" in repr(data)
    assert data.lengths == (400, 0, 600)
    assert len(list(data.blocks())) == 32
    assert looks == [[1, 2]]
    assert repr(data) == "PartedTransitions(1000 transitions in 3 parts, 1 input, 1 output, kind = diffusion)"


def test_a_fit_does_not_depend_on_the_parts(monkeypatch):
    monkeypatch.setattr(rows, "PASS_ROWS", 256)
    expected = itofit.fit(walk(), rng=0)
    for cuts in [500], [3, 3, 255, 600]:
        sde = itofit.fit(parted(cuts, 100), rng=0)
        x = np.linspace(-20, 20, 9)
        np.testing.assert_array_equal(sde.drift(x), expected.drift(x))
        np.testing.assert_array_equal(sde.covariance(x), expected.covariance(x))


# What is wrong


def test_arrays_of_all_rows_are_refused():
    with pytest.raises(AttributeError, match=r"read in parts have no inputs of all of them at once"):
        _ = parted([500]).inputs
    with pytest.raises(AttributeError, match="has no attribute 'colour'"):
        _ = parted([500]).colour
    pickle.loads(pickle.dumps(Rows(0, 3)))


def test_no_row_at_all():
    with pytest.raises(InputError, match="holds no transition"):
        PartedTransitions([Rows(0, 0), Rows(5, 5)])
    with pytest.raises(InputError, match="holds no transition"):
        len(PartedTransitions([Rows(0, 0), Rows(5, 5)], walk()))


def test_parts_that_hold_other_variables_are_named():
    class Two(Rows):
        def blocks(self):
            for block in super().blocks():
                yield itofit.Transitions.from_pairs(np.ones((len(block), 2)), np.ones((len(block), 2)), 0.1)

    data = PartedTransitions([Rows(0, 500), Two(500, N, name="tracks/b.parquet")])
    with pytest.raises(InputError, match=r"^tracks/b.parquet: has 2 inputs and 2 outputs, kind diffusion; other parts"):
        list(data.blocks())


@pytest.mark.parametrize("error", [OSError("no space"), ValueError("bad bytes"), EOFError()])
def test_a_part_that_cannot_be_read_is_named(error):
    class Broken(Rows):
        def blocks(self):
            yield walk()[:5]
            raise error

    data = PartedTransitions([Rows(0, 500), Broken(500, N, name="tracks/b.parquet")], None, [500, 500])
    with pytest.raises(InputError, match=f"^tracks/b.parquet cannot be read: {error or 'EOFError'}"):
        add_up(data, lambda block, number: 0)


@pytest.mark.parametrize(("stop", "problem"), [(899, "has 399 transitions and had 400"), (901, "has 401 transitions")])
def test_parts_that_change_their_length_are_named(stop, problem):
    parts = [Rows(0, 500), Rows(500, 900, name="b.csv", at_once=1)]
    data = PartedTransitions(parts)
    add_up(data, lambda block, number: 0)
    parts[1].stop = stop
    with pytest.raises(InputError, match=rf"^b.csv: {problem}.* in an earlier pass: the data must be the same each"):
        add_up(data, lambda block, number: 0)


def test_parts_that_change_their_values_are_named():
    parts = [Rows(0, 500), Rows(500, N, name="b.csv")]
    data = PartedTransitions(parts)
    add_up(data, lambda block, number: 0)
    parts[1].first, parts[1].stop = 300, 800
    with pytest.raises(InputError, match=r"^b.csv has other values than in an earlier pass"):
        add_up(data, lambda block, number: 0)


def test_groups_cannot_be_held_out_of_parts():
    with pytest.raises(InputError, match="needs transitions in memory"):
        parted([500]).split(0.1, by="groups")


# Elsewhere


class Elsewhere:
    """Adds up what was sent to it, as the workers of a cluster do."""

    n_threads = 2

    def __init__(self):
        self.sizes = {}

    def __reduce__(self):
        raise TypeError("the function of a pass holds its data")

    def add_up(self, stretches, function, most_rows, shown):
        sent = cloudpickle().dumps(function)
        self.sizes[function.__qualname__.replace(".<locals>", "")] = len(sent)
        done = (sums_of_stretch(self.copy(stretch), cloudpickle().loads(sent), most_rows) for stretch in stretches)
        return reduce(Done.plus, map(self.copy, done))

    def run(self, function, items, shown):
        return [self.copy(self.copy(function)(self.copy(item))) for item in items]

    def copy(self, thing):
        return cloudpickle().loads(cloudpickle().dumps(thing))


def cloudpickle():
    return pytest.importorskip("cloudpickle")


def scattered(n, d):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n, d))
    noise = 0.1 * rng.normal(size=(n, d)) * (1 + x**2)
    return itofit.Transitions(x, 0.01 * (np.sin(6 * x) - x[:, ::-1]) + noise, 0.01)


def uneven():
    rng = np.random.default_rng(0)
    x, h = np.append(rng.uniform(-1, 1, 3000), 1e4), rng.choice([0.01, 0.5], 3001, p=[0.95, 0.05])
    return itofit.Transitions(x, -5 * x * h * (x < 2) + 0.3 * np.sqrt(h) * rng.normal(size=3001), h)


def relaxing(n_tracks, *, positions=False):
    """Tracks of 60 moves: many short ones are filtered at once, and parts begin within them."""
    rng = np.random.default_rng(0)
    x, v = np.zeros((n_tracks, 61)), np.zeros(n_tracks)
    for i in range(60):
        v += -0.05 * v - 0.05 * x[:, i] + 0.1 * rng.normal(size=n_tracks)
        x[:, i + 1] = x[:, i] + 0.05 * v if positions else 0.97 * x[:, i] + 0.1 * rng.normal(size=n_tracks)
    if positions:
        return itofit.Transitions.from_positions(list(x), dt=0.05)
    return itofit.Transitions.from_trajectories(list(x + 0.1 * rng.normal(size=x.shape)), dt=0.03)


FITS = {
    "one input": (lambda: scattered(6000, 1), {}),
    "two inputs": (lambda: scattered(16_500, 2), {}),
    "a subset of the rows": (lambda: scattered(1500, 4), {"drift": itofit.ARFF(search_rows=500)}),
    "long steps and an outlier": (uneven, {}),
    "an ensemble": (lambda: scattered(1000, 1), {"ensemble": 2}),
    "Algorithm 2": (lambda: scattered(3000, 1), {"refine": False, "weight_drift": True}),
    "errors of measurement": (lambda: relaxing(10), {"measurement_noise": 0.1}),
    "positions": (lambda: relaxing(9, positions=True), {"measurement_noise": False}),
}


@pytest.mark.filterwarnings("ignore::itofit.DataWarning", "ignore::itofit.ConvergenceWarning")
@pytest.mark.parametrize("name", FITS)
def test_all_passes_can_be_sent_and_change_nothing(monkeypatch, name):
    make, options = FITS[name]
    whole, elsewhere = make(), Elsewhere()
    block = 400 if len(whole) < 1000 else 1024
    for module in ("data.rows", "learning.automatic.all_rows", "learning.paper.regression", "looking.check.examined"):
        monkeypatch.setattr(f"itofit.{module}.PASS_ROWS", block)
    edges = [0, 150, 150, len(whole) // 2, len(whole)]
    data = PartedTransitions([Held(whole[a:b] if a < b else None, f"{a} to {b}") for a, b in pairwise(edges)])
    here, there = (itofit.fit(own, rng=0, **options) for own in (data, data.on(elsewhere)))
    x = here.box[0] + np.linspace(0, 1, 7)[:, None] * (here.box[1] - here.box[0])
    np.testing.assert_array_equal(here.drift(x), there.drift(x))
    np.testing.assert_array_equal(here.covariance(x), there.covariance(x))
    assert here.nll(data) == here.nll(data.on(elsewhere))
    assert itofit.check(here, data).text() == itofit.check(here, data.on(elsewhere)).text()
    assert max(elsewhere.sizes.values()) < 10_000_000, elsewhere.sizes


class Held:
    """A part that is in memory."""

    def __init__(self, data, name):
        self.data, self.name = data, name

    def blocks(self):
        return [] if self.data is None else [self.data]
