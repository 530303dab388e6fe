"""Eight Python threads that share objects, with or without the GIL."""

from __future__ import annotations

import sysconfig
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier, Event, Thread

import numpy as np
import pytest
from new_process import run
from registry import data_for, make
from sklearn.base import clone
from sklearn.datasets import load_iris
from thinned import thinned
from threadpoolctl import ThreadpoolController

import metricfast as mf
from metricfast import losses, metrics, neighbors, sources
from metricfast._core.threadpool import _let_go, one_blas_thread

THREADS = 8
X, Y = load_iris(return_X_y=True)
X = X + np.random.default_rng(0).normal(scale=0.01, size=X.shape)

# Shared objects: points, losses, fitted learners, a database, and a source of one iterator.
NCA = make(mf.NCA).fit(X, Y)
DATABASE = mf.Database(X, L=NCA.components_)
KNN = neighbors.KNeighborsClassifier(3, metric=NCA).fit(X, Y)
SOFT = mf.NCAClassifier(max_epochs=2, random_state=0).fit(X, Y)
LOSSES = losses.NCA(), losses.LMNN(), losses.MultiSimilarity(), losses.LogRatio()
SOURCE = sources.Batches(lambda: (X[start : start + 40] for start in range(0, len(X), 40)))


PAIRS = np.stack((X[:50], X[50:100]), axis=1)
# One learner of each folder and of each kind of solver.
FITTED = (
    *(mf.NCA, mf.LMNN, mf.LFDA, mf.RCA, mf.DMLMJ, mf.ITML, mf.LSML, mf.MMC, mf.OASIS, mf.SCML),
    *(mf.SDML, mf.TripletLearner, mf.NeighborhoodGerrymandering, mf.KernelizedMetricLearner),
)


@pytest.fixture(autouse=True)
def two_blas_threads():
    libraries = ThreadpoolController().select(user_api="blas")
    limit = libraries.limit(limits=2)
    _let_go(libraries)
    yield
    limit.restore_original_limits()
    _let_go(libraries)


def scores(model):
    return clone(model).fit(*data_for(model, X, Y)).pair_score(PAIRS)


WORK = {
    "transform": lambda: NCA.transform(X),
    "pair_distance": lambda: NCA.pair_distance(PAIRS),
    "database": lambda: DATABASE.kneighbors(X, 5),
    "kneighbors": lambda: KNN.kneighbors(X),
    "predict_proba": lambda: (KNN.predict_proba(X), SOFT.predict_proba(X)),
    "loo_score_": lambda: KNN.loo_score_,
    "source": lambda: mf.kneighbors(SOURCE, X, n_neighbors=3),
    "radius_neighbors": lambda: mf.neighbors.radius_neighbors(X, X, 0.5),
    "report": lambda: tuple(s.mean for s in metrics.retrieval_report(X, Y).values()),
    **{type(loss).__name__: partial(loss, X, Y) for loss in LOSSES},
    **{f"fit {learner.__name__}": partial(scores, make(learner)) for learner in FITTED},
}


def flat(result):
    if isinstance(result, tuple):
        return np.concatenate([flat(part) for part in result])
    return np.ravel(np.asarray(result, np.float64))


def blas_threads():
    return [info["num_threads"] for info in ThreadpoolController().select(user_api="blas").info()]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_threads_find_what_one_finds_and_leave_limits_as_they_were():
    names, limits = list(WORK), blas_threads()
    alone = {name: flat(WORK[name]()) for name in names}
    start = Barrier(THREADS)

    def work(number):
        first = number * len(names) // THREADS
        start.wait()
        # Half of all calls per thread, so that four threads run each call.
        for name in (names[first:] + names[:first])[: len(names) // 2]:
            np.testing.assert_array_equal(flat(WORK[name]()), alone[name], err_msg=name)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    assert blas_threads() == limits


def test_a_thread_that_ends_leaves_the_others_their_one_blas_thread():
    begun, end = Event(), Event()

    @one_blas_thread()
    def work():
        begun.set()
        end.wait()

    limits = blas_threads()
    other = Thread(target=work)
    other.start()
    begun.wait()
    with one_blas_thread():
        end.set()
        other.join()
        assert set(blas_threads()) == {1}
    assert blas_threads() == limits


LOAD = f"""
import threading
import metricfast

names = [name for name in metricfast.__all__ if name[0].isupper()]
start = threading.Barrier({THREADS})
errors = []

def load(number):
    start.wait()
    try:
        for name in names[number:] + names[:number]:
            getattr(metricfast, name)
        metricfast.pairwise_distances([[0.0], [1.0]])
    except BaseException as error:
        errors.append(error)

threads = [threading.Thread(target=load, args=(5 * i,)) for i in range({THREADS})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

from threadpoolctl import threadpool_info

print(errors, [info["prefix"] for info in threadpool_info() if info["user_api"] == "metricfast"])
"""


def test_threads_load_names_and_kernels_at_once():
    assert run(LOAD).stdout.strip() == "[] ['_kernels']"


FIRST_SEARCHES = """
import threading, time
import numpy as np
import metricfast

# Copying these points is slow. A search of one query holds the GIL, a search of 40 releases it.
rng = np.random.default_rng(0)
X, L = rng.normal(size=(60_000, 2)), rng.normal(size=(200, 2))
for precision in ("auto", "float32"):
    database = metricfast.Database(X, L=L, precision=precision)
    found = {}

    def search(count):
        found[count] = database.kneighbors(X[:count], 500, n_jobs=2)[1]

    threads = [threading.Thread(target=search, args=(count,)) for count in (40, 1, 2, 3)]
    for thread in threads:
        thread.start()
        time.sleep(0.004)
    for thread in threads:
        thread.join()
    print(*(bool((found[count] == found[40][:count]).all()) for count in (1, 2, 3)))
"""


def test_first_searches_of_a_database_do_not_wait_for_each_other_for_ever():
    assert run(FIRST_SEARCHES).stdout.split() == ["True"] * 6


AT_EXIT = """
import sys, threading, time
import numpy as np
import metricfast as mf

X, y = np.random.default_rng(0).normal(size=(1500, 30)), np.arange(1500) % 5
database = mf.Database(X)
signs = np.repeat([1, -1], 50)
calls = {
    "pairwise_distances": lambda: mf.pairwise_distances(X, n_jobs=2),
    "kneighbors": lambda: mf.kneighbors(X, n_jobs=1),
    "Database": lambda: database.kneighbors(X, n_jobs=2),
    "brief": lambda: database.kneighbors(X[:2]),
    "NCA": lambda: mf.losses.NCA()(X, y, n_jobs=2),
    "ITML": lambda: mf.ITML(max_iter=10**5, tol=0).fit(X[:200, :3].reshape(100, 2, 3), signs),
    "SCML": lambda: mf.SCML(n_basis=40, max_iter=10**6).fit(X[:600, :3].reshape(200, 3, 3)),
}
entered = [threading.Event() for _ in range(3)]

def work(event):
    while True:
        event.set()
        calls[sys.argv[1]]()

for event in entered:
    threading.Thread(target=work, args=(event,), daemon=True).start()
for event in entered:
    event.wait()
time.sleep(0.2)
print("ends")
"""


@pytest.mark.parametrize(
    "call",
    thinned(["Database", "SCML", "pairwise_distances", "NCA", "kneighbors", "brief", "ITML"], 2),
)
def test_python_ends_while_daemon_threads_run_kernels(call):
    assert run(AT_EXIT, call).stdout == "ends\n"


SPOILT = """
import sys, threading, time
import numpy as np
import metricfast as mf
from metricfast.losses import LMNN

rng = np.random.default_rng(0)
X, y = rng.normal(size=(4000, 8)), np.arange(4000) % 3
targets = np.array(LMNN.find_targets(X, y, 3), order="C")
starts, columns = (part.copy() for part in LMNN.find_impostors(X, y, targets))
pairs, out = rng.integers(4000, size=(10**6, 2)), np.empty(10**6)
triplets, basis = rng.integers(4000, size=(10**6, 3)), rng.normal(size=(4, 8))
kernels = mf._core.dispatch.get_kernels()
lmnn = LMNN()
name = sys.argv[1]
array, call = {
    "targets": (targets, lambda: lmnn(X, y, targets=targets, n_jobs=1)),
    "columns": (columns, lambda: lmnn(X, y, targets=targets, impostors=(starts, columns))),
    "pairs": (
        pairs, lambda: kernels.paired_distances(X, X, (None, None), pairs, False, out, 1)
    ),
    "triplets": (
        triplets, lambda: kernels.triplet_objective(X, basis, triplets, None, 0.0, 1)
    ),
}[name]
good = array.copy()
begin = time.perf_counter()
call()
took = time.perf_counter() - begin

def spoil(after):
    time.sleep(after)
    array[len(array) // 3 :] = 2**40

for part in np.linspace(0, 1, 6):
    thread = threading.Thread(target=spoil, args=(part * took,))
    thread.start()
    try:
        call()
    except ValueError:
        pass  # an invalid argument may raise
    thread.join()
    array[:] = good
print("ends")
"""


@pytest.mark.parametrize("name", thinned(["targets", "triplets", "columns", "pairs"], 2))
def test_indices_that_another_thread_changes_meanwhile_do_no_harm(name):
    assert run(SPOILT, name).stdout == "ends\n"


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a GIL")
def test_a_python_without_gil_stays_without():
    code = "import sys, metricfast; metricfast.build_info(); print(sys._is_gil_enabled())"
    found = run(f"import warnings; warnings.simplefilter('error'); {code}", PYTHON_GIL=None)
    assert found.stdout == "False\n"
