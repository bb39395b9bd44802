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


def campaign(rows):
    """One row for each part of the campaign of fuzzing."""
    yield ["part", "trials", "answers", "refusals", "faults", "longest, seconds"]
    for row in rows:
        counts = [f"{row[name]:,}" for name in ("trials", "answers", "refusals", "faults")]
        yield [f"`{row['part']}`", *counts, f"{row['longest_seconds']:.0f}"]


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


def power(value):
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa}·10{str(int(exponent)).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def agreement(rows):
    measured = ["gram", "right", "amplitudes", "error"]
    yield ["inputs", "points", "Gram", "right side", "amplitudes", "validation error"]
    for m in dict.fromkeys(row["inputs"] for row in rows):
        for kind in dict.fromkeys(row["kind"] for row in rows):
            chosen = [row for row in rows if (row["inputs"], row["kind"]) == (m, kind)]
            yield [f"{m}", kind, *(power(max(row[name] for row in chosen)) for name in measured)]


def choice(rows):
    yield ["inputs", "K", "fewest of these rows with gridded sums", "mean regret", "largest"]
    for m in dict.fromkeys(row["inputs"] for row in rows):
        for K in dict.fromkeys(row["features"] for row in rows):
            chosen = [row for row in rows if (row["inputs"], row["features"]) == (m, K)]
            first = min((row["rows"] for row in chosen if row["chosen"] == "gridded"), default=None)
            regrets = [row["regret"] for row in chosen]
            yield [
                f"{m}",
                f"{K}",
                "more" if first is None else f"{first:,}",
                f"{sum(regrets) / len(regrets):.2f}",
                f"{max(regrets):.2f}",
            ]


def whole_fit(rows):
    yield [
        "experiment",
        "transitions",
        "inputs",
        "K",
        "iterations",
        "straightforward",
        "direct",
        "gridded",
        "straightforward / gridded",
        "ms / iteration",
        "loss: direct, gridded",
    ]
    for row in rows:
        drift, covariance = row["milliseconds_per_iteration"]
        yield [
            row["experiment"],
            f"{row['rows']:,}",
            f"{row['inputs']}",
            f"{row['features']}",
            " + ".join(str(n) for n in row["iterations"]),
            f"{row['straightforward_seconds']:,.1f} s",
            f"{row['direct_seconds']:.2f} s",
            f"{row['fit_seconds']:.3f} s",
            f"{row['ratio']:,.0f}",
            f"{drift:.2f}, {covariance:.2f}",
            minus(f"{row['direct_loss']:.4f}, {row['loss']:.4f}"),
        ]


def growth(rows):
    yield ["rows", *(f"{m} input{'s' if m > 1 else ''}: gridded, direct" for m in (1, 2, 3))]
    for n in dict.fromkeys(row["rows"] for row in rows):
        cells = []
        for m in (1, 2, 3):
            times = {row["form"]: row["iteration_seconds"] for row in rows if (row["rows"], row["inputs"]) == (n, m)}
            direct = f"{1e3 * times['direct']:,.0f} ms" if "direct" in times else "not measured"
            cells.append(f"{1e3 * times['gridded']:.2f} ms, {direct}")
        yield [f"{n:,}", *cells]


def evaluation(rows):
    yield [
        "inputs",
        "K",
        "outputs",
        "reach",
        "straightforward",
        "direct",
        "type 3",
        "automatic",
        "ratio",
        "difference",
    ]
    for row in rows:
        yield [
            *(f"{row[name]:g}" for name in ("inputs", "features", "outputs", "reach")),
            *(f"{row[f'{name}_seconds']:.2f} s" for name in ("straightforward", "direct", "type_3")),
            f"{row['automatic_seconds']:.3f} s",
            f"{row['ratio']:.0f}",
            power(row["difference"]) if row["difference"] else "0, is direct",
        ]


def large_file(rows):
    yield ["transitions", "in", "seconds", "of which iterations", "read, in each of 4 passes", "peak resident memory"]
    for row in rows:
        reading = row["seconds"] - row["iteration_seconds"]
        where = "memory" if row["where"] == "memory" else f"a file of {row['file_megabytes']:,.0f} MB"
        yield [
            f"{row['rows']:,}",
            where,
            f"{row['seconds']:.1f}",
            f"{row['iteration_seconds']:.2f}",
            f"{4 * row['rows'] / reading / 1e6:.0f} million a second",
            f"{row['peak_megabytes']:,.0f} MB ({row['megabytes_before']:.0f} before)",
        ]


def large_csv(rows):
    yield ["file", "read", "held out", "seconds", "of them reading, learning, checking", "peak memory"]
    for row in rows:
        parts = ", ".join(f"{row[f'seconds_{part}']:.1f}" for part in ("reading", "learning", "checking"))
        yield [
            f"{row['system']}, {row['file_megabytes']:.0f} MB",
            "at once" if row["read"] == "whole" else "in parts",
            "a tenth" if row["held_out"] else "nothing",
            f"{row['seconds']:.1f}",
            parts,
            f"{row['peak_megabytes']:.0f} MB",
        ]


def quality(rows):
    yield [
        "experiment",
        "loss above the truth's: default",
        "paper",
        "default − paper, 95 %",
        "worst seed above mean",
        "seconds: default",
        "paper",
        "ratio",
        "chosen for Σ",
    ]
    for row in rows:
        chosen = ", ".join(
            f"{name.replace(', ', ' ')} {n}" for name, n in sorted(row["chosen"].items(), key=lambda c: -c[1])
        )
        yield [
            row["experiment"],
            signed(row["default_excess"]),
            signed(row["paper_excess"]),
            signed(row["difference"], row["difference_95"]),
            f"{row['worst_above_mean']:.4f}",
            f"{row['default_seconds']:.3f}",
            f"{row['paper_seconds']:.3f}",
            f"{row['ratio']:.1f}",
            chosen,
        ]


def quality_errors(rows):
    fields = ["drift_error", "covariance_error", "one_step_drift_error", "one_step_covariance_error"]
    names = ["drift", "covariance", "drift of one step", "covariance of one step"]
    yield ["experiment", *(f"{name}: default, paper" for name in names)]
    for row in rows:
        pairs = [(row[f"default_{field}"], row[f"paper_{field}"]) for field in fields]
        yield [row["experiment"], *("" if a is None else f"{a:.4f}, {b:.4f}" for a, b in pairs)]


def hard_cases(rows):
    yield [
        "case",
        "transitions",
        "loss above the truth's: default, paper",
        "worst of the default",
        "drift error: default, paper",
        "covariance error: default, paper",
        "seconds: default, paper",
    ]
    for row in rows:
        yield [
            row["text"],
            f"{row['rows']:,}",
            f"{signed(row['default_excess'])}, {signed(row['paper_excess'])}",
            signed(row["default_worst"]),
            f"{row['default_drift_error']:.3f}, {row['paper_drift_error']:.3f}",
            f"{row['default_covariance_error']:.3f}, {row['paper_covariance_error']:.3f}",
            f"{row['default_seconds']:.2f}, {row['paper_seconds']:.2f}",
        ]


def refinements(rows):
    names = list(dict.fromkeys(row["experiment"] for row in rows))
    yield ["", *names]
    for variant in dict.fromkeys(row["variant"] for row in rows):
        if variant == "default":
            continue
        found = {row["experiment"]: row for row in rows if row["variant"] == variant}
        yield [f"`{variant}`" if "=" in variant else variant, *(change(found[name]) for name in names)]


def change(row):
    """Loss and drift error relative to the default's."""
    return f"{signed(row['difference'])}, × {row['drift_error_ratio']:.2f}"


def coverage(rows):
    heads = ["drift{}", "variances{}", "widths"]
    names = {"one_step": " of one step", "true": "", "corrected": ", corrected"}
    yield ["experiment", *(head.format(name) for name in names.values() for head in heads)]
    for row in rows:
        yield [row["experiment"], *(cell for which in names for cell in covered(row, which))]


def covered(row, reference):
    if row[f"{reference}_drift"] is None:
        return ["", "", ""]
    shares = (
        f"{100 * row[f'{reference}_{what}']:.1f} ± {100 * row[f'{reference}_{what}_se']:.1f} %"
        for what in ("drift", "variances")
    )
    return [*shares, ", ".join(f"{row[f'{reference}_{what}_width']:.2f}" for what in ("drift", "variances"))]


def finite_step_cases(rows):
    yield ["case", "drift: one step", "corrected", "difference", "worst: one step, corrected", "covariance: one step",
           "corrected", "difference", "worst: one step, corrected", "withheld"]  # fmt: skip
    for row in rows:
        cells = [row["case"]]
        for what in ("drift", "covariance"):
            before, after = row[f"one_step_{what}"], row[f"corrected_{what}"]
            worst = f"{row[f'worst_one_step_{what}']:.4f}, {row[f'worst_corrected_{what}']:.4f}"
            cells += [f"{before:.4f}", f"{after:.4f}", signed(after - before, row[f"{what}_change_95"]), worst]
        yield [*cells, f"{row['withheld']} of {row['seeds']}"]


def finite_step_linear(rows):
    yield ["h θ", "slope: one step", "corrected", "noise: one step", "corrected"]
    for row in rows:
        names = (f"{which}_{what}" for what in ("slope", "noise") for which in ("one_step", "corrected"))
        yield [f"{row['h']:g}", *(signed(row[name], row[f"{name}_error"]) for name in names)]


def finite_step_escape(rows):
    yield ["h", "one step", "corrected", "one step, simulated", "corrected, simulated", "farthest of 20 corrected"]
    for row in rows:
        names = ("one_step", "corrected", "one_step_simulated", "corrected_simulated")
        found = (f"{row[name]:.3f} ± {row[f'{name}_spread']:.3f}" for name in names)
        yield [f"{row['h']:g}", *found, f"{row['corrected_worst']:.1%}"]


def finite_step_gaps(rows):
    yield ["fit", "drift", "covariance", "worst drift", "worst covariance"]
    for row in rows:
        names = ("drift", "covariance", "worst_drift", "worst_covariance")
        yield [row["fit"], *(f"{row[name]:.3f}" for name in names)]


def finite_step_seconds(rows):
    yield ["experiment", "without", "with correction", "ratio"]
    for row in rows:
        yield [row["experiment"], f"{row['without']:.3f}", f"{row['with']:.3f}", f"{row['ratio']:.2f}"]


def adam_epochs(rows):
    yield [
        "batch",
        "compiled epoch",
        "our step, jitted, in a loop",
        "plain step, jitted, in a loop",
        "plain step, not compiled",
    ]
    for row in rows:
        found = (row[f"ratio_to_{name}"] for name in ("jitted_own", "jitted", "uncompiled"))
        ratios = (f"{ratio:,.0f}" if ratio > 100 else f"{ratio:.3g}" for ratio in found)
        yield [
            str(row["batch_size"]),
            f"{row['compiled_microseconds']:.1f} µs",
            *(f"{ratio} times" for ratio in ratios),
        ]


def beside_before(digits=3, **columns):
    """A table of cases: means over seeds, the worst, and what the mean was before if that was measured."""

    def table(rows):
        yield ["case", "seeds", *columns.values()]
        for row in rows:
            yield [row["text"], f"{row['runs']}", *(minus(mean_and_worst(row, name, digits)) for name in columns)]

    return table


def mean_and_worst(row, name, digits):
    if name not in row:
        return ""
    text = f"{row[name]:.{digits}f}"
    if f"{name}_worst" in row and row["runs"] > 1:
        text += f", worst {row[f'{name}_worst']:.{digits}f}"
    return text + (f" (before: {row[f'{name}_before']:.{digits}f})" if f"{name}_before" in row else "")


def as_kept(rows):
    """Rows whose cells are text already."""
    yield list(rows[0])
    for row in rows:
        yield [minus(cell) if cell[:1] == "-" else cell for cell in row.values()]


def measurement_noise(rows):
    """Ratios of mean squared errors to those without errors of measurement; false alarms in a line of their own."""
    yield [
        "case",
        "squared drift error, with / without errors",
        "relative error of Σ",
        "without errors",
        "sd / true sd",
        "coverage of f, Σ",
        "seconds, plain fit",
        "errors were found in",
    ]
    for row in rows:
        if "clean" not in row:
            yield [row["text"], *["–"] * 6, f"{row['taken']:.0%} of {row['runs']}"]
            continue
        sd = f"{row['sd_ratio']:.3f} ± {row['sd_error']:.3f}" if "sd_ratio" in row else "–"
        yield [
            row["text"],
            f"{row['squared'] / row['clean']:.2f}",
            f"{row['sigma']:.1%}",
            f"{row['clean_sigma']:.1%}",
            sd,
            f"{row['drift_coverage']:.2f}, {row['sigma_coverage']:.2f}",
            f"{row['seconds']:.1f}, {row['clean_seconds']:.2f}",
            f"{row['taken']:.0%} of {row['runs']}",
        ]


def hidden_surroundings(rows):
    """Errors behind errors of measurement or without velocities, beside those with neither; a line for each case."""
    yield [
        "case",
        "seeds",
        "squared error of f",
        "with clean states",
        "ratio of means",
        "errors ignored",
        "error of Σ",
        "with clean states",
        "errors ignored",
        "sd / true sd",
        "coverage of f, Σ",
        "errors were found in",
    ]
    for row in rows:
        ignored = ["–", "–"]
        if "force_ignored" in row:
            ignored = [f"{row['force_ignored']:.4f}", f"{row['sigma_ignored']:.1%}"]
        yield [
            row["text"],
            f"{row['runs']}",
            f"{row['force']:.4f}, worst {row['force_worst']:.4f}",
            f"{row['force_clean']:.4f}, worst {row['force_clean_worst']:.4f}",
            f"{row['force'] / row['force_clean']:.2f}",
            ignored[0],
            f"{row['sigma']:.1%}",
            f"{row['sigma_clean']:.1%}",
            ignored[1],
            f"{row['sd_ratio']:.3f} ± {row['sd_error']:.3f}" if "sd_ratio" in row else "–",
            f"{row['drift_coverage']:.2f}, {row['sigma_coverage']:.2f}",
            f"{row['taken']:.0%}",
        ]


def dynamics_exact(rows):
    yield ["answer", "error", "allowed", "seconds"]
    for row in rows:
        error = f"{row['error']:.3%}" if row["answer"].startswith("density") else minus(f"{row['error']:+.3%}")
        yield [row["answer"], error, f"{row['allowed']:.1%}", f"{row['seconds']:.2f}"]


def dynamics_seconds(rows):
    systems = ("one variable", "two variables", "position and velocity")
    yield ["answer", *systems]
    for row in rows:
        yield [f"`{row['answer']}`", *(f"{row[name]:.2f}" if name in row else "–" for name in systems)]


def dynamics_coverage(rows):
    yield ["system", "answer", "truth", "covered", "mean error", "root mean square error", "stated"]
    for row in rows:
        yield [
            row["case"],
            row["answer"],
            minus(f"{row['truth']:.4g}"),
            f"{row['covered']:.0%} ± {row['covered_se']:.0%} of {row['runs']}",
            minus(f"{row['bias']:+.2g}"),
            f"{row['error']:.2g}",
            f"{row['std']:.2g}",
        ]


def conditions(rows):
    """Differences that were found between conditions."""
    yield ["data", "pairs", "drift", "noise", "either", "band of the drift", "of the noise", "seconds"]
    for row in rows:
        shares = (f"{row[name]:.1%}" for name in ("drift", "noise", "either", "drift_band", "noise_band"))
        yield [row["text"], f"{row['runs']}", *shares, f"{row['seconds']:.2f}"]


def formula(rows):
    """Which terms are found, beside other packages."""
    yield [
        "system",
        "seeds",
        "right",
        "false terms, strong ones missed",
        "within 95 % intervals",
        "squared error / best",
        "no short formula",
        "drift right: here, pysindy",
        "all right by PyDaddy",
        "seconds: formula, fit",
    ]
    for row in rows:
        known = "right" in row
        share = {
            name: f"{row[name]:.0%}" if name in row else "–"
            for name in ("own_drift_right", "pysindy_right", "pydaddy_right")
        }
        yield [
            row["text"],
            f"{row['runs']}",
            f"{row['right']:.0%}" if known else "–",
            f"{row['n_false']:.2f}, {row['n_missed']:.2f}" if known else "–",
            f"{row['covered']:.1%}" if known else "–",
            f"{row['error_ratio']:.2f}" if known else "–",
            f"{row['worse']:.0%}",
            f"{share['own_drift_right']}, {share['pysindy_right']}" if known else "–",
            share["pydaddy_right"],
            f"{row['seconds']:.0f}, {row['fit_seconds']:.0f}",
        ]


def by_problem(rows):
    """Rows of `peers.json` of each problem and size on which itofit ran, by tool."""
    found = {}
    for row in rows:
        found.setdefault((row["problem"], row["rows"]), {})[row["tool"]] = row
    return {key: own for key, own in found.items() if "runs" in own.get("itofit", {})}


PEERS = ("itofit", "formula", "sfi", "pydaddy", "pysindy", "kramersmoyal", "adam")
"""Tools of the big tables."""


def usual_tools(rows):
    """Their names and labels."""
    labels = {row["tool"]: row["label"] for row in rows}
    return {tool: labels[tool] for tool in PEERS if tool in labels}


def power_of_ten(n):
    return f"10{str(len(str(n)) - 1).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def not_learned(row, name):
    """Why a cell has no number."""
    if row is None:
        return "not run"
    if "cannot" in row or (row["tool"] == "pysindy" and name == "sigma"):
        return "–"
    if row.get("too_slow") or row.get("stopped"):
        return "too slow"
    return "failed" if row.get("exceptions") else "–"


def seeds_of(own):
    """How many seeds there are, and whose number differs."""
    made = {row["label"]: row["runs"] for row in own.values() if "runs" in row}
    most = max(made.values())
    others = ", ".join(f"{label} {n}" for label, n in made.items() if n < most)
    return f"{most}" + (f" ({others})" if others else "")


def set_off(text, bold):
    return f"**{text}**" if bold else text


def peers(name):
    """Errors of one function by all tools, with those of itofit and of its formula over the best of the others."""

    def table(rows):
        tools = usual_tools(rows)
        yield ["problem", "N", *tools.values(), "itofit / best other", "formula / best other", "seeds"]
        for (_, n), found in by_problem(rows).items():
            own = {tool: row for tool, row in found.items() if tool in tools}
            values = {tool: row[name] for tool, row in own.items() if name in row}
            others = [row for tool, row in own.items() if tool not in ("itofit", "formula") and name in row]
            best = min(others, key=lambda row: row[name], default=None)
            cells = [
                set_off(f"{values[tool]:.2g}", values[tool] == min(values.values()))
                if tool in values
                else not_learned(own.get(tool), name)
                for tool in tools
            ]
            ratios = [
                "–" if best is None or f"{tool}_{name}" not in best else f"{best[f'{tool}_{name}'] / best[name]:.2g}"
                for tool in ("itofit", "formula")
            ]
            yield [own["itofit"]["text"], power_of_ten(n), *cells, *ratios, seeds_of(own)]

    return table


def peers_coverage(rows):
    """Coverage of 95 % intervals by the tools that have them."""
    tools = {"itofit": "itofit", "sfi": "StochasticForceInference"}
    yield ["problem", "N", *(f"{what}: {label}" for label in tools.values() for what in ("f", "Σ"))]
    for (_, n), own in by_problem(rows).items():
        cells = [
            f"{own[tool][key]:.0%}" if key in own.get(tool, {}) else "–"
            for tool in tools
            for key in ("drift_coverage", "sigma_coverage")
        ]
        yield [own["itofit"]["text"], power_of_ten(n), *cells]


def peers_cost(rows):
    """CPU seconds and peak memory of each tool."""
    tools = usual_tools(rows)
    yield ["problem", "N", *tools.values()]
    for (_, n), own in by_problem(rows).items():
        cells = [
            f"{own[tool]['seconds']:.1f} s, {own[tool]['megabytes']:,.0f} MB"
            if "seconds" in own.get(tool, {})
            else not_learned(own.get(tool), "drift")
            for tool in tools
        ]
        yield [own["itofit"]["text"], power_of_ten(n), *cells]


def peers_degrees(rows):
    """What polynomials two degrees higher than needed cost."""
    yield ["problem", "N", "f: itofit", "SFI, degree 3", "SFI, degree 5", "Σ: itofit", "SFI, degree 2", "SFI, degree 4"]
    for (_, n), own in by_problem(rows).items():
        if "drift" in own.get("sfi-5", {}):
            cells = [f"{own[tool][name]:.2g}" for name in ("drift", "sigma") for tool in ("itofit", "sfi", "sfi-5")]
            yield [own["itofit"]["text"], power_of_ten(n), *cells]


def against_sfi(rows):
    """Squared errors of the drift beside StochasticForceInference's, with the right polynomials and higher ones."""
    yield [
        "data",
        "itofit",
        "itofit, formula",
        "SFI, degree 3: all terms, PASTIS",
        "itofit / all terms",
        "SFI, degree 5: all terms, PASTIS",
        "itofit / all terms",
        "CPU seconds: itofit, SFI of degree 3",
    ]
    for row in rows:
        own = [f"{row[f'{tool}_error']:.5f} ({row[f'{tool}_seeds']})" for tool in ("itofit", "formula")]
        others = []
        for tool in ("sfi-3", "sfi-5"):
            if row[f"{tool}_seeds"]:
                errors = ", ".join(f"{row[f'{tool}_{key}']:.5f}" for key in ("all_terms", "error"))
                ratio = row[f"{tool}_beside"] / row[f"{tool}_all_terms"]
                others += [f"{errors} ({row[f'{tool}_seeds']})", f"{ratio:.2f}"]
            else:
                others += ["not run", "–"]
        yield [row["text"], *own, *others, f"{row['itofit_seconds']:.1f}, {row['sfi-3_seconds']:.1f}"]


def hidden_formula(rows):
    """Which terms are found where states are hidden."""
    yield [
        "system",
        "seeds",
        "right",
        "false terms, true ones missed",
        "within 95 % intervals",
        "errors / standard errors",
        "sd of errors of measurement within its interval",
        "seconds: formula, fit",
    ]
    for row in rows:
        yield [
            row["text"],
            f"{row['runs']}",
            f"{row['right']:.0%}",
            f"{row['n_false']:.2f}, {row['n_missed']:.2f}",
            f"{row['covered']:.1%}",
            f"{row['deviation']:.2f}",
            f"{row['sd_covered']:.0%}" if "sd_covered" in row else "–",
            f"{row['seconds']:.0f}, {row['fit_seconds']:.0f}",
        ]


def false_terms(rows):
    """How often formulas have false terms at a level that is easily measured."""
    yield ["system", "seeds", "with a false term of f", "of Σ", "of either"]
    for row in rows:
        yield [row["text"], f"{row['runs']}", *(f"{row[name]:.0%}" for name in ("drift", "noise", "either"))]


def share(row, what):
    return f"{100 * row[what] / row['seeds']:.0f} %"


def checks(rows):
    """Faults: in how many data sets each was found, and called good."""
    rows = [row for row in rows if row["size"]]
    sizes = sorted({row["n"] for row in rows})
    yield ["fault", "finding", "size", *(f"{n:,} steps: found / good" for n in sizes)]
    for name in dict.fromkeys(row["fault"] for row in rows):
        for size in (1, 3):
            of_size = {row["n"]: row for row in rows if row["fault"] == name and row["size"] == size}
            first = of_size[sizes[0]]
            told = [f"{share(of_size[n], 'found')} / {share(of_size[n], 'good')}" for n in sizes]
            yield [name if size == 1 else "", f"`{first['finding']}`" if size == 1 else "", f"{size}", *told]


def checks_right(rows):
    """Right models: in how many data sets each finding accused them, and was good."""
    rows = [row for row in rows if not row["size"]]
    sizes = sorted({row["n"] for row in rows})
    yield ["model", "finding", *(f"{n:,} steps: accused / good" for n in sizes)]
    for model, finding in dict.fromkeys((row["fault"], row["finding"]) for row in rows):
        own = {row["n"]: row for row in rows if (row["fault"], row["finding"]) == (model, finding)}
        yield [model, f"`{finding}`", *(f"{share(own[n], 'found')} / {share(own[n], 'good')}" for n in sizes)]


TABLES = {
    "dynamics_exact": dynamics_exact,
    "dynamics_seconds": dynamics_seconds,
    "dynamics_coverage": dynamics_coverage,
    "conditions": conditions,
    "formula": formula,
    "hidden_formula": hidden_formula,
    "against_sfi": against_sfi,
    "false_terms": false_terms,
    "pairing": lambda rows: compared(rows, "pairing"),
    "delta": lambda rows: compared(rows, "delta"),
    "paper_settings": paper_settings,
    "direct_solve": direct_solve,
    "many_inputs": many_inputs,
    "stopping": stopping,
    "gram_product": gram_product,
    "short_steps": short_steps,
    "agreement": agreement,
    "choice": choice,
    "whole_fit": whole_fit,
    "growth": growth,
    "evaluation": evaluation,
    "large_file": large_file,
    "large_csv": large_csv,
    "quality": quality,
    "quality_errors": quality_errors,
    "hard_cases": hard_cases,
    "refinements": refinements,
    "coverage": coverage,
    "finite_step_cases": finite_step_cases,
    "finite_step_linear": finite_step_linear,
    "finite_step_escape": finite_step_escape,
    "finite_step_gaps": finite_step_gaps,
    "finite_step_seconds": finite_step_seconds,
    "adam_epochs": adam_epochs,
    "all_rows": beside_before(
        drift_error="relative drift error",
        right_waves_error="of the right waves",
        covariance_error="relative covariance error",
        seconds="seconds",
        extra_megabytes="memory besides the data, MB",
    ),
    "linear_systems": beside_before(
        drift_error="drift error",
        least_squares_error="of least squares",
        ratio="ratio",
        coverage="coverage of 95 % bands",
        least_squares_coverage="of those of least squares",
    ),
    "nonlinear_systems": beside_before(
        drift_error="relative drift error", polynomial_error="of the polynomials", coverage="coverage of 95 % bands"
    ),
    "positions": beside_before(
        digits=4,
        force="error of f",
        force_known="with true velocities",
        ratio="ratio",
        sigma="error of Σ",
        sd="estimated sd of errors",
        coverage="coverage of 95 % bands",
    ),
    "turning_noise": beside_before(
        largest="largest eigenvalue",
        error="error of Σ",
        paper_error="of Algorithm 2",
        excess="loss above the truth's",
        paper_excess="of Algorithm 2",
    ),
    "bootstrap": beside_before(constant="share found constant", error="relative error of Σ"),
    "uneven_steps": beside_before(
        all_drift="drift error",
        short_drift="without long steps",
        all_covariance="relative covariance error",
        short_covariance="without long steps",
    ),
    "random_equations": beside_before(
        worse_at_training="share worse than constants at the training inputs",
        worse_within="within the range",
        overflows="share with overflowing intervals",
    ),
    "outliers": beside_before(
        drift_ratio="drift error, with / without it", covariance_ratio="covariance error, with / without it"
    ),
    "ordinary_data": beside_before(above="loss above constants'", diagonal="share with a diagonal Σ"),
    "driven": beside_before(
        drift_error="relative drift error",
        right_terms_error="of least squares on the right terms",
        without_error="without covariate or period",
        apart_error="of a fit for each value",
        coverage="coverage of 95 % bands",
        covariance_error="relative error of Σ",
        jump_without="jump at the cut without the period",
        simulated="error of simulated means",
    ),
    "campaign": campaign,
    "measurement_noise": measurement_noise,
    "hidden_surroundings": hidden_surroundings,
    "peers_drift": peers("drift"),
    "peers_sigma": peers("sigma"),
    "peers_coverage": peers_coverage,
    "peers_cost": peers_cost,
    "peers_degrees": peers_degrees,
    "checks": checks,
    "checks_right": checks_right,
    "reproduction": as_kept,
    "reproduction_claim": as_kept,
}
FILES = {"quality_errors": "quality", "checks_right": "checks"}
FILES |= {name: "peers" for name in TABLES if name.startswith("peers_")}
"""Tables whose results are in a file of another name."""


def markdown(name):
    rows = list(TABLES[name](json.loads((RESULTS / f"{FILES.get(name, name)}.json").read_text())["rows"]))
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
