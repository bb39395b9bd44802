"""Time ways to form the features of one block of rows and their Gram matrix, each on one core.

This is what the layout of the direct solve was chosen by: features as rows of cosines and sines from one tangent, and
NumPy's symmetric product. Results go to benchmarks/results/gram_product.json.

    python benchmarks/gram_product.py
"""

import numpy as np
from common import timed, write_results
from scipy.linalg.blas import dsyrk, zherk
from threadpoolctl import threadpool_limits

from itofit.waves.series import cos_sin

ROWS, INPUTS = 9000, 3


def ways(K):
    """Name to function, on the same points and frequencies."""
    rng = np.random.default_rng(0)
    u, omega = rng.random((ROWS, INPUTS)), 5 * rng.normal(size=(K, INPUTS))
    theta = u @ omega.T
    S = np.exp(1j * theta)
    C, D = np.cos(theta), np.sin(theta)
    CD = cos_sin(omega, u)
    out = np.empty_like(CD)
    return {
        "features: complex exponential": lambda: np.exp(1j * (u @ omega.T)),
        "features: cosine and sine": lambda: (np.cos(theta), np.sin(theta)),
        "features: tangent of the half angle": lambda: cos_sin(omega, u, out),
        "Gram: complex product": lambda: S.conj().T @ S,
        "Gram: complex rank-k update (zherk)": lambda: zherk(1.0, S.T),
        "Gram: three real products": lambda: (C.T @ C, D.T @ D, C.T @ D),
        "Gram: real rank-k update (SciPy's dsyrk)": lambda: dsyrk(1.0, CD.T, trans=1),
        "Gram: real product with itself (NumPy)": lambda: CD @ CD.T,
    }


def main():
    rows = []
    with threadpool_limits(1):
        for K in (64, 128, 256):
            for name, function in ways(K).items():
                rows.append({"features": K, "way": name, "milliseconds": 1e3 * float(np.median(timed(function, 15)))})
                print(f"K = {K:<4} {name:<42} {rows[-1]['milliseconds']:7.1f} ms", flush=True)
    write_results("gram_product", rows)


if __name__ == "__main__":
    main()
