"""Maximally collapsing metric learning."""

from __future__ import annotations

from dataclasses import dataclass

import metricfast.losses as losses
from metricfast._core.parameters import positional
from metricfast.learners.linear import AllPairsLearner
from metricfast.training.preconditioner import class_preconditioner
from metricfast.training.problem import Problem
from metricfast.training.samples import Samples


@positional("init n_components max_iter tol verbose preprocessor random_state")
@dataclass(eq=False, repr=False)
class MCML(AllPairsLearner):
    r"""Maximally collapsing metric learning.

    Learns a linear map L that brings each point near all points of its class and far from all
    others. With :math:`q_{ij} = 1 / m_i` for the :math:`m_i` other points of the class of i it
    minimises

    .. math::

        \sum_i w_i \sum_j q_{ij} \log \frac{q_{ij}}{p_{ij}}, \qquad
        p_{ij} = \frac{\exp(-\|L x_i - L x_j\|^2)}{\sum_{l \ne i} \exp(-\|L x_i - L x_l\|^2)}

    This is convex in :math:`M = L^\top L`: with all components the initial map does not matter.
    Points that are alone in their class are left out of the sum over i. Memory grows with points,
    not with pairs of points.

    Parameters
    ----------
    max_iter : int, default=100
        Largest number of iterations of "lbfgs".
    init, n_components, tol, verbose, preprocessor, random_state, solver
        See `NCA`.
    judge, early_stopping, init_scale, warm_start, callbacks, n_jobs
        See `NCA`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The learned map.
    objective_ : float
        The sum above at the learned map. With mini-batches, its estimate in the best epoch.
    n_iter_, loss_curve_, validation_scores_
        See `NCA`.
    n_features_in_, feature_names_in_, preprocessor_
        See `NCA`.

    Notes
    -----
    Whole classes are to collapse: use MCML for classes that are single clusters and for few
    components, `NCA` for others. The solvers move ``L K``, with :math:`K K^\top` the scatter
    within classes (its diagonal for more than 2000 features of as many points) and a little of
    the identity.

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

    def _problem(self, data: Samples) -> Problem:
        data = data.in_span
        preconditioner = class_preconditioner(data)
        return Problem(data, losses.MCML(), preconditioner=preconditioner, n_jobs=self.n_jobs)
