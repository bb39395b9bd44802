"""One line of a formula: a function of the equation as a sum of terms, with the errors of its coefficients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.model.formula.library import Term, values_of

What = Literal["drift", "covariance", "diffusion"]
SYMBOLS: dict[What, str] = {"drift": "f", "covariance": "Σ", "diffusion": "σ"}
SIGNIFICANT = 3.0
"""Errors by which the loss of a formula must exceed that of the learned functions to be called worse."""
DOUBTFUL = 2.0
"""The same to be perhaps worse."""


class Slot(NamedTuple):
    """Which function of the equation a line is: component `row` of the drift, or an entry of Σ or σ."""

    what: What
    row: int
    column: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """A component of the drift, or an entry of Σ or of σ, as a sum of terms.

    Parameters
    ----------
    slot : Slot
        Which of them.
    terms : tuple of k Term
        None of them if the data show nothing but zero.
    coefficients : array of shape (k,)
    covariance : array of shape (k, k)
        Of the coefficients; the roots of its diagonal are their standard errors, `std`.
    difference, error : float
        Loss of the line above that of the learned function in nats per transition, and its standard error.
    """

    slot: Slot
    terms: tuple[Term, ...] = ()
    coefficients: Float = field(default_factory=lambda: np.empty(0))
    covariance: Float = field(default_factory=lambda: np.empty((0, 0)))
    difference: float = float("nan")
    error: float = float("nan")

    @property
    def std(self) -> Float:
        """Standard errors of the coefficients: shape (k,)."""
        return np.sqrt(np.diagonal(self.covariance))

    @property
    def is_worse(self) -> bool:
        """Whether the learned function predicts held-out data significantly better."""
        return bool(self.difference > SIGNIFICANT * self.error)

    def __call__(self, x: Float) -> Float:
        """Values at points x (n, m): shape (n,)."""
        return values_of(self.terms, x) @ self.coefficients

    def spread(self, x: Float) -> Float:
        """Standard deviations of the values at points x (n, m): shape (n,)."""
        phi = values_of(self.terms, x)
        return np.sqrt(np.einsum("nk,kl,nl->n", phi, self.covariance, phi))

    def gradient(self, x: Float) -> Float:
        """Derivatives by the inputs at points x (n, m): shape (n, m); of functions of the user, by differences."""
        out = np.zeros(x.shape)
        for term, coefficient in zip(self.terms, self.coefficients, strict=True):
            out += coefficient * _gradient(term, x)
        return out


def _gradient(term: Term, x: Float) -> Float:
    """Derivatives of a term at points x (n, m): shape (n, m)."""
    out = np.zeros(x.shape)
    if term.function is not None:
        for place, step in enumerate(1e-5 * np.maximum(1e-3, np.abs(x).max(axis=0, initial=0.0))):
            moved = np.zeros(x.shape[1])
            moved[place] = step
            out[:, place] = np.diff(values_of([term], np.concatenate([x - moved, x + moved])).reshape(2, -1), axis=0)[0]
            out[:, place] /= 2 * step
        return out
    factors = [(place, t**k, k * t ** (k - 1)) for place, k in enumerate(term.powers) if k for t in (x[:, place],)]
    for shape, place, w in term.waves:
        sin, cos = np.sin(w * x[:, place]), np.cos(w * x[:, place])
        factors.append((place, sin, w * cos) if shape == "sin" else (place, cos, -w * sin))
    for i, (place, _, slope) in enumerate(factors):
        others = [value for j, (_, value, _) in enumerate(factors) if j != i]
        out[:, place] += slope * np.prod(others, axis=0)
    return out


class Where(NamedTuple):
    """Loss of a formula above that of the learned functions, in bins along each of m inputs."""

    edges: Float  # (m, bins + 1)
    share: Float  # (m, bins): of the transitions
    difference: Float  # (m, bins): nats per transition
    error: Float  # (m, bins)


class Prediction(NamedTuple):
    """Whether a formula predicts data as well as the learned functions."""

    difference: float  # of the losses, formula − learned, in nats per transition
    error: float  # standard error of that
    n: int  # transitions that were compared
    how: str  # on which data, in words
    where: Where

    @property
    def verdict(self) -> Literal["better", "as well", "perhaps worse", "worse"]:
        """Of the formula against the learned functions."""
        if self.difference > DOUBTFUL * self.error:
            return "worse" if self.difference > SIGNIFICANT * self.error else "perhaps worse"
        return "better" if self.difference < -SIGNIFICANT * self.error else "as well"
