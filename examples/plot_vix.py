r"""
Does the VIX need more than an Ornstein-Uhlenbeck process?
==========================================================

The VIX is the volatility of the S&P 500 that option prices imply for the next 30 days, in per cent a year. A textbook
model is an Ornstein-Uhlenbeck process of the logarithm: a linear pull to a mean, and the same noise at every level. We
learn both functions from five years of daily closing values instead, and ask three questions. Is the pull linear? Is
the noise the same everywhere? Does the answer predict days that the model has not seen?

The data come with the package ``arch`` (``pip install arch``).
"""

import warnings

import arch.data.vix
import matplotlib.pyplot as plt
import numpy as np

import itofit

vix = arch.data.vix.load()["vix"].dropna()
log_vix = np.log(vix.to_numpy())
print(f"{len(vix)} closing values from {vix.index[0]:%Y-%m-%d} to {vix.index[-1]:%Y-%m-%d}")

figure, ax = plt.subplots(figsize=(8, 2.8), layout="constrained")
ax.plot(vix.index, vix, color="0.2", linewidth=0.8)
ax.set(yscale="log", yticks=[10, 15, 20, 30, 40], yticklabels=[10, 15, 20, 30, 40], ylabel="VIX [% per year]")
ax.minorticks_off()

# %%
# What is a day?
# --------------
#
# Every transition has a time step, and there are no closing values at weekends. If the index moved at weekends as it
# does on other days, the variance of a move would grow with the days between two closing values.

days = vix.index.to_series().diff().dt.days.to_numpy()[1:]
moves = np.diff(log_vix)
for label, rows in (("overnight", days == 1), ("over a weekend or holiday", days > 1)):
    print(
        f"{label}: {rows.sum()} moves over {days[rows].mean():.1f} days, mean {moves[rows].mean():+.4f}, "
        f"standard deviation {moves[rows].std():.4f}"
    )

# %%
# Three times the time brings half as much variance again, not three times as much. So the unit of time is the trading
# day, and a weekend counts as one of them, which is not quite right either: moves over weekends are larger, and
# upwards on average where those within the week are downwards. A model that does not know the day of the week learns
# the mean of the two.

data = itofit.Transitions.from_trajectories(log_vix, dt=1.0, names="log VIX")
sde = itofit.fit(data, rng=0)
print(sde.summary())

# %%
# What was learned
# ----------------
#
# Bands are pointwise 95 % intervals. The histogram at the lower edge shows where the data are; where they are sparse
# the background is grey.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
itofit.plot.drift(sde, data, ax=left)
left.set(title="Drift per trading day", ylabel="drift of log VIX")
itofit.plot.diffusion(sde, data, what="sigma", ax=right)
right.set(title="Noise per √trading day", ylabel="volatility of log VIX")
right.set_ylim(0, None)
for ax in (left, right):
    ax.set_xticks(np.log([10, 15, 20, 30]), [10, 15, 20, 30])
    ax.set_xlabel("VIX [% per year], logarithmic")

levels = np.array([11.0, 14.0, 20.0, 30.0])
drift, drift_std = sde.drift(np.log(levels), return_std=True)
low, high = sde.variance_interval(np.log(levels))
for level, f, std, a, b in zip(levels, drift[:, 0], drift_std[:, 0], low[:, 0] ** 0.5, high[:, 0] ** 0.5, strict=True):
    print(f"VIX {level:2.0f}: drift {f:+.4f} ± {1.96 * std:.4f}, noise {a:.3f} to {b:.3f} per day")

# %%
# The drift is a straight line but for a slight bend: the summary says that the data determine two amplitudes, as many
# as a line has. The noise is not the same everywhere. It doubles from the calm end of the data to the other.
#
# The long run
# ------------
#
# Paths that start where the data start should be distributed as the data are. They are followed for 1,000 days.

figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
itofit.plot.distributions(sde, data, rng=0, ax=ax)

# %%
# How far to trust it
# -------------------

diagnosis = itofit.check(sde, data)
print(diagnosis)

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
itofit.plot.residuals(diagnosis, axes=axes, sde=sde)

# %%
# The residuals are far from normal: skewed to the right, with heavy tails. A diffusion makes a move of more than four
# standard deviations once in 63 years; there were nine in five years, all of them upwards. They are no errors of
# measurement: 5 February 2018 was in the news, and so was 24 June 2016, the day after the British referendum.

largest = np.argsort(-np.abs(diagnosis.residuals[:, 0]))[:5]
print(f"beyond four: {(diagnosis.residuals > 4).sum()} upwards, {(diagnosis.residuals < -4).sum()} downwards")
for i in largest:
    print(
        f"{vix.index[i + 1]:%Y-%m-%d}: {vix.iloc[i]:.1f} -> {vix.iloc[i + 1]:.1f}, "
        f"{diagnosis.residuals[i, 0]:+.1f} standard deviations"
    )

# %%
# So the VIX jumps, and a diffusion with the right mean and variance of a day puts the jumps into its noise.
#
# The tests of memory find nothing. That is not the same as a proof that the VIX has none: with 1,258 days and such
# tails only a strong memory would show, and models of volatility usually have a fast and a slow component.
#
# Against Ornstein-Uhlenbeck, on days that were not seen
# ------------------------------------------------------
#
# Each year from 2015 is predicted by models of the years before it. Days that were drawn at random would not do as
# held-out ones: their neighbours would be in the training data. The Ornstein-Uhlenbeck process is fitted as an
# autoregression; its likelihood comes from the same formula. A third model has its straight line as the drift, and the
# noise that was learned.

year = np.minimum(vix.index.year[1:], 2018)  # in which a transition ends; the two days of 2019 count as 2018
MODELS = ("Ornstein-Uhlenbeck", "linear drift, learned noise", "learned drift and noise")
losses = {name: [] for name in MODELS}
for held_out in range(2015, 2019):
    past, future = data[year < held_out], data[year == held_out]
    slope, intercept = np.polyfit(past.inputs[:, 0], past.increments[:, 0], 1)
    variance = np.mean((past.increments[:, 0] - intercept - slope * past.inputs[:, 0]) ** 2)
    line, constant = intercept + slope * future.inputs, np.full((len(future), 1, 1), variance)
    learned = itofit.fit(past, rng=0)
    noise = learned.covariance(future.inputs)
    losses[MODELS[0]].append(itofit.likelihood.gaussian_nll(future.increments, future.h, line, constant))
    losses[MODELS[1]].append(itofit.likelihood.gaussian_nll(future.increments, future.h, line, noise))
    losses[MODELS[2]].append(learned.nll(future, pointwise=True))
    gain = losses[MODELS[0]][-1] - losses[MODELS[2]][-1]
    print(f"{held_out}: pull {slope:+.3f} per day, gain of what was learned {gain.mean():+.4f} per day")

# %%
# The losses are compared day by day. Calm and wild days come in runs, so the standard error is that of means over
# blocks of 21 trading days, a month.

BLOCK = 21


def block_error(values: np.ndarray) -> float:
    """Standard error of the mean of values that depend on their neighbours."""
    blocks = values[: len(values) // BLOCK * BLOCK].reshape(-1, BLOCK).mean(axis=1)
    return float(blocks.std(ddof=1) / np.sqrt(len(blocks)))


baseline, linear, learned_loss = (np.concatenate(losses[name]) for name in MODELS)
print(f"{len(baseline)} held-out days in {len(baseline) // BLOCK} blocks, nats per day:")
for label, gain in (
    ("learned noise instead of a constant", baseline - linear),
    ("learned drift instead of a line", linear - learned_loss),
    ("both", baseline - learned_loss),
):
    print(f"  gain of {label}: {gain.mean():+.4f} +- {block_error(gain):.4f}")

gain = baseline - learned_loss
dates = vix.index[1:][year >= 2015]
print(f"days with a gain: {np.mean(gain > 0):.0%}; sum over all days {gain.sum():+.1f} nats; the largest ones:")
for i in np.argsort(-np.abs(gain))[:4]:
    print(f"  {dates[i]:%Y-%m-%d}: {gain[i]:+.1f}")

figure, ax = plt.subplots(figsize=(8, 3), layout="constrained")
ax.plot(dates, np.cumsum(gain), color="#0072B2", linewidth=1.5)
ax.axhline(0, color="0.4", linewidth=0.8)
ax.set(ylabel="gain over Ornstein-Uhlenbeck,\nsum so far [nats]")

# %%
# Out of sample the learned model is no better than Ornstein-Uhlenbeck: the gain is half of its standard error. The
# drift might as well be a line. The noise that grows with the level looked certain above, with its narrow band, and
# `itofit.check` counts the gain over constants as good; but those are numbers of the data that were learned from, and
# of a likelihood that knows no jumps.
#
# A few jumps decide. In the calm of early 2017 the gain grew for months, because the model knew that moves are small
# there. Then a jump from that calm cost more than the months had brought, on 17 May and again on 10 August. On
# 5 February 2018 it won as much, because that jump started from a higher level.
#
# Is it stationary?
# -----------------
#
# A model of five years takes them as five samples of the same thing. Here are the yearly means of the data, and how
# often a simulated set of five years has one as calm as the calmest. Some paths go beyond the range of the data,
# where drift and noise are those of its edge. `LearnedSDE.simulate` warns of that; here it does not matter.

means = np.array([log_vix[1:][year == each].mean() for each in range(2014, 2019)])
with warnings.catch_warnings():
    warnings.simplefilter("ignore", itofit.ExtrapolationWarning)
    paths = sde.simulate(np.full(1000, log_vix[0]), dt=1.0, n_steps=len(data), rng=0)[:, 1:, 0]
simulated = np.stack([part.mean(axis=1) for part in np.array_split(paths, 5, axis=1)], axis=1)
print("yearly means of the VIX from 2014:", ", ".join(f"{mean:.1f}" for mean in np.exp(means)))
print(f"simulated sets of five years with one as calm: {np.mean(simulated.min(axis=1) <= means.min()):.1%}")

# %%
# A year as calm as 2017 hardly ever happens in the model. Either the mean moves, or there is a slow component that one
# variable cannot carry. The tests of memory look at ten steps and cannot see it.
#
# What not to conclude
# --------------------
#
# - The noise learned at high levels is not a law of how volatility moves. The band takes every day there as a piece of
#   evidence of its own, but they came in few episodes.
# - Do not price anything that depends on rare moves with this model. The distribution of a day's move is wrong where it
#   matters most, and the simulated paths have no jumps.
# - The pull to the mean shrinks from 0.09 to 0.05 per day as years are added. On short records, least squares and
#   likelihood find too strong a pull; no band contains that.

high = log_vix[:-1] > np.log(25)
print(f"{high.sum()} days started above 25, in {np.sum(high[1:] & ~high[:-1])} episodes")
