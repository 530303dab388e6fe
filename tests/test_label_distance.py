"""Label distances by name, function and matrix, for vectors and other labels."""

import itertools

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import haversine_distances

from metricfast import LogRatioLearner, losses
from metricfast._labels import distance as _label_distance
from metricfast._labels.binding import bind_labels
from metricfast._labels.neighbors import label_neighbors, label_neighbors_between
from metricfast.metrics import label_disjoint_folds, retrieval_report
from metricfast.samplers import DenseTriplet

RNG = np.random.default_rng(0)
N = 40
ANGLES = np.linspace(-np.pi, np.pi, N)
BINARY = RNG.integers(0, 2, (N, 6))
BINARY[[3, 17]] = 0  # two empty sets are equal
SETS = [{f"word {i}" for i in np.flatnonzero(row)} for row in BINARY]
VECTORS = RNG.normal(size=(N, 3))
GLOBE = np.column_stack([np.arcsin(RNG.uniform(-1, 1, N)), RNG.uniform(-np.pi, np.pi, N)])
CODES = np.array([list(word) for word in RNG.choice(["ACGT", "ACGA", "TTGA", "CCCC"], N)])


def jaccard(a, b):
    return 1 - len(a & b) / len(a | b) if a | b else 0.0


def pairs(function, labels):
    return np.array([[function(a, b) for b in labels] for a in labels])


def turned(period):
    def between(a, b):
        away = np.abs(np.subtract(a, b)) % period
        return np.sqrt((np.minimum(away, period - away) ** 2).sum())

    return between


# Labels, and several specifications of the same distance; the first is a matrix.
SAME = {
    "euclidean": (VECTORS, cdist(VECTORS, VECTORS), ["euclidean", cdist]),
    "cityblock": (VECTORS, cdist(VECTORS, VECTORS, "cityblock"), ["cityblock"]),
    "cosine": (VECTORS, cdist(VECTORS, VECTORS, "cosine"), ["cosine"]),
    "chebyshev": (VECTORS, cdist(VECTORS, VECTORS, "chebyshev"), ["chebyshev"]),
    "angle": (
        ANGLES,
        pairs(turned(2 * np.pi), ANGLES),
        [("angular", 2 * np.pi), turned(2 * np.pi), lambda a, b: np.arccos(np.cos(a[:, None] - b))],
    ),
    "angles": (
        100 * VECTORS,
        pairs(turned(np.array([360, 180, np.inf])), 100 * VECTORS),
        [("angular", (360, 180, np.inf))],
    ),
    "globe": (GLOBE, haversine_distances(GLOBE), ["haversine"]),
    "binary": (BINARY, pairs(jaccard, SETS), ["jaccard"]),
    "sets": (SETS, pairs(jaccard, SETS), ["jaccard", jaccard, ("metric", jaccard)]),
    "hamming": (BINARY, cdist(BINARY, BINARY, "hamming"), ["hamming"]),
    "letters": (
        CODES,
        pairs(lambda a, b: np.mean(a != b), CODES),
        ["hamming", lambda a, b: np.mean(a != b)],
    ),
}
WAYS = [
    pytest.param(labels, matrix, said, id=f"{name}-{i}")
    for name, (labels, matrix, ways) in SAME.items()
    for i, said in enumerate(ways)
]
every_way = pytest.mark.parametrize(("labels", "matrix", "said"), WAYS)


@every_way
@pytest.mark.parametrize("ties", ["keep", "drop"])
def test_neighbors_by_any_distance(labels, matrix, said, ties, monkeypatch):
    monkeypatch.setattr(_label_distance, "_MEMORY", 10_000)
    distance, own, _ = bind_labels(said, labels)
    found = label_neighbors(own, 5, distance=distance, ties=ties, rng=np.random.RandomState(0))
    for i, row in enumerate(found):
        others = np.delete(np.arange(N), i)
        if ties == "drop":
            others = others[matrix[i, others] > 1e-7]
        wanted = min(5, len(others))
        near = row[:wanted]
        assert (row[wanted:] == -1).all()
        assert len(set(near)) == wanted
        assert set(near) <= set(others)
        np.testing.assert_allclose(matrix[i, near], np.sort(matrix[i, others])[:wanted], atol=1e-7)


@every_way
def test_losses_and_metrics_agree_with_the_matrix(labels, matrix, said):
    Z = RNG.normal(size=(N, 2))
    for kind in (losses.LogRatio, losses.RankNContrast, losses.CoSENT):
        # Skip data with ties that rounding would break.
        if kind is losses.LogRatio or len(np.unique(matrix)) > N * N / 3:
            value, gradient = kind(label_distance=said)(Z, labels)
            expected = kind(label_distance="precomputed")(Z, matrix)
            assert value == pytest.approx(expected[0], rel=1e-6)
            np.testing.assert_allclose(gradient, expected[1], rtol=1e-5, atol=1e-6)
    report = retrieval_report(Z, labels, k=3, label_distance=said)
    expected = retrieval_report(Z, matrix, k=3, label_distance="precomputed")
    assert list(report) == ["ndcg_at_k", "mean_label_distance_at_k", "spearman"]
    for name in ("ndcg_at_k", "mean_label_distance_at_k"):
        for part in ("mean", "chance", "oracle"):
            found = getattr(report[name], part)
            assert found == pytest.approx(getattr(expected[name], part), abs=1e-7)
    two_sides = retrieval_report(
        Z[:9], labels[:9], Z[9:], labels[9:], k=3, label_distance=said, metrics="ndcg_at_k"
    )
    expected = retrieval_report(
        Z[:9], matrix[:9, 9:], Z[9:], k=3, label_distance="precomputed", metrics="ndcg_at_k"
    )
    np.testing.assert_allclose(
        two_sides["ndcg_at_k"].values, expected["ndcg_at_k"].values, atol=1e-7
    )


@every_way
def test_folds_are_cut_by_the_distance(labels, matrix, said):
    for given, how in ((labels, said), (matrix, "precomputed")):
        folds = label_disjoint_folds(given, 3, label_distance=how, random_state=0)
        tests = [test for _, test in folds]
        np.testing.assert_array_equal(np.sort(np.concatenate(tests)), range(N))
        assert min(map(len, tests)) > 0
        for a, b in itertools.permutations(tests, 2):
            if how != "euclidean":  # k-means divides vectors
                assert matrix[np.ix_(a, b)].min() > 1e-7


def letters(a, b):
    """Return the number of letters that differ, which has many ties."""
    return sum(x != y for x, y in zip(a, b, strict=True))


WORDS = ["".join(word) for word in RNG.choice(["AC", "GT", "GA"], (300, 3))[:120]]


@pytest.mark.parametrize(
    ("function", "labels"),
    [
        pytest.param(letters, WORDS, id="ties"),
        pytest.param(letters, ["same"] * 50, id="equal"),
        pytest.param(cdist, np.round(RNG.normal(size=(300, 2)), 1), id="arrays"),
        pytest.param(lambda a, b: abs(np.float32(a) - np.float32(b)), 1e5 + ANGLES, id="float32"),
    ],
)
@pytest.mark.parametrize("ties", ["keep", "drop"])
def test_a_metric_finds_what_blocks_find(function, labels, ties):
    metric, labels, _ = bind_labels(("metric", function), labels)
    blocks, labels, _ = bind_labels(function, labels)
    for k in (0, 1, 7, len(labels) - 1):
        found = [
            label_neighbors(labels, k, distance=distance, ties=ties, rng=np.random.RandomState(0))
            for distance in (metric, blocks)
        ]
        np.testing.assert_array_equal(*found)
        found = [
            label_neighbors_between(
                labels[:9], labels[3:], min(k, len(labels) - 3), distance, ties=ties,
                rng=np.random.RandomState(0),
            )
            for distance in (metric, blocks)
        ]  # fmt: skip
        np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(("columns", "share"), [(1, 0.02), (2, 0.05), (3, 0.1)])
def test_a_metric_compares_few_pairs(columns, share):
    compared = []

    def counted(a, b):
        compared.append(len(a) * len(b))
        return cdist(a, b)

    n = 2_000
    distance, labels, _ = bind_labels(("metric", counted), RNG.normal(size=(n, columns)))
    label_neighbors(labels, 5, distance=distance)
    assert sum(compared) < share * n * n
    assert len(compared) < n  # each call handles many queries


class Watched(np.memmap):
    """A memory map that records the size of reads."""

    read = 0

    def __getitem__(self, index):
        found = super().__getitem__(index)
        Watched.read = max(Watched.read, found.size)
        return np.asarray(found)


def test_no_more_than_a_block_of_a_matrix_is_read(tmp_path, monkeypatch):
    n = 300
    labels = RNG.normal(size=(n, 2))
    matrix = Watched(tmp_path / "distances", np.float32, "w+", shape=(n, n))
    matrix[:] = cdist(labels, labels)
    monkeypatch.setattr(_label_distance, "_MEMORY", 32 * 2 * n * 10)
    Watched.read = 0
    sampler = DenseTriplet(3, 10, label_distance="precomputed")
    found = [batch.rows for batch in sampler.prepare(matrix)(np.random.RandomState(0))]
    expected = DenseTriplet(3, 10).prepare(labels)(np.random.RandomState(0))
    assert [set(rows[:4]) for rows in found] == [set(batch.rows[:4]) for batch in expected]
    assert 0 < Watched.read <= 10 * n


@pytest.mark.parametrize(
    ("said", "labels", "message"),
    [
        ("angular", ANGLES, r"needs the period: \('angular', 360\)"),
        (("angular", 0), ANGLES, "needs a period above 0"),
        (("angular", (1, 2)), ANGLES, "y must have 2 columns, one for each period"),
        ("cosines", ANGLES, "label_distance must be one of .*; found 'cosines'"),
        ("seuclidean", VECTORS, "depends on which labels are compared"),
        ("euclidean", SETS, "y must hold numbers.*found a set"),
        ("cosine", np.zeros((4, 2)), "y must not hold rows of zeros"),
        ("haversine", 50 * GLOBE, "radians .*np.radians"),
        ("haversine", VECTORS, "found 3 columns"),
        ("hamming", ["ACGT", "ACGA"], "divide texts into characters"),
        ("jaccard", VECTORS, "y must hold sets, or rows of 0 and 1"),
        ("jaccard", [["a"], ["b", "c"]], r"make sets of lists of words, \[set\(words\)"),
        ("precomputed", np.zeros(4), "y must hold the distances of all labels"),
        (jaccard, [{1}, None], "y must hold a label for each point, but contains None"),
        (lambda a, b: [0, 1], SETS, "must be a function of two labels, .* it raised ValueError"),
        (lambda a, b: a.missing, SETS, "AttributeError"),
        ("euclidean", [1.0, np.nan], "y contains NaN"),
        (("metric", "jaccard"), SETS, "needs a function f of two labels.*found 'jaccard'"),
        ("euclidean", np.zeros((3, 2, 2)), "y must hold numbers, one or several"),
    ],
)
def test_labels_without_such_a_distance(said, labels, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        bind_labels(said, labels)
    with pytest.raises(ValueError, match=f"(?s){message}"):
        DenseTriplet(1, label_distance=said).prepare(labels)


def test_what_a_function_gives():
    for found, message in ((-1.0, "from 0 on; found -1.0"), (np.nan, "finite distances")):
        distance, labels, _ = bind_labels(lambda a, b, found=found: found, SETS)
        with pytest.raises(ValueError, match=message):
            distance(labels, labels)
    distance, labels, _ = bind_labels(lambda a, b: np.zeros((len(a) % 8, len(b) % 8)), VECTORS)
    with pytest.raises(ValueError, match=r"of shape \(40, 40\); found \(0, 0\)"):
        distance(labels, labels)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda a, b: (a - b) ** 2, r"some f\(a, c\) is larger than f\(a, b\) \+ f\(b, c\)"),
        (lambda a, b: max(a - b, 0.0), r"f\(a, b\) differs from f\(b, a\)"),
        (lambda a, b: 1.0, "a label is not at distance 0 from itself"),
    ],
)
def test_a_function_that_is_no_metric(function, message):
    with pytest.raises(ValueError, match=f"label_distance .* but {message}: give the function f"):
        DenseTriplet(1, label_distance=("metric", function)).prepare(ANGLES)


def test_two_sides_of_another_width_or_given_twice():
    with pytest.raises(ValueError, match="as many columns"):
        bind_labels("cosine", VECTORS, VECTORS[:, :2])
    with pytest.raises(ValueError, match="y_database must be None"):
        bind_labels("precomputed", np.eye(3), [1, 2, 3])
    for call in (
        lambda y: DenseTriplet(1, label_distance="precomputed").prepare(y),
        lambda y: label_disjoint_folds(y, 2, label_distance="precomputed"),
    ):
        with pytest.raises(ValueError, match=r"of shape \(3, 3\); found \(3, 4\)"):
            call(np.ones((3, 4)))


def test_rows_of_a_single_one_are_classes():
    X, rows = RNG.normal(size=(12, 2)), np.eye(3)[np.arange(12) % 3]
    for labels in (rows, rows.astype(int).tolist()):
        with pytest.raises(ValueError, match=r"labels encode classes .* np.argmax\(labels, axis=1"):
            retrieval_report(X, labels, k=2)
    with pytest.raises(ValueError, match="y encode classes"):
        label_disjoint_folds(rows, 2)
    assert "spearman" in retrieval_report(X, rows, k=2, label_distance="euclidean")
    assert "map_at_r" in retrieval_report(X, rows.argmax(axis=1), k=2)


def test_objects_need_a_distance():
    with pytest.raises(ValueError, match=r"must hold classes or numbers; .* label_distance"):
        retrieval_report(np.zeros((N, 1)), SETS, k=2)
    with pytest.raises(ValueError, match=r"y must hold numbers.*'set'.* label_distance"):
        LogRatioLearner().fit(np.zeros((N, 1)), SETS)
    with pytest.raises(ValueError, match="label_distance needs labels='dense'"):
        losses.Triplet(label_distance="cosine")(np.zeros((3, 1)), [0, 0, 1])
