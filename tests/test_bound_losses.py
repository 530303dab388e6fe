"""Bound losses, with labels checked once, return the same values as calls."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from test_embedding_losses import CASES, every_case

from metricfast import losses
from metricfast.exceptions import LossOverflowError

OTHERS = {
    "NCA": (losses.NCA("log", "mean"), None),
    "MLKR": (losses.MLKR(), None),
    "LDML": (losses.LDML(), None),
    "LMNN": (losses.LMNN(2), None),
    "Gerrymander": (losses.Gerrymander(2), None),
    "Gerrymander costs": (losses.Gerrymander(2, 1 - np.eye(6)), None),
    "angles": (losses.LogRatio(label_distance=("angular", 360)), None),
    "function": (losses.RankNContrast(label_distance=lambda a, b: abs(a - b)), None),
}
every_loss = pytest.mark.parametrize(
    "loss", [case[0] for case in (CASES | OTHERS).values()], ids=CASES | OTHERS
)


def problem(loss, n):
    rng = np.random.default_rng(n)
    y = rng.integers(0, 5, n) if loss.labels == "class" else rng.normal(size=n)
    return rng.normal(size=(n, 4)), y


def same(found, expected):
    assert found[0] == expected[0]
    for a, b in zip(found[1], expected[1], strict=True):
        np.testing.assert_array_equal(a, b)


@every_loss
def test_points_among_themselves(loss):
    Z, y = problem(loss, 40)
    rows, weight = np.array([*range(30, 8, -1), 35]), np.arange(40.0) % 3
    if loss.learnable_database:
        with pytest.raises(ValueError, match="compares points with proxies"):
            loss.on(y)(Z)
        return
    bound = loss.on(y)
    same(bound(Z), loss(Z, y))
    same(bound(Z[rows], rows), loss(Z[rows], y[rows]))
    if loss.has_anchors:
        same(loss.on(y, weight)(Z[rows], rows), loss(Z[rows], y[rows], sample_weight=weight[rows]))
        for part in (slice(0, 9), slice(4, 11)):
            value, (of_anchors, gradient) = loss(
                Z[rows[part]], y[rows[part]], Z[rows], y[rows], exclude=np.arange(23)[part]
            )
            gradient[part] += of_anchors
            same(bound(Z[rows], rows, part), (value, gradient))


@pytest.mark.parametrize("name", ["LDML", "MCML", "MLKR", "NCA"])
def test_weighted_parts_add_up(name):
    loss = getattr(losses, name)()
    Z, y = problem(loss, 40)
    bound = loss.on(y, np.arange(40.0) % 3)
    value, gradient = bound(Z)
    parts = [bound(Z, None, slice(start, start + 10)) for start in range(0, 40, 10)]
    assert sum(part for part, _ in parts) == pytest.approx(value)
    total = sum(part for _, part in parts)
    np.testing.assert_allclose(total, gradient, atol=1e-12 * np.abs(gradient).max())


@pytest.mark.parametrize("name", ["NCA", "LDML", "Triplet"])
def test_calls_share_memory_and_nothing_else(name):
    loss = getattr(losses, name)()
    shapes = [(300, 4), (700, 2), (300, 3), (40, 6)] * 8
    rng, y = np.random.default_rng(0), np.random.default_rng(1).integers(0, 5, 700)
    points = [rng.normal(size=shape).astype("fd"[i % 2]) for i, shape in enumerate(shapes)]
    bound = loss.on(y, n_jobs=1)
    again = pickle.loads(pickle.dumps(bound))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda Z: bound(Z, np.arange(len(Z))), points))
    for Z, each in zip(points, found, strict=True):
        same(each, loss.on(y)(Z, np.arange(len(Z))))
        same(again(Z, np.arange(len(Z))), each)


@every_loss
def test_points_against_a_database(loss):
    (Z, y), (B, yb) = problem(loss, 40), problem(loss, 50)
    rows, weight = np.arange(40)[::-3], np.arange(40.0) % 3
    if loss.learnable_database:
        table = B[:5], np.arange(5)
        bound = loss.on(y, weight, y_database=table[1])
        expected = loss(Z[rows], y[rows], *table, sample_weight=weight[rows])
        same(bound.evaluate_two_sided(Z[rows], table[0], rows), expected)
        return
    if not loss.has_anchors:
        with pytest.raises(ValueError, match="sample_weight must be None"):
            loss.on(y, weight)
        return
    bound = loss.on(y, weight)
    how = {"sample_weight": weight[rows], "exclude": rows}
    same(
        bound.evaluate_two_sided(Z[rows], Z, rows, exclude=rows),
        loss(Z[rows], y[rows], Z, y, **how),
    )
    some = np.arange(2, 34)
    same(
        bound.evaluate_two_sided(Z[rows], Z[some], rows, some),
        loss(Z[rows], y[rows], Z[some], y[some], sample_weight=weight[rows]),
    )
    bound = loss.on(y, y_database=yb)
    same(bound.evaluate_two_sided(Z[rows], B, rows), loss(Z[rows], y[rows], B, yb))
    same(
        bound.evaluate_two_sided(Z[rows], B[5:], rows, np.arange(5, 50)),
        loss(Z[rows], y[rows], B[5:], yb[5:]),
    )


@every_case
def test_labels_are_looked_at_once(loss, oracle, monkeypatch):
    del oracle
    Z, y = problem(loss, 40)
    database = {"y_database": np.arange(5)} if loss.learnable_database else {}
    bound = loss.on(y, **database)

    def refuse(*_, **__):
        raise AssertionError("labels are looked at again")

    for name in ("unique", "searchsorted", "isin"):
        monkeypatch.setattr(np, name, refuse)
    for module in ("_labels.bound_labels", "_call.bound_labels", "_call.as_points"):
        monkeypatch.setattr(f"metricfast.losses.{module}", refuse)
    for _ in range(2):
        bound.evaluate_two_sided(Z, Z[:5]) if database else bound(Z)


@every_loss
def test_few_of_very_many_classes(loss):
    if loss.labels != "class" or getattr(loss, "loss_matrix", None) is not None:
        return
    Z, y = problem(loss, 3000)[0], np.arange(3000) // 2
    rows = np.array([8, 9, 2400, 2401, 17, 16, 30, 2999])
    table = np.arange(1500) if loss.learnable_database else None
    if table is None:
        same(loss.on(y)(Z[rows], rows), loss(Z[rows], y[rows]))
    of_rows = Z[rows], y[rows]
    bound = loss.on(y, y_database=table)
    some = np.array([4, 1200, 1499, 17])
    labels = y[some] if table is None else table[some]
    same(bound.evaluate_two_sided(Z[rows], Z[some], rows, some), loss(*of_rows, Z[some], labels))


def test_what_a_loss_alone_takes():
    loss = losses.LMNN(2)
    Z, y = problem(loss, 40)
    targets, rows = loss.find_targets(Z, y, 2), np.arange(40)[::-2]
    lists = loss.find_impostors(Z, y, targets)
    bound = loss.on(y)
    expected = loss(Z, y, targets=targets, impostors=lists)
    same(bound(Z, targets=targets, impostors=lists), expected)
    expected = loss(Z[rows], y[rows], Z, y, targets=targets[rows], exclude=rows)
    same(bound.evaluate_two_sided(Z[rows], Z, rows, exclude=rows, targets=targets[rows]), expected)
    votes = losses.Gerrymander(2)
    bound = votes.on(y)
    value, weights = votes.of_distances(bound.call(Z[rows], Z, rows, exclude=rows))
    expected = votes.weights(Z[rows], y[rows], Z, y, exclude=rows)
    assert value == expected[0]
    np.testing.assert_array_equal(weights.toarray(), expected[1].toarray())


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_points_that_are_not_finite(value):
    Z, y = problem(losses.SupCon(), 10)
    Z[3, 1] = value
    with pytest.raises(LossOverflowError, match="Z is too large"):
        losses.LogRatio().on(y.astype(float))(Z)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda loss: loss.on(3), "y must hold one label per point"),
        (lambda loss: loss.on([1, 2], [1]), "sample_weight must have shape"),
        (lambda loss: loss.on([1, 2], y_database=["a"]), "y_database holds"),
        (lambda loss: loss.on([1, 2])(np.ones((3, 1))), "wrong type, layout or size"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(losses.SupCon())
