"""Warnings name the line of the user."""

import ast
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed
from registry import make, of_points
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import metricfast as mf
from metricfast import losses, metrics, neighbors, solvers
from metricfast._core import warn
from metricfast.constraints import Constraints
from metricfast.training.train import warn_of_cost

PACKAGE = Path(mf.__file__).parent
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = np.repeat([0, 1, 2], 20)
COLUMN = Y[:, None]
PAIRS = X[RNG.integers(0, 60, (30, 2))]
SIGNS = np.tile([1, -1], 15)
FLAT = np.c_[X, X[:, 0]]
STOPPED = mf.NCA(max_iter=1, judge=None)
SEARCH = GridSearchCV(
    make_pipeline(STOPPED, neighbors.KNeighborsClassifier()), {"nca__tol": [1e-9]}, cv=2
)
CASES = {
    "solver": lambda: STOPPED.fit(X, Y),
    "hinge": lambda: mf.LMNN(max_iter=1, judge=None).fit(X, Y),
    "fit_transform": lambda: STOPPED.fit_transform(X, Y),
    "set_output": lambda: clone(STOPPED).set_output(transform="pandas").fit_transform(X, Y),
    "pipeline": lambda: make_pipeline(StandardScaler(), STOPPED).fit(X, Y),
    "search": lambda: SEARCH.fit(X, Y),
    "deprecated": lambda: mf.RCA_Supervised(num_chunks=5).fit(X, Y),
    "score_pairs": lambda: mf.LFDA().fit(X, Y).score_pairs(PAIRS),
    "tuples": lambda: mf.ITML(max_iter=1).fit(PAIRS, SIGNS),
    "prior": lambda: mf.MMC(init="covariance").fit(FLAT[RNG.integers(0, 60, (30, 2))], SIGNS),
    "column": lambda: mf.LFDA().fit(X, COLUMN),
    "predictor": lambda: neighbors.KNeighborsClassifier().fit(X, COLUMN),
    "predict": lambda: neighbors.RadiusNeighborsRegressor(1e-9).fit(X, X[:, 0]).predict(X + 9),
    "classes": lambda: mf.LFDA().fit(X, np.arange(60) // 1.5 // 1),
    "constraints": lambda: Constraints([0, 0, 1, 1]).positive_negative_pairs(9, random_state=0),
    "partial_fit": lambda: mf.Covariance().fit(X).partial_fit(X),
    "report": lambda: metrics.retrieval_report(X, Y, X, Y),
    "validate": lambda: mf.NCA(solver=solvers.LBFGS(max_iter=1)).fit(X, Y, validate=True),
}


@pytest.mark.parametrize("name", CASES)
def test_a_warning_names_the_line_of_the_user(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CASES[name]()
    assert caught
    line = CASES[name].__code__.co_firstlineno
    assert {(each.filename, each.lineno) for each in caught} == {(__file__, line)}, caught[0]


def caught_in(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [Path(each.filename) for each in caught]


def test_the_fits_of_a_search_warn_once():
    search = GridSearchCV(STOPPED, {"tol": [1e-9, 1e-8]}, cv=3, scoring=lambda *_: 0, refit=False)
    for _ in range(2):
        assert caught_in(lambda: search.fit(X, Y)) == [Path(__file__)]


def test_workers_warn_once_at_the_line_of_the_learner(monkeypatch):
    monkeypatch.setattr(warn, "_GIVEN_BY_WORKER", set())
    fits = [delayed(clone(STOPPED).fit)(X, Y) for _ in range(6)]
    (path,) = caught_in(lambda: Parallel(2, backend="threading")(fits))
    assert PACKAGE in path.parents


ADAM = solvers.Adam(max_epochs=50)
COSTS = {
    "pairs": ([(10, 10)], 60_000, 60_000, 60_000, solvers.LBFGS(), "all pairs of 60,000 .*adam"),
    "parameters": ([(9000, 9000)], 3000, 128, 128, ADAM, r"all 81,000,000 .* 3\.6 GiB.* PCA"),
    "steps": ([(8, 8)], 100_000, 128, 8, ADAM, "takes 12,500 steps.* max_epochs, or larger"),
    "batches": ([(64, 64)], 10**6, 5000, 500, ADAM, r"1,000,000 points with 5,000 .* max_epochs"),
}


@pytest.mark.parametrize("name", COSTS)
def test_a_long_training_is_warned_of_with_what_is_faster(name):
    *how, message = COSTS[name]
    with pytest.warns(UserWarning, match=message) as caught:
        warn_of_cost(*how, 1)
    assert "on 1 thread(s)" in str(caught[0].message)
    warn_of_cost([(10, 10)], 1000, 1000, 1000, how[-1], 1)


@pytest.mark.parametrize(
    "learner",
    [
        mf.NCA(max_iter=2, judge=None),
        mf.EmbeddingLearner(losses.SupCon(), max_epochs=1, judge=None),
        mf.AsymmetricSimilarity(solver=solvers.Adam(max_epochs=1)),
        mf.NCAClassifier(max_epochs=1),
        mf.LFDA(),
        mf.ITML_Supervised(n_constraints=50),
        mf.LMNN(max_iter=2, judge=None),
        mf.NCMML(max_iter=2, judge=None),
        mf.NeighborhoodGerrymandering(solver=solvers.Adam(max_epochs=1)),
        mf.SCML_Supervised(max_iter=500, judge=None),
        mf.OASIS_Supervised(max_iter=1),
        neighbors.MultiMetricLMNN(max_iter=1, judge=None),
        mf.AutoLearner(),
    ],
    ids=lambda learner: type(learner).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:No learner was better")
def test_trainings_are_warned_of(learner, monkeypatch):
    monkeypatch.setattr(warn, "LONG", 0.0)
    with pytest.warns(UserWarning, match=r"may take 1 minute\(s\)"):
        learner.fit(X, Y)


def test_a_step_of_few_anchors_counts(monkeypatch):
    monkeypatch.setattr(warn, "LONG", 0.5)
    learner = mf.LogRatioLearner(max_epochs=50, judge=None, n_anchors=1)
    with pytest.warns(UserWarning, match=f"takes {len(X)} steps"):
        learner.fit(X, X[:, 0])
    learner.set_params(n_anchors=len(X) // 8).fit(X, X[:, 0])


def test_reports_and_comparisons_are_warned_of(monkeypatch):
    monkeypatch.setattr(warn, "LONG", 0.0)
    with pytest.warns(UserWarning, match="Ranking all .* references"):
        metrics.retrieval_report(X, Y)
    with pytest.warns(UserWarning, match="Ranking all .* references"):
        metrics.retrieval_report(X, X[:, 0])
    with pytest.warns(UserWarning, match=r"Trying .* learners .* time_limit"):
        mf.compare(X, Y, time_limit=None, callbacks=[lambda row: True], refit=False)
    with pytest.warns(UserWarning, match="distances between points of one class"):
        mf.LFDA(judge=None).fit(X, Y)


def test_only_what_is_judged_is_warned_of(monkeypatch):
    """A learner whose judge chooses nothing computes one map."""
    monkeypatch.setattr(warn, "LONG", 0.0)
    for shrinkage, expected in ((None, True), (0.3, False)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mf.LFDA(shrinkage=shrinkage).fit(X, Y)
        assert any("the judge compares" in str(each.message) for each in caught) == expected


def test_a_warning_names_a_parameter_of_its_learner():
    noise, named = RNG.normal(size=(60, 4)), []
    for learner in of_points():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            make(learner, quick=False).fit(noise, np.arange(60) % 5)
        for each in caught:
            if match := re.search(r"a number as (\w+) to learn", str(each.message)):
                names = [name.split("__")[-1] for name in make(learner).get_params()]
                assert match[1] in names, learner
                named.append(match[1])
    assert {"reg", "regularization", "shrinkage"} <= set(named)


def test_one_function_gives_the_warnings_of_the_package():
    for path in PACKAGE.rglob("*.py"):
        calls = [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
        ]
        names = {ast.unparse(call.func) for call in calls}
        if path.name != "warn.py":
            assert not names & {"warnings.warn", "warnings.warn_explicit", "warn"}, path
        # scikit-learn would name a line of its own.
        assert not any(word.arg == "warn" for call in calls for word in call.keywords), path
