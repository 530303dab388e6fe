"""Cases: all pairs of distances, and exact nearest neighbours."""

from __future__ import annotations

__all__ = ["inference", "inference_epoch", "neighbors", "pairwise", "soft_votes"]

import os
from functools import partial

import numpy as np
from sklearn.decomposition import PCA

from benchmarks import data
from benchmarks.bounds import Rates
from benchmarks.calls import SAMPLE
from benchmarks.case import OURS, Arrays, Case, Entry, Target
from benchmarks.targets import MemoryAtMost, SecondsAtMost, Speedup, TimesAtMost

TOLERANCE = {"float32": 1e-4, "float64": 1e-12}
CHECKED_QUERIES = 100
CORES = os.cpu_count() or 1
GIBIBYTE = 2**30 / 1e6


def _normal(shapes: dict[str, tuple[int, int]], dtype: str) -> Arrays:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}


def _check_pairwise(dtype: str, arrays: Arrays, digests: dict[str, Arrays]) -> dict[str, str]:
    x, y = (arrays[name].astype(np.float64) @ arrays["L"].T for name in ("X", "Y"))
    rows, columns = (np.linspace(0, len(z) - 1, SAMPLE).astype(int) for z in (x, y))
    truth = np.sqrt(((x[rows][:, None] - y[columns][None]) ** 2).sum(-1))
    complaints = {}
    for label, digest in digests.items():
        error = np.max(np.abs(digest["sample"] - truth) / truth)
        if not error <= TOLERANCE[dtype]:
            complaints[label] = f"disagrees: relative error {error:.1e}"
    return complaints


def pairwise(dtype: str, n: int = 10_000, d: int = 128, p: int = 64) -> Case:
    """Return the case of all distances between two sets of n points, through a map from d to p."""
    itemsize = np.dtype(dtype).itemsize

    def bound(rates: Rates) -> float:
        flops = 2 * n * n * p + 4 * n * d * p
        return max(flops / rates.gemm[dtype], n * n * itemsize / rates.write)

    entries = [
        Entry(OURS, "metricfast", "metricfast.pairwise", threads=(CORES,)),
        Entry(
            f"{OURS} out=", "metricfast", "metricfast.pairwise", {"given": True}, threads=(CORES,)
        ),
        Entry("scikit-learn", "scikit-learn", "sklearn.pairwise"),
        Entry("torch", "torch", "torch.pairwise"),
        Entry("scipy", "scipy", "scipy.pairwise", threads=(1,), when="full", rounds=1),
    ]
    if dtype == "float32":
        entries.insert(3, Entry("faiss", "faiss", "faiss.pairwise"))
        targets: list[Target] = [Speedup("faiss", 1.2), Speedup("faiss", 2.0, f"{OURS} out=")]
    else:
        targets = [Speedup("scikit-learn", 3.0)]
    products = [
        Entry("products", "numpy", "blas.pairwise", threads=(CORES,)),
        Entry("products out=", "numpy", "blas.pairwise", {"given": True}, threads=(CORES,)),
    ]

    def check(arrays: Arrays, digests: dict[str, Arrays]) -> dict[str, str]:
        return _check_pairwise(dtype, arrays, digests)

    return Case(
        f"pairwise-{dtype}",
        f"all pairs, {n}x{n}, d={d} to {p}, {dtype}",
        partial(_normal, {"X": (n, d), "Y": (n, d), "L": (p, d)}, dtype),
        entries + products,
        bound,
        targets,
        check,
    )


def _check_neighbors(
    dtype: str, k: int, arrays: Arrays, digests: dict[str, Arrays]
) -> dict[str, str]:
    """Check that float64 results are exact. Float32 peers may differ by rounding errors."""
    queries, database = (arrays[name].astype(np.float64) for name in ("queries", "database"))
    some = np.linspace(0, len(queries) - 1, min(CHECKED_QUERIES, len(queries))).astype(int)
    truth = np.stack([((database - query) ** 2).sum(1) for query in queries[some]])
    nearest = np.argsort(truth, axis=1, kind="stable")[:, :k]
    distances = np.sqrt(np.take_along_axis(truth, nearest, axis=1))
    complaints = {}
    for label, digest in digests.items():
        wrong = np.mean(digest["indices"][some] != nearest)
        error = np.max(np.abs(digest["distances"][some] - distances) / distances)
        if wrong > (0.01 if dtype == "float32" else 0.0) or not error <= 10 * TOLERANCE[dtype]:
            complaints[label] = f"disagrees: {wrong:.1%} other indices, relative error {error:.1e}"
    if dtype == "float64" and {OURS, "scikit-learn"} <= digests.keys():
        different = digests[OURS]["indices"] != digests["scikit-learn"]["indices"]
        if different.any():
            complaints[OURS] = f"disagrees: {different.mean():.1%} indices not scikit-learn's"
    return complaints


def neighbors(
    dtype: str, n_queries: int = 20_000, n_database: int = 60_000, d: int = 64, k: int = 10
) -> Case:
    """Return the case of the k nearest neighbours of every query."""

    def bound(rates: Rates) -> float:
        return 2 * n_queries * n_database * d / rates.gemm[dtype]

    params = {"k": k}
    entries = [
        Entry(OURS, "metricfast", "metricfast.neighbors", params, threads=(CORES,)),
        Entry("scikit-learn", "scikit-learn", "sklearn.neighbors", params, threads=(CORES,)),
        Entry(
            "torch", "torch", "torch.neighbors", params, threads=(CORES,), when="normal", rounds=2
        ),
        Entry("products", "numpy", "blas.neighbors", params, threads=(CORES,)),
    ]
    if dtype == "float32":
        faiss = Entry("faiss", "faiss", "faiss.neighbors", params, threads=(CORES,))
        entries.insert(1, faiss)
        targets: list[Target] = [Speedup("faiss", 2.5)]
    else:
        targets = [Speedup("scikit-learn", 2.5)]

    def check(arrays: Arrays, digests: dict[str, Arrays]) -> dict[str, str]:
        return _check_neighbors(
            dtype, k, arrays, {label: d for label, d in digests.items() if "indices" in d}
        )

    return Case(
        f"neighbors-{dtype}",
        f"{k} nearest neighbours, {n_queries} queries x {n_database}, d={d}, {dtype}",
        partial(_normal, {"queries": (n_queries, d), "database": (n_database, d)}, dtype),
        entries,
        bound,
        targets,
        check,
    )


def _voting(dtype: str, n_queries: int, n_database: int, d: int) -> Arrays:
    rng = np.random.default_rng(0)
    means = 0.5 * rng.standard_normal((7, d))
    codes = rng.integers(0, 7, n_queries + n_database)
    points = (means[codes] + rng.standard_normal((len(codes), d))).astype(np.float32)
    values = (codes[n_queries:, None] == np.arange(7)).astype(dtype)
    return {"queries": points[:n_queries], "database": points[n_queries:], "values": values}


def _check_votes(dtype: str, arrays: Arrays, digests: dict[str, Arrays]) -> dict[str, str]:
    some = np.linspace(0, len(arrays["queries"]) - 1, CHECKED_QUERIES).astype(int)
    queries, database = (arrays[name].astype(np.float64) for name in ("queries", "database"))
    logits = -np.linalg.norm(queries[some][:, None] - database, axis=2)
    share = np.exp(logits - logits.max(axis=1, keepdims=True))
    truth = share / share.sum(axis=1, keepdims=True) @ arrays["values"]
    complaints = {}
    for label in digests.keys() & {OURS, "torch"}:
        error = np.abs(digests[label]["means"][some] - truth).max()
        if not error <= (1e-3 if dtype == "float32" else 1e-6):
            complaints[label] = f"disagrees: error {error:.1e}"
    return complaints


def soft_votes(dtype: str, n_queries: int = 4000, n_database: int = 16_000, d: int = 64) -> Case:
    """Return the case of soft votes of all points for 7 classes, as in NCAClassifier."""

    def bound(rates: Rates) -> float:
        pairs = n_queries * n_database
        products = 2 * pairs * (d + 7) / rates.gemm[dtype]
        return products + pairs / rates.exponentials[dtype]

    return Case(
        f"soft-votes-{dtype}",
        f"softmax of distances, {n_queries} queries x {n_database}, d={d}, 7 classes, {dtype}",
        partial(_voting, dtype, n_queries, n_database, d),
        [
            Entry(OURS, "metricfast", "metricfast.soft_votes", threads=(CORES,)),
            Entry("torch", "torch", "torch.soft_votes", threads=(CORES,)),
        ],
        bound,
        [Speedup("torch", 1.5)],
        partial(_check_votes, dtype),
    )


def _of_classes(spread: float, scale: float) -> Arrays:
    """Return points of 26 classes in 64 dimensions; `spread` scales the class means."""
    rng = np.random.default_rng(0)
    means = spread * rng.standard_normal((26, 64))
    labels = {"y": rng.integers(0, 26, 20_000), "y_database": rng.integers(0, 26, 60_000)}
    points = {
        name: (scale * (means[codes] + rng.standard_normal((len(codes), 64)))).astype(np.float32)
        for name, codes in zip(("queries", "database"), labels.values(), strict=True)
    }
    return {**points, **labels}


def inference(name: str, spread: float, scale: float = 1.0) -> Case:
    """Return the case of targeted and loss-augmented inference with 7 neighbours."""
    params = {"k": 7}
    plain = "kneighbors"
    entries = [
        Entry(OURS, "metricfast", "metricfast.inference", params, threads=(CORES,)),
        Entry(plain, "metricfast", "metricfast.neighbors", params, threads=(CORES,)),
    ]
    return Case(
        f"inference-{name}",
        f"targeted and augmented sets of 7, 20000 queries x 60000, 26 {name} classes, float32",
        partial(_of_classes, spread, scale),
        entries,
        targets=[TimesAtMost(plain, 1.3), MemoryAtMost(GIBIBYTE)],
        when="normal",
    )


def _mnist_in_50() -> Arrays:
    """Return MNIST with 50 principal components, as queries and as database."""
    arrays = data.mnist()
    x = PCA(50, random_state=0).fit_transform(arrays["X"]).astype(np.float32)
    return {"X": x, "y": arrays["y"], "queries": x, "database": x}


def inference_epoch() -> Case:
    """Return the case of an epoch of gerrymandering, compared with a neighbour search."""
    plain = "kneighbors"
    entries = [
        Entry(
            OURS, "metricfast", "metricfast.vote_epoch", {"k": 7, "batch_size": 2000},
            threads=(CORES,), rounds=3,
        ),
        Entry(plain, "metricfast", "metricfast.neighbors", {"k": 7}, threads=(CORES,), rounds=3),
    ]  # fmt: skip
    return Case(
        "inference-epoch",
        "an epoch of NeighborhoodGerrymandering on MNIST, PCA 50, 30 batches of 2000, float32",
        _mnist_in_50,
        entries,
        targets=[SecondsAtMost(6), TimesAtMost(plain, 2), MemoryAtMost(GIBIBYTE)],
        warm=False,
        when="full",
    )
