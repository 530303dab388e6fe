"""Checks of parameters. Each error names the parameter, the value found and the allowed values."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from difflib import get_close_matches
from functools import wraps
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar

import numpy as np
import sklearn.utils
from numpy.typing import ArrayLike, NDArray

from metricfast._core.dispatch import get_kernels
from metricfast._core.frames import as_table, column_of, fault_of, fault_of_lists, plain_frame

_P = ParamSpec("_P")
_T = TypeVar("_T")
# Up to this count, float64 is exact, and the sum of two counts does not overflow.
_MOST = 2**53
_COMPLEX = (complex, np.complexfloating)
_LARGEST = float(np.finfo(np.float64).max)


def as_array(values: Any, name: str) -> NDArray[Any]:
    """Convert an array-like to an array; raise ValueError for masked values and complex numbers."""
    if type(values) is np.ndarray and values.dtype.kind in "fiub":
        return values
    if hasattr(values, "toarray") and hasattr(values, "tocsr"):
        raise TypeError(
            f"{name} is a sparse matrix; dense data are required here: "
            f"pass {name}.toarray(), or reduce its width first."
        )
    values = as_table(values, name)
    if hasattr(values, "column_names"):  # a pyarrow.Table
        values = np.column_stack([column_of(values, j) for j in range(values.shape[1])])
    if np.ma.is_masked(values):
        count = int(np.ma.getmaskarray(values).sum())
        raise ValueError(f"{name} has {count} masked values: leave them out, or fill them.")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array: {error}") from error
    kind = array.dtype.kind
    if kind == "c" or (kind == "O" and any(isinstance(item, _COMPLEX) for item in array.flat)):
        raise ValueError(f"Complex data not supported: {name} has dtype {array.dtype}.")
    return array


def as_real(X: ArrayLike, name: str) -> NDArray[Any]:
    """Return a C-ordered array of native float32 or float64.

    Integers and other floats become float64.
    """
    plain = type(X) is np.ndarray
    X = X if plain else plain_frame(as_table(X, name), name)
    array = as_array(X, name)
    if array.dtype.kind in "mM":
        raise ValueError(
            f"{name} must hold numbers; found dtype {array.dtype}. Give dates as the time since "
            "one of them, in days for example."
        )
    if array.dtype not in (np.float32, np.float64) or not array.dtype.isnative:
        single = array.dtype.kind == "f" and array.dtype.itemsize == 4
        try:
            array = array.astype(np.float32 if single else np.float64)
        except (TypeError, ValueError) as error:
            raise (
                fault_of(X, name)
                or fault_of_lists(array, name)
                or type(error)(f"{name} must hold numbers; found dtype {array.dtype}: {error}")
            ) from error
    return np.asarray(array, order="C")


def as_numbers(values: ArrayLike, name: str, size: int | None = None) -> NDArray[np.float64]:
    """Return finite numbers in one dimension, one for each of ``size`` points if that is given."""
    array = np.asarray(as_real(values, name), np.float64)
    wanted = array.size if size is None else size
    if array.shape != (wanted,):
        raise ValueError(f"{name} must have shape ({wanted},); found {array.shape}.")
    return check_all_finite(array, name)


def as_vector(values: ArrayLike, name: str, size: int) -> NDArray[np.float64]:
    """Return non-negative finite weights, one for each of ``size`` points."""
    array = as_numbers(values, name, size)
    if (array < 0).any():
        raise ValueError(f"{name} must not be negative.")
    return array


def check_all_finite(array: NDArray[Any], name: str, given: object = None) -> NDArray[Any]:
    """Return an array; raise ValueError if it holds NaN or infinity, in which column of `given`."""
    if not get_kernels().all_finite(array if array.ndim == 2 else array.reshape(1, -1)):
        raise fault_of(given, name) or ValueError(
            f"{name} contains NaN or infinity; remove or impute these values."
        )
    return array


def as_matrix(values: ArrayLike, name: str, dtype: Any = np.float64) -> NDArray[Any]:
    """Copy a matrix of finite numbers, in C order."""
    array = as_real(values, name)
    if array.ndim != 2 or not array.size:
        raise ValueError(f"`{name}` must be a matrix of numbers, got shape {array.shape}.")
    return np.array(check_all_finite(array, name), dtype, order="C")


def check_bool(name: str, value: object) -> None:
    """Raise ValueError unless `value` is a boolean."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


def check_verbose(value: object) -> None:
    """Raise ValueError unless `value` is a boolean or an integer level, as in scikit-learn."""
    whole = isinstance(value, (bool, np.bool_, Integral))
    if not whole or value < 0:  # type: ignore[operator]
        raise ValueError(f"verbose must be True, False or an integer from 0, got {value!r}.")


def check_choice(name: str, value: object, allowed: Sequence[object]) -> None:
    """Raise ValueError unless `value` is one of the allowed values."""
    if not (isinstance(value, Hashable) and value in allowed):
        *most, last = map(repr, allowed)
        meant = did_you_mean(value, allowed)
        raise ValueError(f"{name} must be {', '.join(most)} or {last}, got {value!r}.{meant}")


def check_named(name: str, value: object, names: Sequence[str], shape: str) -> None:
    """Raise ValueError, with the text of metric-learn, unless `value` is a name or an array."""
    if not (isinstance(value, np.ndarray) or (isinstance(value, str) and value in names)):
        known = ", ".join(map(repr, names))
        raise ValueError(f"`{name}` must be {known} or a numpy array of shape {shape}.")


def did_you_mean(given: object, known: Iterable[object], shown: str = "{!r}") -> str:
    """Return a question about the known name that is most like the given one, or nothing.

    Case, "_" and "-" do not matter. `shown` is the format of the name.
    """
    names = {_letters(name): name for name in known if isinstance(name, str)}
    near = get_close_matches(_letters(given), names, 1) if isinstance(given, str) else []
    return f" Did you mean {shown.format(names[near[0]])}?" if near else ""


def _letters(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def check_count(name: str, value: object, least: int = 1) -> int:
    """Return `value` as an integer; raise ValueError unless it is one, and at least `least`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    number: Any = value  # mypy: Integral has no comparison operators
    if not whole or number < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")
    if number > _MOST:
        raise ValueError(f"{name} must be at most {_MOST}, got {value!r}.")
    return int(number)


def check_random_state(random_state: Any) -> np.random.RandomState:
    """Return the generator for `random_state`, as in scikit-learn."""
    try:
        rng: np.random.RandomState = sklearn.utils.check_random_state(random_state)
    except ValueError as error:
        raise ValueError(
            "random_state must be None, an integer from 0 to 4294967295 or a RandomState, got "
            f"{random_state!r}."
        ) from error
    return rng


def check_finite(name: str, value: object) -> None:
    """Raise ValueError unless `value` is a finite real number."""
    if not -_LARGEST <= _as_comparable(value) <= _LARGEST:
        raise ValueError(f"{name} must be a finite number, got {value!r}.")


def _as_comparable(value: object) -> Any:
    """Return a real number, or NaN for anything else."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    # NumPy would compare a float32 in float32.
    return float(value) if isinstance(value, np.floating) else value


def check_path(name: str, value: object) -> None:
    """Raise ValueError unless `value` is a path or None."""
    if not isinstance(value, (str, os.PathLike, type(None))):
        raise TypeError(f"{name} must be a path, got {value!r}.")


def check_range(
    name: str, value: object, high: float = math.inf, positive: bool = False,
    infinite: bool = False,
) -> None:  # fmt: skip
    """Raise ValueError unless `value` is from 0 (excluded if `positive`) to `high`.

    `infinite`: whether infinity is allowed as well.
    """
    real = _as_comparable(value)
    inside = 0 <= real <= min(high, _LARGEST) or (infinite and real == math.inf)
    if not inside or (positive and real == 0):
        raise ValueError(
            f"{name} must be a {'finite ' if high == math.inf and not infinite else ''}number "
            f"{'above' if positive else 'from'} 0"
            f"{f' to {high:g}' if high < math.inf else ''}, got {value!r}."
        )


def takes_side(learner: Any) -> bool:
    """Return whether the learner's `transform` has a parameter `side`."""
    return "side" in inspect.signature(learner.transform).parameters


def called_like(model: Callable[_P, Any]) -> Callable[[Callable[..., _T]], Callable[_P, _T]]:
    """Copy the signature of `model`. The TypeErrors of wrong calls name the decorated function."""

    def decorate(function: Callable[..., _T]) -> Callable[_P, _T]:
        returned = inspect.signature(function).return_annotation
        signature = inspect.signature(model).replace(return_annotation=returned)

        @wraps(function)
        def called(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            try:
                return function(*args, **kwargs)
            except TypeError:
                try:
                    signature.bind(*args, **kwargs)
                except TypeError as error:
                    raise TypeError(f"{called.__qualname__}() {error}") from None
                raise

        called.__signature__ = signature  # type: ignore[attr-defined]
        return called

    return decorate


def check_together(**given: object) -> None:
    """Raise ValueError unless all of these arguments are given, or none."""
    missing = [name for name, value in given.items() if value is None]
    if 0 < len(missing) < len(given):
        raise ValueError(f"{' and '.join(given)} must be given together: {missing[0]} is None.")


def check_length(found: Any, size: int, name: str, items: str = "labels, one per point") -> None:
    """Raise ValueError unless there are `size` items."""
    if len(found) != size:
        raise ValueError(f"{name} must hold {size} {items}; found {len(found)}.")


def check_no_overflow(
    what: str, *results: ArrayLike, remedy: str = "scale its features", name: str = "X"
) -> None:
    """Raise ValueError if results of very large points are not finite."""
    if not all(map(_is_finite, results)):
        raise ValueError(f"{name} is so large that {what} overflow: {remedy}.")


def _is_finite(values: ArrayLike) -> bool:
    """Return whether all values are finite; tables are read once, without a mask."""
    array = np.asarray(values)
    if array.ndim == 2 and array.flags.c_contiguous and array.dtype in (np.float32, np.float64):
        return get_kernels().all_finite(array)
    return bool(np.isfinite(array).all())


def is_symmetric(M: NDArray[Any]) -> bool:
    """Return whether a matrix is square and symmetric, up to rounding of its largest entry."""
    if M.shape[0] != M.shape[1]:
        return False
    # A fixed tolerance would pass all matrices of tiny entries.
    return np.array_equal(M, M.T) or np.allclose(M, M.T, atol=1e-8 * float(np.abs(M).max()))


def check_unused(estimator: Any, names: Iterable[str], reason: str) -> None:
    """Raise ValueError if a parameter that has no effect differs from its default.

    `reason`: the text of the error after the parameter's name and value.
    """
    parameters = inspect.signature(type(estimator)).parameters
    for name in names:
        if name not in parameters:
            continue
        value, default = getattr(estimator, name), parameters[name].default
        if not np.array_equal(value, default):
            raise ValueError(f"{name} must be {default!r}, its default, {reason}; got {value!r}.")
