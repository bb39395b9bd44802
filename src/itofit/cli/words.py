"""How the command line words the library's messages: arguments as options, variables as columns of the file."""

from __future__ import annotations

from functools import partial

from itofit._checks import Either, Message, Option, Variable
from itofit.data.names import HasNames

OPTIONS = {
    "path": "FILE",
    "time": "--time",
    "state": "--state",
    "track": "--track",
    "velocity": "--velocity",
    "dt": "--dt",
    "unit": "--unit",
    "min_h": "--min-step",
    "max_h": "--max-step",
    "second_order": "--second-order",
    "wide": "--wide",
    "decimal": "--decimal",
    "dayfirst": "--dayfirst",
    "sheet": "--sheet",
    "held_out": "--held-out",
    "ensemble": "--ensemble",
    "bootstrap": "--bootstrap",
    "structure": "--structure",
    "link": "--link",
    "correct_step": "--correct-step",
    "measurement_noise": "--measurement-noise",
    "scheme": "--scheme",
    "n_steps": "--steps",
    "rng": "--seed",
    "covariates": "--covariate",
    "periodic": "--periodic",
    "client": "--workers",
    "degree": "--degree",
    "terms": "--terms",
    "units": "--units",
    "time_unit": "--units",
    "noise": "--noise",
    "false_alarms": "--false-alarms",
}
"""Arguments of the library's functions, and the options that set them. Other arguments keep their names."""


SWITCHES = {"--correct-step": "--no-correct-step"}
"""Options that can be switched off, and how. Arguments of others that are False keep their names."""


def worded(message: str, names: HasNames | None = None) -> str:
    """A message of the library as the command line says it; a plain text as it is.

    Parameters
    ----------
    message : str or Message
    names : optional
        Data that name the variables which the message knows by their places alone.
    """
    return message.worded(partial(word, names=names)) if isinstance(message, Message) else message


def word(part: object, names: HasNames | None = None) -> str | None:
    """A field of a message in the words of the command line; None if these are Python's."""
    if isinstance(part, Option):
        return _option(part)
    if isinstance(part, Either):
        return part.command
    if isinstance(part, Variable):
        return _column(part, names)
    return None


def _option(argument: Option) -> str | None:
    option = OPTIONS.get(argument.name)
    if option is None:
        return None
    if argument.value is False:
        return SWITCHES.get(option)
    return option if argument.value is None or argument.value is True else f"{option} {argument.value}"


def _column(variable: Variable, names: HasNames | None) -> str | None:
    name = variable.name
    if name is None and names is not None:
        known = names.input_names if variable.role == "inputs" else names.output_names
        name = known[variable.place] if variable.place < len(known) else None
    return None if name is None else f"column {name!r}"
