"""Files of models and trainings: their names and modes, and what they may carry."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import tracemalloc
from datetime import date

import numpy as np
import pytest
from safetensors.numpy import load as load_arrays
from test_io import X, Y, fit, forged
from test_metric_learn_api import every_learner, fitted

import metricfast
from metricfast import EmbeddingLearner, losses
from metricfast.callbacks import Checkpoint
from metricfast.embeddings import Linear


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


def test_a_loaded_learner_writes_nowhere(path):
    trap = path.with_name("trap")
    learner = EmbeddingLearner(
        losses.NCA(), Linear(2), max_epochs=1, callbacks=[Checkpoint(trap)]
    ).fit(X, Y)
    metricfast.save(learner, path)
    assert b"trap" not in path.read_bytes()
    assert metricfast.load(path).callbacks is None
    for callbacks in ({"choice": ["callbacks.Checkpoint", {"path": str(trap)}]}, "Checkpoint"):
        state = {"params": {"loss": None, "callbacks": callbacks}, "fitted": {}}
        with pytest.raises((KeyError, TypeError)):
            metricfast.io._build(EmbeddingLearner, state, {}).fit(X, Y)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["x", "yy", "žz"])[Y].astype("U40"), np.array([b"x", b"yy", b"z"])[Y],
        np.array(["2020-01-01", "2021-02-03", "1960-01-01"], "M8[D]")[Y],
        np.array([1, 2, 3], "m8[s]")[Y], Y.astype(object), Y.astype(float).astype(object),
        Y.astype(bool).astype(object), Y.astype(str).astype(object), Y.astype(">i2"),
    ],
    ids=lambda labels: labels.dtype.str,
)  # fmt: skip
def test_labels_that_can_be_learned_from_can_be_saved(labels, path):
    model = metricfast.ProxyNCALearner(2, max_epochs=1).fit(X, labels)
    metricfast.save(model, path)
    loaded = metricfast.load(path)
    assert loaded.classes_.dtype == model.classes_.dtype.newbyteorder("=")
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert list(map(type, loaded.classes_)) == list(map(type, model.classes_))


def test_labels_that_are_other_objects_are_refused_by_name(path):
    model = fit("NCA").set_params(tol=np.array([date(2020, 1, 1), date(2021, 1, 1)]))
    with pytest.raises(TypeError, match=r"NCA: parameter 'tol' .* objects of type date\. Make it"):
        metricfast.save(model, path)


def test_a_small_file_takes_little_memory(path):
    metricfast.save(fit("NCA", labels=np.array(["a", "b", "c"])[Y]), path)
    content, n = path.read_bytes(), 500_000_000
    assert len(content) < 2000
    for view in (["params.tol", f"<U{n}", [1]], ["params.tol", "<U1", [n]], ["x", "|V9", [1]]):
        state = {"params": {"tol": {"view": view}}, "fitted": {}}
        arrays = load_arrays(content) | {"params.tol": np.zeros((1, 1), "<u4")}
        forged(content, path, arrays, state=json.dumps(state))
        tracemalloc.start()
        with pytest.raises(ValueError, match="does not describe a NCA"):
            metricfast.load(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1e6


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
