"""Neighbourhood gerrymandering for continuous targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from metricfast._core.arguments import check_length, check_no_overflow
from metricfast._core.parameters import AtLeastTwo, PositiveInt, positional
from metricfast._core.scaling import rescale_targets
from metricfast._core.targets import check_regression_target, check_sample_weight
from metricfast._core.types import Array, Floats, Integers
from metricfast.distances.neighbors import kneighbors
from metricfast.learners.base.inputs import points_of
from metricfast.learners.gerrymandering.explanation import Explanation, explanation
from metricfast.learners.gerrymandering.metric import GerrymanderingLearner
from metricfast.learners.gerrymandering.voting import vote_loss


@positional("n_neighbors n_components")
@dataclass(eq=False, repr=False)
class NeighborhoodGerrymanderingRegressor(RegressorMixin, GerrymanderingLearner):  # type: ignore[misc]
    r"""Neighbourhood gerrymandering for continuous targets.

    The targets are cut into quantiles, the neighbours vote for one, and a vote costs the distance
    of its quantile's mean to the mean of the right one, in standard deviations of the target:
    :math:`\Delta(y, h) = |c_y - c_{vote(h)}| / \sigma`. This is a loss of classes, so inference is
    exact.

    Parameters
    ----------
    n_neighbors : int, default=5
        Neighbours that vote, and of whose targets `predict` takes the median.
    n_components : int, optional
        See `NeighborhoodGerrymandering`.
    n_bins : int, default=5
        Number of quantiles; fewer where targets repeat, or points are so few that a quantile had
        fewer than twice `n_neighbors` of them.
    parameterization, ties, inference, C, regularizer, init, solver, tol
        See `NeighborhoodGerrymandering`; "lda" is no `init`.
    early_stopping, warm_start, preprocessor, verbose, random_state, n_jobs, callbacks
        See `NeighborhoodGerrymandering`.

    Attributes
    ----------
    components_, history_, loss_curve_, objective_, n_iter_
        See `NeighborhoodGerrymandering`, with quantiles as classes.
    bins_ : ndarray of shape (n_bins,)
        The means of the quantiles.
    database_embedding_ : ndarray of shape (n_samples, n_components)
        The training points, embedded, and
    database_targets_ : ndarray of shape (n_samples,)
        their targets.

    Notes
    -----
    A loss of the median itself, :math:`|median(h) - y|`, could be inferred too, but targets hardly
    ever repeat, so that no set of other points would be right.

    `predict` gives the median target of neighbours, and training sees no difference of targets in
    one quantile. If targets are exact functions of the points, try `MLKR` first, which minimises
    the squared error of a prediction; the page on gerrymandering compares the two.

    Examples
    --------
    >>> import numpy as np
    >>> from metricfast import NeighborhoodGerrymanderingRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> learner = NeighborhoodGerrymanderingRegressor(random_state=0)
    >>> learner.fit(X, X[:, 0]).transform(X).shape
    (200, 5)
    """

    n_neighbors: PositiveInt = 5
    n_bins: AtLeastTwo = 5

    _has_classes = False

    def _target(self, y: Any) -> tuple[Array, Array, float]:
        targets = check_regression_target(y)
        rescale_targets(targets)  # raises if squares overflow or underflow
        self.database_targets_ = targets
        codes = self._quantiles(targets)
        sums = np.bincount(codes, weights=targets)
        self.bins_ = sums / np.bincount(codes)
        self._spread = float(targets.std())
        return self.bins_, codes, 1.0

    def _quantiles(self, y: Array) -> Integers:
        """Return the quantile of each number, among the quantiles of the targets of `fit`."""
        targets = self.database_targets_
        n_bins = max(2, min(int(self.n_bins), len(targets) // (2 * int(self.n_neighbors))))
        edges = np.unique(np.quantile(targets, np.linspace(0, 1, n_bins + 1)[1:-1]))
        filled = np.unique(np.searchsorted(edges, targets))
        if len(filled) == 1:
            edges, filled = targets.min(keepdims=True), np.arange(2)
        places = np.searchsorted(filled, np.searchsorted(edges, y))
        return np.minimum(places, len(filled) - 1).astype(np.int64)

    @property
    def _costs(self) -> Floats:  # type: ignore[override]
        """The cost of the vote for each quantile where another is right."""
        return np.abs(self.bins_[:, None] - self.bins_) / self._spread

    def explain(self, X: Any = None, y: ArrayLike | None = None) -> Explanation:
        """Show the sets of neighbours behind the vote and the loss of each query.

        Classes are quantiles, each named by the mean of its targets, as in `bins_`. The vote is the
        quantile that most neighbours are in; `predict` returns their median target.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), optional
            By default the points of `fit` and their targets, each excluded from its own sets.
        y : array-like of shape (n_queries,), optional
            The right targets. By default the quantiles that the neighbours vote for.

        Returns
        -------
        Explanation
            See `NeighborhoodGerrymandering.explain`.

        Raises
        ------
        ValueError
            If `y` does not hold a number for each query, or an argument is not as above.

        Examples
        --------
        >>> import numpy as np
        >>> from metricfast import NeighborhoodGerrymanderingRegressor
        >>> X = np.random.default_rng(0).normal(size=(200, 5))
        >>> learner = NeighborhoodGerrymanderingRegressor(random_state=0).fit(X, X[:, 0])
        >>> found = learner.explain(X[:3], X[:3, 0])
        >>> found.nearest.shape
        (3, 5)
        """
        check_is_fitted(self, "database_embedding_")
        database, labels = self.database_embedding_, self._quantiles(self.database_targets_)
        queries, codes, own = database, labels if X is None else None, None
        if X is None:
            own = np.arange(len(database))
        else:
            queries = self._embed(points_of(self, X))
        if y is not None:
            targets = check_regression_target(y, vary=False)
            check_length(targets, len(queries), "y")
            codes = self._quantiles(targets)
        loss = vote_loss(self, len(self.bins_), self._costs)
        return explanation(queries, database, codes, labels, self.bins_, loss, own, self.n_jobs)

    def predict(self, X: ArrayLike) -> Floats:
        """Return the median target of the nearest training points.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self, "database_embedding_")
        Z = self._embed(points_of(self, X))
        found = kneighbors(Z, self.database_embedding_, self.n_neighbors, n_jobs=self.n_jobs)[1]
        return np.asarray(np.median(self.database_targets_[found], axis=1))

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination of the predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Numbers.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        float
            At most 1; 0 for the mean of `y` as the prediction.

        Raises
        ------
        ValueError
            If there is one sample, squares of `y` overflow, or an argument is not as above.
        """
        targets = check_regression_target(y, vary=False)
        if len(targets) < 2:
            raise ValueError("y must hold at least 2 numbers: R² of one is undefined.")
        weight = check_sample_weight(sample_weight, len(targets))
        with np.errstate(over="ignore", invalid="ignore"):
            found = float(super().score(X, targets, weight))
        check_no_overflow("its squares", found, remedy="divide it, and fit again", name="y")
        return found
