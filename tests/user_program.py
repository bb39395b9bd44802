"""What a user might write, for the type checker: `make package` checks it strictly against the installed package."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import itofit


def learned(tracks: list[NDArray[np.float64]], dt: float) -> itofit.LearnedSDE:
    data: itofit.Transitions = itofit.Transitions.from_trajectories(tracks, dt=dt)
    return itofit.fit(data, rng=0)


def looked_at(sde: itofit.LearnedSDE, held_out: itofit.Transitions, folder: Path) -> float:
    drift: NDArray[np.float64] = sde.drift(held_out.inputs)
    mean, std = sde.drift(held_out.inputs, return_std=True)
    low, high = sde.variance_interval(held_out.inputs)
    paths: NDArray[np.float64] = sde.simulate(held_out.inputs[:10], dt=0.1, n_steps=100, rng=0)
    for finding in itofit.check(sde, held_out):
        print(finding.name, finding.verdict)
    print(itofit.dynamics.fixed_points(sde), sde.formula(held_out), sde.summary())
    sde.save(folder / "sde.npz")
    again = itofit.load(folder / "sde.npz")
    itofit.report(again, held_out, folder / "report.html")
    itofit.plot.drift(again, held_out)
    spread = np.abs(mean - drift).max() + std.max() + (high - low).max() + paths.std()
    return float(spread) + again.nll(held_out)
