"""MCML: it finds the one minimum, and collapses classes."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

from metricfast import MCML, kneighbors

X, Y = load_iris(return_X_y=True)
X = scale(X)


def scatter_of(weights):
    """Sum of w_ij times the outer product of x_i - x_j: the gradient by M."""
    both = weights + weights.T
    return X.T @ (np.diag(both.sum(1)) - both) @ X


def test_objective_is_that_of_the_map():
    model = MCML(n_components=2).fit(X, Y)
    assert model.objective_ == pytest.approx(reference.mcml(model.transform(X), Y))
    assert model.objective_ == min(model.loss_curve_)


def test_it_is_the_minimum_over_all_metrics():
    """Convex in M: there the gradient is positive semidefinite, and vanishes where M does not."""
    model = MCML(tol=1e-12).fit(X, Y)
    M = model.get_mahalanobis_matrix()
    D = reference.squared_distances(model.transform(X), model.transform(X))
    np.fill_diagonal(D, np.inf)
    p = np.exp(-D) / np.exp(-D).sum(1, keepdims=True)
    q = ((Y[:, None] == Y) & np.isfinite(D)) / 49
    gradient = scatter_of(q - p)
    size = np.linalg.norm(scatter_of(q))
    assert np.linalg.eigvalsh(gradient).min() > -1e-4 * size
    assert abs(np.trace(gradient @ M)) < 1e-4 * size


def test_the_start_does_not_matter():
    ends = [
        MCML(init=init, random_state=0, tol=1e-12).fit(X, Y).get_mahalanobis_matrix()
        for init in ("identity", "random")
    ]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-2 * np.abs(ends[0]).max())


def test_classes_collapse():
    def collapse(Z):
        within = sum(((Z[c == Y] - Z[c == Y].mean(0)) ** 2).sum() for c in range(3))
        return within / ((Z - Z.mean(0)) ** 2).sum()

    model = MCML(n_components=2).fit(X, Y)
    assert collapse(model.transform(X)) < 0.2 * collapse(X)
    nearest = kneighbors(model.transform(X), n_neighbors=1)[1][:, 0]
    assert np.mean(Y[nearest] != Y) <= 0.04


def test_whole_weights_mean_repetition():
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    settings = {"init": "lda", "n_components": 2, "callbacks": [lambda s: s.iteration == 5]}
    weighted = MCML(**settings).fit(X, Y, sample_weight=weight)
    repeated = MCML(**settings).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight))
    np.testing.assert_allclose(weighted.components_, repeated.components_, rtol=1e-6, atol=1e-8)
    assert weighted.objective_ == pytest.approx(repeated.objective_)


def test_a_lone_point_has_no_part():
    with_company = MCML(n_components=2).fit(X[:101], Y[:101])
    assert np.isfinite(with_company.components_).all()
    assert with_company.objective_ == pytest.approx(
        reference.mcml(with_company.transform(X[:101]), Y[:101])
    )
