"""What a verdict promises: good rules out what matters, cannot tell says how many data would, and nothing is silent."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from test_diagnostics import TESTED, H, accuses, coloured, model, one, paths, series, tracks, two

import itofit
from itofit import Transitions
from itofit.looking.check import Finding, check, margins
from itofit.looking.check.examined import examine
from itofit.looking.check.findings import RANKED, about, worst_of
from itofit.looking.check.residuals import distribution
from itofit.looking.check.suspect_columns import turn_of

pytestmark = pytest.mark.filterwarnings("ignore::itofit.ConvergenceWarning")


# What good rules out


def with_residuals(n):
    """What is examined if a model leaves n residuals of one output, which are still to be given."""
    return examine(one(), tracks(one(), n, 1), np.random.default_rng(0))


def test_noise_of_another_variance_is_never_good_with_few_steps():
    """211 steps with 1.4 times the variance: found in more than half of 40 data sets (of two thirds on average)."""
    louder = tracks(one(), 1, 211, noise=lambda rng, x: np.sqrt(1.4) * rng.normal(size=x.shape))
    assert check(one(), louder).worst != "good"
    rows, rng = with_residuals(211), np.random.default_rng(0)
    verdicts = [
        distribution(rows._replace(z=np.sqrt(1.4) * rng.normal(size=(211, 1))), 0.01).verdict for _ in range(40)
    ]
    assert "good" not in verdicts
    assert sum(verdict == "bad" for verdict in verdicts) > 13  # a probability of 10⁻⁵ for fewer


@pytest.mark.parametrize("n_steps", [20, 100, 400])
def test_few_steps_are_never_good(n_steps):
    """A fault that matters is no farther from none than two standard errors: nobody could see it."""
    for sde in (one(), two()):
        diagnosis = check(sde, tracks(sde, 1, n_steps))
        assert all(diagnosis[name].verdict != "good" for name in TESTED)
        assert diagnosis.worst != "good"


@pytest.mark.parametrize("variance", [1.1, 0.9])
def test_a_deviation_that_matters_is_rarely_called_good(variance):
    """With a probability of 0.025 at most; so this fails once in 10,000. It is found or left open."""
    rows, rng = with_residuals(12_000), np.random.default_rng(0)
    rows = rows._replace(g=np.full((12_000, 1), 0.3))

    def verdicts(factor, n):
        return [distribution(rows._replace(z=factor * rng.normal(size=(12_000, 1))), 0.01).verdict for _ in range(n)]

    assert verdicts(np.sqrt(variance), 200).count("good") <= stats.binom.isf(1e-4, 200, 0.025)
    assert verdicts(1.0, 50).count("good") > 25


def test_a_right_model_is_good_with_as_many_data_as_would_tell():
    few = check(one(), tracks(one(), 20, 100))
    assert {few[name].verdict for name in TESTED} == {"cannot tell"}
    assert all(few[name].enough > 2000 for name in TESTED)
    enough = max(few[name].enough for name in TESTED)
    many = check(one(), tracks(one(), int(enough / 100) + 1, 100))
    assert {many[name].verdict for name in TESTED} == {"good"}
    assert not any(many[name].advice for name in TESTED)
    assert f"{about(few['place'].enough)} for residuals over inputs" in " ".join(str(few).split())


def test_heavy_tails_are_not_taken_for_a_wrong_variance():
    """Student's distribution with 5 degrees of freedom, scaled to variance one, over 30 data sets of 300 steps."""
    rows, rng = with_residuals(300), np.random.default_rng(0)
    heavy = (rng.standard_t(5, size=(300, 1)) / np.sqrt(5 / 3) for _ in range(30))
    assert sum("has a variance" in distribution(rows._replace(z=z), 0.01).text for z in heavy) <= 3


def test_constant_gain_and_unknown_gain():
    constant = model(series([[0.0]], [0.0], 0.0), series([[0.0]], [0.0], 1.0), ((-3,), (3,)))
    barely = model(series([[1.2]], [0.3j], 0.0), series([[0.0]], [0.0], 1.0), ((-3,), (3,)))
    weak = check(barely, tracks(barely, 2, 100))["gain"]
    assert weak.verdict == "cannot tell"
    assert weak.enough > 400
    assert "not clearly better or worse" in weak.text
    assert check(constant, tracks(constant, 50, 100))["gain"].verdict == "caution"


def test_a_drift_learned_from_few_data_may_change_faster_than_it_seems():
    """A constant drift has no slope, but 50 transitions would hardly have shown one."""
    flat = model(series([[0.0]], [0.0], 0.0), series([[0.0]], [0.0], 1.0), ((-3,), (3,)))
    data = tracks(one(), 20, 100)
    for n, verdict in ((50, "cannot tell"), (10**6, "good")):
        learned = replace(flat, data=replace(flat.data, n_transitions=n, h_mean=H))
        found = check(learned, data)["discretisation"]
        assert found.verdict == verdict
        assert found.values["drift_bias"] == 0
    assert (
        "could have been missed"
        in check(replace(flat, data=replace(flat.data, n_transitions=50)), data)["discretisation"].text
    )


# Intervals


@pytest.mark.parametrize(("statistic", "dof"), [(9.0, 9), (30.0, 9), (4.0, 1), (900.0, 31), (2e4, 10)])
def test_largest_noncentrality_is_that_of_the_distribution(statistic, dof):
    found = margins.largest_noncentrality(statistic, dof)
    assert stats.ncx2.cdf(statistic, dof, found) == pytest.approx(margins.MISSED, rel=0.02)


def test_what_was_fitted_rules_out_no_more():
    assert margins.largest_noncentrality(0.0, 9) == margins.largest_noncentrality(9.0, 9)


def test_bounds_of_shares_are_those_of_clopper_and_pearson():
    margin = margins.of_share("share", 3, 1000, 0.01, form=str)
    assert margin.bound == pytest.approx(stats.binomtest(3, 1000).proportion_ci(0.95).high)
    assert margins.of_share("share", 5, 5, 0.01, form=str).bound == 1


def test_rows_are_enough_if_nothing_is_wrong():
    """Of means of as many rows as are enough, 95 % have their interval within the limit: 380 of 400, or nearly."""
    rng, limit = np.random.default_rng(0), 0.1
    n = round(margins.rows_enough(100, 1 / np.sqrt(100), limit))
    values = rng.normal(size=400) / np.sqrt(n)
    good = [margins.of_estimate("mean", value, 1 / np.sqrt(n), limit, n, form=str).excluded for value in values]
    assert 360 < sum(good) < 400
    assert np.isinf(margins.rows_enough(100, 1e200, limit))


def test_where_enough_was_not_enough_twice_as_many_are():
    margin = margins.of_estimate("mean", 0.09, 0.01, 0.1, 10_000, form=str)
    assert not margin.excluded
    assert margin.enough == 20_000


# The headline, and all findings


def test_the_headline_counts_what_did_not_run():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 300)
    diagnosis = check(one(), Transitions.from_pairs(x, x + 0.2 * rng.normal(size=300), H))
    assert diagnosis.headline.endswith("; 2 of 8 not available")
    assert str(diagnosis).splitlines()[0].endswith(diagnosis.headline)
    assert diagnosis.as_dict()["headline"] == diagnosis.headline


def finding(verdict):
    return Finding(name="a", title="a", values={}, numbers="", verdict=verdict, text="")


@pytest.mark.parametrize(
    ("verdicts", "headline"),
    [
        (["good"] * 5 + ["not available"] * 3, "good; 3 of 8 not available"),
        (["good"] * 8, "good"),
        (["good", "cannot tell"], "1 of 2 cannot tell"),
        (["good", "cannot tell", "not available"], "1 of 3 cannot tell; 1 of 3 not available"),
        (["caution", "cannot tell", "bad"], "bad; 1 of 3 cannot tell"),
    ],
)
def test_headlines(verdicts, headline):
    diagnosis = replace(check(one(), tracks(one(), 1, 21)), findings=tuple(map(finding, verdicts)))
    assert diagnosis.headline == headline
    assert diagnosis.worst == worst_of(verdicts)


def test_the_worst_comes_first():
    assert worst_of(["good", *reversed(RANKED)]) == "bad"
    assert worst_of(["good", "not available", "cannot tell"]) == "cannot tell"


def test_findings_are_iterated_and_counted():
    diagnosis = check(one(), tracks(one(), 2, 50))
    assert [each.name for each in diagnosis] == [each.name for each in diagnosis.findings]
    assert len(diagnosis) == len(diagnosis.findings)
    assert "whiteness" in diagnosis
    assert diagnosis["whiteness"] in diagnosis
    assert "units" not in diagnosis
    assert json.dumps(diagnosis.as_dict(), allow_nan=False)


# Columns that are not what they seem


def angles(low, period, rng):
    """Angles of 5 tracks that turn round slowly, cut at the end of a period."""
    steps = period * (0.02 * rng.normal(size=(5, 400)) + 0.003)
    return np.mod(np.cumsum(steps, axis=1) + rng.uniform(0, period, (5, 1)), period) + low


@pytest.mark.parametrize(
    ("low", "period", "advice"),
    [
        (0, 2 * np.pi, "periodic={'theta': 2 * np.pi}"),
        (-np.pi, 2 * np.pi, "periodic={'theta': (-np.pi, np.pi)}"),
        (0, 360.0, "periodic={'theta': 360}"),
        (-180, 360.0, "periodic={'theta': (-180, 180)}"),
        (0, 1.0, "periodic={'theta': 1}"),
    ],
)
def test_an_angle_that_was_cut_is_recognised(low, period, advice):
    x = angles(low, period, np.random.default_rng(0))
    data = Transitions.from_trajectories(list(x), dt=H, names="theta")
    sde = model(series([[0.0]], [0.0], 0.0), series([[0.0]], [0.0], 0.01 * period**2), ((low,), (low + period,)))
    found = check(sde, data)["angle"]
    assert found.verdict == "bad"
    assert advice in found.advice
    assert found.values["period"] == pytest.approx(period, rel=0.01)
    given = {"theta": period if low == 0 else (low, low + period)}
    told = Transitions.from_trajectories(list(x), dt=H, names="theta", periodic=given)
    assert "angle" not in check(itofit.fit(told, rng=0), told)


def test_positions_of_a_pendulum_that_were_cut_are_recognised():
    x = angles(0, 2 * np.pi, np.random.default_rng(0))
    v = np.random.default_rng(1).normal(size=x.shape)
    groups = np.repeat(np.arange(5), 399)
    start, end = (np.stack([a[:, part].ravel() for a in (x, v)]) for part in (slice(-1), slice(1, None)))
    rows = Transitions.from_underdamped(start[0], start[1], end[0], end[1], H, groups=groups, names="angle")
    assert "periodic={'angle': 2 * np.pi}" in check(itofit.fit(rows, rng=0), rows)["angle"].advice


def test_what_jumps_is_not_always_an_angle():
    rng = np.random.default_rng(0)
    switching = np.repeat(rng.integers(0, 2, 200), 10) + 0.03 * rng.normal(size=2000)
    spikes = np.where(rng.random(2000) < 0.02, 1.0, 0.05 * rng.normal(size=2000))
    walk = np.cumsum(rng.normal(size=2000))
    for x in (switching, spikes, walk):
        assert turn_of(x[:-1], np.diff(x), "x") is None
    for seed in range(10):
        assert "angle" not in check(one(), tracks(one(), 10, 100, seed))


def test_copies_and_combinations_are_recognised():
    sde, rng = two(), np.random.default_rng(0)
    x = paths(sde, 10, 100, rng)[:, :, :1]

    def columns(other, names=("a", "b")):
        both = np.concatenate([x, other], axis=2)
        return check(sde, Transitions.from_trajectories(list(both), dt=H, names=list(names)))

    copied = columns(x)["columns"]
    assert copied.verdict == "bad"
    assert "The motion of b is a copy of a in every row" in copied.text
    assert "Leave one of these columns out" in copied.advice
    assert "a linear function of a in every row" in columns(1.8 * x + 32)["columns"].text
    near = columns(x + 1e-4 * rng.normal(size=x.shape))["columns"]
    assert near.verdict == "caution"
    assert "nearly a linear function of a" in near.text
    assert "columns" not in columns(paths(sde, 10, 100, rng)[:, :, :1])


# Advice names the option that cures


def test_advice_names_the_options():
    data = coloured(10, 2.0)
    memory = check(itofit.fit(data, rng=0), data)
    assert "covariates=" in memory["whiteness"].advice
    assert "covariates=" in memory["markov"].advice
    assert "Transitions.from_positions" in memory["markov"].advice
    assert "measurement_noise='auto'" in memory["markov"].advice
    missing = check(one(drift=0.0), tracks(one(), 100, 100))["place"]
    assert accuses(missing)
    assert "covariates=" in missing.advice


def test_advice_is_worded_for_the_command_line():
    from itofit.cli.words import word

    data = coloured(10, 2.0)
    text = check(itofit.fit(data, rng=0), data).text(word)
    assert "--covariate" in text
    assert "--second-order" in text
    assert "covariates=" not in text
    assert "from_positions" not in text


def test_long_steps_name_max_h():
    x = paths(one(), 50, 200, np.random.default_rng(0))[:, :, 0]
    times = np.concatenate([np.arange(150), 150 + 30 * np.arange(3)])
    rows = [track[times] for track in x if len(track) > times[-1]] or [track[:153] for track in x]
    data = Transitions.from_trajectories(rows, times=[H * times[: len(row)] for row in rows])
    found = check(itofit.fit(data, max_h=None, correct_step=False, rng=0), data)["discretisation"]
    assert "max_h=" in found.advice
