"""What the library says, in the words of the command line: options where it speaks of arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence

ARGUMENTS = {
    "time": "--time",
    "state": "--state",
    "track": "--track",
    "velocity": "--velocity",
    "dt": "--dt",
    "unit": "--unit",
    "min_h": "--min-step",
    "max_h": "--max-step",
    "held_out": "--held-out",
    "ensemble": "--ensemble",
    "structure": "--structure",
    "scheme": "--scheme",
    "n_steps": "--steps",
    "x0": "--start",
    "rng": "--seed",
}
"""Arguments of Python's functions, and the options that set them."""
_NAMES = "|".join(ARGUMENTS)
_SPOKEN: tuple[tuple[str, str], ...] = (
    # Whole phrases that only make sense in Python
    (r"; read others into a DataFrame for Transitions\.from_dataframe", "; convert it to one of these"),
    (r"sort them, or read them whole into a DataFrame for Transitions\.from_dataframe", "sort the file"),
    (r"convert others with pandas\.to_datetime first", "write all of them in this way"),
    (r"set these values to NaN, which are gaps", "leave them empty, which are gaps"),
    (r"itofit\.load reads it", "itofit info shows it"),
    (r"; make the data again with their variables in the order of the model", "; give them so with --state"),
    (r"\s+Check\s+with\s+trajectories\s+\(Transitions\.from_trajectories\)\s+to\s+see\s+this\.", ""),
    (r", a numpy\.random\.Generator or None", ""),
    (r"correct_step\s*=\s*True", "--correct-step"),
    (r"as_frame=True needs the column", "the table needs the column"),
    (r"as_frame=True", "writing tables"),
    (r"\s\(sde\.floored\s+says\s+where\)", ""),
    (r"fit\(\.\.\.,\s+link='(\w+)'\)", r"--link \1"),
    (r"the source of blocks holds no transition", "there is no transition: no track has two complete rows in a row"),
    (r"\bblock \d+ of the source: ", ""),
    # Arguments: give time=, unit='s' is, state: there is, dt must be, either time, the column
    (r"(?<!['\w])(min_h|max_h|n_steps)\b", r"{\1}"),
    (rf"\b({_NAMES})='(\w+)'", r"{\1} \2"),
    (rf"\b({_NAMES})=(?=[,;.\s]|$)", r"{\1}"),
    (rf"(?<![\w'-])({_NAMES})(?=: there (?:is|are)\b)", r"{\1}"),
    (rf"(?<![\w'-])({_NAMES})(?= (?:must|names|is the unit|was given)\b)", r"{\1}"),
    (r"\beither time, the column of times, or dt,", "either {time}, the column of times, or {dt},"),
    (r"\bfor each of state:", "for each of {state}:"),
)


def spoken(text: str) -> str:
    """A message of the library as the command line says it; what it quotes stays as it is."""
    for pattern, words in _SPOKEN:
        text = re.sub(pattern, words, text)
    return re.sub(rf"\{{({_NAMES})\}}", lambda found: ARGUMENTS[found[1]], text)


def named(text: str, inputs: Sequence[str], outputs: Sequence[str]) -> str:
    """A message about columns of arrays that calls them what the file does."""

    def name(found: re.Match[str]) -> str:
        names, place = inputs if found[1] == "inputs" else outputs, int(found[2])
        return f"column {names[place]!r}" if place < len(names) else found[0]

    text = re.sub(r"\b(inputs|increments) column (\d+)", name, text)
    text = text.replace("remove it from the increments (it may stay in the inputs)", "leave it out of --state")
    return text.replace("remove the column", "leave it out of --state")
