"""Time the evaluation of learned functions at a million points, against sums feature by feature.

`straightforward` multiplies the matrix of exponentials with the amplitudes, in blocks; `direct` is the same with the
library's cosines and sines on all cores; `type_3` is a non-uniform Fourier transform of that type by finufft, to 1e-13
and on all cores; `automatic` is what drift and covariance use. Differences are relative to Σ|β̂|. Results go to
benchmarks/results/evaluation.json.

    python benchmarks/evaluation.py [--points 1000000]
"""

import argparse
from functools import partial

import finufft
import numpy as np
from common import timed, write_results

from itofit._blocks import map_chunks
from itofit.waves.series import direct_sum, real_sum


def straightforward(omega, beta, u):
    return np.concatenate([(np.exp(1j * (part @ omega.T)) @ beta).real for part in np.array_split(u, 50)])


def type_3(omega, beta, u):
    transform = {1: finufft.nufft1d3, 2: finufft.nufft2d3, 3: finufft.nufft3d3}[u.shape[1]]
    frequencies, amplitudes = [np.ascontiguousarray(column) for column in omega.T], np.ascontiguousarray(beta.T)

    def values(chunk):
        points = [np.ascontiguousarray(column) for column in u[chunk].T]
        return transform(*frequencies, amplitudes, *points, eps=1e-13, isign=1, nthreads=1).real.reshape(
            len(amplitudes), -1
        )

    return np.concatenate(map_chunks(values, len(u)), axis=1).T


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=1_000_000)
    arguments = parser.parse_args()
    rows = []
    print("inputs    K  outputs  reach  straightforward    direct   type 3  automatic    ratio   difference")
    for m in (1, 2, 3):
        for K in (32, 128):
            for p, reach in ((1, 4.0), (1, 20.0), (3, 4.0)):
                rng = np.random.default_rng(0)
                u, omega = rng.random((arguments.points, m)) - 0.5, reach * (2 * rng.random((K, m)) - 1)
                beta = rng.standard_normal((K, p)) + 1j * rng.standard_normal((K, p))
                ways = {
                    "straightforward": straightforward,
                    "direct": direct_sum,
                    "type_3": type_3,
                    "automatic": real_sum,
                }
                seconds, values = {}, {}
                for name, way in ways.items():
                    values[name] = way(omega, beta, u)
                    seconds[name] = float(min(timed(partial(way, omega, beta, u), 2)))
                difference = np.abs(values["automatic"] - values["direct"]).max() / np.abs(beta).sum(axis=0).max()
                row = {
                    "inputs": m,
                    "features": K,
                    "outputs": p,
                    "reach": reach,
                    "points": arguments.points,
                    **{f"{name}_seconds": value for name, value in seconds.items()},
                    "ratio": seconds["straightforward"] / seconds["automatic"],
                    "difference": float(difference),
                }
                rows.append(row)
                print(
                    f"{m:>6} {K:>4} {p:>8} {reach:>6} {seconds['straightforward']:>14.2f} s "
                    f"{seconds['direct']:>7.3f} s {seconds['type_3']:>6.2f} s {seconds['automatic']:>8.3f} s "
                    f"{row['ratio']:>8.0f} "
                    f"{difference:>12.1e}",
                    flush=True,
                )
    write_results("evaluation", rows)


if __name__ == "__main__":
    main()
