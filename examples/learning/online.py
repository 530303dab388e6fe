"""
Online: points arrive in parts
==============================

`partial_fit` continues the training. The learner sees each part once. The error is measured on
points that are in no part.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from metricfast import LMNN, NCA, NCMML, kneighbors

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, test_size=0.5, random_state=0, stratify=y
)
parts = np.array_split(np.random.default_rng(0).permutation(len(X_train)), 8)


def nearest_is_wrong(learner):
    """Share of test points whose nearest training point is of another class."""
    nearest = kneighbors(X_test, X_train, n_neighbors=1, L=learner.components_)[1][:, 0]
    return np.mean(y_train[nearest] != y_test)


learners = {
    "NCA": NCA(n_components=8, solver="adam", random_state=0),
    "LMNN": LMNN(n_components=8, solver="adam", random_state=0),
    "NCMML": NCMML(n_components=8, solver="adam", random_state=0),
}
errors = {name: [] for name in learners}
for part in parts:
    for name, learner in learners.items():
        learner.partial_fit(X_train[part], y_train[part], classes=np.arange(10))
        errors[name].append(nearest_is_wrong(learner))
for name, found in errors.items():
    print(f"{name:<6} error after each part: " + " ".join(f"{error:.3f}" for error in found))

# Picture: Nearest-neighbour error after each of eight parts of the points, with one line each for
# NCA, LMNN and NCMML.
_, axes = plt.subplots(figsize=(6, 4))
for name, found in errors.items():
    axes.plot(range(1, len(parts) + 1), found, marker="o", label=name)
axes.set(xlabel="parts seen", ylabel="1-NN test error")
axes.legend()
plt.show()
