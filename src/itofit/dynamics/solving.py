"""Questions to a Markov chain on cells: where it rests, when it arrives, how fast it forgets.

L is the generator (n, n), of which a row adds up to zero, or to less where the chain may be absorbed. Answers come from
sparse factors of c I − L with c ≥ 0, an M-matrix, for which no pivots are needed. What they round is seen where the
chain hardly ever leaves a part of the cells; then cells are eliminated one by one (`itofit.dynamics.elimination`).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.linalg import eigvalsh_tridiagonal
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs, splu

from itofit._checks import Complex, Float
from itofit.dynamics.elimination import Eliminated

Bool: TypeAlias = npt.NDArray[np.bool_]
TINY_SHIFT = 1e-13
"""c relative to the largest rate, where L itself is singular."""
ROUNDS = 3
"""Of inverse iteration for the stationary distribution; each gains many digits."""
SURE = 1e-6
"""Relative error up to which answers of sparse factors are taken."""
LEAST_RATE = 100 * np.finfo(float).eps
"""Of a mode, relative to the largest rate between cells: of slower ones rounding leaves nothing."""
REAL = 1e-6
"""Imaginary part of an eigenvalue, relative to it, below which its mode does not turn."""
KRYLOV = 25
"""Dimension of the space in which functions of L are computed."""


def factored(matrix: Any) -> Any:  # noqa: ANN401  (SciPy has no types)
    """Sparse LU factors of an M-matrix."""
    return splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})


def shifted(L: Any, c: float) -> Any:  # noqa: ANN401
    """The factors of c I − L."""
    return factored(c * sparse.identity(L.shape[0], format="csc") - L)


def stationary(L: Any) -> Float:  # noqa: ANN401
    """The probabilities (n,) of the cells in the long run."""
    n = L.shape[0]
    lu = shifted(L, TINY_SHIFT * float(-L.diagonal().min()))
    p = np.stack([np.ones(n), np.arange(1.0, n + 1)], axis=1) / n  # where it starts, which must not matter
    for _ in range(ROUNDS):
        p = np.maximum(lu.solve(p, trans="T"), 0.0)
        p /= p.sum(axis=0)
    if np.abs(p[:, 0] - p[:, 1]).sum() < SURE:
        return np.asarray(p[:, 0])
    return Eliminated.of(L, np.zeros(n), np.zeros((n, 0))).stationary()


def passage(L: Any, absorbed: Float, sources: Float, kept: Bool) -> Float:  # noqa: ANN401
    """Solutions u (n, k) of −L u = sources (n, k) on the cells that are kept (n,), zero on the others.

    Infinite where there is no way out of these cells; `absorbed` (n,) are the rates of ways that lead to no other cell.
    """
    own = np.flatnonzero(kept)
    out = np.zeros_like(sources)
    if len(own):
        among, right = L[own][:, own], sources[own]
        leaving = absorbed[own] + np.asarray(L[own][:, np.flatnonzero(~kept)].sum(axis=1)).ravel()
        try:
            u = factored(-among).solve(np.column_stack([right, leaving]))
            sure = bool((np.abs(u[:, -1] - 1) < SURE).all())  # out it goes with probability one
        except RuntimeError:  # singular to rounding
            sure = False
        out[own] = u[:, :-1] if sure else Eliminated.of(among, leaving, right).passage()
    return out


def slowest(L: Any, k: int) -> tuple[Complex, Complex]:  # noqa: ANN401
    """The k eigenvalues nearest to zero besides zero itself, slowest first, and right eigenvectors (n, k).

    Those that rounding does not tell from zero are zero.
    """
    values, vectors = _slowest(L, k)
    return np.where(-values.real < LEAST_RATE * -L.diagonal().min(), 0.0, values), vectors


def _slowest(L: Any, k: int) -> tuple[Complex, Complex]:  # noqa: ANN401
    n = L.shape[0]
    if n <= 2 * k + 20:
        values, vectors = np.linalg.eig(L.toarray())
    else:
        shift = 1e-9 * float(-L.diagonal().min())
        lu = shifted(L, shift)
        inverse = LinearOperator((n, n), matvec=lambda u: -lu.solve(np.asarray(u).ravel()), dtype=float)
        start = np.random.default_rng(0).standard_normal(n)
        try:
            inverted, vectors = eigs(inverse, k=k + 2, which="LM", v0=start, ncv=min(n - 1, 4 * k + 20), tol=1e-8)
        except ArpackNoConvergence as error:
            inverted, vectors = error.eigenvalues, error.eigenvectors
        values = 1 / inverted + shift
        if _is_line(L) and (np.abs(values.imag) > REAL * np.abs(values)).any():
            return _slowest_on_line(L, k)
    order = np.argsort(-values.real, kind="stable")
    order = order[1 : k + 1]
    return values[order], vectors[:, order]


def _is_line(L: Any) -> bool:  # noqa: ANN401
    """Whether cells lead to their two neighbours alone, as with one variable that is not periodic."""
    rows, columns = L.nonzero()
    return bool(np.abs(rows - columns).max() <= 1)


def _slowest_on_line(L: Any, k: int) -> tuple[Complex, Complex]:  # noqa: ANN401
    """What `slowest` returns, for cells on a line with a strong wind along it.

    Such a chain is in balance, so its modes do not turn. But its matrix is so far from symmetric that rounding makes
    them seem to; a symmetric one has the same eigenvalues.
    """
    up, down = L.diagonal(1), L.diagonal(-1)
    n = L.shape[0]
    values = eigvalsh_tridiagonal(L.diagonal(), np.sqrt(up * down), select="i", select_range=(n - k - 1, n - 2))[::-1]
    vectors = np.random.default_rng(0).standard_normal((n, k))
    for i, value in enumerate(values):
        lu = splu((L - value * (1 + 1e-9) * sparse.identity(n)).tocsc())
        for _ in range(ROUNDS):
            vectors[:, i] = lu.solve(vectors[:, i])
            vectors[:, i] /= np.abs(vectors[:, i]).max()
    return values.astype(complex), vectors.astype(complex)


def correlations(L: Any, p: Float, g: Float, times: Float) -> Float:  # noqa: ANN401
    """E g(x_0) g(x_t) in the long run, for functions g (n, k) of mean zero at the cells: shape (len(times), k).

    exp(tL) g is taken from the space of g, Ag, A²g, ... with A = (c I − L)⁻¹ (van den Eshof and Hochbruck, 2006), with
    the inner product that the stationary probabilities p (n,) weigh.
    """
    c = max(10.0 / times.max(), TINY_SHIFT * float(-L.diagonal().min())) if times.max() > 0 else 1.0
    lu = shifted(L, c)
    return np.stack([_correlation(lu, c, p, own, times) for own in g.T], axis=1)


def _correlation(lu: Any, c: float, p: Float, g: Float, times: Float) -> Float:  # noqa: ANN401
    """The same of one function g (n,), with the factors of c I − L."""
    n, m = len(g), min(KRYLOV, len(g) - 1)
    V, H = np.zeros((n, m + 1)), np.zeros((m + 1, m))
    norm = np.sqrt(float(p @ g**2))
    V[:, 0] = g / norm
    size = m
    for j in range(m):
        u = lu.solve(V[:, j])
        for _ in range(2):
            along = V[:, : j + 1].T @ (p * u)
            H[: j + 1, j] += along
            u = u - V[:, : j + 1] @ along
        H[j + 1, j] = np.sqrt(max(float(p @ u**2), 0.0))
        if H[j + 1, j] < 1e-12 * abs(H[0, 0]):
            size = j + 1
            break
        V[:, j + 1] = u / H[j + 1, j]
    inverse = np.linalg.inv(H[:size, :size])
    values, vectors = np.linalg.eig(c * np.eye(size) - inverse)
    values = np.minimum(values.real, 0.0) + 1j * values.imag
    weights = np.linalg.solve(vectors, np.eye(size)[:, 0]) * vectors[0]
    return np.asarray((np.exp(np.multiply.outer(times, values)) @ weights).real * norm**2)
