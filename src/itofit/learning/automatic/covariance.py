"""The covariance by the likelihood of residual products, at given frequencies.

In units of a reference covariance L Lᵀ a cell of n transitions (`itofit.learning.automatic.cells`) has the residual
products S = Σ L⁻¹ rrᵀ L⁻ᵀ / h, and the negative log-likelihood of C = g(H) (`itofit.matrices.links`) is

    ½ (n log det C + tr C⁻¹S).

H = intercept + X c, entry by entry, minimises it by Fisher scoring: least squares with the weights that belong to the
current C, again and again, and with ridges of largest evidence. Where the noise is not Gaussian, jumps for example, S
varies more than by 2C². For the entries of a diagonal Σ with the identity link its variance is taken to be 2C² + 2κC
for each transition, with κ estimated from the data, and the quasi-likelihood

    ½ (n log (C + κ) + S/κ · log (1 + κ/C))

that belongs to it is minimised: κ = 0 is the Gaussian one, a large κ that of counts. Otherwise the places of weakest
noise, where single jumps say everything, would decide the fit.

=========  ==============  ==============================================
symbol     name            shape
=========  ==============  ==============================================
[1 X]      products.ones   (n, R + 1)
S          products.S      (n, p): the learned entries
intercept  B               (R + 1, p)
and c
ridges     P               (R + 1, p): of every amplitude
=========  ==============  ==============================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from itofit._blocks import map_tasks, one_blas_thread
from itofit._checks import Float, Int
from itofit.learning.automatic.cells import FOLDS
from itofit.learning.automatic.drift import amplitude_ridges, best_ridges, ridge_groups
from itofit.learning.automatic.evidence import (
    OFF,
    SETTLED,
    Basis,
    Solved,
    first_ridges,
    given_ridges,
    solve_penalised,
    with_intercept,
)
from itofit.matrices.links import Link, Shape, Spectrum, covariance_at, divided_difference, inverse_at_one, slope, value
from itofit.matrices.symmetric import entries

MOST_STEPS = 40
STEPS_OF_TAILS, FIRST_STEP_OF_CELLS = 10, 3
"""Scoring steps in which κ is estimated; of cells of many transitions, whose misfits look like tails, not the first."""
LARGEST_RATIO = 1000.0
LARGEST_LOG_STEP = 3.0
"""By which log C may change in one step."""
TO_THE_BOUNDARY = 0.9
"""How much of the way to a C of zero one step may go."""
STEPS_OF_FREEDOM = 3
"""Scoring steps in which features that were switched off may come back."""
MOST_HALVINGS = {True: 16, False: 6}
"""Of a step, for entries that do not know of each other, and for others."""
START_SHARES = (1.0, 0.95, 0.8, 0.5, 0.0)
ROUNDING = 1e-6
"""Log-likelihood by which rounding may make a step look worse."""
LEAST_GAIN = 0.05
"""Of the log-likelihood of all data: fits that gain less have settled."""
MOST_IDLE = 3
"""Steps in a row that gain less because C is near zero somewhere and they must be short."""
ADDED = (1e-2, 1e-4)
"""Added to S / n for a full Σ with the identity link, one after the other: without it C would vanish where S does."""
LEAST_WEIGHT = 1e-8
"""Least weight of a transition in scoring, where C does not depend on H."""
FLOORS = np.concatenate([10.0 ** np.arange(-12.0, -4.0), 10.0 ** np.arange(-4.0, -0.4, 0.5)])
"""Lower limits of C that are compared."""
LEAST_IDENTITY = 5e-5
"""The same for the identity link are larger than this."""
HARDLY_WORSE = 1.0
"""Log-likelihood that a larger lower limit may cost."""
MARGIN = 10.0
"""Upper limit of C, relative to its largest value on the data and to the largest product."""
NO_FEATURES = Basis(np.zeros((0, 1)), np.zeros((0, 0)), np.zeros(0), np.zeros(0), np.zeros(0, dtype=int), np.zeros(0))


class Products(NamedTuple):
    """Residual products at cells, and the features there."""

    ones: Float  # (n, R + 1): one, then the principal features
    S: Float  # (n, p)
    count: Float  # type: ignore[assignment]  # (n,)
    fold: Int  # (n,)

    @classmethod
    def of(cls, X: Float, S: Float, count: Float, fold: Int) -> Products:
        """With features X of shape (n, R)."""
        return cls(with_intercept(X), S, count, fold)

    def at(self, rows: Int) -> Products:
        """Those of some cells."""
        return Products(self.ones[rows], self.S[rows], self.count[rows], self.fold[rows])


class Parts(NamedTuple):
    """H and S of every cell, in the axes of H."""

    spectrum: Spectrum
    C: Float  # (n, d): eigenvalues of C
    turned: Float  # (n, d, d), or (n, d) where the entries do not know of each other: S


class Model(NamedTuple):
    """How C follows from H, and how S varies."""

    link: Link
    shape: Shape
    kappa: float = 0.0

    def parts(self, H: Float, S: Float) -> Parts:
        """What the other methods know of H (n, p) and S (n, p)."""
        spectrum = Spectrum.of(H, self.shape)
        return Parts(spectrum, value(spectrum.eta, self.link), spectrum.turned(S, self.shape))

    def nll(self, parts: Parts, count: Float) -> float:
        """The (quasi-)likelihood of all cells; infinite if a C is not positive definite."""
        return float(self.nlls(parts, count).sum())

    def nlls(self, parts: Parts, count: Float) -> Float:
        """The same of each entry where the entries do not know of each other: shape (k,), else (1,)."""
        spectrum, C, turned = parts
        own = spectrum.diagonal(turned)
        with np.errstate(invalid="ignore", divide="ignore"):  # a C of zero or less makes a sum that is not a number
            fit = own / C if self.kappa == 0 else own / self.kappa * np.log1p(self.kappa / C)
            nll = 0.5 * (count @ np.log(C + self.kappa) + np.ones(len(C)) @ fit)
        return self.together(np.where(np.isfinite(nll), nll, np.inf))

    def together(self, values: Float) -> Float:
        """Sums of the values (p,) of entries that know of each other: shape (k,)."""
        return values if self.shape.separate else values.sum(keepdims=True)

    def largest_share(self, H: Float, change: Float) -> Float:
        """The part of a change of H (n, p) that is not too much for C: shape (k,)."""
        if self.link == "log":
            share = min(1.0, LARGEST_LOG_STEP / max(float(np.abs(change).max()), 1e-300))
            return np.full(self.shape.n_entries if self.shape.separate else 1, share)
        if self.link != "identity" or not self.shape.separate:
            return np.ones(self.shape.n_entries if self.shape.separate else 1)
        return np.minimum(1.0, TO_THE_BOUNDARY / np.maximum((-change / H).max(axis=0), TO_THE_BOUNDARY))

    def derivatives(self, parts: Parts, count: Float) -> tuple[Float, Float]:
        """Gradient of the nll in each entry of H, and its expected second derivative: shapes (n, p)."""
        spectrum, C, turned = parts
        if spectrum.Q is None:
            E, inverse = slope(spectrum.eta, self.link), 0.5 / (C * (C + self.kappa))
            return (count[:, None] * C - turned) * E * inverse, count[:, None] * E**2 * inverse
        d, Q, root = self.shape.d, spectrum.Q, 1 / np.sqrt(C)
        both = root[:, :, None] * root[:, None, :]
        K = divided_difference(spectrum.eta, self.link) * both
        inner = 0.5 * K * (count[:, None, None] * np.eye(d) - turned * both)
        matrices = Q @ inner @ Q.swapaxes(1, 2)  # the gradient in H
        rows, cols = entries(self.shape.structure, d)
        gradient = np.where(rows == cols, 1.0, 2.0) * matrices[:, rows, cols]
        weight = np.empty_like(gradient)
        for place, (i, j) in enumerate(zip(rows, cols, strict=True)):
            change = Q[:, i, :, None] * Q[:, j, None, :]
            if i != j:
                change = change + change.swapaxes(1, 2)
            weight[:, place] = 0.5 * count * ((K * change) ** 2).sum(axis=(1, 2))
        return gradient, weight

    def tails(self, H: Float, S: Float, count: Float) -> float:
        """κ, from the variance 2C² + 2κC of the products of each transition: zero for Gaussian noise.

        What a cell says of it is cut at LARGEST_RATIO of S and nC, so that no place where C is too small decides.
        """
        if not self.shape.separate or self.link != "identity":  # elsewhere the likelihood has no poles on the way
            return 0.0
        C, n = value(H, self.link), count[:, None]
        ratio = np.minimum(S / (n * C), LARGEST_RATIO)
        excess = n * C * (n * (ratio - 1) ** 2 / 2 - 1)
        return max(float(excess.sum() / (n.sum() * C.shape[1])), 0.0)


class CovarianceFit(NamedTuple):
    """H = intercept + X c, entry by entry."""

    model: Model
    B: Float  # (R + 1, p)
    ridges: Float  # (p, G)
    limits: Float  # (2, d): of the eigenvalues of C, or of its diagonal entries if those are all
    least: Float  # half of the smallest values that C has on the data
    added: float  # to S / n
    cv_nll: float  # per transition, each fold with the amplitudes of the others
    determined: float  # number of amplitudes that the data determine
    systems: list[Solved]  # the last step of scoring, entry by entry

    @property
    def link(self) -> Link:
        """How C follows from H."""
        return self.model.link

    @property
    def shape(self) -> Shape:
        """Which entries H has."""
        return self.model.shape

    @property
    def intercept(self) -> Float:
        """H where all features are zero, shape (p,)."""
        return self.B[0]

    @property
    def c(self) -> Float:
        """The amplitudes of the features, shape (R, p)."""
        return self.B[1:]

    def at(self, X: Float) -> Float:
        """C for features X of shape (n, R): shape (n, d, d)."""
        return covariance_at(self.intercept + X @ self.c, self.link, self.shape, self.limits)[0]


# Fitting


def fit_covariance(
    products: Products,
    basis: Basis | None,
    link: Link,
    shape: Shape,
    ridge: float | None = None,
    start: CovarianceFit | None = None,
) -> CovarianceFit:
    """Minimise the likelihood over H at given frequencies, with ridges of largest evidence.

    Parameters
    ----------
    products : Products
    basis : Basis or None
        Of its features; None if there are none: Σ is constant.
    link : {"identity", "square", "log"}
    shape : Shape
    ridge : float, optional
        Algorithm 1's λ, instead of ridges of largest evidence.
    start : CovarianceFit, optional
        Where to start from; a constant Σ if left out.
    """
    basis, model = basis or NO_FEATURES, Model(link, shape)
    diagonal = np.equal(*entries(shape.structure, shape.d))
    constant = np.zeros((products.ones.shape[1], shape.n_entries))
    constant[0] = inverse_at_one(link) * diagonal
    B = constant
    ridges = np.repeat(first_ridges(basis)[None], shape.n_entries, axis=0)
    if start is not None:
        ridges = start.ridges
        for share in START_SHARES:  # as near to it as C is positive definite
            B = constant + share * (start.B - constant)
            if np.isfinite(model.nll(model.parts(products.ones @ B, products.S), products.count)):
                break
    fits = []
    with one_blas_thread:
        for added in ADDED if link == "identity" and not shape.separate and len(basis.largest) else (0.0,):
            more = products._replace(S=products.S + added * products.count[:, None] * diagonal)
            model, B, P, ridges = _scored(model, more, basis, B, ridges, ridge)
            fits.append(_judged(model, more, products.S, B, P, ridges, added, basis))
        best = min(fits, key=lambda fit: fit.cv_nll)
        loss_of_one = 0.5 * float(products.S[:, diagonal].sum() / products.count.sum())  # for C = 1
        if best.cv_nll <= loss_of_one or not products.ones.shape[1] > 1 or ridge is not None:
            return best
        off, P = np.full_like(ridges, OFF), np.full_like(constant, OFF)
        P[0] = 0.0
        return _judged(Model(link, shape), products, products.S, constant, P, off, 0.0, basis)


def _scored(
    model: Model, products: Products, basis: Basis, B: Float, ridges: Float, ridge: float | None
) -> tuple[Model, Float, Float, Float]:
    """Fisher scoring from B and ridges: the model with its κ, and where B, P and the ridges end."""
    ones, S, count, _ = products
    H = ones @ B
    P, parts, idle = np.zeros_like(B), model.parts(H, S), 0
    for step in range(MOST_STEPS):
        if (0 if count.max() == 1 else FIRST_STEP_OF_CELLS) <= step < STEPS_OF_TAILS:
            model = model._replace(kappa=model.tails(H, S, count))
        systems, weight, z = _systems(model, products, H, parts)
        spread = (weight * (z - H) ** 2).sum(axis=0) / count.sum()  # more than one where tails are heavy
        new, new_ridges = np.empty_like(B), np.empty_like(ridges)
        for j, (A, b) in enumerate(systems):
            given = None if ridge is None else given_ridges(ridge, float(A[0, 0]), basis)[None]
            rounds, variance = 4 if step else 12, max(1.0, float(spread[j]))
            old = ridges[j : j + 1]
            if step < STEPS_OF_FREEDOM:
                old = np.where(old < OFF, old, first_ridges(basis))
            new_ridges[j : j + 1], P[:, j] = best_ridges(A, b, basis, 1, given, old, rounds, variance)
            new[:, j] = solve_penalised(A, b, P[:, j])[0]
        on = np.where(P < OFF, P, 0.0)  # what was just switched off is on its way to zero
        share, gain = _share_of_step(model, (B, new - B), (H, ones @ (new - B)), on, parts, products)
        if not share.any():
            return model, B, P, new_ridges  # up to rounding no step improves on what there is
        free = step < STEPS_OF_FREEDOM and bool(len(basis.largest))
        settled = not free and bool((np.abs(new_ridges - ridges) <= SETTLED * ridges).all())
        B, ridges = B + share * (new - B), new_ridges
        H = ones @ B
        parts = model.parts(H, S)
        idle = idle + 1 if settled and (gain < LEAST_GAIN).all() else 0
        if idle == MOST_IDLE or (idle and (gain < LEAST_GAIN * share)[share > 0].all()):
            break
    return model, B, P, ridges


def _share_of_step(
    model: Model,
    amplitudes: tuple[Float, Float],
    values: tuple[Float, Float],
    P: Float,
    parts: Parts,
    products: Products,
) -> tuple[Float, Float]:
    """How much of a step to take and what it gains: one number for all entries, or one for each if they are separate.

    Parameters
    ----------
    model : Model
    amplitudes, values : pairs of arrays
        B and its change; H and its change.
    P : array of shape (R + 1, p)
        Ridges of the amplitudes.
    parts : Parts
        At H.
    products : Products
    """
    (B, step), (H, change), count = amplitudes, values, products.count
    loss = model.nlls(parts, count) + model.together(0.5 * (P * B**2).sum(axis=0))
    share = model.largest_share(H, change)
    for _ in range(MOST_HALVINGS[model.shape.separate]):
        penalty = model.together(0.5 * (P * (B + share * step) ** 2).sum(axis=0))
        gain = loss - model.nlls(model.parts(H + share * change, products.S), count) - penalty
        worse = ~(gain >= -ROUNDING)
        if not worse.any():
            return share, gain
        share[worse] *= 0.5
    return np.where(worse, 0.0, share), np.where(worse, 0.0, gain)


def _systems(
    model: Model, products: Products, H: Float, parts: Parts
) -> tuple[list[tuple[Float, Float]], Float, Float]:
    """One scoring step as a least-squares problem for each entry of H: A and b, and its weights and targets (n, p)."""
    ones, _, count, _ = products
    gradient, weight = model.derivatives(parts, count)
    weight = np.maximum(weight, LEAST_WEIGHT * count[:, None])
    z = H - gradient / weight

    def system(j: int) -> tuple[Float, Float]:
        return _weighted_system(ones, weight[:, j], z[:, j])

    return map_tasks(system, range(weight.shape[1]), len(ones)), weight, z


def _weighted_system(ones: Float, weight: Float, z: Float) -> tuple[Float, Float]:
    """Left and right side of weighted least squares for targets z."""
    root = np.sqrt(weight)
    x = ones.T * root
    return x @ x.T, x @ (root * z)


def _judged(
    model: Model, products: Products, S: Float, B: Float, P: Float, ridges: Float, added: float, basis: Basis
) -> CovarianceFit:
    """A fit with the likelihood of each fold by amplitudes one scoring step away, without the fold."""
    ones, _, count, fold = products
    parts = model.parts(ones @ B, products.S)
    systems, weight, z = _systems(model, products, ones @ B, parts)
    out_of_fold, determined = np.empty_like(z), 0.0
    for j, (A, b) in enumerate(systems):
        determined += float((1 - solve_penalised(A, b, P[:, j])[1] * P[:, j]).sum())
    for mine in (np.flatnonzero(fold == k) for k in range(FOLDS)):
        own = ones[mine]
        for j, (A, b) in enumerate(systems):
            less, right = _weighted_system(own, weight[mine, j], z[mine, j])
            out_of_fold[mine, j] = own @ solve_penalised(A - less, b - right, P[:, j])[0]
    if model.link == "log":
        out_of_fold = np.clip(out_of_fold, ones @ B - LARGEST_LOG_STEP, ones @ B + LARGEST_LOG_STEP)
    elif model.link == "identity" and model.shape.separate:  # one step from a fit that has not settled may be wild
        out_of_fold = np.clip(out_of_fold, 0.1 * (ones @ B), 10 * (ones @ B))
    C = parts.C
    separate = model.shape.separate
    seen = S[:, np.equal(*entries(model.shape.structure, model.shape.d))] / count[:, None]
    if separate:
        most = MARGIN * np.minimum(C.max(axis=0), seen.max(axis=0))
    else:
        most = np.full(model.shape.d, MARGIN * min(C.max(), seen.sum(axis=1).max()))
    most = np.maximum(most, 1.0)
    least = 0.5 * np.quantile(C if separate else C.min(axis=1, keepdims=True), 0.01, axis=0)
    limits, loss = Losses.of(model, model.parts(out_of_fold, S), count, most).limits(least, most)
    spread = np.maximum(1.0, (weight * (z - ones @ B) ** 2).sum(axis=0) / count.sum())
    solved = _solved(systems, P, B, spread, basis)
    return CovarianceFit(model, B, ridges, limits, least, added, loss / count.sum(), determined, solved)


def _solved(systems: Iterable[tuple[Float, Float]], P: Float, B: Float, spread: Float, basis: Basis) -> list[Solved]:
    """The least-squares problem of each entry, whose residuals vary `spread` times as much as expected."""
    group = ridge_groups(basis, 1)
    return [
        Solved(A, b, ridges, c, group, float(more))
        for (A, b), ridges, c, more in zip(systems, P.T, B.T, spread, strict=True)
    ]


# Limits


class Losses(NamedTuple):
    """The nll of cells with each of several lower limits of C, summed: over all eigenvalues, or entry by entry."""

    floors: Float  # (F,)
    sums: Float  # (F, k)
    products: Float  # (F, F, k): of the nll with one limit and with another

    @classmethod
    def of(cls, model: Model, parts: Parts, count: Float, most: Float) -> Losses:
        """Those of H and S, with upper limits (d,)."""
        spectrum, C, turned = parts
        floors = FLOORS[FLOORS > LEAST_IDENTITY] if model.link == "identity" else FLOORS
        nll = np.stack([cell_nll(C, spectrum.diagonal(turned), count, floor, most) for floor in floors])  # (F, n, d)
        if not model.shape.separate:
            nll = nll.sum(axis=2, keepdims=True)
        columns = np.ascontiguousarray(np.moveaxis(nll, 2, 0))
        return cls(floors, nll.sum(axis=1), np.moveaxis(columns @ columns.swapaxes(1, 2), 0, 2))

    def plus(self, other: Losses) -> Losses:
        """Those of both sets of cells."""
        return Losses(self.floors, self.sums + other.sums, self.products + other.products)

    @property
    def least(self) -> float:
        """With the best limits."""
        return float(self.sums.min(axis=0).sum())

    def limits(self, least: Float, most: Float) -> tuple[Float, float]:
        """Limits (2, d) with the largest lower ones than which none is significantly better, and the loss with them.

        Larger than `least` they are only if that is better.
        """
        k = np.arange(self.sums.shape[1])
        best = np.argmin(self.sums, axis=0)
        own = np.einsum("ffk->fk", self.products)
        error = np.sqrt(np.maximum(own - 2 * self.products[:, best, k] + own[best, k], 0.0))
        good = self.sums <= self.sums.min(axis=0) + HARDLY_WORSE + 2 * error
        good &= self.floors[:, None] <= np.maximum(self.floors[best], least)
        chosen = len(self.floors) - 1 - np.argmax(good[::-1], axis=0)
        lower = np.broadcast_to(self.floors[chosen], most.shape)
        return np.stack([lower, np.maximum(most, lower)]), float(self.sums[chosen, k].sum())


def cell_nll(C: Float, own: Float, count: Float, lower: Float | float, upper: Float) -> Float:
    """½ (n log C + S/C) for eigenvalues C (n, d) within limits, and the diagonal of S in their axes."""
    kept = np.clip(C, lower, np.maximum(upper, lower))
    return np.asarray(0.5 * (count[:, None] * np.log(kept) + own / kept))


def held_out_losses(fit: CovarianceFit, products: Products) -> Float:
    """The nll of each of some other cells, with the lower limits that suit them."""
    parts, most = fit.model.parts(products.ones @ fit.B, products.S), fit.limits[1]
    (lower, upper), _ = Losses.of(fit.model, parts, products.count, most).limits(fit.least, most)
    spectrum, C, turned = parts
    return cell_nll(C, spectrum.diagonal(turned), products.count, lower, upper).sum(axis=1)


# Other data


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

    def passed() -> Iterable[Products]:
        for X, S in blocks():
            yield Products.of(X, S, np.ones(len(S)), np.zeros(len(S), dtype=int))

    rows, cols = entries(fit.shape.structure, fit.shape.d)
    added = fit.added * (rows == cols)
    P = np.stack([amplitude_ridges(ridges[None], basis or NO_FEATURES) for ridges in fit.ridges])
    A, b = np.zeros((len(P), len(fit.B), len(fit.B))), np.zeros((len(P), len(fit.B)))
    squares, n = np.zeros(len(P)), 0
    for products in passed():
        H = products.ones @ fit.B
        if fit.link == "identity":  # which may leave its limits at places that were not fitted
            H = covariance_at(H, fit.link, fit.shape, fit.limits)[0][:, rows, cols]
        systems, weight, z = _systems(fit.model, products, H, fit.model.parts(H, products.S + added))
        for j, (more, right) in enumerate(systems):
            A[j] += more
            b[j] += right
        squares += (weight * (z - H) ** 2).sum(axis=0)
        n += len(H)
    new = np.column_stack([solve_penalised(A[j], b[j], P[j])[0] for j in range(len(P))])
    trials = [fit.B + step * (new - fit.B) for step in (0.0, 0.5, 1.0)]
    totals: list[Losses] = []
    for products in passed():
        losses = map_tasks(partial(_losses_of_trial, fit, products, trials), range(len(trials)), len(products.S))
        totals = [one.plus(other) for one, other in zip(totals, losses, strict=True)] if totals else losses
    best = int(np.argmin([total.least for total in totals]))
    limits, _ = totals[best].limits(fit.least, fit.limits[1])
    spread = np.maximum(1.0, squares / n)
    solved = _solved(zip(A, b, strict=True), P.T, trials[best], spread, basis or NO_FEATURES)
    return fit._replace(B=trials[best], limits=limits, systems=solved)


def _losses_of_trial(fit: CovarianceFit, products: Products, trials: list[Float], which: int) -> Losses:
    parts = fit.model.parts(products.ones @ trials[which], products.S)
    return Losses.of(fit.model, parts, products.count, fit.limits[1])
