"""Local Fisher discriminant analysis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import eigh

from metricfast._core.arguments import check_count
from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.initialize import check_n_components
from metricfast._core.scaling import center_and_rescale
from metricfast._core.scatter import (
    group_means,
    repetitions,
    scatter_matrix,
    whitening,
    with_signs,
)
from metricfast._core.sources import Source, take
from metricfast._core.sums import Sums
from metricfast._core.targets import (
    as_label_array,
    check_class_labels,
    check_classification_target,
    encode,
)
from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast.learners.base.one_pass import ONE_CLASS, Summed
from metricfast.learners.base.shrinkage import (
    check_shrinkage,
    least_error,
    neighbor_error,
    shrunk,
)
from metricfast.learners.closed.base import (
    ClosedFormOfClasses,
    Labelled,
    classes_in_turn,
    divided,
    weighted,
)

__all__ = ["LFDA"]


_NEIGHBORS = 7
_EMBEDDINGS = ("weighted", "orthonormalized", "plain")
# Variance within classes, relative to all, that is none but for rounding; and the deviation that
# features are then given, relative to their own.
_COLLAPSED = 1e-11
_NOISE = 1e-3


class LFDA(ClosedFormOfClasses):
    r"""Local Fisher discriminant analysis.

    Finds directions that separate the classes while points of a class stay near those that they
    are near to already, so that a class may consist of several clusters. With the affinity

    .. math::

        A_{ij} = \exp\left(-\frac{\|x_i - x_j\|^2}{\sigma_i \sigma_j}\right)

    of points of one class, :math:`\sigma_i` being the distance of a point to the k-th nearest other
    point of its class, they are the generalised eigenvectors of
    :math:`S^b v = \lambda S^w v` with the largest :math:`\lambda`, where

    .. math::

        S = \frac12 \sum_{ij} W_{ij} (x_i - x_j)(x_i - x_j)^T, \qquad
        W^w_{ij} = \frac{A_{ij}}{n_c}, \quad
        W^b_{ij} = A_{ij} \left(\frac1n - \frac1{n_c}\right)

    within a class of n_c points, and :math:`W^w_{ij} = 0, W^b_{ij} = 1/n` between classes.

    Parameters
    ----------
    n_components : int, optional
        Number of directions; by default n_features.
    k : int, optional
        The neighbour that sets the local scale; by default 7. A class with no more than k points
        has its farthest instead.
    embedding_type : {"weighted", "orthonormalized", "plain"}, default="weighted"
        "plain" scales eigenvectors such that :math:`v^T S^w v = 1`; "weighted" multiplies those by
        :math:`\sqrt{\max(\lambda, 0)}`; "orthonormalized" makes them orthonormal, in order.
    preprocessor : array-like or callable, optional
        Gives the points when `X` holds indicators of points.
    shrinkage : float from 0 to 1 or "auto", default="auto"
        Move :math:`S^w` towards the multiple of the identity that has the same trace by this
        fraction. Directions along which points hardly differ then count for less. 0 is the
        published algorithm. "auto" tries 0 and several fractions, towards the identity, towards
        the scatter around the means of the classes, and towards that of all points, and takes
        what makes the share of other classes among the 3 nearest neighbours of up to 1000 of the
        points lowest.
    n_jobs : int, optional
        Number of threads; results do not depend on it. By default all that the process may use.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map, in float32 for float32 points, else in float64. Rows are zero where there are
        fewer directions along which points differ, and for "weighted" where
        :math:`\lambda \le 0`, which needs shrinkage.
    shrinkage_ : float
        The fraction in use.
    shrinkage_target_ : {"identity", "within", "total"}
        Towards what.
    n_features_in_, feature_names_in_, preprocessor_, validation_
        As of :class:`BaseMetricLearner`.

    Notes
    -----
    Where points of a class do not differ along some direction, as with fewer points than features,
    :math:`S^w` is singular and :math:`\lambda` infinite. Then each feature counts as if it had
    noise of a thousandth of its deviation.

    Without shrinkage, the result does not depend on units of features except through the
    neighbours. But "weighted" and "plain" then let directions of noise count as much as the
    informative ones, if there are many, and :math:`S^w` of few points' neighbours is itself noisy:
    nearest neighbours may become worse than in the Euclidean distance. An `n_components` that
    leaves out what does not separate helps as well.

    Memory is proportional to the number of points; where these are not in memory, to that of the
    largest class. In `partial_fit`, the local scatter of a class is the sum of those of its points
    in each call, so that neighbours are those of the same call.

    Whole numbers as `sample_weight` mean the same as repeated points; others are scaled to a mean
    of 1, and the local scale is where the weights of nearer points reach k.

    References
    ----------
    M. Sugiyama, "Dimensionality reduction of multimodal labeled data by local Fisher discriminant
    analysis", Journal of Machine Learning Research 8 (2007).

    Examples
    --------
    >>> from metricfast import LFDA
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> LFDA(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    """

    k: int | None
    embedding_type: str
    shrinkage: float | str

    def __init__(
        self,
        n_components: int | None = None,
        k: int | None = None,
        embedding_type: str = "weighted",
        preprocessor: Any = None,
        *,
        shrinkage: float | str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self._take(locals())

    def _checked(self) -> None:
        if not isinstance(self.embedding_type, str) or self.embedding_type not in _EMBEDDINGS:
            raise ValueError(f"Invalid embedding_type: {self.embedding_type!r}")
        check_count("k", self._k)
        check_shrinkage(self.shrinkage)

    @property
    def _k(self) -> int:
        return _NEIGHBORS if self.k is None else self.k

    def _learn(self, data: Labelled, rng: RandomState) -> None:
        if isinstance(data[0], Source):
            super()._learn(data, rng)
            return
        points, labels, weights, exponent = weighted(*data)
        classes, codes = check_classification_target(labels)
        mixed, within = self._scatters(points, codes, weights, len(classes), self._k)
        around_means = mixed  # which only "auto" looks at
        if check_shrinkage(self.shrinkage) is None:
            means = group_means(points, weights, codes, len(classes))
            around_means = scatter_matrix(points, weights, codes, means)
        self._solve(
            mixed, within, around_means, exponent or 0, points.dtype,
            partial(neighbor_error, points, codes, weights), partial(_collapsed, points, codes),
        )  # fmt: skip

    def _sums_of(self, data: Any, labels: Any, weight: Floats | None) -> Summed:
        X, weights = data, repetitions(weight, len(data))
        seen = weights > 0
        if not seen.all():
            X, labels, weights = take(X, seen), labels[seen], weights[seen]
        check_class_labels(labels)
        classes, codes = encode(as_label_array(labels, "y"), "y")
        return divided(self._sums_of_classes)(X, classes, codes, weights), {
            "judge": partial(neighbor_error, X, codes, weights),
            "reason": partial(_collapsed, X, codes),
        }

    def _sums_of_classes(
        self, X: Any, classes: Array, codes: Integers, weights: Floats
    ) -> tuple[Sums, Sums]:
        """Sum all points of some classes, of which none is empty; weights as of `repetitions`."""
        points, local = (Sums(X.shape[1], classes, per_group=True) for _ in range(2))
        for label, rows, block in classes_in_turn(X, codes):
            w, name = weights[rows], classes[label : label + 1]
            scatter = np.empty((X.shape[1], X.shape[1]))
            points.add(block, w, np.repeat(name, len(rows)))
            deviations, exponent = center_and_rescale(block)
            deviations = deviations - w @ deviations / w.sum()
            get_kernels().local_scatter(
                deviations.astype(np.float64), w, self._k, scatter, as_threads(self.n_jobs)
            )
            count = np.array([w.sum()])
            local.merge(Sums.of_scatters(name, count, scatter[None] / count, exponent, X.dtype))
        return points, local

    def _learn_sums(self, sums: tuple[Sums, ...], **found: Any) -> None:
        points, local = sums
        if len(points.groups) < 2:
            raise ValueError(ONE_CLASS)
        shares = (points.weights / points.total)[:, None, None]
        inner = local.scatters_in(points.exponent)
        mixed = ((1 - shares) * points.scatters + shares * inner).sum(axis=0) + points.spread
        self._solve(mixed, inner.sum(axis=0), points.within, points.exponent, points.dtype, **found)

    def _solve(
        self,
        mixed: Floats,
        within: Floats,
        around_means: Floats,
        exponent: int,
        precision: np.dtype[Any],
        judge: Callable[[], Callable[[Floats], float]],
        reason: Callable[[int], str],
    ) -> None:
        """Find the directions, of scatters in units of ``2**exponent``.

        `judge` makes what judges maps, for shrinkage "auto"; `reason` tells of why there is no
        scatter within classes.
        """
        n_components = check_n_components(len(mixed), self.n_components)
        if not np.trace(within) > 0:
            raise ValueError(reason(self._k))

        def directions(scatter: Floats) -> Floats:
            rows = self._directions(mixed, scatter, precision)[:n_components]
            if self.embedding_type == "orthonormalized":
                return np.asarray(with_signs(np.linalg.qr(rows.T)[0].T))
            return rows

        fraction = check_shrinkage(self.shrinkage)
        if fraction is None:
            targets = {
                "identity": (np.eye(len(within)), (0.0, 0.03, 0.3)),
                "within": (around_means, (0.1, 0.3, 1.0)),
                "total": (mixed, (0.1, 0.3, 0.6)),
            }
            error = judge()
            self.shrinkage_target_, self.shrinkage_, shrunken = least_error(
                within, targets, lambda scatter: error(directions(scatter))
            )
        else:
            self.shrinkage_target_, self.shrinkage_ = "identity", fraction
            shrunken = shrunk(within, fraction)
        rows = directions(shrunken)
        if self.embedding_type == "orthonormalized":
            exponent = 0
        self._keep(rows, n_components, exponent, precision)

    def _scatters(
        self, points: Array, codes: Integers, weights: Floats, n_classes: int, k: int
    ) -> tuple[Floats, Floats]:
        """Return the scatter between and within classes together, and that within them."""
        counts, total = np.bincount(codes, weights), weights.sum()
        means = group_means(points, weights, codes, n_classes)
        others = weights * (1 - counts / total)[codes]
        spread = (means - counts @ means / total) * np.sqrt(counts)[:, None]
        mixed = scatter_matrix(points, others, codes, means) + spread.T @ spread
        within, local_scatter = np.zeros_like(mixed), get_kernels().local_scatter
        for label, count in enumerate(counts):
            members = np.flatnonzero(codes == label)
            local = np.subtract(points[members], means[label], dtype=np.float64)
            scatter = np.empty_like(within)
            local_scatter(local, weights[members], k, scatter, as_threads(self.n_jobs))
            mixed += scatter / total
            within += scatter / count
        return mixed, within

    def _directions(self, mixed: Floats, within: Floats, precision: np.dtype[Any]) -> Floats:
        """Return the scaled eigenvectors, one per row, in order."""
        whiten = whitening(mixed, precision)
        relative = whiten @ within @ whiten.T
        sizes, vectors = eigh((relative + relative.T) / 2)  # a size is 1 / (1 + lambda)
        if sizes[0] < _COLLAPSED:
            noise = whiten @ (_NOISE**2 * np.diag(np.diag(mixed))) @ whiten.T
            sizes, vectors = eigh((relative + relative.T + noise + noise.T) / 2)
            sizes = np.maximum(sizes, _COLLAPSED)
        rows = with_signs(vectors.T @ whiten) / np.sqrt(sizes)[:, None]
        if self.embedding_type == "weighted":
            rows *= np.sqrt(np.maximum(1 / sizes - 1, 0))[:, None]
        return np.asarray(rows)


def _collapsed(points: Array, codes: Integers, k: int) -> str:
    """Say why the scatter within classes is zero."""
    for label in np.unique(codes):
        members = points[codes == label]
        if (members != members[0]).any():
            return (
                f"each point is there more than k={k} times in its class, so that its local scale, "
                "the distance of its k-th nearest neighbour, is zero: use a larger k, or leave "
                "copies out."
            )
    return "y must hold a class with two different points."
