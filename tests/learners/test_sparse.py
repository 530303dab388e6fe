"""Sparse points give the same results as dense points."""

from functools import partial
from inspect import signature
from itertools import product

import numpy as np
import pytest
from reference import peak_memory
from registry import CHUNKS, entry_of, make, of_points
from scipy.sparse import coo_array, csc_matrix, csr_array, csr_matrix, issparse, random_array
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from thinned import thinned
from trained import configured

from metricfast import LMNN, NCA, NCMML
from metricfast._core import sparse as _sparse
from metricfast._core.initialize import initialize_components
from metricfast._core.scaling import center_and_rescale
from metricfast.learners.embedding.metric import EmbeddedMetricMixin
from metricfast.learners.linear import LinearLearner
from metricfast.solvers import Adam
from metricfast.training.embedded import map_points

# With few points, `judge="auto"` may keep the given distance.
pytestmark = pytest.mark.filterwarnings("ignore:No training was better")

POINTS, LABELS = load_digits(n_class=4, return_X_y=True)
# Half of the values are zero, and some columns entirely; distances have no ties.
POINTS = POINTS[:300, :40] / 16 * np.random.default_rng(0).uniform(0.9, 1.1, (300, 40))
LABELS = LABELS[:300]
SPARSE = csr_array(POINTS)
LEARNERS = [
    learner
    for learner in of_points()
    if issubclass(learner, LinearLearner)
    and learner._accept_sparse
    and "solver" in signature(learner).parameters
]
WEIGHT = np.random.default_rng(0).integers(1, 3, 300)


def quick(learner, solver, **more):
    """Return a learner with few iterations; NCA has folds for early stopping."""
    settings = {
        "judge": "auto" if learner is NCA else None,
        "solver": Adam(max_epochs=2) if solver == "adam" else solver,
        "n_components": 3,
        "max_iter": 6,
        "random_state": 0,
        "callbacks": [lambda s: s.iteration == 5],
    }
    return configured(learner(), **settings | more)


SOLVED = list(product(LEARNERS, ("lbfgs", "adam")))
GIVEN = {
    **{init: ({"init": init}, 1.0) for init in ("auto", "pca", "random")},
    **{name: ({}, 2.0**exponent) for name, exponent in (("small", -40), ("large", 40))},
    "given": ({"init": np.eye(40)[3:5], "n_components": None}, 1.0),
}
untuned = pytest.mark.filterwarnings("ignore:At the initial map the regularizer")  # of C
one_learner = pytest.mark.parametrize(
    ("learner", "solver"), thinned(SOLVED, lambda case: case[0] is NCA)
)


@untuned
@pytest.mark.parametrize(
    ("learner", "solver", "given"),
    thinned(
        ((*solved, given) for solved in SOLVED for given in GIVEN),
        lambda case: case[0] is NCA or case[2] == "auto",
    ),
)
def test_the_map_is_that_of_the_array(learner, solver, given):
    params, unit = GIVEN[given]
    dense, sparse = (
        quick(learner, solver, **params).fit(X * unit, LABELS, sample_weight=WEIGHT)
        for X in (POINTS, SPARSE)
    )
    scale = np.abs(dense.components_).max()
    np.testing.assert_allclose(sparse.components_, dense.components_, atol=1e-7 * scale)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-9)
    found, expected = (sparse.transform(X * unit) for X in (SPARSE, POINTS))
    np.testing.assert_allclose(found, expected, atol=1e-12)


@untuned
@one_learner
def test_float32_is_kept(learner, solver):
    dense, sparse = (
        quick(learner, solver).fit(X.astype(np.float32), LABELS) for X in (POINTS, SPARSE)
    )
    assert sparse.components_.dtype == np.float32
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-2)


@untuned
@one_learner
def test_any_format_and_nothing_is_modified(learner, solver):
    model = quick(learner, solver, judge=None)
    expected = model.fit(SPARSE, LABELS).components_
    for form in (csr_matrix, csc_matrix, coo_array):
        given = form(POINTS)
        copy = given.copy()
        np.testing.assert_allclose(model.fit(given, LABELS).components_, expected, rtol=1e-9)
        np.testing.assert_array_equal(given.toarray(), copy.toarray())


@one_learner
def test_nan_is_refused(learner, solver):
    broken = SPARSE.copy()
    broken.data[3] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        quick(learner, solver).fit(broken, LABELS)


@pytest.mark.filterwarnings("ignore:The distance that NCA learned is worse")
def test_validate():
    model, expected = (
        NCA(init="lda", n_components=3).fit(X, LABELS, validate=True) for X in (SPARSE, POINTS)
    )
    np.testing.assert_allclose(model.validation_.costs, expected.validation_.costs, atol=1e-7)


def test_embedded_points_have_mean_zero():
    L = np.random.default_rng(0).normal(size=(3, 40))
    Z = map_points(SPARSE, L)
    np.testing.assert_allclose(Z, map_points(POINTS - POINTS.mean(axis=0), L), atol=1e-12)


@pytest.mark.parametrize("exponent", [-300, -11, 0, 9, 12, 300])
@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_rescale_agrees_with_the_dense_one(exponent, shift):
    points = POINTS.copy()
    points[:, 0] += shift  # the spread does not depend on the mean
    points = points * 2.0**exponent
    expected = center_and_rescale(points)
    found, power = _sparse.rescale(csr_array(points))
    assert power == expected[1]
    np.testing.assert_allclose(
        found.toarray() - found.toarray().mean(axis=0), expected[0], atol=1e-9
    )
    assert _sparse.rescale(csr_array((3, 4)))[1] == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_many_features_stay_sparse(weighted):
    points = random_array((300, 3000), density=0.01, rng=np.random.default_rng(0), format="csr")
    # Four directions with large variance.
    points = csr_array(points + csr_array(np.outer(np.arange(300) % 5 == 0, np.arange(3000) < 30)))
    weight = np.random.default_rng(0).integers(0, 3, 300).astype(float) if weighted else None
    labels = np.arange(300) % 5 == 0
    start = partial(initialize_components, points, labels, "auto", 1, sample_weight=weight)
    assert peak_memory(start) < 300 * 3000 * 8 / 4
    (found,) = start()
    rows = points.toarray()
    rows = rows[np.repeat(np.arange(300), 1 if weight is None else weight.astype(int))]
    rows -= rows.mean(axis=0)
    axis = rows.T @ np.linalg.eigh(rows @ rows.T)[1][:, -1]
    axis /= np.linalg.norm(axis) * np.sign(axis @ found)
    np.testing.assert_allclose(found, axis, atol=1e-9)


@pytest.mark.filterwarnings("ignore:The map fits")
@pytest.mark.parametrize("learner", thinned(LEARNERS, lambda learner: learner in (NCA, LMNN)))
def test_a_fit_of_many_features_stays_sparse(learner):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300)
    points = random_array((300, 10000), density=0.005, rng=rng, format="lil")
    points[:, :3] += labels[:, None]
    points = csr_array(points)
    model = quick(learner, "lbfgs", n_components=2)
    assert peak_memory(lambda: model.fit(points, labels)) < 300 * 10000 * 8 / 2
    assert model.components_.shape == (2, 10000)


@pytest.mark.parametrize("kind", [csr_matrix, csr_array, csc_matrix, coo_array])
def test_damaged_matrices(kind):
    X = POINTS[:40]
    learner = NCA(callbacks=[bool])
    fitted = NCA(callbacks=[bool]).fit(X, LABELS[:40])
    for damage in DAMAGES[kind is coo_array]:
        damaged = kind(X)
        damage(damaged)
        for use in (lambda X: learner.fit(X, LABELS[:40]), fitted.transform):
            with pytest.raises(ValueError, match="X is a damaged sparse matrix"):
                use(damaged)
        with pytest.raises(ValueError, match="preprocessor is a damaged sparse matrix"):
            NCA(preprocessor=damaged).fit(np.arange(40), LABELS[:40])


def _set(name, place, value):
    def damage(X):
        getattr(X, name)[place] = value

    return damage


DAMAGES = (
    [
        _set("indices", 3, 5000),
        _set("indices", 3, -1),
        _set("indptr", 0, 2),
        _set("indptr", -1, 10**6),
        _set("indptr", 4, 10**6),
    ],
    [_set("row", 3, 40), _set("col", 3, 40), _set("col", 3, -1)],
)


@pytest.mark.filterwarnings("ignore:L-BFGS stopped after 5")
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_class_means_of_sparse_points(dtype, weight):
    points = (POINTS + (POINTS > 0)).astype(dtype)  # means far from the origin
    dense, sparse = (
        NCMML(n_components=3, max_iter=5, judge=None).fit(X, LABELS, sample_weight=weight)
        for X in (points, csr_array(points))
    )
    assert sparse.components_.dtype == dtype
    tolerance = 1e-9 if dtype == np.float64 else 1e-3
    scale = np.abs(dense.components_).max()
    np.testing.assert_allclose(sparse.components_, dense.components_, atol=tolerance * scale)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=tolerance)


TABLE = np.random.default_rng(0).integers(0, 4, (90, 6))
TABLE[:, 0] = CLASSES = np.arange(90) % 3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("learner", of_points(), ids=lambda learner: learner.__name__)
def test_behind_encoded_columns(learner):
    """The default output of a ColumnTransformer of categories is sparse."""
    y = np.arange(90) // 2 % 40 if entry_of(learner).takes == CHUNKS else CLASSES
    models = []
    for sparse in (True, False):
        encoder = OneHotEncoder(sparse_output=sparse)
        encoded = make_column_transformer((encoder, [0, 1, 2]), remainder="passthrough")
        encoded.set_params(sparse_threshold=1.0)
        assert issparse(encoded.fit_transform(TABLE)) == sparse
        models.append(make_pipeline(encoded, make(learner)).fit(TABLE, y))
    pairs = models[1][:-1].transform(TABLE)[np.arange(90).reshape(45, 2)]
    if not issubclass(learner, (LinearLearner, EmbeddedMetricMixin)):  # others stay sparse
        found, expected = (model[-1].pair_score(pairs) for model in models)
        np.testing.assert_array_equal(found, expected)
    if hasattr(models[0], "transform"):
        points = models[1][:-1].transform(TABLE)
        np.testing.assert_allclose(
            models[0].transform(TABLE), models[0][-1].transform(points), rtol=0, atol=1e-9
        )
