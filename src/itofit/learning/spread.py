"""How uncertain learned functions are: the posterior of their amplitudes, given the frequencies.

A function a + X c whose amplitudes deviate from the fitted ones by M = E (c − ĉ)(c − ĉ)ᵀ deviates at each point by
(1, X) M (1, X)ᵀ in mean square, a sum of squares of the functions that the scaled eigenvectors of M are amplitudes of.
Those functions are kept as one Fourier series, the largest of them first, q for each output.

For given ridges P and noise σ² the posterior of the amplitudes is N(m, σ² (A + P)⁻¹), m = (A + P)⁻¹ b. But the ridges
λ_g/μ of the fit (`itofit.learning.automatic.evidence`) are themselves uncertain, in two ways:

- *Steepness*. That they grow as 1/μ belongs to the waves that the search ended with, often the longest it knows, and
  the evidence may hardly tell them from shorter ones. Short waves have variances μ that fall less steeply: what the fit
  calls a large ridge, and therefore leaves out without a doubt, is for them a small one. So ridges λ_g/μˢ with s from 1
  down to ¼ are averaged over, each with the λ_g of largest evidence and with its evidence as weight.
- *Size*. The evidence determines log λ_g up to √(2/γ_g), γ_g being the number of amplitudes that the group determines,
  and m moves with it by dm/d log λ_g = −(A + P)⁻¹ P_g m (Kass and Steffey, 1989).

By the law of total variance, with weights w_s,

    M = Σ_s w_s (σ² (A + P_s)⁻¹ + (m_s − ĉ)(m_s − ĉ)ᵀ + Σ_g 2/γ_g (dm/d log λ_g)(dm/d log λ_g)ᵀ).

The last two terms are what smoothing may have taken away: a bias of the fit, as far as the data know of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, Int
from itofit.learning.automatic.evidence import OFF, SETTLED, Basis, Solved, inverse_root, updated_ridges
from itofit.waves.series import FourierSeries

STEEPNESS = (1.0, 0.75, 0.5, 0.25)
"""Exponents s of the ridges λ_g/μˢ that are averaged over; 1 is that of the fit."""
MOST_ROUNDS = 8
"""Of the ridges, for each of them."""
LEAST_DETERMINED = 0.5
"""Amplitudes that a group determines at least, for the uncertainty of its ridge."""
NEGLIGIBLE = 1e-4
"""Directions whose standard deviation is a smaller share of the largest are left out."""


# Amplitudes


def mean_squares(parts: Sequence[Solved], unit: Float | None = None) -> Float:
    """M of the R + 1 amplitudes of each of p outputs: shape (p, R + 1, R + 1).

    Parameters
    ----------
    parts : sequence of Solved
        Problems of one output each, or one problem of all of them.
    unit : array of shape (p,), optional
        Of the outputs.
    """
    p = len(parts) if unit is None else len(unit)
    found = np.concatenate([_mean_squares(part, p // len(parts)) for part in parts])
    return found if unit is None else found * unit[:, None, None] ** 2


def posterior_squares(parts: Sequence[Solved], unit: Float) -> Float:
    """What of M is noise: σ² (A + P)⁻¹ for the ridges of the fit, of the amplitudes in use; parameters as above."""
    p, found = len(unit) // len(parts), []
    for part in parts:
        used = np.flatnonzero(part.P < OFF)
        W = np.zeros((len(used), len(part.P)))
        W[:, used] = inverse_root(part.A[np.ix_(used, used)], part.P[used])[0]
        found += [part.variance * own.T @ own for own in np.split(W, p, axis=1)]
    return np.array(found) * unit[:, None, None] ** 2


def _mean_squares(solved: Solved, p: int) -> Float:
    """M of the amplitudes of each of p outputs, of one problem."""
    used, doubted = _used_and_doubted(solved)
    own = _restricted(solved, used)
    size = len(solved.P) // p
    outputs = [slice(j * size, (j + 1) * size) for j in range(p)]
    log_evidence, found = [], []
    for ridged in _ridged(own):
        W = ridged.W
        if len(used) < len(doubted):
            doubted[used] = ridged.P
            W = inverse_root(solved.A, doubted)[0]
        shifts = np.zeros((1 + len(ridged.moves), len(doubted)))
        shifts[:, used] = [ridged.m - own.c, *ridged.moves]
        rows = np.concatenate([np.sqrt(solved.variance) * W, shifts])
        found.append([rows[:, output].T @ rows[:, output] for output in outputs])
        log_evidence.append(ridged.log_evidence)
    weight = np.exp(np.array(log_evidence) - max(log_evidence))
    return np.asarray(np.einsum("s,sjkl->jkl", weight / weight.sum(), np.array(found)))


def _used_and_doubted(solved: Solved) -> tuple[Int, Float]:
    """Places of the amplitudes in use, and ridges (q,) with which those of the others are doubted.

    Of a group that was switched off the data say that its amplitudes are hardly larger than what noise makes them.
    """
    A, P, group = solved.A, solved.P.copy(), solved.group
    used = np.ones(len(P), dtype=bool)
    for own in (np.flatnonzero(group == g) for g in np.unique(group[group >= 0])):
        smallest = P[own].min()
        if smallest >= OFF:
            used[own] = False
            P[own] *= np.diagonal(A)[own].mean() / smallest
    return np.flatnonzero(used), P


def _restricted(solved: Solved, used: Int) -> Solved:
    """The problem of some amplitudes alone."""
    A, b, P, c, group, variance = solved
    return Solved(A[np.ix_(used, used)], b[used], P[used], c[used], group[used], variance)


class _Ridged(NamedTuple):
    """The posterior with certain ridges."""

    P: Float  # (q,)
    W: Float  # (q, q), with WᵀW = (A + P)⁻¹
    m: Float  # (q,)
    moves: list[Float]  # (q,) for each group: by how much m moves with log λ_g
    log_evidence: float


def _ridged(solved: Solved) -> Iterator[_Ridged]:
    """The posterior with the ridges of each steepness; the first are those of the fit."""
    A, b, P, _, group, variance = solved
    has_ridge = group >= 0
    _, place = np.unique(group[has_ridge], return_inverse=True)
    G = place.max(initial=-1) + 1
    ridges = np.array([P[has_ridge][place == g].min() for g in range(G)])
    penalty = P[has_ridge] / ridges[place]
    for steepness in STEEPNESS if G else (1.0,):
        own, P = penalty**steepness, np.zeros(len(b))
        for _ in range(MOST_ROUNDS):
            P[has_ridge] = ridges[place] * own
            W, log_det = inverse_root(A, P)
            projected = W @ b
            m = W.T @ projected
            shares = np.clip(1 - np.einsum("ij,ij->j", W, W) * P, 0.0, 1.0)[has_ridge]
            determined = np.bincount(place, shares, G).astype(float)
            if steepness == 1.0:
                break
            used = np.bincount(place, own * m[has_ridge] ** 2, G).astype(float)
            new = updated_ridges(ridges, determined, variance, used)
            if np.abs(np.log(new / ridges)).max() < SETTLED:
                break
            ridges = new
        groups = [np.flatnonzero(has_ridge)[place == g] for g in range(G)]
        uncertain = np.sqrt(2 / np.maximum(determined, LEAST_DETERMINED))
        moves = [u * (W.T @ (W[:, own] @ (P[own] * m[own]))) for u, own in zip(uncertain, groups, strict=True)]
        fit = float(projected @ projected) / variance
        log_evidence = 0.5 * (fit - log_det + float(np.log(P[has_ridge]).sum()))
        yield _Ridged(P.copy(), W, m, moves, log_evidence)


# Functions


def spread_series(basis: Basis, squares: Float, shift: Float, scale: Float) -> FourierSeries:
    """The functions whose squares add up to the variances of p outputs, q for each: a series with p·q outputs.

    Parameters
    ----------
    basis : Basis
    squares : array of shape (p, R + 1, R + 1)
        M of intercept and c.
    shift, scale : arrays of shape (m,)
        Of the inputs.
    """
    parts = []
    for own in squares:
        values, vectors = np.linalg.eigh(own)
        size = np.sqrt(np.maximum(values[::-1], 0.0))
        parts.append((size * vectors[:, ::-1]).T[size > NEGLIGIBLE * size.max(initial=0.0)])
    q = max(1, *(len(part) for part in parts))
    rows = np.zeros((len(parts), q, squares.shape[2]))
    for place, part in zip(rows, parts, strict=True):
        place[: len(part)] = part
    flat = rows.reshape(-1, squares.shape[2])
    return basis.series(flat[:, 0], flat[:, 1:].T, shift, scale)


def standard_deviations(series: FourierSeries, x: npt.ArrayLike, p: int) -> Float:
    """Those of p outputs at points x of shape (n, m): shape (n, p)."""
    values = series(x)
    return np.sqrt((values.reshape(len(values), p, -1) ** 2).sum(axis=2))


def with_members(own: Float, values: Float, others: Sequence[Float]) -> Float:
    """Standard deviations of values with what other fits of the same data say of the choice of frequencies.

    Two fits differ by twice the variance that the choice gives to one.
    """
    if not others:
        return own
    return np.sqrt(own**2 + 0.5 * np.mean([(other - values) ** 2 for other in others], axis=0))
