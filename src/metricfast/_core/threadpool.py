"""Threads of libraries: `threadpoolctl.threadpool_limits` limits the kernels, learners the BLAS."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator

import threadpoolctl

__all__ = ["one_blas_thread", "register"]


class _Controller(threadpoolctl.LibController):  # type: ignore[misc]
    user_api = "metricfast"
    internal_api = "metricfast"
    filename_prefixes = ("_kernels_",)
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


@functools.cache
def register() -> None:
    """Make the kernels known to threadpoolctl, once."""
    threadpoolctl.register(_Controller)


@functools.cache
def _libraries() -> threadpoolctl.ThreadpoolController:
    import scipy.linalg  # noqa: F401  which loads the BLAS that learners use beside numpy's

    return threadpoolctl.ThreadpoolController()  # looks through all loaded libraries: milliseconds


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run the BLAS on one thread; for use in `with`, or on a function.

    More are slower on small matrices, and keep spinning for a while after a product, on the
    processors that the kernels need next.
    """
    with _libraries().limit(limits=1, user_api="blas"):
        yield
