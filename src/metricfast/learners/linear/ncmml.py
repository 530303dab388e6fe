"""Nearest class mean metric learning."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.special import log_softmax

import metricfast.losses as losses
from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.memory import refuse_beyond
from metricfast._core.scatter import group_means, repetitions
from metricfast._core.sparse import sparse_gradient
from metricfast.learners.base.points import TrainingSet
from metricfast.learners.linear.base import LinearLearner
from metricfast.learners.linear.shared_docs import documented
from metricfast.samplers import Batch
from metricfast.training.chunks import rows_of
from metricfast.training.coordinates import Coordinates
from metricfast.training.labelled import Labelled, anchors_of
from metricfast.training.monitor import SolverState
from metricfast.training.objective import LinearMap, Objective, map_points

__all__ = ["NCMML"]

# Times that scores of all points for all classes are held.
_SCORES = 5


@documented
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
    %(n_components)s
    %(init)s
    max_iter : int, default=100
        Largest number of iterations.
    tol : float, optional
        Tolerance of L-BFGS, as SciPy's `minimize` takes it; by default SciPy's own choice.
    %(common)s
    solver : {"lbfgs", "sgd"}, default="lbfgs"
        "sgd" takes a step of Adam for every mini-batch, towards the means of all points. It first
        multiplies the initial map by the factor that makes the labels of a batch most likely.
    %(sgd)s
    %(jobs)s
    %(folds)s
    %(training)s

    Attributes
    ----------
    %(components)s
    objective_ : float
        The negative of the mean log-likelihood at the learned map.
    %(attributes)s

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

    _stoppings: tuple[str, ...] = ("folds", "auto")
    _fewest = False  # which is there for class means: neighbours are not to suffer

    def __init__(
        self,
        n_components: int | None = None,
        init: str | NDArray[Any] = "auto",
        max_iter: int = 100,
        tol: float | None = None,
        verbose: bool | int = False,
        preprocessor: Any = None,
        random_state: int | np.random.RandomState | None = None,
        *,
        solver: str = "lbfgs",
        batch_size: int | None = None,
        learning_rate: float = 0.01,
        max_epochs: int = 50,
        n_jobs: int | None = None,
        callbacks: Iterable[Callable[[SolverState], object]] | None = None,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        reservoir: int | None = None,
    ) -> None:
        self._take(locals())

    def _check_data(self, *args: Any, **kwargs: Any) -> TrainingSet:
        data = super()._check_data(*args, **kwargs)
        if self.solver == "lbfgs":
            n, n_classes = data.X.shape[0], len(data.classes)
            what = f"NCMML of {n} points in {n_classes} classes"
            refuse_beyond(8 * _SCORES * n * n_classes, what, "set solver='sgd'")
        return data

    def _objective(self, data: TrainingSet, L: NDArray[Any]) -> Objective:
        del L
        return _Likelihood(data, self.n_jobs)

    def _batches(
        self, data: TrainingSet, objective: Objective, rng: np.random.RandomState
    ) -> Callable[[], Iterable[Batch]]:
        seen = slice(None) if data.weight is None else data.weight > 0
        n_kept = int((np.arange(len(data.labels)) >= data.n_new)[seen].sum())
        data = replace(data, labels=objective.loss.y, n_kept=n_kept)
        return super()._batches(data, objective, rng)


class _Likelihood(Objective):
    """The negative mean log-likelihood of labels, as a function of the map.

    Distances enter through products of points with the few embedded means alone: what is common to
    all classes cancels in a softmax.
    """

    def __init__(self, data: TrainingSet, n_jobs: int | None) -> None:
        weights = repetitions(data.weight, data.X.shape[0])
        seen = weights > 0
        X = data.X if seen.all() else rows_of(data.X, np.flatnonzero(seen))
        labels = np.unique(data.labels[seen], return_inverse=True)[1].astype(np.int64)
        self._weights = weights[seen] / weights.sum()
        self._means = group_means(X, weights[seen], labels, int(labels.max()) + 1)
        coordinates = Coordinates(X.shape[1])
        super().__init__(
            X, LinearMap(), Labelled(losses.NCA(), labels), coordinates, database="all",
            n_jobs=n_jobs,
        )  # fmt: skip

    def of_loss(
        self, arrays: list[NDArray[Any]], batch: Batch | None, part: slice | None = None
    ) -> tuple[float, list[NDArray[Any]]]:
        (L,) = arrays
        rows: Any = part or slice(None)
        if batch is not None:
            rows = batch.rows[anchors_of(batch, part)]
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
