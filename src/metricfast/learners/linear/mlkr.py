"""Metric learning for kernel regression."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricfast import losses
from metricfast._core.scaling import rescale_targets
from metricfast._core.scatter import square_root
from metricfast._core.targets import check_regression_target
from metricfast.learners.base.points import TrainingSet
from metricfast.learners.linear.all_pairs import AllPairsLearner
from metricfast.training.coordinates import Coordinates
from metricfast.training.monitor import SolverState

__all__ = ["MLKR"]


class MLKR(AllPairsLearner):
    r"""Metric learning for kernel regression.

    Learns a linear map L for the prediction of a number by the neighbours of a point, each as
    important as a Gaussian of its distance makes it:

    .. math::

        \min_L \sum_i w_i \Bigl( \sum_{j \ne i} p_{ij} y_j - y_i \Bigr)^2, \qquad
        p_{ij} = \frac{\exp(-\|L x_i - L x_j\|^2)}{\sum_{l \ne i} \exp(-\|L x_i - L x_l\|^2)}

    No matrix over pairs of points is held.

    Parameters
    ----------
    n_components : int, optional
        Number of rows of the map; by default those of `init` if it is an array, else n_features.
    init : {"auto", "pca", "identity", "random"} or ndarray, default="auto"
        The map to start from. "auto" is "pca" if ``n_components < min(n_features, n_samples)``,
        else "identity". An array has shape (n_components, n_features).
    tol : float, optional
        Tolerance of "lbfgs", as SciPy's `minimize` takes it; by default 1e-6 for float32
        points, else SciPy's own choice.
    max_iter : int, default=1000
        Largest number of iterations of "lbfgs".
    verbose : bool, default=False
        Show progress on standard error.
    preprocessor : array-like or callable, optional
        Gives the points when `X` holds indicators of points.
    random_state : int, RandomState or None, default=None
        For "random" initialisation and for mini-batches.
    solver : {"lbfgs", "sgd"}, default="lbfgs"
        "lbfgs" uses all pairs of points in every iteration. "sgd" is for many points: Adam on
        mini-batches in which the neighbours of a point are those of its batch. It first multiplies
        the initial map by the factor that predicts the targets of a batch best.
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
        The sum of squares above at the learned map; with "sgd" its estimate from the batches of the
        best epoch.
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
    The units of the targets do not matter: the solvers see them times the power of two that brings
    their standard deviation to between 1 and 2. Those of the points do, through the start: where
    `init` spreads them too widely or too narrowly, the predictions do not change with the map.
    Standardized data are a good start. Where "lbfgs" cannot begin for that reason,
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
    K. Q. Weinberger, G. Tesauro, "Metric learning for kernel regression", International Conference
    on Artificial Intelligence and Statistics (2007), 612-619.

    Examples
    --------
    >>> from metricfast import MLKR
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_diabetes(return_X_y=True)
    >>> mlkr = MLKR(n_components=2).fit(scale(X), y)
    >>> mlkr.transform(scale(X)).shape
    (442, 2)
    """

    _has_classes = False

    def __init__(
        self,
        n_components: int | None = None,
        init: str | NDArray[Any] = "auto",
        tol: float | None = None,
        max_iter: int = 1000,
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
        self._take(locals())

    def _check_target(self, y: Any) -> tuple[NDArray[Any], NDArray[Any], float]:
        targets, exponent = rescale_targets(check_regression_target(y))
        return np.empty(0), targets, math.ldexp(1.0, 2 * exponent)

    def _coordinates(self, data: TrainingSet) -> Coordinates:
        if self.solver == "sgd":
            return super()._coordinates(data)
        return Coordinates(data.X.shape[1], square_root(self._within_scatter(data)))

    def _loss(self) -> losses.MLKR:
        return losses.MLKR()
