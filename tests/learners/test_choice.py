"""Choice of the start, the number of epochs and normalisation by data, and of what is held out."""

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from trained import embedding_learner

import metricfast as mf
from metricfast import losses
from metricfast.embeddings import MLP, Asymmetric, Linear
from metricfast.neighbors import kneighbors
from metricfast.selection import Judge
from metricfast.solvers import Adam

RNG = np.random.default_rng(0)
CENTRES = RNG.normal(size=(120, 8))
Y = np.repeat(np.arange(120), 2)
NOISE = RNG.normal(size=(240, 8))
ALIKE = CENTRES[Y] + 0.4 * NOISE  # equal noise in all features
NOISY = CENTRES[Y] + NOISE * ([0.1] * 6 + [3.0] * 2)
TRAIN, TEST = Y < 60, Y >= 60
CLASSES = np.arange(240) % 3
APART = ALIKE + 0.7 * CENTRES[CLASSES]
NO_BETTER = "Learning was not better than the given distance"


def supcon(embedding=None, **params):
    return mf.EmbeddingLearner(losses.SupCon(), embedding, **{"random_state": 0, **params})


def share_found(queries, database=None):
    if database is not None:
        return np.mean(kneighbors(queries, database, 1)[1][:, 0] == np.arange(len(queries)))
    nearest = kneighbors(queries, n_neighbors=1)[1][:, 0]
    return np.mean(Y[TEST][nearest] == Y[TEST])


@pytest.mark.parametrize(
    ("loss", "embedding"),
    [
        (losses.SupCon(), None),
        (losses.NCA(), None),
        (losses.ProxyAnchor(), None),
        (losses.SupCon(), MLP((20, 16), 8)),
        (losses.SupCon(), MLP((9,), 8, "identity")),
    ],
)
def test_the_given_distance_stays_where_nothing_is_to_be_learned(loss, embedding):
    with pytest.warns(UserWarning, match=NO_BETTER):
        model = mf.EmbeddingLearner(loss, embedding, random_state=0).fit(ALIKE[TRAIN], Y[TRAIN])
    centred = ALIKE[TEST] - ALIKE[TRAIN].mean(axis=0)
    np.testing.assert_allclose(model.transform(ALIKE[TEST]), centred, atol=1e-9)
    assert model.judgement_.name == "given distance"


@pytest.mark.parametrize(
    ("loss", "embedding"),
    [
        (losses.SupCon(), None),
        (losses.NCA(), None),
        (losses.Triplet(), None),
        (losses.SupCon(), MLP((32,), 8)),
    ],
)
def test_what_serves_new_classes_is_learned(loss, embedding):
    model = mf.EmbeddingLearner(loss, embedding, random_state=0).fit(NOISY[TRAIN], Y[TRAIN])
    assert share_found(model.transform(NOISY[TEST])) > share_found(NOISY[TEST]) + 0.3
    found = model.judgement_
    assert found.costs[0] - found.costs[found.chosen] > 2 * found.errors[found.chosen] > 0


def test_two_views_of_the_same_features_find_each_other():
    views = [NOISY[view::2] for view in (0, 1)]
    known, new = slice(60), slice(60, 120)
    labels = np.arange(60)
    model = supcon(Asymmetric(Linear(), Linear()))
    model.fit(views[0][known], labels, views[1][known], labels)
    found = model.transform(views[0][new], "query"), model.transform(views[1][new], "database")
    assert share_found(*found) > share_found(views[0][new], views[1][new]) + 0.3


def test_points_that_are_their_own_database_do_not_find_themselves():
    X, y = NOISY[TRAIN], Y[TRAIN]
    model = supcon(Asymmetric(Linear(), Linear())).fit(X, y, X, y)
    assert model.judgement_.costs[0] > model.judgement_.costs[model.judgement_.chosen]


def test_two_kinds_of_points_find_each_other():
    turned = NOISY[1::2] @ RNG.normal(size=(8, 8)) @ np.eye(8, 11)
    known, new, labels = slice(80), slice(80, 120), np.arange(80)
    model = supcon(Asymmetric(Linear(6), Linear(6)))
    model.fit(NOISY[::2][known], labels, turned[known], labels)
    assert all(side.normalize for side in (model.embedding_.query, model.embedding_.database))
    found = model.transform(NOISY[::2][new], "query"), model.transform(turned[new], "database")
    assert share_found(*found) > 0.5


def test_a_perceptron_with_few_units_starts_from_principal_components():
    with pytest.warns(UserWarning, match=NO_BETTER):
        model = supcon(MLP((8,), 6)).fit(ALIKE[TRAIN], Y[TRAIN])
    Z, plain = model.transform(ALIKE), Linear(4, init="pca")
    centred = ALIKE - ALIKE[TRAIN].mean(axis=0)
    components = plain.forward(plain.initialize(centred[TRAIN]), centred)[0]
    np.testing.assert_allclose(np.abs(Z), np.abs(np.pad(components, ((0, 0), (0, 2)))), atol=1e-9)


def test_few_epochs_are_chosen_where_more_would_fit_noise():
    model = supcon(MLP((32,), 8, "tanh"), learning_rate=0.01).fit(APART, CLASSES)
    assert model.n_iter_ < 50 and model.judgement_.name.startswith("init")
    whole = supcon(MLP((32,), 8, "tanh"), learning_rate=0.01, max_epochs=model.n_iter_)
    whole.set_params(judge=None).fit(APART, CLASSES)
    np.testing.assert_array_equal(model.transform(APART), whole.transform(APART))


@pytest.mark.parametrize(
    ("loss", "embedding", "lengths"),
    [
        (losses.SupCon(), Linear(), [True]),
        (losses.Triplet(), MLP((4,), 2), [True]),
        (losses.NCA(), Linear(), [False]),
        (losses.SupCon(), Linear(normalize=False), [False]),
        (losses.NCA(), Linear(normalize=True), [True]),
        (losses.NCA(), Asymmetric(Linear(), Linear()), [False, False]),
        (losses.NCA(), Asymmetric(Linear(normalize=True), Linear()), [True, True]),
        (losses.SupCon(), Asymmetric(Linear(normalize=False), Linear()), [False, False]),
    ],
)
def test_the_loss_decides_about_the_length_that_an_embedding_leaves_open(loss, embedding, lengths):
    before = repr(embedding)
    learner = embedding_learner(loss, embedding, max_epochs=1)
    found = learner.fit(APART, CLASSES).embedding_
    sides = [found] if len(lengths) == 1 else [found.query, found.database]
    assert [side.normalize for side in sides] == lengths
    assert repr(embedding) == before


@pytest.mark.parametrize(
    ("params", "n_epochs"),
    [
        ({}, 200),
        ({"batch_size": 16}, 96),
        ({"batch_size": 8}, 50),
        ({"batch_size": 16, "max_epochs": 20}, 20),
        ({"solver": Adam(batch_size=16)}, 50),
    ],
)
def test_a_judge_tries_more_epochs_where_points_are_few(monkeypatch, params, n_epochs):
    monkeypatch.setattr("metricfast.learners.embedding.base._PATIENCE", 1000)
    found = supcon(Linear(2), **params).fit(NOISY[:100], CLASSES[:100]).judgement_
    assert found.names[-1].endswith(f", {n_epochs} iterations")
    alone = supcon(Linear(2), **params, judge=None).fit(NOISY[:100], CLASSES[:100])
    assert alone.n_iter_ == params.get("max_epochs", 50)


def test_training_goes_on_from_the_given_distance():
    with pytest.warns(UserWarning, match=NO_BETTER):
        model = supcon().fit(ALIKE[TRAIN], Y[TRAIN])
    before = model.parameters_[0].copy()
    model.partial_fit(ALIKE[TRAIN], Y[TRAIN])
    assert not np.array_equal(model.parameters_[0], before)


OF_TWO = NOISE[:, :2]  # labels of points of which two features matter
TAGS = np.column_stack([OF_TWO > 0, (OF_TWO < 0).all(axis=1)])


@pytest.mark.parametrize(
    ("learner", "y", "measure"),
    [
        (supcon(), TAGS, "neighbors"),
        (mf.LogRatioLearner(), OF_TWO, "squared_error"),
        (mf.LogRatioLearner(), OF_TWO[:, 0], "squared_error"),
        (mf.LogRatioLearner(label_distance="cityblock"), OF_TWO, "label_distance"),
        (mf.LogRatioLearner(label_distance="precomputed"), cdist(OF_TWO, OF_TWO), "label_distance"),
    ],
    ids=["tags", "vectors", "numbers", "distance", "precomputed"],
)
def test_labels_that_are_no_classes_are_judged(learner, y, measure):
    learner = clone(learner).set_params(random_state=0)
    assert learner.fit(NOISE, y).judgement_.chosen > 0
    assert learner.judgement_.measure == measure
    others = np.random.default_rng(1).permutation(240)
    y = y[np.ix_(others, others)] if y.shape == (240, 240) else y[others]
    with pytest.warns(UserWarning, match=NO_BETTER):
        learner.set_params(judge=Judge(errors=3)).fit(NOISE, y)
    assert learner.judgement_.chosen == 0


def test_two_maps_of_votes_stay_where_small_classes_say_nothing_of_new_ones():
    labels = np.repeat(np.arange(40), 6)
    noise = RNG.normal(size=(240, 8))
    with pytest.warns(UserWarning, match=NO_BETTER):
        model = mf.AsymmetricSimilarity(random_state=0).fit(CENTRES[labels] + 0.6 * noise, labels)
    np.testing.assert_allclose(model.components_query_, model.components_database_)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Learning was not")
        mf.AsymmetricSimilarity(random_state=0, tied=True).fit(APART, CLASSES)


LINEAR = [mf.NCA(), mf.MCML(), mf.LDML(), mf.NCMML(), mf.LMNN(n_neighbors=1)]
every_linear = pytest.mark.parametrize("learner", LINEAR, ids=lambda each: type(each).__name__)


@every_linear
def test_linear_learners_keep_the_given_distance_where_noise_is_the_same_in_all_features(learner):
    X = CENTRES[Y] + 0.4 * NOISE
    with pytest.warns(UserWarning, match="Learning was not better than the given distance"):
        model = learner.fit(X[TRAIN], Y[TRAIN])
    scale = model.components_[0, 0]
    np.testing.assert_allclose(model.components_, scale * np.eye(8), atol=1e-12)


@every_linear
def test_a_map_is_learned_that_serves_new_classes(learner):
    X = CENTRES[Y] + NOISE * ([0.1] * 6 + [3.0] * 2)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Learning was not")
        model = learner.fit(X[TRAIN], Y[TRAIN])
    assert share_found(model.transform(X[TEST])) > share_found(X[TEST]) + 0.3


def test_fewer_components_end_at_principal_components():
    X = np.hstack([CENTRES[Y] + 0.4 * NOISE, 0.01 * RNG.normal(size=(240, 4))])
    with pytest.warns(UserWarning, match="Learning was not better than the given distance"):
        L = mf.NCA(n_components=8).fit(X[TRAIN], Y[TRAIN]).components_
    assert np.ptp(np.linalg.norm(L, axis=1)) < 1e-9 * np.linalg.norm(L)
    assert np.linalg.norm(L[:, 8:]) < 0.1 * np.linalg.norm(L)


def test_what_is_held_out_may_be_named():
    X = CENTRES[Y[:200] // 5] + 0.4 * NOISE[:200]
    labels = Y[:200] // 5  # 20 classes of 10 points
    for judge, unit in ((Judge(unit="classes"), "classes"), ("auto", "points")):
        with pytest.warns(UserWarning, match=f"by 2 standard errors on held-out {unit}, so"):
            assert mf.NCA(judge=judge).fit(X, labels).judgement_.unit == unit
    with pytest.warns(UserWarning, match="Nothing could be held out"):  # three classes
        mf.NCA(judge=Judge(unit="classes")).fit(X[:30], labels[:30])
    with pytest.raises(ValueError, match="unit must be"):
        mf.NCA(judge=Judge(unit="rows")).fit(X, labels)
