"""Size of blocks of points, from the `working_memory` of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Larger blocks are not faster.
_LARGEST_BLOCK = 32 << 20


def working_memory() -> int:
    """Return ``sklearn.get_config()["working_memory"]`` of this thread, in bytes."""
    from sklearn import get_config  # a slow import, needed only for points on disk

    return max(1, int(get_config()["working_memory"] * 2**20))


def block_rows(row_bytes: int, *, most: int = _LARGEST_BLOCK) -> int:
    """Return the number of rows of a block, at least one.

    A block takes an eighth of the working memory, or `most` bytes if that is less. The remaining
    memory is for other blocks and for results.
    """
    return max(1, min(most, working_memory() // 8) // max(1, row_bytes))


def in_caller_memory(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function, to use the caller's working memory in other threads and processes."""
    from sklearn import get_config

    return _WithMemory(function, get_config()["working_memory"])


class _WithMemory:
    """A picklable wrapper of a function that sets its own working memory, and keeps the name."""

    def __init__(self, function: Callable[..., Any], memory: float) -> None:
        self._function, self._memory, self.__name__ = function, memory, function.__name__

    def __call__(self, *args: Any, **named: Any) -> Any:
        from sklearn import config_context

        with config_context(working_memory=self._memory):
            return self._function(*args, **named)
