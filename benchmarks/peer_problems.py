"""Ten problems that itofit and other packages are given alike: one long track each, simulated with small steps.

Functions take the module that computes (NumPy or JAX) and one argument for each variable. A drift returns one value for
each variable; a root returns the lower triangle of σ, row by row, and Σ = σσᵀ.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

SUBSTEPS = 10
CHUNK = 100_000
"""Observations that are simulated at a time, so that their random numbers fit into memory."""
PLACES = 2_000


class Problem(NamedTuple):
    """An equation, how it is observed, and how much of it."""

    text: str
    drift: Callable
    root: Callable
    h: float
    start: tuple[float, ...]
    rows: tuple[int, ...]
    error: float = 0.0  # standard deviation of the errors of measurement
    second_order: bool = False  # variables are (x, v), and x alone is observed
    spread: float = 1.0  # of the frequencies that networks start with: 5 if functions have details

    @property
    def d(self):
        """How many variables are observed; noise moves as many."""
        return len(self.start) // 2 if self.second_order else len(self.start)

    def observed(self, n, seed):
        """N observations (n, d), and true states (PLACES, m) to judge at, drawn from those of the track."""
        rng = np.random.default_rng([seed, 57])
        states = np.concatenate([*_simulated(self, rng, n)])
        places = states[rng.integers(n, size=PLACES)]
        return states[:, : self.d] + self.error * rng.standard_normal((n, self.d)), places

    def truth(self, places):
        """The drift (n, d) and the covariance (n, d, d) of what noise moves."""
        f = np.stack(np.broadcast_arrays(*self.drift(np, *places.T)), axis=1)
        m = places.shape[1]
        sigma = np.zeros((len(places), m, m))
        for i, row in enumerate(self.root(np, *places.T)):
            for j, value in enumerate(row):
                sigma[:, i, j] = value
        return f[:, -self.d :], (sigma @ sigma.swapaxes(1, 2))[:, -self.d :, -self.d :]


def _simulated(problem, rng, n):
    """States of the track, chunk by chunk.

    A step follows the mean of the drifts before and after it. With the drift before it alone, noise would not be damped
    within a step, and Σ would seem to be larger by the step times the rate of damping: 1 % for van der Pol.
    """
    import jax  # noqa: PLC0415

    with jax.enable_x64():
        run = jax.jit(partial(_steps, problem, jax))
        state = jax.numpy.asarray(problem.start)
        warm_up = max(100, round(10 / problem.h))
        for first in range(-warm_up, n, CHUNK):
            size = min(CHUNK, n - first)
            kicks = rng.standard_normal((size, SUBSTEPS, len(problem.start)))
            state, states = run(state, kicks)
            yield np.asarray(states)[max(-first, 0) :]


def _steps(problem, jax, state, kicks):
    dt = problem.h / SUBSTEPS
    numpy = jax.numpy

    def fine(x, z):
        noise = [sum(value * z[j] for j, value in enumerate(row)) for row in problem.root(numpy, *x)]
        kick = np.sqrt(dt) * numpy.stack(noise)
        f = numpy.stack(problem.drift(numpy, *x))
        after = numpy.stack(problem.drift(numpy, *(x + dt * f + kick)))
        return x + 0.5 * dt * (f + after) + kick, None

    def observed(x, z):
        return jax.lax.scan(fine, x, z)[0], x

    return jax.lax.scan(observed, state, kicks)


def _well(xp, x):
    return (x - x**3,)


def _van_der_pol(xp, x, y):
    return y, 2 * (1 - x**2) * y - x


def _cycle(xp, x, y):
    rest = 1 - x**2 - y**2
    return rest * x - 2 * y, rest * y + 2 * x


def _cycle_root(xp, x, y):
    return (0.4 + 0.15 * x,), (0.2, 0.35 - 0.1 * y)


def _lorenz(xp, x, y, z):
    return 10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z


def _crooked(xp, x):
    return (-xp.abs(x) * x + 1.5 * xp.sin(5 * x) * xp.exp(-(x**2)),)


def _crooked_root(xp, x):
    return ((0.5 + 0.3 / (1 + xp.exp(-6 * x)),),)


def _linear(xp, x, y):
    return -x + 0.8 * y, -0.8 * x - 1.5 * y


def _eddies(xp, x, y):
    k = 3 * np.pi
    return (
        0.6 * xp.sin(k * x) * xp.cos(k * y) - x**3,
        -0.6 * xp.cos(k * x) * xp.sin(k * y) - y**3,
    )


def _eddies_root(xp, x, y):
    k = 3 * np.pi
    return (0.5 + 0.15 * xp.cos(k * (x + y)),), (0.0, 0.5 + 0.15 * xp.sin(k * x))


SIZES = (10**4, 10**5, 10**6)
PROBLEMS = {
    "well": Problem("double well, constant noise", _well, lambda xp, x: ((0.5,),), 0.01, (1.0,), SIZES),
    "varying": Problem(
        "double well, noise that varies", _well, lambda xp, x: (((0.2 + 0.1 * x**2) ** 0.5,),), 0.02, (1.0,), SIZES
    ),
    "errors": Problem(
        "double well, errors of measurement", _well, lambda xp, x: ((0.5,),), 0.01, (1.0,), SIZES, error=0.02
    ),
    "vdp": Problem(
        "van der Pol, both variables", _van_der_pol, lambda xp, x, y: ((0.3,), (0.0, 0.5)), 0.02, (1.0, 0.0), SIZES
    ),
    "cycle": Problem("limit cycle, full Σ that varies", _cycle, _cycle_root, 0.02, (1.0, 0.0), SIZES),
    "lorenz": Problem(
        "Lorenz 63 with noise",
        _lorenz,
        lambda xp, x, y, z: ((2.0,), (0.0, 2.0), (0.0, 0.0, 2.0)),
        0.005,
        (1.0, 1.0, 25.0),
        SIZES,
    ),
    "positions": Problem(
        "van der Pol, positions alone",
        _van_der_pol,
        lambda xp, x, v: ((0.0,), (0.0, 1.0)),
        0.05,
        (1.0, 0.0),
        SIZES,
        error=0.01,
        second_order=True,
    ),
    "crooked": Problem("no short formula, one variable", _crooked, _crooked_root, 0.02, (0.5,), SIZES, spread=5.0),
    "few": Problem(
        "linear, two variables, few data",
        _linear,
        lambda xp, x, y: ((0.7,), (0.3, 0.5)),
        0.05,
        (0.0, 0.0),
        (10**3, 10**4),
    ),
    "eddies": Problem(
        "eddies, two variables, many data", _eddies, _eddies_root, 0.01, (0.1, 0.1), (10**5, 10**6), spread=5.0
    ),
}
