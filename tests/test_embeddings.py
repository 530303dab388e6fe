"""Embeddings compared with simple NumPy code, and gradients with finite differences."""

import itertools
import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from reference import elsewhere, numeric_gradient
from scipy.sparse import csc_array, csr_array, csr_matrix
from sklearn.base import clone

from metricfast import EmbeddingLearner, losses
from metricfast._core.dispatch import get_kernels
from metricfast.embeddings import MLP, Asymmetric, Embedding, Linear, Periodic

RNG = np.random.default_rng(0)
X = RNG.normal(size=(37, 5)) * (RNG.random((37, 5)) < 0.7)
UPSTREAM = RNG.normal(size=(37, 3))
EMBEDDINGS = [
    Linear(3),
    Linear(3, normalize=True),
    MLP((7,), 3),
    MLP((6, 4), 3, activation="tanh", normalize=True),
    MLP((), 3, activation="identity"),
    Asymmetric(Linear(3), MLP((4,), 3, normalize=True)),
    Periodic(3, 4, 5, n_passthrough=2),
    Periodic(3, 70, 1, normalize=True),
    Asymmetric(Periodic(3, 2, 2), MLP((), 3)),
]
every_embedding = pytest.mark.parametrize("embedding", EMBEDDINGS, ids=str)
every_side = pytest.mark.parametrize("side", ["query", "database"])


def plain(embedding, parameters, points, side):
    """Return embedded points by simple NumPy code."""
    if embedding.asymmetric:
        query, database = embedding.split(parameters)
        if side == "query":
            return plain(embedding.query, query, points, side)
        return plain(embedding.database, database, points, side)
    if isinstance(embedding, Linear):
        z = points @ parameters[0].T
    elif isinstance(embedding, Periodic):
        c, A, a, L = parameters
        turns = 2 * np.pi * points[:, : len(c), None] * c
        hidden = np.maximum(np.concatenate([np.cos(turns), np.sin(turns)], axis=2) @ A.T + a, 0)
        z = np.c_[hidden.reshape(len(points), -1), points[:, len(c) :]] @ L.T
    else:
        z = points
        f = {"relu": lambda a: np.maximum(a, 0), "tanh": np.tanh, "identity": lambda a: a}
        for i in range(0, len(parameters), 2):
            z = z @ parameters[i].T + parameters[i + 1]
            if i + 2 < len(parameters):
                z = f[embedding.activation](z)
    return z / np.linalg.norm(z, axis=1, keepdims=True) if embedding.normalize else z


def start(embedding, points=X):
    """Return parameters without zeros, including biases."""
    parameters = embedding.initialize(points, random_state=0)
    rng = np.random.default_rng(1)
    return [p + (0.3 * rng.normal(size=p.shape)).astype(p.dtype) for p in parameters]


@every_side
@every_embedding
def test_forward(embedding, side):
    parameters = start(embedding)
    Z, _ = embedding.forward(parameters, X, side=side)
    np.testing.assert_allclose(Z, plain(embedding, parameters, X, side), rtol=1e-12, atol=1e-13)


@every_side
@every_embedding
@pytest.mark.parametrize("n_rows", [len(UPSTREAM), 2, 0])
def test_backward_is_the_slope(embedding, n_rows, side):
    parameters = start(embedding)
    _, cache = embedding.forward(parameters, X, side=side)
    upstream = np.where(np.arange(len(UPSTREAM))[:, None] < n_rows, UPSTREAM, 0)
    kept = upstream.copy()
    found = embedding.backward(parameters, cache, upstream, n_jobs=1)
    np.testing.assert_array_equal(upstream, kept)
    for i, array in enumerate(parameters):

        def value(moved, i=i):
            arrays = [*parameters[:i], moved, *parameters[i + 1 :]]
            return float((plain(embedding, arrays, X, side) * upstream).sum())

        expected = numeric_gradient(value, array)
        np.testing.assert_allclose(found[i], expected, rtol=1e-6, atol=1e-7)


@every_embedding
def test_sparse_points(embedding):
    parameters = start(embedding)
    expected, cache = embedding.forward(parameters, X)
    found, sparse_cache = embedding.forward(parameters, csr_array(X))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    for one, two in zip(
        embedding.backward(parameters, cache, UPSTREAM),
        embedding.backward(parameters, sparse_cache, UPSTREAM),
        strict=True,
    ):
        np.testing.assert_allclose(two, one, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("embedding", "width"),
    [
        (MLP((150, 20), 10, activation="tanh", normalize=True), 300),
        (Periodic(10, scale=1.0, n_passthrough=20), 50),
    ],
    ids=["MLP", "Periodic"],
)
def test_many_points_and_any_number_of_threads(embedding, width, dtype):
    points = RNG.normal(size=(5003, width)).astype(dtype)
    parameters = start(embedding, points)
    upstream = RNG.normal(size=(5003, 10)).astype(dtype)
    results = []
    for threads in (1, 2, 3):
        Z, cache = embedding.forward(parameters, points, n_jobs=threads)
        results.append([Z, *embedding.backward(parameters, cache, upstream, n_jobs=threads)])
        assert all(array.dtype == dtype for array in results[-1])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    wide = [p.astype(np.float64) for p in parameters]
    Z, cache = embedding.forward(wide, points.astype(np.float64))
    tolerance = 2e-4 if dtype == np.float32 else 1e-11
    np.testing.assert_allclose(results[0][0], plain(embedding, wide, points, ""), atol=tolerance)
    exact = embedding.backward(wide, cache, upstream.astype(np.float64))
    for found, expected in zip(results[0][1:], exact, strict=True):
        np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 5, 37])
@pytest.mark.parametrize("width", range(1, 21))
def test_results_do_not_depend_on_where_arrays_begin(n, width, dtype, monkeypatch):
    points = RNG.normal(size=(n, 1 + 5 * width % 17)).astype(dtype)
    for embedding in (
        Linear(width, "random", normalize=width > 1),
        MLP((3, 11), width, activation="tanh", normalize=width > 1),
        MLP((width,), 1 + 7 * width % 13),
        Periodic(width, 3, 1 + 5 * width % 7),
    ):
        parameters = start(embedding, points)
        upstream = RNG.normal(size=embedding.forward(parameters, points)[0].shape).astype(dtype)
        results = []
        for shift in (0, 1, 3):
            with monkeypatch.context() as patch:
                moved = partial(elsewhere, shift=shift)
                patch.setattr(np, "empty_like", moved)
                arrays = [moved(array) for array in parameters]
                Z, cache = embedding.forward(arrays, moved(points))
                cache = replace(cache, outputs=[moved(output) for output in cache.outputs])
                given = moved(upstream)
                given.flags.writeable = False
                gradients = embedding.backward(arrays, cache, given)
            results.append([Z, *gradients])
        for other in results[1:]:
            for a, b in zip(results[0], other, strict=True):
                np.testing.assert_array_equal(a, b)


def test_points_of_no_length():
    embedding = Linear(2, init="identity", normalize=True)
    points = np.array([[0.0, 0.0], [3.0, 4.0], [1e-13, 0.0]])
    parameters = embedding.initialize(points)
    Z, cache = embedding.forward(parameters, points)
    np.testing.assert_allclose(Z, [[0, 0], [0.6, 0.8], [0, 0]])
    (gradient,) = embedding.backward(parameters, cache, np.ones((3, 2)))
    along = 1.4 * np.array([0.6, 0.8])
    np.testing.assert_allclose(gradient, np.outer((1 - along) / 5, points[1]))


def test_starts():
    np.testing.assert_array_equal(Linear(init="identity").initialize(X)[0], np.eye(5))
    (tall,) = Linear(9, init="identity").initialize(X)
    np.testing.assert_array_equal(tall, np.eye(9, 5))
    (tall,) = Linear(9).initialize(X, random_state=0)  # rows of zeros would have no gradient
    np.testing.assert_array_equal(tall[:5], np.eye(5))
    assert (np.linalg.norm(tall[5:], axis=1) > 0.001).all()
    assert (np.linalg.norm(tall[5:], axis=1) < 0.05).all()
    (drawn,) = Linear(200, init="random").initialize(X.astype(np.float32), random_state=0)
    assert drawn.dtype == np.float32
    assert drawn.var() == pytest.approx(1 / 5, rel=0.1)
    given = RNG.normal(size=(7, 5))
    (kept,) = Linear(init=given).initialize(X)
    np.testing.assert_array_equal(kept, given)
    assert kept is not given
    weights = MLP((400,), 300).initialize(X, random_state=0)
    assert weights[0].var() == pytest.approx(2 / 5, rel=0.1)
    assert weights[2].var() == pytest.approx(2 / 700, rel=0.1)
    query, database = Asymmetric(Linear(2), Linear(2)).initialize(X)
    np.testing.assert_array_equal(query, database)


@pytest.mark.parametrize(
    ("embedding", "error", "message"),
    [
        (Linear(0), ValueError, "n_components must be an integer of at least 1, got 0"),
        (Linear(9, init="pca"), ValueError, "n_components must be at most n_features=5 with init"),
        (Linear(2, init="lda"), ValueError, "init='lda' needs class labels"),
        (Linear(init="zero"), ValueError, "`init` must be"),
        (Linear(init=np.full((7, 5), np.nan)), ValueError, "contains NaN"),
        (Linear(init=np.ones((2, 4))), ValueError, "dimensionality"),
        (MLP(8), ValueError, "hidden_layer_sizes must be several integers"),
        (MLP((8, 0)), ValueError, "hidden_layer_sizes must be an integer of at least 1, got 0"),
        (MLP(activation="gelu"), ValueError, "activation must be 'relu'"),
        (Periodic(3, n_frequencies=0), ValueError, "n_frequencies must be an integer of at least"),
        (Periodic(3, scale=0), ValueError, "scale must be a finite number above 0"),
        (Periodic(3, scale=1.5e308), ValueError, r"scale=1.5e\+308 is too large for points of"),
        (Periodic(3, n_passthrough=5), ValueError, "n_passthrough must be less than n_features=5"),
        (Asymmetric(Linear(2), Linear(3)), ValueError, "same number of components, got 2 and 3"),
        (Asymmetric(Linear(2), 3), TypeError, "database must be an embedding"),
    ],
    ids=str,
)
def test_bad_parameters(embedding, error, message):
    with pytest.raises(error, match=message):
        embedding.initialize(X)


def test_weight_decay_is_not_that_of_biases():
    assert MLP((4, 5)).decays(0.1) == [0.1, 0, 0.1, 0, 0.1, 0]
    assert Periodic().decays(0.1) == [0, 0.1, 0, 0.1]
    assert Asymmetric(Linear(), MLP(weight_decay=0.5)).decays(0.1) == [0.1, 0.5, 0, 0.5, 0]
    with pytest.raises(ValueError, match="weight_decay must be"):
        MLP(weight_decay=-1).initialize(X)


@every_embedding
def test_input_of_another_shape_or_not_finite(embedding):
    parameters = start(embedding)
    n, width = X.shape
    for points, message in (
        (X[:, :-1], f"X must have {width} columns; found {width - 1}"),
        (X[:0], "X is empty"),
        (np.where(np.eye(n, width) > 0, np.nan, X), "X contains NaN"),
        (np.where(np.eye(n, width) > 0, -np.inf, X), "X contains NaN or infinity"),
    ):
        for side, form in itertools.product(("query", "database"), (np.array, csr_array)):
            with pytest.raises(ValueError, match=message):
                embedding.forward(parameters, form(points), side=side)
    Z, cache = embedding.forward(parameters, X)
    for wrong in (Z[:-1], Z[:, :-1], Z[0]):
        with pytest.raises(ValueError, match=r"upstream must have the shape of Z, .*found"):
            embedding.backward(parameters, cache, wrong)
    with pytest.raises(ValueError, match="upstream contains NaN, or infinity in float64"):
        embedding.backward(parameters, cache, Z * np.nan)


def test_what_overflows_the_parameters_is_not_finite():
    embedding, points = Linear(2), X.astype(np.float32)
    with pytest.raises(ValueError, match="X as float32 contains NaN or infinity"):
        embedding.forward(embedding.initialize(points), 1e300 * X)
    large = [np.full((2, X.shape[1]), 1e200)]
    for each, form in itertools.product(
        (Linear(2), Linear(2, normalize=True)), (np.array, csr_array)
    ):
        with pytest.raises(ValueError, match="embedded points in float64 overflow"):
            each.forward(large, form(1e200 * np.abs(X)))
    # The difference of two infinite numbers within a layer is NaN, not zero.
    weights = [np.array([[1e200, -1e200]]), np.zeros(1), np.ones((1, 1)), np.zeros(1)]
    with pytest.raises(ValueError, match="embedded points in float64 overflow"):
        MLP((1,), 1).forward(weights, np.full((1, 2), 1e200))


@pytest.mark.parametrize("sign", [-1, 1])
def test_points_too_long_to_square_have_a_direction(sign):
    L = sign * 1e200 * np.array([[3.0, 0.0], [0.0, 4.0]])
    Z, _ = Linear(2, normalize=True).forward([L], np.ones((1, 2)))
    np.testing.assert_allclose(Z, [[sign * 0.6, sign * 0.8]])


def test_waves_of_any_length():
    """The phase equals that of the exact product, as far as float32 allows."""
    for dtype, tolerance in ((np.float32, 2e-7), (np.float64, 4e-16)):
        x = np.r_[np.linspace(-3, 3, 1001), 2.0 ** np.arange(-60, 15)].astype(dtype)
        c, L = np.full((1, 1), 0.7, dtype), np.ones((1, 2), dtype)
        exact = np.longdouble(c[0, 0]) * np.longdouble(x)
        turn = 2 * np.longdouble(np.pi) * (exact - np.round(exact))
        for i, expected in enumerate((np.cos(turn), np.sin(turn))):
            A, a = np.zeros((2, 2), dtype), np.zeros(2, dtype)
            A[:, i] = 1, -1
            L[0] = 1, -1  # relu(w) - relu(-w)
            Z = Periodic(1, 1, 2).forward([c, A, a, L], x[:, None])[0]
            np.testing.assert_allclose(Z[:, 0], expected.astype(float), rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_wave_without_digits_is_an_overflow(dtype):
    embedding = Periodic(2, 3, scale=1.0)
    points = RNG.normal(size=(200, 4)).astype(dtype)
    parameters = embedding.initialize(points, random_state=0)
    for value in (1e8 if dtype == np.float32 else 1e17, np.finfo(dtype).max):
        points[150, 2] = value
        with pytest.raises(ValueError, match=r"embedded points in .* overflow"):
            embedding.forward(parameters, points)


def test_learners_check_points_once(monkeypatch):
    learner = EmbeddingLearner(losses.NCA(), MLP((4,), 2), max_epochs=1, random_state=0)
    monkeypatch.setattr(Embedding, "forward", None)
    learner.fit(X, np.arange(len(X)) % 2).transform(X)


@every_embedding
def test_unknown_side(embedding):
    with pytest.raises(ValueError, match="side must be 'query' or 'database'"):
        embedding.forward(start(embedding), X, side="left")


@every_embedding
def test_pickle_and_clone(embedding):
    for copy in (clone(embedding), pickle.loads(pickle.dumps(embedding))):
        assert str(copy) == str(embedding)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_solver_steps(dtype):
    """Steps of Adam and momentum, compared with simple NumPy code."""
    x, g = RNG.normal(size=(2, 3000)).astype(dtype)
    m, v, out = np.zeros((3, 3000), dtype)
    exact_m, exact_v, momentum = np.zeros((3, 3000))
    exact, plain_x, u = x.astype(float), x.astype(float), np.zeros(3000, dtype)
    y, y_out = x.copy(), np.empty_like(x)
    for step in (1, 2, 3):
        get_kernels().adam_step(x, g, m, v, out, (0.1, 0.01, step, False))
        x, out = out, x
        total = g + 0.01 * exact
        exact_m = 0.9 * exact_m + 0.1 * total
        exact_v = 0.999 * exact_v + 0.001 * total**2
        root = np.sqrt(exact_v / (1 - 0.999**step)) + 1e-8
        exact = exact - 0.1 * exact_m / (1 - 0.9**step) / root
        get_kernels().momentum_step(y, g, u, y_out, 0.1, 0.01, 0.9)
        y, y_out = y_out, y
        momentum = 0.9 * momentum + g + 0.01 * plain_x
        plain_x = plain_x - 0.1 * momentum
    tolerance = 1e-3 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(x, exact, atol=tolerance)
    np.testing.assert_allclose(y, plain_x, atol=tolerance)


@pytest.mark.parametrize(
    "embedding", [Linear(2), MLP((4,), 2), Asymmetric(Linear(2), Linear(2)), Periodic(2, scale=0.1)]
)
def test_points_in_any_form(embedding):
    points = np.random.default_rng(0).integers(-9, 9, (12, 3))
    floats = points.astype(float)
    parameters = embedding.initialize(floats, random_state=0)
    Z, cache = embedding.forward(parameters, floats)
    gradients = embedding.backward(parameters, cache, Z)
    for X in (points, points.tolist(), pd.DataFrame(points), np.asfortranarray(floats)):
        same = embedding.initialize(X, random_state=0)
        assert all(array.dtype == np.float64 for array in same)
        found, cache = embedding.forward(same, X)
        np.testing.assert_array_equal(found, Z)
        for form in (found.tolist(), np.asfortranarray(found)):
            for one, other in zip(embedding.backward(same, cache, form), gradients, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    for X in (csr_matrix(points), csc_array(points)):
        found, cache = embedding.forward(parameters, X)
        np.testing.assert_allclose(found, Z, rtol=1e-12)
        embedding.backward(parameters, cache, found)
    assert embedding.initialize(np.float32(points), random_state=0)[0].dtype == np.float32
    with pytest.raises(ValueError, match="X must be a 2-dimensional array"):
        embedding.forward(parameters, [1.0, 2.0, 3.0])


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@every_embedding
def test_damaged_sparse_points_are_refused(embedding, form):
    S = csr_array(X).asformat(form)
    parameters = embedding.initialize(X, np.arange(len(X)) % 4, 0)
    (S.col if form == "coo" else S.indices)[0] = 10**8
    with pytest.raises(ValueError, match="X is a damaged sparse matrix"):
        embedding.forward(parameters, S)
    with pytest.raises(ValueError, match="X is a damaged sparse matrix"):
        embedding.initialize(S, np.arange(len(X)) % 4, 0)
    S = csr_array(X).asformat(form)
    S.data = S.data[:-1]
    with pytest.raises(ValueError, match="X is a damaged sparse matrix"):
        embedding.forward(parameters, S)
