"""How large a deviation must be to count: every limit that decides a verdict.

With many rows any tiny deviation is significant, so a deviation counts only if it is also as large as its threshold
here. Sizes are judged in units of these thresholds; `BAD` times as much is "bad", less is "caution". Limits in pairs
are those of "caution" and of "bad"; what has one limit is never worse than "caution".
"""

from __future__ import annotations

import numpy as np

BAD = 3.0
"""Times its threshold, from which on a deviation is bad: what careful use notices at one, any use does at three."""

# Residuals, in standard deviations of a step

MISSED_NOISE = 0.05
"""What the drift misses, relative to the noise: after (1/0.05)² = 400 steps it has moved paths as far as the noise."""
MISSED_DRIFT = 0.2
"""The same relative to the drift: a fifth of it changes what the equation says."""
LEAST_MISSED = 0.01
"""Relative to the noise: what is smaller does not matter, even if the drift is smaller still."""
MISSED_IN_BIN = 0.1
"""What the drift misses in a single bin, relative to the noise: twice what matters everywhere."""
VARIANCE = 0.1
"""Relative error of the variance: 5 % in the strength of the noise."""
VARIANCE_IN_BIN = 0.2
"""The same in a single bin: twice what matters everywhere."""
SKEWNESS = 0.2
"""Skewness: that of a gamma distribution with shape 100."""
KURTOSIS = 0.5
"""Excess kurtosis: that of Student's distribution with 16 degrees of freedom."""
TAIL = 4.0
"""Standard deviations beyond which residuals are counted: a Gaussian has 6 of 100,000 there."""
TAIL_RATIO = 10.0
"""Times as many residuals in the tail as a Gaussian has: 6 of 10,000."""

# Time

CORRELATION = 0.05
"""Correlation between steps: one of −0.05 means that a tenth of Σ is errors of measurement."""

SECOND_ORDER = 0.5
"""Share of the motion that keeps its velocity from step to step, from which on a first-order model is bad."""

# Step, range and limits

DRIFT_BIAS = 0.025, 0.15
"""Relative error of the drift that the length of the step makes: that of h ‖∇f‖ = 0.05, and of 0.3."""
BIAS_LEFT = 1 / 24
"""Of (h ‖∇f‖)² that a correction for the length of steps may leave of a drift, as the errors of `finite_step` do."""
SHORT = 0.3
"""h ‖∇f‖ of steps that are not long."""
UNEVEN = 3.0
"""Times the median, from which on leaving out the longest steps is the first thing to do."""
LEAST_VARIATION = 0.01
"""Standard deviation of the lengths of steps, relative to their mean, from which on they are not all the same."""
GAIN_OF_ONE_STEP = 0.002
"""Nats per transition and output by which steps without correction must predict better to say so."""
COVARIANCE_CHANGE = 0.3, np.inf
"""Typical relative change of Σ within a step."""
OTHER_UNIT = 10.0
"""Steps that are so many times longer or shorter than those learned from may be in another unit of time."""
OUTSIDE = 0.01, 0.1
"""Share of the data outside the range of the training data.

One more row like n others is outside the range of m inputs with probability of at most 2m/n, so that chance alone makes
no difference from a few hundred rows on.
"""
ALONE = 0.05, np.inf
"""Share of the data with few others near."""
UNCOVERED = 0.5, np.inf
"""Share of that range without data near; correlated variables leave much of it empty."""
LIMITED = 0.01, 0.1
"""Share of the data at which Σ had to be kept within its limits."""
LIMITED_IN_RANGE = 0.25, np.inf
"""The same of the whole range, most of which may be far from the data."""

# Gain

GAIN_ERRORS = 2.0
"""Standard errors by which a model must be better than constants to be called better, or worse to be called worse."""
LEAST_GAIN = 0.002
"""Nats per transition and output that matter: what a drift of 0.06 standard deviations of a step is worth."""

# Columns

NEARLY_DEPENDENT = 0.02
"""Share of a column's standard deviation that others do not explain, below which it says nothing of its own."""
FEW_TURNS = 0.2
"""Share of the steps of an angle that cross the cut, at most."""
SHORT_OF_A_TURN = 0.02
"""Share of a period by which the range of a cut angle may be shorter than it."""
