"""Rules for early stopping: the choice of the number of iterations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split

from metricfast._core.memory import block_rows
from metricfast._core.parameters import PositiveInt, PositiveShare, check_parameters
from metricfast._core.sources import Source
from metricfast._core.targets import by_appearance
from metricfast._core.types import Integers, RandomState


@dataclass(eq=False, repr=False)
class HeldOut(BaseEstimator):  # type: ignore[misc]
    """Hold validation points out, and keep the iteration with the lowest validation error.

    Training stops after `patience` iterations without a lower error. The learner never trains on
    the validation points.

    Parameters
    ----------
    fraction : float, default=0.1
        Share of the points that are held out, of each class in the same proportion.
    patience : int, default=10
        Iterations, or epochs of mini-batches, without improvement.

    Examples
    --------
    >>> from metricfast import NCA
    >>> from metricfast.stopping import HeldOut
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> nca = NCA(early_stopping=HeldOut(fraction=0.2, patience=5), random_state=0).fit(X, y)
    >>> len(nca.validation_scores_) == nca.n_iter_
    True
    """

    fraction: PositiveShare = 0.1
    patience: PositiveInt = 10


def as_stopping_rule(value: Any) -> HeldOut | None:
    """Return the rule for the parameter `early_stopping`, or None.

    Raises ValueError for other values.
    """
    if isinstance(value, HeldOut):
        check_parameters(value)
        return value
    if isinstance(value, (bool, np.bool_)):
        return HeldOut() if value else None
    raise ValueError(f"early_stopping must be True, False or stopping.HeldOut(...), got {value!r}.")


def hold_out(
    fraction: float, X: Any, labels: Integers | None, rng: RandomState
) -> tuple[Integers, Integers]:
    """Return the training rows and the validation rows.

    `labels`: classes; rows are stratified if each class has two points. For points on disk,
        training rows are ascending, and the validation rows fit into a block.
    Raises ValueError if too few points are left.
    """
    n = X.shape[0]
    n_held_out = max(1, round(fraction * n))
    if isinstance(X, Source):
        n_held_out = min(n_held_out, block_rows(X.dtype.itemsize * X.shape[1]))
    counts = np.zeros(1) if labels is None else np.unique(labels, return_counts=True)[1]
    stratified = labels is not None and counts.min() >= 2 and len(counts) <= n_held_out
    least = max(2, len(counts)) if stratified else 2
    if n - n_held_out < least:
        raise ValueError(
            f"early_stopping with fraction={fraction} of {n} points leaves fewer than {least} to "
            f"train on{', one of each class' if least > 2 else ''}: lower the fraction, or set "
            "early_stopping=False."
        )
    train, test = train_test_split(
        np.arange(n), test_size=n_held_out, random_state=rng,
        stratify=by_appearance(labels) if stratified and labels is not None else None,
    )  # fmt: skip
    if isinstance(X, Source):
        train.sort()
    if labels is not None and not np.isin(labels[test], labels[train]).any():
        raise ValueError(
            "early_stopping found no class both among the held-out points and the others: give "
            "more points of a class, or set early_stopping=False."
        )
    return train, test


@contextmanager
def naming_held_out(rows: Any, n: int) -> Iterator[None]:
    """Mention the number of held-out points in errors about the number of points.

    `rows`: rows that early stopping holds out, or None.
    """
    try:
        yield
    except ValueError as error:
        if rows is None:
            raise
        raise ValueError(
            f"{error} These numbers leave out what early_stopping holds out: {len(rows)} of the "
            f"{n} points."
        ) from error
