"""Tables in files: CSV, Parquet and npz, read and written."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from metricfast._core.types import Array

__all__ = ["column", "read_table", "write_table"]

_READ = ".csv, .csv.gz, .tsv, .parquet or .npz"
_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def read_table(path: Path) -> Any:
    """Return a DataFrame of a file.

    Of an npz file, two-dimensional arrays become a column for each of theirs, with a number.
    Raises ValueError or OSError that names the file if it cannot be read.
    """
    pandas = importlib.import_module("pandas")
    kind = _kind(path)
    try:
        if kind == ".npz":
            with np.load(path) as arrays:
                frame = pandas.DataFrame(_columns({name: arrays[name] for name in arrays}))
        elif kind == ".parquet":
            frame = pandas.read_parquet(path)
        else:
            frame = pandas.read_csv(path, sep=_SEPARATORS[kind])
    except (AttributeError, ImportError, KeyError, ValueError, BadZipFile) as error:
        raise ValueError(f"{path} cannot be read as {kind}: {error}") from error
    if not len(frame):
        raise ValueError(f"{path} has no rows.")
    frame.columns = frame.columns.astype(str)
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise ValueError(f"{path} has two columns {repeated[0]!r}.")
    return frame


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
        raise ValueError(f"{path} has no column {name!r}: {_meant(name, list(frame.columns))}")
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
