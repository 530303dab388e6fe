"""Which tools of scikit-learn a database has come through.

Tools scale, select and split X, but pass a database on as it is, or cut it to the rows of X. The
learner at the end is told nothing of that, so it looks at who calls it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FrameType
from typing import Any

from sklearn.pipeline import Pipeline

__all__ = ["refuse_passed_on", "refuse_pipeline"]

# Of scikit-learn, and joblib under it; these neither split nor transform.
_TOOLS = "sklearn", "joblib"
_HARMLESS = "joblib", "sklearn.base", "sklearn.callback", "sklearn.utils"
_REMEDY = "give FixedDatabase({what}, X_database, y_database) in its place, and fit it to X and y"


def refuse_passed_on(learner: Any, X: Any, X_database: Any) -> None:
    """Raise a ValueError where a tool of scikit-learn has not treated the database as it has X.

    The learner is the one whose method was called with the two.
    """
    if X_database is None:
        return
    name = type(learner).__name__
    for frame in _tools_above(learner):
        tool = frame.f_locals.get("self")
        if isinstance(tool, Pipeline):
            fits = frame.f_code.co_name.startswith("fit")
            if len(tool) > 1 and not (fits and "X_database" in (tool.transform_input or ())):
                raise ValueError(
                    f"X_database came to {name} through a Pipeline, whose other steps have "
                    f"transformed X alone: {_REMEDY.format(what='pipeline')}."
                )
        elif not _module(frame).startswith(_HARMLESS) and _length(X) == _length(X_database):
            raise ValueError(
                f"X_database has as many points as X, {_length(X)}, and came to {name} through "
                f"{_module(frame)}, which may have cut it, as long as X, to the rows of a split: "
                f"{_REMEDY.format(what='estimator')}."
            )


def refuse_pipeline(estimator: Any) -> None:
    """Raise a ValueError where an estimator with a database of its own is a step after others."""
    for frame in _tools_above(estimator):
        tool = frame.f_locals.get("self")
        if isinstance(tool, Pipeline) and len(tool) > 1:
            raise ValueError(
                f"{type(estimator).__name__} must hold the whole pipeline, whose other steps "
                "transform X alone here: give FixedDatabase(make_pipeline(..., learner), "
                "X_database, y_database)."
            )


def _tools_above(estimator: Any) -> Iterator[FrameType]:
    """Give the frames of scikit-learn that the outermost call of an estimator comes from."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_locals.get("self") is not estimator:
        frame = frame.f_back
    while frame is not None and frame.f_locals.get("self") is estimator:
        frame = frame.f_back
    while frame is not None and (
        _module(frame).split(".")[0] in _TOOLS or isinstance(frame.f_locals.get("self"), Pipeline)
    ):
        yield frame
        frame = frame.f_back


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _length(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)
