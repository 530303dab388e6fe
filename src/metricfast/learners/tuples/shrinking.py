"""Shrinkage of a metric, learned from tuples, towards a simpler metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from metricfast._core.scaling import center_and_rescale, undo_scale
from metricfast._core.scatter import repetitions
from metricfast._core.targets import check_partial_target, check_sample_weight
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.warn import without_advice
from metricfast._core.wide_map import WideMap
from metricfast.learners.base.choice import advise, judge_settings
from metricfast.learners.base.inputs import check_order_judge
from metricfast.selection._judge import Judge, Judgement, as_judge, judge_tuples
from metricfast.selection._splits import split_tuples
from metricfast.training.span import GIVEN, GivenAxes, in_span

# The simpler metrics, and the fractions that the judge tries. The first combination is the given
# distance.
_SIMPLER = ("identity", "variance")
_FRACTIONS = (1.0, 0.6, 0.1)
# The shares of the given distance that are scored on held-out tuples.
_GIVEN_SHARES = (1.0, 0.6, 0.3, 0.1, 0.0)
# Maximum number of points to estimate the spread of features.
_SAMPLE = 1000
# Points and weights.
_Sample = tuple[Array, Floats]


def representative_sample(points: Any, labels: Array, sample_weight: ArrayLike | None) -> _Sample:
    """Return up to 1000 points of known classes and positive weight."""
    weights = repetitions(check_sample_weight(sample_weight, len(points)), len(points))
    known = np.flatnonzero((weights > 0) & (check_partial_target(labels)[1] >= 0))
    rows = np.random.RandomState(0).permutation(known)[:_SAMPLE]
    return points[rows], weights[rows]


def half_of_pairs(pairs: TupleSet) -> dict[str, Any]:
    """Return the parameters of a learner for half as many similar and dissimilar pairs."""
    return {"n_constraints": max(1, len(pairs.index) // 4)}


def shrink_metric(
    learner: Any,
    learn: Callable[[], None],
    sample: _Sample,
    given: tuple[Any, Array, ArrayLike | None, dict[str, Any]],
    params: dict[str, Any],
    span: GivenAxes,
    **how: Any,
) -> None:
    """Learn a metric, shrink it towards a simpler one, and set the fitted attributes.

    If the judge chooses, it judges clones that are fitted to parts of the points, before.

    `learn`: sets the fitted attributes of the metric without shrinkage.
    `sample`: the result of :func:`representative_sample`.
    `given`: the points, labels and weights that the learner was fitted to, and further arguments of
        :func:`judge_settings`.
    `params`: parameters of clones that differ from those of the learner, so that a clone takes
        about half as long.
    `span`: the coordinates in which to work.
    `how`: further arguments of `fit`.
    """
    fraction, n_components = learner.shrinkage, learner.n_components
    name = target = _SIMPLER[0]
    judged = fraction is None and as_judge(learner.judge) is not None
    if judged:
        points, labels, weight, marks = given
        in_units = marks["units"].factors is not None
        simpler, target = _SIMPLER[: 2 - in_units], _SIMPLER[in_units]
        tried = [(name, f) for name in simpler for f in _FRACTIONS] + [(name, 0.0)]
        if ("variance", 1.0) in tried and n_components is not None:
            tried.remove(("variance", 1.0))  # has no leading directions
        weight, coordinates = check_sample_weight(weight, len(points)), span.points(points)

        def maps(
            rows: Integers, inside: Array, some: Sequence[tuple[str, float]]
        ) -> Iterator[Array]:
            part = _clone(learner, None, **params)
            w, y = None if weight is None else weight[rows], labels[rows]
            part.fit(inside if span is GIVEN else points[rows], y, sample_weight=w, **how)
            sample = representative_sample(inside, y, w)
            move = _Moves(_learned_map(part, span), sample, n_components, span)
            for each in some:
                yield span.inside(move(*each))

        names = [f"shrinkage={f:g} towards {target if n == name else n}" for n, f in tried]
        # A fit takes at most as long as six decompositions of a matrix.
        name, fraction = judge_settings(
            learner, tried, names, coordinates, labels, weight, maps, per_fit=6, **marks
        )
    learn()
    if judged:
        advise(learner)
    fraction = 0.0 if fraction is None else float(fraction)
    learner.shrinkage_ = fraction
    learner.shrinkage_target_ = target if name == _SIMPLER[0] else name
    if fraction > 0:
        move = _Moves(
            _learned_map(learner, span), (span.points(sample[0]), sample[1]), n_components, span
        )
        learner.components_ = move(name, fraction)


def shrink_by_tuples(learner: Any, tuples: TupleSet) -> None:
    """Set the fitted attributes of a learner after moving its metric towards the given distance.

    If the judge chooses, a clone is fitted to half of the tuples, and the other half judges. Among
    the shares of the given distance that are as good as the best within the evidence that the judge
    asks for, the largest is used.
    """
    judge, fraction = as_judge(learner.judge), learner.shrinkage
    rows, rng = tuples.unique_rows(), np.random.RandomState(0)
    some = tuples.points[rng.permutation(rows)[:_SAMPLE]]
    with in_span(learner, tuples.used_points()) as span:
        sample = span.points(some), np.ones(len(some))
        if fraction is None and judge is not None:
            learner.judgement_ = _judged_shares(
                judge, learner, tuples, split_tuples(tuples, rng), sample, span
            )
            learner.judgement_.warn("shrinkage")
            fraction = _GIVEN_SHARES[learner.judgement_.chosen]
        learner.shrinkage_ = 0.0 if fraction is None else float(fraction)
        if learner.shrinkage_ > 0:
            move = _Moves(_learned_map(learner, span), sample, learner.n_components, span)
            learner.components_ = move(_SIMPLER[0], learner.shrinkage_)


def _judged_shares(
    judge: Judge, learner: Any, tuples: TupleSet, held: NDArray[np.bool_], sample: _Sample,
    span: GivenAxes,
) -> Judgement:  # fmt: skip
    """Judge the shares of the given distance by the order of held-out tuples."""
    check_order_judge(judge)
    names = ["given distance", *(f"shrinkage={share:g}" for share in _GIVEN_SHARES[1:])]
    part = _clone(learner, tuples.points)
    given = (tuples.index,) if tuples.y is None else (tuples.index, tuples.y)
    judged = np.flatnonzero(held)[:5000]
    index = tuples.index[judged]
    rows, places = np.unique(index, return_inverse=True)
    points, places = span.points(tuples.points[rows]), places.reshape(index.shape)
    y = None if tuples.y is None else tuples.y[judged]

    def scores() -> Iterator[Floats]:
        with without_advice():
            part.fit(*(each[~held] for each in given))
        move = _Moves(_learned_map(part, span), sample, learner.n_components, span)
        for share in _GIVEN_SHARES:
            Z = points @ span.inside(move(_SIMPLER[0], share)).T
            first, second = (
                np.linalg.norm(Z[places[:, 0]] - Z[places[:, i]], axis=1) for i in (1, -1)
            )
            yield -first if y is not None else second - first

    return judge_tuples(judge, names, y, scores(), equal=judge.errors_for())


def _clone(learner: Any, preprocessor: Any, **params: Any) -> Any:
    """Return a learner to be fitted to some of the points or tuples, without shrinkage."""
    how = {
        "judge": None,
        "shrinkage": 0,
        "preprocessor": preprocessor,
        "random_state": 0,
        "verbose": False,
    }
    part = clone(learner).set_params(**how, **params)
    if hasattr(part, "set_callbacks"):  # scikit-learn's callbacks, which clones share
        part.set_callbacks()
    return part


def _learned_map(learner: Any, span: GivenAxes) -> Any:
    """Return the learned map of points; a diagonal map is sparse."""
    if span is GIVEN:
        return learner.components_
    L = learner._map
    if not getattr(learner, "diagonal", False) or len(L) != L.shape[1]:
        return L
    return WideMap(np.diag(L).astype(np.float64), dtype=L.dtype)


class _Moves:
    """Maps of metrics interpolated between a learned metric and simpler ones."""

    def __init__(
        self, components: Any, sample: _Sample, n_components: int | None, span: GivenAxes
    ) -> None:
        self._given, self._span, self._n_components = components, span, n_components
        X, exponent = center_and_rescale(sample[0])
        covariance = np.zeros((X.shape[1], X.shape[1]))
        if len(X) > 1:
            covariance += np.cov(X, rowvar=False, aweights=sample[1], dtype=np.float64)
        # Rescaled, so that squares neither overflow nor underflow.
        largest = np.abs(span.inside(span.rescaled(components, exponent))).max()
        self._exponent = exponent - int(np.frexp(largest)[1])
        self._L = span.rescaled(components, self._exponent)
        self._varies = bool(np.trace(covariance) > 0)
        if self._varies:
            self._simpler = _simpler_metrics(
                span.inside(self._L), span.variances(covariance), covariance
            )
            self._covariance = covariance

    def __call__(self, name: str, share: float) -> Any:
        """Return the map of points, interpolated towards a simpler metric by `share`."""
        if share == 0 or not self._varies:
            return self._given
        weights = share * self._simpler[name]
        if share == 1 and self._n_components is not None:
            # The Euclidean distance weights all directions equally, so keep the principal
            # components.
            axes = np.linalg.eigh(self._covariance)[1].T[::-1][: self._n_components]
            moved = self._span.outer(axes * np.sqrt(weights[0]), square=False)
        else:
            moved = self._span.plus_diagonal(self._L, 1 - share, weights, self._n_components)
        return undo_scale(moved, self._exponent, self._given.dtype)


def _simpler_metrics(L: Floats, variances: Floats, covariance: Floats) -> dict[str, Floats]:
    """Return feature weights of the Euclidean distance, without and with standardised features.

    Both are scaled so that the mean squared distance, given the covariance, equals that under L, or
    stays as it is if that is zero.
    """
    size = float(np.sum((L.T @ L) * covariance)) or float(variances.sum())
    inverse = np.divide(1, variances, out=np.zeros(len(variances)), where=variances > 0)
    metrics = dict(zip(_SIMPLER, (np.ones(len(variances)), inverse), strict=True))
    return {name: w * (size / float(w @ variances)) for name, w in metrics.items()}
