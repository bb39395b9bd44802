"""Few data get a simple answer: what they say too little about is moved most of the way to constants.

With few transitions a fit that looks better than constants may be worse, and nothing in the data tells for sure: terms
were chosen and noise was measured by the same rows. But between a fit and constants there is a middle. The drift
f̄ + w (f − f̄), with the best constant f̄, has 1 − (1 − w)² of the gain of f where that is right, and only w² of its
loss where it is all noise. So up to FEW_ROWS transitions, a drift with which the likelihood gains less than a clear
amount over f̄, for each amplitude that it has beyond that, is replaced by this one; and a Σ of which the same holds by
one that varies w times as much, around the mean of what the drift leaves over.

Amplitudes that are moved stay what a least-squares problem was solved for, with other values. So error bars hold the
distance from that solution as a bias, see `itofit.learning.spread`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from itofit._checks import Float
from itofit.learning.automatic.candidates import ResidualProducts
from itofit.learning.automatic.covariance import CovarianceFit
from itofit.learning.automatic.drift import Drift, DriftCells
from itofit.learning.automatic.sigma import Sigma
from itofit.matrices.symmetric import entries, to_matrices

FEW_ROWS = 400
"""Transitions up to which all this is done."""
KEPT = 0.4
"""Share of what was learned, beyond constants, that is kept of a fit that gains little."""
CLEAR_GAIN = 5.0
"""Nats that the likelihood of a fit must gain over that of constants, for each amplitude that it has beyond these, to
be kept as it is: noise alone makes a single amplitude gain so much in one of 600 data sets."""
ENOUGH_ROWS = 60.0
"""Transitions and outputs for each amplitude with which a fit is kept as well: a nat that an amplitude loses, if it is
all noise, is then less than 0.02 for each of them."""
LEAST_OF_CORRELATIONS = 0.01
"""Nats per transition and output that correlations must gain at least: less hardly matters, and may be chance."""


def best_constant(cells: DriftCells) -> Float:
    """The drift (d,) of largest likelihood that is the same everywhere."""
    return np.asarray(cells.moves.sum(axis=0) / cells.duration.sum())


def unclear(cells: DriftCells, drift: Drift, fit: CovarianceFit, sigma: Float) -> tuple[bool, bool]:
    """Whether few transitions, one in each cell, are hardly more likely with drift, and with Σ, than with constants.

    Parameters
    ----------
    cells : DriftCells
    drift : Drift
    fit : CovarianceFit
    sigma : array of shape (n, d, d)
        The Σ of that fit at the cells.
    """
    d = cells.moves.shape[1]
    S, S_of_constant = (
        _products(cells, values) for values in (drift.intercept + cells.X @ drift.c, best_constant(cells))
    )
    loss, alone = _loss(sigma, S), _loss_of_mean(S)
    # With one Σ of its own the drift gains more where there is no noise
    of_drift = max(_loss(sigma, S_of_constant) - loss, _loss_of_mean(S_of_constant) - alone)
    gains = ((of_drift, drift.determined - d), (alone - loss, fit.determined - fit.shape.n_entries))
    unclear_drift, unclear_noise = (
        gains_little(len(S) * gain, amplitudes, d * len(S), CLEAR_GAIN) for gain, amplitudes in gains
    )
    return unclear_drift, unclear_noise


def gains_little(gain: float, n_amplitudes: float, n_observed: int, clear: float) -> bool:
    """Whether a gain is less than a clear one for each amplitude beyond constants, and observations are few for these.

    Observations are transitions times outputs.
    """
    return bool(gain < clear * n_amplitudes and n_observed < ENOUGH_ROWS * n_amplitudes)


def _loss_of_mean(S: Float) -> float:
    """The mean nll of products S (n, d, d) with their own mean as covariance, without bound if that is singular."""
    return 0.5 * (float(np.linalg.slogdet(S.mean(axis=0))[1]) + S.shape[1])


def _products(cells: DriftCells, drift: Float) -> Float:
    """Residual products (n, d, d) of cells under drifts (n, d) or one for all."""
    residuals = (cells.moves - cells.duration[:, None] * drift) / np.sqrt(cells.duration)[:, None]
    return np.asarray(residuals[:, :, None] * residuals[:, None, :])


def moved(names: str) -> str:
    """What the summary says of functions that were moved, after on how many transitions frequencies were searched."""
    return f"; so few say little of {names}, moved {1 - KEPT:.0%} of the way to constants"


def nearer_to_constant(drift: Drift, constant: Float, share: float = KEPT) -> Drift:
    """The drift f̄ + w (f − f̄) for a constant f̄ (d,) and a share w, also without each fold of the data."""

    def nearer(intercept: Float, c: Float) -> tuple[Float, Float]:
        return constant + share * (intercept - constant), share * c

    d, size = len(constant), len(drift.c) + 1
    goal = np.zeros((d, size))
    goal[:, 0] = constant / drift.unit
    goals = np.split(goal.ravel(), len(drift.systems))
    intercept, c = nearer(drift.intercept, drift.c)
    return replace(
        drift,
        intercept=intercept,
        c=c,
        determined=d + share * (drift.determined - d),
        folds=[nearer(*fold) for fold in drift.folds],
        systems=[own._replace(c=to + share * (own.c - to)) for own, to in zip(drift.systems, goals, strict=True)],
    )


def varying_less(sigma: Sigma, products: ResidualProducts, X: Float, share: float) -> Sigma:
    """A covariance whose H differs w times as much from that of a constant, at the level that suits residuals.

    Parameters
    ----------
    sigma : Sigma
    products : ResidualProducts
        Of the drift that it belongs to.
    X : array of shape (n, R)
        Features at the cells.
    share : float
        w.
    """
    fit, L, shape = at_one(sigma.fit, share), sigma.with_mean(products.mean).L, sigma.fit.shape
    back = np.linalg.inv(L)
    S = back @ to_matrices(products.cells.sums, "full", shape.d) @ back.T
    relative = np.diagonal(np.linalg.solve(fit.at(X), S), axis1=1, axis2=2).mean(axis=0)
    if not shape.separate:  # directions without noise have no say
        relative = np.full(shape.d, relative.sum() / np.trace(S.mean(axis=0)))
    return sigma._replace(L=L * np.sqrt(relative), fit=fit, simplest=None)


def at_one(fit: CovarianceFit, share: float = 0.0) -> CovarianceFit:
    """The fit whose H differs by a share of what it did from that for which C is one."""
    shape = fit.shape
    one = np.zeros_like(fit.B)
    one[0] = fit.link.at_one * np.equal(*entries(shape.structure, shape.d))
    systems = [own._replace(c=to + share * (own.c - to)) for own, to in zip(fit.systems, one.T, strict=True)]
    determined = shape.n_entries + share * (fit.determined - shape.n_entries)
    return replace(fit, B=one + share * (fit.B - one), systems=systems, determined=determined)


def correlated_mean(sigma: Sigma, products: ResidualProducts, X: Float) -> Float | None:
    """One covariance (d, d) for all places with correlations, if it should predict new data better than a diagonal Σ.

    A test as for many data would leave out correlations that constants have. So they are shrunk, to the share 1 − a of
    what they are, where a is the sum of their variances over that of their squares (Schäfer and Strimmer, 2005). As
    they are, they lose ½ n d (d + 1) / (n − d − 1) nats more on new data than on their own, and a diagonal matrix
    n d / (n − 2): Akaike's criterion for few normal data. The share of the difference must be gained.
    """
    d, n = len(sigma.L), len(X)
    if not sigma.fit.shape.separate or d == 1 or n <= d + 1:
        return None
    unit = np.sqrt(np.diagonal(products.mean))
    squares = (products.mean / np.outer(unit, unit))[np.tril_indices(d, -1)] ** 2
    kept = max(0.0, 1 - float(((1 - squares) ** 2).sum() / n / max(squares.sum(), 1e-300)))
    mean = np.where(np.eye(d, dtype=bool), 1.0, kept) * products.mean
    S, own = to_matrices(products.cells.sums, "full", d), sigma.of_features(X)
    gain = (_loss(own, S) - _loss(np.tile(mean, (n, 1, 1)), S)) / d
    return mean if gain > max(LEAST_OF_CORRELATIONS, kept * (0.5 * (d + 1) / (n - d - 1) - 1 / (n - 2))) else None


def _loss(sigma: Float, S: Float) -> float:
    """The mean nll of products S (n, d, d) with covariances (n, d, d)."""
    return 0.5 * float((np.linalg.slogdet(sigma)[1] + np.trace(np.linalg.solve(sigma, S), axis1=1, axis2=2)).mean())
