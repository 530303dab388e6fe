from __future__ import annotations

import numpy as np
from sklearn.datasets import load_iris, make_classification
from sklearn.neighbors import KNeighborsClassifier

from metricfast import ITML, ITML_Supervised
from metricfast.constraints import Constraints, wrap_pairs

X, Y = load_iris(return_X_y=True)


def test_supervised_is_itml_on_the_drawn_pairs():
    drawn = Constraints(Y).positive_negative_pairs(180, random_state=0)
    expected = ITML(gamma=0.1).fit(*wrap_pairs(X, drawn))
    model = ITML_Supervised(gamma=0.1, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(model.components_, expected.components_)
    np.testing.assert_array_equal(model.bounds_, expected.bounds_)
    assert model.n_iter_ == expected.n_iter_


def test_does_less_harm_than_metric_learn():
    """metric-learn 0.7 with the same gamma: 3-NN error .1975, where the Euclidean one is .139."""
    points, labels = make_classification(
        n_samples=7000,
        n_features=32,
        n_informative=16,
        n_redundant=0,
        n_classes=10,
        n_clusters_per_class=2,
        class_sep=1.5,
        random_state=0,
    )
    model = ITML_Supervised(gamma=1e-3, random_state=0).fit(points[:5000], labels[:5000])
    knn = KNeighborsClassifier(3).fit(model.transform(points[:5000]), labels[:5000])
    assert 1 - knn.score(model.transform(points[5000:]), labels[5000:]) < 0.15
