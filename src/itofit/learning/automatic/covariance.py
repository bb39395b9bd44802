"""The covariance by the likelihood of residual products, at given frequencies.

H = intercept + X c, entry by entry, minimises the likelihood of residual products, which
`itofit.learning.automatic.products` defines, by Fisher scoring (`itofit.learning.automatic.scoring`).

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

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from itofit._blocks import one_blas_thread
from itofit._checks import Float
from itofit.learning.automatic.cells import FOLDS
from itofit.learning.automatic.evidence import Solved, first_ridges, ridge_groups
from itofit.learning.automatic.limits import Losses, cell_nll, kept_eigenvalues
from itofit.learning.automatic.penalised import penalised_solution, solve_penalised
from itofit.learning.automatic.principal import NO_FEATURES, Basis
from itofit.learning.automatic.products import NoiseModel, Parts, Products
from itofit.learning.automatic.scoring import (
    MOST_COUPLED,
    STEPS_OF_FREEDOM,
    Lefts,
    Scoring,
    scored,
    systems_of,
)
from itofit.learning.spread import mean_squares
from itofit.matrices.links import LINKS, Link, Shape, covariance_at
from itofit.matrices.symmetric import entries
from itofit.model.training import SWITCHED_OFF

START_SHARES = (1.0, 0.95, 0.8, 0.5, 0.0)
"""Of the way from a constant C to where a fit may start."""
ADDED = (1e-2, 1e-4)
"""Added to S / n for a full Σ with the identity link, one after the other: without it C would vanish where S does."""
MOST_REFITTED = 2_000
"""Entries of residual products up to which the folds are fitted one by one, and not by one step of scoring each."""
MARGIN = 10.0
"""Upper limit of decoupled entries of C, relative to the largest value on the data and to the largest product."""
MARGIN_OF_TRACE = 1.0
"""Upper limit of the eigenvalues of a full C, relative to the largest trace on the data."""
MOST_TOGETHER = 1_024
"""Amplitudes of coupled entries that one step on other data moves together: sums over these data take 8 MB."""


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
    found_constant: bool  # whether the evidence has switched all features off

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
    def top(self) -> float:
        """The lower limit of the largest eigenvalue of coupled entries; zero if they are not."""
        return 0.0 if self.shape.separate else float(self.limits[0, -1])

    @property
    def intercept(self) -> Float:
        """H where all features are zero, shape (p,)."""
        return self.B[0]

    @property
    def c(self) -> Float:
        """The amplitudes of the features, shape (R, p)."""
        return self.B[1:]

    @property
    def moves_together(self) -> bool:
        """Whether one more step moves coupled entries together and not one by one."""
        return not self.shape.separate and self.shape.n_entries <= MOST_COUPLED and self.B.size <= MOST_TOGETHER

    def at(self, X: Float) -> Float:
        """C for features X of shape (n, R): shape (n, d, d)."""
        return self.of_sums(X @ self.c)

    def of_sums(self, sums: Float) -> Float:
        """C for X c of shape (n, p): shape (n, d, d)."""
        return covariance_at(self.intercept + sums, self.link, self.shape, self.limits)[0]


# Fitting


def fit_covariance(
    products: Products,
    basis: Basis | None,
    link: Link,
    shape: Shape,
    ridge: float | None = None,
    start: CovarianceFit | None = None,
    most: float = np.inf,
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
    most : float
        Upper limit of the eigenvalues of C, beside what the products say of it.
    """
    basis = basis or NO_FEATURES
    model = NoiseModel(link, shape, most=min(most, _largest_eigenvalue(products, basis, shape, ridge)))
    diagonal = np.equal(*entries(shape.structure, shape.d))
    constant = np.zeros((products.ones.shape[1], shape.n_entries))
    constant[0] = link.at_one * diagonal
    ridges = np.repeat(first_ridges(basis)[None], shape.n_entries, axis=0)
    scoring = Scoring(model, constant, ridges, np.zeros_like(constant))
    first, fits = 0, []
    if start is not None:
        scoring = scoring._replace(B=_best_start(model, products, constant, start.B), ridges=start.ridges)
        if len(start.held_out) == len(products.S):  # of the same cells, which have switched off what they do not need
            first = STEPS_OF_FREEDOM
    with one_blas_thread:
        for added in _added(link, shape, basis, start):
            more = products.with_added(added, diagonal)
            scoring = scored(scoring, more, basis, ridge, first)
            fits.append(_judged(scoring, more, products.S, added, basis, ridge))
        best = min(fits, key=lambda fit: fit.cv_nll)
        loss_of_one = 0.5 * float(products.S[:, diagonal].sum() / products.count.sum())  # for C = 1
        if best.cv_nll <= loss_of_one or not products.ones.shape[1] > 1 or ridge is not None:
            return best
        if start is not None and (start.ridges < SWITCHED_OFF).any():  # which may lead astray
            return fit_covariance(products, basis, link, shape, ridge, most=most)
        off, P = np.full_like(scoring.ridges, SWITCHED_OFF), np.full_like(constant, SWITCHED_OFF)
        P[0] = 0.0
        same_everywhere = _judged(Scoring(model, constant, off, P), products, products.S, 0.0, basis, None)
        same_everywhere = replace(same_everywhere, found_constant=best.found_constant)
        # A full Σ of few data has so many amplitudes that the loss of a constant is better taken as it is on its data
        return best if shape.separate and best.cv_nll <= same_everywhere.cv_nll else same_everywhere


def _added(link: Link, shape: Shape, basis: Basis, start: CovarianceFit | None) -> tuple[float, ...]:
    """What to add to S / n: each of ADDED in turn, or what suited where to start from."""
    if not link.linear or shape.separate or not len(basis.largest):
        return (0.0,)
    return ADDED if start is None else (start.added or ADDED[0],)


def _largest_eigenvalue(products: Products, basis: Basis, shape: Shape, ridge: float | None) -> float:
    """An upper limit of the eigenvalues of a full C: its trace, which is a scalar and easy to fit, at its largest."""
    if shape.separate or not len(basis.largest):
        return np.inf
    own = np.equal(*entries(shape.structure, shape.d))
    trace = products._replace(S=products.S[:, own].mean(axis=1, keepdims=True))
    model = NoiseModel(LINKS["log"], Shape("diagonal", 1))
    nothing = np.zeros((trace.ones.shape[1], 1))
    with one_blas_thread:
        B = scored(Scoring(model, nothing, first_ridges(basis)[None], nothing), trace, basis, ridge).B
    return MARGIN_OF_TRACE * shape.d * float(model.link.value(trace.values(B)).max())


def _best_start(model: NoiseModel, products: Products, constant: Float, B: Float) -> Float:
    """Amplitudes between those of a constant C and B, up to where the likelihood falls: B may be of other data."""
    best, least = constant, np.inf
    for share in START_SHARES:
        between = constant + share * (B - constant)
        nll = model.nll(model.parts(products.values(between), products.S), products.count)
        if nll > least:
            break
        best, least = between, nll
    return best


def _judged(
    scoring: Scoring, products: Products, S: Float, added: float, basis: Basis, ridge: float | None
) -> CovarianceFit:
    """A fit with the likelihood of each fold by amplitudes without the fold."""
    model, B, ridges, P = scoring
    count, H = products.count, products.values(B)
    parts = model.parts(H, products.S)
    systems, weight, z = systems_of(model, products, H, parts)
    determined = 0.0
    for j, (A, b) in enumerate(systems):
        determined += float((1 - solve_penalised(A, b, P[:, j])[1] * P[:, j]).sum())
    if S.size <= MOST_REFITTED:
        out_of_fold = _refitted(scoring, products, basis, ridge)
    else:
        out_of_fold = model.link.near(_out_of_fold(model, products, systems, weight, z, P), H, model.shape)
    least, most = _range_of(model, parts.C, S, count)
    judged = model.parts(out_of_fold, S)
    limits = _limits_of(model, judged, parts, count, least, most)
    held_out = _losses(model, judged, count, limits)
    spread = np.maximum(1.0, (weight * (z - H) ** 2).sum(axis=0) / count.sum())
    return CovarianceFit(
        model=model,
        B=B,
        ridges=ridges,
        limits=limits,
        least=least,
        added=added,
        held_out=held_out,
        cv_nll=float(held_out.sum() / count.sum()),
        determined=determined,
        systems=all_solved(systems, P, B, spread, basis),
        found_constant=bool((ridges >= SWITCHED_OFF).all()),
    )


def _limits_of(model: NoiseModel, judged: Parts, parts: Parts, count: Float, least: Float, most: Float) -> Float:
    """Limits (2, d) that suit products under amplitudes without their fold, and what these predict under those of all.

    A cell that stands alone may have made C small where it is, which its own products do not tell.

    Parameters
    ----------
    model : NoiseModel
    judged : Parts
        Of H without each cell's fold, and of the products.
    parts : Parts
        Of H of the fit.
    count : array of shape (n,)
    least, most : arrays
        As for `Losses.limits`.
    """
    separate = model.shape.separate
    tops, top, least_top = None, 0.0, 0.0
    if not separate:
        tops, least_top = Losses.of_largest(model, judged, count, most), 0.5 * np.quantile(parts.C.max(axis=1), 0.01)
        top = tops.chosen_of_largest(float(least_top))
    losses = Losses.of(model, judged, count, most, top)
    limits = losses.limits(least, most, top)
    C, Q = kept_eigenvalues(judged.C, limits, separate=separate) * count[:, None], judged.spectrum.Q
    if Q is None:
        expected = C
    else:
        rows, cols = entries(model.shape.structure, model.shape.d)
        expected = ((Q * C[:, None, :]) @ Q.swapaxes(1, 2))[:, rows, cols]
    predicted = parts._replace(turned=parts.spectrum.turned(expected, model.shape))
    if tops is not None:
        top = tops.plus(Losses.of_largest(model, predicted, count, most)).chosen_of_largest(least_top)
        losses = Losses.of(model, judged, count, most, top)
    return losses.plus(Losses.of(model, predicted, count, most, top)).limits(least, most, top)


def _losses(model: NoiseModel, parts: Parts, count: Float, limits: Float) -> Float:
    """The nll of each cell with C within limits (2, d)."""
    C = kept_eigenvalues(parts.C, limits, separate=model.shape.separate)
    return cell_nll(C, parts.spectrum.diagonal(parts.turned), count).sum(axis=1)


def _refitted(scoring: Scoring, products: Products, basis: Basis, ridge: float | None) -> Float:
    """H (n, p) of each cell by a fit without its fold, which goes on from that to all of them."""
    values = np.empty_like(products.S)
    for k in range(FOLDS):
        mine, rest = (np.flatnonzero(own) for own in (products.fold == k, products.fold != k))
        values[mine] = products.ones[mine] @ scored(scoring, products.at(rest), basis, ridge, STEPS_OF_FREEDOM).B
    return values


def _out_of_fold(
    model: NoiseModel, products: Products, systems: list[tuple[Float, Float]], weight: Float, z: Float, P: Float
) -> Float:
    """H (n, p) of each cell by amplitudes of a scoring step without its fold."""
    values, in_use = np.empty_like(z), P.T < SWITCHED_OFF
    for mine in (np.flatnonzero(products.fold == k) for k in range(FOLDS)):
        own = products.at(mine)
        less = Lefts(model, own).systems(weight[mine], z[mine], in_use)
        for j, ((A, b), (less_A, less_b), on) in enumerate(
            zip(systems, less, map(np.flatnonzero, in_use), strict=True)
        ):
            inner = np.ix_(on, on)
            c = penalised_solution((A - less_A)[inner], (b - less_b)[on], P[on, j])
            values[mine, j] = own.ones[:, on] @ c
    return values


def _range_of(model: NoiseModel, C: Float, S: Float, count: Float) -> tuple[Float, Float]:
    """Half of the smallest values that eigenvalues C (n, d) have on the data, and an upper limit (d,) of them."""
    if not model.shape.separate:
        highest = MARGIN * float(C.max()) if np.isinf(model.most) else model.most
        return 0.5 * np.quantile(C.min(axis=1, keepdims=True), 0.01, axis=0), np.full(model.shape.d, max(highest, 1.0))
    seen = S / count[:, None]
    most = MARGIN * np.minimum(C.max(axis=0), seen.max(axis=0))
    return 0.5 * np.quantile(C, 0.01, axis=0), np.maximum(most, 1.0)


def all_solved(systems: Iterable[tuple[Float, Float]], P: Float, B: Float, spread: Float, basis: Basis) -> list[Solved]:
    """The least-squares problem of each entry, whose residuals vary `spread` times as much as expected."""
    group = ridge_groups(basis, 1)
    return [
        Solved(A, b, ridges, c, group, float(more))
        for (A, b), ridges, c, more in zip(systems, P.T, B.T, spread, strict=True)
    ]


def held_out_losses(fit: CovarianceFit, products: Products) -> Float:
    """The nll of each of some other cells."""
    parts = fit.model.parts(products.values(fit.B), products.S)
    return _losses(fit.model, parts, products.count, fit.limits)
