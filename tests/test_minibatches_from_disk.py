"""Training by mini-batches of points that are not in memory: a chunk is, and the next is read."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import make_blobs

import metricfast as mf
from metricfast import losses, sources
from metricfast.embeddings import MLP
from metricfast.learners.base.validation import neighbor_error
from metricfast.learners.linear.reservoir import Reservoir
from metricfast.training.chunks import Chunked, mean_and_exponent

Array = NDArray[Any]
N, WIDTH = 6000, 8
# A chunk, an eighth of this, has a ninth of the points.
LIMIT = N * WIDTH * 4
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Counted(sources.Source):
    """Points in memory, as if they were not: counts what is read, and what of it is still there."""

    def __init__(self, X: Array) -> None:
        self.X, self.shape, self.dtype = X, X.shape, X.dtype
        self.rows_read = self.largest = self.most = 0
        self.fail_after = np.inf
        self._alive: weakref.WeakSet[Array] = weakref.WeakSet()
        self._reading = threading.Lock()

    def read(self, start: int, stop: int) -> Array:
        assert self._reading.acquire(blocking=False), "two threads read at a time"
        try:
            self.rows_read += stop - start
            if self.rows_read > self.fail_after:
                raise OSError("the disk is gone")
            self.largest = max(self.largest, stop - start)
            return self.X[start:stop].copy()
        finally:
            self._reading.release()


@pytest.fixture(autouse=True)
def no_thread_survives() -> Iterator[None]:
    yield
    assert not [t for t in threading.enumerate() if t.name.startswith("metricfast-reads")]


def blobs(dtype: Any = np.float32) -> tuple[Array, Array]:
    X, y = make_blobs(N, WIDTH, centers=12, cluster_std=1.0, center_box=(-4, 4), random_state=0)
    X[:, ::2] *= np.random.RandomState(1).randn(N, WIDTH // 2) * 3  # useless features
    return (X / 4).astype(dtype), y


X, Y = blobs()
SGD = {"solver": "sgd", "max_epochs": 4, "random_state": 0}
LEARNERS = [
    *(getattr(mf, name)(**SGD) for name in ("NCA", "LMNN", "MCML", "LDML", "NCMML", "MLKR")),
    mf.LMNN(**SGD | {"max_epochs": 2}, target_refresh=1),
    mf.NeighborhoodGerrymandering(max_epochs=2, random_state=0),
    mf.NeighborhoodGerrymandering(max_epochs=2, parameterization="M", random_state=0),
    mf.NeighborhoodGerrymanderingRegressor(max_epochs=2, random_state=0),
    mf.EmbeddingLearner(losses.NCA(), MLP((6,), 4), max_epochs=4, random_state=0),
    mf.ProxyNCALearner(n_components=4, max_epochs=4, random_state=0),
    mf.TripletLearner(n_components=4, max_epochs=4, random_state=0),
    mf.LogRatioLearner(n_components=4, max_epochs=1, random_state=0),
]


def parameters(learner: Any) -> Array:
    found = learner.parameters_ if hasattr(learner, "parameters_") else [learner.components_]
    return np.concatenate([array.ravel() for array in found])


def labels_of(learner: Any) -> Array:
    return Y if learner._has_classes else X[:, 1] + X[:, 3] ** 2


def error(learner: Any) -> float:
    """Return the error of nearest neighbours of every fifth point, relative to Euclidean ones."""
    test, y = np.arange(N) % 5 == 0, labels_of(learner)
    errors = [
        neighbor_error(Z[~test], y[~test], Z[test], y[test], not learner._has_classes)
        for Z in (np.ascontiguousarray(learner.transform(X)), X)
    ]
    return errors[0] / errors[1]


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_points_beyond_memory_are_learned_from_in_chunks(learner: Any) -> None:
    y, source = labels_of(learner), Counted(X)
    inside = clone(learner).fit(X, y)
    with mf.config_context(memory_limit="1 GB"):  # one chunk holds all
        np.testing.assert_array_equal(parameters(clone(learner).fit(source, y)), parameters(inside))
    with mf.config_context(memory_limit=LIMIT):
        source = Counted(X)
        outside = clone(learner).fit(source, y)
        again = clone(learner).fit(Counted(X), y)
    np.testing.assert_array_equal(parameters(outside), parameters(again))
    assert source.largest * WIDTH * 4 <= LIMIT // 8
    assert outside.n_iter_ == inside.n_iter_
    assert error(outside) < error(inside) + 0.1


def test_two_chunks_are_held_at_most_and_rows_of_all_are_given_once() -> None:
    with mf.config_context(memory_limit=LIMIT):
        chunked = Chunked(Counted(X))
    alive: list[weakref.ref[Array]] = []
    given, starts = [], []
    for rows in chunked.chunks(np.random.RandomState(0)):
        alive = [ref for ref in alive if ref() is not None]
        assert not alive
        alive.append(weakref.ref(chunked._points))
        assert chunked._points.nbytes <= LIMIT // 8
        some = rows[np.random.RandomState(0).permutation(len(rows))[:20]]
        np.testing.assert_array_equal(chunked[some], X[some])
        np.testing.assert_array_equal(chunked[np.arange(N - 5, N)], X[-5:])
        given.append(rows)
        starts.append(np.flatnonzero(np.diff(rows) > 1).size)
    assert len(given) == 9 and min(starts) > 5
    np.testing.assert_array_equal(np.sort(np.concatenate(given)), np.arange(N))


def test_an_iterator_is_gone_through_in_its_order() -> None:
    n_started = [0]

    def make() -> Iterator[Array]:
        n_started[0] += 1
        yield from np.array_split(X, 31)

    source = sources.Batches(make)
    with mf.config_context(memory_limit=LIMIT):
        mf.NCA(**SGD).fit(source, Y)
    # To count, for the mean (its first block, all), for the start, for its scale, and each epoch.
    assert n_started[0] <= 5 + SGD["max_epochs"]


@pytest.mark.parametrize(("scale", "shift"), [(1, 1e3), (2.0**40, 0), (2.0**-40, 0), (0, 5.0)])
def test_mean_and_exponent_are_those_of_all_points(scale: float, shift: float) -> None:
    points = X.astype(np.float64) * scale + shift
    expected = mf._core.scaling.center_and_rescale(points)
    with mf.config_context(memory_limit=LIMIT):
        mean, exponent = mean_and_exponent(Counted(points))
    assert exponent == expected[1]
    np.testing.assert_allclose(
        np.ldexp(points - mean, -exponent), expected[0], atol=1e-11 * max(shift, 1)
    )


def test_a_solver_of_all_points_says_which_one_takes_parts() -> None:
    for learner, other in ((mf.NCA(), "sgd"), (mf.TripletLearner(solver="lbfgs"), "adam")):
        with (
            mf.config_context(memory_limit=LIMIT),
            pytest.raises(MemoryError, match=f"solver='lbfgs', would take .* set solver='{other}'"),
        ):
            learner.fit(Counted(X), Y)
    for learner in (LEARNERS[0], LEARNERS[-3]):  # before it is trained
        with (
            mf.config_context(memory_limit=LIMIT),
            pytest.raises(MemoryError, match="validate=True needs in memory"),
        ):
            clone(learner).fit(Counted(X), Y, validate=True)


def test_database_of_all_points_is_refused() -> None:
    learner = mf.EmbeddingLearner(losses.NCA(), database="all")
    with mf.config_context(memory_limit=LIMIT), pytest.raises(ValueError, match="database must be"):
        learner.fit(Counted(X), Y)


def test_classes_too_small_to_meet_are_refused() -> None:
    with mf.config_context(memory_limit=LIMIT), pytest.raises(ValueError, match="too small"):
        mf.LMNN(**SGD).fit(Counted(X), np.arange(N) % (N // 5))


@pytest.mark.parametrize("learner", [LEARNERS[0], LEARNERS[-3]], ids=str)
def test_what_fails_while_reading_or_learning_ends_the_reader(
    learner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fixture looks for threads: also while tracebacks, which hold frames, are there."""
    bad = X.copy()
    bad[N - 3, 0] = np.nan
    gone = Counted(X)
    gone.fail_after = 2.5 * N

    def interrupt(*_: Any) -> Array:
        raise KeyboardInterrupt

    with mf.config_context(memory_limit=LIMIT):
        with pytest.raises(ValueError, match=f"NaN or infinity in rows .* {N - 1}"):
            clone(learner).fit(Counted(bad), Y)
        with pytest.raises(OSError, match="the disk is gone") as error:
            clone(learner).fit(gone, Y)
        assert not [t for t in threading.enumerate() if t.name.startswith("metricfast-reads")]
        monkeypatch.setattr("metricfast.training.steps.Steps.moved", interrupt)
        with pytest.raises(KeyboardInterrupt) as interrupted:
            clone(learner).fit(Counted(X), Y)
        assert not [t for t in threading.enumerate() if t.name.startswith("metricfast-reads")]
        assert error and interrupted


@pytest.mark.parametrize("learner", [LEARNERS[i] for i in (0, 1, 7, 10)], ids=str)
def test_a_training_is_gone_on_from_its_checkpoint(learner: Any, tmp_path: Any) -> None:
    pytest.importorskip("safetensors")

    def kill(state: Any) -> None:
        raise KeyboardInterrupt

    with mf.config_context(memory_limit=LIMIT):
        expected = clone(learner).set_params(max_epochs=3).fit(Counted(X), Y)
        learner = clone(learner).set_params(max_epochs=3, checkpoint=tmp_path / "training")
        with pytest.raises(KeyboardInterrupt):
            clone(learner).set_params(callbacks=[kill]).fit(Counted(X), Y)
        found = clone(learner).fit(Counted(X), Y)
        np.testing.assert_array_equal(parameters(found), parameters(expected))
        with pytest.raises(ValueError, match="other parameters or other data"):
            clone(learner).fit(Counted(X + 1), Y)


@pytest.mark.parametrize("learner", [LEARNERS[i] for i in (0, 1, 5, 7, 10, 13)], ids=str)
def test_points_are_held_out_and_weighed(learner: Any) -> None:
    y, weight = labels_of(learner), (np.arange(N) % 3 > 0).astype(float)
    learner = clone(learner).set_params(early_stopping=True, n_iter_no_change=1)
    weights = {} if hasattr(learner, "_parts") else {"sample_weight": weight}
    with mf.config_context(memory_limit=LIMIT):
        found = learner.fit(Counted(X), y, **weights)
    assert len(found.validation_scores_) == found.n_iter_
    assert np.isfinite(parameters(found)).all() and np.isfinite(found.validation_scores_).all()


@pytest.mark.parametrize("learner", [LEARNERS[i] for i in (0, 1, 7, 11)], ids=str)
def test_partial_fit_goes_over_the_chunks_of_a_part(learner: Any) -> None:
    learner = clone(learner)
    if hasattr(learner, "early_stopping"):
        learner.set_params(early_stopping=False)
    halves, labels = np.array_split(X, 2), np.array_split(Y, 2)
    with mf.config_context(memory_limit=LIMIT // 2):
        for _ in range(2):
            for half, y in zip(halves, labels, strict=True):
                learner.partial_fit(Counted(half), y)
    assert error(learner) < 1


def test_a_reservoir_holds_every_point_with_the_same_chance() -> None:
    points, held = np.arange(40.0)[:, None], np.zeros(40)
    for seed in range(400):
        reservoir = Reservoir(10, seed)
        for part in np.split(points, [3, 13, 30]):
            joined = reservoir.join(part, part[:, 0], None)[0]
            np.testing.assert_array_equal(joined[: len(part)], part)
            reservoir.settle()
        assert len(np.unique(reservoir.points)) == 10
        held[reservoir.points[:, 0].astype(int)] += 1
    # 4 standard deviations of a binomial distribution.
    assert np.abs(held - 100).max() < 4 * np.sqrt(400 * 0.25 * 0.75)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("learner", [LEARNERS[i] for i in (0, 1, 2, 3, 4, 5, 7, 9)], ids=str)
def test_later_calls_are_compared_with_a_reservoir(learner: Any, sparse: bool) -> None:
    """Without it, parts of one class each have nothing to tell classes apart by."""
    y = labels_of(learner)
    order = np.argsort(y, kind="stable")
    parts = [np.arange(0, N, 7), *np.array_split(order, 12)]

    def fitted(**params: Any) -> Any:
        model = clone(learner).set_params(**params)
        for part in parts:
            some = np.concatenate([part, order[:4], order[-4:]])  # two classes at least
            points = csr_array(X[some]) if sparse else X[some]
            model.partial_fit(points, y[some])
        return model

    found, again = fitted(reservoir=300), fitted(reservoir=300)
    np.testing.assert_array_equal(found.components_, again.components_)
    assert error(found) < error(fitted()) + 0.05
    if hasattr(found, "database_embedding_"):
        assert len(found.database_embedding_) == len(parts[-1]) + 8 + 300
        assert np.isfinite(found.predict(X[:50])).all()


def test_a_reservoir_of_labels_or_points_that_do_not_go_together_is_refused() -> None:
    learner = mf.NCA(**SGD, reservoir=5)
    with mf.config_context(memory_limit=LIMIT):
        learner.fit(Counted(X), Y).partial_fit(X[:50], Y[:50])
    kept = learner._kept.points
    assert kept.shape == (5, WIDTH) and (kept[:, None] == X).all(axis=2).any(axis=1).all()
    with pytest.raises(ValueError, match="y holds text"):
        learner.partial_fit(X[:50], Y[:50].astype(str))
    with mf.config_context(memory_limit=LIMIT), pytest.raises(ValueError, match="reservoir must"):
        learner.partial_fit(Counted(X), Y)
    with pytest.raises(ValueError, match="reservoir must be"):
        learner.set_params(reservoir=-1).partial_fit(X, Y)
