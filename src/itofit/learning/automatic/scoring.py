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
from itofit.learning.automatic.drift import normal_matrix
from itofit.learning.automatic.evidence import (
    SETTLED,
    amplitude_ridges,
    amplitudes_in_use,
    best_ridges,
    first_ridges,
    given_ridges,
    penalised_solution,
)
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
MOST_HALVINGS = {True: 16, False: 6}
"""Of a step, for decoupled entries, and for others, each of which costs eigenvalues."""
ROUNDING = 1e-6
"""Log-likelihood by which rounding may make a step look worse."""
LEAST_LIKELIHOOD_GAIN, LEAST_GAIN_EACH = 0.05, {True: 1e-6, False: 2e-5}
"""Of the log-likelihood of all data, or for each transition where they are many: fits that gain less have settled. The
latter for decoupled entries, and for others, whose steps cost more."""
MOST_IDLE = 3
"""Steps in a row that gain less because C is near zero somewhere and they must be short."""
MOST_COUPLED = 6
"""Entries of a full H, up to which scoring moves them together; one by one it needs many more steps."""
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
    enough = max(LEAST_LIKELIHOOD_GAIN, LEAST_GAIN_EACH[model.shape.separate] * float(count.sum()))
    for step in range(first, MOST_STEPS):
        if (0 if count.max() == 1 else FIRST_STEP_OF_CELLS) <= step < STEPS_OF_TAILS:
            model = model._replace(kappa=model.tails(H, S, count))
        free = step < STEPS_OF_FREEDOM and bool(len(basis.largest))
        in_use = None if free else amplitudes_in_use(ridges, basis)
        if coupled:
            together = Together.of(model, products, H, parts, in_use)
            systems, weight, z = together.systems, together.weight, together.z
        else:
            systems, weight, z = systems_of(model, products, H, parts, in_use, lefts)
        spread = (weight * (z - H) ** 2).sum(axis=0) / count.sum()  # more than one where tails are heavy
        new_ridges = np.empty_like(ridges)
        for j, (A, b) in enumerate(systems):
            if ridge is None:
                old = ridges[j : j + 1]
                if free:
                    old = np.where(old < SWITCHED_OFF, old, first_ridges(basis))
                rounds = ROUNDS_LATER if step else ROUNDS_FIRST
                own = best_ridges(A, b, basis, old, rounds, max(1.0, float(spread[j])))
            else:
                own = given_ridges(ridge, float(A[0, 0]), basis)[None]
            new_ridges[j : j + 1], P[:, j] = own, amplitude_ridges(own, basis)
        if coupled:
            new = together.solution(P)
        else:
            new = np.column_stack([penalised_solution(A, b, P[:, j]) for j, (A, b) in enumerate(systems)])
        on = np.where(P < SWITCHED_OFF, P, 0.0)  # what was just switched off is on its way to zero
        change = products.values(new - B)
        share, gain, parts = _share_of_step(model, (B, new - B), (H, change), on, parts, products)
        if not share.any():
            return Scoring(model, B, new_ridges, P)  # up to rounding no step improves on what there is
        settled = not free and bool((np.abs(new_ridges - ridges) <= SETTLED * ridges).all())
        B, H, ridges = B + share * (new - B), H + share * change, new_ridges
        idle = idle + 1 if settled and (gain < enough).all() else 0
        if idle == MOST_IDLE or (idle and (gain < enough * share)[share > 0].all()):
            break
    return Scoring(model, B, ridges, P)


class Together(NamedTuple):
    """One scoring step as a least-squares problem of all entries of H together."""

    A: Float  # (q, q): between all amplitudes in use, entry by entry
    b: Float  # (p, R + 1)
    b_alone: Float  # (p, R + 1): of each entry alone
    in_use: npt.NDArray[np.bool_]  # (p, R + 1)
    weight: Float  # (n, p): of each entry alone
    z: Float  # (n, p): its targets

    @classmethod
    def of(
        cls, model: NoiseModel, products: Products, H: Float, parts: Parts, in_use: npt.NDArray[np.bool_] | None
    ) -> Together:
        """At H; all amplitudes are in use unless it is said which."""
        ones, _, count, _ = products
        if in_use is None:
            in_use = np.ones((H.shape[1], ones.shape[1]), dtype=bool)
        gradient, _ = model.derivatives(parts, count)
        changes = np.sqrt(0.5 * count)[:, None, None] * model.changes(parts)
        weight = changes @ changes.swapaxes(1, 2) + LEAST_WEIGHT * count[:, None, None] * np.eye(H.shape[1])
        targets = (weight @ H[:, :, None])[:, :, 0] - gradient
        A = normal_matrix([ones] * H.shape[1], weight, [np.flatnonzero(own) for own in in_use])
        own = np.diagonal(weight, axis1=1, axis2=2)
        z = H - gradient / own
        return cls(A, targets.T @ ones, (own * z).T @ ones, in_use, own, z)

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

    The first two are one number for all entries, or one for each if they are separate.

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
    loss = model.nlls(parts, count) + model.together(0.5 * (P * B**2).sum(axis=0))
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

        return map_tasks(system, range(len(in_use)), len(ones))

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
