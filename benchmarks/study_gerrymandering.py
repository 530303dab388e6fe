"""Study: the first step of neighbourhood gerrymandering, on training points alone.

    python -m benchmarks.study_gerrymandering [--rate R]... [--c C]... [--init NAME]

Prints the 3-NN error in per cent on a stratified quarter of the training points, by learning rate
and C: of 2000 points of the official training parts of letter and usps, of that of vowel, and of
four fifths of wine and segmentation. Features have a variance of 1. No test point is looked at.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import time

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks import data
from metricfast import NeighborhoodGerrymandering
from metricfast.learners._votes import vote_error

SETS = ["letter", "usps", "vowel", "wine", "segmentation"]
MOST = 2000


def training_part(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return points that may be looked at."""
    with np.load(data.folder() / f"{name}.npz") as saved:
        x, y = saved["X"].astype(np.float64), saved["y"].astype(np.int64)
        train = saved["split"] == 0 if name in ("letter", "usps", "vowel") else None
    if train is None:
        train = train_test_split(np.arange(len(x)), train_size=0.8, stratify=y, random_state=0)[0]
    x, y = x[train], y[train]
    kept = np.random.RandomState(0).permutation(len(x))[:MOST]
    return x[kept], y[kept]


def main(argv: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.study_gerrymandering")
    parser.add_argument("--rate", action="append", type=float)
    parser.add_argument("--c", action="append", type=float)
    parser.add_argument("--init", default="auto")
    given = parser.parse_args(argv)
    rates = given.rate or [0.01, 0.03, 0.1, 0.3]
    print("| C | rate | " + " | ".join(SETS) + " | mean | seconds |\n|" + "---:|" * (len(SETS) + 4))
    for C in given.c or [0.03, 1.0]:
        for rate in rates:
            found, begin = [], time.process_time()
            for name in SETS:
                x, y = training_part(name)
                a, b, ya, yb = train_test_split(x, y, test_size=0.25, stratify=y, random_state=1)
                scaler = StandardScaler().fit(a)
                a, b = scaler.transform(a), scaler.transform(b)
                learner = NeighborhoodGerrymandering(
                    3, C=C, learning_rate=rate, init=given.init, random_state=0, n_jobs=1
                ).fit(a, ya)
                maps = learner.transform(b), yb, learner.transform(a), ya
                found.append(100 * vote_error(*maps, 3, 1))
            cells = [f"{value:.2f}" for value in (*found, np.mean(found))]
            print(
                f"| {C:g} | {rate:g} | {' | '.join(cells)} | {time.process_time() - begin:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
