"""Rows of dask collections: blocks with their labels and weights, whatever the chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from dask import array as da
from dask import delayed, is_dask_collection

__all__ = ["array_of", "blocks_of", "joined", "row_blocks", "starts_of"]


def blocks_of(name: str, values: Any) -> list[Any]:
    """Return the blocks of rows of a collection, delayed; TypeError for what is none."""
    return list(np.ravel(_in_rows(name, values).to_delayed()))


def array_of(name: str, values: Any) -> Any:
    """Return a collection as a dask array of two dimensions, whose blocks are of rows."""
    values = _in_rows(name, values)
    array = values if isinstance(values, da.Array) else values.to_dask_array()
    if array.ndim != 2:
        raise ValueError(f"{name} must have two dimensions (points, features); found {array.ndim}.")
    return array


def _in_rows(name: str, values: Any) -> Any:
    if not is_dask_collection(values) or not hasattr(values, "to_delayed"):
        raise TypeError(
            f"{name} must be a dask array, data frame or series; found {type(values).__name__}. "
            "For what is in memory use the learner itself, or dask.array.from_array."
        )
    if isinstance(values, da.Array) and values.ndim > 1 and max(values.numblocks[1:]) > 1:
        return values.rechunk(dict.fromkeys(range(1, values.ndim), -1))
    return values


def row_blocks(X: Any, **others: Any) -> list[Any]:
    """Return blocks of X and, row by row, of what else is given, None if not: delayed tuples.

    Raises ValueError if the rows of the collections cannot be matched.
    """
    of_X = blocks_of("X", X)
    columns = [of_X]
    for name, values in others.items():
        blocks = [None] * len(of_X) if values is None else blocks_of(name, _cut_alike(values, X))
        if len(blocks) != len(of_X):
            raise ValueError(
                f"{name} has {len(blocks)} partitions and X {len(of_X)}, and they are of different "
                "lengths, or of sizes that are not all known: give as many rows of both, and call "
                "compute_chunk_sizes() on both, or partition them alike."
            )
        columns.append(blocks)
    together = delayed(_together)  # under names of its own: fits share nothing
    names = ("X", *others)
    return [together(names, i, *parts) for i, parts in enumerate(zip(*columns, strict=True))]


def starts_of(blocks: Sequence[Any]) -> Any:
    """Return where each block begins, delayed."""
    lengths = [delayed(_length)(block) for block in blocks]
    return delayed(_starts)(lengths)


def joined(blocks: Sequence[Any]) -> Any:
    """Return blocks one after the other, without the empty ones if there are others.

    An array in one block is not copied.
    """
    blocks = [block for block in blocks if _length(block)] or list(blocks[:1])
    first = blocks[0]
    if hasattr(first, "iloc"):
        import pandas as pd

        return pd.concat(blocks)
    if hasattr(first, "tocsr"):
        import scipy.sparse

        return scipy.sparse.vstack(blocks, format="csr")
    arrays = [np.asarray(block) for block in blocks]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _cut_alike(values: Any, X: Any) -> Any:
    """Cut an array as X is, where the sizes of both are known."""
    both = [each for each in (values, X) if isinstance(each, da.Array)]
    known = len(both) == 2 and not any(np.isnan(size) for each in both for size in each.chunks[0])
    if known and values.chunks[0] != X.chunks[0] and values.shape[0] == X.shape[0]:
        return values.rechunk({0: X.chunks[0]})
    return values


def _together(names: tuple[str, ...], i: int, *parts: Any) -> tuple[Any, ...]:
    rows = _length(parts[0])
    for name, part in zip(names, parts, strict=True):
        if part is not None and _length(part) != rows:
            raise ValueError(
                f"X and {name} must have as many rows: partition {i} has {rows} and "
                f"{_length(part)}."
            )
    return parts


def _length(block: Any) -> int:
    return int(block.shape[0])


def _starts(lengths: list[int]) -> list[int]:
    return [0, *np.cumsum(lengths).tolist()]
