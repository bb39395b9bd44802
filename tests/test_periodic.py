"""Periodic variables: steps to the nearest image, functions that are exactly periodic, paths within one period."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from itofit import ARFF, InputError, Transitions, check, fit, load, plot, read_transitions
from itofit.cli import app
from itofit.cli.outside import periods_from
from itofit.data.following import continues
from itofit.data.periods import checked_periods, nearest_image, wrapped
from itofit.learning.automatic.harmonics import TURN, first_harmonics, on_lattice, stretched
from itofit.learning.automatic.periodogram import Lattice, top_of_peak
from itofit.looking.plot.views import medians
from itofit.waves.wave_groups import linear_terms

H = 0.02
PERIODIC = {"angle": TURN}


def force(angle):
    return np.sin(angle) + 0.5 * np.cos(2 * angle)


def turning(n=150, m=20, seed=0, substeps=4):
    """Angles of m paths that go around more than once: shape (m, n + 1, 1), not wrapped."""
    rng = np.random.default_rng(seed)
    angle, dt = rng.uniform(0, TURN, m), H / substeps
    path = [angle]
    for _ in range(n):
        for _ in range(substeps):
            angle = angle + force(angle) * dt + 0.7 * np.sqrt(dt) * rng.standard_normal(m)
        path.append(angle)
    return np.array(path).T[:, :, None]


PATHS = turning()
DATA = Transitions.from_trajectories(np.mod(PATHS, TURN), dt=H, names="angle", periodic=PERIODIC)


@pytest.fixture(scope="module")
def sde():
    return fit(DATA, rng=0)


# Values and steps


def test_values_are_wrapped_into_the_period_and_those_within_stay_as_they_are():
    periods = checked_periods({"b": (-1.0, 2.0)}, ("a", "b"))
    x = np.array([[7.0, -1.0], [7.0, 2.0], [7.0, 0.1], [7.0, -1.5], [7.0, 10.5], [7.0, -1.0 - 1e-17]])
    found = wrapped(x, periods)
    np.testing.assert_array_equal(found[:, 0], 7.0)
    np.testing.assert_allclose(found[:, 1], [-1.0, -1.0, 0.1, 1.5, 1.5, -1.0])
    assert found[2, 1] == 0.1
    tiny = wrapped(np.array([[-1e-18]]), checked_periods({0: TURN}, ("a",)))
    assert 0 <= tiny.item() < TURN
    np.testing.assert_allclose(nearest_image(np.array([[4.0, 1.6], [4.0, -1.4]]), periods), [[4.0, -1.4], [4.0, -1.4]])


def test_steps_lead_to_the_nearest_image():
    np.testing.assert_allclose(DATA.increments[:, 0], np.diff(PATHS[:, :, 0]).ravel(), atol=1e-12)
    assert (DATA.inputs >= 0).all()
    assert (DATA.inputs < TURN).all()
    turned = Transitions.from_trajectories(PATHS, dt=H, names="angle", periodic=PERIODIC)
    np.testing.assert_allclose(turned.inputs, DATA.inputs, atol=1e-12)
    assert "periodic in angle" in repr(DATA)


def test_constructors_agree(tmp_path):
    path = np.mod(PATHS[0, :, 0], TURN)
    expected = Transitions.from_trajectories(path, dt=H, names="angle", periodic=PERIODIC)
    pairs = Transitions.from_pairs(path[:-1], path[1:], H, names="angle", periodic={0: TURN})
    steps = Transitions(path[:-1], np.diff(path), H, input_names="angle", periodic={"angle": (0, TURN)})
    frame = pd.DataFrame({"t": H * np.arange(len(path)), "angle": path})
    table = Transitions.from_dataframe(frame, time="t", state="angle", periodic=PERIODIC)
    frame.to_parquet(tmp_path / "a.parquet")
    whole, parts = (read_transitions(tmp_path / "a.parquet", periodic=PERIODIC, chunk_rows=n) for n in (None, 40))
    blocks = Transitions.from_blocks(np.array_split(path, 5), "trajectory", h=H, names="angle", periodic=PERIODIC)
    for data in (pairs, steps, table, whole, next(parts.blocks()), next(blocks.blocks())):
        np.testing.assert_array_equal(data.inputs, expected.inputs)
        np.testing.assert_array_equal(data.increments, expected.increments)
        np.testing.assert_array_equal(data.periods, expected.periods)
    assert (parts.periods == blocks.periods).all()


def test_the_position_of_an_underdamped_system_may_be_an_angle():
    x, v = np.array([6.2, 0.1, 0.3]), np.array([1.0, 1.1, 0.9])
    data = Transitions.from_underdamped(x[:-1], v[:-1], x[1:], v[1:], 0.1, names="angle", periodic=PERIODIC)
    np.testing.assert_allclose(data.increments[:, 0], [0.1, -0.2])
    np.testing.assert_array_equal(data.periods, [[0, 0], [TURN, 0]])


def test_a_covariate_may_be_periodic():
    hours = np.arange(40.0)
    data = Transitions.from_trajectories(
        np.sin(hours), dt=1.0, covariates=hours, covariate_names="hour", periodic={"hour": 24}
    )
    np.testing.assert_array_equal(data.inputs[:, 1], hours[:-1] % 24)
    np.testing.assert_array_equal(data.increments[:, 0], np.diff(np.sin(hours)))


# Functions


def test_functions_are_exactly_periodic(sde):
    x = np.linspace(0, TURN, 101)
    for turns in (1, -2):
        other = x + turns * TURN
        np.testing.assert_allclose(sde.drift(other), sde.drift(x), atol=1e-13)
        np.testing.assert_allclose(sde.covariance(other), sde.covariance(x), rtol=1e-13)
        np.testing.assert_allclose(sde.drift(other, return_std=True)[1], sde.drift(x, return_std=True)[1], atol=1e-10)
        np.testing.assert_allclose(sde.drift_jacobian(other), sde.drift_jacobian(x), atol=1e-12)
    for function in (sde.drift_function, sde.covariance_function):
        harmonics = function.series.omega / TURN
        np.testing.assert_allclose(harmonics, np.rint(harmonics), atol=1e-12)
        assert not linear_terms(function.training.groups, 1).any()


def test_the_force_is_found(sde):
    """Within 4 standard errors at 12 places: a false-alarm rate below 0.001 if they are right."""
    x = np.linspace(0, TURN, 12, endpoint=False)
    f, std = sde.drift(x, return_std=True)
    assert (np.abs(f[:, 0] - force(x)) < 4 * std[:, 0]).all()
    assert np.mean((f[:, 0] - force(x)) ** 2) < 0.1 * np.mean(force(x) ** 2)
    np.testing.assert_allclose(sde.covariance(x)[:, 0, 0], 0.49, rtol=0.1)


def test_where_the_cut_is_makes_no_difference(sde):
    """Waves of an angle are closed under shifts: features, evidence and amplitudes are the same, but for rounding."""
    shift = 2.3
    moved = Transitions.from_trajectories(PATHS + shift, dt=H, names="angle", periodic={"angle": (-np.pi, np.pi)})
    other = fit(moved, rng=0)
    x = np.linspace(0, TURN, 50)
    np.testing.assert_allclose(other.drift(x + shift), sde.drift(x), atol=1e-6)
    np.testing.assert_allclose(other.covariance(x + shift), sde.covariance(x), rtol=1e-6)


def test_blocks_give_the_same_model_to_the_last_bit():
    starts, ends = np.mod(PATHS[:, :-1, 0], TURN).ravel(), np.mod(PATHS[:, 1:, 0], TURN).ravel()
    memory = Transitions.from_pairs(starts, ends, H, names="angle", periodic=PERIODIC)
    parts = [(starts[i : i + 900], ends[i : i + 900]) for i in range(0, 3000, 900)]
    blocks = Transitions.from_blocks(parts, h=H, names="angle", periodic=PERIODIC)
    x = np.linspace(0, TURN, 20)
    np.testing.assert_array_equal(fit(blocks, rng=0).drift(x), fit(memory, rng=0).drift(x))


def test_short_waves_of_an_angle_and_a_variable_are_found():
    """A drift of the fifth harmonic whose strength depends on another variable: most of it is explained."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.uniform(0, TURN, 6000), rng.uniform(-1, 1, 6000)])
    f = np.column_stack([x[:, 1] * np.sin(5 * x[:, 0]), np.cos(x[:, 0]) - x[:, 1]])
    x1 = x + 0.1 * f + 0.3 * np.sqrt(0.1) * rng.standard_normal(x.shape)
    data = Transitions.from_pairs(x, x1, 0.1, names=["angle", "y"], periodic=PERIODIC)
    sde = fit(data, rng=0, correct_step=False)
    assert (np.mean((sde.drift(x) - f) ** 2, axis=0) < 0.15 * np.mean(f**2, axis=0)).all()
    np.testing.assert_allclose(sde.drift(x[:50] + np.array([TURN, 0])), sde.drift(x[:50]), atol=1e-12)
    assert "f of y depends on angle, y" in sde.summary()


def test_two_angles_are_learned():
    """Nothing is linear then. Errors of f_a = sin b and f_b = cos a are 0.02 to 0.04 for ten seeds."""
    rng, h = np.random.default_rng(0), 0.05
    x = np.zeros((5_001, 2))
    for i, noise in enumerate(0.2 * np.sqrt(h) * rng.normal(size=(5_000, 2))):
        x[i + 1] = x[i] + h * np.array([np.sin(x[i, 1]), np.cos(x[i, 0])]) + noise
    data = Transitions.from_trajectories(x, dt=h, names=("a", "b"), periodic={"a": TURN, "b": TURN})
    sde = fit(data, rng=0)
    assert "f of a depends on b alone; f of b depends on a alone" in sde.summary()
    truth = np.column_stack([np.sin(x[:, 1]), np.cos(x[:, 0])])
    assert np.sqrt(np.mean((sde.drift(np.mod(x, TURN)) - truth) ** 2)) < 0.09


def test_no_dependence_on_an_angle_is_found_where_there_is_none():
    """Of 20 data sets at most 8 show one: with a false-alarm rate of 0.15 for each that fails once in 700 times.

    The mean rate alone has the mean squared error 0.009; waves that are not there may make it three times as large.
    """
    found, errors = 0, []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.uniform(0, TURN, 1000)
        data = Transitions.from_pairs(x, x + 0.05 + 0.3 * rng.standard_normal(1000), 0.1, periodic={0: TURN})
        sde = fit(data, rng=0, correct_step=False)
        found += sde.drift_function.training.depends_on(0, ("angle",)) is not None
        errors.append(np.mean((sde.drift(x) - 0.5) ** 2))
    assert found <= 8
    assert np.mean(errors) < 3 * 0.009


def test_parameters_that_are_set_keep_to_the_lattice():
    arff = ARFF(n_features=10, delta=1.0, max_iterations=5, min_iterations=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sde = fit(DATA[:500], drift=arff, covariance=arff, rng=0)
    harmonics = sde.drift_function.series.omega / TURN
    np.testing.assert_allclose(harmonics, np.rint(harmonics), atol=1e-12)


# The lattice


def test_frequencies_stay_on_the_lattice():
    rng, periodic = np.random.default_rng(0), np.array([True, False])
    omega = on_lattice(20 * rng.standard_normal((200, 2)), periodic)
    np.testing.assert_array_equal(omega[:, 0], TURN * np.rint(omega[:, 0] / TURN))
    longer = stretched(rng, omega, 4.0, 60.0, periodic)
    assert (np.abs(longer) <= 60).all()
    np.testing.assert_allclose(longer[:, 0] / TURN, np.rint(longer[:, 0] / TURN))
    np.testing.assert_array_equal(longer[:, 1], np.clip(4 * omega[:, 1], -60, 60))
    assert {1, 2, 3} <= set(np.abs(np.rint(longer[:, 0] / TURN)).astype(int))  # those in between came as well
    free = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(first_harmonics(np.zeros((3, 2)), free, periodic), [[TURN, 0], [0, 0], [0, 0]])


def test_residuals_are_compared_with_whole_waves_alone():
    rng, periodic = np.random.default_rng(0), np.array([True, False])
    half, whole = Lattice(rng, 2, 60.0), Lattice(rng, 2, 60.0, periodic)
    chosen = (on_lattice(half.omega, periodic) == half.omega).all(axis=1)
    np.testing.assert_array_equal(whole.omega, half.omega[chosen])
    u, strengths = rng.uniform(-0.5, 0.5, (300, 2)), rng.standard_normal((300, 1))
    np.testing.assert_array_equal(whole.sums(u, strengths).waves, half.sums(u, strengths).waves[chosen])
    top = top_of_peak(np.array([3 * TURN, 7.0]), u, strengths, periodic)
    assert top[0] == 3 * TURN
    assert (top_of_peak(np.array([TURN, 0.0]), u, strengths, periodic) == [TURN, 0.0]).all()


# Paths, checks and plots


def test_paths_are_within_the_period_and_continuous_across_the_cut(sde):
    paths = sde.simulate(np.full(20, 50.0), H, 400, rng=0)
    assert (paths >= 0).all()
    assert (paths < TURN).all()
    steps = np.diff(np.unwrap(paths[:, :, 0], period=TURN), axis=1)
    assert np.abs(steps).max() < 6 * 0.7 * np.sqrt(H)
    again = Transitions.from_trajectories(paths, dt=H, names="angle", periodic=PERIODIC)
    np.testing.assert_allclose(again.increments[:, 0], steps.ravel(), atol=1e-12)
    other = sde.simulate(np.full(20, 50.0 - 7 * TURN), H, 400, rng=0)
    np.testing.assert_allclose(other, paths, atol=1e-9)


def test_steps_across_the_cut_follow_each_other(sde):
    diagnosis = check(sde, DATA)
    assert diagnosis["whiteness"].verdict in ("good", "cannot tell")
    assert diagnosis["extrapolation"].values["outside"] == 0
    assert diagnosis["discretisation"].verdict == "good"
    cut = np.mod(np.linspace(0, 50, 400), TURN)
    data = Transitions.from_trajectories(
        cut + 1e-3 * np.random.default_rng(0).normal(size=400), dt=0.1, periodic={0: TURN}
    )
    assert continues(data, np.arange(398), np.arange(1, 399)).all()


def test_plots_are_over_one_period(sde):
    half = DATA[DATA.inputs[:, 0] < 3]
    assert plot.drift(sde, half).get_xlim() == (0.0, TURN)
    assert len(plot.potential(sde, DATA).get_legend().get_texts()) >= 1
    plot.distributions(sde, DATA, n_paths=40)


def test_the_median_of_angles_is_near_their_mean_direction():
    angles = np.array([6.1, 6.2, 0.0, 0.1, 0.3])
    data = Transitions(angles, np.full(5, 0.1), 1.0, periodic={0: TURN})
    assert np.cos(medians(data.inputs, data.periods).item()) == pytest.approx(1.0, abs=1e-12)


def test_a_model_keeps_its_periods(sde, tmp_path):
    sde.save(tmp_path / "sde.npz")
    loaded = load(tmp_path / "sde.npz")
    np.testing.assert_array_equal(loaded.periods, [[0.0], [TURN]])
    np.testing.assert_array_equal(loaded.box, loaded.periods)
    assert "periodic    angle (from 0 to 6.28319)" in loaded.summary()
    np.testing.assert_array_equal(loaded.simulate(1.0, H, 50, rng=0), sde.simulate(1.0, H, 50, rng=0))


# Mistakes


@pytest.mark.parametrize(
    ("periodic", "message"),
    [
        ({"angle": 0}, "the period of angle must be a number > 0, .*got 0"),
        ({"angle": -1.0}, "must be a number > 0"),
        ({"angle": np.nan}, "must be a number > 0"),
        ({"angle": (2.0, 1.0)}, "where it begins and ends"),
        ({"angle": "2pi"}, "got '2pi'"),
        ({"angle": True}, "got True"),
        ({"angel": TURN}, "no variable 'angel' .is it 'angle' that you mean"),
        ({3: TURN}, "no variable 3"),
        ({"angle": TURN, 0: 1.0}, "names angle twice"),
        (TURN, "must be a dictionary"),
    ],
)
def test_bad_periods_are_refused(periodic, message):
    with pytest.raises(InputError, match=message):
        Transitions.from_trajectories(PATHS, dt=H, names="angle", periodic=periodic)
    frame = pd.DataFrame({"t": [0.0, 1.0], "angle": [0.0, 1.0]})
    with pytest.raises(InputError, match=message):
        Transitions.from_dataframe(frame, time="t", state="angle", periodic=periodic)


def test_model_and_data_have_the_same_periods(sde):
    data = Transitions.from_trajectories(PATHS, dt=H, names="angle")
    with pytest.raises(InputError, match=r"make the data with periodic=\{'angle': \(0.0, 6.28"):
        sde.nll(data)
    with pytest.raises(InputError, match="differ from those before"):
        Transitions.concatenate([DATA, data])


def test_the_method_of_the_paper_knows_no_periods():
    with pytest.raises(InputError, match="refine=False knows no periodic variables"):
        fit(DATA, refine=False)


def test_an_angle_that_does_not_change_is_refused():
    x = np.random.default_rng(0).normal(size=(30, 1))
    data = Transitions.from_trajectories(x, dt=1.0, covariates=np.ones(30), periodic={"u": TURN})
    with pytest.raises(InputError, match="constant"):
        fit(data)


# The command line


def test_periods_as_texts():
    assert periods_from("angle=2pi, hour=24") == {"angle": TURN, "hour": 24.0}
    assert periods_from("a=-pi:pi") == {"a": (-np.pi, np.pi)}
    assert periods_from("a=0.5*pi") == {"a": np.pi / 2}
    assert periods_from(None) is None
    for text in ("angle", "angle=", "=3", "angle=two", "a=1:2:3"):
        with pytest.raises(InputError, match="--periodic must be a name and its period"):
            periods_from(text)


def test_the_command_line_takes_periods(tmp_path):
    def call(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    file, model = tmp_path / "a.csv", tmp_path / "sde.npz"
    track = np.repeat(np.arange(20), 151)
    table = {"track": track, "t": np.tile(H * np.arange(151), 20), "angle": np.mod(PATHS, TURN).ravel()}
    pd.DataFrame(table).to_csv(file, index=False)
    result = call("fit", file, "-o", model, "--periodic", "angle=2pi", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["periods"] == {"angle": [0.0, TURN]}
    assert call("check", model, file, "--periodic", "angle=2pi").exit_code in (0, 1)
    assert "--periodic angle=0.0:6.28" in call("check", model, file).output
    assert "period of angle must be a number > 0" in call("fit", file, "-o", model, "--periodic", "angle=0").output
    assert call("simulate", model, "-o", "-", "--start", "7", "--dt", H, "--steps", "5").exit_code == 0
