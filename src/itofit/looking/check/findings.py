"""What a check finds: numbers, a verdict, words and advice; and how tests become verdicts."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import ndtr

from itofit._checks import Float, one_of
from itofit.data.names import plural

Verdict = Literal["good", "caution", "bad", "not available"]
WIDTH = 80
MOST_PERCENT = 10.0
"""Shares above this, 1000 %, are written as multiples."""
BAD = 3.0
"""How many times the size that matters is bad."""


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
        What was found, in words.
    advice : str
        What to do about it; empty if there is nothing to do.
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
        Also found by name, as in ``diagnosis["whiteness"]``.
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
                    "numbers": finding.numbers,
                    "text": finding.text,
                    "advice": finding.advice,
                }
                for finding in self.findings
            ],
        }

    def __repr__(self) -> str:
        return f"Diagnosis({plural(self.n_transitions, 'transition')}, {self.worst})"

    def __str__(self) -> str:
        n, n_all = len(self.residuals), self.n_transitions
        judged = plural(n_all, "transition") if n == n_all else f"{n} of {n_all} transitions"
        lines = [f"{judged}, tests at level {self.level:g}: {self.worst}", ""]
        for f in self.findings:
            first, *more = textwrap.wrap(f.numbers, 43) or [""]
            lines += [f"{f.title:<21} {first:<43} {f.verdict:>13}", *(f"{'':<21} {each}" for each in more)]
        for finding in self.findings:
            if finding.verdict in ("caution", "bad"):
                lines += ["", *textwrap.wrap(f"{finding.title}: {finding.text}", WIDTH)]
                lines += textwrap.wrap(finding.advice, WIDTH, initial_indent="  -> ", subsequent_indent="     ")
        return "\n".join(lines)


def worst_of(verdicts: Sequence[Verdict]) -> Verdict:
    """The worst of some verdicts; "good" if none is worse."""
    return "bad" if "bad" in verdicts else "caution" if "caution" in verdicts else "good"


def not_available(name: str, title: str, reason: str) -> Finding:
    """A finding that the data or the model do not allow."""
    return Finding(name=name, title=title, values={}, numbers=reason, verdict="not available", text=reason)


class Deviation(NamedTuple):
    """How far one property is from what it should be, and a test whether that is chance.

    With many rows every tiny deviation is significant: one counts if it is significant *and* large.
    """

    name: str
    p: float
    size: float  # in units of the size that matters
    found: str  # in words, should it count
    short: str = ""  # the quantity in a table


def family_p(deviations: Sequence[Deviation]) -> float:
    """The smallest p-value, corrected for the number of tests (Bonferroni)."""
    return min(1.0, len(deviations) * min(deviation.p for deviation in deviations))


def counting(deviations: Sequence[Deviation], level: float) -> list[Deviation]:
    """Those that are significant, with all tests together at the given level, and matter; the largest first."""
    found = [each for each in deviations if each.p * len(deviations) < level and each.size >= 1.0]
    return sorted(found, key=lambda deviation: -deviation.size)


def clearest(deviations: Sequence[Deviation], level: float) -> Deviation:
    """The one to show: the largest that counts, or else the least likely by chance."""
    found = counting(deviations, level)
    return found[0] if found else min(deviations, key=lambda deviation: deviation.p)


def shown_with_p(shown: Deviation, deviations: Sequence[Deviation], level: float) -> str:
    """The quantity of a deviation and its own p-value, corrected for the number of tests, for a table."""
    p = min(1.0, len(deviations) * shown.p)
    return f"{shown.short}, {p_text(p)}{', small' if p < level and shown.size < 1 else ''}"


def why_good(deviations: Sequence[Deviation], level: float) -> str:
    """Why the clearest of deviations that do not count does not."""
    shown = clearest(deviations, level)
    p = min(1.0, len(deviations) * shown.p)
    if p < level:
        return f"The clearest deviation is too small to matter: {shown.found}."
    return f"The clearest deviation may well be chance ({p_text(p)} among {len(deviations)}): {shown.found}."


def verdict_of(deviations: Sequence[Deviation], level: float) -> Verdict:
    """From the largest deviation that counts."""
    found = counting(deviations, level)
    return "good" if not found else "bad" if found[0].size >= BAD else "caution"


def sentences(deviations: list[Deviation]) -> str:
    """The largest deviation of each sort, as one sentence with a full stop."""
    largest = {deviation.name: deviation.found for deviation in reversed(deviations)}
    text = "; ".join(reversed(largest.values()))
    more = f"; and {len(deviations) - len(largest)} more like these" if len(deviations) > len(largest) else ""
    return text[:1].upper() + text[1:] + more + "."


def graded(value: float, caution: float, bad: float) -> Verdict:
    """The verdict on a number that is better the smaller it is."""
    return "bad" if value >= bad else "caution" if value >= caution else "good"


def in_noise_or_drift(effect: float, drift: float, noise: float = 0.05, share: float = 0.2) -> float:
    """Size of a part of the motion that the drift misses, in units of the size that matters.

    It matters if it is `noise` of the standard deviation of a step. Over short steps the drift itself is smaller than
    that, so it also matters if it is a `share` of the drift, unless it is below a hundredth of the noise.

    Parameters
    ----------
    effect : float
        Root mean square of the missed part, in standard deviations of a step.
    drift : float
        Root mean square of the learned drift, in the same unit.
    """
    relative = effect / max(share * drift, 1e-300)
    return max(effect / noise, min(relative, 1e6) if effect >= 0.01 else 0.0)


def drift_share(effect: float, drift: float) -> str:
    """A part of the motion relative to the drift's typical size, in words."""
    return (
        f"{effect / drift:.0%} of the drift's typical size" if 10 * drift > effect else "far more than the drift says"
    )


def percent(value: float, decimals: int = 1, of: str = "") -> str:
    """A share, of something if that is said; one above 1000 % as a multiple."""
    if value < MOST_PERCENT:
        return f"{value:.{decimals}%}" + (f" of {of}" if of else "")
    return f"{multiple(value)} times" + (f" {of}" if of else "")


def multiple(value: float) -> str:
    """How many times, without decimals that nobody needs."""
    return f"{value:,.0f}" if 10 <= value < 1e6 else f"{value:.2g}"


def compared(ratio: float, what: str) -> str:
    """How a number compares with another, given their ratio: 12% smaller than ..., or 20 times what ..."""
    if ratio > 1 + MOST_PERCENT:
        return f"{multiple(ratio)} times {what}"
    return f"{abs(ratio - 1):.0%} {'smaller' if ratio < 1 else 'larger'} than"


def p_text(p: float) -> str:
    """A p-value for a table."""
    return f"p = {p:.2g}" if p >= 1e-16 else "p < 1e-16"


def fixed(value: float, decimals: int = 3, sign: str = "") -> str:
    """A number for a table: so many decimals, or three digits of a large one; "+" as sign if it is always wanted."""
    return f"{value:{sign}.{decimals}f}" if abs(value) < 10 else f"{value:{sign}.3g}"


def root_above_noise(square: float, expected: float) -> float:
    """Root of a mean square, less what chance adds to it."""
    return float(np.sqrt(max(square - expected, 0.0)))


def two_sided(z: float) -> float:
    """The probability that a standard normal variable is farther from zero."""
    return float(2 * ndtr(-abs(z)))
