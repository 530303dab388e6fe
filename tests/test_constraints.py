"""Drawing of constraints from labels."""

from itertools import combinations

import numpy as np
import pytest
from sklearn.datasets import load_iris

import metricfast.constraints as constraints_module
from metricfast import (
    Constraints,
    ITML_Supervised,
    LSML_Supervised,
    MMC_Supervised,
    SDML_Supervised,
)
from metricfast.constraints import wrap_indices, wrap_pairs

X, Y = load_iris(return_X_y=True)
PARTIAL = np.where(np.arange(150) % 4 == 0, -1, Y)


def unordered(a, b):
    return {frozenset(pair) for pair in zip(a.tolist(), b.tolist(), strict=True)}


def all_pairs(labels, same):
    known = np.flatnonzero(np.asarray(labels) >= 0).tolist()
    return {
        frozenset((i, j)) for i, j in combinations(known, 2) if (labels[i] == labels[j]) == same
    }


@pytest.mark.parametrize("n", [0, 1, 40, 500, 2000, 2035])
def test_pairs_are_of_known_classes_and_differ(n):
    a, b, c, d = Constraints(PARTIAL).positive_negative_pairs(n, random_state=0)
    for left, right in ((a, b), (c, d)):
        assert left.dtype == right.dtype == np.int64
        assert left.shape == right.shape
        assert len(unordered(left, right)) == n
    assert unordered(a, b) <= all_pairs(PARTIAL, same=True)
    assert unordered(c, d) <= all_pairs(PARTIAL, same=False)


@pytest.mark.parametrize("labels", [[0, 0, 0, 1, 1, 2, -1], [5, 3, 3, 5, 3, 0, 0, 0, 0], [1, 1]])
def test_all_pairs_are_found_where_more_are_wanted(labels):
    """metric-learn counts a pair once in each order: it finds 8 positive pairs in the first."""
    positive, negative = (len(all_pairs(labels, same)) for same in (True, False))
    with pytest.warns(UserWarning, match="Only generated") as caught:
        a, b, c, d = Constraints(labels).positive_negative_pairs(1000, random_state=1)
    assert [str(w.message) for w in caught] == [
        f"Only generated {positive} positive constraints (requested 1000)",
        f"Only generated {negative} negative constraints (requested 1000)",
    ]
    assert unordered(a, b) == all_pairs(labels, same=True)
    assert unordered(c, d) == all_pairs(labels, same=False)


@pytest.mark.parametrize("seed", range(5))
def test_nearly_all_pairs_need_no_luck(seed):
    """Draws rarely hit the right class, so the missing pairs come from a list of all pairs."""
    labels = np.r_[np.zeros(30, int), np.repeat(np.arange(1, 300), 2)]
    total = len(all_pairs(labels, same=True))
    for n in (total // 3, total // 2, total - 1, total):
        a, b, *_ = Constraints(labels).positive_negative_pairs(n, random_state=seed)
        assert len(unordered(a, b)) == len(a) == n


def test_a_point_and_then_a_partner_are_drawn_with_equal_chances():
    labels = np.repeat([0, 1, 2], (10, 30, 60))
    draws = [Constraints(labels).positive_negative_pairs(10, random_state=s) for s in range(2000)]
    a, b, c, d = (np.concatenate(side) for side in zip(*draws, strict=True))
    # Uniqueness within a draw of ten hardly matters.
    expected = np.array([0.1, 0.3, 0.6])
    np.testing.assert_allclose(np.bincount(labels[a]) / len(a), expected, atol=0.015)
    for i, j in combinations(range(3), 2):
        p, q = expected[i], expected[j]
        found = np.mean((labels[c] == i) & (labels[d] == j))
        assert found == pytest.approx(p * q / (1 - p) + q * p / (1 - q), abs=0.015)
    # Within a class, all partners are as likely.
    within = np.r_[a[labels[a] == 0], b[labels[a] == 0]]
    np.testing.assert_allclose(np.bincount(within) / len(within), 0.1, atol=0.02)


def test_weights_are_chances():
    labels, weight = np.repeat([0, 1, 2], (150, 400, 700)), np.arange(1250) % 3 * 1.5
    draws = [
        Constraints(labels).positive_negative_pairs(1000, random_state=s, sample_weight=weight)
        for s in range(20)
    ]
    a, b, c, d = (np.concatenate(side) for side in zip(*draws, strict=True))
    group, same = 3 * labels + np.arange(1250) % 3, labels[:, None] == labels
    members = group == np.arange(9)[:, None]
    np.fill_diagonal(same, False)
    for (left, right), able in (((a, b), same), ((c, d), labels[:, None] != labels)):
        partner = able * weight
        pairs = (weight / weight.sum())[:, None] * partner / partner.sum(axis=1, keepdims=True)
        expected = members @ (pairs + pairs.T) @ members.T
        found = np.zeros((9, 9))
        np.add.at(found, (group[left], group[right]), 1 / len(left))
        assert not (found + found.T)[expected == 0].any()
        # Uniqueness within a draw hardly matters.
        np.testing.assert_allclose(found + found.T, expected, atol=0.015)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n", [1, 100, 300, 600, 1000, 5000])
def test_weighted_pairs_are_found_however_unequal_the_weights(n):
    weight = np.where(np.arange(150) % 2, 0, 10.0 ** -(np.arange(150) % 19))
    labels = np.where(weight > 0, Y, -1)
    numbers = [min(n, len(all_pairs(labels, same))) for same in (True, False)]
    a, b, c, d = Constraints(Y).positive_negative_pairs(n, random_state=0, sample_weight=weight)
    for left, right, number in zip((a, c), (b, d), numbers, strict=True):
        assert len(unordered(left, right)) == len(left) == number
    assert unordered(a, b) <= all_pairs(labels, same=True)
    assert unordered(c, d) <= all_pairs(labels, same=False)


@pytest.mark.filterwarnings("ignore:Only generated 0 negative")
def test_few_weighted_pairs_are_drawn_without_replacement():
    """If half of the pairs are drawn, weights determine the chance to come first."""
    weight = np.array([1.0, 2, 3, 4])
    draws = [
        Constraints([0] * 4).positive_negative_pairs(3, random_state=s, sample_weight=weight)[:2]
        for s in range(500)
    ]
    found = np.mean([{a[0], b[0]} == {2, 3} for a, b in draws])
    assert found == pytest.approx(12 / 35, abs=0.07)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "learner", [ITML_Supervised, LSML_Supervised, MMC_Supervised, SDML_Supervised]
)
def test_points_of_weight_zero_are_in_no_class(learner):
    model, weight = learner(n_constraints=3, random_state=0), (Y == 1).astype(float)
    with pytest.raises(ValueError, match=r"2 classes of a weight above 0 .* got 1"):
        model.fit(X, Y, sample_weight=weight)
    weight[:9] = 1
    assert np.isfinite(model.fit(X, Y, sample_weight=weight).components_).all()
    weight[1:] = Y[1:] * np.r_[1, np.diff(Y[1:])]  # a point of each class
    if learner in (LSML_Supervised, MMC_Supervised):
        expected = pytest.raises(ValueError, match="a class of at least 2 points of a weight above")
        with pytest.warns(UserWarning, match="Only generated 0 positive"), expected:
            model.fit(X, Y, sample_weight=weight)


def test_weights_must_be_weights():
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(150,\); found \(3,\)"):
        Constraints(Y).positive_negative_pairs(3, sample_weight=[1, 1, 1])
    with pytest.raises(ValueError, match="sample_weight must not be negative"):
        Constraints(Y).positive_negative_pairs(3, sample_weight=-np.ones(150))


def test_no_pair_of_one_kind_is_no_crash():
    """metric-learn fails to unpack an empty array."""
    with pytest.warns(UserWarning, match="Only generated 0 positive constraints"):
        a, b, c, d = Constraints([0, 1, 2]).positive_negative_pairs(3, random_state=0)
    assert a.shape == b.shape == (0,)
    assert unordered(c, d) == all_pairs([0, 1, 2], same=False)
    with pytest.warns(UserWarning, match="Only generated 0"):
        empty = Constraints([-1, -1]).positive_negative_pairs(3)
    assert [side.shape for side in empty] == [(0,)] * 4


def test_the_former_name_counts():
    """metric-learn warns about num_constraints, and then ignores it."""
    message = (
        '"num_constraints" parameter has been renamed to "n_constraints". It has been deprecated in'
        " version 0.6.3 of metric-learn: use n_constraints."
    )
    with pytest.warns(FutureWarning) as caught:
        a, _, c, _ = Constraints(Y).positive_negative_pairs(7, num_constraints=4, random_state=0)
    assert [str(w.message) for w in caught] == [message]
    assert len(a) == len(c) == 4
    with pytest.warns(FutureWarning, match='"num_chunks" parameter has been renamed to "n_chunks"'):
        chunks = Constraints(Y).chunks(3, num_chunks=5, random_state=0)
    assert chunks.max() == 4


def test_same_length():
    labels = [0, 0, 1, 1, 1, 2]
    with pytest.warns(UserWarning, match="Only generated"):
        sides = Constraints(labels).positive_negative_pairs(50, same_length=True, random_state=0)
    assert [len(side) for side in sides] == [4] * 4


def test_random_state():
    draws = [
        np.array(Constraints(Y).positive_negative_pairs(40, random_state=s)) for s in (0, 0, 1)
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])
    generator = np.random.RandomState(0)
    np.testing.assert_array_equal(
        draws[0], Constraints(Y).positive_negative_pairs(40, random_state=generator)
    )


def test_many_points_take_memory_in_proportion():
    """metric-learn compares each drawn point's label with all others: minutes here."""
    labels = np.random.RandomState(0).randint(1000, size=300_000)
    a, b, c, d = Constraints(labels).positive_negative_pairs(200_000, random_state=0)
    assert (labels[a] == labels[b]).all()
    assert (labels[c] != labels[d]).all()
    assert (a != b).all()
    assert len(np.unique(np.sort(np.c_[a, b]), axis=0)) == len(a) == len(c) == 200_000


def brute_triplets(points, labels, k_genuine, k_impostor):
    points = np.asarray(points, float)
    known = np.flatnonzero(labels >= 0)
    triplets = []
    for i in sorted(known, key=lambda i: (labels[i], i)):
        by_distance = sorted(known, key=lambda j: (np.sum((points[i] - points[j]) ** 2), j))
        genuine = [j for j in by_distance if labels[j] == labels[i] and j != i][:k_genuine]
        impostors = [j for j in by_distance if labels[j] != labels[i]][:k_impostor]
        triplets += [(i, j, k) for j in genuine for k in impostors]
    return np.array(triplets)


@pytest.mark.parametrize(("k_genuine", "k_impostor"), [(1, 1), (3, 10), (4, 2)])
@pytest.mark.parametrize("labels", [Y, PARTIAL], ids=["known", "partial"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_triplets_are_those_of_brute_force(labels, k_genuine, k_impostor, dtype):
    """With unknown labels, metric-learn returns indices among the known points only."""
    points = X.astype(dtype)
    triplets = Constraints(labels).generate_knntriplets(points, k_genuine, k_impostor)
    assert triplets.dtype == np.int64
    np.testing.assert_array_equal(triplets, brute_triplets(points, labels, k_genuine, k_impostor))


@pytest.mark.filterwarnings("ignore:The class")
def test_small_classes_share_one_search(monkeypatch):
    """To prepare a search for each class takes longer than the search."""
    searches = []
    kneighbors = constraints_module.kneighbors
    counted = lambda *given, **how: searches.append(1) or kneighbors(*given, **how)  # noqa: E731
    monkeypatch.setattr(constraints_module, "kneighbors", counted)
    points = np.random.default_rng(0).integers(0, 6, (150, 2)).astype(float)  # with ties
    labels = np.r_[np.zeros(60, int), 1 + np.arange(90) // 2]
    triplets = Constraints(labels).generate_knntriplets(points, 3, 4)
    np.testing.assert_array_equal(triplets, brute_triplets(points, labels, 3, 4))
    assert len(searches) == 4  # of neighbours of both kinds, for the large class and all others


def test_triplets_of_small_classes():
    points, labels = np.array([[0.0], [1], [3], [7], [8], [20]]), np.array([0, 0, 0, 1, 1, 2])
    with pytest.warns(UserWarning, match="is not sufficient") as caught:
        triplets = Constraints(labels).generate_knntriplets(points, 2, 4)
    genuine = (
        "The class {} has {} elements, which is not sufficient to generate 3 genuine neighbors as "
        "specified by k_genuine. Will generate {} genuine neighbors instead.\n"
    )
    impostor = (
        "The class 0 has 3 elements of other classes, which is not sufficient to generate 4 "
        "impostor neighbors as specified by k_impostor. Will generate 3 impostor neighbors "
        "instead.\n"
    )
    assert [str(w.message) for w in caught] == [
        impostor,
        genuine.format(1, 2, 1),
        genuine.format(2, 1, 0),
    ]
    # metric-learn fails here: a point that is alone in its class has no triplet.
    np.testing.assert_array_equal(triplets, brute_triplets(points, labels, 2, 4))
    with pytest.warns(UserWarning, match="0 elements of other classes"):
        assert Constraints([1, 1, 1]).generate_knntriplets(points[:3], 1, 1).shape == (0, 3)


@pytest.mark.parametrize("labels", [Y, PARTIAL], ids=["known", "partial"])
def test_chunks_are_of_one_class_each(labels):
    chunks = Constraints(labels).chunks(n_chunks=20, chunk_size=3, random_state=0)
    assert chunks.shape == labels.shape
    assert (chunks[labels < 0] == -1).all()
    np.testing.assert_array_equal(np.bincount(chunks + 1), [90, *[3] * 20])
    for number in range(20):
        assert len(set(labels[chunks == number])) == 1


def test_chunks_come_from_all_classes():
    """metric-learn does not draw the last class while others have points: no iris of class 2."""
    counts = [
        np.bincount(Y[Constraints(Y).chunks(20, 2, random_state=s) >= 0], minlength=3)
        for s in range(200)
    ]
    np.testing.assert_allclose(np.mean(counts, axis=0), 40 / 3, atol=1)
    assert np.min(counts) > 0


def test_as_many_chunks_as_possible_and_no_more():
    labels = np.array([0] * 7 + [1] * 4 + [2] * 2 + [-1] * 9)
    chunks = Constraints(labels).chunks(n_chunks=3, chunk_size=3, random_state=0)
    assert sorted(labels[chunks >= 0]) == [0] * 6 + [1] * 3
    message = (
        "Not enough possible chunks of 3 elements in each class to form expected 4 chunks - "
        "maximum number of chunks is 3"
    )
    with pytest.raises(ValueError, match=message):
        Constraints(labels).chunks(n_chunks=4, chunk_size=3)


def test_wrapping():
    sides = [0, 1], [2, 3], [4], [5]
    index, y = wrap_indices(sides)
    assert index.tolist() == [[0, 2], [1, 3], [4, 5]]
    assert y.tolist() == [1, 1, -1]
    pairs, labels = wrap_pairs(X, sides)
    np.testing.assert_array_equal(pairs, X[index])
    np.testing.assert_array_equal(labels, y)
    np.testing.assert_array_equal(wrap_pairs(np.arange(6) * 10, sides)[0], index * 10)
    empty, none = wrap_pairs(X, ([], [], [], []))
    assert (empty.shape, none.shape) == ((0, 2, 4), (0,))


def test_labels_of_any_whole_kind():
    for labels in (list(Y), Y.astype(float), Y.astype(np.uint8), Y.astype(object)):
        np.testing.assert_array_equal(Constraints(labels).partial_labels, Y)


def test_text_names_classes():
    names = np.array(["lynx", "ant", "-1"])[Y % 3]
    found = Constraints(names).positive_negative_pairs(20, random_state=0)
    expected = Constraints(np.array([2, 1, 0])[Y % 3]).positive_negative_pairs(20, random_state=0)
    np.testing.assert_array_equal(np.concatenate(found), np.concatenate(expected))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("labels", [[2**70, 1], [0.5, 1.0], [np.nan, 1.0], [None, 1]], ids=str)
def test_other_labels_are_refused(labels):
    """metric-learn rounds 0.5 to class 0."""
    with pytest.raises(ValueError, match=r"partial_labels (must be whole numbers|contains N)"):
        Constraints(labels)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.positive_negative_pairs(-1), "n_constraints must be"),
        (lambda c: c.generate_knntriplets(X, 0, 1), "k_genuine must be"),
        (lambda c: c.generate_knntriplets(X[:4], 1, 1), "X must hold 150 points, one per label"),
        (lambda c: c.chunks(chunk_size=0), "chunk_size must be"),
        (lambda c: wrap_pairs(X[:3], ([0], [3], [1], [-1])), "must hold indices from -3 to 2 of"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(Constraints(Y))
