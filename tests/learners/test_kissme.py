"""KISSME and XQDA, against the authors' formulas over pairs in long double."""

from itertools import combinations

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn import config_context
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from metricfast import KISSME, XQDA, KISSME_Supervised, sources
from metricfast.metrics import cross_validate_retrieval, retrieval_report

RNG = np.random.RandomState(0)
# Nine people and three cameras; some people appear several times, some in one camera only.
Y = np.repeat(np.arange(9), 5)
VIEWS = RNG.permutation(np.resize([0, 0, 1, 1, 2], 45))
VIEWS[:5], VIEWS[5:10] = 0, [0, 0, 0, 0, 1]
X = RNG.standard_normal((9, 4))[Y] + 0.5 * RNG.standard_normal((3, 4))[VIEWS]
X = (X + RNG.standard_normal((45, 4)) * [0.3, 0.6, 1, 3]) @ RNG.standard_normal((4, 4)) + 100
INDEX = np.array(list(combinations(range(45), 2)))
SAME = np.where(Y[INDEX[:, 0]] == Y[INDEX[:, 1]], 1, -1)
ACROSS = VIEWS[INDEX[:, 0]] != VIEWS[INDEX[:, 1]]
BY_VIEWS = pytest.mark.parametrize("views", [None, VIEWS], ids=["all", "across"])
CLASSES = pytest.mark.parametrize("learner", [KISSME_Supervised, XQDA])


def covariances(points=X, index=INDEX, same=SAME):
    """Return mean outer products of differences, of similar and of dissimilar pairs."""
    points = points.astype(np.longdouble)
    found = []
    for kind in (1, -1):
        total = np.zeros((points.shape[1],) * 2, np.longdouble)
        for i, j in index[same == kind]:
            total += np.outer(points[i] - points[j], points[i] - points[j])
        found.append(total / np.sum(same == kind))
    return found


def inverse(matrix):
    """Gauss-Jordan elimination, which keeps long double."""
    n = len(matrix)
    both = np.hstack([matrix, np.eye(n, dtype=matrix.dtype)])
    for i in range(n):
        best = i + np.abs(both[i:, i]).argmax()
        both[[i, best]] = both[[best, i]]
        both[i] /= both[i, i]
        others = np.arange(n) != i
        both[others] -= np.outer(both[others, i], both[i])
    return both[:, n:]


def kissme(similar, dissimilar, regularization=0.0):
    noise = regularization * np.trace(similar) / len(similar) * np.eye(len(similar))
    M = (inverse(similar + noise) - inverse(dissimilar + noise)).astype(np.float64)
    values, vectors = np.linalg.eigh(M)
    return (vectors * np.maximum(values, 0)) @ vectors.T


def xqda(similar, dissimilar, regularization=1e-3, n_components=None):
    similar = similar + regularization * np.trace(similar) / len(similar) * np.eye(len(similar))
    ratios, W = eigh(dissimilar.astype(np.float64), similar.astype(np.float64))
    W = W[:, ratios > 1][:, ::-1][:, :n_components].astype(np.longdouble)
    return W @ (inverse(W.T @ similar @ W) - inverse(W.T @ dissimilar @ W)) @ W.T


def check(learner, expected, rtol=1e-10):
    found = learner.get_mahalanobis_matrix()
    np.testing.assert_allclose(found, expected.astype(float), atol=rtol * np.abs(expected).max())


def pairs_of(views):
    return slice(None) if views is None else ACROSS


@BY_VIEWS
def test_metrics_are_the_published_ones(views):
    index, same = INDEX[pairs_of(views)], SAME[pairs_of(views)]
    both = covariances(X, index, same)
    assert np.linalg.eigvalsh((inverse(both[0]) - inverse(both[1])).astype(float))[0] < 0
    learner = KISSME().fit(X[index], same)
    assert learner.regularization_ == 0
    check(learner, kissme(*both))
    check(KISSME(preprocessor=X).fit(index, same), kissme(*both))
    check(KISSME(regularization=0.1).fit(X[index], same), kissme(*both, 0.1))
    check(KISSME_Supervised(judge=None).fit(X, Y, views=views), kissme(*both))
    check(XQDA(regularization=1e-3).fit(X, Y, views=views), xqda(*both))
    check(XQDA(regularization=0).fit(X, Y, views=views), xqda(*both, 0))
    leading = XQDA(n_components=1, regularization=0.5).fit(X, Y, views=views)
    check(leading, xqda(*both, 0.5, 1))
    assert leading.components_.shape == (1, 4)


def test_rows_beyond_the_ratio_of_one_are_zero():
    points = np.c_[X, RNG.permutation(X[:, 0] * np.repeat([1, 30], [44, 1]))]
    auto = XQDA(regularization=1e-3).fit(points, Y)
    every = XQDA(n_components=5, regularization=1e-3).fit(points, Y)
    n = len(auto.components_)
    assert 0 < n < 5
    np.testing.assert_allclose(every.components_[:n], auto.components_)
    assert not every.components_[n:].any()
    nothing = XQDA(regularization=1e-3).fit(
        np.repeat([0.0, 1, 10, 11], 2)[:, None], [0, 1, 2, 3, 0, 1, 2, 3]
    )
    assert nothing.components_.tolist() == [[0.0]]


@BY_VIEWS
@CLASSES
def test_weights_are_repetitions_and_unknown_classes_do_not_count(learner, views):
    weights = RNG.randint(0, 3, 45)
    rows = np.repeat(np.arange(45), weights)
    given = {} if views is None else {"views": views}
    expected = learner().fit(X[rows], Y[rows], **{name: v[rows] for name, v in given.items()})
    found = learner().fit(X, Y, weights, **given)
    check(found, expected.get_mahalanobis_matrix())
    kept = Y > 1
    expected = learner().fit(X[kept], Y[kept], **{name: v[kept] for name, v in given.items()})
    found = learner().fit(X, np.where(kept, Y, -1), **given)
    check(found, expected.get_mahalanobis_matrix())


@pytest.mark.parametrize("names", ["numbers", "text", "objects"])
@BY_VIEWS
@CLASSES
def test_parts_and_sources_are_one_fit(learner, views, names):
    kind = {"numbers": np.int64, "text": str, "objects": object}[names]
    y = Y.astype(str).astype(kind) if names != "numbers" else Y
    given = {} if views is None else {"views": views.astype(kind)}
    weights = RNG.uniform(0.5, 2, 45)
    learner = learner(regularization=1e-3)
    expected = learner.fit(X, y, weights, **given).get_mahalanobis_matrix()
    check(learner.fit(sources.Rows(X), y, weights, **given), expected)
    found, rows = clone(learner), np.r_[np.arange(20)[::-1], 20:45]
    for part in (rows[:20], rows[20:30], rows[30:]):
        of_part = {name: v[part] for name, v in given.items()}
        found.partial_fit(X[part], y[part], weights[part], **of_part)
    check(found, expected)


def test_weights_of_pairs_are_repetitions():
    weights = RNG.randint(0, 3, len(INDEX))
    rows = np.repeat(np.arange(len(INDEX)), weights)
    found = KISSME().fit(X[INDEX], SAME, sample_weight=weights)
    check(found, kissme(*covariances(X, INDEX[rows], SAME[rows])))


def test_parts_of_pairs_are_one_fit():
    found = KISSME()
    for part in np.array_split(RNG.permutation(len(INDEX)), 3):
        found.partial_fit(X[INDEX[part]], SAME[part])
    check(found, kissme(*covariances()))


@BY_VIEWS
def test_few_points_are_learned_from_in_their_span(views):
    wide = X @ RNG.standard_normal((4, 60)) + 0.1 * RNG.standard_normal((45, 60))
    both = covariances(wide, INDEX[pairs_of(views)], SAME[pairs_of(views)])
    learner = KISSME_Supervised(regularization=0.1).fit(wide, Y, views=views)
    check(learner, kissme(*both, 0.1), 1e-8)
    check(XQDA(regularization=0.1).fit(wide, Y, views=views), xqda(*both, 0.1), 1e-8)
    pairs = KISSME(preprocessor=wide, regularization=0.1).fit(INDEX, SAME)
    check(pairs, kissme(*covariances(wide), 0.1), 1e-8)


def test_singular_covariances_are_regularised_with_a_warning_or_refused():
    few, same = INDEX[ACROSS][:14], SAME[ACROSS][:14]
    few = np.r_[few[same == -1], INDEX[SAME == 1][:3]]
    same = np.r_[-np.ones(len(few) - 3), 1, 1, 1]
    with pytest.warns(UserWarning, match=r"regularization=0.001 is used, since .* singular"):
        learner = KISSME().fit(X[few], same)
    assert learner.regularization_ == 1e-3
    check(learner, kissme(*covariances(X, few, same), 1e-3))
    with pytest.raises(ValueError, match=r"similar pairs is singular.* `regularization`"):
        KISSME(regularization=0).fit(X[few], same)
    with pytest.raises(ValueError, match=r"dissimilar pairs is singular.* `regularization`"):
        KISSME(regularization=0).fit(X[few], -same)
    with pytest.raises(ValueError, match=r"similar pairs is singular.* `regularization`"):
        XQDA(regularization=0).fit(X[:6], [0, 0, 1, 2, 3, 4])


@CLASSES
def test_features_that_say_nothing_take_no_part(learner):
    M = learner(regularization=0).fit(X, Y).get_mahalanobis_matrix()
    found = learner(regularization=0).fit(np.c_[X, np.ones(45)], Y)
    np.testing.assert_array_equal(found.components_[:, 4], 0)
    check(found, np.pad(M, (0, 1)))
    twice = learner(regularization=0).fit(np.c_[X, X[:, 0]], Y)
    points = np.stack([X[:-1], X[1:]], 1)
    expected = learner(regularization=0).fit(X, Y).pair_distance(points)
    same = np.concatenate([points, points[:, :, :1]], 2)
    if learner is XQDA:  # the cone depends on the units of features
        np.testing.assert_allclose(twice.pair_distance(same), expected)


@CLASSES
def test_views_must_give_pairs(learner):
    fit = learner().fit
    with pytest.raises(ValueError, match="views must hold at least 2 views"):
        fit(X, Y, views=np.zeros(45))
    with pytest.raises(ValueError, match="views must hold 45 labels, one per point; found 44"):
        fit(X, Y, views=VIEWS[1:])
    with pytest.raises(ValueError, match="views contains NaN"):
        fit(X, Y, views=np.full(45, np.nan))
    with pytest.raises(ValueError, match="there is no similar pair of different points"):
        fit(X, Y, views=Y)
    with pytest.raises(ValueError, match="there is no similar pair of different points"):
        fit(X[::5][Y] + 0.1, Y)
    with pytest.raises(ValueError, match="2 classes, together"):
        learner().partial_fit(X, np.zeros(45), views=VIEWS)
    with pytest.raises(ValueError, match="views must hold 45 labels, one per point; found 44"):
        learner().partial_fit(X, Y, views=VIEWS[1:])


def visits(n_people, n_frames, rng):
    """Return images, people and cameras: a visit to each camera gives nearly equal frames."""
    visit = np.arange(2 * n_people * n_frames) // n_frames
    points = rng.normal(scale=0.5, size=(n_people, 30))[visit // 2]
    points[:, :2] += 4 * (visit % 2)[:, None]  # what the second camera adds
    points[:, :5] += rng.normal(scale=5, size=(2 * n_people, 5))[visit]  # the pose in a visit
    return points + 0.02 * rng.normal(size=points.shape), visit // 2, visit % 2


@pytest.mark.parametrize("n_frames", [2, 6, 10])
@CLASSES
def test_people_are_searched_in_other_views(learner, n_frames):
    """The nearest of all frames is of the same visit, by every distance."""
    rng = np.random.RandomState(0)
    points, people, cameras = visits(60, n_frames, rng)
    found = learner().fit(points, people, views=cameras, validate=True)
    points, people, cameras = visits(60, n_frames, rng)
    how = {"metrics": "recall_at_k", "k": 1, "where": (cameras, cameras), "baselines": False}
    given, learned = (
        retrieval_report(each, people, **how)["recall_at_k"].mean
        for each in (points, found.transform(points))
    )
    assert given < 0.1 and learned >= 0.99
    assert found.validation_.costs[0] > 0.9 and found.validation_.costs[1] < 0.4


@CLASSES
def test_cross_validation_and_searches_pass_views_on(learner):
    points, people, cameras = visits(40, 6, np.random.RandomState(0))
    names, how = cameras.astype(str), {"folds": 2, "metrics": "recall_at_k", "k": 1}
    found = cross_validate_retrieval(learner(), points, people, views=names, **how)
    assert found["recall_at_k"].mean > 0.9 > 0.3 > found.untrained["recall_at_k"].mean
    pipeline = make_pipeline(StandardScaler(), learner())
    with pytest.raises(ValueError, match=r"Pipeline\.fit does not accept the views parameter"):
        cross_validate_retrieval(pipeline, points, people, views=names, **how)
    with pytest.raises(ValueError, match="views and where cannot both be given"):
        cross_validate_retrieval(PCA(), points, people, views=names, where=people > 0)
    found = cross_validate_retrieval(PCA(), points, people, views=names, **how)
    assert found["recall_at_k"].mean < 0.3

    def cost_of_given(fitted, X, y=None):  # low if the frames of a visit find each other
        return fitted.judgement_.costs[0]

    split = {"cv": list(GroupKFold(2).split(points, people, people)), "scoring": cost_of_given}
    assert cross_val_score(learner(), points, people, **split).max() < 0.3
    given = {"params": {"views": names}}
    assert cross_val_score(learner(), points, people, **given, **split).min() > 0.5
    with config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="views"):
            cross_val_score(learner(), points, people, **given, **split)
        asked = learner().set_fit_request(views=True)
        assert cross_val_score(asked, points, people, **given, **split).min() > 0.5
        search = GridSearchCV(asked, {"n_components": [3, 9]}, **split)
        assert search.fit(points, people, views=names).best_estimator_.judgement_.costs[0] > 0.5
        pipeline = make_pipeline(StandardScaler(), asked)
        found = cross_validate_retrieval(pipeline, points, people, views=names, **how)
        assert found["recall_at_k"].mean > 0.9


def test_n_components():
    M = kissme(*covariances())
    values, vectors = np.linalg.eigh(M)
    found = KISSME_Supervised(n_components=1, regularization=None).fit(X, Y)
    check(found, values[-1] * np.outer(vectors[:, -1], vectors[:, -1]))
