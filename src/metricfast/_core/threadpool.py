"""Threads of libraries: `threadpoolctl.threadpool_limits` limits the kernels, learners the BLAS.

Importing this makes the kernels known to threadpoolctl.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from threading import Lock
from typing import Any

import threadpoolctl


class _Controller(threadpoolctl.LibController):  # type: ignore[misc]
    user_api = "metricfast"
    internal_api = "metricfast"
    filename_prefixes = ("_kernels",)
    check_symbols = (
        "metricfast_get_num_threads",
        "metricfast_set_num_threads",
        "metricfast_get_version",
    )

    def get_num_threads(self) -> int:
        return int(self.dynlib.metricfast_get_num_threads())

    def set_num_threads(self, num_threads: int) -> None:
        self.dynlib.metricfast_set_num_threads(num_threads)

    def get_version(self) -> str:
        function = self.dynlib.metricfast_get_version
        function.restype = ctypes.c_char_p
        return str(function().decode())


threadpoolctl.register(_Controller)


# The limit of one thread, once for each block of `one_blas_thread` that any Python thread runs.
_LIMITS: list[Any] = []
_LOCK = Lock()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run BLAS on one thread; a context manager or a decorator.

    More threads are slower on small matrices. After a product they also keep spinning for a while,
    on processors that the kernels need next.

    The first block of the process sets the limit, and the last one restores it. If every Python
    thread did so by itself, one could lift the limit while another still needs it, and the last
    could restore a limit of one thread forever.
    """
    of_process, of_thread = _libraries()
    with _LOCK:
        _LIMITS.append(_LIMITS[0] if _LIMITS else of_process.limit(limits=1))
        _let_go(of_process)
    try:
        with of_thread.limit(limits=1):
            yield
    finally:
        with _LOCK:
            limit = _LIMITS.pop()
            if not _LIMITS:
                limit.restore_original_limits()
                _let_go(of_process)


def _let_go(libraries: Any) -> None:
    """Allow every thread to set a limit.

    Since 3.8, threadpoolctl allows it only to the thread that set the last one.
    """
    for library in libraries.lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread()


@functools.cache
def _libraries() -> tuple[Any, Any]:
    """Return the BLAS libraries with a limit per process, and those with a limit per thread."""
    import scipy.linalg  # noqa: F401  which loads the BLAS of SciPy

    # Cached, because scanning all loaded libraries takes milliseconds.
    found = threadpoolctl.ThreadpoolController().select(user_api="blas")
    of_thread = found.select(threading_layer="openmp")
    names = {library.filepath for library in of_thread.lib_controllers}
    others = [one.filepath for one in found.lib_controllers if one.filepath not in names]
    return found.select(filepath=others), of_thread
