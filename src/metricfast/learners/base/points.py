"""Learners of a linear map from points and their labels, and the data they train on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from metricfast._core.checks import check_points
from metricfast._core.scaling import center_and_rescale, log2_spread, times_power_of_two, undo_scale
from metricfast._core.sources import Scaled, Source
from metricfast._core.sparse import rescale
from metricfast._core.targets import check_classification_target, check_sample_weight
from metricfast._core.warn import warn_user
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.samplers import Batch
from metricfast.training.chunks import Chunked, held, mean_and_exponent, rows_of

__all__ = ["PointsLearner", "TrainingSet"]

Array = NDArray[Any]
# Logarithm of the spread of embedded points, up to a sign, from which a given map is rescaled.
_USUAL_START = 20


@dataclass(frozen=True)
class TrainingSet:
    """Checked training data, made safe to compute with.

    `X`: {ndarray, csr_array} of shape (n_samples, n_features), C order; points less their mean, so
        that distances keep more digits, times ``2**-exponent``. Sparse points are not centred.
        Too many points of a source are `Chunked`.
    `labels`: int64 codes into `classes`; or float64 numbers, where there are no classes.
    `exponent`: not 0 if the points are given in unusual units.
    `unit`: by which the objective is multiplied to be in the units of the numbers as given.
    `n_kept`: so many of the last samples are of earlier calls, and no anchors.
    """

    X: Any
    labels: Array
    classes: Array
    weight: NDArray[np.float64] | None
    exponent: int
    unit: float = 1.0
    n_kept: int = 0

    @property
    def groups(self) -> NDArray[np.int64]:
        """The class of each point; where there are no classes, all points are of one."""
        known: bool = self.labels.dtype.kind == "i"
        return self.labels if known else np.zeros(len(self.labels), np.int64)

    @property
    def n_new(self) -> int:
        """The number of samples that are anchors, which are the first ones."""
        return len(self.labels) - self.n_kept

    def with_kept(self, batch: Batch, rng: np.random.RandomState) -> Batch:
        """Return a batch with as many samples of earlier calls, or all of these."""
        if not self.n_kept:
            return batch
        some = rng.choice(self.n_kept, min(self.n_kept, batch.n_anchors), replace=False)
        return Batch(np.concatenate([batch.rows, self.n_new + some]), batch.n_anchors)

    def take(self, rows: Any) -> TrainingSet:
        """Return some of the samples."""
        return self._of(rows_of(self.X, rows), rows)

    @cached_property
    def few(self) -> TrainingSet:
        """All samples; where these are not in memory, as many that represent them."""
        return self._of(self.X[self.few_rows], self.few_rows) if self._is_beyond else self

    @cached_property
    def few_rows(self) -> Any:
        """Where those few are."""
        classes = self.labels if self.labels.dtype.kind == "i" else None
        return self.X.sample(classes, self.weight) if self._is_beyond else slice(None)

    def forget_few(self) -> None:
        """Let go of those few, which only a start needs."""
        vars(self).pop("few", None)

    @property
    def _is_beyond(self) -> bool:
        return isinstance(self.X, Chunked)

    def judged(self, train: Any, test: Any) -> tuple[TrainingSet, Any, Any]:
        """Return samples in memory, and which of them are judged by which."""
        if not isinstance(self.X, Chunked):
            return self, train, test
        few = self.take(train).few
        labels = np.concatenate([few.labels, self.labels[test]])
        X, n = np.concatenate([few.X, self.X[test]]), len(few.labels)
        both = replace(self, X=X, labels=labels, weight=None)
        return both, np.arange(n), np.arange(n, len(labels))

    def _of(self, X: Any, rows: Any) -> TrainingSet:
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, X=X, labels=self.labels[rows], weight=weight)

    def undo_scale(self, L: Array) -> Array:
        """Turn a map of `X` into that of the points as given."""
        return undo_scale(L, self.exponent, self.X.dtype)

    def start(self, init: Array) -> Array:
        """Turn a map of the points as given into one of `X`, rescaled if it fits nothing at all."""
        size = math.frexp(float(np.abs(init).max()))[1]
        unit = times_power_of_two(init.astype(np.float64), -size)
        Z = self.few.X @ unit.T
        spread = log2_spread(Z - Z.mean(axis=0))
        shift = size + self.exponent
        if spread is not None and abs(shift + sum(spread)) > _USUAL_START:
            shift = -spread[0]
            warn_user(
                f"`init` spreads the points over about 2^{spread[0] + size + self.exponent}, where "
                f"no loss has a slope: it was multiplied by 2^{shift - size - self.exponent}."
            )
        return times_power_of_two(unit, shift)


class PointsLearner(MahalanobisMixin):
    """Base of learners of a linear map from labelled points."""

    _requires_y = True
    _accept_sparse: str | bool = False

    def _check_data(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, exponent: int | None = None,
        join: Any = None, validate: bool = False,
    ) -> TrainingSet:  # fmt: skip
        """Return the data to train on; of later calls, with the exponent of the first.

        ``join(X, y, weight)`` adds samples that are kept of earlier ones.
        """
        how: dict[str, Any] = {"ensure_min_samples": 2, "accept_sparse": self._accept_sparse}
        how["accept_sources"] = True
        later = exponent is not None
        if exponent is None:
            X, y = self._prepare_inputs(X, y, **how)
        else:
            how |= {"preprocessor": self.preprocessor_, "reset": False, "order": "C"}
            X, y = check_points(self, X, y, **how)
        n_new = X.shape[0]
        weight = check_sample_weight(sample_weight, n_new)
        X = csr_array(X) if issparse(X) else held(X, self, validate)
        if join is not None:
            X, y, weight = join(X, y, weight)
        classes, labels, unit = self._check_target(y)
        n_kept = X.shape[0] - n_new
        if isinstance(X, Source):
            mean, own = mean_and_exponent(X)
            exponent = own if exponent is None else exponent
            X = Chunked(Scaled(X, mean, exponent))
            return TrainingSet(X, labels, classes, weight, exponent, unit, n_kept)
        if exponent is None:
            X, exponent = rescale(X) if issparse(X) else center_and_rescale(X)
        elif issparse(X):
            X = X.copy()
            X.data = times_power_of_two(X.data, -exponent)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                X = times_power_of_two(X - X.mean(axis=0), -exponent)
        values = X.data if issparse(X) else X
        # Sums of squares must not overflow.
        if later and not np.abs(values).max(initial=0) < np.finfo(X.dtype).max ** 0.25:
            raise ValueError(
                "X is too large beside the points of the calls before: scale it as those were."
            )
        return TrainingSet(X, labels, classes, weight, exponent, unit, n_kept)

    def _check_target(self, y: Any) -> tuple[Array, Array, float]:
        """Return the classes, and `labels` and `unit` as a TrainingSet has them."""
        return *check_classification_target(y), 1.0
