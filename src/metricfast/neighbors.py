"""Learned distances between points and the neighbours they make: the functional interface."""

from __future__ import annotations

from metricfast.distances.neighbors import (
    kneighbors,
    kneighbors_per_class,
    paired_distances,
    pairwise_distances,
)

__all__ = ["kneighbors", "kneighbors_per_class", "paired_distances", "pairwise_distances"]
