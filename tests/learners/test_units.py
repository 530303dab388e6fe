"""Features in unlike units: learners learn from standardised ones if these are better."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine

import metricfast as mf

WINE, KINDS = load_wine(return_X_y=True)
SPREAD = WINE.std(axis=0)
CLOSED = [
    mf.ANMM(), mf.DMLMJ(), mf.GMML_Supervised(), mf.KISSME_Supervised(), mf.LFDA(), mf.XQDA(),
    mf.RCA_Supervised(n_chunks=20, random_state=0),
]  # fmt: skip
OF_TUPLES = [
    mf.ITML_Supervised(gamma=0.01, n_constraints=100, random_state=0),
    mf.LSML_Supervised(random_state=0), mf.MMC_Supervised(random_state=0),
    mf.MMC_Supervised(diagonal=True, random_state=0), mf.SCML_Supervised(random_state=0),
]  # fmt: skip
GIVEN, STANDARDIZED = "given distance", "standardised features"


def with_each(learners):
    return pytest.mark.parametrize("learner", learners, ids=lambda each: type(each).__name__)


every_learner, every_closed_form = with_each([*CLOSED, *OF_TUPLES]), with_each(CLOSED)


NUMBERS = {
    "ANMM": "shrinkage", "DMLMJ": "reg", "GMML_Supervised": "reg",
    "KISSME_Supervised": "regularization", "XQDA": "regularization",
    **dict.fromkeys(map("{}_Supervised".format, ("ITML", "LSML", "MMC", "SCML")), "shrinkage"),
}  # fmt: skip


def metric_of(learner, units=1.0):
    """Return the metric of points divided by units, with a trace of 1."""
    L = learner.components_ * units
    M = L.T @ L
    return M / np.trace(M)


def clusters(rng, n, d, apart):
    """Return points of three classes, which the features in the smallest units separate."""
    y, units = np.arange(n) % 3, 10.0 ** (6 * np.arange(d) // d - 2)
    means = apart * rng.standard_normal((3, d)) * (units < 1)
    return (rng.standard_normal((n, d)) + means[y]) * units, y


@every_learner
@pytest.mark.parametrize("n_components", [None, 3])
def test_a_learner_learns_from_standardised_features_where_they_are_better(learner, n_components):
    learner = clone(learner)
    if n_components is not None:
        learner.set_params(n_components=n_components)
    found = clone(learner).fit(WINE, KINDS)
    costs, chosen = found.judgement_.costs, found.judgement_.chosen
    assert found.judgement_.names[:2] == [GIVEN, STANDARDIZED] and chosen > 0
    assert costs[chosen] <= costs[1] < costs[0] / 2
    if tuned := NUMBERS.get(type(learner).__name__):
        setting = {tuned: getattr(found, f"{tuned}_"), "judge": None}
        if setting[tuned] is None or not np.isinf(setting[tuned]):
            plain = learner.set_params(**setting).fit(WINE * (SPREAD.min() / SPREAD), KINDS)
            np.testing.assert_allclose(metric_of(found, SPREAD), metric_of(plain), atol=1e-9)
    np.testing.assert_allclose(found.transform(WINE), WINE @ found.components_.T, rtol=1e-9)


@every_learner
def test_standardised_features_stay_where_nothing_more_is_to_be_learned(learner):
    rng, y = np.random.RandomState(0), np.arange(300) % 3
    X = rng.standard_normal((300, 6)) + 1.5 * rng.standard_normal((3, 6))[y]
    X *= 10.0 ** np.arange(-2, 4)
    found = clone(learner).fit(X, y)
    assert found.judgement_.name == STANDARDIZED
    assert found.judgement_.reason.startswith("Learning was not better than the standardised")
    np.testing.assert_allclose(metric_of(found, X.std(axis=0)), np.eye(6) / 6, atol=1e-6)


@every_learner
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fewer_points_than_features(learner, dtype):
    X, y = clusters(np.random.RandomState(0), 60, 90, 1.0)
    found = clone(learner).fit(X.astype(dtype), y)
    costs = found.judgement_.costs
    assert found.judgement_.names[:2] == [GIVEN, STANDARDIZED] and found.judgement_.chosen > 0
    assert costs[found.judgement_.chosen] <= costs[1] < costs[0]
    assert found.components_.shape[1] == 90 and found.components_.dtype == dtype
    given, plain = clone(learner).fit(X, y).judgement_.costs[:2]
    np.testing.assert_allclose(costs[:2], [given, plain], atol=0.01)


@every_learner
def test_units_stay_without_a_judge_and_where_they_are_alike(learner):
    plain = clone(learner).set_params(judge=None)
    assert not hasattr(plain.fit(WINE, KINDS), "judgement_")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the given distance may stay
        assert STANDARDIZED not in clone(learner).fit(WINE / SPREAD, KINDS).judgement_.names


@every_closed_form
def test_units_stay_in_parts(learner):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the given distance may stay
        in_parts = clone(learner).partial_fit(WINE, KINDS)
    assert not hasattr(in_parts, "judgement_") or STANDARDIZED not in in_parts.judgement_.names


@pytest.mark.parametrize(
    ("learner", "how"),
    [
        (mf.GMML_Supervised(prior="covariance"), {}),
        (mf.XQDA(), {"views": np.arange(len(WINE)) % 2}),
        (mf.ITML_Supervised(prior="random"), {}),
        (mf.ITML_Supervised(), {"bounds": [10.0, 500.0]}),
        (mf.MMC_Supervised(init="covariance"), {}),
        (mf.SCML_Supervised(basis=np.eye(13)), {}),
    ],
    ids=lambda each: type(each).__name__,
)
def test_units_stay_that_mean_something_to_the_learner(learner, how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the given distance may stay
        found = learner.fit(WINE, KINDS, **how)
    assert found.judgement_.names[0] == GIVEN and STANDARDIZED not in found.judgement_.names


@pytest.mark.parametrize("n_components", [None, 3])
def test_attributes_of_learners_of_tuples_are_in_the_units_of_the_points(n_components):
    mmc = mf.MMC_Supervised(shrinkage=None, n_components=n_components, random_state=0)
    mmc.fit(WINE, KINDS)
    assert STANDARDIZED in mmc.judgement_.names and mmc.shrinkage_target_ == "variance"
    L = np.linalg.eigh(mmc.A_)[1].T[::-1][: n_components or 13]
    kept = mmc.components_.T @ mmc.components_
    np.testing.assert_allclose(L @ kept @ L.T, L @ mmc.A_ @ L.T, rtol=1e-9, atol=1e-12)
    itml = mf.ITML_Supervised(random_state=0, shrinkage=None).fit(WINE, KINDS)
    assert 0 < itml.bounds_[0] < itml.bounds_[1] < np.ptp(WINE / SPREAD, axis=0).sum()


@with_each(OF_TUPLES)
def test_an_interrupt_keeps_the_map_of_the_points(learner, monkeypatch):
    found, whole = clone(learner), type(learner)._learn

    def interrupted(self, *given, **how):
        whole(self, *given, **how)
        if self is found:
            raise KeyboardInterrupt

    monkeypatch.setattr(type(learner), "_learn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        found.fit(WINE, KINDS)
    monkeypatch.undo()
    learned = clone(learner).fit(WINE, KINDS)
    np.testing.assert_array_equal(found.components_, learned.components_)


@every_learner
def test_standardised_features_stay_where_no_part_can_be_learned_from(learner, monkeypatch):
    name = "_statistics" if hasattr(learner, "_statistics") else "_learn"
    whole = getattr(type(learner), name)

    def fails_on_parts(self, X, *rest, **how):
        if len(getattr(X, "points", X)) < len(WINE):
            raise ValueError("too few points")
        return whole(self, X, *rest, **how)

    monkeypatch.setattr(type(learner), name, fails_on_parts)
    found = clone(learner).fit(WINE, KINDS)
    assert found.judgement_.name == STANDARDIZED and np.isnan(found.judgement_.costs[2:]).all()
    np.testing.assert_allclose(metric_of(found, SPREAD), np.eye(13) / 13, atol=1e-6)
