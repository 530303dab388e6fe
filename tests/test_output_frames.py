"""Data frames as output of transformers."""

import pickle
from itertools import product

import numpy as np
import pytest
import sklearn
from registry import POINTS, entry_of, make, of_points
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from takers import PAIRS, QUICK, X, Y
from thinned import thinned

import metricfast as mf
from metricfast._core.frames import _KNOWS_POLARS

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:The distance that"),
]
NAMES = list("abcd")
SPECIES = np.array(["s", "t", "u"])[Y]
FRAMES = {"pandas": pd.DataFrame(X, columns=NAMES), "polars": pl.DataFrame(X, schema=NAMES)}
LABELS = {"pandas": pd.Series(SPECIES), "polars": pl.Series(SPECIES)}


def data(learner):
    return () if entry_of(learner).takes == POINTS else (Y,)


@pytest.mark.parametrize(
    ("learner", "package"),
    thinned(
        product([kind for kind in of_points() if hasattr(kind, "transform")], ["polars", "pandas"]),
        lambda case: case[0] in (mf.LFDA, mf.NCA, mf.TripletLearner, mf.AsymmetricSimilarity),
    ),
)
def test_transformers_return_frames(learner, package):
    frame = FRAMES[package]
    model = make(learner).set_output(transform=package)
    names = model.fit(frame, *data(learner)).get_feature_names_out().tolist()
    embedded = model.transform(frame)
    assert type(embedded).__module__.partition(".")[0] == package
    assert list(embedded.columns) == names
    assert names[0] == f"{learner.__name__.lower()}0"
    np.testing.assert_array_equal(
        np.asarray(embedded), make(learner).fit(frame, *data(learner)).transform(frame)
    )
    assert type(clone(model).fit_transform(frame, *data(learner))) is type(embedded)
    # Internal calls of `transform` do not depend on the setting.
    with sklearn.config_context(transform_output=package):
        model = make(learner).fit(frame, *data(learner))
        neighbors = mf.KNeighborsClassifier(3, metric=model).fit(frame, Y)
        assert neighbors.predict(frame).shape == Y.shape
        if data(learner) and learner is not mf.RCA:
            make(learner).fit(frame, Y, validate=True)


@pytest.mark.parametrize("package", ["pandas", "polars"])
@pytest.mark.parametrize("kind", [mf.NCAClassifier, mf.NCARegressor])
def test_predictors_that_embed_return_frames(kind, package):
    model = kind(**QUICK).set_output(transform=package).fit(FRAMES[package], Y)
    embedded = model.transform(FRAMES[package])
    assert type(embedded).__module__.partition(".")[0] == package
    names = [f"{kind.__name__.lower()}{i}" for i in range(embedded.shape[1])]
    assert list(embedded.columns) == names


@pytest.mark.parametrize("package", ["pandas", "polars"])
@pytest.mark.parametrize("method", ["nystroem", "kpca"])
@pytest.mark.parametrize("learner", [mf.LFDA(), mf.GMML(), mf.OASIS_Supervised(random_state=0)])
def test_maps_of_kernels_are_not_troubled_by_frames(learner, method, package):
    model = mf.KernelizedMetricLearner(learner, method=method, n_components=9, random_state=0)
    given = (PAIRS, [1, -1, 1]) if learner._tuple_size else (X, Y)
    expected = clone(model).fit(*given)
    with sklearn.config_context(transform_output=package):
        model.fit(*given)
        nested = mf.KernelizedMetricLearner(clone(model), n_components=9, random_state=0).fit(
            *given
        )
        assert np.isfinite(nested.get_metric()(X[0], X[60]))
        for found in (model, pickle.loads(pickle.dumps(model))):
            np.testing.assert_array_equal(found.pair_score(PAIRS), expected.pair_score(PAIRS))
            assert found.get_metric()(X[0], X[60]) == expected.get_metric()(X[0], X[60])
            if hasattr(learner, "transform"):
                np.testing.assert_array_equal(found.transform(X), expected.transform(X))


@pytest.mark.parametrize("package", ["pandas", "polars"])
@pytest.mark.parametrize("kind", [mf.NCAClassifier, mf.NCARegressor])
def test_encoders_of_tables_are_not_troubled_by_frames(kind, package):
    table = pd.DataFrame(X, columns=NAMES).assign(kind=pd.Categorical(SPECIES))
    table.loc[3, "a"] = np.nan
    with sklearn.config_context(transform_output=package):
        found = kind(**QUICK).fit(table, Y).predict(table)
    np.testing.assert_array_equal(found, kind(**QUICK).fit(table, Y).predict(table))


# Scalers of earlier versions of scikit-learn see no names in frames of polars.
@pytest.mark.parametrize("package", ["pandas", "polars"] if _KNOWS_POLARS else ["pandas"])
def test_pictures_of_frames(package):
    plt = pytest.importorskip("matplotlib.pyplot")
    from metricfast import plotting

    frame = FRAMES[package]
    backend = plt.get_backend()
    plt.switch_backend("Agg")
    try:
        with sklearn.config_context(transform_output=package):
            nca = mf.NCA(n_components=2, max_iter=3)
            for model in (make_pipeline(StandardScaler(), nca).fit(frame, Y), nca.fit(frame, Y)):
                plotting.EmbeddingDisplay.from_estimator(model, frame, LABELS[package])
                plotting.NeighborsDisplay.from_estimator(model, frame, [0, 60], y=LABELS[package])
                plotting.RetrievalDisplay.from_estimator(model, frame, LABELS[package])
                plotting.LossCurveDisplay.from_estimator(model)
                relevance = plotting.FeatureRelevanceDisplay.from_estimator(model, frame)
                assert list(relevance.feature_names) == NAMES
            plotting.PairScoreDisplay.from_estimator(model, PAIRS, [1, -1, 1])
    finally:
        plt.close("all")
        plt.switch_backend(backend)
