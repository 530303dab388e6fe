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
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest
from sklearn import datasets
from sklearn.base import BaseEstimator, clone
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import metricfast

__all__ = ["main"]

DATA = ("wine", "iris", "breast_cancer", "digits")
N_NEIGHBORS = 3
N_FOLDS = 5
N_COMPONENTS = 8
LEVEL = 0.05
# What the demo leaves out: these learn from numbers, or for queries unlike the database.
OTHER_TASKS = {
    "AsymmetricSimilarity",
    "LogRatioLearner",
    "MLKR",
    "NeighborhoodGerrymanderingRegressor",
}
MANY_POINTS = {"ProxyNCALearner", "TripletLearner"}
COMPACT_CLASSES = {"LDML", "MCML", "MMC_Supervised", "NCMML"}
ADVICE = (
    "better, worse: at the same points, with less than one chance in twenty to see it by luck;\n"
    "of twenty learners that are all the same, one would seem so. What helps, mostly in this order:"
    "\nfeatures in comparable units; a learner that suits the data; fewer components, where speed\n"
    "or a picture needs them, and where points are few for the features, as full maps overfit."
)


class Row(NamedTuple):
    """A line of the table; `change` is "better", "worse" or "" beside the metric of the group."""

    data: str
    learner: str
    error: float
    change: str


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
    print("\n".join(verdict([row for name in names for row in compare(name)])))
    print(ADVICE)
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


def compare(name: str) -> Iterator[Row]:
    """Print a row for each learner as soon as it is known, and yield it."""
    X, y = load(name)
    folds = list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=0).split(X, y))
    given = getattr(datasets, f"load_{name}")().data
    n_points, n_features = X.shape
    print(
        f"\n{name}: {n_points} points, {n_features} features, {len(np.unique(y))} classes; "
        f"{mistakes(given, y, folds).mean():.2%} in the units as given"
    )
    left_out = [learner.__name__ for learner in learners(X, suited=False)]
    print(f"left out, as made for other data: {', '.join(left_out)}")
    groups = [("Euclidean", None, [repeatable(learner()) for learner in learners(X)])]
    if n_features > N_COMPONENTS:
        few = [metricfast.LFDA, metricfast.LMNN, metricfast.NCA]
        reduced = [repeatable(learner(n_components=N_COMPONENTS)) for learner in few]
        groups.append((f"PCA to {N_COMPONENTS}", PCA(N_COMPONENTS, random_state=0), reduced))
    for baseline, reference, estimators in groups:
        before = mistakes(X, y, folds, reference)
        print(f"{baseline:<30}{before.mean():>8.2%} ± {half_width(before):.2%}")
        for estimator in estimators:
            start = time.perf_counter()
            wrong = mistakes(X, y, folds, estimator)
            seconds = (time.perf_counter() - start) / N_FOLDS
            label = type(estimator).__name__ + ("" if reference is None else f" to {N_COMPONENTS}")
            row = Row(name, label, float(wrong.mean()), change(before, wrong))
            print(
                f"{label:<30}{row.error:>8.2%} ± {half_width(wrong):.2%}"
                f"{seconds:>8.2f} s  {row.change}".rstrip(),
                flush=True,
            )
            yield row


def verdict(rows: Sequence[Row]) -> list[str]:
    """Say for each data set which learners were better or worse, and which the best."""
    lines = []
    for name in dict.fromkeys(row.data for row in rows):
        found = [row for row in rows if row.data == name]
        told = []
        for word in ("better", "worse"):
            those = [row.learner for row in found if row.change == word]
            told.append(f"{word}: {', '.join(those) or 'none'}")
        best = min(found, key=lambda row: row.error)
        same = sum(not row.change for row in found)
        lines.append(
            f"\n{name}: {'; '.join(told)}; no different: {same}; "
            f"lowest {best.error:.2%} by {best.learner}"
        )
    return lines


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Load a data set that ships with scikit-learn, with features on comparable scales."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    # pixels share a unit, so one factor brings them to [0, 1] and leaves Euclidean kNN as it is
    return (X / 16 if name == "digits" else StandardScaler().fit_transform(X)), y


def supervised_learners() -> list[type[BaseEstimator]]:
    """Every learner of a map for classes that needs nothing but points and labels, X and y."""
    found = [getattr(metricfast, name) for name in metricfast.learners.__all__]
    return [
        learner
        for learner in found
        if issubclass(learner, metricfast.MetricTransformer)
        and _required_arguments(learner.fit) == ["X", "y"]
        and not _required_arguments(learner.__init__)
        and learner.__name__ not in OTHER_TASKS
    ]


def learners(X: np.ndarray, suited: bool = True) -> list[type[BaseEstimator]]:
    """Those that suit points like X, or those that do not.

    Mini-batches need many points, and learners that draw whole classes together few shapes a class.
    """
    unsuited = MANY_POINTS if len(X) < 1000 else COMPACT_CLASSES
    return [each for each in supervised_learners() if (each.__name__ not in unsuited) is suited]


def _required_arguments(method: Callable[..., object]) -> list[str]:
    parameters = list(inspect.signature(method).parameters.values())[1:]  # without self
    return [parameter.name for parameter in parameters if parameter.default is parameter.empty]


def repeatable(learner: BaseEstimator) -> BaseEstimator:
    """Fix what is drawn at random."""
    return learner.set_params(random_state=0) if "random_state" in learner.get_params() else learner


def fit(learner: BaseEstimator, X: np.ndarray, y: np.ndarray) -> BaseEstimator:
    """Fit without advice, such as to raise the iteration limit: the table shows the result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return learner.fit(X, y)


def mistakes(
    X: np.ndarray,
    y: np.ndarray,
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    estimator: BaseEstimator | None = None,
) -> np.ndarray:
    """Tell which points their nearest training points vote into a wrong class, when held out."""
    wrong = np.empty(len(X), bool)
    for train, test in folds:
        Z = X if estimator is None else fit(clone(estimator), X[train], y[train]).transform(X)
        classifier = KNeighborsClassifier(N_NEIGHBORS).fit(Z[train], y[train])
        wrong[test] = classifier.predict(Z[test]) != y[test]
    return wrong


def half_width(wrong: np.ndarray) -> float:
    """Half of the 95 % interval of a share."""
    return float(1.96 * wrong.std() / np.sqrt(len(wrong)))


def change(before: np.ndarray, after: np.ndarray) -> str:
    """Compare mistakes at the same points by McNemar's exact test."""
    gained, lost = int((before & ~after).sum()), int((after & ~before).sum())
    if gained == lost or binomtest(gained, gained + lost).pvalue >= LEVEL:
        return ""
    return "better" if gained > lost else "worse"


if __name__ == "__main__":
    sys.exit(main())
