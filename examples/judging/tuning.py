"""
Tuning: two parameters at a time
================================

A grid over the penalty and the number of neighbours of `NeighborhoodGerrymandering`. It predicts by
its own k-NN vote, so the search needs no classifier after it.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from metricfast import NeighborhoodGerrymandering
from metricfast.solvers import Adam

X, y = load_wine(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
learner = NeighborhoodGerrymandering(judge=None, random_state=0, solver=Adam(max_epochs=15))
grid = {"n_neighbors": [1, 3, 5, 9], "C": [0.01, 0.1, 1, 10, 100]}
search = GridSearchCV(
    make_pipeline(StandardScaler(), learner),
    {f"neighborhoodgerrymandering__{name}": values for name, values in grid.items()},
    cv=5,
).fit(X_train, y_train)
print({name.rpartition("__")[2]: value for name, value in search.best_params_.items()})
print(f"test error of the best: {1 - search.score(X_test, y_test):.3f}")

# %%
# A choice is safe if its neighbouring cells have similar errors. The best single cell of a small
# sample is partly luck:

# Picture: A table of colours: the cross-validation error by C, in columns, and by the number of
# neighbours, in rows.
errors = 1 - search.cv_results_["mean_test_score"].reshape(len(grid["C"]), -1).T
_, axes = plt.subplots(figsize=(6, 4), layout="constrained")
shown = axes.imshow(errors, cmap="viridis_r", aspect="auto")
axes.set_xticks(range(len(grid["C"])), grid["C"])
axes.set_yticks(range(len(grid["n_neighbors"])), grid["n_neighbors"])
axes.set(xlabel="C", ylabel="neighbours")
plt.colorbar(shown, label="cross-validation error")
plt.show()
