"""Formula: an equation whose drift and noise are sparse sums of readable terms, with errors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri as normal_quantile

from itofit._checks import RNG, Float, InputError, flag, fraction, shown
from itofit.data.names import Kind, plural
from itofit.data.notebooks import printed_html
from itofit.data.units import NO_UNITS, Units
from itofit.matrices.symmetric import Structure, entries, positive_definite, symmetric
from itofit.model.exports.function_tables import WithTables
from itofit.model.exports.jax_functions import JaxFunctions, jax_of_formula
from itofit.model.exports.numpy_source import source_of_formula
from itofit.model.finite_step import Scheme
from itofit.model.formula import written
from itofit.model.formula.drawn_formulas import SampledFormulas, drawn_formulas
from itofit.model.formula.lines import Line, Prediction
from itofit.model.measurement import HiddenVelocity, MeasurementNoise
from itofit.model.training import DataSummary


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Formula(WithTables):
    """An equation dx = f dt + σ dW in which every function is a sum of a few terms.

    `LearnedSDE.formula` makes it. It is an SDE: it evaluates, simulates and judges as a learned one does.
    ``str(formula)`` is a few lines to read, `latex` and `sympy` are for papers and further work.

    Parameters
    ----------
    drift_lines : tuple of d Line
        The components of f.
    noise_lines : tuple of Line
        The entries of Σ, or of the lower triangular σ if it was asked for: the diagonal, or the lower triangle.
    structure : {"diagonal", "full"}
        Which.
    limits, floor_factor : arrays of shape (2, d) and (d, d)
        As of the learned equation: a sum of terms need not be positive definite, so eigenvalues of Σ are kept within
        limits, relative to the mean covariance L Lᵀ.
    clipped_share : float
        Share of the data at which that changed Σ.
    library : tuple of str
        Names of all terms that were tried for each line.
    false_alarms : float
        Probability that any term is false, if all true ones are in the library and the noise is Gaussian.
    prediction : Prediction
        How it predicts, beside the learned functions.
    data : DataSummary
        What its coefficients come from.
    units : Units
        Of the variables and of time, where they are known.
    measurement_noise : MeasurementNoise or None
        Errors with which the state was observed, estimated with the coefficients.
    hidden_velocity : HiddenVelocity or None
        Velocities where tracks start, of a formula from positions alone.
    """

    drift_lines: tuple[Line, ...]
    noise_lines: tuple[Line, ...]
    structure: Structure
    limits: Float
    floor_factor: Float
    kind: Kind
    box: Float
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    periods: Float = None  # type: ignore[assignment]  # always given
    data: DataSummary
    version: str
    n_covariates: int = 0
    corrected: bool = False
    library: tuple[str, ...] = ()
    false_alarms: float = float("nan")
    clipped_share: float = 0.0
    prediction: Prediction | None = None
    units: Units = NO_UNITS
    measurement_noise: MeasurementNoise | None = None
    hidden_velocity: HiddenVelocity | None = None

    has_error_bars = True
    step_correction = None
    one_step = None
    members = ()
    seed = None
    drift_in_noise_units = False

    @property
    def n_inputs(self) -> int:
        """m, the number of variables that drift and covariance depend on."""
        return len(self.input_names)

    @property
    def n_outputs(self) -> int:
        """d, the number of variables that move."""
        return len(self.output_names)

    @property
    def scheme(self) -> Scheme:
        """The moments of a step that this equation is meant for: "euler" or "corrected"."""
        return "corrected" if self.corrected else "euler"

    @property
    def lines(self) -> dict[str, Line]:
        """All lines by their names: f_x, Σ_x, Σ_xy, ..."""
        return {written.line_name(self, line.slot): line for line in (*self.drift_lines, *self.noise_lines)}

    @property
    def noise_is_constant(self) -> bool:
        """Whether Σ is the same everywhere."""
        return all(term.constant for line in self.noise_lines for term in line.terms)

    @property
    def n_terms(self) -> int:
        """Number of terms in all lines."""
        return sum(len(line.terms) for line in (*self.drift_lines, *self.noise_lines))

    @property
    def n_determined(self) -> float:
        """Number of coefficients."""
        return float(self.n_terms)

    @property
    def is_short(self) -> bool:
        """Whether a short formula was found: one that predicts held-out data as well as the learned functions."""
        return self.prediction is None or self.prediction.verdict != "worse"

    # The functions

    @overload
    def drift(self, x: npt.ArrayLike, return_std: Literal[False] = False) -> Float: ...
    @overload
    def drift(self, x: npt.ArrayLike, return_std: Literal[True]) -> tuple[Float, Float]: ...
    def drift(self, x: npt.ArrayLike, return_std: bool = False) -> Float | tuple[Float, Float]:
        """Drift f at the points x of shape (n, m), and on demand its standard deviation: arrays of shape (n, d)."""
        points = self._points(x)
        f = np.stack([line(points) for line in self.drift_lines], axis=1)
        if not flag("return_std", return_std):
            return f
        return f, np.stack([line.spread(points) for line in self.drift_lines], axis=1)

    def drift_jacobian(self, x: npt.ArrayLike) -> Float:
        """Derivatives of the drift: [i, a, b] is ∂f_a/∂x_b at point i, shape (n, d, m)."""
        points = self._points(x)
        return np.stack([line.gradient(points) for line in self.drift_lines], axis=1)

    @overload
    def covariance(self, x: npt.ArrayLike, raw: bool = False, return_std: Literal[False] = False) -> Float: ...
    @overload
    def covariance(self, x: npt.ArrayLike, raw: bool = False, *, return_std: Literal[True]) -> tuple[Float, Float]: ...
    def covariance(self, x: npt.ArrayLike, raw: bool = False, return_std: bool = False) -> Float | tuple[Float, Float]:
        """Covariance Σ at the points x of shape (n, m): symmetric positive definite matrices of shape (n, d, d).

        Parameters
        ----------
        x : array of shape (n, m)
        raw : bool
            The sums of terms as they are, which need not be positive definite.
        return_std : bool
            Return also the standard deviation of each entry, shape (n, d, d).
        """
        points = self._points(x)
        sigma = self._raw(points) if flag("raw", raw) else self._limited(points)[0]
        return (sigma, self._covariance_std(points)) if flag("return_std", return_std) else sigma

    def sample(self, n: int = 50, rng: RNG = None) -> SampledFormulas:
        """Formulas with the same terms whose coefficients are drawn from their errors, each an SDE.

        With them, answers of `itofit.dynamics` have error bars: how far they would be off if the terms are the right
        ones. Those of the learned functions, which allow for other terms as well, are usually larger.

        Parameters
        ----------
        n : int
        rng : int, Generator or None

        Examples
        --------
        >>> drifts = formula.sample(50, rng=0).drift(x)                          # doctest: +SKIP
        """
        return drawn_formulas(self, n, rng)

    def floored(self, x: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Where `covariance` had to keep an eigenvalue within its limits: an array of bool of shape (n,)."""
        return self._limited(self._points(x))[1]

    def _matrices(self, values: list[Float]) -> Float:
        """Matrices (n, d, d) whose entries on the lines are these values (n,); zero elsewhere."""
        matrices = np.zeros((len(values[0]), self.n_outputs, self.n_outputs))
        for line, value in zip(self.noise_lines, values, strict=True):
            matrices[:, line.slot.row, line.slot.column] = value
        return matrices

    @property
    def _constant_noise(self) -> bool:
        return all(term.is_constant for line in self.noise_lines for term in line.terms)

    def _raw(self, points: Float) -> Float:
        lower = self._matrices([line(points) for line in self.noise_lines])
        if self.noise_lines[0].slot.what == "diffusion":
            return symmetric(lower @ lower.swapaxes(1, 2))
        return np.asarray(lower + np.tril(lower, -1).swapaxes(1, 2))

    def _limited(self, points: Float) -> tuple[Float, npt.NDArray[np.bool_]]:
        rows, columns = entries(self.structure, self.n_outputs)
        own = points[:1] if self._constant_noise else points
        sigma, changed = positive_definite(
            self._raw(own)[:, rows, columns], self.structure, self.floor_factor, self.limits
        )
        if len(own) < len(points):
            return np.repeat(sigma, len(points), axis=0), np.repeat(changed, len(points))
        return sigma, changed

    def _covariance_std(self, points: Float) -> Float:
        """Standard deviations of the entries of Σ: those of their lines, through Σ = σσᵀ to first order."""
        spread = self._matrices([line.spread(points) for line in self.noise_lines])
        if self.noise_lines[0].slot.what == "covariance":
            return np.asarray(spread + np.tril(spread, -1).swapaxes(1, 2))
        lower = self._matrices([line(points) for line in self.noise_lines])
        mixed = np.einsum("nik,njk->nij", spread**2, lower**2)
        total = mixed + mixed.swapaxes(1, 2)
        diagonal = np.arange(self.n_outputs)
        total[:, diagonal, diagonal] *= 2  # d(σ²) = 2 σ dσ
        return np.sqrt(total)

    def variance_interval(self, x: npt.ArrayLike, level: float = 0.95) -> tuple[Float, Float]:
        """Intervals for the variances Σ_ii at the points x of shape (n, m), Gaussian in their logarithm, (n, d)."""
        sigma, std = (np.diagonal(a, axis1=1, axis2=2) for a in self.covariance(x, return_std=True))
        width = np.exp(np.minimum(normal_quantile(0.5 + 0.5 * fraction("level", level)) * std / sigma, 50.0))
        return sigma / width, sigma * width

    # What it says

    def __str__(self) -> str:
        return written.text(self)

    def __repr__(self) -> str:
        return f"Formula({plural(self.n_terms, 'term')} in {plural(len(self.lines), 'line')})"

    def summary(self) -> str:
        """The formula and how it was found, as a few lines of text."""
        return written.text(self)

    def _repr_html_(self) -> str:
        return printed_html(str(self))

    def _repr_latex_(self) -> str:
        return f"$${self.latex()}$$"

    def latex(self) -> str:
        """The formula in LaTeX: lines of an `aligned` environment, to be put into an equation."""
        return written.latex(self)

    def sympy(self) -> written.SymbolicEquation:
        """The formula in SymPy: its symbols, the drift and the covariance as matrices of expressions, and σ.

        Needs ``pip install "itofit[formula]"``.
        """
        return written.symbolic(self)

    def interval(self, level: float = 0.95) -> dict[tuple[str, str], tuple[float, float]]:
        """Intervals of all coefficients, by the names of line and term.

        Parameters
        ----------
        level : float
            Probability with which each holds the true coefficient, if the terms are the right ones.
        """
        z = float(normal_quantile(0.5 + 0.5 * fraction("level", level)))
        return {
            (name, term.name): (float(c - z * s), float(c + z * s))
            for name, line in self.lines.items()
            for term, c, s in zip(line.terms, line.coefficients, line.std, strict=True)
        }

    def plot(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        """Where the formula predicts as well as the learned functions and where not: `itofit.plot.formula`."""
        return import_module("itofit.plot").formula(self, *args, **options)  # pictures are made in a room below

    # Going on elsewhere

    def to_jax(self) -> JaxFunctions:
        """The formula as pure functions for JAX; see `LearnedSDE.to_jax`."""
        return jax_of_formula(self)

    def to_source(self) -> str:
        """The formula as the text of a NumPy module; see `LearnedSDE.to_source`."""
        return source_of_formula(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the formula to one `.npz` file, whole or not at all.

        Of functions of the user the names alone are kept: `itofit.load_formula` needs the functions again.
        """
        from itofit.model.formula.formula_files import write_formula  # noqa: PLC0415  (archives take long to import)

        write_formula(path, self)


def load_formula(path: str | os.PathLike[str], functions: Mapping[str, Any] | None = None) -> Formula:
    """Read a formula that `Formula.save` wrote. Nothing in the file is executed.

    Parameters
    ----------
    path : path
    functions : dict, optional
        Functions that the user had given as terms, by their names: files hold no code.

    Raises
    ------
    ModelFileError
        If the file is truncated, corrupt, of another kind, or of another format.
    """
    from itofit.model.formula.formula_files import read_formula  # noqa: PLC0415  (as above)

    if functions is not None and not isinstance(functions, Mapping):
        raise InputError(f"functions must be a dictionary of functions by their names, got {shown(functions)}")
    return read_formula(path, dict(functions or {}))
