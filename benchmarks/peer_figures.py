"""Pictures of docs/peers.md from results/peers.json: errors and seconds against N, and functions beside the truth.

python benchmarks/peer_figures.py
"""

import json
from pathlib import Path

import matplotlib as mpl
from common import RESULTS
from matplotlib import pyplot as plt

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
LOOKS = {
    "itofit": ("#0072B2", "o", "-"),
    "formula": ("#000000", "*", "-"),
    "sfi": ("#D55E00", "s", "--"),
    "pydaddy": ("#CC79A7", "D", ":"),
    "pysindy": ("#009E73", "^", "-."),
    "kramersmoyal": ("#E69F00", "v", (0, (5, 1, 1, 1, 1, 1))),
    "adam": ("#56B4E9", "P", (0, (1, 1))),
}
SHOWN = ("varying", "errors", "cycle", "lorenz", "positions", "crooked")


def against_rows(rows, problems, name, label, path):
    """One panel for each problem: a number of all tools against the number of observations."""
    figure, axes = plt.subplots(2, 3, figsize=(9, 6), sharex=True, layout="constrained")
    labels = {}
    for ax, problem in zip(axes.ravel(), problems, strict=True):
        own = [row for row in rows if row["problem"] == problem and name in row]
        for tool, (colour, marker, line) in LOOKS.items():
            points = [(row["rows"], row[name]) for row in own if row["tool"] == tool]
            if points:
                drawn = ax.loglog(*zip(*points, strict=True), color=colour, marker=marker, linestyle=line, markersize=6)
                labels.setdefault(next(row["label"] for row in rows if row["tool"] == tool), drawn[0])
        ax.set_title(own[0]["text"], fontsize=10)
        ax.grid(alpha=0.3)
    for ax in axes[-1]:
        ax.set_xlabel("observations N")
    for ax in axes[:, 0]:
        ax.set_ylabel(label)
    figure.legend(labels.values(), labels.keys(), loc="outside lower center", ncols=4, fontsize=9)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def functions(curves, labels, path):
    """Drift and covariance of each tool beside the truth, where 99 % of the data are in white."""
    tools = [tool for tool in LOOKS if curves["tools"].get(tool) and tool != "formula"]  # there is no short one
    figure, axes = plt.subplots(
        2, len(tools), figsize=(2.1 * len(tools), 4.2), sharex=True, sharey="row", layout="constrained"
    )
    x, truth = curves["places"], curves["tools"]["truth"]
    for column, tool in zip(axes.T, tools, strict=True):
        for ax, name in zip(column, ("drift", "sigma"), strict=True):
            ax.axvspan(x[0], curves["middle"][0], color="0.92")
            ax.axvspan(curves["middle"][1], x[-1], color="0.92")
            ax.plot(x, truth[name], color="black", linewidth=1, label="truth")
            found = curves["tools"][tool].get(name)
            if found is None:
                ax.text(
                    0.5, 0.5, "learns no Σ", transform=ax.transAxes, ha="center", fontsize=9, backgroundcolor="white"
                )
            else:
                ax.plot(x, found, color=LOOKS[tool][0], linewidth=2.2, linestyle="--")
            low, high = min(truth[name]), max(truth[name])
            ax.set_ylim(low - 0.25 * (high - low), high + 0.25 * (high - low))
        column[0].set_title(labels[tool], fontsize=9)
        column[1].set_xlabel("x")
    axes[0, 0].set_ylabel("drift f(x)")
    axes[1, 0].set_ylabel("covariance Σ(x)")
    axes[0, 0].legend(fontsize=8, frameon=False, loc="lower left")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main():
    mpl.use("agg")
    plt.rcParams["svg.hashsalt"] = "peers"  # the same bytes each time
    results = json.loads((RESULTS / "peers.json").read_text())
    rows = results["rows"]
    against_rows(rows, SHOWN, "drift", "relative error of f", FIGURES / "peers-errors.svg")
    against_rows(rows, SHOWN, "seconds", "CPU seconds", FIGURES / "peers-seconds.svg")
    if results["curves"]:
        functions(results["curves"], {row["tool"]: row["label"] for row in rows}, FIGURES / "peers-functions.png")


if __name__ == "__main__":
    main()
