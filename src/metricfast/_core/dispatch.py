"""Load the compiled kernels for this processor. No other file imports a compiled module."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from metricfast._core.kernels import Kernels


@functools.cache
def get_kernels() -> Kernels:
    """Return the compiled kernels; the first call chooses and loads them.

    Chooses the best instruction set level that was built and that the processor and the operating
    system support, unless the environment variable ``METRICFAST_ISA`` names a level. Raises
    ImportError if that level is unknown, was not built, or is not supported; if no built level can
    run here; or if ``METRICFAST_NUM_THREADS`` is set to anything but a positive integer.
    """
    import metricfast._kernels as kernels

    kernels.load()
    importlib.import_module("metricfast._core.threadpool")  # registers their threads, once
    return cast("Kernels", kernels)


def available_isas() -> list[str]:
    """Return the built instruction set levels that can run here, from slowest to fastest."""
    import metricfast._kernels as kernels

    found: list[str] = kernels.available_isas()
    return found


def build_info() -> dict[str, Any]:
    """Return how this copy of metricfast was built, and the processor that it runs on.

    Returns
    -------
    info : dict
        ``version``, ``isa`` (the level in use), ``available_isas`` (list, best last), ``compiler``,
        ``eigen`` (versions), and ``threads`` (int, the number used where ``n_jobs`` is
        None).

    Raises
    ------
    ImportError
        As `get_kernels` does.

    Examples
    --------
    >>> import metricfast
    >>> sorted(metricfast.build_info())
    ['available_isas', 'compiler', 'eigen', 'isa', 'threads', 'version']
    """
    kernels = get_kernels()
    return {
        **kernels.build_info(),
        "available_isas": available_isas(),
        "threads": kernels.default_threads(),
    }
