"""What a table is to a command: points, labels, and what was made of both."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from metricfast._core.types import Array
from metricfast.cli.encoding import TableEncoder, is_date, is_number, numbers
from metricfast.cli.files import column, read_table
from metricfast.cli.format import Format
from metricfast.cli.values import is_text
from metricfast.comparison.labels import looks_continuous

__all__ = ["Data", "labels_of", "read_data"]

# A column of texts most of which differ names rows rather than categories; of so many rows.
_MANY = 20
# Names of an index that pandas has written; so few rows are numbered by chance.
_INDEX = ("Unnamed: 0", "__index_level_0__")
_LEAST = 4


@dataclass
class Data:
    """The columns to learn from, the labels, and a report of what was found.

    `report`: of JSON.
    `given`: the format that options name; `format`: how texts of the file were read.
    """

    frame: Any
    labels: Array
    target: str
    categorical: Sequence[str] = ()
    report: dict[str, Any] = field(default_factory=dict)
    given: Format = field(default_factory=Format)
    format: Format = field(default_factory=Format)

    def encoder(self) -> TableEncoder:
        """Return what makes points of the rows, not yet fitted."""
        return TableEncoder(tuple(self.categorical))

    def remembered(self) -> Format:
        """Return what new files are read by: options, decimal sign and dates of this one."""
        frame, used = self.frame, self.format
        dates = {n: used.dates.get(n, "ISO8601") for n in frame if is_date(frame[n])}
        return replace(self.given, usual_decimal=used.decimal, dates=dates)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Name file, rows and target in errors on points and labels."""
        try:
            yield
        except ValueError as error:
            where = f"{self.report['file']}, {self.report['rows']} rows, target {self.target!r}"
            raise ValueError(f"{where}: {error}") from error

    def told(self) -> list[str]:
        """Return the report in lines."""
        found = self.report
        lines = [
            f"{found['file']}: {found['rows']} rows, {len(found['numbers'])} columns of numbers, "
            f"{len(found['categories'])} of categories"
        ]
        for key in ("categories", "dates", "missing", "left_out"):
            if found[key]:
                each = ", ".join(f"{name} ({told})" for name, told in found[key].items())
                lines.append(f"  {key.replace('_', ' ')}: {each}")
        if found["rows_without_target"]:
            lines.append(f"  rows without target, left out: {found['rows_without_target']}")
        return [*lines, *(f"  note: {remark}" for remark in found["remarks"])]


def read_data(
    path: Path,
    target: str,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    given: Format | None = None,
) -> Data:
    """Return the points and labels of a file."""
    kinds = dict.fromkeys((*drop, *categorical), "text") | {target: "label"}
    given = given or Format()
    table = read_table(path, given, kinds)
    frame = table.frame
    for name in (*drop, *categorical):
        column(frame, name, path)
    known = np.asarray(column(frame, target, path).notna())
    if not known.any():
        raise ValueError(f"{path} has no value in its column {target!r}.")
    frame = frame[known].reset_index(drop=True)
    labels = labels_of(frame[target])
    remarks = _numbers_among(frame[target])
    frame = frame.drop(columns=[target, *drop])
    left_out = {}
    for j, name in enumerate(frame.columns):
        if name in categorical:
            continue
        reason = _useless(frame[name], unnamed=j == 0 and name in _INDEX)
        if reason:
            left_out[name] = reason
        elif _consecutive(frame[name]):
            remarks.append(f"{name} numbers the rows: --drop {name} leaves it out")
    read = [name for name in frame.columns if not left_out.get(name) or is_text(frame[name])]
    remarks = [*table.remarks_on(read), *remarks]
    frame = frame.drop(columns=list(left_out))
    if not len(frame.columns):
        which = "".join(f"; left out: {name} ({why})" for name, why in left_out.items())
        raise ValueError(f"{path} has no column to learn from in addition to {target!r}{which}.")
    of_numbers = [n for n in frame.columns if n not in categorical and is_number(frame[n])]
    dates = {n: frame[n].dropna() for n in of_numbers if is_date(frame[n])}
    missing = frame.isna().sum()
    report = {
        "file": str(path),
        "rows": len(frame),
        "numbers": of_numbers,
        "categories": {n: int(frame[n].nunique()) for n in frame.columns if n not in of_numbers},
        "dates": {
            n: f"{days.min():%Y-%m-%d} to {days.max():%Y-%m-%d}" for n, days in dates.items()
        },
        "missing": {name: int(count) for name, count in missing.items() if count},
        "left_out": left_out,
        "rows_without_target": int((~known).sum()),
        "remarks": remarks,
    }
    return Data(frame, labels, target, categorical, report, given, table.format)


def _useless(values: Any, *, unnamed: bool) -> str:
    """Return why a column is left out, "" if it is not."""
    different = values.nunique()
    if not different:
        return "no values"
    if is_number(values):
        whole = values.dtype.kind in "iu" and different == len(values)
        return "numbers the rows, without a name; a name keeps it" if unnamed and whole else ""
    if len(values) < _MANY or different <= len(values) / 2:
        return ""
    return f"{different} different texts; --categorical {values.name} keeps it"


def _consecutive(values: Any) -> bool:
    """Report whether whole numbers are a permutation of m, ..., m + n - 1."""
    if not is_number(values) or values.dtype.kind not in "iu" or len(values) < _LEAST:
        return False
    return bool(values.is_unique and values.max() - values.min() == len(values) - 1)


def _numbers_among(target: Any) -> list[str]:
    """Return remarks on texts among labels most of which are numbers.

    Raises ValueError where the numbers look continuous.
    """
    if not is_text(target):
        return []
    read = importlib.import_module("pandas").to_numeric(target, errors="coerce")
    known = np.asarray(read.notna())
    if known.all() or 2 * known.sum() < len(target):
        return []
    others = target[~known]
    found = (
        f"{target.name} holds {int(known.sum())} numbers and {others.nunique()} texts, such as "
        f"{others.iloc[0]!r}"
    )
    remedy = f"--na {others.iloc[0]!r} leaves its rows out"
    if looks_continuous(read[known].to_numpy()):
        raise ValueError(f"The target {found}: {remedy}.")
    return [f"{found}, as classes; {remedy}"]


def labels_of(values: Any) -> Array:
    """Return labels: numbers, dates in days, or classes as text."""
    if is_number(values) and values.dtype != bool:
        found: Array = values.to_numpy()
        return found if found.dtype.kind in "iuf" else numbers(values)
    return np.array([str(value).strip() for value in values])
