"""Nearest class mean metric learning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import log_softmax

import metricfast.losses as losses
from metricfast._core.memory import block_rows
from metricfast._core.parameters import NonNegativeFloat, PositiveInt, positional
from metricfast._core.points import apply_map, map_gradient
from metricfast._core.scatter import group_means, repetitions
from metricfast._core.types import Array, Floats, Integers
from metricfast.learners.linear import LinearLearner
from metricfast.samplers import Batch
from metricfast.selection._judge import JudgeParameter
from metricfast.training.objective import EmbeddedLoss
from metricfast.training.problem import Problem
from metricfast.training.samples import Samples
from metricfast.training.solvers import Solver
from metricfast.training.train import warn_of_cost


@positional("n_components init max_iter tol verbose preprocessor random_state")
@dataclass(eq=False, repr=False)
class NCMML(LinearLearner):
    r"""Nearest class mean metric learning.

    Learns a linear map L under which points are near the mean :math:`\mu_c` of their class, by
    maximising the mean log-likelihood of the labels under a softmax of distances:

    .. math::

        \max_L \sum_i w_i \log p(y_i \mid x_i), \qquad
        p(c \mid x) = \frac{\exp(-\frac{1}{2}\|L x - L \mu_c\|^2)}
        {\sum_{c'} \exp(-\frac{1}{2}\|L x - L \mu_{c'}\|^2)}

    An evaluation takes time of order n_samples n_features n_classes, whatever n_components is: it
    suits many points of few classes. A new class needs nothing but its mean.

    Parameters
    ----------
    max_iter : int, default=100
        Largest number of iterations of "lbfgs".
    solver : {"lbfgs", "adam"} or solver, default="lbfgs"
        See `NCA`. Mini-batches are compared with the means of all points.
    judge, early_stopping
        See `NCA`; among settings that are equally good within a standard error, the judge chooses
        the longest training.
    n_components, init, tol, verbose, preprocessor, random_state
        See `NCA`.
    warm_start, callbacks, n_jobs
        See `NCA`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The learned map.
    objective_ : float
        The negative of the mean log-likelihood at the learned map.
    n_iter_, loss_curve_, validation_scores_
        See `NCA`.
    n_features_in_, feature_names_in_, preprocessor_
        See `NCA`.

    Notes
    -----
    If a linear map separates the classes, the likelihood grows with the length of L without end;
    `max_iter` and `tol` say where to stop. Standardised data are a good start.

    References
    ----------
    T. Mensink, J. Verbeek, F. Perronnin, G. Csurka, "Metric learning for large scale image
    classification: generalizing to new classes at near-zero cost", ECCV 2012.

    Examples
    --------
    >>> from metricfast import NCMML
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> NCMML(n_components=2, tol=1e-3).fit(X, y).transform(X).shape
    (150, 2)
    """

    max_iter: PositiveInt = 100
    tol: NonNegativeFloat | None = None
    judge: JudgeParameter = "auto"

    _selects_shortest = False  # longer training improves class means

    def _warn_of_cost(
        self, shape: tuple[int, int], n: int, samples: Samples, solver: Solver
    ) -> None:
        # Each point is compared with all classes, whatever the number of components is.
        width, n_classes = shape[1], len(samples.classes)
        warn_of_cost([(width, 0)], n, n_classes, n, solver, self.n_jobs)

    def _problem(self, samples: Samples) -> Problem:
        samples = samples.in_span
        weights = repetitions(samples.weight, samples.X.shape[0])
        seen = weights > 0
        if not seen.all():
            samples = samples.take(np.flatnonzero(seen))
        labels = np.unique(samples.labels, return_inverse=True)[1].astype(np.int64)
        likelihood = _Likelihood(samples.X, weights[seen], labels)
        return Problem(
            replace(samples, labels=labels), losses.NCA(), evaluate=likelihood, database="all",
            n_jobs=self.n_jobs,
        )  # fmt: skip


class _Likelihood:
    """The negative mean log-likelihood of labels, as a function of the map.

    Only products of points with the embedded class means are needed, because terms that are common
    to all classes cancel in the softmax.
    """

    def __init__(self, X: Any, weights: Floats, labels: Integers) -> None:
        self._weights, self._labels = weights / weights.sum(), labels
        self._means = group_means(X, weights, labels, int(labels.max()) + 1)

    def __call__(
        self,
        loss: EmbeddedLoss,
        arrays: list[Array],
        batch: Batch | None,
        part: slice | None = None,
    ) -> tuple[float, list[Array]]:  # fmt: skip
        """Return value and gradient."""
        (L,) = arrays
        rows = loss.anchors(batch, part)
        X, labels, weights = loss.X[rows], self._labels[rows], self._weights[rows]
        embedded = self._means @ L.T
        towards, squares = embedded @ L, np.einsum("ij,ij->i", embedded, embedded)
        value, cross, sums = 0.0, np.zeros_like(self._means), np.zeros(len(embedded))
        size = block_rows(4 * 8 * len(embedded))  # four arrays of a number per point and class
        for start in range(0, len(labels), size):
            block = slice(start, start + size)
            own = np.arange(len(labels[block])), labels[block]
            scores = apply_map(X[block], towards, loss.n_jobs).astype(np.float64)
            scores -= squares / 2
            log_p = log_softmax(scores, axis=1)
            value -= float(weights[block] @ log_p[own])
            upstream = np.exp(log_p)
            upstream[own] -= 1
            upstream *= weights[block, None]
            cross += map_gradient(upstream, X[block], loss.n_jobs)
            sums += upstream.sum(axis=0)
        centred = cross - sums[:, None] * self._means
        return value, [embedded.T @ centred + (L @ cross.T) @ self._means]
