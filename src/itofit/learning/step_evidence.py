"""What the length of steps says of candidates of a drift.

The mean m of a step is less simple than the drift that makes it: of a polynomial of third degree it has terms of the
fifth. With many data these are evident, and waves that stand for them are chosen. Once steps are part of the model they
are needed no longer, and the drift that was simple is the better one. So candidates are compared again by the evidence
of their m, plus what data gain by the steps of the corrected drift, which has as many amplitudes.
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
        (m, basis, corrected), cells, scaling = candidate, self.cells, self.scaling
        x, h = scaling.shift + scaling.scale * cells.u, _lengths(cells, corrected.record.h)
        step = moments_of(x, h, corrected.drift, basis, corrected.sigma, scaling=scaling, data=self.data)
        rates = with_intercept(basis.at(cells.u)) @ m.posterior.amplitudes.T
        return self._log_likelihood(rates), self._log_likelihood(step.mean)

    def _log_likelihood(self, rates: Float) -> float:
        """With mean rates (n, d)."""
        left = self.cells.sums[:, : rates.shape[1]] - 0.5 * self.cells.duration[:, None] * rates
        return float(((self.precision @ left[:, :, None])[:, :, 0] * rates).sum())


def _lengths(cells: Cells, usual: float) -> Float:
    """Lengths of steps from the cells (n,): means by length, as is the usual one of all, where they are of several."""
    mean = cells.duration / cells.count
    of_all = cells.duration.sum() / cells.count.sum()
    return np.where(cells.count > 1, usual / of_all, 1.0) * mean
