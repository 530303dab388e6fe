"""A learner that is trained on the workers of a cluster."""

from __future__ import annotations

import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from dask import array as da
from dask import delayed
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from metricfast._core.arguments import check_choice, check_count
from metricfast._core.memory import in_caller_memory
from metricfast.dask._fits import fit_of
from metricfast.dask._rows import AlignedRows, blocks_of
from metricfast.dask._search import kneighbors, retrieval_report
from metricfast.dask._workers import Workers
from metricfast.learners.embedding.metric import SCORE_NEIGHBORS
from metricfast.metrics import RetrievalReport
from metricfast.metrics._selection import label_distance_of


@dataclass(eq=False, repr=False)
class DistributedLearner(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A learner whose training runs on the workers of a Dask cluster.

    The result is the same, bit for bit, for any number of workers and threads, if the processors
    are of one kind: work is divided into `n_parts` parts, and their results are summed in order.

    Parameters
    ----------
    learner : learner
        A clone of it is trained. `sync` matters to learners that are trained iteration by
        iteration: `NCA`, `LMNN`, `MLKR`, `MCML`, `LDML`, `NCMML`, `EmbeddingLearner` and its
        presets, `NeighborhoodGerrymandering` and so on. For other learners the result is the same
        as without Dask, within rounding:

        - `Covariance`, `RCA`, `GMML_Supervised`, and `GMML` and `SDML` of pairs: workers sum over
          partitions, and the client holds the sums alone.
        - `LFDA`: classes are divided.
        - `ANMM`, `DMLMJ`: each worker searches neighbours of a part of the points. The client and
          every worker hold all points.
        - other learners of classes, such as `SDML_Supervised`: the client draws rows by their
          labels and fetches these rows.
    client : distributed.Client, optional
        By default the one that was made last.
    sync : {"gradients", "epochs"}, default="gradients"
        "gradients": each evaluation of the objective, of all points or of a mini-batch, is divided
        into parts of its anchors, whose values and gradients are summed. The result equals the
        result of the learner itself, within rounding. The client and every worker hold all points.

        "epochs", for mini-batches (``solver="adam"``, `EmbeddingLearner`): row i belongs to shard i
        modulo `n_parts`. In every epoch each shard trains by itself, from the same parameters. The
        next epoch begins with the average of their parameters. The client holds no points. The
        result differs from the result of the learner itself.
    n_parts : int, optional
        Number of parts, groups or shards. Set it to at least the number of threads of all workers.
        By default 16. For gradients, one for each 2500 anchors, from 8 to 256.

    Attributes
    ----------
    client_ : distributed.Client
        The client that is used.
    learner_ : learner
        The fitted learner.

    Notes
    -----
    A round trip to the workers takes about 20 ms, so small batches train faster without Dask. Use
    large batches, or "epochs".

    A checkpoint of the learner works as it does without workers, on the machine of the client. If
    the client is killed, another one continues. If a worker is lost, others do its work. With no
    worker for 30 seconds, `fit` raises RuntimeError. "epochs" takes neither a checkpoint nor
    `early_stopping`, which need all points.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from metricfast import NCA
    >>> from metricfast.dask import DistributedLearner
    >>> from sklearn.datasets import load_iris
    >>> X, y = (da.from_array(values, chunks=50) for values in load_iris(return_X_y=True))
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     nca = DistributedLearner(NCA(n_components=2, tol=1e-2)).fit(X, y)
    ...     nca.transform(X)[:3].compute().shape
    (3, 2)
    >>> nca.to_local()
    NCA(n_components=2, tol=0.01)
    """

    learner: Any
    client: Any = None
    _: KW_ONLY
    sync: str = "gradients"
    n_parts: int | None = None

    @property
    def client_(self) -> Any:
        """The client in use: the given one, or the most recently created one."""
        return Workers(self.client).client

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **params: Any) -> Any:
        """Train.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)
            Chunks may be of any size, unknown or zero. For learners of pairs, these, a dask array.
        y : dask array or series of shape (n_samples,)
        sample_weight : dask array or series of shape (n_samples,), optional
            Where the learner takes weights.
        **params
            Further arguments for `fit` of the learner, such as ``validate=True``; with "gradients".

        Returns
        -------
        self

        Raises
        ------
        TypeError
            If a collection is not of dask, or the learner or the client has an unsupported type.
        ValueError
            As for the learner; if the loss is no sum over anchors; if the learner of "epochs" is
            not trained on mini-batches; or there is no client.
        RuntimeError
            If the client has lost its scheduler, or has no worker for 30 seconds.
        distributed.KilledWorker
            If several workers died of the same part, as they do for want of memory.
        """
        check_choice("sync", self.sync, ("gradients", "epochs"))
        n_parts = None if self.n_parts is None else check_count("n_parts", self.n_parts)
        workers, learner = Workers(self.client), clone(self.learner)
        if y is None and getattr(learner, "_requires_y", False):
            raise ValueError(f"{type(learner).__name__} needs y, a dask array or series.")
        fit = fit_of(learner, self.sync, list(params))
        rows = AlignedRows(workers, X, y=y, sample_weight=sample_weight)
        self.learner_ = fit(learner, rows, n_parts, **params)
        return self

    def transform(self, X: Any, side: str | None = None) -> Any:
        """Embed points, when they are computed.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)
        side : {"query", "database"}, optional
            See the learner, if it has two maps.

        Returns
        -------
        dask array of shape (n_samples, n_components)
            With the chunks of X that are not empty; of unknown sizes for a data frame.
        """
        check_is_fitted(self, "learner_")
        how = {} if side is None else {"side": side}
        learner = self._of_one_thread()
        blocks = blocks_of("X", X)
        sizes = X.chunks[0] if isinstance(X, da.Array) else (np.nan,) * len(blocks)
        single = getattr(X, "dtype", None) == np.float32
        dtype = np.dtype(np.float32 if single else np.float64)
        width, shared = len(learner.get_feature_names_out()), delayed(learner)
        embed = delayed(in_caller_memory(_embedded))
        return da.concatenate(
            [
                da.from_delayed(embed(block, shared, width, dtype, how), (size, width), dtype)
                for block, size in zip(blocks, sizes, strict=True)
            ],
            allow_unknown_chunksizes=True,
        )

    def kneighbors(
        self, X: Any, X_database: Any = None, n_neighbors: int = 5, *, compute: bool = False
    ) -> tuple[Any, Any]:
        """The nearest database points of each query, by the learned distance.

        Parameters
        ----------
        X : dask array or data frame of shape (n_queries, n_features)
        X_database : dask array or data frame of shape (n_database, n_features), optional
            By default the queries themselves, each excluded from its own neighbours.
        n_neighbors : int, default=5
        compute : bool, default=False
            Search now, and return arrays.

        Returns
        -------
        distances, indices : dask arrays of shape (n_queries, n_neighbors), or ndarrays
            Nearest first; see :func:`metricfast.dask.kneighbors`.
        """
        client = self.client if compute else None
        sides = self._both_sides(X, X_database)
        return kneighbors(*sides, n_neighbors, compute=compute, client=client)

    def retrieval_report(
        self, X: Any, y: Any, X_database: Any = None, y_database: Any = None, **options: Any
    ) -> RetrievalReport:
        """Score the ranking of embedded database points for embedded queries.

        Parameters
        ----------
        X, X_database : dask array or data frame
        y, y_database : dask array or series
        **options
            As for :func:`metricfast.dask.retrieval_report`.

        Returns
        -------
        RetrievalReport
        """
        queries, database = self._both_sides(X, X_database)
        options["label_distance"] = label_distance_of(self.learner_, options.get("label_distance"))
        options.setdefault("client", self.client)
        return retrieval_report(queries, y, database, y_database, **options)

    def score(self, X: Any, y: Any, X_database: Any = None, y_database: Any = None) -> float:
        """Score how well points retrieve points with their label.

        Parameters
        ----------
        X, y, X_database, y_database : dask collections
            As for `retrieval_report`.

        Returns
        -------
        float
            Precision at 1 for classes, the negative mean label distance of the 10 nearest points
            for numbers. Greater is better.
        """
        check_is_fitted(self, "learner_")
        classes = self.learner_._has_classes
        name = "precision_at_1" if classes else "mean_label_distance_at_k"
        report = self.retrieval_report(
            X, y, X_database, y_database, metrics=name, k=SCORE_NEIGHBORS, baselines=False
        )
        (score,) = report.values()
        return score.mean if classes else -score.mean

    def to_local(self) -> Any:
        """Return a copy of the fitted learner, independent of Dask."""
        check_is_fitted(self, "learner_")
        return copy.deepcopy(self.learner_)

    def _both_sides(self, X: Any, X_database: Any) -> tuple[Any, Any]:
        check_is_fitted(self, "learner_")
        two = bool(getattr(getattr(self.learner_, "embedding_", None), "asymmetric", False))
        if X_database is None and not two:
            return self.transform(X), None
        if X_database is None:
            raise ValueError("X_database must be given: the learner has two maps.")
        sides = ("query", "database") if two else (None, None)
        return self.transform(X, sides[0]), self.transform(X_database, sides[1])

    def _of_one_thread(self) -> Any:
        """Return a learner with n_jobs=1, for workers that run one task per thread."""
        learner = copy.copy(self.learner_)
        learner.__dict__.pop("_training", None)
        if hasattr(learner, "n_jobs"):
            learner.n_jobs = 1
        return learner

    def __sklearn_clone__(self) -> DistributedLearner:
        """Return an unfitted clone with the same client."""
        return type(self)(clone(self.learner), self.client, sync=self.sync, n_parts=self.n_parts)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the client, which belongs to this process."""
        return {**super().__getstate__(), "client": None}


def _embedded(
    block: Any, learner: Any, width: int, dtype: np.dtype[Any], how: dict[str, Any]
) -> Any:
    if not block.shape[0]:
        return np.empty((0, width), dtype)
    return np.asarray(learner.transform(block, **how), dtype)
