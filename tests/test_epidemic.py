"""Experiment 6. A bound of 4.5 standard errors gives a false alarm in about 100,000 seeds, as does p > 1e-5."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.stats import binom, chisquare

from itofit import InputError
from itofit.experiments import epidemic

N = epidemic.POPULATION


@pytest.fixture(scope="module")
def fixed_lag():
    return epidemic.sample_epidemic(observation="fixed-lag", rng=0)


def rates(counts):
    """Of infection and recovery, per unit time."""
    return 4 * counts[0] * counts[1] / sum(counts), counts[1]


def generator_expectation(function, x):
    """L g(x) for the process of individuals: the sum over events of rate · (g after − g before)."""
    r1, r2 = 4 * x[:, 0] * (1 - x.sum(axis=1)), 1 - x.sum(axis=1)
    infection, recovery = np.array([-1, 0]) / N, np.array([0, 1]) / N
    here = function(x)
    return N * (r1[:, None] * (function(x + infection) - here) + r2[:, None] * (function(x + recovery) - here))


# The individuals


def test_counts_have_the_exact_distribution_of_a_small_population():
    start, t = (4, 2, 0), 0.7
    states = [(s, i, 6 - s - i) for s in range(7) for i in range(7 - s)]
    Q = np.zeros((len(states), len(states)))
    for row, (s, i, r) in enumerate(states):
        infection, recovery = rates((s, i, r))
        for rate, after in ((infection, (s - 1, i + 1, r)), (recovery, (s, i - 1, r + 1))):
            if rate:
                Q[row, states.index(after)] += rate
                Q[row, row] -= rate
    counts = epidemic.simulate_epidemic([start] * 20_000, [t, 2 * t], rng=1)
    for column, time in enumerate((t, 2 * t)):
        probability = expm(time * Q)[states.index(start)]
        seen = np.array([(counts[:, column] == state).all(axis=1).sum() for state in states])
        assert seen[probability == 0].sum() == 0
        likely = 20_000 * probability > 5
        assert probability[likely].sum() > 0.99
        expected = probability[likely] / probability[likely].sum() * seen[likely].sum()
        assert chisquare(seen[likely], expected).pvalue > 1e-5


def test_without_susceptibles_the_infected_thin_out_independently():
    counts = epidemic.simulate_epidemic([[0, 200, 0]] * 2_000, [0.5, 1.0, 3.0], rng=2)
    for column, t in enumerate((0.5, 1.0, 3.0)):
        infected = counts[:, column, 1]
        law = binom(200, np.exp(-t))
        assert abs(infected.mean() - law.mean()) < 4.5 * law.std() / np.sqrt(2_000)
        assert abs(infected.var() / law.var() - 1) < 4.5 * np.sqrt(2 / 2_000)


def test_a_population_is_divided_in_all_ways_equally_often(monkeypatch):
    monkeypatch.setattr(epidemic, "POPULATION", 3)
    counts = epidemic.uniform_counts(20_000, np.random.default_rng(3))
    ways, seen = np.unique(counts, axis=0, return_counts=True)
    assert len(ways) == 10
    assert (ways.sum(axis=1) == 3).all()
    assert chisquare(seen).pvalue > 1e-5


def test_starts_have_the_moments_of_the_simplex():
    counts = epidemic.uniform_counts(20_000, np.random.default_rng(4))
    variance = N * (N + 3) / 18
    assert np.abs(counts.mean(axis=0) - N / 3).max() < 4.5 * np.sqrt(variance / 20_000)
    assert np.abs(np.cov(counts.T) / variance - (1.5 * np.eye(3) - 0.5)).max() < 4.5 * np.sqrt(2 / 20_000)


def test_individuals_are_conserved_and_move_one_way():
    start = epidemic.uniform_counts(40, np.random.default_rng(5))
    counts = epidemic.simulate_epidemic(start, np.linspace(0, 50, 60), rng=5)
    np.testing.assert_array_equal(counts[:, 0], start)
    assert (counts >= 0).all()
    assert (counts.sum(axis=2) == N).all()
    assert (np.diff(counts[:, :, 0], axis=1) <= 0).all()
    assert (np.diff(counts[:, :, 2], axis=1) >= 0).all()
    assert (counts[:, -1, 1] == 0).all(), "by the time 50 everyone has recovered"


def test_an_epidemic_without_infected_does_not_move():
    counts = epidemic.simulate_epidemic([[5, 0, 3], [1, 0, 0]], [1.0, 2.0], rng=0)
    assert counts.tolist() == [[[5, 0, 3]] * 2, [[1, 0, 0]] * 2]


# The diffusion


def test_drift_and_covariance_are_the_first_moments_of_the_events():
    x = np.array([[0.5, 0.25], [0.1, 0.2], [0.9, 0.05]])
    np.testing.assert_allclose(epidemic.drift(x), generator_expectation(lambda z: z, x), rtol=1e-9)
    second = [generator_expectation(lambda z, at=x[k]: (z - at) ** 2, x[k : k + 1])[0] for k in range(3)]
    np.testing.assert_allclose(np.diagonal(epidemic.covariance(x), axis1=1, axis2=2), second, rtol=1e-9)


def test_the_covariance_stays_positive_at_absorption():
    np.testing.assert_array_equal(epidemic.covariance([[0.4, 0.6]]), [1e-8 * np.eye(2)])
    np.testing.assert_array_equal(epidemic.drift([[0.5, 0.5]]), [[0, 0]])


# The data at a fixed lag


def test_fixed_lag_data_have_the_true_mean_and_variance(fixed_lag):
    x, h = fixed_lag.inputs, epidemic.LAG
    f = epidemic.drift(x)
    residual = fixed_lag.increments - h * f - h**2 / 2 * generator_expectation(epidemic.drift, x)
    standard_error = residual.std(axis=0) / np.sqrt(len(x))
    assert (np.abs(residual.mean(axis=0)) < 4.5 * standard_error).all()
    # d Var(x_i)/dt = E Σ_ii + 2 Cov(x_i, f_i), to the second order in h
    slope = np.stack([-4 * (1 - 2 * x[:, 0] - x[:, 1]), -np.ones(len(x))], axis=1)
    spread = np.abs(f) / N
    variance = h * spread + h**2 / 2 * (
        generator_expectation(lambda z: np.abs(epidemic.drift(z)), x) / N + 2 * spread * slope
    )
    excess = residual**2 - variance
    assert (np.abs(excess.mean(axis=0)) < 4.5 * excess.std(axis=0) / np.sqrt(len(x))).all()


def test_infections_and_recoveries_are_nearly_independent_within_a_lag(fixed_lag):
    residual = fixed_lag.increments - epidemic.LAG * epidemic.drift(fixed_lag.inputs)
    scale = np.sqrt(epidemic.LAG * np.diagonal(epidemic.covariance(fixed_lag.inputs), axis1=1, axis2=2))
    white = residual / scale
    # an infection raises the rate of recovery: the correlation is of the order of h, here below 0.02
    assert abs((white[:, 0] * white[:, 1]).mean()) < 4.5 / np.sqrt(len(white)) + 0.02


def test_fixed_lag_data_follow_the_trajectories(fixed_lag):
    assert fixed_lag.kind == "diffusion"
    assert 95_000 < len(fixed_lag) <= 100_000
    assert set(fixed_lag.h) == {0.01}
    check_order(fixed_lag)
    assert (fixed_lag.inputs.sum(axis=1) < 1).all(), "transitions that start after absorption are left out"


def check_order(data):
    """On the lattice, susceptibles falling and recovered rising, each transition starting where the last ended."""
    end = data.inputs + data.increments
    for x in (data.inputs, end):
        np.testing.assert_array_equal(N * x, np.rint(N * x))
        assert (x.sum(axis=1) <= 1).all()
    assert (data.increments[:, 0] <= 0).all()
    assert (data.increments[:, 1] >= 0).all()
    assert (np.diff(data.groups) >= 0).all()
    follows = np.diff(data.groups) == 0
    np.testing.assert_array_equal(data.inputs[1:][follows], end[:-1][follows])


# The data at events


@pytest.mark.parametrize("min_gap", [0.0, 1e-3])
def test_records_are_those_of_the_plain_rule(min_gap):
    n = 12
    data = epidemic.sample_epidemic(n, rng=6, min_gap=min_gap)
    rng = np.random.default_rng(6)
    start = epidemic.uniform_counts(n, rng)
    history = list(epidemic.ssa(start, 4.0, rng))
    rows = []
    for trajectory in range(n):
        records = [(0.0, start[trajectory])]
        for clock, counts in history:
            if clock[trajectory] <= 4.0 and clock[trajectory] - records[-1][0] >= min_gap:
                records.append((clock[trajectory], counts[trajectory]))
        kept = records[::10]
        rows += [
            (trajectory, t1 - t0, *n0[[0, 2]] / N, *(n1 - n0)[[0, 2]] / N) for (t0, n0), (t1, n1) in pairwise(kept)
        ]
    transitions = np.column_stack([data.groups, data.h, data.inputs, data.increments])
    np.testing.assert_array_equal(transitions, rows)


def test_event_data_follow_the_trajectories():
    data = epidemic.sample_epidemic(100, rng=7)
    check_order(data)
    assert (data.h >= 10 * 1e-3 - 1e-12).all()
    assert np.bincount(data.groups, data.h).max() <= 4
    assert (N * np.abs(data.increments).sum(axis=1) >= 10).all(), "ten records are at least ten events"


def test_ten_events_take_as_long_as_their_rate_says():
    data = epidemic.sample_epidemic(200, rng=8, min_gap=0.0)
    assert (N * np.abs(data.increments).sum(axis=1) == 10).all()
    many = 1 - data.inputs.sum(axis=1) > 0.4  # where ten events change the rate by little
    events = N * np.abs(epidemic.drift(data.inputs[many])).sum(axis=1)
    mean = 10 / events  # of a gamma variable, with the standard deviation mean / √10
    ratio = data.h[many] / mean
    assert abs(ratio.mean() - 1) < 4.5 / np.sqrt(10 * many.sum()) + 0.02
    assert abs((1 / ratio).mean() - 10 / 9) < 4.5 * (1 / ratio).std() / np.sqrt(many.sum()) + 0.02


# Arguments


@pytest.mark.parametrize("observation", ["events", "fixed-lag"])
def test_the_same_seed_gives_the_same_data(observation):
    first, again = (epidemic.sample_epidemic(5, observation, rng=9) for _ in range(2))
    np.testing.assert_array_equal(first.increments, again.increments)
    np.testing.assert_array_equal(first.h, again.h)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="observation must be one of 'events', 'fixed-lag'"):
        epidemic.sample_epidemic(3, "daily")
    with pytest.raises(InputError, match="min_gap must be a number >= 0"):
        epidemic.sample_epidemic(3, min_gap=-1)
    for start in ([[1.5, 2, 3]], [[-1, 2, 3]], [[0, 0, 0]]):
        with pytest.raises(InputError, match="start must hold whole numbers"):
            epidemic.simulate_epidemic(start, [1.0])
    for times in ([1.0, 1.0], [-1.0, 1.0], []):
        with pytest.raises(InputError, match="times must be increasing"):
            epidemic.simulate_epidemic([[1, 2, 3]], times)
