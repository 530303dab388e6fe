"""Metric learning: distances learned from data.

Every name loads the module behind it when it is first used, so that ``import metricfast`` is cheap.
`__init__.pyi` tells their types.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

_MODULE_OF = {
    "ANMM": "learners.anmm",
    "AsymmetricSimilarity": "learners.asymmetric",
    "BaseMetricLearner": "base",
    "BilinearMixin": "bilinear",
    "Constraints": "constraints",
    "Covariance": "learners.covariance",
    "DMLMJ": "learners.dmlmj",
    "EmbeddingLearner": "learners.embedding",
    "FixedDatabase": "learners.fixed_database",
    "GMML": "learners.gmml",
    "GMML_Supervised": "learners.gmml",
    "ITML": "learners.itml",
    "ITML_Supervised": "learners.itml",
    "KernelizedMetricLearner": "learners.kernelized",
    "LDML": "learners.ldml",
    "LFDA": "learners.lfda",
    "LMNN": "learners.lmnn",
    "LSML": "learners.lsml",
    "LSML_Supervised": "learners.lsml",
    "LogRatioLearner": "learners.presets",
    "MCML": "learners.mcml",
    "MLKR": "learners.mlkr",
    "MMC": "learners.mmc",
    "MMC_Supervised": "learners.mmc",
    "MahalanobisMixin": "base",
    "MetricTransformer": "base",
    "NCA": "learners.nca",
    "NCMML": "learners.ncmml",
    "NeighborhoodGerrymandering": "learners.gerrymandering",
    "NeighborhoodGerrymanderingRegressor": "learners.gerrymandering_regressor",
    "OASIS": "learners.oasis",
    "OASIS_Supervised": "learners.oasis",
    "PairsClassifierMixin": "classifiers",
    "ProxyNCALearner": "learners.presets",
    "QuadrupletsClassifierMixin": "classifiers",
    "RCA": "learners.rca",
    "RCA_Supervised": "learners.rca",
    "SCML": "learners.scml",
    "SCML_Supervised": "learners.scml",
    "SDML": "learners.sdml",
    "SDML_Supervised": "learners.sdml",
    "TripletLearner": "learners.presets",
    "TripletsClassifierMixin": "classifiers",
    "build_info": "_dispatch",
    "get_cmake_dir": "_paths",
    "get_include": "_paths",
    "kneighbors": "neighbors",
    "kneighbors_per_class": "neighbors",
    "load": "io",
    "metric_gradient": "gradient",
    "paired_distances": "neighbors",
    "pairwise_distances": "neighbors",
    "save": "io",
}
_SUBMODULES = (
    *(
        "constraints",
        "embeddings",
        "exceptions",
        "inference",
        "io",
        "learners",
        "losses",
        "metrics",
    ),
    *("neighbors", "plotting", "samplers", "solvers", "torch"),
)
# What needs a package that may not be there is public where it is.
_NEEDS = {"plotting": "matplotlib", "torch": "torch"}


def _has(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # ValueError: a stand-in without a spec
        return False


__all__ = [  # noqa: PLE0604
    "__version__",
    *_MODULE_OF,
    *(name for name in _SUBMODULES if name not in _NEEDS or _has(_NEEDS[name])),
]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(f"metricfast.{_MODULE_OF[name]}"), name)
    elif name in _SUBMODULES:
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
