"""Random bad inputs to every public entrance: one part of `campaign.py`.

A trial takes an entrance with good arguments and changes one to three of them: to something strange of another type,
or, of arrays, to a damaged copy; or it leaves an argument out, adds one that does not exist, or gives one twice. What
comes out must be an answer or a refusal as `fuzz_rules.py` says, and what was handed in must be as it was.
"""

import contextlib
import copy
import inspect
import time
import warnings
from typing import NamedTuple

import fuzz_rules
import matplotlib as mpl
import numpy as np
from fuzz_material import arrays, damaged_array, data, diagnosis, folder, formula, frame, models, paths, strange
from matplotlib import pyplot
from typer.testing import CliRunner

import itofit
from itofit import Transitions, dynamics, plot
from itofit.cli import app

mpl.use("Agg")
CHEAP = {"samples": 3, "rng": 0}
MISSPELT = ("seed", "verbose", "T", "foo", "n_jobs")


class Entrance(NamedTuple):
    """A function with arguments that it takes, and what it promises of its answer."""

    call: object
    good: object  # makes a dictionary of good arguments
    promises: object = None
    weight: float = 1.0


def _transitions(result):
    yield from fuzz_rules.unfit_transitions(result)


def _read(result):
    """Of data that may be in parts."""
    rows = 0
    for block in result.blocks():
        yield from fuzz_rules.unfit_transitions(block)
        rows += len(block)
    if rows == 0 or rows != len(result):
        yield f"{rows} rows in the blocks, {len(result)} in all"


def _finite(result):
    for each in result if isinstance(result, tuple) else (result,):
        yield from fuzz_rules.not_finite("answer", each)


def _definite(result):
    yield from fuzz_rules.not_positive_definite("covariance", result)


def _model(sde):
    yield from fuzz_rules.unfit_model(sde, np.stack([sde.box[0], sde.box.mean(axis=0), sde.box[1]]))


def _drawn(result):
    for figure in map(pyplot.figure, pyplot.get_fignums()):
        figure.canvas.draw()
        yield from fuzz_rules.not_finite("size of the picture", figure.get_size_inches())


def _exit(result):
    """Of a command: a code that it may end with, no traceback, nothing that steers the terminal."""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        yield f"{type(result.exception).__name__}: {str(result.exception)[:300]}"
    if result.exit_code not in (0, 1, 2):
        yield f"exit code {result.exit_code}"
    if "Traceback" in result.output or "\x1b]" in result.output or "\x1b[2J" in result.output:
        yield "a traceback, or what steers a terminal"
    if result.exit_code == 2 and not result.output.strip():
        yield "a refusal without a word"


def _command(words):
    def call(**options):
        return CliRunner().invoke(app, [str(word) for word in words(**options)])

    return call


def _options(given):
    """Words of a command line: names and values in turn, a flag for True."""
    words = []
    for name, value in given.items():
        words += [f"--{name.replace('_', '-')}"] if value is True else [f"--{name.replace('_', '-')}", value]
    return words


def _cli(name, *positional, **good):
    """The entrance of a command, whose first arguments have no names."""

    def words(**given):
        first = [given.pop(each) for each in positional if each in given]
        return [
            name,
            *(word for part in first for word in (part if isinstance(part, list) else [part])),
            *_options(given),
        ]

    return Entrance(_command(words), lambda: dict(good.items()) | _made_paths(positional, good), _exit, 1.0)


def _made_paths(positional, good):
    """Names of files stand for files."""
    return {each: str(paths().get(good[each], good[each])) for each in positional}


def _method(model, name, promises=None, weight=1.0, **good):
    """The entrance of a method of a model."""
    return Entrance(
        lambda **given: getattr(model(), name)(**given),  # noqa: PLW0108  (models are made when they are needed)
        lambda: {key: value() if callable(value) else value for key, value in good.items()},
        promises,
        weight,
    )


def _series():
    return models()["pairs"].drift_function.series


def _of(which):
    return lambda: models()[which]


def _data(which):
    return lambda: data()[which]


def _x():
    return arrays()["x"]


def _asked(function, weight=1.0, promises=None, which="one", **good):
    """The entrance of a question to an equation."""
    made = {"sde": _of(which), **{name: (lambda value=value: value) for name, value in (CHEAP | good).items()}}
    return Entrance(function, lambda: {name: make() for name, make in made.items()}, promises, weight)


def _plotted(function, which="one", **good):
    def drawn(**given):
        pyplot.close("all")
        return function(**given)

    fixed = {name: (lambda value=value: value) for name, value in good.items()}
    made = {"sde": _of(which), "data": _data(which), **fixed}
    return Entrance(drawn, lambda: {name: make() for name, make in made.items()}, _drawn, 0.7)


def _regressor(X, y, X_new, **options):
    return itofit.ARFFRegressor(**options).fit(X, y).predict(X_new)


def _blocks(**given):
    return Transitions.from_blocks(**given)


WIDE = {"n_features": 8, "max_iterations": 5}

ENTRANCES = {
    "Transitions": Entrance(
        Transitions,
        lambda: {"inputs": _x(), "increments": arrays()["x1"] - _x(), "h": 0.1, "groups": np.arange(60) % 5,
                 "kind": "diffusion", "input_names": ["a", "b"], "periodic": {"a": 20.0}},
        _transitions, 3.0),
    "from_pairs": Entrance(
        Transitions.from_pairs,
        lambda: {"x0": _x(), "x1": arrays()["x1"], "h": np.full(60, 0.1), "groups": None, "names": None,
                 "covariates": np.arange(60.0), "covariate_names": "u", "periodic": None},
        _transitions, 3.0),
    "from_underdamped": Entrance(
        Transitions.from_underdamped,
        lambda: {"x0": _x(), "v0": _x(), "x1": arrays()["x1"], "v1": arrays()["x1"], "h": 0.1, "names": ("a", "b"),
                 "velocity_names": None},
        _transitions, 2.0),
    "from_trajectories": Entrance(
        Transitions.from_trajectories,
        lambda: {"paths": arrays()["path"], "times": arrays()["times"], "min_h": None, "max_h": 2.0,
                 "names": ["x", "y"], "covariates": arrays()["times"], "covariate_names": None, "periodic": {0: 9.0}},
        _transitions, 3.0),
    "from_trajectories, several": Entrance(
        Transitions.from_trajectories,
        lambda: {"paths": [arrays()["path"][:20], arrays()["path"][20:]], "dt": 0.1,
                 "covariates": [np.ones(20), np.zeros(40)]},
        _transitions, 2.0),
    "from_positions": Entrance(
        Transitions.from_positions,
        lambda: {"paths": arrays()["path"], "dt": 0.1, "min_h": None, "max_h": None, "names": None,
                 "velocity_names": None},
        _transitions, 2.0),
    "from_dataframe": Entrance(
        Transitions.from_dataframe,
        lambda: {"df": frame(), "time": "t", "state": ["x", "y"], "track": "id", "unit": None, "max_h": None,
                 "covariates": "u", "periodic": {"x": 50.0}, "second_order": False},
        _transitions, 3.0),
    "from_blocks": Entrance(
        _blocks,
        lambda: {"source": (_x(), arrays()["x1"], np.full(60, 0.1)), "form": "pairs", "h": None, "kind": None,
                 "names": None},
        _read, 2.0),
    "read_transitions": Entrance(
        itofit.read_transitions,
        lambda: {"path": paths()["csv"], "time": "t", "state": ["x", "y"], "track": "id", "unit": None, "min_h": None,
                 "chunk_rows": None, "covariates": "u", "periodic": None, "storage_options": None},
        _read, 3.0),
    "read_transitions, Parquet in parts": Entrance(
        itofit.read_transitions,
        lambda: {"path": [paths()["parquet"]], "time": "t", "state": "x", "track": "id", "chunk_rows": 7,
                 "second_order": False, "velocity": "y"},
        _read, 1.0),
    "split": Entrance(
        lambda **given: data()["tracks"].split(**given)[0],
        lambda: {"held_out": 0.3, "by": "groups", "rng": 0},
        _transitions),
    "rows of transitions": Entrance(lambda rows: data()["tracks"][rows], lambda: {"rows": np.arange(10)}),
    "concatenate": Entrance(
        Transitions.concatenate, lambda: {"parts": [data()["pairs"], data()["pairs"]]}, _transitions),
    "fit": Entrance(
        itofit.fit,
        lambda: {"data": data()["pairs"], "structure": "auto", "link": "auto", "drift": None, "covariance": None,
                 "floor": None, "refine": True, "weight_drift": None, "cross_fit": None, "ensemble": None,
                 "bootstrap": None, "correct_step": "auto", "max_h": "auto", "measurement_noise": "auto", "rng": 0,
                 "progress": None, "client": None},
        _model, 4.0),
    "fit, tracks": Entrance(
        itofit.fit,
        lambda: {"data": data()["tracks"], "measurement_noise": 0.1, "max_h": 1.0, "correct_step": True, "rng": 0},
        _model, 2.0),
    "fit, as published": Entrance(
        itofit.fit,
        lambda: {"data": data()["pairs"], "refine": False, "drift": itofit.ARFF(**WIDE),
                 "covariance": itofit.ARFF(**WIDE), "floor": 0.01, "weight_drift": False, "rng": 0},
        _model, 2.0),
    "fit, of damaged data": Entrance(
        lambda inputs, increments, h: itofit.fit(Transitions(inputs, increments, h), rng=0),
        lambda: {"inputs": _x(), "increments": arrays()["x1"] - _x(), "h": np.full(60, 0.1)},
        _model, 3.0),
    "ARFF": Entrance(
        itofit.ARFF,
        lambda: {"n_features": 8, "ridge": 0.1, "delta": 0.1, "gamma": 2, "resample": True, "pairing": None,
                 "min_iterations": 2, "max_iterations": 5, "validation_fraction": 0.1, "search_rows": None,
                 "normal_equations": None},
        None, 2.0),
    "ARFF.resolve": Entrance(
        itofit.ARFF().resolve, lambda: {"n_rows": 100, "n_inputs": 2, "n_outputs": 1}),
    "ARFFRegressor": Entrance(
        _regressor,
        lambda: {"X": _x(), "y": arrays()["x1"][:, 0], "X_new": _x(), "n_features": 8, "ridge": 0.1, "delta": None,
                 "max_iterations": 5, "validation_fraction": 0.1, "random_state": 0},
        _finite, 2.0),
    "FourierSeries": Entrance(
        itofit.FourierSeries,
        lambda: {"omega": np.ones((3, 2)), "beta": np.ones((3, 1)) + 0j, "shift": np.zeros(2), "scale": np.ones(2),
                 "offset": np.zeros(1)}),
    "FourierSeries, called": _method(_series, "__call__", x=_x),
    "FourierSeries.jacobian": _method(_series, "jacobian", _finite, x=_x),
    "drift": _method(_of("ensemble"), "drift", _finite, x=_x, return_std=True),
    "drift, driven": _method(_of("driven"), "drift", _finite, x=_x, return_std=True),
    "covariance": _method(_of("pairs"), "covariance", _definite, x=_x),
    "covariance, options": _method(_of("pairs"), "covariance", _finite, x=_x, raw=False, return_std=True),
    "diffusion": _method(_of("pairs"), "diffusion", _finite, x=_x, factor="symmetric"),
    "drift_jacobian": _method(_of("pairs"), "drift_jacobian", _finite, x=_x),
    "floored": _method(_of("pairs"), "floored", x=_x),
    "step_trust": _method(_of("corrected"), "step_trust", x=lambda: _x()[:, 0]),
    "step_moments": _method(_of("corrected"), "step_moments", x=lambda: _x()[:, 0], h=0.1, scheme="corrected"),
    "variance_interval": _method(_of("pairs"), "variance_interval", x=_x, level=0.9),
    "nll": _method(_of("pairs"), "nll", _finite, data=_data("pairs"), pointwise=True, scheme="euler", predictive=False),
    "nll, noisy": _method(_of("noisy"), "nll", _finite, data=_data("tracks"), pointwise=False),
    "states": _method(_of("noisy"), "states", data=_data("tracks")),
    "sample": _method(_of("pairs"), "sample", n=3, rng=0),
    "samples, drift": Entrance(lambda x: models()["pairs"].sample(3, rng=0).drift(x), lambda: {"x": _x()}, _finite),
    "samples, chosen": Entrance(lambda i: models()["pairs"].sample(3, rng=0)[i], lambda: {"i": 0}),
    "simulate": _method(_of("pairs"), "simulate", _finite, x0=_x, dt=0.1, n_steps=3, scheme="euler", outside="nearest",
                        observed=False, rng=0, progress=None, as_frame=False),
    "simulate, driven": _method(_of("driven"), "simulate", _finite, x0=lambda: _x()[:, 0], dt=0.1, n_steps=3,
                                covariates=lambda: np.zeros((3, 1)), rng=0),
    "simulate, inertia": _method(_of("inertia"), "simulate", x0=_x, dt=0.1, n_steps=3, outside="stop", rng=0),
    "to_table": _method(_of("pairs"), "to_table", grid=4, path=None),
    "save": _method(_of("one"), "save", path=lambda: folder() / "saved.npz"),
    "formula": _method(_of("one"), "formula", data=_data("one"), terms=None, degree=2, noise="covariance",
                       held_out=_data("one"), false_alarms=0.01, units=None, time_unit=None),
    "Formula.drift": _method(formula, "drift", x=lambda: _x()[:, 0], return_std=True),
    "Formula.covariance": _method(formula, "covariance", x=lambda: _x()[:, 0], raw=False, return_std=False),
    "Formula.interval": _method(formula, "interval", level=0.9),
    "Formula.simulate": _method(formula, "simulate", x0=lambda: _x()[:, 0], dt=0.1, n_steps=3, rng=0),
    "Formula.save": _method(formula, "save", path=lambda: folder() / "saved.npz"),
    "load": Entrance(itofit.load, lambda: {"path": paths()["one"]}, _model),
    "load_formula": Entrance(itofit.load_formula, lambda: {"path": paths()["formula"], "functions": None}),
    "check": Entrance(
        itofit.check,
        lambda: {"sde": models()["pairs"], "data": data()["pairs"], "rng": 0, "level": 0.01, "client": None},
        lambda result: [] if str(result) else ["no text"], 2.0),
    "compare": Entrance(
        itofit.compare,
        lambda: {"a": models()["one"], "b": models()["one"], "data_a": data()["one"], "data_b": data()["one"],
                 "names": ("p", "q"), "level": 0.05, "samples": 20, "answers": None, "rng": 0},
        lambda result: [] if str(result) else ["no text"]),
    "report": Entrance(
        itofit.report,
        lambda: {"sde": models()["one"], "data": data()["one"], "path": folder() / "page.html", "title": None,
                 "saved_as": None, "formula": False, "rng": 0, "client": None},
        None, 0.4),
    "fixed_points": _asked(dynamics.fixed_points, box=None, covariates=None),
    "nullclines": _asked(dynamics.nullclines, which="pairs", cells=12),
    "stationary_density": _asked(dynamics.stationary_density, cells=20, box=None, method="auto"),
    "stationary_density, driven": _asked(dynamics.stationary_density, which="driven", covariates=0.0, cells=20),
    "probability_current": _asked(dynamics.probability_current, which="pairs", cells=8),
    "entropy_production": _asked(dynamics.entropy_production, cells=20),
    "quasi_potential": _asked(dynamics.quasi_potential, cells=20),
    "potential": _asked(dynamics.potential, box=None),
    "relaxation_times": _asked(dynamics.relaxation_times, n=2, cells=20),
    "autocorrelation": _asked(dynamics.autocorrelation, times=np.arange(3.0), cells=20),
    "first_passage_time": _asked(dynamics.first_passage_time, start=0.0, target=1.0, cells=20, method="auto"),
    "escape_rate": _asked(dynamics.escape_rate, start=0.0, target=1.0, cells=20),
    "exit_probabilities": _asked(dynamics.exit_probabilities, start=0.0, targets={"a": -1.0, "b": 1.0}, cells=20),
    "period": _asked(dynamics.period, which="pairs", start=None, weight=0.5),
    "outlook": _asked(dynamics.outlook, weight=0.3),
    "plot.drift": _plotted(plot.drift, "pairs", output=0, along=1, at=None, ax=None),
    "plot.diffusion": _plotted(plot.diffusion, "pairs", entry=(0, 1), along=0, at=None, what="variance"),
    "plot.distributions": _plotted(plot.distributions, "tracks", n_paths=3, component=None, rng=0),
    "plot.field": _plotted(plot.field, "pairs", stream=False, ellipses=True),
    "plot.heatmap": _plotted(plot.heatmap, "pairs", what="drift", entry=None, along=(0, 1)),
    "plot.potential": _plotted(plot.potential),
    "plot.slices": _plotted(plot.slices, "pairs", inputs=None, outputs=[0]),
    "plot.density": _plotted(plot.density, **CHEAP, box=None),
    "plot.passage_times": _plotted(plot.passage_times, **CHEAP, targets=1.0),
    "plot.phase_portrait": _plotted(plot.phase_portrait, "pairs", **CHEAP, current=False),
    "plot.history": Entrance(plot.history, lambda: {"sde": models()["one"], "ax": None}, _drawn, 0.5),
    "plot.overview": Entrance(
        plot.overview, lambda: {"sde": models()["one"], "data": data()["one"], "figure": None}, _drawn, 0.3),
    "plot.residuals": Entrance(
        plot.residuals, lambda: {"diagnosis": diagnosis(), "axes": None, "sde": models()["one"]}, _drawn, 0.5),
    "plot.formula": Entrance(
        plot.formula, lambda: {"formula": formula(), "sde": models()["one"], "data": data()["one"]}, _drawn, 0.5),
    "itofit fit": _cli("fit", "file", file="csv", output="cli.npz", time="t", state="x,y", track="id", structure="auto",
                       measurement_noise="none", held_out="0.2", seed="0", force=True),
    "itofit check": _cli("check", "model", "file", model="tracks", file="csv", time="t", state="x,y", track="id",
                         json=True),
    "itofit info": _cli("info", "model", model="one"),
    "itofit simulate": _cli("simulate", "model", model="one", output="paths.csv", start="0.5", paths="3", steps="4",
                            dt="0.1", force=True),
    "itofit dynamics": _cli("dynamics", "model", model="one", samples="3"),
    "itofit formula": _cli("formula", "model", "file", model="one", file="csv", time="t", state="x", track="id"),
    "itofit compare": _cli("compare", "model_a", "model_b", model_a="one", model_b="one", samples="20", json=True),
    "itofit demo": _cli("demo", output="demo", seed="1", force=True),
}  # fmt: skip


WITHOUT_ANSWER = ("period",)
"""Entrances that refuse the good arguments: there is no limit cycle."""


def unanswered():
    """Entrances that give no answer to arguments that should be good, and what they say: there must be none."""
    paths()
    for name, entrance in ENTRANCES.items():
        if name in WITHOUT_ANSWER:
            continue
        with contextlib.chdir(folder()):
            judged = fuzz_rules.judged(lambda entrance=entrance: entrance.call(**entrance.good()), entrance.promises)
        if judged.outcome != "answer" or getattr(judged.result, "exit_code", 0):
            yield f"{name}: {judged.text or judged.result.output}"


def trial(seed):
    """One call with bad arguments."""
    rng = np.random.default_rng([seed, 11])
    names = list(ENTRANCES)
    weights = np.array([ENTRANCES[name].weight for name in names])
    name = str(rng.choice(names, p=weights / weights.sum()))
    entrance = ENTRANCES[name]
    paths()
    given, changed = changed_arguments(rng, name, dict(entrance.good()))
    kept = {key: _copied(value) for key, value in given.items()}
    words = _words(entrance, given) if len(changed) == 1 else ()
    began = time.perf_counter()
    with contextlib.chdir(folder()):  # for names of files that were not meant to be such
        judged = fuzz_rules.judged(lambda: entrance.call(**given), entrance.promises, names=words)
    if judged.outcome == "answer":
        different = [key for key, value in given.items() if not _same(value, kept[key])]
        if different:
            judged = fuzz_rules.Judged("fault", f"changed its argument {different[0]}")
    pyplot.close("all")
    return {
        "kind": name,
        "outcome": judged.outcome,
        "text": judged.text[:600],
        "changed": {key: repr(given.get(key, "left out"))[:120] for key in changed},
        "seconds": round(time.perf_counter() - began, 3),
    }


def changed_arguments(rng, name, given):
    """Arguments of which some are bad, and the names of these."""
    changed = []
    for _ in range(int(rng.choice([1, 2, 3], p=[0.7, 0.2, 0.1]))):
        key = str(rng.choice(list(given)))
        act = rng.random()
        if name.startswith("itofit "):
            given[key] = _word(rng, given[key])
        elif act < 0.03:
            given[str(rng.choice(MISSPELT))] = 1
        elif act < 0.05:
            del given[key]
        elif _is_numeric(given[key]) and act < 0.6:
            given[key] = damaged_array(rng, given[key])
        else:
            given[key] = strange(rng)
        changed.append(key)
        if not given:
            break
    return given, changed


def _is_numeric(value):
    return isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind in "biuf")


def _word(rng, good):
    """A word of a command line."""
    words = ("", " ", "-1", "0", "nan", "inf", "1e400", "x", "x,x", "x,y,z", "t", "id", "auto", "none", "missing.csv",
             "pipe.csv", "empty.csv", "folder.npz", "tracks.csv", "one.npz", "pairs.npz", "formula.npz", "--", "--foo",
             "-", "\x1b[2J.npz", "\udcff.csv", "é", "a" * 300, "x=2pi", "x=", "=", ".", "12abc", "1,5",
             "0.1", "3")  # fmt: skip
    if isinstance(good, str) and rng.random() < 0.3 and good:
        return good[: int(rng.integers(len(good)))] + str(rng.choice(["", ",", "x", "9", "\t", "."]))
    return str(rng.choice(words))


def _words(entrance, given):
    """Words of which a refusal must name one: all arguments of the call and of what it calls."""
    known = set(given)
    with contextlib.suppress(TypeError, ValueError):
        known |= set(inspect.signature(entrance.call).parameters)
    known |= {value for value in given.values() if isinstance(value, str) and value}  # a file or column that is named
    known = {name.removesuffix("s") for name in known}
    return tuple(known | {"transition", "trajector", "model", "file", "rows", "column", "data", "state", "variable"})


def _copied(value):
    """A copy of what could be changed in place; arrays and tables of them, in their order."""
    if isinstance(value, np.ndarray) or hasattr(value, "iloc"):
        return value.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return copy.copy(value) if isinstance(value, list | dict | set | bytearray) else value


def _same(value, kept):
    """Whether a value is as it was."""
    if isinstance(value, np.ndarray):
        return value.dtype == kept.dtype and value.shape == kept.shape and value.tobytes() == kept.tobytes()
    if hasattr(value, "iloc"):
        return bool(value.equals(kept))
    if not isinstance(value, list | dict | set | bytearray):
        return True
    return len(value) == len(kept) and all(a is b for a, b in zip(value, kept, strict=True))
