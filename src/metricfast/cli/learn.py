"""`metricfast fit`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from metricfast.cli import options, show
from metricfast.cli.data import read_data
from metricfast.cli.format import Format
from metricfast.cli.models import Model
from metricfast.comparison.labels import Labels

__all__ = ["fit_command"]

SCALES: dict[str, bool | str] = {"auto": "auto", "yes": True, "no": False}


@click.command("fit")
@options.of_data
@click.option("--learner", type=options.LEARNER, required=True, help="lmnn, nca, lfda, mlkr, …")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A parameter of the learner."
)
@click.option("-o", "--output", type=options.OUTPUT, required=True, help="The model file.")
def fit_command(
    data: Path, target: str, drop: tuple[str, ...], categorical: tuple[str, ...],
    continuous: bool | None, scale: str, seed: int, as_json: bool, n_jobs: int | None,
    given: Format,
    learner: str, settings: tuple[str, ...], output: Path,
) -> None:  # fmt: skip
    """Fit a learner to a table, and save it with the encoding of the table."""
    estimator: Any = options.learner_of(learner, settings, seed, n_jobs)
    read = read_data(data, target, drop, categorical, given)
    if not as_json:
        show.tell(*read.told())
    labels = Labels.of(read.labels, continuous)
    start = time.perf_counter()
    model = Model.fit(estimator, read, SCALES[scale], labels.continuous)
    seconds = time.perf_counter() - start
    model.save(output)
    points = model.points(read.frame[:1])
    width = model.learner.transform(points).shape[1]
    if as_json:
        found = {"model": str(output), "learner": learner, "seconds": seconds, "data": read.report}
        shape = {"n_features": points.shape[1], "n_components": width}
        show.print_json({**found, **shape, "standardised": model.units is not None})
        return
    units = "standardised" if model.units is not None else "in their units"
    click.echo(
        f"{learner}: {points.shape[1]} features, {units}, to {width} components in "
        f"{seconds:.2f} s: {output}"
    )
