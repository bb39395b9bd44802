"""Kinds and forms of transitions, names of their variables, and numbers in messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np

from itofit._checks import Either, Float, InputError, Message, Option, gone_through, one_of, shown
from itofit.data.units import NO_UNITS, Units, clock_beside, same_unit

Kind = Literal["diffusion", "underdamped", "positions", "general"]
Form = Literal["pairs", "increments", "underdamped", "trajectory", "trajectories"]
Names = Sequence[str] | str


class HasNames(Protocol):
    """What has names of inputs and outputs."""

    @property
    def input_names(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def output_names(self) -> tuple[str, ...]: ...  # noqa: D102


class HasVariables(HasNames, Protocol):
    """What has inputs and outputs with names, and a kind: transitions, and models of them."""

    @property
    def n_inputs(self) -> int: ...  # noqa: D102
    @property
    def n_outputs(self) -> int: ...  # noqa: D102
    @property
    def kind(self) -> Kind: ...  # noqa: D102
    @property
    def n_covariates(self) -> int: ...  # noqa: D102
    @property
    def periods(self) -> Float: ...  # noqa: D102
    @property
    def units(self) -> Units: ...  # noqa: D102


def default_names(m: int, d: int, kind: Kind, k: int = 0) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Default names of m inputs, the last k of which are covariates, and d outputs."""
    covariates = _numbered("u", k) if k else ()
    if kind == "underdamped":
        velocities = _numbered("v", d)
        return _numbered("x", d) + velocities + covariates, velocities
    outputs = _numbered("v" if kind == "positions" else "x", d)
    return _numbered("x", m - k) + covariates, outputs


def _numbered(letter: str, n: int) -> tuple[str, ...]:
    return (letter,) if n == 1 else tuple(f"{letter}{i}" for i in range(1, n + 1))


def names_of(
    m: int, d: int, kind: Kind, inputs: Names | None = None, outputs: Names | None = None, k: int = 0
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of m inputs and d outputs: those given, else the default; outputs among the inputs share their names."""
    default_inputs, default_outputs = default_names(m, d, kind, k)
    if inputs is None and outputs is not None and kind == "diffusion":
        inputs = checked_names("output_names", outputs, d) + default_inputs[m - k :]
    input_names = default_inputs if inputs is None else checked_names("input_names", inputs, m)
    if outputs is not None:
        return input_names, checked_names("output_names", outputs, d)
    if kind == "positions":
        return input_names, default_outputs if inputs is None else tuple(f"v_{name}" for name in input_names[: m - k])
    return input_names, default_outputs if kind == "general" else input_names[: m - k][-d:]


def checked_variables(
    m: int,
    d: int,
    kind: Kind | None,
    inputs: Names | None,
    outputs: Names | None,
    k: int = 0,
    covariates: Names | None = None,
) -> tuple[Kind, tuple[str, ...], tuple[str, ...]]:
    """The kind of transitions with m inputs and d outputs, by default "diffusion" if m = d, and their names.

    Besides the m inputs there are k covariates, with names of their own.
    """
    if kind is None:
        kind = "diffusion" if m == d else "general"
    one_of("kind", kind, get_args(Kind))
    if kind in ("diffusion", "positions") and m != d:
        text = "{kind} needs as many inputs as increments, got {m} and {d}"
        raise InputError(text, kind=Option("kind", kind), m=m, d=d)
    if kind == "underdamped" and m != 2 * d:
        text = "{kind} needs a position and a velocity for each increment: expected {expected} inputs, got {m}"
        raise InputError(text, kind=Option("kind", kind), expected=2 * d, m=m)
    state_names, output_names = names_of(m, d, kind, inputs, outputs)
    return kind, *with_covariate_names(state_names, output_names, k, covariates)


def with_covariate_names(
    state: tuple[str, ...], outputs: tuple[str, ...], k: int, covariates: Names | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of all inputs and of the outputs, given those of the state and of k covariates."""
    if covariates is not None and not k:
        raise InputError("{names} were given, but no covariates", names=Option("covariate_names"))
    own = (_numbered("u", k) if k else ()) if covariates is None else checked_names("covariate_names", covariates, k)
    if both := [name for name in own if name in state]:
        text = "{names}: {name!r} is the name of a variable of the state already; give covariates names of their own"
        raise InputError(text, names=Option("covariate_names"), name=both[0])
    return state + own, outputs


def underdamped_names(d: int, names: Names | None, velocity_names: Names | None = None) -> tuple[str, ...] | None:
    """Names of positions and velocities; None if neither were given."""
    if names is None and velocity_names is None:
        return None
    positions = _numbered("x", d) if names is None else checked_names("names", names, d)
    if velocity_names is None:
        return positions + tuple(f"v_{name}" for name in positions)
    return positions + checked_names("velocity_names", velocity_names, d)


def position_names(
    d: int, names: Names | None, velocity_names: Names | None = None
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Names of positions, and those of velocities that were not observed; None and None if neither were given."""
    both = underdamped_names(d, names, velocity_names)
    return (None, None) if both is None else (both[:d], both[d:])


def checked_names(argument: str, names: Names, n: int) -> tuple[str, ...]:
    """The given names as a tuple; raise unless they are n different ones."""
    listed = None if isinstance(names, str) else gone_through(names)
    given = (names,) if listed is None else tuple(listed)
    if len(given) != n or not all(isinstance(name, str) and name.strip() for name in given):
        text = "{option} must be {strings}, one for each variable, got {got}"
        raise InputError(text, option=Option(argument), strings=plural(n, "string"), got=shown(names))
    if len(set(given)) < n:
        raise InputError("{option} must differ from each other, got {got!r}", option=Option(argument), got=names)
    return tuple(map(str, given))


def same_names(data: HasNames, other: HasNames) -> None:
    """Raise unless the variables of two sets of transitions have the same names."""
    for role in ("input", "output"):
        names, expected = (getattr(part, f"{role}_names") for part in (data, other))
        if names != expected:
            raise InputError(
                f"the {role}s are called {', '.join(names)}, those before {', '.join(expected)}: all must have the "
                "same names in the same order"
            )


def same_variables(parts: Sequence[HasVariables]) -> None:
    """Raise unless all parts have the same inputs, outputs, kind, covariates and periodic variables."""
    forms = {(part.n_inputs, part.n_outputs, part.kind) for part in parts}
    if len(forms) > 1:
        raise InputError(f"all parts must have the same inputs, outputs and kind, got {sorted(forms)}")
    for part in parts[1:]:
        same_names(part, parts[0])
        same_drivers_and_periods(part, parts[0])


def same_surroundings(data: HasVariables, other: HasVariables) -> None:
    """Raise unless two sets of transitions have the same covariates, periodic variables and units."""
    same_drivers_and_periods(data, other)
    same_units(data.units, other.units)


def same_drivers_and_periods(data: HasVariables, other: HasVariables) -> None:
    """Raise unless two sets of transitions have the same covariates and periodic variables."""
    if data.n_covariates != other.n_covariates:
        raise InputError(f"there are {plural(data.n_covariates, 'covariate')}, and before {other.n_covariates}")
    if not np.array_equal(data.periods, other.periods):
        raise InputError("the periods of the variables differ from those before: all must have the same")


def same_units(units: Units, before: Units) -> None:
    """Raise if a unit is another one in the units before."""
    if problem := other_units(units, before):
        raise InputError(f"{problem} before: all must have the same units")


class Variables(NamedTuple):
    """Inputs and outputs with their names, and a kind."""

    n_inputs: int
    n_outputs: int
    kind: Kind
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    periods: Float
    n_covariates: int = 0
    units: Units = NO_UNITS


def with_velocities(data: HasVariables) -> HasVariables:
    """The variables of data; of positions, with the velocities that were not observed."""
    if data.kind != "positions":
        return data
    d, outputs = data.n_outputs, data.output_names
    names = data.input_names[:d] + outputs + data.input_names[d:]
    periods = np.insert(data.periods, [d] * d, 0.0, axis=1)
    return Variables(len(names), d, "underdamped", names, outputs, periods, data.n_covariates, data.units)


def has_given_names(owner: HasVariables) -> bool:
    """Whether the variables have names other than the default ones."""
    default = default_names(owner.n_inputs, owner.n_outputs, owner.kind, owner.n_covariates)
    return (owner.input_names, owner.output_names) != default


def check_variables(model: HasVariables, data: HasVariables) -> None:
    """Raise if data have other numbers of variables than a model, or one of its variables at another place.

    Places are compared only if model and data both have given names. Names that only one of them has are ignored: a
    variable may have been renamed.
    """
    if data.n_covariates != model.n_covariates:
        raise _other_covariates(model, data)
    if (data.n_inputs, data.n_outputs) != (model.n_inputs, model.n_outputs):
        raise InputError(
            f"the model has {plural(model.n_inputs, 'input')} and {plural(model.n_outputs, 'output')}, "
            f"the data {data.n_inputs} and {data.n_outputs}"
        )
    if not np.array_equal(model.periods, data.periods):
        raise _other_periods(model)
    if problem := other_units(data.units, model.units):
        raise InputError(f"{problem} in the model: give data in the units that the model was learned in")
    if not (has_given_names(model) and has_given_names(data)):
        return
    for role in ("input", "output"):
        expected, names = (getattr(each, f"{role}_names") for each in (model, data))
        if any(name in expected and expected[i] != name for i, name in enumerate(names)):
            raise InputError(
                "the {role}s of the data are not in the order of the model's: the model has {expected}, the data "
                "{names}; {advice}",
                role=role,
                expected=", ".join(expected),
                names=", ".join(names),
                advice=Either(
                    python="make the data again with their variables in the order of the model",
                    command="give them so with --state",
                ),
            )


def _other_covariates(model: HasVariables, data: HasVariables) -> InputError:
    """The error for data with more or fewer covariates than a model."""
    drivers = ", ".join(model.input_names[model.n_inputs - model.n_covariates :])
    return InputError(
        "the model is driven by {drivers}, the data by {got}: make the data with {covariates}",
        drivers=drivers or "nothing",
        got=", ".join(data.input_names[data.n_inputs - data.n_covariates :]) or "nothing",
        covariates=Option("covariates", keyword=True) if drivers else Message("no {c}", c=Option("covariates")),
    )


def other_units(units: Units, before: Units) -> str:
    """In which unit the first variable, or time, is that has another one in other units; empty if there is none."""
    pairs = [(name, own, before.of(name)) for name, own in zip(units.names, units.symbols, strict=True)]
    pairs.append((clock_beside({*units.names, *before.names}), units.time, before.time))
    return next((f"{name} is in {own}, and in {other}" for name, own, other in pairs if not same_unit(own, other)), "")


def _other_periods(model: HasVariables) -> InputError:
    """The error for data whose periodic variables are not those of a model."""
    ends = zip(model.input_names, *model.periods.tolist(), strict=True)
    given = {name: low_high for name, *low_high in ends if low_high[1] > low_high[0]}
    shown = ", ".join(f"{name!r}: ({low!r}, {high!r})" for name, (low, high) in given.items())
    options = " ".join(f"--periodic {name}={low!r}:{high!r}" for name, (low, high) in given.items())
    return InputError(
        "the model and the data do not have the same periodic variables: make the data with {periodic}",
        periodic=Either(
            python=f"periodic={{{shown}}}" if given else "no periodic=", command=options or "no --periodic"
        ),
    )


def in_order(argument: str, given: Any, names: Sequence[str]) -> Any:  # noqa: ANN401
    """Of a table the columns of some names in their order; raise if it lacks one. Anything else as it is.

    Columns that are only numbered, as those of a DataFrame made of an array, are taken as they stand.
    """
    of_arrow = None if isinstance(given, np.ndarray) else getattr(given, "column_names", None)
    if of_arrow is None and not hasattr(given, "columns"):
        return given
    there = list(given.columns if of_arrow is None else of_arrow)
    missing = next((name for name in names if name not in there), None)
    if missing is None:
        return given[list(names)] if of_arrow is None else given.select(list(names))
    if there == list(range(len(there))) or there == [f"column_{i}" for i in range(len(there))]:
        return given
    raise InputError(
        "{option}: the table has no column {name!r}{hint}: rename its columns {there} so that {names} are among them, "
        "or give an array of values in the order of these",
        option=Option(argument),
        name=missing,
        hint=did_you_mean(missing, there),
        there=", ".join(map(repr, there[:20])) + (", ..." if len(there) > 20 else ""),
        names=", ".join(names),
    )


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """A question in brackets that suggests the most similar known name; empty if none is similar."""
    plain = {str(each).strip().lower(): each for each in known}
    near = get_close_matches(str(name).strip().lower(), list(plain), n=1)
    return f" (is it {plain[near[0]]!r} that you mean?)" if near else ""


def shown_range(low: float, high: float) -> str:
    """Two numbers, or one if they differ by rounding alone."""
    return f"{low:g}" if high - low <= 1e-9 * high else f"{low:.3g} to {high:.3g}"


def plural(n: int, word: str) -> str:
    """A number and what it counts, in words."""
    return f"{n} {word}" if n == 1 else f"{n} {word}s"
