"""Retrieval metrics: how well the order of distances agrees with labels.

All functions of points (embedded, or with a map that embeds them) search the database in blocks,
and never store an n x m matrix. :func:`retrieval_report` computes several metrics at once, with the
values of random and of perfect rankings. :func:`cross_validate_retrieval` scores a learner on
labels that it has not seen.
:func:`relevance_report` takes a matrix of the points that are relevant to each query,
:func:`pair_report` similarities of pairs with scores, and :func:`verification_report` distances of
similar and dissimilar pairs. :func:`identification_report` searches for people, some of whom are
not in the database.
"""

from metricfast.metrics._cross_validate import (
    CrossValidation,
    cross_validate_retrieval,
    label_disjoint_folds,
)
from metricfast.metrics._pairs import (
    PairReport,
    VerificationReport,
    identification_report,
    pair_report,
    verification_report,
)
from metricfast.metrics._relevance import relevance_report
from metricfast.metrics._report import retrieval_report
from metricfast.metrics._score import RetrievalReport, Score
from metricfast.metrics._single import (
    cmc_at_k,
    map_at_r,
    mean_average_precision,
    mean_label_distance_at_k,
    mean_reciprocal_rank,
    ndcg_at_k,
    precision_at_1,
    r_precision,
    recall_at_k,
    retrieval_scorer,
    spearman,
)

__all__ = [
    "CrossValidation",
    "PairReport",
    "RetrievalReport",
    "Score",
    "VerificationReport",
    "cmc_at_k",
    "cross_validate_retrieval",
    "identification_report",
    "label_disjoint_folds",
    "map_at_r",
    "mean_average_precision",
    "mean_label_distance_at_k",
    "mean_reciprocal_rank",
    "ndcg_at_k",
    "pair_report",
    "precision_at_1",
    "r_precision",
    "recall_at_k",
    "relevance_report",
    "retrieval_report",
    "retrieval_scorer",
    "spearman",
    "verification_report",
]
