"""How far properties of the residuals are from what they should be, and how tests of them become verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypedDict

import numpy as np
from scipy.special import chdtr, chdtrc, ndtr

from itofit._checks import Message
from itofit.looking.check.findings import Finding, Verdict, more_data
from itofit.looking.check.margins import Margin
from itofit.looking.check.phrases import capitalised, p_text
from itofit.looking.check.thresholds import BAD, LEAST_MISSED, MISSED_DRIFT, MISSED_NOISE

TINY = 1e-300
"""Keeps denominators from being zero; smaller than any that is not."""
MOST_OPEN = 3
"""Deviations named in a text, of those that cannot be ruled out."""


class Deviation(NamedTuple):
    """How far one property is from what it should be, and the probability that this is chance.

    With many rows every tiny deviation is significant: one counts if it is significant *and* large.
    """

    name: str  # the property; deviations of one name share an advice
    p: float  # of its own test
    size: float  # in units of the size that matters
    text: str  # in words, without a capital letter and a full stop
    margins: tuple[Margin, ...]  # what may be wrong although nothing was found
    short: str = ""  # the quantity in a table


class AdviceOrNeed(TypedDict):
    """Two fields of a `Finding`."""

    advice: str
    enough: float | None


def family_p(deviations: Sequence[Deviation]) -> float:
    """The smallest p-value, corrected for the number of tests (Bonferroni)."""
    return min(1.0, len(deviations) * min(deviation.p for deviation in deviations))


def significant_and_large(deviations: Sequence[Deviation], level: float) -> list[Deviation]:
    """The deviations that count, the largest first; `level` is that of all tests together."""
    counting = [each for each in deviations if each.p * len(deviations) < level and each.size >= 1.0]
    return sorted(counting, key=lambda deviation: -deviation.size)


def clearest(deviations: Sequence[Deviation], level: float) -> Deviation:
    """The one to show: the largest that counts, or else the least likely by chance."""
    counting = significant_and_large(deviations, level)
    return counting[0] if counting else min(deviations, key=lambda deviation: deviation.p)


def with_p(deviation: Deviation, deviations: Sequence[Deviation], level: float) -> str:
    """The quantity of a deviation and its own p-value, corrected for the number of tests, for a table."""
    p = min(1.0, len(deviations) * deviation.p)
    return f"{deviation.short}, {p_text(p)}{', small' if p < level and deviation.size < 1 else ''}"


def verdict_of(deviations: Sequence[Deviation], level: float) -> Verdict:
    """The verdict on the largest deviation that counts; without one, whether one that matters would have been seen."""
    counting = significant_and_large(deviations, level)
    if counting:
        return "bad" if counting[0].size >= BAD else "caution"
    return "cannot tell" if _open(deviations) else "good"


def why_good(deviations: Sequence[Deviation], level: float) -> str:
    """Why the clearest of deviations that do not count does not."""
    deviation = clearest(deviations, level)
    p = min(1.0, len(deviations) * deviation.p)
    if p < level:
        return f"The clearest deviation is too small to matter: {deviation.text}."
    return f"The clearest deviation may well be chance ({p_text(p)} among {len(deviations)}): {deviation.text}."


def or_open(finding: Finding, margins: Sequence[Margin]) -> Finding:
    """A finding as it is, unless it is good and there is room in margins for what matters: then data cannot tell."""
    wide = _not_excluded(margins)
    if finding.verdict != "good" or not wide:
        return finding
    enough = max(margin.enough for margin in wide)
    text = f"{finding.text} {_hidden(wide)}"
    return replace(finding, verdict="cannot tell", text=text, advice=more_data(enough), enough=enough)


def what_is_open(deviations: Sequence[Deviation]) -> str:
    """What cannot be ruled out, the widest first, as a sentence."""
    return _hidden(_open(deviations))


def _hidden(margins: Sequence[Margin]) -> str:
    """The same of margins in which there is room for what matters."""
    more = f"; and {len(margins) - MOST_OPEN} more like these" if len(margins) > MOST_OPEN else ""
    return f"But these data could hide what matters: {'; '.join(each.text for each in margins[:MOST_OPEN])}{more}."


def rows_needed(deviations: Sequence[Deviation]) -> float:
    """How many rows would tell, if nothing is wrong: those for the widest of all margins."""
    return max(margin.enough for deviation in deviations for margin in deviation.margins)


def _open(deviations: Sequence[Deviation]) -> list[Margin]:
    """The margins in which there is room for what matters, the widest first."""
    return _not_excluded([margin for deviation in deviations for margin in deviation.margins])


def _not_excluded(margins: Sequence[Margin]) -> list[Margin]:
    """Those in which there is room for what matters, the widest first."""
    return sorted((each for each in margins if not each.excluded), key=lambda margin: -margin.bound / margin.limit)


def sentences(deviations: Sequence[Deviation]) -> str:
    """The largest deviation of each name, as one sentence; deviations come with the largest first."""
    largest = {deviation.name: deviation.text for deviation in reversed(deviations)}
    text = "; ".join(reversed(largest.values()))
    more = f"; and {len(deviations) - len(largest)} more like these" if len(deviations) > len(largest) else ""
    return capitalised(text) + more + "."


Advice = Mapping[str, str | tuple[str, ...]]
"""What to do about deviations of a name: a text, or several, of which other names may have some as well."""


def advice_on(deviations: Sequence[Deviation], advice: Advice) -> str:
    """What to do about deviations, given the advice on each name: every text once, in their order."""
    given = (advice[deviation.name] for deviation in deviations)
    parts = dict.fromkeys(part for own in given for part in ((own,) if isinstance(own, str) else own))
    fields = {f"part_{i}": part for i, part in enumerate(parts)}
    return Message(" ".join(f"{{{name}}}" for name in fields), **fields)


def advice_or_need(deviations: Sequence[Deviation], level: float, advice: Advice) -> AdviceOrNeed:
    """What to do about deviations that count; without such, how many data would tell if these cannot."""
    if worst := significant_and_large(deviations, level):
        return {"advice": advice_on(worst, advice), "enough": None}
    if not _open(deviations):
        return {"advice": "", "enough": None}
    needed = rows_needed(deviations)
    enough = needed if np.isfinite(needed) else None
    return {"advice": more_data(enough), "enough": enough}


def missed_size(missed: float, drift: float) -> float:
    """Size of a part of the motion that the drift misses, in units of the size that matters.

    It matters if it is `MISSED_NOISE` of the standard deviation of a step. Over short steps the drift itself is smaller
    than that, so it also matters if it is `MISSED_DRIFT` of the drift, unless it is below `LEAST_MISSED` of the noise.

    Parameters
    ----------
    missed : float
        Root mean square of the missed part, in standard deviations of a step.
    drift : float
        Root mean square of the learned drift, in the same unit.
    """
    relative = missed / max(MISSED_DRIFT * drift, TINY)
    return max(missed / MISSED_NOISE, min(relative, 1e6) if missed >= LEAST_MISSED else 0.0)


def missed_limit(drift: float) -> float:
    """The part of the motion whose `missed_size` is one."""
    return max(LEAST_MISSED, min(MISSED_NOISE, MISSED_DRIFT * drift))


def root_above_noise(square: float, expected: float) -> float:
    """Root of a mean square, less what chance adds to it."""
    return float(np.sqrt(max(square - expected, 0.0)))


def two_sided_chi2(value: float, dof: int) -> float:
    """The probability that χ² is farther in the tail that a value is in, twice."""
    return min(1.0, 2 * min(float(chdtr(dof, value)), float(chdtrc(dof, value))))


def two_sided(z: float) -> float:
    """The probability that a standard normal variable is farther from zero."""
    return float(2 * ndtr(-abs(z)))
