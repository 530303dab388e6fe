"""Neighbourhood components analysis."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from metricfast import losses
from metricfast.learners._linear import (
    Coordinates,
    LinearLearner,
    LinearObjective,
    TrainingSet,
    best_scale,
    check_range,
)
from metricfast.solvers import (
    Monitor,
    SolverState,
    class_batches,
    minimize_minibatch,
    minimize_smooth,
)

__all__ = ["NCA"]

Run = Callable[[NDArray[np.float64], Monitor], None]


class NCA(LinearLearner):
    r"""Neighbourhood components analysis.

    Learns a linear map L for nearest neighbour classification by maximising the expected number of
    points that a neighbour drawn at random classifies correctly:

    .. math::

        \max_L \sum_i w_i \sum_{j \ne i,\, y_j = y_i} p_{ij}, \qquad
        p_{ij} = \frac{\exp(-\|L x_i - L x_j\|^2)}{\sum_{l \ne i} \exp(-\|L x_i - L x_l\|^2)}

    A point without another one of its class attracts nobody. No matrix over pairs of points is
    held.

    Parameters
    ----------
    init : {"auto", "pca", "lda", "identity", "random"} or ndarray, default="auto"
        The map to start from. "auto" is "lda" if
        ``n_components <= min(n_features, n_classes - 1)``, else "pca" if
        ``n_components < min(n_features, n_samples)``, else "identity". An array has shape
        (n_components, n_features).
    n_components : int, optional
        Number of rows of the map; by default those of `init` if it is an array, else n_features.
    max_iter : int, default=100
        Largest number of iterations of "lbfgs".
    tol : float, optional
        Tolerance of "lbfgs", as SciPy's `minimize` takes it; by default SciPy's own choice.
    verbose : bool, default=False
        Show progress on standard error.
    preprocessor : array-like or callable, optional
        Gives the points when `X` holds indicators of points.
    random_state : int, RandomState or None, default=None
        For "random" initialisation and for mini-batches.
    solver : {"lbfgs", "sgd"}, default="lbfgs"
        "lbfgs" uses all pairs of points in every iteration. "sgd" is for many points: Adam on
        mini-batches in which the neighbours of a point are those of its batch. It first multiplies
        the initial map by the factor that makes the labels of a batch most likely, since the
        softmax has no gradient where the scale of the data is too large or too small for it.
    batch_size : int, optional
        Points per mini-batch; by default a tenth of the points, but at least 100 and at most 1000.
    learning_rate : float, default=0.01
        First step of "sgd", relative to the root mean square of the initial map; it falls to zero
        along half a cosine.
    max_epochs : int, default=50
        Number of passes of "sgd" over the points.
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
    objective_ : float
        The negative of the sum above at the learned map; with "sgd" its estimate from the batches
        of the best epoch.
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
    The softmax of distances has no slope where `init` spreads the points too widely or too
    narrowly: standardized data are a good start. Where "lbfgs" cannot begin for that reason,
    ConvergenceWarning says so.

    Data whose largest standard deviation of a feature is below 2^-10 or above 2^10 are trained on
    times a power of two that makes it about 1, which `components_` undo; "identity", "pca" and
    "random" are then maps of the rescaled data. An array as `init` is always a map of the data as
    given; one that spreads them by more than 2^20 or less than 2^-20 is rescaled likewise, with a
    warning.

    An interrupted `fit` (Ctrl-C) raises KeyboardInterrupt and leaves the best map so far in
    `components_`. Where the iterations run out before convergence, ConvergenceWarning says so.

    References
    ----------
    J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov, "Neighbourhood components analysis",
    Advances in Neural Information Processing Systems 17 (2004).

    Examples
    --------
    >>> from metricfast import NCA
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> nca = NCA(n_components=2, max_iter=1000).fit(X, y)
    >>> nca.transform(X).shape
    (150, 2)
    """

    def __init__(
        self,
        init: str | NDArray[Any] = "auto",
        n_components: int | None = None,
        max_iter: int = 100,
        tol: float | None = None,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: int | np.random.RandomState | None = None,
        *,
        solver: str = "lbfgs",
        batch_size: int | None = None,
        learning_rate: float = 0.01,
        max_epochs: int = 50,
        n_jobs: int | None = None,
        callbacks: Iterable[Callable[[SolverState], object]] | None = None,
    ) -> None:
        super().__init__(preprocessor)
        self.init = init
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state
        self.solver = solver
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.n_jobs = n_jobs
        self.callbacks = callbacks

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        validate: bool = False,
    ) -> NCA:
        """Learn the map.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_samples,) with a preprocessor
            Points. float32 is computed with as it is, everything else as float64.
        y : array-like of shape (n_samples,)
            Class labels, of at least two classes.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights, of a point as anchor and as neighbour: with "lbfgs" whole numbers
            mean the same as repeated points.
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
        if self.tol is not None:
            check_range("tol", self.tol)
        data = self._check_data(X, y, sample_weight)
        rng = check_random_state(self.random_state)
        L = self._initialize(data, rng)
        coordinates = Coordinates(data.X.shape[1])
        if self.solver == "lbfgs":
            total, run = self.max_iter, self._of_all_pairs(data, coordinates)
        else:
            total, run = self.max_epochs, self._of_batches(data, coordinates, rng)
        self._minimize(data, coordinates, L, total, run, callbacks)
        if self.n_iter_ == 0 and self.objective_ > 0.999 * _lowest(data):
            warnings.warn(
                "The objective has no slope at the initial map, so nothing was learned. If that "
                "map is not a minimum already, rescale the points (StandardScaler), choose another "
                "`init` or solver='sgd', or lower `tol`.",
                ConvergenceWarning,
                stacklevel=2,
            )
        if validate:
            self._validate_fit(X, y, sample_weight=sample_weight)
        return self

    def _of_all_pairs(self, data: TrainingSet, coordinates: Coordinates) -> Run:
        loss = partial(losses.NCA(), y=data.labels, sample_weight=data.weight, n_jobs=self.n_jobs)
        objective = LinearObjective(data.X, loss, coordinates, self.n_jobs)

        def run(x0: NDArray[np.float64], monitor: Monitor) -> None:
            minimize_smooth(objective, x0, monitor, max_iter=self.max_iter, tol=self.tol)

        return run

    def _of_batches(
        self, data: TrainingSet, coordinates: Coordinates, rng: np.random.RandomState
    ) -> Run:

        def of_batch(rows: NDArray[np.int64], form: str = "sum") -> LinearObjective:
            weight = None if data.weight is None else data.weight[rows]
            loss = partial(
                losses.NCA(form), y=data.labels[rows], sample_weight=weight, n_jobs=self.n_jobs
            )
            return LinearObjective(data.X[rows], loss, coordinates, self.n_jobs)

        size = self._batch_size(len(data.X))
        batches = partial(class_batches, data.labels, size, rng)
        likelihood = of_batch(batches()[0], "log")

        def run(x0: NDArray[np.float64], monitor: Monitor) -> None:
            minimize_minibatch(
                lambda x, rows: of_batch(rows)(x),
                x0 * best_scale(lambda scale: likelihood(scale * x0)[0]),
                batches,
                monitor,
                max_epochs=self.max_epochs,
                learning_rate=self.learning_rate,
            )

        return run


def _lowest(data: TrainingSet) -> float:
    """Return the objective where every point with company of its class attracts no other."""
    weight = np.ones(len(data.X)) if data.weight is None else data.weight
    return -float(weight[np.bincount(data.labels)[data.labels] > 1].sum())
