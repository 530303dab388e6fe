"""pytorch-metric-learning."""

from __future__ import annotations

__all__ = ["loss"]

from typing import Any

import torch
from pytorch_metric_learning import distances, losses

from benchmarks.calls import Call, Data, valued


def loss(data: Data, threads: int, name: str, distance: str, power: int = 1, **params: Any) -> Call:
    """Time value and gradient of a loss; embeddings are taken as they are."""
    torch.set_num_threads(threads)
    z, y = torch.from_numpy(data["Z"]).requires_grad_(), torch.from_numpy(data["y"])
    between = getattr(distances, distance)(normalize_embeddings=False, power=power)
    function = getattr(losses, name)(distance=between, **params)

    def run() -> Any:
        z.grad = None
        value = function(z, y)
        value.backward()
        return value.item(), z.grad

    return Call(run, valued)
