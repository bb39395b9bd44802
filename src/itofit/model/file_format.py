"""The format of models in files: every record by the names of its fields, arrays and JSON in one `.npz`.

A record is packed field by field: arrays under their names, records within it under `name.field`, tuples of records
under `name.0`, `name.1`, ..., and everything else in JSON, together with the name of the record's class. Reading makes
only the classes listed here, and checks that all parts fit together, so that a damaged file fails here and not in use.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from itofit._checks import InputError, ModelFileError, count, flag, generator, one_of, positive
from itofit.data.names import Kind
from itofit.data.periods import is_periodic
from itofit.data.units import Units
from itofit.data.with_units import checked_units
from itofit.matrices.links import LINKS
from itofit.matrices.symmetric import Structure, entries
from itofit.model import storage
from itofit.model.in_use import check_finite_in_use
from itofit.model.measurement import HiddenVelocity, MeasurementNoise
from itofit.model.sde import SDE
from itofit.model.training import (
    MOST_PLACES,
    Candidate,
    DataSummary,
    Judge,
    LearnedFunction,
    LeftOut,
    Places,
    StepCorrection,
    StepOutcome,
    Stop,
    Training,
    Work,
)
from itofit.waves.parameters import ARFF
from itofit.waves.series import FourierSeries
from itofit.waves.wave_groups import first_group, last_group

if TYPE_CHECKING:
    from itofit.model.formula.formula_sde import Formula
    from itofit.model.learned import LearnedSDE

Arrays = dict[str, npt.NDArray[Any]]
M = TypeVar("M", bound="LearnedSDE")
RECORDS = (
    FourierSeries,
    LearnedFunction,
    Training,
    ARFF,
    DataSummary,
    LeftOut,
    Work,
    Places,
    StepCorrection,
    MeasurementNoise,
    HiddenVelocity,
    Candidate,
    Units,
)
"""Classes that a model consists of, besides models themselves."""
LARGEST = 1e300
"""Stands for infinity where limits are checked."""
NOT_A_MODEL = (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError)
"""What making records of parts that do not fit together raises; the last two for absurd numbers and deep nesting."""


def write_model(path: str | os.PathLike[str], sde: LearnedSDE) -> None:
    """Write a model to a file, whole or not at all; what will be written is read first, as it will be loaded."""
    storage.checked_target(path)
    content = storage.archive(*packed_model(sde))
    try:
        read_model(content, type(sde))
    except ModelFileError as error:
        raise ModelFileError(
            f"nothing was written to {os.fspath(path)}: it could not be loaded again; {error}"
        ) from error
    storage.write_whole(path, content)


def packed_model(sde: LearnedSDE) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of the file of a model."""
    arrays, plain = _packed(sde)
    return arrays, {"model": plain}


def read_model(path: str | os.PathLike[str] | bytes, model: type[M]) -> M:
    """Read a model from a file or from its content; a ModelFileError says what is wrong with it if it holds none."""
    kinds = {kind.__name__: kind for kind in (*RECORDS, model)}
    arrays, metadata = storage.read(path, lambda metadata: _array_names(_model_in(metadata), kinds))
    plain: Any = _model_in(metadata)
    if "formula" in metadata:
        name = "this" if isinstance(path, bytes) else os.fspath(path)
        raise ModelFileError(f"{name} holds a formula: read it with itofit.load_formula")
    try:
        _check_kind("the model in its metadata", plain, dict)
        sde = _unpacked(arrays, plain, kinds)
        if not isinstance(sde, model):
            raise InputError(f"it holds a {type(sde).__name__}")
        for each in _models_in(sde):
            _check_model(each)
        _check_nothing_else(sde, plain)
        for each in _models_in(sde):
            check_finite_in_use(each)
        return sde
    except NOT_A_MODEL as error:
        name = "the model" if isinstance(path, bytes) else os.fspath(path)
        raise ModelFileError(f"{name} is not a complete itofit model: {error}") from error


# Records as arrays and JSON


def _field_names(record: object) -> tuple[str, ...]:
    """Names of the fields of a record or of a class of records."""
    if dataclasses.is_dataclass(record):
        return tuple(field.name for field in dataclasses.fields(record))
    return Candidate._fields


def _is_record(value: object) -> bool:
    return dataclasses.is_dataclass(value) or isinstance(value, Candidate)


def _packed(record: object) -> tuple[Arrays, dict[str, Any]]:
    """The arrays of a record and of those within it, by name, and the rest as JSON can hold it."""
    arrays: Arrays = {}
    plain: dict[str, Any] = {"kind of record": type(record).__name__}
    for name in _field_names(record):
        value = getattr(record, name)
        if isinstance(value, np.ndarray):
            arrays[name] = value
        elif _is_record(value):
            more, plain[name] = _packed(value)
            arrays |= {f"{name}.{key}": array for key, array in more.items()}
        elif isinstance(value, tuple):
            plain[name] = []
            for place, part in enumerate(value):
                more, content = _packed(part) if _is_record(part) else ({}, part)
                plain[name].append(content)
                arrays |= {f"{name}.{place}.{key}": array for key, array in more.items()}
        else:
            plain[name] = value.item() if isinstance(value, np.generic) else value
    return arrays, plain


def _array_names(plain: object, kinds: Mapping[str, Callable[..., object]]) -> set[str]:
    """Names of the arrays that a record and those within it have: of fields that are not in JSON."""
    if not isinstance(plain, dict) or not isinstance(plain.get("kind of record"), str):
        return set()
    kind = kinds.get(plain["kind of record"])
    names = set() if kind is None else {name for name in _field_names(kind) if name not in plain}
    for name, content in plain.items():
        if isinstance(content, dict):
            names |= {f"{name}.{key}" for key in _array_names(content, kinds)}
        elif isinstance(content, list):
            for place, part in enumerate(content):
                names |= {f"{name}.{place}.{key}" for key in _array_names(part, kinds)}
    return names


def _model_in(metadata: Mapping[str, Any]) -> object:
    """The model in the metadata of a file; one from before models kept the places of their data has none of them."""
    plain = metadata.get("model")
    return _without_places(plain) if metadata.get("format") == storage.WITHOUT_PLACES else plain


def _without_places(plain: object) -> object:
    if isinstance(plain, list):
        return [_without_places(part) for part in plain]
    if not isinstance(plain, dict):
        return plain
    known = {"places": None} if plain.get("kind of record") == DataSummary.__name__ else {}
    return {name: _without_places(content) for name, content in plain.items()} | known


def _unpacked(arrays: Arrays, plain: Mapping[str, Any], kinds: Mapping[str, Callable[..., object]]) -> object:
    """The record that `_packed` took apart."""
    contents = dict(plain)
    name_of_kind = contents.pop("kind of record", None)
    if name_of_kind not in kinds:
        raise InputError(f"a record of it is of unknown kind: {name_of_kind!r}")
    kind = kinds[name_of_kind]
    values: dict[str, object] = {name: array for name, array in arrays.items() if "." not in name}
    for name, content in contents.items():
        if isinstance(content, dict):
            values[name] = _unpacked(_named(arrays, f"{name}."), content, kinds)
        elif isinstance(content, list):
            values[name] = tuple(
                _unpacked(_named(arrays, f"{name}.{place}."), part, kinds) if isinstance(part, dict) else part
                for place, part in enumerate(content)
            )
        else:
            values[name] = content
    missing = [name for name in _field_names(kind) if name not in values]  # also of those that have a default
    if missing:
        raise InputError(f"{', '.join(missing)} of a {name_of_kind} is missing")
    return kind(**values)


def _named(arrays: Arrays, beginning: str) -> Arrays:
    """The arrays whose names begin so, without the beginning."""
    return {key.removeprefix(beginning): array for key, array in arrays.items() if key.startswith(beginning)}


# Whether they fit together


def _models_in(sde: M) -> Iterator[M]:
    """A model and those within it, the innermost first."""
    for other in (*sde.members, *(() if sde.one_step is None else (sde.one_step,))):
        _check_kind("a model in a model", other, type(sde))
        if (other.n_inputs, other.n_outputs) != (sde.n_inputs, sde.n_outputs):
            raise InputError("the models in a model must have its inputs and outputs")
        yield from _models_in(other)
    yield sde


def _check_nothing_else(sde: LearnedSDE, plain: object) -> None:
    """Raise if metadata hold something that the model made of them does not."""
    _, own_plain = _packed(sde)
    if json.loads(json.dumps(own_plain)) != plain:
        raise InputError("its metadata are not those of the model that they make")


def _check_kind(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise InputError(f"{name} must be a {kind.__name__}, got {type(value).__name__}")


def _check_array(name: str, array: object, shape: tuple[int, ...], dtype: str = "float64") -> None:
    """Raise unless something is a finite array of a shape."""
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
        got = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else repr(array)
        raise InputError(f"{name} must be {dtype} of shape {shape}, got {got}")
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite")


def _check_model(sde: LearnedSDE) -> None:
    """Raise unless the parts of a model fit together."""
    m, d = sde.n_inputs, sde.n_outputs
    one_of("structure", sde.structure, get_args(Structure))
    one_of("link", sde.link, tuple(LINKS))
    one_of("kind", sde.kind, get_args(Kind))
    flag("drift_in_noise_units", sde.drift_in_noise_units)
    s = m - count("n_covariates", sde.n_covariates, least=0)
    if s < 1 or (sde.kind != "general" and s != (d if sde.kind == "diffusion" else 2 * d)):
        raise InputError(f"a model of kind {sde.kind!r} with {d} outputs cannot have {s} inputs besides covariates")
    _check_array("box", sde.box, (2, m))
    _check_array("periods", sde.periods, (2, m))
    periodic = is_periodic(sde.periods)
    if sde.periods[:, ~periodic].any() or (sde.periods != sde.box)[:, periodic].any():
        raise InputError("periods must be the range of periodic inputs, and zero for others")
    check_units_of(sde)
    _check_array("floor_factor", sde.floor_factor, (d, d))
    _check_array("limits", np.minimum(sde.limits, LARGEST), (2, d))
    if not (sde.box[0] < sde.box[1]).all() or not (np.diagonal(sde.floor_factor) > 0).all():
        raise InputError("box or floor_factor is not what a training leaves")
    if not (sde.limits[0] > 0).all() or not (sde.limits[0] <= sde.limits[1]).all():
        raise InputError("limits must be positive, the smaller first")
    _check_function("drift_function", sde.drift_function, m, d)
    _check_function("covariance_function", sde.covariance_function, m, len(entries(sde.structure, d)[0]))
    _check_correction(sde)
    check_hidden_velocity(sde)
    check_measurement(sde)
    _check_origin(sde)


def check_units_of(sde: LearnedSDE | Formula) -> None:
    """The same for units: none, or a text for each variable."""
    _check_kind("units", sde.units, Units)
    known = dict(zip(sde.units.names, sde.units.symbols, strict=True))
    if checked_units(sde, known, sde.units.time) != sde.units:
        raise InputError("units must be those of the variables")


def _check_function(name: str, function: LearnedFunction, m: int, p: int) -> None:
    """The same for a function of m inputs with p outputs."""
    _check_kind(name, function, LearnedFunction)
    _check_series(f"{name}.series", function.series, m, p)
    if function.spread is not None:
        _check_spread(f"{name}.spread", function.spread, m, p)
    _check_training(f"{name}.training", function.training, m, p)


def _check_spread(name: str, series: FourierSeries, m: int, p: int) -> None:
    """The same for a series of several functions for each of p outputs."""
    _check_kind(name, series, FourierSeries)
    if series.n_outputs % p:
        raise InputError(f"{name} must have as many functions for each of {p} outputs, got {series.n_outputs} in all")
    _check_series(name, series, m, series.n_outputs)


def _check_series(name: str, series: FourierSeries, m: int, p: int) -> None:
    """The same for a series with p outputs."""
    _check_kind(name, series, FourierSeries)
    K = series.n_features
    for field, shape in (("omega", (K, m)), ("shift", (m,)), ("scale", (m,)), ("offset", (p,))):
        _check_array(f"{name}.{field}", getattr(series, field), shape)
    _check_array(f"{name}.beta", series.beta, (K, p), "complex128")
    if not (series.scale > 0).all():
        raise InputError(f"{name}.scale must be > 0")


def _check_training(name: str, training: Training, m: int, p: int) -> None:
    """The same for the record of a training of m inputs and p outputs."""
    _check_kind(name, training, Training)
    _check_kind(f"{name}.parameters", training.parameters, ARFF)
    if not training.by_evidence and None in dataclasses.astuple(training.parameters):
        raise InputError(f"{name}.parameters must all be set, as Algorithm 1 leaves them, got {training.parameters}")
    one_of(f"{name}.judge", training.judge, get_args(Judge))
    one_of(f"{name}.stopped", training.stopped, get_args(Stop))
    for field in ("n_features", "best_iteration", "n_standing_out"):
        count(f"{name}.{field}", getattr(training, field), least=0)
    positive(f"{name}.determined", training.determined, zero=True)
    J, M, G = (len(np.atleast_1d(part)) for part in (training.iteration, training.acceptance, training.groups))
    for field, n in (("iteration", J), ("score", J), ("acceptance", M), ("seconds", M)):
        _check_array(f"{name}.{field}", getattr(training, field), (n,))
    _check_array(f"{name}.groups", training.groups, (G,), "int64")
    _check_array(f"{name}.ridges", training.ridges, (p, G))
    if not J or (J != M + 1 and not training.by_evidence):  # by evidence, not every iteration is judged
        raise InputError(f"{name} has {J} scores of the start and of {M} iterations")
    first, last = first_group(m), last_group(m)
    if not ((training.groups >= first) & (training.groups <= last)).all():
        raise InputError(f"{name}.groups must be numbers from {first} to {last}, got {training.groups}")


def _check_correction(sde: LearnedSDE) -> None:
    """The same for the correction for the length of steps."""
    correction = sde.step_correction
    if (correction is None) != (sde.one_step is None):
        raise InputError("step_correction and one_step belong together")
    if correction is None:
        return
    _check_kind("step_correction", correction, StepCorrection)
    if sde.kind == "general":
        raise InputError("a model of kind 'general' cannot have been corrected for the length of steps")
    _check_array("step_correction.signal", correction.signal, (sde.n_outputs,))
    _check_spread("step_correction.spread", correction.spread, sde.n_inputs, sde.n_outputs)
    for field in ("h", "drift_change", "covariance_change", "drift_trust", "covariance_trust", "distrusted"):
        positive(f"step_correction.{field}", getattr(correction, field), zero=True)
    positive("step_correction.excess", abs(correction.excess), zero=True)
    count("step_correction.rounds", correction.rounds, least=0)
    flag("step_correction.lengths_chosen", correction.lengths_chosen)
    one_of("step_correction.outcome", correction.outcome, get_args(StepOutcome))


def check_hidden_velocity(sde: SDE) -> None:
    """Raise unless velocities that were not observed are such, if there are any."""
    hidden, d = sde.hidden_velocity, sde.n_outputs
    if hidden is None:
        return
    _check_kind("hidden_velocity", hidden, HiddenVelocity)
    if sde.kind != "underdamped":
        raise InputError(f"a model of kind {sde.kind!r} cannot have hidden velocities")
    _check_array("hidden_velocity.mean", hidden.mean, (d,))
    _check_array("hidden_velocity.covariance", hidden.covariance, (d, d))
    if not np.linalg.eigvalsh(hidden.covariance)[0] >= 0:
        raise InputError("hidden_velocity.covariance must be positive semidefinite")
    count("hidden_velocity.substeps", hidden.substeps)


def check_measurement(sde: SDE) -> None:
    """The same for errors of measurement."""
    noise, d = sde.measurement_noise, sde.n_outputs
    if noise is None:
        return
    _check_kind("measurement_noise", noise, MeasurementNoise)
    if sde.kind != "diffusion" and sde.hidden_velocity is None:
        raise InputError(f"a model of kind {sde.kind!r} cannot have errors of measurement")
    _check_array("measurement_noise.covariance", noise.covariance, (d, d))
    _check_array("measurement_noise.std", noise.std, (d, d))
    if not np.array_equal(noise.covariance, noise.covariance.T) or np.linalg.eigvalsh(noise.covariance)[0] < -1e-9 * (
        np.trace(noise.covariance)
    ):
        raise InputError("measurement_noise.covariance must be symmetric and positive semidefinite")
    for field in ("known", "corrected"):
        flag(f"measurement_noise.{field}", getattr(noise, field))
    positive("measurement_noise.gain", abs(noise.gain), zero=True)
    if not positive("measurement_noise.p", noise.p, zero=True) <= 1:
        raise InputError(f"measurement_noise.p must be at most 1, got {noise.p}")


def _check_origin(sde: LearnedSDE) -> None:
    """The same for what a model says of how it was made."""
    if sde.seed is not None:
        generator(sde.seed)  # raises if it is none
    for name in ("version", "searched_on"):
        if not isinstance(getattr(sde, name), str):
            raise InputError(f"{name} must be a string, got {getattr(sde, name)!r}")
    if not positive("floored_share", sde.floored_share, zero=True) <= 1:
        raise InputError(f"floored_share must be at most 1, got {sde.floored_share}")
    if flag("bootstrapped", sde.bootstrapped) and not sde.members:
        raise InputError("bootstrapped models need members")
    for candidate in sde.candidates:
        _check_kind("a candidate", candidate, Candidate)
        one_of("structure", candidate.structure, get_args(Structure))
        one_of("link", candidate.link, tuple(LINKS))
        one_of("frequencies", candidate.frequencies, ("start", "search", "none"))
        if not isinstance(candidate.loss, float) or not np.isfinite(candidate.loss):
            raise InputError(f"loss of a candidate must be a finite number, got {candidate.loss!r}")
    _check_data_summary(sde.data)
    seen = sde.measurement_noise is None and sde.hidden_velocity is None  # of states that were drawn there may be fewer
    check_places(sde, sde.data.n_transitions if seen else None)


def check_places(sde: LearnedSDE | Formula, n_transitions: int | None = None) -> None:
    """The same for the places at which data were, if it has any: of how many transitions, if that is known."""
    if (places := sde.data.places) is not None:
        _check_kind("data.places", places, Places)
        n = min(n_transitions or len(np.atleast_1d(places.inputs)), MOST_PLACES)
        _check_array("data.places.inputs", places.inputs, (n, sde.n_inputs))


def _check_data_summary(data: DataSummary) -> None:
    """The same for what it says of its data."""
    _check_kind("data", data, DataSummary)
    count("data.n_transitions", data.n_transitions)
    if data.n_groups is not None:
        count("data.n_groups", data.n_groups)
    for name in ("h_min", "h_mean", "h_max"):
        positive(f"data.{name}", getattr(data, name))
    if (left_out := data.left_out) is not None:
        _check_kind("data.left_out", left_out, LeftOut)
        count("data.left_out.n", left_out.n)
        if not positive("data.left_out.max_h", left_out.max_h) < positive("data.left_out.longest", left_out.longest):
            raise InputError("data.left_out must be longer than its max_h")
    if data.told is not None and not positive("data.told", data.told, zero=True) < 1:
        raise InputError(f"data.told must be a share below 1, got {data.told:g}")
    if (work := data.work) is not None:
        _check_kind("data.work", work, Work)
        for name in ("n_passes", "n_workers"):
            count(f"data.work.{name}", getattr(work, name), least=0)
        for name in ("pass_seconds", "client_seconds"):
            positive(f"data.work.{name}", getattr(work, name), zero=True)
