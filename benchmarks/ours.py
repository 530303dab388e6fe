"""Cases of this library only: every learner and every loss, with at most one second each."""

from __future__ import annotations

__all__ = ["LEARNERS", "ours"]

import os
from functools import partial
from typing import Any

import numpy as np

import metricfast
from benchmarks import data, objectives
from benchmarks.case import OURS, Arrays, Case, Entry, Level
from benchmarks.losses import PER_CLASS, TOLERANCE, WIDTH, batch

CORES = (os.cpu_count() or 1,)
# Compiled wraps a user's loss.
LOSSES = [name for name in metricfast.losses.__all__ if name != "Compiled"]
SIZES = (64, 256, 1024)
# The losses of quick runs: one for each code path of the engine.
QUICK = ("Contrastive", "LogRatio", "MultiSimilarity", "NCA", "ProxyNCA", "Triplet")

# Name of the case: (call, kind of data, parameters). If possible, solvers stop after a fixed number
# of steps, so that both revisions do the same work.
LEARNERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "AdapterLearner": ("fit_tuples", "pairs", {}),
    "ANMM": ("fit", "labels", {}),
    "AsymmetricSimilarity": ("fit", "labels", {"max_epochs": 2}),
    "AutoLearner": ("fit", "labels", {}),
    "Covariance": ("fit", "labels", {}),
    "DMLMJ": ("fit", "labels", {}),
    "EmbeddingLearner": ("train", "labels", {"loss": "NCA", "max_epochs": 3}),
    "EmbeddingLearner-mlp": ("train", "labels", {"loss": "SupCon", "hidden": 64, "max_epochs": 3}),
    "EmbeddingLearner-lbfgs": ("train", "labels", {"loss": "NCA", "solver": "lbfgs"}),
    "GMML": ("fit_tuples", "pairs", {}),
    "GMML_Supervised": ("fit", "labels", {}),
    "ITML": ("fit_tuples", "pairs", {"max_iter": 3, "tol": 1e-12}),
    "ITML_Supervised": ("fit", "labels", {"max_iter": 30, "tol": 1e-12}),
    "KISSME": ("fit_tuples", "pairs", {}),
    "KISSME_Supervised": ("fit", "labels", {}),
    "KernelizedMetricLearner": ("kernelized", "labels", {"learner": "LMNN", "n_components": 50}),
    "LDML": ("fit", "labels", {"max_iter": 10, "tol": 0.0}),
    "LFDA": ("fit", "labels", {}),
    "LMNN": ("fit", "labels", {"max_iter": 30, "convergence_tol": 1e-12}),
    "LMNN-adam": ("fit", "labels", {"solver": "adam", "max_epochs": 3}),
    "LSML": ("fit_tuples", "quadruplets", {"max_iter": 20}),
    "LSML_Supervised": ("fit", "labels", {"max_iter": 100}),
    "LogRatioLearner": ("fit", "values", {"max_epochs": 3}),
    "MCML": ("fit", "labels", {"max_iter": 10, "tol": 0.0}),
    "MLKR": ("fit", "values", {"max_iter": 20, "tol": 0.0}),
    "MMC": ("fit_tuples", "pairs", {"max_iter": 10}),
    "MMC_Supervised": ("fit", "labels", {"max_iter": 50}),
    "NCA": ("fit", "labels", {"max_iter": 20, "tol": 0.0}),
    "NCA-adam": ("fit", "labels", {"solver": "adam", "max_epochs": 3}),
    "NCMML": ("fit", "labels", {"max_iter": 50, "tol": 0.0}),
    "NeighborhoodGerrymandering": ("fit", "labels", {"max_epochs": 3}),
    "NeighborhoodGerrymandering-lbfgs": ("fit", "labels", {"solver": "lbfgs", "max_iter": 5}),
    "NeighborhoodGerrymanderingRegressor": ("fit", "values", {"max_epochs": 3}),
    "OASIS": ("fit_tuples", "triplets", {}),
    "OASIS_Supervised": ("fit", "labels", {}),
    "ProxyNCALearner": ("fit", "labels", {"max_epochs": 5}),
    "RCA": ("fit", "chunks", {}),
    "RCA_Supervised": ("fit", "labels", {}),
    "SCML": ("fit_tuples", "triplets", {"max_iter": 2000}),
    "SCML_Supervised": ("fit", "labels", {"max_iter": 2000}),
    "SDML": ("fit_tuples", "pairs", {}),
    "SDML_Supervised": ("fit", "labels", {}),
    "TripletLearner": ("fit", "labels", {"max_epochs": 3}),
    "XQDA": ("fit", "labels", {}),
}


def _points(kind: str, n: int = 2000) -> Arrays:
    """Return points, with labels or tuples for learners of this kind."""
    if kind in ("pairs", "triplets", "quadruplets"):
        return data.tuples(kind, n)
    arrays = data.chunks() if kind == "chunks" else data.synthetic(n)
    if kind == "values":
        arrays["values"] = arrays["X"][:, :3].sum(axis=1) + arrays["y"]
    return arrays


def _score(arrays: Arrays, digest: Arrays) -> dict[str, float]:
    """Return the error of a fit, the last value of its loss, and its number of iterations."""
    found = {name: float(digest[name]) for name in ("loss", "iterations") if name in digest}
    linear = digest.get("components")
    if linear is None or linear.ndim != 2 or len(linear) > linear.shape[1]:
        return found
    if "index_test" in arrays:
        held_out = arrays["index_test"], arrays.get("y_test")
        return {"error": objectives.tuple_error(linear, arrays["X"], *held_out), **found}
    if linear.shape[1] == arrays["X"].shape[1]:
        split = (arrays[name] for name in ("X", "y", "X_test", "y_test"))
        return {"error": objectives.test_error(linear, *split), **found}
    return found


def _learner(name: str) -> Case:
    call, kind, params = LEARNERS[name]
    learner = name.partition("-")[0]
    if call in ("fit", "fit_tuples"):
        params = {"learner": learner, **params}
    if call == "fit":
        params |= {"target": "y" if kind == "labels" else kind, "as_known": True}
    if call != "fit_tuples" and "random_state" in _parameters(learner):
        params = {"random_state": 0, **params}
    return Case(
        f"our-{name}",
        f"{name}, {kind}, d=32",
        partial(_points, kind),
        [Entry(OURS, OURS, f"metricfast.{call}", params, threads=CORES)],
        score=_score,
    )


def _parameters(learner: str) -> list[str]:
    return list(getattr(metricfast, learner)._get_param_names())


def _batch(loss: Any) -> Arrays:
    """Return the largest batch, with labels for the loss, and proxies if it takes them."""
    arrays = batch(max(SIZES), continuous=loss.labels == "continuous")
    if isinstance(loss, metricfast.losses.MLKR):  # targets, one for each point
        return {"Z": arrays["Z"], "y": arrays["Y"][:, 0]}
    if loss.learnable_database:
        arrays["Z_database"] = arrays["Z"][::PER_CLASS].copy()
        arrays["y_database"] = np.unique(arrays["y"])
    return arrays


def _agree(arrays: Arrays, digests: dict[str, Arrays]) -> dict[str, str]:
    """Compare values and gradients of the revisions, entry by entry."""
    complaints, first = {}, {}
    for label, digest in digests.items():
        size = label.partition(" @")[0]
        expected = first.setdefault(size, digest)
        for name, found in digest.items():
            error = np.linalg.norm(found - expected[name])
            if not error <= TOLERANCE * np.linalg.norm(expected[name]):
                complaints[label] = f"disagrees with {size}: another {name}"
    return complaints


def _loss(name: str) -> Case:
    when: Level = "quick" if name in QUICK else "normal"
    title = f"{name} loss and gradient of B x {WIDTH}, float32"
    arrays = partial(_batch, getattr(metricfast.losses, name)())
    params = {f"B = {rows}": {"name": name, "rows": rows} for rows in SIZES}
    entries = [Entry(b, OURS, "metricfast.loss", of, threads=CORES) for b, of in params.items()]
    return Case(f"our-loss-{name}", title, arrays, entries, check=_agree, when=when)


def ours() -> list[Case]:
    """Return the cases."""
    return [*map(_learner, LEARNERS), *map(_loss, LOSSES)]
