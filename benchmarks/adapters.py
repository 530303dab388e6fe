"""Adapters of given embeddings, next to the same maps and losses in torch.

    python -m benchmarks.adapters [--only TASK] [--pairs N] [--limit FACTOR]

The tasks are the judged sentences of stsb_static.npz, both sides mapped or queries alone, by
CoSENT; made clicks, both sides mapped, by a softmax over each batch; and queries of another
encoder, which find the embeddings of the old one. `AdapterLearner` has default parameters. torch,
if it is installed, trains a linear map from the identity (of another encoder, from torch's own
start) on the same pairs by the same loss: with the recipe of llama_index and
sentence-transformers, AdamW at rate 2e-5 in batches of 10, and with Adam in batches of 512 at
higher rates. It gets `--limit` times the processor seconds of `AdapterLearner`. Scores are of test
pairs: Spearman's correlation of cosines and scores, or the mean reciprocal rank of the document
among the nearest 100. The test score of torch is looked at all along, which is not on its clock: a
row has the best one, the one after as many seconds as `AdapterLearner` took, and the seconds to
reach its score.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import eye_array
from sklearn.preprocessing import normalize

from benchmarks import data
from metricfast import AdapterLearner
from metricfast.metrics import pair_report, relevance_report

_SCALE, _TEMPERATURE = 5.0, 0.07
_N_FEATURES, _N_TEST, _K = 768, 2000, 100
# Optimizer, learning rate and batch size.
PEERS = (("AdamW", 2e-5, 10), ("Adam", 1e-4, 512), ("Adam", 1e-3, 512))
# Looks at the test score within the seconds of AdapterLearner.
_LOOKS = 10


class Pairs(NamedTuple):
    """Rows that belong together, or have scores."""

    queries: np.ndarray
    database: np.ndarray
    scores: np.ndarray | None = None

    def judge(self, queries: np.ndarray, database: np.ndarray) -> float:
        """Return the score of mapped points."""
        Z, Z_database = normalize(queries), normalize(database)
        if self.scores is not None:
            return pair_report(self.scores, (Z * Z_database).sum(axis=1))["spearman"]
        k = min(_K, len(Z))
        return relevance_report(Z, eye_array(len(Z)), Z_database, k=k)["mrr_at_k"].mean


@dataclass(frozen=True)
class Task:
    """Pairs to train on and to test, and the side to map."""

    name: str
    side: str
    train: Pairs
    test: Pairs

    def mapped(self, L: np.ndarray) -> float:
        """Return the test score of a map."""
        queries, database, _ = self.test
        return self.test.judge(queries @ L.T, database @ L.T if self.side == "both" else database)


def sentences(side: str) -> Task:
    """Return judged pairs of sentences."""
    with np.load(data.folder() / "stsb_static.npz") as saved:
        train, test = (
            Pairs(*(saved[f"{part}_{name}"].astype(np.float32) for name in "aby"))
            for part in ("train", "test")
        )
    return Task(f"judged sentences, {side}", side, train, test)


def clicks(n: int) -> Task:
    """Return embeddings whose topics are smaller than what their texts do not share."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(48, _N_FEATURES))
    topics = rng.normal(size=(n + _N_TEST, 24))

    def embeddings() -> np.ndarray:
        own = topics + 0.9 * rng.normal(size=topics.shape)
        others = np.hstack([own, 2 * rng.normal(size=topics.shape)])
        found = others @ directions + 3 * rng.normal(size=(len(topics), _N_FEATURES))
        return np.asarray(found, np.float32)

    queries, database = embeddings(), embeddings()
    return Task(
        f"made clicks, {n:,} of {_N_FEATURES} features", "both",
        Pairs(queries[:n], database[:n]), Pairs(queries[n:], database[n:]),
    )  # fmt: skip


def encoders(n: int) -> Task:
    """Return made texts under two encoders."""
    rng = np.random.default_rng(1)
    texts = rng.normal(size=(n + _N_TEST, 200)) / np.arange(1, 201) ** 0.5

    def encoder(width: int) -> np.ndarray:
        found = np.tanh(texts @ rng.normal(size=(200, width)) / 2)
        return (found + 1.5 * rng.normal(size=found.shape)).astype(np.float32)

    new, old = encoder(_N_FEATURES), encoder(_N_FEATURES // 2)
    return Task(
        f"another encoder, {n:,} texts", "query", Pairs(new[:n], old[:n]), Pairs(new[n:], old[n:])
    )


TASKS = {
    "both": lambda n: sentences("both"),
    "query": lambda n: sentences("query"),
    "clicks": clicks,
    "encoder": lambda n: encoders(n // 10),
}


def torch_maps(
    task: Task, optimizer: str, rate: float, batch: int, every: float
) -> Iterator[tuple[float, np.ndarray]]:
    """Yield the seconds so far and the map, each time that some seconds have passed."""
    import torch
    from torch.nn.functional import cross_entropy
    from torch.nn.functional import normalize as unit

    torch.set_num_threads(1)
    torch.manual_seed(0)
    Q, D = (torch.from_numpy(np.ascontiguousarray(each)) for each in task.train[:2])
    y = None if task.train.scores is None else torch.from_numpy(task.train.scores)
    adapter = torch.nn.Linear(Q.shape[1], D.shape[1], bias=False)
    if Q.shape[1] == D.shape[1]:
        torch.nn.init.eye_(adapter.weight)
    steps = getattr(torch.optim, optimizer)(adapter.parameters(), lr=rate)
    seconds, looked, begin = 0.0, 0.0, time.process_time()
    while True:
        for rows in torch.randperm(len(Q)).split(batch):
            a = unit(adapter(Q[rows]))
            b = unit(adapter(D[rows]) if task.side == "both" else D[rows])
            if y is None:
                loss = cross_entropy(a @ b.T / _TEMPERATURE, torch.arange(len(rows)))
            else:
                s = _SCALE * (a * b).sum(1)
                greater = y[rows][:, None] > y[rows]
                terms = (s - s[:, None])[greater]
                loss = torch.logsumexp(torch.cat([torch.zeros(1), terms]), 0)
            steps.zero_grad()
            loss.backward()
            steps.step()
            spent = time.process_time() - begin
            if seconds + spent - looked >= every:
                seconds += spent
                looked = seconds
                yield seconds, adapter.weight.detach().numpy().copy()
                begin = time.process_time()


def course(task: Task, peer: tuple[str, float, int], ours: float, limit: float) -> Any:
    """Return seconds and test scores of torch."""
    found = []
    for seconds, L in torch_maps(task, *peer, ours / _LOOKS):
        found.append((seconds, task.mapped(L)))
        if seconds >= limit * ours:
            return np.array(found).T


def run(task: Task, limit: float) -> None:
    """Print the rows of a task."""
    queries, database, y = task.train
    print(f"| {task.name}: as given | | {_given(task)} | | |")
    begin = time.process_time()
    learner = AdapterLearner(task.side, random_state=0, n_jobs=1).fit(queries, y, database)
    ours = time.process_time() - begin
    score = task.mapped(learner.parameters_[0])
    print(f"| {task.name}: `AdapterLearner` | {ours:.1f} | {score:.4f} | | |", flush=True)
    for peer in PEERS:
        name = "torch, {} at {:g}, batches of {}".format(*peer)
        try:
            seconds, scores = course(task, peer, ours, limit)
        except ImportError:
            print("\ntorch is not installed: pip install torch", flush=True)
            return
        equal = scores[max(np.searchsorted(seconds, ours, side="right") - 1, 0)]
        reached = np.flatnonzero(scores >= score)
        when = f"{seconds[reached[0]]:.1f}" if len(reached) else f"not in {seconds[-1]:.0f}"
        print(
            f"| {task.name}: {name} | {seconds[scores.argmax()]:.1f} | {scores.max():.4f} | "
            f"{equal:.4f} | {when} |",
            flush=True,
        )


def _given(task: Task) -> str:
    queries, database = task.test[:2]
    if queries.shape[1] != database.shape[1]:
        return ""
    return f"{task.test.judge(queries, database):.4f}"


def main(argv: list[str] | None = None) -> None:
    """Run the benchmark, and print its table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.adapters",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", action="append", choices=list(TASKS), metavar="TASK")
    parser.add_argument("--pairs", type=int, default=100_000, metavar="N")
    parser.add_argument("--limit", type=float, default=10.0, metavar="FACTOR")
    given = parser.parse_args(argv)
    print("| | seconds | score | score after equal time | seconds to equal score |")
    print("|---|---:|---:|---:|---:|")
    for name in given.only or list(TASKS):
        run(TASKS[name](given.pairs), given.limit)


if __name__ == "__main__":
    main()
