import datetime
import warnings
from itertools import permutations

import numpy as np
import pytest

from itofit import ARFF, FourierSeries, InputError, Transitions, fit
from itofit.matrices.symmetric import floor_limits, positive_definite, reference_factor, square_root
from itofit.model.likelihood import gaussian_nll

pytestmark = [
    pytest.mark.filterwarnings("ignore::itofit.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::itofit.DataWarning"),
]

QUICK = ARFF(n_features=8, delta=0.5, min_iterations=2, max_iterations=6)
RNG = np.random.default_rng(0)
X0 = RNG.normal(size=(60, 2))
X1 = X0 + 0.1 * RNG.normal(size=(60, 2))
STEPS = RNG.normal(size=60)


def changed(array, index, value):
    copy = np.array(array, dtype=float)
    copy[index] = value
    return copy


def quick_fit(data, **kwargs):
    return fit(data, **{"drift": QUICK, "covariance": QUICK, "rng": 0, **kwargs})


def trainings(sde):
    return sde.drift_function.training, sde.covariance_function.training


def good():
    return Transitions.from_pairs(X0, X1, 0.1)


@pytest.fixture(scope="module")
def sde():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return quick_fit(good())


@pytest.fixture(scope="module")
def underdamped():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return quick_fit(Transitions.from_underdamped(X0[:, :1], X0[:, 1:], X1[:, :1], X1[:, 1:], 0.1))


def assert_refused(call, message, *args):
    with pytest.raises(InputError, match=message):
        call(*args)


from_pairs = Transitions.from_pairs
from_trajectories = Transitions.from_trajectories
from_underdamped = Transitions.from_underdamped

NUMBERS_ONLY = {
    "NaN in x0": (lambda: from_pairs(changed(X0, (7, 1), np.nan), X1, 0.1), r"x0 must be finite: 1 of 120 .*\(7, 1\)"),
    "infinite x1": (lambda: from_pairs(X0, changed(X1, (3, 0), np.inf), 0.1), r"x1 must be finite.*\(3, 0\)"),
    "several NaN": (lambda: from_pairs(X0, changed(X1, slice(2, 4), np.nan), 0.1), r"x1 must be finite: 4 of 120"),
    "NaN in inputs": (lambda: Transitions(changed(X0, 0, np.nan), X1, 0.1), "inputs must be finite"),
    "NaN in increments": (lambda: Transitions(X0, changed(X1, 0, np.nan), 0.1), "increments must be finite"),
    "NaN in h": (lambda: from_pairs(X0, X1, changed(np.ones(60), 5, np.nan)), "h must be finite: 1 of 60 .* index 5"),
    "infinite h": (lambda: from_pairs(X0, X1, np.inf), "h must be finite"),
    "NaN velocity": (lambda: from_underdamped(X0, changed(X0, 1, np.nan), X1, X1, 0.1), "v0 must be finite"),
    "NaN start": (lambda: from_underdamped(changed(X0, 1, np.nan), X0, X1, X1, 0.1), "x0 must be finite"),
    "infinite path": (
        lambda: from_trajectories([0.0, np.inf, 1.0], dt=1),
        r"paths must be finite or NaN: 1 of 3 .* index 1",
    ),
    "infinity in a list": (lambda: from_trajectories([X0, -np.inf * X1], dt=1), r"paths\[1\] must be finite or NaN"),
    "NaN time": (lambda: from_trajectories([0.0, 1.0, 2.0], times=[0.0, np.nan, 1.0]), "times must be finite"),
    "complex x0": (lambda: from_pairs(X0 + 0j, X1, 0.1), "x0 must be real, got complex numbers"),
    "complex path": (lambda: from_trajectories(X0 + 0j, dt=1), "paths must be real, got complex"),
    "complex h": (lambda: from_pairs(X0, X1, 1j), "h must be real"),
    "complex time": (lambda: from_trajectories([0.0, 1.0], times=[0, 1j]), "times must be real"),
    "objects": (
        lambda: from_pairs(X0.astype(object), X1, 0.1),
        "x0 must be an array of real numbers, got dtype object",
    ),
    "missing values": (lambda: from_pairs([1.0, None, 2.0], [1.0, 2.0, 3.0], 0.1), "x0 must be .* got dtype object"),
    "strings": (lambda: from_pairs(X0.astype(str), X1, 0.1), "x0 must be an array of real numbers, got dtype <U"),
    "booleans": (lambda: from_pairs(X0 > 0, X1, 0.1), "x0 must be an array of real numbers, got dtype bool"),
    "nothing": (lambda: from_pairs(None, X1, 0.1), "x0 must be"),
    "dates as states": (lambda: from_pairs(np.zeros(3, "M8[s]"), np.zeros(3), 1), "x0 must be .* got dtype datetime64"),
    "records": (lambda: from_pairs(np.zeros(3, "f8,f8"), np.zeros(3), 1), "x0 must be an array of real numbers"),
    "a dictionary": (lambda: from_trajectories({"a": X0}, dt=1), "paths must be .* got dtype object"),
    "masked x0": (lambda: from_pairs(np.ma.array(X0), X1, 0.1), "x0 is a masked array, whose mask would be lost"),
    "masked path": (lambda: from_trajectories(np.ma.array(X0), dt=1), r"paths is a masked array.*filled\(np.nan\)"),
    "masked path in a list": (lambda: from_trajectories([X0, np.ma.array(X0)], dt=1), r"paths\[1\] is a masked array"),
    "masked h": (lambda: from_pairs(X0, X1, np.ma.ones(60)), "h is a masked array"),
    "masked times": (lambda: from_trajectories(X0, times=np.ma.arange(60)), "times is a masked array"),
    "masked groups": (lambda: from_pairs(X0, X1, 0.1, np.ma.arange(60)), "groups is a masked array"),
}

SHAPES = {
    "x1 shorter": (
        lambda: from_pairs(X0, X1[:-1], 0.1),
        r"x1 must have the shape of x0: expected \(60, 2\), got \(59, 2\)",
    ),
    "x1 narrower": (lambda: from_pairs(X0, X1[:, :1], 0.1), r"x1 .* expected \(60, 2\), got \(60, 1\)"),
    "x1 as vector": (lambda: from_pairs(X0, X1[:, 0], 0.1), r"x1 .* expected \(60, 2\), got \(60,"),
    "x1 transposed": (lambda: from_pairs(X0, X1.T, 0.1), r"x1 .* expected \(60, 2\), got \(2, 60\)"),
    "one number": (
        lambda: from_pairs(1.0, 2.0, 0.1),
        r"x0 must have shape \(n, d\), or \(n,\) for one variable, got \(\)",
    ),
    "three axes": (lambda: from_pairs(X0[None], X1[None], 0.1), r"x0 must have shape \(n, d\).* got \(1, 60, 2\)"),
    "no columns": (lambda: from_pairs(X0[:, :0], X1[:, :0], 0.1), "x0 must have at least one column"),
    "no rows": (lambda: from_pairs(X0[:0], X1[:0], 0.1), "there are no transitions"),
    "ragged x0": (lambda: from_pairs([[1.0, 2.0], [3.0]], X1[:2], 0.1), "x0 must be a rectangular array"),
    "rows of increments": (
        lambda: Transitions(X0, X1[:50], 0.1),
        "increments must have as many rows as inputs.* 60, got 50",
    ),
    "v1 shape": (lambda: from_underdamped(X0, X0, X1, X1[:, 0], 0.1), r"v1 must have the shape of x0: .* \(60, 2\)"),
    "v0 shape": (lambda: from_underdamped(X0, X0[:9], X1, X1, 0.1), r"v0 must have the shape of x0"),
    "too few h": (lambda: from_pairs(X0, X1, np.ones(59)), r"h must be a number or have shape \(60,\), got \(59,\)"),
    "h for each value": (lambda: from_pairs(X0, X1, np.ones((60, 2))), r"h must be .* shape \(60,\), got \(60, 2\)"),
    "too few groups": (lambda: from_pairs(X0, X1, 0.1, range(59)), "groups must have as many rows .* 60, got 59"),
    "2-D groups": (
        lambda: from_pairs(X0, X1, 0.1, np.zeros((60, 1), int)),
        r"groups must be one .* got shape \(60, 1\)",
    ),
    "one group": (lambda: from_pairs(X0, X1, 0.1, 3), r"groups must be one .* got shape \(\)"),
    "fractional groups": (
        lambda: from_pairs(X0, X1, 0.1, np.ones(60)),
        "groups must be one whole number or string.*float64",
    ),
    "groups of None": (
        lambda: from_pairs(X0, X1, 0.1, [None] * 60),
        "groups must be one whole number or string.*object",
    ),
    "ragged groups": (lambda: from_pairs(X0[:2], X1[:2], 0.1, [[1, 2], [3]]), "groups must be"),
    "kind": (lambda: Transitions(X0, X1, 0.1, kind="langevin"), "kind must be one of 'diffusion', .* got 'langevin'"),
    "kind diffusion": (
        lambda: Transitions(X0, X1[:, 0], 0.1, kind="diffusion"),
        "as many inputs as increments, got 2 and 1",
    ),
    "kind underdamped": (lambda: Transitions(X0, X1, 0.1, kind="underdamped"), "expected 4 inputs, got 2"),
    "an index": (lambda: good()[3], "a slice, a mask or an array of indices, got 3"),
    "an index in an array": (lambda: good()[np.array(3)], "a slice, a mask or an array of indices"),
    "an empty selection": (lambda: good()[60:], "there are no transitions"),
}

TIMES = {
    "h zero": (lambda: from_pairs(X0, X1, 0), "h must be > 0"),
    "h negative": (
        lambda: from_pairs(X0, X1, changed(np.ones(60), 3, -0.5)),
        "h must be > 0: 1 of 60 .* smallest is -0.5",
    ),
    "h of the general form": (lambda: Transitions(X0, X1, -1.0), "h must be > 0"),
    "h of underdamped": (lambda: from_underdamped(X0, X0, X1, X1, 0.0), "h must be > 0"),
    "h a word": (lambda: from_pairs(X0, X1, "0.1"), "h must be an array of real numbers"),
    "h missing": (lambda: from_pairs(X0, X1, None), "h must be"),
    "dt zero": (lambda: from_trajectories(X0, dt=0.0), "dt must be a number > 0, got 0.0"),
    "dt negative": (lambda: from_trajectories(X0, dt=-0.1), "dt must be a number > 0, got -0.1"),
    "dt NaN": (lambda: from_trajectories(X0, dt=np.nan), "dt must be a number > 0, got nan"),
    "dt a word": (lambda: from_trajectories(X0, dt="1"), "dt must be a number > 0, got '1'"),
    "dt an array": (lambda: from_trajectories(X0, dt=np.ones(59)), "dt must be a number > 0"),
    "dt and times": (lambda: from_trajectories(X0, dt=1.0, times=range(60)), "either dt.*or times, .*not both"),
    "neither": (
        lambda: from_trajectories(X0),
        "either dt, the time between observations, or times, .*neither was given",
    ),
    "max_h": (lambda: from_trajectories(X0, dt=1.0, max_h=0), "max_h must be a number > 0"),
    "max_h too small": (
        lambda: from_trajectories(X0, dt=1.0, max_h=0.5),
        "no transition.*none between min_h and max_h",
    ),
    "equal times": (
        lambda: from_trajectories([0.0, 1.0, 2.0], times=[0.0, 1.0, 1.0]),
        r"times must be increasing: times\[1\] = 1 is followed by 1",
    ),
    "times backward": (
        lambda: from_trajectories([X0[:3], X0[:2]], times=[[0, 1, 2], [5, 4]]),
        r"times\[1\] must be increasing: times\[1\]\[0\] = 5 is followed by 4",
    ),
    "too few times": (lambda: from_trajectories(X0, times=range(59)), r"times must .* expected \(60,\), got \(59,\)"),
    "times of a transposed path": (lambda: from_trajectories(X0.T, times=range(60)), r"expected \(2,\), got \(60,\)"),
    "times for other lengths": (
        lambda: from_trajectories([X0, X0[:9]], times=range(60)),
        r"expected \(9,\), got \(60,\)",
    ),
    "lists of times": (
        lambda: from_trajectories([X0, X0], times=[range(60)]),
        "one array for each trajectory: expected 2, got 1",
    ),
    "ragged times": (lambda: from_trajectories(X0[:3], times=[0, [1, 2], 3]), "times must be"),
    "dates": (
        lambda: from_trajectories(X0[:3], times=np.arange("2020-01", "2020-04", dtype="M8[M]")),
        r"times must be numbers, got dates; take .*timedelta64",
    ),
    "durations": (
        lambda: from_trajectories(X0[:3], times=np.arange(3).astype("m8[s]")),
        r"got durations; take np.asarray\(times, dtype='timedelta64'\) / np.timedelta64\(1, 's'\)",
    ),
    "dates in a list": (
        lambda: from_trajectories(X0[:2], times=[datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 2)]),
        "times must be numbers, got dates",
    ),
    "one observation": (
        lambda: from_trajectories([[1.0]], dt=1.0),
        r"no transition: .* fewer than two .*\(lengths 1\)",
    ),
    "one observation of two variables": (lambda: from_trajectories(X0[:1], dt=1.0), r"no transition.*\(lengths 1\)"),
    "only gaps": (lambda: from_trajectories([0.0, np.nan, 1.0, np.nan], dt=1.0), "no transition"),
    "no trajectory": (lambda: from_trajectories([], dt=1.0), "no tra"),
    "no trajectory in an array": (lambda: from_trajectories(np.zeros((0, 5, 2)), dt=1.0), "paths holds no trajectory"),
    "four axes": (lambda: from_trajectories(np.zeros((2, 3, 4, 5)), dt=1.0), r"paths must have shape"),
    "widths": (lambda: from_trajectories([X0, X0[:, 0]], dt=1.0), r"same number of columns, got \[1, 2\]"),
    "ragged paths": (
        lambda: from_trajectories([[[1.0, 2.0], [3.0]], [[1.0, 2.0]]], dt=1.0),
        r"paths\[0\] must be a rectangular",
    ),
    "a later ragged path": (
        lambda: from_trajectories([[1.0, 2.0], [[3.0], 4.0]], dt=1.0),
        r"paths\[1\] must be a rectangular",
    ),
    "array of arrays": (
        lambda: from_trajectories(np.array([np.zeros(3), np.zeros(4)], dtype=object), dt=1.0),
        "paths must be .*list",
    ),
}

SPLITS = {
    "nothing held out": (lambda: good().split(0.0), "held_out must be a number > 0, got 0.0"),
    "all held out": (lambda: good().split(1.0), "held_out must lie strictly between 0 and 1, got 1.0"),
    "a number of rows": (lambda: good().split(10), "held_out must lie strictly between 0 and 1, got 10"),
    "a word": (lambda: good().split("0.1"), "held_out must be"),
    "by something": (lambda: good().split(by="time"), "by must be one of 'rows', 'groups', got 'time'"),
    "no groups": (lambda: good().split(by="groups"), "needs transitions with groups; this data has none"),
    "one group": (lambda: from_pairs(X0, X1, 0.1, np.ones(60, int)).split(by="groups"), "cannot split 1 group"),
    "one row": (lambda: good()[:1].split(0.5), "cannot split 1 row"),
    "rng": (lambda: good().split(rng=-1), "rng must be a whole number >= 0"),
}


@pytest.mark.parametrize(("call", "message"), NUMBERS_ONLY.values(), ids=NUMBERS_ONLY)
def test_data_must_be_finite_real_numbers(call, message):
    assert_refused(call, message)


@pytest.mark.parametrize(("call", "message"), SHAPES.values(), ids=SHAPES)
def test_shapes_must_match(call, message):
    assert_refused(call, message)


@pytest.mark.parametrize(("call", "message"), TIMES.values(), ids=TIMES)
def test_times_and_trajectories_must_make_sense(call, message):
    assert_refused(call, message)


@pytest.mark.parametrize(("call", "message"), SPLITS.values(), ids=SPLITS)
def test_splits_must_be_possible(call, message):
    assert_refused(call, message)


def test_a_message_about_one_number_does_not_speak_of_rows():
    with pytest.raises(InputError, match="h must be finite") as caught:
        from_pairs(X0, X1, np.nan)
    assert "index ()" not in str(caught.value)


def test_the_message_gives_the_shape_that_was_handed_in():
    with pytest.raises(InputError) as caught:
        from_pairs(X0, X1[:, 0], 0.1)
    assert str(caught.value).startswith("x1 must have the shape of x0: expected (60, 2), got (60,)")


# fit

FITS = {
    "too few": (
        lambda **how: quick_fit(good()[:19], **how),
        "at least 20 transitions are needed to learn from, got 19",
    ),
    "transposed": (
        lambda **how: quick_fit(from_pairs(X0.T, X1.T, 0.1), **how),
        "at least 61 transitions .* got 2 of 60 inputs; are the arrays transposed",
    ),
    "constant input": (
        lambda **how: quick_fit(Transitions(changed(X0, (slice(None), 1), 3.5), X1, 0.1), **how),
        r"inputs column 1 is constant \(3.5\).*remove the column",
    ),
    "duplicated input": (
        lambda **how: quick_fit(Transitions(X0[:, [0, 1, 0]], X1, 0.1, input_names=["a", "b", "c"]), **how),
        r"inputs column 2 \(c\) is a copy of inputs column 0 \(a\) in every row.*remove one of these columns",
    ),
    "input in another unit": (
        lambda **how: quick_fit(from_pairs(X0[:, [1, 1]] * [1, 1.8] + [0, 32], X1, 0.1), **how),
        "inputs column 1 is a linear function of inputs column 0 in every row",
    ),
    "collinear inputs": (
        lambda **how: quick_fit(Transitions(np.c_[X0, 1 - X0.sum(axis=1)], X1, 0.1), **how),
        "inputs column 2 is a linear combination of inputs column 0 and inputs column 1 in every row",
    ),
    "nothing moves": (
        lambda **how: quick_fit(from_pairs(X0, X0, 0.1), **how),
        "all increments are zero: nothing moves",
    ),
    "one variable does not move": (
        lambda **how: quick_fit(from_pairs(X0, np.stack([X1[:, 0], X0[:, 1]], axis=1), 0.1), **how),
        r"increments column 1 moves at a constant rate \(0\)",
    ),
    "constant rate": (
        lambda **how: quick_fit(Transitions(X0, np.stack([STEPS, np.full(60, 0.5)], axis=1), 0.25), **how),
        r"increments column 1 moves at a constant rate \(2\)",
    ),
    "too large to square": (
        lambda **how: quick_fit(Transitions(STEPS, 1e150 * STEPS, 0.1), **how),
        "increments column 0 .* change its unit",
    ),
    "too small to square": (
        lambda **how: quick_fit(Transitions(STEPS, 1e-150 * STEPS, 0.1), **how),
        "increments column 0 .* change its unit",
    ),
    "h too small": (lambda **how: quick_fit(Transitions(STEPS, STEPS, 1e-300), **how), "h must lie between"),
    "an array": (lambda **how: fit(X0, **how), "fit needs Transitions, got ndarray; see itofit.Transitions"),
    "a tuple": (lambda **how: fit((X0, X1, 0.1), **how), "fit needs Transitions, got tuple"),
    "nothing": (lambda **how: fit(None, **how), "fit needs Transitions, got NoneType"),
    "unknown structure": (
        lambda **how: fit(good(), structure="scalar", **how),
        "structure must be one of 'auto', 'diagonal', 'full', got 'scalar'",
    ),
    "structure None": (lambda **how: fit(good(), structure=None, **how), "structure must be one of"),
    "floor zero": (lambda **how: fit(good(), floor=0, **how), "floor must be a number > 0, got 0"),
    "floor one": (lambda **how: fit(good(), floor=1.0, **how), "floor must lie strictly between 0 and 1, got 1.0"),
    "floor negative": (lambda **how: fit(good(), floor=-1e-3, **how), "floor must be a number > 0"),
    "floor NaN": (lambda **how: fit(good(), floor=np.nan, **how), "floor must be a number > 0, got nan"),
    "floor a word": (lambda **how: fit(good(), floor="small", **how), "floor must be a number > 0, got 'small'"),
    "weight_drift": (lambda **how: fit(good(), weight_drift=1, **how), "weight_drift must be True or False, got 1"),
    "cross_fit": (lambda **how: fit(good(), cross_fit="yes", **how), "cross_fit must be True or False, got 'yes'"),
    "link": (
        lambda **how: fit(good(), link="exp", **how),
        "link must be one of 'auto', 'identity', 'square', 'log', got 'exp'",
    ),
    "drift a dictionary": (
        lambda **how: fit(good(), drift={"n_features": 8}, **how),
        "drift must be an itofit.ARFF or None, got dict",
    ),
    "covariance a number": (
        lambda **how: fit(good(), covariance=8, **how),
        "covariance must be an itofit.ARFF or None, got int",
    ),
    "covariance a class": (
        lambda **how: fit(good(), covariance=ARFF, **how),
        "covariance must be an itofit.ARFF or None",
    ),
}


ALGORITHMS = pytest.mark.parametrize("refine", [True, False], ids=["automatic", "algorithm 2"])


@ALGORITHMS
@pytest.mark.parametrize(("call", "message"), FITS.values(), ids=FITS)
def test_fit_refuses_what_it_cannot_learn_from(call, message, refine):
    assert_refused(lambda: call(refine=refine), message)


@pytest.mark.parametrize("refine", [None, 1, "auto"])
def test_refine_is_true_or_false(refine):
    assert_refused(lambda: fit(good(), refine=refine), f"refine must be True or False, got {refine!r}")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"link": "log"}, "refine=False learns the entries of Σ themselves: link must be 'identity', got 'log'"),
        ({"cross_fit": True}, "cross_fit=True needs refine=True"),
    ],
)
def test_algorithm_2_refuses_what_it_does_not_have(how, message):
    assert_refused(lambda: quick_fit(good(), refine=False, **how), message)


@pytest.mark.parametrize("rng", [True, "0", 0.0, 1.5, -1, [1, 2], np.random.RandomState(0), np.random], ids=type)
def test_rng_is_a_whole_number_a_generator_or_none(rng, sde):
    for call in (
        lambda: fit(good(), rng=rng),
        lambda: sde.simulate(X0, 0.1, 2, rng=rng),
        lambda: good().split(rng=rng),
    ):
        assert_refused(call, "rng must be a whole number >= 0, a numpy.random.Generator or None, got")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("n_features", 0, "n_features must be a whole number >= 1, got 0"),
        ("n_features", 8.0, "n_features must be a whole number >= 1, got 8.0"),
        ("ridge", -1e-3, "ridge must be a number >= 0, got -0.001"),
        ("ridge", np.inf, "ridge must be a number >= 0, got inf"),
        ("delta", "auto", "delta must be a number >= 0, got 'auto'"),
        ("gamma", np.nan, "gamma must be a number >= 0, got nan"),
        ("resample", "no", "resample must be True or False, got 'no'"),
        ("pairing", "swap", "pairing must be one of 'printed', 'reindex', 'solve', got 'swap'"),
        ("min_iterations", -1, "min_iterations must be a whole number >= 0"),
        ("max_iterations", 1e3, "max_iterations must be a whole number >= 0, got 1000.0"),
        ("validation_fraction", 1, "validation_fraction must lie strictly between 0 and 1, got 1"),
        ("validation_fraction", None, "validation_fraction must be a number > 0, got None"),
        ("search_rows", 5, "search_rows must be a whole number >= 20, got 5"),
    ],
)
def test_fields_of_arff_out_of_range(field, value, message):
    assert_refused(lambda: ARFF(**{field: value}), message)


# The learned model

POINTS = {
    "three columns": (X0[:, [0, 1, 1]], r"x must have shape \(n, 2\), got \(60, 3\)"),
    "one point": (X0[0], r"x must have shape \(n, 2\), got \(2,\); one point is x\[None, :\]"),
    "transposed": (X0.T, r"x must have shape \(n, 2\), got \(2, 60\); is it x.T that you mean"),
    "a vector": (X0[:, 0], r"x must have shape \(n, 2\), got \(60,\)"),
    "a number": (0.5, r"x must have shape \(n, 2\), got \(\)"),
    "NaN": (changed(X0, (4, 1), np.nan), r"x must be finite.*\(4, 1\)"),
    "complex": (X0 * 1j, "x must be real"),
    "masked": (np.ma.array(X0), "x is a masked array"),
    "ragged": ([[0.0, 1.0], [1.0]], "x must be a rectangular array"),
}


@pytest.mark.parametrize("method", ["drift", "covariance", "diffusion", "drift_jacobian", "floored"])
@pytest.mark.parametrize(("x", "message"), POINTS.values(), ids=POINTS)
def test_points_must_fit_the_model(sde, method, x, message):
    assert_refused(getattr(sde, method), message, x)


@pytest.mark.parametrize("method", ["__call__", "jacobian", "hessian"])
def test_points_must_fit_the_series(method):
    series = FourierSeries(
        omega=np.ones((3, 2)), beta=np.ones((3, 1), complex), shift=np.zeros(2), scale=np.ones(2), offset=np.zeros(1)
    )
    assert_refused(getattr(series, method), r"x must have shape \(n, 2\), got \(60,\)", X0[:, 0])


MODEL_CALLS = {
    "factor": (
        lambda sde: sde.diffusion(X0, factor="lower"),
        "factor must be one of 'cholesky', 'symmetric', got 'lower'",
    ),
    "nll of arrays": (lambda sde: sde.nll(X0), "nll needs Transitions, got ndarray"),
    "nll of other data": (
        lambda sde: sde.nll(from_pairs(X0[:, 0], X1[:, 0], 0.1)),
        "model has 2 inputs and 2 outputs, the data 1 and 1",
    ),
    "nll of other outputs": (
        lambda sde: sde.nll(Transitions(X0, X1[:, 0], 0.1)),
        "2 inputs and 2 outputs, the data 2 and 1",
    ),
    "starts of other width": (
        lambda sde: sde.simulate(X0[:, [0, 1, 1]], 0.1, 2),
        r"x0 must have shape \(n, 2\), got \(60, 3\)",
    ),
    "starts transposed": (lambda sde: sde.simulate(X0.T, 0.1, 2), r"x0 .* got \(2, 60\); is it x0.T that you mean"),
    "starts NaN": (lambda sde: sde.simulate(changed(X0, 0, np.nan), 0.1, 2), "x0 must be finite"),
    "no starts": (lambda sde: sde.simulate(X0[:0], 0.1, 2), "x0 holds no starting point"),
    "dt": (lambda sde: sde.simulate(X0, 0.0, 2), "dt must be a number > 0, got 0.0"),
    "no steps": (lambda sde: sde.simulate(X0, 0.1, 0), "n_steps must be a whole number >= 1, got 0"),
    "fractional steps": (lambda sde: sde.simulate(X0, 0.1, 10.0), "n_steps must be a whole number >= 1, got 10.0"),
    "outside": (
        lambda sde: sde.simulate(X0, 0.1, 2, outside="reflect"),
        "outside must be one of 'nearest', .* got 'reflect'",
    ),
}


@pytest.mark.parametrize(("call", "message"), MODEL_CALLS.values(), ids=MODEL_CALLS)
def test_calls_of_a_model(sde, call, message):
    assert_refused(call, message, sde)


def test_starts_of_an_underdamped_model_are_positions_and_velocities(underdamped):
    assert_refused(lambda: underdamped.simulate(X0[:, 0], 0.1, 2), r"x0 must have shape \(n, 2\), got \(60,\)")


def test_a_model_of_general_transitions_is_not_simulated():
    model = quick_fit(Transitions(X0, X1[:, 0], 0.1))
    assert_refused(lambda: model.simulate([0.0], 0.1, 2), "kind 'general'.*from_pairs")


@ALGORITHMS
def test_bad_arguments_are_found_before_any_work(monkeypatch, refine):
    def work(*args, **kwargs):
        raise AssertionError("training began")

    for name in ("fit.learn", "fit.Automatic", "paper.algorithm_2.Paper"):
        monkeypatch.setattr(f"itofit.learning.{name}", work)
    for call, message in FITS.values():
        assert_refused(lambda call=call: call(refine=refine), message)
    assert_refused(lambda: fit(good(), rng="0"), "rng must be")


# What looks bad and is not


@ALGORITHMS
def test_whole_numbers_train_as_the_same_real_numbers(refine):
    start, end = np.round(10 * X0).astype(int), np.round(10 * X1).astype(int)
    whole = quick_fit(from_pairs(start, end, 1), refine=refine)
    real = quick_fit(from_pairs(start.astype(float), end.astype(float), 1.0), refine=refine)
    np.testing.assert_array_equal(whole.drift(start), real.drift(start.astype(float)))
    np.testing.assert_array_equal(whole.covariance(start), real.covariance(start.astype(float)))


@ALGORITHMS
def test_twenty_transitions_are_enough(refine):
    sde = fit(good()[:20], rng=0, refine=refine)
    assert np.isfinite(sde.drift(X0)).all()
    np.linalg.cholesky(sde.covariance(X0))


@ALGORITHMS
def test_the_same_seed_gives_the_same_result_and_another_seed_another(refine):
    a, b, c, d = (quick_fit(good(), rng=rng, refine=refine) for rng in (4, 4, np.random.default_rng(4), 5))
    for other in (b, c):
        np.testing.assert_array_equal(a.drift(X0), other.drift(X0))
        np.testing.assert_array_equal(a.covariance(X0), other.covariance(X0))
        for got, wanted in zip(trainings(a), trainings(other), strict=True):
            assert got.judge == wanted.judge
            np.testing.assert_array_equal(got.score, wanted.score)
    assert not np.array_equal(a.drift(X0), d.drift(X0))
    assert (a.seed, c.seed) == (4, None)


@ALGORITHMS
def test_a_result_without_a_seed_can_be_repeated_from_its_seed(refine):
    first = quick_fit(good(), rng=None, refine=refine)
    again = quick_fit(good(), rng=first.seed, refine=refine)
    np.testing.assert_array_equal(again.drift(X0), first.drift(X0))
    np.testing.assert_array_equal(again.covariance(X0), first.covariance(X0))


# Units. Training divides by the data's own scale, so the unit of a column changes nothing but rounding.


def diffusion_data(n=300):
    """dx = -x³ dt + σ(x) dW with correlated noise, in units of one."""
    rng = np.random.default_rng(1)
    x0 = rng.uniform(-1, 1, size=(n, 2))
    noise = rng.normal(size=(n, 2)) @ np.array([[0.5, 0.2], [0.0, 0.4]])
    return x0, x0 - 0.1 * x0**3 + np.sqrt(0.1) * (1 + 0.3 * x0) * noise, np.full(n, 0.1)


def assert_same_in_other_units(x0, x1, h, unit, shift=0.0, *, rtol=1e-6, **kwargs):
    unit = np.asarray(unit)
    data, other = from_pairs(x0, x1, h), from_pairs(shift + x0 * unit, shift + x1 * unit, h)
    a, b = quick_fit(data, **kwargs), quick_fit(other, **kwargs)
    products = np.outer(unit, unit)
    y = other.inputs
    drift, sigma, sigma_raw = b.drift(y) / unit, b.covariance(y) / products, b.covariance(y, raw=True) / products
    for got, wanted in (
        (drift, a.drift(x0)),
        (sigma, a.covariance(x0)),
        (sigma_raw, a.covariance(x0, raw=True)),
        (b.diffusion(y) / unit[:, None], a.diffusion(x0)),
        (b.drift_jacobian(y) / unit[:, None] * unit, a.drift_jacobian(x0)),
    ):
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol * np.abs(wanted).max())
    assert b.floored_share == a.floored_share
    assert b.nll(other) - np.log(unit).sum() == pytest.approx(a.nll(data), rel=rtol, abs=rtol)
    for got, wanted in zip(trainings(b), trainings(a), strict=True):
        assert got.judge == wanted.judge
        np.testing.assert_allclose(got.score, wanted.score, rtol=rtol, atol=rtol * np.abs(wanted.score).max())


@ALGORITHMS
@pytest.mark.parametrize("structure", ["auto", "diagonal", "full"])
@pytest.mark.parametrize("unit", [(1e-12, 1e-12), (1e12, 1e12), (1e-12, 1e12), (1e12, 1e-12)], ids=str)
def test_columns_of_any_scale_train_as_well_as_columns_of_scale_one(unit, structure, refine):
    assert_same_in_other_units(*diffusion_data(), unit, structure=structure, refine=refine)


@pytest.mark.parametrize("link", ["identity", "square", "log"])
def test_columns_of_any_scale_train_with_every_link(link):
    assert_same_in_other_units(*diffusion_data(), (1e-12, 1e12), link=link)


@ALGORITHMS
def test_columns_of_three_scales_at_once(refine):
    x0, x1, h = diffusion_data()
    rng = np.random.default_rng(2)
    x0, x1 = np.column_stack([x0, rng.uniform(size=300)]), np.column_stack([x1, rng.uniform(size=300)])
    assert_same_in_other_units(x0, x1, h, (1e12, 1.0, 1e-12), refine=refine)


@ALGORITHMS
def test_a_huge_offset_of_the_inputs_costs_no_more_than_its_digits(refine):
    assert_same_in_other_units(*diffusion_data(), (1.0, 1.0), shift=1e6, rtol=1e-5, refine=refine)


@ALGORITHMS
def test_inputs_and_increments_of_different_scales(refine):
    # the steps of such data lead nowhere near the inputs, so there is nothing to correct
    x0, x1, h = diffusion_data()
    a = quick_fit(Transitions(x0, x1 - x0, h), refine=refine, correct_step=False)
    b = quick_fit(Transitions(x0 * [1e12, 1e-12], (x1 - x0) * [1e-9, 1e9], h), refine=refine, correct_step=False)
    y = x0 * [1e12, 1e-12]
    np.testing.assert_allclose(b.drift(y) / [1e-9, 1e9], a.drift(x0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(b.covariance(y) / np.outer([1e-9, 1e9], [1e-9, 1e9]), a.covariance(x0), atol=1e-6)


@ALGORITHMS
@pytest.mark.parametrize("second", [1e-12, 1e12])
def test_the_unit_of_time_changes_only_the_unit_of_the_functions(second, refine):
    x0, x1, h = diffusion_data()
    data, other = from_pairs(x0, x1, h), from_pairs(x0, x1, h * second)
    a, b = quick_fit(data, refine=refine), quick_fit(other, refine=refine)
    np.testing.assert_allclose(b.drift(x0) * second, a.drift(x0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(b.covariance(x0) * second, a.covariance(x0), rtol=1e-6, atol=1e-6)
    assert b.nll(other) == pytest.approx(a.nll(data), rel=1e-6)


ANY_UNITS = pytest.mark.parametrize("unit", list(permutations((1e-12, 1.0, 1e12))), ids=str)
ANY_CORRELATION = pytest.mark.parametrize("correlation", [0.5, 1e-3, 1e-8, 1e-14, 0.0])


def equicorrelated(correlation):
    return np.eye(3) + correlation * (1 - np.eye(3))


@ANY_UNITS
@ANY_CORRELATION
def test_the_likelihood_holds_in_any_units(unit, correlation):
    sigma, r = equicorrelated(correlation)[None], np.array([[0.3, -0.7, 0.5]])
    h, zero = np.array([0.1]), np.zeros((1, 3))
    nll = gaussian_nll(r * unit, h, zero, sigma * np.outer(unit, unit)) - np.log(unit).sum()
    np.testing.assert_allclose(nll, gaussian_nll(r, h, zero, sigma), rtol=1e-9)


@ANY_UNITS
@ANY_CORRELATION
def test_the_floor_holds_in_any_units(unit, correlation):
    products, mean = np.outer(unit, unit), equicorrelated(correlation)
    rows, cols = np.tril_indices(3)

    def floored(sigma, mean):
        return positive_definite(sigma[rows, cols][None], "full", reference_factor(mean), floor_limits(0.01, 3))

    for sigma, needed in ((changed(mean, (1, 1), -0.5), True), (mean, False)):
        raised, below = floored(sigma * products, mean * products)
        assert below[0] == needed
        np.testing.assert_allclose(raised / products, floored(sigma, mean)[0], atol=1e-9)


@ANY_UNITS
@ANY_CORRELATION
def test_the_triangular_factor_holds_in_any_units(unit, correlation):
    products, sigma = np.outer(unit, unit), equicorrelated(correlation)
    root = square_root(sigma[None] * products, "cholesky")[0]
    np.testing.assert_allclose((root @ root.T) / products, sigma, atol=1e-9)


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_the_symmetric_factor_holds_in_any_common_unit(unit):
    sigma = equicorrelated(0.5)[None]
    root = square_root(sigma * unit**2, "symmetric") / unit
    np.testing.assert_allclose(root @ root, sigma, rtol=1e-12)
    np.testing.assert_allclose(root, root.swapaxes(1, 2), rtol=1e-12)


# Unusual inputs that can be learned from


def test_an_input_of_two_values_is_learned_from():
    """Drift and noise of both conditions; errors are three to four times below those of one law for both."""
    rng = np.random.default_rng(3)
    x, treated = rng.uniform(-1, 1, 8_000), rng.random(8_000) < 0.3
    drift, sd = np.where(treated, 2 * x, -x), np.where(treated, 0.8, 0.4)
    dx = 0.01 * drift + 0.1 * sd * rng.normal(size=8_000)
    sde = fit(Transitions(np.c_[x, treated.astype(float)], dx, 0.01), rng=0)
    found, variance = sde.drift(np.c_[x, treated])[:, 0], sde.covariance(np.c_[x, treated])[:, 0, 0]
    assert np.sqrt(np.mean((found - drift) ** 2)) < 0.3
    assert np.abs(variance / sd**2 - 1).max() < 0.15


def test_a_state_of_two_values_is_learned_from():
    rng = np.random.default_rng(0)
    x = (rng.random(4_000) < 0.5).astype(float)
    sde = fit(Transitions(x, -0.1 * x + 0.1 * (1 + x) * rng.normal(size=4_000), 0.1), correct_step=False, rng=0)
    np.testing.assert_allclose(sde.drift([0.0, 1.0])[:, 0], [0, -1], atol=0.15)
    np.testing.assert_allclose(sde.covariance([0.0, 1.0])[:, 0, 0], [0.1, 0.4], rtol=0.15)
