"""The pipeline: which questions a method is asked, in which order, and what becomes of its answers."""

from importlib import import_module

import numpy as np
import pytest

import itofit
from itofit import ARFF, FourierSeries, Transitions
from itofit._progress import Progress
from itofit.data.survey import survey
from itofit.learning.automatic.method import Automatic
from itofit.learning.options import FitOptions
from itofit.learning.paper.algorithm_2 import Paper
from itofit.learning.pipeline import Correction, Learned, Task, learn
from itofit.model.training import LearnedFunction, StepCorrection, Training

fit_module = import_module("itofit.learning.fit")
QUESTIONS = ("drift", "residual_products", "covariance", "reweights", "on_all_rows", "learned", "without_step")
FEW = ARFF(n_features=8, ridge=1e-2, delta=0.5, min_iterations=3, max_iterations=6)
DATA = Transitions.from_pairs(
    np.linspace(-1, 1, 50), 0.9 * np.linspace(-1, 1, 50) + 0.1 * np.random.default_rng(0).normal(size=50), 0.1
)


def task(data=DATA, **options):
    bar = Progress(False)
    return Task(
        data=data,
        survey=survey(data, bar),
        options=FitOptions(**options),
        rng=np.random.default_rng(3),
        seed=3,
        bar=bar,
    )


def line(slope, value):
    """x ↦ value + slope · x, for |x| of order one."""
    return FourierSeries(
        omega=np.array([[1e-3]]),
        beta=np.array([[-1e3j * slope]]),
        shift=np.zeros(1),
        scale=np.ones(1),
        offset=np.array([value]),
    )


def function(slope, value=0.0):
    training = Training(
        judge="log-evidence",
        iteration=np.zeros(1),
        score=np.zeros(1),
        acceptance=np.zeros(0),
        seconds=np.zeros(0),
        best_iteration=0,
        stopped="evidence",
        n_features=1,
        parameters=ARFF(),
        determined=2.0,
        groups=np.array([0]),
        ridges=np.ones((1, 1)),
    )
    return LearnedFunction(series=line(slope, value), training=training)


LEARNED = Learned(
    drift=function(-1.0),
    covariance=function(0.5, 0.25),  # less than its limit for x < −0.3
    structure="full",
    link="identity",
    limits=np.array([[0.1], [np.inf]]),
    factor=np.eye(1),
    searched_on="a few of them",
)


class Fake:
    """A method whose answers are names, and which writes down what it was asked."""

    def __init__(self, again):
        self.again, self.asked, self.rounds = again, [], 0

    def drift(self, before=None, noise=None):
        self.asked.append(("drift", before, noise))
        self.rounds += 1
        return f"drift {self.rounds}"

    def residual_products(self, drift):
        self.asked.append(("residual_products", drift))
        return f"products of {drift}"

    def covariance(self, products, before=None):
        self.asked.append(("covariance", products, before))
        return f"covariance {self.rounds}"

    def reweights(self, covariance, before=None):
        self.asked.append(("reweights", covariance, before))
        return self.again and before is None

    def on_all_rows(self, drift, covariance):
        self.asked.append(("on_all_rows", drift, covariance))
        return f"all of {drift}", f"all of {covariance}"

    def learned(self, drift, covariance):
        self.asked.append(("learned", drift, covariance))
        return LEARNED

    def without_step(self, drift, covariance):
        self.asked.append(("without_step", drift, covariance))
        record = StepCorrection(
            h=0.1,
            signal=np.ones(1),
            drift_change=0.0,
            covariance_change=0.0,
            drift_trust=1.0,
            covariance_trust=1.0,
            distrusted=0.0,
            excess=0.0,
            rounds=1,
            lengths_chosen=False,
            outcome="corrected",
            spread=line(0.0, 0.1),
        )
        corrected = LEARNED._replace(drift=function(-2.0), covariance=function(0.5, 0.5))
        return Correction(corrected, record)


FIRST = [
    ("drift", None, None),
    ("residual_products", "drift 1"),
    ("covariance", "products of drift 1", None),
    ("reweights", "covariance 1", None),
]
AGAIN = [
    ("drift", "drift 1", "covariance 1"),
    ("residual_products", "drift 2"),
    ("covariance", "products of drift 2", "covariance 1"),
    ("reweights", "covariance 2", "covariance 1"),
]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("correct_step", [False, True])
def test_questions_come_in_the_order_of_the_pipeline(again, correct_step):
    fake = Fake(again)
    learn(task(correct_step=correct_step), fake)
    n = 2 if again else 1
    last = (f"all of drift {n}", f"all of covariance {n}")
    assert fake.asked == [
        *FIRST,
        *(AGAIN if again else []),
        ("on_all_rows", f"drift {n}", f"covariance {n}"),
        ("learned", *last),
        *([("without_step", *last)] if correct_step else []),
    ]


def test_answers_become_a_model():
    sde = learn(task(correct_step=False), Fake(False))
    x = np.linspace(-1, 1, 21)
    np.testing.assert_allclose(sde.drift(x)[:, 0], -x, atol=1e-6)
    np.testing.assert_allclose(sde.covariance(x)[:, 0, 0], np.maximum(0.25 + 0.5 * x, 0.1), atol=1e-6)
    assert (sde.structure, sde.link, sde.kind, sde.searched_on, sde.seed) == (
        "full",
        "identity",
        "diffusion",
        "a few of them",
        3,
    )
    assert (sde.input_names, sde.output_names) == (DATA.input_names, DATA.output_names)
    np.testing.assert_array_equal(sde.box, [[-1.0], [1.0]])
    assert (sde.data.n_transitions, sde.data.n_groups) == (50, None)
    assert (sde.data.h_min, sde.data.h_mean, sde.data.h_max) == pytest.approx((0.1, 0.1, 0.1))
    assert sde.version == itofit.__version__
    assert sde.one_step is sde.step_correction is None


def test_places_that_need_limits_are_counted_in_one_pass_for_the_model_and_for_one_step():
    class Counted:
        def __init__(self, data):
            self.data, self.n_passes = data, 0

        def __getattr__(self, name):
            return getattr(self.data, name)

        def __len__(self):
            return len(self.data)

        def blocks(self):
            self.n_passes += 1
            return self.data.blocks()

    counted = Counted(DATA)
    asked = task(counted, correct_step=True)
    assert counted.n_passes == 1  # the survey
    sde = learn(asked, Fake(False))
    assert counted.n_passes == 2
    for model, value in ((sde, 0.5), (sde.one_step, 0.25)):
        assert model.floored_share == np.mean(value + 0.5 * DATA.inputs < 0.1) == model.floored(DATA.inputs).mean()
    assert 0 < sde.floored_share < sde.one_step.floored_share


def test_a_corrected_model_keeps_that_of_one_step():
    before, sde = (learn(task(correct_step=correct), Fake(False)) for correct in (False, True))
    x = np.linspace(-1, 1, 21)
    np.testing.assert_allclose(sde.drift(x)[:, 0], -2 * x, atol=1e-6)
    np.testing.assert_array_equal(sde.one_step.drift(x), before.drift(x))
    np.testing.assert_array_equal(sde.one_step.covariance(x), before.covariance(x))
    assert sde.step_correction.rounds == 1
    assert sde.one_step.step_correction is None


# The two methods


class Recorder:
    """A method that writes down its questions and passes them on."""

    def __init__(self, method, log):
        self.method, self.log = method, log

    def __getattr__(self, name):
        answer = getattr(self.method, name)
        if name not in QUESTIONS:
            return answer

        def recorded(*given):
            self.log.append((name, len(given)))
            return answer(*given)

        return recorded


ONCE = [("drift", 0), ("residual_products", 1), ("covariance", 1), ("reweights", 2)]
TWICE = [*ONCE, ("drift", 2), ("residual_products", 1), ("covariance", 2), ("reweights", 2)]
END = [("on_all_rows", 2), ("learned", 2)]


def varying_noise(n=400):
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (n, 1))
    return Transitions.from_pairs(x, x - 0.1 * x + 0.2 * np.exp(x) * rng.normal(size=(n, 1)), 0.1)


@pytest.mark.filterwarnings("ignore::itofit.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::itofit.DataWarning")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [*TWICE, *END, ("without_step", 2)]),
        ({"weight_drift": False}, [*ONCE, *END, ("without_step", 2)]),
        ({"correct_step": True}, [*TWICE, *END, ("without_step", 2)]),
        ({"correct_step": False}, TWICE + END),
        ({"refine": False}, ONCE + END),
        ({"refine": False, "weight_drift": True}, TWICE + END),
    ],
    ids=["default", "one covariance", "corrected", "not corrected", "algorithm 2", "additional drift step"],
)
def test_both_methods_answer_the_same_questions(options, expected, monkeypatch):
    data, options = varying_noise(), {"drift": FEW, "covariance": FEW, "rng": 0, **options}
    alone, log = itofit.fit(data, **options), []
    monkeypatch.setattr(fit_module, "learn", lambda asked, method: learn(asked, Recorder(method, log)))
    recorded = itofit.fit(data, **options)
    assert log == expected
    np.testing.assert_array_equal(recorded.drift(data.inputs), alone.drift(data.inputs))
    np.testing.assert_array_equal(recorded.covariance(data.inputs), alone.covariance(data.inputs))


def test_the_default_learns_a_drift_again_only_if_its_weights_change():
    """With a constant full covariance they were right in the first round."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (1000, 2))
    noise = rng.normal(size=(1000, 2)) @ np.array([[0.3, 0.2], [0.0, 0.1]])
    asked = task(Transitions.from_pairs(x, x - 0.1 * x + noise, 0.1), structure="full", correct_step=False)
    method, log = Automatic(asked), []
    learn(asked, Recorder(method, log))
    covariance = method.covariance(method.residual_products(method.drift()))
    assert covariance.sigma.constant
    assert log == ONCE + END


@pytest.mark.filterwarnings("ignore::itofit.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::itofit.DataWarning")
def test_the_additional_drift_step_of_the_paper_leaves_the_covariance_as_it_is():
    data = varying_noise()
    one, other = (
        itofit.fit(data, drift=FEW, covariance=FEW, refine=False, weight_drift=weighted, rng=0)
        for weighted in (False, True)
    )
    np.testing.assert_array_equal(one.covariance(data.inputs), other.covariance(data.inputs))
    assert not np.array_equal(one.drift(data.inputs), other.drift(data.inputs))
    assert (one.drift_in_noise_units, other.drift_in_noise_units) == (False, True)


def test_algorithm_2_does_not_undo_steps():
    with pytest.raises(NotImplementedError, match="one step"):
        Paper(task()).without_step(None, None)
