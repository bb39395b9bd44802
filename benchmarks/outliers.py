"""One transition that starts far away from all others: errors of drift and covariance with it and without it.

Single Euler steps of length 0.01 in a double well (one input) and in a cellular flow (two inputs). The outlier starts a
thousand or a million ranges away from the others, with noise of the usual size. Errors are relative and measured within
the range of the others.

    python benchmarks/outliers.py [--seeds 10] [--cases well-1e3 ...] [--output FILE] [--against FILE]
"""

from typing import NamedTuple

import numpy as np
import runs
from runs import Column

import itofit

H = 0.01
N = 50_000
PLACES = 5_000


class Equation(NamedTuple):
    """An equation with noise along the axes, on [−1, 1]^m."""

    text: str
    m: int
    drift: object  # (n, m) -> (n, m)
    noise: object  # (n, m) -> (n, m), standard deviations


def flow(x):
    s, c = np.sin(np.pi * x.T), np.cos(np.pi * x.T)
    return 2 * np.stack([s[0] * c[1], -c[0] * s[1]], axis=1)


EQUATIONS = {
    "well": Equation("double well", 1, lambda x: 4 * (x - 2 * x**3), lambda x: 0.5 + 0.2 * np.sin(4 * x)),
    "flow": Equation("cellular flow", 2, flow, lambda x: 0.5 + 0.2 * np.cos(3 * x)),
}
CASES = {
    f"{name}-{away}": f"{equation.text}, {N:,} transitions and one that starts {float(away):,.0f} ranges away"
    for name, equation in EQUATIONS.items()
    for away in ("1e3", "1e6")
}
COLUMNS = [
    Column("drift_ratio", "drift error with the outlier / without"),
    Column("covariance_ratio", "covariance error with the outlier / without"),
    Column("drift_error", "relative drift error with the outlier"),
    Column("covariance_error", "relative covariance error with the outlier"),
    Column("seconds", "seconds", ".2f"),
]


def measure(case, seed):
    """Both fits."""
    name, away = case.split("-")
    equation, rng = EQUATIONS[name], np.random.default_rng([seed, 1000])
    x = rng.uniform(-1, 1, (N + 1, equation.m))
    dx = H * equation.drift(x) + np.sqrt(H) * equation.noise(x) * rng.standard_normal(x.shape)
    x[-1] = 2 * float(away)
    data, places = itofit.Transitions(x, dx, H, kind="diffusion"), rng.uniform(-1, 1, (PLACES, equation.m))
    run = {}
    for rows, suffix in ((data, ""), (data[:-1], "_without")):
        sde, run[f"seconds{suffix}"] = runs.fitted(rows, seed, correct_step=False)
        variances = np.diagonal(sde.covariance(places), axis1=1, axis2=2)
        run[f"drift_error{suffix}"] = runs.relative_error(sde.drift(places), equation.drift(places))
        run[f"covariance_error{suffix}"] = runs.relative_error(variances, equation.noise(places) ** 2)
    ratios = {f"{what}_ratio": run[f"{what}_error"] / run[f"{what}_error_without"] for what in ("drift", "covariance")}
    return ratios | run


if __name__ == "__main__":
    runs.main(__doc__, "outliers", CASES, measure, COLUMNS)
