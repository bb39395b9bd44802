"""Shrinking few data's fits towards constants: whether weights from held-out rows help where a fit loses to constants.

Random equations (`random_equations.py`) with at most 200 transitions. The drift becomes f̄ + w (f − f̄), and Σ the
matrix whose logarithm, in units of Σ̄, is v times as large; f̄ and Σ̄ are the best constants. The weights w and v,
each one of 0, 0.2, ..., 1, are those with the smallest loss of rows that fits to the other four of five random folds
have not seen. Fits whose loss on their own data is lower than that of constants by more than 0.3 per variable stay as
they are, and need no folds. Losses are per variable and above those of constants, with fresh noise at the training
inputs and for new data within their range.

    python benchmarks/shrinkage.py [--seeds 80] [--jobs 2] [--output FILE]
"""

import itertools
import time
import warnings

import numpy as np
import random_equations
import runs
from runs import Column

import itofit
from itofit.model.likelihood import gaussian_nll

MOST_ROWS, FOLDS, CLEAR_GAIN = 200, 5, 0.3
WEIGHTS = np.linspace(0, 1, 6)
CASES = {"few": f"random equations with at most {MOST_ROWS} transitions"}
COLUMNS = [
    Column("worse", "more than 0.02 above constants, as learned"),
    Column("shrunk_worse", "the same of shrunk fits"),
    Column("above", "loss above constants', as learned"),
    Column("shrunk_above", "the same of shrunk fits"),
    Column("change", "what shrinking changes", "+.4f"),
    Column("change_within", "the same within the range", "+.4f"),
    Column("asked", "share whose folds were asked", worst=None),
    Column("seconds", "seconds of processor time of the fit", ".2f"),
    Column("fold_seconds", "of the fits to folds", ".2f"),
]


def equation_of(place):
    """The seed of the random equation that is the so-manyth with few transitions."""
    few = (seed for seed in itertools.count() if _rows(seed) <= MOST_ROWS)
    return next(itertools.islice(few, place, None))


def _rows(seed):
    """How many transitions are asked for, before any are made."""
    drawn = np.random.default_rng(np.random.SeedSequence([seed, 399]).spawn(4)[0])
    d = int(drawn.integers(1, 5))
    random_equations.Equation(drawn, d)
    return random_equations.Observation(drawn, d).n


def losses(sde, constants, data):
    """Losses per variable with all weights of the drift and of Σ: shape (6, 6, n)."""
    mean, covariance = sde.step_moments(data.inputs, data.h)
    drift, L = constants[0], np.linalg.cholesky(constants[1])
    inverse = np.linalg.inv(L)
    relative = inverse @ covariance @ inverse.T
    values, vectors = np.linalg.eigh((relative + relative.mT) / 2)
    root, logs = L @ vectors, np.log(np.maximum(values, 1e-12))
    each = np.empty((len(WEIGHTS), len(WEIGHTS), len(data)))
    for j, v in enumerate(WEIGHTS):
        shrunk = (root * np.exp(v * logs)[:, None, :]) @ root.mT
        for i, w in enumerate(WEIGHTS):
            each[i, j] = gaussian_nll(data.increments, data.h, drift + w * (mean - drift), shrunk)
    return each / len(drift)


def weights_from_folds(data, seed):
    """Places among `WEIGHTS` of those with the smallest loss of held-out rows."""
    fold = np.random.default_rng(seed).permutation(len(data)) % FOLDS
    total = np.zeros((len(WEIGHTS), len(WEIGHTS)))
    for number in range(FOLDS):
        rest, held_out = data[fold != number], data[fold == number]
        sde = itofit.fit(rest, measurement_noise=False, max_h=None, rng=seed)
        total += losses(sde, random_equations.constants(rest), held_out).sum(axis=2)
    return np.unravel_index(np.argmin(total), total.shape)


def measure(case, place):
    """One equation."""
    seed = equation_of(place)
    given = random_equations.problem(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        sde = itofit.fit(given.train, rng=seed)
        run = {"equation": seed, "n": len(given.train), "d": given.equation.d, "seconds": time.process_time() - began}
        if sde.measurement_noise is not None:
            return run
        longest = np.inf if sde.data.left_out is None else sde.data.left_out.max_h
        train, fresh, new = (
            None if data is None else data[data.h <= longest] for data in (given.train, given.fresh, given.held_out)
        )
        constants, began, chosen = random_equations.constants(train), time.process_time(), (-1, -1)
        own = losses(sde, constants, train).mean(axis=2)
        asked = own[-1, -1] > own[0, 0] - CLEAR_GAIN and len(train) * (FOLDS - 1) // FOLDS >= 20
        if asked:
            chosen = weights_from_folds(train, seed)
        run |= {"asked": int(asked), "fold_seconds": time.process_time() - began}
        at_training = losses(sde, constants, fresh).mean(axis=2)
        within = None if new is None else losses(sde, constants, new).mean(axis=2)
    above, shrunk = (float(at_training[place] - at_training[0, 0]) for place in ((-1, -1), chosen))
    return run | {
        "weights": [float(WEIGHTS[place]) for place in chosen],
        "above": above,
        "shrunk_above": shrunk,
        "worse": int(not above <= random_equations.ALLOWED),
        "shrunk_worse": int(not shrunk <= random_equations.ALLOWED),
        "change": shrunk - above,
        "change_within": None if within is None else float(within[chosen] - within[-1, -1]),
    }


if __name__ == "__main__":
    runs.main(__doc__, "shrinkage", CASES, measure, COLUMNS, seeds=80)
