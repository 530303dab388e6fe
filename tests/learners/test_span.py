"""With more features than points, training in the span of the points gives the same map."""

from copy import deepcopy
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import pairwise_distances

import metricfast as mf
import metricfast.learners.linear as linear
import metricfast.predictors.multi_metric as multi_metric
from metricfast import losses
from metricfast._core.wide_map import WideMap
from metricfast.embeddings import Linear
from metricfast.learners.gerrymandering.regularizers import penalty
from metricfast.neighbors import MultiMetricLMNN
from metricfast.selection import Judge
from metricfast.solvers import Adam
from metricfast.training import adapters
from metricfast.training.objective import Objective
from metricfast.training.preconditioner import FlatParameters
from metricfast.training.problem import Problem
from metricfast.training.samples import Samples
from metricfast.training.span import LazyBasis, MapOfSpan, trains_in_span
from metricfast.training.starts import in_units

RNG = np.random.default_rng(0)
N, D = 40, 90
Y = RNG.integers(0, 3, N)
X = RNG.normal(size=(N, D)) * RNG.uniform(0.2, 3, D) + 1.5 * np.eye(3, D)[Y]
STARTS = {
    "auto": {"judge": Judge(errors=0, n_splits=5)},
    "identity": {"init": "identity"},
    "pca": {"init": "pca", "n_components": 5},
    "lda": {"init": "lda", "n_components": 2},
    "random": {"init": "random"},
    "a few random rows": {"init": "random", "n_components": 4},
    "array": {"init": RNG.normal(size=(7, D)) / 20},
    "validation points": {"init": "identity", "early_stopping": True},
}
few = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:The map fits:UserWarning"
)


OF_NUMBERS = [(mf.MLKR, start) for start in STARTS if start != "lda"]


@few
@pytest.mark.parametrize(
    ("learner", "start"),
    [*product([mf.LDML, mf.LMNN, mf.MCML, mf.NCA, mf.NCMML], STARTS), *OF_NUMBERS],
)
def test_the_map_is_that_of_training_on_all_features(learner, start, monkeypatch):
    few_steps = {"judge": None, "max_iter": 5, "random_state": 0}
    model = learner(**few_steps | STARTS[start])
    found = model.fit(X, Y).components_
    monkeypatch.setattr(linear, "LazyBasis", lambda X: None)
    full = model.fit(X, Y).components_
    # MLKR takes the square root of a singular scatter, which halves the number of digits.
    precision = 1e-6 if learner is mf.MLKR else 1e-9
    np.testing.assert_allclose(found, full, atol=precision * np.abs(full).max())


EMBEDDINGS = {
    "SupCon": lambda **more: mf.EmbeddingLearner(losses.SupCon(), **more),
    "four rows": lambda **more: mf.EmbeddingLearner(losses.SupCon(), Linear(4), **more),
    "NCA": lambda **more: mf.EmbeddingLearner(losses.NCA(reduction="mean"), **more),
    "proxies": lambda **more: mf.EmbeddingLearner(losses.ProxyNCA(), **more),
    "log ratio": lambda **more: mf.EmbeddingLearner(losses.LogRatio(), **more),
}


@pytest.fixture
def from_few_features(monkeypatch):
    """Train embeddings in the span of points of any number of features."""
    monkeypatch.setattr(adapters, "MANY_FEATURES", 0)


@few
@pytest.mark.usefixtures("from_few_features")
@pytest.mark.parametrize("name", EMBEDDINGS)
def test_an_embedding_by_all_points_is_that_of_training_on_all_features(name, monkeypatch):
    few_steps = {"solver": "lbfgs", "max_epochs": 5, "judge": None, "random_state": 0}
    model = EMBEDDINGS[name](**few_steps)
    found = deepcopy(model.fit(X, Y))
    assert found.parameters_[0].shape[1] == D
    monkeypatch.setattr(adapters, "MANY_FEATURES", 10**6)
    full = model.fit(X, Y)
    np.testing.assert_allclose(found.loss_curve_, full.loss_curve_, rtol=1e-7)
    np.testing.assert_allclose(
        pairwise_distances(found.transform(X)), pairwise_distances(full.transform(X)), atol=1e-5
    )
    if name == "proxies":
        np.testing.assert_allclose(
            pairwise_distances(found.proxies_, found.transform(X)),
            pairwise_distances(full.proxies_, full.transform(X)),
            atol=1e-5,
        )


@few
@pytest.mark.usefixtures("from_few_features")
@pytest.mark.parametrize("name", EMBEDDINGS)
def test_an_embedding_by_batches_lowers_the_loss_and_keeps_the_rest(name):
    model = EMBEDDINGS[name](max_epochs=20, judge=None, random_state=0).fit(X, Y)
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    (L,), new = model.parameters_, RNG.normal(size=(5, D))
    assert L.shape == (model.n_components_, D)
    assert model.transform(new).shape == (5, model.n_components_)
    embedded, _ = model.embedding_.forward([L], new - model.mean_)
    np.testing.assert_allclose(model.transform(new), embedded, atol=1e-12)
    distance = model.pair_distance(new[None, :2])[0]
    assert model.get_metric()(*new[:2]) == pytest.approx(distance)
    if L.shape[0] == D and not model.embedding_.normalize:
        # Directions that no training point has keep their length.
        outside = new[0] - X.T @ np.linalg.lstsq(X.T, new[0], rcond=None)[0]
        assert np.linalg.norm(L @ outside) == pytest.approx(np.linalg.norm(outside))
    first = model.loss_curve_[0]
    again = model.set_params(warm_start=True, max_epochs=1).fit(X, Y)
    assert again.loss_curve_[0] < first
    assert again.partial_fit(X, Y).parameters_[0].shape == L.shape


@pytest.mark.usefixtures("from_few_features")
def test_given_distances_stay_where_nothing_is_learned():
    noise = RNG.normal(size=(N, D))
    model = mf.EmbeddingLearner(
        losses.NCA(reduction="mean"), judge=Judge(errors=50), random_state=0
    )
    model.fit(noise, Y)
    new = RNG.normal(size=(5, D))
    np.testing.assert_allclose(pairwise_distances(model.transform(new)), pairwise_distances(new))


@few
@pytest.mark.parametrize("rows", [None, 4])
def test_a_metric_of_each_class_is_that_of_training_on_all_features(rows, monkeypatch):
    model = MultiMetricLMNN(2, rows, judge=None, max_iter=5)
    found = deepcopy(model.fit(X, Y))
    monkeypatch.setattr(multi_metric, "trains_in_span", lambda *_: False)
    monkeypatch.setattr(linear, "LazyBasis", lambda X: None)
    full = model.fit(X, Y)
    assert found.maps_.shape == full.maps_.shape == (3, rows or D, D)
    new = RNG.normal(size=(20, D))
    for points in (None, new):
        for ours, theirs in zip(found.kneighbors(points), full.kneighbors(points), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


@few
@pytest.mark.parametrize("learner", [mf.LDML, mf.LMNN, mf.MCML, mf.MLKR, mf.NCA, mf.NCMML])
def test_a_point_of_weight_two_counts_as_two_points(learner, monkeypatch):
    spans, weight = [], np.arange(N) % 3
    noting = lambda X: spans.append(LazyBasis(X)) or spans[-1]  # noqa: E731
    monkeypatch.setattr(linear, "LazyBasis", noting)
    model = learner(judge=None, max_iter=5)
    found = model.fit(X, Y, sample_weight=weight).components_
    assert len(spans) == 1
    model.fit(X, Y, sample_weight=2 * weight)
    assert len(spans) == 1  # 78 points are too many for 90 features
    monkeypatch.setattr(linear, "LazyBasis", lambda X: None)
    full = model.fit(X, Y, sample_weight=weight).components_
    precision = 1e-6 if learner is mf.MLKR else 1e-9
    np.testing.assert_allclose(found, full, atol=precision * np.abs(full).max())


@few
@pytest.mark.parametrize("params", [{}, {"init": "random"}, {"init": "pca", "n_components": 5}])
@pytest.mark.parametrize("learner", [mf.NCA, mf.LMNN])
def test_sparse_points_have_the_span_of_dense_points(learner, params, monkeypatch):
    """A map of few rows is smaller than an array of the points, which then stay sparse."""
    points = np.where(RNG.uniform(size=X.shape) < 0.3, X, 0)
    model = learner(judge=None, max_iter=5, random_state=0, **params)
    expected = model.fit(points, Y).components_
    widths, evaluate = set(), Objective.__call__

    def noting(self, *given):
        widths.add(self.X.shape[1])
        return evaluate(self, *given)

    monkeypatch.setattr(Objective, "__call__", noting)
    found = model.fit(csr_array(points), Y).components_
    assert widths == {D if "n_components" in params else N}
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())


@few
def test_callbacks_and_later_fits_see_the_map_of_all_features():
    maps = []
    model = mf.NCA(
        max_iter=3, judge=None, warm_start=True,
        callbacks=[lambda state: maps.append(state.parameters[0])],
    )  # fmt: skip
    model.fit(X.astype(np.float32), Y)
    assert {L.shape for L in maps} == {(D, D)}
    first = model.components_
    assert first.dtype == np.float32
    second = model.fit(X.astype(np.float32), Y).components_
    outside = np.eye(D) - (Q := np.linalg.qr((X - X.mean(axis=0)).T)[0]) @ Q.T
    np.testing.assert_allclose(second @ outside, first @ outside, atol=1e-5)


class Diagonal(FlatParameters):
    def vector(self, arrays):
        return np.diag(arrays[0]).astype(float)

    def arrays(self, vector):
        return [np.diag(vector)]

    def pullback(self, gradients):
        return np.diag(gradients[0]).copy()


class DiagonalNCA(mf.NCA):
    def _problem(self, data):
        shape = (data.X.shape[1], data.X.shape[1])
        return Problem(data, losses.NCA("log"), preconditioner=Diagonal([shape]))


class SparseNCA(mf.NCA):
    def _problem(self, data):
        def penalty(arrays, start):
            lengths = np.sqrt((arrays[0] ** 2).sum(axis=0) + 1e-4)
            return lengths.sum(), [arrays[0] / lengths]

        return Problem(data, losses.NCA("log"), penalty=penalty)


@few
@pytest.mark.parametrize("learner", [DiagonalNCA, SparseNCA])
def test_another_problem_trains_on_all_features(learner, monkeypatch):
    model = learner(init="identity", judge=None, max_iter=3)
    found = model.fit(X, Y).components_
    monkeypatch.setattr(linear, "LazyBasis", lambda X: None)
    np.testing.assert_array_equal(found, model.fit(X, Y).components_)


@pytest.mark.parametrize(
    ("model", "width"),
    [
        (mf.LMNN(), N),
        (mf.LMNN(solver="adam"), D),
        (mf.LDML(), N),
        (mf.NeighborhoodGerrymandering(solver="lbfgs"), N),
        (mf.NeighborhoodGerrymandering(), N),
        (mf.NeighborhoodGerrymandering(parameterization="M"), D),
    ],
)
def test_an_evaluation_sees_the_span_alone(model, width, monkeypatch):
    widths = []

    def evaluate(self, x, batch=None):
        widths.append((self.X.shape[1], self.samples.n_features))
        raise KeyboardInterrupt

    monkeypatch.setattr(Objective, "__call__", evaluate)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert widths == [(width, D)]


@few
def test_a_basis_is_computed_only_for_problems_in_the_span(monkeypatch):
    monkeypatch.setattr(LazyBasis, "basis", property(lambda self: pytest.fail("not needed")))
    mf.NeighborhoodGerrymandering(parameterization="M", judge=None).fit(X, Y)
    with pytest.raises(pytest.fail.Exception, match="not needed"):
        mf.NCA(max_iter=1).fit(X, Y)


@few
@pytest.mark.parametrize("regularizer", ["frobenius2", "trace"])
def test_a_penalty_pulls_in_the_span_as_in_all_features(regularizer):
    """The penalty of the identity is a sum over the span and over all other directions."""
    samples = Samples(X - X.mean(axis=0), Y, np.arange(3), span=LazyBasis(X - X.mean(axis=0)))
    basis = samples.span.basis
    L = 0.3 * np.eye(D) + 0.05 * basis @ RNG.normal(size=(N, N)) @ basis.T
    rest = 0.3 * (np.eye(D) - basis @ basis.T)
    model = mf.NeighborhoodGerrymandering(regularizer=regularizer)
    model.classes_ = np.arange(3)
    inside = Objective(model._problem(samples), [L])
    full = Objective(model._problem(replace(samples, span=None)), [L])
    assert inside.start[0].shape == (N, N) and full.start[0].shape == (D, D)
    assert inside.x0.size == N * N  # steps are relative to the map of the span
    outside, _ = penalty(regularizer, [rest])
    (value, slope), (whole, gradient) = inside(inside.x0), full(full.x0)
    assert value + outside == pytest.approx(whole, rel=1e-12)
    np.testing.assert_allclose(
        inside.start[0].T @ slope.reshape(N, N),
        (L @ basis).T @ gradient.reshape(D, D) @ basis,
        atol=1e-10 * np.abs(gradient).max(),
    )
    np.testing.assert_allclose(inside.learned(inside.x0)[0], L, atol=1e-12)


@few
@pytest.mark.parametrize("regularizer", ["frobenius2", "factors", "trace"])
def test_gerrymandering_ends_as_low_as_with_all_features(regularizer, monkeypatch):
    params = {"judge": None, "regularizer": regularizer, "solver": Adam(max_epochs=200)}
    model = mf.NeighborhoodGerrymandering(random_state=0, **params)
    found = model.fit(X, Y).objective_
    monkeypatch.setattr(linear, "LazyBasis", lambda X: None)
    assert found <= model.fit(X, Y).objective_


def test_gerrymandering_continues_from_a_fit_in_the_span():
    model = mf.NeighborhoodGerrymandering(random_state=0, judge=None, solver=Adam(max_epochs=2))
    before = model.fit(X, Y).components_
    assert before.shape == (D, D)
    assert (model.partial_fit(X[:30], Y[:30]).components_ != before).any()
    first = mf.NeighborhoodGerrymandering(random_state=0).partial_fit(X, Y)
    assert first.partial_fit(X[::-1], Y[::-1]).components_.shape == (D, D)


def test_a_constant_feature_is_not_standardised():
    """After centring, a feature that is constant in a fold differs from its mean by rounding."""
    points = X[:, :3].copy()
    points[:, 1] = 0.1 / 3 - 0.011
    L = in_units(np.eye(3), Samples(points, np.arange(N) % 2))
    assert L[1, 1] == 1 and np.diag(L).min() == 1
    rare = np.full((N, D), -1 / 37)
    rare[:, ::2] = X[:, ::2]
    for points in (rare, rare[1:], csr_array(rare[:-1]), rare[2:].astype(np.float32)):
        L = in_units(np.eye(D), Samples(points, np.arange(points.shape[0]) % 2))
        assert (np.diag(L)[1::2] == 1).all() and np.diag(L).max() < 1e3


def test_a_map_leaves_the_span_as_it_came():
    basis = LazyBasis(X).basis
    for rows in (3, D):
        L = RNG.normal(size=(rows, D))
        start = MapOfSpan(L, basis)
        np.testing.assert_allclose(start.outer(start.inner), L, atol=1e-12)
    for units in (np.full(D, 3.0), RNG.uniform(0.1, 2, D), np.geomspace(1e-9, 1e9, D)):
        start = MapOfSpan(WideMap(units), basis)
        dense = MapOfSpan(np.diag(units), basis)
        tolerance = {"rtol": 1e-9, "atol": 1e-9 * units.max()}
        np.testing.assert_allclose(start.outer(start.inner).array(), np.diag(units), **tolerance)
        np.testing.assert_allclose(start.rest_norm, dense.rest_norm, rtol=1e-9)
        np.testing.assert_allclose(
            start.inner.T @ start.inner, dense.inner.T @ dense.inner, atol=1e-9 * units.max() ** 2
        )
    assert not trains_in_span(*X.T.shape)


@pytest.mark.parametrize("axes", [None, "principal", "mixed"])
def test_bases_are_orthonormal_and_do_not_depend_on_the_order(axes):
    points = np.random.default_rng(0).normal(size=(6, 20)) * np.arange(1, 21)
    basis = LazyBasis(points, axes).basis
    np.testing.assert_allclose(basis.T @ basis, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(basis @ (basis.T @ points.T), points.T, atol=1e-9)
    if axes is not None:
        np.testing.assert_allclose(LazyBasis(points[::-1], axes).basis, basis, atol=1e-9)
    if axes == "mixed":  # no axis has much more variance than another
        variances = np.square(points @ basis).sum(axis=0)
        assert variances.max() < 5 * variances.min()
