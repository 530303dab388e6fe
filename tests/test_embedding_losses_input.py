"""Losses: valid input, invalid input, and counts."""

from itertools import product

import numpy as np
import pytest
import reference_losses as reference
from reference import numeric_gradient
from test_embedding_losses import PRECISIONS, every_case, pair_problem, problem

from metricfast import losses
from metricfast.exceptions import LossOverflowError


@every_case
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_coincident_embeddings(loss, oracle, dtype):
    del oracle
    Z, y, B, yb = pair_problem(loss)
    for value in (0.0, 0.5):
        Z, B = np.full(Z.shape, value, dtype), np.full(B.shape, value, dtype)
        results = [loss(Z, y, B, yb)]
        if not loss.learnable_database:
            results.append(loss(Z, y))
        for result, grad in results:
            assert np.isfinite(result)
            assert all(np.isfinite(g).all() for g in grad)


@every_case
@pytest.mark.parametrize("n", [1, 2])
def test_smallest_batches(loss, oracle, n):
    del oracle
    Z, y = problem(loss, n)
    if loss.learnable_database:
        value, (grad, _) = loss(Z, y, Z, np.arange(n))
    else:
        value, grad = loss(Z, y)
    assert np.isfinite(value) and np.isfinite(grad).all()
    if n == 1 and not loss.learnable_database:
        assert value == 0 and not grad.any()


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("form", ["sum", "log"])
def test_nca_without_positives_is_exactly_zero(form, dtype):
    loss, Z = losses.NCA(form), problem(losses.NCA(), 40)[0].astype(dtype)
    y, twice = np.arange(40), np.r_[2.0, np.ones(39)]
    for weight in (None, np.ones(40), 0.5 * twice):
        value, grad = loss(Z, y, sample_weight=weight)
        assert value == 0 and not grad.any()
    value, grads = loss(Z, y, Z, y + 40)
    assert value == 0 and not any(grad.any() for grad in grads)
    value, grads = loss(Z, y, Z, y, exclude=y)
    assert value == 0 and not any(grad.any() for grad in grads)
    # A repeated point is a neighbour of its copy.
    repeated = loss(np.r_[Z[:1], Z], np.r_[0, y])[0]
    assert loss(Z, y, sample_weight=twice)[0] == pytest.approx(repeated)
    near = np.array([[0.0], [1.0], [2.0]], dtype)
    assert loss(near, [0, 0, 1])[0] != 0
    assert loss(near, [0, 0, 1], near, [0, 0, 1], exclude=[0, -1, -1])[0] != 0


NUMBERS = [
    (name, parameter)
    for name in losses.__all__
    for parameter, value in getattr(losses, name)().get_params().items()
    if (isinstance(value, (int, float)) and not isinstance(value, bool)) or "eps" in parameter
]


@pytest.mark.parametrize(("name", "parameter"), NUMBERS)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, "1", [1.0]])
def test_parameters_that_are_no_finite_numbers(name, parameter, wrong):
    loss = getattr(losses, name)(**{parameter: wrong})
    Z, y = problem(loss)
    database = (Z[:3], y[:3]) if loss.learnable_database else ()
    with pytest.raises(ValueError, match=f"{parameter} must be.*(found|got)"):
        loss(Z, y, *database)


def test_counts():
    Z = np.random.default_rng(0).normal(size=(5, 2))
    loss = losses.LogRatio()
    assert loss(Z, np.ones(5))[0] == 0
    assert loss.counts_ == {"terms": 0, "anchors": 0, "skipped": 5, "dropped": 20}
    loss(Z, [0.0, 0.0, 1.0, 2.0, 3.0])
    assert loss.counts_ == {"terms": 3 + 3 + 6 * 3, "anchors": 5, "skipped": 0, "dropped": 2}
    loss = losses.Triplet()
    loss(Z, [0, 0, 1, 1, 2])
    assert loss.counts_["skipped"] == 1


@pytest.mark.parametrize("name", losses.__all__)
def test_the_interface_of_all(name):
    loss = getattr(losses, name)()
    assert loss.get_params() == type(loss)(**loss.get_params()).get_params()
    assert loss.labels in ("class", "continuous")
    assert loss.learnable_database == name.startswith("Proxy")
    assert ">>>" in type(loss).__doc__


def bad(loss, y=None, message="", **arguments):
    return pytest.param(loss, y, arguments, message, id=message)


@pytest.mark.parametrize(
    ("loss", "y", "arguments", "message"),
    [
        bad(losses.LogRatio(), np.zeros(17), "y must hold 18 labels, one per point"),
        bad(losses.LogRatio(ties="keep"), message="ties must be"),
        bad(losses.LogRatio(ties="epsilon", eps_log=0), message="needs eps_log above 0"),
        bad(
            losses.LogRatio(eps_distance=-1), message="eps_distance must be a finite number from 0"
        ),
        bad(losses.LogRatio(label_distance="cosines"), message="label_distance must be one of"),
        bad(
            losses.LogRatio(label_distance="precomputed"), np.zeros((18, 3)), r"of shape \(18, 18\)"
        ),
        bad(losses.LogRatio(label_distance=lambda a, b: -np.ones((18, 18))), message="from 0 on"),
        bad(losses.LogRatio(), Z_database=np.zeros((2, 3)), message="given together"),
        bad(
            losses.LogRatio(),
            Z_database=np.zeros((2, 3)),
            y_database=np.zeros((2, 2)),
            message="y_database must have 1 label dimension",
        ),
        bad(losses.LogRatio(reduction="max"), message="reduction must be 'mean' or 'sum'"),
        bad(losses.Triplet(margin=-1), message="margin must be a finite number from 0"),
        bad(losses.Triplet(mining="easy"), message="mining must be"),
        bad(losses.Triplet(labels="binary"), message="labels must be"),
        bad(losses.Contrastive(power=3), message="power must be"),
        bad(losses.SupCon(temperature=0), message="temperature must be a finite number above 0"),
        bad(losses.ProxyNCA(), message="ProxyNCA compares points with proxies"),
        bad(losses.ProxyAnchor(), message="ProxyAnchor compares points with proxies"),
        bad(losses.CoSENT(), sample_weight=np.ones(18), message="sample_weight must be None"),
        bad(losses.CoSENT(), Z_database=np.zeros((2, 3)), message="the two points of each pair"),
    ],
)
def test_bad_arguments(loss, y, arguments, message):
    Z, labels = problem(loss) if loss.labels != "binary" else problem(losses.Triplet())
    with pytest.raises(ValueError, match=message):
        loss(Z, labels if y is None else y, **arguments)


def test_scored_pairs_have_weights():
    rng = np.random.default_rng(0)
    A, B, y = rng.normal(size=(8, 3)), rng.normal(size=(8, 3)), np.array([1, 0, 2, 2, 0, 1, 3, 3.0])
    weight, loss = np.array([1, 2, 0.5, 1, 0, 3, 1, 1]), losses.CoSENT(2.0)
    value, (dA, dB) = loss(A, y, B, sample_weight=weight)
    some = weight > 0
    expected = reference.cosent_of_pairs((A * B).sum(1)[some], y[some], 2.0, weight=weight[some])
    assert value == pytest.approx(expected)
    whole = weight.round().astype(int)
    twice = [np.repeat(part, whole, axis=0) for part in (A, y, B)]
    assert loss(A, y, B, sample_weight=whole)[0] == pytest.approx(loss(*twice)[0])
    slope = numeric_gradient(lambda A: loss(A, y, B, sample_weight=weight)[0], A)
    np.testing.assert_allclose(dA, slope, atol=1e-7)
    assert not dB[4].any()
    bound = loss.on_pairs(y, weight)
    np.testing.assert_array_equal(bound.evaluate_two_sided(A, B)[1][1], dB)


@pytest.mark.parametrize("partners", [[], [[[0, 2], [-2, 0], [-2, 2]]]])
def test_cosent_refuses_a_gradient_that_overflows(partners):
    # The value is finite.
    Z = np.array([[0, 1], [1, -2], [-2, 1]]) * 5e154
    with pytest.raises(LossOverflowError, match="overflows: Z is too large"):
        losses.CoSENT()(Z, [2, 0, 1], *(np.array(each) * 5e154 for each in partners))


def test_a_scale_that_makes_points_overflow_is_refused():
    with pytest.raises(LossOverflowError, match="overflows: Z is too large"):
        losses.ProxyNCA(scale=1e30)(
            np.full((2, 3), 1e30, "f"), [0, 1], np.eye(2, 3, dtype="f"), [0, 1]
        )


OVERFLOWS = [
    *product((losses.LogRatio(), losses.NCA(), losses.LMNN(1), losses.LDML()), (1e30,), ("f",)),
    *product((losses.LogRatio(), losses.NCA(), losses.LMNN(1), losses.LDML()), (1e200,), ("d",)),
    (losses.Gerrymander(1), 1e200, "d"),  # sums in float64 anyhow
    (losses.Gerrymander(1).weights, 1e200, "d"),
]


@pytest.mark.parametrize(("loss", "size", "dtype"), OVERFLOWS)
def test_embeddings_that_overflow_are_refused(loss, size, dtype):
    Z, y = problem(losses.LogRatio())
    y = y if isinstance(loss, losses.LogRatio) else np.arange(len(Z)) % 2
    with pytest.raises(LossOverflowError, match="overflows: Z is too large"):
        loss((Z * size).astype(dtype), y)


def test_supcon_of_one_class_is_the_formula():
    Z, y = np.random.default_rng(0).normal(size=(12, 3)), np.zeros(12, int)
    value, gradient = losses.SupCon(0.5)(Z, y)
    assert value == pytest.approx(reference.on_itself(reference.supcon(0.5))(Z, y))
    assert np.abs(gradient).max() > 0
    equal = np.tile([0.6, 0.8], (5, 1))
    assert losses.SupCon()(equal, np.zeros(5, int))[0] == pytest.approx(np.log(4))
