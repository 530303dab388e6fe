"""The cases of the metric-learn family: their data say what they should, and results are judged."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import data, family, objectives, study_defaults, timing
from benchmarks.case import OURS


@pytest.mark.parametrize(("kind", "size"), [("pairs", 2), ("triplets", 3), ("quadruplets", 4)])
def test_tuples_are_what_the_labels_say(kind, size):
    arrays = data.tuples(kind, 500, 100)
    labels = data.synthetic(5000)["y"]
    for part in ("", "_test"):
        index = arrays[f"index{part}"]
        assert index.shape == (100 if part else 500, size)
        found = labels[index]
        near = found[:, 0] == found[:, 1]
        if kind == "pairs":
            np.testing.assert_array_equal(near, arrays[f"y{part}"] == 1)
        else:
            assert near.all()
            assert (found[:, 0] != found[:, -1]).all()


def test_chunks_share_a_label():
    arrays = data.chunks()
    for chunk in np.unique(arrays["chunks"])[:50]:
        assert len(np.unique(arrays["y"][arrays["chunks"] == chunk])) == 1
    assert np.bincount(np.unique(arrays["chunks"], return_inverse=True)[1]).max() == 20


def test_error_of_tuples():
    x = np.array([[0.0], [1.0], [3.0]])
    assert objectives.tuple_error(np.eye(1), x, np.array([[0, 1, 2], [0, 2, 1]])) == 0.5
    assert objectives.tuple_error(np.eye(1), x, np.array([[0, 1, 0, 2]])) == 0
    pairs = np.array([[0, 1], [0, 2]])
    assert objectives.tuple_error(np.eye(1), x, pairs, np.array([1, -1])) == 0
    assert objectives.tuple_error(np.eye(1), x, pairs, np.array([-1, 1])) == 1


def test_distances_of_pairs_are_checked(tmp_path):
    case = next(case for case in family.family() if case.name == "pair-distance")
    arrays = data.indexed_pairs()
    arrays["index"] = arrays["index"][:20_000]
    case.arrays = lambda: arrays
    case.entries = case.entries[:1]
    (ours,) = timing.run_case(case, tmp_path, rounds=1)
    assert ours.status == "ok", ours
    wrong = {"distances": np.zeros(1), "rows": np.zeros(1, int)}
    assert case.check(arrays, {OURS: wrong}) == {OURS: "wrong distances"}


def test_the_nearest_of_a_similarity_are_those_of_largest_products():
    x, y = np.array([[1.0, 0], [2, 0], [3, 0], [0, 9]]), np.array([0, 0, 1, 1])
    queries = np.array([[1.0, 0.5], [1, 0]])
    assert objectives.similarity_error(np.eye(2), x, y, queries, np.array([1, 0])) == 0
    assert objectives.similarity_error(-np.eye(2), x, y, queries, np.array([0, 0])) == 0


def test_study_of_defaults():
    x, y = study_defaults.load("digits")
    points = x[:300], y[:300]
    assert np.mean(study_defaults.errors("numpy", "Euclidean", points, 2, 0)) < 0.15
    found = study_defaults.errors("metricfast", "OASIS_Supervised", points, 2, 60)
    assert len(found) == 2
    assert np.mean(found) < 0.3
    assert np.isnan(study_defaults.errors("metricfast", "NoSuchLearner", points, 2, 60)).all()
