"""`metricfast transform` and `metricfast neighbors`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from metricfast._core.types import Array
from metricfast.cli import options, show
from metricfast.cli.data import labels_of
from metricfast.cli.files import column, read_table, write_table
from metricfast.cli.format import Format
from metricfast.cli.models import Model
from metricfast.predictors.nearest import NearestNeighbors

__all__ = [
    "give",
    "labelled",
    "neighbors_command",
    "rows_of",
    "target_of",
    "transform_command",
]


def rows_of(model: Model, path: Path, target: str | None = None) -> tuple[Any, Any]:
    """Return the table of a file, and its points; report what was missing or not known.

    `target`: the column to read as labels.
    """
    kinds = model.kinds | ({} if target is None else {target: "label"})
    table = read_table(path, model.format, kinds)
    frame = table.frame
    try:
        points = model.points(frame)
    except ValueError as error:
        hint = " --sep names what separates its columns." if len(frame.columns) == 1 else ""
        raise ValueError(f"{path}: {error}{hint}") from error
    show.tell(*(f"{path}: {remark}" for remark in table.remarks_on(model.kinds)))
    if model.encoder is not None:
        missing = {name: int(frame[name].isna().sum()) for name in model.kinds}
        each = ", ".join(f"{name} ({count})" for name, count in missing.items() if count)
        if each:
            show.tell(f"{path}: missing: {each}")
        for name, count in model.encoder.unseen(frame).items():
            show.tell(f"{path}: {count} values of {name} are none that the model has seen")
    return frame, points


def target_of(model: Model, target: str | None) -> str:
    """Return the name of the column of labels: the one given, else that of the model."""
    name = target or model.target
    if name is None:
        raise click.BadParameter("the model knows no target: name one.", param_hint="--target")
    return name


def labelled(model: Model, path: Path, target: str) -> tuple[Any, Array]:
    """Return points and labels of the rows of a file that have one; tell of the others."""
    frame, points = rows_of(model, path, target)
    values = column(frame, target, path)
    known = np.asarray(values.notna())
    if not known.all():
        show.tell(f"{path}: {int((~known).sum())} rows without {target} are left out")
    return points[known], labels_of(values[known])


@click.command("transform")
@click.argument("model", type=options.FILE)
@click.argument("data", type=options.FILE)
@click.option("--keep", multiple=True, metavar="COLUMN", help="A column to write, too.")
@click.option("-o", "--output", type=options.OUTPUT, help="Where to; by default CSV is printed.")
@options.of_files
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def transform_command(
    model: Path, data: Path, keep: tuple[str, ...], output: Path | None, as_json: bool,
    given: Format,
) -> None:  # fmt: skip
    """Write the rows of a table as points, whose Euclidean distance is the learned one."""
    loaded = Model.load(model, given)
    frame, points = rows_of(loaded, data)
    mapped = np.asarray(loaded.learner.transform(points), np.float64)
    columns = {name: column(frame, name, data).to_numpy() for name in keep}
    stem = type(loaded.learner).__name__.lower()
    columns |= {f"{stem}{j}": mapped[:, j] for j in range(mapped.shape[1])}
    if output is not None and output.suffix == ".npz":
        columns = {"X": mapped, **{name: columns[name] for name in keep}}
    give(columns, output, as_json, f"{len(mapped)} rows of {mapped.shape[1]} components")


@click.command("neighbors")
@click.argument("model", type=options.FILE)
@click.argument("data", type=options.FILE)
@click.option("--database", type=options.FILE, help="Rows to search; by default those of DATA.")
@click.option("-k", "n_neighbors", type=click.IntRange(1), default=5, show_default=True)
@click.option("--show", "shown", multiple=True, metavar="COLUMN", help="Of the neighbour.")
@click.option("-o", "--output", type=options.OUTPUT, help="Where to; by default CSV is printed.")
@options.of_files
@options.shared
def neighbors_command(
    model: Path, data: Path, database: Path | None, n_neighbors: int, shown: tuple[str, ...],
    output: Path | None, as_json: bool, n_jobs: int | None, given: Format,
) -> None:  # fmt: skip
    """Find the rows nearest to each row under the learned distance; rows count from 0."""
    loaded = Model.load(model, given)
    frame, points = rows_of(loaded, data)
    searched, others = (frame, points) if database is None else rows_of(loaded, database)
    search = NearestNeighbors(n_neighbors=n_neighbors, metric=loaded.learner, n_jobs=n_jobs).fit(
        others
    )
    distances, found = search.kneighbors(None if database is None else points)
    columns = {
        "row": np.repeat(np.arange(len(found)), found.shape[1]),
        "rank": np.tile(np.arange(1, found.shape[1] + 1), len(found)),
        "neighbor": found.ravel(),
        "distance": distances.ravel(),
    }
    for name in shown:
        columns[name] = column(searched, name, database or data).to_numpy()[found.ravel()]
    if as_json and output is None:
        columns = {"neighbors": found, "distances": distances}
    give(columns, output, as_json, f"{found.shape[1]} neighbours of {len(found)} rows")


def give(columns: dict[str, Any], output: Path | None, as_json: bool, what: str) -> None:
    """Write columns into a file, and tell what they are; without one, print them."""
    if output is not None:
        write_table(output, columns)
        show.tell(f"{what}: {output}")
    elif as_json:
        show.print_json(columns)
    else:
        from pandas import DataFrame

        click.echo(DataFrame(columns).to_csv(index=False), nl=False)
