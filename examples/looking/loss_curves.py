"""
Loss curves, and when to stop
=============================

Each iteration of L-BFGS uses all points. A mini-batch uses some of them. With early stopping, the
training ends when the score of held-out points no longer rises.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_digits

from metricfast import NCA
from metricfast.plotting import LossCurveDisplay
from metricfast.solvers import Adam

X, y = load_digits(return_X_y=True)
X = X / 16
whole = NCA(n_components=2, max_iter=200, tol=1e-4, judge=None, random_state=0).fit(X, y)
batches = NCA(n_components=2, solver=Adam(max_epochs=60), random_state=0).fit(X, y)
stopped = NCA(n_components=2, solver=Adam(max_epochs=60), early_stopping=True, random_state=0)
stopped.fit(X, y)
for name, nca in {"lbfgs": whole, "adam": batches, "early stopping": stopped}.items():
    print(f"{name:<15} {nca.n_iter_:>3} passes, objective {nca.objective_:.1f}")
print(f"best score of held-out points: {max(stopped.validation_scores_):.3f}")

# Picture: Left, the objective by iteration with L-BFGS and with mini-batches, both falling. Right,
# with early stopping: the objective still falls, but the score of held-out points no longer rises.
_, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
LossCurveDisplay.from_estimator(whole, name="all points, lbfgs", ax=axes[0])
LossCurveDisplay.from_estimator(batches, name="mini-batches, Adam", ax=axes[0])
LossCurveDisplay.from_estimator(stopped, name="mini-batches", ax=axes[1])
plt.show()
