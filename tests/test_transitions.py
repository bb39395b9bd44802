import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from itofit import DataWarning, InputError, Transitions

equal = np.testing.assert_array_equal


def pairs(n=40, d=2, seed=0, **kwargs):
    rng = np.random.default_rng(seed)
    x0 = rng.normal(size=(n, d))
    return Transitions.from_pairs(x0, x0 + rng.normal(size=(n, d)), rng.uniform(0.1, 0.2, n), **kwargs)


def parts(data):
    return data.inputs, data.increments, data.h, data.groups


# from_pairs


def test_pairs_are_where_it_was_how_far_it_moved_and_in_what_time():
    x0 = np.array([[1.0, 2.0], [3.0, 5.0]])
    x1 = np.array([[1.5, 2.0], [2.0, 9.0]])
    data = Transitions.from_pairs(x0, x1, [0.1, 0.2])
    equal(data.inputs, x0)
    equal(data.increments, [[0.5, 0.0], [-1.0, 4.0]])
    equal(data.h, [0.1, 0.2])
    equal(data.rates, [[0.5 / 0.1, 0.0], [-1.0 / 0.2, 4.0 / 0.2]])
    assert data.groups is None
    assert data.kind == "diffusion"
    assert (len(data), data.n_inputs, data.n_outputs) == (2, 2, 2)


@pytest.mark.parametrize("h", [0.25, np.float32(0.25), np.array(0.25), np.full(3, 0.25), np.full((3, 1), 0.25)])
def test_every_transition_has_its_own_h(h):
    data = Transitions.from_pairs([0.0, 1.0, 2.0], [1.0, 1.0, 1.0], h)
    equal(data.h, [0.25, 0.25, 0.25])
    assert data.h.shape == (3,)


def test_one_variable_may_come_without_its_column():
    flat = Transitions.from_pairs([0.0, 1.0], [2.0, 5.0], 1.0)
    column = Transitions.from_pairs([[0.0], [1.0]], [[2.0], [5.0]], 1.0)
    mixed = Transitions.from_pairs([0.0, 1.0], [[2.0], [5.0]], 1.0)
    for data in (flat, column, mixed):
        equal(data.inputs, [[0.0], [1.0]])
        equal(data.increments, [[2.0], [4.0]])


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int8, np.float32, np.float16, np.longdouble, ">f8"])
def test_real_numbers_of_any_type_are_accepted(dtype):
    x0, x1 = np.array([[3, 1], [4, 2]], dtype=dtype), np.array([[1, 1], [5, 100]], dtype=dtype)
    data = Transitions.from_pairs(x0, x1, np.array([1, 2], dtype=dtype))
    equal(data.increments, [[-2.0, 0.0], [1.0, 98.0]])
    for array in (data.inputs, data.increments, data.h, data.rates):
        assert array.dtype == np.dtype(np.float64)
        assert array.dtype.isnative


def test_nested_lists_and_tuples_are_accepted():
    data = Transitions.from_pairs([[0, 1], [2, 3]], ((1, 1), (2, 4)), 1)
    equal(data.increments, [[1.0, 0.0], [0.0, 1.0]])
    equal(data.h, [1.0, 1.0])


def test_the_arrays_handed_in_are_not_changed():
    x0, x1, h = np.arange(6.0).reshape(3, 2), np.ones((3, 2)), np.ones(3)
    copies = x0.copy(), x1.copy(), h.copy()
    data = Transitions.from_pairs(x0, x1, h)
    data.split(0.4, rng=0)
    for array, copy in zip((x0, x1, h), copies, strict=True):
        equal(array, copy)


# from_trajectories


def moves(paths, clocks, max_h=np.inf):
    """Consecutive complete observations, one by one."""
    found = []
    for group, (path, clock) in enumerate(zip(paths, clocks, strict=True)):
        for i in range(len(path) - 1):
            here, there = path[i], path[i + 1]
            h = clock[i + 1] - clock[i]
            if not np.isnan(here).any() and not np.isnan(there).any() and h <= max_h:
                found.append((here, there - here, h, group))
    return found


def assert_moves(data, expected):
    assert len(data) == len(expected)
    for got, wanted in zip(parts(data), zip(*expected, strict=True), strict=True):
        equal(got, np.array(wanted))


@settings(deadline=None)
@given(
    st.lists(
        st.integers(0, 8).flatmap(
            lambda length: st.tuples(
                hnp.arrays(float, (length, 2), elements=st.floats(-5, 5) | st.just(np.nan), fill=st.nothing()),
                hnp.arrays(float, length, elements=st.sampled_from([0.25, 0.5, 1.0, 3.0]), fill=st.nothing()),
            )
        ),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([None, 0.25, 1.0]),
)
def test_trajectories_with_gaps_and_irregular_times_equal_an_obvious_loop(observed, max_h):
    paths = [path for path, _ in observed]
    clocks = [10 + np.cumsum(steps) for _, steps in observed]
    expected = moves(paths, clocks, np.inf if max_h is None else max_h)
    if expected:
        assert_moves(Transitions.from_trajectories(paths, times=clocks, max_h=max_h), expected)
    else:
        with pytest.raises(InputError, match="hold no transition"):
            Transitions.from_trajectories(paths, times=clocks, max_h=max_h)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_one_trajectory_of_any_number_of_variables(d):
    path = np.random.default_rng(0).normal(size=(7, d))
    data = Transitions.from_trajectories(path, dt=0.5)
    equal(data.inputs, path[:-1])
    equal(data.increments, path[1:] - path[:-1])
    equal(data.groups, np.zeros(6))
    assert data.kind == "diffusion"


def test_one_variable_may_be_a_vector_a_list_or_a_tuple():
    for path in (np.array([0.0, 1.0, 4.0]), [0.0, 1.0, 4.0], (0, 1, 4), [[0.0, 1.0, 4.0]]):
        data = Transitions.from_trajectories(path, dt=1)
        equal(data.inputs, [[0.0], [1.0]])
        equal(data.increments, [[1.0], [3.0]])


def test_three_axes_are_trajectories_times_and_variables():
    paths = np.random.default_rng(0).normal(size=(3, 5, 2))
    stacked = Transitions.from_trajectories(paths, dt=0.1)
    listed = Transitions.from_trajectories(list(paths), dt=0.1)
    for a, b in zip(parts(stacked), parts(listed), strict=True):
        equal(a, b)
    equal(stacked.groups, np.repeat([0, 1, 2], 4))


def test_trajectories_of_different_lengths_never_meet():
    paths = [np.array([0.0, 1.0, 2.0]), np.array([100.0, 101.0]), np.array([200.0]), np.array([300.0, 301.0])]
    data = Transitions.from_trajectories(paths, dt=1.0)
    equal(data.inputs.ravel(), [0, 1, 100, 300])
    equal(data.increments.ravel(), [1, 1, 1, 1])
    equal(data.groups, [0, 0, 1, 3])


@pytest.mark.parametrize("dt", [0.1, 1e-3, 1 / 3, 5e-7])
def test_h_is_dt_to_the_last_bit(dt):
    data = Transitions.from_trajectories(np.arange(10_000.0), dt=dt)
    assert set(data.h) == {dt}


def test_one_array_of_times_serves_all_trajectories():
    times = np.array([0.0, 0.5, 2.0])
    paths = np.arange(12.0).reshape(2, 3, 2)
    shared = Transitions.from_trajectories(paths, times=times)
    repeated = Transitions.from_trajectories(paths, times=[times, times])
    stacked = Transitions.from_trajectories(paths, times=np.stack([times, times]))
    for data in (shared, repeated, stacked):
        equal(data.h, [0.5, 1.5, 0.5, 1.5])


def test_times_of_whole_numbers_and_lists_are_accepted():
    equal(Transitions.from_trajectories([0.0, 1.0, 2.0], times=[0, 2, 3]).h, [2.0, 1.0])
    equal(Transitions.from_trajectories([[0.0, 1.0], [2.0, 3.0, 4.0]], times=[[0, 2], [0, 1, 5]]).h, [2.0, 1.0, 4.0])


def test_unsigned_times_do_not_wrap_around():
    equal(Transitions.from_trajectories([0.0, 1.0, 2.0], times=np.array([0, 2, 3], dtype=np.uint8)).h, [2.0, 1.0])
    with pytest.raises(InputError, match=r"times must be increasing: times\[0\] = 3"):
        Transitions.from_trajectories([0.0, 1.0], times=np.array([3, 2], dtype=np.uint8))


def test_a_gap_is_never_bridged():
    path = np.array([[0.0, 0.0], [1.0, 1.0], [np.nan, 2.0], [3.0, 3.0], [4.0, np.nan], [5.0, 5.0], [6.0, 6.0]])
    data = Transitions.from_trajectories(path, dt=1.0)
    equal(data.inputs, [[0.0, 0.0], [5.0, 5.0]])
    equal(data.increments, [[1.0, 1.0], [1.0, 1.0]])


def test_gaps_at_the_ends_are_harmless():
    data = Transitions.from_trajectories([np.nan, np.nan, 1.0, 3.0, np.nan], dt=1.0)
    equal(data.inputs, [[1.0]])
    equal(data.increments, [[2.0]])


def test_moves_that_took_too_long_are_left_out():
    data = Transitions.from_trajectories([0.0, 1.0, 2.0, 3.0], times=[0.0, 1.0, 3.0, 4.0], max_h=1.0)
    equal(data.inputs.ravel(), [0.0, 2.0])
    equal(data.h, [1.0, 1.0])


def test_limits_of_h_allow_for_rounding():
    times = 0.1 * np.arange(30)  # whose differences are not all 0.1
    assert len(np.unique(np.diff(times))) > 1
    assert len(Transitions.from_trajectories(np.arange(30.0), times=times, min_h=0.1, max_h=0.1)) == 29
    with pytest.raises(InputError, match="min_h must be at most max_h, got 2 and 1"):
        Transitions.from_trajectories(np.arange(30.0), times=times, min_h=2.0, max_h=1.0)


def test_an_array_with_far_more_columns_than_rows_may_hold_tracks_as_rows():
    tracks = np.arange(300.0).reshape(3, 100)
    with pytest.warns(DataWarning, match=r"\(3, 100\) is read as one trajectory of 100 variables at 3 times") as caught:
        data = Transitions.from_trajectories(tracks, dt=1.0)
    assert caught[0].filename == __file__
    assert (len(data), data.n_inputs) == (2, 100)
    for meant in (list(tracks), tracks[:, :, None]):  # as the warning says
        assert len(Transitions.from_trajectories(meant, dt=1.0)) == 297
    assert Transitions.from_trajectories(tracks.T, dt=1.0).n_inputs == 3
    for few in (np.ones((3, 10)), np.ones((20, 20)), np.ones((2, 3, 100))):
        Transitions.from_trajectories(few, dt=1.0)  # which may well be what they seem


def test_several_missing_observations_do_not_change_the_label_of_the_trajectory():
    data = Transitions.from_trajectories([[0.0, np.nan, np.nan], [0.0, 1.0, np.nan], [5.0, 6.0, 7.0]], dt=1.0)
    equal(data.groups, [1, 2, 2])


# from_underdamped and the general constructor


def test_underdamped_inputs_are_the_new_position_and_the_old_velocity():
    x0, v0, x1, v1 = np.random.default_rng(0).normal(size=(4, 6, 2))
    data = Transitions.from_underdamped(x0, v0, x1, v1, h=0.1, groups=[0, 0, 1, 1, 2, 2])
    equal(data.inputs, np.hstack([x1, v0]))
    equal(data.increments, v1 - v0)
    equal(data.groups, [0, 0, 1, 1, 2, 2])
    assert data.kind == "underdamped"
    assert (data.n_inputs, data.n_outputs) == (4, 2)


def test_underdamped_systems_of_one_variable():
    data = Transitions.from_underdamped([0, 1], [2, 3], [4, 5], [6, 8], 1)
    equal(data.inputs, [[4.0, 2.0], [5.0, 3.0]])
    equal(data.increments, [[4.0], [5.0]])


@pytest.mark.parametrize(
    ("m", "d", "given", "kind"),
    [
        (2, 2, None, "diffusion"),
        (1, 2, None, "general"),
        (2, 1, None, "general"),
        (2, 1, "underdamped", "underdamped"),
        (2, 2, "general", "general"),
    ],
)
def test_the_kind_follows_from_the_shapes_unless_it_is_given(m, d, given, kind):
    data = Transitions(np.zeros((5, m)), np.ones((5, d)), 0.1, kind=given)
    assert data.kind == kind
    assert data[:3].kind == kind


def test_the_general_form_is_behind_the_others():
    x0, x1 = np.random.default_rng(0).normal(size=(2, 8, 3))
    for a, b in zip(
        parts(Transitions(x0, x1 - x0, 0.1, np.arange(8))),
        parts(Transitions.from_pairs(x0, x1, 0.1, np.arange(8))),
        strict=True,
    ):
        equal(a, b)


def test_transitions_cannot_be_reassigned():
    data = pairs()
    with pytest.raises(AttributeError):
        data.h = np.ones(40)


# Groups


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, 3, 7, 7]),
        [3, 3, 7, 7],
        ["a", "a", "b", "b"],
        np.array(["a", "a", "long name", "long name"], dtype=object),
        np.array([b"a", b"a", b"b", b"b"]),
        [False, False, True, True],
    ],
)
def test_groups_are_whole_numbers_or_strings(labels):
    data = Transitions.from_pairs(np.zeros(4), np.ones(4), 0.1, groups=labels)
    assert list(data.groups) == list(labels)
    rest, held_out = data.split(0.5, by="groups", rng=0)
    assert sorted([len(set(rest.groups)), len(set(held_out.groups))]) == [1, 1]


# Indexing


@pytest.mark.parametrize(
    "rows", [slice(3, 9), slice(None, None, -2), np.array([5, 1, 1]), np.array([-1]), np.arange(40) % 3 == 0]
)
def test_a_selection_takes_the_same_rows_of_everything(rows):
    data = pairs(groups=np.arange(40))
    for got, whole in zip(parts(data[rows]), parts(data), strict=True):
        equal(got, whole[rows])


def test_a_selection_without_groups_has_none():
    assert pairs()[:5].groups is None


# Split


def row_numbers(data):
    return data.inputs[:, 0].astype(int)


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=2, max_size=60),
    st.floats(0.01, 0.99),
    st.sampled_from(["rows", "groups"]),
    st.integers(0, 100),
)
def test_a_split_is_disjoint_complete_and_keeps_rows_together(labels, share, by, seed):
    n = len(labels)
    units = len(set(labels)) if by == "groups" else n
    data = Transitions(np.arange(n), np.arange(n) + 0.5, np.arange(1, n + 1), labels)
    if units < 2:
        with pytest.raises(InputError, match="cannot split 1 group: at least two"):
            data.split(share, by=by, rng=seed)
        return
    rest, held_out = data.split(share, by=by, rng=seed)
    equal(np.sort(np.concatenate([row_numbers(rest), row_numbers(held_out)])), np.arange(n))
    for part in (rest, held_out):
        rows = row_numbers(part)
        for got, whole in zip(parts(part), parts(data), strict=True):
            equal(got, whole[rows])
    if by == "groups":
        assert not set(rest.groups) & set(held_out.groups)
    n_out = len(set(held_out.groups)) if by == "groups" else len(held_out)
    assert 1 <= n_out <= units - 1
    assert abs(n_out - share * units) <= 1


def test_sizes_of_a_split():
    data = pairs(n=1000, groups=np.repeat(np.arange(10), 100))
    assert [len(part) for part in data.split(0.1, rng=0)] == [900, 100]
    assert [len(part) for part in data.split(0.3, by="groups", rng=0)] == [700, 300]


def test_a_split_depends_on_the_seed_alone():
    data = pairs(n=200)
    a, b, c = (data.split(0.3, rng=rng)[1].inputs for rng in (5, np.random.default_rng(5), 6))
    equal(a, b)
    assert not np.array_equal(a, c)


def test_every_row_can_be_held_out():
    data = Transitions(np.arange(10), np.arange(10), 1.0)
    # each row is missed by all 200 splits with probability 0.9^200 < 1e-9
    seen = set(np.concatenate([row_numbers(data.split(0.1, rng=seed)[1]) for seed in range(200)]))
    assert seen == set(range(10))


def test_a_split_keeps_the_kind():
    x0, v0, x1, v1 = np.random.default_rng(0).normal(size=(4, 10, 1))
    assert [p.kind for p in Transitions.from_underdamped(x0, v0, x1, v1, 1.0).split(0.5, rng=0)] == ["underdamped"] * 2


# repr


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            lambda: Transitions.from_pairs(np.zeros((100, 2)), np.ones((100, 2)), 0.1),
            "Transitions(100 transitions, 2 inputs, 2 outputs, h = 0.1, kind = diffusion)",
        ),
        (
            lambda: Transitions.from_trajectories([[0.0, 1.0], [3.0, 4.0]], times=[[0.0, 0.25], [0.0, 1.5]]),
            "Transitions(2 transitions, 1 input, 1 output, h = 0.25 to 1.5, 2 groups, kind = diffusion)",
        ),
        (
            lambda: Transitions([0.0], [[1.0, 2.0]], 5e-7, ["a"]),
            "Transitions(1 transition, 1 input, 2 outputs, h = 5e-07, 1 group, kind = general)",
        ),
    ],
)
def test_the_representation_says_what_the_data_are(data, text):
    assert repr(data()) == text


# pandas


def test_pandas_columns_are_accepted():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(
        {"x": [0, 1, 2], "y": [0.0, 2.0, 4.0], "h": [0.1, 0.2, 0.3], "track": ["a", "a", "b"]}, index=[7, 5, 3]
    )
    shifted = table[["x", "y"]] + 1
    data = Transitions.from_pairs(table[["x", "y"]], shifted, table["h"], groups=table["track"])
    equal(data.inputs, [[0, 0], [1, 2], [2, 4]])
    equal(data.increments, np.ones((3, 2)))
    equal(data.h, [0.1, 0.2, 0.3])
    assert list(data.groups) == ["a", "a", "b"]
    assert data.groups.dtype.kind == "U"
    one = Transitions.from_pairs(table["x"], shifted["x"], 0.1, groups=table["track"].astype("category"))
    assert one.inputs.shape == (3, 1)
    assert list(one.groups) == ["a", "a", "b"]


def test_pandas_trajectories_are_accepted():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"x": [0.0, 1.0, np.nan, 3.0, 5.0], "t": [0.0, 0.5, 1.0, 2.0, 4.0]}, index=range(10, 15))
    series = Transitions.from_trajectories(table["x"], times=table["t"])
    frame = Transitions.from_trajectories(table[["x"]], times=table["t"])
    listed = Transitions.from_trajectories([table[["x"]]], times=[table["t"]])
    indexed = Transitions.from_trajectories(table.set_index("t")["x"], times=table.set_index("t").index)
    for data in (series, frame, listed, indexed):
        equal(data.inputs, [[0.0], [3.0]])
        equal(data.h, [0.5, 2.0])


def test_pandas_groups_of_trajectories_are_accepted():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"id": ["b", "a", "b", "a", "a"], "x": [0, 10, 1, 12, 13], "y": [0, 0, 1, 1, 3]})
    data = Transitions.from_trajectories([track[["x", "y"]] for _, track in table.groupby("id")], dt=0.1)
    equal(data.inputs, [[10, 0], [12, 1], [0, 0]])
    equal(data.groups, [0, 0, 1])


def test_pandas_gaps_of_nullable_columns_are_gaps():
    pd = pytest.importorskip("pandas")
    path = pd.Series([0.0, 1.0, None, 3.0, 5.0], dtype="Float64")
    equal(Transitions.from_trajectories(path, dt=1.0).inputs, [[0.0], [3.0]])


# Blocks


def test_what_only_transitions_in_memory_have():
    data = Transitions.from_blocks([pairs()])
    for name in ("groups", "inputs", "increments", "h", "rates"):
        with pytest.raises(InputError, match=f"read block by block have no {name} of all"):
            getattr(data, name)
        assert not hasattr(data, name)
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        data.colour  # noqa: B018


def test_blocks_cannot_be_split_by_groups():
    data = Transitions.from_blocks([pairs(groups=np.arange(40) // 4)])
    with pytest.raises(InputError, match="by='groups' needs transitions in memory"):
        data.split(by="groups")
    with pytest.raises(InputError, match="by must be one of"):
        data.split(by="time")
    assert [len(part) for part in data.split(0.25, by="rows", rng=0)] == [30, 10]


@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_whole_numbers_as_times_lose_no_digits(kind):
    ticks = 1_700_000_000_000_000_000 + 100 * np.arange(5)  # nanoseconds of today, of which a float holds every 256th
    data = Transitions.from_trajectories(np.arange(5.0) ** 2, times=ticks.astype(kind))
    assert data.h.tolist() == [100.0] * 4
    with pytest.raises(InputError, match=r"times\[0\] = 1700000000000000400 is followed by 1700000000000000300"):
        Transitions.from_trajectories(np.arange(5.0), times=ticks[::-1].astype(kind))
