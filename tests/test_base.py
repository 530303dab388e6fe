"""The base classes of learners, tested with two minimal learners, with and without labels."""

from __future__ import annotations

import pickle
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from inspect import signature
from typing import ClassVar

import numpy as np
import pytest
from scipy.sparse import coo_array, csc_array, csr_array, csr_matrix
from scipy.spatial.distance import cdist
from sklearn.base import ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator

from metricfast import OASIS, EmbeddingLearner, KernelizedMetricLearner, RCA_Supervised
from metricfast._core import tuples as _tuples
from metricfast._core.initialize import components_from_metric, initialize_components
from metricfast._core.parameters import DEPRECATED, PositiveInt, check_parameters, positional
from metricfast._core.targets import check_classification_target, check_sample_weight
from metricfast.learners.base.learner import BaseMetricLearner, MahalanobisMixin, MetricTransformer
from metricfast.losses import NCA

X, Y = load_iris(return_X_y=True)
PAIRS = np.random.default_rng(0).integers(0, 150, (400, 2))


class Whitening(MahalanobisMixin):
    def fit(self, X, y=None):
        X = self._prepare_inputs(X, ensure_min_samples=2)
        covariance = np.atleast_2d(np.cov(X, rowvar=False)).astype(X.dtype)
        self.components_ = components_from_metric(np.linalg.pinv(covariance, hermitian=True))
        return self


class Discriminant(MahalanobisMixin):
    _requires_y = True

    def fit(self, X, y, sample_weight=None):
        X, y = self._prepare_inputs(X, y, ensure_min_samples=2)
        classes, codes = check_classification_target(y)
        weight = check_sample_weight(sample_weight, len(X))
        n_components = min(X.shape[1], len(classes) - 1)
        self.components_ = initialize_components(
            X, codes, "auto", n_components, sample_weight=weight
        )
        return self


class OfPairs(MahalanobisMixin, ClassifierMixin, BaseMetricLearner):
    """A learner that stores its pairs."""

    _tuple_size = 2

    def fit(self, pairs, y):
        self.pairs_, self.y_ = self._prepare_inputs(pairs, y, type_of_inputs="tuples")
        self.components_ = np.eye(self.n_features_in_)
        return self


@pytest.mark.parametrize("learner", [Whitening(), Discriminant()])
def test_contract_of_scikit_learn(learner):
    results = check_estimator(learner, on_fail=None, on_skip=None)
    assert len(results) > 40
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert failed == {}


def distances(L, points=X, pairs=PAIRS):
    return np.linalg.norm((points[pairs[:, 0]] - points[pairs[:, 1]]) @ L.T, axis=1)


def test_bases_are_abstract():
    for abstract in (BaseMetricLearner, MetricTransformer):
        with pytest.raises(TypeError, match="abstract"):
            abstract()
    assert issubclass(MahalanobisMixin, (BaseMetricLearner, MetricTransformer))


@pytest.mark.parametrize(
    "use",
    [
        lambda learner: learner.transform(X),
        lambda learner: learner.pair_distance(X[PAIRS]),
        lambda learner: learner.pair_score(X[PAIRS]),
        lambda learner: learner.get_metric(),
        lambda learner: learner.get_mahalanobis_matrix(),
        lambda learner: learner.get_feature_names_out(),
    ],
)
def test_use_before_fit(use):
    with pytest.raises(NotFittedError, match="This Whitening instance is not fitted yet"):
        use(Whitening())


@pytest.mark.parametrize("container", [csr_array, csr_matrix, csc_array, coo_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_transform_of_sparse_points(container, dtype):
    learner = Whitening().fit(X)
    points = X.astype(dtype)
    found = learner.transform(container(points))
    assert isinstance(found, np.ndarray)
    assert found.dtype == learner.transform(points).dtype
    np.testing.assert_allclose(found, learner.transform(points), rtol=1e-5)


@pytest.mark.parametrize(("dtype", "huge"), [(np.float32, 1e35), (np.float64, 1e305)])
def test_embedded_points_that_overflow_are_refused_and_distances_are_infinite(dtype, huge):
    learner = Whitening().fit(X)
    learner.components_ = learner.components_ * 1e5
    given = (np.full((2, X.shape[1]), huge, dtype) * [[1], [-1]]).astype(dtype)
    with pytest.raises(ValueError, match="overflow"):
        learner.transform(given)
    if dtype == np.float64:  # float32 points are embedded in double
        with pytest.raises(ValueError, match="embedded points are not finite"):
            learner.pair_distance(given[None])
    else:
        assert learner.pair_distance(given[None]) == np.inf
        assert learner.pair_score(given[None]) == -np.inf


@pytest.mark.parametrize("fitted", [np.float32, np.float64])
@pytest.mark.parametrize("given", [np.float32, np.float64])
def test_results_have_the_dtype_of_the_points(fitted, given):
    learner = Whitening().fit(X.astype(fitted))
    points = X.astype(given)
    assert learner.components_.dtype == fitted
    assert learner.transform(points).dtype == given
    assert learner.pair_distance(points[PAIRS]).dtype == given


def test_mahalanobis_matrix():
    learner = Whitening().fit(X)
    M = learner.get_mahalanobis_matrix()
    np.testing.assert_allclose(M, np.linalg.inv(np.cov(X.T)), rtol=1e-9)
    M[:] = 0
    assert learner.get_mahalanobis_matrix().any()


def test_many_indexed_pairs_are_not_formed(monkeypatch):
    learner = Whitening(X).fit(np.arange(150))
    expected = distances(learner.components_)
    monkeypatch.setattr(_tuples, "check_tuples", None)
    np.testing.assert_allclose(learner.pair_distance(PAIRS), expected, rtol=1e-12)
    np.testing.assert_allclose(learner.pair_distance(PAIRS - 150), expected, rtol=1e-12)


def test_points_of_the_preprocessor_are_checked_where_they_are_used():
    points = X.copy()
    points[0, 0] = np.nan
    learner = Whitening(points).fit(np.arange(1, 150))
    used = np.where(PAIRS == 0, 1, PAIRS)
    expected = distances(learner.components_, X, used)
    np.testing.assert_allclose(learner.pair_distance(used), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        learner.pair_distance(used - used[0, 0])


def test_preprocessor_is_replaced_by_the_next_fit():
    learner = Whitening(X).fit(np.arange(150))
    learner.set_params(preprocessor=None)
    np.testing.assert_allclose(learner.transform([0]), learner.transform(X[:1]))
    with pytest.raises(ValueError, match="2D array of formed points expected by Whitening"):
        learner.fit(np.arange(150))


def test_tags():
    tags = get_tags(Discriminant())
    assert tags.target_tags.required
    assert tags.transformer_tags.preserves_dtype == ["float64", "float32"]
    assert tags.input_tags.two_d_array
    assert not tags.input_tags.one_d_array
    assert get_tags(Discriminant(X)).input_tags.one_d_array
    tags = get_tags(OfPairs())
    assert tags.input_tags.three_d_array
    assert not tags.input_tags.two_d_array
    assert get_tags(OfPairs(X)).input_tags.two_d_array


def test_metric_is_the_distance_of_two_points():
    learner = Whitening().fit(X)
    metric = learner.get_metric()
    expected = distances(learner.components_)
    for (i, j), distance in zip(PAIRS[:20], expected, strict=False):
        assert metric(X[i], X[j]) == pytest.approx(distance, rel=1e-9)
        assert metric(X[i], X[j], squared=True) == pytest.approx(distance**2, rel=1e-9)
        assert metric(list(X[i]), X[j][None]) == pytest.approx(distance, rel=1e-9)
        assert metric(X[i][:, None], X[j][:, None]) == pytest.approx(distance, rel=1e-9)
    assert isinstance(metric(X[0], X[1]), float)


def test_metric_of_a_map_that_is_given_as_its_only_row():
    learner = Whitening().fit(X)
    learner.components_ = np.array([3.0])
    assert learner.get_metric()(5, 7.0) == learner.get_metric()([[5.0]], [7]) == 6


def test_metric_of_unsigned_integers_does_not_wrap_around():
    metric = Whitening().fit(X).get_metric()
    low, high = np.full(4, 1, np.uint8), np.full(4, 3, np.uint8)
    assert metric(low, high) == metric(high, low) == metric(low.astype(float), high)


@pytest.mark.parametrize("u", [X[:2], X[:2, :2], X[:2, None]])
def test_metric_takes_vectors_only(u):
    metric = Whitening().fit(X).get_metric()
    with pytest.raises(ValueError, match=r"^Input vector should be 1-D\.$"):
        metric(u, X[0])


@pytest.mark.parametrize("points", [X[0, :3], X[0, :1], X[0, 0]])
def test_metric_takes_vectors_of_one_width_only(points):
    metric = Whitening().fit(X).get_metric()
    with pytest.raises(ValueError, match="u must hold 4 values, one per feature"):
        metric(points, X[0])
    with pytest.raises(ValueError, match="u must hold 4 values"):
        metric(points, points)


@pytest.mark.parametrize(
    "learner",
    [
        Whitening(),
        OASIS(max_iter=1, random_state=0),
        EmbeddingLearner(NCA(), max_epochs=1, random_state=0),
        KernelizedMetricLearner(RCA_Supervised(n_chunks=9, random_state=0), random_state=0),
    ],
    ids=lambda learner: type(learner).__name__,
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_metric_of_what_has_no_distance(learner):
    fitted = learner.fit(X[:120].reshape(40, 3, 4)) if type(learner) is OASIS else learner.fit(X, Y)
    metric, other = fitted.get_metric(), np.full(4, -1e3)
    wrong = {np.nan: "NaN", np.inf: "infinity", 1j: "omplex", "a": "numbers", 1e308: "large"}
    for value, message in wrong.items():
        point = np.array([value, *X[0, 1:]], object if value == "a" else None)
        for pair in ((point, other), (other, point)):
            with pytest.raises(ValueError, match=message):
                metric(*pair)


def test_metric_outlives_changes_of_the_learner_and_copies():
    learner = Whitening().fit(X)
    metric = learner.get_metric()
    before = metric(X[0], X[1])
    learner.components_[:] = metric.components[:] = 0
    assert metric(X[0], X[1]) == before
    assert deepcopy(metric)(X[0], X[1]) == before
    assert pickle.loads(pickle.dumps(metric))(X[0], X[1]) == before


@pytest.mark.parametrize("algorithm", ["brute", "ball_tree"])
def test_metric_serves_scikit_learn_and_scipy(algorithm):
    learner = Whitening().fit(X)
    metric = learner.get_metric()
    by_metric = KNeighborsClassifier(3, metric=metric, algorithm=algorithm).fit(X[::2], Y[::2])
    embedded = KNeighborsClassifier(3).fit(learner.transform(X[::2]), Y[::2])
    np.testing.assert_array_equal(
        by_metric.predict(X[1::2]), embedded.predict(learner.transform(X[1::2]))
    )
    pickle.loads(pickle.dumps(by_metric)).predict(X[:2])
    Z = learner.transform(X[:9])
    np.testing.assert_allclose(cdist(X[:9], X[:9], metric), cdist(Z, Z), atol=1e-12)


@dataclass(eq=False, repr=False)
class Parent(MahalanobisMixin):
    a: PositiveInt = 1
    b: int = 2
    _: KW_ONLY
    c: int = 3


@positional("new a b old_a")
@dataclass(eq=False, repr=False)
class Child(Parent):
    b: int = 20
    new: PositiveInt = 0
    old_a: int | str = DEPRECATED

    _renamed: ClassVar[dict[str, str]] = {"old_a": "a"}


def test_inherited_parameters_are_positional_in_the_order_that_a_class_names():
    given = "(new: 'PositiveInt' = 0, a: 'PositiveInt' = 1, b: 'int' = 20, old_a: 'int | str' = "
    assert str(signature(Child)) == f"{given}'deprecated', *, c: 'int' = 3) -> None"
    child = clone(Child(5, 6, 7, c=8))
    assert child.get_params() == {"new": 5, "a": 6, "b": 7, "old_a": DEPRECATED, "c": 8}
    assert pickle.loads(pickle.dumps(child)).get_params() == child.get_params()
    check_parameters(child)
    with pytest.raises(ValueError, match="new must be an integer of at least 1, got 0"):
        check_parameters(Child())
    with pytest.raises(TypeError, match="takes from 1 to 5 positional arguments"):
        Child(1, 2, 3, 4, 5)
    with pytest.warns(FutureWarning, match='"old_a" parameter has been renamed to "a"'):
        assert Child(old_a=9).a == 9
