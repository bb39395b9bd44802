"""The first pass over the data: the core of the inputs, and inputs that follow from others."""

import numpy as np
import pytest
from scipy.stats import chisquare

from itofit import Transitions
from itofit._progress import Progress
from itofit.data.dependence import dependent_input
from itofit.data.survey import core, survey


def surveyed(inputs, blocked=False):
    inputs = np.asarray(inputs, dtype=float)
    steps = np.random.default_rng(1).normal(size=(len(inputs), 1))
    data = Transitions(inputs, steps, 0.1)
    if blocked:
        data = Transitions.from_blocks([data[i : i + 100] for i in range(0, len(data), 100)])
    return data, survey(data, Progress(False))


def found(inputs, blocked=False):
    return dependent_input(*surveyed(inputs, blocked))


# The core of the inputs


@pytest.mark.parametrize("n", [20, 100, 1_000, 30_000])
@pytest.mark.parametrize("kind", ["uniform", "normal", "laplace", "exponential", "track"])
def test_the_core_of_ordinary_inputs_is_their_range(n, kind):
    """Of 20 exponential or Laplace rows one sample in thirty has an outlier, of more or others hardly any."""
    lost = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, n])
        x = rng.normal(size=(n, 1)).cumsum(axis=0) if kind == "track" else getattr(rng, kind)(size=(n, 1))
        low, high = core(x, x.min(axis=0), x.max(axis=0))
        lost += (low.item(), high.item()) != (x.min(), x.max())
    assert lost <= (6 if n == 20 and kind in ("laplace", "exponential") else 0)


@pytest.mark.parametrize("n", [20, 100, 1_000, 30_000])
@pytest.mark.parametrize("away", [1e3, 1e6])
def test_one_outlier_does_not_decide_the_core(n, away):
    x = np.random.default_rng(n).uniform(size=(n, 2))
    x[n // 2, 1] = -away
    _, found = surveyed(x)
    assert found.low[1] == -away
    assert -0.5 <= found.core_low[1] < x[x[:, 1] > -1, 1].min()
    assert found.core_high[1] == x[:, 1].max()
    assert (found.core_low[0], found.core_high[0]) == (x[:, 0].min(), x[:, 0].max())


def test_the_core_follows_units():
    x = np.random.default_rng(0).normal(size=(500, 1))
    x[:2, 0] = -1e4, 1e5
    low, high = core(x, x.min(axis=0), x.max(axis=0))
    assert low > x.min()
    assert high < x.max()
    scaled = core(-8 * x, -8 * x.max(axis=0), -8 * x.min(axis=0))
    np.testing.assert_array_equal(scaled, (-8 * high, -8 * low))


@pytest.mark.parametrize("share", [0.5, 0.1, 0.0005])
def test_an_input_of_two_values_keeps_both(share):
    x = (np.random.default_rng(0).random((20_000, 1)) < share).astype(float)
    _, found = surveyed(x)
    assert (found.core_low, found.core_high) == (0, 1)


def test_data_in_blocks_have_the_same_sample_and_core(set_everywhere):
    set_everywhere("PASS_ROWS", 300)
    set_everywhere("SAMPLED_ROWS", 200)
    x = np.random.default_rng(0).normal(size=(2_000, 3)) ** 9
    one, other = (surveyed(x, blocked)[1] for blocked in (False, True))
    assert one.sample.shape == (200, 3)
    for name in ("sample", "core_low", "core_high"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_every_row_is_drawn_with_the_same_probability(set_everywhere):
    """Blocks of 300 rows and a last one of 50: counts of 100 samples are those of chance; false alarms: 1 in 1,000."""
    set_everywhere("PASS_ROWS", 300)
    set_everywhere("SAMPLED_ROWS", 200)
    x = np.arange(1_850.0)[:, None]
    counts = np.zeros(len(x))
    for seed in range(100):
        set_everywhere("SAMPLE_SEED", seed)
        rows = surveyed(x)[1].sample[:, 0].astype(int)
        assert len(np.unique(rows)) == 200
        counts[rows] += 1
    blocks = np.add.reduceat(counts, range(0, 1_850, 300))
    sizes = np.append(np.full(6, 300), 50)
    assert chisquare(blocks, sizes * 100 * 200 / 1_850).pvalue > 1e-3


def test_few_rows_are_all_in_the_sample():
    x = np.random.default_rng(0).normal(size=(50, 2))
    np.testing.assert_array_equal(np.sort(surveyed(x)[1].sample, axis=0), np.sort(x, axis=0))


# Inputs that follow from others

RNG = np.random.default_rng(5)
X = RNG.normal(size=(3_000, 3)) * [1, 1e6, 1e-6]


@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize(
    ("more", "others", "copies"),
    [
        (X[:, 1], (1,), True),
        (-3 * X[:, 2] + 7, (2,), False),
        (X[:, 0] + 1e-6 * X[:, 1], (0, 1), False),
        (X @ [1, 2e-6, 3e6] - 5, (0, 1, 2), False),
    ],
    ids=["copy", "another unit", "sum of two", "sum of three"],
)
def test_combinations_are_named(more, others, copies, blocked):
    assert found(np.c_[X, more], blocked) == (3, others, copies)


def test_the_first_of_several_is_named():
    assert found(X[:, [0, 1, 1, 0]]) == (2, (1,), True)


def test_rounding_does_not_hide_a_copy():
    x = 1e8 + RNG.normal(size=2_000)
    assert found(np.c_[x, 2 * x - 1 / 3]) == (1, (0,), False)


def test_an_outlier_neither_hides_nor_makes_a_combination():
    x = np.c_[X[:, 0], X[:, 0]]
    x[7] = 1e9
    assert found(x) == (1, (0,), True)
    independent = X[:, :2] / [1, 1e6]
    independent[7] = 1e9
    assert found(independent) is None


def test_one_other_row_is_enough_to_tell_inputs_apart(set_everywhere):
    set_everywhere("SAMPLED_ROWS", 100)
    x = np.c_[X[:, 0], X[:, 0]]
    x[1_234, 1] += 0.01
    assert found(x) is None


def test_highly_correlated_inputs_pass():
    noise = RNG.normal(size=3_000)
    for size in (1.5e-3, 1e-5):  # correlation 0.999999, and 1 − 5e-11
        assert found(np.c_[X[:, 0], X[:, 0] + size * noise]) is None


def test_curves_and_powers_pass():
    angle = np.linspace(0, 6, 2_000)
    assert found(np.c_[np.cos(angle), np.sin(angle), angle, angle**2]) is None


def test_few_rows_with_many_inputs_pass():
    assert found(RNG.normal(size=(31, 30))) is None
