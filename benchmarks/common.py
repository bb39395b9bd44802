"""What the benchmarks share: one paired run of Algorithm 2, statistics, and the file of results."""

import json
import os
import platform
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy

import itofit
from itofit.experiments import EXPERIMENTS

NAMES = ["1", "1-", "2", "3a", "4b", "5", "5-"]
RESULTS = Path(__file__).parent / "results"


class Run(NamedTuple):
    """One training on one data set."""

    loss: float  # mean validation loss of the learned functions
    truth: float  # that of the true ones, on the same points
    seconds: float  # of the whole training
    seconds_to_best: float  # until the returned networks were found
    iterations: int
    floored: float

    @property
    def excess(self):
        """What learning cost: the loss above that of the truth."""
        return self.loss - self.truth


def loss_on_validation(name, seed, **changes):
    """Algorithm 2 with the paper's settings (and changes to them): data, split and training follow from the seed."""
    experiment = EXPERIMENTS[name]
    data_seed, split_seed, fit_seed = np.random.SeedSequence(seed).generate_state(3)
    train, validation = experiment.sample(rng=data_seed).split(0.1, rng=split_seed)
    settings = replace(experiment.settings, **changes)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", itofit.ConvergenceWarning)  # the number of iterations is reported
        sde = itofit.fit(
            train, structure=experiment.structure, drift=settings, covariance=settings, refine=False, rng=fit_seed
        )
    seconds = time.perf_counter() - began
    return Run(
        loss=sde.nll(validation),
        truth=float(experiment.true_nll(validation).mean()),
        seconds=seconds,
        seconds_to_best=sum(
            h.seconds[: h.best_iteration].sum() for h in (sde.drift_function.training, sde.covariance_function.training)
        ),
        iterations=sde.drift_function.training.n_iterations + sde.covariance_function.training.n_iterations,
        floored=sde.floored_share,
    )


def timed(function, repeats):
    """Seconds of each of some calls in a row, as training makes them, after one that is not counted.

    The pause lets the BLAS threads of what ran before go to sleep: idle ones spin for a while and take a core.
    """
    time.sleep(0.2)
    function()
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - began)
    return seconds


def mean_and_error(values):
    """The mean and its standard error."""
    values = np.asarray(values)
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def write_results(name, rows, **more):
    """Write rows and what they were measured with to results/NAME.json."""
    RESULTS.mkdir(exist_ok=True)
    machine = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "itofit": itofit.__version__,
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"measured_with": machine, **more, "rows": rows}, indent=1) + "\n")
    print(f"written to {path}")
