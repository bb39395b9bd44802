"""What the length of steps says of candidates of a drift, and of a constant covariance.

The mean m of a step is less simple than the drift that makes it: of a polynomial of third degree it has terms of the
fifth. With many data these are evident, and waves that stand for them are chosen. Once steps are part of the model they
are needed no longer, and the drift that was simple is the better one. So candidates are compared again by the evidence
of their m, plus what data gain by the steps of the corrected drift, which has as many amplitudes.

The covariance of a step varies, too, where that of the noise does not, so a constant one is compared again: by the nll
of the products of residuals with the covariances of its steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.data.passes import Data
from itofit.learning.automatic.cells import Cells
from itofit.learning.automatic.drift import Drift
from itofit.learning.automatic.principal import Basis, with_intercept
from itofit.learning.step_matrices import moments_of
from itofit.learning.steps import MOST_LOSS, Corrected
from itofit.matrices.symmetric import to_matrices
from itofit.model.finite_step import Step
from itofit.waves.scaling import Scaling


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
        step = _steps_from(self.cells, basis, corrected, self.scaling, self.data)
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

    def loss(self, basis: Basis, corrected: Corrected) -> float:
        """Their nll per transition with the covariance of the steps that a drift and a covariance make."""
        C = _steps_from(self.cells, basis, corrected, self.scaling, self.data).covariance
        S, count = to_matrices(self.cells.sums, "full", C.shape[1]), self.cells.count
        squares = np.trace(np.linalg.solve(C, S), axis1=1, axis2=2)
        return float(0.5 * (count @ np.linalg.slogdet(C)[1] + squares.sum()) / count.sum())


def _steps_from(cells: Cells, basis: Basis, corrected: Corrected, scaling: Scaling, data: Data) -> Step:
    x, h = scaling.shift + scaling.scale * cells.u, _lengths(cells, corrected.record.h)
    return moments_of(x, h, corrected.drift, basis, corrected.sigma, scaling=scaling, data=data)


def _lengths(cells: Cells, usual: float) -> Float:
    """Lengths of steps from the cells (n,): means by length, as is the usual one of all, where they are of several."""
    mean = cells.duration / cells.count
    of_all = cells.duration.sum() / cells.count.sum()
    return np.where(cells.count > 1, usual / of_all, 1.0) * mean
