"""Few data: whether the default is worse than constants, and what moving unclear fits to constants changes.

Random equations (`random_equations.py`) with at most 400 transitions, learned by the default and without what it does
for few data (`itofit.learning.automatic.few_data`, and folds of single rows). Losses are per variable and above those
of the best constant drift and covariance of the same data, with fresh noise at the training inputs and for new data
within their range.

    python benchmarks/few_data.py [--seeds 80] [--jobs 2] [--output FILE]
"""

import itertools
import warnings
from unittest import mock

import numpy as np
import random_equations
import runs
from random_equations import ALLOWED
from runs import Column

from itofit.learning.automatic import few_data, method

CASES = {"few": f"random equations with at most {few_data.FEW_ROWS} transitions"}
COLUMNS = [
    Column("plain_worse", f"more than {ALLOWED} above constants, as learned"),
    Column("worse", "the same of the default"),
    Column("plain", "loss above constants', as learned", worst=max),
    Column("above", "the same of the default", worst=max),
    Column("change", "what the default changes", ".4f"),
    Column("change_within", "the same within the range", ".4f"),
    Column("given_up", "share that loses more than 0.1", worst=None),
    Column("seconds", "seconds", ".2f"),
]


def rows(seed):
    """How many transitions are asked for, before any are made."""
    drawn = np.random.default_rng(np.random.SeedSequence([seed, 399]).spawn(4)[0])
    d = int(drawn.integers(1, 5))
    random_equations.Equation(drawn, d)
    return random_equations.Observation(drawn, d).n


def equation_of(place):
    """The seed of the random equation that is the so-manyth with few transitions."""
    few = (seed for seed in itertools.count() if rows(seed) <= few_data.FEW_ROWS)
    return next(itertools.islice(few, place, None))


def measure(case, place):
    """One equation."""
    seed = equation_of(place)
    given = random_equations.problem(seed)
    sde, seconds = runs.fitted(given.train, seed)
    with mock.patch.object(method, "FEW_ROWS", 0):
        as_learned, _ = runs.fitted(given.train, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (before, within_before), (above, within) = (
            [random_equations.above_constants(each, given.train, data)[0] for data in (given.fresh, given.held_out)]
            for each in (as_learned, sde)
        )
    return {
        "equation": seed,
        "n": len(given.train),
        "d": given.equation.d,
        "plain": before,
        "above": above,
        "within": within,
        "plain_worse": int(not before <= ALLOWED),
        "worse": int(not above <= ALLOWED),
        "plain_worse_within": None if within is None else int(not within_before <= ALLOWED),
        "worse_within": None if within is None else int(not within <= ALLOWED),
        "change": above - before,
        "change_within": None if within is None else within - within_before,
        "given_up": int(above - before > 0.1),
        "seconds": seconds,
    }


if __name__ == "__main__":
    runs.main(__doc__, "few_data", CASES, measure, COLUMNS, seeds=80)
