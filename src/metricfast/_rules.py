"""Rules for the values in model files: what arrays and numbers must be, and errors that say so."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from metricfast._core.types import Array

__all__ = [
    "COUNT",
    "FINITE",
    "FLOATS",
    "INTEGERS",
    "LENGTH",
    "NUMBER",
    "TEXT",
    "ArrayRule",
    "ValueRule",
    "are_numbers",
    "check_parameters",
    "check_value",
    "described",
    "is_number",
]

FLOATS, INTEGERS = ("float32", "float64"), ("int64",)


class ArrayRule(NamedTuple):
    """Dtypes and named lengths of an array. A name means the same length in all arrays."""

    dtypes: tuple[str, ...]
    shape: tuple[str | int, ...]
    may_be_empty: bool = False


class ValueRule(NamedTuple):
    """Values that an attribute may have, if it is no array."""

    what: str
    accepts: Callable[[Any], bool]


def _is_integer(value: Any, least: int) -> bool:
    return type(value) is int and least <= value < 2**63


def is_number(value: Any) -> bool:
    """Return whether a value is a float, or an integer of 64 bits."""
    return type(value) is float or _is_integer(value, -(2**63))


def are_numbers(value: Any) -> bool:
    """Return whether a value is a list of numbers."""
    return type(value) is list and all(map(is_number, value))


COUNT = ValueRule("an integer from 0", lambda value: _is_integer(value, 0))
LENGTH = ValueRule("an integer from 1", lambda value: _is_integer(value, 1))
NUMBER = ValueRule("a number", is_number)
FINITE = ValueRule("a finite number", lambda value: is_number(value) and math.isfinite(value))
TEXT = ValueRule("text", lambda value: type(value) is str)


def check_value(
    name: str, value: Any, rule: ArrayRule | ValueRule, lengths: dict[str, int]
) -> None:
    """Refuse what does not follow a rule; lengths of an array are added to those known."""
    if isinstance(rule, ArrayRule):
        _check_array(name, value, rule, lengths)
    elif not rule.accepts(value):
        raise ValueError(f"{name} must be {rule.what}, got {described(value)}")


def _check_array(name: str, value: Any, rule: ArrayRule, lengths: dict[str, int]) -> None:
    known = dict(lengths)
    fits = _is_array(value, rule.dtypes) and value.ndim == len(rule.shape)
    fits = fits and (value.size > 0 or rule.may_be_empty)
    if fits:
        for length, found in zip(rule.shape, value.shape, strict=True):
            expected = lengths.setdefault(length, found) if isinstance(length, str) else length
            fits = fits and found == expected
    if not fits:
        dtypes = f" of {' or '.join(rule.dtypes)}" if rule.dtypes else ""
        shape = ", ".join(_length_and_value(length, known) for length in rule.shape)
        raise ValueError(
            f"{name} must be an array{dtypes} of shape ({shape}), got {described(value)}"
        )
    _check_finite(name, value)


def _length_and_value(length: str | int, known: Mapping[str, int]) -> str:
    return f"{length}={known[str(length)]}" if length in known else str(length)


def _is_array(value: Any, dtypes: tuple[str, ...]) -> bool:
    return isinstance(value, np.ndarray) and (not dtypes or value.dtype.name in dtypes)


def _check_finite(name: str, value: Array) -> None:
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        raise ValueError(f"{name} must be finite, got {value[~np.isfinite(value)][0]}")


def check_parameters(name: str, parameters: list[Any]) -> None:
    """Refuse parameters of an embedding that are no finite numbers."""
    for i, array in enumerate(parameters):
        if not _is_array(array, FLOATS) or not array.size:
            raise ValueError(
                f"{name} must hold arrays of {' or '.join(FLOATS)} that are not empty, "
                f"got {described(array)}"
            )
        _check_finite(f"{name}[{i}]", array)


def described(value: Any) -> str:
    """Return what an error says about a value."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    return reprlib.repr(value)
