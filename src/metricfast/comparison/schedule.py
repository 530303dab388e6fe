"""The schedule of a comparison: it runs trials in sequence, within a time limit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor

from metricfast._core.types import Array, Floats, Integers
from metricfast.comparison.record import Record
from metricfast.comparison.result import CONSTANT, EUCLIDEAN, SCALED, Comparison, Row
from metricfast.comparison.statistics import adjusted, expected_of_the_best, paired_p_value
from metricfast.comparison.trial import Scoring, Trial, group_count, try_learner
from metricfast.metrics._score import Score

__all__ = ["Folds", "Schedule", "TryFolds"]

_LEVEL = 0.05
Folds = list[tuple[Integers, Integers]]
# Tries a predictor on several folds at the same time, on a cluster for example.
TryFolds = Callable[[Scoring, Any, Any, Array, Folds], list[Trial]]


class Schedule:
    """Run trials of learners fold by fold, or all folds of a learner at once with `try_folds`."""

    def __init__(
        self,
        scoring: Scoring,
        X: Any,
        y: Array,
        folds: Folds,
        record: Record,
        callbacks: tuple[Callable[[Row], object], ...],
        time_limit: float | None,
        try_folds: TryFolds | None = None,
    ) -> None:
        self.scoring, self.X, self.y, self.folds = scoring, X, y, folds
        self.record, self.callbacks = record, callbacks
        self.left = math.inf if time_limit is None else time_limit
        self.try_folds = try_folds
        self.predictors: dict[str, Any] = {}
        self.keys: dict[str, Any] = {}
        self.rows: dict[str, Row] = {}
        self.values: dict[str, Floats] = {}
        self.of_folds: dict[str, list[Floats]] = {}

    def all_of(self, learners: dict[str, Any]) -> bool:
        """Try the baselines and the learners; return whether a callback stopped the comparison."""
        constant: Any = DummyClassifier(strategy="most_frequent")
        if self.scoring.variances is not None:
            constant = DummyRegressor()
        baselines = {EUCLIDEAN: "euclidean", SCALED: "euclidean", CONSTANT: constant}
        stop = False
        for name, learner in baselines.items():
            self._enter(name, learner, name == SCALED)
            trials = self._folds_of(name, limited=False)
            if trials[-1].values is None:
                raise ValueError(f"X: the {EUCLIDEAN} distance cannot be tried: {trials[-1].note}")
            stop = self._keep(name, trials) or stop
        try:
            for name, learner in learners.items():
                if stop:
                    break
                self._enter(name, learner)
                stop = self._keep(name, self._folds_of(name))
        except KeyboardInterrupt:
            return True
        return False

    def _enter(self, name: str, learner: Any, scale: bool | None = None) -> None:
        self.predictors[name] = self.scoring.predictor(learner, scale)
        # Trials do not depend on the number of threads.
        self.keys[name] = replace(self.scoring, n_jobs=None).predictor(learner, scale)

    def _folds_of(self, name: str, limited: bool = True) -> list[Trial]:
        """Try a learner on every fold, if the time suffices for all of them."""
        if self.try_folds is not None and not (limited and self.left <= 0):
            start = time.perf_counter()
            trials = self._all_folds_of(self.predictors[name], self.try_folds)
            if limited:
                self.left = max(0, self.left - (time.perf_counter() - start))
            return trials
        trials = []
        for i in range(len(self.folds)):
            share = self.left / (len(self.folds) - i) if limited else math.inf
            trials.append(self._trial(name, i, None if share == math.inf else share))
            if trials[-1].values is None:
                break
        return trials

    def _all_folds_of(self, predictor: Any, try_folds: TryFolds) -> list[Trial]:
        """Try a learner on all missing folds at the same time."""
        found = [self._known(predictor, i) for i in range(len(self.folds))]
        unknown = [i for i, trial in enumerate(found) if trial is None]
        some = [self.folds[i] for i in unknown]
        tried = try_folds(self.scoring, predictor, self.X, self.y, some)
        for i, trial in zip(unknown, tried, strict=True):
            found[i] = trial
            if trial.values is not None:
                self.record.add(predictor, i, trial)
        trials = [trial for trial in found if trial is not None]
        n_done = next((i for i, trial in enumerate(trials) if trial.values is None), len(trials))
        return trials[: n_done + 1]

    def _known(self, predictor: Any, i: int) -> Trial | None:
        n = len(self.y[self.folds[i][1]])
        sizes = (n,) if self.scoring.scorer is None else (1, group_count(n))
        return self.record.get(predictor, i, sizes)

    def _trial(self, name: str, i: int, seconds: float | None) -> Trial:
        known = self._known(self.keys[name], i)
        if known is not None:
            return known
        if seconds == 0:
            return Trial(None, 0, "no time left")
        start = time.perf_counter()
        trial = try_learner(
            self.scoring, self.predictors[name], self.X, self.y, self.folds[i], seconds
        )
        if seconds is not None:
            self.left = max(0, self.left - (time.perf_counter() - start))
        if trial.values is not None:
            self.record.add(self.keys[name], i, trial)
        return trial

    def _keep(self, name: str, trials: list[Trial]) -> bool:
        """Add the row of a learner's trials; return whether a callback asks to stop."""
        last, n_done = trials[-1], sum(trial.values is not None for trial in trials)
        row = Row(name, n_folds=n_done, fit_seconds=float(np.mean([t.seconds for t in trials])))
        if last.values is None:
            note = last.note
            if note == "out of time":
                note = f"stopped after {last.seconds:.1f} s in fold {len(trials)} of "
                note += f"{len(self.folds)}: all would take more than the time that was left"
            row = replace(row, note=note)
        else:
            self.values[name] = values = self._held_out(trials)
            self.of_folds[name] = [trial.values for trial in trials if trial.values is not None]
            binary = self.scoring.variances is None and bool(np.isin(values, (0, 1)).all())
            binary = binary and self.scoring.scorer is None
            score = Score(values, math.nan, 1.0, bounds=self.scoring.bounds, binary=binary)
            low, high = score.interval
            row = replace(row, score=score.mean, low=low, high=high)
        self.rows[name] = row
        answers = [callback(row) for callback in self.callbacks]
        return any(answers)

    def _held_out(self, trials: list[Trial]) -> Floats:
        """Return the score of each held-out point, averaged if it was held out several times."""
        values: list[Any] = [trial.values for trial in trials]
        if self.scoring.scorer is not None:
            return np.concatenate(values)
        sums, counts = np.zeros(len(self.y)), np.zeros(len(self.y))
        for (_, test), each in zip(self.folds, values, strict=True):
            np.add.at(sums, test, each)
            np.add.at(counts, test, 1)
        found: Floats = sums[counts > 0] / counts[counts > 0]
        return found

    def result(self, task: str) -> Comparison:
        """Compare the learners that were tried on every fold."""
        share, all_values = None, self.values
        each_fold = [values for folds in self.of_folds.values() for values in folds]
        if self.scoring.scorer is not None and min(map(len, each_fold)) == 1:
            # The score is undefined for some group of points, so compare folds.
            share = float(np.mean([len(test) / len(train) for train, test in self.folds]))
            all_values = {
                name: np.array([values.mean() for values in folds])
                for name, folds in self.of_folds.items()
            }
        # Choosing the better of the two raises the baseline's score, which is conservative for
        # learners.
        before = max((EUCLIDEAN, SCALED), key=lambda name: self.rows[name].score)
        baseline = all_values[before]
        others = [name for name in all_values if name not in (before, CONSTANT)]
        p_values = [paired_p_value(all_values[name], baseline, share) for name in others]
        for name, p in zip(others, adjusted(p_values), strict=True):
            difference = float((all_values[name] - baseline).mean())
            change = ("better" if difference > 0 else "worse") if p < _LEVEL else ""
            self.rows[name] = replace(
                self.rows[name], difference=difference, p_value=float(p), change=change
            )
        rows = sorted(self.rows.values(), key=lambda row: (math.isnan(row.score), -row.score))
        best = rows[0]
        expected = expected_of_the_best(np.stack(list(all_values.values()), 1), self.record.seed)
        return Comparison(rows, task, before, best.learner, best.score, expected)

    def refit(self, name: str) -> Any:
        """Fit the named learner to all points."""
        return self.predictors[name].fit(self.X, self.y)
