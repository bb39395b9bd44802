"""Algorithm 1 as a scikit-learn regressor."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from itofit._blocks import one_blas_thread
from itofit._checks import Float, InputError
from itofit._progress import Progress
from itofit.data.rows import ArrayRows
from itofit.learning.paper.regression import Rows, TrainingSet, fit_series
from itofit.learning.verdicts import warn_if_unsettled
from itofit.waves.normal_equations import Form
from itofit.waves.parameters import ARFF, Pairing
from itofit.waves.scaling import Scaling

LEAST_SPREAD, LARGEST_SPREAD = 1e-140, 1e140
"""Sizes of targets that can be squared."""


class ARFFRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regression by adaptive random Fourier features, y ≈ Re Σ_k β̂_k exp(i ω_k·x).

    Parameters
    ----------
    n_features, ridge, delta, gamma, resample, pairing, min_iterations, max_iterations, validation_fraction, \
    search_rows, normal_equations
        As in `itofit.ARFF`.
    random_state : int, RandomState or None

    Attributes
    ----------
    series_ : FourierSeries
        The learned function.
    training_ : Training
        How training went, and its parameters with every choice made.
    n_iter_ : int
        Number of iterations made.
    n_features_in_ : int
        Number of input columns.

    Examples
    --------
    >>> import numpy as np
    >>> from itofit import ARFFRegressor
    >>> x = np.linspace(-1, 1, 500)[:, None]
    >>> model = ARFFRegressor(n_features=32, random_state=0).fit(x, np.sin(5 * x[:, 0]))
    >>> model.score(x, np.sin(5 * x[:, 0])) > 0.99
    True
    """

    def __init__(
        self,
        n_features: int | None = None,
        *,
        ridge: float | None = None,
        delta: float | None = None,
        gamma: float | None = None,
        resample: bool = True,
        pairing: Pairing | None = None,
        min_iterations: int | None = None,
        max_iterations: int | None = None,
        validation_fraction: float = 0.1,
        search_rows: int | None = None,
        normal_equations: Form | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_features = n_features
        self.ridge = ridge
        self.delta = delta
        self.gamma = gamma
        self.resample = resample
        self.pairing = pairing
        self.min_iterations = min_iterations
        self.max_iterations = max_iterations
        self.validation_fraction = validation_fraction
        self.search_rows = search_rows
        self.normal_equations = normal_equations
        self.random_state = random_state

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> ARFFRegressor:
        """Learn from points X of shape (n, m) and targets y of shape (n,) or (n, p)."""
        with np.errstate(over="ignore", invalid="ignore"):  # of the sums by which it is seen that all are finite
            points, targets = validate_data(
                self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2
            )
        targets = np.asarray(targets, dtype=np.float64)
        self._one_output = targets.ndim == 1
        targets = targets.reshape(len(targets), -1)
        with np.errstate(over="ignore", invalid="ignore"):  # infinite then
            spread = targets.std(axis=0)
            reach = np.ptp(points, axis=0)
        size = np.abs(targets).max(axis=0)
        if not ((size == 0) | ((size > LEAST_SPREAD) & (size < LARGEST_SPREAD))).all():
            raise InputError("y is of a size whose square double precision does not hold; change its unit")
        if not np.isfinite(reach).all():
            raise InputError("X is too large for double precision; change its unit")
        parameters = self.get_params()
        seed = int(check_random_state(parameters.pop("random_state")).randint(np.iinfo(np.int32).max))
        with Progress(None) as bar, one_blas_thread:  # as in `fit`
            random = np.random.default_rng(seed)
            rows = Rows(
                data=ArrayRows(points, targets),
                points_and_targets=lambda block: (block.x, block.y),
                scaling=Scaling.of(points.min(axis=0), points.max(axis=0), targets.mean(axis=0)),
                n_rows=len(points),
                n_outputs=targets.shape[1],
                progress=bar,
                label="training",
            )
            training_set = TrainingSet(random, rows, ARFF(**parameters))
            learned = fit_series(random, training_set, np.where(spread > 0, spread, 1.0))
        warn_if_unsettled(learned.training, "training")
        self.series_, self.training_ = learned.series, learned.training
        self.n_iter_ = self.training_.n_iterations
        return self

    def predict(self, X: npt.ArrayLike) -> Float:
        """Values at points X of shape (n, m): shape (n,) or (n, p), as the targets were."""
        check_is_fitted(self)
        points = validate_data(self, X, dtype=np.float64, reset=False)
        values = self.series_(points)
        return values[:, 0] if self._one_output else values

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "series_")
