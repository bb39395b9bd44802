"""How far a learned SDE can be trusted on data: `check` asks, a `Diagnosis` answers.

========  ==============  =====================================================================
symbol    shape           meaning
========  ==============  =====================================================================
x         (n, m)          inputs of the transitions
Δx, h     (n, d), (n,)    their increments and durations
f, Σ, σ                   learned drift, covariance and its Cholesky factor, σσᵀ = Σ
z         (n, d)          standardised residuals σ⁻¹ (Δx − h f) / √h; of a model with errors of measurement,
                          innovations in units of their standard deviations, and x, Δx are filtered
g         (n, d)          the drift in the same unit, σ⁻¹ f √h
========  ==============  =====================================================================
"""

from __future__ import annotations

from typing import cast

from itofit._blocks import one_blas_thread
from itofit._checks import RNG, InputError, fraction, generator
from itofit.data.large.cluster import Client, on_cluster
from itofit.data.names import check_variables, plural, with_velocities
from itofit.data.passes import Data
from itofit.looking.check.applicability import discretisation, extrapolation, positive_definiteness, units
from itofit.looking.check.examined import examine, without_longer
from itofit.looking.check.findings import Diagnosis, Finding, Verdict
from itofit.looking.check.gains import gain
from itofit.looking.check.inertia import other_order
from itofit.looking.check.memory import markov, whiteness
from itofit.looking.check.residuals import distribution, over_inputs
from itofit.looking.check.suspect_columns import dependent_columns, wrapped_angle
from itofit.model.formula.formula_sde import Formula
from itofit.model.learned import LearnedSDE

__all__ = ["Diagnosis", "Finding", "Verdict", "check"]

LEAST_ROWS = 20
"""Rows needed for a check: the tests of skewness and kurtosis are valid from there on."""
LEAST_ROWS_PER_OUTPUT = 5
"""Rows needed for each output, so that constant coefficients can be fitted to four fifths of them."""


def check(
    sde: LearnedSDE | Formula, data: Data, *, rng: RNG = 0, level: float = 0.01, client: Client | None = None
) -> Diagnosis:
    """How far a learned SDE can be trusted on data: held-out data, or those it was learned from.

    Every finding is a verdict with numbers, words and advice. "good" means that a deviation which matters would have
    been seen, "cannot tell" that these data could hide one; then the finding says how many would show it.

    - ``residuals``: are they standard normals? Mean, variance, skewness, kurtosis and tails of each output.
    - ``place``: do their mean and variance depend on the inputs? Then drift or noise are wrong somewhere.
    - ``whiteness``: are they independent in time? Negative correlation is the sign of measurement noise, positive of
      memory. Needs transitions of which one starts where the other ended.
    - ``markov``: does the past help to predict the next step, given the state? Needs the same.
    - ``discretisation``: how far do drift and noise change within a step? Would steps that are not corrected for their
      length predict the data better, as those of a simulation by Euler steps?
    - ``extrapolation``: how much of the data is outside the range of the training data or alone, and how much of that
      range has data near?
    - ``positive_definiteness``: how often did Σ need its limits?
    - ``gain``: is the model better than constant drift and noise? Data that it was learned from, which are recognised
      by their number and range, flatter it: then its gain must be clearly more than that.
    - ``units``, only if so: the steps are ten times as long as those learned from, or more, or as much shorter.
    - ``angle``, only if so: a variable jumps by a whole turn, and is not known as periodic.
    - ``columns``, only if so: a column is a copy or a combination of others, or nearly.
    - ``order``, only if so: the tracks of a first-order model keep their velocities from step to step, as those of a
      thing with inertia do, or those of a second-order model learned from positions do not.

    Of a model with errors of measurement (``sde.measurement_noise``), and of positions, residuals are innovations: what
    an observation is more than was predicted from all those before it, in units of the standard deviation that was
    predicted. Places are the states as far as they were known then.

    A deviation counts only if it is significant *and* large enough to matter, since with many rows any tiny one is
    significant: 0.05 in the mean (in standard deviations of a step) or a fifth of the drift, 0.1 in the variance, 0.2
    in the skewness, 0.5 in the kurtosis, ten times the Gaussian tail, 0.2 in the variance of a region, 0.05 in a
    correlation. Three times as much is "bad" (six times for the length of the step, ten times for data outside the
    range or at limits of Σ), less is "caution". Without such a deviation a finding is "good" if the 95 % intervals of
    all its deviations are within these sizes, and otherwise "cannot tell". A deviation as large as one of these sizes
    is called good in one of forty data sets at most.

    Parameters
    ----------
    sde : LearnedSDE or Formula
    data : Transitions
        At least 20, with the inputs and outputs of the model, in their order. Of more than 200,000, stretches of 100
        consecutive ones are judged, 200,000 rows altogether, spread evenly over the data from random starts. Those
        longer than all that the model was learned from are not judged if such were left out of the fit.
    rng : int, Generator or None
        Draws those stretches, points of the range, and folds.
    level : float
        Probability that a finding accuses the model by chance although it is right, for each of those that rest on
        tests: residuals, place, whiteness, markov. Tests within a finding share it.
    client : distributed.Client, optional
        A Dask client, whose workers draw the stretches; they are judged here (docs/cluster.md).

    Returns
    -------
    Diagnosis

    Examples
    --------
    >>> import numpy as np, itofit
    >>> from itofit.diagnostics import check
    >>> rng = np.random.default_rng(0)
    >>> x = np.zeros((100, 51))
    >>> for i in range(50):
    ...     x[:, i + 1] = x[:, i] - 0.05 * x[:, i] + 0.2 * rng.normal(size=100)
    >>> data = itofit.Transitions.from_trajectories(x[:, :, None], dt=0.05)
    >>> rest, held_out = data.split(0.3, by="groups", rng=0)
    >>> diagnosis = check(itofit.fit(rest, rng=0), held_out)
    >>> diagnosis.headline
    '4 of 8 cannot tell'
    >>> print(diagnosis["whiteness"].advice)
    About 11,000 transitions would tell, if nothing is wrong.
    >>> [finding.name for finding in diagnosis if finding.verdict == "good"]
    ['discretisation', 'extrapolation', 'positive_definiteness', 'gain']
    """
    if not isinstance(sde, LearnedSDE | Formula):
        raise InputError(f"sde must be a LearnedSDE, as itofit.fit returns it, or a Formula, got {type(sde).__name__}")
    sde = cast(LearnedSDE, sde)  # a formula has all that is asked of it
    if not isinstance(data, Data):
        raise InputError(f"data must be Transitions, got {type(data).__name__}; see itofit.Transitions.from_pairs")
    level = fraction("level", level)
    random, _ = generator(rng)
    seen = with_velocities(data)
    if seen.n_covariates != sde.n_covariates:
        check_variables(sde, seen)
    if (seen.n_inputs, seen.n_outputs, seen.kind) != (sde.n_inputs, sde.n_outputs, sde.kind):
        raise InputError(
            f"the model has {plural(sde.n_inputs, 'input')} and {plural(sde.n_outputs, 'output')}, kind {sde.kind!r}, "
            f"the data {data.n_inputs} and {data.n_outputs}, kind {data.kind!r}"
        )
    sde._check_data("check", data)
    data = on_cluster(data, client)
    least = max(LEAST_ROWS, LEAST_ROWS_PER_OUTPUT * data.n_outputs)
    if len(data) < least:
        raise InputError(f"a check needs at least {least} transitions, got {len(data)}; give more data")
    judged = without_longer(sde, data, least)
    with one_blas_thread:  # for the same result on any number of them
        rows = examine(sde, judged, random)
        only_if_so = units(sde, rows), wrapped_angle(rows), dependent_columns(rows), other_order(rows, level)
        findings = (
            *(finding for finding in only_if_so if finding is not None),
            distribution(rows, level),
            over_inputs(rows, level),
            whiteness(rows, level),
            markov(rows, level),
            discretisation(sde, rows, random, n_longer=len(data) - len(judged)),
            extrapolation(sde, rows, random),
            positive_definiteness(sde, rows, random),
            gain(sde, rows, random),
        )
    return Diagnosis(
        findings=findings,
        residuals=rows.z,
        inputs=rows.data.inputs,
        n_transitions=rows.n_all,
        level=level,
        input_names=rows.inputs,
        output_names=rows.outputs,
    )
