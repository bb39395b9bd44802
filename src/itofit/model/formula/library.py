"""The terms that a formula may be made of: monomials, sines and cosines, products of these, functions of the user.

A term is a product of powers of inputs and of waves, or a function that the user names:

    φ(x) = Π_i x_i^powers_i · Π_w sin(ω_w x_w)  (or cos)

Of a periodic input the library has waves that fit into its period in the place of powers; the k-th counts as degree k.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from itofit._checks import Float, InputError, Option, answer_of, count
from itofit.data.names import HasVariables, did_you_mean
from itofit.data.periods import is_periodic
from itofit.data.units import SUPERSCRIPTS

Function = Callable[[Any], Any]
Terms = Mapping[str, Function] | Sequence["str | tuple[str, Function]"] | str
Shape = Literal["sin", "cos"]

MOST_TERMS = 400
"""Of a library: what is kept while it is summed over the data grows with the square of their number."""
DEFAULT_DEGREE = 3
PLAIN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
HIGHEST_POWER = 20
ROUNDED = 1e-3
"""Of a period: by how much less or more than a whole number of waves may fit into it, since frequencies are rounded."""


class Wave(NamedTuple):
    """sin or cos of an input times a frequency."""

    shape: Shape
    place: int
    frequency: float


@dataclass(frozen=True)
class Term:
    """One function φ of the inputs that a formula may contain.

    Parameters
    ----------
    name : str
        How it is written.
    powers : tuple of m int
        Of the inputs.
    waves : tuple of Wave
        Sines and cosines that multiply them.
    function : callable, optional
        A function of the user instead: points of shape (n, m) to values of shape (n,).
    """

    name: str
    powers: tuple[int, ...]
    waves: tuple[Wave, ...] = ()
    function: Function | None = None

    @property
    def constant(self) -> bool:
        """Whether it is the same everywhere."""
        return not (any(self.powers) or self.waves or self.function is not None)

    def __call__(self, x: Any, xp: Any = np) -> Any:  # noqa: ANN401
        """Values (...,) at points x (..., m), with the functions of NumPy or of a module that has them, too."""
        if self.function is not None:
            return answer_of("terms", self.function, x)
        value = xp.ones(x.shape[:-1], dtype=x.dtype)
        for place, power in enumerate(self.powers):
            if power:
                value = value * x[..., place] ** power
        for wave in self.waves:
            value = value * getattr(xp, wave.shape)(wave.frequency * x[..., wave.place])
        return value

    @property
    def is_constant(self) -> bool:
        """Whether it is the term 1."""
        return self.function is None and not any(self.powers) and not self.waves


def values_of(terms: Sequence[Term], x: Float) -> Float:
    """Values of K terms at points x (n, m): shape (n, K); an error names a term that is not what it should be."""
    out = np.empty((len(x), len(terms)))
    for k, term in enumerate(terms):
        if term.function is None:
            out[:, k] = term(x)
        else:
            out[:, k] = _of_the_user(term, x)
    return out


def _of_the_user(term: Term, x: Float) -> Float:
    """Values of a function of the user at points x (n, m), which may have returned anything."""
    values = np.asarray(term(x.copy()))  # a function that changes its argument spoils nothing
    if values.shape == (len(x), 1):
        values = values[:, 0]
    if values.shape != (len(x),) or values.dtype.kind not in "fiub":
        raise InputError(
            "the term {name!r} must return real numbers of shape ({n},), one for each of {n} points of shape {points}, "
            "got {kind} of shape {got}",
            name=term.name, n=len(x), points=x.shape, kind=values.dtype, got=values.shape,
        )  # fmt: skip
    bad = ~np.isfinite(values)
    if bad.any():
        at = ", ".join(f"{value:.6g}" for value in x[np.argmax(bad)])
        raise InputError(
            "the term {name!r} is not finite at {n_bad} of {n} points, for example at ({at}): leave it out, or define "
            "it for all of the data",
            name=term.name, n_bad=int(bad.sum()), n=len(x), at=at,
        )  # fmt: skip
    return values.astype(float)


# Libraries


def library(variables: HasVariables, terms: Terms | None, degree: int | None) -> list[Term]:
    """All terms that are tried: monomials and waves up to a degree, and those that the user gave."""
    degree = default_degree(variables) if degree is None else count("degree", degree, least=0)
    found = {term.name: term for term in _up_to(variables, degree)}
    kinds = {(term.powers, term.waves) for term in found.values()}
    given = list(_given(variables, terms))
    names = [term.name for term in given]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError("{terms} holds {name!r} twice", terms=Option("terms"), name=twice[0])
    for term in given:
        if term.function is not None and term.name in found:
            raise InputError("{terms}: {name!r} is a term already", terms=Option("terms"), name=term.name)
        if term.function is not None or (term.powers, term.waves) not in kinds:
            found[term.name] = term
    if len(found) > MOST_TERMS:
        raise InputError(
            "the library has {n} terms, more than {most}: give a lower {degree}, or {none} and the {terms} to choose "
            "from",
            n=len(found), most=MOST_TERMS, degree=Option("degree"), none=Option("degree", 0), terms=Option("terms"),
        )  # fmt: skip
    return list(found.values())


def default_degree(variables: HasVariables) -> int:
    """Four for one input, three for more, less where there would be too many terms."""
    if variables.n_inputs == 1:
        return DEFAULT_DEGREE + 1
    return next(degree for degree in (3, 2, 1) if degree == 1 or len(_up_to(variables, degree)) <= MOST_TERMS // 2)


def _up_to(variables: HasVariables, degree: int) -> list[Term]:
    """Products of powers and waves whose degrees add up to at most a degree, the lowest first."""
    m, periodic = variables.n_inputs, is_periodic(variables.periods)
    found = []
    for total in range(degree + 1):
        for chosen in itertools.combinations_with_replacement(range(m), total):
            powers = [chosen.count(i) for i in range(m)]
            harmonics = [(i, power) for i, power in enumerate(powers) if power and periodic[i]]
            rest = tuple(0 if periodic[i] else power for i, power in enumerate(powers))
            shapes: Iterable[tuple[Shape, ...]] = itertools.product(("sin", "cos"), repeat=len(harmonics))
            for shape in shapes:
                waves = tuple(
                    Wave(kind, i, _harmonic(variables, i, k)) for kind, (i, k) in zip(shape, harmonics, strict=True)
                )
                found.append(Term(_name(variables, rest, waves), rest, waves))
    return found


def _harmonic(variables: HasVariables, place: int, k: int) -> float:
    length = float(variables.periods[1, place] - variables.periods[0, place])
    return float(k) if abs(length - 2 * np.pi) < 1e-12 * length else 2 * np.pi * k / length


def _name(variables: HasVariables, powers: Sequence[int], waves: Sequence[Wave]) -> str:
    """A product as people write it: x² y sin(2 angle)."""
    names = variables.input_names
    parts = [f"{names[i]}{power_text(power)}" for i, power in enumerate(powers) if power]
    parts += [f"{wave.shape}({_multiple(wave.frequency)}{names[wave.place]})" for wave in waves]
    return " ".join(parts) or "1"


def _multiple(frequency: float) -> str:
    return "" if frequency == 1 else f"{frequency:.6g} "


def power_text(power: int) -> str:
    """A power as a superscript; nothing for one."""
    return "" if power == 1 else str(power).translate(SUPERSCRIPTS)


# Terms that the user gave


def _given(variables: HasVariables, terms: Terms | None) -> Iterator[Term]:
    if terms is None:
        return
    m = variables.n_inputs
    if isinstance(terms, str):
        terms = [terms]
    if not isinstance(terms, Mapping | Sequence):
        raise _wrong_terms(terms)
    for each in terms.items() if isinstance(terms, Mapping) else terms:
        if isinstance(each, str):
            yield parsed(each, variables)
            continue
        if not (isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str) and callable(each[1])):
            raise _wrong_terms(each)
        name, function = each
        if not name.strip():
            raise InputError("{terms}: a function needs a name", terms=Option("terms"))
        yield Term(name.strip(), (0,) * m, (), function)


def _wrong_terms(got: object) -> InputError:
    return InputError(
        "{terms} must be products as strings, as in ['x^2 y', 'sin(x)'], or functions by their names, as in "
        "{{'tanh(x)': lambda x: np.tanh(x[:, 0])}}, got {got!r}",
        terms=Option("terms"), got=got,
    )  # fmt: skip


def parsed(text: str, variables: HasVariables) -> Term:
    """A product of powers of inputs and of sines and cosines of them, as in "x^2 y" or "x*sin(2 y)"."""
    names = sorted(variables.input_names, key=len, reverse=True)
    name = "|".join(re.escape(each) for each in names)
    power = r"(?:\s*(?:\*\*|\^)\s*(?P<power>\d{1,9})|(?P<raised>[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,9}))?"
    times = r"(?:(?P<times>(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*[*·]?\s*)?"
    factor = re.compile(
        rf"(?:(?P<wave>sin|cos)\(\s*{times}(?P<angle>{name})\s*\)|(?P<name>{name}){power}|1)(?=$|[\s*·])"
    )
    powers, waves, place = [0] * variables.n_inputs, [], 0
    bare = text.strip()
    while place < len(bare):
        found = factor.match(bare, place)
        if found is None or not np.isfinite(float(found["times"] or 1)):
            raise _unreadable(text, bare[place:], variables)
        if found["wave"]:
            shape: Shape = "sin" if found["wave"] == "sin" else "cos"
            waves.append(Wave(shape, variables.input_names.index(found["angle"]), float(found["times"] or 1)))
        elif found["name"]:
            raised = int(found["power"] or (found["raised"] or "1").translate(PLAIN))
            powers[variables.input_names.index(found["name"])] += raised
        place = found.end()
        place += len(re.match(r"\s*[*·]?\s*", bare[place:])[0])  # type: ignore[index]
    if not bare:
        raise _unreadable(text, text, variables)
    if max(powers) > HIGHEST_POWER:
        raise InputError("the term {text!r} has a power above {most}", text=text, most=HIGHEST_POWER)
    _check_no_powers_of_periodic(text, powers, variables)
    waves = sorted(
        (_fitting(text, wave, variables) for wave in waves), key=lambda wave: (wave.place, wave.frequency, wave.shape)
    )
    return Term(_name(variables, powers, waves), tuple(powers), tuple(waves))


def _check_no_powers_of_periodic(text: str, powers: Sequence[int], variables: HasVariables) -> None:
    """Raise if a term has a power of a periodic input: it would jump where a period ends and the next one begins."""
    for place, (power, periodic) in enumerate(zip(powers, is_periodic(variables.periods), strict=True)):
        if power and periodic:
            raise InputError(
                "the term {text!r} has a power of {name}, which is periodic, so that it would jump from one period to "
                "the next: take {waves} in its place",
                text=text, name=variables.input_names[place], waves=_first_waves(variables, place),
            )  # fmt: skip


def _fitting(text: str, wave: Wave, variables: HasVariables) -> Wave:
    """A wave as it fits into the period of its input, if that has one; an error if the wave that was given does not."""
    if not is_periodic(variables.periods)[wave.place]:
        return wave
    k = wave.frequency / _harmonic(variables, wave.place, 1)
    if round(k) < 1 or abs(k - round(k)) > ROUNDED:
        raise InputError(
            "the term {text!r} has a wave that does not fit into the period of {name}, so that it would jump from one "
            "period to the next: take {waves}, or whole multiples of the frequency in these",
            text=text, name=variables.input_names[wave.place], waves=_first_waves(variables, wave.place),
        )  # fmt: skip
    return wave._replace(frequency=_harmonic(variables, wave.place, round(k)))


def _first_waves(variables: HasVariables, place: int) -> str:
    """The waves of one period of an input, as text."""
    name, frequency = variables.input_names[place], _harmonic(variables, place, 1)
    return " or ".join(f"{shape}({_multiple(frequency)}{name})" for shape in ("sin", "cos"))


def _unreadable(text: str, rest: str, variables: HasVariables) -> InputError:
    word = re.split(r"[\s*^(·]", rest.strip())[0]
    return InputError(
        "the term {text!r} cannot be read at {rest!r}{hint}: terms are products of powers, sines and cosines of "
        "{names}, as in {example!r}; give other functions by name, as in {{'tanh(x)': lambda x: np.tanh(x[:, 0])}}",
        text=text,
        rest=rest,
        hint=did_you_mean(word, variables.input_names),
        names=", ".join(variables.input_names),
        example=f"{variables.input_names[0]}^2 sin({variables.input_names[-1]})",
    )
