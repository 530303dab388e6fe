"""Maximally collapsing metric learning."""

from __future__ import annotations

import metricfast.losses as losses
from metricfast.learners.base.points import TrainingSet
from metricfast.learners.linear.all_pairs import AllPairsLearner
from metricfast.learners.linear.shared_docs import documented
from metricfast.training.coordinates import Coordinates

__all__ = ["MCML"]


@documented
class MCML(AllPairsLearner):
    r"""Maximally collapsing metric learning.

    Learns a linear map L that brings each point near all points of its class and far from all
    others. With :math:`q_{ij} = 1 / m_i` for the :math:`m_i` other points of the class of i it
    minimises

    .. math::

        \sum_i w_i \sum_j q_{ij} \log \frac{q_{ij}}{p_{ij}}, \qquad
        p_{ij} = \frac{\exp(-\|L x_i - L x_j\|^2)}{\sum_{l \ne i} \exp(-\|L x_i - L x_l\|^2)}

    This is convex in :math:`M = L^\top L`, so that with all components the start does not matter:
    a minimum is the minimum. A point without another one of its class has no part in the sum as i.
    No matrix over pairs of points is held.

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
        the initial map by the factor that makes the objective of a batch lowest.
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
        The sum above at the learned map; with "sgd" its estimate from the batches
        of the best epoch.
    %(attributes)s

    Notes
    -----
    Since whole classes are to collapse, this serves classes that are single clusters, and few
    components; for others see `NCA`, which asks a point for some near neighbours only. The solvers
    move ``L K``, with :math:`K K^\top` the scatter within classes (its diagonal alone above 2000
    features) and a little of the identity.

    %(units)s

    References
    ----------
    A. Globerson, S. Roweis, "Metric learning by collapsing classes", Advances in Neural Information
    Processing Systems 18 (2005), 451-458.

    Examples
    --------
    >>> from metricfast import MCML
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> mcml = MCML(n_components=2, max_iter=1000).fit(X, y)
    >>> mcml.transform(X).shape
    (150, 2)
    """

    def _loss(self) -> losses.MCML:
        return losses.MCML()

    def _coordinates(self, data: TrainingSet) -> Coordinates:
        return Coordinates(data.X.shape[1], self._within_scatter(data))
