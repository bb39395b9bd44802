"""Linear systems: the default against ordinary least squares, and how often its 95 % bands cover the truth.

Random stable systems dx = −A x dt + L dW of two to six variables with full noise, one track of 20,000 Euler steps each;
and an Ornstein-Uhlenbeck process seen for 100 to a million Euler steps. Errors are root mean squares at places of the
track itself. Each seed is a system of its own.

    python benchmarks/linear_systems.py [--seeds 20] [--cases 2 3 4 5 6 ou-100 ...] [--output FILE] [--against FILE]
"""

import numpy as np
import runs
from runs import Column
from scipy.signal import lfilter

import itofit

N = 20_000
H = 0.02
OU_H = 0.1
PLACES = 2_500
Z = 1.959964
OU_ROWS = {f"ou-{n}": n for n in (100, 1_000, 10_000, 100_000, 1_000_000)}
CASES = {str(d): f"random linear systems of {d} variables, {N:,} transitions" for d in range(2, 7)}
CASES |= {name: f"Ornstein-Uhlenbeck, {n:,} transitions" for name, n in OU_ROWS.items()}
COLUMNS = [
    Column("drift_error", "drift error", ".4f"),
    Column("least_squares_error", "that of least squares", ".4f"),
    Column("ratio", "ratio of the two"),
    Column("coverage", "share of the drift within 95 % bands", worst=min),
    Column("least_squares_coverage", "within those of least squares", worst=min),
    Column("seconds", "seconds", ".2f"),
]


def random_system(rng, d):
    """A (d, d) whose eigenvalues have real parts of at least 0.3, and a factor L (d, d) of the noise."""
    while True:
        A = np.eye(d) + 0.3 * rng.standard_normal((d, d))
        if np.linalg.eigvals(A).real.min() >= 0.3:
            return A, 0.4 * (np.eye(d) + 0.3 * rng.standard_normal((d, d)))


def track(rng, A, L):
    """N Euler steps from the origin."""
    step = np.eye(len(A)) - H * A
    noise = np.sqrt(H) * rng.standard_normal((N, len(A))) @ L.T
    x = np.zeros((N + 1, len(A)))
    for i in range(N):
        x[i + 1] = step @ x[i] + noise[i]
    return x


def ornstein_uhlenbeck(rng, n):
    """N Euler steps of dx = −x dt + 0.5 dW from the stationary distribution."""
    noise = 0.5 * np.sqrt(OU_H) * rng.standard_normal(n + 1)
    noise[0] /= np.sqrt(1 - (1 - OU_H) ** 2)
    return lfilter([1.0], [1.0, OU_H - 1], noise)[:, None]


def least_squares(x, h, places):
    """Drift at places of the regression of rates on states, and its standard errors."""
    X, rates, at = _with_constant(x[:-1]), np.diff(x, axis=0) / h, _with_constant(places)
    coefficients = np.linalg.lstsq(X, rates, rcond=None)[0]
    variance = np.sum((rates - X @ coefficients) ** 2, axis=0) / (len(X) - X.shape[1])
    leverage = np.einsum("ni,ij,nj->n", at, np.linalg.inv(X.T @ X), at)
    return at @ coefficients, np.sqrt(np.outer(leverage, variance))


def _with_constant(x):
    return np.concatenate([np.ones((len(x), 1)), x], axis=1)


def measure(case, seed):
    """One system."""
    rng = np.random.default_rng([seed, len(case), 41])
    if case in OU_ROWS:
        A, h, x = np.eye(1), OU_H, ornstein_uhlenbeck(rng, OU_ROWS[case])
    else:
        A, L = random_system(rng, int(case))
        h, x = H, track(rng, A, L)
    sde, seconds = runs.fitted(itofit.Transitions.from_trajectories(x, dt=h), seed, correct_step=False)
    places = x[:: -(-len(x) // PLACES)]
    truth = -places @ A.T
    drift, std = sde.drift(places, return_std=True)
    plain, plain_std = least_squares(x, h, places)
    error, other = (runs.root_mean_square(values - truth) for values in (drift, plain))
    return {
        "drift_error": error,
        "least_squares_error": other,
        "ratio": error / other,
        "coverage": float(np.mean(np.abs(drift - truth) < Z * std)),
        "least_squares_coverage": float(np.mean(np.abs(plain - truth) < Z * plain_std)),
        "seconds": seconds,
    }


if __name__ == "__main__":
    runs.main(__doc__, "linear_systems", CASES, measure, COLUMNS, seeds=20)
