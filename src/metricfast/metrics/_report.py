"""The retrieval report: search for every query in a database, and score the rankings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arguments import check_verbose, takes_side
from metricfast._core.arrays import as_both, as_common_codes, as_exclude, as_threads
from metricfast._core.sources import on_disk
from metricfast._core.types import Array, Integers
from metricfast._core.warn import SECONDS, warn_if_long, warn_user
from metricfast._labels.binding import bind_labels, is_precomputed
from metricfast._labels.tags import are_tags, both_tags, n_shared, share_tag
from metricfast.distances.filters import Filter, LabelFilter, as_filter, known_rows
from metricfast.distances.neighbors import SearchMetric, check_metric
from metricfast.metrics._classes import CLASS_METRICS
from metricfast.metrics._continuous import CONTINUOUS_METRICS, LabelDistances
from metricfast.metrics._ranking import RankingSearch
from metricfast.metrics._score import RetrievalReport, Score, check_confidence, score_of
from metricfast.metrics._selection import (
    METRICS,
    Wanted,
    chosen_metrics,
    label_distance_of,
    scores_of,
    unwrapped,
)
from metricfast.metrics._shots import SHOT_METRICS, single_shots

_COUNTED = 16
# A metric, its k, and output arrays for values, chance levels and oracle values.
_Asked = list[tuple[Any, int, Array, Array, Array]]


def retrieval_report(
    queries: ArrayLike,
    labels: ArrayLike,
    database: ArrayLike | None = None,
    database_labels: ArrayLike | None = None,
    *,
    metrics: str | Sequence[str] | None = None,
    k: int | Sequence[int] = 10,
    metric: SearchMetric = "euclidean",
    L: ArrayLike | None = None,
    U: ArrayLike | None = None,
    V: ArrayLike | None = None,
    exclude: ArrayLike | None = None,
    where: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    groups: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    label_distance: Any = None,
    confidence: float = 0.95,
    baselines: bool = True,
    n_jobs: int | None = None,
    verbose: bool | int = False,
) -> RetrievalReport:
    """Score the ranking of a database for each query, with chance level and best order.

    References are ordered by (distance, index), as :func:`metricfast.kneighbors` has it; ties are
    not averaged.

    Parameters
    ----------
    queries : array-like or source of shape (n, d)
        Points, embedded or to be embedded by `L`, or `U` and `V`; in memory or not.
    labels : array-like of shape (n,) or (n, q), or sequence of n objects
        Classes; or tags, of which a point may have several: a sparse matrix of zeros and ones, or
        booleans of shape (n, n_tags), where references that share a tag with the query count as
        its class; or for the metrics of continuous labels numbers, vectors of
        numbers, or whatever `label_distance` takes. Integers of shape (n, n_tags) are vectors, also
        if they are zeros and ones: give tags as ``labels.astype(bool)``.
    database : array-like or source of shape (m, d), optional
        By default the queries themselves, each excluded from its own results by index.
    database_labels : array-like of shape (m,) or (m, q)
        Given if, and only if, `database` is; see `label_distance`.
    metrics : str or sequence of str, optional
        Names of metrics. The function of the same name, such as :func:`map_at_r`, defines each.

        For classes: "precision_at_1", "r_precision", "map_at_r", "mean_average_precision",
        "mean_reciprocal_rank", "recall_at_k" and "cmc_at_k". For continuous labels: "ndcg_at_k",
        "mean_label_distance_at_k" and "spearman". By default all metrics that fit the labels, but
        "cmc_at_k". Labels are continuous if they are vectors or not all integers, or if
        `label_distance` is given. Otherwise they are classes.
    k : int or sequence of int, default=10
        The k of all metrics "at k". Several k give a score each, named by its k: "recall_at_1",
        "recall_at_5".
    metric : {"euclidean", "cosine", "inner_product"}, default="euclidean"
        The distance that orders references, as for :func:`metricfast.kneighbors`.
    L, U, V : array-like of shape (p, d), optional
        Maps, as for :func:`metricfast.pairwise_distances`.
    exclude : array-like of int of shape (n,), optional
        For each query a database index to leave out, -1 for none.
    where : array-like or tuple, optional
        The references that queries may find, as for :func:`metricfast.kneighbors`. A tuple (labels
        of queries, labels of the database), for instance of cameras, leaves out the references
        with the label of the query; after "equal", all others.
    groups : array-like of shape (n,) or tuple of two, optional
        The group of each query, such as the camera, or a tuple (groups of queries, groups of the
        database). References of the class and the group of the query are left out. Labels must be
        classes. `where` may be a mask or ids in addition, which leaves out junk images.
    label_distance : str, tuple or callable, optional
        Distance of continuous labels, as in :class:`metricfast.losses.LogRatio`; by default
        "euclidean". With "precomputed", `labels` holds the distances themselves, of shape (n, m),
        and there are no `database_labels`.
    confidence : float, default=0.95
        Confidence level of the intervals.
    baselines : bool, default=True
        Compute chance and oracle, which takes longer than the values; else they are NaN.
    n_jobs : int, optional
        Threads; None for the default count, -1 for all CPUs.
    verbose : bool or int, default=False
        Show progress.

    Returns
    -------
    RetrievalReport
        A dictionary of :class:`Score` by metric, which is shown as a table; `to_frame` gives it to
        pandas. Queries without a reference of their class are left out of the class metrics, and
        queries whose label distances are all equal of "spearman"; `n_undefined` counts them.

    Raises
    ------
    ValueError
        If a metric is unknown, `k` exceeds the number of references, no query can be judged, an
        array is not as above, or labels are one-hot encoded classes.

    Warns
    -----
    UserWarning
        If the database holds the queries themselves and nothing is excluded: each finds itself.

    Notes
    -----
    Memory does not grow with ``n m``. Metrics "at k" search the k nearest references alone; the
    whole order that others need is sorted in blocks of queries.

    References
    ----------
    Musgrave, Belongie, Lim. A metric learning reality check. ECCV 2020 (MAP@R).
    Kim, Seo, Laptev, Cho, Kwak. Deep metric learning beyond binary supervision. CVPR 2019 (nDCG and
    mean label distance).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from metricfast.metrics import retrieval_report
    >>> X, y = load_iris(return_X_y=True)
    >>> report = retrieval_report(X, y, metrics=["precision_at_1", "map_at_r"])
    >>> score = report["map_at_r"]
    >>> score.chance < score.interval[0] < score.mean < score.oracle
    True
    """
    check_confidence(confidence)
    check_verbose(verbose)
    names = chosen_metrics(metrics, labels, None if label_distance is None else True)
    wanted = scores_of(names, k)
    found = metric_values(
        queries, labels, database, database_labels, wanted=wanted, metric=metric, L=L, U=U, V=V,
        exclude=exclude, where=where, groups=groups, label_distance=label_distance,
        baselines=baselines, n_jobs=n_jobs, verbose=verbose,
    )  # fmt: skip
    return scored(wanted, found, confidence)


def scored(wanted: Wanted, found: dict[str, Array], confidence: float) -> RetrievalReport:
    """Return the report."""
    return RetrievalReport(
        (key, _score(name, found[key], confidence)) for key, (name, _) in wanted.items()
    )


def metric_values(
    queries: ArrayLike,
    labels: ArrayLike,
    database: ArrayLike | None,
    database_labels: ArrayLike | None,
    *,
    wanted: Wanted,
    exclude: ArrayLike | None = None,
    where: Any = None,
    groups: Any = None,
    label_distance: Any = None,
    baselines: bool = True,
    n_jobs: int | None = None,
    verbose: bool | int = False,
    **maps: Any,
) -> dict[str, Array]:
    """Return values, chance and oracle of each query, NaN where a metric is not defined.

    `maps`: `metric` and the maps of a :class:`Database`.
    """
    check_metric(maps.get("metric", "euclidean"))
    points, references = as_both(queries, database, ("queries", "database"))
    given = is_precomputed(label_distance)
    if database is None and database_labels is None:
        references, database_labels = points, None if given else labels
        exclude = np.arange(len(points)) if exclude is None else exclude
    elif database is None or (database_labels is None) != given:
        raise ValueError("database and database_labels must be given together.")
    sizes = len(points), len(references)
    allowed = as_filter(where, sizes, known_rows(sizes[1]))
    if groups is not None:
        for name, _ in wanted.values():
            if name in CONTINUOUS_METRICS:
                raise ValueError(
                    f"groups is for labels that are classes, and {name} compares numbers: give "
                    "where=(groups of queries, groups of the database), which leaves out all "
                    "references of the query's group."
                )
        if not isinstance(groups, tuple):
            groups = groups, groups
        allowed = _without_group(allowed, groups, (labels, database_labels), sizes)
    most = max(each for _, each in wanted.values())
    search = RankingSearch(
        points, references, as_exclude(exclude, *sizes), allowed, most,
        {**maps, "n_jobs": n_jobs}, verbose,
    )  # fmt: skip
    _check_candidates(wanted, search)
    found = {key: np.full((3, len(points)), np.nan) for key in wanted}

    def asked(metrics: dict[str, Any]) -> _Asked:
        return [
            (metrics[name], each, *found[key])
            for key, (name, each) in wanted.items()
            if name in metrics
        ]

    if of_classes := asked(CLASS_METRICS):
        _judge_classes(search, of_classes, labels, database_labels, baselines)
    if shots := asked(SHOT_METRICS):
        _judge_shots(search, shots, labels, database_labels)
    if continuous := asked(CONTINUOUS_METRICS):
        _judge_continuous(search, continuous, labels, database_labels, label_distance, baselines)
    if exclude is None and search.where.argument is None and _among(search):
        warn_user(
            "database holds the queries themselves, and nothing is excluded: each query finds "
            "itself. Leave database out, or give exclude=np.arange(n), the row of each query."
        )
    return found


def report_of(estimator: Any, X: Any, labels: ArrayLike, **options: Any) -> RetrievalReport:
    """Embed points with a fitted transformer, search them among themselves, and report.

    Uses the label distance of the estimator.
    """
    options["label_distance"] = label_distance_of(estimator, options.get("label_distance"))
    queries, database = both_sides(estimator, X)
    if database is None:
        return retrieval_report(queries, labels, **options)
    own = np.arange(len(queries))
    references = None if is_precomputed(options["label_distance"]) else labels
    return retrieval_report(queries, labels, database, references, exclude=own, **options)


def both_sides(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Embed points with a fitted transformer; return queries, and a database or None.

    There is a database only if the transformer embeds the two sides differently. It may be the last
    step of a pipeline, or the best estimator of a search.
    """
    before, final = unwrapped(estimator)
    asymmetric = getattr(getattr(final, "embedding_", None), "asymmetric", False)
    if not (asymmetric and takes_side(final)):
        return estimator.transform(X), None
    for step in before:
        X = step.transform(X)
    return final.transform(X, side="query"), final.transform(X, side="database")


def _among(search: RankingSearch) -> bool:
    """Return whether the queries (or an even sample of 20) are rows of the database."""
    points, references, some = search.queries, search.database, search.sample
    return bool((references[search.nearest[some]] == points[some]).all())


def _check_candidates(wanted: Wanted, search: RankingSearch) -> None:
    candidates = search.n_candidates[search.n_candidates > 0]
    available = int(candidates.min(initial=len(search.database)))
    if not len(candidates):
        raise ValueError(
            "database must hold a reference besides the query: it holds only itself."
            if search.where.argument is None
            else "where must leave a reference to some query; it leaves none."
        )
    if search.k > available and any(name.endswith("_at_k") for name, _ in wanted.values()):
        raise ValueError(
            f"k must be at most {available}, the references that `where` and `exclude` leave to a "
            f"query; found {search.k}."
        )


def _warn_of_ranking(search: RankingSearch, how: str) -> None:
    """Warn if ranking all references takes minutes; ranks are counted, or references sorted."""
    n, m = len(search.queries), len(search.database)
    n_threads = as_threads(search.options["n_jobs"])
    work = f"Ranking all {m:,} references for each of {n:,} queries"
    faster = "some of the queries, or metrics of the k nearest references alone"
    warn_if_long(n * m * SECONDS[f"{how} reference"], work, faster, n_threads)


def _score(name: str, results: Array, confidence: float) -> Score:
    if np.isnan(results[0]).all():
        needs = (
            "all label distances of each query are equal"
            if name == "spearman"
            else "no query has a reference of its class that `where` and `exclude` leave to it; "
            "numbers that are not classes need the metrics of continuous labels"
        )
        raise ValueError(f"{name} is not defined: {needs}.")
    return score_of(results, confidence, METRICS[name].bounds, METRICS[name].binary)


def _judge_classes(
    search: RankingSearch, asked: _Asked, labels: Any, database_labels: Any, baselines: bool
) -> None:
    m = len(search.database)
    relevant, is_hit, classes = _relevance(search, labels, database_labels)
    places = {"one": 1, "k": search.k, "relevant": max(int(relevant.max()), 1), "all": m}
    depth = max(places[metric.depth] for metric, *_ in asked)
    # Counting takes as long as a search for this share of the references.
    is_deep = depth > m // _COUNTED
    counts = (
        is_deep and not on_disk(search.queries, search.database)
        and all(metric.of_ranks is not None for metric, *_ in asked)
    )  # fmt: skip
    if is_deep:
        _warn_of_ranking(search, "sorted" if classes is None or not counts else "counted")
    if counts and classes is not None:
        ranks = search.class_ranks(*classes)
        rows = np.flatnonzero(relevant > 0)
        found = ranks.of_queries(rows), relevant[rows]
        for metric, k, values, _, _ in asked:
            values[rows] = metric.of_ranks(*found, k)
    else:
        for block in search.blocks(depth, min(depth, m)):
            rows = block.rows[relevant[block.rows] > 0]
            hits = is_hit(rows, block.indices[relevant[block.rows] > 0])
            for metric, k, values, _, _ in asked if len(rows) else ():
                values[rows] = metric.value(hits, relevant[rows], k)
    rows = np.flatnonzero((relevant > 0) & (search.n_candidates > 0))
    if baselines and len(rows):
        sizes = relevant[rows], search.n_candidates[rows]
        for metric, k, _, chance, oracle in asked:
            chance[rows], oracle[rows] = metric.baselines(*sizes, k)


def _judge_shots(search: RankingSearch, asked: _Asked, labels: Any, database_labels: Any) -> None:
    names, sizes = ("labels", "database_labels"), (len(search.queries), len(search.database))
    _, codes, references = as_common_codes(labels, database_labels, names, sizes)
    most, n_classes = max(k for _, k, *_ in asked), int(max(codes.max(), references.max())) + 1
    n_hits = np.bincount(references, minlength=n_classes)[codes]
    _warn_of_ranking(search, "sorted")
    width = 2 * n_classes * (int(n_hits.max()) + 1)  # of the shares of classes, and their products
    for block in search.blocks(sizes[1], max(sizes[1], width)):
        rows, chances, several = single_shots(
            references[block.indices], codes[block.rows], most, n_classes
        )
        rows = block.rows[rows]
        for _, k, values, chance, oracle in asked:
            values[rows], oracle[rows] = chances[:, k - 1], 1
            chance[rows] = np.minimum(k, several) / several


def _without_group(
    allowed: Filter, groups: tuple[Any, ...], labels: tuple[Any, Any], sizes: tuple[int, int]
) -> Filter:
    """Return a filter that also excludes references with the query's class and group."""
    if allowed.labels is not None or len(groups) != 2:
        raise ValueError(
            "groups must be an array, or a tuple (groups of queries, groups of the database), and "
            "`where` a mask or ids; or give `where` alone, the labels of classes in groups."
        )
    _, *classes = as_common_codes(*labels, ("labels", "database_labels"), sizes)
    known, *own = as_common_codes(*groups, ("groups[0]", "groups[1]"), sizes)
    of_queries, of_references = (
        each * len(known) + group for each, group in zip(classes, own, strict=True)
    )
    return Filter(allowed.mask, LabelFilter(of_queries, of_references))


def _relevance(
    search: RankingSearch, labels: Any, database_labels: Any
) -> tuple[Integers, Callable[[Integers, Integers], Any], tuple[Integers, Integers] | None]:
    """Return the number of relevant references of each query, and a function that marks them.

    The function takes rows of queries and, for each, indices of references. The third result is the
    classes of queries and references, or None for tags.
    """
    classes = None
    sizes, names = (len(search.queries), len(search.database)), ("labels", "database_labels")
    if are_tags(labels) or are_tags(database_labels):
        tags, others = both_tags(labels, database_labels, names, sizes)
        mask, pair = search.where
        if mask is None or mask.ndim == 1:
            relevant = n_shared(tags, others if mask is None else others[mask])
        else:
            each = (n_shared(tags[[i]], others[row]) for i, row in enumerate(mask))
            relevant = np.concatenate(list(each))
        if pair is not None:
            for label in np.unique(pair.queries):
                same = np.flatnonzero(pair.queries == label)
                of_label = n_shared(tags[same], others[pair.points == label])
                relevant[same] = of_label if pair.equal else relevant[same] - of_label

        def is_hit(rows: Integers, indices: Integers) -> Any:
            return share_tag(tags[rows], others, indices)
    else:
        for name, given in zip(names, (labels, database_labels), strict=True):
            shape: tuple[int, ...] = getattr(given, "shape", ())
            if len(shape) == 2 and shape[1] > 1:
                raise ValueError(
                    f"{name} must hold one label per point, or tags; found shape {shape}. For "
                    f"tags, give booleans, {name}.astype(bool), or a sparse matrix."
                )
        _, codes, references = as_common_codes(labels, database_labels, names, sizes)
        relevant, classes = search.allowed(references, codes), (codes, references)

        def is_hit(rows: Integers, indices: Integers) -> Any:
            return references[indices] == codes[rows, None]

    if search.exclude is not None:
        rows = np.arange(sizes[0])
        relevant = relevant - (search.excludes & is_hit(rows, search.exclude[:, None])[:, 0])
    return relevant, is_hit, classes


def _judge_continuous(
    search: RankingSearch,
    asked: _Asked,
    labels: Any,
    database_labels: Any,
    label_distance: Any,
    baselines: bool,
) -> None:
    m = len(search.database)
    distance, own, references = bind_labels(
        "euclidean" if label_distance is None else label_distance,
        labels,
        database_labels,
        sizes=(len(search.queries), m),
        names=("labels", "database_labels"),
    )
    own, references = distance.encode(own), distance.encode(references)
    whole = any(metric.depth == "all" for metric, *_ in asked)
    if whole:
        _warn_of_ranking(search, "sorted")
    for block in search.blocks(m if whole else search.k, m):
        given = LabelDistances(block, own, references, distance, search.k)
        for metric, k, values, chance, oracle in asked:
            values[block.rows] = metric.value(given, k)
            if baselines:
                chance[block.rows] = metric.chance(given, k)
                oracle[block.rows] = metric.oracle(given, k)
