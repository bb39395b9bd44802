"""Second-order systems from positions alone: data, start, linear systems, the order of a system, and whole fits."""

import warnings

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.stats import binom, multivariate_normal

import itofit
from itofit import InputError, Transitions
from itofit.data.names import with_velocities
from itofit.learning.second_order.difference_quotients import LinearStart, Terms, linear_start, noises, triples
from itofit.learning.second_order.from_positions import _warn_of_errors, _warn_of_first_order
from itofit.learning.second_order.linear_force import LinearForce, _sums, best_linear_force
from itofit.learning.second_order.order import LEVEL, persistence
from itofit.model.hidden.gaussian_step import GaussianStep
from itofit.model.hidden.tracking import Prior

pytestmark = pytest.mark.usefixtures("few_paths")
SLOPES, SIGMA, NOISE = np.array([[-2.0, -0.8]]), np.array([[0.5]]), np.array([[1e-4]])


def exact_step(slopes, sigma, h):
    """The matrix of a linear step of (x, v) and its noise, by the formula of Van Loan."""
    d = len(sigma)
    A = np.block([[np.zeros((d, d)), np.eye(d)], [slopes]])
    G = np.zeros((2 * d, 2 * d))
    G[d:, d:] = sigma
    whole = expm(np.block([[-A, G], [np.zeros((2 * d, 2 * d)), A.T]]) * h)
    F = whole[2 * d :, 2 * d :].T
    return F, F @ whole[: 2 * d, 2 * d :]


def linear_tracks(rng, n_tracks, steps, slopes=SLOPES, sigma=SIGMA):
    """States (n_tracks, T, 2d) of a linear system after steps (T − 1,), from its stationary distribution, roughly."""
    d = len(sigma)
    state = rng.standard_normal((n_tracks, 2 * d))
    states = []
    every = [5.0, 5.0, *steps]
    exact = {h: exact_step(slopes, sigma, h) for h in set(every)}
    for h in every:
        F, Q = exact[h]
        state = state @ F.T + rng.standard_normal(state.shape) @ np.linalg.cholesky(Q).T
        states.append(state)
    return np.stack(states[1:], axis=1)


def seen(rng, states, sd=0.0):
    d = states.shape[2] // 2
    return states[:, :, :d] + sd * rng.standard_normal((*states.shape[:2], d))


def van_der_pol(rng, n_tracks, n_rows, h=0.05, substeps=20):
    x, v, dt = rng.standard_normal(n_tracks), np.zeros(n_tracks), h / substeps
    states = np.empty((n_tracks, n_rows, 2))
    for i in range(-200, n_rows):
        for kick in np.sqrt(dt) * rng.standard_normal((substeps, n_tracks)):
            before, v = v, v + dt * ((1 - x**2) * v - x) + kick
            x = x + 0.5 * dt * (before + v)
        if i >= 0:
            states[:, i, 0], states[:, i, 1] = x, v
    return states


# Data


def test_rows_are_moves_of_positions_with_names_of_velocities():
    data = Transitions.from_positions([np.arange(5.0), np.array([1.0, np.nan, 2.0, 4.0])], dt=0.5, names="angle")
    assert (data.kind, data.input_names, data.output_names) == ("positions", ("angle",), ("v_angle",))
    assert data.inputs.ravel().tolist() == [0, 1, 2, 3, 2]
    assert data.groups.tolist() == [0, 0, 0, 0, 1]
    both = with_velocities(data)
    assert (both.n_inputs, both.kind, both.input_names) == (2, "underdamped", ("angle", "v_angle"))
    named = Transitions.from_positions(np.zeros((4, 2)), dt=1.0, velocity_names=["a", "b"])
    assert (named.input_names, named.output_names) == (("x1", "x2"), ("a", "b"))
    assert Transitions.from_positions(np.zeros((4, 2)), dt=1.0).output_names == ("v1", "v2")


def test_tables_files_and_blocks_give_the_same_rows(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": [1, 1, 1, 2, 2], "t": [0, 1, 2, 0, 1.0], "x": [0, 1, 3, 5, 6.0]})
    data = Transitions.from_dataframe(frame, time="t", state="x", track="id", second_order=True)
    assert (data.kind, data.output_names) == ("positions", ("v_x",))
    frame.to_csv(tmp_path / "tracks.csv", index=False)
    columns = {"time": "t", "state": "x", "track": "id", "second_order": True}
    whole = itofit.read_transitions(tmp_path / "tracks.csv", **columns)
    parts = itofit.read_transitions(tmp_path / "tracks.csv", chunk_rows=2, **columns)
    for other in (whole, next(parts.blocks())):
        assert (other.kind, other.input_names, other.output_names) == ("positions", ("x",), ("v_x",))
        np.testing.assert_array_equal(other.increments, data.increments)
    blocks = Transitions.from_blocks(np.arange(6.0)[:, None], "trajectory", h=1.0, kind="positions")
    assert blocks.kind == "positions"
    assert len(blocks) == 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Transitions.from_dataframe(
                __import__("pandas").DataFrame({"x": [0.0], "v": [0.0]}),
                state="x",
                velocity="v",
                dt=1.0,
                second_order=True,
            ),
            "velocities were not observed",
        ),
        (lambda: fit_of(np.cumsum(np.random.default_rng(0).normal(size=(40, 2)), 0)[::20]), "at least 20"),
        (lambda: fit_of([[float(k), k * k % 7.0] for k in range(30)]), "three positions in a row"),
        (lambda: fit_of(random_walk(), refine=False), "refine=False needs velocities"),
        (lambda: fit_of(random_walk(), correct_step=False), "does not exist for positions"),
        (lambda: fit_of(random_walk(), measurement_noise=np.array([[-1.0]])), "positive semidefinite"),
        (lambda: fit_of(0.1 * np.arange(200.0) + 1e-12 * np.random.default_rng(0).normal(size=200)), "constant rate"),
        (lambda: fit_of(1.0 + np.arange(300.0) ** 2 * 1e-9 + np.arange(300.0)), "without any noise"),
    ],
)
def test_what_cannot_be_learned_from_is_said(make, message):
    with pytest.raises(InputError, match=message):
        make()


def random_walk():
    return np.cumsum(np.cumsum(np.random.default_rng(0).normal(size=100)))


def fit_of(path, **options):
    paths = [np.array(part) for part in path] if isinstance(path, list) else np.asarray(path)
    return itofit.fit(Transitions.from_positions(paths, dt=0.1), rng=0, **options)


# Differences of positions


@pytest.mark.parametrize("uneven", [False, True])
def test_differences_show_both_noises(uneven):
    """Free motion, so that nothing but noise makes differences; five standard deviations of the estimates."""
    rng = np.random.default_rng(1)
    steps = rng.uniform(0.5, 1.5, 400) if uneven else np.ones(400)
    sigma, noise = np.array([[1.0, 0.4], [0.4, 0.5]]), np.array([[0.3, -0.1], [-0.1, 0.2]])
    estimates = []
    for _ in range(20):
        states = linear_tracks(rng, 4, steps, np.zeros((2, 4)) - 1e-9 * np.eye(2, 4), sigma)
        y = seen(rng, states) + rng.multivariate_normal(np.zeros(2), noise, states.shape[:2])
        found = triples(Transitions.from_positions(list(y), times=np.concatenate([[0], np.cumsum(steps)])))
        estimates.append(noises(found, found.D))
    for truth, own in zip((sigma, noise), map(np.array, zip(*estimates, strict=True)), strict=True):
        assert (np.abs(own.mean(axis=0) - truth) < 5 * own.std(axis=0) / np.sqrt(20)).all()


@pytest.mark.parametrize("uneven", [False, True])
def test_differences_show_a_linear_force(uneven):
    """To first order in the step: for a short one within 3 % and five standard errors, also with uneven steps."""
    rng = np.random.default_rng(2)
    steps = rng.uniform(0.01, 0.03, 2000) if uneven else np.full(2000, 0.02)
    clock = np.concatenate([[0], np.cumsum(steps)])
    paths = seen(rng, linear_tracks(rng, 100, steps))
    starts = [linear_start(Transitions.from_positions(list(paths[k::10]), times=clock)) for k in range(10)]
    slopes, sigma = (np.array([getattr(start, name) for start in starts]) for name in ("slopes", "sigma"))
    for own, truth in ((slopes, SLOPES), (sigma, SIGMA)):
        error = own.std(axis=0) / np.sqrt(len(own))
        assert (np.abs(own.mean(axis=0) - truth) < 5 * error + 0.03 * np.abs(truth).max()).all()


# Linear systems


def test_noise_of_a_long_step_is_that_of_the_exact_one():
    slopes, sigma, h = np.array([[-4.0, 0.5, -3.0, 1.0], [0.0, -2.0, -1.0, -4.0]]), np.diag([1.0, 0.3]), 0.1
    step = GaussianStep(
        lambda s: (s @ slopes.T, np.broadcast_to(sigma, (len(s), 2, 2))),
        np.array([[-9.0] * 4, [9.0] * 4]),
        np.diagonal(sigma),
        second_order=True,
    )
    state = np.array([[0.3, -0.2, 1.0, 0.5]])
    moved = step(state, np.zeros((1, 4, 4)), np.array([h]))
    F, Q = exact_step(slopes, sigma, h)
    unit = np.sqrt(np.diagonal(Q))
    np.testing.assert_allclose(moved.mean[0], F @ state[0], atol=2e-3)
    np.testing.assert_allclose(moved.noise[0] / np.outer(unit, unit), Q / np.outer(unit, unit), atol=2e-3)


def test_loss_of_a_linear_system_is_that_of_all_positions_together():
    """The innovations of a whole track against one normal distribution of all its positions given the first."""
    rng = np.random.default_rng(3)
    h, n = 0.02, 30
    y = seen(rng, linear_tracks(rng, 1, np.full(n, h)), 0.01)[0]
    prior, start = Prior(np.array([0.2]), np.array([[0.7]])), np.array([y[0, 0], 0.2])
    model = LinearForce(
        terms=Terms(np.zeros((2, 1))),
        intercept=np.zeros(1),
        slopes=SLOPES,
        sigma=SIGMA,
        noise=NOISE,
        prior=prior,
        box=np.array([[-99.0] * 2, [99.0] * 2]),
        h=h,
    )
    F, Q = exact_step(SLOPES, SIGMA, h)
    # x₀ given y₀ has the variance Λ, since nothing else is known of it
    powers = [np.linalg.matrix_power(F, k) for k in range(n + 1)]
    variances = [np.diag([NOISE[0, 0], 0.7])]
    for _ in range(n):
        variances.append(F @ variances[-1] @ F.T + Q)
    mean = np.array([(powers[k] @ start)[0] for k in range(1, n + 1)])
    covariance = NOISE[0, 0] * np.eye(n)
    for i in range(1, n + 1):
        for j in range(i, n + 1):
            covariance[i - 1, j - 1] += (powers[j - i] @ variances[i])[0, 0]
            covariance[j - 1, i - 1] = covariance[i - 1, j - 1]
    expected = -multivariate_normal(mean, covariance).logpdf(y[1:, 0])
    loss = _sums(Transitions.from_positions(y, dt=h), model).loss
    assert abs(loss - expected) < 1e-3 * n


@pytest.mark.parametrize("sd", [0.0, 0.05])
def test_the_most_likely_linear_force_is_the_true_one(sd):
    """From a start that is off by half; within five standard deviations over six data sets, sd and Σ too."""
    rng = np.random.default_rng(4)
    found = []
    for _ in range(6):
        y = seen(rng, linear_tracks(rng, 20, np.full(100, 0.1)), sd)
        start = LinearStart(np.zeros(1), 0.5 * SLOPES, 1.5 * SIGMA, np.array([[1.5 * sd**2 + 1e-7]]))
        prior = Prior(np.zeros(1), np.array([[0.3]]))
        box = np.array([[-2.0, -3.0], [2.0, 3.0]])
        found.append(best_linear_force(Transitions.from_positions(list(y), dt=0.1), start, prior, box))
    truth = {"slopes": SLOPES, "sigma": SIGMA, "intercept": np.zeros(1)} | ({"noise": [[sd**2]]} if sd else {})
    for name, value in truth.items():
        own = np.array([getattr(model, name) for model in found])
        assert (np.abs(own.mean(axis=0) - value) < 5 * own.std(axis=0, ddof=1) / np.sqrt(6) + 0.005).all(), name


# First or second order


def test_first_order_is_rarely_called_second():
    """300 tracks: a double well with errors of measurement; the count may be chance with probability 0.001 at most."""
    rng = np.random.default_rng(5)
    x, h, paths = rng.standard_normal(300), 0.05, []
    for _ in range(500):
        for _ in range(5):
            x = x + h / 5 * 4 * (x - x**3) + 0.7 * np.sqrt(h / 5) * rng.standard_normal(300)
        paths.append(x)
    y = np.array(paths).T
    for sd in (0.0, 0.1):
        orders = [
            persistence(Transitions.from_trajectories(own + sd * rng.standard_normal(500), dt=h)).order for own in y
        ]
        assert orders.count("second") <= binom.isf(0.001, len(y), LEVEL)
    many = persistence(Transitions.from_trajectories(y[:20, :, None], dt=h))
    assert many.order == "first"
    assert abs(many.share) < 4 * many.error


@pytest.mark.parametrize("sd", [0.0, 0.05])
def test_second_order_is_found(sd):
    rng = np.random.default_rng(6)
    y = seen(rng, linear_tracks(rng, 20, np.full(300, 0.1)), sd)
    shown = [persistence(Transitions.from_positions(list(part), dt=0.1)) for part in np.split(y, 4)]
    assert [each.order for each in shown] == ["second"] * 4


def test_few_positions_say_nothing_of_the_order():
    shown = persistence(Transitions.from_positions(random_walk()[:20], dt=1.0))
    assert shown.order == "unclear"


def test_a_model_of_the_wrong_order_is_told_so():
    rng = np.random.default_rng(7)
    tracks = seen(rng, linear_tracks(rng, 10, np.full(200, 0.1)))
    data = Transitions.from_trajectories(tracks, dt=0.1)
    finding = itofit.check(itofit.fit(data, measurement_noise=False, rng=0), data)["order"]
    assert finding.verdict == "bad"
    assert "from_positions" in str(finding.advice)
    first = np.zeros((10, 300, 1))
    for i in range(299):
        first[:, i + 1] = 0.9 * first[:, i] + 0.3 * rng.standard_normal((10, 1))
    with pytest.warns(itofit.DataWarning, match="first-order system"):
        _warn_of_first_order(Transitions.from_positions(first, dt=0.1))


@pytest.mark.parametrize(("slopes", "sd", "said"), [(SLOPES, 0.02, True), (SLOPES, 0.0, False), ([[-2, -8]], 0, False)])
def test_errors_that_are_said_to_be_none_are_named(slopes, sd, said):
    """OPPOSED = −0.2; it is −0.5 with these errors, 0.3 without, −0.1 under strong friction. So it was for 24 seeds."""
    rng, h = np.random.default_rng(9), 0.1
    step, noise = exact_step(np.array(slopes, dtype=float), SIGMA, h)
    x, root = np.zeros((1000, 2)), np.linalg.cholesky(noise)
    for i in range(999):
        x[i + 1] = step @ x[i] + root @ rng.standard_normal(2)
    data = Transitions.from_positions([x[:, :1] + sd * rng.standard_normal((1000, 1))], dt=h)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _warn_of_errors(data)
    assert ["although measurement_noise=False" in str(warning.message) for warning in caught] == [True] * said


# Whole fits


@pytest.fixture(scope="module", params=[0.0, 0.05])
def fitted(request):
    rng = np.random.default_rng(8)
    states = van_der_pol(rng, 20, 250)
    data = Transitions.from_positions(list(seen(rng, states, request.param)), dt=0.05, names="x")
    return request.param, states, data, itofit.fit(data, rng=0)


def test_force_and_noise_are_learned(fitted):
    sd, states, _, sde = fitted
    x = states.reshape(-1, 2)[::5]
    truth = (1 - x[:, :1] ** 2) * x[:, 1:] - x[:, :1]
    force, std = sde.drift(x, return_std=True)
    assert np.mean((force - truth) ** 2) < 0.04 * np.mean(truth**2)
    assert np.mean(np.abs(force - truth) < 1.96 * std) > 0.7
    np.testing.assert_allclose(sde.covariance(x)[:, 0, 0].mean(), 1.0, atol=0.12)
    assert (sde.kind, sde.input_names, sde.output_names) == ("underdamped", ("x", "v_x"), ("v_x",))
    assert (sde.measurement_noise is not None) == (sd > 0)
    if sd:
        np.testing.assert_allclose(sde.measurement_noise.sd, sd, rtol=0.05)
    assert "positions alone" in sde.summary()


def test_long_steps_are_not_taken_for_waves():
    """A polynomial force: moves of drawn states over long steps are none, but the filter knows how long they are."""
    rng = np.random.default_rng(0)
    states = van_der_pol(rng, 10, 300, h=0.2, substeps=40)
    data = Transitions.from_positions(list(seen(rng, states, 0.01)), dt=0.2)
    sde = itofit.fit(data, rng=0)
    x = states.reshape(-1, 2)
    truth = (1 - x[:, :1] ** 2) * x[:, 1:] - x[:, :1]
    assert sde.drift_function.training.n_features == 0
    assert np.mean((sde.drift(x) - truth) ** 2) < 0.04**2 * np.mean(truth**2)


def test_states_are_known_as_well_as_they_say(fitted):
    _, states, data, sde = fitted
    told = sde.states(data)
    error = told.x - states[:, :-1].reshape(-1, 2)
    assert 0.9 < np.mean(np.abs(error[:, 1]) < 1.96 * told.std[:, 1]) < 0.99
    quotients = np.diff(data.inputs[:, 0]) / 0.05
    assert np.std(error[:-1, 1]) < 0.8 * np.std(quotients - states[:, :-1, 1].ravel()[:-1])
    np.testing.assert_allclose(told.end[:100], told.x[1:101], atol=1e-9)


def test_loss_is_that_of_the_positions(fitted):
    _, _, data, sde = fitted
    pointwise = sde.nll(data, pointwise=True)
    np.testing.assert_allclose(pointwise.mean(), sde.nll(data))
    shuffled = np.random.default_rng(0).permutation(20)
    order = np.concatenate([np.flatnonzero(data.groups == g) for g in shuffled])
    np.testing.assert_allclose(sde.nll(data[order], pointwise=True), pointwise[order], atol=1e-9)


def test_checks_plots_and_files_work(fitted, tmp_path):
    sd, states, data, sde = fitted
    diagnosis = itofit.check(sde, data)
    assert diagnosis.worst != "bad"
    assert diagnosis.inputs.shape == (len(data), 2)
    sde.save(tmp_path / "model.npz")
    again = itofit.load(tmp_path / "model.npz")
    assert again.nll(data) == sde.nll(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", itofit.ExtrapolationWarning)
        clean, noisy = (sde.simulate(states[:, 0], 0.05, 20, rng=0, observed=observed) for observed in (False, True))
    assert clean.shape == (20, 21, 2)
    np.testing.assert_array_equal(clean[:, :, 1], noisy[:, :, 1])
    assert (sd == 0) == np.array_equal(clean, noisy)
    if sd == 0:
        pytest.importorskip("matplotlib")
        itofit.report(sde, data[:1000], tmp_path / "page.html")
        assert "Serious problems" not in (tmp_path / "page.html").read_text()


def test_other_data_are_refused(fitted):
    _, states, data, sde = fitted
    known = Transitions.from_underdamped(states[0, :-1, 0], states[0, :-1, 1], states[0, 1:, 0], states[0, 1:, 1], 0.05)
    assert np.isfinite(sde.nll(known))  # velocities may be known later
    with pytest.raises(InputError, match="from_positions"):
        sde.states(known)
    with pytest.raises(InputError, match="positions alone"):
        itofit.fit(known, rng=0).nll(data)


def test_blocks_and_units_make_no_difference():
    """Read in blocks the model is the same; positions in another unit have the same force in that unit."""
    rng = np.random.default_rng(9)
    y = seen(rng, linear_tracks(rng, 1, np.full(600, 0.1)), 0.02)[0]
    rows = Transitions.from_positions(y, dt=0.1)
    whole = itofit.fit(Transitions(rows.inputs, rows.increments, rows.h, kind="positions"), rng=0)
    blocks = Transitions.from_blocks([y[:250], y[250:]], "trajectory", h=0.1, kind="positions")
    scaled = itofit.fit(Transitions(3 + 50 * rows.inputs, 50 * rows.increments, rows.h, kind="positions"), rng=0)
    x = np.column_stack([np.linspace(-0.5, 0.5, 9), np.linspace(0.5, -0.5, 9)])
    np.testing.assert_allclose(itofit.fit(blocks, rng=0).drift(x), whole.drift(x), rtol=1e-9)
    np.testing.assert_allclose(scaled.drift(50 * x + [3, 0]) / 50, whole.drift(x), rtol=1e-4, atol=1e-5)


def test_noise_that_is_known_is_taken():
    rng = np.random.default_rng(10)
    y = seen(rng, linear_tracks(rng, 4, np.full(150, 0.1)), 0.05)
    data = Transitions.from_positions(list(y), dt=0.1)
    known = itofit.fit(data, measurement_noise=0.05, rng=0)
    assert known.measurement_noise.known
    np.testing.assert_array_equal(known.measurement_noise.covariance, [[0.05**2]])


def test_the_command_line_learns_from_positions(tmp_path):
    pandas = pytest.importorskip("pandas")
    testing = pytest.importorskip("typer.testing")
    from itofit.cli import app

    rng = np.random.default_rng(11)
    y = seen(rng, linear_tracks(rng, 20, np.full(40, 0.1)))[:, :, 0]
    columns = {"track": np.repeat(np.arange(20), 41), "time": np.tile(0.1 * np.arange(41), 20), "x": y.ravel()}
    pandas.DataFrame(columns).to_csv(tmp_path / "tracks.csv", index=False)

    def call(*arguments):
        return testing.CliRunner().invoke(app, [str(argument) for argument in arguments])

    result = call("fit", tmp_path / "tracks.csv", "--second-order", "-o", tmp_path / "sde.npz")
    assert result.exit_code == 0, result.output
    assert "positions alone" in result.output
    again = call("check", tmp_path / "sde.npz", tmp_path / "tracks.csv", "--second-order")
    assert again.exit_code == 0, again.output
    wrong = call("check", tmp_path / "sde.npz", tmp_path / "tracks.csv")
    assert wrong.exit_code != 0
