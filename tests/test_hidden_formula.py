"""Formulas of equations whose states are hidden behind errors of measurement, or whose velocities are not observed."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import itofit
from itofit.cli import app
from itofit.matrices.symmetric import entries
from itofit.model.formula.filtered_sums import drift_equations, filtered_sums, noise_equations
from itofit.model.formula.finding import slots_of
from itofit.model.formula.library import library

SD = 0.05


def wells(seed, sd=SD, n=500, h=0.04, tracks=40):
    """Noisy tracks of dx = (x − x³) dt + 0.6 dW."""
    rng = np.random.default_rng(seed)
    x, seen = rng.normal(size=tracks), np.empty((tracks, n + 1, 1))
    for i in range(n + 1):
        seen[:, i, 0] = x
        for _ in range(16):
            x = x + (x - x**3) * h / 16 + 0.6 * np.sqrt(h / 16) * rng.normal(size=tracks)
    return itofit.Transitions.from_trajectories(list(seen + sd * rng.normal(size=seen.shape)), dt=h)


@pytest.fixture(scope="module")
def noisy():
    data = wells(0)
    sde = itofit.fit(data, rng=0)
    return data, sde, sde.formula(data)


@pytest.fixture(scope="module")
def oscillator():
    """Positions of dv = (−2 x − v) dt + dW."""
    rng = np.random.default_rng(1)
    x, v, h = rng.normal(size=30), rng.normal(size=30), 0.05
    seen = np.empty((30, 201, 1))
    for i in range(201):
        seen[:, i, 0] = x
        for _ in range(10):
            x, v = x + v * h / 10, v + (-2 * x - v) * h / 10 + np.sqrt(h / 10) * rng.normal(size=30)
    data = itofit.Transitions.from_positions(list(seen), dt=h)
    sde = itofit.fit(data, measurement_noise=False, rng=0)
    return data, sde, sde.formula(data)


def terms(formula, name):
    return {term.name: c for term, c in zip(formula.lines[name].terms, formula.lines[name].coefficients, strict=True)}


def within(formula, name, truth, errors=4):
    """Whether a line has just the true terms, with coefficients within so many standard errors."""
    line = formula.lines[name]
    found = {term.name: (c, s) for term, c, s in zip(line.terms, line.coefficients, line.std, strict=True)}
    return found.keys() == truth.keys() and all(
        abs(found[key][0] - c) < errors * found[key][1] for key, c in truth.items()
    )


def test_the_right_terms_are_found_behind_noise(noisy):
    """Coefficients within four standard errors: one data set of 5,000 has a chance to fail."""
    _, sde, formula = noisy
    assert within(formula, "f_x", {"x": 1.0, "x³": -1.0})
    assert within(formula, "Σ_x", {"1": 0.36})
    assert formula.is_short
    assert abs(formula.measurement_noise.sd[0] - SD) < 4 * formula.measurement_noise.sd_std[0]
    assert formula.measurement_noise.sd[0] == pytest.approx(sde.measurement_noise.sd[0], rel=0.05)
    assert "errors of measurement with standard deviation" in str(formula)
    assert re.search(r"standard deviation [\d.]+ ± [\d.]+ µm of x, estimated", str(formula.with_units({"x": "µm"})))


def test_without_noise_in_mind_the_formula_is_wrong(noisy):
    """What all this is for: Λ counts as motion otherwise, and makes Σ larger by 2Λ/h, a third."""
    data, _, formula = noisy
    plain = itofit.fit(data, measurement_noise=False, rng=0).formula(data)
    assert terms(plain, "Σ_x")["1"] > 1.2 * terms(formula, "Σ_x")["1"]


def test_the_right_terms_are_found_from_positions(oscillator):
    _, _, formula = oscillator
    assert within(formula, "f_v", {"x": -2.0, "v": -1.0})
    assert within(formula, "Σ_v", {"1": 1.0})
    assert formula.is_short
    assert formula.measurement_noise is None
    assert "velocities were not observed" in str(formula)


def test_noise_that_is_known_and_small_makes_no_difference():
    """With Λ → 0 the filter knows the states; what differs then is how much each step counts."""
    data = wells(2, sd=0.0)
    observed = itofit.fit(data, measurement_noise=False, rng=0).formula(data)
    filtered = itofit.fit(data, measurement_noise=1e-5, rng=0).formula(data)
    assert filtered.measurement_noise.known
    for name in ("f_x", "Σ_x"):
        ours, theirs = filtered.lines[name], observed.lines[name]
        assert [term.name for term in ours.terms] == [term.name for term in theirs.terms]
        assert (np.abs(ours.coefficients - theirs.coefficients) < 0.7 * theirs.std).all()
        np.testing.assert_allclose(ours.std, theirs.std, rtol=0.1)


def test_present_functions_are_features_like_any_other(noisy):
    """Of an equation that is a sum of terms itself, the equations are those of a step of scoring: M = g + G c."""
    data, sde, formula = noisy
    tried, slots = library(sde, None, None), slots_of(sde, "covariance")
    names = [term.name for term in tried]
    sums = filtered_sums(data, tried, slots, formula, sde.data.h_mean, "corrected")
    K, errors = len(tried), formula.measurement_noise.covariance[entries("full", 1)]
    for normal, name, (equations, size) in (
        (sums.drift, "f_x", (drift_equations(sums, 1), sums.squares[0] / sums.n)),
        (sums.noise, "Σ_x", (noise_equations(sums, 1, errors, known=True)[0], sums.squares[1] / sums.n)),
    ):
        c = np.zeros(K)
        for key, value in terms(formula, name).items():
            c[names.index(key)] = value
        expected = (normal.score[:K] + normal.information[:K, :K] @ c) / size
        np.testing.assert_allclose(equations.M, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    joint, of_errors = noise_equations(sums, 1, errors, known=False)
    both = np.block(  # terms and Λ together, without eliminating it
        [[sums.noise.information[:K, :K], sums.noise.information[:K, -1:]],
         [sums.noise.information[-1:, :K], sums.noise.information[-1:, -1:]]]
    ) / (sums.squares[1] / sums.n)  # fmt: skip
    np.testing.assert_allclose(np.linalg.inv(joint.G), np.linalg.inv(both)[:K, :K], rtol=1e-6)
    covariance = of_errors.at(np.zeros(K), np.linalg.inv(joint.G))[1]
    np.testing.assert_allclose(covariance, np.linalg.inv(both)[K:, K:], rtol=1e-6)


def test_errors_of_coefficients_are_the_width_of_the_likelihood(noisy):
    """Two coefficients, moved by one standard error along each principal axis: half a nat for either side, on average.

    The largest likelihood is near, not just there: scoring neglects that gains of the filter change with the drift.
    """
    data, _, formula = noisy
    line = formula.lines["f_x"]
    for direction in np.linalg.cholesky(line.covariance).T:
        moved = [replace(line, coefficients=line.coefficients + sign * direction) for sign in (-1, 0, 1)]
        low, here, high = (len(data) * replace(formula, drift_lines=(own,)).nll(data) for own in moved)
        assert 0.5 * (low + high) - here == pytest.approx(0.5, rel=0.15)
        assert abs(high - low) < 1.5


def test_the_formula_is_an_equation_that_was_observed(noisy, tmp_path):
    data, sde, formula = noisy
    assert formula.nll(data) == pytest.approx(sde.nll(data), abs=0.001)
    formula.save(tmp_path / "formula.npz")
    again = itofit.load_formula(tmp_path / "formula.npz")
    assert str(again) == str(formula)
    assert again.nll(data) == formula.nll(data)
    assert "bad" not in {finding.verdict for finding in itofit.check(formula, data).findings}
    paths = formula.simulate([0.0], dt=0.04, n_steps=2000, observed=True, rng=0)
    hidden = formula.simulate([0.0], dt=0.04, n_steps=2000, rng=0)
    assert np.std(paths - hidden) == pytest.approx(SD, rel=0.1)


def test_positions_go_the_same_ways(oscillator, tmp_path):
    data, sde, formula = oscillator
    assert formula.nll(data) == pytest.approx(sde.nll(data), abs=0.002)
    formula.save(tmp_path / "formula.npz")
    again = itofit.load_formula(tmp_path / "formula.npz")
    assert again.nll(data) == formula.nll(data)
    assert again.hidden_velocity.substeps == sde.hidden_velocity.substeps


def test_held_out_tracks_and_blocks(noisy):
    data, sde, formula = noisy
    other = wells(3, n=100)
    held_out = sde.formula(data, held_out=other)
    assert held_out.prediction.n == len(other)
    assert "4,000 held-out observations" in str(held_out)
    parts = [(part.inputs, part.increments, part.h, part.groups) for part in (data[:7000], data[7000:])]
    blocked = itofit.Transitions.from_blocks(parts, form="increments", kind="diffusion")
    np.testing.assert_allclose(
        sde.formula(blocked).lines["f_x"].coefficients, formula.lines["f_x"].coefficients, rtol=1e-6
    )


def test_sigma_itself_can_be_a_sum_of_terms(noisy):
    data, sde, formula = noisy
    root = sde.formula(data, noise="diffusion")
    assert within(root, "σ_x", {"1": 0.6})
    assert terms(root, "σ_x")["1"] ** 2 == pytest.approx(terms(formula, "Σ_x")["1"], rel=0.005)


def test_no_short_formula_behind_noise():
    rng = np.random.default_rng(4)
    x, seen = rng.normal(size=60), np.empty((60, 201, 1))
    for i in range(201):
        seen[:, i, 0] = x
        x = x + 0.04 * (4 * np.sin(4 * x) - x) + 0.2 * rng.normal(size=60)
    data = itofit.Transitions.from_trajectories(list(seen + 0.1 * rng.normal(size=seen.shape)), dt=0.04)
    sde = itofit.fit(data, correct_step=False, rng=0)
    formula = sde.formula(data)
    assert sde.measurement_noise is not None
    assert not formula.is_short
    assert formula.lines["f_x"].is_worse
    assert not formula.lines["Σ_x"].is_worse
    assert "mostly in f_x" in str(formula)


def test_the_command_finds_it_too(noisy, tmp_path):
    data, sde, formula = noisy
    sde.save(tmp_path / "sde.npz")
    rows = ["track,t,x"]
    for track in np.unique(data.groups):
        own = data[data.groups == track]
        values = [*own.inputs[:, 0], (own.inputs + own.increments)[-1, 0]]
        rows += [f"{track},{0.04 * i:.2f},{value!r}" for i, value in enumerate(map(float, values))]
    (tmp_path / "tracks.csv").write_text("\n".join(rows))
    result = CliRunner().invoke(
        app, ["formula", str(tmp_path / "sde.npz"), str(tmp_path / "tracks.csv"), "--json"], catch_exceptions=False
    )
    facts = json.loads(result.output)
    assert facts["lines"]["f_x"]["terms"] == ["x", "x³"]
    np.testing.assert_allclose(facts["measurement_noise"], formula.measurement_noise.covariance, rtol=1e-3)
    np.testing.assert_allclose(facts["lines"]["f_x"]["coefficients"], formula.lines["f_x"].coefficients, rtol=1e-3)
