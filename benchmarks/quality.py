"""Cases: 3-NN test error on real data with official splits."""

from __future__ import annotations

__all__ = ["quality"]

from functools import partial

from benchmarks import data
from benchmarks.case import Case, Entry
from benchmarks.learners import contestants, scores
from benchmarks.targets import ErrorAtMost

COMPONENTS = {"letter": None, "usps": None, "isolet": 172}
POINTS = 0.3


def quality(name: str, learner: str) -> Case:
    """Return the case of a learner on a data set, from the identity, under one protocol for all."""
    components = COMPONENTS[name]
    euclidean = Entry("Euclidean", "numpy", "baseline.euclidean", threads=(1,), rounds=1)
    entries = [*contestants(learner, peer="full", metric_learn="full"), euclidean]
    entries[0].rounds = 1
    peers = tuple(entry.label for entry in entries[1:-1])
    return Case(
        f"quality-{name}-{learner.lower()}",
        f"{learner} on {name}" + (f", PCA to {components}" if components else ""),
        partial(data.official, name, components),
        entries,
        targets=[ErrorAtMost(peers, POINTS), ErrorAtMost(("Euclidean",))],
        score=partial(scores, learner),
        warm=False,
        when="normal",
    )
