"""Mini-batch training with points on disk: one chunk is in memory while the next is read."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from minibatch_cases import (
    LEARNERS,
    LIMIT,
    SGD,
    WIDTH,
    Array,
    Counted,
    N,
    X,
    Y,
    error,
    labels_of,
    parameters,
    some,
)
from new_process import run
from sklearn.base import clone
from thinned import thinned
from trained import configured, embedding_learner
from working_memory import working_memory

import metricfast as mf
from metricfast import losses, sources
from metricfast.embeddings import Linear
from metricfast.learners.lmnn_targets import targets_of_all
from metricfast.training.chunks import Chunked, batches_of, mean_and_exponent

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.usefixtures("no_thread_survives"),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_points_beyond_memory_are_learned_from_in_chunks(learner: Any) -> None:
    y, source = labels_of(learner), Counted(X)
    inside = clone(learner).fit(X, y)
    with working_memory(1_000_000_000):  # one chunk holds all
        np.testing.assert_array_equal(parameters(clone(learner).fit(source, y)), parameters(inside))
    with working_memory(LIMIT):
        source = Counted(X)
        outside = clone(learner).fit(source, y)
        again = clone(learner).fit(Counted(X), y)
    np.testing.assert_array_equal(parameters(outside), parameters(again))
    assert source.largest * WIDTH * 4 <= LIMIT // 8
    assert outside.n_iter_ == inside.n_iter_
    assert error(outside) < error(inside) + 0.1


def test_two_chunks_are_held_at_most_and_rows_of_all_are_given_once() -> None:
    with working_memory(LIMIT):
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


@pytest.mark.parametrize("most", [1 << 16, 100])
def test_targets_of_points_on_disk_are_those_of_all(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metricfast.learners.lmnn_targets._CANDIDATES", most)
    L = np.random.RandomState(0).randn(3, WIDTH)
    with working_memory(LIMIT):
        found = [targets_of_all(Counted(X), Y, 3, map_) for map_ in (None, L)]
    for targets, Z in zip(found, (X, X @ L.T), strict=True):
        assert (Y[targets] == Y[:, None]).all() and (targets != np.arange(N)[:, None]).all()
        if most > N:
            np.testing.assert_array_equal(targets, losses.LMNN.find_targets(Z, Y, 3))


@pytest.mark.parametrize("init", ["pca", "lda"])
@pytest.mark.parametrize("weighted", [False, True])
def test_starts_are_of_all_points(init: str, weighted: bool) -> None:
    """The rows are sorted by class, so a sample of few blocks would have other components."""
    order = np.argsort(Y, kind="stable")
    weight = np.random.RandomState(0).randint(3, size=N).astype(float) if weighted else None
    learners = [mf.NCA(init, 3, **SGD), embedding_learner(losses.NCA(), Linear(3, init))]
    for given in learners[: 2 - weighted]:
        learner = configured(given, max_epochs=1, learning_rate=1e-12)
        weights = {} if weight is None else {"sample_weight": weight}
        inside = parameters(clone(learner).fit(X[order], Y[order], **weights))
        with working_memory(LIMIT):
            found = parameters(clone(learner).fit(Counted(X[order]), Y[order], **weights))
        found, inside = found / np.linalg.norm(found), inside / np.linalg.norm(inside)
        np.testing.assert_allclose(found, inside, atol=1e-5)


def test_an_iterator_is_gone_through_in_its_order() -> None:
    n_started = [0]

    def make() -> Iterator[Array]:
        n_started[0] += 1
        yield from np.array_split(X, 31)

    source = sources.Batches(make)
    with working_memory(LIMIT):
        mf.NCA(**SGD).fit(source, Y)
    # One pass each for counting, the mean (and its first block), initial components, a sample, the
    # scale, and each epoch.
    assert n_started[0] <= 6 + SGD["solver"].max_epochs


@pytest.mark.parametrize(("scale", "shift"), [(1, 1e3), (2.0**40, 0), (2.0**-40, 0), (0, 5.0)])
def test_mean_and_exponent_are_those_of_all_points(scale: float, shift: float) -> None:
    points = X.astype(np.float64) * scale + shift
    expected = mf._core.scaling.center_and_rescale(points)
    with working_memory(LIMIT):
        mean, exponent = mean_and_exponent(Counted(points))
    assert exponent == expected[1]
    np.testing.assert_allclose(
        np.ldexp(points - mean, -exponent), expected[0], atol=1e-11 * max(shift, 1)
    )


class TooLarge(sources.Source):
    shape, dtype = (1000, 4), np.dtype(np.float32)

    def read(self, start: int, stop: int) -> Array:
        raise MemoryError


def test_a_solver_of_all_points_says_which_one_takes_parts() -> None:
    for learner in (mf.NCA(), mf.TripletLearner(solver="lbfgs", judge=None)):
        with pytest.raises(MemoryError, match=r"solver='lbfgs', does not .* set solver='adam'"):
            learner.fit(TooLarge(), np.arange(1000) % 2)


def test_database_of_all_points_is_refused() -> None:
    learner = embedding_learner(losses.NCA(), database="all")
    with working_memory(LIMIT), pytest.raises(ValueError, match="database must be"):
        learner.fit(Counted(X), Y)


def test_classes_too_small_to_meet_are_refused() -> None:
    with working_memory(LIMIT):
        none = batches_of(Chunked(Counted(X)), lambda rows: [], np.random.RandomState(0), 10)
        with pytest.raises(ValueError, match="too small"):  # for a user's sampler
            list(none())


@pytest.mark.parametrize("share", [1.5, 0.5])
def test_lmnn_learns_from_blocks_as_from_an_array(share: float, real_data: Any) -> None:
    """Also if a chunk has few points of a class: here a few dozen, or ten."""
    data = real_data("letter")
    points, y, test = data["X"].astype(np.float32), data["y"], data["split"] == 1
    train, learner = points[~test], mf.LMNN(solver=mf.solvers.Adam(max_epochs=10), random_state=0)
    inside = clone(learner).fit(train, y[~test])
    with working_memory(int(share * train.nbytes)):
        outside = learner.fit(Counted(train), y[~test])
    for k in (1, 3):
        judge = mf.KNeighborsClassifier(k)
        of_blocks, of_array = (
            judge.set_params(metric=each).fit(train, y[~test]).score(points[test], y[test])
            for each in (outside, inside)
        )
        assert of_blocks > of_array - 0.005


@some("NCA", "proxies")
def test_what_fails_while_reading_or_learning_ends_the_reader(
    learner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fixture checks for threads, also while tracebacks keep frames alive."""
    bad = X.copy()
    bad[N - 3, 0] = np.nan
    gone = Counted(X)
    gone.fail_after = 2.5 * N

    def interrupt(*_: Any) -> Array:
        raise KeyboardInterrupt

    with working_memory(LIMIT):
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


@some("NCA", "LMNN", "gerrymandering", "perceptron")
def test_a_training_is_gone_on_from_its_checkpoint(learner: Any, tmp_path: Any) -> None:
    pytest.importorskip("safetensors")

    def kill(state: Any) -> None:
        raise KeyboardInterrupt

    with working_memory(LIMIT):
        expected = configured(learner, max_epochs=3).fit(Counted(X), Y)
        learner = configured(learner, max_epochs=3, checkpoint=tmp_path / "training")
        with pytest.raises(KeyboardInterrupt):
            clone(learner).set_params(callbacks=[kill]).fit(Counted(X), Y)
        found = clone(learner).fit(Counted(X), Y)
        np.testing.assert_array_equal(parameters(found), parameters(expected))
        with pytest.raises(ValueError, match="other parameters or other data"):
            clone(learner).fit(Counted(X + 1), Y)


HELD = """
import re, sys, numpy as np, metricfast as mf, sklearn
from pathlib import Path
y = np.load(sys.argv[1] + "/y.npy")

class Table:
    dtype = np.dtype(np.float32)

    def __init__(self, n):
        self.shape = n, 64

    def __getitem__(self, rows):
        start, stop, _ = rows.indices(self.shape[0])
        offset = 128 + start * 256
        found = np.fromfile(sys.argv[1] + "/X.npy", self.dtype, (stop - start) * 64, offset=offset)
        return found.reshape(-1, 64)

X = mf.sources.Rows(Table(len(y)))
learner = getattr(mf, sys.argv[2])(
    solver=mf.solvers.Adam(max_epochs=1), n_components=8, random_state=0
)
def most_held():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

def peak():
    Path("/proc/self/clear_refs").write_text("5")  # from now on, the most is what is held now
    return most_held()

with sklearn.config_context(working_memory=4):
    learner.fit(mf.sources.Rows(Table(20000)), y[:20000])  # load modules, start threads
before = peak()
with sklearn.config_context(working_memory=int(sys.argv[3]) / 2**20):
    learner.fit(X, y)
print(most_held() - before)
"""


@pytest.mark.parametrize("name", thinned(["LMNN", "NCA"]))  # LMNN also stores targets
def test_a_training_keeps_to_its_limit(name: str, tmp_path: Any) -> None:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("peak memory is read as Linux has it")
    n, limit = 200_000, 20_000_000
    points = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (n, 64))
    y = np.random.default_rng(0).integers(10, size=n)
    for start in range(0, n, 50_000):
        rng = np.random.default_rng(start)
        points[start : start + 50_000] = rng.standard_normal((50_000, 64), np.float32)
    np.save(tmp_path / "y.npy", y)
    done = run(HELD, tmp_path, name, str(limit), check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 2 * limit < 0.8 * points.nbytes  # what is freed may stay


@some("NCA", "LMNN", "MLKR", "gerrymandering", "perceptron", "log ratios")
def test_points_are_held_out_and_weighed(learner: Any) -> None:
    y, weight = labels_of(learner), (np.arange(N) % 3 > 0).astype(float)
    learner = configured(learner, early_stopping=True, patience=1)
    weights = {} if hasattr(learner, "_parts") else {"sample_weight": weight}
    with working_memory(LIMIT):
        found = learner.fit(Counted(X), y, **weights)
    assert len(found.validation_scores_) == found.n_iter_
    assert np.isfinite(parameters(found)).all() and np.isfinite(found.validation_scores_).all()
