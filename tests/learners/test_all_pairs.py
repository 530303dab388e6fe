"""NCA, MCML, LDML and MLKR: results, and kinds of labels."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from reference import squared_distances
from reference_losses import ldml, nca, on_itself
from scipy.special import expit
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import scale

from metricfast import LDML, MCML, MLKR, NCA, losses
from metricfast.learners import trained
from metricfast.learners.linear import LinearLearner
from metricfast.losses._call import BoundLoss
from metricfast.solvers import Adam
from metricfast.training.problem import Problem

X, Y = load_iris(return_X_y=True)
X = scale(X)


def scatter_of(weights):
    """Return the gradient by M: the sum of w_ij times the outer product of x_i - x_j."""
    both = weights + weights.T
    return X.T @ (np.diag(both.sum(1)) - both) @ X


def test_mcml_is_the_minimum_over_all_metrics():
    """The objective is convex in M, so the optimality conditions suffice: G >= 0 and G M = 0."""
    model = MCML(tol=1e-12, judge=None).fit(X, Y)
    M = model.get_mahalanobis_matrix()
    D = squared_distances(model.transform(X), model.transform(X))
    np.fill_diagonal(D, np.inf)
    p = np.exp(-D) / np.exp(-D).sum(1, keepdims=True)
    q = ((Y[:, None] == Y) & np.isfinite(D)) / 49
    gradient = scatter_of(q - p)
    size = np.linalg.norm(scatter_of(q))
    assert np.linalg.eigvalsh(gradient).min() > -1e-4 * size
    assert abs(np.trace(gradient @ M)) < 1e-4 * size


def pairs_of_one_class(model, points):
    """Return which pairs are of one class, and the model's probabilities."""
    Z = model.transform(points)
    same, probability = Y[:, None] == Y, expit(model.bias_ - squared_distances(Z, Z))
    for matrix in (same, probability):
        np.fill_diagonal(matrix, 0)
    return same, probability


def test_ldml_is_the_minimum_over_all_metrics():
    """Convex in M and b: the gradient by M is positive semidefinite and vanishes where M does not,
    and that by b is zero: as many pairs are expected to be of one class as are.
    """
    model = LDML(tol=1e-12, max_iter=1000, judge=None).fit(X, Y)
    M = model.get_mahalanobis_matrix()
    same, probability = pairs_of_one_class(model, X)
    assert probability.sum() == pytest.approx(same.sum(), rel=1e-4)
    weights = same - probability
    gradient = 2 * X.T @ (np.diag(weights.sum(1)) - weights) @ X
    size = np.linalg.norm(2 * X.T @ (np.diag(same.sum(1)) - same) @ X)
    assert np.linalg.eigvalsh(gradient).min() > -1e-3 * size
    assert abs(np.trace(gradient @ M)) < 1e-3 * size


def test_the_bias_is_the_best_where_iterations_were_chosen():
    noisy = np.c_[X, np.random.default_rng(0).normal(size=(len(X), 6))]
    same, probability = pairs_of_one_class(LDML(max_iter=1000, random_state=0).fit(noisy, Y), noisy)
    assert probability.sum() == pytest.approx(same.sum(), rel=1e-6)


def test_an_interrupted_fit_leaves_the_bias_that_belongs_to_the_map():
    states = []

    def interrupt(state):
        states.append(state)
        if state.iteration == 4:
            raise KeyboardInterrupt

    model = LDML(n_components=2, judge=None, callbacks=[interrupt])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    loss = on_itself(ldml(model.bias_))
    assert loss(model.transform(X), Y) == pytest.approx(min(s.objective for s in states))


@pytest.mark.parametrize("load", [load_iris, load_wine])
@pytest.mark.parametrize("init", ["identity", "pca", "lda"])
def test_final_objective_is_that_of_scikit_learn(load, init):
    points, labels = load(return_X_y=True)
    points = scale(points)
    settings = {"init": init, "n_components": 2, "max_iter": 1000}
    model = NCA(**settings, init_scale=None, judge=None).fit(points, labels)
    peer = NeighborhoodComponentsAnalysis(**settings).fit(points, labels)
    expected = on_itself(nca())(peer.transform(points), labels)
    assert model.objective_ == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("learner", [NCA, MCML, LDML, MLKR])
def test_a_fit_of_more_than_a_minute_says_so_before_it_begins(learner, monkeypatch):
    """Of 12,000 points, all of whose pairs take 6 ns each at 32 features, 100 times."""
    points = np.random.default_rng(0).normal(size=(12_000, 32))
    for name in ("_candidates", "_begin"):
        monkeypatch.setattr(LinearLearner, name, lambda *_: pytest.fail("begun"))
    for params in ({"max_iter": 20}, {"n_components": 2}, {"solver": "adam"}, {"n_jobs": 8}):
        with pytest.raises(pytest.fail.Exception, match="begun"):
            learner(**params).fit(points, np.arange(12_000) % 5)
    with (
        pytest.warns(
            UserWarning, match="all pairs of 12,000 points: 100 iterations, .* may take 2 minute"
        ),
        pytest.raises(pytest.fail.Exception, match="begun"),
    ):
        learner(n_jobs=1).fit(points, np.arange(12_000) % 5)


DIABETES, TARGETS = load_diabetes(return_X_y=True)
DIABETES = scale(DIABETES)


def test_it_ends_as_low_as_metric_learn():
    # The objective of metric_learn 0.7.0, MLKR(init="pca", n_components=2).fit(X, y), computed from
    # its components_.
    model = MLKR(init="pca", n_components=2, judge=None).fit(DIABETES, TARGETS)
    assert model.objective_ < 1047353.7264


@pytest.mark.parametrize("solver", ["lbfgs", Adam(max_epochs=2)])
def test_units_and_origin_of_the_targets_do_not_matter(solver):
    settings = {"solver": solver, "n_components": 2, "random_state": 0}
    settings["callbacks"] = [lambda s: s.iteration == 5]
    expected = MLKR(**settings).fit(DIABETES, TARGETS)
    for exponent in (-300, 20, 300):
        model = MLKR(**settings).fit(DIABETES, TARGETS * 2.0**exponent)
        np.testing.assert_array_equal(model.components_, expected.components_)
        assert model.objective_ == expected.objective_ * 4.0**exponent
    moved = MLKR(**settings).fit(DIABETES, TARGETS + 1e6)
    np.testing.assert_allclose(moved.components_, expected.components_, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("factor", [1e-160, 1e160])
def test_targets_without_squares_are_refused(factor):
    with pytest.raises(ValueError, match="y is spread over about 2"):
        MLKR().fit(DIABETES, TARGETS * factor)


def test_infinite_targets():
    with pytest.raises(ValueError, match="Input y contains infinity"):
        MLKR().fit(DIABETES, np.where(TARGETS > 100, np.inf, TARGETS))


def test_targets_of_any_type():
    settings = {"n_components": 2, "callbacks": [lambda s: s.iteration == 3]}
    expected = MLKR(**settings).fit(DIABETES, TARGETS).components_
    for targets in (TARGETS.astype(int), list(TARGETS), TARGETS.astype(object)):
        np.testing.assert_array_equal(MLKR(**settings).fit(DIABETES, targets).components_, expected)


@pytest.mark.parametrize("loss", [losses.SupCon(), losses.Compiled(metric="inner_product")])
def test_a_loss_that_depends_on_where_zero_is_cannot_be_that_of_a_linear_learner(loss):
    class Learner(LinearLearner):
        def _problem(self, data):
            return Problem(data, loss)

    with pytest.raises(ValueError, match=r"is a loss of inner products, .* Use EmbeddingLearner"):
        Learner().fit(X, Y)


def test_a_learner_without_a_problem_says_so():
    class Learner(LinearLearner):
        pass

    with pytest.raises(TypeError, match=r"abstract .*_problem"):
        Learner()


@pytest.mark.parametrize("judge", ["auto", None])
def test_a_loss_in_python_without_weights_takes_copies_of_points(judge):
    def without_weights(Z, y):
        return losses.NCA()(Z, y)

    class Own(NCA):
        def _problem(self, data):
            return Problem(data, without_weights, n_jobs=self.n_jobs)

    copies = np.repeat(X, 2, axis=0), np.repeat(Y, 2)
    own, same = (kind(max_iter=3, judge=judge, tol=0) for kind in (Own, NCA))
    assert own.fit(*copies).n_iter_ > 0
    if judge is not None:
        assert own.judgement_.n_held_out == same.fit(*copies).judgement_.n_held_out > 0
    with pytest.raises(ValueError, match="sample_weight must be None: without_weights has"):
        Own(judge=None).fit(X, Y, sample_weight=np.arange(1.0, len(X) + 1))


@pytest.mark.parametrize("learner", [NCA, MCML, LDML, MLKR])
def test_copies_of_points_are_looked_at_once(learner, monkeypatch):
    seen, plain = [], BoundLoss.__call__

    def evaluate(self, Z, *arguments):
        seen.append(len(Z))
        return plain(self, Z, *arguments)

    monkeypatch.setattr(BoundLoss, "__call__", evaluate)
    stop = [lambda state: state.iteration == 5]
    learner = partial(learner, callbacks=stop, judge=None)
    few = learner().fit(np.repeat(X, 3, axis=0), np.repeat(Y, 3))
    assert set(seen) == {len(np.unique(np.column_stack([X, Y]), axis=0))}
    monkeypatch.setattr(trained, "deduplicate_if_smaller", lambda data: data)
    every = learner().fit(np.repeat(X, 3, axis=0), np.repeat(Y, 3))
    assert max(seen) == 3 * len(X)
    assert few.objective_ == pytest.approx(every.objective_)
    np.testing.assert_allclose(few.components_, every.components_, rtol=1e-5, atol=1e-7)
