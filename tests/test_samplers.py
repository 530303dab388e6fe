"""Samplers: properties of batches, and neighbours in label space by brute force."""

import numpy as np
import pytest
from sklearn.base import clone

from metricfast._labels.neighbors import label_neighbors
from metricfast.samplers import ClassBalanced, DenseTriplet, Uniform

RNG = np.random.default_rng(0)
LABELS = {
    "one": RNG.normal(size=60),
    "column": RNG.normal(size=(60, 1)),
    "ties": RNG.integers(0, 7, 60).astype(float),
    "three": RNG.normal(size=(60, 3)),
    "three with ties": RNG.integers(0, 3, (60, 3)).astype(float),
    "twelve": RNG.normal(size=(60, 12)),
    "twelve with ties": RNG.integers(0, 2, (60, 12)).astype(float)[RNG.integers(0, 20, 60)],
    "tiny": RNG.normal(size=(60, 2)) * 1e-200,
    "huge": RNG.normal(size=(60, 2)) * 1e200,
}
every_label = pytest.mark.parametrize("y", LABELS.values(), ids=LABELS)
SAMPLERS = [Uniform(16), ClassBalanced(4, 16), DenseTriplet(3, 16), DenseTriplet(3, 16, 4)]


def distances(y):
    unit = np.abs(y).max()
    away = (y.reshape(len(y), 1, -1) - y.reshape(1, len(y), -1)) / unit
    return np.linalg.norm(away, axis=2) * unit


@pytest.mark.parametrize("k", [1, 5, 59])
@pytest.mark.parametrize("ties", ["keep", "drop"])
@every_label
def test_neighbors_have_the_nearest_labels(y, ties, k):
    found = label_neighbors(y, k, ties=ties, rng=np.random.RandomState(0))
    D = distances(y)
    for i, row in enumerate(found):
        others = np.delete(np.arange(60), i)
        if ties == "drop":
            others = others[D[i, others] > 0]
        wanted = min(k, len(others))
        assert (row[wanted:] == -1).all()
        near = row[:wanted]
        assert len(set(near)) == wanted
        assert set(near) <= set(others)
        np.testing.assert_allclose(D[i, near], np.sort(D[i, others])[:wanted], rtol=1e-12)


@pytest.mark.parametrize("columns", [2, 4, 8])
@pytest.mark.parametrize("ties", ["keep", "drop"])
def test_neighbors_of_many_labels(columns, ties):
    y = RNG.integers(0, 2 if columns == 8 else 6, (700, columns)).astype(float)
    y[::2] += RNG.normal(size=(350, columns))
    found = label_neighbors(y, 9, ties=ties)
    D = distances(y)
    np.fill_diagonal(D, np.inf)
    D[(D == 0) & (ties == "drop")] = np.inf
    near = np.take_along_axis(D, found, axis=1)
    np.testing.assert_allclose(near, np.sort(D, axis=1)[:, :9], rtol=1e-12)
    assert all(len(set(row)) == 9 for row in found)


def test_no_point_of_a_group_of_equal_labels_is_left_out():
    found = label_neighbors(np.zeros(50), 3, rng=np.random.RandomState(0))
    assert (np.bincount(found.ravel()) == 3).all()
    far = label_neighbors(np.repeat([0.0, 1.0], 25), 3, ties="drop", rng=np.random.RandomState(0))
    assert (np.bincount(far.ravel()) == 3).all()


def test_no_other_label():
    assert (label_neighbors(np.ones(4), 2, ties="drop") == -1).all()


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
@pytest.mark.parametrize("n", [2, 10, 103])
def test_an_epoch_has_each_point_as_anchor_once(sampler, n):
    y = np.arange(n) % 7
    epoch = sampler.prepare(y)
    seen = []
    for batch in epoch(np.random.RandomState(0)):
        assert len(set(batch.rows)) == len(batch.rows)
        assert 0 < batch.n_anchors <= len(batch.rows)
        seen.extend(batch.rows[: batch.n_anchors])
    assert sorted(seen) == list(range(n))


def test_all_points_of_a_batch_may_be_anchors():
    epoch = DenseTriplet(3, 30, 5, all_anchors=True).prepare(np.arange(100.0))
    batches = list(epoch(np.random.RandomState(0)))
    assert sorted(row for batch in batches for row in batch.rows[:5]) == list(range(100))
    times = np.bincount(np.concatenate([batch.rows[: batch.n_anchors] for batch in batches]))
    assert times.mean() == 30 / 5 and times.min() > 1


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_the_same_seed_gives_the_same_batches(sampler):
    y = np.arange(50) % 7
    epochs = [clone(sampler).prepare(y, n_jobs=n) for n in (1, 2)]
    rngs = [np.random.RandomState(3), np.random.RandomState(3)]
    first, second, again = (
        [batch.rows.tolist() for batch in epochs[i](rngs[i])] for i in (0, 0, 1)
    )
    assert first == again
    assert first != second


def test_uniform_batches_have_about_the_size():
    epoch = Uniform(16).prepare(np.zeros(103))
    assert {len(batch.rows) for batch in epoch(np.random.RandomState(0))} == {14, 15}
    (batch,) = Uniform(1000).prepare(np.zeros(103))(np.random.RandomState(0))
    assert len(batch.rows) == 103


@pytest.mark.parametrize("size", [2, 3, 8, 128])
@pytest.mark.parametrize("kind", [Uniform, ClassBalanced, DenseTriplet])
def test_no_batch_is_larger_than_its_size_or_a_single_point(kind, size):
    sampler = kind(batch_size=size)
    if kind is DenseTriplet:
        sampler.set_params(n_neighbors=1)
    for n in (2, 3, 4, 9, 17, 129, 191, 193):
        sizes = {len(b.rows) for b in sampler.prepare(np.arange(n) % 5)(np.random.RandomState(0))}
        assert min(sizes) >= 2
        assert max(sizes) <= size or (size == 2 and n % 2 and max(sizes) == 3)


def test_classes_have_company():
    y = np.array([f"class {i % 40}" for i in range(400)])
    epoch = ClassBalanced(5, 20).prepare(y)
    for batch in epoch(np.random.RandomState(0)):
        assert (np.unique(y[batch.rows], return_counts=True)[1] % 5 == 0).all()


@pytest.mark.parametrize(("m", "size"), [(4, 5), (2, 3), (3, 7), (8, 9)])
def test_no_group_has_a_single_point(m, size):
    y = np.repeat(np.arange(200), size)
    batches = list(ClassBalanced(m, 90).prepare(y)(np.random.RandomState(0)))
    alone = [(np.bincount(y[batch.rows]) == 1).sum() for batch in batches]
    assert sum(alone) <= 2 * len(batches)  # a batch may cut a group


def test_database_points_of_a_class_are_drawn_in_turn():
    y = np.repeat([0, 1], 12)
    epoch = ClassBalanced(3, 6).prepare(y, y_database=np.repeat([0, 1], 30))
    for seed in range(10):
        drawn = [
            batch.rows[batch.n_anchors :][: 3 * len(np.unique(y[batch.rows[: batch.n_anchors]]))]
            for batch in epoch(np.random.RandomState(seed))
        ]
        assert np.bincount(np.concatenate(drawn)).max() == 1


def test_dense_batches():
    y = RNG.normal(size=200)
    sampler = DenseTriplet(4, 30, 3)
    near = np.argsort(np.abs(y[:, None] - y), axis=1, kind="stable")[:, 1:5]
    for batch in sampler.prepare(y)(np.random.RandomState(0)):
        assert len(batch.rows) == 30
        assert batch.n_anchors in (3, 200 % 3)
        for anchor in batch.rows[: batch.n_anchors]:
            assert set(near[anchor]) <= set(batch.rows)


def test_the_rest_is_drawn_uniformly():
    epoch = DenseTriplet(0, 11).prepare(np.arange(100.0))
    rng = np.random.RandomState(0)
    counts = np.zeros(100)
    for _ in range(20):
        for batch in epoch(rng):
            counts[batch.rows[1:]] += 1
    # 20 epochs of 100 batches draw each point about 200 times, with a standard deviation of 13.
    assert abs(counts.mean() - 200) < 1e-9
    assert 9 < counts.std() < 18
    assert np.abs(counts - 200).max() < 60


@pytest.mark.parametrize(
    ("sampler", "y", "message"),
    [
        (Uniform(2.5), np.zeros(9), "batch_size must be"),
        (ClassBalanced(), np.array([0, 1, np.nan]), "y contains NaN or infinity"),
        (ClassBalanced(), np.array(["a", None]), "y contains None"),
        (ClassBalanced(), [], "y must hold one label per point; found none"),
        (Uniform(), [], "y must hold one label per point; found none"),
        (Uniform(), 3, "y must hold one label per point; found 3"),
        (DenseTriplet(-1), np.zeros(9), "n_neighbors must be an integer of at least 0"),
        (DenseTriplet(n_anchors=0), np.zeros(9), "n_anchors must be"),
        (DenseTriplet(5, 6, 2), np.zeros(9), r"batch_size must be at least .* = 12, got 6"),
        (DenseTriplet(), np.zeros((2, 0)), "y must hold one label per point"),
        (DenseTriplet(), np.ma.masked_equal([1.0, 2.0], 2), "y has 1 masked values"),
        (DenseTriplet(label_distance="euclidean"), np.zeros((2, 0)), "y must hold one label"),
        (Uniform(), b"ab", "y must hold one label per point"),
        (DenseTriplet(), np.zeros((2, 2, 2)), "y must hold one label per point"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_parameters_and_labels(sampler, y, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        sampler.prepare(y)


def test_a_random_state_may_be_a_generator():
    y = np.random.default_rng(0).integers(5, size=40).astype(float)
    epochs = [
        DenseTriplet(n_neighbors=2, batch_size=6).prepare(y, random_state=state)
        for state in (3, np.random.RandomState(3))
    ]
    one, other = ([batch.rows for batch in epoch(np.random.RandomState(0))] for epoch in epochs)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
