"""Error bars from data sets that are drawn with replacement, instead of from the posterior."""

import numpy as np
import pytest

import itofit
from itofit import InputError, Transitions
from itofit.data.resampling import resampled


def tracks(rates, seed=0, n_rows=100, h=0.1):
    """A track of dx = −rate x dt + 0.5 dW for each rate."""
    rng = np.random.default_rng(seed)
    x = np.zeros((len(rates), n_rows + 1, 1))
    for i in range(n_rows):
        x[:, i + 1, 0] = x[:, i, 0] * np.exp(-np.asarray(rates) * h) + 0.5 * np.sqrt(h) * rng.normal(size=len(rates))
    return Transitions.from_trajectories(x, dt=h)


@pytest.fixture(scope="module")
def same():
    """Tracks of one equation, learned with a bootstrap."""
    data = tracks(np.ones(40))
    return data, itofit.fit(data, bootstrap=20, rng=0, measurement_noise=False)


def test_whole_tracks_are_drawn_and_copies_keep_their_label():
    data = tracks(np.ones(12), n_rows=5)
    drawn = resampled(data, np.random.default_rng(0))
    assert len(drawn) == len(data)
    for label in np.unique(drawn.groups):
        own, copies = data.inputs[data.groups == label], drawn.inputs[drawn.groups == label]
        assert len(copies) % len(own) == 0
        np.testing.assert_array_equal(copies, np.tile(own, (len(copies) // len(own), 1)))
    assert len(np.unique(drawn.groups)) < 12


def test_single_transitions_are_drawn_where_there_are_no_tracks():
    pairs = Transitions.from_pairs(np.arange(100.0), np.arange(100.0) + 1, 0.1)
    drawn = resampled(pairs, np.random.default_rng(0))
    assert len(drawn) == 100
    assert len(np.unique(drawn.inputs)) == pytest.approx(63, abs=12)  # 1 − 1/e of them; four standard deviations


def test_tracks_of_one_equation_have_the_error_bars_of_the_posterior(same):
    data, sde = same
    posterior = itofit.fit(data, rng=0, measurement_noise=False)
    x = np.linspace(-0.6, 0.6, 5)
    np.testing.assert_array_equal(sde.drift(x), posterior.drift(x))
    ratio = sde.drift(x, return_std=True)[1] / posterior.drift(x, return_std=True)[1]
    assert 0.4 < ratio.mean() < 1.6


def test_tracks_that_differ_have_wider_ones():
    rates = np.where(np.arange(40) % 2, 0.2, 3.0)
    data = tracks(rates)
    x = [0.5]
    own, posterior = (itofit.fit(data, bootstrap=b, rng=0, measurement_noise=False) for b in (20, None))
    assert own.drift(x, return_std=True)[1] > 1.3 * posterior.drift(x, return_std=True)[1]


def test_samples_are_the_fits(same, tmp_path):
    _, sde = same
    x = np.array([0.2, 0.4])
    drawn = sde.sample(40, rng=0)
    assert len(drawn) == 40
    members = {tuple(np.round(member.drift(x).ravel(), 12)) for member in sde.members}
    assert {tuple(np.round(values.ravel(), 12)) for values in drawn.drift(x)} == members
    np.testing.assert_allclose(drawn.drift(x).std(axis=0, ddof=0), np.std([m.drift(x) for m in sde.members], axis=0))
    np.testing.assert_allclose(drawn[0].covariance(x), drawn.covariance(x)[0])
    sde.save(tmp_path / "sde.npz")
    again = itofit.load(tmp_path / "sde.npz")
    np.testing.assert_array_equal(again.drift(x, return_std=True)[1], sde.drift(x, return_std=True)[1])
    assert "20 draws of the tracks" in again.summary()


def test_errors_are_clear():
    with pytest.raises(InputError, match="bootstrap draws whole tracks and needs at least 8, got 3 tracks"):
        itofit.fit(tracks(np.ones(3)), bootstrap=20)
    with pytest.raises(InputError, match="choose ensemble or bootstrap"):
        itofit.fit(tracks(np.ones(20)), bootstrap=20, ensemble=2)
    blocks = Transitions.from_blocks([(np.arange(50.0), np.arange(50.0) + 1, np.full(50, 0.1))], form="pairs")
    with pytest.raises(InputError, match="bootstrap draws tracks of data in memory"):
        itofit.fit(blocks, bootstrap=20)
