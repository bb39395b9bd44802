r"""
Two wells: where it rests, how long until it leaves
===================================================

A particle moves in a plane with two wells and a weak flow that turns around them:

.. math::

    dx = (x - x^3 + 0.4\, y)\, dt + 0.6\, dW_1, \quad dy = (-y - 0.4\, x)\, dt + 0.6\, dW_2.

We learn drift and noise from forty tracks, and ask: where does it rest, how long does it stay, and is it in balance?
Every answer comes with an error bar, from equations that the data leave possible.
"""

import matplotlib.pyplot as plt
import numpy as np

import itofit
from itofit import dynamics

H, SUBSTEPS = 0.05, 10


def drift(x: np.ndarray) -> np.ndarray:
    return np.stack([x[:, 0] - x[:, 0] ** 3 + 0.4 * x[:, 1], -x[:, 1] - 0.4 * x[:, 0]], axis=1)


rng = np.random.default_rng(0)
x = rng.uniform(-1.2, 1.2, (40, 2))
tracks = [x]
for _ in range(500):
    for _ in range(SUBSTEPS):
        x = x + drift(x) * H / SUBSTEPS + 0.6 * np.sqrt(H / SUBSTEPS) * rng.normal(size=x.shape)
    tracks.append(x)
data = itofit.Transitions.from_trajectories(np.stack(tracks, axis=1), dt=H, names=["x", "y"])
sde = itofit.fit(data, rng=0)

# %%
# The usual questions
# -------------------
#
# `dynamics.outlook` asks them all at once. To be at a fixed point is to be within a standard deviation of what noise
# makes of it.

answers = dynamics.outlook(sde, rng=0).answers
print(*answers, sep="\n")

# %%
# The flow
# --------
#
# On the coloured lines one of the variables stays; where they cross are the fixed points, filled if they are stable.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
itofit.plot.phase_portrait(sde, data, rng=0, ax=left)
dynamics.probability_current(sde, rng=0).plot(right)

# %%
# On the right is the stationary density with the probability current: it turns, so the system is not in balance, and
# the entropy production says by how much.
#
# How long until it leaves
# ------------------------
#
# From the left well to everything beyond x = 0.5, and which of two sides is reached first from a place near the middle.

time = dynamics.first_passage_time(sde, start={"x": (-1.2, -0.8)}, target={"x": (0.5, None)}, rng=0)
sides = dynamics.exit_probabilities(
    sde, start=[0.1, 0.0], targets={"left": {"x": (None, -0.8)}, "right": {"x": (0.8, None)}}, rng=0
)
print(time)
print(sides)

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
time.plot(left)
sides.plot(right)

# %%
# What it looks like in the long run
# ----------------------------------
#
# The stationary density, with contours of what was observed beside its own, and the landscape that it makes: minus its
# logarithm, a quasi-potential, as a system that is not in balance has no potential.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
itofit.plot.density(sde, data, rng=0, ax=left)
dynamics.quasi_potential(sde, samples=0).plot(right)

# %%
# How fast it forgets
# -------------------
#
# The slowest mode is which of the wells it is in; x forgets with its relaxation time, y much sooner.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
dynamics.relaxation_times(sde, samples=0).plot(left)
dynamics.autocorrelation(sde, samples=20, rng=0).plot(right)
