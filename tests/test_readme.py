"""The README works as it stands there, in an empty directory, on the file that `itofit demo` writes."""

import re
import shlex
from pathlib import Path

import matplotlib
import pytest
from guides import FENCE
from typer.testing import CliRunner

from itofit.cli import app

TEXT = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = [(kind, source) for kind, source in FENCE.findall(TEXT)]
MOST_LINES = 70
"""Two screens."""


pytestmark = pytest.mark.usefixtures("few_paths")


def command(line):
    assert line.startswith("itofit ")
    result = CliRunner().invoke(app, shlex.split(line)[1:])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def demo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    command(re.search(r"`(itofit demo [^`]*)`", TEXT)[1])
    return tmp_path


@pytest.mark.filterwarnings("ignore::itofit.ExtrapolationWarning")  # a few steps of a simulation
def test_the_code(demo, capsys):
    (code,) = [source for kind, source in BLOCKS if kind == "python"]
    names = {}
    exec(compile(code, "README.md", "exec"), names)
    n = len(names["data"])
    assert (names["f"].shape, names["f_std"].shape, names["paths"].shape) == ((n, 1), (n, 1), (100, 501, 1))
    for shape in ("(n, 1), (n, 1)", "(100, 501, 1)"):
        assert f"# {shape}" in code
    printed = capsys.readouterr().out
    assert "overall:" in printed or "good" in printed
    assert "<html" in (demo / "report.html").read_text(encoding="utf-8")


def test_the_commands(demo):
    lines = [
        line for kind, source in BLOCKS if kind == "sh" for line in source.splitlines() if line.startswith("itofit")
    ]
    assert len(lines) == 1
    assert "saved as sde.npz" in command(lines[0])
    assert {file.name for file in demo.iterdir()} == {"tracks.csv", "sde.npz", "report.html"}


def test_two_screens():
    assert len(TEXT.splitlines()) <= MOST_LINES
