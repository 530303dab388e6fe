"""The studies of tables: measures, summaries, peers, and what is computed once."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from benchmarks import (
    tabular,
    tabular_cost,
    tabular_data,
    tabular_measures,
    tabular_peers,
    tabular_report,
)
from sklearn.naive_bayes import GaussianNB


def test_study_of_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tabular, "RESULTS", tmp_path)
    monkeypatch.setattr(tabular, "PAGE", tmp_path / "tabular.md")
    tabular.PAGE.write_text(f"# Study\n\n{tabular.MARK}old")
    monkeypatch.setitem(tabular.MODELS, "nca", tabular.boosting)
    arguments = ["--only", "diabetes", "--only", "breast cancer", "--splits", "2"]
    arguments += ["--models", "hgb", "--models", "nca", "--models", "nca + hgb", "--rows", "100"]
    tabular.main(arguments)
    first = capsys.readouterr().out
    assert first.count('"error"') == 8
    tabular.main([*arguments, "--write"])
    text = capsys.readouterr().out
    assert first.endswith(text)
    assert tabular.PAGE.read_text() == f"# Study\n\n{tabular.MARK}\n{text}"
    assert "1 tables of classes, 1 of numbers; splits: 2" in text
    tabular.main([*arguments, "--again", "nca"])
    assert capsys.readouterr().out.count('"model": "nca"') == 4


def test_a_peer_that_is_not_installed_is_left_out(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "catboost", None)
    assert tabular.installed(["hgb", "catboost", "nca + catboost"]) == ["hgb"]
    assert capsys.readouterr().out.count("pip install '.[bench-tables]'") == 2


def test_categories_reach_peers_as_strings():
    class Strings:
        def fit(self, X, y, cat_features):
            assert cat_features == ["self"]
            self.first = list(X["self"])

    frame = pd.DataFrame({"self": pd.Categorical([1, None]), "x": [0.0, 1.0]})
    model = Strings()
    tabular_peers.Peer(model, strings=True).fit(frame, [0, 1])
    assert model.first == ["1", "missing"]


def test_text_of_ordinary_tables_is_categories(tmp_path, monkeypatch):
    monkeypatch.setenv("METRICFAST_DATA", str(tmp_path))
    with pytest.raises(tabular_data.MissingError, match="ordinary/titanic"):
        tabular_data.split("passengers", 0)
    (tmp_path / "ordinary").mkdir()
    (tmp_path / "ordinary" / "titanic.csv").write_text("Sex,Age,target\n" + "m,,no\n,2,yes\n" * 5)
    given = tabular_data.split("passengers", 0)
    assert [str(dtype) for dtype in given.X.dtypes] == ["category", "float64"]
    assert given.X["Age"].isna().any() and set(given.y) == {0, 1}


def test_measures_of_predicted_tables():
    p = np.array([[0.8, 0.2, 0.0], [0.4, 0.6, 0.0], [0.7, 0.3, 0.0], [0.1, 0.9, 0.0]])
    y = np.array([0, 0, 0, 1])
    found = tabular_measures.measures(p, y, True)
    assert found["error"] == 0.25
    assert found["log loss"] == pytest.approx(-np.log([0.8, 0.4, 0.7, 0.9]).mean())
    assert found["AUC"] == 1  # the third class is not there
    # Bins of .6 (a point, wrong), .7, .8 and .9 (a point each, right).
    assert found["calibration error"] == pytest.approx((0.6 + 0.3 + 0.2 + 0.1) / 4)
    assert tabular_measures.measures(y + 2.0, y, False) == {"error": 2, "points": 4}
    assert tabular_measures.geometric_mean([0.5, 8]) == pytest.approx(2)


def test_a_difference_of_points_is_beyond_noise_or_not():
    right, wrong, some = np.zeros(50), np.ones(50), np.arange(50) % 25 == 0
    assert tabular_measures.beyond_noise([wrong], [some]) == 1
    assert tabular_measures.beyond_noise([some, right], [wrong, wrong]) == -1
    # Two of 50 points, in each split: a mean of .04 with a standard error of .028.
    assert tabular_measures.beyond_noise([some] * 3, [right] * 3) == 0
    assert tabular_measures.beyond_noise([right], [right]) == 0
    assert list(tabular_measures.point_errors(np.array([1.0, 4]), np.array([1, 2]), False)) == [
        0,
        4,
    ]


def test_summary_of_tables():
    def row(error, **more):
        points = {"points": 100, "point errors": np.full(100, error)}
        return {"error": error, **points, "fit": 1.0, "predict": 0.5, **more}

    classes = {"log loss": 0.2, "AUC": 0.9, "calibration error": 0.1}
    found = {}
    for split in range(2):
        found |= {("a", split, "hgb"): row(0.2, **classes), ("a", split, "nca"): row(0, **classes)}
        found |= {("b", split, "hgb"): row(2.0), ("b", split, "nca"): row(4.0)}
    found["b", 2, "hgb"] = row(9.0)  # which the other does not have
    lines = tabular_report.summary(found, ["a", "b"], ["hgb", "nca"]).splitlines()
    # Of 200 points, half a wrong one against 40 and a half.
    assert lines[-2].endswith("| hgb | 1 | 0.2 | 0.9 | 0.1 | 1 | 1.0 | 0.50 | 1 | 1 |")
    assert lines[-1].startswith("| nca | 0.0123 | 0.2 | 0.9 | 0.1 | 2 |")
    assert "| b | 1 | 2 |" in tabular_report.report(found, ["a", "b"], ["hgb", "nca"])
    found |= {("c", 0, "hgb"): row(4.0), ("c", 0, "nca"): row(3.0) | {"fit": 10.0}}
    lines = tabular_report.ranges(found, ["a", "b", "c"]).splitlines()
    assert "| RMSE | 1.38 | 0.75 | 2 |" in lines and "| fit, s | 1 | 1 | 10 |" in lines


def test_study_of_what_a_fit_costs(monkeypatch, capsys):
    monkeypatch.setitem(tabular_cost.MODELS, "nca", lambda of_classes: GaussianNB())
    tabular_cost.main(["--only", "made", "--rows", "100", "--columns", "10", "--columns", "50"])
    found = capsys.readouterr().out
    assert "| made | 100 | 10 | nca | 0.0 |" in found
    assert "| made | 100 | 50 | nca | 0.0 |" in found
