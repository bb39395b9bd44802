"""Commands for one's own data, as a user types them: what they print, write and say of mistakes."""

import errno
import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import itofit
from itofit.cli import app


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


def test_fit_prints_the_summary_the_check_and_the_loss(folder):
    text = (folder / "fit.txt").read_text()
    assert "f_pos" in text
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


# Mistakes


def test_a_missing_file_and_a_missing_model(folder, tmp_path):
    for arguments in (("fit", tmp_path / "none.csv", "-o", tmp_path / "m.npz"), ("info", tmp_path / "none.npz")):
        result = call(*arguments)
        assert result.exit_code == 2
        assert "none." in result.output
        assert "Traceback" not in result.output


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
        (("--start", "0,0", "--dt", -1), "dt"),
        (("--start", "0", "--dt", 0.1), "x0"),
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
