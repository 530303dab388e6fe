"""Learners in the feature space of a kernel."""

from itertools import combinations

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_iris
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import pairwise_distances, polynomial_kernel, rbf_kernel
from sklearn.model_selection import cross_val_score

import metricfast as mf
from metricfast.learners.kernel import kernel_map as _kernel_map
from metricfast.solvers import Adam

X, Y = load_iris(return_X_y=True)
FEW, LABELS = X[::5], Y[::5]
INDEX = np.array(list(combinations(range(len(FEW)), 2)))
SAME = np.where(LABELS[INDEX[:, 0]] == LABELS[INDEX[:, 1]], 1, -1)


@pytest.mark.parametrize("method", ["nystroem", "kpca"])
def test_mapped_points_have_the_products_of_the_kernel(method):
    points = FEW + np.random.RandomState(0).uniform(-0.01, 0.01, FEW.shape)
    wrapper = mf.KernelizedMetricLearner(mf.ANMM(), gamma=0.3, n_components=1000, method=method)
    Z = wrapper.fit(points, LABELS).map_.transform(points - wrapper.mean_)
    K = rbf_kernel(points, gamma=0.3)
    squared = np.add.outer(np.diag(K), np.diag(K)) - 2 * K
    found = ((Z[:, None] - Z) ** 2).sum(axis=2)
    np.testing.assert_allclose(found, squared, atol=1e-6)
    np.testing.assert_allclose(wrapper.transform(points), wrapper.learner_.transform(Z))


@pytest.mark.parametrize(
    ("kernel", "method"),
    [("rbf", "nystroem"), ("rbf", "kpca"), ("laplacian", "nystroem"), ("linear", "nystroem")],
)
def test_points_far_from_zero_are_mapped_like_near_ones(kernel, method):
    points = np.round(FEW * 2**8) / 2**8  # exact after any shift
    learner = mf.KernelizedMetricLearner(mf.ANMM(), kernel, 0.3, method=method, random_state=0)
    near, far = clone(learner).fit(points, LABELS), clone(learner).fit(points + 2.0**40, LABELS)
    pairs = points[INDEX]
    np.testing.assert_allclose(
        far.pair_distance(pairs + 2.0**40), near.pair_distance(pairs), rtol=1e-3
    )
    u, v = points[:1], points[-1:]
    assert far.get_metric()(u[0] + 2.0**40, v[0] + 2.0**40) == pytest.approx(
        near.pair_distance([[u[0], v[0]]])[0], rel=1e-3
    )


def test_other_kernels_compare_points_with_zero():
    model = mf.KernelizedMetricLearner(mf.ANMM(), "poly", random_state=0).fit(FEW, LABELS)
    assert not model.mean_.any()


def test_many_points_are_mapped_like_few(monkeypatch):
    """With many points, an iterative solver finds eigenvectors, and points are mapped in blocks."""
    monkeypatch.setattr(_kernel_map, "_MANY", 100)
    monkeypatch.setattr(_kernel_map, "_LEAST_ROWS", 7)
    monkeypatch.setattr(_kernel_map, "_PRODUCT", 1)
    points = np.random.RandomState(0).randn(110, 3)
    wrapper = mf.KernelizedMetricLearner(
        mf.Covariance(), gamma=0.1, n_components=11, method="kpca", random_state=0
    ).fit(points)
    assert wrapper.map_.eigen_solver == "arpack"
    exact = KernelPCA(11, kernel="rbf", gamma=0.1, eigen_solver="dense").fit_transform(points)
    np.testing.assert_allclose(np.abs(wrapper._mapped(points)), np.abs(exact), atol=1e-9)


@pytest.mark.parametrize("gamma", ["scale", None, 0.3])
@pytest.mark.parametrize("kernel", ["laplacian", "chi2", "polynomial"])
def test_principal_components_of_every_kernel(kernel, gamma):
    common = {"kernel": kernel, "gamma": gamma, "n_components": 1000, "random_state": 0}
    points = FEW + np.random.RandomState(0).uniform(0, 0.01, FEW.shape)
    maps = [
        mf.KernelizedMetricLearner(mf.ANMM(), method=method, **common).fit(points, LABELS)
        for method in ("nystroem", "kpca")
    ]
    one, other = (pairwise_distances(each.map_.transform(points - each.mean_)) for each in maps)
    np.testing.assert_allclose(one, other, atol=1e-4 * one.max())
    assert "_parameter_constraints" not in vars(maps[1].map_)


def test_parameters_reach_the_kernel():
    def product(u, v, power=1):
        return (u @ v) ** power

    for method in ("nystroem", "kpca"):
        common = {"n_components": 10, "method": method, "random_state": 0}
        named = mf.KernelizedMetricLearner(mf.DMLMJ(), "poly", 1.0, 2, 0, **common).fit(FEW, LABELS)
        own = mf.KernelizedMetricLearner(mf.DMLMJ(), product, kernel_params={"power": 2}, **common)
        np.testing.assert_allclose(
            named.pair_distance(FEW[INDEX]),
            own.fit(FEW, LABELS).pair_distance(FEW[INDEX]),
            rtol=1e-4,
        )
    assert polynomial_kernel(FEW, FEW, 2, 1.0, 0)[0, 1] == pytest.approx(product(*FEW[:2], 2))


@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian"])
def test_the_default_gamma_follows_the_units_of_the_points(kernel):
    wrapper = mf.KernelizedMetricLearner(mf.DMLMJ(), kernel, n_components=20, random_state=0)
    distances = [wrapper.fit(f * FEW, LABELS).pair_distance(f * FEW[INDEX]) for f in (1, 2.0**13)]
    np.testing.assert_allclose(*distances, rtol=1e-6)
    spread = FEW.std() if kernel == "laplacian" else FEW.var()
    assert clone(wrapper).fit(FEW, LABELS).map_.gamma == pytest.approx(1 / (4 * spread))
    assert wrapper.set_params(gamma=None).fit(FEW, LABELS).map_.gamma is None


def test_points_that_leave_no_default_gamma():
    wrapper = mf.KernelizedMetricLearner(mf.Covariance())
    with pytest.raises(ValueError, match="2 different points"):
        wrapper.fit(np.ones((5, 2)))
    assert wrapper.map_.gamma == 1
    for factor in (1e-200, 1e200):
        with pytest.raises(ValueError, match="gamma='scale' cannot be computed"):
            wrapper.fit(factor * FEW)
    for method in ("nystroem", "kpca"):
        wrapper = mf.KernelizedMetricLearner(mf.Covariance(), method=method)
        with np.errstate(all="ignore"), pytest.raises(ValueError, match="kernel 'rbf' gives value"):
            wrapper.fit((1e37 * FEW).astype(np.float32))


def test_the_learner_given_is_left_alone_and_its_parameters_can_be_set():
    learner = mf.DMLMJ()
    wrapper = mf.KernelizedMetricLearner(learner).set_params(learner__n_neighbors=2)
    wrapper.fit(FEW, LABELS)
    assert not hasattr(learner, "components_")
    assert wrapper.learner_.n_neighbors == 2
    assert clone(wrapper).learner.n_neighbors == 2


def test_pairs_are_mapped_point_by_point():
    wrapper = mf.KernelizedMetricLearner(mf.GMML(), gamma=0.2, n_components=15, random_state=0)
    formed = clone(wrapper).fit(FEW[INDEX], SAME)
    indexed = clone(wrapper).set_params(preprocessor=FEW).fit(INDEX, SAME)
    np.testing.assert_allclose(formed.transform(FEW), indexed.transform(FEW), rtol=1e-9)
    Z = formed.map_.transform(FEW - formed.mean_)
    by_hand = mf.GMML().fit(Z[INDEX], SAME)
    np.testing.assert_allclose(
        formed.decision_function(FEW[INDEX]), by_hand.decision_function(Z[INDEX]), rtol=1e-6
    )
    np.testing.assert_array_equal(formed.predict(FEW[INDEX]), by_hand.predict(Z[INDEX]))
    assert formed.threshold_ == pytest.approx(by_hand.threshold_)
    assert formed.score(FEW[INDEX], SAME) == pytest.approx(by_hand.score(Z[INDEX], SAME))
    np.testing.assert_array_equal(indexed.predict(INDEX), formed.predict(FEW[INDEX]))
    # The learner does not store the training points.
    assert indexed.learner_.preprocessor is None
    assert indexed.learner_.preprocessor_ is None
    assert (formed.set_threshold(0).predict(FEW[INDEX]) == -1).all()


def test_around_a_classifier_of_tuples_it_is_one():
    wrapper = mf.KernelizedMetricLearner(mf.GMML(), n_components=15, preprocessor=X, random_state=0)
    assert is_classifier(wrapper)
    np.testing.assert_array_equal(wrapper.classes_, mf.GMML().classes_)
    # Shuffled, because folds need pairs of both kinds, and these pairs are sorted.
    rows = np.arange(49)
    index = np.r_[np.c_[rows, rows + 1], np.c_[rows, rows + 50]]
    assert np.isfinite(cross_val_score(wrapper, index, np.repeat([1, -1], 49), cv=2)).all()
    assert is_classifier(mf.KernelizedMetricLearner(wrapper))
    assert not is_classifier(mf.KernelizedMetricLearner(mf.ANMM()))
    assert not hasattr(mf.KernelizedMetricLearner(mf.ANMM()), "classes_")


def test_learners_of_points_classify_no_tuples():
    wrapper = mf.KernelizedMetricLearner(mf.ANMM()).fit(FEW, LABELS)
    assert not any(hasattr(wrapper, name) for name in ("decision_function", "predict", "score"))
    assert not hasattr(wrapper, "threshold_")
    wrapper.calibrate_threshold(FEW[INDEX], SAME)
    assert set(wrapper.predict_pairs(FEW[INDEX])) == {-1, 1}
    assert not hasattr(wrapper.fit(FEW, LABELS), "threshold_")


@pytest.mark.filterwarnings("ignore:The .* that:UserWarning")
@pytest.mark.parametrize(
    ("learner", "data"),
    [
        (mf.ANMM(), (X, Y)),
        (mf.MLKR(n_components=2, max_iter=2, judge=None), (X, X[:, 0])),
        (mf.OASIS_Supervised(random_state=0), (X, np.where(Y == 2, -1, Y))),
        (mf.GMML(), (FEW[INDEX], SAME)),
        (mf.LSML(), (X[np.arange(120).reshape(30, 4)],)),
        (mf.Covariance(), (X, Y)),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_validation_is_against_the_euclidean_distance_of_the_points_as_given(learner, data):
    expected = clone(learner).fit(*data, validate=True).validation_
    wrapper = mf.KernelizedMetricLearner(learner, gamma=0.5, n_components=15, random_state=0)
    for each in (wrapper, mf.KernelizedMetricLearner(wrapper, "linear", random_state=0)):
        found = each.fit(*data, validate=True).validation_
        assert found.costs[0] == expected.costs[0] and found.n_held_out == expected.n_held_out
        assert not hasattr(each.learner_, "validation_")
    assert not hasattr(wrapper.fit(*data), "validation_")


def test_validation_measures_the_whole_and_warns():
    wrapper = mf.KernelizedMetricLearner(mf.ANMM(), gamma=1e4, random_state=0)
    with pytest.warns(UserWarning, match="KernelizedMetricLearner learned is worse"):
        found = wrapper.fit(X, Y, validate=True).validation_
    assert found.costs[1] > 0.3 > found.costs[0]
    good = clone(wrapper).set_params(gamma=0.1, preprocessor=X)
    assert good.fit(np.arange(150), Y, validate=True).validation_.costs[1] < 0.1
    embedding = mf.KernelizedMetricLearner(mf.TripletLearner(2, max_epochs=2), random_state=0)
    assert embedding.fit(X, Y, validate=True).validation_.costs[1] < 0.5
    with pytest.raises(ValueError, match="validate=True needs labels"):
        mf.KernelizedMetricLearner(mf.Covariance()).fit(X, validate=True)


def test_learners_on_points_predict_and_score_points():
    learner = mf.NeighborhoodGerrymanderingRegressor(
        C=1e3, random_state=0, solver=Adam(max_epochs=2)
    )
    wrapper = mf.KernelizedMetricLearner(learner, n_components=15, random_state=0).fit(X, X[:, 0])
    assert is_regressor(wrapper)
    Z = wrapper.map_.transform(X - wrapper.mean_)
    np.testing.assert_array_equal(wrapper.predict(X), wrapper.learner_.predict(Z))
    assert wrapper.score(X, X[:, 0]) == wrapper.learner_.score(Z, X[:, 0])


def test_a_name_is_no_learner():
    with pytest.raises(TypeError, match="learner must be a metric learner"):
        mf.KernelizedMetricLearner("NCA").fit(FEW, LABELS)


def test_an_interrupt_leaves_what_the_learner_has_found():
    def press(state):
        if state.iteration == 3:
            raise KeyboardInterrupt

    wrapper = mf.KernelizedMetricLearner(
        mf.NCA(init="identity", judge=None, callbacks=[press]), random_state=0
    )
    with pytest.raises(KeyboardInterrupt):
        wrapper.fit(X, Y)
    shorter = clone(wrapper).set_params(learner__callbacks=None, learner__max_iter=3)
    with pytest.warns(ConvergenceWarning):
        shorter.fit(X, Y)
    np.testing.assert_array_equal(wrapper.transform(X), shorter.transform(X))


def test_an_interrupted_learner_on_tuples_keeps_no_points(monkeypatch):
    def press(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(mf.GMML, "calibrate_threshold", press)
    wrapper = mf.KernelizedMetricLearner(mf.GMML(), preprocessor=FEW, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        wrapper.fit(INDEX, SAME)
    assert np.isfinite(wrapper.pair_distance(INDEX)).all()
    assert wrapper.learner_.preprocessor is None


def test_tuple_methods_before_fit():
    wrapper = mf.KernelizedMetricLearner(mf.OASIS())
    for use in (wrapper.pair_score, wrapper.predict, wrapper.decision_function, wrapper.score):
        with pytest.raises(NotFittedError):
            use(FEW[INDEX])


def test_weights_reach_the_learner_and_can_be_routed():
    weight = np.random.RandomState(0).uniform(size=len(FEW))
    wrapper = mf.KernelizedMetricLearner(mf.DMLMJ(), random_state=0)
    wrapper.fit(FEW, LABELS, sample_weight=weight)
    Z = wrapper.map_.transform(FEW - wrapper.mean_)
    expected = mf.DMLMJ().fit(Z, LABELS, sample_weight=weight).components_
    np.testing.assert_array_equal(wrapper.learner_.components_, expected)
    with config_context(enable_metadata_routing=True):
        request = wrapper.set_fit_request(sample_weight=True).get_metadata_routing()
    assert request.fit.requests == {"sample_weight": True, "validate": None}
    with pytest.raises(TypeError, match="sample_weight"):
        mf.KernelizedMetricLearner(mf.ITML()).fit(
            FEW[INDEX], SAME, sample_weight=np.ones(len(INDEX))
        )
    pairs = mf.KernelizedMetricLearner(mf.GMML(), random_state=0)
    plain = pairs.fit(FEW[INDEX], SAME).learner_.components_
    weight = np.where(SAME == 1, 1, np.arange(len(SAME)) % 3)
    found = pairs.fit(FEW[INDEX], SAME, sample_weight=weight).learner_.components_
    assert not np.allclose(found, plain)


def test_a_learner_of_a_similarity_has_no_distance():
    triplets = np.stack([FEW[:10], FEW[1:11], FEW[-10:]], axis=1)
    wrapper = mf.KernelizedMetricLearner(mf.OASIS(random_state=0), random_state=0).fit(triplets)
    assert not hasattr(wrapper, "pair_distance")
    with pytest.raises(AttributeError, match="'KernelizedMetricLearner' has no attribute 'trans"):
        wrapper.transform(FEW)
    scores = wrapper.pair_score(FEW[INDEX])
    similarity = wrapper.get_metric()
    assert similarity(*FEW[INDEX[0]]) == pytest.approx(scores[0])
    labels = wrapper.set_threshold(-np.median(scores)).predict_pairs(FEW[INDEX])
    np.testing.assert_array_equal(labels, np.where(scores >= np.median(scores), 1, -1))
