"""FitOptions: what may be asked of `fit`, checked before any work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from itofit._checks import RNG, Float, InputError, Option, count, flag, fraction, generator, one_of, positive, shown
from itofit.data.names import Kind
from itofit.matrices.links import LINKS, Link, LinkName
from itofit.matrices.symmetric import LEAST_FLOOR, Structure
from itofit.waves.parameters import ARFF

Check = Callable[[str, object], object]


def _word(*words: str) -> Check:
    return lambda name, value: one_of(name, value, words)


def _or_none(check: Check) -> Check:
    return lambda name, value: None if value is None else check(name, value)


def _parameters(name: str, value: object) -> None:
    if not isinstance(value, ARFF):
        raise InputError(f"{name} must be an itofit.ARFF or None, got {type(value).__name__}")


def _floor(name: str, value: object) -> None:
    if fraction(name, value) < LEAST_FLOOR:
        raise InputError(f"{name} must be at least {LEAST_FLOOR:g}, or rounding would undo it, got {value!r}")


def _seed(name: str, value: object) -> None:
    generator(value)  # type: ignore[arg-type]


def _is_auto(value: object) -> bool:
    """Whether it is the word, and not an array, each of whose entries would be compared with it."""
    return isinstance(value, str) and value == "auto"


def _flag_or_auto(name: str, value: object) -> None:
    if not _is_auto(value):
        flag(name, value)


def _length_or_auto(name: str, value: object) -> None:
    if value is not None and not _is_auto(value):
        positive(name, value)


def _members(name: str, value: object) -> None:
    count(name, value, least=2)


def _resampled_fits(name: str, value: object) -> None:
    count(name, value, least=10)


NoiseOption = Literal["auto", False] | float | npt.ArrayLike
"""What errors of measurement may be said to be."""
LARGEST_NOISE = 1e150
"""Standard deviation of errors whose square is still finite."""
LEAST_EIGENVALUE = -1e-9
"""Of a covariance of errors in units of its diagonal: less is no rounding."""


def _measurement_noise(name: str, value: object) -> None:
    if (isinstance(value, bool | np.bool_) and not value) or _is_auto(value):
        return
    expected = "{option} must be 'auto', False, a standard deviation > 0, one for each variable, or a covariance matrix"
    option = Option(name)
    if isinstance(value, str | bool | np.bool_ | np.timedelta64) or value is None:
        raise InputError(expected + ", got {value}", option=option, value=shown(value))
    try:
        with np.errstate(over="ignore"):  # infinite then
            array = np.asarray(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise InputError(expected + ", got {value}", option=option, value=shown(value)) from None
    if array.ndim > 2 or (array.ndim == 2 and array.shape[0] != array.shape[1]) or not array.size:
        raise InputError(expected + ", got an array of shape {shape}", option=option, shape=array.shape)
    if not (np.abs(array) < LARGEST_NOISE).all():
        raise InputError(
            "{option} must be finite and of a size that can be squared, got {value!r}", option=option, value=value
        )
    if array.ndim < 2:
        if not (array > 0).all():
            raise InputError(expected + ", got {value!r}; no errors are False", option=option, value=value)
        return
    unit = np.sqrt(np.maximum(np.abs(np.diagonal(array)), 1e-300))
    relative = array / np.outer(unit, unit)
    if np.abs(relative - relative.T).max() > -LEAST_EIGENVALUE:
        raise InputError("{option} must be a symmetric matrix, got {value!r}", option=option, value=value)
    least = float(np.linalg.eigvalsh(relative)[0])
    if least < LEAST_EIGENVALUE or not np.diagonal(array).any():
        raise InputError(
            "{option} must be a positive semidefinite covariance matrix other than zero, got one whose smallest "
            "eigenvalue is {least:.3g} in units of its diagonal; variances of independent errors are a diagonal matrix",
            option=option,
            least=least,
        )


ALLOWED: dict[str, Check] = {
    "structure": _word("auto", *get_args(Structure)),
    "link": _word("auto", *get_args(LinkName)),
    "floor": _or_none(_floor),
    "refine": flag,
    "correct_step": _flag_or_auto,
    "weight_drift": _or_none(flag),
    "cross_fit": _or_none(flag),
    "drift": _or_none(_parameters),
    "covariance": _or_none(_parameters),
    "ensemble": _or_none(_members),
    "bootstrap": _or_none(_resampled_fits),
    "max_h": _length_or_auto,
    "measurement_noise": _measurement_noise,
    "rng": _seed,
}
"""What each option may be."""

NEED_REFINE: dict[str, tuple[tuple[object, ...], str]] = {
    "link": (
        ("auto", "identity"),
        "refine=False learns the entries of Σ themselves: link must be 'identity', got {value!r}",
    ),
    "correct_step": (
        ("auto", False),
        "correct_step=True needs refine=True: Algorithm 2 learns the mean and covariance of one step",
    ),
    "cross_fit": (
        (None, False),
        "cross_fit=True needs refine=True: Algorithm 2 takes the residuals of its own training data",
    ),
    "ensemble": ((None,), "ensemble needs refine=True: what Algorithm 2 learns carries no error bars"),
    "bootstrap": ((None,), "bootstrap needs refine=True: what Algorithm 2 learns carries no error bars"),
}
"""What options may be with ``refine=False``, and what is said of anything else."""


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """The options of `itofit.fit`, where they are explained; each is checked when they are made."""

    structure: Structure | Literal["auto"] = "auto"
    link: LinkName | Literal["auto"] = "auto"
    drift: ARFF | None = None
    covariance: ARFF | None = None
    floor: float | None = None
    refine: bool = True
    weight_drift: bool | None = None
    cross_fit: bool | None = None
    ensemble: int | None = None
    bootstrap: int | None = None
    correct_step: bool | Literal["auto"] = "auto"
    max_h: float | Literal["auto"] | None = "auto"
    measurement_noise: NoiseOption = "auto"
    rng: RNG = None

    def __post_init__(self) -> None:
        for name, check in ALLOWED.items():
            check(name, getattr(self, name))
        if self.ensemble is not None and self.bootstrap is not None:
            raise InputError("choose {one} or {other}", one=Option("ensemble"), other=Option("bootstrap"))
        if not self.refine:
            for name, (allowed, message) in NEED_REFINE.items():
                if getattr(self, name) not in allowed:
                    raise InputError(message.format(value=getattr(self, name)))
            if self.noise_is_known:
                raise InputError(
                    "{option} needs refine=True: Algorithm 2 takes observations for the states themselves",
                    option=Option("measurement_noise"),
                )

    @property
    def drift_parameters(self) -> ARFF:
        """Algorithm 1's parameters for the drift."""
        return self.drift or ARFF()

    @property
    def covariance_parameters(self) -> ARFF:
        """Algorithm 1's parameters for the covariance."""
        return self.covariance or ARFF()

    def corrects_step(self, kind: Kind) -> bool:
        """Whether to look for what the length of steps makes of transitions of this kind."""
        if self.correct_step == "auto":
            return self.refine and kind != "general"
        return bool(self.correct_step)

    @property
    def noise_is_known(self) -> bool:
        """Whether errors of measurement were given."""
        return not isinstance(self.measurement_noise, str | bool | np.bool_)

    def known_noise(self, d: int) -> Float | None:
        """Their covariance (d, d); None if it is not known."""
        if not self.noise_is_known:
            return None
        given = np.asarray(self.measurement_noise, dtype=np.float64)
        if given.ndim == 0:
            return np.eye(d) * given**2
        if given.shape not in ((d,), (d, d)):
            raise InputError(
                "{option} must have shape ({d},), standard deviations, or ({d}, {d}), a covariance, for {d} variables "
                "that move, got {shape}",
                option=Option("measurement_noise"),
                d=d,
                shape=given.shape,
            )
        return np.diag(given**2) if given.ndim == 1 else 0.5 * (given + given.T)

    @property
    def links(self) -> tuple[Link, ...]:
        """The links to choose from, the simplest first."""
        return tuple(LINKS.values()) if self.link == "auto" else (LINKS[self.link],)
