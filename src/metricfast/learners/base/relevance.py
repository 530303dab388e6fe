"""Which features a Mahalanobis distance looks at."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import check_is_fitted

from metricfast._core.arrays import scaled_alike
from metricfast._core.sources import parts
from metricfast._core.types import Array, Floats

__all__ = ["RelevanceMixin", "feature_names", "in_spreads", "shares_of_features"]


class RelevanceMixin:
    """What a learner with `components_`, the map L, can say of each feature."""

    components_: Array

    def feature_relevance(self, X: Any = None) -> Floats:
        r"""Return the share of each feature in the learned distance.

        The mean of :math:`d^2(x, x')` over points of covariance :math:`\Sigma` is
        :math:`2 \sum_{ij} M_{ij} \Sigma_{ij}`. The relevance of feature j is
        :math:`M_{jj} \Sigma_{jj}`, what it contributes by itself, divided by the sum of these
        over all features. It does not change with the units of the features nor that of the
        distance, nor with a shift or rotation of the embedded points.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples,), optional
            Points, or indicators for the preprocessor, such as those of `fit`; or a source, which
            is read by blocks. They tell how far each feature spreads. By default all spread alike,
            as standardised ones do, and the relevance is the diagonal of M, which depends on the
            units of the features.

        Returns
        -------
        ndarray of shape (n_features,)
            Not negative, with a sum of 1; all zero if the map is.

        Raises
        ------
        ValueError
            If X is not as above, or all of its points are the same.

        Notes
        -----
        Of features that say the same, a learner is free to use one, the other, or their
        difference: a low relevance does not mean that a feature tells nothing.
        :func:`sklearn.inspection.permutation_importance` says what a classifier would lose.

        Examples
        --------
        >>> from metricfast import LFDA
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> lfda = LFDA(n_components=1).fit(X, y)
        >>> relevance = lfda.feature_relevance(X)
        >>> bool(relevance[2:].sum() > 0.8)  # petals tell species apart
        True
        """
        return shares_of_features(self._in_spreads(X))

    def _in_spreads(self, X: Any) -> Floats:
        """Return a multiple of the map of features in units of their standard deviation in X."""
        check_is_fitted(self, "components_")
        points = None if X is None else self._points(X)  # type: ignore[attr-defined]
        return in_spreads(self.components_, points)


def in_spreads(L: Array, X: Any = None) -> Floats:
    """Return a multiple of a map, of features in units of their standard deviation in checked X.

    The multiple is such that no square overflows.
    """
    (weighted,) = scaled_alike(L.astype(np.float64))
    if X is None:
        return weighted
    spread = _spread(X)
    if not spread.any():
        raise ValueError("X must hold points that differ, to tell how far each feature spreads.")
    return scaled_alike(weighted * spread)[0]


def _spread(X: Any) -> Floats:
    """Return a multiple of the standard deviation of each feature, of points read by blocks."""
    if issparse(X):
        X = X.astype(np.float64)  # a copy
        (X.data,) = scaled_alike(X.data)
        return np.asarray(np.sqrt(mean_variance_axis(X, axis=0)[1]))
    count, mean, spread = 0, np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for _, block in parts(X):
        unit = float(np.abs(block).max()) or 1.0  # so that no square overflows
        scaled = block.astype(np.float64) / unit
        share = len(block) / (count + len(block))
        away = unit * scaled.mean(axis=0) - mean
        own = np.hypot(unit * scaled.std(axis=0), np.sqrt(1 - share) * away)
        spread = np.hypot(np.sqrt(1 - share) * spread, np.sqrt(share) * own)
        mean, count = mean + share * away, count + len(block)
    return spread


def shares_of_features(L: Floats) -> Floats:
    """Return the diagonal of L^T L divided by its sum, or zeros."""
    squares: Floats = np.square(L).sum(axis=0)
    return squares / (squares.sum() or 1.0)


def feature_names(learner: Any) -> list[str]:
    """Return the names of features, x0, x1 ... where `fit` was told none, as scikit-learn does."""
    numbered = [f"x{j}" for j in range(learner.components_.shape[1])]
    return list(getattr(learner, "feature_names_in_", numbered))
