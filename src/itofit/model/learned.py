"""LearnedSDE: the drift and covariance that were learned, to evaluate, judge, simulate and keep."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, overload

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri as normal_quantile

from itofit._checks import (
    Float,
    InputError,
    ModelFileError,
    count,
    flag,
    fraction,
    one_of,
    positive,
)
from itofit.data.names import Kind, are_named, names_of, plural
from itofit.learning.automatic.search import SearchHistory
from itofit.learning.paper.arff import History, Settings
from itofit.learning.spread import standard_deviations, with_members
from itofit.matrices.links import Link, Shape, covariance_at, derivatives_of_covariance
from itofit.matrices.symmetric import (
    Structure,
    entries,
    positive_definite,
    symmetric,
    to_matrices,
)
from itofit.model import storage
from itofit.model.finite_step import Scheme, moments_of_step
from itofit.model.sde import BATCH_ROWS, SDE
from itofit.model.training import (
    AutomaticSettings,
    Candidate,
    DataSummary,
    StepCorrection,
    candidates_text,
    dependence_text,
    pack,
    training_text,
    unpack,
)
from itofit.waves.series import FourierSeries

UNLIMITED = np.array([[-np.inf], [np.inf]])


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LearnedSDE(SDE):
    """A learned stochastic differential equation dx = f(x) dt + σ(x) dW, Σ = σσᵀ.

    `itofit.fit` makes it. Points are arrays of shape (n, m), or (n,) when there is one input; of a data frame with
    columns of the inputs' names those columns are taken, in any order and among others.

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
        Functions whose squares add up to the variances of the drift and of the learned entries
        (`itofit.learning.spread`).
    step_spread : FourierSeries or None
        The same for the noise in the drift of one step, by which trust in its correction is measured.
    members : tuple of LearnedSDE
        Other fits to the same data, with frequencies of their own (`itofit.fit(..., ensemble=8)`).
    step_correction : StepCorrection or None
        How far what one observed step shows was corrected for its length (`itofit.fit(..., correct_step=True)`).
    one_step : LearnedSDE or None
        What was learned before that: the mean rate and covariance of one observed step.
    drift_in_noise_units : bool
        Whether `drift_series` is g in f = Σ^½ g, as the paper's additional drift step learns it.
    seed : int or None
        The seed that makes this result again from the same data; None if a Generator was handed in.
    data : DataSummary
    version : str
        Of itofit, when it was learned.
    input_names, output_names : tuples of str
        What the m inputs and d outputs are called; by default x, or x1, x2, ..., as in `Transitions`.
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
    step_spread: FourierSeries | None = None
    members: tuple[LearnedSDE, ...] = ()
    step_correction: StepCorrection | None = None
    one_step: LearnedSDE | None = None
    drift_in_noise_units: bool = False
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        form = self.n_inputs, self.n_outputs, self.kind
        names = names_of(*form, self.input_names or None, self.output_names or None)
        for field, value in zip(_NAMES, names, strict=True):
            object.__setattr__(self, field, value)

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
            given the frequencies and the noise, and in an ensemble what the choice of frequencies adds. Without
            ``correct_step=True`` it is of the mean rate of one observed step.

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
        return self.drift_series.jacobian(self._points(x))

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
        points = self._points(x)
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

    # Steps of some length

    @property
    def scheme(self) -> Scheme:
        """The one that this model is meant for: "corrected" if it was corrected for the length of steps."""
        return "euler" if self.step_correction is None or self.step_correction.withheld else "corrected"

    def step_trust(self, x: npt.ArrayLike) -> Float:
        """How much of the correction for the length of steps was made at the points x: shape (n, d), 0 to 1.

        One where the data determine it, less where it would be noise: where data are few, or drift and noise change
        within less than a step. It is for the mean step of the data, ``sde.step_correction.h``. What was made of it is
        ``sde.drift(x) - sde.one_step.drift(x)``.
        """
        if self.step_correction is None or self.step_spread is None:
            raise InputError("this model was not corrected for the length of steps: fit it with correct_step=True")
        points = self._points(x)
        spread = self.step_spread
        trust = np.empty((len(points), self.n_outputs))
        for rows in _batches(len(points)):
            at = points[rows]
            step = moments_of_step(
                at,
                np.full(len(at), self.step_correction.h),
                self.drift,
                self.covariance,
                underdamped=self.kind == "underdamped",
            )
            change = (step.average(spread) - spread(at)).reshape(len(at), self.n_outputs, -1)
            trust[rows] = self.step_correction.trust((change**2).sum(axis=2))
        return trust

    def summary(self) -> str:
        """What was learned, from what and how, as a few lines of text."""
        lines = [
            f"itofit {self.version}: {self.kind}, {self._dimensions()}",
            f"  data        {self.data}",
            f"  drift       {training_text(self.drift_settings, self.drift_history)}",
        ]
        given = are_named(self)
        inputs = self.input_names if given else None
        if isinstance(self.drift_settings, AutomaticSettings):
            lines[1] += f"; frequencies searched on {self.searched_on}"
            names = [f"f_{name}" if given else f"f{j}" for j, name in enumerate(self.output_names)]
            lines.append(f"              {dependence_text(self.drift_settings, self.n_inputs, names, inputs)}")
        lines.append(f"  covariance  {training_text(self.covariance_settings, self.covariance_history)}")
        if isinstance(self.covariance_settings, AutomaticSettings):
            pairs = zip(*entries(self.structure, self.n_outputs), strict=True)
            letter, comma = "Σ" if self.link == "identity" else "H", "," if max(map(len, self.output_names)) > 1 else ""
            names = [
                f"{letter}_{self.output_names[j]}{comma}{self.output_names[i]}" if given else f"{letter}{j}{i}"
                for i, j in pairs
            ]
            lines.append(f"              {dependence_text(self.covariance_settings, self.n_inputs, names, inputs)}")
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
        if self.step_correction is not None:
            lines.insert(-1, f"  step        {self.step_correction}")
        if given:
            lines.insert(1, f"  variables   {self._variables()}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"LearnedSDE({self._dimensions()}, {self.structure} covariance, "
            f"learned from {self.data.n_transitions} transitions)"
        )

    def _variables(self) -> str:
        inputs, outputs = ", ".join(self.input_names), ", ".join(self.output_names)
        return inputs if inputs == outputs else f"{inputs}; {outputs} {'moves' if self.n_outputs == 1 else 'move'}"

    def _dimensions(self) -> str:
        return f"{plural(self.n_inputs, 'input')}, {plural(self.n_outputs, 'output')}"

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one `.npz` file; what was at `path` stays until all of it is written."""
        storage.write(path, *_packed(self))


def _packed(sde: LearnedSDE) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """A model as arrays by name, and the rest as JSON can hold it."""
    arrays = {name: getattr(sde, name) for name in _ARRAYS}
    metadata: dict[str, Any] = {name: getattr(sde, name) for name in _PLAIN}
    metadata |= {name: list(getattr(sde, name)) for name in _NAMES}
    metadata["candidates"] = [list(candidate) for candidate in sde.candidates]
    for name in (*_FUNCTIONS, *_SPREADS):
        series = getattr(sde, name)
        if series is not None:
            arrays |= {f"{name}.{field}": getattr(series, field) for field in _SERIES}
    for name in _RECORDS:
        found, metadata[name] = pack(getattr(sde, name))
        arrays |= {f"{name}.{field}": array for field, array in found.items()}
    if sde.step_correction is not None:
        found, metadata["step_correction"] = pack(sde.step_correction)
        arrays |= {f"step_correction.{field}": array for field, array in found.items()}
    others = {f"members.{place}": member for place, member in enumerate(sde.members)}
    if sde.one_step is not None:
        others["one_step"] = sde.one_step
    metadata["others"] = {}
    for name, other in others.items():
        found, metadata["others"][name] = _packed(other)
        arrays |= {f"{name}.{field}": array for field, array in found.items()}
    return arrays, metadata


_FUNCTIONS, _SPREADS = ("drift_series", "covariance_series"), ("drift_spread", "covariance_spread", "step_spread")
_SERIES = ("omega", "beta", "shift", "scale", "offset")
_RECORDS = ("drift_history", "covariance_history", "drift_settings", "covariance_settings", "data")
_ARRAYS = ("limits", "floor_factor", "box")
_NAMES = ("input_names", "output_names")
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
        arrays, metadata = storage.in_this_format(arrays, metadata)
        return _unpacked(arrays, metadata)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ModelFileError(f"{path} is not a complete itofit model: {error}") from error


def _unpacked(arrays: dict[str, npt.NDArray[Any]], metadata: dict[str, Any]) -> LearnedSDE:
    """The model that `_packed` took apart."""
    parts: dict[str, Any] = {name: metadata[name] for name in _PLAIN} | {name: arrays[name] for name in _ARRAYS}
    for name in _NAMES:
        if not isinstance(metadata[name], list):
            raise InputError(f"{name} must be a list, got {metadata[name]!r}")
        parts[name] = tuple(metadata[name])
    parts["candidates"] = tuple(Candidate(*candidate) for candidate in metadata["candidates"])
    for name in (*_FUNCTIONS, *_SPREADS):
        if name in _FUNCTIONS or f"{name}.omega" in arrays:
            parts[name] = FourierSeries(**{field: arrays[f"{name}.{field}"] for field in _SERIES})
    for name in _RECORDS:
        parts[name] = unpack(_named(arrays, f"{name}."), metadata[name])
    if "step_correction" in metadata:
        parts["step_correction"] = unpack(_named(arrays, "step_correction."), metadata["step_correction"])
    others = {name: _unpacked(_named(arrays, f"{name}."), own) for name, own in metadata["others"].items()}
    parts["one_step"] = others.pop("one_step", None)
    parts["members"] = tuple(others[f"members.{place}"] for place in range(len(others)))
    sde = LearnedSDE(**parts)
    _check_consistent(sde)
    return sde


def _named(arrays: dict[str, npt.NDArray[Any]], beginning: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays whose names begin so, without the beginning."""
    return {key.removeprefix(beginning): array for key, array in arrays.items() if key.startswith(beginning)}


def _check_consistent(sde: LearnedSDE) -> None:
    """Raise unless the parts of a model fit together, so that a damaged file fails here and not in use."""
    m, d = sde.n_inputs, sde.n_outputs
    one_of("structure", sde.structure, get_args(Structure))
    one_of("link", sde.link, get_args(Link))
    one_of("kind", sde.kind, get_args(Kind))
    flag("drift_in_noise_units", sde.drift_in_noise_units)
    if sde.kind != "general" and m != (d if sde.kind == "diffusion" else 2 * d):
        raise InputError(f"a model of kind {sde.kind!r} with {d} outputs cannot have {m} inputs")
    storage.check_array("box", sde.box, (2, m))
    storage.check_array("floor_factor", sde.floor_factor, (d, d))
    storage.check_array("limits", np.minimum(sde.limits, 1e300), (2, d))
    if not (sde.box[0] < sde.box[1]).all() or not (np.diagonal(sde.floor_factor) > 0).all():
        raise InputError("box or floor_factor is not what a training leaves")
    if not (sde.limits[0] > 0).all() or not (sde.limits[0] <= sde.limits[1]).all():
        raise InputError("limits must be positive, the smaller first")
    n_entries = len(entries(sde.structure, d)[0])
    for name, p in zip((*_FUNCTIONS, *_SPREADS), (d, n_entries, d, n_entries, d), strict=True):
        series = getattr(sde, name)
        if series is not None:
            _check_series(name, series, m, p, several=name in _SPREADS)
    _check_models_within(sde)
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


def _check_models_within(sde: LearnedSDE) -> None:
    """The same for the members of an ensemble and for what was learned of one step."""
    others = (*sde.members, *([] if sde.one_step is None else [sde.one_step]))
    if any((other.n_inputs, other.n_outputs) != (sde.n_inputs, sde.n_outputs) for other in others):
        raise InputError("the models in a model must have its inputs and outputs")
    if len({part is None for part in (sde.step_correction, sde.one_step, sde.step_spread)}) > 1:
        raise InputError("step_correction, step_spread and one_step belong together")
    if sde.step_correction is not None:
        if not isinstance(sde.step_correction, StepCorrection) or sde.kind == "general":
            raise InputError("step_correction is not what a training leaves")
        storage.check_array("step_correction.signal", sde.step_correction.signal, (sde.n_outputs,))


def _check_series(name: str, series: FourierSeries, m: int, p: int, *, several: bool) -> None:
    """The same for one series with p outputs, or with some for each of p."""
    K, P = series.n_features, series.n_outputs if several else p
    if P % p:
        raise InputError(f"{name} must have as many functions for each of {p} outputs, got {P} in all")
    shapes = {"omega": (K, m), "beta": (K, P), "shift": (m,), "scale": (m,), "offset": (P,)}
    for field, shape in shapes.items():
        storage.check_array(f"{name}.{field}", getattr(series, field), shape, complex_=field == "beta")
    if not (series.scale > 0).all():
        raise InputError(f"{name}.scale must be > 0")


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


def _batches(n: int) -> Iterator[slice]:
    """Rows taken together where each has a matrix of its own, to bound the memory of all."""
    for start in range(0, n, BATCH_ROWS):
        yield slice(start, start + BATCH_ROWS)
