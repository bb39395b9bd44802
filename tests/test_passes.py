"""Passes over data: sums in a fixed order, on any number of threads and wherever the data are."""

import threading
from typing import NamedTuple

import numpy as np
import pytest

from itofit import Transitions, _blocks
from itofit._blocks import CHUNK_ROWS, map_chunks, one_blas_thread
from itofit.data import rows
from itofit.data.passes import add_up, added

on_threads = pytest.mark.parametrize("n_threads", [1, 2, 4], indirect=True)


@pytest.fixture
def n_threads(request, monkeypatch):
    """Use so many threads, whatever the machine has."""
    monkeypatch.setattr(_blocks, "n_threads", lambda: request.param)
    return request.param


@pytest.fixture
def short_blocks(set_everywhere):
    """Blocks of seven rows."""
    set_everywhere("PASS_ROWS", 7)
    assert rows.PASS_ROWS == 7


class Arrays:
    """Blocks that are arrays."""

    def __init__(self, blocks, in_memory=True):
        self.arrays, self.in_memory = blocks, in_memory

    def blocks(self):
        return iter(self.arrays)


def numbers(n, seed=0):
    """Numbers of such different sizes that every order of additions rounds otherwise."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=n) * 10.0 ** rng.integers(-8, 8, n)


def tree_sum(values):
    """The largest power of two of values that leaves a rest, as a tree of its own, plus the tree of the rest."""
    if len(values) == 1:
        return values[0]
    half = 1
    while 2 * half < len(values):
        half *= 2
    return tree_sum(values[:half]) + tree_sum(values[half:])


def test_the_tree_by_hand():
    a, b, c, d, e, f, g = (float(value) for value in numbers(7))
    assert tree_sum([a, b, c]) == (a + b) + c
    assert tree_sum([a, b, c, d, e, f]) == ((a + b) + (c + d)) + (e + f)
    assert tree_sum([a, b, c, d, e, f, g]) == ((a + b) + (c + d)) + ((e + f) + g)


# The order of additions


@on_threads
@pytest.mark.parametrize("in_memory", [True, False])
def test_sums_are_those_of_the_tree_to_the_last_bit(n_threads, in_memory):
    one_after_the_other = 0
    for n in range(1, 21):
        for seed in range(5):
            values = numbers(n, seed)
            data = Arrays([np.array([value]) for value in values], in_memory)
            total = add_up(data, lambda block, number: float(block[0]))
            assert total == tree_sum(values.tolist())
            one_after_the_other += total == sum(values.tolist())
    assert one_after_the_other < 80  # the order is one that can be told from others


@on_threads
@pytest.mark.parametrize("n_blocks", [*range(1, 10), 16, 19, 20])
def test_transitions_in_memory_and_in_blocks_have_the_same_sum(n_threads, n_blocks, short_blocks):
    n = 7 * n_blocks - 3
    x0, x1 = numbers(n).reshape(n, 1), numbers(n, 1).reshape(n, 1)
    memory = Transitions.from_pairs(x0, x1, 0.1)
    cut = [(x0[i : i + 10], x1[i : i + 10], 0.1 * np.ones(len(x0[i : i + 10]))) for i in range(0, n, 10)]
    blocked = Transitions.from_blocks(cut)
    assert not blocked.in_memory
    expected = tree_sum([float(memory.increments[i : i + 7].sum()) for i in range(0, n, 7)])
    for data in (memory, blocked):
        seen = {}

        def total(block, number, seen=seen):
            seen[number] = len(block)
            return float(block.increments.sum())

        assert add_up(data, total) == expected
        assert [seen[number] for number in range(n_blocks)] == [7] * (n_blocks - 1) + [4]


@on_threads
def test_who_is_done_first_does_not_matter(n_threads):
    values, turn = numbers(12), threading.Event()

    def slow_first(block, number):
        if number == 0 and n_threads > 1:
            assert turn.wait(20)  # until the second block is done
        if number == 1:
            turn.set()
        return float(block[0])

    data = Arrays([np.array([value]) for value in values])
    assert add_up(data, slow_first) == tree_sum(values.tolist())


# What is added


class Pair(NamedTuple):
    total: float
    labels: list


class Largest:
    """Adds up by its own rule."""

    def __init__(self, value):
        self.value = value

    def plus(self, other):
        return Largest(max(self.value, other.value))


class Sums(NamedTuple):
    """A named tuple with a rule of its own."""

    least: float

    def plus(self, other):
        return Sums(min(self.least, other.least))


BLOCKS = Arrays([np.array([value]) for value in numbers(11)])


@on_threads
def test_lists_are_joined_in_order(n_threads):
    assert add_up(BLOCKS, lambda block, number: [number] * (number % 3)) == [
        number for number in range(11) for _ in range(number % 3)
    ]


@on_threads
def test_arrays_tuples_and_named_tuples_are_added_part_by_part(n_threads):
    values = [block[0] for block in BLOCKS.arrays]
    array, (count, nested) = add_up(BLOCKS, lambda block, number: (block * [1.0, 2.0], (1, Pair(block[0], [number]))))
    np.testing.assert_array_equal(array, [tree_sum(values), tree_sum([2 * value for value in values])])
    assert count == 11
    assert type(nested) is Pair
    assert nested == Pair(tree_sum(values), list(range(11)))


@on_threads
def test_objects_add_up_by_their_own_rule(n_threads):
    largest = add_up(BLOCKS, lambda block, number: Largest(block[0]))
    assert largest.value == max(block[0] for block in BLOCKS.arrays)
    sums, n = add_up(BLOCKS, lambda block, number: (Sums(block[0]), 1))
    assert sums == Sums(min(block[0] for block in BLOCKS.arrays))
    assert n == 11


@pytest.mark.parametrize("without", [0, 4, 10])
def test_what_one_block_does_not_have_is_not_said_of_all(without):
    total, n = add_up(BLOCKS, lambda block, number: (None if number == without else 1.0, 1))
    assert total is None
    assert n == 11


def test_tuples_of_different_lengths_are_not_added():
    with pytest.raises(ValueError, match="zip"):
        added((1, 2), (1, 2, 3))


def test_results_are_not_changed_by_adding():
    parts = [np.array([value]) for value in numbers(6)]
    before = [part.copy() for part in parts]
    add_up(Arrays(parts), lambda block, number: parts[number])
    np.testing.assert_array_equal(parts, before)


# Parts


@on_threads
@pytest.mark.parametrize("in_memory", [True, False])
def test_blocks_are_cut_into_numbered_parts(n_threads, in_memory):
    data = Arrays([np.arange(5), np.arange(5, 7), np.arange(7, 13)], in_memory)
    parts = add_up(data, lambda block, number: [(number, block.tolist())], most_rows=2)
    cut = [[0, 1], [2, 3], [4], [5, 6], [7, 8], [9, 10], [11, 12]]
    assert parts == list(enumerate(cut))
    assert add_up(data, lambda block, number: [number]) == [0, 1, 2]
    assert add_up(data, lambda block, number: [len(block)], most_rows=6) == [5, 2, 6]


@on_threads
def test_parts_of_transitions_have_the_sum_of_their_tree(n_threads, short_blocks):
    data = Transitions(numbers(40).reshape(-1, 1), numbers(40, 1).reshape(-1, 1), 0.1)
    starts = [(i, min(i + 3, 7 * (i // 7) + 7, 40)) for b in range(0, 40, 7) for i in range(b, min(b + 7, 40), 3)]
    expected = tree_sum([float(data.increments[a:b].sum()) for a, b in starts])
    assert add_up(data, lambda block, number: float(block.increments.sum()), most_rows=3) == expected


# Progress, errors and threads


@on_threads
@pytest.mark.parametrize("in_memory", [True, False])
def test_progress_counts_the_rows_that_are_done_in_order(n_threads, in_memory):
    seen = []

    def shown(n_done):
        seen.append((n_done, threading.current_thread()))

    data = Arrays([np.zeros(5), np.zeros(2), np.zeros(6)], in_memory)
    add_up(data, lambda block, number: 0, shown=shown)
    assert seen == [(n_done, threading.current_thread()) for n_done in (5, 7, 13)]
    seen.clear()
    add_up(data, lambda block, number: 0, shown=shown, most_rows=4)
    assert [n_done for n_done, _ in seen] == [4, 5, 7, 11, 13]


class OfOneBlockError(Exception):
    """An error that nobody else raises."""


@on_threads
@pytest.mark.parametrize("bad", [0, 1, 5, 10])
@pytest.mark.parametrize("in_memory", [True, False])
def test_an_error_in_a_block_is_raised_as_it_is(n_threads, bad, in_memory):
    error, done = OfOneBlockError("of this block"), []

    def fail(block, number):
        if number == bad:
            raise error
        return 1

    with pytest.raises(OfOneBlockError) as caught:
        add_up(Arrays(BLOCKS.arrays, in_memory), fail, shown=done.append)
    assert caught.value is error
    assert done == list(range(1, bad + 1))  # all before it, and nothing after it
    assert one_blas_thread.depth == 0
    assert add_up(BLOCKS, lambda block, number: 1) == 11  # the threads go on


@on_threads
def test_an_error_of_the_source_is_raised_as_it_is(n_threads):
    error = OfOneBlockError("of the source")

    class Broken(Arrays):
        def blocks(self):
            yield from self.arrays[:4]
            raise error

    with pytest.raises(OfOneBlockError) as caught:
        add_up(Broken(BLOCKS.arrays), lambda block, number: 1)
    assert caught.value is error
    assert one_blas_thread.depth == 0


@on_threads
def test_few_blocks_are_taken_ahead_of_the_sum(n_threads):
    taken, ahead = 0, []

    class Taken(Arrays):
        def blocks(self):
            nonlocal taken
            for block in self.arrays:
                taken += 1
                yield block

    add_up(Taken([np.zeros(1)] * 30), lambda block, number: 0, shown=lambda n_done: ahead.append(taken - n_done))
    assert max(ahead) <= n_threads


def test_blocks_that_are_read_are_worked_on_where_they_are_read(monkeypatch):
    monkeypatch.setattr(_blocks, "n_threads", lambda: 4)
    workers = add_up(Arrays(BLOCKS.arrays, False), lambda block, number: [threading.current_thread()])
    assert set(workers) == {threading.current_thread()}


@on_threads
def test_work_on_chunks_within_blocks_does_not_hang(n_threads):
    """More blocks than threads, each of which waits for chunks: the two levels have threads of their own."""
    data = Arrays([np.full(4 * CHUNK_ROWS, float(number)) for number in range(9)])
    results = []

    def total(block, number):
        return float(sum(map_chunks(lambda chunk: block[chunk].sum(), len(block))))

    worker = threading.Thread(target=lambda: results.append(add_up(data, total)), daemon=True)
    worker.start()
    worker.join(60)
    assert not worker.is_alive()
    assert results == [4 * CHUNK_ROWS * 36.0]
