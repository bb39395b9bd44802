"""What training needs of the data: the ridge solution at given frequencies, and the error of a network.

A form of the normal equations holds one set of points and targets and answers two questions. Algorithm 1 knows
nothing else of the data.
"""

from __future__ import annotations

from typing import Protocol

from itofit._checks import Complex, Float
from itofit.waves.normal_equations.choice import LEAST_RIDGE, Form, accuracy_for, cheaper_form
from itofit.waves.normal_equations.direct import DirectNormalEquations
from itofit.waves.normal_equations.gridded import (
    MOST_INPUTS,
    SPARE,
    ArrayPart,
    FrequenciesTooLarge,
    GriddedNormalEquations,
    Part,
)
from itofit.waves.normal_equations.moments import Moments, moments_of

__all__ = [
    "LEAST_RIDGE",
    "MOST_INPUTS",
    "SPARE",
    "ArrayPart",
    "DirectNormalEquations",
    "Form",
    "FrequenciesTooLarge",
    "GriddedNormalEquations",
    "Moments",
    "NormalEquations",
    "Part",
    "accuracy_for",
    "cheaper_form",
    "moments_of",
]


class NormalEquations(Protocol):
    """One set of scaled points u (N, m) and targets y (N, p)."""

    n_rows: int
    n_inputs: int
    n_outputs: int
    total: float  # N, or the sum of weights

    def solve(self, omega: Float, ridge: float) -> Complex:
        """β̂ of shape (K, p), the solution of (SᴴS + λN I) β̂ = Sᴴy at the frequencies omega of shape (K, m)."""
        ...

    def real_gram(self, omega: Float) -> tuple[Float, Float]:
        """[C D]ᵀ[C D] of shape (2K, 2K) and [C D]ᵀy of shape (2K, p), for the real features of the frequencies."""
        ...

    def mse(self, omega: Float, beta: Complex) -> float:
        """Mean over points and outputs of |y − Re(S β̂)|²."""
        ...
