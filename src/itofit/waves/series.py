"""Fourier series with free frequencies: the functions that training finds.

======  ============  ==========  =====================================================
symbol  name          shape       meaning
======  ============  ==========  =====================================================
x       x             (n, m)      points, in the user's units
u       u             (n, m)      the same points scaled, u = (x - shift) / scale
ω       omega         (K, m)      frequencies, in scaled units
β̂       beta          (K, p)      complex amplitudes, in the units of the outputs
S       S = C + iD    (n, K)      features exp(i ω_k·u_n), stored as real rows [C D]ᵀ
======  ============  ==========  =====================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from itofit._blocks import BLOCK_ROWS, map_chunks, one_blas_thread
from itofit._checks import Complex, Float, Int, columns
from itofit.data.names import plural
from itofit.data.rows import column_range, scaled
from itofit.waves.chebyshev import evaluate, evaluation_seconds, expansion, n_terms
from itofit.waves.trigonometry import cos_sin

ACCURACY = 1e-15
"""Of evaluation by polynomials, relative to Σ|β̂_k|: that of direct sums."""
HIGHEST_FREQUENCY = 40.0
"""Relative to half the range of the points: beyond, rounding in polynomials of high degree would be felt."""
FEWEST_POINTS = 4096
"""For fewer points the polynomials are not worth their set-up."""
FARTHEST = 1e150
"""Scaled inputs beyond are taken to be there: phases of waves must be finite, and mean nothing there."""
FEATURE = 4e-9
"""Seconds of one core to make and add one feature at one point."""


def feature_blocks(omega: Float, u: Float, rows: slice) -> Iterator[tuple[slice, Float]]:
    """Blocks of some rows of u with their `cos_sin`; each is gone when the next one comes."""
    buffer = np.empty(2 * len(omega) * min(BLOCK_ROWS, rows.stop - rows.start))
    for start in range(rows.start, rows.stop, BLOCK_ROWS):
        block = slice(start, min(start + BLOCK_ROWS, rows.stop))
        size = block.stop - block.start
        out = buffer[: 2 * len(omega) * size].reshape(-1, size)
        yield block, cos_sin(omega, u[block], out)


def real_amplitudes(beta: Complex) -> Float:
    """The real matrix B of shape (2K, p) with Re(S β̂) = [C D] B."""
    return np.concatenate([beta.real, -beta.imag])


Part = tuple[Int, Int]
"""Outputs, and the rows of [C D]ᵀ that these alone are made of."""


def real_sum(omega: Float, beta: Complex, u: Float, parts: Sequence[Part] | None = None) -> Float:
    """Re Σ_k β̂_k exp(i ω_k·u_n), without ever holding S for all points.

    Feature by feature; or at many points of up to three inputs, where that costs less, by a sum of Chebyshev
    polynomials that is equal to the series in the box of the points.

    Parameters
    ----------
    omega : array of shape (K, m)
    beta : complex array of shape (K, p)
    u : array of shape (n, m)
    parts : sequence, optional
        All outputs in parts that are made of few of the waves each, where other amplitudes are zero.

    Returns
    -------
    array of shape (n, p)
        Column by column in memory, as it is made: sums over rows are faster where columns are few.
    """
    if parts is None:
        used = beta.any(axis=1)  # waves of groups that were switched off have amplitudes of zero
        if not used.all():
            omega, beta = omega[used], beta[used]
    if len(u) >= FEWEST_POINTS and u.shape[1] <= 3 and len(omega):
        low, high = column_range(u)
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        theta = np.abs(omega).max(axis=0) * half
        if theta.max() < HIGHEST_FREQUENCY:
            Q = [n_terms(side, ACCURACY) for side in theta]
            if evaluation_seconds(len(u), Q, beta.shape[1], len(omega)) < FEATURE * len(omega) * len(u):
                return _polynomial_sum(omega, beta, u, middle, np.where(half > 0, half, 1.0), Q)
    return direct_sum(omega, beta, u, parts)


def direct_sum(omega: Float, beta: Complex, u: Float, parts: Sequence[Part] | None = None) -> Float:
    """`real_sum` feature by feature."""
    B = real_amplitudes(beta).T
    out = np.empty((B.shape[0], len(u)))
    own = [(outputs, rows, B[np.ix_(outputs, rows)]) for outputs, rows in parts or ()]

    def at(chunk: slice) -> None:
        for block, CD in feature_blocks(omega, u, chunk):
            if parts is None:
                np.matmul(B, CD, out=out[:, block])
            for outputs, rows, amplitudes in own:
                out[outputs, block] = amplitudes @ CD[rows]

    map_chunks(at, len(u))
    return out.T


def _polynomial_sum(omega: Float, beta: Complex, u: Float, middle: Float, half: Float, Q: list[int]) -> Float:
    """`real_sum` at the points u = middle + half · t, by Q polynomials of t in each direction."""
    with one_blas_thread:  # so that values do not depend on the number of threads
        left = beta * np.exp(1j * (omega @ middle))[:, None]
        for d, q in enumerate(Q[:-1]):
            left = (left[:, :, None] * expansion(omega[:, d] * half[d], q)[:, None]).reshape(len(omega), -1)
        last = expansion(omega[:, -1] * half[-1], Q[-1])
        coefficients = (left.T @ last).real.reshape(beta.shape[1], *Q)
    out = np.empty((beta.shape[1], len(u)))

    def at(chunk: slice) -> None:
        out[:, chunk] = evaluate(coefficients, (u[chunk].T - middle[:, None]) / half[:, None])

    map_chunks(at, len(u))
    return out.T


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FourierSeries:
    """x ↦ offset + Re Σ_k β̂_k exp(i ω_k·(x − shift)/scale), with its derivatives.

    The scaling of the inputs is kept apart from the frequencies, so that data far from zero lose no digits.

    Parameters
    ----------
    omega : array of shape (K, m)
        Frequencies, for scaled inputs.
    beta : complex array of shape (K, p)
        Amplitudes.
    shift, scale : arrays of shape (m,)
        Of the inputs.
    offset : array of shape (p,)
        Added to the outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from itofit import FourierSeries
    >>> sine = FourierSeries(omega=np.array([[2.0]]), beta=np.array([[-1j]]),
    ...                      shift=np.zeros(1), scale=np.ones(1), offset=np.zeros(1))
    >>> x = np.array([[0.0], [0.25]])
    >>> np.allclose(sine(x), np.sin(2 * x))
    True
    >>> sine.jacobian(x).shape
    (2, 1, 1)
    """

    omega: Float
    beta: Complex
    shift: Float
    scale: Float
    offset: Float

    @property
    def n_features(self) -> int:
        """K, the number of frequencies."""
        return self.omega.shape[0]

    @property
    def n_inputs(self) -> int:
        """m, the number of variables of the function."""
        return self.omega.shape[1]

    @property
    def n_outputs(self) -> int:
        """p, the number of values of the function."""
        return self.beta.shape[1]

    def __call__(self, x: npt.ArrayLike) -> Float:
        """Values at the points x of shape (n, m): an array of shape (n, p)."""
        return np.add(self.offset, real_sum(self.omega, self.beta, self._scaled(x)), order="C")

    def jacobian(self, x: npt.ArrayLike) -> Float:
        """First derivatives: [i, a, b] is ∂(output a)/∂x_b at point i, shape (n, p, m)."""
        omega = self.omega / self.scale
        beta = 1j * self.beta[:, :, None] * omega[:, None, :]
        return self._sum_with(x, beta)

    def hessian(self, x: npt.ArrayLike) -> Float:
        """Second derivatives: [i, a, b, c] is ∂²(output a)/∂x_b∂x_c at point i, shape (n, p, m, m)."""
        omega = self.omega / self.scale
        beta = -self.beta[:, :, None, None] * omega[:, None, :, None] * omega[:, None, None, :]
        return self._sum_with(x, beta)

    def _sum_with(self, x: npt.ArrayLike, beta: Complex) -> Float:
        """The series at x with amplitudes of any shape (K, ...): an array of shape (n, ...)."""
        u = self._scaled(x)
        flat = np.ascontiguousarray(real_sum(self.omega, beta.reshape(self.n_features, -1), u))
        return flat.reshape(len(u), *beta.shape[1:])

    def _scaled(self, x: npt.ArrayLike) -> Float:
        points = columns("x", x, n_columns=self.n_inputs)
        with np.errstate(over="ignore"):
            u = scaled(points, self.shift, self.scale)
        if u.size and max(-u.min(), u.max()) > FARTHEST:
            u = np.clip(u, -FARTHEST, FARTHEST)
        return u

    def __repr__(self) -> str:
        waves, inputs, outputs = (
            plural(n, word)
            for n, word in ((self.n_features, "wave"), (self.n_inputs, "input"), (self.n_outputs, "output"))
        )
        return f"FourierSeries({waves}, {inputs}, {outputs})"
