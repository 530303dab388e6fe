"""A search keeps to `memory_limit`, or says how much it needs, which is then enough.

This file is also the program, of a process of its own, whose memory is measured.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peak_memory import BESIDE, measured, needed_and_peak

import metricfast as mf
from metricfast import neighbors
from metricfast.distances.blocks import search_bytes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

FAR = 1e3


def points(n: int, d: int = 4, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(0).random((n, d), dtype=dtype)


def on_disk(folder: str, n: int, d: int = 4) -> np.ndarray:
    np.save(Path(folder) / "points.npy", points(n, d))
    return np.load(Path(folder) / "points.npy", mmap_mode="r")


def fitted(estimator: Any, n: int = 1500, outputs: int | None = None) -> Any:
    shape = (n,) if outputs is None else (n, outputs)
    return estimator.fit(points(n), np.random.default_rng(0).integers(3, size=shape))


# What a call is made of, once for few points and then for all: so that modules are there before.
Call = Callable[[int, str], Callable[[], object]]
CASES: dict[str, tuple[int, Call]] = {}


def case(n: int) -> Callable[[Call], Call]:
    def named(make: Call) -> Call:
        CASES[make.__name__] = n, make
        return make

    return named


@case(1500)
def many_pairs(n, folder):
    X = points(n)
    return lambda: mf.radius_neighbors(X, radius=FAR)


@case(1500)
def many_pairs_in_order(n, folder):
    X = points(n)
    return lambda: mf.radius_neighbors(X, radius=FAR, sort_results=True)


@case(1500)
def many_pairs_on_disk(n, folder):
    X = on_disk(folder, n)
    return lambda: mf.radius_neighbors(X, radius=FAR, sort_results=True)


@case(1_000_000)
def queries_without_neighbors(n, folder):
    X = points(n)
    return lambda: mf.radius_neighbors(X + 9 if n < 100 else X, points(1) - 9, radius=1.0)


@case(1_000_000)
def queries_on_disk(n, folder):
    X = on_disk(folder, n, 16)
    return lambda: mf.radius_neighbors(X, points(1, 16), radius=FAR)


@case(100_000)
def wide_points_under_a_map_on_disk(n, folder):
    X, L = on_disk(folder, n, 128), points(8, 128)
    return lambda: mf.radius_neighbors(X, X[:1], radius=1e9, L=L)


@case(20_000)
def nearest(n, folder):
    X = points(n)
    return lambda: mf.kneighbors(X, n_neighbors=min(n - 1, 100))


@case(20_000)
def nearest_on_disk(n, folder):
    X = on_disk(folder, n)
    return lambda: mf.kneighbors(X, n_neighbors=min(n - 1, 100))


@case(2000)
def distances(n, folder):
    X = points(n)
    return lambda: mf.pairwise_distances(X)


def of_estimator(
    name: str, n: int, make: Callable[[], Any], call: Callable[[Any, Any], Any],
    dtype: Any = np.float32,
) -> None:  # fmt: skip
    def with_estimator(n, folder):
        estimator, X = make(), points(n, dtype=dtype)
        return lambda: call(estimator, X)

    CASES[name] = n, with_estimator


WITHIN = {"radius": FAR}
of_estimator(
    "radius_predict", 1500,
    lambda: fitted(neighbors.RadiusNeighborsClassifier(**WITHIN)), lambda e, X: e.predict(X),
)  # fmt: skip
of_estimator(
    "radius_predict_by_distance", 1500,
    lambda: fitted(neighbors.RadiusNeighborsClassifier(**WITHIN, weights="distance")),
    lambda e, X: e.predict_proba(X),
)  # fmt: skip
of_estimator(
    "radius_regression", 1500,
    lambda: fitted(neighbors.RadiusNeighborsRegressor(**WITHIN)), lambda e, X: e.predict(X),
)  # fmt: skip
of_estimator(
    "radius_regression_of_many", 1500,
    lambda: fitted(neighbors.RadiusNeighborsRegressor(**WITHIN, weights="distance"), outputs=8),
    lambda e, X: e.predict(X),
)  # fmt: skip
of_estimator(
    "radius_neighbors", 1500,
    lambda: fitted(neighbors.RadiusNeighborsClassifier(**WITHIN)),
    lambda e, X: e.radius_neighbors(X),
)  # fmt: skip
of_estimator(
    "radius_graph", 1500,
    lambda: fitted(neighbors.RadiusNeighborsClassifier(**WITHIN)),
    lambda e, X: e.radius_neighbors_graph(X, mode="distance"),
)  # fmt: skip
of_estimator(
    "predict", 20_000,
    lambda: fitted(neighbors.KNeighborsClassifier(n_neighbors=100)), lambda e, X: e.predict(X),
)  # fmt: skip
of_estimator(
    "predict_by_distance", 20_000,
    lambda: fitted(neighbors.KNeighborsClassifier(n_neighbors=100, weights="distance")),
    lambda e, X: e.predict_proba(X),
)  # fmt: skip
of_estimator(
    "regression_of_many", 20_000,
    lambda: fitted(neighbors.KNeighborsRegressor(n_neighbors=100, weights="distance"), outputs=8),
    lambda e, X: e.predict(X),
)  # fmt: skip
of_estimator(
    "graph", 20_000,
    lambda: fitted(neighbors.KNeighborsClassifier(n_neighbors=100)),
    lambda e, X: e.kneighbors_graph(X, mode="distance"),
)  # fmt: skip
of_estimator(
    "graph_of_ones", 20_000,
    lambda: fitted(neighbors.KNeighborsClassifier(n_neighbors=100)),
    lambda e, X: e.kneighbors_graph(X), np.float64,
)  # fmt: skip
of_estimator(
    "nearest_of_estimator", 20_000,
    lambda: fitted(neighbors.KNeighborsClassifier(n_neighbors=100)),
    lambda e, X: e.kneighbors(X), np.float64,
)  # fmt: skip
of_estimator(
    "predict_in_doubles", 20_000,
    lambda: fitted(neighbors.KNeighborsClassifier(n_neighbors=100)), lambda e, X: e.predict(X),
    np.float64,
)  # fmt: skip
of_estimator(
    "radius_predict_in_doubles", 1500,
    lambda: fitted(neighbors.RadiusNeighborsClassifier(**WITHIN)), lambda e, X: e.predict(X),
    np.float64,
)  # fmt: skip


of_estimator(
    "shares_of_many_classes", 6000,
    lambda: neighbors.KNeighborsClassifier().fit(points(3000), np.arange(3000) // 3),
    lambda e, X: e.predict_proba(X),
)  # fmt: skip
of_estimator(
    "means_of_many_outputs", 60_000,
    lambda: neighbors.KNeighborsRegressor().fit(points(3000), points(3000, 60)),
    lambda e, X: e.predict(X),
)  # fmt: skip
of_estimator(
    "transform", 600_000,
    lambda: mf.Covariance(n_components=4).fit(points(100, 4)), lambda e, X: e.transform(X),
    np.float64,
)  # fmt: skip
of_estimator(
    "networks", 600_000,
    lambda: mf.TripletLearner(12, hidden_layer_sizes=(64,), max_epochs=1).fit(
        points(90), np.arange(90) % 3
    ),
    lambda e, X: e.transform(X), np.float64,
)  # fmt: skip
of_estimator(
    "kernelized", 300_000,
    lambda: mf.KernelizedMetricLearner(mf.Covariance(), n_components=20).fit(points(90)),
    lambda e, X: e.transform(X), np.float64,
)  # fmt: skip
of_estimator("added", 600_000, lambda: mf.Database(points(1_000_000)), lambda e, X: e.add(X))
of_estimator(
    "added_doubles", 20, lambda: mf.Database(points(600_000)), lambda e, X: e.add(X), np.float64
)
of_estimator(
    "queries_under_a_map", 300_000, lambda: mf.Database(points(90), L=points(100, 4)),
    lambda e, X: e.kneighbors(X, 3),
)  # fmt: skip
of_estimator(
    "removed", 3, lambda: mf.Database(points(600_000)), lambda e, X: e.remove(e.ids_[:1])
)  # fmt: skip
of_estimator(
    "names_of_neighbors", 20_000, lambda: without_first(mf.Database(points(1500))),
    lambda e, X: e.kneighbors(X, 100),
)  # fmt: skip


def without_first(database: mf.Database) -> mf.Database:
    database.remove([0])
    return database


@case(600_000)
def database_of_boxes(n, folder):
    X = points(n)
    return lambda: mf.Database(X)


@case(60_000)
def database_of_integers(n, folder):
    X = points(n, 100)
    return lambda: mf.Database(X)


@case(60_000)
def database_under_a_map(n, folder):
    X, L = points(n, 100), points(30, 100)
    return lambda: mf.Database(X, L=L)


@case(20_000)
def nearest_of_classes(n, folder):
    X = points(n)
    base, labels = X[: min(n, 600)], np.arange(min(n, 600)) % 2
    return lambda: mf.kneighbors_per_class(X, base, labels, min(n, 60))


@case(3_000_000)
def distances_of_pairs(n, folder):
    X, pairs = points(9), np.arange(2 * n).reshape(-1, 2) % 9
    return lambda: mf.paired_distances(X, pairs=pairs)


def main(name: str, folder: str) -> None:
    n, make = CASES[name]
    make(3, folder)()
    print(*needed_and_peak(make(n, folder)), sep=",")


@pytest.mark.parametrize("name", CASES)
def test_a_search_keeps_to_the_limit_that_it_asks_for(name: str, tmp_path: Path) -> None:
    ((limit, peak),) = measured(__file__, name, tmp_path)
    assert int(peak) < int(limit) + BESIDE, (limit, peak)
    assert int(limit) < 3 * int(peak) + BESIDE, (limit, peak)


def at_once(d: int, kind: str) -> None:
    """Search all points at once, with a limit that has just room for that."""
    n, k = 150_000, 3
    X = points(n, d)
    if kind == "nearly equal":
        X = X[np.arange(n) % 50] + 1e-7 * X
    queries = X[:1500] * (1e9 if kind == "far away" else 1)
    mf.kneighbors(queries[:900], X[:900], k)
    limit = 12 * k * len(queries) + search_bytes(d) * n
    print(*needed_and_peak(lambda: mf.kneighbors(queries, X, k), limit), sep=",")


@pytest.mark.parametrize("kind", ["ordinary", "nearly equal", "far away"])
@pytest.mark.parametrize("d", [1, 5, 6, 64])
def test_what_is_made_of_points_at_once_is_counted(d: int, kind: str) -> None:
    ((limit, peak),) = measured(__file__, d, kind)
    assert int(peak) < int(limit) + BESIDE, (limit, peak)


if __name__ == "__main__":
    if sys.argv[1].isdigit():
        at_once(int(sys.argv[1]), sys.argv[2])
    else:
        main(*sys.argv[1:])
