"""The record of a training: what it says of scores, of dependence, and of itself."""

import dataclasses

import numpy as np
import pytest

from itofit import ARFF, FourierSeries, InputError, LearnedFunction, Training
from itofit.model.training import SWITCHED_OFF


def training(**changes):
    """One of two outputs, judged by evidence."""
    fields = {
        "judge": "log-evidence",
        "iteration": np.array([0.0, 2.0, 4.0]),
        "score": np.array([0.0, 12.5, 3.0]),
        "acceptance": np.array([0.5, 0.25, 0.25, 0.0]),
        "seconds": np.array([0.25, 0.5, 0.25, 0.25]),
        "best_iteration": 2,
        "stopped": "evidence",
        "n_features": 9,
        "parameters": ARFF(),
        "determined": 5.5,
        "groups": np.array([0, 1, 2]),
        "ridges": np.ones((2, 3)),
    }
    return Training(**fields | changes)


def test_more_evidence_is_better_and_so_is_less_error():
    assert training().best_score == 12.5
    by_error = training(judge="validation error", score=np.array([1.0, 0.125, 0.5]))
    assert by_error.best_score == 0.125
    assert training().by_evidence
    assert not by_error.by_evidence
    assert isinstance(by_error.best_score, float)


def test_iterations_are_counted_whether_they_were_judged_or_not():
    assert training().n_iterations == 4
    assert training(acceptance=np.zeros(0), seconds=np.zeros(0)).n_iterations == 0


def test_representation():
    assert repr(training()) == (
        "Training(9 features, 4 iterations in 1.25 s, stopped by evidence, best log-evidence 12.5, iteration 2 kept)"
    )
    by_error = training(judge="validation error", score=np.array([1.0, 0.12345678, 0.5]), stopped="max_iterations")
    assert repr(by_error) == (
        "Training(9 features, 4 iterations in 1.25 s, stopped by max_iterations, "
        "best validation error 0.1235, iteration 2 kept)"
    )


def test_a_record_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        training().best_iteration = 3


# What an output depends on


@pytest.mark.parametrize(
    ("groups", "on", "inputs", "words"),
    [
        ([0], [True], "a", "a"),
        ([0], [False], "a", None),
        ([], [], "a", None),
        ([], [], "ab", None),
        ([0, 1, 2], [True, False, False], "ab", "a alone"),
        ([0, 1, 2], [False, True, False], "ab", "b alone"),
        ([0, 1, 2], [True, True, False], "ab", "a, b"),
        ([0, 1, 2], [False, False, True], "ab", "all inputs together"),
        ([0, 1, 2], [True, True, True], "ab", "a, b and all inputs together"),
        ([0, 1, 2], [False, False, False], "ab", None),
        ([1, 3], [True, True], "abc", "b and all inputs together"),
        ([0, 2, 3], [True, True, False], "abc", "a, c"),
        ([2], [True], "ab", "all inputs together"),
        ([2], [True], "abc", "c alone"),
        ([-2, -1], [True, False], "ab", "a alone, linearly"),
        ([-3, -2, -1], [True, True, True], "ab", "a, b and a·b"),
        ([-6, -5, -4, -1], [True, False, True, True], "abc", "c and a·b, b·c"),
        ([-3, -2, 2], [True, True, True], "ab", "a and all inputs together"),
        ([-4, 4], [True, True], "abc", "a with b"),
        ([-4], [True], "abc", "a·b"),
    ],
)
def test_dependence_in_words(groups, on, inputs, words):
    ridges = np.where([on], 1.0, SWITCHED_OFF)
    record = training(groups=np.array(groups, dtype=int), ridges=ridges)
    assert record.depends_on(0, tuple(inputs)) == words


def test_each_output_has_its_own_dependence():
    ridges = np.array([[1.0, SWITCHED_OFF, SWITCHED_OFF], [SWITCHED_OFF, SWITCHED_OFF, 0.1]])
    record = training(ridges=ridges)
    assert record.depends_on(0, ("height", "width")) == "height alone"
    assert record.depends_on(1, ("height", "width")) == "all inputs together"


def test_a_large_ridge_is_not_a_group_that_is_switched_off():
    record = training(ridges=np.array([[0.999 * SWITCHED_OFF, SWITCHED_OFF, 10 * SWITCHED_OFF]]))
    assert record.depends_on(0, ("a", "b")) == "a alone"


# A function that was learned


def waves(beta):
    """Σ_k β_k cos(k x)."""
    beta = np.array(beta, dtype=complex)
    omega = np.arange(1.0, len(beta) + 1)[:, None]
    return FourierSeries(omega=omega, beta=beta, shift=np.zeros(1), scale=np.ones(1), offset=np.zeros(beta.shape[1]))


def test_standard_deviations_are_roots_of_sums_of_squares():
    spread = waves([[3.0, 4.0, 1.0, 0.0], [0.0, 0.0, 0.0, 2.0]])  # two functions for each of two outputs
    function = LearnedFunction(series=waves([[1.0, 1.0]]), training=training(), spread=spread)
    x = np.linspace(-1, 1, 5)
    expected = np.stack([5 * np.abs(np.cos(x)), np.hypot(np.cos(x), 2 * np.cos(2 * x))], axis=1)
    np.testing.assert_allclose(function.std(x[:, None]), expected, rtol=1e-12)


def test_a_function_without_error_bars_says_so():
    function = LearnedFunction(series=waves([[1.0]]), training=training())
    with pytest.raises(InputError, match="carries no error bars"):
        function.std([0.0])
