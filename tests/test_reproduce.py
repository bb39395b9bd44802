"""The reproduction of the paper: its catalogue, resumable runs, tables, verdicts, the page and the command."""

import csv
import json
import re
import shutil
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.testing import CliRunner

import itofit
from itofit.cli import app
from itofit.experiments import epidemic, runner
from itofit.experiments.catalogue import CASES, Case
from itofit.experiments.expected import expected_loss_in_box, expected_loss_of
from itofit.experiments.methods import LABELS, METHODS, Task
from itofit.experiments.reproduce import write_report
from itofit.experiments.reproduction_page import write_page
from itofit.experiments.result_tables import Spread, conclusion, rows_of, verdicts
from itofit.experiments.results import TRUTH, Results, Run
from itofit.experiments.runner import Job, methods_of, missing, perform, run_all, seeds
from itofit.matrices.symmetric import square_root

FEATURES = ["algorithm-2", "default"]
PUBLISHED = ["1", "2", "3a", "3b", "4a", "4b", "5", "6", "7"]


def quiet(message):
    """A listener that does not listen."""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two runs of the quick version of experiments 1 and 2, without gradients."""
    directory = Results.open(tmp_path_factory.mktemp("reproduction") / "results", quick=True, seed=0)
    done = list(run_all(directory, missing(directory, ["1", "2"], FEATURES, 2, 0), 1, quiet))
    assert [d.error for d in done] == [""] * 8
    return directory


# The catalogue


def test_catalogue_holds_the_nine_experiments_and_the_variants():
    assert set(PUBLISHED) <= set(CASES)
    assert set(CASES) - set(PUBLISHED) == {"1-", "5-", "6-lag"}
    assert all({"algorithm-2", "adam"} <= set(CASES[name].published) for name in PUBLISHED)


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("1", -2.0349),
        ("2", -6.8523),
        ("3a", -1.5835),
        ("3b", -3.1671),
        ("4a", -16.1698),
        ("4b", -11.6125),
        ("5", -2.0349),
    ],
)
def test_expected_losses_are_the_published_ones(name, printed):
    assert round(CASES[name].expected(None), 4) == printed


def test_expected_loss_of_the_wave_is_the_published_one():
    data = itofit.Transitions(np.zeros((2, 1)), np.ones((2, 1)), 5e-7, kind="general")
    assert round(CASES["7"].expected(data), 4) == -9.4135


def test_expected_loss_is_the_mean_loss_of_steps_that_are_gaussian():
    rng = np.random.default_rng(0)
    n, h, case = 200_000, 0.01, CASES["2"]
    x = rng.uniform(1, 2, (n, 2))
    sigma = square_root(case.truth.covariance(x), "cholesky")
    steps = h * case.truth.drift(x) + np.sqrt(h) * (sigma @ rng.standard_normal((n, 2, 1)))[:, :, 0]
    losses = itofit.likelihood.gaussian_nll(steps, np.full(n, h), case.truth.drift(x), case.truth.covariance(x))
    error = losses.std() / np.sqrt(n)
    assert abs(losses.mean() - case.expected(None)) < 4 * error  # false alarms: 6e-5


def test_expected_loss_in_a_box_and_of_its_points_agree():
    def covariance(x):
        return (0.1 + x[:, :1] ** 2)[:, :, None]

    x = np.linspace(0, 1, 20_001)[:, None]
    data = itofit.Transitions(x, np.ones_like(x), 0.2)
    exact = expected_loss_in_box(covariance, 0.2, np.zeros(1), np.ones(1))
    assert exact == pytest.approx(expected_loss_of(data, covariance), abs=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_every_case_samples_and_knows_its_truth(name):
    case = CASES[name]
    data = case.sample(np.random.default_rng(0), True)
    assert (data.n_inputs, data.n_outputs) == (case.n_inputs, case.n_outputs)
    x = data.inputs[:5]
    assert case.truth.drift(x).shape == (5, case.n_outputs)
    sigma = case.truth.covariance(x)
    factor = case.shown_diffusion(sigma) / case.diffusion_unit
    np.testing.assert_allclose(factor @ factor.swapaxes(1, 2), sigma, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].paths is not None])
def test_paths_start_where_the_data_do_and_have_their_components(name):
    case = CASES[name]
    paths = case.paths(case.truth, 30, np.random.default_rng(0))
    assert paths.shape == (30, case.n_steps + 1, len(case.components))
    assert np.isfinite(paths).all()


def test_paths_of_the_true_epidemic_are_exact_and_those_of_its_diffusion_close():
    exact, diffusion = (CASES["6"].paths(f, 400, np.random.default_rng(1)) for f in (None, CASES["6"].truth))
    np.testing.assert_allclose(exact.sum(axis=2), 1.0)
    np.testing.assert_allclose((exact * epidemic.POPULATION) % 1, 0.0, atol=1e-9)
    np.testing.assert_allclose(exact.mean(axis=0)[::100], diffusion.mean(axis=0)[::100], atol=0.02)


# Runs


def test_methods_share_data_and_differ_in_functions(results):
    truth, *others = (results.load("1", name, 0) for name in (TRUTH, *FEATURES))
    for other in others:
        np.testing.assert_array_equal(other.points, truth.points)
        assert other.truth_loss == truth.loss
        assert other.n_train == truth.n_train
        assert not np.array_equal(other.drift, truth.drift)


def test_a_finished_run_is_not_repeated(results):
    before = results.path("1", "default", 0).stat().st_mtime_ns
    assert missing(results, ["1", "2"], FEATURES, 2, 0) == []
    assert [job.run for job in missing(results, ["1"], FEATURES, 3, 0)] == [2]
    assert results.path("1", "default", 0).stat().st_mtime_ns == before


def test_a_job_makes_only_what_is_missing_and_the_same_again(results, tmp_path):
    copy = Results(tmp_path / "copy", True)
    shutil.copytree(results.directory, copy.directory)
    copy.path("1", "default", 1).unlink()
    (job,) = missing(copy, ["1"], FEATURES, 2, 0)
    assert job.methods == ("default",)
    assert [done.method for done in perform(job, copy, quiet)] == ["default"]
    again, before = (directory.load("1", "default", 1) for directory in (copy, results))
    assert again.loss == before.loss
    np.testing.assert_array_equal(again.drift, before.drift)


def test_runs_and_experiments_have_seeds_of_their_own():
    different = {seeds(Job(name, run, (), seed)) for name in CASES for run in range(3) for seed in range(2)}
    assert len(different) == len(CASES) * 3 * 2


def test_losses_of_runs_are_those_of_their_data(results):
    data_seed, split_seed, training_seed = seeds(Job("1", 0, (), 0))
    case = CASES["1"]
    train, held_out = case.sample(np.random.default_rng(data_seed), True).split(0.1, rng=split_seed)
    sde = itofit.fit(train, rng=training_seed)
    assert results.load("1", "default", 0).loss == pytest.approx(sde.nll(held_out), rel=1e-12)


def test_a_method_that_fails_leaves_no_file_and_others_run(tmp_path, monkeypatch):
    def fail(task, show_progress):
        raise RuntimeError("on purpose")

    monkeypatch.setitem(METHODS, "algorithm-2", replace(METHODS["algorithm-2"], learn=fail))
    new = Results.open(tmp_path / "r", True, 0)
    first, second = run_all(new, missing(new, ["1"], FEATURES, 1, 0), 1, quiet)
    assert "on purpose" in first.error
    assert not second.error
    assert not new.has("1", "algorithm-2", 0)
    assert new.has("1", "default", 0)


def test_two_processes_make_what_one_makes(results, tmp_path):
    new = Results.open(tmp_path / "r", True, 0)
    heard = []
    jobs = [Job("no such experiment", 0, ("default",), 0), *missing(new, ["1", "2"], ["default"], 1, 0)]
    done = {d.job.experiment: d.error for d in run_all(new, jobs, 2, heard.append)}
    assert "no such experiment" in done.pop("no such experiment")  # one that fails before any method is reported
    assert done == {"1": "", "2": ""}
    assert {label for label, *_ in heard} == {"experiment 1, run 0", "experiment 2, run 0"}
    for name in ("1", "2"):
        assert new.load(name, "default", 0).loss == pytest.approx(results.load(name, "default", 0).loss, rel=1e-9)


def test_long_jobs_come_first(tmp_path):
    new = Results.open(tmp_path / "r", True, 0)
    assert missing(new, list(CASES), None, 1, 0)[0].experiment == "7"


def test_methods_run_where_they_belong():
    assert methods_of("3a", None) == list(METHODS)
    assert methods_of("7", None) == ["algorithm-2", "default", "adam"]
    assert methods_of("7", ["hybrid"]) == ["hybrid"]


def test_ablations_are_what_they_say(monkeypatch):
    calls = []

    def fit(data, **options):
        calls.append(options)
        return real(data, **options)

    real = itofit.fit
    monkeypatch.setattr(itofit, "fit", fit)
    case = CASES["1"]
    train, held_out = case.sample(np.random.default_rng(0), True).split(0.1, rng=0)
    for name in ("algorithm-2", "no-resampling", "drift-step", "default"):
        METHODS[name].learn(Task(case, train, held_out, 0, True), lambda done, of: None)
    paper, plain, step, default = calls
    assert paper["drift"] == case.drift_settings
    assert not paper["refine"]
    assert (plain["drift"].resample, plain["covariance"].resample) == (False, False)
    assert (paper["weight_drift"], step["weight_drift"]) == (None, True)
    assert set(default) == {"rng"}


def test_histograms_are_shares_of_paths(results):
    for name in (TRUTH, *FEATURES):
        run = results.load("2", name, 0)
        assert run.histogram.shape == (2, 101, 80)
        assert ((run.histogram.sum(axis=2) > 0.97) & (run.histogram.sum(axis=2) < 1 + 1e-9)).all()
    assert results.load("2", "default", 1).histogram.size == 0


# The directory


def test_a_run_survives_its_file(results):
    run = results.load("2", "default", 0)
    assert isinstance(run, Run)
    assert run.covariance.shape == (len(run.points), 2, 2)
    assert "itofit" in run.versions


def test_a_damaged_file_is_named(results, tmp_path):
    copy = Results(tmp_path / "copy", True)
    shutil.copytree(results.directory, copy.directory)
    path = copy.path("1", "default", 0)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(itofit.ModelFileError, match="default"):
        copy.all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"itofit": "0.0.1"}, "holds results of itofit 0.0.1"),
        ({"format": 99}, "format 99"),
        ({"quick": False}, "full version; leave out --quick"),
        ({"seed": 7}, "use --seed 7"),
    ],
)
def test_results_of_another_kind_are_refused(tmp_path, change, message):
    Results.open(tmp_path / "r", True, 0)
    manifest = tmp_path / "r" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | change))
    with pytest.raises(itofit.InputError, match=re.escape(message)):
        Results.open(tmp_path / "r", True, 0)


@pytest.mark.parametrize("text", ["", "[]", "{}", "not json"])
def test_a_damaged_manifest_is_named(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(itofit.InputError, match="damaged"):
        Results.open(tmp_path, True, 0)


def test_other_directories_are_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(itofit.InputError, match="not a directory of results"):
        Results.open(tmp_path, True, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


# Tables


def made(method, run, loss, seconds, curve=None):
    """A run of experiment 1 with a given loss, whose truth loses −2."""
    times, losses = curve or ([seconds], [loss])
    empty = np.empty((0, 0))
    return Run(
        experiment="1", method=method, run=run, seed=0, n_train=9, n_validation=1, loss=loss, truth_loss=-2.0,
        expected_loss=-2.0349, lowest_loss=loss, seconds=seconds, seconds_to_best=seconds, compile_seconds=0.0,
        settings="", versions="itofit", curve_seconds=np.array(times, dtype=float),
        curve_losses=np.array(losses, dtype=float), points=np.zeros((1, 1)), drift=np.zeros((1, 1)),
        covariance=np.ones((1, 1, 1)), histogram=np.empty((0, 0, 0)), edges=empty,
    )  # fmt: skip


def test_rows_are_means_and_deviations():
    runs = [made("algorithm-2", k, loss, 2.0) for k, loss in enumerate([-1.9, -2.0, -2.1])]
    (row,) = rows_of(runs)
    assert row.loss == Spread(pytest.approx(-2.0), pytest.approx(0.1), 3)
    assert row.excess.mean == pytest.approx(0.0, abs=1e-12)
    assert row.published.loss == -2.05
    assert row.agreement.startswith("agrees")


def test_one_run_has_no_deviation():
    (row,) = rows_of([made("adam", 0, -1.9, 2.0)])
    assert row.loss.text(4) == "-1.9000"
    assert row.agreement == ""


@pytest.mark.parametrize(
    ("curve", "holds", "reached", "times"),
    [
        (([0, 1, 4], [0.0, -1.0, -2.5]), True, 2, 2.0),  # lower, but later
        (([0, 1, 4], [0.0, -2.5, -2.6]), False, 2, 0.5),  # lower and earlier
        (([0, 1, 4], [0.0, -1.0, -1.5]), True, 0, np.nan),  # never
    ],
)
def test_verdicts_on_known_curves(curve, holds, reached, times):
    runs = [made("algorithm-2", k, -2.0, 2.0) for k in range(2)]
    runs += [made("adam", k, curve[1][-1], 4.0, curve) for k in range(2)]
    (verdict,) = verdicts(runs)
    assert (verdict.holds, verdict.reached) == (holds, reached)
    np.testing.assert_equal(verdict.times_as_long, times)
    assert ("none of 1" in conclusion([verdict])) == holds


def test_verdicts_pair_runs_of_the_same_data():
    runs = [made("algorithm-2", 0, -2.0, 1.0), made("algorithm-2", 1, -3.0, 1.0), made("adam", 1, -2.9, 9.0)]
    (verdict,) = verdicts(runs)
    assert verdict.n == 1
    assert verdict.difference.mean == pytest.approx(0.1)


# The report


@pytest.fixture(scope="module")
def page(results):
    return write_report(results, 1, lambda done, of: None)


def test_tidy_tables_have_a_row_for_each_run_and_epoch(results, page):
    with (results.directory / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    run = results.load("2", "algorithm-2", 1)
    row = next(r for r in rows if (r["experiment"], r["method"], r["run"]) == ("2", "algorithm-2", "1"))
    assert float(row["loss"]) == run.loss
    assert float(row["excess"]) == run.loss - run.truth_loss
    assert row["seed"] == "0"
    with (results.directory / "losses.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 8


def test_figures_are_there_as_png_and_svg(results, page):
    names = {path.name for path in (results.directory / "figures").iterdir()}
    kinds = ("loss", "functions", "paths")
    assert names == {f"{name}-{kind}.{end}" for name in ("1", "2") for kind in kinds for end in ("png", "svg")}


class Links(HTMLParser):
    """Everything that a page refers to."""

    def __init__(self):
        super().__init__()
        self.urls, self.images, self.tags = [], 0, []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.images += tag == "img" and dict(attributes)["alt"] != ""
        self.urls += [value for name, value in attributes if name in ("src", "href", "srcset", "data", "action")]


def test_page_stands_alone(page):
    text = page.read_text(encoding="utf-8")
    links = Links()
    links.feed(text)
    assert links.images == 6
    assert "script" not in links.tags
    assert all(link.startswith(("data:", "#")) for link in links.urls)
    assert "url(" not in text
    assert "quick version" in text


def test_page_shows_ours_beside_the_published(page):
    text = page.read_text(encoding="utf-8")
    assert "-2.0500" in text
    assert "-6.8523" in text
    assert LABELS["default"] in text


def test_page_without_gradients_draws_no_verdict(results):
    assert "Does Adam reach" not in write_page(results.all(), {}, True)


# The command


def call(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def test_command_runs_and_resumes(tmp_path):
    out = tmp_path / "out"
    options = ("1", "--quick", "--runs", 1, "--jobs", 1, "--methods", "algorithm-2,default", "-o", out)
    first = call(*options)
    assert first.exit_code == 0, first.output
    assert "open" in first.output
    assert (out / "index.html").exists()
    second = call(*options)
    assert second.exit_code == 0
    assert "finished already" in second.output
    assert not list(out.rglob("*.partial"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["3c"], "known are 1, 1-, 2, 3a, 3b, 4a, 4b, 5, 5-, 6, 6-lag, 7"),
        (["6lag"], "did you mean 6-lag?"),
        (["1", "--runs", "0"], "--runs must be at least 1"),
        (["1", "--jobs", "0"], "--jobs must be at least 1"),
        (["1", "--methods", "adm"], "did you mean adam?"),
        (["1", "--methods", ","], "--methods names none"),
        (["1", "--seconds", "0"], "--seconds must be positive"),
        (["1", "--seed", "-1"], "--seed must be"),
    ],
)
def test_bad_arguments_are_explained_before_any_work(tmp_path, arguments, message):
    result = call(*arguments, "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("package", "extra"), [("jax", "adam"), ("optax", "adam"), ("matplotlib", "plot")])
def test_a_missing_extra_is_named(tmp_path, monkeypatch, package, extra):
    real = runner.methods_of
    assert "adam" in real("1", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == package else object())
    result = call("1", "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert f'pip install "itofit[{extra}]"' in result.output
    assert not (tmp_path / "out").exists()


@pytest.fixture
def without_figures(monkeypatch):
    """No figures, which other tests look at."""
    monkeypatch.setattr("itofit.experiments.reproduce.draw_experiment", lambda results, name: {})


@pytest.mark.usefixtures("without_figures")
def test_without_gradients_jax_is_not_needed(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in ("jax", "optax") else object())
    result = call("1", "--quick", "--runs", 1, "--jobs", 1, "--methods", "default", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output


def test_an_interrupted_command_says_how_to_go_on(tmp_path, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("itofit.cli.reproduction.run_all", interrupted)
    result = call("1", "--quick", "-o", tmp_path / "out")
    assert result.exit_code == 130
    assert "goes on from here" in result.output


@pytest.mark.usefixtures("without_figures")
def test_a_failed_training_fails_the_command(tmp_path, monkeypatch):
    def fail(task, show_progress):
        raise RuntimeError("on purpose")

    monkeypatch.setitem(METHODS, "algorithm-2", replace(METHODS["algorithm-2"], learn=fail))
    result = call("1", "--quick", "--runs", 1, "--jobs", 1, "--methods", "algorithm-2,default", "-o", tmp_path / "out")
    assert result.exit_code == 1
    assert "on purpose" in result.output
    assert (tmp_path / "out" / "index.html").exists()


def test_command_without_typer_says_what_to_install(monkeypatch):
    from itofit.__main__ import main

    monkeypatch.setitem(sys.modules, "itofit.cli", None)
    monkeypatch.setitem(sys.modules, "typer", None)
    for name in [name for name in sys.modules if name.startswith("itofit.cli")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(SystemExit, match=re.escape('pip install "itofit[cli]"')):
        main()


def test_version():
    result = CliRunner().invoke(app, ["--version"])
    assert result.output.strip() == f"itofit {itofit.__version__}"


def test_case_is_frozen():
    with pytest.raises(AttributeError):
        CASES["1"].name = "one"
    assert isinstance(CASES["1"], Case)
