"""Inference of neighbour sets, compared with enumeration, and points with given distances."""

import numpy as np
import pytest
from reference import squared_distances
from reference_inference import brute_force, vote_losses
from test_search_metrics import distances_of

import metricfast as mf
from metricfast import inference
from metricfast.neighbors import kneighbors, pairwise_distances

TIES = ["pessimistic", "optimistic", "label", "nearest"]


def random_delta(rng, classes, kind):
    if kind == "0/1":
        return None, 1.0 - np.eye(classes)
    # Multiples of 1/8, so that sums are exact; some wrong answers cost nothing.
    matrix = rng.integers(0, 24, (classes, classes)) / 8
    matrix[rng.random((classes, classes)) < 0.25] = 0
    np.fill_diagonal(matrix, 0)
    return matrix, matrix


def check_set(found, i, distances, labels, delta, ties, exclude=-1):
    """Check that the set has the reported value and cost."""
    members = found.indices[i]
    assert len(set(members)) == len(members)
    assert exclude not in members
    order = np.lexsort((members, distances[members]))
    np.testing.assert_array_equal(order, np.arange(len(members)))
    loss = vote_losses(np.arange(len(members))[None], labels[members], delta, ties)[0]
    assert found.delta[i] == loss
    return -distances[members].sum(), loss


@pytest.mark.parametrize("kind", ["0/1", "matrix"])
@pytest.mark.parametrize("ties", TIES)
def test_every_set_of_small_problems(ties, kind):
    rng = np.random.default_rng([TIES.index(ties), len(kind)])
    infeasible = cases = 0
    for _ in range(180):
        classes, n = rng.integers(2, 7), rng.integers(2, 13)
        k = rng.integers(1, min(9, n) + 1)
        labels, y = rng.integers(0, classes, n), rng.integers(0, classes, 8)
        matrix, delta = random_delta(rng, classes, kind)
        # Distances with many, few or hardly any ties.
        D = rng.integers(0, rng.choice([3, 10, 1000]), (8, n)) / 8
        exclude = np.where(rng.random(8) < 0.3, rng.integers(0, n, 8), -1) if k < n else None
        # Without a loss matrix, the last class may be unknown; its cost is that of a wrong answer.
        targeted, augmented = inference.both(
            D, None, y, labels, k,
            metric="precomputed", loss_matrix=matrix, ties=ties, exclude=exclude,
        )  # fmt: skip
        for i in range(8):
            out = -1 if exclude is None else exclude[i]
            right, worst = brute_force(D[i], labels, delta[y[i]], k, ties, out)
            assert targeted.feasible[i] == (right is not None)
            if right is None:
                infeasible += 1
                assert targeted.values[i] == -np.inf
                assert (targeted.indices[i] == -1).all()
            else:
                assert targeted.values[i] == right
                value, loss = check_set(targeted, i, D[i], labels, delta[y[i]], ties, out)
                assert (value, loss) == (right, 0)
            assert augmented.feasible[i]
            assert augmented.values[i] == worst
            value, loss = check_set(augmented, i, D[i], labels, delta[y[i]], ties, out)
            assert value + loss == worst
            cases += 1
    assert cases == 1440  # in all eight, 11520
    assert infeasible > 50


def test_votes_that_outweigh_all_distances():
    rng = np.random.default_rng(0)
    for scale in (1e-5, 1e-9, 1e-12):
        for _ in range(20):
            queries, points = rng.normal(size=(4, 1)) * 0, rng.normal(size=(8, 1)) * scale
            labels, y = rng.integers(0, 3, 8), np.arange(4) % 3
            D = squared_distances(queries, points)
            found = inference.loss_augmented(queries, points, y, labels, 3)
            for i in range(4):
                expected = brute_force(D[i], labels, 1.0 - np.eye(3)[y[i]], 3, "pessimistic")[1]
                assert found.values[i] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["0/1", "matrix"])
@pytest.mark.parametrize("ties", TIES)
def test_points_as_distances(ties, kind, dtype):
    rng = np.random.default_rng([TIES.index(ties), len(kind), 1])
    for spread in (1, 6, 40):
        for k in (1, 4, 9):
            classes = int(rng.integers(2, 8))
            # Integers, for exact distances with ties. Classes differ in location and size.
            labels = np.sort(rng.integers(0, classes, 300) * rng.integers(0, 2, 300))
            points = rng.integers(-spread, spread + 1, (300, 3)) + 2 * labels[:, None]
            y = rng.integers(0, classes, 70)
            queries = rng.integers(-spread, spread + 1, (70, 3)) + 2 * y[:, None]
            shuffled = rng.permutation(300)
            points, labels = points[shuffled].astype(dtype), labels[shuffled]
            matrix, _ = random_delta(rng, classes, kind)
            exclude = np.where(rng.random(70) < 0.5, rng.integers(0, 300, 70), -1)
            D = ((queries[:, None] - points) ** 2).sum(axis=2, dtype=float)
            how = {"loss_matrix": matrix, "ties": ties, "exclude": exclude}
            given = inference.both(D, None, y, labels, k, metric="precomputed", **how)
            found = inference.both(queries.astype(dtype), points, y, labels, k, **how)
            alone = (
                inference.targeted(queries.astype(dtype), points, y, labels, k, **how),
                inference.loss_augmented(queries.astype(dtype), points, y, labels, k, **how),
            )
            for expected, *results in zip(given, found, alone, strict=True):
                for result in results:
                    np.testing.assert_array_equal(result.values, expected.values)
                    np.testing.assert_array_equal(result.feasible, expected.feasible)
                    for i in np.flatnonzero(result.feasible):
                        value = -D[i, result.indices[i]].sum()
                        assert result.values[i] in (value, value + result.delta[i])


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("method", ["exact", "greedy"])
def test_real_numbers_and_methods(ties, method):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(400, 4)), rng.integers(0, 5, 400)
    D = pairwise_distances(X, squared=True)
    own = np.arange(400)
    how = {"ties": ties, "method": method}
    given = inference.both(D, None, y, y, 6, metric="precomputed", exclude=own, **how)
    for expected, found in zip(given, inference.both(X, None, y, y, 6, **how), strict=True):
        np.testing.assert_array_equal(found.feasible, expected.feasible)
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-12)
    exact = inference.both(X, None, y, y, 6, ties=ties)
    for best, found in zip(exact, given, strict=True):
        assert (found.values <= best.values + 1e-12).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ties", TIES)
def test_repeated_points(ties, dtype):
    # About a hundred copies of each point per class: more than candidate lists hold.
    rng = np.random.default_rng(TIES.index(ties))
    X, y = rng.integers(0, 2, (1200, 2)).astype(dtype), rng.integers(0, 3, 1200)
    X[::7] += rng.normal(size=(172, 2)).astype(dtype)
    queries, exclude = X[:60], np.where(rng.random(60) < 0.5, np.arange(60), -1)
    D = squared_distances(queries, X)
    for k in (1, 6):
        for method in ("exact", "greedy"):
            how = {"ties": ties, "exclude": exclude, "method": method}
            given = inference.both(D, None, y[:60], y, k, metric="precomputed", **how)
            for expected, found in zip(
                given, inference.both(queries, X, y[:60], y, k, **how), strict=True
            ):
                np.testing.assert_array_equal(found.indices, expected.indices)
                np.testing.assert_array_equal(found.delta, expected.delta)
                np.testing.assert_allclose(found.values, expected.values, rtol=1e-12)


@pytest.mark.parametrize(
    ("distances", "labels", "classes", "k", "greedy", "exact"),
    [
        ([0.1, 0.2, 1.0, 0.3, 0.35, 0.9, 0.95], [0, 0, 0, 1, 1, 2, 3], 4, 5, 2.45, 1.95),
        (
            [0.1, 0.2, 0.3, 1.0, 0.15, 0.25, 0.35, 0.9, 0.95],
            [0, 0, 0, 0, 1, 1, 1, 2, 2],
            *(3, 7, 2.85, 2.35),
        ),
    ],
)
def test_greedy_inference_is_not_exact(distances, labels, classes, k, greedy, exact):
    for method, cost in (("greedy", greedy), ("exact", exact)):
        found = inference.targeted(
            [distances], None, [0], labels, k, metric="precomputed", method=method
        )
        assert -found.values[0] == pytest.approx(cost)


def test_several_right_answers():
    matrix = [[0, 0, 1], [1, 0, 1], [1, 1, 0]]
    found = inference.targeted(
        [[0.1, 0.2, 1.0]], None, [0], [1, 1, 0], 2, metric="precomputed", loss_matrix=matrix
    )
    np.testing.assert_array_equal(found.indices, [[0, 1]])
    assert found.values[0] == pytest.approx(-0.3)


def test_bound_of_the_vote():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 3)).astype(np.float32), rng.integers(0, 4, 500)
    targeted, augmented = inference.both(X, None, y, y, 5)
    nearest = kneighbors(X, None, 5)[1]
    order = np.tile(np.arange(5), (1, 1))
    plain = [
        vote_losses(order, y[nearest[i]], (np.arange(4) != y[i]).astype(float), "pessimistic")[0]
        for i in range(500)
    ]
    surrogate = augmented.values - targeted.values
    assert (surrogate >= np.array(plain) - 1e-6).all()
    right = np.array(plain) == 0
    np.testing.assert_array_equal(targeted.indices[right], nearest[right])


def test_any_labels_and_unknown_classes():
    found = inference.targeted([[0.0], [3.0]], [[1.0], [2.0]], ["b", "z"], ["a", "b"], 1)
    np.testing.assert_array_equal(found.indices, [[1], [-1]])
    np.testing.assert_array_equal(found.feasible, [True, False])
    np.testing.assert_array_equal(found.values, [-4, -np.inf])


@pytest.mark.parametrize("factor", [1e-200, 1e-150, 1e150])
def test_extreme_units(factor):
    X, y = np.array([[0.0], [1.0], [2.5], [4.5]]) * factor, [0, 1, 0, 1]
    found = inference.targeted(X, None, y, y, 1)
    np.testing.assert_array_equal(found.indices[:, 0], [2, 3, 0, 1])
    if factor < 1:  # relative to which the cost of a vote is infinite
        found = inference.loss_augmented(X, None, y, y, 1)
        np.testing.assert_allclose(found.values, 1)


GOOD = {
    "queries": [[0.0], [1.0]],
    "database": [[0.0], [1.0], [2.0]],
    "query_labels": [0, 1],
    "database_labels": [0, 1, 0],
    "n_neighbors": 1,
}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_neighbors": 4}, "n_neighbors must be at most 3"),
        ({"n_neighbors": 3, "exclude": [0, -1]}, "n_neighbors must be at most 2"),
        ({"n_neighbors": 0}, "n_neighbors must be an integer of at least 1"),
        ({"query_labels": [0]}, "query_labels"),
        ({"database_labels": [0, 1]}, "database_labels"),
        ({"database": [[0.0, 1.0]]}, "database must have 1 columns"),
        ({"queries": [[np.nan], [1.0]]}, "queries contains NaN"),
        ({"exclude": [3, 0]}, "exclude must hold indices"),
        ({"ties": "random"}, "ties must be"),
        ({"method": "fast"}, "method must be"),
        ({"metric": "cosine"}, "metric must be"),
        ({"metric": "precomputed"}, "database must be None"),
        ({"loss_matrix": [[0, 1, 1], [1, 0, 1]]}, "loss_matrix must have a row and a column"),
        ({"loss_matrix": [[0, -1], [1, 0]]}, "finite numbers from 0"),
        ({"loss_matrix": [[0, np.nan], [1, 0]]}, "finite numbers from 0"),
        ({"loss_matrix": [[1, 1], [1, 0]]}, "zero on the diagonal"),
        ({"loss_matrix": [[0]]}, "indices from 0 to 0"),
        ({"loss_matrix": [[0, 1], [1, 0]], "query_labels": [0.0, 1.0]}, "query_labels must hold"),
        ({"loss_matrix": [[0, 1], [1, 0]], "query_labels": [0, -1]}, "query_labels must hold"),
    ],
)
@pytest.mark.parametrize("function", [inference.targeted, inference.loss_augmented, inference.both])
def test_bad_input(function, wrong, message):
    with pytest.raises(ValueError, match=message):
        function(**(GOOD | wrong))
    with pytest.raises(TypeError, match=rf"^{function.__name__}\(\) got an unexpected .* 'exlude'"):
        function(**GOOD, exlude=None)


@pytest.mark.parametrize("call", [inference.targeted, inference.loss_augmented, inference.both])
def test_distances_that_overflow_are_told(call):
    points, y = np.array([[1.0, 0], [3.0, 0], [-2.0, 0], [0, 1.0]]), [0, 1, 0, 1]
    for size in (1e155, 1e200):
        with pytest.raises(ValueError, match="queries and database are so far apart"):
            call(size * points, None, y, y, 1)
    with pytest.raises(ValueError, match="so far apart"):  # also their sum
        call(np.full((1, 4), 1e308), None, [0], [0, 0, 0, 0], 3, metric="precomputed")
    for size in (1, 1e153):
        found = inference.targeted(size * points, None, y, y, 1)
        assert found.indices.ravel().tolist() == [2, 3, 0, 1]
    # A point that no set needs may be at any distance. Classes with one point have no set.
    far = np.vstack([points, [1e200, 0]])
    assert np.isfinite(inference.targeted(points, far, y, [*y, 0], 1).values).all()
    assert not inference.targeted(points, None, range(4), range(4), 1).feasible.any()


@pytest.mark.parametrize("kind", ["0/1", "matrix"])
@pytest.mark.parametrize("ties", TIES)
def test_a_prepared_database_gives_the_same_sets(ties, kind):
    rng = np.random.default_rng([TIES.index(ties), len(kind), 7])
    for d, spread, k in ((3, 2, 4), (3, 40, 1), (24, 3, 5), (24, 1000, 9)):
        classes = int(rng.integers(2, 6))
        labels = np.sort(rng.integers(0, classes, 900))
        points = rng.integers(-spread, spread + 1, (900, d)) + labels[:, None]
        y = rng.integers(0, classes, 80)
        queries = (rng.integers(-spread, spread + 1, (80, d)) + y[:, None]).astype(np.float32)
        shuffled = rng.permutation(900)
        points, labels = points[shuffled].astype(np.float32), labels[shuffled]
        matrix, _ = random_delta(rng, classes, kind)
        exclude = np.where(rng.random(80) < 0.5, rng.integers(0, 900, 80), -1)
        database = mf.Database(points)
        for method in ("exact", "greedy"):
            how = {"loss_matrix": matrix, "ties": ties, "method": method, "exclude": exclude}
            given = inference.both(queries, points, y, labels, k, **how)
            for expected, found in zip(
                given, inference.both(queries, database, y, labels, k, **how), strict=True
            ):
                np.testing.assert_array_equal(found.values, expected.values)
                np.testing.assert_array_equal(found.feasible, expected.feasible)
                sums = (
                    np.where(each.indices < 0, 0, squared_distances(queries, points)[
                        np.arange(80)[:, None], each.indices
                    ]).sum(axis=1)
                    for each in (found, expected)
                )  # fmt: skip
                np.testing.assert_allclose(*sums)


def test_a_database_that_changes_and_maps():
    rng = np.random.default_rng(8)
    points, queries, L = (
        rng.normal(size=(500, 9)),
        rng.normal(size=(40, 9)),
        rng.normal(size=(4, 9)),
    )
    labels, y = rng.integers(0, 3, 500), rng.integers(0, 3, 40)
    database = mf.Database(points[:300], L=L)
    database.add(points[300:])
    shown = np.arange(500) % 5 != 0
    database.remove(np.flatnonzero(~shown))
    embedded = [Z @ L.T for Z in (queries, points[shown])]
    expected = inference.targeted(*embedded, y, labels[shown], 5)
    found = inference.targeted(queries, database, y, labels[shown], 5)
    np.testing.assert_array_equal(found.indices, np.flatnonzero(shown)[expected.indices])
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-9)
    exclude = found.indices[:, 0]
    found = inference.targeted(queries, database, y, labels[shown], 5, exclude=exclude)
    assert not (found.indices == exclude[:, None]).any()
    with pytest.raises(ValueError, match="database must have Euclidean distances or cosines"):
        inference.targeted(queries, mf.Database(points, metric="inner_product"), y, labels, 5)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_database_of_cosines(ties, dtype):
    rng = np.random.default_rng([TIES.index(ties), dtype == "f8"])
    for d, k, classes, kind in ((2, 3, 3, "0/1"), (24, 5, 4, "matrix"), (24, 4, 40, "0/1")):
        labels, y = rng.integers(0, classes, 900), rng.integers(0, classes, 50)
        centres = rng.normal(size=(classes, d))
        points, queries = (
            (rng.normal(size=(len(own), d)) + centres[own]) * rng.lognormal(size=(len(own), 1))
            for own in (labels, y)
        )
        points[::100], queries[::20] = 0, 0
        points, queries = points.astype(dtype), queries.astype(dtype)
        distances = distances_of("cosine", queries, points)
        matrix, _ = random_delta(rng, classes, kind)
        exclude = np.where(rng.random(50) < 0.5, rng.integers(0, 900, 50), -1)
        database = mf.Database(points, metric="cosine")
        for method in ("exact", "greedy"):
            how = {"loss_matrix": matrix, "ties": ties, "method": method, "exclude": exclude}
            given = inference.both(2 * distances, None, y, labels, k, metric="precomputed", **how)
            found = inference.both(queries, database, y, labels, k, **how)
            for expected, one in zip(given, found, strict=True):
                np.testing.assert_allclose(one.values, expected.values, rtol=1e-12, atol=1e-12)
                np.testing.assert_array_equal(one.feasible, expected.feasible)
                rows = distances[np.arange(50)[:, None], one.indices]
                value = np.where(one.feasible, -2 * rows.sum(axis=1), one.values)
                value += 0 if one is found[0] else one.delta
                np.testing.assert_allclose(one.values, value, rtol=1e-12, atol=1e-12)
