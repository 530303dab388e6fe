"""Constraints drawn from class labels: similar and dissimilar pairs, triplets, and chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arguments import (
    as_array,
    check_bool,
    check_count,
    check_length,
    check_random_state,
)
from metricfast._core.arrays import as_points, as_points_or_source, check_indices
from metricfast._core.pair_draws import class_bounds, draw_different_pairs
from metricfast._core.parameters import DEPRECATED, renamed
from metricfast._core.targets import as_label_array, by_appearance, check_sample_weight, encode
from metricfast._core.types import Array, Integers, RandomState
from metricfast._core.warn import warn_user
from metricfast.distances.neighbors import kneighbors

__all__ = ["Constraints", "class_neighbors", "nearest_by_class", "wrap_indices", "wrap_pairs"]


class Constraints:
    """Draw constraints from class labels.

    Everything is returned as indices into the points that the labels belong to, and takes time and
    memory in proportion to the points and to what is returned.

    Parameters
    ----------
    partial_labels : array-like of int or str of shape (n_samples,)
        Classes. A negative number means that the class is unknown: such points appear in no
        constraint.

    Attributes
    ----------
    partial_labels : ndarray of int64 of shape (n_samples,)
        The classes; for text, the indices of the classes in sorted order.

    Raises
    ------
    ValueError
        If the labels are neither whole numbers nor text.

    Examples
    --------
    >>> from metricfast import Constraints
    >>> constraints = Constraints([0, 0, 1, 1, -1])
    >>> a, b, c, d = constraints.positive_negative_pairs(2, random_state=0)
    >>> sorted(zip(a.tolist(), b.tolist()))
    [(0, 1), (2, 3)]
    >>> constraints.chunks(n_chunks=2, chunk_size=2, random_state=0).tolist()
    [0, 0, 1, 1, -1]
    """

    def __init__(self, partial_labels: ArrayLike) -> None:
        given = as_label_array(partial_labels, "partial_labels")
        if given.ndim != 1:
            raise ValueError(f"partial_labels must have one dimension, got shape {given.shape}.")
        try:
            labels = given.astype(np.int64)
            whole = bool((labels == given).all())
        except (TypeError, ValueError, OverflowError):
            whole = False
        if not whole and isinstance(given[0], Number):
            raise ValueError(
                "partial_labels must be whole numbers, negative for unknown classes, or text; got "
                f"values of dtype {given.dtype} that are not."
            )
        if not whole:
            labels = encode(given, "partial_labels")[1]
        self.partial_labels: Integers = labels

    def positive_negative_pairs(
        self,
        n_constraints: int,
        same_length: bool = False,
        random_state: int | RandomState | None = None,
        num_constraints: Any = DEPRECATED,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> tuple[Integers, Integers, Integers, Integers]:
        """Draw pairs of points of one class, and pairs of points of different classes.

        For each pair, a point is drawn from all points that have partners, then one of its
        partners. Partners are the other points of its class, or the points of other classes. No
        pair appears twice, in either order. If there are fewer pairs, all are returned, with a
        warning.

        Parameters
        ----------
        n_constraints : int
            Number of positive and number of negative pairs.
        same_length : bool, default=False
            Return equally many positive and negative pairs, by dropping pairs of the larger kind.
        random_state : int, RandomState or None, default=None
            Makes the draw repeatable.
        num_constraints : int
            Former name of `n_constraints`.

            .. deprecated:: 0.1
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights, to which the chances of points are in proportion, so that points
            of weight zero are in no pair. By default chances are equal.

        Returns
        -------
        a, b : ndarrays of int64 of shape (n_positive,)
            The points of the positive pairs.
        c, d : ndarrays of int64 of shape (n_negative,)
            The points of the negative pairs, `c` of the class that appears first.

        Raises
        ------
        ValueError
            If `n_constraints` is not a whole number of at least 0, or `sample_weight` has another
            shape, or values that cannot be used.
        """
        n_constraints = renamed("num_constraints", num_constraints, "n_constraints", n_constraints)
        n_constraints = check_count("n_constraints", n_constraints, least=0)
        check_bool("same_length", same_length)
        rng = check_random_state(random_state)
        weight = check_sample_weight(sample_weight, len(self.partial_labels))
        a, b = draw_different_pairs(self.partial_labels, n_constraints, True, rng, weight)
        c, d = draw_different_pairs(self.partial_labels, n_constraints, False, rng, weight)
        if same_length:
            n = min(len(a), len(c))
            a, b, c, d = a[:n], b[:n], c[:n], d[:n]
        return a, b, c, d

    def generate_knntriplets(
        self, X: ArrayLike, k_genuine: int, k_impostor: int, *, n_jobs: int | None = None
    ) -> Integers:
        """Combine each point with its nearest points of its own class and of the others.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            All points, also points of unknown class.
        k_genuine : int
            Nearest points of the same class. A class that has fewer gives all, with a warning.
        k_impostor : int
            Nearest points of other classes. If there are fewer, all, with a warning.
        n_jobs : int, optional
            Number of threads; results do not depend on it. By default all that the process may use.

        Returns
        -------
        ndarray of int64 of shape (n_triplets, 3)
            A point, a near one of its class, and a near one of another class, by class, point,
            and nearness.

        Raises
        ------
        ValueError
            If `X` has not as many rows as there are labels, or a number of neighbours is below 1.
        """
        points = as_points(X, "X")
        check_length(points, len(self.partial_labels), "X", "points, one per label")
        k_genuine = check_count("k_genuine", k_genuine)
        k_impostor = check_count("k_impostor", k_impostor)
        triplets = [np.empty((0, 3), np.int64)]
        for members, near, far in class_neighbors(
            points, self.partial_labels, k_genuine, k_impostor, n_jobs
        ):
            label = self.partial_labels[members[0]]
            (count, genuine), impostors = near.shape, far.shape[1]
            if genuine < k_genuine:
                warn_user(
                    f"The class {label} has {count} elements, which is not sufficient to generate "
                    f"{k_genuine + 1} genuine neighbors as specified by k_genuine. Will generate "
                    f"{genuine} genuine neighbors instead.\n"
                )
            if impostors < k_impostor:
                warn_user(
                    f"The class {label} has {impostors} elements of other classes, which is not "
                    f"sufficient to generate {k_impostor} impostor neighbors as specified by "
                    f"k_impostor. Will generate {impostors} impostor neighbors instead.\n"
                )
            combined = np.empty((count, genuine, impostors, 3), np.int64)
            combined[..., 0] = members[:, None, None]
            combined[..., 1] = near[:, :, None]
            combined[..., 2] = far[:, None, :]
            triplets.append(combined.reshape(-1, 3))
        return np.concatenate(triplets)

    def chunks(
        self,
        n_chunks: int = 100,
        chunk_size: int = 2,
        random_state: int | RandomState | None = None,
        num_chunks: Any = DEPRECATED,
    ) -> Integers:
        """Draw disjoint chunks: groups of points that are known to be of one class.

        The points of each class are divided into as many chunks as they fill. Then ``n_chunks`` of
        all these chunks are drawn with equal probability.

        Parameters
        ----------
        n_chunks : int, default=100
            Number of chunks.
        chunk_size : int, default=2
            Points in each.
        random_state : int, RandomState or None, default=None
            Makes the draw repeatable.
        num_chunks : int
            Former name of `n_chunks`.

            .. deprecated:: 0.1

        Returns
        -------
        ndarray of int64 of shape (n_samples,)
            The chunk of each point, from 0, and -1 for a point in no chunk.

        Raises
        ------
        ValueError
            If the classes cannot fill so many chunks, or a number is out of range.
        """
        n_chunks = renamed("num_chunks", num_chunks, "n_chunks", n_chunks)
        n_chunks = check_count("n_chunks", n_chunks, least=0)
        chunk_size = check_count("chunk_size", chunk_size)
        rng = check_random_state(random_state)
        codes = by_appearance(self.partial_labels)
        shuffled = rng.permutation(np.flatnonzero(self.partial_labels >= 0))
        by_class = shuffled[np.argsort(codes[shuffled], kind="stable")]
        start, end = class_bounds(codes[by_class])
        place = np.arange(len(by_class)) - start
        first = np.flatnonzero((place % chunk_size == 0) & (place + chunk_size <= end - start))
        if len(first) < n_chunks:
            raise ValueError(
                f"Not enough possible chunks of {chunk_size} elements in each class to form "
                f"expected {n_chunks} chunks - maximum number of chunks is {len(first)}"
            )
        drawn = np.sort(rng.permutation(first)[:n_chunks])
        chunks = np.full(self.partial_labels.shape, -1, np.int64)
        chunks[by_class[drawn[:, None] + np.arange(chunk_size)]] = np.arange(n_chunks)[:, None]
        return chunks


def class_neighbors(
    X: Any,
    labels: Integers,
    k_genuine: int,
    k_impostor: int,
    n_jobs: int | None = None,
    *,
    anchors: ArrayLike | None = None,
) -> Iterator[tuple[Integers, Integers, Integers]]:
    """Find the nearest points of the own class and of the other classes, one class at a time.

    Parameters
    ----------
    X : array-like or source of shape (n_samples, n_features)
    labels : array-like of int of shape (n_samples,)
        Points of negative label are left out.
    k_genuine, k_impostor : int
        Points of the own class and of others that each point gets, or all where there are fewer.
    n_jobs : int, optional
        Number of threads.
    anchors : array-like of int, optional
        Points whose neighbors are wanted, which are sought among all; by default all.

    Yields
    ------
    members : ndarray of int64 of shape (n_members,)
        The points of a class, or its anchors, ascending.
    near, far : ndarray of int64 of shape (n_members, k), for two different k
        The nearest of its own class and of the others, nearest first.

    Examples
    --------
    >>> import numpy as np
    >>> from metricfast.constraints import class_neighbors
    >>> points, labels = np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 1])
    >>> for members, near, far in class_neighbors(points, labels, 1, 1):
    ...     print(members, near.tolist(), far.tolist())
    [0 1] [[1], [0]] [[2], [2]]
    [2] [[]] [[1]]
    """
    rows, *found = nearest_by_class(X, labels, k_genuine, k_impostor, n_jobs, anchors=anchors)
    codes = by_appearance(np.asarray(labels)[rows])
    ends = np.cumsum(np.bincount(codes))[:-1]
    for members in np.split(np.argsort(codes, kind="stable"), ends) if len(rows) else []:
        near, far = (side[members, : np.count_nonzero(side[members[0]] >= 0)] for side in found)
        yield rows[members], near, far


def nearest_by_class(
    X: Any,
    labels: Integers,
    k_genuine: int,
    k_impostor: int,
    n_jobs: int | None = None,
    *,
    anchors: ArrayLike | None = None,
) -> tuple[Integers, Integers, Integers]:
    """Find the nearest points of the own class and of the other classes, of all points at once.

    Parameters
    ----------
    X, labels, k_genuine, k_impostor, n_jobs, anchors
        As for :func:`class_neighbors`.

    Returns
    -------
    rows : ndarray of int64 of shape (n_rows,)
        The points of known class, or the anchors, ascending.
    near, far : ndarray of int64 of shape (n_rows, k), for two different k
        The nearest of the own class and of the others, nearest first; -1 where there are fewer.

    Examples
    --------
    >>> import numpy as np
    >>> from metricfast.constraints import nearest_by_class
    >>> points, labels = np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 1])
    >>> rows, near, far = nearest_by_class(points, labels, 1, 1)
    >>> near.tolist(), far.tolist()
    ([[1], [0], [-1]], [[2], [2], [1]])
    """
    X = as_points_or_source(X, "X")
    labels = Constraints(labels).partial_labels
    check_length(labels, len(X), "labels")
    k_genuine = check_count("k_genuine", k_genuine)
    k_impostor = check_count("k_impostor", k_impostor)
    known = np.flatnonzero(labels >= 0)
    is_wanted = np.ones(len(known), bool) if anchors is None else np.isin(known, anchors)
    _, codes, sizes = np.unique(labels[known], return_inverse=True, return_counts=True)
    # One search for all classes of less than a 32nd of the points: to prepare one for each costs
    # more than it saves.
    groups = np.where(sizes[codes] * 32 > len(known), codes, -1)
    widest, least = sizes.max(initial=1) - 1, sizes.min(initial=len(known))
    near = np.full((len(known), min(k_genuine, widest)), -1, np.int64)
    far = np.full((len(known), min(k_impostor, len(known) - least)), -1, np.int64)
    for group in np.unique(groups[is_wanted]):
        of_group = groups == group
        rows, members = np.flatnonzero(of_group & is_wanted), np.flatnonzero(of_group)
        others = np.flatnonzero(~of_group) if group >= 0 else np.arange(len(known))
        own = X[known[rows], ...]
        for found, database, exclude, label in (
            (near, members, np.searchsorted(members, rows), ["equal"]), (far, others, None, [])
        ):  # fmt: skip
            k = min(found.shape[1], len(database) - (exclude is not None))
            if k > 0:
                where = None if group >= 0 else (*label, codes[rows], codes[database])
                how: dict[str, Any] = {"exclude": exclude, "where": where, "n_jobs": n_jobs}
                nearest = kneighbors(own, X[known[database], ...], k, **how)[1]
                found[rows, :k] = np.where(nearest < 0, -1, known[database[nearest]])
    return known[is_wanted], near[is_wanted], far[is_wanted]


def wrap_indices(constraints: Sequence[ArrayLike]) -> tuple[Integers, Integers]:
    """Stack positive and negative pairs, as indices.

    Parameters
    ----------
    constraints : tuple (a, b, c, d) of array-like of int
        As :meth:`Constraints.positive_negative_pairs` returns them.

    Returns
    -------
    index : ndarray of int64 of shape (n_pairs, 2)
        The positive pairs, then the negative ones.
    y : ndarray of int64 of shape (n_pairs,)
        1 for positive and -1 for negative pairs.

    Examples
    --------
    >>> from metricfast.constraints import wrap_indices
    >>> index, y = wrap_indices(([0], [1], [0, 1], [2, 2]))
    >>> index.tolist(), y.tolist()
    ([[0, 1], [0, 2], [1, 2]], [1, -1, -1])
    """
    a, b, c, d = _sides(constraints)
    index = np.concatenate([np.column_stack((a, b)), np.column_stack((c, d))])
    return index, np.repeat(np.array([1, -1]), (len(a), len(c)))


def wrap_pairs(X: ArrayLike, constraints: Sequence[ArrayLike]) -> tuple[Array, Integers]:
    """Form labelled pairs of points.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features) or (n_samples,)
        Points, or indicators of them.
    constraints : tuple (a, b, c, d) of array-like of int
        As :meth:`Constraints.positive_negative_pairs` returns them.

    Returns
    -------
    pairs : ndarray of shape (n_pairs, 2, n_features) or (n_pairs, 2)
        The positive pairs, then the negative ones.
    y : ndarray of int64 of shape (n_pairs,)
        1 for positive and -1 for negative pairs.

    Examples
    --------
    >>> from metricfast.constraints import wrap_pairs
    >>> pairs, y = wrap_pairs([[0.0], [1.0], [5.0]], ([0], [1], [1], [2]))
    >>> pairs.tolist(), y.tolist()
    ([[[0.0], [1.0]], [[1.0], [5.0]]], [1, -1])
    """
    index, y = wrap_indices(constraints)
    points = as_array(X, "X")
    n = len(points) if points.ndim else 0
    check_indices(index, "constraints", -n, n, " of points of X")
    return points[index], y


def _sides(constraints: Sequence[ArrayLike]) -> list[Integers]:
    sides = list(constraints) if isinstance(constraints, (tuple, list)) else []
    arrays = [as_array(side, "constraints") for side in sides]
    # TwoSidedDataset of an empty list are arrays of floats.
    whole = [a.ndim == 1 and (a.dtype.kind in "iu" or a.size == 0) for a in arrays]
    if (
        len(arrays) != 4
        or not all(whole)
        or [len(a) for a in arrays[::2]] != [len(a) for a in arrays[1::2]]
    ):
        raise ValueError(
            "constraints must be four arrays of integers, (a, b, c, d), a as long as b and c as "
            "long as d, as positive_negative_pairs returns them."
        )
    return [a.astype(np.int64) for a in arrays]
