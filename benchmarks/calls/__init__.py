"""The calls that a worker times: one module per package, one function per kind of work.

A function prepares the input of a user's call and returns a `Call`. The modules also run in the
environments of other packages, so each imports only the standard library, NumPy and its package.
"""

from __future__ import annotations

__all__ = [
    "MARGIN",
    "SAMPLE",
    "Call",
    "Data",
    "distances_of_pairs",
    "embedded",
    "fitting",
    "fitting_tuples",
    "found",
    "found_in_steps",
    "moved",
    "on_disk",
    "sampled",
    "valued",
]

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Data = dict[str, np.ndarray]
SAMPLE = 97
MARGIN = 1.4  # margin of the contrastive loss


@dataclass
class Call:
    """The timed work, and a digest: a few numbers of its result for comparisons."""

    run: Callable[[], Any]
    digest: Callable[[Any], Data] = field(default=lambda result: {})


def on_disk(data: Data) -> Path:
    """Return the path of a file, after dropping it from the page cache."""
    path = Path(str(data["path"]))
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


def sampled(distances: Any) -> Data:
    """Return a grid of entries of a matrix; a full copy would double the memory."""
    rows, columns = (np.linspace(0, size - 1, SAMPLE).astype(int) for size in distances.shape)
    return {"sample": np.asarray(distances[rows][:, columns], dtype=np.float64)}


def embedded(data: Data, name: str) -> np.ndarray:
    """Return points for a peer's search: embedded by L if the case has a map."""
    return data[name] @ data["L"].T if "L" in data else data[name]


def found(result: Any) -> Data:
    """Return the distances and indices of neighbours."""
    return {"distances": np.asarray(result[0]), "indices": np.asarray(result[1])}


def found_in_steps(results: list[Any]) -> Data:
    """Return the distances and indices that single searches have found."""
    return found(tuple(map(np.concatenate, zip(*results, strict=True))))


def valued(result: Any) -> Data:
    """Return the value and the gradient of a loss."""
    parts = result[1] if isinstance(result[1], tuple) else (result[1],)
    gradient = np.concatenate(parts).astype(np.float64)
    return {"value": np.asarray(result[0]), "gradient": gradient}


def moved(result: Any, start: list[np.ndarray], rate: float) -> Data:
    """Return the value and the gradient of a loss; the gradient is the change by a unit step."""
    value, arrays = result
    steps = [(a.astype(np.float64) - b).ravel() / -rate for a, b in zip(arrays, start, strict=True)]
    return {"value": np.asarray(value), "gradient": np.concatenate(steps)}


def _learned(fitted: Any) -> Data:
    """Return the learned map or similarity matrix, and last loss and iterations if available."""
    found = {
        "components": getattr(fitted, "components_", getattr(fitted, "bilinear_", None)),
        "loss": fitted.loss_curve_[-1] if hasattr(fitted, "loss_curve_") else None,
        "iterations": getattr(fitted, "n_iter_", None),
    }
    return {name: np.asarray(value) for name, value in found.items() if value is not None}


def fitting(estimator: Any, data: Data, target: str = "y") -> Call:
    """Time the fit of an estimator to points."""
    return Call(lambda: estimator.fit(data["X"], data[target]), _learned)


def fitting_tuples(estimator: Any, data: Data) -> Call:
    """Time the fit of an estimator to tuples that are formed in advance."""
    formed = data["X"][data["index"]]
    labels = (data["y"],) if "y" in data else ()
    return Call(lambda: estimator.fit(formed, *labels), _learned)


def distances_of_pairs(estimator: Any, data: Data) -> Call:
    """Time distances of indexed pairs under a given map; the digest is every thousandth."""
    estimator.set_params(preprocessor=data["X"]).fit(np.arange(len(data["X"])))
    estimator.components_ = data["L"]
    rows = np.arange(0, len(data["index"]), 1000)
    return Call(
        lambda: estimator.pair_distance(data["index"]),
        lambda distances: {"distances": distances[rows], "rows": rows},
    )
