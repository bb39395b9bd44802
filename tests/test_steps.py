"""Steps: whether a fit corrects for their length, and which of them are too long to learn from."""

import warnings
from importlib import import_module

import numpy as np
import pytest

import itofit
from itofit import InputError, Transitions
from itofit._progress import Progress
from itofit.data.filtered import at_most
from itofit.data.survey import survey
from itofit.learning.automatic.method import Automatic
from itofit.learning.followed import followed_transitions
from itofit.learning.options import FitOptions
from itofit.learning.pipeline import Task

long_steps = import_module("itofit.learning.long_steps")
followed_module = import_module("itofit.learning.followed")


def rms(values):
    return np.sqrt(np.mean(np.square(values)))


def linear(n, h, seed=0):
    """Of dx = −x dt + dW in its stationary state, exactly; h is one length or one for each."""
    rng = np.random.default_rng(seed)
    x = np.sqrt(0.5) * rng.normal(size=n)
    return Transitions.from_pairs(x, np.exp(-h) * x + np.sqrt((1 - np.exp(-2 * h)) / 2) * rng.normal(size=n), h)


def cycle(x):
    """The drift of a limit cycle."""
    radius = (x**2).sum(axis=1, keepdims=True)
    return x * (1 - radius) + 1.5 * np.stack([-x[:, 1], x[:, 0]], axis=1)


def tracks_with_gaps(seed, n_tracks=40, n_steps=80, share=0.03):
    """Tracks of the cycle with steps of about 0.05, of which 3 % are ten to forty times as long."""
    rng = np.random.default_rng(seed)
    x, seen, times = rng.normal(size=(n_tracks, 2)), [], [np.zeros(n_tracks)]
    for _ in range(n_steps):
        seen.append(x)
        gap = rng.random(n_tracks) < share
        h = np.where(gap, rng.uniform(0.5, 2, n_tracks), rng.uniform(0.03, 0.07, n_tracks))
        times.append(times[-1] + h)
        fine = np.full(n_tracks, 25) + 500 * gap
        for k in range(fine.max()):
            d = np.where(k < fine, h / fine, 0.0)[:, None]
            x = x + d * cycle(x) + 0.3 * np.sqrt(d) * rng.normal(size=x.shape)
    paths = np.stack([*seen, x], axis=1)
    return Transitions.from_trajectories(list(paths), times=list(np.stack(times, axis=1)))


@pytest.fixture(scope="module")
def gaps():
    return tracks_with_gaps(0)


def quiet_fit(data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", itofit.DataWarning)
        return itofit.fit(data, **{"rng": 0, **options})


# Whether it is corrected


def test_the_default_corrects_what_the_data_show():
    data = linear(20_000, 0.3)
    sde, asked = itofit.fit(data, rng=0), itofit.fit(data, correct_step=True, rng=0)
    assert sde.scheme == "corrected"
    assert sde.step_correction.outcome == "corrected"
    x = np.linspace(-1, 1, 50)
    np.testing.assert_array_equal(sde.drift(x), asked.drift(x))
    np.testing.assert_array_equal(sde.covariance(x), asked.covariance(x))
    assert "corrected for h = 0.3: f by" in sde.summary()


def test_what_is_noise_is_not_corrected():
    """Increments without drift: two of 120 data sets of up to 3,000 transitions were corrected, so 4 of 30 are rare."""
    outcomes = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1, 1, 500)
        sde = itofit.fit(Transitions.from_pairs(x, x + 0.3 * rng.normal(size=500), 0.1), rng=seed)
        outcomes.append(sde.step_correction.outcome)
        if outcomes[-1] != "corrected":
            assert sde.scheme == "euler"
            np.testing.assert_array_equal(sde.drift(x), sde.one_step.drift(x))
            np.testing.assert_array_equal(sde.covariance(x), sde.one_step.covariance(x))
            assert not sde.step_trust(x).any()
            assert "not corrected for h = 0.1: " in sde.summary()
    assert outcomes.count("too small") >= 24
    assert outcomes.count("corrected") <= 3


def test_steps_too_short_to_matter_are_not_corrected():
    sde = itofit.fit(linear(1000, 0.001), rng=0)
    assert sde.step_correction.outcome == "too small"
    assert "is less than the data can show" in sde.summary()


def test_the_default_is_no_worse_than_one_step_with_few_data():
    """A linear process, 40 data sets: errors of the drift, mostly noise, hardly rise, and those of Σ are halved."""
    errors = []
    for seed in range(40):
        data = linear(300, 0.2, seed)
        sde, x = itofit.fit(data, rng=seed), data.inputs
        errors.append([(rms(model.drift(x) + x), rms(model.covariance(x) - 1)) for model in (sde.one_step, sde)])
    drift, covariance = np.moveaxis(errors, 2, 0)
    assert drift[:, 1].mean() < 1.05 * drift[:, 0].mean()
    assert (drift[:, 1] - drift[:, 0]).max() < 0.2
    assert covariance[:, 1].mean() < 0.6 * covariance[:, 0].mean()


def test_the_default_says_of_steps_that_are_too_long_in_the_summary_alone(recwarn):
    rng = np.random.default_rng(0)
    z = rng.uniform(-2, 2, (100, 2))
    seen = []
    for _ in range(16):
        seen.append(z)
        for _ in range(50):
            z = z + 0.01 * np.stack([z[:, 1], 2 * (1 - z[:, 0] ** 2) * z[:, 1] - z[:, 0]], axis=1)
            z = z + 0.01 * rng.normal(size=z.shape)
    sde = itofit.fit(Transitions.from_trajectories(list(np.stack(seen, axis=1)), dt=0.5), rng=0)
    assert sde.step_correction.outcome == "too long"
    assert "no drift and covariance were found that make such steps" in sde.summary()
    assert not recwarn.list


def test_there_is_nothing_to_correct_without_a_state_that_moves():
    data = linear(200, 0.3)
    general = Transitions(data.inputs, data.increments, data.h, kind="general")
    assert itofit.fit(general, rng=0).step_correction is None
    with pytest.raises(InputError, match="correct_step=True needs inputs"):
        itofit.fit(general, correct_step=True)
    assert quiet_fit(data, refine=False).step_correction is None
    assert itofit.fit(data, correct_step=False, rng=0).step_correction is None


def test_ensembles_of_models_that_were_not_corrected():
    sde = itofit.fit(linear(200, 0.001), ensemble=3, rng=0)
    assert sde.step_correction.withheld
    assert len(sde.members) == len(sde.one_step.members) == 2


# Rare places


def relaxing(seed, n=5000):
    """A track that relaxes from a distant start, with noise that grows with the distance."""
    rng = np.random.default_rng(seed)
    x = [np.array([4.0, -3.0])]
    for _ in range(n):
        x.append(0.8 * x[-1] + 0.05 * (0.3 + np.abs(x[-1])) * rng.normal(size=2))
    return Transitions.from_trajectories(np.array(x), dt=0.1)


@pytest.mark.parametrize("correct_step", [True, "auto"])
@pytest.mark.parametrize("seed", [0, 3, 5])
def test_a_distant_start_is_not_made_less_likely(seed, correct_step):
    """Corrections that were judged at random places cost up to three million nats there, and 660 in the mean."""
    data = relaxing(seed)
    sde = quiet_fit(data, correct_step=correct_step)
    excess = sde.nll(data, pointwise=True) - sde.one_step.nll(data, pointwise=True)
    assert excess.mean() < 0.01
    assert excess.max() < 20


@pytest.fixture(scope="module")
def followed_of_relaxing():
    """A track, and a function that draws transitions of it to follow."""
    data = relaxing(1)
    task = Task(
        data=data,
        survey=survey(data, Progress(False)),
        options=FitOptions(rng=0),
        rng=np.random.default_rng(0),
        seed=0,
        bar=Progress(False),
    )
    method = Automatic(task)
    learned = method.drift()
    sigma = method.covariance(method.residual_products(learned)).sigma
    return data, lambda seed: followed_transitions(
        data, len(data), learned.drift, learned.basis, sigma, method.scaling, seed
    )


def test_transitions_at_rare_places_are_followed(followed_of_relaxing):
    data, draw = followed_of_relaxing
    followed = draw(1)
    assert 500 < len(followed.data) < 2500
    assert followed.count.sum() == pytest.approx(len(data), rel=0.15)
    far = np.abs(data.inputs).max(axis=1) > 1.5
    seen = np.abs(followed.data.inputs).max(axis=1) > 1.5
    assert seen.sum() == far.sum() > 2
    np.testing.assert_array_equal(followed.count[seen], 1.0)


def test_rare_places_of_many_data_are_followed(followed_of_relaxing, monkeypatch):
    """Where leverages of a fifth of the data are computed, the outermost transition is among them.

    And as many are drawn by leverage as of all data: 47 in the mean besides the 50 at random, which ten draws know to
    three. A fifth of these would be 60 in all.
    """
    data, draw = followed_of_relaxing
    for name, value in (("MOST_LEVERAGES", 1000), ("LEAST_PLACES", 50), ("PLACES_PER_FEATURE", 1)):
        monkeypatch.setattr(followed_module, name, value)
    draws = [draw(seed) for seed in range(10)]
    for each in draws:
        (start,) = np.flatnonzero((each.data.inputs == data.inputs[0]).all(axis=1))
        assert each.count[start] == 1.0
    assert 80 < np.mean([len(each.data) for each in draws]) < 110
    assert np.mean([each.count.sum() for each in draws]) == pytest.approx(len(data), rel=0.15)


def crooked(seed, n_tracks=5000, n_steps=100, h=0.02, fine=5):
    """Half a million transitions between two wells, with noise that varies; few are far outside."""
    rng = np.random.default_rng(seed)
    x, seen = rng.choice([-0.57, 0.56], n_tracks, p=[0.85, 0.15]), []
    for _ in range(50 + n_steps + 1):
        seen.append(x)
        for _ in range(fine):
            drift = -np.abs(x) * x + 1.5 * np.sin(5 * x) * np.exp(-(x**2))
            noise = 0.5 + 0.3 / (1 + np.exp(-6 * x))
            x = x + h / fine * drift + noise * np.sqrt(h / fine) * rng.normal(size=n_tracks)
    return Transitions.from_trajectories(list(np.stack(seen[50:], axis=1)), dt=h)


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_corrections_at_the_ends_of_many_data_are_no_larger_than_elsewhere(seed):
    """In the wells Σ grows by 13 %. Where no step was followed, it grew tenfold, or shrank to a sixth."""
    data = crooked(seed)
    sde = itofit.fit(data, rng=0)
    x = np.linspace(data.inputs.min(), data.inputs.max(), 200)
    ratio = sde.covariance(x) / sde.one_step.covariance(x)
    assert ratio.min() > 0.7
    assert 1.1 < ratio.max() < 1.4
    assert np.abs(sde.drift(x) - sde.one_step.drift(x)).max() < 1.0


# Processes in steps


def euler_steps(n, seed=0):
    """Single Euler steps of two lengths of dx = −x dt + 0.5 dW."""
    rng = np.random.default_rng(seed)
    x, h = rng.normal(size=n), rng.choice([0.1, 0.9], n)
    return Transitions.from_pairs(x, x - h * x + 0.5 * np.sqrt(h) * rng.normal(size=n), h)


def test_the_check_tells_processes_in_steps_from_those_in_continuous_time():
    data = euler_steps(20_000)
    sde = quiet_fit(data, correct_step=True, max_h=None)
    if sde.scheme == "corrected":
        finding = itofit.check(sde, euler_steps(20_000, seed=1))["discretisation"]
        assert finding.verdict != "good"
        assert finding.values["gain_of_one_step"] > 0.004
        assert "predict the data better" in finding.text
        assert "correct_step=False" in finding.advice
    rng = np.random.default_rng(0)
    h = rng.choice([0.1, 0.9], 20_000)
    sde = quiet_fit(linear(20_000, h), max_h=None)
    assert itofit.check(sde, linear(20_000, h, seed=1))["discretisation"].values["gain_of_one_step"] == 0


# Steps that are too long


def test_the_median_length_does_not_depend_on_how_data_are_cut():
    rng = np.random.default_rng(0)
    h = np.exp(rng.normal(size=5001))
    data = Transitions(rng.normal(size=5001), rng.normal(size=5001), h)
    parts = [data[:7], data[7:3000], data[3000:]]
    whole, cut = (survey(each, Progress(False)) for each in (data, Transitions.from_blocks(parts)))
    assert whole.h_median == cut.h_median == pytest.approx(np.median(h), rel=0.012)
    assert survey(Transitions(np.arange(5.0), np.arange(5.0), 0.1), Progress(False)).h_median == 0.1


def test_steps_over_gaps_are_left_out(gaps):
    short = gaps[gaps.h < 0.3]
    with pytest.warns(itofit.DataWarning, match=r"of 3,200 transitions took longer than 0\.\d+, up to .*max_h=None"):
        sde = itofit.fit(gaps, rng=0)
    left_out = sde.data.left_out
    assert (left_out.n, sde.data.n_transitions) == (len(gaps) - len(short), len(short))
    assert (left_out.longest, sde.data.h_max) == (gaps.h.max(), short.h.max())
    assert sde.data.h_max < left_out.max_h < 0.5
    assert f"; {left_out.n} longer than {left_out.max_h:.3g} left out (up to {gaps.h.max():.3g})" in sde.summary()
    alone = itofit.fit(short, rng=0)
    np.testing.assert_array_equal(sde.drift(gaps.inputs), alone.drift(gaps.inputs))
    kept = quiet_fit(gaps, max_h=None)
    assert kept.data.left_out is None
    x = short.inputs
    assert rms(sde.drift(x) - cycle(x)) < 0.6 * rms(kept.drift(x) - cycle(x))


def test_steps_over_gaps_are_left_out_of_files_as_well(gaps):
    parts = [gaps[:1000], gaps[1000:1500], gaps[1500:]]
    blocked = quiet_fit(Transitions.from_blocks(parts))
    sde = quiet_fit(gaps)
    assert blocked.data == sde.data
    np.testing.assert_allclose(blocked.drift(gaps.inputs), sde.drift(gaps.inputs), rtol=1e-9, atol=1e-12)


def test_a_limit_that_was_given_is_obeyed(gaps, recwarn):
    sde = itofit.fit(gaps, max_h=0.06, rng=0)
    assert sde.data.n_transitions == (gaps.h <= 0.06).sum()
    assert sde.data.left_out.n == (gaps.h > 0.06).sum()
    assert itofit.fit(gaps[gaps.h < 0.3], max_h=1.0, rng=0).data.left_out is None
    assert not recwarn.list  # who asks for it knows
    with pytest.raises(InputError, match="no transition took a time between"):
        itofit.fit(gaps, max_h=0.01)
    algorithm_2 = quiet_fit(gaps, refine=False, max_h=0.06)
    assert algorithm_2.data.n_transitions == sde.data.n_transitions
    assert quiet_fit(gaps, refine=False).data.left_out is None


def test_even_steps_are_not_asked_about(monkeypatch):
    """Up to three times the median: nothing is learned twice, and nothing changes."""
    rng = np.random.default_rng(0)
    data = linear(1000, rng.uniform(0.05, 0.12, 1000))
    expected = itofit.fit(data, max_h=None, rng=0)
    monkeypatch.setattr(long_steps, "_longest", None)
    np.testing.assert_array_equal(itofit.fit(data, rng=0).drift(data.inputs), expected.drift(data.inputs))


@pytest.mark.parametrize(("rate", "left_out"), [(0.2, False), (6.0, True)])
def test_long_steps_of_slow_dynamics_are_kept(rate, left_out):
    """A tenth of the steps is 0.5 or 1, others 0.05; h ‖∇f‖ is 0.2 at most, or 3 at least."""
    rng = np.random.default_rng(0)
    h = np.where(rng.random(4000) < 0.1, rng.choice([0.5, 1.0], 4000), 0.05)
    data = linear(4000, h * rate)
    data = Transitions(data.inputs, data.increments, h)
    assert (quiet_fit(data).data.left_out is not None) == left_out


@pytest.mark.parametrize("error", [0.0, 0.4])
def test_long_steps_that_show_errors_of_measurement_are_kept(error):
    """h ‖∇f‖ is 0.4 at most. Errors in every observation look like a pull back, ten times as strong in short steps."""
    rng = np.random.default_rng(0)
    h = np.where(rng.random(4000) < 0.1, rng.uniform(0.5, 2, 4000), 0.05)
    x = np.zeros(4001)
    for i, step in enumerate(h):
        decay = np.exp(-0.2 * step)
        x[i + 1] = decay * x[i] + np.sqrt((1 - decay**2) / 0.4) * rng.normal()
    seen = x + error * rng.normal(size=4001)
    data = Transitions.from_trajectories(seen, times=np.concatenate([[0.0], np.cumsum(h)]))
    assert itofit.fit(data, rng=0).data.left_out is None


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_single_long_step_is_left_out():
    """It has no spread that its move could be measured by."""
    h = np.where(np.arange(500) == 70, 3.0, 0.05)
    with pytest.warns(itofit.DataWarning, match="1 of 500 transitions took longer"):
        assert itofit.fit(linear(500, h), rng=0).data.left_out.n == 1


def test_few_transitions_are_all_kept():
    """Without the long ones there would be too few to learn from."""
    rng = np.random.default_rng(0)
    h = np.where(np.arange(30) < 15, 0.05, 5.0)
    assert itofit.fit(linear(30, h), rng=0).data.left_out is None
    assert quiet_fit(Transitions(rng.normal(size=(40, 1)), rng.normal(size=(40, 1)), np.tile(h, 2)[:40])) is not None


def test_steps_longer_than_learned_from_are_not_judged(gaps):
    sde = quiet_fit(gaps)
    diagnosis = itofit.check(sde, gaps)
    assert diagnosis.n_transitions == sde.data.n_transitions
    assert diagnosis["discretisation"].values["n_longer"] == sde.data.left_out.n
    assert f"{sde.data.left_out.n} transitions longer than those learned from" in diagnosis["discretisation"].text
    only_long = gaps[gaps.h > 0.3]
    assert itofit.check(sde, only_long).n_transitions == len(only_long)


def test_the_advice_on_uneven_steps_names_the_limit(gaps):
    finding = itofit.check(quiet_fit(gaps, max_h=None, correct_step=False), gaps)["discretisation"]
    assert finding.verdict != "good"
    assert "max_h=0." in finding.advice


def test_transitions_up_to_a_length():
    data = linear(100, np.linspace(0.1, 1, 100))
    np.testing.assert_array_equal(at_most(data, 0.5).h, data.h[data.h <= 0.5])
    named = Transitions(data.inputs, data.increments, data.h, input_names="height")
    blocked = at_most(Transitions.from_blocks([named[:70], named[70:]]), 0.5)
    assert (len(blocked), blocked.input_names, blocked.kind) == ((data.h <= 0.5).sum(), ("height",), "diffusion")
