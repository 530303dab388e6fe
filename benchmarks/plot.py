"""Plot all times of a run on one logarithmic axis."""

from __future__ import annotations

__all__ = ["plot"]

from pathlib import Path

from matplotlib import pyplot

from benchmarks.case import OURS, Row


def plot(path: Path, rows: list[Row]) -> None:
    """Draw one row per case: this library is a diamond, the lower bound a bar."""
    figure, axes = pyplot.subplots(figsize=(9, 1.5 + 0.45 * len(rows)))
    labels = {o.label for row in rows for o in row.outcomes if o.seconds}
    ours_first = sorted(labels, key=lambda label: (not label.startswith(OURS), label))
    colors = {label: f"C{number}" for number, label in enumerate(ours_first)}
    for height, row in enumerate(rows):
        if row.bound is not None:
            axes.plot(row.bound, height, "k|", markersize=16, label="lower bound")
        for o in row.outcomes:
            if o.seconds:
                marker = "D" if o.label.startswith(OURS) else "o"
                axes.plot(o.seconds, height, marker, color=colors[o.label], label=o.label)
    axes.set_xscale("log")
    axes.set_xlabel("seconds")
    axes.set_yticks(range(len(rows)), [row.case.name for row in rows])
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    handles, names = axes.get_legend_handles_labels()
    legend = dict(zip(names, handles, strict=True))
    axes.legend(legend.values(), legend.keys(), loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, dpi=130, bbox_inches="tight")
    pyplot.close(figure)
