"""Progress of learners of tuples, on standard error and for scikit-learn's callbacks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from metricfast._core.progress import Progress

__all__ = ["IterationProgress"]


class IterationProgress(AbstractContextManager["IterationProgress"]):
    """Progress that verbose learners show, and that scikit-learn's callbacks receive.

    `learner`: the learner that the user fits.
    `set_fitted`: sets the fitted attributes of the present iteration.
    """

    def __init__(
        self,
        learner: Any,
        total: int,
        set_fitted: Callable[[], object],
        quantity: str = "objective",
    ) -> None:
        self._shown = Progress(type(learner).__name__, total, quantity, shown=learner.verbose)
        self._set_fitted, self._fit_task = set_fitted, learner._fit_task
        if self._fit_task is not None:
            self._fit_task.begin("iteration", total)

    def __call__(self, iteration: int, value: float) -> bool:
        """Report that `iteration` iterations are done, and return whether to stop."""
        self._shown(iteration, value)
        return self._fit_task is not None and self._fit_task.iteration(self._set_fitted)

    def close(self) -> None:
        """Leave the terminal in order."""
        self._shown.close()

    def __exit__(self, *error: object) -> None:
        """Leave the terminal in order."""
        self.close()
