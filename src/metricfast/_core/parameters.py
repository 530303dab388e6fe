"""Parameters of estimators, losses, solvers and samplers: dataclass fields with checked types.

A field declares the name, the type and the default of a parameter. The type also says which values
are valid: ``bool``, ``Literal`` and the types below. Other types are not checked::

    @dataclass(eq=False, repr=False)
    class Example(BaseEstimator):
        mode: Literal["fast", "exact"] = "fast"
        max_iter: PositiveInt = 100
        tol: NonNegativeFloat | None = None

Fields are inherited. A class that is no dataclass, such as a mixin, may annotate the parameters of
its subclasses with such types. If positional parameters have another order than the fields, the
class names them by :func:`positional`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import field, fields, make_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from metricfast._core.arguments import (
    check_bool,
    check_choice,
    check_count,
    check_finite,
    check_random_state,
    check_range,
    check_verbose,
)
from metricfast._core.arrays import as_threads
from metricfast._core.types import RandomState
from metricfast._core.warn import warn_user

_Class = TypeVar("_Class", bound=type)
Check = Callable[[str, Any], object]
# The value of a former name of a parameter.
DEPRECATED = "deprecated"


def _check_counts(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is a positive integer, or several."""
    several = list(value) if np.iterable(value) and not isinstance(value, str) else [value]
    if not several:
        raise ValueError(f"{name} must be a positive integer, or several; found none.")
    for each in several:
        check_count(name, each)


def _check_layer_sizes(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is a sequence of positive integers."""
    if isinstance(value, str) or not np.iterable(value):
        raise ValueError(f"{name} must be several integers, such as (256,), got {value!r}.")
    for size in value:
        check_count(name, size)


PositiveInt = Annotated[int, check_count]
AtLeastTwo = Annotated[int, partial(check_count, least=2)]
NonNegativeInt = Annotated[int, partial(check_count, least=0)]
PositiveFloat = Annotated[float, partial(check_range, positive=True)]
FiniteFloat = Annotated[float, check_finite]
NonNegativeFloat = Annotated[float, check_range]
PositiveShare = Annotated[float, partial(check_range, high=1, positive=True)]
Share = Annotated[float, partial(check_range, high=1)]
PositiveIntegers = Annotated[int | Sequence[int], _check_counts]
LayerSizes = Annotated[Sequence[int], _check_layer_sizes]
Verbosity = Annotated[bool | int, lambda _, value: check_verbose(value)]
Seed = Annotated[int | RandomState | None, lambda _, value: check_random_state(value)]
NumberOfJobs = Annotated[int | None, lambda _, value: as_threads(value)]


def positional(names: str) -> Callable[[_Class], _Class]:
    """Decorate a dataclass: make these fields positional, in order, and all others keyword-only."""
    order = names.split()

    def decorated(cls: Any) -> Any:
        declared = {each.name: each for each in fields(cls)}
        sorted_fields = [declared.pop(name) for name in order] + list(declared.values())
        made: Any = make_dataclass(
            cls.__name__,
            [
                (each.name, each.type, field(default=each.default, kw_only=each.name in declared))
                for each in sorted_fields
            ],
            namespace={"__module__": cls.__module__, "__post_init__": cls.__post_init__},
            eq=False,
            repr=False,
        )
        cls.__init__, cls.__dataclass_fields__ = made.__init__, made.__dataclass_fields__
        return cls

    return decorated


def check_parameters(owner: Any) -> None:
    """Raise ValueError or TypeError unless each parameter has a valid value."""
    for name, check in _checks(type(owner)).items():  # type: ignore[arg-type]
        check(name, getattr(owner, name))


@cache
def _checks(owner: type) -> dict[str, Check]:
    """Return a dictionary of parameter names and checks, for parameters whose type has a check."""
    found: dict[str, Check | None] = {}
    names = getattr(owner, "__dataclass_fields__", None) or inspect.signature(owner).parameters
    for cls in reversed(owner.__mro__):
        fields = "__dataclass_fields__" in vars(cls)
        if not fields and not cls.__module__.startswith("metricfast."):
            continue
        hints = vars(cls).get("__annotations__", {})
        own = {name: hint for name, hint in hints.items() if name in names}
        declared = type("Declared", (), {"__annotations__": own})
        hints = get_type_hints(declared, vars(sys.modules[cls.__module__]), include_extras=True)
        checks = {name: _check_of(hint) for name, hint in hints.items()}
        found |= {name: check for name, check in checks.items() if fields or check is not None}
    return {name: check for name, check in found.items() if check is not None}


def _check_of(hint: Any) -> Check | None:
    """Return the check of values of a type, or None for any value."""
    if hint is bool:
        return check_bool
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        check: Check = arguments[1]
        return check
    if origin is Literal:
        return partial(check_choice, allowed=arguments)
    if origin in (Union, UnionType):
        choices = [choice for each in arguments if _is_literal(each) for choice in get_args(each)]
        others = [each for each in arguments if each is not NoneType and not _is_literal(each)]
        if not others:
            return partial(check_choice, allowed=[*choices, None])
        inner = _check_of(others[0]) if len(others) == 1 else None
        return inner and partial(_check_unless, choices, NoneType in arguments, inner)
    return None


def _is_literal(hint: Any) -> bool:
    return get_origin(hint) is Literal


def _check_unless(
    choices: list[Any], or_none: bool, check: Check, name: str, value: object
) -> None:
    """Check a value unless it is one of `choices`; error messages list them."""
    if (value is None and or_none) or (isinstance(value, str) and value in choices):
        return
    try:
        check(name, value)
    except ValueError as error:
        known = "".join(f"{choice!r} or " for choice in choices)
        raise ValueError(str(error).replace(" must be ", f" must be {known}", 1)) from None


def renamed(old: str, old_value: Any, new: str, new_value: Any) -> Any:
    """Return the value of a renamed parameter, with a FutureWarning if the old name was used."""
    if _is_default(old_value):
        return new_value
    warn_user(
        f'"{old}" parameter has been renamed to "{new}". It has been deprecated in version 0.6.3 '
        f"of metric-learn: use {new}.",
        FutureWarning,
    )
    return old_value


def take_renamed(estimator: Any) -> None:
    """Move the values of deprecated parameters to their new names.

    Afterwards `clone` sees only the new names. Defaults are restored to the very object of the
    signature, because `clone` compares by identity and unpickling makes copies.
    """
    for old, new in estimator._renamed.items():
        value = getattr(estimator, old)
        if not _is_default(value):
            setattr(estimator, new, renamed(old, value, new, None))
            setattr(estimator, old, DEPRECATED)


def _is_default(value: Any) -> bool:
    return isinstance(value, str) and value == DEPRECATED
