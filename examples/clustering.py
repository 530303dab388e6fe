"""
Clustering
==========

K-means groups points under the learned metric. Half of the digits train the metric. The other half
is clustered without labels. The adjusted Rand index compares the clusters with the classes: 1 is
agreement, 0 is chance.
"""

from matplotlib import pyplot as plt
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import ConfusionMatrixDisplay, adjusted_rand_score
from sklearn.model_selection import train_test_split

from metricfast import LMNN, NCA

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, test_size=0.5, random_state=0, stratify=y
)


def cluster(points):
    """Cluster the points, and name each cluster by its most frequent class."""
    clusters = KMeans(10, n_init=10, random_state=0).fit_predict(points)
    names = [max(range(10), key=list(y_test[clusters == c]).count) for c in range(10)]
    return adjusted_rand_score(y_test, clusters), [names[c] for c in clusters]


learners = (NCA(n_components=9, tol=1e-3), LMNN())
embedded = {"Euclidean": X_test}
for learner in learners:
    embedded[type(learner).__name__] = learner.fit(X_train, y_train).transform(X_test)

# Picture: Three tables of digits against the most frequent digit of their cluster, for Euclidean
# distance, NCA and LMNN. Most counts are on the diagonal, and more of them after learning.
_, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
for panel, (name, points) in zip(axes, embedded.items(), strict=True):
    index, named = cluster(points)
    print(f"adjusted Rand index, {name:<10} {index:.3f}")
    ConfusionMatrixDisplay.from_predictions(y_test, named, ax=panel, colorbar=False)
    panel.set(title=f"{name}: {index:.2f}", xlabel="most frequent digit of the cluster")
plt.show()
