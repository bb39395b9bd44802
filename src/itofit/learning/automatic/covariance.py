"""The covariance by the likelihood of residual products, at given frequencies.

H = intercept + X c, entry by entry, minimises the likelihood of residual products, which
`itofit.learning.automatic.products` defines, by Fisher scoring: least squares with the weights that belong to the
current C, again and again, and with ridges of largest evidence.

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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from itofit._blocks import map_tasks, one_blas_thread
from itofit._checks import Float
from itofit.learning.automatic.cells import FOLDS
from itofit.learning.automatic.drift import normal_matrix
from itofit.learning.automatic.evidence import (
    NO_FEATURES,
    SETTLED,
    Basis,
    Solved,
    amplitude_ridges,
    best_ridges,
    first_ridges,
    given_ridges,
    ridge_groups,
    solve_penalised,
)
from itofit.learning.automatic.limits import Losses, cell_nll
from itofit.learning.automatic.products import NoiseModel, Parts, Products
from itofit.learning.spread import mean_squares
from itofit.matrices.links import LINKS, Link, Shape, covariance_at
from itofit.matrices.symmetric import entries
from itofit.model.training import SWITCHED_OFF

MOST_STEPS = 40
"""Of scoring; most fits settle within ten."""
ROUNDS_FIRST, ROUNDS_LATER = 12, 4
"""Of the ridges, in the first step and in each later one."""
STEPS_OF_TAILS, FIRST_STEP_OF_CELLS = 10, 3
"""Scoring steps in which κ is estimated; of cells of many transitions, whose misfits look like tails, not the first."""
STEPS_OF_FREEDOM = 3
"""Scoring steps in which features that were switched off may come back."""
MOST_HALVINGS = {True: 16, False: 6}
"""Of a step, for decoupled entries, and for others, each of which costs eigenvalues."""
START_SHARES = (1.0, 0.95, 0.8, 0.5, 0.0)
"""Of the way from a constant C to where a fit may start."""
ROUNDING = 1e-6
"""Log-likelihood by which rounding may make a step look worse."""
LEAST_LIKELIHOOD_GAIN = 0.05
"""Of the log-likelihood of all data: fits that gain less have settled."""
MOST_IDLE = 3
"""Steps in a row that gain less because C is near zero somewhere and they must be short."""
ADDED = (1e-2, 1e-4)
"""Added to S / n for a full Σ with the identity link, one after the other: without it C would vanish where S does."""
MOST_COUPLED = 6
"""Entries of a full H, up to which scoring moves them together; one by one it needs many more steps."""
LEAST_WEIGHT = 1e-8
"""Least weight of a transition in scoring, where C does not depend on H."""
MOST_REFITTED = 2_000
"""Entries of residual products up to which the folds are fitted one by one, and not by one step of scoring each."""
MARGIN = 10.0
"""Upper limit of decoupled entries of C, relative to the largest value on the data and to the largest product."""
MARGIN_OF_TRACE = 1.0
"""Upper limit of the eigenvalues of a full C, relative to the largest trace on the data."""


@dataclass(frozen=True, eq=False)
class CovarianceFit:
    """H = intercept + X c, entry by entry."""

    model: NoiseModel
    B: Float  # (R + 1, p)
    ridges: Float  # (p, G)
    limits: Float  # (2, d): of the eigenvalues of C, or of its diagonal entries if those are all
    least: Float  # half of the smallest values that C has on the data
    added: float  # to S / n
    held_out: Float  # (n,): the nll of each cell, with the amplitudes of the other folds
    cv_nll: float  # the same per transition
    determined: float  # number of amplitudes that the data determine
    systems: list[Solved]  # the last step of scoring, entry by entry

    @cached_property
    def squares(self) -> Float:
        """Mean squares (p, R + 1, R + 1) of the errors of the amplitudes of each entry."""
        with one_blas_thread:
            return mean_squares(self.systems)

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
    link : Link
    shape : Shape
    ridge : float, optional
        Algorithm 1's λ, instead of ridges of largest evidence.
    start : CovarianceFit, optional
        Where to start from; a constant Σ if left out.
    """
    basis = basis or NO_FEATURES
    model = NoiseModel(link, shape, most=_largest_eigenvalue(products, basis, shape, ridge))
    diagonal = np.equal(*entries(shape.structure, shape.d))
    constant = np.zeros((products.ones.shape[1], shape.n_entries))
    constant[0] = link.at_one * diagonal
    ridges = np.repeat(first_ridges(basis)[None], shape.n_entries, axis=0)
    scoring = Scoring(model, constant, ridges, np.zeros_like(constant))
    if start is not None:
        scoring = scoring._replace(B=_best_start(model, products, constant, start.B), ridges=start.ridges)
    fits = []
    with one_blas_thread:
        for added in ADDED if link.linear and not shape.separate and len(basis.largest) else (0.0,):
            more = products._replace(S=products.S + added * products.count[:, None] * diagonal)
            scoring = _scored(scoring, more, basis, ridge)
            fits.append(_judged(scoring, more, products.S, added, basis, ridge))
        best = min(fits, key=lambda fit: fit.cv_nll)
        loss_of_one = 0.5 * float(products.S[:, diagonal].sum() / products.count.sum())  # for C = 1
        if best.cv_nll <= loss_of_one or not products.ones.shape[1] > 1 or ridge is not None:
            return best
        if start is not None:  # which may lead astray
            return fit_covariance(products, basis, link, shape, ridge)
        off, P = np.full_like(scoring.ridges, SWITCHED_OFF), np.full_like(constant, SWITCHED_OFF)
        P[0] = 0.0
        same_everywhere = _judged(Scoring(model, constant, off, P), products, products.S, 0.0, basis, None)
        # A full Σ of few data has so many amplitudes that the loss of a constant is better taken as it is on its data
        return best if shape.separate and best.cv_nll <= same_everywhere.cv_nll else same_everywhere


def _largest_eigenvalue(products: Products, basis: Basis, shape: Shape, ridge: float | None) -> float:
    """An upper limit of the eigenvalues of a full C: its trace, which is a scalar and easy to fit, at its largest."""
    if shape.separate or not len(basis.largest):
        return np.inf
    own = np.equal(*entries(shape.structure, shape.d))
    trace = products._replace(S=products.S[:, own].mean(axis=1, keepdims=True))
    model = NoiseModel(LINKS["log"], Shape("diagonal", 1))
    nothing = np.zeros((trace.ones.shape[1], 1))
    with one_blas_thread:
        B = _scored(Scoring(model, nothing, first_ridges(basis)[None], nothing), trace, basis, ridge).B
    return MARGIN_OF_TRACE * shape.d * float(model.link.value(trace.ones @ B).max())


class Scoring(NamedTuple):
    """Where Fisher scoring is."""

    model: NoiseModel
    B: Float  # (R + 1, p): intercept and c
    ridges: Float  # (p, G)
    P: Float  # (R + 1, p): ridge of every amplitude in the last step


def _best_start(model: NoiseModel, products: Products, constant: Float, B: Float) -> Float:
    """Amplitudes between those of a constant C and B, where the likelihood is largest: B may be of other data."""

    def nll(between: Float) -> float:
        return model.nll(model.parts(products.ones @ between, products.S), products.count)

    return min((constant + share * (B - constant) for share in START_SHARES), key=nll)


def _scored(scoring: Scoring, products: Products, basis: Basis, ridge: float | None, first: int = 0) -> Scoring:
    """Fisher scoring, from the first step or a later one: the model with its κ, and where amplitudes and ridges end."""
    model, B, ridges, _ = scoring
    ones, S, count, _ = products
    H = ones @ B
    P, parts, idle = np.zeros_like(B), model.parts(H, S), 0
    for step in range(first, MOST_STEPS):
        if (0 if count.max() == 1 else FIRST_STEP_OF_CELLS) <= step < STEPS_OF_TAILS:
            model = model._replace(kappa=model.tails(H, S, count))
        systems, weight, z = _systems(model, products, H, parts)
        spread = (weight * (z - H) ** 2).sum(axis=0) / count.sum()  # more than one where tails are heavy
        new, new_ridges = np.empty_like(B), np.empty_like(ridges)
        for j, (A, b) in enumerate(systems):
            if ridge is None:
                old = ridges[j : j + 1]
                if step < STEPS_OF_FREEDOM:
                    old = np.where(old < SWITCHED_OFF, old, first_ridges(basis))
                rounds = ROUNDS_LATER if step else ROUNDS_FIRST
                own = best_ridges(A, b, basis, old, rounds, max(1.0, float(spread[j])))
            else:
                own = given_ridges(ridge, float(A[0, 0]), basis)[None]
            new_ridges[j : j + 1], P[:, j] = own, amplitude_ridges(own, basis)
            new[:, j] = solve_penalised(A, b, P[:, j])[0]
        if not model.shape.separate and model.shape.n_entries <= MOST_COUPLED:
            new = _coupled_step(model, products, parts, B, P)
        on = np.where(P < SWITCHED_OFF, P, 0.0)  # what was just switched off is on its way to zero
        share, gain = _share_of_step(model, (B, new - B), (H, ones @ (new - B)), on, parts, products)
        if not share.any():
            return Scoring(model, B, new_ridges, P)  # up to rounding no step improves on what there is
        free = step < STEPS_OF_FREEDOM and bool(len(basis.largest))
        settled = not free and bool((np.abs(new_ridges - ridges) <= SETTLED * ridges).all())
        B, ridges = B + share * (new - B), new_ridges
        H = ones @ B
        parts = model.parts(H, S)
        idle = idle + 1 if settled and (gain < LEAST_LIKELIHOOD_GAIN).all() else 0
        if idle == MOST_IDLE or (idle and (gain < LEAST_LIKELIHOOD_GAIN * share)[share > 0].all()):
            break
    return Scoring(model, B, ridges, P)


def _coupled_step(model: NoiseModel, products: Products, parts: Parts, B: Float, P: Float) -> Float:
    """Amplitudes (R + 1, p) of a scoring step of all entries together, with ridges P (R + 1, p)."""
    gradient, _ = model.derivatives(parts, products.count)
    changes = np.sqrt(0.5 * products.count)[:, None, None] * model.changes(parts)
    weight = changes @ changes.swapaxes(1, 2) + LEAST_WEIGHT * products.count[:, None, None] * np.eye(B.shape[1])
    A = normal_matrix(products.ones, weight)
    right = A @ B.T.ravel() - (gradient.T @ products.ones).ravel()
    return solve_penalised(A, right, P.T.ravel())[0].reshape(B.T.shape).T


def _share_of_step(
    model: NoiseModel,
    amplitudes: tuple[Float, Float],
    values: tuple[Float, Float],
    P: Float,
    parts: Parts,
    products: Products,
) -> tuple[Float, Float]:
    """How much of a step to take and what it gains: one number for all entries, or one for each if they are separate.

    Parameters
    ----------
    model : NoiseModel
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
    share = model.link.largest_share(H, change, model.shape)
    for _ in range(MOST_HALVINGS[model.shape.separate]):
        penalty = model.together(0.5 * (P * (B + share * step) ** 2).sum(axis=0))
        gain = loss - model.nlls(model.parts(H + share * change, products.S), count) - penalty
        worse = ~(gain >= -ROUNDING)
        if not worse.any():
            return share, gain
        share[worse] *= 0.5
    return np.where(worse, 0.0, share), np.where(worse, 0.0, gain)


def _systems(
    model: NoiseModel, products: Products, H: Float, parts: Parts
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
    scoring: Scoring, products: Products, S: Float, added: float, basis: Basis, ridge: float | None
) -> CovarianceFit:
    """A fit with the likelihood of each fold by amplitudes without the fold."""
    model, B, ridges, P = scoring
    ones, count = products.ones, products.count
    H = ones @ B
    parts = model.parts(H, products.S)
    systems, weight, z = _systems(model, products, H, parts)
    determined = 0.0
    for j, (A, b) in enumerate(systems):
        determined += float((1 - solve_penalised(A, b, P[:, j])[1] * P[:, j]).sum())
    if S.size <= MOST_REFITTED:
        out_of_fold = _refitted(scoring, products, basis, ridge)
    else:
        out_of_fold = model.link.near(_out_of_fold(products, systems, weight, z, P), H, model.shape)
    least, most = _range_of(model, parts.C, S, count)
    judged = model.parts(out_of_fold, S)
    limits = _limits_of(model, judged, H, count, least, most)
    held_out = cell_nll(judged.C, judged.spectrum.diagonal(judged.turned), count, *limits).sum(axis=1)
    spread = np.maximum(1.0, (weight * (z - H) ** 2).sum(axis=0) / count.sum())
    solved = _solved(systems, P, B, spread, basis)
    return CovarianceFit(
        model, B, ridges, limits, least, added, held_out, float(held_out.sum() / count.sum()), determined, solved
    )


def _limits_of(model: NoiseModel, judged: Parts, H: Float, count: Float, least: Float, most: Float) -> Float:
    """Limits (2, d) that suit the products under amplitudes without their fold, and those that these predict under H.

    A cell that stands alone may have made C small where it is, which its own products do not tell.

    Parameters
    ----------
    model : NoiseModel
    judged : Parts
        Of H without each cell's fold, and of the products.
    H : array of shape (n, p)
        Of the fit.
    count : array of shape (n,)
    least, most : arrays
        As for `Losses.limits`.
    """
    losses = Losses.of(model, judged, count, most)
    limits, _ = losses.limits(least, most)
    C, Q = np.clip(judged.C, *limits) * count[:, None], judged.spectrum.Q
    if Q is None:
        expected = C
    else:
        rows, cols = entries(model.shape.structure, model.shape.d)
        expected = ((Q * C[:, None, :]) @ Q.swapaxes(1, 2))[:, rows, cols]
    return losses.plus(Losses.of(model, model.parts(H, expected), count, most)).limits(least, most)[0]


def _refitted(scoring: Scoring, products: Products, basis: Basis, ridge: float | None) -> Float:
    """H (n, p) of each cell by a fit without its fold, which goes on from that to all of them."""
    values = np.empty_like(products.S)
    for k in range(FOLDS):
        mine, rest = (np.flatnonzero(own) for own in (products.fold == k, products.fold != k))
        values[mine] = products.ones[mine] @ _scored(scoring, products.at(rest), basis, ridge, STEPS_OF_FREEDOM).B
    return values


def _out_of_fold(products: Products, systems: list[tuple[Float, Float]], weight: Float, z: Float, P: Float) -> Float:
    """H (n, p) of each cell by amplitudes of a scoring step without its fold."""
    values = np.empty_like(z)
    for mine in (np.flatnonzero(products.fold == k) for k in range(FOLDS)):
        own = products.ones[mine]
        for j, (A, b) in enumerate(systems):
            less, right = _weighted_system(own, weight[mine, j], z[mine, j])
            values[mine, j] = own @ solve_penalised(A - less, b - right, P[:, j])[0]
    return values


def _range_of(model: NoiseModel, C: Float, S: Float, count: Float) -> tuple[Float, Float]:
    """Half of the smallest values that eigenvalues C (n, d) have on the data, and an upper limit (d,) of them."""
    if not model.shape.separate:
        most = MARGIN * C.max() if np.isinf(model.most) else model.most
        return 0.5 * np.quantile(C.min(axis=1, keepdims=True), 0.01, axis=0), np.full(model.shape.d, max(most, 1.0))
    seen = S / count[:, None]
    most = MARGIN * np.minimum(C.max(axis=0), seen.max(axis=0))
    return 0.5 * np.quantile(C, 0.01, axis=0), np.maximum(most, 1.0)


def _solved(systems: Iterable[tuple[Float, Float]], P: Float, B: Float, spread: Float, basis: Basis) -> list[Solved]:
    """The least-squares problem of each entry, whose residuals vary `spread` times as much as expected."""
    group = ridge_groups(basis, 1)
    return [
        Solved(A, b, ridges, c, group, float(more))
        for (A, b), ridges, c, more in zip(systems, P.T, B.T, spread, strict=True)
    ]


def held_out_losses(fit: CovarianceFit, products: Products) -> Float:
    """The nll of each of some other cells."""
    spectrum, C, turned = fit.model.parts(products.ones @ fit.B, products.S)
    return cell_nll(C, spectrum.diagonal(turned), products.count, *fit.limits).sum(axis=1)


# Other data


class ScoringSums(NamedTuple):
    """One scoring step on other data, as sums over them."""

    A: Float  # (p, R + 1, R + 1)
    b: Float  # (p, R + 1)
    squares: Float  # (p,): weighted squares of what the fit leaves over
    n: int

    @classmethod
    def of(cls, fit: CovarianceFit, X: Float, S: Float) -> ScoringSums:
        """Those of single transitions with features X (n, R) and products S (n, p)."""
        products = _single(X, S)
        rows, cols = entries(fit.shape.structure, fit.shape.d)
        H = products.ones @ fit.B
        if fit.link.linear:  # which may leave its limits at places that were not fitted
            H = covariance_at(H, fit.link, fit.shape, fit.limits)[0][:, rows, cols]
        parts = fit.model.parts(H, S + fit.added * (rows == cols))
        systems, weight, z = _systems(fit.model, products, H, parts)
        A, b = (np.stack(sides) for sides in zip(*systems, strict=True))
        return cls(A, b, (weight * (z - H) ** 2).sum(axis=0), len(H))


def _single(X: Float, S: Float) -> Products:
    """Products of single transitions, in no folds."""
    return Products.of(X, S, np.ones(len(S)), np.zeros(len(S), dtype=int))


def rescored(
    fit: CovarianceFit, basis: Basis | None, sums: ScoringSums, losses: Callable[[list[Float]], list[Losses]]
) -> CovarianceFit:
    """One more scoring step on other data, with the same ridges, as far as it improves on their likelihood.

    Parameters
    ----------
    fit : CovarianceFit
    basis : Basis or None
    sums : ScoringSums
        Of the data.
    losses : callable
        The sum of `losses_of_trials` over them, for amplitudes to try.
    """
    features = basis or NO_FEATURES
    P = np.stack([amplitude_ridges(ridges[None], features) for ridges in fit.ridges])
    new = np.column_stack([solve_penalised(sums.A[j], sums.b[j], P[j])[0] for j in range(len(P))])
    trials = [fit.B + step * (new - fit.B) for step in (0.0, 0.5, 1.0)]
    totals = losses(trials)
    best = int(np.argmin([total.least for total in totals]))
    limits, _ = totals[best].limits(fit.least, fit.limits[1])
    spread = np.maximum(1.0, sums.squares / sums.n)
    solved = _solved(zip(sums.A, sums.b, strict=True), P.T, trials[best], spread, features)
    return replace(fit, B=trials[best], limits=limits, systems=solved)


def losses_of_trials(fit: CovarianceFit, trials: list[Float], X: Float, S: Float) -> tuple[Losses, ...]:
    """The losses of single transitions with features X (n, R) and products S (n, p), for each of some amplitudes."""
    products = _single(X, S)

    def of(which: int) -> Losses:
        parts = fit.model.parts(products.ones @ trials[which], products.S)
        return Losses.of(fit.model, parts, products.count, fit.limits[1])

    return tuple(map_tasks(of, range(len(trials)), len(S)))
