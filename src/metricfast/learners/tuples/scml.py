"""Sparse compositional metric learning."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._core.arguments import check_random_state
from metricfast._core.targets import check_partial_target, check_sample_weight
from metricfast._core.tuples import TupleSet
from metricfast.constraints import Constraints
from metricfast.learners.base.classifiers import TripletsClassifierMixin
from metricfast.learners.tuples.scml_base import CompositionalLearner, check_integer
from metricfast.learners.tuples.scml_bases import (
    check_given_basis,
    local_discriminants,
    triplet_directions,
)

__all__ = ["SCML", "SCML_Supervised"]


class SCML(CompositionalLearner, TripletsClassifierMixin):
    r"""Sparse compositional metric learning from triplets.

    Learns :math:`M = \sum_k w_k b_k b_k^T` from triplets (a, b, c) of which a should be nearer to b
    than to c, as sparse non-negative weights of many bases:

    .. math::

        \min_{w \ge 0}\; \beta \sum_k w_k
        + \frac{1}{m} \sum_{(a, b, c)} \left[1 + D_M(a, b) - D_M(a, c)\right]_+

    by stochastic regularised dual averaging with adaptive steps, which finds the direction of w,
    and a line search, which finds its length; D is the squared distance.

    Parameters
    ----------
    beta : float, default=1e-5
        Weight of the sum of weights; larger values give sparser ones.
    basis : {"triplet_diffs"} or ndarray of shape (n_basis, n_features), default="triplet_diffs"
        The bases. "triplet_diffs" are directions in which n_features random triplets differ most,
        for as many draws as it takes; there must be as many triplets as features.
    n_basis : int, optional
        Number of bases of "triplet_diffs"; by default ``80 * n_features``.
    gamma : float, default=5e-3
        Strength of the term that holds weights back: larger values mean shorter steps.
    max_iter : int, default=10000
        Number of iterations.
    output_iter : int, default=500
        Number of iterations after which the objective is evaluated, at the multiple of the weights
        that is best for it. The best weights then seen are the result.
    batch_size : int, default=10
        Triplets drawn for an iteration.
    verbose : bool, default=False
        Show progress on standard error.
    preprocessor : array-like or callable, optional
        Gives the points when triplets hold indicators of points.
    random_state : int, RandomState or None, default=None
        For bases and batches.
    n_components : int, optional
        Keep that many leading eigenvectors of M.
    n_jobs : int, optional
        Number of threads that evaluate the objective; results do not depend on it. By default all
        that the process may use.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The learned map, in float32 for float32 points, else in float64. Without `n_components` it
        has a row for each base of positive weight, but at most n_features.
    weights_ : ndarray of shape (n_basis,)
        Weights of the bases.
    n_iter_ : int
        Number of iterations done.
    objective_ : float
        The objective at `weights_`.
    loss_curve_ : list of float
        The objective after each `output_iter` iterations, and at the end, at the best multiple of
        the weights.
    n_features_in_ : int
        Number of features seen in `fit`.
    preprocessor_ : callable or None
        The preprocessor in use.

    Notes
    -----
    The length of the steps suits features of about unit spread: standardize them. An interrupted
    `fit` (Ctrl-C) raises KeyboardInterrupt and leaves the best map so far in `components_`. Memory
    does not grow with the number of triplets times that of bases.

    References
    ----------
    Y. Shi, A. Bellet, F. Sha, "Sparse compositional metric learning", AAAI (2014).

    Examples
    --------
    >>> from metricfast import SCML
    >>> points = [[1.2, 7.5], [1.3, 1.5], [6.2, 9.7], [5.4, 5.4], [3.2, 4.6]]
    >>> scml = SCML(preprocessor=points, random_state=0)
    >>> scml.fit([[0, 1, 2], [1, 4, 3], [1, 0, 3]]).predict([[0, 1, 3]])
    array([1])
    """

    def fit(self, triplets: ArrayLike, y: Any = None, *, validate: bool = False) -> SCML:
        """Learn the metric.

        Parameters
        ----------
        triplets : array-like of shape (n_triplets, 3, n_features) or (n_triplets, 3)
            Points, or indicators for the preprocessor. The first of a triplet should be nearer to
            the second than to the third.
        y : ignored
        validate : bool, default=False
            Also fit a clone to four fifths of the triplets, compare its score on the others with
            that of the Euclidean distance, keep the numbers in `validation_`, and warn if it is
            worse.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used.
        """
        self._check_parameters()
        given = self._prepare_tuples(triplets)
        rng = check_random_state(self.random_state)
        if isinstance(self.basis, str):
            basis = triplet_directions(given, self.n_basis, rng)
        else:
            basis = check_given_basis(self.basis, self.n_features_in_)
        self._fit(given, basis, rng)
        if validate:
            self._validate_fit(triplets)
        return self


class SCML_Supervised(CompositionalLearner):  # noqa: N801
    """Sparse compositional metric learning from class labels.

    Triplets are each point with each of its nearest points of the same class and each of its
    nearest points of other classes; see :class:`SCML` for what is learned from them.

    Parameters
    ----------
    k_genuine : int, default=3
        Nearest points of the same class to make triplets of.
    k_impostor : int, default=10
        Nearest points of other classes to make triplets of.
    beta : float, default=1e-5
        As for :class:`SCML`, like the others that are not described here.
    basis : {"lda", "triplet_diffs"} or ndarray of shape (n_basis, n_features), default="lda"
        "lda" are linear discriminants of the neighbourhoods of cluster centres, at two scales.
    n_basis : int, optional
        Number of bases to make: by default ``80 * n_features`` with "triplet_diffs" and
        ``20 * n_features`` with "lda", or fewer if there are few samples. With "lda", regions of
        low rank give fewer.
    gamma : float, default=5e-3
    max_iter : int, default=10000
    output_iter : int, default=500
    batch_size : int, default=10
    verbose : bool, default=False
    preprocessor : array-like or callable, optional
    random_state : int, RandomState or None, default=None
    n_components : int, optional
    n_jobs : int, optional

    Attributes
    ----------
    components_, weights_, n_iter_, objective_, loss_curve_, n_features_in_, preprocessor_
        As for :class:`SCML`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if `X` has any.

    References
    ----------
    Y. Shi, A. Bellet, F. Sha, "Sparse compositional metric learning", AAAI (2014).

    Examples
    --------
    >>> from metricfast import SCML_Supervised
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> scml = SCML_Supervised(random_state=33, n_components=2).fit(X, y)
    >>> scml.transform(X).shape
    (150, 2)
    """

    _bases = ("triplet_diffs", "lda")
    _requires_y = True
    _partial_labels = True

    def __init__(
        self,
        k_genuine: int = 3,
        k_impostor: int = 10,
        beta: float = 1e-5,
        basis: str | NDArray[Any] = "lda",
        n_basis: int | None = None,
        gamma: float = 5e-3,
        max_iter: int = 10000,
        output_iter: int = 500,
        batch_size: int = 10,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: int | np.random.RandomState | None = None,
        *,
        n_components: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self._take(locals())

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        validate: bool = False,
    ) -> SCML_Supervised:
        """Make triplets and learn the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_samples,) with a preprocessor
            Points.
        y : array-like of shape (n_samples,)
            Class labels, of at least two classes. Numbers below 0 mean that the class is unknown.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of the triplets that a point is the first of. As the nearest of its
            class a repeated point would find itself, so whole numbers are no repetitions.
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
            If an argument or parameter has a value that cannot be used, or no class has two points.
        """
        self._check_parameters()
        for name in ("k_genuine", "k_impostor"):
            check_integer(name, getattr(self, name))
        points, y_checked = self._prepare_inputs(X, y, ensure_min_samples=2)
        _, labels = check_partial_target(y_checked)
        weight = check_sample_weight(sample_weight, len(points))
        rng = check_random_state(self.random_state)
        index = Constraints(labels).generate_knntriplets(
            points, self.k_genuine, self.k_impostor, n_jobs=self.n_jobs
        )
        if weight is not None:
            index = index[weight[index[:, 0]] > 0]
            weight = weight[index[:, 0]]
        if not len(index):
            raise ValueError("There are no triplets: no class has two points and weight.")
        triplets = TupleSet(points, index)
        if not isinstance(self.basis, str):
            basis = check_given_basis(self.basis, points.shape[1])
        elif self.basis == "lda":
            known = labels >= 0
            basis = local_discriminants(points[known], labels[known], self.n_basis, rng)
        else:
            basis = triplet_directions(triplets, self.n_basis, rng)
        self._fit(triplets, basis, rng, weight)
        if validate:
            self._validate_fit(X, y, sample_weight=sample_weight)
        return self
