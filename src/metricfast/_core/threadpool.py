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

__all__ = ["one_blas_thread"]


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
    """The limit of a process, which is one thread for as long as any thread of Python wants that.

    If each set it by itself, one that ends would set it back under another, and that one, when it
    ends, to what it had found: one thread, for good.
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
    """Let any thread set a limit: since 3.8, threadpoolctl heeds the one alone that did it last."""
    for library in libraries.lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread()


_ONE_THREAD = _OneThread()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run the BLAS on one thread; for use in `with`, or on a function.

    More are slower on small matrices, and keep spinning for a while after a product, on the
    processors that the kernels need next.
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
    """Return the BLAS libraries with a limit of the process, and those with one of each thread."""
    import scipy.linalg  # noqa: F401  which loads the BLAS of SciPy

    # It looks through all loaded libraries, which takes milliseconds.
    found = threadpoolctl.ThreadpoolController().select(user_api="blas")
    of_thread = found.select(threading_layer="openmp")
    names = {library.filepath for library in of_thread.lib_controllers}
    others = [one.filepath for one in found.lib_controllers if one.filepath not in names]
    return found.select(filepath=others), of_thread
