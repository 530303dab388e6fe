"""Plots of the relevance of features for a learned metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from metricfast._core.arguments import check_count
from metricfast._core.arrays import as_both, as_points
from metricfast._core.scatter import svd, with_signs
from metricfast._core.types import Array, Floats
from metricfast.learners.base.inputs import points_of
from metricfast.learners.base.relevance import feature_names, in_spreads, shares_of_features
from metricfast.metrics._selection import unwrapped
from metricfast.plotting._axes import Display


@dataclass(eq=False, repr=False, kw_only=True)
class FeatureRelevanceDisplay(Display):
    """Which features matter: their relevance, and the directions that the metric stretches most.

    To the left a bar for each feature, its :meth:`~metricfast.MahalanobisMixin.feature_relevance`,
    largest on top. To the right the leading eigenvectors of M, of features in units of their
    standard deviation: features of one sign add up, features of opposite signs are set against
    each other. Below each stands its share of the sum of the eigenvalues.

    Make one by :meth:`from_estimator` or :meth:`from_components`.

    Parameters
    ----------
    relevance : ndarray of shape (n_features,)
        The shares of the features, with a sum of 1.
    eigenvalues : ndarray of shape (n_eigenvectors,)
        Divided by their sum, largest first.
    eigenvectors : ndarray of shape (n_eigenvectors, n_features)
        Eigenvectors of norm 1, each with its largest value positive.
    feature_names : list of str
        Names of the features.

    Attributes
    ----------
    ax_, figure_
        Axes, or two of them with eigenvectors; and their figure.

    Examples
    --------
    >>> from metricfast import LFDA
    >>> from metricfast.plotting import FeatureRelevanceDisplay
    >>> from sklearn.datasets import load_iris
    >>> data = load_iris()
    >>> lfda = LFDA(n_components=2).fit(data.data, data.target)
    >>> display = FeatureRelevanceDisplay.from_estimator(
    ...     lfda, data.data, feature_names=data.feature_names
    ... )
    >>> display.feature_names[display.relevance.argmax()]
    'petal length (cm)'
    """

    relevance: Floats
    eigenvalues: Floats
    eigenvectors: Floats
    feature_names: list[str]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, *, feature_names: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> FeatureRelevanceDisplay:  # fmt: skip
        """Draw what a learner of a Mahalanobis distance has learned.

        Parameters
        ----------
        estimator : fitted learner
            One with `feature_relevance`, a predictor that has one as its metric, or a pipeline or
            search that ends in either: features are then those that its other steps give.
        X : array-like of shape (n_samples, n_features), optional
            Points that show how far each feature spreads. By default all spread alike, as
            standardised features do.
        feature_names : sequence of str, optional
            By default the names in the frame of `fit`, or x0, x1 and so on.
        **kwargs
            Arguments of :meth:`plot`.

        Returns
        -------
        FeatureRelevanceDisplay

        Raises
        ------
        TypeError
            If the estimator has no `feature_relevance`.
        ValueError
            If an argument is not as above.
        """
        steps, final = unwrapped(estimator)
        if hasattr(getattr(final, "metric_", None), "fit"):  # the metric of a predictor
            more, final = unwrapped(final.metric_)
            steps = [*steps, *more]
        if not hasattr(final, "feature_relevance"):
            raise TypeError(
                "estimator must learn a Mahalanobis distance, to have `feature_relevance`; got "
                f"{final!r}."
            )
        if X is not None:
            for step in steps:
                X = step.transform(X)
        check_is_fitted(final, final._fitted)
        if feature_names is None:
            feature_names = _names(steps, final)
        L = in_spreads(final.components_, None if X is None else points_of(final, X))
        return cls._of(L, feature_names).plot(**kwargs)

    @classmethod
    def from_components(
        cls, L: ArrayLike, X: ArrayLike | None = None, *,
        feature_names: Sequence[str] | None = None, **kwargs: Any,
    ) -> FeatureRelevanceDisplay:  # fmt: skip
        """Draw a linear map, wherever it comes from.

        Parameters
        ----------
        L : array-like of shape (n_components, n_features)
        X, feature_names, **kwargs
            As in :meth:`from_estimator`.

        Returns
        -------
        FeatureRelevanceDisplay
        """
        scaled = in_spreads(*as_both(L, X, ("L", "X"), as_points))
        return cls._of(scaled, feature_names).plot(**kwargs)

    @classmethod
    def _of(cls, L: Array, names: Sequence[str] | None) -> FeatureRelevanceDisplay:
        """Decompose a map for standardised features."""
        width = L.shape[1]
        names = [f"x{j}" for j in range(width)] if names is None else [str(name) for name in names]
        if len(names) != width:
            raise ValueError(f"feature_names must be {width}, one per feature; got {len(names)}.")
        _, roots, vectors = svd(L)
        values = np.square(roots)
        return cls(
            relevance=shares_of_features(L),
            eigenvalues=values / (values.sum() or 1.0),
            eigenvectors=with_signs(vectors),
            feature_names=names,
        )

    def plot(
        self, *, max_features: int = 15, n_eigenvectors: int = 2, ax: Any = None
    ) -> FeatureRelevanceDisplay:
        """Draw.

        Parameters
        ----------
        max_features : int, default=15
            Draw so many at most, the most relevant.
        n_eigenvectors : int, default=2
            How many to draw, if there are so many; 0 for the bars alone.
        ax : matplotlib Axes, or two of them, optional
            Axes to draw on. If there are two panels, one Axes is divided.

        Returns
        -------
        FeatureRelevanceDisplay
            The display.
        """
        max_features = check_count("max_features", max_features)
        drawn = min(check_count("n_eigenvectors", n_eigenvectors, 0), len(self.eigenvectors))
        shown = np.argsort(-self.relevance, kind="stable")[:max_features]
        places = np.arange(len(shown))
        names = [self.feature_names[j] for j in shown]
        bars, *rest = self._panels(ax, 2 if drawn else 1, (4.5, 1.5 + 0.25 * len(shown)))
        bars.barh(places, self.relevance[shown])
        bars.set_yticks(places, names)
        bars.set(xlabel="relevance", ylim=(len(shown) - 0.5, -0.5))
        for axes in rest:
            loadings = self.eigenvectors[:drawn, shown].T
            image = axes.imshow(loadings, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
            axes.set_yticks([])  # same rows as the bars
            shares = [f"{share:.0%}" for share in self.eigenvalues[:drawn]]
            axes.set_xticks(np.arange(drawn), shares)
            axes.set(xlabel="eigenvectors of M")
            axes.figure.colorbar(image, ax=axes)
        return self


def _names(steps: list[Any], final: Any) -> list[str]:
    """Return the feature names of the last step's input in a pipeline."""
    names: Any = None
    try:
        for step in steps:
            names = step.get_feature_names_out(names)
    except (AttributeError, ValueError):  # a step without feature names
        names = None
    return feature_names(final) if names is None else list(names)
