"""Systems whose formulas are known: how they move, and the terms of their drift and covariance."""

from typing import NamedTuple

import numpy as np

from itofit.experiments import epidemic

N = 100_000
SUBSTEPS = 30


class System(NamedTuple):
    """An equation with a known formula, observed at steps of length h."""

    text: str
    names: tuple
    drift: object  # (n, d) -> (n, d)
    noise: object  # (n, d) -> (n, d, d): σ
    start: object  # rng, n -> (n, d)
    h: float
    truth: dict | None  # coefficients by the names of line and term; None if the library does not hold the drift
    n_tracks: int = 50

    def tracks(self, rng):
        """Tracks (n_tracks, n_times, d) with N transitions in all, simulated with steps of h / SUBSTEPS."""
        n_steps, dt = N // self.n_tracks, self.h / SUBSTEPS
        x = self.start(rng, self.n_tracks)
        for _ in range(300):  # forget the start
            x = self._moved(x, self.h / 3, rng)
        out = np.empty((self.n_tracks, n_steps + 1, x.shape[1]))
        for i in range(n_steps + 1):
            out[:, i] = x
            for _ in range(SUBSTEPS):
                x = self._moved(x, dt, rng)
        return out

    def _moved(self, x, dt, rng):
        kick = (self.noise(x) @ rng.standard_normal((*x.shape, 1)))[:, :, 0]
        middle = x + 0.5 * dt * self.drift(x)  # of second order in the drift, so that the truth is that of the equation
        return x + dt * self.drift(middle) + np.sqrt(dt) * kick


class Epidemic(NamedTuple):
    """Susceptible and infected shares of 1,024 people, event by event, seen at fixed times."""

    text: str
    names: tuple
    h: float
    truth: dict
    n_tracks: int = 250

    def tracks(self, rng):
        """Tracks of different lengths, until nobody is infected."""
        n_steps = N // self.n_tracks
        counts = epidemic.simulate_epidemic(
            epidemic.uniform_counts(self.n_tracks, rng), self.h * np.arange(n_steps + 1), rng
        )
        found = []
        for track in counts:
            alive = np.flatnonzero(track[:, 1] == 0)
            last = len(track) if not len(alive) else alive[0] + 1
            if last > 2:
                found.append(track[:last, :2] / epidemic.POPULATION)
        return found


def constant(*values):
    matrix = np.diag(values) if np.ndim(values) == 1 else np.asarray(values)
    return lambda x: np.broadcast_to(matrix, (len(x), *matrix.shape))


def gaussian(*spread):
    return lambda rng, n: rng.standard_normal((n, len(spread))) * spread


def well_noise(x):
    return np.sqrt(0.2 + 0.1 * x**2)[:, :, None]


def van_der_pol(x):
    return np.stack([x[:, 1], 2 * x[:, 1] - 2 * x[:, 0] ** 2 * x[:, 1] - x[:, 0]], axis=1)


def lorenz(x):
    a, b, c = x.T
    return np.stack([10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c], axis=1)


A = np.array(
    [[-1.0, 0.8, 0, 0, 0], [-0.8, -1, 0, 0, 0], [0, 0.5, -1.5, 0, 0], [0, 0, 0.7, -1, 0.5], [0.6, 0, 0, 0, -2]]
)
ROOT = np.array([[0.7, 0, 0, 0, 0], [0.3, 0.6, 0, 0, 0], [0, 0, 0.5, 0, 0], [0, 0, 0, 0.8, 0], [0, 0, 0, 0, 0.6]])
FIVE = tuple("abcde")


def crooked(x):
    """A drift with a kink and ripples."""
    return -np.abs(x) * x + 1.5 * np.sin(5 * x) * np.exp(-(x**2))


def linear_truth():
    truth = {(f"f_{FIVE[i]}", FIVE[j]): A[i, j] for i, j in zip(*np.nonzero(A), strict=True)}
    sigma = ROOT @ ROOT.T
    lower = zip(*np.nonzero(np.tril(sigma)), strict=True)
    return truth | {(f"Σ_{FIVE[i]}" if i == j else f"Σ_{FIVE[i]},{FIVE[j]}", "1"): sigma[i, j] for i, j in lower}


LORENZ = {("f_x", "x"): -10, ("f_x", "y"): 10, ("f_y", "x"): 28, ("f_y", "y"): -1, ("f_y", "x z"): -1}
LORENZ |= {("f_z", "x y"): 1, ("f_z", "z"): -8 / 3, **{(f"Σ_{name}", "1"): 4.0 for name in "xyz"}}
P = epidemic.POPULATION
SIR = {("f_s", "s i"): -4.0, ("f_i", "s i"): 4.0, ("f_i", "i"): -1.0, ("Σ_s", "s i"): 4 / P, ("Σ_i,s", "s i"): -4 / P}
SIR |= {("Σ_i", "s i"): 4 / P, ("Σ_i", "i"): 1 / P}
SYSTEMS = {
    "well": System(
        "double well with multiplicative noise", ("x",), lambda x: x - x**3, well_noise, gaussian(1.0), 0.02,
        {("f_x", "x"): 1.0, ("f_x", "x³"): -1.0, ("Σ_x", "1"): 0.2, ("Σ_x", "x²"): 0.1},
    ),
    "vdp": System(
        "van der Pol", ("x", "y"), van_der_pol, constant(0.3, 0.5), gaussian(1.0, 1.0), 0.02,
        {("f_x", "y"): 1.0, ("f_y", "x"): -1.0, ("f_y", "y"): 2.0, ("f_y", "x² y"): -2.0, ("Σ_x", "1"): 0.09,
         ("Σ_y", "1"): 0.25},
    ),
    "lorenz": System(
        "Lorenz 63 with noise", ("x", "y", "z"), lorenz, constant(2.0, 2.0, 2.0),
        lambda rng, n: rng.standard_normal((n, 3)) * 5 + [0, 0, 25], 0.005, LORENZ,
    ),
    "sir": Epidemic("epidemic among 1,024, event by event", ("s", "i"), 0.01, SIR),
    "linear": System(
        "Ornstein-Uhlenbeck, five variables", FIVE, lambda x: x @ A.T, lambda x: np.broadcast_to(ROOT, (len(x), 5, 5)),
        gaussian(*5 * [0.5]), 0.05, linear_truth(),
    ),
    "crooked": System(
        "a drift that no short formula fits", ("x",), crooked, constant(0.7), gaussian(1.0), 0.02, None,
    ),
}  # fmt: skip
