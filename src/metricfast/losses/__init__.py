"""Losses on embedded points: value and gradient, computed row by row in compiled code.

A loss is called on embedded queries and database points (by default the same points, each left
out of its own row by index) and returns its value and gradient::

    loss(Z, y, Z_database=None, y_database=None, *, sample_weight=None, exclude=None, n_jobs=None)
        -> (value, grad)                       # Z_database is None: both roles of a point added
        -> (value, (grad_queries, grad_database))

All n x m distances are visited; none of the n x m matrices is ever held, except by CoSENT, which
sorts all pairs, and where label distances are given or come from a function.

Losses of classes also take tags, of which a point may have several: a sparse matrix of zeros and
ones, or booleans of shape (n, n_tags), as y, and as y_database. Two points are then of one class
where they share a tag (``loss.takes_tags``). ``metricfast.tags_of`` makes tags of a function that
says which labels are related.

``loss.on(y)`` checks labels once and returns a function of points, which training calls many times.
``loss.labels`` is "class" where y must hold classes, ``loss.learnable_database`` means that the
database is a table of parameters, ``loss.of_inner_products`` that points are compared by these and
not by distances, and after a call ``loss.counts_`` holds the numbers of active terms. Losses never
normalise: that is the embedding's part.
"""

from __future__ import annotations

from metricfast.losses._all_pairs import LDML, MCML, MLKR, NCA
from metricfast.losses._compiled import Compiled
from metricfast.losses._continuous import BoundedRatio, LogRatio, RankNContrast, Ratio
from metricfast.losses._cosent import CoSENT
from metricfast.losses._gerrymander import Gerrymander
from metricfast.losses._lmnn import LMNN
from metricfast.losses._margins import Contrastive, GeneralizedLifted, Triplet
from metricfast.losses._proxy import ProxyAnchor, ProxyNCA
from metricfast.losses._similarities import (
    Circle,
    MultiSimilarity,
    NTXent,
    RecallAtK,
    SmoothAP,
    SupCon,
)

__all__ = [
    "LDML",
    "LMNN",
    "MCML",
    "MLKR",
    "NCA",
    "BoundedRatio",
    "Circle",
    "CoSENT",
    "Compiled",
    "Contrastive",
    "GeneralizedLifted",
    "Gerrymander",
    "LogRatio",
    "MultiSimilarity",
    "NTXent",
    "ProxyAnchor",
    "ProxyNCA",
    "RankNContrast",
    "Ratio",
    "RecallAtK",
    "SmoothAP",
    "SupCon",
    "Triplet",
]
