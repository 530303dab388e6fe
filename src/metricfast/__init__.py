"""Metric learning: distances learned from data.

Every public name loads its module at first use, so that ``import metricfast`` is fast.
`__init__.pyi` declares the types.
"""

from __future__ import annotations

import importlib.util
from typing import Any

from metricfast._exports import MODULE_OF, load_public

_SUBMODULES = (
    *("callbacks", "comparison", "constraints", "dask", "embeddings", "exceptions", "inference"),
    *("io", "learners", "losses", "metrics", "neighbors", "plotting", "samplers", "selection"),
    *("solvers", "sources", "stopping", "onnx", "torch"),
)
# Modules that are public only if an optional package is installed, and that package.
_NEEDS = {"dask": "distributed", "onnx": "skl2onnx", "plotting": "matplotlib", "torch": "torch"}


def _has(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # ValueError: a mock module without a spec
        return False


__all__ = [  # noqa: PLE0604
    "__version__",
    *MODULE_OF,
    *(name for name in _SUBMODULES if name not in _NEEDS or _has(_NEEDS[name])),
]


def __getattr__(name: str) -> Any:
    if name in MODULE_OF:
        value = load_public(MODULE_OF[name], name)
    elif name in _SUBMODULES:
        value = load_public(name)
    elif name == "__version__":
        from importlib.metadata import version

        value = version("metricfast")
    else:
        raise AttributeError(f"module 'metricfast' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
