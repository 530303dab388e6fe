"""What long work shows of its progress."""

from __future__ import annotations

import importlib
import sys
import time

__all__ = ["Progress"]


class Progress:
    """Progress on standard error: a tqdm bar where tqdm is installed, else one line an iteration.

    Parameters
    ----------
    label : str
        What is being fitted.
    total : int
        The largest possible number of iterations.
    quantity : str, default="objective"
        What the value is.
    """

    def __init__(self, label: str, total: int, quantity: str = "objective") -> None:
        self._label, self._quantity, self._start = label, quantity, time.perf_counter()
        try:
            self._bar = importlib.import_module("tqdm").tqdm(
                total=total, desc=label, file=sys.stderr
            )
        except ImportError:
            self._bar = None

    def __call__(self, iteration: int, value: float) -> None:
        """Show that `iteration` iterations are done."""
        if self._bar is not None:
            self._bar.set_postfix({self._quantity: f"{value:.6g}"}, refresh=False)
            self._bar.update()
        else:
            elapsed = time.perf_counter() - self._start
            print(
                f"[{self._label}] iteration {iteration}: {self._quantity} {value:.6g} "
                f"({elapsed:.1f} s)",
                file=sys.stderr,
                flush=True,
            )

    def close(self) -> None:
        """Leave the terminal in order."""
        if self._bar is not None:
            self._bar.close()
