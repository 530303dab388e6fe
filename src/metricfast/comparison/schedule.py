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
from metricfast.comparison.trial import Scoring, Trial, group_count, prepare, try_learner
from metricfast.metrics._score import Score
from metricfast.selection._folds import settled
from metricfast.selection._race import Race

_LEVEL = 0.05
# Maximum number of values of points that are kept in the units of each fold.
_MOST_PREPARED = 10**8
Folds = list[tuple[Integers, Integers]]
# Tries a predictor on several folds at the same time, on a cluster for example.
TryFolds = Callable[[Scoring, Any, Any, Array, Folds], list[Trial]]


class Schedule:
    """Run trials of learners fold by fold, or all folds of a learner at once with `try_folds`."""

    def __init__(
        self, scoring: Scoring, X: Any, y: Array, folds: Folds, record: Record,
        callbacks: tuple[Callable[[Row], object], ...], time_limit: float | None,
        try_folds: TryFolds | None = None, race: bool = False, scale: bool | str = "auto",
    ) -> None:  # fmt: skip
        self.scoring, self.X, self.y, self.folds = scoring, X, y, folds
        self.record, self.callbacks = record, callbacks
        self.kind = "classes" if scoring.variances is None else "numbers"
        self.race = Race(scoring.judge, self.kind, None, scoring.bounds[1])
        self._drops = race and scoring.scorer is None
        self.scale = scale
        self.left = math.inf if time_limit is None else time_limit
        self.try_folds = try_folds
        self.predictors: dict[str, Any] = {}
        self.keys: dict[str, Any] = {}
        self.rows: dict[str, Row] = {}
        self.values: dict[str, Floats] = {}
        self.of_folds: dict[str, list[Floats]] = {}
        self._prepared: dict[tuple[int, Any], Array] = {}

    def all_of(self, learners: dict[str, Any]) -> bool:
        """Try the baselines and the learners; return whether a callback stopped the comparison."""
        constant: Any = DummyClassifier(strategy="most_frequent")
        if self.scoring.variances is not None:
            constant = DummyRegressor()
        baselines = {EUCLIDEAN: "euclidean", SCALED: "euclidean", CONSTANT: constant}
        if self.scoring.measured:
            del baselines[CONSTANT]
        stop = False
        for name, learner in baselines.items():
            self._enter(name, learner, name == SCALED)
            trials = self._folds_of(name, limited=False)
            if trials[-1].path is None:
                raise ValueError(f"X: the {EUCLIDEAN} distance cannot be tried: {trials[-1].note}")
            stop = self._keep(name, trials) or stop
        scale = self.scale
        if scale == "auto":
            scale = self.race.standardizes(EUCLIDEAN, SCALED)
        try:
            for name, learner in learners.items():
                if stop:
                    break
                self._enter(name, learner, bool(scale))
                note = self._note([])
                if note:
                    stop = self._keep(name, [Trial(None, math.nan, note)])
                else:
                    stop = self._keep(name, self._folds_of(name))
        except KeyboardInterrupt:
            return True
        return False

    def _enter(self, name: str, learner: Any, scale: bool) -> None:
        self.predictors[name] = self.scoring.predictor(learner, scale)
        # Trials do not depend on the number of threads.
        self.keys[name] = replace(self.scoring, n_jobs=None).predictor(learner, scale)

    def _folds_of(self, name: str, limited: bool = True) -> list[Trial]:
        """Try a learner on every fold, while it may win and the time suffices for all of them."""
        at_once = None
        if self.try_folds is not None and not (limited and self.left <= 0):
            start = time.perf_counter()
            at_once = self._all_folds_of(name, self.try_folds)
            if limited:
                self.left = max(0, self.left - (time.perf_counter() - start))
        trials = list[Trial]()
        for i in range(len(self.folds)):
            share = self.left / (len(self.folds) - i) if limited else math.inf
            seconds = None if share == math.inf else share
            found = at_once[i] if at_once else self._trial(name, i, seconds, trials)
            trials.append(found)
            if trials[-1].path is None:
                break
            note = self._note(trials) if limited and i + 1 < len(self.folds) else ""
            if note:
                trials.append(Trial(None, math.nan, note))
                break
        return trials

    def _all_folds_of(self, name: str, try_folds: TryFolds) -> list[Trial]:
        """Try a learner on all missing folds at the same time."""
        found = [self._known(name, i) for i in range(len(self.folds))]
        unknown = [i for i, trial in enumerate(found) if trial is None]
        some = [self.folds[i] for i in unknown]
        tried = try_folds(self.scoring, self.predictors[name], self.X, self.y, some)
        for i, trial in zip(unknown, tried, strict=True):
            found[i] = trial
            if trial.path is not None:
                self.record.add(self.keys[name], i, trial)
        return [trial for trial in found if trial is not None]

    def _known(self, name: str, i: int) -> Trial | None:
        n = len(self.y[self.folds[i][1]])
        sizes = (n,) if self.scoring.scorer is None else (1, group_count(n))
        return self.record.get(self.keys[name], i, sizes)

    def _trial(self, name: str, i: int, seconds: float | None, earlier: list[Trial]) -> Trial:
        known = self._known(name, i)
        if known is not None:
            return known
        if seconds == 0:
            return Trial(None, 0, "no time left")
        start, predictor = time.perf_counter(), self.predictors[name]
        points, paths = self._points(predictor, i), [each.path for each in earlier if each.path]
        trial = try_learner(
            self.scoring, predictor, self.X, self.y, self.folds[i], seconds, points, paths
        )
        if seconds is not None:
            self.left = max(0, self.left - (time.perf_counter() - start))
        if trial.path is not None:
            self.record.add(self.keys[name], i, trial)
        return trial

    def _points(self, predictor: Any, i: int) -> Array | None:
        """Return the points in the units of a fold, which learners share; None if preparing fails.

        Large tables are prepared for each learner anew.
        """
        key = i, predictor["units"].scale
        if key not in self._prepared:
            shape = self.X.shape if hasattr(self.X, "shape") else np.shape(self.X)
            if math.prod(shape) * len(self.folds) > _MOST_PREPARED:
                return None
            try:
                self._prepared[key] = prepare(predictor, self.X, self.y, self.folds[i])
            except Exception:  # the trial fails in the same way, and notes it
                return None
        return self._prepared[key]

    def _note(self, trials: list[Trial]) -> str:
        """Return why a learner is not tried any further after its first folds, or ''."""
        paths = [each.path for each in trials if each.path]
        return self.race.dropped(paths, len(self.folds)) if self._drops else ""

    def _keep(self, name: str, trials: list[Trial]) -> bool:
        """Add the row of a learner's trials; return whether a callback asks to stop."""
        last, paths = trials[-1], [trial.path for trial in trials if trial.path is not None]
        timed = [trial.seconds for trial in trials if not math.isnan(trial.seconds)]
        row = Row(name, n_folds=len(paths), fit_seconds=float(np.mean(timed or [math.nan])))
        if last.path is None:
            note = last.note
            if note == "out of time":
                note = f"stopped after {last.seconds:.1f} s in fold {len(trials)} of "
                note += f"{len(self.folds)}: all would take more than the time that was left"
            row = replace(row, note=note)
        else:
            self.of_folds[name] = [costs[:, -1] for costs in self.race.add(name, paths)]
            self.values[name] = values = self._held_out(self.of_folds[name])
            rivals = [each for each in self.values if each != CONSTANT]
            self.race.leader = max(rivals, key=lambda each: float(self.values[each].mean()))
            binary = self.scoring.variances is None and bool(np.isin(values, (0, 1)).all())
            binary = binary and self.scoring.scorer is None
            score = Score(values, math.nan, 1.0, bounds=self.scoring.bounds, binary=binary)
            low, high = score.interval
            row = replace(row, score=score.mean, low=low, high=high)
        self.rows[name] = row
        answers = [callback(row) for callback in self.callbacks]
        return any(answers)

    def _held_out(self, values: list[Floats]) -> Floats:
        """Return the score of each held-out point, averaged if it was held out several times."""
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
        """Fit the named learner to all points, with the setting that all folds choose."""
        predictor, paths = self.predictors[name], self.race.paths[name]
        learner: Any = getattr(predictor[-1], "metric", None)
        own, weight = getattr(learner, "judge", None), np.ones(len(self.race.costs[name]))
        unit = "classes" if self.scoring.new_classes else "points"
        judge = settled(paths, self.scoring.judge, weight, unit, self.kind, own)
        if judge is own:
            return predictor.fit(self.X, self.y)
        learner.judge = judge
        fitted = predictor.fit(self.X, self.y)
        learner.judge = fitted[-1].metric_.judge = own
        return fitted
