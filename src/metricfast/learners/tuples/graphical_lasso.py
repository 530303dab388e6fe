"""The graphical lasso, by the alternating direction method of multipliers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.types import Floats
from metricfast._core.warn import warn_user

__all__ = ["MAX_ITER", "graphical_lasso"]


MAX_ITER = 2000
_TOL = 1e-7
# Iterations between updates of the step size.
_PERIOD = 10
# From this many features on, a fit takes minutes.
_MANY = 1000


def graphical_lasso(
    matrix: Floats, sparsity: float, observer: Callable[[int, float, Floats], bool] | None = None
) -> Floats:
    r"""Minimise ``tr(S M) - log det M + sparsity * sum_{i != j} |M_ij|``.

    Every iterate is made of an eigendecomposition, so the method converges for any positive
    definite S, where coordinate descent may stall or leave the definite matrices. Features that
    are not connected by entries of S above the sparsity are independent in the minimum, so each
    group of connected features is solved for by itself.

    `matrix`: ndarray of shape (n_features, n_features); S, positive definite.
    `observer`: gets the number of each iteration, by how much it is off, and M; a true result
        ends the iterations.
    Returns an ndarray of shape (n_features, n_features): positive definite. Warns
    ConvergenceWarning if iterations run out.

    References
    ----------
    S. Boyd, N. Parikh, E. Chu, B. Peleato, J. Eckstein, "Distributed optimization and statistical
    learning via the alternating direction method of multipliers", section 6.5 (2011).

    D. M. Witten, J. H. Friedman, N. Simon, "New insights and faster computations for the graphical
    lasso", Journal of Computational and Graphical Statistics 20 (2011).
    """
    connected = csr_array(np.abs(matrix) > sparsity)
    n_groups, group = connected_components(connected, directed=False)
    if n_groups == 1:
        return _of_connected(matrix, sparsity, observer)
    solution = np.diag(1 / np.diag(matrix))
    order = np.argsort(group, kind="stable")
    for members in np.split(order, np.cumsum(np.bincount(group))[:-1]):
        if len(members) == 1:
            continue
        places, stopped = np.ix_(members, members), False

        def observe(iteration: int, off: float, present: Floats, places: Any = places) -> bool:
            nonlocal stopped
            solution[places] = present
            stopped = observer is not None and observer(iteration, off, solution)
            return stopped

        solution[places] = _of_connected(matrix[places], sparsity, observe)
        if stopped:
            break
    return solution


def _of_connected(
    matrix: Floats, sparsity: float, observer: Callable[[int, float, Floats], bool] | None
) -> Floats:
    """Minimise the same function for all features together."""
    if len(matrix) > _MANY:
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
        if iteration % _PERIOD == 0 and not 0.2 * gap <= move <= 5 * gap:
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
