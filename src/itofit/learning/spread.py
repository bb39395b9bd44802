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

The last two terms are what smoothing may have taken away: a bias of the fit, as far as the data determine it.

What was switched off counts as well: beside waves, with amplitudes of the size that noise makes of them; beside a
polynomial as far as it is probably there (`itofit.learning.missing_terms`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from itofit._checks import Float, Int
from itofit.learning.automatic.evidence import Solution, Solved, least_used, maximise_evidence
from itofit.learning.automatic.penalised import inverse_root
from itofit.learning.automatic.principal import DOUBT, Basis
from itofit.learning.missing_terms import is_polynomial, missing_squares
from itofit.model.training import SWITCHED_OFF
from itofit.waves.scaling import Scaling
from itofit.waves.series import FourierSeries

STEEPNESS = (1.0, 0.75, 0.5, 0.25)
"""Exponents s of the ridges λ_g/μˢ that are averaged over; 1 is that of the fit."""
MOST_ROUNDS = 8
"""Of the ridges, for each of them."""
LEAST_DETERMINED = 0.5
"""Amplitudes that a group determines at least, for the uncertainty of its ridge."""
NEGLIGIBLE = 1e-4
"""Directions whose standard deviation is a smaller share of the largest are left out."""


class Posterior(NamedTuple):
    """Amplitudes of d functions (1, X) c, and how far they may be off."""

    amplitudes: Float  # (d, R + 1)
    squares: Float  # (d, R + 1, R + 1): M of each

    def turned(self, operators: Float) -> Posterior:
        """That of amplitudes turned by matrices (d, R + 1, R + 1), function by function."""
        amplitudes = np.einsum("jab,jb->ja", operators, self.amplitudes)
        return Posterior(amplitudes, operators @ self.squares @ operators.swapaxes(1, 2))


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
    squares = np.concatenate([_mean_squares(part, p // len(parts)) for part in parts])
    if all(is_polynomial(part) for part in parts):
        missing = missing_squares([_with_weak_terms(part) for part in parts])
        squares += np.concatenate([_of_outputs(each, p // len(parts)) for each in missing])
    return squares if unit is None else squares * unit[:, None, None] ** 2


def posterior_squares(parts: Sequence[Solved], unit: Float) -> Float:
    """What of M is noise: σ² (A + P)⁻¹ for the ridges of the fit, of the amplitudes in use; parameters as above."""
    p, squares = len(unit) // len(parts), []
    for part in parts:
        used = np.flatnonzero(part.P < SWITCHED_OFF)
        W = np.zeros((len(used), len(part.P)))
        W[:, used] = inverse_root(part.A[np.ix_(used, used)], part.P[used])[0]
        squares += [part.variance * own.T @ own for own in np.split(W, p, axis=1)]
    return np.array(squares) * unit[:, None, None] ** 2


def _mean_squares(solved: Solved, p: int) -> Float:
    """M of the amplitudes of each of p outputs, of one problem."""
    solved = _with_weak_terms(solved)
    used, doubted = _used_and_doubted(solved)
    own = _restricted(solved, used)
    size, alone = len(solved.P) // p, is_polynomial(solved)
    outputs = [slice(j * size, (j + 1) * size) for j in range(p)]
    log_evidence, squares = [], []
    for ridged in _ridged(own):
        W = ridged.W
        if alone:
            W = np.zeros((len(used), len(doubted)))
            W[:, used] = ridged.W
        elif len(used) < len(doubted):
            doubted[used] = ridged.P
            W = inverse_root(solved.A, doubted)[0]
        shifts = np.zeros((1 + len(ridged.moves), len(doubted)))
        shifts[:, used] = [ridged.m - own.c, *ridged.moves]
        rows = np.concatenate([np.sqrt(solved.variance) * W, shifts])
        squares.append([rows[:, output].T @ rows[:, output] for output in outputs])
        log_evidence.append(ridged.log_evidence)
    weight = np.exp(np.array(log_evidence) - max(log_evidence))
    return np.asarray(np.einsum("s,sjkl->jkl", weight / weight.sum(), np.array(squares)))


def _of_outputs(squares: Float, p: int) -> Float:
    """The blocks (p, R + 1, R + 1) on the diagonal that belong to the outputs of one problem."""
    size = len(squares) // p
    return np.array([squares[j * size : (j + 1) * size, j * size : (j + 1) * size] for j in range(p)])


def _with_weak_terms(solved: Solved) -> Solved:
    """The problem in which terms that are never switched off have no larger ridge than the data have to say of them.

    That they are probably zero is no certainty: error bars allow for what shrinking has taken away.
    """
    stays = np.isin(solved.group, list(solved.stays))
    return solved._replace(P=np.where(stays, np.minimum(solved.P, np.diagonal(solved.A)), solved.P))


def _used_and_doubted(solved: Solved) -> tuple[Int, Float]:
    """Places of the amplitudes in use, and ridges (q,) with which those of the others are doubted.

    Of a group that was switched off the data say that its amplitudes are hardly larger than what noise makes them.
    """
    A, P, group = solved.A, solved.P.copy(), solved.group
    used = np.ones(len(P), dtype=bool)
    for own in (np.flatnonzero(group == g) for g in np.unique(group[group >= 0])):
        smallest = P[own].min()
        if smallest >= SWITCHED_OFF:
            used[own] = False
            P[own] *= np.diagonal(A)[own].mean() / smallest
    return np.flatnonzero(used), P


def _restricted(solved: Solved, used: Int) -> Solved:
    """The problem of some amplitudes alone."""
    A, b, P, c, group, variance, stays = solved
    return Solved(A[np.ix_(used, used)], b[used], P[used], c[used], group[used], variance, stays)


class _Ridged(NamedTuple):
    """The posterior with certain ridges."""

    P: Float  # (q,)
    W: Float  # (q, q), with WᵀW = (A + P)⁻¹
    m: Float  # (q,)
    moves: list[Float]  # (q,) for each group: by how much m moves with log λ_g
    log_evidence: float


class _RidgedPosterior:
    """The posterior of a regression's amplitudes for ridges λ_g/μˢ of one steepness s."""

    def __init__(self, solved: Solved, penalty: Float, place: Int, n_groups: int) -> None:
        self.solved, self.penalty, self.place, self.n_groups = solved, penalty, place, n_groups
        self.has_ridge = solved.group >= 0
        size = np.bincount(place, minlength=n_groups)
        information = np.bincount(place, np.diagonal(solved.A)[self.has_ridge], n_groups).astype(float)
        groups = np.unique(solved.group[self.has_ridge]).tolist()
        stays = [solved.stays.get(g) for g in groups]
        of_waves = next((prior.doubt_of_waves for prior in solved.stays.values()), DOUBT)
        least = np.array([0.0 if prior is None else prior.least for prior in stays])
        self.least = least_used(size, information, solved.variance, least)
        self.doubt = np.array([of_waves if prior is None else prior.doubt for prior in stays])

    def ridge_of_each(self, ridges: Float) -> Float:
        """P (q,) for ridges (G,)."""
        P = np.zeros(len(self.solved.b))
        P[self.has_ridge] = ridges[self.place] * self.penalty
        return P

    def solve(self, ridges: Float) -> Solution:
        """For the loop that maximises the evidence."""
        P = self.ridge_of_each(ridges)
        W, _ = inverse_root(self.solved.A, P)
        m = W.T @ (W @ self.solved.b)
        used = np.bincount(self.place, self.penalty * m[self.has_ridge] ** 2, self.n_groups).astype(float)
        determined = self.determined(W, P)
        return Solution(ridges, m, determined, used, self.solved.variance, root=W, least=self.least, doubt=self.doubt)

    def determined(self, W: Float, P: Float) -> Float:
        """Number of amplitudes of each group (G,) that the data determine."""
        shares = np.clip(1 - np.einsum("ij,ij->j", W, W) * P, 0.0, 1.0)[self.has_ridge]
        return np.bincount(self.place, shares, self.n_groups).astype(float)

    def at(self, solution: Solution) -> _Ridged:
        """The posterior as `_mean_squares` needs it, for ridges that were solved with."""
        P, W, m = self.ridge_of_each(solution.ridges), solution.root, solution.c
        assert W is not None
        uncertain = np.sqrt(2 / np.maximum(solution.determined, LEAST_DETERMINED))
        groups = [np.flatnonzero(self.has_ridge)[self.place == g] for g in range(self.n_groups)]
        moves = [u * (W.T @ (W[:, own] @ (P[own] * m[own]))) for u, own in zip(uncertain, groups, strict=True)]
        projected, log_det = W @ self.solved.b, -2 * float(np.log(np.diagonal(W)).sum())
        fit = float(projected @ projected) / self.solved.variance
        log_evidence = 0.5 * (fit - log_det + float(np.log(P[self.has_ridge]).sum()))
        return _Ridged(P, W, m, moves, log_evidence)


def _ridged(solved: Solved) -> Iterator[_Ridged]:
    """The posterior with the ridges of each steepness; the first are those of the fit."""
    has_ridge = solved.group >= 0
    _, place = np.unique(solved.group[has_ridge], return_inverse=True)
    n_groups = int(place.max(initial=-1)) + 1
    own = solved.P[has_ridge]
    ridges = np.array([own[place == g].min() for g in range(n_groups)])
    penalty = own / ridges[place]
    for steepness in STEEPNESS if n_groups else (1.0,):
        posterior = _RidgedPosterior(solved, penalty**steepness, place, n_groups)
        if steepness == 1:
            solution = posterior.solve(ridges)
        else:
            best = maximise_evidence(posterior.solve, ridges, MOST_ROUNDS)
            solution, ridges = best.solution, best.solution.ridges if best.settled else best.ridges
        yield posterior.at(solution)


# Functions


def spread_series(basis: Basis, squares: Float, scaling: Scaling) -> FourierSeries:
    """The functions whose squares add up to the variances of p outputs, q for each: a series with p·q outputs.

    Parameters
    ----------
    basis : Basis
    squares : array of shape (p, R + 1, R + 1)
        M of intercept and c.
    scaling : Scaling
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
    return basis.series(flat[:, 0], flat[:, 1:].T, scaling)
