"""The table of the functional interface in bad_input.md: a case for each row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bad_input import changed, check, other_layouts, read_table
from scipy.sparse import csr_array

import metricfast as mf
from metricfast import losses

TABLE = read_table("Functional interface")
P = np.random.default_rng(0).normal(size=(6, 4))
FRAME = pd.DataFrame(P, columns=list("abcd"))
LABELS = np.array([0, 0, 1, 1, 2, 2])
L = np.eye(4)[:2]
W = np.ones((6, 6))


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def into_itself(points: np.ndarray) -> None:
    mf.pairwise_distances(points, out=points)


def without_first(database: mf.Database) -> mf.Database:
    database.remove([0])
    return database


CASES = {
    "points-1d": lambda: mf.pairwise_distances(P[0]),
    "points-3d": lambda: mf.pairwise_distances(P[None]),
    "points-empty": lambda: mf.pairwise_distances(P[:0]),
    "points-no-columns": lambda: mf.pairwise_distances(P[:, :0]),
    "points-nan": lambda: mf.pairwise_distances(changed(np.nan, P)),
    "points-inf": lambda: mf.pairwise_distances(P, changed(np.inf, P)),
    "points-complex": lambda: mf.pairwise_distances(P + 0j),
    "points-text": lambda: mf.pairwise_distances([["a", "b"]]),
    "points-sparse": lambda: mf.pairwise_distances(csr_array(P)),
    "points-width": lambda: mf.pairwise_distances(P, P[:, :3]),
    "queries-nan": lambda: mf.kneighbors(changed(np.nan, P), n_neighbors=1),
    "database-order": lambda: mf.kneighbors(FRAME, FRAME[list("bacd")], 1),
    "database-width": lambda: mf.kneighbors(P, P[:, :3], 1),
    "map-width": lambda: mf.pairwise_distances(P, L=np.eye(3)),
    "map-nan": lambda: mf.pairwise_distances(P, L=L * np.nan),
    "map-both": lambda: mf.pairwise_distances(P, L=L, U=L),
    "map-half": lambda: mf.pairwise_distances(P, U=L),
    "map-rows": lambda: mf.pairwise_distances(P, U=L, V=np.eye(4)[:3]),
    "n_jobs-zero": lambda: mf.pairwise_distances(P, n_jobs=0),
    "n_jobs-float": lambda: mf.pairwise_distances(P, n_jobs=1.5),
    "out-shape": lambda: mf.pairwise_distances(P, out=np.empty((5, 6))),
    "out-dtype": lambda: mf.pairwise_distances(P, out=np.empty((6, 6), int)),
    "out-order": lambda: mf.pairwise_distances(P, out=np.empty((6, 6), order="F")),
    "out-read-only": lambda: mf.pairwise_distances(P, out=read_only(np.empty((6, 6)))),
    "out-overlap": lambda: into_itself(np.zeros((6, 6))),
    "paired-nothing": lambda: mf.paired_distances(P),
    "paired-length": lambda: mf.paired_distances(P, P[:5]),
    "pairs-shape": lambda: mf.paired_distances(P, pairs=[[0, 1, 2]]),
    "pairs-float": lambda: mf.paired_distances(P, pairs=[[0.0, 1.0]]),
    "pairs-range": lambda: mf.paired_distances(P, pairs=[[0, 0], [0, 6]]),
    "pairs-negative": lambda: mf.paired_distances(P, pairs=[[-1, 0]]),
    "k-zero": lambda: mf.kneighbors(P, n_neighbors=0),
    "k-large": lambda: mf.kneighbors(P, P, n_neighbors=7),
    "k-large-self": lambda: mf.kneighbors(P, n_neighbors=6),
    "k-float": lambda: mf.kneighbors(P, n_neighbors=2.5),
    "radius": lambda: mf.neighbors.radius_neighbors(P, radius=-1.0),
    "exclude-range": lambda: mf.kneighbors(P, P, 1, exclude=np.arange(6) + 1),
    "exclude-shape": lambda: mf.kneighbors(P, P, 1, exclude=np.arange(5)),
    "database-precision": lambda: mf.Database(P, precision="int4"),
    "database-nan": lambda: mf.Database(changed(np.nan, P)),
    "database-queries-nan": lambda: mf.Database(P).kneighbors(changed(np.nan, P)),
    "database-queries-width": lambda: mf.Database(P).kneighbors(P[:, :3]),
    "database-k": lambda: without_first(mf.Database(P)).kneighbors(P, 6),
    "database-exclude": lambda: mf.Database(P).kneighbors(P, 1, exclude=np.full(6, 6)),
    "database-add-width": lambda: mf.Database(P).add(P[:, :3]),
    "database-remove-kind": lambda: mf.Database(P).remove([0.5]),
    "database-remove-missing": lambda: mf.Database(P).remove([0, 7]),
    "database-remove-all": lambda: mf.Database(P).remove(np.arange(6)),
    "database-load-missing": lambda: mf.Database.load("missing"),
    "labels-length": lambda: mf.neighbors.kneighbors_per_class(P, None, LABELS[:5], 1),
    "weights-shape": lambda: mf.metric_gradient(P, W[:, :5], L=L),
    "weights-nan": lambda: mf.metric_gradient(P, W * np.nan, L=L),
    "gradient-none": lambda: mf.metric_gradient(P, W),
    "gradient-both": lambda: mf.metric_gradient(P, W, L=L, M=np.eye(4)),
    "gradient-m-shape": lambda: mf.metric_gradient(P, W, M=np.eye(4)[:3]),
    "loss-y-length": lambda: losses.NCA()(P, LABELS[:5]),
    "loss-database-half": lambda: losses.LMNN()(P, LABELS, P),
    "loss-weight": lambda: losses.NCA()(P, LABELS, sample_weight=[-1, 1, 1, 1, 1, 1]),
    "loss-form": lambda: losses.NCA(form="other")(P, LABELS),
}


def case(function):
    """Add a case with more than one line of code; `points_far` is the row `points-far`."""
    CASES[function.__name__.replace("_", "-")] = function
    return function


def every_function(points: np.ndarray, L: np.ndarray = L) -> list[np.ndarray]:
    """Return the results of all functions that take points."""
    return [
        mf.pairwise_distances(points, L=L),
        mf.paired_distances(points, points[::-1], L=L),
        mf.kneighbors(points, n_neighbors=2, L=L)[0],
        mf.neighbors.kneighbors_per_class(points, None, LABELS, 1, L=L)[0],
        mf.neighbors.radius_neighbors(points, radius=2.0, L=L)[0],
        mf.metric_gradient(points, W, L=L),
    ]


def assert_same_results(points: np.ndarray, like: np.ndarray) -> None:
    for found, expected in zip(every_function(points), every_function(like), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@case
def points_object():
    assert_same_results(P.astype(object), like=P)


@case
def points_integers():
    for points in (np.round(3 * P).astype(np.int8), np.abs(9 * P).astype(np.uint64), P > 0):
        assert_same_results(points, like=points.astype(np.float64))


@case
def points_layout():
    for points in (P, P.astype(np.float32)):
        for other in (*other_layouts(points), points.astype(points.dtype.newbyteorder())):
            assert_same_results(other, like=points)


@case
def points_not_modified():
    points, maps = P.copy(), L.copy()
    every_function(points, maps)
    np.testing.assert_array_equal(points, P)
    np.testing.assert_array_equal(maps, L)


@case
def points_mixed():
    assert mf.pairwise_distances(P, P.astype(np.float32)).dtype == np.float64
    assert mf.kneighbors(P.astype(np.float32), P, 2)[0].dtype == np.float64


def assert_scaled_distances(scale: float) -> None:
    distances = mf.pairwise_distances(P * scale) / scale
    np.testing.assert_allclose(distances, mf.pairwise_distances(P), rtol=1e-12)
    distances, indices = mf.kneighbors(P * scale, n_neighbors=3)
    expected, expected_indices = mf.kneighbors(P, n_neighbors=3)
    np.testing.assert_allclose(distances / scale, expected, rtol=1e-12)
    np.testing.assert_array_equal(indices, expected_indices)


@case
def points_tiny():
    assert_scaled_distances(1e-150)


@case
def points_huge():
    assert_scaled_distances(1e150)


@case
def points_far():
    steps = 2.0**-10 * np.arange(8.0)
    expected = np.abs(steps[:, None] - steps)
    distances = mf.pairwise_distances((2.0**30 + steps)[:, None])
    np.testing.assert_allclose(distances, expected, rtol=1e-12)


@case
def points_equal():
    for dtype in (np.float32, np.float64):
        points = np.repeat(P.astype(dtype), 2, axis=0)
        distances = mf.pairwise_distances(points)
        assert (distances.diagonal() == 0).all()
        assert (distances[::2, 1::2].diagonal() == 0).all()
        assert (mf.kneighbors(points, n_neighbors=1)[0] == 0).all()


@case
def database_exclude_gone():
    database = without_first(mf.Database(P))
    _, ids = database.kneighbors(P, 5, exclude=np.zeros(6, int))
    assert (np.sort(ids) == np.arange(1, 6)).all()


@case
def database_refused():
    database = mf.Database(P)
    for change in (database.add, database.remove):
        with pytest.raises(ValueError, match="must"):
            change([[7]])
    np.testing.assert_array_equal(database.ids_, np.arange(6))
    np.testing.assert_array_equal(database.add(P[:1]), [6])


@case
def database_load_damaged():
    mf.Database(P).save("database")
    content = bytearray(Path("database").read_bytes())
    content[-1] ^= 1
    Path("database").write_bytes(content)
    mf.Database.load("database")


@case
def database_load_other():
    mf.save(mf.Covariance().fit(P), "model")
    mf.Database.load("model")


@case
def class_small():
    distances, indices = mf.neighbors.kneighbors_per_class(P, P, LABELS, 3)
    assert np.isinf(distances[:, :, 2]).all()
    assert (indices[:, :, 2] == -1).all()
    assert (indices[:, :, :2] >= 0).all()


@case
def loss_coincident():
    points = np.full((6, 4), 0.3)
    for loss in (losses.NCA(), losses.NCA(form="log"), losses.LMNN(n_neighbors=1)):
        value, gradient = loss(points, LABELS)
        assert np.isfinite(value)
        np.testing.assert_array_equal(gradient, np.zeros((6, 4)))


@pytest.mark.parametrize("name", TABLE)
def test_row(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(TABLE[name], CASES[name])


def test_every_row_has_a_case_and_every_case_a_row():
    assert set(TABLE) == set(CASES)
