"""Draw tuples of points from class labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arguments import check_count
from metricfast._core.stores import in_memory
from metricfast._core.targets import check_partial_target, check_sample_weight
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Integers, RandomState
from metricfast._core.warn import warn_user
from metricfast.constraints import Constraints, wrap_indices

__all__ = ["draw_index_pairs", "draw_pairs", "draw_triplets"]

# Up to so many classes, the default number of pairs is that of metric-learn.
_MANY_CLASSES = 40


def draw_pairs(
    points: Any,
    labels: Array,
    n_constraints: Any,
    sample_weight: ArrayLike | None,
    rng: RandomState,
    *,
    needs_similar: bool = False,
) -> TupleSet:
    """Draw pairs of points of one class, and as many pairs of points of different classes.

    `points`: checked points, an array or a source.
    `needs_similar`: raise ValueError if no pair of one class can be drawn.
    For the other parameters see :func:`draw_index_pairs`.
    """
    drawn = draw_index_pairs(
        labels, n_constraints, sample_weight, rng, points.shape[1], needs_similar=needs_similar
    )
    return TupleSet.of_rows(points, *wrap_indices(drawn))


def draw_index_pairs(
    labels: Array,
    n_constraints: Any,
    sample_weight: ArrayLike | None,
    rng: RandomState,
    n_features: int,
    *,
    same_length: bool = False,
    needs_similar: bool = False,
) -> tuple[Integers, ...]:
    """Draw rows a, b, c, d: a[i] and b[i] are of one class, c[i] and d[i] of different classes.

    `n_constraints`: number of pairs of either kind; for None see :func:`_default_number`.
    `sample_weight`: the chances of points are in proportion to it; points of weight 0 do not count.
    """
    _, codes = check_partial_target(labels)
    weight = check_sample_weight(sample_weight, len(codes))
    if weight is not None:
        codes = np.where(weight > 0, codes, -1)
    n_classes = len(np.unique(codes[codes >= 0]))
    if n_classes < 2:
        raise ValueError(
            f"y must hold at least 2 classes of a weight above 0, got {n_classes}: see "
            "sample_weight."
        )
    if n_constraints is None:
        n_constraints = _default_number(codes, n_classes, n_features)
    n_constraints = check_count("n_constraints", n_constraints)
    drawn = Constraints(codes).positive_negative_pairs(
        n_constraints, same_length, rng, sample_weight=sample_weight
    )
    if needs_similar and not len(drawn[0]):
        raise ValueError(
            "y must hold a class of at least 2 points of a weight above 0: there is no pair of "
            "similar points to draw."
        )
    return drawn


def _default_number(codes: Integers, n_classes: int, n_features: int) -> int:
    """Return 20 times the square of the number of classes, or less, with a warning.

    More than for 40 classes are no more than one for each point, or for each feature.
    """
    wanted = 20 * n_classes**2
    most = max(20 * _MANY_CLASSES**2, int(np.count_nonzero(codes >= 0)), n_features)
    if wanted > most:
        warn_user(
            f"n_constraints=None draws {most:,} pairs of either kind, not 20 * n_classes**2 = "
            f"{wanted:,}, for y holds {n_classes:,} classes. Set n_constraints for another number."
        )
    return min(wanted, most)


def draw_triplets(learner: Any, points: Any, labels: Array, sample_weight: Any) -> TupleSet:
    """Form triplets of each point, a near point of its class and a near one of another class.

    `learner`: has the parameters `k_genuine`, `k_impostor` and `n_jobs`.
    `sample_weight`: weight of the triplets that a point is the first of.
    """
    name = type(learner).__name__
    what = f"X, all of which {name} makes triplets of,"
    points = in_memory(points, what, "give fewer points, or triplets of some")
    _, codes = check_partial_target(labels)
    weight = check_sample_weight(sample_weight, len(points))
    index = Constraints(codes).generate_knntriplets(
        points, learner.k_genuine, learner.k_impostor, n_jobs=learner.n_jobs
    )
    if weight is not None:
        index = index[weight[index[:, 0]] > 0]
        weight = weight[index[:, 0]]
    if not len(index):
        raise ValueError("There are no triplets: no class has two points and weight.")
    return TupleSet(points, index, weight=weight)
