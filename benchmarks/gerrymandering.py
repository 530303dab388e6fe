"""Errors of k nearest neighbours in metrics learned by several methods, under one protocol.

    python -m benchmarks.gerrymandering [--quick] [--data NAME]... [--k K]... [--splits N] [--again]

Data sets: letter, usps and isolet (64 and 172 principal components) with their official splits, and
the four domains of office_caltech_surf (rows divided by their sums, features of unit variance, 64
principal components) with stratified 80/20 splits. The tables have means and standard deviations
over splits. Means, variances and components are computed from the training points of each split.

Each method chooses among four settings by its error on a quarter of the training points, and is
then fitted to all training points. For all methods, ties between classes go to the class of the
nearest neighbour, and of equally distant neighbours the lower row is nearer. To keep exact ties,
the Euclidean distances of letter use its integer features without centring and scaling.

The last table ("domains") has queries and database from different office domains, with k = 3. Half
of the queries' domain is for training, the other half for testing, and then the reverse. Its points
are scaled by the database and the training queries. "own domain" searches the labelled half of the
queries' domain instead of the database, by the Euclidean distance.

With k = 3, the errors of Kedem et al. (2012, table 1) are printed as well, with the difference of
the two Euclidean rows. --quick runs office and domains with k = 3 and two splits. All runs use one
thread.

Errors are stored in `results/gerrymandering.json`. A run adds missing errors; --again starts from
scratch.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import itertools
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedShuffleSplit, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import metricfast
from benchmarks import data, kedem
from metricfast.training.objective import neighbor_error

RESULTS = Path(__file__).resolve().parent / "results" / "gerrymandering.json"
OFFICE = "office_caltech_surf"
# Number of principal components.
SETS = {"letter": None, "usps": 64, "isolet": 172, "office": 64}
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def nca(k: int, setting: int) -> Any:
    most = (5, 10, 20, 100)[setting]
    how = {"init": "identity", "init_scale": None, "judge": None}
    return metricfast.NCA(**how, max_iter=most, n_jobs=1)


def lmnn(k: int, setting: int) -> Any:  # small classes have only three targets
    regularization = (0.2, 0.4, 0.6, 0.8)[setting]
    how = {"regularization": regularization, "judge": None}
    return metricfast.LMNN("identity", 3, **how, n_jobs=1)


def gerrymander(k: int, setting: int) -> Any:
    return metricfast.NeighborhoodGerrymandering(
        k, init="identity", C=(0.001, 0.03, 1, 30)[setting], judge=None, random_state=0,
        n_jobs=1, solver=metricfast.solvers.Adam(max_epochs=30),
    )  # fmt: skip


def two_maps(k: int, setting: int) -> Any:
    return metricfast.AsymmetricSimilarity(
        k, init="identity", C=(0.001, 0.03, 1, 30)[setting], judge=None, random_state=0,
        n_jobs=1, solver=metricfast.solvers.Adam(max_epochs=30),
    )  # fmt: skip


METHODS: dict[str, Callable[[int, int], Any] | None] = {
    "Euclidean": None,
    "NCA": nca,
    "LMNN": lmnn,
    "gerrymandering": gerrymander,
    "two maps": two_maps,
}
OF_K = (gerrymander, two_maps)  # methods that depend on k
MAPS = ["own domain", "Euclidean", "one map", "two maps"]


def error(k: int, learner: Any, split: Split) -> float:
    """Return the test error in percent."""
    x, y, x_test, y_test = split
    if isinstance(learner, metricfast.AsymmetricSimilarity):
        return 100 * (1 - learner.score(x_test, y_test))
    if learner is not None:
        x, x_test = learner.transform(x), learner.transform(x_test)
    return 100 * neighbor_error(x, y, x_test, y_test, False, k, n_jobs=1)


def tuned(
    k: int, make: Callable[[int, int], Any] | None, split: Split, fits: dict[Any, Any]
) -> float:
    """Choose a setting on a quarter of the training points, and test it.

    `fits` stores results that do not depend on k.
    """
    if make is None:
        return error(k, None, split)
    x, y = split[:2]
    a, b, ya, yb = train_test_split(x, y, test_size=0.25, stratify=y, random_state=0)

    def fitted(setting: int, part: str, points: np.ndarray, labels: np.ndarray) -> Any:
        key = (setting, part, k if make in OF_K else None)
        if key not in fits:
            fits[key] = make(k, setting).fit(points, labels)
        return fits[key]

    found = [error(k, fitted(setting, "part", a, ya), (a, ya, b, yb)) for setting in range(4)]
    return error(k, fitted(int(np.argmin(found)), "all", x, y), split)


def office() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Return the domains of the office data: rows divided by their sums, and labels."""
    with np.load(data.folder() / f"{OFFICE}.npz") as file:
        x, y = file["X"].astype(np.float64), file["y"].astype(np.int64)
        domain, names = file["domain"], file["domains"]
    x /= np.maximum(x.sum(axis=1, keepdims=True), 1)
    for code, name in enumerate(names):
        yield str(name), x[domain == code], y[domain == code]


def prepared(training: np.ndarray, *parts: np.ndarray) -> list[np.ndarray]:
    """Scale and project parts of the office data, with statistics of the training rows only."""
    components = min(64, len(training))
    steps = make_pipeline(StandardScaler(), PCA(components, svd_solver="full")).fit(training)
    return [steps.transform(part).astype(np.float32) for part in parts]


def splits(names: list[str], count: int) -> Iterator[tuple[str, int, Split]]:
    """Return the data sets of the comparison, with their split numbers."""
    for name, components in SETS.items():
        if name in names and name != "office":
            found = data.official(name, components)
            yield (
                name,
                0,
                tuple(
                    np.asarray(found[key], np.float32 if key[0] == "X" else np.int64)
                    for key in ("X", "y", "X_test", "y_test")
                ),
            )
    if "office" in names:
        for domain, x, y in office():
            folds = StratifiedShuffleSplit(count, test_size=0.2, random_state=0)
            for number, (train, test) in enumerate(folds.split(x, y)):
                rows, rows_test = prepared(x[train], x[train], x[test])
                yield f"office {domain}", number, (rows, y[train], rows_test, y[test])


def crossings(count: int) -> Iterator[tuple[str, int, Split, tuple[np.ndarray, np.ndarray]]]:
    """Return halves of one domain's queries and another domain's database, for each pair."""
    for (name, x, y), (other, base, labels) in itertools.permutations(list(office()), 2):
        for seed in range(count):
            a, b, ya, yb = train_test_split(x, y, test_size=0.5, stratify=y, random_state=seed)
            a, b, database = prepared(np.concatenate([a, base]), a, b, base)
            yield f"{name} in {other}", seed, (a, ya, b, yb), (database, labels)


def spread(errors: list[float]) -> str:
    """Return the mean, and with several splits the standard deviation."""
    mean = f"{np.mean(errors):.2f}"
    return mean if len(errors) == 1 else f"{mean} ± {np.std(errors, ddof=1):.2f}"


class Results:
    """Errors by name, stored in one file, to which later runs add."""

    def __init__(self, path: Path, again: bool) -> None:
        self._path = path
        self.errors: dict[str, float] = {}
        self.seconds: dict[str, float] = {}
        if path.exists() and not again:
            known = json.loads(path.read_text())
            self.errors, self.seconds = known["errors"], known["seconds"]

    def add(self, name: str, error: float, seconds: float) -> None:
        """Store and print an error in percent and its CPU time."""
        self.errors[name], self.seconds[name] = error, round(seconds, 1)
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_text(
            json.dumps({"errors": self.errors, "seconds": self.seconds}, indent=1) + "\n"
        )
        print(f"{name}: {error:.2f} ({seconds:.1f} CPU s)", file=sys.stderr, flush=True)

    def table(self, corner: str, columns: list[str], prefix: str) -> None:
        """Print means and standard deviations over splits, by data set.

        Errors are named "prefix/column/data set/split".
        """
        found = self.by_row(prefix)
        rows = {row: cells for row, cells in found.items() if set(cells) >= set(columns)}
        if not rows:
            return
        print(f"\n| {corner} | {' | '.join(columns)} |\n|---|" + "---:|" * len(columns))
        for row, cells in rows.items():
            print(f"| {row} | " + " | ".join(spread(cells[column]) for column in columns) + " |")
        means = [np.mean([np.mean(cells[column]) for cells in rows.values()]) for column in columns]
        print("| mean | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")

    def by_row(self, prefix: str) -> dict[str, dict[str, list[float]]]:
        """Return the errors of splits by data set and method."""
        found: dict[str, dict[str, list[float]]] = {}
        for name, error in self.errors.items():
            *before, column, row, _ = name.split("/")
            if before == [prefix]:
                found.setdefault(row, {}).setdefault(column, []).append(error)
        return found


def as_given(name: str) -> Split:
    """Return the unscaled features of a data set with its official split."""
    found = data.load(name)
    x, x_test = (found[key].astype(np.float32) for key in ("X", "X_test"))
    return x, found["y"].astype(np.int64), x_test, found["y_test"].astype(np.int64)


def compare(
    results: Results,
    name: str,
    number: int,
    split: Split,
    neighbors: list[int],
    methods: Iterable[str] | None = None,
) -> None:
    """Test methods (by default all) on a split, except for existing results."""
    for method in methods or METHODS:
        make = METHODS[method]
        fits: dict[Any, Any] = {}
        for k in neighbors:
            key = f"k = {k}/{method}/{name}/{number}"
            if key not in results.errors:
                whole = name == "letter" and method == "Euclidean"
                begin = time.process_time()
                found = tuned(k, make, as_given(name) if whole else split, fits)
                results.add(key, found, time.process_time() - begin)


def across(results: Results, count: int) -> None:
    """Test queries of one office domain against the database of another."""
    for name, seed, (a, ya, b, yb), (base, labels) in crossings(count):
        for label in MAPS:
            key = f"domains/{label}/{name}/{seed}"
            if key in results.errors:
                continue
            begin = time.process_time()
            if label == "own domain":
                wrong = neighbor_error(a, ya, b, yb, False, 3, n_jobs=1)
            elif label == "Euclidean":
                wrong = neighbor_error(base, labels, b, yb, False, 3, n_jobs=1)
            else:
                learner = metricfast.AsymmetricSimilarity(
                    tied=label == "one map", init="identity", C=0.03, judge=None,
                    random_state=0, n_jobs=1, solver=metricfast.solvers.Adam(max_epochs=30),
                ).fit(a, ya, base, labels)  # fmt: skip
                wrong = 1 - learner.score(b, yb)
            results.add(key, 100 * wrong, time.process_time() - begin)


def positive(text: str) -> int:
    """Read a number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def main(argv: list[str] | None = None) -> None:
    """Run the missing parts of the comparison, and print its tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gerrymandering",
        description="Compare errors of k nearest neighbours in metrics learned by several methods.",
        epilog="Data are looked for in the folder METRICFAST_DATA, else in ../shared/data.",
    )
    parser.add_argument(
        "--quick", action="store_true", help="office and domains, k = 3 and two splits"
    )
    parser.add_argument(
        "--data",
        action="append",
        choices=[*SETS, "domains"],
        help="a data set, or queries and database of different domains; may be repeated "
        "(default: all)",
    )
    parser.add_argument(
        "--k",
        action="append",
        type=positive,
        help="number of neighbours; may be repeated (default: 3, 7 and 11)",
    )
    parser.add_argument(
        "--splits",
        type=positive,
        help="splits of each office domain, of which domains take two at most (default: 5)",
    )
    parser.add_argument("--again", action="store_true", help="forget the results that are there")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="where errors are kept (default: %(default)s)"
    )
    given = parser.parse_args(argv)
    names = given.data or (["office", "domains"] if given.quick else [*SETS, "domains"])
    for name in names:
        path = data.folder() / f"{OFFICE if name in ('office', 'domains') else name}.npz"
        if not path.exists():
            parser.error(f"{path} is missing: set METRICFAST_DATA to the folder of the data.")
    count = given.splits or (2 if given.quick else 5)
    neighbors = given.k or ([3] if given.quick else [3, 7, 11])
    warnings.simplefilter("ignore")
    results = Results(given.results, given.again)
    for name, number, split in splits(names, count):
        compare(results, name, number, split, neighbors)
    if "domains" in names:
        across(results, min(count, 2))
    for k in neighbors:
        results.table(f"k = {k}", list(METHODS), f"k = {k}")
    print(kedem.report(results.by_row("k = 3")))
    if "domains" in names:
        results.table("queries in database", MAPS, "domains")


if __name__ == "__main__":
    main()
