"""Model files of kernelized learners, which hold a learner and a map of scikit-learn."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load as load_arrays
from sklearn.datasets import load_iris
from test_io import forged

import metricfast
from metricfast import ANMM, GMML, NCA, SCML_Supervised
from metricfast import KernelizedMetricLearner as Kernelized

X, Y = load_iris(return_X_y=True)
PAIRS = np.random.default_rng(0).integers(150, size=(60, 2))
SAME = np.where(Y[PAIRS[:, 0]] == Y[PAIRS[:, 1]], 1, -1)
SETTINGS = {"n_components": 12, "random_state": 0}
MODELS = {
    "nystroem": Kernelized(ANMM(n_components=2), **SETTINGS).fit(X, Y),
    "kpca": Kernelized(ANMM(), "poly", degree=2, method="kpca", **SETTINGS).fit(X, Y),
    "float32": Kernelized(ANMM(), gamma=0.1, **SETTINGS).fit(X.astype(np.float32), Y),
    "pairs": Kernelized(GMML(), preprocessor=X, **SETTINGS).fit(PAIRS, SAME),
    "nested": Kernelized(Kernelized(ANMM(), **SETTINGS), "laplacian", **SETTINGS).fit(X, Y),
}


@pytest.mark.parametrize("name", MODELS)
def test_round_trip(name, path):
    model = MODELS[name]
    metricfast.save(model, path)
    loaded = metricfast.load(path)
    assert repr(loaded) == repr(model)
    assert type(loaded.map_) is type(model.map_)
    points = X.astype(np.float32) if name == "float32" else X
    for found, expected in (
        (loaded.transform(points), model.transform(points)),
        (loaded.pair_score(points[PAIRS]), model.pair_score(points[PAIRS])),
    ):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    if name == "pairs":
        assert loaded.threshold_ == model.threshold_
        np.testing.assert_array_equal(loaded.predict(PAIRS), model.predict(PAIRS))


def test_the_learner_may_be_any_other(path):
    learner = SCML_Supervised(max_iter=200, output_iter=100, random_state=0)
    model = Kernelized(learner, **SETTINGS).fit(X, Y)
    metricfast.save(model, path)
    loaded = metricfast.load(path)
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    assert loaded.set_params(learner=NCA(max_iter=2)).learner.max_iter == 2


def test_what_is_not_data_is_refused_by_name(path):
    def product(u, v):
        return u @ v

    model = Kernelized(ANMM(), product, **SETTINGS).fit(X, Y)
    with pytest.raises(TypeError, match="KernelizedMetricLearner: parameter 'kernel' cannot be"):
        metricfast.save(model, path)
    model = Kernelized(NCA(callbacks=[bool], max_iter=500), **SETTINGS).fit(X, Y)
    with pytest.raises(TypeError, match="NCA: parameter 'callbacks' cannot be stored"):
        metricfast.save(model, path)
    assert not path.exists()


def test_damage_raises(path):
    metricfast.save(MODELS["kpca"], path)
    content = path.read_bytes()
    expected = MODELS["kpca"].transform(X[:3])
    for position in range(0, len(content), 101):
        path.write_bytes(content[:position])
        with pytest.raises(ValueError, match=path.name):
            metricfast.load(path)
        flipped = bytearray(content)
        flipped[position] ^= 1 << (position % 8)
        path.write_bytes(flipped)
        try:
            loaded = metricfast.load(path)
        except ValueError:
            continue
        np.testing.assert_allclose(loaded.transform(X[:3]), expected, atol=1e-9)


def state_of(content: bytes) -> dict:
    size = int.from_bytes(content[:8], "little")
    return json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["state"])


def changed(state: dict, where: list, value) -> dict:
    *way, last = where
    for key in way:
        state = state[key]
    state[last] = value
    return state


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (["fitted", "map_"], None),
        (["fitted", "map_", "estimator", "class"], "Pipeline"),
        (["fitted", "map_", "estimator", "class"], "NCA"),
        (["fitted", "map_", "estimator", "class"], "KernelCenterer"),
        (["fitted", "map_", "estimator", "params", "kernel"], "no kernel"),
        (["fitted", "map_", "estimator", "params", "kernel"], "precomputed"),
        (["fitted", "map_", "estimator", "params", "other"], 1),
        (["fitted", "map_", "estimator", "fitted", "transform"], "os.system"),
        (["fitted", "map_", "estimator", "fitted", "normalization_"], None),
        (["fitted", "map_", "estimator", "fitted", "component_indices_"], {"tensor": "none"}),
        (["fitted", "learner_"], None),
        (["fitted", "learner_", "estimator", "class"], "Nystroem"),
        (["fitted", "learner_", "estimator", "class"], "KernelizedMetricLearner"),
        (["fitted", "learner_", "estimator", "fitted"], {}),
        (["fitted", "learner_", "estimator", "fitted", "n_features_in_"], 3),
        (["fitted", "n_features_in_"], 10**12),
        (["fitted", "n_features_in_"], True),
        (["fitted", "mean_"], None),
        (["fitted", "mean_"], {"tensor": "map_.normalization_"}),
        (["params", "learner"], {"estimator": {}}),
    ],
    ids=str,
)  # fmt: skip
def test_a_file_that_was_made_up_is_refused(where, value, path):
    metricfast.save(MODELS["nystroem"], path)
    content = path.read_bytes()
    state = state_of(content)
    changed(state, where, value)
    forged(content, path, load_arrays(content), state=json.dumps(state))
    with pytest.raises(ValueError, match="does not describe a KernelizedMetricLearner"):
        metricfast.load(path)
