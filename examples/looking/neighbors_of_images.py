"""
Neighbours of images
====================

The nearest training images of a digit, under the Euclidean and under the learned metric. The
picture shows the held-out digits whose neighbours have improved most.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits

import metricfast
from metricfast.plotting import NeighborsDisplay

digits = load_digits()
X, y, images = digits.data / 16, digits.target, digits.images
train, test = np.arange(300), np.arange(300, len(X))  # a small training set
lmnn = metricfast.LMNN(n_neighbors=5, random_state=0).fit(X[train], y[train])


def search(L):
    """The five nearest training points of each held-out one."""
    return metricfast.kneighbors(X[test], X[train], n_neighbors=5, L=L)


found = {"as given": search(None), "LMNN": search(lmnn.components_)}
right = {
    name: (y[train][rows] == y[test][:, None]).sum(axis=1) for name, (_, rows) in found.items()
}
for name, hits in right.items():
    print(f"neighbours of the same digit, {name:<9} {hits.mean() / 5:.3f}")
queries = np.argsort(right["as given"] - right["LMNN"], kind="stable")[:4]

# %%
# Neighbours with a green frame have the class of the query.

# Picture: Four digits and the five nearest training images of each. Left, by Euclidean distance:
# many are other digits. Right, by LMNN: most are the same digit.
_, axes = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
for panel, (name, (distances, rows)) in zip(axes, found.items(), strict=True):
    NeighborsDisplay.from_neighbors(
        distances[queries],
        rows[queries],
        images=images[train],
        y=y[train],
        query_images=images[test][queries],
        query_y=y[test][queries],
        ax=panel,
    )
    panel.set_title(name)
plt.show()
