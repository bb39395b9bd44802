"""Equations from the posterior: they spread as the error bars say, and each of them is an equation."""

import numpy as np
import pytest

import itofit
from itofit import InputError, Transitions
from itofit.model.known import KnownSDE

N = 400
"""Samples: their standard deviations are known to 3.5 %."""


@pytest.fixture(scope="module")
def double_well():
    true = KnownSDE(f=lambda x: x - x**3, sigma=lambda x: 0.5 + 0.2 * np.cos(x)[:, :, None])
    paths = true.simulate(np.linspace(-1, 1, 10), dt=0.01, n_steps=2000, rng=0)[:, ::2]
    return itofit.fit(Transitions.from_trajectories(paths, dt=0.02), rng=0)


@pytest.fixture(scope="module")
def plane():
    """Linear, with correlated noise."""
    root = np.linalg.cholesky([[1.0, 0.6], [0.6, 0.5]])
    true = KnownSDE(
        f=lambda x: x @ np.array([[-1.0, 2.0], [-2.0, -1.0]]),
        sigma=lambda x: np.broadcast_to(root, (len(x), 2, 2)),
        n_inputs=2,
        n_outputs=2,
    )
    paths = true.simulate(np.zeros((10, 2)), dt=0.01, n_steps=1000, rng=0)
    return itofit.fit(Transitions.from_trajectories(paths, dt=0.01), rng=0)


def points(sde, n=7):
    u = np.random.default_rng(1).random((n, sde.n_inputs))
    return sde.box[0] + (0.2 + 0.6 * u) * (sde.box[1] - sde.box[0])


@pytest.mark.parametrize("name", ["double_well", "plane"])
def test_samples_spread_as_the_error_bars_say(name, request):
    """Ratios of standard deviations differ from one by 3.5 % (one standard deviation): 0.2 is more than five."""
    sde = request.getfixturevalue(name)
    x, sampled = points(sde), sde.sample(N, rng=0)
    f, f_std = sde.drift(x, return_std=True)
    drifts = sampled.drift(x)
    np.testing.assert_allclose(drifts.std(axis=0), f_std, rtol=0.2)
    assert (np.abs(drifts.mean(axis=0) - f) < 5 * f_std / np.sqrt(N)).all()
    _, sigma_std = sde.covariance(x, return_std=True)
    np.testing.assert_allclose(sampled.covariance(x).std(axis=0), sigma_std, rtol=0.2)


@pytest.mark.parametrize("link", ["identity", "log", "square"])
def test_variances_are_within_their_intervals_as_often_as_they_say(link):
    """Of 400 samples 80 % ± 2 % are within 80 % intervals; few data, so that these are wide."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 300)
    data = Transitions.from_pairs(x, x + np.sqrt(0.1) * np.exp(0.5 * x) * rng.normal(size=300), h=0.1)
    sde = itofit.fit(data, link=link, correct_step=False, rng=0)
    at = np.linspace(-0.3, 0.8, 5)  # below, the limits of Σ cut samples
    low, high = sde.variance_interval(at, level=0.8)
    variances = sde.sample(N, rng=0).covariance(at)[:, :, :, 0]
    assert (variances > 0).all()
    share = ((variances > low) & (variances < high)).mean(axis=0)
    assert (np.abs(share - 0.8) < 0.1).all(), share


def test_errors_of_the_drift_are_correlated_as_the_noise(plane):
    drifts = plane.sample(N, rng=0).drift(points(plane))
    correlations = [np.corrcoef(drifts[:, i].T)[0, 1] for i in range(drifts.shape[1])]
    Sigma = plane.covariance(plane.box.mean(axis=0)[None])[0]
    assert np.mean(correlations) == pytest.approx(Sigma[0, 1] / np.sqrt(Sigma[0, 0] * Sigma[1, 1]), abs=0.1)


@pytest.mark.parametrize("name", ["double_well", "plane"])
def test_each_is_an_equation_and_all_together_are_the_same(name, request):
    sde = request.getfixturevalue(name)
    x, sampled = points(sde), sde.sample(5, rng=3)
    assert len(sampled) == len(list(sampled)) == 5
    np.testing.assert_allclose([one.drift(x) for one in sampled], sampled.drift(x), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose([one.covariance(x) for one in sampled], sampled.covariance(x), rtol=1e-9)
    own = np.random.default_rng(0).normal(size=(5, 3, sde.n_inputs))
    expected = [one.drift(at) for one, at in zip(sampled, own, strict=True)]
    np.testing.assert_allclose(sampled.drift_at_own(own), expected, rtol=1e-9, atol=1e-12)
    assert (np.linalg.eigvalsh(sampled.covariance(x)) > 0).all()
    one = sampled[-1]
    assert one.simulate(np.zeros((2, sde.n_outputs)), dt=0.01, n_steps=3, rng=0).shape == (2, 4, sde.n_outputs)
    assert (one.scheme, one.input_names, one.kind) == (sde.scheme, sde.input_names, sde.kind)
    assert one.nll  # an equation like others
    assert "5 equations" in repr(sampled)
    with pytest.raises(IndexError, match="5 equations"):
        sampled[5]


def test_the_same_seed_gives_the_same_equations(double_well):
    first, again, other = (double_well.sample(3, rng=seed).drift([0.5]) for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).all()


def test_members_of_an_ensemble_take_turns():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 400)
    data = Transitions.from_pairs(x, x - 0.1 * np.sin(3 * x) + 0.1 * rng.normal(size=400), h=0.1)
    sde = itofit.fit(data, ensemble=3, correct_step=False, rng=0)
    sampled = sde.sample(N, rng=0)
    at = np.linspace(-0.9, 0.9, 5)
    assert len(sampled) == N
    _, std = sde.drift(at, return_std=True)
    np.testing.assert_allclose(sampled.drift(at).std(axis=0), std, rtol=0.35)


def test_covariates_periods_and_measurement_noise_come_along():
    rng = np.random.default_rng(0)
    u = rng.choice([0.0, 1.0], size=(1, 3001, 1))
    angle = np.cumsum(0.1 * rng.normal(size=3001)) % (2 * np.pi)
    data = Transitions.from_trajectories(angle[None, :, None], dt=0.1, covariates=u, periodic={0: 2 * np.pi})
    sde = itofit.fit(data, rng=0)
    one = sde.sample(2, rng=0)[0]
    assert one.n_covariates == 1
    assert (one.periods == sde.periods).all()
    ends = one.drift([[0.0, 1.0], [2 * np.pi, 1.0]])
    assert ends[0] == pytest.approx(ends[1], abs=1e-9)
    assert one.simulate(0.0, dt=0.1, n_steps=5, covariates=[1.0], rng=0).shape == (1, 6, 1)
    assert one.measurement_noise is sde.measurement_noise


def test_what_cannot_be_drawn(double_well):
    with pytest.raises(InputError, match="n must be a whole number >= 1"):
        double_well.sample(0)
    x = np.random.default_rng(0).normal(size=300)
    plain = itofit.fit(Transitions.from_pairs(x, 0.9 * x + 0.1 * x[::-1], h=0.1), refine=False, rng=0)
    with pytest.raises(InputError, match="no error bars"):
        plain.sample(3)


def test_a_drift_in_units_of_the_noise(plane):
    """f = Σ^½ g with the Σ of the same draw; such models have no error bars of their own, so one is made of another."""
    from dataclasses import replace

    own = replace(plane, drift_in_noise_units=True)
    x = points(plane)
    g, Sigma = plane.sample(3, rng=0).drift(x), plane.sample(3, rng=0).covariance(x)
    values, vectors = np.linalg.eigh(Sigma)
    root = (vectors * np.sqrt(values)[..., None, :]) @ vectors.mT
    np.testing.assert_allclose(own.sample(3, rng=0).drift(x), (root @ g[..., None])[..., 0], rtol=1e-9)
