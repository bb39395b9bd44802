"""LearnedSDE: the drift and covariance that were learned, to evaluate, judge, simulate and keep."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, overload

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri as normal_quantile

from itofit import storage
from itofit._checks import (
    RNG,
    ExtrapolationWarning,
    Float,
    InputError,
    ModelFileError,
    columns,
    count,
    flag,
    float_array,
    fraction,
    generator,
    one_of,
    positive,
)
from itofit._progress import Progress
from itofit.arff import History, Settings
from itofit.covariance import (
    Factor,
    Structure,
    entries,
    floor_limits,
    positive_definite,
    square_root,
    symmetric,
    to_matrices,
)
from itofit.fourier import FourierSeries
from itofit.likelihood import gaussian_nll
from itofit.links import Link, Shape, covariance_at, derivatives_of_covariance
from itofit.records import (
    AutomaticSettings,
    Candidate,
    DataSummary,
    candidates_text,
    dependence_text,
    pack,
    training_text,
    unpack,
)
from itofit.search import SearchHistory
from itofit.simulation import Outside, euler_maruyama
from itofit.spread import standard_deviations, with_members
from itofit.transitions import BlockedTransitions, Kind, Transitions, plural

BATCH_ROWS = 65_536
UNLIMITED = np.array([[-np.inf], [np.inf]])


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LearnedSDE:
    """A learned stochastic differential equation dx = f(x) dt + σ(x) dW, Σ = σσᵀ.

    `itofit.fit` makes it. Points are arrays of shape (n, m), or (n,) when there is one input.

    Parameters
    ----------
    drift_series : FourierSeries
        f, with d outputs.
    covariance_series : FourierSeries
        The learned entries of Σ, or of the matrix H that `link` makes Σ of.
    structure : {"diagonal", "full"}
        Which entries those are.
    link : {"identity", "square", "log"}
        How Σ follows from them, before its eigenvalues are kept within limits: as it is, L H² Lᵀ, or L exp(H) Lᵀ.
    kind : {"diffusion", "underdamped", "general"}
        How the inputs follow from the moving state.
    limits : array of shape (2, d)
        Smallest and largest eigenvalue that `covariance` returns, relative to the mean covariance of the data; for a
        diagonal Σ, of each entry.
    floor_factor : array of shape (d, d)
        L, the Cholesky factor of that mean covariance.
    floored_share : float
        Share of the training points at which the limits were needed.
    box : array of shape (2, m)
        Smallest and largest value of each input in the data.
    drift_history, covariance_history : History or SearchHistory
        How the two trainings went.
    drift_settings, covariance_settings : Settings or AutomaticSettings
        What they were made with.
    candidates : tuple of Candidate
        Covariances that were compared; empty if there was nothing to choose.
    searched_on : str
        The transitions that frequencies were searched on, in words.
    drift_spread, covariance_spread : FourierSeries or None
        Functions whose squares add up to the variances of the drift and of the learned entries (`itofit.spread`).
    members : tuple of LearnedSDE
        Other fits to the same data, with frequencies of their own (`itofit.fit(..., ensemble=8)`).
    drift_in_noise_units : bool
        Whether `drift_series` is g in f = Σ^½ g, as the paper's additional drift step learns it.
    seed : int or None
        The seed that makes this result again from the same data; None if a Generator was handed in.
    data : DataSummary
    version : str
        Of itofit, when it was learned.
    """

    drift_series: FourierSeries
    covariance_series: FourierSeries
    structure: Structure
    link: Link
    kind: Kind
    limits: Float
    floor_factor: Float
    floored_share: float
    box: Float
    drift_history: History | SearchHistory
    covariance_history: History | SearchHistory
    drift_settings: Settings | AutomaticSettings
    covariance_settings: Settings | AutomaticSettings
    seed: int | None
    data: DataSummary
    version: str
    candidates: tuple[Candidate, ...] = ()
    searched_on: str = "all of them"
    drift_spread: FourierSeries | None = None
    covariance_spread: FourierSeries | None = None
    members: tuple[LearnedSDE, ...] = ()
    drift_in_noise_units: bool = False

    # The functions

    @property
    def n_inputs(self) -> int:
        """m, the number of variables that drift and covariance depend on."""
        return self.drift_series.n_inputs

    @property
    def n_outputs(self) -> int:
        """d, the number of variables that move."""
        return self.drift_series.n_outputs

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
            given the frequencies and the noise, and in an ensemble what the choice of frequencies adds. It is of the
            mean rate of one observed step.

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
        f = self.drift_series(x)
        if self.drift_in_noise_units:
            f = np.asarray(np.einsum("nij,nj->ni", self.diffusion(x, "symmetric"), f))
        if not return_std:
            return f
        own = standard_deviations(self._spread(self.drift_spread), x, self.n_outputs)
        return f, with_members(own, f, [member.drift(x) for member in self.members])

    @staticmethod
    def _spread(series: FourierSeries | None) -> FourierSeries:
        if series is None:
            raise InputError(
                "this model carries no error bars: they belong to what fit learns by default, with refine=True, since "
                "version 0.1"
            )
        return series

    def drift_jacobian(self, x: npt.ArrayLike) -> Float:
        """Derivatives of the drift: [i, a, b] is ∂f_a/∂x_b at point i, shape (n, d, m)."""
        if self.drift_in_noise_units:
            raise InputError(
                "this drift is a product of two learned functions (fit(..., refine=False, weight_drift=True)) whose "
                "exact derivatives are not available; learn it without the additional step"
            )
        return self.drift_series.jacobian(x)

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
        sigma = self._covariance(x, UNLIMITED * np.ones((2, self.n_outputs)) if raw else self.limits)[0]
        if not return_std:
            return sigma
        return sigma, with_members(self._covariance_std(x), sigma, [other.covariance(x) for other in self.members])

    def _covariance_std(self, x: npt.ArrayLike) -> Float:
        """Standard deviations of the entries of Σ: those of H, carried through the link to first order."""
        d, L = self.n_outputs, self.floor_factor
        shape = Shape(self.structure, d)
        std = standard_deviations(self._spread(self.covariance_spread), x, shape.n_entries)
        H = self.covariance_series(x)
        if self.link == "identity":  # the series holds L H Lᵀ, and the derivative does not depend on it
            H = np.zeros_like(H)
        variance = np.zeros((len(H), d, d))
        for e, change in enumerate(derivatives_of_covariance(H, self.link, shape)):
            variance += (L @ change @ L.T) ** 2 * std[:, e, None, None] ** 2
        return np.sqrt(variance)

    def variance_interval(self, x: npt.ArrayLike, level: float = 0.95) -> tuple[Float, Float]:
        """Intervals for the variances Σ_ii at the points x of shape (n, m): two arrays of shape (n, d), low and high.

        They are Gaussian in log Σ_ii, so that they stay positive.

        Parameters
        ----------
        x : array of shape (n, m)
        level : float
            Probability that the posterior gives them.
        """
        sigma, std = self.covariance(x, return_std=True)
        own, spread = (np.diagonal(a, axis1=1, axis2=2) for a in (sigma, std))
        width = normal_quantile(0.5 + 0.5 * fraction("level", level)) * spread / own
        return own * np.exp(-width), own * np.exp(width)

    def floored(self, x: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Where `covariance` had to keep an eigenvalue within its limits: an array of bool of shape (n,)."""
        points = columns("x", x, n_columns=self.n_inputs)
        changed = np.empty(len(points), dtype=bool)
        for rows in _batches(len(points)):
            changed[rows] = self._covariance(points[rows], self.limits)[1]
        return changed

    def _covariance(self, x: npt.ArrayLike, limits: Float) -> tuple[Float, npt.NDArray[np.bool_]]:
        """Σ with eigenvalues within limits (2, d), and where that changed it."""
        H, L = self.covariance_series(x), self.floor_factor
        if self.link != "identity":
            C, changed = covariance_at(H, self.link, Shape(self.structure, self.n_outputs), limits)
            return symmetric(L @ C @ L.T), changed
        if np.isinf(limits[0, 0]):
            return to_matrices(H, self.structure, self.n_outputs), np.zeros(len(H), dtype=bool)
        return positive_definite(H, self.structure, L, limits)

    @property
    def floor(self) -> float:
        """The smallest eigenvalue that `covariance` returns, relative to the mean covariance of the data."""
        return float(self.limits[0].min())

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

    # How good it is

    @overload
    def nll(self, data: Transitions | BlockedTransitions, pointwise: Literal[False] = False) -> float: ...
    @overload
    def nll(self, data: Transitions | BlockedTransitions, pointwise: Literal[True]) -> Float: ...
    def nll(self, data: Transitions | BlockedTransitions, pointwise: bool = False) -> float | Float:
        """Mean Euler-Maruyama negative log-likelihood of transitions: smaller is better.

        Parameters
        ----------
        data : Transitions
            Preferably held out of training.
        pointwise : bool
            Return the value of each transition, shape (n,), instead of the mean: for paired comparisons.
        """
        if not isinstance(data, Transitions | BlockedTransitions):
            raise InputError(f"nll needs Transitions, got {type(data).__name__}; see itofit.Transitions.from_pairs")
        if (data.n_inputs, data.n_outputs) != (self.n_inputs, self.n_outputs):
            raise InputError(
                f"the model has {plural(self.n_inputs, 'input')} and {plural(self.n_outputs, 'output')}, "
                f"the data {data.n_inputs} and {data.n_outputs}"
            )
        values, total, n = [], 0.0, 0
        for block in data.blocks():
            for rows in _batches(len(block)):
                x = block.inputs[rows]
                nll = gaussian_nll(block.increments[rows], block.h[rows], self.drift(x), self.covariance(x))
                total, n = total + float(nll.sum()), n + len(nll)
                if pointwise:
                    values.append(nll)
        return np.concatenate(values) if pointwise else total / n

    def summary(self) -> str:
        """What was learned, from what and how, as a few lines of text."""
        lines = [
            f"itofit {self.version}: {self.kind}, {self._dimensions()}",
            f"  data        {self.data}",
            f"  drift       {training_text(self.drift_settings, self.drift_history)}",
        ]
        if isinstance(self.drift_settings, AutomaticSettings):
            lines[1] += f"; frequencies searched on {self.searched_on}"
            outputs = [f"f{j}" for j in range(self.n_outputs)]
            lines.append(f"              {dependence_text(self.drift_settings, self.n_inputs, outputs)}")
        lines.append(f"  covariance  {training_text(self.covariance_settings, self.covariance_history)}")
        if isinstance(self.covariance_settings, AutomaticSettings):
            pairs = zip(*entries(self.structure, self.n_outputs), strict=True)
            names = [f"{'Σ' if self.link == 'identity' else 'H'}{j}{i}" for i, j in pairs]
            lines.append(f"              {dependence_text(self.covariance_settings, self.n_inputs, names)}")
        lines.append(f"  structure   {self.structure}, {self.link} link")
        if len(self.candidates) > 1:
            lines.append("              held-out loss of the candidates, above the best:")
            lines += [f"              {line}" for line in candidates_text(self.candidates)]
        ceiling = float(self.limits[1].max())
        bounds = f"at least {self.floor:.2g}" if np.isinf(ceiling) else f"{self.floor:.2g} to {ceiling:.3g}"
        lines += [
            f"  limits      Σ is {bounds} of its mean, which was needed at {self.floored_share:.2%} of the data",
            f"  seed        {'a generator was given' if self.seed is None else self.seed}",
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"LearnedSDE({self._dimensions()}, {self.structure} covariance, "
            f"learned from {self.data.n_transitions} transitions)"
        )

    def _dimensions(self) -> str:
        return f"{plural(self.n_inputs, 'input')}, {plural(self.n_outputs, 'output')}"

    # Simulation

    def simulate(
        self,
        x0: npt.ArrayLike,
        dt: float,
        n_steps: int,
        *,
        outside: Outside = "nearest",
        rng: RNG = None,
        progress: bool | None = None,
    ) -> Float:
        """Sample paths, by Euler-Maruyama steps (symplectic ones for underdamped systems).

        Parameters
        ----------
        x0 : array of shape (n_paths, s)
            Where the paths start, one row for each. The state has s = d variables; for underdamped systems s = 2d,
            positions before velocities. One path may be given as (s,), and many with s = 1 as (n_paths,).
        dt : float
            Time step.
        n_steps : int
            Number of steps.
        outside : {"nearest", "extrapolate", "stop"}
            What moves a path that has left the range of the data: drift and covariance of the nearest point of the
            data's box; those of the series where it is, which mean nothing there but are bounded; or nothing, it
            stays where it left.
        rng : int, Generator or None
        progress : bool, optional
            Show progress; None: on a terminal, after two seconds.

        Returns
        -------
        array of shape (n_paths, n_steps + 1, s)

        Examples
        --------
        >>> import numpy as np, itofit
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1, 1, 2000)
        >>> data = itofit.Transitions.from_pairs(x, x - 0.1 * x + 0.1 * rng.normal(size=2000), h=0.1)
        >>> sde = itofit.fit(data, rng=0)
        >>> sde.simulate([0.0, 0.5], dt=0.1, n_steps=10, rng=0).shape
        (2, 11, 1)
        """
        if self.kind == "general":
            raise InputError(
                "this model was learned from transitions of kind 'general', whose inputs do not follow from the "
                "state that moves; build the data with from_pairs, from_trajectories or from_underdamped, or use "
                "drift and diffusion in your own scheme"
            )
        dt, n_steps = positive("dt", dt), count("n_steps", n_steps)
        one_of("outside", outside, get_args(Outside))
        random, _ = generator(rng)
        with Progress(progress) as bar:
            paths, share_outside = euler_maruyama(
                random,
                self._starts(x0),
                dt,
                n_steps,
                drift=self.drift,
                diffusion=self.diffusion,
                underdamped=self.kind == "underdamped",
                box=self.box,
                outside=outside,
                progress=bar,
            )
        if share_outside and outside != "stop":
            share = f"{share_outside:.2%}" if share_outside >= 1e-4 else "Less than 0.01%"
            used = "those of the nearest point in it" if outside == "nearest" else "values extrapolated from it"
            warnings.warn(
                f"{share} of the steps were outside the range of the data, where nothing is known of drift "
                f"and covariance: {used} were used",
                ExtrapolationWarning,
                stacklevel=2,
            )
        return paths

    def _starts(self, x0: npt.ArrayLike) -> Float:
        """Initial states as an array of shape (n_paths, s)."""
        s = self.n_outputs if self.kind == "diffusion" else 2 * self.n_outputs
        starts = float_array("x0", x0)
        if starts.ndim == 0 or (s > 1 and starts.shape == (s,)):
            starts = starts.reshape(1, -1)
        starts = columns("x0", starts, n_columns=s)
        if not len(starts):
            raise InputError("x0 holds no starting point")
        return starts

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one `.npz` file; what was at `path` stays until all of it is written."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        metadata: dict[str, Any] = {name: getattr(self, name) for name in _PLAIN}
        metadata["candidates"] = [list(candidate) for candidate in self.candidates]
        for name in ("drift_series", "covariance_series"):
            arrays |= {f"{name}.{field}": getattr(getattr(self, name), field) for field in _SERIES}
        for name in _RECORDS:
            found, metadata[name] = pack(getattr(self, name))
            arrays |= {f"{name}.{field}": array for field, array in found.items()}
        storage.write(path, arrays, metadata)


_SERIES = ("omega", "beta", "shift", "scale", "offset")
_RECORDS = ("drift_history", "covariance_history", "drift_settings", "covariance_settings", "data")
_ARRAYS = ("limits", "floor_factor", "box")
_PLAIN = (
    "structure",
    "link",
    "kind",
    "floored_share",
    "seed",
    "version",
    "searched_on",
    "drift_in_noise_units",
)


def load(path: str | os.PathLike[str]) -> LearnedSDE:
    """Read a model that `LearnedSDE.save` wrote. Nothing in the file is executed.

    Raises
    ------
    ModelFileError
        If the file is truncated, corrupt, of another kind, or of a later format.
    """
    arrays, metadata = storage.read(path)
    try:
        if metadata["format"] == 1:
            arrays, metadata = _from_format_1(arrays, metadata)
        parts: dict[str, Any] = {name: metadata[name] for name in _PLAIN} | {name: arrays[name] for name in _ARRAYS}
        parts["candidates"] = tuple(Candidate(*candidate) for candidate in metadata["candidates"])
        for name in ("drift_series", "covariance_series"):
            parts[name] = FourierSeries(**{field: arrays[f"{name}.{field}"] for field in _SERIES})
        for name in _RECORDS:
            own = {key.partition(".")[2]: array for key, array in arrays.items() if key.startswith(f"{name}.")}
            parts[name] = unpack(own, metadata[name])
        sde = LearnedSDE(**parts)
        _check_consistent(sde)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ModelFileError(f"{path} is not a complete itofit model: {error}") from error
    return sde


def _from_format_1(
    arrays: dict[str, npt.NDArray[Any]], metadata: dict[str, Any]
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """What a file of the first format says, in the words of the second."""
    d = len(arrays["floor_factor"])
    metadata = metadata | {"link": "identity", "candidates": [], "searched_on": "", "drift_in_noise_units": False}
    for name in ("drift", "covariance"):
        metadata[f"{name}_history"] = {"kind": "History", "stopped": metadata[f"{name}_stopped"]}
        metadata[f"{name}_settings"] = {"kind": "Settings"} | metadata[f"{name}_settings"]
    metadata["data"] = {"kind": "DataSummary"} | metadata["data"]
    return arrays | {"limits": floor_limits(fraction("floor", metadata["floor"]), d)}, metadata


def _check_consistent(sde: LearnedSDE) -> None:
    """Raise unless the parts of a model fit together, so that a damaged file fails here and not in use."""
    m, d = sde.n_inputs, sde.n_outputs
    one_of("structure", sde.structure, get_args(Structure))
    one_of("link", sde.link, get_args(Link))
    one_of("kind", sde.kind, get_args(Kind))
    flag("drift_in_noise_units", sde.drift_in_noise_units)
    if sde.kind != "general" and m != (d if sde.kind == "diffusion" else 2 * d):
        raise InputError(f"a model of kind {sde.kind!r} with {d} outputs cannot have {m} inputs")
    _check_array("box", sde.box, (2, m))
    _check_array("floor_factor", sde.floor_factor, (d, d))
    _check_array("limits", np.minimum(sde.limits, 1e300), (2, d))
    if not (sde.box[0] < sde.box[1]).all() or not (np.diagonal(sde.floor_factor) > 0).all():
        raise InputError("box or floor_factor is not what a training leaves")
    if not (sde.limits[0] > 0).all() or not (sde.limits[0] <= sde.limits[1]).all():
        raise InputError("limits must be positive, the smaller first")
    n_entries = len(entries(sde.structure, d)[0])
    for name, series, p in (("drift", sde.drift_series, d), ("covariance", sde.covariance_series, n_entries)):
        K = series.n_features
        shapes = {"omega": (K, m), "beta": (K, p), "shift": (m,), "scale": (m,), "offset": (p,)}
        for field, shape in shapes.items():
            _check_array(f"{name}_series.{field}", getattr(series, field), shape, complex_=field == "beta")
        if not (series.scale > 0).all():
            raise InputError(f"{name}_series.scale must be > 0")
    for settings, history in (
        (sde.drift_settings, sde.drift_history),
        (sde.covariance_settings, sde.covariance_history),
    ):
        kinds = (Settings, History), (AutomaticSettings, SearchHistory)
        if not any(isinstance(settings, a) and isinstance(history, b) for a, b in kinds):
            raise InputError("settings and history of a training are not of one kind")
    if not isinstance(sde.data, DataSummary):
        raise InputError("data is not what a training leaves")
    for settings, p in ((sde.drift_settings, d), (sde.covariance_settings, n_entries)):
        if isinstance(settings, AutomaticSettings) and len(settings.ridges) != p:
            raise InputError(f"there are ridges of {len(settings.ridges)} outputs, expected {p}")
    _check_origin(sde)


def _check_origin(sde: LearnedSDE) -> None:
    """The same for what a model says of how it was made."""
    count("seed", 0 if sde.seed is None else sde.seed, least=0)
    for name in ("version", "searched_on"):
        if not isinstance(getattr(sde, name), str):
            raise InputError(f"{name} must be a string, got {getattr(sde, name)!r}")
    if not positive("floored_share", sde.floored_share, zero=True) <= 1:
        raise InputError(f"floored_share must be at most 1, got {sde.floored_share}")
    for candidate in sde.candidates:
        one_of("structure", candidate.structure, get_args(Structure))
        one_of("link", candidate.link, get_args(Link))
        if not np.isfinite(candidate.loss):
            raise InputError(f"loss of a candidate must be finite, got {candidate.loss}")


def _check_array(name: str, array: npt.NDArray[Any], shape: tuple[int, ...], *, complex_: bool = False) -> None:
    wanted = "complex128" if complex_ else "float64"
    if array.shape != shape or array.dtype != wanted or not np.isfinite(array).all():
        raise InputError(f"{name} must be finite {wanted} of shape {shape}, got {array.dtype} of shape {array.shape}")


def _batches(n: int) -> Iterator[slice]:
    """Rows taken together where each has a matrix of its own, to bound the memory of all."""
    for start in range(0, n, BATCH_ROWS):
        yield slice(start, start + BATCH_ROWS)
