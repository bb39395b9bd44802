"""Noise that is nearly singular in a direction that turns around the origin: how far Σ overshoots.

dx = −x dt + noise of standard deviation 1 across and 1/50, 1/300 or 1/1000 along a direction that turns once or twice
on the way around the origin; single Euler steps of length 10⁻³ from places spread evenly over [−1, 1]², or normally.
The default and Algorithm 2 with K = 512 learn from the same data. Largest eigenvalues and errors of Σ are those at the
data's own places, the largest true one is 1; losses are on new transitions, above that of the truth.

    python benchmarks/turning_noise.py [--seeds 10] [--cases 50-1-even ...] [--output FILE] [--against FILE]

Runs are kept in benchmarks/results/turning_noise.jsonl, as random_equations.py keeps its own.
"""

import warnings

import numpy as np
import runs
from runs import Column

import itofit
from itofit.model.likelihood import gaussian_nll

N = 100_000
OTHER_ROWS = (10_000, 30_000, 300_000)
HELD_OUT = 20_000
PLACES = 50_000
H = 1e-3
KINDS = [(weak, turns, places, N) for places in ("even", "normal") for weak in (50, 300, 1000) for turns in (1, 2)]
KINDS += [(300, 1, "even", n) for n in OTHER_ROWS]
CASES = {
    f"{weak}-{turns}-{places}" + (f"-{n}" if n != N else ""): f"standard deviations 1 and 1/{weak}, {turns} "
    f"turn{'s' if turns > 1 else ''}, {'places spread evenly' if places == 'even' else 'normal places'}, {n:,} rows"
    for weak, turns, places, n in KINDS
}
COLUMNS = [
    Column("largest", "largest eigenvalue at the data", ".2f"),
    Column("error", "error of Σ's entries"),
    Column("excess", "held-out loss above the truth's"),
    Column("seconds", "seconds", ".1f"),
    Column("paper_largest", "Algorithm 2: largest eigenvalue", ".2f"),
    Column("paper_error", "Algorithm 2: error of Σ's entries"),
    Column("paper_excess", "Algorithm 2: held-out loss above", ".2f"),
    Column("paper_seconds", "Algorithm 2: seconds", ".1f"),
]
PAPER = {"refine": False, "covariance": itofit.ARFF(n_features=512)}


def factor(x, weak, turns):
    """σ (n, 2, 2): its columns are the strong and the weak direction."""
    angle = turns * np.arctan2(x[:, 1], x[:, 0])
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([np.stack([c, -s / weak], axis=1), np.stack([s, c / weak], axis=1)], axis=1)


def sample(rng, n, weak, turns, places):
    """Transitions and their true Σ."""
    x = rng.uniform(-1, 1, (n, 2)) if places == "even" else rng.standard_normal((n, 2))
    sigma = factor(x, weak, turns)
    dx = -H * x + np.sqrt(H) * np.einsum("nij,nj->ni", sigma, rng.standard_normal(x.shape))
    return itofit.Transitions(x, dx, H, kind="diffusion"), sigma @ sigma.swapaxes(1, 2)


def judged(sde, data, covariance, held_out, truth):
    """Largest eigenvalue and error of Σ at the data, and the loss on new ones above the truth's."""
    learned = sde.covariance(data.inputs[:PLACES])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss = sde.nll(held_out)
    return {
        "largest": float(np.linalg.eigvalsh(learned)[:, -1].max()),
        "error": runs.root_mean_square(learned - covariance[:PLACES]),
        "excess": float(loss - truth),
    }


def measure(case, seed):
    """Both fits to one data set."""
    weak, turns, places, n = KINDS[list(CASES).index(case)]
    rng = np.random.default_rng([seed, 300])
    held_out, true_covariance = sample(rng, HELD_OUT, weak, turns, places)
    data, covariance = sample(rng, n, weak, turns, places)
    truth = gaussian_nll(held_out.increments, held_out.h, -held_out.inputs, true_covariance).mean()
    sde, seconds = runs.fitted(data, seed, correct_step=False)
    run = judged(sde, data, covariance, held_out, truth) | {"seconds": seconds, "link": sde.link}
    sde, seconds = runs.fitted(data, seed, **PAPER)
    paper = judged(sde, data, covariance, held_out, truth) | {"seconds": seconds}
    return run | {f"paper_{name}": value for name, value in paper.items()}


if __name__ == "__main__":
    runs.main(__doc__, "turning_noise", CASES, measure, COLUMNS)
