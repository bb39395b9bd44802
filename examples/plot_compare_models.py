r"""
Which of two models is better? Compare them by track
====================================================

Two models are compared by their loss on tracks that neither has seen. The difference needs an error bar, and the right
one: both models meet the same steps, so that the comparison is *paired*, and steps of one track are not independent, so
that the track is the unit, not the step.

As an example we ask whether the noise of two variables has to be learned with its correlation (``structure="full"``) or
whether a diagonal covariance will do; once where the truth is correlated, and once where it is not.
"""

import matplotlib.pyplot as plt
import numpy as np

import itofit

H = 0.05


def tracks(correlation: float, rng: np.random.Generator, n_tracks: int = 60, n_times: int = 101) -> np.ndarray:
    """Tracks (n_tracks, n_times, 2) in a trap, with noise of standard deviation 0.5 and some correlation."""
    factor = 0.5 * np.linalg.cholesky([[1, correlation], [correlation, 1]])
    x = rng.normal(0, 0.35, (n_tracks, 2))
    seen = []
    for _ in range(n_times):
        seen.append(x)
        for _ in range(5):
            x = x - H / 5 * x**3 - H / 5 * x + np.sqrt(H / 5) * rng.normal(size=x.shape) @ factor.T
    return np.stack(seen, axis=1)


# %%
# Half of the tracks are held out. They are whole tracks: a random half of the steps would leave the neighbours of each
# held-out step in the training data.


def held_out_losses(correlation: float) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The loss of both models for every held-out step, and the track it belongs to."""
    paths = tracks(correlation, np.random.default_rng(0))
    data = itofit.Transitions.from_trajectories(paths, dt=H, names=["x", "y"])
    rest, held_out = data.split(0.5, by="groups", rng=0)
    models = {structure: itofit.fit(rest, structure=structure, rng=0) for structure in ("diagonal", "full")}
    chosen = itofit.fit(rest, rng=0).structure
    print(f"true correlation {correlation}: itofit.fit(data) chooses a {chosen} covariance")
    return {structure: sde.nll(held_out, pointwise=True) for structure, sde in models.items()}, held_out.groups


found = {correlation: held_out_losses(correlation) for correlation in (0.3, 0.0)}

# %%
# The mean of each track is one number, and the standard error is that of those numbers. Tracks have the same length
# here. If yours have not, weight them by it.


def by_track(loss: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Mean of each track."""
    label = np.unique(groups, return_inverse=True)[1]
    return np.bincount(label, loss) / np.bincount(label)


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for ax, (correlation, (loss, groups)) in zip(axes, found.items(), strict=True):
    gain = by_track(loss["diagonal"] - loss["full"], groups)
    mean, error = gain.mean(), standard_error(gain)
    verdict = "full is better" if mean > 2 * error else "diagonal is better" if mean < -2 * error else "no difference"
    print(f"true correlation {correlation}: gain of full {mean:+.4f} +- {error:.4f}, {len(gain)} tracks: {verdict}")
    ax.plot(np.arange(1, len(gain) + 1), np.sort(gain), "o", color="0.35", markersize=4, label="held-out tracks")
    ax.axhspan(mean - 1.96 * error, mean + 1.96 * error, color="#0072B2", alpha=0.3, label="mean, 95 % interval")
    ax.axhline(0, color="black", linewidth=0.8)
    ax.set(title=f"true correlation {correlation}", xlabel="track, in order of its gain")
axes[0].set_ylabel("gain of the full covariance\n[nats per step]")
axes[0].legend(frameon=False, loc="upper left")

# %%
# Where the noise is correlated the full covariance wins on nearly every track. Where it is not, it loses a little by
# what it has learned from chance, too little to tell with 30 tracks. (Mind the scales: the right one is far smaller.)
# "No difference" is then the answer, and the simpler model the one to take. That is what `itofit.fit` does by itself,
# with folds of the data it learns from.
#
# Other standard errors
# ---------------------
#
# The same difference with the standard errors that one might have used instead:

loss, groups = found[0.3]
steps = loss["diagonal"] - loss["full"]
unpaired = np.hypot(*(standard_error(by_track(each, groups)) for each in loss.values()))
print(f"paired, by track: {standard_error(by_track(steps, groups)):.4f}")
print(f"paired, steps as if they were independent: {standard_error(steps):.4f}")
print(f"by track, but not paired: {unpaired:.4f}")

# %%
# Without pairing the error is several times as large: most of what makes one track's loss differ from another's is
# common to both models. Taking steps as independent makes little difference here, because both models are nearly
# right and a Markov process makes the residuals of its steps independent. With a model that lacks something, or with
# a hidden variable, it makes the error too small. The track is the safe unit.
