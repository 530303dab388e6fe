"""Samplers: which points make a mini-batch.

A sampler is asked once, with the labels, and then gives the batches of one epoch after another::

    epoch = sampler.prepare(y)
    for batch in epoch(np.random.RandomState(0)):
        batch.rows, batch.n_anchors

In an epoch each point is drawn as an anchor exactly once. With
``DenseTriplet(all_anchors=True)`` the other points of a batch are anchors too.

Queries and a database of other points have labels each, ``sampler.prepare(y, y_database=...)``. The
anchors are then queries, and all other rows of a batch are rows of the database.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from metricfast._core.arguments import check_count, check_random_state
from metricfast._core.parameters import NonNegativeInt, PositiveInt, Seed, check_parameters
from metricfast._core.targets import as_label_array, by_appearance, encode, encode_together
from metricfast._core.types import Array, Integers, RandomState
from metricfast._labels.binding import SaidDistance, bind_labels
from metricfast._labels.distance import continuous_labels
from metricfast._labels.neighbors import label_neighbors, label_neighbors_between
from metricfast._labels.tags import are_tags, as_tags, both_tags, count_labels, one_tag_each

__all__ = ["Batch", "ClassBalanced", "DenseTriplet", "Sampler", "Uniform"]


class Batch(NamedTuple):
    """The points of a mini-batch.

    Attributes
    ----------
    rows : ndarray of int64
        Different row indices, the anchors first. With a database, anchors are rows of the queries,
        and the others rows of the database.
    n_anchors : int
        The number of rows that are anchors.
    """

    rows: Integers
    n_anchors: int


Epoch = Callable[[RandomState], Iterator[Batch]]


class Sampler(BaseEstimator):  # type: ignore[misc]
    """Base class of samplers: one of your own defines `prepare`."""

    batch_size: int = 128

    def prepare(
        self,
        y: ArrayLike,
        *,
        y_database: ArrayLike | None = None,
        random_state: Seed = 0,
        batch_size: int | None = None,
        n_jobs: int | None = None,
    ) -> Epoch:
        """Prepare the epochs: do the work that all epochs share.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_labels), or sequence of objects
            Labels, or tags, as losses take them.
        y_database : array-like of shape (n_database,) or (n_database, n_labels), or sequence of \
                objects, optional
            Labels of a database of other points. By default the points are their own database.
        random_state : int, RandomState or None, default=0
            Random state for all draws that are made once, before the first epoch. All else is drawn
            from the generator that each epoch is given.
        batch_size : int, optional
            By default the sampler's own.
        n_jobs : int, optional
            Number of threads; results do not depend on it.

        Returns
        -------
        callable
            Takes a `RandomState`, and iterates over the batches of an epoch.

        Raises
        ------
        ValueError
            If a parameter has a value that cannot be used, or does not fit the labels.
        """
        check_parameters(self)
        _check_sized(y, "y")
        size = check_count("batch_size", self.batch_size if batch_size is None else batch_size, 1)
        if y_database is not None:
            _check_sized(y_database, "y_database")
        return self._prepare(y, y_database, size, random_state, n_jobs)

    def _prepare(
        self, y: ArrayLike, y_database: ArrayLike | None, size: int, seed: Seed, n_jobs: int | None
    ) -> Epoch:
        """Prepare batches of the given size, of points or of queries and database points."""
        raise NotImplementedError(f"{type(self).__name__} must define prepare.")


@dataclass(eq=False, repr=False)
class Uniform(Sampler):
    """All points in random order, cut into batches that differ in size by at most one.

    Parameters
    ----------
    batch_size : int, default=128
        The most points in a batch: 191 points make batches of 96 and 95. No batch has a single
        point, unless `batch_size` is 1: of an odd number of points in pairs, three are together.
        With a database, the most queries in a batch, which has as many database points (all of
        them, if they are fewer).

    Examples
    --------
    >>> import numpy as np
    >>> from metricfast.samplers import Uniform
    >>> epoch = Uniform(batch_size=3).prepare(np.arange(6.0))
    >>> [batch.rows.tolist() for batch in epoch(np.random.RandomState(0))]
    [[5, 2, 1], [3, 0, 4]]
    """

    batch_size: PositiveInt = 128

    def _prepare(
        self, y: ArrayLike, y_database: ArrayLike | None, size: int, seed: Seed, n_jobs: int | None
    ) -> Epoch:
        n, m = count_labels(y), None if y_database is None else count_labels(y_database)

        def epoch(rng: RandomState) -> Iterator[Batch]:
            for rows in np.array_split(rng.permutation(n), batch_count(n, size)):
                if m is None:
                    yield Batch(rows, len(rows))
                else:
                    yield _with_database(rows, np.empty(0, np.int64), len(rows), m, rng)

        return epoch


@dataclass(eq=False, repr=False)
class ClassBalanced(Sampler):
    """Batches in which classes have several members.

    Each class is cut at random into groups of `m_per_class` points, and batches are made of whole
    groups in random order: with many classes, a uniform draw would leave most points without
    another point of their class. The last groups of a class may be smaller. No group has a single
    point, unless the class has.

    Parameters
    ----------
    m_per_class : int, default=8
        Number of points in a group of one class. If labels are tags, each epoch draws one tag of
        each point as its class.
    batch_size : int, default=128
        See `Uniform`: the last group of a batch is cut where batches are made alike in size. With
        a database, a batch has up to `m_per_class` database points of each of its classes, and at
        least as many database points as queries.

    Examples
    --------
    >>> import numpy as np
    >>> from metricfast.samplers import ClassBalanced
    >>> y = np.repeat(["a", "b", "c"], 4)
    >>> epoch = ClassBalanced(m_per_class=2, batch_size=4).prepare(y)
    >>> {len(batch.rows) for batch in epoch(np.random.RandomState(0))}
    {4}
    """

    m_per_class: PositiveInt = 8
    batch_size: PositiveInt = 128

    def _prepare(
        self, y: ArrayLike, y_database: ArrayLike | None, size: int, seed: Seed, n_jobs: int | None
    ) -> Epoch:
        group = int(self.m_per_class)
        if y_database is not None:
            return _classes_of_both(y, y_database, size, group)
        classes_in = _classes_by_epoch(y, "y")

        def epoch(rng: RandomState) -> Iterator[Batch]:
            for rows in class_batches(classes_in(rng), size, rng, group):
                yield Batch(rows, len(rows))

        return epoch


@dataclass(eq=False, repr=False)
class DenseTriplet(Sampler):
    """Anchors with their nearest neighbours in label space, and others drawn at random.

    For continuous labels: a uniform batch rarely holds points with labels near the anchor's.

    Parameters
    ----------
    n_neighbors : int, default=5
        Neighbours of each anchor in its batch.
    batch_size : int, default=150
        Points in a batch: anchors, their neighbours, and others drawn uniformly without
        replacement. With fewer points, every batch holds all.
    n_anchors : int, default=1
        Anchors in a batch.
    all_anchors : bool, default=False
        Count all points of a batch as anchors of the loss, the neighbours and others too. Points of
        a database are no anchors.
    ties : {"keep", "drop"}, default="keep"
        "keep" counts points with the label of the anchor as neighbours; "drop" does not. If more
        points have a label than there are places, some are drawn at random, once.
    label_distance : str, tuple or callable, optional
        Distance of labels that defines neighbours, as in :class:`metricfast.losses.LogRatio`; by
        default Euclidean. In a learner, the label distance of the loss is used.

    Notes
    -----
    `prepare` searches the neighbours once. One number for each label: by sorting. Several numbers
    under the Euclidean distance: by `metricfast.kneighbors`. Up to 8 columns of angles, or under
    "cityblock": by a k-d tree. ``("metric", f)``: by a vantage-point tree. Other label distances:
    by all distances, block by block. Memory grows with n_samples times n_neighbors.

    References
    ----------
    S. Kim, M. Seo, I. Laptev, M. Cho, S. Kwak, "Deep metric learning beyond binary supervision",
    CVPR 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from metricfast.samplers import DenseTriplet
    >>> epoch = DenseTriplet(n_neighbors=2, batch_size=4).prepare(np.arange(10.0))
    >>> batch = next(epoch(np.random.RandomState(0)))
    >>> batch.n_anchors, batch.rows[:3].tolist()
    (1, [2, 1, 3])
    """

    n_neighbors: NonNegativeInt = 5
    batch_size: PositiveInt = 150
    n_anchors: PositiveInt = 1
    all_anchors: bool = False
    ties: Literal["keep", "drop"] = "keep"
    label_distance: SaidDistance | None = None

    def _counts(self, size: int, least: bool) -> tuple[int, int]:
        """Return the numbers of neighbours and of anchors.

        With `least`, raise ValueError unless a batch of this size can hold anchors and neighbours.
        """
        k, anchors = int(self.n_neighbors), int(self.n_anchors)
        if least and anchors * (k + 1) > size:
            raise ValueError(
                f"batch_size must be at least n_anchors * (n_neighbors + 1) = {anchors * (k + 1)}, "
                f"got {size}."
            )
        return k, anchors

    def _prepare(
        self, y: ArrayLike, y_database: ArrayLike | None, size: int, seed: Seed, n_jobs: int | None
    ) -> Epoch:
        _refuse_tags(y, "y")
        if y_database is not None:
            return self._of_both(y, y_database, size, seed, n_jobs)
        if self.label_distance is None:
            rows = continuous_labels(y, "y")
            distance, labels = None, rows.reshape(len(rows), -1)
        else:
            distance, labels, _ = bind_labels(self.label_distance, y, sizes=(len(y),) * 2)  # type: ignore[arg-type]
        n = len(labels)
        size = min(n, size)
        k, anchors = self._counts(size, least=size < n)
        near = label_neighbors(
            labels,
            min(k, n - 1),
            distance=distance,
            ties=self.ties,
            rng=check_random_state(seed),
            n_jobs=n_jobs,
        )

        def epoch(rng: RandomState) -> Iterator[Batch]:
            order = rng.permutation(n)
            for first in range(0, n, anchors):
                chosen = order[first : first + anchors]
                wanted = np.concatenate([chosen, near[chosen].ravel()])
                rows = _fill(wanted[wanted >= 0], size, n, rng)
                yield Batch(rows, len(rows) if self.all_anchors else len(chosen))

        return epoch

    def _of_both(
        self, y: ArrayLike, y_database: ArrayLike, size: int, seed: Seed, n_jobs: int | None
    ) -> Epoch:
        _refuse_tags(y_database, "y_database")
        sizes = len(y), len(y_database)  # type: ignore[arg-type]
        said = "euclidean" if self.label_distance is None else self.label_distance
        distance, labels, of_database = bind_labels(said, y, y_database, sizes=sizes)
        k, anchors = self._counts(size, least=True)
        if self.all_anchors:
            raise ValueError(
                "all_anchors must be False with a database, whose points cannot be anchors: draw "
                "more anchors by n_anchors."
            )
        near = label_neighbors_between(
            labels, of_database, min(k, sizes[1]), distance, ties=self.ties,
            rng=check_random_state(seed), n_jobs=n_jobs,
        )  # fmt: skip

        def epoch(rng: RandomState) -> Iterator[Batch]:
            order = rng.permutation(sizes[0])
            for first in range(0, sizes[0], anchors):
                chosen = order[first : first + anchors]
                wanted = near[chosen].ravel()
                wanted = wanted[wanted >= 0]
                yield _with_database(chosen, wanted, size - len(chosen), sizes[1], rng)

        return epoch


def _classes_of_both(y: ArrayLike, y_database: ArrayLike, size: int, group: int) -> Epoch:
    """Prepare batches of groups of queries, each with a group of database points of its class."""
    if are_tags(y) or are_tags(y_database):
        sizes = count_labels(y), count_labels(y_database)
        tags, others = both_tags(y, y_database, ("y", "y_database"), sizes)
        classes_in, n_classes = _classes_by_epoch(tags, "y"), sum(tags.shape)
        pairs = others.tocoo()
        of_database, points = pairs.col.astype(np.int64), pairs.row
    else:
        labels = [_one_class_each(y, "y"), _one_class_each(y_database, "y_database")]
        known, (of_queries, of_database) = encode_together(labels, "y")
        classes_in, n_classes = lambda _: of_queries, len(known)
        points = np.arange(len(of_database))
    m, counts = count_labels(y_database), np.bincount(of_database, minlength=n_classes)
    starts = np.cumsum(counts) - counts

    def epoch(rng: RandomState) -> Iterator[Batch]:
        order = rng.permutation(m)
        place_of = np.argsort(order)
        members = points[np.lexsort((place_of[points], of_database))]
        codes = classes_in(rng)
        drawn = np.zeros(n_classes, np.int64)  # points of each class drawn in this epoch
        for rows in class_batches(codes, size, rng, group):
            classes = np.unique(codes[rows])
            classes = classes[counts[classes] > 0]
            taken = np.minimum(counts[classes], group)
            of_class = np.repeat(classes, taken)
            step = np.arange(taken.sum()) - np.repeat(np.cumsum(taken) - taken, taken)
            place = (drawn[of_class] + step) % counts[of_class]
            drawn[classes] += taken
            yield _with_database(rows, members[starts[of_class] + place], len(rows), m, rng)

    return epoch


def _with_database(
    queries: Integers, wanted: Integers, size: int, m: int, rng: RandomState
) -> Batch:
    """Return a batch of queries, wanted database rows, and random others up to `size`."""
    size = min(m, max(size, len(wanted)))
    return Batch(np.concatenate([queries, _fill(wanted, size, m, rng)]), len(queries))


def _check_sized(y: Any, name: str) -> None:
    if count_labels(y, name) == 0:
        raise ValueError(f"{name} must hold one label per point; found none.")


def _refuse_tags(y: Any, name: str) -> None:
    if are_tags(y):
        raise ValueError(
            f"{name} must hold numbers for DenseTriplet; found a sparse matrix of tags. Choose "
            "ClassBalanced or Uniform."
        )


def _classes_by_epoch(y: Any, name: str) -> Callable[[RandomState], Integers]:
    """Return a function that returns a class for each point; with tags, it draws one of them."""
    if are_tags(y):
        tags = as_tags(y, name)
        return lambda rng: one_tag_each(tags, rng)
    codes = encode(_one_class_each(y, name), name)[1]
    return lambda _: codes


def _one_class_each(y: ArrayLike, name: str) -> Array:
    labels = as_label_array(y, name)
    if labels.ndim != 1:
        raise ValueError(
            f"{name} must hold one class per point for ClassBalanced, got shape {labels.shape}: "
            "use Uniform or DenseTriplet for labels of several numbers."
        )
    return labels


def _fill(wanted: Integers, size: int, n: int, rng: RandomState) -> Integers:
    """Return the distinct values of `wanted`, then random others below n, up to `size` in total."""
    if 2 * size > n:
        return _first_of_each(np.concatenate([wanted, rng.permutation(n)]))[:size]
    rows = wanted
    while True:
        # Rejecting repeated rows equals drawing without replacement.
        rows = _first_of_each(np.concatenate([rows, rng.randint(n, size=size)]))
        if len(rows) >= size:
            return rows[:size]


def _first_of_each(values: Integers) -> Integers:
    order = np.argsort(values, kind="stable")
    repeated = np.empty(len(values), bool)
    repeated[order[:1]] = False
    repeated[order[1:]] = values[order[1:]] == values[order[:-1]]
    return values[~repeated]


def batch_count(n: int, batch_size: int) -> int:
    """Return the number of batches of nearly equal size for n samples.

    A batch has at most `batch_size` samples, and never a single one (which has nothing to be
    compared with) unless `batch_size` is 1. With pairs and an odd number of samples, one batch has
    three.
    """
    return max(1, n // 2 if batch_size == 2 else math.ceil(n / batch_size))


def class_batches(
    labels: Integers, batch_size: int, rng: RandomState, group: int = 8
) -> list[Integers]:
    """Split all samples at random into batches in which classes have several members.

    Works like :class:`ClassBalanced` with groups of `group` samples. Returns a list of ndarray of
    int64: sorted row indices; batches differ in size by at most one sample, see `batch_count`.
    """
    codes, shuffled = by_appearance(labels), rng.permutation(labels.size)
    by_class = shuffled[np.argsort(codes[shuffled], kind="stable")]
    counts = np.bincount(codes)
    within = np.arange(labels.size) - np.repeat(np.cumsum(counts) - counts, counts)
    begins = within % group == 0
    lone = np.cumsum(counts)[(counts > 1) & (counts % group == 1)] - 1  # groups of one
    begins[lone] = False
    if group > 2:  # with pairs, the last group has three
        begins[lone - 1] = True
    groups = np.cumsum(begins) - 1
    order = by_class[np.argsort(rng.permutation(groups[-1] + 1)[groups], kind="stable")]
    return [np.sort(b) for b in np.array_split(order, batch_count(labels.size, batch_size))]
