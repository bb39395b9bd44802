"""SDE: what every stochastic differential equation can do, made from its drift and its covariance alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

import numpy as np
import numpy.typing as npt

from itofit._blocks import one_blas_thread
from itofit._checks import (
    RNG,
    Either,
    Float,
    InputError,
    Option,
    columns,
    count,
    flag,
    float_array,
    generator,
    one_of,
    positive,
)
from itofit._progress import Progress
from itofit.data.frames.layout import optional
from itofit.data.large.cluster import Client, on_cluster
from itofit.data.names import Kind, in_order, shown_range
from itofit.data.passes import Data
from itofit.data.periods import endless, wrapped
from itofit.data.trajectories import frame_of
from itofit.data.transitions import Transitions
from itofit.data.units import NO_UNITS, Units
from itofit.matrices.symmetric import Factor, factors, square_root
from itofit.model.calls import explaining
from itofit.model.drivers import Drive, driver_of, refuse_state_alone
from itofit.model.finite_step import Scheme, moments_of_step
from itofit.model.hidden.observed import innovations, total_loss
from itofit.model.hints import SIMULATE, Hints
from itofit.model.likelihood import gaussian_nll, summed
from itofit.model.measurement import HiddenVelocity, MeasurementNoise
from itofit.model.same_system import check_data
from itofit.model.simulation import LONGEST, Outside, Steps, gaussian_paths, not_simulated, warn_of_extrapolation


class SDE(Hints, ABC):
    """A stochastic differential equation dx = f(x) dt + σ(x) dW, Σ = σσᵀ.

    A subclass gives `drift` and `covariance`, the numbers and names of inputs and outputs, how the inputs follow from
    the state that moves (`kind`), and the range in which its functions are known (`box`). Losses, simulations and all
    else are made from these. Points are arrays of shape (n, m), or (n,) when there is one input; of a data frame
    the columns of the inputs' names are taken, in any order and among others.
    """

    if TYPE_CHECKING:  # subclasses have these as fields or as properties

        @property
        def n_inputs(self) -> int:
            """m, the number of variables that drift and covariance depend on."""

        @property
        def n_outputs(self) -> int:
            """d, the number of variables that move."""

        @property
        def kind(self) -> Kind:
            """How the inputs follow from the state that moves: "diffusion", "underdamped" or "general"."""

        @property
        def input_names(self) -> tuple[str, ...]:
            """What the inputs are called."""

        @property
        def output_names(self) -> tuple[str, ...]:
            """What the outputs are called."""

        @property
        def box(self) -> Float:
            """Smallest and largest value of each input between which the functions are known: shape (2, m)."""

    measurement_noise: MeasurementNoise | None = None
    hidden_velocity: HiddenVelocity | None = None

    @property
    def n_covariates(self) -> int:
        """How many of the inputs, the last ones, come from outside and do not move."""
        return 0

    @property
    def periods(self) -> Float:
        """Where one period of each input begins and ends, both zero if it is not periodic: shape (2, m)."""
        return np.zeros((2, self.n_inputs))

    @property
    def units(self) -> Units:
        """Units of the variables and of time, where they are known."""
        return NO_UNITS

    @property
    def state_names(self) -> tuple[str, ...]:
        """What the inputs that are the state are called."""
        return self.input_names[: self.n_inputs - self.n_covariates]

    @property
    def covariate_names(self) -> tuple[str, ...]:
        """What the inputs from outside are called."""
        return self.input_names[self.n_inputs - self.n_covariates :]

    @property
    def _range(self) -> Float:
        """The box, without ends in the directions of periodic inputs."""
        return endless(self.box, self.periods)

    @property
    def scheme(self) -> Scheme:
        """The moments of a step that this equation is meant for: "euler" or "corrected"."""
        return "euler"

    # The functions

    @abstractmethod
    def drift(self, x: npt.ArrayLike) -> Float:
        """Drift f at the points x of shape (n, m): an array of shape (n, d)."""

    @abstractmethod
    def covariance(self, x: npt.ArrayLike) -> Float:
        """Covariance Σ at the points x of shape (n, m): symmetric positive definite matrices of shape (n, d, d)."""

    def diffusion(self, x: npt.ArrayLike, factor: Factor = "cholesky") -> Float:
        """Diffusion σ with σσᵀ = Σ at the points x of shape (n, m): matrices of shape (n, d, d).

        Parameters
        ----------
        x : array of shape (n, m)
        factor : {"cholesky", "symmetric"}
            The lower triangular σ, or the symmetric one. Data determine Σ alone: choose what the system is known to
            have. The symmetric one mixes the variables, so it is as accurate as the largest of them: measure
            variables in comparable units before asking for it.
        """
        one_of("factor", factor, get_args(Factor))
        return square_root(self.covariance(x), factor)

    def _root(self, x: Float) -> Float:
        """The root of Σ that noise is multiplied by in simulations."""
        return factors(self.covariance(x))

    def _points(self, x: npt.ArrayLike) -> Float:
        """Points as an array of shape (n, m); of a data frame the columns of the inputs' names."""
        given = in_order("x", x, self.input_names)
        if self.n_covariates:
            refuse_state_alone(given, self.state_names, self.covariate_names)
        return columns("x", given, n_columns=self.n_inputs)

    # Steps of some length

    def step_moments(self, x: npt.ArrayLike, h: npt.ArrayLike, scheme: Scheme | None = None) -> tuple[Float, Float]:
        """Mean and covariance of a step of length h from the points x of shape (n, m), both divided by h.

        Parameters
        ----------
        x : array of shape (n, m)
        h : float or array of shape (n,)
        scheme : {"euler", "corrected"}, optional
            "euler": f and Σ at x. "corrected": what becomes of them on the way (`itofit.model.finite_step`), to first
            order in h and further. None: the model's own `scheme`.

        Returns
        -------
        mean : array of shape (n, d)
        covariance : array of shape (n, d, d)

        Examples
        --------
        >>> import numpy as np, itofit
        >>> rng = np.random.default_rng(0)
        >>> x0 = rng.normal(size=5000)
        >>> x1 = np.exp(-0.5) * x0 + rng.normal(size=5000)              # of dx = -x dt + σ dW, after 0.5
        >>> sde = itofit.fit(itofit.Transitions.from_pairs(x0, x1, h=0.5), correct_step=True, rng=0)
        >>> mean, covariance = sde.step_moments([1.0], h=0.5)
        >>> f = sde.drift([1.0])                                        # -1; the mean rate is (exp(-0.5) - 1) / 0.5
        >>> f.shape, bool(f < mean)
        ((1, 1), True)
        """
        x = self._points(x)
        steps = float_array("h", h)
        if steps.shape not in ((), (len(x),)):
            text = "{h} must be one number or have shape ({n},), one for each point, got {got}"
            raise InputError(text, h=Option("h"), n=len(x), got=steps.shape)
        steps = np.broadcast_to(steps, len(x))
        if not ((steps > 0) & (steps < LONGEST)).all():
            got = shown_range(steps.min(), steps.max())
            raise InputError("{h} must be > 0 and < 1e100, got {got}", h=Option("h"), got=got)
        return self._moments(x, steps, self._checked_scheme(scheme))

    def _moments(self, x: Float, h: Float, scheme: Scheme, *, within: bool = False) -> tuple[Float, Float]:
        """`step_moments` of arguments that are right.

        With `within`, functions outside the data's range are those of its nearest point. Of models that were learned
        through a filter, which learns so, that holds for what is farther outside than the start of the step.
        """
        low, high = self._range
        filtered = self.measurement_noise is not None or self.hidden_velocity is not None
        if filtered and not within:
            low, high = np.minimum(low, x), np.maximum(high, x)

        def at(points: Float) -> Float:
            if not (within or filtered):
                return points
            n_places = len(points) // len(x) if low.ndim > 1 and len(x) else 1
            return np.clip(points, np.tile(low, (n_places, 1)), np.tile(high, (n_places, 1)))

        if scheme == "euler":
            return self.drift(at(x)), self.covariance(at(x))
        step = moments_of_step(
            x,
            h,
            lambda points: self.drift(at(points)),
            lambda points: self.covariance(at(points)),
            underdamped=self.kind == "underdamped",
            n_held=self.n_covariates,
        )
        return step.mean, step.covariance

    def _checked_scheme(self, scheme: Scheme | None) -> Scheme:
        if scheme is None:
            return self.scheme
        one_of("scheme", scheme, get_args(Scheme))
        if scheme == "corrected" and self.kind == "general":
            raise InputError(
                "{scheme} needs inputs that follow from the state that moves; this model is of kind 'general': use "
                "{other}",
                scheme=Option("scheme", "corrected"),
                other=Either(python="'euler'", command="--scheme euler"),
            )
        return scheme

    # How good it is

    @overload
    def nll(
        self, data: Data, pointwise: Literal[False] = False, scheme: Scheme | None = None, *, client: Client = None
    ) -> float: ...
    @overload
    def nll(
        self, data: Data, pointwise: Literal[True], scheme: Scheme | None = None, *, client: Client = None
    ) -> Float: ...
    def nll(
        self, data: Data, pointwise: bool = False, scheme: Scheme | None = None, *, client: Client = None
    ) -> float | Float:
        """Mean negative log-likelihood of transitions, as Gaussian steps: smaller is better.

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
        client : distributed.Client, optional
            A Dask client, on whose workers the pass over the data runs, as in `itofit.fit`.

        Of a model with `measurement_noise`, and of positions alone, it is the likelihood of the observation at the end
        of each transition given all before it in its track: that of the innovations of a filter.
        """
        scheme = self._checked_scheme(scheme)
        self._check_data("nll", data)
        if self._seen_through_filter(data):
            return self._nll_of_observations(on_cluster(data, client), pointwise, scheme)

        def losses(block: Transitions) -> Float:
            return gaussian_nll(block.increments, block.h, *self._moments(block.inputs, block.h, scheme))

        return summed(losses, on_cluster(data, client), pointwise)

    def _nll_of_observations(self, data: Data, pointwise: bool, scheme: Scheme) -> float | Float:
        """`nll` of a model whose state is seen through noise: that of the innovations."""
        observed: Any = self
        if flag("pointwise", pointwise):
            return innovations(observed, data, observed.data.h_mean, scheme).loss
        return total_loss(observed, data, observed.data.h_mean, scheme)

    def _seen_through_filter(self, data: Data) -> bool:
        """Whether the states of this equation follow from data by a filter alone."""
        return data.kind == "positions" or (self.measurement_noise is not None and self.kind == "diffusion")

    def _check_data(self, what: str, data: object) -> None:
        """Raise unless data are transitions of the variables of this equation."""
        check_data(self, what, data)

    # Simulation

    @overload
    def simulate(
        self,
        x0: npt.ArrayLike,
        dt: float,
        n_steps: int,
        *,
        covariates: Drive | None = None,
        scheme: Scheme | None = None,
        outside: Outside = "nearest",
        observed: bool = False,
        rng: RNG = None,
        progress: bool | None = None,
        as_frame: Literal[False] = False,
    ) -> Float: ...
    @overload
    def simulate(
        self,
        x0: npt.ArrayLike,
        dt: float,
        n_steps: int,
        *,
        covariates: Drive | None = None,
        scheme: Scheme | None = None,
        outside: Outside = "nearest",
        observed: bool = False,
        rng: RNG = None,
        progress: bool | None = None,
        as_frame: Literal[True],
    ) -> Any: ...  # noqa: ANN401
    @explaining(**SIMULATE)
    def simulate(
        self,
        x0: npt.ArrayLike,
        dt: float,
        n_steps: int,
        *,
        covariates: Drive | None = None,
        scheme: Scheme | None = None,
        outside: Outside = "nearest",
        observed: bool = False,
        rng: RNG = None,
        progress: bool | None = None,
        as_frame: bool = False,
    ) -> Any:
        """Sample paths, by Gaussian steps: those of Euler and Maruyama, or with the moments of finite steps.

        Parameters
        ----------
        x0 : array of shape (n_paths, s)
            Where the paths start, one row for each. The state has s = d variables; for underdamped systems s = 2d,
            positions before velocities. One path may be given as (s,), and many with s = 1 as (n_paths,).
        dt : float
            Time step.
        n_steps : int
            Number of steps.
        covariates : array or callable, optional
            What drives the equation from outside, if something does: an array of shape (n_steps, k), or (n_paths,
            n_steps, k) for each path its own, (k,) if it is constant; or a function of time from 0 that returns (k,)
            or (n_paths, k), which is called once for each step. A step is made with the values at its start. One more
            row, after the last step, may be there. Of a data frame the columns of their names are taken.
        scheme : {"euler", "corrected"}, optional
            "euler": steps of mean dt·f and covariance dt·Σ (symplectic ones for underdamped systems). "corrected": of
            the moments that `step_moments` gives for dt, at about ten times the cost; a model that was corrected for
            the length of the data's steps makes steps like theirs with dt = h. None: the model's own `scheme`.
        outside : {"nearest", "extrapolate", "stop"}
            What moves a path that has left the range of the data: drift and covariance of the nearest point of the
            data's box; those of the series where it is, which mean nothing there but are bounded; or nothing, it
            stays where it left.
        observed : bool
            Add errors of measurement to all states, as the data had them (`measurement_noise`; none if that is None).
        rng : int, Generator or None
        progress : bool, optional
            Show progress; None: on a terminal, after two seconds.
        as_frame : bool
            Return a pandas DataFrame with a row for each path and time, which `Transitions.from_dataframe` and
            `itofit.files.read_transitions` take: columns track (from 0), time (from 0), the names of the state, and
            those of covariates. Units, if known, are in its ``attrs["units"]``.

        Returns
        -------
        array of shape (n_paths, n_steps + 1, s), or DataFrame of n_paths · (n_steps + 1) rows
            Periodic variables are within their period; np.unwrap(..., period=...) undoes that.

        Examples
        --------
        >>> import numpy as np, itofit
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1, 1, 2000)
        >>> data = itofit.Transitions.from_pairs(x, x - 0.1 * x + 0.1 * rng.normal(size=2000), h=0.1)
        >>> sde = itofit.fit(data, rng=0)
        >>> sde.simulate([0.0, 0.5], dt=0.1, n_steps=10, rng=0).shape
        (2, 11, 1)
        >>> sde.simulate([0.0, 0.5], dt=0.1, n_steps=10, rng=0, as_frame=True).columns.tolist()
        ['track', 'time', 'x']
        """
        if self.kind == "general":
            raise not_simulated()
        dt, n_steps = positive("dt", dt), count("n_steps", n_steps)
        scheme = self._checked_scheme(scheme)
        one_of("outside", outside, get_args(Outside))
        table = Either(python="as_frame=True", command="writing tables")
        pandas = optional("pandas", table) if flag("as_frame", as_frame) else None
        if as_frame and (taken := [name for name in ("track", "time") if name in self.input_names]):
            text = "{table} needs the column {name!r}, but a variable is called so"
            raise InputError(text, table=Either(python="as_frame=True", command="the table"), name=taken[0])
        random, _ = generator(rng)
        starts = self._starts(x0)
        driver = driver_of(covariates, self.covariate_names, len(starts), n_steps, dt, asked_again=as_frame)
        steps = self._steps(dt, scheme, outside)._replace(covariates=None if driver is None else driver.at)
        with Progress(progress) as bar, one_blas_thread:  # set once, and not for each of many small products
            paths, share_outside = gaussian_paths(random, starts, dt, n_steps, steps, bar)
        warn_of_extrapolation(getattr(self, "data", None), dt, share_outside, outside)
        if flag("observed", observed) and self.measurement_noise is not None:
            root = square_root(self.measurement_noise.covariance[None], "symmetric")[0]
            seen = paths[:, :, : self.n_outputs]  # positions, if there are velocities as well
            seen += random.standard_normal(seen.shape) @ root
            paths = wrapped(paths.reshape(-1, paths.shape[2]), self.periods[:, : paths.shape[2]]).reshape(paths.shape)
        if as_frame and driver is not None:
            paths = np.concatenate([paths, driver.over(n_steps + 1)], axis=2)
        return frame_of(pandas, paths, dt, self.input_names, self.units) if as_frame else paths

    def _steps(self, dt: float, scheme: Scheme, outside: Outside) -> Steps:
        """How paths move in steps of one length."""

        def rates(at: Float) -> tuple[Float, Float]:
            within = outside != "extrapolate"
            if scheme == "euler":
                near = np.clip(at, *self._range) if within else at
                return self.drift(near), self._root(near)
            mean, covariance = self._moments(at, np.full(len(at), dt), scheme, within=within)
            return mean, factors(covariance)

        underdamped = self.kind == "underdamped"
        force = self.drift if scheme == "corrected" and underdamped else None
        periods = self.periods[:, : len(self.state_names)]
        return Steps(rates, self._range, outside, underdamped, force, periods=periods if periods.any() else None)

    def _starts(self, x0: npt.ArrayLike) -> Float:
        """Initial states as an array of shape (n_paths, s)."""
        s = len(self.state_names)
        starts = float_array("x0", in_order("x0", x0, self.state_names))
        if starts.ndim == 0 or (s > 1 and starts.shape == (s,)):
            starts = starts.reshape(1, -1)
        starts = columns("x0", starts, n_columns=s)
        if not len(starts):
            raise InputError("{x0} holds no starting point", x0=Option("x0"))
        return wrapped(starts, self.periods[:, :s])
