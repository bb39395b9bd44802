"""Single transitions that start far from all others are left out; many are not."""

import numpy as np
import pytest

import itofit
from itofit import Transitions
from itofit._progress import Progress
from itofit.data.survey import survey
from itofit.learning.outliers import MOST_OUTLIERS, RARE


def wells(n=2000, far=(), seed=0, d=1):
    """Euler steps in a double well from places in [−1, 1], and some that start elsewhere."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.uniform(-1, 1, (n, d)), np.reshape(far, (-1, 1)) * np.ones(d)])
    near = np.clip(x, -1, 1)
    return Transitions.from_pairs(x, x + 0.05 * 4 * (near - near**3) + 0.1 * rng.normal(size=x.shape), 0.05)


def fitted(data, **options):
    return itofit.fit(data, correct_step=False, rng=0, **options)


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
