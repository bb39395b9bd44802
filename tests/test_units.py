"""Units: how they are written, where they come from, and that they reach everything that is shown."""

import base64
import json
import re
from fractions import Fraction

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

import itofit
from itofit import InputError, Transitions, dynamics, plot
from itofit.cli import app
from itofit.data.units import Units, behind, parsed, product, same_unit, written, written_in_line
from itofit.model.known import KnownSDE

pytestmark = pytest.mark.usefixtures("few_paths")

matplotlib.use("agg")
PLANE = Units(("x", "y", "n"), ("µm", "µm", "1"), "s")


def tracks(d=1, n=30, steps=60, h=0.05, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.5, 1.5, (n, d))
    found = [x]
    for _ in range(steps):
        x = x + h * (x - x**3) + 0.6 * np.sqrt(h) * rng.standard_normal(x.shape)
        found.append(x)
    return np.stack(found, axis=1)


@pytest.fixture(scope="module")
def data():
    return Transitions.from_trajectories(tracks(), dt=0.05).with_units({"x": "µm"}, time_unit="s")


@pytest.fixture(scope="module")
def sde(data):
    return itofit.fit(data, rng=0)


@pytest.fixture(scope="module")
def flat():
    """Two variables of one unit, and one of another."""
    data = Transitions.from_trajectories(tracks(3), dt=0.05, names=["x", "y", "z"])
    data = data.with_units({"x": "µm", "y": "μm", "z": "mN"}, time_unit="s")
    return itofit.fit(data, rng=0), data


# Writing


@pytest.mark.parametrize(
    ("unit", "powers", "again"),
    [
        ("µm", {"µm": 1}, "µm"),
        ("µm/s", {"µm": 1, "s": -1}, "µm/s"),
        ("µm s⁻¹", {"µm": 1, "s": -1}, "µm/s"),
        ("kg·m/s^2", {"kg": 1, "m": 1, "s": -2}, "kg m/s²"),
        ("1/(s mm)", {"s": -1, "mm": -1}, "1/(s mm)"),
        ("m/m", {}, ""),
        ("1", {}, ""),
        ("a.u. (log10)", {"a.u. (log10)": 1}, "a.u. (log10)"),
    ],
)
def test_units_are_taken_apart_and_written(unit, powers, again):
    assert parsed(unit) == powers
    assert written(parsed(unit)) == again


def test_products_of_units():
    assert written(product([("µm", 2), ("s", -1)])) == "µm²/s"
    assert written_in_line(product([("s", -1), ("µm", 2)])) == "µm² s⁻¹"
    assert written(product([("m2", 2)])) == "(m2)²"
    assert written(product([("µm", 1), ("s", Fraction(-1, 2))])) == "µm/√s"
    assert PLANE.drift("x") == "µm/s"
    assert PLANE.covariance("x", "y") == "µm²/s"
    assert PLANE.covariance("x", "n") == "µm/s"
    assert PLANE.drift("n") == PLANE.rate == "1/s"
    assert PLANE.drift("z") == ""  # whose unit is not known
    assert Units(("x",), ("µm",)).drift("x") == "µm/time"
    assert Units(time="s").drift("x") == ""
    assert behind("1/s") == " s⁻¹"
    assert same_unit("µm", "μm")  # the sign for micro, and the Greek letter
    assert not same_unit("µm", "mm")


# With data


def test_units_follow_the_data(data):
    assert data.units == Units(("x",), ("µm",), "s")
    assert "h = 0.05 s" in repr(data)
    assert repr(data).endswith("x in µm)")
    rest, held_out = data.split(0.2, rng=0)
    again = Transitions.concatenate([rest, held_out])
    blocked = Transitions.from_blocks([rest, held_out])
    for part in (rest, held_out, data[:5], data.copy(), again, blocked, *blocked.split(0.2, rng=0)):
        assert part.units == data.units
    assert not Transitions.from_pairs([0.0], [1.0], 0.1).units


def test_what_is_not_mentioned_stays(data):
    assert data.with_units() is data
    assert data.with_units({"x": "mm"}).units == Units(("x",), ("mm",), "s")
    assert data.with_units(time_unit="min").units == Units(("x",), ("µm",), "min")


def test_velocities_have_the_unit_of_their_position_over_time():
    x = np.sin(np.arange(50.0))
    data = Transitions.from_positions(x, dt=1.0, names="angle")
    assert data.with_units({"angle": "rad"}, time_unit="s").units.of("v_angle") == "rad/s"
    assert data.with_units({"angle": "rad"}, time_unit="s").with_units({"angle": "°"}).units.of("v_angle") == "°/s"
    assert data.with_units({"angle": "rad"}).units.of("v_angle") == ""
    given = {"x": "m", "v_x": "km/h"}
    moved = Transitions.from_underdamped(x[:-1], x[1:], x[1:], x[:-1], 1.0, names="x").with_units(given, time_unit="s")
    assert moved.units.of("v_x") == "km/h"
    assert moved.units.drift("v_x") == "km/(h s)"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"units": {"X": "µm"}}, "units: there is no variable 'X'.*; there are x"),
        ({"units": "µm"}, "units must be a dict"),
        ({"units": {"x": 1}}, "units: that of x must be a string of at most 40 letters"),
        ({"units": {"x": "m" * 41}}, "at most 40 letters"),
        ({"time_unit": "s\n"}, "time_unit must be a string"),
    ],
)
def test_wrong_units(data, given, words):
    with pytest.raises(InputError, match=words):
        data.with_units(**given)


def test_data_in_other_units_are_refused(data, sde):
    other = data.with_units({"x": "mm"})
    with pytest.raises(InputError, match="x is in mm, and in µm before"):
        Transitions.concatenate([data, other])
    with pytest.raises(InputError, match="x is in mm, and in µm in the model"):
        sde.nll(other)
    with pytest.raises(InputError, match="time is in min, and in s in the model"):
        itofit.check(sde, data.with_units(time_unit="min"))
    with pytest.raises(InputError, match="in the first model"):
        itofit.compare(sde, sde.with_units({"x": "mm"}))


@pytest.mark.parametrize("unit", [["s"], {"t": "s"}, np.ones(2), 5])
def test_a_unit_of_dates_that_is_no_text_is_refused(tmp_path, unit):
    path = tmp_path / "tracks.csv"
    path.write_text("t,x\n0,0\n1,1\n2,3\n")
    with pytest.raises(InputError, match="unit must be one of 'ns', 'us',"):
        itofit.read_transitions(path, time="t", state="x", unit=unit)


def test_tables_and_files_bring_units(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"t": [0.0, 1.0, 2.0], "x": [1.0, 2.0, 4.0]})
    given = {"time": "t", "state": "x", "units": {"x": "µm"}, "time_unit": "s"}
    assert Transitions.from_dataframe(frame, **given).units == Units(("x",), ("µm",), "s")
    frame.to_csv(tmp_path / "x.csv", index=False)
    from_dask = Transitions.from_dask(pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2), **given)
    assert from_dask.units == Units(("x",), ("µm",), "s")
    with pytest.raises(InputError, match=r"there is no variable 'time' \(that of time is time_unit=\); there are x"):
        from_dask.with_units({"time": "s"})
    for chunk_rows in (None, 2):
        read = itofit.read_transitions(tmp_path / "x.csv", **given, chunk_rows=chunk_rows)
        assert read.units == Units(("x",), ("µm",), "s")
    np.savez(tmp_path / "x.npz", x0=[0.0, 1.0], x1=[1.0, 2.0], h=1.0)
    assert itofit.read_transitions(tmp_path / "x.npz", units={"x": "m"}).units.of("x") == "m"
    frame["t"] = pandas.Timestamp("2024-01-01") + pandas.to_timedelta(frame["t"], unit="h")
    assert Transitions.from_dataframe(frame, time="t", state="x", unit="D").units.time == "d"
    with pytest.raises(InputError, match="unit='h' makes the unit of time h, but time_unit='s' was given"):
        Transitions.from_dataframe(frame, **given, unit="h")


# With models


def test_units_are_learned_saved_and_told(sde, tmp_path):
    assert sde.units == Units(("x",), ("µm",), "s")
    sde.save(tmp_path / "sde.npz")
    again = itofit.load(tmp_path / "sde.npz")
    assert again.units == sde.units
    summary = again.summary().splitlines()
    assert summary[2].split(None, 1) == ["units", "x in µm, time in s; f in µm/s, Σ in µm²/s"]
    assert "h = 0.05 s" in summary[3]
    assert again.sample(2, rng=0)[0].units == sde.units
    renamed = again.with_units({"x": "nm"})
    assert renamed.units.of("x") == "nm"
    assert renamed.one_step is None or renamed.one_step.units == renamed.units
    assert "units" not in itofit.fit(Transitions.from_trajectories(tracks(), dt=0.05), rng=0).summary()


def test_tables_and_frames_have_units(sde):
    pytest.importorskip("pandas")
    assert sde.to_table(3).columns.tolist() == [
        "x [µm]", "f_x [µm/s]", "std f_x [µm/s]", "Σ_x [µm²/s]", "std Σ_x [µm²/s]",
    ]  # fmt: skip
    frame = sde.simulate([0.0], dt=0.05, n_steps=3, rng=0, as_frame=True)
    assert frame.columns.tolist() == ["track", "time", "x"]  # as the readers take them
    assert frame.attrs["units"] == {"x": "µm", "time": "s"}
    exec(sde.to_source(), module := {})
    assert module["UNITS"] == {"x": "µm", "time": "s"}


def test_formulas_take_the_units_of_the_model_or_of_the_data(sde, data):
    assert "s⁻¹ x" in str(sde.formula(data))
    bare = itofit.fit(Transitions.from_trajectories(tracks(), dt=0.05), rng=0)
    assert bare.formula(data).units == data.units
    own = Transitions.from_trajectories(tracks(), dt=0.05)
    assert bare.formula(own, units={"x": "nm"}, time_unit="s").units == Units(("x",), ("nm",), "s")
    assert sde.formula(own, units={"x": "μm"}).units.of("x") == "μm"  # another letter for micro
    for given, differ in (
        ({"units": {"x": "nm"}}, "x is in nm, and in µm"),
        ({"time_unit": "ms"}, "time is in ms, and in s"),
    ):
        for model in (sde, bare):
            with pytest.raises(InputError, match=differ):
                model.formula(data, **given)


def test_coefficients_have_units_where_those_of_all_variables_are_known(flat):
    sde, data = flat
    bare = sde.formula(data)._carrying(Units())

    def lines(formula):
        return {line.partition("=")[0].strip(): line for line in str(formula).splitlines() if " = " in line}

    some = lines(bare.with_units({"x": "µm"}, "s"))
    assert some["Σ_x"].endswith(") µm² s⁻¹")
    assert some["Σ_y"].endswith(")")
    assert re.search(r"\) s⁻¹ y − \([^)]*\) y³$", some["f_y"])  # the first whatever y is in
    assert lines(bare.with_units({"x": "µm"}))["Σ_x"].endswith(") µm² time⁻¹")
    assert lines(bare)["Σ_x"].endswith(")")


def test_differences_have_units(sde):
    told = str(itofit.compare(sde, sde))
    assert "drift of x: +0 to +0 µm/s, beyond" in told
    assert "variance of x: 1 to 1 times, beyond" in told


def test_places_of_comparisons_have_units(flat):
    title = itofit.compare(flat[0], flat[0], samples=20).plot().get_suptitle()
    assert re.fullmatch(r"others at x = \S+ µm, y = \S+ μm, z = \S+ mN \(medians of the compared places\)", title)


def test_a_report_is_not_of_a_formula(sde, data, tmp_path):
    with pytest.raises(InputError, match=r"must be a LearnedSDE, .* got Formula; give the model that it was found for"):
        itofit.report(sde.formula(data), data, tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_answers_have_units():
    well = KnownSDE(f=lambda x: x - x**3, sigma=lambda x: np.full((len(x), 1, 1), 0.7))
    box = (-2.5, 2.5)

    class Measured(KnownSDE):
        units = Units(("x",), ("µm",), "s")

    measured = Measured(f=well.f, sigma=well.sigma)
    time = dynamics.first_passage_time(measured, -1, 1, box=box)
    assert str(time).startswith("mean first-passage time from x = -1 µm to x = 1 µm: 14.64 s\n")
    assert time.value == dynamics.first_passage_time(well, -1, 1, box=box).value
    assert dynamics.escape_rate(measured, -1, 1, box=box).unit == "1/s"
    assert "0.2500 µm²/s" in str(dynamics.potential(measured, box=box)).replace("0.25 ", "0.2500 ")
    assert "(eigenvalues -2 s⁻¹)" in str(dynamics.fixed_points(measured, box=box))
    assert dynamics.relaxation_times(measured, 1, box=box).unit == "s"
    assert dynamics.entropy_production(measured, box=box).unit == "nats/s"
    density = dynamics.stationary_density(measured, box=box)
    assert density.unit == "1/µm"
    ax = density.plot(Figure().add_subplot())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x [µm]", "stationary density [1/µm]")
    assert dynamics.autocorrelation(measured, [0, 1], box=box).plot(Figure().add_subplot()).get_xlabel() == "time [s]"
    assert "[" not in dynamics.stationary_density(well, box=box).plot(Figure().add_subplot()).get_xlabel()


def test_axes_have_units(flat):
    sde, data = flat

    def labels(draw, **how):
        ax = draw(sde, data, **how, ax=Figure().add_subplot())
        return ax.get_xlabel(), ax.get_ylabel()

    assert labels(plot.drift, output="z", along="y") == ("y [μm]", "drift of z [mN/s]")
    assert labels(plot.diffusion, entry=("x", "x")) == ("x [µm]", "noise variance of x [µm²/s]")
    assert labels(plot.diffusion, entry=("z", "z"), what="sigma") == ("x [µm]", "noise σ[z, z] [mN/√s]")
    assert labels(plot.distributions, component="z", n_paths=10)[1] == "density of z [1/mN]"
    assert " mN" in plot.drift(sde, data, ax=Figure().add_subplot()).get_title()


def test_variables_of_one_unit_have_one_scale(flat):
    sde, data = flat
    for along, aspect in ((("x", "y"), 1.0), (("x", "z"), "auto")):
        ax = plot.heatmap(sde, data, along=along, ax=Figure().add_subplot())
        assert ax.get_aspect() == aspect
        bare = plot.heatmap(sde._carrying(Units()), data, along=along, ax=Figure().add_subplot())
        assert bare.get_aspect() == "auto"


# On pages and at the command line


def test_reports_have_units_and_pictures_that_scale(sde, data, tmp_path):
    page = itofit.report(sde, data[::4], tmp_path / "page.html", figures="svg").read_text(encoding="utf-8")
    assert "Units: x in µm, time in s; f in µm/s, Σ in µm²/s." in page
    assert "<th>drift [µm/s]</th>" in page
    assert "per unit of time" not in page
    drawn = re.findall('data:image/([^;]*);base64,([^"]*)', page)
    assert len(drawn) > 5
    for kind, content in drawn:
        text = base64.b64decode(content).decode()
        assert kind == "svg+xml"
        assert text.startswith("<?xml")
        assert "dc:date" not in text
    with pytest.raises(InputError, match="figures must be one of"):
        itofit.report(sde, data, tmp_path / "page.html", figures="gif")


def test_the_command_carries_units(tmp_path):
    pytest.importorskip("pandas")
    with (tmp_path / "tracks.csv").open("w") as file:
        file.write("track,time,x\n")
        for k, path in enumerate(tracks(n=12)):
            file.writelines(f"{k},{0.05 * i:.2f},{value!r}\n" for i, value in enumerate(path[:, 0].tolist()))

    def run(*arguments, code=0):
        result = CliRunner().invoke(app, [str(each) for each in arguments])
        assert result.exit_code == code, result.output
        return result.output

    model = tmp_path / "sde.npz"
    told = run("fit", tmp_path / "tracks.csv", "-o", model, "--held-out", 0, "--units", "x=µm,time=s")
    assert "x in µm, time in s; f in µm/s" in told
    assert json.loads(run("info", model, "--json"))["units"] == {"x": "µm", "time": "s"}
    told = json.loads(run("dynamics", model, "--samples", 0, "--json"))
    assert told["units"] == {"x": "µm", "time": "s"}
    assert next(each["unit"] for each in told["answers"] if each["what"] == "relaxation times") == "s"
    assert json.loads(run("compare", model, model, "--json"))["units"] == {"x": "µm", "time": "s"}
    formula = json.loads(run("formula", model, tmp_path / "tracks.csv", "--json"))
    assert formula["units"] == {"x": "µm", "time": "s"}
    assert formula["lines"]["Σ_x"]["units"][0] == "µm² s⁻¹"
    wrong = run("check", model, tmp_path / "tracks.csv", "--units", "x=mm", code=2)
    assert "x is in mm, and in µm in the model" in wrong
    assert "--units must be names with their units" in run("check", model, model, "--units", "mm", code=2)
    unknown = run("check", model, tmp_path / "tracks.csv", "--units", "y=mm", code=2)
    assert "--units: there is no variable 'y'; there are x" in unknown
