"""Learners on points on disk, and on points in parts."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from stored import Stored
from thinned import thinned
from working_memory import working_memory

import metricfast as mf
from metricfast import sources

Array = NDArray[Any]
N, D = 3000, 5
RNG = np.random.RandomState(0)
# Classes with several clusters, correlated features far from the origin, one constant feature.
Y = RNG.randint(0, 4, N)
X = np.hstack([RNG.randn(N, D - 1), np.full((N, 1), 0.3)])
X[:, :2] += 3 * np.column_stack([Y % 2, Y // 2])
X = X @ np.diag([1.0, 2, 3, 4, 1]) + 1e3
CHUNKS = np.where(np.arange(N) % 3 > 0, np.arange(N) % 100, -1)
ALL = slice(None)


# Learners with labels, and the maximum number of passes over the points. The judge reads the points
# that it draws once for the units, and twice for the setting.
OF_POINTS: dict[str, tuple[Any, Array, float]] = {
    "Covariance": (mf.Covariance(), Y, 1),
    "Covariance-2": (mf.Covariance(n_components=2), Y, 1),
    "RCA": (mf.RCA(shrinkage=0.1), CHUNKS, 1),
    "RCA-2": (mf.RCA(n_components=2, shrinkage=0.1), CHUNKS, 1),
    "RCA_Supervised": (mf.RCA_Supervised(random_state=0), Y, 4),
    "LFDA": (mf.LFDA(), Y, 7),
    "LFDA-2": (mf.LFDA(2, shrinkage=0.1, embedding_type="plain"), Y, 4),
    "GMML_Supervised": (mf.GMML_Supervised(reg=0.01), Y, 1),
    "KISSME_Supervised": (mf.KISSME_Supervised(regularization=0.01), Y, 1),
    "XQDA": (mf.XQDA(regularization=0.01), Y, 1),
    "XQDA-auto": (mf.XQDA(), Y, 4),
    "SDML_Supervised": (mf.SDML_Supervised(random_state=0, balance_param=1e-5), Y, 4),
    "ANMM": (mf.ANMM(), Y, 60),
    "DMLMJ": (mf.DMLMJ(), Y, 60),
    "ITML_Supervised": (mf.ITML_Supervised(gamma=0.01, random_state=0), Y, 5),
    "LSML_Supervised": (mf.LSML_Supervised(random_state=0), Y, 5),
    "MMC_Supervised": (mf.MMC_Supervised(random_state=0, max_iter=20), Y, 5),
}


@pytest.mark.parametrize(
    ("name", "dtype", "weight"),
    thinned(
        product(OF_POINTS, [np.float64, np.float32], [None, "whole", "fractions"]),
        lambda case: (
            case[0] in ("Covariance", "LFDA")
            or case[1:] in ((np.float64, "fractions"), (np.float32, None))
        ),
    ),
)
def test_a_source_is_learned_from_as_an_array_is(
    name: str, dtype: type[np.floating[Any]], weight: str | None
) -> None:
    learner, labels, passes = OF_POINTS[name]
    points = X.astype(dtype)
    how: dict[str, Any] = {}
    if weight is not None:
        w = np.random.RandomState(1).randint(0, 4, N)
        how["sample_weight"] = w if weight == "whole" else w / 3
    source = Stored(points)
    with working_memory(128 << 10):
        found = clone(learner).fit(source, labels, **how)
    expected = clone(learner).fit(points, labels, **how)
    close = {"rtol": 1e-9, "atol": 1e-11} if dtype is np.float64 else {"rtol": 1e-4, "atol": 1e-6}
    assert found.components_.dtype == dtype
    np.testing.assert_allclose(
        found.get_mahalanobis_matrix(), expected.get_mahalanobis_matrix(), **close
    )
    # LFDA loads one class at a time.
    held = np.bincount(Y).max() if name.startswith("LFDA") else 0
    assert source.largest <= max((128 << 10) // 8 // (D * points.itemsize), held)
    assert source.rows_read <= passes * N


class Made(sources.Source):
    """A source that generates points on the fly; all of them would take 40 MB."""

    shape, dtype = (100_000, 100), np.dtype(np.float32)

    def read(self, start: int, stop: int) -> Array:
        return np.random.default_rng(start).normal(size=(stop - start, 100)).astype(np.float32)


def test_memory_is_that_of_a_few_blocks() -> None:
    labels = np.arange(100_000) % 7
    learners = mf.Covariance(), mf.GMML_Supervised(reg=0.01)
    mf.Covariance().fit(X)  # lazy imports
    for learner in learners:
        tracemalloc.start()
        with working_memory(4 << 20):
            learner.fit(Made(), labels)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 12e6  # includes labels and weights, nearly 1 MB each


def test_what_needs_all_points_reads_them() -> None:
    points, labels = X[:200], Y[:200]
    for learner in (
        mf.OASIS_Supervised(random_state=0),
        mf.SCML_Supervised(n_basis=20, max_iter=100, output_iter=50, random_state=0),
        mf.GMML_Supervised(prior="covariance", t=0.2, reg=0),
    ):
        points = points[:, : D - 1]
        found, expected = (
            clone(learner).fit(p, labels).pair_score(points[None, :2])
            for p in (sources.Rows(points), points)
        )
        np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("scale", [1e-200, 1e150])
@pytest.mark.parametrize("name", ["Covariance", "LFDA", "DMLMJ", "GMML_Supervised"])
def test_sources_of_unusual_units(name: str, scale: float) -> None:
    learner, labels, _ = OF_POINTS[name]
    points = (X[:500] - 1e3) * scale
    with working_memory(32 << 10):
        found = clone(learner).fit(sources.Rows(points), labels[:500])
    expected = clone(learner).fit(points, labels[:500])
    np.testing.assert_allclose(
        found.components_ / np.abs(expected.components_).max(),
        expected.components_ / np.abs(expected.components_).max(),
        rtol=1e-7,
        atol=1e-9,
    )


IN_PARTS: dict[str, tuple[Any, Array]] = {
    name: found[:2]
    for name, found in OF_POINTS.items()
    if getattr(found[0], "_exact_in_parts", False) and "auto" not in name
}


@pytest.mark.parametrize("weight", [None, "fractions"])
@pytest.mark.parametrize("order", ["shuffled", "by label"])
@pytest.mark.parametrize("name", IN_PARTS)
def test_ten_parts_are_one_fit(name: str, order: str, weight: str | None) -> None:
    assert len(IN_PARTS) == 7
    learner, labels = IN_PARTS[name]
    w = None if weight is None else np.random.RandomState(1).randint(0, 4, N) / 3
    rows = np.arange(N)
    if order == "by label":
        rows = np.argsort(labels, kind="stable")
        rows = np.r_[rows[:: N // 200], np.delete(rows, np.s_[:: N // 200])]  # of all, to begin
    found = clone(learner)
    for i, part in enumerate(np.array_split(rows, 10)):
        points = sources.Rows(X[part]) if i % 2 else X[part]
        found.partial_fit(points, labels[part], None if w is None else w[part])
        found = pickle.loads(pickle.dumps(found))
    expected = clone(learner).fit(X, labels, w)
    np.testing.assert_allclose(
        found.get_mahalanobis_matrix(), expected.get_mahalanobis_matrix(), rtol=1e-8, atol=1e-10
    )


@pytest.mark.parametrize("prior", ["identity", "matrix"])
@pytest.mark.parametrize("learner", [mf.GMML(), mf.SDML(1e-4)])
def test_ten_parts_of_pairs_are_one_fit(learner: Any, prior: str) -> None:
    pairs = np.random.RandomState(1).randint(0, N, (400, 2))
    y = np.where(Y[pairs[:, 0]] == Y[pairs[:, 1]], 1, -1)
    w = np.random.RandomState(1).randint(0, 4, 400) / 3
    learner = clone(learner).set_params(prior=np.eye(D) if prior == "matrix" else prior)
    found = clone(learner).set_params(preprocessor=sources.Rows(X))
    for part in np.array_split(np.arange(400), 10):
        found.partial_fit(pairs[part], y[part], w[part])
    expected = clone(learner).fit(X[pairs], y, sample_weight=w)
    np.testing.assert_allclose(
        found.get_mahalanobis_matrix(), expected.get_mahalanobis_matrix(), rtol=1e-8, atol=1e-10
    )
    assert np.isfinite(found.threshold_)


@pytest.mark.parametrize("name", ["LFDA", "ANMM", "DMLMJ", "RCA_Supervised", "SDML_Supervised"])
def test_parts_that_need_neighbours_or_draw_learn_much_the_same(name: str) -> None:
    learner, labels, _ = OF_POINTS[name]
    for tuned in ("shrinkage", "reg"):  # the last call chooses it with only its own points
        if tuned in learner.get_params():
            learner = clone(learner).set_params(**{tuned: 0.1})
    found = clone(learner)
    for part in np.array_split(np.arange(N), 4):
        found.partial_fit(X[part], labels[part])
    one = clone(learner).partial_fit(X, labels).get_mahalanobis_matrix()
    whole = clone(learner).fit(X, labels).get_mahalanobis_matrix()
    np.testing.assert_allclose(one, whole, rtol=1e-8, atol=1e-10)
    metric = found.get_mahalanobis_matrix()
    metric, whole = metric / np.linalg.norm(metric), whole / np.linalg.norm(whole)
    assert np.linalg.norm(metric - whole) < 0.5


TUPLES: dict[str, Callable[[Any], Any]] = {
    "ITML": lambda p: mf.ITML(preprocessor=p),
    "LSML": lambda p: mf.LSML(preprocessor=p),
    "MMC": lambda p: mf.MMC(preprocessor=p, max_iter=10),
    "SCML": lambda p: mf.SCML(
        preprocessor=p, n_basis=20, max_iter=100, output_iter=50, random_state=0
    ),
    "OASIS": lambda p: mf.OASIS(preprocessor=p, random_state=0),
    "SDML": lambda p: mf.SDML(preprocessor=p, balance_param=1e-4),
    "GMML": lambda p: mf.GMML(preprocessor=p),
}


@pytest.mark.parametrize("name", TUPLES)
def test_tuples_of_a_source_read_what_they_hold(name: str) -> None:
    learner, source = TUPLES[name], Stored(X)
    size = learner(None)._tuple_size
    index = np.random.RandomState(0).randint(-50, 50, (60, size))  # some negative
    y = (np.resize([1, -1], 60),) if size == 2 else ()
    found, expected = learner(source).fit(index, *y), learner(X).fit(index, *y)
    np.testing.assert_allclose(found.pair_score(index[:, :2]), expected.pair_score(index[:, :2]))
    assert source.rows_read < N
    formed = Stored(X)
    assert mf.Covariance(preprocessor=formed).fit(index[:, 0]).n_features_in_ == D
    assert formed.rows_read < N
    with pytest.raises(mf.exceptions.PreprocessorError, match="0 to 2999"):
        learner(Stored(X)).fit(index + N, *y)


@pytest.mark.parametrize("name", ["Covariance", "RCA", "LFDA", "DMLMJ", "GMML_Supervised"])
def test_what_is_no_number_is_named_and_nothing_is_lost(name: str) -> None:
    learner, labels, _ = OF_POINTS[name]
    bad = X.copy()
    bad[2500, 1] = np.nan
    learner = clone(learner).partial_fit(X, labels)
    before = learner.components_.copy()
    with (
        working_memory(64 << 10),
        pytest.raises(ValueError, match=r"NaN or infinity in rows \d+ to \d+"),
    ):
        learner.partial_fit(sources.Rows(bad), labels)
    np.testing.assert_array_equal(learner.components_, before)
    with pytest.raises(ValueError, match="features"):
        learner.partial_fit(X[:, :3], labels)
    np.testing.assert_array_equal(learner.components_, before)
    learner.partial_fit(X, labels)


@pytest.mark.filterwarnings("ignore:The distance that RCA learned is worse")
@pytest.mark.parametrize("name", ["RCA", "LFDA"])
def test_validation_reads_all_points(name: str) -> None:
    learner, labels, _ = OF_POINTS[name]
    with working_memory(64 << 10):
        fitted = clone(learner).fit(Stored(X), labels, validate=True)
    assert fitted.validation_.n_held_out > 0


def test_a_part_in_which_one_class_has_weight_is_refused() -> None:
    for points in (X[:3], sources.Rows(X[:3])):
        sdml = clone(OF_POINTS["SDML_Supervised"][0]).partial_fit(X, Y)
        before = sdml.components_.copy()
        with pytest.raises(ValueError, match="at least 2 classes of a weight above 0"):
            sdml.partial_fit(points, [0, 0, 1], [1, 0, 0])
        np.testing.assert_array_equal(sdml.components_, before)


def test_parts_after_fit_begin_anew() -> None:
    for name in ("Covariance", "LFDA", "RCA"):
        learner, labels, _ = OF_POINTS[name]
        learner = clone(learner).fit(2 * X, labels)
        with pytest.warns(UserWarning, match="begins anew"):
            learner.partial_fit(X, labels)
        expected = clone(learner).partial_fit(X, labels).components_
        np.testing.assert_allclose(learner.components_, expected, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize(
    ("learner", "text"),
    [
        (lambda: mf.GMML_Supervised().partial_fit(X, np.zeros(N)), "2 classes, together"),
        (lambda: mf.LFDA().partial_fit(X, np.zeros(N)), "2 classes, together"),
        (lambda: mf.ANMM().partial_fit(X, np.zeros(N)), "2 classes, together"),
        (lambda: mf.DMLMJ().partial_fit(X, np.zeros(N)), "2 classes, together"),
        (lambda: mf.GMML_Supervised().partial_fit(X, Y + 0.5), "class labels"),
        (lambda: mf.LFDA().partial_fit(X, Y).partial_fit(X, Y.astype(str)), "text"),
        (lambda: mf.GMML_Supervised(prior="covariance").partial_fit(X, Y), "prior='covariance'"),
        (lambda: mf.RCA().partial_fit(X, None), "chunks: Expected"),
        (lambda: mf.Covariance().fit(sources.Rows(X[:, :0])), "0 feature"),
        (lambda: mf.LFDA().partial_fit(X, None), "y"),
        (lambda: mf.Covariance().partial_fit(np.ones((3, 2))), "2 different points"),
        (lambda: mf.Covariance().fit(sources.Rows(np.ones((3, 2)))), "2 different points"),
        (lambda: mf.RCA().fit(sources.Rows(X[:9]), np.arange(9)), "two different points"),
    ],
)
def test_bad_parts(learner: Callable[[], Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        learner()
