"""Losses that PyTorch's users write by hand, on its automatic derivatives."""

from __future__ import annotations

__all__ = ["log_ratio"]

from typing import Any

import torch

from benchmarks.calls import Call, Data, valued


def _others(distances: torch.Tensor) -> torch.Tensor:
    """Leave the diagonal out: B rows of B - 1 entries."""
    size = len(distances)
    return distances.flatten()[1:].view(size - 1, size + 1)[:, :-1].reshape(size, size - 1)


def _mean_over_pairs(errors: torch.Tensor) -> torch.Tensor:
    """The mean of (e_i - e_j)^2 over pairs of different neighbours, from a B x m x m array."""
    m = errors.shape[-1]
    return (errors[..., :, None] - errors[..., None, :]).square().sum((-1, -2)) / (m * (m - 1))


def log_ratio(data: Data, threads: int, loop: bool) -> Call:
    """Time value and gradient of the log-ratio loss, all anchors and all pairs of neighbours.

    The loop goes through anchors, as the published code does from batch to batch; without it all
    anchors are one expression.
    """
    torch.set_num_threads(threads)
    z, y = torch.from_numpy(data["Z"]).requires_grad_(), torch.from_numpy(data["Y"])
    size = len(z)

    def anchor(i: int, label: torch.Tensor) -> float:
        others = torch.arange(size) != i
        distance = (z[i] - z[others]).square().sum(1)
        loss = _mean_over_pairs(distance.log() - label[i].log()) / size
        loss.backward()
        return loss.item()

    def run() -> Any:
        z.grad = None
        label = _others((y[:, None] - y[None]).square().sum(-1))
        if loop:
            return sum(anchor(i, label) for i in range(size)), z.grad
        distance = _others((z[:, None] - z[None]).square().sum(-1))
        loss = _mean_over_pairs(distance.log() - label.log()).mean()
        loss.backward()
        return loss.item(), z.grad

    return Call(run, valued)
