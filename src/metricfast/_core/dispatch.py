"""Picks the compiled kernels for this processor: the only file that imports compiled modules."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from metricfast._core.kernels import Kernels

__all__ = ["available_isas", "build_info", "get_kernels"]

VARIABLE = "METRICFAST_ISA"
X86_64_LEVELS = ("v2", "v3", "v4")
ISAS = ("base", *X86_64_LEVELS)  # best last; "base" on other processors than x86-64


@functools.cache
def get_kernels() -> Kernels:
    """Return the compiled kernels, which are chosen and imported at the first call.

    They are of the best instruction set level that was built and that the processor and the
    operating system support, or of the one that the environment variable ``METRICFAST_ISA`` names.
    ImportError if that is unknown, was not built, or is not supported; if no level that was built
    can run here.
    """
    available = available_isas()
    wanted = os.environ.get(VARIABLE)
    if not wanted and not available:
        raise ImportError(
            f"metricfast was built for {_join(_built_isas())}, none of which this machine supports"
        )
    isa = wanted or available[-1]
    if isa not in available:
        if isa not in ISAS:
            reason = "which is no instruction set level"
        elif isa not in _built_isas():
            reason = "which this copy of metricfast was not built for"
        else:
            reason = "which this processor or operating system does not support"
        raise ImportError(f"{VARIABLE} is {isa!r}, {reason}; available: {_join(available)}")
    kernels = importlib.import_module(_module_name(isa))
    importlib.import_module("metricfast._core.threadpool")  # which makes them known, once
    return cast("Kernels", kernels)


def available_isas() -> list[str]:
    """Return the instruction set levels that were built and can run here, best last."""
    import metricfast._cpu as _cpu

    supported = _cpu.supported_levels()
    return [isa for isa in _built_isas() if isa in supported or isa not in X86_64_LEVELS]


def build_info() -> dict[str, Any]:
    """Tell how this copy of metricfast was built and what it runs on.

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


def _built_isas() -> list[str]:
    # asks whether the file is there, so that a module that is there and broken raises on import
    return [isa for isa in ISAS if importlib.util.find_spec(_module_name(isa)) is not None]


def _module_name(isa: str) -> str:
    return f"metricfast._kernels_{isa}"


def _join(isas: list[str]) -> str:
    return ", ".join(isas) or "none"
