"""Relevance of features, and the HTML table of a fitted learner."""

import numpy as np
import pandas as pd
import pytest
from registry import data_for, learners, make
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from working_memory import working_memory

import metricfast as mf

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)) * [1, 2, 5, 10]
Y = np.arange(60) % 3
X[:, 1] += 6 * Y  # the feature that separates classes


def mapped(L):
    learner = mf.Covariance().fit(X)
    learner.components_ = L
    return learner


def test_relevance_is_the_diagonal_of_m_in_spreads():
    L = RNG.normal(size=(3, 4))
    learner = mapped(L)
    M = learner.get_mahalanobis_matrix()
    np.testing.assert_allclose(learner.feature_relevance(), np.diag(M) / np.trace(M))
    own = np.diag(M) * X.var(axis=0)
    relevance = learner.feature_relevance(X)
    np.testing.assert_allclose(relevance, own / own.sum())
    np.testing.assert_allclose(learner.feature_relevance(csr_array(X)), relevance)
    np.testing.assert_allclose(learner.feature_relevance(X + 100), relevance)
    with working_memory(8 * 7 * X[0].nbytes):  # blocks of 7 points
        by_blocks = learner.feature_relevance(mf.sources.Rows(X + 100))
    np.testing.assert_allclose(by_blocks, relevance)
    turn, _ = np.linalg.qr(RNG.normal(size=(3, 3)))
    np.testing.assert_allclose(mapped(1e-3 * turn @ L).feature_relevance(X), relevance)
    units = [1e-3, 1, 60, 1e4]
    np.testing.assert_allclose(mapped(L / units).feature_relevance(X * units), relevance)
    np.testing.assert_allclose(mapped(1e300 * L).feature_relevance(1e200 * X), relevance)


def test_relevance_finds_the_feature_that_tells_classes_apart():
    for learner in (mf.LFDA(1), mf.LDML(max_iter=50), mf.NCA(n_components=1, tol=1e-2)):
        assert learner.fit(X, Y).feature_relevance(X).argmax() == 1


def test_relevance_of_indicators_and_of_nothing():
    learner = mf.LFDA(1, preprocessor=X).fit(np.arange(60), Y)
    np.testing.assert_array_equal(
        learner.feature_relevance(np.arange(60)), learner.feature_relevance(X)
    )
    np.testing.assert_array_equal(mapped(np.zeros((2, 4))).feature_relevance(X), np.zeros(4))
    with pytest.raises(ValueError, match="X must hold points that differ"):
        learner.feature_relevance(np.ones((5, 4)))
    with pytest.raises(ValueError, match="X has 3 features"):
        learner.feature_relevance(X[:, :3])
    with pytest.raises(NotFittedError):
        mf.LFDA().feature_relevance()
    assert not hasattr(mf.OASIS(), "feature_relevance")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("learner", learners(), ids=lambda each: each.__name__)
def test_html_shows_what_was_learned(learner):
    model = make(learner)
    assert "metricfast-learned" not in model._repr_html_()
    data = data_for(learner, X / X.std(axis=0), Y)
    shown = model.fit(*data)._repr_html_()
    assert shown.count("<table class='metricfast-learned'>") == 1
    assert "4 features" in shown
    assert ("diagonal of M" in shown) == hasattr(model, "feature_relevance")
    assert ("iterations" in shown.split("metricfast-learned")[1]) == (
        hasattr(getattr(model, "learner_", model), "n_iter_")
    )
    if getattr(getattr(model, "learner_", model), "loss_curve_", None):
        assert ">objective<" in shown or ">loss, last iteration<" in shown
    assert ("text-align: left'>chosen</th>" in shown) == hasattr(model, "judgement_")
    assert "metricfast-learned" in model._repr_mimebundle_()["text/html"]
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()
        assert not hasattr(model, "_repr_html_")


@pytest.mark.filterwarnings("ignore:The distance that LFDA learned is worse")
def test_html_names_features_and_escapes_them():
    frame = pd.DataFrame(X, columns=["a", "<b>", "c", "d"])
    learner = mf.LFDA(1).fit(frame, Y, validate=True).set_threshold(2.5)
    share = learner.feature_relevance()[1]
    learned = learner._repr_html_().split("metricfast-learned")[1]
    assert "<b>" not in learned
    for told in (
        f"&lt;b&gt; {share:.1%}",
        "4 features to 1 components",
        "at most 2.5",
        "neighbors, held out",
        "given distance",
    ):
        assert told in learned


def test_html_of_a_pipeline_is_that_of_scikit_learn():
    pipeline = make_pipeline(StandardScaler(), mf.LFDA(1)).fit(X, Y)
    assert "LFDA" in pipeline._repr_html_()


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (mf.KNeighborsClassifier(), ("60", "euclidean", "4")),
        (mf.KNeighborsRegressor(metric=(np.eye(2, 4), np.eye(2, 4))), ("V of shape (2, 4)",)),
        (
            mf.neighbors.RadiusNeighborsClassifier(metric=mf.LFDA(1)),
            ("LFDA", "4 features to 1 components"),
        ),
        (mf.NearestNeighbors(metric=np.eye(3, 4)), ("L of shape (3, 4)",)),
        (mf.MultiMetricLMNN(max_iter=2), ("3 maps of 4 features to 4 components", "chosen")),
        (
            mf.NCARegressor(periodic=True, max_epochs=3, n_estimators=2),
            ("Periodic(", "128 components"),
        ),
        (mf.NCAClassifier(max_epochs=3, periodic=False), ("Linear(", "loss, held out", "epochs")),
    ],
    ids=lambda given: type(given).__name__ if hasattr(given, "fit") else "",
)
def test_html_of_a_predictor(model, told):
    assert "metricfast-learned" not in model._repr_html_()
    shown = model.fit(X, Y)._repr_html_().split("metricfast-learned")
    assert len(shown) == 2
    for each in told:
        assert each in shown[1]
