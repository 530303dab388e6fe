"""Searches, distances and metrics of points on disk equal those in memory, bit for bit."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from new_process import run
from numpy.typing import NDArray
from sklearn.datasets import load_iris
from stored import Stored
from thinned import thinned
from trained import embedding_learner
from working_memory import working_memory

import metricfast as mf
from metricfast import metrics, sources

Array = NDArray[Any]
RNG = np.random.RandomState(0)
N, D, QUERIES, K = 200, 128, 40, 30
BASE = RNG.randn(N, D)
COPIES = BASE[RNG.randint(0, 40, N)]
POINTS: dict[str, Array] = {
    "ordinary": BASE,
    "copies": COPIES,
    "near ties": COPIES + 1e-7 * RNG.randn(N, D),
    "ties": RNG.randint(0, 2, (N, D)) * (RNG.rand(N, D) < 0.05),
    "far from the origin": 1e-3 * COPIES + 100,
    "tiny": 1e-200 * BASE,
    "huge": 1e200 * BASE,
}
SINGLE = [name for name in POINTS if name not in ("tiny", "huge")]
MAPS: dict[str, dict[str, Array]] = {
    "Euclidean": {},
    "L": {"L": RNG.randn(3, D)},
    "U, V": {"U": RNG.randn(4, D), "V": RNG.randn(4, D)},
}
LABELS = RNG.randint(0, 3, N)
EXCLUDE = np.where(RNG.rand(QUERIES) < 0.7, RNG.randint(0, N, QUERIES), -1)
PAIRS = np.column_stack([RNG.randint(0, QUERIES, 3 * N), RNG.randint(0, N, 3 * N)])
FEW = 3  # neighbours, and classes


def pairwise(X: Any, Y: Any, dtype: Any, **how: Any) -> Array:
    out = np.empty((X.shape[0], Y.shape[0]), dtype)
    return mf.pairwise_distances(X, Y, out=out, **how)


def as_tuple(found: Any) -> tuple[Array, ...]:
    return found if isinstance(found, tuple) else (found,)


CALLS: dict[str, Callable[..., Any]] = {
    "kneighbors": lambda q, x, maps, r: mf.kneighbors(q, x, K, exclude=EXCLUDE, **maps),
    "squared": lambda q, x, maps, r: mf.kneighbors(q, x, K, squared=True, **maps),
    "themselves": lambda q, x, maps, r: mf.kneighbors(x, n_neighbors=FEW, **maps),
    "kneighbors_per_class": lambda q, x, maps, r: mf.neighbors.kneighbors_per_class(
        q, x, LABELS, K, exclude=EXCLUDE, **maps
    ),
    "radius_neighbors": lambda q, x, maps, r: mf.neighbors.radius_neighbors(q, x, r, **maps),
    "by distance": lambda q, x, maps, r: mf.neighbors.radius_neighbors(
        q, x, r, exclude=EXCLUDE[: q.shape[0]], sort_results=True, **maps
    ),
    "pairwise_distances": lambda q, x, maps, r: pairwise(q, x, np.float32, **maps),
    "all pairs": lambda q, x, maps, r: pairwise(x, x, np.float64, squared=True, **maps),
    "paired_distances": lambda q, x, maps, r: mf.paired_distances(q, x, pairs=PAIRS, **maps),
    "few pairs": lambda q, x, maps, r: mf.paired_distances(q, x, pairs=PAIRS[:N], **maps),
    "rows": lambda q, x, maps, r: mf.paired_distances(x, x, **maps),
}


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(
    ("points", "maps", "dtype"),
    thinned(
        [*product(POINTS, MAPS, [np.float64]), *product(SINGLE, MAPS, [np.float32])],
        lambda case: (
            case[1:] in [("L", np.float64), ("Euclidean", np.float32)]
            or case == ("ordinary", "U, V", np.float64)
        ),
    ),
)
def test_results_are_those_of_points_in_memory(points: str, maps: str, dtype: type) -> None:
    X, how = POINTS[points].astype(dtype), MAPS[maps]
    Q = X[np.random.RandomState(1).permutation(N)[:QUERIES]]
    radius = float(np.median(mf.kneighbors(Q, X, K, **how)[0])) or 1e-3
    for name, call in CALLS.items():
        expected = call(Q, X, how, radius)
        for queries, database in ((Stored(Q), Stored(X)), (Q, Stored(X)), (Stored(Q), X)):
            with working_memory(150_000):  # blocks of 18 points, or fewer
                found = call(queries, database, how, radius)
            for a, b in zip(as_tuple(expected), as_tuple(found), strict=True):
                assert a.dtype == b.dtype
                np.testing.assert_array_equal(b, a, err_msg=f"{name}, {type(database).__name__}")


@pytest.mark.parametrize("stored", [np.array, Stored])
def test_equal_copies_of_a_map_are_one_map(stored: Callable[[Array], Any]) -> None:
    X, L = BASE + 1e9, MAPS["L"]["L"]
    radius = float(np.median(mf.kneighbors(X[:QUERIES], X, K, L=L)[0]))
    for name, call in CALLS.items():
        one, two = (
            call(stored(X[:QUERIES]), stored(X), maps, radius)
            for maps in ({"L": L}, {"U": L, "V": L.copy()})
        )
        for a, b in zip(as_tuple(one), as_tuple(two), strict=True):
            np.testing.assert_array_equal(b, a, err_msg=name)


@pytest.mark.parametrize("unit", [1.0, 1e-200])
def test_what_earlier_blocks_have_found_bounds_later_ones(unit: float) -> None:
    X = unit * np.random.RandomState(0).randint(0, 3, (54_000, 64))  # with many ties
    X = X.astype(np.float32 if unit == 1 else np.float64)
    expected = mf.kneighbors(X[-100:], X, 5, exclude=np.arange(53_900, 54_000))
    with working_memory(8 * X.nbytes // 3):
        found = mf.kneighbors(X[-100:], Stored(X), 5, exclude=np.arange(53_900, 54_000))
    np.testing.assert_array_equal(found, expected)


def test_points_after_zeros_show_the_unit_of_all() -> None:
    X = 1e-180 * RNG.randn(3000, 3)
    X[:70] = 0
    expected = mf.kneighbors(X[:100], X, n_neighbors=3)
    with working_memory(40_000):
        found = mf.kneighbors(X[:100], sources.Rows(X), n_neighbors=3)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_database_is_read_once_for_a_block_of_queries() -> None:
    X = np.tile(BASE, (2, 1)).astype(np.float32)
    stored, n = Stored(X), len(X)
    with working_memory(100_000):
        mf.kneighbors(X[:50], stored, 5)
        assert stored.rows_read == n
        # The first block shows that points need no shift before the embedding.
        mf.kneighbors(X[:50], stored, 5, L=MAPS["L"]["L"])
        assert n < stored.rows_read - n < 1.5 * n


def test_bad_values_are_found_while_they_are_read() -> None:
    X = BASE.copy()
    X[150, 3] = np.nan
    with working_memory(100_000):
        for call in (mf.kneighbors, mf.pairwise_distances, mf.neighbors.radius_neighbors):
            with pytest.raises(ValueError, match=r"(database|Y) contains NaN or infinity in rows"):
                call(BASE[:5], Stored(X))
        with pytest.raises(ValueError, match="squared distances overflow"):
            mf.kneighbors(
                BASE[:5], Stored(np.where(np.arange(N) < 99, 1, 1e200)[:, None] * BASE), 100
            )
        with pytest.raises(ValueError, match="database must have 3 columns"):
            mf.kneighbors([[1.0, 2.0, 3.0]], Stored(X))


def test_learners_predictors_and_metrics() -> None:
    X, y = load_iris(return_X_y=True)
    X, y = np.tile(X, (4, 1)) + 1e-3 * RNG.randn(600, 4), np.tile(y, 4)
    learner = mf.LFDA(n_components=2).fit(X, y)
    embedder = embedding_learner(mf.losses.NCA(), max_epochs=1).fit(X, y)
    kernelized = mf.KernelizedMetricLearner(mf.LFDA(n_components=2), n_components=9).fit(X, y)
    by_neighbors = mf.KNeighborsClassifier(3, metric=learner).fit(X[:99], y[:99])
    by_radius = mf.neighbors.RadiusNeighborsClassifier(5.0).fit(X[:99], y[:99])
    votes = mf.NeighborhoodGerrymandering(random_state=0).fit(X[:99], y[:99])
    database = mf.Database(X[:99])
    own = {"exclude": np.arange(60)}
    calls: dict[str, Callable[[Any], Any]] = {
        "transform": learner.transform,
        "embeddings": embedder.transform,
        "kernelized": kernelized.transform,
        "kneighbors": lambda X_: embedder.kneighbors(X[:60], X_, 4)[1],
        "score": lambda X_: embedder.score(X_, y),
        "predict": by_neighbors.predict,
        "predict_proba": by_radius.predict_proba,
        "votes": votes.predict,
        "Database": lambda X_: database.kneighbors(X_, 3)[1],
        "report": lambda X_: means(metrics.retrieval_report(X_, y)),
        "whole order": lambda X_: means(
            metrics.retrieval_report(X[:60], y[:60], X_, y, L=learner.components_, **own)
        ),
        "recall": lambda X_: metrics.recall_at_k(X[:60], y[:60], X_, y, **own),
        "folds": lambda X_: means(
            metrics.cross_validate_retrieval(mf.LFDA(), X_, y, folds=HALVES, metrics="recall_at_k")
        ),
    }
    for name, call in calls.items():
        expected = call(X)
        with working_memory(44_000):
            found = call(Stored(X))
        np.testing.assert_allclose(found, expected, rtol=1e-8, err_msg=name)


HALVES = [(np.arange(0, 600, 2), np.arange(1, 600, 2))]


def means(report: metrics.RetrievalReport) -> list[float]:
    return [score.mean for score in report.values()]


def test_queries_that_are_in_the_database_are_told_of() -> None:
    X, database = BASE.astype(np.float32), Stored(BASE.astype(np.float32))
    with working_memory(100_000):
        with pytest.warns(UserWarning, match="each query finds itself"):
            metrics.recall_at_k(X[:50], LABELS[:50], database, LABELS, k=2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            metrics.recall_at_k(X[:50] + 1, LABELS[:50], database, LABELS, k=2)


PROGRAM = """
import re, sys
from pathlib import Path
import numpy as np
import metricfast as mf
import sklearn

def held(what):
    return int(re.search(rf"{what}:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

X = np.lib.format.open_memmap(f"{sys.argv[1]}/X.npy", "w+", np.float32, (1 << 18, 64))
for start in range(0, len(X), 4096):
    X[start:start + 4096] = np.random.default_rng(start).normal(size=(4096, 64))
    X._mmap.madvise(4)  # MADV_DONTNEED

class Table:
    shape, dtype = X.shape, X.dtype

    def __getitem__(self, rows):
        start, stop, _ = rows.indices(1 << 18)
        offset = 128 + start * 256
        found = np.fromfile(f"{sys.argv[1]}/X.npy", np.float32, (stop - start) * 64, offset=offset)
        return found.reshape(-1, 64)

X = mf.sources.Rows(Table())
sklearn.set_config(working_memory=12)
few = np.ones((999, 64), np.float32)
mf.pairwise_distances(few[:99], mf.kneighbors(few, few, 64)[0])
Path("/proc/self/clear_refs").write_text("5")  # the most that was held is what is held now
before = held("VmRSS")
mf.kneighbors(few[:500], X, 10)
mf.metrics.recall_at_k(few[:100], np.arange(100) % 2, X, np.arange(len(X)) % 2)
print(held("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="of what that system counts as resident")
def test_a_search_holds_blocks_of_a_table(tmp_path: Path) -> None:
    assert float(run(PROGRAM, tmp_path).stdout) < 16  # megabytes; the file has 64
