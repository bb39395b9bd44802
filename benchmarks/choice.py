"""Check the cost model that chooses between direct and gridded normal equations against what solves take.

For numbers of rows around the crossover, each form solves at frequencies of moderate size; `regret` is the time of the
chosen form over that of the faster one. Results go to benchmarks/results/choice.json.

    python benchmarks/choice.py
"""

import argparse

import numpy as np
from common import timed, write_results

from itofit._blocks import one_blas_thread
from itofit.waves.normal_equations import ArrayPart, DirectNormalEquations, GriddedNormalEquations, cheaper_form

RIDGE = 2e-3
REACH = {1: 10.0, 2: 6.0, 3: 5.0}


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    rows = []
    print("inputs    K      rows    direct   gridded   chosen   regret")
    for m in (1, 2, 3):
        for K in (16, 64, 128, 256):
            for n in (100, 300, 1000, 3000, 10_000, 30_000):
                rng = np.random.default_rng(0)
                u, omega = rng.random((n, m)) - 0.5, REACH[m] * (2 * rng.random((K, m)) - 1)
                y = rng.standard_normal((n, 2))
                forms = {"direct": DirectNormalEquations(u, y), "gridded": GriddedNormalEquations(ArrayPart(u, y))}
                seconds = {}
                with one_blas_thread:  # as training does
                    for name, equations in forms.items():
                        seconds[name] = float(np.median(timed(lambda e=equations, o=omega: e.solve(o, RIDGE), 9)))
                chosen = cheaper_form(n, K, m, 2, RIDGE)
                regret = seconds[chosen] / min(seconds.values())
                rows.append({"inputs": m, "features": K, "rows": n, **seconds, "chosen": chosen, "regret": regret})
                print(
                    f"{m:>6} {K:>4} {n:>9} {1e3 * seconds['direct']:>6.2f} ms {1e3 * seconds['gridded']:>6.2f} ms "
                    f"{chosen:>8} {regret:>8.2f}",
                    flush=True,
                )
    print(f"mean regret {np.mean([row['regret'] for row in rows]):.2f}")
    write_results("choice", rows)


if __name__ == "__main__":
    main()
