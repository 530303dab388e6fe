"""Large margin nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, ClassVar

import numpy as np

from metricfast._core.parameters import (
    DEPRECATED,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    Share,
    positional,
)
from metricfast._core.points import dense
from metricfast._core.scatter import blocks
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.warn import warn_user
from metricfast.learners.impostors import MARGIN, TargetsAndImpostors
from metricfast.learners.linear import LinearLearner
from metricfast.learners.lmnn_targets import find_targets
from metricfast.selection._judge import JudgeParameter
from metricfast.training.history import History, Vector
from metricfast.training.objective import Objective
from metricfast.training.preconditioner import FULL_BASIS, Preconditioner
from metricfast.training.problem import Problem, Traits
from metricfast.training.samples import Samples, as_classes
from metricfast.training.solvers import LBFGS, Solver
from metricfast.training.train import warn_of_cost

# The number of targets by default.
_MOST_TARGETS = 3


@positional(
    "init n_neighbors min_iter max_iter learn_rate regularization convergence_tol verbose "
    "preprocessor n_components random_state k"
)
@dataclass(eq=False, repr=False)
class LMNN(LinearLearner):
    r"""Large margin nearest neighbours.

    Learns a linear map L under which each point is near its k target neighbours, and points of
    other classes are farther away than those, by a margin. With
    :math:`D_{ij} = \|L x_i - L x_j\|^2`, the targets :math:`T_i` and the regularization r it
    minimises

    .. math::

        r \sum_i w_i \sum_{t \in T_i} D_{it}
        + (1 - r) \sum_i w_i \sum_{t \in T_i} \sum_{l: y_l \ne y_i} [1 + D_{it} - D_{il}]_+

    The targets of a point are its nearest neighbours of the same class: at first in the space of
    the input, or under the initial map that the judge chose, later under the present map. So
    the objective falls over the map and over the targets.

    Parameters
    ----------
    init : {"auto", "pca", "lda", "identity", "random"} or ndarray, default="auto"
        See `NCA`.
    n_neighbors : int, optional
        Number k of targets of each point. Every class needs more members than that. By default 3;
        if the smallest class has only 3 or 2 points, one less than these, with a warning.
    min_iter, max_iter : int, default=50 and 1000
        Least and largest number of iterations of "lbfgs". It ends before the least one only where
        the objective cannot be lowered further, or where the judge has chosen fewer.
    learn_rate : float, default=1e-7
        Accepted for compatibility; it belonged to a gradient descent that L-BFGS replaces.
    regularization : float, default=0.5
        Weight r of the pull of the targets, in [0, 1].
    convergence_tol : float, default=0.001
        "lbfgs" stops when an iteration lowers the objective by less than this share of it, on
        average over five iterations.
    k : int
        Deprecated name of `n_neighbors`.
    solver : {"lbfgs", "adam"} or solver, default="lbfgs"
        "lbfgs" looks at all impostors in every iteration. It keeps lists of impostors. A full
        search renews them when the points have moved so far that a list may be incomplete.
        "adam" is for very many points. A mini-batch holds anchors and their targets; its points of
        other classes stand for all others.
    target_refresh : int, default=10
        Iterations, or epochs of mini-batches, between two searches for the targets, each under the
        present map. "lbfgs" also searches where it converges. 0: the targets of the initial map
        stay, as in the paper and in metric-learn.
    verbose, preprocessor, n_components, random_state
        See `NCA`.
    judge, early_stopping, warm_start, callbacks, n_jobs
        See `NCA`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The learned map.
    labels_ : ndarray of shape (n_classes,)
        The numbers from 0 that stand for the sorted classes.
    objective_ : float
        The objective at the learned map. With mini-batches, its estimate in the best epoch.
    n_iter_, loss_curve_, validation_scores_
        See `NCA`.
    n_features_in_, feature_names_in_, preprocessor_
        See `NCA`.

    Notes
    -----
    The margin is 1 in units of squared distance, and the map learns its own scale, so the scale of
    the data matters little. The solvers move ``L K``, with :math:`K K^\top` the scatter of the
    differences between points and targets (its diagonal alone for more than 2000 features of as
    many points) and a little of the identity: the pull then has about the same curvature in all
    directions, which saves most of the iterations.

    With hardly more points than features, a map can satisfy every margin and bring the points
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

    n_neighbors: PositiveInt | None = None
    min_iter: NonNegativeInt = 50
    max_iter: PositiveInt = 1000
    learn_rate: float = 1e-7
    regularization: Share = 0.5
    convergence_tol: NonNegativeFloat = 0.001
    k: int | str = DEPRECATED
    target_refresh: NonNegativeInt = 10
    judge: JudgeParameter = "auto"

    _lbfgs_params = "min_iter", "max_iter", "convergence_tol"
    _renamed: ClassVar[dict[str, str]] = {"k": "n_neighbors"}

    _n_targets = _MOST_TARGETS

    @property
    def _lbfgs(self) -> LBFGS:
        return LBFGS(self.max_iter, self.convergence_tol, self.min_iter)

    @property
    def _min_class_size(self) -> int:  # type: ignore[override]
        return self._n_targets + 1

    def _warn_of_cost(
        self, shape: tuple[int, int], n: int, samples: Samples, solver: Solver
    ) -> None:
        if not solver.by_batches:  # lists of impostors save two thirds of the pairs
            warn_of_cost([shape], n, n // 3, n, solver, self.n_jobs)

    def _target(self, y: Any) -> tuple[Array, Array, float]:
        """Convert y to classes, and count the targets."""
        classes, labels, unit = as_classes(y)
        self._n_targets = self._count_targets(labels, _MOST_TARGETS)
        smallest = int(_class_sizes(labels).min())
        if self.n_neighbors is None and 1 < smallest <= _MOST_TARGETS:
            warn_user(
                f"n_neighbors={self._n_targets} is used in place of {_MOST_TARGETS}, since the "
                f"smallest class has {smallest} points: give n_neighbors, more points of it, or "
                "leave the class out."
            )
        return classes, labels, unit

    def _count_targets(self, labels: Integers, most: int) -> int:
        """Return the number of targets: `n_neighbors`, or what the smallest class allows."""
        if self.n_neighbors is not None:
            return int(self.n_neighbors)
        return int(np.clip(_class_sizes(labels).min() - 1, 1, most))

    def _problem(self, samples: Samples) -> Problem:
        samples, k = samples.in_span, self._count_targets(samples.labels, self._n_targets)
        _check_class_sizes(samples, k)
        loss = TargetsAndImpostors(
            samples.labels, samples.weight, k, self.regularization, self.n_jobs
        )
        search = partial(_search_targets, samples.X, loss, k, self.n_jobs)
        search()
        return Problem(
            samples, loss, preconditioner=partial(_preconditioner, samples, loss), refresh=search,
            refresh_every=int(self.target_refresh), traits=Traits(smooth=False), n_jobs=self.n_jobs,
            store=_set_labels, finish=_warn_of_collapse,
        )  # fmt: skip


def _set_labels(learner: LMNN, objective: Objective, x: Vector, final: bool) -> None:
    del x, final
    learner.labels_ = np.arange(len(objective.samples.classes))


def _warn_of_collapse(
    learner: LMNN, objective: Objective, history: History, diverged: bool
) -> None:
    """Warn if the classes of few points have collapsed."""
    del history, diverged
    samples, weight = objective.samples, objective.samples.weight
    n_samples, n_features = samples.X.shape[0], samples.n_features
    total = n_samples if weight is None else float(weight.sum())
    # Classes have collapsed if the mean squared distance to targets is below .05 of the margin.
    least = 0.05 * MARGIN * learner.regularization * learner._n_targets * total
    if n_samples <= 2 * n_features and learner.objective_ <= least:
        warn_user(
            f"The map fits {n_samples} points of {n_features} features so closely that their "
            "classes have collapsed, which seldom helps other points: reduce the features first, "
            f"for example by PCA(n_components={max(1, n_samples // 10)}), and measure with "
            "fit(..., validate=True)."
        )


def _search_targets(
    X: Any, loss: TargetsAndImpostors, k: int, n_jobs: int | None, L: Array | None = None
) -> None:
    """Search for the k nearest points of the same class, under a map if given."""
    loss.set_targets(find_targets(X, loss.y, k, L, n_jobs))


def _preconditioner(
    samples: Samples, loss: TargetsAndImpostors, start: list[Array], of_span: Any
) -> Preconditioner:
    """Return the preconditioner, from the scatter of differences to targets."""
    del start, of_span
    X = samples.representative.X
    scatter = _target_scatter(X, loss.targets[samples.representative_rows], samples.X)
    return Preconditioner(samples.n_features, scatter, samples.X.dtype)


def _class_sizes(labels: Integers) -> Integers:
    """Return the number of points of each class; of all points for classes without any."""
    sizes = np.bincount(labels)
    return np.where(sizes == 0, len(labels), sizes)


def _check_class_sizes(data: Samples, k: int) -> None:
    sizes = _class_sizes(data.labels)
    smallest = int(sizes.argmin())
    if sizes[smallest] <= k:
        n_samples, n_features = data.X.shape[0], data.n_features
        numbers = data.classes.dtype.kind in "iuf" and n_samples < 2 * len(sizes)
        remedy = "Lower n_neighbors" if sizes[smallest] > 1 else "Give more points of it"
        raise ValueError(
            f"not enough class labels for specified k (smallest class has {sizes[smallest]}): "
            f"class {data.classes[smallest]} needs more than n_neighbors={k} members "
            f"({n_samples=}, {n_features=}). {remedy}, or leave the class out."
            + " y looks continuous: MLKR learns from numbers."
            * numbers
        )


def _target_scatter(X: Any, targets: Integers, among: Any) -> Floats:
    """Sum the outer products of differences to targets, or only their diagonals."""
    wide = X.shape[1] > FULL_BASIS
    scatter = np.zeros(X.shape[1] if wide else (X.shape[1], X.shape[1]))
    for rows, column in product(blocks(X), range(targets.shape[1])):
        difference = X[rows] - among[targets[rows, column]]
        if wide:
            scatter += (difference * difference).sum(axis=0, dtype=np.float64)
        else:
            scatter += dense(difference.T @ difference)
    return scatter
