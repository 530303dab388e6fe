"""Read the tables of bad_input.md, and check that calls raise the errors in their rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from metricfast.exceptions import LossOverflowError, NonPSDError, PreprocessorError

PAGE = Path(__file__).with_suffix(".md")
ROW = re.compile(r"\| `([\w-]+)` \| (?:`(\w+)`: )?.* \| (?:(\w+Error): `(.*)`|works: .*) \|")
ERRORS = {
    error.__name__: error
    for error in (
        *(ValueError, TypeError, AttributeError, FileNotFoundError, np.linalg.LinAlgError),
        *(NotFittedError, NonPSDError, PreprocessorError, LossOverflowError),
    )
}


class Row(NamedTuple):
    """One row: its learner, if it is about a single one, and its error, if any."""

    learner: str | None
    error: type[Exception] | None
    text: str | None


def read_table(section: str) -> dict[str, Row]:
    """Return the table's rows under a heading, by id; each must name an error or say "works"."""
    page = PAGE.read_text(encoding="utf-8")
    lines = page.split(f"## {section}\n")[1].split("\n## ")[0].splitlines()
    rows: dict[str, Row] = {}
    for line in lines:
        if line.startswith("| `"):
            match = ROW.fullmatch(line)
            assert match, f"a row that neither names an error nor says that it works: {line}"
            assert match[1] not in rows, f"two rows have the id {match[1]}"
            rows[match[1]] = Row(match[2], ERRORS[match[3]] if match[3] else None, match[4])
    return rows


def check(row: Row, call: Callable[[], object]) -> None:
    """Check that the call raises the row's error, or nothing if the row says "works"."""
    if row.error is None:
        call()
        return
    pattern = ".*".join(re.escape(part) for part in row.text.split("…"))
    with pytest.raises(row.error, match=f"(?s){pattern}") as raised:
        call()
    assert type(raised.value) is row.error


def other_layouts(points: np.ndarray) -> list[np.ndarray]:
    """Return the same values in Fortran order, strided, read-only and with negative strides."""
    steps = np.zeros((2 * points.shape[0], 3 * points.shape[1]), points.dtype)[::2, ::3]
    steps[:] = points
    read_only = points.copy()
    read_only.flags.writeable = False
    negative = np.ascontiguousarray(points[::-1, ::-1])[::-1, ::-1]
    return [np.asfortranarray(points), steps, read_only, negative]


def changed(value: object, points: np.ndarray) -> np.ndarray:
    """Return a copy with one value changed."""
    points = points.copy()
    points[1, 2] = value
    return points
