"""Common behaviour of all learners that use the training loop."""

import json
import math
import pickle

import numpy as np
import pytest
from model_files import contents, rewritten
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale
from thinned import thinned
from trained import configured, embedding_learner

import metricfast as mf
from metricfast import losses
from metricfast.callbacks import Checkpoint
from metricfast.metrics import precision_at_1
from metricfast.selection import Judge
from metricfast.selection._splits import split_points
from metricfast.solvers import Adam, MiniBatchSolver, Subgradient

X, Y = load_iris(return_X_y=True)
X, Y = scale(X)[::2], Y[::2]
MAPS = [
    *(each(solver="adam") for each in (mf.NCA, mf.LMNN, mf.MCML, mf.LDML, mf.MLKR, mf.NCMML)),
    mf.NeighborhoodGerrymandering(),
    mf.NeighborhoodGerrymandering(solver="subgradient"),
    mf.NeighborhoodGerrymanderingRegressor(),
]
EMBEDDING = embedding_learner(losses.NCA())
LEARNERS = [*MAPS, mf.AsymmetricSimilarity(), EMBEDDING]
WEIGHTED = [
    mf.NCA(),
    mf.LMNN(min_iter=5),
    mf.NCMML(),
    mf.NeighborhoodGerrymandering(solver="lbfgs"),
    mf.AsymmetricSimilarity(solver="lbfgs"),
]
FULL = [*WEIGHTED, embedding_learner(losses.NCA(), solver="lbfgs")]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def of(learner, **params):
    return configured(learner, **{"random_state": 0, "max_epochs": 4, "judge": None, **params})


def parameters(learner):
    found = learner.parameters_ if hasattr(learner, "parameters_") else [learner.components_]
    return np.concatenate([array.ravel() for array in found])


STOPPED = embedding_learner(losses.NCA(), early_stopping=True)


@pytest.mark.parametrize("learner", [*LEARNERS, STOPPED], ids=str)
def test_a_checkpoint_changes_nothing_and_is_gone_on_from(learner, tmp_path):
    expected = of(learner).fit(X, Y)
    path, seen = tmp_path / "training", []

    def kill(state):
        seen.append(state.iteration)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        of(learner, checkpoint=path, callbacks=[kill]).fit(X, Y)
    found = of(learner, checkpoint=path, callbacks=[lambda s: seen.append(s.iteration)]).fit(X, Y)
    assert seen == [1, 2, 3, 3, 4]
    np.testing.assert_array_equal(parameters(found), parameters(expected))
    assert found.loss_curve_ == expected.loss_curve_
    if learner is STOPPED:
        assert found.validation_scores_ == expected.validation_scores_
    with pytest.raises(ValueError, match="is of a training with other parameters or other data"):
        of(learner, checkpoint=path).fit(X + 1e-3, Y)


WRONG = [None, "text", -1, 1.5, 10**30, math.inf, math.nan, True, [], {}, [1.0], "gone"]
MUTATED = [
    mf.EmbeddingLearner(losses.NCA(), batch_size=30, early_stopping=True),
    mf.NCA(judge=None, solver=Adam(batch_size=30)),
    mf.NCA(early_stopping=True, max_iter=3),
    mf.NeighborhoodGerrymandering(judge=None, solver=Adam(batch_size=30)),
]


def mutations(state, arrays):
    """Return the states and arrays of a checkpoint with one value or array changed."""

    def leaves(value, *path):
        yield path
        if isinstance(value, (dict, list)) and len(path) < 3:
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in items:
                yield from leaves(item, *path, key)

    for path in leaves(state):
        for wrong in WRONG:
            changed = {"state": json.loads(json.dumps(state))}
            parent, key = changed, "state"
            for step in path:
                parent, key = parent[key], step
            if wrong == "gone":
                del parent[key]
            else:
                parent[key] = wrong
            if changed:
                yield changed["state"], arrays
    for name, array in arrays.items():
        for other in (
            array[:-1], array[:, None], array.astype(np.int64), np.ones(array.shape, "f2"),
            np.full_like(array, 0), np.full(array.shape, np.nan), np.full(array.shape, np.inf),
            np.empty((10**6, 0)), None,
        ):  # fmt: skip
            changed = {key: value for key, value in arrays.items() if key != name}
            yield state, changed if other is None else changed | {name: other}


def refusal(model):
    try:
        model.fit(X, Y)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("learner", thinned(MUTATED, 2), ids=str)
def test_a_checkpoint_of_wrong_content_is_refused(learner, tmp_path):
    path = tmp_path / "training"
    learner = configured(learner, checkpoint=path, max_epochs=3, random_state=0)

    def stop(state):
        if state.iteration == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        configured(learner, checkpoint=path, callbacks=[stop]).fit(X, Y)
    metadata, written, arrays = contents(path.read_bytes())
    n_refused = 0
    for state, others in mutations(written, arrays):
        rewritten(path, metadata, state, others)
        model = clone(learner)
        error = refusal(model)
        assert error is None or str(path) in error
        n_refused += error is not None
        if error is None:
            assert np.isfinite(parameters(model)).all()
            assert np.isfinite(model.loss_curve_).all()
    assert n_refused > 150


@pytest.mark.parametrize("learner", FULL, ids=str)
def test_a_checkpoint_of_all_points_is_gone_on_from(learner, tmp_path):
    path, lengths = tmp_path / "training", {"max_iter": 3, "max_epochs": 3}
    first = of(learner, checkpoint=path, **lengths).fit(X, Y)
    lengths = {"max_iter": 5, "max_epochs": 5}
    second = of(learner, checkpoint=path, **lengths).fit(X, Y)
    assert second.loss_curve_[:3] == first.loss_curve_
    assert len(second.loss_curve_) == 5
    assert min(second.loss_curve_) < min(first.loss_curve_)


@pytest.mark.parametrize("learner", [*LEARNERS, *FULL], ids=str)
def test_early_stopping_keeps_the_best_by_score(learner):
    states = []
    lengths = {"max_epochs": 30, "max_iter": 30}
    model = of(learner, early_stopping=True, callbacks=[states.append], **lengths).fit(X, Y)
    scores = [state.score for state in states]
    assert model.validation_scores_ == scores
    assert len(scores) == model.n_iter_ <= 30
    best = int(np.argmax(scores))
    assert model.n_iter_ == 30 or model.n_iter_ - best > 10 or not np.diff(scores[best:]).any()
    if not hasattr(model, "history_"):  # vote learners evaluate all points once more
        chosen = [s for s, score in zip(states, scores, strict=True) if score == max(scores)]
        found = parameters(model)
        flat = [np.concatenate([a.ravel() for a in s.parameters]) for s in chosen]
        assert any(np.array_equal(found, each) for each in flat)


@pytest.mark.parametrize("learner", WEIGHTED, ids=str)
def test_weights_count_beside_points_held_out(learner):
    learner = of(learner, early_stopping=True, max_iter=2, max_epochs=2)
    weighted = clone(learner).fit(X, Y, sample_weight=1.0 + np.arange(len(X)) % 3)
    assert weighted.loss_curve_ != learner.fit(X, Y).loss_curve_


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_a_warm_start_goes_on_from_what_was_learned(learner):
    model = of(learner, max_epochs=12).fit(X, Y)
    learned = parameters(model)
    again = of(learner, warm_start=True, max_epochs=1, learning_rate=1e-9).get_params(deep=False)
    found = parameters(model.set_params(**again).fit(X, Y))
    np.testing.assert_allclose(found, learned, rtol=1e-4, atol=1e-4 * np.abs(learned).max())


@pytest.mark.parametrize(
    "learner", [each for each in LEARNERS if hasattr(each, "partial_fit")], ids=str
)
def test_partial_fit_learns_from_one_part_after_another(learner):
    model, rng = of(learner, max_epochs=50, init="random"), np.random.RandomState(0)
    curves = []
    for _ in range(12):
        part = rng.permutation(len(X))[:60]
        curves.append(model.partial_fit(X[part], Y[part]).loss_curve_[-1])
    assert model.n_iter_ == 12
    if not isinstance(learner, mf.EmbeddingLearner):
        assert np.mean(curves[-3:]) < np.mean(curves[:3])
    before, copy = parameters(model).copy(), pickle.loads(pickle.dumps(model))
    model.partial_fit(X[:50], Y[:50])
    np.testing.assert_array_equal(parameters(copy.partial_fit(X[:50], Y[:50])), parameters(model))
    assert 0 < np.abs(parameters(model) - before).max() < 0.2 * np.abs(before).max()
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :3], Y)
    for name, value in (("early_stopping", True), ("checkpoint", "training")):
        with pytest.raises(ValueError, match=f"partial_fit (needs {name}|takes no Checkpoint)"):
            configured(model, **{name: value}).partial_fit(X, Y)


@pytest.mark.parametrize(
    "learner", [each for each in LEARNERS if hasattr(each, "partial_fit")], ids=str
)
def test_partial_fit_goes_on_from_a_model_file(learner, tmp_path):
    mf.save(of(learner).fit(X, Y), tmp_path / "model")
    model = mf.load(tmp_path / "model")
    before = parameters(model).copy()
    if isinstance(model, mf.EmbeddingLearner):
        with pytest.raises(ValueError, match="cannot continue from a model file"):
            model.partial_fit(X, Y)
        model.set_params(warm_start=True).fit(X, Y)
        return
    model.partial_fit(X, Y)
    assert 0 < np.abs(parameters(model) - before).max() < 0.2 * np.abs(before).max()


@pytest.mark.filterwarnings("ignore:.*is worse")
def test_validate_measures_held_out_queries_against_the_database():
    learner = of(mf.AsymmetricSimilarity(), judge=Judge("nearest"))
    found = learner.fit(X, Y, X[::2], Y[::2], validate=True).validation_
    test = split_points(X, Y, n_splits=5)[0].queries
    assert found.costs[0] == pytest.approx(1 - precision_at_1(X[test], Y[test], X[::2], Y[::2]))


@pytest.mark.parametrize("learner", [mf.NeighborhoodGerrymandering, mf.AsymmetricSimilarity])
def test_a_part_on_which_the_loss_overflows_is_told(learner):
    with pytest.raises(ValueError, match="not finite in the first epoch"):
        learner(C=1e300, random_state=0).partial_fit(X, Y)


def test_a_part_in_other_units_is_refused():
    model = of(mf.NCA(solver="adam")).partial_fit(X, Y)
    with pytest.raises(ValueError, match="X is too large for the units of the first call"):
        model.partial_fit(X * 1e200, Y)


ENDLESS = [
    mf.NCA(solver=Adam(schedule="constant")),
    mf.NCA(solver=Subgradient()),
    mf.AsymmetricSimilarity(solver=Adam(schedule="inverse")),
    mf.AsymmetricSimilarity(solver=Subgradient()),
    embedding_learner(losses.NCA(), solver=Adam()),
]


@pytest.mark.parametrize("learner", ENDLESS, ids=str)
def test_more_epochs_continue_a_training_whose_rates_do_not_depend_on_them(learner, tmp_path):
    seen = []
    callbacks = [Checkpoint(tmp_path / "training"), lambda state: seen.append(state.iteration)]
    learner = clone(learner).set_params(callbacks=callbacks, random_state=0)
    learner.set_params(solver__max_epochs=2).fit(X, Y)
    assert seen == [1, 2]
    learner.set_params(solver__max_epochs=4).fit(X, Y)
    assert seen == [1, 2, 3, 4]


def test_more_epochs_of_a_cosine_are_another_training(tmp_path):
    learner = of(mf.NCA(solver="adam"), max_epochs=2, checkpoint=tmp_path / "training").fit(X, Y)
    with pytest.raises(ValueError, match="is of a training with other parameters"):
        configured(learner, max_epochs=4).fit(X, Y)


def test_a_checkpoint_of_another_number_of_moments_is_refused(tmp_path):
    path = tmp_path / "training"
    learner = embedding_learner(losses.NCA(), max_epochs=2, callbacks=[Checkpoint(path)])
    learner.fit(X, Y)
    metadata, state, arrays = contents(path.read_bytes())
    state["numbers"]["moments"] = 1
    del arrays["moment1"]
    rewritten(path, metadata, state, arrays)
    with pytest.raises(ValueError, match="moments cannot be 1"):
        learner.fit(X, Y)


@pytest.mark.parametrize(
    ("learner", "error", "message"),
    [
        (mf.NCA(max_iter=0, solver="adam"), ValueError, "max_iter"),
        (embedding_learner(losses.NCA(), max_epochs=0, solver="lbfgs"), ValueError, "max_epochs"),
        (
            mf.NCA(solver=type("Still", (MiniBatchSolver,), {})()),
            NotImplementedError,
            "define step",
        ),
    ],
    ids=str,
)
def test_what_a_solver_cannot_do_is_told(learner, error, message):
    with pytest.raises(error, match=message):
        learner.fit(X, Y)


STOPPING = [mf.NCA(solver="adam"), EMBEDDING, mf.NCA(), mf.AsymmetricSimilarity()]


@pytest.mark.parametrize("learner", STOPPING, ids=str)
def test_a_training_that_has_stopped_early_stays_so(learner, tmp_path):
    lengths = {"max_epochs": 60, "max_iter": 60, "patience": 1}
    model = of(learner, early_stopping=True, checkpoint=tmp_path / "training", **lengths)
    curve = model.fit(X, Y).loss_curve_
    assert len(curve) < 60
    assert model.fit(X, Y).loss_curve_ == curve
