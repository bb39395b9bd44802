"""Algorithm 1's iteration: frequencies are drawn again, proposed and accepted, whatever the proposal.

======  ===================  ========  ===================================================
symbol  name                 shape     meaning
======  ===================  ========  ===================================================
ω       omega                (K, m)    frequencies
|β̂|     size                 (K,)      sizes of their amplitudes
ω*      proposal             (K, m)    proposed frequencies
j       j                    (K,)      indices drawn in resampling
γ       gamma                          exponent of the Metropolis test
======  ===================  ========  ===================================================

For several outputs |β̂_k| is the Euclidean norm over them. An iteration draws, in this order, uniforms for resampling
(if it resamples), what the proposal needs, and K uniforms for the test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import Complex, Float, Int
from itofit.waves.parameters import Pairing


class Kernel(NamedTuple):
    """What an iteration is made of."""

    sizes: Callable[[Float], Float]  # |β̂| of frequencies (K, m), solved on the data: shape (K,)
    propose: Callable[[np.random.Generator, Float], Float]  # ω* from ω, both (K, m)
    resample: bool  # draw frequencies again in proportion to |β̂| first
    pairing: Pairing  # which |β̂| proposals are compared with after that
    gamma: float


class Moved(NamedTuple):
    """Frequencies after an iteration."""

    omega: Float  # (K, m)
    accepted: npt.NDArray[np.bool_]  # (K,): which of them were proposed in it


def metropolis_step(
    rng: np.random.Generator, omega: Float, size: Float, kernel: Kernel, groups: list[Int] | None = None
) -> Moved:
    """One iteration from frequencies omega with sizes |β̂|.

    Frequencies are drawn again within each of some groups of places, which ascend and are all places together; left
    out, all are one group.
    """
    if kernel.resample:
        everyone = [np.arange(len(omega))]
        j = np.concatenate([places[draw(rng, size[places])] for places in groups or everyone])
        omega = omega[j]
        if kernel.pairing == "reindex":
            size = size[j]
        elif kernel.pairing == "solve":
            size = kernel.sizes(omega)
    proposal = kernel.propose(rng, omega)
    # The Metropolis test is written as a product, so that an amplitude of zero always gives way
    proposed = kernel.sizes(proposal)
    accepted = proposed > rng.random(len(omega)) * size**kernel.gamma
    return Moved(np.where(accepted[:, None], proposal, omega), accepted)


def draw(rng: np.random.Generator, weights: Float) -> Int:
    """As many independent indices as there are weights, with probabilities in proportion to them."""
    cumulative = np.cumsum(weights)
    if not cumulative[-1] > 0:  # targets that are all zero
        cumulative = np.arange(1.0, len(weights) + 1)
    j = np.searchsorted(cumulative, rng.random(len(weights)) * cumulative[-1], side="right")
    return np.minimum(j, len(weights) - 1)


def magnitude(beta: Complex) -> Float:
    """|β̂_k|: the Euclidean norm over the outputs, shape (K,)."""
    return np.asarray(np.linalg.norm(beta, axis=1))
