"""Harder data than the paper's: the default against the paper's settings and the truth, paired on the same data.

Every case is one Euler-Maruyama step of a known equation from random starting points, so that the loss of the truth is
the best there is. Held-out points are new ones. Results go to benchmarks/results/hard_cases.json.

    python benchmarks/hard_cases.py [--seeds 5] [--cases rotating bump ...]
"""

import argparse
import time
import warnings
from typing import NamedTuple

import numpy as np
from common import mean_and_error, write_results

import itofit
from itofit.model.likelihood import gaussian_nll

PAPER = itofit.ARFF(
    n_features=128, ridge=2e-3, delta=0.1, gamma=1.0, pairing="printed", min_iterations=20, max_iterations=300
)


class Case(NamedTuple):
    """An equation and its starting points."""

    text: str
    n: int
    start: object  # rng, n -> (n, d)
    drift: object
    sigma: object  # (n, d) -> (n, d, d)
    h: float = 0.01
    n_held_out: int = 5_000

    def sample(self, rng, n):
        """As many transitions."""
        x = self.start(rng, n)
        noise = rng.standard_normal(x.shape)
        dx = self.h * self.drift(x) + np.sqrt(self.h) * np.einsum("nij,nj->ni", self.sigma(x), noise)
        return itofit.Transitions.from_pairs(x, x + dx, self.h)

    def true_nll(self, data):
        """Loss of each transition under the true functions."""
        sigma = self.sigma(data.inputs)
        return gaussian_nll(data.increments, data.h, self.drift(data.inputs), sigma @ sigma.swapaxes(1, 2))


def box(d, side=1.0):
    return lambda rng, n: rng.uniform(-side, side, (n, d))


def diagonal(function):
    return lambda x: function(x)[:, :, None] * np.eye(x.shape[1])


def rotating(x):
    angle = np.pi * x[:, 0]
    c, s = np.cos(angle), np.sin(angle)
    R = np.stack([np.stack([c, -s], axis=1), np.stack([s, c], axis=1)], axis=1)
    return R * np.array([0.5, 0.01])


def coupled(x):
    return -x + 0.8 * np.sin(2 * np.roll(x, 1, axis=1)) * np.cos(x)


CASES = {
    "rotating": Case(
        "2-D, noise 50 times weaker in a direction that turns once", 10_000, box(2), lambda x: -x, rotating
    ),
    "bump": Case(
        "1-D, drift with a bump a fortieth of the range wide",
        20_000,
        box(1),
        lambda x: -x + 10 * np.exp(-((x - 0.4) ** 2) / (2 * 0.025**2)),
        diagonal(lambda x: np.full_like(x, 0.3)),
    ),
    "decades": Case(
        "1-D, σ from 1e-4 to 1", 10_000, box(1), lambda x: np.sin(3 * x), diagonal(lambda x: 10.0 ** (2 * x - 2))
    ),
    "tails": Case(
        "2-D, starts with Student's t of 2 degrees of freedom",
        10_000,
        lambda rng, n: rng.standard_t(2, (n, 2)),
        lambda x: -2 * np.tanh(x),
        diagonal(lambda x: 0.3 + 0.2 / (1 + x**2)),
    ),
    "n300": Case(
        "1-D double well, 300 transitions",
        300,
        box(1, 1.5),
        lambda x: x - x**3,
        diagonal(lambda x: 0.5 + 0.1 * x),
        0.05,
    ),
    "d6": Case("6-D ring of coupled variables", 10_000, box(6), coupled, diagonal(lambda x: 0.2 + 0.1 * np.cos(x))),
    "d10": Case("10-D ring of coupled variables", 20_000, box(10), coupled, diagonal(lambda x: 0.2 + 0.1 * np.cos(x))),
    "noise": Case("1-D, no drift", 2_000, box(1), np.zeros_like, diagonal(np.ones_like)),
    "n100": Case(
        "1-D Ornstein-Uhlenbeck, 100 transitions", 100, box(1), lambda x: -x, diagonal(lambda x: 0.5 + 0 * x), 0.1
    ),
}


def run(case, seed):
    """Loss above the truth's, drift and relative covariance error, and seconds, of both fits."""
    rng = np.random.default_rng([seed, 7])
    data, held_out = case.sample(rng, case.n), case.sample(rng, case.n_held_out)
    truth = case.true_nll(held_out).mean()
    sigma = case.sigma(held_out.inputs)
    covariance = sigma @ sigma.swapaxes(1, 2)
    result = {}
    for name, options in (("default", {}), ("paper", {"refine": False, "drift": PAPER, "covariance": PAPER})):
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", itofit.ConvergenceWarning)
            warnings.simplefilter("ignore", itofit.DataWarning)
            sde = itofit.fit(data, rng=seed, **options)
        seconds = time.perf_counter() - began
        drift_error = np.sqrt(np.mean((sde.drift(held_out.inputs) - case.drift(held_out.inputs)) ** 2))
        difference = sde.covariance(held_out.inputs) - covariance
        result[name] = {
            "excess": float(sde.nll(held_out) - truth),
            "drift_error": float(drift_error),
            "covariance_error": float(np.sqrt((difference**2).sum() / (covariance**2).sum())),
            "seconds": seconds,
            "chosen": f"{sde.structure}, {sde.link}",
        }
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    arguments = parser.parse_args()
    rows = []
    print("case      above the truth's: default, paper   worst default   drift error   covariance error   seconds")
    for name in arguments.cases:
        runs = [run(CASES[name], seed) for seed in range(arguments.seeds)]
        row = {"case": name, "text": CASES[name].text, "rows": CASES[name].n, "seeds": arguments.seeds}
        for which in ("default", "paper"):
            for field in ("excess", "drift_error", "covariance_error", "seconds"):
                row[f"{which}_{field}"] = float(np.mean([r[which][field] for r in runs]))
            row[f"{which}_worst"] = float(max(r[which]["excess"] for r in runs))
        row["difference"], row["difference_standard_error"] = mean_and_error(
            [r["default"]["excess"] - r["paper"]["excess"] for r in runs]
        )
        row["chosen"] = sorted({r["default"]["chosen"] for r in runs})
        rows.append(row)
        print(
            f"{name:<10} {row['default_excess']:>12.4f} {row['paper_excess']:>12.4f} {row['default_worst']:>16.4f} "
            f"{row['default_drift_error']:>12.4f} {row['paper_drift_error']:.4f} "
            f"{row['default_covariance_error']:>12.4f} {row['paper_covariance_error']:.4f} "
            f"{row['default_seconds']:>8.2f} {row['paper_seconds']:.2f}  {row['chosen']}",
            flush=True,
        )
    write_results("hard_cases", rows)


if __name__ == "__main__":
    main()
