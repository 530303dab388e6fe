"""A database that changes finds what a database made anew of the same points finds."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import metricfast as mf


def normal(rng, n, d):
    return rng.normal(size=(n, d))


def lattice(rng, n, d):
    return rng.integers(0, 3, (n, d)).astype(float)


def clusters(rng, n, d):
    return 1e-3 * normal(rng, n, d) + 100 * np.eye(d)[rng.integers(0, d, n)]


def positive(rng, n, d):
    """Points far from the origin: a map shifts them by an extreme value."""
    return 3 + rng.uniform(size=(n, d)) + (rng.uniform(size=(n, 1)) < 0.01)


def from_tiny_to_huge(rng, n, d):
    return normal(rng, n, d) * 10.0 ** rng.choice(
        [-160, -3, 0, 3, 120], (n, 1), p=[0.05, 0.3, 0.3, 0.3, 0.05]
    )


class Plain:
    """Points in a dictionary, by id."""

    def __init__(self, X, **maps):
        self.points, self.next, self.maps = dict(enumerate(X)), len(X), maps

    def add(self, X):
        ids = np.arange(self.next, self.next + len(X))
        self.points.update(zip(ids, X, strict=True))
        self.next += len(X)
        return ids

    def remove(self, ids):
        for each in set(ids):
            del self.points[each]

    @property
    def ids(self):
        return np.array(list(self.points))

    def kneighbors(self, queries, k, **options):
        X, ids = np.stack(list(self.points.values())), self.ids
        distances, rows = mf.kneighbors(queries, X, k, **self.maps, **options)
        return distances, np.where(rows < 0, -1, ids[rows])


def changes(rng, draw, d, plain, database, steps, check_each):
    """Add and remove at random, few or many points, and compare searches."""
    for step in range(steps):
        size = int(rng.choice([1, 2, 30, 400], p=[0.7, 0.2, 0.07, 0.03]))
        if rng.uniform() < 0.5:
            X = draw(rng, size, d)
            np.testing.assert_array_equal(database.add(X), plain.add(X))
        elif size < len(plain.points):
            of = plain.ids
            newest = rng.uniform() < 0.3
            gone = of[-size:] if newest else rng.choice(of, size, replace=bool(rng.integers(2)))
            database.remove(gone)
            plain.remove(gone)
        if step % check_each == 0:
            queries = draw(rng, int(rng.choice([1, 1, 40])), d)
            k = min(int(rng.choice([1, 5, 40])), len(plain.points))
            m, where = len(plain.points), None
            if rng.uniform() < 0.3:
                where = rng.uniform(size=m) < rng.choice([0.02, 0.5])
            elif rng.uniform() < 0.3:
                where = rng.integers(0, 4, len(queries)), rng.integers(0, 4, m)
            squared = bool(rng.integers(2))
            found = database.kneighbors(queries, k, where=where, squared=squared)
            expected = plain.kneighbors(queries, k, where=where, squared=squared)
            np.testing.assert_array_equal(found[1], expected[1])
            np.testing.assert_array_equal(found[0], expected[0])
            assert len(database) == m


@pytest.mark.parametrize("draw", [normal, lattice, clusters, positive, from_tiny_to_huge])
@pytest.mark.parametrize("d", [3, 24])
@pytest.mark.parametrize("maps", ["", "L", "UV"])
def test_edits_at_random(draw, d, maps):
    rng = np.random.default_rng(0)
    given = {name: normal(rng, 5 if d == 3 else 21, d) for name in maps}
    X = draw(rng, 900, d)
    plain, database = Plain(X, **given), mf.Database(X, **given)
    changes(rng, draw, d, plain, database, 120, 3)
    np.testing.assert_array_equal(database.ids_, plain.ids)
    np.testing.assert_array_equal(database.points_, list(plain.points.values()))
    again = pickle.loads(pickle.dumps(database))
    queries = draw(rng, 9, d)
    for one, other in zip(again.kneighbors(queries, 7), plain.kneighbors(queries, 7), strict=True):
        np.testing.assert_array_equal(one, other)
