"""Learn a noisy double well from tracks with gaps, and leave a report to look at.

A particle moves in the potential x⁴/4 − x²/2, with noise that is stronger on the right:

    dx = (x − x³) dt + (0.5 + 0.15 x) dW.

Forty tracks of it are observed every 0.02 time units, with missing observations. itofit sees the tracks alone.

    python examples/double_well.py [DIRECTORY]
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import itofit

H = 0.02


def true_drift(x: np.ndarray) -> np.ndarray:
    return x - x**3


def true_diffusion(x: np.ndarray) -> np.ndarray:
    return 0.5 + 0.15 * x


def observed_tracks(rng: np.random.Generator, n_tracks: int = 40, n_times: int = 750) -> list[np.ndarray]:
    """Tracks of the particle, simulated with steps of a twentieth of H, with one observation in fifty missing."""
    x = rng.uniform(-1.5, 1.5, n_tracks)
    tracks = np.empty((n_tracks, n_times))
    for i in range(n_times):
        tracks[:, i] = x
        for _ in range(20):
            x = x + H / 20 * true_drift(x) + true_diffusion(x) * np.sqrt(H / 20) * rng.standard_normal(n_tracks)
    tracks[rng.random(tracks.shape) < 0.02] = np.nan
    return list(tracks)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    folder.mkdir(parents=True, exist_ok=True)

    data = itofit.Transitions.from_trajectories(observed_tracks(np.random.default_rng(1)), dt=H)
    rest, held_out = data.split(0.1, by="groups", rng=1)
    print(data)

    sde = itofit.fit(rest, rng=0)
    print(sde.summary(), end="\n\n")
    print(itofit.check(sde, held_out))

    sde.save(folder / "sde.npz")
    itofit.report(sde, held_out, folder / "report.html", title="A double well, learned from tracks")
    compare_with_truth(sde, data, folder / "truth.png")
    print(f"\nthe report is {folder / 'report.html'}, the model {folder / 'sde.npz'};")
    print(f"{folder / 'truth.png'} shows both functions beside the true ones, which itofit has not seen")


def compare_with_truth(sde: itofit.LearnedSDE, data: itofit.Transitions, path: Path) -> None:
    """Drift and noise strength, learned and true."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
    itofit.plot.drift(sde, data, ax=left)
    itofit.plot.diffusion(sde, data, what="sigma", ax=right)
    for axis, truth in ((left, true_drift), (right, true_diffusion)):
        low, high = axis.get_xlim()
        x = np.linspace(low, high, 200)
        axis.plot(x, truth(x), color="black", linewidth=1.3, linestyle=(0, (5, 3)), label="true")
        axis.set_xlim(low, high)
        axis.legend(frameon=False)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
