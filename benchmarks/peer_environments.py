"""Environments of other packages, and runs of `peer_worker.py` in them: one process with one thread for each run."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np

WORKER = Path(__file__).parent / "peer_worker.py"
PACKAGES = {
    "sfi": ("StochasticForceInference", "2.0.4"),
    "pydaddy": ("pydaddy", "1.0.0"),
    "pysindy": ("pysindy", "2.1.0"),
    "kramersmoyal": ("kramersmoyal", "0.4.1"),
}
ALSO = {"kramersmoyal": ["numpy", "scipy"]}
"""What a package needs and does not ask for."""
DIRECTORY = Path(tempfile.gettempdir(), "itofit-peers")
TOLD = {"degree": 3, "noise_degree": 2, "spread": 1.0, "errors": False, "seed": 0, "limit": None}
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1") | {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "MPLBACKEND": "agg",
}


class StoppedError(Exception):
    """A run took more CPU seconds than it was allowed."""


class WorkerError(Exception):
    """A package failed; the text is the end of what it said."""


def python_of(method, directory=DIRECTORY):
    """The Python of a method's environment, which is made in the directory if it is not there yet."""
    if method not in PACKAGES:  # itofit and the networks of the paper: this very environment
        return Path(sys.executable)
    package, version = PACKAGES[method]
    home = Path(directory, f"{package}-{version}")
    python = home / "bin" / "python"
    complete = home / "complete"  # so that an environment whose making was interrupted is made anew
    if not complete.exists():
        print(f"making {home}", flush=True)
        venv.create(home, with_pip=True, clear=True)
        wanted = [f"{package}=={version}", *ALSO.get(method, [])]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
        complete.touch()
    return python


def run(method, tracks, h, places, *, directory=DIRECTORY, **told):
    """What a method learns from tracks, at places, as `peer_worker.py` describes it.

    Parameters
    ----------
    method : str
        One of the methods of `peer_worker.py`.
    tracks : list of arrays (n, d)
    h : float
    places : array (n, m)
    directory : path
        Of the environments.
    **told
        Others than TOLD.
    """
    python = python_of(method, directory)
    told = TOLD | told | {"h": h}
    with tempfile.TemporaryDirectory() as temporary:
        given, result = Path(temporary, "given.npz"), Path(temporary, "result.npz")
        cuts = np.cumsum([len(track) for track in tracks])[:-1]
        np.savez(given, rows=np.concatenate(tracks), cuts=cuts, places=places, told=json.dumps(told))
        kept = dict(os.environ)
        if method in PACKAGES:
            kept.pop("PYTHONPATH", None)
        done = subprocess.run(
            [python, WORKER, method, given, result], env=kept | ONE_THREAD, capture_output=True, text=True, check=False
        )
        if done.returncode == -signal.SIGXCPU:
            raise StoppedError(f"stopped after {told['limit']} s of CPU time")
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["nothing"]
            raise WorkerError(f"{method} ended with {done.returncode} and said: {said[-1][:300]}")
        with np.load(result) as content:
            found = {name: content[name] for name in content.files}
    return (
        found
        | {"terms": json.loads(str(found["terms"]))}
        | {name: float(found[name]) for name in ("seconds", "megabytes", "megabytes_before")}
    )
