"""Input of learners: the preprocessor, and points and tuples for methods of fitted learners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from metricfast._core.checks import check_points, check_preprocessor
from metricfast._core.parameters import check_parameters, take_renamed
from metricfast._core.tuples import TupleSet, index_tuples
from metricfast._core.types import Array
from metricfast.selection._judge import Judge


def begin_fit(learner: Any) -> None:
    """Check the parameters, and delete the fitted attributes of an earlier fit."""
    take_renamed(learner)
    check_parameters(learner)
    forget(learner)
    learner.preprocessor_ = check_preprocessor(learner.preprocessor)


def forget(learner: Any) -> None:
    """Delete the fitted attributes."""
    for name in list(vars(learner)):
        if name.endswith("_") and name[0] != "_":
            delattr(learner, name)


def check_warm_start(earlier: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> None:
    """Raise ValueError unless the arrays that an earlier fit learned have these shapes."""
    known = [array.shape for array in earlier]
    if known != list(shapes):
        raise ValueError(
            "warm_start needs a map of the same shape as in the fit before, "
            f"{', '.join(map(str, known))}; got {', '.join(map(str, shapes))}: set "
            "warm_start=False."
        )


def check_order_judge(judge: Judge) -> None:
    """Raise ValueError for a judge with a measure or unit, which tuples and pairs cannot have."""
    if judge.measure != "auto" or judge.unit != "auto":
        raise ValueError(
            "judge must have measure='auto' and unit='auto' for pairs and tuples, which are judged "
            f"by their order; got {judge!r}."
        )


def points_of(learner: Any, X: Any, name: str = "X") -> Any:
    """Check points for a method of a fitted learner; look indicators up by its preprocessor."""
    check_is_fitted(learner, ["preprocessor_", learner._fitted])
    how: dict[str, Any] = {
        "name": name, "accept_sparse": learner._sparse_formats, "accept_sources": True
    }  # fmt: skip
    return check_points(learner, X, preprocessor=learner.preprocessor_, reset=False, **how)


def tuples_of(
    learner: Any, tuples: ArrayLike, tuple_size: int | None, y: ArrayLike | None = None
) -> TupleSet:
    """Check tuples, and labels if given, for a method of a fitted learner."""
    check_is_fitted(learner, ["preprocessor_", learner._fitted])
    return index_tuples(
        learner, tuples, y, preprocessor=learner.preprocessor_, reset=False, tuple_size=tuple_size
    )
