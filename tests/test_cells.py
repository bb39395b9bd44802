"""Transitions gathered into cells: sums are those over rows, and folds keep what belongs together."""

import numpy as np
import pytest

from itofit import Transitions
from itofit._progress import Progress
from itofit.data import rows
from itofit.data.survey import survey
from itofit.learning.automatic import cells
from itofit.learning.automatic.cells import FOLDS, SIDE_OF_ALL, Plan
from itofit.learning.automatic.cells import SIDE as SIDES
from itofit.waves.scaling import Scaling

QUIET = Progress(False)
SIDE = SIDES[1]


def some(n=400, m=1, d=2, seed=0, n_groups=None):
    rng = np.random.default_rng(seed)
    groups = None if n_groups is None else rng.integers(0, n_groups, n)
    return Transitions(rng.normal(size=(n, m)), rng.normal(size=(n, d)), rng.uniform(0.1, 2.0, n), groups)


def plan_of(data, search_rows=None, seed=7):
    surveyed = survey(data, QUIET)
    return Plan(surveyed, Scaling.of(surveyed.low, surveyed.high, np.zeros(data.n_outputs)), seed, search_rows)


def increments(block, fold):
    return block.increments


def gathered(data, values=increments, **how):
    plan = plan_of(data, **how)
    return plan, plan.gather(data, values, QUIET, "reading")


def row_numbers(data):
    """The same transitions, with their numbers as increments."""
    return Transitions(data.inputs, np.arange(1.0, len(data) + 1), data.h, data.groups)


def test_few_transitions_are_cells_as_they_are():
    data = some()
    plan, found = gathered(data)
    assert plan.how == "all of them"
    np.testing.assert_allclose(found.u * plan.scaling.scale + plan.scaling.shift, data.inputs, atol=1e-12)
    np.testing.assert_array_equal(found.count, np.ones(len(data)))
    np.testing.assert_array_equal(found.duration, data.h)
    np.testing.assert_array_equal(found.sums, data.increments)
    np.testing.assert_allclose(found.squares, (data.increments**2).sum(axis=0))


def test_cells_of_a_grid_sum_up_all_transitions():
    data = some(n=6000)
    plan, found = gathered(data)
    assert plan.gathered
    assert len(found.u) <= SIDE * FOLDS
    assert found.count.sum() == len(data)
    assert (found.count > 0).all()
    u = plan.scaling.points(data.inputs)
    np.testing.assert_allclose(found.duration.sum(), data.h.sum())
    np.testing.assert_allclose(found.sums.sum(axis=0), data.increments.sum(axis=0), atol=1e-9)
    np.testing.assert_allclose(found.duration @ found.u, data.h @ u, atol=1e-9)
    np.testing.assert_allclose(found.squares, (data.increments**2).sum(axis=0))
    assert np.abs(u).max() <= 0.5 + 1e-12


def test_a_cell_of_the_grid_holds_what_lies_in_it_and_belongs_to_its_fold():
    data = some(n=6000)
    plan, found = gathered(data)
    u, fold = plan.scaling.points(data.inputs)[:, 0], plan.folds(data, 0)
    width = 1 / SIDE
    assert found.count.max() > 1
    for cell in np.random.default_rng(0).choice(len(found.u), 50, replace=False):
        left = np.floor((found.u[cell, 0] + 0.5) / width) * width - 0.5
        mine = (fold == found.fold[cell]) & (u >= left) & (u < left + width)
        assert found.count[cell] == mine.sum()
        np.testing.assert_allclose(found.duration[cell], data.h[mine].sum())
        np.testing.assert_allclose(found.sums[cell], data.increments[mine].sum(axis=0), atol=1e-12)
        assert found.u[cell, 0] == pytest.approx(np.average(u[mine], weights=data.h[mine]))


def test_a_subset_holds_each_of_its_transitions_once():
    data = row_numbers(some(m=2, n=500))
    plan, found = gathered(data, search_rows=120)
    assert plan.drawn
    assert plan.how == "120 of them, drawn at random"
    kept = found.sums[:, 0].astype(int) - 1
    assert len(np.unique(kept)) == 120
    np.testing.assert_allclose(found.u * plan.scaling.scale + plan.scaling.shift, data.inputs[kept], atol=1e-12)
    np.testing.assert_array_equal(found.duration, data.h[kept])
    np.testing.assert_array_equal(found.fold, plan.folds(data, 0)[kept])
    np.testing.assert_allclose(found.squares, (data.increments[kept] ** 2).sum(axis=0))


@pytest.mark.parametrize(
    ("n", "m", "search_rows", "how"),
    [
        (cells.MOST_ROWS_ALONE, 1, None, "all of them"),
        (cells.MOST_ROWS_ALONE + 1, 1, None, "a grid of 1024 cells"),
        (cells.MOST_ROWS, 2, None, "all of them"),
        (cells.MOST_ROWS + 1, 2, None, "a grid of 256 × 256 cells"),
        (cells.MOST_ROWS + 1, 3, None, "a grid of 44 × 44 × 44 cells"),
        (cells.MOST_ROWS + 1, 4, None, "16000 of them, drawn at random"),
        (300, 1, 300, "all of them"),
        (300, 1, 100, "100 of them, drawn at random"),
        (300, 2, 100, "100 of them, drawn at random"),
    ],
)
def test_what_becomes_of_transitions_depends_on_their_number(n, m, search_rows, how):
    plan = plan_of(some(n=n, m=m, d=1), search_rows=search_rows)
    assert plan.how == how
    assert (plan.gathered, plan.drawn) == ("grid" in how, "drawn" in how)


def test_folds_of_rows_are_of_equal_size():
    data = some(n=503)
    sizes = np.bincount(plan_of(data).folds(data, 0), minlength=FOLDS)
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("n_groups", [5, 17])
@pytest.mark.parametrize("labels", [int, str])
@pytest.mark.parametrize("n", [400, 6000])
def test_folds_never_split_a_group(n_groups, labels, n):
    data = some(n=n, n_groups=n_groups)
    data = Transitions(data.inputs, data.increments, data.h, [labels(group) for group in data.groups])
    fold = plan_of(data).folds(data, 0)
    of_group = {group: set(fold[data.groups == group]) for group in np.unique(data.groups)}
    assert {len(folds) for folds in of_group.values()} == {1}
    groups_in_fold = np.bincount([next(iter(folds)) for folds in of_group.values()], minlength=FOLDS)
    assert groups_in_fold.max() - groups_in_fold.min() <= 1


def test_fewer_groups_than_folds_are_split():
    data = some(n_groups=FOLDS - 1)
    assert plan_of(data).fold_of_group is None
    assert len(np.unique(plan_of(data).folds(data, 0))) == FOLDS


def test_values_are_asked_for_with_the_folds_of_their_rows():
    data = row_numbers(some(m=2, n=300))
    plan = plan_of(data, search_rows=100)
    seen = []

    def values(block, fold):
        seen.append((block.increments[:, 0].astype(int) - 1, fold))
        return block.increments

    plan.gather(data, values, QUIET, "reading")
    (kept, fold), *_ = seen
    np.testing.assert_array_equal(fold, plan.folds(data, 0)[kept])


@pytest.mark.parametrize("n_groups", [None, 11])
@pytest.mark.parametrize(("m", "search_rows"), [(1, None), (2, None), (3, None), (2, 150), (1, 150)])
@pytest.mark.parametrize("limit", [60, 200, 10_000], ids=["many blocks", "some blocks", "one block"])
def test_cells_do_not_depend_on_how_blocks_were_cut(n_groups, m, search_rows, limit, monkeypatch):
    monkeypatch.setattr(rows, "PASS_ROWS", limit)
    monkeypatch.setattr(cells, "MOST_ROWS_ALONE", 300)
    monkeypatch.setattr(cells, "MOST_ROWS", 300)
    data = some(n=500, m=m, n_groups=n_groups)

    def source():
        for start in (0, 7, 130, 499):
            stop = {0: 7, 7: 130, 130: 499, 499: 500}[start]
            yield data[start:stop]

    streamed = Transitions.from_blocks(source, "increments")
    _, here = gathered(data, search_rows=search_rows)
    plan, there = gathered(streamed, search_rows=search_rows)
    assert plan.n_rows == 500
    for name in set(here._fields) - {"sample"}:
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name))
    for one, other in zip(there.sample or (), here.sample or (), strict=True):
        np.testing.assert_array_equal(one, other)
    assert here.count.sum() == (500 if search_rows is None else search_rows)


def test_the_same_seed_gives_the_same_cells_and_another_others():
    data = some(m=2)
    first, again, other = (gathered(data, search_rows=100, seed=seed)[1] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.u, again.u)
    np.testing.assert_array_equal(first.fold, again.fold)
    assert not np.array_equal(first.u, other.u)


def test_inputs_at_the_ends_of_their_range_are_in_the_grid():
    data = some(n=6000)
    plan, found = gathered(data)
    ends = np.sort(plan.scaling.points(data.inputs)[:, 0])[[0, -1]]
    np.testing.assert_allclose(ends, [-0.5, 0.5], atol=1e-12)
    assert found.u.min() < -0.5 + 1 / SIDE
    assert found.u.max() > 0.5 - 1 / SIDE


@pytest.mark.parametrize("n_groups", [None, 11])
@pytest.mark.parametrize("m", [2, 3])
def test_cells_of_several_inputs_are_boxes_of_one_fold(m, n_groups):
    data = some(n=cells.MOST_ROWS + 1, m=m, n_groups=n_groups)
    plan, found = gathered(data)
    assert plan.side == (SIDE_OF_ALL if n_groups is None else SIDES)[m]
    assert found.count.sum() == len(data)
    assert np.bincount(found.fold, found.count).min() > 0.15 * len(data)
    u = plan.scaling.points(data.inputs)
    if n_groups is not None:
        fold = plan.folds(data, 0)
    for cell in np.random.default_rng(0).choice(len(found.u), 30, replace=False):
        left = np.floor((found.u[cell] + 0.5) * plan.side) / plan.side - 0.5
        mine = ((u >= left) & (u < left + 1 / plan.side)).all(axis=1)
        if n_groups is not None:
            mine &= fold == found.fold[cell]
        assert found.count[cell] == mine.sum()
        np.testing.assert_allclose(found.sums[cell], data.increments[mine].sum(axis=0), atol=1e-12)


def test_a_sample_of_what_is_on_a_grid_is_kept_with_its_folds():
    data = some(n=9000, n_groups=7)
    plan, found = gathered(data)
    sample, u, fold = found.sample, plan.scaling.points(data.inputs)[:, 0], plan.folds(data, 0)
    assert len(sample.u) == cells.SAMPLED
    place = {value: row for row, value in enumerate(u)}
    rows_of = [place[value] for value in sample.u[:, 0]]
    np.testing.assert_array_equal(sample.h, data.h[rows_of])
    np.testing.assert_array_equal(sample.increments, data.increments[rows_of])
    np.testing.assert_array_equal(sample.fold, fold[rows_of])


@pytest.mark.parametrize("n_groups", [None, 9])
@pytest.mark.parametrize("limit", [3_000, 10**9])
def test_transitions_of_a_grid_may_stand_alone_and_keep_their_folds(limit, n_groups):
    """So that products under a drift without a fold are those of transitions that it has not seen."""
    data = row_numbers(some(n=cells.MOST_ROWS + 1, m=2, n_groups=n_groups))
    plan, on_grid = gathered(data)
    alone = plan.ungathered(limit)
    assert plan.gathered
    found = alone.gather(data, increments, QUIET, "reading")
    assert len(found.u) == min(limit, len(data))
    assert (found.count == 1).all()
    assert found.sample is None
    kept = found.sums[:, 0].astype(int) - 1
    assert len(np.unique(kept)) == len(kept)
    np.testing.assert_allclose(found.u, plan.scaling.points(data.inputs[kept]), atol=1e-12)
    _, fold = plan._places(data, plan.scaling.points(data.inputs), 0)
    np.testing.assert_array_equal(found.fold, fold[kept])
    assert set(np.unique(on_grid.fold)) == set(np.unique(found.fold))
