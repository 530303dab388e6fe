"""
Anomaly detection
=================

A point that is far from its nearest known points is an anomaly. The metric is learned from the
digits 0 to 7. Among held-out points, 8 and 9 are the anomalies: the learner has seen none of them.
The score is the distance to the fifth nearest training point.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.metrics import RocCurveDisplay, roc_auc_score
from sklearn.model_selection import train_test_split

import metricfast

X, y = load_digits(return_X_y=True)
X = X / 16
known = y < 8
X_train, X_known, y_train, _ = train_test_split(
    X[known], y[known], test_size=0.4, random_state=0, stratify=y[known]
)
X_test = np.concatenate([X_known, X[~known]])
is_anomaly = np.repeat([0, 1], [len(X_known), np.sum(~known)])

# Picture: ROC curves of anomaly detection, one each for Euclidean distance, NCA and LMNN.
_, axes = plt.subplots(figsize=(5, 5))
nca = metricfast.NCA(tol=1e-3, random_state=0).fit(X_train, y_train)
lmnn = metricfast.LMNN(random_state=0).fit(X_train, y_train)
for name, L in (("Euclidean", None), ("NCA", nca.components_), ("LMNN", lmnn.components_)):
    distances, _ = metricfast.kneighbors(X_test, X_train, n_neighbors=5, L=L)
    print(f"ROC AUC, {name:<10} {roc_auc_score(is_anomaly, distances[:, -1]):.3f}")
    RocCurveDisplay.from_predictions(is_anomaly, distances[:, -1], name=name, ax=axes)
axes.set(title="digits 8 and 9 among 0 to 7")
plt.show()
