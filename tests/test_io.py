"""Model files: loading restores what was saved, and builds no other objects."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import pickle
import subprocess
import sys
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from model_files import contents, forged
from safetensors.numpy import save_file
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_metric_learn_api import every_learner, fitted
from trained import configured

import metricfast
from metricfast import io
from metricfast._core.files import write_tensors

X, Y = load_iris(return_X_y=True)
LEARNERS = ["NCA", "LMNN"]


def fit(name: str, points=X, labels=Y, **params) -> BaseEstimator:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return getattr(metricfast, name)(max_iter=3, random_state=0, **params).fit(points, labels)


def assert_same(a, b) -> None:
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    else:
        assert repr(a) == repr(b)


def assert_same_model(saved: BaseEstimator, loaded: BaseEstimator) -> None:
    assert type(saved) is type(loaded)
    for key, value in saved.get_params().items():
        assert_same(value, loaded.get_params()[key])
    fitted = {key for key in vars(loaded) if key.endswith("_")}
    assert fitted >= {"components_", "n_features_in_", "preprocessor_"}
    for key in fitted - {"preprocessor_"}:
        assert_same(getattr(saved, key), getattr(loaded, key))


@pytest.fixture(scope="module")
def content(tmp_path_factory) -> bytes:
    file = tmp_path_factory.mktemp("io") / "model.safetensors"
    metricfast.save(fit("NCA", n_components=2), file)
    return file.read_bytes()


@pytest.mark.parametrize("name", LEARNERS)
def test_feature_names(name, path):
    frame = pd.DataFrame(X, columns=["a", "b", "c", "größe"])
    model = fit(name, frame, np.array(["x", "y", "žz"])[Y])
    metricfast.save(model, path)
    loaded = metricfast.load(path)
    assert_same_model(model, loaded)
    assert list(loaded.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.transform(frame[frame.columns[::-1]])


@pytest.mark.parametrize("name", LEARNERS)
def test_preprocessor_array(name, path):
    model = fit(name, np.arange(len(X)), Y, preprocessor=X)
    metricfast.save(model, path)
    loaded = metricfast.load(path)
    np.testing.assert_array_equal(loaded.preprocessor, X)
    np.testing.assert_array_equal(loaded.transform(np.arange(9)), model.transform(np.arange(9)))


def test_a_loaded_model_can_be_fitted_again(path):
    model = fit("NCA", init=np.eye(4)[:2], judge=None)
    metricfast.save(model, path)
    with pytest.warns(ConvergenceWarning):
        again = metricfast.load(path).fit(X, Y)
    np.testing.assert_array_equal(again.components_, model.components_)


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, 2.5, float("inf"), float("-inf"), float("nan"), "text", "", [1, [2.0, None]],
        (1, ("a",)), {"a": {"tensor": 1}, "b": []}, {"strings": (1,)}, np.arange(6).reshape(2, 3),
        np.asfortranarray(np.ones((3, 2))), np.zeros((0, 4), np.float32), np.array(True),
        [np.ones(2), {"x": np.ones(1, "i1")}],
    ],
    ids=repr,
)  # fmt: skip
def test_every_kind_of_value_comes_back(value, path):
    model = fit("NCA").set_params(tol=value)
    metricfast.save(model, path)
    loaded = metricfast.load(path).tol
    assert pickle.dumps(as_plain(loaded)) == pickle.dumps(as_plain(value))


def as_plain(value):
    if isinstance(value, np.ndarray):
        return ["array", value.dtype.str, value.shape, [str(item) for item in value.flat]]
    if isinstance(value, dict):
        return [(key, as_plain(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(as_plain, value)]
    return repr(value)


def test_numpy_scalars_and_other_byte_orders_become_native(path):
    model = fit("NCA").set_params(tol=np.float32(0.5), init=np.eye(4, dtype=">f8"))
    metricfast.save(model, path)
    loaded = metricfast.load(path)
    assert type(loaded.tol) is float
    assert loaded.init.dtype == np.dtype("=f8")
    np.testing.assert_array_equal(loaded.init, np.eye(4))


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("preprocessor", lambda indices: X[indices]),
        ("random_state", np.random.RandomState(0)),
        ("init", np.array(["a"])),
        ("init", np.array(["a"], dtype=object)),
        ("init", np.ones(2, np.longdouble)),
        ("init", np.ones(2, complex)),
        ("tol", {1: 2}),
        ("tol", 1j),
        ("tol", b"bytes"),
    ],
)
def test_what_is_not_data_is_refused_by_name(parameter, value, path):
    model = fit("NCA").set_params(**{parameter: value})
    with pytest.raises(TypeError, match=f"NCA: parameter '{parameter}' cannot be stored"):
        metricfast.save(model, path)
    assert not path.exists()


def test_only_fitted_maps_of_metricfast_are_saved(path):
    with pytest.raises(NotFittedError):
        metricfast.save(metricfast.NCA(), path)
    own = fit("NCA")
    own.__class__ = type("NCA", (metricfast.NCA,), {})
    kernelized = metricfast.KernelizedMetricLearner(metricfast.LFDA(), n_components=9).fit(X, Y)
    knn = metricfast.KNeighborsClassifier().fit(X, Y)
    for other in (own, kernelized, knn, StandardScaler().fit(X), object(), "NCA"):
        with pytest.raises(TypeError, match=r"estimator must be a learner .* by skops"):
            metricfast.save(other, path)
    with pytest.raises(TypeError, match=r"database.save\(path\)"):
        metricfast.save(metricfast.Database(np.eye(2)), path)
    assert not path.exists()


def test_callbacks_are_not_saved(path, tmp_path):
    callback = metricfast.callbacks.Checkpoint(tmp_path / "trap")
    metricfast.save(fit("NCA", callbacks=[callback, bool]), path)
    assert b"trap" not in path.read_bytes()
    assert metricfast.load(path).callbacks is None


def test_a_pipeline_comes_back_as_it_was(path):
    steps = StandardScaler(with_mean=False), StandardScaler(with_std=False), metricfast.LFDA(2)
    pipeline = make_pipeline(*steps)
    points = pd.DataFrame(X, columns=list("abcd"))
    metricfast.save(pipeline.fit(points, Y), path)
    loaded = metricfast.load(path)
    assert repr(loaded) == repr(pipeline)
    assert_same(loaded.transform(points), pipeline.transform(points))
    with pytest.raises(ValueError, match="feature names should match"):
        loaded[0].transform(points[list("badc")])


def test_steps_that_a_file_cannot_hold_are_named(path):
    for steps, named in (
        ([PCA(2), metricfast.LFDA()], r"'pca' .* is PCA\(.* needs a StandardScaler"),
        ([metricfast.LFDA(), KNeighborsClassifier()], "'kneighborsclassifier' .* needs a learner"),
        ([StandardScaler(), KNeighborsClassifier()], "'kneighborsclassifier' .* needs a learner"),
        ([StandardScaler()], "'standardscaler' .* needs a learner"),
    ):
        with pytest.raises(TypeError, match=f"the step {named} .* by skops"):
            metricfast.save(make_pipeline(*steps).fit(X, Y), path)
    with pytest.raises(NotFittedError):
        metricfast.save(make_pipeline(StandardScaler(), metricfast.LFDA()), path)


def test_losses_of_addresses_are_not_in_files(content, path):
    compiled = metricfast.losses.Compiled(1)
    with pytest.raises(TypeError, match="parameter 'init' cannot be stored"):
        metricfast.save(fit("NCA").set_params(init=compiled), path)
    params = {"init": {"choice": ["losses.Compiled", {"function": 1}]}}
    forged(content, path, state=json.dumps({"params": params, "fitted": {}}))
    with pytest.raises(ValueError, match="does not describe a NCA: KeyError"):
        metricfast.load(path)


def test_losses_of_addresses_are_not_trusted():
    names = metricfast.io.trusted_types()
    assert "metricfast.losses._margins.Triplet" in names
    assert not {"Compiled", "Checkpoint"} & {name.rpartition(".")[2] for name in names}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"class": "sklearn.PCA"}, "KeyError"),
        ({"class": "NCA"}, "TypeError"),
        ({"fitted": {}}, "KeyError: 'n_features_in_'"),
        ({"fitted": {"transform_": 1}}, "'transform_' is no fitted attribute"),
        ({"mean_": None, "scale_": np.ones(3)}, r"scale_ .*n_features_in_=4\), got .*\(3,\)"),
        ({"scale_": np.array([1, 1, 0.0, 1])}, "scale_ must be positive"),
        ({"n_features_in_": 3, "mean_": None, "var_": None, "scale_": None}, "has 4 features"),
        ({"transform": 1}, "'transform' is no fitted attribute"),
    ],
)
def test_a_forged_pipeline_raises(changes, message, path):
    pipeline = make_pipeline(StandardScaler(), metricfast.LFDA(2)).fit(X, Y)
    tensors: dict[str, np.ndarray] = {}
    steps = io._steps_state(pipeline.steps, tensors)
    for key, value in changes.items():
        if key in ("class", "fitted"):
            steps[0][1][key] = value
        else:
            steps[0][1]["fitted"][key] = io._encode(value, f"new.{key}", key, tensors)
    own = {"format": "metricfast", "learner": "Pipeline", "state": json.dumps({"steps": steps})}
    write_tensors(path, own, tensors)
    with pytest.raises(ValueError, match=f"does not describe a Pipeline: .*{message}"):
        metricfast.load(path)


def test_a_failed_save_leaves_the_old_file(path, monkeypatch):
    model = fit("NCA")
    metricfast.save(model, path)
    before = path.read_bytes()

    def no_space(descriptor):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="no space"):
        metricfast.save(fit("LMNN"), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_save_replaces_a_file_and_follows_a_link(path, tmp_path):
    metricfast.save(fit("LMNN"), path)
    link = tmp_path / "link"
    link.symlink_to(path)
    metricfast.save(fit("NCA"), str(link))
    assert link.is_symlink()
    assert type(metricfast.load(path)) is metricfast.NCA


def test_a_missing_file_or_folder_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        metricfast.load(tmp_path / "none")
    with pytest.raises(OSError, match="directory"):
        metricfast.load(tmp_path)


def test_safetensors_is_asked_for_by_name(path, monkeypatch):
    model = fit("NCA")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    for call in (lambda: metricfast.save(model, path), lambda: metricfast.load(path)):
        with pytest.raises(ImportError, match="pip install safetensors"):
            call()


@pytest.mark.parametrize(
    "damaged", [b"", b"\x80\x04.", b"garbage " * 40, b"\xff" * 64, pickle.dumps({"a": np.ones(3)})]
)
def test_foreign_bytes(damaged, path):
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match=f"{path} is not a readable safetensors file"):
        metricfast.load(path)


def test_the_file_of_another_program(path):
    save_file({"weight": np.ones((2, 2))}, path, {"format": "pt"})
    with pytest.raises(ValueError, match=f"{path} is a safetensors file, but not a model"):
        metricfast.load(path)
    save_file({"weight": np.ones((2, 2))}, path)
    with pytest.raises(ValueError, match="not a model of metricfast"):
        metricfast.load(path)


def test_every_truncation_raises(content, path):
    for size in range(0, len(content), 7):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match=path.name):
            metricfast.load(path)


def test_every_flipped_bit_raises(content, path):
    for position in range(0, len(content), 3):
        flipped = bytearray(content)
        flipped[position] ^= 1 << (position % 8)
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match=path.name):
            metricfast.load(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": "2"}, "has format version 2, this metricfast reads 1"),
        ({"learner": "os.system"}, "holds a 'os.system', which this metricfast does not have"),
        ({"learner": "save"}, "holds a 'save'"),
        ({"learner": "KNeighborsClassifier"}, "holds a 'KNeighborsClassifier'"),
        ({"state": "[]"}, "does not describe a NCA"),
        ({"state": "[" * 100_000}, "does not describe a NCA"),
        ({"state": '{"params": {"new": 1}, "fitted": {}}'}, "does not describe a NCA"),
        ({"state": '{"params": {}, "fitted": {"fit": 1}}'}, "'fit' is no fitted attribute"),
        ({"state": '{"params": {}, "fitted": {"__class__": 1}}'}, "no fitted attribute"),
        ({"state": '{"params": {}, "fitted": {"components_": {"tensor": "x"}}}'}, "not describe"),
        ({"state": '{"params": {}, "fitted": {"threshold_": {"eval": "1"}}}'}, "does not describe"),
        (
            {"state": f'{{"params": {{"tol": {{"float": {10**400}}}}}, "fitted": {{}}}}'},
            "does not describe a NCA: OverflowError: int too large",
        ),
    ],
)
def test_a_forged_file_raises(content, path, changes, message):
    forged(content, path, **changes)
    with pytest.raises(ValueError, match=message) as raised:
        metricfast.load(path)
    assert str(path) in str(raised.value)


EMPTY = (10**6, 0)


@pytest.mark.parametrize(
    "value",
    [{"tensor": "empty"}, {"list": [{"tensor": "empty"}]}],
    ids=lambda value: next(iter(value)),
)
@pytest.mark.parametrize("name", ["NCA", "TripletLearner", "AsymmetricSimilarity"])
def test_an_empty_array_of_a_large_shape_takes_no_memory(name, value, path):
    learner = configured(getattr(metricfast, name)(), max_epochs=1, max_iter=1, judge=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        metricfast.save(learner.fit(X, Y), path)
    content, empty = path.read_bytes(), np.empty(EMPTY)
    text = contents(content)[0]["state"]
    for part, key in [(part, key) for part, keys in json.loads(text).items() for key in keys]:
        state = json.loads(text)
        state[part][key] = value
        forged(content, path, {"empty": empty}, state=json.dumps(state))
        tracemalloc.start()
        try:
            with contextlib.suppress(ValueError):
                metricfast.load(path)
            assert tracemalloc.get_traced_memory()[1] < 2e6, key
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("value", [{"tensor": "large", "order": "F"}, {"tensor": "large"}])
def test_a_file_refers_to_an_array_once(value, content, path):
    """Copies of one array could exhaust memory: a hundred of them take 50 MB here."""
    fitted = {"n_features_in_": 256, "components_": {"list": [value] * 100}}
    large = np.ones((256, 256))
    forged(content, path, {"large": large}, state=json.dumps({"params": {}, "fitted": fitted}))
    tracemalloc.start()
    try:
        with pytest.raises(
            ValueError, match=f"{path} .*'large' is missing, or .* refers to it twice"
        ):
            metricfast.load(path)
        assert tracemalloc.get_traced_memory()[1] < 6 * large.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("metadata", [{"unit": "\ud800"}, {"\udfff": "cm"}])
def test_surrogates_in_metadata_are_refused_by_name(metadata, path):
    with pytest.raises(ValueError, match="metadata must not have surrogates"):
        metricfast.save(metricfast.Covariance().fit(X), path, metadata=metadata)
    metricfast.save(metricfast.Covariance().fit(X), path, metadata={"ünit": "µm"})
    assert io.load_metadata(path) == {"ünit": "µm"}


def test_what_set_output_was_told_is_not_saved(path):
    model = fit("NCA").set_output(transform="pandas")
    metricfast.save(model, path)
    assert type(model.transform(X)) is pd.DataFrame
    assert type(metricfast.load(path).transform(X)) is np.ndarray


def test_errors_name_the_path_given(tmp_path):
    model = metricfast.Covariance().fit(np.eye(4))
    (tmp_path / "file").touch()
    for path, kind in [
        (tmp_path / "missing" / "a.st", FileNotFoundError),
        (tmp_path / "file" / "a.st", NotADirectoryError),
        (tmp_path, IsADirectoryError),
    ]:
        with pytest.raises(kind) as error:
            metricfast.save(model, path)
        assert str(error.value).endswith(f"'{path}'")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("wrong", [None, 3, b"model", ["model"]])
def test_what_is_no_path_is_refused(wrong):
    for call in (lambda: metricfast.save(fit("NCA"), wrong), lambda: metricfast.load(wrong)):
        with pytest.raises(TypeError, match="path must be text or a path, got"):
            call()


@pytest.mark.skipif(os.name == "nt", reason="files have no modes there")
def test_a_file_keeps_its_mode_and_a_new_one_follows_the_umask(path):
    model = fit("NCA")
    before = os.umask(0o027)
    try:
        metricfast.save(model, path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
    for mode in (0o600, 0o664):
        path.chmod(mode)
        metricfast.save(model, path)
        assert path.stat().st_mode & 0o777 == mode


KILLED = """
import os, signal, sys
from pathlib import Path
from metricfast._core import files as _files
os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
_files.write_tensors(Path(sys.argv[1]), {"format": "any"}, {})
"""


@pytest.mark.skipif(os.name == "nt", reason="orphans stay there")
def test_what_a_killed_save_left_is_removed_by_the_next(path):
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert len(list(path.parent.iterdir())) == 1
    assert not path.exists()
    metricfast.save(fit("NCA"), path)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("length", [230, 255])
def test_a_name_may_be_as_long_as_the_file_system_allows(path, length):
    path = path.with_name("n" * length)
    metricfast.save(fit("NCA"), path)
    assert metricfast.load(path).n_features_in_ == 4


def test_a_loaded_learner_has_no_callbacks_of_the_file(path):
    trap = path.with_name("trap")
    for callbacks in ({"choice": ["callbacks.Checkpoint", {"path": str(trap)}]}, "Checkpoint"):
        state = {"params": {"loss": None, "callbacks": callbacks}, "fitted": {}}
        with pytest.raises((KeyError, TypeError, ValueError)):
            metricfast.io._build("EmbeddingLearner", state, {}).fit(X, Y)
    assert not trap.exists()


@every_learner
@pytest.mark.filterwarnings("ignore")
def test_a_map_comes_back_in_its_order(name, path):
    model = copy.deepcopy(fitted(name))
    assert model.components_.flags.forc
    for order in "AFC":
        model.components_ = np.asarray(model.components_, order=order)
        metricfast.save(model, path)
        loaded = metricfast.load(path)
        assert loaded.components_.strides == model.components_.strides
        np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
