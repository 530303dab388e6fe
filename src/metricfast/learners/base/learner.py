"""Base classes of metric learners: input, preprocessors, distances of pairs, embedding."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from metricfast._core.arguments import check_no_overflow
from metricfast._core.checks import as_readable_labels, check_points, check_tuples
from metricfast._core.mahalanobis import MahalanobisMetric
from metricfast._core.parameters import take_renamed
from metricfast._core.sources import in_one_array
from metricfast._core.thresholds import best_threshold, check_calibration
from metricfast._core.tuples import TupleSet, index_tuples
from metricfast._core.types import Array, Floats, Integers, RandomState, Self
from metricfast._core.warn import warn_user
from metricfast._core.wide_map import FittedMap, WideMap
from metricfast.distances.neighbors import paired_distances
from metricfast.learners.base.html import learned_table, with_table
from metricfast.learners.base.inputs import begin_fit, points_of, tuples_of
from metricfast.learners.base.relevance import in_spreads, shares_of_features
from metricfast.learners.base.validation import validate_fit
from metricfast.training.span import GIVEN, GivenAxes, SquareOf


class BaseMetricLearner(BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of all metric learners.

    Parameters
    ----------
    preprocessor : array-like of shape (n_points, n_features), callable or None, default=None
        Turns indicators of points into points. An array or sparse matrix is indexed with them; of
        points that are not in memory, those indicated are read. A callable gets a 1-dimensional
        array of indicators and returns the points, one per row. Data of full dimension bypass it.

    Attributes
    ----------
    preprocessor_ : callable or None
        The preprocessor in use.
    threshold_ : float
        Pairs of at most this distance (the negative `pair_score`) count as similar. Only after
        `set_threshold` or `calibrate_threshold`.
    n_features_in_ : int
        Number of features of a point in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, where `fit` was given a frame of points.
    validation_ : metricfast.selection.Judgement
        Only after ``fit(..., validate=True)``: costs of the given and of the learned distance (of a
        learner of a similarity: the inner product) on a fifth of the points, or half of the classes
        or tuples, of which a clone has learned nothing. The judge of the learner, or else the
        default one, decides what is held out and the measure. Whole chunks are held out, and
        measured by the order of pairs within and across chunks; tuples by their order.

    Examples
    --------
    >>> from metricfast import NCA
    >>> points = [[0.0, 5.0], [1.0, 2.0], [8.0, 4.0], [9.0, 1.0]]
    >>> nca = NCA(preprocessor=points).fit([0, 1, 2, 3], ["a", "a", "b", "b"])
    >>> nca.pair_distance([[0, 1], [0, 2]]).shape
    (2,)
    """

    _fitted: str = "preprocessor_"  # an attribute that `fit` sets
    _sparse_formats: tuple[str, ...] = ("csr", "csc")  # accepted formats of sparse points
    _tuple_size: int | None = None  # points in a tuple, for learners that train on tuples
    _requires_y: bool = False  # whether `fit` needs labels
    _has_classes: bool = True  # whether labels of points are classes, not numbers

    @property
    def _remedy_for_points(self) -> str:
        """How to learn from points that were given in place of tuples."""
        name = f"{type(self).__name__}_Supervised"
        found = hasattr(sys.modules[type(self).__module__], name)
        return f"{name} learns from points and class labels." if found else ""

    _partial_labels: bool = False  # whether labels below 0 mean that the class is unknown
    _fit_task: Any = None  # for scikit-learn's callbacks, while `fit` runs
    _on_chunks: bool = False  # whether labels are chunks; a class has many chunks

    # Computes `pair_score` from checked points and pairs of row indices.
    _indexed_score: Callable[[Array, Integers], Array]

    # Deprecated names of parameters, with their new names.
    _renamed: ClassVar[Mapping[str, str]] = {}

    # Parameters that many learners have.
    preprocessor: Any = None
    n_components: int | None
    max_iter: int
    verbose: bool | int
    random_state: int | RandomState | None
    n_jobs: int | None

    def __init__(self, preprocessor: ArrayLike | Callable[..., Any] | None = None) -> None:
        self.preprocessor = preprocessor

    def __post_init__(self) -> None:
        take_renamed(self)

    def pair_score(self, pairs: ArrayLike) -> Array:
        """Return the similarity of pairs of points: the negative distance, if one is learned.

        With two maps, the first point of a pair is a query and the second a database point.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
            Pairs of points, or of indicators for the preprocessor.

        Returns
        -------
        ndarray of shape (n_pairs,)
            float32 for float32 points, otherwise float64.

        Raises
        ------
        ValueError
            If `pairs` are not as above, or a similarity overflows.
        """
        found = tuples_of(self, pairs, 2)
        return self._indexed_score(found.points, found.index)

    def pair_distance(self, pairs: ArrayLike) -> Array:
        """Return the learned distance of pairs of points, if the learner learns one.

        Takes and returns arrays of the same shapes as `pair_score`.
        """
        return -self.pair_score(pairs)

    @abstractmethod
    def get_metric(self) -> Callable[..., float]:
        """Return a function of two points that computes the learned metric.

        Later fits do not change the function. Estimators of scikit-learn accept it as `metric`.

        Returns
        -------
        callable
            A function of two arrays of shape (n_features,) that returns a float.
        """

    def set_threshold(self, threshold: float) -> Self:
        """Set the threshold: the largest distance at which a pair counts as similar."""
        check_is_fitted(self, "preprocessor_")
        try:
            value = float(threshold)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Parameter threshold must be a real number. Got {type(threshold)} instead."
            ) from error
        if np.isnan(value):
            raise ValueError("Parameter threshold must be a real number. Got NaN instead.")
        self.threshold_ = value
        return self

    def calibrate_threshold(
        self,
        pairs_valid: ArrayLike,
        y_valid: ArrayLike,
        strategy: str = "accuracy",
        min_rate: float | None = None,
        beta: float = 1.0,
        *,
        far: float | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Set the threshold that classifies given pairs best, or has a false acceptance rate.

        Parameters
        ----------
        pairs_valid : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
            Pairs of points, or of indicators for the preprocessor.
        y_valid : array-like of shape (n_pairs,)
            1 for similar pairs, -1 for dissimilar ones.
        strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr"}, default="accuracy"
            What to maximise. "accuracy": the share of pairs that are classified correctly.
            "f_beta": the F-score. "max_tpr": the true positive rate, among thresholds whose true
            negative rate is at least `min_rate`. "max_tnr": the reverse. Ties go to the smallest
            threshold.
        min_rate : float in [0, 1], optional
            For "max_tpr" and "max_tnr", which need it.
        beta : float, default=1.0
            Weight of the recall, for "f_beta".
        far : float in (0, 1], optional
            False acceptance rate, in place of `strategy` and `min_rate`. The threshold is the
            distance of the last pair that can be accepted, in the order of distances, with at most
            this share of the dissimilar pairs, as in
            :func:`metricfast.metrics.verification_report`.
        sample_weight : array-like of shape (n_pairs,), optional
            Non-negative weights of the pairs; whole numbers mean the same as repeated pairs.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument has a value that cannot be used.

        Warns
        -----
        UserWarning
            If `far` is less than one dissimilar pair, so that the threshold accepts none.
        """
        check_is_fitted(self, "preprocessor_")
        check_calibration(strategy, min_rate, beta, far)
        y_valid = as_readable_labels(y_valid, "y_valid")
        distances = -_pair_decisions(self, pairs_valid)
        self.threshold_ = best_threshold(
            distances, y_valid, sample_weight, strategy, min_rate, beta, far
        )
        return self

    def predict_pairs(self, pairs: ArrayLike) -> Integers:
        """Return 1 for pairs of at most the threshold's distance, and -1 for others.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)

        Returns
        -------
        ndarray of shape (n_pairs,), int64

        Raises
        ------
        AttributeError
            If no threshold has been set.
        """
        check_is_fitted(self, "preprocessor_")
        if "threshold_" not in vars(self):
            raise AttributeError(
                "A threshold for this estimator has not been set, "
                "call its set_threshold or calibrate_threshold method."
            )
        return np.where(-_pair_decisions(self, pairs) <= self.threshold_, 1, -1)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether `fit` has finished; a failed fit may have set attributes too."""
        checked = {"preprocessor_", "n_features_in_", "feature_names_in_"}
        return any(name.endswith("_") and name not in checked for name in vars(self))

    def _prepare_inputs(
        self, X: Any, y: Any = None, type_of_inputs: str = "classic", **params: Any
    ) -> Any:
        """Check the data of `fit`; a preprocessor forms points from indicators.

        Sets `preprocessor_`, `n_features_in_` and, for frames, `feature_names_in_`.

        `X`: points ("classic") or tuples, or indicators of them.
        `y`: array-like of shape (n_samples,), optional; labels.
        `**params`: further parameters of :func:`sklearn.utils.check_array`.
        Returns X, or (X, y) if `y` is given; X is in C order, in float32 if it was given so and in
        float64 otherwise.
        """
        begin_fit(self)
        params = {"preprocessor": self.preprocessor_, "reset": True, "order": "C", **params}
        if type_of_inputs == "classic":
            return check_points(self, X, y, **params)
        if type_of_inputs == "tuples":
            return check_tuples(self, X, y, tuple_size=self._tuple_size, **params)
        raise ValueError(
            f"Unknown value {type_of_inputs} for type_of_inputs. Valid values are "
            "'classic' or 'tuples'."
        )

    def _prepare_tuples(self, tuples: ArrayLike, y: ArrayLike | None = None) -> TupleSet:
        """Check the tuples of `fit`. Indices into an array of points are not formed.

        Sets `preprocessor_` and `n_features_in_`. :func:`index_tuples` describes the parameters.
        """
        if y is None and get_tags(self).target_tags.required:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        begin_fit(self)
        return index_tuples(
            self,
            tuples,
            y,
            preprocessor=self.preprocessor_,
            reset=True,
            tuple_size=self._tuple_size,
        )

    def _validate_fit(self, X: Any, y: Any = None, **params: Any) -> None:
        """Compare the learner with the Euclidean distance on data held out from a clone's fit.

        `X`, `y`, `**params`: the arguments of `fit`.
        Warns UserWarning if the learned distance is worse.
        """
        self.validation_ = validate_fit(self, X, y, **params)

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + learned_table(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return with_table(super()._repr_mimebundle_(**kwargs), self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._requires_y
        on_tuples, has_preprocessor = self._tuple_size is not None, self.preprocessor is not None
        tags.input_tags.three_d_array = on_tuples
        tags.input_tags.two_d_array = not on_tuples or has_preprocessor
        tags.input_tags.one_d_array = not on_tuples and has_preprocessor
        tags.input_tags.sparse = not on_tuples  # converted to an array if necessary
        return tags


class MetricTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ABC):  # type: ignore[misc]
    """Base class of learners that embed points in a Euclidean space.

    Output features are named after the class: ``nca0``, ``nca1``, and so on.

    Examples
    --------
    >>> from metricfast import NCA
    >>> points = [[0.0, 5.0], [1.0, 2.0], [8.0, 4.0], [9.0, 1.0]]
    >>> nca = NCA(n_components=1).fit(points, ["a", "a", "b", "b"])
    >>> nca.transform(points).shape, nca.get_feature_names_out().tolist()
    ((4, 1), ['nca0'])
    """

    @abstractmethod
    def transform(self, X: Any) -> Array:
        """Embed points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class MahalanobisMixin(MetricTransformer, BaseMetricLearner):
    r"""Base class of learners of a Mahalanobis distance.

    The distance of x and x' is :math:`\sqrt{(x - x')^T M (x - x')} = \|Lx - Lx'\|` with
    :math:`M = L^T L`: the Euclidean distance of the points embedded by :math:`x \mapsto Lx`.
    A learner sets `components_` in `fit`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The learned linear map L. A square map of more features than points is computed when it is
        accessed; methods do not need it. If it does not fit into memory, you get a MemoryError.

    Examples
    --------
    >>> import numpy as np
    >>> from metricfast import MahalanobisMixin
    >>> class Standardized(MahalanobisMixin):
    ...     def fit(self, X, y=None):
    ...         X = self._prepare_inputs(X)
    ...         self.components_ = np.diag(1 / X.std(axis=0))
    ...         return self
    >>> learner = Standardized().fit([[0.0, 10.0], [2.0, 50.0]])
    >>> learner.pair_distance([[[0.0, 0.0], [3.0, 80.0]]])
    array([5.])
    """

    _fitted = "_map"
    _span: GivenAxes = GIVEN  # current coordinates of `fit`

    components_ = FittedMap(
        lambda learner, L: learner._span.outer(
            L, square=getattr(learner, "n_components", None) is None
        )
    )

    @property
    def _map(self) -> Any:
        """The learned map: an array, or a `WideMap`."""
        return MahalanobisMixin.components_.stored(self)

    def transform(self, X: Any) -> Array:
        r"""Embed points by the learned map, :math:`X L^T`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples,)
            Points, or indicators for the preprocessor. A source of points is embedded in blocks.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            float32 for float32 points, otherwise float64.

        Raises
        ------
        ValueError
            If X is not as above, or so large that embedded points overflow.
        """
        return self._embed(points_of(self, X))

    def _embed(self, X: Any, side: str = "query") -> Array:
        """Embed checked points; both sides have the same map."""
        del side
        L = self._map
        if isinstance(L, WideMap):
            return embed_points(X, L.embed)
        return embed_points(X, lambda block: block @ L.T.astype(block.dtype, copy=False))

    def _indexed_score(self, points: Array, pairs: Integers) -> Array:
        L = self._map
        if isinstance(L, WideMap):
            return -paired_distances(L.embed(points - points[:1]), pairs=pairs)
        return -paired_distances(points, pairs=pairs, L=L)

    def feature_relevance(self, X: Any = None) -> Floats:
        r"""Return the share of each feature in the learned distance.

        The mean of :math:`d^2(x, x')` over points of covariance :math:`\Sigma` is
        :math:`2 \sum_{ij} M_{ij} \Sigma_{ij}`. The relevance of feature j is
        :math:`M_{jj} \Sigma_{jj}`, what it contributes by itself, divided by the sum of these
        over all features. It does not change with the units of the features or of the
        distance, nor with a shift or rotation of the embedded points.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples,), optional
            Points, or indicators for the preprocessor, such as the points of `fit`; or a source,
            which is read by blocks. They give the variance of each feature. By default all
            variances are 1, and the relevance is the diagonal of M, which depends on the units of
            the features.

        Returns
        -------
        ndarray of shape (n_features,)
            Not negative, with a sum of 1; all zero if the map is.

        Raises
        ------
        ValueError
            If X is not as above, or all of its points are the same.

        Notes
        -----
        If two features are redundant, a learner may use one, the other, or their difference: a low
        relevance does not mean that a feature is uninformative.
        :func:`sklearn.inspection.permutation_importance` measures the loss of a classifier.

        Examples
        --------
        >>> from metricfast import LFDA
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> lfda = LFDA(n_components=1).fit(X, y)
        >>> relevance = lfda.feature_relevance(X)
        >>> bool(relevance[2:].sum() > 0.8)  # petals separate the species
        True
        """
        check_is_fitted(self, self._fitted)
        points = None if X is None else points_of(self, X)
        L = self._map
        rows = L.column_rows() if isinstance(L, WideMap) else L
        return shares_of_features(in_spreads(rows, points))

    def score_pairs(self, pairs: ArrayLike) -> Array:
        """Return the same as `pair_distance`.

        .. deprecated:: 0.1
            Use `pair_distance`, or `pair_score` for a similarity.
        """
        warn_user(
            "score_pairs is deprecated, as it is in metric-learn. Use pair_score to compute "
            "similarity scores, or pair_distance to compute distances.",
            FutureWarning,
        )
        return self.pair_distance(pairs)

    def get_metric(self) -> MahalanobisMetric:
        """Return the learned distance as a function ``f(u, v, squared=False)`` of two points.

        Later fits do not change the function. Estimators of scikit-learn call their `metric` for
        one pair of points at a time. It is far faster to give them points from `transform`.

        Returns
        -------
        MahalanobisMetric
        """
        check_is_fitted(self, self._fitted)
        return MahalanobisMetric(self.components_)

    def get_mahalanobis_matrix(self) -> Array:
        """Return the learned matrix :math:`M = L^T L`.

        Returns
        -------
        ndarray of shape (n_features, n_features)

        Raises
        ------
        MemoryError
            If there are so many features that the matrix does not fit into memory.
        """
        check_is_fitted(self, self._fitted)
        return SquareOf(self._map, "The Mahalanobis matrix").array()

    @property
    def _n_features_out(self) -> int:
        return int(self._map.shape[0])


def is_linear(learner: object) -> bool:
    """Return whether the learner's `transform` is the product with `components_`.

    It is not if a subclass overrides `transform`.
    """
    own = getattr(type(learner), "transform", None)
    return isinstance(learner, MahalanobisMixin) and own is MahalanobisMixin.transform


def embed_points(X: Any, embed: Callable[[Any], Array]) -> Array:
    """Embed checked points; a source is embedded block by block.

    Raises ValueError if embedded points overflow.
    """

    def of_block(block: Any) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            embedded = embed(block)
        remedy = "scale its features as those in fit"
        check_no_overflow(f"embedded points in {embedded.dtype}", embedded, remedy=remedy)
        return embedded

    return in_one_array(X, of_block)


def _pair_decisions(learner: Any, pairs: ArrayLike) -> Array:
    """Return the similarities for the threshold, by `decision_function` if there is one."""
    of_pairs = learner._tuple_size == 2 and hasattr(learner, "decision_function")
    decide = learner.decision_function if of_pairs else learner.pair_score
    decisions: Array = decide(pairs)
    return decisions
