"""What campaigns of fuzzing have found (benchmarks/campaign.py), and that they recognise a fault when they see one."""

import importlib.util
import os
import sys
import time
import warnings
import zipfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import itofit
from itofit import ARFF, DataWarning, InputError, ModelFileError, Transitions, dynamics, plot
from itofit.model import storage

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
DATA = Transitions.from_pairs(X, X - 0.1 * X + 0.1 * RNG.normal(size=X.shape), 0.1)
ONE = Transitions.from_pairs(X[:, 0], 0.9 * X[:, 0] + 0.1 * RNG.normal(size=120), 0.1)
FRAME = pd.DataFrame({"t": np.arange(30.0), "x": RNG.normal(size=30)})


@pytest.fixture(scope="module")
def sde():
    return itofit.fit(DATA, rng=0)


@pytest.fixture(scope="module")
def one():
    return itofit.fit(ONE, rng=0)


@pytest.fixture(scope="module")
def formula(one):
    return one.formula(ONE)


# Bad arguments


REFUSED = {
    "n_rows": (lambda: ARFF().resolve("0", 2), "n_rows must be a whole number >= 1, got '0'"),
    "n_inputs": (lambda: ARFF().resolve(100, [2]), "n_inputs must be a whole number"),
    "correct_step": (lambda: itofit.fit(DATA, correct_step=np.ones(2)), "correct_step must be True or False"),
    "max_h": (lambda: itofit.fit(DATA, max_h=np.empty(0)), "max_h must be a number > 0"),
    "progress": (lambda: itofit.fit(DATA, progress=np.ones(2)), "progress must be True or False"),
    "long steps": (lambda: itofit.fit(Transitions(X, X, [1e300, *[0.1] * 119])), "h must lie between .* 0.1 to 1e.300"),
    "short steps": (lambda: itofit.fit(Transitions(X, X, 1e-150)), "h must lie between 1e-100 and 1e.100 .* unit"),
    "kind of blocks": (
        lambda: Transitions.from_blocks((X, X), "pairs", h=1, kind=np.ones(2)),
        "kind can be chosen for",
    ),
    "time": (lambda: Transitions.from_dataframe(FRAME, time=["t"], state="x"), "time must be the name .* the list"),
    "missing time": (lambda: Transitions.from_dataframe(FRAME, time=pd.NA, state="x"), "time must be the name"),
    "missing state": (lambda: Transitions.from_dataframe(FRAME, time="t", state=pd.NA), "state must be the name"),
    "state without axes": (lambda: Transitions.from_dataframe(FRAME, dt=1, state=np.array("y")), "column 'y'"),
    "names": (lambda: Transitions.from_trajectories(X, dt=1, names=np.array(1.0)), "names must be 2 strings"),
    "long names": (lambda: Transitions.from_trajectories(X, dt=1, names=[*"abc"] * 999), "names must be 2 .*…$"),
    "periodic": (lambda: Transitions.from_trajectories(X, dt=1, periodic=[*"abc"] * 999), "periodic must be .*…$"),
    "rows": (lambda: DATA[np.array([0.5])], "select transitions with a slice, a mask or an array of indices"),
    "mask": (lambda: DATA[np.array([True])], "a mask must have a value for each of 120 transitions, got 1"),
    "indices": (lambda: DATA[[0, 120]], "there are 120 transitions, and none has the index 120"),
    "no rows": (lambda: DATA[[]], "there are no transitions left"),
    "parts": (lambda: Transitions.concatenate(np.array(1.0)), "concatenate needs a list of Transitions"),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_arguments_are_refused_by_name(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert len(str(caught.value)) < 400


ASKED = {
    "return_std": (lambda sde: sde.drift(X[:, 0], return_std=np.ones(2)), "return_std must be True or False"),
    "raw": (lambda sde: sde.covariance(X[:, 0], raw="yes"), "raw must be True or False, got 'yes'"),
    "pointwise": (lambda sde: sde.nll(ONE, pointwise=pd.Series([1, 2])), "pointwise must be True or False"),
    "number of a sample": (lambda sde: sde.sample(3, rng=0)[1.5], "choose an equation by its number"),
    "samples": (lambda sde: sde.sample(3, rng=0)[np.zeros(2)], "choose an equation by its number"),
    "cells": (lambda sde: dynamics.stationary_density(sde, cells=Fraction(1, 3)), "cells must be a whole number >= 8"),
    "cells without axes": (lambda sde: dynamics.entropy_production(sde, cells=np.array(9.0)), "cells must be a whole"),
    "box": (lambda sde: dynamics.fixed_points(sde, box="full"), "box must be an array of real numbers"),
    "endless box": (lambda sde: dynamics.potential(sde, box={"x": (0, 10**400)}), "box: the range of x must be two"),
    "infinite box": (lambda sde: dynamics.potential(sde, box={"x": (0, np.inf)}), "box: the range of x must be two"),
    "target": (lambda sde: dynamics.first_passage_time(sde, 0.0, 10**400), "target must"),
    "complex target": (lambda sde: dynamics.first_passage_time(sde, 0.0, np.array([1j])), "target must be a number"),
    "target of no points": (lambda sde: dynamics.first_passage_time(sde, 0.0, lambda: True), "target must be a"),
    "density beside no data": (lambda sde: plot.density(sde, "2pi", samples=3), "needs Transitions, got str"),
    "times beside others' data": (lambda sde: plot.passage_times(sde, DATA, targets=0.5, samples=3), "1 input"),
    "path": (lambda sde: sde.save(0), "path must be the path of a file, got 0"),
    "NUL": (lambda sde: sde.save("a\0b"), "path must be the path of a file"),
    "table": (lambda sde: sde.to_table(4, slice(3)), "path must be the path of a file, got slice"),
    "load": (lambda sde: itofit.load(None), "path must be the path of a file, got None"),
    "functions": (lambda sde: itofit.load_formula("x", functions="abc"), "functions must be a dictionary"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "message"), ASKED.values(), ids=ASKED)
def test_bad_questions_are_refused_by_name(one, call, message):
    with pytest.raises(InputError, match=message) as caught:
        call(one)
    assert len(str(caught.value)) < 400


def test_functions_that_do_not_take_what_they_are_called_with(one):
    with pytest.raises(
        InputError, match=r"answers must be a dictionary of functions by their names, or True .*, got 3"
    ):
        itofit.compare(one, one, samples=20, answers=3)
    with pytest.raises(InputError, match=r"names must be two, such as .*, got 1j"):
        itofit.compare(one, one, samples=20, names=1j)
    wrong = {"a": lambda: 1.0}
    with pytest.raises(InputError, match="answers must be a function that can be called with one argument"):
        itofit.compare(one, one, samples=20, answers=wrong)
    with pytest.raises(InputError, match="terms must be a function that can be called with one argument"):
        one.formula(ONE, terms=wrong)

    def fails(sde):
        raise TypeError("of the user's own")

    with pytest.raises(TypeError, match="of the user's own"):
        itofit.compare(one, one, samples=20, answers={"a": fails})


def test_bad_questions_of_two_variables(sde):
    with pytest.raises(InputError, match="cells must be a whole number >= 1"):
        dynamics.nullclines(sde, cells=np.ones(3), samples=2)
    with pytest.raises(InputError, match="current must be True or False"):
        plot.phase_portrait(sde, current=np.ones(3), samples=2)


@pytest.mark.parametrize("argument", ["return_std", "raw"])
def test_formulas_take_flags_alone(formula, argument):
    with pytest.raises(InputError, match=f"{argument} must be True or False"):
        formula.covariance(X[:, 0], **{argument: np.ones(3)})


def test_axes_that_cannot_be_gone_through(one):
    with pytest.raises(InputError, match="axes must be 2 matplotlib Axes"):
        plot.residuals(itofit.check(one, ONE), axes=3)


# Answers


def test_the_smallest_grid_has_a_coarser_one(one):
    """The error of a grid is told from a coarser one, which the smallest grid that is allowed must have."""
    small, large = (dynamics.stationary_density(one, cells=k, samples=2, rng=0) for k in (8, 200))
    assert np.isfinite(small.grid_error)
    assert small.grid_error > large.grid_error


def test_correlations_after_a_very_long_time_are_zero(one):
    answer = dynamics.autocorrelation(one, [0.0, 1e184], cells=40, samples=2, rng=0)
    np.testing.assert_allclose(np.ravel(answer.value), [1.0, 0.0], atol=1e-6)


def test_samples_at_no_points(sde):
    for model in (sde, itofit.fit(DATA, link="identity", structure="full", rng=0)):
        sampled = model.sample(3, rng=0)
        assert sampled.drift(np.empty((0, 2))).shape == (3, 0, 2)
        assert sampled.covariance(np.empty((0, 2))).shape == (3, 0, 2, 2)


# Files


def test_errors_of_measurement_in_very_different_units_can_be_saved(tmp_path):
    """Their covariance is symmetric to the last bit, which products of matrices in such units need not be."""
    rng = np.random.default_rng(5)
    x = np.zeros((8, 100, 3))
    for k in range(99):
        x[:, k + 1] = 0.95 * x[:, k] + 0.1 * rng.normal(size=(8, 3)) @ (np.eye(3) + 0.5 * np.tri(3))
    seen = (x + 0.1 * rng.normal(size=x.shape) @ (np.eye(3) + 0.7 * np.tri(3))) * np.array([0.013, 31.0, 7e-4])
    sde = itofit.fit(Transitions.from_trajectories(list(seen), dt=0.043), rng=0)
    assert sde.measurement_noise is not None
    np.testing.assert_array_equal(sde.measurement_noise.covariance, sde.measurement_noise.covariance.T)
    sde.save(tmp_path / "model.npz")
    itofit.load(tmp_path / "model.npz")


@pytest.mark.parametrize("kind", ["listed", "in a directory"])
def test_a_pipe_among_several_files_is_not_waited_for(tmp_path, kind):
    FRAME.to_csv(tmp_path / "a.csv", index=False)
    os.mkfifo(tmp_path / "b.csv")
    path = [tmp_path / "a.csv", tmp_path / "b.csv"] if kind == "listed" else tmp_path
    with pytest.raises(InputError, match=r"b\.csv is a pipe, a device or the like"):
        itofit.read_transitions(path, time="t")


def test_a_model_that_claims_countless_covariates_is_refused_at_once(one, tmp_path):
    """The names of all of them would fill the memory."""
    path = tmp_path / "model.npz"
    one.save(path)
    arrays, metadata = storage.read(path)
    for claimed in (10**12, 1, True):
        metadata["model"]["n_covariates"] = claimed
        storage.write(path, arrays, {"model": metadata["model"]})
        with pytest.raises(ModelFileError, match="n_covariates must be"):
            itofit.load(path)


def test_labels_of_tracks_too_large_for_whole_numbers_stay_apart():
    """They are huge floats, which as whole numbers would all be the same one."""
    table = FRAME.assign(id=np.where(FRAME.t < 15, 1e200, 1e300))
    data = Transitions.from_dataframe(table, time="t", state="x", track="id")
    assert len(np.unique(data.groups)) == 2


@pytest.mark.parametrize("damage", ["encrypted", "packed anew", "out of place"])
def test_damaged_archives_of_arrays_are_named(tmp_path, damage):
    path = tmp_path / "data.npz"
    np.savez(path, x0=X, x1=X, h=0.1)
    content = bytearray(path.read_bytes())
    directory = content.rindex(b"PK\x01\x02", 0, content.index(b"PK\x05\x06"))
    first = content.index(b"PK\x01\x02")
    if damage == "encrypted":
        content[first + 8] |= 1
        content[6] |= 1
    elif damage == "packed anew":
        content[first + 10] = content[8] = 99
    else:
        content[directory + 42 : directory + 46] = b"\xff\xff\xff\x7f"
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"data\.npz: "):
        itofit.read_transitions(path)
    assert zipfile.is_zipfile(path)


# The campaign


@pytest.fixture(scope="module")
def rules():
    """The module of the rules, which is no part of the package."""
    path = Path(__file__).parents[1] / "benchmarks" / "fuzz_rules.py"
    spec = importlib.util.spec_from_file_location("fuzz_rules", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz_rules"] = module
    spec.loader.exec_module(module)
    return module


def overflow():
    return np.array([1e308]) * 10


def refusal_without_name():
    raise InputError("no")


FAULTS = {
    "another package's error": (lambda: np.ones(2) @ np.ones(3), None, (), "ValueError: matmul"),
    "an error from deep inside": (lambda: Transitions._trusted(*[None] * 3), None, (), "TypeError"),
    "an answer that cannot be used": (lambda: None, iter, (), "not iterable"),
    "a warning": (overflow, None, (), "overflow"),
    "a promise": (lambda: np.array([np.nan]), lambda result: ["not finite"], (), "not finite"),
    "no name": (refusal_without_name, None, ("floor",), "names no argument"),
    "too long": (lambda: time.sleep(5), None, (), "took longer"),
}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("call", "promises", "names", "text"), FAULTS.values(), ids=FAULTS)
def test_faults_are_recognised(rules, call, promises, names, text):
    if text.startswith("TypeError"):
        assert not rules.is_ours(caught_from(call))
        return
    judged = rules.judged(call, promises, names=names, seconds=0.2)
    assert judged.outcome == "fault"
    assert text in judged.text


def caught_from(call):
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError


def test_refusals_and_answers_are_no_faults(rules):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        assert rules.judged(lambda: itofit.fit(DATA, floor=-1), names=("floor",)).outcome == "refusal"
        assert rules.judged(lambda: itofit.load("nowhere.npz")).outcome == "refusal"
        assert rules.judged(lambda: DATA, rules.unfit_transitions).outcome == "answer"


def test_matrices_that_are_not_positive_definite_are_recognised(rules):
    good, bad = np.eye(2)[None], np.array([[[1.0, 2.0], [2.0, 1.0]]])
    assert list(rules.not_positive_definite("Σ", good)) == []
    assert list(rules.not_positive_definite("Σ", bad)) == ["Σ not positive definite"]
    assert list(rules.not_positive_definite("Σ", np.full((1, 2, 2), np.nan))) == ["Σ not finite"]
