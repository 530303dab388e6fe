"""Compare our learners with published accuracies of another library, on the same folds.

    python -m benchmarks.published [--tables NAME]... [--learners NAME]... [--k K]... [--jobs N]

Each table is divided into ten folds. Features are scaled to [0, 1] by the training rows of a fold.
A learner is fitted to these rows with its default parameters. The rows of the fold are classified
by a vote of 3, 5 and 7 nearest neighbours. Ties between classes go to the lowest class, as in the
published comparison. Of equally distant neighbours, the lower row is nearer.

The report has the mean accuracies over tables, of our learner and of the published learner of the
same kind. It counts the tables on which ours wins and loses. It also counts the tables on which
ours is more than half a percentage point below the Euclidean distance, and on how many of these the
difference is significant, by a paired t-test over folds at the 5 % level: for each table
separately, and with p-values adjusted to the number of tables (Holm).

With all tables, the errors of Kedem et al. (2012) follow, next to errors that
`benchmarks.gerrymandering` measures. The two Euclidean columns show whether the protocols agree.

Accuracies and CPU seconds are stored in `--results`, one line per table and learner. A run adds
missing lines; --again starts from scratch. Each of --jobs processes has one thread.
`benchmarks/README.md` describes how to add tables.
"""

from __future__ import annotations

__all__ = ["Results", "accuracies", "load", "main", "worse"]

import argparse
import csv
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

import metricfast
from benchmarks import data, gerrymandering, kedem
from metricfast.comparison.statistics import adjusted
from metricfast.neighbors import kneighbors

RESULTS = Path(__file__).resolve().parent / "results" / "published.jsonl"
EUCLIDEAN = "Euclidean"
# Our learners, and the names of their counterparts in the published tables.
LEARNERS = {
    EUCLIDEAN: EUCLIDEAN,
    "Covariance": None,
    "NCA": "NCA",
    "LMNN": "LMNN",
    "NeighborhoodGerrymandering": None,
    "DMLMJ": "DMLMJ",
    "ANMM": None,
    "LFDA": "LLDA",
    "RCA_Supervised": None,
    "GMML_Supervised": "GMML",
    "ITML_Supervised": "ITML",
    "LSML_Supervised": None,
    "SCML_Supervised": None,
    "SDML_Supervised": None,
    "MMC_Supervised": "LSI",
    "MCML": "MCML",
    "LDML": "LDML",
    "NCMML": None,
}
NEIGHBORS = (3, 5, 7)
# A learner hurts if it loses more than half a percentage point.
HALF = 0.005
LEVEL = 0.05

Table = tuple[np.ndarray, np.ndarray, np.ndarray]
Fit = Callable[[np.ndarray, np.ndarray], np.ndarray | None]


def folder() -> Path:
    """Return the folder of the tables."""
    return data.folder() / "tables"


def load(name: str) -> Table:
    """Return points, classes from 0, and the test fold of each row."""
    with np.load(folder() / f"{name}.npz") as saved:
        X, y, fold = saved["X"].astype(np.float64), saved["y"], saved["fold"]
    return X, np.unique(y, return_inverse=True)[1].astype(np.int64), fold


def tables() -> list[str]:
    """Return the names of the tables, ordered by training time."""
    sizes = {path.stem: load(path.stem)[0].shape for path in folder().glob("*.npz")}
    return sorted(sizes, key=lambda name: sizes[name][0] ** 2 * sizes[name][1])


def published(k: int) -> dict[str, dict[str, float]]:
    """Return the published accuracies by table and learner."""
    path = folder() / f"published_{k}nn.csv"
    if not path.exists():
        return {}
    with path.open() as lines:
        rows = {row.pop(""): row for row in csv.DictReader(lines)}
    return {table: {n: float(x) for n, x in row.items() if x} for table, row in rows.items()}


def splits(table: Table) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield training points and classes, and test points and classes, for each fold."""
    X, y, fold = table
    for number in np.unique(fold):
        train, test = fold != number, fold == number
        low, high = X[train].min(axis=0), X[train].max(axis=0)
        scaled = (X - low) / np.where(high > low, high - low, 1)
        yield scaled[train], y[train], scaled[test], y[test]


def learned(name: str, **params: Any) -> Fit:
    """Return a function that fits a learner and returns its map (None: Euclidean distance)."""

    def fit(X: np.ndarray, y: np.ndarray) -> np.ndarray | None:
        if name == EUCLIDEAN:
            return None
        learner = getattr(metricfast, name)()
        known = learner.get_params()
        fixed = {"random_state": 0, "n_jobs": 1} | params
        learner.set_params(**{key: value for key, value in fixed.items() if key in known})
        components: np.ndarray = learner.fit(X, y).components_
        return components

    return fit


def accuracies(
    table: Table, fit: Fit, neighbors: tuple[int, ...] = NEIGHBORS
) -> dict[str, list[float]]:
    """Return the accuracy of every fold for each number of neighbours."""
    found: dict[str, list[float]] = {str(k): [] for k in neighbors}
    for X, y, X_test, y_test in splits(table):
        L = fit(X, y)
        near = kneighbors(X_test, X, max(neighbors), L=L, n_jobs=1)[1]
        for k in neighbors:
            found[str(k)].append(float(np.mean(majority(y[near[:, :k]]) == y_test)))
    return found


def majority(classes: np.ndarray) -> np.ndarray:
    """Return the class with most votes in each row; ties go to the lowest class."""
    counts = (classes[:, :, None] == np.arange(classes.max() + 1)).sum(axis=1)
    winners: np.ndarray = counts.argmax(axis=1)
    return winners


def run(name: str, learner: str) -> dict[str, Any]:
    """Return the line of a table and a learner."""
    begin = time.process_time()
    line: dict[str, Any] = {"table": name, "learner": learner}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            line["accuracies"] = accuracies(load(name), learned(learner))
    except (ValueError, ArithmeticError) as error:
        line["error"] = str(error)
    return line | {"seconds": round(time.process_time() - begin, 2)}


def worse(ours: np.ndarray, theirs: np.ndarray, by: float = 0.0) -> bool:
    """Return whether the mean of paired differences is significantly larger than `by`."""
    return p_value(ours, theirs, by) < LEVEL


def p_value(ours: np.ndarray, theirs: np.ndarray, by: float) -> float:
    """Return the p-value of the hypothesis that ours are not worse by more than `by`.

    Uses a one-sided t-test.
    """
    differences = np.round(np.asarray(theirs) - np.asarray(ours) - by, 12)
    n, mean = len(differences), float(np.mean(differences))
    error = float(np.std(differences, ddof=1)) / n**0.5
    if error == 0 or n < 2:
        return float(mean <= 0)
    return float(student.sf(mean / error, n - 1))


class Results:
    """Lines per table and learner, stored in a file, to which later runs add."""

    def __init__(self, path: Path, *, again: bool = False) -> None:
        self.path = path
        self.lines: dict[tuple[str, str], dict[str, Any]] = {}
        if path.exists() and not again:
            for line in map(json.loads, path.read_text().splitlines()):
                self.lines[line["table"], line["learner"]] = line
        elif path.exists():
            path.unlink()

    def add(self, line: dict[str, Any]) -> None:
        """Store a line and print it."""
        self.lines[line["table"], line["learner"]] = line
        self.path.parent.mkdir(exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        means = {k: round(float(np.mean(v)), 4) for k, v in line.get("accuracies", {}).items()}
        told = line.get("error") or means
        print(f"{line['table']} {line['learner']}: {told} ({line['seconds']} s)", file=sys.stderr)

    def of(self, table: str, learner: str, k: int) -> np.ndarray | None:
        """Return the accuracies of the folds."""
        found = self.lines.get((table, learner), {}).get("accuracies")
        return None if found is None else np.array(found[str(k)])

    def report(self, names: list[str], learners: list[str], k: int) -> str:
        """Return the tables for a number of neighbours."""
        theirs = published(k)
        rows = [
            f"\n### {k} nearest neighbours\n",
            "| learner | tables | ours | published | Euclidean | wins | losses | hurt "
            "| beyond chance | adjusted | CPU s |\n|---|" + "---:|" * 10,
        ]
        worst = []
        for learner in learners:
            known = [name for name in names if self.of(name, learner, k) is not None]
            known = [name for name in known if self.of(name, EUCLIDEAN, k) is not None]
            if not known:
                continue
            ours = {name: self.of(name, learner, k) for name in known}
            plain = {name: self.of(name, EUCLIDEAN, k) for name in known}
            differences = {name: float(np.mean(ours[name] - plain[name])) for name in known}
            hurt = [name for name in known if differences[name] < -HALF - 1e-9]
            alone = [p_value(ours[name], plain[name], HALF) for name in known]
            chances = dict(zip(known, zip(alone, adjusted(alone), strict=True), strict=True))
            sure = [name for name in hurt if chances[name][0] < LEVEL]
            other = LEARNERS[learner]
            pairs = [
                (float(np.mean(ours[name])), theirs[name][other])
                for name in known
                if other in theirs.get(name, {})
            ]
            cells = [
                str(len(known)),
                f"{np.mean([np.mean(found) for found in ours.values()]):.4f}",
                f"{np.mean([b for _, b in pairs]):.4f}" if len(pairs) == len(known) else "",
                f"{np.mean([np.mean(found) for found in plain.values()]):.4f}",
                str(sum(a > b + 1e-9 for a, b in pairs)) if pairs else "",
                str(sum(b > a + 1e-9 for a, b in pairs)) if pairs else "",
                f"{len(hurt)} ({len(hurt) / len(known):.0%})",
                str(len(sure)),
                str(sum(chances[name][1] < LEVEL for name in hurt)),
                f"{sum(self.lines[name, learner]['seconds'] for name in known):.0f}",
            ]
            rows.append(f"| {learner} | " + " | ".join(cells) + " |")
            worst += [
                f"{learner} on {name} ({100 * differences[name]:+.1f}, p = {chances[name][0]:.2g}, "
                f"adjusted {chances[name][1]:.2g})"
                for name in sure
            ]
        if worst:
            rows.append("\nHurts beyond chance: " + ", ".join(worst) + ".")
        return "\n".join(rows)


def print_kedem() -> None:
    """Compute missing errors of the Euclidean distance and of LMNN, and print them with Kedem's."""
    files = {
        name: gerrymandering.OFFICE if name == "office" else name for name in gerrymandering.SETS
    }
    there = [name for name, file in files.items() if (data.folder() / f"{file}.npz").exists()]
    found = gerrymandering.Results(gerrymandering.RESULTS, again=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, number, split in gerrymandering.splits(there, 5):
            gerrymandering.compare(found, name, number, split, [3], ["Euclidean", "LMNN"])
    print(kedem.report(found.by_row("k = 3")))


def missing(results: Results, names: list[str], learners: list[str]) -> list[tuple[str, str]]:
    """Return the missing pairs of table and learner, table by table."""
    pairs = [(name, learner) for name in names for learner in learners]
    return [pair for pair in pairs if pair not in results.lines]


def main(argv: list[str] | None = None) -> None:
    """Run missing fits, and print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.published",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = tables()
    parser.add_argument("--tables", nargs="+", choices=known, default=known, metavar="NAME")
    parser.add_argument("--learners", nargs="+", choices=[*LEARNERS], metavar="NAME")
    parser.add_argument("--k", nargs="+", type=int, choices=NEIGHBORS, default=NEIGHBORS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args(argv)
    if not known:
        parser.error(f"there are no tables in {folder()}: see benchmarks/README.md.")
    wanted = options.learners or [*LEARNERS]
    results = Results(options.results, again=options.again)
    names = [name for name in known if name in options.tables]
    lacking = missing(results, names, list(dict.fromkeys([EUCLIDEAN, *wanted])))
    os.environ.update(dict.fromkeys(("METRICFAST_NUM_THREADS", "OMP_NUM_THREADS"), "1"))
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as processes:
        for found in as_completed([processes.submit(run, *pair) for pair in lacking]):
            results.add(found.result())
    for k in options.k:
        print(results.report(names, wanted, k))
    if names == known and options.learners is None:
        print_kedem()


if __name__ == "__main__":
    main()
