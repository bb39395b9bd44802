"""What a model says of its origin: data, trainings, choices; as text, and as parts of a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, InputError, Int, count, one_of, positive
from itofit.data.names import plural, shown_range
from itofit.learning.automatic.evidence import OFF
from itofit.learning.automatic.search import SearchHistory, SearchStop
from itofit.learning.paper.arff import History, Pairing, Settings, Stop
from itofit.model.finite_step import trusted
from itofit.waves.normal_equations import Form

NOTHING = "nothing"
"""What a constant depends on."""


@dataclass(frozen=True, kw_only=True)
class DataSummary:
    """What a model was learned from, in a few numbers."""

    n_transitions: int
    n_groups: int | None
    h_min: float
    h_mean: float
    h_max: float

    def __str__(self) -> str:
        groups = "" if self.n_groups is None else f" in {plural(self.n_groups, 'group')}"
        return f"{self.n_transitions} transitions{groups}, h = {shown_range(self.h_min, self.h_max)}"


@dataclass(frozen=True, kw_only=True, eq=False)
class AutomaticSettings:
    """What was chosen from the data.

    Parameters
    ----------
    n_features : int
        Number of frequencies.
    groups : array of shape (G,)
        The groups of frequencies in use: i moves along input i, the number of inputs (0, if there is one) in all.
    ridges : array of shape (p, G)
        Ridge of each output and group; 1e12 where the data have switched it off.
    determined : float
        Number of amplitudes that the data determine.
    """

    n_features: int
    groups: Int
    ridges: Float
    determined: float

    def depends_on(self, output: int, n_inputs: int, names: tuple[str, ...] | None = None) -> str:
        """What one output depends on, in words: with names of the inputs, or with their numbers from 0."""
        groups = self.groups[self.ridges[output] < OFF]
        if not len(groups):
            return NOTHING
        if names is not None:
            singles, together = [names[g] for g in groups if g < n_inputs], n_inputs > 1 and n_inputs in groups
            alone = " alone" if len(singles) == 1 < n_inputs and not together else ""
            return " and ".join(([", ".join(singles) + alone] if singles else []) + ["all inputs together"] * together)
        if n_inputs == 1:
            return "the input"
        single = [str(g) for g in groups if g < n_inputs]
        parts = [f"input{'s' if len(single) > 1 else ''} {', '.join(single)}"] if single else []
        return " and ".join(parts + (["all inputs together"] if n_inputs in groups else []))


@dataclass(frozen=True, kw_only=True, eq=False)
class StepCorrection:
    """How far drift and covariance were corrected for the length of the observed steps.

    Parameters
    ----------
    h : float
        Mean length of the steps, weighted by their length.
    signal : array of shape (d,)
        Mean square of the drift's correction over the data, without its noise.
    drift_change, covariance_change : float
        Root mean square of what was corrected, relative to that of the drift and to Σ.
    drift_trust, covariance_trust : float
        Share of the correction that was made, in the mean over the data and the outputs.
    distrusted : float
        Share of the data at which less than half of the drift's was.
    excess : float
        Loss of the data with the steps that the corrected drift and covariance make, above that with what was learned
        of one step, in nats per transition.
    rounds : int
        How often drift and covariance were corrected with the steps that they themselves make.
    lengths_chosen : bool
        Whether the paths chose the lengths of their steps, so that Σ was left as it was.
    withheld : bool
        Whether nothing was corrected, because no drift and covariance were found that make such steps.
    """

    h: float
    signal: Float
    drift_change: float
    covariance_change: float
    drift_trust: float
    covariance_trust: float
    distrusted: float
    excess: float
    rounds: int
    lengths_chosen: bool
    withheld: bool

    def trust(self, variance: Float) -> Float:
        """The share of a correction of this variance (n, d) that is made."""
        return trusted(self.signal, variance)

    def __str__(self) -> str:
        if self.withheld:
            return f"not corrected for h = {self.h:.4g}: no drift and covariance were found that make such steps"
        noise = f"Σ by {self.covariance_change:.2%} ({self.covariance_trust:.0%})"
        if self.lengths_chosen:
            noise = "Σ not, since the paths chose the lengths of their steps"
        held = f"; held back at {self.distrusted:.1%} of the data" if self.distrusted >= 0.0005 else ""
        return (
            f"corrected for h = {self.h:.4g}: f by {self.drift_change:.2%} ({self.drift_trust:.0%} of what the length "
            f"makes of it), {noise}{held}"
        )


class Candidate(NamedTuple):
    """A covariance that was tried, and its loss on folds that it was not fitted to."""

    structure: str
    frequencies: str  # "start" or "search"
    link: str
    loss: float


def training_text(settings: Settings | AutomaticSettings, history: History | SearchHistory) -> str:
    """One line on how a training went."""
    took = f"{history.n_iterations} iterations (best {history.best_iteration}, stopped by {history.stopped})"
    seconds = f"in {history.seconds.sum():.2f} s"
    if isinstance(settings, Settings):
        return (
            f"{settings.n_features} features, ridge {settings.ridge:g}, {took} {seconds}, "
            f"{settings.normal_equations} sums"
        )
    assert isinstance(history, SearchHistory)
    waves = f", {history.n_found} short waves stand out" if history.n_found else ""
    gain = f", log-evidence {history.log_evidence.max():.1f} above the start's" if history.best_iteration else ""
    return (
        f"{settings.n_features} frequencies, {took} {seconds}{waves}{gain}; "
        f"the data determine {settings.determined:.1f} amplitudes"
    )


def dependence_text(
    settings: AutomaticSettings, n_inputs: int, outputs: list[str], inputs: tuple[str, ...] | None = None
) -> str:
    """Which output depends on what; equal ones together."""
    found: dict[str, list[str]] = {}
    for j, output in enumerate(outputs):
        found.setdefault(settings.depends_on(j, n_inputs, inputs), []).append(output)
    return "; ".join(
        f"{', '.join(equal)} {'is' if len(equal) == 1 else 'are'} constant"
        if what == NOTHING
        else f"{', '.join(equal)} on {what}"
        for what, equal in found.items()
    )


def candidates_text(candidates: tuple[Candidate, ...]) -> list[str]:
    """One line for each candidate, the best first."""
    best = min(candidates, key=lambda candidate: candidate.loss).loss
    return [
        f"{c.structure}, {c.link} link, frequencies of the {c.frequencies}: {c.loss - best:+.4f}"
        for c in sorted(candidates, key=lambda candidate: candidate.loss)
    ]


# Files

Record: TypeAlias = History | SearchHistory | Settings | AutomaticSettings | DataSummary | StepCorrection
_KINDS = {
    kind.__name__: kind for kind in (History, SearchHistory, Settings, AutomaticSettings, DataSummary, StepCorrection)
}
_SIGNED = ("excess",)
_WORDS = {
    "pairing": get_args(Pairing),
    "normal_equations": get_args(Form),
    "stopped": get_args(Stop) + get_args(SearchStop),
}


def pack(part: Record) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """The arrays of a record, and its other fields with the name of its kind."""
    values = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    return arrays, {"kind": type(part).__name__} | {name: v for name, v in values.items() if name not in arrays}


def unpack(arrays: Mapping[str, npt.NDArray[Any]], plain: Mapping[str, Any]) -> Record:
    """The record that `pack` made these of, checked."""
    fields = dict(plain)
    kind = _KINDS[fields.pop("kind")]
    part: Record = kind(**fields, **arrays)  # type: ignore[arg-type]
    for name, value in fields.items():
        if name in _WORDS:
            one_of(name, value, _WORDS[name])
        elif not isinstance(value, bool | None):
            positive(name, abs(value) if name in _SIGNED else value, zero=True)
    for name, array in arrays.items():
        if array.dtype not in (np.float64, np.int64) or not np.isfinite(array).all():
            raise InputError(f"{name} must hold finite numbers, got {array.dtype}")
    if isinstance(part, DataSummary):
        count("n_transitions", part.n_transitions)
    if isinstance(part, History | SearchHistory):
        _check_history(part)
    if isinstance(part, AutomaticSettings) and part.ridges.shape[1:] != part.groups.shape:
        raise InputError(f"ridges of shape {part.ridges.shape} do not belong to {len(part.groups)} groups")
    return part


def _check_history(history: History | SearchHistory) -> None:
    M = len(history.acceptance)
    judged = history.validation_error if isinstance(history, History) else history.log_evidence
    times = np.arange(M + 1.0) if isinstance(history, History) else history.iteration
    if (
        history.seconds.shape != (M,)
        or history.acceptance.shape != (M,)
        or judged.shape != times.shape
        or not len(times)
    ):
        raise InputError("the parts of a training's history do not fit together")
