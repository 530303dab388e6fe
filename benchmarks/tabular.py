"""Study: does a learned neighbourhood predict as well as boosted trees?

    python -m benchmarks.tabular [--only TABLE]... [--models MODEL]... [--splits N]

For each table and split, 70 % of the points are learned from, at most 2100, and up to 5000 others
are predicted. Prints the error of each model (1 - accuracy, or root mean squared), its ratio to
that of `HistGradientBoosting` with default parameters, log loss, and processor seconds of `fit` and
`predict` in one thread, means over splits. Every result is appended to `results/tabular.jsonl` as
it comes, and what is there is not run again.

"hgb tuned" is the best of 20 random settings by the log loss, or squared error, of a fifth of the
points to learn from, fitted to all of them; "nca" are the defaults of `NCAClassifier` and
`NCARegressor`, "nca 1" the same with ``n_estimators=1``.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import make_column_selector, make_column_transformer
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

from benchmarks.tabular_data import TABLES, MissingError, Split, split

Found = dict[tuple[str, int, str], dict[str, float]]
RESULTS = Path(__file__).resolve().parent / "results" / "tabular.jsonl"
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
    categories = make_column_selector(dtype_include="category")
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
    "nca": nca,
    "nca 1": lambda of_classes: nca(of_classes, n_estimators=1),
}


def run(model: Any, given: Split) -> dict[str, float]:
    """Return errors on the points to predict, and what they cost."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model.fit(given.X, given.y)
    fit = time.process_time() - start
    predicted = fitted.predict(given.X_test)
    found = {"fit": fit, "predict": time.process_time() - start - fit}
    if not given.of_classes:
        return found | {"error": float(np.sqrt(np.mean((predicted - given.y_test) ** 2)))}
    found["error"] = float(np.mean(predicted != given.y_test))
    return found | {"log loss": cost(fitted, given.X_test, given.y_test)}


def kept() -> Found:
    """Return all results there are: of table, split and model."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    rows = [json.loads(line) for line in lines]
    return {(row["table"], row["split"], row["model"]): row for row in rows}


def report(found: Found, tables: list[str], models: list[str], splits: int) -> str:
    """Return the table of means over the splits that all of these models have."""
    head = ["table", "splits", *models, *(f"{m} / hgb" for m in models if m != "hgb")]
    lines, ratios = [], {model: [] for model in models}
    losses, seconds = {m: [] for m in models}, {m: [] for m in models}
    for table in tables:
        common = [s for s in range(splits) if all((table, s, m) in found for m in models)]
        if not common:
            continue
        mean = {
            key: {
                m: float(np.mean([found[table, s, m].get(key, np.nan) for s in common]))
                for m in models
            }
            for key in ("error", "log loss", "fit", "predict")
        }
        for m in models:
            ratios[m].append(mean["error"][m] / mean["error"].get("hgb", np.nan))
            losses[m].append(mean["log loss"][m])
            seconds[m].append(mean["fit"][m] + mean["predict"][m])
        cells = [f"{mean['error'][m]:.4g}" for m in models]
        cells += [f"{ratios[m][-1]:.2f}" for m in models if m != "hgb"]
        lines.append([table, str(len(common)), *cells])
    rows = [head, ["---"] * len(head), *lines]
    text = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    for m in models if lines else []:
        wins = sum(ratio < 1 for ratio in ratios[m])
        text += f"\n{m}: mean ratio {np.mean(ratios[m]):.3f}"
        if "hgb tuned" in models and "hgb" in models:
            of_tuned = np.divide(ratios[m], ratios["hgb tuned"])
            text += f", to hgb tuned {of_tuned.mean():.3f}, lower on {(of_tuned < 1).sum()}"
        text += (
            f"; lower than hgb on {wins} of {len(lines)}; log loss {np.nanmean(losses[m]):.3f}; "
            f"{np.mean(seconds[m]):.1f} s a table, at most {np.max(seconds[m]):.1f}"
        )
    return text


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=TABLES, help="a table; may be repeated")
    parser.add_argument("--models", action="append", choices=MODELS, help="may be repeated")
    parser.add_argument("--splits", type=int, default=3)
    given = parser.parse_args(arguments)
    tables, models = (
        given.only or list(TABLES),
        given.models or ["hgb", "hgb tuned", "nca", "nca 1"],
    )
    found, missing = kept(), {}
    RESULTS.parent.mkdir(exist_ok=True)
    for number in range(given.splits):
        for table in tables:
            wanted = [m for m in models if (table, number, m) not in found and table not in missing]
            try:
                points = split(table, number) if wanted else None
            except MissingError as error:
                missing[table] = str(error)
                continue
            for m in wanted:
                row = {"table": table, "split": number, "model": m}
                with threadpool_limits(1):
                    row |= run(MODELS[m](points.of_classes), points)
                found[table, number, m] = row
                with RESULTS.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(json.dumps(row), flush=True)
    print(report(found, tables, models, given.splits))
    for table, why in missing.items():
        print(f"{table}: left out: {why}")


if __name__ == "__main__":
    main()
