"""What learners share that find their map in closed form, from scatter matrices."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._scaling import center_and_rescale, undo_scale
from metricfast._scatter import repetitions
from metricfast._targets import check_sample_weight
from metricfast.base import MahalanobisMixin

__all__ = ["ClosedFormLearner", "check_fraction", "check_whole", "shrunk"]

_Floats = NDArray[np.float64]


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


def shrunk(scatter: _Floats, shrinkage: float) -> _Floats:
    """Move a scatter matrix towards the multiple of the identity that has the same trace."""
    level = np.trace(scatter) / len(scatter)
    return np.asarray((1 - shrinkage) * scatter + shrinkage * level * np.eye(len(scatter)))


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
