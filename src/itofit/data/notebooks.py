"""What notebooks show: objects as pieces of HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from itofit.data.transitions import Transitions

SHOWN_ROWS = 5
"""Transitions of which the numbers are shown."""


def printed_html(text: str) -> str:
    """A text as it would be printed."""
    return f"<pre>{escape(text)}</pre>"


def rows_html(data: Transitions) -> str:
    """The first transitions as a table, under a line that says what there is."""
    heads = ["track"] if data.groups is not None else []
    heads += [*data.input_names, *(f"d{name}" for name in data.output_names), "h"]
    numbers = np.concatenate([data.inputs, data.increments, data.h[:, None]], axis=1)[:SHOWN_ROWS]
    lines = []
    for row, values in enumerate(numbers):
        cells = [str(data.groups[row])] if data.groups is not None else []
        cells += [f"{value:.5g}" for value in values]
        lines.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    if len(data) > SHOWN_ROWS:
        lines.append("<tr>" + "<td>…</td>" * len(heads) + "</tr>")
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    return f"<p>{escape(repr(data))}</p><table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
