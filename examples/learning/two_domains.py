"""
Two domains: one map for queries, one for the database
======================================================

The database holds upright digits, and queries come from a camera that is turned by a quarter. One
map of both cannot undo that. `AsymmetricSimilarity` learns two: U for queries, V for the database.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from metricfast import AsymmetricSimilarity, kneighbors
from metricfast.solvers import Adam

digits = load_digits()
images, y = digits.images / 16, digits.target
turned = np.rot90(images, axes=(1, 2)).reshape(len(y), 64)
upright = images.reshape(len(y), 64)
database, rest = train_test_split(np.arange(len(y)), train_size=900, random_state=0, stratify=y)
train, test = np.split(rest, [600])

nearest = kneighbors(turned[test], upright[database], n_neighbors=3)[1]
right = np.mean(y[database][nearest] == y[test][:, None])
print(f"share of right neighbours, as given {right:.3f}")
found = {}
for name, tied in (("one map", True), ("two maps", False)):
    learner = AsymmetricSimilarity(
        16, tied=tied, C=100.0, random_state=0, solver=Adam(max_epochs=20)
    )
    learner.fit(turned[train], y[train], upright[database], y[database])
    found[name] = learner.kneighbors(turned[test], upright[database], n_neighbors=5)[1]
    right = np.mean(y[database][found[name][:, :3]] == y[test][:, None])
    print(f"share of right neighbours, {name:<8} {right:.3f}")

# %%
# Some queries and their nearest database points under two maps:

# Picture: Four digits that lie on their sides, and to the right of each its five nearest upright
# digits under two maps, which are the same digits.
_, panels = plt.subplots(4, 6, figsize=(7, 5), layout="constrained")
for panel in panels.flat:
    panel.axis("off")
for line, row in zip(panels, range(4), strict=True):
    line[0].imshow(turned[test[row]].reshape(8, 8), cmap="gray_r")
    for panel, neighbor in zip(line[1:], database[found["two maps"][row]], strict=True):
        panel.imshow(images[neighbor], cmap="gray_r")
        panel.set_title(y[neighbor], color="C2" if y[neighbor] == y[test[row]] else "C3")
panels[0, 0].set_title("query")
plt.show()
