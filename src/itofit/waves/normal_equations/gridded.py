"""Normal equations from moments of the data: up to three inputs, at a cost that is free of N.

Everything Algorithm 1 asks of the data is a value of

    φ(ω) = Σ_n exp(iω·u_n),   (SᴴS)[k, l] = φ(ω_l − ω_k),        ψ(ω) = Σ_n y_n exp(iω·u_n),   (Sᴴy)[k] = ψ(−ω_k),

or a sum over the data of the square of a network, whose frequencies are sums and differences of two of the ω_k. With
the inputs in a box of side one and all |ω_k| ≤ Ω these sums depend on the data through few Chebyshev moments, about Ω
in each direction. The moments are made in one pass and add up over blocks of data; what an iteration then costs does
not depend on N. Gram matrices are made by `PolynomialSums` for small Ω and by `TableSums` for large, errors by
`NodeSums`.

A frequency that leaves the box enlarges it. The sums are set up again from the moments, and the moments themselves,
in a new pass over the data, only when there are too few of them.
"""

from __future__ import annotations

from math import ceil, prod
from threading import Lock
from typing import Protocol

import numpy as np

from itofit._blocks import one_blas_thread
from itofit._checks import Complex, Float
from itofit.waves.chebyshev import n_terms
from itofit.waves.normal_equations.direct import DirectNormalEquations, solve_ridge
from itofit.waves.normal_equations.moments import Moments, moments_of
from itofit.waves.normal_equations.polynomials import PolynomialSums, degrees
from itofit.waves.normal_equations.tables import NodeSums, TableSums

MOST_INPUTS = 3
"""Moments of more inputs are too many: their number grows with a power of it."""
ACCURACY = 1e-10
"""Default for the error of φ and ψ, relative to Σ|y|."""
MOST_MOMENTS = {1: 2048, 2: 512, 3: 64}
"""In each direction, by number of inputs; a larger box would cost more than direct sums."""
MARGIN = 1.5
"""How much larger than its largest frequency a box is made, so that it need not grow at each step."""
LEAST_MARGIN = 1.02
"""The same where more would take too many moments."""
SPARE = 1.5
"""How many more moments than needed are made of rows in memory, unless something else is said."""
LEAST_BOX = 1.0
"""Boxes smaller than this would not cost less."""

# Seconds of one core, for the choice of the cheapest sums.
INTERPOLATION = {1: 4e-8, 2: 1e-7, 3: 5e-7}
"""At one frequency, by number of inputs."""
PRODUCT = 5e-11
"""One multiplication and addition in a matrix product."""
GATHER = 2e-9
"""One coefficient of one feature."""
FEATURE = 3e-9
"""One feature at one point."""


class FrequenciesTooLarge(Exception):  # noqa: N818
    """The sums would take more moments than they are worth; direct ones cost less."""


class Part(Protocol):
    """A set of scaled rows: points in [−½, ½]^D and targets."""

    n_rows: int
    n_inputs: int
    n_outputs: int

    def moments(self, Q: tuple[int, ...]) -> Moments:
        """The moments of the rows, at least Q of them in each direction."""
        ...

    @property
    def arrays(self) -> tuple[Float, Float] | None:
        """The rows themselves, u (N, D) and y (N, p), if they are at hand."""
        ...


class ArrayPart:
    """Rows in memory: u of shape (N, D) in [−½, ½]^D, y of shape (N, p), and what each counts, (N,), if not one.

    Of moments, `spare` times as many are made as are asked for.
    """

    def __init__(self, u: Float, y: Float, weight: Float | None = None, spare: float = SPARE) -> None:
        self.arrays = (u, y)
        self.weight, self.spare = weight, spare
        self.made: Moments | None = None
        self.n_rows, self.n_inputs = u.shape
        self.n_outputs = y.shape[1]

    def moments(self, Q: tuple[int, ...]) -> Moments:
        """The moments of the rows, with some to spare so that they need not be made again soon."""
        if self.made is None or any(q > have for q, have in zip(Q, self.made.values.shape[1:], strict=True)):
            self.made = moments_of(*self.arrays, tuple(ceil(self.spare * q) for q in Q), self.weight)
        return self.made


class GriddedNormalEquations:
    """The normal equations of a set of rows, up to three inputs, from their moments.

    Parameters
    ----------
    part : Part
        The rows; `ArrayPart(u, y)` for arrays.
    accuracy : float
        Error of φ and ψ relative to Σ|y| that is aimed at, between 1e-13 and 1e-3; with all data in a corner of the
        box it can be a few times larger.

    Raises
    ------
    FrequenciesTooLarge
        By all methods, for frequencies whose sums would take more than MOST_MOMENTS.
    """

    def __init__(self, part: Part, accuracy: float = ACCURACY) -> None:
        self.part = part
        self.accuracy = accuracy
        self.n_rows, self.n_inputs, self.n_outputs = part.n_rows, part.n_inputs, part.n_outputs
        weight = getattr(part, "weight", None)
        self.total = self.n_rows if weight is None else float(weight.sum())
        self.box = np.full(part.n_inputs, -1.0)
        self._lock = Lock()
        self._gram_sums: PolynomialSums | TableSums | None = None
        self._error_sums: NodeSums | DirectNormalEquations | None = None

    def gram(self, omega: Float) -> tuple[Complex, Complex]:
        """The lower triangle of SᴴS of shape (K, K), and Sᴴy of shape (K, p)."""
        with one_blas_thread:
            return self._sums_for_gram(omega, len(omega)).gram(omega)

    def real_gram(self, omega: Float) -> tuple[Float, Float]:
        """[C D]ᵀ[C D] of shape (2K, 2K) and [C D]ᵀy of shape (2K, p)."""
        with one_blas_thread:
            return self._sums_for_gram(omega, 2 * len(omega)).real_gram(omega)

    def solve(self, omega: Float, ridge: float) -> Complex:
        """β̂ of shape (K, p) with (SᴴS + λN I) β̂ = Sᴴy."""
        return solve_ridge(lambda: self.gram(omega), ridge * self.total, noise=self.accuracy)

    def mse(self, omega: Float, beta: Complex) -> float:
        """Mean over points and outputs of |y − Re(S β̂)|²."""
        with one_blas_thread:
            with self._lock:
                self._enlarge(omega)
                if self._error_sums is None:
                    self._error_sums = self._cheapest_for_error(len(omega))
                sums = self._error_sums
            if isinstance(sums, DirectNormalEquations):
                return sums.mse(omega, beta)
            return sums.squared_error(omega, beta) / (self.total * self.n_outputs)

    def _sums_for_gram(self, omega: Float, n_features: int) -> PolynomialSums | TableSums:
        """What makes Gram matrices at these frequencies, and was the cheapest for so many features when it was made."""
        with self._lock:
            self._enlarge(omega)
            if self._gram_sums is None:
                self._gram_sums = self._cheapest_for_gram(n_features)
            return self._gram_sums

    def _enlarge(self, omega: Float) -> None:
        """Make the box hold these frequencies, if it does not yet."""
        reach = np.abs(omega).max(axis=0)
        if (reach <= self.box).all():
            return
        for margin in (MARGIN, LEAST_MARGIN):
            box = np.maximum(self.box, np.maximum(margin * reach, LEAST_BOX))
            if self._carries(box):
                self.box, self._gram_sums, self._error_sums = box, None, None
                return
        raise FrequenciesTooLarge

    def _carries(self, box: Float) -> bool:
        most = MOST_MOMENTS[self.n_inputs]
        return bool(box.max() < most) and max(n_terms(side, self.accuracy) for side in box) <= most

    def _cheapest_for_gram(self, K: int) -> PolynomialSums | TableSums:
        a, r = degrees(self.box, self.accuracy)
        polynomials = PRODUCT * r * (K * len(a) + 2 * K**2) + GATHER * K * len(a)
        if polynomials < INTERPOLATION[self.n_inputs] * K**2 / 2:
            try:
                return PolynomialSums(self.part.moments(tuple(2 * a.max(axis=0) + 1)), a, r)
            except np.linalg.LinAlgError:  # rows on so few points that rounding leaves M indefinite
                pass
        Q = self._terms()
        return TableSums(self.part.moments(Q), Q, self.box, self.accuracy)

    def _cheapest_for_error(self, K: int) -> NodeSums | DirectNormalEquations:
        Q = self._terms()
        nodes = PRODUCT * 2 * K * self.n_outputs * prod(Q) + 2 * GATHER * K * prod(Q[:-1])
        if FEATURE * K * self.n_rows < nodes and (arrays := self.part.arrays) is not None:
            return DirectNormalEquations(*arrays, getattr(self.part, "weight", None))
        return NodeSums(self.part.moments(Q), Q)

    def _terms(self) -> tuple[int, ...]:
        return tuple(n_terms(side, self.accuracy) for side in self.box)
