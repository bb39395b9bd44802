"""Against StochasticForceInference, on the same tracks: mean squared error of the force relative to that of the force.

StochasticForceInference is given polynomials that contain the truth, which nobody knows beforehand, and polynomials
two degrees higher, with its parametric estimator, which its documentation recommends for noisy data. It runs in an
environment of its own (`pip install StochasticForceInference`), whose Python is named on the command line; seconds are
those of its inference, without imports, in one process with one thread as ours.

    SFI_PYTHON=ENVIRONMENT/bin/python python benchmarks/against_sfi.py [--seeds 10] [--cases well-0.02 ...] [--results]
"""

import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import runs
from runs import Column
from second_order_systems import tracks, van_der_pol

import itofit

WORKER = Path(__file__).parent / "sfi_worker.py"
DEGREE = 3
WELL_H, WELL_ROWS, SUBSTEPS = 0.01, 100_000, 10
VDP_H = 0.05
CASES = {f"well-{sd}": f"double well, 100,000 observations, errors of {sd}" for sd in (0.02, 0.06)}
CASES |= {f"vdp-{sd}": f"van der Pol, 20 tracks of 1,000 positions, errors of {sd}" for sd in (0.0, 0.01, 0.03)}
COLUMNS = [
    Column("force", "relative squared error", ".5f"),
    Column("sfi", "of SFI, the right polynomials", ".5f"),
    Column("sfi_higher", "of SFI, two degrees higher", ".5f"),
    Column("ratio", "ratio to the right polynomials", ".2f"),
    Column("ratio_higher", "ratio to two degrees higher", ".2f"),
    Column("seconds", "seconds", ".1f"),
    Column("sfi_seconds", "seconds of SFI", ".1f"),
]


def double_well(rng):
    """Positions (1, n, 1) of dx = (x − x³) dt + 0.5 dW."""
    dt = WELL_H / SUBSTEPS
    kicks = 0.5 * np.sqrt(dt) * rng.standard_normal((WELL_ROWS, SUBSTEPS))
    x, seen = 0.5, np.empty(WELL_ROWS)
    for i, row in enumerate(kicks.tolist()):
        for kick in row:
            x += dt * (x - x**3) + kick
        seen[i] = x
    return seen[None, :, None]


def by_sfi(seen, dt, places, degree):
    """The force at places by StochasticForceInference, and its seconds."""
    with tempfile.TemporaryDirectory() as directory:
        given, result = Path(directory, "tracks.npz"), Path(directory, "result.npz")
        np.savez(given, seen=seen, dt=dt, places=places)
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        flags = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | one | flags
        python = os.environ["SFI_PYTHON"]
        command = [python, str(WORKER), str(given), str(result), str(degree)]
        subprocess.run(command, check=True, env=environment, capture_output=True)
        found = np.load(result)
        return found["force"], float(found["seconds"])


def measure(case, seed):
    """One data set, learned three times."""
    name, sd = case.split("-")
    rng = np.random.default_rng([seed, 91])
    if name == "well":
        states, h = double_well(rng), WELL_H
        places = states.reshape(-1, 1)[::20]
        truth = places - places**3
    else:
        system, h = van_der_pol(2.0), VDP_H
        states = tracks(rng, system, 20, 1_000, h)
        places = states.reshape(-1, 2)[::5]
        truth = system.force(places[:, :1], places[:, 1:])
    seen = states[:, :, :1] + float(sd) * rng.standard_normal((*states.shape[:2], 1))
    make = itofit.Transitions.from_trajectories if name == "well" else itofit.Transitions.from_positions
    sde, seconds = runs.fitted(make(list(seen), dt=h), seed)
    sfi, sfi_seconds = by_sfi(seen, h, places, DEGREE)
    higher, _ = by_sfi(seen, h, places, DEGREE + 2)

    def error(force):
        return float(np.mean((force - truth) ** 2) / np.mean(truth**2))

    own = error(sde.drift(places))
    return {
        "force": own,
        "sfi": error(sfi),
        "sfi_higher": error(higher),
        "ratio": own / error(sfi),
        "ratio_higher": own / error(higher),
        "seconds": seconds,
        "sfi_seconds": sfi_seconds,
    }


if __name__ == "__main__":
    runs.main(__doc__, "against_sfi", CASES, measure, COLUMNS)
