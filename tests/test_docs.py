"""The documentation, without building it: what `make docs` does not notice.

Sphinx, with warnings as errors, finds pages that are in no table of contents and links between pages that lead nowhere.
"""

import re
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

import itofit

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *(page for page in DOCS.rglob("*.md") if "gallery" not in page.parts)])

CODE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")


# API


def documented():
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    return re.findall(r"^\.\. auto(?:class|function|exception|module):: (\S+)$", pages, re.MULTILINE)


def test_every_public_name_is_on_one_page():
    public = {f"itofit.{name}" for name in itofit.__all__ if name != "__version__"}
    assert sorted(documented()) == sorted(public)


def test_plots_are_documented_by_their_module():
    assert all(getattr(itofit.plot, name).__doc__ for name in itofit.plot.__all__)
    page = (DOCS / "api" / "plot.md").read_text(encoding="utf-8")
    assert re.search(r"automodule:: itofit\.plot\n +:members:\n +:imported-members:", page)


# Links, as they are seen by somebody who reads the files


def anchors(page):
    """Of all headings, as they are made on code hosting sites and by MyST."""
    text = CODE.sub(lambda code: code[0].strip("`") if "\n" not in code[0] else "", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    for link in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in anchors(target), f"{link}: no such heading"


# Formulas


@pytest.fixture
def mathml(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(DOCS / "_extensions")])
    module = pytest.importorskip("mathml")
    return lambda latex, display="block": re.sub(r' xmlns="[^"]*"', "", module.mathml(latex, display))


def test_formulas_look_as_tex_sets_them(mathml):
    assert '<mi mathvariant="normal">Σ</mi>' in mathml(r"\Sigma")
    assert "<mtext>d</mtext>" in mathml(r"\mathrm{d}x")
    assert re.search(r"<munderover><mo[^>]*>∑</mo>", mathml(r"\left| \sum_{k=1}^K x_k \right|"))
    assert re.search(r'<munder><mo [^>]*movablelimits="true"[^>]*>min</mo>', mathml(r"\min_x f"))
    assert mathml(r"\begin{aligned} a &= b \\ c &= d \end{aligned}").count("<mtr>") == 2
    assert mathml("|x|").count('lspace="0" rspace="0">|') == 2


def test_what_is_not_known_stays_visible_so_that_the_build_can_warn(mathml):
    assert "\\unheard" in mathml(r"\unheard{x}")
    assert "\\" not in mathml(r"\hat\beta_k \in \mathbb{C}^p, \quad \lVert x \rVert \sim \mathcal{N}(0, h)")
