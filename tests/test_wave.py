"""Experiment 7. A bound of 4.5 standard errors gives a false alarm in about 100,000 seeds."""

from itertools import islice, pairwise

import numpy as np
import pytest

from itofit import InputError
from itofit.experiments import wave


@pytest.fixture(scope="module")
def data():
    return wave.sample_wave(rng=0)


@pytest.fixture(scope="module")
def white(data):
    """Residuals of the true equation in units of the true noise, by step and position: independent and standard."""
    residual = data.increments - data.h[:, None] * wave.drift(data.inputs)
    scale = np.sqrt(data.h[:, None] * wave.covariance(data.inputs)[:, 0])
    return (residual / scale).reshape(1998, 498)


# The equation


def test_the_equation_has_the_published_expected_loss():
    x = (np.arange(10_000) + 0.5) / 10_000
    log_det = np.log(0.5e-6 * wave.covariance(x)).mean()
    assert (log_det + 1 + np.log(2 * np.pi)) / 2 == pytest.approx(-9.4135, abs=6e-5)


def test_the_initial_velocity_is_minus_twice_the_slope():
    x, d = np.linspace(0, 1, 41), 1e-5
    slope = (wave._initial_value(x + d) - wave._initial_value(x - d)) / (2 * d)
    np.testing.assert_allclose(wave._initial_velocity(x), -2 * slope, atol=1e-7)


# The scheme


def without_noise(x, t):
    """d'Alembert's solution: the start, its velocity −2u₀', and the force 5 sin(4πx)."""

    def u0(y):
        return np.exp(-150 * (y - 0.5) ** 2) / 20

    forced = 5 / (4 * np.pi) ** 2 * np.sin(4 * np.pi * x) * (1 - np.cos(4 * np.pi * t))
    return 1.5 * u0(x - t) - 0.5 * u0(x + t) + forced


def test_without_noise_the_scheme_solves_the_equation_to_second_order():
    worst = []
    for n in (100, 200, 400):
        levels = wave.wave_levels(n, rng=0, noise=0)
        worst.append(max(np.abs(u - without_noise(x, j / n)).max() for j, (x, u) in enumerate(levels)))
    assert worst[-1] < 1e-3
    np.testing.assert_allclose(np.divide(worst[:-1], worst[1:]), 4, rtol=0.05)


@pytest.mark.parametrize(("j", "x"), [(1, 0.5), (6, 0.6)])
def test_noise_adds_up_over_the_past_of_a_point(j, x):
    """In each cell of the backward cone, ½σ times a noise of the cell's area: 2h², or h² at the start."""
    n, repeats = 10, 2_000
    h, rng = 1 / n, np.random.default_rng(1)

    def value(**options):
        level = next(islice(wave.wave_levels(n, rng, **options), j, None))
        return level.u[np.isclose(level.x, x)].item()

    values = np.array([value() for _ in range(repeats)])
    areas = np.append(np.full(j - 1, 2 * h**2), h**2)
    cone = [wave.sigma(x + h * np.arange(-back, back + 1, 2)) for back in range(j)]
    variance = sum(area * (0.25 * sigma**2).sum() for area, sigma in zip(areas, cone, strict=True))
    assert abs(values.mean() - value(noise=0)) < 4.5 * np.sqrt(variance / repeats)
    assert abs(values.var() / variance - 1) < 4.5 * np.sqrt(2 / repeats)


def test_levels_are_staggered_and_end_on_the_unit_interval():
    levels = list(wave.wave_levels(20, rng=0))
    assert len(levels) == 41
    for before, after in pairwise(levels):
        np.testing.assert_allclose(after.x, (before.x[1:] + before.x[:-1]) / 2, atol=1e-15)
        assert after.u.shape == after.x.shape
    np.testing.assert_allclose(levels[-1].x, np.linspace(0, 1, 11))


# The data


def test_transitions_are_those_of_the_definition():
    n = 12
    u = {}
    for j, level in enumerate(wave.wave_levels(n, rng=2)):
        u |= {(round(x * n), j): value for x, value in zip(level.x, level.u, strict=True)}
    rows = [
        (i / n, (u[i, j + 1] + u[i, j - 1]) / 2 - (u[i + 1, j] + u[i - 1, j]) / 2)
        for j in range(2, 2 * n)
        for i in range(2, n - 2)
        if (i + j + 1) % 2 == 0
    ]
    data = wave.sample_wave(n, rng=2)
    np.testing.assert_array_equal(np.column_stack([data.inputs, data.increments]), rows)


def test_the_data_have_the_size_and_the_positions_of_the_paper(data):
    assert len(data) == 995_004
    assert data.kind == "general"
    assert set(data.h) == {5e-7}
    i = 1000 * data.inputs.reshape(1998, 498)
    np.testing.assert_allclose(i[::2], np.broadcast_to(np.arange(3, 998, 2), (999, 498)), rtol=1e-12)
    np.testing.assert_allclose(i[1::2], np.broadcast_to(np.arange(2, 997, 2), (999, 498)), rtol=1e-12)


def test_steps_have_the_true_mean_and_variance_everywhere(white):
    n = white.size
    assert abs(white.mean()) < 4.5 / np.sqrt(n)
    assert abs(white.var() - 1) < 4.5 * np.sqrt(2 / n)
    assert abs((white**4).mean() - 3) < 4.5 * np.sqrt(96 / n)
    # twelve strips of 83 or so positions, 5.0 standard errors: a false alarm in about 70,000 seeds
    for strip in np.array_split(white, 12, axis=1):
        assert abs(strip.mean()) < 5 / np.sqrt(strip.size)
        assert abs((strip**2).mean() - 1) < 5 * np.sqrt(2 / strip.size)


@pytest.mark.parametrize(("steps", "places"), [(1, 0), (2, 0), (0, 1), (1, 1)])
def test_steps_are_independent(white, steps, places):
    product = white[steps:, places:] * white[: len(white) - steps, : white.shape[1] - places]
    assert abs(product.mean()) < 4.5 / np.sqrt(product.size)


def test_the_loss_of_the_truth_is_the_expected_loss(data):
    loss = wave.true_nll(data).mean()
    assert abs(loss + 9.4135) < 4.5 * np.sqrt(0.5 / len(data)) + 6e-4  # the positions leave out a little of [0, 1]


def test_the_same_seed_gives_the_same_data():
    first, again = (wave.sample_wave(20, rng=3) for _ in range(2))
    np.testing.assert_array_equal(first.increments, again.increments)


def test_bad_input_is_refused_at_once():
    with pytest.raises(InputError, match="n_cells must be even"):
        wave.sample_wave(11)
    with pytest.raises(InputError, match="n_cells must be a whole number >= 6"):
        wave.wave_levels(2)
    with pytest.raises(InputError, match="noise must be a number >= 0"):
        wave.wave_levels(10, noise=-1)
