"""Checks of labels, targets and sample weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import column_or_1d

from metricfast._core.arguments import as_array, as_real, as_vector, check_all_finite, check_length
from metricfast._core.frames import is_missing
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.warn import warn_user

# Between these bounds, sums of weights times squared distances stay within float32.
_LEAST, _MOST = 1e-20, 1e20
# Float64 represents all integers up to this one exactly.
_EXACT = 2**53
# Number of labels that are encoded at once.
_BLOCK = 1 << 16


def check_classification_target(
    y: ArrayLike, n_samples: int | None = None, name: str = "y"
) -> tuple[Array, Integers]:
    """Encode class labels: integers, booleans, strings, or floats with whole values.

    `n_samples`: the length that `y` must have.
    `name`: name of the argument in error messages.
    Returns the sorted classes, and codes such that `classes[codes]` is `y`. Raises ValueError if
    `y` has the wrong length, holds None, NaN or infinity, is continuous, mixes types that have no
    order, or holds fewer than two classes. Warns if `y` looks like a regression target.
    """
    if n_samples is None:
        labels = as_column(as_label_array(y, name), name)
    else:
        labels = labels_of_samples(y, n_samples, name)
    if labels.dtype.kind in "Of":  # others are classes
        check_class_labels(labels, name)
    classes, codes = encode(labels, name)
    check_several_classes(len(classes), name=name)
    # Many classes of two points are plausible for integers. Text is never a regression target.
    share = {"f": 0.2, "i": 0.5, "u": 0.5}.get(labels.dtype.kind, 1.0)
    if len(labels) > 20 and len(classes) > share * len(labels):
        warn_user(
            f"{name} has {len(classes)} classes among {len(labels)} labels: are they numbers to "
            "predict? MLKR and LogRatioLearner learn from numbers. Give names of classes as text."
        )
    return classes, codes


def check_several_classes(n_classes: int, kind: str = "", name: str = "y") -> None:
    """Raise ValueError unless there are at least two classes; `kind` says of which kind."""
    if n_classes < 2:
        raise ValueError(f"{name} must hold at least 2 classes{kind}, got {n_classes} class.")


def class_codes(y: ArrayLike, *, partial: bool = False) -> tuple[Array, Integers]:
    """Return the classes and the class index of each label; `partial` allows a single class."""
    if not partial:
        return check_classification_target(y)
    check_class_labels(y)
    return encode(as_label_array(y, "y"), "y")


def labels_of_samples(labels: ArrayLike, n_samples: int, name: str) -> Array:
    """Return one label per sample; raise ValueError for another number."""
    found = as_column(as_label_array(labels, name), name)
    check_length(found, n_samples, name)
    return found


def as_column(labels: Any, name: str) -> Array:
    """Return labels in shape (n,); warn if they are in a column."""
    array = as_array(labels, name)
    if array.ndim == 1:
        return array
    if array.shape[1:] != (1,):
        raise ValueError(
            f"{name} should be a 1d array, got an array of shape {array.shape}. Give one label "
            "a point; for one-hot rows, y.argmax(axis=1)."
        )
    return flatten_column(array, name)


def flatten_column(labels: Array, name: str) -> Array:
    """Return the labels of a column in one dimension, with a warning."""
    flat = np.asarray(column_or_1d(labels))
    warn_user(
        f"A column-vector {name} was passed when a 1d array was expected: it has shape "
        f"{labels.shape}. Give {name}.ravel().",
        DataConversionWarning,
    )
    return flat


def as_label_array(labels: ArrayLike, name: str) -> Array:
    """Return labels as an array; raise ValueError if one is missing.

    Raises ValueError if there are None, NaN, NaT, NA, infinity or masked values among them.
    """
    array = as_array(labels, name)
    kind = array.dtype.kind
    listed = kind in "US" and array.ndim == 1 and isinstance(labels, (list, tuple))
    # NumPy would convert numbers in a list with text to text.
    if listed and not all(isinstance(label, (str, bytes)) for label in labels):  # type: ignore[union-attr]
        raise _mixed(labels, name)  # type: ignore[arg-type]
    if kind == "f" and isinstance(labels, (list, tuple)):
        array = _as_listed(array, labels)
        kind = array.dtype.kind
    if kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity: leave these points out.")
    if kind in "mM" and np.isnat(array).any():
        raise ValueError(f"{name} contains NaT: leave these points out.")
    if kind == "O":
        for label in array.flat:
            if is_missing(label) or (isinstance(label, Real) and math.isinf(label)):
                raise ValueError(f"{name} contains {label}: leave these points out.")
    return array


def _as_listed(array: Array, labels: Sequence[Any]) -> Array:
    """Return `array`, or exact integers if NumPy has rounded one of them to a float."""
    if array.ndim != 1 or not np.isfinite(array).all():
        return array
    large = any(isinstance(label, Integral) and abs(int(label)) > _EXACT for label in labels)
    return _as_integers(np.array(labels, object), array) if large else array


def encode(labels: Array, name: str) -> tuple[Array, Integers]:
    """Return the sorted classes, and the index of each label's class.

    Raises ValueError if labels cannot be sorted, such as text and numbers.
    """
    if labels.dtype.kind in "iub" and labels.size:
        low, high = int(labels.min()), int(labels.max())
        if high - low < labels.size and high <= np.iinfo(np.int64).max:
            return _encode_near(labels, low, high)
    try:
        known, codes = np.unique(labels, return_inverse=True)
    except (TypeError, ValueError) as error:
        raise _mixed(labels.flat, name) from error
    return known, codes.reshape(-1).astype(np.int64, copy=False)


def _encode_near(labels: Array, low: int, high: int) -> tuple[Array, Integers]:
    """Encode integers of a narrow range with a lookup table, without sorting.

    Read-only labels that already are codes are returned unchanged.
    """
    flat, present = labels.reshape(-1), np.zeros(high - low + 1, bool)
    blocks = [slice(start, start + _BLOCK) for start in range(0, flat.size, _BLOCK)]
    for block in blocks:
        present[flat[block].astype(np.int64) - low] = True
    known = (np.flatnonzero(present) + low).astype(labels.dtype)
    kept = flat.dtype == np.int64 and flat.flags.c_contiguous and not flat.flags.writeable
    if kept and low == 0 and present.all():
        return known, flat
    table, codes = np.cumsum(present) - 1, np.empty(flat.size, np.int64)
    for block in blocks:
        codes[block] = table[flat[block].astype(np.int64) - low]
    return known, codes


def join_labels(*labels: Array) -> Array:
    """Concatenate labels of any integer and float dtypes, without rounding.

    Labels become int64, uint64 or Python integers where float64 would round one.
    """
    whole = np.concatenate(labels)
    integers = [each for each in labels if each.dtype.kind in "iub"]
    large = (max(-int(each.min()), int(each.max())) > _EXACT for each in integers if each.size)
    if whole.dtype.kind != "f" or not (len(integers) == len(labels) or any(large)):
        return whole
    return _as_integers(np.concatenate([each.astype(object) for each in labels]), whole)


def _as_integers(labels: Array, rounded: Array) -> Array:
    """Return an array of integers for objects, or `rounded` if some are fractions."""
    if any(label != int(label) for label in labels.flat):
        return rounded
    found = np.array([int(label) for label in labels.flat], object).reshape(labels.shape)
    for dtype in (np.int64, np.uint64):
        bounds = np.iinfo(dtype)
        if not found.size or bounds.min <= found.min() <= found.max() <= bounds.max:
            return found.astype(dtype)
    return found


def by_appearance(labels: Array) -> Integers:
    """Number labels in the order of their first appearance, whatever the classes are called.

    Random draws by class use these numbers, so that renaming classes does not change the draws.
    """
    _, first, places = np.unique(labels, return_index=True, return_inverse=True)
    numbers = np.empty(len(first), np.int64)
    numbers[np.argsort(first)] = np.arange(len(first))
    return numbers[places.reshape(-1)]


def encode_together(labels: Sequence[Array], name: str) -> tuple[Array, list[Integers]]:
    """Return the sorted classes of several arrays, and the labels of each as class indices."""
    known, codes = encode(join_labels(*labels), name)
    return known, np.split(codes, np.cumsum([len(each) for each in labels])[:-1])


def codes_among(labels: Array, classes: Array, name: str) -> Integers:
    """Return the class index of each label, or -1 for a label that is not among `classes`."""
    known, (of_labels, of_classes) = encode_together([labels, classes], name)
    places = np.full(len(known), -1, np.int64)
    places[of_classes] = np.arange(len(classes))
    return np.asarray(places[of_labels])


def known_codes(labels: Array, classes: Array, name: str, advice: str) -> Integers:
    """Return the class index of each label; raise ValueError, with advice, if one is unknown."""
    check_comparable(labels, classes, name)
    codes = codes_among(labels, classes, name)
    unknown = labels[codes < 0].tolist()
    if unknown:
        raise ValueError(f"{name} holds class {unknown[0]!r}, {advice}.")
    return codes


def _mixed(labels: Iterable[Any], name: str) -> ValueError:
    kinds = ", ".join(sorted({type(label).__name__ for label in labels}))
    return ValueError(f"{name} must hold labels of one type, numbers or text; found {kinds}.")


def check_class_labels(labels: ArrayLike, name: str = "y") -> None:
    """Raise ValueError if a class label is missing or fractional, or if labels cannot be sorted."""
    array = as_label_array(labels, name)
    if array.dtype.kind == "O":
        encode(array, name)
        reals = [label for label in array.flat if isinstance(label, (float, np.floating))]
        array = np.array(reals, np.float64)
    if array.dtype.kind != "f":
        return
    if (array != np.floor(array)).any():
        raise ValueError(
            f"Unknown label type: continuous. {name} must hold class labels, "
            "but its values are those of a regression target. MLKR, LogRatioLearner and "
            "NCARegressor learn from numbers."
        )


def check_comparable(labels: ArrayLike, others: ArrayLike, name: str) -> None:
    """Raise ValueError for comparisons of text with numbers, or of dates with either."""
    kind, other_kind = _kind(labels), _kind(others)
    if kind != other_kind and np.size(labels) and np.size(others):
        raise ValueError(
            f"{name} holds {kind}, and the labels that it is compared with hold {other_kind}: "
            "give both as text, or both as numbers."
        )


def check_kinds(learner: Any, begun: bool, **labels: ArrayLike | None) -> None:
    """Raise ValueError if labels are of another kind than in the first call of `partial_fit`.

    `begun`: whether that call was an earlier one. Otherwise, and in a learner of a file, which
        does not know them, these labels are remembered.
    `labels`: arguments by name. Those that may be None are given in all calls, or in none.
    """
    if not begun or not hasattr(learner, "_first_labels"):
        learner._first_labels = {
            name: None if given is None else as_label_array(given, name)[:1]
            for name, given in labels.items()
        }
        return
    for name, given in labels.items():
        first = learner._first_labels[name]
        if (given is None) != (first is None):
            had = "had none" if first is None else "had them"
            raise ValueError(
                f"{name} must be given in all calls of partial_fit, or in none: the first {had}. "
                "Call fit to begin anew."
            )
        if given is not None:
            check_comparable(as_label_array(given, name), first, name)


def _kind(labels: ArrayLike) -> str:
    array = np.asarray(labels)
    types = {array.dtype.type} if array.dtype != object else set(map(type, array.flat))
    return " and ".join(sorted({_kind_of(each) for each in types}))


def _kind_of(label: type) -> str:
    for kind, base in (
        ("text", str),
        ("bytes", bytes),
        ("dates", (date, np.datetime64)),
        ("durations", (timedelta, np.timedelta64)),
    ):
        if issubclass(label, base):
            return kind
    return "no text"


def accuracy(y: ArrayLike, predicted: Array, sample_weight: ArrayLike | None = None) -> float:
    """Return the weighted accuracy of predictions, for labels of every type.

    Raises ValueError unless `y` are class labels of the type and shape of the predictions.
    """
    labels = column_or_1d(as_label_array(y, "y"))
    if labels.shape != predicted.shape:
        raise ValueError(f"y must have shape {predicted.shape}; found {labels.shape}.")
    check_class_labels(labels)
    check_comparable(labels, predicted, "y")
    weight = check_sample_weight(sample_weight, len(labels))
    found, right = encode_together([predicted, labels], "y")[1]
    return float(np.average(found == right, weights=weight))


def check_partial_target(y: ArrayLike) -> tuple[Array, Integers]:
    """Encode class labels; numbers below 0 mark points of unknown class.

    Returns the sorted known classes, and codes: `classes[codes]` is `y` where the class is known,
    and the code is -1 elsewhere. Raises ValueError as :func:`check_classification_target` does, or
    if fewer than two classes are known.
    """
    classes, codes = check_classification_target(y)
    unknown = int((classes < 0).sum()) if classes.dtype.kind in "if" else 0
    check_several_classes(len(classes) - unknown, " besides labels below 0, which are unknown")
    return classes[unknown:], np.maximum(codes - unknown, -1)


def numeric_labels(y: ArrayLike, name: str = "y", size: int | None = None) -> Floats:
    """Return finite numbers in float64: one for each of `size` points, or a row."""
    labels = np.ascontiguousarray(as_real(y, name), np.float64)
    if labels.ndim not in (1, 2) or 0 in labels.shape:
        raise ValueError(
            f"{name} must hold one label per point, one number or several; found shape "
            f"{labels.shape}."
        )
    if size is not None:
        check_length(labels, size, name)
    return check_all_finite(labels, name, y)


def check_varies(labels: Array) -> None:
    """Raise ValueError if all targets are equal."""
    if (labels == labels[0]).all():
        raise ValueError(f"y must not be constant: all of its values are {labels[0]}.")


def check_regression_target(y: ArrayLike, vary: bool = True) -> Floats:
    """Return regression targets in float64; with `vary`, raise ValueError if they are constant."""
    targets = as_column(numeric_labels(y), "y")
    if vary:
        check_varies(targets)
    return targets


def check_marks(n_samples: int, **marks: ArrayLike | None) -> dict[str, Any]:
    """Return the indices of the `groups` or `views` of samples, of those that are given."""
    return {
        name: encode(labels_of_samples(each, n_samples, name), name)[1]
        for name, each in marks.items()
        if each is not None
    }


def check_sample_weight(
    sample_weight: ArrayLike | None, n_samples: int, name: str = "sample_weight"
) -> Floats | None:
    """Return sample weights in float64, or None for None. Errors call them `name`.

    Raises ValueError if they have another shape, hold NaN, infinity or a negative value, are all
    zero, or if the largest is outside of 1e-20 to 1e20.
    """
    if sample_weight is None:
        return None
    weights: Floats = as_vector(sample_weight, name, n_samples)
    if not weights.any():
        raise ValueError(f"{name} must not be zero throughout.")
    largest = float(weights.max())
    if not _LEAST <= largest <= _MOST:
        raise ValueError(
            f"the largest {name} must be from {_LEAST:g} to {_MOST:g}, got {largest:g}: "
            "divide the weights by it."
        )
    return weights
