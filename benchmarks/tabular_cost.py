"""Study: what does a fit of a table cost, by its rows and columns?

    python -m benchmarks.tabular_cost [--only TABLE]... [--rows N]... [--columns N]...
        [--models MODEL]...

For each table and number of rows to learn from, prints processor seconds, in one thread, of `fit`
and of the prediction of 4,000 others, and their error (1 - accuracy, or root mean squared). Rows
are the first of a permutation with seed 0, those to predict the last. "made" is
`make_classification` with 30 features, or `--columns`, 4 classes of 4 clusters each, and labels of
which 2 % are drawn anew. The models are those of `benchmarks.tabular`.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
from itertools import product

import numpy as np
from sklearn.datasets import make_classification

from benchmarks.tabular import MODELS, installed, run
from benchmarks.tabular_data import TABLES, MissingError, Split
from benchmarks.tabular_measures import measures

N_TEST = 4000
ROWS = {
    "letter": (4000, 8000, 16000),
    "covtype": (4000, 8000, 16000, 40000, 80000),
    "made": (6000, 12000, 24000),
    "kin40k": (5000, 30000),
}


def points(table: str, columns: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return a table in random order, and whether it is of classes."""
    if table == "made":
        X, y = make_classification(
            30000, columns, n_informative=min(10, columns // 2), n_redundant=min(6, columns // 5),
            n_classes=4, n_clusters_per_class=4, flip_y=0.02, random_state=0,
        )  # fmt: skip
        of_classes = True
    else:
        read, of_classes = TABLES[table]
        X, y = read()
    order = np.random.RandomState(0).permutation(len(y))
    return X[order], y[order], of_classes


def row(table: str, n: int, columns: int, model: str) -> str:
    """Return a row of the printed table."""
    X, y, of_classes = points(table, columns)
    if of_classes:
        y = np.unique(y, return_inverse=True)[1]
    given = Split(X[:n], y[:n], X[-N_TEST:], y[-N_TEST:], of_classes)
    found = run(MODELS[model](of_classes), given)
    error = measures(found.predicted, given.y_test, of_classes)["error"] * (
        100 if of_classes else 1
    )
    seconds = f"{found.fit:.1f}", f"{found.predict:.2f}"
    cells = (table, n, X.shape[1], model, *seconds, f"{error:.3g}")
    return "| " + " | ".join(map(str, cells)) + " |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=ROWS, help="a table; may be repeated")
    parser.add_argument("--rows", action="append", type=int, help="rows; may be repeated")
    parser.add_argument("--columns", action="append", type=int, help='columns of "made"')
    parser.add_argument("--models", action="append", choices=MODELS, help="may be repeated")
    given = parser.parse_args(arguments)
    models = installed(given.models or ["nca"])
    print("| table | rows | columns | model | fit, s | predict, s | error |")
    print("|---|---|---|---|---|---|---|")
    for table in given.only or ROWS:
        sizes = product(
            given.rows or ROWS[table], (given.columns or [30]) if table == "made" else [0]
        )
        for (n, columns), model in product(sizes, models):
            try:
                print(row(table, n, columns, model), flush=True)
            except MissingError as error:
                print(f"{table}: left out: {error}")


if __name__ == "__main__":
    main()
