"""Pieces of HTML: no scripts, no network, every picture inside."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape

from itofit.diagnostics import Diagnosis, Finding, Verdict
from itofit.report.pictures import Picture

SIGNS: dict[Verdict, str] = {"good": "✓", "caution": "!", "bad": "✗", "not available": "–"}
LONG = 40
"""Letters in the names of an equation, from which on they are beside it."""

STYLE = """
:root { color-scheme: light dark; --text: #1c1c1c; --back: #fdfdfc; --soft: #5f5f5c; --line: #d8d8d4; --head: #f1f1ee;
  --good: #00684b; --caution: #8a5200; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6e3; --back: #1b1c1e; --soft: #a8a8a4; --line: #3c3d40; --head: #26282b;
    --good: #5fd0a5; --caution: #f0b14e; --bad: #ff8f85; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1rem 4rem; max-width: 76rem; color: var(--text); background: var(--back);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); } h3 { margin: 1.8rem 0 .4rem; }
p, li, dd { max-width: 46rem; } .soft, figcaption { color: var(--soft); font-size: .9rem; }
.equation { font-family: Georgia, serif; font-style: italic; font-size: 1.1rem; }
.box { border-left: .4rem solid; padding: .5rem .9rem; background: var(--head); max-width: 46rem; }
.box b { font-size: 1.1rem; } .box > span { color: var(--text); }
.good { color: var(--good); } .caution { color: var(--caution); } .bad { color: var(--bad); }
.unavailable { color: var(--soft); } .verdict { font-weight: 700; white-space: nowrap; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); gap: 1.2rem;
  align-items: start; }
figure { margin: 0; } figure img { display: block; width: 100%; height: auto; background: #fff; border-radius: 4px; }
figcaption { margin-top: .3rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { background: var(--head); } td:first-child, th:first-child { text-align: left; }
.findings td, .findings th { text-align: left; vertical-align: top; white-space: normal; }
.findings td:nth-child(3) { min-width: 10rem; color: var(--soft); } .findings p { margin: 0 0 .3rem; }
pre { background: var(--head); padding: .8rem; overflow-x: auto; font-size: .8rem; line-height: 1.45; }
dt { font-weight: 600; } dd { margin: 0 0 .4rem 1rem; }
@media (max-width: 45rem) {
  .findings thead { display: none; } .findings, .findings tbody, .findings tr, .findings td { display: block; }
  .findings tr { border-bottom: 1px solid var(--line); padding: .5rem 0; } .findings td { border: 0; padding: .1rem 0; }
  .findings td:first-child { font-weight: 600; }
}
@media print {
  :root { color-scheme: light; --text: #000; --back: #fff; --soft: #444; --line: #bbb; --head: #f4f4f4;
    --good: #00684b; --caution: #8a5200; --bad: #b3261e; }
  body { max-width: none; padding: 0; font-size: 11pt; } .wide { overflow: visible; } pre { white-space: pre-wrap; }
  figure, tr, .box { break-inside: avoid; } h2, h3 { break-after: avoid; }
  .gallery { grid-template-columns: repeat(2, 1fr); } table, pre { font-size: 7.5pt; }
  .wide th, .wide td { white-space: normal; padding: .15rem .3rem; }
}
"""


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
    return f"<p>{escape(text)}</p>"


def note(text: str) -> str:
    """A paragraph that can be passed over."""
    return f'<p class="soft">{escape(text)}</p>'


def code(text: str) -> str:
    """Lines as they are."""
    return f"<pre>{escape(text)}</pre>"


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
    kind = "unavailable" if word == "not available" else word
    return f'<span class="verdict {kind}">{SIGNS[word]} {word}</span>'


def verdict_box(word: Verdict, text: str) -> str:
    """The verdict of all."""
    return f'<p class="box {word}"><b>Overall: {verdict(word)}.</b> <span>{escape(text)}</span></p>'


def findings(diagnosis: Diagnosis) -> str:
    """All findings as a table; on a narrow screen, below each other."""
    head = "".join(f"<th>{name}</th>" for name in ("What", "Verdict", "Numbers", "In words, and what to do"))
    rows = "".join(_finding(each) for each in diagnosis.findings)
    return f'<table class="findings"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _finding(found: Finding) -> str:
    numbers = "" if found.numbers == found.text else escape(found.numbers)
    advice = f"<p><b>→</b> {escape(found.advice)}</p>" if found.advice else ""
    return (
        f"<tr><td>{escape(found.title)}</td><td>{verdict(found.verdict)}</td><td>{numbers}</td>"
        f"<td><p>{escape(found.text)}</p>{advice}</td></tr>"
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that is scrolled if the screen is too narrow."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def definitions(pairs: Iterable[tuple[str, str]]) -> str:
    """Terms and what they are."""
    return "<dl>" + "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in pairs) + "</dl>"


def gallery(pictures: Sequence[Picture]) -> str:
    """Pictures beside each other, as many as there is room for."""
    return '<div class="gallery">' + "\n".join(_figure(each) for each in pictures) + "</div>"


def _figure(each: Picture) -> str:
    data = base64.b64encode(each.png).decode()
    return (
        f'<figure><img alt="{escape(each.text)}" width="{each.width}" height="{each.height}" '
        f'src="data:image/png;base64,{data}"><figcaption>{escape(each.text)}</figcaption></figure>'
    )
