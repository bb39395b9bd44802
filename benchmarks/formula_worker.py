"""Runs pysindy or PyDaddy on tracks in a file, in the environment that has it; `formula.py` calls it.

ENVIRONMENT/bin/python benchmarks/formula_worker.py pysindy|pydaddy TRACKS.npz RESULT.json DEGREE

The result is a list of [line, powers, coefficient]: lines are "f0", "f1", ... and "s00", "s10", ... for entries of Σ.
"""

import json
import sys
import time

import numpy as np


def by_pysindy(tracks, h, degree):
    """Sequentially thresholded least squares, with pysindy's own threshold, on forward differences."""
    import pysindy  # noqa: PLC0415

    model = pysindy.SINDy(feature_library=pysindy.PolynomialLibrary(degree=degree))
    model.fit([track[:-1] for track in tracks], t=h, x_dot=[np.diff(track, axis=0) / h for track in tracks])
    powers = np.asarray(model.feature_library.powers_).tolist()
    return [
        [f"f{a}", powers[k], float(c)] for a, row in enumerate(model.coefficients()) for k, c in enumerate(row) if c
    ]


def by_pydaddy(tracks, h, degree):
    """PyDaddy with thresholds that it tunes by cross-validation; tracks are parted by gaps."""
    import pydaddy  # noqa: PLC0415

    gap = np.full((1, tracks[0].shape[1]), np.nan)
    joined = np.concatenate([part for track in tracks for part in (track, gap)])
    found = pydaddy.Characterize(list(joined.T), t=h, show_summary=False)
    one = joined.shape[1] == 1
    names = {"F": "f0", "G": "s00"} if one else {"F1": "f0", "F2": "f1", "G11": "s00", "G22": "s11", "G21": "s10"}
    out = []
    for name, line in names.items():
        fitted = found.fit(name, order=degree, tune=True)
        if one:
            powers = [[n] for n in range(degree + 1)]
        else:
            powers = [[n, m] for m in range(degree + 1) for n in range(degree - m + 1)]
        out += [[line, power, float(c)] for power, c in zip(powers, fitted.coeffs, strict=True) if c]
    return out


def main(method, given, result, degree):
    """Read tracks, run the method, write what it found and the seconds it took."""
    content = np.load(given)
    tracks = np.split(content["rows"], content["cuts"])
    began = time.perf_counter()
    terms = {"pysindy": by_pysindy, "pydaddy": by_pydaddy}[method](tracks, float(content["h"]), int(degree))
    seconds = time.perf_counter() - began
    with open(result, "w") as file:
        json.dump({"terms": terms, "seconds": seconds}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
