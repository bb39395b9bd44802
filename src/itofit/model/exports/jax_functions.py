"""Equations as pure functions for JAX: jitted, differentiated, vectorised, on any device.

Where a covariance is within its limits it is L g(H) Lᵀ with a matrix function g (the matrix exponential, the square, or
H itself), which is differentiable everywhere. Eigenvalues, whose derivatives are not defined where two are equal, are
made only where they have to be kept within limits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from itofit._checks import Float, InputError
from itofit.matrices.links import EPSILON, LARGEST_EXPONENT
from itofit.matrices.symmetric import LEAST_RATIO, Structure, entries

if TYPE_CHECKING:
    from itofit.model.formula.formula_sde import Formula
    from itofit.model.learned import LearnedSDE
    from itofit.waves.series import FourierSeries

Function = Callable[[Any], Any]


class JaxFunctions(NamedTuple):
    """Pure functions of points: one of shape (m,), or many of shape (..., m)."""

    drift: Function  # (..., m) -> (..., d)
    covariance: Function  # (..., m) -> (..., d, d)
    diffusion: Function  # (..., m) -> (..., d, d): the lower triangular σ


def jax_of_learned(sde: LearnedSDE) -> JaxFunctions:
    """A learned equation for JAX."""
    jax, jnp = _jax()
    series = _series(jnp, sde.covariance_function.series)
    drift = _series(jnp, sde.drift_function.series)
    limited = _limited(jax, jnp, sde.structure, sde.n_outputs, sde.floor_factor, sde.limits)

    def covariance(x: Any) -> Any:  # noqa: ANN401
        return limited(series(x), sde.link)

    if sde.drift_in_noise_units:
        raise InputError(
            "this drift is a product of two learned functions (fit(..., refine=False, weight_drift=True)), which "
            "to_jax does not know: learn it without the additional step"
        )
    return _functions(jnp, drift, covariance, sde.n_inputs)


def jax_of_formula(formula: Formula) -> JaxFunctions:
    """A formula for JAX; functions of the user must be such that JAX can trace them."""
    jax, jnp = _jax()
    d, own = formula.n_outputs, formula.noise_lines[0].slot.what
    rows, columns = entries(formula.structure, d)
    limited = _limited(jax, jnp, formula.structure, d, formula.floor_factor, formula.limits)

    def value(line: Any, x: Any) -> Any:  # noqa: ANN401
        zero = jnp.zeros(x.shape[:-1], dtype=x.dtype)
        return sum((c * term(x, jnp) for term, c in zip(line.terms, line.coefficients.tolist(), strict=True)), zero)

    def drift(x: Any) -> Any:  # noqa: ANN401
        return jnp.stack([value(line, x) for line in formula.drift_lines], axis=-1)

    def covariance(x: Any) -> Any:  # noqa: ANN401
        values = jnp.stack([value(line, x) for line in formula.noise_lines], axis=-1)
        if own == "diffusion":
            lower = jnp.zeros((*values.shape[:-1], d, d), dtype=values.dtype).at[..., rows, columns].set(values)
            values = (lower @ jnp.swapaxes(lower, -1, -2))[..., rows, columns]
        return limited(values, "identity")

    return _functions(jnp, drift, covariance, formula.n_inputs)


def _jax() -> tuple[Any, Any]:
    try:
        import jax  # noqa: PLC0415
        import jax.numpy as jnp  # noqa: PLC0415
    except ImportError as error:
        raise ImportError('to_jax needs JAX: pip install "itofit[jax]"') from error
    return jax, jnp


def _functions(jnp: Any, drift: Function, covariance: Function, m: int) -> JaxFunctions:  # noqa: ANN401
    def checked(function: Function) -> Function:
        def at(x: Any) -> Any:  # noqa: ANN401
            x = jnp.asarray(x)
            if x.ndim == 0 or x.shape[-1] != m:
                raise InputError(f"x must have shape (..., {m}), got {x.shape}")
            return function(x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(float))

        return at

    return JaxFunctions(checked(drift), checked(covariance), checked(lambda x: jnp.linalg.cholesky(covariance(x))))


def _series(jnp: Any, series: FourierSeries) -> Function:  # noqa: ANN401
    """A Fourier series at points (..., m): (..., p)."""
    beta = np.concatenate([series.beta.real, -series.beta.imag])

    def at(x: Any) -> Any:  # noqa: ANN401
        phase = ((x - series.shift) / series.scale) @ jnp.asarray(series.omega.T, dtype=x.dtype)
        waves = jnp.concatenate([jnp.cos(phase), jnp.sin(phase)], axis=-1)
        return jnp.asarray(series.offset, dtype=x.dtype) + waves @ jnp.asarray(beta, dtype=x.dtype)

    return at


def _limited(jax: Any, jnp: Any, structure: Structure, d: int, L: Float, limits: Float) -> Any:  # noqa: ANN401
    """What makes Σ (..., d, d) of the kept entries (..., p) and the name of a link."""
    rows, columns = entries(structure, d)
    low, high = limits

    def decoupled(H: Any, link: str) -> Any:  # noqa: ANN401
        own = jnp.asarray(np.diagonal(L) ** 2, dtype=H.dtype)
        C = H / own if link == "identity" else _value(jnp, link, H)
        kept = own * jnp.clip(C, jnp.asarray(low, dtype=H.dtype), jnp.asarray(high, dtype=H.dtype))
        return kept[..., None] * jnp.eye(d, dtype=H.dtype)

    def full(values: Any, link: str) -> Any:  # noqa: ANN401
        unit, back = (jnp.asarray(a, dtype=values.dtype) for a in (L, np.linalg.inv(L)))
        H = jnp.zeros((*values.shape[:-1], d, d), dtype=values.dtype)
        H = H.at[..., rows, columns].set(values).at[..., columns, rows].set(values)
        H = back @ H @ back.T if link == "identity" else H
        H = 0.5 * (H + jnp.swapaxes(H, -1, -2))
        eta, Q = jnp.linalg.eigh(jax.lax.stop_gradient(H))
        C = _value(jnp, link, eta)
        kept = jnp.clip(C, low[0], high[0])
        most = kept.max(axis=-1)
        axis = jnp.take_along_axis(Q, kept.argmax(axis=-1)[..., None, None], axis=-1)  # which changes in second order
        largest = _value(jnp, link, (jnp.swapaxes(axis, -1, -2) @ H @ axis))
        raised = jnp.maximum(1.0, low[-1] / jnp.clip(largest, low[0], high[0]))
        within = (C.min(axis=-1) >= jnp.maximum(low[0], LEAST_RATIO * most)) & (C.max(axis=-1) <= high[0])
        free = _matrix_value(jax, jnp, link, jnp.where(within[..., None, None], H, jnp.eye(d, dtype=H.dtype)))
        apart = jnp.diag(jnp.arange(1.0, d + 1.0, dtype=H.dtype))  # eigenvalues that differ, where none are needed
        eta, Q = jnp.linalg.eigh(jnp.where(within[..., None, None], apart, H))
        kept = jnp.clip(_value(jnp, link, eta), low[0], high[0])
        kept = jnp.maximum(kept, LEAST_RATIO * kept.max(axis=-1, keepdims=True))
        cut = (Q * kept[..., None, :]) @ jnp.swapaxes(Q, -1, -2)
        sigma = unit @ (raised * jnp.where(within[..., None, None], free, cut)) @ unit.T
        return 0.5 * (sigma + jnp.swapaxes(sigma, -1, -2))

    return decoupled if structure == "diagonal" or d == 1 else full


def _value(jnp: Any, link: str, eta: Any) -> Any:  # noqa: ANN401
    """g(η)."""
    if link == "log":
        return jnp.exp(jnp.clip(eta, -LARGEST_EXPONENT, LARGEST_EXPONENT))
    return eta**2 + EPSILON if link == "square" else eta


def _matrix_value(jax: Any, jnp: Any, link: str, H: Any) -> Any:  # noqa: ANN401
    """G of symmetric matrices."""
    if link == "square":
        return H @ H + EPSILON * jnp.eye(H.shape[-1], dtype=H.dtype)
    if link == "log":
        flat = H.reshape(-1, *H.shape[-2:])
        return jax.vmap(lambda each: jax.scipy.linalg.expm(each, max_squarings=60))(flat).reshape(H.shape)
    return H
