"""One page of HTML with the results: no scripts, no requests, every picture inside it."""

from __future__ import annotations

import base64
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from itofit.experiments import story
from itofit.experiments.catalogue import CASES
from itofit.experiments.methods import METHODS
from itofit.experiments.result_tables import (
    Verdict,
    order_of_experiments,
    results_table,
    rows_of,
    verdict_table,
    verdicts,
)
from itofit.experiments.results import Run
from itofit.looking.report.page import definitions, note, paragraph, section

PAPER = (
    "O. Douglas, A. Kammonen, A. Pandey and R. Tempone, An Adaptive Random Fourier Features approach Applied to "
    "Learning Stochastic Differential Equations (2025)"
)

STYLE = """
:root { color-scheme: light dark; --text: #1c1c1c; --back: #fdfdfc; --soft: #666; --line: #d8d8d4; --head: #f1f1ee; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6e3; --back: #1b1c1e; --soft: #a0a09c; --line: #3c3d40; --head: #26282b; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 80rem; color: var(--text); background: var(--back);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
p, li { max-width: 46rem; } .soft { color: var(--soft); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .8rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .35rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { background: var(--head); vertical-align: bottom; white-space: normal; }
td:first-child, th:first-child, td.text, th.text { text-align: left; }
tr.first td { border-top: 2px solid var(--line); } .fails { font-weight: 700; }
figure { margin: 1.2rem 0; } figure img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
figcaption { color: var(--soft); font-size: .9rem; max-width: 46rem; }
nav a { margin-right: .8rem; } dt { font-weight: 600; } dd { margin: 0 0 .4rem 1rem; max-width: 45rem; }
@media print { body { max-width: none; } h2, figure { break-inside: avoid; } }
"""

READING = (
    "Losses and times are means over the runs with their standard deviations. The loss above the truth's is taken on "
    "the same validation points, so it does not vary with them. Times are those of training alone; compilation is "
    "beside them. For gradient methods the validation points that choose the epoch also give the loss, as in the "
    "paper, which favours them."
)

ABLATIONS = (("no-resampling", "algorithm-2"), ("drift-step", "algorithm-2"), ("adam-deep", "algorithm-2"))

CAPTIONS = {
    "loss": "Validation loss against training time: means over the runs with one standard deviation both ways. Methods "
    "without epochs are points.",
    "functions": "True and learned drift and diffusion, of the run with the lowest loss of each method.",
    "paths": "Distribution of simulated paths: the truth's, and those of the learned equations of the first run.",
}


def write_page(runs: Sequence[Run], figures: Mapping[tuple[str, str], Path], quick: bool) -> str:
    """The page as text.

    Parameters
    ----------
    runs : sequence of Run
    figures : mapping
        From (experiment, kind) to a PNG file; kinds are the keys of `CAPTIONS`.
    quick : bool
        Whether these are results of the quick version.
    """
    names = order_of_experiments(runs)
    rows, claims = rows_of(runs), verdicts(runs)
    body = [
        "<h1>Learning stochastic differential equations: the paper, reproduced</h1>",
        paragraph(f"Every experiment of {PAPER}, run anew with itofit, beside the published numbers."),
        _quick_warning() if quick else "",
        '<nav aria-label="Experiments">'
        + "".join(f'<a href="#experiment-{name}">{escape(name)}</a>' for name in names)
        + "</nav>",
        section("What the results say"),
        "" if quick else _paragraphs([*story.speed(rows), *story.agreement(rows)]),
        _paragraphs([*story.claims(claims), *_comparisons(runs, ("default", "algorithm-2"), ("default", "adam"))]),
        section("Results"),
        _table(*results_table(rows, runs), text=(1,)),
        note(READING),
        _claim(claims),
        _ablations([*_comparisons(runs, *ABLATIONS), *story.hybrid(runs)]),
        *(_experiment(name, figures) for name in names),
        section("Methods"),
        definitions((method.label, method.about) for method in METHODS.values()),
        section("How it was made"),
        definitions(_made(runs)),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>itofit: the paper, reproduced</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in body if part)
        + "\n</body>\n</html>\n"
    )


def _claim(claims: Sequence[Verdict]) -> str:
    if not claims:
        return ""
    title = "Does Adam reach a smaller loss in a shorter time?"
    return f"{section(title)}\n{_table(*verdict_table(claims), text=(2, 4))}"


def _ablations(sentences: Sequence[str]) -> str:
    return f"{section('Resampling, a drift step, depth, and a hybrid')}\n{_paragraphs(sentences)}" if sentences else ""


def _comparisons(runs: Sequence[Run], *pairs: tuple[str, str]) -> list[str]:
    return [line for method, other in pairs for line in story.comparison(runs, method, other)]


def _experiment(name: str, figures: Mapping[tuple[str, str], Path]) -> str:
    case = CASES[name]
    parts = [
        f'<h2 id="experiment-{name}">Experiment {escape(name)}: {escape(case.title)}</h2>',
        paragraph(case.remark) if case.remark else "",
        *(
            _figure(figures[name, kind], f"Experiment {name}. {caption}")
            for kind, caption in CAPTIONS.items()
            if (name, kind) in figures
        ),
    ]
    return "\n".join(part for part in parts if part)


def _made(runs: Sequence[Run]) -> Iterable[tuple[str, str]]:
    yield "Versions", "; ".join(sorted({run.versions for run in runs}))
    yield "Machine", f"{machine()}, as this page was written"
    yield "Seed", ", ".join(sorted({str(run.seed) for run in runs}))
    counts = ", ".join(f"{name}: {_sizes(name, runs)}" for name in order_of_experiments(runs))
    yield "Transitions for training and for validation", counts
    hours = sum(run.seconds + run.compile_seconds for run in runs) / 3600
    yield "Training and compilation, all runs together", f"{hours:.2g} hours"


def _sizes(name: str, runs: Sequence[Run]) -> str:
    first = next(run for run in runs if run.experiment == name)
    return f"{first.n_train:,} and {first.n_validation:,}"


def machine() -> str:
    """The processor and system this runs on."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    return f"{os.cpu_count()} cores, {model}, {platform.system()}"


# Pieces of HTML


def _quick_warning() -> str:
    return paragraph(
        "These are results of the quick version: few data, few epochs, few runs. They show that everything works, "
        "not how well the methods do."
    )


def _paragraphs(texts: Sequence[str]) -> str:
    return "\n".join(paragraph(text) for text in texts)


def _table(heads: Sequence[str], cells: Sequence[Sequence[str]], text: tuple[int, ...]) -> str:
    """A table whose rows of the same first cell belong together."""

    def cell(tag: str, column: int, value: str) -> str:
        marks = [name for name, wanted in (("text", column in text), ("fails", value == "fails")) if wanted]
        return f"<{tag}{f' class={chr(34)}{chr(32).join(marks)}{chr(34)}' if marks else ''}>{escape(value)}</{tag}>"

    head = "".join(cell("th", column, value) for column, value in enumerate(heads))
    lines, before = [], ""
    for row in cells:
        first = ' class="first"' if row[0] != before else ""
        lines.append(f"<tr{first}>" + "".join(cell("td", column, value) for column, value in enumerate(row)) + "</tr>")
        before = row[0]
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _figure(path: Path, caption: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return (
        f'<figure><img alt="{escape(caption)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )
