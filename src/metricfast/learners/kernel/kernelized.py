"""Learners in the feature space of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from metricfast._core.memory import block_rows
from metricfast._core.parameters import Seed, check_parameters
from metricfast._core.sources import in_one_array
from metricfast._core.types import Array
from metricfast.learners.base.bilinear import BilinearMixin
from metricfast.learners.base.inputs import points_of, tuples_of
from metricfast.learners.base.learner import BaseMetricLearner, MetricTransformer
from metricfast.learners.kernel.kernel_map import (
    KernelizedMetric,
    fit_kernel_map,
    map_kernel_points,
    origin_of,
)

_OF_MAP = ("kernel", "gamma", "degree", "coef0", "method", "random_state")

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _available_if_learner_has(name: str) -> Callable[[_Method], _Method]:
    decorator: Callable[[_Method], _Method] = available_if(lambda self: hasattr(self.learner, name))
    return decorator


@dataclass(eq=False, repr=False)
class KernelizedMetricLearner(MetricTransformer, BaseMetricLearner):
    """A metric learner that sees points through a kernel.

    Maps the points to vectors whose inner products approximate a kernel, and fits a learner of
    a Mahalanobis distance to them: the distance that it learns is not linear in the points. Any
    learner will do, also one on pairs, triplets or quadruplets, whose points are mapped.

    Parameters
    ----------
    learner : estimator
        The learner, which is cloned. If it takes indices of points, give the
        preprocessor to this class.
    kernel : str or callable, default="rbf"
        As in scikit-learn's `Nystroem`: "rbf", "poly", "sigmoid", "laplacian", "cosine" ... or a
        function of two points.
    gamma : float, "scale" or None, default="scale"
        Parameter of the kernels that have it. "scale" is 1 / (n_features * X.var()), X being the
        points, as in scikit-learn's `SVC`; for "laplacian" and "chi2", which compare absolute
        differences, not squared ones, 1 / (n_features * X.std()). None is the kernel's own default.
    degree : float, default=3
        Parameter of "poly".
    coef0 : float, default=1
        Parameter of "poly" and "sigmoid".
    kernel_params : dict, optional
        Arguments of a callable kernel.
    n_components : int, optional
        Length of the mapped points, the features that the learner sees; by default 100. It is never
        more than the number of (different) points.
    method : {"nystroem", "kpca"}, default="nystroem"
        "nystroem" draws `n_components` points and takes time in proportion to the number of points;
        "kpca" takes the principal components of the kernel, whose full matrix it needs.
    preprocessor : array-like or callable, optional
        Gives the points when data hold indicators of points.
    random_state : int, RandomState or None, default=None
        For the drawn points, or the start of the eigenvalue solver.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The mean of the points for the kernels "rbf" and "laplacian", and for "linear" unless the
        learner learns a similarity (`OASIS`); zeros otherwise.
    map_ : estimator
        The `Nystroem` or `KernelPCA` that was fitted to the points less `mean_`.
    learner_ : estimator
        The learner, fitted to the mapped points.
    threshold_ : float
        Pairs of at most this distance count as similar; set by `calibrate_threshold` and
        `set_threshold`, and by `fit` where the learner sets one.
    n_features_in_, preprocessor_, validation_
        As in :class:`BaseMetricLearner`.

    Notes
    -----
    The kernel compares features in their own units: standardise them first unless they share one,
    and choose `gamma` by cross-validation. A number that is added to all points has no effect with
    the kernels "rbf", "laplacian" and "linear" (except for `OASIS`). All other kernels compare
    points with zero: subtract the mean first, unless zero has a meaning.

    An interrupted `fit` (Ctrl-C) raises KeyboardInterrupt and leaves what the learner itself would.

    References
    ----------
    C. Williams, M. Seeger, "Using the Nyström method to speed up kernel machines", Advances in
    Neural Information Processing Systems 13 (2000).

    R. Chatpatanasiri, T. Korsrilabutr, P. Tangchanachaianan, B. Kijsirikul, "A new kernelization
    framework for Mahalanobis distance learning algorithms", Neurocomputing 73 (2010), 1570-1579.

    Examples
    --------
    >>> from metricfast import ANMM, KernelizedMetricLearner
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(100, factor=0.3, noise=0.1, random_state=0)
    >>> learner = KernelizedMetricLearner(ANMM(n_components=1), random_state=0).fit(X, y)
    >>> learner.transform(X).shape
    (100, 1)
    """

    learner: Any
    kernel: str | Callable[..., float] = "rbf"
    gamma: float | str | None = "scale"
    degree: float = 3
    coef0: float = 1
    kernel_params: Mapping[str, Any] | None = None
    n_components: int | None = None
    method: Literal["nystroem", "kpca"] = "nystroem"
    preprocessor: Any = None
    random_state: Seed = None

    _fitted = "learner_"
    _sparse_formats = ()

    @property
    def _tuple_size(self) -> int | None:  # type: ignore[override]
        size: int | None = getattr(self.learner, "_tuple_size", None)
        return size

    @property
    def classes_(self) -> Array:
        """The learner's `classes_`, if it has this attribute."""
        return np.asarray(getattr(self, "learner_", self.learner).classes_)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        validate: bool = False,
        **fit_params: Any,
    ) -> KernelizedMetricLearner:
        """Fit the map of the kernel, and the learner to the mapped points.

        Parameters
        ----------
        X : array-like
            Training data of the learner: points of shape (n_samples, n_features), tuples of shape
            (n_tuples, t, n_features), or indicators for the preprocessor.
        y : array-like, optional
            Labels, where the learner takes any.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of samples, where the learner takes any. They have no effect on the map.
        validate : bool, default=False
            As for :meth:`LFDA.fit`.
        **fit_params
            Further arguments of the learner's `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used.
        TypeError
            If the learner is none, or is given an argument that its `fit` does not know.
        """
        check_parameters(self)
        if not (isinstance(self.kernel, str) or callable(self.kernel)):
            raise ValueError(f"kernel must be a name or a function, got {self.kernel!r}.")
        if self.kernel == "precomputed":
            raise ValueError("kernel must be computed from points, got 'precomputed'.")
        if not isinstance(self.kernel_params, Mapping | None):
            raise ValueError(f"kernel_params must be a dict or None, got {self.kernel_params!r}.")
        if not isinstance(self.learner, BaseMetricLearner):
            raise TypeError(f"learner must be a metric learner, got {self.learner!r}.")
        learner = clone(self.learner)
        if sample_weight is not None:
            fit_params["sample_weight"] = sample_weight
        data: tuple[Any, ...]
        if self._tuple_size is None:
            if y is None and not self.learner._requires_y:
                points, labels = self._prepare_inputs(X), None
            elif y is not None and not self.learner._has_classes:
                points, labels = self._prepare_inputs(X, "no_validation"), y  # y is checked later
            else:
                points, labels = self._prepare_inputs(X, y)
            self._fit_map(points)
            data = self._mapped(points), labels
        else:
            tuples = self._prepare_tuples(X, y)
            self._fit_map(tuples.unique_points())
            # Tuples remain indices into the mapped points, so that no point is stored twice.
            learner.set_params(preprocessor=self._mapped(tuples.points))
            data = (tuples.index,) if y is None else (tuples.index, tuples.y)
        self.learner_ = learner  # set before the fit, in case of an interruption
        try:
            learner.fit(*data, **fit_params)
        except Exception:
            del self.learner_
            raise
        finally:
            if self._tuple_size is not None:
                learner.set_params(preprocessor=None)
                learner.preprocessor_ = None
        if hasattr(learner, "threshold_"):
            self.threshold_ = learner.threshold_
        if validate:
            self._validate_fit(X, y, **fit_params)
        return self

    @_available_if_learner_has("transform")
    def transform(self, X: Any) -> Array:
        """Embed points: map them by the kernel, then by the learner.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples,)
            Points, or indicators for the preprocessor.

        Returns
        -------
        ndarray of shape (n_samples, n_components of the learner)
        """
        points = points_of(self, X)

        def of_block(block: Array) -> Array:
            return np.asarray(self._ask("transform", self._mapped(block)))

        width = self.map_.n_components + points.shape[1]
        return in_one_array(points, of_block, block_rows(points.dtype.itemsize * width))

    @_available_if_learner_has("pair_distance")
    def pair_distance(self, pairs: ArrayLike) -> Array:
        """Return the learned distance of pairs, as :meth:`MahalanobisMixin.pair_distance`."""
        return np.asarray(self._ask("pair_distance", self._mapped_tuples(pairs, 2)))

    def pair_score(self, pairs: ArrayLike) -> Array:
        """Return the learned similarity of pairs, as :meth:`BaseMetricLearner.pair_score`."""
        return np.asarray(self._ask("pair_score", self._mapped_tuples(pairs, 2)))

    def get_metric(self) -> KernelizedMetric:
        """Return the learned distance as a function ``f(u, v, squared=False)`` of two points.

        For a learner of a similarity, the function is ``f(u, v)`` and returns the similarity. Later
        fits do not change it. For many distances, it is far faster to transform the points first.
        """
        check_is_fitted(self, "learner_")
        return KernelizedMetric(self.map_, self.mean_, self.learner_.get_metric())

    @_available_if_learner_has("decision_function")
    def decision_function(self, tuples: ArrayLike) -> Array:
        """Return the learner's `decision_function` of tuples, if the learner has this method."""
        return np.asarray(self._ask("decision_function", self._mapped_data(tuples)))

    @_available_if_learner_has("predict")
    def predict(self, X: ArrayLike) -> Array:
        """Return the learner's prediction for tuples or points, if the learner predicts."""
        if self._tuple_size == 2:
            return self.predict_pairs(X)
        return np.asarray(self._ask("predict", self._mapped_data(X)))

    @_available_if_learner_has("score")
    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Return the learner's score of tuples or points, if the learner has this method."""
        labels = () if y is None else (y,)
        return float(self._ask("score", self._mapped_data(X), *labels))

    def _ask(self, method: str, mapped: Array, *labels: ArrayLike) -> Any:
        return getattr(self.learner_, method)(mapped, *labels)

    def _fit_map(self, points: Array) -> None:
        learns_distance = not isinstance(self.learner, BilinearMixin)
        self.mean_ = origin_of(self.kernel, points, learns_distance=learns_distance)
        self.map_ = fit_kernel_map(
            points,
            self.mean_,
            **{name: getattr(self, name) for name in _OF_MAP},
            kernel_params=None if self.kernel_params is None else dict(self.kernel_params),
            n_components=100 if self.n_components is None else int(self.n_components),
        )

    def _mapped(self, points: Array) -> Array:
        return map_kernel_points(self.map_, self.mean_, points)

    def _mapped_data(self, X: ArrayLike) -> Array:
        """Map points or tuples of the kind that the learner trains on."""
        size = self._tuple_size
        return self._mapped_points(X) if size is None else self._mapped_tuples(X, size)

    def _mapped_points(self, X: Any) -> Array:
        return in_one_array(points_of(self, X), self._mapped)

    def _mapped_tuples(self, tuples: ArrayLike, size: int) -> Array:
        found = tuples_of(self, tuples, size)
        return self._mapped(found.points)[found.index]

    @property
    def _n_features_out(self) -> int:
        return int(self.learner_._n_features_out)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        of_learner = getattr(self.learner, "__sklearn_tags__", None)
        if of_learner is not None:
            learned = of_learner()
            tags.estimator_type = learned.estimator_type
            tags.classifier_tags = learned.classifier_tags
            tags.regressor_tags = learned.regressor_tags
            tags.target_tags = learned.target_tags
        return tags
