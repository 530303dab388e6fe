"""Common behaviour of learners of a linear map."""

from __future__ import annotations

import numpy as np
import pytest
import reference_losses as reference
from reference import numeric_gradient
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.preprocessing import scale

from metricfast import LDML, LMNN, MCML, MLKR, NCA, NCMML, kneighbors, losses
from metricfast.learners import trained
from metricfast.learners.linear import LinearLearner
from metricfast.solvers import Adam
from metricfast.training import samples
from metricfast.training.objective import Objective
from metricfast.training.preconditioner import Preconditioner
from metricfast.training.problem import Problem
from metricfast.training.samples import Samples
from metricfast.training.starts import best_scale

X, Y = load_iris(return_X_y=True)
LEARNERS = (NCA, LMNN, MLKR, MCML, LDML)
RNG = np.random.default_rng(0)
SCATTERS = {
    "none": None,
    "full": np.cov(X.T),
    "singular": np.diag([1.0, 0.0, 2.0, 0.0]),
    "diagonal": np.array([1.0, 0.0, 100.0, 1e-9]),
    "zero": np.zeros((4, 4)),
}


@pytest.mark.parametrize("scatter", SCATTERS.values(), ids=SCATTERS)
def test_coordinates_are_a_change_of_variables(scatter):
    coordinates = Preconditioner(4, scatter)
    L = RNG.normal(size=(2, 4))
    vector = coordinates.vector([L])
    assert vector.shape == (8,)
    if scatter is None:
        np.testing.assert_array_equal(vector, L.ravel())
    np.testing.assert_allclose(coordinates.arrays(vector)[0], L, rtol=1e-9, atol=1e-12)
    samples = Samples(X[::3], Y[::3], np.arange(3))
    objective = Objective(Problem(samples, losses.NCA(), preconditioner=coordinates), [L])
    np.testing.assert_allclose(
        objective(vector)[1],
        numeric_gradient(lambda v: objective(v)[0], vector, 1e-5),
        rtol=1e-4,
        atol=1e-6,
    )


@pytest.mark.parametrize("scatter", SCATTERS.values(), ids=SCATTERS)
def test_coordinates_are_converted_in_the_precision_of_the_points(scatter):
    exact, rounded = Preconditioner(4, scatter), Preconditioner(4, scatter, np.float32)
    L, G = RNG.normal(size=(2, 2, 4))
    vector = rounded.vector([L])
    np.testing.assert_array_equal(vector, exact.vector([L]))
    assert (rounded.arrays(vector)[0] * G).sum() == pytest.approx((L * G).sum(), rel=1e-5)
    assert rounded.pullback([G]) @ vector == pytest.approx((L * G).sum(), rel=1e-5)
    assert rounded._inverse.dtype == np.float32


def test_coordinates_even_out_the_curvature():
    scatter = np.cov(X.T)
    coordinates = Preconditioner(4, scatter)
    K = coordinates.vector([np.eye(4)]).reshape(4, 4)
    np.testing.assert_allclose(
        K @ K.T, scatter / np.diag(scatter).mean() + 0.03 * np.eye(4), atol=1e-12
    )


def test_best_scale_passes_over_what_is_not_finite():
    assert best_scale(lambda s: np.nan if s > 4 else (np.log2(s) - 7) ** 2) == 4
    assert best_scale(lambda s: abs(np.log2(s) - 5.375)) == 2**5.375
    assert best_scale(lambda s: abs(np.log2(s) + 3)) == 0.125


def short(solver, max_epochs=2):
    """Return parameters of a training to the end."""
    chosen = Adam(max_epochs=max_epochs) if solver == "adam" else solver
    return {"solver": chosen, "random_state": 0, "judge": None}


@pytest.mark.parametrize("solver", ["lbfgs", "adam"])
@pytest.mark.parametrize("learner", LEARNERS)
class TestEveryLearner:
    def test_the_same_seed_gives_the_same_map(self, learner, solver):
        def components(seed):
            how = short(solver) | {"init": "random", "n_components": 2, "random_state": seed}
            return learner(**how).fit(X, Y).components_

        np.testing.assert_array_equal(components(0), components(0))
        assert not np.array_equal(components(0), components(1))

    def test_float32(self, learner, solver):
        model = learner(**short(solver, 50) | {"n_components": 2})
        single, double = (
            clone(model).fit(X.astype(dtype), Y) for dtype in (np.float32, np.float64)
        )
        assert single.components_.dtype == np.float32
        assert single.objective_ == pytest.approx(double.objective_, rel=2e-2, abs=1e-5)

    def test_n_components_of_a_given_init(self, learner, solver):
        model = learner(init=np.eye(4)[:2], **short(solver, 1), callbacks=[bool]).fit(X, Y)
        assert model.components_.shape == (2, 4)

    @pytest.mark.parametrize(
        ("dtype", "factors"),
        [(np.float64, [1e-300, 1e-3, 1e3, 1e150]), (np.float32, [1e-36, 1e30])],
    )
    def test_any_scale_is_learned_as_well(self, learner, solver, dtype, factors):
        points = scale(X)
        settings = short(solver, 10)
        if learner is LMNN:
            settings["target_refresh"] = 0  # searching for new targets gives more local minima
        expected = learner(**settings).fit(points.astype(dtype), Y)
        for factor in factors:
            if learner in (NCA, MLKR) and solver == "lbfgs" and factor == 1e3:
                continue  # the softmax starts as a step function, as in metric-learn
            given = (points * factor).astype(dtype)
            model = learner(**settings).fit(given, Y)
            # In other units, the start may lead to another local minimum.
            worst = expected.objective_ + 0.03 * abs(expected.objective_)
            assert np.isfinite(model.components_).all()
            assert model.objective_ <= worst, factor
            embedded = given.astype(np.float64) @ model.components_.T.astype(np.float64)
            assert training_error(embedded) < 0.08, factor

    def test_a_given_map_is_in_the_units_of_the_points(self, learner, solver):
        start, unit = np.eye(4)[:2], 2.0**40
        states: list = []
        settings = short(solver) | {"callbacks": [states.append]}
        learner(init=start, **settings).fit(X, Y)
        usual, states[:] = states[0].objective, []
        learner(init=start / unit, **settings).fit(X * unit, Y)
        assert states[0].objective == pytest.approx(usual, rel=1e-3)

    def test_an_interrupt_before_the_solver_leaves_the_initial_map(
        self, learner, solver, monkeypatch
    ):
        model = learner(**short(solver)).fit(X[:, :3], Y)
        monkeypatch.setattr(trained, "train", interrupt)
        monkeypatch.setattr(losses.LMNN, "find_targets", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, Y)
        np.testing.assert_array_equal(model.transform(X), X)
        assert not hasattr(model, "objective_")

    def test_an_interrupt_before_there_is_a_map_leaves_none(self, learner, solver, monkeypatch):
        model = learner(**short(solver)).fit(X[:, :3], Y)
        monkeypatch.setattr(samples, "center_and_rescale", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, Y)
        with pytest.raises(NotFittedError):
            model.transform(X)


def interrupt(*_, **__):
    raise KeyboardInterrupt


def training_error(Z) -> float:
    nearest = kneighbors(Z, n_neighbors=1)[1][:, 0]
    return float(np.mean(Y[nearest] != Y))


@pytest.mark.parametrize("learner", [NCA, MLKR])
def test_a_start_without_a_slope_warns(learner):
    with pytest.warns(ConvergenceWarning, match="no slope at the initial map"):
        model = learner(init_scale=None, judge=None).fit(scale(X) * 1000, Y)
    assert model.n_iter_ == 1


def test_a_start_that_leaves_nothing_to_learn_does_not():
    separate = np.c_[Y * 1e3]
    assert NCA().fit(separate, Y).objective_ == pytest.approx(-150)  # the optimum


REFERENCES = {
    NCA: lambda model: reference.nca(),
    MLKR: lambda model: reference.mlkr(),
    MCML: lambda model: reference.mcml(),
    LDML: lambda model: reference.ldml(model.bias_),
}


@pytest.mark.parametrize("learner", REFERENCES)
def test_the_objective_is_that_of_the_definition(learner):
    stop = [lambda s: s.iteration == 20]
    model = learner(n_components=2, callbacks=stop, judge=None).fit(scale(X), Y)
    expected = reference.on_itself(REFERENCES[learner](model))(model.transform(scale(X)), Y)
    assert model.objective_ == pytest.approx(expected, rel=1e-9)
    assert model.objective_ == min(model.loss_curve_)


@pytest.mark.filterwarnings("ignore:No training was better than none")
@pytest.mark.parametrize(
    ("learner", "init"),
    [(NCA, "pca"), (NCA, "lda"), (NCA, "identity"), (LDML, "pca"), (NCMML, "pca")],
)
def test_whole_weights_mean_repetition(learner, init):
    weight, stop = np.random.default_rng(0).integers(0, 4, len(X)), lambda s: s.iteration == 5
    model = learner(init=init, n_components=2, callbacks=[stop])
    repeated = clone(model).fit(np.repeat(scale(X), weight, axis=0), np.repeat(Y, weight))
    model.fit(scale(X), Y, sample_weight=weight)
    np.testing.assert_allclose(model.components_, repeated.components_, rtol=1e-6, atol=1e-8)
    assert model.objective_ == pytest.approx(repeated.objective_)
    if learner is LDML:
        assert model.bias_ == pytest.approx(repeated.bias_)


class Few(LinearLearner):
    """A user's learner with few parameters."""

    def __init__(self, n_components=None):
        self.n_components = n_components

    def _problem(self, data):
        return Problem(data, losses.MCML())


def test_a_learner_has_the_defaults_of_parameters_that_it_does_not_take():
    found = Few(2).fit(scale(X), Y, validate=True)
    assert found.get_params() == {"n_components": 2}
    assert found.validation_.n_held_out == 30
    assert found.objective_ < found.loss_curve_[0] / 2


class Spread(Few):
    """A learner that minimises a user's function."""

    def _problem(self, data):
        return Problem(data, lambda Z, y: (-float(np.abs(Z).sum()), -np.sign(Z)))


class Weighed(Few):
    """A learner that minimises a user's function with weights."""

    def _problem(self, data):
        def loss(Z, y, sample_weight):
            pull = sample_weight[:, None] * Z
            return float((pull * Z).sum()) / 2, pull

        return Problem(data, loss)


def test_weights_reach_a_function_that_takes_them():
    weight = np.arange(len(X)) % 3.0
    model = Weighed(2).fit(X, Y, weight)
    Z = model.transform(X) - model.transform(X).mean(axis=0)
    assert model.objective_ == pytest.approx(float(weight @ (Z**2).sum(axis=1)) / 2)


def test_weights_are_refused_where_a_loss_is_a_function():
    with pytest.raises(ValueError, match="sample_weight must be None"):
        Spread(2).fit(X, Y, np.ones(len(X)))
