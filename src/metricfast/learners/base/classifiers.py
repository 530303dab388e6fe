"""Learners on pairs, triplets and quadruplets as classifiers of such tuples."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils import Tags

from metricfast._core.checks import check_both_kinds
from metricfast._core.types import Array, Integers
from metricfast.learners.base.inputs import tuples_of
from metricfast.learners.base.learner import BaseMetricLearner


class PairsClassifierMixin(ClassifierMixin, BaseMetricLearner):  # type: ignore[misc]
    """Mixin of learners on pairs, which are similar (1) or dissimilar (-1).

    Attributes
    ----------
    threshold_ : float
        Pairs of at most this distance count as similar.

    Examples
    --------
    >>> from metricfast import ITML
    >>> pairs = [[[0.0, 1.0], [0.1, 1.2]], [[0.0, 2.0], [4.0, 2.0]]]
    >>> itml = ITML().fit(pairs, [1, -1])
    >>> itml.predict(pairs)
    array([ 1, -1])
    """

    _tuple_size = 2
    classes_ = np.array([-1, 1])

    def decision_function(self, pairs: ArrayLike) -> Array:
        """Return the similarity of pairs; larger values mean more similar pairs.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
            Pairs of points, or of indicators for the preprocessor.

        Returns
        -------
        ndarray of shape (n_pairs,)
        """
        return _scores(self, pairs, [0, 1])[0]

    def predict(self, pairs: ArrayLike) -> Integers:
        """Return 1 for pairs of at most the threshold's distance, and -1 for others (int64).

        As :meth:`BaseMetricLearner.predict_pairs`: raises AttributeError without a threshold.
        """
        return self.predict_pairs(pairs)

    def score(self, pairs: ArrayLike, y: ArrayLike) -> float:
        """Return the area under the ROC curve of the similarities of pairs.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
        y : array-like of shape (n_pairs,)
            1 for similar pairs, -1 for dissimilar ones.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If y does not hold a label for each pair, or all pairs are of one kind.
        """
        decisions = self.decision_function(pairs)
        labels = check_both_kinds(y, len(decisions))
        return float(roc_auc_score(labels == 1, decisions))


class TripletsClassifierMixin(ClassifierMixin, BaseMetricLearner):  # type: ignore[misc]
    """Mixin of learners on triplets, whose first point is nearer to the second or to the third.

    Examples
    --------
    >>> from metricfast import OASIS
    >>> triplets = [[[0.0, 1.0], [0.2, 1.0], [1.0, 0.0]], [[1.0, 0.0], [1.0, 0.2], [0.0, 1.0]]]
    >>> OASIS(random_state=0).fit(triplets).predict(triplets)
    array([1, 1])
    """

    _tuple_size = 3
    classes_ = np.array([-1, 1])

    def decision_function(self, triplets: ArrayLike) -> Array:
        """Return by how much the first pair of points is more similar than the first and third.

        Parameters
        ----------
        triplets : array-like of shape (n_triplets, 3, n_features) or (n_triplets, 3)
            Triplets of points, or of indicators for the preprocessor.

        Returns
        -------
        ndarray of shape (n_triplets,)
        """
        near, far = _scores(self, triplets, [0, 1], [0, 2])
        return np.asarray(near - far)

    def predict(self, triplets: ArrayLike) -> Integers:
        """Return 1 for triplets whose second point is nearer to the first, and -1 for others.

        Takes and returns arrays of the same shapes as `decision_function`.
        """
        return np.where(self.decision_function(triplets) > 0, 1, -1)

    def score(self, triplets: ArrayLike, y: ArrayLike | None = None) -> float:
        """Return the share of triplets whose second point is nearer to the first.

        Takes the same tuples as `decision_function`; `y` is ignored.
        """
        return float(self.predict(triplets).mean() / 2 + 0.5)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


class QuadrupletsClassifierMixin(ClassifierMixin, BaseMetricLearner):  # type: ignore[misc]
    """Mixin of learners on quadruplets, of which the first or the second pair is nearer.

    Examples
    --------
    >>> from metricfast import LSML
    >>> quadruplets = [[[0.0, 1.0], [0.1, 1.0], [0.0, 1.0], [3.0, 1.0]]]
    >>> LSML().fit(quadruplets).predict(quadruplets)
    array([1.])
    """

    _tuple_size = 4
    classes_ = np.array([-1, 1])

    def decision_function(self, quadruplets: ArrayLike) -> Array:
        """Return by how much the first pair of points is more similar than the second.

        Parameters
        ----------
        quadruplets : array-like of shape (n_quadruplets, 4, n_features) or (n_quadruplets, 4)
            Quadruplets of points, or of indicators for the preprocessor.

        Returns
        -------
        ndarray of shape (n_quadruplets,)
        """
        near, far = _scores(self, quadruplets, [0, 1], [2, 3])
        return np.asarray(near - far)

    def predict(self, quadruplets: ArrayLike) -> Array:
        """Return 1 for quadruplets whose first pair is nearer, -1 for others, 0 for equals.

        Takes and returns arrays of the same shapes as `decision_function`.
        """
        return np.asarray(np.sign(self.decision_function(quadruplets)))

    def score(self, quadruplets: ArrayLike, y: ArrayLike | None = None) -> float:
        """Return the share of quadruplets whose first pair is nearer; equals count half.

        Takes the same tuples as `decision_function`; `y` is ignored.
        """
        return float(self.predict(quadruplets).mean() / 2 + 0.5)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


def _scores(learner: BaseMetricLearner, tuples: ArrayLike, *pairs: list[int]) -> list[Array]:
    """Return the similarities of the pairs of each tuple that are at the given positions."""
    found = tuples_of(learner, tuples, learner._tuple_size)
    return [learner._indexed_score(found.points, found.index[:, pair]) for pair in pairs]
