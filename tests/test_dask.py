"""Learners and searches on Dask: as in one place, for any workers and chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import metricfast as mf
from metricfast import losses, metrics

pytest.importorskip("dask")
pytest.importorskip("distributed")

import dask
from dask_cases import CHUNKS, LEARNERS, MARKS, ORDER, SAME, X, Y, cluster, cut, learned

from metricfast.dask import DistributedLearner, _workers, kneighbors, retrieval_report
from metricfast.dask._objective import ByParts
from metricfast.embeddings import MLP, Asymmetric
from metricfast.learners.linear.impostors import TargetsAndImpostors
from metricfast.samplers import Batch
from metricfast.training.coordinates import Parts
from metricfast.training.objective import Labelled, LinearMap, Objective

pytestmark = MARKS


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with cluster(2) as found:
        yield found


@pytest.mark.parametrize("name", LEARNERS)
def test_gradients_of_parts_are_those_of_all(name: str, client: Any) -> None:
    plain = clone(LEARNERS[name]).fit(X, Y)
    found = DistributedLearner(LEARNERS[name], n_parts=5).fit(cut(X), cut(Y, 60)).to_local()
    scale = np.abs(learned(plain)).max()
    np.testing.assert_allclose(learned(found) / scale, learned(plain) / scale, atol=1e-7)
    np.testing.assert_allclose(found.loss_curve_, plain.loss_curve_)
    assert type(found) is type(plain)


def test_lmnn_without_lists(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = clone(LEARNERS["LMNN"]).fit(X, Y)
    monkeypatch.setattr(TargetsAndImpostors, "listed", lambda self, Z: None)
    found = DistributedLearner(LEARNERS["LMNN"], n_parts=5).fit(cut(X), cut(Y)).to_local()
    np.testing.assert_allclose(found.components_, plain.components_, atol=1e-7)
    np.testing.assert_allclose(found.loss_curve_, plain.loss_curve_)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", [name for name in losses.__all__ if name != "Compiled"])
def test_losses_of_parts_add_up_or_are_refused(name: str, weighted: bool, client: Any) -> None:
    loss, rng = getattr(losses, name)(), np.random.RandomState(0)
    if weighted and not loss.has_anchors:
        return
    y = Y if loss.labels == "class" else rng.randn(len(X))
    weight = rng.randint(0, 3, len(X)).astype(float) if weighted else None
    table = loss.learnable_database
    labelled = Labelled(loss, y, weight, np.arange(3) if table else None)
    arrays = [rng.randn(2, 4) / 3, *([rng.randn(3, 2)] if table else [])]
    database = "table" if table else "batch"
    shapes = Parts([array.shape for array in arrays])
    objective = Objective(X, LinearMap(), labelled, shapes, database=database)
    spread = ByParts(_workers.Workers(client), 4)
    by = loss._weighed_by.get(loss._reduction())
    if by is None or (by and weighted):
        with pytest.raises(ValueError, match="not known to be a sum over anchors"):
            spread(objective, arrays, None)
        return
    for batch in (None, Batch(ORDER[:90], 90), Batch(ORDER[:90], 40)):
        value, gradients = objective.of_loss(arrays, batch)
        found_value, found = spread(objective, arrays, batch)
        np.testing.assert_allclose(found_value, value)
        for one, other in zip(found, gradients, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-9 * np.abs(other).max())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "learner", [mf.Covariance(), mf.RCA(n_components=2), mf.GMML_Supervised()], ids=repr
)
def test_sums_of_parts_are_those_of_all(learner: Any, weighted: bool, client: Any) -> None:
    weight = np.random.RandomState(0).rand(len(X)) if weighted else None
    found = DistributedLearner(learner).fit(
        cut(X), cut(Y, 60), sample_weight=None if weight is None else cut(weight, 60)
    )
    plain = clone(learner).fit(X, Y, sample_weight=weight)
    np.testing.assert_allclose(found.learner_.components_, plain.components_, rtol=1e-9)
    again = found.to_local().partial_fit(X, Y)
    assert again.components_.shape == plain.components_.shape


def test_distances_are_of_the_dtype_that_is_declared(client: Any) -> None:
    for queries, database, dtype in (
        (np.int32, None, np.float64),
        (np.float32, None, np.float32),
        (np.float32, np.float64, np.float64),
    ):
        references = None if database is None else cut((9 * X).astype(database))
        found, _ = kneighbors(cut((9 * X).astype(queries)), references, n_neighbors=2)
        assert found.dtype == found.compute().dtype == dtype


def test_results_do_not_depend_on_workers_or_chunks() -> None:
    found: dict[str, list[Any]] = {name: [] for name in SAME}
    for n_workers, threads, chunks in ((1, 1, CHUNKS), (2, 2, (50, 50, 50)), (4, 1, CHUNKS)):
        with cluster(n_workers, threads):
            for name, make in SAME.items():
                learner = make().fit(cut(X, chunks), cut(Y, chunks)).to_local()
                if name != "sums" or chunks == CHUNKS:
                    found[name].append((learned(learner), getattr(learner, "loss_curve_", [])))
    for first, *others in found.values():
        for components, curve in others:
            np.testing.assert_array_equal(components, first[0])
            assert curve == first[1]


@pytest.mark.parametrize("name", ["epochs", "epochs of an embedding"])
def test_local_epochs_learn(name: str, client: Any) -> None:
    distributed_learner = SAME[name]().set_params(learner__max_epochs=20)
    order = np.argsort(Y)  # each class in a partition of its own
    found = distributed_learner.fit(cut(X[order], (50, 50, 50)), cut(Y[order], (50, 50, 50)))
    assert len(found.learner_.loss_curve_) == 20
    plain = clone(found.learner).fit(X, Y)
    of_both = [metrics.precision_at_1(each.transform(X), Y) for each in (found.learner_, plain)]
    assert of_both[0] > of_both[1] - 0.05
    more = found.to_local().partial_fit(X, Y)
    assert len(more.loss_curve_) == 21


def test_transform_search_and_report_are_those_of_arrays(client: Any) -> None:
    learner = DistributedLearner(LEARNERS["NCA"]).fit(cut(X), cut(Y))
    plain = learner.to_local()
    Z = learner.transform(cut(X))
    assert Z.shape == (150, 2) and Z.chunks[0] == (3, 70, 76, 1) and Z.dtype == np.float64
    embedded = Z.compute()
    np.testing.assert_allclose(embedded, plain.transform(X))
    assert learner.transform(cut(X.astype(np.float32))).dtype == np.float32
    for database in (None, X[:40]):
        given = None if database is None else cut(database, (15, 25))
        found = dask.compute(*learner.kneighbors(cut(X), given, n_neighbors=3))
        # Where products are rounded as in the blocks.
        references = None if given is None else learner.transform(given).compute()
        for one, other in zip(found, mf.kneighbors(embedded, references, 3), strict=True):
            np.testing.assert_array_equal(one, other)
    rng = np.random.RandomState(0)
    for labels in (Y, rng.randn(150)):
        report = learner.retrieval_report(cut(X), cut(labels, 40), k=[1, 5])
        expected = metrics.retrieval_report(embedded, labels, k=[1, 5])
        assert list(report) == list(expected)
        for name, score in expected.items():
            np.testing.assert_allclose(report[name].values, score.values)
            np.testing.assert_allclose(report[name].chance, score.chance)
    expected = metrics.precision_at_1(embedded, Y)
    assert learner.score(cut(X), cut(Y)) == pytest.approx(expected)
    both = cut(X[9:], 50), cut(Y[9:], 50), cut(X[:9], 4), cut(Y[:9], 4)
    report = retrieval_report(*both, metrics="r_precision")
    assert report["r_precision"].mean == metrics.r_precision(X[9:], Y[9:], X[:9], Y[:9])


def test_two_maps(client: Any) -> None:
    asymmetric = mf.EmbeddingLearner(
        losses.NTXent(),
        Asymmetric(MLP((), 2), MLP((), 2)),
        max_epochs=1,
        random_state=0,
    )
    learner = DistributedLearner(asymmetric, n_parts=3).fit(cut(X), cut(Y))
    found = learner.kneighbors(cut(X), cut(X, 60), n_neighbors=2)[1].compute()
    np.testing.assert_array_equal(found, learner.to_local().kneighbors(X, X, n_neighbors=2)[1])
    with pytest.raises(ValueError, match="two maps"):
        learner.kneighbors(cut(X))


def test_frames_and_unknown_sizes(client: Any) -> None:
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(y=Y, row=range(150))
    frames = dd.from_pandas(frame, npartitions=4)
    frames = frames[(frames["row"] < 30) | (frames["row"] > 80)]  # one partition is left empty
    rest = X[np.r_[:30, 81:150]], Y[np.r_[:30, 81:150]]
    unknown = [
        values[values.min(axis=-1) > -9] for values in (cut(rest[0], 50), cut(rest[1], 50)[:, None])
    ]
    for make in (SAME["all points"], SAME["epochs"]):
        found = make().fit(frames[list("abcd")], frames["y"])
        assert found.learner_.feature_names_in_.tolist() == list("abcd")
        plain = make().fit(unknown[0], unknown[1][:, 0]).learner_
        np.testing.assert_array_equal(found.learner_.components_, plain.components_)
        np.testing.assert_allclose(
            found.transform(frames[list("abcd")]).compute(), plain.transform(rest[0])
        )
        assert found.kneighbors(frames[list("abcd")])[1].compute().shape == (99, 5)
