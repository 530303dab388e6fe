"""The comparison of errors: its results are kept, and completed by later runs."""

from __future__ import annotations

import benchmarks.gerrymandering
import numpy as np
import pytest
from benchmarks.gerrymandering import METHODS, Results, compare, main
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

X, Y = load_iris(return_X_y=True)
X, X_TEST, Y, Y_TEST = train_test_split(X, Y, stratify=Y, random_state=0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_is_there_is_not_computed_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(METHODS, "NCA", None)
    path = tmp_path / "results" / "errors.json"
    compare(Results(path, again=False), "iris", 0, (X, Y, X_TEST, Y_TEST), [3])
    assert capsys.readouterr().err.count("CPU s") == len(METHODS)
    results = Results(path, again=False)
    compare(results, "iris", 0, (X, Y, X_TEST, Y_TEST), [3])
    assert not capsys.readouterr().err
    assert list(results.errors) == [f"k = 3/{method}/iris/0" for method in METHODS]
    assert all(error < 15 for error in results.errors.values())
    compare(results, "other", 0, (X, Y, X_TEST, Y_TEST), [3])
    results.errors.popitem()
    results.table("k = 3", list(METHODS), "k = 3")
    printed = capsys.readouterr().out
    assert "| iris |" in printed
    assert "| other |" not in printed  # a method is missing
    assert not Results(path, again=True).errors


def test_equal_distances_of_whole_numbers_stay_equal(tmp_path, monkeypatch):
    monkeypatch.setenv("METRICFAST_DATA", str(tmp_path))
    monkeypatch.setattr(benchmarks.gerrymandering, "METHODS", {"Euclidean": None})
    # The query is as far from the first point as from the second.
    points = np.array([[1, 0], [0, 1], [15, 9], [0, 0]], np.uint8)
    np.savez(tmp_path / "letter.npz", X=points, y=[1, 0, 2, 1], split=[0, 0, 0, 1])
    results = Results(tmp_path / "errors.json", again=True)
    compare(results, "letter", 0, (X, Y, X_TEST, Y_TEST), [1])
    assert results.errors == {"k = 1/Euclidean/letter/0": 0}


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_arguments_that_are_refused(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("METRICFAST_DATA", str(tmp_path))
    assert "letter.npz is missing: set METRICFAST_DATA" in refused(capsys, "--data", "letter")
    assert "argument --k: must be at least 1, got 0" in refused(capsys, "--k", "0")
    assert "argument --splits: must be at least 1" in refused(capsys, "--splits", "0")
