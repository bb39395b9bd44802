"""Learn a noisy double well from tracks with gaps, and leave a report to look at.

A particle moves in the potential x⁴/4 − x²/2, with noise that is stronger on the right:

    dx = (x − x³) dt + (0.5 + 0.15 x) dW.

Forty tracks of it are observed every 0.02 time units, with missing observations. itofit sees the tracks alone.

    python examples/double_well.py [DIRECTORY]
"""

from __future__ import annotations

import base64
import html
import io
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

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

    tracks = observed_tracks(np.random.default_rng(1))
    data = itofit.Transitions.from_trajectories(tracks, dt=H)
    rest, held_out = data.split(0.1, by="groups", rng=1)
    print(data)

    sde = itofit.fit(rest, rng=0)
    print(sde.summary())

    start = np.array([track[np.isfinite(track)][0] for track in tracks])
    paths = sde.simulate(np.repeat(start, 25), H, len(tracks[0]) - 1, rng=1)

    sde.save(folder / "sde.npz")
    figure = draw(sde, data, tracks, paths[:, :, 0])
    figure.savefig(folder / "report.png", dpi=130)
    write_page(folder / "report.html", sde, held_out, figure)
    print(f"the report is {folder / 'report.html'}, its figure {folder / 'report.png'}, the model {folder / 'sde.npz'}")


def draw(sde: itofit.LearnedSDE, data: itofit.Transitions, tracks: list[np.ndarray], paths: np.ndarray) -> Figure:
    """Drift and diffusion, learned and true, and one track and the distribution of all, simulated and observed."""
    low, high = np.quantile(data.inputs, [0.005, 0.995])
    x = np.linspace(low, high, 200)
    figure, ((top_left, top_right), (bottom_left, bottom_right)) = plt.subplots(
        2, 2, figsize=(9.5, 7), layout="constrained"
    )
    learned = {"color": "#0072B2", "linewidth": 2.2, "label": "learned"}
    true = {"color": "black", "linewidth": 1.3, "linestyle": (0, (5, 3)), "label": "true"}

    for axis, values, truth, title in (
        (top_left, sde.drift(x)[:, 0], true_drift(x), "Drift f(x)"),
        (top_right, sde.diffusion(x)[:, 0, 0], true_diffusion(x), "Noise strength σ(x)"),
    ):
        axis.plot(x, values, **learned)
        axis.plot(x, truth, **true)
        axis.set(title=title, xlabel="position x", xlim=(low, high))
        axis.legend(frameon=False)
    top_right.set_ylim(0, None)

    time = H * np.arange(len(tracks[0]))
    bottom_left.plot(time, tracks[0], color="0.25", linewidth=0.9, label="observed")
    bottom_left.plot(time, paths[3] - 4, color=learned["color"], linewidth=0.9, label="simulated (4 lower)")
    bottom_left.set(title="Tracks", xlabel="time", ylabel="position x", ylim=(-6.2, 3.4))
    bottom_left.legend(frameon=False, loc="upper right", ncols=2, fontsize="small")

    bins = np.linspace(low, high, 41)
    observed = np.concatenate(tracks)
    bottom_right.hist(observed, bins, density=True, color="0.8", edgecolor="0.55", label="observed")
    bottom_right.hist(paths.ravel(), bins, density=True, histtype="step", **learned | {"label": "simulated"})
    bottom_right.set(title="Distribution of positions", xlabel="position x", ylabel="density", xlim=(low, high))
    bottom_right.legend(frameon=False)
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def minus(number: str) -> str:
    """A number as it is printed in books."""
    return number.replace("-", "−")


def write_page(path: Path, sde: itofit.LearnedSDE, held_out: itofit.Transitions, figure: Figure) -> None:
    """One self-contained page: what was learned, how good it is, how it was made."""
    x = held_out.inputs
    true_sigma = true_diffusion(x[:, 0])
    drift_error = np.sqrt(np.mean((sde.drift(x)[:, 0] - true_drift(x[:, 0])) ** 2))
    sigma_error = np.sqrt(np.mean((sde.diffusion(x)[:, 0, 0] / true_sigma - 1) ** 2))
    truth = itofit.likelihood.gaussian_nll(
        held_out.increments, held_out.h, true_drift(x), (true_sigma**2)[:, None, None]
    ).mean()
    low, high = np.quantile(true_drift(x), [0.005, 0.995])
    rows = {
        "loss (negative log-likelihood) on held-out tracks": minus(f"{sde.nll(held_out):.4f}"),
        "loss of the true equation on the same tracks": minus(f"{truth:.4f}"),
        "drift error, root mean square": minus(f"{drift_error:.3f}, of a drift between {low:.1f} and {high:.1f}"),
        "noise strength error, root mean square": f"{sigma_error:.1%}",
        "points where the covariance needed its floor": f"{sde.floored_share:.2%}",
    }
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=130)
    encoded = base64.b64encode(picture.getvalue()).decode()
    table = "\n".join(f"<tr><td>{name}</td><td>{html.escape(value)}</td></tr>" for name, value in rows.items())
    path.write_text(
        f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>A double well, learned from tracks</title>
<style>
  body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
  img {{ max-width: 100%; height: auto; }}
  table {{ border-collapse: collapse; }}
  td {{ padding: .3rem 1.2rem .3rem 0; border-bottom: 1px solid #ddd; }}
  pre {{ background: #f5f5f5; padding: 1rem; overflow-x: auto; font-size: .85rem; }}
</style>
<h1>A double well, learned from tracks</h1>
<p>itofit was given forty tracks with gaps. It was not told the equation that made them,
d<i>x</i> = (<i>x</i> − <i>x</i>³) d<i>t</i> + (0.5 + 0.15 <i>x</i>) d<i>W</i>.</p>
<img alt="Learned and true drift and noise strength, and observed and simulated tracks and their distributions"
     src="data:image/png;base64,{encoded}">
<h2>How good it is</h2>
<table>
{table}
</table>
<h2>How it was made</h2>
<pre>{html.escape(sde.summary())}</pre>
<h2>Use it</h2>
<pre>import itofit
sde = itofit.load("sde.npz")
sde.drift([-1.0, 0.0, 1.0])</pre>
</html>
""",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
