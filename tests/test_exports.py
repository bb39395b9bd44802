"""Equations elsewhere: the same functions as NumPy source, in JAX and in tables."""

import subprocess
import sys
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import itofit
from itofit import InputError


@cache
def learned(d, link, structure, seed=0):
    rng = np.random.default_rng(seed)
    x, path = np.zeros(d), []
    for _ in range(1500):
        path.append(x)
        x = x - 0.05 * x**3 + (0.1 + 0.1 * np.abs(x)) * rng.normal(size=d) + 0.05 * rng.normal()
    data = itofit.Transitions.from_trajectories(np.array(path), dt=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return data, itofit.fit(data, link=link, structure=structure, rng=0)


CASES = [
    (1, "identity", "full"),
    (2, "identity", "full"),
    (2, "log", "full"),
    (2, "square", "full"),
    (2, "log", "diagonal"),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join(map(str, case)))
def case(request):
    """A model, and points within and beyond its data, where limits of Σ are needed."""
    data, sde = learned(*request.param)
    if request.param[0] > 1 and request.param[2] == "full":  # the largest eigenvalue has a limit of its own
        limits = sde.limits.copy()
        limits[0, -1] = 1.2
        free, sde = sde, replace(sde, limits=limits)
        assert 0 < np.mean(sde.covariance(data.inputs) != free.covariance(data.inputs)) < 1
    return sde, np.concatenate([data.inputs[:200], 4 * data.inputs[:200]]), data


def agree(found, wanted, tolerance=1e-12):
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= tolerance * max(1.0, np.abs(wanted).max())


def test_source_is_the_equation(case):
    sde, x, _ = case
    module = {}
    exec(sde.to_source(), module)
    agree(module["drift"](x), sde.drift(x))
    agree(module["covariance"](x), sde.covariance(x))
    agree(module["diffusion"](x), sde.diffusion(x))
    assert module["INPUTS"] == list(sde.input_names)
    with pytest.raises(ValueError, match="x must have shape"):
        module["drift"](np.zeros((3, 7)))


def test_source_of_a_formula(case):
    sde, x, data = case
    for noise in ("covariance", "diffusion"):
        formula = sde.formula(data, noise=noise)
        module = {}
        exec(formula.to_source(), module)
        agree(module["drift"](x), formula.drift(x))
        agree(module["covariance"](x), formula.covariance(x))


def test_source_needs_numpy_alone(tmp_path):
    """In a process of its own, in which itofit cannot be imported."""
    data, sde = learned(2, "log", "full")
    (tmp_path / "equation.py").write_text(sde.to_source(), encoding="utf-8")
    np.save(tmp_path / "x.npy", data.inputs[:50])
    code = (
        "import sys; sys.modules['itofit'] = sys.modules['scipy'] = None\n"
        "import numpy as np, equation\n"
        "x = np.load('x.npy'); np.savez('out.npz', f=equation.drift(x), S=equation.covariance(x))\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    found = np.load(tmp_path / "out.npz")
    agree(found["f"], sde.drift(data.inputs[:50]))
    agree(found["S"], sde.covariance(data.inputs[:50]))


def test_own_functions_have_no_source(case):
    sde, _, data = case
    formula = sde.formula(data, terms={"kink": lambda x: np.abs(x[:, 0])}, degree=0, false_alarms=0.5)
    own = [term.function for line in formula.lines.values() for term in line.terms]
    if not any(own):
        pytest.skip("the data do not ask for it")
    with pytest.raises(InputError, match="'kink' is a function of the user"):
        formula.to_source()


# JAX


@pytest.fixture
def jax64():
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield jax
    jax.config.update("jax_enable_x64", before)


def test_jax_functions_are_the_equation_and_its_derivatives(case, jax64):
    sde, x, data = case
    f, covariance, sigma = sde.to_jax()
    everything = jax64.jit(lambda x: (f(x), covariance(x), sigma(x), jax64.vmap(jax64.jacfwd(f))(x), f(x[0])))
    wanted = sde.drift(x), sde.covariance(x), sde.diffusion(x), sde.drift_jacobian(x), sde.drift(x[:1])[0]
    for found, own in zip(everything(x), wanted, strict=True):
        agree(np.asarray(found), own)
    slopes = np.asarray(jax64.jit(jax64.vmap(jax64.jacfwd(covariance)))(x))
    assert np.isfinite(slopes).all()
    inside, step, slope = data.inputs[5], 1e-6, slopes[5, ..., 0]
    moved = step * np.eye(sde.n_inputs)[0]
    differences = (sde.covariance((inside + moved)[None]) - sde.covariance((inside - moved)[None]))[0] / (2 * step)
    np.testing.assert_allclose(slope, differences, atol=1e-6)
    with pytest.raises(InputError, match="x must have shape"):
        f(np.zeros(9))


def test_jax_functions_of_a_formula(jax64):
    data, sde = learned(2, "identity", "full")
    formula, x = sde.formula(data), data.inputs[:100]
    f, covariance, _ = formula.to_jax()
    found = jax64.jit(lambda x: (f(x), covariance(x), jax64.vmap(jax64.jacfwd(f))(x)))(x)
    for one, other in zip(found, (formula.drift(x), formula.covariance(x), formula.drift_jacobian(x)), strict=True):
        agree(np.asarray(one), other)


def test_a_jitted_scan_makes_the_steps_of_euler(jax64):
    _, sde = learned(2, "identity", "full")
    jnp = jax64.numpy
    f, _, sigma = sde.to_jax()
    kicks = np.random.default_rng(0).normal(size=(100, 2))
    h = 0.01

    @jax64.jit
    def path(start):
        def step(x, kick):
            x = x + h * f(x) + jnp.sqrt(h) * sigma(x) @ kick
            return x, x

        return jax64.lax.scan(step, start, kicks)[1]

    x, expected = np.array([[0.1, -0.2]]), []
    for kick in kicks:
        x = x + h * sde.drift(x) + np.sqrt(h) * (sde.diffusion(x) @ kick)
        expected.append(x[0])
    agree(np.asarray(path(jnp.array([0.1, -0.2]))), np.array(expected), 1e-10)
    gradient = jax64.jit(jax64.grad(lambda start: path(start)[-1].sum()))(jnp.array([0.1, -0.2]))
    assert np.isfinite(gradient).all()


def test_diffrax_solves_it(jax64):
    """Its Euler steps with the same Brownian path are ours."""
    diffrax = pytest.importorskip("diffrax")
    _, sde = learned(2, "identity", "full")
    jnp = jax64.numpy
    f, _, sigma = sde.to_jax()
    h, n = 0.01, 50
    motion = diffrax.UnsafeBrownianPath(shape=(2,), key=jax64.random.PRNGKey(0), levy_area=diffrax.BrownianIncrement)
    terms = diffrax.MultiTerm(
        diffrax.ODETerm(lambda t, x, args: f(x)), diffrax.ControlTerm(lambda t, x, args: sigma(x), motion)
    )

    @jax64.jit
    def solve(start):
        times = diffrax.SaveAt(ts=h * jnp.arange(n + 1))
        return diffrax.diffeqsolve(
            terms, diffrax.Euler(), 0.0, h * n, h, start, saveat=times, adjoint=diffrax.DirectAdjoint()
        ).ys

    path = np.asarray(solve(jnp.array([0.1, -0.2])))
    assert path.shape == (n + 1, 2)
    assert np.isfinite(path).all()
    rates = (np.diff(path, axis=0) - h * sde.drift(path[:-1])) / np.sqrt(h)
    white = np.linalg.solve(sde.diffusion(path[:-1]), rates[:, :, None])[:, :, 0]
    assert 0.6 < white.std() < 1.5  # 100 normal numbers: four of their errors are 0.28


# Tables


def test_tables(tmp_path):
    pandas = pytest.importorskip("pandas")
    _, sde = learned(2, "identity", "full")
    table = sde.to_table(5)
    assert len(table) == 25
    assert table.columns.tolist()[:6] == ["x1", "x2", "f_x1", "std f_x1", "f_x2", "std f_x2"]
    points = table[["x1", "x2"]].to_numpy()
    np.testing.assert_array_equal(table["f_x2"], sde.drift(points)[:, 1])
    np.testing.assert_array_equal(table["Σ_x2,x1"], sde.covariance(points)[:, 1, 0])
    along = sde.to_table({"x1": [0.0, 0.1, 0.2]})
    assert along["x2"].nunique() == 1
    sde.to_table({"x1": [0.0, 0.1, 0.2]}, tmp_path / "table.csv")
    pandas.testing.assert_frame_equal(pandas.read_csv(tmp_path / "table.csv"), along)
    assert len(sde.to_table(points[:3])) == 3


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"z": 3}, "there is no input 'z'"),
        (0, "grid must be a whole number >= 1"),
        (100_000, "has 10,000,000,000 points"),
        (np.zeros((2, 5)), "grid must have shape"),
    ],
)
def test_bad_grids_are_told(grid, message):
    _, sde = learned(2, "identity", "full")
    with pytest.raises(InputError, match=message):
        sde.to_table(grid)
