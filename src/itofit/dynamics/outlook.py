"""The usual questions at once: where it rests, how fast it forgets, how long it stays, how far from balance it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import permutations

import numpy as np
from scipy.linalg import solve_continuous_lyapunov

from itofit._checks import RNG, Float, InputError, generator
from itofit.data.periods import nearest_image
from itofit.dynamics.answers import Answer
from itofit.dynamics.cycles import period
from itofit.dynamics.long_run import entropy_production
from itofit.dynamics.motion import Box, Held, Motion, motion_of
from itofit.dynamics.passages import PassageTime, first_passage_time
from itofit.dynamics.questions import MOST_VARIABLES, question_of
from itofit.dynamics.regions import Region
from itofit.dynamics.relaxation import relaxation_times
from itofit.dynamics.resting import FixedPoints, fixed_points, slopes
from itofit.model.sde import SDE

MOST_STABLE = 4
"""Fixed points between which passage times are computed: more would be a long table."""


@dataclass(frozen=True, repr=False)
class Outlook:
    """Answers to the usual questions; those that do not apply are left out.

    Parameters
    ----------
    answers : tuple of Answer
    notes : tuple of str
        What was asked and could not be answered, and why.
    """

    answers: tuple[Answer, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """All answers; what the edge makes of them is the same for all, and said once, behind the first."""
        said: set[str] = set()
        lines = []
        for answer in self.answers:
            edge = f"  {answer.edge}"
            lines += [line for line in str(answer).splitlines() if line != edge or edge not in said]
            said.add(edge)
        return "\n".join([*lines, *self.notes])

    __repr__ = __str__


def outlook(sde: SDE, *, covariates: Held = None, box: Box = None, samples: int = 50, rng: RNG = None) -> Outlook:
    """Fixed points, the period of a limit cycle, relaxation times, passage times between stable points, entropy.

    Around a stable fixed point of two or more variables, to be there is to be within one standard deviation of what the
    noise makes of it. With more than three variables only the fixed points and a limit cycle are looked for: the other
    answers need a grid. What cannot be answered is left out, and a note says why.

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
    found = _Gathered([points])
    if motion.s > 1 and not points.stable.any():
        found.ask("period of a limit cycle", partial(period, sde, **options))  # type: ignore[arg-type]
    if motion.s <= MOST_VARIABLES:
        found.ask("relaxation times", partial(relaxation_times, sde, **options))  # type: ignore[arg-type]
        _ask_for_passages(found, motion, points, partial(first_passage_time, sde, **options))  # type: ignore[arg-type]
        found.ask("entropy production", partial(entropy_production, sde, **options))  # type: ignore[arg-type]
    return Outlook(tuple(found.answers), tuple(found.notes))


@dataclass(frozen=True)
class _Gathered:
    """Answers so far, and notes on what could not be answered."""

    answers: list[Answer]
    notes: list[str] = field(default_factory=list)

    def ask(self, what: str, question: Callable[[], Answer]) -> None:
        """Put a question; one that cannot be answered must not take the others with it."""
        try:
            self.answers.append(question())
        except (InputError, np.linalg.LinAlgError, RuntimeError) as error:  # the last are those of SciPy's solvers
            self.leave_out(what, str(error))

    def leave_out(self, what: str, why: str) -> None:
        self.notes.append(f"{what}: left out, {why}")


def _ask_for_passages(
    found: _Gathered, motion: Motion, points: FixedPoints, time_between: Callable[..., PassageTime]
) -> None:
    """Times from each stable fixed point to where the state belongs to another one."""
    stable = np.flatnonzero(points.stable)[:MOST_STABLE]
    if len(stable) < 2:
        return
    cell = question_of(motion.sde, motion.held.tolist() or None, motion.box, None, 0, None).coarse.size
    places = np.asarray(points.value)
    around = {i: surroundings(motion, places[i], cell) for i in stable}

    def passage(i: int, j: int) -> Answer:
        time = time_between(places[i], around[j])
        if not np.isfinite(time.value):
            raise InputError("it is longer than numbers can be")
        return replace(time, way=(int(i), int(j)))

    for i, j in permutations(stable, 2):
        what = f"mean first-passage time from {motion.place_text(places[i])} to {motion.place_text(places[j])}"
        if around[j].inside(places[i : i + 1])[0]:
            found.leave_out(what, f"the start is within {around[j].text}")
        else:
            found.ask(what, partial(passage, i, j))


def surroundings(motion: Motion, point: Float, least: Float) -> Region:
    """Where a state is that belongs to a stable fixed point: at it, or within a standard deviation of the noise.

    Parameters
    ----------
    motion : Motion
    point : array of shape (s,)
    least : array of shape (s,)
        How far it reaches in each direction at least: sets that are smaller than the cells of a grid hold none.
    """
    text = motion.place_text(point)
    if motion.s == 1:
        return Region(text, level=float(point[0]), periods=motion.periods)
    J = slopes(motion.flow, point[None], motion.box[1] - motion.box[0])[0]
    D = motion.flow_and_noise(point[None])[1][0]
    C = solve_continuous_lyapunov(J, -2 * D)
    squares, axes = np.linalg.eigh(0.5 * (C + C.T) / np.outer(least, least))
    precision = (axes / np.maximum(squares, 1.0)) @ axes.T

    def contains(x: Float) -> np.ndarray:
        away = nearest_image(x - point, motion.periods) / least
        return np.asarray(np.einsum("ni,ij,nj->n", away, precision, away) <= 1)

    reach = "one standard deviation" if (squares >= 1).all() else "one standard deviation, at least a cell of the grid,"
    return Region(f"{reach} around {text}", contains=contains, periods=motion.periods)
