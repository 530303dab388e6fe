"""NumPy's matrix products, a lower bound for methods that are built on them."""

from __future__ import annotations

__all__ = ["gemm", "neighbors", "pairwise"]

import numpy as np

from benchmarks.calls import Call, Data


def gemm(data: Data, threads: int, size: int, dtype: str) -> Call:
    """Time one square product."""
    matrix = np.random.default_rng(0).standard_normal((size, size)).astype(dtype)
    other, out = matrix[::-1].copy(), np.empty_like(matrix)
    return Call(lambda: np.matmul(matrix, other, out=out))


def pairwise(data: Data, threads: int, given: bool = False) -> Call:
    """Time the products of all pairs of distances."""
    x, y, linear = data["X"], data["Y"], data["L"]
    out = np.zeros((len(x), len(y)), x.dtype) if given else None
    return Call(lambda: np.matmul(x @ linear.T, (y @ linear.T).T, out=out))


def neighbors(data: Data, threads: int, k: int, rows: int = 500, columns: int = 2000) -> Call:
    """Time the products of a neighbour search, into a tile that stays in cache."""
    queries, database = data["queries"], data["database"]
    memory = np.empty(rows * columns, queries.dtype)

    def run() -> None:
        for i in range(0, len(queries), rows):
            for j in range(0, len(database), columns):
                a, b = queries[i : i + rows], database[j : j + columns].T
                tile = memory[: a.shape[0] * b.shape[1]].reshape(a.shape[0], b.shape[1])
                np.matmul(a, b, out=tile)

    return Call(run)
