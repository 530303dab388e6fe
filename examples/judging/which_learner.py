"""
Which learner? Ask held-out points
==================================

Many learners, three data sets, the same folds. No learner is best everywhere, and some are worse
than none; most fit in a fraction of a second.
"""

import time

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import metricfast

LEARNERS = {
    "Euclidean": "passthrough",
    "LMNN": metricfast.LMNN(),
    "NCA": metricfast.NCA(tol=1e-2),
    "LFDA": metricfast.LFDA(),
    "DMLMJ": metricfast.DMLMJ(),
    "ANMM": metricfast.ANMM(),
    "GMML": metricfast.GMML_Supervised(),
    "RCA": metricfast.RCA_Supervised(n_chunks=40, random_state=0),
    "LSML": metricfast.LSML_Supervised(random_state=0),
    "gerrymandering": metricfast.NeighborhoodGerrymandering(
        judge=None, random_state=0, solver=metricfast.solvers.Adam(max_epochs=20)
    ),
}
DATA = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}
folds = StratifiedKFold(5, shuffle=True, random_state=0)

errors = np.empty((len(LEARNERS), len(DATA)))
for i, (name, learner) in enumerate(LEARNERS.items()):
    start = time.perf_counter()
    for j, load in enumerate(DATA.values()):
        model = make_pipeline(StandardScaler(), learner, KNeighborsClassifier(3))
        errors[i, j] = 1 - cross_val_score(model, *load(return_X_y=True), cv=folds).mean()
    seconds = time.perf_counter() - start
    print(f"{name:<15}" + "".join(f"{e:>8.3f}" for e in errors[i]) + f"{seconds:>8.2f} s")

# Picture: A table of colours: the 3-NN error of ten learners on iris, wine and breast cancer. The
# errors differ by a few per cent, and each column has another best row.
_, axes = plt.subplots(figsize=(5, 5.5))
axes.imshow(errors, cmap="viridis_r", aspect="auto")
for i, j in np.ndindex(errors.shape):
    dark = errors[i, j] > errors.mean()
    axes.text(j, i, f"{errors[i, j]:.3f}", ha="center", va="center", color="w" if dark else "k")
axes.set_xticks(range(len(DATA)), DATA)
axes.set_yticks(range(len(LEARNERS)), LEARNERS)
axes.set_title("3-NN error, five folds")
plt.show()
