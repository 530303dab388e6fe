"""Files of models and checkpoints: names, modes and allowed content."""

import copy
import os
import subprocess
import sys

import numpy as np
import pytest
from test_io import X, Y, fit
from test_metric_learn_api import every_learner, fitted

import metricfast


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
