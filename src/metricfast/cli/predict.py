"""`metricfast predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from metricfast.cli import options
from metricfast.cli.apply import give, labelled, rows_of, target_of
from metricfast.cli.files import column
from metricfast.cli.format import Format
from metricfast.cli.models import Model
from metricfast.comparison.labels import Labels
from metricfast.predictors.classifiers import KNeighborsClassifier
from metricfast.predictors.regressors import KNeighborsRegressor

__all__ = ["predict_command"]


@click.command("predict")
@click.argument("model", type=options.FILE)
@click.argument("data", type=options.FILE)
@click.option(
    "--database", type=options.FILE, required=True, help="Rows with labels, such as those of fit."
)
@click.option("--target", help="Their column of labels; by default that of the model.")
@click.option("-k", "n_neighbors", type=click.IntRange(1), default=5, show_default=True)
@click.option(
    "--weights",
    type=click.Choice(["uniform", "distance"]),
    default="uniform",
    show_default=True,
    help="Whether near rows count more.",
)
@click.option("--proba", is_flag=True, help="Write the share of each class, too.")
@click.option("--keep", multiple=True, metavar="COLUMN", help="A column of DATA to write, too.")
@click.option("-o", "--output", type=options.OUTPUT, help="Where to; by default CSV is printed.")
@options.of_files
@options.shared
def predict_command(
    model: Path, data: Path, database: Path, target: str | None, n_neighbors: int, weights: str,
    proba: bool, keep: tuple[str, ...], output: Path | None, as_json: bool, n_jobs: int | None,
    given: Format,
) -> None:  # fmt: skip
    """Predict the label of each row by its nearest rows under the learned distance.

    Those are looked for in --database, which has the labels: of classes the one that most of
    them have, of continuous labels their mean. DATA needs no labels.
    """
    loaded = Model.load(model, given)
    name = target_of(loaded, target)
    points, read = labelled(loaded, database, name)
    labels = Labels.of(read, loaded.continuous)
    if proba and labels.continuous:
        raise click.BadParameter(f"{name} is continuous: it has no classes.", param_hint="--proba")
    kind = KNeighborsRegressor if labels.continuous else KNeighborsClassifier
    predictor: Any = kind(n_neighbors, metric=loaded.learner, weights=weights, n_jobs=n_jobs)
    predictor.fit(points, labels.values)
    frame, queries = rows_of(loaded, data)
    columns = {each: column(frame, each, data).to_numpy() for each in keep}
    found = {f"predicted_{name}": predictor.predict(queries)}
    if proba:
        shares = predictor.predict_proba(queries).T
        found |= {f"share_{c}": s for c, s in zip(predictor.classes_, shares, strict=True)}
    repeated = sorted(set(found) & set(columns))
    if repeated:
        raise click.BadParameter(f"{repeated[0]!r} is what is written.", param_hint="--keep")
    give(columns | found, output, as_json, f"{len(queries)} rows")
