"""The time and the memory of a training."""

from __future__ import annotations

import math
from collections.abc import Sequence

from metricfast._core.arrays import as_threads
from metricfast._core.warn import warn_user
from metricfast.training.solvers import Solver

# Seconds of a thread: for a pair of points, and for each of its coordinates; for an entry of a map
# and a point, and for a step of the solver.
_PAIR, _COORDINATE, _PRODUCT, _CHANGE = 2e-9, 1.25e-10, 4e-10, 6e-9
# Seconds over features cubed, for a closed form whose judge decomposes about 20 matrices.
_DECOMPOSITIONS = 6e-9
# Most iterations that a training usually needs; copies of the parameters, with moments.
_ITERATIONS, _COPIES = 100, 6
# Seconds, and gibibytes, that a user should know of.
_LONG, _LARGE = 60.0, 2.0


def warn_of_cost(
    shapes: Sequence[tuple[int, ...]], n_points: int, n_compared: int, batch: int, solver: Solver,
    n_jobs: int | None,
) -> None:  # fmt: skip
    """Warn before a training that may take more than a minute, or gigabytes of memory.

    `shapes`: of the parameters; the last has as many rows as there are components or proxies.
    `n_compared`: the number of points that a point is compared with in an iteration.
    `batch`: the number of points of a step.
    """
    n_iter = min(solver.n_iter, _ITERATIONS)
    n_entries = sum(math.prod(map(int, shape)) for shape in shapes)
    width = int(shapes[-1][0]) if shapes else 0  # `Identity` has no parameters
    pairs = float(n_points) * n_compared * (_PAIR + width * _COORDINATE)
    changes = n_entries * (n_points * _PRODUCT + n_points / batch * _CHANGE)
    n_threads = as_threads(n_jobs)
    seconds = n_iter * (pairs + changes) / n_threads
    size = _COPIES * 8 * n_entries / 2**30
    if seconds <= _LONG and size <= _LARGE:
        return
    work = f"changes all {n_entries:,} parameters"
    faster = "a small n_components, such as 64, or PCA of the points before `fit`"
    if pairs > changes:
        work = f"compares all pairs of {n_points:,} points"
        faster = "solver='adam', whose steps compare the points of one batch"
    if pairs > changes and solver.by_batches:
        work = f"compares {n_points:,} points with {n_compared:,} each"
        faster = "a smaller max_epochs"
    memory = f", and {size:,.1f} GiB of memory" if size > _LARGE else ""
    warn_user(
        f"Each iteration {work}: {n_iter} iterations may take {math.ceil(seconds / 60):,} "
        f"minute(s) on {n_threads} thread(s){memory}; the judge needs some more. Faster: {faster}."
    )


def warn_of_decompositions(width: int) -> None:
    """Warn before a judged fit with `width` x `width` matrices that may take more than a minute."""
    seconds = _DECOMPOSITIONS * width**3
    if seconds > _LONG:
        warn_user(
            f"`fit` computes with matrices of {width:,} x {width:,} entries, and its judge with "
            f"several, which may take {math.ceil(seconds / 60):,} minute(s). Faster: PCA of the "
            "points before `fit`, to some hundred components."
        )
