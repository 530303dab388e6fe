"""
Head pose: find heads that are turned alike in changing light
=============================================================

Find heads in the same pose, in any light.

698 rendered heads of 32 x 32 pixels are turned (pan, tilt) and lit from changing directions.
Similar pixels mean similar light as often as a similar pose. The log-ratio loss learns a linear map
under which distances are proportional to differences of pose: continuous labels, no classes.
Queries and gallery are not among the training points.

The program renders the heads: eggs with eyes, a nose and a mouth. If the folder METRICFAST_DATA has
faces.npz, it takes the heads of the Isomap paper, X (698, 1024) and Y (698, 3: light, pan, tilt).
"""

import os
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from scipy.spatial.transform import Rotation

import metricfast
from metricfast.embeddings import Linear
from metricfast.losses import LogRatio
from metricfast.metrics import retrieval_report
from metricfast.samplers import DenseTriplet

SIZE = 32
# Position on the unit sphere of the head, width and brightness of eyes, nose, mouth and hair.
FEATURES = [
    ((-0.4, 0.3, 0.87), 0.18, -0.7),
    ((0.4, 0.3, 0.87), 0.18, -0.7),
    ((0, -0.05, 1), 0.15, 0.5),
    ((0, -0.5, 0.87), 0.2, -0.5),
    ((0, 0.9, -0.45), 0.7, -0.5),
]


def render(n, rng):
    """Draw n heads; returns their pixels, (pan, tilt) and where the light is."""
    pose, light = rng.uniform([-1.2, -0.6], [1.2, 0.6], (n, 2)), rng.uniform(-1, 1, (n, 1))
    # The point of the sphere at each pixel, and its position on the head.
    x, y = np.meshgrid(np.linspace(-1, 1, SIZE), np.linspace(1, -1, SIZE), indexing="ij")
    inside = x**2 + y**2 < 1
    surface = np.stack([x, y, np.sqrt(np.where(inside, 1 - x**2 - y**2, 0))], axis=-1)
    on_head = surface @ Rotation.from_euler("YX", pose).as_matrix()[:, None]
    colour = np.full((n, SIZE, SIZE), 0.8)
    for place, width, shade in FEATURES:
        away = np.sum((on_head - place) ** 2, axis=-1)
        colour += shade * np.exp(-away / (2 * width**2))
    towards = np.stack([light[:, 0], np.full(n, 0.3), np.ones(n)])
    lit = np.moveaxis((surface @ towards).clip(0), -1, 0)
    return (lit * colour * inside).reshape(n, -1), pose, light


file = Path(os.environ.get("METRICFAST_DATA", "")) / "faces.npz"
if file.exists():
    with np.load(file) as faces:
        X, pose, light = faces["X"], faces["Y"][:, 1:], faces["Y"][:, :1]
else:
    X, pose, light = render(698, np.random.default_rng(0))
order = np.random.default_rng(0).permutation(len(X))
train, query, gallery = np.split(order, [500, 560])

learner = metricfast.EmbeddingLearner(
    LogRatio(),
    Linear(16, init="pca"),
    DenseTriplet(n_neighbors=5, batch_size=150, n_anchors=10),
    random_state=0,
    solver=metricfast.solvers.Adam(learning_rate=0.01, schedule="cosine", max_epochs=60),
).fit(X[train], pose[train])

embedded = {"pixels": X, "learned": learner.transform(X)}

# Picture: Six heads, each with its five nearest by pixels, which have similar light and other
# poses, and its five nearest by the learned map, which have similar poses.
N_QUERIES, N_NEIGHBORS = 6, 5
widths = [1, 0.3, *[1] * N_NEIGHBORS, 0.3, *[1] * N_NEIGHBORS]
figure = plt.figure(figsize=(sum(widths), 1.25 * N_QUERIES), layout="constrained")
panels = figure.subplots(N_QUERIES, len(widths), width_ratios=widths)
for panel in panels.flat:
    panel.axis("off")
for line, shown in zip(panels, query, strict=False):
    line[0].imshow(X[shown].reshape(32, 32).T, cmap="gray")
    for start, Z in zip((2, N_NEIGHBORS + 3), embedded.values(), strict=True):
        found = metricfast.kneighbors(Z[[shown]], Z[gallery], N_NEIGHBORS)[1][0]
        for panel, neighbor in zip(line[start:], gallery[found], strict=False):
            panel.imshow(X[neighbor].reshape(32, 32).T, cmap="gray")
            away = np.linalg.norm(pose[neighbor] - pose[shown])
            panel.set_title(f"{away:.2f}", fontsize=9, color="C2" if away < 0.5 else "C3")
panels[0, 0].set_title("query", fontsize=9)
plt.show()

# %%
# Above: some queries, their neighbours by pixels on the left and by the learned map on the right.
# The numbers are differences of pose in radians, green below one half. Below: all queries.

for name, Z in embedded.items():
    print(f"{name}: order of the gallery by pose")
    print(retrieval_report(Z[query], pose[query], Z[gallery], pose[gallery], k=5))
    same_light = retrieval_report(
        Z[query], light[query], Z[gallery], light[gallery], metrics="spearman"
    )["spearman"]
    print(f"rank correlation with the light: {same_light.mean:.3f}\n")
