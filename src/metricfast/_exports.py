"""The public names of the package, by module. Each loads its module at first use."""

from __future__ import annotations

import importlib
from threading import RLock
from typing import Any

_LEARNERS = {
    "auto": "AutoLearner",
    "closed.anmm": "ANMM",
    "closed.covariance": "Covariance",
    "closed.dmlmj": "DMLMJ",
    "closed.lfda": "LFDA",
    "closed.rca": "RCA RCA_Supervised",
    "embedding.adapter": "AdapterLearner",
    "embedding.learner": "EmbeddingLearner",
    "embedding.presets": "LogRatioLearner ProxyNCALearner TripletLearner",
    "gerrymandering.asymmetric": "AsymmetricSimilarity",
    "gerrymandering.metric": "NeighborhoodGerrymandering",
    "gerrymandering.regressor": "NeighborhoodGerrymanderingRegressor",
    "kernel.kernelized": "KernelizedMetricLearner",
    "ldml": "LDML",
    "lmnn": "LMNN",
    "mcml": "MCML",
    "mlkr": "MLKR",
    "nca": "NCA",
    "ncmml": "NCMML",
    "tuples.gmml": "GMML GMML_Supervised",
    "tuples.itml": "ITML ITML_Supervised",
    "tuples.kissme": "KISSME KISSME_Supervised XQDA",
    "tuples.lsml": "LSML LSML_Supervised",
    "tuples.mmc": "MMC MMC_Supervised",
    "tuples.oasis": "OASIS OASIS_Supervised",
    "tuples.scml": "SCML SCML_Supervised",
    "tuples.sdml": "SDML SDML_Supervised",
}
_OTHERS = {
    "_core.dispatch": "build_info",
    "_labels.tags": "tags_of",
    "_paths": "get_cmake_dir get_include get_library_dir",
    "comparison.run": "compare",
    "constraints": "Constraints",
    "distances.database": "Database",
    "distances.gradient": "metric_gradient",
    "distances.neighbors": "kneighbors paired_distances pairwise_distances",
    "io": "load save",
    "learners.base.bilinear": "BilinearMixin",
    "learners.base.classifiers": "PairsClassifierMixin QuadrupletsClassifierMixin "
    "TripletsClassifierMixin",
    "learners.base.learner": "BaseMetricLearner MahalanobisMixin MetricTransformer",
    "learners.gerrymandering.fixed_database": "FixedDatabase",
    "predictors.classifiers": "KNeighborsClassifier",
    "predictors.multi_metric": "MultiMetricLMNN",
    "predictors.nearest": "NearestNeighbors",
    "predictors.regressors": "KNeighborsRegressor",
    "predictors.soft": "NCAClassifier NCARegressor",
}
LEARNERS = {name: f"learners.{file}" for file, names in _LEARNERS.items() for name in names.split()}
MODULE_OF = LEARNERS | {name: module for module, names in _OTHERS.items() for name in names.split()}
# Python reports a deadlock if one thread imports a package while another imports a submodule.
_LOADING = RLock()


def load_public(module: str, name: str | None = None) -> Any:
    """Return a module of this package, or the name in it."""
    with _LOADING:
        found = importlib.import_module(f"metricfast.{module}")
        return found if name is None else getattr(found, name)
