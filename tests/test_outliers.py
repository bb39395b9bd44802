"""Single transitions that start far from all others are left out; many are not, nor are relaxations."""

import numpy as np
import pytest

import itofit
from itofit import Transitions
from itofit._progress import Progress
from itofit.data.survey import survey
from itofit.learning.options import FitOptions
from itofit.learning.outliers import MOST_OUTLIERS, RARE, outliers
from itofit.learning.pipeline import Task


def wells(n=2000, far=(), seed=0, d=1):
    """Euler steps in a double well from places in [−1, 1], and some that start elsewhere."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.uniform(-1, 1, (n, d)), np.reshape(far, (-1, 1)) * np.ones(d)])
    near = np.clip(x, -1, 1)
    return Transitions.from_pairs(x, x + 0.05 * 4 * (near - near**3) + 0.1 * rng.normal(size=x.shape), 0.05)


def fitted(data, **options):
    return itofit.fit(data, correct_step=False, rng=0, **options)


def outliers_of(data):
    """What is found before a fit."""
    bar, rng = Progress(False), np.random.default_rng(0)
    return outliers(Task(data=data, survey=survey(data, bar), options=FitOptions(), rng=rng, seed=0, bar=bar))


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("far", [[1e3], [-1e6], [50.0, -1e5, 1e9]])
def test_an_outlier_changes_nothing(far, d):
    with pytest.warns(itofit.DataWarning, match="far from all others"):
        sde = fitted(wells(far=far, d=d))
    alone = fitted(wells(far=far, d=d)[:2000])
    x = np.linspace(-0.9, 0.9, 20)[:, None] * np.ones(d)
    np.testing.assert_array_equal(sde.drift(x), alone.drift(x))
    np.testing.assert_array_equal(sde.covariance(x), alone.covariance(x))
    assert sde.data.n_transitions == 2000
    assert np.abs(sde.box).max() < 1.1


def test_the_warning_says_how_many_and_where_the_others_are():
    with pytest.warns(itofit.DataWarning, match=r"^2 transitions left out .* \(x between -\S+ and \S+\)"):
        fitted(wells(far=[100.0, -100.0]))
    with pytest.warns(itofit.DataWarning, match=r"^1 transition left out that starts far"):
        fitted(wells(far=[100.0]))


def test_outliers_in_blocks_are_the_same(recwarn):
    data = wells(far=[1e4])
    blocked = Transitions.from_blocks([data[:700], data[700:]])
    x = np.linspace(-0.9, 0.9, 20)
    np.testing.assert_array_equal(fitted(blocked).drift(x), fitted(data).drift(x))
    assert sum("far from all others" in str(w.message) for w in recwarn) == 2


@pytest.mark.filterwarnings("error::itofit.DataWarning")
def test_data_without_outliers_and_with_many_places_far_away_are_kept():
    assert fitted(wells()).data.n_transitions == 2000
    many = wells(far=np.linspace(20, 30, MOST_OUTLIERS + 5))
    assert fitted(many).data.n_transitions == len(many)


@pytest.mark.filterwarnings("error::itofit.DataWarning")
def test_the_beginnings_of_short_tracks_are_kept():
    """Two tracks that relax from far away: their first steps are a few of 80, and tell where the drift is strong."""
    rng = np.random.default_rng(0)
    tracks = []
    for start in (8.0, -6.0):
        track = [start]
        for _ in range(40):
            track.append(0.2 * track[-1] + 0.03 * rng.normal())
        tracks.append(np.array(track))
    data = Transitions.from_trajectories(tracks, dt=0.1)
    found = survey(data, Progress(False))
    low, high = found.core_low, found.core_high
    outside = ((data.inputs < low) | (data.inputs > high)).sum()
    assert len(data) / RARE < outside <= MOST_OUTLIERS  # or this test would not see what it is about
    assert fitted(data).data.n_transitions == len(data)


PULL = np.array([[-1.0, 0.8, 0.0], [-0.8, -1.5, 0.0], [0.5, 0.0, -0.7]])


def relaxing(n=6000, h=0.4, seed=0):
    """One track of a linear system of three variables that starts 30 standard deviations away."""
    rng = np.random.default_rng(seed)
    x = [np.array([9.0, -7.0, 6.0])]
    for _ in range(n):
        x.append(x[-1] + h * PULL @ x[-1] + 0.3 * np.sqrt(h) * rng.normal(size=3))
    return np.array(x)


@pytest.mark.filterwarnings("error::itofit.DataWarning")
@pytest.mark.parametrize("seed", range(3))
def test_a_relaxation_that_the_others_agree_with_is_kept(seed):
    x = relaxing(seed=seed)
    data = Transitions.from_trajectories(x, dt=0.4)
    found = outliers_of(data)
    assert 0 < len(found.rows) <= MOST_OUTLIERS
    assert found.relax
    sde = fitted(data)
    assert sde.data.n_transitions == len(data)
    away = x[:5]
    np.testing.assert_allclose(sde.drift(away), away @ PULL.T, atol=0.05 * np.abs(away @ PULL.T).max())


def test_a_relaxation_in_blocks_is_the_same():
    data = Transitions.from_trajectories(relaxing(), dt=0.4)
    blocked = Transitions.from_blocks([data[:4], data[4:1000], data[1000:]])
    np.testing.assert_array_equal(fitted(blocked).drift(data.inputs[:20]), fitted(data).drift(data.inputs[:20]))


def test_one_wrong_observation_of_a_track_is_no_relaxation():
    x = relaxing()[200:]
    x[1500] += 30.0
    data = Transitions.from_trajectories(x, dt=0.4)
    found = outliers_of(data)
    assert found.rows.inputs.shape == (1, 3)
    assert not found.relax
    with pytest.warns(itofit.DataWarning, match="^1 transition left out"):
        sde = fitted(data)
    without = fitted(data[np.arange(len(data)) != 1500])
    np.testing.assert_array_equal(sde.drift(data.inputs), without.drift(data.inputs))


def test_places_far_away_that_another_law_holds_for_are_left_out():
    """They do not move, and a model with them has to lose what it can tell of the double well."""
    data = wells(far=[20.0, 25.0])
    assert outliers_of(data).relax
    with pytest.warns(itofit.DataWarning, match="^2 transitions left out"):
        sde = fitted(data)
    np.testing.assert_array_equal(sde.drift(data.inputs), fitted(data[:2000]).drift(data.inputs))


def test_rows_that_say_the_same_with_any_model_gain_nothing():
    """Of an output that does not move at all no noise can be told."""
    data = wells(far=[20.0, 25.0])
    found = outliers_of(data)
    still = Transitions(found.rows.inputs, np.zeros_like(found.rows.increments), found.rows.h, kind="diffusion")
    sde = fitted(data[:2000])
    assert not found._replace(rows=still).belong(sde, sde, data[:2000])
