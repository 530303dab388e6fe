"""Logistic discriminant metric learning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

import metricfast.losses as losses
from metricfast.learners.base.points import TrainingSet
from metricfast.learners.linear.all_pairs import AllPairsLearner
from metricfast.learners.linear.shared_docs import documented
from metricfast.samplers import Batch
from metricfast.training.coordinates import Coordinates
from metricfast.training.labelled import Labelled
from metricfast.training.monitor import Monitor
from metricfast.training.objective import LinearMap, Objective, map_points

__all__ = ["LDML"]

# Mean squared distance to start from: neither are all pairs alike, nor is any certain.
_START = 4.0
# Where the best bias is looked for, in its own size, and how closely.
_STEP, _FARTHEST, _PRECISION = 0.5, 1e6, 1e-6


@documented
class LDML(AllPairsLearner):
    r"""Logistic discriminant metric learning.

    Learns a linear map L and a bias b by logistic regression on all pairs of points: whether two
    points are of one class has the probability
    :math:`\sigma(b - \|L x_i - L x_j\|^2)`. With the sign :math:`s_{ij} = 1` within classes and -1
    between them it minimises

    .. math::

        \sum_i \sum_{j \ne i} w_i w_j
        \log\left(1 + \exp(s_{ij} (\|L x_i - L x_j\|^2 - b))\right)

    the negative log-likelihood, each pair in both orders. No matrix over pairs of points is held.

    Parameters
    ----------
    %(init)s
    %(n_components)s
    max_iter : int, default=100
        Largest number of iterations of "lbfgs".
    %(tol)s
    %(common)s
    solver : {"lbfgs", "sgd"}, default="lbfgs"
        "lbfgs" uses all pairs of points in every iteration. "sgd" is for many points: Adam on
        mini-batches, with the pairs of points of a batch. It first multiplies the
        initial map by the factor that makes the objective of a batch lowest.
    %(sgd)s
    %(jobs)s
    %(folds)s
    %(training)s
    init_scale : "auto" or None, default="auto"
        %(init_scale)s

    Attributes
    ----------
    %(components)s
    bias_ : float
        The learned b: the squared distance at which two points are as likely of one class as not.
    objective_ : float
        The sum above at the learned map; with "sgd" its estimate from the batches
        of the best epoch.
    %(attributes)s

    Notes
    -----
    The solvers move b and ``L K``, with :math:`K K^\top` the scatter within classes (its diagonal
    alone above 2000 features) and a little of the identity.

    The objective is convex in :math:`M = L^\top L` and b, so that with all components the start
    does not matter. In the original, M itself is learned.

    The initial map is multiplied by the factor that makes the mean squared distance 4, so that the
    units of the data do not matter; b starts there too.

    Where L and b can tell all pairs apart there is no minimum: the map grows until the solver ends.

    %(units)s

    References
    ----------
    M. Guillaumin, J. Verbeek, C. Schmid, "Is that you? Metric learning approaches for face
    identification", International Conference on Computer Vision (2009), 498-505.

    Examples
    --------
    >>> from metricfast import LDML
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> ldml = LDML(n_components=2, max_iter=1000).fit(X, y)
    >>> distance = ldml.pair_distance(X[[[0, 1], [0, 149]]])
    >>> distance**2 < ldml.bias_
    array([ True, False])
    """

    _fewest = False  # which is there for pairs: neighbours are not to suffer

    def _loss(self) -> losses.LDML:
        return losses.LDML()

    def _objective(self, data: TrainingSet, L: NDArray[Any]) -> Objective:
        loss = Labelled(self._loss(), data.labels, data.weight, n_jobs=self.n_jobs)
        coordinates = _WithBias(data, L, self._within_scatter(data))
        return _OfPairs(data.X, LinearMap(), loss, coordinates, n_jobs=self.n_jobs)

    def _rescaled(self, objective: Objective, data: TrainingSet, L: NDArray[Any]) -> None:
        objective.coordinates = _WithBias(data, L, self._within_scatter(data))

    def _start(self, data: TrainingSet, L: NDArray[Any]) -> NDArray[Any]:
        distance = _mean_distance(data, L)
        return L * math.sqrt(_START / distance) if distance > 0 else L

    def _starts(self, data: TrainingSet, L: NDArray[Any]) -> list[NDArray[Any]]:
        return [L]

    def _keep(
        self, monitor: Monitor, objective: Objective, data: TrainingSet, x: Any, last: bool
    ) -> None:
        super()._keep(monitor, objective, data, x, last)
        self.bias_ = float(objective.coordinates.arrays(x)[1][0])

    def _look_at_result(self, data: TrainingSet, monitor: Monitor, objective: Objective) -> None:
        super()._look_at_result(data, monitor, objective)
        if monitor.most is not None:  # which may be too few iterations for the bias
            assert isinstance(objective, _OfPairs)
            L = objective.coordinates.arrays(monitor.best_x)[0]
            bias = objective.best_bias(L, self.bias_)
            value = data.unit * objective.of_loss([L, np.array([bias])], None)[0]
            self.bias_, self.objective_ = bias, value
            self.loss_curve_.append(value)
            self.n_iter_ += 1


def _mean_distance(data: TrainingSet, L: NDArray[Any]) -> float:
    """Return the mean squared distance of two points under a map."""
    data = data.few
    Z = map_points(data.X, L).astype(np.float64)
    weight = np.ones(len(Z)) if data.weight is None else data.weight
    share = weight / weight.sum()
    return 2 * float(share @ ((Z - share @ Z) ** 2).sum(axis=1))


class _OfPairs(Objective):
    """The objective of the map and the bias."""

    def of_loss(
        self, arrays: list[NDArray[Any]], batch: Batch | None, part: slice | None = None
    ) -> tuple[float, list[NDArray[Any]]]:
        of_pairs, (L, bias) = self.loss.loss, arrays
        of_pairs.bias = float(bias[0])
        value, gradients = super().of_loss([L], batch, part)
        return value, gradients and [*gradients, np.array([of_pairs.bias_gradient_])]

    def best_bias(self, L: NDArray[Any], bias: float) -> float:
        """Return the bias of the lowest loss under a map, of which the loss is convex."""

        def slope(bias: float) -> float:
            return float(self.of_loss([L, np.array([bias])], None)[1][1][0])

        here = there = slope(bias)
        end, step = bias, max(1.0, abs(bias)) * -math.copysign(_STEP, here)
        while here * there > 0 and abs(step) < _FARTHEST * max(1.0, abs(bias)):
            end, step = end + step, 2 * step
            there = slope(end)
        if here * there >= 0:  # the best already, or infinite
            return bias
        return float(brentq(slope, *sorted((bias, end)), rtol=_PRECISION))


class _WithBias(Coordinates):
    """The solver's vector ends with the bias, which starts as the mean squared distance.

    It is divided by a unit, so that it starts as large as the entries of the map and a step has
    about the same effect on both.
    """

    def __init__(self, data: TrainingSet, L: NDArray[Any], scatter: NDArray[np.float64]) -> None:
        super().__init__(data.X.shape[1], scatter)
        self._first = _mean_distance(data, L)
        size = math.sqrt(float(np.mean(super().vector([L]) ** 2)))
        self._unit = self._first / size if self._first > 0 and size > 0 else 1.0

    def vector(self, arrays: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        return np.append(super().vector(arrays), self._first / self._unit)

    def arrays(self, vector: NDArray[Any]) -> list[NDArray[Any]]:
        return [*super().arrays(vector[:-1]), vector[-1:] * self._unit]

    def pull(self, gradients: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        return np.append(super().pull(gradients), gradients[1] * self._unit)

    def scaled(self, vector: NDArray[Any], factor: float) -> NDArray[Any]:
        return np.append(vector[:-1] * factor, vector[-1] * factor**2)
