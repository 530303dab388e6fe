"""Parameters that keep working under an earlier name."""

from __future__ import annotations

import warnings
from typing import Any

__all__ = ["DEPRECATED", "renamed"]

DEPRECATED = "deprecated"


def renamed(old: str, old_value: Any, new: str, new_value: Any) -> Any:
    """Return the value of a renamed parameter, with a FutureWarning if the old name was used.

    Parameters
    ----------
    old, new : str
        Names.
    old_value, new_value : object
        Values; "deprecated" is the old name's default.

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
        stacklevel=3,
    )
    return old_value
