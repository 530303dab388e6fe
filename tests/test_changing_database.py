"""A modified database finds the same neighbours as a new database of the same points."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event

import numpy as np
import pytest
from test_database import lattice, normal

import metricfast as mf


def clusters(rng, n, d):
    return 1e-3 * normal(rng, n, d) + 100 * np.eye(d)[rng.integers(0, d, n)]


def positive(rng, n, d):
    """Return points far from the origin, so that a map shifts them."""
    return 3 + rng.uniform(size=(n, d)) + (rng.uniform(size=(n, 1)) < 0.01)


def from_tiny_to_huge(rng, n, d):
    return normal(rng, n, d) * 10.0 ** rng.choice(
        [-160, -3, 0, 3, 120], (n, 1), p=[0.05, 0.3, 0.3, 0.3, 0.05]
    )


class Plain:
    """A reference database: a dictionary of points by id."""

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

    def kneighbors(self, queries, k, exclude=None, **options):
        X, ids = np.stack(list(self.points.values())), self.ids
        if exclude is not None:
            options["exclude"] = np.where(np.isin(exclude, ids), np.searchsorted(ids, exclude), -1)
        distances, rows = mf.kneighbors(queries, X, k, **self.maps, **options)
        return distances, np.where(rows < 0, -1, ids[rows])


def changes(rng, draw, d, plain, database, steps, check_each):
    """Add and remove few or many random points, and compare searches."""
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
            k = min(int(rng.choice([1, 5, 40])), len(plain.points) - 1)
            m, where = len(plain.points), None
            exclude = rng.integers(-1, plain.next, len(queries)) if rng.uniform() < 0.5 else None
            if rng.uniform() < 0.3:
                shape = (m,) if rng.uniform() < 0.5 else (len(queries), m)
                where = rng.uniform(size=shape) < rng.choice([0.02, 0.5])
            elif rng.uniform() < 0.3:
                where = rng.integers(0, 4, len(queries)), rng.integers(0, 4, m)
                where = ("equal", *where) if rng.uniform() < 0.5 else where
            squared = bool(rng.integers(2))
            how = {"where": where, "exclude": exclude, "squared": squared}
            found, expected = (each.kneighbors(queries, k, **how) for each in (database, plain))
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


def search_beside_changes(seconds, d):
    """Points lie on a line in the order of their ids, so results show the time of the search."""
    width = 600
    X = np.repeat(np.arange(width, dtype=float)[:, None], d, axis=1)
    database = mf.Database(X)
    done, first, searched = Event(), [0], []

    def change():
        """Remove the oldest point, then add one at the end, which has the next id."""
        while not done.is_set():
            database.remove([first[0]])
            added = database.add(np.full((1, d), float(first[0] + width)))
            assert added == [first[0] + width]
            first[0] += 1

    def search(n_jobs):
        queries = np.full((3, d), -1.0)
        last = 0
        while not done.is_set():
            started = first[0]
            distances, ids = database.kneighbors(queries, width - 1, n_jobs=n_jobs)
            ended = first[0]
            oldest = ids[0, 0]
            assert (ids == np.arange(oldest, oldest + width - 1)).all()
            assert (distances == np.sqrt(d * (ids + 1.0) ** 2)).all()
            assert max(last, started) <= oldest <= ended + 1
            last = oldest
            searched.append(oldest)
        return last

    with ThreadPoolExecutor(4) as pool:
        tasks = [pool.submit(change), *(pool.submit(search, n) for n in (1, 1, 2))]
        done.wait(seconds)
        done.set()
        for task in tasks:
            task.result()
    assert first[0] > 0 and len(set(searched)) > 1
    return first[0], len(searched)


@pytest.mark.parametrize("d", [4, 24])
def test_searches_beside_changes_see_the_points_before_or_after_each(d):
    search_beside_changes(0.7, d)


def test_the_first_searches_of_many_threads():
    """A structure that the first search needs is built only once."""
    rng = np.random.default_rng(0)
    X = clusters(rng, 5000, 24)[rng.integers(0, 300, 5000)]
    for maps in ({}, {"L": normal(rng, 22, 24)}):
        expected = mf.kneighbors(X[:64], X, 30, **maps)
        database = mf.Database(X, precision="float32", **maps)
        with ThreadPoolExecutor(8) as pool:
            for found in pool.map(partial(database.kneighbors, n_neighbors=30), [X[:64]] * 8):
                for one, other in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(one, other)
