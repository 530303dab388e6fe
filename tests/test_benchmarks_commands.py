"""Shortened versions of the pages' commands, with all methods and data sets that they name."""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import registry
from benchmarks import __main__ as suite
from benchmarks import (
    adapter_data,
    adapter_peers,
    adapters,
    bounds,
    data,
    gerrymandering,
    growth,
    never_worse,
    published,
    reid,
    study_defaults,
    study_dimension,
    study_judge,
    study_local,
    study_poses,
    tabular,
    tabular_cost,
    tabular_data,
)
from benchmarks.calls.metricfast import fit
from benchmarks.peers import PeerMissingError
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB
from thinned import thinned

import metricfast
from metricfast import LMNN, MultiMetricLMNN, metrics
from metricfast.selection._measures import Search
from metricfast.solvers import Adam

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")]
QUOTED = {
    command
    for page in PAGES
    for command in re.findall(r"python3? -m (benchmarks[^`|#<\n]*)", page.read_text())
}
CLASSES = {  # name: features, classes
    "letter": (5, 3), "usps": (64, 3), "isolet": (5, 3), "vowel": (4, 3), "wine": (4, 3),
    "iris": (4, 3), "segmentation": (4, 3), "covtype_93k": (5, 3), "mnist": (50, 3),
    "balance_scale": (4, 3), "sonar": (5, 2),
}  # fmt: skip
NUMBERS = {"faces": (101, 3), "sml": (5, 1), "kin40k": (5, 1), "naval": (6, 2)}


def classes(n, width, n_classes, rng):
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, width)) + 2 * y[:, None]
    return {"X": X.astype(np.float32), "y": y.astype(np.uint8)}


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory):
    """A folder with a small version of each file in benchmarks/DATA.md, and of each table.

    `20news_sparse` is missing.
    """
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    (folder / "tables").mkdir()
    for name, (width, n_classes) in CLASSES.items():
        n = max(90, 2 * width)
        split = np.arange(n) >= n - 12
        np.savez(folder / f"{name}.npz", **classes(n, width, n_classes, rng), split=split)
    for name, (width, n_labels) in NUMBERS.items():
        X = rng.normal(size=(620, width)).astype(np.float32)
        np.savez(folder / f"{name}.npz", X=X, Y=np.tanh(X[:, :n_labels]))
    np.savez(folder / "mpii_poses.npz", Y=rng.uniform(0, 99, (400, 16, 2)).astype(np.float32))
    people = rng.normal(size=(40, 8))
    np.savez(
        folder / "viper_mdf.npz",
        camera_a=people + rng.normal(size=(40, 8)) * 0.3,
        camera_b=people + rng.normal(size=(40, 8)) * 0.3 + 1,
        splits=np.array([rng.permutation(40) for _ in range(3)], np.int16),
    )
    sentences = {f"{part}_y": np.arange(60) % 6.0 for part in ("train", "test")}
    for name in ("train_a", "train_b", "test_a", "test_b"):
        sentences[name] = rng.normal(size=(60, 4)).astype(np.float16)
    np.savez(folder / "stsb_static.npz", **sentences)
    topics = {"y": np.arange(40) % 2, "n_train": 24}
    np.savez(folder / "wikipedia_image_text.npz", image=people[:, :6], text=people[:, :3], **topics)
    office = classes(160, 70, 2, rng) | {"domain": np.arange(160) % 8 // 2}
    office["X"] = rng.poisson(3 + 2 * office["y"][:, None], size=(160, 70)).astype(np.uint8)
    np.savez(
        folder / "office_caltech_surf.npz",
        **office,
        domains=["amazon", "caltech10", "dslr", "webcam"],
    )
    for name in tabular_data.GROUPS["clean"]:
        np.savez(
            folder / "tables" / f"{name}.npz", **classes(60, 4, 2, rng), fold=np.arange(60) % 3
        )
    lines = [",Euclidean,DMLMJ", *(f"{name},0.95,0.5" for name in tabular_data.GROUPS["clean"])]
    (folder / "tables" / "published_3nn.csv").write_text("\n".join(lines))
    (folder / "ordinary").mkdir()
    for name in tabular_data.GROUPS["ordinary"]:
        table = pd.DataFrame({"x": rng.normal(size=60), "target": np.arange(60) % 2})
        read, _ = tabular_data.TABLES[name]
        table.to_csv(folder / "ordinary" / f"{read.args[0]}.csv", index=False)
    return folder


@pytest.fixture
def run(monkeypatch, stand_ins, tmp_path, capsys):
    """Return a function that runs a command on the small files, and returns its output."""
    monkeypatch.setenv("METRICFAST_DATA", str(stand_ins))

    def run(command):
        name, *arguments = command.format(tmp=tmp_path).split()
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        import_module(name).main()
        return capsys.readouterr().out

    return run


def cells_of(text):
    """Return the cells of tables, and the first word of each other line."""
    tables = re.findall(r"^\| (.*) \|$", text, re.MULTILINE)
    words = re.findall(r"^[^\s|]+", text, re.MULTILINE)
    return {*words, *(cell for row in tables for cell in row.split(" | "))}


def test_every_quoted_command_has_a_test():
    """Other tests cover `python -m benchmarks`."""
    tested = set(re.findall(r"(benchmarks\.\w+) ", Path(__file__).read_text()))
    assert {command.split()[0] for command in QUOTED} - {"benchmarks"} <= tested


def test_quoted_cases_exist(capsys):
    for command in QUOTED:
        for name in re.findall(r"--only ([\w-]+)", command):
            if command.startswith("benchmarks "):
                against = ["--against", "HEAD"] if "--against" in command else ["--full"]
                assert suite.main(["--list", "--only", name, *against]) == 0, name
            else:
                of_cost = command.startswith("benchmarks.tabular_cost")
                assert name in (tabular_cost.ROWS if of_cost else tabular_data.GROUPS), command


def test_quoted_options_exist():
    for command in QUOTED:
        name = command.split()[0]
        source = Path(import_module(f"{name}.__main__" if name == "benchmarks" else name).__file__)
        for option in re.findall(r"--[a-z][\w-]*", command):
            assert f'"{option}"' in source.read_text(), command


def one_step(make, least, k, setting):
    return make(k, setting).set_params(**least)


@pytest.fixture
def short(monkeypatch, tmp_path):
    """Shrink methods and data of the studies; fit learners in this process, without peers."""
    load, grid, split = study_defaults.load, study_dimension.Method.grid, study_dimension.split

    def first(name):
        x, y = load(name)
        kept = np.flatnonzero(y < 3)[:60]
        return x[kept, :6], y[kept]

    def in_process(package, learner, params, x, y, timeout):
        if package != "metricfast":
            raise PeerMissingError("not installed")
        call = fit({"X": x, "y": y}, 1, learner, **params)
        return call.digest(call.run())["components"]

    for name, value in {"DIMENSIONS": (2,), "HIDDEN": 4, "ANCHORS": 25, "K": 5}.items():
        monkeypatch.setattr(study_dimension, name, value)
    monkeypatch.setattr(study_dimension.Method, "grid", lambda method: grid(method)[:2])
    monkeypatch.setattr(
        study_dimension, "split",
        lambda *given: {name: part[:60] for name, part in split(*given).items()},
    )  # fmt: skip
    for module in (study_defaults, study_local):
        monkeypatch.setattr(module, "load", first)
    monkeypatch.setattr(study_defaults, "_fit", in_process)
    monkeypatch.setattr(study_defaults, "RESULTS", tmp_path)
    monkeypatch.setattr(study_local, "TREES", 2)
    monkeypatch.setattr(metricfast, "LMNN", partial(LMNN, judge=None, max_iter=2))
    monkeypatch.setattr(metricfast, "MultiMetricLMNN", partial(MultiMetricLMNN, max_iter=2))
    for name, make in gerrymandering.METHODS.items():
        if make is not None:
            least = {"max_iter": 1} if name in ("NCA", "LMNN") else {"solver": Adam(max_epochs=1)}
            stopped = partial(one_step, make, least)
            monkeypatch.setitem(gerrymandering.METHODS, name, stopped)
    for name in ("usps", "isolet"):
        monkeypatch.setitem(gerrymandering.SETS, name, 4)
    monkeypatch.setattr(tabular, "RESULTS", tmp_path)
    for name in ("hgb", "nca"):
        monkeypatch.setitem(
            tabular.MODELS, name, lambda classes: GaussianNB() if classes else Ridge()
        )
    for package in ("catboost", "lightgbm", "xgboost", "pytabkit", "wordllama"):
        monkeypatch.setitem(sys.modules, package, None)
    adapter_data._docstrings.cache_clear()
    for scored in (True, False):
        make = partial(adapter_data.made, n=60, n_features=8, scored=scored, n_test=40)
        name = "made scores" if scored else "made clicks"
        monkeypatch.setitem(adapters.TASKS, name, (make, ("both", "query")))
    monkeypatch.setattr(adapters, "SIZES", [(8, 50)])
    monkeypatch.setattr(adapter_peers, "_EPOCHS", 2)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))  # no pictures of faces
    both = dict.fromkeys(("float32", "float64"), 1e12)
    monkeypatch.setattr(bounds, "measure", lambda threads: bounds.Rates(both, 1e12, 1, 1, both))
    monkeypatch.setattr(bounds, "REPEATS", 1)
    for name in ("METRICFAST_NUM_THREADS", "OMP_NUM_THREADS"):  # set by a run
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr(published, "ProcessPoolExecutor", lambda *given: ThreadPoolExecutor(1))


# Commands, and cells of their tables, or first words of other lines. The first dozen run in each
# test.
PRINTED = {
    "benchmarks.study_gerrymandering --rate 0.03": ["C", "1"],
    "benchmarks.study_local --splits 1 --depth 2": study_defaults.SETS,
    "benchmarks.study_compare --sets iris --points 60": ["iris", "mean"],
    "benchmarks.tabular_cost --rows 60 --models nca --models hgb": ["made"],
    "benchmarks.tabular --splits 1 --rows 60": {*tabular_data.TABLES}
    - {"hdma", "diamonds", "computers", "budgetfood"},
    "benchmarks.reid --splits 3": [*reid.LEARNERS, *reid.VIEWED, *reid.PAIRS],
    "benchmarks.reid --faces --only Euclidean --only KISSME": ["Euclidean", "KISSME"],
    "benchmarks.published --tables glass --k 3 --learners DMLMJ --results {tmp}/accuracies.jsonl": [
        "DMLMJ", "0.5000",
    ],
    "benchmarks.bounds Triplet": ["kernel", "Triplet,"],
    "benchmarks.growth --only Covariance --only kneighbors --axis wide": [
        "Covariance", "kneighbors", "Marked:",
    ],
    "benchmarks.never_worse --splits 2 --data few-points --data viper --data *-to-texts "
    "--learner RCA_Sup* --learner maps-SupCon": ["few-points", "viper", "images-to-texts"],
    "benchmarks.never_worse --splits 2 --data adapter-made-*-50 --learner adapter-*": [
        "adapter-made-scores-50", "adapter-made-positives-50",
    ],
    "benchmarks.study_judge --output {tmp} --learners LFDA loss-* --draws 1 --points 20 60 "
    "--kinds few-points viper --threads 1": ["neighbors, nearest not worse", "best by the queries"],
    "benchmarks.study_large --points 500 --classes 5 --features 40 --learner LFDA": [
        "`LFDA(n_components=32)`",
    ],
    "benchmarks.adapters --only *": ["`AdapterLearner`", "as given", "ridge regression"],
    "benchmarks.study_dimension --seeds 1 --steps 1 --output {tmp}": [
        method.name for method in study_dimension.METHODS
    ],
    "benchmarks.study_poses --seeds 1 --steps 5": [
        f"{dimension}: {method.name}"
        for dimension in study_poses.DIMENSIONS
        for method in study_poses.METHODS
    ],
    "benchmarks.study_defaults --splits 1 --data iris": [
        *study_defaults.LEARNERS, *study_defaults.OURS,
    ],
    "benchmarks.gerrymandering --k 3 --splits 1 --results {tmp}/errors.json": [
        "letter", "usps", "isolet", "office dslr", "dslr in webcam", "webcam in amazon",
    ],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("command", "cells"), thinned(PRINTED.items(), 13))
def test_commands_print_their_rows(run, short, command, cells):
    assert set(cells) <= cells_of(run(command))


def test_docstrings_as_pairs(monkeypatch):
    pytest.importorskip("wordllama")
    monkeypatch.setattr(adapter_data, "_MODULES", ["numpy.linalg", "numpy.fft"])
    adapter_data._docstrings.cache_clear()
    task = adapter_data.TASKS["clicks on docstrings"][0]("both")
    adapter_data._docstrings.cache_clear()
    n = len(task.train.database)
    assert 30 < n == len(task.train.queries) + len(task.test.queries)
    assert task.given().mean() > 0.3 > 5 / n
    assert task.test.y.sum(axis=1).max() > 1  # what is mentioned


@pytest.mark.data
def test_reid_repeats_the_published_protocol(capsys, monkeypatch):
    path = data.folder() / "viper_mdf.npz"
    if not path.exists():
        pytest.skip(f"no {path}")
    reid.main(["--only", "Euclidean", "--only", "KISSME_Supervised", "--only", "XQDA"])
    text = capsys.readouterr().out
    assert "The protocol is the same." in text
    found = {line.split(" | ")[0]: line.split(" | ")[1:9] for line in text.splitlines()}
    for name, expected in (
        ("KISSME_Supervised", (30.06, 60.44, 74.68, 86.71)),
        ("XQDA", (29.43, 60.76, 75.63, 87.97)),
    ):
        values = np.array(found[f"| {name}"], float)
        np.testing.assert_allclose(values[:4], expected, atol=0.2)
        assert (values[4:] > values[:4]).all()


def test_growth_measures_what_grows():
    """More memory is found, and errors and limits reported."""

    def prepare(size):
        return lambda: [np.ones((size.points, size.points)) @ np.ones(size.points) for _ in "ab"]

    small, large = (growth.measured(prepare, growth.Size(n), 20) for n in (2000, 8000))
    assert small[1] < large[1] / 8
    assert growth.power(1, 8, 2, 0.1) == pytest.approx(3)
    assert growth.power(1, 8, 2, 10) == 0

    def fail(size):
        return lambda: int("text")

    assert growth.measured(fail, growth.Size(), 20)[2].startswith("ValueError: invalid literal")
    slow = growth.measured(lambda size: lambda: [0 for _ in iter(int, 1)], growth.Size(), 1)
    assert slow[0] == np.inf and slow[2] == "took over 1 s"


def test_growth_knows_what_is_public():
    public = {*registry.REGISTRY, "KNeighborsClassifier", "KNeighborsRegressor", "NearestNeighbors"}
    public |= {name for name in metrics.__all__ if name.endswith(("_at_k", "_at_r", "precision"))}
    assert public <= set(growth.CALLS)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")
def test_nothing_grows_faster_than_promised(run):
    assert run("benchmarks.growth").splitlines()[-1] == "Marked: none"


def test_the_error_of_a_difference():
    """A query in two splits counts once; independent splits reduce the error."""
    better, given = np.array([1.0, 0, 1, 0, 1]), np.zeros(5)
    queries = np.arange(5)
    once = never_worse.difference([better], [given], [queries])
    assert once == pytest.approx((0.6, np.std(better) / np.sqrt(5)))
    twice = never_worse.difference([better, better], [given, given], [queries, queries])
    assert twice == pytest.approx(once)
    other = never_worse.difference([better, -better], [given, given], [queries, queries + 5])
    assert other == pytest.approx((0, 0.6))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["LFDA", "LMNN", "loss-SupCon"])
def test_the_study_of_the_judge_chooses_as_fit_does(name):
    kind = never_worse.KINDS["few-points"]
    split = study_judge.draw(kind, kind.split(0), 40, 0)
    found = study_judge.record(never_worse.make(name, 0, random_state=0), split)
    chosen = study_judge.choose_by(found, "neighbors", guarded=True, errors=2)
    learner = never_worse.make(name, 0, random_state=0).fit(*split.train)
    assert chosen == learner.judgement_.chosen > 0
    search = Search(*(learner.transform(X).astype(np.float32) for X, _ in split[1:3]))
    costs = study_judge.all_costs(search, *(y for _, y in split[1:3]), None)
    np.testing.assert_array_equal(found.test[chosen], costs.mean(0))
    (queries, y), (database, labels) = split[1:3]
    search = Search(queries.astype(np.float32), database.astype(np.float32))
    costs = study_judge.all_costs(search, y, labels, None)
    np.testing.assert_array_equal(found.test[0], costs.mean(0))  # the given distance
    assert len(np.unique(found.test, axis=0)) > 2
