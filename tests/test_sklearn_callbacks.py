"""scikit-learn's callbacks (1.9 and later), called by iterative learners."""

import inspect
import pickle
import warnings

import numpy as np
import pytest
from registry import learners, make
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from trained import configured

import metricfast as mf
from metricfast.training.callbacks import CallbackMixin

callback = pytest.importorskip("sklearn.callback")

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
X, Y = (array[::2] for array in load_iris(return_X_y=True))
TRAINED = [
    learner
    for learner in learners()
    if issubclass(learner, CallbackMixin) and "solver" in inspect.signature(learner).parameters
]
every_trained = pytest.mark.parametrize("learner", TRAINED)


class Recorder:
    """A callback that records its calls, and stops the training at some iteration."""

    def __init__(self, stop_at=None, fail=None):
        self.notes, self.stop_at, self.fail = [], stop_at, fail

    def setup(self, estimator, context):
        self.notes.append(("setup", context, None))

    def teardown(self, estimator, context):
        self.notes.append(("teardown", context, None))

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
        self.notes.append(("begin", context, (X, y, metadata)))

    def on_fit_task_end(
        self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
    ):
        self.notes.append(("end", context, (X, y, metadata, fitted_estimator)))
        if context.parent is None or fitted_estimator is None:
            return None
        if self.fail is not None:
            raise self.fail
        return len(self.ends()) == self.stop_at

    def ends(self):
        """Return the records of finished iterations."""
        found = (given for what, context, given in self.notes if what == "end" and context.parent)
        return [given for given in found if given[3] is not None]

    def kinds(self):
        return [what for what, _, _ in self.notes]


@every_trained
def test_callbacks_are_told_of_every_iteration(learner):
    expected, recorder = make(learner).fit(X, Y), Recorder()
    seen = []
    model = make(learner, callbacks=[lambda state: seen.append(state.parameters)])
    model.set_callbacks(recorder).fit(X, Y)
    np.testing.assert_array_equal(model.transform(X), expected.transform(X))
    assert recorder.kinds()[:2] == ["setup", "begin"]
    assert recorder.kinds()[-2:] == ["end", "teardown"]
    assert recorder.kinds().count("begin") == recorder.kinds().count("end")
    assert len(recorder.ends()) == model.n_iter_ == len(seen)
    for (points, labels, metadata, fitted), parameters in zip(recorder.ends(), seen, strict=True):
        assert points is X and labels is Y and metadata is None
        assert fitted is not model
        assert fitted.transform(X).shape == expected.transform(X).shape
        current = getattr(fitted, "parameters_", [getattr(fitted, "components_", None)])
        np.testing.assert_array_equal(current[0], parameters[0])
    last = recorder.notes[-2][2][3]
    np.testing.assert_array_equal(last.transform(X), expected.transform(X))
    assert [len(fitted.loss_curve_) for *_, fitted in recorder.ends()] == [
        *range(1, model.n_iter_ + 1)
    ]
    contexts = [context for what, context, _ in recorder.notes if what == "begin"]
    assert contexts[0].max_subtasks >= model.n_iter_
    names = {context.task_name for context in contexts[1:]}
    assert names == {"iteration" if model.solver == "lbfgs" else "epoch"}


@every_trained
def test_a_callback_may_stop(learner):
    model = make(learner).set_callbacks(Recorder(stop_at=1))
    assert model.fit(X, Y).n_iter_ == 1
    with pytest.raises(TypeError, match="FitCallback"):
        make(learner).set_callbacks(print)


@every_trained
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_callbacks_are_taken_down_whatever_happens(learner, error):
    recorder = Recorder(fail=error)
    model = make(learner).set_callbacks(recorder)
    with pytest.raises(error):
        model.fit(X, Y)
    assert recorder.kinds().count("setup") == recorder.kinds().count("teardown") == 1
    leftover = {"_told", "_callback_fit_ctx", "_skl_callbacks_to_teardown"}
    assert not leftover & set(vars(model))
    with pytest.raises(ValueError, match="y"):
        model.fit(X, None)
    assert recorder.kinds().count("setup") == 1


TUPLES = np.stack([X[:24], X[24:48], X[::-1][:24]], axis=1)
SIMILAR = np.where(Y[:24] == Y[24:48], 1, -1)
OF_TUPLES = {
    mf.ITML(tol=1e-9, max_iter=4): (TUPLES[:, :2], SIMILAR),
    mf.MMC(max_iter=4, judge=None): (TUPLES[:, :2], SIMILAR),
    mf.SDML(balance_param=0.1): (TUPLES[:, :2], SIMILAR),
    mf.LSML(tol=1e-9, max_iter=4): (TUPLES[:, [0, 2, 0, 1]],),
    mf.OASIS(max_iter=4): (TUPLES,),
    mf.SCML(max_iter=40, output_iter=10): (TUPLES,),
    mf.ITML_Supervised(tol=1e-9, max_iter=4): (X, Y),
    mf.MMC_Supervised(max_iter=4): (X, Y),
    mf.SDML_Supervised(balance_param=0.1, judge=None): (X, Y),
    mf.LSML_Supervised(tol=1e-9, max_iter=4): (X, Y),
    mf.OASIS_Supervised(max_iter=4): (X, Y),
    mf.SCML_Supervised(max_iter=40, output_iter=10): (X, Y),
}
every_of_tuples = pytest.mark.parametrize(
    ("model", "data"), OF_TUPLES.items(), ids=lambda each: type(each).__name__
)


def learned_by(model):
    return model.bilinear_ if hasattr(model, "bilinear_") else model.get_mahalanobis_matrix()


@every_of_tuples
def test_learners_of_tuples_tell_of_their_iterations(model, data):
    model = clone(model).set_params(random_state=0)
    expected, recorder = clone(model).fit(*data), Recorder()
    model.set_callbacks(recorder).fit(*data)
    np.testing.assert_array_equal(learned_by(model), learned_by(expected))
    assert recorder.kinds()[0] == "setup" and recorder.kinds()[-1] == "teardown"
    assert recorder.kinds().count("begin") == recorder.kinds().count("end")
    n_iter = getattr(model, "n_iter_", None)
    if hasattr(model, "loss_curve_"):
        n_iter = len(model.loss_curve_)
        curves = [len(given[3].loss_curve_) for given in recorder.ends()]
        assert curves == [*range(1, n_iter + 1)]
    assert len(recorder.ends()) == n_iter or "SDML" in type(model).__name__
    seen = [learned_by(given[3]) for given in recorder.ends()]
    assert all(given[0] is data[0] for given in recorder.ends())
    assert len({matrix.tobytes() for matrix in seen}) > 1
    contexts = [context for what, context, _ in recorder.notes if what == "begin"]
    assert contexts[0].max_subtasks >= len(seen)
    assert {context.task_name for context in contexts[1:]} == {"iteration"}


@every_of_tuples
@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_a_callback_may_stop_learners_of_tuples(model, data):
    recorder = Recorder(stop_at=1)
    model = clone(model).set_params(random_state=0).set_callbacks(recorder)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The objective is|Dissimilar pairs")
        model.fit(*data, validate=True) if data[0] is X else model.fit(*data)
    assert len(recorder.ends()) == 1
    assert recorder.kinds().count("setup") == recorder.kinds().count("teardown") == 1


def test_adapters_tell_of_their_last_training():
    rng = np.random.default_rng(0)
    pairs, recorder = rng.normal(size=(300, 2, 6)), Recorder()
    scores = (pairs[:, 0, :2] * pairs[:, 1, :2]).sum(axis=1)
    model = mf.AdapterLearner(random_state=0).set_callbacks(recorder).fit(pairs, scores)
    assert recorder.kinds().count("begin") == recorder.kinds().count("end")
    assert len(recorder.ends()) == model.n_iter_ > 1
    np.testing.assert_array_equal(recorder.ends()[-1][3].parameters_[0], model.parameters_[0])
    assert recorder.ends()[0][3].n_iter_ == 1
    stopped = mf.AdapterLearner(random_state=0).set_callbacks(Recorder(stop_at=1))
    assert stopped.fit(pairs, scores).n_iter_ == 1
    recorder = Recorder()  # nothing is learned
    with pytest.warns(UserWarning, match="the given distance stays"):
        mf.AdapterLearner(random_state=0).set_callbacks(recorder).fit(pairs, rng.normal(size=300))
    assert recorder.kinds()[0] == "setup" and recorder.kinds()[-1] == "teardown"
    assert not recorder.ends()


def test_learners_without_iterations_take_no_callbacks():
    assert not hasattr(mf.GMML(), "set_callbacks")
    assert not hasattr(mf.RCA_Supervised(), "set_callbacks")


def test_weights_are_metadata():
    recorder, weight = Recorder(), np.ones(len(X))
    mf.NCA(judge=None, max_iter=2).set_callbacks(recorder).fit(X, Y, weight)
    mf.NCA(judge=None, max_iter=2).set_callbacks(recorder).fit(X, y=Y, sample_weight=weight)
    assert [list(given[2].items()) for given in recorder.ends()] == 4 * [
        [("sample_weight", weight)]
    ]


@pytest.mark.filterwarnings("ignore:The distance that NCA learned is worse")
def test_what_is_tried_for_a_fit_tells_nobody():
    recorder = Recorder()
    mf.NCA(judge=None, max_iter=3).set_callbacks(recorder).fit(X, Y, validate=True)
    assert recorder.kinds().count("setup") == 1
    model = mf.NCA(solver="adam", random_state=0).set_callbacks(recorder)
    model.partial_fit(X, Y)
    assert recorder.kinds().count("setup") == 1


@pytest.mark.parametrize("solver", ["lbfgs", "adam"])
def test_a_training_that_goes_on_tells_of_what_is_left(tmp_path, solver):
    pytest.importorskip("safetensors")
    limits = {"max_iter": 4, "tol": 0.0} if solver == "lbfgs" else {}
    learner = configured(
        mf.NCA(judge=None, random_state=0, **limits), solver=solver, max_epochs=8,
        checkpoint=tmp_path / "half",
    )  # fmt: skip
    first = clone(learner)
    first.set_params(callbacks=[*learner.callbacks, lambda state: state.iteration == 3])
    interrupted = first.set_callbacks(Recorder(fail=KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(X, Y)
    recorder = Recorder()
    model = clone(learner).set_callbacks(recorder).fit(X, Y)
    root = next(context for what, context, _ in recorder.notes if what == "begin")
    assert len(recorder.ends()) <= root.max_subtasks <= (8 if solver == "adam" else 4)
    assert model.n_iter_ >= len(recorder.ends()) > 0


@pytest.mark.parametrize(
    "model",
    [
        mf.TripletLearner(max_epochs=3, judge=None),
        mf.NeighborhoodGerrymandering(solver=mf.solvers.Adam(max_epochs=3), judge=None),
        mf.AsymmetricSimilarity(solver=mf.solvers.Adam(max_epochs=3)),
    ],
    ids=str,
)
def test_scores_are_monitored(model):
    scores = []
    monitor = callback.ScoringMonitor(scoring=lambda *of: {"score": of[0].score(*of[1:])})
    model = clone(model).set_callbacks(monitor)
    model.set_params(callbacks=[lambda state: scores.append(state.estimator.score(X, Y))])
    model.set_params(random_state=0).fit(X, Y)
    of_tasks = [row["score"] for row in monitor.get_logs().data if len(row["task_id_path"]) > 1]
    assert of_tasks == scores
    of_fit = [row["score"] for row in monitor.get_logs().data if len(row["task_id_path"]) == 1]
    assert of_fit == [model.score(X, Y)]


@pytest.mark.parametrize("kind", [mf.NCAClassifier, mf.NCARegressor])
def test_soft_votes(kind):
    how = {"n_components": 2, "max_epochs": 3, "random_state": 0, "n_estimators": 2}
    monitor, recorder = callback.ScoringMonitor(scoring="r2"), Recorder()
    model = kind(**how, periodic=False).set_callbacks(recorder, monitor).fit(X, Y)
    expected = kind(**how, periodic=False).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    root = recorder.notes[0][1]
    assert root.max_subtasks == 6
    assert recorder.kinds().count("begin") == recorder.kinds().count("end") == 1 + 6
    assert [row["r2"] for row in monitor.get_logs().data] == [r2_score(Y, model.predict(X))]
    # The number of epochs of the selection is unknown.
    recorder = Recorder()
    model = kind(**how | {"n_estimators": 1}, n_frequencies=2).set_callbacks(recorder).fit(X, Y)
    assert recorder.notes[0][1].max_subtasks is None
    assert recorder.kinds().count("end") > 3


def test_progress_bars(capsys):
    pytest.importorskip("rich")
    model = mf.NCA(judge=None, max_iter=3).set_callbacks(callback.ProgressBar())
    model.fit(X, Y)
    assert "NCA - fit" in capsys.readouterr().out
    bar = callback.ProgressBar(max_propagation_depth=None)
    pipeline = make_pipeline(
        StandardScaler(), mf.NCA(judge=None, max_iter=3), KNeighborsClassifier()
    )
    with pytest.warns(UserWarning, match="KNeighborsClassifier does not support callbacks"):
        pipeline.set_callbacks(bar).fit(X, Y)
    assert "NCA - fit" in capsys.readouterr().out
    search = GridSearchCV(mf.TripletLearner(max_epochs=2, judge=None), {"margin": [0.1, 0.2]}, cv=2)
    search.set_callbacks(callback.ProgressBar(max_propagation_depth=None)).fit(X, Y)
    assert "TripletLearner - fit" in capsys.readouterr().out


def test_a_database_of_its_own():
    recorder = Recorder()
    model = mf.AsymmetricSimilarity().set_callbacks(recorder)
    model.fit(X, Y, X_database=X, y_database=Y)
    assert len(recorder.ends()) == model.n_iter_
    inner = clone(model)
    held = mf.FixedDatabase(inner, X, Y).fit(X, Y)
    assert len(recorder.ends()) == model.n_iter_ + held.learner_.n_iter_


def test_estimators_with_callbacks_are_cloned_pickled_and_inspected():
    model = mf.NCA(judge=None, max_iter=2).set_callbacks(Recorder())
    assert clone(model)._skl_callbacks == model._skl_callbacks
    assert pickle.loads(pickle.dumps(model.fit(X, Y))).n_iter_ == model.n_iter_
    model.set_callbacks()
    assert not hasattr(model, "_skl_callbacks")
    names = list(inspect.signature(mf.NCA.fit).parameters)
    assert names == ["self", "X", "y", "sample_weight", "groups", "views", "validate"]
    with pytest.raises(ValueError, match="NCA estimator requires y"):
        mf.NCA().fit(X)
