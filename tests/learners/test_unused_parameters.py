"""Parameters that would be ignored are refused."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from trained import embedding_learner

import metricfast as mf
from metricfast import losses
from metricfast.embeddings import Linear
from metricfast.samplers import ClassBalanced
from metricfast.solvers import LBFGS, SGD, Adam, AdamW, Subgradient

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(24, 3)), np.arange(24) % 2
OBJECTS = [LBFGS(2), Adam(max_epochs=1), AdamW(max_epochs=1), SGD(max_epochs=1), Subgradient()]
LINEAR = [mf.NCA, mf.MCML, mf.LDML, mf.MLKR, mf.NCMML, mf.LMNN]
PRESETS = [mf.LogRatioLearner, mf.TripletLearner, mf.ProxyNCALearner]
SOME = {
    "max_iter": 3, "min_iter": 3, "tol": 0.25, "convergence_tol": 0.25, "max_epochs": 3,
    "learning_rate": 0.25, "batch_size": 12,
}  # fmt: skip


def refused(learner, **params):
    with pytest.raises(
        ValueError, match=f"{next(iter(params))} must be .*its default.*with solver"
    ):
        learner.set_params(**params).fit(X, Y)


@pytest.mark.parametrize("solver", ["adam", *OBJECTS], ids=repr)
@pytest.mark.parametrize("kind", LINEAR)
def test_linear_learners(kind, solver):
    known = kind().get_params(deep=False)
    names = {"max_iter", "min_iter", "tol", "convergence_tol"} & set(known)
    assert names
    for name in names:
        refused(kind(solver=solver), **{name: SOME[name]})


@pytest.mark.parametrize("solver", ["lbfgs", *OBJECTS], ids=repr)
@pytest.mark.parametrize("kind", PRESETS)
def test_learners_of_embeddings(kind, solver):
    names = ["learning_rate", "batch_size", "max_epochs"]
    for name in names[: 2 if solver == "lbfgs" else 3]:
        refused(kind(solver=solver), **{name: SOME[name]})


def test_parts_of_embedding_learners_that_are_not_used():
    refused(embedding_learner(losses.NCA(), solver="lbfgs"), sampler=ClassBalanced(2))
    refused(mf.TripletLearner(solver=LBFGS(2), judge=None), m_per_class=2)
    refused(mf.LogRatioLearner(solver="lbfgs"), n_anchors=2)
    with pytest.raises(ValueError, match=r"proxy_lr_factor must be 1\.0, its default, unless"):
        embedding_learner(losses.NCA(), proxy_lr_factor=3.0).fit(X, Y)


def test_what_reaches_its_solver_is_taken():
    assert mf.NCA(max_iter=3, tol=1e-9, judge=None).fit(X, Y).n_iter_ <= 3
    assert mf.NCA(max_iter=np.int64(100), solver=Adam(max_epochs=2)).fit(X, Y).n_iter_ == 2
    model = embedding_learner(losses.NCA(), Linear(2), max_epochs=2, batch_size=12)
    assert model.fit(X, Y).n_iter_ == 2
    assert model.set_params(solver="lbfgs", batch_size=None).fit(X, Y).n_iter_ <= 2


def test_scikit_learn_s_tools_see_the_learner_as_before():
    learner = mf.NCA(max_iter=3, solver="adam")
    assert hasattr(learner, "partial_fit")
    with pytest.raises(ValueError, match="max_iter"):
        learner.partial_fit(X, Y)
    assert clone(learner).get_params()["max_iter"] == 3
    learner.set_params(max_iter=100, solver=Adam(max_epochs=1)).partial_fit(X, Y)
    pipeline = mf.neighbors.KNeighborsClassifier(3, metric=mf.NCA(judge=None))
    grid = [{"metric__max_iter": [2, 3]}, {"metric__solver": ["adam"]}]
    assert np.isfinite(GridSearchCV(pipeline, grid, cv=2).fit(X, Y).best_score_)


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (mf.MMC_Supervised(diagonal_c=2.0), "diagonal_c must be 1.0, its default, with diagonal"),
        (mf.SCML_Supervised(basis=np.eye(3), n_basis=2), "n_basis must be None where `basis`"),
    ],
    ids=["MMC", "SCML"],
)
def test_learners_of_tuples(learner, message):
    with pytest.raises(ValueError, match=message):
        learner.fit(X, Y)
