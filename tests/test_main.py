"""The command line: what it prints, what it writes, how it fails."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context

import metricfast
from metricfast import plotting
from metricfast.__main__ import main
from metricfast.cli import plain
from metricfast.comparison.candidates import suited
from metricfast.comparison.result import EUCLIDEAN, SCALED

PNG = b"\x89PNG\r\n\x1a\n"


def test_demo_prints_a_row_per_learner_and_draws(tmp_path, capsys):
    picture = tmp_path / "demo.png"
    assert main(["demo", "--data", "wine", "--output", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "wine: accuracy of 3 neighbours: 178 points, 3 classes, 5 folds" in printed
    rows = re.findall(r"^(\w+(?: Euclidean)?) +([\d.]+)  \[", printed, re.MULTILINE)
    assert {name for name, _ in rows} == {EUCLIDEAN, SCALED, *suited(178, False)}
    assert str(picture) in printed
    assert picture.read_bytes().startswith(PNG)


def test_info(capsys):
    assert main(["info"]) == 0
    printed = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    places = {"headers": metricfast.get_include(), "library": metricfast.get_library_dir()}
    told = metricfast.build_info() | places
    assert printed == {key: str(value) for key, value in told.items()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--data", "moons"], "argument --data: invalid choice: 'moons'"),
        (["demo", "--output", "none/demo.png"], "argument --output: no PNG file can be written"),
        (["demo", "--output", "demo.pdf"], "argument --output: no PNG file can be written"),
        (["info", "more"], "unrecognized arguments: more"),
    ],
)
def test_bad_arguments_exit_with_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        sys.exit(main(arguments))
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


def test_the_module_runs_as_a_program():
    command = [sys.executable, "-m", "metricfast"]
    info = subprocess.run([*command, "info"], capture_output=True, text=True, check=True)
    assert "version: " in info.stdout
    assert subprocess.run(command, check=False, capture_output=True).returncode == 2


def test_without_matplotlib_the_demo_prints_its_table_alone(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "metricfast.plotting")
    monkeypatch.setattr(plain.metricfast, "compare", partial(metricfast.compare, learners="NCA"))
    picture = tmp_path / "demo.png"
    assert main(["demo", "--data", "iris", "--output", str(picture)]) == 0
    told = capsys.readouterr()
    assert len(re.findall(r"^NCA ", told.out + told.err, re.MULTILINE)) == 1
    assert "pip install 'metricfast[plot]'" in told.err
    assert not picture.exists()


def test_on_a_terminal_the_demo_says_what_it_has_done(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(plain.metricfast, "compare", partial(metricfast.compare, learners="NCA"))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    main(["demo", "--data", "iris", "--output", str(tmp_path / "demo.png")])
    told = capsys.readouterr()
    assert len(re.findall(r"^NCA ", told.out, re.MULTILINE)) == 1
    assert "NCA: done" in told.err
    assert told.err.endswith("\r\033[K")


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
