"""Study: do a map for each class, or boosted trees, improve on the map of LMNN?

    python -m benchmarks.study_local [--data NAME]... [--splits N] [--depth D]

Prints, for each data set of `study_defaults`, the mean error in percent of 3 nearest neighbours
under the Euclidean distance, `LMNN`, `MultiMetricLMNN`, and trees that are added to the map of
`LMNN`, each fitted to the gradient of its loss (GB-LMNN: D. Kedem et al., "Non-linear metric
learning", NIPS 2012). A fifth of the training points chooses the number of trees.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import warnings

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit, train_test_split
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

import metricfast as mf
from benchmarks.study_defaults import SETS, load
from metricfast import losses

K, TREES, PATIENCE = 3, 150, 40


def error(Z: np.ndarray, y: np.ndarray, Z_test: np.ndarray, y_test: np.ndarray) -> float:
    judge = mf.KNeighborsClassifier(K, metric="euclidean").fit(Z, y)
    return 1 - judge.score(Z_test, y_test)


def targets(Z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the nearest points of the same class, padded with -1, for each point."""
    found = np.full((len(y), K), -1)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        k = min(K, len(rows) - 1)
        if k > 0:
            found[rows, :k] = rows[mf.kneighbors(Z[rows], n_neighbors=k)[1]]
    return found


def boosted(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, L: np.ndarray, depth: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return training and test points, mapped by L plus the best number of trees."""
    fit, held = train_test_split(np.arange(len(y)), test_size=0.2, random_state=0, stratify=y)
    Z, Z_test, loss = X @ L.T, X_test @ L.T, losses.LMNN(K)
    near = targets(Z[fit], y[fit])
    value, gradient = loss(Z[fit], y[fit], targets=near)
    least, best, since, step = error(Z[fit], y[fit], Z[held], y[held]), (Z, Z_test), 0, None
    for number in range(1, TREES + 1):
        tree = DecisionTreeRegressor(max_depth=depth, random_state=number).fit(X[fit], -gradient)
        along = tree.predict(X)
        length = np.sqrt((along[fit] ** 2).sum(axis=1).mean())
        if length == 0:
            break
        step = 2 * step if step else 0.1 * np.sqrt(Z[fit].var(axis=0).sum()) / length
        for _ in range(30):
            new, new_gradient = loss(Z[fit] + step * along[fit], y[fit], targets=near)
            if new < value - 1e-12 * abs(value):
                break
            step /= 2
        else:
            break
        value, gradient = new, new_gradient
        Z, Z_test = Z + step * along, Z_test + step * tree.predict(X_test)
        now = error(Z[fit], y[fit], Z[held], y[held])
        since += 1
        if now < least - 1e-12:
            least, best, since = now, (Z, Z_test), 0
        elif since >= PATIENCE:
            break
    return best


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", action="append", choices=SETS)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--depth", type=int, default=4)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| | Euclidean | LMNN | MultiMetricLMNN | trees |\n|---|---|---|---|---|")
    for name in options.data or SETS:
        X, y = load(name)
        rows = []
        splitter = StratifiedShuffleSplit(options.splits, test_size=0.2, random_state=0)
        for train, test in splitter.split(X, y):
            points, labels, queries, truth = X[train], y[train], X[test], y[test]
            L = mf.LMNN(random_state=0).fit(points, labels).components_
            each = mf.MultiMetricLMNN().fit(points, labels)
            with threadpool_limits(1, "blas"):
                mapped, mapped_queries = boosted(points, labels, queries, L, options.depth)
            rows.append(
                [
                    error(points, labels, queries, truth),
                    error(points @ L.T, labels, queries @ L.T, truth),
                    1 - each.score(queries, truth),
                    error(mapped, labels, mapped_queries, truth),
                ]
            )
        cells = (f"{100 * mean:.1f}" for mean in np.mean(rows, axis=0))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
