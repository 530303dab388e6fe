"""Points on disk: each store returns the same rows as an array."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from stored import Stored
from working_memory import working_memory

import metricfast as mf
from metricfast import sources
from metricfast._core.memory import block_rows
from metricfast._core.sources import Subset, parts, scaled
from metricfast._core.stores import as_source
from metricfast.training.stopping import hold_out

Array = NDArray[Any]


def memory_map(X: Array, folder: Path) -> Any:
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def zarr_array(X: Array, folder: Path) -> Any:
    zarr = pytest.importorskip("zarr")
    return zarr.create_array(folder / "X.zarr", data=X, chunks=(7, X.shape[1]))


def hdf5(X: Array, folder: Path) -> Any:
    h5py = pytest.importorskip("h5py")
    file = h5py.File(folder / "X.h5", "w")
    return file.create_dataset("X", data=X)


def arrow(X: Array) -> Any:
    pa = pytest.importorskip("pyarrow")
    return pa.table({f"x{i}": column for i, column in enumerate(X.T)})


def parquet(X: Array, folder: Path) -> Any:
    table, pq = arrow(X), pytest.importorskip("pyarrow.parquet")
    half = len(X) // 2
    (folder / "set").mkdir()
    for i, part in enumerate((table[:half], table[half:])):
        pq.write_table(part, folder / "set" / f"{i}.parquet", row_group_size=9)
    return pytest.importorskip("pyarrow.dataset").dataset(folder / "set")


def parquet_file(X: Array, folder: Path) -> Any:
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(arrow(X), folder / "X.parquet", row_group_size=9)
    return pq.ParquetFile(folder / "X.parquet")


STORES: dict[str, Callable[[Array, Path], Any]] = {
    "memory map": memory_map,
    "zarr": zarr_array,
    "HDF5": hdf5,
    "Arrow": lambda X, _: arrow(X),
    "Parquet": parquet,
    "Parquet file": parquet_file,
    "batches": lambda X, _: sources.Batches(lambda: iter(np.array_split(X, 7))),
    "rows": lambda X, _: sources.Rows(X),
    "own": lambda X, _: Stored(X),
}


@pytest.fixture(params=STORES)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Array, Any]]:
    X = np.random.RandomState(0).randn(100, 3).astype(np.float32)
    store = STORES[request.param](X, tmp_path)
    yield X, store
    if hasattr(store, "file"):
        store.file.close()


def test_a_store_gives_the_rows_of_an_array(stored: tuple[Array, Any]) -> None:
    X, store = stored
    source = as_source(store)
    assert source is not None and source.shape == X.shape and source.dtype == X.dtype
    rng = np.random.RandomState(1)
    for rows in (
        slice(None),
        slice(20, 63),
        slice(5, 5),
        slice(90, 3, -7),
        rng.randint(0, 100, 50),
        X[:, 0] > 0,
        np.array([99, 0, 99]),
    ):
        found = source[rows]
        np.testing.assert_array_equal(found, X[rows])
        assert found.flags.c_contiguous and not np.may_share_memory(found, X)
    np.testing.assert_array_equal(source[7], X[7])
    np.testing.assert_array_equal(np.asarray(source, np.float64), X.astype(np.float64))
    for size in (1, 30, 100, 1000):
        found = [block for _, block in parts(source, size)]
        assert all(len(block) <= size for block in found)
        np.testing.assert_array_equal(np.concatenate(found), X)


def test_rows_of_a_source_are_indexed_as_those_of_an_array() -> None:
    X = np.random.RandomState(0).randn(30, 4)
    source = sources.Rows(X)
    np.testing.assert_array_equal(source[[-1, 3, -30]], X[[-1, 3, -30]])
    np.testing.assert_array_equal(source[-2], X[-2])
    assert source[[]].shape == (0, 4)
    with pytest.raises(IndexError, match="whole numbers; found float64"):
        source[np.array([0.0, 1.0])]
    with pytest.raises(IndexError, match="rows must be from 0 to 29"):
        source[[-31]]


def test_a_column_that_is_not_finite_is_named() -> None:
    X = np.ones((5, 3))
    X[2, 1] = np.nan
    with pytest.raises(ValueError, match="infinity in rows 0 to 4 of its column 'x1'"):
        as_source(arrow(X))[:]


def test_training_rows_on_disk_ascend() -> None:
    train, test = hold_out(0.3, Stored(np.zeros((50, 1))), None, np.random.RandomState(0))
    assert (np.diff(train) > 0).all()
    assert set(train) | set(test) == set(range(50))


def test_learners_and_functions_take_each_store(stored: tuple[Array, Any]) -> None:
    X, store = stored
    y = (X[:, 0] > 0).astype(int)
    np.testing.assert_allclose(
        mf.MCML(tol=1e-2).fit(store, y).components_, mf.MCML(tol=1e-2).fit(X, y).components_
    )
    np.testing.assert_array_equal(mf.kneighbors(store)[1], mf.kneighbors(X)[1])
    of_two = mf.AsymmetricSimilarity(random_state=0, solver=mf.solvers.Adam(max_epochs=2))
    found, expected = (of_two.fit(A, y, A, y).components_query_ for A in (store, X))
    np.testing.assert_array_equal(found, expected)


def test_tools_of_scikit_learn_divide_a_source(stored: tuple[Array, Any]) -> None:
    X, store = stored
    source, y = as_source(store), (X[:, 0] > 0).astype(int)
    assert source is not None
    pipeline = make_pipeline(StandardScaler(), mf.LFDA(), mf.KNeighborsClassifier())
    for estimator in (mf.KNeighborsClassifier(metric=mf.LFDA()), pipeline):
        expected = cross_val_score(estimator, X, y, cv=3, error_score="raise")
        found = cross_val_score(estimator, source, y, cv=3, error_score="raise")
        np.testing.assert_array_equal(found, expected)
    search = GridSearchCV(mf.KNeighborsClassifier(), {"n_neighbors": [1, 3]}, cv=3)
    assert search.fit(source, y).best_score_ == search.fit(X, y).best_score_
    train, test = train_test_split(source, random_state=0)
    np.testing.assert_array_equal(test[:], train_test_split(X, random_state=0)[1])
    assert isinstance(train, sources.Source) and not isinstance(source[3, ...], sources.Source)


def test_views_of_a_source() -> None:
    X = np.random.RandomState(0).randn(50, 2) + 7
    rows = np.arange(3, 50, 4)
    points = scaled(Subset(Stored(X), rows), X.mean(axis=0), 3)
    expected = (X[rows] - X.mean(axis=0)) / 8
    np.testing.assert_array_equal(points[:], expected)
    np.testing.assert_array_equal(points[np.array([4, 1])], expected[[4, 1]])


def test_labels_come_with_batches() -> None:
    X = np.arange(40.0)[:, None]
    source = sources.Batches(lambda: ((block, block[:, 0] > 0) for block in np.split(X, 4)))
    np.testing.assert_array_equal(source.labels, X[:, 0] > 0)


def test_iterators_that_fill_the_same_arrays_again() -> None:
    X, y = np.arange(60.0).reshape(30, 2), np.arange(30) // 4
    block, part = np.empty((10, 2)), np.empty(10, int)

    def make() -> Iterator[tuple[Array, Array]]:
        for start in range(0, 30, 10):
            block[:], part[:] = X[start : start + 10], y[start : start + 10]
            yield block, part

    source = sources.Batches(make)
    np.testing.assert_array_equal(source.labels, y)
    np.testing.assert_array_equal(source[:], X)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_batches_of_frames_have_the_same_columns(library: str) -> None:
    frame: Any = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}[library]
    frame = getattr(pytest.importorskip(library), frame)
    columns = {"a": np.arange(4.0), "b": np.ones(4)}
    swapped, others = dict(reversed(columns.items())), {"a": columns["a"], "c": columns["b"]}
    source = sources.Batches(lambda: iter([frame(columns), frame(columns)]))
    assert source.feature_names == ["a", "b"]
    np.testing.assert_array_equal(source[2:6], [[2, 1], [3, 1], [0, 1], [1, 1]])
    for wrong in (frame(swapped), frame(others), np.ones((4, 2))):
        with pytest.raises(ValueError, match=r"the first has \['a', 'b'\], another has"):
            sources.Batches(lambda wrong=wrong: iter([frame(columns), wrong]))
    batches = [frame(columns), frame(columns)]
    source = sources.Batches(lambda: iter(batches))
    batches[1] = frame(swapped)
    with pytest.raises(ValueError, match=r"another has \['b', 'a'\]"):
        source[:]


@pytest.mark.parametrize("name", ["Parquet file", "Parquet", "batches"])
def test_threads_share_a_source(name: str, tmp_path: Path) -> None:
    X = np.random.RandomState(0).randn(400, 3)
    store = STORES[name](X, tmp_path)

    def look(seed: int) -> bool:
        rng, source = np.random.RandomState(seed), as_source(store)
        assert source is not None
        starts = rng.randint(0, 380, 30)
        return all((source[start : start + 20] == X[start : start + 20]).all() for start in starts)

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(look, range(8)))


def test_one_block_is_read_ahead_with_the_working_memory_of_the_caller() -> None:
    X = np.arange(40_000.0).reshape(-1, 4)

    class Slow(sources.Source):
        shape, dtype = X.shape, X.dtype
        reading = most = 0

        def read(self, start: int, stop: int) -> Array:
            Slow.reading += 1
            Slow.most = max(Slow.most, Slow.reading)
            time.sleep(0.01)
            Slow.reading -= 1
            assert block_rows(1) == 45_000
            return X[start:stop].copy()

    with working_memory(360_000):
        for rows, block in parts(Slow(), 500):
            np.testing.assert_array_equal(block, X[rows])
    assert Slow.most == 1


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: sources.Rows(np.arange(3.0)), ValueError, "two dimensions"),
        (lambda: sources.Rows(np.array([["a"]])), ValueError, "must hold numbers"),
        (lambda: sources.Rows(np.array([[1.0], [np.nan]]))[:], ValueError, "NaN or infinity in ro"),
        (lambda: sources.Rows(np.eye(3))[np.array([3])], IndexError, "from 0 to 2"),
        (lambda: sources.Batches([1]), TypeError, "make must be a function"),
        (lambda: sources.Batches(lambda: []), ValueError, "gave no batch"),
        (lambda: sources.Batches(lambda: [np.eye(3), np.eye(2)]), ValueError, "3 columns"),
        (lambda: sources.Batches(lambda: [(np.eye(3), [1])]), ValueError, "as many labels"),
        (
            lambda: sources.Batches(iter([iter([np.eye(3)]), iter([])]).__next__)[:],
            ValueError,
            "the same in every call",
        ),
        (lambda: sources.Columns(arrow(np.eye(2)), ["z"]), ValueError, "no column 'z'"),
        (lambda: sources.Columns(arrow(np.eye(2)), "x0"), TypeError, "columns must be a list"),
        (lambda: sources.Columns(arrow(np.eye(2)), ["x0", "x0"]), ValueError, "different names"),
        (lambda: sources.Columns(arrow(np.eye(2)).to_batches()[0]), TypeError, "data must be"),
        (lambda: sources.Rows(np.eye(3))[0, 1], IndexError, "by rows alone"),
        (lambda: mf.Covariance().fit(Stored(np.eye(3, dtype=int))), TypeError, "Stored has"),
        (lambda: mf.Covariance().fit(Stored(np.ones(3))), TypeError, "A source must have a shape"),
        (lambda: sources.Rows(np.eye(3))[np.array([True])], IndexError, "3 values"),
        (lambda: mf.Covariance().fit(sources.Rows(np.eye(1))), ValueError, "minimum of 2"),
        (lambda: mf.NCA().fit(sources.Rows(np.eye(3)), [0, 1]), ValueError, "inconsistent"),
        (lambda: mf.NCA().fit(sources.Rows(np.eye(3)), ""), ValueError, "y should be a 1d array"),
    ],
)
def test_bad_stores(make: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()


def test_memory_maps_of_any_strides_are_read(tmp_path: Path) -> None:
    X = np.arange(200_000.0).reshape(-1, 2)
    for mode, offset in (("r", 0), ("r+", 1000), ("c", 0)):
        np.save(tmp_path / "X.npy", X)
        view = np.load(tmp_path / "X.npy", mmap_mode=mode)[offset:]
        if mode != "r":
            view[7] = -1  # unflushed changes are read, too
        for _ in range(2):
            for part in (view, view[::-3], view[:, 1:], view[:, ::-1], view[3:4][::-1]):
                np.testing.assert_array_equal(sources.Rows(part)[:], np.array(part))
