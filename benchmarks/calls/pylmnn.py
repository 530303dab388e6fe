"""PyLMNN, with patches for recent versions of its dependencies."""

from __future__ import annotations

__all__ = ["fit"]

import importlib
import sys
import types
from typing import Any

import numpy as np

from benchmarks.calls import Call, Data, fitting


def _patched() -> Any:
    methods: Any = types.ModuleType("GPyOpt.methods")
    methods.BayesianOptimization = None  # only its hyperparameter search needs it
    sys.modules |= {"GPyOpt": types.ModuleType("GPyOpt"), "GPyOpt.methods": methods}
    module: Any = importlib.import_module("pylmnn.lmnn")
    original = module.minimize

    def minimize(fun: Any, x0: np.ndarray, options: dict[str, Any], **rest: Any) -> Any:
        # Recent versions of SciPy reject a two-dimensional x0 and the option "disp".
        return original(fun, x0.ravel(), options={"maxiter": options["maxiter"]}, **rest)

    module.minimize = minimize
    return module


LargeMarginNearestNeighbor = _patched().LargeMarginNearestNeighbor


def fit(data: Data, threads: int, **params: Any) -> Call:
    """Time LargeMarginNearestNeighbor."""
    return fitting(LargeMarginNearestNeighbor(n_jobs=threads, **params), data)
