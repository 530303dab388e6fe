"""Tables, contrasts and the plot of the study of dimensions."""

from __future__ import annotations

__all__ = ["report"]

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from metricfast.metrics import Score

METRIC = "ndcg_at_k"
# Pairs of methods to compare; a method without a dimension is averaged over dimensions.
CONTRASTS = {
    "dense sampling against uniform, log-ratio raw": ("log-ratio, {}, raw", "dense", "uniform"),
    "dense sampling against uniform, log-ratio L2": ("log-ratio, {}, L2", "dense", "uniform"),
    "dense sampling against uniform, triplet raw": ("triplet, {}, raw", "dense", "uniform"),
    "dense sampling against uniform, triplet L2": ("triplet, {}, L2", "dense", "uniform"),
    "log-ratio against ratio, raw": ("{}, dense, raw", "log-ratio", "ratio"),
    "log-ratio against ratio, L2": ("{}, dense, L2", "log-ratio", "ratio"),
    "log-ratio against bounded ratio, raw": ("{}, dense, raw", "log-ratio", "bounded ratio"),
    "log-ratio against bounded ratio, L2": ("{}, dense, L2", "log-ratio", "bounded ratio"),
    "bounded ratio against ratio, raw": ("{}, dense, raw", "bounded ratio", "ratio"),
    "bounded ratio against ratio, L2": ("{}, dense, L2", "bounded ratio", "ratio"),
    "log-ratio against triplet, raw": ("{}, dense, raw", "log-ratio", "triplet"),
    "log-ratio against triplet, L2": ("{}, dense, L2", "log-ratio", "triplet"),
    "triplet against binary triplet, raw": ("{}, dense, raw", "triplet", "binary triplet"),
    "triplet against binary triplet, L2": ("{}, dense, L2", "triplet", "binary triplet"),
    "L2 against raw, log-ratio": ("log-ratio, dense, {}", "L2", "raw"),
    "L2 against raw, bounded ratio": ("bounded ratio, dense, {}", "L2", "raw"),
    "L2 against raw, triplet": ("triplet, dense, {}", "L2", "raw"),
    "128 dimensions against 8, log-ratio raw": ("log-ratio, dense, raw/{}", "128", "8"),
    "128 dimensions against 8, log-ratio L2": ("log-ratio, dense, L2/{}", "128", "8"),
    "128 dimensions against 8, bounded ratio raw": ("bounded ratio, dense, raw/{}", "128", "8"),
    "128 dimensions against 8, bounded ratio L2": ("bounded ratio, dense, L2/{}", "128", "8"),
    "128 dimensions against 8, triplet raw": ("triplet, dense, raw/{}", "128", "8"),
    "128 dimensions against 8, triplet L2": ("triplet, dense, L2/{}", "128", "8"),
    "128 dimensions against 16, log-ratio raw": ("log-ratio, dense, raw/{}", "128", "16"),
    "log-ratio raw in 16 against triplet L2 in 128": (
        *("{}", "log-ratio, dense, raw/16", "triplet, dense, L2/128"),
    ),
}
EXPLAINED = ("log-ratio, dense, raw", "log-ratio, dense, L2")

Kept = dict[str, Any]


def _values(kept: Kept, method: str, dimension: int, metric: str = METRIC) -> np.ndarray:
    seeds = kept.get(f"{method}/{dimension}", {}).get("seeds", {})
    return np.array([seeds[seed][metric] for seed in sorted(seeds, key=int)])


def _difference(kept: Kept, methods: list[str], dimensions: tuple[int, ...]) -> np.ndarray:
    """Return the mean difference of two methods over their common dimensions."""
    named = [method.partition("/")[::2] for method in methods]
    both = [[_values(kept, name, int(own or p)) for name, own in named] for p in dimensions]
    known = [a - b for a, b in both if len(a) == len(b) > 0]
    return np.mean(known, axis=0) if len({len(values) for values in known}) == 1 else np.array([])


def _mean(values: np.ndarray) -> str:
    if not len(values):
        return ""
    score = Score(values, 0.0, 1.0)
    return f"{score.mean:.3f} ± {score.interval[1] - score.mean:.3f}"


def _methods(kept: Kept) -> list[str]:
    return list(dict.fromkeys(key.split("/")[0] for key in kept if "/" in key))


def _rows(columns: Iterable[object], lines: dict[str, list[str]]) -> str:
    head = ["", *map(str, columns)]
    rows = [head, ["---"] * len(head), *([name, *cells] for name, cells in lines.items())]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def table(name: str, kept: Kept, dimensions: tuple[int, ...]) -> str:
    """Return means and 95 % intervals over seeds: one line per method, one column per dimension."""
    untrained = list(kept["untrained"].values())
    chance, before = (
        np.mean([found[key] for found in untrained]) for key in (f"chance {METRIC}", METRIC)
    )
    lines = {
        method: [_mean(_values(kept, method, p)) for p in dimensions] for method in _methods(kept)
    }
    title = f"\n### {name}\n\nPoints as they come: {before:.3f}; chance: {chance:.3f}.\n\n"
    return title + _rows(dimensions, lines)


def contrasts(found: dict[str, Kept], dimensions: tuple[int, ...]) -> str:
    """Return paired differences of methods, by seed and split: one column per data set."""
    lines = {}
    for question, (pattern, *choices) in CONTRASTS.items():
        methods = [pattern.format(choice) for choice in choices]
        lines[question] = [_mean(_difference(kept, methods, dimensions)) for kept in found.values()]
    return "\n" + _rows(found, lines)


def explanation(found: dict[str, Kept], dimensions: tuple[int, ...], method: str) -> str:
    """Return statistics that explain the effect of the dimension: one column per dimension."""
    most, lines = max(dimensions), {}
    for name, kept in found.items():
        fewer = [p for p in dimensions if p < most]
        cut = [_mean(_values(kept, method, most, f"cut to {p}")) for p in fewer]
        lines |= {
            f"{name}: trained in so many": [_mean(_values(kept, method, p)) for p in dimensions],
            f"{name}: {most}, cut to so many by PCA": [*cut, _mean(_values(kept, method, most))],
            f"{name}: training points": [
                _mean(_values(kept, method, p, "train")) for p in dimensions
            ],
            f"{name}: effective dimension": [
                f"{_values(kept, method, p, 'effective dimension').mean():.1f}"
                if len(_values(kept, method, p))
                else ""
                for p in dimensions
            ],
        }
    return f"\n### {method}\n\n" + _rows(dimensions, lines)


def plot(path: Path, found: dict[str, Kept], dimensions: tuple[int, ...]) -> None:
    """Plot 1 - nDCG against the dimension: one colour per loss, dashed for uniform sampling."""
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
    if not found:
        return ""
    plot(picture, found, dimensions)
    text = [contrasts(found, dimensions)]
    text += [explanation(found, dimensions, method) for method in EXPLAINED]
    text += [table(name, kept, dimensions) for name, kept in found.items()]
    return "\n".join(text)
