"""ONNX models return the same results as the learners."""

import sys

import numpy as np
import pytest
from embedding_cases import LEARNERS, X, Y
from registry import data_for, learners, make
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from trained import embedding_learner

import metricfast
from metricfast.embeddings import MLP, Linear, Periodic
from metricfast.io import to_onnx

skl2onnx = pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

MODELS = [make(each) for each in learners() if hasattr(each, "transform")]
MODELS = [m for m in MODELS if not isinstance(m, metricfast.KernelizedMetricLearner)]
ADAPTERS = [metricfast.AdapterLearner(side, random_state=0) for side in ("query", "database")]
LINEAR, *OTHERS = (
    embedding_learner(metricfast.losses.NCA(), embedding, max_epochs=1)
    for embedding in (
        Linear(2, normalize=True),
        MLP((4, 3), 2, "tanh", normalize=True),
        MLP((4,), 2, "identity"),
        Periodic(2, normalize=True),
    )
)


def run(model, points, dtype=np.float32):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {"X": points.astype(dtype)})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model", [*MODELS, *LEARNERS, LINEAR, *OTHERS, *ADAPTERS], ids=str)
def test_every_map(model, dtype):
    model = clone(model)
    model.fit(*data_for(model, X, Y))
    points = X.astype(dtype)
    for side in ("query", "database"):
        (Z,) = run(to_onnx(model, side=side, dtype=dtype), points, dtype)
        sides = {"side": side} if hasattr(model, "embedding_") else {}
        expected = model.transform(points, **sides)
        assert Z.dtype == dtype
        tolerance = (1e-5 if dtype == np.float32 else 1e-12) * max(1, np.abs(expected).max())
        np.testing.assert_allclose(Z, expected, rtol=0, atol=tolerance)


def test_a_pipeline_that_goes_on():
    classifier = KNeighborsClassifier(3)
    pipeline = make_pipeline(StandardScaler(), metricfast.LFDA(n_components=2), classifier)
    labels, _ = run(to_onnx(pipeline.fit(X, Y)), X)
    assert (labels == pipeline.predict(X)).mean() > 0.99
    labels, shares = run(to_onnx(pipeline, dtype=np.float64), X, np.float64)
    np.testing.assert_array_equal(labels, pipeline.predict(X))
    np.testing.assert_allclose(shares, pipeline.predict_proba(X), atol=1e-12)
    for key in (KNeighborsClassifier, id(classifier)):
        model = to_onnx(pipeline, options={key: {"zipmap": "columns"}})
        assert len(run(model, X)) == 1 + len(np.unique(Y))


def test_points_of_no_length_and_of_great_length():
    learner = clone(LINEAR).fit(X, Y)
    learner.mean_[:] = 0
    points = np.array([np.zeros(4), 1e25 * X[0], 1e-14 * X[0], 1e-8 * X[0]])
    (Z,) = run(to_onnx(learner), points)
    np.testing.assert_allclose(Z, learner.transform(points.astype(np.float32)), atol=1e-5)


def test_what_cannot_be_exported():
    lfda = metricfast.LFDA()
    with pytest.raises(NotFittedError):
        to_onnx(lfda)
    lfda.fit(X, Y)
    with pytest.raises(ValueError, match="side must be"):
        to_onnx(lfda, side="both")
    with pytest.raises(ValueError, match="dtype must be float32 or float64, got 'int8'"):
        to_onnx(lfda, dtype="int8")
    for other in (metricfast.OASIS_Supervised().fit(X, Y), StandardScaler().fit(X), None):
        with pytest.raises(TypeError, match="estimator must be a learner of metricfast"):
            to_onnx(other)
    own = clone(LINEAR).fit(X, Y)
    own.embedding_ = type("Own", (Linear,), {})()
    with pytest.raises(TypeError, match="embedding_ must be one of metricfast"):
        to_onnx(own)


def test_the_package_is_asked_for_by_name(monkeypatch):
    learner = metricfast.LFDA().fit(X, Y)
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ImportError, match="pip install onnx skl2onnx"):
        to_onnx(learner)
