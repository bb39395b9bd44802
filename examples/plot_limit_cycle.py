r"""
A noisy clock: the period of a limit cycle
==========================================

An oscillator runs around a circle, and noise makes it forget what time it is:

.. math::

    dx = ((1 - r^2)\, x - 2 y)\, dt + 0.4\, dW_1, \quad dy = ((1 - r^2)\, y + 2 x)\, dt + 0.4\, dW_2.

From tracks alone: how long does a round take, and for how many rounds does the clock keep time?
"""

import matplotlib.pyplot as plt
import numpy as np

import itofit
from itofit import dynamics

H, SUBSTEPS = 0.05, 10

rng = np.random.default_rng(0)
x = np.tile([1.0, 0.0], (20, 1))
tracks = [x]
for _ in range(400):
    for _ in range(SUBSTEPS):
        turned = np.stack([-x[:, 1], x[:, 0]], axis=1)
        drift = (1 - (x**2).sum(axis=1, keepdims=True)) * x + 2 * turned
        x = x + drift * H / SUBSTEPS + 0.4 * np.sqrt(H / SUBSTEPS) * rng.normal(size=x.shape)
    tracks.append(x)
data = itofit.Transitions.from_trajectories(np.stack(tracks, axis=1), dt=H, names=["x", "y"])
sde = itofit.fit(data, rng=0)

# %%
# The period is that of the flow without noise, π here. The slowest mode turns once in about as long while it decays:
# its relaxation time, over the period, is for how many rounds the clock keeps time.

period = dynamics.period(sde, samples=20, rng=0)
times = dynamics.relaxation_times(sde, n=1, samples=20, rng=0)
print(period)
print(times)
print(f"rounds until it has forgotten: {times.value[0] / period.value:.1f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
itofit.plot.phase_portrait(sde, data, samples=20, rng=0, ax=left)
period.plot(left).lines[-1].set(color="black", linewidth=2.5)
dynamics.autocorrelation(sde, samples=0).plot(right)
plt.show()
