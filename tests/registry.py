"""Every public learner: its input, parameters of a quick fit, and expected failures of checks.

Add an entry for each new learner; the common tests run for all entries.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from trained import configured

import metricfast as mf
from metricfast import losses
from metricfast.constraints import Constraints
from metricfast.selection import Judge

CLASSES, VALUES, CHUNKS, POINTS = "classes", "values", "chunks", "points"
SCORED = "pairs with scores"
TUPLES = {"pairs": 2, "triplets": 3, "quadruplets": 4}
ANCHORS = "weights are those of anchors: a repeated point is its own nearest neighbour"
DRAWN = "weights count points of the constraints, which are drawn regardless of them"
CHANCES = "weights are chances of points to be drawn"
KERNEL = "weights have no effect on the map of the kernel"
NAMED = "the second argument is called `chunks`"


def unequal(reason: str) -> dict[str, str]:
    """Return the checks that fail if a weight of 2 does not equal a repeated point."""
    check = "check_sample_weight_equivalence_on_{}_data"
    return {check.format(kind): reason for kind in ("dense", "sparse")}


@dataclass(frozen=True)
class Entry:
    """The input of a learner, its required parameters, and parameters of a quick fit.

    `fails` lists the checks of scikit-learn that fail, with reasons.
    """

    takes: str
    quick: dict[str, Any] = field(default_factory=dict)
    needs: dict[str, Any] = field(default_factory=dict)
    fails: dict[str, str] = field(default_factory=dict)


_STEPS = {"max_epochs": 3}
_ALL_STEPS = _STEPS | {"judge": None}
_BRIEF = _STEPS | {"max_iter": 20}
_TO_THE_END = _BRIEF | {"judge": None}
_BASES = {"n_basis": 60, "max_iter": 500, "output_iter": 100}
REGISTRY = {
    "AdapterLearner": Entry(SCORED),
    "ANMM": Entry(CLASSES, {"n_components": 2, "shrinkage": 0}),
    "AsymmetricSimilarity": Entry(CLASSES, _BRIEF, fails=unequal(ANCHORS)),
    "AutoLearner": Entry(
        CLASSES, {"learners": [mf.LFDA(), mf.NCA(max_iter=5)], "judge": Judge("verification")}
    ),
    "Covariance": Entry(POINTS),
    "DMLMJ": Entry(CLASSES, fails=unequal(ANCHORS)),
    "EmbeddingLearner": Entry(CLASSES, _ALL_STEPS, {"loss": losses.NCA()}),
    "GMML": Entry("pairs"),
    "GMML_Supervised": Entry(CLASSES, {"reg": 1e-3}),
    "ITML": Entry("pairs"),
    "ITML_Supervised": Entry(CLASSES, fails=unequal(CHANCES)),
    "KISSME": Entry("pairs"),
    "KISSME_Supervised": Entry(CLASSES),
    "KernelizedMetricLearner": Entry(
        CLASSES, {"n_components": 20}, {"learner": mf.DMLMJ()}, unequal(KERNEL)
    ),
    "LDML": Entry(CLASSES, _TO_THE_END),
    "LFDA": Entry(CLASSES),
    "LMNN": Entry(CLASSES, _TO_THE_END, fails=unequal(ANCHORS)),
    "LSML": Entry("quadruplets"),
    "LSML_Supervised": Entry(CLASSES, fails=unequal(CHANCES)),
    "LogRatioLearner": Entry(VALUES, _ALL_STEPS),
    "MCML": Entry(CLASSES, _TO_THE_END),
    "MLKR": Entry(VALUES, _STEPS | {"max_iter": 10, "judge": None}),
    "MMC": Entry("pairs", {"max_iter": 20}),
    "MMC_Supervised": Entry(CLASSES, {"max_iter": 20}, fails=unequal(CHANCES)),
    "NCA": Entry(CLASSES, _TO_THE_END),
    "NCMML": Entry(CLASSES, {"tol": 1e-3, "judge": None}),
    "NeighborhoodGerrymandering": Entry(CLASSES, _TO_THE_END, fails=unequal(ANCHORS)),
    "NeighborhoodGerrymanderingRegressor": Entry(VALUES, _BRIEF, fails=unequal(ANCHORS)),
    "OASIS": Entry("triplets"),
    "OASIS_Supervised": Entry(CLASSES),
    "ProxyNCALearner": Entry(CLASSES, _ALL_STEPS),
    "RCA": Entry(CHUNKS, fails=unequal(NAMED) | {"check_fit_score_takes_y": NAMED}),
    "RCA_Supervised": Entry(CLASSES, {"n_chunks": 30}, fails=unequal(DRAWN)),
    "SCML": Entry("triplets", _BASES),
    "SCML_Supervised": Entry(CLASSES, _BASES, fails=unequal(ANCHORS)),
    "SDML": Entry("pairs", {"balance_param": 1e-3}),
    "SDML_Supervised": Entry(CLASSES, {"shrinkage": 0}, fails=unequal(CHANCES)),
    "TripletLearner": Entry(CLASSES, _ALL_STEPS),
    "XQDA": Entry(CLASSES),
}


def learners(*takes: str) -> list[type]:
    """Return the learners with one of these inputs; by default all."""
    return [getattr(mf, n) for n, entry in REGISTRY.items() if not takes or entry.takes in takes]


def of_points() -> list[type]:
    return learners(CLASSES, VALUES, CHUNKS, POINTS)


def of_tuples() -> list[type]:
    return learners(*TUPLES)


def entry_of(learner: Any) -> Entry:
    """Return the entry of a learner, or of an estimator."""
    return REGISTRY[learner.__name__ if isinstance(learner, type) else type(learner).__name__]


def make(learner: type, *, quick: bool = True, **params: Any) -> Any:
    """Return an estimator with a fixed seed, its required parameters, and the given ones."""
    entry = entry_of(learner)
    model = configured(learner(**entry.needs), **(entry.quick if quick else {}) | params)
    seeded = "random_state" not in params and "random_state" in model.get_params(deep=False)
    return model.set_params(random_state=0) if seeded else model


def index_tuples(size: int, labels: np.ndarray, n: int = 80) -> list[np.ndarray]:
    """Return about 2n tuples of points, as indices, and for pairs whether they are similar."""
    constraints, order = Constraints(labels), np.random.RandomState(0)
    if size == 3:
        near = np.random.RandomState(0).rand(len(labels), 2)
        index = constraints.generate_knntriplets(near, 2, 2)
        return [index[order.permutation(len(index))[: 2 * n]]]
    a, b, c, d = constraints.positive_negative_pairs(n, random_state=0)
    if size == 4:
        return [np.c_[a, b, c, d]]
    rows = order.permutation(2 * n)
    return [np.r_[np.c_[a, b], np.c_[c, d]][rows], np.repeat([1, -1], n)[rows]]


def data_for(learner: Any, points: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the arguments of `fit`, from points and their classes."""
    takes = entry_of(learner).takes
    if takes == SCORED:  # depends only on the first feature
        pairs = points[np.random.RandomState(0).randint(len(points), size=(300, 2))]
        return pairs, pairs[:, 0, 0] * pairs[:, 1, 0]
    if takes in TUPLES:
        index, *rest = index_tuples(TUPLES[takes], labels)
        return (points[index], *rest)
    return (points,) if takes == POINTS else (points, labels)
