"""The rooms of the house: a module imports only from those above it, and is small, and has a name of its own.

`docs/house.md` explains the house. `python docs/house.py` draws it again from the code.
"""

import ast
from collections import defaultdict
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
    "dynamics",
    "looking",
    "experiments",
    "cli",
    "__main__",
]
"""The rooms: a module imports only from its own and from those above it."""
OTHER_NAMES = {"diagnostics", "files", "likelihood", "plot"}
"""Modules that are other names of modules in the rooms."""
MOST_LINES = 450
"""Of a module. A longer one does more than one thing: give the second a file of its own."""
MOST_MODULES_AT_THE_ROOT = 10
"""Everything else has a room."""
ROOT = Path(__file__).resolve().parent.parent / "src" / "itofit"


def room(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def public_rooms():
    """Where the names live that users import from itofit itself."""
    nodes = ast.walk(ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8")))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module.startswith("itofit.")]
    rooms = {alias.name: node.module.split(".")[1] for node in imports for alias in node.names}
    return rooms | {name: next(imported_rooms(ROOT / f"{name}.py")) for name in OTHER_NAMES}


def imported_rooms(path, public=None):
    """The rooms that a module imports from, be it by way of the names in itofit (`public`)."""
    public = public or {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path.name} has a relative import"
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = [f"{node.value.id}.{node.attr}"]
        parts = [name.split(".") for name in names]
        yield from (public.get(part[1], part[1]) for part in parts if part[0] == "itofit" and len(part) > 1)


def test_every_module_has_a_place():
    rooms = {room(path) for path in ROOT.rglob("*.py")} - {"__init__"} - OTHER_NAMES
    assert rooms == set(ORDER)


def test_imports_go_one_way():
    public, wrong = public_rooms(), set()
    for path in ROOT.rglob("*.py"):
        own = room(path)
        if own not in {"__init__", *OTHER_NAMES}:
            others = set(imported_rooms(path, public)) - {own}
            below = {other for other in others if ORDER.index(other) > ORDER.index(own)}
            wrong |= {f"{path.relative_to(ROOT)} imports {other}" for other in below}
    assert not wrong, f"a module imports only from rooms above its own ({' > '.join(ORDER)}): {sorted(wrong)}"


def test_no_two_modules_have_the_same_name():
    """Packages count, too: `cli/data.py` beside the room `data` would be one name with two meanings."""
    places = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        name = path.parent.name if path.stem == "__init__" else path.stem
        if not (path.parent == ROOT and name in OTHER_NAMES):
            places[name].append(str(path.relative_to(ROOT)))
    clashes = {name: files for name, files in places.items() if len(files) > 1}
    assert not clashes, f"one name, one meaning: rename all but one of {clashes}"


def test_no_module_is_long():
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in ROOT.rglob("*.py")}
    long = {str(path.relative_to(ROOT)): n for path, n in sorted(lines.items()) if n > MOST_LINES}
    assert not long, f"modules have at most {MOST_LINES} lines; split {long}"


def test_the_root_is_small():
    modules = sorted(path.name for path in ROOT.glob("*.py"))
    assert len(modules) <= MOST_MODULES_AT_THE_ROOT, f"a new module belongs into a room, not beside {modules}"


def test_public_names_are_those_listed():
    assert all(hasattr(itofit, name) for name in itofit.__all__)
    assert itofit.__all__ == sorted(itofit.__all__)
