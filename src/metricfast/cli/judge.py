"""`metricfast evaluate` and `metricfast inspect`."""

from __future__ import annotations

import math
from inspect import signature
from pathlib import Path
from typing import Any

import click
import numpy as np

import metricfast
from metricfast._core.types import Floats
from metricfast.cli import options, show
from metricfast.cli.apply import labelled, target_of
from metricfast.cli.encoding import Column
from metricfast.cli.format import Format
from metricfast.cli.models import Model
from metricfast.comparison.labels import Labels, shares
from metricfast.comparison.result import EUCLIDEAN, SCALED, p_text
from metricfast.comparison.statistics import paired_p_value
from metricfast.embeddings import Linear
from metricfast.metrics._score import Score
from metricfast.predictors.classifiers import KNeighborsClassifier
from metricfast.predictors.regressors import KNeighborsRegressor
from metricfast.training.fingerprint import fingerprint

__all__ = ["evaluate_command", "inspect_command"]

# Features that are named.
_MOST = 10


@click.command("evaluate")
@click.argument("model", type=options.FILE)
@click.argument("data", type=options.FILE)
@click.option("--target", help="The column of labels; by default that of the model.")
@click.option("--database", type=options.FILE, help="Rows that predict; by default those of DATA.")
@click.option("-k", "n_neighbors", type=click.IntRange(1), default=5, show_default=True)
@options.of_files
@options.shared
def evaluate_command(
    model: Path, data: Path, target: str | None, database: Path | None, n_neighbors: int,
    as_json: bool, n_jobs: int | None, given: Format,
) -> None:  # fmt: skip
    """Predict labels by nearest neighbours: learned distance and Euclidean, side by side.

    Without --database, each row of DATA is predicted by the others. Give rows that the model was
    not fitted to.
    """
    loaded = Model.load(model, given)
    name = target_of(loaded, target)
    points, read = labelled(loaded, data, name)
    labels = Labels.of(read, loaded.continuous)
    known = None if database is None else labelled(loaded, database, name)
    values = {}
    before = EUCLIDEAN if loaded.units is None else SCALED
    for distance, metric in ((before, "euclidean"), ("learned", loaded.learner)):
        kind = KNeighborsClassifier if labels.variances is None else KNeighborsRegressor
        judge = kind(n_neighbors, metric=metric, n_jobs=n_jobs)
        judge.fit(*(known or (points, labels.values)))
        values[distance] = shares(
            judge.predict(None if known is None else points), labels.values, labels.variances
        )
    p_value = paired_p_value(values["learned"], values[before])
    scores = {k: Score(v, math.nan, 1.0, binary=not labels.continuous) for k, v in values.items()}
    seen = loaded.trained_on is not None and loaded.trained_on == fingerprint(points)
    if as_json:
        found = {k: {"score": s.mean, "interval": s.interval} for k, s in scores.items()}
        show.print_json({"score": labels.score, "rows": len(points), **found, "p_value": p_value,
                         "fitted_to_these_rows": seen})  # fmt: skip
        return
    rows = [(k, f"{s.mean:.4f}", "[{:.4f}, {:.4f}]".format(*s.interval)) for k, s in scores.items()]
    title = f"{labels.score} of {n_neighbors} neighbours, {len(points)} rows"
    show.print_table(("distance", "score", "95 % interval"), rows, title)
    difference = scores["learned"].mean - scores[before].mean
    click.echo(f"difference {difference:+.4f}, p {p_text(p_value)}")
    if seen:
        show.tell("warning: the model was fitted to these very rows, which flatters it")


@click.command("inspect")
@click.argument("model", type=options.FILE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def inspect_command(model: Path, as_json: bool) -> None:
    """Print what is in a model file: learner, parameters, columns, which features matter."""
    loaded = Model.load(model)
    learner = loaded.learner
    changed = {
        key: value
        for key, value in learner.get_params(deep=False).items()
        if repr(value) != repr(signature(type(learner)).parameters[key].default)
    }
    found: dict[str, Any] = {
        "file": str(model),
        "bytes": model.stat().st_size,
        "learner": type(learner).__name__,
        "parameters": changed,
        "n_features": learner.n_features_in_,
        "target": loaded.target,
        "standardised": loaded.units is not None,
        "metadata": sorted(metricfast.io.load_metadata(model)),
    }
    if hasattr(learner, "components_"):
        found["n_components"] = len(learner.components_)
    for name in ("objective_", "n_iter_"):
        if hasattr(learner, name):
            found[name] = getattr(learner, name)
    if loaded.encoder is not None:
        found["columns"] = loaded.encoder.state()
        names = loaded.encoder.get_feature_names_out()
    else:
        names = getattr(learner, "feature_names_in_", np.arange(learner.n_features_in_))
    relevance = _relevance(learner)
    if relevance is not None:
        order = np.argsort(-relevance, kind="stable")
        found["relevance"] = {str(names[j]): float(relevance[j]) for j in order}
    if as_json:
        show.print_json(found)
        return
    rows = [
        (key, str(value)) for key, value in found.items() if key not in ("columns", "relevance")
    ]
    show.print_table(("", ""), rows)
    if loaded.encoder is not None:
        columns = [_told(each, loaded.kinds[each.name]) for each in loaded.encoder.columns_]
        show.print_table(("column", "holds", "with"), columns)
    if relevance is None:
        click.echo(f"features have no shares of distances: {found['learner']} has no linear map")
        return
    top = list(found["relevance"].items())[:_MOST]
    show.print_table(("feature", "share of distances"), [(k, f"{v:.1%}") for k, v in top])


def _relevance(learner: Any) -> Floats | None:
    """Return the share of each feature in the distance, None where a learner has no way to it."""
    if hasattr(learner, "relevance_"):
        of_columns: Floats = learner.relevance_
        return of_columns
    if hasattr(learner, "feature_relevance") and hasattr(learner, "components_"):
        found: Floats = learner.feature_relevance()
        return found
    if type(getattr(learner, "embedding_", None)) is not Linear:
        return None
    origin = np.zeros((1, learner.n_features_in_))
    moved = learner.transform(np.eye(learner.n_features_in_)) - learner.transform(origin)
    squares: Floats = (np.asarray(moved, np.float64) ** 2).sum(axis=1)
    return squares / (squares.sum() or 1.0)


def _told(held: Column, kind: str) -> tuple[str, ...]:
    holds = f"{len(held.categories)} categories" if kind == "text" else kind.removesuffix("s")
    return held.name, holds, "missing values" if held.missing else ""
