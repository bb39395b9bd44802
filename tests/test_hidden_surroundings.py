"""Hidden states that are driven from outside, or angles: behind errors of measurement, or without velocities."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import itofit
from itofit import DataWarning, Transitions
from itofit.cli import app
from itofit.data.following import follows
from itofit.data.periods import nearest_image
from itofit.learning.noisy.whole_turns import LONG, MANY
from itofit.learning.second_order.difference_quotients import Terms
from itofit.learning.second_order.hidden_velocity import linear_force_of
from itofit.learning.second_order.linear_force import LinearForce
from itofit.learning.second_order.order import persistence
from itofit.model.hidden.gaussian_step import GaussianStep, tabulated
from itofit.model.hidden.tracking import Prior, filtered
from itofit.model.hidden.windows import chunks, cut

TURN = 2 * np.pi
H = 0.05


def driven_tracks(n=1501, n_tracks=4, seed=0, share=0.5):
    """dx = (−x + 1.5 u) dt + 0.5 dW in exact steps, with errors: states, drives and observations (n_tracks, n, 1)."""
    rng = np.random.default_rng(seed)
    times = H * (np.arange(n) + n * np.arange(n_tracks)[:, None])
    u = np.sin(0.7 * times) + np.repeat(rng.choice([-0.5, 0.5], (n_tracks, n // 50 + 1)), 50, axis=1)[:, :n]
    x, keep = np.zeros((n_tracks, n)), np.exp(-H)
    for i in range(n - 1):
        kick = 0.5 * np.sqrt((1 - keep**2) / 2) * rng.standard_normal(n_tracks)
        x[:, i + 1] = keep * x[:, i] + 1.5 * (1 - keep) * u[:, i] + kick
    seen = x + share * 0.5 * np.sqrt(H) * rng.standard_normal(x.shape)
    return x[:, :, None], u[:, :, None], seen[:, :, None]


SD = 0.5 * 0.5 * np.sqrt(H)
X, U, SEEN = driven_tracks()


def driven_data(paths):
    return Transitions.from_trajectories(list(paths), dt=H, covariates=list(U), covariate_names="drive")


DRIVEN = driven_data(SEEN)


@pytest.fixture(scope="module")
def driven():
    return itofit.fit(DRIVEN, rng=0)


def force(angle):
    return 0.5 + np.sin(angle) + 0.5 * np.cos(2 * angle)


def turning(n=1001, n_tracks=8, seed=0, sd=0.08, substeps=4, h=0.02):
    """Angles that go round, not wrapped, and the same with errors: (n_tracks, n)."""
    rng = np.random.default_rng(seed)
    angle, path = rng.uniform(0, TURN, n_tracks), []
    for _ in range(n):
        path.append(angle)
        for _ in range(substeps):
            dt = h / substeps
            angle = angle + force(angle) * dt + 0.7 * np.sqrt(dt) * rng.standard_normal(n_tracks)
    path = np.array(path).T
    return path, path + sd * rng.standard_normal(path.shape)


ANGLES, SEEN_ANGLES = turning()


def angle_data(paths, low=0.0):
    """Tracks of angles whose period begins somewhere."""
    tracks = [track[:, None] for track in paths]
    return Transitions.from_trajectories(tracks, dt=0.02, names="angle", periodic={"angle": (low, low + TURN)})


ANGLE = angle_data(SEEN_ANGLES)


@pytest.fixture(scope="module")
def angle():
    return itofit.fit(ANGLE, rng=0)


# Steps of a Gaussian state


def test_a_step_with_inputs_from_outside_is_that_with_these_as_constants():
    rng = np.random.default_rng(0)
    n = 30
    m, u, h = rng.normal(size=(n, 2)), rng.normal(size=(n, 1)), rng.uniform(0.01, 0.2, n)
    root = rng.normal(size=(n, 2, 2))
    P = 0.1 * root @ root.swapaxes(1, 2)

    def functions(x):
        f = np.stack([np.sin(x[:, 0]) - x[:, 1] * x[:, 2], x[:, 2] - x[:, 1] ** 3], axis=1)
        return f, (1 + 0.3 * np.cos(x[:, 0] + x[:, 2]))[:, None, None] * np.eye(2)

    box = np.array([[-3.0] * 3, [3.0] * 3])
    moved = GaussianStep(functions, box, np.ones(2))(m, P, h, u)
    for i in range(n):
        alone = GaussianStep(
            lambda s, i=i: functions(np.column_stack([s, np.full(len(s), u[i])])), box[:, :2], np.ones(2)
        )
        one = alone(m[i : i + 1], P[i : i + 1], h[i : i + 1])
        for part, own in zip(moved, one, strict=True):
            np.testing.assert_allclose(part[i], own[0], rtol=1e-10, atol=1e-12)


def test_tables_go_on_after_a_period_and_are_left_where_they_cannot_follow():
    def exact(x):
        return np.cos(x[:, :1]) * (1 + x[:, 1:]), (2 + np.sin(x[:, :1]))[:, :, None]

    def fast(x):
        return np.cos(200 * x[:, 1:]), np.ones((len(x), 1, 1))

    box, periods = np.array([[1.0, -1.0], [1.0 + TURN, 1.0]]), np.array([[1.0, 0.0], [1.0 + TURN, 0.0]])
    table = tabulated(exact, box, 10**6, periods, 1)
    assert table is not exact
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.uniform(-30, 30, 200), rng.uniform(-1, 1, 200)])
    for found, own in zip(table(x), exact(x), strict=True):
        np.testing.assert_allclose(found, own, atol=2e-4)
    assert tabulated(fast, box, 10**6, periods, 1) is fast


# Driven from outside, with errors of measurement


def places_of_driven():
    z = np.concatenate([X, U], axis=2)[:, ::10].reshape(-1, 2)
    return z, -z[:, 0] + 1.5 * z[:, 1]


def test_errors_of_driven_tracks_are_found_and_left_out_of_drift_and_noise(driven):
    z, truth = places_of_driven()
    plain, clean = itofit.fit(DRIVEN, measurement_noise=False, rng=0), itofit.fit(driven_data(X), rng=0)
    errors = [np.sqrt(np.mean((sde.drift(z)[:, 0] - truth) ** 2)) for sde in (driven, clean, plain)]
    assert errors[0] < 2 * errors[1] + 0.02
    assert errors[0] < 0.5 * errors[2]
    assert abs(driven.measurement_noise.sd[0] / SD - 1) < 4 * driven.measurement_noise.sd_std[0] / SD
    assert abs(driven.covariance(z).mean() / 0.25 - 1) < 0.12
    assert plain.covariance(z).mean() > 0.33
    assert clean.measurement_noise is None
    assert "driven by   drive" in driven.summary()
    assert "measurement standard deviation" in driven.summary()
    assert driven.nll(DRIVEN) < plain.nll(DRIVEN) - 0.01


def test_states_of_driven_tracks(driven):
    states = driven.states(DRIVEN)
    assert states.x.shape == (len(DRIVEN), 1)
    away = states.x[:, 0] - X[:, :-1].ravel()
    assert np.std(away) < 0.85 * SD
    assert 0.9 < np.std(away / states.std[:, 0]) < 1.1


def test_loss_of_driven_tracks_is_that_of_a_linear_filter(driven):
    """With a linear drift the filter is Kalman's: one track, step by step."""
    track = DRIVEN[DRIVEN.groups == 0][:40]
    losses = driven.nll(track, pointwise=True)
    noise = driven.measurement_noise.covariance[0, 0]
    mean, P = track.inputs[0, 0], noise
    for i in range(40):
        u, h = track.inputs[i, 1], H

        def f(x, u=u):
            return driven.drift([[x, u]])[0, 0]

        slope = (f(mean + 0.01) - f(mean - 0.01)) / 0.02
        sigma = driven.covariance([[mean, u]])[0, 0, 0]
        keep = np.exp(slope * h)
        before = mean + f(mean) * (keep - 1) / slope
        P_before = keep**2 * P + sigma * (keep**2 - 1) / (2 * slope)
        S, v = P_before + noise, track.inputs[i, 0] + track.increments[i, 0] - before
        np.testing.assert_allclose(losses[i], 0.5 * np.log(TURN * S) + 0.5 * v**2 / S, atol=5e-3)
        mean, P = before + P_before / S * v, P_before * noise / S


def test_checks_simulations_and_files_of_driven_tracks(driven, tmp_path):
    found = itofit.check(driven, DRIVEN)
    assert found.worst in ("good", "cannot tell")
    options = {"dt": H, "n_steps": 1, "covariates": [1.0]}
    added = driven.simulate(np.zeros(4000), **options, observed=True, rng=0)
    added -= driven.simulate(np.zeros(4000), **options, rng=0)
    assert abs(added.std() / driven.measurement_noise.sd[0] - 1) < 5 / np.sqrt(2 * added.size)
    driven.save(tmp_path / "driven.npz")
    again = itofit.load(tmp_path / "driven.npz")
    assert again.nll(DRIVEN) == driven.nll(DRIVEN)
    advice = itofit.check(itofit.fit(DRIVEN, measurement_noise=False, rng=0), DRIVEN)["whiteness"].advice
    assert "measurement_noise='auto'" in advice


def test_a_formula_of_driven_tracks(driven):
    formula = driven.formula(DRIVEN)
    drift = {
        term.name: c for term, c in zip(formula.drift_lines[0].terms, formula.drift_lines[0].coefficients, strict=True)
    }
    assert set(drift) == {"x", "drive"}
    np.testing.assert_allclose([drift["x"], drift["drive"]], [-1.0, 1.5], rtol=0.12)


def test_driven_tracks_with_known_errors_on_the_command_line(tmp_path):
    frame = pd.DataFrame({"t": H * np.arange(600), "x": SEEN[0, :600, 0], "drive": U[0, :600, 0]})
    frame.to_csv(tmp_path / "tracks.csv", index=False)
    arguments = ["fit", str(tmp_path / "tracks.csv"), "--time", "t", "--state", "x", "--covariate", "drive"]
    arguments += ["--measurement-noise", str(SD), "--held-out", "0", "-o", str(tmp_path / "sde.npz"), "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    np.testing.assert_allclose(told["measurement_noise"], [[SD**2]])
    assert told["covariates"] == ["drive"]


# Angles with errors of measurement


def test_errors_of_angles_are_found_and_left_out_of_force_and_noise(angle):
    places = np.linspace(0, TURN, 200)
    clean, plain = itofit.fit(angle_data(ANGLES), rng=0), itofit.fit(ANGLE, measurement_noise=False, rng=0)
    errors = [np.sqrt(np.mean((sde.drift(places)[:, 0] - force(places)) ** 2)) for sde in (angle, clean, plain)]
    assert errors[0] < 2 * errors[1] + 0.05
    assert errors[0] < 0.5 * errors[2]
    assert angle.measurement_noise.sd[0] == pytest.approx(0.08, rel=0.06)
    assert abs(angle.covariance(places).mean() / 0.49 - 1) < 0.12
    np.testing.assert_allclose(angle.drift([0.0]), angle.drift([TURN]), atol=1e-9)
    np.testing.assert_array_equal(angle.box, [[0.0], [TURN]])
    assert "periodic    angle" in angle.summary()


def test_loss_and_states_do_not_know_where_the_period_begins(angle):
    moved = angle_data(SEEN_ANGLES, low=-np.pi)
    elsewhere = itofit.LearnedSDE(**{**vars(angle), "periods": moved.periods, "box": moved.periods})
    losses = elsewhere.nll(moved, pointwise=True)
    np.testing.assert_allclose(losses, angle.nll(ANGLE, pointwise=True), atol=2e-6)
    one, other = angle.states(ANGLE), elsewhere.states(moved)
    assert (one.x >= 0).all()
    assert (one.x < TURN).all()
    assert (other.x >= -np.pi).all()
    assert (other.x < np.pi).all()
    np.testing.assert_allclose(nearest_image(one.x - other.x, ANGLE.periods), 0.0, atol=1e-5)
    away = nearest_image(one.x - ANGLES[:, :-1].reshape(-1, 1), ANGLE.periods)
    assert np.std(away) < 0.75 * 0.08
    assert 0.9 < np.std(away / one.std) < 1.1
    same = follows(ANGLE)[1:]
    ends = nearest_image(one.end[:-1] - one.x[1:], ANGLE.periods)
    np.testing.assert_allclose(ends[same], 0.0, atol=2e-3)


def test_checks_simulations_and_files_of_angles(angle, tmp_path):
    assert itofit.check(angle, ANGLE).worst in ("good", "cannot tell")
    seen = angle.simulate(np.zeros(2000), dt=0.02, n_steps=3, observed=True, rng=0)
    assert seen.min() >= 0
    assert seen.max() < TURN
    assert (seen[:, 0] > np.pi).any()  # a start at the cut is seen on either side of it
    angle.save(tmp_path / "angle.npz")
    assert itofit.load(tmp_path / "angle.npz").nll(ANGLE) == angle.nll(ANGLE)


def test_angles_that_errors_turn_round_are_said():
    seen = turning(n=300, n_tracks=4, sd=0.3 * TURN)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message=".*which went round one way")
        with pytest.raises(DataWarning, match=f"of the steps of angle are longer than {LONG} of its period"):
            itofit.fit(angle_data(seen), rng=0)
    assert np.mean(np.abs(ANGLE.increments) > LONG * TURN) < MANY


# Positions of a system that is driven from outside


def second_order_track(force, noise, n, seed, u=None, h=H, substeps=10):
    """One track of positions and velocities (n, 2), with a drive (n,) that is held during steps."""
    rng = np.random.default_rng(seed)
    x, v, dt = 0.0, 0.0, h / substeps
    states = np.empty((n, 2))
    for i, kicks in enumerate(np.sqrt(dt) * noise * rng.standard_normal((n, substeps))):
        states[i] = x, v
        for kick in kicks:
            before = v
            v = v + dt * force(x, v, 0.0 if u is None else u[i]) + kick
            x = x + 0.5 * (before + v) * dt
    return states


N = 3000
DRIVE = np.sin(0.7 * H * np.arange(N)) + np.repeat(np.random.default_rng(9).normal(size=N // 60), 60) / 2
OSCILLATOR = second_order_track(lambda x, v, u: -x - 0.6 * v + 1.5 * u, 0.7, N, 1, DRIVE)
POSITIONS = OSCILLATOR[:, 0] + 0.02 * np.random.default_rng(2).normal(size=N)


def positions(**options):
    names = {"names": "place", "covariate_names": "drive"}
    return Transitions.from_positions(POSITIONS, dt=H, covariates=DRIVE, **(names | options))


@pytest.fixture(scope="module")
def oscillator():
    return itofit.fit(positions(), rng=0)


def test_driven_positions_are_the_same_from_everywhere(tmp_path):
    data = positions(periodic={"drive": 9.0})
    assert (data.kind, data.input_names, data.output_names) == ("positions", ("place", "drive"), ("v_place",))
    np.testing.assert_array_equal(data.periods, [[0.0, 0.0], [0.0, 9.0]])
    frame = pd.DataFrame({"t": H * np.arange(N), "place": POSITIONS, "drive": DRIVE})
    columns = {"time": "t", "state": "place", "covariates": "drive", "periodic": {"drive": 9.0}, "second_order": True}
    frame.to_csv(tmp_path / "positions.csv", index=False)
    blocks = [{"path": POSITIONS[:, None], "covariates": DRIVE}]
    given = {"kind": "positions", "names": "place", "covariate_names": "drive", "periodic": {"drive": 9.0}}
    others = [
        Transitions.from_dataframe(frame, **columns),
        itofit.read_transitions(tmp_path / "positions.csv", **columns),
        itofit.read_transitions(tmp_path / "positions.csv", **columns, chunk_rows=500),
        Transitions.from_blocks(blocks, "trajectory", h=H, **given),
    ]
    for other in others:
        rows = Transitions.concatenate(list(other.blocks()))
        assert (other.kind, other.input_names, other.output_names) == (data.kind, data.input_names, data.output_names)
        np.testing.assert_array_equal(other.periods, data.periods)
        np.testing.assert_allclose(rows.inputs, data.inputs, atol=1e-12)
        np.testing.assert_allclose(rows.increments, data.increments, atol=1e-12)
    unknown = np.where(np.arange(N) == 7, np.nan, DRIVE)
    with pytest.warns(DataWarning, match="1 transition left out"):
        assert len(Transitions.from_positions(POSITIONS, dt=H, covariates=unknown)) == N - 2


def test_innovations_of_a_linear_system_do_not_depend_on_what_drives_it():
    """A drive adds the path that it makes by itself: without that, positions are those of the system alone."""
    terms = Terms(np.zeros((2, 1)))
    prior, box = Prior(np.zeros(1), np.eye(1)), np.array([[-99.0] * 3, [99.0] * 3])
    own = {"sigma": np.eye(1), "noise": 0.01 * np.eye(1), "prior": prior, "h": H, "intercept": np.zeros(1)}
    driven = LinearForce(terms=terms, slopes=np.array([[-1.0, -0.6, 1.5]]), box=box, **own)
    alone = LinearForce(terms=terms, slopes=np.array([[-1.0, -0.6]]), box=box[:, :2], **own)
    response, state = np.zeros(60), np.zeros((1, 2))
    for i in range(59):
        state = driven.step(state, np.zeros((1, 2, 2)), np.array([H]), DRIVE[i : i + 1, None]).mean
        response[i + 1] = state[0, 0]
    with_drive = Transitions.from_positions(POSITIONS[:60], dt=H, covariates=DRIVE[:60])
    without = Transitions.from_positions(POSITIONS[:60] - response, dt=H)
    found = []
    for model, data in ((driven, with_drive), (alone, without)):
        (chunk,) = chunks(data, cut(follows(data), 400, 400))
        found.append(filtered(model.step, chunk, model.noise, prior))
    np.testing.assert_allclose(found[0].v, found[1].v, atol=1e-9)
    np.testing.assert_allclose(found[0].S, found[1].S, rtol=1e-9)


def test_a_linear_force_has_covariates_and_the_sine_of_angles():
    force = linear_force_of(positions(), None)
    np.testing.assert_allclose(force.slopes, [[-1.0, -0.6, 1.5]], atol=0.25)
    terms = Terms(np.array([[1.0, 0.0], [3.0, 0.0]]))
    states = np.array([[1.5, 2.0, 0.3, 0.4, 0.7]])
    expected = [[np.sin(1.5 * np.pi) / np.pi, 2.0, 0.3, 0.4, 0.7, np.cos(1.5 * np.pi) / np.pi]]
    np.testing.assert_allclose(terms.at(states), expected, atol=1e-12)
    np.testing.assert_allclose(terms.at(states + np.array([2.0, 0, 0, 0, 0])), expected, atol=1e-12)
    slopes = np.zeros((2, 6))
    slopes[0, 0], slopes[0, -1], slopes[1, 4] = 3.0, 4.0, 99.0  # covariates make nothing change
    assert terms.rate(slopes) == pytest.approx(np.sqrt(5.0))


def test_driven_positions_show_force_noise_and_velocities(oscillator, tmp_path):
    data, z = positions(), np.column_stack([OSCILLATOR, DRIVE])
    truth = -z[:, 0] - 0.6 * z[:, 1] + 1.5 * z[:, 2]
    assert oscillator.input_names == ("place", "v_place", "drive")
    assert (oscillator.kind, oscillator.n_covariates) == ("underdamped", 1)
    assert np.mean((oscillator.drift(z)[:, 0] - truth) ** 2) < 0.03 * np.mean(truth**2)
    assert abs(oscillator.covariance(z).mean() / 0.49 - 1) < 0.2
    assert oscillator.measurement_noise.sd[0] == pytest.approx(0.02, rel=0.1)
    assert "driven by   drive" in oscillator.summary()
    states = oscillator.states(data)
    assert states.x.shape == (N - 1, 2)
    away = (states.x[:, 1] - OSCILLATOR[:-1, 1]) / states.std[:, 1]
    assert 0.85 < np.std(away) < 1.15
    assert itofit.check(oscillator, data).worst in ("good", "cannot tell")
    oscillator.save(tmp_path / "oscillator.npz")
    again = itofit.load(tmp_path / "oscillator.npz")
    assert again.nll(data) == oscillator.nll(data)
    paths = oscillator.simulate([[0.0, 0.0]], dt=H, n_steps=20, covariates=DRIVE[:20], observed=True, rng=0)
    assert paths.shape == (1, 21, 2)
    with pytest.raises(itofit.InputError, match="driven by drive, the data by nothing"):
        oscillator.nll(Transitions.from_positions(POSITIONS, dt=H, names="place"))


def test_driven_positions_on_the_command_line(oscillator, tmp_path):
    oscillator.save(tmp_path / "sde.npz")
    frame = pd.DataFrame({"t": H * np.arange(N), "place": POSITIONS, "drive": DRIVE})
    frame.to_csv(tmp_path / "positions.csv", index=False)
    columns = ["--time", "t", "--state", "place", "--covariate", "drive", "--second-order"]
    result = CliRunner().invoke(app, ["check", str(tmp_path / "sde.npz"), str(tmp_path / "positions.csv"), *columns])
    assert result.exit_code == 0, result.output
    assert "residuals" in result.output


def test_what_drives_a_first_order_system_is_not_taken_for_inertia():
    data = driven_data(X)
    assert persistence(data).order == "first"
    alone = Transitions.from_trajectories(list(X), dt=H)
    assert persistence(alone).p < persistence(data).p  # a drive that nobody knows of does look like it


# Positions that are angles

ROUND = {"angle": (-np.pi, np.pi)}
PENDULUM = second_order_track(lambda x, v, u: 0.4 - np.sin(x) - 0.5 * v, 0.9, N, 3)
WRAPPED = np.mod(PENDULUM[:, 0] + 0.02 * np.random.default_rng(4).normal(size=N) + np.pi, TURN) - np.pi


@pytest.fixture(scope="module")
def pendulum():
    data = Transitions.from_positions(WRAPPED, dt=H, names="angle", periodic=ROUND)
    return data, itofit.fit(data, rng=0)


def test_positions_that_are_angles(pendulum, tmp_path):
    data, sde = pendulum
    assert np.ptp(PENDULUM[:, 0]) > 3 * TURN
    z = PENDULUM.copy()
    z[:, 0] = np.mod(z[:, 0] + np.pi, TURN) - np.pi
    truth = 0.4 - np.sin(z[:, 0]) - 0.5 * z[:, 1]
    assert np.mean((sde.drift(z)[:, 0] - truth) ** 2) < 0.06 * np.mean(truth**2)
    assert abs(sde.covariance(z).mean() / 0.81 - 1) < 0.2
    assert sde.measurement_noise.sd[0] == pytest.approx(0.02, rel=0.15)
    ends = [sde.drift(np.column_stack([np.full(20, end), np.linspace(-2, 2, 20)])) for end in (-np.pi, np.pi)]
    np.testing.assert_allclose(*ends, atol=1e-9)
    np.testing.assert_array_equal(sde.periods, [[-np.pi, 0.0], [np.pi, 0.0]])
    states = sde.states(data)
    assert np.abs(states.x[:, 0]).max() <= np.pi
    away = (states.x[:, 1] - PENDULUM[:-1, 1]) / states.std[:, 1]
    assert 0.85 < np.std(away) < 1.15
    assert itofit.check(sde, data).worst in ("good", "cannot tell")
    sde.save(tmp_path / "pendulum.npz")
    assert itofit.load(tmp_path / "pendulum.npz").nll(data) == sde.nll(data)
    seen = sde.simulate(states.x[:50], dt=H, n_steps=5, observed=True, rng=0)
    assert np.abs(seen[:, :, 0]).max() <= np.pi
