"""
Continuous labels: the hour of the day
======================================

Labels may be numbers with any distance. Here 23:30 and 0:30 are an hour apart: the label distance
is the angle, with a period of 24. The log-ratio loss makes distances proportional to it, and the
day becomes a circle. MLKR takes hours for plain numbers. It cannot know that 0:00 and 24:00 are the
same.
"""

import numpy as np
from matplotlib import pyplot as plt

import metricfast
from metricfast.metrics import retrieval_report

rng = np.random.default_rng(0)
hours = rng.uniform(0, 24, 900)
angles = hours * np.pi / 12
# Light and warmth depend on the hour in different ways. The six other sensors do not.
signals = np.c_[np.cos(angles), np.sin(angles - 0.5), 0.5 * np.sin(2 * angles)]
X = np.c_[signals + 0.15 * rng.normal(size=(900, 3)), 1.5 * rng.normal(size=(900, 6))]
train, test = slice(0, 600), slice(600, 900)

log_ratio = metricfast.LogRatioLearner(
    2, label_distance=("angular", 24), max_epochs=40, random_state=0
).fit(X[train], hours[train])
mlkr = metricfast.MLKR(n_components=2, tol=1e-3, random_state=0).fit(X[train], hours[train])

# Picture: Held-out points in the plane, coloured by hour. Left, the first two principal components:
# a cloud. Middle, MLKR. Right, the log-ratio loss: a closed ring of hours.
_, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
principal = metricfast.Covariance(n_components=2).fit(X[train]).transform(X[test])
embedded = {
    "principal components": principal,
    "MLKR": mlkr.transform(X[test]),
    "log-ratio": log_ratio.transform(X[test]),
}
for panel, (name, Z) in zip(axes, embedded.items(), strict=True):
    report = retrieval_report(Z, hours[test], k=5, label_distance=("angular", 24))
    away = report["mean_label_distance_at_k"].mean
    print(f"hours to the 5 nearest, {name:<20} {away:.2f}")
    shown = panel.scatter(*Z.T, c=hours[test], cmap="twilight", s=15)
    panel.set(title=f"{name}: {away:.2f} hours", aspect="equal")
plt.colorbar(shown, ax=axes, label="hour")
plt.show()
