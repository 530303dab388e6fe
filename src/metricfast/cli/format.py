"""CSV files as text: encoding, separator, header and cells."""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

__all__ = ["Format", "cells_of"]

_SEPARATORS = (",", ";", "\t", "|")
# Records that decide which separator a file has.
_SAMPLE = 50
_EXCEL = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)
_BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


@dataclass(frozen=True)
class Format:
    """How the text of a CSV file is read.

    `sep`, `decimal`, `thousands`, `encoding`: None where the file decides.
    `thousands`: "" for none.
    `na`: texts and numbers that mean a missing value, in every column.
    `usual_decimal`: the decimal sign of the training file. It decides where a file does not.
    `dates`: for each column of dates the format of pandas.to_datetime.
    """

    sep: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    na: tuple[str, ...] = ()
    usual_decimal: str | None = None
    dates: Mapping[str, str] = field(default_factory=dict)

    def over(self, saved: Format) -> Format:
        """Return this format, completed by a saved one."""
        return replace(saved, **{k: v for k, v in asdict(self).items() if v not in (None, (), {})})

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Format:
        """Return the format that `dataclasses.asdict` and JSON have stored."""
        return cls(**{**state, "na": tuple(state["na"])})


def cells_of(path: Path, format: Format) -> tuple[Any, Format, list[str]]:
    """Read a CSV file as a DataFrame of stripped texts, NaN where a cell is empty.

    Returns the DataFrame, the format with separator and encoding, and remarks. Raises ValueError or
    OSError if the file cannot be read.
    """
    text, encoding = _decoded(path, format.encoding)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    first = _EXCEL.match(text)
    sep = format.sep or (first[1] if first else _separator(text, path))
    text = text[first.end() :] if first else text
    records = _records(text, sep)
    header = next((record for record, _ in records), None)
    if header is None:
        raise ValueError("it has no header")
    names = [name.strip() or f"Unnamed: {j}" for j, name in enumerate(header)]
    rows = [_checked(record, line, names) for record, line in records]
    pandas = importlib.import_module("pandas")
    frame = pandas.DataFrame(rows, columns=names, dtype=str)
    remarks = []
    if format.encoding is None and encoding == "cp1252":
        remarks.append("not UTF-8, read as Latin-1 (cp1252); --encoding names another encoding")
    if format.sep is None and sep != _usual(path):
        remarks.append(f"values are separated by {sep!r}; --sep names another separator")
    empty = [i for i, row in enumerate(rows) if not any(map(str.strip, row))]
    if empty:
        where = ", ".join(map(str, empty[:5])) + (", …" if len(empty) > 5 else "")
        remarks.append(f"{len(empty)} rows have no values: {where}")
    return frame, replace(format, sep=sep, encoding=encoding), remarks


def _decoded(path: Path, encoding: str | None) -> tuple[str, str]:
    """Return the text of a file, and its encoding."""
    data = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(f"it is not compressed by gzip: {error}") from error
    marked = next((name for mark, name in _BYTE_ORDER_MARKS.items() if data.startswith(mark)), None)
    fits = [encoding] if encoding else [marked] if marked else ["utf-8", "cp1252"]
    for each in fits:
        try:
            return data.decode(each).removeprefix("\ufeff"), each
        except UnicodeDecodeError as error:
            fault = f"byte {data[error.start]:#04x} at {error.start}"
    raise ValueError(
        f"its text is not {' or '.join(fits)} ({fault}): --encoding names another encoding"
    )


def _usual(path: Path) -> str:
    return "\t" if ".tsv" in [suffix.lower() for suffix in path.suffixes] else ","


def _separator(text: str, path: Path) -> str:
    """Return the separator by which the first records have the same number of values."""
    found = _usual(path)
    most = 1
    for sep in (found, *_SEPARATORS):
        widths = [len(record) for record, _ in islice(_records(text, sep), _SAMPLE)]
        if len(set(widths)) == 1 and widths[0] > most:
            found, most = sep, widths[0]
    return found


def _records(text: str, sep: str) -> Iterator[tuple[list[str], int]]:
    """Give the records that are not blank, each with the number of its last line."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=sep)
    try:
        for record in reader:
            if len(record) > 1 or (record and record[0].strip()):
                yield record, reader.line_num
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from error


def _checked(record: list[str], line: int, names: list[str]) -> list[str]:
    if len(record) != len(names):
        raise ValueError(
            f"line {line} has {len(record)} values, the header {len(names)} names: quote values "
            "that hold the separator, or name another one by --sep"
        )
    return record
