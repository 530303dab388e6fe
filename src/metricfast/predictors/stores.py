"""Export of learned distances to other search libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from metricfast._core.arguments import as_array
from metricfast._core.arrays import as_points
from metricfast.learners.base.learner import is_linear
from metricfast.predictors.metric import is_learner


def to_faiss(metric: Any, X: ArrayLike | None = None, ids: ArrayLike | None = None) -> Any:
    """Make an index of faiss that searches under a linear map.

    The index takes unmapped points and applies L itself. It computes in float32, so the order of
    nearly equal distances may differ.

    Parameters
    ----------
    metric : fitted learner of a linear map, or array-like of shape (n_components, n_features)
        A learner that has `components_`, or L itself.
    X : array-like of shape (n_samples, n_features), optional
        Points to add. More can be added later, by the index's own `add`.
    ids : array-like of int of shape (n_samples,), optional
        Ids that a search returns; by default row numbers. An index with ids takes more points by
        `add_with_ids`.

    Returns
    -------
    faiss.IndexPreTransform, or faiss.IndexIDMap2 of one
        A linear transform in front of a `faiss.IndexFlatL2`, whose distances are squared. Any other
        index of faiss can take its place: `index.chain.at(0)` is the transform.

    Raises
    ------
    TypeError
        If the learner's map is not linear, or not one map.
    ValueError
        If an array has the wrong shape or is beyond the range of float32, or ids are without
        points, of another number, negative, or not different.
    ImportError
        If faiss is missing.

    Examples
    --------
    >>> from metricfast import LFDA
    >>> from metricfast.neighbors import to_faiss
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> lfda = LFDA(n_components=2).fit(X, y)
    >>> index = to_faiss(lfda, X)  # doctest: +SKIP
    >>> distances, indices = index.search(X[:5], 3)  # doctest: +SKIP
    """
    L = _as_float32(as_points(_components(metric), "metric"), "metric")
    if ids is not None and X is None:
        raise ValueError("ids are those of the points in X: give both.")
    points = None if X is None else _as_float32(as_points(X, "X", width=L.shape[1]), "X")
    try:
        import faiss
    except ImportError as error:
        raise ImportError("to_faiss needs faiss: pip install faiss-cpu") from error
    transform = faiss.LinearTransform(L.shape[1], L.shape[0], False)
    faiss.copy_array_to_vector(L.ravel(), transform.A)
    transform.is_trained = True
    index: Any = faiss.IndexPreTransform(transform, faiss.IndexFlatL2(L.shape[0]))
    if ids is not None and points is not None:
        names = as_array(ids, "ids")
        if names.shape != (len(points),) or names.dtype.kind not in "iu":
            raise ValueError(
                f"ids must be {len(points)} integers, one per point; found shape {names.shape}, "
                f"dtype {names.dtype}."
            )
        if len(names) and (names.min() < 0 or len(np.unique(names)) < len(names)):
            raise ValueError(
                "ids must be different, and 0 or more: faiss says -1 where it finds nothing; found "
                f"{'a negative one' if names.min() < 0 else 'one twice'}."
            )
        index = faiss.IndexIDMap2(index)
        index.add_with_ids(points, names.astype(np.int64))
    elif points is not None:
        index.add(points)
    return index


def _as_float32(values: Any, name: str) -> Any:
    with np.errstate(over="ignore"):
        found = values.astype(np.float32)
    if not np.isfinite(found).all():
        raise ValueError(
            f"{name} must be within the range of float32, in which faiss computes: scale it."
        )
    return found


def _components(metric: Any) -> Any:
    if not is_learner(metric):
        return metric
    if not is_linear(metric):
        raise TypeError(
            "metric must be a fitted learner of one linear map, or a matrix L; got "
            f"{metric!r}. Of other learners, give faiss.IndexFlatL2 the points that transform "
            "returns."
        )
    check_is_fitted(metric, metric._fitted)
    return metric.components_
