"""
kNN regression
==============

Learn a metric from the targets, then average the targets of neighbours. MLKR minimises the error of
kernel regression. `NeighborhoodGerrymanderingRegressor` minimises the error of the median of
nearest neighbours. Both take the target as it is. The gain is large if half of the features carry
no information (friedman). It is small on the noisy targets of 442 patients (diabetes).
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from metricfast import MLKR, NeighborhoodGerrymanderingRegressor
from metricfast.solvers import Adam

DATA = {
    "friedman": make_friedman1(400, 10, noise=1.0, random_state=0),
    "diabetes": load_diabetes(return_X_y=True),
}
LEARNERS = {
    "Euclidean": "passthrough",
    "MLKR": MLKR(tol=1e-2, random_state=0),
    "gerrymandering": NeighborhoodGerrymanderingRegressor(
        15, random_state=0, solver=Adam(max_epochs=20)
    ),
}

# Picture: Six panels of predicted against true targets, with the diagonal. Friedman, above, is
# nearer to the diagonal after learning; diabetes, below, hardly changes.
_, axes = plt.subplots(2, 3, figsize=(10, 6.5), layout="constrained")
for line, (data, (X, y)) in zip(axes, DATA.items(), strict=True):
    for panel, (name, learner) in zip(line, LEARNERS.items(), strict=True):
        model = make_pipeline(StandardScaler(), learner, KNeighborsRegressor(15))
        predicted = cross_val_predict(model, X, y, cv=KFold(5, shuffle=True, random_state=0))
        score = 1 - np.mean((predicted - y) ** 2) / np.var(y)
        print(f"R2 of 15-NN regression, {data}, {name:<15} {score:.3f}")
        panel.plot(y, predicted, ".")
        panel.axline((y.mean(), y.mean()), slope=1, color="gray")
        panel.set(title=f"{data}, {name}: R² {score:.2f}", xlabel="target", ylabel="predicted")
plt.show()
