"""PyTorch."""

from __future__ import annotations

__all__ = ["neighbors", "pairwise", "soft_votes"]

import torch

from benchmarks.calls import Call, Data, found, sampled

QUERIES_PER_BLOCK = 2000


def pairwise(data: Data, threads: int) -> Call:
    """Time cdist on mapped points."""
    torch.set_num_threads(threads)
    x, y, linear = (torch.from_numpy(data[name]) for name in ("X", "Y", "L"))
    return Call(
        lambda: torch.cdist(x @ linear.T, y @ linear.T), lambda result: sampled(result.numpy())
    )


def neighbors(data: Data, threads: int, k: int) -> Call:
    """Time cdist and topk over blocks of queries."""
    torch.set_num_threads(threads)
    queries, database = (torch.from_numpy(data[name]) for name in ("queries", "database"))

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        blocks = [
            torch.cdist(block, database).topk(k, largest=False)
            for block in queries.split(QUERIES_PER_BLOCK)
        ]
        return torch.cat([b.values for b in blocks]), torch.cat([b.indices for b in blocks])

    return Call(run, found)


def soft_votes(data: Data, threads: int) -> Call:
    """Time cdist, softmax and the product with the values, over blocks of queries."""
    torch.set_num_threads(threads)
    queries, database, values = (
        torch.from_numpy(data[name]) for name in ("queries", "database", "values")
    )

    def run() -> torch.Tensor:
        blocks = queries.to(values.dtype).split(QUERIES_PER_BLOCK)
        points = database.to(values.dtype)
        return torch.cat([(-torch.cdist(part, points)).softmax(1) @ values for part in blocks])

    return Call(run, lambda means: {"means": means.numpy()})
