"""How much memory a call may take beside its input."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from numbers import Real
from pathlib import Path
from typing import Any

__all__ = [
    "as_bytes",
    "beside",
    "block_rows",
    "config_context",
    "fits_at_once",
    "get_config",
    "given_limit",
    "memory_limit",
    "nbytes",
    "refuse_beyond",
    "set_config",
    "usable_memory",
]

_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SHARE = 0.75
_GROUPS, _OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
# Of a block that is read, computed with and thrown away: more gains nothing.
_BLOCK = 32 << 20

_global: list[int | None] = [None]
_local: ContextVar[int | None] = ContextVar("memory_limit", default=None)


def set_config(*, memory_limit: int | str | None = None) -> None:
    """Set how much memory the functions and learners of this process may take.

    Parameters
    ----------
    memory_limit : int, str or None, default=None
        Bytes that one call may take beside its input, or text such as ``"500 MB"`` (10^6 bytes
        each) or ``"2 GiB"`` (2^30). None, as at first, is three quarters of what the machine has,
        or of what the process or its control group may use, where that is less. Calls work in
        smaller blocks, or raise MemoryError with the number that they need. Results beyond the
        limit are refused too, of searches, distances and `transform`, but not what is given as
        `out` to be written to. Beside the limit are some 20 MB, of threads and of a block of
        points, and copies of points of another dtype or order.

    Examples
    --------
    >>> import metricfast as mf
    >>> mf.set_config(memory_limit="2 GB")
    >>> mf.get_config()
    {'memory_limit': 2000000000}
    >>> mf.set_config(memory_limit=None)
    """
    _global[0] = None if memory_limit is None else as_bytes("memory_limit", memory_limit)


def get_config() -> dict[str, int]:
    """Return what :func:`set_config` and :func:`config_context` set, or what holds without them.

    Examples
    --------
    >>> import metricfast as mf
    >>> with mf.config_context(memory_limit="1 GiB"):
    ...     mf.get_config()
    {'memory_limit': 1073741824}
    """
    return {"memory_limit": memory_limit()}


@contextmanager
def config_context(*, memory_limit: int | str | None = None) -> Iterator[None]:
    """Set the same for what a ``with`` block calls, in its thread alone.

    Parameters
    ----------
    memory_limit : int, str or None, default=None
        As of :func:`set_config`; None leaves what holds outside.

    Examples
    --------
    >>> import metricfast as mf
    >>> with mf.config_context(memory_limit="500 MB"):
    ...     distances, indices = mf.kneighbors([[0.0], [1.0], [3.0]], n_neighbors=1)
    """
    if memory_limit is None:
        yield
        return
    token = _local.set(as_bytes("memory_limit", memory_limit))
    try:
        yield
    finally:
        _local.reset(token)


def memory_limit() -> int:
    """Return the bytes that one call may take beside its input."""
    return given_limit() or usable_memory()


def given_limit() -> int | None:
    """Return the limit that was set, if one was."""
    return _local.get() or _global[0]


def block_rows(row_bytes: int, *, most: int = _BLOCK) -> int:
    """Return how many rows of so many bytes each a block should have, at least one.

    An eighth of the memory holds one: several are there at a time, and what is made of them.
    """
    return max(1, min(most, memory_limit() // 8) // max(1, row_bytes))


def nbytes(X: Any) -> int:
    """Return the bytes of points in memory, which may be sparse."""
    return int(X.data.nbytes + X.indices.nbytes if hasattr(X, "indices") else X.nbytes)


def refuse_beyond(needed: int, what: str, instead: str) -> None:
    """Raise MemoryError where something takes more memory than a call may.

    `what` is its subject, `instead` what to do beside raising the limit.
    """
    limit = memory_limit()
    if needed > limit:
        raise MemoryError(
            f"{what} would take {needed:,} bytes of memory, and memory_limit is {limit:,}: "
            f"{instead}, or raise the limit by metricfast.set_config(memory_limit={needed})."
        )


def fits_at_once(result: int, made: float, what: str, instead: str) -> bool:
    """Tell whether a result fits beside what is made for it at once, or only beside blocks.

    MemoryError where it fits beside neither. Blocks have a quarter of the limit, or more.
    """
    at_once = result + made <= memory_limit()
    if not at_once:
        refuse_beyond(int(min(result + made, -(-4 * result // 3))), what, instead)
    return at_once


def beside(taken: int) -> AbstractContextManager[None]:
    """Leave what a ``with`` block calls the memory that this much leaves."""
    return config_context(memory_limit=max(1, memory_limit() - taken))


def as_bytes(name: str, value: object) -> int:
    """Return a positive number of bytes, given as a number or as text with a unit."""
    number: float = -1
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]?)(i?)b?\s*", value.lower())
        if found and (found[2] or not found[3]):
            number = float(found[1]) * (1024 if found[3] else 1000) ** _UNITS[found[2]]
    elif isinstance(value, Real) and not isinstance(value, bool):
        number = float(value)
    if not 1 <= number < 2**63:
        raise ValueError(
            f'{name} must be a positive number of bytes, or text such as "2 GB"; found {value!r}.'
        )
    return int(number)


@cache
def usable_memory() -> int:
    """Return three quarters of the bytes that this process may use."""
    most = list(_of_control_groups())
    with suppress(AttributeError, ValueError, OSError):  # where there is no sysconf
        most.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        if soft != resource.RLIM_INFINITY:
            most.append(soft)
    return int(_SHARE * min(most)) if most else 4 << 30


def _of_control_groups() -> Iterator[int]:
    """Return the limits of the control groups that this process is in, of either version."""
    with suppress(OSError):
        for line in _OWN_GROUPS.read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            if kinds and "memory" not in kinds.split(","):
                continue
            top, name = (
                (_GROUPS / "memory", "memory.limit_in_bytes") if kinds else (_GROUPS, "memory.max")
            )
            group = top / path.lstrip("/")
            for place in (group, *group.parents):
                with suppress(OSError, ValueError):  # "max" is no number
                    yield int((place / name).read_text())
                if place == top:
                    break
