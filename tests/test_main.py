"""The command line: what it prints, what it writes, how it fails."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context

import metricfast
from metricfast import plotting
from metricfast.__main__ import DATA, Row, change, compare, learners, load, main, verdict

PNG = b"\x89PNG\r\n\x1a\n"


def test_demo_prints_a_row_per_learner_and_draws(tmp_path, capsys):
    picture = tmp_path / "demo.png"
    assert main(["demo", "--data", "wine", "--output", str(picture)]) == 0
    printed = capsys.readouterr().out
    rows = re.findall(
        r"^(\w+)( to 8)? +([\d.]+)% ± ([\d.]+)% +[\d.]+ s(?:  (better|worse))?$",
        printed,
        re.MULTILINE,
    )
    fitted = [learner.__name__ for learner in learners(load("wine")[0])]
    assert [name for name, few, *_ in rows if not few] == fitted
    assert all(0 <= float(error) < 15 for _, _, error, *_ in rows)
    better = ", ".join(name + few for name, few, _, _, told in rows if told == "better")
    assert f"wine: better: {better or 'none'}; worse: " in printed
    assert "178 points, 13 features, 3 classes; 32.58% in the units as given" in printed
    assert str(picture) in printed
    assert picture.read_bytes().startswith(PNG)


def test_errors_are_shares_of_all_points():
    n = len(load("wine")[1])  # which the folds do not divide evenly
    shares = np.array([row.error for row in compare("wine")]) * n
    np.testing.assert_allclose(shares, np.round(shares), rtol=0, atol=1e-9)


def test_the_verdict_tells_changes_from_chance():
    rows = [Row("x", "A", 0.1, "better"), Row("x", "B", 0.2, ""), Row("y", "A", 0.3, "worse")]
    assert [line.strip() for line in verdict(rows)] == [
        "x: better: A; worse: none; no different: 1; lowest 10.00% by A",
        "y: better: none; worse: A; no different: 0; lowest 30.00% by A",
    ]
    right, six = np.zeros(100, bool), np.arange(100) < 6
    assert [change(right, six), change(six, right), change(right, six & (np.arange(100) > 0))] == [
        "worse",
        "better",
        "",
    ]


def test_the_demo_leaves_out_learners_of_other_tasks_and_data():
    few, many = ({each.__name__ for each in learners(np.empty((n, 2)))} for n in (150, 1800))
    assert {"NCA", "LMNN"} <= few & many
    assert not {"MLKR", "LogRatioLearner", "AsymmetricSimilarity"} & (few | many)
    assert "MCML" in few - many
    assert "ProxyNCALearner" in many - few


@pytest.mark.parametrize("name", DATA)
def test_every_data_set_loads(name):
    X, y = load(name)
    assert X.shape[0] == y.shape[0]
    assert np.isfinite(X).all()


def test_info(capsys):
    assert main(["info"]) == 0
    printed = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert printed == {key: str(value) for key, value in metricfast.build_info().items()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: command"),
        (["learn"], "invalid choice: 'learn'"),
        (["demo", "--data", "moons"], "argument --data: invalid choice: 'moons'"),
        (["demo", "--output", "none/demo.png"], "argument --output: no PNG file can be written"),
        (["demo", "--output", "demo.pdf"], "argument --output: no PNG file can be written"),
        (["info", "more"], "unrecognized arguments: more"),
    ],
)
def test_bad_arguments_exit_with_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


def test_the_module_runs_as_a_program():
    command = [sys.executable, "-m", "metricfast"]
    info = subprocess.run([*command, "info"], capture_output=True, text=True, check=True)
    assert "version: " in info.stdout
    assert subprocess.run(command, check=False, capture_output=True).returncode == 2


def test_without_matplotlib_the_demo_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "metricfast.plotting")
    assert main(["demo"]) == 1
    assert "pip install 'metricfast[plot]'" in capsys.readouterr().err


def test_titles_hold_the_leave_one_out_error():
    points = np.array([[0, 0], [0, 1], [0, 3], [9, 0], [9, 1], [9, 3.0]])
    labels = np.array(["a", "a", "a", "b", "b", "b"])
    mixed = labels[[0, 3, 1, 4, 2, 5]]
    plotting.plot_before_after(points, points * 1e200, labels, n_neighbors=1)
    figure = plotting.plot_before_after(points, points, labels, n_neighbors=1)
    assert figure.axes[0].get_title() == "before: 1-NN error 0.0%"
    figure = plotting.plot_before_after(points, points, mixed, n_neighbors=1, titles=("x", "y"))
    # nearest: 1, 0, 1, 4, 3, 4 with the labels a b a b a b
    assert figure.axes[1].get_title() == "y: 1-NN error 100.0%"
    with config_context(transform_output="pandas"):
        figure = plotting.plot_before_after(pd.DataFrame(points), points, labels)
    assert len(figure.axes) == 2


@pytest.mark.parametrize("shape", [(5, 2), (6, 1), (6,)])
def test_points_that_cannot_be_drawn_are_named(shape):
    good = np.arange(12.0).reshape(6, 2)
    with pytest.raises(ValueError, match=r"after(: expected 6 points| must be a 2-dim)"):
        plotting.plot_before_after(good, np.ones(shape), [0, 1] * 3)
