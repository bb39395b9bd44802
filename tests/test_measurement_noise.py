"""Tracks with errors of measurement: derivatives through the filter, what is learned, when nothing is, bad input."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

import itofit
from itofit import ARFF, InputError, Transitions
from itofit._checks import DataWarning
from itofit._progress import Progress
from itofit.data.following import follows
from itofit.data.survey import survey
from itofit.learning.automatic import few_data
from itofit.learning.automatic.method import Automatic
from itofit.learning.noisy import noisy_model, through_noise
from itofit.learning.noisy.noise_test import LEVEL, lag_products, p_of_gain
from itofit.learning.noisy.noisy_model import NoisyModel
from itofit.learning.noisy.noisy_tracks import with_features
from itofit.learning.noisy.track_scoring import Tracks
from itofit.learning.options import FitOptions
from itofit.learning.pipeline import Task, functions_of_one_step
from itofit.model import storage
from itofit.model.file_format import packed_model
from itofit.model.hidden.sensitivities import Packing, error_directions
from itofit.model.training import SWITCHED_OFF

H = 0.02


def wells(n_tracks, n, seed, sd=0.0, noise=lambda x: 0.5 + 0 * x, h=H, substeps=5):
    """Tracks (n_tracks, n, 1) of a double well, and the same with errors."""
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], (n_tracks, 1))
    path = np.empty((n, n_tracks, 1))
    for i in range(-20, n):
        for _ in range(substeps):
            dt = h / substeps
            x = x + dt * (x - x**3) + np.sqrt(dt) * noise(x) * rng.standard_normal(x.shape)
        if i >= 0:
            path[i] = x
    path = path.swapaxes(0, 1)
    return path, path + sd * rng.standard_normal(path.shape)


def tracks(paths, h=H):
    return Transitions.from_trajectories(list(paths), dt=h)


@pytest.fixture(scope="module")
def noisy():
    clean, seen = wells(20, 1001, 0, sd=0.1)
    data = tracks(seen)
    return clean, data, itofit.fit(data, rng=0)


@pytest.fixture(scope="module")
def plain(noisy):
    """A fit to the same data that takes errors for motion."""
    return itofit.fit(noisy[1], measurement_noise=False, rng=0)


@pytest.fixture(scope="module")
def few():
    """Fewer tracks with errors, and a fit."""
    data = tracks(wells(20, 151, 1, sd=0.1)[1])
    return data, itofit.fit(data, rng=0)


def model_of(data, noise, **options):
    """A model while it is learned, with a Σ that changes."""
    task = Task(
        data=data,
        survey=survey(data, Progress(False)),
        options=FitOptions(rng=0, **options),
        rng=np.random.default_rng(0),
        seed=0,
        bar=Progress(False),
    )
    method = Automatic(task)
    drift, covariance = functions_of_one_step(method)
    return NoisyModel.of(method, drift, with_features(covariance.sigma, drift), noise=noise, n_rows=0)


# Derivatives


@pytest.mark.parametrize("d", [1, 2])
def test_scores_are_the_gradient_of_the_likelihood(d):
    """Against central differences of the likelihood, in standard deviations of a score.

    That slopes of the drift change variances is neglected, which has mean zero where Σ is right.
    """
    rng = np.random.default_rng(d)
    h, n, n_tracks = 0.002, 100, 30  # short ones, which are filtered at once
    x = np.zeros((n, n_tracks, d))
    for i in range(n - 1):
        x[i + 1] = x[i] - h * (x[i] - 0.5 * np.sin(2 * x[i][:, ::-1])) + np.sqrt(h) * rng.standard_normal((n_tracks, d))
    data = tracks((x + 0.02 * rng.standard_normal(x.shape)).swapaxes(0, 1), h)
    noise = 4e-4 * np.eye(d)
    model = model_of(tracks(x.swapaxes(0, 1), h), noise, drift=ARFF(n_features=24))
    every = Tracks(data, h)
    sums = every.sums(model)

    def agrees(score, information, change, tolerance):
        eps = 0.1 / np.sqrt(information)
        up, down = (every.sums(replace(model, **change(sign * eps))).loss for sign in (1, -1))
        assert abs((down - up) / (2 * eps) - score) < tolerance * np.sqrt(information)

    for k in (0, 1, model.amplitudes.shape[1] - 1):
        step = np.zeros(model.amplitudes.size)
        step[k] = 1.0
        agrees(
            sums.drift.score[k],
            sums.drift.information[k, k],
            lambda eps, step=step: {"amplitudes": model.amplitudes + eps * step.reshape(model.amplitudes.shape)},
            0.1 if k == 0 else 0.3,
        )
    sigma, fit = model.sigma, model.sigma.fit
    for k in (0, 1):
        step = np.zeros(fit.B.size)
        step[k] = 1.0
        agrees(
            sums.noise.score[k],
            sums.noise.information[k, k],
            lambda eps, step=step: {
                "sigma": sigma._replace(fit=replace(fit, B=fit.B + eps * step.reshape(fit.B.shape[::-1]).T))
            },
            0.1,
        )
    for k, direction in enumerate(error_directions(d), start=fit.B.size):
        agrees(
            sums.noise.score[k],
            sums.noise.information[k, k],
            lambda eps, direction=direction: {"noise": noise + eps * direction},
            0.02,
        )


def test_amplitudes_that_are_not_in_use_change_nothing_for_others(monkeypatch):
    monkeypatch.setattr(noisy_model, "MANY", 1)
    rng = np.random.default_rng(0)
    x = np.cumsum(rng.standard_normal((60, 8, 2)), axis=0).swapaxes(0, 1) * 0.05
    model = model_of(tracks(x), 1e-4 * np.eye(2), drift=ARFF(n_features=8), covariance=ARFF(n_features=8))
    sigma, fit = model.sigma, model.sigma.fit
    off = np.zeros(fit.ridges.shape, dtype=bool)
    off[0, 1:] = off[-1, :1] = True
    B = fit.B.copy()
    B[1:, 0] = B[1:, -1] = 0.0
    ridges = np.where(off, SWITCHED_OFF, 1.0)
    model = replace(model, sigma=sigma._replace(fit=replace(fit, B=B, ridges=ridges)))
    every, some = (Tracks(tracks(x), H).sums(model, free=free).noise for free in (True, False))
    used = np.append(model.noise_in_use.ravel(), [True] * 3)
    assert 0 < used.sum() < used.size
    np.testing.assert_allclose(some.information[np.ix_(used, used)], every.information[np.ix_(used, used)], rtol=1e-9)
    np.testing.assert_allclose(some.score[used], every.score[used], rtol=1e-9)
    assert not some.information[~used].any()
    assert not some.score[~used].any()


@pytest.mark.parametrize("link", ["identity", "log", "square"])
def test_the_prior_of_the_noise_has_its_gradient_and_curvature(link):
    """Of two variables whose noise varies, by differences of its logarithm."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 2))
    root = np.stack(
        [np.stack([1 + 0.3 * np.sin(x[:, 0]), 0 * x[:, 0]], 1), np.stack([0.5 + 0 * x[:, 0], x[:, 1]], 1)], 1
    )
    data = Transitions.from_pairs(
        x, x - 0.01 * x + 0.1 * np.einsum("nij,nj->ni", root, rng.standard_normal((400, 2))), 0.01
    )
    model = model_of(data, 1e-6 * np.eye(2), structure="full", link=link, drift=ARFF(n_features=8))
    fit = model.sigma.fit
    information, score = model.away_from_singular
    assert score.shape == (3,)
    assert (np.linalg.eigvalsh(information) > -1e-12).all()
    for e in range(3):

        def density(eps, e=e):
            B = fit.B.copy()
            B[0, e] += eps
            ridges = np.full_like(fit.ridges, 1e-300)
            return -replace(
                model, ridges=0 * model.ridges, sigma=model.sigma._replace(fit=replace(fit, B=B, ridges=ridges))
            ).penalty

        np.testing.assert_allclose((density(1e-5) - density(-1e-5)) / 2e-5, score[e], rtol=1e-5, atol=1e-6)


def test_information_is_the_covariance_of_scores():
    """Of an Ornstein-Uhlenbeck process: over tracks, scores at the truth vary as the information says.

    False alarms: chi-square of 60 tracks for three parameters, both sides together 6e-4.
    """
    rng = np.random.default_rng(0)
    n_tracks, n, h, sd = 60, 61, 0.05, 0.2
    x = rng.normal(0, np.sqrt(0.5), (n_tracks, 1))
    path = np.empty((n, n_tracks, 1))
    for i in range(n):
        path[i] = x
        x = np.exp(-h) * x + np.sqrt((1 - np.exp(-2 * h)) / 2) * rng.standard_normal(x.shape)
    data = tracks((path + sd * rng.standard_normal(path.shape)).swapaxes(0, 1), h)
    model = model_of(data, np.array([[sd**2]]))
    ones = np.column_stack([np.ones(200), model.basis.at(np.linspace(-0.5, 0.5, 200)[:, None])])
    amplitudes = np.linalg.lstsq(ones, -np.linspace(*model.box[:, 0], 200), rcond=None)[0][None]
    fit = replace(model.sigma.fit, B=np.zeros_like(model.sigma.fit.B))
    model = replace(model, amplitudes=amplitudes, sigma=model.sigma._replace(L=np.eye(1), fit=fit))
    scores, information = [], np.zeros(3)
    for group in np.unique(data.groups):
        sums = Tracks(data[data.groups == group], h).sums(model)
        scores.append([sums.drift.score[0], sums.noise.score[0], sums.noise.score[-1]])
        own = sums.drift.information[0, 0], sums.noise.information[0, 0], sums.noise.information[-1, -1]
        information += np.array(own)
    total = np.sum(np.square(scores), axis=0) / (information / n_tracks)
    low, high = chi2.ppf([1e-4, 1 - 1e-4], n_tracks)
    assert ((total > low) & (total < high)).all()


def test_packed_matrices():
    rng = np.random.default_rng(0)
    A, u = rng.normal(size=(5, 3, 3)), rng.normal(size=(5, 2))
    M = rng.normal(size=(5, 3, 3))
    M = M + M.swapaxes(1, 2)
    packing = Packing(3)
    packed = packing.packed(M)[:, :, None]
    np.testing.assert_allclose(
        (packing.turning(A) @ packed)[:, :, 0], packing.packed(A @ M @ A.swapaxes(1, 2)), atol=1e-12
    )
    np.testing.assert_allclose((packing.times(u) @ packed)[:, :, 0], (M[:, :, :2] @ u[:, :, None])[:, :, 0], atol=1e-12)


# What is learned


def test_drift_noise_and_errors_of_a_double_well(noisy, plain):
    """Errors of a plain fit are many times as large; four standard errors of Λ are exceeded once in 16,000."""
    clean, _, sde = noisy
    noise = sde.measurement_noise
    assert abs(noise.sd[0] - 0.1) < 4 * noise.sd_std[0] < 0.02
    places = clean[:, ::10].reshape(-1, 1)
    truth = places - places**3
    reference = itofit.fit(tracks(clean), rng=0)
    error, biased, attainable = (np.mean((each.drift(places) - truth) ** 2) for each in (sde, plain, reference))
    assert error < 4 * attainable + 0.01
    assert error < 0.1 * biased
    assert np.sqrt(np.mean((sde.covariance(places)[:, 0, 0] / 0.25 - 1) ** 2)) < 0.15
    drift, std = sde.drift(places, return_std=True)
    assert np.mean(np.abs(drift - truth) < 1.96 * std) > 0.8
    assert "measurement standard deviation 0.1" in sde.summary()


def test_states_are_nearer_than_observations_and_know_how_near(noisy):
    clean, data, sde = noisy
    states = sde.states(data)
    away = states.x[:, 0] - clean[:, :-1].ravel()
    assert np.std(away) < 0.65 * 0.1
    assert 0.9 < np.std(away / states.std[:, 0]) < 1.1
    same = follows(data)
    np.testing.assert_allclose(states.end[:-1][same[1:]], states.x[1:][same[1:]], atol=2e-3)


def test_loss_is_that_of_observations(noisy, plain):
    _, data, sde = noisy
    losses = sde.nll(data, pointwise=True)
    assert losses.shape == (len(data),)
    assert sde.nll(data) == pytest.approx(losses.mean(), rel=1e-12)
    assert sde.nll(data) < plain.nll(data) - 0.05
    mixed = data[np.random.default_rng(0).permutation(len(data))]  # single transitions, seen alone
    assert np.isfinite(sde.nll(mixed, pointwise=True)).all()


def test_loss_does_not_depend_on_the_order_of_tracks(noisy):
    _, data, sde = noisy
    order = np.argsort(np.arange(len(data)) % 1000, kind="stable")  # tracks interleaved
    np.testing.assert_allclose(sde.nll(data[order], pointwise=True), sde.nll(data, pointwise=True)[order], rtol=1e-10)


def test_simulated_observations_have_errors(noisy):
    _, _, sde = noisy
    options = {"dt": H, "n_steps": 1, "outside": "nearest"}
    start = np.zeros(4000)
    added = sde.simulate(start, **options, observed=True, rng=0) - sde.simulate(start, **options, rng=0)
    assert abs(added.std() / sde.measurement_noise.sd[0] - 1) < 5 / np.sqrt(2 * added.size)


def test_a_model_with_errors_is_kept(noisy, tmp_path):
    _, data, sde = noisy
    sde.save(tmp_path / "sde.npz")
    again = itofit.load(tmp_path / "sde.npz")
    np.testing.assert_array_equal(again.measurement_noise.covariance, sde.measurement_noise.covariance)
    assert again.summary() == sde.summary()
    assert again.nll(data) == sde.nll(data)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"covariance": np.array([[-1.0]])}, "symmetric and positive semidefinite"),
        ({"covariance": np.eye(2)}, "measurement_noise.covariance must be float64 of shape"),
        ({"std": np.array([[np.nan]])}, "measurement_noise.std must be finite"),
        ({"p": 2.0}, "measurement_noise.p must be at most 1"),
        ({"known": 1}, "measurement_noise.known must be True or False"),
    ],
)
def test_files_with_impossible_errors_are_refused(noisy, tmp_path, change, words):
    _, _, sde = noisy
    wrong = replace(sde, measurement_noise=replace(sde.measurement_noise, **change))
    with pytest.raises(itofit.ModelFileError, match=words):
        wrong.save(tmp_path / "sde.npz")  # which reads what it writes
    storage.write(tmp_path / "sde.npz", *packed_model(wrong))
    with pytest.raises(itofit.ModelFileError, match=words):
        itofit.load(tmp_path / "sde.npz")


def test_innovations_are_what_is_checked(noisy):
    _, data, sde = noisy
    assert itofit.check(sde, data).worst in ("good", "cannot tell")


def test_known_errors(noisy):
    _, data, sde = noisy
    given = itofit.fit(data, measurement_noise=0.1, rng=0)
    np.testing.assert_allclose(given.measurement_noise.covariance, [[0.01]])
    assert given.measurement_noise.known
    assert not given.measurement_noise.std.any()
    x = np.linspace(-1.2, 1.2, 50)
    np.testing.assert_allclose(given.drift(x), sde.drift(x), atol=0.2)
    assert "given, standard deviation 0.1" in given.summary()


@pytest.mark.parametrize("seed", [5, 7])
def test_few_observations_do_not_lose_the_noise_of_the_system(seed):
    """Errors of 1.5 times the noise of a step leave a direction in which they are most likely all there is.

    Fresh noise at the states was 1.5 to 2.5 nats per variable less likely with such Σ than with the mean of increments,
    errors and all.
    """
    rng, h, n = np.random.default_rng(seed), 0.05, 90
    x = np.empty((n + 1, 3))
    x[0] = rng.normal(size=3)
    for i in range(n):
        x[i + 1] = (1 - h) * x[i] + np.sqrt(h) * rng.normal(size=3)
    seen = x + 1.5 * np.sqrt(h) * rng.normal(size=x.shape)
    sde = itofit.fit(tracks([seen], h), rng=0)

    def loss(drift, covariance):
        away = h * np.einsum("ni,nij,nj->n", drift + x, np.linalg.inv(covariance), drift + x)
        return 0.5 * np.mean(np.linalg.slogdet(covariance)[1] + np.trace(np.linalg.inv(covariance), 0, 1, 2) + away)

    steps = np.diff(seen, axis=0)
    constants = np.tile(steps.mean(axis=0) / h, (n + 1, 1)), np.tile(np.cov(steps.T) / h, (n + 1, 1, 1))
    assert loss(*sde.step_moments(x, h)) < loss(*constants) + 0.02 * 3


def test_errors_must_gain_more_where_each_amplitude_has_few_observations(few, monkeypatch):
    """States behind the observations may be drawn so that they suit any of many amplitudes."""
    data, sde = few
    some = tracks(wells(3, 60, 3, sd=0.1)[1])
    monkeypatch.setattr(few_data, "ENOUGH_ROWS", 150)
    assert itofit.fit(some, rng=0).measurement_noise is not None
    monkeypatch.setattr(through_noise, "CLEAR_GAIN", 50.0)
    assert itofit.fit(some, rng=0).measurement_noise is None
    assert (itofit.fit(data, rng=0).drift(0.3) == sde.drift(0.3)).all()  # many observations


def test_steps_end_within_the_range_of_the_states_as_in_the_filter(noisy):
    """A cubic force beyond the data would carry long steps away."""
    sde = noisy[2]
    mean, covariance = sde.step_moments([[1.0]], 10.0)
    assert np.abs(mean) < 1.1 * np.abs(sde.drift(sde.box)).max()
    assert covariance < 2 * sde.covariance([[1.0]])
    beyond = sde.box[1:] + np.ptp(sde.box)
    np.testing.assert_allclose(sde.step_moments(beyond, 1e-9)[0], sde.drift(beyond), rtol=1e-3)


def test_two_variables_with_irregular_steps_gaps_and_correlated_errors():
    rng = np.random.default_rng(4)
    n, n_tracks = 250, 40
    h = rng.uniform(0.01, 0.03, (n_tracks, n - 1))
    B = np.array([[-1.0, 2.0], [-2.0, -1.0]])
    root = np.array([[0.5, 0.0], [0.2, 0.4]])
    x = np.zeros((n_tracks, n, 2))
    for i in range(n - 1):
        state, dt = x[:, i], h[:, i, None] / 4
        for _ in range(4):
            state = state + dt * state @ B.T + np.sqrt(dt) * rng.standard_normal((n_tracks, 2)) @ root.T
        x[:, i + 1] = state
    noise = 0.05**2 * np.array([[1.0, 0.5], [0.5, 1.0]])
    y = x + rng.standard_normal(x.shape) @ np.linalg.cholesky(noise).T
    y[rng.random(y.shape[:2]) < 0.05] = np.nan
    times = np.concatenate([np.zeros((n_tracks, 1)), np.cumsum(h, axis=1)], axis=1)
    sde = itofit.fit(Transitions.from_trajectories(list(y), times=list(times)), rng=0)
    assert (np.abs(sde.measurement_noise.covariance - noise) < 5 * sde.measurement_noise.std).all()
    places = x[:, ::20].reshape(-1, 2)
    sigma = sde.covariance(places)
    np.testing.assert_allclose(sigma.mean(axis=0), root @ root.T, atol=0.04)
    error = sde.drift(places) - places @ B.T
    assert np.sqrt(np.mean(error**2)) < 0.35


def test_files_larger_than_memory_give_the_same_model(few):
    whole, one = few

    def source():
        yield from (whole[i : i + 700] for i in range(0, len(whole), 700))

    other = itofit.fit(Transitions.from_blocks(source), rng=0)
    np.testing.assert_array_equal(one.measurement_noise.covariance, other.measurement_noise.covariance)
    x = np.linspace(-1, 1, 20)
    np.testing.assert_array_equal(one.drift(x), other.drift(x))
    assert other.nll(Transitions.from_blocks(source)) == one.nll(whole)


@pytest.mark.parametrize(("steps", "warned"), [(3, True), (60, False)])
def test_short_tracks_with_large_errors_are_warned_of(steps, warned):
    rng = np.random.default_rng(0)
    x = np.sqrt(0.5) * rng.standard_normal((600 // steps, 1))
    for _ in range(steps):
        x = np.append(x, 0.9 * x[:, -1:] + 0.3 * rng.standard_normal((len(x), 1)), axis=1)
    seen = x + 0.3 * rng.standard_normal(x.shape)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        itofit.fit(Transitions.from_trajectories(list(seen[:, :, None]), dt=0.1), rng=0, measurement_noise=0.3)
    assert any("the drift comes out too steep" in str(each.message) for each in caught) == warned


def test_tracks_that_alternate_in_blocks_are_warned_of():
    _, noisy = wells(20, 40, 3, sd=0.1)
    together = Transitions.from_trajectories(list(noisy), dt=H)
    alternating = together[np.arange(len(together)).reshape(20, -1).T.ravel()]
    for rows, expected in ((together, False), (alternating, True)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            itofit.fit(Transitions.from_blocks([rows[:400], rows[400:]]), rng=0, correct_step=False)
        assert any("the rows of tracks alternate" in str(each.message) for each in caught) == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        survey_of_both = [survey(rows, Progress(False)) for rows in (together, alternating)]  # in memory
    assert survey_of_both[0].n_apart == 0
    assert survey_of_both[1].n_following + survey_of_both[1].n_apart == survey_of_both[0].n_following


def test_an_ensemble_sees_through_the_noise_as_well():
    _, seen = wells(5, 601, 2, sd=0.1)
    sde = itofit.fit(tracks(seen), ensemble=2, rng=0)
    assert all(member.measurement_noise is not None for member in sde.members)


def test_without_correction_of_steps_the_filter_makes_euler_steps(few):
    data, sde = few
    assert itofit.fit(data, correct_step=False, rng=0).scheme == "euler"
    assert sde.scheme == "corrected"


# When there are none


@pytest.mark.parametrize("h", [0.02, 0.15])
def test_clean_tracks_get_no_errors_also_where_steps_are_long(h):
    """Of 12 data sets, p-values of the first test are below 0.01 in at most two: false alarms, 1 in 5,000 times."""
    below = 0
    for seed in range(12):
        paths, _ = wells(4, 401, seed, h=h, noise=lambda x: 0.4 + 0.2 * x**2, substeps=5 if h < 0.1 else 20)
        data = tracks(paths, h)
        below += lag_products(data, itofit.fit(data, measurement_noise=False, rng=0)).p < LEVEL
    assert below <= 2


def test_without_errors_the_plain_fit_is_returned_to_the_last_bit():
    paths, _ = wells(5, 601, 3)
    data = tracks(paths)
    one, other = (itofit.fit(data, measurement_noise=option, ensemble=2, rng=0) for option in ("auto", False))
    assert one.measurement_noise is None
    x = np.linspace(-1, 1, 20)
    for each, same in ((one, other), (one.members[0], other.members[0])):
        np.testing.assert_array_equal(each.drift(x), same.drift(x))
        np.testing.assert_array_equal(each.covariance(x), same.covariance(x))


def test_pairs_have_no_order_and_get_no_errors():
    _, seen = wells(5, 601, 1, sd=0.1)
    data = tracks(seen)[np.random.default_rng(0).permutation(3000)]
    assert itofit.fit(data, rng=0).measurement_noise is None
    with pytest.raises(InputError, match="measurement_noise needs tracks"):
        itofit.fit(data, measurement_noise=0.1, rng=0)


def test_p_values_of_gains():
    assert p_of_gain(-1.0, 1) == 1.0
    assert p_of_gain(5.411894, 1) == pytest.approx(0.01, rel=1e-4)  # half of a chi-square
    draws = np.random.default_rng(0).standard_normal((20_000, 2, 2))
    draws = (draws + draws.swapaxes(1, 2)) / 2
    gains = (np.maximum(np.linalg.eigvalsh(draws), 0) ** 2).sum(axis=1)
    assert np.mean([p_of_gain(g, 2) < 0.05 for g in gains]) < 0.05


# Bad input


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        ([[1.0, 2.0], [2.0, 1.0]], "must be a positive semidefinite covariance matrix"),
        ([[1.0, 0.5], [0.1, 1.0]], "must be a symmetric matrix"),
        ([0.1, 0.2], r"must have shape \(1,\)"),
        (np.eye(2), r"must have shape \(1,\)"),
        (5.0, "is larger than the motion"),
        ("yes", "must be 'auto', False"),
        (-0.1, "a standard deviation > 0"),
    ],
)
def test_what_errors_cannot_be(noise, words, noisy):
    _, data, _ = noisy
    with pytest.raises(InputError, match=words):
        itofit.fit(data, measurement_noise=noise, rng=0)


def test_known_errors_need_the_default_method_and_a_state_that_moves_as_a_whole():
    x = np.random.default_rng(0).normal(size=(50, 1))
    data = Transitions.from_underdamped(x, x, x, x + 0.1, 0.1)
    with pytest.raises(InputError, match="kind 'diffusion'"):
        itofit.fit(data, measurement_noise=0.1)
    with pytest.raises(InputError, match="needs refine=True"):
        itofit.fit(data, measurement_noise=0.1, refine=False)


def test_states_need_errors():
    paths, _ = wells(5, 101, 3)
    sde = itofit.fit(tracks(paths), rng=0)
    with pytest.raises(InputError, match="its states are the observations themselves"):
        sde.states(tracks(paths))


def test_errors_far_larger_than_the_motion_are_said_to_be():
    rng = np.random.default_rng(0)
    x = 0.02 * np.cumsum(rng.standard_normal((5, 600, 1)), axis=1)
    with pytest.warns(DataWarning, match="times the variance of the system's own noise in a step"):
        itofit.fit(tracks(x + 0.5 * rng.standard_normal(x.shape), 0.01), rng=0)


def relaxing(rng, n, a):
    """A track of x₊ = a x + noise, of variance 1."""
    x = rng.standard_normal(n)
    for i in range(1, n):
        x[i] = a * x[i - 1] + np.sqrt(1 - a**2) * x[i]
    return x[:, None]


@pytest.mark.parametrize("noise", ["auto", False])
def test_noise_larger_than_the_motion_is_said_also_where_it_looks_like_relaxation(noise, tmp_path):
    """With ten times the motion. For all of 24 other seeds it was said."""
    rng = np.random.default_rng(5)
    y = relaxing(rng, 3000, 0.99) + 10 * rng.standard_normal((3000, 1))
    with pytest.warns(DataWarning, match=r"hardly tell of each other.* x \(.*far larger than the motion"):
        sde = itofit.fit(tracks([y]), measurement_noise=noise, rng=0)
    assert "an observation tells 0.0" in sde.summary()
    sde.save(tmp_path / "told.npz")
    assert itofit.load(tmp_path / "told.npz").data.told == sde.data.told < 0.01


@pytest.mark.parametrize(("a", "little"), [(0.35, False), (0.1, True)])
def test_steps_longer_than_the_memory_of_a_system_are_said(a, little):
    """LEAST_TOLD = 0.05 of the variance, a²: 0.12 is more, 0.01 less. For all of 24 other seeds it was so."""
    data = tracks([relaxing(np.random.default_rng(6), 3000, a)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sde = itofit.fit(data, rng=0)
    assert any("hardly tell of each other" in str(warning.message) for warning in caught) == little
    assert (sde.data.told is not None) == little


@pytest.mark.parametrize("share", [-0.1, 1.0, np.nan, "much"])
def test_files_with_impossible_shares_are_refused(noisy, share, tmp_path):
    _, _, sde = noisy
    with pytest.raises(itofit.ModelFileError, match=r"data\.told"):
        replace(sde, data=replace(sde.data, told=share)).save(tmp_path / "sde.npz")
