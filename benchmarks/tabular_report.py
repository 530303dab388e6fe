"""Tables of the study of tables: means over splits, and a summary over tables."""

from __future__ import annotations

__all__ = ["Found", "error_ratio", "ranges", "report", "summary"]

from typing import Any

import numpy as np

from benchmarks.tabular_data import GROUPS
from benchmarks.tabular_measures import beyond_noise, geometric_mean

Measures = dict[str, Any]  # numbers, and the errors of points
Found = dict[tuple[str, int, str], Measures]
OURS, BASE = "nca", "hgb"


def error_ratio(ours: list[Measures], others: list[Measures]) -> float:
    """Return the ratio of mean errors; of classes, each has half a wrong point more.

    So a table without errors has a ratio.
    """
    half = 0.5 / sum(row["points"] for row in ours) if "log loss" in ours[0] else 0.0
    mean = [float(np.mean([row["error"] for row in rows])) + half for rows in (ours, others)]
    return mean[0] / mean[1]


def _common(found: Found, table: str, models: list[str]) -> dict[str, list[Measures]]:
    """Return the measures of the splits that all models have, by model."""
    splits = sorted({number for name, number, _ in found if name == table})
    common = [s for s in splits if all((table, s, m) in found for m in models)]
    return {m: [found[table, s, m] for s in common] for m in models} if common else {}


def _mean(rows: list[Measures], key: str) -> float:
    return float(np.mean([row[key] for row in rows]))


def _markdown(head: list[str], lines: list[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _number(value: float, digits: int = 3) -> str:
    return "" if np.isnan(value) else f"{value:.{digits}g}"


def summary(found: Found, tables: list[str], models: list[str]) -> str:
    """Return a line for each model: means over these tables, geometric ones of ratios."""
    by_table = {t: rows for t in tables if (rows := _common(found, t, models))}
    of_classes = [t for t, rows in by_table.items() if "log loss" in rows[models[0]][0]]
    of_numbers = [t for t in by_table if t not in of_classes]
    head = ["model", "error ratio", "log loss", "AUC", "calibration error", "RMSE ratio"]
    head += ["fit, s", "predict, s", "nca lower", "nca higher"]
    lines = []
    for m in models:
        ratios = [
            geometric_mean(error_ratio(by_table[t][m], by_table[t][BASE]) for t in kind)
            if BASE in models
            else float("nan")
            for kind in (of_classes, of_numbers)
        ]
        means = [
            float(np.mean([_mean(by_table[t][m], key) for t in of_classes] or [np.nan]))
            for key in ("log loss", "AUC", "calibration error")
        ]
        seconds = [
            float(np.mean([_mean(rows[m], key) for rows in by_table.values()] or [np.nan]))
            for key in ("fit", "predict")
        ]
        cells = [_number(ratios[0]), *map(_number, means), _number(ratios[1])]
        cells += [f"{seconds[0]:.1f}", f"{seconds[1]:.2f}"]
        verdicts = [
            beyond_noise(*([row["point errors"] for row in rows[one]] for one in (OURS, m)))
            for rows in by_table.values()
            if OURS in models and m != OURS
        ]
        counts = [str(verdicts.count(-1)), str(verdicts.count(1))] if verdicts else ["", ""]
        lines.append([m, *cells, *counts])
    title = f"{len(of_classes)} tables of classes, {len(of_numbers)} of numbers"
    splits = max((len(rows[models[0]]) for rows in by_table.values()), default=0)
    return f"{title}; splits: {splits}\n\n{_markdown(head, lines)}"


def ranges(found: Found, tables: list[str]) -> str:
    """Return the median, minimum and maximum over tables of our result divided by the base's."""
    by_table = [rows for t in tables if (rows := _common(found, t, [OURS, BASE]))]
    ratios: dict[str, list[float]] = {"error": [], "log loss": [], "RMSE": [], "fit, s": []}
    for rows in by_table:
        ours, others = rows[OURS], rows[BASE]
        of_classes = "log loss" in ours[0]
        ratios["error" if of_classes else "RMSE"].append(error_ratio(ours, others))
        for name, key in (("log loss", "log loss"), ("fit, s", "fit")):
            if key in ours[0]:
                ratios[name].append(_mean(ours, key) / _mean(others, key))
    lines = [
        [name, *map(_number, (np.median(found), min(found), max(found)))]
        for name, found in ratios.items()
        if found
    ]
    return _markdown([f"{OURS} / {BASE}", "median", "lowest", "highest"], lines)


def _each(found: Found, tables: list[str], models: list[str], key: str) -> str:
    """Return a line for each table that has the measure: its means over splits."""
    lines = []
    for table in tables:
        rows = _common(found, table, models)
        if not rows or (key != "ratio" and key not in rows[models[0]][0]):
            continue
        if key == "ratio":
            values = [error_ratio(rows[m], rows[BASE]) for m in models]
        else:
            values = [_mean(rows[m], key) for m in models]
        lines.append([table, *map(_number, values)])
    return _markdown(["table", *models], lines)


def report(found: Found, tables: list[str], models: list[str]) -> str:
    """Return the summaries, and a table for each measure."""
    groups = {"All tables": tables}
    for group, names in GROUPS.items():
        groups[f"{group.capitalize()} tables"] = [t for t in tables if t in names]
    parts = [
        f"## {title}\n\n{summary(found, names, models)}"
        + (f"\n\n{ranges(found, names)}" if {OURS, BASE} <= {*models} else "")
        for title, names in groups.items()
        if names
    ]
    keys = {"Errors": "error", f"Ratios to the error of {BASE}": "ratio", "Log losses": "log loss"}
    keys |= {"Areas under the ROC curve": "AUC", "Calibration errors": "calibration error"}
    keys |= {"Seconds of fit": "fit", "Seconds of predict": "predict"}
    if BASE not in models:
        keys = {title: key for title, key in keys.items() if key != "ratio"}
    parts += [f"## {title}\n\n{_each(found, tables, models, key)}" for title, key in keys.items()]
    return "\n\n".join(parts)
