"""Geometric mean metric learning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from metricfast._core.arguments import check_range
from metricfast._core.initialize import check_n_components
from metricfast._core.scaling import center_and_rescale, moderate
from metricfast._core.scatter import repetitions, scatters_of_all_pairs
from metricfast._core.sources import Source, take
from metricfast._core.stores import in_memory
from metricfast._core.sums import Sums
from metricfast._core.targets import (
    as_label_array,
    check_class_labels,
    check_partial_target,
    check_sample_weight,
)
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, RandomState
from metricfast.learners.base.constraints import ConstraintLearner, Drawn, Weight
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.base.one_pass import ONE_CLASS, OnePassOfClasses, Summed
from metricfast.learners.tuples.factored import start_metric
from metricfast.learners.tuples.forms import GivenPairsInParts, prior_alone

__all__ = ["GMML", "GMML_Supervised"]

# From here on, nothing is left of the pairs.
_MOST_REG = 1e12


class _BaseGMML(ConstraintLearner, MahalanobisMixin):
    """What both versions share: parameters, and the metric of two scatters."""

    t: float
    reg: float
    prior: str | Array

    def __init__(
        self,
        t: float = 0.5,
        reg: float = 1e-3,
        prior: str | Array = "identity",
        preprocessor: Any = None,
        random_state: int | RandomState | None = None,
        *,
        n_components: int | None = None,
    ) -> None:
        self._take(locals())

    def _checked(self) -> None:
        check_range("t", self.t, high=1)
        check_range("reg", self.reg, high=_MOST_REG)

    def _learn(
        self, tuples: TupleSet, _: RandomState, scatters: tuple[Floats, Floats] | None = None
    ) -> None:
        """Set the map of the metric of two scatters, by default those of given pairs."""
        if scatters is None:
            tuples = replace(tuples, points=moderate(tuples.points))
            scatters = tuples.pair_scatter(1), tuples.pair_scatter(-1)
        check_n_components(len(scatters[0]), self.n_components)
        positive = self.reg > 0
        prior = start_metric(tuples, self.prior, self.random_state, strictly_positive=positive)
        self._set_mean(*scatters, prior, tuples.points.dtype)

    def _set_mean(
        self, similar: Floats, dissimilar: Floats, prior: Floats, precision: np.dtype[Any]
    ) -> None:
        inverse = prior
        if self.reg > 0:
            inverse = cho_solve(cho_factor(prior), np.eye(len(prior)))
        S = _blended("similar", similar, inverse, self.reg)
        D = _blended("dissimilar", dissimilar, prior, self.reg)
        M = _geometric_mean(S, D, float(self.t))
        self._set_metric(M, self.n_components, precision)

    def _learn_sums(self, sums: tuple[Sums, ...], **found: Any) -> None:
        width = len(sums[0].origin)
        check_n_components(width, self.n_components)
        prior = prior_alone(self, width, strictly_positive=self.reg > 0)
        self._set_mean(*self._scatters(sums[0]), prior, sums[0].dtype)

    def _scatters(self, sums: Sums) -> tuple[Floats, Floats]:
        """Return the scatters of similar and of dissimilar pairs."""
        return sums.of_group(1)[1], sums.of_group(-1)[1]


class GMML(_BaseGMML, GivenPairsInParts):
    r"""Geometric mean metric learning from similar and dissimilar pairs.

    Learns the metric M that makes similar pairs near and dissimilar pairs far in the sense of

    .. math::

        \min_{M \succ 0} \operatorname{tr}(M S) + \operatorname{tr}(M^{-1} D),

    where S and D are the scatter matrices of the differences of similar and of dissimilar pairs.
    The solution is the midpoint of the geodesic from :math:`S^{-1}` to D, and other points of it
    weigh the two otherwise:

    .. math::

        M = S^{-1} \sharp_t D = S^{-1/2} (S^{1/2} D S^{1/2})^t S^{-1/2}

    It is computed in closed form: time is of order n_pairs n_features^2 + n_features^3.

    Parameters
    ----------
    t : float, default=0.5
        From 0, where M is the inverse of S, to 1, where it is D, both of trace 1: the unit of the
        points does not matter.
    reg : float, default=1e-3
        How much of the prior :math:`M_0` is added: :math:`M_0^{-1}` to S and :math:`M_0` to D,
        each first scaled to the trace of what it is added to. With 0, S must have full rank.
    prior : {"identity", "covariance", "random"} or ndarray, default="identity"
        "covariance" is the inverse of the covariance of the points. An array of shape
        (n_features, n_features) is taken as it is; only its shape counts, not its size.
    n_components : int, optional
        Number of rows of `components_`: the leading eigenvectors of M. By default all.
    preprocessor, random_state
        As for :class:`ITML`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The linear map L with M = L.T @ L, in float32 for float32 points, else in float64.
    threshold_, validation_, n_features_in_, preprocessor_
        As of :class:`ITML`.

    See Also
    --------
    GMML_Supervised : The same from class labels.

    References
    ----------
    P. H. Zadeh, R. Hosseini, S. Sra, "Geometric mean metric learning", ICML 2016.

    Examples
    --------
    >>> from metricfast import GMML
    >>> points = [[1.0, 7.0], [1.2, 3.0], [5.0, 4.0], [5.1, 8.0]]
    >>> pairs = [[0, 1], [2, 3], [0, 2], [0, 3], [1, 2], [1, 3]]
    >>> gmml = GMML(preprocessor=points).fit(pairs, [1, 1, -1, -1, -1, -1])
    >>> gmml.predict(pairs)
    array([ 1,  1, -1, -1, -1, -1])
    """


class GMML_Supervised(OnePassOfClasses, _BaseGMML):  # noqa: N801
    r"""Geometric mean metric learning from class labels.

    All pairs of points of one class are similar and all others dissimilar. Their scatters follow
    from the means and scatters of the classes, so no pairs are drawn or formed, and time is of
    order n_samples n_features^2 + n_features^3. See :class:`GMML` for what is learned.

    Parameters
    ----------
    t, reg, prior, preprocessor, random_state, n_components
        As for :class:`GMML`, and so are their defaults.

    Attributes
    ----------
    components_, validation_, n_features_in_, feature_names_in_, preprocessor_
        As of :class:`GMML`.

    Notes
    -----
    A whole number as `sample_weight` means the same as a repeated point. `partial_fit` keeps the
    scatter of each class.

    References
    ----------
    P. H. Zadeh, R. Hosseini, S. Sra, "Geometric mean metric learning", ICML 2016.

    Examples
    --------
    >>> from metricfast import GMML_Supervised
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> GMML_Supervised(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    """

    _exact_in_parts = True

    def _draw(self, points: Any, labels: Array, sample_weight: Weight, rng: RandomState) -> Drawn:
        weights = repetitions(check_sample_weight(sample_weight, len(points)), len(points))
        seen = np.flatnonzero(weights)
        _, codes = check_partial_target(labels[seen])
        seen, group = seen[codes >= 0], codes[codes >= 0]
        points = take(points, seen)
        if isinstance(points, Source):
            sums = Sums(points.shape[1], per_group=True).add(points, weights[seen], group)
            scatters = self._scatters(sums)
            if isinstance(self.prior, str) and self.prior == "covariance":
                points = in_memory(
                    points, "X, for prior='covariance',", "give the prior as a matrix"
                )
        else:
            points, _ = center_and_rescale(points)
            scatters = scatters_of_all_pairs(points, group, weights[seen])
        return TupleSet(points, np.arange(len(points))), {"scatters": scatters}

    def _sums_of(self, data: Any, labels: Any, weight: Floats | None) -> Summed:
        check_class_labels(labels)
        names = as_label_array(labels, "y")
        weights = np.ones(len(data)) if weight is None else weight
        if names.dtype.kind in "if":
            weights = np.where(names < 0, 0, weights)  # whose class is unknown
        return (Sums(data.shape[1], per_group=True).add(data, weights, names),), {}

    def _scatters(self, sums: Sums) -> tuple[Floats, Floats]:
        """Return the scatters of the differences of pairs within groups, and across groups."""
        if len(sums.groups) < 2:
            raise ValueError(ONE_CLASS)
        counts = sums.weights
        within, across = (
            np.einsum("i,ijk->jk", w, sums.scatters) for w in (counts, counts.sum() - counts)
        )
        return within, across + counts.sum() * sums.spread


def _blended(kind: str, scatter: Floats, target: Floats, reg: float) -> Floats:
    """Return a scatter of trace 1, plus a share of a target of that trace."""
    trace = np.trace(scatter)
    if not trace > 0:
        raise ValueError(
            f"there is no {kind} pair of different points: both similar and dissimilar pairs are "
            "needed."
        )
    return np.asarray(scatter / trace + reg * target / np.trace(target))


def _geometric_mean(S: Floats, D: Floats, t: float) -> Floats:
    """Return ``inv(S) #_t D``; with S = C C', that is ``inv(C') (C' D C)^t inv(C)``."""
    tiny = len(S) * np.finfo(np.float64).eps
    if np.linalg.eigvalsh(S)[0] <= tiny * np.abs(S).max():
        raise ValueError(
            "the scatter of similar pairs has not full rank: there are too few pairs, or constant "
            "or linearly dependent features. Give a positive `reg`."
        )
    C = np.linalg.cholesky(S)
    values, vectors = np.linalg.eigh(C.T @ D @ C)
    root = solve_triangular(C, vectors, trans="T", lower=True) * np.maximum(values, 0) ** (t / 2)
    return np.asarray(root @ root.T)
