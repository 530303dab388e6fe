"""mlpack, whose number of threads the environment sets."""

from __future__ import annotations

__all__ = ["nca", "neighbors"]

from types import SimpleNamespace
from typing import Any

import mlpack

from benchmarks.calls import Call, Data, embedded, fitting, found


def neighbors(data: Data, threads: int, k: int) -> Call:
    """Time the search of a tree by a tree of the queries; that of the database is not counted."""
    model = mlpack.knn(reference=embedded(data, "database"))["output_model"]

    def run() -> Any:
        result = mlpack.knn(k=k, input_model=model, query=embedded(data, "queries"))
        return result["distances"], result["neighbors"]

    return Call(run, found)


class _NCA:
    def __init__(self, **params: Any) -> None:
        self.params = params

    def fit(self, x: Any, y: Any) -> Any:
        found = mlpack.nca(input_=x, labels=y, optimizer="lbfgs", **self.params)
        return SimpleNamespace(components_=found["output"])


def nca(data: Data, threads: int, **params: Any) -> Call:
    """Time NCA by L-BFGS, from the identity."""
    return fitting(_NCA(**params), data)
