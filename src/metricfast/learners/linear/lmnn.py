"""Large margin nearest neighbours."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from metricfast import losses
from metricfast._core.arguments import check_count, check_random_state, check_range
from metricfast._core.batches import class_batches
from metricfast._core.sparse import dense, nearest_of_class
from metricfast.learners.linear.base import (
    FULL_BASIS,
    Coordinates,
    LinearLearner,
    TrainingSet,
    best_scale,
    embed,
)
from metricfast.learners.linear.lmnn_problem import MARGIN, LMNNProblem
from metricfast.training.solvers import (
    Monitor,
    SolverState,
    minimize_hinge,
    minimize_minibatch,
)

__all__ = ["LMNN"]

# Mean squared distance to targets, in margins, below which classes have collapsed.
_COLLAPSED = 0.05


class LMNN(LinearLearner):
    r"""Large margin nearest neighbours.

    Learns a linear map L under which each point is near its k target neighbours, and points of
    other classes are farther away than those, by a margin. With
    :math:`D_{ij} = \|L x_i - L x_j\|^2`, the targets :math:`T_i` and the regularization r it
    minimises

    .. math::

        r \sum_i w_i \sum_{t \in T_i} D_{it}
        + (1 - r) \sum_i w_i \sum_{t \in T_i} \sum_{l: y_l \ne y_i} [1 + D_{it} - D_{il}]_+

    The targets of a point are its nearest neighbours of the same class in the space of the input.

    Parameters
    ----------
    init : {"auto", "pca", "lda", "identity", "random"} or ndarray, default="auto"
        The map to start from. "auto" is "lda" if
        ``n_components <= min(n_features, n_classes - 1)``, else "pca" if
        ``n_components < min(n_features, n_samples)``, else "identity". An array has shape
        (n_components, n_features).
    n_neighbors : int, default=3
        Number k of targets of each point. Every class needs more members than that.
    min_iter, max_iter : int, default=50 and 1000
        Least and largest number of iterations of "lbfgs". It ends before the least one only where
        the objective cannot be lowered further.
    learn_rate : float, default=1e-7
        Accepted for compatibility; it belonged to a gradient descent that L-BFGS replaces.
    regularization : float, default=0.5
        Weight r of the pull of the targets, in [0, 1].
    convergence_tol : float, default=0.001
        "lbfgs" stops when an iteration lowers the objective by less than this share of it (on
        average over five iterations).
    verbose : bool, default=False
        Show progress on standard error.
    preprocessor : array-like or callable, optional
        Gives the points when `X` holds indicators of points.
    n_components : int, optional
        Number of rows of the map; by default those of `init` if it is an array, else n_features.
    random_state : int, RandomState or None, default=None
        For "random" initialisation and for mini-batches.
    k : int
        Deprecated name of `n_neighbors`.
    solver : {"lbfgs", "sgd"}, default="lbfgs"
        "lbfgs" looks at all impostors in every iteration, among lists that a full search renews
        when a bound on the movement of the points no longer proves them complete. "sgd" is for
        very many points: Adam on mini-batches of anchors. A batch holds the anchors and their
        targets; its points of other classes stand for all others, so the push is multiplied by the
        number of points over that of the batch. It first multiplies the initial map by the factor
        that makes the objective of a batch lowest.
    batch_size : int, optional
        Anchors per mini-batch; by default a tenth of the points, but at least 100 and at most 1000.
    learning_rate : float, default=0.01
        First step of "sgd", relative to the root mean square of the initial map; it falls to zero
        along half a cosine.
    max_epochs : int, default=50
        Number of passes of "sgd" over the anchors.
    target_refresh : int, default=0
        How often to find the targets again, under the map learned so far, and go on from there.
        Each time `max_iter` and `max_epochs` count anew.
    n_jobs : int, optional
        Number of threads; results do not depend on it. By default all that the process may use.
    callbacks : iterable of callables, optional
        Each is called with a `metricfast.solvers.SolverState` after every iteration (with "sgd":
        every epoch). One that returns True ends the training.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The learned map, in float32 for float32 points, else in float64.
    n_iter_ : int
        Number of iterations, or epochs, done.
    labels_ : ndarray of shape (n_classes,)
        The numbers from 0 that stand for the sorted classes.
    objective_ : float
        The objective at the learned map; with "sgd" its estimate from the batches of the best
        epoch.
    loss_curve_ : list of float
        That value after each iteration or epoch.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if `X` has any.
    preprocessor_ : callable or None
        The preprocessor in use.

    Notes
    -----
    The margin is 1 in units of squared distance, and the map learns its own scale, so that of the
    data matters little. The solvers move ``L K``, with :math:`K K^\top` the scatter of the
    differences between points and targets (its diagonal alone above 2000 features) and a little of
    the identity: the pull then has about the same curvature in all directions, which saves most of
    the iterations.

    Data whose largest standard deviation of a feature is below 2^-10 or above 2^10 are trained on
    times a power of two that makes it about 1, which `components_` undo; "identity", "pca" and
    "random" are then maps of the rescaled data. An array as `init` is always a map of the data as
    given; one that spreads them by more than 2^20 or less than 2^-20 is rescaled likewise, with a
    warning.

    An interrupted `fit` (Ctrl-C) raises KeyboardInterrupt and leaves the best map so far in
    `components_`. Where the iterations run out before convergence, ConvergenceWarning says so.

    Where points are hardly more than features, a map can satisfy every margin and bring the points
    of a class together in one place, and other points gain nothing: a warning says so. Principal
    components, a tenth as many as points, are a good start then.

    References
    ----------
    K. Q. Weinberger, L. K. Saul, "Distance metric learning for large margin nearest neighbor
    classification", Journal of Machine Learning Research 10 (2009), 207-244.

    Examples
    --------
    >>> from metricfast import LMNN
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> lmnn = LMNN(n_neighbors=5).fit(X, y)
    >>> lmnn.transform(X).shape
    (150, 4)
    """

    _accept_sparse = "csr"

    def __init__(
        self,
        init: str | NDArray[Any] = "auto",
        n_neighbors: int = 3,
        min_iter: int = 50,
        max_iter: int = 1000,
        learn_rate: float = 1e-7,
        regularization: float = 0.5,
        convergence_tol: float = 0.001,
        verbose: bool = False,
        preprocessor: Any = None,
        n_components: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        k: int | str = "deprecated",
        *,
        solver: str = "lbfgs",
        batch_size: int | None = None,
        learning_rate: float = 0.01,
        max_epochs: int = 50,
        target_refresh: int = 0,
        n_jobs: int | None = None,
        callbacks: Iterable[Callable[[SolverState], object]] | None = None,
    ) -> None:
        self._take(locals())

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        validate: bool = False,
    ) -> LMNN:
        """Learn the map.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or (n_samples,) with a \
                preprocessor
            Points. float32 is computed with as it is, everything else as float64.
        y : array-like of shape (n_samples,)
            Class labels, of at least two classes, each of more than `n_neighbors` points.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of the points as anchors i. As targets and impostors all points
            count alike, so a weight of 2 is not the same as a repeated point.
        validate : bool, default=False
            Also fit a clone to four fifths of the points, compare the errors of 3 nearest
            neighbours in the learned and in the Euclidean distance on the others, keep the numbers
            in `validation_`, and warn if the learned one is worse.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used.
        """
        callbacks = self._check_parameters()
        k = self._current("n_neighbors")
        check_count("n_neighbors", k)
        check_count("min_iter", self.min_iter, least=0)
        check_count("target_refresh", self.target_refresh, least=0)
        check_range("regularization", self.regularization, high=1.0)
        check_range("convergence_tol", self.convergence_tol)
        data = self._check_data(X, y, sample_weight)
        _check_class_sizes(data, k)
        self.labels_ = np.arange(len(data.classes))
        rng = check_random_state(self.random_state)
        L = self._initialize(data, rng)
        find = nearest_of_class if issparse(data.X) else losses.LMNN.find_targets
        targets = find(data.X, data.labels, k, n_jobs=self.n_jobs)
        coordinates = Coordinates(data.X.shape[1], _target_scatter(data.X, targets))
        problem = LMNNProblem(data, targets, self.regularization, coordinates, self.n_jobs)
        solve = self._solve_listed if self.solver == "lbfgs" else partial(self._solve_batches, rng)

        def run(x0: NDArray[np.float64], monitor: Monitor) -> None:
            solve(problem, x0, monitor)
            for _ in range(self.target_refresh):
                if monitor.stopped:
                    break
                x = monitor.best_x
                Z = embed(data.X, coordinates.components(x), self.n_jobs)
                targets = losses.LMNN.find_targets(Z, data.labels, k, n_jobs=self.n_jobs)
                monitor.restart(x)
                solve(replace(problem, targets=targets), x, monitor)

        passes = 1 + self.target_refresh
        total = passes * (self.max_iter if self.solver == "lbfgs" else self.max_epochs)
        self._minimize(data, coordinates, L, total, run, callbacks)
        self._warn_if_collapsed(data, k)
        if validate:
            self._validate_fit(X, y, sample_weight=sample_weight)
        return self

    def _warn_if_collapsed(self, data: TrainingSet, k: int) -> None:
        n_samples, n_features = data.X.shape
        weight = n_samples if data.weight is None else float(data.weight.sum())
        if n_samples > 2 * n_features or (
            self.objective_ > _COLLAPSED * MARGIN * self.regularization * k * weight
        ):
            return
        warnings.warn(
            f"The map fits {n_samples} points of {n_features} features so closely that their "
            "classes have collapsed, which seldom helps other points: reduce the features first, "
            f"for example by PCA(n_components={max(1, n_samples // 10)}), and measure with "
            "fit(..., validate=True).",
            stacklevel=3,
        )

    def _solve_listed(
        self, problem: LMNNProblem, x0: NDArray[np.float64], monitor: Monitor
    ) -> None:
        minimize_hinge(
            problem.of_all(),
            x0,
            monitor,
            min_iter=self.min_iter,
            max_iter=self.max_iter,
            tol=self.convergence_tol,
        )

    def _solve_batches(
        self,
        rng: np.random.RandomState,
        problem: LMNNProblem,
        x0: NDArray[np.float64],
        monitor: Monitor,
    ) -> None:
        labels = problem.data.labels
        batches = partial(class_batches, labels, self._batch_size(len(labels)), rng)
        first = problem.of_anchors(batches()[0])
        minimize_minibatch(
            lambda x, anchors: problem.of_anchors(anchors)(x),
            x0 * best_scale(lambda scale: first(scale * x0)[0]),
            batches,
            monitor,
            max_epochs=self.max_epochs,
            learning_rate=self.learning_rate,
        )


def _check_class_sizes(data: TrainingSet, k: int) -> None:
    sizes = np.bincount(data.labels)
    smallest = int(sizes.argmin())
    if sizes[smallest] <= k:
        n_samples, n_features = data.X.shape
        raise ValueError(
            f"not enough class labels for specified k (smallest class has {sizes[smallest]}): "
            f"class {data.classes[smallest]} needs more than n_neighbors={k} members "
            f"({n_samples=}, {n_features=}). Lower n_neighbors, or leave the class out."
        )


def _target_scatter(X: Any, targets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sum the outer products of points less their targets, or the diagonals of the products."""
    wide = X.shape[1] > FULL_BASIS
    scatter = np.zeros(X.shape[1] if wide else (X.shape[1], X.shape[1]))
    for column in targets.T:
        difference = X - X[column]
        if wide:
            scatter += (difference * difference).sum(axis=0, dtype=np.float64)
        else:
            scatter += dense(difference.T @ difference)
    return scatter
