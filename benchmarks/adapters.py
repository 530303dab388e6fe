"""Adapters of given embeddings, next to other ways to adapt them.

    python -m benchmarks.adapters [--full] [--only PATTERN]...

The tasks are pairs of sentences that people have judged (stsb_static.npz), and the close ones among
them; docstrings of NumPy, SciPy and scikit-learn by the encoder wordllama, if it is installed,
whose first paragraphs find the rest of them, or of all that they mention; the same under another
encoder; images and texts (wikipedia_image_text.npz); and made embeddings. Both sides are mapped, or
queries alone. A score is the mean average precision of test queries, or Spearman's correlation of
test pairs.

`AdapterLearner` has default parameters. Closed forms have the best regularisation of four by the
test score. With torch, the same maps are trained by MultipleNegativesRankingLoss (MNRL) or CoSENT:
with the default parameters of sentence-transformers, with those of llama_index, and with the rate,
scale and number of epochs that are best on a fifth of the training queries. Tuning is part of the
seconds, all of one processor. "minus ours" has the standard error of the difference. The last two
columns look at the test score while torch trains: after as many seconds as `AdapterLearner` took,
and until it reaches its score, without the time to tune.

A second table shows seconds, peak memory beyond the embeddings, and scores by the numbers of
features and pairs. Without `--full`, three recipes are tuned instead of six or nine, and sizes are
small. `--draw 1` has other training and test pairs than the default, 0, on which default parameters
of `AdapterLearner` were chosen.
"""

from __future__ import annotations

__all__ = ["check", "main"]

import argparse
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import average_precision_score
from threadpoolctl import threadpool_limits

from benchmarks import adapter_data, adapter_peers
from benchmarks.adapter_data import TASKS, Task
from benchmarks.worker import memory, new_peak
from metricfast import AdapterLearner

# Features and pairs of the second table. Without `--full`, only the first.
SIZES = [(d, n) for n in (1000, 10_000, 100_000) for d in (1536, 3072, 4096)]
SIZES += [(256, 50_000), (9600, 2000)]
HEAD = ("method", "CPU s", "score", "minus ours", "error", "after our s", "s to our score")
# Number of tuned recipes; time limits of a recipe, as multiples of the time of `AdapterLearner`.
_TUNED, _LIMIT, _FULL_LIMIT = 3, 2.0, 6.0


class Row(NamedTuple):
    """A way to adapt, seconds, and test values; for torch, the course of the test score."""

    name: str
    seconds: float
    values: np.ndarray
    course: adapter_peers.Course | None = None

    def cells(self, ours: Row) -> list[str]:
        """Return the cells of the table."""
        found = [self.name, f"{self.seconds:.1f}" if self.seconds else ""]
        found.append(f"{self.values.mean():.4f}")
        if self is ours:
            return [*found, *[""] * 4]
        differences = self.values - ours.values
        error = differences.std() / np.sqrt(len(differences))
        found += [f"{differences.mean():+.4f}", f"{error:.4f}"]
        if self.course is None:
            return [*found, "", ""]
        seconds, scores = self.course
        equal = scores[max(np.searchsorted(seconds, ours.seconds, side="right") - 1, 0)]
        reached = np.flatnonzero(scores >= ours.values.mean())
        when = f"{seconds[reached[0]]:.1f}" if len(reached) else f"not in {seconds[-1]:.1f}"
        return [*found, f"{equal:.4f}", when]


def check() -> None:
    """Raise an error unless scores agree with scikit-learn, SciPy and `AdapterLearner.score`."""
    for scored in (True, False):
        task = adapter_data.made("both", n=100, n_features=16, scored=scored, n_test=60)
        learner, _ = _fit(task)
        Z, Z_database = (learner.transform(task.test[i]) for i in (0, 2))
        if scored:
            expected = spearmanr((Z * Z_database).sum(axis=1), task.test.y)[0]
        else:
            relevant = task.test.y.toarray()
            pairs = zip(relevant, Z @ Z_database.T, strict=True)
            expected = np.mean([average_precision_score(*each) for each in pairs])
        found = task.mapped(learner.parameters_[0]).mean()
        np.testing.assert_allclose([found, learner.score(*task.test)], expected, rtol=1e-5)


def _fit(task: Task) -> tuple[AdapterLearner, float]:
    """Return the learner, fitted to the training pairs, and seconds."""
    learner, begin = AdapterLearner(task.side, random_state=0, n_jobs=1), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # if points stay as they are
        learner.fit(*task.train)
    return learner, time.process_time() - begin


def rows(task: Task, full: bool) -> Iterator[Row]:
    """Yield `AdapterLearner` first, then points as given, closed forms, and torch."""
    learner, seconds = _fit(task)
    yield Row("`AdapterLearner`", seconds, task.mapped(learner.parameters_[0]))
    given = task.given()
    if given is not None:
        yield Row("as given", 0.0, given)
    for name, (make, side, settings) in adapter_peers.CLOSED.items():
        if side != task.side and not (name == "whitening" and given is not None):
            continue
        begin = time.process_time()
        found = [task.mapped(make(task, each)) for each in settings]
        best = max(found, key=np.mean)
        yield Row(name, time.process_time() - begin, best)
    for name, choices in adapter_peers.recipes(task).items():
        try:
            yield _trained(name, task, choices, seconds * (_FULL_LIMIT if full else _LIMIT), full)
        except ImportError:
            yield Row(f"{name}: torch is not installed", 0.0, np.array([np.nan]))
            return


def _trained(
    name: str, task: Task, choices: list[adapter_peers.Recipe], limit: float, full: bool
) -> Row:
    spent, recipe = 0.0, choices[0]
    if len(choices) > 1:
        choices = choices if full else choices[1 :: len(choices) // _TUNED]
        recipe, spent = adapter_peers.tune(task, choices, limit)
        name += f": rate {recipe.rate:g}, scale {recipe.scale:g}, {recipe.epochs} epochs"
        limit = np.inf
    course, L = adapter_peers.courses(
        task, task.train, recipe, lambda L: float(task.mapped(L).mean()), limit
    )
    return Row(name, spent + course.seconds[-1], task.mapped(L), course)


def _sized(n_features: int, n: int, scored: bool, answers: Any) -> None:
    """Send a row of the second table."""
    with threadpool_limits(1):
        task = adapter_data.made("both", n=n, n_features=n_features, scored=scored)
        before = new_peak() or 0
        learner, seconds = _fit(task)
        peak = (memory("VmHWM") - before) / 1e6 if before else np.nan
        size = sum(each.nbytes for each in (task.train.queries, task.train.database)) / 1e6
        scores = task.given().mean(), task.mapped(learner.parameters_[0]).mean()  # type: ignore[union-attr]
        answers.send((seconds, size, peak, *scores))


def sizes(full: bool, chosen: Callable[[str], bool]) -> None:
    """Print the second table, each row by a process of its own."""
    cases = [
        (d, n, kind)
        for (d, n), kind in product(SIZES if full else SIZES[:1], ("scored", "positive"))
        if chosen(f"sizes {d} x {n} {kind}")
    ]
    if not cases:
        return
    print("\n| features | pairs | CPU s | MB of pairs | MB more | given | score |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    context = multiprocessing.get_context("spawn")
    for n_features, n, kind in cases:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_sized, args=(n_features, n, kind == "scored", theirs))
        process.start()
        theirs.close()
        try:
            seconds, size, peak, *scores = ours.recv()
            cells = f"{seconds:.1f} | {size:.0f} | {peak:.0f} | {scores[0]:.4f} | {scores[1]:.4f}"
        except EOFError:
            cells = "| | | |"
        print(f"| {n_features:,} | {n:,} {kind} | {cells} |", flush=True)
        process.join()


def main(argv: list[str] | None = None) -> None:
    """Run the benchmark, and print its tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.adapters",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--full", action="store_true", help="all recipes and sizes")
    parser.add_argument("--draw", type=int, default=0, help="training and test pairs to draw")
    parser.add_argument(
        "--only", action="append", metavar="PATTERN",
        help="tasks, or sizes such as 'sizes 3072 x 10000 positive'",
    )  # fmt: skip
    options = parser.parse_args(argv)

    def chosen(name: str) -> bool:
        return not options.only or any(fnmatch(name, each) for each in options.only)

    check()
    with threadpool_limits(1):
        for name, (make, sides) in TASKS.items():
            for side in sides if chosen(name) else ():
                try:
                    task = make(side, options.draw)
                except (FileNotFoundError, ImportError) as error:
                    print(f"\n{name}: {error}", flush=True)
                    continue
                print(f"\n{name}, {side}: {len(task.train.queries):,} queries\n")
                print(f"| {' | '.join(HEAD)} |\n|---{'|---:' * (len(HEAD) - 1)}|")
                ours = None
                for row in rows(task, options.full):
                    ours = ours or row
                    print(f"| {' | '.join(row.cells(ours))} |", flush=True)
    sizes(options.full, chosen)


if __name__ == "__main__":
    main()
