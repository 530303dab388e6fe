"""Study: does a learned neighbourhood predict as well as boosted trees?

    python -m benchmarks.tabular [--only TABLE]... [--models MODEL]... [--splits N] [--rows N]
        [--again MODEL]... [--write]

For each table and split, 70 % of the points are learned from, at most `--rows`, and up to 5000
others are predicted. Prints, as means over splits, the error of each model (1 - accuracy, or root
mean squared) and its ratio to that of `HistGradientBoosting` with default parameters; log loss,
area under the ROC curve and calibration error of classes; and processor seconds of `fit` and
`predict` in one thread. A summary of all tables and one of each group come first, with medians and
ranges of our results divided by those of `HistGradientBoosting`. `--only` takes a table or a group:
"ordinary" are tables with categories and missing values. Results are written to `results/tabular`
as they come, and are not computed again, unless `--again` names the model. `--write` replaces the
figures of `tabular.md`.

"nca" are the defaults of `NCAClassifier` and `NCARegressor`, "nca 1" the same with
``n_estimators=1``, "nca without perceptron" with ``hidden=None``.
"hgb tuned" is the best of 20 random settings by the log loss, or squared error,
of a fifth of the points to learn from, fitted to all of them. "nca + hgb" and "nca + catboost" are
what `VotingClassifier(voting="soft")` and `VotingRegressor` predict: means of the two models.
CatBoost, LightGBM, XGBoost and RealMLP have their defaults: ``pip install '.[bench-tables]'``.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.metrics import log_loss
from sklearn.model_selection import ParameterSampler, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from threadpoolctl import threadpool_limits

from benchmarks.tabular_data import GROUPS, MOST, TABLES, MissingError, Split, split
from benchmarks.tabular_measures import measures, point_errors
from benchmarks.tabular_peers import PEERS, MissingPeerError
from benchmarks.tabular_report import Found, report

RESULTS = Path(__file__).resolve().parent / "results" / "tabular"
PAGE = Path(__file__).resolve().parent / "tabular.md"
MARK = "<!-- Written by python -m benchmarks.tabular --write -->\n"
N_SETTINGS = 20
SETTINGS = {
    "learning_rate": list(np.geomspace(0.03, 0.3, 30)),
    "max_iter": [50, 100, 200],
    "max_leaf_nodes": [4, 8, 16, 31, 48],
    "min_samples_leaf": [1, 2, 5, 10, 20, 40],
    "l2_regularization": [0.0, 0.01, 0.1, 1.0, 10.0],
    "max_features": [0.3, 0.6, 1.0],
}


def boosting(of_classes: bool, **params: Any) -> Any:
    kind = HistGradientBoostingClassifier if of_classes else HistGradientBoostingRegressor
    return kind(random_state=0, **params)


def cost(model: Any, X: Any, y: np.ndarray) -> float:
    """Return the log loss, or the mean squared error."""
    if hasattr(model, "classes_"):
        return float(log_loss(y, model.predict_proba(X), labels=model.classes_))
    return float(np.mean((model.predict(X) - y) ** 2))


def tuned(of_classes: bool) -> Any:
    """Return an object whose `fit` chooses among random settings."""

    class Tuned:
        def fit(self, X: Any, y: np.ndarray) -> Any:
            train, test = train_test_split(
                np.arange(len(y)), test_size=0.2, random_state=0, stratify=y if of_classes else None
            )
            take = X.iloc.__getitem__ if hasattr(X, "iloc") else X.__getitem__
            settings = list(ParameterSampler(SETTINGS, N_SETTINGS, random_state=0))
            costs = [
                cost(boosting(of_classes, **each).fit(take(train), y[train]), take(test), y[test])
                for each in settings
            ]
            return boosting(of_classes, **settings[int(np.argmin(costs))]).fit(X, y)

    return Tuned()


def forest(of_classes: bool) -> Any:
    def categories(X: Any) -> list[str]:
        return list(X.select_dtypes("category").columns) if hasattr(X, "select_dtypes") else []

    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), categories), remainder="passthrough"
    )
    kind = RandomForestClassifier if of_classes else RandomForestRegressor
    return make_pipeline(encoder, kind(300, random_state=0))


def nca(of_classes: bool, **params: Any) -> Any:
    from metricfast import NCAClassifier, NCARegressor

    kind = NCAClassifier if of_classes else NCARegressor
    return kind(random_state=0, n_jobs=1, **params)


MODELS: dict[str, Callable[[bool], Any]] = {
    "hgb": boosting,
    "hgb tuned": tuned,
    "forest": forest,
    **PEERS,
    "nca": nca,
    "nca 1": lambda of_classes: nca(of_classes, n_estimators=1),
    "nca without perceptron": lambda of_classes: nca(
        of_classes, **({} if of_classes else {"hidden": None})
    ),
}
# Means of the predictions of two models, which are not fitted again.
MEANS = {"nca + hgb": ("nca", "hgb"), "nca + catboost": ("nca", "catboost")}
DEFAULT = ["hgb", *PEERS, "nca", *MEANS]


class Outcome(NamedTuple):
    """Probabilities of classes or numbers, and processor seconds."""

    predicted: np.ndarray
    fit: float
    predict: float


def run(model: Any, given: Split) -> Outcome:
    """Fit a model in one thread and predict."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        fitted = model.fit(given.X, given.y)
        done = time.process_time()
        predict = fitted.predict_proba if given.of_classes else fitted.predict
        predicted = np.asarray(predict(given.X_test), dtype=np.float64)
        return Outcome(predicted, done - start, time.process_time() - done)


class Store:
    """Outcomes in a folder: a file for each table, split and model, read rather than computed."""

    def __init__(self, rows: int) -> None:
        self.folder = RESULTS / str(rows)
        self.folder.mkdir(parents=True, exist_ok=True)

    def file(self, table: str, number: int, model: str) -> Path:
        return self.folder / f"{table}-{number}-{model}.npz".replace(" ", "_")

    def outcome(self, table: str, number: int, model: str, given: Split) -> Outcome:
        if model in MEANS:
            parts = [self.outcome(table, number, part, given) for part in MEANS[model]]
            predicted = np.mean([part.predicted for part in parts], axis=0)
            return Outcome(predicted, sum(p.fit for p in parts), sum(p.predict for p in parts))
        file = self.file(table, number, model)
        if not file.exists():
            found = run(MODELS[model](given.of_classes), given)
            with file.with_suffix(".part").open("wb") as part:
                np.savez_compressed(part, **found._asdict())
            file.with_suffix(".part").replace(file)
        with np.load(file) as saved:
            return Outcome(saved["predicted"], float(saved["fit"]), float(saved["predict"]))

    def forget(self, models: list[str]) -> None:
        for model in models:
            for file in self.folder.glob(f"*-{model.replace(' ', '_')}.npz"):
                file.unlink()


def installed(models: list[str]) -> list[str]:
    """Return the models whose packages can be imported; print why others are left out."""
    kept = []
    for model in models:
        try:
            for part in MEANS.get(model, (model,)):
                MODELS[part](True)
            kept.append(model)
        except MissingPeerError as error:
            print(f"{model}: left out: {error}")
    return kept


def compute(tables: list[str], models: list[str], splits: int, rows: int) -> Found:
    """Return the measures of each table, split and model; print those that are new."""
    store, missing = Store(rows), {}
    found: Found = {}
    for number in range(splits):
        for table in tables:
            try:
                given = split(table, number, rows)
            except MissingError as error:
                missing[table] = str(error)
                continue
            for model in models:
                new = model not in MEANS and not store.file(table, number, model).exists()
                outcome = store.outcome(table, number, model, given)
                row = measures(outcome.predicted, given.y_test, given.of_classes)
                row |= {"fit": outcome.fit, "predict": outcome.predict}
                errors = point_errors(outcome.predicted, given.y_test, given.of_classes)
                found[table, number, model] = row | {"point errors": errors}
                if new:
                    about = {"table": table, "split": number, "model": model}
                    print(json.dumps(about | row), flush=True)
    for table, why in missing.items():
        print(f"{table}: left out: {why}")
    return found


def write(text: str) -> None:
    """Replace what follows the mark in the page."""
    before = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    PAGE.write_text(f"{before}{MARK}\n{text}\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    choices = [*MODELS, *MEANS]
    parser.add_argument(
        "--only", action="append", choices=[*TABLES, *GROUPS], help="a table or a group of them"
    )
    parser.add_argument("--models", action="append", choices=choices, help="may be repeated")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--rows", type=int, default=MOST, help="largest number to learn from")
    parser.add_argument("--again", action="append", choices=MODELS, default=[])
    parser.add_argument("--write", action="store_true", help="write the figures into tabular.md")
    given = parser.parse_args(arguments)
    names = given.only or TABLES
    tables = list(dict.fromkeys(t for name in names for t in GROUPS.get(name, (name,))))
    models = installed(given.models or DEFAULT)
    Store(given.rows).forget(given.again)
    text = report(compute(tables, models, given.splits, given.rows), tables, models)
    print(text)
    if given.write:
        write(text)


if __name__ == "__main__":
    main()
