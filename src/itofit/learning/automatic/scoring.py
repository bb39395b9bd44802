"""Fisher scoring: the amplitudes of H by least squares with the weights that belong to the current C, again and again.

Ridges of largest evidence are found on the way. Entries of a full H are moved together where they are few: where noise
is nearly singular, what one of them may do depends on the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._blocks import map_tasks
from itofit._checks import Float
from itofit.learning.automatic.coupled import normal_matrix
from itofit.learning.automatic.evidence import (
    SETTLED,
    amplitude_ridges,
    amplitudes_in_use,
    best_ridges,
    first_ridges,
    given_ridges,
)
from itofit.learning.automatic.penalised import penalised_solution
from itofit.learning.automatic.principal import Basis
from itofit.learning.automatic.products import NoiseModel, Parts, Products
from itofit.model.training import SWITCHED_OFF

MOST_STEPS = 40
"""Of scoring; most fits settle within ten."""
ROUNDS_FIRST, ROUNDS_LATER = 12, 4
"""Of the ridges, in the first step and in each later one."""
STEPS_OF_TAILS, FIRST_STEP_OF_CELLS = 10, 3
"""Scoring steps in which κ is estimated; of cells of many transitions, whose misfits look like tails, not the first."""
STEPS_OF_FREEDOM = 3
"""Scoring steps in which features that were switched off may come back."""
MOST_HALVINGS = {True: 16, False: 12}
"""Of a step, for decoupled entries, and for others, each of which costs eigenvalues."""
ROUNDING = 1e-6
"""Log-likelihood by which rounding may make a step look worse."""
COST_OF_DROPPING = 1.0
"""Log-likelihood that each step may lose at most by what was just switched off, of which the data tell nothing."""
LEAST_LIKELIHOOD_GAIN, LEAST_GAIN_EACH = 0.05, {True: 1e-6, False: 2e-5}
"""Of the log-likelihood of all data, or for each transition where they are many: fits that gain less have settled. The
latter for decoupled entries, and for others, whose steps cost more."""
MOST_IDLE = 3
"""Steps in a row that gain less because C is near zero somewhere and they must be short."""
MOST_COUPLED = 6
"""Entries of a full H, up to which scoring moves them together; one by one it needs many more steps."""
MOST_REUSED, LEAST_WORK = 4, 5e9
"""Steps in a row that use the left side of an earlier one, and multiplications that it must cost to be worth that."""
SMALL_GAIN = 3e-3
"""Log-likelihood for each transition that a whole step gains, up to which it hardly changes the left side: C is then
moved by a few percent."""
LEAST_WEIGHT = 1e-8
"""Least weight of a transition in scoring, where C does not depend on H."""


class Scoring(NamedTuple):
    """Where Fisher scoring is."""

    model: NoiseModel
    B: Float  # (R + 1, p): intercept and c
    ridges: Float  # (p, G)
    P: Float  # (R + 1, p): ridge of every amplitude in the last step


def scored(scoring: Scoring, products: Products, basis: Basis, ridge: float | None, first: int = 0) -> Scoring:
    """Fisher scoring, from the first step or a later one: the model with its κ, and where amplitudes and ridges end."""
    model, B, ridges, _ = scoring
    _, S, count, _ = products
    H = products.values(B)
    P, parts, idle, lefts = np.zeros_like(B), model.parts(H, S), 0, Lefts(model, products)
    coupled = not model.shape.separate and model.shape.n_entries <= MOST_COUPLED
    together: Together | None = None  # the last step's, if its left side may serve again
    enough = max(LEAST_LIKELIHOOD_GAIN, LEAST_GAIN_EACH[model.shape.separate] * float(count.sum()))
    for step in range(first, MOST_STEPS):
        if (0 if count.max() == 1 else FIRST_STEP_OF_CELLS) <= step < STEPS_OF_TAILS:
            model = model._replace(kappa=model.tails(H, S, count))
        free = step < STEPS_OF_FREEDOM and bool(len(basis.largest))
        in_use = None if free else amplitudes_in_use(ridges, basis)
        if coupled:
            together = Together.of(model, products, (B, H), parts, in_use, together)
            systems, weight, z = together.systems, together.weight, together.z
        else:
            systems, weight, z = systems_of(model, products, H, parts, in_use, lefts)
        spread = (weight * (z - H) ** 2).sum(axis=0) / count.sum()  # more than one where tails are heavy
        rounds = ROUNDS_LATER if step else ROUNDS_FIRST
        old = np.where(ridges < SWITCHED_OFF, ridges, first_ridges(basis)) if free else ridges
        new_ridges = _ridges(systems, old, basis, ridge, rounds, np.maximum(1.0, spread))
        P = np.ascontiguousarray(amplitude_ridges(new_ridges, basis).reshape(len(ridges), -1).T)
        if together is not None:
            new = together.solution(P)
        else:
            new = np.column_stack([penalised_solution(A, b, P[:, j]) for j, (A, b) in enumerate(systems)])
        change = products.values(new - B)
        share, gain, parts = _share_of_step(model, (B, new - B), (H, change), P, parts, products)
        reused = together is not None and together.age > 0
        if not share.any() and not reused:
            return Scoring(model, B, new_ridges, P)  # up to rounding no step improves on what there is
        settled = not free and bool((np.abs(new_ridges - ridges) <= SETTLED * ridges).all())
        B, H, ridges = B + share * (new - B), H + share * change, new_ridges
        idle = idle + 1 if settled and (gain < enough).all() else 0
        if reused and idle:  # what is left to gain is seen by a left side of its own
            together, idle = None, 0
        if idle == MOST_IDLE or (idle and (gain < enough * share)[share > 0].all()):
            break
        if not settled or share.min() < 1 or abs(gain.sum()) > SMALL_GAIN * count.sum():
            together = None
    return Scoring(model, B, ridges, P)


def _ridges(
    systems: list[tuple[Float, Float]], old: Float, basis: Basis, ridge: float | None, rounds: int, spread: Float
) -> Float:
    """Ridges (p, G) of largest evidence for the least-squares problem of each entry, from old ones, or a given one.

    Residuals vary `spread` (p,) times as much as expected.
    """
    new = np.empty_like(old)
    for j, (A, b) in enumerate(systems):
        if ridge is None:
            new[j] = best_ridges(A, b, basis, old[j : j + 1], rounds, float(spread[j]))[0]
        else:
            new[j] = given_ridges(ridge, float(A[0, 0]), basis)
    return new


class Together(NamedTuple):
    """One scoring step as a least-squares problem of all entries of H together."""

    A: Float  # (q, q): between all amplitudes in use, entry by entry
    b: Float  # (p, R + 1)
    b_alone: Float  # (p, R + 1): of each entry alone
    in_use: npt.NDArray[np.bool_]  # (p, R + 1)
    weight: Float  # (n, p): of each entry alone
    z: Float  # (n, p): its targets
    age: int = 0  # steps since A was made

    @classmethod
    def of(
        cls,
        model: NoiseModel,
        products: Products,
        where: tuple[Float, Float],
        parts: Parts,
        in_use: npt.NDArray[np.bool_] | None,
        before: Together | None = None,
    ) -> Together:
        """At amplitudes B and H, with the left side of an earlier step if that may serve again.

        All amplitudes are in use unless it is said which.
        """
        (B, H), (ones, _, count, _) = where, products
        if in_use is None:
            in_use = np.ones((H.shape[1], ones.shape[1]), dtype=bool)
        gradient, changes = model.coupled_derivatives(parts, count)
        if before is not None and before.serves(B, len(H), in_use):
            own = 0.5 * count[:, None] * np.einsum("nea,nea->ne", changes, changes) + LEAST_WEIGHT * count[:, None]
            return before._again(B, gradient.T @ ones)._replace(weight=own, z=H - gradient / own)
        changes *= np.sqrt(0.5 * count)[:, None, None]
        weight = changes @ changes.swapaxes(1, 2) + LEAST_WEIGHT * count[:, None, None] * np.eye(H.shape[1])
        targets = (weight @ H[:, :, None])[:, :, 0] - gradient
        A = normal_matrix(ones, weight, [np.flatnonzero(own) for own in in_use])
        own = np.diagonal(weight, axis1=1, axis2=2)
        z = H - gradient / own
        return cls(A, targets.T @ ones, (own * z).T @ ones, in_use, own, z)

    def serves(self, B: Float, n: int, in_use: npt.NDArray[np.bool_]) -> bool:
        """Whether the left side is that of the same amplitudes of n cells, not old, and worth keeping."""
        same = np.array_equal(in_use, self.in_use) and not B.T[~in_use].any()
        return same and self.age < MOST_REUSED and n * float(len(self.A)) ** 2 >= LEAST_WORK

    def _again(self, B: Float, gradient: Float) -> Together:
        """The same left side at other amplitudes (R + 1, p), where the nll has a gradient (p, R + 1) in them."""
        b, b_alone = np.zeros(gradient.shape), np.zeros(gradient.shape)
        b[self.in_use] = self.A @ B.T[self.in_use]
        for j, (A, _) in enumerate(self.systems):
            b_alone[j] = A @ B[:, j]
        return self._replace(b=b - gradient, b_alone=b_alone - gradient, age=self.age + 1)

    @property
    def systems(self) -> list[tuple[Float, Float]]:
        """A and b of each entry alone, zero for amplitudes that are not in use."""
        systems, first = [], 0
        for on, b in zip(self.in_use, self.b_alone, strict=True):
            A, size = np.zeros((len(on), len(on))), int(on.sum())
            A[np.ix_(on, on)] = self.A[first : first + size, first : first + size]
            systems.append((A, np.where(on, b, 0.0)))
            first += size
        return systems

    def solution(self, P: Float) -> Float:
        """Amplitudes (R + 1, p) at the end of the step, with ridges of that shape."""
        new = np.zeros(P.T.shape)
        new[self.in_use] = penalised_solution(self.A, self.b[self.in_use], P.T[self.in_use])
        return new.T


def _share_of_step(
    model: NoiseModel,
    amplitudes: tuple[Float, Float],
    values: tuple[Float, Float],
    P: Float,
    parts: Parts,
    products: Products,
) -> tuple[Float, Float, Parts]:
    """How much of a step to take, what it gains, and the parts at its end.

    The first two are one number for all entries, or one for each if they are separate. What was just switched off is on
    its way to zero, and a step need not gain what that costs, if it is little.

    Parameters
    ----------
    model : NoiseModel
    amplitudes, values : pairs of arrays
        B and its change; H and its change.
    P : array of shape (R + 1, p)
        Ridges of the amplitudes.
    parts : Parts
        At H.
    products : Products
    """
    (B, step), (H, change), count = amplitudes, values, products.count
    off = P >= SWITCHED_OFF
    P = np.where(off, 0.0, P)
    loss = model.nlls(parts, count)
    dropped = np.where(off, B, 0.0)
    if dropped.any():
        without = model.nlls(model.parts(H - products.values(dropped), products.S), count)
        loss = loss + np.clip(np.where(np.isfinite(without), without - loss, 0.0), 0.0, COST_OF_DROPPING)
    loss = loss + model.together(0.5 * (P * B**2).sum(axis=0))
    share = model.link.largest_share(H, change, model.shape, model.most)
    for _ in range(MOST_HALVINGS[model.shape.separate]):
        penalty = model.together(0.5 * (P * (B + share * step) ** 2).sum(axis=0))
        there = model.parts(H + share * change, products.S)
        gain = loss - model.nlls(there, count) - penalty
        worse = ~(gain >= -ROUNDING)
        if not worse.any():
            return share, gain, there
        share[worse] *= 0.5
    share = np.where(worse, 0.0, share)
    return share, np.where(worse, 0.0, gain), model.parts(H + share * change, products.S)


def systems_of(
    model: NoiseModel,
    products: Products,
    H: Float,
    parts: Parts,
    in_use: npt.NDArray[np.bool_] | None = None,
    lefts: Lefts | None = None,
) -> tuple[list[tuple[Float, Float]], Float, Float]:
    """One scoring step as a least-squares problem for each entry of H: A and b, and its weights and targets (n, p).

    Amplitudes that are not `in_use` (p, R + 1) are left out: A and b are zero there.
    """
    count = products.count
    gradient, weight = model.derivatives(parts, count)
    weight = np.maximum(weight, LEAST_WEIGHT * count[:, None])
    z = H - gradient / weight
    if in_use is None:
        in_use = np.ones((H.shape[1], products.ones.shape[1]), dtype=bool)
    return (lefts or Lefts(model, products)).systems(weight, z, in_use), weight, z


class Lefts:
    """The least-squares problems of scoring steps of some products.

    Where every transition tells as much of each entry of H, whatever H is, the left side is made but once for all
    entries and steps.
    """

    def __init__(self, model: NoiseModel, products: Products) -> None:
        self.products, self.steady = products, model.link.steady and model.shape.separate
        self.made: tuple[npt.NDArray[np.bool_], Float] | None = None  # for some amplitudes (R + 1,)

    def systems(self, weight: Float, z: Float, in_use: npt.NDArray[np.bool_]) -> list[tuple[Float, Float]]:
        """A and b of every entry for weights and targets (n, p), zero where amplitudes are not `in_use` (p, R + 1)."""
        ones, size = self.products.ones, in_use.shape[1]
        if self.steady:
            left, right = (
                self._half_gram(np.logical_or.reduce(in_use)),
                ones.T @ (0.5 * self.products.count[:, None] * z),
            )
            return [(_kept(left, on), np.where(on, b, 0.0)) for on, b in zip(in_use, right.T, strict=True)]

        def system(j: int) -> tuple[Float, Float]:
            if in_use[j].all():
                return weighted_system(ones, weight[:, j], z[:, j])
            A, b, on = np.zeros((size, size)), np.zeros(size), np.flatnonzero(in_use[j])
            A[np.ix_(on, on)], b[on] = weighted_system(ones[:, on], weight[:, j], z[:, j])
            return A, b

        return map_tasks(system, range(len(in_use)), ones.size * size)

    def _half_gram(self, used: npt.NDArray[np.bool_]) -> Float:
        """Σ n/2 (1, X)(1, X)ᵀ, zero but for some amplitudes (R + 1,) and perhaps others."""
        if self.made is None or (used & ~self.made[0]).any():
            left, on = np.zeros((len(used), len(used))), np.flatnonzero(used)
            x = self.products.ones.T[on] * np.sqrt(0.5 * self.products.count)
            left[np.ix_(on, on)] = x @ x.T
            self.made = used, left
        return self.made[1]


def _kept(A: Float, on: npt.NDArray[np.bool_]) -> Float:
    """A matrix of which some rows and columns are kept and others are zero."""
    return A if on.all() else np.where(on[:, None] & on, A, 0.0)


def weighted_system(ones: Float, weight: Float, z: Float) -> tuple[Float, Float]:
    """Left and right side of weighted least squares for targets z."""
    root = np.sqrt(weight)
    x = ones.T * root
    return x @ x.T, x @ (root * z)
