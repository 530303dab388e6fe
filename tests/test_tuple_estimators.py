"""The contract of every learner on pairs, triplets or quadruplets."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
from registry import data_for, index_tuples, make, of_tuples
from scipy.sparse import csr_array
from sklearn.base import is_classifier
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.preprocessing import StandardScaler

import metricfast as mf

X, Y = load_iris(return_X_y=True)
X -= X.mean(axis=0)  # bilinear similarities depend on the origin
START = ("prior", "init")  # parameters that hold a matrix M

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
every_learner = pytest.mark.parametrize("learner", of_tuples(), ids=lambda each: each.__name__)


def start_of(learner: type) -> str | None:
    """The name of the parameter that holds a matrix M."""
    names = inspect.signature(learner).parameters
    return next((name for name in START if name in names and is_linear(learner)), None)


def tuples(learner: type, labels=Y) -> list[np.ndarray]:
    """Return the arguments of `fit`, with indices instead of points."""
    return index_tuples(learner._tuple_size, labels)


def formed(learner: type, points=X, labels=Y) -> tuple[np.ndarray, ...]:
    return data_for(learner, points, labels)


def scores(model, points=X) -> np.ndarray:
    return model.pair_score(points[np.random.RandomState(1).randint(len(points), size=(50, 2))])


def is_linear(learner: type) -> bool:
    return issubclass(learner, mf.MahalanobisMixin)


@every_learner
def test_fit_returns_self_and_learns_something(learner):
    model = make(learner)
    data = formed(learner)
    assert model.fit(*data) is model
    assert model.n_features_in_ == 4
    assert model.preprocessor_ is None
    assert is_classifier(model)
    assert model.classes_.tolist() == [-1, 1]
    assert np.isfinite(scores(model)).all()
    assert model.score(*data) > 0.75
    assert set(model.predict(data[0])) <= {-1, 0, 1}


@every_learner
@pytest.mark.parametrize(
    "preprocessor",
    [X, X.tolist(), lambda index: X[index], csr_array(X), lambda index: csr_array(X[index])],
    ids=["array", "list", "function", "sparse", "function of sparse"],
)
def test_indices_give_what_their_points_give(learner, preprocessor):
    expected = make(learner).fit(*formed(learner))
    index, *labels = tuples(learner)
    model = make(learner, preprocessor=preprocessor).fit(index, *labels)
    assert model.n_features_in_ == 4
    np.testing.assert_allclose(scores(model), scores(expected), rtol=1e-6)
    np.testing.assert_allclose(
        model.decision_function(index), expected.decision_function(X[index]), rtol=1e-6, atol=1e-9
    )
    np.testing.assert_array_equal(model.predict(index), model.predict(X[index]))
    assert model.score(index, *labels) == pytest.approx(model.score(X[index], *labels))


@every_learner
def test_another_fit_forgets_the_first(learner):
    wine, kinds = load_wine(return_X_y=True)
    wine = StandardScaler().fit_transform(wine)
    model = make(learner).fit(*formed(learner)).fit(*formed(learner, wine, kinds))
    expected = make(learner).fit(*formed(learner, wine, kinds))
    assert model.n_features_in_ == 13
    np.testing.assert_array_equal(scores(model, wine), scores(expected, wine))
    with pytest.raises(ValueError, match="X has 4 features, but"):
        model.decision_function(formed(learner)[0])


@every_learner
def test_float32_is_kept(learner):
    single = make(learner).fit(*formed(learner, X.astype(np.float32)))
    double = make(learner).fit(*formed(learner))
    assert scores(single, X.astype(np.float32)).dtype == np.float32
    if is_linear(learner):
        assert single.components_.dtype == np.float32
        assert single.transform(X.astype(np.float32)).dtype == np.float32
        assert double.components_.dtype == np.float64
    correlation = np.corrcoef(scores(single, X.astype(np.float32)), scores(double))[0, 1]
    assert correlation > 0.98


@every_learner
def test_results_repeat(learner):
    name = start_of(learner)
    params = {} if name is None else {name: "random"}
    first, second = (make(learner, **params).fit(*formed(learner)) for _ in range(2))
    np.testing.assert_array_equal(scores(first), scores(second))


@every_learner
def test_leading_directions(learner):
    if not is_linear(learner) or "n_components" not in inspect.signature(learner).parameters:
        pytest.skip("no n_components")
    plain = {"shrinkage": 0} if "shrinkage" in inspect.signature(learner).parameters else {}
    M = make(learner, **plain).fit(*formed(learner)).get_mahalanobis_matrix()
    values, vectors = np.linalg.eigh(M)
    for n_components in (1, 3, 4):
        model = make(learner, n_components=n_components, **plain).fit(*formed(learner))
        assert model.components_.shape[0] <= n_components
        leading = vectors[:, -n_components:] * values[-n_components:] @ vectors[:, -n_components:].T
        np.testing.assert_allclose(
            model.get_mahalanobis_matrix(), leading, rtol=1e-6, atol=1e-8 * values[-1]
        )
    for wrong in (0, 5, 1.5):
        with pytest.raises(ValueError, match="Invalid n_components, must be in"):
            make(learner, n_components=wrong).fit(*formed(learner))


@every_learner
def test_transformed_points_have_names(learner):
    if not is_linear(learner):
        pytest.skip("no transform")
    model = make(learner).set_output(transform="pandas").fit(*formed(learner))
    embedded = model.transform(X)
    assert isinstance(embedded, pd.DataFrame)
    prefix = learner.__name__.lower()
    assert list(embedded.columns) == [f"{prefix}{i}" for i in range(embedded.shape[1])]
    assert list(model.get_feature_names_out()) == list(embedded.columns)


@every_learner
def test_cross_validation_and_grid_search(learner):
    data = formed(learner)
    assert np.mean(cross_val_score(make(learner), *data, cv=3)) > 0.7
    index, *labels = tuples(learner)
    grid = {"preprocessor": [X, lambda index: X[index * 7 % len(X)]]}
    search = GridSearchCV(make(learner), grid, cv=3).fit(index, *labels)
    assert search.best_index_ == 0
    assert search.score(index, *labels) > 0.7
