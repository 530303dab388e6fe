"""The record of finished trials, in a file."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metricfast._core.arguments import check_random_state
from metricfast._core.types import Array
from metricfast.comparison.trial import Trial
from metricfast.selection._folds import Path
from metricfast.training.checkpoint import CheckpointFile
from metricfast.training.fingerprint import fingerprint


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
        self._file = CheckpointFile(path, *of, fixed)
        found = self._file.read()
        if found is not None:
            self.seed, others, costs = found["seed"], found["numbers"], found["arrays"]
            with self._file.reading():
                self._trials = {key: _trial(costs[key], **others[key]) for key in costs}

    def get(self, predictor: Any, fold: int, sizes: tuple[int, ...]) -> Trial | None:
        """Return the recorded trial of a predictor, or None; it must have one of `sizes` values."""
        known = self._trials.get(self._key(predictor, fold))
        path = None if known is None else known.path
        if path is not None and self._file is not None and path.costs.shape[1] not in sizes:
            with self._file.reading():
                raise ValueError(f"{path.costs.shape[1]} values of a fold of {max(sizes)}")
        return known

    def add(self, predictor: Any, fold: int, trial: Trial) -> None:
        """Add a trial, and write all trials to the file."""
        self._trials[self._key(predictor, fold)] = trial
        if self._file is not None:
            self._file.write(self.seed, self)

    def snapshot(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the contents of the file."""
        arrays, others = dict[str, Array](), dict[str, Any]()
        for key, each in self._trials.items():
            if each.path is not None:
                arrays[key] = each.path.costs
                of = {"order": each.path.order.tolist(), "equal": each.path.equal}
                others[key] = {"seconds": each.seconds, "settings": each.path.settings, **of}
        return arrays, others

    def _key(self, predictor: Any, fold: int) -> str:
        return f"{fingerprint(predictor)}.{fold}"


def _trial(
    costs: Array, seconds: float, settings: list[Any], order: list[float], equal: float
) -> Trial:
    """Return a trial from the contents of the file; raise ValueError if these are wrong."""
    if costs.dtype != np.float64 or costs.ndim != 3 or not np.isfinite(costs[0]).all():
        raise ValueError("costs must be finite numbers")
    if type(seconds) is not float or not 0 <= seconds < math.inf:
        raise ValueError(f"seconds cannot be {seconds!r:.80}")
    given = [tuple(each) for each in settings]
    widths = {len(each) for each in given[1:]} or {1}
    if not (len(given) == len(order) == len(costs)) or widths not in ({1}, {2}):
        raise ValueError(f"{len(given)} settings of {len(costs)} rows")
    return Trial(Path(given, costs, np.array(order, np.float64), float(equal)), seconds)
