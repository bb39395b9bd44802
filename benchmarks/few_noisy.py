"""Few observations with errors of measurement: whether a fit through them is worse than constants, or the plain fit.

Random equations of one to five variables whose tracks are seen with errors (`fuzz_equations.py`), of up to 400
transitions; the first 1,000 of all are left to the campaign. Losses are per variable, with fresh noise at the true
states, and above those of the best constant drift and covariance of the observed increments. Errors are of 0.03 to 2
times the root mean square of a step, so in many data sets they cannot be told, and the fit is the plain one.

    python benchmarks/few_noisy.py [--seeds 100] [--output FILE] [--against FILE]
"""

import itertools
import warnings

import fuzz_equations
import numpy as np
import runs
from fuzz_equations import FRESH, World, above_constants
from random_equations import ALLOWED
from runs import Column

import itofit
from itofit.learning.automatic.few_data import FEW_ROWS

FIRST, LEAST = 1_000, 50
CASES = {"few": f"random equations seen with errors, at most {FEW_ROWS} transitions"}
COLUMNS = [
    Column("found", "errors were found", worst=None),
    Column("worse", f"more than {ALLOWED} above constants"),
    Column("plain_worse", "the same of the plain fit"),
    Column("above", "loss above constants'", worst=max),
    Column("plain", "that of the plain fit", worst=max),
    Column("change", "difference of both", worst=max),
    Column("seconds", "seconds", ".2f"),
]


def world_of(place):
    """The so-manyth equation, and its seed."""
    seeds = (seed for seed in itertools.count(FIRST) if LEAST <= fuzz_equations.size(seed) <= FEW_ROWS)
    worlds = ((World(seed), seed) for seed in seeds)
    return next(itertools.islice(((world, seed) for world, seed in worlds if world.form == "noise"), place, None))


def measure(case, place):
    """One equation."""
    world, seed = world_of(place)
    drawn, again = (np.random.default_rng([seed, 31, part]) for part in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data, z, h = world.seen(drawn)
        rows = np.resize(np.arange(len(z)), max(FRESH, len(z)))
        fresh = world.pairs(again, z[rows], h[rows])
        plain = itofit.fit(data, rng=seed, measurement_noise=False)
    sde, seconds = runs.fitted(data, seed)
    above, plain_above = (above_constants(world, each, data, fresh) for each in (sde, plain))
    return {
        "equation": seed,
        "n": len(data),
        "d": world.d,
        "found": int(sde.measurement_noise is not None),
        "worse": int(not above <= ALLOWED),
        "plain_worse": int(not plain_above <= ALLOWED),
        "above": above,
        "plain": plain_above,
        "change": above - plain_above,
        "seconds": seconds,
    }


if __name__ == "__main__":
    runs.main(__doc__, "few_noisy", CASES, measure, COLUMNS, seeds=100)
