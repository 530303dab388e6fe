"""More features than points: learners work in the span of the points."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from bad_input import other_layouts
from reference import peak_memory
from stored import Stored
from thinned import thinned

import metricfast as mf
from metricfast import losses
from metricfast._core.scatter_statistics import ScatterStatistics
from metricfast._core.wide_map import WideMap
from metricfast.constraints import Constraints
from metricfast.learners.base.closed_form import ClosedFormLearner, Statistics
from metricfast.neighbors import MultiMetricLMNN
from metricfast.training import span

RNG = np.random.default_rng(0)
N, D = 30, 45
Y = np.arange(N) % 3
X = RNG.normal(size=(N, D)) * np.linspace(0.5, 3, D) + 2 * np.eye(3, D)[Y]
X[:, 7] = 5  # constant
NEW = RNG.normal(size=(20, D))
A, B, C, E = Constraints(Y).positive_negative_pairs(40, random_state=0)
PAIRS = np.r_[np.c_[A, B], np.c_[C, E]], np.repeat([1, -1], 40)
QUADRUPLETS = (np.c_[A, B, C, E],)
TRIPLETS = (Constraints(Y).generate_knntriplets(X, 3, 5),)
CHUNKS = X, np.arange(N) // 2

SMALL_STEPS = {"max_iter": 2000, "tol": 1e-10}
BASES = {"max_iter": 1000, "random_state": 0}
CASES = [
    (mf.Covariance, {}, (X,)),
    (mf.Covariance, {"n_components": 5}, (X,)),
    (mf.LFDA, {}, (X, Y)),
    (mf.LFDA, {"shrinkage": 0.3, "n_components": 4}, (X, Y)),
    (mf.LFDA, {"embedding_type": "orthonormalized"}, (X, Y)),
    (mf.ANMM, {}, (X, Y)),
    (mf.DMLMJ, {"n_components": 4}, (X, Y)),
    *((mf.RCA, {"shrinkage": s}, CHUNKS) for s in ("auto", 0, 0.3)),
    (mf.RCA, {"shrinkage": 0.3, "n_components": 4}, CHUNKS),
    (mf.RCA_Supervised, {"random_state": 0, "n_chunks": 10}, (X, Y)),
    (mf.RCA_Supervised, {"random_state": 0, "n_chunks": 10, "n_components": 4}, (X, Y)),
    (mf.GMML, {"preprocessor": X}, PAIRS),
    (mf.GMML, {"preprocessor": X, "n_components": 4}, PAIRS),
    (mf.GMML_Supervised, {}, (X, Y)),
    (mf.KISSME, {"preprocessor": X, "regularization": 0.1}, PAIRS),
    (mf.KISSME_Supervised, {"n_components": 4}, (X, Y)),
    (mf.XQDA, {}, (X, Y)),
    (mf.ITML, {"preprocessor": X, "gamma": 0.1}, PAIRS),
    *((mf.ITML_Supervised, {"shrinkage": s, "random_state": 0}, (X, Y)) for s in (0, None)),
    (mf.ITML_Supervised, {"n_components": 3, "gamma": 0.1, "random_state": 0}, (X, Y)),
    (mf.LSML, {"preprocessor": X, "tol": 1e-9}, QUADRUPLETS),
    (mf.LSML_Supervised, {"tol": 1e-9, "random_state": 0}, (X, Y)),
    (mf.MMC, {"preprocessor": X, **SMALL_STEPS}, PAIRS),
    (mf.MMC, {"preprocessor": X, "init": "covariance", **SMALL_STEPS}, PAIRS),
    *(
        (mf.MMC_Supervised, {"shrinkage": s, "random_state": 0, **SMALL_STEPS}, (X, Y))
        for s in (0.3, None)
    ),
    (mf.MMC_Supervised, {"shrinkage": 0.3, "diagonal": True, "random_state": 0}, (X, Y)),
    (mf.SCML, {"preprocessor": X, **BASES}, TRIPLETS),
    (mf.SCML, {"preprocessor": X, "n_components": 3, **BASES}, TRIPLETS),
    (mf.SCML_Supervised, BASES, (X, Y)),
    (mf.SDML, {"preprocessor": X, "sparsity_param": 0, "balance_param": 1e-3}, PAIRS),
    (mf.SDML_Supervised, {"sparsity_param": 0, "random_state": 0}, (X, Y)),
    *(
        (mf.SDML_Supervised, {"random_state": 0, "sparsity_param": s}, (X, Y))
        for s in (0.01, 0.05, 0.2)
    ),
]
# Learners whose result is not restricted to the span of the points.
IN_FEATURES = (mf.SCML_Supervised, mf.SDML_Supervised)
# Solvers that end near the optimum.
TOLERANCE = {mf.LSML: 1e-6, mf.LSML_Supervised: 1e-6, mf.MMC: 1e-6, mf.MMC_Supervised: 1e-6}
quiet = pytest.mark.filterwarnings("ignore::UserWarning")


def all_distances(learner, points):
    i, j = np.triu_indices(len(points), 1)
    return learner.pair_distance(np.stack([points[i], points[j]], axis=1))


@quiet
@pytest.mark.parametrize(("kind", "params", "data"), CASES)
def test_distances_are_those_of_the_features_as_given(kind, params, data, monkeypatch):
    found = kind(**params).fit(*data)
    few_rows = found._map.shape[0] <= N or kind in IN_FEATURES
    assert few_rows or isinstance(found._map, WideMap)
    monkeypatch.setattr(span, "_MOST_ROWS", 0)
    direct = kind(**params).fit(*data)
    assert isinstance(direct._map, np.ndarray)
    for points in (X, NEW):
        expected = all_distances(direct, points)
        tolerance = TOLERANCE.get(kind, 1e-8) * expected.max()
        np.testing.assert_allclose(all_distances(found, points), expected, atol=tolerance)
    for name in ("shrinkage_", "shrinkage_target_", "bounds_"):
        if hasattr(direct, name):
            ours, theirs = getattr(found, name), getattr(direct, name)
            assert ours == theirs if isinstance(theirs, str) else np.allclose(ours, theirs)


@pytest.mark.parametrize("init", ["identity", "zeros"])
@pytest.mark.parametrize("projection", [None, "psd"])
def test_similarities_are_those_of_the_features_as_given(init, projection, monkeypatch):
    oasis = mf.OASIS_Supervised(init=init, projection=projection, random_state=0)
    found = oasis.fit(X / 9, Y).bilinear_
    monkeypatch.setattr(span, "_MOST_ROWS", 0)
    direct = oasis.fit(X / 9, Y).bilinear_
    np.testing.assert_allclose(found, direct, atol=1e-10)


@quiet
@pytest.mark.parametrize("kind", [mf.ITML_Supervised, mf.RCA_Supervised, mf.MMC_Supervised, mf.NCA])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_square_map_is_formed_when_asked_for(kind, dtype):
    params = {"shrinkage": 0.3} | ({"n_chunks": 10} if kind is mf.RCA_Supervised else {})
    if kind is mf.NCA:
        params = {"judge": None, "max_iter": 5}
    points = X.astype(dtype)
    learner = kind(random_state=0, **params).fit(points, Y)
    tol = {"rtol": 1e-3, "atol": 1e-3} if dtype == np.float32 else {"rtol": 1e-9, "atol": 1e-9}
    L = learner.components_
    assert L.shape == (D, D) and L.dtype == dtype
    embedded = learner.transform(points)
    assert embedded.dtype == dtype
    np.testing.assert_allclose(embedded, points @ L.T, **tol)
    np.testing.assert_allclose(learner.get_mahalanobis_matrix(), L.T @ L, **tol)
    if kind is mf.MMC_Supervised:
        np.testing.assert_allclose(learner.A_, L.T @ L, **tol)
    pair = points[:2].astype(np.float64)
    distance = learner.pair_distance(pair[None])
    np.testing.assert_allclose(learner.get_metric()(*pair), distance[0], **tol)
    shares = np.square(L.astype(np.float64)).sum(axis=0)
    np.testing.assert_allclose(learner.feature_relevance(), shares / shares.sum(), **tol)
    assert len(learner.get_feature_names_out()) == D
    knn = mf.KNeighborsClassifier(3, metric=learner).fit(points, Y)
    distances, near = knn.kneighbors(points[:5])
    np.testing.assert_allclose(distances[:, 1], learner.pair_distance(points[near[:, :2]]), **tol)


def test_a_map_may_be_too_large_to_form():
    learner = mf.RCA(shrinkage=0.5).fit(*CHUNKS)
    learner.components_ = WideMap(np.ones(10**7))
    for form in (lambda: learner.components_, learner.get_mahalanobis_matrix):
        with pytest.raises(MemoryError, match=r"10,000,000 features is a matrix of .* GiB"):
            form()


@quiet
@pytest.mark.parametrize(
    "learner",
    thinned(
        [
            mf.NCA(),
            mf.LMNN(),
            mf.NCMML(),
            mf.LFDA(),
            mf.ANMM(),
            mf.DMLMJ(),
            mf.Covariance(),
            mf.GMML_Supervised(),
            mf.RCA_Supervised(random_state=0),
            mf.LSML_Supervised(n_constraints=20, random_state=0),
            mf.ITML_Supervised(n_constraints=20, random_state=0),
            mf.MMC_Supervised(n_constraints=20, max_iter=20, random_state=0),
            mf.SCML_Supervised(max_iter=500, random_state=0),
            mf.MCML(max_iter=5),
            mf.LDML(max_iter=5),
            mf.MLKR(max_iter=5),
            mf.EmbeddingLearner(losses.SupCon(), max_epochs=3, random_state=0),
            mf.TripletLearner(n_components=4, max_epochs=3, random_state=0),
            mf.ProxyNCALearner(max_epochs=3, judge=None, random_state=0),
            mf.SDML_Supervised(n_constraints=20, random_state=0),
        ],
        10,
    ),
    ids=lambda learner: type(learner).__name__,
)
def test_twenty_thousand_features(learner):
    y = np.arange(20) % 2
    points = RNG.normal(size=(20, 20_000)).astype(np.float32)
    points[:, :50] += 3 * y[:, None]
    assert peak_memory(lambda: learner.fit(points, y)) < 100e6  # a square map has 1.6 GB
    assert learner.transform(points[:3]).dtype == np.float32
    (L,) = learner._parameters if hasattr(learner, "_parameters") else [learner._map]
    assert L.shape[0] <= 20 or isinstance(L, WideMap)


@quiet
def test_a_map_of_each_class_of_twenty_thousand_features():
    y = np.arange(20) % 2
    points = RNG.normal(size=(20, 20_000))
    points[:, :50] += 3 * y[:, None]
    model = MultiMetricLMNN(2)
    assert peak_memory(lambda: model.fit(points, y)) < 100e6
    assert model.score(points, y) == 1


@quiet
@pytest.mark.parametrize(
    ("kind", "params", "data"), [c for c in CASES if "n_components" in c[0]().get_params()]
)
def test_as_many_rows_as_components(kind, params, data):
    learner = kind(**params | {"n_components": 40}).fit(*data)
    assert learner.n_components == 40
    assert learner.components_.shape == (40, D)
    assert kind in IN_FEATURES or not learner.components_[N:].any()
    if kind is mf.DMLMJ:
        assert learner.eigenvalues_.shape == (40,)
    with pytest.raises(ValueError, match=r"n_components.* in \[1, 45\]"):
        kind(**params | {"n_components": 46}).fit(*data)


class Standardized(ClosedFormLearner):
    """Depends on the axes of the features."""

    _requires_y = False

    def _statistics(self, X, y, weight, **_):
        return Statistics((ScatterStatistics(X.shape[1]).add(X, weight),))

    def _solve(self, statistics, setting):
        self.components_ = np.diag(statistics.sums[0].within.diagonal() + 1)


def test_learners_of_others_get_the_features_as_given():
    assert Standardized().fit(X).components_.shape == (D, D)


MANY = RNG.normal(size=(1000, D))  # NumPy reuses operands of more than 256 KB


@pytest.mark.parametrize("points", other_layouts(MANY))
def test_a_square_map_takes_points_of_any_layout(points):
    learner = mf.ANMM(shrinkage=0.3).fit(X, Y)
    np.testing.assert_allclose(learner.transform(points), learner.transform(MANY), atol=1e-12)


def test_points_of_a_source_and_copies_of_points():
    direct = mf.LFDA(shrinkage=0).fit(X, Y)
    np.testing.assert_array_equal(
        mf.LFDA(shrinkage=0).fit(Stored(X), Y).components_, direct.components_
    )
    twice, labels = np.repeat(X, 2, axis=0), np.repeat(Y, 2)
    weighted = mf.Covariance().fit(X, sample_weight=np.full(N, 2))
    np.testing.assert_allclose(
        all_distances(mf.Covariance().fit(twice, labels), NEW), all_distances(weighted, NEW)
    )


def test_a_prior_of_the_covariance_is_refused_without_work():
    points = RNG.normal(size=(10, 1000))
    with pytest.raises(np.linalg.LinAlgError, match="covariance matrix since it is not definite"):
        mf.GMML_Supervised(prior="covariance").fit(points, np.arange(10) % 2)


def test_a_model_with_a_square_map_is_saved(tmp_path):
    learner = mf.RCA(shrinkage=0.5).fit(*CHUNKS)
    mf.save(learner, tmp_path / "rca.safetensors")
    loaded = mf.load(tmp_path / "rca.safetensors")
    np.testing.assert_allclose(loaded.transform(NEW), learner.transform(NEW))


@quiet
@pytest.mark.parametrize(
    ("learner", "data"), [(mf.RCA(shrinkage=0.5), CHUNKS), (mf.NCA("identity", max_iter=3), (X, Y))]
)
def test_a_square_map_is_pickled_and_another_fit_replaces_it(learner, data):
    learner.fit(*data)
    copied = pickle.loads(pickle.dumps(learner))
    assert isinstance(copied._map, WideMap)
    np.testing.assert_array_equal(copied.transform(NEW), learner.transform(NEW))
    learner.fit(NEW[:, :3], np.arange(20) // 2)
    assert learner.components_.shape == (3, 3) and learner.transform(NEW[:, :3]).shape == (20, 3)
    with pytest.raises(AttributeError, match="'RCA' object has no attribute 'components_'"):
        mf.RCA().components_  # noqa: B018
