from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import itofit
from itofit import ARFF, ExtrapolationWarning, FourierSeries, InputError, Transitions

FEW = ARFF(n_features=8, ridge=1e-2, delta=0.5, min_iterations=3, max_iterations=12)
ALGORITHMS = pytest.mark.parametrize("refine", [True, False], ids=["automatic", "algorithm 2"])
pytestmark = pytest.mark.filterwarnings("ignore::itofit.ConvergenceWarning")


LINKS = [("identity", False), ("identity", True), ("square", True), ("log", True)]


@cache
def fitted(kind="diffusion", d=2, seed=0, structure="full", refine=True, **how):
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1, 1, (400, d)), rng.uniform(-1, 1, (400, d))
    if kind == "underdamped":
        v1 = b - 0.1 * a + 0.1 * rng.normal(size=(400, d))
        data = Transitions.from_underdamped(a, b, a + 0.1 * b, v1, 0.1)
    else:
        data = Transitions.from_pairs(a, 0.9 * a + 0.2 * rng.normal(size=(400, d)), 0.1)
    sde = itofit.fit(data, structure=structure, drift=FEW, covariance=FEW, refine=refine, rng=seed, **how)
    return sde, data


def with_functions(sde, drift, covariance, box, **changes):
    """The model with other functions: a sine of small frequency is a line to a part in a million."""
    return replace(
        sde,
        drift_function=replace(sde.drift_function, series=drift),
        covariance_function=replace(sde.covariance_function, series=covariance),
        box=np.array(box),
        **changes,
    )


def line(slope, value=0.0, epsilon=1e-3):
    """x ↦ value + slope · x, for |x| of order one."""
    return FourierSeries(
        omega=np.array([[epsilon]]),
        beta=np.array([[-1j * slope / epsilon]]),
        shift=np.zeros(1),
        scale=np.ones(1),
        offset=np.array([value]),
    )


def ornstein_uhlenbeck(theta=1.5, sigma=0.7, box=((-50.0,), (50.0,))):
    return with_functions(fitted(d=1, refine=False)[0], line(-theta), line(0.0, sigma**2), box)


def growth_without_noise():
    """dx = x dt, known on [-1, 2]."""
    tiny = np.array([[1e-6]])
    return with_functions(ornstein_uhlenbeck(), line(1.0), line(0.0, 1e-12), ((-1.0,), (2.0,)), floor_factor=tiny)


@ALGORITHMS
@pytest.mark.parametrize("structure", ["auto", "diagonal", "full"])
def test_shapes_of_everything(structure, refine):
    sde, data = fitted(structure=structure, refine=refine)
    x = data.inputs[:7]
    assert sde.drift(x).shape == (7, 2)
    assert sde.drift_jacobian(x).shape == (7, 2, 2)
    assert sde.covariance(x).shape == sde.covariance(x, raw=True).shape == sde.diffusion(x).shape == (7, 2, 2)
    assert sde.nll(data, pointwise=True).shape == (400,)
    assert sde.nll(data) == pytest.approx(sde.nll(data, pointwise=True).mean())


@ALGORITHMS
def test_one_input_may_be_a_vector(refine):
    sde, _ = fitted(d=1, refine=refine)
    x = np.linspace(-1, 1, 5)
    np.testing.assert_array_equal(sde.drift(x), sde.drift(x[:, None]))
    np.testing.assert_array_equal(sde.covariance(x), sde.covariance(x[:, None]))


@ALGORITHMS
def test_diffusion_factors_give_back_the_covariance(refine):
    sde, data = fitted(refine=refine)
    for factor in ("cholesky", "symmetric"):
        sigma = sde.diffusion(data.inputs, factor=factor)
        np.testing.assert_allclose(sigma @ sigma.swapaxes(1, 2), sde.covariance(data.inputs), rtol=1e-10, atol=1e-14)


def test_floored_points_are_found_and_their_share_is_told():
    sde, data = fitted(d=1, refine=False)
    low = with_functions(sde, line(0.0), line(1.0), sde.box)  # a "covariance" that is negative for x < 0
    x = np.linspace(-1, 1, 201)
    np.testing.assert_array_equal(low.floored(x), x < low.floor * low.floor_factor[0, 0] ** 2)
    least = low.floor * low.floor_factor[0, 0] ** 2
    np.testing.assert_allclose(low.covariance(x)[:, 0, 0], np.maximum(x, least), rtol=1e-5, atol=1e-9)
    assert (low.covariance(x, raw=True)[:100] < 0).all()
    assert sde.floored_share == sde.floored(data.inputs).mean()
    assert "changed it at" in sde.summary()


@pytest.mark.parametrize("structure", ["full", "diagonal"])
@pytest.mark.parametrize("link", ["identity", "square", "log"])
def test_limits_hold_and_places_that_need_them_are_found(structure, link):
    sde, data = fitted(structure=structure, link=link)
    limits = np.array([[0.9, 0.9], [1.1, 1.1]])  # so narrow that some places need them
    sde = with_functions(sde, sde.drift_function.series, sde.covariance_function.series, sde.box, limits=limits)
    inverse = np.linalg.inv(sde.floor_factor)

    def values(raw):
        return np.linalg.eigvalsh(inverse @ sde.covariance(data.inputs, raw=raw) @ inverse.T)

    outside = (values(raw=True) < 0.9).any(axis=1) | (values(raw=True) > 1.1).any(axis=1)
    assert outside.any()
    np.testing.assert_array_equal(sde.floored(data.inputs), outside)
    assert values(raw=False).min() > 0.9 - 1e-9
    assert values(raw=False).max() < 1.1 + 1e-9
    np.testing.assert_allclose(
        sde.covariance(data.inputs)[~outside], sde.covariance(data.inputs, raw=True)[~outside], rtol=1e-10, atol=1e-12
    )


@pytest.mark.filterwarnings("ignore::itofit.DataWarning")
@pytest.mark.parametrize(("link", "refine"), LINKS)
def test_the_share_of_places_that_needed_limits_is_told(link, refine):
    sde, data = fitted(link=link, refine=refine, floor=0.95)
    assert sde.floored_share == sde.floored(data.inputs).mean() > 0
    assert f"changed it at {sde.floored_share:.2%} of the data" in sde.summary()


@pytest.mark.parametrize("structure", ["full", "diagonal"])
@pytest.mark.parametrize(("link", "refine"), LINKS)
def test_covariance_is_positive_definite_far_outside_the_data(structure, link, refine):
    sde, _ = fitted(structure=structure, link=link, refine=refine)
    x = np.random.default_rng(0).uniform(-5, 5, (20_000, 2))
    np.linalg.cholesky(sde.covariance(x))


def test_simulation_has_the_moments_of_an_ornstein_uhlenbeck_process():
    theta, sigma, dt, n_steps, n_paths = 1.5, 0.7, 0.01, 200, 20_000
    paths = ornstein_uhlenbeck(theta, sigma).simulate(np.full(n_paths, 1.2), dt, n_steps, rng=0)[:, :, 0]
    t = dt * np.arange(n_steps + 1)
    shrink = 1 - theta * dt  # of one Euler-Maruyama step, whose moments are exact
    mean = 1.2 * shrink ** np.arange(n_steps + 1)
    variance = sigma**2 * dt * (1 - shrink ** (2 * np.arange(n_steps + 1))) / (1 - shrink**2)
    # 4.5 standard errors at four times: a false alarm in about 20,000 seeds
    for i in (1, 10, 50, 200):
        assert abs(paths[:, i].mean() - mean[i]) < 4.5 * np.sqrt(variance[i] / n_paths)
        assert abs(paths[:, i].var() / variance[i] - 1) < 4.5 * np.sqrt(2 / n_paths)
    # and the process's own, up to the error of the step
    np.testing.assert_allclose(paths.mean(axis=0), 1.2 * np.exp(-theta * t), atol=theta * dt + 0.02)
    np.testing.assert_allclose(
        paths.var(axis=0)[20:], sigma**2 * (1 - np.exp(-2 * theta * t[20:])) / (2 * theta), rtol=2 * theta * dt + 0.05
    )
    covariance = np.cov(paths[:, 100], paths[:, 200])[0, 1]
    assert abs(covariance - variance[100] * shrink**100) < 4.5 * variance[200] / np.sqrt(n_paths)


@ALGORITHMS
def test_underdamped_steps_move_the_position_with_the_old_velocity(refine):
    sde, _ = fitted("underdamped", d=2, refine=refine)
    start = np.array([[0.1, -0.2, 0.3, 0.4], [0.0, 0.1, -0.1, 0.2]])
    paths = sde.simulate(start, 0.05, 3, rng=0)
    assert paths.shape == (2, 4, 4)
    x, v = paths[:, :, :2], paths[:, :, 2:]
    np.testing.assert_allclose(x[:, 1:], x[:, :-1] + 0.05 * v[:, :-1])
    noise = np.random.default_rng(0).standard_normal((2, 2))
    z = np.hstack([x[:, 1], v[:, 0]])
    kick = np.sqrt(0.05) * (sde.diffusion(z) @ noise[:, :, None])[:, :, 0]
    np.testing.assert_allclose(v[:, 1], v[:, 0] + 0.05 * sde.drift(z) + kick)


def test_outside_the_data_the_nearest_point_moves_the_path():
    sde = growth_without_noise()
    with pytest.warns(ExtrapolationWarning, match=r"100.00% of the steps were outside"):
        paths = sde.simulate([5.0, -5.0], 0.1, 4, rng=0)
    steps = np.diff(paths[:, :, 0], axis=1)
    np.testing.assert_allclose(steps[0], 0.2, atol=1e-3)
    np.testing.assert_allclose(steps[1], -0.1, atol=1e-3)


def test_outside_the_data_a_path_can_follow_the_series_or_stop():
    sde = growth_without_noise()
    with pytest.warns(ExtrapolationWarning, match="extrapolated"):
        paths = sde.simulate([1.95], 0.1, 3, outside="extrapolate", rng=0)
    np.testing.assert_allclose(paths[0, :, 0], 1.95 * 1.1 ** np.arange(4), rtol=2e-3)
    stopped = sde.simulate([1.95, 0.5], 0.1, 3, outside="stop", rng=0)
    np.testing.assert_allclose(stopped[0, :, 0], [1.95, 2.145, 2.145, 2.145], rtol=2e-3)
    np.testing.assert_allclose(stopped[1, :, 0], 0.5 * 1.1 ** np.arange(4), rtol=2e-3)


def test_a_stopped_underdamped_path_stands_still():
    sde, _ = fitted("underdamped", d=1)
    paths = sde.simulate([[0.0, 50.0]], 0.1, 5, outside="stop", rng=0)
    assert np.ptp(paths[0, 1:], axis=0).max() == 0


@pytest.mark.filterwarnings("ignore::itofit.ExtrapolationWarning")
@pytest.mark.parametrize("outside", ["nearest", "extrapolate", "stop"])
@pytest.mark.parametrize(("link", "refine"), LINKS)
def test_paths_stay_finite(outside, link, refine):
    sde, data = fitted(link=link, refine=refine)
    paths = sde.simulate(100 * data.inputs[:50], 0.5, 200, outside=outside, rng=0)
    assert np.isfinite(paths).all()


@pytest.mark.filterwarnings("ignore::itofit.ExtrapolationWarning")
def test_starts_may_be_one_point_or_many():
    two, _ = fitted(d=2)
    assert two.simulate([0.0, 0.0], 0.1, 5, rng=0).shape == (1, 6, 2)
    assert two.simulate(np.zeros((3, 2)), 0.1, 5, rng=0).shape == (3, 6, 2)
    one, _ = fitted(d=1)
    assert one.simulate(0.0, 0.1, 5, rng=0).shape == (1, 6, 1)
    assert one.simulate([0.0, 0.1, 0.2], 0.1, 5, rng=0).shape == (3, 6, 1)
    np.testing.assert_array_equal(one.simulate(0.0, 0.1, 5, rng=4), one.simulate(0.0, 0.1, 5, rng=4))


def test_general_models_cannot_be_simulated():
    rng = np.random.default_rng(0)
    data = Transitions(rng.random((100, 1)), rng.normal(size=(100, 1)), 0.1, kind="general")
    sde = itofit.fit(data, drift=FEW, covariance=FEW, rng=0)
    with pytest.raises(InputError, match="kind 'general'"):
        sde.simulate([0.0], 0.1, 3)


TEXTS = {
    True: ("all of them", "8 frequencies", "the data determine", "f of x1", "x2", "limits", "link        identity"),
    False: (
        "8 features",
        "ridge 0.01",
        "direct sums",
        "limits      Σ is kept above 0.001 times its mean",
        "link        identity",
    ),
}


@ALGORITHMS
def test_texts_name_what_matters(refine):
    sde, _ = fitted(refine=refine, link="identity")
    assert repr(sde) == "LearnedSDE(2 inputs, 2 outputs, full covariance, learned from 400 transitions)"
    for word in ("diffusion", "400 transitions", "drift", "covariance", "structure   full", "seed        0"):
        assert word in sde.summary()
    for word in TEXTS[refine]:
        assert word in sde.summary()


PROGRESS = {
    True: (
        "reading: [####################] 400 of 400 transitions",
        "drift: iteration 1, log-evidence",
        "covariance: iteration 1, log-evidence",
    ),
    False: (
        "drift: [####################] read 400 of 400 rows",
        "drift: iteration 1 of at most 12, validation error",
        "covariance: [####################] read 400 of 400 rows",
        "covariance: iteration 1 of at most 12",
    ),
}


@ALGORITHMS
def test_progress_is_written_when_asked_and_cleared(capsys, monkeypatch, refine):
    monkeypatch.setattr("itofit._progress.PAUSE", 0.0)
    sde, data = fitted(refine=refine)
    sde.simulate([0.0, 0.0], 0.01, 3, rng=0, progress=True)
    itofit.fit(data, drift=FEW, covariance=FEW, refine=refine, rng=0, progress=True)
    shown = capsys.readouterr().err
    for text in ("simulating: [#######-------------] step 1 of 3", "reading: 400 transitions", *PROGRESS[refine]):
        assert text in shown
    assert shown.endswith("\r")
    itofit.fit(data, drift=FEW, covariance=FEW, refine=refine, rng=0)
    assert capsys.readouterr().err == ""


def test_outside_the_data_the_noise_is_that_of_the_nearest_point():
    sde = with_functions(
        ornstein_uhlenbeck(), line(0.0), line(0.5, 1.0), ((-1.0,), (1.0,)), floor_factor=np.array([[1e-6]])
    )
    with pytest.warns(ExtrapolationWarning):
        paths = sde.simulate(np.full(4000, 3.0), 1e-4, 1, rng=0)
    # the variance at 1 is 1.5, at 3 it would be 2.5: five standard errors
    assert np.diff(paths[:, :, 0]).var() / 1e-4 == pytest.approx(1.5, abs=5 * 1.5 * np.sqrt(2 / 4000))


def test_the_share_of_steps_outside_is_told():
    sde = growth_without_noise()
    with pytest.warns(ExtrapolationWarning, match=r"^25.00% of the steps"):  # one path of two, two steps of four
        sde.simulate([1.7, 0.5], 0.1, 4, rng=0)


@pytest.mark.parametrize(("link", "refine"), LINKS)
def test_losses_in_batches_are_those_of_all_rows(monkeypatch, link, refine):
    sde, data = fitted(link=link, refine=refine)
    whole, below = sde.nll(data, pointwise=True), sde.floored(data.inputs)
    monkeypatch.setattr("itofit.model.likelihood.BATCH_ROWS", 37)
    np.testing.assert_allclose(sde.nll(data, pointwise=True), whole, rtol=1e-12)
    np.testing.assert_array_equal(sde.floored(data.inputs), below)
