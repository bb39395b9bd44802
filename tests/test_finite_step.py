"""Moments of finite steps, and drift and covariance corrected for them."""

import warnings

import numpy as np
import pytest

import itofit
from itofit import ARFF, InputError, Transitions
from itofit.experiments import EXPERIMENTS
from itofit.learning.followed import lengths_chosen
from itofit.matrices.symmetric import factors
from itofit.model.finite_step import LEAST_SHARE, at_least, mean_signal, moments_of_step, trusted
from itofit.model.likelihood import gaussian_nll


def rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


def linear_data(n, h, seed=0, theta=1.0):
    """Exact transitions of dx = −θ x dt + dW in its stationary state."""
    rng = np.random.default_rng(seed)
    spread = 1 / np.sqrt(2 * theta)
    x0 = spread * rng.normal(size=n)
    x1 = np.exp(-theta * h) * x0 + spread * np.sqrt(1 - np.exp(-2 * theta * h)) * rng.normal(size=n)
    return Transitions.from_pairs(x0, x1, h)


def cubic(x):
    return x - x**3


def cubic_noise(x):
    return (0.3 + 0.2 * x**2)[:, :, None]


def first_order(x, h):
    """f + (h/2) L f and Σ + (h/2) (L Σ + 2 f' Σ) for the cubic, by hand."""
    f, slope, bend = cubic(x), 1 - 3 * x**2, -6 * x
    sigma, sigma_slope, sigma_bend = 0.3 + 0.2 * x**2, 0.4 * x, 0.4
    mean = f + h / 2 * (f * slope + 0.5 * sigma * bend)
    covariance = sigma + h / 2 * (f * sigma_slope + 0.5 * sigma * sigma_bend + 2 * slope * sigma)
    return mean, covariance


# Moments


def test_moments_are_right_to_first_order():
    x = np.linspace(-1.5, 1.5, 31)[:, None]
    errors = []
    for h in (0.04, 0.02, 0.01):
        step = moments_of_step(x, np.full(31, h), cubic, cubic_noise, underdamped=False)
        mean, covariance = first_order(x, h)
        errors.append([rms(step.mean - mean), rms(step.covariance[:, :, 0] - covariance)])
    rate = np.log2(np.array(errors)[:-1] / np.array(errors)[1:])
    np.testing.assert_allclose(rate, 2.0, atol=0.2)  # what is missing is of second order


@pytest.mark.parametrize("name", ["1", "2", "3a", "3b", "4a", "4b"])
def test_moments_of_the_papers_equations(name):
    """Against the mean of many fine paths: within four standard errors at each point, in 9,999 of 10,000 runs."""
    source = EXPERIMENTS[name]
    rng = np.random.default_rng(0)
    start = rng.uniform(source.low, source.high, (3, source.n_inputs))
    n, fine = 4000, 40
    state = np.repeat(start, n, axis=0)
    dt = source.h / fine
    for _ in range(fine):
        noise = rng.standard_normal((*state.shape, 1)) * np.sqrt(dt)
        state = state + dt * source.drift(state) + (source.diffusion(state) @ noise)[:, :, 0]
    moves = (state - np.repeat(start, n, axis=0)).reshape(3, n, -1)
    step = moments_of_step(start, np.full(3, source.h), source.drift, source.covariance, underdamped=False)
    spread = np.sqrt(np.diagonal(step.covariance, axis1=1, axis2=2) / (source.h * n))
    fine_bias = 0.5 * dt * 20 * np.abs(source.drift(start))  # the largest slope of a drift is 20
    assert (np.abs(moves.mean(axis=1) / source.h - step.mean) < 4 * spread + fine_bias).all()
    for place in range(3):
        found = np.cov(moves[place].T).reshape(step.covariance[place].shape) / source.h
        unit = np.sqrt(np.outer(*[np.diagonal(step.covariance[place])] * 2))
        assert (np.abs(found - step.covariance[place]) < (5 * np.sqrt(2 / n) + 0.01) * unit).all()


def test_linear_drifts_are_followed_far():
    x = np.array([[0.5, -1.0], [2.0, 0.3]])
    A = np.array([[-1.0, 0.4], [-0.6, -0.7]])
    sigma = np.array([[1.0, 0.3], [0.3, 0.5]])
    h = 0.3
    step = moments_of_step(
        x, np.full(2, h), lambda x: x @ A.T, lambda x: np.broadcast_to(sigma, (len(x), 2, 2)), underdamped=False
    )
    # E x_h = exp(A h) x and Cov = ∫ exp(A s) Σ exp(Aᵀ s) ds, by series and by a fine sum
    powers = [np.eye(2)]
    for k in range(1, 12):
        powers.append(powers[-1] @ A * h / k)
    expected = x @ (sum(powers) - np.eye(2)).T / h
    times = (np.arange(2000) + 0.5) / 2000 * h
    values, vectors = np.linalg.eig(A)
    flows = (vectors * np.exp(values * times[:, None])[:, None, :]) @ np.linalg.inv(vectors)
    covariance = (flows @ sigma @ flows.swapaxes(1, 2)).real.mean(axis=0)
    assert rms(step.mean - expected) < 0.02 * rms(x @ A.T - expected)
    assert rms(step.covariance - covariance) < 0.04 * rms(sigma - covariance)


def test_underdamped_steps_end_at_the_input():
    """Given the new position, the force was met at positions before it: f = −x and h = 0.1, exact for no noise."""
    position, velocity, h = 0.7, -0.4, 0.1
    x0 = np.cos(h) * position - np.sin(h) * velocity  # backwards along the circle, to where it was
    v0 = np.sin(h) * position + np.cos(h) * velocity
    step = moments_of_step(
        np.array([[position, v0]]),
        np.array([h]),
        lambda z: -z[:, :1],
        lambda z: np.full((len(z), 1, 1), 1e-12),
        underdamped=True,
    )
    assert np.isclose(x0 * np.cos(h) + v0 * np.sin(h), position)
    exact, euler = (velocity - v0) / h, -position
    assert abs(step.mean.item() - exact) < 0.05 * abs(euler - exact)


@pytest.mark.parametrize("h", [1.0, 10.0, 1e3])
def test_steps_of_any_length_have_positive_definite_moments(h):
    x = np.random.default_rng(0).normal(size=(50, 3))
    step = moments_of_step(
        x, np.full(50, h), lambda x: np.tanh(-5 * x), lambda x: np.eye(3) * (1 + x[:, :1, None] ** 2), underdamped=False
    )
    assert np.isfinite(step.mean).all()
    assert (np.linalg.eigvalsh(step.covariance) > 0).all()


def test_eigenvalues_are_raised_in_units_of_sigma():
    sigma = np.array([[[4.0, 1.0], [1.0, 1.0]]])
    kept = at_least(0.5 * sigma, sigma)
    np.testing.assert_array_equal(kept, 0.5 * sigma)
    np.testing.assert_allclose(at_least(-sigma, sigma), LEAST_SHARE * sigma, rtol=1e-12)


def test_factors_take_any_units_and_hardly_definite_matrices():
    unit = np.array([1e-150, 1.0, 1e150])
    sigma = (np.eye(3) + 0.5)[None] * np.outer(unit, unit)
    L = factors(sigma)
    np.testing.assert_allclose(L @ L.swapaxes(1, 2), sigma, rtol=1e-12)
    singular = np.ones((1, 3, 3)) - 1e-15 * np.eye(3)
    L = factors(singular)
    np.testing.assert_allclose(L @ L.swapaxes(1, 2), singular, atol=1e-9)


def test_trust_is_the_share_of_the_correction_that_is_not_noise():
    variance, squares = np.array([[0.0], [1.0], [3.0]]), np.ones((3, 1))
    np.testing.assert_allclose(trusted(np.array([1.0]), variance, squares), [[1.0], [0.5], [0.25]])
    assert trusted(0.0, np.zeros(1), np.zeros(1)).item() == 0.0


def test_a_correction_of_many_standard_deviations_is_trusted_although_others_are_small():
    """1 − 9 v/δ²: nothing at three standard deviations, three quarters at six; none where nothing is corrected."""
    variance, squares = np.ones((3, 1)), np.array([[9.0], [36.0], [9e4]])
    np.testing.assert_allclose(trusted(np.array([1e-6]), variance, squares), [[0.0], [0.75], [0.9999]], atol=1e-5)
    assert not trusted(np.zeros(1), variance, squares).any()


def test_the_signal_is_what_squares_have_beyond_their_variance():
    """Within 5 %: a mean of 20,000 squares is known to 1 %."""
    rng = np.random.default_rng(0)
    variance = np.exp(rng.normal(size=(20_000, 2)))
    variance[::50] *= 1e4  # lonely places, whose squares alone would drown all others
    squares = (np.array([2.0, 0.0]) + variance) * rng.normal(size=(20_000, 2)) ** 2
    found = mean_signal(squares, variance, np.ones(20_000))
    assert found[0] == pytest.approx(2.0, rel=0.05)
    assert found[1] < 0.05
    assert mean_signal(np.zeros((3, 1)), np.zeros((3, 1)), np.ones(3)).item() == 0.0


# Corrected fits


@pytest.mark.parametrize("h", [0.1, 0.3])
def test_the_bias_of_a_linear_process_falls_tenfold(h):
    """At 200,000 transitions slopes are known to 0.01 (h = 0.1) or 0.006: three of those with the tenth of the bias."""
    sde = itofit.fit(linear_data(200_000, h), correct_step=True, rng=0)
    x = np.linspace(-1, 1, 51)
    slopes = [np.polyfit(x, model.drift(x)[:, 0], 1)[0] for model in (sde.one_step, sde)]
    noises = [model.covariance(x).mean() for model in (sde.one_step, sde)]
    assert slopes[0] == pytest.approx(-(1 - np.exp(-h)) / h, abs=0.03)
    assert slopes[1] == pytest.approx(-1.0, abs=0.03 + 0.005)
    assert abs(noises[1] - 1) < 0.1 * abs(noises[0] - 1) + 0.01


def test_corrected_steps_are_those_that_were_learned():
    data = EXPERIMENTS["3a"].sample(5000, rng=1, fine_steps=50)
    # waves: steps of a polynomial are no polynomial, and can be undone up to that alone
    sde = itofit.fit(data, drift=ARFF(n_features=32), correct_step=True, rng=0)
    x = np.linspace(-1.8, 1.8, 50)
    mean, covariance = sde.step_moments(x, 0.01)
    before = sde.one_step
    # up to what a function of these waves can be of the correction
    assert rms(mean - before.drift(x)) < 0.15 * rms(sde.drift(x) - before.drift(x))
    difference = rms(covariance - before.covariance(x))
    assert difference < 0.35 * rms(sde.covariance(x) - before.covariance(x))
    # what ridges leave of the correction of Σ is noise
    truth = EXPERIMENTS["3a"].covariance(x[:, None])
    assert rms(sde.covariance(x) - truth) < 0.4 * rms(before.covariance(x) - truth)
    # so the likelihood is, too, while that of Euler steps of the corrected functions is another
    assert sde.nll(data) == pytest.approx(before.nll(data), abs=3e-4)
    assert sde.nll(data) == sde.nll(data, scheme="corrected")
    assert before.nll(data) == before.nll(data, scheme="euler")
    assert abs(sde.nll(data, scheme="euler") - before.nll(data)) > 1e-3


@pytest.mark.parametrize("name", ["3a", "3b", "5"])
def test_errors_against_the_truth_fall(name):
    source = EXPERIMENTS[name]
    before, after = [], []
    for seed in range(3):
        sde = itofit.fit(source.sample(5000, rng=seed, fine_steps=50), correct_step=True, rng=seed)
        x = np.random.default_rng(seed).uniform(source.low, source.high, (500, source.n_inputs))
        for errors, model in ((before, sde.one_step), (after, sde)):
            errors.append([rms(model.drift(x) - source.drift(x)), rms(model.covariance(x) - source.covariance(x))])
    drift, noise = np.mean(after, axis=0) / np.mean(before, axis=0)
    assert drift < {"3a": 0.8, "3b": 0.9, "5": 1.0}[name]
    assert noise < {"3a": 0.8, "3b": 1.0, "5": 1.2}[name]


def test_long_steps_of_an_underdamped_system():
    """Friction and force of dv = (−x − v/2) dt + 0.3 dW, seen at steps of 0.2: both fits, against the truth."""
    rng = np.random.default_rng(0)
    z = rng.uniform(-1, 1, (20_000, 2))
    x, v = z[:, 0].copy(), z[:, 1].copy()
    dt = 0.2 / 100
    for _ in range(100):
        x, v = x + dt * v, v + dt * (-x - 0.5 * v) + 0.3 * np.sqrt(dt) * rng.normal(size=len(x))
    data = Transitions.from_underdamped(z[:, 0], z[:, 1], x, v, 0.2)
    sde = itofit.fit(data, correct_step=True, rng=0)
    at = np.random.default_rng(1).uniform(-0.8, 0.8, (300, 2))
    truth = -at[:, :1] - 0.5 * at[:, 1:]
    assert rms(sde.drift(at) - truth) < 0.4 * rms(sde.one_step.drift(at) - truth)
    assert sde.covariance(at).mean() == pytest.approx(0.09, rel=0.03)


def test_irregular_steps_are_corrected_by_their_own_lengths():
    parts = [linear_data(20_000, h, seed) for seed, h in enumerate((0.05, 0.2, 0.6))]
    data = Transitions.concatenate(parts)
    sde = itofit.fit(data, correct_step=True, rng=0)
    assert not sde.step_correction.lengths_chosen
    x = np.linspace(-1, 1, 51)
    assert rms(sde.drift(x)[:, 0] + x) < 0.35 * rms(sde.one_step.drift(x)[:, 0] + x)
    assert abs(sde.covariance(x).mean() - 1) < 0.35 * abs(sde.one_step.covariance(x).mean() - 1)


def test_units_do_not_matter():
    """But for rounding: the same transitions are followed. Where zero is matters for polynomials alone."""
    data = EXPERIMENTS["3b"].sample(2000, rng=0, fine_steps=20)
    scale, slower = np.array([1e-3, 200.0]), 60.0
    other = Transitions.from_pairs(data.inputs * scale, (data.inputs + data.increments) * scale, slower * data.h)
    here, there = (itofit.fit(each, correct_step=True, rng=1) for each in (data, other))
    x = data.inputs[:50]
    expected = here.drift(x) * scale / slower
    np.testing.assert_allclose(there.drift(x * scale), expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())
    expected = here.covariance(x) * np.outer(scale, scale) / slower
    np.testing.assert_allclose(there.covariance(x * scale), expected, rtol=5e-4, atol=1e-20)


def test_a_drift_of_noise_is_left_alone():
    """White noise as increments: what a correction would change is not known, so it is not changed much."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 2000)
    sde = itofit.fit(Transitions.from_pairs(x, x + 0.3 * rng.normal(size=2000), 0.1), correct_step=True, rng=0)
    at = np.linspace(-0.9, 0.9, 50)
    assert rms(sde.drift(at)) < 1.1 * rms(sde.one_step.drift(at)) + 0.02


def test_the_result_says_where_and_how_much():
    data = EXPERIMENTS["3a"].sample(3000, rng=0, fine_steps=20)
    sde = itofit.fit(data, correct_step=True, rng=0)
    record = sde.step_correction
    assert record.h == pytest.approx(0.01)
    assert 0.02 < record.drift_change < 0.15
    assert 0 <= record.distrusted <= 1
    assert "corrected for h = 0.01" in sde.summary()
    assert "corrected" not in sde.one_step.summary()
    trust = sde.step_trust(np.linspace(-1.9, 1.9, 30))
    assert trust.shape == (30, 1)
    assert ((trust > 0) & (trust <= 1)).all()
    assert trust.mean() == pytest.approx(record.drift_trust, abs=0.05)
    assert sde.step_trust([4.0]).item() < trust.min()  # far outside the data
    with pytest.raises(InputError, match="correct_step=True"):
        sde.one_step.step_trust([0.0])


def test_error_bars_cover_the_truth_where_those_of_one_step_do_not():
    source = EXPERIMENTS["3a"]
    covered = {"one_step": [], "corrected": []}
    for seed in range(8):
        sde = itofit.fit(source.sample(20_000, rng=seed, fine_steps=50), correct_step=True, rng=seed)
        x = np.linspace(-1.9, 1.9, 100)[:, None]
        for name, model in (("one_step", sde.one_step), ("corrected", sde)):
            f, std = model.drift(x, return_std=True)
            covered[name].append(np.mean(np.abs(f - source.drift(x)) < 1.96 * std))
    assert np.mean(covered["corrected"]) > 0.85
    assert np.mean(covered["corrected"]) > np.mean(covered["one_step"]) + 0.1


def test_covariances_stay_positive_definite_wherever_they_are_asked_for():
    for structure in ("diagonal", "full"):
        for link in ("identity", "square", "log"):
            data = EXPERIMENTS["3b"].sample(1500, rng=0, fine_steps=10)
            sde = itofit.fit(data, correct_step=True, structure=structure, link=link, rng=0)
            x = np.random.default_rng(0).uniform(-8, 8, (2000, 2))
            assert (np.linalg.eigvalsh(sde.covariance(x)) > 0).all()
            assert (np.linalg.eigvalsh(sde.step_moments(x, 0.01)[1]) > 0).all()


def test_models_of_different_steps_are_compared_on_the_same_data():
    """Learned from short and from long steps, judged on others: nearly as good as the truth, unlike Euler steps."""
    judged = linear_data(20_000, 0.3, seed=9)
    mean, variance = (np.exp(-0.3) - 1) / 0.3 * judged.inputs, (1 - np.exp(-0.6)) / 0.6
    truth = gaussian_nll(judged.increments, judged.h, mean, np.full((20_000, 1, 1), variance)).mean()
    for h in (0.05, 0.6):
        sde = itofit.fit(linear_data(50_000, h, seed=1), correct_step=True, rng=0)
        excess = sde.nll(judged) - truth
        assert excess < 0.003
        assert sde.nll(judged, scheme="euler") - truth > 2.5 * excess
        assert sde.one_step.nll(judged) - truth > 2.5 * excess


@pytest.mark.parametrize(("h", "n", "seed"), [(0.3, 2000, 29), (0.3, 2000, 12), (0.2, 10_000, 8), (0.5, 2000, 12)])
def test_noise_is_not_amplified_round_by_round(h, n, seed):
    """Data sets on which corrections that are not checked run away from the truth, by up to nine times."""
    rng = np.random.default_rng(seed)
    x = np.sqrt(0.5) * rng.normal(size=n)
    data = Transitions.from_pairs(x, np.exp(-h) * x + np.sqrt((1 - np.exp(-2 * h)) / 2) * rng.normal(size=n), h)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", itofit.DataWarning)  # it may be withheld
        sde = itofit.fit(data, correct_step=True, rng=seed)
    assert rms(sde.drift(x)[:, 0] + x) < 1.8 * rms(sde.one_step.drift(x)[:, 0] + x)
    assert sde.nll(data) < sde.one_step.nll(data) + 0.01


def limit_cycle(h, seed=0):
    """Tracks of the oscillator of van der Pol with μ = 2 and little noise, and its drift."""

    def drift(z):
        return np.stack([z[:, 1], 2 * (1 - z[:, 0] ** 2) * z[:, 1] - z[:, 0]], axis=1)

    rng = np.random.default_rng(seed)
    z, tracks = rng.uniform(-2, 2, (200, 2)), []
    for _ in range(36):
        tracks.append(z)
        for _ in range(50):
            z = z + h / 50 * drift(z) + 0.1 * np.sqrt(h / 50) * rng.normal(size=z.shape)
    return Transitions.from_trajectories(list(np.stack(tracks[20:], axis=1)), dt=h), drift


def test_a_limit_cycle_is_corrected_or_left_alone():
    data, drift = limit_cycle(0.05)
    sde = itofit.fit(data, correct_step=True, rng=0)
    x = data.inputs
    assert rms(sde.drift(x) - drift(x)) < 0.3 * rms(sde.one_step.drift(x) - drift(x))
    data, _ = limit_cycle(0.4)
    with pytest.warns(itofit.DataWarning, match="too long to be corrected for"):
        sde = itofit.fit(data, correct_step=True, rng=0)
    assert sde.step_correction.withheld
    assert sde.scheme == "euler"
    assert sde.nll(data) == sde.one_step.nll(data)
    assert "not corrected for h = 0.4" in sde.summary()
    np.testing.assert_array_equal(sde.drift(data.inputs), sde.one_step.drift(data.inputs))
    np.testing.assert_array_equal(sde.covariance(data.inputs), sde.one_step.covariance(data.inputs))
    for made, learned in zip(sde.variance_interval(x), sde.one_step.variance_interval(x), strict=True):
        np.testing.assert_allclose(made, learned, rtol=1e-12)
    assert (sde.step_trust(data.inputs) == 0).all()


def test_tracks_that_start_at_one_place():
    """As many steps in each as there are rows for one that is followed: places are drawn, not counted off."""
    rng = np.random.default_rng(0)
    tracks = np.zeros((2000, 26))
    for i in range(25):
        tracks[:, i + 1] = np.exp(-0.2) * tracks[:, i] + np.sqrt((1 - np.exp(-0.4)) / 2) * rng.normal(size=2000)
    sde = itofit.fit(Transitions.from_trajectories(list(tracks), dt=0.2), correct_step=True, rng=0)
    x = np.linspace(-1, 1, 50)
    assert np.polyfit(x, sde.drift(x)[:, 0], 1)[0] == pytest.approx(-1, abs=0.05)


def test_error_bars_of_the_covariance_grow_with_it():
    """The variance at zero over 30 data sets: within the band in 95 of 100, and in 24 of 30 with odds of a thousand."""
    covered = []
    for seed in range(30):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", itofit.DataWarning)
            sde = itofit.fit(linear_data(1000, 0.3, seed), correct_step=True, rng=seed)
        low, high = sde.variance_interval([0.0])
        covered.append(low.item() < 1 < high.item())
    assert np.mean(covered) >= 0.8
    std = [model.covariance([0.0], return_std=True)[1].item() for model in (sde.one_step, sde)]
    assert std[1] > 1.1 * std[0]


@pytest.mark.parametrize("unit", [1e-60, 1e60])
def test_units_of_any_size(unit):
    data = linear_data(1000, 0.3)
    other = Transitions.from_pairs(unit * data.inputs, unit * (data.inputs + data.increments), 0.3)
    here, there = (itofit.fit(each, correct_step=True, rng=0) for each in (data, other))
    assert there.step_correction.drift_trust == pytest.approx(here.step_correction.drift_trust, rel=1e-3)
    x = np.linspace(-1, 1, 10)
    np.testing.assert_allclose(there.drift(unit * x) / unit, here.drift(x), rtol=1e-3, atol=1e-4)


def test_the_model_of_one_step_is_that_of_a_fit_without_correction():
    data = linear_data(1000, 0.3)
    options = {"ensemble": 2, "floor": 0.9, "link": "identity", "rng": 0}
    plain, sde = (itofit.fit(data, correct_step=correct, **options) for correct in (False, True))
    assert sde.one_step.floored_share == plain.floored_share
    for a, b in zip(plain.drift(data.inputs, return_std=True), sde.one_step.drift(data.inputs, True), strict=True):
        np.testing.assert_array_equal(a, b)


# Who chose the steps


def test_lengths_chosen_by_the_path_are_noticed():
    """Ten jumps for each transition, whose waiting times do not depend on where they go."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 1.5, 3000)
    rate = 200 * x
    h = rng.gamma(10, 1 / rate)
    up = rng.binomial(10, 0.3, 3000)
    moves = 0.01 * (2 * up - 10)
    f, sigma = (0.01 * -0.4 * rate)[:, None], (1e-4 * rate)[:, None, None]
    assert lengths_chosen(x[:, None], h, moves[:, None], f, sigma, np.ones(3000))
    diffused = f[:, 0] * h + np.sqrt(sigma[:, 0, 0] * h) * rng.normal(size=3000)
    assert not lengths_chosen(x[:, None], h, diffused[:, None], f, sigma, np.ones(3000))
    assert not lengths_chosen(x[:, None], np.full(3000, 0.1), moves[:, None], f, sigma, np.ones(3000))
    data = Transitions.from_pairs(x, x + moves, h)
    with pytest.warns(itofit.DataWarning, match="chosen when to be seen"):
        sde = itofit.fit(data, correct_step=True, rng=0)
    assert sde.step_correction.lengths_chosen
    np.testing.assert_array_equal(sde.covariance(x), sde.one_step.covariance(x))
    assert "the paths chose" in sde.summary()


# Paths


def test_corrected_paths_with_the_step_of_the_data_have_its_moments():
    """The variance of 20,000 stationary ends is known to 1 %: four of those."""
    h = 0.5
    sde = itofit.fit(linear_data(50_000, h), correct_step=True, rng=0)
    start = np.full(20_000, 0.8)
    ends = sde.simulate(start, dt=h, n_steps=1, rng=0)[:, 1, 0]
    assert ends.mean() == pytest.approx(0.8 * np.exp(-h), abs=0.02)
    assert ends.var() == pytest.approx((1 - np.exp(-2 * h)) / 2, rel=0.06)
    euler = sde.simulate(start, dt=h, n_steps=1, rng=0, scheme="euler")[:, 1, 0]
    assert euler.var() > 1.3 * ends.var()


def test_corrected_underdamped_paths_are_more_accurate():
    """An oscillator with little noise returns after a period of twenty steps."""
    rng = np.random.default_rng(0)
    z = rng.uniform(-1.5, 1.5, (5000, 2))
    h = 2 * np.pi / 20
    x = np.cos(h) * z[:, 0] + np.sin(h) * z[:, 1]
    v = -np.sin(h) * z[:, 0] + np.cos(h) * z[:, 1] + 0.002 * np.sqrt(h) * rng.normal(size=5000)
    sde = itofit.fit(Transitions.from_underdamped(z[:, 0], z[:, 1], x, v, h), correct_step=True, rng=0)
    ends = {s: sde.simulate([1.0, 0.0], h, 20, scheme=s, rng=0)[0, -1] for s in ("euler", "corrected")}
    distance = {s: rms(end - [1.0, 0.0]) for s, end in ends.items()}
    assert distance["corrected"] < 0.02
    assert distance["corrected"] < 0.5 * distance["euler"]


# Options and files


def test_options_that_do_not_go_together():
    data = linear_data(500, 0.1)
    general = Transitions(np.linspace(0, 1, 100), np.random.default_rng(0).normal(size=(100, 2)), 1.0)
    with pytest.raises(InputError, match="correct_step=True needs refine=True"):
        itofit.fit(data, refine=False, correct_step=True)
    with pytest.raises(InputError, match="kind 'general'"):
        itofit.fit(general, correct_step=True)
    with pytest.raises(InputError, match="correct_step must be"):
        itofit.fit(data, correct_step="yes")
    sde = itofit.fit(general, rng=0)
    with pytest.raises(InputError, match="use 'euler'"):
        sde.nll(general, scheme="corrected")
    sde = itofit.fit(data, rng=0)
    with pytest.raises(InputError, match="scheme must be"):
        sde.nll(data, scheme="milstein")
    with pytest.raises(InputError, match="scheme must be"):
        sde.simulate([0.0], 0.1, 3, scheme="heun")
    with pytest.raises(InputError, match="h must be > 0"):
        sde.step_moments([0.0], 0.0)
    with pytest.raises(InputError, match="h must"):
        sde.step_moments([0.0, 1.0], [0.1, np.nan])
    with pytest.raises(InputError, match=r"one number or have shape \(2,\)"):
        sde.step_moments([0.0, 1.0], [0.1, 0.2, 0.3])


def test_any_model_can_be_asked_for_the_moments_of_its_steps():
    sde = itofit.fit(linear_data(5000, 0.1), correct_step=False, rng=0)
    assert sde.scheme == "euler"
    mean, covariance = sde.step_moments([0.5, 1.0], 0.1)
    np.testing.assert_array_equal(mean, sde.drift([0.5, 1.0]))
    later, _ = sde.step_moments([0.5, 1.0], [0.1, 0.2], scheme="corrected")
    assert (np.abs(later) < np.abs(mean)).all()
    assert covariance.shape == (2, 1, 1)


def test_corrected_models_are_kept_whole(tmp_path):
    data = linear_data(2000, 0.2)
    sde = itofit.fit(data, correct_step=True, ensemble=2, rng=0)
    assert sde.members[0].scheme == "corrected"
    sde.save(tmp_path / "sde.npz")
    back = itofit.load(tmp_path / "sde.npz")
    x = np.linspace(-1, 1, 20)
    for a, b in ((sde, back), (sde.one_step, back.one_step), (sde.members[0], back.members[0])):
        for old, new in zip(a.drift(x, return_std=True), b.drift(x, return_std=True), strict=True):
            np.testing.assert_array_equal(old, new)
        np.testing.assert_array_equal(a.covariance(x), b.covariance(x))
    assert back.scheme == "corrected"
    assert back.nll(data) == sde.nll(data)
    assert back.summary() == sde.summary()
    np.testing.assert_array_equal(back.step_trust(x), sde.step_trust(x))


def test_more_than_memory_gives_the_same(tmp_path):
    data = linear_data(20_000, 0.2)
    blocks = [data[i : i + 4000] for i in range(0, 20_000, 4000)]
    streamed = Transitions.from_blocks(lambda: iter(blocks))
    here, there = (itofit.fit(each, correct_step=True, rng=0) for each in (data, streamed))
    x = np.linspace(-1, 1, 20)
    # folds are drawn block by block, so the two fits differ by chance
    np.testing.assert_allclose(there.drift(x), here.drift(x), atol=0.1)
    np.testing.assert_allclose(there.covariance(x), here.covariance(x), rtol=0.05)
