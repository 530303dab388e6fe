"""Model files of predictors of tables: what is saved comes back, and what is forged is refused."""

from __future__ import annotations

import json

import c_library
import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load as load_arrays
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from test_io import forged

import metricfast as mf
from metricfast import io
from metricfast._saved_predictors import _OPTIONAL, PREDICTORS, RECORDS
from metricfast.predictors.indicators import Indicators
from metricfast.predictors.normal_scores import NormalScores

RNG = np.random.default_rng(0)
N = 120
NUMBERS = RNG.normal(size=(N, 3))
KINDS = np.array(["red", "blue", None, "x"], dtype=object)[RNG.integers(4, size=N)]
FRAME = pd.DataFrame(
    {
        "a": NUMBERS[:, 0],
        "kind": pd.Categorical(KINDS),
        "flag": NUMBERS[:, 1] > 0,
        "b": np.where(RNG.random(N) < 0.1, np.nan, NUMBERS[:, 1]),
        "rare": pd.Categorical([*range(N // 2), *range(N // 2)]),
    }
)
MIXED = np.stack([KINDS, NUMBERS[:, 0], RNG.integers(3, size=N)], axis=1)
QUICK = {"n_components": 4, "n_frequencies": 2, "n_embedding": 3, "max_epochs": 2}
CLASSES = np.where(NUMBERS[:, 0] > 0, "yes", "no")
WEIGHT = RNG.integers(3, size=N).astype(float)
TABLES = {
    "members": (NUMBERS, {}, None),
    "one map": (NUMBERS, {"n_estimators": 1, "periodic": True, "scale": 0.1}, None),
    "frame": (FRAME, {"n_estimators": 2}, WEIGHT),
    "objects": (MIXED, {"categorical_features": [0, 2], "early_stopping": False}, None),
    "categories": (MIXED[:, ::2], {"categorical_features": np.array([True, True])}, None),
}
TARGETS = {
    "text": (mf.NCAClassifier, CLASSES),
    "booleans": (mf.NCAClassifier, CLASSES == "yes"),
    "several": (mf.NCAClassifier, np.stack([CLASSES, KINDS.astype(str)], axis=1).astype(object)),
    "number": (mf.NCARegressor, NUMBERS[:, 1]),
    "numbers": (mf.NCARegressor, NUMBERS[:, :2]),
}


def fitted(table: str, target: str, **params):
    X, settings, weight = TABLES[table]
    kind, y = TARGETS[target]
    model = kind(**QUICK | {"random_state": 0} | settings | params)
    return model.fit(X, y, sample_weight=weight), X


def same(a, b) -> bool:
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        equal_nan = a.dtype.kind == "f"
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=equal_nan)
    return repr(a) == repr(b)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("table", TABLES)
def test_everything_comes_back_to_the_last_bit(table, target, path):
    model, X = fitted(table, target)
    mf.save(model, path)
    loaded = mf.load(path)
    assert type(loaded) is type(model)
    assert all(same(value, loaded.get_params()[key]) for key, value in model.get_params().items())
    listed = {key for key in vars(model) if key.endswith("_")}
    assert {key for key in vars(loaded) if key.endswith("_")} == listed
    assert all(same(getattr(model, key), getattr(loaded, key)) for key in listed)
    queries = X.copy()
    if table == "frame":  # a category that fit has not seen
        queries["kind"] = queries["kind"].cat.rename_categories({"x": "new"})
    names = ["predict", "transform", "kneighbors"]
    names += ["predict_proba"] if hasattr(model, "predict_proba") else []
    for name in names:
        for given in (queries,) if name == "transform" else (queries, None):
            assert same(getattr(model, name)(given), getattr(loaded, name)(given)), name
    for given in (queries, None):
        assert same(model.votes(given).toarray(), loaded.votes(given).toarray())
    again = loaded.fit(X, TARGETS[target][1], sample_weight=TABLES[table][2])
    assert same(again.parameters_, model.parameters_)


@pytest.mark.parametrize("target", ["text", "number"])
def test_a_file_holds_all_that_fit_sets(target):
    """A new attribute has a rule in the tables of `_saved_predictors`, or files lose it."""
    model, _ = fitted("frame", target, n_estimators="auto")
    cached = {"_database", "database"}
    set_by_fit = vars(model).keys() - model.get_params().keys() - cached
    assert set_by_fit - _OPTIONAL == PREDICTORS[type(model)].keys() - _OPTIONAL
    parts = [model._table, model._table._indicators, model._voters[0]]
    parts += [model._labels] if target == "text" else []
    for part in parts:
        assert vars(part).keys() - cached == RECORDS[type(part)].keys()


def test_normal_scores_come_back(path):
    X = np.exp(3 * NUMBERS)
    y = np.where(NUMBERS.sum(axis=1) > 0, 1, 0)
    model = mf.NCAClassifier(**QUICK, random_state=0, scale=0.1).fit(X, y)
    model._scores = NormalScores(X)  # whatever fit has chosen
    mf.save(model, path)
    assert same(mf.load(path).predict_proba(X), model.predict_proba(X))


def test_a_pipeline_with_a_scaler_comes_back(path):
    model = make_pipeline(StandardScaler(), mf.NCAClassifier(**QUICK, random_state=0))
    X = pd.DataFrame(NUMBERS, columns=["a", "b", "c"])
    mf.save(model.fit(X, CLASSES), path)
    loaded = mf.load(path)
    assert repr(loaded) == repr(model)
    assert same(loaded.predict_proba(X), model.predict_proba(X))


def test_the_library_of_c_refuses_tables(path):
    model, _ = fitted("one map", "number")
    mf.save(model, path)
    with pytest.raises(c_library.CError, match="predictors of tables are read by Python alone"):
        c_library.Model(path)


def test_weights_of_classes_come_back(path):
    model, _ = fitted("one map", "text", class_weight={"yes": 2.0, "no": 1})
    mf.save(model, path)
    assert mf.load(path).class_weight == {"yes": 2.0, "no": 1}
    model.set_params(class_weight={0: 2.0, np.int64(1): 0.5, True: 3})
    mf.save(model, path)
    assert mf.load(path).class_weight == model.class_weight


def test_what_is_not_data_is_refused_by_name(path):
    model, _ = fitted("one map", "text", random_state=np.random.RandomState(0))
    with pytest.raises(TypeError, match="NCAClassifier: parameter 'random_state' cannot be stored"):
        mf.save(model, path)
    days = pd.DataFrame({"day": pd.Categorical(pd.date_range("2000-01-01", periods=N))})
    model = mf.NCARegressor(**QUICK, random_state=0).fit(days, NUMBERS[:, 0])
    with pytest.raises(TypeError, match=r"categories of X cannot be stored .* type datetime"):
        mf.save(model, path)
    assert not path.exists()


def test_rare_categories_share_an_indicator():
    column = RNG.geometric(0.004, size=5000).astype(str)
    columns = np.stack([column, np.where(column < "3", None, True)], axis=1).astype(object)
    sklearn = OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=255, sparse_output=False
    )
    indicators = Indicators(columns)
    tensors = {}
    stored = json.loads(json.dumps(io._encode(indicators, "x", "x", tensors)))
    queries = np.append(columns[:99], [["new", False]], axis=0)
    expected = sklearn.fit(columns).transform(queries).astype(np.float32)
    for each in (indicators, io._decode(stored, tensors)):
        assert same(each.of(queries), expected)
        assert each.sizes.tolist() == [255, 2]


def changed(model, path, place: tuple, value) -> None:
    """Save a model whose file has another value, or none (...), at a place in its JSON."""
    mf.save(model, path)
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    state = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["state"])
    arrays = load_arrays(content)
    owner = state["fitted"]
    for key in place[:-1]:
        owner = owner[key]
    if value is ...:
        del owner[place[-1]]
    else:
        owner[place[-1]] = io._encode(value, "new", "new", arrays)
    forged(content, path, arrays, state=json.dumps(state))


def places_in(fitted: dict, key: str):
    """Give the paths of an attribute and of all attributes below it."""
    yield (key,), key
    inside, place = fitted[key], (key,)
    if isinstance(inside, dict) and "list" in inside:
        inside, place = inside["list"][0], (key, "list", 0)
    while isinstance(inside, dict) and "record" in inside:
        _, fields = inside["record"]
        deeper = None
        for name, value in fields.items():
            yield (*place, "record", 1, name), name
            if isinstance(value, dict) and "record" in value:
                deeper = (value, (*place, "record", 1, name))
        if deeper is None:
            return
        inside, place = deeper


@pytest.mark.parametrize("target", ["text", "number"])
def test_wrong_attributes_are_refused_by_name(target, path):
    model, _ = fitted("frame", target, n_estimators="auto")
    name = type(model).__name__
    state = io._state(model, "", {})["fitted"]
    places = [each for key in state for each in places_in(state, key)]
    assert len(places) > 25
    for place, key in places:
        wrong = [10**400, [None], "text", np.ones((2, 2, 2), "M8[s]"), np.array([[np.nan]])]
        if key not in _OPTIONAL:
            wrong.append(...)
        for value in wrong:
            changed(model, path, place, value)
            with pytest.raises(ValueError, match=rf"{path} does not describe a {name}: .*{key}\b"):
                mf.load(path)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("_rows", np.arange(N)[::-1].copy(), "_rows must increase"),
        ("_table._order", np.array([0, 0, 1]), "_order must hold each integer"),
        ("_table._incomplete", np.array([3]), "_incomplete must hold integers below 3"),
        ("_table._scale", np.zeros(3), "_scale must be positive"),
        ("_table.categorical", np.eye(3, dtype=bool)[0], "_table.categorical must tell"),
        ("_voters", [], "_voters must have an item for each map"),
        ("classes_", np.array(["no", "maybe"]), "classes_ and outputs_2d_ must be those"),
        ("_prior", np.ones(3), "_prior must be"),
        ("parameters_", [[np.ones((4, 9), np.float32)]], "parameters_ do not belong"),
        ("embedding_", mf.embeddings.Periodic(4, 2, 3, 0.1), "parameters_ do not belong"),
    ],
)
def test_attributes_that_do_not_fit_together_are_refused(place, value, message, path):
    model, _ = fitted("one map", "text", periodic=False)
    name, *field = place.split(".")
    changed(model, path, (name, *(["record", 1, *field] if field else [])), value)
    with pytest.raises(ValueError, match=rf"does not describe a NCAClassifier: .*{message}"):
        mf.load(path)


def test_objects_of_other_classes_are_not_built(path):
    model, _ = fitted("one map", "text")
    mf.save(model, path)
    content = path.read_bytes()
    for name in ("Path", "Database", "SoftNeighbors"):
        state = json.dumps({"params": {}, "fitted": {"_table": {"record": [name, {}]}}})
        forged(content, path, state=state)
        with pytest.raises(ValueError, match=f"does not describe a NCAClassifier: .*'{name}'"):
            mf.load(path)
