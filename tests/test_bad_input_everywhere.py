"""The table "everywhere" in bad_input.md: every row, for every function."""

from __future__ import annotations

from inspect import signature
from itertools import product

import numpy as np
import pandas as pd
import pytest
from bad_input import check, read_table
from registry import make, of_points
from scipy.sparse import csr_matrix
from sklearn.base import clone

import metricfast as mf
from metricfast import embeddings, inference, losses, metrics, samplers, sources
from metricfast.constraints import class_neighbors, wrap_indices, wrap_pairs
from metricfast.plotting import plot_before_after

try:
    import torch
except ImportError:
    torch = None
try:
    import polars as pl
except ImportError:
    pl = None
try:
    import pyarrow as pa
except ImportError:
    pa = None
TABLE = read_table("Everywhere")
RNG = np.random.default_rng(0)
X, Y, Z = RNG.normal(size=(30, 4)), np.arange(30) % 3, RNG.normal(size=(30, 2))
NUMBERS, PAIRS = RNG.normal(size=30), X[RNG.integers(30, size=(20, 2))]
SAME = np.where(np.arange(20) % 2, 1, -1)
NCA, LINEAR = mf.NCA(tol=1e-2), embeddings.Linear(2)
FITTED = clone(NCA).fit(X, Y)
MAP = LINEAR.initialize(X, random_state=0)
EMBEDDED, CACHE = LINEAR.forward(MAP, X)
TARGETS = losses.LMNN.find_targets(Z, Y, 2)
SIDES = mf.Constraints(Y).positive_negative_pairs(5, random_state=0)
DRAW = mf.Constraints(Y)
EMBEDDING = mf.TripletLearner(2, max_epochs=1, random_state=0).fit(X, Y)
VOTES = mf.AsymmetricSimilarity(random_state=0).fit(X, Y)
REGRESSOR = mf.NeighborhoodGerrymanderingRegressor(random_state=0).fit(X, NUMBERS)

OF_LABELS = {
    "labels": lambda y: mf.neighbors.kneighbors_per_class(X, X, y, 2),
    "query_labels": lambda y: inference.targeted(X, X, y, y, 3),
    "y of a threshold": lambda y: FITTED.calibrate_threshold(PAIRS, y[:20]),
    "partial_labels": mf.Constraints,
    "y": lambda y: losses.NCA()(Z, y),
    "y of neighbours": lambda y: mf.KNeighborsClassifier().fit(X, y),
    "y of Triplet": lambda y: losses.Triplet()(Z, y),
    "y of LMNN": lambda y: losses.LMNN.find_targets(Z, y, 2),
    "y of find_impostors": lambda y: losses.LMNN.find_impostors(Z, y, TARGETS),
    "y of a sampler": lambda y: samplers.ClassBalanced(2, 10).prepare(y),
    "y of an embedding": lambda y: embeddings.Linear(2, init="lda").initialize(X, y),
    "y of fit": lambda y: clone(NCA).fit(X, y),
    "y of pairs": lambda y: mf.GMML().fit(PAIRS, y[:20]),
    "y of score": lambda y: mf.GMML().fit(PAIRS, SAME).score(PAIRS, y[:20]),
    "y of points": lambda y: EMBEDDING.score(X, y),
    "y of votes": lambda y: VOTES.score(X, y),
    "y of a validation": lambda y: mf.Covariance().fit(X, y, validate=True),
    "y of a picture": lambda y: plot_before_after(X, Z, y),
    "y_database of score": lambda y: EMBEDDING.score(X, Y, X, y),
    "y_database": lambda y: mf.AsymmetricSimilarity().fit(X, Y, X_database=X, y_database=y),
    "chunks": lambda y: mf.RCA().fit(X, y),
}
OF_POINTS = {
    "X": mf.pairwise_distances,
    "queries": lambda p: mf.kneighbors(p, n_neighbors=2),
    "queries of a radius": mf.neighbors.radius_neighbors,
    "X of neighbours": lambda p: mf.KNeighborsClassifier().fit(p, Y),
    "metric": lambda p: mf.NearestNeighbors(metric=p[:4]).fit(X),
    "L": lambda p: mf.pairwise_distances(X, L=p),
    "weights": lambda p: mf.metric_gradient(X[:, :1], p, X[:4, :1], L=[[1.0]]),
    "Z": lambda p: losses.NCA()(p, Y),
    "Z of LMNN": lambda p: losses.LMNN.find_targets(p, Y, 2),
    "X of an embedding": lambda p: LINEAR.forward(MAP, p),
    "upstream": lambda p: LINEAR.backward(MAP, CACHE, p[:, :2]),
    "X of fit": lambda p: clone(NCA).fit(p, Y),
    "X of transform": FITTED.transform,
    "X of pairs": lambda p: FITTED.pair_distance(p.reshape(15, 2, 4)),
    "X of triplets": lambda p: DRAW.generate_knntriplets(p, 2, 2),
    "X_database": lambda p: mf.AsymmetricSimilarity().fit(X, Y, X_database=p, y_database=Y),
    "before": lambda p: plot_before_after(p, Z, Y),
    "init": lambda p: mf.NCA(init=p[:4], max_iter=1).fit(X, Y),
    "prior": lambda p: mf.ITML(prior=p[:4]).fit(PAIRS, SAME),
}
WEIGHTS = {
    "sample_weight": lambda w: clone(NCA).fit(X, Y, w),
    "sample_weight of score": lambda w: REGRESSOR.score(X, NUMBERS, w),
    "sample_weight of a loss": lambda w: losses.NCA()(Z, Y, sample_weight=w),
    "sample_weight of a draw": lambda w: DRAW.positive_negative_pairs(3, sample_weight=w),
    "y of numbers": lambda w: mf.MLKR(max_iter=1).fit(X, w),
    "y of values": lambda w: mf.KNeighborsRegressor().fit(X, w),
    "y of a loss of numbers": lambda w: losses.LogRatio()(Z, w),
}
OF_BOOLEANS = {
    "squared": lambda b: mf.pairwise_distances(X, squared=b),
    "sort_results": lambda b: mf.neighbors.radius_neighbors(X, sort_results=b),
    "return_distance": lambda b: mf.NearestNeighbors().fit(X).kneighbors(return_distance=b),
    "squared of pairs": lambda b: mf.paired_distances(X, X, squared=b),
    "squared of neighbours": lambda b: mf.kneighbors(X, squared=b),
    "squared of classes": lambda b: mf.neighbors.kneighbors_per_class(X, X, Y, 2, squared=b),
    "squared of Triplet": lambda b: losses.Triplet(squared=b)(Z, Y),
    "same_length": lambda b: DRAW.positive_negative_pairs(3, b),
    "normalize": lambda b: embeddings.Identity(normalize=b).initialize(X),
    "warm_start": lambda b: mf.NeighborhoodGerrymandering(warm_start=b).fit(X, Y),
    "tied": lambda b: mf.AsymmetricSimilarity(tied=b).fit(X, Y),
}
OF_VERBOSE = {
    "verbose of tables": lambda v: mf.NCAClassifier(verbose=v).fit(X, Y),
    "verbose of metrics": lambda v: mf.MultiMetricLMNN(verbose=v).fit(X, Y),
    "verbose of compare": lambda v: mf.compare(X, Y, verbose=v),
    "verbose of reports": lambda v: metrics.retrieval_report(X, Y, verbose=v),
}
OF_COUNTS = {
    "m_per_class": lambda k: samplers.ClassBalanced(k).prepare(Y),
    "batch_size": lambda k: samplers.Uniform(k).prepare(Y),
    "n_neighbors": lambda k: samplers.DenseTriplet(k).prepare(NUMBERS),
    "n_neighbors of search": lambda k: mf.kneighbors(X, n_neighbors=k),
    "n_neighbors of an estimator": lambda k: mf.KNeighborsClassifier(k).fit(X, Y),
    "n_neighbors of LMNN": lambda k: losses.LMNN(k)(Z, Y),
    "n_neighbors of find_targets": lambda k: losses.LMNN.find_targets(Z, Y, k),
    "max_candidates": lambda k: losses.LMNN.find_impostors(Z, Y, TARGETS, max_candidates=k),
    "chunk_size": lambda k: DRAW.chunks(2, k),
    "n_chunks": DRAW.chunks,
    "n_constraints": DRAW.positive_negative_pairs,
    "k_genuine": lambda k: DRAW.generate_knntriplets(X, k, 2),
    "k_impostor": lambda k: list(class_neighbors(X, Y, 2, k)),
    "hidden_layer_sizes": lambda k: embeddings.MLP((k,)).initialize(X),
    "n_components": lambda k: embeddings.Linear(k).initialize(X),
    "max_iter": lambda k: mf.NCA(max_iter=k).fit(X, Y),
    "max_epochs": lambda k: mf.TripletLearner(2, max_epochs=k).fit(X, Y),
}
OF_SEEDS = {
    "random_state": lambda s: DRAW.chunks(2, random_state=s),
    "random_state of an embedding": lambda s: embeddings.MLP((3,)).initialize(X, None, s),
    "random_state of fit": lambda s: mf.NCA(random_state=s).fit(X, Y),
}
OF_PARAMETERS = {
    "parameters of forward": lambda p: LINEAR.forward(p, X),
    "parameters of backward": lambda p: LINEAR.backward(p, CACHE, EMBEDDED),
    "parameters of MLP": lambda p: embeddings.MLP((3,)).forward(p, X),
    "parameters of two": lambda p: embeddings.Asymmetric(LINEAR, LINEAR).forward(p, X),
}
OF_TARGETS = {
    "targets": lambda t: losses.LMNN.find_impostors(Z, Y, t),
    "targets of a call": lambda t: losses.LMNN(2)(Z, Y, targets=t),
}
OF_SIDES = {"constraints": lambda c: wrap_pairs(X, c), "constraints of indices": wrap_indices}
OF_LISTS = {"impostors": lambda lists: losses.LMNN(2)(Z, Y, targets=TARGETS, impostors=lists)}


def with_first(labels, value):
    labels = labels.astype(object)
    labels[0] = value
    return labels


def masked(array, mask):
    return np.ma.array(array, mask=mask)


def frames(column):
    """Return points in data frames in which column c is replaced."""
    frame = pd.DataFrame(X, columns=list("abcd")).assign(c=column)
    if pa is None:
        return [frame]
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return [frame, table] if pl is None else [frame, table, pl.from_arrow(table)]


def tensors(values, changes):
    return [] if torch is None else [change(torch.tensor(values)) for change in changes]


GRADIENTS = [lambda t: t.requires_grad_(), lambda t: torch.nn.Parameter(t)]  # noqa: PLW0108
ELSEWHERE = [lambda t: t.to("meta")]
OTHER_TENSORS = [lambda t: t.bfloat16(), lambda t: t.to_sparse()]
# Before they are handed in, they are sliced, as no sparse tensor can be.
SLICED = {"metric", "upstream", "X of pairs", "y of a threshold", "y of pairs", "y of score"}
OF_TENSORS = {name: OF_POINTS[name] for name in OF_POINTS if name not in ("init", "prior")}
OF_FRAMES = {
    name: OF_TENSORS[name]
    for name in OF_TENSORS
    if name not in ("metric", "L", "weights", "upstream", "X of pairs")
}
STARTS = np.arange(31)
CASES = {
    "labels-mixed": (
        {name: OF_LABELS[name] for name in OF_LABELS if name not in ("chunks", "y of score")},
        [with_first(Y, "text"), with_first(Y, (1,)), with_first(Y, "text").tolist()],
    ),
    "labels-missing": (
        {name: OF_LABELS[name] for name in OF_LABELS if name != "y of score"},
        [
            *(with_first(Y, missing) for missing in (None, np.nan, pd.NaT, pd.NA)),
            *(np.array(["2020", "NaT", "2021"], "M8[s]")[Y], np.where(Y, 1.0, np.inf)),
        ],
    ),
    "labels-masked": (OF_LABELS, [masked(Y, Y == 1)]),
    "points-masked": (OF_POINTS, [masked(X, X > -0.5)]),
    "points-dates": (
        OF_POINTS,
        [np.full(X.shape, np.datetime64("2020", "D")), np.full(X.shape, np.timedelta64(1, "D"))],
    ),
    "weights-dates": (WEIGHTS, [np.full(30, np.datetime64("2020", "D"))]),
    "weights-masked": (WEIGHTS, [masked(np.ones(30), Y == 1)]),
    "columns-text": (OF_FRAMES, frames(["red", "blue"] * 15)),
    "columns-categories": (OF_FRAMES, frames(pd.Categorical(["red", "blue"] * 15))),
    "columns-dates": (OF_FRAMES, frames(pd.date_range("2020", periods=30))),
    "columns-missing": (
        OF_FRAMES,
        [each for kind in ("Int64", "float64", "boolean", "object")
         for each in frames(pd.Series([1, None, 0] * 10, dtype=kind))],
    ),
    "frame-lazy": (OF_FRAMES, [] if pl is None else [pl.DataFrame(X).lazy()]),
    "tensor-gradients": (OF_TENSORS, tensors(X, GRADIENTS)),
    "tensor-device": (OF_TENSORS, tensors(X, ELSEWHERE)),
    "tensor-other": (
        {name: OF_TENSORS[name] for name in OF_TENSORS if name not in SLICED},
        tensors(X, OTHER_TENSORS),
    ),
    "labels-tensor": (
        {name: OF_LABELS[name] for name in OF_LABELS if name not in SLICED},
        tensors(1.0 * Y, [*GRADIENTS, *ELSEWHERE, *OTHER_TENSORS]),
    ),
    "boolean": (OF_BOOLEANS, ["x", 1, None]),
    "verbose": (OF_VERBOSE, ["x", -1, None, 0.5]),
    "count": (OF_COUNTS, [2**70]),
    "count-kind": (OF_COUNTS, [True, 2.0, "3", np.ones(2)]),
    "seed": (OF_SEEDS, ["x", -1, 2**70, 0.5]),
    "parameters": (
        OF_PARAMETERS,
        [None, [], [[[1.0]]], [MAP[0].astype(int)], [MAP[0][None]], [*MAP, *MAP, EMBEDDED]],
    ),
    "targets": (OF_TARGETS, [TARGETS[0], TARGETS + 0.5, TARGETS + 30, [["a"]] * 30]),
    "constraints": (
        OF_SIDES,
        [None, SIDES[:3], ([0], [1], [0, 1], [2]), ([0.5], [1], [0], [1]), (["a"], [1], [0], [1])],
    ),
    "impostors": (
        OF_LISTS,
        [1, ([0], [1]), (STARTS, np.zeros(29, int)), (STARTS[::-1], STARTS[:30]),
         (STARTS, STARTS[:30] + 5), (STARTS / 2, STARTS[:30])],
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize(
    ("row", "argument"),
    [(row, argument) for row, (functions, _) in CASES.items() for argument in functions],
)
def test_row(row, argument):
    functions, values = CASES[row]
    for value in values:
        check(TABLE[row], lambda value=value: functions[argument](value))
        with pytest.raises((TypeError, ValueError), match=rf"\b{argument.split(' of ')[0]}"):
            functions[argument](value)


def test_labels_that_are_dates():
    dates = np.array(["2020-01-01", "2021-01-01", "2022-01-01"], "M8[D]")[Y]
    found = clone(NCA).fit(X, dates)
    np.testing.assert_array_equal(found.components_, FITTED.components_)
    assert losses.NCA()(Z, dates)[0] == losses.NCA()(Z, Y)[0]
    with pytest.raises(ValueError, match=r"y_database holds no text, .* hold dates"):
        losses.NCA()(Z, dates, Z, Y)


def test_a_mask_that_masks_nothing():
    np.testing.assert_array_equal(mf.pairwise_distances(masked(X, False)), mf.pairwise_distances(X))
    found = clone(NCA).fit(masked(X, False), masked(Y, False))
    np.testing.assert_array_equal(found.components_, FITTED.components_)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "learner", [learner for learner in of_points() if hasattr(learner, "transform")]
)
def test_frames_of_any_kind(learner):
    """Big-endian columns equal native ones; float32 of any library stays float32."""
    few = {"n_chunks": 3, "n_constraints": 9}
    model = make(learner, **{k: v for k, v in few.items() if k in signature(learner).parameters})
    y = NUMBERS if not model._has_classes else Y
    single, names = X.astype("f4"), list("abcd")
    expected, of_single = (clone(model).fit(points, y).transform(points) for points in (X, single))
    foreign = pd.DataFrame(X.astype(">f8"), columns=names)
    np.testing.assert_allclose(clone(model).fit(foreign, y).transform(foreign), expected)
    if pl is None:
        return
    frame = pl.DataFrame(single, schema=names)
    found = clone(model).fit(frame, y)
    assert found.feature_names_in_.tolist() == names
    assert found.transform(frame).dtype == np.float32
    np.testing.assert_allclose(found.transform(frame), of_single, rtol=1e-4, atol=1e-5)


def test_parameters_are_left_as_they_are():
    params: dict[str, float] = {}
    mf.KernelizedMetricLearner(mf.ANMM(), kernel_params=params, random_state=0).fit(X, Y)
    assert params == {}
    with pytest.raises(ValueError, match="Parameter beta must be a number from"):
        FITTED.calibrate_threshold(PAIRS, SAME, "f_beta", beta=1e300)


def test_points_without_features_or_squares():
    for embedding, form in product((LINEAR, embeddings.MLP((3,), 2)), (np.array, sources.Rows)):
        with pytest.raises(ValueError, match="X is empty"):
            embedding.initialize(form(X[:, :0]))
    with pytest.raises(ValueError, match="X is so large that its squares overflow"):
        LINEAR.initialize(X * 1e200)


@pytest.mark.parametrize("wrong", [1j, "text"])
def test_sparse_weights_that_are_no_real_numbers(wrong):
    weights = csr_matrix(np.ones((30, 30)))
    weights.data = weights.data.astype(complex if wrong == 1j else object)
    weights.data[0] = wrong
    with pytest.raises(ValueError, match="weights"):
        mf.metric_gradient(X, weights, L=np.eye(4))
