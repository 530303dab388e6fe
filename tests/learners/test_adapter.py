"""Adapters of given embeddings: what is learned, what is left alone, and what is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from benchmarks import adapter_data, data
from c_library import Model as CModel
from reference import numeric_gradient
from scipy.sparse import csr_array
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.metrics import average_precision_score

from metricfast import AdapterLearner, load, losses, save
from metricfast.callbacks import Checkpoint
from metricfast.embeddings import Asymmetric, Identity, Linear
from metricfast.exceptions import PreprocessorError
from metricfast.learners.base.inputs import begin_fit
from metricfast.learners.embedding.adapter_training import (
    AdapterTraining,
    _Fold,
    _MapObjective,
    affordable,
    nearest_of_rank,
    one_sided,
)
from metricfast.learners.embedding.pairs import Pairs, PrefixesLoss, load_pairs
from metricfast.selection import Judge
from metricfast.training.objective import Objective
from metricfast.training.problem import Problem
from metricfast.training.solvers import LBFGS
from metricfast.training.train import solve

RNG = np.random.default_rng(0)
N, N_FEATURES = 700, 12
# Queries and documents share 4 numbers. Others differ, and are larger.
MAPS = RNG.normal(size=(8, N_FEATURES))


def sides(n, seed=0):
    rng = np.random.default_rng(seed)
    shared, found = rng.normal(size=(n, 4)), []
    for _ in range(2):
        numbers = np.c_[shared + 0.3 * rng.normal(size=(n, 4)), 2 * rng.normal(size=(n, 4))]
        found.append(numbers @ MAPS + 0.05 * rng.normal(size=(n, N_FEATURES)))
    return found


QUERIES, DOCUMENTS = sides(N)
_OTHERS = np.arange(N) % 2 * RNG.integers(0, N, N)  # half of the pairs are wrong
POSITIVES = np.stack([QUERIES, DOCUMENTS], axis=1)
PAIRS = np.stack([QUERIES, DOCUMENTS[np.where(_OTHERS > 0, _OTHERS, np.arange(N))]], axis=1)
SCORES = np.where(_OTHERS > 0, 0.0, 4.0) + RNG.normal(size=N)
TRAIN, TEST = slice(500), slice(500, None)
EVERY_SIDE = pytest.mark.parametrize("side", ["both", "query", "database"])


def cosines(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


@pytest.fixture(scope="module")
def fitted():
    """An adapter of scores and one of positives, for each side."""
    return {
        (side, kind): AdapterLearner(side, random_state=0).fit(
            *((PAIRS[TRAIN], SCORES[TRAIN]) if kind == "scores" else (POSITIVES[TRAIN],))
        )
        for side in ("both", "query", "database")
        for kind in ("scores", "positives")
    }


@EVERY_SIDE
def test_cosines_follow_scores(fitted, side):
    model = fitted[side, "scores"]
    a, b = PAIRS[TEST, 0], PAIRS[TEST, 1]
    given = spearmanr(cosines(a, b), SCORES[TEST])[0]
    score = model.score(PAIRS[TEST], SCORES[TEST])
    assert score > given + (0.15 if side == "both" else 0.05)
    mapped = model.transform(a, side="query"), model.transform(b, side="database")
    assert score == pytest.approx(spearmanr(cosines(*mapped), SCORES[TEST])[0])
    assert score == pytest.approx(spearmanr(model.pair_score(PAIRS[TEST]), SCORES[TEST])[0])
    assert model.start_ == ("identity" if side == "both" else "regression")
    judgement = model.judgement_
    assert judgement.names[0] == "given distance"
    assert judgement.name.startswith(model.start_)
    assert (
        judgement.costs[judgement.chosen]
        < judgement.costs[0] - 2 * judgement.errors[judgement.chosen]
    )
    assert (judgement.measure, judgement.unit) == ("Spearman's correlation", "pairs")


@EVERY_SIDE
def test_documents_are_found(fitted, side):
    model = fitted[side, "positives"]
    queries, database = QUERIES[TEST], DOCUMENTS[TEST]
    given = _unchanged(side).score(POSITIVES[TEST])
    assert model.score(POSITIVES[TEST]) > given + (0.15 if side == "both" else 0.02)
    rank = [
        1 + np.flatnonzero(row == i)[0]
        for i, row in enumerate(model.kneighbors(queries, database, len(database))[1])
    ]
    assert model.score(POSITIVES[TEST]) == pytest.approx(np.mean(1 / np.array(rank)))


def _unchanged(side):
    """Return an adapter that kept the identity because there were too few pairs."""
    with pytest.warns(
        UserWarning, match="Nothing could be held out.*the given distance stays: give more queries"
    ):
        return AdapterLearner(side).fit(POSITIVES[:20])


@pytest.mark.parametrize(("side", "other"), [("query", "database"), ("database", "query")])
def test_the_other_side_stays(fitted, side, other):
    unit = QUERIES / np.linalg.norm(QUERIES, axis=1, keepdims=True)
    for kind in ("scores", "positives"):
        np.testing.assert_allclose(fitted[side, kind].transform(QUERIES, side=other), unit)


@pytest.mark.parametrize("given", [(POSITIVES,), (QUERIES, None, DOCUMENTS)])
def test_the_side_is_required_if_one_is_mapped(given):
    model = AdapterLearner("query", random_state=0).fit(*given)
    with pytest.raises(ValueError, match="side must be 'query' or 'database': fit had two sides"):
        model.transform(DOCUMENTS)


@EVERY_SIDE
def test_nothing_is_learned_where_nothing_helps(side):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2, 8))
    y = cosines(X[:, 0], X[:, 1]) + 0.1 * rng.normal(size=300)
    with pytest.warns(
        UserWarning,
        match="not better than the given distance by 2 standard errors on held-out pairs",
    ):
        model = AdapterLearner(side, random_state=0).fit(X, y)
    assert model.penalty_ == np.inf
    np.testing.assert_array_equal(model.parameters_[0], np.eye(8))
    assert model.score(X, y) == pytest.approx(spearmanr(cosines(X[:, 0], X[:, 1]), y)[0])


@pytest.mark.parametrize("scored", [True, False])
@EVERY_SIDE
def test_the_gradient_is_the_slope(side, scored):
    index = np.c_[[0, 1, 2, 3, 3, 4], [0, 1, 2, 3, 4, 4]]
    rng = np.random.default_rng(0)
    pairs = Pairs(
        *rng.normal(size=(2, 5, 3)), index, rng.normal(size=6) if scored else None,
        rng.uniform(1, 2, 6),
    )  # fmt: skip
    learned = Linear(3, normalize=True)
    both = {"query": Identity(True), "database": Identity(True), side: learned}
    samples, loss, _ = pairs.parts(losses.CoSENT(2.0) if scored else losses.NTXent(1.0), 1)
    problem = Problem(samples, loss, embedding=learned if side == "both" else Asymmetric(**both))
    objective = Objective(problem, [np.eye(3)])
    x = rng.normal(size=9)
    slope = numeric_gradient(lambda x: objective(x)[0], x)
    np.testing.assert_allclose(objective(x)[1], slope, atol=1e-6)


@pytest.mark.parametrize("scored", [True, False])
@EVERY_SIDE
def test_evaluation_by_blocks(side, scored, monkeypatch):
    monkeypatch.setattr("metricfast.learners.embedding.pairs.BLOCK", 60)
    monkeypatch.setattr("metricfast.learners.embedding.pairs._MAPPED", 60)
    rng = np.random.default_rng(0)
    index = np.c_[np.arange(150), rng.integers(0, N, 150)]
    pairs = Pairs(QUERIES, DOCUMENTS, index, SCORES[:150] if scored else None).compact()
    learned = Linear(N_FEATURES, normalize=True)
    both = {"query": Identity(True), "database": Identity(True), side: learned}
    loss = losses.CoSENT(2.0) if scored else losses.NTXent(1.0)
    samples, loss, by_blocks = pairs.parts(loss, 1)
    embedding = learned if side == "both" else Asymmetric(**both)
    found = [
        Objective(Problem(samples, loss, embedding=embedding, evaluate=each), [np.eye(N_FEATURES)])
        for each in (None, by_blocks)
    ]
    assert by_blocks is not None
    x = rng.normal(size=N_FEATURES**2)
    (value, slope), (again, slope_again) = (each(x) for each in found)
    assert again == pytest.approx(value)
    np.testing.assert_allclose(slope_again, slope, atol=1e-10)


def test_positives_are_softmax_over_their_block():
    a, b = (each[:5] / np.linalg.norm(each[:5], axis=1, keepdims=True) for each in sides(5))
    pairs = Pairs(a, b, np.c_[np.arange(5), np.arange(5)])
    value = pairs.parts(losses.NTXent(0.5), 1)[1].evaluate_two_sided(a, b)[0]
    S = 2 * a @ b.T
    assert value == pytest.approx(np.mean(np.log(np.exp(S).sum(1)) - np.diag(S)))


def test_hard_negatives_join_the_block_of_their_query():
    a, b, c = (each[:4] / np.linalg.norm(each[:4], axis=1, keepdims=True) for each in RNG.normal(
        size=(3, 4, 6)))  # fmt: skip
    rows = np.arange(4)
    pairs = Pairs(a, np.concatenate([b, c]), np.c_[rows, rows], negatives=np.c_[rows, rows + 4])
    value = pairs.parts(losses.NTXent(0.5), 1)[1].evaluate_two_sided(a, pairs.database)[0]
    S = 2 * a @ pairs.database.T
    assert value == pytest.approx(np.mean(np.log(np.exp(S).sum(1)) - np.diag(S)))


def test_hard_negatives_help():
    # Topics tell documents apart, except from hard negatives, which differ in small details.
    rng = np.random.default_rng(3)
    topics, (details, wrong) = rng.normal(size=(N, 6)), 0.3 * rng.normal(size=(2, N, 3))
    q, p, n = (
        np.hstack([topics + 0.3 * rng.normal(size=(N, 6)), each + 0.05 * rng.normal(size=(N, 3))])
        for each in (details, details, wrong)
    )
    triplets = np.stack([q, p, n], axis=1)
    model = AdapterLearner(random_state=0).fit(triplets[TRAIN])
    plain = AdapterLearner(random_state=0).fit(triplets[TRAIN, :2])
    assert model.score(triplets[TEST]) > plain.score(triplets[TEST])
    rank = model.kneighbors(q[TEST], np.concatenate([p[TEST], n[TEST]]), 400)[1]
    expected = [1 / (1 + np.flatnonzero(row == i)[0]) for i, row in enumerate(rank)]
    assert model.score(triplets[TEST]) == pytest.approx(np.mean(expected))


def test_indicators_of_hard_negatives():
    points = np.r_[QUERIES, DOCUMENTS]
    index = np.c_[np.arange(300), np.arange(300) + N, np.arange(300) + N + 1]
    models = [
        AdapterLearner(random_state=0, preprocessor=given).fit(triplets)
        for given, triplets in ((points, index), (None, points[index]))
    ]
    np.testing.assert_array_equal(models[0].parameters_[0], models[1].parameters_[0])


def test_a_pair_of_weight_2_is_the_pair_twice():
    weight = RNG.integers(0, 3, 500)
    twice = np.repeat(np.arange(500), weight)
    points = np.concatenate([PAIRS[TRAIN, 0], PAIRS[TRAIN, 1]])
    index = np.c_[np.arange(500), np.arange(500) + 500]
    pairs = [
        Pairs(points, points, index[r], SCORES[TRAIN][r], w)
        for r, w in ((slice(None), weight), (twice, None))
    ]
    values = []
    for each in pairs:
        samples, loss, _ = each.parts(losses.CoSENT(5.0), 1)
        values.append(loss.evaluate_two_sided(samples.X, samples.database.X)[0])
    assert values[0] == pytest.approx(values[1])


def test_weights_of_ones_change_nothing_if_pairs_repeat():
    repeated = POSITIVES[np.r_[:300, :100, :50]]
    models = [
        AdapterLearner(random_state=0).fit(repeated, sample_weight=weight)
        for weight in (None, np.ones(450))
    ]
    np.testing.assert_array_equal(models[0].parameters_[0], models[1].parameters_[0])


def test_indicators_sides_and_a_matrix_are_pairs(fitted):
    model = clone(fitted["query", "positives"]).set_params(preprocessor=np.r_[QUERIES, DOCUMENTS])
    begin_fit(model)
    index = np.c_[np.arange(N), np.arange(N) + N]
    eye = csr_array(np.eye(N))
    found = [
        load_pairs(model, *given, reset=True)
        for given in (
            (POSITIVES, None, None),
            (index, None, None),
            (QUERIES, None, DOCUMENTS),
            (QUERIES, eye, DOCUMENTS),
            (QUERIES, np.eye(N), DOCUMENTS),
            (QUERIES, np.eye(N, dtype=bool).tolist(), DOCUMENTS),
        )
    ]
    for pairs in found:
        np.testing.assert_array_equal(pairs.queries[pairs.index[:, 0]], QUERIES)
        np.testing.assert_array_equal(pairs.database[pairs.index[:, 1]], DOCUMENTS)
    weighed = load_pairs(model, QUERIES, eye, DOCUMENTS, np.arange(N), reset=True)
    np.testing.assert_array_equal(weighed.weight, np.arange(1, N))


def test_a_query_of_several_documents():
    twice = np.concatenate([POSITIVES, np.stack([QUERIES, np.roll(DOCUMENTS, 1, axis=0)], axis=1)])
    model = AdapterLearner(random_state=0).fit(twice)
    Z, Zd = model.transform(QUERIES), model.transform(DOCUMENTS)
    relevant = np.eye(N) + np.roll(np.eye(N), -1, axis=1)
    expected = [average_precision_score(*each) for each in zip(relevant, Z @ Zd.T, strict=True)]
    assert model.score(twice) == pytest.approx(np.mean(expected))


def test_queries_do_not_find_themselves():
    # Each point is a query and in the database: as symmetric pairs, or with itself as relevant.
    n = 250
    points = np.r_[QUERIES[:n], DOCUMENTS[:n]]
    partner = csr_array(np.roll(np.eye(2 * n), n, axis=1))
    symmetric = np.concatenate([POSITIVES[:n], POSITIVES[:n, ::-1]])
    model = AdapterLearner(random_state=0).fit(symmetric)
    similarities = model.transform(points) @ model.transform(points).T
    np.fill_diagonal(similarities, -1)
    expected = [
        1 / (1 + (row > row[(i + n) % (2 * n)]).sum()) for i, row in enumerate(similarities)
    ]
    assert model.score(symmetric) == pytest.approx(np.mean(expected))
    with_diagonal = csr_array(partner + csr_array(np.eye(2 * n)))
    again = AdapterLearner(random_state=0).fit(points, with_diagonal, points)
    assert again.score(points, with_diagonal, points) == pytest.approx(np.mean(expected))
    np.testing.assert_allclose(again.parameters_[0], model.parameters_[0], atol=1e-6)
    with pytest.raises(ValueError, match="pairs must hold a pair of different points"):
        model.score(POSITIVES[:, [0, 0]])


def test_documents_are_held_out_with_their_queries():
    rng = np.random.default_rng(0)
    index = np.unique(rng.integers(0, (60, 90), size=(150, 2)), axis=0)
    pairs = Pairs(QUERIES[:60], DOCUMENTS[:100], index).distinct()
    for train, held_out in pairs.folds(3, rng):
        tables = "queries", "database"
        points = [[getattr(each, name) for name in tables] for each in (train, held_out)]
        assert len(held_out.database) == 100  # all are searched
        relevant = [np.unique(each.index[:, 1]) for each in (train, held_out)]
        for a, b in (
            (points[0][0], points[1][0]),
            (points[0][1][relevant[0]], points[1][1][relevant[1]]),
        ):
            assert not set(map(bytes, a)) & set(map(bytes, b))
        # Training points and relevant points are not counted as wrong.
        known = held_out.relevance.toarray()
        known[tuple(held_out.hidden.T)] = 1
        rows = [np.flatnonzero((QUERIES[:60] == each).all(axis=1))[0] for each in held_out.queries]
        expected = np.zeros((60, 100))
        expected[tuple(pairs.index.T)] = 1
        order = [np.flatnonzero((pairs.queries == QUERIES[i]).all(axis=1))[0] for i in rows]
        np.testing.assert_array_equal(known, expected[order])


@pytest.mark.parametrize("side", ["both", "query"])
def test_clicks_on_few_documents(side):
    # 40 of 600 documents have clicks; queries for the others are judged.
    rng = np.random.default_rng(0)
    topics, clicked = rng.normal(size=(600, 12)), np.repeat(np.arange(40), 10)
    directions = rng.normal(size=(24, 64))

    def encode(topics):
        numbers = topics + 0.25 * rng.normal(size=topics.shape), rng.normal(size=topics.shape)
        return np.hstack([numbers[0], 0.7 * numbers[1]]) @ directions

    documents, queries, new = encode(topics), encode(topics[clicked]), encode(topics[40:])
    clicks = np.zeros((400, 600))
    clicks[np.arange(400), clicked] = 1
    model = AdapterLearner(side, random_state=0).fit(queries, clicks, documents)
    relevant = np.eye(600)[40:]
    first, last = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (new, documents))
    similarities = first @ last.T
    place = (similarities >= similarities[np.arange(560), np.arange(40, 600)][:, None]).sum(axis=1)
    assert model.score(new, relevant, documents) - np.mean(1 / place) > (
        0.3 if side == "both" else 0.1
    )


def test_grades_are_not_used():
    clicks = np.eye(N) * np.arange(1, N + 1) / 100
    with pytest.warns(UserWarning, match="y has numbers up to 7, and all above 0 count alike"):
        AdapterLearner(random_state=0).fit(QUERIES, clicks, DOCUMENTS)


def test_queries_of_another_encoder_find_the_database():
    rng = np.random.default_rng(0)
    texts = rng.normal(size=(900, 10))
    new = np.tanh(texts @ rng.normal(size=(10, 20)))
    old = np.tanh(texts @ rng.normal(size=(10, 15))) + 0.1 * rng.normal(size=(900, 15))
    model = AdapterLearner("query", random_state=0).fit(new[:600], X_database=old[:600])
    assert model.start_ == "regression"
    assert model.transform(new, side="query").shape == (900, 15)
    nearest = model.kneighbors(new[600:], old[600:], 1)[1][:, 0]
    assert (nearest == np.arange(300)).mean() > 0.7
    assert model.score(new[600:], X_database=old[600:]) > 0.8
    with pytest.raises(ValueError, match="pairs must hold points of one kind"):
        model.pair_score(rng.normal(size=(3, 2, 20)))


def test_fewer_components():
    model = AdapterLearner(n_components=6, random_state=0).fit(PAIRS[TRAIN], SCORES[TRAIN])
    assert model.transform(QUERIES).shape == (N, 6)
    given = spearmanr(cosines(PAIRS[TEST, 0], PAIRS[TEST, 1]), SCORES[TEST])[0]
    assert model.score(PAIRS[TEST], SCORES[TEST]) > given + 0.15


@pytest.mark.parametrize("start", ["features", "projection"])
def test_the_better_of_two_starts_of_fewer_components(start):
    # Features that both share are the first ones, and small; or the last ones, and large.
    rng = np.random.default_rng(0)
    shared, others = rng.normal(size=(300, 4)), rng.normal(size=(2, 300, 8))
    sides = [
        np.hstack([shared, 3 * each] if start == "features" else [each, 3 * shared])
        + 0.1 * rng.normal(size=(300, 12))
        for each in others
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AdapterLearner(n_components=4, random_state=0).fit(sides[0], X_database=sides[1])
    assert model.start_ == start
    assert model.score(sides[0], X_database=sides[1]) > 0.8


def unit_prefix(Z, size):
    return Z[:, :size] / np.linalg.norm(Z[:, :size], axis=1, keepdims=True)


def test_prefixes_work_at_each_length():
    sizes = (2, 4, 8)
    models = [
        AdapterLearner(n_components=n, random_state=0).fit(PAIRS[TRAIN], SCORES[TRAIN])
        for n in (sizes, 8)
    ]
    assert models[0].n_components_ == 8
    scores = np.array([
        [
            spearmanr(
                (unit_prefix(Z[0], size) * unit_prefix(Z[1], size)).sum(axis=1), SCORES[TEST]
            )[0]
            for size in sizes
        ]
        for Z in ([model.transform(PAIRS[TEST, i]) for i in (0, 1)] for model in models)
    ])  # fmt: skip
    assert scores[0, 0] > scores[1, 0] + 0.1
    assert scores[0, 2] > scores[1, 2] - 0.05


@pytest.mark.parametrize("scored", [True, False])
def test_the_gradient_of_prefixes_is_the_slope(scored):
    index = np.c_[np.arange(5), np.arange(5)]
    rng = np.random.default_rng(0)
    pairs = Pairs(*rng.normal(size=(2, 5, 3)), index, rng.normal(size=5) if scored else None)
    samples, loss, _ = pairs.parts(losses.CoSENT(2.0) if scored else losses.NTXent(1.0), 1)
    loss = PrefixesLoss(loss, [1, 2, 3])
    objective = Objective(Problem(samples, loss, embedding=Linear(3, normalize=True)), [np.eye(3)])
    x = rng.normal(size=9)
    slope = numeric_gradient(lambda x: objective(x)[0], x)
    np.testing.assert_allclose(objective(x)[1], slope, atol=1e-6)
    U, slopes = np.zeros((2, 5, 3))
    value, slopes = loss.evaluate_two_sided(U, pairs.database)
    assert np.isfinite(value)
    assert not slopes[0].any()


@pytest.mark.parametrize("scored", [True, False])
@pytest.mark.parametrize("rank", [4, 50])
@EVERY_SIDE
def test_rank(side, rank, scored):
    given = (PAIRS, SCORES) if scored else (POSITIVES,)
    train, test = ([each[some] for each in given] for some in (TRAIN, TEST))
    model = AdapterLearner(side, rank=rank, random_state=0).fit(*train)
    change = model.parameters_[0] - np.eye(N_FEATURES)
    assert np.linalg.matrix_rank(change, tol=1e-8) == min(rank, N_FEATURES)
    if scored and side != "both":
        assert model.start_ == "regression"
    score = model.score(*test)
    model.parameters_ = [np.eye(N_FEATURES)]
    assert score > model.score(*test) + (0.1 if side == "both" else 0.01)


@pytest.mark.parametrize("n", [40, 500])
@pytest.mark.parametrize("side", ["query", "database"])
def test_rank_of_other_features(side, n):
    # Few points are trained on in their span.
    wide = np.random.default_rng(0).normal(size=(N_FEATURES, 200))
    sides = QUERIES[:n] @ wide, DOCUMENTS[:n] @ wide[:, : 150 if n < 100 else 9]
    model = AdapterLearner(side, rank=3, random_state=0).fit(sides[0], X_database=sides[1])
    assert np.linalg.matrix_rank(model.parameters_[0], tol=1e-6) == 3
    assert model.score(sides[0], X_database=sides[1]) > 5 / n


def test_the_nearest_matrix_of_a_rank():
    change = RNG.normal(size=(7, 9))
    U, values, V = np.linalg.svd(change, full_matrices=False)
    np.testing.assert_allclose(nearest_of_rank(change, 2), (U[:, :2] * values[:2]) @ V[:2])
    np.testing.assert_array_equal(nearest_of_rank(change, 7), change)


@EVERY_SIDE
def test_float32_and_files(fitted, side, tmp_path):
    model = AdapterLearner(side, random_state=0).fit(PAIRS[TRAIN].astype("f"), SCORES[TRAIN])
    assert model.parameters_[0].dtype == np.float32
    Z = model.transform(QUERIES.astype("f"), side=None if side == "both" else side)
    assert Z.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1, rtol=1e-6)
    assert model.score(PAIRS[TEST], SCORES[TEST]) == pytest.approx(
        fitted[side, "scores"].score(PAIRS[TEST], SCORES[TEST]), abs=0.02
    )
    path = tmp_path / "adapter.safetensors"
    save(model, path)
    again, c_model = load(path), CModel(path)
    assert again.side == side
    for code, each in enumerate(("query", "database")):
        Z = model.transform(QUERIES, side=each)
        np.testing.assert_array_equal(again.transform(QUERIES, side=each), Z)
        np.testing.assert_array_equal(c_model.transform(QUERIES, code), Z)
    assert again.score(PAIRS[TEST], SCORES[TEST]) == model.score(PAIRS[TEST], SCORES[TEST])


@pytest.mark.parametrize("n_components", [None, 20, (10, 20)])
@pytest.mark.parametrize("scored", [True, False])
@EVERY_SIDE
def test_wide_points_are_trained_on_in_their_span(side, scored, n_components, monkeypatch):
    rng = np.random.default_rng(0)
    wide = np.array(PAIRS if scored else POSITIVES) @ rng.normal(size=(N_FEATURES, 300))
    wide += 0.1 * rng.normal(size=wide.shape)
    given = (wide[:60], SCORES[:60]) if scored else (wide[:60],)
    how = {"judge": None, "n_components": n_components if side == "both" else None}
    model = AdapterLearner(side, **how).fit(*given)
    monkeypatch.setattr(
        "metricfast.learners.embedding.adapter_training.basis_of", lambda tables: None
    )
    expected = AdapterLearner(side, **how).fit(*given)
    np.testing.assert_allclose(model.parameters_[0], expected.parameters_[0], atol=1e-5)
    assert model.penalty_ == expected.penalty_ < np.inf


@pytest.mark.parametrize("scored", [True, False])
@EVERY_SIDE
def test_costs_of_changes_in_the_span(side, scored, monkeypatch):
    """They are the costs of the whole maps."""
    train, seen = _Fold.train, []

    def compared(self, halvings, before):
        costs = train(self, halvings, before)
        expected = self._training.costs(self.inner.map(self.changes[halvings]), [self.held_out])
        np.testing.assert_allclose(costs, expected, atol=1e-9)
        seen.append(self._projected)
        return costs

    monkeypatch.setattr(_Fold, "train", compared)
    wide = np.array(PAIRS if scored else POSITIVES) @ RNG.normal(size=(N_FEATURES, 300))
    wide += 0.3 * RNG.normal(size=wide.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        AdapterLearner(side, random_state=0).fit(wide[:90], *([SCORES[:90]] if scored else []))
    assert seen
    assert None not in seen


def test_the_penalty_is_chosen_on_a_sample(monkeypatch):
    monkeypatch.setattr("metricfast.learners.embedding.adapter_training._SAMPLE", 320)
    minimize, sizes = AdapterTraining._minimize, []

    def counted(self, inner, *given):
        sizes.append(len(inner.pairs))
        return minimize(self, inner, *given)

    monkeypatch.setattr(AdapterTraining, "_minimize", counted)
    model = AdapterLearner(random_state=0).fit(PAIRS[TRAIN], SCORES[TRAIN])
    assert max(sizes[:-1]) < 320
    assert sizes[-1] == 500
    # The penalty does not depend on the number of pairs.
    assert model.judgement_.name == f"identity, penalty={model.penalty_:.3g}"


@pytest.fixture
def capped(monkeypatch):
    """Let the multiplications of an adapter allow for some epochs of 500 pairs."""
    training = "metricfast.learners.embedding.adapter_training"
    monkeypatch.setattr(f"{training}._SAMPLE", 240)
    monkeypatch.setattr(f"{training}._BATCH", (8, 1024))
    monkeypatch.setattr("metricfast.learners.embedding.pairs.BLOCK", 32)

    def cap(kind, epochs):
        work = 500 * N_FEATURES * (N_FEATURES + 32 * (kind == "positives"))
        monkeypatch.setattr(f"{training}._WORK", epochs * work / 8)

    return cap


@pytest.mark.parametrize(("kind", "epochs"), [("scores", 4), ("positives", 4), ("scores", 1)])
@EVERY_SIDE
def test_many_pairs_keep_to_a_number_of_multiplications(monkeypatch, capped, side, kind, epochs):
    capped(kind, epochs)
    train, folds, seen = AdapterTraining._in_batches, Pairs.folds, {"held out": [], "steps": []}

    def noted(self, inner, like):
        seen["trained"] = inner.pairs
        evaluate = Objective.__call__

        def counted(self, x, batch=None):
            seen["steps"].append(batch.n_anchors)
            return evaluate(self, x, batch)

        with monkeypatch.context() as patch:
            patch.setattr(Objective, "__call__", counted)
            return train(self, inner, like)

    def kept(self, *given):
        for train, held_out in folds(self, *given):
            seen["held out"].append(held_out)
            yield train, held_out

    monkeypatch.setattr(AdapterTraining, "_in_batches", noted)
    monkeypatch.setattr(Pairs, "folds", kept)
    given = (POSITIVES,) if kind == "positives" else (PAIRS, SCORES)
    model = AdapterLearner(side, random_state=0).fit(*(each[TRAIN] for each in given))
    assert sum(seen["steps"]) <= 500 * epochs
    assert len(seen["steps"]) > 2 * epochs
    assert seen["trained"].index.shape[0] > 160
    for held_out in seen["held out"]:
        for name, i in [("queries", 0), ("database", 1)][: 1 + (kind == "positives")]:
            rows = [
                {row.tobytes() for row in getattr(each, name)[each.index[:, i]]}
                for each in (seen["trained"], held_out)
            ]
            assert rows[0].isdisjoint(rows[1])
    assert model.judgement_.names[-1].endswith(", more pairs")
    test = [each[TEST] for each in given]
    score = model.score(*test)
    model.parameters_ = [np.eye(N_FEATURES)]
    given = model.score(*test)
    assert score > given + (0.1 if side == "both" else -0.02)


def test_pairs_that_share_all_documents(monkeypatch, capped):
    # Without the documents of held-out pairs, none would be left.
    capped("positives", 4)
    monkeypatch.setattr("metricfast.learners.embedding.adapter_training._SAMPLE", 400)
    clicks = csr_array((np.ones(500), (np.arange(500), np.arange(500) % 60)), shape=(500, 60))
    model = AdapterLearner("query", random_state=0).fit(
        QUERIES[TRAIN], clicks, X_database=DOCUMENTS[:60]
    )
    assert not any(name.endswith("more pairs") for name in model.judgement_.names)
    assert np.isfinite(model.parameters_[0]).all()


def test_the_map_of_more_pairs_is_returned_only_if_it_is_good(monkeypatch, capped):
    capped("scores", 4)
    bad = -10 * np.ones((N_FEATURES, N_FEATURES))
    monkeypatch.setattr(AdapterTraining, "_in_batches", lambda *given: bad)
    model = AdapterLearner(random_state=0).fit(PAIRS[TRAIN], SCORES[TRAIN])
    assert model.judgement_.costs[-1] > model.judgement_.costs[0]
    assert not model.judgement_.name.endswith("more pairs")
    given = spearmanr(cosines(PAIRS[TEST, 0], PAIRS[TEST, 1]), SCORES[TEST])[0]
    assert model.score(PAIRS[TEST], SCORES[TEST]) > given + 0.1


def test_more_pairs_are_tried_if_a_sample_proves_nothing(monkeypatch):
    monkeypatch.setattr("metricfast.learners.embedding.adapter_training._SAMPLE", 200)
    task = adapter_data.made("both", n=2000, n_features=96, scored=True, n_test=300)
    model = AdapterLearner(random_state=0).fit(*task.train)
    assert model.judgement_.name.endswith("more pairs")
    assert model.score(*task.test) > task.given().mean() + 0.1


@pytest.mark.parametrize("kind", ["scores", "positives"])
def test_callbacks_see_the_last_training(kind):
    """They see the map of each iteration, and may end the training."""
    given, seen = (PAIRS[TRAIN], SCORES[TRAIN]) if kind == "scores" else (POSITIVES[TRAIN],), []

    def look(state):
        own = state.estimator
        assert own.n_iter_ == state.iteration == len(own.loss_curve_)
        np.testing.assert_array_equal(own.parameters_[0], state.parameters[0])
        seen.append(own.score(*given))

    model = AdapterLearner(callbacks=[look], random_state=0).fit(*given)
    assert len(seen) == model.n_iter_ > 1
    assert seen[-1] == model.score(*given)
    plain = AdapterLearner(random_state=0).fit(*given)
    np.testing.assert_array_equal(plain.parameters_[0], model.parameters_[0])
    assert plain.loss_curve_ == sorted(plain.loss_curve_, reverse=True)
    ends = [lambda state: state.iteration == 2]
    assert AdapterLearner(callbacks=ends, random_state=0).fit(*given).n_iter_ == 2


def test_an_interrupted_training_keeps_its_map_and_continues(capped, tmp_path):
    """So does one of mini-batches, with the same result bit for bit."""
    capped("scores", 4)
    seen, iterations = [], []
    whole = AdapterLearner(
        random_state=0, callbacks=[lambda state: iterations.append(state.iteration)]
    ).fit(PAIRS[TRAIN], SCORES[TRAIN])

    def press(state):
        seen.append(state)
        if len(seen) == 2:
            raise KeyboardInterrupt

    path = tmp_path / "adapter"
    model = AdapterLearner(random_state=0, callbacks=[Checkpoint(path), press])
    with pytest.raises(KeyboardInterrupt):
        model.fit(PAIRS[TRAIN], SCORES[TRAIN])
    np.testing.assert_array_equal(model.parameters_[0], seen[-1].parameters[0])
    model.set_params(callbacks=[Checkpoint(path), press])
    with pytest.raises(ValueError, match="other parameters or other data"):
        clone(model).fit(PAIRS[:400], SCORES[:400])
    model.fit(PAIRS[TRAIN], SCORES[TRAIN])
    assert [state.iteration for state in seen] == [1, 2, *iterations[1:]]
    assert len(iterations) > 2
    np.testing.assert_array_equal(model.parameters_[0], whole.parameters_[0])


def test_the_last_training_of_a_map_that_lost(monkeypatch, capped, tmp_path):
    """The map of more pairs has the checkpoint; if it loses, callbacks see the next one as well."""
    capped("scores", 4)
    costs = AdapterTraining.costs

    def worse(self, L, parts):
        return costs(self, L, parts) + (len(parts) > 1)

    monkeypatch.setattr(AdapterTraining, "costs", worse)
    seen, path = [], tmp_path / "adapter"
    model = AdapterLearner(random_state=0, callbacks=[Checkpoint(path), seen.append])
    model.fit(PAIRS[TRAIN], SCORES[TRAIN])
    starts = [i for i, state in enumerate(seen) if state.iteration == 1]
    assert len(starts) == 2
    assert len(seen) - starts[1] == model.n_iter_
    plain = AdapterLearner(random_state=0).fit(PAIRS[TRAIN], SCORES[TRAIN])
    np.testing.assert_array_equal(plain.parameters_[0], model.parameters_[0])


def test_the_largest_number_of_pairs():
    width = 1000
    few = Pairs(*np.empty((2, 10, width)), np.empty((10, 2), np.int64), np.empty(10))
    for work, expected in ((5e9, 5000), (1e6, 63)):
        assert affordable(few, work) == expected
    # In the span of n pairs: 4 n^2 multiplications for each, by the map of 2n coordinates.
    wide = Pairs(*np.empty((2, 10, 20 * width)), np.empty((10, 2), np.int64), np.empty(10))
    assert affordable(wide, 4 * 1001**3) == 1001
    assert affordable(wide, 4 * 9000**3) == 7290  # their span is too large


def test_starts_as_long_as_the_identity():
    pairs = Pairs(QUERIES, DOCUMENTS, np.c_[np.arange(N), np.arange(N)])
    for _, start in one_sided("query", True):
        assert np.linalg.norm(start(pairs)) == pytest.approx(np.sqrt(N_FEATURES))


def test_points_of_no_length_and_pairs_of_a_point_with_itself():
    X, y = PAIRS[TRAIN].copy(), SCORES[TRAIN]
    X[:5, 0] = 0
    X[5:9, 0] = X[5:9, 1]
    model = AdapterLearner(random_state=0).fit(X, y)
    assert not model.transform(X[:1, 0]).any()
    assert model.penalty_ < np.inf
    np.testing.assert_allclose(model.pair_score(X[5:9]), 0, atol=1e-7)


def test_documents_of_no_length():
    # Of another encoder, for which there is no identity; or in a part of the pairs alone.
    documents = DOCUMENTS[:, :9].copy()
    with pytest.raises(ValueError, match="pairs must hold points that are not 0 on both sides"):
        AdapterLearner("query").fit(QUERIES[:20], X_database=0 * documents[:20])
    documents[:-50] = 0
    model = AdapterLearner("query", random_state=0).fit(QUERIES, X_database=documents)
    assert np.isfinite(model.parameters_[0]).all()


@pytest.mark.parametrize("given", [(PAIRS[TRAIN], SCORES[TRAIN]), (POSITIVES[TRAIN],)])
def test_no_judge(fitted, given):
    model = AdapterLearner(judge=None).fit(*given)
    assert not hasattr(model, "judgement_")
    test = (PAIRS[TEST], SCORES[TEST]) if len(given) == 2 else (POSITIVES[TEST],)
    whole = fitted["both", "scores" if len(given) == 2 else "positives"]
    assert model.score(*test) == pytest.approx(whole.score(*test), abs=0.1)
    AdapterLearner(judge=None).fit(*(each[:20] for each in given))  # too few to be judged


def test_indicators_out_of_range():
    with pytest.raises(PreprocessorError, match="index 700 is out of bounds"):
        AdapterLearner(preprocessor=QUERIES).fit([[0, 1], [2, N]], [1, 2])


def _nan(y):
    return np.r_[np.nan, y[1:]]


def _nan_points(X):
    return np.where(np.arange(N).reshape(-1, *[1] * (X.ndim - 1)) == 3, np.nan, X)


@pytest.mark.parametrize(
    ("params", "arguments", "message"),
    [
        ({}, (PAIRS, np.ones(N)), "y must hold different scores: all are 1. Leave y out"),
        ({}, (PAIRS[:1], [1.0]), "at least 2 pairs; found 1"),
        ({}, (PAIRS, _nan(SCORES)), "y contains NaN"),
        ({}, (PAIRS, SCORES[:9]), "y must hold 700 scores, one per pair; found 9"),
        ({}, (PAIRS[:, 0], SCORES), "3D"),
        ({}, (QUERIES, None, DOCUMENTS[:, :5]), "side must be 'query' or 'database'"),
        ({}, (QUERIES, None, DOCUMENTS[:5]), "X_database must have a row for each"),
        ({}, (PAIRS, csr_array(np.eye(N))), "found a matrix, which needs X_database"),
        ({}, (PAIRS, np.eye(N)), "found a matrix, which needs X_database"),
        ({}, (QUERIES, np.eye(N)[:, :3], DOCUMENTS), r"y must have shape \(700, 700\)"),
        ({}, (QUERIES, csr_array(np.eye(3)), DOCUMENTS), r"y must have shape \(700, 700\)"),
        ({}, (PAIRS[:, [0, 1, 1]], SCORES), "Tuples of 2 element"),
        ({}, (PAIRS[:, :1],), "at least 2 points; found tuples of 1"),
        ({}, (QUERIES, csr_array(np.diag(_nan(SCORES))), DOCUMENTS), "y contains NaN"),
        ({}, (QUERIES, csr_array((N, N)), DOCUMENTS), "at least 2 pairs; found 0"),
        ({}, (_nan_points(PAIRS), SCORES), "Input X contains NaN"),
        ({}, (QUERIES, None, _nan_points(DOCUMENTS)), "X_database: Input X contains NaN"),
        ({"side": "left"}, (PAIRS, SCORES), "side must be"),
        ({"n_components": (3, 13)}, (PAIRS, SCORES), r"n_components, must be in \[1, 12\]"),
        ({"n_components": (3, 0)}, (PAIRS, SCORES), "n_components must be"),
        ({"n_components": ()}, (PAIRS, SCORES), "n_components must be .* found none"),
        ({"n_components": "3"}, (PAIRS, SCORES), "n_components must be"),
        ({"rank": 0}, (PAIRS, SCORES), "rank must be"),
        ({"judge": "no"}, (PAIRS, SCORES), "judge must be"),
        ({"judge": Judge(measure="nearest")}, (PAIRS, SCORES), "judge must have measure='auto'"),
        ({"side": "query", "n_components": 3}, (PAIRS, SCORES), "n_components must be None"),
        ({"n_components": 13}, (PAIRS, SCORES), r"n_components, must be in \[1, 12\]"),
        ({"loss": losses.NTXent()}, (PAIRS, SCORES), "loss must be 'auto' or CoSENT"),
        ({"loss": losses.CoSENT()}, (PAIRS,), "loss must be 'auto' or one with takes_tags"),
    ],
)
def test_bad_input(params, arguments, message):
    with pytest.raises(ValueError, match=message):
        AdapterLearner(**params).fit(*arguments)


@pytest.mark.parametrize(
    "given",
    {
        "one query": (np.stack([np.repeat(QUERIES[:1], N, axis=0), DOCUMENTS], axis=1), SCORES),
        "documents of one query": (np.stack([np.repeat(QUERIES[:1], N, axis=0), DOCUMENTS], 1),),
        "one pair": (np.repeat(PAIRS[:1], N, axis=0), SCORES),
        "one weight": (PAIRS, SCORES, None, np.eye(N)[0]),
        "points of no length": (0 * PAIRS, SCORES),
        "pairs of a point with itself": (POSITIVES[:, [0, 0]],),
    }.items(),
    ids=lambda item: item[0],
)
def test_pairs_that_nothing_can_be_learned_from(given):
    pairs, y, X_database, weight = (*given[1], None, None, None)[:4]
    with pytest.warns(UserWarning, match="the given distance stays"):
        model = AdapterLearner(random_state=0).fit(pairs, y, X_database, sample_weight=weight)
    np.testing.assert_array_equal(model.parameters_[0], np.eye(N_FEATURES))


def test_widths_that_differ_from_fit():
    model = AdapterLearner("query", random_state=0).fit(QUERIES, X_database=DOCUMENTS[:, :9])
    for call, arguments in (
        (model.transform, (QUERIES[:, :9], "query")),
        (model.transform, (QUERIES, "database")),
        (model.score, (QUERIES[:, :9], None, DOCUMENTS[:, :9])),
        (model.kneighbors, (QUERIES, DOCUMENTS)),
    ):
        with pytest.raises(ValueError, match=r"AdapterLearner is expecting (12|9) features"):
            call(*arguments)


ROTATION = np.linalg.qr(np.random.default_rng(1).normal(size=(N_FEATURES, N_FEATURES)))[0]


@pytest.mark.parametrize(("side", "back"), [("query", ROTATION.T), ("database", ROTATION)])
def test_a_rotation_is_found(side, back):
    # Each document is a rotated query, and a few pairs are in each of many directions.
    pairs = Pairs(QUERIES, QUERIES @ ROTATION, np.c_[np.arange(N), np.arange(N)])
    first, tied = (start(pairs) for _, start in one_sided(side, True)[:2])
    np.testing.assert_allclose(first, back, atol=1e-8)
    assert np.linalg.norm(tied - np.eye(N_FEATURES)) < np.linalg.norm(back - np.eye(N_FEATURES))


@pytest.mark.parametrize("scored", [True, False])
def test_the_orthogonal_map_has_the_largest_cosines(scored):
    rng = np.random.default_rng(0)
    index, y = np.c_[rng.integers(0, N, 300), rng.integers(0, N, 300)], rng.normal(size=300)
    weight = rng.uniform(0, 2, 300)
    pairs = Pairs(QUERIES, DOCUMENTS, index, y if scored else None, weight)
    ranks = np.argsort(np.argsort(y))
    ranks = weight * (ranks - np.average(ranks, weights=weight) if scored else 1)

    def total(Q):
        return ranks @ cosines(QUERIES[index[:, 0]] @ Q.T, DOCUMENTS[index[:, 1]])

    best = one_sided("query", False)[0][1](pairs)
    np.testing.assert_allclose(best @ best.T, np.eye(N_FEATURES), atol=1e-10)
    for _ in range(50):
        near = np.linalg.qr(best + 0.1 * rng.normal(size=best.shape))[0]
        assert total(near * np.sign((near * best).sum(axis=0))) <= total(best) + 1e-9


@pytest.mark.parametrize("width", [300, 200])
def test_orthogonal_maps_of_wide_points(width, monkeypatch):
    rng = np.random.default_rng(0)
    queries = QUERIES[:40] @ rng.normal(size=(N_FEATURES, 300))
    documents = DOCUMENTS[:40] @ rng.normal(size=(N_FEATURES, width))
    pairs = Pairs(queries, documents, np.c_[np.arange(40), np.arange(40)])
    starts = [each for each in one_sided("query", width == 300) if "orthogonal" in each[0]]
    found = [start(pairs) for _, start in starts]
    monkeypatch.setattr(
        "metricfast.learners.embedding.adapter_training.basis_of", lambda tables: None
    )
    for (_, start), L in zip(starts, found, strict=True):
        np.testing.assert_allclose(L, start(pairs), atol=1e-8)


@pytest.mark.parametrize("scored", [True, False])
def test_queries_of_a_rotated_encoder(scored):
    pairs = np.stack([QUERIES @ ROTATION, PAIRS[:, 1] if scored else QUERIES], axis=1)
    given = (pairs, SCORES) if scored else (pairs + 0.1 * RNG.normal(size=pairs.shape),)
    model = AdapterLearner("query", random_state=0).fit(*(each[TRAIN] for each in given))
    assert model.start_ == ("regression" if scored else "orthogonal")
    own = AdapterLearner("query", random_state=0).fit(PAIRS[TRAIN], SCORES[TRAIN])
    least = own.score(PAIRS[TEST], SCORES[TEST]) - 0.1 if scored else 0.9
    assert model.score(*(each[TEST] for each in given)) > least


@EVERY_SIDE
def test_new_pairs_improve_the_map_of_the_last_fit(side):
    model = AdapterLearner(side, warm_start=True, random_state=0).fit(POSITIVES[:100])
    assert model.start_ != "last fit"
    scores = [model.score(POSITIVES[TEST])]
    for day in range(1, 5):
        model.fit(POSITIVES[100 * day : 100 * (day + 1)])
        assert model.judgement_.names[0] == "map of the last fit"
        scores.append(model.score(POSITIVES[TEST]))
    assert model.start_ == "last fit"
    assert scores[-1] > scores[0] + (0.02 if side == "both" else -0.01)
    assert min(np.diff(scores)) > -0.02


def test_the_map_of_the_last_fit_stays_if_pairs_teach_nothing():
    model = AdapterLearner(warm_start=True, random_state=0).fit(POSITIVES[TRAIN])
    before = model.parameters_[0].copy()
    for given in (POSITIVES[500:520], POSITIVES[:, [0, 0]]):  # no warning
        model.fit(given)
        np.testing.assert_array_equal(model.parameters_[0], before)
        assert model.penalty_ == np.inf
    assert clone(model).fit(POSITIVES[TRAIN]).start_ == "identity"
    cold = model.set_params(warm_start=False).fit(POSITIVES[TRAIN])
    assert cold.start_ == "identity"


def test_points_as_given_may_be_better_than_the_last_map():
    model = AdapterLearner(warm_start=True, random_state=0).fit(POSITIVES[:100])
    model.parameters_ = [np.diag(np.r_[1.0, np.zeros(N_FEATURES - 1)])]
    assert model.fit(POSITIVES[TRAIN]).start_ == "identity"
    assert model.penalty_ < np.inf


def test_another_shape_than_in_the_last_fit():
    model = AdapterLearner(warm_start=True, random_state=0).fit(POSITIVES[TRAIN])
    with pytest.raises(ValueError, match=r"warm_start needs a map of the same shape .*\(12, 12\)"):
        model.fit(POSITIVES[TRAIN, :, :9])
    model = AdapterLearner(warm_start=True, random_state=0).fit(POSITIVES[TRAIN])
    with pytest.raises(ValueError, match=r"rank must be None, .* with warm_start=True"):
        model.set_params(rank=2).fit(POSITIVES[TRAIN])


@pytest.mark.parametrize("wrong", [0, -1])
def test_documents_that_were_shown_and_not_clicked(wrong):
    # As hard negatives that follow pairs.
    rng = np.random.default_rng(3)
    topics, (details, other) = rng.normal(size=(N, 6)), 0.3 * rng.normal(size=(2, N, 3))
    q, p, n = (
        np.hstack([topics + 0.3 * rng.normal(size=(N, 6)), each + 0.05 * rng.normal(size=(N, 3))])
        for each in (details, details, other)
    )
    rows = np.arange(500)
    clicks = csr_array(
        (np.repeat([1, wrong], 500), (np.tile(rows, 2), np.r_[rows, rows + 500])), shape=(500, 1000)
    )
    assert clicks.nnz == 1000
    shown = AdapterLearner(random_state=0).fit(q[TRAIN], clicks, np.r_[p[TRAIN], n[TRAIN]])
    triplets = np.stack([q, p, n], axis=1)
    expected = AdapterLearner(random_state=0).fit(triplets[TRAIN])
    clicks.data = np.maximum(clicks.data, 0)
    clicks.eliminate_zeros()
    plain = AdapterLearner(random_state=0).fit(q[TRAIN], clicks, np.r_[p[TRAIN], n[TRAIN]])
    scores = [model.score(triplets[TEST]) for model in (shown, expected, plain)]
    assert scores[0] == pytest.approx(scores[1], abs=0.01)
    assert scores[0] > scores[2]


def test_negatives_of_queries_without_clicks_are_not_used():
    dense = np.zeros((N, N))
    dense[np.arange(400), np.arange(400)] = 1
    dense[np.arange(N), (np.arange(N) + 1) % N] = -1
    model = AdapterLearner()
    begin_fit(model)
    pairs = load_pairs(model, QUERIES, dense, DOCUMENTS, reset=True)
    assert len(pairs.negatives) == N
    compact = pairs.compact()
    np.testing.assert_array_equal(compact.negatives, np.c_[np.arange(400), np.arange(1, 401)])
    np.testing.assert_array_equal(compact.database, DOCUMENTS[:401])


@pytest.mark.parametrize("store", ["faiss", "usearch.index"])
def test_stores_find_what_the_adapter_finds(fitted, store):
    module, model = pytest.importorskip(store), fitted["query", "positives"]
    vectors = model.transform(DOCUMENTS, side="database").astype(np.float32)
    mapped = model.transform(QUERIES[TEST], side="query").astype(np.float32)
    if store == "faiss":
        index = module.IndexFlatIP(N_FEATURES)
        index.add(vectors)
        nearest = index.search(mapped, 5)[1]
    else:
        index = module.Index(ndim=N_FEATURES, metric="ip", dtype="f32")
        index.add(np.arange(N), vectors)
        nearest = index.search(mapped, 5, exact=True).keys
    expected = model.kneighbors(QUERIES[TEST], DOCUMENTS, 5)[1]
    assert (nearest == expected).mean() > 0.999  # but for ties in float32


def test_one_side_has_a_lower_temperature():
    """The default is the loss that the docstring names."""
    for side, temperature in (("both", 0.07), ("query", 0.03), ("database", 0.03)):
        default, named = (
            AdapterLearner(side, loss=loss, judge=None).fit(POSITIVES[:60]).parameters_[0]
            for loss in ("auto", losses.NTXent(temperature))
        )
        np.testing.assert_array_equal(default, named)


@pytest.mark.exhaustive
def test_scored_pairs_of_many_features():
    """The map is as good as one of all pairs, trained four times as long with this penalty."""
    task = adapter_data.made("both", n=2200, n_features=3072, scored=True, n_test=2000)
    pairs = np.stack([task.train.queries, task.train.database], axis=1)
    model = AdapterLearner(random_state=0).fit(pairs, task.train.y)
    training = AdapterTraining(model, losses.CoSENT(5.0), [], [3072])
    given = load_pairs(model, pairs, task.train.y, None, reset=False)
    inner = training.in_span(given, np.eye(3072, dtype=np.float32))
    objective = _MapObjective(training, inner, round(np.log2(0.8 / model.penalty_)))
    change = training._run(objective, inner.start, LBFGS(32, 1e-6, memory=5), solve)
    score, whole = (task.mapped(L).mean() for L in (model.parameters_[0], inner.map(change)))
    assert score > task.given().mean() + 0.1
    assert score > whole - 0.005


@pytest.mark.data
@pytest.mark.parametrize(("side", "least"), [("both", 0.78), ("query", 0.775)])
def test_judged_sentences(side, least):
    path = data.folder() / "stsb_static.npz"
    if not path.exists():
        pytest.skip(f"no {path}")
    arrays = np.load(path)
    train, test = (
        (np.stack([arrays[f"{part}_a"], arrays[f"{part}_b"]], axis=1), arrays[f"{part}_y"])
        for part in ("train", "test")
    )
    model = AdapterLearner(side, random_state=0).fit(train[0].astype(np.float32), train[1])
    assert model.score(test[0].astype(np.float32), test[1]) >= least
