"""Study: the first step of neighbourhood gerrymandering, on training points alone.

    python -m benchmarks.study_gerrymandering [--rate R]... [--c C]... [--init NAME]

Prints the 3-NN error in percent on stratified quarters of the training points, each held out once,
by learning rate and C. The training points are 2000 points of the official training parts of letter
and usps (64 principal components), the official training part of vowel, and four fifths of wine and
segmentation. Features have unit variance, except for usps. The study uses no test points.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import time

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks import data
from metricfast import NeighborhoodGerrymandering
from metricfast.solvers import Adam
from metricfast.training.objective import neighbor_error

SETS = ["letter", "usps", "vowel", "wine", "segmentation"]
MOST = 2000


def training_part(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the training points that the study may use."""
    with np.load(data.folder() / f"{name}.npz") as saved:
        x, y = saved["X"].astype(np.float64), saved["y"].astype(np.int64)
        train = saved["split"] == 0 if name in ("letter", "usps", "vowel") else None
    if train is None:
        train = train_test_split(np.arange(len(x)), train_size=0.8, stratify=y, random_state=0)[0]
    x, y = x[train], y[train]
    kept = np.random.RandomState(0).permutation(len(x))[:MOST]
    return x[kept], y[kept]


def held_out_error(name: str, rate: float, C: float, init: str) -> float:
    """Return the error of held-out points in percent."""
    x, y = training_part(name)
    wrong = 0.0
    for train, test in StratifiedKFold(4, shuffle=True, random_state=0).split(x, y):
        make = PCA(64, random_state=0) if name == "usps" else StandardScaler()
        a, b = make.fit_transform(x[train]), make.transform(x[test])
        learner = NeighborhoodGerrymandering(
            3, C=C, init=init, judge=None, random_state=0, n_jobs=1, solver=Adam(learning_rate=rate)
        ).fit(a, y[train])
        database, queries = learner.transform(a), learner.transform(b)
        error = neighbor_error(database, y[train], queries, y[test], False, 3, n_jobs=1)
        wrong += error * len(test)
    return 100 * wrong / len(x)


def main(argv: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.study_gerrymandering")
    parser.add_argument("--rate", action="append", type=float)
    parser.add_argument("--c", action="append", type=float)
    parser.add_argument("--init", default="auto")
    given = parser.parse_args(argv)
    print(f"| C | rate | {' | '.join(SETS)} | mean | CPU s |\n|" + "---:|" * (len(SETS) + 4))
    for C in given.c or [1.0]:
        for rate in given.rate or [0.01, 0.03, 0.1, 0.3]:
            begin = time.process_time()
            found = [held_out_error(name, rate, C, given.init) for name in SETS]
            cells = " | ".join(f"{value:.2f}" for value in (*found, np.mean(found)))
            seconds = time.process_time() - begin
            print(f"| {C:g} | {rate:g} | {cells} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
