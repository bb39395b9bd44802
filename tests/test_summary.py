"""The summary of a model: whole texts, with the names of variables and in words."""

import re

import numpy as np
import pytest

import itofit
from itofit import ARFF, Transitions
from itofit.matrices.links import LINKS
from itofit.model.summary import STRUCTURES, dependence_text, entry_names
from itofit.model.training import SWITCHED_OFF, Training


def noisy(names=None, n=600, seed=0):
    """Two variables whose correlated noises grow with the state, each driven by its own."""
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-1, 1, (n, 2)), rng.normal(size=(n, 2))
    z[:, 1] = 0.5 * z[:, 0] + 0.8 * z[:, 1]
    move = -0.1 * x + 0.22 * z * np.exp(x)
    return Transitions.from_pairs(x, x + move, 0.05, names=names)


def lines_of(sde):
    """The lines of a summary, with N for numbers that stand alone."""
    return re.sub(r"(?<![\w.])[+]?\d+(\.\d+)*%?(?!\w)", "N", sde.summary()).splitlines()


# What outputs depend on


def record(on):
    """A training of as many outputs as rows, in groups along two inputs and in all directions."""
    return Training(
        judge="log-evidence",
        iteration=np.zeros(1),
        score=np.zeros(1),
        acceptance=np.zeros(0),
        seconds=np.zeros(0),
        best_iteration=0,
        stopped="evidence",
        n_features=4,
        parameters=ARFF(),
        determined=1.0,
        groups=np.arange(len(on[0])),
        ridges=np.where(on, 1.0, SWITCHED_OFF),
    )


def test_dependence_by_name():
    on = np.array([[True, False, False], [True, True, False], [False, True, True], [False, False, False]])
    text = dependence_text(record(on), ["f of a", "f of b", "f of c", "f of d"], ("a", "b"))
    assert text == (
        "f of a depends on a alone; f of b depends on a, b; f of c depends on b and all inputs together; "
        "f of d is constant"
    )
    assert dependence_text(record([[True]]), ["f of a"], ("a",)) == "f of a depends on a"


def test_outputs_that_depend_on_the_same_stand_together():
    on = np.array([[True, False, False], [False, False, False], [True, False, False], [False, False, False]])
    text = dependence_text(record(on), ["f of a", "f of b", "f of c", "f of d"], ("a", "b"))
    assert text == "f of a, f of c depend on a alone; f of b, f of d are constant"


# Words for structure and link


@pytest.mark.parametrize(("link", "symbol"), [("identity", "Σ"), ("square", "√Σ"), ("log", "log Σ")])
def test_names_of_entries(link, symbol):
    assert entry_names("diagonal", link, ("a", "b")) == [f"{symbol} of a", f"{symbol} of b"]
    assert entry_names("full", link, ("a", "b")) == [f"{symbol} of a", f"{symbol} of a and b", f"{symbol} of b"]
    three = [f"{symbol} of {name}" for name in ("a", "a and b", "b", "a and c", "b and c", "c")]
    assert entry_names("full", link, ("a", "b", "c")) == three


STRUCTURE_LINES = {
    "diagonal": "  structure   diagonal: the variables' noises are independent of each other at every point",
    "full": "  structure   full: the variables' noises may be correlated",
}
LINK_LINES = {
    "identity": "  link        identity: the entries of Σ are sums of waves",
    "log": "  link        log: Σ is the exponential of a matrix of sums of waves, in units of its mean",
    "square": "  link        square: Σ is the square of a matrix of sums of waves, in units of its mean",
}


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("link", LINKS)
def test_every_structure_and_link_is_said_in_words(structure, link):
    lines = itofit.fit(noisy(n=200), structure=structure, link=link, rng=0).summary().splitlines()
    place = lines.index(STRUCTURE_LINES[structure])
    assert lines[place + 1] == LINK_LINES[link]


def test_one_variable_has_no_structure():
    sde = itofit.fit(Transitions.from_trajectories(np.random.default_rng(0).normal(size=100).cumsum(), dt=1.0), rng=0)
    assert "structure" not in sde.summary()


def test_a_constant_covariance_has_no_link():
    sde = itofit.fit(Transitions.from_trajectories(np.random.default_rng(0).normal(size=100).cumsum(), dt=1.0), rng=0)
    assert not sde.covariance_function.training.n_features
    assert "Σ of x is constant" in sde.summary()
    assert "  link" not in sde.summary()


# Whole summaries


def test_a_full_covariance_with_the_log_link_in_words():
    sde = itofit.fit(noisy(["height", "width"]), structure="full", link="log", correct_step=False, rng=0)
    drift, covariance = sde.drift_function.training, sde.covariance_function.training
    assert lines_of(sde) == [
        "itofit N: diffusion, N inputs, N outputs",
        "  variables   height, width",
        "  data        N transitions, h = N; frequencies searched on all of them",
        "  drift       a polynomial, as no waves are clearly more evident: N iterations in N s, "
        "until the evidence no longer rose (best N); "
        "the data determine N amplitudes",
        "              f of height depends on height²; f of width depends on width alone, linearly",
        "  covariance  N frequencies, N iterations in N s, until the evidence no longer rose (best N); "
        "the data determine N amplitudes",
        "              log Σ of height depends on height alone; log Σ of height and width depends on height, width; "
        "log Σ of width depends on width alone",
        "  structure   full: the variables' noises may be correlated",
        "  link        log: Σ is the exponential of a matrix of sums of waves, in units of its mean",
        "  limits      Σ is kept between N and N times its mean, which changed it at N of the data",
        "  seed        N",
    ]
    text = sde.summary()
    assert f"waves are clearly more evident: {drift.n_iterations} iterations in " in text
    assert f"the data determine {covariance.determined:.1f} amplitudes" in text
    assert f"changed it at {sde.floored_share:.2%} of the data" in text
    assert "600 transitions, h = 0.05" in text


@pytest.mark.filterwarnings("ignore::itofit.DataWarning")
def test_algorithm_2_in_words():
    few = ARFF(n_features=8)
    sde = itofit.fit(noisy(["height", "width"]), refine=False, floor=0.1, drift=few, covariance=few, rng=0)
    assert lines_of(sde) == [
        "itofit N: diffusion, N inputs, N outputs",
        "  variables   height, width",
        "  data        N transitions, h = N",
        "  drift       N features, ridge N, N iterations in N s, until the error no longer fell (best N), direct sums",
        "  covariance  N features, ridge N, N iterations in N s, until the error no longer fell (best N), direct sums",
        "  structure   full: the variables' noises may be correlated",
        "  link        identity: the entries of Σ are sums of waves",
        "  limits      Σ is kept above N times its mean, which changed it at N of the data",
        "  seed        N",
    ]
    assert "8 features, ridge 0.002" in sde.summary()
    assert "above 0.1 times its mean" in sde.summary()


def test_a_corrected_step_and_a_generator_in_words():
    rng = np.random.default_rng(0)
    x = np.zeros(1001)
    for i in range(1000):
        x[i + 1] = np.exp(-0.3) * x[i] + np.sqrt(0.5 * (1 - np.exp(-0.6))) * rng.normal()
    data = Transitions.from_trajectories(x, dt=0.3)
    sde = itofit.fit(data, correct_step=True, rng=np.random.default_rng(0))
    *_, step, seed = sde.summary().splitlines()
    assert step == f"  step        {sde.step_correction}"
    assert "corrected for h = 0.3: f by " in step
    assert seed == "  seed        a generator was given"
    assert "variables   x\n" in sde.summary()
    assert "step" not in [line.split()[0] for line in sde.one_step.summary().splitlines()]
