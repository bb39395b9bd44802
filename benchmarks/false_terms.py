"""How often formulas have false terms: at the level 0.2, so that few data sets tell.

The promise is that at most this share of formulas has any false term (Bonferroni: less, as terms are correlated). Runs
are small so that there can be many: Ornstein-Uhlenbeck in three variables, a double well, an epidemic event by event.

    python benchmarks/false_terms.py [--seeds 40] [--cases linear ...] [--output FILE] [--results]
"""

import numpy as np
import runs
from formula import terms_of
from formula_systems import SYSTEMS, System, constant, gaussian, linear_truth
from runs import Column

import itofit

LEVEL = 0.2
ABC = tuple("abc")
DRIFT = np.array([[-1.0, 0.8, 0], [-0.8, -1, 0], [0, 0.5, -1.5]])
ROOT = np.array([[0.7, 0, 0], [0.3, 0.6, 0], [0, 0, 0.5]])
LINEAR = System(
    "Ornstein-Uhlenbeck, three variables", ABC, lambda x: x @ DRIFT.T, constant(*ROOT), gaussian(*3 * [0.5]), 0.05,
    {key: value for key, value in linear_truth().items() if not {*"de"} & {*key[0], *key[1]}},
)  # fmt: skip
CHOSEN = {"linear": (LINEAR, 10_000), "well": (SYSTEMS["well"], 10_000), "sir": (SYSTEMS["sir"], 20_000)}
CASES = {name: f"{system.text}, {n:,} transitions" for name, (system, n) in CHOSEN.items()}
COLUMNS = [
    Column("drift", "formulas with a false term of the drift", ".3f", worst=None),
    Column("noise", "with a false term of the noise", ".3f", worst=None),
    Column("either", "with any", ".3f", worst=None),
]


def measure(case, seed):
    """One data set."""
    system, n = CHOSEN[case]
    tracks = list(system.tracks(np.random.default_rng([seed, 23])))
    every = max(1, sum(len(track) - 1 for track in tracks) // n)
    data = itofit.Transitions.from_trajectories(tracks[::every], dt=system.h, names=system.names)
    sde, _ = runs.fitted(data, seed)
    found = terms_of(sde.formula(data, false_alarms=LEVEL))
    false = {" ".join(key): round(c / s, 2) for key, (c, s) in found.items() if key not in system.truth}
    drift, noise = (any(name.startswith(letter) for name in false) for letter in "fΣ")
    return {
        "drift": float(drift),
        "noise": float(noise),
        "either": float(drift or noise),
        "false": false,
        "n": len(data),
    }


if __name__ == "__main__":
    runs.main(__doc__, "false_terms", CASES, measure, COLUMNS, seeds=40)
