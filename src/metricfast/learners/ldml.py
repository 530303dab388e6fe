"""Logistic discriminant metric learning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import brentq

import metricfast.losses as losses
from metricfast._core.parameters import positional
from metricfast._core.scatter import within_scatter
from metricfast._core.types import Array, Floats
from metricfast.learners.linear import AllPairsLearner
from metricfast.samplers import Batch
from metricfast.training.embedded import map_points
from metricfast.training.history import History, Vector
from metricfast.training.objective import EmbeddedLoss, Objective
from metricfast.training.preconditioner import FULL_BASIS, FlatParameters, Preconditioner
from metricfast.training.problem import Problem, warn_of_no_slope
from metricfast.training.samples import Samples
from metricfast.training.span import MapOfSpan

# Mean squared distance at the start, at which probabilities differ between pairs but are not near 0
# or 1.
_START = 4.0


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
    judge, early_stopping
        See `NCA`; among settings that are equally good within a standard error, the judge chooses
        the longest training.
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
        See `NCA`. If the judge chose the number of iterations, one more sets the bias.
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

    _selects_shortest = False  # longer training improves predictions of pairs

    def _problem(self, samples: Samples) -> Problem:
        samples = samples.in_span
        return Problem(
            samples, losses.LDML(), evaluate=_evaluate, extended=partial(_with_bias, samples),
            preconditioner=partial(_WithBias, samples), rescale=partial(_factor, samples),
            standardizes=False, n_jobs=self.n_jobs, store=_set_bias, finish=_finish,
        )  # fmt: skip


def _set_bias(learner: LDML, objective: Objective, x: Vector, final: bool) -> None:
    del final
    learner.bias_ = float(objective.parameters(x)[1][0])


def _finish(learner: LDML, objective: Objective, history: History, diverged: bool) -> None:
    """Set the best bias, for which the chosen number of iterations may be too small."""
    warn_of_no_slope(learner, objective, history, diverged)
    if history.max_iter is None:
        return
    L = objective.parameters(history.best_x)[0]
    learner.bias_ = _best_bias(objective, L, learner.bias_)
    value = objective.loss([L, np.array([learner.bias_])])[0]
    learner.objective_ = objective.samples.unit * value
    learner.loss_curve_.append(learner.objective_)
    learner.n_iter_ += 1


def _evaluate(
    loss: EmbeddedLoss, arrays: list[Array], batch: Batch | None, part: slice | None = None
) -> tuple[float, list[Array]]:
    """Return the loss of pairs, and its gradients by map and bias."""
    of_pairs, (L, bias) = loss.bound.loss, arrays
    of_pairs.bias = float(bias[0])
    value, gradients = loss.of_embedding([L], batch, part)
    return value, gradients and [*gradients, np.array([of_pairs.bias_gradient_])]


def _with_bias(samples: Samples, arrays: list[Array]) -> list[Array]:
    """Return a map, and the mean squared distance under it as the initial bias."""
    return [arrays[0], np.array([_mean_distance(samples, arrays[0])])]


def _factor(samples: Samples, L: Array) -> float:
    """Return the factor of a map that brings the mean squared distance to `_START`."""
    distance = _mean_distance(samples, L)
    return math.sqrt(_START / distance) if distance > 0 else 1.0


def _best_bias(objective: Objective, L: Array, bias: float) -> float:
    """Return the optimal bias under a map; the loss is convex in the bias."""

    def slope(bias: float) -> float:
        return float(objective.loss([L, np.array([bias])])[1][1][0])

    here = there = slope(bias)
    end, step = bias, max(1.0, abs(bias)) * -math.copysign(0.5, here)
    while here * there > 0 and abs(step) < 1e6 * max(1.0, abs(bias)):
        end, step = end + step, 2 * step
        there = slope(end)
    if here * there >= 0:  # optimal already, or infinite
        return bias
    return float(brentq(slope, *sorted((bias, end)), rtol=1e-6))


class _WithBias(FlatParameters):
    """The solver's vector ends with the bias, which starts as the mean squared distance.

    The bias is divided by a unit, so that its initial size equals that of the map's entries, and a
    step has about the same effect on both.
    """

    def __init__(self, samples: Samples, start: list[Array], of_span: MapOfSpan | None) -> None:
        wide = samples.X.shape[1] > FULL_BASIS
        scatter = within_scatter(samples.X, samples.strata, samples.weight, diagonal=wide)
        self._of_map, (L,) = Preconditioner(samples.n_features, scatter, samples.X.dtype), start
        self.least = self._of_map.least
        norm, n_entries = float(np.linalg.norm(self._of_map.vector(start))), L.size
        if of_span is not None:
            norm, n_entries = math.hypot(norm, self.least * of_span.rest_norm), of_span.n_entries
        first, size = _mean_distance(samples, L), norm / math.sqrt(n_entries)
        self._unit = first / size if first > 0 and size > 0 else 1.0

    def vector(self, arrays: Sequence[Array]) -> Floats:
        return np.append(self._of_map.vector(arrays), arrays[1] / self._unit)

    def arrays(self, vector: Array) -> list[Array]:
        return [*self._of_map.arrays(vector[:-1]), vector[-1:] * self._unit]

    def pullback(self, gradients: Sequence[Array]) -> Floats:
        return np.append(self._of_map.pullback(gradients), gradients[1] * self._unit)


def _mean_distance(samples: Samples, L: Array) -> float:
    """Return the mean squared distance of two points under a map."""
    samples = samples.representative
    Z = map_points(samples.X, L).astype(np.float64)
    weight = np.ones(len(Z)) if samples.weight is None else samples.weight
    share = weight / weight.sum()
    return 2 * float(share @ ((Z - share @ Z) ** 2).sum(axis=1))
