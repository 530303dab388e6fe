"""The command line: output, files and errors."""

import importlib
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context

import metricfast
from metricfast import _demo as demo
from metricfast import plotting
from metricfast.__main__ import main
from metricfast.comparison.candidates import suited
from metricfast.comparison.result import CONSTANT, EUCLIDEAN, SCALED

PNG = b"\x89PNG\r\n\x1a\n"
ROOT = Path(__file__).parents[1]
GAIN = re.compile(r"^   (\S+) ([\d.]+)( s)?  ->  (\S+) ([\d.]+)(?: s)?$", re.MULTILINE)
LAST = list(demo.QUESTIONS)[-1]


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory):
    """Return the output of the demo and the path of its picture."""
    picture = tmp_path_factory.mktemp("demo") / "demo.png"
    command = [sys.executable, "-W", "error", "-m", "metricfast", "demo", "--output", str(picture)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout, picture


def test_the_demo_answers_each_question_with_a_gain_and_draws(demo_run):
    printed, picture = demo_run
    for number, question in enumerate(demo.QUESTIONS, 1):
        assert f"\n{number}. {question}\n" in printed
    found = GAIN.findall(printed)
    assert len(found) == 5
    for _, before, unit, _, after in found:
        assert unit or float(before) < float(after)  # times are not tested
    assert str(picture) in printed
    assert picture.read_bytes().startswith(PNG)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_pages_give_the_figures_of_the_demo(demo_run, page, monkeypatch):
    """If not, python docs/_site/blocks.py README.md docs/index.md writes them."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "_site")
    text = (ROOT / page).read_text(encoding="utf-8")
    row = re.compile(r"^.*`python3 run.py demo` \|$", re.MULTILINE)
    without = row.sub(lambda line: re.sub(r"\.\d+", ".0", line[0]), text)
    assert len(row.findall(text)) == 2 and without != text
    written = importlib.import_module("blocks").with_gains(without, demo_run[0])
    assert row.findall(written) == row.findall(text)


def test_the_comparison_that_the_demo_proposes_finds_a_gain(demo_run, capsys):
    program = demo_run[0].partition("\nNext, ")[2]
    exec("\n".join(re.findall(r"^    (.+)", program, re.MULTILINE)), {})
    assert "better than Euclidean beyond chance: MLKR" in capsys.readouterr().out


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_pages_give_the_times_of_the_benchmarks(page):
    table = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    ours, theirs = re.search(
        r"`NCA`, 5000 points, to the same .* \| 0?([\d.]+) s.* scikit-learn (\d+),", table
    ).groups()
    assert f"| scikit-learn {theirs} s | **{ours} s** |" in (ROOT / page).read_text("utf-8")


def test_demo_all_prints_a_row_per_learner(monkeypatch, capsys):
    monkeypatch.setattr(metricfast, "compare", partial(metricfast.compare, cv=2))
    assert main(["demo", "--all", "iris"]) == 0
    printed = capsys.readouterr().out
    assert "iris: accuracy of 3 neighbours: 150 points, 3 classes, 2 folds" in printed
    row = r"^(\w+(?: Euclidean| answer)?) +(?:[\d.]+  \[|dropped after|not tried)"
    found = re.findall(row, printed, re.MULTILINE)
    assert set(found) == {EUCLIDEAN, SCALED, CONSTANT, *suited(150, 4, False)}


def test_info(capsys):
    assert main(["info"]) == 0
    printed = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    places = {"headers": metricfast.get_include(), "library": metricfast.get_library_dir()}
    told = metricfast.build_info() | places
    assert printed == {key: str(value) for key, value in told.items()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--all", "moons"], "argument --all: invalid choice: 'moons'"),
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


def test_benchmarks_need_a_checkout(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "--quick"]) == 1
    assert "python -m benchmarks" in capsys.readouterr().err


def test_the_module_runs_as_a_program():
    command = [sys.executable, "-m", "metricfast"]
    info = subprocess.run([*command, "info"], capture_output=True, text=True, check=True)
    assert "version: " in info.stdout
    assert subprocess.run(command, check=False, capture_output=True).returncode == 2


def test_without_matplotlib_the_demo_prints_its_answers_alone(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "metricfast.plotting")
    monkeypatch.setattr(demo, "QUESTIONS", {"How long?": demo.QUESTIONS[LAST]})
    picture = tmp_path / "demo.png"
    assert main(["demo", "--output", str(picture)]) == 0
    printed = capsys.readouterr()
    assert len(GAIN.findall(printed.out)) == 1
    assert "pip install matplotlib" in printed.err
    assert not picture.exists()


def test_where_nothing_can_be_written_the_demo_prints_its_answers_alone(
    monkeypatch, capsys, tmp_path
):
    monkeypatch.setattr(demo, "QUESTIONS", {"How long?": demo.QUESTIONS[LAST]})
    (tmp_path / "demo.png").mkdir()
    assert main(["demo", "--output", str(tmp_path / "demo.png")]) == 0
    printed = capsys.readouterr()
    assert len(GAIN.findall(printed.out)) == 1
    assert re.search(r"no picture: .*demo\.png'; choose another file by --output", printed.err)


def test_on_a_terminal_the_comparison_shows_what_is_done(monkeypatch, capsys):
    monkeypatch.setattr(metricfast, "compare", partial(metricfast.compare, learners="NCA"))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    main(["demo", "--all", "iris"])
    told = capsys.readouterr()
    assert "iris: accuracy of 3 neighbours: 150 points, 3 classes, 5 folds" in told.out
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
    with pytest.raises(ValueError, match=r"after(: expected 6 p| must (have two c|be a 2-d))"):
        plotting.plot_before_after(good, np.ones(shape), [0, 1] * 3)
