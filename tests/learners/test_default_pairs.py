"""The number of pairs that learners draw from class labels by default."""

import warnings

import numpy as np
import pytest

from metricfast import ITML_Supervised, LSML_Supervised, MMC_Supervised, SDML_Supervised
from metricfast.learners.tuples.drawing import draw_index_pairs


def drawn(n_classes, n_members, n_features=2):
    labels = np.repeat(np.arange(n_classes), n_members)
    rows = draw_index_pairs(labels, None, None, np.random.RandomState(0), n_features)
    return len(rows[0]), len(rows[2])


@pytest.mark.parametrize("n_classes", [2, 10, 40])
def test_up_to_forty_classes_as_in_metric_learn(n_classes):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert drawn(n_classes, 50) == (20 * n_classes**2,) * 2


@pytest.mark.parametrize(
    ("n_classes", "n_members", "n_features", "expected"),
    [(41, 60, 2, 32_000), (100, 400, 2, 40_000), (60, 60, 35_000, 35_000), (3000, 20, 9, 60_000)],
)
def test_more_classes_draw_at_most_a_pair_for_each_point_or_feature(
    n_classes, n_members, n_features, expected
):
    text = f"draws {expected:,} pairs of either kind, not .* = {20 * n_classes**2:,}, for y holds"
    with pytest.warns(UserWarning, match=text):
        assert drawn(n_classes, n_members, n_features) == (expected, expected)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "learner",
    [
        ITML_Supervised(max_iter=2, random_state=0),
        LSML_Supervised(random_state=0),
        MMC_Supervised(max_iter=2, random_state=0),
        SDML_Supervised(random_state=0),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_thousands_of_classes(learner):
    y = np.repeat(np.arange(5000), 3)
    X = np.random.default_rng(0).normal(size=(len(y), 4)) + y[:, None] % 7
    assert learner.fit(X, y).transform(X[:5]).shape == (5, 4)
