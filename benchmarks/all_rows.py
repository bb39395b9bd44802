"""Accuracy against the number of transitions: cellular flows in two and three inputs.

Single Euler steps of length 0.01 of a flow in vortices, from places spread evenly over [−1, 1]², with noise that varies
as fast as the flow. Errors are relative and measured at new places. The error that can be attained is that of least
squares, without weights, on the waves the drift is made of. Memory is what the fit needed besides the data.

    python benchmarks/all_rows.py [--seeds 10] [--cases 3pi-1e5 3pi-1e6 ...] [--output FILE] [--against FILE]
"""

from itertools import product
from pathlib import Path

import numpy as np
import runs
from runs import Column

import itofit

H = 0.01
SPEED = 0.4
CHUNK = 500_000
PLACES = 5_000
SIZES = {"1e5": 10**5, "1e6": 10**6, "1e7": 10**7}
CASES = {f"{k:g}pi-{size}": f"two inputs, k = {k:g}π, {n:,} transitions"
         for k in (1.5, 3, 6) for size, n in SIZES.items()}  # fmt: skip
CASES |= {
    "vortices-1e6": "three inputs, products of three waves, k = 3π, 1,000,000 transitions",
    "abc-1e6": "three inputs, sums of waves along axes (ABC), k = 3π, 1,000,000 transitions",
}
COLUMNS = [
    Column("drift_error", "relative drift error"),
    Column("right_waves_error", "of least squares on the right waves"),
    Column("ratio", "ratio of the two"),
    Column("covariance_error", "relative covariance error", ".4f"),
    Column("seconds", "seconds", ".1f"),
    Column("extra_megabytes", "peak memory besides the data, MB", ".0f"),
]


class Flow:
    """A drift made of a few waves, with noise along the axes.

    Parameters
    ----------
    kind : str
        A wave number in π for two inputs, or the name of a flow with three.
    """

    def __init__(self, kind):
        self.kind = kind
        self.m = 3 if kind in ("vortices", "abc") else 2
        self.k = np.pi * (3.0 if self.m == 3 else float(kind.removesuffix("pi")))

    @property
    def waves(self):
        """Frequencies of the drift (K, m)."""
        if self.kind == "abc":
            return self.k * np.eye(3)
        return self.k * np.array([(1, *signs) for signs in product((1, -1), repeat=self.m - 1)])

    def drift(self, x):
        """The drift at places x, without divergence."""
        s, c = np.sin(self.k * x.T), np.cos(self.k * x.T)
        if self.kind == "abc":
            return SPEED / 2 * np.stack([s[2] + c[1], s[0] + c[2], s[1] + c[0]], axis=1)
        if self.kind == "vortices":
            parts = [s[0] * c[1] * c[2], -0.5 * c[0] * s[1] * c[2], -0.5 * c[0] * c[1] * s[2]]
            return SPEED * np.stack(parts, axis=1)
        return SPEED * np.stack([s[0] * c[1], -c[0] * s[1]], axis=1)

    def noise(self, x):
        """Standard deviation of each output's noise."""
        waves = [np.cos(self.k * (x[:, 0] + x[:, 1])), np.sin(self.k * x[:, 0]), np.cos(self.k * x[:, -1])]
        return 0.5 + 0.2 * np.stack(waves[: self.m], axis=1)

    def sample(self, rng, n):
        """N transitions, made in parts to save memory."""
        x = rng.uniform(-1, 1, (n, self.m))
        dx = rng.standard_normal(x.shape)
        for start in range(0, n, CHUNK):
            part = slice(start, start + CHUNK)
            dx[part] = H * self.drift(x[part]) + np.sqrt(H) * self.noise(x[part]) * dx[part]
        return itofit.Transitions(x, dx, H, kind="diffusion")

    def least_squares(self, data, places):
        """The drift at places by regression on its own waves."""
        gram, right = 0.0, 0.0
        for start in range(0, len(data), CHUNK):
            basis = self._basis(data.inputs[start : start + CHUNK])
            gram = gram + basis.T @ basis
            right = right + basis.T @ data.increments[start : start + CHUNK]
        return self._basis(places) @ np.linalg.solve(gram, right) / H

    def _basis(self, x):
        angles = x @ self.waves.T
        return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


def memory_status(field):
    """A line of /proc/self/status in megabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1e3
    raise RuntimeError("memory is read from /proc, which this system does not have")


def measure(case, seed):
    """One fit."""
    kind, size = case.split("-")
    flow, rng = Flow(kind), np.random.default_rng([seed, 14])
    data = flow.sample(rng, SIZES[size])
    places = rng.uniform(-1, 1, (PLACES, flow.m))
    truth, variances = flow.drift(places), flow.noise(places) ** 2
    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins here
    before = memory_status("VmRSS")
    sde, seconds = runs.fitted(data, seed, correct_step=False)
    extra = memory_status("VmHWM") - before
    error = runs.relative_error(sde.drift(places), truth)
    attainable = runs.relative_error(flow.least_squares(data, places), truth)
    learned = np.diagonal(sde.covariance(places), axis1=1, axis2=2)
    return {
        "drift_error": error,
        "right_waves_error": attainable,
        "ratio": error / attainable,
        "covariance_error": runs.root_mean_square(learned / variances - 1),
        "seconds": seconds,
        "extra_megabytes": extra,
    }


if __name__ == "__main__":
    runs.main(__doc__, "all_rows", CASES, measure, COLUMNS, fresh=True)
