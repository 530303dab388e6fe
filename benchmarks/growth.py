"""How time and memory grow with points, features, classes and neighbours.

    python -m benchmarks.growth [--only PATTERN]... [--axis AXIS]... [--large] [--limit SECONDS]

Runs each public learner, predictor, search and metric with default parameters on one thread, at two
sizes of each axis: points, features, "wide" (features of 60 points), classes, neighbours. Prints
the processor time and the peak memory of the larger size, and the powers of the size that they
grow with. An x marks what grows faster than the documentation promises, fails, or takes longer
than the limit. The last line names what is marked, and the exit status is 1 if there is any.

`--large` multiplies the sizes by 8. Patterns may contain wildcards: "kneighbors*".
"""

from __future__ import annotations

__all__ = ["AXES", "CALLS", "Size", "main", "measured"]

import argparse
import inspect
import math
import multiprocessing
import resource
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import partial
from typing import Any

import numpy as np
from sklearn import config_context
from threadpoolctl import threadpool_limits

import metricfast
from benchmarks.worker import memory, new_peak
from metricfast import inference, losses, metrics, neighbors

Array = np.ndarray
Call = Callable[[], Any]


@dataclass(frozen=True)
class Size:
    """The size of the data, and the number of neighbours if it is not the default."""

    points: int = 400
    features: int = 16
    classes: int = 5
    neighbors: int | None = None


# Two sizes of each axis.
AXES = {
    "points": (Size(), Size(1600)),
    "features": (Size(), Size(features=64)),
    "wide": (Size(60, 300), Size(60, 1200)),
    "classes": (Size(1600, 8, 25), Size(1600, 8, 400)),
    "neighbors": (Size(neighbors=2), Size(neighbors=16)),
}
# The largest powers of time, and of memory. All pairs of points, but in blocks; a decomposition of
# a features x features matrix, but never of more features than points.
TIME = {"points": 2, "features": 3, "wide": 1, "classes": 1, "neighbors": 1.5}
MEMORY = {"points": 1, "features": 2, "wide": 1, "classes": 1, "neighbors": 1}
# Powers of calls that do not work in the span of wide points: SCML needs as many triplets as
# features, and `partial_fit` does not know the points of later calls.
OF_ALL_FEATURES = {"SCML": (2, 2), "LFDA.partial_fit": (3, 2)}
# Powers that are measured with an error of up to .3. Below these seconds and bytes they are noise.
SLACK, SECONDS, BYTES = 0.3, 0.5, 32 << 20
BLOCKS = 64  # mebibytes that calls may take for blocks
# Points of a tuple, for learners of tuples.
WIDTHS = {"GMML": 2, "ITML": 2, "KISSME": 2, "MMC": 2, "SDML": 2, "OASIS": 3, "SCML": 3, "LSML": 4}
NAMES = ("n_neighbors", "k")  # parameters that count neighbours
LARGE = 8
# Standard deviation of class means, in units of the points' own: classes overlap a little.
SEPARATION = 3


def data(size: Size) -> tuple[Array, Array]:
    """Return points around the means of their classes, and the classes."""
    rng = np.random.default_rng(0)
    y = np.arange(size.points) % size.classes
    means = rng.normal(size=(size.classes, size.features)) / math.sqrt(size.features)
    return rng.normal(size=(size.points, size.features)) + SEPARATION * means[y], y


def _fit(kind: type, size: Size) -> Call:
    """Return a call that fits an estimator, and predicts if it is a predictor."""
    X, y = data(size)
    known = inspect.signature(kind).parameters
    params: dict[str, Any] = {"random_state": 0} if "random_state" in known else {}
    if size.neighbors is not None:
        params |= {name: size.neighbors for name in NAMES if name in known}
    needed = {"loss": losses.SupCon(), "learner": metricfast.LFDA()}
    params |= {name: needed[name] for name in needed if _is_required(known, name)}
    if kind is metricfast.FixedDatabase:
        params = {"estimator": metricfast.AsymmetricSimilarity(random_state=0)}
        params |= {"X_database": X[: len(X) // 2], "y_database": y[: len(X) // 2]}
    if "radius" in known:
        params["radius"] = math.sqrt(size.features)
    model, given = kind(**params), _arguments(kind.__name__, X, y)

    def call() -> None:
        model.fit(*given)
        for method in ("predict", "kneighbors"):
            if hasattr(model, method) and kind.__name__ not in WIDTHS:
                getattr(model, method)(X)
                break

    return call


def _is_required(parameters: Any, name: str) -> bool:
    return name in parameters and parameters[name].default is inspect.Parameter.empty


def _arguments(name: str, X: Array, y: Array) -> tuple[Any, ...]:
    """Return the arguments of `fit` of an estimator."""
    rng = np.random.default_rng(1)
    if name == "AdapterLearner":
        pairs = rng.integers(len(X), size=(len(X), 2))
        return X[pairs], (y[pairs[:, 0]] == y[pairs[:, 1]]).astype(float)
    if any(name.startswith(each) for each in ("MLKR", "LogRatio")) or "Regressor" in name:
        return X, np.sin(X[:, 0]) + X[:, 1]
    if name not in WIDTHS:
        return X, y
    a, b, c, d = metricfast.Constraints(y).positive_negative_pairs(len(X) // 2, random_state=0)
    if WIDTHS[name] == 4:
        return (X[np.c_[a, b, c, d]],)
    if WIDTHS[name] == 3:
        triplets = np.c_[a, b, np.where(y[c] == y[a], d, c)]
        count = max(len(a), X.shape[1] if name == "SCML" else 0)
        return (X[np.resize(triplets, (count, 3))],)
    return X[np.r_[np.c_[a, b], np.c_[c, d]]], np.repeat([1, -1], len(a))


def _estimators() -> dict[str, Callable[[Size], Call]]:
    """Return the public estimators."""
    names = [name for name in metricfast.__all__ if name[0].isupper()]
    public = [getattr(metricfast, name) for name in names]
    public += [getattr(neighbors, name) for name in neighbors.__all__]
    kinds = [kind for kind in public if inspect.isclass(kind) and hasattr(kind, "fit")]
    return {
        kind.__name__: partial(_fit, kind)
        for kind in dict.fromkeys(kinds)
        if not kind.__name__.endswith("Mixin") and not inspect.isabstract(kind)
    }


def _function(call: Callable[[Array, Array, int], Any], size: Size) -> Call:
    X, y = data(size)
    return partial(call, X, y, size.neighbors or 5)


# Functions of points, classes and a number of neighbours.
FUNCTIONS: dict[str, Callable[[Array, Array, int], Any]] = {
    "kneighbors": lambda X, y, k: neighbors.kneighbors(X, X, k),
    "kneighbors, ties": lambda X, y, k: neighbors.kneighbors(np.eye(*X.shape), np.eye(*X.shape), k),
    "Database": lambda X, y, k: metricfast.Database(X).kneighbors(X, k),
    "kneighbors_graph": lambda X, y, k: neighbors.kneighbors_graph(X, k),
    "kneighbors_per_class": lambda X, y, k: neighbors.kneighbors_per_class(X, X, y, 1),
    "radius_neighbors": lambda X, y, k: neighbors.radius_neighbors(X, X, X.shape[1] ** 0.5),
    "radius_neighbors_graph": lambda X, y, k: neighbors.radius_neighbors_graph(
        X, X.shape[1] ** 0.5
    ),
    "pairwise_distances": lambda X, y, k: metricfast.pairwise_distances(X[:1000], X),
    "paired_distances": lambda X, y, k: metricfast.paired_distances(X, X[::-1]),
    "metric_gradient": lambda X, y, k: metricfast.metric_gradient(
        X[:400], np.ones((len(X[:400]), len(X))), X, L=np.eye(16, X.shape[1])
    ),
    "inference.both": lambda X, y, k: inference.both(X, X, y, y, k),
    "generate_knntriplets": lambda X, y, k: metricfast.Constraints(y).generate_knntriplets(X, k, k),
    "cross_validate_retrieval": lambda X, y, k: metrics.cross_validate_retrieval(
        metricfast.LFDA(), X, y, folds=2
    ),
    "verification_report": lambda X, y, k: metrics.verification_report(
        np.where(y % 2, 1, -1), X[:, 0] ** 2
    ),
    "LFDA.partial_fit": lambda X, y, k: _partial_fit(metricfast.LFDA(), X, y),
}


SCORES = ("map_at_r", "mean_average_precision", "mean_reciprocal_rank", "precision_at_1")
SCORES += ("r_precision", "retrieval_report")


def _scores() -> dict[str, Callable[[Array, Array, int], Any]]:
    """Return the metrics of retrieval."""

    def at(name: str, X: Array, y: Array, k: int) -> Any:
        return getattr(metrics, name)(X, y, k=k)

    def of_all(name: str, X: Array, y: Array, k: int) -> Any:
        del k
        return getattr(metrics, name)(X, y)

    names = [name for name in metrics.__all__ if name.endswith("_at_k")]
    return {name: partial(at, name) for name in names} | {
        name: partial(of_all, name) for name in SCORES
    }


def _partial_fit(learner: Any, X: Array, y: Array) -> None:
    for rows in np.array_split(np.argsort(y, kind="stable"), 2):
        learner.partial_fit(X[rows], y[rows])


CALLS: dict[str, Callable[[Size], Call]] = {
    **_estimators(),
    **{name: partial(_function, call) for name, call in (FUNCTIONS | _scores()).items()},
}


def measured(prepare: Callable[[Size], Call], size: Size, limit: float) -> tuple[float, float, str]:
    """Return seconds of processor time, bytes, and the error, of a call in a process of its own."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(prepare, size, limit, sender))
    process.start()
    sender.close()
    try:
        found: tuple[float, float, str] = receiver.recv()
    except EOFError:  # killed by the limit of processor time
        found = math.inf, math.nan, f"took over {limit:.0f} s"
    process.join()
    return found


def _run(prepare: Callable[[Size], Call], size: Size, limit: float, sender: Any) -> None:
    warnings.simplefilter("ignore")
    call = prepare(size)
    before, start = new_peak() or 0, time.process_time()
    most = math.ceil(start + limit)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    try:
        # Blocks are full at the smaller size.
        with threadpool_limits(1), config_context(working_memory=BLOCKS):
            call()
        error = ""
    except Exception as failed:
        error = f"{type(failed).__name__}: {failed}".splitlines()[0]
    sender.send((time.process_time() - start, max(memory("VmHWM") - before, 0), error))


def power(small: float, large: float, ratio: float, least: float) -> float:
    """Return the power of the size that a cost grows with; 0 for costs that are noise."""
    if not large > least:
        return 0.0
    return math.log(large / max(small, least / ratio)) / math.log(ratio)


def _promised(name: str, axis: str) -> tuple[float, float]:
    """Return the largest powers of time and of memory."""
    if axis == "wide" and name in OF_ALL_FEATURES:
        return OF_ALL_FEATURES[name]
    return TIME[axis], MEMORY[axis]


def _ratio(small: Size, large: Size) -> float:
    return max(b / a for a, b in zip(_numbers(small), _numbers(large), strict=True))


def _numbers(size: Size) -> tuple[int, ...]:
    return size.points, size.features, size.classes, size.neighbors or 1


def _grown(size: Size, axis: str) -> Size:
    """Return a size of `--large`."""
    if axis in ("features", "wide"):
        return replace(size, features=LARGE * size.features)
    return replace(size, points=LARGE * size.points)


def main(args: Sequence[str] | None = None) -> int:
    """Print the table, and return the number of calls that are marked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", metavar="PATTERN")
    parser.add_argument("--axis", action="append", choices=AXES)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS")
    options = parser.parse_args(args)
    for pattern in options.only or []:
        if not any(fnmatch(name, pattern) for name in CALLS):
            sys.exit(f"--only {pattern}: there are {', '.join(CALLS)}")
    marked = []
    print(f"{'':36}{'axis':>10}{'size':>22}{'CPU s':>9}{'power':>7}{'MiB':>8}{'power':>7}")
    for name, prepare in CALLS.items():
        if options.only and not any(fnmatch(name, pattern) for pattern in options.only):
            continue
        for axis in options.axis or AXES:
            sizes = [_grown(size, axis) if options.large else size for size in AXES[axis]]
            small, large = (measured(prepare, size, options.limit) for size in sizes)
            ratio, error = _ratio(*sizes), small[2] or large[2]
            of_time = power(small[0], large[0], ratio, SECONDS)
            of_memory = power(small[1], large[1], ratio, BYTES)
            most = _promised(name, axis)
            above = of_time > most[0] + SLACK or of_memory > most[1] + SLACK
            marked += [f"{name} ({axis})"] if above or error else []
            shape = " x ".join(map(str, _numbers(sizes[1])[:3]))
            print(
                f"{name:36}{axis:>10}{shape:>22}{large[0]:>9.2f}{of_time:>7.1f}"
                f"{large[1] / 2**20:>8.0f}{of_memory:>7.1f}{' x' * bool(above or error)} {error}",
                flush=True,
            )
    print("Marked: " + (", ".join(marked) or "none"))
    return len(marked)


if __name__ == "__main__":
    sys.exit(main() > 0)
