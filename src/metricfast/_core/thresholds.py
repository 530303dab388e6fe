"""Calibrate the threshold that classifies pairs by their similarity."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length

from metricfast._core.arguments import check_range
from metricfast._core.checks import check_pair_labels
from metricfast._core.targets import as_column, check_sample_weight
from metricfast._core.types import Array, Floats
from metricfast._core.warn import warn_user

# The square of a larger beta may overflow in later products.
_MOST_BETA = 1e100
_STRATEGIES = ("accuracy", "f_beta", "max_tpr", "max_tnr")


def check_calibration(
    strategy: str = "accuracy",
    min_rate: float | None = None,
    beta: float = 1.0,
    far: float | None = None,
) -> None:
    """Check parameters of :meth:`BaseMetricLearner.calibrate_threshold`."""
    if far is not None:
        check_range("far", far, high=1, positive=True)
        if strategy != "accuracy" or min_rate is not None:
            raise ValueError(
                f"far={far} chooses the threshold alone: leave out strategy and min_rate. Got "
                f"strategy={strategy!r} and min_rate={min_rate}."
            )
    if not isinstance(strategy, str) or strategy not in _STRATEGIES:
        raise ValueError(
            'Strategy can either be "accuracy", "f_beta" or "max_tpr" or "max_tnr". '
            f'Got "{strategy}" instead.'
        )
    if strategy in ("max_tpr", "max_tnr") and not (
        isinstance(min_rate, Real) and 0 <= float(min_rate) <= 1
    ):
        raise ValueError(f"Parameter min_rate must be a number in[0, 1]. Got {min_rate} instead.")
    if strategy == "f_beta":
        if not isinstance(beta, Real):
            raise ValueError(f"Parameter beta must be a real number. Got {type(beta)} instead.")
        if not -_MOST_BETA <= beta <= _MOST_BETA:
            raise ValueError(
                f"Parameter beta must be a number from {-_MOST_BETA:g} to {_MOST_BETA:g}. Got "
                f"{beta} instead."
            )


def check_calibration_params(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the checked `calibration_params` of `fit`: arguments of `calibrate_threshold`."""
    known = ("strategy", "min_rate", "beta", "far")
    if params is not None and not isinstance(params, Mapping):
        raise ValueError(f"calibration_params must be a dict of {known}, got {params!r}.")
    found = {} if params is None else dict(params)
    for name in found:
        if name not in known:
            raise ValueError(f"calibration_params: unknown {name!r}; it may hold {known}.")
    check_calibration(**found)
    return found


def best_threshold(
    distances: Array,
    labels: ArrayLike,
    sample_weight: ArrayLike | None = None,
    strategy: str = "accuracy",
    min_rate: float | None = None,
    beta: float = 1.0,
    far: float | None = None,
) -> float:
    """Return the threshold that best classifies pairs with these distances.

    :meth:`BaseMetricLearner.calibrate_threshold` describes the parameters.
    """
    y = as_column(labels, "y_valid")
    check_consistent_length(distances, y)
    check_pair_labels(y)
    weight = check_sample_weight(sample_weight, len(y))
    if weight is not None:
        seen = weight > 0
        distances, y, weight = distances[seen], y[seen], weight[seen]
    similar, order = y == 1, np.argsort(distances, kind="stable")
    ordered = distances[order].astype(np.float64)
    last = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)
    # Every distinct distance, and the next smaller float, which accepts no pair in any unit.
    cuts = np.append(np.nextafter(distances[order[:1]], -np.inf), ordered[last])
    counts = np.ones(len(ordered), np.int64) if weight is None else _in_proportion(weight[order])
    accepted = np.append(0, np.cumsum(counts)[last])
    positives = np.append(0, np.cumsum(similar[order] * counts)[last])
    n_similar = positives[-1]
    n_dissimilar = accepted[-1] - n_similar
    false = accepted - positives
    if far is not None:
        return float(cuts[_last_at_rate(false, far, int(np.sum(~similar)))])
    negatives = n_dissimilar - false
    if strategy == "accuracy":
        return float(cuts[np.argmax(positives + negatives)])
    if strategy == "f_beta":
        b2 = Fraction(float(beta)) ** 2
        whole, parts = (each.astype(object) for each in (accepted, positives))
        totals = b2.numerator * int(n_similar) + b2.denominator * whole
        return float(cuts[_first_largest(b2.denominator * parts, np.maximum(totals, 1))])
    if n_similar == 0 or n_dissimilar == 0:
        raise ValueError(
            f"strategy '{strategy}' needs similar and dissimilar pairs, but all labels in y_valid "
            f"are {1 if n_similar else -1}."
        )
    counted = (positives, n_similar), (negatives, n_dissimilar)
    (wanted, _), (bounded, most) = counted if strategy == "max_tpr" else counted[::-1]
    enough = (bounded / most).astype(np.float64) >= min_rate
    return float(cuts[np.argmax(np.where(enough, wanted, -1))])


def _last_at_rate(false: NDArray[Any], far: float, n_dissimilar: int) -> int:
    """Return the last index at which at most this share of dissimilar pairs is accepted.

    `false`: the weight of accepted dissimilar pairs at each threshold, ascending; the last accepts
    all.
    """
    if n_dissimilar == 0:
        raise ValueError(f"far={far} needs dissimilar pairs, but all labels in y_valid are 1.")
    if 1 / n_dissimilar > far:
        warn_user(
            f"far={far} is less than one of the {n_dissimilar} dissimilar pairs: the threshold "
            f"accepts none of them. Give at least {math.ceil(1 / far)} dissimilar pairs."
        )
    # The quotient is rounded once, so that it equals a rate that is the same fraction.
    return int(np.count_nonzero((false / false[-1]).astype(np.float64) <= far)) - 1


def _in_proportion(weight: Floats) -> NDArray[Any]:
    """Return integers in the exact proportions of the weights, so that sums are not rounded."""
    ratios = [each.as_integer_ratio() for each in weight.tolist()]
    unit = max(below for _, below in ratios)  # all are powers of two
    return np.array([above * (unit // below) for above, below in ratios], object)


def _first_largest(above: NDArray[Any], below: NDArray[Any]) -> int:
    """Return the index of the (first) largest of fractions of integers, computed exactly."""
    rounded = (above / below).astype(np.float64)
    near = np.flatnonzero(rounded >= rounded.max() * (1 - 1e-12))
    exact = [Fraction(int(above[i]), int(below[i])) for i in near]
    return int(near[exact.index(max(exact))])
