"""
Retrieval
=========

How many of the first ten results are of the query's class. The metric is learned on the digits 0 to
4 and used to search among 5 to 9, which it has never seen, and on half of all digits and used to
search the other half, which is easier.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import metricfast
from metricfast.metrics import retrieval_report
from metricfast.plotting import RetrievalDisplay

X, y = load_digits(return_X_y=True)
X = X / 16
halves = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
new_classes = (X[y < 5], X[y >= 5], y[y < 5], y[y >= 5])
k = (1, 2, 4, 8, 16)


def precision_at_10(points, labels, L=None):
    """Search every point among the others and count results of its class."""
    _, results = metricfast.kneighbors(points, n_neighbors=10, L=L)
    return (labels[results] == labels[:, None]).mean()


# Picture: Recall by the number of results, for classes that were trained on and for new ones, with
# a line each for Euclidean distance, NCA and LMNN, and for chance.
_, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for panel, (task, split) in zip(
    axes, {"the same classes": halves, "new classes": new_classes}.items(), strict=True
):
    X_train, X_test, y_train, y_test = split
    maps = {"Euclidean": None}
    for learner in (metricfast.NCA(tol=1e-3, random_state=0), metricfast.LMNN(random_state=0)):
        maps[type(learner).__name__] = learner.fit(X_train, y_train).components_
    print(f"precision of the first 10, {task}")
    for name, L in maps.items():
        print(f"  {name:<9}  {precision_at_10(X_test, y_test, L):.3f}")
        report = retrieval_report(X_test, y_test, metrics="recall_at_k", k=k, L=L)
        RetrievalDisplay.from_report(report, name=name, baselines=name == "LMNN", ax=panel)
    panel.set(title=task, ylim=(0.9, 1.002))
plt.show()
