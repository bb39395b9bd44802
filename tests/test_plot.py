"""Pictures of a model: what is in them, not how they look."""

import sys
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure

import itofit
from itofit import InputError, Transitions, plot
from itofit.looking.plot.canvas import lines, nice_below, number_text
from itofit.looking.plot.potentials import potentials
from itofit.looking.plot.reach import reached
from itofit.looking.plot.remainders import binned
from itofit.looking.plot.simulated import _some, compare, pieces
from itofit.looking.plot.views import plane_of, rest_point, view_of


@pytest.fixture(autouse=True, scope="module")
def without_windows():
    before = mpl.get_backend()
    mpl.use("Agg")
    yield
    mpl.use(before)


@pytest.fixture(autouse=True)
def tidy():
    """Settings stay as they were, and no figure stays open."""
    from matplotlib import pyplot

    before = dict(mpl.rcParams)
    yield
    pyplot.close("all")
    assert dict(mpl.rcParams) == before


def without_places(sde):
    """A model that does not know where its data were, as from an old file."""
    return replace(sde, data=replace(sde.data, places=None))


def paths(rng, drift, diffusion, start, dt=0.05, n_steps=60):
    """Euler-Maruyama paths, (n_paths, n_steps + 1, d)."""
    x = [np.asarray(start, dtype=float)]
    for _ in range(n_steps):
        noise = np.einsum("nij,nj->ni", diffusion(x[-1]), rng.standard_normal(x[-1].shape))
        x.append(x[-1] + dt * drift(x[-1]) + np.sqrt(dt) * noise)
    return np.stack(x, axis=1)


@pytest.fixture(scope="module")
def one():
    """A double well whose noise is stronger on the right."""
    rng = np.random.default_rng(0)
    x = paths(rng, lambda x: x - x**3, lambda x: (0.6 + 0.2 * x)[:, :, None], rng.uniform(-1.5, 1.5, (50, 1)))
    data = itofit.Transitions.from_trajectories(list(x), dt=0.05, names=["height"])
    return itofit.fit(data, rng=0), data


@pytest.fixture(scope="module")
def two():
    """A rotation with correlated noise."""
    rng = np.random.default_rng(1)
    turn, sigma = np.array([[-1.0, -2.0], [2.0, -1.0]]), np.array([[0.5, 0.0], [0.4, 0.3]])
    x = paths(rng, lambda x: x @ turn.T, lambda x: np.tile(sigma, (len(x), 1, 1)), rng.normal(size=(50, 2)), 0.02)
    data = itofit.Transitions.from_trajectories(list(x), dt=0.02)
    return itofit.fit(data, rng=0, structure="full"), data


@pytest.fixture(scope="module")
def three():
    """Inputs of which each output needs one; kind general."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (1500, 3))
    dx = 0.1 * np.column_stack([np.sin(2 * x[:, 0]), x[:, 2]]) + 0.1 * rng.normal(size=(1500, 2))
    data = itofit.Transitions(x, dx, 0.1, input_names=["a", "b", "c"], output_names=["p", "q"])
    return itofit.fit(data, rng=0), data


@pytest.fixture(scope="module")
def oscillator():
    """A noisy pendulum, positions and velocities."""
    rng = np.random.default_rng(5)
    x, v = rng.normal(size=(2, 60, 1))
    h, rows = 0.05, []
    for _ in range(40):
        x1 = x + h * v
        v1 = v + h * (-np.sin(x1) - 0.3 * v) + 0.4 * np.sqrt(h) * rng.normal(size=v.shape)
        rows.append((x, v, x1, v1, np.arange(60)))
        x, v = x1, v1
    x0, v0, x1, v1, groups = (np.concatenate(part) for part in zip(*rows, strict=True))
    data = itofit.Transitions.from_underdamped(x0, v0, x1, v1, h, groups)
    return itofit.fit(data, correct_step=False, rng=0), data


def new_axes():
    return Figure(layout="constrained").add_subplot()


def labels(ax):
    return ax.get_xlabel(), ax.get_ylabel()


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def line(ax, label):
    return next(each for each in ax.lines if each.get_label() == label)


def band(ax):
    """Lower and upper edge of the interval."""
    (found,) = [each for each in ax.collections if each.get_label() == "95 % interval"]
    corners = found.get_paths()[0].vertices
    x = np.unique(corners[:, 0])
    edges = np.array([[corners[corners[:, 0] == at, 1].min(), corners[corners[:, 0] == at, 1].max()] for at in x])
    return x, *edges.T


# Curves


def test_the_drift_is_that_of_the_model_with_its_intervals(one):
    sde, data = one
    ax = new_axes()
    assert plot.drift(sde, data, ax=ax) is ax
    x, y = line(ax, "learned").get_data()
    f, std = (values[:, 0] for values in sde.drift(x, return_std=True))
    np.testing.assert_allclose(y, f)
    at, low, high = band(ax)
    np.testing.assert_allclose(at, x)
    np.testing.assert_allclose(low, f - 1.96 * std, atol=1e-4 * np.ptp(f))
    np.testing.assert_allclose(high, f + 1.96 * std, atol=1e-4 * np.ptp(f))
    assert labels(ax) == ("height", "drift f(height)")
    assert (x[0], x[-1]) == (data.inputs.min(), data.inputs.max())
    assert {"learned", "95 % interval", "data"} <= set(legend(ax))


def test_the_variance_has_intervals_that_stay_positive(one):
    sde, data = one
    ax = plot.diffusion(sde, data, ax=new_axes())
    x, y = line(ax, "learned").get_data()
    np.testing.assert_allclose(y, sde.covariance(x)[:, 0, 0])
    low, high = sde.variance_interval(x)
    np.testing.assert_allclose(np.array(band(ax)[1:]), [low[:, 0], high[:, 0]])
    assert labels(ax) == ("height", "noise variance Σ(height)")
    assert ax.get_ylim()[0] == 0
    ax = plot.diffusion(sde, data, what="sigma", ax=new_axes())
    np.testing.assert_allclose(line(ax, "learned").get_ydata(), sde.diffusion(x)[:, 0, 0])
    np.testing.assert_allclose(band(ax)[1], np.sqrt(low[:, 0]))


def test_without_data_the_range_is_that_learned_from(one):
    sde, _ = one
    ax = plot.drift(sde)  # a figure of pyplot
    assert tuple(line(ax, "learned").get_xdata()[[0, -1]]) == tuple(sde.box[:, 0])
    assert {"training data", "few training data"} <= set(legend(ax))
    assert not any("data" in each for each in legend(plot.drift(without_places(sde))))


def test_few_data_are_shaded(one):
    sde, data = one
    kept = data[np.abs(data.inputs[:, 0]) > 0.3]
    ax = plot.drift(without_places(sde), kept, ax=new_axes())
    assert "few data" in legend(ax)
    spans = [patch.get_extents().transformed(ax.transData.inverted()) for patch in ax.patches]
    assert any(span.x0 < -0.1 < 0.1 < span.x1 for span in spans)


def test_what_was_drawn_before_keeps_its_range(one):
    sde, data = one
    ax = new_axes()
    ax.plot([-5, 5], [-9, 9])
    plot.drift(sde, data, ax=ax)
    assert ax.get_xlim()[0] < -5
    assert ax.get_ylim()[1] > 9


def test_a_model_without_error_bars_has_no_bands():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 500)
    data = itofit.Transitions.from_pairs(x, x - 0.1 * x + 0.1 * rng.normal(size=500), 0.1)
    sde = itofit.fit(data, refine=False, rng=0)
    for draw in (plot.drift, plot.diffusion):
        assert "95 % interval" not in legend(draw(sde, data, ax=new_axes()))
    assert "validation error" in plot.history(sde, ax=new_axes()).get_ylabel()


def test_slices_rest_at_medians_or_where_they_are_told_to(three):
    sde, data = three
    ax = plot.drift(sde, data, output="q", along="c", ax=new_axes())
    x = line(ax, "learned").get_xdata()
    points = np.tile(np.median(data.inputs, axis=0), (len(x), 1))
    points[:, 2] = x
    np.testing.assert_allclose(line(ax, "learned").get_ydata(), sde.drift(points)[:, 1])
    assert labels(ax) == ("c", "drift of q")
    median = ax.get_title()
    assert "medians of the data" in median
    ax = plot.diffusion(sde, data, entry=(1, 1), along=0, at=[0, 0.5, -0.25], ax=new_axes())
    assert ax.get_title() == "at b = 0.5, c = −0.25"
    assert plot.drift(sde, output="q", along="c", ax=new_axes()).get_title() == median
    assert "middle" in plot.drift(without_places(sde), ax=new_axes()).get_title()


def test_an_entry_beside_the_diagonal_has_its_intervals(two):
    sde, data = two
    ax = plot.diffusion(sde, data, entry=(0, 1), along=1, ax=new_axes())
    assert ax.get_ylabel() == "noise covariance of x1 and x2"
    assert "95 % interval" in legend(ax)
    np.testing.assert_allclose(np.median(line(ax, "learned").get_ydata()), 0.2, atol=0.05)
    with_band = plot.diffusion(sde, data, entry=(0, 0), what="sigma", ax=new_axes())
    without = plot.diffusion(sde, data, entry=(1, 1), what="sigma", ax=new_axes())
    assert "95 % interval" in legend(with_band)
    assert "95 % interval" not in legend(without)


def test_names_with_dollars_are_no_formulas(one):
    sde, data = one
    ax = plot.drift(replace(sde, input_names=("$a$",), output_names=("$a$",)), data, ax=new_axes())
    ax.figure.canvas.draw()
    assert ax.get_xlabel() == r"\$a\$"


# Potentials


def test_the_potential_is_minus_the_integral_of_the_drift(one):
    sde, data = one
    ax = plot.potential(sde, data, ax=new_axes())
    x, U = line(ax, "potential U = −∫ f dx").get_data()
    middle = (x[1:] + x[:-1]) / 2
    np.testing.assert_allclose(-np.diff(U) / np.diff(x), sde.drift(middle)[:, 0], atol=0.02)
    assert U.min() == 0
    assert len([each for each in legend(ax) if "density" in each]) == 1


def test_the_second_potential_is_that_of_the_stationary_density(one):
    sde, data = one
    view = view_of(sde, data)
    _, V = potentials(sde, view, None)
    Sigma, f = sde.covariance(view.x)[:, 0, 0], sde.drift(view.x)[:, 0]
    p = np.exp(-2 * V / Sigma.mean())
    flux = f * p - 0.5 * np.gradient(Sigma * p, view.x)  # no flux in the stationary state
    assert np.abs(flux[2:-2]).max() < 0.01 * np.abs(f * p).max()


def test_even_noise_needs_no_second_potential(one):
    sde, data = one
    from dataclasses import replace

    series = sde.covariance_function.series
    flat = replace(sde.covariance_function, series=replace(series, beta=0 * series.beta))
    even = replace(sde, covariance_function=flat)
    assert len([each for each in plot.potential(even, data, ax=new_axes()).lines if "Σ" in each.get_label()]) == 0


# Planes


def test_arrows_are_the_drift_and_ellipses_the_noise(two):
    sde, data = two
    ax = new_axes()
    assert plot.field(sde, data, ax=ax) is ax
    from matplotlib.quiver import Quiver

    arrows = next(each for each in ax.collections if isinstance(each, Quiver))
    f = sde.drift(np.column_stack([arrows.X, arrows.Y]))
    np.testing.assert_allclose(np.column_stack([arrows.U, arrows.V]), f)
    entries = {text.split(" t = ")[0]: float(text.split("= ")[1]) for text in legend(ax) if "=" in text}
    np.testing.assert_allclose(1 / arrows.scale, entries["drift within"])
    ellipses = next(each for each in ax.collections if type(each) is PolyCollection)
    corners = ellipses.get_paths()[0].vertices[:60]
    center = corners.mean(axis=0)
    covariance = 2 * np.cov((corners - center).T, bias=True) / entries["noise within"]
    np.testing.assert_allclose(covariance, sde.covariance(center[None])[0], rtol=1e-6)
    assert labels(ax) == ("x1", "x2")
    assert "data" in legend(ax)


def test_the_legend_of_a_field_leaves_room_for_titles(two):
    ax = new_axes()
    plot.field(*two, ax=ax)
    ax.set_title("a", loc="left")
    ax.set_title("flow")
    ax.figure.draw_without_rendering()
    box = ax.get_legend().get_window_extent()
    assert box.y1 < ax.xaxis.label.get_window_extent().y0
    assert box.y0 > 0


def test_streams_and_no_ellipses(two):
    sde, data = two
    ax = plot.field(sde, data, stream=True, ellipses=False, ax=new_axes())
    assert legend(ax) == ["data", "direction of the drift"]
    assert legend(plot.field(sde, ellipses=False, ax=new_axes()))[0] == "training data"
    assert legend(plot.field(without_places(sde), ellipses=False, ax=new_axes()))[0].startswith("drift within")


def test_phase_space_of_an_oscillator(oscillator):
    sde, data = oscillator
    ax = plot.field(sde, data, ax=new_axes())
    from matplotlib.quiver import Quiver

    arrows = next(each for each in ax.collections if isinstance(each, Quiver))
    np.testing.assert_allclose(arrows.U, arrows.Y)  # positions move with the velocity
    assert labels(ax) == ("x", "v")
    noise = next(each for each in ax.collections if type(each) is LineCollection)
    for segment in noise.get_segments():
        assert segment[0, 0] == pytest.approx(segment[1, 0])


def test_maps_have_values_colours_and_cells_without_data(two, three):
    sde, data = two
    ax = new_axes()
    assert plot.heatmap(sde, data, entry=1, ax=ax) is ax
    mesh = ax.collections[0]
    points = np.asarray(mesh.get_coordinates()).reshape(-1, 2)
    np.testing.assert_allclose(mesh.get_array().ravel(), sde.drift(points)[:, 1])
    assert mesh.norm.vmin == -mesh.norm.vmax
    assert [patch.get_label() for patch in ax.patches] == ["no data"]
    assert ax.child_axes[0].get_ylabel() == "drift of x2"
    sde, data = three
    ax = plot.heatmap(sde, data, entry="p", along=("c", "a"), ax=new_axes())
    assert labels(ax) == ("c", "a")
    assert "b =" in ax.get_title()
    assert ax.child_axes[0].get_ylabel() == "drift of p"
    assert len(plot.heatmap(without_places(sde), ax=new_axes()).patches) == 0


def test_what_is_even_is_said_instead_of_coloured(three):
    sde, data = three
    ax = plot.heatmap(sde, data, what="covariance", entry=("p", "p"), ax=new_axes())
    value = number_text(sde.covariance(data.inputs[:1])[0, 0, 0])
    assert [text.get_text() for text in ax.texts] == [f"noise variance of p\nis {value} everywhere"]
    assert not ax.child_axes
    assert not ax.collections


def test_arrows_are_within_the_axes(two, oscillator):
    from matplotlib.quiver import Quiver

    for sde, data in (two, oscillator):
        ax = plot.field(sde, data, ax=new_axes())
        for arrows in (each for each in ax.collections if isinstance(each, Quiver)):
            reach = 0.5 / arrows.scale * np.abs(np.stack([arrows.U, arrows.V]))
            for at, by, (low, high) in zip(arrows.XY.T, reach, (ax.get_xlim(), ax.get_ylim()), strict=True):
                assert low < (at - by).min()
                assert (at + by).max() < high


def test_words_on_axes_are_in_lines_of_like_length():
    assert lines("x, 1 to 200 steps after an observed start", 36) == "x, 1 to 200 steps after\nan observed start"
    assert lines("noise of height_of_the_column", 16) == "noise of\nheight_of_\nthe_column"
    assert lines("drift of x") == "drift of x"


# Figures of several panels


def test_slices_have_a_row_for_each_function_and_a_column_for_each_input(three):
    sde, data = three
    figure = plot.slices(sde, data)
    assert len(figure.axes) == 4 * 3
    assert [ax.get_ylabel() for ax in figure.axes[::3]] == [
        "drift\nof p",
        "drift\nof q",
        "noise variance\nof p",
        "noise variance\nof q",
    ]
    assert [ax.get_xlabel() for ax in figure.axes[-3:]] == ["a", "b", "c"]
    assert figure.axes[0].get_ylim() == figure.axes[2].get_ylim()
    assert "medians" in figure.get_suptitle()
    part = Figure(layout="constrained")
    assert plot.slices(sde, data, inputs=["c"], outputs=[0], figure=part) is part
    assert len(part.axes) == 2


@pytest.mark.parametrize(("name", "n_panels"), [("one", 3), ("two", 3), ("three", 12), ("oscillator", 2)])
def test_overview_suits_the_number_of_variables(name, n_panels, request):
    sde, data = request.getfixturevalue(name)
    figure = plot.overview(sde, data)
    assert len(figure.axes) == n_panels  # a constant Σ is in the title
    assert ("same everywhere" in figure.get_suptitle()) == (name in {"two", "oscillator"})
    figure.canvas.draw()


# Residuals, training, simulations


def test_residuals_are_drawn_against_normals_and_inputs(two):
    sde, data = two
    diagnosis = itofit.check(sde, data)
    axes = plot.residuals(diagnosis, sde=sde)
    assert axes.shape == (3,)
    assert [ax.get_xlabel() for ax in axes[1:]] == ["x1", "x2"]
    assert {"x1", "x2", "95 % if normal"} == set(legend(axes[0]))
    drawn = line(axes[0], "x2").get_ydata()
    assert (drawn[0], drawn[-1]) == (diagnosis.residuals[:, 1].min(), diagnosis.residuals[:, 1].max())
    given = [new_axes() for _ in range(3)]
    assert list(plot.residuals(diagnosis, axes=given)) == given
    assert given[1].get_xlabel() == "x1"


def test_bins_have_the_moments_of_their_rows():
    rng = np.random.default_rng(0)
    x, z = rng.uniform(size=(2, 400))
    found = binned(x, z)
    assert len(found.x) == 8
    first = z[np.argsort(x)[:50]]
    np.testing.assert_allclose(found.mean[0], first.mean())
    np.testing.assert_allclose(found.variance[0], first.var(ddof=1))
    np.testing.assert_allclose(found.mean_error[0], first.std() / np.sqrt(50))


def test_history_is_drawn_for_both_trainings(one):
    sde, _ = one
    ax = new_axes()
    assert plot.history(sde, ax=ax) is ax
    assert [each.split(" ")[0] for each in legend(ax)] == ["drift", "covariance"]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), sde.drift_function.training.score)
    assert "log-evidence" in ax.get_ylabel()


def test_simulated_paths_are_distributed_as_those_observed(one, two):
    for (sde, data), component in ((one, 0), (two, "x2")):
        ax = new_axes()
        assert plot.distributions(sde, data, component=component, ax=ax) is ax
        assert "1 to 60 steps" in ax.get_xlabel()
        observed, simulated = legend(ax)
        assert (observed, simulated[:9]) == ("observed", "simulated")
    sde, data = one
    found = compare(sde, data, 0, 500, np.random.default_rng(0))
    assert found.n_paths == 500
    assert len(found.simulated) == 10 * len(found.observed)
    np.testing.assert_allclose(found.observed, (data.inputs + data.increments)[:, 0])
    # 50 tracks: means differ by at most 5 standard errors of the tracks
    assert abs(found.simulated.mean() - found.observed.mean()) < 5 * found.observed.std() / np.sqrt(50)
    assert abs(np.log(found.simulated.std() / found.observed.std())) < 0.2


def test_pairs_are_compared_after_one_step(one):
    sde, data = one
    alone = data[np.random.default_rng(0).permutation(len(data))[:500]]
    ax = plot.distributions(sde, itofit.Transitions(alone.inputs, alone.increments, alone.h), ax=new_axes())
    assert "one step" in ax.get_xlabel()


def test_positions_and_velocities_of_an_oscillator_are_compared(oscillator):
    sde, data = oscillator
    assert plot.distributions(sde, data, ax=new_axes()).get_xlabel().startswith("v,")
    assert plot.distributions(sde, data, component="x", ax=new_axes()).get_xlabel().startswith("x,")
    found = compare(sde, data, 0, 60, np.random.default_rng(0))
    assert found.observed.shape == found.simulated.shape == (60 * 39,)
    assert abs(np.log(found.simulated.std() / found.observed.std())) < 0.2


def test_pieces_are_unbroken_and_not_too_long():
    begin, length = pieces(np.repeat([0, 1, 2], [5, 1, 3]), most=2)
    assert begin.tolist() == [0, 2, 4, 5, 6, 8]
    assert length.tolist() == [2, 2, 1, 1, 2, 1]


def test_blocks_are_drawn_as_well(one):
    sde, data = one
    blocked = itofit.Transitions.from_blocks([data], names=["height"])
    for draw in (plot.drift, plot.potential, plot.distributions):
        draw(sde, blocked, ax=new_axes())


def test_times_of_arrows_are_round():
    assert [nice_below(value) for value in (1.0, 4.9, 0.051, 730.0)] == [1.0, 3.0, 0.05, 700.0]


# What cannot be drawn


def test_bad_input_is_refused_with_advice(one, two, three):
    (sde1, data1), (sde2, data2), (sde3, data3) = one, two, three
    cases = [
        (lambda: plot.drift("sde"), "LearnedSDE"),
        (lambda: plot.drift(sde1, data1.inputs), "must be Transitions"),
        (lambda: plot.drift(sde1, data2), "1 input and 1 output, the data 2 and 2"),
        (lambda: plot.drift(sde2, along=2), "0 \\(x1\\), 1 \\(x2\\); got 2"),
        (lambda: plot.drift(sde2, output="y"), "output must be"),
        (lambda: plot.drift(sde1, output="heigt"), "got 'heigt' \\(is it 'height' that you mean\\?\\)"),
        (lambda: plot.slices(sde3, inputs=["A"]), "is it 'a' that you mean"),
        (lambda: plot.drift(sde2, at=[1.0]), "expected shape \\(2,\\)"),
        (lambda: plot.drift(sde1, ax="here"), "ax must be"),
        (lambda: plot.diffusion(sde2, entry=0), "two variables"),
        (lambda: plot.diffusion(sde2, what="noise"), "'variance', 'sigma'"),
        (lambda: plot.potential(sde2, data2), "one variable"),
        (lambda: plot.field(sde1, data1), "two variables"),
        (lambda: plot.field(sde3, data3), "heatmap"),
        (lambda: plot.heatmap(sde1), "two inputs"),
        (lambda: plot.heatmap(sde2, along=(0, 0)), "different"),
        (lambda: plot.slices(sde2, inputs=[]), "at least one"),
        (lambda: plot.overview(sde2, figure=3), "figure must be"),
        (lambda: plot.residuals(sde1), "itofit.check"),
        (lambda: plot.residuals(itofit.check(sde1, data1), axes=[new_axes()]), "2 matplotlib Axes"),
        (lambda: plot.residuals(itofit.check(sde1, data1), sde=sde2), "another model"),
        (lambda: plot.distributions(sde3, data3), "general"),
        (lambda: plot.distributions(sde1, None), "needs data"),
        (lambda: plot.distributions(sde1, data1, n_paths=0), "n_paths"),
    ]
    for draw, message in cases:
        with pytest.raises(InputError, match=message):
            draw()


def test_data_whose_variables_are_in_another_order_are_refused(three):
    sde, data = three
    other = itofit.Transitions(data.inputs, data.increments, data.h, None, None, ["b", "a", "c"], ["p", "q"])
    for draw in (plot.drift, plot.diffusion, plot.heatmap, plot.slices, plot.overview):
        with pytest.raises(InputError, match="the model has a, b, c, the data b, a, c"):
            draw(sde, data=other)


def test_without_matplotlib_it_says_what_to_install(one, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r'drawing needs matplotlib: pip install "itofit\[plot\]"'):
        plot.drift(*one)


def test_nothing_is_imported_before_it_is_needed():
    import subprocess

    code = "import sys, itofit.plot, itofit.looking.report; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    code = """
import sys, itofit
slow = ("matplotlib", "pandas", "jax", "typer", "sklearn", "scipy.stats", "scipy.integrate", "itofit.plot")
assert not [name for name in slow if name in sys.modules]
assert set(itofit.__all__) <= set(dir(itofit))
import itofit.looking.report.page
assert callable(itofit.report) and callable(itofit.check)  # the function, also when its package is imported
assert itofit.plot.drift and itofit.check is itofit.diagnostics.check
try:
    itofit.colour
except AttributeError as error:
    assert "no attribute 'colour'" in str(error)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_paths_start_from_some_pieces_of_long_data():
    x = np.arange(1000.0)[:, None]
    data = Transitions.from_pairs(x, x + 1, 1.0)
    begin, length = np.arange(0, 1000, 10), np.full(100, 10)
    rows, starts, lengths = _some(data, begin, length, 95, np.random.default_rng(0))
    assert len(rows) == lengths.sum() == 100
    np.testing.assert_array_equal(starts, np.arange(0, 100, 10))
    pieces = rows.inputs.reshape(10, 10)
    assert (np.diff(pieces, axis=1) == 1).all()  # each as it was
    assert (pieces[:, 0] % 10 == 0).all()
    assert len(np.unique(pieces)) == 100
    assert _some(data, begin, length, 1000, np.random.default_rng(0))[0] is data


# Where data are


def test_places_that_only_single_inputs_reach_count_as_far_from_the_data():
    rng = np.random.default_rng(0)
    along = rng.uniform(-2, 2, (3000, 1))
    x = np.concatenate([along, along, rng.normal(size=(3000, 1))], axis=1) + 0.1 * rng.normal(size=(3000, 3))
    data = Transitions.from_pairs(x, x + 0.1 * rng.normal(size=x.shape), 0.1)
    places = np.array([[1.0, 1.0, 0.0], [-1.5, -1.5, 0.5], [1.0, -1.0, 0.0], [0.0, 0.0, 5.0]])
    np.testing.assert_array_equal(reached(x, data.periods, places), [True, True, False, False])
    assert 0.98 < reached(x, data.periods, x).mean() <= 1.0
    turned = Transitions.from_pairs(x, x, 0.1, periodic={"x3": (-3.0, 3.0)})
    opposite, beyond = reached(turned.inputs, turned.periods, np.array([[0.0, 0.0, 2.9], [0.0, 0.0, -2.9]]))
    assert opposite == beyond  # they are 0.2 from each other across the cut


def test_slices_are_shaded_off_the_diagonal_of_the_data():
    rng = np.random.default_rng(0)
    along = rng.uniform(-2, 2, (3000, 1))
    x = np.concatenate([along, along], axis=1) + 0.1 * rng.normal(size=(3000, 2))
    data = Transitions.from_pairs(x, x - 0.05 * x + 0.1 * rng.normal(size=x.shape), 0.1)
    sde = itofit.fit(data, rng=0)
    view = view_of(sde, data, 0)  # at the median of the other input, about 0
    middles = 0.5 * (view.edges[1:] + view.edges[:-1])
    assert view.counts[np.abs(middles) < 1.8].min() > 40
    assert view.sparse[np.abs(middles) > 1.0].all()
    assert not view.sparse[np.abs(middles) < 0.2].any()


def test_what_is_shaded_depends_on_the_data_that_were_learned_from():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-2, 0, 20_000), rng.uniform(0, 2, 20)])
    data = Transitions.from_pairs(x, x - 0.05 * x + 0.1 * rng.normal(size=x.shape), 0.1)
    sde = itofit.fit(data, rng=0)
    assert len(sde.data.places.inputs) == 2000
    others = Transitions.from_pairs(-x, -x, 0.1)  # most of them on the right
    for shown in (None, data, others):
        view = view_of(sde, shown)
        right = 0.5 * (view.edges[1:] + view.edges[:-1]) > 0.1
        assert view.sparse[right].all(), shown
        assert not view.sparse[~right][1:-2].any(), shown
    assert view.counts[right].sum() > 15_000
    assert view.words == ("data", "few training data")
    assert view_of(sde, data).words == ("data", "few data")


def test_maps_and_fields_without_data_are_those_of_the_training():
    rng = np.random.default_rng(0)
    along = rng.uniform(-2, 2, (5000, 1))
    x = np.concatenate([along, along], axis=1) + 0.1 * rng.normal(size=(5000, 2))
    sde = itofit.fit(Transitions.from_pairs(x, x - 0.05 * x + 0.1 * rng.normal(size=x.shape), 0.1), rng=0)
    plane = plane_of(sde, None)
    np.testing.assert_array_equal(
        plane.known(np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])), [True, True, False, False]
    )
    assert len(plane.rows) == 2000
    assert np.abs(rest_point(sde, None, None)[0] - np.median(x, axis=0)).max() < 0.1
    formula = sde.formula(Transitions.from_pairs(x, x - 0.05 * x + 0.1 * rng.normal(size=x.shape), 0.1), degree=1)
    assert not plane_of(formula, None).known(np.array([[1.0, -1.0]]))[0]
