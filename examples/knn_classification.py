"""kNN classification: test error before and after learning a metric, on three data sets.

Each data set is split in half three times. Learning does not always help: where Euclidean
distances serve well already, the table says so.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import StratifiedShuffleSplit, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from metricfast import LMNN, NCA

DATA = {
    "wine": (load_wine, StandardScaler()),
    "breast cancer": (load_breast_cancer, StandardScaler()),
    "digits": (load_digits, MaxAbsScaler()),
}
halves = StratifiedShuffleSplit(3, train_size=0.5, test_size=0.5, random_state=0)

print(f"{'3-NN test error':<16}{'Euclidean':>10}{'NCA':>10}{'LMNN':>10}")
for name, (load, scaler) in DATA.items():
    X, y = load(return_X_y=True)
    errors = []
    for learner in ("passthrough", NCA(tol=1e-3), LMNN()):
        model = make_pipeline(scaler, learner, KNeighborsClassifier(3))
        errors.append(1 - np.mean(cross_val_score(model, X, y, cv=halves)))
    print(f"{name:<16}" + "".join(f"{error:>10.3f}" for error in errors))
