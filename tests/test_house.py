"""The rooms of the house: a module imports only from those above it."""

import ast
from pathlib import Path

import itofit

ORDER = [
    "_version",
    "_checks",
    "_blocks",
    "_progress",
    "data",
    "waves",
    "matrices",
    "model",
    "learning",
    "looking",
    "experiments",
    "cli",
    "__main__",
]
"""The rooms: a module imports only from its own and from those above it."""
OTHER_NAMES = {"diagnostics", "files", "likelihood", "plot"}
"""Modules that are other names of modules in the rooms."""
ROOT = Path(itofit.__file__).parent


def room(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text())):
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path.name} has a relative import"
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("itofit."))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "itofit":
            names = [node.module] if "." in node.module else [f"itofit.{alias.name}" for alias in node.names]
            yield from (name.split(".")[1] for name in names)


def test_every_module_has_a_place():
    rooms = {room(path) for path in ROOT.rglob("*.py")} - {"__init__"} - OTHER_NAMES
    assert rooms == set(ORDER)


def test_imports_go_one_way():
    for path in ROOT.rglob("*.py"):
        if room(path) in {"__init__", *OTHER_NAMES}:
            continue
        for other in imported_rooms(path):
            if other != room(path):
                assert ORDER.index(other) < ORDER.index(room(path)), f"{path.name} imports {other}"


def test_public_names_are_those_listed():
    assert all(hasattr(itofit, name) for name in itofit.__all__)
    assert itofit.__all__ == sorted(itofit.__all__)
