"""
A pipeline and a grid search
============================

A grid search chooses the learner and its parameters, as it does with any other estimator.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from metricfast import LMNN, NCA

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)

pipeline = Pipeline(
    [("scale", StandardScaler()), ("metric", "passthrough"), ("knn", KNeighborsClassifier())]
)
grid = [
    {"metric": ["passthrough"], "knn__n_neighbors": [1, 3, 5, 9]},
    {
        "metric": [NCA(tol=1e-3, random_state=0)],
        "metric__n_components": [2, 5, None],
        "knn__n_neighbors": [3, 9],
    },
    {
        "metric": [LMNN(random_state=0)],
        "metric__regularization": [0.1, 0.5],
        "knn__n_neighbors": [3, 9],
    },
]
search = GridSearchCV(pipeline, grid, cv=3).fit(X_train, y_train)
euclidean = GridSearchCV(pipeline, grid[:1], cv=3).fit(X_train, y_train)
print(f"test error, best Euclidean kNN: {1 - euclidean.score(X_test, y_test):.3f}")
print(f"test error, best of the grid:   {1 - search.score(X_test, y_test):.3f}")
print(f"chosen: {search.best_params_}")

# %%
# The errors of all candidates in the folds:

# Picture: Cross-validation error of every candidate of the grid with its spread over the folds, in
# three groups of one colour each: without a learner, with NCA, and with LMNN.
found = search.cv_results_
learners = ["Euclidean" if m == "passthrough" else type(m).__name__ for m in found["param_metric"]]
_, axes = plt.subplots(figsize=(7, 4))
for color, name in enumerate(dict.fromkeys(learners)):
    at = [i for i, learner in enumerate(learners) if learner == name]
    error, spread = 1 - found["mean_test_score"][at], found["std_test_score"][at]
    axes.errorbar(at, error, spread, fmt="o", color=f"C{color}", label=name)
axes.set(xlabel="candidate", ylabel="cross-validation error")
axes.legend()
plt.show()
