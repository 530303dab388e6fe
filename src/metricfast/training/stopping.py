"""Rules for early stopping: the choice of the number of iterations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split

from metricfast._core.memory import block_rows
from metricfast._core.parameters import AtLeastTwo, PositiveInt, PositiveShare, check_parameters
from metricfast._core.sources import Source
from metricfast._core.targets import by_appearance
from metricfast._core.types import Integers, RandomState

__all__ = ["CrossValidated", "HeldOut", "StoppingRule", "as_stopping_rule", "hold_out"]


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

    def check(self) -> None:
        """Raise ValueError if a parameter has a value that cannot be used."""
        check_parameters(self)


@dataclass(eq=False, repr=False)
class CrossValidated(BaseEstimator):  # type: ignore[misc]
    """Choose the start and the number of iterations by folds, then train on all points.

    Up to 2,000 distinct points, each fold is a validation set once. Beyond that, one fold is. With
    mini-batches, folds are validation sets until 333 points have been, and have 1,000 points of
    them at most. The cost of a validation point is the share of other classes among its 5 nearest
    training points, or the squared error of their mean target. Among settings that differ from the
    best by no more than chance, the shortest training is chosen. For embeddings, the cost is the
    expected error of the nearest neighbour in a random half of the training points. The lowest one
    is chosen, if it is a standard error below the cost of the given distance.

    The given distance competes, and stays, with a warning, if no training has a lower cost. The
    attribute `choice_` of the learner says what was chosen: the start, the number of iterations,
    the mean costs of this training and of the given distance, and the standard error of their
    difference.

    Parameters
    ----------
    n_folds : int, default=5
        Number of folds of points.
    patience : int, default=10
        Iterations without improvement that end the training of a fold.
    unit : {"auto", "points", "classes"}, default="auto"
        What is held out. With "classes", each half of the classes is a validation set once, as if
        they were new, and the cost of a point is whether its nearest neighbour among all points is
        of another class. "auto" holds classes out if half of them have fewer than 5 points, or
        fewer points than half as many as there are classes.

    Notes
    -----
    Training must be better than the given distance by two standard errors of the paired difference,
    if classes are held out, or if there are at most two distinct points for each feature, whose
    cost is then the expected error of the nearest neighbour in a random half of the training
    points. If the map has fewer rows than there are features, principal components take the place
    of the given distance, and if parameters name a start, this start does.

    Examples
    --------
    >>> from metricfast import NCA
    >>> from metricfast.stopping import CrossValidated
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> NCA(early_stopping=CrossValidated(n_folds=3)).fit(X, y).n_iter_ <= 100
    True
    """

    n_folds: AtLeastTwo = 5
    patience: PositiveInt = 10
    unit: Literal["auto", "points", "classes"] = "auto"

    def check(self) -> None:
        """Raise ValueError if a parameter has a value that cannot be used."""
        check_parameters(self)


StoppingRule = HeldOut | CrossValidated


def as_stopping_rule(value: Any, *, folds: bool = True) -> StoppingRule | None:
    """Return the rule for the parameter `early_stopping`, or None.

    `folds`: whether the learner can choose by cross-validation. "auto" is then `CrossValidated`.
    Raises ValueError for other values.
    """
    if isinstance(value, HeldOut) or (folds and isinstance(value, CrossValidated)):
        value.check()
        return value
    if isinstance(value, (bool, np.bool_)):
        return HeldOut() if value else None
    if folds and isinstance(value, str) and value == "auto":
        return CrossValidated()
    known = "'auto', stopping.HeldOut(...) or stopping.CrossValidated(...)"
    raise ValueError(
        f"early_stopping must be True, False, {known if folds else 'or stopping.HeldOut(...)'}, "
        f"got {value!r}."
    )


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
