"""Neighbourhood components analysis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import metricfast.losses as losses
from metricfast._core.parameters import positional
from metricfast.learners.linear import AllPairsLearner
from metricfast.training.problem import Problem
from metricfast.training.samples import Samples


@positional("init n_components max_iter tol verbose preprocessor random_state")
@dataclass(eq=False, repr=False)
class NCA(AllPairsLearner):
    r"""Neighbourhood components analysis.

    Learns a linear map L for nearest neighbour classification by maximising the expected number of
    points that a neighbour drawn at random classifies correctly:

    .. math::

        \max_L \sum_i w_i \sum_{j \ne i,\, y_j = y_i} p_{ij}, \qquad
        p_{ij} = \frac{\exp(-\|L x_i - L x_j\|^2)}{\sum_{l \ne i} \exp(-\|L x_i - L x_l\|^2)}

    A point without another one of its class attracts nobody. Memory grows with points, not with
    pairs of points.

    Parameters
    ----------
    init : {"auto", "pca", "lda", "identity", "random"} or ndarray, default="auto"
        The initial map. "auto" is "lda" if
        ``n_components <= min(n_features, n_classes - 1)``, else "pca" if
        ``n_components < min(n_features, n_samples)``, else "identity". An array has shape
        (n_components, n_features).
    n_components : int, optional
        Number of rows of the map; by default the rows of `init` if it is an array, else n_features.
    max_iter : int, default=100
        Largest number of iterations of "lbfgs".
    tol : float, optional
        Tolerance of "lbfgs", as for :func:`scipy.optimize.minimize`; by default 1e-6 for float32
        points, else SciPy's own.
    verbose : bool or int, default=False
        Show progress on standard error.
    preprocessor : array-like or callable, optional
        Returns the points where `X` holds indicators of points.
    random_state : int, RandomState or None, default=None
        For a random `init`, validation points and mini-batches.
    solver : {"lbfgs", "adam"} or solver, default="lbfgs"
        "lbfgs" looks at all pairs of points in every iteration. "adam" is for many points: the
        neighbours of a point are in its mini-batch. `metricfast.solvers` has the solvers
        with their parameters, such as ``Adam(batch_size=500, max_epochs=20)``.
    judge : "auto", None or Judge, default="auto"
        Chooses the initial map and the number of iterations of "lbfgs" by held-out points, see
        :class:`~metricfast.selection.Judge`, if the points are in memory. With None, the learner
        trains to the end, as metric-learn does.
    early_stopping : bool or HeldOut, default=False
        True, or a `metricfast.stopping.HeldOut`: hold a tenth of the points out, and stop when
        their error no longer falls. Then there is no judge.
    init_scale : "auto" or None, default="auto"
        "auto" multiplies a map that `init` names by the factor under which the loss of up to 500
        points is lowest, and compares "identity" with a map of standardized features. None starts
        from the map itself, as metric-learn does, and an array is never rescaled. Mini-batches
        always start at the scale that is best for the first batch.
    warm_start : bool, default=False
        Start from the map of the last `fit`.
    callbacks : iterable of callables, optional
        Each is called with a `metricfast.callbacks.SolverState` after every iteration or epoch. One
        that returns True ends the training. `metricfast.callbacks.Checkpoint` writes the training
        to a file, and continues from it.
    n_jobs : int, optional
        Number of threads; results do not depend on it. By default all that the process may use.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The learned map, in float32 for float32 points, else in float64.
    objective_ : float
        The negative of the sum above at the learned map. With mini-batches, its estimate in the
        best epoch.
    n_iter_ : int
        Number of iterations or epochs. It is also 1 if nothing was trained, because the judge chose
        0 iterations or the first one found nothing to change. Callbacks are then not called, and
        `loss_curve_` holds the objective of the initial map.
    loss_curve_ : list of float
        The objective after each iteration or epoch.
    validation_scores_ : list of float
        With held-out points, their share that is classified correctly after each iteration.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, if `X` has any.
    preprocessor_ : callable or None
        The preprocessor in use.

    Notes
    -----
    The softmax of distances has no slope where the initial map spreads the points too widely or too
    narrowly; `init_scale` avoids that. With None, or an array as `init`, standardize the data.
    You get a ConvergenceWarning if "lbfgs" finds no slope.

    Data whose largest standard deviation of a feature is below 2^-10 or above 2^10 are multiplied
    by a power of two, which `components_` undo.

    An interrupted `fit` (Ctrl-C) raises KeyboardInterrupt and leaves the best map so far in
    `components_`.

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

    def _problem(self, data: Samples) -> Problem:
        # Lower bound of the objective: every point with others in its class is classified
        # correctly.
        sizes = np.bincount(data.labels, data.weight)
        return Problem(
            data.in_span, losses.NCA(), scale_loss=losses.NCA("log"), n_jobs=self.n_jobs,
            lower_bound=-float(sizes[sizes > 1].sum()),
        )  # fmt: skip
