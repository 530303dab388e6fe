"""Neighbourhood components analysis."""

from __future__ import annotations

import copy

import numpy as np

import metricfast.losses as losses
from metricfast.learners.base.points import TrainingSet
from metricfast.learners.linear.all_pairs import AllPairsLearner
from metricfast.learners.linear.shared_docs import documented
from metricfast.training.objective import Objective

__all__ = ["NCA"]


@documented
class NCA(AllPairsLearner):
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
    %(init)s
    %(n_components)s
    max_iter : int, default=100
        Largest number of iterations of "lbfgs".
    %(tol)s
    %(common)s
    solver : {"lbfgs", "sgd"}, default="lbfgs"
        "lbfgs" uses all pairs of points in every iteration. "sgd" is for many points: Adam on
        mini-batches in which the neighbours of a point are those of its batch. It first multiplies
        the initial map by the factor that makes the labels of a batch most likely, since the
        softmax has no gradient where the scale of the data is too large or too small for it.
    %(sgd)s
    %(jobs)s
    %(folds)s
    %(training)s
    init_scale : "auto" or None, default="auto"
        %(init_scale)s

    Attributes
    ----------
    %(components)s
    objective_ : float
        The negative of the sum above at the learned map; with "sgd" its estimate from the batches
        of the best epoch.
    %(attributes)s

    Notes
    -----
    The softmax of distances has no slope where the start spreads the points too widely or too
    narrowly, and where it is nearly uniform, few directions are found: `init_scale` sees to that.
    With None, or an array as `init`, standardized data are a good start. Where "lbfgs" cannot
    begin, ConvergenceWarning says so.

    %(units)s

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

    def _loss(self) -> losses.NCA:
        return losses.NCA()

    def _scale_objective(self, objective: Objective) -> Objective:
        found, loss = copy.copy(objective), copy.copy(objective.loss)
        loss.bound = copy.copy(loss.bound)
        loss.loss = loss.bound.loss = losses.NCA("log")
        found.loss = loss
        return found

    def _lowest(self, data: TrainingSet) -> float:
        """Return the objective where every point with company of its class attracts no other."""
        of_classes = np.bincount(data.labels, data.weight)
        return -float(of_classes[of_classes > 1].sum())
