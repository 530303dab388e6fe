"""Metric learning for kernel regression."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import metricfast.losses as losses
from metricfast._core.scaling import rescale_targets
from metricfast._core.scatter import square_root
from metricfast._core.targets import check_regression_target
from metricfast.learners.base.points import TrainingSet
from metricfast.learners.linear.all_pairs import AllPairsLearner
from metricfast.learners.linear.shared_docs import documented
from metricfast.training.coordinates import Coordinates
from metricfast.training.monitor import SolverState

__all__ = ["MLKR"]


@documented
class MLKR(AllPairsLearner):
    r"""Metric learning for kernel regression.

    Learns a linear map L for the prediction of a number by the neighbours of a point, each as
    important as a Gaussian of its distance makes it:

    .. math::

        \min_L \sum_i w_i \left( \sum_{j \ne i} p_{ij} y_j - y_i \right)^2, \qquad
        p_{ij} = \frac{\exp(-\|L x_i - L x_j\|^2)}{\sum_{l \ne i} \exp(-\|L x_i - L x_l\|^2)}

    No matrix over pairs of points is held.

    Parameters
    ----------
    %(n_components)s
    init : {"auto", "pca", "identity", "random"} or ndarray, default="auto"
        The map to start from. "auto" is "pca" if ``n_components < min(n_features, n_samples)``,
        else "identity". An array has shape (n_components, n_features).
    %(tol)s
    max_iter : int, default=1000
        Largest number of iterations of "lbfgs".
    %(common)s
    solver : {"lbfgs", "sgd"}, default="lbfgs"
        "lbfgs" uses all pairs of points in every iteration. "sgd" is for many points: Adam on
        mini-batches in which the neighbours of a point are those of its batch. It first multiplies
        the initial map by the factor that predicts the targets of a batch best.
    %(sgd)s
    %(jobs)s
    %(folds)s
    %(training)s
    init_scale : "auto" or None, default=None
        %(init_scale)s

    Attributes
    ----------
    %(components)s
    objective_ : float
        The sum of squares above at the learned map; with "sgd" its estimate from the batches of the
        best epoch.
    %(attributes)s

    Notes
    -----
    The units of the targets do not matter: the solvers see them times the power of two that brings
    their standard deviation to between 1 and 2. Where the start spreads the points too widely or
    too narrowly, the predictions do not change with the map: `init_scale` sees to that. With None,
    or an array as `init`, standardized data are a good start. Where "lbfgs" cannot begin for that
    reason, ConvergenceWarning says so.

    %(units)s

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
        init_scale: str | None = None,
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
