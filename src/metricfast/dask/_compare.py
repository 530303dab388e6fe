"""Compare learners on workers: each fold of each learner is a task."""

from __future__ import annotations

from typing import Any

from dask import is_dask_collection
from sklearn.base import clone

import metricfast
from metricfast.comparison.result import Comparison
from metricfast.comparison.schedule import Folds
from metricfast.comparison.trial import Scoring, Trial, try_learner
from metricfast.dask._rows import AlignedRows
from metricfast.dask._workers import Shared, Workers, threads_here


def compare(X: Any, y: Any, *, client: Any = None, **options: Any) -> Comparison:
    """Compare learners; workers fit several folds at the same time.

    Each worker is sent all points once, and a fold of a learner is a task of its own. The result
    equals the table of :func:`metricfast.compare`, but for the seconds, and for learners of several
    starts: without workers, the first folds choose the starts of later ones.

    Parameters
    ----------
    X, y : dask collections, or as for :func:`metricfast.compare`
        The client and every worker hold all points.
    client : distributed.Client, optional
    **options
        As in :func:`metricfast.compare`. With `time_limit` no learner is begun when time is over,
        and none is stopped. Dask says how many threads a task has, `n_jobs` only of the last fit,
        which is in the process of the client.

    Returns
    -------
    Comparison

    Raises
    ------
    TypeError, ValueError
        As :func:`metricfast.compare`; if there is no client, or only one of X and y is of dask.
    """
    workers = Workers(client)
    if is_dask_collection(X) or is_dask_collection(y):
        X, y = AlignedRows(workers, X, y=y).joined()
    shared: list[Shared] = []

    def on_workers(scoring: Scoring, predictor: Any, X: Any, y: Any, folds: Folds) -> list[Trial]:
        if not shared:
            shared.append(Shared((X, y)))
        how = {"scoring": scoring, "predictor": predictor}
        found: list[Trial] = workers.run(_tried, folds, *shared, **how)
        return found

    return metricfast.compare(X, y, **options, _try_folds=on_workers)


def _tried(
    fold: Any, points: tuple[Any, Any], scoring: Scoring, predictor: Any, threads: int
) -> Trial:
    """Try a learner on a fold; runs as a task."""
    n_jobs = threads_here(threads)
    names = [name for name in predictor.get_params() if name.rpartition("__")[2] == "n_jobs"]
    own = clone(predictor).set_params(**dict.fromkeys(names, n_jobs))
    return try_learner(scoring, own, *points, fold)
