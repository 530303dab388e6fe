"""Tables, contrasts and the plot of the study of dimensions."""

from __future__ import annotations

__all__ = ["report"]

from pathlib import Path
from typing import Any

import numpy as np

from metricfast.metrics import Score

METRIC = "ndcg_at_k"
# Two methods that differ in one thing, for which the braces stand.
CONTRASTS = {
    "dense sampling against uniform, log-ratio raw": "log-ratio, {}, raw: dense, uniform",
    "dense sampling against uniform, log-ratio L2": "log-ratio, {}, L2: dense, uniform",
    "dense sampling against uniform, triplet raw": "triplet, {}, raw: dense, uniform",
    "dense sampling against uniform, triplet L2": "triplet, {}, L2: dense, uniform",
    "log-ratio against ratio, raw": "{}, dense, raw: log-ratio, ratio",
    "log-ratio against ratio, L2": "{}, dense, L2: log-ratio, ratio",
    "log-ratio against triplet, raw": "{}, dense, raw: log-ratio, triplet",
    "log-ratio against triplet, L2": "{}, dense, L2: log-ratio, triplet",
    "triplet against binary triplet, raw": "{}, dense, raw: triplet, binary triplet",
    "triplet against binary triplet, L2": "{}, dense, L2: triplet, binary triplet",
    "L2 against raw, log-ratio": "log-ratio, dense, {}: L2, raw",
    "L2 against raw, triplet": "triplet, dense, {}: L2, raw",
}

Kept = dict[str, Any]


def _values(kept: Kept, method: str, dimension: int) -> np.ndarray:
    seeds = kept.get(f"{method}/{dimension}", {}).get("seeds", {})
    return np.array([seeds[seed][METRIC] for seed in sorted(seeds, key=int)])


def _mean(values: np.ndarray) -> str:
    score = Score(values, 0.0, 1.0)
    return f"{score.mean:.4f} ± {score.interval[1] - score.mean:.4f}"


def _methods(kept: Kept) -> list[str]:
    return list(dict.fromkeys(key.split("/")[0] for key in kept if "/" in key))


def table(name: str, kept: Kept, dimensions: tuple[int, ...]) -> str:
    """Return means and 95 % intervals over seeds: a line a method, a column a dimension."""
    untrained = list(kept["untrained"].values())
    chance, before = (
        np.mean([found[key] for found in untrained]) for key in (f"chance {METRIC}", METRIC)
    )
    lines = [
        f"\n### {name}: nDCG, points as they come {before:.4f}, chance {chance:.4f}\n",
        "| method | " + " | ".join(map(str, dimensions)) + " |",
        "|---" * (len(dimensions) + 1) + "|",
    ]
    for method in _methods(kept):
        cells = [_values(kept, method, dimension) for dimension in dimensions]
        shown = (_mean(values) if len(values) else "" for values in cells)
        lines.append(f"| {method} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def contrasts(kept: Kept, dimensions: tuple[int, ...]) -> str:
    """Return differences of methods, the mean over dimensions of the same seed and split."""
    lines = ["\n| difference of nDCG | " + " | ".join(map(str, dimensions)) + " | all |"]
    lines.append("|---" * (len(dimensions) + 2) + "|")
    for question, contrast in CONTRASTS.items():
        pattern, choices = contrast.split(": ")
        first, second = (pattern.format(choice) for choice in choices.split(", "))
        cells = []
        for dimension in dimensions:
            a, b = (_values(kept, method, dimension) for method in (first, second))
            cells.append(a - b if len(a) == len(b) > 0 else None)
        known = [cell for cell in cells if cell is not None]
        overall = (
            [np.mean(known, axis=0)] if known and len({len(c) for c in known}) == 1 else [None]
        )
        shown = ("" if cell is None else _mean(cell) for cell in cells + overall)
        lines.append(f"| {question} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def plot(path: Path, found: dict[str, Kept], dimensions: tuple[int, ...]) -> None:
    """Draw what nDCG lacks to 1, over dimensions: a colour a loss, dashed if uniform."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(found), 8.5), layout="constrained")
    panels = figure.subplots(2, len(found), squeeze=False, sharex=True, sharey="col")
    losses: dict[str, str] = {}
    for column, (name, kept) in enumerate(found.items()):
        for row, normalized in enumerate(("raw", "L2")):
            axes = panels[row, column]
            for method in _methods(kept):
                loss, sampling, how = method.split(", ")
                points = [(p, _values(kept, method, p)) for p in dimensions]
                points = [(p, values) for p, values in points if len(values)]
                if how != normalized or not points:
                    continue
                colour = losses.setdefault(loss, f"C{len(losses)}")
                means = [1 - values.mean() for _, values in points]
                halves = [
                    np.diff(Score(values, 0.0, 1.0).interval)[0] / 2 if len(values) > 1 else 0
                    for _, values in points
                ]
                axes.errorbar(
                    [p for p, _ in points], means, halves, color=colour, capsize=2,
                    linestyle="-" if sampling == "dense" else "--", label=f"{loss}, {sampling}",
                )  # fmt: skip
            untrained = np.mean([seed[METRIC] for seed in kept["untrained"].values()])
            axes.axhline(1 - untrained, color="grey", linewidth=1, linestyle=":", label="untrained")
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_title(f"{name}, {'normalised' if normalized == 'L2' else 'not normalised'}")
            axes.set_ylabel("1 - nDCG")
            axes.grid(alpha=0.3)
    for axes in panels[1]:
        axes.set_xlabel("dimension of the embedding")
        axes.set_xticks(dimensions, [str(p) for p in dimensions])
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2 * len(found), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def report(found: dict[str, Kept], dimensions: tuple[int, ...], picture: Path) -> str:
    """Return the tables of all data sets, and draw the plot."""
    text = []
    for name, kept in found.items():
        text += [table(name, kept, dimensions), contrasts(kept, dimensions)]
    if found:
        plot(picture, found, dimensions)
    return "\n".join(text)
