"""What a table is to a command: points, labels, and what was made of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from metricfast._core.types import Array
from metricfast.cli.encoding import TableEncoder, is_number
from metricfast.cli.files import column, read_table

__all__ = ["Data", "labels_of", "read_data"]

# A column of texts most of which differ names rows rather than categories; of so many rows.
_MANY = 20


@dataclass
class Data:
    """The columns to learn from, the labels, and a report of what was found.

    `report`: of JSON.
    """

    frame: Any
    labels: Array
    target: str
    categorical: Sequence[str] = ()
    report: dict[str, Any] = field(default_factory=dict)

    def encoder(self) -> TableEncoder:
        """Return what makes points of the rows, not yet fitted."""
        return TableEncoder(tuple(self.categorical))

    def told(self) -> list[str]:
        """Return the report in lines."""
        found = self.report
        lines = [
            f"{found['file']}: {found['rows']} rows, {len(found['numbers'])} columns of numbers, "
            f"{len(found['categories'])} of categories"
        ]
        for key in ("categories", "missing", "left_out"):
            if found[key]:
                each = ", ".join(f"{name} ({told})" for name, told in found[key].items())
                lines.append(f"  {key.replace('_', ' ')}: {each}")
        if found["rows_without_target"]:
            lines.append(f"  rows without target, left out: {found['rows_without_target']}")
        return lines


def read_data(
    path: Path, target: str, drop: Sequence[str] = (), categorical: Sequence[str] = ()
) -> Data:
    """Return the points and labels of a file."""
    frame = read_table(path)
    for name in (*drop, *categorical):
        column(frame, name, path)
    known = np.asarray(column(frame, target, path).notna())
    if not known.any():
        raise ValueError(f"{path} has no value in its column {target!r}.")
    frame = frame[known].reset_index(drop=True)
    labels = labels_of(frame[target])
    frame = frame.drop(columns=[target, *drop])
    left_out = {}
    for name in frame.columns:
        different = frame[name].nunique()
        if name in categorical or is_number(frame[name]):
            continue
        if len(frame) >= _MANY and different > len(frame) / 2:
            left_out[name] = f"{different} different texts; --categorical {name} keeps it"
    frame = frame.drop(columns=list(left_out))
    if not len(frame.columns):
        raise ValueError(f"{path} has no column to learn from beside {target!r}.")
    of_numbers = [n for n in frame.columns if n not in categorical and is_number(frame[n])]
    missing = frame.isna().sum()
    report = {
        "file": str(path),
        "rows": len(frame),
        "numbers": of_numbers,
        "categories": {n: int(frame[n].nunique()) for n in frame.columns if n not in of_numbers},
        "missing": {name: int(count) for name, count in missing.items() if count},
        "left_out": left_out,
        "rows_without_target": int((~known).sum()),
    }
    return Data(frame, labels, target, categorical, report)


def labels_of(values: Any) -> Array:
    """Return labels: numbers, or classes as text."""
    if is_number(values) and values.dtype != bool:
        found: Array = values.to_numpy()
        return found if found.dtype.kind in "iuf" else values.to_numpy(np.float64)
    return np.array([str(value) for value in values])
