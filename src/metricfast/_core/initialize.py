"""Initial linear maps from data, and the map of a given matrix M."""

from __future__ import annotations

import sys
import time
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from sklearn.utils import check_array

from metricfast._core.arguments import as_real, check_named, check_random_state, is_symmetric
from metricfast._core.points import is_wide
from metricfast._core.scaling import times_power_of_two
from metricfast._core.scatter import (
    check_discriminant,
    check_principal,
    discriminant_components,
    discriminant_directions,
    principal_components,
    repetitions,
    whiten_within,
    with_signs,
)
from metricfast._core.scatter_statistics import ScatterStatistics
from metricfast._core.sources import on_disk
from metricfast._core.types import Array, Floats, RandomState
from metricfast.exceptions import NonPSDError


def check_n_components(n_features: int, n_components: int | None) -> int:
    """Return `n_components`, an integer in [1, n_features], which is `n_features` by default."""
    if n_components is None:
        return n_features
    text = f"Invalid n_components, must be in [1, {n_features}]"  # that of metric-learn
    if not isinstance(n_components, Integral) or isinstance(n_components, bool):
        raise ValueError(f"{text}: an integer up to the number of features; got {n_components!r}.")
    if not 0 < n_components <= n_features:
        raise ValueError(text)
    return int(n_components)


def as_given_map(init: Any) -> Any:
    """Convert `init` to an array if it is a map; return other values unchanged."""
    if hasattr(init, "toarray"):
        raise TypeError("`init` is a sparse matrix; give a dense one: init.toarray().")
    if isinstance(init, str) or not (isinstance(init, (list, tuple)) or hasattr(init, "__array__")):
        return init
    try:
        return as_real(init, "init")
    except (TypeError, ValueError) as error:
        raise ValueError(f"`init` is not a linear map: {error}") from error


def initialize_components(
    X: Array,
    y: Array | None,
    init: str | Array,
    n_components: int,
    random_state: int | RandomState | None = None,
    *,
    verbose: bool | int = False,
    sample_weight: Floats | None = None,
) -> Array:
    """Make the linear map that training starts from, in the dtype of the points.

    `y`: classes; None where labels are no classes: there is no "lda" then.
    `init`: "auto" is "lda" if ``n_components <= min(n_features, n_classes - 1)``, else "pca" if
        ``n_components < min(n_features, n_samples)``, else "identity"; it is never "lda" for sparse
        points of more than 2000 features, all of which that would fill. Rows of "lda" that the data
        do not determine are zero. An array of shape (n_components, n_features) is copied.
    `verbose`: print the step and its time to standard error.
    `sample_weight`: whole numbers mean the same as repeated samples; others count relatively.
    Raises ValueError if `init` is unknown, has the wrong shape, or cannot give `n_components` rows.
    """
    known = ["auto", "pca", "identity", "random"] + ([] if y is None else ["lda"])
    check_named("init", init, known, "(n_components, n_features)")
    if isinstance(init, np.ndarray):
        return _check_given(init, X, n_components)
    shape = n_components, X.shape[1]
    if init == "random":
        return np.asarray(check_random_state(random_state).standard_normal(shape), X.dtype)
    weights = repetitions(sample_weight, 0 if init == "identity" else X.shape[0])
    if init == "auto":
        init = _select(X, y, n_components, weights)
    if init == "identity":
        return np.eye(*shape, dtype=X.dtype)
    start = time.perf_counter()
    if verbose:
        kind = "principal" if init == "pca" else "most discriminative"
        print(f"Finding {kind} components... ", file=sys.stderr, flush=True)
    if on_disk(X) and X.shape[0] > X.shape[1]:
        components = _components_of_source(X, None if init == "pca" else y, weights, n_components)
    elif y is None or init == "pca":
        components = principal_components(X, weights, n_components)
    else:
        components = discriminant_components(X, y, weights, n_components)
    if verbose:
        print(f"done in {time.perf_counter() - start:5.2f}s", file=sys.stderr)
    return components.astype(X.dtype, copy=False)


def _select(X: Array, y: Array | None, n_components: int, weights: Floats) -> str:
    n_features, n_samples = X.shape[1], weights.sum()
    if y is not None and not is_wide(X):
        n_classes = len(np.unique(y[weights > 0]))
        if n_components <= min(n_features, n_classes - 1) and n_classes < n_samples:
            return "lda"
    return "pca" if n_components < min(n_features, n_samples) else "identity"


def _check_given(init: Array, X: Array, n_components: int) -> Array:
    try:
        init = as_real(init, "init")
        components: Array = check_array(init, dtype=X.dtype, copy=True, input_name="init")
    except (TypeError, ValueError) as error:
        raise ValueError(f"`init` is not a linear map: {error}") from error
    (rows, columns), n_features = components.shape, X.shape[1]
    if columns != n_features:
        raise ValueError(
            f"The input dimensionality ({columns}) of the given linear transformation `init` must "
            f"match the dimensionality of the given inputs `X` ({n_features})."
        )
    if rows > columns:
        raise ValueError(
            f"The output dimensionality ({rows}) of the given linear transformation `init` cannot "
            f"be greater than its input dimensionality ({columns})."
        )
    if rows != n_components:
        raise ValueError(
            "The preferred dimensionality of the projected space `n_components` "
            f"({n_components}) does not match the output dimensionality of the given linear "
            f"transformation `init` ({rows})!"
        )
    return components


def components_from_metric(metric: ArrayLike, *, n_components: int | None = None) -> Array:
    """Return a map L with ``L.T @ L == metric``, or the nearest one of fewer rows.

    `metric`: array-like of shape (n_features, n_features), symmetric and positive semidefinite.
    `n_components`: number of rows of L, by default n_features.
    L is the square root of a diagonal M, the transposed Cholesky factor of a definite one,
    otherwise the scaled eigenvectors; with `n_components`, the leading ones in descending order. It
    is in float32 for a float32 M, otherwise in float64. Raises ValueError if M is not square,
    finite and symmetric; NonPSDError if it has an eigenvalue below 0 by more than rounding.
    """
    M: Array = check_array(metric, dtype=[np.float64, np.float32], input_name="metric")
    if not is_symmetric(M):
        raise ValueError("The input metric should be symmetric.")
    if n_components is not None:
        check_n_components(len(M), n_components)
        eigenvalues, eigenvectors = np.linalg.eigh(M)
        roots = np.sqrt(_non_negative(eigenvalues))
        return np.ascontiguousarray((eigenvectors * roots).T[::-1][:n_components])
    diagonal = np.diag(M)
    if np.array_equal(M, np.diag(diagonal)):
        return np.diag(np.sqrt(_non_negative(diagonal)))
    try:
        return np.ascontiguousarray(np.linalg.cholesky(M).T)
    except np.linalg.LinAlgError:
        # Cholesky refuses singular matrices as well as indefinite ones.
        eigenvalues, eigenvectors = np.linalg.eigh(M)
        return np.asarray(eigenvectors.T * np.sqrt(_non_negative(eigenvalues))[:, None])


def leading_rows(rows: Array, n_components: int | None) -> Array:
    """Return the map of the leading eigenvectors of ``rows.T @ rows``, or the rows themselves.

    `rows`: fewer than features.
    """
    if n_components is None:
        return rows
    values, vectors = np.linalg.eigh(rows @ rows.T)
    kept = (vectors * (values > 0)).T[::-1][:n_components] @ rows
    return np.vstack([kept, np.zeros((n_components - len(kept), rows.shape[1]), rows.dtype)])


def _non_negative(eigenvalues: Array) -> Array:
    tol = np.abs(eigenvalues).max() * len(eigenvalues) * np.finfo(eigenvalues.dtype).eps
    if (eigenvalues < -tol).any():
        raise NonPSDError
    return np.asarray(np.maximum(eigenvalues, 0))


def _components_of_source(X: Any, y: Any, weights: Floats, n_components: int) -> Floats:
    """Return `discriminant_components` for classes y, or `principal_components` if y is None.

    X must have more points than features.
    """
    if y is None:
        check_principal(X.shape[1], weights, n_components)
        return _principal(ScatterStatistics(X.shape[1]).add(X, weights).within, n_components)
    classes, group = np.unique(y, return_inverse=True)
    of_classes = np.bincount(group, weights)
    check_discriminant(X.shape[1], of_classes[of_classes > 0], n_components)
    sums = ScatterStatistics(X.shape[1], np.arange(len(classes))).add(X, weights, group)
    seen = sums.weights > 0
    means, counts, within = sums.means[seen], sums.weights[seen], sums.within / sums.total
    deviation = np.sqrt(np.diag(within))
    rounding = 16 * np.finfo(np.float64).eps * np.abs(means).max(axis=0)
    deviation = np.where(deviation > rounding, deviation, 1.0)
    whitening = whiten_within(within / deviation / deviation[:, None]) / deviation
    found = discriminant_directions(whitening, means, counts, n_components)
    if found is None:
        return _principal(sums.within + sums.between, n_components)
    return times_power_of_two(found, -sums.exponent)


def _principal(scatter: Floats, n_components: int) -> Floats:
    return with_signs(eigh(scatter)[1].T[::-1][:n_components])
