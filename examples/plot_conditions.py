r"""
Two conditions: what did the treatment change?
==============================================

Cells turn as they crawl: the angular velocity of each forgets its past, and noise drives it. A drug is said to make
them turn less. Is it the drift or the noise that it changes, or are fewer turns a matter of chance?
"""

import matplotlib.pyplot as plt
import numpy as np

import itofit
from itofit import dynamics

H = 0.05


def cells(forgetting: float, noise: float, rng: np.random.Generator) -> itofit.Transitions:
    """Sixty tracks of 200 observations of the angular velocity, whose noise grows with its size."""
    v = np.zeros(60)
    seen = [v]
    for _ in range(200):
        for _ in range(5):
            v = v - forgetting * v * H / 5 + noise * np.sqrt(1 + v**2) * np.sqrt(H / 5) * rng.normal(size=v.size)
        seen.append(v)
    return itofit.Transitions.from_trajectories(list(np.stack(seen, axis=1)[:, :, None]), dt=H, names=["turning"])


rng = np.random.default_rng(0)
control, treated = cells(1.5, 0.6, rng), cells(1.5, 0.5, rng)

# %%
# One equation is learned from each condition. Two tests say whether the data of both could follow one; bands, which
# hold at all places together, say where they do not. The drift is the same within its error, the noise is not.

a, b = itofit.fit(control, rng=0), itofit.fit(treated, rng=0)
comparison = itofit.compare(
    a,
    b,
    control,
    treated,
    names=("control", "treated"),
    answers={"relaxation time": lambda sde: dynamics.relaxation_times(sde, n=1, samples=20, rng=0)},
)
print(comparison)
comparison.plot()
plt.show()
