"""Learners on Dask give the same results as in one process, for any workers and chunks."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from thinned import thinned
from trained import configured

import metricfast as mf
from metricfast import losses, metrics

pytest.importorskip("dask")
pytest.importorskip("distributed")

import dask
from dask_cases import CHUNKS, LEARNERS, MARKS, ORDER, SAME, X, Y, cluster, cut, learned

from metricfast._core.memory import in_caller_memory
from metricfast._core.scatter_statistics import ScatterStatistics
from metricfast.dask import DistributedLearner, _workers, compare
from metricfast.dask._rows import OnWorkers, blocks_of
from metricfast.dask._training import ByParts
from metricfast.learners.impostors import TargetsAndImpostors
from metricfast.samplers import Batch
from metricfast.training.objective import Objective
from metricfast.training.problem import Problem
from metricfast.training.samples import Samples

pytestmark = MARKS


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
    monkeypatch.setattr(TargetsAndImpostors, "evaluate_pairs", lambda self, Z: None)
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
    samples = Samples(X, y, np.arange(3), weight)
    arrays = [rng.randn(2, 4) / 3, *([rng.randn(3, 2)] if table else [])]
    objective = Objective(Problem(samples, loss), arrays)
    spread = ByParts(_workers.Workers(client), 4)
    by = loss._weighed_by.get(loss.reduction)
    if by is None or (by and weighted):
        with pytest.raises(ValueError, match="not known to be a sum over anchors"):
            spread(objective.loss, arrays, None)
        return
    for batch in (None, Batch(ORDER[:90], 90), Batch(ORDER[:90], 40)):
        value, gradients = objective.loss(arrays, batch)
        found_value, found = spread(objective.loss, arrays, batch)
        np.testing.assert_allclose(found_value, value)
        for one, other in zip(found, gradients, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-9 * np.abs(other).max())


class Noted:
    """A mock of workers that records tasks, and returns the value 1 for each part."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads, self.tasks = n_threads, list[list[tuple[int, int]]]()

    def run(self, function: Any, items: list[Any], shared: Any, **common: Any) -> list[Any]:
        self.tasks = items
        return [[(1.0, common["arrays"], {})] * len(item) for item in items]


@pytest.mark.parametrize(
    ("n", "n_threads", "n_parts", "expected"),
    [
        (5, 2, None, [1] * 5),
        (400, 1, None, [2, 3, 3]),
        (400, 2, None, [2, 2, 2, 2]),
        (400, 8, None, [1] * 8),
        (30_000, 2, None, [2] * 6),
        (30_000, 2, 16, [2, 3, 3, 2, 3, 3]),
    ],
)
def test_the_number_of_anchors_decides_how_many_parts_there_are(
    n: int, n_threads: int, n_parts: int | None, expected: list[int]
) -> None:
    rng, workers = np.random.RandomState(0), Noted(n_threads)
    points, arrays = rng.randn(n, 2), [np.eye(2)]
    samples = Samples(points, np.arange(n) // 2, np.arange((n + 1) // 2))
    objective = Objective(Problem(samples, losses.NCA()), arrays)
    batch = Batch(np.arange(n), n)
    value, gradients = ByParts(workers, n_parts)(objective.loss, arrays, batch)
    assert [len(task) for task in workers.tasks] == expected
    assert value == sum(expected)
    np.testing.assert_array_equal(gradients[0], value * np.eye(2))
    starts, stops = zip(*(part for task in workers.tasks for part in task), strict=True)
    assert (*starts, n) == (0, *stops)
    sizes = np.subtract(stops, starts)
    assert sizes.min() >= 1 and sizes.max() <= sizes.min() + 1


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "learner",
    [
        mf.Covariance(),
        mf.RCA(n_components=2),
        mf.GMML_Supervised(reg=0.1),
        mf.XQDA(regularization=0.1),
    ],
    ids=repr,
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


OFTEN = [mf.LFDA(k=3), mf.SDML_Supervised(balance_param=1e-3, random_state=0)]
FROM_CLASSES = [
    *OFTEN,
    mf.LFDA(2, shrinkage=0.1),
    mf.ANMM(),
    mf.DMLMJ(n_neighbors=2),
    mf.RCA_Supervised(n_chunks=30, random_state=0),
    mf.ITML_Supervised(random_state=0, max_iter=20),
    mf.OASIS_Supervised(random_state=0),
]


@pytest.mark.parametrize(
    ("learner", "weighted"),
    thinned(product(FROM_CLASSES, [False, True]), lambda case: case[1] or case[0] in OFTEN),
    ids=repr,
)
def test_classes_teach_what_they_do_in_one_place(learner: Any, weighted: bool, client: Any) -> None:
    weight, names = None, np.array(["a", "b", "c"])[Y]
    if weighted:
        weight = np.random.RandomState(0).randint(0, 3, len(X)) / 3
    found = DistributedLearner(learner, n_parts=4).fit(
        cut(X), cut(names, 60), sample_weight=None if weight is None else cut(weight, 60)
    )
    plain = clone(learner).fit(X, names, sample_weight=weight)
    pairs = X[np.random.RandomState(0).randint(0, len(X), (50, 2))]
    np.testing.assert_allclose(
        found.to_local().pair_score(pairs), plain.pair_score(pairs), rtol=1e-7, atol=1e-9
    )
    assert type(found.to_local()) is type(plain)


def test_groups_and_views_reach_the_judge_or_are_refused(client: Any) -> None:
    given = {"groups": np.arange(len(X)) % 7, "views": np.arange(len(X)) % 2}
    found = DistributedLearner(mf.LFDA()).fit(cut(X), cut(Y), **given).to_local()
    expected = mf.LFDA().fit(X, Y, **given).judgement_
    np.testing.assert_allclose(found.judgement_.costs, expected.costs, rtol=1e-6)
    assert found.judgement_.unit == "groups"
    with pytest.raises(TypeError, match=r"no further arguments; found \['groups', 'views'\]"):
        DistributedLearner(mf.XQDA()).fit(cut(X), cut(Y), **given)


def test_rows_that_are_asked_for_come_from_their_blocks(client: Any) -> None:
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=3)
    rows = np.random.RandomState(0).randint(0, len(X), 50)
    for points, names in ((frame, list("abcd")), (cut(X), None)):
        source = OnWorkers(_workers.Workers(client), blocks_of("X", points))
        assert source.shape == X.shape and source.feature_names == names
        np.testing.assert_array_equal(source[rows], X[rows])
        np.testing.assert_array_equal(source[60:90], X[60:90])
    bad = X.copy()
    bad[80, 1] = np.nan
    for learner in (mf.LFDA(), mf.DMLMJ(), mf.SDML_Supervised(n_constraints=2000)):
        with pytest.raises(ValueError, match="NaN"):
            DistributedLearner(learner).fit(cut(bad), cut(Y))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        DistributedLearner(mf.LFDA()).fit(cut(X), cut(X[:, 0]))
    with pytest.raises(ValueError, match="n_components"):
        DistributedLearner(mf.LFDA(9)).fit(cut(X), cut(Y))


@pytest.mark.parametrize("learner", [mf.SDML(balance_param=1e-3), mf.GMML(), mf.KISSME()], ids=repr)
def test_pairs_of_parts_teach_what_all_do(learner: Any, client: Any) -> None:
    rng = np.random.RandomState(0)
    rows = rng.randint(0, len(X), (len(X), 2))
    pairs, labels, weight = (
        X[rows],
        np.where(Y[rows[:, 0]] == Y[rows[:, 1]], 1, -1),
        rng.rand(len(X)),
    )
    for weights in (None, weight):
        given = None if weights is None else cut(weights)
        found = DistributedLearner(learner).fit(cut(pairs), cut(labels, 60), given).to_local()
        plain = clone(learner).fit(pairs, labels, sample_weight=weights)
        np.testing.assert_allclose(found.components_, plain.components_, rtol=1e-7, atol=1e-9)
        assert found.threshold_ == pytest.approx(plain.threshold_)


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
    distributed_learner = SAME[name]()
    distributed_learner.learner = configured(distributed_learner.learner, max_epochs=20)
    order = np.argsort(Y)  # one partition per class
    found = distributed_learner.fit(cut(X[order], (50, 50, 50)), cut(Y[order], (50, 50, 50)))
    assert len(found.learner_.loss_curve_) == 20
    plain = clone(found.learner).fit(X, Y)
    of_both = [metrics.precision_at_1(each.transform(X), Y) for each in (found.learner_, plain)]
    assert of_both[0] > of_both[1] - 0.05
    more = found.to_local().partial_fit(X, Y)
    assert len(more.loss_curve_) == 21


@pytest.mark.parametrize("name", ["epochs", "epochs of an embedding"])
def test_callbacks_are_told_of_averages_by_the_client(name: str, client: Any) -> None:
    states: list[Any] = []

    def told(state: Any) -> bool:
        states.append((os.getpid(), state.iteration, state.objective, state.parameters[0].copy()))
        return state.iteration == 2

    found = SAME[name]().set_params(learner__callbacks=[told]).fit(cut(X), cut(Y)).learner_
    assert found.callbacks == [told] and [state[:2] for state in states] == [
        (os.getpid(), 1), (os.getpid(), 2)
    ]  # fmt: skip
    assert [state[2] for state in states] == found.loss_curve_
    np.testing.assert_array_equal(states[1][3], learned(found))


def memory_there(item: Any, threads: int) -> Any:
    return sklearn.get_config()["working_memory"]


def test_tasks_have_the_working_memory_of_the_client(client: Any) -> None:
    workers, default = _workers.Workers(client), sklearn.get_config()["working_memory"]
    with sklearn.config_context(working_memory=2):
        assert workers.run(memory_there, range(3)) == [2] * 3
        later = dask.delayed(in_caller_memory(memory_there))(0, 1)
    assert workers.run(memory_there, range(3)) == [default] * 3
    assert later.compute() == 2


def test_learners_are_compared_on_workers(client: Any) -> None:
    learners = {"LFDA": mf.LFDA(), "wrong": mf.LFDA(7), "RCA": mf.RCA_Supervised(n_chunks=30)}
    how: dict[str, Any] = {"learners": learners, "random_state": 0, "cv": 3}
    expected = mf.compare(X, Y, **how)
    for points in ((cut(X), cut(Y)), (X, Y)):
        found = compare(*points, **how)
        assert found.best_name_ == expected.best_name_
        for one, other in zip(found.rows, expected.rows, strict=True):
            assert replace(one, fit_seconds=0) == replace(other, fit_seconds=0)
    late = compare(X, Y, time_limit=0, **how)
    assert [row.note for row in late.rows if row.note] == ["no time left"] * 3


def test_frames_and_unknown_sizes(client: Any) -> None:
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(y=Y, row=range(150))
    frames = dd.from_pandas(frame, npartitions=4)
    frames = frames[(frames["row"] < 30) | (frames["row"] > 80)]  # leaves one partition empty
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


def test_results_of_parts_add_up() -> None:
    total, halves = _workers.total, (X[:40], X[40:])
    sums = [(ScatterStatistics(4).add(half), {"rows": len(half)}) for half in halves]
    found, counts = total([sums[0], None, sums[1]])
    np.testing.assert_allclose(found.within, ScatterStatistics(4).add(X).within)
    assert counts == {"rows": len(X)} and sums[0][0].n_points == 40
    singles = [np.float32([1, 2]), np.float32([5, 6])]
    mean = total(singles, np.array([0.25, 0.75]))
    assert mean.tolist() == [4, 5] and mean.dtype == np.float32
    assert total([None]) is None
