"""Study: is a learner with its default parameters ever worse than the distance one has?

    python -m benchmarks.never_worse [--data PATTERN]... [--learner PATTERN]...
                                     [--splits N] [--n-jobs N] [--unit UNIT]
    python -m benchmarks.never_worse --list

Prints a line for each kind of data, each learner and each metric of retrieval: the share of
queries whose nearest reference is of their class, and MAP@R. A line has the difference to the
better of two distances: the distance of the points as given, and of standardised features. The
mean is over queries and splits. Its standard error is over queries (over their classes, where these
are new), or over splits if that is larger. An x marks differences below zero by more than two
standard errors. Further tables, one for each metric, have the mean differences of each learner, for
data whose queries are new points of known classes and for data whose queries are of new classes.
The last line names what is marked.

Patterns may contain wildcards: "mnist-*", "loss-*". The study includes all learners of classes,
"loss-NAME" for `EmbeddingLearner(NAME())` and, for data of two views, "maps-NAME" for the same with
two linear maps. Learners of one map are fitted to the points of both views. Images and texts have
different features: two maps compete there with canonical correlations. Faces have continuous
labels, and learners of these. All parameters are the defaults.

The kinds "adapter-*-N" are N queries that train an `AdapterLearner` of both sides, and one of
queries alone: pairs with scores, pairs that belong together, and clicks. Test queries are new, and
documents as well unless "queries" are new. The values are the average precision of queries, and
terms of Spearman's correlation. There, the distance to beat is the cosine of points as given.

Kinds of data without a file in METRICFAST_DATA are left out. Without the folder there are: wide,
few-points, noise, many-points, many-classes, digits and made pairs.
"""

from __future__ import annotations

__all__ = [
    "CLASSES",
    "KINDS",
    "LEARNERS",
    "POINTS",
    "Kind",
    "Split",
    "choose_names",
    "difference",
    "main",
    "make",
    "one_view",
]

import argparse
import inspect
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, normalize
from threadpoolctl import threadpool_limits

import metricfast
from benchmarks import data, never_worse_adapters, study_defaults
from metricfast import EmbeddingLearner, losses
from metricfast.embeddings import Asymmetric, Linear
from metricfast.metrics import retrieval_report
from metricfast.selection import Judge

ERRORS = 2.0
HEAD = ("data", "new at test", "learner", "metric", "given", "standardised", "learned")
HEAD += ("difference", "error", "below", "CPU s")
CLASSES, POINTS = "classes", "points"
NEAREST = "precision_at_1"
Points = tuple[Any, np.ndarray]
Values = dict[str, np.ndarray]


class Split(NamedTuple):
    """Points to learn from, in one view or two, and queries that search a database.

    If the database is the queries, none finds itself. `groups` are numbers of the queries; those
    of one group depend on each other, in a split and between splits.
    """

    train: Points
    queries: Points
    database: Points
    groups: np.ndarray
    second: Points | None = None


class Kind(NamedTuple):
    """A kind of data: `split` takes a seed and the arrays of `read`."""

    new: str
    read: Callable[[], tuple[Any, ...]]
    split: Callable[..., Split]
    metrics: tuple[str, ...] = (NEAREST, "map_at_r")


def _of_points(seed: int, X: Any, y: np.ndarray, n: int, n_test: int) -> Split:
    order = np.random.RandomState(seed).permutation(len(y))
    train, test = order[:n], order[n : n + n_test]
    return Split((X[train], y[train]), (X[test], y[test]), (X[train], y[train]), test)


def _of_classes(seed: int, X: np.ndarray, y: np.ndarray, n: int | None = None) -> Split:
    """Half of the classes train. Of the points, n are drawn."""
    rng = np.random.RandomState(seed)
    rows = rng.permutation(len(y))[:n]
    X, y = X[rows], y[rows]
    known = np.isin(y, rng.permutation(np.unique(y))[::2])
    queries = X[~known], y[~known]
    return Split((X[known], y[known]), queries, queries, y[~known])


def _of_pairs(a: np.ndarray, b: np.ndarray, train: np.ndarray, test: np.ndarray) -> Split:
    """Row i of both views is of class i, and the first view searches the second."""
    return Split((a[train], train), (a[test], test), (b[test], test), test, (b[train], train))


def _draw(
    seed: int, n: int, features: int, classes: int, informative: int, spread: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return Gaussian points; the means of classes differ in the informative features."""
    rng = np.random.RandomState(seed)
    means = np.zeros((classes, features))
    means[:, :informative] = spread * rng.standard_normal((classes, informative))
    y = rng.randint(classes, size=n)
    return means[y] + rng.standard_normal((n, features)), y


def _drawn(seed: int, n: int, *how: Any) -> Split:
    return _of_points(seed, *_draw(seed, n + 400, *how), n, 400)


def _read(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return all points of a set."""
    arrays = data.load(name)
    X, y = (np.concatenate([arrays[name], arrays[f"{name}_test"]]) for name in "Xy")
    return X.astype(np.float64), y


def _saved(name: str, *keys: str) -> tuple[np.ndarray, ...]:
    with np.load(data.folder() / f"{name}.npz") as saved:
        return tuple(saved[key] for key in keys)


def _split_usps(
    seed: int, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> Split:
    """Draw 2,000 of the training points. The official test points are queries in each split."""
    train = np.random.RandomState(seed).permutation(len(y))[:2000]
    points = X[train].astype(np.float64), y[train]
    return Split(points, (X_test.astype(np.float64), y_test), points, np.arange(len(y_test)))


def _news() -> Points:
    *parts, shape, y = _saved("20news_sparse", "data", "indices", "indptr", "shape", "y")
    return csr_array(tuple(parts), shape=tuple(shape), dtype=np.float64), y


def _split_news(seed: int, X: Any, y: np.ndarray) -> Split:
    """Reduce words to 100 directions of unit length, which the training points choose."""
    split = _of_points(seed, X, y, 3000, 2000)
    svd = TruncatedSVD(100, random_state=seed)
    reduced = make_pipeline(TfidfTransformer(sublinear_tf=True), svd, Normalizer())
    train = reduced.fit_transform(split.train[0]), split.train[1]
    queries = reduced.transform(split.queries[0]), split.queries[1]
    return split._replace(train=train, queries=queries, database=train)


def _sentences() -> tuple[np.ndarray, ...]:
    """Return the two sentences of pairs with a similarity of at least 4 of 5, of unit length."""
    parts = ("train", "dev", "test")
    close = np.concatenate(_saved("stsb_static", *(f"{part}_y" for part in parts))) >= 4
    a, b = (_saved("stsb_static", *(f"{part}_{side}" for part in parts)) for side in "ab")
    return tuple(normalize(np.concatenate(view)[close].astype(np.float64)) for view in (a, b))


def _split_sentences(seed: int, a: np.ndarray, b: np.ndarray) -> Split:
    train, test = np.array_split(np.random.RandomState(seed).permutation(len(a)), 2)
    return _of_pairs(a, b, train, test)


def _split_viper(seed: int, a: np.ndarray, b: np.ndarray, splits: np.ndarray) -> Split:
    train, test = np.array_split(splits[seed], 2)
    return _of_pairs(a.astype(np.float64), b.astype(np.float64), train, test)


def _split_articles(_: int, a: np.ndarray, b: np.ndarray, y: np.ndarray, n: np.ndarray) -> Split:
    """Return the official split, the same for all seeds: only learners differ."""
    (first, queries), (second, database) = (
        [(X[rows].astype(np.float64), y[rows]) for rows in (slice(n), slice(n, None))]
        for X in (a, b)
    )
    return Split(first, queries, database, np.arange(len(queries[1])), second)


def _articles(*views: str) -> Kind:
    read = partial(_saved, "wikipedia_image_text", *views, "y", "n_train")
    return Kind(POINTS, read, _split_articles, ("mean_average_precision",))


KINDS = {
    "wide": Kind(POINTS, tuple, lambda seed: _drawn(seed, 60, 4000, 3, 40, 1.5)),
    "few-points": Kind(POINTS, tuple, lambda seed: _drawn(seed, 40, 10, 2, 3, 1)),
    "noise": Kind(POINTS, tuple, lambda seed: _drawn(seed, 400, 50, 5, 5, 2)),
    "many-points": Kind(POINTS, tuple, lambda seed: _drawn(seed, 400, 30, 30, 30, 0.8)),
    "many-classes": Kind(
        CLASSES, tuple, lambda seed: _of_classes(seed, *_draw(seed, 800, 30, 60, 30, 0.8))
    ),
    "digits": Kind(
        POINTS, partial(load_digits, return_X_y=True), partial(_of_points, n=1198, n_test=599)
    ),
    "sentences": Kind(CLASSES, _sentences, _split_sentences, (NEAREST,)),
    "viper": Kind(
        CLASSES, partial(_saved, "viper_mdf", "camera_a", "camera_b", "splits"), _split_viper,
        (NEAREST,),
    ),
    "images-to-texts": _articles("image", "text"),
    "texts-to-images": _articles("text", "image"),
    "usps": Kind(POINTS, lambda: tuple(data.load("usps").values()), _split_usps),
    "covtype": Kind(
        POINTS, partial(_read, "covtype_93k"), partial(_of_points, n=10_000, n_test=5000)
    ),
    "20news": Kind(POINTS, _news, _split_news),
    **{
        f"mnist-{n}": Kind(POINTS, data.small_mnist, partial(_of_points, n=n, n_test=1500))
        for n in (120, 206, 320, 800)
    },
    "mnist-classes": Kind(CLASSES, data.small_mnist, partial(_of_classes, n=2000)),
    "letter-points": Kind(
        POINTS, partial(_read, "letter"), partial(_of_points, n=1000, n_test=1000)
    ),
    "letter-classes": Kind(CLASSES, partial(_read, "letter"), partial(_of_classes, n=2000)),
    "isolet-points": Kind(POINTS, partial(_read, "isolet"), partial(_of_points, n=650, n_test=650)),
    "isolet-classes": Kind(CLASSES, partial(_read, "isolet"), partial(_of_classes, n=1300)),
    "faces": Kind(
        POINTS, partial(_saved, "faces", "X", "Y"), partial(_of_points, n=400, n_test=298),
        ("ndcg_at_k",),
    ),
}  # fmt: skip


LABELS = {name: getattr(losses, name).labels for name in losses.__all__ if name != "Compiled"}
CLASS_LOSSES = [name for name, labels in LABELS.items() if labels == "class"]
# Learners of continuous labels.
NUMERIC = ["MLKR", "LogRatioLearner", "NeighborhoodGerrymanderingRegressor"]
NUMERIC += [f"loss-{name}" for name in LABELS if name not in CLASS_LOSSES]
LEARNERS = [*study_defaults.LEARNERS, *study_defaults.OURS]
LEARNERS += ["ProxyNCALearner", "TripletLearner", "AsymmetricSimilarity", "AutoLearner"]
LEARNERS += [f"loss-{name}" for name in CLASS_LOSSES]
LEARNERS += [f"maps-{n}" for n in CLASS_LOSSES if not getattr(losses, n).learnable_database]
LEARNERS = [name for name in LEARNERS if name not in ("MLKR", "OASIS_Supervised")] + NUMERIC
ADAPTERS = ["adapter-both", "adapter-query"]


def make(learner: str, width: int, **params: Any) -> Any:
    """Return a learner. Parameters that it lacks are ignored."""
    maps, _, loss = learner.partition("-")
    if loss:
        embedding = Asymmetric(Linear(width), Linear(width)) if maps == "maps" else None
        model = EmbeddingLearner(getattr(losses, loss)(), embedding)
    else:
        model = getattr(metricfast, learner)()
    known = model.get_params(deep=False)
    return model.set_params(**{name: value for name, value in params.items() if name in known})


def _suits(learner: str, kind: Kind, split: Split) -> bool:
    if learner != "AutoLearner" and (learner in NUMERIC) != ("ndcg_at_k" in kind.metrics):
        return False
    if learner.startswith("maps-"):
        return split.second is not None
    return split.train[0].shape[1] == split.database[0].shape[1]


def one_view(split: Split) -> Points:
    """Return the training points of both views."""
    views = [split.train] if split.second is None else [split.train, split.second]
    return np.concatenate([X for X, _ in views]), np.concatenate([y for _, y in views])


def _correlated(*views: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the directions of canonical correlation of two views, of equal spread."""
    (u, s, v), (u_2, s_2, v_2) = (
        np.linalg.svd(X - X.mean(axis=0), full_matrices=False) for X in views
    )
    left, _, right = np.linalg.svd(u.T @ u_2, full_matrices=False)
    return v.T / s @ left, v_2.T / s_2 @ right.T


def _unlearned(split: Split) -> Iterator[tuple[str, Any, Any]]:
    """Yield the names of the distances to beat, embedded queries and embedded database."""
    queries, database = split.queries[0], split.database[0]
    if queries.shape[1] == database.shape[1]:
        yield "given", queries, database
        spread = one_view(split)[0].std(axis=0)
        spread[spread == 0] = 1
        yield "standardised", queries / spread, database / spread
    else:
        maps = _correlated(split.train[0], split.second[0])
        means = split.train[0].mean(axis=0), split.second[0].mean(axis=0)
        points = zip((queries, database), means, maps, strict=True)
        yield "given", *(normalize((X - mean) @ each) for X, mean, each in points)


def difference(values: list[np.ndarray], given: list[np.ndarray], groups: list[np.ndarray]) -> Any:
    """Return the mean difference of two values of the same queries, and its standard error.

    Each list has an array a split. NaN is left out.
    """
    found = [a - b for a, b in zip(values, given, strict=True)]
    kept = [np.isfinite(each) for each in found]
    found = [each[some] for each, some in zip(found, kept, strict=True)]
    numbers = np.concatenate([each[some] for each, some in zip(groups, kept, strict=True)])
    every = np.concatenate(found)
    codes = np.unique(numbers, return_inverse=True)[1]
    of_groups = np.bincount(codes, every - every.mean())
    error = np.linalg.norm(of_groups) / len(every)
    if len(found) > 1:
        means = [each.mean() for each in found]
        error = max(error, np.std(means, ddof=1) / np.sqrt(len(means)))
    return every.mean(), error


def _values(kind: Kind, split: Split, queries: Any, database: Any, n_jobs: int) -> Values:
    """Return the metrics of each query, by name."""
    own = np.arange(len(queries)) if split.database is split.queries else None
    report = retrieval_report(
        queries, split.queries[1], database, split.database[1], metrics=list(kind.metrics),
        exclude=own, baselines=False, n_jobs=n_jobs,
    )  # fmt: skip
    return {name: report[name].values for name in kind.metrics}


def _fit(learner: str, split: Split, seed: int, n_jobs: int, unit: str = "auto") -> tuple[Any, Any]:
    """Return embedded queries and embedded database; the judge holds out `unit`."""
    width = min(split.train[0].shape[1], split.database[0].shape[1])
    params = {} if unit == "auto" else {"judge": Judge(unit=unit)}
    model = make(learner, width, random_state=seed, n_jobs=n_jobs, **params)
    if learner.startswith("maps-"):
        model.fit(*split.train, *split.second)
    else:
        model.fit(*one_view(split))
    takes_side = "side" in inspect.signature(model.transform).parameters
    query, database = ({"side": side} if takes_side else {} for side in ("query", "database"))
    return (
        model.transform(split.queries[0], **query),
        model.transform(split.database[0], **database),
    )


class Row(NamedTuple):
    """A learner on a kind of data: mean difference, and whether it is below zero beyond chance."""

    data: str
    new: str
    learner: str
    metric: str
    difference: float
    below: bool


def compare(
    name: str, learners: list[str], n_splits: int, n_jobs: int, unit: str = "auto"
) -> Iterator[Row]:
    """Print and yield the rows of a kind of data."""
    kind = KINDS[name]
    arrays = kind.read()
    splits = [kind.split(seed, *arrays) for seed in range(n_splits)]
    learners = [each for each in learners if each in LEARNERS and _suits(each, kind, splits[0])]
    groups = [split.groups for split in splits]
    unlearned: dict[str, list[Values]] = {}
    for split in splits if learners else []:
        for distance, *points in _unlearned(split):
            unlearned.setdefault(distance, []).append(_values(kind, split, *points, n_jobs))
    for learner in learners:
        values, seconds = [], []
        try:
            for seed, split in enumerate(splits):
                start = time.process_time()
                embedded = _fit(learner, split, seed, n_jobs, unit)
                seconds.append(time.process_time() - start)
                values.append(_values(kind, split, *embedded, n_jobs))
        except ValueError as error:
            print(f"| {name} | {kind.new} | {learner} | {str(error).partition(chr(10))[0]} |")
            continue
        for metric in kind.metrics:
            names = name, kind.new, learner, metric
            given = {distance: _of(metric, each) for distance, each in unlearned.items()}
            yield _row(names, _of(metric, values), given, groups, seconds)


def _of(metric: str, splits: list[Values]) -> list[np.ndarray]:
    return [values[metric] for values in splits]


def _row(
    names: tuple[str, str, str, str], values: list[np.ndarray],
    unlearned: dict[str, list[np.ndarray]], groups: list[np.ndarray], seconds: list[float],
) -> Row:  # fmt: skip
    """Print and return a row. Lists have values of the queries of each split."""
    means = {distance: np.nanmean(np.concatenate(each)) for distance, each in unlearned.items()}
    mean, error = difference(values, unlearned[max(means, key=means.get)], groups)
    row = Row(*names, mean, mean < -ERRORS * error)
    shares = [means.get(each, np.nan) for each in ("given", "standardised")]
    shares.append(np.nanmean(np.concatenate(values)))
    cells = [*names, *(f"{share:.3f}" for share in shares)]
    cells += [f"{mean:+.4f}", f"{error:.4f}", "x" if row.below else ""]
    print(f"| {' | '.join(cells)} | {np.mean(seconds):.2f} |", flush=True)
    return row


def compare_adapters(name: str, learners: list[str], n_splits: int, n_jobs: int) -> Iterator[Row]:
    """Print and yield the rows of a kind of pairs."""
    for learner in (each for each in learners if each in ADAPTERS):
        side = learner.partition("-")[2]
        given, values, groups, seconds = [], [], [], []
        for seed in range(n_splits):
            task = never_worse_adapters.task(name, side, seed)
            if task is None:
                print(f"| {name} | {learner} | too few pairs |", flush=True)
                return
            model = metricfast.AdapterLearner(side, random_state=seed, n_jobs=n_jobs)
            start = time.process_time()
            model.fit(*task.train)
            seconds.append(time.process_time() - start)
            values.append(task.mapped(model.parameters_[0]))
            given.append(task.given())
            groups.append(np.arange(len(given[-1])))
        new = never_worse_adapters.KINDS[name][0].new
        yield _row((name, new, learner, "rank"), values, {"given": given}, groups, seconds)


def choose_names(names: Iterable[str], patterns: list[str] | None, option: str) -> list[str]:
    """Return the names that match a pattern; exit if none does."""
    chosen = [n for n in names if not patterns or any(fnmatch(n, each) for each in patterns)]
    if not chosen:
        found = " ".join(patterns or [])
        raise SystemExit(f"no name matches {option} {found}: there are {', '.join(names)}")
    return chosen


def _print_means(metric: str, rows: list[Row]) -> None:
    print(f"\n{metric}\n\n| learner | new points | new classes | all |\n|---|---|---|---|")
    for learner in [*dict.fromkeys(row.learner for row in rows), "all"]:
        ours = [row for row in rows if learner in (row.learner, "all")]
        new_points = [row for row in ours if row.new != CLASSES]
        new_classes = [row for row in ours if row.new == CLASSES]
        parts = [[row.difference for row in some] for some in (new_points, new_classes, ours)]
        cells = [f"{np.mean(part):+.4f}" if part else "" for part in parts]
        print(f"| {learner} | {' | '.join(cells)} |")


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", action="append", metavar="PATTERN", help="kinds of data")
    parser.add_argument("--learner", action="append", metavar="PATTERN", help="learners")
    parser.add_argument("--splits", type=int, default=5, help="number of splits of each kind")
    parser.add_argument("--n-jobs", type=int, default=1, help="number of threads")
    parser.add_argument(
        "--unit", choices=["auto", "points", "classes"], default="auto",
        help="what the judge holds out; adapters have no unit",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="print kinds of data and learners")
    options = parser.parse_args()
    kinds = choose_names([*KINDS, *never_worse_adapters.KINDS], options.data, "--data")
    learners = choose_names([*LEARNERS, *ADAPTERS], options.learner, "--learner")
    if options.list:
        print("data:", *kinds, "\nlearners:", *learners)
        return
    warnings.simplefilter("ignore")
    print(f"| {' | '.join(HEAD)} |\n{'|---' * len(HEAD)}|")
    rows: list[Row] = []
    with threadpool_limits(options.n_jobs):
        for name in kinds:
            rows_of = partial(compare, unit=options.unit) if name in KINDS else compare_adapters
            try:
                rows += rows_of(name, learners, options.splits, options.n_jobs)
            except FileNotFoundError as error:
                print(f"| {name} | no {error.filename}: see benchmarks/DATA.md |", flush=True)
            except ModuleNotFoundError as error:
                print(f"| {name} | no package {error.name} |", flush=True)
    for metric in dict.fromkeys(row.metric for row in rows):
        _print_means(metric, [row for row in rows if row.metric == metric])
    below = ", ".join(f"{row.learner} on {row.data} ({row.metric})" for row in rows if row.below)
    print(f"\nBelow by more than two standard errors: {below or 'none'}.")


if __name__ == "__main__":
    main()
