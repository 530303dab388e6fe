"""Nearest class mean metric learning."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.special import log_softmax

from metricfast import losses
from metricfast._core.arguments import check_range
from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.scatter import group_means, repetitions
from metricfast._core.sparse import sparse_gradient
from metricfast.learners.base.points import TrainingSet
from metricfast.learners.base.trained import Callback
from metricfast.learners.linear.base import LinearLearner
from metricfast.samplers import Batch
from metricfast.training.coordinates import Coordinates
from metricfast.training.monitor import SolverState
from metricfast.training.objective import Labelled, LinearMap, Objective, map_points

__all__ = ["NCMML"]


class NCMML(LinearLearner):
    r"""Nearest class mean metric learning.

    Learns a linear map L under which points are near the mean :math:`\mu_c` of their class, by
    maximising the mean log-likelihood of the labels under a softmax of distances:

    .. math::

        \max_L \sum_i w_i \log p(y_i \mid x_i), \qquad
        p(c \mid x) = \frac{\exp(-\frac{1}{2}\|L x - L \mu_c\|^2)}
        {\sum_{c'} \exp(-\frac{1}{2}\|L x - L \mu_{c'}\|^2)}

    An evaluation takes time of order n_samples n_features n_classes, whatever n_components is: it
    suits many points of few classes. A new class needs nothing but its mean.

    Parameters
    ----------
    n_components : int, optional
        Number of rows of the map; by default those of `init` if it is an array, else n_features.
    init : {"auto", "pca", "lda", "identity", "random"} or ndarray, default="auto"
        The map to start from. "auto" is "lda" if
        ``n_components <= min(n_features, n_classes - 1)``, else "pca" if
        ``n_components < min(n_features, n_samples)``, else "identity". An array has shape
        (n_components, n_features).
    max_iter : int, default=100
        Largest number of iterations.
    tol : float, optional
        Tolerance of L-BFGS, as SciPy's `minimize` takes it; by default SciPy's own choice.
    verbose : bool, default=False
        Show progress on standard error.
    preprocessor : array-like or callable, optional
        Gives the points when `X` holds indicators of points.
    random_state : int, RandomState or None, default=None
        For "random" initialisation.
    n_jobs : int, optional
        Number of threads; results do not depend on it. By default all that the process may use.
    callbacks : iterable of callables, optional
        Each is called with a `metricfast.solvers.SolverState` after every iteration. One that
        returns True ends the training.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The learned map, in float32 for float32 points, else in float64.
    n_iter_ : int
        Number of iterations done.
    objective_ : float
        The negative of the mean log-likelihood at the learned map.
    loss_curve_ : list of float
        That value after each iteration.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if `X` has any.
    preprocessor_ : callable or None
        The preprocessor in use.

    Notes
    -----
    Where a linear map separates the classes, the likelihood grows with the length of L without end;
    `max_iter` and `tol` say where to stop. Standardised data are a good start.

    References
    ----------
    T. Mensink, J. Verbeek, F. Perronnin, G. Csurka, "Metric learning for large scale image
    classification: generalizing to new classes at near-zero cost", ECCV 2012.

    Examples
    --------
    >>> from metricfast import NCMML
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> NCMML(n_components=2, tol=1e-3).fit(X, y).transform(X).shape
    (150, 2)
    """

    def __init__(
        self,
        n_components: int | None = None,
        init: str | NDArray[Any] = "auto",
        max_iter: int = 100,
        tol: float | None = None,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: int | np.random.RandomState | None = None,
        *,
        n_jobs: int | None = None,
        callbacks: Iterable[Callable[[SolverState], object]] | None = None,
    ) -> None:
        self._take(locals())

    def _check_parameters(self) -> tuple[Callback, ...]:
        if self.tol is not None:
            check_range("tol", self.tol)
        return super()._check_parameters()

    def _objective(self, data: TrainingSet, L: NDArray[Any]) -> Objective:
        del L
        return _Likelihood(data, self.n_jobs)


class _Likelihood(Objective):
    """The negative mean log-likelihood of labels, as a function of the map.

    Distances enter through products of points with the few embedded means alone: what is common to
    all classes cancels in a softmax.
    """

    def __init__(self, data: TrainingSet, n_jobs: int | None) -> None:
        weights = repetitions(data.weight, data.X.shape[0])
        seen = weights > 0
        X = data.X if seen.all() else data.X[seen]
        labels = np.unique(data.labels[seen], return_inverse=True)[1].astype(np.int64)
        self._weights = weights[seen] / weights.sum()
        self._means = group_means(X, weights[seen], labels, int(labels.max()) + 1)
        coordinates = Coordinates(X.shape[1])
        super().__init__(X, LinearMap(), Labelled(losses.NCA(), labels), coordinates, n_jobs=n_jobs)

    def of_loss(
        self, arrays: list[NDArray[Any]], batch: Batch | None
    ) -> tuple[float, list[NDArray[Any]]]:
        (L,), rows = arrays, slice(None) if batch is None else batch.rows
        X, labels, weights = self.X[rows], self.loss.y[rows], self._weights[rows]
        embedded = self._means @ L.T
        own = np.arange(len(labels)), labels
        towards = embedded @ L
        if issparse(X):
            scores = np.asarray(X @ towards.T, np.float64)
        else:
            scores = map_points(X, towards, self.n_jobs).astype(np.float64)
        scores -= np.einsum("ij,ij->i", embedded, embedded) / 2
        log_p = log_softmax(scores, axis=1)
        value = -float(weights @ log_p[own])
        upstream = np.exp(log_p)
        upstream[own] -= 1
        upstream *= weights[:, None]
        sums = upstream.sum(axis=0)
        if issparse(X):
            cross = sparse_gradient(upstream, X)
        else:
            cross = get_kernels().linear_backward(
                upstream.astype(X.dtype), X, as_threads(self.n_jobs)
            )
        centred = cross - sums[:, None] * self._means
        return value, [embedded.T @ centred + (L @ cross.T) @ self._means]
