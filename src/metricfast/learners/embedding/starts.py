"""Initial parameters for the training of an embedding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from metricfast._core.points import stacked
from metricfast._core.scaling import differ
from metricfast._core.scatter import MANY_FEATURES
from metricfast._core.types import Array, RandomState
from metricfast._core.wide_map import to_array
from metricfast.embeddings import MLP, Asymmetric, Embedding, Linear
from metricfast.embeddings._asymmetric import sides_of, with_length
from metricfast.embeddings._correlated import correlated_maps
from metricfast.embeddings._mlp import linear_rows, linear_start
from metricfast.training.adapters import initial_parameters
from metricfast.training.samples import Samples
from metricfast.training.starts import (
    GIVEN_START,
    LINEAR,
    STANDARDIZED,
    STARTS,
    WHITENED,
    deviations,
)

# Two maps, of queries and database, whose features are correlated.
CORRELATED = "correlated"


def alternatives(embedding: Embedding, samples: Samples) -> list[str]:
    """Return the names of alternatives to the embedding's own start."""
    if not (samples.has_classes and _is_open(embedding)):
        return []
    widths = samples.X.shape[1], samples.points.X.shape[1]
    both = isinstance(embedding, Asymmetric) and samples.database is not None
    alike = widths[0] == widths[1]
    linear = alike and any(isinstance(side, MLP) for side in sides_of(embedding))
    few = alike and widths[0] <= MANY_FEATURES
    whole = few and samples.outer is None and _rows(sides_of(embedding)[0]) in (None, widths[0])
    scaled = whole and differ(deviations(samples))
    return [LINEAR] * linear + [STANDARDIZED] * scaled + [WHITENED] * few + [CORRELATED] * both


def given_of(embedding: Embedding, samples: Samples) -> str | None:
    """Return the start that changes distances least, or None for the embedding's default."""
    alike = samples.X.shape[1] == samples.points.X.shape[1]
    return GIVEN_START if alike and _is_open(embedding) else None


def start_at(
    name: str | None, embedding: Embedding, said: Any, samples: Samples, rng: RandomState
) -> tuple[Embedding, list[Array]]:
    """Return an embedding and its initial parameters for a named start.

    `said`: the user's embedding, which may leave `normalize` open.
    """
    if name is None:
        return embedding, _own_start(embedding, samples, rng)
    sides, width = [samples, samples.points], samples.X.shape[1]
    n_rows = _rows(sides_of(embedding)[0]) or width
    if name == CORRELATED:
        points = [(each.X, each.labels) for each in sides]
        ridge = 0.1  # times the mean variance
        return embedding, _holding(embedding, correlated_maps(points, n_rows, ridge, rng), rng)
    if name == GIVEN_START:
        embedding = with_length(said, False)
    sample = samples.points
    if name == WHITENED and samples.database is not None:
        sample = samples
        if isinstance(embedding, Asymmetric):
            labels = np.concatenate([each.labels for each in sides])
            sample = replace(samples, X=stacked([each.X for each in sides]), labels=labels)
    L = np.asarray(to_array(STARTS[name](sample, n_rows)), samples.X.dtype)
    return embedding, _holding(embedding, [L] * len(sides_of(embedding)), rng)


def _holding(embedding: Embedding, maps: list[Array], rng: RandomState) -> list[Array]:
    """Return the parameters of an embedding by a linear map of each side."""
    found: list[Array] = []
    for side, L in zip(sides_of(embedding), maps, strict=True):
        found += linear_start(side, L, rng) if isinstance(side, MLP) else [L.copy()]
    return found


def _own_start(embedding: Embedding, samples: Samples, rng: RandomState) -> list[Array]:
    """Return the embedding's own initial parameters."""
    sample = samples.representative
    points, database = sample, list[Any]()
    if samples.database is not None and not embedding.asymmetric:
        points = samples.database
    elif samples.database is not None:
        database = [samples.database.X, samples.database.class_codes]
    elif type(embedding) is Linear:  # "pca" reads all points in blocks
        points = samples
    return initial_parameters(embedding, points.X, points.class_codes, rng, *database)


def _is_open(embedding: Embedding) -> bool:
    """Return whether an embedding can start from any linear map and names none."""
    rows = {_rows(side) for side in sides_of(embedding)}
    return len(rows) == 1 and 0 not in rows


def _rows(side: Embedding) -> int | None:
    """Return the rows of linear maps that a side can start from; None for all features."""
    if type(side) is Linear and isinstance(side.init, str) and side.init == "auto":
        return side.n_components
    return linear_rows(side) if type(side) is MLP else 0
