"""What learners of tuples share that learn iteration by iteration."""

from __future__ import annotations

from collections.abc import Callable

from metricfast._core.progress import Progress
from metricfast.learners.base.constraints import ConstraintLearner
from metricfast.training.callbacks import CallbackMixin

__all__ = ["IteratedLearner", "ToldProgress"]


class IteratedLearner(CallbackMixin, ConstraintLearner):
    """Base of such learners, whose iterations callbacks of scikit-learn are told of."""

    verbose: bool | int


class ToldProgress(Progress):
    """Progress that is shown where the learner is verbose, and told to its callbacks.

    `keep`: sets the fitted attributes as of the present iteration.
    """

    def __init__(
        self,
        learner: IteratedLearner,
        total: int,
        keep: Callable[[], object],
        quantity: str = "objective",
    ) -> None:
        super().__init__(type(learner).__name__, total, quantity, shown=learner.verbose)
        self._fit_task, self._keep = learner._fit_task, keep
        if self._fit_task is not None:
            self._fit_task.begin("iteration", total)

    def __call__(self, iteration: int, value: float) -> bool:
        """Show and tell that `iteration` are done, and return whether to stop."""
        super().__call__(iteration, value)
        return self._fit_task is not None and self._fit_task.iteration(self._keep)
