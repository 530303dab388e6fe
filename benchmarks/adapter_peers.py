"""Other ways to adapt embeddings: closed forms, and linear maps that torch trains."""

from __future__ import annotations

__all__ = ["CLOSED", "Course", "Recipe", "courses", "recipes", "tune"]

import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from sklearn.preprocessing import normalize

from benchmarks.adapter_data import Pairs, Task

# Regularisation of whitening and of ridge regression, in shares of the mean square of features.
_SHARES = (1e-3, 1e-2, 1e-1, 1.0)
# The share of queries that tunes a recipe, and the largest number of epochs.
_VALIDATION, _EPOCHS = 0.2, 100


def _related(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Return points of length 1 that belong together; of scored pairs, the better half."""
    if pairs.scored:
        rows = np.flatnonzero(pairs.y >= np.median(pairs.y))
        columns = rows
    else:
        rows, columns = pairs.y.nonzero()
    return normalize(pairs.queries)[rows], normalize(pairs.database)[columns]


def _whitening(task: Task, share: float) -> np.ndarray:
    """Return the root of the inverse second moments of the points to map."""
    queries, _, database = task.train
    X = normalize(np.concatenate([queries, database]) if task.side == "both" else queries)
    values, vectors = np.linalg.eigh(np.cov(X.T, dtype=np.float64))
    return np.asarray(vectors / np.sqrt(values + share * values.mean()) @ vectors.T)


def _ridge(task: Task, share: float) -> np.ndarray:
    """Return least squares from queries to the points that belong to them."""
    X, Y = _related(task.train)
    moments = X.T @ X
    moments[np.diag_indices_from(moments)] += share * np.trace(moments) / len(moments)
    return np.linalg.solve(moments, X.T @ Y).T


def _procrustes(task: Task, share: float) -> np.ndarray:
    """Return the orthogonal map from queries to the points that belong to them."""
    del share
    X, Y = _related(task.train)
    left, _, right = np.linalg.svd(Y.T @ X, full_matrices=False)
    return left @ right


# For each method: a function that returns a map, the sides it suits, and its settings.
CLOSED: dict[str, tuple[Callable[[Task, float], np.ndarray], str, tuple[float, ...]]] = {
    "whitening": (_whitening, "both", _SHARES),
    "ridge regression": (_ridge, "query", _SHARES),
    "Procrustes": (_procrustes, "query", (0.0,)),
}


class Recipe(NamedTuple):
    """A way to train a map by torch.

    `scale`: multiplies cosines. `decay`: the rate decreases to 0 over all epochs.
    """

    optimizer: str
    rate: float
    batch: int
    scale: float
    epochs: int
    decay: bool = False


def recipes(task: Task) -> dict[str, list[Recipe]]:
    """Return recipes by name; of several, validation chooses.

    Defaults are the ones of sentence-transformers' trainer, and of llama_index's adapter.
    """
    loss = "CoSENT" if task.train.scored else "MNRL"
    scales = (5.0, 20.0) if task.train.scored else (10.0, 20.0, 40.0)
    found = {f"{loss}, defaults": [Recipe("AdamW", 5e-5, 8, 20.0, 3, decay=True)]}
    if not task.train.scored and task.side == "query":
        found["llama_index"] = [Recipe("AdamW", 2e-5, 10, 20.0, 1)]
    found[f"{loss}, tuned"] = [
        Recipe("Adam", rate, 512, scale, _EPOCHS)
        for rate, scale in product((1e-4, 3e-4, 1e-3), scales)
    ]
    return found


class Course(NamedTuple):
    """Processor seconds and a value after each epoch."""

    seconds: np.ndarray
    values: np.ndarray


def _maps(task: Task, pairs: Pairs, recipe: Recipe) -> Iterator[tuple[float, np.ndarray]]:
    """Yield the seconds so far and the map, after each epoch and several times in the first."""
    import torch
    from torch.nn.functional import cross_entropy
    from torch.nn.functional import normalize as unit

    torch.set_num_threads(1)
    torch.manual_seed(0)
    left, right = (np.arange(len(pairs.y)),) * 2 if pairs.scored else pairs.y.nonzero()
    Q, D = torch.from_numpy(pairs.queries), torch.from_numpy(pairs.database)
    y = torch.from_numpy(np.asarray(pairs.y)) if pairs.scored else None
    left, right = torch.from_numpy(left.astype(np.int64)), torch.from_numpy(right.astype(np.int64))
    adapter = torch.nn.Linear(Q.shape[1], D.shape[1], bias=False)
    if Q.shape[1] == D.shape[1]:
        torch.nn.init.eye_(adapter.weight)
    steps = getattr(torch.optim, recipe.optimizer)(adapter.parameters(), lr=recipe.rate)
    total = recipe.epochs * -(-len(left) // recipe.batch)
    rates = torch.optim.lr_scheduler.LinearLR(steps, 1.0, 0.0 if recipe.decay else 1.0, total)
    seconds, begin = 0.0, time.process_time()
    for _ in range(recipe.epochs):
        for rows in torch.randperm(len(left)).split(recipe.batch):
            a, b = adapter(Q[left[rows]]), D[right[rows]]
            a, b = unit(a), unit(adapter(b) if task.side == "both" else b)
            if y is None:
                loss = cross_entropy(recipe.scale * a @ b.T, torch.arange(len(rows)))
            else:
                s = recipe.scale * (a * b).sum(1)
                terms = (s - s[:, None])[y[rows][:, None] > y[rows]]
                loss = torch.logsumexp(torch.cat([torch.zeros(1), terms]), 0)
            steps.zero_grad()
            loss.backward()
            steps.step()
            rates.step()
        seconds += time.process_time() - begin
        yield seconds, adapter.weight.detach().numpy().copy()
        begin = time.process_time()


def courses(
    task: Task, pairs: Pairs, recipe: Recipe, value: Callable[[np.ndarray], float], limit: float
) -> tuple[Course, np.ndarray]:
    """Train until the recipe ends, or `limit` seconds have passed; return also the last map."""
    found = []
    for seconds, L in _maps(task, pairs, recipe):
        found.append((seconds, value(L)))
        if seconds >= limit:
            break
    return Course(*np.array(found).T), L


def tune(task: Task, choices: list[Recipe], limit: float) -> tuple[Recipe, float]:
    """Return the best recipe on held-out queries, with its number of epochs, and seconds."""
    n = len(task.train.queries)
    order = np.random.default_rng(0).permutation(n)
    held, kept = np.split(order, [int(_VALIDATION * n)])
    part = task._replace(test=task.train.take(held))
    found, seconds = [], 0.0
    for recipe in choices:
        course, _ = courses(
            part, task.train.take(kept), recipe, lambda L: float(part.mapped(L).mean()), limit
        )
        best = int(course.values.argmax())
        found.append((course.values[best], recipe._replace(epochs=best + 1)))
        seconds += course.seconds[-1]
    return max(found, key=lambda each: each[0])[1], seconds
