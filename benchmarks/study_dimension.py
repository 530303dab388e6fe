"""Study: losses of continuous labels over embedding dimensions, sampling and normalisation.

    python -m benchmarks.study_dimension [--data NAME]... [--quick] [--seeds N] [--tables]

Open questions in the literature: is the log-ratio loss better without dense mining? What does the
logarithm contribute? How do the dimension and L2 normalisation change results?

Every method has the same perceptron, optimiser, number of steps, and number of configurations
(learning rates, or learning rates times margins). For each dimension, it chooses the configuration
by nDCG on a validation part of the first seed's training points. It is then trained once per seed
on another random split, and searches unseen queries in an unseen gallery. For all methods, test
points of other seeds may include points that chose the configuration. To explain the effect of the
dimension, each method also searches its training points, and embeddings are reduced to fewer
dimensions by PCA.

A batch holds 10 anchors and 140 other points: drawn uniformly, or (dense) starting with the 5
nearest points of each anchor in label space. Labels and points are scaled to unit variance, points
of faces after PCA to 100 dimensions. Larger sets have 2000 random training points. The data are in
the folder METRICFAST_DATA; benchmarks/DATA.md describes how to create it.

Results are stored after every fit in `results/dimension-NAME.json`, and a repeated run continues
from there; --tables only prints and plots existing results.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from benchmarks import data
from benchmarks.study_losses import BinaryTriplet
from benchmarks.study_tables import report
from metricfast import EmbeddingLearner
from metricfast.embeddings import MLP
from metricfast.losses import BoundedRatio, LogRatio, Ratio, Triplet
from metricfast.metrics import retrieval_report
from metricfast.samplers import DenseTriplet
from metricfast.solvers import Adam

RESULTS = Path(__file__).resolve().parent / "results"
SETS = ["faces", "sml", "kin40k", "naval"]
DIMENSIONS = (2, 4, 8, 16, 32, 64, 128)
HIDDEN, BATCH, ANCHORS, NEIGHBORS = 128, 150, 10, 5
K = 50
STEPS = 2000
RATIOS: dict[str, Any] = {"log-ratio": LogRatio, "ratio": Ratio, "bounded ratio": BoundedRatio}
METRICS = ("ndcg_at_k", "mean_label_distance_at_k", "spearman")

Config = dict[str, float]
Split = dict[str, np.ndarray]


@dataclass(frozen=True)
class Method:
    """A loss, its sampling of batches, and whether the embedding is normalised."""

    loss: str
    dense: bool
    normalize: bool

    @property
    def name(self) -> str:
        """The name in tables and files."""
        sampling = "dense" if self.dense else "uniform"
        return f"{self.loss}, {sampling}, {'L2' if self.normalize else 'raw'}"

    def grid(self) -> list[Config]:
        """Six configurations, for every loss."""
        if self.loss in RATIOS:
            return [{"rate": rate} for rate in (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)]
        return [
            {"rate": rate, "margin": margin}
            for rate, margin in product((1e-3, 3e-3, 1e-2), (0.05, 0.2))
        ]

    def make_loss(self, config: Config, y: np.ndarray) -> Any:
        """Return the loss for training labels y."""
        if self.loss in RATIOS:
            return RATIOS[self.loss]()
        if self.loss == "triplet":
            return Triplet(labels="dense", margin=config["margin"])
        return BinaryTriplet(y, margin=config["margin"])


METHODS = [
    *(Method(*each) for each in product(("log-ratio", "triplet"), (True, False), (False, True))),
    *(
        Method(*each)
        for each in product(("ratio", "bounded ratio", "binary triplet"), (True,), (False, True))
    ),
]


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return points and labels."""
    with np.load(data.folder() / f"{name}.npz") as saved:
        return saved["X"].astype(np.float64), saved["Y"].astype(np.float64)


def _scaled(values: np.ndarray, train: np.ndarray) -> np.ndarray:
    scale = values[train].std(axis=0)
    return (values - values[train].mean(axis=0)) / np.where(scale > 1e-9, scale, 1)


def split(x: np.ndarray, y: np.ndarray, seed: int) -> Split:
    """Draw training, query and gallery points; 500, 60 and 138 points for small sets."""
    order = np.random.default_rng(seed).permutation(len(x))
    sizes = (500, 60, 138) if len(x) < 1000 else (2000, 200, 1000)
    train, query, gallery = np.split(order[: sum(sizes)], np.cumsum(sizes)[:-1])
    if x.shape[1] > 100:
        x = PCA(100, random_state=0).fit(x[train]).transform(x)
        x = (x - x[train].mean(axis=0)) / x[train].std()
    else:
        x = _scaled(x, train)
    x, y = x.astype(np.float32), _scaled(y, train)
    parts = {"train": train, "query": query, "gallery": gallery}
    found = {f"X_{part}": x[rows] for part, rows in parts.items()}
    return found | {f"y_{part}": y[rows] for part, rows in parts.items()}


def validation(given: Split) -> Split:
    """Split the training points again: a tenth become queries, two tenths the gallery."""
    n = len(given["X_train"])
    cut = np.split(np.arange(n), [n * 7 // 10, n * 8 // 10])
    return {
        f"{name}_{part}": given[f"{name}_train"][rows]
        for part, rows in zip(("train", "query", "gallery"), cut, strict=True)
        for name in ("X", "y")
    }


def scores(given: Split, transform: Any = lambda points: points) -> dict[str, float]:
    """Search the queries in the gallery."""
    found = retrieval_report(
        transform(given["X_query"]), given["y_query"],
        transform(given["X_gallery"]), given["y_gallery"],
        metrics=METRICS, k=K,
    )  # fmt: skip
    result = {name: score.mean for name, score in found.items()}
    return result | {f"chance {name}": score.chance for name, score in found.items()}


def explain(given: Split, transform: Any, dimension: int) -> dict[str, float]:
    """Return statistics that explain the effect of the dimension.

    The effective dimension of a gallery of variances v along its axes is sum(v)^2 / sum(v^2).
    """
    seen = validation(given)
    found = {"train": scores(seen, transform)[METRICS[0]]}
    variances = np.linalg.eigvalsh(np.cov(transform(given["X_gallery"]).T.astype(np.float64)))
    found["effective dimension"] = variances.sum() ** 2 / (variances**2).sum()
    for fewer in (p for p in DIMENSIONS if p < dimension):
        pca = PCA(fewer, random_state=0).fit(transform(given["X_train"]))
        cut = scores(given, lambda points, pca=pca: pca.transform(transform(points)))
        found[f"cut to {fewer}"] = cut[METRICS[0]]
    return {name: float(value) for name, value in found.items()}


def make_learner(
    method: Method, config: Config, y: np.ndarray, dimension: int, seed: int, steps: int
) -> EmbeddingLearner:
    """Return the learner of an embedding for training labels y."""
    sampler = DenseTriplet(
        n_neighbors=NEIGHBORS if method.dense else 0, batch_size=BATCH, n_anchors=ANCHORS
    )
    return EmbeddingLearner(
        method.make_loss(config, y),
        MLP((HIDDEN,), dimension, normalize=method.normalize),
        sampler,
        judge=None,
        random_state=seed,
        n_jobs=1,
        solver=Adam(
            learning_rate=config["rate"],
            schedule="cosine",
            max_epochs=max(1, round(steps * ANCHORS / len(y))),
        ),
    )


def train(
    method: Method, config: Config, given: Split, dimension: int, seed: int, steps: int
) -> dict[str, float]:
    """Train one embedding and score it; after divergence, score the last finite parameters."""
    y = given["y_train"]
    learner = make_learner(method, config, y, dimension, seed, steps)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ConvergenceWarning)
        learner.fit(given["X_train"], y)
        found = scores(given, learner.transform) | explain(given, learner.transform, dimension)
    diverged = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    return found | {"diverged": float(diverged)}


def study(
    name: str, dimensions: tuple[int, ...], seeds: int, steps: int, file: Path
) -> Iterator[str]:
    """Run the missing fits, and report progress."""
    kept: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    points = load(name)
    splits = [split(*points, seed) for seed in range(seeds)]

    def keep() -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(kept, indent=1) + "\n")
        partial.replace(file)

    untrained = kept.setdefault("untrained", {})
    for seed, given in enumerate(splits):
        untrained.setdefault(str(seed), scores(given))
    for dimension, method in product(dimensions, METHODS):
        entry = kept.setdefault(f"{method.name}/{dimension}", {"tuning": [], "seeds": {}})
        grid, tuning, results = method.grid(), entry["tuning"], entry["seeds"]
        for config in grid[len(tuning) :]:
            tuning.append(train(method, config, validation(splits[0]), dimension, 0, steps))
            keep()
        best = int(np.argmax([found["ndcg_at_k"] for found in tuning]))
        entry["config"] = grid[best]
        for seed, given in enumerate(splits):
            if str(seed) not in results:
                results[str(seed)] = train(method, grid[best], given, dimension, seed, steps)
                keep()
        mean = np.mean([results[str(seed)]["ndcg_at_k"] for seed in range(seeds)])
        yield f"{name}, {dimension} dimensions, {method.name}: nDCG@{K} {mean:.4f} {grid[best]}"
    keep()


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", action="append", choices=SETS)
    parser.add_argument("--quick", action="store_true", help="3 dimensions, 2 seeds, fewer steps")
    parser.add_argument("--seeds", type=int, metavar="N", help="5, 2 in quick runs")
    parser.add_argument("--steps", type=int, metavar="N", help=f"{STEPS}, 200 in quick runs")
    parser.add_argument("--tables", action="store_true", help="print and plot what there is")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FOLDER")
    options = parser.parse_args()
    dimensions = (2, 16, 128) if options.quick else DIMENSIONS
    seeds = options.seeds or (2 if options.quick else 5)
    steps = options.steps or (200 if options.quick else STEPS)
    prefix = "dimension-quick" if options.quick else "dimension"
    files = {}
    for name in options.data or SETS:
        files[name] = options.output / f"{prefix}-{name}.json"
        if not options.tables:
            for line in study(name, dimensions, seeds, steps, files[name]):
                print(line, flush=True)
    found = {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}
    print(report(found, dimensions, options.output / f"{prefix}.png"))


if __name__ == "__main__":
    main()
