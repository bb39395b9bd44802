"""What was learned, from what and how, as a few lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from itofit._checks import printable
from itofit.data.names import plural
from itofit.data.periods import periods_text
from itofit.matrices.links import LINKS, LinkName
from itofit.matrices.symmetric import Structure, entries
from itofit.model.training import Candidate, Stop, Training

if TYPE_CHECKING:
    from itofit.model.learned import LearnedSDE

STRUCTURES: dict[Structure, str] = {
    "diagonal": "the variables' noises are independent of each other at every point",
    "full": "the variables' noises may be correlated",
}
"""What the structures of Σ are, in words."""

ENDS: dict[Stop, str] = {
    "stagnation": "until the error no longer fell",
    "evidence": "until the evidence no longer rose",
    "max_iterations": "as many as were allowed",
}
"""What ended a training, in words."""


def summary_of(sde: LearnedSDE) -> str:
    """A model in a few lines."""
    drift, covariance = sde.drift_function.training, sde.covariance_function.training
    clock = sde.units.time
    lines = [
        f"itofit {sde.version}: {sde.kind}, {dimensions(sde)}",
        _line("variables", _variables(sde)),
        *([_line("driven by", ", ".join(sde.covariate_names))] if sde.n_covariates else []),
        *([_line("periodic", text)] if (text := periods_text(sde.input_names, sde.periods)) else []),
        *([_line("units", text)] if (text := units_line(sde)) else []),
        _line("data", sde.data.text(clock) + (f"; frequencies searched on {sde.searched_on}" * drift.by_evidence)),
        _line("drift", training_text(drift)),
    ]
    if drift.by_evidence:
        lines.append(_line("", dependence_text(drift, [f"f of {name}" for name in sde.output_names], sde.input_names)))
    lines.append(_line("covariance", training_text(covariance)))
    if covariance.by_evidence:
        names = entry_names(sde.structure, sde.link, sde.output_names)
        lines.append(_line("", dependence_text(covariance, names, sde.input_names)))
    if sde.n_outputs > 1:
        lines.append(_line("structure", f"{sde.structure}: {STRUCTURES[sde.structure]}"))
    if covariance.n_features:  # else Σ is constant
        lines.append(_line("link", f"{sde.link}: {LINKS[sde.link].meaning}"))
    if len(sde.candidates) > 1:
        lines.append(_line("candidates", "held-out loss above the best:"))
        lines += [_line("", text) for text in candidates_text(sde.candidates)]
    ceiling = float(sde.limits[1].max())
    bounds = f"above {sde.floor:.2g}" if np.isinf(ceiling) else f"between {sde.floor:.2g} and {ceiling:.3g}"
    top = float(sde.limits[0].max()) if sde.structure == "full" and sde.n_outputs > 1 else sde.floor
    largest = f", the largest eigenvalue above {top:.2g}," if top > sde.floor else ""
    limits = (
        f"Σ is kept {bounds} times its mean{largest or ','} which changed it at {sde.floored_share:.2%} of the data"
    )
    lines.append(_line("limits", limits))
    if sde.hidden_velocity is not None:
        lines.append(_line("observed", "positions alone; velocities follow from whole tracks: see sde.states(data)"))
    if sde.measurement_noise is not None:
        lines.append(_line("measurement", sde.measurement_noise.text(sde.input_names[: sde.n_outputs], sde.units)))
    if (sde.measurement_noise is not None or sde.hidden_velocity is not None) and sde.scheme == "corrected":
        lines.append(_line("step", "its length is part of the filter: f and Σ are those of the equation"))
    if sde.step_correction is not None:
        lines.append(_line("step", sde.step_correction.text(clock) + _constant_after_all(sde)))
    if sde.data.work is not None:
        lines.append(_line("work", str(sde.data.work)))
    if sde.bootstrapped:
        lines.append(_line("error bars", f"from fits to {len(sde.members)} draws of the tracks, with replacement"))
    lines.append(_line("seed", "a generator was given" if sde.seed is None else str(sde.seed)))
    return printable("\n".join(lines))  # names may come from files of others


def _constant_after_all(sde: LearnedSDE) -> str:
    """That Σ is constant, where the covariance of one step is not."""
    before, now = (each and each.covariance_function.training.n_features for each in (sde.one_step, sde))
    return "; a constant Σ explains how the noise of steps varies" if before and not now else ""


def _line(label: str, text: str) -> str:
    return f"  {label:<12}{text}"


def dimensions(sde: LearnedSDE) -> str:
    """Numbers of inputs and outputs."""
    return f"{plural(sde.n_inputs, 'input')}, {plural(sde.n_outputs, 'output')}"


def units_line(sde: LearnedSDE) -> str:
    """The units of variables and time, and what follows from them for f and Σ; empty if none is known."""
    if not sde.units:
        return ""
    given = ", ".join(f"{name} in {unit}" for name, unit in sde.units.as_dict().items())
    names = sde.output_names
    parts = {"f": {sde.units.drift(name) for name in names}, "Σ": {sde.units.covariance(name, name) for name in names}}
    follows = ", ".join(f"{letter} in {min(own)}" for letter, own in parts.items() if len(own) == 1 and min(own))
    return f"{given}; {follows}" if follows else given


def _variables(sde: LearnedSDE) -> str:
    inputs, outputs = ", ".join(sde.state_names), ", ".join(sde.output_names)
    return inputs if inputs == outputs else f"{inputs}; {outputs} {'moves' if sde.n_outputs == 1 else 'move'}"


def training_text(training: Training) -> str:
    """One line on how a training went."""
    took = (
        f"{training.n_iterations} iterations in {training.seconds.sum():.2f} s, {ENDS[training.stopped]} "
        f"(best {training.best_iteration})"
    )
    if not training.by_evidence:
        used = training.parameters
        return f"{training.n_features} features, ridge {used.ridge:g}, {took}, {used.normal_equations} sums"
    waves = f", {training.n_standing_out} short waves stand out" if training.n_standing_out else ""
    gain = f", log-evidence {training.best_score:.1f} above the start's" if training.best_iteration else ""
    determined = f"the data determine {training.determined:.1f} amplitudes"
    if training.polynomial:
        return f"a polynomial, as no waves are clearly more evident: {took}; {determined}"
    if not training.n_features:
        return f"constant: {took}; {determined}"
    return f"{training.n_features} frequencies, {took}{waves}{gain}; {determined}"


def dependence_text(training: Training, outputs: list[str], inputs: tuple[str, ...]) -> str:
    """Which output depends on what; outputs that depend on the same together."""
    alike: dict[str | None, list[str]] = {}
    for j, output in enumerate(outputs):
        alike.setdefault(training.depends_on(j, inputs), []).append(output)
    parts = []
    for inputs_used, names in alike.items():
        one = len(names) == 1
        if inputs_used is None:
            parts.append(f"{', '.join(names)} {'is' if one else 'are'} constant")
        else:
            parts.append(f"{', '.join(names)} {'depends' if one else 'depend'} on {inputs_used}")
    return "; ".join(parts)


def entry_names(structure: Structure, link: LinkName, outputs: tuple[str, ...]) -> list[str]:
    """What the learned entries of Σ are called, or those of the matrix that a link makes Σ of."""
    symbol = LINKS[link].symbol
    return [
        f"{symbol} of {outputs[j]}" if i == j else f"{symbol} of {outputs[j]} and {outputs[i]}"
        for i, j in zip(*entries(structure, len(outputs)), strict=True)
    ]


def candidates_text(candidates: tuple[Candidate, ...]) -> list[str]:
    """One line for each candidate, the best first."""
    best = min(candidate.loss for candidate in candidates)
    return [
        f"{c.structure}, {_form_of(c)}: {c.loss - best:+.4f}"
        for c in sorted(candidates, key=lambda candidate: candidate.loss)
    ]


def _form_of(candidate: Candidate) -> str:
    if candidate.frequencies == "none":
        return "constant"
    return f"waves for {LINKS[candidate.link].symbol}, frequencies of the {candidate.frequencies}"
