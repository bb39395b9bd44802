"""Checks of learned models: right models pass at the stated rate, and every defect is found and named."""

import json
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

import itofit
from itofit import ARFF, FourierSeries, InputError, Transitions
from itofit._checks import Either, Option
from itofit.looking.check import Diagnosis, check, examined

FEW = ARFF(n_features=4, ridge=1e-2, delta=0.5, min_iterations=2, max_iterations=3)
TESTED = ("residuals", "place", "whiteness", "markov")
NAMES = (*TESTED, "discretisation", "extrapolation", "positive_definiteness", "gain")
H = 0.05
pytestmark = pytest.mark.filterwarnings("ignore::itofit.ConvergenceWarning")


def series(omega, beta, offset):
    """Offset + Re Σ β exp(i ω·x)."""
    omega = np.atleast_2d(np.asarray(omega, dtype=float))
    return FourierSeries(
        omega=omega,
        beta=np.asarray(beta, dtype=complex).reshape(len(omega), -1),
        shift=np.zeros(omega.shape[1]),
        scale=np.ones(omega.shape[1]),
        offset=np.atleast_1d(np.asarray(offset, dtype=float)),
    )


@cache
def template(m, d, kind):
    rng = np.random.default_rng(0)
    data = Transitions(rng.uniform(-1, 1, (100, m)), 0.1 * rng.normal(size=(100, d)), 0.1, kind=kind)
    return itofit.fit(data, structure="full", drift=FEW, covariance=FEW, refine=False, rng=0)


def model(drift, covariance, box, kind="diffusion", least=1e-9):
    """A model with given functions, as if it had been learned."""
    d = drift.n_outputs
    learned = template(drift.n_inputs, d, kind)
    return replace(
        learned,
        drift_function=replace(learned.drift_function, series=drift),
        covariance_function=replace(learned.covariance_function, series=covariance),
        box=np.array(box, dtype=float),
        limits=np.array([[least], [1e9]]) * np.ones((2, d)),
        floor_factor=np.eye(d),
    )


def one(drift=1.5, noise=1.0):
    """f = −drift sin(1.2 x), Σ = noise (0.8 + 0.3 cos 2x)."""
    covariance = series([[2.0]], [0.3 * noise], 0.8 * noise)
    return model(series([[1.2]], [drift * 1j], 0.0), covariance, ((-2.5,), (2.5,)))


def two():
    """Two coupled variables with a full Σ that depends on both."""
    drift = series([[1, 0], [0, 1], [1, 1]], [[1.5j, 0.5], [0.3, 1.2j], [0.2j, 0.1]], [0.0, 0.0])
    covariance = series([[1, 0], [0.5, 1]], [[0.2, 0.1, 0.1], [0.1, 0.1, -0.2]], [0.8, 0.1, 1.0])
    return model(drift, covariance, ((-4, -4), (4, 4)))


def limited_model():
    """A covariance that is negative at a few places, and long steps: two findings speak of arguments."""
    return model(series([[1.2]], [1.5j], 0.0), series([[4.0]], [1.0], 0.8), ((-2.5,), (2.5,)), least=0.1)


def paths(sde, n_paths, n_steps, rng, h=H, noise=None):
    """Euler-Maruyama paths of shape (n_paths, n_steps + 1, d): for these the model is exactly right."""
    x = np.empty((n_steps + 1, n_paths, sde.n_outputs))
    x[0] = 0.5 * rng.normal(size=x[0].shape)
    for i in range(n_steps):
        xi = rng.normal(size=x[0].shape) if noise is None else noise(rng, x[i])
        x[i + 1] = x[i] + h * sde.drift(x[i]) + np.sqrt(h) * np.einsum("nij,nj->ni", sde.diffusion(x[i]), xi)
    return x.swapaxes(0, 1)


def with_offset(sde, *offset):
    """The same model with another constant term of its drift."""
    series = replace(sde.drift_function.series, offset=np.array(offset))
    return replace(sde, drift_function=replace(sde.drift_function, series=series))


def accuses(finding):
    """Whether a finding says that something is wrong."""
    return finding.verdict in ("caution", "bad")


def tracks(sde, n_paths=50, n_steps=100, seed=0, h=H, noise=None):
    return Transitions.from_trajectories(paths(sde, n_paths, n_steps, np.random.default_rng(seed), h, noise), dt=h)


# Right models


@cache
def right_models(name):
    sde, n_paths, n_steps = {"one": (one(), 20, 50), "two": (two(), 10, 100), "short": (one(), 300, 3)}[name]
    return [check(sde, tracks(sde, n_paths, n_steps, seed), level=0.05) for seed in range(80)]


@pytest.mark.parametrize("name", ["one", "two", "short"])
def test_right_models_are_rarely_accused(name):
    """Each finding accuses a right model with probability of at most 0.05; so this fails once in 10,000."""
    most = stats.binom.isf(1e-4 / len(TESTED), 80, 0.05)
    for finding in TESTED:
        values = [diagnosis[finding] for diagnosis in right_models(name)]
        assert sum(accuses(value) for value in values) <= most
        assert sum(value.values["p"] < 0.05 for value in values) <= most


@pytest.mark.parametrize(
    ("finding", "p"),
    [
        ("residuals", "p_mean_0"),
        ("residuals", "p_variance_0"),
        ("residuals", "p_skewness_0"),
        ("residuals", "p_kurtosis_0"),
        ("place", "p_mean_input_0_output_0"),
        ("place", "p_variance_input_0_output_0"),
        ("place", "p_drift_short_output_0"),
        ("whiteness", "p_ljung_box_0"),
        ("whiteness", "p_lag_1_0"),
        ("markov", "p_mean_0"),
        ("markov", "p_noise_0"),
        ("markov", "p_two_steps_0"),
    ],
)
def test_p_values_of_right_models_are_uniform(finding, p):
    """A Kolmogorov-Smirnov test over 160 data sets; all twelve together fail once in 1000."""
    values = [d[finding].values[p] for name in ("one", "two") for d in right_models(name)]
    assert stats.kstest(values, "uniform").pvalue > 1e-3 / 12


def test_residuals_are_those_of_the_likelihood():
    sde = two()
    data = tracks(sde, 5, 20)
    diagnosis = check(sde, data)
    log_det = np.log(np.linalg.det(data.h[:, None, None] * sde.covariance(data.inputs)))
    nll = 0.5 * (np.sum(diagnosis.residuals**2, axis=1) + log_det) + np.log(2 * np.pi)
    np.testing.assert_allclose(nll, sde.nll(data, pointwise=True), rtol=1e-10)
    np.testing.assert_array_equal(diagnosis.inputs, data.inputs)


def test_a_learned_model_passes_on_held_out_data():
    rest, held_out = tracks(one(), 100, 100).split(0.3, by="groups", rng=0)
    diagnosis = check(itofit.fit(rest, rng=0), held_out)
    assert diagnosis["gain"].verdict == diagnosis["discretisation"].verdict == "good"
    assert diagnosis.worst == "cannot tell"  # 3000 transitions could hide a drift that is wrong by a fifth
    assert diagnosis.headline.endswith(" of 8 cannot tell")
    of_one_step = check(itofit.fit(rest, correct_step=False, rng=0), held_out)
    assert not any(accuses(of_one_step[name]) for name in (*TESTED, "gain"))
    assert of_one_step["discretisation"].verdict == "caution"  # h |f'| is 0.09 at most


# Defects


def accused(diagnosis, name, words, verdict=None):
    finding = diagnosis[name]
    assert finding.verdict in (["caution", "bad"] if verdict is None else [verdict]), str(diagnosis)
    assert words.lower() in finding.text.lower()
    assert finding.advice
    assert finding.text.split()[0] in str(diagnosis)


@pytest.mark.parametrize("seed", range(3))
def test_wrong_drift(seed):
    data = tracks(one(), 100, 100, seed)
    weak = check(one(drift=0.9), data)
    accused(weak, "place", "the drift of x is too small")
    assert weak["place"].values["drift_short_output_0"] == pytest.approx(1.5 / 0.9 - 1, abs=0.25)
    none = check(one(drift=0.0), data)
    accused(none, "place", "drift of x misses", "bad")
    for diagnosis in (weak, none):  # it is not taken for memory or measurement noise
        assert not accuses(diagnosis["whiteness"])
        assert not accuses(diagnosis["markov"])


def test_drift_with_an_offset():
    sde = one()
    accused(check(with_offset(sde, 1.0), tracks(sde)), "residuals", "x moves by -0.2", "bad")


@pytest.mark.parametrize(("noise", "words"), [(1 / 1.2, "larger than the model"), (1.2, "smaller than the model")])
def test_variance_wrong_by_a_fifth(noise, words):
    diagnosis = check(one(noise=noise), tracks(one()))
    accused(diagnosis, "residuals", words, "caution")
    assert not accuses(diagnosis["place"])
    assert diagnosis["residuals"].values["variance_0"] == pytest.approx(1 / noise, abs=0.08)


def test_heavy_tails():
    diagnosis = check(one(), tracks(one(), noise=lambda rng, x: rng.standard_t(5, size=x.shape) / np.sqrt(5 / 3)))
    accused(diagnosis, "residuals", "heavy tails", "bad")
    assert not accuses(diagnosis["place"])
    assert not accuses(diagnosis["whiteness"])


def test_skewed_noise():
    diagnosis = check(one(), tracks(one(), noise=lambda rng, x: rng.exponential(size=x.shape) - 1))
    accused(diagnosis, "residuals", "skewed", "bad")


def test_light_tails():
    diagnosis = check(one(), tracks(one(), noise=lambda rng, x: rng.uniform(-1, 1, size=x.shape) * np.sqrt(3)))
    accused(diagnosis, "residuals", "light tails")
    assert "outliers" not in diagnosis["residuals"].advice


def test_noise_wrong_in_one_region():
    louder = tracks(one(), noise=lambda rng, x: rng.normal(size=x.shape) * np.where(x > 0.7, np.sqrt(2), 1))
    accused(check(one(), louder), "place", "to 2.", "bad")
    assert "the noise of x has a variance" in check(one(), louder)["place"].text


def test_an_interaction_of_two_inputs():
    """The noise is wrong where the inputs have the same sign: no input shows that alone."""
    sde = two()
    data = tracks(sde, noise=lambda rng, x: rng.normal(size=x.shape) * np.where(x.prod(axis=1) > 0, 1.25, 0.8)[:, None])
    accused(check(sde, data), "place", "the inputs are around")


@pytest.mark.parametrize("seed", range(2))
def test_measurement_noise(seed):
    rng = np.random.default_rng(seed)
    x = paths(one(), 100, 100, rng)
    data = Transitions.from_trajectories(x + 0.08 * rng.normal(size=x.shape), dt=H)
    assert check(itofit.fit(data, rng=0), data).worst in ("good", "cannot tell")  # innovations of a filter
    diagnosis = check(itofit.fit(data, measurement_noise=False, rng=0), data)
    accused(diagnosis, "whiteness", "Negative correlation is the sign of measurement noise")
    assert "Learn from the tracks with measurement_noise='auto'" in diagnosis["whiteness"].advice
    accused(diagnosis, "markov", "two steps of x together have 0.")
    assert diagnosis["whiteness"].values["measurement_variance_0"] == pytest.approx(0.08**2, rel=0.3)


def coloured(memory, strength, n=50, steps=100, volatility=False):
    """Noise with memory, in the force or in the strength of white noise."""
    rng = np.random.default_rng(0)
    a, q, x = np.exp(-1 / memory), rng.normal(size=n), [0.5 * rng.normal(size=n)]
    for _ in range(steps):
        xi = np.sqrt(H) * rng.normal(size=n)
        x.append(x[-1] - H * x[-1] + (np.exp(0.5 * q - 0.25) * xi if volatility else 0.9 * xi + strength * H * q))
        q = a * q + np.sqrt(1 - a**2) * rng.normal(size=n)
    return Transitions.from_trajectories(np.array(x).T[:, :, None], dt=H)


@pytest.mark.parametrize(("memory", "strength", "verdict"), [(3, 8.0, "bad"), (10, 2.0, None), (40, 2.0, None)])
def test_coloured_noise_and_hidden_forces(memory, strength, verdict):
    data = coloured(memory, strength)
    diagnosis = check(itofit.fit(data, rng=0), data)
    accused(diagnosis, "whiteness", "Positive correlation is the sign of memory", verdict)
    accused(diagnosis, "markov", "earlier steps predict", verdict)
    sentences = diagnosis["markov"].advice.split(". ")
    assert len(set(sentences)) == len(sentences)


def test_noise_whose_strength_has_memory():
    data = coloured(20, 0.0, volatility=True)
    diagnosis = check(itofit.fit(data, rng=0), data)
    accused(diagnosis, "markov", "the size of a step of x goes with that of the one before", "bad")
    assert not accuses(diagnosis["whiteness"])


def test_too_long_a_step():
    x = paths(one(), 100, 1000, np.random.default_rng(0))[:, ::20]
    data = Transitions.from_trajectories(x, dt=20 * H)
    diagnosis = check(itofit.fit(data, correct_step=False, rng=0), data)
    accused(diagnosis, "discretisation", "the learned drift is wrong by about", "bad")
    exact = one()
    assert check(exact, tracks(exact, h=0.01))["discretisation"].values["h_gradient_max"] == pytest.approx(0.018, 0.05)


def test_length_of_the_step_does_not_depend_on_units():
    rotation = np.array([[-0.5, -2.0], [2.0, -0.5]])
    epsilon = 1e-3

    def scaled(unit):
        drift = series(epsilon * np.diag(1 / unit), -1j / epsilon * (rotation.T * unit), [0.0, 0.0])
        covariance = series([[0, 0]], [[0, 0, 0]], np.array([1, 0, 1]) * unit[[0, 0, 1]] * unit[[0, 1, 1]])
        sde = model(drift, covariance, np.array([[-4, -4], [4, 4]]) * unit)
        sde = replace(sde, floor_factor=np.diag(unit))
        rng = np.random.default_rng(0)
        x = rng.normal(size=(500, 2))
        moved = x + 0.01 * x @ rotation.T + 0.1 * rng.normal(size=(500, 2))
        return check(sde, Transitions.from_pairs(x * unit, moved * unit, 0.01))

    plain, other = scaled(np.ones(2)), scaled(np.array([1.0, 1e4]))
    assert plain["discretisation"].values["h_gradient_95"] == pytest.approx(0.01 * np.hypot(0.5, 2), rel=0.1)
    for name in NAMES:
        assert plain[name].verdict == other[name].verdict
    values = [diagnosis["discretisation"].values["h_gradient_95"] for diagnosis in (plain, other)]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


def test_data_outside_the_range_of_the_model():
    sde = replace(one(), box=np.array([[-0.3], [0.3]]))
    accused(check(sde, tracks(one(), 20, 50)), "extrapolation", "outside the range", "bad")
    wide = replace(one(), box=np.array([[-20.0], [20.0]]))
    accused(check(wide, tracks(one(), 20, 50)), "extrapolation", "of that range has data near", "caution")


def test_covariance_that_needs_its_limits():
    sde = limited_model()
    data = tracks(sde, 20, 50)
    diagnosis = check(sde, data)
    accused(diagnosis, "positive_definiteness", "kept within its limits", "bad")
    values = diagnosis["positive_definiteness"].values
    assert values["limited"] == sde.floored(data.inputs).mean()
    assert values["negative"] == pytest.approx((0.8 + np.cos(4 * data.inputs) <= 0).mean())


def test_gain():
    sde, data = one(), tracks(one(), 50, 50)
    values = check(sde, data)["gain"].values
    assert values["gain"] > 5 * values["gain_error"] > 0
    assert values["nll"] == pytest.approx(sde.nll(data))
    accused(check(one(noise=9.0), data), "gain", "worse than constant", "bad")
    constant = model(series([[0.0]], [0.0], 0.0), series([[0.0]], [0.0], 1.0), ((-3,), (3,)))
    accused(check(constant, tracks(constant, 50, 50)), "gain", "no better than constant", "caution")


def test_data_that_were_learned_from_flatter_a_model():
    """The gain of a model of two constants and a linear term is what these are worth, and not a merit of the model."""
    data = Transitions.from_trajectories(np.cumsum(np.random.default_rng(0).normal(size=500)), dt=1.0)
    sde = itofit.fit(data, rng=0)
    found = check(sde, data)["gain"]
    assert found.values["gain"] > 2 * found.values["gain_error"]
    assert 2 / 499 < found.values["flattery"] < 3 / 499
    assert found.verdict == "cannot tell"
    assert "These are the data it was learned from, which flatter it" in found.text
    assert "held out" in found.advice
    for others in (data[:-1], Transitions(data.inputs[::-1] + 1, data.increments, data.h)):
        assert "learned from" not in check(sde, others)["gain"].text
        assert check(sde, others)["gain"].values["flattery"] == 0


def test_a_learned_dependence_stays_better_on_its_own_data():
    data = tracks(one(), 50, 100)
    found = check(itofit.fit(data, rng=0), data)["gain"]
    assert found.verdict == "good"
    assert 0 < found.values["flattery"] < found.values["gain"]
    assert "flatter it" in found.text


def test_the_paper_s_algorithm_counts_all_its_amplitudes():
    data = tracks(one(), 10, 50)
    found = check(itofit.fit(data, drift=FEW, covariance=FEW, refine=False, rng=0), data)["gain"]
    assert found.values["flattery"] == pytest.approx(2 * (1 + 2 * 4) / 500)


# Words and numbers


def named(data, *names):
    return Transitions(data.inputs, data.increments, data.h, data.groups, data.kind, list(names))


def test_variables_have_their_names():
    sde, data = two(), tracks(two(), 20, 50)
    wrong = with_offset(sde, 1.0, -2.0)
    called = replace(wrong, input_names=("speed", "angle"), output_names=("speed", "angle"))
    for model_, rows in (
        (called, data),
        (called, named(data, "speed", "angle")),
        (wrong, named(data, "speed", "angle")),
    ):
        diagnosis = check(model_, rows)
        accused(diagnosis, "residuals", "angle moves by +0.", "bad")
        assert (diagnosis.input_names, diagnosis.output_names) == (("speed", "angle"), ("speed", "angle"))
        assert "mean_1" in diagnosis["residuals"].values  # numbers are found by number
    accused(check(wrong, data), "residuals", "x2 moves by +0.", "bad")
    for text in (str(check(called, data)), str(check(wrong, data))):
        assert "output 0" not in text
        assert "input 0" not in text
    loud = tracks(sde, noise=lambda rng, x: rng.normal(size=x.shape) * np.where(x[:, :1] > 0.7, 1.5, 1))
    found = check(replace(sde, input_names=("speed", "angle"), output_names=("speed", "angle")), loud)["place"]
    assert "the inputs are around (speed = 1" in found.text


def test_names_in_another_order_are_an_error():
    sde, data = two(), tracks(two(), 5, 20)
    called = replace(sde, input_names=("speed", "angle"), output_names=("speed", "angle"))
    with pytest.raises(InputError, match="the model has speed, angle, the data angle, speed"):
        check(called, named(data, "angle", "speed"))
    check(called, named(data, "speed", "direction"))  # renamed


def p_of(text):
    return 0.0 if "p < 1e-16" in text else float(text.split("p = ")[1].split(",")[0])


def number_in(text):
    return float(text.split(", p")[0].split()[-1])


@pytest.mark.parametrize("strength", [0.0, 2.0])
def test_numbers_in_a_row_belong_together(strength):
    """Of 2 tests in whiteness and 3 in markov, the row shows one quantity and the p-value of its own test."""
    data = coloured(10, strength, n=20)
    diagnosis = check(itofit.fit(data, rng=0), data)
    white, markov = diagnosis["whiteness"], diagnosis["markov"]
    assert number_in(white.numbers) == pytest.approx(white.values["correlation_0_lag_1"], abs=6e-4)
    assert p_of(white.numbers) == pytest.approx(min(1, 2 * white.values["p_lag_1_0"]), rel=0.06, abs=1e-16)
    kinds = {"past predicts": ("predicted_0", "p_mean_0"), "correlation of sizes": ("clustering_0", "p_noise_0"),
             "two steps/one": ("variance_ratio_0", "p_two_steps_0")}  # fmt: skip
    quantity, p = next(found for words, found in kinds.items() if markov.numbers.startswith(words))
    shown = markov.numbers.replace(" of a step,", ",")
    assert number_in(shown) == pytest.approx(markov.values[quantity], abs=6e-4)
    assert p_of(markov.numbers) == pytest.approx(min(1, 3 * markov.values[p]), rel=0.06, abs=1e-16)
    if strength:
        assert f"{white.values['correlation_0_lag_1']:+.3f} from one step" in white.text
        assert "good" not in (white.verdict, markov.verdict)


def test_what_is_large_but_may_be_chance_says_so():
    sde = one()
    for seed in range(10):
        found = check(sde, tracks(sde, 2, 50, seed))["place"]
        if not accuses(found):
            assert found.verdict == "cannot tell"  # from 100 rows nobody could
            assert p_of(found.numbers) == pytest.approx(found.values["p"], rel=0.06)
            assert "may well be chance" in found.text


def test_what_is_clear_but_small_says_so():
    data = tracks(one(), 400, 100)
    diagnosis = check(one(drift=1.32), data)
    assert diagnosis["place"].verdict == "good"
    assert diagnosis["place"].numbers.endswith(", small")
    assert "too small to matter" in diagnosis["place"].text


def test_jumps_are_looked_at_before_they_are_removed():
    data = tracks(one(), noise=lambda rng, x: rng.standard_t(3, size=x.shape) / np.sqrt(3))
    advice = check(one(), data)["residuals"].advice
    assert advice.startswith("Look at the largest steps first.")
    assert advice.index("a diffusion is not the right model") < advice.index("remove them")


@pytest.mark.parametrize(("factor", "words"), [(1000, "1,000 times those"), (1e-3, "1/1,000 of those")])
def test_steps_of_another_unit(factor, words):
    data = tracks(one(), 50, 50)
    sde = itofit.fit(data, rng=0)
    diagnosis = check(sde, Transitions(data.inputs, data.increments, factor * data.h, data.groups))
    assert diagnosis.findings[0].name == "units"
    accused(diagnosis, "units", words, "bad")
    assert "are the units of time the same?" in diagnosis.findings[0].text
    shares = re.findall(r"([\d.,e+]+) ?%", str(diagnosis))
    assert max(float(share.replace(",", "")) for share in shares) <= 1000
    near = check(sde, Transitions(data.inputs, data.increments, 5 * data.h, data.groups))
    assert "units" not in [finding.name for finding in near.findings]


# Forms of data


def underdamped(n=40, steps=100, groups=True):
    rng = np.random.default_rng(0)
    x, v, rows = rng.normal(size=(n, 1)), rng.normal(size=(n, 1)), []
    for _ in range(steps):
        x1 = x + H * v
        v1 = v - H * (4 * x1 + 0.5 * v) + 0.7 * np.sqrt(H) * rng.normal(size=(n, 1))
        rows.append((x, v, x1, v1))
        x, v = x1, v1
    columns = (np.stack([row[k] for row in rows], axis=1).reshape(-1, 1) for k in range(4))
    return Transitions.from_underdamped(*columns, H, groups=np.repeat(np.arange(n), steps) if groups else None)


@pytest.mark.parametrize("groups", [True, False])
def test_underdamped(groups):
    data = underdamped(groups=groups)
    diagnosis = check(itofit.fit(data, rng=0), data)
    assert not any(accuses(diagnosis[name]) for name in TESTED)
    assert diagnosis["discretisation"].values["h_gradient_95"] == pytest.approx(H * 2.0, rel=0.2)  # frequency √4


def test_general_inputs_say_what_is_not_known():
    data = underdamped()
    general = Transitions(data.inputs, data.increments, data.h, kind="general")
    sde = itofit.fit(general, rng=0)
    diagnosis = check(sde, general)
    for name in ("whiteness", "markov", "discretisation"):
        assert diagnosis[name].verdict == "not available"
        assert "general" in diagnosis[name].text
    grouped = Transitions(data.inputs, data.increments, data.h, data.groups, kind="general")
    assert check(sde, grouped)["markov"].verdict == check(sde, grouped)["whiteness"].verdict == "cannot tell"


def test_scattered_pairs_have_no_time():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 300)
    diagnosis = check(one(), Transitions.from_pairs(x, x + 0.2 * rng.normal(size=300), H))
    for name in ("whiteness", "markov"):
        assert diagnosis[name].verdict == "not available"
        assert "No transition starts where" in diagnosis[name].text
    assert "not available" in str(diagnosis)
    assert diagnosis.worst in ("good", "caution", "bad")


def test_drift_in_noise_units_has_no_derivatives():
    data = tracks(one(), 10, 50)
    sde = itofit.fit(data, drift=FEW, covariance=FEW, refine=False, weight_drift=True, rng=0)
    assert check(sde, data)["discretisation"].verdict == "not available"


def test_time_is_found_whatever_the_order_of_tracks():
    sde = two()
    data = tracks(sde, 20, 50)
    interleaved = np.arange(1000).reshape(20, 50).T.ravel()
    expected, found = check(sde, data), check(sde, data[interleaved])
    np.testing.assert_allclose(found.residuals, expected.residuals[interleaved], atol=1e-12)
    for name in ("whiteness", "markov"):
        for key, value in expected[name].values.items():
            assert found[name].values[key] == pytest.approx(value, rel=1e-8), key
    chain = Transitions(data.inputs, data.increments, data.h)  # without groups, ends and starts say enough
    assert check(sde, chain)["whiteness"].values == pytest.approx(expected["whiteness"].values)


def test_nothing_follows_over_a_gap():
    x = paths(one(), 1, 400, np.random.default_rng(0))[0]
    x[100:103] = np.nan
    x[200] = np.nan
    data = Transitions.from_trajectories(x, dt=H)
    sample = examined.examine(one(), data, np.random.default_rng(0))
    assert np.bincount(sample.run).tolist() == [99, 96, 199]


def test_data_in_blocks():
    sde = two()
    data = tracks(sde, 20, 50)
    blocks = Transitions.from_blocks([data[:300], data[300:]])
    assert check(sde, blocks).as_dict() == check(sde, data).as_dict()


def test_many_rows_are_judged_by_stretches(monkeypatch):
    monkeypatch.setattr(examined, "MOST_ROWS", 2000)
    sde = one()
    data = tracks(sde, 100, 100)
    blocked = Transitions.from_blocks([data[:7000], data[7000:]])
    for many in (data, blocked):
        diagnosis = check(sde, many, rng=1)
        assert diagnosis.residuals.shape == (2000, 1)
        assert diagnosis.n_transitions == 10_000
        assert str(diagnosis).startswith("2000 of 10000 transitions")
        assert diagnosis.worst != "bad"
    sample = examined.examine(sde, data, np.random.default_rng(0))
    rows = np.searchsorted(
        np.arange(10_000), [np.flatnonzero((data.inputs == x).all(axis=1))[0] for x in sample.data.inputs]
    )
    assert (np.bincount(rows // 500) == 100).all()  # spread evenly
    assert np.sum(np.diff(sample.run) == 0) >= 1900  # and consecutive
    assert check(sde, data, rng=1).as_dict() == check(sde, data, rng=1).as_dict()


def test_fewest_rows():
    sde = one()
    diagnosis = check(sde, tracks(sde, 1, 20))
    assert diagnosis["whiteness"].verdict == "not available"  # 19 pairs
    assert check(sde, tracks(sde, 1, 21))["whiteness"].verdict in ("cannot tell", "caution", "bad")


def test_nothing_moves():
    x = np.linspace(-1, 1, 50)
    diagnosis = check(one(), Transitions.from_pairs(x, x, H))
    assert diagnosis["gain"].verdict == "not available"
    accused(diagnosis, "residuals", "smaller than the model says", "bad")
    constant = model(series([[0.0]], [0.0], 1.0), series([[0.0]], [0.0], 1.0), ((-3,), (3,)))
    assert check(constant, Transitions.from_pairs(x, x, H)).worst == "bad"
    frozen = check(one(), Transitions.from_trajectories(np.ones(50), dt=H))
    assert frozen["whiteness"].verdict == frozen["markov"].verdict == "not available"
    assert json.dumps(frozen.as_dict(), allow_nan=False)


# What comes back


@pytest.fixture(scope="module")
def diagnosis():
    return check(one(drift=0.0, noise=0.5), tracks(one(), 20, 50))


def test_table_fits_a_terminal(diagnosis):
    lines = str(diagnosis).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == f"1000 transitions, tests at level 0.01: {diagnosis.headline}"
    assert diagnosis.headline == "bad; 2 of 8 cannot tell"
    for line, finding in zip(lines[2:], diagnosis.findings, strict=False):
        assert line.startswith(finding.title)
        assert line.endswith(finding.verdict)
    assert "  -> " in str(diagnosis)


def test_nothing_in_the_table_is_cut():
    data = tracks(one(), 50, 50)
    long_steps = Transitions(data.inputs, data.increments, 1000 * data.h, data.groups)
    for found in (check(one(), data[::2]), check(itofit.fit(data, rng=0), long_steps)):
        lines = str(found).splitlines()
        table = lines[2 : lines.index("", 2) if "" in lines[2:] else None]
        assert max(map(len, table)) <= 80
        shown = " ".join(line[22:66].strip() for line in table)
        for finding in found.findings:
            assert finding.numbers in shown


def as_option(part):
    """How a command line says the parts of a message."""
    if isinstance(part, Either):
        return part.command
    return f"--{part.name}" if isinstance(part, Option) else None


def test_every_surface_words_findings_in_its_own_way():
    sde = limited_model()
    diagnosis = check(sde, tracks(sde, 20, 50))
    assert diagnosis.text() == str(diagnosis)
    python, command = (" ".join(text.split()) for text in (str(diagnosis), diagnosis.text(as_option)))
    assert "Learn it with correct_step=True, or take drift and noise as those of steps" in python
    assert "simulate with dt = h." in python
    assert "is a guess (sde.floored says where): learn with fit(..., link='square') or" in python
    assert "Learn it with --correct_step, or take drift and noise as those of steps" in command
    assert "simulate with --dt of that length." in command
    assert "is a guess: learn with --link or" in command
    assert diagnosis.text(lambda part: None) == str(diagnosis)


def test_lines_are_wrapped_after_they_are_worded():
    sde = limited_model()
    wide = check(sde, tracks(sde, 20, 50)).text(lambda part: "such a long phrase that it needs a line of its own")
    assert max(map(len, wide.splitlines())) <= 80
    x = np.linspace(-1, 1, 50)
    alone = check(one(), Transitions.from_pairs(x, x + 0.1, H))
    assert "Transitions.from_trajectories" in str(alone)
    assert "trajectories" not in alone.text(as_option)
    assert "known to follow each" in alone.text(as_option)


def test_no_finding_speaks_of_numbers_of_variables():
    """Variables without names of their own are called x1, x2; neither 'input 0' nor 'output 0' nor f0 nor H00."""
    sde = with_offset(two(), 1.0, -2.0)
    for diagnosis in (check(sde, tracks(two(), 20, 50)), check(one(drift=0.0), tracks(one(), 20, 50))):
        text = "\n".join(f"{finding.text} {finding.advice}" for finding in diagnosis.findings)
        assert not re.search(r"\b(?:in|out)puts? (?:column )?\d|\b[fHΣ]\d", text)
        assert re.search(r"\bof x\d?\b", text)


def test_dictionary_is_json(diagnosis):
    found = json.loads(json.dumps(diagnosis.as_dict(), allow_nan=False))
    assert [finding["name"] for finding in found["findings"]] == list(NAMES)
    assert found["worst"] == diagnosis.worst == "bad"
    assert found["findings"][0]["values"]["mean_per_drift_0"] is None  # there is no drift
    assert repr(diagnosis) == "Diagnosis(1000 transitions, bad)"


def test_findings_by_name(diagnosis):
    assert isinstance(diagnosis, Diagnosis)
    for name in NAMES:
        assert diagnosis[name].name == name
        assert diagnosis[name].text.endswith(".")
        assert bool(diagnosis[name].advice) == (diagnosis[name].verdict != "good")
        assert (diagnosis[name].enough is not None) == (diagnosis[name].verdict == "cannot tell")
        assert all(type(value) is float for value in diagnosis[name].values.values()), name
    with pytest.raises(InputError, match="name must be one of 'residuals'"):
        diagnosis["colour"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: (one(), np.zeros((100, 2))), "data must be Transitions, got ndarray"),
        (lambda: ("sde.npz", tracks(one(), 2, 20)), "sde must be a LearnedSDE"),
        (lambda: (one(), tracks(two(), 2, 20)), "1 input and 1 output.*the data 2 and 2"),
        (lambda: (two(), Transitions(np.zeros((50, 2)), np.ones((50, 2)), 1.0, kind="general")), "kind 'general'"),
        (lambda: (one(), tracks(one(), 1, 19)), "at least 20 transitions, got 19"),
    ],
)
def test_bad_input(given, message):
    with pytest.raises(InputError, match=message):
        check(*given())


@pytest.mark.parametrize("options", [{"level": 0.0}, {"level": 1.0}, {"level": "high"}, {"rng": -1}])
def test_bad_options(options):
    with pytest.raises(InputError, match=f"{next(iter(options))} must"):
        check(one(), tracks(one(), 2, 20), **options)
