"""Cases: exact searches of a prepared database, and MAP@R."""

from __future__ import annotations

__all__ = [
    "ADVERSARIAL",
    "FLOATS",
    "TREE",
    "Search",
    "adversarial",
    "checked_rows",
    "concurrent",
    "disagreements",
    "map_at_r",
    "memory",
    "search",
    "searches",
    "seconds_at_least",
    "some",
    "stream",
]

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import metricfast
from benchmarks import data
from benchmarks.bounds import Rates
from benchmarks.calls import embedded
from benchmarks.case import OURS, Arrays, Case, Entry, Level, Target
from benchmarks.targets import MemoryAtMost, SecondsAtMost, Speedup, TimesAtMost

CORES = (os.cpu_count() or 1,)
FLOATS = f"{OURS} float32"
CONVERTED = f"{OURS} as float32"
READING = "reading"
ALONE = "one client"
PANORAMA = "faiss Panorama"
PEERS = {
    "faiss.stream": "faiss",
    "faiss.panorama_stream": PANORAMA,
    "whitetree.stream": "whitetree",
}
SUBSET = "those points alone"
MOST_LISTED = 100  # neighbours; with more, the name of a case ends with their number
FEW = 100  # queries; with fewer, memory bandwidth is the limit
MANY = 2 * 10**8  # pairs; usearch stores all, at 16 bytes each
TREE = 5  # dimensions
PACKAGES = {"sklearnex": "scikit-learn-intelex", PANORAMA: "faiss"}
CALLS = {PANORAMA: "faiss.panorama"}
CHECKED_VALUES = 500_000_000
EXACT, ROUNDED = 1e-12, 1e-5


@dataclass
class Search:
    """A search among synthetic points, and target speedups over peers.

    `clusters` is the number of clusters; 0 for Gaussian points.
    """

    points: int
    width: int
    queries: int
    k: int
    faster: dict[str, float] = field(default_factory=dict)
    when: Level = "normal"
    dtype: str = "float32"
    clusters: int = 0

    @property
    def name(self) -> str:
        """Return a unique name."""
        kind = "clusters-" if self.clusters else ""
        name = f"{kind}{self.points}x{self.width}-{self.queries}"
        if self.k > MOST_LISTED:
            name += f"-{self.k}"
        return name if self.dtype == "float32" else f"{name}-{self.dtype}"


SEARCHES = [
    Search(60_000, 64, 10_000, 10, {FLOATS: 2, "sklearnex": 3.5, "faiss": 10}),
    Search(60_000, 64, 10_000, 10, {CONVERTED: 0.9}, dtype="float64"),
    Search(60_000, 32, 10_000, 10, {FLOATS: 1.3}),
    Search(100_000, 128, 1000, 10, {FLOATS: 2, "sklearnex": 3.5, "faiss": 10}, "quick"),
    Search(100_000, 128, 32, 10, {"sklearnex": 2, "faiss": 2, "usearch": 2}),
    Search(100_000, 128, 1, 10, {READING: 2, "sklearnex": 3, "faiss": 3, "usearch": 3}, "quick"),
    Search(100_000, 128, 2000, 100, {FLOATS: 1.8}),
    Search(20_000, 784, 2000, 10, {FLOATS: 2}),
    Search(50_000, 512, 1, 10, {FLOATS: 5, "faiss": 5, PANORAMA: 1}, "quick", clusters=100),
    Search(50_000, 512, 100, 10, {FLOATS: 3, "faiss": 10, PANORAMA: 2}, "quick", clusters=100),
    Search(60_000, 128, 100, 10, {FLOATS: 2, "faiss": 10}, clusters=10),
    *(Search(13_600, 64, 2400, k, {"faiss": 1.5}) for k in (256, 1024, 4096)),
    Search(100_000, 2, 100_000, 5, {"cKDTree": 1}, "quick"),
    Search(100_000, 3, 20_000, 5, {"cKDTree": 1}),
    Search(100_000, 5, 20_000, 5, {"cKDTree": 1}),
]
REAL = ("mnist", "letter", "covtype_93k", "isolet")
EMBEDDED = ("mnist", "letter", "isolet")
ADVERSARIAL: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "equal": lambda x, rng: np.repeat(x[:1], len(x), axis=0),
    "duplicates": lambda x, rng: x[rng.integers(200, size=len(x))],
    "outlier": lambda x, rng: np.concatenate([x[:-1], 1e6 * x[-1:]]),
    "offset": lambda x, rng: x + 1e6,
    "subnormal": lambda x, rng: x * 1e-40,
}


def _made(search: Search) -> Arrays:
    """Return Gaussian points, or Gaussian clusters with a decaying spectrum."""
    rng = np.random.default_rng(0)
    shapes = {"queries": search.queries, "database": search.points}
    found = {name: rng.standard_normal((rows, search.width)) for name, rows in shapes.items()}
    if search.clusters:
        spectrum = np.exp(-np.arange(search.width) / 60)
        centres = 3 * rng.standard_normal((search.clusters, search.width))
        for name, rows in shapes.items():
            found[name] += centres[rng.integers(search.clusters, size=rows)]
            found[name] *= spectrum
    return {name: points.astype(search.dtype) for name, points in found.items()}


def adversarial(kind: str, n_queries: int = 2000, n: int = 20_000, d: int = 64) -> Arrays:
    rng = np.random.default_rng(0)
    x = ADVERSARIAL[kind](rng.standard_normal((n_queries + n, d)), rng).astype(np.float32)
    return {"queries": x[:n_queries], "database": x[n_queries:]}


def _real(name: str, learned: bool, n_queries: int = 2000) -> Arrays:
    """Return a data set's test and training points, and its discriminant directions as L."""
    found, y = _split(name, n_queries)
    if learned:
        model = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1)
        model.fit(found["database"], y)
        directions = model.scalings_[:, : len(model.classes_) - 1]
        found["L"] = np.ascontiguousarray(directions.T, np.float32)
    return found


def _embedded(name: str, n_queries: int) -> Arrays:
    """Return a data set's test and training points, embedded by a trained perceptron."""
    found, y = _split(name, n_queries)
    learner = metricfast.EmbeddingLearner(
        metricfast.losses.SupCon(),
        metricfast.embeddings.MLP((256,), 128, normalize=True),
        batch_size=512,
        max_epochs=25,
        judge=None,
        random_state=0,
    )
    model = make_pipeline(StandardScaler(), learner).fit(found["database"], y)
    return {key: model.transform(points).astype(np.float32) for key, points in found.items()}


def _split(name: str, n_queries: int) -> tuple[Arrays, np.ndarray]:
    """Return a data set's test and training points, and the labels of the latter."""
    arrays = data.load(name)
    x, y, queries = arrays["X"].astype(np.float32), arrays["y"], arrays["X_test"]
    if not len(queries):  # no official split
        order = np.random.default_rng(0).permutation(len(x))
        queries, x, y = x[order[:n_queries]], x[order[n_queries:]], y[order[n_queries:]]
    return {"queries": queries[:n_queries].astype(np.float32), "database": x}, y


def _differ(arrays: Arrays, found: np.ndarray, nearest: np.ndarray, rounded: bool) -> float:
    """Return the share of queries whose neighbours have other distances, beyond rounding errors.

    Peers compute products in float32, with errors that grow with the norms of the points.
    """
    queries, database = arrays["queries"], arrays["database"]
    rows = np.flatnonzero((found != nearest).any(axis=1))
    theirs, right = (
        ((queries[rows, None] - database[part[rows]]) ** 2).sum(axis=-1)
        for part in (found, nearest)
    )
    allowed = EXACT * right
    if rounded:
        allowed = allowed + ROUNDED * (database**2).sum(axis=1).max()
    return float((np.abs(theirs - right) > allowed).any(axis=1).sum() / len(found))


def _check(arrays: Arrays, digests: dict[str, Arrays]) -> dict[str, str]:
    """Check our neighbours of some queries in float64, and that all of a peer's are equally near.

    All searches of this library must find the same neighbours, also for equal distances.
    """
    found = {label: digest["indices"] for label, digest in digests.items() if "indices" in digest}
    if OURS not in found:
        return {}
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    exact = {name: embedded(wide, name) for name in ("queries", "database")}
    k = found[OURS].shape[1]
    some = checked_rows(exact)
    checked = exact | {"queries": exact["queries"][some]}
    nearest = [
        np.argsort(((exact["database"] - query) ** 2).sum(axis=1), kind="stable")[:k]
        for query in checked["queries"]
    ]
    wrong = {OURS: _differ(checked, found[OURS][some], np.stack(nearest), rounded=False)}
    for label in found.keys() - {OURS, FLOATS}:
        wrong[label] = _differ(exact, found[label], found[OURS], rounded=True)
    if FLOATS in found:
        wrong[FLOATS] = float((found[FLOATS] != found[OURS]).any(axis=1).mean())
    return disagreements(wrong)


def checked_rows(arrays: Arrays) -> np.ndarray:
    """Return rows of some queries, evenly spaced: fewer among many points."""
    n, size = len(arrays["queries"]), arrays["database"].size
    return np.linspace(0, n - 1, min(n, max(5, min(100, CHECKED_VALUES // size)))).astype(int)


def disagreements(wrong: dict[str, float]) -> dict[str, str]:
    """Return messages for shares of queries with other neighbours."""
    return {
        label: f"disagrees: other neighbours of {share:.2%} of the queries"
        for label, share in wrong.items()
        if share
    }


def memory(arrays: Arrays, digest: Arrays) -> dict[str, float]:
    """Return the memory of a prepared database as a score."""
    return {"MB held": float(digest["bytes"]) / 1e6} if "bytes" in digest else {}


def seconds_at_least(rates: Rates, points: int, width: int, queries: int) -> float:
    """Return the time of 8-bit products, four times as fast as float32, or of reading 8 bits."""
    size = points * width
    return max(size / rates.read, 2 * queries * size / (4 * rates.gemm["float32"]))


def _case(
    name: str,
    title: str,
    arrays: Callable[[], Arrays],
    entries: list[Entry],
    targets: list[Target],
    bound: Callable[[Rates], float] | None = None,
    when: Level = "normal",
) -> Case:
    return Case(f"search-{name}", title, arrays, entries, bound, targets, _check, memory, when=when)


def _ours(label: str, k: int, **params: str) -> Entry:
    return Entry(label, OURS, "metricfast.search", {"k": k, **params}, threads=CORES)


def _peers(points: int, queries: int, k: int, clusters: bool = False) -> list[Entry]:
    few, many = queries <= FEW, queries * points > MANY
    levels: dict[str, Level] = {
        "faiss": "quick",
        **({PANORAMA: "quick"} if clusters else {}),
        "sklearnex": "quick",
        "usearch": "full" if many else "normal",
        "mlpack": "full",
    }
    return [
        Entry(
            label, PACKAGES.get(label, label), CALLS.get(label, f"{label}.neighbors"), {"k": k},
            threads=() if few else CORES, when=when,
            rounds=100 if few or label == "sklearnex" else 3 if label == "faiss" else 1,
        )
        for label, when in levels.items()
    ]  # fmt: skip


def _entries(search: Search) -> list[Entry]:
    k, few = search.k, search.queries <= FEW
    ours = _ours(OURS, k)
    peers = _peers(search.points, search.queries, k, search.clusters > 0)
    if search.width <= TREE:
        return [
            ours,
            Entry("cKDTree", "scipy", "scipy.neighbors", {"k": k}, threads=CORES),
            Entry("mlpack", "mlpack", "mlpack.neighbors", {"k": k}, threads=CORES, rounds=3),
        ]
    if search.dtype == "float64":  # faiss has no float64
        return [ours, _ours(CONVERTED, k, dtype="float32"), *peers[1:]]
    entries = [ours, _ours(FLOATS, k, precision="float32"), *peers]
    return entries + [Entry(READING, "numpy", "baseline.read_points", threads=CORES)] * few


def search(search: Search) -> Case:
    """Return the case of a search among synthetic points.

    The bound, `seconds_at_least`, does not hold for a tree.
    """
    size = {"points": search.points, "width": search.width, "queries": search.queries}
    return _case(
        search.name,
        f"{search.k} nearest of {search.points}"
        f"{f' in {search.clusters} clusters' if search.clusters else ''}, "
        f"{search.queries} queries, d={search.width}, {search.dtype}",
        partial(_made, search),
        _entries(search),
        [Speedup(label, factor) for label, factor in search.faster.items()],
        None if search.width <= TREE else partial(seconds_at_least, **size),
        search.when,
    )


def concurrent(search: Search, clients: int = 32) -> Case:
    """Return the case of concurrent clients of one database, compared with a single client."""

    def entry(label: str, clients: int) -> Entry:
        return Entry(
            label, OURS, "metricfast.clients", {"k": search.k, "clients": clients}, threads=(1,)
        )

    return _case(
        f"clients-{search.name}",
        f"{clients} clients of a database of {search.points} points, d={search.width}: "
        f"{search.queries} queries, one at a time",
        partial(_made, search),
        [entry(OURS, clients), entry(ALONE, 1)],
        [Speedup(ALONE, 0.8 * CORES[0])],
        when=search.when,
    )


def _masked(search: Search, share: float) -> Arrays:
    arrays = _made(search)
    rng = np.random.default_rng(1)
    return arrays | {"mask": rng.uniform(size=search.points) < share}


def _check_same(arrays: Arrays, digests: dict[str, Arrays]) -> dict[str, str]:
    found = [digest["indices"] for digest in digests.values()]
    if OURS in digests and any((each != digests[OURS]["indices"]).any() for each in found):
        return {OURS: "disagrees: other neighbours"}
    return {}


def some(search: Search, share: float) -> Case:
    """Return the case of a filter, compared with a database of only the allowed points."""

    def entry(label: str, **params: bool) -> Entry:
        return Entry(label, OURS, "metricfast.search_some", {"k": search.k, **params}, threads=(1,))

    return Case(
        f"search-where-{share:.0%}-{search.name}".replace("%", ""),
        f"{search.k} nearest of {share:.0%} of {search.points}, {search.queries} queries, "
        f"d={search.width}",
        partial(_masked, search, share),
        [entry(OURS), entry(SUBSET, alone=True)],
        targets=[TimesAtMost(SUBSET, 1.2)],
        check=_check_same,
        when=search.when,
    )


def _check_stream(arrays: Arrays, digests: dict[str, Arrays]) -> dict[str, str]:
    """Compare some steps of the first run with a search in float64."""
    points = np.concatenate([arrays["database"], arrays["queries"]]).astype(np.float64)
    wrong = dict.fromkeys(digests, 0.0)
    for step in np.linspace(0, len(arrays["queries"]) - 1, 5).astype(int):
        there = points[step + 1 : len(arrays["database"]) + step + 1]
        squared = ((there - points[len(arrays["database"]) + step]) ** 2).sum(axis=1)
        for label, digest in digests.items():
            ids = digest["indices"][step] - step - 1
            right = np.sort(squared)[: len(ids)]
            off = np.abs(squared[ids] - right) > ROUNDED * (points**2).sum(axis=1).max()
            wrong[label] += float(off.any())
    return {
        label: f"disagrees in {share:.0f} of 5 steps" for label, share in wrong.items() if share
    }


def stream(search: Search, most: float) -> Case:
    """Return the case of steps that each add a point, remove a point, and search one query."""
    peers = ["faiss.stream", "faiss.panorama_stream"] + ["whitetree.stream"] * (
        search.width <= TREE
    )
    entries = [
        Entry(label, label.split()[0], call, {"k": search.k}, threads=(1,), rounds=rounds)
        for label, call, rounds in (
            (OURS, "metricfast.stream", 100),
            *((PEERS[peer], peer, 1) for peer in peers),
        )
    ]
    return Case(
        f"search-stream-{search.name}",
        f"{search.queries} steps: add a point of {search.points}, remove one, search for "
        f"{search.k}, d={search.width}",
        partial(_made, search),
        entries,
        targets=[SecondsAtMost(search.queries * most)],
        check=_check_stream,
        when=search.when,
    )


def _unit_vectors(n: int, classes: int, d: int) -> Arrays:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return {"X": x, "y": rng.integers(classes, size=n)}


def _check_value(arrays: Arrays, digests: dict[str, Arrays]) -> dict[str, str]:
    values = [digest["value"] for digest in digests.values()]
    if OURS in digests and np.ptp(values) > 1e-6:
        return {OURS: f"disagrees by {np.ptp(values):.1e}"}
    return {}


def map_at_r(n: int, classes: int, *targets: Target, peer: Level = "normal", d: int = 512) -> Case:
    """Return the case of MAP@R of random unit vectors, with pytorch-metric-learning as a peer."""
    other = "pytorch-metric-learning"
    return Case(
        f"search-map-at-r-{n}",
        f"MAP@R of {n} unit vectors of {classes} classes, d={d}, float32",
        partial(_unit_vectors, n, classes, d),
        [
            Entry(OURS, OURS, "metricfast.map_at_r", threads=CORES, rounds=3),
            Entry(other, other, "pml.map_at_r", threads=CORES, when=peer, rounds=1),
        ],
        lambda rates: 2 * n * n * d / (4 * rates.gemm["float32"]),
        list(targets),
        _check_value,
        lambda arrays, digest: {"MAP@R": float(digest["value"])},
        when="normal",
    )


def searches() -> list[Case]:
    """Return the cases of Gaussian points, real data, data that are hard to round, and MAP@R."""
    hard = [
        (
            f"{name}-learned" if learned else name,
            partial(_real, name, learned),
            _peers(60_000, 2000, 10),
        )
        for name in REAL
        for learned in (False, True)
    ]
    hard += [(kind, partial(adversarial, kind), []) for kind in ADVERSARIAL]
    return [
        *map(search, SEARCHES),
        concurrent(Search(100_000, 128, 640, 10)),
        stream(Search(100_000, 64, 2000, 10), 1e-3),
        stream(Search(200_000, 5, 2000, 5), 3e-4),
        *(
            some(Search(100_000, 64, queries, 10), share)
            for share in (0.01, 0.1, 0.5)
            for queries in (1, 1000)
        ),
        *(
            _case(
                name,
                f"10 nearest, 2000 queries, float32: {name}",
                arrays,
                [_ours(OURS, 10), _ours(FLOATS, 10, precision="float32"), *peers],
                [TimesAtMost(FLOATS, 1.2)],
            )
            for name, arrays, peers in hard
        ),
        *(
            _case(
                f"{name}-{kind}-{queries}",
                f"10 nearest, {queries} queries, float32: {name}, {kind}",
                partial(arrays, name, n_queries=queries),
                [_ours(OURS, 10), *_peers(60_000, queries, 10, clusters=True)],
                [Speedup(PANORAMA, 1 if queries == 1 else 2)],
            )
            for kind, arrays, names in (
                ("raw", partial(_real, learned=False), ("mnist",)),
                ("embedded", _embedded, EMBEDDED),
            )
            for name in names
            for queries in (1, 100)
        ),
        map_at_r(6050, 1131),
        map_at_r(60_502, 11_316, SecondsAtMost(20), MemoryAtMost(1000), peer="full"),
    ]
