"""The table of gerrymandering in bad_input.md: a case for each row, run for both learners."""

import warnings

import numpy as np
import pytest
from bad_input import changed, check, read_table
from scipy.sparse import csr_array
from sklearn.datasets import load_digits, load_iris
from trained import configured

from metricfast import AsymmetricSimilarity, NeighborhoodGerrymandering
from metricfast.embeddings import Linear

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["a", "b", "c"])[Y]
TABLE = read_table("Gerrymandering")
LEARNERS = [NeighborhoodGerrymandering, AsymmetricSimilarity]
ZERO = Linear(init=np.zeros((2, 4)))
COSTS = 1 - np.eye(3)


def fit(learner, *data, **params):
    model = configured(learner(random_state=0), **{"max_epochs": 2} | params)
    return model.fit(*(data or (X, Y)))


def fitted():
    return fit(AsymmetricSimilarity)


def maps(model):
    if isinstance(model, NeighborhoodGerrymandering):
        return [model.components_]
    return [model.components_query_, model.components_database_]


CASES = {
    "k-database": lambda learner: fit(learner, n_neighbors=150),
    "k-given-database": lambda learner: fit(learner, X, Y, X[::25], Y[::25], n_neighbors=7),
    "k-validation": lambda learner: fit(learner, n_neighbors=140, early_stopping=True),
    "k-classes": lambda learner: fit(learner, X[::50], Y[::50], n_neighbors=1, judge=None),
    "k-float": lambda learner: fit(learner, n_neighbors=2.5),
    "loss_matrix-shape": lambda learner: fit(learner, loss_matrix=np.zeros((2, 2))),
    "loss_matrix-negative": lambda learner: fit(learner, loss_matrix=-COSTS),
    "loss_matrix-nan": lambda learner: fit(learner, loss_matrix=COSTS * np.nan),
    "loss_matrix-diagonal": lambda learner: fit(learner, loss_matrix=np.ones((3, 3))),
    "loss_matrix-text": lambda learner: fit(learner, loss_matrix="other"),
    "init-zero": lambda learner: fit(learner, init=np.zeros((2, 4))),
    "init-zero-embeddings": lambda learner: fit(learner, query=ZERO, database=ZERO),
    "warm-components": lambda learner: (
        fit(learner, warm_start=True).set_params(n_components=2).fit(X, Y)
    ),
    "warm-text": lambda learner: fit(learner, warm_start="x"),
    "matrix-sparse": lambda learner: fit(learner, csr_array(X), Y, parameterization="M"),
    "matrix-components": lambda learner: fit(learner, parameterization="M", n_components=2),
    "matrix-solver": lambda learner: fit(learner, parameterization="M", solver="lbfgs"),
    "matrix-regularizer": lambda learner: fit(learner, parameterization="M", regularizer="factors"),
    "fit-tiny": lambda learner: fit(learner, X * 1e-150, Y),
    "fit-huge": lambda learner: fit(learner, X * 1e150, Y),
    "database-labels": lambda learner: fit(learner, X, Y, X),
    "database-points": lambda learner: fit(learner, X, Y, None, Y),
    "database-length": lambda learner: fit(learner, X, Y, X, Y[:-1]),
    "database-width": lambda learner: fit(learner, X, Y, X[:, :3], Y),
    "database-nan": lambda learner: fit(learner, X, Y, changed(np.nan, X), Y),
    "database-labels-nan": lambda learner: fit(learner, X, Y, X, np.where(Y == 0, np.nan, Y)),
    "database-one-class": lambda learner: fit(learner, X[:50], Y[:50], X[:50], Y[:50]),
    "class-unseen": lambda learner: fit(learner, X, Y, X[:99], Y[:99]),
    "class-type": lambda learner: fit(learner, X, Y, X, NAMES),
    "predict-unfitted": lambda learner: learner().predict(X),
    "predict-labels": lambda learner: fitted().predict(X, X),
    "predict-class": lambda learner: fitted().predict(X, X, Y + 1),
    "predict-small": lambda learner: fitted().predict(X, X[:2], Y[:2]),
    "predict-length": lambda learner: fitted().predict(X, X, Y[:-1]),
    "neighbors-database": lambda learner: fit(learner, X, Y, X, Y).kneighbors(),
    "neighbors-queries": lambda learner: fitted().kneighbors(X_database=X),
    "score-length": lambda learner: fitted().score(X, Y[:-1]),
    "side": lambda learner: fit(learner, tied=True).transform(X, side="other"),
    "side-unsaid": lambda learner: fit(learner, X, Y, X, Y).transform(X),
    "components-tall": lambda learner: fit(learner, n_components=5, init="pca"),
    "components-most": lambda learner: fit(learner, n_components=9),
    "init-lists": lambda learner: fit(learner, init=np.eye(2, 4).tolist()),
    "tied-embedding": lambda learner: fit(learner, tied=True, query=Linear(), database=Linear()),
    "embedding-type": lambda learner: fit(learner, query="linear"),
    "embedding-widths": lambda learner: fit(learner, query=Linear(2)),
}


def case(function):
    """Add a case with more than one line of code; `k_class` is the row `k-class`."""
    CASES[function.__name__.replace("_", "-").replace("loss-m", "loss_m")] = function
    return function


@case
def k_class(learner):
    with pytest.warns(UserWarning, match="neighbours is right for 2 of 102 points to train on"):
        model = fit(learner, X[:102], Y[:102], judge=None)
    assert model.history_["infeasible"] == [2] * model.n_iter_


@case
def k_feasible(learner):
    model = fit(learner, X[:103], Y[:103], judge=None)  # two votes of three win
    assert model.history_["infeasible"] == [0, 0]


@case
def loss_matrix_free(learner):
    model = fit(learner, loss_matrix=[[0, 0, 1], [0, 0, 1], [1, 1, 0]], judge=None)
    assert model.history_["error"][-1] < 0.1


@case
def fit_sparse(learner):
    assert all(np.isfinite(L).all() for L in maps(fit(learner, csr_array(X), Y)))


@case
def fit_constant(learner):
    assert all(np.isfinite(L).all() for L in maps(fit(learner, np.full_like(X, 0.1), Y)))


@case
def fit_constant_column(learner):
    points, labels = (part[:300] for part in load_digits(return_X_y=True))
    constant = (points == points[0]).all(axis=0)
    for L in maps(fit(learner, points, labels, init="lda", n_components=9)):
        assert np.abs(L[:, constant]).max() < 1e-12 * np.abs(L).max()


@case
def fit_large_steps(learner):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = fit(learner, learning_rate=1e6)
    assert all(np.isfinite(L).all() for L in maps(model))


@case
def class_queries(learner):
    model = fit(learner, X[:100], Y[:100], X, Y)
    assert model.score(X[100:], Y[100:]) > 0.8


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.__name__)
@pytest.mark.parametrize("name", TABLE)
def test_row(name, learner):
    if TABLE[name].learner in (None, learner.__name__):
        check(TABLE[name], lambda: CASES[name](learner))


def test_every_row_has_a_case_and_every_case_a_row():
    assert set(TABLE) == set(CASES)
