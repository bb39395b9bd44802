"""KnownSDE: an equation whose functions are given, to simulate data from and to compare with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, InputError
from itofit.data.names import Kind
from itofit.matrices.symmetric import Factor
from itofit.model.unnamed import UnnamedSDE

Function = Callable[[Float], Float]


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownSDE(UnnamedSDE):
    """dx = f(x) dt + σ(x) dW with functions that are known.

    Parameters
    ----------
    f : callable
        Inputs of shape (n, m) to (n, d).
    sigma : callable
        Inputs of shape (n, m) to (n, d, d).
    n_inputs, n_outputs : int
        m and d; the system is underdamped if it has 2d inputs besides covariates.
    n_covariates : int
        How many of the inputs, the last ones, come from outside and do not move.
    general : bool
        Whether the inputs do not follow from the state that moves; m and d may then be any numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from itofit.model.known import KnownSDE
    >>> double_well = KnownSDE(f=lambda x: x - x**3, sigma=lambda x: np.full((len(x), 1, 1), 0.5))
    >>> double_well.simulate(0.0, dt=0.01, n_steps=100, rng=0).shape
    (1, 101, 1)
    """

    f: Function
    sigma: Function
    n_inputs: int = 1
    n_outputs: int = 1
    general: bool = False
    n_covariates: int = 0

    def __post_init__(self) -> None:
        if not self.general and self.n_inputs - self.n_covariates not in (self.n_outputs, 2 * self.n_outputs):
            raise InputError(
                f"{self.n_outputs} outputs need as many inputs, or twice as many if the system is underdamped, "
                f"got {self.n_inputs}; general=True allows inputs that do not follow from the state that moves"
            )

    @property
    def kind(self) -> Kind:
        """General if it was said to be; underdamped if there are a position and a velocity for each output."""
        if self.general:
            return "general"
        return "diffusion" if self.n_inputs - self.n_covariates == self.n_outputs else "underdamped"

    @property
    def box(self) -> Float:
        """All numbers: the functions are known everywhere."""
        return np.array([[-np.inf] * self.n_inputs, [np.inf] * self.n_inputs])

    def drift(self, x: npt.ArrayLike) -> Float:
        """Drift f at the points x of shape (n, m): an array of shape (n, d)."""
        points = self._points(x)
        return _shaped("f", self.f(points), (len(points), self.n_outputs))

    def covariance(self, x: npt.ArrayLike) -> Float:
        """Covariance Σ = σσᵀ at the points x of shape (n, m): shape (n, d, d)."""
        sigma = self._root(self._points(x))
        return np.asarray(sigma @ sigma.swapaxes(1, 2))

    def diffusion(self, x: npt.ArrayLike, factor: Factor | None = None) -> Float:
        """Diffusion σ at the points x of shape (n, m): matrices of shape (n, d, d).

        Parameters
        ----------
        x : array of shape (n, m)
        factor : {"cholesky", "symmetric"}, optional
            The lower triangular or the symmetric root of Σ. None: σ as it was given.
        """
        return self._root(self._points(x)) if factor is None else super().diffusion(x, factor)

    def _root(self, x: Float) -> Float:
        return _shaped("sigma", self.sigma(x), (len(x), self.n_outputs, self.n_outputs))


def _shaped(name: str, values: Float, shape: tuple[int, ...]) -> Float:
    """What a function returned, unless it has another shape than it should."""
    if np.shape(values) != shape:
        raise InputError(f"{name} must return an array of shape {shape} for {shape[0]} points, got {np.shape(values)}")
    return values
