"""Outputs or entries of Σ that are coupled: fast sums against their definitions, and steps that share a left side."""

import numpy as np
import pytest

from itofit.learning.automatic import coupled, scoring
from itofit.learning.automatic.coupled import WeightedSum, normal_matrix, weighted_sums
from itofit.learning.automatic.evidence import first_ridges
from itofit.learning.automatic.principal import principal_features
from itofit.learning.automatic.products import NoiseModel, Products
from itofit.learning.automatic.scoring import Scoring, Together, _share_of_step, scored
from itofit.matrices.links import LINKS, Shape
from itofit.matrices.symmetric import entries, outer_entries
from itofit.model.training import SWITCHED_OFF
from itofit.waves.normal_equations import DirectNormalEquations


def features_and_weights(n=60, R=7, d=3, seed=0):
    """Features, and weights of outputs whose units differ by six decades, nearly singular at every third row."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((n, d, d + 1))
    root[::3, :, 1:] *= 1e-5
    root *= 10.0 ** np.array([0.0, 3.0, -3.0])[:d, None]
    return rng.standard_normal((n, R)), root @ root.swapaxes(1, 2)


def defined(x, weight):
    """Σ W ⊗ x xᵀ, row by row."""
    return sum(np.kron(W, np.outer(row, row)) for W, row in zip(weight, x, strict=True))


def in_own_units(A, like):
    """A with rows and columns in units of the diagonal of another one."""
    unit = 1 / np.sqrt(np.diagonal(like))
    return A * np.outer(unit, unit)


@pytest.mark.parametrize("few", [0, 40])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "columns",
    [None, [range(7), range(6), range(1, 7)], [[0, 1], [2, 3], [4, 5]], [[0], range(7), []]],
    ids=["all", "most", "different", "few"],
)
def test_left_sides_are_sums_of_kronecker_products(columns, order, few, monkeypatch):
    monkeypatch.setattr(coupled, "FEW_FEATURES", few)
    x, weight = features_and_weights()
    expected = defined(x, weight)
    columns = None if columns is None else [np.array(own, dtype=int) for own in columns]
    chosen = np.concatenate([7 * i + own for i, own in enumerate(columns or [np.arange(7)] * 3)])
    expected = expected[np.ix_(chosen, chosen)]
    A = normal_matrix(np.asarray(x, order=order), weight, columns)
    np.testing.assert_array_equal(A, A.T)
    np.testing.assert_allclose(in_own_units(A, expected), in_own_units(expected, expected), atol=1e-13)


@pytest.mark.parametrize("few", [0, 40])
def test_no_rows_and_outputs_without_weight_have_left_sides_of_zero(few, monkeypatch):
    monkeypatch.setattr(coupled, "FEW_FEATURES", few)
    x, weight = features_and_weights()
    assert not normal_matrix(x[:0], weight[:0]).any()
    weight[:, 1] = weight[:, :, 1] = 0.0
    expected = defined(x, weight)
    np.testing.assert_allclose(normal_matrix(x, weight), expected, atol=1e-13 * np.abs(expected).max())


def test_sums_over_many_rows_are_sums_over_them():
    rng = np.random.default_rng(1)
    x, weight = rng.standard_normal((9_000, 4)), rng.uniform(0, 2, 9_000)
    some, others = np.array([0, 2]), np.array([1, 2, 3])
    sums = [WeightedSum(weight, np.arange(4)), WeightedSum(weight, some), WeightedSum(weight - 1, some, others)]
    expected = [(x.T * weight) @ x, (x[:, some].T * weight) @ x[:, some], (x[:, some].T * (weight - 1)) @ x[:, others]]
    for found, total in zip(weighted_sums(x, sums), expected, strict=True):
        np.testing.assert_allclose(found, total, rtol=1e-11, atol=1e-9)


def noisy_products(link, d=2, n=1_500, seed=2):
    """Products of noise whose strength and direction vary, the features of a few waves, and a model of them."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(-0.5, 0.5, (n, 2))
    root = np.eye(d) * (1.2 + np.sin(4 * u[:, :1, None])) + 0.3 * np.cos(3 * u[:, 1:, None])
    S = outer_entries((root @ rng.standard_normal((n, d, 1)))[:, :, 0], "full")
    omega, group = 3 * rng.standard_normal((8, 2)) * np.repeat([[1, 0], [0, 1]], 4, axis=0), np.repeat([0, 1], 4)
    equations = DirectNormalEquations(u, S)
    basis, _, _ = principal_features(omega, group, *equations.real_gram(np.concatenate([omega, np.zeros((1, 2))])))
    products = Products.of(basis.at(u), S, np.ones(n), np.arange(n) % 5)
    return NoiseModel(LINKS[link], Shape("full", d), most=4.0), products, basis


def started(model, products, basis):
    """Where scoring starts: at a constant C."""
    B = np.zeros((products.ones.shape[1], model.shape.n_entries))
    B[0] = model.link.at_one * np.equal(*entries("full", model.shape.d))
    return Scoring(model, B, np.repeat(first_ridges(basis)[None], model.shape.n_entries, axis=0), np.zeros_like(B))


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("link", list(LINKS))
def test_gradients_of_coupled_entries_are_those_of_differences(link, d):
    model, products, _ = noisy_products(link, d, n=20)
    rng = np.random.default_rng(3)
    H = np.equal(*entries("full", d)) * (model.link.at_one + 0.5) + 0.1 * rng.standard_normal(products.S.shape)
    gradient, _ = model.coupled_derivatives(model.parts(H, products.S), products.count)
    for place in range(H.shape[1]):
        step = 1e-5 * (np.arange(H.shape[1]) == place)
        up, down = (model.nll(model.parts(H + sign * step, products.S), products.count) for sign in (1, -1))
        assert gradient[:, place].sum() == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("link", list(LINKS))
def test_a_left_side_that_serves_again_leads_to_the_same_solution_where_it_was_made(link, monkeypatch):
    monkeypatch.setattr(scoring, "LEAST_WORK", 0.0)
    model, products, basis = noisy_products(link)
    _, B, _, _ = scored(started(model, products, basis), products, basis, None)
    H = products.values(B)
    parts = model.parts(H, products.S)
    in_use = B.T != 0
    first = Together.of(model, products, (B, H), parts, in_use)
    again = Together.of(model, products, (B, H), parts, in_use, first)
    assert (first.age, again.age) == (0, 1)
    assert again.A is first.A
    for field in ("b", "b_alone"):
        expected = getattr(first, field)[in_use]
        np.testing.assert_allclose(getattr(again, field)[in_use], expected, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_allclose(again.weight, first.weight, rtol=1e-10)
    np.testing.assert_allclose(again.z, first.z, rtol=1e-8, atol=1e-8)
    assert not first.serves(B, len(H), ~in_use)
    assert not first.serves(B + 1, len(H), in_use & (np.arange(in_use.shape[1]) < 2))


@pytest.mark.parametrize("link", list(LINKS))
def test_fits_end_where_they_do_with_left_sides_of_their_own(link, monkeypatch):
    model, products, basis = noisy_products(link)
    products = products.with_added(1e-2, np.equal(*entries("full", 2)))  # as fits with the identity link have it
    losses = []
    for work in (np.inf, 0.0):
        monkeypatch.setattr(scoring, "LEAST_WORK", work)
        _, B, _, P = scored(started(model, products, basis), products, basis, 1e-6)
        nll = model.nll(model.parts(products.values(B), products.S), products.count)
        losses.append(nll + 0.5 * (P * B**2).sum())
    assert losses[1] == pytest.approx(losses[0], abs=2 * scoring.LEAST_LIKELIHOOD_GAIN)


@pytest.mark.parametrize("link", list(LINKS))
def test_a_step_need_not_gain_what_it_costs_to_drop_what_was_switched_off(link, monkeypatch):
    model, products, basis = noisy_products(link)
    products = products.with_added(1e-2, np.equal(*entries("full", 2)))
    _, B, _, _ = scored(started(model, products, basis), products, basis, 1e-6)
    largest = 1 + np.argmax(np.abs(B[1:, 0]))
    H, parts = products.values(B), model.parts(products.values(B), products.S)

    def share(P, step):
        return _share_of_step(model, (B, step), (H, products.values(step)), P, parts, products)

    dropping, ridges = np.zeros_like(B), np.zeros_like(B)
    dropping[largest, 0] = -B[largest, 0]
    assert share(ridges, dropping)[0].max() < 1  # it costs, as the amplitude says something
    ridges[largest, 0] = SWITCHED_OFF
    assert share(ridges, dropping)[0].max() < 1  # it costs more than what the data tell nothing of
    monkeypatch.setattr(scoring, "COST_OF_DROPPING", 1e4)
    whole, gain, there = share(ridges, dropping)
    assert (whole == 1).all()
    assert gain == pytest.approx(0.0, abs=1e-6)
    assert model.nll(there, products.count) > model.nll(parts, products.count) + 1
    worse = dropping.copy()
    worse[0, 0] -= 0.5  # and what costs more than that is taken in part or not at all
    assert share(ridges, worse)[0].max() < 1
