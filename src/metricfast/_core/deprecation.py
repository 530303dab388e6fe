"""Parameters that keep working under an earlier name."""

from __future__ import annotations

from typing import Any

from metricfast._core.warn import warn_user

__all__ = ["DEPRECATED", "renamed", "take_renamed"]

DEPRECATED = "deprecated"


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
    """Move the values of renamed parameters to their new names.

    `clone` then sees the new names only. A default stays the object that was given, which `clone`
    asks for: a pickled one is a copy.
    """
    for old, new in estimator._renamed.items():
        value = getattr(estimator, old)
        if not _is_default(value):
            setattr(estimator, new, renamed(old, value, new, None))
            setattr(estimator, old, DEPRECATED)


def _is_default(value: Any) -> bool:
    return isinstance(value, str) and value == DEPRECATED
