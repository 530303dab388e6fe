"""Metric learning for kernel regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import metricfast.losses as losses
from metricfast._core.parameters import PositiveInt, positional
from metricfast.learners.linear import AllPairsLearner
from metricfast.training.preconditioner import class_preconditioner
from metricfast.training.problem import Problem
from metricfast.training.samples import Samples, as_targets


@positional("n_components init tol max_iter verbose preprocessor random_state")
@dataclass(eq=False, repr=False)
class MLKR(AllPairsLearner):
    r"""Metric learning for kernel regression.

    Learns a linear map L for the prediction of a number by the neighbours of a point. The weight of
    a neighbour is a Gaussian of its distance:

    .. math::

        \min_L \sum_i w_i \left( \sum_{j \ne i} p_{ij} y_j - y_i \right)^2, \qquad
        p_{ij} = \frac{\exp(-\|L x_i - L x_j\|^2)}{\sum_{l \ne i} \exp(-\|L x_i - L x_l\|^2)}

    Memory grows with points, not with pairs of points.

    Parameters
    ----------
    init : {"auto", "pca", "identity", "random"} or ndarray, default="auto"
        The initial map. "auto" is "pca" if ``n_components < min(n_features, n_samples)``, else
        "identity". An array has shape (n_components, n_features).
    max_iter : int, default=1000
        Largest number of iterations of "lbfgs".
    init_scale : "auto" or None, default=None
        See `NCA`.
    n_components, tol, verbose, preprocessor, random_state, solver
        See `NCA`.
    judge, early_stopping, warm_start, callbacks, n_jobs
        See `NCA`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The learned map.
    objective_ : float
        The sum of squares above at the learned map. With mini-batches, its estimate in the best
        epoch.
    n_iter_, loss_curve_
        See `NCA`.
    validation_scores_ : list of float
        With held-out points, the negative mean squared error of their 3 nearest neighbours.
    n_features_in_, feature_names_in_, preprocessor_
        See `NCA`.

    Notes
    -----
    The units of the targets do not matter: they are multiplied by the power of two that brings
    their standard deviation to between 1 and 2.

    The predictions do not change with the map where it spreads the points too widely or too
    narrowly. Standardize the data, or set ``init_scale="auto"``. You get a ConvergenceWarning if
    "lbfgs" finds no slope.

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

    max_iter: PositiveInt = 1000
    init_scale: Literal["auto"] | None = None

    _has_classes = False
    _target = staticmethod(as_targets)

    def _problem(self, data: Samples) -> Problem:
        data, preconditioner = data.in_span, None
        if not self._solver().by_batches:
            preconditioner = class_preconditioner(data, root=True)
        return Problem(data, losses.MLKR(), preconditioner=preconditioner, n_jobs=self.n_jobs)
