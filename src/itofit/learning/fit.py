"""Learn drift and covariance from transitions: automatically, or by Algorithm 2 as published."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from itofit._blocks import n_threads
from itofit._checks import RNG, DataWarning, Float, InputError, count, flag, fraction, generator, one_of
from itofit._progress import Progress
from itofit._version import __version__
from itofit.data.blocked import BlockedTransitions
from itofit.data.survey import Survey, TransitionRows, survey
from itofit.data.transitions import Transitions
from itofit.learning.automatic.method import Data, check_noise, learn_automatically
from itofit.learning.automatic.search import SearchHistory
from itofit.learning.paper.arff import ARFF
from itofit.learning.paper.regression import Fitted, Sample, Scaling, fit_series, warn_if_unsettled
from itofit.matrices.links import Link
from itofit.matrices.symmetric import (
    FLOOR,
    LEAST_FLOOR,
    Structure,
    entries,
    floor_limits,
    outer_entries,
    reference_factor,
    to_matrices,
)
from itofit.model.learned import LearnedSDE
from itofit.model.training import DataSummary

LEAST_TRANSITIONS = 20
CONSTANT_RATE = 1e-9
"""A rate that varies by less than this share of itself varies by rounding alone: a clock among the variables, say."""
LARGEST_STEP_PENALTY = 3.0
"""mean(h) · mean(1/h), the variance of the drift relative to steps of one length, above which `fit` warns."""
LEAST_CORRELATION = 0.25
"""Below this mean correlation, off-diagonal covariance targets are scaled by the variances and not by their mean."""
LINKS: tuple[Link, ...] = ("identity", "log", "square")
"""Those that are compared; one is left for a later one only if that is significantly better."""
NO_NOISE = 1e-9
"""Share of the variance of rates below which residuals are errors of the fit."""
LARGEST_FLOORED_SHARE = 0.1
"""Share of the data that needs the floor above which `fit` warns."""


def fit(
    data: Data,
    *,
    structure: Structure | Literal["auto"] = "auto",
    link: Link | Literal["auto"] = "auto",
    drift: ARFF | None = None,
    covariance: ARFF | None = None,
    floor: float | None = None,
    refine: bool = True,
    weight_drift: bool | None = None,
    cross_fit: bool | None = None,
    ensemble: int | None = None,
    correct_step: bool = False,
    rng: RNG = None,
    progress: bool | None = None,
) -> LearnedSDE:
    """Learn the drift f and the covariance Σ of dx = f dt + σ dW, Σ = σσᵀ, from transitions.

    Nothing needs to be set. Frequencies are searched by Algorithm 1 of the paper, judged by the evidence of the data;
    amplitudes, with ridges of largest evidence, come from the likelihood of the transitions; how Σ is built is decided
    by what predicts held-out data best (docs/automatic.md). With ``refine=False`` it is Algorithm 2 of the paper:
    Algorithm 1 on increments / h gives the drift; its residuals give one covariance rrᵀ / h for each transition, and
    Algorithm 1 on those gives Σ.

    Parameters
    ----------
    data : Transitions
        At least 20; from `Transitions.from_blocks` if they do not fit into memory.
    structure : {"auto", "full", "diagonal"}
        Learn all of Σ, or its diagonal, the rest being zero. "auto": whichever predicts held-out transitions better;
        with ``refine=False``, all of it.
    link : {"auto", "identity", "square", "log"}
        Whether the entries of Σ are sums of waves, those of its square root, or those of its logarithm. "auto":
        whichever predicts held-out transitions best; with ``refine=False``, "identity".
    drift, covariance : ARFF, optional
        Parameters of the two trainings; fields that are None are chosen from the data, others are obeyed.
    floor : float, optional
        Smallest eigenvalue of Σ, relative to the mean covariance of the data, between 1e-6 and 1. None: the largest
        that predicts held-out transitions as well as any; with ``refine=False``, 0.001.
    refine : bool
        False is Algorithm 2 as published.
    weight_drift : bool, optional
        Learn the drift again with weights Σ⁻¹. None: with `refine`. With ``refine=False`` it is the paper's additional
        drift step: Algorithm 1 on Σ^{-1/2} increments / h.
    cross_fit : bool, optional
        Take each transition's residual from a drift that has not seen it, nor others of its group, one of five folds
        at a time. None: with `refine`, which it needs.
    ensemble : int, optional
        Learn so many times, with other random frequencies each time. The result is that of the first; the others say
        what the choice of frequencies adds to its error bars. Needs `refine`.
    correct_step : bool
        Undo what the length h of the observed steps makes of drift and covariance (docs/finite-step.md), as far as
        the data determine it: for processes in continuous time. Left out, drift and covariance are those of one
        observed step, which stay in ``sde.one_step``. Needs `refine`, and inputs that follow from the state that moves.
    rng : int, Generator or None
        The same seed and data give the same result.
    progress : bool, optional
        Show progress; None: on a terminal, after two seconds.

    Returns
    -------
    LearnedSDE

    Warns
    -----
    ConvergenceWarning
        If a training ended at a maximal number of iterations that was set, or with ``refine=False`` at any.
    DataWarning
        If the data carry no noise; if ``correct_step=True`` but the paths chose the lengths of their steps, so that Σ
        was not corrected. With ``refine=False`` also if some time steps are so short that their noise drowns the
        drift, if no dependence of the drift on the inputs was found, or if much of Σ needed its floor.

    Examples
    --------
    >>> import numpy as np, itofit
    >>> rng = np.random.default_rng(0)
    >>> x0 = rng.uniform(-1, 1, 5000)
    >>> x1 = x0 - 2 * x0 * 0.01 + 0.5 * 0.1 * rng.normal(size=5000)        # dx = -2x dt + 0.5 dW
    >>> sde = itofit.fit(itofit.Transitions.from_pairs(x0, x1, h=0.01), rng=0)
    >>> abs(sde.covariance([0.0]).item() - 0.25) < 0.02
    True
    """
    _check_options(structure, link, drift, covariance, floor, refine, weight_drift, cross_fit, correct_step)
    if ensemble is not None and not refine:
        raise InputError("ensemble needs refine=True: what Algorithm 2 learns carries no error bars")
    n_members = 1 if ensemble is None else count("ensemble", ensemble, least=2)
    _check_form(data)
    if correct_step and data.kind == "general":
        raise InputError(
            "correct_step=True needs inputs that follow from the state that moves; these transitions are of kind "
            "'general': build them with from_pairs, from_trajectories or from_underdamped"
        )
    random, seed = generator(rng)
    drift, covariance = drift or ARFF(), covariance or ARFF()
    with Progress(progress) as bar:
        found = survey(data, bar)
        _check_learnable(found, warn=not refine)
        for arff in (drift, covariance):  # what cannot be done is said before any work
            arff.resolve(found.n_rows, data.n_inputs)
        known: dict[str, Any] = {
            "kind": data.kind,
            "input_names": data.input_names,
            "output_names": data.output_names,
            "box": np.array([found.low, found.high]),
            "floored_share": 0.0,
            "seed": seed,
            "data": DataSummary(
                n_transitions=found.n_rows,
                n_groups=found.n_groups,
                h_min=found.h_min,
                h_mean=found.h_mean,
                h_max=found.h_max,
            ),
            "version": __version__,
        }
        if refine:
            sde = _automatic(
                random,
                data,
                found,
                structure,
                link,
                drift,
                covariance,
                floor,
                weight_drift,
                cross_fit,
                correct_step,
                bar,
                known,
            )
        else:
            chosen: Structure = "full" if structure == "auto" else structure
            sde = _algorithm_2(random, data, found, chosen, drift, covariance, floor, bool(weight_drift), bar, known)
        models = [sde] if sde.one_step is None else [sde, sde.one_step]
        n_floored = np.sum([[model.floored(block.inputs).sum() for model in models] for block in data.blocks()], axis=0)
    sde, *uncorrected = (
        replace(m, floored_share=int(n) / found.n_rows) for m, n in zip(models, n_floored, strict=True)
    )
    sde = replace(sde, one_step=uncorrected[0] if uncorrected else None)
    for name, history, arff in (
        ("drift", sde.drift_history, drift),
        ("covariance", sde.covariance_history, covariance),
    ):
        if not refine or arff.max_iterations is not None:  # else the limit was not the user's
            warn_if_unsettled(history, name)
    _warn_of_failures(sde, found)
    if n_members == 1:
        return sde

    def member(own_seed: int) -> LearnedSDE:
        return fit(
            data,
            structure=structure,
            link=link,
            drift=drift,
            covariance=covariance,
            floor=floor,
            weight_drift=weight_drift,
            cross_fit=cross_fit,
            correct_step=correct_step,
            rng=own_seed,
            progress=False,
        )

    members = _all_members(member, random.integers(2**32, size=n_members - 1).tolist(), data, progress)
    if sde.one_step is not None:
        before = tuple(other.one_step for other in members if other.one_step is not None)
        sde = replace(sde, one_step=replace(sde.one_step, members=before))
    return replace(sde, members=members)


def _check_options(
    structure: object,
    link: object,
    drift: object,
    covariance: object,
    floor: float | None,
    refine: bool,
    weight_drift: bool | None,
    cross_fit: bool | None,
    correct_step: bool,
) -> None:
    """Raise if an option is not what it may be, or does not go with another."""
    one_of("structure", structure, ("auto", *get_args(Structure)))
    one_of("link", link, ("auto", *get_args(Link)))
    if floor is not None and fraction("floor", floor) < LEAST_FLOOR:
        raise InputError(f"floor must be at least {LEAST_FLOOR:g}, or rounding would undo it, got {floor!r}")
    flag("refine", refine)
    flag("correct_step", correct_step)
    for name, value in (("weight_drift", weight_drift), ("cross_fit", cross_fit)):
        if value is not None:
            flag(name, value)
    for name, arff in (("drift", drift), ("covariance", covariance)):
        if not isinstance(arff, ARFF | None):
            raise InputError(f"{name} must be an itofit.ARFF or None, got {type(arff).__name__}")
    if not refine and link not in ("auto", "identity"):
        raise InputError(f"refine=False learns the entries of Σ themselves: link must be 'identity', got {link!r}")
    if not refine and correct_step:
        raise InputError("correct_step=True needs refine=True: Algorithm 2 learns the mean and covariance of one step")
    if not refine and cross_fit:
        raise InputError("cross_fit=True needs refine=True: Algorithm 2 takes the residuals of its own training data")


def _all_members(
    member: Callable[[int], LearnedSDE], seeds: list[int], data: Data, progress: bool | None
) -> tuple[LearnedSDE, ...]:
    """The other fits of an ensemble, on all cores; one after the other if data are read from files."""
    found = []
    with Progress(progress) as bar, ThreadPoolExecutor(n_threads() if isinstance(data, Transitions) else 1) as pool:
        for sde in pool.map(member, seeds):
            found.append(sde)
            bar.show("ensemble", f"fit {len(found) + 1} of {len(seeds) + 1}", (len(found) + 1) / (len(seeds) + 1))
    return tuple(found)


def _automatic(
    rng: np.random.Generator,
    data: Data,
    found: Survey,
    structure: Structure | Literal["auto"],
    link: Link | Literal["auto"],
    drift: ARFF,
    covariance: ARFF,
    floor: float | None,
    weight_drift: bool | None,
    cross_fit: bool | None,
    correct_step: bool,
    bar: Progress,
    known: dict[str, Any],
) -> LearnedSDE:
    """Everything chosen from the data but what the user has set."""
    learned = learn_automatically(
        rng,
        data,
        found,
        structure=None if structure == "auto" else structure,
        links=LINKS if link == "auto" else (link,),
        drift=drift,
        covariance=covariance,
        weighted=weight_drift is not False,
        cross_fit=cross_fit is not False,
        correct_step=correct_step,
        bar=bar,
    )
    limits = learned.limits if floor is None else np.maximum([[floor], [floor]], learned.limits * [[0.0], [1.0]])
    sde = LearnedSDE(
        drift_series=learned.drift_series,
        covariance_series=learned.covariance_series,
        drift_spread=learned.drift_spread,
        covariance_spread=learned.covariance_spread,
        structure=learned.structure,
        link=learned.link,
        limits=limits,
        floor_factor=learned.factor,
        drift_history=learned.drift_history,
        covariance_history=learned.covariance_history,
        drift_settings=learned.drift_settings,
        covariance_settings=learned.covariance_settings,
        candidates=learned.candidates,
        searched_on=learned.searched_on,
        **known,
    )
    if learned.corrected is None:
        return sde
    return replace(
        sde,
        drift_series=learned.corrected.drift,
        drift_spread=learned.corrected.drift_spread,
        covariance_series=learned.corrected.covariance,
        covariance_spread=learned.corrected.covariance_spread,
        step_spread=learned.corrected.step_spread,
        step_correction=learned.corrected.record,
        one_step=sde,
    )


def _algorithm_2(
    rng: np.random.Generator,
    data: Data,
    found: Survey,
    structure: Structure,
    drift: ARFF,
    covariance: ARFF,
    floor: float | None,
    again: bool,
    bar: Progress,
    known: dict[str, Any],
) -> LearnedSDE:
    """Algorithm 2 as published, on demand with its additional drift step."""
    floor = FLOOR if floor is None else float(floor)
    f = _fit_drift(rng, data, found, drift, bar)
    sigma, mean = _fit_covariance(rng, data, found, f, structure, covariance, bar)
    sde = LearnedSDE(
        drift_series=f.series,
        covariance_series=sigma.series,
        structure=structure,
        link="identity",
        limits=floor_limits(floor, data.n_outputs),
        floor_factor=reference_factor(mean, floor),
        drift_history=f.history,
        covariance_history=sigma.history,
        drift_settings=f.settings,
        covariance_settings=sigma.settings,
        **known,
    )
    if not again:
        return sde
    g = _fit_drift_again(rng, data, found, sde, drift, bar)
    return replace(
        sde, drift_series=g.series, drift_history=g.history, drift_settings=g.settings, drift_in_noise_units=True
    )


def _fit_drift(rng: np.random.Generator, data: Data, found: Survey, arff: ARFF, bar: Progress) -> Fitted:
    """Algorithm 1 on increments / h."""
    rows = TransitionRows(data, found.n_rows, data.n_outputs, lambda block: block.rates)
    scaling = Scaling.of(found.low, found.high, found.rate_mean)
    return fit_series(rng, Sample(rng, rows, arff, scaling, bar, "drift"), found.rate_std)


def _fit_covariance(
    rng: np.random.Generator,
    data: Data,
    found: Survey,
    f: Fitted,
    structure: Structure,
    arff: ARFF,
    bar: Progress,
) -> tuple[Fitted, Float]:
    """Algorithm 1 on the entries of rrᵀ / h for the residuals r of the drift, and their mean, shape (d, d)."""

    def targets(block: Transitions) -> Float:
        residuals = (block.rates - f.series(block.inputs)) * np.sqrt(block.h)[:, None]
        return outer_entries(residuals, structure)

    n_entries = len(entries(structure, data.n_outputs)[0])
    rows = TransitionRows(data, found.n_rows, n_entries, targets)
    scaling = Scaling.of(found.low, found.high, np.zeros(n_entries))
    sample = Sample(rng, rows, arff, scaling, bar, "covariance")
    mean = to_matrices(sample.mean[None], structure, data.n_outputs)[0]
    check_noise(mean)
    return fit_series(rng, sample, _target_units(mean, structure)), mean


def _fit_drift_again(
    rng: np.random.Generator, data: Data, found: Survey, sde: LearnedSDE, arff: ARFF, bar: Progress
) -> Fitted:
    """Algorithm 1 on Σ^{-1/2} increments / h, for the g in f = Σ^½ g."""

    def targets(block: Transitions) -> Float:
        return np.asarray(np.linalg.solve(sde.diffusion(block.inputs, "symmetric"), block.rates[:, :, None])[:, :, 0])

    n, mean, squares = 0, np.zeros(data.n_outputs), np.zeros(data.n_outputs)
    for block in data.blocks():
        g = targets(block)
        step = g.mean(axis=0) - mean
        n += len(g)
        squares += ((g - g.mean(axis=0)) ** 2).sum(axis=0) + step**2 * len(g) * (n - len(g)) / n
        mean += step * len(g) / n
    rows = TransitionRows(data, found.n_rows, data.n_outputs, targets)
    scaling = Scaling.of(found.low, found.high, mean)
    return fit_series(rng, Sample(rng, rows, arff, scaling, bar, "drift again"), np.sqrt(squares / n))


def _warn_of_failures(sde: LearnedSDE, found: Survey) -> None:
    """Say what a look at the summary would tell."""
    noise = np.diagonal(sde.floor_factor @ sde.floor_factor.T) / found.h_mean
    for column, share in enumerate(noise / found.rate_std**2):
        if share < NO_NOISE:
            warnings.warn(
                f"increments column {column} follows the drift up to {share:.1g} of its variance: the data carry no "
                "noise that could be told from errors of the fit, and the covariance of that column means nothing",
                DataWarning,
                stacklevel=3,
            )
    if sde.step_correction is not None and sde.step_correction.withheld:
        warnings.warn(
            "The steps are too long to be corrected for: no drift and covariance were found whose steps have the mean "
            "and covariance that were learned, so these are returned; observe at shorter steps",
            DataWarning,
            stacklevel=3,
        )
    if sde.step_correction is not None and sde.step_correction.lengths_chosen:
        warnings.warn(
            "Increments do not grow with the length of the step at one place, as if the paths had chosen when to be "
            "seen (after every tenth event, say): the covariance was left as it is for one step",
            DataWarning,
            stacklevel=3,
        )
    if isinstance(sde.drift_history, SearchHistory):
        return
    if sde.drift_history.best_iteration == 0:
        warnings.warn(
            "the drift that was learned is a constant: on the held-out rows no dependence on the inputs was better. "
            "If you expect one, try another seed, more data, or drift=itofit.ARFF(validation_fraction=0.3)",
            DataWarning,
            stacklevel=3,
        )
    if sde.floored_share > LARGEST_FLOORED_SHARE:
        warnings.warn(
            f"the learned covariance needed its floor at {sde.floored_share:.0%} of the data and means little there; "
            "is the noise far weaker in places, or absent?",
            DataWarning,
            stacklevel=3,
        )


def _target_units(mean: Float, structure: Structure) -> Float:
    """What covariance targets are divided by: the sizes of their means, as in the paper.

    The mean of an off-diagonal entry may vanish, and dividing by it would let the noise of that entry drown the
    others. Where it is less than a quarter of √(Σ_ii Σ_jj), which no correlation of the paper's experiments is, that
    root is the size.
    """
    rows, cols = entries(structure, len(mean))
    size, means = np.sqrt(np.diagonal(mean)[rows] * np.diagonal(mean)[cols]), np.abs(mean[rows, cols])
    return np.where(means < LEAST_CORRELATION * size, size, means)


def _check_form(data: object) -> None:
    if not isinstance(data, Transitions | BlockedTransitions):
        made_by = "from_dataframe" if hasattr(data, "columns") else "from_trajectories and from_pairs"
        raise InputError(f"fit needs Transitions, got {type(data).__name__}; see itofit.Transitions.{made_by}")


def _check_learnable(found: Survey, warn: bool) -> None:
    """Raise before any work if there is nothing to learn from."""
    n_inputs = len(found.low)
    least = max(LEAST_TRANSITIONS, n_inputs + 1)
    if found.n_rows < least:
        hint = f" of {n_inputs} inputs; are the arrays transposed?" if found.n_rows <= n_inputs else ""
        raise InputError(f"at least {least} transitions are needed to learn from, got {found.n_rows}{hint}")
    for column, (low, high) in enumerate(zip(found.low, found.high, strict=True)):
        if low == high:
            raise InputError(
                f"inputs column {column} is constant ({low:g}): nothing can be learned of how drift and covariance "
                "depend on it; remove the column"
            )
        if not max(-low, high) < 1e300:
            raise InputError(f"inputs column {column} is too large for double precision; change its unit")
    if not found.moves:
        raise InputError("all increments are zero: nothing moves; were x0 and x1 mixed up?")
    for column, (low, high) in enumerate(zip(found.rate_low, found.rate_high, strict=True)):
        if high - low <= CONSTANT_RATE * max(-low, high):
            raise InputError(
                f"increments column {column} moves at a constant rate ({low:g}): it carries no noise to "
                "learn; remove it from the increments (it may stay in the inputs)"
            )
        if not 1e-200 < found.largest_square[column] < 1e200:
            raise InputError(
                f"increments column {column} is of a size whose square double precision does not hold; change its unit"
            )
    penalty = found.h_mean * found.inverse_h_mean
    if warn and penalty > LARGEST_STEP_PENALTY:
        warnings.warn(
            f"the time steps are very uneven ({found.h_min:.3g} to {found.h_max:.3g}): the shortest make the drift "
            f"about {np.sqrt(penalty):.1f} times less accurate than it could be; leave them out, as in "
            "data[data.h > ...]",
            DataWarning,
            stacklevel=3,
        )
