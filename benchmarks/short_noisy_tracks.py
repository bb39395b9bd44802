"""Many short tracks with errors of measurement: how much too steep the drift comes out.

Ornstein-Uhlenbeck tracks, dx = −x dt + dW from the stationary distribution, seen every 0.1 with known errors, 6,000
steps in all. Of where a track starts its first observation is all that the filter knows.

    python benchmarks/short_noisy_tracks.py [--seeds 5] [--cases 5-0.3 ...]
"""

import numpy as np
import runs
from runs import Column

import itofit

N_STEPS, H = 6_000, 0.1
CASES = {
    f"{steps}-{sd}": f"tracks of {steps} steps, errors of {sd / np.sqrt(0.5):.0%} of the spread of the states"
    for sd in (0.1, 0.3)
    for steps in (2, 5, 10, 50)
}
COLUMNS = [
    Column("slope", "slope of the drift over the true one", ".2f"),
    Column("slope_bar", "its error bar", ".2f", worst=None),
    Column("sigma", "Σ over the true one", ".2f"),
]


def measure(case, seed):
    """One data set."""
    steps, sd = case.split("-")
    n, sd = int(steps), float(sd)
    rng = np.random.default_rng([seed, 31])
    decay = np.exp(-H)
    x = np.empty((N_STEPS // n, n + 1))
    x[:, 0] = np.sqrt(0.5) * rng.standard_normal(len(x))
    for i in range(n):
        x[:, i + 1] = decay * x[:, i] + np.sqrt((1 - decay**2) / 2) * rng.standard_normal(len(x))
    seen = x + sd * rng.standard_normal(x.shape)
    data = itofit.Transitions.from_trajectories(list(seen[:, :, None]), dt=H)
    sde, _ = runs.fitted(data, seed, measurement_noise=sd)
    f, f_std = sde.drift([[-0.5], [0.5]], return_std=True)
    return {
        "slope": float(f[0, 0] - f[1, 0]),
        "slope_bar": float(np.hypot(*f_std[:, 0])),
        "sigma": float(sde.covariance([[0.0]])[0, 0, 0]),
    }


if __name__ == "__main__":
    runs.main(__doc__, "short_noisy_tracks", CASES, measure, COLUMNS, seeds=5)
