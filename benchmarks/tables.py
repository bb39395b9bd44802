"""Write the tables of the documentation from the files of results.

A table stands in docs/*.md between `<!-- table NAME -->` and `<!-- end -->`; everything between the two is replaced.

    python benchmarks/tables.py
"""

import json
import re
from pathlib import Path

from common import RESULTS

DOCS = Path(__file__).parent.parent / "docs"


def minus(text):
    return text.replace("-", "−")


def signed(value, error=None, digits=4):
    text = minus(f"{value:+.{digits}f}")
    return text if error is None else f"{text} ± {error:.{digits}f}"


def compared(rows, field):
    """One row for each value of a setting, one pair of columns of numbers."""
    yield ["experiment", field, "loss above the truth's", "minus the first", "worst seed", "iterations"]
    for row in rows:
        yield [
            row["experiment"],
            f"{row[field]}",
            signed(row["excess"], row["excess_standard_error"]),
            signed(row["minus_first"], row["minus_first_standard_error"]),
            signed(row["worst_excess"]),
            f"{row['iterations']:.0f}",
        ]


def paper_settings(rows):
    yield [
        "experiment",
        "loss",
        "truth's loss",
        "difference ± spread",
        "worst",
        "expected",
        "published",
        "expected − published",
        "allowed",
        "seconds, to the best network",
    ]
    for row in rows:
        yield [
            row["experiment"],
            minus(f"{row['loss']:.4f}"),
            minus(f"{row['truth']:.4f}"),
            signed(row["excess"], row["excess_standard_deviation"]),
            signed(row["worst_excess"]),
            minus(f"{row['expected']:.4f}"),
            minus(f"{row['published']:.4f}"),
            signed(row["minus_published"]),
            f"±{row['two_standard_errors']:.4f}" + ("" if row["agrees"] else ", exceeded"),
            f"{row['seconds']:.2f}, {row['seconds_to_best']:.2f}",
        ]


def direct_solve(rows):
    yield ["N", "K", "inputs", "straightforward", "direct", "ratio", "extra memory: straightforward", "direct"]
    for row in rows:
        yield [
            f"{row['rows']:,}",
            f"{row['features']}",
            f"{row['inputs']}",
            f"{1e3 * row['straightforward_seconds']:,.0f} ms",
            f"{1e3 * row['direct_seconds']:,.1f} ms",
            f"{row['ratio']:.1f}",
            f"{row['straightforward_megabytes']:,.0f} MB",
            f"{row['direct_megabytes']:.0f} MB",
        ]


def many_inputs(rows):
    yield ["rows searched on", "relative drift error", "seconds", "peak extra memory"]
    for row in rows:
        yield [
            f"{row['search_rows']:,}",
            f"{row['relative_drift_error']:.4f} ± {row['relative_drift_error_standard_error']:.4f}",
            f"{row['seconds']:.0f}",
            f"{row['peak_extra_megabytes']:.0f} MB",
        ]


def stopping(rows):
    rules = [key for key in rows[0] if key not in ("experiment", "pairing", "seeds")]
    yield ["experiment", "pairing", *rules]
    for row in rows:
        yield [row["experiment"], row["pairing"], *(f"{row[rule]}" for rule in rules)]


def gram_product(rows):
    sizes = sorted({row["features"] for row in rows})
    yield ["way", *(f"K = {K}" for K in sizes)]
    for way in dict.fromkeys(row["way"] for row in rows):
        yield [way, *(f"{row['milliseconds']:.1f} ms" for row in rows if row["way"] == way)]


def short_steps(rows):
    sizes = sorted({row["inputs"] for row in rows})
    yield ["δ", *(f"m = {m}: median, worst" for m in sizes)]
    for delta in dict.fromkeys(row["delta"] for row in rows):
        yield [
            f"{delta}",
            *(minus(f"{row['median']:.3f}, {row['worst']:.3f}") for row in rows if row["delta"] == delta),
        ]


TABLES = {
    "pairing": lambda rows: compared(rows, "pairing"),
    "delta": lambda rows: compared(rows, "delta"),
    "paper_settings": paper_settings,
    "direct_solve": direct_solve,
    "many_inputs": many_inputs,
    "stopping": stopping,
    "gram_product": gram_product,
    "short_steps": short_steps,
}


def markdown(name):
    rows = list(TABLES[name](json.loads((RESULTS / f"{name}.json").read_text())["rows"]))
    rows.insert(1, ["---"] * len(rows[0]))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main():
    pattern = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text()
        new = pattern.sub(lambda match: f"{match[1]}{markdown(match[2])}\n{match[3]}", text)
        if new != text:
            path.write_text(new)
            print(f"updated {path.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
