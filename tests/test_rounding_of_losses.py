"""Losses and gradients in float64 differ from their exact values by a few units of rounding.

Points lie on a grid, so distances and inner products are exact, and what remains is the rounding of
exponentials, logarithms and sums. Expected values are computed in long double.
"""

import numpy as np
import pytest

from metricfast import losses

N = 300
EPS = np.finfo(float).eps
LONG = np.longdouble

pytestmark = pytest.mark.skipif(
    np.finfo(LONG).nmant < 63, reason="the platform's long double is a double"
)


def points(classes=6):
    rng = np.random.default_rng(0)
    return rng.integers(-4, 5, (N, 5)) / 4.0, rng.integers(0, classes, N)


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def excluded(x, value):
    x = x.copy()
    np.fill_diagonal(x, value)
    return x


def nca(form):
    def terms(D, same):
        p = softmax(excluded(-D, -np.inf))
        right = (p * same).sum(axis=1, keepdims=True)
        if form == "sum":
            return -right, p * same, p * right
        return -np.log(right), p * same / right, p

    return losses.NCA(form), "distance", terms


def lmnn(D, same):
    targets = np.argsort(excluded(np.where(same, D, np.inf), np.inf), axis=1, kind="stable")[:, :3]
    near = np.take_along_axis(D, targets, 1)
    hinges = np.where(same[:, None], 0, 1 + near[:, :, None] - D[:, None])
    active = hinges > 0
    own = np.zeros_like(D)
    np.put_along_axis(own, targets, 0.5 + 0.5 * active.sum(2), 1)
    value = 0.5 * near.sum(1) + 0.5 * np.maximum(hinges, 0).sum((1, 2))
    return value, own, 0.5 * active.sum(1)


def triplets(D, same):
    value, near, far = np.zeros(N, LONG), np.zeros_like(D), np.zeros_like(D)
    for i, (d, own) in enumerate(zip(D, excluded(same, 0) > 0, strict=True)):
        hinges = np.maximum(0.25 + d[own, None] - d[same[i] == 0], 0)
        value[i] = hinges.sum()
        near[i, own] = (hinges > 0).sum(1)
        far[i, same[i] == 0] = (hinges > 0).sum(0)
    return value, near, far


def supcon(S, same):
    x = excluded(2 * S, -np.inf)
    p, own = softmax(x), excluded(same, 0)
    whole = x.max(1) + np.log(np.exp(x - x.max(1, keepdims=True)).sum(1))
    members = own.sum(1, keepdims=True)
    values = whole - 2 * (own * S).sum(1) / members[:, 0]
    return values / N, 2 * p / N, 2 * own / members / N


def smooth_ap(S, same):
    value, plus, minus = np.ones(N, LONG), np.zeros_like(S), np.zeros_like(S)
    for i, own in enumerate(excluded(same, 0)):
        for p in np.flatnonzero(own):
            above = 1 / (1 + np.exp((S[i, p] - S[i]) / LONG(0.5)))
            above[[i, p]] = 0
            members, all_above = 1 + (own * above).sum(), 1 + above.sum()
            value[i] -= members / all_above / own.sum()
            steep = above * (1 - above) / LONG(0.5) / all_above**2 / own.sum()
            ahead, behind = steep * members * (1 - own), steep * (all_above - members) * own
            plus[i] += ahead
            minus[i] += behind
            plus[i, p] += behind.sum()
            minus[i, p] += ahead.sum()
    return value / N, plus / N, minus / N


CASES = {
    "NCA": nca("sum"),
    "NCA log": nca("log"),
    "LMNN": (losses.LMNN(), "distance", lmnn),
    "Triplet": (losses.Triplet(0.25, reduction="sum"), "distance", triplets),
    "Triplet, small classes": (losses.Triplet(0.25, reduction="sum"), "distance", triplets, 30),
    "SmoothAP": (losses.SmoothAP(0.5), "product", smooth_ap),
    "SupCon": (losses.SupCon(temperature=0.5), "product", supcon),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_exact_to_a_few_units(name):
    loss, kind, terms, *classes = CASES[name]
    Z, y = points(*classes)
    value, gradient = loss(Z, y)
    z = Z.astype(LONG)
    differences = z[:, None] - z[None]
    of_pairs = (differences**2).sum(2) if kind == "distance" else z @ z.T
    values, plus, minus = terms(of_pairs, (y[:, None] == y).astype(LONG))
    assert abs(value - values.sum()) <= 4 * EPS * abs(values).sum()
    moves = 2 * differences if kind == "distance" else np.broadcast_to(z, differences.shape)
    weights, sizes = plus - minus, plus + minus
    expected = ((weights + weights.T)[:, :, None] * moves).sum(1)
    size = ((sizes + sizes.T)[:, :, None] * abs(moves)).sum(1)
    assert (abs(gradient - expected) <= 4 * EPS * size).all()
