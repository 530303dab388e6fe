"""Progress of long computations, on standard error and for scikit-learn's callbacks."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any


class Progress(AbstractContextManager["Progress"]):
    """Progress on standard error: a tqdm bar where tqdm is installed, else one line an iteration.

    `label`: name of the estimator.
    `total`: maximum number of iterations.
    `quantity`: name of the reported value.
    `shown`: whether to show anything.
    `stops`: called after each iteration; returns whether to stop.
    """

    def __init__(
        self, label: str, total: int, quantity: str = "objective", *, shown: object = True,
        stops: Callable[[], bool] | None = None,
    ) -> None:  # fmt: skip
        self._label, self._quantity, self._start = label, quantity, time.perf_counter()
        self._shown, self._bar, self._stops = shown, None, stops
        if not shown:
            return
        with suppress(ImportError):
            self._bar = importlib.import_module("tqdm").tqdm(
                total=total, desc=label, file=sys.stderr
            )

    def __call__(self, iteration: int, value: float) -> bool:
        """Show the number of finished iterations, and return whether to stop."""
        if self._bar is not None:
            self._bar.set_postfix({self._quantity: f"{value:.6g}"}, refresh=False)
            self._bar.update()
        elif self._shown:
            elapsed = time.perf_counter() - self._start
            print(
                f"[{self._label}] iteration {iteration}: {self._quantity} {value:.6g} "
                f"({elapsed:.1f} s)",
                file=sys.stderr,
                flush=True,
            )
        return self._stops is not None and self._stops()

    def close(self) -> None:
        """Finish the output on the terminal."""
        if self._bar is not None:
            self._bar.close()

    def __exit__(self, *error: object) -> None:
        """Finish the output on the terminal."""
        self.close()


def iteration_progress(
    learner: Any, total: int, set_fitted: Callable[[], object], quantity: str = "objective"
) -> Progress:
    """Report iterations to the user, if the learner is verbose, and to scikit-learn's callbacks.

    `learner`: the learner that the user fits.
    `set_fitted`: sets the fitted attributes of the present iteration.
    """
    task, stops = learner._fit_task, None
    if task is not None:
        task.begin("iteration", total)
        stops = partial(task.iteration, set_fitted)
    return Progress(type(learner).__name__, total, quantity, shown=learner.verbose, stops=stops)
