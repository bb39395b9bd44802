"""Fisher scoring on the innovations of noisy tracks: amplitudes of drift and Σ, and Λ, with ridges of largest evidence.

Normal equations come from `itofit.model.hidden.sensitivities`. For the drift they are those of a least-squares
problem with noise of known variance, as for clean data, with information that is less by what the noise hides. So
the evidence for its ridges, and its posterior, are the same functions of them (`itofit.learning.automatic.evidence`,
`itofit.learning.spread`). For the entries of H they are as well, after Λ is eliminated:

    A' = A_BB − A_BΛ A_ΛΛ⁻¹ A_ΛB.

So the error bars of Σ contain that the share of the noise that is measurement is uncertain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from itofit._blocks import one_blas_thread
from itofit._checks import Float
from itofit.data.following import follows
from itofit.data.passes import Data, add_up
from itofit.learning.automatic.drift import Drift
from itofit.learning.automatic.evidence import (
    Solved,
    amplitude_ridges,
    best_ridges,
    first_ridges,
    ridge_groups,
    staying_groups,
)
from itofit.learning.automatic.penalised import inverse_root, left_by_others, solve_penalised
from itofit.learning.automatic.principal import NO_FEATURES
from itofit.learning.noisy.noisy_model import NoisyModel
from itofit.model.hidden.gaussian_step import with_held
from itofit.model.hidden.sensitivities import Normal, error_directions, of_drift, of_noise, positive_part
from itofit.model.hidden.tracking import filtered
from itofit.model.hidden.windows import InOrder, Overlapping, Windows, chunks, cut
from itofit.model.training import SWITCHED_OFF

MOST_ROUNDS = 12
"""Of scoring; most fits settle within six."""
ROUNDS_OF_FREEDOM = 1
"""Rounds in which groups that were switched off may come back."""
SETTLED_GAIN = 0.5
"""Of the penalised log-likelihood of all data: rounds that gain or lose less end the scoring.

Each amplitude has noise of half a nat, so more means nothing; scoring ends near the largest likelihood, not exactly
there.
"""
SHARES = (1.0, 0.5, 0.2, 0.05)
"""Of a step, that are tried until one gains."""
SEED = 400
"""Which windows are used where not all are does not depend on the seed of a fit."""


class TrackSums(NamedTuple):
    """What the filter says of a model, added up over the data."""

    loss: float  # −log p of all observations but the first of each track
    n: int
    drift: Normal
    noise: Normal

    @classmethod
    def nothing(cls, model: NoisyModel) -> TrackSums:
        """Those of no data."""
        d, sizes = len(model.noise), (model.amplitudes.size, model.sigma.fit.B.size)
        return cls(0.0, 0, *(Normal(np.zeros((q, q)), np.zeros(q)) for q in (sizes[0], sizes[1] + d * (d + 1) // 2)))

    def plus(self, other: TrackSums) -> TrackSums:
        """Those of more data."""
        drift, noise = self.drift.plus(other.drift), self.noise.plus(other.noise)
        return TrackSums(self.loss + other.loss, self.n + other.n, drift, noise)


@dataclass(frozen=True, eq=False)
class Scored:
    """A model with its sums."""

    model: NoisyModel
    sums: TrackSums
    settled: bool = True

    @property
    def objective(self) -> float:
        """Penalised −log p."""
        return self.sums.loss + self.model.penalty


class Tracks:
    """The data of a fit, cut into windows that suit a model."""

    def __init__(self, data: Data, h: float, share: float = 1.0) -> None:
        self.data, self.h, self.share = data, h, share

    def sums(self, model: NoisyModel, *, free: bool = True) -> TrackSums:
        """One pass over the data, with the normal equations of amplitudes; of Σ, unless free, of those in use."""
        fit, share, in_use = model.sigma.fit, self.share, None if free else model.noise_in_use
        errors = error_directions(len(model.noise))

        def of_block(block: Overlapping, number: int) -> TrackSums:
            total: TrackSums | None = None
            windows = cut(follows(block.rows), overlap, kept, block.n_before)
            for chunk in chunks(block.rows, some(windows, share, number)):
                found = filtered(model.step, chunk, model.noise, model.prior)
                T, W, D = found.mean_before.shape
                at = found.m[:-1].reshape(-1, D)
                if model.second_order:  # in the middle of the step
                    at = 0.5 * (at + found.mean_before.reshape(-1, D))
                at = with_held(at, chunk.u.reshape(T * W, -1))
                X = model.drift_features(at).reshape(T, W, -1)
                Z, changes = model.noise_features(at)
                d, p = fit.shape.d, fit.shape.n_entries
                own = TrackSums(
                    float(found.losses()[chunk.kept].sum()),
                    chunk.n_kept,
                    of_drift(found, chunk, X),
                    of_noise(found, chunk, Z.reshape(T, W, -1), changes.reshape(T, W, p, d, d), errors, in_use),
                )
                total = own if total is None else total.plus(own)
            return total or TrackSums.nothing(model)

        overlap, kept = model.window_lengths(self.h)
        with one_blas_thread, np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return add_up(InOrder(self.data, overlap), of_block)


def some(windows: Windows, share: float, number: int) -> Windows:
    """The windows of a block that are used: all, or a share of them at random."""
    if share >= 1:
        return windows
    chosen = np.random.default_rng([SEED, number]).random(len(windows.first)) < share
    chosen[: number == 0] = True
    return windows.at(np.flatnonzero(chosen))


# One round


def improved(scored: Scored, n_cells: int, *, known: bool, free: bool) -> NoisyModel:
    """The model that a step of scoring leads to.

    Parameters
    ----------
    scored : Scored
    n_cells : int
        In whose units the ridges of the drift are.
    known : bool
        Whether Λ is known.
    free : bool
        Whether groups that were switched off may come back.
    """
    model = _improved_drift(scored, n_cells, free=free)
    return _improved_noise(replace(scored, model=model), known=known, free=free)


def drift_system(scored: Scored, n_cells: int) -> tuple[Float, Float, Float]:
    """Left and right side of the drift's least-squares problem, in units (d,) of the outputs, which come third."""
    model, (H, score) = scored.model, scored.sums.drift
    R = model.amplitudes.shape[1]
    unit = np.sqrt(n_cells / np.diagonal(H)[::R])
    scale = np.repeat(unit, R)
    return H * np.outer(scale, scale), (H @ model.amplitudes.ravel() + score) * scale, unit


def _improved_drift(scored: Scored, n_cells: int, *, free: bool) -> NoisyModel:
    model = scored.model
    H, g, unit = drift_system(scored, n_cells)
    ridges = model.ridges
    if free:
        ridges = np.where(ridges < SWITCHED_OFF, ridges, first_ridges(model.basis))
    ridges = best_ridges(H, g, model.basis, ridges)
    solution, _, _ = solve_penalised(H, g, amplitude_ridges(ridges, model.basis))
    amplitudes = (np.repeat(unit, model.amplitudes.shape[1]) * solution).reshape(model.amplitudes.shape)
    return replace(model, amplitudes=amplitudes, ridges=ridges, unit=unit)


class NoiseSystem(NamedTuple):
    """The least-squares problem of the entries of H, without Λ."""

    A: Float  # (p (R + 1), p (R + 1))
    b: Float
    errors: Float  # (q, p (R + 1)): by how much Λ falls with the amplitudes
    alone: Float  # (q,): and where it is if they stay
    spread: Float  # (q, q): its covariance, given them


def noise_system(scored: Scored, *, known: bool) -> NoiseSystem:
    """The problem of the entries of H, Λ being eliminated unless it is known."""
    (information, score), B = scored.sums.noise, scored.model.sigma.fit.B
    size, R = B.size, len(B)
    A, c, rise = information[:size, :size].copy(), B.T.ravel(), score[:size].copy()
    of_prior = scored.model.away_from_singular
    A[::R, ::R] += of_prior[0]
    rise[::R] += of_prior[1]
    b = A @ c + rise
    if known:
        return NoiseSystem(A, b, np.zeros((0, size)), np.zeros(0), np.zeros((0, 0)))
    back = np.asarray(np.linalg.inv(information[size:, size:]), dtype=np.float64)
    cross = information[:size, size:]
    slope = back @ cross.T
    alone = back @ score[size:]
    # cross @ (θ_Λ − current) with the score of Λ, at amplitudes that move from c
    return NoiseSystem(A - cross @ slope, b - cross @ alone - cross @ slope @ c, slope, alone, back)


def _improved_noise(scored: Scored, *, known: bool, free: bool) -> NoisyModel:
    model = scored.model
    sigma, fit = model.sigma, model.sigma.fit
    basis = sigma.basis or NO_FEATURES
    R, p = fit.B.shape
    system = noise_system(scored, known=known)
    ridges = fit.ridges.copy()
    for e in range(p):
        own = slice(e * R, (e + 1) * R)
        rest = np.delete(np.arange(p * R), np.arange(own.start, own.stop))
        b = system.b[own] - system.A[own][:, rest] @ fit.B.T.ravel()[rest]
        start = ridges[e : e + 1]
        if free:
            start = np.where(start < SWITCHED_OFF, start, first_ridges(basis))
        ridges[e : e + 1] = best_ridges(system.A[own, own], b, basis, start)
    P = amplitude_ridges(ridges, basis)
    c = solve_penalised(system.A, system.b, P)[0]
    old = fit.B.T.ravel()
    change = (c - old).reshape(p, R).T
    share = _share(model, change)
    B = fit.B + share * change
    noise = model.noise
    if not known:
        errors = system.alone - system.errors @ (share * change).T.ravel()
        noise = positive_part(noise + np.tensordot(errors, error_directions(len(noise)), 1), noise)
    return replace(model, sigma=sigma._replace(fit=replace(fit, B=B, ridges=ridges)), noise=noise)


def _share(model: NoisyModel, change: Float) -> float:
    """The part of a change of the amplitudes of H that is not too much for Σ at places where states are."""
    fit = model.sigma.fit
    Z = np.ones((1, 1)) if change.shape[0] == 1 else model.noise_features(model.places)[0]
    return float(np.nan_to_num(fit.link.largest_share(Z @ fit.B, Z @ change, fit.shape), nan=0.5).min())


# Rounds


def score(
    tracks: Tracks,
    model: NoisyModel,
    n_cells: int,
    *,
    known: bool = False,
    rounds: int = MOST_ROUNDS,
    bars: bool = True,
    shown: Callable[[int, float], None] = lambda number, loss: None,
) -> Scored:
    """Scoring from a model to where the penalised likelihood of the observations no longer rises.

    Error bars, if they are wanted, ask for the normal equations of what was switched off as well.
    """
    scored = _most_likely(tracks, Scored(model, tracks.sums(model)), n_cells, known, rounds, shown)
    if not bars or scored.model.noise_in_use is None:
        return scored
    return replace(scored, sums=tracks.sums(scored.model))


def _most_likely(
    tracks: Tracks, scored: Scored, n_cells: int, known: bool, rounds: int, shown: Callable[[int, float], None]
) -> Scored:
    for number in range(rounds):
        shown(number, scored.sums.loss / scored.sums.n)
        new = improved(scored, n_cells, known=known, free=number < ROUNDS_OF_FREEDOM)
        before = replace(scored, model=model_with_ridges(scored.model, new)).objective
        for share in SHARES:
            trial = scored.model.between(new, share)
            sums = tracks.sums(trial, free=number + 1 < ROUNDS_OF_FREEDOM)
            gain = before - Scored(trial, sums).objective
            if gain > -SETTLED_GAIN:
                break
        else:
            return scored
        scored = Scored(trial, sums)
        if number >= ROUNDS_OF_FREEDOM and abs(gain) < SETTLED_GAIN:
            return scored
    return replace(scored, settled=False)


def model_with_ridges(model: NoisyModel, other: NoisyModel) -> NoisyModel:
    """A model with the ridges of another one."""
    return model.between(other, 0.0)


# What it ends with


def scored_drift(scored: Scored, n_cells: int) -> Drift:
    """The drift in the form that error bars and models are made of."""
    model = scored.model
    d = len(model.amplitudes)
    H, g, unit = drift_system(scored, n_cells)
    P = amplitude_ridges(model.ridges, model.basis)
    solution, inverse_diagonal, _ = solve_penalised(H, g, P)
    solved = Solved(H, g, P, solution, ridge_groups(model.basis, d), stays=staying_groups(model.basis, d))
    determined = float((1 - inverse_diagonal * P).sum())
    return Drift(model.amplitudes[:, 0], model.amplitudes[:, 1:].T, model.ridges, unit, determined, [], [solved])


def scored_noise(scored: Scored, *, known: bool) -> tuple[NoisyModel, Float]:
    """The model whose Σ has error bars of this fit, and the covariance (q, q) of the entries of Λ."""
    model, sigma = scored.model, scored.model.sigma
    fit = sigma.fit
    basis = sigma.basis or NO_FEATURES
    R, p = fit.B.shape
    system = noise_system(scored, known=known)
    P, c = amplitude_ridges(fit.ridges, basis), fit.B.T.ravel()
    systems, determined = [], 0.0
    for e in range(p):
        own = slice(e * R, (e + 1) * R)
        rest = np.delete(np.arange(p * R), np.arange(own.start, own.stop))
        A, b = system.A[own, own], system.b[own] - system.A[own][:, rest] @ c[rest]
        if len(rest):  # what other entries may do instead
            A = left_by_others(system.A, P, own)
            b = A @ c[own] + (b - system.A[own, own] @ c[own])
        systems.append(Solved(A, b, P[own], c[own], ridge_groups(basis, 1)))
        determined += float((1 - solve_penalised(A, b, P[own])[1] * P[own]).sum())
    new = replace(fit, systems=systems, determined=determined)
    spread = system.spread
    if not known:
        W = inverse_root(system.A, P)[0]
        moves = W @ system.errors.T
        spread = spread + moves.T @ moves
    return replace(model, sigma=sigma._replace(fit=new)), spread


def evidence(scored: Scored, drift: Drift, noise: NoisyModel) -> float:
    """The log-likelihood of the observations less the number of amplitudes that it took."""
    return -scored.sums.loss - drift.determined - noise.sigma.fit.determined
