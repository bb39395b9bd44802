"""Edges: strange scalars, nothing, absurd sizes, calls that do not fit, and what must not reach a terminal."""

import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

import itofit
from itofit import ARFF, ARFFRegressor, ExtrapolationWarning, InputError, Transitions
from itofit._checks import CONTROL, CallError, Message, printable
from itofit.cli import app
from itofit.data.frames.layout import Clock, Table, _check_roles, checked_layout
from itofit.looking.plot.simulated import compare_all
from itofit.model.known import KnownSDE

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
MOVES = -0.05 * X + 0.1 * RNG.normal(size=(200, 2))
DATA = Transitions.from_pairs(X, X + MOVES, 0.1)
QUICK = ARFF(n_features=8, max_iterations=5)


@pytest.fixture(scope="module")
def sde():
    return itofit.fit(DATA, rng=0, correct_step=True)


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


# Scalars


STRANGE = {
    "400 digits": 10**400,
    "minus 400 digits": -(10**400),
    "5000 digits": 10**5000,
    "duration": np.timedelta64(5, "s"),
    "date": np.datetime64("2020-01-01"),
    "long double": np.longdouble("1e4000"),
}
"""No number that double precision holds."""

CALLS = {
    "h": lambda sde, value: Transitions.from_pairs(X, X, value),
    "dt": lambda sde, value: Transitions.from_trajectories(X, dt=value),
    "max_h": lambda sde, value: itofit.fit(DATA, max_h=value),
    "floor": lambda sde, value: itofit.fit(DATA, floor=value),
    "measurement_noise": lambda sde, value: itofit.fit(DATA, measurement_noise=value),
    "ensemble": lambda sde, value: itofit.fit(DATA, ensemble=value),
    "rng": lambda sde, value: itofit.fit(DATA, rng=value),
    "n_features": lambda sde, value: ARFF(n_features=value),
    "ridge": lambda sde, value: ARFF(ridge=value),
    "periodic": lambda sde, value: Transitions.from_trajectories(X, dt=0.1, periodic={0: value}),
    "end of a period": lambda sde, value: Transitions.from_trajectories(X, dt=0.1, periodic={0: (0, value)}),
    "held_out": lambda sde, value: DATA.split(value),
    "x": lambda sde, value: sde.drift([[value, 1.0]]),
    "x0": lambda sde, value: sde.simulate([value, 1.0], 0.1, 2),
    "dt of a simulation": lambda sde, value: sde.simulate(X, value, 2),
    "n_steps": lambda sde, value: sde.simulate(X, 0.1, value),
    "h of moments": lambda sde, value: sde.step_moments(X, value),
    "level": lambda sde, value: sde.variance_interval(X, level=value),
}


@pytest.mark.parametrize("value", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize("use", CALLS.values(), ids=CALLS)
def test_no_scalar_gives_an_error_of_another_package(sde, use, value):
    with pytest.raises(InputError) as caught:
        use(sde, value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("n", [2**70, 2**63])
def test_counts_beyond_what_arrays_can_count(sde, n):
    with pytest.raises(InputError, match="n_steps must be a whole number >= 1 and less than 2⁶³, got"):
        sde.simulate(X, 0.1, n)
    with pytest.raises(InputError, match="n_features must be a whole number >= 1 and less than 2⁶³, got"):
        ARFF(n_features=n)


HUGE = 10**5000
SELECTIONS = {
    "huge": (HUGE, "select transitions with a slice, a mask or an array of indices, got a very large int"),
    "a list of huge": ([HUGE], "select transitions .* got"),
    "numbers": (np.array([0.5, 1.0]), "select transitions"),
    "a table": (np.zeros((2, 2), dtype=int), "select transitions"),
    "ragged": ([[1], [1, 2]], "rows must be a rectangular array"),
    "a duration": (slice(np.timedelta64(1, "s"), None), "select transitions"),
    "a text": ("a", "select transitions"),
    "no step": (slice(None, None, 0), "select transitions"),
    "too far": ([0, 200], "there are 200 transitions, and none has the index 200"),
    "too far back": (np.array([-201]), "there are 200 transitions, and none has the index -201"),
    "a short mask": (np.ones(3, dtype=bool), "a mask must have a value for each of 200 transitions, got 3"),
    "none": ([], "there are no transitions left"),
}


@pytest.mark.parametrize(("rows", "message"), SELECTIONS.values(), ids=SELECTIONS)
def test_what_does_not_select_transitions(rows, message):
    with pytest.raises(InputError, match=message):
        DATA[rows]


@pytest.mark.parametrize(
    "use",
    [
        lambda: Transitions(X, MOVES, 0.1, input_names=[HUGE, HUGE]),
        lambda: Transitions(X, MOVES, 0.1, kind=HUGE),
        lambda: Transitions(X, MOVES, 0.1, periodic={HUGE: 1.0}),
        lambda: Transitions(X, MOVES, 0.1, periodic=[HUGE]),
        lambda: Transitions.from_dataframe(pd.DataFrame({"x": [0.0, 1.0]}), dt=0.1, state=HUGE),
        lambda: Transitions.from_dataframe(pd.DataFrame({"x": [0.0, 1.0]}), dt=0.1, state=["x", -HUGE]),
        lambda: Transitions.concatenate([HUGE]),
    ],
)
def test_numbers_of_thousands_of_digits_are_not_written_out(use):
    with pytest.raises(InputError) as caught:
        use()
    assert len(str(caught.value)) < 300


# Nothing in, nothing out


ASKED = {
    "drift": lambda sde, x: sde.drift(x, return_std=True),
    "covariance": lambda sde, x: sde.covariance(x, return_std=True),
    "variance_interval": lambda sde, x: sde.variance_interval(x),
    "step_moments": lambda sde, x: sde.step_moments(x, 0.1, "corrected"),
    "the rest": lambda sde, x: (
        sde.diffusion(x),
        sde.diffusion(x, "symmetric"),
        sde.covariance(x, raw=True),
        sde.drift_jacobian(x),
        sde.floored(x),
        sde.step_trust(x),
        sde.drift_function.series(x),
        sde.drift_function.series.hessian(x),
    ),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_of_no_points_come_no_values(sde, ask):
    none, some = (ask(sde, x) for x in (np.empty((0, 2)), X[:3]))
    assert [array.shape for array in none] == [(0, *array.shape[1:]) for array in some]


# Absurd sizes


@pytest.mark.parametrize("refine", [True, False])
@pytest.mark.parametrize("power", [-95, -69, 69, 95])
@pytest.mark.parametrize("which", ["all", "increments", "one variable"])
def test_data_of_absurd_size_are_refused_or_learned(power, which, refine, tmp_path):
    unit = 10.0 ** np.array([power, power if which != "one variable" else 0])
    x = X if which == "increments" else X * unit
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        how = {"drift": QUICK, "covariance": QUICK} if not refine else {}
        data = Transitions(x, MOVES * unit, 0.1)
        if abs(power) > 70:
            with pytest.raises(InputError, match="is of a size whose fourth power double precision does not hold"):
                itofit.fit(data, refine=refine, rng=0, **how)
            return
        learned = itofit.fit(data, refine=refine, rng=0, **how)
        learned.save(tmp_path / "model.npz")
        diagnosis = itofit.check(itofit.load(tmp_path / "model.npz"), data, rng=0)
        assert np.isfinite(learned.nll(data))
        assert np.isfinite(learned.drift(x)).all()
        assert (np.linalg.eigvalsh(learned.covariance(x) / np.outer(unit, unit)) > 0).all()
        assert "nan" not in str(diagnosis)


@pytest.mark.parametrize("power", [160, 300, -160, -300])
def test_targets_of_absurd_size_are_refused_by_the_regressor(power):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match="y is of a size whose square double precision does not hold"):
            ARFFRegressor(random_state=0).fit(X, X[:, 0] * 10.0**power)
        with pytest.raises(InputError, match="X is too large for double precision"):
            ARFFRegressor(random_state=0).fit(X / np.abs(X).max() * 1.7e308, X[:, 0])


SIZES = {"places": (1e60, 1.0, 0.1), "moves": (1.0, 1e80, 0.1), "all": (1e300, 1e300, 0.1), "times": (1.0, 1.0, 1e-300)}
JUDGES = {
    "nll": lambda sde, data: sde.nll(data),
    "check": itofit.check,
    "formula": lambda sde, data: sde.formula(data),
    "compare": lambda sde, data: itofit.compare(sde, sde, data, data),
}


@pytest.mark.parametrize("judge", JUDGES.values(), ids=JUDGES)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_data_of_another_size_than_those_of_a_model_are_refused(sde, sizes, judge):
    places, moves, h = sizes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=r"of x1 are .* times as large as the model expects.*are the units"):
            judge(sde, Transitions(X * places, MOVES * moves, h, kind="diffusion"))


@pytest.mark.parametrize("in_blocks", [False, True])
@pytest.mark.parametrize("spread", [0.0, 1e-300, 1e-60])
def test_data_that_all_start_at_one_place_are_judged(sde, spread, in_blocks):
    start, end = 0.1 + spread * X, 0.1 + spread * X + MOVES
    data = Transitions.from_blocks([(start, end, 0.1)]) if in_blocks else Transitions.from_pairs(start, end, 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        diagnosis = itofit.check(sde, data)
    assert all(np.isfinite(value) for finding in diagnosis for value in finding.values.values())
    assert "nan" not in str(diagnosis)


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-60])
def test_no_formula_is_found_of_what_does_not_move(sde, size):
    with pytest.raises(InputError, match="x2 does not move in these data"):
        sde.formula(Transitions.from_pairs(X, X + MOVES * [1.0, 0.0], 0.1))
    with pytest.raises(InputError, match="x1 does not move in these data"):
        sde.formula(Transitions.from_pairs(X * size, (X + MOVES) * size, 0.1))


def test_functions_are_bounded_however_far_away(sde):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        far = np.array([[1.7e308, -1.7e308], [1e200, 1.0]])
        assert np.isfinite(sde.drift(far, return_std=True)).all()
        assert np.isfinite(sde.covariance(far, return_std=True)).all()


# Calls that do not fit


WRONG_CALLS = {
    "seed": (lambda sde: itofit.fit(DATA, seed=0), "fit has no argument seed: is it rng that you mean?"),
    "misspelt": (lambda sde: itofit.fit(DATA, strcture="full"), "no argument strcture: is it structure that you mean?"),
    "unknown": (
        lambda sde: itofit.fit(DATA, colour=1),
        "fit has no argument colour: its arguments are data, structure,",
    ),
    "given before": (lambda sde: itofit.fit(DATA, dta=0.1), "fit has no argument dta: its arguments are data, "),
    "arrays": (lambda sde: itofit.fit(X, 0.1), r"make the data first, as in itofit.fit\(itofit.Transitions.from_"),
    "arrays and a step": (lambda sde: itofit.fit(X, dt=0.1), r"is it itofit.fit\(itofit.Transitions.from_trajectories"),
    "end": (lambda sde: sde.simulate(X, dt=0.1, T=5), r"simulate has no argument T: is it n_steps=round\(T / dt\)"),
    "seed of paths": (lambda sde: sde.simulate(X, 0.1, 5, seed=0), "simulate has no argument seed: is it rng"),
    "no steps": (lambda sde: sde.simulate(X, 0.1), "simulate needs n_steps; its arguments are x0, dt, n_steps"),
    "too many": (lambda sde: sde.simulate(X, 0.1, 5, None), "takes x0, dt, n_steps without a name, and 1 more came"),
}


@pytest.mark.parametrize(("wrong", "message"), WRONG_CALLS.values(), ids=WRONG_CALLS)
def test_calls_that_do_not_fit_are_explained(sde, wrong, message):
    with pytest.raises(CallError, match=message) as caught:
        wrong(sde)
    assert isinstance(caught.value, TypeError)  # as Python says it
    assert isinstance(caught.value, InputError)


def test_errors_from_within_are_not_explained_away():
    def broken(x):
        raise TypeError("from within")

    known = KnownSDE(f=broken, sigma=lambda x: np.ones((len(x), 1, 1)))
    with pytest.raises(TypeError, match="from within"):
        known.simulate([0.0], 0.1, 2)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("predict", r"drift\(x\) and covariance\(x\) are the learned functions"),
        ("f", r"the drift is drift\(x\)"),
        ("sigma", r"the noise is diffusion\(x\)"),
        ("drfit", "is it drift that you mean"),
        ("__wrapped__", "has no attribute '__wrapped__'$"),
    ],
)
def test_names_that_others_use_are_explained(sde, name, message):
    with pytest.raises(AttributeError, match=message):
        getattr(sde, name)
    assert not hasattr(sde, name)


def test_steps_far_longer_than_those_of_the_data_are_warned_of(sde):
    with pytest.warns(
        ExtrapolationWarning, match="dt = 5 is 50 times the mean step of the data.*take dt = 0.1 or"
    ) as caught:
        sde.simulate(X[:1], 5, 1, rng=0, outside="stop")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sde.simulate(X[:1], 0.4, 1, rng=0, outside="stop")


def test_what_a_model_consists_of_is_shown_in_a_line(sde):
    noise = itofit.MeasurementNoise(covariance=np.eye(3), std=np.eye(3), known=False, gain=3.0, p=0.1, corrected=True)
    hidden = itofit.HiddenVelocity(mean=np.zeros(2), covariance=np.eye(2), substeps=1)
    shown = [repr(each) for each in (sde.drift_function.series, sde.drift_function, sde.step_correction, noise, hidden)]
    assert not any("\n" in text or "array" in text for text in shown)
    assert "waves, 2 inputs, 2 outputs)" in shown[0]


def test_fewer_paths_are_simulated_for_pictures_of_many_variables():
    """A page about five variables took half a minute, most of it for paths that no histogram needs."""
    x = RNG.normal(size=(400, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        data = Transitions.from_trajectories(0.1 * x.cumsum(axis=0), dt=0.1)
        many = itofit.fit(data, refine=False, drift=QUICK, covariance=QUICK, rng=0)
    states = compare_all(many, data, None, np.random.default_rng(0))
    assert {len(each.simulated) for each in states.values()} == {101 * 399}


# What must not reach a terminal


EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e"


def test_texts_are_printable():
    assert printable("Σ of x\n\ty") == "Σ of x\n\ty"
    assert printable("a\x1b[31m\r\x7f\x9b") == r"a\x1b[31m\x0d\x7f\x9b"
    assert printable(os.fsdecode(b"\xff.csv")) == r"\xff.csv"
    assert not CONTROL.search(Message("there is no {name}", name=EVIL))
    assert not CONTROL.search(str(InputError(f"there is no {EVIL}")))
    assert not CONTROL.search(str(itofit.ModelFileError(f"{EVIL} is no model")))


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    """A table whose columns, tracks and name hold escape sequences, and a model of it."""
    folder = tmp_path_factory.mktemp("evil")
    file = folder / f"{EVIL}.csv"
    x = np.cumsum(0.1 * RNG.normal(size=(4, 60)), axis=1)
    columns = {
        "t": np.tile(np.arange(60) * 0.1, 4),
        f"x{EVIL}": x.ravel(),
        "id": np.repeat([f"a{EVIL}", "b", "c", "d"], 60),
    }
    pd.DataFrame(columns).to_csv(file, index=False)
    model = folder / f"{EVIL}.npz"
    told = call("fit", file, "--time", "t", "--track", "id", "-o", model)
    assert told.exit_code == 0, told.output
    return folder, file, model, told


def test_no_command_prints_what_steers_a_terminal(evil):
    folder, file, model, told = evil
    table = ("--time", "t", "--track", "id")
    results = [
        told,
        call("info", model),
        call("info", model, "--json"),
        call("check", model, file, *table),
        call("check", model, file, *table, "--json"),
        call("fit", file, "--time", EVIL, "-o", folder / "a.npz"),
        call("fit", file, "--time", "t", "-o", folder / "a.npz"),  # names tracks or rows
        call("info", file),
        call("info", folder / f"no{EVIL}.npz"),
        call("fit", file, *table, "-o", folder / f"{EVIL}.csv"),
    ]
    for result in results:
        assert not CONTROL.search(result.output), result.output
        assert result.exit_code in (0, 1, 2)
    assert r"x\x1b[2J" in results[1].output


# Files


def test_a_pipe_is_not_waited_for(tmp_path):
    for name in ("a.csv", "a.npz"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(InputError, match="is a pipe, a device or the like: give the path of a file"):
            itofit.read_transitions(tmp_path / name, dt=0.1)
    result = call("fit", tmp_path / "a.csv", "--dt", "0.1", "-o", tmp_path / "b.npz")
    assert result.exit_code == 2
    assert "is a pipe" in result.output


def test_the_header_of_a_wide_table_is_read_once(tmp_path):
    """A check of each name against all others took nine seconds; this is 30 times slower than now if it comes back."""
    names = [f"column{i}" for i in range(30_000)]
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    with pytest.raises(InputError, match="there is no column 'nowhere'"):
        itofit.read_transitions(tmp_path / "wide.csv", dt=0.1, state="nowhere")
    (tmp_path / "twice.csv").write_text(",".join([*names, "column7"]) + "\n")
    with pytest.raises(InputError, match="several columns are called 'column7'"):
        itofit.read_transitions(tmp_path / "twice.csv", dt=0.1)


class Compared(str):
    """A name that counts how often it was compared."""

    __hash__ = str.__hash__
    n = 0

    def __eq__(self, other):
        Compared.n += 1
        return str.__eq__(self, other)


def test_names_of_many_variables_are_not_compared_with_each_other():
    """Each was compared with all others, which took minutes for 30,000."""
    names = [Compared(f"column{i}") for i in range(1000)]
    layout = checked_layout(names[1:500], covariates=names[500:], clock=Clock(dt=0.1))
    table = Table(dict.fromkeys(names, np.zeros(2)))
    Compared.n = 0
    for name, argument in layout.columns.items():
        table.check(argument, name)
    _check_roles(layout)
    assert Compared.n < 20 * len(names)


def track_file(path):
    pd.DataFrame({"t": np.arange(80) * 0.1, "x": np.cumsum(0.1 * RNG.normal(size=80))}).to_csv(path, index=False)
    return path


def test_a_name_that_is_not_utf_8_is_a_name(tmp_path):
    file = track_file(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.csv"))
    model, page = (os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe" + end) for end in (b".npz", b".html"))
    result = subprocess.run(
        [sys.executable, "-m", "itofit", "fit", file, "--time", "t", "-o", model, "--report", page],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert r"saved as " in result.stdout
    assert r"\xff\xfe.npz" in result.stdout
    with open(page, encoding="utf-8") as opened:
        assert r"<h1>\udcff\udcfe</h1>" in opened.read()
    assert itofit.load(model).n_inputs == 1


def test_output_of_another_kind_is_refused(tmp_path):
    file = track_file(tmp_path / "a.csv")
    for output, report, message in (
        ("a.pdf", None, "--output writes a .npz file, got a.pdf: give a name that ends in .npz"),
        ("a.npz", "a.pdf", "--report writes a .html or .htm file, got a.pdf"),
    ):
        extra = () if report is None else ("--report", tmp_path / report)
        result = call("fit", file, "--time", "t", "-o", tmp_path / output, *extra)
        assert result.exit_code == 2
        assert message in result.output
    assert os.listdir(tmp_path) == ["a.csv"]


def test_files_of_the_user_are_not_replaced_without_force(tmp_path):
    file = track_file(tmp_path / "a.csv")
    fit = ("fit", file, "--time", "t", "-o", tmp_path / "a.npz", "--report", tmp_path / "a.html")
    np.savez(tmp_path / "a.npz", x=np.zeros(3))
    (tmp_path / "a.html").write_text("<html>mine</html>")
    result = call(*fit)
    assert result.exit_code == 2
    assert "a.npz exists, and it is not known to come from itofit; add --force to replace it" in result.output
    assert "mine" in (tmp_path / "a.html").read_text()
    assert call(*fit, "--force").exit_code == 0
    assert call(*fit).exit_code == 0  # these are itofit's
    simulate = ("simulate", tmp_path / "a.npz", "--start", "0", "--dt", "0.1", "--steps", "2", "-o", tmp_path / "p.csv")
    assert call(*simulate).exit_code == 0
    again = call(*simulate)
    assert again.exit_code == 2
    assert "p.csv exists" in again.output
    assert call(*simulate, "--force").exit_code == 0


@pytest.fixture(scope="module")
def model_and_tracks(tmp_path_factory):
    """Files of a learned equation and of what it was learned from."""
    directory = tmp_path_factory.mktemp("pictured")
    file, model = track_file(directory / "a.csv"), directory / "a.npz"
    assert call("fit", file, "--time", "t", "-o", model).exit_code == 0
    return model, file


@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
def test_pictures_of_the_user_are_not_replaced_without_force(form, model_and_tracks, tmp_path):
    model, _ = model_and_tracks
    file = tmp_path / f"mine.{form}"
    file.write_bytes(b"mine" * 5_000)
    draw = ("dynamics", model, "--samples", 0, "-o", file)
    refused = call(*draw)
    assert refused.exit_code == 2
    assert f"--output: {file} exists, and it is not known to come from itofit" in refused.output
    assert file.read_bytes() == b"mine" * 5_000
    assert call(*draw, "--force").exit_code == 0
    assert call(*draw).exit_code == 0  # it is itofit's


@pytest.mark.parametrize("command", ["compare", "formula", "picture of a formula"])
def test_every_command_asks_before_it_replaces(command, model_and_tracks, tmp_path):
    model, tracks = model_and_tracks
    file = tmp_path / ("f.npz" if command == "formula" else "p.png")
    file.write_bytes(b"mine")
    find = ("formula", model, tracks, "--time", "t")
    arguments = {
        "compare": ("compare", model, model, "-o", file),
        "formula": (*find, "-o", file),
        "picture of a formula": (*find, "--picture", file),
    }[command]
    refused = call(*arguments)
    assert refused.exit_code == 2
    assert "add --force to replace it" in refused.output
    assert file.read_bytes() == b"mine"
    assert call(*arguments, "--force").exit_code == 0
    assert call(*arguments).exit_code == 0  # it is itofit's


def test_a_formula_goes_into_no_file_of_another_kind(model_and_tracks, tmp_path):
    model, tracks = model_and_tracks
    result = call("formula", model, tracks, "--time", "t", "-o", tmp_path / "notes.csv")
    assert result.exit_code == 2
    assert "--output writes a .npz file, got notes.csv" in result.output


def test_the_demonstration_does_not_replace_other_tracks(tmp_path):
    assert call("demo", "-o", tmp_path).exit_code == 0
    assert call("demo", "-o", tmp_path).exit_code == 0  # the same
    (tmp_path / "tracks.csv").write_text("mine")
    result = call("demo", "-o", tmp_path)
    assert result.exit_code == 2
    assert "add --force" in result.output
    assert (tmp_path / "tracks.csv").read_text() == "mine"


# Threads


def test_no_digit_of_a_fit_depends_on_the_threads_of_blas():
    """Normal equations of four variables and a full Σ are large enough for BLAS to cut them into parts."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 4))
    noise = (0.1 + 0.02 * np.sin(2 * x)) * rng.normal(size=(800, 4)) @ np.linalg.cholesky(np.eye(4) + 0.5).T
    data = Transitions.from_pairs(x, x - 0.1 * x**3 + noise, 0.1)
    learned = []
    for n in (1, 2):
        with threadpool_limits(n):
            learned.append(itofit.fit(data, correct_step=False, rng=0))
    one, two = ((sde.drift(x), sde.covariance(x), sde.nll(data)) for sde in learned)
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


# The program


def test_too_little_memory_is_said_in_a_line(monkeypatch, tmp_path):
    def too_much(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr(itofit, "fit", too_much, raising=False)
    result = call("fit", track_file(tmp_path / "a.csv"), "--time", "t", "-o", tmp_path / "a.npz")
    assert result.exit_code == 71
    assert "itofit fit: there is not enough memory; use fewer rows or variables" in result.output
    assert "Traceback" not in result.output


def test_the_package_imports_nothing_before_it_is_needed():
    told = subprocess.run(
        [sys.executable, "-c", "import itofit, sys; print('numpy' in sys.modules, itofit.fit.__name__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "False fit\n"


def test_an_interrupt_during_imports_is_said_in_a_line():
    program = """
import builtins
import_module = builtins.__import__
def interrupted(name, *args, **kwargs):
    if name == "typer":
        raise KeyboardInterrupt
    return import_module(name, *args, **kwargs)
builtins.__import__ = interrupted
from itofit.__main__ import main
main()
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert told.returncode == 130
    assert told.stderr == "itofit: interrupted\n"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_workers_end_when_their_parent_is_killed(tmp_path):
    program = tmp_path / "parent.py"
    program.write_text(
        """
import multiprocessing, os, time
from itofit.experiments.processes import end_with_parent

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2, end_with_parent) as pool:
        pids = pool.map(abs, [1, 2]) and [worker.pid for worker in pool._pool]
        print(*pids, flush=True)
        time.sleep(60)
"""
    )
    parent = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True)
    workers = [int(pid) for pid in parent.stdout.readline().split()]
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 30
    while any(os.path.exists(f"/proc/{pid}") and "Z" not in state(pid) for pid in workers):
        assert time.monotonic() < until
        time.sleep(0.05)


def state(pid):
    """The state of a process, "Z" if it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
