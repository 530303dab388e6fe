"""Thresholds that make a similarity of pairs a classifier of pairs."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from metricfast._core.checks import check_labels, check_pair_labels
from metricfast._core.targets import as_column, check_sample_weight
from metricfast._core.types import Array, Floats, Integers

__all__ = ["ThresholdMixin", "check_calibration", "check_calibration_params"]

Self = TypeVar("Self", bound="ThresholdMixin")
# Squares of larger ones overflow.
_MOST_BETA = 1e100
_STRATEGIES = ("accuracy", "f_beta", "max_tpr", "max_tnr")


def check_calibration(
    strategy: str = "accuracy", min_rate: float | None = None, beta: float = 1.0
) -> None:
    """Check parameters of :meth:`ThresholdMixin.calibrate_threshold`."""
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
    """Return the keyword arguments of :meth:`ThresholdMixin.calibrate_threshold` that `fit` got."""
    known = ("strategy", "min_rate", "beta")
    if params is not None and not isinstance(params, Mapping):
        raise ValueError(f"calibration_params must be a dict of {known}, got {params!r}.")
    found = {} if params is None else dict(params)
    for name in found:
        if name not in known:
            raise ValueError(f"calibration_params: unknown {name!r}; it may hold {known}.")
    check_calibration(**found)
    return found


class ThresholdMixin:
    """What any learner with a `pair_score` can do: tell similar pairs from dissimilar ones.

    Attributes
    ----------
    threshold_ : float
        Pairs of at most this distance (the negative `pair_score`) count as similar.

    Examples
    --------
    >>> import numpy as np
    >>> from metricfast import NCA
    >>> X = np.array([[0.0, 5.0], [1.0, 2.0], [8.0, 4.0], [9.0, 1.0]])
    >>> nca = NCA(max_iter=1, tol=1e9).fit(X, ["a", "a", "b", "b"])
    >>> pairs = X[[[0, 1], [2, 3], [0, 2], [1, 3]]]
    >>> nca.calibrate_threshold(pairs, [1, 1, -1, -1]).predict_pairs(pairs)
    array([ 1,  1, -1, -1])
    """

    def _pair_decisions(self, pairs: ArrayLike) -> Array:
        """Return the similarities that a threshold is set on."""
        scores: Array = self.pair_score(pairs)  # type: ignore[attr-defined]
        return scores

    def set_threshold(self: Self, threshold: float) -> Self:
        """Set the largest distance of similar pairs, a number, and return the learner."""
        check_is_fitted(self, "preprocessor_")
        try:
            value = float(threshold)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Parameter threshold must be a real number. Got {type(threshold)} instead."
            ) from error
        if np.isnan(value):
            raise ValueError("Parameter threshold must be a real number. Got NaN instead.")
        self.threshold_ = value
        return self

    def calibrate_threshold(
        self: Self,
        pairs_valid: ArrayLike,
        y_valid: ArrayLike,
        strategy: str = "accuracy",
        min_rate: float | None = None,
        beta: float = 1.0,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Set the threshold that classifies given pairs best.

        Parameters
        ----------
        pairs_valid : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
            Pairs of points, or of indicators for the preprocessor.
        y_valid : array-like of shape (n_pairs,)
            1 for similar pairs, -1 for dissimilar ones.
        strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr"}, default="accuracy"
            What to maximise: the share of pairs that are classified correctly, the F-score, or the
            rate of true positives (negatives) where that of true negatives (positives) is at least
            `min_rate`. Of thresholds that are equally good the smallest is taken.
        min_rate : float in [0, 1], optional
            For "max_tpr" and "max_tnr", which need it.
        beta : float, default=1.0
            Weight of the recall, for "f_beta".
        sample_weight : array-like of shape (n_pairs,), optional
            Non-negative weights of the pairs; whole numbers mean the same as repeated pairs.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument has a value that cannot be used.
        """
        check_is_fitted(self, "preprocessor_")
        check_calibration(strategy, min_rate, beta)
        y_valid = check_labels(y_valid, "y_valid")
        distances = -self._pair_decisions(pairs_valid)
        return self._calibrate(distances, y_valid, sample_weight, strategy, min_rate, beta)

    def _calibrate(
        self: Self, distances: Array, labels: ArrayLike, sample_weight: ArrayLike | None,
        strategy: str = "accuracy", min_rate: float | None = None, beta: float = 1.0,
    ) -> Self:  # fmt: skip
        """Set the threshold that classifies pairs of some distances best."""
        y = as_column(labels, "y_valid")
        check_consistent_length(distances, y)
        check_pair_labels(y)
        weight = check_sample_weight(sample_weight, len(y))
        if weight is not None:
            seen = weight > 0
            distances, y, weight = distances[seen], y[seen], weight[seen]
        self.threshold_ = _best_threshold(distances, y == 1, weight, strategy, min_rate, beta)
        return self

    def predict_pairs(self, pairs: ArrayLike) -> Integers:
        """Return 1 for pairs of at most the threshold's distance, and -1 for others.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)

        Returns
        -------
        ndarray of shape (n_pairs,), int64

        Raises
        ------
        AttributeError
            If no threshold has been set.
        """
        check_is_fitted(self, "preprocessor_")
        if "threshold_" not in vars(self):
            raise AttributeError(
                "A threshold for this estimator has not been set, "
                "call its set_threshold or calibrate_threshold method."
            )
        distances = -self._pair_decisions(pairs)
        return np.where(distances <= self.threshold_, 1, -1)


def _best_threshold(
    distances: Array,
    similar: NDArray[np.bool_],
    weight: Floats | None,
    strategy: str,
    min_rate: float | None,
    beta: float,
) -> float:
    """Try to accept no pair, and all pairs up to each of the different distances."""
    order = np.argsort(distances, kind="stable")
    ordered = distances[order].astype(np.float64)
    last = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)
    # From some size on a distance less 1 is the same distance, in its own dtype.
    below = np.nextafter(distances[order[:1]], -np.inf)
    cuts = np.append(np.minimum(below, ordered[0] - 1), ordered[last])
    counts = np.ones(len(ordered), np.int64) if weight is None else _in_proportion(weight[order])
    accepted = np.append(0, np.cumsum(counts)[last])
    positives = np.append(0, np.cumsum(similar[order] * counts)[last])
    n_similar = positives[-1]
    n_dissimilar = accepted[-1] - n_similar
    negatives = n_dissimilar - (accepted - positives)
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


def _in_proportion(weight: Floats) -> NDArray[Any]:
    """Return Python's integers in the exact proportions of weights: no sum of them is rounded."""
    ratios = [each.as_integer_ratio() for each in weight.tolist()]
    unit = max(below for _, below in ratios)  # all are powers of two
    return np.array([above * (unit // below) for above, below in ratios], object)


def _first_largest(above: NDArray[Any], below: NDArray[Any]) -> int:
    """Return the place of the first of the largest fractions of integers, exactly."""
    rounded = (above / below).astype(np.float64)
    near = np.flatnonzero(rounded >= rounded.max() * (1 - 1e-12))
    exact = [Fraction(int(above[i]), int(below[i])) for i in near]
    return int(near[exact.index(max(exact))])
