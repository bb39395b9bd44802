"""Options that several commands share, written once: a dataclass whose fields are options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")


def with_option_groups(command: Callable[..., T]) -> Callable[..., T]:
    """A command in which each parameter of a dataclass's type stands for options, one for each field.

    Typer reads a command's options from its signature. There the fields take the place of the parameter, and the
    command is called with the object that is made of them.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, type[Any]] = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation)
    }
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        parameters += _fields_as_parameters(groups[name]) if name in groups else [parameter]

    @functools.wraps(command)
    def called_with_options(**options: Any) -> T:  # noqa: ANN401
        for name, group in groups.items():
            options[name] = group(**{field.name: options.pop(field.name) for field in fields(group)})
        return command(**options)

    called_with_options.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    called_with_options.__annotations__ = {each.name: each.annotation for each in parameters}
    return called_with_options


def _fields_as_parameters(group: type[Any]) -> list[inspect.Parameter]:
    """The fields of a dataclass as parameters of a function."""
    types = get_type_hints(group, include_extras=True)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [
        inspect.Parameter(field.name, kind, default=field.default, annotation=types[field.name])
        for field in fields(group)
    ]
