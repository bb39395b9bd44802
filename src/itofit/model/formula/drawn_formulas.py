"""Formulas with other coefficients: as far from those that were found as their errors allow.

The coefficients c of a line have the covariance C (`itofit.model.formula.lines.Line`), so a draw of them is c + L z
with C = L Lᵀ and z standard normal. Lines are drawn independently of each other, as they were solved one by one. The
terms are the same in all draws: what other terms would do is not in the spread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt

from itofit._checks import RNG, Float, count, generator
from itofit.model.formula.library import values_of
from itofit.model.formula.lines import Line
from itofit.model.sampled import DrawnSDEs

if TYPE_CHECKING:
    from itofit.model.formula.formula_sde import Formula


class SampledFormulas(DrawnSDEs):
    """Formulas whose coefficients were drawn; `Formula.sample` makes them.

    A sequence of formulas with the same terms, with drift and covariance of all of them together.
    """

    def __init__(self, formula: Formula, draws: list[Formula]) -> None:
        self.formula = formula
        self._draws = draws
        lines = zip(*(own.drift_lines for own in draws), strict=True)
        self._drift_coefficients = [np.stack([line.coefficients for line in own]) for own in lines]  # each (n, k)

    def __len__(self) -> int:
        return len(self._draws)

    @overload
    def __getitem__(self, i: int) -> Formula: ...
    @overload
    def __getitem__(self, i: slice) -> list[Formula]: ...
    def __getitem__(self, i: int | slice) -> Formula | list[Formula]:
        """One of the formulas, or some of them."""
        return self._draws[i]

    def __iter__(self) -> Iterator[Formula]:
        return iter(self._draws)

    def drift(self, x: npt.ArrayLike) -> Float:
        """Drifts at the points x of shape (n, m): an array of shape (n_samples, n, d)."""
        points = self.formula._points(x)
        values = (values_of(line.terms, points) for line in self.formula.drift_lines)
        return np.stack([c @ phi.T for c, phi in zip(self._drift_coefficients, values, strict=True)], axis=2)

    def covariance(self, x: npt.ArrayLike) -> Float:
        """Covariances at the points x of shape (n, m): an array of shape (n_samples, n, d, d)."""
        return np.stack([own.covariance(x) for own in self])

    def drift_at_own(self, x: npt.ArrayLike) -> Float:
        """The drift of each formula at points of its own, x of shape (n_samples, n, m): shape (n_samples, n, d)."""
        places = np.asarray(x, dtype=float)
        points = places.reshape(-1, places.shape[2])
        values = (values_of(line.terms, points) for line in self.formula.drift_lines)
        lines = [
            np.einsum("ik,ink->in", c, phi.reshape(*places.shape[:2], -1))
            for c, phi in zip(self._drift_coefficients, values, strict=True)
        ]
        return np.stack(lines, axis=2)

    def __repr__(self) -> str:
        return f"SampledFormulas({len(self)} times the terms of {self.formula!r})"


def drawn_formulas(formula: Formula, n: int, rng: RNG) -> SampledFormulas:
    """`n` formulas whose coefficients are drawn from their errors."""
    n, random = count("n", n), generator(rng)[0]
    lines = [
        [_drawn(line, n, random) for line in own] for own in (formula.drift_lines, formula.noise_lines)
    ]  # by line, then by draw
    draws = [
        replace(formula, drift_lines=tuple(own[i] for own in lines[0]), noise_lines=tuple(own[i] for own in lines[1]))
        for i in range(n)
    ]
    return SampledFormulas(formula, draws)


def _drawn(line: Line, n: int, rng: np.random.Generator) -> list[Line]:
    """A line with n other coefficients."""
    size, axes = np.linalg.eigh(line.covariance)
    root = axes * np.sqrt(np.maximum(size, 0.0))
    return [replace(line, coefficients=line.coefficients + root @ z) for z in rng.standard_normal((n, len(size)))]
