"""The judge: splits, measures, the rule, and what learners do with it."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score

import metricfast as mf
from metricfast._labels.binding import bind_labels
from metricfast.embeddings import Linear
from metricfast.exceptions import MeasureError
from metricfast.losses import SupCon
from metricfast.selection import Judge, Judgement
from metricfast.selection._evidence import choose
from metricfast.selection._judge import judge_costs, judge_path
from metricfast.selection._measures import MEASURES, Search
from metricfast.selection._splits import split_points
from metricfast.solvers import LBFGS

X, Y = load_digits(return_X_y=True)
WINE, KINDS = load_wine(return_X_y=True)


def test_each_point_is_held_out_once_with_its_copies():
    points, labels = np.r_[X[:60], X[:20]], np.r_[Y[:60], Y[:20]]
    labels[59] = 10  # a class of a single point
    parts = split_points(points, labels)
    trained = np.array([np.isin(np.arange(80), part.train) for part in parts])
    assert ((~trained[:, :59]).sum(axis=0) == 1).all() and trained[:, 59].all()
    assert (trained[:, :20] == trained[:, 60:]).all()
    assert sum(part.weight.sum() for part in parts) == 79
    for part in parts:
        assert set(labels[part.train]) == set(labels)
        assert np.isin(part.database, part.train).all()
        assert part.database_weight.sum() == len(part.train)
        assert part.exclude is None and part.unit == "points"


@pytest.mark.parametrize(("n_classes", "size"), [(50, 2), (30, 13)])
def test_classes_are_held_out_if_they_have_few_points(n_classes, size):
    """Points of held-out classes search for their class among all points."""
    labels = np.repeat(np.arange(n_classes), size)
    points = np.random.RandomState(0).normal(size=(len(labels), 3)) + labels[:, None]
    points, labels = np.r_[points, [[0, 0, 9]]], np.r_[labels, n_classes]
    halves = split_points(points, labels)
    trained, held = ([set(labels[each]) for each in found] for found in (
        [part.train for part in halves], [part.queries for part in halves]
    ))  # fmt: skip
    assert trained == held[::-1] and set.union(*held) == set(range(n_classes))
    for part in halves:
        assert sorted(part.database) == list(range(len(labels)))
        np.testing.assert_array_equal(part.database[part.exclude], part.queries)
    order = np.random.RandomState(1).permutation(len(labels))
    again = split_points(points[order], labels.max() - labels[order])
    assert [set(order[part.train]) for part in again] == [set(part.train) for part in halves]
    assert len(split_points(points, labels, unit="points")) == 3
    assert split_points(points[:30], labels[:30] // 13, unit="classes") == []


def test_parts_depend_on_no_names_orders_units_or_rotations():
    rng = np.random.RandomState(0)
    order, Q = rng.permutation(300), np.linalg.qr(rng.normal(size=(64, 64)))[0]
    parts = split_points(X[:300], Y[:300])
    for points, labels in ((X[:300] @ Q * 1e5, Y[:300]), (X[order], 9 - Y[order])):
        rows = order if points.shape[0] == 300 and labels[0] == 9 - Y[order[0]] else np.arange(300)
        for part, other in zip(parts, split_points(points, labels), strict=True):
            assert set(rows[other.train]) == set(part.train)


def test_small_classes_and_points_without_weight_are_not_held_out():
    labels = np.r_[Y[:300], 10, 11, 11]
    weight = np.r_[np.arange(300) % 2.0, 1, 1, 1]
    for part in split_points(X[:303], labels, weight, least=2):
        assert not np.isin([300, 301, 302], part.queries).any()
        assert np.isin([300, 301, 302], part.train).all()
        assert weight[part.train].all() and weight[part.queries].all()
    assert split_points(X[:4], np.arange(4)) == []
    assert split_points(X[:12], np.repeat([0, 1], 6), least=5) == []


def test_number_of_held_out_points_is_limited():
    points = np.random.RandomState(0).normal(size=(6000, 2))
    (part,) = split_points(points, np.arange(6000) % 3)
    assert len(part.queries) == 1000 and len(part.train) == 5000


def test_whole_groups_are_held_out():
    groups = np.arange(300) // 10
    parts = split_points(X[:300], Y[:300], groups=groups)
    held = [set(groups[part.queries]) for part in parts]
    assert set.union(*held) == set(range(30)) and sum(map(len, held)) == 30
    for part in parts:
        assert not set(groups[part.train]) & set(groups[part.queries])
    with pytest.raises(ValueError, match="groups must hold at least 2 groups"):
        split_points(X[:300], Y[:300], groups=np.zeros(300, int))


# Fifty spectra of each of six patients, who differ more than the two classes do.
PATIENTS = np.repeat(list("abcdef"), 50)
CASES = PATIENTS > "c"
SPECTRA = np.random.RandomState(1).normal(size=(300, 20))
SPECTRA[:, :6] += 9 * (PATIENTS[:, None] == list("abcdef"))
SPECTRA[:, 6] += CASES
FROM_CLASSES = [
    mf.LFDA(), mf.ANMM(), mf.DMLMJ(), mf.GMML_Supervised(), mf.KISSME_Supervised(), mf.XQDA(),
    mf.RCA_Supervised(random_state=0),
]  # fmt: skip
ITML_FROM_CLASSES = mf.ITML_Supervised(n_constraints=50, random_state=0)
FROM_TUPLES = [
    learner.set_params(random_state=0)
    for learner in (
        ITML_FROM_CLASSES, mf.LSML_Supervised(n_constraints=50),
        mf.MMC_Supervised(n_constraints=50), mf.SCML_Supervised(n_basis=20, max_iter=500),
    )
]  # fmt: skip
TRAINED = [mf.LMNN(max_iter=3), mf.NCA(max_iter=3)]
EMBEDDED = [
    mf.AsymmetricSimilarity(solver=LBFGS(2), random_state=0, judge=Judge()),
    mf.EmbeddingLearner(SupCon(), max_epochs=3, random_state=0),
]


@pytest.mark.filterwarnings("ignore:.*given distance", "ignore:The distance that", "ignore:No conv")
@pytest.mark.parametrize("learner", FROM_CLASSES + FROM_TUPLES + TRAINED + EMBEDDED, ids=repr)
def test_learners_hold_out_whole_groups(learner):
    alone = clone(learner).fit(SPECTRA, CASES, validate=True)
    whole = clone(learner).fit(SPECTRA, CASES, groups=PATIENTS, validate=True)
    assert alone.judgement_.unit == "points" and whole.judgement_.unit == "groups"
    assert alone.judgement_.costs[0] == 0 and whole.judgement_.costs[0] > 0.2
    assert alone.validation_.costs[0] == 0 and whole.validation_.costs[0] > 0.2
    assert whole.validation_.n_held_out == 100  # two of six patients
    again = clone(learner).set_params(judge=None)
    np.testing.assert_array_equal(  # they have no other effect
        again.fit(SPECTRA, CASES, groups=PATIENTS).transform(SPECTRA),
        again.fit(SPECTRA, CASES).transform(SPECTRA),
    )


@pytest.mark.parametrize(
    "learner", [mf.LFDA(), mf.NCA(), mf.ITML_Supervised(n_constraints=20)], ids=repr
)
def test_groups_are_needed_to_hold_them_out(learner):
    asked = clone(learner).set_params(judge=Judge(unit="groups"))
    with pytest.raises(ValueError, match=r"Judge\(unit='groups'\) needs the group of each point"):
        asked.fit(WINE, KINDS)


@pytest.mark.parametrize(
    ("params", "values", "text"),
    [
        ({}, PATIENTS[1:], "groups must hold 300 labels, one per point; found 299"),
        ({}, np.full(300, np.nan), "groups contains NaN"),
        ({}, np.zeros(300), "groups must hold at least 2 groups, to hold one out; found 1"),
        ({"unit": "points"}, PATIENTS, r"groups are held out whole, and Judge\(unit='points'\)"),
        ({"unit": "classes"}, PATIENTS, r"groups are held out whole, and Judge\(unit='classes'\)"),
    ],
)
def test_groups_that_cannot_be_held_out(params, values, text):
    with pytest.raises(ValueError, match=text):
        mf.LFDA(judge=Judge(**params)).fit(SPECTRA, CASES, groups=values)


@pytest.mark.filterwarnings("ignore:.*given distance")
def test_groups_reach_the_splitter_and_if_asked_for_the_learner():
    def unit_of(fitted, X, y=None):
        return float(fitted.judgement_.unit == "groups")

    how = {"cv": GroupKFold(2), "scoring": unit_of}
    assert not cross_val_score(mf.LFDA(), SPECTRA, CASES, groups=PATIENTS, **how).any()
    with config_context(enable_metadata_routing=True):
        given = {"params": {"groups": PATIENTS}}
        with pytest.raises(UnsetMetadataPassedError, match="groups"):
            cross_val_score(mf.LFDA(), SPECTRA, CASES, **given, **how)
        alone, asked = (mf.LFDA().set_fit_request(groups=each) for each in (False, True))
        assert not cross_val_score(alone, SPECTRA, CASES, **given, **how).any()
        assert cross_val_score(asked, SPECTRA, CASES, **given, **how).all()
        search = GridSearchCV(asked, {"n_components": [1, 2]}, **how)
        found = search.fit(SPECTRA, CASES, groups=PATIENTS).best_estimator_
        assert found.judgement_.unit == "groups"


@pytest.mark.filterwarnings("ignore:.*given distance", "ignore:No conv")
@pytest.mark.parametrize(
    "learner", [*FROM_CLASSES[:4], ITML_FROM_CLASSES, *TRAINED, *EMBEDDED], ids=repr
)
def test_views_are_for_the_judge_of_other_learners(learner):
    views = np.arange(300) % 2
    points = SPECTRA.copy()
    points[:, :6] += 90 * views[:, None] * (np.roll(PATIENTS, 50)[:, None] == list("abcdef"))
    alone, across = (
        clone(learner).fit(points, PATIENTS, views=each, validate=True)
        for each in (None, views.astype(str))
    )
    assert alone.judgement_.costs[0] < 0.1 and across.judgement_.costs[0] > 0.5
    assert alone.validation_.costs[0] < 0.1 and across.validation_.costs[0] > 0.5


OF_CLASSES = [name for name in MEASURES if name != "label_distance"]


def costs_by_loops(name, Z, y, database, labels, exclude):
    """Return the costs of queries one by one, from all distances."""
    found = []
    squares = ((Z[:, None] - database) ** 2).sum(axis=2)
    others = np.ones(squares.shape, bool)
    if exclude is not None:
        others[np.arange(len(Z)), exclude] = False
    apart = np.sqrt(squares[others & (y[:, None] != labels)])
    for i, row in enumerate(squares):
        near = [j for j in np.argsort(row, kind="stable") if others[i, j]]
        wrong = (labels[near] != y[i]).astype(float)
        if name == "nearest":
            found.append(wrong[0])
        elif name == "neighbors":
            half = (4 * wrong[0] + 2 * wrong[1] + wrong[2]) / 7
            found.append([(half + wrong[:5].mean()) / 2, wrong[0]])
        elif name == "vote":
            found.append(wrong[:5].mean())
        elif name == "squared_error":
            found.append((labels[near[:5]].mean() - y[i]) ** 2)
        elif name == "retrieval":
            R = int((wrong == 0).sum())
            hits = 1 - wrong[:R]
            found.append(1 - (hits.cumsum() / np.arange(1, R + 1) * hits).sum() / R if R else 0)
        else:
            own = np.sqrt(row[near])[wrong == 0]
            found.append((own > np.quantile(apart, 0.01)).mean() if len(own) else 0)
    return found


@pytest.mark.parametrize("alone", [False, True], ids=["apart", "own database"])
@pytest.mark.parametrize("name", OF_CLASSES)
def test_measures_agree_with_loops(name, alone):
    rng = np.random.default_rng(0)
    database, labels = rng.normal(size=(40, 3)), rng.integers(4, size=40)
    some = rng.permutation(40)[:15]
    Z, y, exclude = database[some] + 0.01, labels[some].copy(), None
    if alone:
        Z, exclude = database[some], some
    else:
        y[0] = 9  # a class that the database lacks
    found = MEASURES[name](Search(Z, database, exclude), y, labels, None)
    expected = costs_by_loops(name, Z, y, database, labels, exclude)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("n", [30, 6], ids=["many", "fewer than are counted"])
@pytest.mark.parametrize("name", OF_CLASSES)
def test_a_filter_leaves_out_points_of_the_same_view(name, n):
    rng = np.random.default_rng(0)
    Z, y, views = rng.normal(size=(n, 3)), np.arange(n) // 2 % 5, np.arange(n) % 2
    found = MEASURES[name](Search(Z, Z, where=(views, views)), y, y, None)
    for view in (0, 1):
        own, other = views == view, views != view
        if name == "verification":  # its threshold is of all pairs
            continue
        expected = MEASURES[name](Search(Z[own], Z[other]), y[own], y[other], None)
        some = slice(1, 2) if found.ndim > 1 and n < 10 else slice(None)  # missing ones are wrong
        np.testing.assert_allclose(found[own][..., some], expected[..., some], rtol=1e-6)


def test_measures_of_tags_and_of_label_distances_agree_with_loops():
    rng = np.random.default_rng(0)
    Z, some = rng.normal(size=(30, 3)), np.arange(10)
    tags, labels = rng.random((30, 6)) < 0.3, rng.normal(size=(30, 2))
    near = np.argsort(cdist(Z, Z) + 9 * np.eye(30), axis=1)[:10, :5]
    shared = np.array([(tags[i] & tags[near[i]]).any(axis=1) for i in range(10)])
    y, search = csr_array(tags.astype(float)), Search(Z[:10], Z, some)
    found = MEASURES["neighbors"](search, y[:10], y, None)
    shares = (np.array([4, 2, 1, 0, 0]) / 7 + 1 / 5) / 2
    np.testing.assert_allclose(found, np.column_stack([~shared @ shares, ~shared[:, 0]]), rtol=1e-6)
    found = MEASURES["vote"](search, y[:10], y, None)
    np.testing.assert_allclose(found, 1 - shared.mean(axis=1), rtol=1e-6)
    relevant = (tags[:10, None] & tags).any(axis=2) & (np.arange(30) != some[:, None])
    order = np.argsort(cdist(Z[:10], Z), axis=1)[:, 1:]
    hits, R = np.take_along_axis(relevant, order, axis=1), relevant.sum(axis=1)
    precisions = hits.cumsum(axis=1) / np.arange(1, 30) * hits * (np.arange(1, 30) <= R[:, None])
    found = MEASURES["retrieval"](search, y[:10], y, None)
    np.testing.assert_allclose(found, 1 - precisions.sum(axis=1) / np.maximum(R, 1), rtol=1e-6)
    distance, labels, _ = bind_labels("cityblock", labels)
    found = MEASURES["label_distance"](search, labels[:10], labels, None, distance=distance)
    expected = np.take_along_axis(cdist(labels, labels, "cityblock")[:10], near, axis=1)
    np.testing.assert_allclose(found, expected.mean(axis=1), rtol=1e-6)
    found = MEASURES["squared_error"](search, labels[:10], labels, None)
    errors = labels[near].mean(axis=1) - labels[:10]
    np.testing.assert_allclose(found, (errors**2).sum(axis=1), rtol=1e-6)


def test_weights_are_copies_for_votes():
    rng = np.random.default_rng(0)
    database, labels = rng.normal(size=(20, 2)), rng.integers(2, size=20)
    often = rng.integers(1, 3, size=20)
    Z, y = rng.normal(size=(9, 2)), rng.integers(2, size=9)
    for name in ("vote", "squared_error"):
        weighted = MEASURES[name](Search(Z, database), y, labels, often.astype(float))
        copies = Search(Z, np.repeat(database, often, axis=0))
        copied = MEASURES[name](copies, y, np.repeat(labels, often), None)
        np.testing.assert_allclose(weighted, copied, rtol=1e-6)


def test_the_rule_asks_for_evidence():
    rng = np.random.default_rng(0)
    given = rng.random(400) < 0.5
    little, much = given.copy(), given.copy()
    little[np.flatnonzero(given)[:3]] = False
    much[np.flatnonzero(given)[:60]] = False
    costs, weight = np.array([given, little, much], float), np.ones(400)
    assert choose(costs[:2], weight, errors=2) == 0
    assert choose(costs[:2], weight, errors=1) == 1
    assert choose(costs, weight, errors=2) == 2
    assert choose(costs[[0, 0]], weight, errors=0) == 0
    failed = np.where([[False], [False], [True]], np.nan, costs)
    assert choose(failed, weight, errors=1) == 1


def test_among_equally_good_rows_the_order_decides():
    given = np.ones(100)
    first, second = np.r_[np.zeros(50), given[:50]], np.r_[np.zeros(52), given[:48]]
    costs, weight = np.array([given, first, second]), np.ones(100)
    assert choose(costs, weight, errors=2) == 2
    assert choose(costs, weight, errors=2, equal=2) == 1
    assert choose(costs, weight, errors=2, equal=2, order=np.array([0, 9, 1])) == 2


def test_a_repeated_point_is_no_further_evidence():
    costs = np.array([[1.0, 1, 1, 0], [0, 0, 0, 0]])
    assert choose(costs, np.ones(4), errors=1.7) == 1
    assert choose(costs, np.array([9.0, 1, 1, 1]), errors=1.7) == 0


def paths(found):
    """Return a path of made-up candidates: each the right or a random embedding, or an error."""

    def path(part, some):
        for each in (found[row] for row in some):
            if isinstance(each, Exception):
                raise each
            yield each[part.queries], each[part.database]

    return path


def test_candidates_that_fail_have_lost():
    rng = np.random.default_rng(0)
    right, noise = Y[:300, None] + 0.01 * rng.normal(size=(300, 1)), rng.normal(size=(300, 1))
    parts = split_points(X[:300], Y[:300])

    def judged(*found):
        names = ["given distance", *map(str, range(1, len(found)))]
        return judge_path(Judge(), names, parts, paths(found), Y[:300])

    assert judged(noise, right).name == "1"
    found = judged(noise, right, ValueError(), right)
    assert found.name == "1" and np.isnan(found.costs[2:]).all() and found.n_held_out == 300
    found = judged(noise, np.linalg.LinAlgError("singular"), right)
    assert found.n_held_out == 0 and found.chosen == 0
    with pytest.warns(UserWarning, match=r"No part .* \(singular\), so .* judge=None to learn"):
        found.warn()


def test_a_candidate_that_is_surely_worse_is_given_up():
    """It is judged by the first part alone, and its cost is relative to the given distance."""
    rng = np.random.default_rng(0)
    right, noise = Y[:300, None] + 0.01 * rng.normal(size=(300, 1)), rng.normal(size=(300, 1))
    half = np.where(rng.random((300, 1)) < 0.5, right, 3 + noise)
    parts, asked = split_points(X[:300], Y[:300]), []

    def path(part, some):
        asked.append(list(some))
        return paths((half, noise, right))(part, some)

    names = ["given distance", "noise", "right"]
    found = judge_path(Judge(), names, parts, path, Y[:300])
    assert asked == [[0, 1, 2], [0, 2], [0, 2]] and found.name == "right"
    alone = judge_path(Judge(), names[:2], parts[:1], path, Y[:300])
    assert found.costs[1] - found.costs[0] == pytest.approx(alone.costs[1] - alone.costs[0])
    assert found.errors[1] == pytest.approx(alone.errors[1])
    asked.clear()
    found = judge_path(Judge(), names[:2], parts, path, Y[:300])
    assert asked == [[0, 1]] and found.chosen == 0 and found.n_held_out == len(parts[0].queries)


def test_the_reason_names_a_guard():
    costs = np.array([[1.0] * 9, [0.5] * 9])
    worse = np.stack([costs, np.array([[0.0] * 9, [1.0] * 9])], axis=-1)
    found = judge_costs(Judge(), ["given distance", "1"], worse, np.ones(9), "neighbors", "points")
    assert found.chosen == 0
    assert found.reason == "Learning made the nearest neighbours of held-out points worse"


def test_a_judgement_prints_its_table():
    costs = np.array([[1.0, 1, 0, 1], [0, 0, 0, 0], [np.nan] * 4])
    names = ["given distance", "shrinkage=0.3", "shrinkage=0"]
    found = judge_costs(Judge(errors=1), names, costs, np.ones(4), "nearest", "points")
    lines = str(found).splitlines()
    assert "nearest on 4 held-out points" in lines[0]
    assert lines[1].split()[:3] == ["given", "distance", "0.7500"]
    assert lines[2].split() == ["*", "shrinkage=0.3", "0.0000", "+0.7500", "0.4330"]
    given = np.array([0.1, 0.7, 0.4, 0.2, 0.9, 0.3])
    found = judge_costs(Judge(), names[:2], np.stack([given, 0 * given]), np.ones(6), "", "")
    assert str(found.costs[1]) == "0.0"
    assert lines[3].endswith("could not be fitted")
    many = judge_costs(
        Judge(), ["given distance", *map(str, range(99))], np.ones((100, 4)), np.ones(4), "", ""
    )
    assert len(str(many).splitlines()) < 20


@pytest.mark.parametrize(
    ("judge", "text"),
    [
        (Judge("map"), "measure must be 'auto', a function, or one of 'neighbors', .*'map'"),
        (Judge(unit="rows"), "unit must be"),
        (Judge(n_splits=1), "n_splits must be"),
        (Judge(errors=-1), "errors must be"),
        (True, r"judge must be 'auto', None or .*Judge, got True"),
    ],
)
@pytest.mark.parametrize(
    "learner", [mf.LFDA(), mf.NCA(), mf.RCA_Supervised(n_chunks=50), mf.NCAClassifier()], ids=repr
)
def test_wrong_judges_are_refused(learner, judge, text):
    with pytest.raises(ValueError, match=text):
        clone(learner).set_params(judge=judge).fit(WINE, KINDS)


def test_a_measure_must_fit_the_labels():
    with pytest.raises(
        ValueError, match="must be one of classes for these labels; got 'squared_error'"
    ):
        mf.LFDA(judge=Judge(measure="squared_error")).fit(WINE, KINDS)
    for measure in ("nearest", lambda distances, relevant: distances[:, 0]):
        with pytest.raises(ValueError, match="must be 'auto' or 'squared_error' for these"):
            mf.MLKR(judge=Judge(measure=measure)).fit(WINE, WINE[:, 0])
        with pytest.raises(ValueError, match="must be 'auto' or 'squared_error' for these"):
            mf.NCARegressor(judge=Judge(measure=measure)).fit(WINE, WINE[:, 0])
    with pytest.raises(ValueError, match="must be 'auto' if y has several outputs; got 'nearest'"):
        mf.NCAClassifier(judge=Judge(measure="nearest")).fit(WINE, np.c_[KINDS, KINDS])


def test_a_number_is_used_as_it_is():
    for learner in (
        mf.LFDA(shrinkage=0.2), mf.ANMM(shrinkage=0.2), mf.DMLMJ(reg=0.2),
        mf.RCA_Supervised(n_chunks=50, shrinkage=0.2), mf.KISSME_Supervised(regularization=0.2),
        mf.XQDA(regularization=0.2),
    ):  # fmt: skip
        model = learner.fit(WINE, KINDS)
        assert not hasattr(model, "judgement_")
        assert getattr(model, f"{model._tuned}_") == 0.2


@pytest.mark.parametrize("measure", ["nearest", "retrieval", "verification", "vote"])
@pytest.mark.parametrize("learner", [mf.LFDA(), mf.NCA(tol=1e-2)], ids=repr)
def test_learners_are_judged_by_the_measure_that_is_asked_for(learner, measure):
    model = clone(learner).set_params(judge=Judge(measure=measure)).fit(WINE, KINDS)
    assert isinstance(model.judgement_, Judgement) and model.judgement_.measure == measure
    assert model.judgement_.n_held_out == len(WINE) and model.judgement_.chosen > 0


@pytest.mark.parametrize("measure", ["auto", *OF_CLASSES])
def test_soft_votes_are_judged_by_the_measure_that_is_asked_for(measure):
    kind = mf.NCARegressor if measure == "squared_error" else mf.NCAClassifier
    how = {"scale": 0.3, "max_epochs": 10, "n_components": 8, "random_state": 0}
    model = kind(judge=Judge(measure=measure, errors=0), **how).fit(WINE, KINDS)
    judgement = model.judgement_
    assert judgement.measure == {"auto": "log_loss"}.get(measure, measure)
    assert judgement.names[:2] == ["linear map", "periodic, scale 0.3"]
    assert len(model.parameters_) == 3 and judgement.n_held_out == 60  # a third of the points
    best = judgement.costs[judgement.chosen]
    assert min(model.validation_costs_[0]) == pytest.approx(best)
    assert best == pytest.approx(judgement.costs.min()) or measure == "neighbors"  # has a guard
    sure = kind(judge=Judge(measure=measure, errors=1e6), **how).fit(WINE, KINDS)
    assert sure.judgement_.name == "linear map" and isinstance(sure.embedding_, Linear)


def test_a_function_may_judge():
    def is_nearest_wrong(distances, relevant):
        return 1.0 - relevant[np.arange(len(distances)), distances.argmin(axis=1)]

    by_function = mf.LFDA(judge=Judge(measure=is_nearest_wrong)).fit(WINE, KINDS).judgement_
    by_name = mf.LFDA(judge=Judge(measure="nearest")).fit(WINE, KINDS).judgement_
    assert by_function.measure == "is_nearest_wrong"
    np.testing.assert_allclose(by_function.costs, by_name.costs)


@pytest.mark.parametrize("learner", [mf.LFDA(), mf.NCA()], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize(
    ("measure", "message"),
    [
        (
            lambda distances, relevant: 0.0,
            r"must return \d+ costs, one per query; found shape \(\)",
        ),
        (
            lambda distances, relevant: np.where(np.arange(len(distances)) == 1, np.nan, 0),
            "must return finite costs; found nan for query 1",
        ),
    ],
    ids=["a number", "NaN"],
)
def test_a_function_that_returns_no_costs_is_an_error(learner, measure, message):
    with pytest.raises(MeasureError, match=message):
        learner.set_params(judge=Judge(measure=measure)).fit(WINE, KINDS)


@pytest.mark.parametrize(
    "learner",
    [
        mf.NCA(),
        mf.LMNN(),
        mf.MCML(),
        mf.NCMML(),
        mf.LFDA(),
        mf.ITML_Supervised(gamma=0.1, n_constraints=100),
    ],
    ids=lambda each: type(each).__name__,
)
def test_the_given_distance_stays_on_noise_and_goes_where_classes_are_far_apart(learner):
    rng, y = np.random.RandomState(1), np.arange(300) % 2
    X = rng.standard_normal((300, 10))
    if "random_state" in learner.get_params():
        learner.set_params(random_state=0)
    with pytest.warns(UserWarning, match="given distance stays"):
        assert clone(learner).fit(X, y).judgement_.name == "given distance"
    X[:, 0] += 3 * y
    found = clone(learner).fit(X, y).judgement_
    assert found.costs[0] - found.costs[found.chosen] >= 2 * found.errors[found.chosen] > 0
