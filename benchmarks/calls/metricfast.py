"""This library."""

from __future__ import annotations

import inspect

__all__ = [
    "clients",
    "dense_triplets",
    "fit",
    "fit_file",
    "fit_tuples",
    "inference",
    "kernelized",
    "log_ratio_fit",
    "loss",
    "map_at_r",
    "mlp_step",
    "neighbors",
    "pair_distance",
    "pairwise",
    "search",
    "search_file",
    "search_some",
    "soft_votes",
    "stream",
    "tabular_step",
    "train",
    "vote_epoch",
]

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from typing import Any

import numpy as np
import sklearn

import metricfast
from benchmarks.calls import (
    MARGIN,
    Call,
    Data,
    distances_of_pairs,
    fitting,
    fitting_tuples,
    found,
    found_in_steps,
    moved,
    on_disk,
    sampled,
    valued,
)
from metricfast.predictors.soft_votes import SoftVotes


def pairwise(data: Data, threads: int, given: bool = False) -> Call:
    """Time all pairs of distances through L, into a new array or into a given one."""
    x, y, linear = data["X"], data["Y"], data["L"]
    out = np.zeros((len(x), len(y)), x.dtype) if given else None
    return Call(
        lambda: metricfast.pairwise_distances(x, y, L=linear, out=out, n_jobs=threads), sampled
    )


def neighbors(data: Data, threads: int, k: int) -> Call:
    """Time the k nearest neighbours."""
    queries, database = data["queries"], data["database"]
    return Call(lambda: metricfast.kneighbors(queries, database, k, n_jobs=threads), found)


def search(
    data: Data,
    threads: int,
    k: int,
    precision: str = "auto",
    dtype: str | None = None,
    **metric: str,
) -> Call:
    """Time the search of a database, excluding its construction if the revision has `Database`."""
    queries, database = (
        data[name].astype(dtype or data[name].dtype, copy=False) for name in ("queries", "database")
    )
    linear = data.get("L")
    if not hasattr(metricfast, "Database"):
        return Call(
            lambda: metricfast.kneighbors(queries, database, k, L=linear, n_jobs=threads), found
        )
    prepared = metricfast.Database(
        database, L=linear, precision=precision, n_jobs=threads, **metric
    )
    return Call(
        lambda: prepared.kneighbors(queries, k, n_jobs=threads),
        lambda result: found(result) | {"bytes": np.asarray(prepared.nbytes_)},
    )


def search_some(data: Data, threads: int, k: int, alone: bool = False) -> Call:
    """Time a search of a mask's points: with a filter, or in a database of only these points."""
    queries, mask = data["queries"], data["mask"]
    if alone:
        rows = np.flatnonzero(mask)
        prepared = metricfast.Database(data["database"][rows], n_jobs=threads)
        return Call(
            lambda: prepared.kneighbors(queries, k, n_jobs=threads),
            lambda result: found((result[0], rows[result[1]])),
        )
    database = metricfast.Database(data["database"], n_jobs=threads)
    for _ in range(200):  # earlier queries with the same mask
        database.kneighbors(queries[:1], k, where=mask, n_jobs=threads)
    return Call(lambda: database.kneighbors(queries, k, where=mask, n_jobs=threads), found)


def stream(data: Data, threads: int, k: int) -> Call:
    """Time steps: add a query, remove the oldest point, search for the query."""
    prepared, oldest = metricfast.Database(data["database"], n_jobs=threads), count()

    def step(query: np.ndarray) -> Any:
        prepared.add(query, n_jobs=threads)
        prepared.remove([next(oldest)], n_jobs=threads)
        return prepared.kneighbors(query, k, n_jobs=threads)

    return Call(lambda: [step(query[None]) for query in data["queries"]], found_in_steps)


def clients(data: Data, threads: int, k: int, clients: int) -> Call:
    """Time `clients` threads of the caller. Each searches one query at a time on one thread."""
    prepared = metricfast.Database(data["database"], n_jobs=1)

    def ask(queries: np.ndarray) -> list[Any]:
        return [prepared.kneighbors(query[None], k, n_jobs=1) for query in queries]

    def run() -> Any:
        shares = np.array_split(data["queries"], clients)
        with ThreadPoolExecutor(clients) as pool:
            answers = [answer for share in pool.map(ask, shares) for answer in share]
        return tuple(map(np.concatenate, zip(*answers, strict=True)))

    return Call(run, found)


def set_working_memory(memory: int) -> None:
    """Set the size of blocks in MiB, also for revisions with another setting."""
    sklearn.set_config(working_memory=memory)
    if hasattr(metricfast, "set_config"):
        metricfast.set_config(memory_limit=memory << 20)


def search_file(data: Data, threads: int, k: int, memory: int) -> Call:
    """Time a search of points on disk."""
    set_working_memory(memory)

    def run() -> Any:
        points = np.load(on_disk(data), mmap_mode="r")
        return metricfast.kneighbors(data["queries"], points, k, n_jobs=threads)

    return Call(run, found)


def made(name: str, **params: Any) -> Any:
    """Return a learner of the installed revision.

    `max_epochs` is the number of epochs and `max_iter` the number of iterations, wherever the
    revision has these parameters.
    """
    kind, epochs = getattr(metricfast, name), params.get("max_epochs")
    takes_solvers = "max_epochs" not in inspect.signature(kind).parameters
    if epochs is not None and takes_solvers:
        del params["max_epochs"]
        params["solver"] = metricfast.solvers.Adam(max_epochs=epochs)
    elif params.get("solver") == "adam" and name in ("NCA", "LMNN"):
        params["solver"] = "adam" if takes_solvers else "sgd"
    elif "max_iter" in params and "max_iter" not in inspect.signature(kind).parameters:
        params["solver"] = metricfast.solvers.LBFGS(params.pop("max_iter"), 1e-4, 1)
    return kind(**params)


def fit_file(
    data: Data, threads: int, learner: str, memory: int, labels: bool = False, **params: Any
) -> Call:
    """Time `fit` to points on disk."""
    set_working_memory(memory)
    fitted = made(learner, **params)
    if "n_jobs" in fitted.get_params():
        fitted.set_params(n_jobs=threads)

    def run() -> Any:
        points = np.load(on_disk(data), mmap_mode="r")
        return fitted.fit(points, data["y"]) if labels else fitted.fit(points)

    return Call(run, lambda result: {"components": result.components_})


def map_at_r(data: Data, threads: int) -> Call:
    """Time MAP@R of points among themselves."""
    return Call(
        lambda: [metricfast.metrics.map_at_r(data["X"], data["y"], n_jobs=threads)],
        lambda result: {"value": np.asarray(result[0])},
    )


def inference(data: Data, threads: int, k: int) -> Call:
    """Time targeted and loss-augmented inference in a single search."""
    queries, database = data["queries"], data["database"]

    def run() -> Any:
        return metricfast.inference.both(
            queries, database, data["y"], data["y_database"], k, n_jobs=threads
        )

    return Call(run, lambda result: {"values": result[1].values - result[0].values})


def vote_epoch(data: Data, threads: int, k: int, batch_size: int) -> Call:
    """Time the second epoch of gerrymandering; the environment sets the number of threads."""

    def run() -> float:
        ends: list[float] = []
        metricfast.NeighborhoodGerrymandering(
            k, init="identity", random_state=0, judge=None,
            solver=metricfast.solvers.Adam(batch_size=batch_size, max_epochs=2),
            callbacks=[lambda state: ends.append(time.perf_counter())],
        ).fit(data["X"], data["y"])  # fmt: skip
        return ends[1] - ends[0]

    return Call(run)


def soft_votes(data: Data, threads: int) -> Call:
    """Time the means of all database values, weighted by a softmax of negative distances."""
    votes = SoftVotes(data["database"])
    return Call(
        lambda: votes.means(data["values"], data["queries"], n_jobs=threads),
        lambda means: {"means": means},
    )


def loss(data: Data, threads: int, name: str, rows: int | None = None, **params: Any) -> Call:
    """Time value and gradient of a loss on the first rows (by default all)."""
    function = getattr(metricfast.losses, name)(**params)
    z, y = data["Z"][:rows], data["Y" if "Y" in data else "y"][:rows]
    database = [data[key] for key in ("Z_database", "y_database") if key in data]
    return Call(lambda: function(z, y, *database, n_jobs=threads), valued)


def fit(
    data: Data, threads: int, learner: str, target: str = "y", as_known: bool = False, **params: Any
) -> Call:
    """Time a learner, optionally configured like its counterpart in another library."""
    fitted = made(learner, **params)
    return fitting(_as_known(fitted) if as_known else fitted, data, target)


def _as_known(learner: Any) -> Any:
    """Make a learner start from the given map, and train until convergence."""
    known = learner.get_params()  # some revisions have fewer parameters
    plain = {"init_scale": None, "judge": None, "target_refresh": 0}
    return learner.set_params(**{name: value for name, value in plain.items() if name in known})


def train(data: Data, threads: int, loss: str, hidden: int | None = None, **params: Any) -> Call:
    """Time an embedding learner, linear to 16 dimensions or with a layer of `hidden` units."""
    layers = () if hidden is None else (hidden,)
    embedding = metricfast.embeddings.MLP(layers, 16, normalize=False)
    function = getattr(metricfast.losses, loss)()
    return fitting(_as_known(metricfast.EmbeddingLearner(function, embedding, **params)), data)


def kernelized(data: Data, threads: int, learner: str, **params: Any) -> Call:
    """Time a learner after a kernel."""
    inner = _as_known(getattr(metricfast, learner)())
    return fitting(metricfast.KernelizedMetricLearner(inner, **params), data)


def fit_tuples(data: Data, threads: int, learner: str, **params: Any) -> Call:
    """Time a learner on tuples."""
    return fitting_tuples(getattr(metricfast, learner)(random_state=0, **params), data)


def pair_distance(data: Data, threads: int) -> Call:
    """Time the distances of pairs."""
    return distances_of_pairs(metricfast.Covariance(), data)


def dense_triplets(data: Data, threads: int, k: int = 5) -> Call:
    """Time the preparation of the sampler; the digest is its result."""
    sampler = metricfast.samplers.DenseTriplet(n_neighbors=k, batch_size=k + 1)

    def digest(epoch: Any) -> Data:
        batches = [batch.rows for batch in islice(epoch(np.random.RandomState(0)), 50)]
        return {
            "anchors": np.array([rows[0] for rows in batches]),
            "neighbors": np.array([rows[1:] for rows in batches]),
        }

    return Call(lambda: sampler.prepare(data["Y"], n_jobs=threads), digest)


def mlp_step(data: Data, threads: int, rate: float = 1.0) -> Call:
    """Time one step of a perceptron on a batch; the digest is the change divided by the rate."""
    start = [data[name] for name in ("W0", "b0", "W1", "b1")]
    model = metricfast.embeddings.MLP((len(data["W0"]),), len(data["W1"]))
    loss = metricfast.losses.Contrastive(neg_margin=MARGIN)

    def run() -> Any:
        parameters = [array.copy() for array in start]
        z, cache = model.forward(parameters, data["X"], n_jobs=threads)
        value, gradient = loss(z, data["y"], n_jobs=threads)
        steps = model.backward(parameters, cache, gradient, n_jobs=threads)
        for array, step in zip(parameters, steps, strict=True):
            np.subtract(array, np.float32(rate) * step, out=array)
        return value, parameters

    return Call(run, lambda result: moved(result, start, rate))


def tabular_step(data: Data, threads: int, n_anchors: int) -> Call:
    """Time one step of `EmbeddingLearner` on a batch of anchors and candidates."""
    parameters = [data[name] for name in ("c", "A", "a", "L")]
    shapes = len(data["L"]), data["c"].shape[1], len(data["A"])
    embedding = metricfast.embeddings.Periodic(*shapes)
    loss = metricfast.losses.NCA("log", "mean", squared=False).on(data["y"], n_jobs=threads)
    step = metricfast.solvers.AdamW().step

    def run() -> Any:
        z, cache = embedding.forward(parameters, data["X"][data["rows"]], n_jobs=threads)
        value, upstream = loss(z, data["rows"], slice(0, n_anchors))
        gradients = embedding.backward(parameters, cache, upstream, n_jobs=threads)
        x, gradient = (
            np.concatenate([a.ravel() for a in arrays]) for arrays in (parameters, gradients)
        )
        step(x, gradient, [np.zeros_like(x), np.zeros_like(x)], 0.01, 2e-4, 1)
        return value, gradient

    return Call(run, lambda result: {"value": np.asarray(result[0]), "gradient": result[1]})


def log_ratio_fit(data: Data, threads: int, n_anchors: int) -> Call:
    """Time ten epochs of the log-ratio learner."""
    learner = metricfast.LogRatioLearner(16, n_anchors=n_anchors, max_epochs=10, random_state=0)
    return Call(lambda: learner.fit(data["X"], data["Y"]))
