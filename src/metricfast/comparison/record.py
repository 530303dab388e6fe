"""The record of finished trials, in a file."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metricfast._core.arguments import check_random_state
from metricfast._core.types import Array
from metricfast.comparison.trial import Trial
from metricfast.training.checkpoint import Checkpoint
from metricfast.training.fingerprint import fingerprint

__all__ = ["Record"]


class Record:
    """Finished trials, by predictor and fold number, optionally stored in a file.

    `path`: path of the file, or None.
    `of`: the data and the parameters that all trials share.
    """

    def __init__(self, path: Any, random_state: Any, *of: Any) -> None:
        self._trials: dict[str, Trial] = {}
        seed = random_state
        if not isinstance(seed, (int, np.integer)):
            seed = check_random_state(random_state).randint(2**31 - 1)
        self.seed = int(seed)
        self._file = None
        if path is None:
            return
        fixed = random_state if isinstance(random_state, (int, np.integer)) else None
        self._file = Checkpoint(path, *of, fixed)
        found = self._file.read()
        if found is not None:
            self.seed, seconds, values = found["seed"], found["numbers"], found["arrays"]
            with self._file.reading():
                self._trials = {key: _trial(values[key], seconds[key]) for key in values}

    def get(self, predictor: Any, fold: int, sizes: tuple[int, ...]) -> Trial | None:
        """Return the recorded trial of a predictor, or None; it must have one of `sizes` values."""
        known = self._trials.get(self._key(predictor, fold))
        values = None if known is None else known.values
        if values is not None and self._file is not None and len(values) not in sizes:
            with self._file.reading():
                raise ValueError(f"{len(values)} values of a fold of {max(sizes)}")
        return known

    def add(self, predictor: Any, fold: int, trial: Trial) -> None:
        """Add a trial, and write all trials to the file."""
        self._trials[self._key(predictor, fold)] = trial
        if self._file is not None:
            self._file.write(self.seed, self)

    def snapshot(self) -> tuple[dict[str, Array], dict[str, float]]:
        """Return the contents of the file."""
        arrays = {key: each.values for key, each in self._trials.items() if each.values is not None}
        return arrays, {key: self._trials[key].seconds for key in arrays}

    def _key(self, predictor: Any, fold: int) -> str:
        return f"{fingerprint(predictor)}.{fold}"


def _trial(values: Array, seconds: float) -> Trial:
    if values.dtype != np.float64 or values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError("values must be finite numbers")
    if type(seconds) is not float or not 0 <= seconds < math.inf:
        raise ValueError(f"seconds cannot be {seconds!r:.80}")
    return Trial(values, seconds)
