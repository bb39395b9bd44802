"""Draw the house from the code: `python docs/house.py` writes docs/figures/house.svg, the picture of docs/house.md.

Every room is a box with its modules. A line goes from it to the right and down, and a room further down that imports
from it has a dot there. The picture is text made from text, so the same code gives the same bytes everywhere.
"""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from test_house import ORDER, ROOT, imported_rooms, public_rooms  # noqa: E402

PICTURE = HERE / "figures" / "house.svg"

MARGIN, GAP = 10, 8
BOX_WIDTH, PADDING = 268, 10
NAME_HEIGHT, LINE_HEIGHT = 20, 16
LETTERS = 34
"""In a line of a box: what fits in a monospaced font of 12 pixels."""
FIRST_LINE, BETWEEN_LINES = 20, 13
"""Pixels from the boxes to the first vertical line, and from one to the next."""
LEGEND = (
    "The line of a room runs down to the last room that imports from it.",
    "Every dot on it is an import, by the room at the height of the dot.",
)
AGAINST_THE_ORDER = "A diamond is an import against the order of the rooms."
STYLE = """\
text { font-family: "Helvetica Neue", Arial, "Liberation Sans", sans-serif; fill: #222; }
.name { font-size: 14px; font-weight: bold; }
.module { font-size: 12px; font-family: Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; }
.package { fill: #00507d; font-weight: bold; }
.legend { font-size: 12px; fill: #444; }
.box { fill: #eef4f9; stroke: #7f9fb8; }
.line { fill: none; stroke: #8c8c8c; stroke-width: 1.2; }
.dot { fill: #0072b2; }
.wrong { fill: none; stroke: #d55e00; stroke-width: 1.2; stroke-dasharray: 3 2; }
.wrong-dot { fill: #d55e00; }"""


class Box(NamedTuple):
    """A room, or modules at the root that follow each other."""

    name: str
    lines: list[str]  # its modules
    imports: set[int]  # places of the boxes that it imports from
    top: int  # pixels

    @property
    def height(self) -> int:
        """Pixels."""
        return NAME_HEIGHT + LINE_HEIGHT * len(self.lines) + PADDING

    @property
    def middle(self) -> int:
        """Height of the line that leaves the box: that of its name."""
        return self.top + 15


# What the code says


def in_boxes() -> list[list[str]]:
    """The rooms in their order, each in a list of its own, and modules at the root that follow each other in one."""
    result: list[list[str]] = []
    for name in ORDER:
        is_module = not (ROOT / name).is_dir()
        if is_module and result and not (ROOT / result[-1][0]).is_dir():
            result[-1].append(name)
        else:
            result.append([name])
    return result


def files_of(names: list[str]) -> list[Path]:
    """All modules of a box."""
    return sorted(
        file
        for name in names
        for file in ((ROOT / name).rglob("*.py") if (ROOT / name).is_dir() else [ROOT / f"{name}.py"])
    )


def lines_of(names: list[str]) -> list[str]:
    """The modules of a box: its own, and then those of each package within."""
    if len(names) > 1:
        return wrap("  ".join(names), LETTERS)
    room = ROOT / names[0]
    own = sorted(file.stem for file in room.glob("*.py") if file.stem != "__init__")
    lines = wrap("  ".join(own), LETTERS)
    for package in sorted(folder for folder in room.glob("*/") if (folder / "__init__.py").exists()):
        within = sorted(file.stem for file in package.glob("*.py") if file.stem != "__init__")
        lines += wrap(f"{package.name}/  " + "  ".join(within), LETTERS, subsequent_indent="  ")
    return lines


def boxes() -> list[Box]:
    """Everything that is drawn, from top to bottom."""
    groups, public = in_boxes(), public_rooms()
    place = {name: i for i, names in enumerate(groups) for name in names}
    result: list[Box] = []
    top = MARGIN
    for i, names in enumerate(groups):
        imports = {place[other] for file in files_of(names) for other in imported_rooms(file, public)} - {i}
        name = names[0] if len(names) == 1 else "at the root"
        result.append(Box(name, lines_of(names), imports, top))
        top += result[-1].height + GAP
    return result


# How it is drawn


def across(place: int) -> int:
    """Where the vertical line of a box stands, in pixels."""
    return MARGIN + BOX_WIDTH + FIRST_LINE + BETWEEN_LINES * place


def drawn_modules(line: str) -> str:
    """A line of modules, with the package that it begins with set off."""
    package, slash, modules = line.rpartition("/")
    return f'<tspan class="package">{package}{slash}</tspan>{modules}' if slash else line


def drawn_box(box: Box) -> list[str]:
    """A box with its name and modules."""
    x = MARGIN + PADDING
    return [
        f'<rect class="box" x="{MARGIN}" y="{box.top}" width="{BOX_WIDTH}" height="{box.height}" rx="5"/>',
        f'<text class="name" x="{x}" y="{box.top + 20}">{box.name}</text>',
        *(
            f'<text class="module" x="{x}" y="{box.top + NAME_HEIGHT + LINE_HEIGHT * i}">{drawn_modules(line)}</text>'
            for i, line in enumerate(box.lines, 1)
        ),
    ]


def drawn_line(place: int, all_boxes: list[Box]) -> list[str]:
    """The line of a box, to the right and down to the last box that imports from it."""
    start, right = MARGIN + BOX_WIDTH, across(place)
    box = all_boxes[place]
    users = [i for i, other in enumerate(all_boxes) if place in other.imports]
    lowest = max([all_boxes[i].middle for i in users if i > place], default=None)
    if lowest is None:
        right = max((across(i) for i in box.imports if i < place), default=start)
    path = f"M{start} {box.middle}H{right}" + ("" if lowest is None else f"V{lowest}")
    wrong = [
        f'<path class="wrong" d="M{across(i)} {all_boxes[i].middle}H{across(place)}V{box.middle}"/>'
        for i in users
        if i < place
    ]
    return [f'<path class="line" d="{path}"/>', *wrong]


def drawn_dots(place: int, all_boxes: list[Box]) -> list[str]:
    """What a box imports; against the order of the house as a diamond."""
    y = all_boxes[place].middle
    dots = []
    for other in sorted(all_boxes[place].imports):
        x = across(other)
        if other < place:
            dots.append(f'<circle class="dot" cx="{x}" cy="{y}" r="4.5"/>')
        else:
            dots.append(f'<path class="wrong-dot" d="M{x - 6} {y}l6 -6l6 6l-6 6z"/>')
    return dots


def picture() -> str:
    """The house as SVG, on a ground of its own so that it can be read on light and dark pages."""
    all_boxes = boxes()
    places = range(len(all_boxes))
    bottom = all_boxes[-1].top + all_boxes[-1].height
    against = any(other > i for i in places for other in all_boxes[i].imports)
    legend = [*LEGEND, *([AGAINST_THE_ORDER] if against else [])]
    width = across(len(all_boxes) - 1) + 2 * MARGIN
    height = bottom + 16 + LINE_HEIGHT * len(legend) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        "<title>The rooms of itofit and which imports from which</title>",
        f"<style>\n{STYLE}\n</style>",
        f'<rect width="{width}" height="{height}" rx="6" fill="#fff"/>',
        *(part for i in places for part in drawn_line(i, all_boxes)),
        *(part for box in all_boxes for part in drawn_box(box)),
        *(part for i in places for part in drawn_dots(i, all_boxes)),
        *(
            f'<text class="legend" x="{MARGIN}" y="{bottom + 8 + LINE_HEIGHT * i}">{line}</text>'
            for i, line in enumerate(legend, 1)
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
