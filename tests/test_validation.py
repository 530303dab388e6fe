"""``fit(..., validate=True)``: is the learned distance better than the Euclidean one?"""

from inspect import signature

import numpy as np
import pytest
from registry import make, of_points
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import DataConversionWarning
from trained import embedding_learner

from metricfast import (
    LMNN,
    MLKR,
    NCA,
    Covariance,
    MahalanobisMixin,
    PairsClassifierMixin,
    RCA_Supervised,
    losses,
)

X, Y = load_iris(return_X_y=True)


class Fixed(MahalanobisMixin):
    """A learner with a given map."""

    def __init__(self, L, preprocessor=None):
        super().__init__(preprocessor)
        self.L = L

    def fit(self, X, y, sample_weight=None, *, validate=False):
        points, _ = self._prepare_inputs(X, y)
        self.n_points_, self.weight_ = len(points), sample_weight
        self.components_ = np.asarray(self.L)
        if validate:
            self._validate_fit(X, y, sample_weight=sample_weight)
        return self


class FixedPairs(MahalanobisMixin, PairsClassifierMixin):
    def __init__(self, L, preprocessor=None):
        super().__init__(preprocessor)
        self.L = L

    def fit(self, pairs, y, *, validate=False):
        self._prepare_tuples(pairs, y)
        self.components_ = np.asarray(self.L)
        if validate:
            self._validate_fit(pairs, y)
        return self


GOOD = np.diag([0.0, 0.0, 1.0, 1.0])
BAD = np.diag([0.0, 1.0, 0.0, 0.0])


@pytest.mark.parametrize("preprocessor", [None, X])
def test_a_worse_distance_is_told(preprocessor):
    data = X if preprocessor is None else np.arange(150)
    with pytest.warns(UserWarning, match=r"Fixed learned is worse .* on 30 held-out points"):
        learner = Fixed(BAD, preprocessor).fit(data, Y, validate=True)
    found = learner.validation_
    assert found.measure == "neighbors" and found.n_held_out == 30
    assert found.name == "given distance" and "not better" in found.reason
    assert found.costs[1] > 0.3 > 0.1 > found.costs[0]
    assert learner.n_points_ == 150


def test_a_distance_that_is_no_worse_is_not():
    learner = Fixed(GOOD).fit(X, Y, sample_weight=np.ones(150), validate=True)
    given, learned = learner.validation_.costs
    assert learned <= given
    same = Fixed(np.eye(4)).fit(X, Y, validate=True).validation_
    assert same.costs[0] == same.costs[1]


@pytest.mark.parametrize("size", [2, 3])
def test_classes_of_few_points_are_held_out_as_a_whole(size):
    """A map that separates only the training classes is worse for new classes."""
    rng = np.random.RandomState(0)
    labels = np.repeat(np.arange(60), size)
    points = rng.normal(size=(60, 6))[labels] + 0.2 * rng.normal(size=(60 * size, 6))
    with pytest.warns(UserWarning, match=rf"is worse .* on {30 * size} held-out classes"):
        learner = Fixed(np.eye(6)[:1]).fit(points, labels, validate=True)
    found = learner.validation_
    assert found.unit == "classes" and found.n_held_out == 30 * size
    assert found.costs[0] < 0.65 < 0.9 < found.costs[1]
    embedding = embedding_learner(losses.SupCon(), max_epochs=1)
    with pytest.warns(UserWarning, match="worse"):
        found = embedding.fit(points, labels, validate=True).validation_
    assert found.unit == "classes" and found.n_held_out == 30 * size


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_continuous_targets():
    with pytest.raises(ValueError, match="y is too large for validate=True"):
        MLKR(max_iter=1, judge=None).fit(X, 1e30 * X[:, 2], validate=True)
    with pytest.warns(UserWarning, match="squared_error"):
        Fixed(BAD).fit(X, X[:, 2] + 0.5 * X[:, 3], validate=True)


def test_classes_of_one_point_and_text_labels():
    y = np.array(["setosa", "versicolor", "virginica"])[Y]
    y[0] = "rare"
    Fixed(GOOD).fit(X, y, validate=True)


def test_pairs():
    rng = np.random.RandomState(0)
    index = rng.randint(150, size=(300, 2))
    y = np.where(Y[index[:, 0]] == Y[index[:, 1]], 1, -1)
    with pytest.warns(UserWarning, match="order .* on 1.. held-out tuples"):
        worse = FixedPairs(BAD).fit(X[index], y, validate=True).validation_
    better = FixedPairs(GOOD, X).fit(index, y, validate=True).validation_
    assert better.costs[1] < better.costs[0] == worse.costs[0] < worse.costs[1]
    assert better.unit == "tuples" and better.name == "learned distance"


def test_it_is_off_by_default():
    learner = NCA(init="identity", max_iter=5, tol=1e-1).fit(X, Y)
    assert not hasattr(learner, "validation_")


@pytest.mark.filterwarnings("ignore:The map fits")
def test_what_cannot_be_judged_is_an_error():
    pairs = X[:20].reshape(10, 2, 4)
    with pytest.raises(ValueError, match=r"No part of the data .*held-out pairs are all similar"):
        FixedPairs(GOOD).fit(pairs, np.ones(10), validate=True)
    with pytest.raises(ValueError, match=r"No part of the data .*Found array with 0"):
        FixedPairs(GOOD).fit(pairs[:1], [1], validate=True)
    with pytest.raises(ValueError, match=r"cannot compare distances: No part .* n_neighbors=1"):
        LMNN(n_neighbors=1).fit(X[[0, 1, 100, 101]], [0, 0, 1, 1], validate=True)
    with pytest.raises(ValueError, match="cannot compare distances: Nothing could be held out"):
        Fixed(GOOD).fit(X[:3], [0, 1, 2], validate=True)
    learner = embedding_learner(losses.NCA(reduction="mean"), max_epochs=1)
    with pytest.raises(ValueError, match="cannot compare distances: Nothing could be held out"):
        learner.fit(X[:3], [0, 1, 2], X, Y, validate=True)
    with pytest.raises(ValueError, match="y must hold 150 labels, one per point; found 0"):
        Covariance().fit(X, [], validate=True)


WEIGHTED = [
    make(each)
    for each in of_points()
    if {"sample_weight", "validate"} <= signature(each.fit).parameters.keys()
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("learner", WEIGHTED, ids=lambda each: type(each).__name__)
def test_weights_reach_the_learner_that_is_judged(learner, monkeypatch):
    seen = {}
    monkeypatch.setattr(type(learner), "_validate_fit", lambda *_, **given: seen.update(given))
    weight = np.linspace(1, 2, 150)
    learner.fit(X, Y, sample_weight=weight, validate=True)
    np.testing.assert_array_equal(seen["sample_weight"], weight)


@pytest.mark.parametrize(
    "learner",
    [
        RCA_Supervised(n_chunks=20, random_state=0),
        embedding_learner(losses.NCA(reduction="mean"), max_epochs=1),
    ],
    ids=["RCA_Supervised", "EmbeddingLearner"],
)
def test_labels_in_a_column_are_judged_as_labels(learner):
    expected = clone(learner).fit(X, Y, validate=True)
    with pytest.warns(DataConversionWarning):
        found = clone(learner).fit(X, Y[:, None], validate=True)
    np.testing.assert_array_equal(found.validation_.costs, expected.validation_.costs)
    if hasattr(learner, "score"):
        with pytest.warns(DataConversionWarning):
            assert found.score(X, Y[:, None]) == expected.score(X, Y)
