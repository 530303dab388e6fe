"""Neighbourhood components analysis."""

from __future__ import annotations

import copy

import numpy as np

from metricfast import losses
from metricfast.learners.base.points import TrainingSet
from metricfast.learners.linear.all_pairs import AllPairsLearner
from metricfast.training.objective import Objective

__all__ = ["NCA"]


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
        Tolerance of "lbfgs", as SciPy's `minimize` takes it; by default 1e-6 for float32
        points, else SciPy's own choice.
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
        weight = np.ones(len(data.labels)) if data.weight is None else data.weight
        return -float(weight[np.bincount(data.labels)[data.labels] > 1].sum())
