"""Errors of measurement and a constant noise, before anything else is known of noisy tracks.

Residuals r of a plain fit have ⟨rrᵀ⟩ = hΣ + 2Λ and ⟨rr₊ᵀ⟩ = −Λ, but for its drift, which takes errors for a pull back.
Where errors are most of what moves, increments themselves are better, but what is left for Σ is a small difference of
two large numbers. There Σ is the one for which observations of a state without drift are most likely.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from itofit._checks import Float
from itofit.data.following import follows
from itofit.data.passes import Data, add_up
from itofit.learning.noisy.noise_test import LagProducts
from itofit.model.hidden.gaussian_step import GaussianStep
from itofit.model.hidden.tracking import filtered
from itofit.model.hidden.windows import InOrder, Overlapping, chunks, cut, window_lengths

LEAST_SHARE, MOST_SHARE = 1e-3, 0.98
"""Of the variance of residuals, that errors of measurement are, at least and at most."""
UNCERTAIN = 0.7
"""Share from which on Σ is looked for by likelihood."""
FACTORS = (-8.0, 2.0)
"""Logarithms of factors of Σ between which it is looked for."""
PRECISION = 0.05
"""Of the logarithm."""
ROWS = 20_000
"""Transitions, about, that it is looked for on."""
SEED = 401
"""Which they are does not depend on the seed of a fit."""


class Start(NamedTuple):
    """Λ and Σ of a state without drift, in units of the covariance L Lᵀ of residuals."""

    L: Float  # (d, d)
    axes: Float  # (d, d): directions, in columns
    share: Float  # (d,): of the variance in each, that is errors
    h: float
    known: Float | None  # (d, d): Λ if it is given

    @classmethod
    def of(cls, lags: LagProducts, known: Float | None) -> Start:
        """From products of increments if errors are most of them, and of residuals otherwise."""
        first = cls._from(lags, lags.increments, known)
        return first if first.share.max() >= UNCERTAIN else cls._from(lags, lags.residuals, known)

    @classmethod
    def _from(cls, lags: LagProducts, products: Float, known: Float | None) -> Start:
        L = np.asarray(np.linalg.cholesky(products[0] / lags.n), dtype=np.float64)
        back = np.linalg.inv(L)
        lagged = back @ (products[1] / max(lags.n_pairs, 1)) @ back.T
        twice = -(lagged + lagged.T) if known is None else 2 * back @ known @ back.T
        values, axes = np.linalg.eigh(twice)
        return cls(L, axes, np.clip(values, LEAST_SHARE, MOST_SHARE), lags.h, known)

    @property
    def noise(self) -> Float:
        """Λ."""
        return self.known if self.known is not None else self._matrix(0.5 * self.share)

    @property
    def sigma(self) -> Float:
        """Σ."""
        return self._matrix((1 - self.share) / self.h)

    def _matrix(self, values: Float) -> Float:
        root = self.L @ (self.axes * np.sqrt(values))
        return np.asarray(root @ root.T)

    @property
    def step(self) -> GaussianStep:
        """The step of the state."""
        sigma, d = self.sigma, len(self.L)

        def constant(x: Float) -> tuple[Float, Float]:
            return np.zeros((len(x), d)), np.broadcast_to(sigma, (len(x), d, d))

        return GaussianStep(constant, np.array([[-np.inf], [np.inf]]), np.diagonal(sigma), scheme="euler")

    def scaled(self, log_factor: float) -> Start:
        """With another Σ and as much noise altogether."""
        left = np.exp(log_factor) * (1 - self.share)
        return self._replace(share=1 - np.minimum(left, 1 - LEAST_SHARE))

    def refined(self, data: Data, n_rows: int) -> Start:
        """With the Σ of largest likelihood, where it is uncertain."""
        if self.share.max() < UNCERTAIN:
            return self
        lengths = window_lengths(np.exp(FACTORS[0] / 2) * self.h * self.sigma, self.noise)
        result = minimize_scalar(
            lambda factor: self.scaled(factor).loss(data, n_rows, lengths),
            bounds=FACTORS,
            method="bounded",
            options={"xatol": PRECISION},
        )
        return self.scaled(float(result.x))

    def loss(self, data: Data, n_rows: int, lengths: tuple[int, int]) -> float:
        """−log p of some of the observations."""
        share, step, noise = min(1.0, ROWS / n_rows), self.step, self.noise

        def of_block(block: Overlapping, number: int) -> float:
            windows = cut(follows(block.rows), *lengths, block.n_before)
            chosen = np.random.default_rng([SEED, number]).random(len(windows.first)) < share
            parts = chunks(block.rows, windows.at(np.flatnonzero(chosen)))
            return float(sum(filtered(step, chunk, noise).losses()[chunk.kept].sum() for chunk in parts))

        return add_up(InOrder(data, lengths[0]), of_block)
