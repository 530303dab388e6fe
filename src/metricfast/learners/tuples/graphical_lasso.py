"""The graphical lasso, by the alternating direction method of multipliers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.initialize import components_from_metric
from metricfast._core.memory import block_rows
from metricfast._core.scatter import MANY_FEATURES
from metricfast._core.types import Floats, Integers
from metricfast._core.warn import warn_user
from metricfast._core.wide_map import AnyMap, WideMap

MAX_ITER = 2000
_TOL = 1e-7


@dataclass
class ScatterOfSpan:
    """The matrix ``I + basis @ inner @ basis.T``, whose entries are computed by blocks.

    `basis`: ndarray of shape (n_features, n_directions), orthonormal. `inner`: symmetric.
    """

    basis: Floats
    inner: Floats

    @cached_property
    def _left(self) -> Floats:
        left: Floats = self.basis @ self.inner
        return left

    @property
    def diagonal(self) -> Floats:
        """The entries of the diagonal."""
        entries: Floats = np.einsum("ij,ij->i", self._left, self.basis) + 1
        return entries

    def block(self, members: Integers) -> Floats:
        """Return the entries of some features."""
        found: Floats = self._left[members] @ self.basis[members].T
        found = (found + found.T) / 2
        found[np.diag_indices(len(members))] += 1
        return found

    def groups(self, sparsity: float) -> Integers:
        """Return the group of each feature; entries of two groups are at most `sparsity`."""
        n, group = len(self.basis), np.arange(len(self.basis))
        step = block_rows(16 * n)
        for start in range(0, n, step):
            entries = self._left[start : start + step] @ self.basis[start:].T
            rows, columns = np.nonzero(np.abs(entries) > sparsity)
            edges = np.r_[np.arange(n), rows + start], np.r_[group, columns + start]
            graph = coo_array((np.ones(len(edges[0]), bool), edges), (n, n))
            labels = connected_components(graph, directed=False)[1]
            group = np.unique(labels, return_index=True)[1][labels]  # the first of each
        return np.unique(group, return_inverse=True)[1]


@dataclass(frozen=True)
class BlockMatrix:
    """A symmetric matrix of groups of features, with zeros between features of two groups.

    `diagonal`: ndarray of shape (n_features,). `blocks`: the features of each group of more than
    one, and their matrix.
    """

    diagonal: Floats
    blocks: list[tuple[Integers, Floats]]

    def array(self) -> Floats:
        """Return the matrix."""
        M: Floats = np.diag(self.diagonal)
        for members, block in self.blocks:
            M[np.ix_(members, members)] = block
        return M

    def components(self, n_components: int | None) -> AnyMap:
        """Return a map L with ``L.T @ L`` the matrix, or its leading eigenvectors.

        The square map has no entries between groups.
        """
        d, n = len(self.diagonal), sum(len(members) for members, _ in self.blocks)
        if n > d // 2:
            return components_from_metric(self.array(), n_components=n_components)
        if n_components is None:
            root = np.sqrt(self.diagonal)
            left, right, end = np.zeros((d, n)), np.zeros((d, n)), 0
            for members, block in self.blocks:
                start, end = end, end + len(members)
                left[members, start:end] = components_from_metric(block)
                right[members, np.arange(start, end)] = 1
                root[members] = 0
            return WideMap(root, left, right)
        single = self.diagonal.copy()
        single[[i for members, _ in self.blocks for i in members]] = 0
        order = np.argsort(-single, kind="stable")[:n_components]
        found: list[tuple[float, Any, Any]] = [(single[i], i, 1.0) for i in order]
        for members, block in self.blocks:
            values, vectors = np.linalg.eigh(block)
            found += zip(values, [members] * len(values), vectors.T, strict=True)
        L = np.zeros((n_components, d))
        for row, (value, members, vector) in zip(L, sorted(found, key=_value), strict=False):
            row[members] = np.sqrt(value) * vector
        return L


def _value(found: tuple[float, Any, Any]) -> float:
    return -found[0]


def graphical_lasso(
    matrix: Floats | ScatterOfSpan,
    sparsity: float,
    observer: Callable[[int, float, BlockMatrix], bool] | None = None,
) -> BlockMatrix:
    r"""Minimise ``tr(S M) - log det M + sparsity * sum_{i != j} |M_ij|``.

    Every iterate is made of an eigendecomposition, so the method converges for any positive
    definite S, where coordinate descent may stall or leave the definite matrices. Features that
    are not connected by entries of S above the sparsity are independent in the minimum, so each
    group of connected features is solved for by itself.

    `matrix`: ndarray of shape (n_features, n_features), or ScatterOfSpan; S, positive definite.
    `observer`: gets the number of each iteration, by how much it is off, and M; a true result
        ends the iterations.
    Returns M, positive definite. Warns ConvergenceWarning if iterations run out.

    References
    ----------
    S. Boyd, N. Parikh, E. Chu, B. Peleato, J. Eckstein, "Distributed optimization and statistical
    learning via the alternating direction method of multipliers", section 6.5 (2011).

    D. M. Witten, J. H. Friedman, N. Simon, "New insights and faster computations for the graphical
    lasso", Journal of Computational and Graphical Statistics 20 (2011).
    """
    if isinstance(matrix, ScatterOfSpan):
        diagonal, group = matrix.diagonal, matrix.groups(sparsity)
    else:
        diagonal, connected = np.diag(matrix), csr_array(np.abs(matrix) > sparsity)
        group = connected_components(connected, directed=False)[1]
    solution = BlockMatrix(1 / diagonal, [])
    order, sizes = np.argsort(group, kind="stable"), np.bincount(group)
    for members in np.split(order, np.cumsum(sizes)[:-1]):
        if len(members) == 1:
            continue
        start = np.diag(solution.diagonal[members])
        solution.blocks.append((members, start))
        stopped = False

        def observe(iteration: int, off: float, present: Floats, members: Any = members) -> bool:
            nonlocal stopped
            solution.blocks[-1] = members, present
            stopped = observer is not None and observer(iteration, off, solution)
            return stopped

        if isinstance(matrix, ScatterOfSpan):
            entries = matrix.block(members)
        else:
            entries = matrix if len(members) == len(matrix) else matrix[np.ix_(members, members)]
        solution.blocks[-1] = members, _of_connected(entries, sparsity, observe)
        if stopped:
            break
    return solution


def _of_connected(
    matrix: Floats, sparsity: float, observer: Callable[[int, float, Floats], bool] | None
) -> Floats:
    """Minimise the same function for all features together."""
    if len(matrix) > MANY_FEATURES:
        warn_user(
            f"{len(matrix):,} features depend on each other at sparsity_param={sparsity:g}. Each "
            f"of up to {MAX_ITER} iterations takes an eigendecomposition of a matrix of all of "
            "them. Raise sparsity_param, which leaves smaller groups of features, set it to 0, "
            "which needs no iterations, or reduce the features by PCA before."
        )
    # In these units, the diagonal of S is 1.
    unit = np.sqrt(np.diag(matrix))
    units = unit * unit[:, None]
    S = matrix / units
    sparse = np.linalg.inv(S)
    penalty = sparsity * (1 - np.eye(len(S))) / units
    if not penalty.any():
        return np.asarray(sparse / units)
    rho, size, dual = 1 / np.linalg.norm(sparse, 2), np.linalg.norm(S), np.zeros_like(S)
    for iteration in range(1, MAX_ITER + 1):
        values, vectors = np.linalg.eigh(rho * (sparse - dual) - S)
        root = np.sqrt(values**2 + 4 * rho)
        values = np.where(values > 0, (values + root) / (2 * rho), 2 / (root - values))
        definite = (vectors * values) @ vectors.T
        shifted, before = definite + dual, sparse
        sparse = np.sign(shifted) * np.maximum(np.abs(shifted) - penalty / rho, 0)
        dual = shifted - sparse
        gap = float(np.linalg.norm(definite - sparse) / np.linalg.norm(sparse))
        move = float(rho * np.linalg.norm(sparse - before) / size)
        stopped = observer is not None and observer(iteration, max(gap, move), definite / units)
        if stopped or max(gap, move) < _TOL:
            break
        if iteration % 10 == 0 and not 0.2 * gap <= move <= 5 * gap:
            factor = 2.0 if gap > move else 0.5
            rho, dual = rho * factor, dual / factor
    else:
        warn_user(
            f"The graphical lasso did not converge in {MAX_ITER} iterations: reduce "
            "balance_param, raise sparsity_param, or rescale the points.",
            ConvergenceWarning,
        )
    # `sparse` has exact zeros, but is guaranteed to be positive definite only in the limit.
    sparse = (sparse + sparse.T) / 2
    definite = sparse if np.linalg.eigvalsh(sparse)[0] > 0 else definite
    return np.asarray(definite / units)
