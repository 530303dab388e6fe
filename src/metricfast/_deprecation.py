"""Parameters that keep working under an earlier name."""

from __future__ import annotations

import warnings
from typing import Any

__all__ = ["DEPRECATED", "renamed", "take_renamed"]

DEPRECATED = "deprecated"


def renamed(old: str, old_value: Any, new: str, new_value: Any, *, stacklevel: int = 3) -> Any:
    """Return the value of a renamed parameter, with a FutureWarning if the old name was used.

    Parameters
    ----------
    old, new : str
        Names.
    old_value, new_value : object
        Values; "deprecated" is the old name's default.
    stacklevel : int, default=3
        Of the warning.

    Returns
    -------
    object
        `old_value` if it was given, otherwise `new_value`.
    """
    if isinstance(old_value, str) and old_value == DEPRECATED:
        return new_value
    warnings.warn(
        f'"{old}" parameter has been renamed to "{new}". It has been deprecated in version 0.6.3 '
        "and will be removed in 0.7.0",
        FutureWarning,
        stacklevel=stacklevel,
    )
    return old_value


def take_renamed(estimator: Any, old: str, new: str) -> None:
    """Move the value of a renamed parameter to its new name, at the end of a constructor.

    So `clone` sees the new one only. What `set_params` gives the old one is left to `fit`.
    """
    values = getattr(estimator, old), getattr(estimator, new)
    setattr(estimator, new, renamed(old, values[0], new, values[1], stacklevel=4))
    setattr(estimator, old, DEPRECATED)
