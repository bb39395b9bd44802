"""The figures of the experiments: what is in them, not how they look."""

import builtins
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex

from itofit.experiments import figures
from itofit.experiments.catalogue import CASES
from itofit.experiments.figures.drawing import outside_text
from itofit.experiments.figures.paths import mean_and_quantiles
from itofit.experiments.results import TRUTH, Run

LABELS = {"algorithm-2": "Algorithm 2", "adam": "Adam", TRUTH: "truth"}
BOTH = ["algorithm-2", "adam"]


def make_run(name, method, run=0, loss=-1.5, seconds=2.0, curve=None, scale=1.0, n=40):
    """A run whose functions are the true ones times `scale`."""
    case = CASES[name]
    points = np.random.default_rng(run).uniform(0.1, 0.4, (n, case.n_inputs))
    times, losses = ([seconds], [loss]) if curve is None else curve
    return Run(
        experiment=name,
        method=method,
        run=run,
        seed=run,
        n_train=900,
        n_validation=100,
        loss=loss,
        truth_loss=-1.6 - 0.1 * run,
        expected_loss=-1.62,
        lowest_loss=loss,
        seconds=seconds,
        seconds_to_best=seconds,
        compile_seconds=0.0,
        settings="",
        versions="",
        curve_seconds=np.array(times, dtype=float),
        curve_losses=np.array(losses, dtype=float),
        points=points,
        drift=scale * case.truth.drift(points),
        covariance=scale**2 * case.truth.covariance(points),
        histogram=np.empty((0, 0, 0)),
        edges=np.empty((0, 0)),
    )


def with_histogram(run, n_times=6, n_bins=5, seed=0):
    n = len(CASES[run.experiment].components)
    shares = np.random.default_rng(seed).dirichlet(np.ones(n_bins), (n, n_times))
    return replace(run, histogram=shares, edges=np.tile(np.linspace(-1.0, 2.0, n_bins + 1), (n, 1)))


def trained(name, **scales):
    """The truth and one run of each method."""
    return [make_run(name, m.replace("_", "-"), scale=s) for m, s in {"truth": 1.0, **scales}.items()]


def bars(container):
    """Half lengths of the error bars of a container: in x, in y."""
    segments = [np.array(lines.get_segments()) for lines in container.lines[2]]
    return [(s[:, 1] - s[:, 0]).max(axis=-1) / 2 for s in segments]


def container_of(figure, label):
    return next(c for c in figure.axes[0].containers if c.get_label() == label)


def texts(axes):
    return [text.get_text() for text in axes.texts]


def legend(figure):
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


# Loss against time


def test_markers_and_bars_are_means_and_standard_deviations():
    losses, seconds = [-1.5, -1.4, -1.55], [2.0, 3.0, 2.5]
    runs = [make_run("3a", "algorithm-2", i, losses[i], seconds[i]) for i in range(3)]
    figure = figures.loss_against_time(CASES["3a"], [make_run("3a", TRUTH), *runs], LABELS)
    marker = container_of(figure, "Algorithm 2")
    np.testing.assert_allclose(marker.lines[0].get_xydata(), [[2.5, np.mean(losses)]])
    np.testing.assert_allclose(np.ravel(bars(marker)), [np.std(seconds, ddof=1), np.std(losses, ddof=1)])
    axes = figure.axes[0]
    assert figure.get_suptitle() == "Experiment 3a: one-dimensional, cubic"
    assert axes.get_xscale() == "log"
    assert "training time (s)" in axes.get_xlabel()
    assert "time to the returned network" in axes.get_xlabel()
    assert "standard deviation of 3 runs" in axes.get_xlabel()
    assert axes.get_ylabel() == "validation loss"


def test_the_lines_are_the_truth_on_the_same_points_and_the_expected_loss():
    runs = [make_run("3a", method, i) for i in range(3) for method in (TRUTH, *BOTH)]
    axes = figures.loss_against_time(CASES["3a"], runs, LABELS).axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    truth, expected = lines["truth on the same points (−1.7)"], lines["expected minimum (−1.62)"]
    np.testing.assert_allclose(truth.get_ydata(), -1.7)
    np.testing.assert_allclose(expected.get_ydata(), -1.62)
    assert truth._dash_pattern != expected._dash_pattern


def test_curves_are_means_over_the_epochs_that_all_runs_have():
    times = np.arange(41.0)
    first, second = 30 * np.exp(-times) - 1.5, 20 * np.exp(-times) - 1.4
    runs = [
        make_run("3a", "adam", 0, -1.5, 40.0, (times, first)),
        make_run("3a", "adam", 1, -1.4, 60.0, (2 * times[:31], second[:31])),
    ]
    figure = figures.loss_against_time(CASES["3a"], runs, LABELS)
    curve = next(line for line in figure.axes[0].lines if len(line.get_xdata()) > 2)
    np.testing.assert_allclose(curve.get_xdata(), 1.5 * times[1:31])  # time zero has no place on a log axis
    np.testing.assert_allclose(curve.get_ydata(), (first + second)[1:31] / 2)
    with_bars = next(c for c in figure.axes[0].containers if c.get_label() != "Adam")
    (lengths,) = bars(with_bars)
    middle = np.array(with_bars.lines[2][0].get_segments())[:, 0, 0]
    at = np.rint(middle / 1.5).astype(int)
    np.testing.assert_allclose(lengths, np.std([first[at], second[at]], axis=0, ddof=1))
    assert 8 <= len(at) <= 12


def test_the_range_is_that_of_the_final_losses():
    curve = (np.arange(6.0), [1e9, 300.0, 5.0, 0.0, -1.4, -1.5])
    runs = [make_run("3a", "algorithm-2", i, -1.55) for i in range(2)]
    runs += [make_run("3a", "adam", i, -1.5, 5.0, curve) for i in range(2)]
    low, high = figures.loss_against_time(CASES["3a"], runs, LABELS).axes[0].get_ylim()
    assert -2 < low < -1.65  # the truth's, which is near
    assert -1.5 < high < -1.2


def test_what_is_far_off_is_named_in_the_legend():
    runs = [make_run("4a", "algorithm-2", i, -16.1 + 0.01 * i) for i in range(2)]
    runs += [make_run("4a", "adam", i, 1e6) for i in range(2)]
    runs = [replace(run, truth_loss=-5.0, expected_loss=-16.2) for run in runs]
    figure = figures.loss_against_time(CASES["4a"], runs, LABELS)
    assert legend(figure) == [
        "Algorithm 2",
        "Adam\n(off scale: 1e+06)",
        "truth on the same points (−5, off scale)",
        "expected minimum (−16.2)",
    ]
    assert figure.axes[0].get_ylim()[1] < -15


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_diverged_runs_are_counted_and_left_out(bad):
    curve = (np.arange(4.0), [3.0, bad, -1.0, -1.5])
    runs = [make_run("3a", "adam", i, -1.5, 3.0, curve) for i in range(2)]
    runs += [make_run("3a", "adam", 2, bad, 3.0, (np.arange(4.0), [3.0, bad, bad, bad]))]
    runs += [make_run("3a", "hybrid", i, bad) for i in range(2)]
    figure = figures.loss_against_time(CASES["3a"], runs, LABELS)
    assert legend(figure)[:2] == ["Adam\n(1 of 3 runs diverged)", "hybrid\n(2 of 2 runs diverged)"]
    assert np.isfinite(figure.axes[0].get_ylim()).all()
    curve = next(line for line in figure.axes[0].lines if len(line.get_xdata()) == 2 and line.get_xdata()[0] == 2)
    np.testing.assert_allclose(curve.get_ydata(), [-1.0, -1.5])
    assert len(figures.true_against_trained(CASES["3a"], runs, LABELS, ["adam", "hybrid"]).axes) == 2
    figure.draw_without_rendering()


def test_one_run_has_no_bars():
    runs = [make_run("3a", "algorithm-2"), make_run("3a", "adam", curve=([0, 1, 2], [5, -1, -1.5]))]
    figure = figures.loss_against_time(CASES["3a"], runs, LABELS)
    assert all(not container.lines[2] for container in figure.axes[0].containers)
    assert "one run of each method" in figure.axes[0].get_xlabel()


def test_methods_can_be_told_apart_without_colour():
    looks = list(figures.LOOKS.values())
    assert len({marker for _, marker, _ in looks}) == len({colour for colour, _, _ in looks}) == len(looks)
    with_epochs = [figures.LOOKS[m][2] for m in ("adam", "adam-deep", "hybrid", "hybrid-deep")]
    assert len(set(with_epochs)) == 4


# True and trained functions


@pytest.mark.parametrize(
    ("name", "entries"),
    [
        ("1", ["f(x)", "σ(x)"]),
        ("2", ["f₁(x)", "f₂(x)", "σ₁₁(x)", "σ₂₂(x)"]),
        ("4a", ["f₁(x)", "f₂(x)", "f₃(x)", "σ₁₁(x)", "σ₁₂(x)", "σ₁₃(x)", "σ₂₂(x)", "σ₂₃(x)", "σ₃₃(x)"]),
        ("4b", ["f₁(x)", "f₂(x)", "f₃(x)", "σ₁₁(x)", "σ₂₁(x)", "σ₂₂(x)", "σ₃₁(x)", "σ₃₂(x)", "σ₃₃(x)"]),
        ("5", ["f(x, v)", "σ(x, v)"]),
    ],
)
def test_a_panel_for_each_entry_and_method(name, entries):
    runs = trained(name, algorithm_2=1.1, adam=0.9)
    figure = figures.true_against_trained(CASES[name], runs, LABELS, BOTH)
    assert [axes.get_title() for axes in figure.axes] == [
        "Algorithm 2, run\N{NO-BREAK SPACE}0",
        "Adam, run\N{NO-BREAK SPACE}0",
    ] * len(entries)
    assert figure.get_size_inches()[0] <= 11
    for entry, left, right in zip(entries, figure.axes[::2], figure.axes[1::2], strict=True):
        assert entry in left.get_xlabel() + left.get_ylabel()
        assert left.get_shared_x_axes().joined(left, right)
        assert left.get_shared_y_axes().joined(left, right)


def test_functions_of_one_input_over_it():
    runs = [make_run("3a", m, i, -1.5 - 0.1 * i, scale=s) for i in range(3) for m, s in ((TRUTH, 1), ("adam", 1.1))]
    drift, diffusion = figures.true_against_trained(CASES["3a"], runs, LABELS, ["adam"]).axes
    lines = {line.get_label(): line for line in drift.lines}
    best = runs[-1]
    order = np.argsort(best.points[:, 0])
    np.testing.assert_allclose(lines["trained"].get_xdata(), best.points[order, 0])
    np.testing.assert_allclose(lines["trained"].get_ydata(), best.drift[order, 0])
    np.testing.assert_allclose(lines["true"].get_ydata(), runs[-2].drift[order, 0])
    assert lines["true"].get_linestyle() != lines["trained"].get_linestyle()
    assert len(drift.lines) == 4  # two other runs
    assert drift.get_title() == "Adam, run\N{NO-BREAK SPACE}2"
    error = 0.1 * np.sqrt(np.mean(runs[-2].drift ** 2))
    assert texts(drift) == [f"RMSE {error:.3g}"]
    sigma = next(line for line in diffusion.lines if line.get_label() == "trained")
    np.testing.assert_allclose(sigma.get_ydata() ** 2, best.covariance[order, 0, 0])


def test_diffusion_is_in_the_units_of_the_figure():
    runs = trained("7", adam=1.0)
    _, diffusion = figures.true_against_trained(CASES["7"], runs, LABELS, ["adam"]).axes
    line = next(line for line in diffusion.lines if line.get_label() == "trained")
    np.testing.assert_allclose(np.sort(line.get_ydata()), np.sort(2 * np.sqrt(runs[0].covariance[:, 0, 0])))


def test_functions_of_more_inputs_against_the_true_ones():
    runs = trained("2", adam=1.1)
    axes = figures.true_against_trained(CASES["2"], runs, LABELS, ["adam"]).axes[0]
    np.testing.assert_allclose(
        axes.collections[0].get_offsets(), np.stack([runs[0].drift[:, 0], runs[1].drift[:, 0]], axis=1)
    )
    assert axes.get_xlabel() == "true f₁(x)"
    assert axes.get_ylabel() == "trained f₁(x)"
    assert axes.lines[0].get_slope() == 1


def test_constant_entries_are_histograms_with_the_truth():
    runs = trained("5", adam=1.1)
    axes = figures.true_against_trained(CASES["5"], runs, LABELS, ["adam"]).axes[1]
    sigma = np.sqrt(runs[0].covariance[0, 0, 0])
    np.testing.assert_allclose(axes.lines[0].get_xdata(), sigma)
    (stairs,) = axes.patches
    values, edges, _ = stairs.get_data()
    bin_ = np.argmax(values)
    assert values[bin_] == pytest.approx(1.0)
    assert edges[bin_] <= 1.1 * sigma <= edges[bin_ + 1]
    assert texts(axes) == [f"RMSE {0.1 * sigma:.3g}"]


def test_exact_constants_and_zeros():
    figure = figures.true_against_trained(CASES["4b"], trained("4b", adam=1.0), LABELS, ["adam"])
    figure.draw_without_rendering()


def test_values_far_off_do_not_hide_the_others():
    good, wild = make_run("2", "algorithm-2"), make_run("2", "adam")
    drift = wild.drift.copy()
    drift[:4] = 1e6, 1e6
    covariance = wild.covariance.copy()
    covariance[:2] = np.nan
    runs = [good, replace(wild, drift=drift, covariance=covariance)]
    figure = figures.true_against_trained(CASES["2"], runs, LABELS, BOTH)  # without the truth's runs: the case's
    assert np.max(np.abs(figure.axes[0].get_ylim())) < 10 * np.abs(good.drift).max()
    assert texts(figure.axes[1])[0].endswith("\n10 % outside")
    assert texts(figure.axes[5])[0].endswith("\n5 % outside")


# Distributions of paths


def test_images_are_the_histograms():
    case = CASES["5"]
    runs = [
        make_run("5", "adam", 0),
        with_histogram(make_run("5", TRUTH, 1)),
        with_histogram(make_run("5", "adam", 1), seed=1),
    ]
    figure = figures.trajectory_distributions(case, runs, LABELS, BOTH)
    panels = np.reshape([axes for axes in figure.axes if axes.get_label() != "<colorbar>"], (2, 2))
    assert [axes.get_title() for axes in panels[0]] == ["truth", "Adam"]
    assert [axes.get_ylabel() for axes in panels[:, 0]] == ["x", "v"]
    assert {axes.get_xlabel() for axes in panels[1]} == {"time t"}
    for c in range(2):
        meshes = [axes.collections[0] for axes in panels[c]]
        for mesh, run in zip(meshes, runs[1:], strict=True):
            np.testing.assert_allclose(mesh.get_array(), run.histogram[c].T / 0.6)
        assert meshes[0].get_clim() == meshes[1].get_clim()
        assert panels[c, 0].get_shared_y_axes().joined(*panels[c])
    np.testing.assert_allclose(panels[0, 0].get_xlim(), [0, case.n_steps * case.time_step])
    assert [len(axes.lines) for axes in panels[0]] == [3, 6]
    np.testing.assert_allclose(panels[0, 1].lines[3].get_ydata(), panels[0, 0].lines[0].get_ydata())
    assert panels[0, 1].lines[0].get_linestyle() == "-"
    assert panels[0, 1].lines[3].get_linestyle() == "--"


def test_mean_and_quantiles_of_a_uniform_distribution():
    lines = mean_and_quantiles(np.full((3, 50), 0.5 / 50), np.linspace(0, 10, 51))  # half the paths within
    np.testing.assert_allclose(lines, np.repeat([[5.0], [0.5], [9.5]], 3, axis=1))


def test_paths_outside_the_bins_are_said():
    run = with_histogram(make_run("3a", "adam"))
    figure = figures.trajectory_distributions(CASES["3a"], [replace(run, histogram=run.histogram / 2)], LABELS, BOTH)
    assert figure.axes[0].get_title() == "Adam\n50 % outside"


# All of them


@pytest.mark.parametrize("name", ["3a", "7"])
def test_nothing_to_draw_is_no_error(name):
    case = CASES[name]
    made = [
        figures.loss_against_time(case, [], LABELS),
        figures.true_against_trained(case, [make_run(name, TRUTH)], LABELS, BOTH),
        figures.trajectory_distributions(case, [make_run(name, "adam")], LABELS, BOTH),
    ]
    for figure in made:
        assert not figure.axes
        assert any("nothing to draw" in text.get_text() for text in figure.texts)


def test_absent_methods_are_left_out():
    figure = figures.true_against_trained(CASES["2"], trained("2", adam=1.1), LABELS, ["hybrid", "adam", "default"])
    assert {axes.get_title() for axes in figure.axes} == {"Adam, run\N{NO-BREAK SPACE}0"}
    assert to_hex(figure.axes[0].collections[0].get_facecolor()[0]) == figures.LOOKS["adam"][0].lower()


def test_files_are_whole_repeatable_and_alone(tmp_path):
    def written(name):
        figures.save(figures.true_against_trained(CASES["2"], trained("2", adam=1.1), LABELS, BOTH), tmp_path / name)
        return [(tmp_path / f"{name}.{kind}").read_bytes() for kind in ("png", "svg")]

    png, svg = written("trained-2.0")
    assert written("again")[1] == svg
    assert png.startswith(b"\x89PNG")
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert b"<dc:date>" not in svg
    assert b"<image" in svg  # the points
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{n}.{k}" for n in ("trained-2.0", "again") for k in ("png", "svg")
    }


def test_a_figure_that_fails_leaves_no_file(tmp_path, monkeypatch):
    figure = figures.loss_against_time(CASES["3a"], [make_run("3a", "adam")], LABELS)
    original = figure.savefig

    def savefig(*args, **kwargs):
        if kwargs["format"] == "svg":
            raise OSError("no space")
        original(*args, **kwargs)

    monkeypatch.setattr(figure, "savefig", savefig)
    with pytest.raises(OSError, match="no space"):
        figures.save(figure, tmp_path / "loss")
    assert not list(tmp_path.iterdir())


def test_saved_figures_are_closed(tmp_path):
    figure = figures.loss_against_time(CASES["3a"], [make_run("3a", "adam")], LABELS)
    figures.save(figure, tmp_path / "loss")
    assert not figure.axes


def test_settings_of_the_user_neither_change_nor_matter(tmp_path):
    def svg(name):
        figures.save(figures.loss_against_time(CASES["3a"], [make_run("3a", "adam")], LABELS), tmp_path / name)
        return (tmp_path / f"{name}.svg").read_bytes()

    plain = svg("plain")
    with mpl.rc_context({"font.size": 30, "axes.grid": True, "lines.linewidth": 9, "svg.fonttype": "none"}):
        before = dict(mpl.rcParams)
        assert svg("other") == plain
        assert dict(mpl.rcParams) == before


def test_missing_matplotlib_says_what_to_do(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r'drawing needs matplotlib: pip install "itofit\[plot\]"'):
        figures.loss_against_time(CASES["3a"], [], LABELS)


@pytest.mark.parametrize(("share", "text"), [(1.0, "100 % outside"), (0.0712, "7.1 % outside"), (0.5, "50 % outside")])
def test_shares_are_plain_percentages(share, text):
    assert outside_text(share) == text
