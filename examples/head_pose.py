"""Head-pose retrieval: find heads that are turned alike, whatever the light.

698 rendered heads of 32 x 32 pixels are turned (pan, tilt) and lit from changing directions. Pixels
that are alike show a like light as often as a like pose. The log-ratio loss learns a linear map
under which distances are proportional to differences of pose: continuous labels, no classes.
Queries and gallery were not trained on. The neighbours of some queries, before and after, are
drawn in head_pose.png.

The data, faces.npz with X (698, 1024) and Y (698, 3: light, pan, tilt), are looked for in the
folder METRICFAST_DATA, else in ../shared/data beside the repository.
"""

import os
import sys
from pathlib import Path

import numpy as np

import metricfast
from metricfast.embeddings import Linear
from metricfast.losses import LogRatio
from metricfast.metrics import retrieval_report
from metricfast.samplers import DenseTriplet

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
FILE = Path(os.environ.get("METRICFAST_DATA", BESIDE)) / "faces.npz"
if not FILE.exists():
    print(f"no {FILE}: set METRICFAST_DATA to the folder that holds faces.npz")
    sys.exit()

with np.load(FILE) as faces:
    X, pose, light = faces["X"], faces["Y"][:, 1:], faces["Y"][:, :1]
order = np.random.default_rng(0).permutation(len(X))
train, query, gallery = np.split(order, [500, 560])

learner = metricfast.EmbeddingLearner(
    LogRatio(),
    Linear(16, init="pca"),
    DenseTriplet(n_neighbors=5, batch_size=150, n_anchors=10),
    learning_rate=0.01,
    schedule="cosine",
    max_epochs=60,
    random_state=0,
).fit(X[train], pose[train])

embedded = {"pixels": X, "learned": learner.transform(X)}
for name, Z in embedded.items():
    print(f"{name}: order of the gallery by pose")
    print(retrieval_report(Z[query], pose[query], Z[gallery], pose[gallery], k=5))
    same_light = retrieval_report(
        Z[query], light[query], Z[gallery], light[gallery], metrics="spearman"
    )["spearman"]
    print(f"rank correlation with the light: {same_light.mean:.3f}\n")


def draw(path, n_queries=6, n_neighbors=5):
    """Draw a line for each query: its nearest by pixels on the left, by the learned map right."""
    from matplotlib.figure import Figure

    widths = [1, 0.3, *[1] * n_neighbors, 0.3, *[1] * n_neighbors]
    figure = Figure(figsize=(sum(widths), 1.25 * n_queries + 0.5), layout="constrained")
    panels = figure.subplots(n_queries, len(widths), width_ratios=widths)
    for panel in panels.flat:
        panel.axis("off")
    for line, shown in zip(panels, query, strict=False):
        line[0].imshow(X[shown].reshape(32, 32).T, cmap="gray")
        for start, Z in zip((2, n_neighbors + 3), embedded.values(), strict=True):
            found = metricfast.kneighbors(Z[[shown]], Z[gallery], n_neighbors)[1][0]
            for panel, neighbor in zip(line[start:], gallery[found], strict=False):
                panel.imshow(X[neighbor].reshape(32, 32).T, cmap="gray")
                away = np.linalg.norm(pose[neighbor] - pose[shown])
                panel.set_title(f"{away:.2f}", fontsize=9, color="C2" if away < 0.5 else "C3")
    panels[0, 0].set_title("query", fontsize=9)
    figure.suptitle("nearest by pixels (left) and by the learned map, with the difference of pose")
    figure.savefig(path, dpi=80)


draw("head_pose.png")
print("the neighbours of some queries are in head_pose.png")
