"""Cases: exact searches by cosine and by inner product."""

from __future__ import annotations

__all__ = ["METRICS", "Similar", "similar", "similarities"]

from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np

from benchmarks.case import OURS, Arrays, Case, Entry, Level
from benchmarks.search import (
    CORES,
    EXACT,
    FEW,
    MANY,
    ROUNDED,
    checked_rows,
    disagreements,
    memory,
    seconds_at_least,
)
from benchmarks.targets import Speedup, TimesAtMost

Metric = Literal["cosine", "inner_product"]
METRICS: tuple[Metric, ...] = get_args(Metric)
EUCLIDEAN = f"{OURS} L2"
K = 10


@dataclass
class Similar:
    """A search by a similarity among synthetic points, and the least speedup over faiss."""

    metric: Metric
    points: int
    width: int
    queries: int
    faster: float
    when: Level = "normal"

    @property
    def name(self) -> str:
        """Return a unique name."""
        kind = self.metric.replace("_", "-")
        return f"search-{kind}-{self.points}x{self.width}-{self.queries}"


def _made(search: Similar) -> Arrays:
    """Return Gaussian directions; lengths are log-normal, so the longest are 3 times the usual."""
    rng = np.random.default_rng(0)
    shapes = {"queries": search.queries, "database": search.points}
    return {
        name: (
            rng.standard_normal((rows, search.width), np.float32)
            * rng.lognormal(sigma=0.3, size=(rows, 1)).astype(np.float32)
        )
        for name, rows in shapes.items()
    }


def _lengths(points: np.ndarray) -> np.ndarray:
    """Return the lengths of points in double precision, by rows of a moderate number."""
    blocks = np.array_split(points, max(1, points.size // 10**7))
    return np.concatenate([np.linalg.norm(block.astype(np.float64), axis=1) for block in blocks])


def _check(metric: Metric, arrays: Arrays, digests: dict[str, Arrays]) -> dict[str, str]:
    """Check our neighbours of some queries in float64, and that all of a peer's are as similar.

    Peers compute products in float32, with errors that grow with the lengths of the points.
    """
    found = {label: digest["indices"] for label, digest in digests.items() if label != EUCLIDEAN}
    if OURS not in found:
        return {}
    queries, database = arrays["queries"], arrays["database"]
    lengths = _lengths(database)
    scale = 1 / lengths if metric == "cosine" else np.ones(len(database))
    unit = _lengths(queries) * (1 if metric == "cosine" else lengths.max())

    def similarities(rows: np.ndarray, those: np.ndarray) -> np.ndarray:
        """Return sorted similarities of queries to given points, divided by the largest length."""
        products = np.einsum(
            "qd,qkd->qk", queries[rows].astype(np.float64), database[those].astype(np.float64)
        )
        return np.sort(products * scale[those] / unit[rows, None], axis=1)

    some = checked_rows(arrays)
    wrong = dict.fromkeys(found, 0.0)
    wide = database.astype(np.float64)
    for row in some:
        best = np.argsort(-(wide @ queries[row].astype(np.float64)) * scale, kind="stable")[:K]
        pair = (similarities(np.array([row]), each[None]) for each in (found[OURS][row], best))
        wrong[OURS] += float((np.abs(np.subtract(*pair)) > EXACT).any() / len(some))
    for label in found.keys() - {OURS}:
        rows = np.flatnonzero((found[label] != found[OURS]).any(axis=1))
        for part in np.array_split(rows, len(rows) // 1000 + 1):
            theirs, ours = (similarities(part, found[each][part]) for each in (label, OURS))
            wrong[label] += float(
                (np.abs(theirs - ours) > ROUNDED).any(axis=1).sum() / len(queries)
            )
    return disagreements(wrong)


def _entries(search: Similar) -> list[Entry]:
    few, many = search.queries <= FEW, search.queries * search.points > MANY
    threads = () if few else CORES
    params = {"k": K, "metric": search.metric}
    entries = [
        Entry(OURS, OURS, "metricfast.search", params, threads=CORES),
        Entry(EUCLIDEAN, OURS, "metricfast.search", {"k": K}, threads=CORES),
        Entry("faiss", "faiss", "faiss.similar", params, threads=threads, rounds=100 if few else 3),
        Entry(
            "usearch", "usearch", "usearch.neighbors", params, threads=threads,
            when="full" if many else "normal", rounds=100 if few else 1,
        ),
    ]  # fmt: skip
    if search.metric == "cosine":  # scikit-learn has no search by inner products
        entries.append(
            Entry("scikit-learn", "scikit-learn", "sklearn.neighbors", params, threads=threads,
                  rounds=100 if few else 1)
        )  # fmt: skip
    return entries


def similar(search: Similar) -> Case:
    """Return the case of a search by cosine or inner product, with the bound of other searches."""
    size = {"points": search.points, "width": search.width, "queries": search.queries}
    return Case(
        search.name,
        f"{K} nearest of {search.points} by {search.metric.replace('_', ' ')}, "
        f"{search.queries} queries, d={search.width}, float32",
        partial(_made, search),
        _entries(search),
        partial(seconds_at_least, **size),
        [Speedup("faiss", search.faster), TimesAtMost(EUCLIDEAN, 1.15)],
        partial(_check, search.metric),
        memory,
        when=search.when,
    )


def similarities() -> list[Case]:
    """Return the cases of both metrics: one query, few and many, of 64 and of 768 coordinates."""
    return [
        similar(Similar(metric, points, width, queries, faster))
        for metric in METRICS
        for points, width in ((60_000, 64), (100_000, 768))
        for queries, faster in ((1, 3), (32, 2), (10_000, 4))  # 10,000: the bound is 5 to 7
    ]
