"""The contents of the page, in their order."""

from __future__ import annotations

import json
import os
import platform
import warnings
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import numpy as np

from itofit._checks import RNG, ExtrapolationWarning, InputError, generator, one_of
from itofit._version import __version__
from itofit.data.names import plural
from itofit.data.passes import Data
from itofit.data.periods import periods_text
from itofit.data.transitions import Transitions
from itofit.data.units import behind
from itofit.data.with_units import sharing_units
from itofit.dynamics.outlook import outlook
from itofit.looking.check import Diagnosis, Verdict, check
from itofit.looking.check.examined import rows_in_memory, with_states
from itofit.looking.plot.canvas import RC, style
from itofit.looking.plot.grids import MOST_SLICES
from itofit.looking.report import page
from itofit.looking.report.found_formula import Found, formula_for
from itofit.looking.report.numbers import constant_noise, tables, tables_note
from itofit.looking.report.pictures import (
    ANSWER_SAMPLES,
    Format,
    about_answers,
    about_distributions,
    about_formula,
    about_model,
    about_residuals,
    about_training,
    sentence,
)
from itofit.matrices.links import LINKS
from itofit.model.formula.formula_sde import Formula
from itofit.model.formula.written import line_text, notes, prediction_text
from itofit.model.learned import LearnedSDE
from itofit.model.storage import PAGES, check_ending, checked_target, write_whole
from itofit.model.summary import STRUCTURES, units_line

NO_SIMULATION = (
    "Simulated and observed distributions are left out: the data are of kind 'general', so where the inputs go after a "
    "step is not known."
)
ANSWERS_NOTE = (
    "Answers of the learned equation within the range of the data, at whose edge paths are reflected; errors and "
    "intervals are those of equations drawn from the posterior."
)
PICTURES_NOTE = (
    "Bands around curves are 95 % intervals, if the model carries error bars. Grey histograms and dots are the data; "
    "where few were learned from, curves are on a grey ground, arrows are grey and maps hatched."
)


def write(
    sde: LearnedSDE,
    data: Data,
    path: str | os.PathLike[str],
    title: str | None,
    saved_as: str | os.PathLike[str] | None,
    formula: Formula | Found | bool,
    figures: Format,
    rng: RNG,
) -> Path:
    """Write the page, as `itofit.report` says."""
    target = checked_target(path)
    check_ending("report", target, PAGES)
    if not isinstance(sde, LearnedSDE):
        advice = "; give the model that it was found for, and it as formula=" if isinstance(sde, Formula) else ""
        raise InputError(f"sde must be a LearnedSDE, as itofit.fit returns it, got {type(sde).__name__}{advice}")
    if title is not None and not isinstance(title, str):
        raise InputError(f"title must be a string or None, got {title!r}")
    if saved_as is not None and not isinstance(saved_as, str | os.PathLike):
        raise InputError(f"saved_as must be the path of a file or None, got {saved_as!r}")
    if not isinstance(formula, Formula | Found | bool):
        raise InputError(f"formula must be what sde.formula returns, True or False, got {formula!r}")
    one_of("figures", figures, get_args(Format))
    random, seed = generator(rng)
    diagnosis = check(sde, data, rng=random)
    sde = sharing_units(sde, data)
    rows = rows_in_memory(with_states(sde, data), random)
    heading = title or f"Drift and noise of {', '.join(sde.output_names)}"
    with style({**RC, "savefig.format": figures}):
        body = [
            *_headline(sde, data, diagnosis, heading),
            *_formula(formula, sde, data, rows),
            *_learned(sde, rows),
            *_trust(sde, rows, diagnosis, random),
            *_answers(sde, rows, random),
            *_made(sde, seed),
            *_used(sde, None if saved_as is None else os.fspath(saved_as)),
        ]
    write_whole(target, page.document(heading, body))
    return Path(path)


def _headline(sde: LearnedSDE, data: Data, diagnosis: Diagnosis, heading: str) -> Iterable[str]:
    """Title, equation, data and the overall verdict."""
    yield page.heading(heading)
    yield page.equation(sde.input_names, sde.output_names)
    n, n_judged = len(data), len(diagnosis.residuals)
    judged = f"{n:,}" if n_judged == n else f"{n_judged:,} of {n:,}"
    groups = sde.data.n_groups
    tracks = "" if groups is None else " in 1 trajectory" if groups == 1 else f" in {groups:,} trajectories"
    learned = f"Learned with itofit {sde.version} from {sde.data.n_transitions:,} transitions{tracks}"
    if sde.data.left_out is not None:
        longest = f"{sde.data.left_out.max_h:.3g}{behind(sde.units.time)}"
        learned += f" ({sde.data.left_out.n:,} longer than {longest} were left out)"
    yield page.paragraph(f"{learned}; shown and checked with {judged}.")
    if sde.n_covariates:
        drivers = ", ".join(sde.covariate_names)
        yield page.paragraph(f"Driven from outside by {drivers}, taken as given and held during a step.")
    if periodic := periods_text(sde.input_names, sde.periods):
        yield page.paragraph(f"Periodic: {periodic}.")
    if sde.units:
        yield page.paragraph(f"Units: {units_line(sde)}.")
    yield page.verdict_box(diagnosis.worst, _overall(diagnosis))


def _overall(diagnosis: Diagnosis) -> str:
    """Which checks found something, and which could not, in a few sentences."""
    titles = {
        verdict: ", ".join(finding.title for finding in diagnosis if finding.verdict == verdict) for verdict in _SAID
    }
    found = [f"{said}: {titles[verdict]}." for verdict, said in _SAID.items() if titles[verdict]]
    nothing = [] if titles["bad"] or titles["caution"] else ["No check found anything that matters."]
    return " ".join(nothing + found)


_SAID: dict[Verdict, str] = {
    "bad": "Serious problems",
    "caution": "Checks that advise caution",
    "cannot tell": "Too few data to tell",
    "not available": "Not available",
}


def _formula(given: Formula | Found | bool, sde: LearnedSDE, data: Data, rows: Transitions) -> Iterable[str]:
    """The equation in a few terms, and how it predicts; if none was given, what was found within seconds."""
    if given is False:
        return
    found = formula_for(sde, data) if given is True else given
    formula, why_not, n_data = (found, "", 0) if isinstance(found, Formula) else found
    yield page.section("The formula")
    if formula is None:
        yield page.paragraph(f"No formula was looked for. {why_not}")
        return
    if n_data and formula.prediction is not None and not formula.is_short:
        nearest = f"The nearest sum of {plural(len(formula.library), 'possible term')} for each function"
        yield page.paragraph(f"No short formula was found. {nearest} {prediction_text(formula.prediction)}.")
        yield page.note("Other terms can be tried with sde.formula(data, terms=[...]).")
        return
    yield page.printed("\n".join(f"{name} = {line_text(formula, line)}" for name, line in formula.lines.items()))
    yield from (page.paragraph(f"{sentence(text)}.") for text in notes(formula))
    yield page.gallery(about_formula(formula, sde, rows))
    if formula.data.n_transitions < n_data:
        some = f"{formula.data.n_transitions:,} of {n_data:,} transitions"
        yield page.note(f"The formula comes from {some}; sde.formula(data) takes all that are within the range.")


def _learned(sde: LearnedSDE, rows: Transitions) -> Iterable[str]:
    """Pictures and numbers of drift and noise."""
    yield page.section("What was learned")
    yield page.gallery(about_model(sde, rows))
    yield page.note(PICTURES_NOTE)
    if max(sde.n_inputs, sde.n_outputs) > MOST_SLICES:
        yield page.note(f"Pictures are of the first {MOST_SLICES} inputs and outputs.")
    yield page.subsection("In numbers")
    if sde.noise_is_constant:
        yield page.tables([constant_noise(sde)])
    yield page.tables(tables(sde, rows))
    yield page.note(tables_note(sde, rows))


def _trust(sde: LearnedSDE, rows: Transitions, diagnosis: Diagnosis, random: np.random.Generator) -> Iterable[str]:
    """Findings, residuals and simulated paths."""
    yield page.section("How far to trust it")
    yield page.findings(diagnosis)
    yield page.note(
        f"Tests at level {diagnosis.level:g}; a deviation counts if it is also large enough to matter. Good means that "
        "none that matters is within the 95 % interval; where one is, these data cannot tell."
    )
    yield page.subsection("Residuals")
    yield page.gallery(about_residuals(sde, diagnosis))
    yield page.subsection("Simulated and observed")
    if sde.kind == "general":
        yield page.paragraph(NO_SIMULATION)
    else:
        yield page.gallery(about_distributions(sde, rows, random))


def _answers(sde: LearnedSDE, rows: Transitions, random: np.random.Generator) -> Iterable[str]:
    """What follows from the equation, if it is of first order in one or two variables and nothing drives it."""
    if sde.kind != "diffusion" or sde.n_covariates or len(sde.state_names) > 2 or not sde.has_error_bars:
        return
    seed = int(random.integers(2**31))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolationWarning)  # the answers say it themselves
        found = outlook(sde, samples=ANSWER_SAMPLES, rng=seed)
        pictures = about_answers(sde, rows, found.answers, seed)
    yield page.section("What follows from it")
    yield page.gallery(pictures)
    yield page.printed(str(found))
    yield page.note(ANSWERS_NOTE if sde.units.time else f"{ANSWERS_NOTE} Times are in the unit of h.")


def _made(sde: LearnedSDE, seed: int | None) -> Iterable[str]:
    """Training, settings, versions."""
    yield page.section("How it was made")
    yield page.gallery(about_training(sde))
    yield page.printed(sde.summary(), columns=True)
    libraries = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "matplotlib"))
    facts = {
        "Noise covariance": _covariance_text(sde),
        "Errors of measurement": _measurement_text(sde),
        "Learned with": f"itofit {sde.version}, seed {'of a generator' if sde.seed is None else sde.seed}",
        "This page": f"itofit {__version__}, seed {'of a generator' if seed is None else seed}; "
        f"{libraries}, Python {platform.python_version()}",
    }
    yield page.definitions((facts | _parameters(sde)).items())


def _covariance_text(sde: LearnedSDE) -> str:
    """How Σ was learned, with what the words for it mean."""
    structure = f"{sde.structure.capitalize()}: {STRUCTURES[sde.structure]}. " if sde.n_outputs > 1 else ""
    return f"{structure}{sde.link.capitalize()} link: {LINKS[sde.link].meaning}."


def _measurement_text(sde: LearnedSDE) -> str:
    """Whether there are any, in a sentence."""
    if sde.measurement_noise is None:
        return "None: observations are taken for the states themselves."
    return sde.measurement_noise.text(sde.input_names[: sde.n_outputs], sde.units).capitalize() + "."


def _parameters(sde: LearnedSDE) -> dict[str, str]:
    """Algorithm 1's parameters for drift and covariance as text, if they were not chosen from the data on the way."""
    trainings = {"Drift settings": sde.drift_function.training, "Covariance settings": sde.covariance_function.training}
    return {name: str(each.parameters) for name, each in trainings.items() if not each.by_evidence}


def _used(sde: LearnedSDE, file: str | None) -> Iterable[str]:
    """How to use it."""
    yield page.section("Use it")
    yield page.code(_usage(sde, file))


def _usage(sde: LearnedSDE, file: str | None) -> str:
    """Code that loads the model and asks for the drift in the middle of the range."""
    x = ", ".join(f"{value:.3g}" for value in sde.box.mean(axis=0))
    ask = f"f, f_std = sde.drift([[{x}]], return_std=True)" if sde.has_error_bars else f"f = sde.drift([[{x}]])"
    save = ["# sde.npz is an example of a name", 'sde.save("sde.npz")  # where it was learned', ""]
    load = ["import itofit", "", f"sde = itofit.load({_quoted(file or 'sde.npz')})", ask]
    return "\n".join(load if file else save + load)


def _quoted(text: str) -> str:
    """A string as Python reads it, in double quotes."""
    return json.dumps(text, ensure_ascii=False)
