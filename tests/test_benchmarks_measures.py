"""Measures of studies: significance of differences, and errors of predicted tables."""

import numpy as np
import pytest
from benchmarks import published, tabular_measures


def test_what_hurts_is_adjusted_to_the_number_of_tables(monkeypatch, tmp_path):
    monkeypatch.setenv("METRICFAST_DATA", str(tmp_path))  # without published accuracies
    results = published.Results(tmp_path / "kept.jsonl")
    surely, rarely = np.full(10, -0.04), np.array([-0.03, -0.02, -0.02, 0, 0] * 2)
    for learner, change in (("Euclidean", 0), ("LMNN", rarely), ("NCA", surely)):
        for place, table in enumerate("abcde"):
            found = np.full(10, 0.75) + (change if place == 0 else 0)
            results.add(
                {"table": table, "learner": learner, "accuracies": {"3": list(found)}, "seconds": 0}
            )
    told = results.report(list("abcde"), ["LMNN", "NCA"], 3)
    cells = {row[2:6].strip(" |"): row.split(" | ")[-4:-1] for row in told.splitlines()[3:]}
    p = published.p_value(0.75 + rarely, np.full(10, 0.75), published.HALF)
    assert 0.01 < p < 0.05
    assert cells["LMNN"] == ["1 (20%)", "1", "0"]
    assert cells["NCA"] == ["1 (20%)", "1", "1"]
    assert f"LMNN on a (-1.4, p = {p:.2g}, adjusted {5 * p:.2g})" in told


@pytest.mark.parametrize(
    ("differences", "by", "found"),
    [
        ([-0.02] * 10, 0.005, True),
        ([-0.005] * 10, 0.005, False),
        ([-0.1, *[0.01] * 9], 0.0, False),  # one fold may be a coincidence
        ([-0.03, -0.01] * 5, 0.005, True),
        ([0.02] * 10, 0.0, False),
    ],
)
def test_worse_beyond_chance(differences, by, found):
    theirs = np.full(10, 0.75)
    assert published.worse(theirs + differences, theirs, by) == found


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
