"""The examples are scripts that run."""

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import itofit

ROOT = Path(__file__).parent.parent


class Page(HTMLParser):
    """What a page shows and what it would load from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.images, self.cells, self.outside = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("src", "href"):
                (self.images if value.startswith("data:image/png;base64,") else self.outside).append(value)

    def handle_data(self, data):
        self.cells.append(data)


def test_the_double_well_leaves_a_report_and_a_model(tmp_path):
    command = [sys.executable, str(ROOT / "examples" / "double_well.py"), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "MPLBACKEND": "Agg"})
    assert run.returncode == 0, run.stderr
    assert "28864 transitions" in run.stdout
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert len(page.images) == 1
    assert page.outside == []
    assert any("held-out" in cell for cell in page.cells)
    sde = itofit.load(tmp_path / "sde.npz")
    wells = sde.drift([-1.0, 0.5, 1.3])[:, 0]
    assert abs(wells[0]) < 0.2
    assert abs(wells[1] - 0.375) < 0.2
    assert abs(wells[2] + 0.897) < 0.3
