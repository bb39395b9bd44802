"""Runs StochasticForceInference on tracks in a file, in the environment that has it; `against_sfi.py` calls it.

ENVIRONMENT/bin/python benchmarks/sfi_worker.py TRACKS.npz RESULT.npz DEGREE
"""

import sys
import time

import numpy as np
from SFI import OverdampedLangevinInference, TrajectoryCollection, UnderdampedLangevinInference
from SFI.bases import monomials_up_to


def main(tracks, result, degree):
    """Learn the force by its estimator for noisy data, and write it at places with the seconds it took."""
    given = np.load(tracks)
    seen, dt, places = given["seen"], float(given["dt"]), given["places"]  # (n_tracks, n_rows, d)
    d, second_order = seen.shape[2], places.shape[1] > seen.shape[2]
    began = time.perf_counter()
    collection = TrajectoryCollection.from_arrays(X=np.moveaxis(seen, 0, 1), dt=dt)
    basis = monomials_up_to(order=degree, dim=d, include_v=second_order, rank="vector")
    inference = (UnderdampedLangevinInference if second_order else OverdampedLangevinInference)(collection)
    inference.infer_force(basis)
    force = inference.force_inferred
    found = force(places[:, :d], v=places[:, d:]) if second_order else force(places)
    found = np.asarray(found).reshape(len(places), d)
    np.savez(result, force=found, seconds=time.perf_counter() - began)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
