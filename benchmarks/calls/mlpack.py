"""mlpack; the environment sets its number of threads."""

from __future__ import annotations

__all__ = ["nca", "neighbors"]

from types import SimpleNamespace
from typing import Any

import mlpack

from benchmarks.calls import Call, Data, embedded, fitting, found


def neighbors(data: Data, threads: int, k: int) -> Call:
    """Time a dual-tree search, including the tree of the queries but not of the database."""
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
