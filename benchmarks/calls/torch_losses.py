"""Losses that users of PyTorch write themselves, with automatic differentiation."""

from __future__ import annotations

__all__ = ["log_ratio", "mlp_step", "tabular_step"]

from typing import Any

import numpy as np
import torch

from benchmarks.calls import MARGIN, Call, Data, moved, valued


def _others(distances: torch.Tensor) -> torch.Tensor:
    """Remove the diagonal: B rows of B - 1 entries."""
    size = len(distances)
    return distances.flatten()[1:].view(size - 1, size + 1)[:, :-1].reshape(size, size - 1)


def _mean_over_pairs(errors: torch.Tensor) -> torch.Tensor:
    """The mean of (e_i - e_j)^2 over pairs of different neighbours, from a B x m x m array."""
    m = errors.shape[-1]
    return (errors[..., :, None] - errors[..., None, :]).square().sum((-1, -2)) / (m * (m - 1))


def log_ratio(data: Data, threads: int, loop: bool) -> Call:
    """Time value and gradient of the log-ratio loss, all anchors and all pairs of neighbours.

    With `loop`, anchors are processed one by one, as in the published code; otherwise in one
    expression.
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


def mlp_step(data: Data, threads: int, rate: float = 1.0, margin: float = MARGIN) -> Call:
    """Time one step of a perceptron on a batch; the digest is the change divided by the rate."""
    torch.set_num_threads(threads)
    x, y = torch.from_numpy(data["X"]), torch.from_numpy(data["y"])
    layers = [torch.nn.Linear(*data[f"W{i}"].shape[::-1]) for i in range(2)]
    start = [data[name] for name in ("W0", "b0", "W1", "b1")]
    model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1])
    solver = torch.optim.SGD(model.parameters(), lr=rate)
    same = y[:, None] == y[None]
    negative = ~same
    positive = same & ~torch.eye(len(y), dtype=torch.bool)

    def contrastive(z: torch.Tensor) -> torch.Tensor:
        distances = torch.cdist(z, z)
        hinge = (margin - distances[negative]).relu()
        return distances[positive].mean() + hinge.sum() / (hinge > 0).sum()

    def run() -> Any:
        with torch.no_grad():
            for parameter, given in zip(model.parameters(), start, strict=True):
                parameter.copy_(torch.from_numpy(given))
        solver.zero_grad()
        loss = contrastive(model(x))
        loss.backward()
        solver.step()
        return loss.item(), [parameter.detach().numpy() for parameter in model.parameters()]

    return Call(run, lambda result: moved(result, start, rate))


def tabular_step(data: Data, threads: int, n_anchors: int) -> Call:
    """Time one step on a batch of anchors and candidates, in the style of ModernNCA's code."""
    torch.set_num_threads(threads)
    parameters = [torch.from_numpy(data[name]).requires_grad_() for name in ("c", "A", "a", "L")]
    c, A, a, L = parameters
    solver = torch.optim.AdamW(parameters, lr=0.01, weight_decay=2e-4)
    points, labels = torch.from_numpy(data["X"]), torch.from_numpy(data["y"])
    rows = torch.from_numpy(data["rows"])
    classes = torch.nn.functional.one_hot(labels).float()

    def embed(x: torch.Tensor) -> torch.Tensor:
        turns = 2 * torch.pi * x[..., None] * c
        waves = torch.cat([torch.cos(turns), torch.sin(turns)], -1)
        return (waves @ A.T + a).relu().flatten(1) @ L.T

    def run() -> Any:
        with torch.no_grad():
            for parameter, name in zip(parameters, ("c", "A", "a", "L"), strict=True):
                parameter.copy_(torch.from_numpy(data[name].copy()))
        solver.zero_grad()
        z = embed(points[rows])
        distances = torch.cdist(z[:n_anchors], z)
        distances = distances.clone().fill_diagonal_(torch.inf)
        chances = (-distances).softmax(1) @ classes[rows]
        loss = torch.nn.functional.nll_loss((chances + 1e-7).log(), labels[rows[:n_anchors]])
        loss.backward()
        solver.step()
        return loss.item(), np.concatenate([p.grad.numpy().ravel() for p in parameters])

    return Call(run, lambda result: {"value": np.asarray(result[0]), "gradient": result[1]})
