"""Commands for one's own data, as a user types them: what they print, write and say of mistakes."""

import errno
import gzip
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import itofit
import itofit.files
from itofit._checks import Either, InputError, Message, Option, Variable, message_of
from itofit.cli import app
from itofit.cli.app import folded
from itofit.cli.held_out import hold_out
from itofit.cli.words import OPTIONS, word, worded

pytestmark = pytest.mark.usefixtures("few_paths")


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def tracks(n_tracks=20, n_rows=60, seed=0):
    """A noisy oscillator seen in several tracks."""
    rng = np.random.default_rng(seed)
    frames = []
    for k in range(n_tracks):
        x = np.empty((n_rows, 2))
        x[0] = rng.uniform(-1, 1, 2)
        for i in range(1, n_rows):
            force = np.array([x[i - 1, 1] - x[i - 1, 0], -x[i - 1, 0] - x[i - 1, 1]])
            x[i] = x[i - 1] + 0.05 * force + np.sqrt(0.05) * 0.3 * rng.standard_normal(2)
        frames.append(pd.DataFrame({"cell": f"c{k}", "t": 0.05 * np.arange(n_rows), "pos": x[:, 0], "speed": x[:, 1]}))
    return pd.concat(frames, ignore_index=True)


COLUMNS = ("--time", "t", "--state", "pos,speed", "--track", "cell")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with data and a model learned from them."""
    root = tmp_path_factory.mktemp("cli")
    tracks().to_csv(root / "tracks.csv", index=False)
    result = call("fit", root / "tracks.csv", *COLUMNS, "-o", root / "sde.npz")
    assert result.exit_code == 0, result.output
    (root / "fit.txt").write_text(result.output)
    return root


# What works


def test_directories_patterns_and_several_files(folder, tmp_path):
    """All of them are the one file."""
    files = []
    for i, rows in enumerate((slice(0, 100), slice(100, 610), slice(610, None))):
        files.append(tmp_path / f"part-{i}.parquet")
        tracks()[rows].to_parquet(files[-1], index=False, row_group_size=50)
    expected = json.loads(call("check", folder / "sde.npz", folder / "tracks.csv", *COLUMNS, "--json").output)
    for paths in ([tmp_path], [tmp_path / "*.parquet"], files):
        assert json.loads(call("check", folder / "sde.npz", *paths, *COLUMNS, "--json").output) == expected
    result = call("fit", tmp_path / "part-*.parquet", *COLUMNS, "-o", tmp_path / "sde.npz")
    assert result.exit_code == 0, result.output
    assert itofit.load(tmp_path / "sde.npz").data.n_transitions == itofit.load(folder / "sde.npz").data.n_transitions
    assert call("fit", *files, *COLUMNS, "-o", files[0]).exit_code == 2
    mistaken = call("check", folder / "sde.npz", tmp_path / "*.csv", *COLUMNS)
    assert mistaken.exit_code == 2
    assert "no file matches" in mistaken.output


def test_fit_prints_the_summary_the_check_and_the_loss(folder):
    text = (folder / "fit.txt").read_text()
    assert "f of pos" in text
    assert "discretisation" in text.lower() or "step" in text.lower()
    assert "held-out transitions" in text
    assert itofit.load(folder / "sde.npz").output_names == ("pos", "speed")


def test_fit_is_what_the_library_makes(folder, tmp_path):
    data = itofit.read_transitions(folder / "tracks.csv", time="t", state=["pos", "speed"], track="cell")
    train, _ = data.split(0.1, by="groups", rng=0)
    sde = itofit.load(folder / "sde.npz")
    np.testing.assert_array_equal(sde.drift(data.inputs), itofit.fit(train, rng=0).drift(data.inputs))


def test_fit_for_machines(folder, tmp_path):
    result = CliRunner().invoke(
        app, ["fit", str(folder / "tracks.csv"), *COLUMNS, "-o", str(tmp_path / "a.npz"), "--json", "--ensemble", "2"]
    )
    told = json.loads(result.stdout)
    assert told["outputs"] == ["pos", "speed"]
    assert told["members"] == 1
    assert np.isfinite(told["held_out_loss"])
    assert told["check"]["findings"]


def test_fit_of_everything_and_of_parquet_and_npz(folder, tmp_path):
    frame = tracks(4, 40)
    frame.to_parquet(tmp_path / "a.parquet")
    np.savez(tmp_path / "a.npz", x0=frame[["pos"]][:-1], x1=frame[["pos"]][1:], h=np.full(len(frame) - 1, 0.05))
    for options in ((tmp_path / "a.parquet", *COLUMNS), (tmp_path / "a.npz",)):
        result = call("fit", *options, "-o", tmp_path / "m.npz", "--held-out", 0)
        assert result.exit_code == 0, result.output
        assert "held-out transitions" not in result.output


def test_fit_with_a_step_instead_of_times(tmp_path):
    tracks(1, 200)[["pos"]].to_csv(tmp_path / "path.csv", index=False)
    result = call("fit", tmp_path / "path.csv", "--dt", 0.05, "-o", tmp_path / "m.npz")
    assert result.exit_code == 0, result.output
    assert itofit.load(tmp_path / "m.npz").data.h_mean == pytest.approx(0.05)


def test_info(folder):
    assert call("info", folder / "sde.npz").output.strip() == itofit.load(folder / "sde.npz").summary().strip()
    told = json.loads(CliRunner().invoke(app, ["info", str(folder / "sde.npz"), "--json"]).stdout)
    assert told["inputs"] == ["pos", "speed"]


def test_check_tells_and_exits_by_what_it_finds(folder, tmp_path):
    good = call("check", folder / "sde.npz", folder / "tracks.csv", *COLUMNS)
    assert good.exit_code == 0, good.output
    wrong = tracks(seed=5)
    wrong[["pos", "speed"]] *= 3.0
    wrong.to_csv(tmp_path / "wrong.csv", index=False)
    bad = call("check", folder / "sde.npz", tmp_path / "wrong.csv", *COLUMNS)
    assert bad.exit_code == 1
    assert "bad" in bad.output


def test_check_for_machines(folder):
    result = CliRunner().invoke(app, ["check", str(folder / "sde.npz"), str(folder / "tracks.csv"), *COLUMNS, "--json"])
    assert {finding["verdict"] for finding in json.loads(result.stdout)["findings"]} <= {
        "good",
        "cannot tell",
        "caution",
        "bad",
        "not available",
    }


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_simulate_writes_a_table_with_names(folder, tmp_path, suffix):
    out = tmp_path / f"paths{suffix}"
    result = call(
        "simulate", folder / "sde.npz", "--start", "0.1,-0.2", "--dt", 0.05, "--steps", 20, "--paths", 3, "-o", out
    )
    assert result.exit_code == 0, result.output
    frame = pd.read_csv(out) if suffix == ".csv" else pd.read_parquet(out)
    assert list(frame.columns) == ["track", "time", "pos", "speed"]
    assert len(frame) == 3 * 21


def test_simulate_corrected_and_printed(folder):
    options = ("simulate", folder / "sde.npz", "--start", "0.1,-0.2", "--dt", 0.05, "--steps", 20, "-o", "-")
    sde = itofit.load(folder / "sde.npz")
    for scheme in (None, "euler", "corrected"):
        result = CliRunner().invoke(app, [str(o) for o in options] + (["--scheme", scheme] if scheme else []))
        printed = np.array([line.split(",")[2:] for line in result.stdout.splitlines()[1:]], dtype=float)
        expected = sde.simulate([0.1, -0.2], 0.05, 20, scheme=scheme, rng=0)[0]
        np.testing.assert_allclose(printed, expected, rtol=1e-12)


def test_fit_corrected_for_the_step(folder, tmp_path):
    models = []
    for options in (["--correct-step"], [], ["--no-correct-step"]):
        result = call("fit", folder / "tracks.csv", *COLUMNS, "-o", tmp_path / "m.npz", *options)
        assert result.exit_code == 0, result.output
        models.append(itofit.load(tmp_path / "m.npz"))
    corrected, default, plain = models
    x = np.array([[0.3, -0.2]])
    for sde in (corrected, default):
        np.testing.assert_allclose(sde.one_step.drift(x), plain.drift(x), rtol=1e-10)
    assert corrected.scheme == "corrected"
    assert plain.step_correction is None


def test_errors_of_measurement(tmp_path):
    rng = np.random.default_rng(0)
    rows = []
    for k in range(8):
        x = 0.0
        for i in range(400):
            x = 0.98 * x + 0.1 * rng.normal()
            rows.append((k, 0.02 * i, x + 0.1 * rng.normal()))
    pd.DataFrame(rows, columns=["track", "t", "x"]).to_csv(tmp_path / "noisy.csv", index=False)
    fit = ("fit", tmp_path / "noisy.csv", "-o", tmp_path / "sde.npz", "--measurement-noise")
    result = call(*fit, "0.1")
    assert "measurement given, standard deviation 0.1 of x" in result.output
    assert itofit.load(tmp_path / "sde.npz").measurement_noise.known
    simulated = call(
        "simulate", tmp_path / "sde.npz", "--start", "0", "--dt", "0.02", "--steps", "3", "--observed", "-o", "-"
    )
    assert float(simulated.output.splitlines()[1].split(",")[2]) != 0.0
    assert call(*fit, "none").exit_code == 0
    assert itofit.load(tmp_path / "sde.npz").measurement_noise is None
    for wrong in ("-1", "some"):
        assert "--measurement-noise must be auto, none or a standard deviation > 0" in call(*fit, wrong).output


def test_long_steps_are_left_out_or_kept(tmp_path):
    frame = tracks(20, 400)
    frame = frame[frame.index % 100 < 40]  # nothing was seen for three of five seconds
    frame.to_csv(tmp_path / "a.csv", index=False)
    arguments = ["fit", tmp_path / "a.csv", *COLUMNS, "-o", tmp_path / "m.npz", "--held-out", 0]
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    assert "--keep-long-steps keeps them" in result.stderr
    assert "left out (up to 3" in result.output
    left_out = itofit.load(tmp_path / "m.npz").data.left_out
    assert left_out.n > 20
    result = call(*arguments, "--keep-long-steps")
    assert itofit.load(tmp_path / "m.npz").data.left_out is None


def test_options_of_steps_in_the_words_of_the_command_line():
    assert word(Option("max_h", 0.3)) == "--max-step 0.3"
    assert word(Option("correct_step", True)) == "--correct-step"
    assert word(Option("correct_step", False)) == "--no-correct-step"
    assert word(Option("cross_fit", False)) is None


def test_advice_speaks_of_options(folder, tmp_path):
    coarse = tracks(20, 120)[::5]
    coarse.to_csv(tmp_path / "a.csv", index=False)
    result = call("fit", tmp_path / "a.csv", *COLUMNS, "-o", tmp_path / "m.npz", "--no-correct-step")
    assert "Learn it with --correct-step" in result.output
    assert "correct_step" not in result.output


def test_limits_of_the_step(folder, tmp_path):
    frame = tracks(10, 40)
    frame = frame.drop(frame.index[5::10])  # steps over one row that is missing take twice the time
    frame.to_csv(tmp_path / "a.csv", index=False)
    for options, low, high in ((("--max-step", 0.05), 0.05, 0.05), (("--min-step", 0.1), 0.1, 0.1)):
        result = call("fit", tmp_path / "a.csv", *COLUMNS, *options, "-o", tmp_path / "m.npz", "--held-out", 0)
        assert result.exit_code == 0, result.output
        found = itofit.load(tmp_path / "m.npz").data
        np.testing.assert_allclose([found.h_min, found.h_max], [low, high], rtol=1e-9)
    result = call("fit", tmp_path / "a.csv", *COLUMNS, "--max-step", 0.01, "-o", tmp_path / "m.npz")
    assert result.exit_code == 2
    assert "no transition took a time between --min-step and --max-step: they took 0.05 to 0.1" in result.output


def test_stretches_of_one_track_are_held_out(tmp_path):
    tracks(1, 600)[["t", "pos"]].to_csv(tmp_path / "a.csv", index=False)
    data = itofit.read_transitions(tmp_path / "a.csv")
    train, rest = hold_out(data, 0.1, 0)
    assert len(train) + len(rest) == 599
    follows = np.isclose(rest.inputs[:-1] + rest.increments[:-1], rest.inputs[1:]).mean()
    assert follows > 0.9
    scattered = data[np.random.default_rng(0).permutation(599)]
    assert len(hold_out(scattered, 0.1, 0)[1]) == 60


def test_too_few_rows_to_hold_some_out(tmp_path):
    tracks(1, 60)[["t", "pos"]].to_csv(tmp_path / "a.csv", index=False)
    result = call("fit", tmp_path / "a.csv", "-o", tmp_path / "m.npz")
    assert result.exit_code == 0, result.output
    assert "note: too few transitions (59) to hold some out: judged on those it was learned from" in result.output
    assert "held-out transitions" not in result.output
    assert itofit.load(tmp_path / "m.npz").data.n_transitions == 59


def test_columns_with_commas_spaces_and_letters(tmp_path):
    frame = tracks(4, 40).rename(columns={"pos": "Höhe, in µm", "speed": "v x"})
    frame.to_csv(tmp_path / "a b ü.csv", index=False)
    result = call(
        *("fit", tmp_path / "a b ü.csv", "--time", "t", "--track", "cell"),
        *("--state", 'v x, "Höhe, in µm"', "-o", tmp_path / "m ü.npz", "--held-out", 0),
    )
    assert result.exit_code == 0, result.output
    assert itofit.load(tmp_path / "m ü.npz").input_names == ("v x", "Höhe, in µm")


def test_variables_that_nobody_chose_are_told(folder, tmp_path):
    result = call("check", folder / "sde.npz", folder / "tracks.csv", "--time", "t", "--track", "cell")
    assert "note: variables are pos, speed; choose others with --state" in result.output
    assert "note:" not in call("check", folder / "sde.npz", folder / "tracks.csv", *COLUMNS).output


def test_json_has_no_nan(folder, monkeypatch):
    diagnosis = itofit.check(
        itofit.load(folder / "sde.npz"),
        itofit.read_transitions(folder / "tracks.csv", time="t", state=["pos", "speed"], track="cell"),
    )
    monkeypatch.setattr(type(diagnosis), "as_dict", lambda self: {"a": [float("nan"), {"b": float("inf"), "c": 1.5}]})
    result = CliRunner().invoke(app, ["check", str(folder / "sde.npz"), str(folder / "tracks.csv"), *COLUMNS, "--json"])
    assert json.loads(result.stdout) == {"a": [None, {"b": None, "c": 1.5}]}


def test_a_large_file_is_read_in_parts(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(itofit.files, "LARGE_FILE", 0)
    monkeypatch.setattr(itofit.files, "CHUNK_ROWS", 100)
    result = call("fit", folder / "tracks.csv", *COLUMNS, "-o", tmp_path / "m.npz", "--held-out", 0)
    assert result.exit_code == 0, result.output
    monkeypatch.undo()
    assert call("fit", folder / "tracks.csv", *COLUMNS, "-o", tmp_path / "w.npz", "--held-out", 0).exit_code == 0
    x = np.array([[0.3, -0.2], [0.0, 0.1]])
    parts, whole = (itofit.load(tmp_path / name) for name in ("m.npz", "w.npz"))
    np.testing.assert_allclose(parts.drift(x), whole.drift(x), rtol=1e-9)


# Mistakes


def test_a_missing_file_and_a_missing_model(folder, tmp_path):
    for arguments in (("fit", tmp_path / "none.csv", "-o", tmp_path / "m.npz"), ("info", tmp_path / "none.npz")):
        result = call(*arguments)
        assert result.exit_code == 2
        assert "none." in result.output
        assert "Traceback" not in result.output


def test_a_link_to_nothing(tmp_path):
    (tmp_path / "a.csv").symlink_to(tmp_path / "none.csv")
    result = call("fit", tmp_path / "a.csv", "-o", tmp_path / "m.npz")
    assert result.exit_code == 2
    assert "that you mean" not in result.output


def test_a_demo_where_a_file_is(folder):
    result = call("demo", "-o", folder / "tracks.csv")
    assert result.exit_code == 2
    assert "--output must be a directory" in result.output


def test_a_misspelt_column_is_suggested(folder, tmp_path):
    result = call("fit", folder / "tracks.csv", "--time", "t", "--state", "pos,sped", "-o", tmp_path / "m.npz")
    assert result.exit_code == 2
    assert "speed" in result.output
    assert not (tmp_path / "m.npz").exists()


def test_text_in_a_numeric_column_names_its_row(tmp_path):
    frame = tracks(2, 30).astype({"pos": object})
    frame.loc[17, "pos"] = "broken"
    frame.to_csv(tmp_path / "a.csv", index=False)
    result = call("fit", tmp_path / "a.csv", *COLUMNS, "-o", tmp_path / "m.npz")
    assert result.exit_code == 2
    assert "broken" in result.output
    assert "19" in result.output  # the line of the file


def test_duplicate_times_are_named(tmp_path):
    frame = tracks(3, 30)
    frame.loc[5, "t"] = frame.loc[4, "t"]
    frame.to_csv(tmp_path / "a.csv", index=False)
    result = call("fit", tmp_path / "a.csv", *COLUMNS, "-o", tmp_path / "m.npz")
    assert result.exit_code == 2
    assert "c0" in result.output


def test_unsorted_times_and_lonely_rows_are_noted(tmp_path):
    frame = tracks(6, 40)
    frame = pd.concat(
        [frame.sample(frac=1, random_state=0), pd.DataFrame([["lonely", 0.0, 0.1, 0.1]], columns=frame.columns)]
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    result = call("fit", tmp_path / "a.csv", *COLUMNS, "-o", tmp_path / "m.npz")
    assert result.exit_code == 0, result.output
    assert result.output.count("note:") >= 2
    assert "sorted" in result.output


@pytest.mark.parametrize("content", ["", "t,pos\n"])
def test_empty_files(tmp_path, content):
    (tmp_path / "a.csv").write_text(content)
    result = call("fit", tmp_path / "a.csv", "-o", tmp_path / "m.npz")
    assert result.exit_code == 2
    assert "a.csv" in result.output


def test_a_model_is_not_data_and_data_are_not_a_model(folder, tmp_path):
    result = call("fit", folder / "sde.npz", "-o", tmp_path / "m.npz")
    assert result.exit_code == 2
    assert "model" in result.output
    result = call("info", folder / "tracks.csv")
    assert result.exit_code == 2
    assert "not a readable itofit file" in result.output


def test_an_output_without_a_directory_is_told_before_any_work(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(itofit, "read_transitions", lambda *a, **k: pytest.fail("it began to work"))
    result = call("fit", folder / "tracks.csv", *COLUMNS, "-o", tmp_path / "no" / "m.npz")
    assert result.exit_code == 2
    assert "no directory" in result.output


def test_no_space_left_leaves_nothing(folder, tmp_path, monkeypatch):
    def full(*arguments, **keywords):
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "m.npz"))

    monkeypatch.setattr(np, "savez", full)
    result = call("fit", folder / "tracks.csv", *COLUMNS, "-o", tmp_path / "m.npz")
    assert result.exit_code == 2
    assert "No space left" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--start", "a,b", "--dt", 0.1), "--start"),
        (("--start", "0,0", "--dt", 0.1, "--paths", 0), "--paths"),
        (("--start", "0,0", "--dt", -1), "--dt must be a number > 0"),
        (("--start", "0,0", "--dt", 0.1, "--steps", 0), "--steps"),
        (("--start", "0,0", "--dt", 0.1, "--scheme", "milstein"), "--scheme"),
        (("--start", "0", "--dt", 0.1), "--start must be 2 finite numbers separated by commas, for pos, speed"),
        (("--start", "0,inf", "--dt", 0.1), "--start must be 2 finite numbers"),
    ],
)
def test_bad_simulations(folder, tmp_path, options, message):
    result = call("simulate", folder / "sde.npz", *options, "-o", tmp_path / "p.csv")
    assert result.exit_code == 2
    assert message in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_table_of_unknown_kind(folder, tmp_path):
    result = call("simulate", folder / "sde.npz", "--start", "0,0", "--dt", 0.1, "-o", tmp_path / "p.xlsx")
    assert result.exit_code == 2
    assert ".parquet" in result.output


def mistake(*arguments):
    """What is said of a command that cannot be carried out."""
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--state", "x1", "--time", "t"), "--state: there is no column 'x1' (is it 'x' that you mean?)"),
        (("--state", "x", "--time", "tme"), "--time: there is no column 'tme' (is it 't' that you mean?)"),
        (("--state", "q", "--time", "t"), "--state: there is no column 'q'; the columns are 't', 'x', 'id'"),
        (("--state", "x", "--track", "ids"), "--track: there is no column 'ids' (is it 'id' that you mean?)"),
        (("--state", "x,x"), "--state names a column twice"),
        (("--state", "x,t", "--time", "t"), "the column 't' is named twice, as --state and as --time"),
        (("--state", ""), "--state must name at least one column"),
        (("--state", "x", "--time", "t", "--dt", 1), "give either --time, the column of times, or --dt,"),
        (("--state", "x", "--dt", -1), "--dt must be a number > 0, got -1.0"),
        (("--state", "x", "--dt", 1, "--unit", "s"), "--unit is the unit of a column of dates"),
        (("--state", "x", "--unit", "s"), "--unit s is for dates, but column 't' holds numbers"),
        (("--state", "x", "--unit", "year"), "--unit must be one of"),
        (("--state", "x", "--velocity", "id,t"), "--velocity must name one column for each of --state: expected 1"),
        (("--state", "x"), "the trajectory has the time 0.0 twice, in line 2 and in line 32; if there are several"),
        (("--state", "x"), "give --track"),
        (("--state", "x", "--min-step", 2, "--max-step", 1), "--min-step must be at most --max-step, got 2 and 1"),
        (("--state", "x", "--max-step", 0), "--max-step must be a number > 0"),
        (("--state", "x", "--held-out", 1), "--held-out must be at least 0 and less than 1, got 1"),
        (("--state", "x", "--seed", -1), "--seed"),
        (("--state", "x", "--ensemble", 1), "--ensemble"),
        (("--state", "x,c", "--track", "id"), "column 'c' is constant (5): "),
        (("--state", "x,d", "--track", "id"), "column 'd' is a copy of column 'x' in every row: "),
        (("--state", "x,d", "--track", "id"), "leave one of them out of --state"),
    ],
)
def test_messages_speak_of_options(tmp_path, options, message):
    frame = pd.DataFrame({"t": np.tile(0.1 * np.arange(30), 2), "x": np.random.default_rng(0).normal(size=60)})
    frame["id"] = np.repeat(["a", "b"], 30)
    if "x,c" in options:
        frame["c"] = 5
    if "x,d" in options:
        frame["d"] = frame["x"]
    frame.to_csv(tmp_path / "a.csv", index=False)
    assert message in mistake("fit", tmp_path / "a.csv", *options, "-o", tmp_path / "m.npz")
    assert not (tmp_path / "m.npz").exists()


def test_no_times(tmp_path):
    tracks(2, 30)[["cell", "pos"]].to_csv(tmp_path / "a.csv", index=False)
    said = mistake("fit", tmp_path / "a.csv", "-o", tmp_path / "m.npz")
    assert "give --time, the column of times, or --dt, the time between rows; the columns are 'cell', 'pos'" in said


def test_dates_need_a_unit(tmp_path):
    frame = tracks(1, 60)[["pos"]]
    frame["time"] = pd.date_range("2024-01-01", periods=60, freq="6min").strftime("%Y-%m-%dT%H:%M")
    frame.to_csv(tmp_path / "a.csv", index=False)
    said = mistake("fit", tmp_path / "a.csv", "-o", tmp_path / "m.npz")
    assert "if these are dates, give --unit" in said
    result = call("fit", tmp_path / "a.csv", "-o", tmp_path / "m.npz", "--unit", "h")
    assert result.exit_code == 0, result.output
    assert itofit.load(tmp_path / "m.npz").data.h_mean == pytest.approx(0.1)


def test_an_error_comes_without_notes_about_something_else(tmp_path):
    frame = tracks(3, 30)
    frame.loc[5, "t"] = frame.loc[4, "t"]
    frame.sample(frac=1, random_state=0).to_csv(tmp_path / "a.csv", index=False)
    said = mistake("fit", tmp_path / "a.csv", *COLUMNS, "-o", tmp_path / "m.npz")
    assert "track c0 has the time 0.2 twice" in said
    assert "note:" not in said


def test_notes_of_bad_findings_stay(folder, tmp_path):
    wrong = tracks(seed=5)
    wrong[["pos", "speed"]] *= 3.0
    wrong.sample(frac=1, random_state=0).to_csv(tmp_path / "a.csv", index=False)
    result = call("check", folder / "sde.npz", tmp_path / "a.csv", *COLUMNS)
    assert result.exit_code == 1
    assert "note: the rows of 20 of 20 tracks were not in the order of their times" in result.output


def test_a_lonely_row_is_skipped(tmp_path):
    frame = tracks(6, 40)
    lonely = pd.DataFrame([["lonely", 0.0, 0.1, 0.1]], columns=frame.columns)
    pd.concat([frame, lonely]).to_csv(tmp_path / "a.csv", index=False)
    result = call("fit", tmp_path / "a.csv", *COLUMNS, "-o", tmp_path / "m.npz", "--held-out", 0)
    assert "note: 1 of 7 tracks has one row and was left out: a move needs two" in result.output
    assert itofit.load(tmp_path / "m.npz").data.n_transitions == 6 * 39


def test_parquet_of_a_wrong_type(tmp_path):
    frame = tracks(2, 30)
    frame.assign(pos=pd.Timestamp("2024-01-01")).to_parquet(tmp_path / "dates.parquet")
    frame.assign(pos=frame["pos"].astype(str).where(frame.index != 5, "bad")).to_parquet(tmp_path / "text.parquet")
    said = mistake("fit", tmp_path / "dates.parquet", *COLUMNS, "-o", tmp_path / "m.npz")
    assert "column 'pos' must hold real numbers, got datetime64" in said
    said = mistake("fit", tmp_path / "text.parquet", *COLUMNS, "-o", tmp_path / "m.npz")
    assert "column 'pos' must hold numbers, got 'bad' in row 5" in said


def test_npz_without_the_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", x0=np.arange(50.0))
    said = mistake("fit", tmp_path / "a.npz", "-o", tmp_path / "m.npz")
    assert "give --time" in said
    assert "the arrays are 'x0', and neither x0, x1 and h nor inputs, increments and h" in said
    np.savez(tmp_path / "a.npz", x0=np.arange(50.0), x1=np.arange(50.0))
    said = mistake("fit", tmp_path / "a.npz", "-o", tmp_path / "m.npz")
    assert "there is no array h, the time each move took; give --dt" in said


def test_damaged_gzip(tmp_path):
    whole = bytearray(gzip.compress(tracks(5, 50).to_csv(index=False).encode()))
    damaged = whole.copy()
    damaged[-6] ^= 255  # in its checksum
    for content in (damaged, whole[:-100], b"t,pos\n0,1\n"):
        (tmp_path / "a.csv.gz").write_bytes(content)
        said = mistake("fit", tmp_path / "a.csv.gz", *COLUMNS, "-o", tmp_path / "m.npz")
        assert "a.csv.gz: cannot be read: " in said


def test_text_in_another_encoding(tmp_path):
    (tmp_path / "a.csv").write_text("t,höhe\n0,1\n", encoding="latin-1")
    said = mistake("fit", tmp_path / "a.csv", "-o", tmp_path / "m.npz")
    assert "it is not text in UTF-8" in said


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_text_in_utf_16(encoding, tmp_path):
    (tmp_path / "a.csv").write_text("t,x\n0,1\n1,2\n", encoding=encoding)
    said = mistake("fit", tmp_path / "a.csv", "--time", "t", "--state", "x", "-o", tmp_path / "m.npz")
    assert "a.csv: cannot be read: it is not text in UTF-8" in said
    assert "save it as UTF-8" in said


def test_a_file_that_is_given_twice(folder, tmp_path):
    assert "FILE names " in mistake("fit", folder / "tracks.csv", folder / "tracks.csv", "-o", tmp_path / "m.npz")


@pytest.mark.parametrize("report", ["no/r.html", "m.npz", "tracks.csv", "."])
def test_a_report_that_cannot_be_written_is_told_before_any_work(folder, tmp_path, monkeypatch, report):
    monkeypatch.setattr(itofit, "read_transitions", lambda *a, **k: pytest.fail("it began to work"))
    (tmp_path / "tracks.csv").write_bytes((folder / "tracks.csv").read_bytes())
    options = ("-o", tmp_path / "m.npz", "--report", tmp_path / report)
    mistake("fit", tmp_path / "tracks.csv", *COLUMNS, *options)
    mistake("report", folder / "sde.npz", tmp_path / "tracks.csv", "-o", tmp_path / report.replace("m.npz", "no/a.npz"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tracks.csv"]


def test_what_is_read_is_not_replaced(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(itofit, "read_transitions", lambda *a, **k: pytest.fail("it began to work"))
    assert "--output" in mistake("fit", folder / "tracks.csv", *COLUMNS, "-o", folder / "tracks.csv")
    assert "a device or the like, which a file would replace" in mistake(
        "fit", folder / "tracks.csv", *COLUMNS, "-o", os.devnull
    )


def test_a_directory_without_permission(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write anywhere
    said = mistake("fit", folder / "tracks.csv", *COLUMNS, "-o", tmp_path / "m.npz")
    assert "m.npz: cannot write there: Permission denied" in said


def test_no_space_left_for_pages_and_tables(folder, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)  # when all was handed over
    model, data = folder / "sde.npz", folder / "tracks.csv"
    for suffix, command in (
        ("p.csv", ("simulate", model, "--start", "0,0", "--dt", 0.1, "--steps", 5)),
        ("p.parquet", ("simulate", model, "--start", "0,0", "--dt", 0.1, "--steps", 5)),
        ("r.html", ("report", model, data, *COLUMNS)),
        ("m.npz", ("fit", data, *COLUMNS)),
    ):
        said = mistake(*command, "-o", tmp_path / suffix)
        assert f"{suffix}: No space left on device; nothing was written" in said
        assert list(tmp_path.iterdir()) == []


def test_an_interrupted_command(folder, tmp_path, monkeypatch):
    def interrupted(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(itofit, "fit", interrupted)
    result = call("fit", folder / "tracks.csv", *COLUMNS, "-o", tmp_path / "m.npz")
    assert result.exit_code == 130
    assert result.output == "itofit fit: interrupted\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_control_c(folder, tmp_path):
    program = (  # which listens to the signal also where a job in the background would not, and says when it begins
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import itofit.cli; print('begins', flush=True)\n"
        "from itofit.__main__ import main; main()"
    )
    command = [sys.executable, "-c", program, "simulate", folder / "sde.npz", "--start", "0,0", "--dt", "0.01"]
    child = subprocess.Popen(
        [*map(str, command), "--steps", "10000000", "-o", str(tmp_path / "p.csv")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "begins\n"
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    said = child.communicate()[1]
    assert child.returncode == 130, said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="pipes")
def test_a_reader_that_leaves(folder):
    command = [sys.executable, "-m", "itofit", "simulate", folder / "sde.npz", "--start", "0,0", "--dt", "0.01"]
    child = subprocess.Popen(
        [*map(str, command), "--paths", "100", "--steps", "40", "-o", "-"],  # more than a pipe holds
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "track,time,pos,speed\n"
    child.stdout.close()
    assert "Traceback" not in child.stderr.read()
    child.stderr.close()
    assert child.wait() == 141


# Words


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            Message("give {time}, or {dt}", time=Option("time", keyword=True), dt=Option("dt", keyword=True)),
            "give --time, or --dt",
        ),
        (
            Message("{state}: there is no column {name!r}", state=Option("state"), name="time="),
            "--state: there is no column 'time='",
        ),
        ("the state is not all that matters for the next step", "the state is not all that matters for the next step"),
        (Message("{unit} is for dates", unit=Option("unit", "s")), "--unit s is for dates"),
        (Message("learn it with {how}", how=Option("correct_step", True, of="fit")), "learn it with --correct-step"),
        (Message("{link} is better", link=Option("link", "log", of="fit")), "--link log is better"),
        (Message("{x0} must be finite", x0=Option("x0")), "x0 must be finite"),  # an array of a file, not an option
        (Message("{refine} is needed", refine=Option("refine", True)), "refine=True is needed"),
        (
            Message("not data: {advice}", advice=Either(python="load it", command="info shows it")),
            "not data: info shows it",
        ),
    ],
)
def test_words_of_options(message, expected):
    assert worded(message) == expected


def test_words_of_messages_within_messages():
    inner = InputError("{min_h} must be at most {max_h}", min_h=Option("min_h"), max_h=Option("max_h"))
    outer = InputError("{file}: {problem}", file="state.csv", problem=message_of(inner))
    assert str(outer) == "state.csv: min_h must be at most max_h"
    assert worded(message_of(outer)) == "state.csv: --min-step must be at most --max-step"


def test_words_of_columns(folder):
    data = itofit.read_transitions(folder / "tracks.csv", time="t", state=["pos", "speed"], track="cell")
    second, none = (Message("{column} is constant", column=Variable("increments", place)) for place in (1, 7))
    assert worded(second, data) == "column 'speed' is constant"
    assert worded(none, data) == "increments column 7 is constant"
    assert worded(second) == "increments column 1 is constant"
    assert worded(Message("{column} is", column=Variable("inputs", 0, "height"))) == "column 'height' is"


def test_commands_that_need_a_model_say_so_of_a_formula(folder, tmp_path):
    data = itofit.read_transitions(folder / "tracks.csv", time="t", state="pos", track="cell")
    itofit.fit(data, rng=0).formula(data, degree=1).save(tmp_path / "formula.npz")
    model, files = tmp_path / "formula.npz", (folder / "tracks.csv", "-o", tmp_path / "page.html")
    for command, rest in (("compare", (model,)), ("report", files)):
        result = call(command, model, *rest)
        assert result.exit_code == 2
        assert "holds a formula: this command takes the model that" in " ".join(result.output.split())
    answers = call("dynamics", model, "--samples", "5")
    assert answers.exit_code == 0, answers.output
    assert "relaxation times:" in answers.output
    assert "(95 % interval" in answers.output


def test_every_option_of_the_table_exists():
    wide = {"COLUMNS": "160"}  # long names are cut on narrow terminals
    commands = ("fit", "check", "report", "simulate", "formula")
    helps = "".join(CliRunner().invoke(app, [command, "--help"], env=wide).output for command in commands)
    assert [option for option in OPTIONS.values() if option not in helps] == []


# On a terminal


def test_long_lines_go_on_below_where_their_text_began():
    text = "  drift       48 frequencies, 4 iterations in all\n  x = 1: stable, in all samples\nwords that go on on on"
    assert folded(text, 50) == text
    assert folded(text, 42).split("\n")[:2] == ["  drift       48 frequencies, 4 iterations", "              in all"]
    assert folded(text, 24).split("\n") == [
        *("  drift       48", "      frequencies, 4", "      iterations in all"),  # no room for two columns
        *("  x = 1: stable, in all", "      samples"),
        "words that go on on on",
    ]
