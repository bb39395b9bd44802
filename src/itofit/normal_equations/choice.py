"""Which form of the normal equations to use: a cost model, in seconds of one core.

======  =======================================================================================================
form    one ridge solve, beside the Cholesky factorisation that both need
======  =======================================================================================================
direct  N · (a K + b · 2K²): features, and their Gram product in real form
gridded s + ½K² · c_D: interpolation at ½K² frequencies, the dearer of its two ways; D is the number of inputs
======  =======================================================================================================

The constants were measured by `benchmarks/choice.py`, which compares the model with what solves take. Direct sums over
few rows cost less; how many depends on K and D, a few hundred with one input, a few thousand with three.
"""

from __future__ import annotations

from typing import Literal

from itofit.normal_equations.gridded import ACCURACY, FEATURE, INTERPOLATION, MOST_INPUTS, PRODUCT

Form = Literal["direct", "gridded"]

SETUP = 1e-4
"""s: seconds of everything in a gridded solve that does not depend on its size."""
LEAST_RIDGE = 1e-8
"""Below it, relative to N, amplitudes depend on digits of the Gram matrix that the gridded form does not have."""
LEAST_ACCURACY = 1e-13


def cheaper_form(n_rows: int, K: int, n_inputs: int, ridge: float) -> Form:
    """The form whose solves cost less, among those that can do them."""
    if n_inputs > MOST_INPUTS or ridge < LEAST_RIDGE:
        return "direct"
    return "direct" if direct_seconds(n_rows, K) < gridded_seconds(K, n_inputs) else "gridded"


def direct_seconds(n_rows: int, K: int) -> float:
    """Of one Gram matrix."""
    return n_rows * (FEATURE * K + PRODUCT * 2 * K**2)


def gridded_seconds(K: int, n_inputs: int) -> float:
    """Of one Gram matrix, at most."""
    return SETUP + INTERPOLATION[n_inputs] * K**2 / 2


def accuracy_for(ridge: float) -> float:
    """How accurate gridded sums must be for amplitudes at this ridge: the ridge damps errors of Gram matrices."""
    return min(ACCURACY, max(1e-5 * ridge, LEAST_ACCURACY))
