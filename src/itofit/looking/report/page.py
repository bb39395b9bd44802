"""Pieces of HTML: no scripts, no network, every picture inside."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape

from itofit.looking.check import Diagnosis, Finding, Verdict
from itofit.looking.report.numbers import Table
from itofit.looking.report.pictures import Picture

SIGNS: dict[Verdict, str] = {"good": "✓", "cannot tell": "?", "caution": "!", "bad": "✗", "not available": "–"}
CLASSES: dict[Verdict, str] = {"cannot tell": "untold", "not available": "unavailable"}
"""Verdicts of two words, and what the style calls them."""
TIED = "\N{NO-BREAK SPACE}"
LONG = 40
"""Letters of the names in an equation, beyond which it would not fit in a line and the names stand beside it."""

STYLE = """
:root { color-scheme: light dark; --text: #1c1c1c; --back: #fdfdfc; --soft: #5f5f5c; --line: #d8d8d4; --head: #f1f1ee;
  --good: #00684b; --untold: #2f5d8a; --caution: #8a5200; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6e3; --back: #1b1c1e; --soft: #a8a8a4; --line: #3c3d40; --head: #26282b;
    --good: #5fd0a5; --untold: #8fbfee; --caution: #f0b14e; --bad: #ff8f85; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1rem 4rem; max-width: 76rem; color: var(--text); background: var(--back);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); } h3 { margin: 1.8rem 0 .4rem; }
h1, h2, h3, caption { text-wrap: balance; } p, li, dd, figcaption { text-wrap: pretty; }
p, li, dd { max-width: 46rem; } .soft, figcaption { color: var(--soft); font-size: .9rem; }
.equation { font-family: Georgia, serif; font-style: italic; font-size: 1.1rem; }
.box { border-left: .4rem solid; padding: .5rem .9rem; background: var(--head); max-width: 46rem; }
.box b { font-size: 1.1rem; } .box > span { color: var(--text); }
.good { color: var(--good); } .caution { color: var(--caution); } .bad { color: var(--bad); }
.untold { color: var(--untold); } .unavailable { color: var(--soft); }
.verdict { font-weight: 700; white-space: nowrap; }
.gallery { display: grid; gap: 1.2rem; align-items: start; }
@media print, (min-width: 48rem) and (max-width: 74.99rem) {
  .gallery { grid-template-columns: repeat(2, 1fr); }
  .gallery > figure:last-child:nth-child(odd) { grid-column: 1 / -1; display: grid; grid-template-columns: 1fr 1fr;
    gap: 1.2rem; align-items: center; }
}
@media screen and (min-width: 75rem) {
  .gallery { grid-template-columns: repeat(3, 1fr); }
  .gallery > figure:only-child { grid-column: 1 / -1; display: grid; grid-template-columns: 1fr 2fr; gap: 1.2rem;
    align-items: center; }
}
figure { margin: 0; } figure img { display: block; width: 100%; height: auto; background: #fff; border-radius: 4px; }
figcaption { margin-top: .3rem; }
.tables { display: flex; flex-wrap: wrap; gap: 1.2rem 1.4rem; align-items: start; } .tables table { max-width: 100%; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .2rem .5rem; }
th, td { padding: .3rem .4rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th { background: var(--head); } td:first-child, th:first-child { text-align: left; }
td + td span, td span + span { white-space: nowrap; }
.findings td, .findings th { text-align: left; vertical-align: top; white-space: normal; }
.findings td:nth-child(3) { min-width: 10rem; color: var(--soft); text-wrap: balance; }
.findings p { margin: 0 0 .3rem; }
pre { background: var(--head); padding: .8rem; font-size: .8rem; line-height: 1.45; white-space: pre-wrap;
  overflow-wrap: anywhere; }
pre span { display: block; min-height: 1lh; max-width: 100ch; padding-left: 4ch; text-indent: -4ch; }
pre.printed span { padding-left: 14ch; text-indent: -14ch; }
dt { font-weight: 600; } dd { margin: 0 0 .4rem 1rem; }
@media (max-width: 45rem) {
  .findings thead { display: none; } .findings, .findings tbody, .findings tr, .findings td { display: block; }
  .findings tr { border-bottom: 1px solid var(--line); padding: .5rem 0; } .findings td { border: 0; padding: .1rem 0; }
  .findings td:first-child { font-weight: 600; }
}
@media print {
  :root { color-scheme: light; --text: #000; --back: #fff; --soft: #444; --line: #bbb; --head: #f4f4f4;
    --good: #00684b; --untold: #2f5d8a; --caution: #8a5200; --bad: #b3261e; }
  body { max-width: none; padding: 0; font-size: 11pt; }
  figure, tr, .box { break-inside: avoid; } h2, h3 { break-after: avoid; }
  table, pre { font-size: 7.5pt; } .tables th, .tables td { padding: .15rem .3rem; }
  .tables table { break-inside: avoid; }
}
"""


NOTEBOOK_STYLE = """
.itofit td, .itofit th { text-align: left; vertical-align: top; white-space: normal; }
.itofit .verdict { font-weight: 700; white-space: nowrap; } .itofit .good { color: #00684b; }
.itofit .caution { color: #8a5200; } .itofit .bad { color: #b3261e; }
"""
"""For findings alone, within somebody else's page."""


def document(title: str, body: Iterable[str]) -> str:
    """A whole page."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="generator" content="itofit">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def heading(title: str) -> str:
    """The title of the page."""
    return f"<h1>{escape(title)}</h1>"


def section(title: str) -> str:
    """The title of a section."""
    return f"<h2>{escape(title)}</h2>"


def subsection(title: str) -> str:
    """The title of a part of a section."""
    return f"<h3>{escape(title)}</h3>"


def paragraph(text: str) -> str:
    """A paragraph."""
    return f"<p>{typeset(text)}</p>"


def note(text: str) -> str:
    """A paragraph in small print."""
    return f'<p class="soft">{typeset(text)}</p>'


def code(text: str) -> str:
    """Code, line by line; long lines are continued below with an indent."""
    return f"<pre>{_lines(escape(text))}</pre>"


def printed(text: str, columns: bool = False) -> str:
    """Printed text, line by line; long lines are continued below with an indent, or below their second column."""
    opened = '<pre class="printed">' if columns else "<pre>"
    return f"{opened}{_lines(breakable(text))}</pre>"


def _lines(text: str) -> str:
    return "".join(f"<span>{line}\n</span>" for line in text.split("\n"))


def typeset(text: str) -> str:
    """Text as HTML, with proper signs: ±, −, a narrow space before %, and no line break before a number."""
    text = re.sub(r"(?<![\w)\]])-(?=[\d.∞])|(?<=\de)-(?=\d)", "−", text.replace("+-", "±"))
    text = re.sub(r"(?<=\d) ± (?=\d)", f"{TIED}±{TIED}", text)
    text = re.sub(r" = (?=[−\d])", f" ={TIED}", re.sub(r"\b(\w{1,8}) = (?=[−\d])", rf"\1{TIED}={TIED}", text))
    return escape(re.sub(r"(?<=\d) ?%", "\N{NARROW NO-BREAK SPACE}%", text))


def breakable(text: str) -> str:
    """The same, with line breaks allowed within long names."""
    return re.sub(r"(?<=[^\W_]{2}[_,])(?=\w)", "<wbr>", typeset(text))


def equation(inputs: Sequence[str], outputs: Sequence[str]) -> str:
    """The equation that was learned, with the names of its variables."""
    at, moved = _listed(inputs), _listed(outputs)
    if len(at) + len(moved) > LONG:
        where = f", x = ({moved})" + ("" if at == moved else f"; f and σ depend on {at}")
        return f'<p class="equation">{escape(f"dx = f dt + σ dW, Σ = σσᵀ{where}")}</p>'
    left = f"d{moved}" if len(moved) == 1 else f"d({moved})"
    return f'<p class="equation">{escape(f"{left} = f({at}) dt + σ({at}) dW, Σ = σσᵀ")}</p>'


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 6 else f"{names[0]}, …, {names[-1]}"


def verdict(word: Verdict) -> str:
    """A verdict in words, with a sign and a colour."""
    return f'<span class="verdict {CLASSES.get(word, word)}">{SIGNS[word]} {word}</span>'


def verdict_box(word: Verdict, text: str) -> str:
    """The overall verdict, and a sentence about it."""
    return f'<p class="box {CLASSES.get(word, word)}"><b>Overall: {verdict(word)}.</b> <span>{typeset(text)}</span></p>'


def findings(diagnosis: Diagnosis) -> str:
    """All findings as a table; on a narrow screen, below each other."""
    head = "".join(f"<th>{name}</th>" for name in ("What", "Verdict", "Numbers", "In words, and what to do"))
    rows = "".join(_finding(each) for each in diagnosis.findings)
    return f'<table class="findings"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _finding(finding: Finding) -> str:
    numbers = "" if finding.numbers == finding.text else typeset(finding.numbers)
    advice = f"<p><b>→</b> {typeset(finding.advice)}</p>" if finding.advice else ""
    return (
        f"<tr><td>{escape(finding.title)}</td><td>{verdict(finding.verdict)}</td><td>{numbers}</td>"
        f"<td><p>{typeset(finding.text)}</p>{advice}</td></tr>"
    )


def tables(all_tables: Iterable[Table]) -> str:
    """Narrow tables beside each other, as many as there is room for."""
    return '<div class="tables">' + "".join(_table(each) for each in all_tables) + "</div>"


def _table(each: Table) -> str:
    head = "".join(f"<th>{breakable(cell)}</th>" for cell in each.heads)
    lines = "".join("<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in each.rows)
    title = f"<caption>{breakable(each.title)}</caption>"
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def _cell(text: str) -> str:
    """The text of a cell, with line breaks allowed before brackets and within long names only."""
    return " ".join(f"<span>{part}</span>" for part in breakable(text).replace(" (", "\n(").split("\n"))


def definitions(pairs: Iterable[tuple[str, str]]) -> str:
    """A list of terms and their explanations."""
    return "<dl>" + "".join(f"<dt>{escape(term)}</dt><dd>{typeset(text)}</dd>" for term, text in pairs) + "</dl>"


def gallery(pictures: Sequence[Picture]) -> str:
    """Pictures beside each other, as many as there is room for."""
    return '<div class="gallery">' + "\n".join(_figure(each) for each in pictures) + "</div>"


def _figure(each: Picture) -> str:
    data = base64.b64encode(each.content).decode()
    return (
        f'<figure><img alt="{typeset(each.text)}" width="{each.width}" height="{each.height}" '
        f'src="data:{each.type};base64,{data}"><figcaption>{typeset(each.text)}</figcaption></figure>'
    )
