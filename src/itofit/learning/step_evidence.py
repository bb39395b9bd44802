"""What the length of steps says of candidates of a drift, and of a constant covariance.

The mean m of a step is less simple than the drift that makes it: of a polynomial of third degree it has terms of the
fifth. With many data these are evident, and waves that stand for them are chosen. Once steps are part of the model they
are needed no longer, and the drift that was simple is the better one. So candidates are compared again by the evidence
of their m, plus what data gain by the steps of the corrected drift, which has as many amplitudes.

The covariance of a step varies, too, where that of the noise does not. So a constant one, the most likely of all, is
compared again by the nll of the products of residuals with the covariances of steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.data.passes import Data
from itofit.learning.automatic.cells import Cells
from itofit.learning.automatic.drift import Drift
from itofit.learning.automatic.principal import Basis, with_intercept
from itofit.learning.automatic.sigma import Sigma
from itofit.learning.spread import Posterior
from itofit.learning.step_matrices import moments_of
from itofit.learning.steps import MOST_LOSS, Corrected
from itofit.matrices.symmetric import to_matrices
from itofit.waves.scaling import Scaling

CELLS_AT_ONCE = 10_000
"""Of which steps are followed, so that memory does not grow with their number."""
MOST_ROUNDS = 8
"""Of the search for a constant covariance; each leaves about h ‖∇f‖ of what there was to find."""
SETTLED = 0.3
"""Change of a constant covariance, in standard errors, that is too small for another round."""


class Stepped(NamedTuple):
    """A candidate, before and after its correction."""

    drift: Drift  # m
    basis: Basis
    corrected: Corrected


class ObservedMoves(NamedTuple):
    """The moves of cells, by which candidates are compared."""

    cells: Cells  # of Δx
    precision: Float  # (n, d, d) or (1, d, d): C⁻¹ at the cells, or one for all
    scaling: Scaling
    data: Data  # which they are from

    def prefer_simple(self, best: Stepped, simple: Stepped, ahead: float) -> bool:
        """Whether a simple candidate is as evident as another one, whose m is ahead of its m by so many nats.

        As with any correction, data must be about as likely with its steps as with the better m.
        """
        with_m, with_steps = self.log_likelihoods(best)
        with_simple_m, with_simple_steps = self.log_likelihoods(simple)
        gain = (with_simple_steps - with_simple_m) - (with_steps - with_m)
        record, d = simple.corrected.record, len(simple.corrected.drift.amplitudes)
        lost = record.excess + (with_m - with_simple_m) / float(self.cells.count.sum())
        return gain >= ahead and not record.withheld and lost < MOST_LOSS * d

    def log_likelihoods(self, candidate: Stepped) -> tuple[float, float]:
        """Of the moves with m, and with the steps of the corrected drift, above those without any drift."""
        m, basis, corrected = candidate
        x, h = self.scaling.shift + self.scaling.scale * self.cells.u, _lengths(self.cells, corrected.record.h)
        step = moments_of(x, h, corrected.drift, basis, corrected.sigma, scaling=self.scaling, data=self.data)
        rates = with_intercept(basis.at(self.cells.u)) @ m.posterior.amplitudes.T
        return self._log_likelihood(rates), self._log_likelihood(step.mean)

    def _log_likelihood(self, rates: Float) -> float:
        """With mean rates (n, d)."""
        left = self.cells.sums[:, : rates.shape[1]] - 0.5 * self.cells.duration[:, None] * rates
        return float(((self.precision @ left[:, :, None])[:, :, 0] * rates).sum())


class ObservedProducts(NamedTuple):
    """The residual products of cells, by which a constant covariance is compared with another."""

    cells: Cells  # of the entries of rrᵀ/h
    scaling: Scaling
    data: Data

    def loss(self, basis: Basis, drift: Posterior, sigma: Sigma) -> float:
        """Their nll per transition with the covariances of the steps that a drift and a covariance make."""
        return self._loss(self._covariances(basis, drift, sigma), separate=sigma.fit.shape.separate)

    def most_likely_constant(self, basis: Basis, drift: Posterior, near: Sigma, constant: Sigma) -> Sigma:
        """The constant covariance whose steps, with a drift, make the products most likely.

        Each round is one of scoring, as if the covariances of all steps moved by what Σ moves.

        Parameters
        ----------
        basis, drift : Basis, Posterior
        near : Sigma
            Another covariance that makes such steps; the search starts from its mean.
        constant : Sigma
            Of which another value is looked for.
        """
        count = self.cells.count
        value = (count[:, None, None] * near.at(self.cells.u)).sum(axis=0) / count.sum()
        for _ in range(MOST_ROUNDS):
            C = self._covariances(basis, drift, constant.with_mean(value))
            change = self._score_step(C, separate=constant.fit.shape.separate)
            relative = np.abs(np.linalg.eigvals(np.linalg.solve(value, change))).max()
            value = value + change / max(1.0, 2 * relative)
            if relative < SETTLED * np.sqrt(2 / count.sum()):
                break
        return constant.with_mean(value)

    def _covariances(self, basis: Basis, drift: Posterior, sigma: Sigma) -> Float:
        """Of the steps from the cells: shape (n, d, d)."""
        x, h = self.scaling.shift + self.scaling.scale * self.cells.u, self.cells.duration / self.cells.count
        batches = (slice(first, first + CELLS_AT_ONCE) for first in range(0, len(x), CELLS_AT_ONCE))
        steps = (moments_of(x[p], h[p], drift, basis, sigma, scaling=self.scaling, data=self.data) for p in batches)
        return np.concatenate([step.covariance for step in steps])

    def _loss(self, C: Float, *, separate: bool) -> float:
        d, count = C.shape[1], self.cells.count
        S = to_matrices(self.cells.sums, "full", d)
        if separate:
            own, products = (np.diagonal(each, axis1=1, axis2=2) for each in (C, S))
            log_det, squares = np.log(own).sum(axis=1), (products / own).sum()
        else:
            log_det, squares = np.linalg.slogdet(C)[1], np.trace(np.linalg.solve(C, S), axis1=1, axis2=2).sum()
        return float(0.5 * (count @ log_det + squares) / count.sum())

    def _score_step(self, C: Float, *, separate: bool) -> Float:
        """The change (d, d) of all C, the same for each, that scoring makes of them."""
        d, count = C.shape[1], self.cells.count
        left = to_matrices(self.cells.sums, "full", d) - count[:, None, None] * C
        if separate:
            weight = 1 / np.diagonal(C, axis1=1, axis2=2) ** 2
            return np.diag((np.diagonal(left, axis1=1, axis2=2) * weight).sum(axis=0) / (count @ weight))
        W = np.linalg.inv(C)
        information = np.einsum("n,nij,nkl->ikjl", count, W, W, optimize=True).reshape(d * d, d * d)
        change = np.linalg.solve(information, (W @ left @ W).sum(axis=0).ravel()).reshape(d, d)
        return np.asarray(0.5 * (change + change.T))


def _lengths(cells: Cells, usual: float) -> Float:
    """Lengths of steps from the cells (n,): means by length, as is the usual one of all, where they are of several."""
    mean = cells.duration / cells.count
    of_all = cells.duration.sum() / cells.count.sum()
    return np.where(cells.count > 1, usual / of_all, 1.0) * mean
