"""Base class of learners of an embedding: transform, search and score."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from metricfast._core.arguments import check_together
from metricfast._core.checks import check_points
from metricfast._core.frames import check_order
from metricfast._core.mahalanobis import as_vectors, finite_between
from metricfast._core.memory import working_memory
from metricfast._core.sources import in_one_array
from metricfast._core.targets import check_class_labels, check_comparable, labels_of_samples
from metricfast._core.types import Array, Integers
from metricfast._core.wide_map import FittedMap
from metricfast._labels.binding import is_precomputed
from metricfast._labels.distance import LabelDistance
from metricfast._labels.tags import are_tags
from metricfast.distances.neighbors import kneighbors, paired_distances
from metricfast.embeddings import Embedding
from metricfast.embeddings._base import check_side
from metricfast.learners.base.inputs import points_of
from metricfast.learners.base.learner import BaseMetricLearner, MetricTransformer, embed_points
from metricfast.metrics import mean_label_distance_at_k, precision_at_1
from metricfast.training.embedded import EMBEDDED, embed

# Number of neighbours for scores of continuous labels.
SCORE_NEIGHBORS = 10


class EmbeddedDistance:
    """The distance of two embedded points, as a function ``f(u, v, squared=False)``.

    Holds copies of the parameters and of both sides' means.
    """

    def __init__(
        self, embedding: Embedding, parameters: list[Any], means: tuple[Array, Array]
    ) -> None:
        self._embedding = embedding
        self._parameters = [array.astype(np.float64, order="C") for array in parameters]
        self._means = [np.array(mean, np.float64) for mean in means]

    def __call__(self, u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
        """Return the distance of query u to database point v, both of shape (n_features,)."""
        points = as_vectors(u, v, *map(len, self._means))
        ends = [
            embed(self._embedding, self._parameters, (point - mean)[None], side)[0]
            for point, mean, side in zip(points, self._means, ("query", "database"), strict=True)
        ]
        distance = finite_between(float(np.sum((ends[0] - ends[1]) ** 2)), *points)
        return distance if squared else float(np.sqrt(distance))


class EmbeddedMetricMixin(MetricTransformer, BaseMetricLearner):
    """Base class of learners of an embedding, which set the attributes below in `fit`.

    `mean_` is subtracted from points before they are embedded; it is zero after sparse points.
    After a `fit` with a database, `mean_` is the database's mean, and queries have `mean_query_`.
    """

    _fitted = "_parameters"
    _sparse_formats = ("csr",)
    _said_label_distance: Any = None  # the chosen distance of continuous labels, if any

    _bind_labels: Callable[..., tuple[LabelDistance, Array, Array]]  # only for continuous labels
    embedding_: Embedding
    mean_: Array
    feature_names_database_in_: Array
    n_components_: int
    n_jobs: int | None

    parameters_ = FittedMap()

    @property
    def _parameters(self) -> list[Any]:
        """The parameters of the embedding, of which a map may be a `WideMap`."""
        found: list[Any] = EmbeddedMetricMixin.parameters_.stored(self)
        return found

    def _embed(self, X: Any, side: str = "query") -> Array:
        """Embed checked points of one side."""
        return embed_points(X, lambda block: self._forward(block, side))

    def _forward(self, X: Any, side: str) -> Array:
        parameters = [array.astype(X.dtype, copy=False) for array in self._parameters]
        mean = self._mean(side).astype(X.dtype, copy=False)
        layers = sum(array.shape[0] for array in parameters if array.ndim == 2)
        row_bytes = 4 * X.dtype.itemsize * (X.shape[1] + layers)
        most = max(64, working_memory() // row_bytes)
        if issparse(X) and mean.any():  # centring would make them dense
            most = min(most, EMBEDDED)

        def of_block(block: Any) -> Array:
            if not issparse(block):
                block = np.ascontiguousarray(block - mean)
            elif mean.any():
                block = block.toarray() - mean
            return embed(self.embedding_, parameters, block, side, self.n_jobs)

        return in_one_array(X, of_block, most)

    def _mean(self, side: str) -> Array:
        """Return the mean that is subtracted from points of a side."""
        return getattr(self, "mean_query_", self.mean_) if side == "query" else self.mean_

    def transform(self, X: Any, side: str | None = None) -> Array:
        """Embed points.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples,)
            Points, or indicators for the preprocessor.
        side : {"query", "database"}, optional
            The map to use, if there are two. Required if `fit` had a database, or pairs of a query
            and a point of the database. By default "query".

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            float32 for float32 points, otherwise float64.

        Raises
        ------
        ValueError
            If X or `side` is not as above, or X so large that embedded points overflow.
        """
        check_is_fitted(self, self._fitted)
        side = self._side(side)
        return self._embed(self._side_points(X, side), side)

    def _side_points(self, X: Any, side: str) -> Any:
        """Check points of one side. Errors mention it if their width fits the other side."""
        try:
            return points_of(self, X) if side == "query" else self._database_points(X, "X")
        except ValueError as error:
            widths = {"query": self.n_features_in_, "database": len(self.mean_)}
            other = "database" if side == "query" else "query"
            if widths["query"] == widths["database"] or np.shape(X)[1:] != (widths[other],):
                raise
            raise ValueError(
                f"{error} X is used as points of the {side} side; points of the {other} side have "
                f"{widths[other]} features."
            ) from error

    def _side(self, side: str | None) -> str:
        """Return the side; None means the query side unless sides differ."""
        if side is not None:
            check_side(side)
        elif self.embedding_.asymmetric and self._has_database:
            raise ValueError(
                "side must be 'query' or 'database': fit had two sides, each with a map of its own."
            )
        return side or "query"

    @property
    def _has_database(self) -> bool:
        """True if `fit` had other points as the database than the queries."""
        return hasattr(self, "mean_query_")

    def _database_points(
        self, X: Any, name: str = "X_database", reset: bool = False, **how: Any
    ) -> Any:
        """Check points of the database, which may have other features than queries.

        With `reset`, in `fit`, set `feature_names_database_in_` if they have names.
        """
        seen = copy.copy(self)
        if not reset:
            check_is_fitted(self, self._fitted)
            how = {"accept_sparse": self._sparse_formats, "accept_sources": True, **how}
        if not reset and self.embedding_.asymmetric and self._has_database:
            seen.n_features_in_ = len(self.mean_)
            if hasattr(seen, "feature_names_in_"):
                del seen.feature_names_in_
            if hasattr(self, "feature_names_database_in_"):
                seen.feature_names_in_ = self.feature_names_database_in_
        found = check_points(
            seen, X, preprocessor=self.preprocessor_, reset=reset, name=name, **how
        )
        if reset and hasattr(seen, "feature_names_in_"):
            self.feature_names_database_in_ = seen.feature_names_in_
            check_order(
                list(getattr(self, "feature_names_in_", ())), list(seen.feature_names_in_),
                ("X", name),
            )  # fmt: skip
        return found

    def _indexed_score(self, points: Array, pairs: Integers) -> Array:
        if self.n_features_in_ != len(self.mean_):
            raise ValueError(
                f"pairs must hold points of one kind, and queries have {self.n_features_in_} "
                f"features, database points {len(self.mean_)}: use kneighbors, or "
                "metricfast.paired_distances of transform(X, 'query') and transform(X_database, "
                "'database')."
            )
        Z = self._embed(points)
        database = self._embed(points, "database") if self.embedding_.asymmetric else None
        return -paired_distances(Z, database, pairs=pairs, n_jobs=self.n_jobs)

    def get_metric(self) -> EmbeddedDistance:
        """Return the learned distance as a function ``f(u, v, squared=False)`` of two points.

        Later fits do not change it. For many distances, it is far faster to transform the points
        first.
        """
        check_is_fitted(self, self._fitted)
        return EmbeddedDistance(
            self.embedding_, self._parameters, (self._mean("query"), self._mean("database"))
        )

    def kneighbors(
        self, X: Any, X_database: Any = None, n_neighbors: int = 5
    ) -> tuple[Array, Integers]:
        """Return the nearest database points of each query, by the learned distance.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
        X_database : {array-like, sparse matrix} of shape (n_database, n_features), optional
            By default the queries themselves, each excluded from its own neighbours. Points have
            the features of the database of `fit`, if it had one.
        n_neighbors : int, default=5

        Returns
        -------
        distances, indices : ndarray of shape (n_queries, n_neighbors)
            Nearest first.
        """
        queries, database, exclude = self._both_sides(X, X_database)
        return kneighbors(queries, database, n_neighbors, exclude=exclude, n_jobs=self.n_jobs)

    def score(
        self, X: Any, y: ArrayLike, X_database: Any = None, y_database: ArrayLike | None = None
    ) -> float:
        """Score how well points retrieve points with their label.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
        y : array-like of shape (n_queries,) or (n_queries, n_labels), or sequence of objects
            Labels, or tags as `fit` takes them; or their distances, (n_queries, n_database), where
            these are precomputed.
        X_database, y_database : array-like, optional
            Points to retrieve, and their labels, unless distances are precomputed; by default the
            queries themselves, each excluded from its own neighbours.

        Returns
        -------
        float
            For classes, `metricfast.metrics.precision_at_1`: the share of queries whose nearest
            point is of their class, among queries that have a point of their class to find. For
            continuous labels, the negative `metricfast.metrics.mean_label_distance_at_k` of the 10
            nearest points, by the label distance that was chosen (Euclidean where none was).
            Greater is better.

        Raises
        ------
        ValueError
            If labels and points differ in number, labels of classes are none (None, NaN or numbers
            with fractions) or text on one side alone, there is a single point and no database, or
            no query has a point of its class to find.
        """
        if not is_precomputed(self._said_label_distance):
            check_together(X_database=X_database, y_database=y_database)
        queries, database, exclude = self._both_sides(X, X_database)
        if X_database is None and len(queries) < 2:
            raise ValueError(
                "X must hold at least 2 points, which are searched for among each other: found 1. "
                "Give more, or X_database and y_database."
            )
        if not self._has_classes:
            sizes = len(queries), len(database)
            distance, *both = self._bind_labels(y, y_database, sizes)
            return self._retrieval_score(
                queries, both[0], database, both[1], exclude, label_distance=distance
            )
        if are_tags(y) or are_tags(y_database):
            tags: Any = y
            others: Any = y if y_database is None else y_database
            return self._retrieval_score(queries, tags, database, others, exclude)
        labels = of_database = labels_of_samples(y, len(queries), "y")
        if y_database is not None:
            of_database = labels_of_samples(y_database, len(database), "y_database")
        for name, given in (("y", labels), ("y_database", of_database)):
            check_class_labels(given, name)
            check_comparable(given, labels, name)
        return self._retrieval_score(queries, labels, database, of_database, exclude)

    def _retrieval_score(
        self,
        queries: Array,
        y: Array,
        database: Array,
        y_database: Array,
        exclude: Integers | None = None,
        label_distance: LabelDistance | None = None,
    ) -> float:
        """Score embedded points, by classes or by label distances."""
        if self._has_classes:
            return precision_at_1(
                queries, y, database, y_database, exclude=exclude, n_jobs=self.n_jobs
            )
        k = min(SCORE_NEIGHBORS, len(database) - (exclude is not None))
        return -mean_label_distance_at_k(
            queries,
            y,
            database,
            y_database,
            k=k,
            exclude=exclude,
            label_distance=label_distance,
            n_jobs=self.n_jobs,
        )

    def _both_sides(self, X: Any, X_database: Any) -> tuple[Array, Array, Integers | None]:
        X = self._side_points(X, "query")
        queries = self._embed(X)
        if X_database is not None:
            return queries, self._embed(self._database_points(X_database), "database"), None
        if self.n_features_in_ != len(self.mean_):
            raise ValueError(
                f"X_database must be given: queries have {self.n_features_in_} features, and "
                f"database points have {len(self.mean_)}."
            )
        database = self._embed(X, "database") if self.embedding_.asymmetric else queries
        return queries, database, np.arange(len(queries))

    @property
    def _n_features_out(self) -> int:
        return self.n_components_
