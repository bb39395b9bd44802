"""Time a whole `fit` with the paper's settings against a straightforward implementation of Algorithm 2.

The straightforward one forms the matrix of exponentials of all training rows, its Gram product, and calls
numpy.linalg.solve, twice in each iteration, with all cores at its disposal. It makes as many iterations as `fit` made,
on the same rows; for experiment 7 its time is extrapolated from three iterations of each training. Beside it stands
the library's own direct form, with frequencies searched on all rows or, with more than 25,000, on a subset of so many,
and the loss that each form reaches on the first 20,000 rows. All run in turn in one process; a gridded `fit` is timed
as the median of several. Results go to benchmarks/results/whole_fit.json.

    python benchmarks/whole_fit.py [--experiments 1 2 3a 3b 4a 4b 5 6 7]
"""

import argparse
import time
import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from common import write_results

import itofit
from itofit.experiments import EXPERIMENTS, epidemic, wave
from itofit.learning.metropolis import draw, magnitude
from itofit.matrices.symmetric import outer_entries

WANTED = {"1": 10, "2": 10, "3a": 10, "3b": 6, "4a": 3, "4b": 3, "5": 10, "6": 50, "7": 500}
EXTRAPOLATED = {"7": 3}  # iterations that are really made


class Task(NamedTuple):
    """Data and settings of one experiment."""

    data: itofit.Transitions
    structure: str
    drift: itofit.ARFF
    covariance: itofit.ARFF


def task(name):
    if name == "6":
        data = epidemic.sample_epidemic(observation="fixed-lag", rng=0)
        return Task(data, epidemic.STRUCTURE, epidemic.SETTINGS, epidemic.SETTINGS)
    if name == "7":
        return Task(wave.sample_wave(rng=0), wave.STRUCTURE, wave.DRIFT_SETTINGS, wave.COVARIANCE_SETTINGS)
    experiment = EXPERIMENTS[name]
    data, _ = experiment.sample(rng=0).split(0.1, rng=0)
    return Task(data, experiment.structure, experiment.settings, experiment.settings)


class Straightforward:
    """Algorithm 2 as one would write it down, with its own clock.

    Parameters
    ----------
    most : int or None
        Iterations that are really made in each training; the time of the others is extrapolated.
    """

    def __init__(self, task, most):
        self.task, self.most = task, most
        self.rng = np.random.default_rng(0)
        self.missing = 0.0

    def seconds(self, n_drift, n_covariance):
        """The time of a whole training with so many iterations."""
        began = time.perf_counter()
        data = self.task.data
        self.u = (data.inputs - data.inputs.min(axis=0)) / np.ptp(data.inputs, axis=0)
        rates = data.rates
        drift = self.learn(rates, rates.mean(axis=0), rates.std(axis=0), self.task.drift, n_drift)
        targets = outer_entries((rates - drift) * np.sqrt(data.h)[:, None], self.task.structure)
        mean = targets.mean(axis=0)
        self.learn(targets, np.zeros_like(mean), np.abs(mean), self.task.covariance, n_covariance)
        return time.perf_counter() - began + self.missing

    def learn(self, targets, offset, unit, settings, n_iterations):
        """Algorithm 1: the values of the last network at all points."""
        rng, K, u, y = self.rng, settings.n_features, self.u, (targets - offset) / unit
        held_out = rng.random(len(u)) < settings.validation_fraction
        u_out, y_out, u, y = u[held_out], y[held_out], u[~held_out], y[~held_out]

        def solve(omega):
            S = np.exp(1j * (u @ omega.T))
            return np.linalg.solve(S.conj().T @ S + settings.ridge * len(u) * np.eye(K), S.conj().T @ y)

        omega = np.zeros((K, u.shape[1]))
        beta = solve(omega)
        n_made = n_iterations if self.most is None else min(self.most, n_iterations)
        seconds = []
        for _ in range(n_made):
            began = time.perf_counter()
            omega = omega[draw(rng, magnitude(beta))]
            proposal = omega + settings.delta * rng.standard_normal(omega.shape)
            accepted = magnitude(solve(proposal)) > rng.random(K) * magnitude(beta) ** settings.gamma
            omega = np.where(accepted[:, None], proposal, omega)
            beta = solve(omega)
            np.mean((y_out - (np.exp(1j * (u_out @ omega.T)) @ beta).real) ** 2)
            seconds.append(time.perf_counter() - began)
        self.missing += (n_iterations - n_made) * np.median(seconds)
        parts = np.array_split(self.u, 1 + len(self.u) // 100_000)
        return offset + unit * np.concatenate([(np.exp(1j * (part @ omega.T)) @ beta).real for part in parts])


def fit(task, form=None):
    drift, covariance = (replace(arff, normal_equations=form) for arff in (task.drift, task.covariance))
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sde = itofit.fit(task.data, structure=task.structure, drift=drift, covariance=covariance, refine=False, rng=0)
    return sde, time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", nargs="+", default=list(WANTED), choices=list(WANTED))
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    rows = []
    print("experiment  transitions  iterations   straightforward     direct       fit    ratio   wanted   ms/iteration")
    for name in arguments.experiments:
        setting = task(name)
        fit(setting)
        runs = [fit(setting) for _ in range(arguments.repeats)]
        sde, seconds = runs[0][0], float(np.median([run[1] for run in runs]))
        histories = (sde.drift_function.training, sde.covariance_function.training)
        iterations = [history.n_iterations for history in histories]
        direct_sde, direct_seconds = fit(setting, "direct")
        some = setting.data[:20_000]
        slow = Straightforward(setting, EXTRAPOLATED.get(name)).seconds(*iterations)
        row = {
            "experiment": name,
            "rows": len(setting.data),
            "inputs": setting.data.n_inputs,
            "features": setting.drift.n_features,
            "normal_equations": sde.drift_function.training.parameters.normal_equations,
            "iterations": iterations,
            "straightforward_seconds": slow,
            "extrapolated": name in EXTRAPOLATED,
            "fit_seconds": seconds,
            "direct_seconds": direct_seconds,
            "loss": sde.nll(some),
            "direct_loss": direct_sde.nll(some),
            "ratio": slow / seconds,
            "wanted": WANTED[name],
            "milliseconds_per_iteration": [1e3 * float(np.median(history.seconds)) for history in histories],
        }
        rows.append(row)
        print(
            f"{name:<10} {row['rows']:>12} {iterations[0]:>6} + {iterations[1]:<4} {slow:>13.2f} s "
            f"{direct_seconds:>8.2f} s {seconds:>8.3f} s "
            f"{row['ratio']:>8.0f} {WANTED[name]:>8}   "
            f"{row['milliseconds_per_iteration'][0]:>16.2f} {row['milliseconds_per_iteration'][1]:>6.2f}",
            flush=True,
        )
    write_results("whole_fit", rows)


if __name__ == "__main__":
    main()
