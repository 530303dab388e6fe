"""Fitted attributes in model files: each learner's have a rule, and what breaks it is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from registry import REGISTRY, data_for, make
from safetensors.numpy import load as load_arrays
from sklearn.datasets import load_iris
from test_io import forged

import metricfast
from metricfast import AsymmetricSimilarity, EmbeddingLearner, io
from metricfast._checked_model import _RULES

X, Y = load_iris(return_X_y=True)
VOTES = metricfast.NeighborhoodGerrymandering(random_state=0)


def with_changes(model: Any, path: Path, **changes: Any) -> Path:
    """Save a model whose file has other values, or none (...)."""
    metricfast.save(model, path)
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    state = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["state"])
    arrays = load_arrays(content)
    for place, value in changes.items():
        if value is ...:
            del state["fitted"][place]
        else:
            state["fitted"][place] = io._encode(value, f"new.{place}", place, arrays)
    forged(content, path, arrays, state=json.dumps(state))
    return path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(REGISTRY) & io._learners().keys()))
def test_wrong_attributes_are_refused_by_name(name, path):
    learner = getattr(metricfast, name)
    model = make(learner).fit(*data_for(learner, X, Y))
    fitted = [key for key in vars(model) if io._is_fitted_name(model, key)]
    assert set(fitted) <= set(_RULES)
    for key in fitted:
        value = getattr(model, key)
        wrong = [None, 10**400, [None], np.ones((2, 2, 2), "M8[s]")]
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            wrong += [
                value.astype(int),
                value[..., None],
                np.where(value == value.max(), np.inf, value),
            ]
        for other in wrong:
            with_changes(model, path, **{key: other})
            with pytest.raises(
                ValueError, match=rf"{path} does not describe a {name}: .*\b{key}\b"
            ):
                metricfast.load(path)


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        (VOTES, {"classes_": ...}, "classes_ is missing"),
        (VOTES, {"database_labels_": ...}, "database_labels_ is missing"),
        (VOTES, {"classes_": np.array([0, 1, 1])}, "classes_ must hold each class once"),
        (VOTES, {"classes_": np.array([0, 1])}, "indices of the 2 classes_, got .* from 0 to 2"),
        (VOTES, {"classes_": np.zeros((3, 1))}, r"classes_ .* shape \(n_classes\)"),
        (VOTES, {"database_labels_": np.zeros(3, int)}, r"shape \(n_database=150\), .* \(3,\)"),
        (VOTES, {"database_labels_": np.full(150, -1)}, "database_labels_ .* from -1 to -1"),
        (VOTES, {"database_embedding_": np.ones((150, 3))}, r"n_components=4\), .* \(150, 3\)"),
        (VOTES, {"history_": {"objective": ["1"]}}, "history_ must be a dictionary of lists of"),
        (VOTES, {"n_iter_": -1}, "n_iter_ must be an integer from 0, got -1"),
        (VOTES, {"feature_names_in_": np.array(["a", "b"], object)}, r"feature_names_in_ .*=4\)"),
        (VOTES, {"feature_names_in_": np.arange(4).astype(object)}, "must hold text, got 0"),
        (VOTES, {"threshold_": float("nan")}, "threshold_ must be a number, not NaN, got nan"),
        (VOTES, {"validation_": {"measure": "error"}}, "validation_ must be a dictionary of"),
        (
            AsymmetricSimilarity(random_state=0), {"components_database_": ...},
            "components_database_ is missing",
        ),
        (
            EmbeddingLearner(metricfast.losses.NCA(), max_epochs=2, random_state=0),
            {"parameters_": [np.eye(4)] * 2},
            "parameters_ do not belong to embedding_: .* list of 1 arrays",
        ),
        (
            EmbeddingLearner(metricfast.losses.NCA(), max_epochs=2, random_state=0),
            {"n_components_": 5},
            "parameters_ must embed a point in n_components_=5 numbers, got 4",
        ),
    ],
    ids=str,
)  # fmt: skip
def test_attributes_that_do_not_fit_each_other_are_refused(model, changes, message, path):
    with_changes(model.fit(X, Y), path, **changes)
    with pytest.raises(
        ValueError, match=f"{path} does not describe a {type(model).__name__}: .*{message}"
    ):
        metricfast.load(path)


def test_attributes_of_other_settings_are_loaded(path):
    frame = pd.DataFrame(X, columns=list("abcd"))
    for model in (
        metricfast.NCA(max_iter=50).fit(frame, Y, validate=True).set_threshold(np.inf),
        metricfast.Covariance().fit(X).set_threshold(0),
        AsymmetricSimilarity(random_state=0).fit(X, Y, X[::2], Y[::2]),
        EmbeddingLearner(
            metricfast.losses.Gerrymander(1),
            metricfast.embeddings.MLP((5,), 2),
            max_epochs=2,
            random_state=0,
        ).fit(X, Y),
    ):
        metricfast.save(model, path)
        loaded = metricfast.load(path)
        assert vars(loaded).keys() >= {key for key in vars(model) if key.endswith("_")}


@pytest.mark.parametrize(
    "value",
    ["\ud800", ["\udfff"], np.array(["\ud800", "b"]), np.array(["\ud800"], object)],
    ids=ascii,
)
def test_surrogates_in_parameters_come_back_and_are_shown(value, path):
    model = metricfast.NCA(max_iter=50).fit(X, Y).set_params(init=value)
    metricfast.save(model, path)
    loaded = metricfast.load(path)
    assert repr(loaded) == repr(model)
    assert r"\ud" in repr(loaded)
    assert "init" in loaded._repr_html_()
