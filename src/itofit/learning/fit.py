"""Learn drift and covariance from transitions: automatically, or by Algorithm 2 as published."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from time import perf_counter
from typing import Literal

import numpy as np

from itofit._blocks import n_threads, one_blas_thread
from itofit._checks import RNG, InputError, Option, generator
from itofit._progress import Progress
from itofit.data.large.cluster import Client, Cluster, on_cluster
from itofit.data.passes import Data
from itofit.data.periods import is_periodic
from itofit.data.resampling import check_resampled, resampled
from itofit.data.survey import survey
from itofit.data.transitions import Transitions
from itofit.learning.automatic.method import Automatic
from itofit.learning.long_steps import without_long_steps
from itofit.learning.noisy.through_noise import (
    Decision,
    can_be_noisy,
    member_through_noise,
    seen_through_noise,
    with_what_is_told,
)
from itofit.learning.options import FitOptions, NoiseOption
from itofit.learning.outliers import outliers
from itofit.learning.pipeline import Task, as_part, learn
from itofit.learning.second_order.from_positions import check_options_of_positions, learned_from_positions
from itofit.learning.verdicts import (
    check_learnable,
    warn_if_unsettled,
    warn_of_alternating_tracks,
    warn_of_failures,
    warn_of_uneven_steps,
)
from itofit.matrices.links import LinkName
from itofit.matrices.symmetric import Structure
from itofit.model.calls import explaining
from itofit.model.learned import LearnedSDE
from itofit.model.training import Work
from itofit.waves.parameters import ARFF

FROM_TRACKS = "itofit.fit(itofit.Transitions.from_trajectories(x, dt=dt))"
MAKE_DATA = f"make the data first, as in {FROM_TRACKS}"
"""What to do with observations."""


@explaining(
    positional=MAKE_DATA,
    seed="rng",
    random_state="rng",
    n_features="drift=itofit.ARFF(n_features=...)",
    verbose="progress",
    noise="measurement_noise",
    dt=FROM_TRACKS,
)
def fit(
    data: Data,
    *,
    structure: Structure | Literal["auto"] = "auto",
    link: LinkName | Literal["auto"] = "auto",
    drift: ARFF | None = None,
    covariance: ARFF | None = None,
    floor: float | None = None,
    refine: bool = True,
    weight_drift: bool | None = None,
    cross_fit: bool | None = None,
    ensemble: int | None = None,
    bootstrap: int | None = None,
    correct_step: bool | Literal["auto"] = "auto",
    max_h: float | Literal["auto"] | None = "auto",
    measurement_noise: NoiseOption = "auto",
    rng: RNG = None,
    progress: bool | None = None,
    client: Client | None = None,
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
        At least 20; from `Transitions.from_blocks` if they do not fit into memory. Of positions alone
        (`Transitions.from_positions`) f and Σ are functions of position and velocity (docs/positions.md).
    structure : {"auto", "full", "diagonal"}
        Learn all of Σ, or its diagonal, the rest being zero. "auto": whichever predicts held-out transitions better;
        with ``refine=False``, all of it.
    link : {"auto", "identity", "square", "log"}
        Whether the entries of Σ are sums of waves, those of its square root, or those of its logarithm. "auto":
        whichever predicts held-out transitions best; with ``refine=False``, "identity".
    drift, covariance : ARFF, optional
        Parameters of the two trainings; fields that are None are chosen from the data, others are obeyed. `ARFF` says
        which of them only one of the methods uses.
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
        at a time. None: with `refine`, which it needs. Where frequencies are searched on a subset, this holds for the
        subset; the last step, on all transitions, takes residuals of the drift that was solved on them.
    ensemble : int, optional
        Learn so many times, with other random frequencies each time. The result is that of the first; the others say
        what the choice of frequencies adds to its error bars. Needs `refine`.
    bootstrap : int, optional
        Learn so many times more, at least 10, from as many tracks drawn with replacement (from single transitions if
        they belong to no track). Error bars and `LearnedSDE.sample` are then those of these fits, and not of the
        posterior: they take in how tracks differ from each other. Needs `refine`, and data in memory.
    correct_step : {"auto", True, False}
        Undo what the length h of the observed steps makes of drift and covariance (docs/finite-step.md). "auto": where
        that exceeds its uncertainty. True: always, as far as the data determine it; this needs `refine`, and inputs
        that follow from the state that moves, without which "auto" does nothing. False: drift and covariance are those
        of one observed step, which stay in ``sde.one_step`` otherwise. Use it for processes that move in steps, such
        as a simulation by Euler steps of the same length.
    max_h : {"auto"}, float or None
        Leave out transitions that took longer. "auto": those that took more than three times the median, and too long
        for the drift that the others show (docs/finite-step.md), with a warning; with `refine` alone. None: keep all.
    measurement_noise : {"auto"}, False, float or array
        Errors of measurement, y = x + η with independent η ~ N(0, Λ) at each observation, in data whose order is known:
        tracks, of kind "diffusion", driven from outside or not, angles included, or of positions alone
        (docs/measurement-noise.md). "auto": Λ is learned, and f and Σ without it, if the data show it by a likelihood
        ratio at level 0.01; with `refine` alone. False: observations are the states. A standard deviation, one for each
        variable, or Λ itself, shape (d, d): known errors. The result is in ``sde.measurement_noise``, which is None if
        there are none.
    rng : int, Generator or None
        The same seed and data give the same result.
    progress : bool, optional
        Show progress; None: on a terminal, after two seconds.
    client : distributed.Client, optional
        A Dask client: every pass over the data runs on its workers, with the same result to the last bit. For data in
        parts, such as directories of files and Dask data frames; data in memory are worked on where they are, and the
        summary says so (docs/cluster.md).

    Returns
    -------
    LearnedSDE

    Warns
    -----
    ConvergenceWarning
        If a training ended at a maximal number of iterations that was set, or with ``refine=False`` at any.
    DataWarning
        If transitions were left out because they took too long, or because they start far from all others and no
        equation of all has them relax from there; if the data carry no noise; if the noise of some variables follows
        from that of others; if errors of measurement are far larger than the motion between observations, or cannot be
        told from noise; if consecutive observations hardly tell of each other; if positions show errors although
        ``measurement_noise=False``; if ``correct_step=True`` but the steps are too long for it, or the paths chose
        their lengths. With ``refine=False`` also if some time steps are so short that their noise drowns the drift, if
        no dependence of the drift on the inputs was found, or if much of Σ needed its floor.

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
    options = FitOptions(
        structure=structure,
        link=link,
        drift=drift,
        covariance=covariance,
        floor=floor,
        refine=refine,
        weight_drift=weight_drift,
        cross_fit=cross_fit,
        ensemble=ensemble,
        bootstrap=bootstrap,
        correct_step=correct_step,
        max_h=max_h,
        measurement_noise=measurement_noise,
        rng=rng,
    )
    _check_data(data, options)
    data, began = on_cluster(data, client), perf_counter()
    random, seed = generator(rng)
    with Progress(progress) as bar, one_blas_thread:  # so that no digit depends on the number of threads
        statistics = survey(data, bar)
        check_learnable(statistics, data)
        for arff in (options.drift_parameters, options.covariance_parameters):  # what cannot be done is said at once
            arff.resolve(statistics.n_rows, data.n_inputs)
        if not refine:
            warn_of_uneven_steps(statistics)
        warn_of_alternating_tracks(statistics, data, options)
        task = Task(data=data, survey=statistics, options=options, rng=random, seed=seed, bar=bar)
        task, sde = _learned_where_data_are(task)
        decision = seen_through_noise(task, sde)
    for name, function in (("drift", sde.drift_function), ("covariance", sde.covariance_function)):
        if not refine or function.training.parameters.max_iterations is not None:  # else the limit was not the user's
            warn_if_unsettled(function.training, name)
    if data.kind != "positions":  # whose increments are not those of velocities
        warn_of_failures(sde, task.survey, options)
    sde = with_what_is_told(task, sde) if decision is None else decision.sde
    if options.ensemble is not None or options.bootstrap is not None:
        sde = _with_members(sde, decision, task, progress)
    sde = sde._carrying(data.units) if data.units else sde
    return sde if client is None else _with_work(sde, data, perf_counter() - began)


def _with_work(sde: LearnedSDE, data: Data, seconds: float) -> LearnedSDE:
    """A model that says what was done on a cluster."""
    work = Work(n_passes=0, n_workers=0, pass_seconds=0.0, client_seconds=seconds)
    if isinstance(cluster := getattr(data, "cluster", None), Cluster):
        work = Work(
            n_passes=cluster.n_passes,
            n_workers=cluster.n_workers,
            pass_seconds=cluster.seconds,
            client_seconds=max(0.0, seconds - cluster.seconds),
        )
    return replace(sde, data=replace(sde.data, work=work))


def _learned_where_data_are(task: Task) -> tuple[Task, LearnedSDE]:
    """A model and what it was learned from: without steps that are too long, and without outliers of another law."""
    far = outliers(task)
    if far is None:
        task = without_long_steps(task)
        return task, _learned(task)
    others = without_long_steps(far.others)
    sde = _learned(others)
    if far.relax:
        everything = without_long_steps(task)
        with_them = _learned(everything)
        if far.belong(with_them, sde, others.data):
            return everything, with_them
    far.warn()
    return others, sde


def _learned(task: Task) -> LearnedSDE:
    """What the method that was asked for makes of the data."""
    if task.data.kind == "positions":
        return learned_from_positions(task)
    if task.options.refine:
        return learn(task, Automatic(task))
    from itofit.learning.paper.algorithm_2 import Paper  # noqa: PLC0415  (who does not ask for it need not wait for it)

    return learn(task, Paper(task))


def _with_members(sde: LearnedSDE, decision: Decision | None, task: Task, progress: bool | None) -> LearnedSDE:
    """A model with other fits, to the same data or to tracks drawn from them.

    They run on all cores, or one by one if data are read from files.
    """
    draws = task.options.bootstrap is not None
    n_members = task.options.bootstrap or (task.options.ensemble or 1) - 1

    def member(seed: int) -> LearnedSDE:
        options = replace(task.options, rng=seed, ensemble=None, bootstrap=None)
        random = np.random.default_rng(seed)
        own = replace(task, options=options, rng=random, seed=seed, bar=Progress(False))
        if draws:
            assert isinstance(task.data, Transitions)
            data = resampled(task.data, random)
            own = replace(own, data=data, survey=survey(data, own.bar))
        return _learned(own) if decision is None else member_through_noise(own, decision)

    seeds = task.rng.integers(2**32, size=n_members).tolist()
    members: list[LearnedSDE] = []
    n, what = n_threads() if task.data.in_memory else 1, "bootstrap" if draws else "ensemble"
    with Progress(progress) as bar, one_blas_thread, ThreadPoolExecutor(n) as pool:
        for other in pool.map(member, seeds):
            members.append(as_part(other))
            bar.show(what, f"fit {len(members)} of {n_members}", len(members) / n_members)
    if sde.one_step is not None:
        before = tuple(other.one_step or other for other in members)
        sde = replace(sde, one_step=replace(sde.one_step, members=before, bootstrapped=draws))
    return replace(sde, members=tuple(members), bootstrapped=draws)


def _check_data(data: object, options: FitOptions) -> None:
    """Raise if data are not transitions, or not such that the options need."""
    if not isinstance(data, Data):
        made_by = "from_trajectories and from_pairs"
        if hasattr(data, "columns"):
            made_by = "from_dask" if hasattr(data, "npartitions") else "from_dataframe"
        raise InputError(f"fit needs Transitions, got {type(data).__name__}; see itofit.Transitions.{made_by}")
    if not options.refine and is_periodic(data.periods).any():
        raise InputError(
            "{option} knows no periodic variables, whose frequencies must be whole harmonics: make the data without "
            "{periodic}, or leave refine=False out",
            option=Option("refine", False),
            periodic=Option("periodic"),
        )
    if options.bootstrap is not None:
        check_resampled(data)
    if data.kind == "positions":
        check_options_of_positions(options)
    if options.known_noise(data.n_outputs) is not None and data.kind != "positions" and not can_be_noisy(data):
        raise InputError(
            "{option} needs tracks of positions, or of states that move as a whole, kind 'diffusion'; these "
            "transitions are of kind {kind!r}",
            option=Option("measurement_noise"),
            kind=data.kind,
        )
    if options.corrects_step(data.kind) and data.kind == "general":
        raise InputError(
            "{option} needs inputs that follow from the state that moves; these transitions are of kind "
            "'general': build them with from_pairs, from_trajectories or from_underdamped",
            option=Option("correct_step", True),
        )
