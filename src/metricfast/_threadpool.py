"""Lets `threadpoolctl.threadpool_limits` limit the compiled kernels."""

from __future__ import annotations

import ctypes
import functools

import threadpoolctl

__all__ = ["register"]


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
