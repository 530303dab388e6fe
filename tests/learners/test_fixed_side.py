"""A side without parameters remains fixed."""

import numpy as np
import pytest
from c_library import Model as CModel
from scipy.sparse import csr_array
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from trained import embedding_learner

from metricfast import AsymmetricSimilarity, load, losses, save
from metricfast.embeddings import Asymmetric, Embedding, Identity, Linear

X, Y = load_iris(return_X_y=True)


class AsIs(Embedding):
    """z = x."""

    def initialize(self, X, y=None, random_state=None):
        return []

    def forward(self, parameters, X, *, side="query", n_jobs=None):
        return X, None

    def backward(self, parameters, cache, upstream, *, n_jobs=None):
        return []

    def decays(self, default):
        return []


@pytest.mark.parametrize("side", ["query", "database"])
def test_the_other_side_is_learned(side):
    model = AsymmetricSimilarity(**{side: AsIs()}, random_state=0).fit(X, Y)
    assert len(model.parameters_) == 1
    np.testing.assert_allclose(model.transform(X, side=side), X - X.mean(axis=0))
    assert model.score(X, Y) > 0.9


def test_a_database_stays_under_any_loss():
    both = Asymmetric(Linear(), AsIs())
    learner = embedding_learner(losses.NCA(reduction="mean"), both, max_epochs=5)
    model = learner.fit(X[::2], Y[::2], X[1::2], Y[1::2])
    database = X[1::2] - X[1::2].mean(axis=0)
    np.testing.assert_allclose(model.transform(X[1::2], side="database"), database)
    assert model.score(X[::2], Y[::2], X[1::2], Y[1::2]) > 0.9


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("fixed", ["query", "database"])
def test_identity_leaves_its_side_as_it_is(fixed, normalize, tmp_path):
    parts = {"query": Linear(), "database": Linear(), fixed: Identity(normalize)}
    learner = embedding_learner(losses.NCA(reduction="mean"), Asymmetric(**parts), max_epochs=20)
    model = learner.fit(X[::2], Y[::2], X[1::2], Y[1::2])
    expected = X / np.linalg.norm(X, axis=1, keepdims=True) if normalize else X
    np.testing.assert_allclose(model.transform(X, side=fixed), expected, rtol=1e-15)
    start = model.embedding_.initialize(X)
    np.testing.assert_array_equal(start[0], np.eye(4))
    save(model, tmp_path / "m.safetensors")
    c_model, again = CModel(tmp_path / "m.safetensors"), load(tmp_path / "m.safetensors")
    for code, side in enumerate(("query", "database")):
        Z = model.transform(X, side=side)
        np.testing.assert_array_equal(again.transform(X, side=side), Z)
        np.testing.assert_array_equal(c_model.transform(X, code), Z)


def test_identity_behind_a_scaler(tmp_path):
    learner = AsymmetricSimilarity(database=Identity(normalize=True), random_state=0)
    model = make_pipeline(StandardScaler(), learner).fit(X, Y)
    save(model, tmp_path / "m.safetensors")
    c_model, scaled = CModel(tmp_path / "m.safetensors"), model[0].transform(X)
    for code, side in enumerate(("query", "database")):
        expected = model[-1].transform(scaled, side=side)
        np.testing.assert_allclose(c_model.transform(X, code), expected, atol=1e-14)


def test_identity_has_the_dtype_and_the_slope_of_points():
    embedding, upstream = Identity(normalize=True), np.ones((150, 4), np.float32)
    Z, cache = embedding.forward([], X.astype(np.float32))
    assert Z.dtype == np.float32
    assert embedding.backward([], cache, upstream) == []
    np.testing.assert_array_equal(
        embedding.forward([], csr_array(X))[0], embedding.forward([], X)[0]
    )
    np.testing.assert_array_equal(embedding.forward([], np.zeros((1, 4)))[0], np.zeros((1, 4)))


def test_widths_beside_identity_must_agree():
    with pytest.raises(ValueError, match="same number of components, got 2 and 4"):
        Asymmetric(Linear(2), Identity()).initialize(X)


@pytest.mark.parametrize("embedding", [Identity(), Asymmetric(Identity(), Identity())], ids=str)
def test_nothing_to_learn_is_refused(embedding):
    with pytest.raises(ValueError, match="embedding must have parameters to learn"):
        embedding_learner(losses.NCA(), embedding).fit(X, Y)
