"""Losses of continuous labels do not depend on rounding or on the scale of labels."""

import numpy as np
import pytest
import reference_losses as reference

from metricfast import losses

TIES = (
    {
        f"Triplet {mining} {squared}": (
            losses.Triplet(0.9, mining, "dense", squared),
            reference.triplet(0.9, mining, True, squared),
        )
        for mining, squared in [("all", True), ("semihard", False), ("hardest", True)]
    }
    | {
        f"RankNContrast {metric}": (
            losses.RankNContrast(label_distance=metric),
            reference.rank_n_contrast(metric=metric),
        )
        for metric in ("cityblock", "sqeuclidean", "euclidean")
    }
    | {
        f"CoSENT {metric}": (losses.CoSENT(2.0, metric), reference.cosent(2.0, metric))
        for metric in ("cityblock", "sqeuclidean")
    }
)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize(("loss", "oracle"), TIES.values(), ids=TIES)
def test_label_distances_equal_but_for_rounding_are_ties(loss, oracle, width):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(24, 3))
    y = rng.integers(0, 21, size=(24, width)).astype(float)
    value, gradient = loss(Z, y)
    for other in (y / 10, y / 7 + 100 / 7, y * 2.0**-40):
        assert value == pytest.approx(oracle(Z, other, Z, other, True), rel=1e-9)
        found = loss(Z, other)
        assert found[0] == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(found[1], gradient, rtol=1e-9, atol=1e-12)
    # Differences beyond rounding remain.
    apart = y.copy()
    apart[::2] += 1e-12
    if getattr(loss, "mining", "all") != "hardest":
        assert loss(Z, apart)[0] != pytest.approx(value, rel=1e-9)


def test_a_rounding_of_a_label_is_no_distance():
    Z = np.random.default_rng(0).normal(size=(4, 2))
    loss = losses.LogRatio()
    value, _ = loss(Z, [0.3, 0.1 + 0.2, 1.0, 2.0])
    assert loss.counts_["dropped"] == 2
    assert value == pytest.approx(loss(Z, [0.3, 0.3, 1.0, 2.0])[0], rel=1e-12)


OF_LABELS = [
    losses.LogRatio(eps_distance=0.1),
    losses.LogRatio(ties="epsilon", label_distance="euclidean"),
    losses.Ratio(),
    losses.BoundedRatio(),
    losses.RankNContrast(),
    losses.CoSENT(),
    losses.Triplet(labels="dense"),
]


@pytest.mark.parametrize("loss", OF_LABELS, ids=str)
@pytest.mark.parametrize("power", [-1060, -565, 700, 1018])
def test_labels_of_any_scale(loss, power):
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(20, 3)), rng.integers(-9, 10, 20).astype(float)
    value, gradient = loss(Z, y)
    counts = loss.counts_
    for other in (y, np.c_[y, y]):
        found = loss(Z, np.ldexp(other, power))
        assert found[0] == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(found[1], gradient, rtol=1e-9, atol=1e-12)
        assert loss.counts_ == counts
