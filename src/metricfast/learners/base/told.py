"""Callbacks of scikit-learn, which has them from 1.9 on: told of each iteration of a training."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9
    CallbackSupportMixin, with_callbacks = object, None

__all__ = ["TellsCallbacks", "Told", "tells_callbacks"]

_Fit = TypeVar("_Fit", bound=Callable[..., Any])


class TellsCallbacks(CallbackSupportMixin):  # type: ignore[misc]
    """Base of learners that take callbacks by `set_callbacks`, where scikit-learn has these.

    Those of scikit-learn, as its `ProgressBar`, are told of `fit` and of each of its iterations.
    """

    _told: Told | None = None  # while `fit` runs, if anybody is to be told


class Told:
    """What callbacks of an estimator are told: the tasks of a fit, with the data that it is of."""

    def __init__(self, estimator: Any, given: dict[str, Any]) -> None:
        weight = given.get("sample_weight")
        self._estimator, self._name = estimator, ""
        self._left: int | None = 0
        self._root: Any = None
        self._task: Any = None
        self._of: dict[str, Any] = {
            "estimator": estimator, "X": given.get("X"), "y": given.get("y"),
            "metadata": None if weight is None else {"sample_weight": weight},
        }  # fmt: skip

    def begin(self, name: str, total: int | None) -> None:
        """Tell that a training begins, of so many iterations at most, each a task of a name."""
        self._name, self._left = name, total
        self._root = self._estimator._init_callback_context(max_subtasks=self._left)
        self._root.call_on_fit_task_begin(**self._of)
        self._begin_task()

    def _begin_task(self) -> None:
        if self._left != 0:
            self._left = None if self._left is None else self._left - 1
            self._task = self._root.subcontext(task_name=self._name)
            self._task.call_on_fit_task_begin(**self._of)

    def iteration(self, keep: Callable[[], object] | None = None) -> bool:
        """Tell that an iteration has ended, and return whether the training is to stop.

        ``keep()`` sets the fitted attributes of it, where there are any; called where a callback
        asks for these.
        """
        if self._task is None:
            self._begin_task()
        task, self._task = self._task, None
        told = task is not None and self._end(task, keep)
        if not told:
            self._begin_task()
        return told

    def end(self) -> None:
        """Tell that the fit has ended, and the iteration that did not come to be."""
        if self._task is not None:
            self._task.call_on_fit_task_end(estimator=self._estimator)
        if self._root is not None:
            self._end(self._root, lambda: None)

    def _end(self, task: Any, keep: Callable[[], object] | None) -> bool:
        def attributes() -> dict[str, Any] | None:
            if keep is None:
                return None
            keep()
            return {"_told": None}  # the others a copy of the estimator has

        return bool(task.call_on_fit_task_end(**self._of, reconstruction_attributes=attributes))


def tells_callbacks(fit: _Fit) -> _Fit:
    """Make a method `fit` one that tells callbacks what it is given, and when it ends."""
    if with_callbacks is None:
        return fit
    names = list(inspect.signature(fit).parameters)[1:]

    @wraps(fit)
    def told(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(self, "_skl_callbacks"):
            return fit(self, *args, **kwargs)
        given = dict(zip(names, args, strict=False)) | kwargs
        self._told = Told(self, given | {"X": given.get(names[0])})  # points, or tuples
        try:
            fitted = fit(self, *args, **kwargs)
            self._told.end()
        finally:
            del self._told
        return fitted

    ends_them: _Fit = with_callbacks(told)  # whatever happens
    return ends_them
