"""Tables in files: CSV, Parquet and npz, read and written."""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from metricfast._core.types import Array
from metricfast.cli.encoding import is_date
from metricfast.cli.format import Format, cells_of
from metricfast.cli.values import Values, decimal_of, is_text, read_as, recognised

__all__ = ["Table", "column", "read_table", "write_table"]

_READ = ".csv, .csv.gz, .tsv, .parquet or .npz"
# Values in the place of names.
_NO_NAME = re.compile(r"-?\d*\.\d+|Unnamed: [1-9]\d*")
# Of the files that are written.
_SEPARATORS = {".csv": ",", ".tsv": "\t"}


@dataclass
class Table:
    """The columns of a file.

    `format`: how its texts were read.
    `remarks`: of the file; `of_columns`: of columns, by name.
    """

    path: Path
    frame: Any
    format: Format
    remarks: list[str] = field(default_factory=list)
    of_columns: dict[str, list[str]] = field(default_factory=dict)

    def remarks_on(self, names: Iterable[str]) -> list[str]:
        """Return the remarks on the file and on some columns."""
        return self.remarks + [each for name in names for each in self.of_columns.get(name, [])]


def read_table(
    path: Path, format: Format | None = None, kinds: Mapping[str, str] | None = None
) -> Table:
    """Read a file.

    `kinds`: for columns by name "text", "label", "numbers" or "dates". CSV files show the kinds of
    other columns by their texts.
    Of an npz file, two-dimensional arrays become a column for each of theirs, with a number.
    Raises ValueError or OSError that names the file if it cannot be read.
    """
    kind = _kind(path)
    try:
        frame, format, remarks = _read(path, kind, format or Format())
        if not len(frame):
            raise ValueError("it has no rows")
        frame.columns = frame.columns.astype(str)
        repeated = frame.columns[frame.columns.duplicated()]
        if len(repeated):
            raise ValueError(f"it has two columns {repeated[0]!r}: rename one")
    except (AttributeError, ImportError, KeyError, ValueError, BadZipFile) as error:
        raise ValueError(f"{path} cannot be read as {kind}: {error}") from error
    texts = {name: _known(frame[name], format.na) for name in frame.columns if is_text(frame[name])}
    looked_for = kind in _SEPARATORS
    if looked_for:
        decimal = decimal_of(texts.values(), format)
        if decimal == "," and not format.decimal:
            remarks.append("numbers have a decimal comma; --decimal . names a point")
        format = replace(format, decimal=decimal)
    table = Table(path, frame, format, remarks)
    columns = {}
    for name in frame.columns:
        wanted = (kinds or {}).get(name, "")
        found = Values(texts[name] if name in texts else frame[name])
        try:
            if name in texts and wanted in ("numbers", "dates"):
                found = read_as(wanted, texts[name], format)
            elif wanted in ("numbers", "dates") and is_date(frame[name]) != (wanted == "dates"):
                raise ValueError(f"The column {name!r} must hold {wanted}, got {frame[name].dtype}")
            elif looked_for and wanted != "text":
                found = recognised(texts[name], format, label=wanted == "label")
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        columns[name] = _without(found.series, format.na)
        if found.dates:
            table.format = replace(table.format, dates={**table.format.dates, name: found.dates})
        if found.marks:
            each = ", ".join(f"{text!r} ({count})" for text, count in found.marks.items())
            found.remarks.append(f"{name}: read as missing: {each}")
        table.of_columns[name] = found.remarks
    table.frame = importlib.import_module("pandas").DataFrame(columns)
    return table


def _read(path: Path, kind: str, format: Format) -> tuple[Any, Format, list[str]]:
    pandas = importlib.import_module("pandas")
    if kind == ".npz":
        with np.load(path) as arrays:
            columns = _columns({name: arrays[name] for name in arrays})
        return pandas.DataFrame(columns), format, []
    if kind == ".parquet":
        frame = pandas.read_parquet(path).reset_index(drop=True)
        return frame.apply(_typed), format, []
    return cells_of(path, format)


def _typed(values: Any) -> Any:
    """Return Python's dates, decimal numbers and truth values in types of NumPy."""
    pandas = importlib.import_module("pandas")
    kind = pandas.api.types.infer_dtype(values, skipna=True) if values.dtype == object else ""
    if kind == "date":
        return pandas.to_datetime(values)
    return values.astype("float64") if kind in ("decimal", "boolean") else values


def _known(texts: Any, na: tuple[str, ...]) -> Any:
    """Return texts without blanks around them, NaN in the place of missing ones."""
    stripped = texts.map(lambda text: text.strip() if isinstance(text, str) else text)
    return stripped.mask(stripped.isin(["", *na]))


def _without(values: Any, na: tuple[str, ...]) -> Any:
    """Return a column with NaN in the place of numbers that mean a missing value."""
    if not na or is_text(values) or values.dtype.kind not in "iuf":
        return values
    numbers = importlib.import_module("pandas").to_numeric(list(na), errors="coerce")
    return values.mask(values.isin(numbers[~np.isnan(numbers)]))


def write_table(path: Path, columns: dict[str, Array]) -> None:
    """Write columns of a table, or arrays of an npz file, in which objects are text."""
    if _kind(path) == ".npz":
        texts = {k: v if v.dtype.kind != "O" else v.astype(str) for k, v in columns.items()}
        np.savez(path, **texts)  # type: ignore[arg-type]
        return
    frame = importlib.import_module("pandas").DataFrame(columns)
    if _kind(path) == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, sep=_SEPARATORS[_kind(path)], index=False)


def column(frame: Any, name: str, path: Path) -> Any:
    """Return a column; ValueError names those that there are."""
    if name not in frame.columns:
        meant = _meant(name, list(frame.columns))
        if len(frame.columns) == 1:
            meant += " --sep names what separates columns."
        if any(map(_NO_NAME.fullmatch, frame.columns)):
            meant += " The first line of the file must have the names of its columns."
        raise ValueError(f"{path} has no column {name!r}: {meant}")
    return frame[name]


def _meant(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, names := list(names), n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"it has {', '.join(names[:10])}{', …' if len(names) > 10 else '.'}"


def _kind(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = (
        suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else "".join(suffixes[-1:])
    )
    if kind not in (*_SEPARATORS, ".parquet", ".npz"):
        raise ValueError(f"{path} must be a file in {_READ}.")
    return kind


def _columns(arrays: dict[str, Array]) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for name, array in arrays.items():
        if array.ndim == 1:
            found[name] = array
        elif array.ndim == 2:
            found |= {f"{name}{j}": array[:, j] for j in range(array.shape[1])}
        else:
            raise ValueError(f"its array {name} has {array.ndim} dimensions")
    if len({len(each) for each in found.values()}) != 1:
        raise ValueError(f"its arrays {', '.join(arrays)} have different lengths")
    return found
