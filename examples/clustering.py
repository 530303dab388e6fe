"""Clustering: k-means groups points along what the learned metric holds to matter.

The metric is learned on half of the digits and the other half is clustered without labels. The
adjusted Rand index compares the clusters with the classes: 1 is agreement, 0 is chance.
"""

from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import train_test_split

from metricfast import LMNN, NCA

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, test_size=0.5, random_state=0, stratify=y
)


def agreement(points):
    """Cluster the points and compare with the classes."""
    clusters = KMeans(10, n_init=10, random_state=0).fit_predict(points)
    return adjusted_rand_score(y_test, clusters)


print(f"adjusted Rand index, Euclidean  {agreement(X_test):.3f}")
for learner in (NCA(n_components=9, tol=1e-3), LMNN()):
    learner.fit(X_train, y_train)
    name = type(learner).__name__
    print(f"adjusted Rand index, {name:<10} {agreement(learner.transform(X_test)):.3f}")
