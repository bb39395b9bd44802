"""What a polynomial may lack: error bars of terms and waves that it does without.

A drift of few terms is rarely all there is, and seldom lacks everything at once. So each group that was switched off, a
monomial or the waves of some inputs, counts in error bars as far as it is probably there. Beside the groups in use it
is a ridge regression of its own on what they leave over: with S and r of its q amplitudes, and T for what the others
take over of it,

    S = A_oo − A_ou T,      r = b_o − A_ou c_u,      T = (A_uu + P_u)⁻¹ A_uo.

If the group is there, its amplitudes are v times, in squares, what noise makes of them, P = s/(v μ) with the mean s of
the diagonal of S. Nobody knows v, and as many groups are of each size, from v = 4 in steps of 4 to the largest term in
use. The data are then

    B_v = √(det P / det (S + P)) exp (rᵀ(S + P)⁻¹r / 2σ²)

times as probable as without the group, and B times on average over v. The odds that it is there are B π / (1 − π). The
share π of monomials that are not zero is learned from those of all outputs (`share_of_terms` of
`itofit.learning.automatic.sparsity`): where some stand far out of the noise and nothing is in between, hardly any other
is there; where some are hardly above the noise, there are probably others below it.

By the law of total variance the amplitudes of a group that is there with probability p have mean squares

    E = p Σ_v w_v (σ² (S + P)⁻¹ + m mᵀ),      m = (S + P)⁻¹ r,      w_v ∝ B_v,

around zero, and those in use, which would take over −T of it, T E Tᵀ in addition to their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from itofit._checks import Float, Int
from itofit.learning.automatic.evidence import Solved
from itofit.learning.automatic.penalised import inverse_root
from itofit.learning.automatic.sparsity import LEAST_SPREAD, log_sum, share_of_terms
from itofit.model.training import SWITCHED_OFF

STEP_OF_SIZES = 4.0
"""From each v to the next."""
LEAST_LEFT = 1e-6
"""Of the information on an amplitude, that others leave at least: less is rounding."""
MOST_LOG_RATIO = 500.0
"""Of B, beyond which a group is there."""


def is_polynomial(solved: Solved) -> bool:
    """Whether waves were switched off from the beginning."""
    return any(prior.alone for prior in solved.stays.values())


def missing_squares(parts: Sequence[Solved]) -> list[Float]:
    """What missing groups add to M of all q amplitudes of each problem: shapes (q, q).

    Parameters
    ----------
    parts : sequence of Solved
        Problems of outputs of one polynomial, which tell together how many groups are missing.
    """
    beside = [_Beside(part) for part in parts]
    sizes = sizes_up_to(max(own.largest for own in beside))
    tried = [[_tried(*group, sizes) for group in own.groups()] for own in beside]
    log_ratios = np.array([group.log_ratio for own in tried for group in own if len(group.places) == 1])
    share = share_of_terms(sum(own.n_in_use for own in beside), log_ratios)
    return [own.squares(groups, share) for own, groups in zip(beside, tried, strict=True)]


def sizes_up_to(largest: float) -> Float:
    """All v, where the largest monomial in use has this square in units of what noise makes of it."""
    n = 1 + np.ceil(np.log(max(largest / LEAST_SPREAD, 1.0)) / np.log(STEP_OF_SIZES))
    return np.asarray(LEAST_SPREAD * STEP_OF_SIZES ** np.arange(n))


class _Tried(NamedTuple):
    """A group that was switched off."""

    places: Int  # (k,)
    log_ratio: float  # log B
    squares: Float  # (k, k): E if it is there for sure


def _tried(places: Int, S: Float, r: Float, penalty: Float, variance: float, sizes: Float) -> _Tried:
    """A group with information S (k, k), right side r (k,) and relative ridges 1/μ (k,), averaged over sizes."""
    root = 1 / np.sqrt(penalty)
    values, vectors = np.linalg.eigh(S * np.outer(root, root))
    known = np.maximum(values, 0.0)
    ridge = np.diagonal(S).mean() / sizes[:, None]  # (v, 1)
    right = vectors.T @ (root * r)
    m = right / (known + ridge)  # (v, k)
    log_ratios = 0.5 * (right * m / variance - np.log1p(known / ridge)).sum(axis=1)
    total = float(log_sum(log_ratios))
    weight = np.exp(log_ratios - total)
    inner = (m.T * weight) @ m + variance * np.diag(weight @ (1 / (known + ridge)))
    turned = root[:, None] * vectors
    return _Tried(places, min(total - float(np.log(len(sizes))), MOST_LOG_RATIO), turned @ inner @ turned.T)


class _Beside:
    """The groups in use of a problem, beside which others are tried."""

    def __init__(self, solved: Solved) -> None:
        self.solved = solved
        A, b, P, c, group, variance, stays = solved
        on = P < SWITCHED_OFF
        self.used, self.off = np.flatnonzero(on), np.flatnonzero(~on)
        W, _ = inverse_root(A[np.ix_(self.used, self.used)], P[self.used])
        mixed = A[np.ix_(self.used, self.off)]
        self.T = W.T @ (W @ mixed)
        self.S = A[np.ix_(self.off, self.off)] - mixed.T @ self.T
        self.r = b[self.off] - mixed.T @ (W.T @ (W @ b[self.used]))
        left = self.S.ravel(order="K")[:: len(self.S) + 1]  # a view of the diagonal
        left[:] = np.maximum(left, LEAST_LEFT * np.diagonal(A)[self.off])
        chosen = (group[self.used] >= 0) & ~np.isin(group[self.used], list(stays))  # monomials
        inverse = np.einsum("ij,ij->j", W, W)
        squares = c[self.used] ** 2 / (variance * inverse * np.maximum(1 - P[self.used] * inverse, 1e-9))
        self.largest = float(squares[chosen].max(initial=0.0))
        self.n_in_use = len(np.unique(group[self.used][chosen]))

    def groups(self) -> list[tuple[Int, Float, Float, Float, float]]:
        """What `_tried` needs of each group that was switched off."""
        group, P = self.solved.group[self.off], self.solved.P[self.off]
        places = [np.flatnonzero(group == g) for g in np.unique(group)]
        return [(k, self.S[np.ix_(k, k)], self.r[k], P[k] / P[k].min(), self.solved.variance) for k in places]

    def squares(self, groups: Sequence[_Tried], share: float) -> Float:
        """What these groups add to M (q, q), if a share of all groups is there."""
        E = np.zeros((len(self.off), len(self.off)))
        for places, log_ratio, squares in groups:
            E[np.ix_(places, places)] = float(expit(logit(share) + log_ratio)) * squares
        taken = -self.T @ E
        M = np.zeros((len(self.solved.P),) * 2)
        M[np.ix_(self.off, self.off)] = E
        M[np.ix_(self.used, self.off)], M[np.ix_(self.off, self.used)] = taken, taken.T
        M[np.ix_(self.used, self.used)] = -taken @ self.T.T
        return M
