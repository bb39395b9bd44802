"""Algorithm 2: learn drift and covariance from transitions."""

from __future__ import annotations

from typing import get_args

import numpy as np

from itofit._checks import RNG, Float, InputError, fraction, generator, one_of
from itofit._progress import Progress
from itofit._version import __version__
from itofit.arff import ARFF
from itofit.covariance import FLOOR, Structure, entries, outer_entries, positive_definite, reference_factor, to_matrices
from itofit.regression import fit_series
from itofit.sde import DataSummary, LearnedSDE
from itofit.transitions import Transitions

LEAST_TRANSITIONS = 20
LEAST_CORRELATION = 0.1
"""Off-diagonal covariance targets are scaled by their mean, or by this share of what their variances allow."""


def fit(
    data: Transitions,
    *,
    structure: Structure = "full",
    drift: ARFF | None = None,
    covariance: ARFF | None = None,
    floor: float = FLOOR,
    refine: bool = False,
    rng: RNG = None,
    progress: bool | None = None,
) -> LearnedSDE:
    """Learn the drift f and the covariance Σ of dx = f dt + σ dW, Σ = σσᵀ, from transitions.

    Algorithm 2 of the paper: Algorithm 1 on increments / h gives the drift; its residuals give one covariance
    rrᵀ / h for each transition, and Algorithm 1 on those gives Σ.

    Parameters
    ----------
    data : Transitions
        At least 20.
    structure : {"full", "diagonal"}
        Learn all of Σ, or its diagonal, the rest being zero.
    drift, covariance : ARFF, optional
        Parameters of the two trainings; fields that are None are chosen from the data.
    floor : float
        Smallest eigenvalue of Σ, relative to the mean covariance of the data, between 0 and 1.
    refine : bool
        False is Algorithm 2 as published, and the only choice so far.
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
        If a training ended at its maximal number of iterations.

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
    one_of("structure", structure, get_args(Structure))
    fraction("floor", floor)
    if refine is not False:
        raise InputError(f"refine must be False: likelihood refinement does not exist yet, got {refine!r}")
    for name, value in (("drift", drift), ("covariance", covariance)):
        if not isinstance(value, ARFF | None):
            raise InputError(f"{name} must be an itofit.ARFF or None, got {type(value).__name__}")
    _check_learnable(data)
    random, seed = generator(rng)
    x, rates, d = data.inputs, data.rates, data.n_outputs

    with Progress(progress) as bar:
        f = fit_series(
            random,
            x,
            rates,
            drift or ARFF(),
            offset=rates.mean(axis=0),
            unit=rates.std(axis=0),
            progress=bar,
            label="drift",
        )
        targets = outer_entries((rates - f.series(x)) * np.sqrt(data.h)[:, None], structure)
        mean = to_matrices(targets.mean(axis=0, keepdims=True), structure, d)[0]
        _check_noise(mean)
        sigma = fit_series(
            random,
            x,
            targets,
            covariance or ARFF(),
            offset=np.zeros(targets.shape[1]),
            unit=_target_units(mean, structure),
            progress=bar,
            label="covariance",
        )
    factor = reference_factor(mean)
    return LearnedSDE(
        drift_series=f.series,
        covariance_series=sigma.series,
        structure=structure,
        kind=data.kind or "general",
        floor=float(floor),
        floor_factor=factor,
        floored_share=float(positive_definite(sigma.series(x), structure, factor, floor)[1].mean()),
        box=np.array([x.min(axis=0), x.max(axis=0)]),
        drift_history=f.history,
        covariance_history=sigma.history,
        drift_settings=f.settings,
        covariance_settings=sigma.settings,
        seed=seed,
        data=DataSummary.of(data),
        version=__version__,
    )


def _target_units(mean: Float, structure: Structure) -> Float:
    """What covariance targets are divided by: the sizes of their means, as in the paper.

    The mean of an off-diagonal entry may vanish, and its noise would then drown the others. So it counts as at least
    a tenth of √(Σ_ii Σ_jj), which is below every correlation in the paper's experiments.
    """
    rows, cols = entries(structure, len(mean))
    unit = np.sqrt(np.diagonal(mean))
    return np.maximum(np.abs(mean[rows, cols]), LEAST_CORRELATION * unit[rows] * unit[cols])


def _check_learnable(data: Transitions) -> None:
    """Raise before any work if there is nothing to learn from."""
    if not isinstance(data, Transitions):
        raise InputError(f"fit needs Transitions, got {type(data).__name__}; see itofit.Transitions.from_pairs")
    if len(data) < LEAST_TRANSITIONS:
        hint = "; are the arrays transposed?" if len(data) < data.n_inputs else ""
        raise InputError(f"at least {LEAST_TRANSITIONS} transitions are needed to learn from, got {len(data)}{hint}")
    for column in range(data.n_inputs):
        x = data.inputs[:, column]
        if x.min() == x.max():
            raise InputError(
                f"inputs column {column} is constant ({x[0]:g}): nothing can be learned of how drift and covariance "
                "depend on it; remove the column"
            )
    if not data.increments.any():
        raise InputError("all increments are zero: nothing moves; were x0 and x1 mixed up?")
    with np.errstate(over="ignore", under="ignore"):
        rates = data.rates
        squares = rates**2 * data.h[:, None]
    for column in range(data.n_outputs):
        if rates[:, column].min() == rates[:, column].max():
            raise InputError(
                f"increments column {column} moves at a constant rate ({rates[0, column]:g}): it carries no noise to "
                "learn; remove it from the increments (it may stay in the inputs)"
            )
        if not 1e-200 < squares[:, column].max() < 1e200:
            raise InputError(
                f"increments column {column} is of a size whose square double precision does not hold; change its unit"
            )


def _check_noise(mean: Float) -> None:
    for column, variance in enumerate(np.diagonal(mean)):
        if not variance > 0:
            raise InputError(f"increments column {column} follows the drift exactly: it carries no noise to learn")
