"""
Kernels: maps that are not linear
=================================

One number should separate three rings around each other. No linear map to a line can do it. A
learner after a polynomial kernel sees products of features. The sum of two of them is the squared
radius.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.neighbors import KNeighborsClassifier

from metricfast import LMNN, KernelizedMetricLearner

rng = np.random.default_rng(0)
y = rng.integers(0, 3, 400)
radius, angle = y + 1 + 0.2 * rng.normal(size=400), rng.uniform(0, 2 * np.pi, 400)
X = np.c_[radius * np.cos(angle), radius * np.sin(angle)]
train, test = slice(0, 150), slice(150, None)
learners = {
    "LMNN to a line": LMNN(n_components=1),
    "LMNN after a kernel": KernelizedMetricLearner(
        LMNN(n_components=1), kernel="poly", random_state=0
    ),
}

# Picture: Left, points of three rings in the plane. Middle, a linear map to a line: the rings lie
# on top of each other. Right, after a kernel: three groups next to each other.
_, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
axes[0].scatter(*X[test].T, c=y[test], s=10)
axes[0].set(title="as given", aspect="equal")
for panel, (name, learner) in zip(axes[1:], learners.items(), strict=True):
    Z = learner.fit(X[train], y[train]).transform(X)
    knn = KNeighborsClassifier(3).fit(Z[train], y[train])
    error = 1 - knn.score(Z[test], y[test])
    print(f"3-NN error on a line, {name:<20} {error:.3f}")
    panel.scatter(Z[test, 0], rng.uniform(-1, 1, 250), c=y[test], s=10)
    panel.set(title=f"{name}: error {error:.2f}", yticks=[], xlabel="the one component")
plt.show()
