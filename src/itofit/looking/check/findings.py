"""The findings of a check: numbers, a verdict, words and advice."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from itofit._checks import Float, Message, one_of
from itofit.data.names import plural

Verdict = Literal["good", "caution", "bad", "not available"]
Word: TypeAlias = Callable[[object], str | None]
"""How a surface, such as the command line, says a part of a `Message`; None where it says it as Python does."""
WIDTH = 80
"""Letters in a line: those of a terminal."""
TITLE_WIDTH, NUMBERS_WIDTH, VERDICT_WIDTH = 21, 43, 13
"""Letters of the columns of the table, which fill a line together with the spaces between them."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One answer to how far a model can be trusted.

    Parameters
    ----------
    name, title : str
        The word to ask for it by, and what it is called in tables.
    values : dict of str to float
        All numbers; p-values are not corrected for their number unless the name is ``p``. NaN if one has no meaning.
    numbers : str
        The few of them that matter, as text.
    verdict : {"good", "caution", "bad", "not available"}
    text : str
        The finding in words.
    advice : str
        What to do about it; empty if there is nothing to do.

    Notes
    -----
    Numbers, text and advice are a `Message` where they speak of Python, so that `Diagnosis.text` can word them anew.
    """

    name: str
    title: str
    values: dict[str, float]
    numbers: str
    verdict: Verdict
    text: str
    advice: str = ""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Diagnosis:
    """How far a learned SDE can be trusted on some data; `itofit.check` makes it, ``print`` shows it.

    Parameters
    ----------
    findings : tuple of Finding
        One of them by its name: ``diagnosis["whiteness"]``.
    residuals : array of shape (n, d)
        Standardised residuals z = σ⁻¹ (Δx − h f) / √h, σ the Cholesky factor of Σ: independent standard normals if
        the model is right. Of all transitions in their order, or of those judged, if there are more than 200,000.
    inputs : array of shape (n, m)
        Where they were.
    n_transitions : int
        How many transitions the data have.
    level : float
        Probability of a false alarm, for each finding that rests on tests.
    input_names, output_names : tuples of str
        What the m inputs and d outputs are called: by the model, or by the data if the model has no names of its own.
    """

    findings: tuple[Finding, ...]
    residuals: Float
    inputs: Float
    n_transitions: int
    level: float
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]

    @property
    def worst(self) -> Verdict:
        """The worst verdict of all findings; what is not available does not count."""
        return worst_of([finding.verdict for finding in self.findings])

    def __getitem__(self, name: str) -> Finding:
        one_of("name", name, tuple(finding.name for finding in self.findings))
        return next(finding for finding in self.findings if finding.name == name)

    def as_dict(self) -> dict[str, Any]:
        """Everything but the arrays, of types that JSON knows; None where a number has no meaning."""
        return {
            "worst": self.worst,
            "n_transitions": self.n_transitions,
            "n_judged": len(self.residuals),
            "level": self.level,
            "findings": [
                {
                    "name": finding.name,
                    "title": finding.title,
                    "verdict": finding.verdict,
                    "values": {k: float(v) if math.isfinite(v) else None for k, v in finding.values.items()},
                    "numbers": str(finding.numbers),
                    "text": str(finding.text),
                    "advice": str(finding.advice),
                }
                for finding in self.findings
            ],
        }

    def __repr__(self) -> str:
        return f"Diagnosis({plural(self.n_transitions, 'transition')}, {self.worst})"

    def __str__(self) -> str:
        return self.text()

    def text(self, word: Word | None = None) -> str:
        """A table of all findings, then words and advice on those that are not good, in lines of 80 letters.

        Parameters
        ----------
        word : callable, optional
            What to call a part of a `Message` (an option, a phrase), or None to call it what Python does. Default: all
            as Python does.
        """
        n, n_all = len(self.residuals), self.n_transitions
        judged = plural(n_all, "transition") if n == n_all else f"{n} of {n_all} transitions"
        lines = [f"{judged}, tests at level {self.level:g}: {self.worst}", ""]
        for finding in self.findings:
            lines += _table_lines(finding, word)
        for finding in self.findings:
            if finding.verdict in ("caution", "bad"):
                lines += ["", *_advice_lines(finding, word)]
        return "\n".join(lines)


def _table_lines(finding: Finding, word: Word | None) -> list[str]:
    """Title, numbers and verdict of a finding; long numbers are continued below."""
    first, *more = textwrap.wrap(worded(finding.numbers, word), NUMBERS_WIDTH) or [""]
    row = f"{finding.title:<{TITLE_WIDTH}} {first:<{NUMBERS_WIDTH}} {finding.verdict:>{VERDICT_WIDTH}}"
    return [row, *(f"{'':<{TITLE_WIDTH}} {line}" for line in more)]


def _advice_lines(finding: Finding, word: Word | None) -> list[str]:
    """A finding in words, and below it what to do."""
    text, advice = worded(finding.text, word), worded(finding.advice, word)
    return textwrap.wrap(f"{finding.title}: {text}", WIDTH) + textwrap.wrap(
        advice, WIDTH, initial_indent="  -> ", subsequent_indent="     "
    )


def worded(text: str, word: Word | None) -> str:
    """A text as a surface says it, if it is a message; otherwise as it is."""
    return text.worded(word) if word is not None and isinstance(text, Message) else text


def worst_of(verdicts: Sequence[Verdict]) -> Verdict:
    """The worst of some verdicts; "good" if none is worse."""
    return "bad" if "bad" in verdicts else "caution" if "caution" in verdicts else "good"


def not_available(name: str, title: str, reason: str) -> Finding:
    """A finding that cannot be made with these data or this model, for the given reason."""
    return Finding(name=name, title=title, values={}, numbers=reason, verdict="not available", text=reason)


def graded(value: float, caution: float, bad: float) -> Verdict:
    """The verdict on a number that is better the smaller it is."""
    return "bad" if value >= bad else "caution" if value >= caution else "good"
