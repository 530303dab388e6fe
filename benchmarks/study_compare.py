"""Study: does the race of `compare` find as good a learner as trying all to the end?

    python -m benchmarks.study_compare [--sets PATTERN...] [--points N] [--draws N]

Prints a line for each data set. A third of the points is held out, at random in each draw. On the
other points, `compare(race=True)` and `compare(race=False)` choose among all learners by their
defaults, and `AutoLearner` chooses among its learners. The columns are the share of held-out points
that the best estimator of each classifies correctly, and the share by 5 Euclidean neighbours of the
points as given and standardised, whichever is better on the other points; the difference of the
race from the full run and its standard error, over points or over draws if that is larger; and CPU
seconds. An x marks differences below zero by more than two standard errors. The last columns have
the choices of each draw. The last line has the means over data sets.

Data sets come with scikit-learn or are files in METRICFAST_DATA. From larger ones, N points are
drawn.
"""

from __future__ import annotations

__all__ = ["SETS", "main", "study"]

import argparse
import time
import warnings
from collections.abc import Callable
from fnmatch import fnmatch
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from benchmarks import data
from benchmarks.never_worse import difference
from metricfast import AutoLearner, KNeighborsClassifier, compare
from metricfast.selection import Judge

OF_SKLEARN = {
    "wine": load_wine, "iris": load_iris, "cancer": load_breast_cancer, "digits": load_digits
}  # fmt: skip
OF_FILES = ["balance_scale", "sonar", "vowel", "segmentation", "usps", "isolet", "covtype_93k"]
OF_FILES += [
    f"tables/{name}"
    for name in (
        *("appendicitis", "cleveland", "glass", "ionosphere", "letter", "newthyroid"),
        *("page-blocks", "pima", "satimage", "texture", "vehicle", "winequality-red"),
    )
]
FITS = ("full", "race", "auto")
HEAD = ("data", "points", "given", "full", "race", "auto", "difference", "error", "below")
HEAD += ("full s", "race s", "auto s", "bests of full", "bests of race", "auto")


def _from_file(name: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(data.folder() / f"{name}.npz") as saved:
        return saved["X"].astype(np.float64), saved["y"]


SETS: dict[str, Callable[[], Any]] = {
    **{name: partial(load, return_X_y=True) for name, load in OF_SKLEARN.items()},
    **{name: partial(_from_file, name) for name in OF_FILES},
}


def study(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Any]:
    """Return whether held-out rows are classified correctly, CPU seconds, and the best."""
    train, test = train_test_split(
        np.arange(len(y)), test_size=1 / 3, random_state=seed, stratify=y
    )
    X, X_test, y, y_test = X[train], X[test], y[train], y[test]
    found: dict[str, Any] = {"rows": test}
    # Held-out points are of known classes here, also if classes are small.
    how: dict[str, Any] = {"judge": Judge(unit="points"), "random_state": 0}

    def timed(name: str, fit: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = fit()
        found[f"{name} s"] = time.process_time() - start
        return result

    for name in ("full", "race"):
        result = timed(name, lambda race=name == "race": compare(X, y, race=race, **how))
        found[name] = result.best_estimator_.predict(X_test) == y_test
        found[f"best of {name}"] = result.best_name_
    auto = AutoLearner(**how)
    model = timed("auto", lambda: KNeighborsClassifier(metric=auto).fit(X, y))
    found["auto"] = model.predict(X_test) == y_test
    found["best of auto"] = model.metric_.judgement_.name.partition(",")[0]
    given = compare(X, y, learners="cosine", time_limit=0, **how)
    found["given"] = given.best_estimator_.predict(X_test) == y_test
    return found


def main(argv: list[str] | None = None) -> None:
    """Print a line for each data set."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.study_compare", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--sets", nargs="+", default=["*"], metavar="PATTERN")
    parser.add_argument("--points", type=int, default=600, metavar="N")
    parser.add_argument("--draws", type=int, default=2, metavar="N")
    options = parser.parse_args(argv)
    print("| " + " | ".join(HEAD) + " |")
    print("|---" * len(HEAD) + "|")
    lines = []
    for name in (n for n in SETS if any(fnmatch(n, each) for each in options.sets)):
        try:
            X, y = SETS[name]()
        except OSError:
            print(f"{name}: no file")
            continue
        draws = list[dict[str, Any]]()
        for seed in range(options.draws):
            rows = np.random.RandomState(seed).permutation(len(y))[: options.points]
            _, codes, sizes = np.unique(y[rows], return_inverse=True, return_counts=True)
            rows = rows[sizes[codes] >= 3]
            with warnings.catch_warnings(), threadpool_limits(1):
                warnings.simplefilter("ignore")
                draws.append(study(X[rows], y[rows], seed))
            draws[-1]["rows"] = rows[draws[-1]["rows"]]
        of = {key: [draw[key] for draw in draws] for key in draws[0]}
        gain, error = difference(
            *([each.astype(float) for each in of[name]] for name in ("race", "full")), of["rows"]
        )
        numbers = [np.concatenate(of[each]).mean() for each in ("given", *FITS)]
        seconds = [np.mean(of[f"{each} s"]) for each in FITS]
        best = [" / ".join(dict.fromkeys(of[f"best of {each}"])) for each in FITS]
        lines.append([*numbers, gain, error**2, *seconds])
        cells = [f"{each:.3f}" for each in (*numbers, gain, error)]
        cells += ["x" if gain < -2 * error else "", *(f"{each:.1f}" for each in seconds)]
        print("| " + " | ".join([name, str(len(rows)), *cells, *best]) + " |", flush=True)
    if lines:
        mean = np.mean(lines, axis=0)
        mean[5] = np.sqrt(mean[5] / len(lines))
        cells = [*(f"{each:.4f}" for each in mean[:6]), "", *(f"{each:.1f}" for each in mean[6:])]
        print("| " + " | ".join(["mean", "", *cells, *[""] * len(FITS)]) + " |")


if __name__ == "__main__":
    main()
