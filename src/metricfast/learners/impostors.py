"""Lists of impostors for LMNN, reused until they may be incomplete."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

import metricfast.losses as losses
from metricfast.distances.neighbors import paired_distances
from metricfast.losses._bound import is_whole
from metricfast.samplers import Batch

MARGIN = 1.0

# If lists hold more than this share of all pairs, evaluating whole rows costs less than a search
# with lists. With slack, an evaluation of lists with the second share costs as much as a search.
_MAX_SHARE = 1 / 32
_MAX_SHARE_WITH_SLACK = 1 / 400


class ImpostorLists:
    r"""For every anchor the points of other classes that can violate its margin.

    A full search at the embedding :math:`Z^0` lists for anchor i all points l of other classes
    with :math:`\|z_i^0 - z_l^0\| \le \rho_i^0 + s`, where :math:`\rho_i^2` is the margin plus the
    largest :math:`D_{it}` and s a slack. For any factor c, with
    :math:`\delta_i = \|z_i - c z_i^0\|`, the triangle inequality gives
    :math:`\|z_i - z_l\| \ge c \|z_i^0 - z_l^0\| - \delta_i - \delta_l`, so the list of i is
    complete while

    .. math:: \rho_i \le c (\rho_i^0 + s) - \delta_i - \max_l \delta_l .

    c is the least-squares fit of Z to :math:`Z^0`: a common change of scale uses up no slack.

    A longer slack makes lists longer, but lets them last for more evaluations. When lists are no
    longer complete, the smallest slack that would have sufficed is known. The next slack is twice
    this value if the search cost more than the evaluations with its lists, else half. This balances
    the two costs.

    If such lists would be too long, the slack is zero. A search without slack costs least, and its
    lists are used once. If even these lists are too long, as with overlapping classes, the
    next evaluations look at all pairs: first 1, then 2, 4, and 8 evaluations until the next search.

    `labels` and `targets` are int64, of shape (n_samples,) and (n_samples, k). The margin is a
    squared distance. `max_candidates` is the largest total length of the lists. `n_searches` counts
    full searches.
    """

    def __init__(
        self,
        labels: NDArray[np.int64],
        targets: NDArray[np.int64],
        margin: float,
        n_jobs: int | None = None,
        max_candidates: int = 16_000_000,  # of 8 bytes, and up to 24 during the search
    ) -> None:
        self._labels, self._targets = labels, targets
        self._target_pairs = np.column_stack(
            [np.repeat(np.arange(labels.size), targets.shape[1]), targets.ravel()]
        )
        self._margin, self._n_jobs = margin, n_jobs
        self._pairs = labels.size**2
        self._max_candidates = min(max_candidates, max(1000, int(self._pairs * _MAX_SHARE)))
        self._lists: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
        self._slack, self._too_long = 0.0, np.inf
        self._evaluations = self._wait = self._failures = 0
        self.n_searches = 0

    def __call__(
        self, Z: NDArray[np.floating]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Return complete lists for the embedding Z as (indptr, indices), or None if too long."""
        reach = self._reach(Z)
        if self._lists is not None:
            needed = self._needed_slack(Z, reach)
            if needed <= self._slack:
                self._evaluations += 1
                return self._lists
            # A listed pair costs as much as 40 pairs of the full search, which is a matrix product:
            # its points are anywhere in memory.
            cheap = self._evaluations * self._lists[1].size * 40 < self._pairs
            self._slack = needed * (2 if cheap else 0.5)
        elif self._wait > 0:
            self._wait -= 1
            return None
        if self._slack >= self._too_long:
            self._slack = 0.0
        if not self._search(Z, reach) and self._slack > 0:
            self._too_long, self._slack = self._slack / 2, 0.0
            self._search(Z, reach)
        return self._lists

    def _limit(self) -> int:
        if self._slack == 0:
            return self._max_candidates
        return min(self._max_candidates, max(1000, int(self._pairs * _MAX_SHARE_WITH_SLACK)))

    def _reach(self, Z: NDArray[np.floating]) -> NDArray[np.float64]:
        distances = paired_distances(Z, pairs=self._target_pairs, squared=True, n_jobs=self._n_jobs)
        furthest = distances.reshape(self._targets.shape).max(axis=1).astype(np.float64)
        return np.asarray(np.sqrt(furthest + self._margin))

    def _needed_slack(self, Z: NDArray[np.floating], reach: NDArray[np.float64]) -> float:
        norm = float(np.einsum("ij,ij->", self._Z0, self._Z0))
        factor = float(np.einsum("ij,ij->", self._Z0, Z)) / norm if norm > 0 else 1.0
        if factor <= 0:
            return np.inf
        moved = self._Z0 * Z.dtype.type(-factor)
        moved += Z
        distance = np.sqrt(np.einsum("ij,ij->i", moved, moved))
        rounding = 16 * np.finfo(Z.dtype).eps * reach
        needed = (reach + rounding + distance + distance.max()) / factor - self._reach0
        return float(needed.max())

    def _search(self, Z: NDArray[np.floating], reach: NDArray[np.float64]) -> bool:
        self._lists = losses.LMNN.find_impostors(
            Z,
            self._labels,
            self._targets,
            slack=self._slack,
            margin=self._margin,
            n_jobs=self._n_jobs,
            max_candidates=self._limit(),
        )
        self.n_searches += 1
        if self._lists is None:
            self._wait = min(2**self._failures, 8)
            self._failures += 1
            return False
        self._Z0, self._reach0 = Z, reach
        self._evaluations, self._failures = 1, 0
        # Lists that were too long for one embedding may be short for later ones.
        self._too_long *= 1.1
        return True


class TargetsAndImpostors:
    """The loss of LMNN, with stored targets and lists of impostors, called like a `BoundLoss`."""

    has_lists = True

    def __init__(
        self,
        labels: NDArray[np.int64],
        weight: NDArray[np.float64] | None,
        n_neighbors: int,
        regularization: float,
        n_jobs: int | None,
    ) -> None:
        self.y, self._regularization, self._n_jobs = labels, regularization, n_jobs
        self.loss = losses.LMNN(n_neighbors, regularization, MARGIN)
        self._bound = self.loss.on(labels, weight, n_jobs=n_jobs)
        self.targets: Any = None
        self._lists: ImpostorLists | None = None

    def set_targets(self, targets: NDArray[np.int64]) -> None:
        """Set the targets of all points."""
        self.targets, self._lists = targets, None

    def with_targets(self, anchors: Batch) -> Batch:
        """Return a batch of anchors and their targets."""
        near = np.setdiff1d(self.targets[anchors.rows[: anchors.n_anchors]], anchors.rows)
        return Batch(np.concatenate([anchors.rows, near]), anchors.n_anchors)

    def for_thread(self, n_jobs: int | None) -> TargetsAndImpostors:
        """Return a copy for another thread. It shares the labels, not the results."""
        own = copy.copy(self)
        own._bound = self._bound.for_thread(n_jobs)
        own.loss = own._bound.loss
        return own

    def evaluate_pairs(self, Z: NDArray[Any]) -> tuple[float, NDArray[Any]] | None:
        """Return the loss of all points from their lists, or None without lists."""
        if self._lists is None:
            self._lists = ImpostorLists(self.y, self.targets, MARGIN, self._n_jobs)
        lists, self.loss.regularization = self._lists(Z), self._regularization
        if lists is None:
            return None
        return self._bound(Z, targets=self.targets, impostors=lists)

    def __call__(
        self, Z: NDArray[Any], rows: Any = None, anchors: Any = None
    ) -> tuple[float, NDArray[Any]]:
        """Return the loss of the anchors of a batch, or of all points, and its gradient."""
        if rows is None:
            whole = is_whole(anchors, len(Z))
            found = self.evaluate_pairs(Z) if whole else None
            if found is None:
                self.loss.regularization = self._regularization
                targets = self.targets if whole else self.targets[anchors]
                found = self._bound(Z, anchors=anchors, targets=targets)
            return found
        # The batch's points of other classes represent all of them.
        push = (1 - self._regularization) * len(self.y) / len(rows)
        total = self._regularization + push
        self.loss.regularization = self._regularization / total
        order = np.argsort(rows)
        targets = self.targets[rows[anchors]]
        near = order[np.searchsorted(rows, targets, sorter=order)]
        value, upstream = self._bound(Z, rows, anchors, targets=near)
        return total * value, Z.dtype.type(total) * upstream
