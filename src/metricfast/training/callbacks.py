"""Callbacks: functions of the training's state, checkpoints, and scikit-learn's callbacks."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from metricfast.training.history import SolverState

if TYPE_CHECKING:

    class CallbackMixin:
        """Base class of learners that support scikit-learn's callbacks."""

    with_callbacks: Any
else:
    try:
        from sklearn.callback import CallbackSupportMixin as CallbackMixin
        from sklearn.callback import with_callbacks
    except ImportError:  # before scikit-learn 1.9
        CallbackMixin, with_callbacks = type("CallbackMixin", (), {}), None

Callback = Callable[[SolverState], object]
_Fit = TypeVar("_Fit", bound=Callable[..., Any])


class Checkpoint:
    """Write the training to a file after every iteration, and continue from it.

    If the file exists, `fit` continues from there. The result is the same as without the
    interruption, bit for bit on the same kind of processor; only `LBFGS` continues without its
    memory of gradients. A file of other data or other parameters is refused. The largest number of
    iterations may be raised, unless the schedule is "cosine". A training that a callback ended
    stays ended until then. Needs safetensors: ``pip install safetensors``.

    Parameters
    ----------
    path : path-like
        File that is replaced after every iteration or epoch.

    Examples
    --------
    >>> from metricfast import NCA
    >>> from metricfast.callbacks import Checkpoint
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> nca = NCA(max_iter=5, tol=1e9, callbacks=[Checkpoint("iris.training")]).fit(X, y)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"path must be text or a path, got {path!r}.")
        self.path = path

    def __repr__(self) -> str:
        """Return the constructor call."""
        return f"Checkpoint({os.fspath(self.path)!r})"


def as_callbacks(value: Any, *, warm_start: bool = False) -> tuple[list[Callback], str | None]:
    """Return the functions, and the path of the checkpoint if there is one; raise for other values.

    `warm_start`: whether `fit` starts from the last fit, not from an existing file.
    """
    try:
        found = [] if value is None else list(value)
    except TypeError as error:
        raise TypeError(f"callbacks must be several functions, got {value!r}.") from error
    functions, paths = [], []
    for callback in found:
        if isinstance(callback, Checkpoint):
            paths.append(os.fspath(callback.path))
        elif callable(callback):
            functions.append(callback)
        else:
            raise TypeError(
                "callbacks must be functions of a SolverState, or metricfast.callbacks.Checkpoint; "
                f"got {callback!r}."
            )
    if len(paths) > 1:
        raise ValueError(f"callbacks must hold one Checkpoint, got {len(paths)}.")
    if warm_start and paths and Path(paths[0]).exists():
        raise ValueError(
            f"checkpoint {paths[0]} exists already, and warm_start asks to start from the last fit "
            "instead: name another file, delete it, or set warm_start=False."
        )
    return functions, paths[0] if paths else None


class FitTask:
    """The tasks of `fit` for scikit-learn's callbacks: the fit, and each iteration."""

    def __init__(self, estimator: Any, given: dict[str, Any]) -> None:
        weight = given.get("sample_weight")
        self._estimator, self._name = estimator, ""
        self._left: int | None = 0
        self._root: Any = None
        self._task: Any = None
        self._data: dict[str, Any] = {
            "estimator": estimator, "X": given.get("X"), "y": given.get("y"),
            "metadata": None if weight is None else {"sample_weight": weight},
        }  # fmt: skip

    def begin(self, name: str, n_iter: int | None) -> None:
        """Begin a training of at most `n_iter` iterations; each is a task with this name.

        The fit begins with its first training. Without a number, other trainings may follow.
        """
        self._name, self._left = name, n_iter
        if self._root is None:
            self._root = self._estimator._init_callback_context(max_subtasks=n_iter)
            self._root.call_on_fit_task_begin(**self._data)
        if self._task is None:
            self._begin_task()

    def iteration(self, set_fitted: Callable[[], object] | None = None) -> bool:
        """End an iteration, and return whether a callback asks to stop.

        `set_fitted()` sets the fitted attributes of the iteration, if a callback asks for them.
        """
        if self._task is None:
            self._begin_task()
        task, self._task = self._task, None
        stops = task is not None and self._end_task(task, set_fitted)
        if not stops:
            self._begin_task()
        return stops

    def end(self) -> None:
        """End the fit, and the open task of an iteration."""
        if self._task is not None:
            self._task.call_on_fit_task_end(estimator=self._estimator)
        if self._root is not None:
            self._end_task(self._root, lambda: None)

    def _begin_task(self) -> None:
        if self._left != 0:
            self._left = None if self._left is None else self._left - 1
            self._task = self._root.subcontext(task_name=self._name)
            self._task.call_on_fit_task_begin(**self._data)

    def _end_task(self, task: Any, set_fitted: Callable[[], object] | None) -> bool:
        def attributes() -> dict[str, Any] | None:
            if set_fitted is None:
                return None
            set_fitted()
            return {"_fit_task": None}  # all else is in the estimator's state

        return bool(task.call_on_fit_task_end(**self._data, reconstruction_attributes=attributes))


def reports_to_sklearn(fit: _Fit) -> _Fit:
    """Decorate `fit` to call the callbacks of `set_callbacks`."""
    if with_callbacks is None:
        return fit
    names = list(inspect.signature(fit).parameters)[1:]

    @wraps(fit)
    def reporting(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(self, "_skl_callbacks"):
            return fit(self, *args, **kwargs)
        given = dict(zip(names, args, strict=False)) | kwargs
        self._fit_task = FitTask(self, given | {"X": given.get(names[0])})  # points, or tuples
        try:
            fitted = fit(self, *args, **kwargs)
            self._fit_task.end()
        finally:
            del self._fit_task
        return fitted

    decorated: _Fit = with_callbacks(reporting)  # also ends the tasks after an error
    return decorated
