"""
kNN classification
==================

Test error before and after learning a metric, on four data sets, each split in half three times.
Learning helps most if some columns carry no information. It does not help on digits, whose
pixels are similar features.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import StratifiedShuffleSplit, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from metricfast import LFDA, NCA


def load_noisy_wine(return_X_y):
    """Wine, and 30 columns of noise."""
    X, y = load_wine(return_X_y=return_X_y)
    return np.c_[X, np.random.default_rng(0).normal(size=(len(X), 30))], y


DATA = {
    "wine": (load_wine, StandardScaler()),
    "wine and noise": (load_noisy_wine, StandardScaler()),
    "breast cancer": (load_breast_cancer, StandardScaler()),
    "digits": (load_digits, MaxAbsScaler()),
}
LEARNERS = {"Euclidean": "passthrough", "NCA": NCA(tol=1e-3, random_state=0), "LFDA": LFDA()}
halves = StratifiedShuffleSplit(3, train_size=0.5, test_size=0.5, random_state=0)

# Picture: Bars of the 3-NN test error on wine, wine and noise, breast cancer and digits, for
# Euclidean distance, NCA and LFDA; dots on the bars are the three splits.
_, axes = plt.subplots(figsize=(7, 4))
print(f"{'3-NN test error':<16}" + "".join(f"{name:>10}" for name in LEARNERS))
for place, (name, (load, scaler)) in enumerate(DATA.items()):
    X, y = load(return_X_y=True)
    line = f"{name:<16}"
    for shift, learner in enumerate(LEARNERS.values()):
        model = make_pipeline(scaler, learner, KNeighborsClassifier(3))
        errors = 1 - cross_val_score(model, X, y, cv=halves)
        line += f"{np.mean(errors):>10.3f}"
        at = place + 0.27 * (shift - 1)
        axes.bar(at, np.mean(errors), 0.25, color=f"C{shift}")
        axes.plot([at] * len(errors), errors, ".", color="black")
    print(line)
axes.set_xticks(range(len(DATA)), DATA)
axes.set(ylabel="3-NN test error")
axes.legend(axes.containers[: len(LEARNERS)], LEARNERS)
plt.show()
