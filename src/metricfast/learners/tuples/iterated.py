"""Progress and callbacks of learners of tuples, and learners that are fitted inside another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from metricfast._core.progress import Progress

__all__ = ["IterationProgress", "fitted_inside", "name_of"]


@contextmanager
def fitted_inside(outer: Any, inner: Any) -> Iterator[None]:
    """Fit an inner learner in the name of another one, which takes over the fitted attributes.

    Progress, warnings and callbacks are those of the outer learner. An interrupted fit leaves the
    attributes of the last iteration there as well.
    """
    inner._outer = outer
    try:
        yield
    finally:
        _take_over(outer, inner)


def name_of(learner: Any) -> str:
    """Return the name of the learner that the user has fitted."""
    return type(_outermost(learner)).__name__


class IterationProgress(Progress):
    """Progress that verbose learners show, and that scikit-learn's callbacks receive.

    `set_fitted`: sets the fitted attributes of the present iteration.
    """

    def __init__(
        self,
        learner: Any,
        total: int,
        set_fitted: Callable[[], object],
        quantity: str = "objective",
    ) -> None:
        super().__init__(name_of(learner), total, quantity, shown=learner.verbose)
        self._learner, self._set_fitted = learner, set_fitted
        self._fit_task = _outermost(learner)._fit_task
        if self._fit_task is not None:
            self._fit_task.begin("iteration", total)

    def __call__(self, iteration: int, value: float) -> bool:
        """Report that `iteration` iterations are done, and return whether to stop."""
        super().__call__(iteration, value)
        return self._fit_task is not None and self._fit_task.iteration(self._update)

    def _update(self) -> None:
        self._set_fitted()
        outer = _outermost(self._learner)
        if outer is not self._learner:
            _take_over(outer, self._learner)


def _outermost(learner: Any) -> Any:
    return getattr(learner, "_outer", learner)


def _take_over(outer: Any, inner: Any) -> None:
    fitted = {n: v for n, v in vars(inner).items() if n.endswith("_") and not n.startswith("_")}
    vars(outer).update(fitted)
