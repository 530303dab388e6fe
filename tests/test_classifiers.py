"""Classification of pairs, triplets and quadruplets by their distances."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import (
    FixedThresholdClassifier,
    TunedThresholdClassifierCV,
    cross_val_predict,
)
from sklearn.utils import get_tags
from thinned import thinned

import metricfast as mf
from metricfast.constraints import wrap_pairs
from metricfast.metrics import verification_report

IRIS, SPECIES = load_iris(return_X_y=True)
RNG = np.random.RandomState(0)
POINTS = RNG.randn(40, 3)
L = RNG.randn(2, 3)
STRATEGIES = [
    {"strategy": "accuracy"},
    {"strategy": "f_beta", "beta": 0.5},
    {"strategy": "f_beta", "beta": 2},
    {"strategy": "max_tpr", "min_rate": 0.6},
    {"strategy": "max_tnr", "min_rate": 0.6},
    {"strategy": "max_tpr", "min_rate": 1},
    {"strategy": "max_tnr", "min_rate": 0.0},
]


class Fixed(mf.MahalanobisMixin):
    def fit(self, tuples, y=None):
        self._prepare_tuples(tuples, y)
        self.components_ = L
        return self


class Pairs(Fixed, mf.PairsClassifierMixin):
    pass


class Triplets(Fixed, mf.TripletsClassifierMixin):
    pass


class Quadruplets(Fixed, mf.QuadrupletsClassifierMixin):
    pass


def distance(a, b):
    return np.sqrt((((POINTS[a] - POINTS[b]) @ L.T) ** 2).sum(axis=1))


def fitted(kind, preprocessor=None, n=200):
    rng = np.random.RandomState(0)
    index = rng.randint(40, size=(n, kind._tuple_size))
    y = np.where(rng.rand(n) < 0.5, 1, -1) if issubclass(kind, Pairs) else None
    data = POINTS[index] if preprocessor is None else index
    return kind(preprocessor).fit(data, y), data, index, y


@pytest.mark.parametrize("preprocessor", [None, POINTS, lambda index: POINTS[index]])
def test_decisions(preprocessor):
    learner, data, i, y = fitted(Pairs, preprocessor)
    expected = -distance(i[:, 0], i[:, 1])
    np.testing.assert_allclose(learner.decision_function(data), expected, rtol=1e-12)
    assert learner.score(data, y) == roc_auc_score(y, learner.decision_function(data))
    learner.set_threshold(1)
    np.testing.assert_array_equal(learner.predict(data), np.where(-expected <= 1, 1, -1))

    learner, data, i, _ = fitted(Triplets, preprocessor)
    expected = distance(i[:, 0], i[:, 2]) - distance(i[:, 0], i[:, 1])
    np.testing.assert_allclose(learner.decision_function(data), expected, atol=1e-12)
    np.testing.assert_array_equal(learner.predict(data), np.where(expected > 0, 1, -1))
    assert learner.score(data) == pytest.approx((expected > 0).mean())

    learner, data, i, _ = fitted(Quadruplets, preprocessor)
    expected = distance(i[:, 2], i[:, 3]) - distance(i[:, 0], i[:, 1])
    np.testing.assert_allclose(learner.decision_function(data), expected, atol=1e-12)
    same = POINTS[[[0, 1, 0, 1]]]
    assert learner.predict(same) == 0
    assert learner.score(same) == 0.5


@pytest.mark.parametrize("bad", [[1, -1], [1] * 200, ["a", "b"] * 100, 1, [[1, -1]] * 100, None])
def test_score_of_labels_that_are_none_of_pairs(bad):
    learner, data, *_ = fitted(Pairs)
    with pytest.raises(ValueError, match="y must hold 1 or -1 for each of 200 pairs, and both"):
        learner.score(data, bad)


def exact_measures(distances, y, weight, threshold, strategy, min_rate=None, beta=1.0):
    """Return the measure as an exact fraction."""
    weight = [Fraction(w) for w in weight.tolist()]

    def total(which):
        return sum((w for w, taken in zip(weight, which, strict=True) if taken), Fraction(0))

    chosen = distances <= threshold
    right, kept = total(chosen & (y == 1)), total(~chosen & (y == -1))
    if strategy == "accuracy":
        return right + kept
    if strategy == "f_beta":
        b2 = Fraction(beta) ** 2
        return right / (b2 * total(y == 1) + total(chosen))
    tpr, tnr = right / total(y == 1), kept / total(y == -1)
    wanted, bounded = (tpr, tnr) if strategy == "max_tpr" else (tnr, tpr)
    return wanted if float(bounded) >= min_rate else Fraction(-1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("params", STRATEGIES, ids=str)
def test_calibration_finds_the_smallest_of_the_best_thresholds(params, weighted):
    learner = Fixed().fit(POINTS[[[0, 1]]])
    for seed in range(100):
        rng = np.random.RandomState(seed)
        size = rng.randint(4, 14)
        data, y = POINTS[rng.randint(8, size=(size, 2))], rng.choice([-1, 1], size)
        y[:2] = 1, -1
        weight = rng.choice([0.1, 0.2, 0.3, 0.7, 1 / 3, 2 / 3], size) if weighted else np.ones(size)
        distances = learner.pair_distance(data)
        every = np.unique(np.append(distances, np.nextafter(distances.min(), -np.inf)))
        found = [exact_measures(distances, y, weight, t, **params) for t in every]
        given = {"sample_weight": weight} if weighted else {}
        assert learner.calibrate_threshold(data, y, **given, **params) is learner
        assert learner.threshold_ == every[found.index(max(found))], seed


@pytest.mark.parametrize("weighted", [False, True])
def test_a_false_acceptance_rate_is_exact(weighted):
    learner = Fixed().fit(POINTS[[[0, 1]]])
    rng = np.random.RandomState(0)
    for size in range(4, 60):
        data, y = POINTS[rng.randint(8, size=(size, 2))], rng.choice([-1, 1], size)
        y[:3] = 1, -1, -1
        weight = rng.choice([0.1, 0.2, 0.7, 1 / 3], size) if weighted else np.ones(size)
        distances = learner.pair_distance(data)
        others = [Fraction(w) if kind == -1 else 0 for w, kind in zip(weight, y, strict=True)]
        every = np.unique(np.append(distances, np.nextafter(distances.min(), -np.inf)))
        false = [sum(o for o, d in zip(others, distances, strict=True) if d <= t) for t in every]
        shares = np.array([float(f / sum(others)) for f in false])
        n = np.count_nonzero(y == -1)
        for count in range(1, n + 1):
            far = count / n  # rounded, so that 1 - far may be rounded the other way
            learner.calibrate_threshold(data, y, far=far, sample_weight=weight)
            assert learner.threshold_ == every[shares <= far][-1], (size, count)


def test_a_false_acceptance_rate_is_that_of_the_report():
    learner, data, _, y = fitted(Pairs)
    report = verification_report(y, learner.pair_distance(data), far=[0.3, 0.05], folds=2)
    for far in (0.3, 0.05):
        learner.calibrate_threshold(data, y, far=far)
        assert learner.threshold_ == report[f"threshold_at_far_{far}"]
    with pytest.warns(UserWarning, match="far=0.001 is less than one of the .* 1000 dissimilar"):
        learner.calibrate_threshold(data, y, far=0.001)
    assert (learner.predict(data)[y == -1] == -1).all()


def test_labels_of_one_kind():
    learner, data, *_ = fitted(Pairs)
    for y in (np.ones(200), -np.ones(200)):
        predicted = learner.calibrate_threshold(data, y).predict(data)
        np.testing.assert_array_equal(predicted, y)
        with pytest.raises(ValueError, match="needs similar and dissimilar pairs"):
            learner.calibrate_threshold(data, y, "max_tpr", min_rate=0.5)
    with pytest.raises(ValueError, match=r"far=0.1 needs dissimilar pairs, but all labels in"):
        learner.calibrate_threshold(data, np.ones(200), far=0.1)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"strategy": "best"}, 'Strategy can either be "accuracy", "f_beta" or'),
        ({"strategy": "max_tpr"}, r"min_rate must be a number in\[0, 1\]. Got None instead"),
        ({"strategy": "max_tnr", "min_rate": 2}, "min_rate must be .* Got 2 instead"),
        ({"strategy": "f_beta", "beta": "1"}, "beta must be a real number. Got <class 'str'>"),
        ({"far": 0}, "far must be a number above 0 to 1, got 0"),
        ({"sample_weight": np.ones(199)}, "sample_weight must have shape"),
        ({"far": 0.1, "min_rate": 0.9}, "far=0.1 chooses the threshold alone: leave out strategy"),
        ({"far": 0.1, "strategy": "max_tpr"}, "Got strategy='max_tpr' and min_rate=None"),
    ],
)
def test_wrong_calibration(params, text):
    learner, data, _, y = fitted(Pairs)
    with pytest.raises(ValueError, match=text):
        learner.calibrate_threshold(data, y, **params)


@pytest.mark.parametrize("threshold", ["a", None, [1, 2], np.nan])
def test_wrong_thresholds(threshold):
    learner, *_ = fitted(Pairs)
    with pytest.raises(ValueError, match="Parameter threshold must be a real number"):
        learner.set_threshold(threshold)


def test_states_in_which_nothing_can_be_predicted():
    learner, data, *_ = fitted(Pairs)
    with pytest.raises(AttributeError, match="A threshold for this estimator has not been set"):
        learner.predict(data)
    for call in (Pairs().decision_function, Pairs().predict, Triplets().decision_function):
        with pytest.raises(NotFittedError):
            call(data)
    with pytest.raises(NotFittedError):
        Pairs().set_threshold(1)


def test_they_are_classifiers_of_tuples():
    for kind in (Pairs, Triplets, Quadruplets):
        assert is_classifier(kind())
        assert kind.classes_.tolist() == [-1, 1]
        assert get_tags(kind()).target_tags.required == (kind is Pairs)
        assert get_tags(kind()).input_tags.three_d_array
    learner, *_ = fitted(Triplets)
    assert learner.n_features_in_ == 3
    with pytest.raises(ValueError, match=r"Tuples of 3 element\(s\) expected by Triplets"):
        learner.predict(POINTS[[[0, 1]]])


def test_a_threshold_is_set_on_what_decides():
    class Reversed(Pairs):
        def decision_function(self, pairs):
            return -super().decision_function(pairs)

    model, pairs, _, _ = fitted(Reversed)
    labels = np.where(model.decision_function(pairs) > 2, 1, -1)
    np.testing.assert_array_equal(model.calibrate_threshold(pairs, labels).predict(pairs), labels)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_pair_is_accepted_at_any_scale(dtype):
    points = np.random.RandomState(0).normal(size=(20, 2, 3)).astype(dtype)
    for scale in (1e-20, 1, 1e9, 1e17, 1e30):
        pairs = points * dtype(scale)
        learner = mf.Covariance().fit(points[:, 0]).calibrate_threshold(pairs, -np.ones(20))
        assert np.isfinite(learner.threshold_)
        assert (learner.predict_pairs(pairs) == -1).all()


@pytest.mark.parametrize("learner", [mf.ITML(), mf.MMC(), mf.SDML(), mf.GMML()], ids=repr)
@pytest.mark.parametrize(
    ("given", "message"),
    [({"foo": 1}, "calibration_params: unknown 'foo'; "), ("f_beta", "calibration_params must be")],
)
def test_wrong_calibration_params(learner, given, message):
    pairs = np.random.RandomState(0).normal(size=(20, 2, 3))
    with pytest.raises(ValueError, match=message):
        learner.fit(pairs, np.tile([-1, 1], 10), calibration_params=given)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "learner",
    thinned(
        [
            mf.ITML(),
            mf.KernelizedMetricLearner(mf.GMML(), random_state=0),
            mf.MMC(),
            mf.SDML(),
            mf.GMML(),
        ],
        2,
    ),
    ids=lambda learner: repr(learner)[:23],
)
def test_scikit_learn_adjusts_and_calibrates_thresholds(learner):
    sides = mf.Constraints(SPECIES).positive_negative_pairs(100, random_state=0)
    pairs, y = wrap_pairs(IRIS, sides)
    fitted = clone(learner).fit(pairs, y)
    fixed = FixedThresholdClassifier(fitted, threshold=-fitted.threshold_, pos_label=1)
    np.testing.assert_array_equal(fixed.fit(pairs, y).predict(pairs), fitted.predict(pairs))
    for wrapper in (TunedThresholdClassifierCV, CalibratedClassifierCV):
        wrapped = wrapper(clone(learner)).fit(pairs, y)
        assert wrapped.classes_.tolist() == [-1, 1]
        assert np.mean(wrapped.predict(pairs) == y) > 0.88
    assert wrapped.predict_proba(pairs)[y == 1, 1].mean() > 0.8


@pytest.mark.parametrize("dtype", [int, float, bool])
def test_labels_of_zero_and_one_are_refused_with_the_remedy(dtype):
    pairs, y = POINTS.reshape(20, 2, 3), np.arange(20) % 2
    with pytest.raises(ValueError, match=r"as np.where\(y, 1, -1\) does"):
        mf.ITML().fit(pairs, y.astype(dtype))
    model = mf.ITML(tol=1e9).fit(pairs, np.where(y.astype(dtype), 1, -1))
    for method in (model.score, model.calibrate_threshold):
        with pytest.raises(ValueError, match=r"as np.where\(y, 1, -1\) does"):
            method(pairs, y.astype(dtype))
    with pytest.raises(ValueError, match="cross_val_predict does so, unless method='predict'"):
        cross_val_predict(mf.ITML(), pairs, 2 * y - 1, method="decision_function")
    with pytest.raises(ValueError, match=r"Found an incorrect value\.$"):
        mf.ITML().fit(pairs, 2 * y)
