r"""
Particles in a whirl, from a data frame
=======================================

Tracks in the plane, as from a microscope: particles in a trap that turns them around its centre. Their noise depends on
where they are and on the direction. We know the equations,

.. math::

    dx = (-0.5\, x - 1.5\, y)\, dt + \ldots, \quad
    dy = (1.5\, x - 0.5\, y)\, dt + \ldots, \quad
    \Sigma = 0.1\, \Bigl(I + \frac{4\, r r^\top}{1 + |r|^2}\Bigr),

with :math:`r = (x, y)`: noise is stronger along the radius than across it, the more so the farther from the centre. So
we can see how good the answer is, and whether its error bars are.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import itofit

H = 0.02  # seconds between images


def true_drift(r: np.ndarray) -> np.ndarray:
    return r @ np.array([[-0.5, 1.5], [-1.5, -0.5]])


def true_covariance(r: np.ndarray) -> np.ndarray:
    outer = r[:, :, None] * r[:, None, :]
    return 0.1 * (np.eye(2) + 4 * outer / (1 + np.sum(r**2, axis=1))[:, None, None])


def simulated_tracks(n_tracks: int, n_images: int, rng: np.random.Generator) -> pd.DataFrame:
    """Tracks made with ten small steps for each image, as a table with a row for each particle and image."""
    r = rng.normal(0, 0.5, (n_tracks, 2))
    images = []
    for _ in range(n_images):
        images.append(r)
        for _ in range(10):
            noise = np.linalg.cholesky(true_covariance(r)) @ rng.normal(size=(n_tracks, 2, 1))
            r = r + H / 10 * true_drift(r) + np.sqrt(H / 10) * noise[:, :, 0]
    positions = np.stack(images, axis=1).reshape(-1, 2)
    return pd.DataFrame(
        {
            "particle": np.repeat(np.arange(n_tracks), n_images),
            "t": np.tile(H * np.arange(n_images), n_tracks),
            "x": positions[:, 0],
            "y": positions[:, 1],
        }
    )


table = simulated_tracks(100, 101, np.random.default_rng(0))
print(table.head(3))

# %%
# Columns are chosen by name, and the names stay with the model and in its figures.

data = itofit.Transitions.from_dataframe(table, state=["x", "y"], time="t", track="particle")
sde = itofit.fit(data, rng=0)
print(sde.summary())

# %%
# That the noise is correlated was found, not told: the structure is "full".
#
# The field
# ---------
#
# Arrows are the drift, ellipses the noise. Both turn: the drift around the centre, the long axis of the ellipses with
# the radius.

figure, ax = plt.subplots(figsize=(6, 6), layout="constrained")
itofit.plot.field(sde, data, ax=ax)
ax.set(aspect="equal", xlabel="x [µm]", ylabel="y [µm]")

# %%
# Maps of the covariance of x and y, which has the sign of xy, and of one component of the drift. Where there are no
# data the map is hatched, and means nothing.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
itofit.plot.heatmap(sde, data, what="covariance", entry=("x", "y"), ax=left)
itofit.plot.heatmap(sde, data, entry="x", ax=right)
left.set(title="Covariance of x and y [µm²/s]")
right.set(title="Drift of x [µm/s]")

# %%
# Against the truth
# -----------------
#
# The dashed line is the truth, along x through the middle of the data.

x = np.linspace(*np.quantile(table["x"], [0.005, 0.995]), 200)
middle = float(np.median(data.inputs[:, 1]))
line = np.stack([x, np.full_like(x, middle)], axis=1)
truth = {"color": "black", "linestyle": (0, (5, 3)), "linewidth": 1.5, "label": "true"}

figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.4), layout="constrained")
itofit.plot.drift(sde, data, output="y", along="x", ax=axes[0])
axes[0].plot(x, true_drift(line)[:, 1], **truth)
itofit.plot.diffusion(sde, data, entry=("x", "x"), along="x", ax=axes[1])
axes[1].plot(x, true_covariance(line)[:, 0, 0], **truth)
itofit.plot.diffusion(sde, data, entry=("y", "y"), along="x", ax=axes[2])
axes[2].plot(x, true_covariance(line)[:, 1, 1], **truth)
axes[1].set_ylim(0, None)
axes[2].set_ylim(0, 0.2)
for ax, unit in zip(axes, ("µm/s", "µm²/s", "µm²/s"), strict=True):
    ax.set(xlabel="x [µm]", ylabel=f"{ax.get_ylabel()} [{unit}]")
    ax.get_legend().remove()
axes[0].legend(frameon=False, fontsize="small")

# %%
# Errors, and how often the 95 % bands hold the truth, at all places of the data:

points = data.inputs
f, f_std = sde.drift(points, return_std=True)
sigma, sigma_std = sde.covariance(points, return_std=True)
drift_error = np.sqrt(np.mean((f - true_drift(points)) ** 2) / np.mean(true_drift(points) ** 2))
sigma_error = np.sqrt(np.mean((sigma - true_covariance(points)) ** 2) / np.mean(true_covariance(points) ** 2))
drift_covered = np.mean(np.abs(f - true_drift(points)) < 1.96 * f_std)
sigma_covered = np.mean(np.abs(sigma - true_covariance(points)) < 1.96 * sigma_std)
print(f"drift: error {drift_error:.1%} of its size, {drift_covered:.0%} within the band")
print(f"covariance: error {sigma_error:.1%} of its size, {sigma_covered:.0%} within the band")

# %%
# The drift is covered. The covariance is not: its bands are too narrow. The true one grows with the radius and then
# levels off, and there are few data where it does. The evidence prefers a smoother function, and the posterior is one
# of functions as smooth as that: it does not doubt what was smoothed away. Does an ensemble help, which adds what the
# choice of frequencies contributes?

ensemble = itofit.fit(data, ensemble=3, rng=0)
sigma, sigma_std = ensemble.covariance(points, return_std=True)
ensemble_covered = np.mean(np.abs(sigma - true_covariance(points)) < 1.96 * sigma_std)
print(f"covariance: {ensemble_covered:.0%} within the band of an ensemble")

near = np.hypot(*points.T) < 1
relative = np.abs(sigma - true_covariance(points)).max(axis=(1, 2)) / np.trace(
    true_covariance(points), axis1=1, axis2=2
)
print(
    f"largest entry of the error, relative to the trace: median {np.median(relative[near]):.1%} within 1 µm of the "
    f"centre, {np.median(relative[~near]):.1%} beyond, where {np.mean(~near):.0%} of the data are"
)

# %%
# Hardly. The error itself is a few per cent where most of the data are. But read bands of a covariance in the plane
# as a lower limit of what is unknown.
#
# The rotation
# ------------
#
# How fast does it turn? Half the curl of the drift says so, from exact derivatives; a drift that follows from a
# potential has none.

jacobian = sde.drift_jacobian(points)
rotation = 0.5 * (jacobian[:, 1, 0] - jacobian[:, 0, 1])
print(f"rotation {rotation.mean():.2f} per second on average over the data, true 1.50")
