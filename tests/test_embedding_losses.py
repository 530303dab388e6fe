"""Losses compared with loops over pairs and triplets, and with finite differences."""

import numpy as np
import pytest
import reference_losses as reference
from reference import elsewhere, numeric_gradient, peak_memory

from metricfast import losses

PRECISIONS = [np.float32, np.float64]
RTOL = {np.float32: 3e-4, np.float64: 1e-6}
EPS = {"eps_distance": 1e-3, "eps_log": 1e-3}
PLAIN = {"squared": False, "label_distance": "euclidean"}

CASES = {
    "NCA": (losses.NCA(), reference.nca()),
    "NCA log": (losses.NCA("log"), reference.nca("log")),
    "NCA plain": (losses.NCA(squared=False), reference.nca(squared=False)),
    "NCA log plain": (losses.NCA("log", squared=False), reference.nca("log", squared=False)),
    "MLKR": (losses.MLKR(), reference.mlkr()),
    "MLKR plain": (losses.MLKR(squared=False), reference.mlkr(squared=False)),
    "MCML": (losses.MCML(), reference.mcml()),
    "LDML": (losses.LDML(2.5), reference.ldml(2.5)),
    "LogRatio": (losses.LogRatio(**EPS), reference.log_ratio(**EPS)),
    "LogRatio plain": (
        losses.LogRatio(**PLAIN, **EPS),
        reference.log_ratio(squared=False, metric="euclidean", **EPS),
    ),
    "Ratio": (losses.Ratio(eps_distance=0.5, eps_log=0), reference.ratio(eps_distance=0.5)),
    "Ratio plain": (
        losses.Ratio(**PLAIN, eps_distance=0.5, eps_log=0),
        reference.ratio(squared=False, metric="euclidean", eps_distance=0.5),
    ),
    "BoundedRatio": (
        losses.BoundedRatio(eps_distance=1e-3, eps_log=0),
        reference.bounded_ratio(eps_distance=1e-3),
    ),
    "BoundedRatio plain": (
        losses.BoundedRatio(**PLAIN, eps_distance=1e-3, eps_log=0),
        reference.bounded_ratio(squared=False, metric="euclidean", eps_distance=1e-3),
    ),
    "Contrastive": (losses.Contrastive(), reference.contrastive()),
    "Contrastive squared": (
        losses.Contrastive(0.3, 2.0, power=2, reduction="mean"),
        reference.contrastive(0.3, 2.0, 2, "mean"),
    ),
    "Contrastive sum": (
        losses.Contrastive(0.3, 2.0, reduction="sum"),
        reference.contrastive(0.3, 2.0, 1, "sum"),
    ),
    "MultiSimilarity": (losses.MultiSimilarity(beta=5.0), reference.multi_similarity(beta=5.0)),
    "SupCon": (losses.SupCon(0.5), reference.supcon(0.5)),
    "NTXent": (losses.NTXent(0.5), reference.ntxent(0.5)),
    "Circle": (losses.Circle(gamma=0.5), reference.circle(gamma=0.5)),
    "SmoothAP": (losses.SmoothAP(2.0), reference.smooth_ap(2.0)),
    "RecallAtK": (losses.RecallAtK((1, 3), 2.0, 0.7), reference.recall_at_k((1, 3), 2.0, 0.7)),
    "GeneralizedLifted": (losses.GeneralizedLifted(), reference.lifted()),
    "GeneralizedLifted squared": (
        losses.GeneralizedLifted(2.0, 0.5, squared=True),
        reference.lifted(2.0, 0.5, squared=True),
    ),
    "RankNContrast": (losses.RankNContrast(), reference.rank_n_contrast()),
    "ProxyNCA": (losses.ProxyNCA(0.7), reference.proxy_nca(0.7)),
    "ProxyAnchor": (losses.ProxyAnchor(alpha=3.0), reference.proxy_anchor(alpha=3.0)),
    "CoSENT": (losses.CoSENT(2.0), reference.cosent(2.0)),
} | {
    f"Triplet {mining} {labels} {squared} {reduction}": (
        losses.Triplet(0.9, mining, labels, squared, reduction),
        reference.triplet(0.9, mining, labels == "dense", squared, reduction),
    )
    for mining, labels, squared, reduction in [
        ("all", "class", True, "mean_nonzero"),
        ("all", "class", False, "mean"),
        ("all", "dense", True, "mean_nonzero"),
        ("all", "dense", False, "sum"),
        ("semihard", "class", True, "mean_nonzero"),
        ("semihard", "dense", False, "mean_nonzero"),
        ("hardest", "class", False, "mean_nonzero"),
        ("hardest", "dense", True, "mean"),
    ]
}
every_case = pytest.mark.parametrize(("loss", "oracle"), CASES.values(), ids=CASES)
OF_POINTS = {name: case for name, case in CASES.items() if not case[0].learnable_database}
every_case_of_points = pytest.mark.parametrize(
    ("loss", "oracle"), OF_POINTS.values(), ids=OF_POINTS
)
ROW_LOSSES = {
    name: case
    for name, case in CASES.items()
    if not isinstance(case[0], (losses.CoSENT, losses.ProxyAnchor))
}
every_row_loss = pytest.mark.parametrize(("loss", "oracle"), ROW_LOSSES.values(), ids=ROW_LOSSES)


def problem(loss, n=18, p=3, seed=0):
    """Return points, and labels: four classes, or numbers with ties."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)), labels_for(loss, rng, n)


def labels_for(loss, rng, n):
    return rng.integers(0, 4, n) if loss.labels == "class" else rng.integers(0, 12, n) / 4.0


def pair_problem(loss, seed=0):
    """Queries and a database, or pairs."""
    Z, y = problem(loss, 10, seed=seed)
    B, yb = problem(loss, 10 if isinstance(loss, losses.CoSENT) else 14, seed=seed + 1)
    if loss.learnable_database:
        B, yb = B[:4], np.arange(4)
    return Z, y, B, None if isinstance(loss, losses.CoSENT) else yb


def close(grad, expected, dtype):
    scale = np.abs(expected).max() + 1e-12
    np.testing.assert_allclose(grad, expected, rtol=RTOL[dtype], atol=RTOL[dtype] * scale)


def single(Z):
    """Round to float32, so that both precisions have the same points."""
    return Z.astype(np.float32).astype(np.float64)


@every_case
def test_a_loss_says_whether_it_depends_on_where_zero_is(loss, oracle):
    del oracle
    Z, y = problem(loss)
    n = 2 if loss.learnable_database else 0  # a table of four classes
    values = [loss(A, y, *(A[:4], np.arange(4))[:n])[0] for A in (Z, Z + 1)]
    assert loss.of_inner_products != np.isclose(*values, rtol=1e-9)


@every_case_of_points
def test_value_and_gradient(loss, oracle):
    Z, y = problem(loss, 13)
    Z = single(Z)

    def smooth(A):
        return oracle(A, y, A, y, True)

    expected, expected_grad = smooth(Z), numeric_gradient(smooth, Z)
    for dtype in PRECISIONS:
        value, grad = loss(Z.astype(dtype), y)
        assert grad.dtype == dtype
        assert value == pytest.approx(expected, rel=RTOL[dtype])
        close(grad, expected_grad, dtype)


@every_case
def test_queries_against_a_database(loss, oracle):
    Z, y, B, yb = pair_problem(loss)
    Z, B = single(Z), single(B)
    expected = oracle(Z, y, B, yb, False)
    slopes = (
        numeric_gradient(lambda A: oracle(A, y, B, yb, False), Z),
        numeric_gradient(lambda A: oracle(Z, y, A, yb, False), B),
    )
    for dtype in PRECISIONS:
        value, gradients = loss(Z.astype(dtype), y, B.astype(dtype), yb)
        assert value == pytest.approx(expected, rel=RTOL[dtype])
        for found, slope in zip(gradients, slopes, strict=True):
            assert found.dtype == dtype
            close(found, slope, dtype)


@pytest.mark.parametrize(
    ("loss", "n"),
    [(loss, 70) for loss, _ in ROW_LOSSES.values() if not loss.learnable_database]
    # With more weights than some megabytes, the engine does not store all of them.
    + [(loss, 1500) for loss in (losses.LogRatio(), losses.Triplet(), losses.SupCon())],
    ids=str,
)
def test_a_point_has_two_roles(loss, n):
    """Points as queries and as their own database give the two parts of the gradient."""
    Z, y = problem(loss, n)
    value, grads = loss(Z, y, Z, y, exclude=np.arange(n))
    same, grad = loss(Z, y)
    assert value == pytest.approx(same, rel=1e-12)
    np.testing.assert_allclose(grad, sum(grads), atol=1e-9 * np.abs(grad).max())


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("loss", [losses.LogRatio(reduction="sum"), losses.SupCon(reduction="sum")])
def test_many_anchors_add_up(loss, dtype):
    """A lane sums its products in the points' precision, but not those of all of its anchors."""
    rng = np.random.default_rng(0)
    n, m, continuous = 20_000, 40, loss.labels != "class"
    Z, B = (rng.normal(size=(size, 5)).astype(dtype) for size in (n, m))
    y, yb = (rng.normal(size=size) if continuous else np.arange(size) % 7 for size in (n, m))
    value, (_, whole) = loss(Z, y, B, yb)
    parts = [loss(Z[i : i + 500], y[i : i + 500], B, yb) for i in range(0, n, 500)]
    expected = sum(grad.astype(float) for _, (_, grad) in parts)
    assert value == pytest.approx(sum(part for part, _ in parts), rel=1e-6)
    tolerance = (2e-6 if dtype == np.float32 else 1e-13) * np.abs(expected).max()
    np.testing.assert_allclose(whole, expected, rtol=0, atol=tolerance)


@every_row_loss
@pytest.mark.parametrize("n", [97, 300])
def test_larger_batches(loss, oracle, n):
    """Larger than registers and blocks: values, and one directional derivative."""
    if isinstance(loss, losses.Triplet):
        n = n // 8  # the oracle is cubic, and the number of active triplets jumps
    Z, y = problem(loss, n)
    database = (Z, y) if loss.learnable_database else ()
    _, *rest = loss(Z, y, *database)
    grad = sum(rest[0]) if isinstance(rest[0], tuple) else rest[0]
    step = np.random.default_rng(1).normal(size=Z.shape)
    value = loss(Z, y, *database)[0]
    if n < 100:
        own = not loss.learnable_database
        assert value == pytest.approx(oracle(Z, y, Z, y, own), rel=1e-9)
    up, down = (Z + h * step for h in (1e-7, -1e-7))
    moved = [loss(A, y, *((A, y) if database else ()))[0] for A in (up, down)]
    assert np.sum(grad * step) == pytest.approx((moved[0] - moved[1]) / 2e-7, rel=1e-4, abs=1e-6)


@every_case
def test_threads_do_not_change_a_bit(loss, oracle):
    del oracle
    Z, y = problem(loss, 400, 5)
    arguments = (Z.astype(np.float32), y)
    if loss.learnable_database:
        arguments += (Z[:4].astype(np.float32), np.arange(4))
    one, two, three = (loss(*arguments, n_jobs=n) for n in (1, 2, 3))
    for other in (two, three):
        assert one[0] == other[0]
        np.testing.assert_array_equal(np.vstack(one[1]), np.vstack(other[1]))


@every_row_loss
def test_integer_weights_of_anchors_equal_repetition(loss, oracle):
    del oracle
    Z, y = problem(loss)
    B, yb = problem(loss, 12, seed=3)
    weight = np.random.default_rng(1).integers(0, 4, len(Z))
    value, (grad, grad_database) = loss(Z, y, B, yb, sample_weight=weight)
    repeat = np.repeat(np.arange(len(Z)), weight)
    repeated, (grad_repeated, same) = loss(Z[repeat], y[repeat], B, yb)
    assert value == pytest.approx(repeated)
    np.testing.assert_allclose(grad_database, same, atol=1e-12)
    summed = np.zeros_like(grad)
    np.add.at(summed, repeat, grad_repeated)
    np.testing.assert_allclose(grad, summed, atol=1e-12)


def test_weights_of_proxy_anchors_points_equal_repetition():
    loss = losses.ProxyAnchor(alpha=3.0)
    Z, y, B, yb = pair_problem(loss)
    weight = np.random.default_rng(1).integers(0, 3, len(Z))
    value, (_, of_proxies) = loss(Z, y, B, yb, sample_weight=weight)
    repeated, (_, same) = loss(np.repeat(Z, weight, 0), np.repeat(y, weight), B, yb)
    assert value == pytest.approx(repeated)
    np.testing.assert_allclose(of_proxies, same, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["LogRatio", "Ratio", "BoundedRatio", "RankNContrast", "Triplet", "CoSENT"]
)
def test_label_distances(name):
    """Different specifications of the same label distance give the same loss."""
    loss = getattr(losses, name)(**({"labels": "dense"} if name == "Triplet" else {}))
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))

    def result(label_distance, labels):
        return loss.set_params(label_distance=label_distance)(Z, labels)

    for metric in ("sqeuclidean", "euclidean", "cityblock"):
        distances = np.array([[reference.label_distance(a, b, metric) for b in y] for a in y])
        expected, grad = result(metric, y)
        for other in (
            result("precomputed", distances),
            result(lambda a, b, distances=distances: distances[: len(a), : len(b)], y),
        ):
            assert other[0] == pytest.approx(expected, rel=1e-12)
            np.testing.assert_allclose(other[1], grad, atol=1e-12)
    sample = losses.LogRatio(label_distance="precomputed")(Z[:4], distances[:4, 4:], Z[4:])
    assert np.isfinite(sample[0])


def test_published_log_ratio():
    """The two forms of the paper and of its code, which adds 1e-4 / d and 1e-6."""
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(30, 16)), rng.normal(size=(30, 3))
    squared = losses.LogRatio(eps_distance=0, eps_log=0)(Z, y)[0]
    assert squared == pytest.approx(reference.log_ratio()(Z, y, Z, y, True), rel=1e-6)

    def published(X):
        return np.sqrt(((X[:, None] - X) ** 2).sum(2) + 1e-4 / X.shape[1])

    d, t = published(Z), published(y) + 1e-6
    anchors = []
    for i in range(30):
        e = np.log(d[i] + 1e-6) - np.log(t[i])
        e = np.delete(e, i)
        j, k = np.triu_indices(29, 1)
        anchors.append(np.mean((e[j] - e[k]) ** 2))
    loss = losses.LogRatio(squared=False, label_distance="precomputed")
    assert loss(Z, t)[0] == pytest.approx(np.mean(anchors), rel=1e-6)
    plain = losses.LogRatio(**PLAIN, eps_distance=0, eps_log=0)(Z, y)[0]
    assert plain == pytest.approx(squared / 4, rel=1e-9)


def test_units_of_labels_do_not_matter():
    Z, y = problem(losses.LogRatio())
    for loss in (
        losses.LogRatio(),
        losses.LogRatio(ties="epsilon"),
        losses.Ratio(),
        losses.BoundedRatio(),
    ):
        value, grad = loss(Z, y)
        for factor in (1e-40, 1e40):
            other, other_grad = loss(Z, y * factor)
            assert other == pytest.approx(value, rel=1e-9)
            np.testing.assert_allclose(other_grad, grad, rtol=1e-7, atol=1e-12)


def test_ties_get_an_epsilon():
    Z, y = problem(losses.LogRatio())
    loss = losses.LogRatio(ties="epsilon")
    value, _ = loss(Z, y)
    assert loss.counts_["dropped"] == 0
    t = (y[:, None] - y) ** 2
    t += 1e-6 * t.sum(1, keepdims=True) / (len(y) - 1)
    other, _ = losses.LogRatio(label_distance="precomputed")(Z, t)
    assert value == pytest.approx(other, rel=1e-9)


def test_supcon_is_ntxent_with_two_points_a_class():
    Z, _ = problem(losses.SupCon())
    y = np.arange(len(Z)) // 2
    one, two = losses.SupCon(0.3)(Z, y), losses.NTXent(0.3)(Z, y)
    assert one[0] == pytest.approx(two[0])
    np.testing.assert_allclose(one[1], two[1], atol=1e-12)


def test_semihard_mining_leaves_out_far_points_that_are_as_far_as_the_near_one():
    """A grid has many equal distances. Two continuous labels give the triplets of two classes."""
    rng = np.random.default_rng(0)
    Z, y = rng.integers(0, 3, (24, 2)).astype(float), np.arange(24) % 2
    of_classes, dense = (losses.Triplet(0.9, "semihard", labels) for labels in ("class", "dense"))
    expected = reference.triplet(0.9, "semihard")(Z, y, Z, y, True)
    value, grad = of_classes(Z, y)
    same, same_grad = dense(Z, y)
    assert value == pytest.approx(expected, rel=1e-9)
    assert same == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(same_grad, grad, atol=1e-12)


@pytest.mark.parametrize("labels", ["class", "dense"])
def test_all_triplets_weights_cancel_where_classes_are_large(labels):
    """The weights of an anchor sum to zero, so shifting all points changes nothing."""
    rng = np.random.default_rng(0)
    Z = (rng.normal(size=(200, 2)) + 1e3).astype(np.float32)
    y = np.arange(200) % 2
    value, grad = losses.Triplet(1.0, labels=labels, reduction="sum")(Z, y)
    exact, exact_grad = losses.Triplet(1.0, labels=labels, reduction="sum")(Z.astype(float), y)
    assert value == pytest.approx(exact, rel=1e-3)
    np.testing.assert_allclose(grad, exact_grad, atol=2e-3 * np.abs(exact_grad).max())
    np.testing.assert_allclose(exact_grad.sum(0), 0, atol=1e-6 * np.abs(exact_grad).max())


@pytest.mark.parametrize(
    "loss", [losses.SupCon(), losses.NTXent(), losses.MultiSimilarity(), losses.CoSENT()]
)
def test_large_inner_products_do_not_overflow(loss):
    Z, y = problem(loss)
    value, grad = loss((100 * Z).astype(np.float32), y)
    exact, exact_grad = loss(100 * Z.astype(np.float32).astype(float), y)
    assert value == pytest.approx(exact, rel=1e-4)
    close(grad, exact_grad, np.float32)


def test_far_neighbours_do_not_overflow_rank_n_contrast():
    loss = losses.RankNContrast(temperature=0.01)
    Z, y = problem(loss)
    oracle = reference.rank_n_contrast(0.01)
    assert loss(100 * Z, y)[0] == pytest.approx(oracle(100 * Z, y, 100 * Z, y, True), rel=1e-9)
    assert np.isfinite(loss(100 * Z, y)[1]).all()


@every_case
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_gradients_do_not_depend_on_where_arrays_begin(loss, oracle, dtype, monkeypatch):
    rng = np.random.default_rng(0)
    for n, p in [(2, 1), (3, 5), (4, 8), (5, 3), (17, 7)]:
        points = rng.normal(size=(2, n, p)).astype(dtype)
        y, database = np.arange(n) % 3, np.arange(n)[::-1] % 3
        results = []
        for shift in (0, 1, 3):
            with monkeypatch.context() as patch:
                patch.setattr(
                    np, "empty_like", lambda array, *_, s=shift, **__: elsewhere(array, s)
                )
                Z, Z_database = (elsewhere(side, shift) for side in points)
                pairs = isinstance(loss, losses.CoSENT)
                value, gradients = loss(Z, y, Z_database, None if pairs else database)
            results.append([value, *gradients])
        for other in results[1:]:
            for a, b in zip(results[0], other, strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("n", [40, 1500])
def test_copies_in_another_class_are_not_farther(n, squared, dtype):
    # With near-duplicates, whole blocks of distances are computed by another algorithm.
    Z = np.random.default_rng(0).normal(size=(n, 9)).astype(dtype)
    Z[n // 2 :] = Z[n // 2] * (1 + 1e-6 * Z[n // 2 :, :1])
    value, _ = losses.Triplet(4 * float(np.finfo(dtype).eps), "semihard", squared=squared)(
        np.concatenate([Z[: n // 2], Z]), np.repeat([0, 1], [n // 2, n])
    )
    assert value < 1e-3


def test_memory_of_cosent():
    Z, y = np.random.default_rng(0).normal(size=(2, 1000, 4))
    peak = peak_memory(lambda: losses.CoSENT()(Z, y[:, 0]))
    assert peak < 8.5 * len(Z) ** 2  # and 2 n^2 bytes in compiled code
