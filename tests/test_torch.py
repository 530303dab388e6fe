"""The PyTorch bridge; skipped without PyTorch, which is optional."""

import doctest

import numpy as np
import pytest
from reference_losses import NAMES
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

from metricfast import LFDA, AdapterLearner, EmbeddingLearner, kneighbors, losses
from metricfast.embeddings import MLP, Linear
from metricfast.metrics import map_at_r, precision_at_1

torch = pytest.importorskip("torch")

import metricfast.torch as bridge  # noqa: E402

LOSSES = [getattr(losses, name)() for name in NAMES if name != "Ratio"] + [
    losses.Ratio(eps_distance=1.0),  # without, too steep for finite differences
    losses.Triplet(labels="dense"),
]


def problem(loss, n=9, dtype=np.float64):
    rng = np.random.default_rng(0)
    Z = torch.tensor(rng.normal(size=(n, 3)).astype(dtype), requires_grad=True)
    y = np.arange(n) // 3 if loss.labels == "class" else np.sqrt(np.arange(n))
    return Z, torch.tensor(y)


def database(loss, Z, y):
    """Return the further arguments of the loss, besides points and labels."""
    if isinstance(loss, losses.LMNN):
        return {"targets": np.roll(np.arange(9).reshape(3, 3), 1, axis=1).reshape(9, 1)}
    if loss.learnable_database:
        return {"Z_database": Z.detach()[::3].clone().requires_grad_(), "y_database": y[::3]}
    return {}


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_gradcheck(loss):
    Z, y = problem(loss)
    rest = database(loss, Z, y)
    module = bridge.Loss(loss)
    proxies = rest.pop("Z_database", None)
    points = (Z,) if proxies is None else (Z, proxies)
    assert torch.autograd.gradcheck(lambda *z: module(z[0], y, *z[1:], **rest), points)


def test_queries_against_a_database():
    Z, y = problem(losses.NCA())
    database = Z.detach().clone().requires_grad_()
    module = bridge.Loss(losses.NCA())
    assert torch.autograd.gradcheck(lambda a, b: module(a, y, b, y), (Z, database))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value_and_gradient_are_the_loss_s(dtype):
    loss = losses.LogRatio()
    Z, y = problem(loss, dtype=dtype)
    result = 3 * bridge.Loss(loss)(Z, y)
    result.backward()
    value, grad = loss(Z.detach().numpy(), y.numpy())
    assert result.dtype == Z.grad.dtype == Z.dtype
    assert result.item() == pytest.approx(3 * value)
    np.testing.assert_allclose(Z.grad.numpy(), 3 * grad, rtol=1e-6)


def test_points_are_not_copied(monkeypatch):
    loss = losses.Triplet()
    Z, y = problem(loss)
    seen = []
    monkeypatch.setattr(
        losses.Triplet, "_run", lambda self, call, *rest: seen.append(call.queries) or (0,) * 5
    )
    monkeypatch.setattr(losses.Triplet, "_result", lambda *_: (0.0, Z.detach().numpy()))
    bridge.Loss(loss)(Z, y)
    assert seen[0].ctypes.data == Z.data_ptr()


def test_half_precision_comes_back():
    loss = losses.SupCon()
    Z, y = problem(loss)
    half = Z.detach().bfloat16().requires_grad_()
    bridge.Loss(loss)(half, y).backward()
    assert half.grad.dtype == torch.bfloat16


@pytest.mark.parametrize("loss", [losses.ProxyNCA(), losses.ProxyAnchor()], ids=repr)
def test_proxies_learn(loss):
    torch.manual_seed(0)
    module = bridge.ProxyLoss(loss, 3, 3)
    Z, y = problem(loss, dtype=np.float32)
    optimizer = torch.optim.Adam([Z, *module.parameters()], 0.1)
    values = []
    for _ in range(30):
        optimizer.zero_grad()
        value = module(torch.nn.functional.normalize(Z), y)
        value.backward()
        optimizer.step()
        values.append(value.item())
    assert values[-1] < values[0] / 1.5
    with pytest.raises(ValueError, match="has no proxies"):
        bridge.ProxyLoss(losses.NCA(), 3, 3)


def test_errors_are_the_loss_s():
    Z, _ = problem(losses.SupCon())
    with pytest.raises(ValueError, match="y holds continuous numbers"):
        bridge.Loss(losses.SupCon())(Z, torch.linspace(0, 1, 9))
    assert "SupCon" in repr(bridge.Loss(losses.SupCon()))


def test_docstring_examples_run():
    assert doctest.testmod(bridge).failed == 0


@pytest.mark.parametrize("wrong", [3, -1, 0.5, np.nan, "a"])
def test_labels_without_a_proxy_are_refused(wrong):
    module = bridge.ProxyLoss(losses.ProxyNCA(), 3, 2)
    with pytest.raises(ValueError, match=r"y must hold classes from 0 to 2, .* found"):
        module(torch.randn(4, 2), [0, 1, 2, wrong])


@pytest.mark.parametrize("wrong", [losses.Triplet, "x", None])
@pytest.mark.parametrize("module", [bridge.Loss, lambda loss: bridge.ProxyLoss(loss, 3, 2)])
def test_what_is_no_loss_is_refused_at_once(module, wrong):
    with pytest.raises(TypeError, match=r"loss must be an object of metricfast\.losses"):
        module(wrong)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_labels_of_half_precision(dtype):
    Z, y = torch.randn(8, 2), torch.arange(8) % 4
    for loss in (losses.LogRatio(), losses.Contrastive()):
        expected = bridge.Loss(loss)(Z, y)
        assert (
            bridge.Loss(loss)(Z, y.to(dtype), sample_weight=torch.ones(8, dtype=dtype)) == expected
        )
    module = bridge.ProxyLoss(losses.ProxyNCA(), 4, 2)
    assert module(Z, y.to(dtype)) == module(Z, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_neighbours_for_other_tools(dtype):
    points = torch.tensor(np.random.default_rng(0).normal(size=(40, 3))).to(dtype)
    known = points.float().numpy() if dtype == torch.bfloat16 else points.numpy()
    L = np.random.default_rng(1).normal(size=(2, 3))
    for how in ({}, {"L": L}, {"L": torch.tensor(L)}):
        maps = {"L": L} if how else {}
        queries = points[:30].requires_grad_()
        distances, indices = bridge.knn_func(queries, 3, points, True, **how)
        expected = kneighbors(known[:30], known, 3, exclude=np.arange(30), **maps)
        np.testing.assert_array_equal(indices, expected[1])
        np.testing.assert_allclose(distances.float(), expected[0], rtol=1e-2)
        assert distances.dtype == (torch.float32 if dtype == torch.bfloat16 else dtype)
        assert not distances.requires_grad
    _, alone = bridge.knn_func(points, 2)
    np.testing.assert_array_equal(alone, kneighbors(known, n_neighbors=2)[1])
    with pytest.raises(ValueError, match="n_neighbors must be at most 40"):
        bridge.knn_func(points, 41, points)
    for given, error, message in (
        ((known, 2), TypeError, "query must be a tensor; found ndarray"),
        ((points, 2, known), TypeError, "reference must be a tensor; found ndarray"),
        ((points, 2, points[:9], True), ValueError, "reference must begin with the 40 queries"),
        ((points, 2, points, "yes"), ValueError, "ref_includes_query must be True or False"),
    ):
        with pytest.raises(error, match=message):
            bridge.knn_func(*given)


def test_distances_of_integers_are_no_integers():
    distances, _ = bridge.knn_func(torch.tensor([[0, 0], [1, 1], [5, 5]]), 1)
    np.testing.assert_allclose(distances.ravel(), [2**0.5, 2**0.5, 32**0.5])
    assert distances.dtype == torch.float64


def test_pytorch_metric_learning_takes_the_search():
    module = pytest.importorskip(
        "pytorch_metric_learning.utils.accuracy_calculator",
        reason="pytorch-metric-learning is not installed",
    )
    Z, y = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 4
    calculator = module.AccuracyCalculator(
        include=("precision_at_1", "mean_average_precision_at_r"), k="max_bin_count",
        knn_func=bridge.knn_func, device=torch.device("cpu"),
    )  # fmt: skip
    for given in ((Z, y), (Z[:20], y[:20], Z, y, True), (Z[:20], y[:20], Z[20:], y[20:])):
        found = calculator.get_accuracy(*given)
        exclude = np.arange(20) if len(given) == 5 else None
        arrays = [part.numpy() for part in given[:4]]
        assert found["precision_at_1"] == pytest.approx(precision_at_1(*arrays, exclude=exclude))
        expected = map_at_r(*arrays, exclude=exclude)
        assert found["mean_average_precision_at_r"] == pytest.approx(expected, abs=1e-6)


def test_values_are_exact_for_points_of_any_dtype():
    loss, y = losses.Triplet(margin=0.3), torch.arange(6) % 2
    points = torch.tensor([[0, 1], [1, 0], [0, 0], [1, 1], [1, 0], [0, 1]])
    expected = bridge.Loss(loss)(points.double(), y)
    assert expected != expected.round()
    for kind in (torch.int64, torch.uint8, torch.bool):
        value = bridge.Loss(loss)(points.to(kind), y)
        assert value.dtype == torch.float64
        assert value == expected
    for kind in (torch.float16, torch.bfloat16):
        Z = (256 * points).to(kind).requires_grad_()
        value = bridge.Loss(losses.Triplet(reduction="sum"))(Z, y)
        assert value.dtype == torch.float32
        assert 65_504 < value < np.inf
        value.backward()
        assert Z.grad.dtype == kind
    proxies = bridge.ProxyLoss(losses.ProxyAnchor(), 2, 2)
    assert proxies(points, y).item() == proxies(points.double(), y).item()
    distances, _ = bridge.knn_func(torch.tensor([[0.0], [60_000.0], [-60_000.0]]).half(), 2)
    assert distances.dtype == torch.float32
    assert distances.max() > 65_504
    for call in (lambda z: bridge.Loss(loss)(z, y), lambda z: bridge.knn_func(z, 1)):
        with pytest.raises(TypeError, match=r"must hold real numbers; found torch.complex64"):
            call(points.to(torch.complex64))
    value = bridge.Loss(loss)(torch.view_as_real(points.to(torch.complex64)).flatten(1), y)
    assert value.item() == pytest.approx(expected.item())


def test_gradients_of_half_precision_are_scaled_before_they_are_rounded():
    loss, y = losses.NCA(), torch.arange(6) % 2
    Z = (1e-4 * torch.eye(6)).half().requires_grad_()
    (2.0**10 * bridge.Loss(loss)(Z, y)).backward()
    _, grad = loss(Z.detach().float().numpy(), y.numpy())
    assert 0 < np.abs(grad).max() < 1e-4
    np.testing.assert_array_equal(Z.grad, torch.from_numpy(2.0**10 * grad).half())


@pytest.fixture(scope="module")
def adapters():
    """Adapters of both sides and of queries, of float32 and float64 points, and the points."""
    rng = np.random.default_rng(0)
    topics, maps = rng.normal(size=(300, 4)), rng.normal(size=(8, 12))
    sides = [np.hstack([topics, rng.normal(size=(300, 4))]) @ maps for _ in range(2)]
    return sides[0], {
        (side, dtype): AdapterLearner(side, random_state=0).fit(
            sides[0].astype(dtype), X_database=sides[1].astype(dtype)
        )
        for side in ("both", "query")
        for dtype in ("float32", "float64")
    }


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("side", ["both", "query"])
def test_an_adapter_as_a_module(adapters, side, dtype, tmp_path):
    X, adapter = adapters[0].astype(dtype), adapters[1][side, dtype]
    X[0] = 0
    X[1] *= 1e20
    for each in ("query", "database"):
        module = bridge.module(adapter, side=each)
        Z = module(torch.from_numpy(X))
        assert Z.dtype == module.weight.dtype == getattr(torch, dtype)
        expected = adapter.transform(X, side=each)
        np.testing.assert_allclose(Z.detach(), expected, atol=1e-6)
        np.testing.assert_allclose(module(torch.from_numpy(X[2])).detach(), expected[2], atol=1e-6)
        module.save(tmp_path)
        again = bridge.LinearMap.load(tmp_path)
        assert torch.equal(again(torch.from_numpy(X)), Z)
        assert repr(again) == repr(module) == "LinearMap(12, 12, normalize=True)"
        assert again.get_embedding_dimension() == 12
    Z.sum().backward()
    assert torch.isfinite(module.weight.grad).all()


def test_other_learners_as_modules():
    X, y = np.random.default_rng(0).normal(size=(60, 5)), np.arange(60) % 3
    X = X + 5
    for learner in (LFDA(n_components=2), EmbeddingLearner(losses.NCA(), Linear(3), max_epochs=2)):
        learner.fit(X, y)
        Z = bridge.module(learner)(torch.from_numpy(X)).detach()
        np.testing.assert_allclose(Z, learner.transform(X), atol=1e-9)
    half = bridge.module(learner)(torch.from_numpy(X).bfloat16())
    assert half.dtype == torch.bfloat16


def test_learners_without_a_linear_map():
    X, y = np.random.default_rng(0).normal(size=(60, 5)), np.arange(60) % 3
    perceptron = EmbeddingLearner(losses.NCA(), MLP((4, 2)), max_epochs=1).fit(X, y)
    for learner in (perceptron, StandardScaler().fit(X)):
        with pytest.raises(TypeError, match="learner must have a linear map"):
            bridge.module(learner)
    with pytest.raises(NotFittedError):
        bridge.module(AdapterLearner())
    with pytest.raises(ValueError, match="side must be"):
        bridge.module(AdapterLearner(), side="both")


@pytest.mark.filterwarnings("ignore")
def test_a_module_of_sentence_transformers(adapters, tmp_path):
    package = pytest.importorskip("sentence_transformers")
    tokenizers = pytest.importorskip("tokenizers")
    try:
        from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    except ImportError:
        from sentence_transformers.models import StaticEmbedding
    words = {word: i for i, word in enumerate(("[UNK]", "blue", "cold", "sea", "sky"))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    weights = np.random.default_rng(0).normal(size=(len(words), 12)).astype("f")
    encoder = StaticEmbedding(tokenizer, embedding_weights=weights)
    adapter, texts = adapters[1]["both", "float32"], ["blue sea", "cold blue sky", "sky"]
    given = package.SentenceTransformer(modules=[encoder], device="cpu")
    expected = adapter.transform(given.encode(texts))
    model = package.SentenceTransformer(modules=[encoder, bridge.module(adapter)], device="cpu")
    np.testing.assert_allclose(model.encode(texts), expected, atol=1e-6)
    model.save(str(tmp_path))
    again = package.SentenceTransformer(str(tmp_path), device="cpu", trust_remote_code=True)
    np.testing.assert_allclose(again.encode(texts), expected, atol=1e-6)
