"""Likelihood refinement: the drift weighted by Σ⁻¹, and Σ by the likelihood itself, at given frequencies.

The negative log-likelihood of a cell (`itofit.cells`) of n transitions with the duration τ, moves M = Σ Δx and residual
products S = Σ rrᵀ/h is, up to constants,

    ½ tr Σ⁻¹ (… − f Mᵀ − M fᵀ + τ f fᵀ)    in the drift f,        ½ (n log det Σ + tr Σ⁻¹S)    in the covariance Σ.

The first is a least-squares problem with weights τ Σ⁻¹ that couples the outputs. Its ridges, one for each output and
group of frequencies, maximise the evidence; so what one output owes to one input is found for each pair, and a noise
that is nearly singular makes all outputs as accurate as the combination that it leaves alone. The second is minimised
by Fisher scoring: least squares with the weights that belong to the current Σ, again with ridges of largest evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from itofit._blocks import one_blas_thread
from itofit._checks import Float, Int
from itofit.cells import FOLDS
from itofit.covariance import entries
from itofit.evidence import OFF, Basis, solve_penalised, updated_ridges
from itofit.links import (
    Link,
    Shape,
    Spectrum,
    covariance_at,
    divided_difference,
    inverse_at_one,
    slope,
    value,
)

MOST_STEPS = 40
MOST_ROUNDS = 40
SETTLED = 0.2
START_SHARES = (1.0, 0.95, 0.8, 0.5, 0.0)
STEPS_OF_TAILS = 8
"""Scoring steps in which κ is estimated again."""
MOST_HALVINGS = 16
LEAST_GAIN = 0.05
"""Of the log-likelihood of all data: fits that gain less have settled."""
DESCENT = (1e-2, 1e-4)
"""What is added to S / n with the identity link, one after the other: without it, C would tend to zero where S is."""
HARDLY_WORSE = 1.0
"""Log-likelihood that a larger lower limit may cost."""
LEAST_IDENTITY = 5e-6
FLOORS = np.concatenate([10.0 ** np.arange(-12.0, -4.0), 10.0 ** np.arange(-4.0, -0.4, 0.5)])
MARGIN = 10.0
"""By which eigenvalues may leave their range on the data."""
LEAST_WEIGHT = 1e-8
"""Least weight of a cell in scoring, relative to the mean: where Σ does not depend on H."""


# The drift


class Drift(NamedTuple):
    """A drift intercept + X c for given frequencies."""

    intercept: Float  # (d,)
    c: Float  # (R, d)
    ridges: Float  # (d, G)
    determined: float  # number of amplitudes that the data determine
    folds: list[tuple[Float, Float]]  # intercept and c without the data of each fold


def normal_matrix(X: Float, weight: Float) -> Float:
    """Σ_n W_n ⊗ x_n x_nᵀ for features X (n, R) and weights (n, d, d): shape (dR, dR)."""
    d, R = weight.shape[1], X.shape[1]
    H = np.empty((d, R, d, R))
    for i in range(d):
        for j in range(i + 1):
            H[i, :, j] = (X.T * weight[:, i, j]) @ X
            H[j, :, i] = H[i, :, j].T
    return H.reshape(d * R, d * R)


def weighted_drift(
    X: Float,
    basis: Basis,
    duration: Float,
    moves: Float,
    precision: Float,
    fold: Int,
    ridge: float | None = None,
) -> Drift:
    """The drift of largest evidence for weights τ Σ⁻¹, and that of each five sixths of the data.

    Parameters
    ----------
    X : array of shape (n, R)
        Principal features at the cells.
    basis : Basis
        Theirs.
    duration, moves : arrays of shape (n,) and (n, d)
        τ and M.
    precision : array of shape (n, d, d) or (1, d, d)
        Σ⁻¹ at the cells, or one for all.
    fold : array of shape (n,)
    ridge : float, optional
        Algorithm 1's λ, instead of ridges of largest evidence.
    """
    d, (n, R) = moves.shape[1], X.shape
    if d > 1 and not precision[:, ~np.eye(d, dtype=bool)].any():  # the outputs do not know of each other
        own = [
            weighted_drift(X, basis, duration, moves[:, [j]], precision[:, [j]][:, :, [j]], fold, ridge) for j in range(d)
        ]
        return Drift(
            intercept=np.concatenate([f.intercept for f in own]),
            c=np.concatenate([f.c for f in own], axis=1),
            ridges=np.concatenate([f.ridges for f in own]),
            determined=sum(f.determined for f in own),
            folds=[
                (np.concatenate([a for a, _ in parts]), np.concatenate([c for _, c in parts], axis=1))
                for parts in zip(*(f.folds for f in own), strict=True)
            ],
        )
    ones = np.concatenate([np.ones((n, 1)), X], axis=1)
    H, g = np.zeros((FOLDS, d * (R + 1), d * (R + 1))), np.zeros((FOLDS, d * (R + 1)))
    for k in range(FOLDS):
        rows = fold == k
        own = precision if len(precision) == 1 else precision[rows]
        H[k], g[k] = _normal_equations(ones[rows], duration[rows], moves[rows], own)
    with one_blas_thread:
        total, right = H.sum(axis=0), g.sum(axis=0)
        intercepts = np.diagonal(total)[:: R + 1]  # N, in units of the noise
        given = None if ridge is None else ridge * intercepts[:, None] / basis.largest
        ridges, P = best_ridges(total, right, basis, d, given)
        solution, inverse_diagonal, _ = solve_penalised(total, right, P)
        folds = [solve_penalised(total - H[k], right - g[k], P)[0] for k in range(FOLDS)]
    split = [(part.reshape(d, -1)[:, 0], part.reshape(d, -1)[:, 1:].T) for part in (solution, *folds)]
    determined = float((1 - inverse_diagonal * P).sum())
    return Drift(*split[0], ridges, determined, split[1:])


def resolved_drift(blocks: Iterable[tuple[Float, Float, Float, Float]], basis: Basis, drift: Drift) -> Drift:
    """A drift solved again on other data with the same ridges.

    Parameters
    ----------
    blocks : iterable of (X, h, moves, precision)
        Of shapes (n, R), (n,), (n, d), and (n, d, d) or (1, d, d).
    basis : Basis
    drift : Drift
    """
    d, G = drift.ridges.shape
    P = _amplitude_ridges(drift.ridges, basis)
    H, g = np.zeros((len(P), len(P))), np.zeros(len(P))
    for X, h, moves, precision in blocks:
        more, right = _normal_equations(np.concatenate([np.ones((len(X), 1)), X], axis=1), h, moves, precision)
        H += more
        g += right
    solution, inverse_diagonal, _ = solve_penalised(H, g, P)
    parts = solution.reshape(d, -1)
    return Drift(parts[:, 0], parts[:, 1:].T, drift.ridges, float((1 - inverse_diagonal * P).sum()), [])


def _normal_equations(ones: Float, duration: Float, moves: Float, precision: Float) -> tuple[Float, Float]:
    """Left and right side of generalised least squares, shapes (d (R + 1), d (R + 1)) and (d (R + 1),)."""
    if len(precision) == 1:
        return np.kron(precision[0], (ones.T * duration) @ ones), (precision[0] @ (moves.T @ ones)).ravel()
    H = normal_matrix(ones, duration[:, None, None] * precision)
    return H, (np.einsum("nij,nj->in", precision, moves) @ ones).ravel()


def _amplitude_ridges(ridges: Float, basis: Basis) -> Float:
    """The ridge of every amplitude, output by output, its intercept first: shape (d (R + 1),)."""
    place = np.unique(basis.group, return_inverse=True)[1]
    return np.concatenate([np.zeros((len(ridges), 1)), ridges[:, place] * basis.penalty], axis=1).ravel()


def best_ridges(
    H: Float,
    g: Float,
    basis: Basis,
    d: int,
    given: Float | None,
    ridges: Float | None = None,
    rounds: int = MOST_ROUNDS,
    variance: float = 1.0,
) -> tuple[Float, Float]:
    """Ridges (d, G) of largest evidence for noise of known variance, and the ridge of each amplitude, (d (R + 1),).

    The first of the R + 1 amplitudes of an output is its intercept, without a ridge.
    """
    names, place = np.unique(basis.group, return_inverse=True)
    G, R = len(names), len(basis.penalty)
    everywhere = (np.arange(d)[:, None] * G + place).ravel()  # output and group of each amplitude with a ridge
    penalised = (np.arange(d)[:, None] * (R + 1) + 1 + np.arange(R)).ravel()
    penalty = np.tile(basis.penalty, d)
    if ridges is None:
        ridges = np.ones((d, G))
    flat = (ridges if given is None else given).ravel()
    P = np.zeros(d * (R + 1))
    for _ in range(rounds):
        P[penalised] = flat[everywhere] * penalty
        if given is not None:
            break
        active = P < OFF
        c = np.zeros(len(P))
        inverse_diagonal = np.zeros(len(P))
        c[active], inverse_diagonal[active], _ = solve_penalised(H[np.ix_(active, active)], g[active], P[active])
        shares = np.where(active, 1 - inverse_diagonal * P, 0.0)[penalised]
        determined = np.bincount(everywhere, np.clip(shares, 0.0, 1.0), d * G)
        used = np.bincount(everywhere, penalty * c[penalised] ** 2, d * G)
        new = updated_ridges(flat, determined, variance, used)
        moved = np.abs(np.log(new / flat)).max(initial=0.0)
        flat = new
        if moved < SETTLED:
            break
    P[penalised] = flat[everywhere] * penalty
    return flat.reshape(d, G), P


# The covariance

NO_FEATURES = Basis(np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(0), np.zeros(0), np.zeros(0, dtype=int), np.zeros(0))


class CovarianceFit(NamedTuple):
    """H = intercept + X c, entry by entry, for one link."""

    link: Link
    shape: Shape
    intercept: Float  # (p,)
    c: Float  # (R, p)
    ridges: Float  # (p, G)
    limits: Float  # (2, d): of the eigenvalues of C, or of its diagonal entries if those are all
    least: Float  # half of the smallest values that C has on the data
    extra: float  # what was added to S / n
    kappa: float
    cv_nll: float  # per transition, each fold with the amplitudes of the others
    determined: float
    converged: bool


def covariance_nll(H: Float, S: Float, count: Float, link: Link, shape: Shape, kappa: float = 0.0) -> float:
    """Σ ½ (n log det C + tr C⁻¹S) over cells, for the entries (n, p) of H; infinite where C is not positive definite.

    With κ > 0 and entries that do not know of each other, its quasi-likelihood for the variance 2C² + 2κC of S,

        ½ (n log (C + κ) + S/κ · log (1 + κ/C)).
    """
    spectrum = Spectrum.of(H, shape)
    C = value(spectrum.eta, link)
    turned = spectrum.turned(S, shape)
    if not (C > 0).all():
        return np.inf
    own = turned if spectrum.Q is None else np.diagonal(turned, axis1=1, axis2=2)
    fit = own / C if kappa == 0 else own / kappa * np.log1p(kappa / C)
    return float(0.5 * (count @ np.log(C + kappa) + fit.sum(axis=0)).sum())


class Losses(NamedTuple):
    """The nll of cells with each of several lower limits of C, summed: over all eigenvalues, or entry by entry."""

    sums: Float  # (F, k)
    products: Float  # (F, F, k): of the nll with one limit and with another

    def plus(self, other: Losses) -> Losses:
        """Those of both sets of cells."""
        return Losses(self.sums + other.sums, self.products + other.products)

    def limits(self, floors: Float, least: Float, most: Float) -> tuple[Float, float]:
        """Limits (2, d) with the largest lower ones than which none is significantly better, and the loss with them.

        Larger than `least` they are only if that is better.
        """
        k = np.arange(self.sums.shape[1])
        best = np.argmin(self.sums, axis=0)
        own = np.einsum("ffk->fk", self.products)
        error = np.sqrt(np.maximum(own - 2 * self.products[:, best, k] + own[best, k], 0.0))
        good = self.sums <= self.sums.min(axis=0) + HARDLY_WORSE + 2 * error
        good &= floors[:, None] <= np.maximum(floors[best], least)
        chosen = len(floors) - 1 - np.argmax(good[::-1], axis=0)
        lower = np.broadcast_to(floors[chosen], most.shape)
        return np.stack([lower, np.maximum(most, lower)]), float(self.sums[chosen, k].sum())


def losses_of(H: Float, S: Float, count: Float, link: Link, shape: Shape, floors: Float, most: Float) -> Losses:
    """The losses of cells, with an upper limit of C."""
    spectrum = Spectrum.of(H, shape)
    turned = spectrum.turned(S, shape)
    own = turned if spectrum.Q is None else np.diagonal(turned, axis1=1, axis2=2)
    C = value(spectrum.eta, link)
    kept = (np.clip(C, floor, np.maximum(most, floor)) for floor in floors)
    nll = np.stack([0.5 * (count[:, None] * np.log(c) + own / c) for c in kept])  # (F, n, d)
    if not shape.separate:
        nll = nll.sum(axis=2, keepdims=True)
    columns = np.ascontiguousarray(np.moveaxis(nll, 2, 0))
    return Losses(nll.sum(axis=1), np.moveaxis(columns @ columns.swapaxes(1, 2), 0, 2))


def held_out_losses(fit: CovarianceFit, X: Float, S: Float, count: Float) -> Float:
    """The nll of each of some other cells, with the lower limits that suit them best."""
    H = fit.intercept + X @ fit.c
    floors, most = _floors(fit.link), fit.limits[1]
    losses = losses_of(H, S, count, fit.link, fit.shape, floors, most)
    (lower, upper), _ = losses.limits(floors, fit.least, most)
    spectrum = Spectrum.of(H, fit.shape)
    turned = spectrum.turned(S, fit.shape)
    own = turned if spectrum.Q is None else np.diagonal(turned, axis1=1, axis2=2)
    C = np.clip(value(spectrum.eta, fit.link), lower, upper)
    return np.asarray(0.5 * (count[:, None] * np.log(C) + own / C).sum(axis=1))


def _floors(link: Link) -> Float:
    """Lower limits of C that are compared."""
    return FLOORS[FLOORS > LEAST_IDENTITY] if link == "identity" else FLOORS


def working(H: Float, S: Float, count: Float, link: Link, shape: Shape, kappa: float = 0.0) -> tuple[Float, Float]:
    """Gradient of the nll in each entry of H, and its expected second derivative: shapes (n, p)."""
    spectrum = Spectrum.of(H, shape)
    C, turned = value(spectrum.eta, link), spectrum.turned(S, shape)
    if spectrum.Q is None:
        E = slope(spectrum.eta, link)
        inverse = 0.5 / (C * (C + kappa))
        return (count[:, None] * C - turned) * E * inverse, count[:, None] * E**2 * inverse
    d, Q, root = shape.d, spectrum.Q, 1 / np.sqrt(C)
    both = root[:, :, None] * root[:, None, :]
    K = divided_difference(spectrum.eta, link) * both
    inner = 0.5 * K * (count[:, None, None] * np.eye(d) - turned * both)
    matrices = Q @ inner @ Q.swapaxes(1, 2)  # the gradient in H
    rows, cols = entries(shape.structure, d)
    gradient = np.where(rows == cols, 1.0, 2.0) * matrices[:, rows, cols]
    weight = np.empty_like(gradient)
    for place, (i, j) in enumerate(zip(rows, cols, strict=True)):
        change = Q[:, i, :, None] * Q[:, j, None, :]
        if i != j:
            change = change + change.swapaxes(1, 2)
        weight[:, place] = 0.5 * count * ((K * change) ** 2).sum(axis=(1, 2))
    return gradient, weight


def fit_covariance(
    X: Float,
    basis: Basis | None,
    S: Float,
    count: Float,
    fold: Int,
    link: Link,
    shape: Shape,
    ridge: float | None = None,
    start: CovarianceFit | None = None,
) -> CovarianceFit:
    """Minimise the likelihood over H at given frequencies, with ridges of largest evidence.

    Parameters
    ----------
    X : array of shape (n, R)
        Principal features at the cells.
    basis : Basis or None
        Theirs; None if there are no features: Σ is constant.
    S : array of shape (n, p)
        Entries of the residual products, in units of the reference covariance.
    count : array of shape (n,)
    fold : array of shape (n,)
    link : {"identity", "square", "log"}
    shape : Shape
    ridge : float, optional
        Algorithm 1's λ, instead of ridges of largest evidence.
    start : CovarianceFit, optional
        Where to start from; a constant Σ if left out.
    """
    basis = basis or NO_FEATURES
    ones = np.concatenate([np.ones((len(X), 1)), X], axis=1)
    rows, cols = entries(shape.structure, shape.d)
    B = np.zeros((X.shape[1] + 1, shape.n_entries))
    B[0] = inverse_at_one(link) * (rows == cols)
    ridges = np.ones((shape.n_entries, len(np.unique(basis.group))))
    if start is not None:
        ridges, constant, given = start.ridges, B, np.concatenate([start.intercept[None], start.c])
        for share in START_SHARES:  # as near to it as C is positive definite
            if np.isfinite(covariance_nll(ones @ (B := constant + share * (given - constant)), S, count, link, shape)):
                break
    best: CovarianceFit | None = None
    with one_blas_thread:
        for extra in DESCENT if link == "identity" and not shape.separate else (0.0,):
            more = S + extra * count[:, None] * (rows == cols)
            B, P, ridges, kappa, converged = _scored(ones, basis, B, ridges, more, count, link, shape, ridge)
            fit = _judged(ones, B, P, ridges, more, S, count, fold, link, shape, extra, converged, kappa)
            if best is None or fit.cv_nll < best.cv_nll:
                best = fit
    assert best is not None
    return best


def _scored(
    ones: Float,
    basis: Basis,
    B: Float,
    ridges: Float,
    S: Float,
    count: Float,
    link: Link,
    shape: Shape,
    ridge: float | None,
) -> tuple[Float, Float, Float, float, bool]:
    """Fisher scoring from B (R + 1, p) and ridges (p, G): where it ends, with the ridge of each amplitude."""
    N, P = count.sum(), np.zeros_like(B)
    kappa = 0.0
    for step in range(MOST_STEPS):
        if shape.separate and step < STEPS_OF_TAILS:
            kappa = _tails(value(ones @ B, link), S, count)
        loss = covariance_nll(ones @ B, S, count, link, shape, kappa)
        systems, weight, z = _systems(ones, ones @ B, S, count, link, shape, kappa)
        spread = (weight * (z - ones @ B) ** 2).sum(axis=0) / N  # more than one where tails are heavy
        new, new_ridges = np.empty_like(B), np.empty_like(ridges)
        for j, (A, b) in enumerate(systems):
            variance = max(1.0, float(spread[j]))
            given = None if ridge is None else ridge * A[:1, :1] / basis.largest
            found, P[:, j] = best_ridges(A, b, basis, 1, given, ridges[j : j + 1], 4 if step else 12, variance)
            new_ridges[j] = found[0]
            new[:, j] = solve_penalised(A, b, P[:, j])[0]
        before = loss + 0.5 * float((P * B**2).sum())
        for halving in range(MOST_HALVINGS):
            trial = B + 0.5**halving * (new - B)
            trial_loss = covariance_nll(ones @ trial, S, count, link, shape, kappa)
            gain = before - trial_loss - 0.5 * float((P * trial**2).sum())
            if gain >= 0:
                break
        else:
            return B, P, new_ridges, kappa, True  # up to rounding no step improves on what there is
        settled = np.abs(np.log(new_ridges / ridges)).max(initial=0.0) < SETTLED
        B, ridges = trial, new_ridges
        if gain < LEAST_GAIN * 0.5**halving and settled:
            return B, P, ridges, kappa, True
    return B, P, ridges, kappa, False


def _tails(C: Float, S: Float, count: Float) -> float:
    """κ, from the variance 2C² + 2κC of the products of each transition: zero for Gaussian noise."""
    mean = S / count[:, None]
    excess = count[:, None] * (mean - C) ** 2 / (2 * C) - C
    return max(float((excess * count[:, None]).sum() / (count.sum() * C.shape[1])), 0.0)


def _systems(
    ones: Float, H: Float, S: Float, count: Float, link: Link, shape: Shape, kappa: float
) -> tuple[list[tuple[Float, Float]], Float, Float]:
    """One scoring step as a least-squares problem for each entry of H: A and b, and its weights and targets (n, p)."""
    gradient, weight = working(H, S, count, link, shape, kappa)
    weight = np.maximum(weight, LEAST_WEIGHT * count[:, None])
    z = H - gradient / weight
    weighted = [ones.T * column for column in weight.T]
    return [(x @ ones, x @ z[:, j]) for j, x in enumerate(weighted)], weight, z


def _judged(
    ones: Float,
    B: Float,
    P: Float,
    ridges: Float,
    more: Float,
    S: Float,
    count: Float,
    fold: Int,
    link: Link,
    shape: Shape,
    extra: float,
    converged: bool,
    kappa: float,
) -> CovarianceFit:
    """A fit with its likelihood, and that of each fold by amplitudes one scoring step away, without the fold."""
    systems, weight, z = _systems(ones, ones @ B, more, count, link, shape, kappa)
    out_of_fold, determined = np.empty_like(z), 0.0
    for j, (A, b) in enumerate(systems):
        determined += float((1 - solve_penalised(A, b, P[:, j])[1] * P[:, j]).sum())
        for k in range(FOLDS):
            mine = fold == k
            x = ones[mine].T * weight[mine, j]
            out_of_fold[mine, j] = ones[mine] @ solve_penalised(A - x @ ones[mine], b - x @ z[mine, j], P[:, j])[0]
    N = count.sum()
    C = value(Spectrum.of(ones @ B, shape).eta, link)
    most = MARGIN * (C.max(axis=0) if shape.separate else np.full(shape.d, C.max()))
    least = 0.5 * np.quantile(C if shape.separate else C.min(axis=1, keepdims=True), 0.01, axis=0)
    losses = losses_of(out_of_fold, S, count, link, shape, _floors(link), most)
    limits, cv_loss = losses.limits(_floors(link), least, most)
    return CovarianceFit(
        link=link,
        shape=shape,
        intercept=B[0],
        c=B[1:],
        ridges=ridges,
        limits=limits,
        least=least,
        extra=extra,
        kappa=kappa,
        cv_nll=cv_loss / N,
        determined=determined,
        converged=converged,
    )


def rescored(
    blocks: Callable[[], Iterable[tuple[Float, Float]]], basis: Basis | None, fit: CovarianceFit
) -> CovarianceFit:
    """One more scoring step on other data, with the same ridges, as far as it improves on their likelihood.

    Parameters
    ----------
    blocks : callable
        Starts a pass over (X, S) of shapes (n, R) and (n, p), for single transitions; there are two passes.
    basis : Basis or None
    fit : CovarianceFit
    """
    basis = basis or NO_FEATURES
    B = np.concatenate([fit.intercept[None], fit.c])
    rows, cols = entries(fit.shape.structure, fit.shape.d)
    extra = fit.extra * (rows == cols)
    P = np.stack([_amplitude_ridges(ridges[None], basis) for ridges in fit.ridges])
    p, size = len(P), len(B)
    A, b = np.zeros((p, size, size)), np.zeros((p, size))
    for X, S in blocks():
        ones = np.concatenate([np.ones((len(X), 1)), X], axis=1)
        H = _valid(ones @ B, fit)
        systems, _, _ = _systems(ones, H, S + extra, np.ones(len(X)), fit.link, fit.shape, fit.kappa)
        for j, (more, right) in enumerate(systems):
            A[j] += more
            b[j] += right
    new = np.column_stack([solve_penalised(A[j], b[j], P[j])[0] for j in range(p)])
    trials = [B + step * (new - B) for step in (0.0, 0.5, 1.0)]
    floors = _floors(fit.link)
    losses: list[Losses] = []
    for X, S in blocks():
        ones = np.concatenate([np.ones((len(X), 1)), X], axis=1)
        more = [
            losses_of(ones @ trial, S, np.ones(len(S)), fit.link, fit.shape, floors, fit.limits[1]) for trial in trials
        ]
        losses = [one.plus(other) for one, other in zip(losses, more, strict=True)] if losses else more
    best = int(np.argmin([loss.sums.min(axis=0).sum() for loss in losses]))
    limits, _ = losses[best].limits(floors, fit.least, fit.limits[1])
    return fit._replace(intercept=trials[best][0], c=trials[best][1:], limits=limits)


def _valid(H: Float, fit: CovarianceFit) -> Float:
    """H where C is within its limits, and the nearest that is elsewhere; of use for the identity link alone."""
    if fit.link != "identity":
        return H
    rows, cols = entries(fit.shape.structure, fit.shape.d)
    return covariance_at(H, fit.link, fit.shape, fit.limits)[0][:, rows, cols]
