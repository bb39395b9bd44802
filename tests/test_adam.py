"""The Adam baselines: the loss they minimise, the steps they take, what they start from and what they record."""

import sys

import numpy as np
import pytest

import itofit
from itofit import InputError, Transitions
from itofit.experiments.adam import Adam, start_networks, train_adam
from itofit.experiments.compiled import cosine_and_sine, fold, loss_function, training_step
from itofit.experiments.network_sde import NetworkSDE
from itofit.experiments.network_units import NetworkUnits
from itofit.experiments.networks import inverse_softplus, outputs, triangular
from itofit.learning.paper.arff import stagnates
from itofit.model.likelihood import gaussian_nll

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")


@pytest.fixture(scope="module", autouse=True)
def programs_are_compiled_once(tmp_path_factory):
    """Trainings of the same shapes run the same program, most of whose time is its compilation."""
    settings = {
        "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("jax")),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.fixture
def optimised():
    """Programs are compiled as users have them."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)  # as in conftest.py


def sample(n=600, d=1, seed=0, m=None):
    """Moves with a drift and a noise that depend on the place, in times that differ."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, m or d))
    h = rng.uniform(0.05, 0.15, n)
    mix = np.tril(np.full((d, d), 0.1)) + 0.2 * np.eye(d)
    noise = (1 + 0.5 * x[:, :1]) * (rng.standard_normal((n, d)) @ mix.T)
    return Transitions(x, -h[:, None] * x[:, :d] + np.sqrt(h)[:, None] * noise, h)


def pair(**options):
    return sample(**options).split(0.2, rng=0)


def setup(data, structure, **changes):
    """Units, networks that are far from their start, and the loss as a function of one vector."""
    settings = Adam(batch_size=8, **{"n_features": 4, **changes})
    units = NetworkUnits.of(data, structure)
    rng = np.random.default_rng(3)
    networks = start_networks(rng, data, units, settings, structure, None)
    for network in networks.values():
        network.update({name: a + 0.3 * rng.standard_normal(a.shape) for name, a in network.items()})
    loss_sum, parameters, unravel = loss_function(jax, networks, data.n_inputs, structure)
    return units, networks, loss_sum, parameters, unravel


def network_sde(networks, units, structure):
    return NetworkSDE(
        drift_network=networks["drift"],
        diffusion_network=networks["diffusion"],
        scales=units,
        structure=structure,
        kind="diffusion",
    )


CASES = [
    ("diagonal", {}),
    ("full", {}),
    ("full", {"hidden": (5, 3)}),
    ("diagonal", {"architecture": "relu", "hidden": (6, 5)}),
]
cases = pytest.mark.parametrize(("structure", "changes"), CASES)


@pytest.fixture(scope="module")
def full():
    """A short training that several tests look at: data, settings, its record, and what `progress` saw."""
    train, validation = pair(d=2)
    settings, seen = Adam(batch_size=32, n_features=8, epochs=3), []

    def progress(*epochs):
        seen.append((*epochs, jax.numpy.zeros(1).dtype))

    run = train_adam(train, validation, settings, structure="full", rng=5, progress=progress)
    return train, validation, settings, run, seen


# The functions


def test_cosine_and_sine():
    angle = np.concatenate([np.linspace(-30, 30, 10_001), np.linspace(-1e6, 1e6, 1001)])
    cosine, sine = cosine_and_sine(np, angle)
    np.testing.assert_allclose(cosine, np.cos(angle), rtol=0, atol=5e-16)
    np.testing.assert_allclose(sine, np.sin(angle), rtol=0, atol=5e-16)


@cases
def test_loss_is_the_likelihood_and_its_gradient_that_of_differences(structure, changes):
    data = sample(d=2, n=40)
    with jax.enable_x64():
        units, networks, loss_sum, parameters, _ = setup(data, structure, **changes)
        compiled, rows = jax.jit(jax.value_and_grad(loss_sum)), units.rows(data)
        value, gradient = compiled(parameters, rows)
        for v in np.random.default_rng(0).standard_normal((5, len(gradient))):
            numerical = (compiled(parameters + 1e-6 * v, rows)[0] - compiled(parameters - 1e-6 * v, rows)[0]) / 2e-6
            assert np.array(gradient) @ v == pytest.approx(float(numerical), rel=1e-6, abs=1e-6)
        loss = float(value) / len(data) + units.constant(data)
    sde = network_sde(networks, units, structure)
    by_hand = gaussian_nll(data.increments, data.h, sde.drift(data.inputs), sde.covariance(data.inputs)).mean()
    assert loss == pytest.approx(by_hand, abs=1e-12)
    assert sde.nll(data) == pytest.approx(by_hand, abs=1e-12)


def test_fourier_layer_is_its_sum():
    data = sample(d=2)
    with jax.enable_x64():
        _, networks, _, _, _ = setup(data, "diagonal")
    network, u = networks["drift"], data.inputs[:5]
    expected = [
        [
            network["bias"][i]
            + sum(
                a * np.cos(omega @ point) + b * np.sin(omega @ point)
                for omega, a, b in zip(network["omega"], network["cosine"][i], network["sine"][i], strict=True)
            )
            for i in range(2)
        ]
        for point in u
    ]
    np.testing.assert_allclose(outputs(network, u), expected, atol=1e-13)


def test_triangular_factor():
    T = triangular(np.array([[0.3, -2.0, 0.7]]), "full", 2)
    np.testing.assert_allclose(T[0], [[np.log1p(np.exp(0.3)), 0], [-2.0, np.log1p(np.exp(0.7))]])
    np.testing.assert_allclose(inverse_softplus(np.log1p(np.exp(0.3))), 0.3)


# Training


def test_steps_are_those_of_adam():
    data = sample(n=40)
    with jax.enable_x64():
        units, _, loss_sum, parameters, _ = setup(data, "diagonal")
        rows = units.rows(data)
        step, state = training_step(jax, optax, loss_sum, parameters, 0.01)
        slope, theta, first, second = jax.jit(jax.grad(loss_sum)), np.array(parameters), 0.0, 0.0
        carry, step = (parameters, state), jax.jit(step)
        for t in (1, 2, 3):
            gradient = np.array(slope(theta, rows)) / len(rows)
            first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
            theta -= 0.01 * (first / (1 - 0.9**t)) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
            carry = step(carry, rows)
            np.testing.assert_allclose(carry[0], theta, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("size", [1, 4, 5, 10, 11, 99])
def test_batches_leave_no_row_out(size):
    rows = np.random.default_rng(0).random((10, 2))
    total, n_batches, last = fold(
        jax, lambda c, b: (c[0] + b.sum(), c[1] + 1, len(b) + 0 * c[2]), (0.0, 0, 0), rows, size
    )
    assert float(total) == pytest.approx(rows.sum(), rel=1e-6)
    assert int(n_batches) == -(-10 // size)
    assert int(last) == (10 % size or min(size, 10))


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize(("structure", "changes"), CASES[2:])
def test_losses_are_those_of_the_network(structure, changes):
    train, validation = pair(d=2)
    settings = Adam(batch_size=32, epochs=4, **{"n_features": 8, **changes})
    run = train_adam(train, validation, settings, structure=structure, rng=0)
    assert run.losses.shape == run.seconds.shape == (5,)
    assert run.network.nll(validation) == pytest.approx(run.best_loss, abs=1e-10)
    assert run.best_loss == run.losses[run.best_epoch] == run.losses.min() == run.lowest_loss
    assert run.best_epoch == run.lowest_epoch > 0
    assert run.seconds[0] == 0
    assert (np.diff(run.seconds) > 0).all()
    assert run.seconds_to_best == run.seconds[run.best_epoch]
    assert run.compile_seconds > 0
    assert not run.diverged


@pytest.mark.parametrize("changes", [{}, {"architecture": "relu", "hidden": (8,)}])
def test_start_has_the_scale_of_the_data(changes):
    data = sample(d=2)
    units, settings = NetworkUnits.of(data, "full"), Adam(batch_size=8, **{"n_features": 2, **changes})
    networks = start_networks(np.random.default_rng(0), data, units, settings, "full", None)
    noise = (data.increments - data.h[:, None] * units.mean) / np.sqrt(data.h)[:, None]
    covariance = network_sde(networks, units, "full").covariance(data.inputs)
    np.testing.assert_allclose(covariance.mean(axis=0), noise.T @ noise / len(data), rtol=0.1)


def test_training_comes_near_the_truth():
    """3,000 transitions at batch 32: the excess over the truth is a few thousandths, and 0.05 is far from it."""
    train, validation = pair(n=3000)
    run = train_adam(train, validation, Adam(batch_size=32, n_features=16, epochs=40), structure="diagonal", rng=0)
    x = validation.inputs
    sigma = 0.3 * (1 + 0.5 * x)
    truth = gaussian_nll(validation.increments, validation.h, -x, (sigma**2)[:, :, None]).mean()
    assert run.losses[0] > truth + 0.05
    assert run.best_loss < truth + 0.03


def test_units_do_not_matter(full):
    """Another unit of length, an offset, and another unit of time change the loss by a constant."""
    train, validation, settings, run, _ = full

    def moved(data):
        return Transitions(100 + 8 * data.inputs, 8 * data.increments, 4 * data.h)

    other = train_adam(moved(train), moved(validation), settings, structure="full", rng=5)
    np.testing.assert_allclose(other.losses - 2 * np.log(8), run.losses, atol=1e-8)
    x = validation.inputs
    np.testing.assert_allclose(other.network.drift(100 + 8 * x), 2 * run.network.drift(x), atol=1e-7)
    np.testing.assert_allclose(other.network.covariance(100 + 8 * x), 16 * run.network.covariance(x), atol=1e-7)


def test_full_covariance_is_positive_definite(full):
    network = full[3].network
    far = np.random.default_rng(0).normal(scale=10, size=(500, 2))
    assert (np.linalg.eigvalsh(network.covariance(far)) > 0).all()
    sigma = network.diffusion(far)
    np.testing.assert_allclose(np.triu(sigma, 1), 0)
    np.testing.assert_allclose(sigma @ sigma.swapaxes(1, 2), network.covariance(far))
    root = network.diffusion(far, "symmetric")
    np.testing.assert_allclose(root, root.swapaxes(1, 2), atol=1e-12)
    np.testing.assert_allclose(root @ root, network.covariance(far), atol=1e-12)
    with pytest.raises(InputError, match="factor must be one of"):
        network.diffusion(far, "lower")


def test_same_seed_same_result(full):
    train, validation, settings, run, _ = full
    again = train_adam(train, validation, settings, structure="full", rng=np.random.default_rng(5))
    np.testing.assert_array_equal(run.losses, again.losses)
    for name, array in run.network.arrays().items():
        np.testing.assert_array_equal(array, again.network.arrays()[name])
    other = train_adam(train, validation, settings, structure="full", rng=6)
    assert (run.losses[1:] != other.losses[1:]).all()


# What is recorded


def test_stagnation_on_curves_made_by_hand():
    falling = list(np.linspace(1, 0, 40))
    assert not any(stagnates(falling[:n]) for n in range(41))
    valley = [*np.linspace(1, 0, 20), *np.linspace(0.1, 2, 20)]
    first = next(n for n in range(41) if stagnates(valley[:n]))
    averages = np.convolve(valley, np.full(5, 0.2), mode="valid")
    lowest = 4 + int(averages.argmin())  # the loss with which the lowest average ends
    assert first == lowest + 1 + 5


def test_best_is_the_lowest_before_stagnation(monkeypatch):
    """The rule is the one of Algorithm 1, and a lower loss after it is recorded but not returned."""
    train, validation = pair()
    monkeypatch.setattr("itofit.experiments.adam.stagnates", lambda losses: len(losses) >= 2)
    settings = Adam(batch_size=32, n_features=8, epochs=12)
    run = train_adam(train, validation, settings, structure="diagonal", rng=0)
    assert len(run.losses) == 13
    assert run.stagnated_at == 2
    assert run.best_epoch == int(np.argmin(run.losses[:3]))
    assert run.lowest_epoch > 2
    assert run.lowest_loss < run.best_loss
    assert run.network.nll(validation) == pytest.approx(run.best_loss, abs=1e-10)


def test_a_divergence_ends_training():
    train, validation = pair()
    settings = Adam(batch_size=8, n_features=8, epochs=50, learning_rate=1e200)
    run = train_adam(train, validation, settings, structure="diagonal", rng=0)
    assert run.diverged
    assert len(run.losses) == len(run.seconds) < 51
    assert np.isfinite(run.losses).all()
    assert np.isfinite(run.network.drift(validation.inputs)).all()


def test_time_limit():
    train, validation = pair()
    settings = Adam(batch_size=32, n_features=8, epochs=1000, seconds=1e-9)
    assert len(train_adam(train, validation, settings, structure="diagonal", rng=0).losses) == 2


def test_arrays_round_trip(tmp_path, full):
    validation, network = full[1], full[3].network
    np.savez(tmp_path / "network.npz", other=np.zeros(3), **network.arrays())
    with np.load(tmp_path / "network.npz", allow_pickle=False) as file:
        restored = NetworkSDE.from_arrays(dict(file))
    assert repr(restored) == repr(network)
    np.testing.assert_array_equal(restored.drift(validation.inputs), network.drift(validation.inputs))
    np.testing.assert_array_equal(restored.diffusion(validation.inputs), network.diffusion(validation.inputs))
    with pytest.raises(InputError, match=r"lacks drift\.bias"):
        NetworkSDE.from_arrays({name: a for name, a in network.arrays().items() if name != "drift.bias"})


def test_simulation():
    train, validation = pair()
    network = train_adam(
        train, validation, Adam(batch_size=32, n_features=8, epochs=1), structure="diagonal", rng=0
    ).network
    paths = network.simulate(np.zeros(4), dt=0.01, n_steps=3, rng=0)
    x, rng = np.zeros((4, 1)), np.random.default_rng(0)
    for i in range(3):
        x = x + 0.01 * network.drift(x) + network.diffusion(x)[:, :, 0] * 0.1 * rng.standard_normal((4, 1))
        np.testing.assert_allclose(paths[:, i + 1], x)
    with pytest.warns(itofit.ExtrapolationWarning, match="outside the range"):
        network.simulate([5.0], dt=0.01, n_steps=1, rng=0)


def test_underdamped_simulation():
    rng = np.random.default_rng(0)
    x0, v0 = rng.uniform(-1, 1, (2, 300))
    data = Transitions.from_underdamped(x0, v0, x0 + 0.1 * v0, v0 + 0.1 * rng.standard_normal(300), 0.1)
    run = train_adam(data, data, Adam(batch_size=50, n_features=4, epochs=1), structure="diagonal", rng=0)
    paths = run.network.simulate([[0.1, 0.5]], dt=0.01, n_steps=1, rng=0)
    assert paths.shape == (1, 2, 2)
    assert paths[0, 1, 0] == pytest.approx(0.105)


# The hybrid


@pytest.fixture(scope="module")
def learned():
    train, validation = pair(d=2, n=2000)
    return train, validation, itofit.fit(train, structure="full", correct_step=False, rng=0)


@pytest.mark.parametrize("hidden", [(), (8,)])
def test_hybrid_starts_from_the_learned_equation(learned, hidden):
    train, validation, sde = learned
    settings = Adam(batch_size=32, epochs=1, hidden=hidden)
    rng, units = np.random.default_rng(0), NetworkUnits.of(train, "full")
    networks = start_networks(rng, train, units, settings, "full", sde)
    start = network_sde(networks, units, "full")
    x = validation.inputs
    np.testing.assert_allclose(start.drift(x), sde.drift(x), rtol=0, atol=1e-10)
    np.testing.assert_allclose(start.covariance(x), sde.covariance(x), rtol=0, atol=0.01 * sde.covariance(x).max())
    if not hidden:
        return
    run = train_adam(train, validation, settings, structure="full", rng=0, start=sde)
    assert run.losses[0] == pytest.approx(start.nll(validation), abs=1e-10)
    assert run.losses[0] == pytest.approx(sde.nll(validation), abs=2e-3)
    assert run.losses[1] != run.losses[0]


def test_hybrid_cannot_start_from_everything(learned):
    train, validation, sde = learned
    with pytest.raises(InputError, match="architecture='fourier'"):
        train_adam(
            train,
            validation,
            Adam(batch_size=8, architecture="relu", hidden=(4,)),
            structure="full",
            start=sde,
        )
    with pytest.raises(InputError, match="start has a full covariance"):
        train_adam(train, validation, Adam(batch_size=8), structure="diagonal", start=sde)
    with pytest.raises(InputError, match="start must be a LearnedSDE"):
        train_adam(train, validation, Adam(batch_size=8), structure="full", start="sde")
    with pytest.raises(InputError, match="start must have 1 input"):
        train_adam(*pair(), Adam(batch_size=8), structure="full", start=sde)


# The surroundings


def test_the_precision_of_other_code_is_its_own(full):
    assert jax.numpy.zeros(1).dtype == np.float32
    assert not jax.config.jax_enable_x64
    assert full[4] == [(epoch, 3, np.float32) for epoch in (1, 2, 3)]  # code of the user, called back
    with jax.enable_x64():
        assert jax.config.jax_enable_x64


def test_missing_jax(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r'need JAX and optax: pip install "itofit\[adam\]"'):
        train_adam(*pair(), Adam(batch_size=8), structure="diagonal")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number >= 1, got 0"),
        ({"epochs": 0}, "epochs must be"),
        ({"n_features": 2.5}, "n_features must be"),
        ({"learning_rate": 0.0}, "learning_rate must be a number > 0"),
        ({"seconds": -1}, "seconds must be"),
        ({"spread": 0}, "spread must be"),
        ({"hidden": 64}, "hidden must be a tuple"),
        ({"hidden": (64, 0)}, "hidden must be a whole number"),
        ({"architecture": "cnn"}, "architecture must be one of 'fourier', 'relu'"),
        ({"architecture": "relu"}, "hidden must name at least one layer"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(InputError, match=message):
        Adam(**{"batch_size": 8, **changes})


def test_bad_data():
    train, validation = pair()
    with pytest.raises(InputError, match="validation must have 1 input"):
        train_adam(train, sample(d=2), Adam(batch_size=8), structure="diagonal")
    with pytest.raises(InputError, match="train must be Transitions"):
        train_adam(train.inputs, validation, Adam(batch_size=8), structure="diagonal")
    with pytest.raises(InputError, match="structure must be one of"):
        train_adam(train, validation, Adam(batch_size=8), structure="banded")
    with pytest.raises(InputError, match="settings must be an Adam"):
        train_adam(train, validation, {"batch_size": 8}, structure="full")
