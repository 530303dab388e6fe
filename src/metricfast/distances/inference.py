r"""Inference of latent neighbour sets: the nearest set with a right vote, and the worst near set.

For a query :math:`x` of class :math:`y` and a set :math:`h` of k database points let

.. math:: S(x, h) = -\sum_{j \in h} D(x, x_j)

where D is the squared distance, and :math:`\Delta(y, h)` is the cost of the majority vote of h.
`targeted` finds the nearest set with a right vote,
:math:`h^* = \arg\max_{\Delta(y, h) = 0} S(x, h)`. `loss_augmented` finds a near set with a costly
vote, :math:`\hat h = \arg\max S(x, h) + \Delta(y, h)`. Both are exact and store no n x m matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._core.arguments import as_real, called_like, check_choice
from metricfast._core.arrays import (
    as_both,
    as_common_codes,
    as_exclude,
    as_indices,
    as_points,
    as_threads,
)
from metricfast._core.dispatch import get_kernels
from metricfast._core.targets import as_label_array
from metricfast._core.types import Array, Floats, Integers
from metricfast.distances.database import Database
from metricfast.distances.filters import name_rows
from metricfast.distances.neighbors import check_neighbors

Ties = Literal["pessimistic", "optimistic", "label", "nearest"]


class Inference(NamedTuple):
    """Sets of neighbours of n queries.

    Attributes
    ----------
    indices : ndarray of int64 of shape (n, n_neighbors)
        The set, nearest point first (ties by the lower index).
    values : ndarray of float64 of shape (n,)
        S of targeted sets, S + delta of loss-augmented ones.
    delta : ndarray of float64 of shape (n,)
        The cost of the vote of the set.
    feasible : ndarray of bool of shape (n,)
        Whether there is such a set. If not: indices -1, value -inf, delta 0.
    """

    indices: Integers
    values: Floats
    delta: Floats
    feasible: NDArray[np.bool_]


def empty_sets(n: int, k: int) -> Inference:
    """Allocate the sets of k points for n queries."""
    return Inference(np.empty((n, k), np.int64), np.empty(n), np.empty(n), np.empty(n, bool))


def check_loss_matrix(matrix: ArrayLike, n_classes: int | None = None) -> Floats:
    """Check a matrix of costs of wrong predictions.

    Raises ValueError unless it is square, of `n_classes` rows, finite, not negative, and zero on
    the diagonal.
    """
    found = np.ascontiguousarray(as_real(matrix, "loss_matrix"), dtype=np.float64)
    size = len(found) if n_classes is None and found.ndim else n_classes
    if found.shape != (size, size):
        raise ValueError(
            "loss_matrix must have a row and a column for each class"
            f"{'' if n_classes is None else f', shape ({size}, {size})'}; found {found.shape}."
        )
    if not np.isfinite(found).all() or (found < 0).any():
        raise ValueError("loss_matrix must hold finite numbers from 0.")
    if np.diagonal(found).any():
        raise ValueError("loss_matrix must be zero on the diagonal: a right answer costs nothing.")
    return found


def _search(
    queries: ArrayLike,
    database: ArrayLike | Database | None,
    query_labels: ArrayLike,
    database_labels: ArrayLike,
    n_neighbors: int,
    *,
    metric: str = "sqeuclidean",
    loss_matrix: ArrayLike | None = None,
    ties: str = "pessimistic",
    method: str = "exact",
    exclude: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> Callable[[bool, bool], tuple[Inference, Inference]]:
    """Check the arguments of the public functions, and return the search."""
    check_choice("metric", metric, ("sqeuclidean", "precomputed"))
    check_choice("ties", ties, get_args(Ties))
    check_choice("method", method, ("exact", "greedy"))
    if metric == "precomputed" and database is not None:
        raise ValueError("database must be None where the distances are precomputed.")
    held = database._held.whole if isinstance(database, Database) else None
    points: Any
    if held is not None:
        if held.space.metric == "inner_product":
            raise ValueError(
                f"database must have Euclidean distances or cosines; got {database!r}."
            )
        points = as_points(queries, "queries", width=held.shape[1])
        others = held.segments[0].images
    else:
        given: Any = database
        points, others = as_both(queries, given, ("queries", "database"), as_points)
    n, width = points.shape
    if metric == "precomputed":
        m = width
    elif database is None:
        others, m = points, n
        exclude = np.arange(n) if exclude is None else exclude
    else:
        m = len(others)
    if held is None:
        left_out = as_exclude(exclude, n, m)
    elif (left_out := as_exclude(exclude, n, held.next)) is not None:
        left_out = held.rows(left_out)
    k = check_neighbors(n_neighbors, m, left_out)
    matrix = None if loss_matrix is None else check_loss_matrix(loss_matrix)
    labels = held and matrix is None and _small_labels(query_labels, database_labels, n, m)
    labels = labels or vote_labels(query_labels, database_labels, n, m, matrix)
    threads = as_threads(n_jobs)
    searched: Any = others
    if held is not None:
        searched = held.segments[0].prepared
        points = held.space.embed(points, 0, held.origin, threads)

    def run(*wanted: bool) -> tuple[Inference, Inference]:
        right, worst = (empty_sets(n, k) if each else None for each in wanted)
        get_kernels().infer(
            points, searched, *labels[:2], (k, (matrix, labels[2]), ties, method == "greedy"),
            left_out, right, worst, None, None, threads,
        )  # fmt: skip
        for found in (right, worst):
            if found is not None and not (found.feasible & np.isfinite(found.values)).all():
                _refuse_overflow(points, others, k)
            if found is not None and held is not None:
                name_rows(found.indices, held.ids)
        return right, worst  # type: ignore[return-value]

    return run


def _refuse_overflow(points: Array, others: Array | None, k: int) -> None:
    """Raise ValueError if squared distances, or sums of k of them, may overflow."""
    with np.errstate(over="ignore"):
        if others is None:
            most = points.max(initial=0).astype(np.float64)
        else:
            ends = [(Z.min(axis=0, initial=0), Z.max(axis=0, initial=0)) for Z in (points, others)]
            low, high = np.array(ends, np.float64).swapaxes(0, 1)
            most = np.sum((high.max(axis=0) - low.min(axis=0)) ** 2)
        if np.isfinite(k * most):
            return
    raise ValueError(
        "queries and database are so far apart that squared distances, or their sums, overflow: "
        "divide them by a large number."
    )


@called_like(_search)
def targeted(*args: Any, **kwargs: Any) -> Inference:
    """Find for each query the nearest set of neighbours whose vote is right.

    Parameters
    ----------
    queries : array-like of shape (n, p)
        Embedded points; with ``metric="precomputed"`` the squared distances, of shape (n, m).
    database : array-like of shape (m, p), Database, or None
        Embedded points; None for the queries themselves, each excluded from its own sets by index,
        and with ``metric="precomputed"``. A :class:`Database` embeds queries by its maps, and
        answers few queries in a small part of the time. Its labels are then in the order of
        `ids_`, and `indices` and `exclude` hold its ids. With ``metric="cosine"``, points are
        divided by their lengths: D is twice the cosine distance.
    query_labels, database_labels : array-like of shape (n,) and (m,)
        Classes. With a `loss_matrix` they are its indices, integers from 0.
    n_neighbors : int
        Number of points in a set.
    metric : {"sqeuclidean", "precomputed"}, default="sqeuclidean"
    loss_matrix : array-like of shape (n_classes, n_classes), optional
        ``loss_matrix[y, r]`` is the cost of the answer r where y is right: not negative, and zero
        on the diagonal. By default 1 for every wrong answer.
    ties : {"pessimistic", "optimistic", "label", "nearest"}, default="pessimistic"
        The winner among classes with equally many neighbours: the class that costs most, or least,
        the first class, or the class of the nearest of the set's points in these classes.
    method : {"exact", "greedy"}, default="exact"
        "greedy" is the heuristic of the literature, for comparison: it gives the winner the
        smallest number of neighbours that can win, and then adds the nearest points that leave it
        the winner.
    exclude : array-like of int of shape (n,), optional
        For each query a database index to leave out, -1 for none.
    n_jobs : int, optional
        Number of threads; results do not depend on it.

    Returns
    -------
    Inference

    Raises
    ------
    ValueError
        If an argument has the wrong shape, is not finite, or does not fit the others, or no set is
        found where squared distances overflow; the message names it.

    References
    ----------
    S. Trivedi, D. McAllester, G. Shakhnarovich, "Discriminative metric learning by neighborhood
    gerrymandering", NIPS 2014.

    Examples
    --------
    >>> from metricfast import inference
    >>> points = [[0.0], [1.0], [1.5], [4.0]]
    >>> found = inference.targeted([[1.2]], points, [0], [0, 1, 1, 0], 3)
    >>> found.indices, found.delta
    (array([[1, 0, 3]]), array([0.]))
    """
    return _search(*args, **kwargs)(True, False)[0]


@called_like(_search)
def loss_augmented(*args: Any, **kwargs: Any) -> Inference:
    """Find for each query the set of neighbours of the largest S + delta.

    Parameters and errors as in :func:`targeted`.

    Returns
    -------
    Inference

    Examples
    --------
    >>> from metricfast import inference
    >>> points = [[0.0], [1.0], [1.5], [4.0]]
    >>> found = inference.loss_augmented([[0.4]], points, [0], [0, 1, 1, 0], 1)
    >>> found.indices, found.delta
    (array([[1]]), array([1.]))
    """
    return _search(*args, **kwargs)(False, True)[1]


@called_like(_search)
def both(*args: Any, **kwargs: Any) -> tuple[Inference, Inference]:
    """Find the targeted and the loss-augmented sets in one search.

    Parameters and errors as in :func:`targeted`.

    Returns
    -------
    targeted, loss_augmented : Inference

    Examples
    --------
    >>> from metricfast import inference
    >>> points = [[0.0], [1.0], [1.5], [4.0]]
    >>> targeted, augmented = inference.both([[0.8]], points, [0], [0, 1, 1, 0], 1)
    >>> augmented.values - targeted.values  # how far the vote is from being safe
    array([1.6])
    """
    return _search(*args, **kwargs)(True, True)


def vote_labels(
    query_labels: ArrayLike,
    database_labels: ArrayLike,
    n: int,
    m: int,
    matrix: Floats | None,
    names: tuple[str, str] = ("query_labels", "database_labels"),
) -> tuple[Integers, Integers, int]:
    """Return class indices and the number of classes. Labels of a loss matrix are its indices."""
    if matrix is not None:
        size = len(matrix)
        return (
            _as_indices(query_labels, names[0], n, size),
            _as_indices(database_labels, names[1], m, size),
            size,
        )
    known, codes, others = as_common_codes(query_labels, database_labels, names, (n, m))
    return codes, others, len(known)


def _small_labels(
    query_labels: ArrayLike, database_labels: ArrayLike, n: int, m: int
) -> tuple[Integers, Integers, int] | None:
    """Return labels that are small integers as class indices, without encoding them; or None."""
    own, others = np.asarray(query_labels), np.asarray(database_labels)
    if not own.dtype == others.dtype == np.int64 or (own.shape, others.shape) != ((n,), (m,)):
        return None
    if min(own.min(initial=0), others.min()) < 0 or (most := max(own.max(), others.max())) > m:
        return None
    return np.ascontiguousarray(own), np.ascontiguousarray(others), int(most) + 1


def _as_indices(labels: ArrayLike, name: str, size: int, classes: int) -> Integers:
    expected = f"hold one index into loss_matrix per point, {size} integers"
    why = f", as loss_matrix has {classes} rows"
    return as_indices(as_label_array(labels, name), name, expected, (size,), (0, classes), why)
