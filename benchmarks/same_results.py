"""Whether two checkouts learn the same: every number that a user sees, on every experiment, and how long fits take.

`record` learns from ten data sets of every experiment with the code of one checkout: the default and Algorithm 2, in
memory and in blocks, with and without the correction for the length of steps, with an ensemble, and with each link and
structure. It keeps drift, covariance, their error bars, losses and the like at held-out inputs. `compare` prints the
largest difference between two such files, relative to the largest value of each quantity. `times` runs the fits of two
checkouts in turn, each in a process of its own, and prints ratios of medians.

    python benchmarks/same_results.py record CHECKOUT FILE.npz [--seeds 10] [--experiments 1 2 ...]
    python benchmarks/same_results.py compare BEFORE.npz AFTER.npz
    python benchmarks/same_results.py times BEFORE_CHECKOUT AFTER_CHECKOUT [--repeats 5]
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import itofit
from itofit.experiments import EXPERIMENTS, epidemic, wave

NAMES = ["1", "2", "3a", "3b", "4a", "4b", "5", "6-events", "6-lag", "7"]
POINTS = 2000
"""Held-out inputs at which functions are compared."""
PATHS, STEPS = 20, 20
"""Of simulations."""
TOLERANCE = 1e-10
TIMED = ("default", "default, blocked", "paper", "corrected")
ROUNDS = 5
"""Of timing: the machine is not equally fast all the time."""


# One process, one checkout


def data_of(name, seed):
    """Training data, held-out data, settings of the paper and a seed for the fit."""
    data_seed, split_seed, fit_seed = np.random.SeedSequence(seed).generate_state(3)
    if name in EXPERIMENTS:
        source = EXPERIMENTS[name]
        data, settings = source.sample(rng=data_seed), (source.settings, source.settings)
        structure = source.structure
    elif name == "7":
        data, settings = wave.sample_wave(rng=data_seed), (wave.DRIFT_SETTINGS, wave.COVARIANCE_SETTINGS)
        structure = wave.STRUCTURE
    else:
        observation = {"6-events": "events", "6-lag": "fixed-lag"}[name]
        data = epidemic.sample_epidemic(observation=observation, rng=data_seed)
        settings, structure = (epidemic.SETTINGS, epidemic.SETTINGS), epidemic.STRUCTURE
    train, held_out = data.split(0.1, rng=split_seed)
    paper = {"structure": structure, "drift": settings[0], "covariance": settings[1], "refine": False}
    return train, held_out[:POINTS], paper, int(fit_seed)


def variants(name, train, paper, seed):
    """Options of `fit` to try, by name; "blocked" among them stands for data that are read in blocks."""
    found = {
        "default": {},
        "default, blocked": {"blocked": True},
        "paper": paper,
        "paper, blocked": paper | {"blocked": True},
        "ensemble": {"ensemble": 2},
    }
    if train.kind != "general":
        found["corrected"] = {"correct_step": True}
        found["corrected, blocked"] = {"correct_step": True, "blocked": True}
        found["corrected, ensemble"] = {"correct_step": True, "ensemble": 2}
    if seed < 3 and name not in ("7", "6-lag"):
        for link in ("identity", "square", "log"):
            for structure in ("diagonal", "full"):
                found[f"{link}, {structure}"] = {"link": link, "structure": structure, "correct_step": True}
        found["paper, weighted"] = paper | {"weight_drift": True}
        found["plain"] = {"weight_drift": False, "cross_fit": False, "floor": 0.01}
    if seed < 3:
        found["subset"] = {"search": 2000}
    return found


def learned(train, seed, blocked=False, search=None, **options):
    """What `fit` makes of the data."""
    if blocked:
        parts = np.linspace(0, len(train), 8).astype(int)
        train = itofit.Transitions.from_blocks([train[a:b] for a, b in itertools.pairwise(parts)])
    if search is not None:
        options["drift"] = itofit.ARFF(search_rows=search)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        return itofit.fit(train, rng=seed, **options), time.perf_counter() - began


def numbers(sde, held_out, options):
    """All that the model says at held-out inputs, by name."""
    x = held_out.inputs
    found = {"drift": sde.drift(x), "covariance": sde.covariance(x), "raw covariance": sde.covariance(x, raw=True)}
    found["losses"] = sde.nll(held_out, pointwise=True)
    found["Euler losses"] = sde.nll(held_out, pointwise=True, scheme="euler")
    found["limits"] = np.where(np.isfinite(sde.limits), sde.limits, 0.0)
    found["floored"] = np.append(sde.floored(x).astype(float), sde.floored_share)
    if options.get("refine", True):
        found["drift's error bars"] = sde.drift(x, return_std=True)[1]
        found["covariance's error bars"] = sde.covariance(x, return_std=True)[1]
        found["log of intervals"] = np.log(sde.variance_interval(x))
    if options.get("correct_step"):
        found["trust"] = sde.step_trust(x)
        found["step moments"] = np.concatenate([part.ravel() for part in sde.step_moments(x, held_out.h)])
    if held_out.kind != "general":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["paths"] = sde.simulate(x[:PATHS], float(held_out.h[0]), STEPS, rng=0)
    return found


def record(file, names, n_seeds):
    """Write all numbers to a file."""
    everything = {}
    for name in names:
        for seed in range(n_seeds):
            train, held_out, paper, fit_seed = data_of(name, seed)
            for label, options in variants(name, train, paper, seed).items():
                sde, seconds = learned(train, fit_seed, **options)
                for what, values in numbers(sde, held_out, options).items():
                    everything[f"{name}|{seed}|{label}|{what}"] = values
                everything[f"{name}|{seed}|{label}|seconds"] = np.array(seconds)
            print(name, seed, flush=True)
    np.savez(file, **everything)


def time_fits(names, repeats):
    """Print the fastest seconds of each of some variants as JSON, after a fit that is not counted."""
    seconds = {}
    for name in names:
        train, _, paper, fit_seed = data_of(name, 0)
        chosen = variants(name, train, paper, seed=10)
        for label in (label for label in TIMED if label in chosen):
            learned(train, fit_seed, **chosen[label])
            seconds[f"{name}|{label}"] = min(learned(train, fit_seed, **chosen[label])[1] for _ in range(repeats))
    print(json.dumps(seconds))


# Two checkouts


def run(checkout, *arguments):
    """Run this script in a process of its own that imports itofit from a checkout."""
    source = str(Path(checkout).resolve() / "src")
    command = [sys.executable, __file__, "--here", *arguments]
    return subprocess.run(
        command, env=os.environ | {"PYTHONPATH": source}, check=True, stdout=subprocess.PIPE, text=True
    )


def compare(before, after):
    """Print the largest relative differences; the number of those beyond the tolerance."""
    old, new = np.load(before), np.load(after)
    missing = set(old.files) ^ set(new.files)
    worst, beyond = {}, 0
    for key in sorted(set(old.files) - missing):
        name, _, label, what = key.split("|")
        if what == "seconds":
            continue
        a, b = old[key], new[key]
        size = max(float(np.abs(a).max()), 1e-300)
        off = float(np.abs(a - b).max()) / size if a.shape == b.shape and a.size else float(a.shape != b.shape)
        beyond += not off <= TOLERANCE
        for place in ((name, "all"), ("all", label), ("all", what)):
            worst[place] = max(worst.get(place, (0.0, "")), (off, key))
    for (name, what), (off, key) in worst.items():
        print(f"{name:10} {what:26} {off:8.1e}  {key if off > TOLERANCE else ''}")
    print(f"{len(old.files)} arrays; only in one file: {len(missing)}; differing by more than {TOLERANCE:g}: {beyond}")
    return beyond + len(missing)


def compare_times(before, after, names, repeats):
    """Print ratios of seconds, after to before: medians over rounds in which the two take turns, in changing order."""
    ratios = []
    for name in names:
        seconds = {before: {}, after: {}}
        for i in range(ROUNDS):
            for checkout in (before, after) if i % 2 else (after, before):
                arguments = ("times", "-", "-", "--experiments", name, "--repeats", str(repeats))
                for key, value in json.loads(run(checkout, *arguments).stdout).items():
                    seconds[checkout].setdefault(key, []).append(value)
        for key in seconds[before]:
            a, b = (float(np.median(seconds[checkout][key])) for checkout in (before, after))
            ratios.append(b / a)
            print(f"{key:28} {a:8.3f} s {b:8.3f} s  {b / a:.3f}", flush=True)
    mean = np.exp(np.mean(np.log(ratios)))
    print(f"ratios: geometric mean {mean:.3f}, from {min(ratios):.3f} to {max(ratios):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["record", "compare", "times"])
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--experiments", nargs="+", default=NAMES)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.action == "compare":
        sys.exit(compare(given.first, given.second) > 0)
    if given.action == "record" and given.here:
        record(given.second, given.experiments, given.seeds)
    elif given.action == "record":
        chosen = ("--experiments", *given.experiments, "--seeds", str(given.seeds))
        print(run(given.first, "record", "-", given.second, *chosen).stdout)
    elif given.here:
        time_fits(given.experiments, given.repeats)
    else:
        compare_times(given.first, given.second, given.experiments, given.repeats)


if __name__ == "__main__":
    main()
