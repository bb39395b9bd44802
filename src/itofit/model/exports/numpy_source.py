"""Equations as the text of a Python module that needs NumPy and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from itofit._checks import InputError
from itofit._version import __version__
from itofit.matrices.links import EPSILON, LARGEST_EXPONENT
from itofit.matrices.symmetric import LEAST_RATIO, entries

if TYPE_CHECKING:
    from itofit.model.formula.formula_sde import Formula
    from itofit.model.formula.library import Term
    from itofit.model.learned import LearnedSDE
    from itofit.waves.series import FourierSeries

HEAD = '''"""Drift and noise of {outputs}: dx = f dt + sigma dW, Sigma = sigma sigma^T. Written by itofit {version}.

Inputs are {inputs}, in this order: x has shape (n, {m}). drift(x) has shape (n, {d}),
covariance(x) and diffusion(x), its Cholesky factor, have shape (n, {d}, {d}).
Known between {low} and {high}.
"""

import numpy as np

INPUTS = {input_names!r}
OUTPUTS = {output_names!r}
UNITS = {units!r}
'''
SERIES = """
def _series(x, omega, beta_real, beta_imag, shift, scale, offset):
    phase = (x - shift) / scale @ omega.T
    return offset + np.cos(phase) @ beta_real - np.sin(phase) @ beta_imag

"""
POINTS = """
def _points(x):
    x = np.asarray(x, dtype=float)
    x = x.reshape(-1, 1) if x.ndim < 2 and len(INPUTS) == 1 else x
    if x.ndim != 2 or x.shape[1] != len(INPUTS):
        raise ValueError(f"x must have shape (n, {len(INPUTS)}), got {x.shape}")
    return x

"""
MATRICES = """
def _matrices(entries):
    matrices = np.zeros((len(entries), len(OUTPUTS), len(OUTPUTS)))
    matrices[:, ROWS, COLUMNS] = entries
    matrices[:, COLUMNS, ROWS] = entries
    return matrices

"""
VALUES = {
    "identity": "eta",
    "square": f"eta**2 + {EPSILON!r}",
    "log": f"np.exp(np.clip(eta, {-LARGEST_EXPONENT!r}, {LARGEST_EXPONENT!r}))",
}
DECOUPLED = """
def _limited(entries):
    own = np.diagonal(FACTOR) ** 2
    eta = {scaled}
    return _matrices(own * np.clip({value}, LOW, HIGH))

"""
FULL = """
def _limited(entries):
    H = _matrices(entries)
    unit = np.linalg.norm(FACTOR, axis=1)
    L = FACTOR / unit[:, None]
    back = np.linalg.inv(L)
    H = {scaled}
    eta, Q = np.linalg.eigh(0.5 * (H + H.swapaxes(1, 2)))
    C = np.clip({value}, LOW[0], HIGH[0])
    C = C * np.maximum(1.0, LOW[-1] / C.max(axis=1, keepdims=True))
    root = L @ (Q * np.sqrt(np.maximum(C, C.max(axis=1, keepdims=True) * {ratio!r}))[:, None, :])
    return np.outer(unit, unit) * (root @ root.swapaxes(1, 2))

"""
FUNCTIONS = '''
def drift(x):
    """f at points x of shape (n, {m}): shape (n, {d})."""
    x = _points(x)
    return {drift}


def covariance(x):
    """Sigma at points x of shape (n, {m}), positive definite: shape (n, {d}, {d})."""
    x = _points(x)
    return _limited({noise})


def diffusion(x):
    """The lower triangular sigma with sigma sigma^T = Sigma at points x of shape (n, {m}): shape (n, {d}, {d})."""
    return np.linalg.cholesky(covariance(x))
'''


def source_of_learned(sde: LearnedSDE) -> str:
    """The module of a learned equation."""
    if sde.drift_in_noise_units:
        raise InputError(
            "this drift is a product of two learned functions (fit(..., refine=False, weight_drift=True)), which "
            "to_source does not know: learn it without the additional step"
        )
    parts = [
        _head(sde),
        _series_constants("DRIFT", sde.drift_function.series),
        _series_constants("NOISE", sde.covariance_function.series),
        _limits(sde, sde.link),
        POINTS + SERIES,
        FUNCTIONS.format(m=sde.n_inputs, d=sde.n_outputs, drift="_series(x, *DRIFT)", noise="_series(x, *NOISE)"),
    ]
    return "".join(parts)


def source_of_formula(formula: Formula) -> str:
    """The module of a formula, its terms written out."""
    lines = (*formula.drift_lines, *formula.noise_lines)
    own = [term.name for line in lines for term in line.terms if term.function is not None]
    if own:
        raise InputError(
            f"to_source writes terms that it knows; {own[0]!r} is a function of the user: leave it out, or write it "
            "into the module of a formula without it"
        )
    d = formula.n_outputs
    drift, noise = (
        "np.stack([\n" + "".join(f"        {_sum(line)},\n" for line in each) + "    ], axis=1)"
        for each in (formula.drift_lines, formula.noise_lines)
    )
    squared = ""
    if formula.noise_lines[0].slot.what == "diffusion":
        squared = (
            "\ndef _squared(entries):\n    lower = np.tril(_matrices(entries))\n"
            "    return (lower @ lower.swapaxes(1, 2))[:, ROWS, COLUMNS]\n\n"
        )
        noise = f"_squared({noise})"
    functions = FUNCTIONS.format(m=formula.n_inputs, d=d, drift=drift, noise=noise)
    return _head(formula) + _limits(formula, "identity") + POINTS + squared + functions


def _sum(line: object) -> str:
    """The right-hand side of a line, in Python."""
    terms, coefficients = line.terms, line.coefficients  # type: ignore[attr-defined]
    parts = [f"({float(c)!r}){_factors(term)}" for term, c in zip(terms, coefficients, strict=True)]
    return " + ".join([*parts, "0.0 * x[:, 0]"] if not parts or all(t.is_constant for t in terms) else parts)


def _factors(term: Term) -> str:
    factors = [f"x[:, {i}]" + (f" ** {power}" if power > 1 else "") for i, power in enumerate(term.powers) if power]
    factors += [f"np.{wave.shape}({wave.frequency!r} * x[:, {wave.place}])" for wave in term.waves]
    return "".join(f" * {factor}" for factor in factors)


def _head(sde: LearnedSDE | Formula) -> str:
    ends = (", ".join(f"{value:.6g}" for value in end) for end in sde.box)
    low, high = (f"({text})" for text in ends)
    return HEAD.format(
        outputs=", ".join(sde.output_names).replace('"""', "'''").replace("\\", "/"),
        inputs=", ".join(sde.input_names).replace('"""', "'''").replace("\\", "/"),
        version=__version__,
        m=sde.n_inputs,
        d=sde.n_outputs,
        low=low,
        high=high,
        input_names=list(sde.input_names),
        output_names=list(sde.output_names),
        units=sde.units.as_dict(),
    )


def _limits(sde: LearnedSDE | Formula, link: str) -> str:
    """Constants and functions that make Σ of its entries."""
    rows, columns = entries(sde.structure, sde.n_outputs)
    constants = {
        "ROWS": rows,
        "COLUMNS": columns,
        "FACTOR": sde.floor_factor,
        "LOW": sde.limits[0],
        "HIGH": sde.limits[1],
    }
    text = "\n" + "".join(f"{name} = {_array(value)}\n" for name, value in constants.items()) + "\n"
    if sde.structure == "diagonal" or sde.n_outputs == 1:
        scaled = "entries / own" if link == "identity" else "entries"
        return text + MATRICES + DECOUPLED.format(scaled=scaled, value=VALUES[link])
    scaled = "back @ (H / np.outer(unit, unit)) @ back.T" if link == "identity" else "H"
    return text + MATRICES + FULL.format(scaled=scaled, value=VALUES[link], ratio=LEAST_RATIO)


def _series_constants(name: str, series: FourierSeries) -> str:
    arrays = (series.omega, series.beta.real, series.beta.imag, series.shift, series.scale, series.offset)
    return f"\n{name} = (\n" + "".join(f"    {_array(array)},\n" for array in arrays) + ")\n"


def _array(array: npt.NDArray[np.generic]) -> str:
    """An array as Python reads it, to the last bit."""
    kind = "int" if array.dtype.kind == "i" else "float"
    listed = repr(array.tolist()).replace("inf", "np.inf")
    return f"np.array({listed}, dtype={kind}).reshape({array.shape!r})"
