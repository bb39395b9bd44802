"""Sphinx: `make docs` builds the pages into build/docs, with warnings as errors and without the network."""

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

import itofit  # noqa: E402

project = "itofit"
author = "the itofit authors"
copyright = author  # noqa: A001
release = version = itofit.__version__
language = "en"
smartquotes = False  # they would turn --options into dashes

extensions = [
    "sphinx.ext.autodoc",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "command_line",
    "mathml",
]
exclude_patterns = ["_extensions", "_static", "gallery/*.ipynb", "gallery/*.py"]

# Markdown

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3

# API

default_role = "py:obj"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
add_module_names = False
python_display_short_literal_types = True

# Examples

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "ignore_pattern": r"double_well\.py$",  # writes a report of its own, as `make demo`
    "capture_repr": (),
    "image_srcset": ["2x"],
    "download_all_examples": False,
    "write_computation_times": False,
    "show_signature": False,
}

# Pages

html_theme = "furo"
html_title = f"itofit {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # it would fetch pages, which browsers refuse for files
COLOURED = ("color-brand-primary", "color-brand-content", "color-api-name", "color-api-pre-name")
html_theme_options = {
    "light_css_variables": dict.fromkeys(COLOURED, "#0072b2"),
    "dark_css_variables": dict.fromkeys(COLOURED, "#56b4e9"),
}


CLASSES = "|".join(sorted(name for name in itofit.__all__ if name[0].isupper()))
TYPED = re.compile(rf"^(\w[\w, ]* : .*|(?:{CLASSES}))$")
"""Lines of docstrings that give a type: "name : type", or a type alone."""


MADE_BY_ITOFIT = {
    "BlockedTransitions",
    "Diagnosis",
    "Finding",
    "LearnedFunction",
    "LearnedSDE",
    "Training",
}
"""Classes that users read and do not make: how to make them is left out."""


def link(_app: Sphinx, _what: str, name: str, _object: object, _options: object, lines: list[str]) -> None:
    """Link pages, which docstrings name by their file, and types; what users do not make has attributes."""
    if name.removeprefix("itofit.") in MADE_BY_ITOFIT and "Parameters" in lines:
        lines[lines.index("Parameters")] = "Attributes"
    for i, line in enumerate(lines):
        if TYPED.match(line):
            names, colon, kind = line.rpartition(" : ")
            lines[i] = names + colon + re.sub(rf"\b({CLASSES})\b", r":py:obj:`\1 <itofit.\1>`", kind)
        else:
            lines[i] = re.sub(r"docs/([\w-]+)\.md", r":doc:`/\1`", line)


def without_constructor(
    _app: Sphinx, what: str, name: str, _object: object, _options: object, _signature: str, _annotation: str
) -> tuple[str, str] | None:
    """No signature for classes that users do not make."""
    return ("", "") if what == "class" and name.removeprefix("itofit.") in MADE_BY_ITOFIT else None


LONG = 40


def mark_long_cells(_app: Sphinx, doctree: nodes.document) -> None:
    """Cells of tables that hold sentences may be broken; numbers and words stay in a line."""
    for body in doctree.findall(nodes.tbody):
        for cell in body.findall(nodes.entry):
            if len(cell.astext()) > LONG:
                cell["classes"].append("long")


def find_in_package(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, text: nodes.Element) -> Any:  # noqa: ANN401
    """Docstrings of itofit.plot name classes of itofit as everybody does, without the package."""
    if node.get("refdomain") != "py":
        return None
    target = f"itofit.{node['reftarget']}"
    return env.domains["py"].resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect what is above."""
    app.connect("autodoc-process-docstring", link, priority=400)  # before numpydoc
    app.connect("autodoc-process-signature", without_constructor)
    app.connect("doctree-read", mark_long_cells)
    app.connect("missing-reference", find_in_package)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
