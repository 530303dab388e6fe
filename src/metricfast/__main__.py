"""The command line: ``python -m metricfast demo`` and ``python -m metricfast info``."""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from sklearn import datasets
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.metrics import zero_one_loss
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import metricfast

__all__ = ["main"]

DATA = ("wine", "iris", "breast_cancer", "digits")
N_NEIGHBORS = 3
N_FOLDS = 5
OVERFITTING = (
    "A full-rank map can overfit small or clean data. A smaller n_components or max_iter\n"
    "(stopping early) restrains it; compare on held-out points, as above."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; bad arguments exit with code 2."""
    parser = argparse.ArgumentParser(prog="python -m metricfast", description="Metric learning.")
    commands = parser.add_subparsers(dest="command", required=True)
    demo_parser = commands.add_parser("demo", help="learn metrics, print a table, draw a picture")
    demo_parser.add_argument(
        "--data", choices=DATA, nargs="+", default=DATA, help="data sets; the last is drawn"
    )
    demo_parser.add_argument(
        "--output", type=Path, default=Path("metricfast-demo.png"), help="the picture, a PNG file"
    )
    commands.add_parser("info", help="print how this copy was built and what it runs on")
    options = parser.parse_args(arguments)
    if options.command == "info":
        for key, value in metricfast.build_info().items():
            print(f"{key}: {value}")
        return 0
    if options.output.suffix != ".png" or not options.output.parent.is_dir():
        demo_parser.error(f"argument --output: no PNG file can be written at {options.output}")
    return demo(options.data, options.output)


def demo(names: Sequence[str], output: Path) -> int:
    """Compare every supervised learner with the Euclidean metric and draw a 2-D embedding."""
    try:
        plotting = importlib.import_module("metricfast.plotting")
    except ImportError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{N_NEIGHBORS}-NN error on held-out points, each held out once in {N_FOLDS} folds")
    print(f"{'data':<16}{'learner':<18}{'Euclidean':>10}{'learned':>10}{'fit':>10}")
    print(verdict([row for name in names for row in compare(name)]))
    X_train, X_test, y_train, y_test = train_test_split(*load(names[-1]), random_state=0)
    nca = fit(metricfast.NCA(n_components=2, random_state=0), X_train, y_train)
    figure = plotting.plot_before_after(
        PCA(2).fit(X_train).transform(X_test),
        nca.transform(X_test),
        y_test,
        titles=("PCA to 2", "NCA to 2"),
    )
    figure.savefig(output, dpi=100)
    print(f"held-out {names[-1]} in two dimensions, before and after: {output.resolve()}")
    return 0


def compare(name: str) -> Iterator[tuple[str, str, float, float]]:
    """Print a row for each learner as soon as it is known; yield learner, data and both errors."""
    X, y = load(name)
    folds = list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=0).split(X, y))
    sizes = [len(test) for _, test in folds]
    before = float(np.average([knn_error(X, y, *fold) for fold in folds], weights=sizes))
    for learner in supervised_learners():
        errors, seconds = zip(*(fit_and_score(learner, X, y, *fold) for fold in folds), strict=True)
        after = float(np.average(errors, weights=sizes))
        print(
            f"{name:<16}{learner.__name__:<18}{before:>10.2%}{after:>10.2%}"
            f"{np.mean(seconds):>8.2f} s",
            flush=True,
        )
        yield learner.__name__, name, before, after


def verdict(rows: Sequence[tuple[str, str, float, float]]) -> str:
    """Say for each data set how often learning helped; a row is learner, data, before, after."""
    lines, harmed = [], False
    for name in dict.fromkeys(data for _, data, _, _ in rows):
        found = [row for row in rows if row[1] == name]
        equal = sum(bool(np.isclose(after, before)) for _, _, before, after in found)
        lower = sum(
            after < before for _, _, before, after in found if not np.isclose(after, before)
        )
        best, _, _, lowest = min(found, key=lambda row: row[3])
        higher = len(found) - equal - lower
        harmed |= higher > 0
        lines.append(
            f"{name}: of {len(found)} learners {lower} below Euclidean, {equal} equal, "
            f"{higher} above; lowest {lowest:.2%} by {best}"
        )
    return "\n".join([*lines, OVERFITTING] if harmed else lines)


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Load a data set that ships with scikit-learn, with features on comparable scales."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    # pixels share a unit, so one factor brings them to [0, 1] and leaves Euclidean kNN as it is
    return (X / 16 if name == "digits" else StandardScaler().fit_transform(X)), y


def supervised_learners() -> list[type[BaseEstimator]]:
    """Every learner of a map that needs nothing but points and labels, X and y."""
    learners = [getattr(metricfast, name) for name in metricfast.learners.__all__]
    return [
        learner
        for learner in learners
        if issubclass(learner, metricfast.MetricTransformer)
        and _required_arguments(learner.fit) == ["X", "y"]
        and not _required_arguments(learner.__init__)
    ]


def _required_arguments(method: Callable[..., object]) -> list[str]:
    parameters = list(inspect.signature(method).parameters.values())[1:]  # without self
    return [parameter.name for parameter in parameters if parameter.default is parameter.empty]


def fit(learner: BaseEstimator, X: np.ndarray, y: np.ndarray) -> BaseEstimator:
    """Fit without advice, such as to raise the iteration limit: the table shows the result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return learner.fit(X, y)


def knn_error(X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
    """Share of test points that their nearest training points vote into a wrong class."""
    classifier = KNeighborsClassifier(N_NEIGHBORS).fit(X[train], y[train])
    return float(zero_one_loss(y[test], classifier.predict(X[test])))


def fit_and_score(
    learner: type[BaseEstimator], X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray
) -> tuple[float, float]:
    """Error after learning on the training points, and the seconds that learning took."""
    start = time.perf_counter()
    estimator = fit(learner(), X[train], y[train])
    seconds = time.perf_counter() - start
    return knn_error(estimator.transform(X), y, train, test), seconds


if __name__ == "__main__":
    sys.exit(main())
