"""What learners share that find their map in closed form, from scatter matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._core.scaling import center_and_rescale, undo_scale
from metricfast._core.scatter import repetitions
from metricfast._core.targets import check_sample_weight
from metricfast.distances.neighbors import kneighbors
from metricfast.learners.base.learner import MahalanobisMixin

__all__ = [
    "ClosedFormLearner",
    "check_fraction",
    "check_shrinkage",
    "check_whole",
    "least_error",
    "neighbor_error",
    "shrunk",
]

_Floats = NDArray[np.float64]

# Points that are judged by their nearest neighbours, and how many of those.
_JUDGED = 1000
_NEIGHBORS = 3


class ClosedFormLearner(MahalanobisMixin):
    """Base of learners that compute their map from scatter matrices of weighted points."""

    def _prepare(
        self, X: Any, y: Any, sample_weight: ArrayLike | None
    ) -> tuple[NDArray[Any], Any, _Floats, int]:
        """Check the data.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Points of positive weight less their mean, times ``2**-exponent``.
        y : ndarray of shape (n_samples,), or None
            What was given for them.
        weights : ndarray of shape (n_samples,), float64
            How often each counts.
        exponent : int
        """
        checked = self._prepare_inputs(X, y, ensure_min_samples=2)
        X, y = checked if isinstance(checked, tuple) else (checked, None)
        weights = repetitions(check_sample_weight(sample_weight, len(X)), len(X))
        seen = weights > 0
        if not seen.all():
            X, y, weights = X[seen], None if y is None else y[seen], weights[seen]
        X, exponent = center_and_rescale(X)
        return X, y, weights, exponent

    def _keep(self, rows: _Floats, n_rows: int, exponent: int, precision: np.dtype[Any]) -> None:
        """Keep a map of the rescaled points, with zero rows where it has fewer than `n_rows`."""
        components = np.zeros((n_rows, rows.shape[1]))
        components[: len(rows)] = rows[:n_rows]
        self.components_ = undo_scale(components, exponent, precision)


def shrunk(scatter: _Floats, shrinkage: float, target: _Floats | None = None) -> _Floats:
    """Move a scatter matrix towards the multiple of another that has the same trace.

    By default that of the identity.
    """
    if target is None:
        target = np.eye(len(scatter))
    share = shrinkage * np.trace(scatter) / np.trace(target)
    return np.asarray((1 - shrinkage) * scatter + share * target)


def least_error(
    scatter: _Floats,
    targets: Mapping[str, tuple[_Floats, Sequence[float]]],
    error: Callable[[_Floats], float],
) -> tuple[str, float, _Floats]:
    """Return the target, the fraction and the scatter moved so that have the least error.

    Each target comes with the fractions to try; the first of equals is taken.
    """
    tried = [
        (name, fraction, shrunk(scatter, fraction, target))
        for name, (target, fractions) in targets.items()
        for fraction in fractions
    ]
    return min(tried, key=lambda found: error(found[2]))


def neighbor_error(
    points: NDArray[Any],
    codes: NDArray[np.int64],
    weights: _Floats,
    chunks: NDArray[np.int64] | None = None,
) -> Callable[[_Floats], float]:
    """Return a judge of maps: the share of other classes among the 3 nearest points.

    It looks at 1000 points at most, those of classes from 0 on. Points of a chunk, from 0 on, and
    equal points of a class are no neighbours of each other.
    """
    rows = np.random.RandomState(0).permutation(np.flatnonzero(codes >= 0))[:_JUDGED]
    chunk = np.full(len(rows), -1) if chunks is None else chunks[rows]
    distinct, place = np.unique(
        np.column_stack([codes[rows], chunk, points[rows]]), axis=0, return_inverse=True
    )
    y, chunk, X = distinct[:, 0], distinct[:, 1], distinct[:, 2:] - distinct[:, 2:].mean(axis=0)
    weight = np.bincount(place.ravel(), repetitions(weights[rows], len(rows)))
    own = np.where(chunk >= 0, chunk, -1 - np.arange(len(y)))
    largest = np.unique(own, return_counts=True)[1].max()
    n_neighbors = min(len(y), _NEIGHBORS + int(largest))

    def error(L: _Floats) -> float:
        Z = X @ L.T
        # Rounded, so that ties do not depend on last digits, such as of where the origin was.
        Z = (Z / (np.abs(Z).max() or 1)).astype(np.float32)
        near = kneighbors(Z, Z, n_neighbors)[1]
        others = weight[near] * (own[near] != own[:, None])
        votes = np.clip(_NEIGHBORS - (others.cumsum(axis=1) - others), 0, others)
        wrong = votes * (y[near] != y[:, None])
        return float(weight @ wrong.sum(axis=1) / max(weight @ votes.sum(axis=1), 1e-300))

    return error


def check_shrinkage(value: Any) -> float | None:
    """Return the fraction, or None for "auto"."""
    automatic = isinstance(value, str) and value == "auto"
    return None if automatic else check_fraction("shrinkage", value)


def check_fraction(name: str, value: Any) -> float:
    """Return a number from 0 to 1."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= float(value) <= 1:
        raise ValueError(f"{name} must be a number from 0 to 1, got {value!r}.")
    return float(value)


def check_whole(name: str, values: Any) -> NDArray[np.int64]:
    """Return whole numbers as int64."""
    given = np.asarray(values)
    if given.dtype.kind == "O":
        try:
            given = given.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} must hold whole numbers: {error}") from error
    if given.dtype.kind in "biuf" and (given == np.floor(given)).all():
        return np.asarray(given, dtype=np.int64)
    raise ValueError(f"{name} must hold whole numbers, got dtype {given.dtype}.")
