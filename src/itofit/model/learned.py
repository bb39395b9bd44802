"""LearnedSDE: the drift and covariance that were learned, to evaluate, judge, simulate and keep."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import Literal, Unpack, overload

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri as normal_quantile

from itofit._checks import Float, InputError, Option, count, flag, fraction
from itofit.data.large.cluster import Client, on_cluster
from itofit.data.names import Kind, names_of
from itofit.data.passes import Data
from itofit.data.units import NO_UNITS, Units
from itofit.matrices.links import LARGEST_EXPONENT, LINKS, Link, LinkName, Shape
from itofit.matrices.symmetric import Structure
from itofit.model.finite_step import Scheme, moments_of_step
from itofit.model.hidden.observed import States, smoothed_states
from itofit.model.likelihood import BATCH_ROWS, LossOptions, predictive_losses, summed
from itofit.model.measurement import HiddenVelocity, MeasurementNoise
from itofit.model.summary import dimensions, summary_of
from itofit.model.training import Candidate, DataSummary, LearnedFunction, StepCorrection, variances, with_members
from itofit.model.with_formula import WithFormula

UNLIMITED = np.array([[-np.inf], [np.inf]])
BEYOND_LIMITS = 10.0
"""Factor beyond the limits of Σ at which intervals of variances end."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LearnedSDE(WithFormula):
    """A learned stochastic differential equation dx = f(x) dt + σ(x) dW, Σ = σσᵀ.

    `itofit.fit` makes it. Points are arrays of shape (n, m), or (n,) when there is one input; of a data frame
    the columns of the inputs' names are taken, in any order and among others.

    Parameters
    ----------
    drift_function : LearnedFunction
        f, with d outputs: its series, how uncertain it is, and how its training went.
    covariance_function : LearnedFunction
        The same for the learned entries of Σ, or of the matrix H that `link` makes Σ of.
    structure : {"diagonal", "full"}
        Which entries those are.
    link : {"identity", "square", "log"}
        How Σ follows from them, before its eigenvalues are kept within limits: as it is, L H² Lᵀ, or L exp(H) Lᵀ.
    kind : {"diffusion", "underdamped", "general"}
        How the inputs follow from the moving state.
    limits : array of shape (2, d)
        Smallest and largest eigenvalue that `covariance` returns, relative to the mean covariance of the data; for a
        diagonal Σ, of each entry. For a full one the last of the smallest is that of the largest eigenvalue: where it
        would be less, all are raised with it.
    floor_factor : array of shape (d, d)
        L, the Cholesky factor of that mean covariance.
    floored_share : float
        Share of the training points at which the limits were needed.
    box : array of shape (2, m)
        Smallest and largest value of each input in the data.
    seed : int or None
        The seed that makes this result again from the same data; None if a Generator was handed in.
    data : DataSummary
        What it was learned from.
    version : str
        Of itofit, when it was learned.
    candidates : tuple of Candidate
        Covariances that were compared; empty if there was nothing to choose.
    searched_on : str
        The transitions that frequencies were searched on, in words.
    members : tuple of LearnedSDE
        Other fits to the same data, with frequencies of their own (`itofit.fit(..., ensemble=8)`).
    bootstrapped : bool
        Whether members were learned from tracks drawn with replacement (`itofit.fit(..., bootstrap=50)`).
    step_correction : StepCorrection or None
        Whether and how far what one observed step shows was corrected for its length; None if it was not asked for.
    one_step : LearnedSDE or None
        What was learned before that: the mean rate and covariance of one observed step.
    drift_in_noise_units : bool
        Whether `drift_function` is g in f = Σ^½ g, as the paper's additional drift step learns it.
    measurement_noise : MeasurementNoise or None
        Errors with which the state was observed; drift and covariance are without them. None if there are none.
    hidden_velocity : HiddenVelocity or None
        Of a second-order system that was learned from positions alone: velocities where a track starts.
    input_names, output_names : tuples of str
        What the m inputs and d outputs are called; by default x, or x1, x2, ..., as in `Transitions`.
    n_covariates : int
        How many of the inputs, the last ones, come from outside and do not move.
    periods : array of shape (2, m)
        Where one period of each input begins and ends; both zero if it is not periodic.
    units : Units
        Of the variables and of time, where the data said them; see `with_units`.
    """

    drift_function: LearnedFunction
    covariance_function: LearnedFunction
    structure: Structure
    link: LinkName
    kind: Kind
    limits: Float
    floor_factor: Float
    floored_share: float
    box: Float
    seed: int | None
    data: DataSummary
    version: str
    candidates: tuple[Candidate, ...] = ()
    searched_on: str = "all of them"
    members: tuple[LearnedSDE, ...] = ()
    bootstrapped: bool = False
    step_correction: StepCorrection | None = None
    one_step: LearnedSDE | None = None
    drift_in_noise_units: bool = False
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    n_covariates: int = 0
    periods: Float = None  # type: ignore[assignment]  # then zeros
    measurement_noise: MeasurementNoise | None = None
    hidden_velocity: HiddenVelocity | None = None
    units: Units = NO_UNITS

    def __post_init__(self) -> None:
        if count("n_covariates", self.n_covariates, least=0) >= self.n_inputs:
            raise InputError(f"n_covariates must be less than the number of inputs, {self.n_inputs}")
        form = self.n_inputs, self.n_outputs, self.kind
        inputs, outputs = names_of(*form, self.input_names or None, self.output_names or None, self.n_covariates)
        object.__setattr__(self, "input_names", inputs)
        object.__setattr__(self, "output_names", outputs)
        if self.periods is None:
            object.__setattr__(self, "periods", np.zeros((2, self.n_inputs)))

    # The functions

    @property
    def n_inputs(self) -> int:
        """m, the number of variables that drift and covariance depend on."""
        return self.drift_function.series.n_inputs

    @property
    def n_outputs(self) -> int:
        """d, the number of variables that move."""
        return self.drift_function.series.n_outputs

    @property
    def has_error_bars(self) -> bool:
        """Whether `drift`, `covariance` and `variance_interval` can say how sure they are."""
        return self.drift_function.spread is not None and self.covariance_function.spread is not None

    @property
    def _link(self) -> Link:
        return LINKS[self.link]

    @property
    def _shape(self) -> Shape:
        return Shape(self.structure, self.n_outputs)

    @overload
    def drift(self, x: npt.ArrayLike, return_std: Literal[False] = False) -> Float: ...
    @overload
    def drift(self, x: npt.ArrayLike, return_std: Literal[True]) -> tuple[Float, Float]: ...
    def drift(self, x: npt.ArrayLike, return_std: bool = False) -> Float | tuple[Float, Float]:
        """Drift f at the points x of shape (n, m): an array of shape (n, d).

        Parameters
        ----------
        x : array of shape (n, m)
        return_std : bool
            Return also the standard deviation of each value, shape (n, d): that of the posterior of the amplitudes,
            given the frequencies and the noise, and in an ensemble what the choice of frequencies adds. If `scheme` is
            "euler" it is of the mean rate of one observed step.

        Examples
        --------
        >>> import numpy as np, itofit
        >>> path = np.cumsum(np.random.default_rng(0).normal(size=(300, 2)), axis=0)
        >>> data = itofit.Transitions.from_trajectories(path, dt=1.0)
        >>> sde = itofit.fit(data, rng=0)
        >>> x = data.inputs[:5]
        >>> sde.drift(x).shape, sde.covariance(x).shape
        ((5, 2), (5, 2, 2))
        """
        x = self._points(x)
        f = self.drift_function.series(x)
        if self.drift_in_noise_units:
            f = np.asarray(np.einsum("nij,nj->ni", self.diffusion(x, "symmetric"), f))
        if not flag("return_std", return_std):
            return f
        return f, with_members(
            self.drift_function.std(x), f, [member.drift(x) for member in self.members], self.bootstrapped
        )

    def drift_jacobian(self, x: npt.ArrayLike) -> Float:
        """Derivatives of the drift: [i, a, b] is ∂f_a/∂x_b at point i, shape (n, d, m)."""
        if self.drift_in_noise_units:
            raise InputError(
                "this drift is a product of two learned functions (fit(..., refine=False, weight_drift=True)) whose "
                "exact derivatives are not available; learn it without the additional step"
            )
        return self.drift_function.series.jacobian(self._points(x))

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
            The learned values without limits, which with the identity link need not be positive definite.
        return_std : bool
            Return also the standard deviation of each entry, shape (n, d, d), as for `drift`. Intervals of the
            diagonal that stay positive: `variance_interval`.
        """
        x = self._points(x)
        sigma = self._covariance(x, UNLIMITED * np.ones((2, self.n_outputs)) if flag("raw", raw) else self.limits)[0]
        if not flag("return_std", return_std):
            return sigma
        return sigma, with_members(
            self._covariance_std(x), sigma, [other.covariance(x) for other in self.members], self.bootstrapped
        )

    def _covariance_std(self, x: npt.ArrayLike) -> Float:
        """Of the entries of Σ: those of H, through the link to first order, and no larger than Σ itself may be."""
        std, kept, most = self.covariance_function.std(x), self.covariance_function.series(x), self.limits[1]
        unit = np.sqrt(most.max() * np.sum(self.floor_factor**2, axis=1))
        variance = np.zeros((len(kept), len(unit), len(unit)))
        for e, change in enumerate(self._link.derivatives(kept, self.floor_factor, self._shape, most)):
            variance += change**2 * std[:, e, None, None] ** 2
        return np.minimum(np.sqrt(variance), np.outer(unit, unit))

    def variance_interval(self, x: npt.ArrayLike, level: float = 0.95) -> tuple[Float, Float]:
        """Intervals for the variances Σ_ii at the points x of shape (n, m): two arrays of shape (n, d), low and high.

        They are Gaussian in log Σ_ii, so that they stay positive, and end a factor of ten beyond the limits of Σ
        (`limits`): where no data are, an amplitude that could be anything says nothing more.

        Parameters
        ----------
        x : array of shape (n, m)
        level : float
            Probability that the posterior gives them.
        """
        sigma, std = self.covariance(x, return_std=True)
        own, spread = (np.diagonal(a, axis1=1, axis2=2) for a in (sigma, std))
        width = normal_quantile(0.5 + 0.5 * fraction("level", level)) * spread / own
        mean = np.sum(self.floor_factor**2, axis=1)
        lower = self.limits[0] if self._shape.separate else self.limits[0, 0]
        least, most = lower * mean / BEYOND_LIMITS, self.limits[1] * mean * BEYOND_LIMITS
        grown = np.exp(np.minimum(width, LARGEST_EXPONENT))
        return np.minimum(own, np.maximum(own / grown, least)), np.maximum(own, np.minimum(own * grown, most))

    def floored(self, x: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Where `covariance` had to keep an eigenvalue within its limits: an array of bool of shape (n,)."""
        points = self._points(x)
        changed = np.empty(len(points), dtype=bool)
        for start in range(0, len(points), BATCH_ROWS):
            rows = slice(start, start + BATCH_ROWS)
            changed[rows] = self._covariance(points[rows], self.limits)[1]
        return changed

    def _covariance(self, x: npt.ArrayLike, limits: Float) -> tuple[Float, npt.NDArray[np.bool_]]:
        """Σ with eigenvalues within limits (2, d), and where that changed it."""
        return self._link.covariance(self.covariance_function.series(x), self.floor_factor, self._shape, limits)

    @property
    def floor(self) -> float:
        """The smallest eigenvalue that `covariance` returns, relative to the mean covariance of the data."""
        return float(self.limits[0].min())

    # Steps of some length

    @property
    def scheme(self) -> Scheme:
        """The one that this model is meant for: "corrected" if it was corrected for the length of steps."""
        if self.hidden_velocity is not None:
            return "corrected"
        if self.measurement_noise is not None:
            return "corrected" if self.measurement_noise.corrected else "euler"
        return "euler" if self.step_correction is None or self.step_correction.withheld else "corrected"

    def step_trust(self, x: npt.ArrayLike) -> Float:
        """How much of the correction for the length of steps was made at the points x: shape (n, d), 0 to 1.

        One where the data determine it, less where it would be noise: where data are few, or drift and noise change
        within less than a step. It is for the mean step of the data, ``sde.step_correction.h``. What was made of it is
        ``sde.drift(x) - sde.one_step.drift(x)``.
        """
        correction = self.step_correction
        if self.measurement_noise is not None or self.hidden_velocity is not None:
            raise InputError("this model was learned through a filter, whose steps have the moments of finite ones")
        if correction is None:
            raise InputError(
                "this model was not corrected for the length of steps: fit it with {option}",
                option=Option("correct_step", True),
            )
        points = self._points(x)
        trust = np.empty((len(points), self.n_outputs))
        for start in range(0, len(points), BATCH_ROWS):
            at = points[start : start + BATCH_ROWS]
            h = np.full(len(at), correction.h)
            underdamped, n_held = self.kind == "underdamped", self.n_covariates
            step = moments_of_step(at, h, self.drift, self.covariance, underdamped=underdamped, n_held=n_held)
            change = step.average(correction.spread) - correction.spread(at)
            squares = (step.average(self.drift) - self.drift(at)) ** 2
            trust[start : start + len(at)] = correction.trust(variances(change, self.n_outputs), squares)
        return trust

    # How good it is

    @overload
    def nll(
        self,
        data: Data,
        pointwise: Literal[False] = False,
        scheme: Scheme | None = None,
        **options: Unpack[LossOptions],
    ) -> float: ...
    @overload
    def nll(
        self, data: Data, pointwise: Literal[True], scheme: Scheme | None = None, **options: Unpack[LossOptions]
    ) -> Float: ...
    def nll(
        self,
        data: Data,
        pointwise: bool = False,
        scheme: Scheme | None = None,
        *,
        predictive: bool = False,
        client: Client = None,
    ) -> float | Float:
        """Mean negative log-likelihood of transitions: smaller is better.

        Parameters
        ----------
        data : Transitions
            Preferably held out of training.
        pointwise : bool
            Return the value of each transition, shape (n,), instead of the mean: for paired comparisons.
        scheme : {"euler", "corrected"}, optional
            The moments of a step: those of Euler and Maruyama, h f and h Σ, which is the loss of the paper; or those
            of `step_moments`, with which models of data with different h can be compared. None: the model's own
            `scheme`.
        predictive : bool
            Count what the model does not know: the error of the drift adds to the noise of a step, and where Σ is
            uncertain steps have the heavy tails of Student's distribution (docs/error-bars.md). False: Gaussian steps
            of `drift` and `covariance` as they are, which loses much where few data leave them uncertain.
        client : distributed.Client, optional
            A Dask client whose workers make the pass over the data, as in `itofit.fit`.

        Of a model with `measurement_noise` it is the likelihood of the observation at the end of each transition given
        all before it in its track: that of the innovations of a filter.

        Examples
        --------
        >>> import numpy as np, itofit
        >>> path = np.cumsum(np.random.default_rng(0).normal(size=400))
        >>> data = itofit.Transitions.from_trajectories(path, dt=1.0)
        >>> sde = itofit.fit(data[:200], rng=0)
        >>> sde.nll(data[200:], pointwise=True, predictive=True).shape
        (199,)
        """
        if not flag("predictive", predictive):
            return super().nll(data, pointwise, scheme, client=client)  # type: ignore[call-overload]
        scheme = self._checked_scheme(scheme)
        self._check_data("nll", data)
        if self.measurement_noise is not None or self._seen_through_filter(data):
            why = (
                "these data are positions alone" if data.kind == "positions" else "this model has errors of measurement"
            )
            text = "{option} is for states that were observed as they are; {why}: leave it out"
            raise InputError(text, option=Option("predictive", True), why=why)
        return summed(partial(predictive_losses, sde=self, scheme=scheme), on_cluster(data, client), pointwise)

    # States behind observations

    def states(self, data: Data) -> States:
        """The states behind noisy observations or positions alone, given all observations of their tracks.

        Parameters
        ----------
        data : Transitions
            Of tracks, as the model was learned from. Each transition starts and ends at an observation.

        Returns
        -------
        States
            Means and standard deviations, of shape (n, s) each: ``x`` and ``std`` where the n transitions start,
            ``end`` and ``end_std`` where they end. The state has s = d variables; for a model that was learned from
            positions s = 2d, positions before velocities.

        Examples
        --------
        >>> import numpy as np, itofit
        >>> rng = np.random.default_rng(0)
        >>> x = np.zeros(5000)
        >>> for i in range(4999):
        ...     x[i + 1] = 0.99 * x[i] + 0.1 * rng.normal()
        >>> y = x + 0.2 * rng.normal(size=5000)                              # errors of measurement
        >>> data = itofit.Transitions.from_trajectories(y[:, None], dt=0.01)
        >>> sde = itofit.fit(data, rng=0)
        >>> states = sde.states(data)
        >>> bool(np.std(states.x[:, 0] - x[:-1]) < 0.6 * np.std(y - x))
        True
        """
        if self.measurement_noise is None and self.hidden_velocity is None:
            raise InputError(
                "this model was learned without errors of measurement: its states are the observations themselves"
            )
        self._check_data("states", data)
        if not self._seen_through_filter(data):
            raise InputError(
                "states needs positions alone, as the model was learned from: make them with Transitions.from_positions"
            )
        return smoothed_states(self, data, self.data.h_mean, self.scheme)

    # What it says of itself

    def summary(self) -> str:
        """What was learned, from what and how, as a few lines of text."""
        return summary_of(self)

    def __repr__(self) -> str:
        return (
            f"LearnedSDE({dimensions(self)}, {self.structure} covariance, "
            f"learned from {self.data.n_transitions} transitions)"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one `.npz` file; what was at `path` stays until all of it is written."""
        from itofit.model.file_format import write_model  # noqa: PLC0415  (archives take long to import)

        write_model(path, self)


def load(path: str | os.PathLike[str]) -> LearnedSDE:
    """Read a model that `LearnedSDE.save` wrote. Nothing in the file is executed.

    Raises
    ------
    ModelFileError
        If the file is truncated, corrupt, of another kind, or of another format.
    """
    from itofit.model.file_format import read_model  # noqa: PLC0415  (as above)

    return read_model(path, LearnedSDE)
