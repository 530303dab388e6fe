"""Maps in model files: invalid attributes are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from model_files import contents, rewritten
from registry import data_for, make
from sklearn.datasets import load_iris

import metricfast
from metricfast import AsymmetricSimilarity, EmbeddingLearner, io
from metricfast._checked_model import MAP

X, Y = load_iris(return_X_y=True)
VOTES = metricfast.NeighborhoodGerrymandering(
    solver=metricfast.solvers.Adam(max_epochs=1), judge=None, random_state=0
)


def with_changes(model: Any, path: Path, **changes: Any) -> Path:
    """Save a model file with changed fitted attributes; `...` removes an attribute."""
    metricfast.save(model, path)
    metadata, state, arrays = contents(path.read_bytes())
    for name, value in changes.items():
        if value is ...:
            del state["fitted"][name]
        else:
            state["fitted"][name] = io._encode(value, f"new.{name}", name, arrays)
    rewritten(path, metadata, state, arrays)
    return path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", io._maps())
def test_wrong_attributes_are_refused_by_name(name, path):
    learner = getattr(metricfast, name)
    model = make(learner).fit(*data_for(learner, X, Y))
    for key in [key for key in vars(model) if key in MAP]:
        value = getattr(model, key)
        wrong = [None, 10**400, [None], np.ones((2, 2, 2), int)]
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
        (VOTES, {"components_": ...}, "components_ is missing"),
        (VOTES, {"components_": np.ones((4, 3))}, r"n_features_in_=4\), got .*\(4, 3\)"),
        (VOTES, {"components_": np.ones(4)}, r"n_features_in_=4\), got .* shape \(4,\)"),
        (VOTES, {"components_": np.ones((0, 4))}, r"n_features_in_=4\), got .*\(0, 4\)"),
        (VOTES, {"feature_names_in_": ["a", "b"]}, r"feature_names_in_ must be 4 texts"),
        (VOTES, {"feature_names_in_": [0, 1, 2, 3]}, r"must be 4 texts, got \[0, 1, 2, 3\]"),
        (VOTES, {"feature_names_database_in_": ["a"]}, "feature_names_database_in_ must be 0"),
        (VOTES, {"database_labels_": [1]}, "'database_labels_' is no fitted attribute"),
        (VOTES, {"threshold_": float("nan")}, "threshold_ must be a number, not NaN, got nan"),
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
        assert vars(loaded).keys() >= {key for key in vars(model) if key in MAP}


@pytest.mark.parametrize("value", ["\ud800", ["\udfff"]], ids=ascii)
def test_surrogates_in_parameters_come_back_and_are_shown(value, path):
    model = metricfast.NCA(max_iter=50).fit(X, Y).set_params(init=value)
    metricfast.save(model, path)
    loaded = metricfast.load(path)
    assert repr(loaded) == repr(model)
    assert r"\ud" in repr(loaded)
    assert "init" in loaded._repr_html_()
