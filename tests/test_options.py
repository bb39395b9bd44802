"""The options of `fit`: each is checked by itself, then with the others, before any work."""

from dataclasses import FrozenInstanceError, fields, replace
from inspect import signature

import numpy as np
import pytest

from itofit import ARFF, InputError, Transitions, fit
from itofit.learning.options import ALLOWED, NEED_REFINE, FitOptions
from itofit.matrices.links import LINKS

WRONG = {
    "structure": ["scalar", None, 1],
    "link": ["cube", None, ("log",)],
    "drift": ["fast", {"n_features": 8}, 8, False],
    "covariance": ["fast", ARFF, 0],
    "floor": [0.0, 1.0, -0.1, 1e-7, float("nan"), "low", True],
    "refine": [None, 1, "no"],
    "weight_drift": [1, "yes", 0.0],
    "cross_fit": [1, "yes", 0.0],
    "bootstrap": [1, 9, 50.0, "many"],
    "ensemble": [1, 0, -2, 2.0, True, "many"],
    "correct_step": [None, 1, "yes"],
    "max_h": [0.0, -1, "all", True],
    "measurement_noise": [0.0, -0.1, "yes", True, None, float("nan"), [[1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]], [[0.0]]],
    "rng": ["0", 1.5, -1, True],
}
RIGHT = {
    "structure": ["auto", "full", "diagonal"],
    "link": ["auto", "identity", "square", "log"],
    "drift": [None, ARFF(), ARFF(n_features=8)],
    "covariance": [None, ARFF(ridge=0.0)],
    "floor": [None, 1e-6, 0.999, np.float64(0.1)],
    "refine": [True, False, np.True_],
    "weight_drift": [None, True, False, np.False_],
    "cross_fit": [None, True, False],
    "bootstrap": [None, 10, np.int64(50)],
    "ensemble": [None, 2, np.int64(8)],
    "correct_step": ["auto", True, False, np.True_],
    "max_h": ["auto", None, 0.5, 3],
    "measurement_noise": ["auto", False, 0.1, np.float64(2.0), [0.1, 0.2], [[1.0, 1.0], [1.0, 1.0]]],
    "rng": [None, 0, np.int64(7), np.random.default_rng(0)],
}
MESSAGES = {
    "structure": "structure must be one of 'auto', 'diagonal', 'full', got 'scalar'",
    "link": "link must be one of 'auto', 'identity', 'square', 'log', got 'cube'",
    "drift": "drift must be an itofit.ARFF or None, got str",
    "covariance": "covariance must be an itofit.ARFF or None, got str",
    "floor": "floor must be a number > 0, got 0.0",
    "refine": "refine must be True or False, got None",
    "weight_drift": "weight_drift must be True or False, got 1",
    "cross_fit": "cross_fit must be True or False, got 1",
    "bootstrap": "bootstrap must be a whole number >= 10, got 1",
    "ensemble": "ensemble must be a whole number >= 2, got 1",
    "correct_step": "correct_step must be True or False, got None",
    "max_h": "max_h must be a number > 0, got 0.0",
    "measurement_noise": "measurement_noise must be 'auto', False, a standard deviation > 0, one for each variable, or "
    "a covariance matrix, got 0.0; no errors are False",
    "rng": "rng must be a whole number >= 0, a numpy.random.Generator or None, got '0'",
}


def test_the_options_are_the_keywords_of_fit_with_the_same_defaults():
    keywords = {name: each.default for name, each in signature(fit).parameters.items() if name != "data"}
    assert (keywords.pop("progress"), keywords.pop("client")) == (None, None)
    assert {field.name: field.default for field in fields(FitOptions)} == keywords


def test_every_option_is_checked_and_no_test_here_forgets_one():
    names = {field.name for field in fields(FitOptions)}
    assert set(ALLOWED) == set(WRONG) == set(RIGHT) == set(MESSAGES) == names


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_what_an_option_cannot_be_is_an_error_that_names_it(name, value):
    with pytest.raises(InputError, match=f"^{name} must "):
        FitOptions(**{name: value})


@pytest.mark.parametrize(("name", "message"), MESSAGES.items())
def test_errors_say_what_was_expected_and_what_came(name, message):
    with pytest.raises(InputError) as caught:
        FitOptions(**{name: WRONG[name][0]})
    assert str(caught.value) == message


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in RIGHT.items() for value in values])
def test_what_an_option_may_be(name, value):
    assert getattr(FitOptions(**{name: value}), name) == value


def test_a_floor_that_rounding_would_undo_says_so():
    with pytest.raises(InputError, match="floor must be at least 1e-06, or rounding would undo it, got 1e-07"):
        FitOptions(floor=1e-7)


@pytest.mark.parametrize("rng", ["0", 1.5, -1, True])
def test_what_cannot_be_a_seed_is_an_error_of_fit(rng):
    data = Transitions.from_trajectories(np.random.default_rng(0).normal(size=50).cumsum(), dt=1.0)
    with pytest.raises(InputError, match=r"rng must be a whole number >= 0, a numpy\.random\.Generator or None"):
        fit(data, rng=rng)


# Options that do not go together

APART = {
    "link": (["square", "log"], r"refine=False learns the entries of Σ themselves: link must be 'identity', got '\w+'"),
    "correct_step": ([True, np.True_], "correct_step=True needs refine=True: Algorithm 2 learns the mean and"),
    "cross_fit": ([True, np.True_], "cross_fit=True needs refine=True: Algorithm 2 takes the residuals of its own"),
    "ensemble": ([2, 8], "ensemble needs refine=True: what Algorithm 2 learns carries no error bars"),
    "bootstrap": ([10, 50], "bootstrap needs refine=True: what Algorithm 2 learns carries no error bars"),
}


@pytest.mark.parametrize("refine", [False, np.False_])
@pytest.mark.parametrize("name", APART)
def test_options_that_do_not_go_together(name, refine):
    values, message = APART[name]
    for value in values:
        assert getattr(FitOptions(**{name: value}), name) == value
        with pytest.raises(InputError, match=message):
            FitOptions(**{name: value}, refine=refine)


def test_all_other_options_go_together_with_algorithm_2():
    assert set(APART) == set(NEED_REFINE)
    FitOptions(refine=False, link="identity", correct_step=False, cross_fit=False, weight_drift=True, floor=0.1)
    FitOptions(refine=False, link="auto", cross_fit=None, ensemble=None, drift=ARFF(), covariance=ARFF())


def test_the_error_of_an_option_itself_comes_first():
    with pytest.raises(InputError, match="ensemble must be a whole number"):
        FitOptions(refine=False, link="log", ensemble=1)


# What they are


@pytest.mark.parametrize("field", fields(FitOptions), ids=lambda field: field.name)
def test_options_are_frozen(field):
    options = FitOptions()
    with pytest.raises(FrozenInstanceError):
        setattr(options, field.name, None)
    assert options == FitOptions()


def test_changed_options_are_checked_again():
    options = FitOptions(ensemble=4, rng=0)
    assert replace(options, rng=5, ensemble=None) == FitOptions(rng=5)
    with pytest.raises(InputError, match="ensemble needs refine=True"):
        replace(options, refine=False)


def test_options_have_names():
    with pytest.raises(TypeError):
        FitOptions("full")
    with pytest.raises(TypeError, match="colour"):
        FitOptions(colour="red")


def test_parameters_that_were_not_given_are_the_defaults():
    given = ARFF(n_features=8)
    assert FitOptions().drift_parameters == FitOptions().covariance_parameters == ARFF()
    assert FitOptions(drift=given).drift_parameters is given
    assert FitOptions(covariance=given).covariance_parameters is given


def test_the_links_to_choose_from():
    assert [link.name for link in FitOptions().links] == ["identity", "log", "square"]
    for name in LINKS:
        assert [link.name for link in FitOptions(link=name).links] == [name]
