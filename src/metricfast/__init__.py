"""Metric learning: distances learned from data.

Every public name loads its module at first use, so that ``import metricfast`` is fast.
`__init__.pyi` declares the types.
"""

from __future__ import annotations

import importlib
import importlib.util
from threading import RLock
from typing import Any

# Public names by module.
_NAMES = {
    "_core.dispatch": "build_info",
    "_labels.relations": "tags_of",
    "_paths": "get_cmake_dir get_include get_library_dir",
    "comparison.run": "compare",
    "constraints": "Constraints",
    "distances.database": "Database",
    "distances.gradient": "metric_gradient",
    "distances.neighbors": "kneighbors paired_distances pairwise_distances",
    "io": "load save",
    "learners.auto": "AutoLearner",
    "learners.base.bilinear": "BilinearMixin",
    "learners.base.classifiers": "PairsClassifierMixin QuadrupletsClassifierMixin "
    "TripletsClassifierMixin",
    "learners.base.learner": "BaseMetricLearner MahalanobisMixin MetricTransformer",
    "learners.closed.anmm": "ANMM",
    "learners.closed.covariance": "Covariance",
    "learners.closed.dmlmj": "DMLMJ",
    "learners.closed.lfda": "LFDA",
    "learners.closed.rca": "RCA RCA_Supervised",
    "learners.embedding.adapter": "AdapterLearner",
    "learners.embedding.learner": "EmbeddingLearner",
    "learners.embedding.presets": "LogRatioLearner ProxyNCALearner TripletLearner",
    "learners.gerrymandering.metric": "NeighborhoodGerrymandering",
    "learners.gerrymandering.regressor": "NeighborhoodGerrymanderingRegressor",
    "learners.kernel.kernelized": "KernelizedMetricLearner",
    "learners.ldml": "LDML",
    "learners.lmnn": "LMNN",
    "learners.mcml": "MCML",
    "learners.mlkr": "MLKR",
    "learners.nca": "NCA",
    "learners.ncmml": "NCMML",
    "learners.tuples.gmml": "GMML GMML_Supervised",
    "learners.tuples.kissme": "KISSME KISSME_Supervised XQDA",
    "learners.tuples.itml": "ITML ITML_Supervised",
    "learners.tuples.lsml": "LSML LSML_Supervised",
    "learners.tuples.mmc": "MMC MMC_Supervised",
    "learners.tuples.oasis": "OASIS OASIS_Supervised",
    "learners.tuples.scml": "SCML SCML_Supervised",
    "learners.tuples.sdml": "SDML SDML_Supervised",
    "learners.gerrymandering.asymmetric": "AsymmetricSimilarity",
    "learners.gerrymandering.fixed_database": "FixedDatabase",
    "predictors.classifiers": "KNeighborsClassifier",
    "predictors.multi_metric": "MultiMetricLMNN",
    "predictors.nearest": "NearestNeighbors",
    "predictors.regressors": "KNeighborsRegressor",
    "predictors.soft": "NCAClassifier NCARegressor",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}
_SUBMODULES = (
    *("callbacks", "comparison", "constraints", "dask", "embeddings", "exceptions", "inference"),
    *("io", "learners", "losses", "metrics", "neighbors", "plotting", "samplers", "selection"),
    *("solvers", "sources", "stopping", "onnx", "torch"),
)
# Python reports a deadlock if one thread imports a package while another imports a submodule.
_LOADING = RLock()
# Modules that are public only if an optional package is installed, and that package.
_NEEDS = {"dask": "distributed", "onnx": "skl2onnx", "plotting": "matplotlib", "torch": "torch"}


def _has(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # ValueError: a mock module without a spec
        return False


__all__ = [  # noqa: PLE0604
    "__version__",
    *_MODULE_OF,
    *(name for name in _SUBMODULES if name not in _NEEDS or _has(_NEEDS[name])),
]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        with _LOADING:
            value = getattr(importlib.import_module(f"metricfast.{_MODULE_OF[name]}"), name)
    elif name in _SUBMODULES:
        with _LOADING:
            value = importlib.import_module(f"metricfast.{name}")
    elif name == "__version__":
        from importlib.metadata import version

        value = version("metricfast")
    else:
        raise AttributeError(f"module 'metricfast' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
