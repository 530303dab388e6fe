"""What the sparse compositional learners share: the weights of given bases, from triplets."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.arguments import check_count, check_range
from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.initialize import check_n_components, components_from_metric
from metricfast._core.progress import Progress
from metricfast._core.scaling import center_and_rescale, times_power_of_two, undo_scale
from metricfast._core.tuples import TupleSet
from metricfast._core.warn import warn_user
from metricfast.learners.base.learner import MahalanobisMixin

__all__ = ["CompositionalLearner", "check_integer"]


class CompositionalLearner(MahalanobisMixin):
    """Base of learners of sparse non-negative weights of bases."""

    _bases: tuple[str, ...] = ("triplet_diffs",)

    def __init__(
        self,
        beta: float = 1e-5,
        basis: str | NDArray[Any] = "triplet_diffs",
        n_basis: int | None = None,
        gamma: float = 5e-3,
        max_iter: int = 10000,
        output_iter: int = 500,
        batch_size: int = 10,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: int | np.random.RandomState | None = None,
        *,
        n_components: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self._take(locals())

    def _check_parameters(self) -> None:
        for name in ("max_iter", "output_iter", "batch_size"):
            check_integer(name, getattr(self, name))
        if self.n_basis is not None:
            check_integer("n_basis", self.n_basis)
        if self.output_iter > self.max_iter:
            raise ValueError("The value of output_iter must be equal or smaller than max_iter.")
        check_range("beta", self.beta)
        check_range("gamma", self.gamma, positive=True)
        as_threads(self.n_jobs)
        if not isinstance(self.basis, np.ndarray) and (
            not isinstance(self.basis, str) or self.basis not in self._bases
        ):
            raise ValueError(
                "`basis` must be one of the options '{}' or an array of shape "
                "(n_basis, n_features).".format("', '".join(self._bases))
            )

    def _fit(
        self,
        triplets: TupleSet,
        basis: NDArray[np.float64],
        rng: np.random.RandomState,
        weight: NDArray[np.float64] | None = None,
    ) -> None:
        """Find the weights of the bases, from triplets of positive weight."""
        if weight is not None and (weight == weight[0]).all():
            weight = None
        dtype = triplets.points.dtype
        points, exponent = center_and_rescale(triplets.points)
        triplets = TupleSet(points, triplets.index)
        n_components = self.n_components
        if n_components is not None:
            n_components = check_n_components(triplets.points.shape[1], n_components)
        weights = np.zeros(len(basis), dtype)
        best, best_value = weights.copy(), math.inf
        curve: list[float] = []
        n_reports = -(-int(self.max_iter) // int(self.output_iter))
        progress = Progress(type(self).__name__, n_reports) if self.verbose else None
        self.n_iter_ = 0

        def report() -> None:
            nonlocal best, best_value
            value, scale = self._objective(triplets, basis, weights, weight)
            curve.append(value)
            # No metric at all is of no use, and may have the lowest objective.
            if value < best_value and weights.any():
                best, best_value = (scale * weights).astype(dtype), value
            if progress is not None:
                progress(len(curve), value)

        def next_draws(n_iter: int) -> NDArray[np.int64] | None:
            if n_iter > 0:
                self.n_iter_ = n_iter
                report()
            size = min(self.output_iter, self.max_iter - n_iter)
            shape = size, self.batch_size
            return _draws(rng, len(triplets.index), shape, weight) if size else None

        try:
            get_kernels().scml(
                triplets.points,
                np.ascontiguousarray(triplets.index),
                np.ascontiguousarray(basis, dtype),
                self.beta,
                self.gamma,
                self.batch_size,
                weights,
                next_draws,
            )
        finally:
            if progress is not None:
                progress.close()
            if not curve:
                best = weights
            elif not best.any():
                best_value = curve[-1]
            self.components_ = undo_scale(_components(basis, best, n_components), exponent, dtype)
            self.weights_ = times_power_of_two(best.astype(np.float64), -2 * exponent)
            self.loss_curve_, self.objective_ = curve, best_value
        if not np.isfinite(self.weights_).all():
            raise ValueError(
                "X is so small that the weights of its bases overflow: multiply it by a number "
                "that makes its spread about 1."
            )
        if self.objective_ >= 1 or not best.any():
            warn_user(
                f"The objective is {self.objective_:.4g} at the best weights found; without any "
                "it is 1. Increase `max_iter`, use a larger `gamma` (shorter steps) or other "
                "bases, or rescale the features.",
                ConvergenceWarning,
            )

    def _objective(
        self,
        triplets: TupleSet,
        basis: NDArray[np.float64],
        weights: NDArray[Any],
        weight: NDArray[np.float64] | None,
    ) -> tuple[float, float]:
        """Return the objective at the best multiple of the weights, and that multiple."""
        value, scale = get_kernels().triplet_objective(
            triplets.points,
            np.ascontiguousarray(_components(basis, weights, None)),
            np.ascontiguousarray(triplets.index),
            weight,
            self.beta * float(weights.sum(dtype=np.float64)),
            as_threads(self.n_jobs),
        )
        if not math.isfinite(value):
            raise ValueError(
                "Distances overflow in the learned metric. Rescale the features, or use a larger "
                "`gamma`."
            )
        return value, scale


def _components(
    basis: NDArray[np.float64], weights: NDArray[Any], n_components: int | None
) -> NDArray[np.float64]:
    """Return the map of the metric: a row a base of positive weight where these are few."""
    active = weights > 0
    rows = np.sqrt(weights[active].astype(np.float64))[:, None] * basis[active]
    if n_components is None and len(rows) < basis.shape[1]:
        return rows if len(rows) else np.zeros((1, basis.shape[1]))
    return components_from_metric(rows.T @ rows, n_components=n_components)


def _draws(
    rng: np.random.RandomState, n: int, shape: tuple[int, int], weight: NDArray[np.float64] | None
) -> NDArray[np.int64]:
    """Draw triplets with chances in proportion to their weights."""
    if weight is None:
        return np.asarray(rng.randint(n, size=shape), np.int64)
    chances = np.cumsum(weight)
    drawn = np.searchsorted(chances, rng.random_sample(shape) * chances[-1], side="right")
    return np.asarray(np.minimum(drawn, n - 1), np.int64)


def check_integer(name: str, value: object) -> None:
    """Raise where a value is no integer, in the words of metric-learn."""
    if not isinstance(value, Integral):
        raise ValueError(f"{name} should be an integer, instead it is of type {type(value)}")
    check_count(name, value)
