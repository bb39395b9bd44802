import numpy as np
import pytest
import reference

from itofit import ARFF, InputError
from itofit.learning.metropolis import draw, magnitude
from itofit.learning.paper.arff import Problem, State, stagnates, start, step, train
from itofit.waves.normal_equations import DirectNormalEquations


def data(seed=0, n=80, m=2, p=2):
    rng = np.random.default_rng(seed)
    u = rng.random((n, m))
    y = np.stack([np.sin(4 * u[:, 0]), np.cos(3 * u[:, -1])], axis=1)[:, :p] + 0.1 * rng.normal(size=(n, p))
    return u, y


def problem(**shape):
    return Problem(DirectNormalEquations(*data(0, **shape)), DirectNormalEquations(*data(1, **shape)))


PARAMETERS = {"ridge": 1e-2, "delta": 0.5, "min_iterations": 3, "max_iterations": 25, "n_features": 8}


def loops(settings):
    return {
        "ridge_parameter": settings.ridge,
        "delta": settings.delta,
        "gamma": settings.gamma,
        "resample": settings.resample,
        "pairing": settings.pairing,
    }


@pytest.mark.parametrize("pairing", ["printed", "reindex", "solve"])
@pytest.mark.parametrize("resample", [True, False])
@pytest.mark.parametrize("gamma", [1.0, 3.0])
def test_a_step_equals_the_loops_with_the_same_random_numbers(pairing, resample, gamma):
    settings = ARFF(**PARAMETERS, gamma=gamma, resample=resample, pairing=pairing).resolve(80, 1)
    state = start(problem(), settings)
    for seed in range(4):
        omega, beta, accepted = reference.algorithm_1_step(
            np.random.default_rng(seed), state.omega, state.beta, *data(0), **loops(settings)
        )
        state, info = step(np.random.default_rng(seed), state, problem(), settings)
        np.testing.assert_allclose(state.omega, omega, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(state.beta, beta, rtol=1e-10, atol=1e-12)
        assert info.acceptance == np.mean(accepted)
        assert info.validation_error == pytest.approx(reference.mean_squared_error(omega, beta, *data(1)), rel=1e-10)


@pytest.mark.parametrize("pairing", ["printed", "reindex", "solve"])
@pytest.mark.parametrize(("m", "p"), [(1, 1), (2, 2), (3, 1)])
def test_whole_training_equals_the_loops_with_the_same_random_numbers(pairing, m, p):
    settings = ARFF(**PARAMETERS, pairing=pairing).resolve(80, 1)
    omega, beta, errors = reference.algorithm_1(
        np.random.default_rng(7),
        data(0, m=m, p=p),
        data(1, m=m, p=p),
        n_features=8,
        min_iterations=3,
        max_iterations=25,
        **loops(settings),
    )
    best, training = train(np.random.default_rng(7), problem(m=m, p=p), settings)
    np.testing.assert_allclose(training.score, errors, rtol=1e-10)
    np.testing.assert_allclose(best.omega, omega, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(best.beta, beta, rtol=1e-10, atol=1e-10)


def test_training_starts_at_zero_and_returns_the_best_network_it_saw():
    settings = ARFF(**PARAMETERS).resolve(80, 1)
    p = problem()
    best, training = train(np.random.default_rng(0), p, settings)
    zero = State(np.zeros((8, 2)), p.train.solve(np.zeros((8, 2)), settings.ridge))
    assert training.score[0] == p.validation.mse(*zero)
    assert p.validation.mse(*best) == training.score.min()
    assert len(training.seconds) == len(training.acceptance) == len(training.score) - 1
    assert (training.seconds > 0).all()
    assert ((training.acceptance >= 0) & (training.acceptance <= 1)).all()
    assert "best validation error" in repr(training)


def test_no_iterations_return_the_start():
    settings = ARFF(n_features=4, max_iterations=0).resolve(80, 1)
    best, training = train(np.random.default_rng(0), problem(), settings)
    assert not best.omega.any()
    assert training.n_iterations == 0
    assert training.best_iteration == 0


def test_each_iteration_is_reported():
    seen = []
    settings = ARFF(**PARAMETERS).resolve(80, 1)
    _, training = train(np.random.default_rng(0), problem(), settings, lambda i, info: seen.append((i, info)))
    assert [i for i, _ in seen] == list(range(1, training.n_iterations + 1))
    np.testing.assert_array_equal([info.acceptance for _, info in seen], training.acceptance)


def test_stagnation_is_five_iterations_in_a_row_without_a_lower_moving_average():
    falling = [1 - 2**-6 * i for i in range(30)]  # sums of these are exact
    assert not stagnates(falling)
    assert not stagnates([*falling, *[falling[-1]] * 8])  # the average still falls for four, then stands for four
    assert stagnates([*falling, *[falling[-1]] * 9])
    assert not stagnates([1.0] * 9)
    assert stagnates([1.0] * 10)
    rising = falling[::-1]
    assert stagnates(rising)
    assert not stagnates([*rising, rising[-6]])  # one decrease is enough, however high the errors stand


def test_the_start_does_not_count_as_an_iteration_for_the_stagnation_rule():
    u, _ = data()
    flat = Problem(DirectNormalEquations(u, np.ones((80, 1))), DirectNormalEquations(u, np.zeros((80, 1))))
    settings = ARFF(n_features=4, delta=0.0, min_iterations=0, max_iterations=60).resolve(80, 1)
    assert train(np.random.default_rng(0), flat, settings)[1].n_iterations == 10


def test_training_stops_by_stagnation_but_not_before_the_minimum():
    u, _ = data()
    flat = Problem(DirectNormalEquations(u, np.ones((80, 1))), DirectNormalEquations(u, np.zeros((80, 1))))
    settings = ARFF(n_features=4, delta=0.0, min_iterations=17, max_iterations=60).resolve(80, 1)
    _, training = train(np.random.default_rng(0), flat, settings)
    assert training.stopped == "stagnation"
    assert training.n_iterations == 17 + 5
    few = ARFF(n_features=4, delta=0.0, min_iterations=5, max_iterations=9).resolve(80, 1)
    assert train(np.random.default_rng(0), flat, few)[1].stopped == "max_iterations"


def test_resampling_draws_in_proportion_to_the_amplitudes():
    weights = np.array([0.0, 1.0, 3.0, 0.0, 6.0])
    rng = np.random.default_rng(0)
    counts = np.bincount(np.concatenate([draw(rng, weights) for _ in range(4000)]), minlength=5)
    assert counts[0] == counts[3] == 0
    # five standard deviations of a binomial: a false alarm in about a million seeds
    expected = 20_000 * weights / 10
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected)).all()


def test_resampling_survives_amplitudes_that_are_all_zero():
    assert len(set(draw(np.random.default_rng(0), np.zeros(40)))) > 15


def test_amplitudes_of_several_outputs_count_by_their_norm():
    np.testing.assert_allclose(magnitude(np.array([[3.0, 4j], [0, 1 + 1j]])), [5, np.sqrt(2)])


def test_search_lowers_the_error():
    settings = ARFF(n_features=32, delta=0.5, ridge=1e-4, min_iterations=20).resolve(80, 1)
    _, training = train(np.random.default_rng(0), problem(), settings)
    assert training.score.min() < 0.1 * training.score[0]


def test_unset_fields_are_chosen_and_set_ones_obeyed():
    assert ARFF().resolve(100, 1).n_features == 8
    assert ARFF().resolve(10**6, 1).n_features == 128
    assert ARFF().resolve(10**6, 4).search_rows == 25_000
    assert ARFF(n_features=1000).resolve(10**6, 4).search_rows == 100_000
    assert ARFF(max_iterations=7).resolve(100, 1).min_iterations == 7
    assert ARFF(min_iterations=500).resolve(100, 1).max_iterations == 1000
    assert ARFF(ridge=0).resolve(100, 1).ridge == 0.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n_features", 0),
        ("n_features", 2.5),
        ("n_features", True),
        ("ridge", -1.0),
        ("ridge", float("nan")),
        ("delta", "0.1"),
        ("gamma", -1),
        ("min_iterations", -1),
        ("validation_fraction", 1.0),
        ("validation_fraction", 0),
        ("pairing", "other"),
        ("search_rows", 3),
    ],
)
def test_fields_out_of_range_are_named(field, value):
    with pytest.raises(InputError, match=field):
        ARFF(**{field: value})
