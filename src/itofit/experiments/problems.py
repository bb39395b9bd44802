"""The equations of experiments 1 to 5, their data, and the paper's settings for each.

Data start uniformly in a box and follow the equation for a time h in a thousand Euler-Maruyama steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from itofit._checks import RNG, Float, count, generator
from itofit.data.transitions import Transitions
from itofit.matrices.symmetric import Factor, Structure
from itofit.model.known import Function, KnownSDE
from itofit.waves.parameters import ARFF

FINE_STEPS = 1000
"""Number of simulated steps within one observed step."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment(KnownSDE):
    """One experiment: the true equation, how its data are made, and how the paper learns it.

    Parameters
    ----------
    f, sigma : callable
        The true drift and diffusion: inputs of shape (n, m) to (n, d) and (n, d, d).
    n_inputs, n_outputs : int
        m and d; the system is underdamped if m = 2d.
    name : str
    low, high : float
        Every input starts uniformly between them.
    h : float
        Time between the two observations of a transition.
    structure : {"diagonal", "full"}
        The entries of Σ that the paper learns.
    factor : {"cholesky", "symmetric"}
        What kind of matrix σ is.
    settings : ARFF
        The paper's settings, for drift and covariance alike.
    published_loss : float
        Mean validation loss of Algorithm 2 over ten runs, as published.
    n_points : int
        Size of the paper's data set.
    """

    name: str
    low: float
    high: float
    h: float
    structure: Structure
    settings: ARFF
    published_loss: float
    factor: Factor = "cholesky"
    n_points: int = 10_000

    @property
    def underdamped(self) -> bool:
        """Whether the inputs are a position and a velocity, and noise drives the velocity alone."""
        return self.kind == "underdamped"

    def sample(self, n: int | None = None, rng: RNG = None, *, fine_steps: int = FINE_STEPS) -> Transitions:
        """Transitions of this experiment: n of them, or as many as in the paper.

        Parameters
        ----------
        n : int, optional
        rng : int, Generator or None
        fine_steps : int
            Euler-Maruyama steps within h.

        Examples
        --------
        >>> from itofit.experiments import EXPERIMENTS
        >>> EXPERIMENTS["3a"].sample(100, rng=0, fine_steps=10)
        Transitions(100 transitions, 1 input, 1 output, h = 0.01, kind = diffusion)
        """
        n = self.n_points if n is None else count("n", n)
        dt = self.h / count("fine_steps", fine_steps)
        random, _ = generator(rng)
        d = self.n_outputs
        start = random.uniform(self.low, self.high, (n, self.n_inputs))
        state = start.copy()
        for _ in range(fine_steps):
            noise = np.sqrt(dt) * random.standard_normal((n, d))
            move = dt * self.f(state) + np.einsum("nij,nj->ni", self.sigma(state), noise)
            if self.underdamped:
                state[:, :d] += dt * state[:, d:]
            state[:, -d:] += move
        if self.underdamped:
            return Transitions.from_underdamped(start[:, :d], start[:, d:], state[:, :d], state[:, d:], self.h)
        return Transitions.from_pairs(start, state, self.h)

    def true_nll(self, data: Transitions) -> Float:
        """Loss of each transition under the true drift and covariance, shape (n,)."""
        return self.nll(data, pointwise=True)


def _diagonal(entries: Function) -> Function:
    """Diagonal matrices from their entries."""
    return lambda x: entries(x)[:, :, None] * np.eye(x.shape[1])


def _constant(matrix: object) -> Function:
    """The same matrix at every point."""
    sigma = np.asarray(matrix, dtype=np.float64)
    return lambda x: np.broadcast_to(sigma, (len(x), *sigma.shape))


def linear(coefficient: float) -> Function:
    """f(x) = coefficient · x."""
    return lambda x: coefficient * x


def langevin(v_coefficient: float) -> Function:
    """f(x, v) = −x³ − x + v_coefficient · v."""
    return lambda z: -(z[:, :1] ** 3) - z[:, :1] + v_coefficient * z[:, 1:]


def cubic(x: Float) -> Float:
    """f(x) = −2x³ + 4x − 1.5 in each coordinate."""
    return -2 * x**3 + 4 * x - 1.5


_SYMMETRIC = [
    [0.02045836, 0.03502162, 0.02678421],
    [0.03502162, 0.06355898, 0.02981971],
    [0.02678421, 0.02981971, 0.12453806],
]
_LOWER = [[0.09506174, 0, 0], [0.04639143, 0.15817465, 0], [0.04337843, 0.07506578, 0.00852886]]


def _settings(n_features: int, least: int, most: int, ridge: float = 2e-3, delta: float = 0.1) -> ARFF:
    return ARFF(
        n_features=n_features,
        ridge=ridge,
        delta=delta,
        gamma=1.0,
        pairing="printed",
        min_iterations=least,
        max_iterations=most,
    )


_ONE = Experiment(
    name="1",
    f=linear(0.5),
    sigma=_constant([[0.1]]),
    n_inputs=1,
    n_outputs=1,
    low=-1,
    high=1,
    h=0.1,
    structure="diagonal",
    settings=_settings(32, 5, 50),
    published_loss=-2.0500,
)
_TWO = Experiment(
    name="2",
    f=linear(-1.0),
    sigma=_diagonal(lambda x: 0.05 * x + 0.005),
    n_inputs=2,
    n_outputs=2,
    low=1,
    high=2,
    h=0.01,
    structure="diagonal",
    settings=_settings(64, 10, 200),
    published_loss=-6.8487,
)
_THREE_A = Experiment(
    name="3a",
    f=cubic,
    sigma=_diagonal(lambda x: 0.05 * x + 0.5),
    n_inputs=1,
    n_outputs=1,
    low=-2,
    high=2,
    h=0.01,
    structure="diagonal",
    settings=_settings(128, 20, 200),
    published_loss=-1.5906,
)
_FOUR_B = Experiment(
    name="4b",
    f=linear(-1.0),
    sigma=_constant(_LOWER),
    n_inputs=3,
    n_outputs=3,
    low=-1,
    high=1,
    h=0.01,
    structure="full",
    settings=_settings(128, 10, 500),
    published_loss=-11.612,
)
_FIVE = Experiment(
    name="5",
    f=langevin(0.5),
    sigma=_constant([[np.sqrt(0.1)]]),
    n_inputs=2,
    n_outputs=1,
    low=-2.5,
    high=2.5,
    h=0.01,
    structure="diagonal",
    settings=_settings(128, 20, 200),
    published_loss=-2.0421,
)

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        _ONE,
        replace(_ONE, name="1-", f=linear(-0.5)),
        _TWO,
        _THREE_A,
        replace(_THREE_A, name="3b", n_inputs=2, n_outputs=2, settings=_settings(256, 50, 300), published_loss=-3.1807),
        replace(
            _FOUR_B,
            name="4a",
            sigma=_constant(_SYMMETRIC),
            factor="symmetric",
            settings=_settings(128, 20, 500, ridge=2e-6, delta=0.02),
            published_loss=-16.102,
        ),
        _FOUR_B,
        _FIVE,
        replace(_FIVE, name="5-", f=langevin(-0.5)),
    )
}
"""Experiments 1 to 5 by name. The paper prints the drifts of 1 and 5 with a growing sign; `1-` and `5-` carry the
other one."""
