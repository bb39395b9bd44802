"""The usual questions at once: where it rests, how fast it forgets, how long it stays, how far from balance it is."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_continuous_lyapunov

from itofit._checks import RNG, Float, InputError, generator
from itofit.dynamics.answers import Answer
from itofit.dynamics.cycles import period
from itofit.dynamics.long_run import entropy_production
from itofit.dynamics.motion import Box, Held, Motion, motion_of
from itofit.dynamics.passages import first_passage_time
from itofit.dynamics.questions import MOST_VARIABLES
from itofit.dynamics.regions import Region
from itofit.dynamics.relaxation import relaxation_times
from itofit.dynamics.resting import fixed_points, slopes
from itofit.model.sde import SDE

MOST_STABLE = 4
"""Fixed points between which passage times are computed: more would be a long table."""


@dataclass(frozen=True, repr=False)
class Outlook:
    """Answers to the usual questions; those that do not apply are left out."""

    answers: tuple[Answer, ...]

    def __str__(self) -> str:
        """All answers; what the edge makes of them is the same for all, and said once, behind the first."""
        said: set[str] = set()
        lines = []
        for answer in self.answers:
            edge = f"  {answer.edge}"
            lines += [line for line in str(answer).splitlines() if line != edge or edge not in said]
            said.add(edge)
        return "\n".join(lines)

    __repr__ = __str__


def outlook(sde: SDE, *, covariates: Held = None, box: Box = None, samples: int = 50, rng: RNG = None) -> Outlook:
    """Fixed points, the period of a limit cycle, relaxation times, passage times between stable points, entropy.

    Around a stable fixed point of two or more variables, to be there is to be within one standard deviation of what the
    noise makes of it. With more than three variables only the fixed points and a limit cycle are looked for: the other
    answers need a grid.

    Parameters
    ----------
    sde, covariates, box, samples, rng
        As for `stationary_density`.

    Examples
    --------
    >>> import numpy as np
    >>> from itofit import dynamics
    >>> from itofit.model.known import KnownSDE
    >>> sde = KnownSDE(f=lambda x: x - x**3, sigma=lambda x: np.full((len(x), 1, 1), 0.7))
    >>> [answer.what for answer in dynamics.outlook(sde, box=(-2.5, 2.5)).answers][2]
    'mean first-passage time from x = -1 to x = 1'
    """
    seed = int(generator(rng)[0].integers(2**31))  # the same samples for all answers
    motion = motion_of(sde, covariates, box)
    options = {"covariates": covariates, "box": box, "samples": samples, "rng": seed}
    points = fixed_points(sde, **options)  # type: ignore[arg-type]
    answers: list[Answer] = [points]
    if motion.s > 1 and not points.stable.any():
        with suppress(InputError):  # it need not turn
            answers.append(period(sde, **options))  # type: ignore[arg-type]
    if motion.s > MOST_VARIABLES:
        return Outlook(tuple(answers))
    answers.append(relaxation_times(sde, **options))  # type: ignore[arg-type]
    stable = np.flatnonzero(points.stable)[:MOST_STABLE]
    around = {i: surroundings(motion, np.asarray(points.value)[i]) for i in stable}
    for i in stable:
        for j in stable:
            if i != j:
                start = np.asarray(points.value)[i]
                answers.append(first_passage_time(sde, start, around[j], **options))  # type: ignore[arg-type]
    answers.append(entropy_production(sde, **options))  # type: ignore[arg-type]
    return Outlook(tuple(answers))


def surroundings(motion: Motion, point: Float) -> Region:
    """Where a state is that belongs to a stable fixed point: at it, or within a standard deviation of the noise."""
    text = motion.place_text(point)
    if motion.s == 1:
        return Region(text, level=float(point[0]), periods=motion.periods)
    J = slopes(motion.flow, point[None], motion.box[1] - motion.box[0])[0]
    D = motion.flow_and_noise(point[None])[1][0]
    C = solve_continuous_lyapunov(J, -2 * D)
    precision = np.linalg.inv(C)

    def contains(x: Float) -> np.ndarray:
        away = x - point
        return np.asarray(np.einsum("ni,ij,nj->n", away, precision, away) <= 1)

    return Region(f"one standard deviation around {text}", contains=contains, periods=motion.periods)
