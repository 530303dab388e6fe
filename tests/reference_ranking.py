"""Slow, obvious retrieval metrics: one query at a time."""

from __future__ import annotations

import numpy as np
from scipy.stats import spearmanr

OF_NUMBERS = ("ndcg_at_k", "mean_label_distance_at_k", "spearman")


def of_hits(name: str, hits: list[bool], relevant: int, k: int) -> float:
    """Return a class metric of one query; `hits`: whether each rank holds its class."""
    precision = [sum(hits[: i + 1]) / (i + 1) for i in range(len(hits))]
    if name == "precision_at_1":
        return float(hits[0])
    if name == "r_precision":
        return sum(hits[:relevant]) / relevant
    if name == "map_at_r":
        return sum(p for p, hit in zip(precision[:relevant], hits, strict=False) if hit) / relevant
    if name == "mean_average_precision":
        return sum(p for p, hit in zip(precision, hits, strict=True) if hit) / relevant
    if name == "mean_reciprocal_rank":
        return 1 / (hits.index(True) + 1)
    if name == "recall_at_k":
        return float(any(hits[:k]))
    raise ValueError(f"no definition of {name}")


def of_label_distances(name: str, found: list[float], distances: list[float], k: int) -> float:
    """Return a metric of continuous labels for one query, from label distances by rank."""
    if name == "mean_label_distance_at_k":
        return float(np.mean(found[:k]))
    if name == "spearman":
        return float(spearmanr(distances, found).statistic)
    gains = [1 / (1 + d) for d in found]
    ideal = [1 / (1 + d) for d in sorted(found)]
    discount = [1 / np.log2(rank + 1) for rank in range(1, len(gains[:k]) + 1)]
    return float(np.dot(gains[:k], discount) / np.dot(ideal[:k], discount))


def by_definition(name, queries, labels, database, database_labels, exclude, k):
    """Return the metric of each query; NaN without a reference of its class."""
    values = []
    for query, label, out in zip(queries, labels, exclude, strict=True):
        squared = [
            float(sum((a - b) ** 2 for a, b in zip(query, x, strict=True))) for x in database
        ]
        order = sorted((d, j) for j, d in enumerate(squared) if j != out)
        if name not in OF_NUMBERS:
            hits = [bool(database_labels[j] == label) for _, j in order]
            values.append(of_hits(name, hits, sum(hits), k) if any(hits) else np.nan)
        else:
            found = [abs(float(database_labels[j] - label)) for _, j in order]
            values.append(of_label_distances(name, found, [d for d, _ in order], k))
    return np.array(values)
