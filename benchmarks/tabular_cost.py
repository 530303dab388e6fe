"""Study: what does a fit of a table cost, by its rows?

    python -m benchmarks.tabular_cost [--only TABLE]... [--rows N]...

For each table and number of rows to learn from, prints processor seconds, in one thread, of `fit`
and of the prediction of 4,000 others, and their error (1 - accuracy, or root mean squared). Rows
are the first of a permutation with seed 0, those to predict the last. "made" is
`make_classification` with 30 features, 4 classes of 4 clusters each, and labels of which 2 % are
drawn anew.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import time
import warnings

import numpy as np
from sklearn.datasets import make_classification
from threadpoolctl import threadpool_limits

from benchmarks.tabular import nca
from benchmarks.tabular_data import TABLES, MissingError

N_TEST = 4000
ROWS = {
    "letter": (4000, 8000, 16000),
    "covtype": (4000, 8000, 16000, 40000, 80000),
    "made": (6000, 12000, 24000),
    "kin40k": (5000, 30000),
}


def points(table: str) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return a table in random order, and whether it is of classes."""
    if table == "made":
        X, y = make_classification(
            30000, 30, n_informative=10, n_redundant=6, n_classes=4, n_clusters_per_class=4,
            flip_y=0.02, random_state=0,
        )  # fmt: skip
        of_classes = True
    else:
        read, of_classes = TABLES[table]
        X, y = read()
    order = np.random.RandomState(0).permutation(len(y))
    return X[order], y[order], of_classes


def run(table: str, n: int) -> str:
    """Return a row of the printed table."""
    X, y, of_classes = points(table)
    model = nca(of_classes)
    start = time.process_time()
    model.fit(X[:n], y[:n])
    fitted = time.process_time()
    predicted = model.predict(X[-N_TEST:])
    done = time.process_time()
    wrong = predicted != y[-N_TEST:] if of_classes else (predicted - y[-N_TEST:]) ** 2
    error = 100 * np.mean(wrong) if of_classes else np.sqrt(np.mean(wrong))
    cells = (table, n, X.shape[1], f"{fitted - start:.1f}", f"{done - fitted:.2f}", f"{error:.3g}")
    return "| " + " | ".join(map(str, cells)) + " |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=ROWS, help="a table; may be repeated")
    parser.add_argument("--rows", action="append", type=int, help="rows; may be repeated")
    given = parser.parse_args(arguments)
    print("| table | rows | columns | fit, s | predict, s | error |\n|---|---|---|---|---|---|")
    for table in given.only or ROWS:
        for n in given.rows or ROWS[table]:
            try:
                with threadpool_limits(1), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    print(run(table, n), flush=True)
            except MissingError as error:
                print(f"{table}: left out: {error}")


if __name__ == "__main__":
    main()
