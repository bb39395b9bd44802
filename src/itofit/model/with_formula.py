"""What is made of a learned equation besides its functions: a formula, and the equation for use elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

from itofit._checks import RNG
from itofit.data.notebooks import printed_html
from itofit.data.passes import Data
from itofit.data.units import Units
from itofit.model.exports.function_tables import WithTables
from itofit.model.exports.jax_functions import JaxFunctions, jax_of_learned
from itofit.model.exports.numpy_source import source_of_learned
from itofit.model.sampled import SampledSDEs, sampled

if TYPE_CHECKING:
    from itofit.model.formula.formula_sde import Formula
    from itofit.model.formula.library import Terms


class WithFormula(WithTables):
    """A learned SDE that answers further questions."""

    @property
    def n_determined(self) -> float:
        """Number of amplitudes of both functions that the data determine."""
        this: Any = self
        return float(this.drift_function.training.determined + this.covariance_function.training.determined)

    @property
    def noise_is_constant(self) -> bool:
        """Whether Σ was found to be the same everywhere."""
        this: Any = self
        return bool(this.covariance_function.training.n_features == 0)

    def _carrying(self, units: Units) -> Self:
        """The same with other units, which the models within it have as well."""
        this: Any = super()._carrying(units)
        members = tuple(member._carrying(units) for member in this.members)
        one_step = None if this.one_step is None else this.one_step._carrying(units)
        return replace(this, members=members, one_step=one_step)

    def _repr_html_(self) -> str:
        this: Any = self
        return printed_html(this.summary())

    def sample(self, n: int = 50, rng: RNG = None) -> SampledSDEs:
        """Equations drawn from the posterior of drift and Σ, each an SDE: `itofit.model.sampled.SampledSDEs`.

        Their values spread as the error bars say. Of an ensemble, the members take turns: then the spread has what the
        choice of frequencies adds. Together they are evaluated by one product of matrices.

        Parameters
        ----------
        n : int
        rng : int, Generator or None

        Examples
        --------
        >>> drifts = sde.sample(50, rng=0).drift(x)                              # doctest: +SKIP
        """
        this: Any = self
        return sampled(this, n, rng)

    def formula(
        self,
        data: Data,
        *,
        terms: Terms | None = None,
        degree: int | None = None,
        noise: Literal["covariance", "diffusion"] = "covariance",
        held_out: Data | None = None,
        false_alarms: float = 0.01,
        units: Mapping[str, str] | None = None,
        time_unit: str | None = None,
    ) -> Formula:
        """A short formula for drift and noise: sparse sums of readable terms, with errors.

        Terms are chosen by what they gain in likelihood on weighted normal equations, from one pass over the data and
        a few more that undo the length of the steps. The result says whether it predicts as well as the learned
        functions: if not, no short formula was found. Of a model that was learned through errors of measurement or from
        positions alone, terms are chosen on the innovations of its filter, and errors of measurement estimated anew.

        Parameters
        ----------
        data : Transitions
            Usually those that were learned from.
        terms : list of str, or dict of functions, optional
            Terms to try besides the library: products of powers, sines and cosines of inputs as strings ("x^2 y",
            "x sin(2 y)"), or own functions by their names, of points (n, m) to values (n,), as in
            ``{"tanh(x)": lambda x: np.tanh(x[:, 0])}``.
        degree : int, optional
            Of the monomials of the inputs, covariates included, that the library has; of periodic inputs it has sines
            and cosines instead. 0: a constant alone. Default: 4 with one input, 3 with more, less with very many.
        noise : {"covariance", "diffusion"}
            Whether the entries of Σ or those of the lower triangular σ are sums of terms.
        held_out : Transitions, optional
            To judge the formula on, best held out of learning, too. Default: folds of `data`.
        false_alarms : float
            Probability that the formula has any false term, if all true ones are in the library and the noise is
            Gaussian.
        units, time_unit : dict and str, optional
            Units of variables by name, as in ``{"x": "µm"}``, and of time, for coefficients and labels, where the model
            and the data have none; others than theirs are refused, as nothing is converted.

        Returns
        -------
        Formula
            An SDE as well: evaluate, simulate, check, draw or save it; ``print(formula)`` to read it.

        Examples
        --------
        >>> import numpy as np, itofit
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1.5, 1.5, 20_000)
        >>> step = 0.05 * (x - x**3) + 0.5 * np.sqrt(0.05) * rng.normal(size=x.size)
        >>> data = itofit.Transitions(x, step, h=0.05)
        >>> formula = itofit.fit(data, correct_step=False, rng=0).formula(data)
        >>> [term.name for term in formula.lines["f_x"].terms], [term.name for term in formula.lines["Σ_x"].terms]
        (['x', 'x³'], ['1'])
        """
        from itofit.model.formula.finding import find_formula  # noqa: PLC0415  (it makes equations itself)

        this: Any = self
        return find_formula(
            this,
            data,
            terms=terms,
            degree=degree,
            noise=noise,
            held_out=held_out,
            false_alarms=false_alarms,
            units=units,
            time_unit=time_unit,
        )

    def to_jax(self) -> JaxFunctions:
        """Drift, covariance and diffusion as pure functions for JAX: jit, differentiate and vectorise them.

        They take one point of shape (m,) or many of shape (..., m), and compute in the precision of the points: enable
        64 bits in JAX (``jax_enable_x64``) for that of `drift`. Needs ``pip install "itofit[jax]"``.

        Returns
        -------
        JaxFunctions
            Named tuple of ``drift``, ``covariance`` and ``diffusion``, to (..., d), (..., d, d) and (..., d, d).

        Examples
        --------
        >>> f, covariance, sigma = sde.to_jax()                               # doctest: +SKIP
        >>> jax.jacfwd(f)(jnp.array([0.1, 0.2]))                              # doctest: +SKIP
        """
        this: Any = self
        return jax_of_learned(this)

    def to_source(self) -> str:
        """The equation as the text of a Python module that needs NumPy alone, with all its numbers.

        It has the functions ``drift(x)``, ``covariance(x)`` and ``diffusion(x)`` of points of shape (n, m), which are
        those of this equation up to rounding, limits of Σ included.

        Examples
        --------
        >>> pathlib.Path("equation.py").write_text(sde.to_source())           # doctest: +SKIP
        """
        this: Any = self
        return source_of_learned(this)
