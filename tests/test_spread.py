"""Error bars: the posterior of the amplitudes, from the defining sums to the coverage of the truth."""

import numpy as np
import pytest

import itofit
from itofit.learning.automatic.evidence import Solved, updated_ridges
from itofit.learning.automatic.penalised import inverse_root, solve_penalised
from itofit.learning.automatic.principal import principal_features
from itofit.learning.spread import STEEPNESS, mean_squares, spread_series
from itofit.matrices.links import LINKS, Shape, covariance_at, derivatives_of_covariance
from itofit.matrices.symmetric import entries
from itofit.model.training import SWITCHED_OFF, variances
from itofit.waves.scaling import Scaling

UNLIMITED = np.array([[-np.inf], [np.inf]])


def ornstein_uhlenbeck(n, seed, h=0.1, sigma=0.5):
    """Exact transitions of dx = −x dt + σ dW from uniform starts, and the rate and variance of one step."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, n)
    mean, variance = np.exp(-h), sigma**2 * (1 - np.exp(-2 * h)) / 2
    data = itofit.Transitions.from_pairs(x, mean * x + np.sqrt(variance) * rng.standard_normal(n), h)
    return data, lambda x: (mean - 1) / h * x, variance / h


def two_dimensional(n, seed):
    """One Euler-Maruyama step with correlated noise that grows with the first input."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2))
    factor = np.array([[0.5, 0.0], [0.4, 0.3]])[None] * (1 + 0.3 * x[:, :1, None])
    step = 0.01 * -x + 0.1 * (factor @ rng.standard_normal((n, 2, 1)))[:, :, 0]
    return itofit.Transitions.from_pairs(x, x + step, 0.01), factor @ factor.swapaxes(1, 2)


def test_inverse_root_is_one():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 6))
    A, P = X.T @ X, rng.uniform(0, 3, 6)
    W, log_det = inverse_root(A, P)
    np.testing.assert_allclose(W.T @ W, np.linalg.inv(A + np.diag(P)), rtol=1e-9, atol=1e-12)
    assert log_det == pytest.approx(np.linalg.slogdet(A + np.diag(P))[1])


def test_spread_is_the_root_of_the_quadratic_form():
    rng = np.random.default_rng(1)
    u = rng.uniform(0, 1, (200, 1))
    omega = rng.normal(size=(5, 1)) * 4
    waves = np.append(u @ omega.T, np.zeros((200, 1)), axis=1)
    features = np.concatenate([np.cos(waves), np.sin(waves)], axis=1)
    basis, _, _ = principal_features(omega, np.zeros(5, dtype=int), features.T @ features, features.T @ u)
    R = len(basis.penalty)
    root = rng.standard_normal((2, R + 1, R + 1))
    squares = root.swapaxes(1, 2) @ root
    series = spread_series(basis, squares, Scaling(np.zeros(1), np.ones(1), np.zeros(2), np.ones(1, dtype=bool)))
    ones = np.column_stack([np.ones(len(u)), basis.at(u)])
    for output in range(2):
        expected = np.sqrt(np.einsum("ni,ij,nj->n", ones, squares[output], ones))
        np.testing.assert_allclose(np.sqrt(variances(series(u), 2))[:, output], expected, rtol=1e-3)


# What the data leave open of ridges

PENALTY = np.array([1.0, 60.0, 8e3, 1e6])  # about those of waves much longer than the data
ROWS = 6000.0


def regression(z):
    """An intercept and features whose amplitudes would be z standard deviations without a ridge, with the best one."""
    A, b, group = np.diag(np.full(5, ROWS)), np.append(0.0, np.sqrt(ROWS) * np.array(z)), np.array([-1, 0, 0, 0, 0])
    ridge = np.ones(1)
    for _ in range(50):
        P = np.append(0.0, ridge * PENALTY)
        c, inverse, _ = solve_penalised(A, b, P)
        ridge = updated_ridges(ridge, np.array([(1 - inverse * P)[1:].sum()]), 1.0, np.array([PENALTY @ c[1:] ** 2]))
    return Solved(A, b, P, c, group)


def integrated(solved):
    """Mean square deviations from the fit with the ridge integrated out on a fine grid of its logarithm."""
    b, c, total, weights = solved.b[1:], solved.c[1:], 0.0, 0.0
    for steepness in STEEPNESS:
        for ridge in np.exp(np.linspace(-7, 16, 400)):
            P = ridge * PENALTY**steepness
            log_evidence = 0.5 * ((b**2 / (ROWS + P)).sum() + np.log(P / (ROWS + P)).sum() - (b**2 / ROWS).sum())
            total = total + np.exp(log_evidence) * (1 / (ROWS + P) + (b / (ROWS + P) - c) ** 2)
            weights += np.exp(log_evidence)
    return total / weights


@pytest.mark.parametrize("z", [(15, 4, 1, 0.5), (15, 6, -2, 1), (8, 1, 0.5, 1), (30, 10, 5, 2), (15, 0.5, 0.2, -0.3)])
def test_mean_squares_are_those_with_ridges_integrated_out(z):
    """To first order in log λ: standard deviations within a fifth, where those of one ridge are up to 20 times less."""
    solved = regression(z)
    found = np.sqrt(np.diagonal(mean_squares([solved])[0])[1:])
    exact, of_one_ridge = np.sqrt(integrated(solved)), np.sqrt(1 / (ROWS + solved.P[1:]))
    np.testing.assert_allclose(found, exact, rtol=0.22)
    assert found[2] > 1.2 * of_one_ridge[2]
    assert found[3] > 7 * of_one_ridge[3]


def test_mean_squares_without_ridges_are_the_inverse():
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    A, b = X.T @ X, X.T @ y
    solved = Solved(A, b, np.zeros(3), np.linalg.solve(A, b), np.full(3, -1), 2.5)
    np.testing.assert_allclose(mean_squares([solved])[0], 2.5 * np.linalg.inv(A), rtol=1e-9)


def test_mean_squares_of_what_is_off_are_half_of_those_without_a_ridge():
    solved = regression((15, 4, 1, 0.5))
    more = zip(solved[1:5], (9.0, SWITCHED_OFF, 0.0, 1), strict=True)
    off = Solved(np.diag(np.full(6, ROWS)), *(np.append(a, value) for a, value in more))
    found, alone = mean_squares([off])[0], mean_squares([solved])[0]
    np.testing.assert_allclose(found[:5, :5], alone, rtol=1e-9)
    assert found[5, 5] == pytest.approx(0.5 / ROWS)


def test_mean_squares_of_coupled_outputs_have_their_units():
    one = regression((15, 4, 1, 0.5))
    group = np.array([-1, 0, 0, 0, 0, -1, 1, 1, 1, 1])
    both = Solved(np.kron(np.eye(2), one.A), *(np.tile(a, 2) for a in one[1:4]), group)
    first, second = mean_squares([both], np.array([1.0, 3.0]))
    assert first.shape == (5, 5)
    np.testing.assert_allclose(second, 9 * first)


# Links


@pytest.mark.parametrize("structure", ["diagonal", "full"])
@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_derivatives_of_the_covariance_are_finite_differences(link, structure):
    rng = np.random.default_rng(2)
    shape = Shape(structure, 3)
    base = np.where(np.equal(*entries(structure, 3)), 1.0, 0.0)
    H = base + 0.2 * rng.standard_normal((4, shape.n_entries))
    limits = UNLIMITED * np.ones((2, 3))
    for e, change in enumerate(derivatives_of_covariance(H, link, shape)):
        step = 1e-6 * np.eye(shape.n_entries)[e]
        ends = [covariance_at(H + sign * step, link, shape, limits)[0] for sign in (1, -1)]
        np.testing.assert_allclose(change, (ends[0] - ends[1]) / 2e-6, atol=1e-7)


def test_bands_of_the_drift_cover_one_step():
    """Over 20 data sets the share of points within two standard deviations; its own spread is about 0.03."""
    grid = np.linspace(-1.9, 1.9, 39)[:, None]
    covered = []
    for seed in range(20):
        data, rate, _ = ornstein_uhlenbeck(1000, seed)
        f, std = itofit.fit(data, rng=seed).drift(grid, return_std=True)
        covered.append(np.mean(np.abs(f - rate(grid)) < 1.96 * std))
    assert 0.88 < np.mean(covered) <= 1.0


def test_intervals_of_the_variance_cover_one_step():
    covered = []
    for seed in range(40):
        data, _, variance = ornstein_uhlenbeck(500, seed)
        low, high = itofit.fit(data, rng=seed).variance_interval([[0.0]])
        covered.append(low[0, 0] < variance < high[0, 0])
    assert np.mean(covered) > 0.82  # false alarms: 1e-3 if it covers in 95 of 100


def test_error_bars_shrink_with_the_root_of_the_data():
    stds = []
    for n in (1_000, 16_000):
        data, _, _ = ornstein_uhlenbeck(n, 0)
        stds.append(itofit.fit(data, rng=0).drift(np.zeros((1, 1)), return_std=True)[1].item())
    assert 2.5 < stds[0] / stds[1] < 6.5  # 4 for the same features


def test_error_bars_follow_units():
    data, _, _ = ornstein_uhlenbeck(2000, 3)
    other = itofit.Transitions.from_pairs(100 * data.inputs, 100 * (data.inputs + data.increments), 60 * data.h)
    x = np.linspace(-1, 1, 7)[:, None]
    (f, f_std), (g, g_std) = (
        itofit.fit(d, rng=0).drift(s * x, return_std=True) for d, s in ((data, 1.0), (other, 100.0))
    )
    np.testing.assert_allclose(g, f * 100 / 60, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(g_std, f_std * 100 / 60, rtol=1e-3)


def test_error_bars_of_all_transitions_follow_units():
    """Also of groups that are off, whose ridge is a number."""
    data, _ = two_dimensional(3000, 0)
    x = data.inputs[:20]
    stds = []
    for scale in (0.01, 1.0, 100.0):
        other = itofit.Transitions.from_pairs(scale * data.inputs, scale * (data.inputs + data.increments), data.h)
        sde = itofit.fit(other, drift=itofit.ARFF(search_rows=1500), rng=0)
        assert sde.searched_on.startswith("1500")
        stds.append(sde.drift(scale * x, return_std=True)[1] / scale)
    np.testing.assert_allclose(stds[0], stds[1], rtol=1e-3)
    np.testing.assert_allclose(stds[2], stds[1], rtol=1e-3)


def test_full_covariance_has_error_bars_for_every_entry():
    data, truth = two_dimensional(8000, 0)
    sde = itofit.fit(data, rng=0)
    assert sde.structure == "full"
    sigma, std = sde.covariance(data.inputs, return_std=True)
    assert std.shape == sigma.shape
    np.testing.assert_allclose(std, std.swapaxes(1, 2))
    assert np.mean(np.abs(sigma - truth) < 1.96 * std) > 0.7
    low, high = sde.variance_interval(data.inputs)
    own = np.diagonal(sigma, axis1=1, axis2=2)
    assert ((low > 0) & (low < own) & (own < high)).all()


def test_wider_levels_are_wider():
    sde = itofit.fit(ornstein_uhlenbeck(1000, 0)[0], rng=0)
    widths = [np.ptp(sde.variance_interval([[0.3]], level), axis=0).item() for level in (0.5, 0.9, 0.99)]
    assert widths == sorted(widths)
    with pytest.raises(itofit.InputError, match="level"):
        sde.variance_interval([[0.3]], 1.5)


def test_values_are_the_same_with_and_without():
    data, _ = two_dimensional(3000, 1)
    sde = itofit.fit(data, rng=0)
    np.testing.assert_array_equal(sde.drift(data.inputs), sde.drift(data.inputs, return_std=True)[0])
    np.testing.assert_array_equal(sde.covariance(data.inputs), sde.covariance(data.inputs, return_std=True)[0])


def test_error_bars_survive_the_file(tmp_path):
    data, _ = two_dimensional(3000, 1)
    sde = itofit.fit(data, rng=0)
    sde.save(tmp_path / "sde.npz")
    again = itofit.load(tmp_path / "sde.npz")
    for name in ("drift", "covariance"):
        before, after = (getattr(found, name)(data.inputs, return_std=True)[1] for found in (sde, again))
        np.testing.assert_array_equal(before, after)


def test_models_without_them_say_so():
    data, _, _ = ornstein_uhlenbeck(500, 0)
    settings = itofit.ARFF(n_features=8, ridge=1e-3, delta=0.5, max_iterations=5, min_iterations=2)
    with pytest.warns(itofit.ConvergenceWarning):
        sde = itofit.fit(data, drift=settings, covariance=settings, refine=False, rng=0)
    for call in (sde.drift, sde.covariance):
        with pytest.raises(itofit.InputError, match="refine=True"):
            call([[0.0]], return_std=True)


def test_subsets_end_with_the_error_bars_of_all_transitions():
    """Frequencies are searched on a subset, amplitudes come from all: so do their uncertainties."""
    rng = np.random.default_rng(0)
    n = 40_000
    x = rng.uniform(-1, 1, (n, 2))
    data = itofit.Transitions.from_pairs(x, x - 0.01 * x + 0.1 * 0.3 * rng.standard_normal((n, 2)), 0.01)
    few, many = (itofit.fit(d, drift=itofit.ARFF(search_rows=10_000), rng=0) for d in (data[:10_000], data))
    ratio = few.drift(x[:50], return_std=True)[1].mean() / many.drift(x[:50], return_std=True)[1].mean()
    assert 1.2 < ratio < 3.5  # 2 for the same features


# Ensembles


def test_an_ensemble_adds_what_its_members_differ_by():
    data, _, _ = ornstein_uhlenbeck(800, 5)
    alone, together = (itofit.fit(data, ensemble=n, rng=1) for n in (None, 4))
    x = np.linspace(-2, 2, 9)[:, None]
    assert len(together.members) == 3
    np.testing.assert_array_equal(together.drift(x), alone.drift(x))
    own, more = alone.drift(x, return_std=True)[1], together.drift(x, return_std=True)[1]
    between = np.mean([(member.drift(x) - alone.drift(x)) ** 2 for member in together.members], axis=0)
    np.testing.assert_allclose(more**2, own**2 + between / 2)
    assert (together.covariance(x, return_std=True)[1] >= alone.covariance(x, return_std=True)[1]).all()


def test_members_of_an_ensemble_have_frequencies_of_their_own_and_are_repeatable():
    data, _ = two_dimensional(2000, 2)
    arff = itofit.ARFF(n_features=20)
    first, again = (itofit.fit(data, drift=arff, ensemble=3, rng=7) for _ in range(2))
    seeds = [sde.seed for sde in (first, *first.members)]
    assert len(set(seeds)) == 3
    for one, other in zip(first.members, again.members, strict=True):
        np.testing.assert_array_equal(one.drift(data.inputs), other.drift(data.inputs))
        assert not np.array_equal(one.drift_function.series.omega, first.drift_function.series.omega)


@pytest.mark.parametrize("bad", [1, 0, -3, 2.5, "8"])
def test_bad_sizes_of_ensembles(bad):
    data, _, _ = ornstein_uhlenbeck(100, 0)
    with pytest.raises(itofit.InputError, match="ensemble"):
        itofit.fit(data, ensemble=bad)


def test_algorithm_2_has_no_ensembles():
    data, _, _ = ornstein_uhlenbeck(100, 0)
    with pytest.raises(itofit.InputError, match="refine=True"):
        itofit.fit(data, ensemble=4, refine=False)


def test_an_ensemble_survives_the_file(tmp_path):
    data, _ = two_dimensional(2000, 2)
    sde = itofit.fit(data, ensemble=3, rng=7)
    sde.save(tmp_path / "sde.npz")
    again = itofit.load(tmp_path / "sde.npz")
    assert len(again.members) == 2
    np.testing.assert_array_equal(
        again.covariance(data.inputs, return_std=True)[1], sde.covariance(data.inputs, return_std=True)[1]
    )


def test_an_ensemble_of_blocks():
    data, _, _ = ornstein_uhlenbeck(600, 0)
    parts = [data[:300], data[300:]]
    blocked = itofit.Transitions.from_blocks(lambda: iter(parts))
    assert len(itofit.fit(blocked, ensemble=2, rng=0).members) == 1
