"""Candidate impostors, searched for rarely and reused while a bound proves them complete."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricfast import losses

__all__ = ["ImpostorLists"]

# Work on a listed pair, in units of a pair of the full search (which runs at the speed of a product
# of matrices).
_PAIR_COST = 64
_MAX_CANDIDATES = 32_000_000
_MAX_WAIT = 8


class ImpostorLists:
    r"""For every anchor the points of other classes that can violate its margin.

    A full search at the embedding :math:`Z^0` lists for anchor i all points l of other classes with
    :math:`\|z_i^0 - z_l^0\| \le \rho_i^0 + s`, where :math:`\rho_i = \sqrt{\max_t D_{it} + m}` is the
    reach of its margin m and s a slack. For any factor c, with
    :math:`\delta_i = \|z_i - c z_i^0\|`, the triangle inequality gives
    :math:`\|z_i - z_l\| \ge c \|z_i^0 - z_l^0\| - \delta_i - \delta_l`, so the list of i is complete
    while

    .. math:: \rho_i \le c (\rho_i^0 + s) - \delta_i - \max_l \delta_l .

    c is the least-squares fit of Z to :math:`Z^0`: a common change of scale uses up no slack.

    The slack is a share of the median reach. It is doubled when a search turns out to have cost more
    than the evaluations that its lists have served, and halved in the other case, so that the two
    stay in balance. Where the lists would be longer than `max_candidates`, or so long that a search
    in every evaluation costs less, the slack is quartered, and the evaluation is left to search for
    itself; lists are tried again after 1, 2, 4, then 8 such evaluations.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,), int64
        Class of each point.
    targets : ndarray of shape (n_samples, k), int64
        Target neighbours of each point.
    margin : float
        The margin, a squared distance.
    n_jobs : int or None
        Threads of the search.
    max_candidates : int
        Largest total length of the lists.

    Attributes
    ----------
    n_searches : int
        Number of full searches so far.
    """

    def __init__(
        self,
        labels: NDArray[np.int64],
        targets: NDArray[np.int64],
        margin: float,
        n_jobs: int | None = None,
        max_candidates: int = _MAX_CANDIDATES,
    ) -> None:
        self._labels, self._targets = labels, targets
        self._margin, self._n_jobs = margin, n_jobs
        self._pairs = labels.size**2
        self._max_candidates = min(max_candidates, max(1000, self._pairs // _PAIR_COST))
        self._share = 0.1
        self._lists: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
        self._served = self._wait = self._failures = 0
        self.n_searches = 0

    def __call__(self, Z: NDArray[np.floating]) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Complete lists for the embedding Z as (indptr, indices), or None: too many to list."""
        reach = self._reach(Z)
        if self._lists is not None:
            if self._complete(Z, reach):
                self._served += 1
                return self._lists
            balanced = self._served * self._lists[1].size * _PAIR_COST
            self._share *= 2 if balanced < self._pairs else 0.5
        elif self._wait > 0:
            self._wait -= 1
            return None
        self._search(Z, reach)
        return self._lists

    def _reach(self, Z: NDArray[np.floating]) -> NDArray[np.float64]:
        furthest = np.zeros(len(Z))
        for column in self._targets.T:
            difference = Z - Z[column]
            np.maximum(furthest, np.einsum("ij,ij->i", difference, difference), out=furthest)
        return np.sqrt(furthest + self._margin)

    def _complete(self, Z: NDArray[np.floating], reach: NDArray[np.float64]) -> bool:
        norm = float(np.vdot(self._Z0, self._Z0))
        factor = float(np.vdot(self._Z0, Z)) / norm if norm > 0 else 1.0
        if factor <= 0:
            return False
        moved = Z - Z.dtype.type(factor) * self._Z0
        moved = np.sqrt(np.einsum("ij,ij->i", moved, moved))
        rounding = 16 * np.finfo(Z.dtype).eps * reach
        return bool(np.all(reach + rounding <= factor * self._covered - moved - moved.max()))

    def _search(self, Z: NDArray[np.floating], reach: NDArray[np.float64]) -> None:
        slack = self._share * float(np.median(reach))
        self._lists = losses.LMNN.find_impostors(
            Z,
            self._labels,
            self._targets,
            slack=slack,
            margin=self._margin,
            n_jobs=self._n_jobs,
            max_candidates=self._max_candidates,
        )
        self.n_searches += 1
        if self._lists is None:
            self._share /= 4
            self._wait = min(2**self._failures, _MAX_WAIT)
            self._failures += 1
        else:
            self._Z0, self._covered = Z, reach + slack
            self._served, self._failures = 1, 0
