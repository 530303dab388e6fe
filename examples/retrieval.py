"""Retrieval: how many of the first ten results are of the query's class.

The metric is learned on the digits 0 to 4 and used to search among 5 to 9, which it has never seen,
and on half of all digits and used to search the other half, which is easier.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import metricfast

X, y = load_digits(return_X_y=True)
X = X / 16


def precision_at_10(points, labels, L=None):
    """Search every point among the others and count results of its class."""
    _, results = metricfast.kneighbors(points, n_neighbors=10, L=L)
    return np.mean(labels[results] == labels[:, None])


halves = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
new_classes = (X[y < 5], X[y >= 5], y[y < 5], y[y >= 5])
for task, split in (("the same classes", halves), ("new classes", new_classes)):
    X_train, X_test, y_train, y_test = split
    print(f"precision of the first 10, {task}")
    print(f"  Euclidean  {precision_at_10(X_test, y_test):.3f}")
    for learner in (
        metricfast.NCA(tol=1e-3, random_state=0),
        metricfast.LMNN(random_state=0),
    ):
        L = learner.fit(X_train, y_train).components_
        print(f"  {type(learner).__name__:<9}  {precision_at_10(X_test, y_test, L):.3f}")
