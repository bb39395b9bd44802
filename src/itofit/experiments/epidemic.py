"""Experiment 6: an epidemic among N individuals, learned as the diffusion that it tends to when they are many.

Everyone is susceptible, infected or recovered. With the shares x̃_p = n_p / N, two kinds of events change the counts:

    S + I → 2 I    n₀ − 1, n₁ + 1    at the rate N r₁,  r₁ = 4 k₁ x̃₀ x̃₁,
    I → R          n₁ − 1, n₂ + 1    at the rate N r₂,  r₂ = k₂ x̃₁.

Gillespie's algorithm draws them exactly, one after the other, until nobody is infected: the absorbed state. The
paper's third event, R → S, has the rate k₃ = 0. The diffusion is that of x = (x̃₀, x̃₂), since x̃₁ = 1 − x̃₀ − x̃₂:

    f(x) = (−r₁, r₂),    Σ(x) = diag(r₁, r₂) / N.

=======  ==================  ==================
symbol   name                shape
=======  ==================  ==================
n_p      counts              (n_trajectories, 3)
t        clock               (n_trajectories,)
N        POPULATION
k₁, k₂   K1, K2
T        T_END
=======  ==================  ==================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from itofit._checks import RNG, Float, InputError, Int, columns, count, float_array, generator, one_of, positive
from itofit.data.transitions import Transitions
from itofit.matrices.symmetric import Structure
from itofit.model.known import KnownSDE
from itofit.waves.parameters import ARFF

Observation = Literal["events", "fixed-lag"]

POPULATION = 1024
K1 = 1.0
K2 = 1.0
T_END = 4.0
N_TRAJECTORIES = 250

LAG = 0.01
"""Time between two observations at a fixed lag."""
MIN_GAP = 1e-3
"""Shortest time between two records of events."""
EVERY = 10
"""One in this many records of events is an observation."""
FLOOR = 1e-8
"""Smallest entry on the diagonal of the true Σ, as the rates vanish at absorption."""

STRUCTURE: Structure = "diagonal"
SETTINGS = ARFF(
    n_features=64, ridge=2e-3, delta=0.1, gamma=1.0, pairing="printed", min_iterations=10, max_iterations=200
)
"""The paper's settings, for drift and covariance alike."""
PUBLISHED_LOSS = -9.5986
"""Mean validation loss of Algorithm 2 over ten runs, as published."""

INFECTION = np.array([-1, 1, 0])
RECOVERY = np.array([0, -1, 1])


# The diffusion


def drift(x: npt.ArrayLike) -> Float:
    """f(x) = (−r₁, r₂).

    Parameters
    ----------
    x : array of shape (n, 2)
        Shares of the susceptible and of the recovered.

    Returns
    -------
    array of shape (n, 2)

    Examples
    --------
    >>> from itofit.experiments import epidemic
    >>> epidemic.drift([[0.5, 0.25]])
    array([[-0.5 ,  0.25]])
    """
    return EQUATION.drift(x)


def covariance(x: npt.ArrayLike) -> Float:
    """Σ(x) = diag(r₁, r₂) / N, with entries of at least `FLOOR` on the diagonal.

    Parameters
    ----------
    x : array of shape (n, 2)
        Shares of the susceptible and of the recovered.

    Returns
    -------
    array of shape (n, 2, 2)

    Examples
    --------
    >>> from itofit.experiments import epidemic
    >>> epidemic.covariance([[0.5, 0.25]])[0] * epidemic.POPULATION
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    return EQUATION.covariance(x)


def true_nll(data: Transitions) -> Float:
    """Loss of each transition under `EQUATION`, shape (n,)."""
    return EQUATION.nll(data, pointwise=True)


def _rates(x: Float) -> Float:
    """(r₁, r₂) at each x: shape (n, 2)."""
    x0, x2 = x.T
    x1 = 1 - x0 - x2
    return np.stack([4 * K1 * x0 * x1, K2 * x1], axis=1)


def _sigma(x: Float) -> Float:
    """σ(x) = diag(√r₁, √r₂) / √N, with variances of at least `FLOOR`: shape (n, 2, 2)."""
    return np.sqrt(np.maximum(_rates(x) / POPULATION, FLOOR))[:, :, None] * np.eye(2)


EQUATION = KnownSDE(f=lambda x: _rates(x) * [-1, 1], sigma=_sigma, n_inputs=2, n_outputs=2)
"""The diffusion that the epidemic tends to; the state is x = (x̃₀, x̃₂)."""


# The individuals


def uniform_counts(n: int, rng: np.random.Generator) -> Int:
    """Counts of a population of N, where all ways to divide it into three are equally likely: shape (n, 3).

    Two distinct bars among N + 2 places leave N stars, in three parts: those before, between and after the bars.
    """
    bar = rng.integers(0, POPULATION + 2, n)
    other = rng.integers(0, POPULATION + 1, n)
    other += other >= bar
    first, second = np.minimum(bar, other), np.maximum(bar, other)
    return np.stack([first, second - first - 1, POPULATION + 1 - second], axis=1).astype(np.intp)


def ssa(counts: Int, t_end: float, rng: np.random.Generator) -> Iterator[tuple[Float, Int]]:
    """Gillespie's stochastic simulation algorithm: all trajectories, event by event.

    Parameters
    ----------
    counts : array of shape (n, 3)
        Susceptible, infected and recovered at time 0; each row has a population of its own.
    t_end : float
        The simulation ends when no trajectory has an event up to this time.
    rng : Generator

    Yields
    ------
    clock : array of shape (n,)
        The time of each trajectory's next event: infinite if it was absorbed before, and possibly after `t_end`.
    counts : array of shape (n, 3)
        From that time on.
    """
    population = counts.sum(axis=1)
    clock = np.zeros(len(counts))
    while True:
        infections = 4 * K1 * counts[:, 0] * counts[:, 1] / population  # N r₁
        events = infections + K2 * counts[:, 1]  # N (r₁ + r₂)
        alive = events > 0
        wait = np.full(len(counts), np.inf)
        np.divide(rng.standard_exponential(len(counts)), events, out=wait, where=alive)
        clock = clock + wait
        if not (clock <= t_end).any():
            return
        infected = rng.random(len(counts)) * events < infections
        move = np.where(infected[:, None], INFECTION, RECOVERY)
        counts = counts + alive[:, None] * move
        yield clock, counts


def simulate_epidemic(start: npt.ArrayLike, times: npt.ArrayLike, rng: RNG = None) -> Int:
    """Exact counts at given times.

    Parameters
    ----------
    start : array of shape (n, 3)
        Whole numbers of susceptible, infected and recovered at time 0. The rates follow the population of each row.
    times : array of shape (T,)
        Increasing, the first not before 0.
    rng : int, Generator or None

    Returns
    -------
    array of shape (n, T, 3)

    Examples
    --------
    >>> from itofit.experiments import epidemic
    >>> counts = epidemic.simulate_epidemic([[500, 24, 500]] * 3, [0.0, 2.0, 4.0], rng=0)
    >>> counts.shape, counts.sum(axis=2).tolist()
    ((3, 3, 3), [[1024, 1024, 1024], [1024, 1024, 1024], [1024, 1024, 1024]])
    """
    counts = _whole_counts(start)
    clocks = float_array("times", times)
    if clocks.ndim != 1 or not len(clocks) or clocks[0] < 0 or (np.diff(clocks) <= 0).any():
        raise InputError(f"times must be increasing numbers >= 0 of shape (T,), got {times!r}")
    random, _ = generator(rng)
    moves = np.zeros((len(clocks) + 1, *counts.shape), dtype=np.intp)  # up to each time; the last is after all of them
    moves[0] = counts
    trajectory = np.arange(len(counts))
    for clock, new in ssa(counts, clocks[-1], random):
        moves[np.searchsorted(clocks, clock), trajectory] += new - counts
        counts = new
    return moves[:-1].cumsum(axis=0).swapaxes(0, 1)


def _whole_counts(start: npt.ArrayLike) -> Int:
    array = columns("start", start, n_columns=3)
    if not len(array) or (array < 0).any() or (array % 1 != 0).any() or not array.any(axis=1).all():
        raise InputError("start must hold whole numbers >= 0, in each row at least one individual")
    return array.astype(np.intp)


# The data


def sample_epidemic(
    n_trajectories: int = N_TRAJECTORIES,
    observation: Observation = "events",
    rng: RNG = None,
    *,
    min_gap: float = MIN_GAP,
) -> Transitions:
    """Transitions of x = (x̃₀, x̃₂) along epidemics that start anywhere and are observed up to T.

    At "events", the start is a record, and so is every event at least `min_gap` after the last record. Every tenth
    record is an observation, and transitions lead from one observation to the next, over the exact time between them.
    The events decide when a transition ends: Δx − ∫ f dt still has mean zero, but Δx / h, from which the drift is
    learned, is too large on average, by a factor of 10/9 if every event is a record (`min_gap` = 0).

    At a "fixed-lag", transitions lead from each multiple of 0.01 to the next. Those that start after absorption, where
    nothing moves, are left out.

    Parameters
    ----------
    n_trajectories : int
    observation : {"events", "fixed-lag"}
    rng : int, Generator or None
    min_gap : float
        Shortest time between two records of events.

    Returns
    -------
    Transitions
        Sorted by trajectory and time, with the number of the trajectory in `groups`.

    Examples
    --------
    >>> from itofit.experiments import epidemic
    >>> epidemic.sample_epidemic(5, "fixed-lag", rng=0)
    Transitions(2000 transitions, 2 inputs, 2 outputs, h = 0.01, 5 groups, kind = diffusion)
    """
    n = count("n_trajectories", n_trajectories)
    one_of("observation", observation, get_args(Observation))
    gap = positive("min_gap", min_gap, zero=True)
    random, _ = generator(rng)
    start = uniform_counts(n, random)
    if observation == "events":
        return _at_events(start, gap, random)
    return _at_fixed_lag(start, random)


def _at_events(start: Int, min_gap: float, rng: np.random.Generator) -> Transitions:
    trajectory = np.arange(len(start))
    last = np.zeros(len(start))
    n_records = np.zeros(len(start), dtype=np.intp)
    observed = [(trajectory, last.copy(), start)]
    for clock, counts in ssa(start, T_END, rng):
        recorded = (clock <= T_END) & (clock - last >= min_gap)
        last[recorded] = clock[recorded]
        n_records += recorded
        tenth = recorded & (n_records % EVERY == 0)
        observed.append((trajectory[tenth], clock[tenth], counts[tenth]))
    groups, times, states = (np.concatenate(parts) for parts in zip(*observed, strict=True))
    order = np.argsort(groups, kind="stable")  # records come in the order of time
    groups, times, x = groups[order], times[order], _shares(states[order])
    pair = groups[1:] == groups[:-1]
    return Transitions.from_pairs(x[:-1][pair], x[1:][pair], np.diff(times)[pair], groups[:-1][pair])


def _at_fixed_lag(start: Int, rng: np.random.Generator) -> Transitions:
    n_lags = round(T_END / LAG)
    counts = simulate_epidemic(start, LAG * np.arange(n_lags + 1), rng)
    moving = counts[:, :-1, 1] > 0
    x = _shares(counts)
    groups = np.broadcast_to(np.arange(len(start))[:, None], moving.shape)
    return Transitions.from_pairs(x[:, :-1][moving], x[:, 1:][moving], LAG, groups[moving])


def _shares(counts: Int) -> Float:
    """The state x = (x̃₀, x̃₂) of counts: shape (..., 3) to (..., 2)."""
    return counts[..., [0, 2]] / POPULATION
