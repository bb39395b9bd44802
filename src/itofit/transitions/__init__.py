"""Transitions: what training learns from, whatever form the observations came in."""

from itofit.rows import PASS_ROWS
from itofit.transitions.blocked import BlockedTransitions
from itofit.transitions.memory import Transitions
from itofit.transitions.words import (
    Form,
    Kind,
    Names,
    are_named,
    check_variables,
    default_names,
    meant,
    names_of,
    plural,
    shown_range,
)

__all__ = [
    "PASS_ROWS",
    "BlockedTransitions",
    "Form",
    "Kind",
    "Names",
    "Transitions",
    "are_named",
    "check_variables",
    "default_names",
    "meant",
    "names_of",
    "plural",
    "shown_range",
]
