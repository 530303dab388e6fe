"""Tags in place of classes: losses, samplers, metrics and learners."""

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.preprocessing import MultiLabelBinarizer, OneHotEncoder

from metricfast import EmbeddingLearner, losses, metrics, tags_of
from metricfast._labels.tags import as_tags, one_tag_each
from metricfast.embeddings import Asymmetric, Linear
from metricfast.samplers import ClassBalanced, DenseTriplet, Uniform
from metricfast.solvers import Adam

RNG = np.random.default_rng(0)
CLASSES = RNG.integers(0, 5, 70)
Z, OTHERS = RNG.normal(size=(40, 6)), RNG.normal(size=(30, 6))
TAGS = RNG.random((70, 4)) < 0.3  # some points have no tags
LOSSES = {
    "Contrastive": losses.Contrastive(),
    "Contrastive, all pairs": losses.Contrastive(neg_margin=2.0, power=2, reduction="mean"),
    "Contrastive, sum": losses.Contrastive(reduction="sum"),
    "GeneralizedLifted": losses.GeneralizedLifted(),
    "Triplet": losses.Triplet(1.0),
    "Triplet, semi-hard": losses.Triplet(1.0, "semihard"),
    "Triplet, hardest": losses.Triplet(1.0, "hardest"),
    "Circle": losses.Circle(gamma=8.0),
    "MultiSimilarity": losses.MultiSimilarity(beta=5.0),
    "SupCon": losses.SupCon(),
    "NTXent": losses.NTXent(),
    "SmoothAP": losses.SmoothAP(0.5),
    "RecallAtK": losses.RecallAtK((1, 4), 0.5),
    "NCA": losses.NCA(),
    "NCA, log": losses.NCA("log", "mean", squared=False),
    "MCML": losses.MCML(),
    "LDML": losses.LDML(),
}


def one_hot(codes):
    return csr_array(OneHotEncoder(dtype=bool).fit_transform(codes[:, None]))


def weights_of(loss, n):
    return np.linspace(0.5, 2, n) if loss.has_anchors else None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_one_hot_tags_are_classes_to_the_last_bit(loss, dtype):
    points, others = Z.astype(dtype), OTHERS.astype(dtype)
    tags = one_hot(CLASSES)
    for how in ({}, {"sample_weight": weights_of(loss, 40)}):
        value, gradient = loss(points, CLASSES[:40], **how)
        counts = loss.counts_
        for given in (tags[:40], tags[:40].toarray()):
            found, slope = loss(points, given, **how)
            assert found == value
            assert loss.counts_ == counts
            np.testing.assert_array_equal(slope, gradient)
    value, gradients = loss(points, CLASSES[:40], others, CLASSES[40:])
    found, slopes = loss(points, tags[:40], others, tags[40:])
    assert found == value
    np.testing.assert_array_equal(slopes[0], gradients[0])
    np.testing.assert_array_equal(slopes[1], gradients[1])


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_loss_of_tags_is_that_of_each_anchor_with_two_classes(loss):
    if loss.reduction != "sum" if hasattr(loss, "reduction") else False:
        loss = type(loss)(**{**loss.get_params(), "reduction": "sum"})
    value, (gradient, of_database) = loss(Z, TAGS[:40], OTHERS, TAGS[40:])
    shared = TAGS[:40].astype(int) @ TAGS[40:].T > 0
    total, own, others = 0.0, np.zeros_like(Z), np.zeros_like(OTHERS)
    for i in range(40):
        part, (slope, slopes) = loss(Z[i : i + 1], [1], OTHERS, shared[i].astype(int))
        total += part
        own[i] += slope[0]
        others += slopes
    np.testing.assert_allclose(value, total)
    np.testing.assert_allclose(gradient, own, atol=1e-10)
    np.testing.assert_allclose(of_database, others, atol=1e-10)
    assert value != 0


def test_means_of_contrastive_count_pairs_that_share_a_tag():
    loss = losses.Contrastive(neg_margin=3.0)
    value, _ = loss(Z, TAGS[:40])
    apart = np.linalg.norm(Z[:, None] - Z, axis=2)
    shared = (TAGS[:40].astype(int) @ TAGS[:40].T > 0) & ~np.eye(40, dtype=bool)
    near = apart[shared]
    far = np.maximum(3 - apart[~shared & ~np.eye(40, dtype=bool)], 0)
    np.testing.assert_allclose(value, near[near > 0].mean() + far[far > 0].mean())


def test_any_relation_is_tags_of_queries_and_the_identity():
    related = RNG.random((40, 30)) < 0.1
    value, _ = losses.SupCon()(Z, related, OTHERS, np.eye(30, dtype=bool))
    s = Z @ OTHERS.T / 0.1
    log_p = s - np.log(np.exp(s - s.max()).sum(axis=1, keepdims=True)) - s.max()
    rows = related.any(axis=1)
    expected = -(log_p * related).sum(axis=1)[rows] / related.sum(axis=1)[rows]
    np.testing.assert_allclose(value, expected.mean())
    found = metrics.recall_at_k(Z, csr_matrix(related), OTHERS, csr_matrix(np.eye(30)), k=3)
    order = np.argsort(np.linalg.norm(Z[:, None] - OTHERS, axis=2), axis=1)[:, :3]
    assert found == np.take_along_axis(related, order, axis=1).any(axis=1)[rows].mean()


def test_zeros_that_are_stored_are_no_tags():
    stored = csr_array(np.ones((40, 4)))
    stored.data = TAGS[:40].ravel().astype(float)
    assert losses.SupCon()(Z, stored)[0] == losses.SupCon()(Z, TAGS[:40])[0]


def test_bound_losses_take_rows_of_tags():
    bound = losses.SupCon().on(csr_array(TAGS))
    rows = np.arange(3, 43)
    value, gradient = bound(Z, rows)
    np.testing.assert_array_equal(gradient, losses.SupCon()(Z, TAGS[rows])[1])
    part, _ = bound(Z, rows, slice(10, 20))
    direct = losses.SupCon()(
        Z[10:20], TAGS[rows][10:20], Z, TAGS[rows], exclude=np.arange(10, 20)
    )  # fmt: skip
    assert part == direct[0]
    assert np.isfinite(value)


def test_reports_of_one_hot_tags_are_those_of_classes():
    tags = one_hot(CLASSES)
    of_classes = metrics.retrieval_report(Z, CLASSES[:40], k=3)
    of_tags = metrics.retrieval_report(Z, tags[:40], k=3)
    assert list(of_tags) == list(of_classes)
    for name, score in of_classes.items():
        np.testing.assert_array_equal(of_tags[name].values, score.values)
        assert (of_tags[name].chance, of_tags[name].oracle) == (score.chance, score.oracle)


@pytest.mark.parametrize("where", ["all", "mask", "labels"])
def test_reports_of_tags_take_filters_and_exclude_points(where):
    mask, exclude = np.arange(30) % 3 > 0, np.arange(40) % 30
    own, others = np.arange(40) % 4, np.arange(30) % 4
    found = metrics.retrieval_report(
        Z, TAGS[:40], OTHERS, TAGS[40:], metrics="r_precision", exclude=exclude,
        where={"all": None, "mask": mask, "labels": (own, others)}[where],
    )  # fmt: skip
    expected = np.full(40, np.nan)
    for i in range(40):
        allowed = {"all": True, "mask": mask, "labels": others != own[i]}[where]
        rows = np.flatnonzero(allowed & (np.arange(30) != exclude[i]))
        order = rows[np.argsort(np.linalg.norm(OTHERS[rows] - Z[i], axis=1))]
        hits = (TAGS[40:][order] & TAGS[i]).any(axis=1)
        if hits.any():
            expected[i] = hits[: hits.sum()].mean()
    np.testing.assert_allclose(found["r_precision"].values, expected)


@pytest.mark.parametrize(
    "sampler", [Uniform(10), ClassBalanced(3, 10)], ids=["uniform", "balanced"]
)
def test_samplers_of_one_hot_tags_draw_as_of_classes(sampler):
    tags = one_hot(CLASSES)

    def drawn(*labels):
        epoch = sampler.prepare(labels[0], y_database=labels[1] if len(labels) > 1 else None)
        return [batch.rows.tolist() for batch in epoch(np.random.RandomState(0))]

    assert drawn(tags) == drawn(CLASSES)
    assert drawn(tags[:40], tags[40:]) == drawn(CLASSES[:40], CLASSES[40:])


def test_every_tag_of_a_point_is_drawn():
    tags, rng = as_tags(TAGS, "y"), np.random.RandomState(0)
    drawn = np.array([one_tag_each(tags, rng) for _ in range(100)])
    for i, row in enumerate(TAGS):
        assert set(drawn[:, i]) == (set(np.flatnonzero(row)) or {4 + i})


def test_balanced_batches_hold_references_that_share_a_tag():
    related = np.zeros((40, 400), bool)
    related[np.arange(40), np.arange(40) * 10] = True
    epoch = ClassBalanced(2, 8).prepare(related, y_database=csr_array(np.eye(400, dtype=bool)))
    for batch in epoch(np.random.RandomState(0)):
        assert set(batch.rows[: batch.n_anchors] * 10) <= set(batch.rows[batch.n_anchors :])


def learner(loss, **how):
    how = {"random_state": 0, "judge": None} | how
    how = {"solver": Adam(max_epochs=3, batch_size=20)} | how
    return EmbeddingLearner(loss, how.pop("embedding", Linear(2)), **how)


@pytest.mark.filterwarnings("ignore:L-BFGS stopped")
@pytest.mark.parametrize(
    "how", [{}, {"early_stopping": True}, {"database": "all"}, {"solver": "lbfgs", "max_epochs": 3}]
)
def test_learners_of_one_hot_tags_learn_what_they_learn_of_classes(how):
    X = np.concatenate([Z, OTHERS])
    # held-out points are drawn independently of tags
    codes = np.arange(70) % 2 if "early_stopping" not in how else CLASSES
    tags = one_hot(codes)
    found = learner(losses.SupCon(), **how).fit(X, tags)
    if "early_stopping" in how:
        assert len(found.validation_scores_) == 3
        return
    same = learner(losses.SupCon(), **how).fit(X, codes)
    np.testing.assert_array_equal(found.parameters_[0], same.parameters_[0])
    assert found.score(X, tags) == same.score(X, codes)


def test_learners_of_two_sides_take_relations():
    captions = np.repeat(np.arange(40), 3)
    rng = np.random.default_rng(1)
    texts = np.tanh(Z[captions] @ rng.normal(size=(6, 8))) + 0.1 * rng.normal(size=(120, 8))
    related = csr_array((np.ones(120), (captions, np.arange(120))), shape=(40, 120))
    model = learner(
        losses.SupCon(), embedding=Asymmetric(Linear(4, normalize=True), Linear(4, normalize=True)),
        solver=Adam(max_epochs=40, batch_size=20, learning_rate=0.03),
    )  # fmt: skip
    model.fit(Z, related, texts, csr_array(np.eye(120)))
    assert model.score(Z, related, texts, csr_array(np.eye(120))) > 0.5
    model.partial_fit(Z, related, X_database=texts, y_database=np.eye(120, dtype=bool))
    model.partial_fit(Z, related, X_database=texts, y_database=np.eye(120, dtype=bool))


def sharing(a, b):
    return a @ b.T > 0


def near(a, b):
    return abs(a[:, None] - b) < 2


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_function_gives_the_loss_of_the_matrix_that_it_spells_out(loss):
    value, gradient = loss(Z, TAGS[:40])
    found, slope = loss(Z, tags_of(sharing, TAGS[:40]))
    assert found == value
    np.testing.assert_array_equal(slope, gradient)
    matrix = csr_array(sharing(TAGS[:40].astype(int), TAGS[40:].astype(int)))
    value, gradients = loss(Z, matrix, OTHERS, csr_array(np.eye(30, dtype=bool)))
    tags, references = tags_of(sharing, TAGS[:40], TAGS[40:])
    found, slopes = loss(Z, tags, OTHERS, references)
    assert found == value
    for one, other in zip(slopes, gradients, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_function_gives_the_batches_reports_and_maps_of_the_matrix_that_it_spells_out():
    years = RNG.permutation(40)
    tags, identity = tags_of(near, years, years[:30])
    matrix = csr_array(near(years, years[:30]))
    draw = ClassBalanced(2, 8)
    epochs = (draw.prepare(x, y_database=identity) for x in (tags, matrix))
    drawn = [[b.rows.tolist() for b in epoch(np.random.RandomState(0))] for epoch in epochs]
    assert drawn[0] == drawn[1]
    for given in ((tags, OTHERS, identity), (matrix, OTHERS, np.eye(30, dtype=bool))):
        report = metrics.retrieval_report(Z, *given, metrics="map_at_r")["map_at_r"].values
        model = learner(losses.SupCon(), embedding=Asymmetric(Linear(2), Linear(2)))
        drawn.append([report, *model.fit(Z, *given).parameters_])
    for one, other in zip(*drawn[2:], strict=True):
        np.testing.assert_array_equal(one, other)
    alone = metrics.retrieval_report(Z, tags_of(near, years), metrics="map_at_r")["map_at_r"]
    both = metrics.retrieval_report(
        Z, csr_array(near(years, years)), Z, csr_array(np.eye(40)), metrics="map_at_r",
        exclude=np.arange(40),
    )  # fmt: skip
    np.testing.assert_array_equal(alone.values, both["map_at_r"].values)


def test_tags_of_a_function_are_few_and_relate_what_it_says(monkeypatch):
    assert tags_of(lambda a, b: a[:, None] == b, CLASSES).shape == (70, 5)
    related = RNG.random((50, 50)) < 0.2
    related |= related.T
    rows = np.repeat(np.arange(50), 2)[RNG.permutation(100)]
    monkeypatch.setattr("metricfast._labels.tags.rows_per_block", lambda width: 7)
    for function in (lambda a, b: related[np.ix_(a, b)], lambda a, b: related[a, b]):
        tags = tags_of(function, rows).toarray().astype(int)
        shared = tags @ tags.T > 0
        np.fill_diagonal(shared, related[rows, rows])
        np.testing.assert_array_equal(shared, related[np.ix_(rows, rows)])
    texts = ["ab", "bc", "cd"]
    found = tags_of(lambda a, b: bool(set(a) & set(b)), texts, ["a", "d"])[0]
    np.testing.assert_array_equal(found.toarray(), [[1, 0], [0, 0], [0, 1]])


def test_functions_that_are_no_relations_are_refused():
    with pytest.raises(TypeError, match="positives must be a function of labels, got None"):
        tags_of(None, CLASSES)
    with pytest.raises(ValueError, match=r"positives must be symmetric .* y\[0\] and y\[1\]"):
        tags_of(lambda a, b: a[:, None] < b, [1, 2])
    with pytest.raises(ValueError, match=r"positives must return booleans .* array of int64"):
        tags_of(lambda a, b: a[:, None] + b, [1, 2])
    with pytest.raises(ValueError, match=r"positives must be a function of two .* KeyError"):
        tags_of(lambda a, b: {}[0], [1, 2])
    with pytest.raises(ValueError, match="y and y_database must have as many columns"):
        tags_of(near, [1, 2], [[1], [2]])


def test_what_takes_no_tags_says_so():
    tags = MultiLabelBinarizer(sparse_output=True).fit_transform([["a"], ["a", "b"], []])
    points = Z[:3]
    for loss in (losses.LMNN(), losses.Gerrymander(1)):
        with pytest.raises(ValueError, match="needs one class per point"):
            loss(points, tags)
    with pytest.raises(ValueError, match=r"y must hold a row of tags for each of 3 points"):
        losses.SupCon()(points, tags[:2])
    with pytest.raises(ValueError, match="y is sparse, so it must hold tags, zeros and ones"):
        losses.SupCon()(points, 2 * tags)
    with pytest.raises(ValueError, match="y and y_database must both hold tags"):
        losses.SupCon()(points, tags, points, [0, 1, 1])
    with pytest.raises(ValueError, match="y_database must have 2 columns of tags, as y; found 3"):
        losses.SupCon()(points, tags, points, np.eye(3, dtype=bool))
    with pytest.raises(ValueError, match=r"y holds tags, .* needs one class per point"):
        learner(losses.ProxyNCA()).fit(points, tags)
    with pytest.raises(ValueError, match="validate must be False where y holds tags"):
        learner(losses.SupCon()).fit(points, tags, validate=True)
    with pytest.raises(ValueError, match="y holds tags, which points of two folds may share"):
        metrics.cross_validate_retrieval(learner(losses.SupCon()), points, tags)
    with pytest.raises(ValueError, match="y holds tags, which points of two folds may share"):
        metrics.label_disjoint_folds(tags.toarray() > 0, 2)
    with pytest.raises(ValueError, match="y must hold numbers for DenseTriplet"):
        DenseTriplet(1).prepare(tags)


def test_integers_in_columns_are_refused_with_a_remedy():
    tags = np.eye(2, dtype=int)[[0, 1, 1, 0]]
    with pytest.raises(ValueError, match=r"found shape \(4, 2\).*y.astype\(bool\).*argmax"):
        EmbeddingLearner(losses.SupCon()).fit(np.eye(4), tags)
    with pytest.raises(
        ValueError, match=r"labels must .* \(4, 2\). For tags.*labels.astype\(bool\)"
    ):
        metrics.retrieval_report(np.eye(4), tags, metrics="map_at_r")
