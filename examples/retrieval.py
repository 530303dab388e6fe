"""
Retrieval
=========

Search for pictures of the same digit, and count the right ones among the first ten results. The
metric is learned from pictures of 0 to 4, and used to search among 5 to 9. The light differs from
picture to picture: it is brighter from the left or right, from above or below, or everywhere.

The learned metric ignores light, for digits that it has never seen too. Under one light there is
nothing to ignore. There NCA helps the search for known digits, and both learners make the search
for new digits worse.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import metricfast
from metricfast.metrics import retrieval_report
from metricfast.plotting import RetrievalDisplay

X, y = load_digits(return_X_y=True)
X = X / 16
rows, columns = np.mgrid[-1:1:8j, -1:1:8j].reshape(2, 64)
light = np.random.default_rng(0).normal(size=(len(X), 3)) @ [np.ones(64), rows, columns]
X_lit = X + 0.5 * light

halves = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
tasks = {
    "new digits, changing light": (X_lit[y < 5], X_lit[y >= 5], y[y < 5], y[y >= 5]),
    "known digits, one light": halves,
    "new digits, one light": (X[y < 5], X[y >= 5], y[y < 5], y[y >= 5]),
}
learners = {
    "RCA": metricfast.RCA_Supervised(random_state=0),
    "NCA": metricfast.NCA(tol=1e-2, random_state=0),
}


def precision_at_10(points, labels, L=None):
    """Search every point among the others and count results of its class."""
    _, results = metricfast.kneighbors(points, n_neighbors=10, L=L)
    return (labels[results] == labels[:, None]).mean()


# Picture: Recall by the number of results, in three panels, for Euclidean distance, RCA and NCA.
# Under changing light both learners are far above the Euclidean distance. Under one light all
# lines are near 1.
_, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
for panel, (task, (X_train, X_test, y_train, y_test)) in zip(axes, tasks.items(), strict=True):
    maps = {"Euclidean": None}
    for name, learner in learners.items():
        maps[name] = learner.fit(X_train, y_train).components_
    print(f"precision of the first 10, {task}")
    for name, L in maps.items():
        print(f"  {name:<9}  {precision_at_10(X_test, y_test, L):.3f}")
        report = retrieval_report(X_test, y_test, metrics="recall_at_k", k=(1, 2, 4, 8, 16), L=L)
        RetrievalDisplay.from_report(report, name=name, baselines=name == "NCA", ax=panel)
    panel.set(title=task, ylim=(0.7, 1.002))
plt.show()
