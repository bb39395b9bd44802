"""How a model was learned, as checks, plots and reports need it.

This module alone reads the records that a training leaves in a `LearnedSDE`; the rest of the room asks here.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.learning.automatic.search import LEAST_GAIN, SearchHistory
from itofit.learning.paper.arff import History, Settings
from itofit.model.learned import LearnedSDE
from itofit.model.training import AutomaticSettings
from itofit.waves.series import FourierSeries


class TrainingCurve(NamedTuple):
    """How good a learned function was after each judged iteration of its training."""

    judge: Literal["validation error", "log-evidence"]
    iteration: Float  # (J,) the iterations that were judged; 0 is the start
    score: Float  # (J,) what the judge said of them
    best_iteration: int  # the one that was kept
    least_gain: float  # by how much a later iteration must be better to be kept instead


class TrainingCurves(NamedTuple):
    """The trainings of both learned functions."""

    drift: TrainingCurve
    covariance: TrainingCurve


def has_error_bars(sde: LearnedSDE) -> bool:
    """Whether `drift` and `covariance` can return standard deviations."""
    return sde.drift_spread is not None and sde.covariance_spread is not None


def training_curves(sde: LearnedSDE) -> TrainingCurves:
    """How the trainings of drift and covariance went."""
    return TrainingCurves(_curve(sde.drift_history), _curve(sde.covariance_history))


def _curve(history: History | SearchHistory) -> TrainingCurve:
    if isinstance(history, History):
        iteration = np.arange(history.n_iterations + 1.0)
        return TrainingCurve("validation error", iteration, history.validation_error, history.best_iteration, 0.0)
    iteration = np.asarray(history.iteration, dtype=np.float64)
    return TrainingCurve("log-evidence", iteration, history.log_evidence, history.best_iteration, LEAST_GAIN)


def settings_texts(sde: LearnedSDE) -> dict[str, str]:
    """The parameters of Algorithm 1 for drift and covariance, as text by name; empty if they were not used."""
    settings = {"Drift settings": sde.drift_settings, "Covariance settings": sde.covariance_settings}
    return {name: str(each) for name, each in settings.items() if isinstance(each, Settings)}


def n_fitted_numbers(sde: LearnedSDE) -> float:
    """How many numbers of drift and covariance the data determine; for the paper's algorithms, how many there are."""
    return _n_fitted(sde.drift_series, sde.drift_settings) + _n_fitted(sde.covariance_series, sde.covariance_settings)


def _n_fitted(series: FourierSeries, settings: Settings | AutomaticSettings) -> float:
    if isinstance(settings, AutomaticSettings):
        return settings.determined
    return len(series.offset) + 2.0 * series.beta.size
