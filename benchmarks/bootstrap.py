"""Bootstrap samples of tracks: how often a Σ that doubles across the range is found constant.

Tracks of a double well, dx = (x − x³) dt + σ(x) dW with σ² from 0.2 at x = −1.5 to 0.4 at x = 1.5. Each seed draws as
many tracks as there are, with replacement, and learns from these. The tracks drawn from are the same for all seeds.

    python benchmarks/bootstrap.py [--seeds 40] [--cases 5000 ...] [--output FILE] [--against FILE]
"""

import numpy as np
import runs
from runs import Column

import itofit

H = 0.02
STEPS = 100
SUBSTEPS = 5
RANGE = 1.5
CONSTANT = 0.01
CASES = {str(n): f"{n // STEPS} tracks of {STEPS} transitions" for n in (2_000, 5_000, 20_000)}
COLUMNS = [
    Column("constant", "share of samples in which Σ is constant"),
    Column("doubling", "log2 of Σ(1.5) / Σ(−1.5), true 1", worst=min),
    Column("error", "relative error of Σ"),
    Column("seconds", "seconds", ".2f"),
]


def variance(x):
    return 0.2 * 2 ** ((x + RANGE) / (2 * RANGE))


def tracks(n):
    """N tracks (n, STEPS + 1, 1) from places spread evenly."""
    rng = np.random.default_rng(40)
    x = rng.uniform(-RANGE, RANGE, n)
    path, h = [x], H / SUBSTEPS
    for _ in range(STEPS):
        for _ in range(SUBSTEPS):
            x = x + h * (x - x**3) + np.sqrt(h * variance(x)) * rng.standard_normal(n)
        path.append(x)
    return np.stack(path, axis=1)[:, :, None]


def measure(case, seed):
    """One bootstrap sample."""
    paths = tracks(int(case) // STEPS)
    drawn = np.random.default_rng([seed, 40]).integers(len(paths), size=len(paths))
    sde, seconds = runs.fitted(itofit.Transitions.from_trajectories(list(paths[drawn]), dt=H), seed)
    places = np.linspace(-RANGE, RANGE, 301)
    learned = sde.covariance(places)[:, 0, 0]
    return {
        "constant": float(np.ptp(learned) < CONSTANT * learned.mean()),
        "doubling": float(np.log2(learned[-1] / learned[0])),
        "error": runs.relative_error(learned, variance(places)),
        "seconds": seconds,
    }


if __name__ == "__main__":
    runs.main(__doc__, "bootstrap", CASES, measure, COLUMNS, seeds=40)
