"""Formulas in files: arrays of coefficients and JSON in one `.npz`, read without executing anything."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, get_args

import numpy as np

from itofit._checks import InputError, ModelFileError, fraction, one_of, positive
from itofit.data.names import Kind, checked_names
from itofit.data.units import Units
from itofit.matrices.symmetric import Structure, entries
from itofit.model import storage
from itofit.model.file_format import (
    NOT_A_MODEL,
    check_hidden_velocity,
    check_measurement,
    check_places,
    check_units_of,
)
from itofit.model.formula.formula_sde import Formula
from itofit.model.formula.library import HIGHEST_POWER, Function, Term, Wave
from itofit.model.formula.lines import Line, Prediction, Slot, What, Where
from itofit.model.measurement import HiddenVelocity, MeasurementNoise
from itofit.model.training import DataSummary, LeftOut, Places

ARRAYS = ("limits", "floor_factor", "box", "periods")
PLAIN = ("structure", "kind", "n_covariates", "corrected", "false_alarms", "clipped_share", "version")
NAMES = ("input_names", "output_names", "library")
HIDDEN = {
    "measurement_noise": (MeasurementNoise, ("covariance", "std"), ("known", "gain", "p", "corrected")),
    "hidden_velocity": (HiddenVelocity, ("mean", "covariance"), ("substeps",)),
}
"""How states were observed, if not as they are: the arrays and the plain values of each."""


def write_formula(path: str | os.PathLike[str], formula: Formula) -> None:
    """Write a formula to a file, whole or not at all."""
    lines = (*formula.drift_lines, *formula.noise_lines)
    arrays = {name: getattr(formula, name) for name in ARRAYS}
    for place, line in enumerate(lines):
        arrays |= {f"{place}.coefficients": line.coefficients, f"{place}.covariance": line.covariance}
    plain: dict[str, Any] = {name: getattr(formula, name) for name in PLAIN}
    plain |= {name: list(getattr(formula, name)) for name in NAMES}
    plain["lines"] = [_line(line) for line in lines]
    plain["data"] = asdict(replace(formula.data, places=None))
    if formula.data.places is not None:
        arrays["places"] = formula.data.places.inputs
    plain["units"] = asdict(formula.units)
    if formula.prediction is not None:
        *numbers, where = formula.prediction
        plain["prediction"] = list(numbers)
        arrays |= {f"where.{name}": array for name, array in where._asdict().items()}
    for name, (_, own_arrays, own_plain) in HIDDEN.items():
        if (part := getattr(formula, name)) is not None:
            arrays |= {f"{name}.{each}": getattr(part, each) for each in own_arrays}
            plain[name] = {each: getattr(part, each) for each in own_plain}
    storage.write(path, arrays, {"formula": plain})


def _line(line: Line) -> dict[str, Any]:
    terms = [
        {
            "name": term.name,
            "powers": list(term.powers),
            "waves": [list(w) for w in term.waves],
            "own": term.function is not None,
        }
        for term in line.terms
    ]
    return {"slot": list(line.slot), "terms": terms, "difference": line.difference, "error": line.error}


def read_formula(path: str | os.PathLike[str], functions: Mapping[str, Function]) -> Formula:
    """Read a formula; a ModelFileError says what is wrong with the file if it holds none."""
    arrays, metadata = storage.read(path)
    plain: Any = metadata.get("formula")
    if plain is None:
        raise ModelFileError(f"{path} holds no formula, but a model: read it with itofit.load")
    try:
        needed = [term["name"] for line in plain["lines"] for term in line["terms"] if term["own"]]
    except NOT_A_MODEL as error:
        raise ModelFileError(f"{path} is not a complete formula: {error!r}") from error
    if missing := [name for name in dict.fromkeys(needed) if name not in functions]:
        raise InputError(
            f"the formula in {path} has terms whose functions were the user's own, and files hold no code: give "
            f"functions={{{', '.join(f'{name!r}: ...' for name in missing)}}}"
        )
    try:
        formula = _made(arrays, plain, functions)
        _check(formula)
        return formula
    except NOT_A_MODEL as error:
        raise ModelFileError(f"{path} is not a complete formula: {error}") from error


def _made(arrays: Mapping[str, Any], plain: Mapping[str, Any], functions: Mapping[str, Function]) -> Formula:
    lines = [
        Line(
            slot=Slot(*each["slot"]),
            terms=tuple(_term(term, functions) for term in each["terms"]),
            coefficients=arrays[f"{place}.coefficients"],
            covariance=arrays[f"{place}.covariance"],
            difference=float(each["difference"]),
            error=float(each["error"]),
        )
        for place, each in enumerate(plain["lines"])
    ]
    data = dict(plain["data"])
    if data["left_out"] is not None:
        data["left_out"] = LeftOut(**data["left_out"])
    data["places"] = Places(inputs=arrays["places"]) if "places" in arrays else None
    where = Where(*(arrays[f"where.{name}"] for name in Where._fields)) if "prediction" in plain else None
    parts: dict[str, Any] = {name: arrays[name] for name in ARRAYS} | {name: plain[name] for name in PLAIN}
    for name, (kind, own_arrays, _) in HIDDEN.items():
        if name in plain:
            parts[name] = kind(**plain[name], **{each: arrays[f"{name}.{each}"] for each in own_arrays})
    return Formula(
        **parts | {name: tuple(map(str, plain[name])) for name in NAMES},
        drift_lines=tuple(line for line in lines if line.slot.what == "drift"),
        noise_lines=tuple(line for line in lines if line.slot.what != "drift"),
        data=DataSummary(**data),
        units=_units(plain["units"]),
        prediction=None if where is None else Prediction._make((*plain["prediction"], where)),
    )


def _units(plain: Mapping[str, Any]) -> Units:
    names, symbols = (tuple(map(str, plain[name])) for name in ("names", "symbols"))
    return Units(names, symbols, str(plain["time"]))


def _term(plain: Mapping[str, Any], functions: Mapping[str, Function]) -> Term:
    waves = tuple(
        Wave(one_of("wave", shape, ("sin", "cos")), int(place), float(frequency))  # type: ignore[arg-type]
        for shape, place, frequency in plain["waves"]
    )
    function = functions[plain["name"]] if plain["own"] else None
    return Term(str(plain["name"]), tuple(int(power) for power in plain["powers"]), waves, function)


def _check(formula: Formula) -> None:
    """Raise unless the parts of a formula fit together."""
    m, d = formula.n_inputs, formula.n_outputs
    checked_names("input_names", formula.input_names, m)
    checked_names("output_names", formula.output_names, d)
    one_of("structure", formula.structure, get_args(Structure))
    one_of("kind", formula.kind, get_args(Kind))
    fraction("false_alarms", formula.false_alarms)
    check_units_of(formula)
    positive("clipped_share", formula.clipped_share, zero=True)
    for name, shape in (("limits", (2, d)), ("floor_factor", (d, d)), ("box", (2, m)), ("periods", (2, m))):
        _check_array(name, getattr(formula, name), shape, finite=name != "limits")
    check_hidden_velocity(formula)
    check_measurement(formula)
    check_places(formula)
    rows, columns = entries(formula.structure, d)
    what: What = formula.noise_lines[0].slot.what if formula.noise_lines else "covariance"
    slots = [Slot("drift", a, a) for a in range(d)] + [
        Slot(what, int(i), int(j)) for i, j in zip(rows, columns, strict=True)
    ]
    lines = (*formula.drift_lines, *formula.noise_lines)
    if [line.slot for line in lines] != slots:
        raise InputError("its lines are not those of an equation")
    for line in lines:
        k = len(line.terms)
        _check_array("coefficients", line.coefficients, (k,))
        _check_array("covariance of coefficients", line.covariance, (k, k))
        for term in line.terms:
            if len(term.powers) != m or not all(0 <= power <= HIGHEST_POWER for power in term.powers):
                raise InputError(f"the powers of {term.name!r} are not those of {m} inputs")
            if not all(0 <= wave.place < m and np.isfinite(wave.frequency) for wave in term.waves):
                raise InputError(f"a wave of {term.name!r} is of no input")


def _check_array(name: str, array: Any, shape: tuple[int, ...], *, finite: bool = True) -> None:  # noqa: ANN401
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != "float64":
        raise InputError(f"{name} must be an array of float64 of shape {shape}")
    if np.isnan(array).any() or (finite and not np.isfinite(array).all()):
        raise InputError(f"{name} must be finite")
