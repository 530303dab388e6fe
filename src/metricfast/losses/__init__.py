"""Losses on embedded points: value and gradient, computed row by row in compiled code.

A loss is called on embedded queries and database points (by default the same points, each left
out of its own row by index) and returns its value and gradient::

    loss(Z, y, Z_database=None, y_database=None, *, sample_weight=None, exclude=None, n_jobs=None)
        -> (value, grad)                       # Z_database is None: both roles of a point added
        -> (value, (grad_queries, grad_database))

A loss computes all n x m distances and holds no n x m matrix. Exceptions are CoSENT, which sorts
all pairs, and label distances that are given or come from a function.

Losses of classes also take tags, several classes per point: a sparse matrix of zeros and ones, or
booleans of shape (n, n_tags), as y and as y_database. Two points that share a tag then count as
points of one class. ``loss.takes_tags`` shows whether a loss takes them.
``metricfast.tags_of`` makes tags of a function that says which labels are related.

``loss.on(y)`` checks labels once and returns a function of points, which training calls many times.
Losses never normalise. Learners do, for losses `of_unit_length`, unless the embedding says
``normalize=False``.

========================== ===================================================
attribute                  meaning
========================== ===================================================
``labels``                 "class" or "continuous": the labels that y holds
``takes_tags``             y may hold tags
``learnable_database``     the database is a table of parameters, the proxies
``of_inner_products``      points are compared by inner products, not distances
``of_unit_length``         a learner normalises the points by default
``counts_``                after a call, the numbers of active terms
========================== ===================================================
"""

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
