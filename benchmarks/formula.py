"""Formulas of known equations: whether all true terms are found and no false ones, and how often intervals hold them.

Tracks of 100,000 transitions. A true term must be found if its coefficient is more than four of the standard errors
that it has with the true terms alone, from the same data: that fit, with the true equation's own steps, is the best
attainable. pysindy (drift alone) and PyDaddy (one or two variables) get the same tracks and libraries if PEERS names a
directory for their environments, which are made there on first use (`peer_environments.py`):

    PEERS=DIRECTORY python benchmarks/formula.py [--seeds 10] [--results]
"""

import os
import time

import numpy as np
import peer_environments
import runs
from formula_systems import SYSTEMS
from runs import Column

import itofit
from itofit.model.formula.finding import slots_of
from itofit.model.formula.library import library
from itofit.model.formula.selection import solved
from itofit.model.formula.term_sums import summed
from itofit.model.formula.written import line_name
from itofit.model.known import KnownSDE

STRONG = 4.0
PYDADDY_SEEDS = 2
"""It takes a minute for each data set, more than everything else together."""
Z = 1.959964
CASES = {name: system.text for name, system in SYSTEMS.items()}
COLUMNS = [
    Column("right", "all strong true terms and no false one", ".2f", worst=None),
    Column("n_false", "false terms", ".2f"),
    Column("n_missed", "strong true terms missed", ".2f"),
    Column("covered", "coefficients within 95 % intervals", ".3f", worst=None),
    Column("error_ratio", "squared coefficient error, over the best attainable", ".2f"),
    Column("worse", "said to be no short formula", ".2f", worst=None),
    Column("difference", "loss above the learned functions'", ".5f", worst=None),
    Column("pysindy_right", "drift right by pysindy", ".2f", worst=None),
    Column("pydaddy_right", "drift and noise right by PyDaddy", ".2f", worst=None),
    Column("own_drift_right", "drift right", ".2f", worst=None),
    Column("seconds", "seconds of the formula", ".1f"),
    Column("fit_seconds", "seconds of the fit", ".1f"),
]


def terms_of(formula):
    """Coefficients and errors by the names of line and term."""
    return {
        (name, term.name): (float(c), float(s))
        for name, line in formula.lines.items()
        for term, c, s in zip(line.terms, line.coefficients, line.std, strict=True)
    }


def oracle(sde, data, formula, truth):
    """Coefficients and errors of the true terms alone, with what the true equation makes of the length of steps."""
    tried = [term for term in library(sde, None, None) if term.name in formula.library]
    slots = slots_of(sde, "covariance")

    def values(x, what, a, b):
        name = line_name(formula, next(slot for slot in slots if slot == (what, a, b)))
        return sum((c * term(x) for term in tried if (c := truth.get((name, term.name)))), np.zeros(len(x)))

    def covariance(x):
        sigma = np.zeros((len(x), sde.n_outputs, sde.n_outputs))
        for what, a, b in slots:
            if what != "drift":
                sigma[:, a, b] = sigma[:, b, a] = values(x, what, a, b)
        size, axes = np.linalg.eigh(sigma)  # points on the way of a step may be where no state can be
        return axes * np.sqrt(np.maximum(size, 1e-9 * np.trace(sde.floor_factor @ sde.floor_factor.T)))[:, None, :]

    equation = KnownSDE(
        f=lambda x: np.stack([values(x, "drift", a, a) for a in range(sde.n_outputs)], axis=1),
        sigma=covariance,
        n_inputs=sde.n_inputs,
        n_outputs=sde.n_outputs,
    )
    first = summed(data, tried, slots, sde, equation, formula.scheme)
    sums = summed(data, tried, slots, sde, equation, formula.scheme, first.calibration)
    found = {}
    for slot, G, M in zip(slots, *sums.without(None), strict=True):
        name = line_name(formula, slot)
        places = np.array([k for k, term in enumerate(tried) if (name, term.name) in truth], dtype=int)
        one = solved(G, M, places)
        for k, c, s in zip(places, one.coefficients, np.sqrt(np.diagonal(one.covariance)), strict=True):
            found[name, tried[k].name] = (float(c), float(s))
    return found


def by_other(method, tracks, h, degree, formula):
    """Names of line and term that another package finds, and its seconds; None if it is not there."""
    directory = os.environ.get("PEERS")
    if directory is None or (method == "pydaddy" and tracks[0].shape[1] > 2):
        return None
    told = {"degree": degree, "noise_degree": degree, "directory": directory}
    content = peer_environments.run(method, tracks, h, tracks[0], **told)
    powers = {term.powers: term.name for term in library(formula, None, degree)}
    places = {f"f{line.slot.row}": name for name, line in formula.lines.items() if line.slot.what == "drift"}
    places |= {
        f"s{line.slot.row}{line.slot.column}": name for name, line in formula.lines.items() if line.slot.what != "drift"
    }
    return {(places.get(line, line), powers[tuple(power)]): c for line, power, c in content["terms"]}, content[
        "seconds"
    ]


def judged(found, truth, strong, lines):
    """False terms and strong true ones that are missing, of some lines."""
    false = sorted(key for key in found if key not in truth and key[0] in lines)
    missed = sorted(key for key in strong if key not in found and key[0] in lines)
    return false, missed


def measure(case, seed):
    """One data set of one system."""
    system = SYSTEMS[case]
    tracks = list(system.tracks(np.random.default_rng([seed, 17])))
    data = itofit.Transitions.from_trajectories(tracks, dt=system.h, names=system.names)
    sde, fit_seconds = runs.fitted(data, seed)
    began = time.perf_counter()
    formula = sde.formula(data)
    seconds = time.perf_counter() - began
    run = {
        "worse": float(not formula.is_short),
        "difference": formula.prediction.difference,
        "difference_error": formula.prediction.error,
        "seconds": seconds,
        "fit_seconds": fit_seconds,
    }
    if system.truth is None:
        return run | {"terms": formula.n_terms}
    truth, found = system.truth, terms_of(formula)
    best = oracle(sde, data, formula, truth)
    strong = [key for key, c in truth.items() if abs(c) > STRONG * best[key][1]]
    false, missed = judged(found, truth, strong, formula.lines)
    both = [key for key in truth if key in found]
    covered = [abs(found[key][0] - truth[key]) < Z * found[key][1] for key in both]
    run |= {
        "right": float(not false and not missed),
        "n_false": len(false),
        "n_missed": len(missed),
        "n_strong": len(strong),
        "n_true": len(truth),
        "covered": float(np.mean(covered)),
        "n_covered": int(np.sum(covered)),
        "n_found": len(both),
        "best_covered": float(np.mean([abs(best[key][0] - truth[key]) < Z * best[key][1] for key in truth])),
        "error_ratio": float(
            sum((found[key][0] - truth[key]) ** 2 / best[key][1] ** 2 for key in both)
            / sum((best[key][0] - truth[key]) ** 2 / best[key][1] ** 2 for key in both)
        ),
        "false": [" ".join(key) for key in false],
        "missed": [" ".join(key) for key in missed],
    }
    drift_lines = [name for name, line in formula.lines.items() if line.slot.what == "drift"]
    run["own_drift_right"] = float(not any(judged(found, truth, strong, drift_lines)))
    degree = 4 if sde.n_inputs == 1 else 3
    for method, lines in (("pysindy", drift_lines), ("pydaddy", list(formula.lines))):
        skipped = method == "pydaddy" and seed >= PYDADDY_SEEDS
        other = None if skipped else by_other(method, tracks, system.h, degree, formula)
        if other is not None:
            false, missed = judged(other[0], truth, strong, lines)
            run |= {f"{method}_right": float(not false and not missed), f"{method}_false": len(false)}
            run |= {f"{method}_missed": len(missed), f"{method}_seconds": other[1]}
            run[f"{method}_drift_right"] = float(not any(judged(other[0], truth, strong, drift_lines)))
    return run


if __name__ == "__main__":
    runs.main(__doc__, "formula", CASES, measure, COLUMNS)
