"""Average neighbourhood margin maximisation."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from metricfast import ANMM

X, Y = load_iris(return_X_y=True)


def average_margin(embedded, friends, enemies, weight):
    total = 0.0
    for i, z in enumerate(embedded):
        apart = [np.sum((z - embedded[j]) ** 2) for j in enemies[i]]
        together = [np.sum((z - embedded[j]) ** 2) for j in friends[i]]
        total += weight[i] * (np.mean(apart) - (np.mean(together) if together else 0))
    return total / np.sum(weight)


def neighbours(points, labels, n_friends, n_enemies):
    friends, enemies = [], []
    for i, point in enumerate(points):
        order = sorted(range(len(points)), key=lambda j: (np.sum((points[j] - point) ** 2), j))
        friends.append([j for j in order if labels[j] == labels[i] and j != i][:n_friends])
        enemies.append([j for j in order if labels[j] != labels[i]][:n_enemies])
    return friends, enemies


@pytest.mark.parametrize("sizes", [(1, 1), (3, 5)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_margin_is_the_largest_of_all_projections(sizes, weighted):
    rows = np.r_[0:20, 50:75, 100:103, 149]
    points, labels = X[rows], np.r_[Y[rows[:-1]], 3]  # a small class, and one of a single point
    rng = np.random.RandomState(0)
    weight = rng.uniform(1, 3, len(rows)) if weighted else np.ones(len(rows))
    near = neighbours(points, labels, *sizes)
    for n_components in (1, 2, 4):
        learner = ANMM(n_components, *sizes, shrinkage=0)
        learner.fit(points, labels, sample_weight=weight if weighted else None)
        L = learner.components_
        np.testing.assert_allclose(L @ L.T, np.eye(n_components), atol=1e-12)
        margin = average_margin(points @ L.T, *near, weight)
        assert learner.margins_.sum() == pytest.approx(margin, rel=1e-9)
        if n_components < 4:
            for _ in range(30):
                Q = np.linalg.qr(rng.standard_normal((4, n_components)))[0]
                assert average_margin(points @ Q, *near, weight) <= margin


def test_by_default_only_directions_that_help_are_kept():
    rng = np.random.RandomState(0)
    points = np.c_[np.repeat([0.0, 3.0], 50), 5 * rng.standard_normal((100, 3))]
    points[:, 0] += rng.normal(scale=0.1, size=100)
    labels = np.repeat([0, 1], 50)
    learner = ANMM(shrinkage=0).fit(points, labels)
    everything = ANMM(n_components=4, shrinkage=0).fit(points, labels)
    kept = len(learner.components_)
    assert 1 <= kept < 4
    assert (learner.margins_ > 0).all()
    assert (everything.margins_[kept:] <= 0).all()
    alike = ANMM(shrinkage=0).fit([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, 0.0]], [0, 1, 0, 1])
    assert alike.components_.shape == (1, 2)


@pytest.mark.parametrize("exponent", [-400, -15, 15, 400])
def test_units(exponent):
    """The projection's rows have unit length for any unit of the features."""
    plain = ANMM(n_components=2).fit(X, Y)
    scaled = ANMM(n_components=2).fit(np.ldexp(X, exponent), Y)
    np.testing.assert_allclose(scaled.components_, plain.components_, rtol=1e-9)
    np.testing.assert_allclose(np.ldexp(scaled.margins_, -2 * exponent), plain.margins_, rtol=1e-9)
    with pytest.raises(ValueError, match="X is so large that margins"):
        ANMM().fit(np.ldexp(X, 600), Y)
