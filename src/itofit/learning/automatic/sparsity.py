"""How many linear terms of a drift are zero, learned from all of them: empirical Bayes.

A linear term whose estimate is z standard errors is either zero, and z² is a χ² of one degree of freedom, or it is not,
and z² is v times one, where v may be 4, 8, 16 and so on up to the largest z². The share π of terms that are not zero,
and the shares w of each v among these, are those that suit all terms of all outputs best (Stephens, 2017). Given its
estimate, the odds that a term is zero are

    K(z²) = (1 − π) / π · exp (−z²/2) / Σ w exp (−z²/2v) / √v,

and the expected value of a term is its estimate times 1 / (1 + K). So systems whose variables are all coupled are
learned as by least squares, and weak terms of a system with few couplings are taken for what they are. With one v for
all, terms that are far from zero, as those of a variable in its own equation mostly are, would make v so large that
couplings of two or three standard errors pass for zero.

The terms of a polynomial are chosen, and its error bars ask how many others there may be: `share_of_terms`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, softmax

from itofit._checks import Float

TERMS_ASSUMED = 1.0
"""Terms different from zero that are added to those of the data, of all v alike: few terms say little of the share."""
LEAST_SPREAD = 4.0
"""Of v: terms that are not zero are at least twice what noise makes of them."""
MOST_SPREAD = 1e6
"""Of v: larger terms are as far from zero as can be."""
MOST_ODDS = 100.0
"""Of zero."""
MOST_ROUNDS = 60
"""Of the expectation-maximisation."""


class OddsOfZero(NamedTuple):
    """How likely terms are zero, given their estimates."""

    log_odds: float  # (1 − π) / π of any term
    spreads: Float  # (k,): v
    log_shares: Float  # (k,): w

    def given(self, squares: Float) -> Float:
        """K (…), at most MOST_ODDS, of estimates that are z standard errors away from zero, from z² (…)."""
        other = log_sum(self.log_shares + _log_densities(squares, self.spreads))
        return np.asarray(np.exp(np.minimum(self.log_odds - 0.5 * squares - other, np.log(MOST_ODDS))))


def odds_of_zero(squares: Float) -> OddsOfZero:
    """What suits linear terms best whose estimates are z standard errors away from zero, from z² (n,)."""
    squares = np.minimum(squares, MOST_SPREAD)
    doublings = np.ceil(np.log2(max(float(squares.max()) / LEAST_SPREAD, 2.0)))
    spreads = np.append(1.0, LEAST_SPREAD * 2.0 ** np.arange(doublings + 1))  # the first is that of zero
    log_densities = _log_densities(squares, spreads)
    assumed = np.append(0.0, np.full(len(spreads) - 1, TERMS_ASSUMED / (len(spreads) - 1)))
    shares = np.append(0.3, np.full(len(spreads) - 1, 0.7 / (len(spreads) - 1)))
    for _ in range(MOST_ROUNDS):
        counts = softmax(np.log(shares) + log_densities, axis=1).sum(axis=0) + assumed
        shares = np.maximum(counts / counts.sum(), 1e-9)
    others = shares[1:].sum()
    return OddsOfZero(float(np.log(shares[0] / others)), spreads[1:], np.log(shares[1:] / others))


def _log_densities(squares: Float, spreads: Float) -> Float:
    """Logarithms (…, k) of normal densities of variances (k,) at places with the squares (…), up to a constant."""
    return np.asarray(-0.5 * (np.asarray(squares)[..., None] / spreads + np.log(spreads)))


def log_sum(logarithms: Float) -> Float:
    """The logarithm (…) of the sum along the last axis of what has finite logarithms (…, k).

    SciPy's `logsumexp` takes ten times as long for so few.
    """
    top = logarithms.max(axis=-1)
    return np.asarray(top + np.log(np.exp(logarithms - top[..., None]).sum(axis=-1)))


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
