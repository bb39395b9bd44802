"""The findings of a check: numbers, a verdict, words and advice."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, TypeAlias

from itofit._checks import Float, Message, one_of
from itofit.data.names import plural
from itofit.looking.check.examined import MOST_ROWS

Verdict = Literal["good", "cannot tell", "caution", "bad", "not available"]
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
    verdict : {"good", "cannot tell", "caution", "bad", "not available"}
        "good" if a deviation that matters would have been seen, "cannot tell" if these data could have hidden one.
    text : str
        The finding in words.
    advice : str
        What to do about it; empty if there is nothing to do.
    enough : float, optional
        About how many transitions would tell, if nothing is wrong; only where these cannot.

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
    enough: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Diagnosis:
    """How far a learned SDE can be trusted on some data; `itofit.check` makes it, ``print`` shows it.

    It is a collection of findings: ``for finding in diagnosis``, ``diagnosis["whiteness"]``.

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
        """The worst verdict of all findings; what is not available does not count.

        From bad over caution and "cannot tell" to good, so that it is "good" only if every finding that there is is.
        """
        return worst_of([finding.verdict for finding in self.findings])

    @property
    def headline(self) -> str:
        """The worst verdict, and how many findings cannot tell or are not available: good; 3 of 8 not available."""
        n, verdicts = len(self.findings), [finding.verdict for finding in self.findings]
        silent: tuple[Verdict, ...] = ("cannot tell", "not available")
        counted = [f"{verdicts.count(verdict)} of {n} {verdict}" for verdict in silent if verdict in verdicts]
        return "; ".join(counted if self.worst == "cannot tell" else [self.worst, *counted])

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __contains__(self, finding: object) -> bool:
        """Whether there is a finding, or one of this name."""
        return any(finding in (each, each.name) for each in self.findings)

    def __getitem__(self, name: str) -> Finding:
        one_of("name", name, tuple(finding.name for finding in self.findings))
        return next(finding for finding in self.findings if finding.name == name)

    def as_dict(self) -> dict[str, Any]:
        """Everything but the arrays, of types that JSON knows; None where a number has no meaning."""
        return {
            "worst": self.worst,
            "headline": self.headline,
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
                    "enough": None if finding.enough is None else round(finding.enough),
                }
                for finding in self.findings
            ],
        }

    def _repr_html_(self) -> str:
        from itofit.looking.report.page import NOTEBOOK_STYLE, findings  # noqa: PLC0415  (a page shows findings)

        headline = f"<p><b>{escape(self.headline)}</b></p>"
        return f'<style>{NOTEBOOK_STYLE}</style><div class="itofit">{headline}{findings(self)}</div>'

    def __repr__(self) -> str:
        return f"Diagnosis({plural(self.n_transitions, 'transition')}, {self.worst})"

    def __str__(self) -> str:
        return self.text()

    def text(self, word: Word | None = None) -> str:
        """A table of all findings, words and advice on bad ones and cautions, and how many data others would need.

        In lines of 80 letters.

        Parameters
        ----------
        word : callable, optional
            What to call a part of a `Message` (an option, a phrase), or None to call it what Python does. Default: all
            as Python does.
        """
        n, n_all = len(self.residuals), self.n_transitions
        judged = plural(n_all, "transition") if n == n_all else f"{n} of {n_all} transitions"
        lines = [f"{judged}, tests at level {self.level:g}: {self.headline}", ""]
        for finding in self.findings:
            lines += _table_lines(finding, word)
        for finding in self.findings:
            if finding.verdict in ("caution", "bad"):
                lines += ["", *_advice_lines(finding, word)]
        if untold := [finding for finding in self.findings if finding.verdict == "cannot tell"]:
            lines += ["", *textwrap.wrap(_what_would_tell(untold), WIDTH)]
        return "\n".join(lines)


def _what_would_tell(findings: Sequence[Finding]) -> str:
    """How many data would tell what these cannot, the fewest first."""
    enough = sorted((each.enough, each.title) for each in findings if each.enough is not None)
    listed = ", ".join(f"{about(number)} for {title}" for number, title in enough)
    needed = f" About so many transitions would tell: {listed}." if enough else ""
    return f"cannot tell: nothing was found, but faults that matter could be hidden in so few data.{needed}"


def more_data(enough: float | None) -> str:
    """Advice for those whose data are too few."""
    if enough is None:
        return "No number of transitions like these would tell."
    told = f"About {about(enough)} transitions would tell, if nothing is wrong"
    if enough <= MOST_ROWS:
        return f"{told}."
    return (
        f"{told}, and a check judges {MOST_ROWS:,} at most: give every {math.ceil(enough / MOST_ROWS)}. observation or "
        "fewer, so that a step holds more of the drift."
    )


def about(number: float) -> str:
    """A large number with two digits."""
    return f"{float(f'{number:.2g}'):,.0f}"


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


RANKED: tuple[Verdict, ...] = ("bad", "caution", "cannot tell")
"""Verdicts from the worst on; all others are better."""


def worst_of(verdicts: Sequence[Verdict]) -> Verdict:
    """The worst of some verdicts; "good" if none is worse."""
    return next((verdict for verdict in RANKED if verdict in verdicts), "good")


def not_available(name: str, title: str, reason: str) -> Finding:
    """A finding that cannot be made with these data or this model, for the given reason."""
    return Finding(name=name, title=title, values={}, numbers=reason, verdict="not available", text=reason)


def graded(value: float, caution: float, bad: float) -> Verdict:
    """The verdict on a number that is better the smaller it is."""
    return "bad" if value >= bad else "caution" if value >= caution else "good"
