"""`metricfast compare`."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress

import metricfast
from metricfast.cli import options, show
from metricfast.cli.data import read_data
from metricfast.cli.files import write_table
from metricfast.cli.format import Format
from metricfast.cli.learn import SCALES
from metricfast.comparison.candidates import suited
from metricfast.comparison.labels import Labels
from metricfast.comparison.result import HEADINGS, Comparison

__all__ = ["compare_command"]


@click.command("compare")
@options.of_data
@click.option(
    "--learner",
    "learners",
    type=options.ANY_LEARNER,
    multiple=True,
    help="By default all that suit.",
)
@click.option("--cv", type=click.IntRange(2), default=5, show_default=True, help="Folds.")
@click.option("-k", "n_neighbors", type=click.IntRange(1), default=5, show_default=True)
@click.option("--scoring", help="A scorer of scikit-learn in place of accuracy or R².")
@click.option("--time-limit", type=click.FloatRange(0), metavar="SECONDS")
@click.option("--checkpoint", type=options.OUTPUT, help="A file from which the same call goes on.")
@click.option("-o", "--output", type=options.OUTPUT, help="Write the table: CSV, Parquet or npz.")
@click.option("--plot", type=options.OUTPUT, help="Draw the table: a PNG, PDF or SVG file.")
def compare_command(
    data: Path, target: str, drop: tuple[str, ...], categorical: tuple[str, ...],
    continuous: bool | None, scale: str, seed: int, as_json: bool, n_jobs: int | None,
    given: Format,
    learners: tuple[str, ...], cv: int, n_neighbors: int, scoring: str | None,
    time_limit: float | None, checkpoint: Path | None, output: Path | None, plot: Path | None,
) -> None:  # fmt: skip
    """Which learner for this table? Cross-validated, beside the Euclidean distance."""
    if plot is not None:
        importlib.import_module("metricfast.plotting")  # which says what to install
    read = read_data(data, target, drop, categorical, given)
    if not as_json:
        show.tell(*read.told())
    with read.named():
        labels = Labels.of(read.labels, continuous)
        options.check_suited(learners, labels)
    names = learners or tuple(suited(len(read.labels), labels.continuous))
    console = Console(stderr=True)
    hidden = not console.is_terminal
    with read.named(), Progress(console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("comparing", total=len(names) + 2)
        found = metricfast.compare(
            read.frame, read.labels, learners=names, cv=cv, scoring=scoring,
            n_neighbors=n_neighbors, continuous=labels.continuous, preprocessing=read.encoder(),
            scale=SCALES[scale], time_limit=time_limit, checkpoint=checkpoint, refit=False,
            callbacks=[lambda row: progress.update(task, advance=1, description=row.learner)],
            random_state=seed, n_jobs=n_jobs,
        )  # fmt: skip
    if output is not None:
        write_table(output, {k: v.to_numpy() for k, v in found.table.items()})
    if plot is not None:
        _draw(found, plot)
    if as_json:
        show.print_json({**found.to_dict(), "data": read.report})
    else:
        show.print_table(HEADINGS, [row.cells() for row in found.rows], found.task)
        click.echo(found.verdict())
    if found.interrupted_:
        raise KeyboardInterrupt


def _draw(found: Comparison, path: Path) -> None:
    """Draw scores and their intervals."""
    plt: Any = importlib.import_module("matplotlib.pyplot")
    rows = [row for row in found.rows[::-1] if row.score == row.score]
    figure, ax = plt.subplots(figsize=(7, 1 + 0.28 * len(rows)), layout="constrained")
    for i, row in enumerate(rows):
        colour = {"better": "#228833", "worse": "#cc3311"}.get(row.change, "#777777")
        ax.plot([row.low, row.high], [i, i], color=colour)
        ax.plot(row.score, i, "o", color=colour)
    base = next(row.score for row in rows if row.learner == found.baseline)
    ax.axvline(base, color="#777777", linestyle=":", label=found.baseline)
    ax.set_yticks(range(len(rows)), [row.learner for row in rows])
    ax.set_xlabel("score, 95 % interval")
    ax.set_title(found.task, fontsize="medium")
    figure.savefig(path, dpi=100)
    plt.close(figure)
