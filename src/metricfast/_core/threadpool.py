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


class _OneThread:
    """The BLAS limit of the process: one thread, as long as any Python thread asks for it.

    If every Python thread set and restored the limit by itself, one could lift it while another
    still needs it, and the last could restore a limit of one thread forever.
    """

    def __init__(self) -> None:
        self._lock, self._users = Lock(), 0
        self._limit: Any = None

    def take(self, libraries: Any) -> None:
        with self._lock:
            if not self._users:
                self._limit = libraries.limit(limits=1)
                _let_go(libraries)
            self._users += 1

    def leave(self, libraries: Any) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._limit.restore_original_limits()
                _let_go(libraries)


def _let_go(libraries: Any) -> None:
    """Allow every thread to set a limit.

    Since 3.8, threadpoolctl allows it only to the thread that set the last one.
    """
    for library in libraries.lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread()


_ONE_THREAD = _OneThread()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run BLAS on one thread; a context manager or a decorator.

    More threads are slower on small matrices. After a product they also keep spinning for a while,
    on processors that the kernels need next.
    """
    of_process, of_thread = _libraries()
    _ONE_THREAD.take(of_process)
    try:
        with of_thread.limit(limits=1):
            yield
    finally:
        _ONE_THREAD.leave(of_process)


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
