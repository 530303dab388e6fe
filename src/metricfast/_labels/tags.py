"""Tags instead of classes: two points are related if they share a tag.

Tags are a matrix with a row for each point and a column for each tag: a SciPy sparse matrix of
zeros and ones, or a boolean array of two columns or more, as scikit-learn's `MultiLabelBinarizer`
gives them. Tags can express any relation of queries and database points: the rows of its matrix are
the tags of the queries, and the identity matrix holds the tags of the database.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, eye_array, issparse, triu, vstack

from metricfast._core.frames import check_alike
from metricfast._core.types import Integers, RandomState
from metricfast._labels.binding import of_function
from metricfast._labels.distance import label_array, rows_per_block

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


def count_labels(labels: Any, name: str = "y") -> int:
    """Return the number of labelled points, also for sparse matrices, which have no length."""
    shape = getattr(labels, "shape", None)
    text = isinstance(labels, (str, bytes))
    if text or shape == () or (shape is None and not hasattr(labels, "__len__")):
        raise ValueError(f"{name} must hold one label per point; found {labels!r:.80}.")
    return len(labels) if shape is None else int(shape[0])


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


def tags_of(
    positives: Callable[[Any, Any], ArrayLike], y: ArrayLike, y_database: ArrayLike | None = None
) -> csr_array | tuple[csr_array, csr_array]:
    """Return tags such that two points share a tag if a function of their labels returns True.

    Losses, samplers, metrics and learners of classes take the tags in place of classes. Two points
    are then positives if they share a tag.

    Parameters
    ----------
    positives : callable
        Whether labels are related: ``positives(a, b)`` takes two arrays of labels, (n, ...) and
        (m, ...), and returns booleans of shape (n, m). A function of two labels, which returns one
        boolean, is called for each pair. Booleans in labels become the integers 0 and 1.
    y : array-like of shape (n,) or (n, q), or sequence of n objects
        Labels of points, or of queries.
    y_database : array-like of shape (m,) or (m, q), or sequence of m objects, optional
        Labels of a database. Without it, points are related among each other, and the relation must
        be symmetric. Whether a point is related to itself does not matter.

    Returns
    -------
    tags : csr_array of bool of shape (n, n_tags)
        If `y_database` is None.
    tags, database_tags : csr_array of bool of shapes (n, m) and (m, m)
        With `y_database`: the related pairs, and the identity.

    Raises
    ------
    TypeError
        If `positives` is no function.
    ValueError
        If `positives` does not take the labels, returns something other than booleans, or is not
        symmetric without `y_database`.

    Notes
    -----
    All n * m pairs are looked at once, in blocks. Memory grows with the related pairs.

    Among points, those with the same positives are one group, and each pair of related groups has a
    tag. A group without related groups has one tag, so an equivalence relation of k classes has k.

    Examples
    --------
    >>> import numpy as np
    >>> from metricfast import losses, tags_of
    >>> years = np.array([1990, 1991, 1992, 2000])
    >>> tags = tags_of(lambda a, b: abs(a[:, None] - b) <= 1, years)
    >>> tags.toarray().astype(int)
    array([[1, 0],
           [1, 1],
           [0, 1],
           [0, 0]])
    >>> Z = np.random.default_rng(0).normal(size=(4, 2))
    >>> value, gradient = losses.SupCon()(Z, tags)
    """
    if not callable(positives):
        raise TypeError(f"positives must be a function of labels, got {positives!r}.")
    labels = label_array(y, "y")
    if y_database is None:
        return _shared(_related(positives, labels, labels))
    references = label_array(y_database, "y_database")
    if labels.shape[1:] != references.shape[1:]:
        raise ValueError(
            "y and y_database must have as many columns; found shapes "
            f"{labels.shape} and {references.shape}."
        )
    identity = csr_array(eye_array(len(references), dtype=bool))
    return _related(positives, labels, references), identity


def _related(positives: Callable[[Any, Any], Any], labels: Any, references: Any) -> csr_array:
    """Return the related pairs, (n, m)."""
    between = of_function(
        positives, labels, references, "positives", "whether they are related, (n, m), as booleans"
    )
    n, m = len(labels), len(references)
    size, blocks = rows_per_block(m), []
    for start in range(0, n, size):
        some = labels[start : start + size]
        found = np.asarray(between(some, references))
        if found.shape != (len(some), m) or not np.isin(found, (0, 1)).all():
            raise ValueError(
                f"positives must return booleans of shape {(len(some), m)} for {len(some)} and {m} "
                f"labels; found an array of {found.dtype} of shape {found.shape}."
            )
        blocks.append(csr_array(found.astype(bool)))
    return csr_array(vstack(blocks, format="csr"))


def _shared(related: csr_array) -> csr_array:
    """Return tags such that two points share a tag if and only if they are related."""
    for i, j in np.argwhere(related != related.T)[:1]:
        raise ValueError(
            f"positives must be symmetric without y_database; found that y[{i}] and y[{j}] are "
            "related in one order only."
        )
    closed = csr_array(related + eye_array(related.shape[0], dtype=bool, format="csr"))
    closed.sort_indices()
    group, first = _groups(closed)
    edges = triu(related[first][:, first], k=1).tocoo()
    several = np.flatnonzero(np.bincount(group) > 1)
    alone = np.setdiff1d(several, np.concatenate([edges.row, edges.col]))
    # A tag for each pair of related groups, and for each group that is related to no other.
    pairs = np.arange(edges.nnz)
    groups = np.concatenate([edges.row, edges.col, alone])
    tags = np.concatenate([pairs, pairs, edges.nnz + np.arange(len(alone))])
    shape = len(first), edges.nnz + len(alone)
    return csr_array((np.ones(len(tags), bool), (groups, tags)), shape=shape)[group]


def _groups(closed: csr_array) -> tuple[Integers, Integers]:
    """Group rows that are equal; return the group of each row, and the first row of each group."""
    ends = zip(closed.indptr[:-1], closed.indptr[1:], strict=True)
    rows = [closed.indices[start:end].tobytes() for start, end in ends]
    number = {row: place for place, row in enumerate(dict.fromkeys(rows))}
    group = np.array([number[row] for row in rows], dtype=np.int64)
    return group, np.unique(group, return_index=True)[1]
