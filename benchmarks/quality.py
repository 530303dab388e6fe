"""Cases: 3-NN test error on real data with official splits."""

from __future__ import annotations

__all__ = ["PROTOCOLS", "quality"]

from functools import partial

from benchmarks import data
from benchmarks.case import Case, Entry
from benchmarks.learners import contestants, scores
from benchmarks.targets import ErrorAtMost

# Number of principal components of each data set: from the published comparison (Kedem et al.
# 2012), and for usps chosen by held-out training data.
PROTOCOLS: dict[str, tuple[str, int | None]] = {
    "letter": ("letter", None),
    "usps": ("usps", None),
    "usps-pca64": ("usps", 64),
    "isolet": ("isolet", 172),
}
POINTS = 0.3


def quality(protocol: str, learner: str) -> Case:
    """Return the case of a learner on a data set, starting from the identity."""
    name, components = PROTOCOLS[protocol]
    euclidean = Entry("Euclidean", "numpy", "baseline.euclidean", threads=(1,), rounds=1)
    entries = [*contestants(learner, peer="full", metric_learn="full"), euclidean]
    entries[0].rounds = 1
    peers = tuple(entry.label for entry in entries[1:-1])
    return Case(
        f"quality-{protocol}-{learner.lower()}",
        f"{learner} on {name}" + (f", PCA to {components}" if components else ""),
        partial(data.official, name, components),
        entries,
        targets=[ErrorAtMost(peers, POINTS), ErrorAtMost(("Euclidean",))],
        score=partial(scores, learner),
        warm=False,
        when="normal",
    )
