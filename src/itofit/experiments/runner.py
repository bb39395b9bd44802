"""Runs of all methods on all experiments: in parallel, resumable, each saved as soon as it is finished.

Methods are compared on the same data: a job is one experiment and one run number. Its data are made once and handed to
every method that has not finished there yet.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from multiprocessing.managers import SyncManager
from multiprocessing.queues import Queue
from queue import Queue as MessageQueue
from typing import NamedTuple
from zlib import crc32

import numpy as np
from threadpoolctl import threadpool_limits

from itofit._checks import Float
from itofit.experiments.catalogue import CASES, Case
from itofit.experiments.methods import METHODS, MOST_SECONDS, Outcome, Task, versions
from itofit.experiments.processes import end_with_parent
from itofit.experiments.results import TRUTH, Results, Run
from itofit.model.sde import SDE

HELD_OUT = 0.1
MOST_POINTS = 1_000
"""Number of validation inputs at which the learned functions are saved."""
N_PATHS, QUICK_PATHS = 10_000, 1_000
N_TIMES, N_BINS = 101, 80
"""Times and bins of the distribution of paths."""

Message = tuple[str, str, int, int]
"""The job, its method, how many steps are done, and of how many."""
Listener = Callable[[Message], None]


class Job(NamedTuple):
    """One run of one experiment, with the methods that are still missing there."""

    experiment: str
    run: int
    methods: tuple[str, ...]
    seed: int
    most_seconds: float = MOST_SECONDS

    @property
    def label(self) -> str:
        """The job's name in messages."""
        return f"experiment {self.experiment}, run {self.run}"


class Done(NamedTuple):
    """How one method of a job ended."""

    job: Job
    method: str
    error: str  # empty if it did not fail


def missing(
    results: Results,
    experiments: Sequence[str],
    methods: Sequence[str] | None,
    runs: int,
    seed: int,
    most_seconds: float = MOST_SECONDS,
) -> list[Job]:
    """The jobs that are still to be done, long ones first; with `methods` None, each method runs where it belongs."""
    jobs = []
    for experiment in experiments:
        for run in range(runs):
            chosen = methods_of(experiment, methods)
            left = tuple(name for name in chosen if not results.has(experiment, name, run))
            if left:
                jobs.append(Job(experiment, run, left, seed, most_seconds))
    return sorted(jobs, key=lambda job: job.experiment != "7")


def methods_of(experiment: str, methods: Sequence[str] | None) -> list[str]:
    """Names of the methods that run in an experiment."""
    if methods is not None:
        return list(methods)
    return [method.name for method in METHODS.values() if not method.only or experiment in method.only]


# One job


def seeds(job: Job) -> tuple[int, int, int]:
    """Seeds of data, split and training; other experiments and runs have others."""
    root = np.random.SeedSequence([job.seed, crc32(job.experiment.encode()), job.run])
    data, split, training = root.generate_state(3).tolist()
    return data, split, training


def perform(job: Job, results: Results, listen: Listener) -> Iterator[Done]:
    """Do a job, method by method; if one fails, the others still run."""
    case = CASES[job.experiment]
    data_seed, split_seed, training_seed = seeds(job)
    listen((job.label, "data", 0, 1))
    train, validation = case.sample(np.random.default_rng(data_seed), results.quick).split(HELD_OUT, rng=split_seed)
    task = Task(case, train, validation, training_seed, results.quick, job.most_seconds)
    if not results.has(job.experiment, TRUTH, job.run):
        results.save(_record(job, task, TRUTH, _truth(task), None))
    truth = results.load(job.experiment, TRUTH, job.run)
    for name in job.methods:
        listen((job.label, METHODS[name].label, 0, 1))
        try:
            outcome = METHODS[name].learn(task, partial(_show_progress, listen, job.label, METHODS[name].label))
            results.save(_record(job, task, name, outcome, truth))
        except Exception:  # one failure must not end hours of work; the command reports it at the end
            yield Done(job, name, traceback.format_exc())
        else:
            yield Done(job, name, "")


def _show_progress(listen: Listener, label: str, method: str, done: int, of: int) -> None:
    listen((label, method, done, of))


def _truth(task: Task) -> Outcome:
    """The true equation as if it had been learned."""
    truth = task.case.truth
    loss = truth.nll(task.validation)
    return Outcome(truth, loss, loss, 0.0, 0.0, 0.0, np.zeros(1), np.array([loss]), "")


def _record(job: Job, task: Task, name: str, outcome: Outcome, truth: Run | None) -> Run:
    """The record of a method's outcome; `truth` is None for the truth itself."""
    case, validation = task.case, task.validation
    points = validation.inputs[:MOST_POINTS]
    if case.n_inputs == 1:
        points = np.sort(points, axis=0)
    sde, edges = (None, None) if truth is None else (outcome.sde, truth.edges)
    histogram, edges = _distribution(job, case, sde, edges, task.quick)
    return Run(
        experiment=job.experiment,
        method=name,
        run=job.run,
        seed=job.seed,
        n_train=len(task.train),
        n_validation=len(validation),
        loss=outcome.loss,
        truth_loss=outcome.loss if truth is None else truth.loss,
        expected_loss=case.expected(validation) if truth is None else truth.expected_loss,
        lowest_loss=outcome.lowest_loss,
        seconds=outcome.seconds,
        seconds_to_best=outcome.seconds_to_best,
        compile_seconds=outcome.compile_seconds,
        settings=outcome.settings,
        versions=versions(),
        curve_seconds=outcome.curve_seconds,
        curve_losses=outcome.curve_losses,
        points=points,
        drift=outcome.sde.drift(points),
        covariance=outcome.sde.covariance(points),
        histogram=histogram,
        edges=edges,
    )


def _distribution(job: Job, case: Case, sde: SDE | None, edges: Float | None, quick: bool) -> tuple[Float, Float]:
    """Shares of simulated paths in bins, and the edges of the bins; empty after the first run.

    With sde None the paths are those of the truth, and with edges None the bins are chosen from the paths.
    """
    if case.paths is None or job.run > 0:
        return np.empty((0, 0, 0)), np.empty((0, 0))
    rng = np.random.default_rng([job.seed, crc32(job.experiment.encode())])
    paths = case.paths(sde, QUICK_PATHS if quick else N_PATHS, rng)
    times = np.linspace(0, case.n_steps, N_TIMES).astype(int)
    values = np.moveaxis(paths[:, times], 2, 0)  # (C, n, T)
    if edges is None:
        low = np.quantile(values, 0.001, axis=1).min(axis=1)  # at every time nearly all paths are within
        high = np.quantile(values, 0.999, axis=1).max(axis=1)
        margin = 0.02 * (high - low)
        edges = np.linspace(low - margin, high + margin, N_BINS + 1, axis=1)
    shares = [
        [np.histogram(at, bins)[0] / len(at) for at in component.T]
        for component, bins in zip(values, edges, strict=True)
    ]
    return np.array(shares), edges


# All jobs


def run_all(results: Results, work: Sequence[Job], n_jobs: int, listen: Listener) -> Iterator[Done]:
    """Do all jobs, `n_jobs` at a time: each in a process with its share of the cores, or one by one in this process."""
    if n_jobs == 1 or len(work) <= 1:
        for job in work:
            yield from perform(job, results, listen)
        return
    context = multiprocessing.get_context("spawn")
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    shares: Queue[list[int]] = context.Queue()
    for k in range(n_jobs):
        shares.put(cores[k::n_jobs] or cores)
    manager = SyncManager(ctx=context)
    manager.start(end_with_parent)
    with manager:
        messages: MessageQueue[Message | Done | None] = manager.Queue()
        pool = context.Pool(n_jobs, _start_worker, (shares,))
        try:
            left = len(work)
            for job in work:
                pool.apply_async(
                    _perform_and_send,
                    (job, results, messages),
                    error_callback=partial(_send_failure, messages, job),
                )
            while left:
                message = messages.get()
                if message is None:
                    left -= 1
                elif isinstance(message, Done):
                    yield message
                    left -= not message.method
                else:
                    listen(message)
        finally:
            pool.terminate()
            pool.join()


def _send_failure(messages: MessageQueue[Message | Done | None], job: Job, error: BaseException) -> None:
    messages.put(Done(job, "", repr(error)))


def _start_worker(shares: Queue[list[int]]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    end_with_parent()  # if it is killed, nobody does
    cores = shares.get()
    if cores:
        os.sched_setaffinity(0, cores)


def _perform_and_send(job: Job, results: Results, messages: MessageQueue[Message | Done | None]) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    with threadpool_limits(cores) if cores else nullcontext():
        for done in perform(job, results, messages.put):
            messages.put(done)
    messages.put(None)
