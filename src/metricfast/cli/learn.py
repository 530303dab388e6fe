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
    start = time.perf_counter()
    with read.named():
        labels = Labels.of(read.labels, continuous)
        options.check_suited([learner], labels)
        model = Model.fit(estimator, read, SCALES[scale], labels.continuous)
    seconds = time.perf_counter() - start
    model.save(output)
    points = model.points(read.frame[:1])
    width = model.learner.transform(points).shape[1]
    n_iter = getattr(model.learner, "n_iter_", None)
    if n_iter == 1:
        show.tell(_why_one(model.learner))
    if as_json:
        found = {"model": str(output), "learner": learner, "seconds": seconds, "data": read.report}
        shape = {"n_features": points.shape[1], "n_components": width}
        show.print_json(
            {**found, **shape, "n_iter": n_iter, "standardised": model.units is not None}
        )
        return
    units = "standardised" if model.units is not None else "in their units"
    iterations = "" if n_iter is None else f", {n_iter} iteration{'s' * (n_iter != 1)}"
    click.echo(
        f"{learner}: {points.shape[1]} features, {units}, to {width} components in "
        f"{seconds:.2f} s{iterations}: {output}"
    )


def _why_one(learner: Any) -> str:
    """Return what a single iteration means."""
    if getattr(learner, "early_stopping", False):
        return (
            "note: training stopped after 1 iteration, by early stopping or convergence; "
            "--set early_stopping=false trains until convergence"
        )
    return "note: training stopped after 1 iteration"
