"""Metric learning: distances learned from data.

Every name loads the module behind it when it is first used, so that ``import metricfast`` is cheap.
`__init__.pyi` tells their types.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

_MODULE_OF = {
    "ANMM": "learners.closed.anmm",
    "AsymmetricSimilarity": "learners.votes.asymmetric",
    "BaseMetricLearner": "learners.base.learner",
    "BilinearMixin": "learners.base.bilinear",
    "Constraints": "constraints",
    "Covariance": "learners.closed.covariance",
    "DMLMJ": "learners.closed.dmlmj",
    "EmbeddingLearner": "learners.embedding.learner",
    "FixedDatabase": "learners.votes.fixed_database",
    "GMML": "learners.tuples.gmml",
    "GMML_Supervised": "learners.tuples.gmml",
    "ITML": "learners.tuples.itml",
    "ITML_Supervised": "learners.tuples.itml",
    "KernelizedMetricLearner": "learners.kernel.kernelized",
    "LDML": "learners.linear.ldml",
    "LFDA": "learners.closed.lfda",
    "LMNN": "learners.linear.lmnn",
    "LSML": "learners.tuples.lsml",
    "LSML_Supervised": "learners.tuples.lsml",
    "LogRatioLearner": "learners.embedding.presets",
    "MCML": "learners.linear.mcml",
    "MLKR": "learners.linear.mlkr",
    "MMC": "learners.tuples.mmc",
    "MMC_Supervised": "learners.tuples.mmc",
    "MahalanobisMixin": "learners.base.learner",
    "MetricTransformer": "learners.base.learner",
    "NCA": "learners.linear.nca",
    "NCMML": "learners.linear.ncmml",
    "NeighborhoodGerrymandering": "learners.votes.gerrymandering",
    "NeighborhoodGerrymanderingRegressor": "learners.votes.regressor",
    "OASIS": "learners.tuples.oasis",
    "OASIS_Supervised": "learners.tuples.oasis",
    "PairsClassifierMixin": "learners.base.classifiers",
    "ProxyNCALearner": "learners.embedding.presets",
    "QuadrupletsClassifierMixin": "learners.base.classifiers",
    "RCA": "learners.closed.rca",
    "RCA_Supervised": "learners.closed.rca",
    "SCML": "learners.tuples.scml",
    "SCML_Supervised": "learners.tuples.scml",
    "SDML": "learners.tuples.sdml",
    "SDML_Supervised": "learners.tuples.sdml",
    "TripletLearner": "learners.embedding.presets",
    "TripletsClassifierMixin": "learners.base.classifiers",
    "build_info": "_core.dispatch",
    "get_cmake_dir": "_paths",
    "get_include": "_paths",
    "kneighbors": "distances.neighbors",
    "kneighbors_per_class": "distances.neighbors",
    "load": "io",
    "metric_gradient": "distances.gradient",
    "paired_distances": "distances.neighbors",
    "pairwise_distances": "distances.neighbors",
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
