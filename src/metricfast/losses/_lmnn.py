"""Large margin nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arguments import as_array, check_count, check_range
from metricfast._core.arrays import as_codes, as_indices, as_points, as_threads, check_indices
from metricfast._core.dispatch import get_kernels
from metricfast._core.parameters import FiniteFloat, NonNegativeFloat, PositiveInt
from metricfast._core.types import Array, Integers
from metricfast.distances.neighbors import kneighbors, paired_distances
from metricfast.losses._call import BaseLoss, Call, Gradient, Totals


@dataclass(eq=False, repr=False)
class LMNN(BaseLoss):
    """Large margin nearest neighbours, with fixed target neighbours.

    ``reg sum_i s_i sum_t D_it + (1 - reg) sum_i s_i sum_t sum_l [margin + D_it - D_il]_+`` with t
    over the anchor's targets and l over all points of other classes.

    Parameters
    ----------
    n_neighbors : int, default=3
        Targets per anchor, where they are not given.
    regularization : float, default=0.5
        ``reg``: the share of the pull.
    margin : float, default=1.0
    reduction : {"sum", "mean", "mean_nonzero"}, default="sum"
        "mean" divides by the weight of the anchors, "mean_nonzero" by the number of terms above 0:
        of the distances to targets and of the hinges.

    References
    ----------
    Weinberger, Saul. Distance metric learning for large margin nearest neighbor classification.
    JMLR 10, 2009.

    Examples
    --------
    >>> from metricfast.losses import LMNN
    >>> value, grad = LMNN(n_neighbors=1)([[0.0], [1.0], [1.5], [9.0]], [0, 0, 1, 1])
    >>> value > 0, grad.shape
    (True, (4, 1))
    """

    n_neighbors: PositiveInt = 3
    regularization: FiniteFloat = 0.5
    margin: NonNegativeFloat = 1.0
    reduction: Literal["sum", "mean", "mean_nonzero"] = "sum"

    def __call__(
        self,
        Z: ArrayLike,
        y: ArrayLike,
        Z_database: ArrayLike | None = None,
        y_database: ArrayLike | None = None,
        *,
        targets: ArrayLike | None = None,
        impostors: tuple[Integers, Integers] | None = None,
        sample_weight: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> tuple[float, Gradient]:
        """Value and gradient.

        Parameters
        ----------
        targets : array-like of int of shape (n, k), optional
            Database indices of each anchor's targets, -1 for none; by default the ``n_neighbors``
            nearest points of its class at Z.
        impostors : pair of arrays (row_starts, columns), optional
            For each anchor, in compressed sparse rows, the columns to look at, as
            :meth:`find_impostors` gives: its targets and at least all active impostors. By default
            every point of the database is looked at.
        Z, y, Z_database, y_database, sample_weight, exclude, n_jobs
            See the module's description; ``sample_weight`` weighs anchors alone.
        """
        call = self._call(
            Z, y, Z_database, y_database,
            sample_weight=sample_weight, exclude=exclude, n_jobs=n_jobs,
        )  # fmt: skip
        n, m = len(call.queries), len(call.references)
        if targets is not None:
            call.options["targets"] = _as_targets(targets, n, m)
        if impostors is not None:
            call.options["impostors"] = _as_lists(impostors, n, m)
        return self._result(call, self._run(call))

    def _run(self, call: Call) -> Totals:
        targets, impostors = (call.options.get(name) for name in ("targets", "impostors"))
        if targets is None:
            k = int(self.n_neighbors)
            targets = _nearest_of_class(
                call.queries, call.y, call.references, call.y_database, k, call.exclude,
                call.threads,
            )  # fmt: skip
        call.lists = impostors
        settings = (targets, targets.shape[1], self.regularization, self.margin)
        return get_kernels().lmnn(call, settings)

    @staticmethod
    def find_targets(
        Z: ArrayLike, y: ArrayLike, n_neighbors: int = 3, *, n_jobs: int | None = None
    ) -> Integers:
        """Find the nearest points of the same class for each point.

        Returns
        -------
        ndarray of int64 of shape (n, n_neighbors)
            Indices into Z, nearest first.

        Raises
        ------
        ValueError
            If a class has no more than ``n_neighbors`` members, or an argument cannot be used.
        """
        n_neighbors = check_count("n_neighbors", n_neighbors)
        points = as_points(Z, "Z")
        classes, codes = as_codes(y, "y", len(points))
        counts = np.bincount(codes, minlength=len(classes))
        if (counts <= n_neighbors).any():
            smallest = int(counts.argmin())
            remedy = "Lower n_neighbors" if counts[smallest] > 1 else "Give more points of it"
            raise ValueError(
                f"Class {classes[smallest]} of y has {counts[smallest]} member(s): each class "
                f"needs more than n_neighbors={n_neighbors}. {remedy} or leave the class out."
            )
        own = np.arange(len(points))
        return _nearest_of_class(points, codes, points, codes, n_neighbors, own, as_threads(n_jobs))

    @staticmethod
    def find_impostors(
        Z: ArrayLike,
        y: ArrayLike,
        targets: Integers,
        slack: float = 0.0,
        margin: float = 1.0,
        *,
        n_jobs: int | None = None,
        max_candidates: int = 50_000_000,
    ) -> tuple[Integers, Integers] | None:
        """Each anchor's targets, and all l of other classes that may be its impostors.

        Those are the l with ``d(i, l) <= sqrt(max_t D_it + margin) + slack`` (plain distances):
        with a slack the lists outlast small moves of the points, since
        ``|d(i, l) - d0(i, l)| <= |z_i - z0_i| + |z_l - z0_l|``.

        Returns
        -------
        (row_starts, columns), or None
            Lists in compressed sparse rows; None where they would exceed ``max_candidates``.

        Raises
        ------
        ValueError
            If an argument cannot be used; the message names it.
        """
        points = as_points(Z, "Z")
        classes, codes = as_codes(y, "y", len(points))
        targets = _as_targets(targets, len(points), len(points))
        check_range("slack", slack)
        check_range("margin", margin)
        most = check_count("max_candidates", max_candidates, least=0)
        reach = np.zeros(len(points))
        anchors = np.arange(len(points))
        for column in targets.T:
            known = np.flatnonzero(column >= 0)
            pairs = np.stack([anchors[known], column[known]], axis=1)
            d = paired_distances(points, pairs=pairs, squared=True, n_jobs=n_jobs)
            reach[known] = np.maximum(reach[known], d)
        radius = np.sqrt(reach + margin) + slack
        if points.dtype == np.float32:
            radius *= 1 + 1e-6  # margin for float32 rounding in the loss
        lists = get_kernels().find_impostors(
            points, codes, len(classes), radius, most, as_threads(n_jobs)
        )
        return lists if lists is None else _with_targets(lists, targets)


def _nearest_of_class(
    queries: Array,
    y: Integers,
    database: Array,
    y_database: Integers,
    k: int,
    exclude: Integers | None,
    threads: int,
) -> Integers:
    """Database rows of the anchor's class, (n, k), nearest first, and -1 where there are fewer."""
    rows = np.full((len(queries), k), -1, np.int64)
    k = min(k, len(database))
    where = "equal", y, y_database
    how: dict[str, Any] = {"exclude": exclude, "where": where, "n_jobs": threads}
    rows[:, :k] = kneighbors(queries, database, k, **how)[1]
    return rows


def _as_targets(targets: ArrayLike, n: int, m: int) -> Integers:
    return as_indices(targets, "targets", f"be integers of shape ({n}, k)", (n, None), (-1, m))


def _as_lists(impostors: Any, n: int, m: int) -> tuple[Integers, Integers]:
    """Check lists of database indices in compressed sparse rows."""
    pair = isinstance(impostors, (tuple, list)) and len(impostors) == 2
    found = [as_array(part, "impostors") for part in impostors] if pair else []
    if not found or any(part.ndim != 1 or part.dtype.kind not in "iu" for part in found):
        raise ValueError(
            "impostors must be two arrays of integers, (row_starts, columns), as find_impostors "
            f"gives; found {impostors!r}."
        )
    starts, columns = (np.ascontiguousarray(part, dtype=np.int64) for part in found)
    ordered = len(starts) == n + 1 and starts[0] == 0 and (np.diff(starts) >= 0).all()
    if not ordered or starts[-1] != len(columns):
        raise ValueError(
            f"impostors must have {n + 1} row_starts, from 0 to the number of columns, "
            f"{len(columns)}."
        )
    check_indices(columns, "columns of impostors", 0, m)
    return starts, columns


def _with_targets(
    impostors: tuple[Integers, Integers], targets: Integers
) -> tuple[Integers, Integers]:
    """Prepend each anchor's targets to its list, which gives all columns that its row needs."""
    starts, columns = impostors
    known = targets >= 0
    counts = known.sum(1)
    merged = np.insert(columns, np.repeat(starts[:-1], counts), targets[known])
    return starts + np.concatenate([[0], np.cumsum(counts)]), merged
