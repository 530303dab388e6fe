"""`compare`: cross-validation of several learners within a time limit."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer
from sklearn.utils.validation import check_consistent_length

from metricfast._core.arguments import (
    check_bool,
    check_choice,
    check_count,
    check_path,
    check_range,
    check_verbose,
)
from metricfast._core.arrays import as_points, as_threads
from metricfast._core.frames import as_table, check_names, column_of, columns_of
from metricfast._core.sparse import made_dense
from metricfast._core.targets import check_marks
from metricfast._core.types import Integers
from metricfast.comparison.candidates import as_learners, of_numbers
from metricfast.comparison.encoding import encoder_of
from metricfast.comparison.labels import ComparedLabels
from metricfast.comparison.record import Record
from metricfast.comparison.result import CONSTANT, EUCLIDEAN, SCALED, Comparison, Row
from metricfast.comparison.schedule import Schedule, TryFolds
from metricfast.comparison.trial import Scoring
from metricfast.learners.auto import MANY
from metricfast.selection._judge import Judge, as_judge
from metricfast.selection._splits import Fold, check_folds, split_points
from metricfast.training.callbacks import as_callbacks
from metricfast.training.train import warn_of_race


def compare(
    X: Any,
    y: Any,
    *,
    learners: Any = "auto",
    cv: Any = 5,
    scoring: str | Callable[..., Any] | None = None,
    n_neighbors: int = 5,
    task: str = "auto",
    preprocessing: BaseEstimator | None = None,
    scale: bool | str = "auto",
    judge: Any = "auto",
    groups: Any = None,
    race: bool | None = None,
    time_limit: float | None = None,
    checkpoint: Any = None,
    refit: bool = True,
    callbacks: Iterable[Callable[[Row], object]] | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: bool | int = False,
    _try_folds: TryFolds | None = None,
) -> Comparison:
    """Compare learners with each other and with the Euclidean distance: which suits these data?

    Each is fitted to all folds but one, and its nearest neighbours predict the held-out points of
    that one, in turn: of classes, the share of right predictions is its score; of continuous labels
    R² of all held-out points. A learner is trained once a fold: all settings that its judge tries
    are judged on these folds, and each fold is scored under the setting that the other folds
    choose. The Euclidean distance is tried on the same folds, of the points as given and
    standardised; the better of both is the baseline. Differences from it are tested over the same
    points, by McNemar's exact test or, of continuous labels, Student's, and p-values adjusted to
    the number of learners (Holm). A row "one answer" predicts the most frequent class, or the mean.

    Parameters
    ----------
    X : array-like of shape (n, d), or frame
        Categories, text that repeats and missing values of a frame are encoded as for
        `NCAClassifier`, and dates are numbers of days, unless there is `preprocessing`.
    y : array-like of shape (n,) or (n, q), or str
        Classes, or continuous labels; or the column of the frame X that holds them.
    learners : "auto", str, estimator, sequence of these, or dict of them by name
        "auto" takes those that suit classes or continuous labels and so many points and features,
        by their default parameters, and up to 10,000 points the distances "cityblock" and "cosine",
        which learn nothing. Names are these distances, learners of metricfast, which are judged by
        nearest neighbours under the learned distance, or its predictors. Estimators of other
        libraries are judged by what they predict or, if they only transform, by neighbours of what
        they return.
    cv : int, splitter of scikit-learn or iterable of (train, test), default=5
        A number stands for that many parts of the points, as :class:`metricfast.selection.Judge`
        holds them out: with the same shares of classes, and with all copies of a point in one part.
        Where classes are many and small, both halves of the classes are held out in turn in their
        place, unless there is a `scoring`: learners then see no point of the classes that judge
        them, and a point is right if the nearest of all other points is of its class. `n_neighbors`
        has no effect, and learners that predict the classes they have seen score 0.
    scoring : str or callable, optional
        A scorer of scikit-learn, in place of accuracy or R². Then intervals and tests are over
        groups of held-out points, ten in each fold, by the delete-a-group jackknife (Kott, 2001).
        Where a score is not defined without some group, they are over folds, and the tests know
        that folds share training points (Nadeau and Bengio, 2003).
    n_neighbors : int, default=5
    task : {"auto", "classes", "numbers"}, default="auto"
        What to predict. "auto" takes what the given learners take. If they take both, or with
        ``learners="auto"``, labels are numbers if they are vectors or fractions, or integers of
        which most occur only once. The first line of the result says which.
    preprocessing : transformer, optional
        Converts the points to numbers. Fitted to the training points of each fold.
    scale : "auto" or bool, default="auto"
        Whether learners are given standardised features. With "auto", they are if these have the
        lower cost of Euclidean neighbours of held-out points.
    judge : "auto" or Judge, default="auto"
        Chooses among the settings of a learner. If it names a measure, such as
        ``Judge(measure="verification")``, the score is 1 minus the mean cost. Its `unit` says what
        is held out, and `cv` says how many parts there are.
    groups : array-like of shape (n,), optional
        The group of each point, such as the patient. Whole groups are held out.
    race : bool, optional
        Whether to drop a learner as soon as it is further behind the best one so far than the folds
        left may differ, by one standard error, or would not be better by two even if all further
        predictions were right. Closed forms come first, then `NCAClassifier`, which is often the
        best. The rows say which were dropped, or not tried at all. By default only with
        ``learners="auto"``.
    time_limit : float, optional
        Seconds for all learners, without the baselines and the last fit to all points. The time is
        checked between folds. Learners that the judge judges, or with the parameter `callbacks`,
        check it after each iteration too, and stop if one fold takes more than its share of the
        time that is left. Other learners finish the fold that they have begun.
    checkpoint : path-like, optional
        A file that is replaced after each fold. The same call continues from it; a call with the
        same data may have more learners or more time. Needs ``pip install safetensors``.
    refit : bool, default=True
        Whether to fit the best to all points.
    callbacks : iterable of callable, optional
        Called with the :class:`~metricfast.comparison.Row` of each learner as soon as it is known,
        not yet compared. A true result ends the comparison.
    random_state : int, RandomState or None, default=None
        Random numbers for learners without a `random_state` of their own, and with `preprocessing`
        for the parts of the points.
    n_jobs : int, optional
        Threads of the learners and searches.
    verbose : bool or int, default=False
        Show each row on standard error, and which learner leads.

    Returns
    -------
    Comparison
        With `table`, `best_name_`, `best_score_`, `expected_score_` and `best_estimator_`. Ctrl-C
        ends the comparison. The result holds the finished learners, without refit.

    Raises
    ------
    ValueError, TypeError
        If an argument cannot be used. Errors of learners do not end the comparison: their rows say
        what was wrong.

    Notes
    -----
    The best score of several is too high for the best. `expected_score_` says by how much: the
    choice is repeated with points drawn at random, and judged by the points that were not drawn
    [1]_. Intervals and tests hold for these points. They ignore the variation of training sets.

    All rows predict labels. For labels that have only a distance, nothing can be predicted: use
    :class:`AutoLearner` with its `label_distance`.

    References
    ----------
    .. [1] Tsamardinos, Greasidou, Borboudakis. Bootstrapping the out-of-sample predictions for
       efficient and accurate cross-validation. Machine Learning 107, 2018.

    Examples
    --------
    >>> import metricfast
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> found = metricfast.compare(X, y, learners=["LFDA", "LMNN"], random_state=0)
    >>> sorted(row.learner for row in found.rows)
    ['Euclidean', 'LFDA', 'LMNN', 'one answer', 'scaled Euclidean']
    >>> found.best_estimator_.predict(X[:2])
    array([0, 0])
    """
    check_path("checkpoint", checkpoint)
    check_range("time_limit", 0 if time_limit is None else time_limit)
    check_bool("refit", refit)
    check_verbose(verbose)
    check_choice("scale", scale, ["auto", True, False])
    n_neighbors = check_count("n_neighbors", n_neighbors)
    as_threads(n_jobs)
    if not (scoring is None or isinstance(scoring, str) or callable(scoring)):
        raise TypeError(f"scoring must be the name of a scorer or a callable, got {scoring!r}.")
    if preprocessing is not None and not hasattr(preprocessing, "transform"):
        raise TypeError(f"preprocessing must be a transformer, got {preprocessing!r}.")
    functions: Any = tuple(as_callbacks(callbacks)[0])
    if verbose:
        functions = (*functions, _shown())
    check_choice("task", task, ("auto", "classes", "numbers"))
    chosen = _judge_of(judge, scoring)
    race = isinstance(learners, str) and learners == "auto" if race is None else race
    check_bool("race", race)
    numbers = of_numbers(learners) if task == "auto" else task == "numbers"
    X = as_table(X, "X")
    check_names(X, "X")
    if isinstance(y, str):
        X, y = _split_off(X, y)
    labels = ComparedLabels.of(y, numbers)
    chosen.costs_by("numbers" if labels.continuous else "classes")
    if preprocessing is None:
        preprocessing = encoder_of(X)
    if preprocessing is None:
        X = made_dense(X)
        as_points(X, "X")
    elif not (hasattr(X, "__len__") or hasattr(X, "shape")):
        raise TypeError(f"X must be points or a table, got {X!r}.")
    check_consistent_length(X, labels.values)
    continuous = labels.continuous
    n_features = (*np.shape(X), 0)[1]
    found = as_learners(learners, len(labels.values), n_features, continuous)
    if time_limit is None and isinstance(learners, str):
        warn_of_race(len(found), min(len(labels.values), MANY), n_features, n_jobs)
    taken = [name for name in (EUCLIDEAN, SCALED, CONSTANT) if name in found]
    if taken:
        raise ValueError(f"learners must not be called {taken[0]!r}, which is a row of its own.")
    if not hasattr(cv, "get_n_splits") and np.iterable(cv) and not isinstance(cv, str):
        cv = check_folds("cv", cv, len(labels.values))
    marks = check_marks(len(labels.values), groups=groups)
    record = Record(
        checkpoint, random_state, _content(X), labels.values, cv, scoring, n_neighbors, continuous,
        chosen, marks,
    )  # fmt: skip
    plain = scoring in (None, "r2" if continuous else "accuracy")
    # scikit-learn does not accept classes of dtype object.
    codes = labels.values if continuous else np.unique(labels.values, return_inverse=True)[1]
    new_classes = False
    if hasattr(cv, "get_n_splits"):
        cv = check_folds("cv", cv.split(X, codes, **marks), len(codes))
    elif not isinstance(cv, list):
        drawn = np.random.RandomState(record.seed).random((len(codes), 1))
        points = as_points(X, "X") if preprocessing is None else drawn
        unit = chosen.unit if plain and not continuous else chosen.unit.replace("auto", "points")
        of = None if continuous else codes
        cv, new_classes = _folds(points, of, cv, "auto" if marks else unit, **marks)
        n_neighbors = 1 if new_classes else n_neighbors
    least = min(len(train) for train, _ in cv)
    if n_neighbors > least:
        raise ValueError(
            f"n_neighbors={n_neighbors} must be at most {least}, the number of points to train on "
            "in a fold of cv: lower it, or give more points."
        )
    scorer = None if plain else get_scorer(scoring)
    how = Scoring(n_neighbors, labels.variances, scorer, preprocessing, n_jobs, new_classes, chosen)
    run = Schedule(
        how, X, labels.values, cv, record, functions, time_limit, _try_folds, bool(race), scale
    )
    interrupted = run.all_of(_seeded(found, record.seed))
    score = labels.score if plain else str(scoring)
    held_out = " of classes" if new_classes else " of groups" if marks else ""
    size = f"{len(labels.values)} points, {labels}, {len(cv)} folds{held_out}"
    near = "the nearest of all others" if new_classes else f"{n_neighbors} neighbours"
    header = f"{score} of {near}: {size}"
    if how.measured:
        name, _ = chosen.costs_by("numbers" if continuous else "classes")
        header = f"1 - cost by {name}: {size}"
    result = run.result(header)
    result.interrupted_ = interrupted
    if refit and not interrupted:
        result.best_estimator_ = run.refit(result.best_name_)
    return result


def _judge_of(given: Any, scoring: Any) -> Judge:
    """Return the judge for the argument `judge`."""
    judge = as_judge(given)
    if judge is None:
        raise ValueError("judge must be 'auto' or a metricfast.selection.Judge, got None.")
    if scoring is not None and judge.measure != "auto":
        raise ValueError(
            f"scoring={scoring!r} and the measure of the judge, {judge.measure!r}, both say what "
            "the score is: leave one out."
        )
    return judge


def _split_off(X: Any, name: str) -> tuple[Any, Any]:
    """Return a frame without the column of labels, and this column."""
    names = [each for each, _ in columns_of(X)]
    if name not in names:
        raise ValueError(
            f"y must hold a label for each point, or be the name of a column of X, "
            f"{names or 'whose columns have no names'}; got {name!r}."
        )
    rest = [each for each in names if each != name]
    return X.select(rest) if hasattr(X, "select") else X[rest], X[name]


def _folds(
    X: Any, codes: Integers | None, cv: Any, unit: str, groups: Integers | None = None
) -> tuple[list[Fold], bool]:
    """Return folds with all copies of their points, and whether they hold out classes.

    `codes`: classes of points, or None for continuous labels.
    `unit`: what is held out, as in :class:`Judge`.
    """
    n_splits, n = check_count("cv", cv, least=2), len(X)
    codes = np.zeros(n, np.int64) if codes is None else codes
    parts = split_points(X, codes, n_splits=n_splits, n_enough=n, unit=unit, groups=groups)
    kind = parts[0].unit if parts else "points"
    if len(parts) < n_splits and kind == "points":
        raise ValueError(
            f"cv={n_splits} folds need more points than {n}, two of each of two classes at least: "
            "lower cv, or give more points."
        )
    if kind == "classes":
        queries = [np.flatnonzero(np.isin(codes, codes[part.queries])) for part in parts]
        tests = [np.setdiff1d(rows, part.train) for rows, part in zip(queries, parts, strict=True)]
    elif kind == "groups":
        assert groups is not None
        tests = [np.flatnonzero(np.isin(groups, groups[part.queries])) for part in parts]
    else:
        tests = [np.setdiff1d(np.arange(n), part.train) for part in parts]
    return [(part.train, test) for part, test in zip(parts, tests, strict=True)], kind == "classes"


def _seeded(found: dict[str, Any], seed: int) -> dict[str, Any]:
    for each in found.values():
        if isinstance(each, str):
            continue
        if each.get_params(deep=False).get("random_state", seed) is None:
            each.set_params(random_state=seed)
    return found


def _content(X: Any) -> Any:
    """Return a digest of points."""
    columns = [[str(name), column_of(X, j)] for j, (name, _) in enumerate(columns_of(X))]
    return columns or (X if hasattr(X, "tocsr") else np.asarray(X))


def _shown() -> Callable[[Row], None]:
    """Return a callback that shows rows, and the leader so far."""
    highest = -math.inf

    def show(row: Row) -> None:
        nonlocal highest
        name, *rest = row.cells()
        leads = row.score > highest
        highest = row.score if leads else highest
        print(f"{name:<35}", *rest, *["leads"] * leads, file=sys.stderr, flush=True)

    return show
