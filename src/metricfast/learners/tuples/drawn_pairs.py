"""What learners share that draw pairs of points from class labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._core.arguments import check_count
from metricfast._core.targets import check_partial_target
from metricfast.constraints import Constraints

__all__ = ["draw_pairs"]


def draw_pairs(
    learner: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    random_state: int | np.random.RandomState | None,
    *,
    same_length: bool = False,
    need_similar: bool = False,
) -> tuple[NDArray[np.int64], ...]:
    """Draw the `n_constraints` pairs of a class, and of different classes, of a learner.

    Parameters
    ----------
    learner : estimator
        With parameters `n_constraints` and `num_constraints`.
    y : ndarray of shape (n_samples,)
        Class labels. Numbers below 0 mean that the class is unknown.
    sample_weight, random_state, same_length
        As for :meth:`Constraints.positive_negative_pairs`.
    need_similar : bool, default=False
        Raise ValueError where there is no pair of a class.

    Returns
    -------
    a, b, c, d : ndarrays of int64
        As from :meth:`Constraints.positive_negative_pairs`.
    """
    classes, codes = check_partial_target(y)
    n_constraints = learner._current("n_constraints")
    if n_constraints is None:
        n_constraints = 20 * len(classes) ** 2
    check_count("n_constraints", n_constraints)
    drawn = Constraints(codes).positive_negative_pairs(
        n_constraints, same_length, random_state, sample_weight=sample_weight
    )
    if need_similar and not len(drawn[0]):
        raise ValueError(
            "y must hold a class of at least 2 points: there is no pair of similar points to draw."
        )
    return drawn
