"""Frequencies of waves that stood out, moved to where they leave least over, all of them together.

The top of a peak in the periodogram is shifted by the other peaks, and by as much as a wave is off, shorter ones beside
it are needed to mend it. For small changes dω_k of the frequencies a fit a_k cos(ω_k·u) + b_k sin(ω_k·u) changes by

    Σ_k (b_k cos(ω_k·u) − a_k sin(ω_k·u)) u·dω_k,

so that what it leaves over gives all dω_k by least squares: a step of Gauss and Newton.
"""

from __future__ import annotations

import numpy as np

from itofit._blocks import BLOCK_ROWS, map_chunks
from itofit._checks import Float
from itofit.learning.automatic.fitted_waves import FittedWaves, Targets
from itofit.waves.series import feature_blocks
from itofit.waves.wave_groups import stood_out

MOST_MOVED = 0.3
"""Of a component of a frequency in one step, where a wave that is half as long as the data has 4π."""
JITTER = 1e-9
"""Added to the diagonal of normal equations, in units of itself."""


def moved_waves(fit: FittedWaves, targets: Targets) -> Float:
    """The frequencies (F, m) that stood out after one step; zeros and harmonics of periodic inputs stay.

    Parameters
    ----------
    fit : FittedWaves
        Of them and others.
    targets : Targets
        What was fitted.
    """
    K, found = len(fit.basis.omega), fit.found
    places = np.flatnonzero(stood_out(fit.kind, targets.n_inputs))
    amplitudes = fit.basis.transform @ np.column_stack([own.c for own in fit.fits])
    a, b = amplitudes[places], amplitudes[places + K]  # of V y
    left = (targets.y - fit.basis.sums(targets.u, fit.amplitudes)) @ fit.V.T
    wave, component = np.nonzero(found * ~targets.periodic)
    if not len(wave):
        return found

    def sums(chunk: slice) -> Float:
        total = np.zeros((len(wave), len(wave) + 1))
        for block, CD in feature_blocks(found, targets.u, chunk):
            along = targets.u[block].T[component]
            for j in range(left.shape[1]):
                change = b[:, [j]] * CD[: len(found)] - a[:, [j]] * CD[len(found) :]
                slopes = change[wave] * along
                weighted = slopes * targets.weight[block]
                total[:, :-1] += weighted @ slopes.T
                total[:, -1] += weighted @ left[block, j]
        return total

    total = sum(map_chunks(sums, len(targets.u), chunk_rows=BLOCK_ROWS), start=np.zeros(1))
    A, right = total[:, :-1], total[:, -1]
    A[np.diag_indices(len(A))] *= 1 + JITTER
    moved = found.copy()
    moved[wave, component] += np.clip(np.linalg.lstsq(A, right)[0], -MOST_MOVED, MOST_MOVED)
    return moved
