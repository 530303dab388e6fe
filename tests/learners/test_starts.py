"""Choice of the start and of the number of iterations by the data."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from trained import configured

import metricfast as mf
from metricfast import losses
from metricfast._core.arrays import as_threads
from metricfast._core.scatter import local_scatters
from metricfast.embeddings import Linear
from metricfast.neighbors import kneighbors
from metricfast.selection import Judge
from metricfast.solvers import Adam
from metricfast.training import model_selection, starts
from metricfast.training.history import DivergedError
from metricfast.training.model_selection import Candidates, select_training
from metricfast.training.problem import Problem
from metricfast.training.samples import Samples
from metricfast.training.starts import DISCRIMINANTS, STARTS, choose_scale, sample_points, spread

X, Y = load_iris(return_X_y=True)
WINE, KINDS = load_wine(return_X_y=True)
# Deliberately too few iterations.
POINTS = Samples(X, Y, np.arange(3), np.arange(150) % 2.0, 0)
few = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
given_up = pytest.mark.filterwarnings("ignore:Learning was not better")


@pytest.mark.parametrize("best", [0.3, 1.0, 2.0**4])
def test_the_scale_of_the_lowest_objective_is_found(best):
    tried = []

    def evaluate(loss, arrays, batch, part=None):
        (L,) = arrays
        tried.append(L)
        return float((np.log2(np.diag(L) / best / [4, 1, 1, 1]) ** 2).sum()), [L]

    starts = [np.eye(4), np.diag([4.0, 1, 1, 1])]
    problem = Problem(POINTS, losses.NCA(), evaluate=evaluate)
    form, found = choose_scale(problem, starts, sample_points(POINTS))
    wanted = spread(best * starts[1], X, None, sample_points(POINTS).rows)
    assert form == 1
    np.testing.assert_allclose(found, wanted, rtol=0.1)
    assert len(tried) < 50


def test_points_of_no_weight_tell_nothing_of_the_start():
    assert (sample_points(POINTS).rows % 2 == 1).all()


def test_starts_use_the_threads_of_the_learner(monkeypatch):
    used, before = [], as_threads(None)

    def noted(*given):
        used.append(as_threads(None))
        return local_scatters(*given)

    monkeypatch.setattr(starts, "local_scatters", noted)
    mf.NCA(n_jobs=3, max_iter=3).fit(X, Y)
    assert set(used) == {3}
    assert as_threads(None) == before


@few
def test_without_a_scale_it_starts_where_init_says():
    named = mf.NCA(init="identity", init_scale=None, max_iter=3).fit(X, Y)
    given = mf.NCA(init=np.eye(4), max_iter=3).fit(X, Y)
    np.testing.assert_array_equal(named.components_, given.components_)


@few
def test_features_of_unlike_units_are_standardized():
    steps = []
    model = mf.NCA(init_scale="auto", judge=Judge())
    note = [lambda state: steps.append(state.components)]
    clone(model).set_params(max_iter=1, judge=None, callbacks=note).fit(WINE, KINDS)
    size = np.linalg.norm(steps[0], axis=0)
    deviation = WINE.std(axis=0)
    assert (size * deviation).max() < 10 * (size * deviation).min()
    assert model.fit(WINE, KINDS, validate=True).validation_.costs[1] < 0.1


@pytest.mark.parametrize("value", ["pca", 2, True])
def test_unknown_scales_are_refused(value):
    with pytest.raises(ValueError, match="init_scale"):
        mf.NCA(init_scale=value).fit(X, Y)


FOLDED = [mf.NCA(judge=Judge()), mf.MCML(judge=Judge()), mf.LDML(judge=Judge())]
FOLDED += [mf.NCMML(judge=Judge()), mf.LMNN(judge=Judge())]
SGD = {"solver": Adam(learning_rate=0.1, max_epochs=15), "random_state": 0}
FOLDED += [mf.NeighborhoodGerrymandering(judge=Judge(), random_state=0)]
FOLDED += [mf.NCA(**SGD, judge=Judge())]
folded = pytest.mark.parametrize("learner", FOLDED, ids=lambda model: type(model).__name__)


@few
@given_up
@folded
def test_noise_is_hardly_trained_on(learner):
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(120, 6)), rng.integers(2, size=120)
    model = clone(learner).fit(points, labels)
    long = clone(learner).set_params(judge=None).fit(points, labels)
    assert model.n_iter_ <= long.n_iter_
    assert np.isfinite(model.objective_) and len(model.loss_curve_) == model.n_iter_


@few
@pytest.mark.parametrize("learner", FOLDED[:-1], ids=lambda model: type(model).__name__)
def test_what_helps_is_trained_on(learner):
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.normal(size=(200, 8)), np.repeat([0.0, 1.0], 100)])
    points[:, 8] += 0.1 * rng.normal(size=200)
    model = clone(learner).set_params(init="identity").fit(points[::2], np.repeat([0, 1], 50))
    weights = np.diag(model.get_mahalanobis_matrix())
    assert model.n_iter_ > 0
    assert weights[8] > 3 * weights[:8].max()


@few
@given_up
@folded
@pytest.mark.parametrize(("before", "kept"), [(0.1, True), (0.2, False), (0.3, False)])
def test_a_start_that_is_better_is_kept(learner, before, kept, monkeypatch):
    def costs(candidates, solver, split, start, *, trained=True):
        n = len(split.part.weight)
        shares = [[before], [0.2], [0.2]] if trained else [[1]]
        return (np.arange(n) < n * np.array(shares)).astype(float)

    monkeypatch.setattr(model_selection, "_costs", costs)
    model = clone(learner).set_params(init="identity").fit(X, Y)
    assert model.n_iter_ <= 2 or not kept  # LDML optimises a bias
    L = model.components_ / np.abs(model.components_).max()
    assert np.allclose(L, np.eye(len(L))) == kept
    assert np.isfinite(model.objective_) and len(model.loss_curve_) == model.n_iter_


@pytest.mark.parametrize("learner", [mf.NCA(), mf.LMNN(n_neighbors=1), mf.NCMML(), mf.LDML()])
def test_without_enough_points_to_hold_out_the_given_distance_stays(learner):
    with pytest.warns(UserWarning, match="Nothing could be held out to judge by"):
        model = clone(learner).fit(X[[0, 1, 50, 51]], [0, 0, 1, 1])
    L = model.components_
    np.testing.assert_allclose(L, L[0, 0] * np.eye(4), atol=1e-12)
    assert model.judgement_.n_held_out == 0 and model.judgement_.name == "given distance"


@few
def test_a_regression_is_not_worse_than_its_start():
    """Training until convergence overfits few points: .28 instead of .41."""
    points, target = load_diabetes(return_X_y=True)
    neighbors = KNeighborsRegressor(5)
    plain = cross_val_score(neighbors, scale(points), target).mean()
    learned = make_pipeline(StandardScaler(), mf.MLKR(), neighbors)
    assert cross_val_score(learned, points, target).mean() > plain
    long = make_pipeline(StandardScaler(), mf.MLKR(judge=None), neighbors)
    assert cross_val_score(long, points, target).mean() < plain


def selected(learner, data):
    plan = learner._plan()
    candidates = learner._candidates(plan, data)
    return select_training(candidates, data, plan.judge, plan.solver)


@few
@pytest.mark.parametrize(
    "learner", [mf.NCA(), mf.LMNN(), mf.NeighborhoodGerrymandering(random_state=0)]
)
def test_auto_makes_folds_where_they_can_be(learner):
    learner = clone(learner).set_params(judge="auto").fit(X, Y)
    folds = clone(learner).set_params(judge=Judge()).fit(X, Y)
    np.testing.assert_array_equal(learner.components_, folds.components_)


@few
def test_auto_trains_mini_batches_to_the_end():
    assert mf.NCA(solver=Adam(max_epochs=7), random_state=0).fit(X, Y).n_iter_ == 7


@few
def test_embeddings_may_start_from_standardized_features():
    """The class is in a feature of small unit, which cosines of the given points do not see."""
    rng, labels = np.random.default_rng(0), np.repeat([0, 1, 2], 60)
    points = rng.normal(size=(180, 4))
    points[:, 0] += 3 * labels
    learner = mf.EmbeddingLearner(losses.SupCon(), random_state=0)
    alike = learner.fit(points, labels).judgement_
    assert not any(name.startswith("standardized") for name in alike.names)
    found = learner.fit(points * [1, 1e3, 1e3, 1e3], labels).judgement_
    assert found.name.startswith("standardized") and found.costs[found.chosen] < 0.3
    fewer = learner.set_params(embedding=Linear(2)).fit(points * [1, 1e3, 1e3, 1e3], labels)
    assert not any(name.startswith("standardized") for name in fewer.judgement_.names)


@few
@given_up
@pytest.mark.parametrize(
    "learner", [mf.NCA(), mf.LMNN(), mf.NeighborhoodGerrymandering(random_state=0)]
)
def test_other_starts_are_tried(learner):
    rng = np.random.default_rng(0)
    labels, points = np.repeat([0, 1], 100), rng.normal(size=(200, 6))
    points[:, 0] = points[:, 1:].sum(axis=1) + 0.1 * rng.normal(size=200) + 0.5 * labels
    data = Samples(points - points.mean(axis=0), labels, np.arange(2), None, 0)
    learner = clone(learner).set_params(judge=None).fit(points, labels)
    assert selected(learner.set_params(judge="auto"), data)[0] == "discriminant"
    assert selected(learner.set_params(init="identity"), data)[0] is None


BY_FOLDS = pytest.mark.parametrize(
    "learner",
    [
        *(learner(judge="auto", init_scale="auto") for learner in (mf.NCA, mf.MCML)),
        mf.LMNN(judge="auto"),
        mf.NeighborhoodGerrymandering(judge="auto", random_state=0, solver=Adam(max_epochs=4)),
    ],
    ids=lambda model: type(model).__name__,
)


@few
@pytest.mark.filterwarnings("ignore:No set of n_neighbors=3 neighbours is right for 1 of")
@BY_FOLDS
def test_folds_serve_all_kinds_of_points(learner, tmp_path):
    learner, weight = clone(learner), np.arange(150) % 3
    learner.fit(X.astype(np.float32), Y, sample_weight=weight)
    assert learner.components_.dtype == np.float32
    rare = np.r_[Y[:149], 7]  # the only point of its class
    labels = rare if not isinstance(learner, mf.LMNN) else Y
    short = configured(learner, max_epochs=1, max_iter=1, warm_start=True)
    short = short.fit(csr_array(X), labels)
    assert short.fit(csr_array(X), labels).n_iter_ <= 1
    kept = configured(learner, checkpoint=tmp_path / "it").fit(X, Y)
    again = clone(kept).fit(X, Y)
    np.testing.assert_array_equal(again.components_, kept.components_)
    stopped = clone(learner).set_params(callbacks=[lambda state: True]).fit(X, Y)
    assert stopped.n_iter_ <= 1


def choose(costs, monkeypatch, contest=()):
    """Return the choice by made-up costs in two splits of 40 points, and the starts tried."""
    part = SimpleNamespace(weight=np.ones(40), unit="points")
    tried = []

    def found(candidates, solver, split, start, *, trained=True):
        if start == "given":
            return np.ones((1, 40))
        if isinstance(costs[start], Exception):
            tried.append(start)
            raise costs[start]
        tried.extend([start] * trained)
        rows = (np.arange(40) < 40 * np.array(costs[start])[:, None]).astype(float)
        return rows if trained else rows[:1]

    monkeypatch.setattr(model_selection, "_costs", found)
    monkeypatch.setattr(
        model_selection, "splits_of", lambda *_, **how: [SimpleNamespace(part=part)] * 2
    )
    names = [name for name in costs if name not in contest]
    candidates = Candidates(None, names, "given", contest)
    samples = SimpleNamespace(kind="classes", distance=None)
    return model_selection.select_training(candidates, samples, Judge(), None), tried


def test_starts_far_behind_are_given_up(monkeypatch):
    costs = {None: [0.1, 0.05], "discriminant": [0.9, 0.8]}
    (start, n_iter, judgement), tried = choose(costs, monkeypatch)
    assert tried == [None, "discriminant", None]
    assert (start, n_iter) == (None, 1)
    assert not any("discriminant" in name for name in judgement.names)


@pytest.mark.parametrize("error", [ValueError(), DivergedError(), np.linalg.LinAlgError()])
def test_a_start_that_fails_has_lost(error, monkeypatch):
    (start, *_), tried = choose({None: error, "discriminant": [0.4, 0.3]}, monkeypatch)
    assert tried == [None, "discriminant", "discriminant"]
    assert start == "discriminant"


def test_of_a_contest_only_the_best_is_trained(monkeypatch):
    costs = {None: [0.5, 0.5], "first": [0.4, 0.1], "second": [0.3, 0.2]}
    (start, *_), tried = choose(costs, monkeypatch, contest=["first", "second"])
    assert start == "second" and "first" not in tried


def local_sums(Z, y, weight):
    """Return the sums of weighted outer products that `LFDA` describes, within and in all."""
    n, sizes = weight.sum(), np.bincount(y, weight)
    distances = np.linalg.norm(Z[:, None] - Z, axis=2)
    scale = np.empty(len(Z))
    for i, row in enumerate(distances):
        own = np.flatnonzero(y == y[i])
        order = own[np.argsort(row[own])]
        copies = weight[order] - (order == i)
        reached = np.flatnonzero(copies.cumsum() >= 7)
        scale[i] = row[order[reached[0] if len(reached) else -1]]
    within, total = np.zeros((2, *[Z.shape[1]] * 2))
    for i in range(len(Z)):
        for j in range(len(Z)):
            outer = np.outer(Z[i] - Z[j], Z[i] - Z[j]) * weight[i] * weight[j] / 2
            if y[i] == y[j]:
                near = np.exp(-(distances[i, j] ** 2) / (scale[i] * scale[j]))
                within += near / sizes[y[i]] * outer
                total += near / n * outer
            else:
                total += outer / n
    return within, total


@pytest.mark.parametrize("n", [60, 20])  # 20 points of 30 features
@pytest.mark.parametrize(
    ("name", "share"), list(zip(DISCRIMINANTS, [0, 0.3, 0.6, 0.6], strict=True))
)
def test_a_discriminant_start_is_what_its_formula_says(name, share, n):
    rng = np.random.default_rng(0)
    labels, scales = np.arange(n) % 3, rng.uniform(0.3, 3, 30)
    points = (rng.normal(size=(n, 30)) + 2 * np.eye(3, 30)[labels]) * scales
    points -= points.mean(axis=0)
    weight = rng.integers(1, 4, n).astype(float)
    L = STARTS[name](Samples(points, labels, np.arange(3), weight), 30)
    mean = np.average(points, axis=0, weights=weight)
    units = np.sqrt(np.average((points - mean) ** 2, axis=0, weights=weight))
    if "identity" in name:
        units[:] = 1
    Z = points / units
    within, total = local_sums(Z, labels, weight)
    target = total / np.trace(total) if "total" in name else np.eye(30) / 30
    S = (1 - share) * within + share * np.trace(within) * target
    S += 1e-6 * np.trace(total) * np.eye(30) / 30
    ratios, vectors = eigh(total, S)
    directions = vectors * np.sqrt(np.maximum(ratios - 1, 0)) / units[:, None]
    found = L / np.linalg.norm(L)
    wanted = directions.T / np.linalg.norm(directions)
    np.testing.assert_allclose(found.T @ found, wanted.T @ wanted, atol=1e-6)


def test_pairs_of_views_are_judged_though_a_start_overflows():
    """Standardising the features that hardly vary makes distances overflow in some fold."""
    rng = np.random.default_rng(0)
    centres, labels = rng.normal(size=(120, 60)), np.repeat(np.arange(120), 2)
    points = centres[labels] + 0.8 * rng.normal(size=(240, 60))
    points[:, :3] = 0
    points[::7, :3] = 1e-22 * rng.normal(size=(35, 3))
    points = points.astype(np.float32)
    known = labels < 60
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mf.LMNN(n_neighbors=1).fit(points[known], labels[known])
    assert model.judgement_.n_held_out == 120

    def share_found(Z):
        return np.mean(labels[~known][kneighbors(Z, n_neighbors=1)[1][:, 0]] == labels[~known])

    assert share_found(model.transform(points[~known])) >= share_found(points[~known]) - 0.02
