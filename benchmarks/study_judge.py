"""Study: by which measure, and with how much evidence, should a judge choose a distance?

    python -m benchmarks.study_judge [--kinds PATTERN...] [--learners PATTERN...] [--points N...]
                                     [--unit UNIT] [--draws N] [--threads N] [--output FOLDER]

Prints a line for each rule: a measure, with or without the condition that the nearest neighbour is
not worse, and a number of standard errors. All rules choose among the same settings of a learner,
by the same held-out points (--unit: what is held out). The columns are the gain over the given
distance on queries that neither the learner nor the judge saw: its mean over all choices, the
worst, and the share of choices that lose more than .01. "nearest" is the share of queries whose
nearest neighbour is of their class, "vote" the share of their class among 5 neighbours, "MAP@R" the
average precision at R. The last line has the best setting by the queries themselves, for each of
the three. Queries are new points of known classes in one table, and of new classes in the other.

Kinds of data are from `never_worse`; those without a file in METRICFAST_DATA are left out. N of the
training points are drawn, or all if there are fewer, and up to 600 queries. Settings of trained
learners are starts and iterations; the default measure ends their training on parts of the points.
Features keep their units. A repeated run continues from the costs of all settings, which are stored
in `results/judge`.
"""

from __future__ import annotations

__all__ = ["KINDS", "LEARNERS", "RULES", "Record", "draw", "main", "record"]

import argparse
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import never_worse
from benchmarks.never_worse import CLASSES, POINTS, Kind, Split, choose_names, make, one_view
from metricfast.learners.base.closed_form import ClosedFormLearner
from metricfast.selection import Judge, _judge
from metricfast.selection._evidence import choose
from metricfast.selection._folds import SettledJudge
from metricfast.selection._judge import Verdict
from metricfast.selection._measures import MEASURES, Search
from metricfast.training import model_selection

RESULTS = Path(__file__).resolve().parent / "results" / "judge"
# Smaller kinds of MNIST are draws of the largest; others have no classes, or need two maps.
OTHERS = "mnist-120", "mnist-206", "mnist-320", "faces", "images-to-texts", "texts-to-images"
KINDS = [name for name in never_worse.KINDS if name not in OTHERS]
LEARNERS = ["LFDA", "RCA_Supervised", "KISSME_Supervised", "ANMM", "DMLMJ", "GMML_Supervised"]
LEARNERS += ["XQDA", "NCA", "LMNN", "loss-SupCon"]
N_TEST, LOSS = 600, 0.01
# The first measure has two columns: its own costs, and the costs of "nearest".
MEASURED = "neighbors", "vote", "retrieval", "verification"
COLUMNS = "neighbors", "nearest", *MEASURED[1:]
TESTED = {"nearest": 1, "vote": 2, "MAP@R": 3}
# The measure, whether the nearest neighbour must not get worse, and the number of standard errors.
RULES = [r for r in product(COLUMNS, (True, False), (0, 1, 2)) if r[:2] != ("nearest", True)]
HEAD = ["rule", "standard errors"]
HEAD += [f"{name}: {of}" for name in TESTED for of in ("mean", "worst", f"below -{LOSS}")]


class Record(NamedTuple):
    """Costs of the settings of a learner, of which the first is the given distance."""

    costs: np.ndarray  # of each setting, on each held-out point, by each measure
    weight: np.ndarray
    test: np.ndarray  # mean costs of queries under each setting, by each measure
    order: np.ndarray
    equal: np.ndarray


class AllMeasures(Judge):
    """The default judge, with the costs by other measures in columns that it does not read."""

    _chooses_units = False

    def costs_by(
        self, labels: str = "classes", distance: Any = None
    ) -> tuple[str, Callable[..., np.ndarray]]:
        return MEASURED[0], all_costs


def all_costs(search: Search, *labels: Any) -> np.ndarray:
    """Return the costs of queries, with the columns COLUMNS."""
    return np.column_stack([MEASURES[name](search, *labels) for name in MEASURED]).astype(
        np.float32
    )


def draw(kind: Kind, split: Split, n: int, seed: int) -> Split:
    """Return a split with n training points, or all, and at most 600 queries."""
    rng = np.random.RandomState(seed)
    rows = rng.permutation(len(split.train[1]))[: n if split.second is None else n // 2]
    asked = rng.permutation(len(split.queries[1]))[:N_TEST]

    def take(points: Any, some: np.ndarray) -> Any:
        return points and (points[0][some], points[1][some].astype(np.int64))

    train, queries = take(split.train, rows), take(split.queries, asked)
    one_table = train if kind.new == POINTS else queries
    database = one_table if split.second is None else take(split.database, asked)
    return Split(train, queries, database, split.groups[asked], take(split.second, rows))


def record(learner: Any, split: Split, unit: str = "auto") -> Record | None:
    """Judge by all measures at once, and try each setting on queries; None if nothing is judged."""
    (Q, y), (D, labels), points = split.queries, split.database, one_view(split)
    exclude = np.arange(len(y)) if D is Q else None
    judge_costs, seen, test = _judge.judge_costs, list[Any](), list[np.ndarray]()

    def see(judge: Any, names: Any, costs: Any, weight: Any, *rest: Any, **how: Any) -> Any:
        if isinstance(judge, AllMeasures):  # not the judge of a start
            seen.append((costs, weight, how))
        return judge_costs(judge, names, costs, weight, *rest, **how)

    def try_on_queries(fitted: Any) -> None:
        Z, Z_database = (fitted.transform(X).astype(np.float32) for X in (Q, D))
        test.append(all_costs(Search(Z, Z_database, exclude), y, labels, None).mean(axis=0))

    def settle(*setting: Any) -> SettledJudge:
        return SettledJudge(_verdict=Verdict(replace(learner.judgement_, chosen=1), setting, False))

    patches = [patch.object(each, "judge_costs", see) for each in (_judge, model_selection)]
    # Other measures may choose what the default one gives up.
    every = patch.object(_judge, "in_reach", lambda costs, *_: np.ones(len(costs), bool))
    with patches[0], patches[1], every:
        learner.set_params(judge=AllMeasures(unit=unit)).fit(*points)
    ((costs, weight, how),) = seen
    if not costs.size:
        return None
    if isinstance(learner, ClosedFormLearner):
        learner.judge = None
        for setting in learner._settings:
            learner._published = setting
            try_on_queries(learner.fit(*points))
    else:
        given, *others = how["settings"]
        for start, n in [(given[0], 1), *Counter(start for start, _ in others).items()]:
            for n_iter in sorted({0, n - 1}):
                n_rows = len(test) + max(1, n_iter)
                learner.judge = settle(start, n_iter)
                learner.callbacks = [lambda state: try_on_queries(state.estimator)] * (n_iter > 0)
                learner.fit(*points)
                if n_iter == 0:
                    try_on_queries(learner)
                test += [test[-1]] * (n_rows - len(test))  # converged earlier
    how = {"order": np.arange(len(costs)), "equal": 0.0} | how
    return Record(costs, weight, np.array(test), how["order"], np.array(how["equal"]))


def records(name: str, learners: list[str], options: argparse.Namespace) -> Iterator[Record]:
    """Yield the record of each choice on a kind of data, and store new ones."""
    kind, unit = never_worse.KINDS[name], options.unit
    arrays = kind.read()
    for seed in range(options.draws):
        split = kind.split(seed, *arrays)
        sizes = {min(n, len(one_view(split)[1])) for n in options.points}
        for n, learner in product(sorted(sizes), learners):
            file = options.output / f"{name}-{n}-{seed}-{unit}-{learner}.npz"
            if not file.exists():
                model = make(learner, 0, random_state=seed, n_jobs=options.threads)
                try:
                    found = record(model, draw(kind, split, n, seed), unit)
                except (ValueError, np.linalg.LinAlgError) as error:  # cannot be fitted
                    print(f"{file.stem}: {str(error).partition(chr(10))[0]}", flush=True)
                    found = None
                unfinished = file.with_suffix(".unfinished.npz")
                np.savez_compressed(unfinished, **(found._asdict() if found else {}))
                unfinished.replace(file)
            with np.load(file) as stored:
                if len(stored):
                    yield Record(**stored)


def choose_by(found: Record, measure: str, guarded: bool, errors: float) -> int:
    """Return the setting that a rule chooses."""
    costs, guard = (found.costs[..., COLUMNS.index(name)] for name in (measure, "nearest"))
    how = {"equal": float(found.equal), "order": found.order}
    return choose(costs, found.weight, errors=errors, guard=guard if guarded else None, **how)


def table(found: list[Record]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"| {' | '.join(HEAD)} |\n{'|---' * len(HEAD)}|"
    gains = [each.test[0] - each.test for each in found]
    for rule in RULES:
        rows = [gain[choose_by(each, *rule)] for gain, each in zip(gains, found, strict=True)]
        yield _line(rule[0] + ", nearest not worse" * rule[1], rule[2], rows)
    yield _line("best by the queries", "", [gain.max(axis=0) for gain in gains])


def _line(rule: str, errors: Any, gains: list[np.ndarray]) -> str:
    cells = [rule, str(errors)]
    for gain in np.array(gains).T[list(TESTED.values())]:
        cells += [f"{gain.mean():+.4f}", f"{gain.min():+.3f}", f"{np.mean(gain < -LOSS):.3f}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    how = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=how)
    parser.add_argument("--kinds", nargs="+", metavar="PATTERN")
    parser.add_argument("--learners", nargs="+", metavar="PATTERN")
    parser.add_argument("--points", nargs="+", type=int, default=[120, 500, 2000], metavar="N")
    parser.add_argument("--unit", choices=["auto", "points", "classes"], default="auto")
    parser.add_argument("--draws", type=int, default=2, metavar="N")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FOLDER")
    options = parser.parse_args()
    kinds = choose_names(KINDS, options.kinds, "--kinds")
    learners = choose_names(LEARNERS, options.learners, "--learners")
    warnings.simplefilter("ignore")
    options.output.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[Record]] = {POINTS: [], CLASSES: []}
    with threadpool_limits(options.threads):
        for name in kinds:
            try:
                found[never_worse.KINDS[name].new] += records(name, learners, options)
            except FileNotFoundError as error:
                print(f"{name}: no {error.filename}: see benchmarks/DATA.md", flush=True)
    for new, choices in found.items():
        if choices:
            print(f"\nnew {new}: {len(choices)} choices\n", *table(choices), sep="\n")


if __name__ == "__main__":
    main()
