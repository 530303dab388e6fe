"""Draws plotting.png: the displays of metricfast.plotting, of wines and of digits.

python docs/img/plotting.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from metricfast import LFDA, NCA, Constraints, metrics
from metricfast.plotting import (
    EmbeddingDisplay,
    FeatureRelevanceDisplay,
    LossCurveDisplay,
    NeighborsDisplay,
    PairScoreDisplay,
    RetrievalDisplay,
)

K = (1, 2, 4, 8, 16)


def pairs_of(points: np.ndarray, names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draw as many pairs of one class as of two, with 1 for the first and -1 for the others."""
    labels = np.unique(names, return_inverse=True)[1]
    a, b, c, d = Constraints(labels).positive_negative_pairs(300, random_state=0)
    return points[np.r_[np.c_[a, b], np.c_[c, d]]], np.repeat([1, -1], [len(a), len(c)])


def main() -> None:
    """Draw the picture."""
    wine, digits = load_wine(as_frame=True), load_digits()
    X, X_test, y, y_test = train_test_split(
        wine.data, wine.target_names[wine.target], test_size=0.33, random_state=0
    )
    nca = make_pipeline(StandardScaler(), NCA(n_components=2, tol=1e-3)).fit(X, y)
    nca[-1].calibrate_threshold(*pairs_of(nca[0].transform(X), y))
    pairs, similar = pairs_of(nca[0].transform(X_test), y_test)
    lfda = LFDA(n_components=16).fit(digits.data[:900], digits.target[:900])
    trained = NCA(solver="adam", n_components=8, early_stopping=True, random_state=0)
    trained.fit(digits.data / 16, digits.target)

    figure, axes = plt.subplots(3, 2, figsize=(12.5, 12), layout="constrained")
    EmbeddingDisplay.from_estimator(nca, X_test, y_test, ax=axes[0, 0])
    FeatureRelevanceDisplay.from_estimator(nca, ax=axes[0, 1])
    PairScoreDisplay.from_estimator(nca[-1], pairs, similar, ax=axes[1, 0])
    rest = digits.data[900:], digits.images[900:], digits.target[900:]
    NeighborsDisplay.from_estimator(
        lfda, rest[0], [5, 70, 124, 129], images=rest[1], y=rest[2], ax=axes[1, 1]
    )
    RetrievalDisplay.from_estimator(nca, X_test, y_test, k=K, name="NCA", ax=axes[2, 0])
    raw = metrics.retrieval_report(X_test, y_test, metrics="recall_at_k", k=K)
    RetrievalDisplay.from_report(raw, name="Euclidean", baselines=False, ax=axes[2, 0])
    LossCurveDisplay.from_estimator(trained, ax=axes[2, 1])
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=80)


if __name__ == "__main__":
    main()
