"""What learners are told about each sample: its class and its weight."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array, column_or_1d

__all__ = [
    "check_class_labels",
    "check_classification_target",
    "check_comparable",
    "check_partial_target",
    "check_regression_target",
    "check_sample_weight",
]

# Sums of weights times squared distances stay within float32 between these.
_LEAST, _MOST = 1e-20, 1e20


def check_classification_target(
    y: ArrayLike, n_samples: int | None = None
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Encode class labels.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels: integers, booleans, strings, or floats with whole values.
    n_samples : int, optional
        The length that `y` must have.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        The different labels, sorted.
    codes : ndarray of shape (n_samples,), int64
        `classes[codes]` is `y`.

    Raises
    ------
    ValueError
        If `y` has the wrong length, holds None, NaN or infinity, is continuous, mixes types that
        have no order, or holds fewer than two classes.
    """
    labels = column_or_1d(y, warn=True)
    if n_samples is not None and len(labels) != n_samples:
        raise ValueError(f"y must hold {n_samples} labels, one per sample, got {len(labels)}.")
    check_class_labels(labels)
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"y must hold labels of one type: {error}") from error
    if len(classes) < 2:
        raise ValueError(f"y must hold at least 2 classes, got {len(classes)} class.")
    return classes, codes.astype(np.int64, copy=False)


def check_class_labels(labels: ArrayLike, name: str = "y") -> None:
    """Refuse labels that cannot be those of classes.

    Parameters
    ----------
    labels : array-like
    name : str, default="y"
        What errors call them.

    Raises
    ------
    ValueError
        If there are None, NaN, infinity or numbers with fractions among them.
    """
    array = np.asarray(labels)
    if array.dtype.kind == "O":
        if any(label is None for label in array.flat):
            raise ValueError(f"{name} must hold class labels, but contains None.")
        reals = [label for label in array.flat if isinstance(label, (float, np.floating))]
        array = np.array(reals, np.float64)
    if array.dtype.kind != "f":
        return
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must hold class labels, but contains NaN or infinity.")
    if (array != np.floor(array)).any():
        raise ValueError(
            f"Unknown label type: continuous. {name} must hold class labels, "
            "but its values are those of a regression target."
        )


def check_comparable(labels: ArrayLike, others: ArrayLike, name: str) -> None:
    """Refuse to compare text with numbers, which NumPy would turn into text.

    Parameters
    ----------
    labels, others : array-like
    name : str
        What errors call `labels`.

    Raises
    ------
    ValueError
        If one holds text and the other does not.
    """
    text, other_text = _has_text(labels), _has_text(others)
    if text != other_text and np.size(labels) and np.size(others):
        kinds = "no text", "text"
        raise ValueError(
            f"{name} holds {kinds[text]}, and the labels that it is compared with hold "
            f"{kinds[other_text]}: give both as text, or both as numbers."
        )


def _has_text(labels: ArrayLike) -> bool:
    array = np.asarray(labels)
    if array.dtype.kind == "O":
        return any(isinstance(label, (str, bytes)) for label in array.flat)
    return array.dtype.kind in "SUT"


def check_partial_target(y: ArrayLike) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Encode class labels, of which numbers below 0 mean that the class is unknown.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        As for :func:`check_classification_target`.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        The different known labels, sorted.
    codes : ndarray of shape (n_samples,), int64
        `classes[codes]` is `y` where that is known; -1 elsewhere.

    Raises
    ------
    ValueError
        As of :func:`check_classification_target`, or if fewer than two classes are known.
    """
    classes, codes = check_classification_target(y)
    unknown = int((classes < 0).sum()) if classes.dtype.kind in "if" else 0
    if unknown and len(classes) - unknown < 2:
        raise ValueError(
            f"y must hold at least 2 classes, got {len(classes) - unknown}: labels below 0 mean "
            "that the class is unknown. Name classes by other numbers, or by strings."
        )
    return classes[unknown:], np.maximum(codes - unknown, -1)


def check_regression_target(y: ArrayLike, vary: bool = True) -> NDArray[np.float64]:
    """Check numbers to predict.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
    vary : bool, default=True
        Whether the same number throughout is an error.

    Returns
    -------
    ndarray of shape (n_samples,), float64

    Raises
    ------
    ValueError
        If `y` holds something else than numbers, NaN, infinity, or, with `vary`, the same number
        throughout.
    """
    numbers = column_or_1d(y, warn=True)
    if numbers.dtype.kind not in "biuf":
        if any(number is None for number in numbers):
            raise ValueError("y must hold numbers, but contains None.")
        try:
            numbers = numbers.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"y must hold numbers: {error}") from error
    targets: NDArray[np.float64] = check_array(
        numbers, dtype=np.float64, ensure_2d=False, input_name="y"
    )
    if vary and targets.min() == targets.max():
        raise ValueError(f"y must not be constant: all of its values are {targets[0]:g}.")
    return targets


def check_sample_weight(
    sample_weight: ArrayLike | None, n_samples: int
) -> NDArray[np.float64] | None:
    """Check weights of samples.

    Parameters
    ----------
    sample_weight : array-like of shape (n_samples,), or None
    n_samples : int

    Returns
    -------
    ndarray of shape (n_samples,), float64, or None
        None if there are no weights.

    Raises
    ------
    ValueError
        If `sample_weight` has another shape, holds NaN, infinity or a negative value, is zero
        throughout, or its largest value is not from 1e-20 to 1e20.
    """
    if sample_weight is None:
        return None
    shape = np.asarray(sample_weight).shape
    if shape != (n_samples,):
        raise ValueError(f"sample_weight must have shape ({n_samples},), got {shape}.")
    weights: NDArray[np.float64] = check_array(
        sample_weight, dtype=np.float64, ensure_2d=False, input_name="sample_weight"
    )
    if (weights < 0).any():
        raise ValueError("sample_weight must not be negative.")
    if not weights.any():
        raise ValueError("sample_weight must not be zero throughout.")
    largest = float(weights.max())
    if not _LEAST <= largest <= _MOST:
        raise ValueError(
            f"the largest sample_weight must be from {_LEAST:g} to {_MOST:g}, got {largest:g}: "
            "divide the weights by it."
        )
    return weights
