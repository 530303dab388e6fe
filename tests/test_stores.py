"""Learned distances in vector stores, as shown on the page on neighbours."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

import metricfast as mf
from metricfast.neighbors import to_faiss

X, Y = load_iris(return_X_y=True)
PAGE = (Path(__file__).parents[1] / "docs" / "neighbors.md").read_text(encoding="utf-8")
# Blocks that need optional packages are marked "py"; test_docs.py skips them.
BLOCKS = re.compile(r"^```(py|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTIONAL = {
    re.search(r"(?:import|from) (\w+)", block)[1]: block for kind, block in BLOCKS.findall(PAGE)
    if kind == "py"
}  # fmt: skip


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Names that earlier blocks of the page define, and their working folder."""
    folder, known = tmp_path_factory.mktemp("page"), {"__name__": "__main__"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for kind, block in BLOCKS.findall(PAGE):
            if kind == "python":
                exec(block, known)
    return known | {"folder": folder}


def test_the_page_has_the_stores():
    assert {"faiss", "hnswlib", "usearch", "umap", "torch"} <= OPTIONAL.keys()


@pytest.mark.filterwarnings("ignore")  # warnings of these packages
@pytest.mark.parametrize("package", OPTIONAL)
def test_recipes(package, names, monkeypatch):
    for needed in re.findall(r"^(?:import|from) (\w+)", OPTIONAL[package], re.MULTILINE):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    monkeypatch.chdir(names["folder"])
    found = dict(names)
    exec(OPTIONAL[package], found)
    if package == "torch":
        report = mf.metrics.precision_at_1(names["lfda"].transform(names["points"]), names["y"])
        assert found["accuracy"]["precision_at_1"] == pytest.approx(report)


def test_vectors_of_sql_keep_the_order(names):
    with (names["folder"] / "wines.csv").open(newline="") as file:
        ids, texts = zip(*csv.reader(file), strict=True)
    stored = np.array([text.strip("[]").split(",") for text in texts]).astype("f4")
    asked = re.search(r"<-> '\[(.*)\]' LIMIT 5", names["question"])[1].split(",")
    differences = stored - np.array(asked).astype("f4")
    order = np.argsort((differences**2).sum(axis=1, dtype="f4"), kind="stable")[:5]
    assert [int(ids[i]) for i in order] == names["exact"][0].tolist()


@pytest.mark.parametrize("metric", [mf.LFDA(n_components=2).fit(X, Y), np.eye(4)[:3]], ids=str)
def test_an_index_of_faiss(metric):
    pytest.importorskip("faiss", reason="faiss is not installed")
    L = getattr(metric, "components_", metric)
    D = mf.pairwise_distances(X, L=L, squared=True)
    nearest = np.sort(D, axis=1)[:, :4]
    index = to_faiss(metric)
    index.add(X[:100].astype("f4"))
    index.add(X[100:].astype("f4"))
    named = to_faiss(metric, X, ids=np.arange(150)[::-1])
    for each, place in ((index, lambda found: found), (named, lambda found: 149 - found)):
        distances, found = each.search(X.astype("f4"), 4)
        np.testing.assert_allclose(distances, nearest, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(np.take_along_axis(D, place(found), 1), nearest, atol=1e-3)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ((mf.TripletLearner(),), TypeError, "metric must be a fitted learner of one linear map"),
        ((mf.LFDA,), TypeError, "metric must be a fitted learner"),
        ((mf.LFDA(),), NotFittedError, "not fitted"),
        ((np.eye(3), X), ValueError, "X must have 3 columns; found 4"),
        ((np.eye(4), None, [1]), ValueError, "ids are those of the points in X"),
        ((np.eye(4), X, [1]), ValueError, "ids must be 150 integers"),
        ((np.eye(4), X, np.ones(150)), ValueError, "ids must be 150 integers"),
        ((np.eye(4), X, np.arange(150) - 1), ValueError, "ids must be different.*a negative one"),
        ((np.eye(4), X, np.ones(150, int)), ValueError, "ids must be different.*one twice"),
        ((np.eye(4), 1e60 * X), ValueError, "X must be within the range of float32"),
        ((1e60 * np.eye(4), X), ValueError, "metric must be within the range of float32"),
    ],
)
def test_wrong_indices(given, error, message):
    if "ids must" in message:
        pytest.importorskip("faiss", reason="faiss is not installed")
    with pytest.raises(error, match=message):
        to_faiss(*given)


def test_without_faiss(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(ImportError, match="pip install faiss-cpu"):
        to_faiss(np.eye(4))
