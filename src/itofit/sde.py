"""LearnedSDE: the drift and covariance that were learned, to evaluate, judge, simulate and keep."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, overload

import numpy as np
import numpy.typing as npt

from itofit import storage
from itofit._checks import (
    RNG,
    ExtrapolationWarning,
    Float,
    InputError,
    ModelFileError,
    columns,
    count,
    float_array,
    fraction,
    generator,
    one_of,
    positive,
)
from itofit._progress import Progress
from itofit.arff import History, Pairing, Settings, Stop
from itofit.covariance import Factor, Structure, entries, positive_definite, square_root, to_matrices
from itofit.fourier import FourierSeries
from itofit.likelihood import gaussian_nll
from itofit.normal_equations import Form
from itofit.simulation import Outside, euler_maruyama
from itofit.transitions import BlockedTransitions, Kind, Transitions, plural, shown_range

BATCH_ROWS = 65_536


@dataclass(frozen=True, kw_only=True)
class DataSummary:
    """What a model was learned from, in a few numbers."""

    n_transitions: int
    n_groups: int | None
    h_min: float
    h_mean: float
    h_max: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LearnedSDE:
    """A learned stochastic differential equation dx = f(x) dt + σ(x) dW, Σ = σσᵀ.

    `itofit.fit` makes it. Points are arrays of shape (n, m), or (n,) when there is one input.

    Parameters
    ----------
    drift_series : FourierSeries
        f, with d outputs.
    covariance_series : FourierSeries
        The learned entries of Σ, before they are made positive definite.
    structure : {"diagonal", "full"}
        Which entries those are.
    kind : {"diffusion", "underdamped", "general"}
        How the inputs follow from the moving state.
    floor : float
        Smallest eigenvalue that `covariance` returns, relative to the mean covariance of the data.
    floor_factor : array of shape (d, d)
        Cholesky factor of that mean covariance.
    floored_share : float
        Share of the training points at which the floor was needed.
    box : array of shape (2, m)
        Smallest and largest value of each input in the data.
    drift_history, covariance_history : History
        How the two trainings went.
    drift_settings, covariance_settings : Settings
        What they were made with.
    seed : int or None
        The seed that makes this result again from the same data; None if a Generator was handed in.
    data : DataSummary
    version : str
        Of itofit, when it was learned.
    """

    drift_series: FourierSeries
    covariance_series: FourierSeries
    structure: Structure
    kind: Kind
    floor: float
    floor_factor: Float
    floored_share: float
    box: Float
    drift_history: History
    covariance_history: History
    drift_settings: Settings
    covariance_settings: Settings
    seed: int | None
    data: DataSummary
    version: str

    # The functions

    @property
    def n_inputs(self) -> int:
        """m, the number of variables that drift and covariance depend on."""
        return self.drift_series.n_inputs

    @property
    def n_outputs(self) -> int:
        """d, the number of variables that move."""
        return self.drift_series.n_outputs

    def drift(self, x: npt.ArrayLike) -> Float:
        """Drift f at the points x of shape (n, m): an array of shape (n, d).

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
        return self.drift_series(x)

    def drift_jacobian(self, x: npt.ArrayLike) -> Float:
        """Derivatives of the drift: [i, a, b] is ∂f_a/∂x_b at point i, shape (n, d, m)."""
        return self.drift_series.jacobian(x)

    def covariance(self, x: npt.ArrayLike, raw: bool = False) -> Float:
        """Covariance Σ at the points x of shape (n, m): symmetric positive definite matrices of shape (n, d, d).

        Parameters
        ----------
        x : array of shape (n, m)
        raw : bool
            The learned values as they are, which need not be positive definite.
        """
        vectors = self.covariance_series(x)
        if raw:
            return to_matrices(vectors, self.structure, self.n_outputs)
        return positive_definite(vectors, self.structure, self.floor_factor, self.floor)[0]

    def floored(self, x: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Where `covariance` had to raise an eigenvalue to its floor: an array of bool of shape (n,)."""
        points = columns("x", x, n_columns=self.n_inputs)
        below = np.empty(len(points), dtype=bool)
        for rows in _batches(len(points)):
            vectors = self.covariance_series(points[rows])
            below[rows] = positive_definite(vectors, self.structure, self.floor_factor, self.floor)[1]
        return below

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
        data, drift, covariance = self.data, self.drift_history, self.covariance_history
        h = shown_range(data.h_min, data.h_max)
        groups = "" if data.n_groups is None else f" in {plural(data.n_groups, 'group')}"
        return "\n".join(
            [
                f"itofit {self.version}: {self.kind}, {self._dimensions()}",
                f"  data        {data.n_transitions} transitions{groups}, h = {h}",
                f"  drift       {_training(self.drift_settings, drift)}",
                f"  covariance  {_training(self.covariance_settings, covariance)}, {self.structure}",
                f"  floor       {self.floor:g} of the mean covariance, needed at {self.floored_share:.2%} of the data",
                f"  seed        {'a generator was given' if self.seed is None else self.seed}",
            ]
        )

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
        arrays = {"floor_factor": self.floor_factor, "box": self.box}
        for name in ("drift", "covariance"):
            for part, fields in _PARTS.items():
                value = getattr(self, f"{name}_{part}")
                arrays |= {f"{name}_{part}.{field}": getattr(value, field) for field in fields}
        metadata = {name: getattr(self, name) for name in _PLAIN}
        metadata |= {"data": dataclasses.asdict(self.data)}
        for name in ("drift", "covariance"):
            metadata[f"{name}_settings"] = dataclasses.asdict(getattr(self, f"{name}_settings"))
            metadata[f"{name}_stopped"] = getattr(self, f"{name}_history").stopped
        storage.write(path, arrays, metadata)


_PARTS = {
    "series": ("omega", "beta", "shift", "scale", "offset"),
    "history": ("validation_error", "acceptance", "seconds"),
}
_WORDS = {"pairing": get_args(Pairing), "normal_equations": get_args(Form)}
_PLAIN = ("structure", "kind", "floor", "floored_share", "seed", "version")


def load(path: str | os.PathLike[str]) -> LearnedSDE:
    """Read a model that `LearnedSDE.save` wrote. Nothing in the file is executed.

    Raises
    ------
    ModelFileError
        If the file is truncated, corrupt, of another kind, or of a later format.
    """
    arrays, metadata = storage.read(path)
    try:
        parts: dict[str, Any] = {name: metadata[name] for name in _PLAIN}
        for name in ("drift", "covariance"):
            series, history = ({f: arrays[f"{name}_{part}.{f}"] for f in fields} for part, fields in _PARTS.items())
            parts[f"{name}_series"] = FourierSeries(**series)
            parts[f"{name}_history"] = History(**history, stopped=metadata[f"{name}_stopped"])
            parts[f"{name}_settings"] = Settings(**metadata[f"{name}_settings"])
        parts |= {"data": DataSummary(**metadata["data"]), "box": arrays["box"], "floor_factor": arrays["floor_factor"]}
        sde = LearnedSDE(**parts)
        _check_consistent(sde)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ModelFileError(f"{path} is not a complete itofit model: {error}") from error
    return sde


def _check_consistent(sde: LearnedSDE) -> None:
    """Raise unless the parts of a model fit together, so that a damaged file fails here and not in use."""
    m, d = sde.n_inputs, sde.n_outputs
    one_of("structure", sde.structure, get_args(Structure))
    one_of("kind", sde.kind, get_args(Kind))
    if sde.kind != "general" and m != (d if sde.kind == "diffusion" else 2 * d):
        raise InputError(f"a model of kind {sde.kind!r} with {d} outputs cannot have {m} inputs")
    fraction("floor", sde.floor)
    _check_array("box", sde.box, (2, m))
    _check_array("floor_factor", sde.floor_factor, (d, d))
    if not (sde.box[0] < sde.box[1]).all() or not (np.diagonal(sde.floor_factor) > 0).all():
        raise InputError("box or floor_factor is not what a training leaves")
    n_entries = len(entries(sde.structure, d)[0])
    for name, series, p in (("drift", sde.drift_series, d), ("covariance", sde.covariance_series, n_entries)):
        K = series.n_features
        shapes = {"omega": (K, m), "beta": (K, p), "shift": (m,), "scale": (m,), "offset": (p,)}
        for field, shape in shapes.items():
            _check_array(f"{name}_series.{field}", getattr(series, field), shape, complex_=field == "beta")
        if not (series.scale > 0).all():
            raise InputError(f"{name}_series.scale must be > 0")
    _check_records(sde)


def _check_records(sde: LearnedSDE) -> None:
    """The same for what a model says of its origin."""
    count("seed", 0 if sde.seed is None else sde.seed, least=0)
    count("n_transitions", sde.data.n_transitions)
    if not isinstance(sde.version, str):
        raise InputError(f"version must be a string, got {sde.version!r}")
    if not positive("floored_share", sde.floored_share, zero=True) <= 1:
        raise InputError(f"floored_share must be at most 1, got {sde.floored_share}")
    for name, history in (("drift", sde.drift_history), ("covariance", sde.covariance_history)):
        one_of("stopped", history.stopped, get_args(Stop))
        M = len(history.acceptance)
        for field, n in (("validation_error", M + 1), ("acceptance", M), ("seconds", M)):
            _check_array(f"{name}_history.{field}", getattr(history, field), (n,))
    for part in (sde.data, sde.drift_settings, sde.covariance_settings):
        for field, value in dataclasses.asdict(part).items():
            if field in _WORDS:
                one_of(field, value, _WORDS[field])
            elif not isinstance(value, bool | None):
                positive(field, value, zero=True)


def _check_array(name: str, array: npt.NDArray[Any], shape: tuple[int, ...], *, complex_: bool = False) -> None:
    wanted = "complex128" if complex_ else "float64"
    if array.shape != shape or array.dtype != wanted or not np.isfinite(array).all():
        raise InputError(f"{name} must be finite {wanted} of shape {shape}, got {array.dtype} of shape {array.shape}")


def _batches(n: int) -> Iterator[slice]:
    """Rows taken together where each has a matrix of its own, to bound the memory of all."""
    for start in range(0, n, BATCH_ROWS):
        yield slice(start, start + BATCH_ROWS)


def _training(settings: Settings, history: History) -> str:
    return (
        f"{settings.n_features} features, ridge {settings.ridge:g}, {history.n_iterations} iterations "
        f"(best {history.best_iteration}, stopped by {history.stopped}) in {history.seconds.sum():.2f} s, "
        f"{settings.normal_equations} sums"
    )
