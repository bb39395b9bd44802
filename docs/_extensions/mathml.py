"""Formulas as MathML, which browsers draw themselves: pages need no scripts and no network for them.

latex2mathml converts; what follows sets right what it leaves different from TeX.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
LIMITS = ("min", "max", "arg min", "arg max", "sup", "inf", "lim")
SUMS = ("∑", "∏")
"""Operators whose limits go below and above in displayed formulas."""

JOINER = "\u2060"
"""Keeps a comma in the line of the formula before it."""


def mathml(latex: str, display: str) -> str:
    """One formula, "inline" or "block"."""
    upright = re.compile(r"\\mathrm\s*\{?([A-Za-z])\}?")
    latex = upright.sub(lambda letter: rf"\text{{{letter[1]}}}", latex)
    latex = latex.replace("{aligned}", "{split}").replace(r"\operatorname*", r"\operatorname")
    ElementTree.register_namespace("", NAMESPACE)
    tree = ElementTree.fromstring(convert(latex, display=display))
    for element in tree.iter():
        _as_tex(element)
        for operator, following in zip(element, [*element[1:], None], strict=False):
            _space(operator, following)
    return ElementTree.tostring(tree, encoding="unicode")


def _as_tex(element: ElementTree.Element) -> None:
    tag, text = element.tag.rpartition("}")[2], element.text or ""
    if tag == "mi" and len(text) == 1 and "Α" <= text <= "Ω":
        element.set("mathvariant", "normal")  # capital Greek letters stand upright
    elif tag == "mi" and text == "~":
        element.tag, element.text = f"{{{NAMESPACE}}}mo", "∼"
    elif tag == "mover" and element.get("accent") and element[1].text == "^":
        element[1].text = "ˆ"
    elif tag == "msubsup" and element[0].text in SUMS:
        element.tag = f"{{{NAMESPACE}}}munderover"
    elif tag == "msub" and element[0].text in SUMS:
        element.tag = f"{{{NAMESPACE}}}munder"
    elif tag == "msub" and element[0].text in LIMITS:
        element.tag = f"{{{NAMESPACE}}}munder"
        element[0].set("movablelimits", "true")


def _space(operator: ElementTree.Element, following: ElementTree.Element | None) -> None:
    """Bars and slashes have no space around them; names such as Pr have some, but not before a bracket."""
    if not operator.tag.endswith("}mo"):
        return
    if operator.text in ("|", "/"):
        operator.attrib |= {"lspace": "0", "rspace": "0"}
    elif (operator.text or "").isalpha() and len(operator.text or "") > 1:
        bracket = following is not None and following.text in ("(", "[")
        operator.attrib |= {"lspace": "0.1667em", "rspace": "0" if bracket else "0.1667em"}


def converted(node: nodes.Element, display: str) -> str:
    """The formula of a node; a warning if some of it was not understood."""
    found = mathml(node.astext(), display)
    if "\\" in found:
        logger.warning("not all of this formula is known to latex2mathml: %s", node.astext(), location=node)
    return found


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    """A formula in a line of text."""
    self.body.append(f'<span class="math">{converted(node, "inline")}</span>{JOINER}')
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """A formula in a line of its own, with its number if it has a label."""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(converted(node, "block"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})</span>')
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
