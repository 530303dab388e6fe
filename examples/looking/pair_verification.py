"""
Pair verification: the same or not?
===================================

Two images count as the same digit if they are nearer than a threshold. Metric and threshold are
learned from one half of the digits, and tested on pairs of the other half. LDML learns one
threshold for all pairs.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.metrics import RocCurveDisplay, roc_auc_score
from sklearn.model_selection import train_test_split

import metricfast
from metricfast import Constraints
from metricfast.plotting import PairScoreDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, test_size=0.5, random_state=0, stratify=y
)


def pairs_of(points, labels, n, seed):
    """Draw as many pairs of one class as of two, with 1 for the first and -1 for the others."""
    a, b, c, d = Constraints(labels).positive_negative_pairs(n, random_state=seed)
    return points[np.r_[np.c_[a, b], np.c_[c, d]]], np.repeat([1, -1], [len(a), len(c)])


calibration = pairs_of(X_train, y_train, 1000, 0)
pairs, same = pairs_of(X_test, y_test, 1000, 1)
learners = (metricfast.LDML(n_components=12, tol=1e-3), metricfast.LFDA(n_components=12))

scores = {"Euclidean": -np.linalg.norm(pairs[:, 0] - pairs[:, 1], axis=1)}
for learner in learners:
    learner.fit(X_train, y_train).calibrate_threshold(*calibration)
    scores[type(learner).__name__] = learner.pair_score(pairs)
    right = np.mean(learner.predict_pairs(pairs) == same)
    print(f"{type(learner).__name__:<10} right at its threshold: {right:.3f}")
for name, score in scores.items():
    print(f"{name:<10} ROC AUC {roc_auc_score(same, score):.3f}")

# %%
# Distances of held-out pairs with the threshold of training pairs, and the ROC curve:

# Picture: Histograms of LDML distances of similar and dissimilar pairs, with a vertical line at the
# threshold; the ROC curve on the right.
PairScoreDisplay.from_estimator(learners[0], pairs, same)
plt.show()

# %%
# ROC curves of all three distances:

# Picture: ROC curves of verification by Euclidean distance, LDML and LFDA.
_, axes = plt.subplots(figsize=(5, 5))
for name, score in scores.items():
    RocCurveDisplay.from_predictions(same, score, name=name, ax=axes)
plt.show()
