"""Inputs from outside: the same from every constructor, held during a step, and given to simulations."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import itofit
from itofit import DataWarning, InputError, Transitions, check, fit, load, plot, read_transitions
from itofit.cli import app
from itofit.model.finite_step import moments_of_step
from itofit.model.known import KnownSDE

pytestmark = pytest.mark.usefixtures("few_paths")

H = 0.05
DRIVEN = KnownSDE(
    f=lambda z: -z[:, :1] + 1.5 * z[:, 1:], sigma=lambda z: np.full((len(z), 1, 1), 0.5), n_inputs=2, n_covariates=1
)
"""dx = (−x + 1.5 u) dt + 0.5 dW."""


def driven_path(n=3000, seed=0):
    """A path in exact steps, and its drive, which is held during each: shapes (n + 1, 1)."""
    rng = np.random.default_rng(seed)
    u = np.sin(0.7 * H * np.arange(n + 1))[:, None]
    x, keep = np.zeros((n + 1, 1)), np.exp(-H)
    kicks = 0.5 * np.sqrt((1 - keep**2) / 2) * rng.standard_normal(n)
    for i in range(n):
        x[i + 1] = keep * x[i] + 1.5 * (1 - keep) * u[i] + kicks[i]
    return x, u


X, U = driven_path()
DATA = Transitions.from_trajectories(X, dt=H, covariates=U, covariate_names="drive")


@pytest.fixture(scope="module")
def sde():
    return fit(DATA, rng=0)


def same(found, expected):
    np.testing.assert_array_equal(found.inputs, expected.inputs)
    np.testing.assert_array_equal(found.increments, expected.increments)
    np.testing.assert_allclose(found.h, expected.h, rtol=1e-9)
    assert (found.kind, found.n_covariates) == (expected.kind, expected.n_covariates)
    assert (found.input_names, found.output_names) == (expected.input_names, expected.output_names)


# Constructors


def test_covariates_are_the_last_inputs_and_those_at_the_start_of_a_step_count():
    np.testing.assert_array_equal(DATA.inputs, np.hstack([X, U])[:-1])
    np.testing.assert_array_equal(DATA.increments, np.diff(X, axis=0))
    assert (DATA.n_inputs, DATA.n_outputs, DATA.n_covariates, DATA.kind) == (2, 1, 1, "diffusion")
    assert (DATA.input_names, DATA.output_names) == (("x", "drive"), ("x",))
    assert "driven by drive" in repr(DATA)
    part = DATA[:10]
    assert (part.n_covariates, part.split(0.5, rng=0)[0].n_covariates) == (1, 1)


def test_constructors_agree(tmp_path):
    pairs = Transitions.from_pairs(X[:-1], X[1:], H, covariates=U[:-1], covariate_names=["drive"])
    same(pairs, DATA)
    plain = Transitions(X[:-1], np.diff(X, axis=0), H, covariates=U[:-1, 0], covariate_names="drive")
    same(plain, DATA)
    frame = pd.DataFrame({"t": H * np.arange(len(X)), "x": X[:, 0], "drive": U[:, 0]})
    same(Transitions.from_dataframe(frame, time="t", state="x", covariates="drive"), DATA)
    frame.to_parquet(tmp_path / "a.parquet")
    same(read_transitions(tmp_path / "a.parquet", covariates=["drive"]), DATA)
    np.savez(tmp_path / "a.npz", x0=X[:-1], x1=X[1:], h=H, covariates=U[:-1])
    same(read_transitions(tmp_path / "a.npz", covariates="drive"), DATA)


def test_several_trajectories_have_covariates_in_any_form():
    paths, own = X[:3000].reshape(3, 1000, 1), U[:3000].reshape(3, 1000, 1)
    expected = Transitions.from_trajectories(paths, dt=H, covariates=own)
    for form in (list(own), own[:, :, 0], [part[:, 0] for part in own]):
        same(Transitions.from_trajectories(list(paths), dt=H, covariates=form), expected)
    shared = Transitions.from_trajectories(paths, dt=H, covariates=own[0])
    np.testing.assert_array_equal(shared.inputs[:, 1], np.tile(own[0, :-1, 0], 3))


def test_an_underdamped_system_is_driven():
    x, v, u = np.random.default_rng(0).normal(size=(3, 40))
    data = Transitions.from_underdamped(x[:-1], v[:-1], x[1:], v[1:], 0.1, covariates=u[:-1], covariate_names="force")
    assert (data.kind, data.input_names, data.output_names) == ("underdamped", ("x", "v", "force"), ("v",))
    frame = pd.DataFrame({"x": x, "v": v, "force": u})
    found = Transitions.from_dataframe(frame, dt=0.1, state="x", velocity="v", covariates="force")
    same(found, data)


def test_yes_and_no_are_one_and_zero():
    given = U[:, 0] > 0
    data = Transitions.from_trajectories(X, dt=H, covariates=given)
    np.testing.assert_array_equal(data.inputs[:, 1], given[:-1].astype(float))


def test_the_column_of_times_may_drive():
    frame = pd.DataFrame({"t": H * np.arange(50), "x": X[:50, 0]})
    data = Transitions.from_dataframe(frame, time="t", state="x", covariates="t")
    np.testing.assert_array_equal(data.inputs[:, 1], frame["t"].to_numpy()[:-1])
    frame["t"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(50), unit="h")
    data = Transitions.from_dataframe(frame, time="t", state="x", covariates="t", unit="D")
    np.testing.assert_allclose(data.inputs[:, 1], 19_723 + np.arange(49) / 24)  # days since 1970


def test_steps_that_start_without_covariates_are_left_out_with_a_note(tmp_path):
    u = U.copy()
    u[[3, 7, -1]] = np.nan  # no step starts at the last
    with pytest.warns(DataWarning, match="2 transitions left out of 3,000: a covariate is missing where they start"):
        data = Transitions.from_trajectories(X, dt=H, covariates=u, covariate_names="drive")
    np.testing.assert_array_equal(data.inputs, np.delete(DATA.inputs, [3, 7], axis=0))
    frame = pd.DataFrame({"t": H * np.arange(len(X)), "x": X[:, 0], "drive": u[:, 0]})
    with pytest.warns(DataWarning, match="2 transitions left out"):
        same(Transitions.from_dataframe(frame, time="t", state="x", covariates="drive"), data)
    frame.to_csv(tmp_path / "a.csv", index=False)
    parts = read_transitions(tmp_path / "a.csv", covariates="drive", chunk_rows=500)
    with pytest.warns(DataWarning, match="2 transitions left out") as noted:
        assert len(parts) == 2998
    assert len(noted) == 1
    same(next(parts.blocks()), data)
    blocks = Transitions.from_blocks(
        lambda: (
            {"x0": X[i : i + 100], "x1": X[i + 1 : i + 101], "covariates": u[i : i + 100]} for i in range(0, 3000, 100)
        ),
        h=H,
        covariate_names="drive",
    )
    with pytest.warns(DataWarning, match="2 transitions left out"):
        assert len(blocks) == 2998
    same(next(blocks.blocks()), data)


def test_blocks_and_parts_of_files_give_the_same_model_to_the_last_bit(sde, tmp_path):
    pieces = [{"path": X[i : i + 700], "covariates": U[i : i + 700]} for i in range(0, 3001, 700)]
    blocks = Transitions.from_blocks(pieces, "trajectory", h=H, covariate_names="drive")
    memory = Transitions._trusted(DATA.inputs, DATA.increments, DATA.h, None, *DATA._variables)
    same(next(blocks.blocks()), memory)
    z = DATA.inputs[::50]
    expected = fit(memory, rng=0).drift(z)
    np.testing.assert_array_equal(fit(blocks, rng=0).drift(z), expected)
    pd.DataFrame({"t": np.arange(len(X)), "x": X[:, 0], "drive": U[:, 0]}).to_csv(tmp_path / "a.csv", index=False)
    whole, parts = (
        read_transitions(tmp_path / "a.csv", dt=H, state="x", covariates="drive", chunk_rows=n) for n in (None, 800)
    )
    np.testing.assert_array_equal(fit(parts, rng=0).drift(z), fit(whole, rng=0).drift(z))


def test_blocks_of_every_form_have_covariates():
    x, v, u = np.random.default_rng(0).normal(size=(3, 40, 1))
    moved = {"x0": x[:-1], "v0": v[:-1], "x1": x[1:], "v1": v[1:], "h": np.full(39, 0.1), "covariates": u[:-1]}
    found = Transitions.from_blocks([moved], "underdamped", names="a", covariate_names="force", periodic={"a": 3.0})
    arrays = {name: array for name, array in moved.items() if name != "h"}
    expected = Transitions.from_underdamped(**arrays, h=0.1, names="a", covariate_names="force", periodic={"a": 3.0})
    same(next(found.blocks()), expected)
    steps = {"inputs": x[:-1], "increments": np.diff(x, axis=0), "h": np.full(39, 0.1), "covariates": u[:-1]}
    expected = Transitions.from_trajectories(x, dt=0.1, covariates=u)
    same(next(Transitions.from_blocks([steps], "increments").blocks()), expected)
    tracks = [
        {"path": x[:20], "times": 0.1 * np.arange(20), "covariates": u[:20]},
        {"path": x[20:], "covariates": u[20:], "times": 0.1 * np.arange(20)},
    ]
    found = next(Transitions.from_blocks(tracks, "trajectories").blocks())
    same(found, Transitions.from_trajectories([x[:20], x[20:]], dt=0.1, covariates=[u[:20], u[20:]]))
    np.testing.assert_array_equal(found.groups, np.repeat([0, 1], 19))


def test_joined_parts_must_be_driven_alike():
    assert Transitions.concatenate([DATA[:10], DATA[10:20]]).n_covariates == 1
    undriven = Transitions.from_trajectories(np.hstack([X, U]), dt=H, names=["x", "drive"])
    with pytest.raises(InputError, match=r"inputs, outputs and kind|covariate"):
        Transitions.concatenate([DATA, undriven])


# During a step


@pytest.mark.parametrize("underdamped", [False, True])
def test_covariates_are_held_during_a_step(underdamped):
    """A step with the covariate at u is one of the equation in which u is a constant."""
    rng = np.random.default_rng(0)
    d, s = 2, 4 if underdamped else 2
    x, u, h = rng.normal(size=(30, s)), rng.normal(size=(30, 1)), rng.uniform(0.1, 0.3, 30)

    def f(z):
        return np.tanh(z[:, s - d : s]) * z[:, s:] - z[:, :d]

    def sigma(z):
        return (0.5 + 0.1 * (z[:, :1] + z[:, s:]) ** 2)[:, :, None] * np.eye(d)

    found = moments_of_step(np.hstack([x, u]), h, f, sigma, underdamped=underdamped, n_held=1)
    for i in range(30):
        held = [lambda z, g=g, i=i: g(np.hstack([z, np.full((len(z), 1), u[i, 0])])) for g in (f, sigma)]
        alone = moments_of_step(x[i : i + 1], h[i : i + 1], *held, underdamped=underdamped)
        np.testing.assert_allclose(found.mean[i], alone.mean[0], rtol=1e-12)
        np.testing.assert_allclose(found.covariance[i], alone.covariance[0], rtol=1e-12)
    assert (found.places[:, :, s:] == u).all()


def test_the_driven_system_is_recovered(sde):
    """Values within 4 standard errors: the false-alarm rate of all 9 together is below 0.001 if these are right."""
    assert "f of x depends on x, drive linearly" in sde.summary()
    z = np.array([[a, b] for a in (-1.0, 0.0, 1.0) for b in (-0.8, 0.0, 0.8)])
    f, std = sde.drift(z, return_std=True)
    assert (np.abs(f - DRIVEN.drift(z)) < 4 * std).all()
    np.testing.assert_allclose(sde.covariance(z), 0.25, rtol=0.1)
    assert sde.scheme == "corrected"


def test_a_drift_that_a_treatment_turns_off_is_found():
    """0 and 1: the drift of either is known within 4 standard errors (false-alarm rate below 0.001)."""
    rng = np.random.default_rng(1)
    x, u = rng.uniform(-1, 1, 8000), rng.integers(0, 2, 8000)
    x1 = x + 0.1 * (-2 * x * u) + 0.3 * np.sqrt(0.1) * rng.standard_normal(8000)
    data = Transitions.from_pairs(x, x1, 0.1, covariates=u, covariate_names="treated")
    sde = fit(data, rng=0, correct_step=False)
    for treated in (0.0, 1.0):
        z = np.column_stack([[-0.8, -0.3, 0.3, 0.8], np.full(4, treated)])
        f, std = sde.drift(z, return_std=True)
        assert (np.abs(f[:, 0] + 2 * z[:, 0] * treated) < 4 * std[:, 0]).all()
    assert check(sde, data)["extrapolation"].verdict == "good"


def test_the_method_of_the_paper_takes_covariates():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sde = fit(DATA, refine=False, rng=0)
    assert (sde.n_covariates, sde.input_names) == (1, ("x", "drive"))
    assert sde.simulate(0.0, H, 3, covariates=0.5, rng=0).shape == (1, 4, 1)


# Simulations


def test_an_array_and_a_function_of_time_simulate_the_same(sde):
    n = 40
    u = U[:n]
    expected = sde.simulate([0.0, 0.3], H, n, covariates=u, rng=0)
    forms = (
        U[: n + 1],
        u[:, 0],
        np.stack([u, u]),
        lambda t: u[min(round(t / H), n - 1)],
        lambda t: np.stack([u[min(round(t / H), n - 1)]] * 2),
        lambda t: u[min(round(t / H), n - 1), 0],
    )
    for form in forms:
        np.testing.assert_array_equal(sde.simulate([0.0, 0.3], H, n, covariates=form, rng=0), expected)
    constant = sde.simulate(0.0, H, n, covariates=0.5, rng=0)
    np.testing.assert_array_equal(sde.simulate(0.0, H, n, covariates=np.full((n, 1), 0.5), rng=0), constant)


def test_paths_have_the_mean_and_variance_that_the_drive_gives():
    """Within 4.5 standard errors at every time (false-alarm rate below 0.01 for 2 · 50 numbers)."""
    n, n_paths = 50, 4000
    paths = DRIVEN.simulate(np.zeros(n_paths), H, n, covariates=np.sin, rng=0)[:, :, 0]
    mean, variance = np.zeros(n + 1), np.zeros(n + 1)
    for i in range(n):
        mean[i + 1] = mean[i] + H * (-mean[i] + 1.5 * np.sin(i * H))
        variance[i + 1] = (1 - H) ** 2 * variance[i] + 0.25 * H
    assert (np.abs(paths.mean(axis=0) - mean)[1:] < 4.5 * np.sqrt(variance[1:] / n_paths)).all()
    assert (np.abs(paths.var(axis=0)[1:] / variance[1:] - 1) < 4.5 * np.sqrt(2 / n_paths)).all()


def test_each_path_may_have_its_own_drive(sde):
    own = np.random.default_rng(0).uniform(-1, 1, size=(3, 20, 1))
    paths = sde.simulate(np.zeros(3), H, 20, covariates=own, rng=0)
    single = sde.simulate(np.zeros(3), H, 20, covariates=np.stack([own[0]] * 3), rng=0)
    np.testing.assert_array_equal(paths[0], single[0])
    assert not np.array_equal(paths[1], single[1])


def test_a_simulated_frame_holds_the_drive_and_can_be_read_again(sde):
    frame = sde.simulate([0.0, 0.1], H, 30, covariates=U[:30], rng=0, as_frame=True)
    assert frame.columns.tolist() == ["track", "time", "x", "drive"]
    paths = sde.simulate([0.0, 0.1], H, 30, covariates=U[:30], rng=0)
    found = Transitions.from_dataframe(frame, time="time", state="x", track="track", covariates="drive")
    same(found, Transitions.from_trajectories(paths, dt=H, covariates=U[:31], covariate_names="drive"))


def test_a_drive_beyond_the_data_is_outside(sde):
    with pytest.warns(itofit.ExtrapolationWarning):
        sde.simulate(0.0, H, 5, covariates=3.0, rng=0)


# What a model says, keeps and draws


def test_a_model_keeps_its_covariates(sde, tmp_path):
    sde.save(tmp_path / "sde.npz")
    loaded = load(tmp_path / "sde.npz")
    assert (loaded.covariate_names, loaded.state_names, loaded.n_covariates) == (("drive",), ("x",), 1)
    assert loaded.summary() == sde.summary()
    assert "driven by   drive" in sde.summary()
    z = DATA.inputs[:20]
    np.testing.assert_array_equal(loaded.drift(z), sde.drift(z))
    np.testing.assert_array_equal(loaded.step_moments(z, H)[0], sde.step_moments(z, H)[0])
    assert np.isfinite(loaded.step_trust(z)).all()


def test_a_right_model_is_good(sde):
    x, u = driven_path(4000, seed=9)
    other = Transitions.from_trajectories(x, dt=H, covariates=u, covariate_names="drive")
    diagnosis = check(sde, other)
    assert diagnosis.worst in ("good", "cannot tell", "caution")
    assert diagnosis["whiteness"].verdict in ("good", "cannot tell")
    assert sde.nll(other) < fit(Transitions.from_trajectories(X, dt=H), rng=0).nll(
        Transitions.from_trajectories(x, dt=H)
    )


def test_advice_on_noisy_tracks_names_what_can_be_done(sde):
    """Errors of measurement of driven tracks are found, and the option is named that leaves them out."""
    noisy = X + 0.2 * np.random.default_rng(0).normal(size=X.shape)
    data = Transitions.from_trajectories(noisy, dt=H, covariates=U, covariate_names="drive")
    finding = check(sde, data)["whiteness"]
    assert "measurement noise" in finding.text
    assert "measurement_noise='auto'" in finding.advice


def test_plots_show_covariates(sde, tmp_path):
    figure = plot.slices(sde, DATA)
    assert [ax.get_xlabel() for ax in figure.axes[-2:]] == ["x", "drive"]
    assert plot.heatmap(sde, DATA).get_ylabel() == "drive"
    assert "drive" in plot.potential(sde, DATA).get_title()
    plot.overview(sde, DATA)
    plot.distributions(sde, DATA, n_paths=10)
    page = itofit.report(sde, DATA, tmp_path / "page.html", formula=False).read_text(encoding="utf-8")
    assert "Driven from outside by drive" in page


def test_flow_of_two_driven_variables():
    rng = np.random.default_rng(0)
    x, u = rng.normal(size=(400, 2)), rng.normal(size=400)
    data = Transitions.from_pairs(
        x, x - 0.1 * x + 0.1 * u[:, None] + 0.1 * rng.normal(size=(400, 2)), 0.1, covariates=u
    )
    assert "u = " in plot.field(fit(data, rng=0), data).get_title()


# Mistakes


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Transitions.from_trajectories(X, dt=H, covariates=U[:-1]),
            r"one row for each observation: expected 3001, got 3000",
        ),
        (
            lambda: Transitions.from_trajectories([X, X], dt=H, covariates=[U]),
            "one array for each trajectory: expected 2, got 1",
        ),
        (lambda: Transitions.from_trajectories([X, X[:9]], dt=H, covariates=U), "expected 9, got 3001"),
        (
            lambda: Transitions.from_pairs(X[:-1], X[1:], H, covariates=U),
            "one row for each transition: expected 3000, got 3001",
        ),
        (lambda: Transitions.from_trajectories(X, dt=H, covariates=U.T), r"is it covariates\.T that you mean"),
        (lambda: Transitions.from_trajectories(X, dt=H, covariates=U + np.inf), "must be finite or NaN"),
        (lambda: Transitions.from_trajectories(X, dt=H, covariates=U * np.nan), "missing in every row"),
        (
            lambda: Transitions.from_trajectories(X, dt=H, covariates=U, covariate_names="x"),
            "'x' is the name of a variable",
        ),
        (
            lambda: Transitions.from_trajectories(X, dt=H, covariates=U, covariate_names=["a", "b"]),
            "covariate_names must be 1 string",
        ),
        (
            lambda: Transitions.from_trajectories(X, dt=H, covariate_names="a"),
            "covariate_names were given, but no covariates",
        ),
        (
            lambda: Transitions.from_blocks([{"path": X, "covariates": U[1:]}], "trajectory", h=H),
            "block 0.*one row for each",
        ),
        (lambda: Transitions.from_blocks([{"way": X}], "trajectory", h=H), "must have the name path"),
    ],
)
def test_covariates_of_other_lengths_and_names_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_columns_have_one_role(tmp_path):
    frame = pd.DataFrame({"t": np.arange(30.0), "x": X[:30, 0], "drive": U[:30, 0]})
    with pytest.raises(InputError, match="'x' is named twice"):
        Transitions.from_dataframe(frame, time="t", state="x", covariates="x")
    with pytest.raises(InputError, match=r"no column 'dirve' .is it 'drive'"):
        Transitions.from_dataframe(frame, time="t", state="x", covariates="dirve")


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda sde: sde.drift([0.0, 1.0, 2.0]), r"values of x alone, but drift and covariance also depend on drive"),
        (lambda sde: sde.covariance(X), "np.column_stack"),
        (lambda sde: sde.simulate(0.0, H, 5), "driven by drive: give covariates="),
        (lambda sde: sde.simulate(0.0, H, 5, covariates=[0.0, 1.0]), r"expected shape \(5, 1\).*got \(2, 1\)"),
        (lambda sde: sde.simulate(0.0, H, 5, covariates=lambda t: [1.0, 2.0]), r"must give an array of shape \(1,\)"),
        (lambda sde: sde.simulate(0.0, H, 5, covariates=np.nan), "must be finite"),
        (lambda sde: sde.nll(Transitions.from_trajectories(X, dt=H)), "driven by drive, the data by nothing"),
        (lambda sde: check(sde, Transitions.from_trajectories(X, dt=H)), "make the data with covariates="),
        (lambda sde: plot.drift(sde, Transitions.from_trajectories(np.hstack([X, U]), dt=H)), "the data by nothing"),
    ],
)
def test_a_driven_model_asks_for_what_drives_it(sde, ask, message):
    with pytest.raises(InputError, match=message):
        ask(sde)


def test_what_is_not_driven_takes_no_covariates():
    sde = KnownSDE(f=lambda x: -x, sigma=lambda x: np.ones((len(x), 1, 1)))
    with pytest.raises(InputError, match="nothing drives this equation"):
        sde.simulate(0.0, 0.1, 5, covariates=1.0)


def test_covariates_that_say_nothing_are_refused():
    with pytest.raises(InputError, match="constant"):
        fit(Transitions.from_trajectories(X, dt=H, covariates=np.ones_like(U)))
    with pytest.raises(InputError, match="a linear function of"):
        fit(Transitions.from_trajectories(X, dt=H, covariates=np.hstack([U, 2 * U + 1])))


# The command line


def test_the_command_line_takes_covariates(tmp_path):
    def call(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    file, model, drive = tmp_path / "a.csv", tmp_path / "sde.npz", tmp_path / "drive.csv"
    frame = pd.DataFrame({"t": H * np.arange(1500), "x": X[:1500, 0], "drive": U[:1500, 0]})
    frame.to_csv(file, index=False)
    frame[["drive"]].to_csv(drive, index=False)
    result = call("fit", file, "-o", model, "--covariate", "drive", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["covariates"] == ["drive"]
    assert "driven by" in call("info", model).output
    assert call("check", model, file, "--covariate", "drive").exit_code in (0, 1)
    assert "make the data with --covariate" in call("check", model, file, "--state", "x").output
    simulate = ("simulate", model, "-o", "-", "--start", "0", "--dt", H, "--steps", "20")
    assert call(*simulate, "--covariates", drive).output.startswith("track,time,x,drive\n")
    constant = call(*simulate, "--covariates", "drive=0.5").output.splitlines()
    assert all(line.endswith(",0.5") for line in constant[1:])
    assert "give --covariates, a table" in call(*simulate).output
    assert "there is no file" in call(*simulate, "--covariates", "nowhere.csv").output
    assert "must give a number for drive" in call(*simulate, "--covariates", "dose=1").output
    short = ("simulate", model, "-o", "-", "--start", "0", "--dt", H, "--steps", "2000", "--covariates", drive)
    assert "has 1500 rows" in call(*short).output


def test_covariates_by_their_names_get_advice():
    x, u = np.arange(5.0), {"light": np.ones(5)}
    for make in (Transitions.from_trajectories, lambda x, **given: Transitions(x, x, given.pop("dt"), **given)):
        with pytest.raises(
            InputError, match=r"got dict; give np.column_stack\(list\(u.values\(\)\)\), and covariate_names"
        ):
            make(x, dt=0.1, covariates=u)
