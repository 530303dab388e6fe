"""Errors of k nearest neighbours in metrics learned by several methods, under one protocol.

    python -m benchmarks.gerrymandering [--quick] [--data NAME]... [--k K]... [--splits N]

Data: letter, usps and isolet (172 principal components) with their official splits, and the four
domains of office_caltech_surf (rows of length 1, features of unit variance, 64 principal
components) with stratified 80/20 splits. Each method may choose among three settings by its error
on a quarter of the training points, which is then given back. Ties of votes go to the nearest
neighbour, for all. A last table has queries and database from different office domains: half of
the queries' domain is trained on, the other half is tested. --quick: the office domains, k = 3 and
two splits.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedShuffleSplit, train_test_split

import metricfast
from benchmarks import data
from metricfast.learners._votes import vote_error

RESULTS = Path(__file__).resolve().parent / "results"
OFFICE = "office_caltech_surf"
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def nca(k: int, setting: int) -> Any:
    return metricfast.NCA(init="identity", max_iter=(5, 20, 100)[setting])


def lmnn(k: int, setting: int) -> Any:  # three targets: small classes have no more
    return metricfast.LMNN("identity", 3, regularization=(0.2, 0.5, 0.8)[setting])


def gerrymander(k: int, setting: int) -> Any:
    return metricfast.NeighborhoodGerrymandering(
        k, init="identity", C=(0.001, 0.03, 1)[setting], max_epochs=30, random_state=0
    )


METHODS: dict[str, Callable[[int, int], Any] | None] = {
    "Euclidean": None,
    "NCA": nca,
    "LMNN": lmnn,
    "gerrymandering": gerrymander,
}


def error(k: int, learner: Any, split: Split) -> float:
    """Return the test error in per cent."""
    x, y, x_test, y_test = split
    if learner is not None:
        learner.fit(x, y)
        x, x_test = learner.transform(x), learner.transform(x_test)
    return 100 * vote_error(x_test, y_test, x, y, k, None)


def tuned(k: int, make: Callable[[int, int], Any] | None, split: Split) -> float:
    """Choose a setting on a quarter of the training points, and test it."""
    if make is None:
        return error(k, None, split)
    x, y = split[:2]
    a, b, ya, yb = train_test_split(x, y, test_size=0.25, stratify=y, random_state=0)
    found = [error(k, make(k, setting), (a, ya, b, yb)) for setting in range(3)]
    return error(k, make(k, int(np.argmin(found))), split)


def office() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Return the domains of the office data."""
    with np.load(data.folder() / f"{OFFICE}.npz") as file:
        x, y, domain = file["X"].astype(np.float64), file["y"], file["domain"]
        names = file["domains"]
    x /= np.maximum(x.sum(axis=1, keepdims=True), 1)
    x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-12)
    x = PCA(64, random_state=0).fit_transform(x).astype(np.float32)
    for code, name in enumerate(names):
        yield str(name), x[domain == code], y[domain == code]


def splits(names: list[str], count: int) -> Iterator[tuple[str, Split]]:
    """Return the data sets of the comparison."""
    for name, components in (("letter", None), ("usps", None), ("isolet", 172)):
        if name in names:
            found = data.official(name, components)
            yield (
                name,
                tuple(
                    np.asarray(found[key], np.float32 if key[0] == "X" else np.int64)
                    for key in ("X", "y", "X_test", "y_test")
                ),
            )
    if "office" in names:
        for domain, x, y in office():
            folds = StratifiedShuffleSplit(count, test_size=0.2, random_state=0)
            for train, test in folds.split(x, y):
                yield f"office {domain}", (x[train], y[train], x[test], y[test])


def across(k: int, count: int) -> dict[str, dict[str, float]]:
    """Return errors of queries of one office domain against the database of another."""
    domains = list(office())
    table: dict[str, dict[str, float]] = {}
    for name, x, y in domains:
        for other, base, labels in domains:
            if name == other:
                continue
            found: dict[str, list[float]] = {"Euclidean": [], "U = V": [], "U, V": []}
            for seed in range(count):
                a, b, ya, yb = train_test_split(x, y, test_size=0.5, stratify=y, random_state=seed)
                found["Euclidean"].append(100 * vote_error(b, yb, base, labels, k, None))
                for label, tied in (("U = V", True), ("U, V", False)):
                    learner = metricfast.AsymmetricSimilarity(
                        k, tied=tied, init="identity", C=0.03, max_epochs=30, random_state=0
                    ).fit(a, ya, base, labels)
                    found[label].append(100 * (1 - learner.score(b, yb)))
            row = {label: float(np.mean(errors)) for label, errors in found.items()}
            table[f"{name} in {other}"] = row
            print_row(f"{name} in {other}", row)
    return table


def print_row(name: str, row: dict[str, float]) -> None:
    print(f"| {name} | " + " | ".join(f"{value:.2f}" for value in row.values()) + " |", flush=True)


def main(argv: list[str] | None = None) -> None:
    """Run the comparison; print and keep its tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gerrymandering")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", action="append", choices=["letter", "usps", "isolet", "office"])
    parser.add_argument("--k", action="append", type=int)
    parser.add_argument("--splits", type=int)
    parser.add_argument("--no-domains", action="store_true", help="without the last table")
    given = parser.parse_args(argv)
    names = given.data or (["office"] if given.quick else ["letter", "usps", "isolet", "office"])
    count = given.splits or (2 if given.quick else 5)
    warnings.simplefilter("ignore")
    results: dict[str, Any] = {"errors": {}, "seconds": {}}
    for k in given.k or ([3] if given.quick else [3, 7, 11]):
        found: dict[str, dict[str, list[float]]] = {}
        for name, split in splits(names, count):
            row = found.setdefault(name, {method: [] for method in METHODS})
            for method, make in METHODS.items():
                begin = time.perf_counter()
                row[method].append(tuned(k, make, split))
                key = f"{name}, k={k}, {method}"
                results["seconds"][key] = round(time.perf_counter() - begin, 2)
        print(f"\n| k = {k} | " + " | ".join(METHODS) + " |\n|---|" + "---:|" * len(METHODS))
        table = {
            name: {m: float(np.mean(v)) for m, v in row.items()} for name, row in found.items()
        }
        table["mean"] = {m: float(np.mean([row[m] for row in table.values()])) for m in METHODS}
        for name, means in table.items():
            print_row(name, means)
        results["errors"][str(k)] = table
    if not given.no_domains and "office" in names:
        print("\n| queries in database, k = 3 | Euclidean | U = V | U, V |\n|---|---:|---:|---:|")
        results["domains"] = across(3, count)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "gerrymandering.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
