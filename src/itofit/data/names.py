"""Words: kinds and forms of transitions, names of variables, numbers in messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Literal, Protocol

from itofit._checks import InputError

Kind = Literal["diffusion", "underdamped", "general"]
Form = Literal["pairs", "increments", "underdamped", "trajectory", "trajectories"]
Names = Sequence[str] | str


class Named(Protocol):
    """What has names of inputs and outputs."""

    @property
    def input_names(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def output_names(self) -> tuple[str, ...]: ...  # noqa: D102


class HasVariables(Named, Protocol):
    """What also has numbers of inputs and outputs, and a kind: transitions, and models of them."""

    @property
    def n_inputs(self) -> int: ...  # noqa: D102
    @property
    def n_outputs(self) -> int: ...  # noqa: D102
    @property
    def kind(self) -> Kind: ...  # noqa: D102


def default_names(m: int, d: int, kind: Kind) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What m inputs and d outputs are called if nobody says."""
    if kind == "underdamped":
        velocities = _numbered("v", d)
        return _numbered("x", d) + velocities, velocities
    return _numbered("x", m), _numbered("x", d)


def _numbered(letter: str, n: int) -> tuple[str, ...]:
    return (letter,) if n == 1 else tuple(f"{letter}{i}" for i in range(1, n + 1))


def names_of(
    m: int, d: int, kind: Kind, inputs: Names | None = None, outputs: Names | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of inputs and outputs from those that were given: outputs that are among the inputs have their names."""
    default_inputs, default_outputs = default_names(m, d, kind)
    if inputs is None and outputs is not None and kind == "diffusion":
        inputs = outputs
    input_names = default_inputs if inputs is None else checked_names("input_names", inputs, m)
    if outputs is not None:
        return input_names, checked_names("output_names", outputs, d)
    return input_names, default_outputs if kind == "general" else input_names[-d:]


def underdamped_names(d: int, names: Names | None, velocity_names: Names | None = None) -> tuple[str, ...] | None:
    """Names of positions and velocities; None if neither were given."""
    if names is None and velocity_names is None:
        return None
    positions = _numbered("x", d) if names is None else checked_names("names", names, d)
    if velocity_names is None:
        return positions + tuple(f"v_{name}" for name in positions)
    return positions + checked_names("velocity_names", velocity_names, d)


def checked_names(argument: str, names: Names, n: int) -> tuple[str, ...]:
    """So many different names as a tuple."""
    found = (names,) if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if len(found) != n or not all(isinstance(name, str) and name.strip() for name in found):
        raise InputError(f"{argument} must be {n} string{'s' * (n != 1)}, one for each variable, got {names!r}")
    if len(set(found)) < n:
        raise InputError(f"{argument} must differ from each other, got {names!r}")
    return tuple(map(str, found))


def same_names(data: Named, other: Named) -> None:
    """Raise unless the variables of two sets of transitions have the same names."""
    for what in ("input", "output"):
        found, expected = (getattr(part, f"{what}_names") for part in (data, other))
        if found != expected:
            raise InputError(
                f"the {what}s are called {', '.join(found)}, those before {', '.join(expected)}: all must have the "
                "same names in the same order"
            )


def are_named(things: HasVariables) -> bool:
    """Whether somebody said what the variables are called."""
    default = default_names(things.n_inputs, things.n_outputs, things.kind)
    return (things.input_names, things.output_names) != default


def check_variables(model: HasVariables, data: HasVariables) -> None:
    """Raise if data have other numbers of variables than a model, or one of its variables at another place.

    Places are compared only where both were given names, whatever other names they have: a variable may have been
    renamed.
    """
    if (data.n_inputs, data.n_outputs) != (model.n_inputs, model.n_outputs):
        raise InputError(
            f"the model has {plural(model.n_inputs, 'input')} and {plural(model.n_outputs, 'output')}, "
            f"the data {data.n_inputs} and {data.n_outputs}"
        )
    if not (are_named(model) and are_named(data)):
        return
    for what in ("input", "output"):
        expected, found = (getattr(each, f"{what}_names") for each in (model, data))
        moved = [name for i, name in enumerate(found) if name in expected and expected[i] != name]
        if moved:
            raise InputError(
                f"the {what}s of the data are not in the order of the model's: the model has {', '.join(expected)}, "
                f"the data {', '.join(found)}; make the data again with their variables in the order of the model"
            )


def meant(name: object, known: Iterable[object]) -> str:
    """A question in brackets whether a similar known name is meant; nothing if none is similar."""
    plain = {str(each).strip().lower(): each for each in known}
    near = get_close_matches(str(name).strip().lower(), list(plain), n=1)
    return f" (is it {plain[near[0]]!r} that you mean?)" if near else ""


def shown_range(low: float, high: float) -> str:
    """Two numbers, or one if they differ by rounding alone."""
    return f"{low:g}" if high - low <= 1e-9 * high else f"{low:.3g} to {high:.3g}"


def plural(n: int, word: str) -> str:
    """A number and what it counts, in words."""
    return f"{n} {word}" if n == 1 else f"{n} {word}s"
