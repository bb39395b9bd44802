"""Edges of models and of the data given to them: units, names, drives, samples, terms, and options that are wrong."""

import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import itofit
from itofit import ExtrapolationWarning, InputError, Transitions, Units
from itofit.cli import app
from itofit.cli.outside import drive_from, periods_from, units_from
from itofit.data.names import Variables, in_order
from itofit.model.formula.library import library, parsed
from itofit.model.known import KnownSDE

H = 0.1
RNG = np.random.default_rng(0)
START = RNG.normal(size=(400, 2))
PLANE = Transitions.from_pairs(START, START - 0.1 * START + 0.1 * RNG.normal(size=(400, 2)), H, names=["x", "y"])
DRIVEN = KnownSDE(
    f=lambda z: -z[:, :1] + z[:, 1:], sigma=lambda z: np.full((len(z), 1, 1), 0.01), n_inputs=2, n_covariates=1
)


def pairs(units=None, time_unit=None, n=6, covariate=None):
    """Pairs of x, perhaps with a covariate of some name."""
    drive = {} if covariate is None else {"covariates": np.arange(float(n)), "covariate_names": covariate}
    data = Transitions.from_pairs(np.arange(float(n)), np.arange(n) + 0.5, H, names="x", **drive)
    return data.with_units(units, time_unit)


@pytest.fixture(scope="module")
def linear():
    """A model of x and y, and its data."""
    return itofit.fit(PLANE, rng=0)


@pytest.fixture(scope="module")
def noisy():
    """A model that knows errors of measurement, and its data."""
    rng, x = np.random.default_rng(1), np.zeros(400)
    for i in range(399):
        x[i + 1] = 0.9 * x[i] + 0.1 * rng.normal()
    data = Transitions.from_trajectories((x + 0.05 * rng.normal(size=400))[:, None], dt=0.1)
    return itofit.fit(data, measurement_noise=0.05, rng=0), data


@pytest.fixture(scope="module")
def hidden():
    """A model of positions alone, and its data."""
    rng, x, v = np.random.default_rng(2), np.zeros(250), np.zeros(250)
    for i in range(249):
        x[i + 1] = x[i] + 0.05 * v[i]
        v[i + 1] = v[i] + 0.05 * (-x[i] - 0.5 * v[i]) + np.sqrt(0.05) * rng.normal()
    data = Transitions.from_positions(x, dt=0.05, names="x")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return itofit.fit(data, rng=0, measurement_noise=False), data


# Units


def test_units_are_compared_with_those_of_all_parts_before():
    bare, small, large = pairs(), pairs({"x": "um"}), pairs({"x": "mm"})
    with pytest.raises(InputError, match="x is in mm, and in um before"):
        Transitions.concatenate([bare, small, large])
    with pytest.raises(InputError, match="block 2 of the source: x is in mm, and in um before"):
        len(Transitions.from_blocks([bare, small, large]))
    assert Transitions.concatenate([bare, small]).units.of("x") == "um"


def test_units_are_merged_one_by_one():
    path = np.arange(8.0)
    moved = Transitions.from_underdamped(path[:-1], path[1:], path[1:], path[:-1], 1.0, names="x")
    merged = Transitions.concatenate([moved.with_units({"x": "m"}), moved.with_units(time_unit="s"), moved])
    assert merged.units == Units(("x", "v_x"), ("m", "m/s"), "s")
    with pytest.raises(InputError, match="v_x is in km/h, and in m/s before"):
        Transitions.concatenate([merged, moved.with_units({"v_x": "km/h"})])


def test_units_of_blocks_can_be_replaced():
    data = Transitions.from_blocks([pairs({"x": "um"}), pairs({"x": "um"})]).with_units({"x": "mm"})
    assert len(data) == 12
    assert all(block.units.of("x") == "mm" for block in data.blocks())
    assert len(data.with_units({"x": ""}, time_unit="s").split(0.3, rng=0)[0].with_units({"x": "m"})) == 8


def test_units_follow_variables_of_blocks_that_are_renamed():
    plain = Transitions.from_pairs(np.arange(5.0), np.ones(5), H).with_units({"x": "um"}, time_unit="s")
    data = Transitions.from_blocks([plain], names="height")
    assert data.units == Units(("height",), ("um",), "s")
    assert len(data) == 5


def test_units_of_time_are_compared_beside_a_covariate_called_time():
    seconds, hours = pairs({"time": "d"}, "s", covariate="time"), pairs({"time": "d"}, "h", covariate="time")
    assert seconds.units.as_dict() == {"time": "d", "h": "s"}
    assert len(Transitions.concatenate([seconds, seconds])) == 12  # equal ones are not refused
    with pytest.raises(InputError, match="h is in h, and in s before"):
        Transitions.concatenate([seconds, hours])
    with pytest.raises(InputError, match="time is in s, and in d before"):
        Transitions.concatenate([seconds, pairs({"time": "s"}, "s", covariate="time")])
    with pytest.raises(InputError, match="h is in h, and in s before"):  # the unit of the covariate is not known
        Transitions.concatenate([pairs(None, "s", covariate="time"), pairs(None, "h", covariate="time")])


def test_a_model_with_a_covariate_called_time_knows_the_unit_of_h(tmp_path):
    rng, n = np.random.default_rng(3), 200
    x, season = rng.normal(size=n), rng.uniform(size=n)
    moved = {"covariates": season, "covariate_names": "time", "names": "x"}
    data = Transitions.from_pairs(x, 0.9 * x + 0.1 * rng.normal(size=n), H, **moved)
    own = data.with_units({"time": "d"}, "s")
    sde = itofit.fit(own, rng=0)
    assert np.isfinite(sde.nll(own))
    with pytest.raises(InputError, match="h is in h, and in s in the model"):
        sde.nll(data.with_units(time_unit="h"))
    sde.save(tmp_path / "sde.npz")
    assert itofit.load(tmp_path / "sde.npz").units == own.units
    assert "time in d, h in s" in sde.summary()


def test_units_can_be_taken_away():
    data = pairs({"x": "um"}, "s")
    assert data.with_units(time_unit="").units == Units(("x",), ("um",), "")
    assert data.with_units({"x": ""}).units == Units(("x",), ("",), "s")
    assert not data.with_units({"x": ""}, time_unit=" ").units
    moved = Transitions.from_positions(np.arange(9.0), dt=1.0, names="x").with_units({"x": "m"}, "s")
    assert moved.with_units(time_unit="").units.of("v_x") == ""  # it was derived from both


# Tables of points and drives


def test_columns_of_a_table_are_found_by_name_or_refused(linear):
    frame = pd.DataFrame({"y": [0.5, 1.0], "x": [0.0, 2.0]})
    points = np.array([[0.0, 0.5], [2.0, 1.0]])
    np.testing.assert_array_equal(linear.drift(frame), linear.drift(points))
    wrong = frame.rename(columns={"x": "X"})
    ask = "the table has no column 'x' .is it 'X' that you mean.*rename its columns 'y', 'X'"
    for call in (linear.drift, linear.covariance, linear.sample(2, rng=0).drift, linear.to_table):
        with pytest.raises(InputError, match=ask):
            call(wrong)
    with pytest.raises(InputError, match=f"x0: {ask}"):
        linear.simulate(wrong, dt=H, n_steps=2, rng=0)
    np.testing.assert_array_equal(linear.drift(pd.DataFrame(points)), linear.drift(points))  # columns 0 and 1


def test_columns_of_tables_of_other_libraries():
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    for make in (polars.DataFrame, arrow.table):
        table = make({"y": [1.0], "x": [2.0]})
        assert np.asarray(in_order("x", table, ("x", "y"))).tolist() == [[2.0, 1.0]]
        with pytest.raises(InputError, match="no column 'z'"):
            in_order("x", table, ("x", "z"))
    plain = polars.DataFrame(np.ones((3, 2)))
    assert in_order("x", plain, ("x", "y")) is plain


def test_a_table_of_covariates_is_read_by_name():
    def f(z):
        return z[:, 1:2] - 10 * z[:, 2:]

    def still(z):
        return np.full((len(z), 1, 1), 1e-9)

    sde = KnownSDE(f=f, sigma=still, n_inputs=3, n_covariates=2)
    first, second = sde.covariate_names
    table = pd.DataFrame({second: np.zeros(4), first: np.ones(4)})
    assert sde.simulate(0.0, dt=1.0, n_steps=4, covariates=table, rng=0)[0, -1, 0] == pytest.approx(4, abs=1e-6)
    with pytest.raises(InputError, match=f"covariates: the table has no column '{first}'"):
        sde.simulate(0.0, dt=1.0, n_steps=4, covariates=table.rename(columns={first: "dose"}), rng=0)


@pytest.mark.parametrize("n_paths", [1, 3])
def test_a_table_of_a_simulation_shows_the_drive_that_was_used(n_paths):
    rng, buffer, given = np.random.default_rng(0), np.empty((n_paths, 1)), []

    def drive(t):
        buffer[:] = rng.normal(size=(n_paths, 1))  # the same array again
        given.append(buffer.copy())
        return buffer

    start = np.zeros((n_paths, 1))
    frame = DRIVEN.simulate(start, dt=H, n_steps=3, covariates=drive, rng=0, as_frame=True)
    assert len(given) == 4  # once for each time
    shown = frame["u"].to_numpy().reshape(n_paths, 4)
    np.testing.assert_array_equal(shown, np.stack(given, axis=1)[:, :, 0])
    again = DRIVEN.simulate(start, dt=H, n_steps=3, covariates=shown[:, :, None], rng=0)
    np.testing.assert_array_equal(frame["x"].to_numpy().reshape(n_paths, 4, 1), again)
    rng, given = np.random.default_rng(0), []
    np.testing.assert_array_equal(DRIVEN.simulate(start, dt=H, n_steps=3, covariates=drive, rng=0), again)
    assert len(given) == 3


# Samples and hidden states


def test_a_sample_of_a_model_with_hidden_states_judges_data(noisy, hidden):
    for sde, data in (noisy, hidden):
        drawn = sde.sample(2, rng=0)[1]
        assert drawn.data is sde.data
        assert drawn.nll(data) == pytest.approx(np.mean(drawn.nll(data, pointwise=True)))
        assert abs(drawn.nll(data) - sde.nll(data)) < 0.5


def test_a_sample_warns_of_long_steps(linear):
    with pytest.warns(ExtrapolationWarning, match="times the mean step of the data"):
        linear.sample(1, rng=0)[0].simulate([0.0, 0.0], dt=20 * H, n_steps=1, rng=0, outside="stop")


def test_predictive_losses_are_of_states_that_were_seen(noisy, hidden):
    for (sde, data), why in ((noisy, "this model has errors of measurement"), (hidden, "positions alone")):
        with pytest.raises(InputError, match=f"predictive=True is for states that were observed as they are; .*{why}"):
            sde.nll(data, predictive=True)


# Terms of formulas


def variables(*periods):
    ends = np.zeros((2, 2))
    ends[1, : len(periods)] = periods
    return Variables(2, 2, "diffusion", ("a", "y"), ("a", "y"), ends)


@pytest.mark.parametrize("text", ["sin(1.2.3 y)", "sin(. y)", "cos(1..2*y)", "sin(1e999 y)", f"y^{'9' * 5000}"])
def test_terms_with_wrong_numbers_are_refused(text):
    with pytest.raises(InputError, match="cannot be read at"):
        parsed(text, variables())


@pytest.mark.parametrize(("text", "frequency"), [("sin(.5 y)", 0.5), ("sin(2.*y)", 2.0), ("sin(1e-3 y)", 1e-3)])
def test_numbers_in_terms(text, frequency):
    assert parsed(text, variables()).waves[0].frequency == frequency


def test_powers_of_periodic_inputs_are_refused():
    for text in ("a", "y a^2"):
        with pytest.raises(InputError, match=r"a power of a, which is periodic, .*: take sin\(a\) or cos\(a\)"):
            library(variables(2 * np.pi), [text], 1)
    with pytest.raises(InputError, match=r"take sin\(0.261799 a\) or cos\(0.261799 a\)"):
        parsed("a", variables(24.0))
    assert parsed("y^2", variables(24.0)).powers == (0, 2)


def test_waves_of_periodic_inputs_fit_into_the_period():
    for text in ("sin(1.5 a)", "cos(0.1 a)", "sin(0 a)"):
        with pytest.raises(InputError, match="does not fit into the period of a"):
            parsed(text, variables(2 * np.pi))
    rounded = parsed("sin(0.5236 a)", variables(24.0))  # two periods
    assert rounded.waves[0].frequency == 2 * np.pi * 2 / 24
    assert parsed("sin(1.5 y)", variables(24.0)).waves[0].frequency == 1.5


def test_a_formula_says_how_many_transitions_are_in_the_range(linear):
    away = Transitions.from_pairs(START + 1000, START + 1000.1, H, names=["x", "y"])
    for data in (away, Transitions.from_blocks([away])):
        with pytest.raises(InputError, match=r"needs at least 50 transitions within the range .* learned, got 0"):
            linear.formula(data)
        with pytest.raises(InputError, match="held_out has no transition that starts within the range that was learn"):
            linear.formula(PLANE, held_out=data)


# At the command line


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda: drive_from("u=1,u=2", DRIVEN, 3), "--covariates names u twice"),
        (lambda: periods_from("a=1,b=2, a =3"), "--periodic names a twice"),
        (lambda: units_from("x=m,x=mm"), "--units names x twice"),
        (lambda: units_from("time=s,x=m,time=min"), "--units names time twice"),
    ],
)
def test_what_is_named_twice_is_refused(read, words):
    with pytest.raises(InputError, match=words):
        read()


def test_a_row_of_covariates_after_the_last_step_is_kept(tmp_path):
    rng, n, steps = np.random.default_rng(4), 200, 4
    x, dose = rng.normal(size=n), rng.uniform(size=n)
    moved = {"covariates": dose, "covariate_names": "dose", "names": "x"}
    sde = itofit.fit(Transitions.from_pairs(x, 0.9 * x + 0.1 * rng.normal(size=n), H, **moved), rng=0)
    sde.save(tmp_path / "sde.npz")
    table = pd.DataFrame({"dose": np.linspace(0.1, 0.5, steps + 1)})
    table.to_csv(tmp_path / "dose.csv", index=False)
    given = ["simulate", tmp_path / "sde.npz", "--covariates", tmp_path / "dose.csv", "-o", tmp_path / "out.csv"]
    result = CliRunner().invoke(app, [str(each) for each in (*given, "--start", 0, "--dt", H, "--steps", steps)])
    assert result.exit_code == 0, result.output
    found = pd.read_csv(tmp_path / "out.csv")["dose"].to_numpy()
    np.testing.assert_allclose(found, table["dose"])
    pd.concat([table, table]).to_csv(tmp_path / "dose.csv", index=False)  # more rows are left out
    assert len(drive_from(str(tmp_path / "dose.csv"), sde, steps)) == steps + 1
