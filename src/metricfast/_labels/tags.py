"""Tags instead of classes: two points are related if they share a tag.

Tags are a matrix with a row for each point and a column for each tag: a SciPy sparse matrix of
zeros and ones, or a boolean array of two columns or more, as scikit-learn's `MultiLabelBinarizer`
gives them. Tags can express any relation of queries and database points: the rows of its matrix are
the tags of the queries, and the identity matrix holds the tags of the database.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from metricfast._core.frames import check_alike
from metricfast._core.types import Integers, RandomState

__all__ = [
    "are_tags",
    "as_tags",
    "both_tags",
    "count_labels",
    "lists_of",
    "n_shared",
    "one_tag_each",
    "share_tag",
]

# Approximate number of pairs with a common tag per block.
_BLOCK = 1 << 12


def are_tags(labels: Any) -> bool:
    """Return whether labels are tags: a sparse matrix, or booleans in columns."""
    if issparse(labels):
        return True
    if getattr(labels, "ndim", 0) != 2:
        return False
    array = np.asarray(labels)
    return array.dtype.kind == "b" and array.shape[1] > 1


def as_tags(labels: Any, name: str, n: int | None = None) -> csr_array:
    """Return the tags of n points as a matrix of ones."""
    tags = csr_array(labels if issparse(labels) else np.asarray(labels))
    if n is not None and tags.shape[0] != n:
        raise ValueError(
            f"{name} must hold a row of tags for each of {n} points; found {tags.shape[0]}."
        )
    if not np.isin(tags.data, (0, 1)).all():
        raise ValueError(
            f"{name} is sparse, so it must hold tags, zeros and ones; found other numbers. Give "
            "continuous labels as a dense array."
        )
    tags = csr_array((tags.data.astype(bool), tags.indices, tags.indptr), shape=tags.shape)
    tags.sum_duplicates()
    tags.eliminate_zeros()
    return tags


def both_tags(
    labels: Any, others: Any, names: tuple[str, str], sizes: tuple[int, int]
) -> tuple[csr_array, csr_array]:
    """Return the tags of queries and of a database, with the same columns."""
    if not (are_tags(labels) and are_tags(others)):
        raise ValueError(
            f"{names[0]} and {names[1]} must both hold tags (sparse, or booleans in columns), or "
            "neither."
        )
    check_alike(labels, others, names)
    tags, references = map(as_tags, (labels, others), names, sizes)
    if tags.shape[1] != references.shape[1]:
        raise ValueError(
            f"{names[1]} must have {tags.shape[1]} columns of tags, as {names[0]}; found "
            f"{references.shape[1]}."
        )
    return tags, references


def count_labels(labels: Any) -> int:
    """Return the number of labelled points, also for sparse matrices, which have no length."""
    return int(labels.shape[0]) if hasattr(labels, "shape") else len(labels)


def lists_of(tags: csr_array) -> tuple[Integers, Integers]:
    """Return the tags of all points, and the start index of each point's tags."""
    return tags.indptr.astype(np.int64), tags.indices.astype(np.int64)


def share_tag(tags: csr_array, references: csr_array, indices: Integers) -> Any:
    """Return whether each point shares a tag with the references in its row of `indices`."""
    n, k = indices.shape
    repeated = tags[np.repeat(np.arange(n), k)]
    common = repeated.multiply(references[indices.ravel()]).tocsr()
    common.eliminate_zeros()
    return np.asarray(np.diff(common.indptr) > 0).reshape(n, k)


def n_shared(tags: csr_array, references: csr_array) -> Integers:
    """Return the number of references that share a tag with each point."""
    members = references.T.tocsr().astype(np.int32)
    blocks = [
        np.diff((tags[start : start + _BLOCK].astype(np.int32) @ members).indptr)
        for start in range(0, tags.shape[0], _BLOCK)
    ]
    found: Integers = np.concatenate(blocks).astype(np.int64)
    return found


def one_tag_each(tags: csr_array, rng: RandomState) -> Integers:
    """Draw one tag of each point; a point without tags gets a unique number."""
    counts = np.diff(tags.indptr)
    place = np.zeros(len(counts), np.int64)
    several = counts > 1
    if several.any():
        place[several] = (rng.random_sample(several.sum()) * counts[several]).astype(np.int64)
    found: Integers = tags.shape[1] + np.arange(len(counts))
    found[counts > 0] = tags.indices[(tags.indptr[:-1] + place)[counts > 0]]
    return found
