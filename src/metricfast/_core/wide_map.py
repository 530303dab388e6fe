"""Square maps of very many features, stored without their features x features entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.sparse import issparse

from metricfast._core.scaling import times_power_of_two, undo_scale
from metricfast._core.types import Array, Floats


class WideMap:
    r"""A square map that differs from a diagonal one in few directions.

    .. math::

        L = \operatorname{diag}(u) + A B^T

    Parameters
    ----------
    diagonal : ndarray of shape (n_features,)
        u.
    left, right : ndarray of shape (n_features, n_directions), optional
        A and B; by default without columns.
    dtype : dtype, optional
        Of the map as an array.
    """

    def __init__(
        self, diagonal: Floats, left: Floats | None = None, right: Floats | None = None,
        dtype: Any = np.float64,
    ) -> None:  # fmt: skip
        none = np.empty((len(diagonal), 0))
        self.diagonal = diagonal
        self.left, self.right = none if left is None else left, none if right is None else right
        self._kind = np.dtype(dtype).type  # skops trusts types, not np.dtype

    ndim = 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the map as an array."""
        found: np.dtype[Any] = np.dtype(self._kind)
        return found

    @property
    def shape(self) -> tuple[int, int]:
        """(n_features, n_features)."""
        return len(self), len(self)

    def __len__(self) -> int:
        return len(self.diagonal)

    def __mul__(self, factors: float | Floats) -> WideMap:
        """Return the map of points whose features are first multiplied by factors."""
        right = self.right * np.reshape(factors, (-1, 1))
        return WideMap(self.diagonal * factors, self.left, right, self.dtype)

    def times_power_of_two(self, exponent: int) -> WideMap:
        """Return ``L * 2**exponent``."""
        diagonal, left = (times_power_of_two(a, exponent) for a in (self.diagonal, self.left))
        return WideMap(diagonal, left, self.right, self.dtype)

    def astype(self, dtype: Any, **how: Any) -> WideMap:
        """Return a copy for points of another dtype, like `ndarray.astype`."""
        del how
        return WideMap(self.diagonal, self.left, self.right, dtype)

    def undo_scale(self, exponent: int, dtype: Any) -> WideMap:
        """Return the map of the given points, like :func:`metricfast._core.scaling.undo_scale`."""
        for entries in (self.diagonal, self.left):
            undo_scale(entries, exponent, np.dtype(dtype))  # raises if they overflow
        return self.times_power_of_two(-exponent).astype(dtype)

    def embed(self, X: Any) -> Array:
        """Return ``X @ L.T``, in the dtype of X and in C order."""
        right, left = (A.astype(X.dtype, copy=False) for A in (self.right, self.left))
        points: Array = np.ascontiguousarray(X.toarray() if issparse(X) else X)
        return np.asarray(points * self.diagonal.astype(X.dtype) + (X @ right) @ left.T)

    def array(self) -> Array:
        """Return L."""
        with memory_for_square("components_", len(self), self.dtype):
            left, right = (A.astype(self.dtype, copy=False) for A in (self.left, self.right))
            L: Array = left @ right.T
            L[np.diag_indices_from(L)] += self.diagonal.astype(self.dtype)
            return L

    def column_rows(self) -> Floats:
        """Return a matrix with few rows whose columns have the same lengths as the columns of L."""
        crossed = 2 * self.diagonal * np.einsum("ij,ij->i", self.left, self.right)
        inner = np.einsum("ij,ij->i", self.right @ (self.left.T @ self.left), self.right)
        return np.asarray(np.sqrt(np.maximum(self.diagonal**2 + crossed + inner, 0))[None])


AnyMap = Array | WideMap


def to_array(L: Any) -> Array:
    """Return a map as an array."""
    found: Array = L.array() if hasattr(L, "array") else L
    return found


class FittedMap:
    """A fitted attribute: a map or matrix, or a list of arrays.

    What has a method `array`, such as a `WideMap`, is stored as it is, and becomes an array when
    the attribute is read.

    `convert`: takes the learner and the value that is assigned, and returns what is stored.
    """

    def __init__(self, convert: Callable[[Any, Any], Any] = lambda learner, value: value) -> None:
        self._convert = convert

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, learner: Any, owner: type) -> Any:
        if learner is None:
            return self
        found = self.stored(learner)
        return list(map(to_array, found)) if isinstance(found, list) else to_array(found)

    def __set__(self, learner: Any, value: Any) -> None:
        vars(learner)[self._name] = self._convert(learner, value)

    def __delete__(self, learner: Any) -> None:
        del vars(learner)[self._name]

    def stored(self, learner: Any) -> Any:
        """Return the attribute with maps as they are."""
        try:
            return vars(learner)[self._name]
        except KeyError:
            name = type(learner).__name__
            raise AttributeError(f"{name!r} object has no attribute {self._name!r}") from None


@contextmanager
def memory_for_square(what: str, n_features: int, dtype: Any = np.float64) -> Iterator[None]:
    """Name the size of a features x features matrix in a MemoryError, if it does not fit."""
    try:
        yield
    except MemoryError as error:
        size = n_features**2 * np.dtype(dtype).itemsize / 2**30
        raise MemoryError(
            f"{what} of {n_features:,} features is a matrix of {n_features:,} x {n_features:,} "
            f"numbers, {size:,.1f} GiB, which does not fit into memory. transform, pair_distance "
            "and neighbour searches do not form it; n_components gives components_ fewer rows."
        ) from error
