"""
Quick start
===========

Learn a metric, and see whether it helps the nearest neighbours.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from metricfast import NCA
from metricfast.plotting import EmbeddingDisplay

X, y = load_wine(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
scaler = StandardScaler().fit(X_train)
X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)

nca = NCA(random_state=0).fit(X_train, y_train)

euclidean = KNeighborsClassifier(3).fit(X_train, y_train)
learned = KNeighborsClassifier(3).fit(nca.transform(X_train), y_train)
print(f"3-NN error, Euclidean: {1 - euclidean.score(X_test, y_test):.3f}")
print(f"3-NN error, NCA:       {1 - learned.score(nca.transform(X_test), y_test):.3f}")

distance = nca.get_metric()
print(f"distance of the first two wines: {distance(X_test[0], X_test[1]):.3f}")

# %%
# The held-out wines before learning and after it, by their first two principal components:

# Picture: Held-out wines of three cultivars in two dimensions. Left, as given: three groups that
# touch. Right, after NCA: three groups that are narrower.
EmbeddingDisplay.from_estimator(nca, X_test, y_test)
plt.show()
