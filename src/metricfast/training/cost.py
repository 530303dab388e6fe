"""The time and the memory of a training."""

from __future__ import annotations

import math
from collections.abc import Sequence

from metricfast._core.arrays import as_threads
from metricfast._core.warn import warn_if_long
from metricfast.training.solvers import Solver

# Seconds of a thread: for a pair of points, and for each of its coordinates; for an entry of a map
# and a point, and an entry and a step of the solver; for a step.
_PAIR, _COORDINATE, _PRODUCT, _CHANGE, _STEP = 2e-9, 1.25e-10, 4e-10, 6e-9, 4e-4
# Seconds over features cubed, for a decomposition of a matrix and a few products.
_DECOMPOSITION = 1e-9
# Trainings of a linear map that take as long as a learner, if several are compared.
_TRAININGS = 2
# Most iterations that a training usually needs; copies of the parameters, with moments.
_ITERATIONS, _COPIES = 100, 6
# Gibibytes that a user should know of.
_LARGE = 2.0


def warn_of_cost(
    shapes: Sequence[tuple[int, ...]], n_points: int, n_compared: int, batch: int, solver: Solver,
    n_jobs: int | None,
) -> None:  # fmt: skip
    """Warn before a training that may take more than a minute, or gigabytes of memory.

    `shapes`: of the parameters; the last has as many rows as there are components or proxies.
    `n_compared`: the number of points that a point is compared with in an iteration.
    `batch`: the number of points, or anchors, of a step.
    """
    n_iter = min(solver.n_iter, _ITERATIONS)
    n_entries = sum(math.prod(map(int, shape)) for shape in shapes)
    width = int(shapes[-1][0]) if shapes else 0  # `Identity` has no parameters
    pairs = float(n_points) * n_compared * (_PAIR + width * _COORDINATE)
    n_steps = n_points / int(batch)
    changes, steps = n_entries * (n_points * _PRODUCT + n_steps * _CHANGE), n_steps * _STEP
    seconds, size = n_iter * (pairs + changes + steps), _COPIES * 8 * n_entries / 2**30
    work = f"changes all {n_entries:,} parameters"
    faster = "a small n_components, such as 64, or PCA of the points before `fit`"
    if pairs > changes:
        work = f"compares all pairs of {n_points:,} points"
        faster = "solver='adam', whose steps compare the points of one batch"
    if pairs > changes and solver.by_batches:
        work = f"compares {n_points:,} points with {n_compared:,} each"
        faster = "a smaller max_epochs"
    if steps > max(pairs, changes):
        work = f"takes {n_steps:,.0f} steps"
        faster = "a smaller max_epochs, or larger batches"
    work = f"Each iteration {work}: {n_iter} iterations, and some more for the judge,"
    memory = f"{size:,.1f} GiB" if size > _LARGE else ""
    warn_if_long(seconds, work, faster, as_threads(n_jobs), memory)


def warn_of_race(n_learners: int, n_points: int, n_features: int, n_jobs: int | None) -> None:
    """Warn before a choice among learners without a time limit that may take minutes."""
    width = min(n_features, n_points)
    pairs = n_points**2 * (_PAIR + width * _COORDINATE)
    iteration = pairs + width**2 * n_points * _PRODUCT
    work = f"Trying {n_learners} learners on {n_points:,} points of {n_features:,} features"
    faster = "a time_limit in seconds, or some of the points"
    seconds = n_learners * _TRAININGS * _ITERATIONS * iteration
    warn_if_long(seconds, work, faster, as_threads(n_jobs))


def warn_of_decompositions(width: int, n_maps: int) -> None:
    """Warn before a judge computes so many maps of `width` features that it may take minutes."""
    work = f"`fit` computes {n_maps} maps of {width:,} features, which the judge compares. This"
    faster = "PCA of the points before `fit`, to some hundred components"
    warn_if_long(n_maps * _DECOMPOSITION * width**3, work, faster)
