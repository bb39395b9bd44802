"""The map of the house, docs/house.md: its picture is that of the code, and everything that pages name exists."""

import ast
import re
import sys
from pathlib import Path

import pytest
from test_house import ROOT

DOCS = Path(__file__).resolve().parent.parent / "docs"
NAME = re.compile(r"`([\w/]+(?:/|\.py)(?:::[\w.]+)?)`")
"""`learning/fit.py::fit`, `learning/fit.py` or, on the map, `learning/`."""


def names_on(page):
    names = set(NAME.findall(page.read_text(encoding="utf-8")))
    return names if page.name == "house.md" else {name for name in names if not name.endswith("/")}


NAMES = sorted({(page.name, name) for page in DOCS.glob("*.md") for name in names_on(page)})


def test_the_picture_is_that_of_the_code(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(DOCS)])
    import house

    committed = house.PICTURE.read_text(encoding="utf-8")
    assert committed == house.picture(), "modules or imports have changed: run `python docs/house.py`, and look at it"


def test_every_room_is_on_the_page():
    rooms = {f"{path.parent.name}/" for path in ROOT.glob("*/__init__.py")}
    assert rooms <= names_on(DOCS / "house.md")


def defined(body, imported):
    """The names that statements define, or import if that counts, with what they stand for."""
    names = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id: node for target in targets if isinstance(target, ast.Name)}
        elif imported and isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: node for alias in node.names}
    return names


@pytest.mark.parametrize(("page", "name"), NAMES)
def test_what_a_page_names_exists(page, name):
    file, _, attribute = name.partition("::")
    path = next((folder / file for folder in (ROOT, DOCS.parent) if (folder / file).exists()), None)
    assert path is not None, f"docs/{page} names {file}, which is neither in src/itofit nor in the repository"
    body = ast.parse(path.read_text(encoding="utf-8")).body if attribute else []
    for part in attribute.split(".") if attribute else []:
        names = defined(body, imported=path.name == "__init__.py")
        assert part in names, f"docs/{page} names {name}, but there is no {part}; is it {sorted(names)}?"
        body = getattr(names[part], "body", [])
