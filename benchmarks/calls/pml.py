"""pytorch-metric-learning."""

from __future__ import annotations

__all__ = ["loss", "map_at_r"]

from typing import Any

import numpy as np
import torch
from pytorch_metric_learning import distances, losses
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

from benchmarks.calls import Call, Data, valued


def loss(data: Data, threads: int, name: str, distance: str, power: int = 1, **params: Any) -> Call:
    """Time value and gradient of a loss, without normalising embeddings."""
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


def map_at_r(data: Data, threads: int) -> Call:
    """Time MAP@R of points among themselves, with neighbours from faiss."""
    torch.set_num_threads(threads)
    x, y = torch.from_numpy(data["X"]), torch.from_numpy(data["y"])
    name = "mean_average_precision_at_r"
    calculator = AccuracyCalculator(include=(name,), k="max_bin_count", device=torch.device("cpu"))
    return Call(
        lambda: calculator.get_accuracy(x, y), lambda result: {"value": np.asarray(result[name])}
    )
