"""Which form of the normal equations to use: a cost model, in seconds of one core.

=======  =============================  =================================================================
form     one Gram matrix                what costs
=======  =============================  =================================================================
direct   e K² + N · (a K + 2b K²)       handling matrices of 2K × 2K; features; their product in real form
gridded  s D + ½ c_D K² + N (1+p) m_D   interpolation at ½K² frequencies, the dearer of its two ways; moments, made once
                                        for about a hundred solves
=======  =============================  =================================================================

N rows, K features, D inputs, p outputs; the Cholesky factorisation that follows is the same for both. The constants
were measured by `benchmarks/choice.py`, which compares the choice with what solves take. Direct sums cost less over few
rows: hundreds with one or two inputs, thousands with three.
"""

from __future__ import annotations

from typing import Literal

from itofit.waves.normal_equations.gridded import ACCURACY, FEATURE, INTERPOLATION, MOST_INPUTS, PRODUCT

Form = Literal["direct", "gridded"]

SETUP = 5e-5
"""s: seconds for each input that gridded sums take at any size."""
HANDLING = 2.5e-8
"""e: seconds for each of K² places in the matrices that direct sums add up."""
MOMENTS = {1: 6e-10, 2: 2.5e-9, 3: 8e-9}
"""m_D: seconds to make the moments of one row and output, by number of inputs, for each of a hundred solves."""
LEAST_RIDGE = 1e-8
"""Below it, relative to N, amplitudes depend on digits of the Gram matrix that the gridded form does not have."""
LEAST_ACCURACY = 1e-13
"""Better sums are not to be had from moments."""


def cheaper_form(n_rows: int, K: int, n_inputs: int, n_outputs: int, ridge: float) -> Form:
    """The form whose solves cost less, among those that can do them."""
    if n_inputs > MOST_INPUTS or ridge < LEAST_RIDGE:
        return "direct"
    cheaper = direct_seconds(n_rows, K) < gridded_seconds(n_rows, K, n_inputs, n_outputs)
    return "direct" if cheaper else "gridded"


def direct_seconds(n_rows: int, K: int) -> float:
    """Of one Gram matrix."""
    return HANDLING * K**2 + n_rows * (FEATURE * K + PRODUCT * 2 * K**2)


def gridded_seconds(n_rows: int, K: int, n_inputs: int, n_outputs: int) -> float:
    """Of one Gram matrix, at most, with its share of the moments."""
    moments = MOMENTS[n_inputs] * n_rows * (1 + n_outputs)
    return SETUP * n_inputs + INTERPOLATION[n_inputs] * K**2 / 2 + moments


def accuracy_for(ridge: float) -> float:
    """How accurate gridded sums must be for amplitudes at this ridge: the ridge damps errors of Gram matrices."""
    return min(ACCURACY, max(1e-5 * ridge, LEAST_ACCURACY))
