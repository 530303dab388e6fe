"""Logistic discriminant metric learning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

import metricfast.losses as losses
from metricfast._core.parameters import positional
from metricfast._core.scatter import within_scatter
from metricfast._core.types import Array, Floats
from metricfast.learners.linear import AllPairsLearner
from metricfast.samplers import Batch
from metricfast.training.history import History, Vector
from metricfast.training.linear_problem import LinearProblem
from metricfast.training.objective import map_points
from metricfast.training.preconditioner import FULL_BASIS, FlatParameters, Preconditioner
from metricfast.training.samples import Samples
from metricfast.training.span import MapOfSpan, WithConstant

__all__ = ["LDML"]

# Mean squared distance at the start: neither are all pairs alike, nor is any certain.
_START = 4.0
# Search for the best bias: first step, farthest step relative to the bias, and precision.
_STEP, _FARTHEST, _PRECISION = 0.5, 1e6, 1e-6


@positional("init n_components max_iter tol verbose preprocessor random_state")
@dataclass(eq=False, repr=False)
class LDML(AllPairsLearner):
    r"""Logistic discriminant metric learning.

    Learns a linear map L and a bias b by logistic regression on all pairs of points: whether two
    points are of one class has the probability
    :math:`\sigma(b - \|L x_i - L x_j\|^2)`. With the sign :math:`s_{ij} = 1` within classes and -1
    between them it minimises

    .. math::

        \sum_i \sum_{j \ne i} w_i w_j
        \log\left(1 + \exp(s_{ij} (\|L x_i - L x_j\|^2 - b))\right)

    the negative log-likelihood, each pair in both orders. Memory grows with points, not with pairs
    of points.

    Parameters
    ----------
    max_iter : int, default=100
        Largest number of iterations of "lbfgs".
    early_stopping : bool, "auto" or rule, default="auto"
        See `NCA`; among settings without a significant difference, the longest training is
        chosen.
    init, n_components, tol, verbose, preprocessor, random_state, solver
        See `NCA`.
    init_scale, warm_start, callbacks, n_jobs
        See `NCA`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The learned map.
    bias_ : float
        The learned b: the squared distance at which two points are equally likely of one class and
        of two.
    objective_ : float
        The sum above at the learned map. With mini-batches, its estimate in the best epoch.
    n_iter_, loss_curve_, validation_scores_
        See `NCA`.
    n_features_in_, feature_names_in_, preprocessor_
        See `NCA`.

    Notes
    -----
    The solvers move b and ``L K``, with :math:`K K^\top` the scatter within classes (its diagonal
    alone above 2000 features) and a little of the identity.

    The objective is convex in :math:`M = L^\top L` and b: with all components the initial map does
    not matter. The paper learns M itself.

    The initial map is multiplied by the factor that makes the mean squared distance 4, so that the
    units of the data do not matter; b starts there too.

    If L and b separate all pairs, there is no minimum: the map grows until the solver ends.

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

    _selects_shortest = False  # a longer training gives better answers for pairs

    def _problem(self, data: Samples) -> LinearProblem:
        return _PairProblem(data.in_span, losses.LDML(), n_jobs=self.n_jobs)

    def _set_fitted(self, problem: LinearProblem, history: History, x: Vector, final: bool) -> None:
        super()._set_fitted(problem, history, x, final)
        self.bias_ = float(problem.preconditioner.arrays(x)[1][0])

    def _finish(self, problem: LinearProblem, history: History, diverged: bool) -> None:
        super()._finish(problem, history, diverged)
        if history.max_iter is None:
            return
        # The chosen number of iterations may be too small for the bias.
        assert isinstance(problem, _PairProblem)
        L = problem.map(history.best_x)
        self.bias_ = problem.best_bias(L, self.bias_)
        value = problem.of_loss([L, np.array([self.bias_])], None)[0]
        self.objective_ = problem.samples.unit * value
        self.loss_curve_.append(self.objective_)
        self.n_iter_ += 1


class _PairProblem(LinearProblem):
    """Minimise the loss of pairs over a map and a bias."""

    standardizes = False

    def start_at(self, L: Array, *, selected: bool = False) -> Vector:
        data, wide = self.samples, self.samples.X.shape[1] > FULL_BASIS
        scatter = within_scatter(data.X, data.groups, data.weight, diagonal=wide)
        self.preconditioner = _WithBias(data, L, scatter, self.of_span)
        return self.vector(L)

    def vector(self, L: Array) -> Vector:
        if not isinstance(self.preconditioner, _WithBias):
            return self.start_at(L)
        return super().vector(L)

    def scale_initial(self, L: Array, *, named: bool) -> Array:
        del named
        start = self.map_of_span(L)
        distance = _mean_distance(self.samples, L if start is None else start.inner)
        if distance > 0:
            L = L * math.sqrt(_START / distance)
            start = self.map_of_span(L)
        if start is None:
            self.start_at(L)
        else:
            self.start_in_span(start)
        return L

    def start_in_span(self, start: MapOfSpan, *, selected: bool = False) -> Vector:
        self.of_span = start
        return self.start_at(start.inner, selected=selected)

    def of_loss(
        self, arrays: list[Array], batch: Batch | None, part: slice | None = None
    ) -> tuple[float, list[Array]]:
        of_pairs, (L, bias) = self.loss.loss, arrays
        of_pairs.bias = float(bias[0])
        value, gradients = super().of_loss([L], batch, part)
        return value, gradients and [*gradients, np.array([of_pairs.bias_gradient_])]

    def best_bias(self, L: Array, bias: float) -> float:
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


class _WithBias(FlatParameters):
    """The solver's vector ends with the bias, which starts as the mean squared distance.

    It is divided by a unit, so that it starts as large as the entries of the map and a step has
    about the same effect on both.
    """

    def __init__(self, data: Samples, L: Array, scatter: Floats, of_span: MapOfSpan | None) -> None:
        of_map, n_entries = Preconditioner(data.n_features, scatter), L.size
        self._of_map: FlatParameters = of_map
        if of_span is not None:
            self._of_map, n_entries = WithConstant(of_map, of_span.rest_norm), of_span.n_entries
        self._first = _mean_distance(data, L)
        size = float(np.linalg.norm(self._of_map.vector([L]))) / math.sqrt(n_entries)
        self._unit = self._first / size if self._first > 0 and size > 0 else 1.0

    def vector(self, arrays: Sequence[Array]) -> Floats:
        return np.append(self._of_map.vector(arrays), self._first / self._unit)

    def arrays(self, vector: Array) -> list[Array]:
        return [*self._of_map.arrays(vector[:-1]), vector[-1:] * self._unit]

    def pullback(self, gradients: Sequence[Array]) -> Floats:
        return np.append(self._of_map.pullback(gradients), gradients[1] * self._unit)

    def scaled(self, vector: Array, factor: float) -> Array:
        return np.append(vector[:-1] * factor, vector[-1] * factor**2)


def _mean_distance(data: Samples, L: Array) -> float:
    """Return the mean squared distance of two points under a map."""
    data = data.representative
    Z = map_points(data.X, L).astype(np.float64)
    weight = np.ones(len(Z)) if data.weight is None else data.weight
    share = weight / weight.sum()
    return 2 * float(share @ ((Z - share @ Z) ** 2).sum(axis=1))
