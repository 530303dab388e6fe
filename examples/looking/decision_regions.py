"""
Decision regions of nearest neighbours
======================================

One direction separates the classes of these points. The noise in the other direction is ten times
as large, and it decides Euclidean neighbours. A learned metric stretches the direction that
matters, and the regions become bands.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.inspection import DecisionBoundaryDisplay

from metricfast import LMNN, KNeighborsClassifier

rng = np.random.default_rng(0)
y = rng.integers(0, 3, 450)
points = np.c_[y + 0.25 * rng.normal(size=450), 3 * rng.normal(size=450)]
angle = np.radians(30)
X = points @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
X_train, X_test, y_train, y_test = X[:150], X[150:], y[:150], y[150:]

models = {
    "Euclidean": KNeighborsClassifier(5).fit(X_train, y_train),
    "LMNN": KNeighborsClassifier(5, metric=LMNN(n_neighbors=5)).fit(X_train, y_train),
}
for name, model in models.items():
    print(f"5-NN test error, {name:<10} {1 - model.score(X_test, y_test):.3f}")

# %%
# The same points in the same plane under two distances:

# Picture: Classes predicted by 5 nearest neighbours. Left, by Euclidean distance: three
# ragged bands that bend at their ends. Right, by LMNN: three straight bands.
_, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
for panel, (name, model) in zip(axes, models.items(), strict=True):
    DecisionBoundaryDisplay.from_estimator(
        model, X_train, response_method="predict", alpha=0.4, ax=panel, multiclass_colors="viridis"
    )
    panel.scatter(*X_train.T, c=y_train, s=15, edgecolors="black", linewidths=0.4)
    panel.set(title=f"{name}: error {1 - model.score(X_test, y_test):.2f}", aspect="equal")
plt.show()
