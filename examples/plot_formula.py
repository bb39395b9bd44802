r"""
The equation in a line, and when there is none
==============================================

Two systems with the same noise. The force of the first is a polynomial, that of the second is not. `LearnedSDE.formula`
looks for a short sum of terms in both, and says of the second that there is none.
"""

import matplotlib.pyplot as plt
import numpy as np

import itofit

H = 0.02


def tracks(force, rng: np.random.Generator) -> itofit.Transitions:  # noqa: ANN001
    """Fifty tracks of 600 steps, each made of ten finer ones."""
    x = rng.normal(0, 1, 50)
    seen = [x]
    for _ in range(600):
        for _ in range(10):
            x = x + force(x) * H / 10 + 0.7 * np.sqrt(H / 10) * rng.normal(size=x.size)
        seen.append(x)
    return itofit.Transitions.from_trajectories(list(np.stack(seen, axis=1)[:, :, None]), dt=H)


def crooked(x: np.ndarray) -> np.ndarray:
    return -np.abs(x) * x + 2 * np.sin(5 * x) * np.exp(-(x**2))


rng = np.random.default_rng(0)
wells, ripples = tracks(lambda x: 2 * x - 2 * x**3, rng), tracks(crooked, rng)

# %%
# Of the polynomial all terms are found, and none besides. The last sentence compares the formula with the learned
# functions on data that its coefficients were not fitted to.

sde = itofit.fit(wells, rng=0)
formula = sde.formula(wells)
print(formula)

# %%
# Of the other force no sum of powers is good enough. The picture says where: the loss is above zero where the force has
# its ripples.

other = itofit.fit(ripples, rng=0)
none = other.formula(ripples)
print(none)
none.plot(other, ripples)

# %%
# Told which functions it might be, it finds them.

own = {
    "|x| x": lambda x: np.abs(x[:, 0]) * x[:, 0],
    "ripple": lambda x: np.sin(5 * x[:, 0]) * np.exp(-(x[:, 0] ** 2)),
}
print(other.formula(ripples, terms=own))
plt.show()
