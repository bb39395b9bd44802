"""How many linear terms of a drift are zero, learned from all of them: empirical Bayes.

A linear term whose estimate is z standard errors is either zero, and z² is a χ² of one degree of freedom, or it is not,
and z² is v times one. The share π of terms that are not zero, and v, are those that suit all terms of all outputs
best. With them, the expected value of a term is its estimate times

    s(z²) = 1 / (1 + K exp (−z²/2)),        K = √v (1 − π) / π,

so that systems whose variables are all coupled are learned as by least squares, and weak terms of a system with few
couplings are taken for what they are. Where each term is either far from zero or exactly zero this does what a choice
of terms by BIC does, whose K is √n.

The terms of a polynomial are chosen, and its error bars ask how many others there may be: `share_of_terms`.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from itofit._checks import Float

TERMS_ASSUMED = 2.0
"""Terms different from zero that are added to those of the data: few terms say little of the share."""
LEAST_SPREAD = 4.0
"""Of v: terms that are not zero are at least twice what noise makes of them."""
MOST_ODDS = 100.0
"""Of zero."""
MEAN_LOG_SQUARE = -1.2703628454614782
"""Mean of log z² for a normal z."""
MOST_ROUNDS = 60
"""Of the expectation-maximisation."""


def odds_of_zero(squares: Float) -> float:
    """K, from the squares z² of the standard errors that linear terms are away from zero.

    v follows from the mean of log z² and not of z², which a few terms much larger than others would decide.
    """
    log_squares = np.log(np.maximum(squares, 1e-6))
    share, v = 0.7, max(float(squares.mean()), LEAST_SPREAD)
    for _ in range(MOST_ROUNDS):
        log_odds = np.log((1 - share) / share * np.sqrt(v)) - 0.5 * squares * (1 - 1 / v)
        on = 1 / (1 + np.exp(np.clip(log_odds, -500, 500)))
        v = max(float(np.exp(on @ log_squares / on.sum() - MEAN_LOG_SQUARE)), LEAST_SPREAD)
        share = min((on.sum() + TERMS_ASSUMED) / (on.size + TERMS_ASSUMED), 1 - 1e-9)
    return min(float(np.sqrt(v) * (1 - share) / share), MOST_ODDS)


def share_of_terms(n_in_use: int, log_ratios: Float) -> float:
    """The share of terms that are not zero: those in use, and others as probably as the data say.

    One term that is zero and one that is not are assumed beside them (Laplace's rule of succession).

    Parameters
    ----------
    n_in_use : int
    log_ratios : array of shape (q,)
        Of the others: the logarithm of how much more probable the data are with the term than without it.
    """
    share = 0.5
    for _ in range(MOST_ROUNDS):
        there = expit(logit(share) + log_ratios)
        share = (n_in_use + float(there.sum()) + 1) / (n_in_use + there.size + 2)
    return share
