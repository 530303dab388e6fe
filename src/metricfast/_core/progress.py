"""Progress of long computations, on standard error and for scikit-learn's callbacks."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any


class Progress(AbstractContextManager["Progress"]):
    """Progress on standard error: a tqdm bar where tqdm is installed, else one line an iteration.

    `label`: name of the estimator.
    `total`: maximum number of iterations.
    `quantity`: name of the reported value.
    `shown`: whether to show anything.
    """

    def __init__(
        self, label: str, total: int, quantity: str = "objective", *, shown: object = True
    ) -> None:
        self._label, self._quantity, self._start = label, quantity, time.perf_counter()
        self._shown, self._bar = shown, None
        if not shown:
            return
        with suppress(ImportError):
            self._bar = importlib.import_module("tqdm").tqdm(
                total=total, desc=label, file=sys.stderr
            )

    def __call__(self, iteration: int, value: float) -> bool:
        """Show the number of finished iterations. Returns False: training goes on."""
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
        return False

    def close(self) -> None:
        """Finish the output on the terminal."""
        if self._bar is not None:
            self._bar.close()

    def __exit__(self, *error: object) -> None:
        """Finish the output on the terminal."""
        self.close()


class IterationProgress(Progress):
    """Report iterations to the user, if the learner is verbose, and to scikit-learn's callbacks.

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
        super().__init__(type(learner).__name__, total, quantity, shown=learner.verbose)
        self._set_fitted, self._fit_task = set_fitted, learner._fit_task
        if self._fit_task is not None:
            self._fit_task.begin("iteration", total)

    def __call__(self, iteration: int, value: float) -> bool:
        """Report that `iteration` iterations are done, and return whether to stop."""
        super().__call__(iteration, value)
        return self._fit_task is not None and self._fit_task.iteration(self._set_fitted)
