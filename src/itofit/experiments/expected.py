"""The expected minimum loss: that of the true functions if every step were one of Euler-Maruyama.

The negative log-likelihood of a Gaussian step with covariance hΣ(x) has the mean

    ½ log det(hΣ(x)) + (D/2) (1 + log 2π),

which is averaged over the distribution of x.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from itofit._checks import Float
from itofit.data.transitions import Transitions

NODES_IN_ALL = 40_000
"""Points of the product rule."""


def expected_loss_in_box(covariance: Callable[[Float], Float], h: float, low: Float, high: Float) -> float:
    """The expected minimum loss for x uniform in a box, by Gauss-Legendre quadrature.

    Parameters
    ----------
    covariance : callable
        Σ: points of shape (n, m) to (n, d, d).
    h : float
        The step.
    low, high : arrays of shape (m,)
        Corners of the box.

    Examples
    --------
    >>> import numpy as np
    >>> from itofit.experiments.expected import expected_loss_in_box
    >>> round(expected_loss_in_box(lambda x: np.full((len(x), 1, 1), 0.01), 0.1, np.array([-1.0]), np.array([1.0])), 4)
    -2.0349
    """
    m = len(low)
    nodes, weights = np.polynomial.legendre.leggauss(int(NODES_IN_ALL ** (1 / m)) if m > 1 else 500)
    axes = [a + (b - a) * (nodes + 1) / 2 for a, b in zip(low, high, strict=True)]
    x = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    weight = weights / 2
    for _ in range(m - 1):
        weight = np.multiply.outer(weight, weights / 2)
    return float(weight.ravel() @ _of_each(covariance(x), np.full(len(x), h)))


def expected_loss_of(data: Transitions, covariance: Callable[[Float], Float]) -> float:
    """The expected minimum loss for the inputs and steps of some data."""
    return float(_of_each(covariance(data.inputs), data.h).mean())


def _of_each(sigma: Float, h: Float) -> Float:
    """½ log det(hΣ) + (D/2) (1 + log 2π), shape (n,)."""
    d = sigma.shape[1]
    return np.asarray(0.5 * (np.linalg.slogdet(sigma)[1] + d * np.log(h)) + d / 2 * (1 + np.log(2 * np.pi)))
