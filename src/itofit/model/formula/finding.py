"""How a formula is found: normal equations from the data, terms by what they gain, and a comparison on held-out data.

The first round looks for terms of one observed step, as it was learned; later ones undo its length by the moments of
the steps that the formula itself makes, until its coefficients no longer change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from itofit._checks import Float, InputError, Int, Option, fraction, one_of
from itofit._version import __version__
from itofit.data.filtered import those
from itofit.data.names import other_units
from itofit.data.passes import Data, add_up
from itofit.data.transitions import Transitions
from itofit.data.units import Units
from itofit.data.with_units import checked_units, sharing_units
from itofit.matrices.symmetric import entries
from itofit.model.finite_step import Scheme
from itofit.model.formula.beside_learned import compared
from itofit.model.formula.formula_sde import Formula
from itofit.model.formula.library import Term, Terms, library, values_of
from itofit.model.formula.lines import Line, Slot
from itofit.model.formula.selection import Chosen, choose_without, dependent_terms, price_of_term, same_choice, solved
from itofit.model.formula.step_errors import with_step_errors
from itofit.model.formula.term_sums import FOLDS, TermSums, summed
from itofit.model.formula.through_filter import (
    Hidden,
    judged_through_filter,
    settled_through_filter,
)
from itofit.model.sde import SDE
from itofit.model.training import DataSummary, learned_from

if TYPE_CHECKING:
    from itofit.model.learned import LearnedSDE

MOST_ROUNDS = 8
"""In which the steps of a formula are undone by those that it makes itself."""
SETTLED = 0.05
"""Errors by which coefficients may still change in the last of them."""
ABOUT_AS_LONG = 1.05
"""Ratio of the longest to the shortest step up to which all count as equally long."""
FEWEST = 50
"""Transitions that a formula is found from."""
LEAST_MOVE = 1e-12
"""Of the learned noise of a step: a variable that never moves farther stands still."""
Noise = Literal["covariance", "diffusion"]


def find_formula(
    sde: LearnedSDE,
    data: Data,
    *,
    terms: Terms | None,
    degree: int | None,
    noise: Noise,
    held_out: Data | None,
    false_alarms: float,
    units: Mapping[str, str] | None,
    time_unit: str | None,
    seen: bool | None = None,
) -> Formula:
    """A sparse formula for a learned equation, as `LearnedSDE.formula` says.

    `seen` says whether the data are some of those that it was learned from; None: if they are all of them, by number
    and range.
    """
    for each in (data,) if held_out is None else (data, held_out):
        sde._check_data("formula", each)
    one_of("noise", noise, ("covariance", "diffusion"))
    fraction("false_alarms", false_alarms)
    own_units = _units_of(sharing_units(sde, data), units, time_unit)
    tried = library(sde, terms, degree)
    values_of(tried, 0.5 * sde.box.sum(axis=0, keepdims=True))  # a term of the wrong shape is told at once
    hidden = sde._seen_through_filter(data)
    used, n_used = usable(sde, data)
    if used is None or n_used < max(FEWEST, 5 * len(tried)):
        raise InputError(
            "a formula of {n_terms} possible terms needs at least {least} transitions within the range that was "
            "learned, got {got}: give more data or a lower {degree}",
            n_terms=len(tried), least=max(FEWEST, 5 * len(tried)), got=n_used, degree=Option("degree"),
        )  # fmt: skip
    held_out = _to_be_judged_on(sde, held_out)
    _check_moves(sde, used)
    slots = slots_of(sde, noise)
    undo = sde.kind != "general" and (sde.step_correction is not None or sde.scheme == "corrected")
    empty = Formula(
        drift_lines=(),
        noise_lines=(),
        structure=sde.structure,
        limits=sde.limits,
        floor_factor=sde.floor_factor,
        kind=sde.kind,
        box=sde.box,
        input_names=sde.input_names,
        output_names=sde.output_names,
        periods=sde.periods,
        n_covariates=sde.n_covariates,
        data=replace(_summary(used), places=sde.data.places),
        version=__version__,
        corrected=undo,
        false_alarms=false_alarms,
        units=own_units,
        hidden_velocity=sde.hidden_velocity if hidden else None,
    )
    if hidden:
        return _found_through_filter(Hidden(sde, used, tried, slots, empty), held_out, seen, may_lower=degree is None)
    sums, tried = _first_sums(sde, used, tried, slots, may_lower=degree is None)
    price = price_of_term(false_alarms, len(slots) * len(tried))
    empty = replace(empty, library=tuple(term.name for term in tried))
    formula, sums, chosen = _sure(Search(sde, used, tried, slots, empty, price), sums)
    seen = learned_from(sde, int(sums.n.sum()), sums.low, sums.high) if seen is None else seen
    return _judged(sde, formula, used, held_out, seen, sums, tried, slots, chosen)


def _units_of(sde: LearnedSDE, units: Mapping[str, str] | None, time_unit: str | None) -> Units:
    """The units of a model with those that are given; an error if these are others."""
    own = checked_units(sde, units, time_unit)
    if differ := other_units(own, sde.units):
        raise InputError(
            "{units}: {differ} in the model or its data, and nothing is converted: leave it out, or give the model "
            "other units first, by its with_units",
            units=Option("units"), differ=differ,
        )  # fmt: skip
    return own


def slots_of(sde: LearnedSDE, noise: Noise) -> list[Slot]:
    """The lines that a formula has."""
    pairs = zip(*entries(sde.structure, sde.n_outputs), strict=True)
    return [Slot("drift", a, a) for a in range(sde.n_outputs)] + [Slot(noise, int(i), int(j)) for i, j in pairs]


def with_lines(empty: Formula, slots: Sequence[Slot], terms: Sequence[Term], chosen: Sequence[Chosen]) -> Formula:
    """A formula with lines of chosen terms."""
    lines = [
        Line(slot=slot, terms=tuple(terms[k] for k in each.places), coefficients=each.coefficients,
             covariance=each.covariance)
        for slot, each in zip(slots, chosen, strict=True)
    ]  # fmt: skip
    d = empty.n_outputs
    return replace(empty, drift_lines=tuple(lines[:d]), noise_lines=tuple(lines[d:]))


def usable(sde: LearnedSDE, data: Data) -> tuple[Data | None, int]:
    """The transitions that a formula may be found from or judged on, and how many there are; None if there are none.

    They start within the range that was learned, if states are not hidden, and do not take longer than those that were
    learned from.
    """
    (low, high), hidden = sde._range, sde._seen_through_filter(data)
    longest = np.inf if sde.data.left_out is None else sde.data.left_out.max_h
    if hidden and np.isinf(longest):
        return data, len(data)

    def inside(block: Transitions) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        short = block.h <= longest
        return short if hidden else short & ((block.inputs >= low) & (block.inputs <= high)).all(axis=1)

    n = add_up(data, lambda block, number: int(inside(block).sum()))
    if n == len(data):
        return data, n
    return (those(data, inside) if n else None), n


def _to_be_judged_on(sde: LearnedSDE, held_out: Data | None) -> Data | None:
    """Those of the held-out transitions that a formula can be judged on; an error if there are none."""
    if held_out is None:
        return None
    judged_on, _ = usable(sde, held_out)
    if judged_on is None:
        raise InputError(
            "{held_out} has no transition that starts within the range that was learned and takes no longer than "
            "those: give others, or leave it out",
            held_out=Option("held_out"),
        )
    return judged_on


def _check_moves(sde: LearnedSDE, data: Data) -> None:
    """Raise if an output does not move, or next to nothing beside its learned noise: 0 would be said to fit best."""
    moves = np.max(add_up(data, lambda block, number: [np.abs(block.increments).max(axis=0)]), axis=0)
    noise = np.diagonal(sde.covariance(0.5 * sde.box.sum(axis=0, keepdims=True))[0])
    power = 3 if data.kind == "positions" else 1  # of the time that noise has moved positions for
    for name, move, least in zip(
        data.output_names, moves, LEAST_MOVE * np.sqrt(noise * sde.data.h_mean**power), strict=True
    ):
        if move <= least:
            raise InputError(f"{name} does not move in these data, so that nothing can be said of it: give others")


def _summary(data: Data) -> DataSummary:
    total, low, high = add_up(
        data, lambda block, number: (float(block.h.sum()), [float(block.h.min())], [float(block.h.max())])
    )
    return DataSummary(
        n_transitions=len(data), n_groups=None, h_min=min(low), h_mean=total / len(data), h_max=max(high)
    )


def steps_of(sde: LearnedSDE, data: Data) -> tuple[SDE, Scheme]:
    """The learned equation whose steps are those of the data, and by which scheme.

    If all steps are about as long as those that were learned from, it is what was learned of one step, which costs far
    less than the moments of the corrected functions.
    """
    if sde.one_step is None or sde.scheme == "euler":
        return sde, sde.scheme
    lengths = add_up(data, lambda block, number: [float(block.h.min()), float(block.h.max())])
    low, high = min(*lengths, sde.data.h_min), max(*lengths, sde.data.h_max)
    return (sde.one_step, "euler") if high <= ABOUT_AS_LONG * low else (sde, sde.scheme)


def _first_sums(
    sde: LearnedSDE, data: Data, terms: list[Term], slots: list[Slot], *, may_lower: bool
) -> tuple[TermSums, list[Term]]:
    """Sums with what the learned functions say of steps, and terms none of which follows from others."""
    sums = summed(data, terms, slots, sde, *steps_of(sde, data))
    kept = independent_terms(terms, sums.without(None)[0][0], may_lower=may_lower)
    sums = sums._replace(G=sums.G[:, :, kept][:, :, :, kept], M=sums.M[:, :, kept])
    return sums, [terms[k] for k in kept]


def independent_terms(terms: Sequence[Term], G: Float, *, may_lower: bool) -> list[int]:
    """The places of terms none of which follows from others, given Σ w φ φᵀ of all (K, K); an error if that is not so.

    With `may_lower`, terms of the highest degrees are left out instead.
    """
    kept = list(range(len(terms)))
    while (found := dependent_terms(G[np.ix_(kept, kept)])) is not None:
        column, others = terms[kept[found[0]]], found[1]
        fewer = [k for k in kept if _degree(terms[k]) < _degree(column)]
        if not may_lower or not fewer or column.function is not None:
            names = ", ".join(repr(terms[kept[k]].name) for k in others)
            says = f"is a combination of {names}" if len(others) else "is zero"
            raise InputError(
                "{terms}: at all of the data, {name!r} {says}, so that their coefficients cannot be told: leave one of "
                "them out, give a lower {degree}, or measure variables from their mean",
                terms=Option("terms"), name=column.name, says=says, degree=Option("degree"),
            )  # fmt: skip
        kept = fewer
    return kept


def _degree(term: Term) -> int:
    return 0 if term.function is not None else sum(term.powers) + len(term.waves)


class Search(NamedTuple):
    """What terms are chosen for, from which, and what each costs."""

    sde: LearnedSDE
    data: Data
    terms: list[Term]
    slots: list[Slot]
    empty: Formula  # all that is known of the formula but its lines
    price: float


def _sure(search: Search, sums: TermSums) -> tuple[Formula, TermSums, list[Chosen]]:
    """A formula all of whose terms are as sure as they must be, given the errors that coefficients end up with.

    To undo the length of steps makes a coefficient larger, and its error as well. While terms are chosen the first
    counts alone, which keeps some that came in by chance; they are dropped here, the weakest first.
    """
    sde, data, terms, slots, empty, price = search
    unsure: list[list[int]] = [[] for _ in slots]
    while True:
        sums, chosen = _settled(search, sums, unsure)
        formula = with_step_errors(with_lines(empty, slots, terms, chosen), sde, data, slots)
        lines = (*formula.drift_lines, *formula.noise_lines)
        weakest = min(
            ((abs(c) / s, t, int(place)) for t, (line, one) in enumerate(zip(lines, chosen, strict=True))
             for c, s, place in zip(line.coefficients, line.std, one.places, strict=True)),
            default=(np.inf, 0, 0),
        )  # fmt: skip
        if 0.5 * weakest[0] ** 2 >= price:
            return formula, sums, chosen
        unsure[weakest[1]].append(weakest[2])


def _settled(search: Search, sums: TermSums, without: Sequence[Sequence[int]]) -> tuple[TermSums, list[Chosen]]:
    """Sums and terms with what the formula itself makes of the length of steps, without some terms of each line."""
    sde, data, terms, slots, empty, price = search

    def choices(starts: Sequence[Int | None]) -> list[Chosen]:
        return [
            choose_without(G, M, price, start, own)
            for G, M, start, own in zip(*sums.without(None), starts, without, strict=True)
        ]

    chosen = choices([None] * len(slots))
    for _ in range(MOST_ROUNDS):
        present = with_lines(empty, slots, terms, chosen)
        sums = summed(data, terms, slots, sde, present, empty.scheme, sums.calibration)
        before = chosen
        chosen = choices([one.places for one in before])
        if all(same_choice(one, two, SETTLED) for one, two in zip(before, chosen, strict=True)):
            break
    return sums, chosen


def _found_through_filter(asked: Hidden, held_out: Data | None, seen: bool | None, *, may_lower: bool) -> Formula:
    """The formula of an equation whose states are hidden."""
    first, K = asked.equations(asked.sde), len(asked.terms)
    kept = independent_terms(asked.terms, first.drift.G[:K, :K], may_lower=may_lower)
    if len(kept) < K:
        asked = asked.with_terms(kept)
        first = asked.equations(asked.sde)
    price = price_of_term(asked.empty.false_alarms, len(asked.slots) * len(kept))
    asked = asked._replace(empty=replace(asked.empty, library=tuple(term.name for term in asked.terms)))
    formula = settled_through_filter(asked, first, price, MOST_ROUNDS, SETTLED)
    return judged_through_filter(asked, formula, held_out, seen)


def _judged(
    sde: LearnedSDE,
    formula: Formula,
    data: Data,
    held_out: Data | None,
    seen: bool,
    sums: TermSums,
    terms: list[Term],
    slots: list[Slot],
    chosen: list[Chosen],
) -> Formula:
    """The formula with how it predicts: by coefficients from other folds, or on data that were held out."""
    clipped = add_up(data, lambda block, number: int(formula.floored(block.inputs).sum()))
    if held_out is not None:
        each, judged_on = [formula] * FOLDS, held_out
        how, optimism = f"{len(judged_on):,} held-out transitions", 0.0
    else:
        each, judged_on = [], data
        for fold in range(FOLDS):
            G, M = sums.without(fold)
            refitted = [solved(G[t], M[t], one.places) for t, one in enumerate(chosen)]
            each.append(with_lines(formula, slots, terms, refitted))
        optimism = sde.n_determined / sde.data.n_transitions if seen else 0.0
        how = f"coefficients from other folds of {len(data):,} transitions"
        how += f"; the learned functions have seen them, for which {optimism:.1g} is taken off" if seen else ""
    prediction, lines = compared(sde, steps_of(sde, judged_on), each, judged_on, slots, optimism, how)
    d = formula.n_outputs
    own = [
        replace(line, difference=difference, error=error)
        for line, (difference, error) in zip((*formula.drift_lines, *formula.noise_lines), lines, strict=True)
    ]
    return replace(
        formula,
        drift_lines=tuple(own[:d]),
        noise_lines=tuple(own[d:]),
        prediction=prediction,
        clipped_share=clipped / len(data),
    )
