"""Run calls in Python threads, for kernels that use one thread each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from metricfast._core.arrays import as_threads

_T = TypeVar("_T")


def in_threads(
    function: Callable[..., _T], calls: Iterable[tuple[Any, ...]], n_threads: int | None = None
) -> Iterator[_T]:
    """Yield the results of calls, in order, from as many threads as the kernels may use.

    One call more than there are threads is prepared in advance. With one thread, the caller runs
    all calls, and none is prepared in advance.
    """
    if n_threads == 1:
        yield from (function(*arguments) for arguments in calls)
        return
    n_threads = as_threads(n_threads)
    coming: deque[Future[_T]] = deque()
    with ThreadPoolExecutor(n_threads, thread_name_prefix="metricfast-blocks") as pool:
        try:
            for arguments in calls:
                coming.append(pool.submit(function, *arguments))
                if len(coming) > n_threads:
                    yield coming.popleft().result()
            while coming:
                yield coming.popleft().result()
        finally:
            for each in coming:
                each.cancel()
