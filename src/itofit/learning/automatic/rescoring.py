"""One more scoring step of a covariance, on other data than it was fitted to, and error bars of coupled entries.

Sums over the data, which add up over their parts, say where the step leads; the losses of some shares of it say which
is best. Error bars of an entry of H that is coupled to others count what these may do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from itofit._blocks import map_tasks
from itofit._checks import Float
from itofit.learning.automatic.covariance import CovarianceFit, all_solved
from itofit.learning.automatic.evidence import amplitude_ridges
from itofit.learning.automatic.limits import Losses
from itofit.learning.automatic.penalised import left_by_others, penalised_solution
from itofit.learning.automatic.principal import NO_FEATURES, Basis
from itofit.learning.automatic.products import Products
from itofit.learning.automatic.scoring import Together, systems_of
from itofit.matrices.links import covariance_at
from itofit.matrices.symmetric import entries

SHARES_OF_STEP = {True: (0.0, 0.5, 1.0), False: (0.0, 0.25, 0.5, 1.0)}
"""Of one more step on other data, of which the best is taken, for decoupled entries and for others."""
WORK_OF_LOSS = 100
"""Multiplications that take as long as the loss of one entry, of its eigenvalues and logarithms most of all."""


class ScoringSums(NamedTuple):
    """One scoring step on other data, as sums over them."""

    A: Float  # (p, R + 1, R + 1)
    b: Float  # (p, R + 1)
    squares: Float  # (p,): weighted squares of what the fit leaves over
    n: int
    A_together: Float  # (q, q): between all amplitudes of coupled entries; (0, 0) if each entry is moved alone
    b_together: Float  # (q,)

    @classmethod
    def of(cls, fit: CovarianceFit, X: Float, S: Float) -> ScoringSums:
        """Those of single transitions with features X (n, R) and products S (n, p)."""
        products = _single(X, S)
        rows, cols = entries(fit.shape.structure, fit.shape.d)
        H = products.values(fit.B)
        if fit.link.linear:  # which may leave its limits at places that were not fitted
            H = covariance_at(H, fit.link, fit.shape, fit.limits)[0][:, rows, cols]
        S = S + fit.added * (rows == cols)
        parts = fit.model.parts(H, S)
        systems, weight, z = systems_of(fit.model, products, H, parts)
        A, b = (np.stack(sides) for sides in zip(*systems, strict=True))
        A_together, b_together = np.empty((0, 0)), np.empty(0)
        if fit.moves_together:
            step = Together.of(fit.model, products._replace(S=S), (fit.B, H), parts, None)
            A_together, b_together = step.A, step.b.ravel()
        return cls(A, b, (weight * (z - H) ** 2).sum(axis=0), len(H), A_together, b_together)

    def solution(self, P: Float) -> Float:
        """Amplitudes (p, R + 1) at the end of the step, with ridges of that shape."""
        if not len(self.A_together):
            return np.stack([penalised_solution(A, b, own) for A, b, own in zip(self.A, self.b, P, strict=True)])
        return penalised_solution(self.A_together, self.b_together, P.ravel()).reshape(P.shape)

    def systems(self, P: Float) -> list[tuple[Float, Float]]:
        """A and b of each entry, as error bars are made of them."""
        if not len(self.A_together):
            return list(zip(self.A, self.b, strict=True))
        return _whatever_others_do(self.A_together, self.b_together, P)


def _whatever_others_do(A: Float, b: Float, P: Float) -> list[tuple[Float, Float]]:
    """The least-squares problem of each entry where the others, with their ridges, may do as they like.

    Where Σ is nearly singular this says far less of an entry than if the others stay where they are.

    Parameters
    ----------
    A, b : arrays of shape (p (R + 1), p (R + 1)) and (p (R + 1),)
        Of all of them together.
    P : array of shape (p, R + 1)
        Ridges.
    """
    size, best, systems = P.shape[1], penalised_solution(A, b, P.ravel()).reshape(P.shape), []
    for j, (own, c) in enumerate(zip(P, best, strict=True)):
        alone = left_by_others(A, P.ravel(), slice(j * size, (j + 1) * size))
        systems.append((alone, alone @ c + own * c))
    return systems


def with_errors_of_all(fit: CovarianceFit, products: Products) -> CovarianceFit:
    """A fit with error bars that count how coupled entries depend on each other, from the products that it suits."""
    more, H = products.with_added(fit.added, np.equal(*entries("full", fit.shape.d))), products.values(fit.B)
    step = Together.of(fit.model, more, (fit.B, H), fit.model.parts(H, more.S), None)
    systems = _whatever_others_do(step.A, step.b.ravel(), np.stack([own.P for own in fit.systems]))
    solved = [own._replace(A=A, b=b) for own, (A, b) in zip(fit.systems, systems, strict=True)]
    return replace(fit, systems=solved)


def _single(X: Float, S: Float) -> Products:
    """Products of single transitions, in no folds."""
    return Products.of(X, S, np.ones(len(S)), np.zeros(len(S), dtype=int))


def rescored(
    fit: CovarianceFit,
    basis: Basis | None,
    sums: ScoringSums,
    losses: Callable[[list[Float]], list[Losses]],
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
    new = sums.solution(P).T
    trials = [fit.B + step * (new - fit.B) for step in SHARES_OF_STEP[fit.shape.separate]]
    totals = losses(trials)
    best = int(np.argmin([total.least for total in totals]))
    limits = totals[best].limits(fit.least, fit.limits[1], fit.top)
    spread = np.maximum(1.0, sums.squares / sums.n)
    solved = all_solved(sums.systems(P), P.T, trials[best], spread, features)
    return replace(fit, B=trials[best], limits=limits, systems=solved)


def losses_of_trials(fit: CovarianceFit, trials: list[Float], X: Float, S: Float) -> tuple[Losses, ...]:
    """The losses of single transitions with features X (n, R) and products S (n, p), for each of some amplitudes."""
    products = _single(X, S)

    def of(which: int) -> Losses:
        parts = fit.model.parts(products.values(trials[which]), products.S)
        return Losses.of(fit.model, parts, products.count, fit.limits[1], fit.top)

    return tuple(map_tasks(of, range(len(trials)), (X.shape[1] + WORK_OF_LOSS) * S.size))
