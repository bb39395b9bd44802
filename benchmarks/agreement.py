"""Compare the gridded normal equations with the direct ones: Gram matrix, right side, amplitudes, error of a network.

Inputs are uniform, clustered, or lie on few points that are repeated up to thousands of times; outputs differ in scale
by sixteen orders of magnitude; frequencies fill small and large boxes. Errors of Gram matrices are relative to N, of
right sides and amplitudes to the largest of each output, of mean squared errors to that of zero. Results go to
benchmarks/results/agreement.json.

    python benchmarks/agreement.py [--seeds 5]
"""

import argparse

import numpy as np
from common import write_results

from itofit.waves.normal_equations import ArrayPart, DirectNormalEquations, GriddedNormalEquations

N, K, RIDGE = 20_000, 64, 2e-3
REACHES = {1: (2.0, 20.0, 400.0), 2: (1.0, 6.0, 60.0), 3: (0.5, 3.0, 15.0)}


def inputs(kind, n, m, rng):
    if kind == "uniform":
        return rng.random((n, m)) - 0.5
    if kind == "clustered":
        centres = rng.random((5, m)) - 0.5
        return np.clip(centres[rng.integers(5, size=n)] + 1e-3 * rng.standard_normal((n, m)), -0.5, 0.5)
    points = rng.random((30, m)) - 0.5
    counts = rng.pareto(0.5, 30) + 1e-6
    return points[rng.choice(30, size=n, p=counts / counts.sum())]


def errors(u, y, omega):
    gridded, direct = GriddedNormalEquations(ArrayPart(u, y)), DirectNormalEquations(u, y)
    (gram, right), (true_gram, true_right) = gridded.gram(omega), direct.gram(omega)
    lower = np.tril_indices(K)
    beta, true_beta = gridded.solve(omega, RIDGE), direct.solve(omega, RIDGE)
    unit = np.abs(y).max(axis=0)  # so that every output counts in the mean over outputs
    gridded, direct = GriddedNormalEquations(ArrayPart(u, y / unit)), DirectNormalEquations(u, y / unit)
    mse, true_mse = (equations.mse(omega, true_beta / unit) for equations in (gridded, direct))
    return {
        "gram": np.abs(gram - true_gram)[lower].max() / len(u),
        "right": (np.abs(right - true_right).max(axis=0) / np.abs(true_right).max(axis=0)).max(),
        "amplitudes": (np.abs(beta - true_beta).max(axis=0) / np.abs(true_beta).max(axis=0)).max(),
        "error": abs(mse - true_mse) / np.mean((y / unit) ** 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    rows = []
    print("inputs      kind    reach      gram     right  amplitudes   error    (largest of all seeds)")
    for m, reaches in REACHES.items():
        for kind in ("uniform", "clustered", "repeated"):
            for reach in reaches:
                found = []
                for seed in range(arguments.seeds):
                    rng = np.random.default_rng(seed)
                    u = inputs(kind, N, m, rng)
                    y = np.stack([np.sin(5 * u[:, 0]) + rng.standard_normal(N), 3 + rng.standard_normal(N)], axis=1)
                    omega = reach * (2 * rng.random((K, m)) - 1)
                    found.append(errors(u, y * [1e8, 1e-8], omega))
                worst = {name: float(max(one[name] for one in found)) for name in found[0]}
                rows.append({"inputs": m, "kind": kind, "reach": reach, "seeds": arguments.seeds, **worst})
                print(
                    f"{m:>6} {kind:>9} {reach:>8} {worst['gram']:>9.1e} {worst['right']:>9.1e} "
                    f"{worst['amplitudes']:>11.1e} {worst['error']:>7.1e}",
                    flush=True,
                )
    write_results("agreement", rows)


if __name__ == "__main__":
    main()
