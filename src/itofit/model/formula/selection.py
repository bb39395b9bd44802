"""Which terms a function needs, from weighted normal equations alone.

=======  ==========  ======================================================================
symbol   shape       meaning
=======  ==========  ======================================================================
G        (K, K)      Σ_n w_n φ_n φ_nᵀ: the information that the data have on the coefficients
M        (K,)        Σ_n w_n φ_n y_n
B                    the terms that are in
=======  ==========  ======================================================================

With targets of variance 1/w, the terms B have log-likelihood ½ M_Bᵀ G_BB⁻¹ M_B above none. Each term costs `price` of
it: ½ z², where z is how far a coefficient that is zero gets by chance with the probability that is allowed. Terms are
added, dropped and exchanged as long as that pays, starting from none and from all, and the better end is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.special import ndtri as normal_quantile

from itofit._checks import Float, Int

COLLINEAR = 1e-9
"""Of a term's square, what others must leave of it, in units of the weighted data."""


class Chosen(NamedTuple):
    """The terms of a function, and what the data say of their coefficients."""

    places: Int  # (k,) in the library
    coefficients: Float  # (k,)
    covariance: Float  # (k, k)
    score: float


def price_of_term(false_alarms: float, n_candidates: int) -> float:
    """½ z² for which one of so many coefficients that are zero exceeds z errors with at most this probability."""
    return 0.5 * float(normal_quantile(0.5 * false_alarms / n_candidates)) ** 2


def choose(G: Float, M: Float, price: float, start: Int | None = None) -> Chosen:
    """The terms whose gain in log-likelihood, less what they cost, is the largest that the moves find.

    Parameters
    ----------
    G : array of shape (K, K)
    M : array of shape (K,)
    price : float
    start : array of int, optional
        Terms to start from; default: from none and from all.

    Examples
    --------
    >>> import numpy as np
    >>> from itofit.model.formula.selection import choose
    >>> x = np.linspace(-1, 1, 201)
    >>> terms = np.stack([x**0, x, x**2, x**3], axis=1)
    >>> chosen = choose(1e4 * terms.T @ terms, 1e4 * terms.T @ (2 * x - x**3), price=5.0)
    >>> chosen.places, chosen.coefficients.round(6)
    (array([1, 3]), array([ 2., -1.]))
    """
    unit = np.sqrt(np.diagonal(G))
    unit = np.where(unit > 0, unit, 1.0)
    R, m = G / np.outer(unit, unit), M / unit
    starts = (np.array([], dtype=int), _thinned(R, m, price)) if start is None else (start,)
    ends = [_climbed(R, m, price, each) for each in starts]
    best = max(ends, key=lambda end: end[1])
    return solved(G, M, np.sort(best[0]), best[1])


def choose_without(G: Float, M: Float, price: float, start: Int | None, left_out: Sequence[int]) -> Chosen:
    """The same without some of the terms."""
    kept = np.setdiff1d(np.arange(len(M)), left_out)
    own = None if start is None else np.searchsorted(kept, start[np.isin(start, kept)])
    chosen = choose(G[np.ix_(kept, kept)], M[kept], price, own)
    return chosen._replace(places=kept[chosen.places])


def solved(G: Float, M: Float, places: Int, score: float = 0.0) -> Chosen:
    """The coefficients of given terms."""
    if not len(places):
        return Chosen(places, np.empty(0), np.empty((0, 0)), score)
    own = G[np.ix_(places, places)]
    unit = np.sqrt(np.diagonal(own))
    inverse = _inverse(own / np.outer(unit, unit)) / np.outer(unit, unit)
    return Chosen(places, inverse @ M[places], inverse, score)


def same_choice(before: Chosen, after: Chosen, share: float) -> bool:
    """Whether two choices have the same terms, with coefficients that differ by at most a share of their errors."""
    if not np.array_equal(before.places, after.places):
        return False
    change = np.abs(after.coefficients - before.coefficients)
    return bool((change <= share * np.sqrt(np.diagonal(after.covariance))).all())


def _thinned(R: Float, m: Float, price: float) -> Int:
    """All terms, without those that do not pay, the weakest dropped first."""
    places = np.arange(len(m))
    while len(places):
        A = _inverse(R[np.ix_(places, places)])
        lost = 0.5 * (A @ m[places]) ** 2 / np.diagonal(A)
        if lost.min() >= price:
            break
        places = np.delete(places, int(np.argmin(lost)))
    return places


def _climbed(R: Float, m: Float, price: float, start: Int) -> tuple[Int, float]:
    """Terms from which no single move gains, and their score."""
    places = start
    while True:
        moves = list(_moves(R, m, price, places))
        gain, better = max(moves, key=lambda move: move[0], default=(0.0, places))
        if gain <= 1e-9 * price:
            break
        places = better
    A = _inverse(R[np.ix_(places, places)])
    return places, float(0.5 * m[places] @ A @ m[places] - price * len(places))


def _moves(R: Float, m: Float, price: float, places: Int) -> Iterator[tuple[float, Int]]:
    """All moves from some terms and what they gain: one dropped, the best one added, one exchanged for the best."""
    A = _inverse(R[np.ix_(places, places)])
    c = A @ m[places]
    lost = 0.5 * c**2 / np.diagonal(A)
    gain, term = _best_to_add(R, m, places, A)
    if term >= 0:
        yield gain - price, np.append(places, term)
    for i in range(len(places)):
        rest = np.delete(places, i)
        yield price - lost[i], rest
        if lost[i] < 3 * price or len(places) <= 6:  # a term that much is known of is not exchanged
            without = (
                np.delete(np.delete(A, i, 0), i, 1) - np.outer(np.delete(A[:, i], i), np.delete(A[i], i)) / A[i, i]
            )
            gain, term = _best_to_add(R, m, rest, without)
            if term >= 0 and term != places[i]:
                yield gain - lost[i], np.append(rest, term)


def _best_to_add(R: Float, m: Float, places: Int, A: Float) -> tuple[float, int]:
    """The term that raises the log-likelihood most, and by how much; -1 if there is none."""
    others = np.setdiff1d(np.arange(len(m)), places)
    if not len(others):
        return 0.0, -1
    cross = R[np.ix_(others, places)]
    left = np.diagonal(R)[others] - np.einsum("ij,jk,ik->i", cross, A, cross)
    free = left > COLLINEAR
    gains = np.where(free, 0.5 * (m[others] - cross @ (A @ m[places])) ** 2 / np.where(free, left, 1.0), 0.0)
    best = int(np.argmax(gains))
    return float(gains[best]), int(others[best])


def _inverse(matrix: Float) -> Float:
    if not len(matrix):
        return np.empty((0, 0))
    factor = scipy.linalg.cho_factor(matrix + 1e-14 * np.eye(len(matrix)))
    return np.asarray(scipy.linalg.cho_solve(factor, np.eye(len(matrix))))


def dependent_terms(G: Float) -> tuple[int, Int] | None:
    """The first term that is a combination of those before it, as far as numbers tell, and which take part in it."""
    unit = np.sqrt(np.diagonal(G))
    if not unit.all():
        return int(np.argmin(unit)), np.empty(0, dtype=int)
    R = G / np.outer(unit, unit)
    L = np.zeros_like(R)
    for k in range(len(R)):
        row = scipy.linalg.solve_triangular(L[:k, :k], R[:k, k], lower=True) if k else np.empty(0)
        left = R[k, k] - row @ row
        if left < COLLINEAR:
            weights = scipy.linalg.solve_triangular(L[:k, :k].T, row, lower=False)
            return k, np.flatnonzero(np.abs(weights) > 1e-3 * np.abs(weights).max(initial=0.0))
        L[k, :k], L[k, k] = row, np.sqrt(left)
    return None
