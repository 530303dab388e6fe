from __future__ import annotations

import importlib
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from metricfast import NCA
from metricfast._core.progress import Progress
from metricfast.samplers import class_batches
from metricfast.training.history import History
from metricfast.training.lbfgs import minimize_hinge
from metricfast.training.problem import Traits
from metricfast.training.solvers import LBFGS, SGD, Adam, AdamW
from metricfast.training.steps import minimize_minibatch, run_epoch

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(40, 6)), RNG.normal(size=40)
START = RNG.normal(size=6)


def least_squares(x):
    residual = A @ x - B
    return residual @ residual, 2 * A.T @ residual


def least_deviations(x):
    residual = A @ x - B
    return np.abs(residual).sum(), A.T @ np.sign(residual)


def minimize_smooth(function, history, **params):
    def problem(x):
        return function(x)

    problem.traits, problem.X = Traits(), A
    LBFGS(**params).minimize(problem, history)


def smallest_deviations() -> float:
    """Return the minimum sum of absolute residuals, by linear programming."""
    n, d = A.shape
    return linprog(
        np.r_[np.zeros(d), np.ones(n)],
        A_ub=np.block([[A, -np.eye(n)], [-A, -np.eye(n)]]),
        b_ub=np.r_[B, -B],
        bounds=[(None, None)] * d + [(0, None)] * n,
    ).fun


def test_a_history_keeps_a_copy_of_the_best_since_its_restart():
    history, x = History(START), np.zeros(1)
    for value in (3.0, 1.0, 2.0):
        x[:] = -value
        history(value, x)
    assert (history.best_value, history.best_x[0]) == (1, -1)
    history.restart(np.array([7.0]))
    assert history.best_x[0] == 7
    history(9.0, x)
    assert history.best_value == 9
    assert history.curve == [3, 1, 2, 9]


def test_smooth_finds_the_least_squares_solution():
    monitor = History(START)
    minimize_smooth(least_squares, monitor, max_iter=100, tol=1e-12)
    np.testing.assert_allclose(monitor.best_x, np.linalg.lstsq(A, B, rcond=None)[0], atol=1e-5)
    assert monitor.curve == sorted(monitor.curve, reverse=True)


@pytest.mark.parametrize("hinge", [False, True])
def test_cap_warns_and_an_observer_stops_silently(hinge):
    def run(monitor, max_iter):
        if hinge:
            minimize_hinge(least_deviations, START, monitor, min_iter=9, max_iter=max_iter, tol=0)
        else:
            minimize_smooth(least_squares, monitor, max_iter=max_iter)

    with pytest.warns(ConvergenceWarning):
        run(History(START), 2)
    monitor = History(START, lambda iteration, value, x: iteration == 3)
    run(monitor, 100)
    assert monitor.stopped
    assert len(monitor.curve) == 3


def test_smooth_says_what_to_change():
    with pytest.warns(ConvergenceWarning, match=r"^L-BFGS stopped after 2 .*: raise max_iter, or"):
        minimize_smooth(least_squares, History(START), max_iter=2)

    def lowest_at_start(x):
        return float((x != START).any()), np.ones_like(START)

    with pytest.warns(ConvergenceWarning, match="no lower objective: rescale the points.$"):
        minimize_smooth(lowest_at_start, History(START), max_iter=9)


def test_hinge_reaches_the_minimum_of_a_piecewise_linear_function():
    monitor = History(START)
    minimize_hinge(least_deviations, START, monitor, min_iter=100, max_iter=500, tol=1e-7)
    assert monitor.best_value == pytest.approx(smallest_deviations(), rel=1e-3)
    assert len(monitor.curve) >= 100


def test_hinge_stops_on_the_relative_decrease():
    rough, fine = History(START), History(START)
    minimize_hinge(least_squares, START, rough, min_iter=0, max_iter=500, tol=1e-2)
    minimize_hinge(least_squares, START, fine, min_iter=0, max_iter=500, tol=1e-9)
    assert 5 <= len(rough.curve) < len(fine.curve) < 500
    scaled = History(START)
    minimize_hinge(
        lambda x: tuple(1024 * v for v in least_squares(x)), START, scaled,
        min_iter=0, max_iter=500, tol=1e-2,
    )  # fmt: skip
    assert len(scaled.curve) == len(rough.curve)


def test_hinge_ends_where_there_is_no_gradient():
    monitor = History(START)
    minimize_hinge(
        lambda x: (0.0, np.zeros_like(x)), START, monitor, min_iter=50, max_iter=100, tol=0
    )
    assert monitor.curve == [0]
    assert monitor.best_value == 0
    monitor(9.0, START)
    monitor.restart(START)
    minimize_hinge(
        lambda x: (5.0, np.zeros_like(x)), START, monitor, min_iter=50, max_iter=100, tol=0
    )
    assert monitor.best_objective == 5


def test_hinge_reaches_zero_of_a_sum_of_hinges_and_ends():
    def hinges(x):
        active = x + 1 > 0
        return float((x + 1)[active].sum()), active.astype(float)

    monitor = History(START)
    minimize_hinge(hinges, START, monitor, min_iter=50, max_iter=1000, tol=1e-3)
    assert monitor.best_value == 0


def test_hinge_ends_where_a_refresh_lowers_the_value_little():
    latent, monitor = [1.0], History(START)

    def function(x):
        value, gradient = least_squares(x)
        return value + latent[0], gradient

    def refresh(x):
        latent[0] /= 2

    minimize_hinge(
        function, START, monitor, min_iter=0, max_iter=500, tol=1e-2, refresh=refresh,
        refresh_every=1000,
    )  # fmt: skip
    assert latent[0] <= 1e-2 * monitor.best_objective < 2 * latent[0]


def test_line_search_failure_restarts_once_then_warns():
    calls = []

    def uphill(x):
        calls.append(x)
        return x @ x, -2 * x

    monitor = History(START)
    with pytest.warns(ConvergenceWarning, match="line search failed"):
        minimize_hinge(uphill, START, monitor, min_iter=0, max_iter=100, tol=0)
    assert len(calls) < 100

    def turning(x):
        value, gradient = least_squares(x)
        return value, gradient if len(monitor.curve) < 3 else -gradient

    monitor = History(START)
    with pytest.warns(ConvergenceWarning, match="line search failed"):
        minimize_hinge(turning, START, monitor, min_iter=100, max_iter=100, tol=0)
    assert monitor.curve


def test_hinge_backs_off_from_values_that_are_no_numbers():
    def guarded(x):
        value, gradient = least_squares(x)
        return (np.nan if np.abs(x - START).max() > 0.3 else value), gradient

    monitor = History(START)
    with pytest.warns(ConvergenceWarning):
        minimize_hinge(guarded, START, monitor, min_iter=0, max_iter=5, tol=0)
    assert np.isfinite(monitor.best_value)
    assert monitor.best_value < least_squares(START)[0]


def batch(x, rows):
    residual = A[rows] @ x - B[rows]
    return residual @ residual, 2 * A[rows].T @ residual


def quarters():
    return np.arange(40).reshape(4, 10)


def relative_steps(learning_rate, max_epochs, start=START):
    """Return the steps of Adam for a scale-invariant problem."""
    problem = SimpleNamespace(traits=Traits(), runs=lambda decay: [(slice(None), decay, 1.0)])
    return Adam(learning_rate).steps(problem, start, max_epochs)


def test_minibatch_approaches_the_least_squares_solution():
    monitor = History(START)
    minimize_minibatch(batch, quarters, monitor, max_epochs=300, steps=relative_steps(0.05, 300))
    optimum = np.linalg.lstsq(A, B, rcond=None)[0]
    assert least_squares(monitor.best_x)[0] < 1.01 * least_squares(optimum)[0]
    assert len(monitor.curve) == 300


def test_minibatch_does_not_depend_on_the_units():
    monitor, scaled = History(START), History(1e6 * START)
    minimize_minibatch(batch, quarters, monitor, max_epochs=3, steps=relative_steps(0.1, 3))
    minimize_minibatch(
        lambda x, rows: (batch(x / 1e6, rows)[0], batch(x / 1e6, rows)[1] / 1e6),
        quarters, scaled, max_epochs=3, steps=relative_steps(0.1, 3, 1e6 * START),
    )  # fmt: skip
    np.testing.assert_allclose(scaled.best_x, 1e6 * monitor.best_x, rtol=1e-9)
    np.testing.assert_allclose(scaled.curve, monitor.curve)


def test_minibatch_leaves_parameters_without_gradient_alone():
    monitor = History(START)
    minimize_minibatch(
        lambda x, rows: (x[0] ** 2, np.r_[2 * x[0], np.zeros(5)]),
        quarters, monitor, max_epochs=2, steps=relative_steps(0.1, 2),
    )  # fmt: skip
    np.testing.assert_array_equal(monitor.best_x[1:], START[1:])
    assert abs(monitor.best_x[0]) < abs(START[0])


@pytest.mark.parametrize("decoupled", [False, True])
def test_adam_takes_the_steps_of_pytorch(decoupled):
    torch = pytest.importorskip("torch")
    x, decay = START, 0.3
    theirs = torch.tensor(x, requires_grad=True)
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    optimizer = kind([theirs], lr=0.05, weight_decay=decay)
    moments = [np.zeros(6), np.zeros(6)]
    for step in range(1, 30):
        gradient = batch(x, np.arange(step % 7, 40))[1]
        theirs.grad = torch.tensor(gradient)
        optimizer.step()
        x = (AdamW if decoupled else Adam)().step(x, gradient, moments, 0.05, decay, step)
        np.testing.assert_allclose(x, theirs.detach().numpy(), rtol=1e-12, atol=1e-14)


def test_decoupled_decay_shrinks_what_has_no_gradient():
    still, moments = np.zeros(6), [np.zeros(6), np.zeros(6)]
    moved = AdamW().step(START, still, moments, 0.05, 0.3, 1)
    np.testing.assert_allclose(moved, START * (1 - 0.05 * 0.3), rtol=1e-15)


def test_a_step_of_the_user_replaces_that_of_adam():
    class Doubling(Adam):
        def step(self, x, gradient, moments, rate, decay, t):
            return 2 * x

    X, y = np.r_[A[:20], A[20:] + 1], np.repeat([0, 1], 20)
    solver = Doubling(batch_size=20, max_epochs=3)
    nca = NCA(init=np.eye(6), solver=solver, judge=None, random_state=0)
    learned = nca.fit(X, y)
    others = np.eye(6) * learned.components_[0, 0]
    np.testing.assert_allclose(learned.components_, others)


def test_class_batches_partition_and_keep_company():
    labels = np.repeat(np.arange(200), 16)
    rng = np.random.RandomState(0)
    batches = class_batches(labels, 100, rng)
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), np.arange(labels.size))
    assert {len(b) for b in batches} == {100}
    alone = sum((np.bincount(labels[b]) == 1).sum() for b in batches)
    assert alone < 0.02 * labels.size
    again = class_batches(labels, 100, rng)
    assert not np.array_equal(batches[0], again[0])


@pytest.mark.parametrize("batch_size", [1, 7, 10, 1000])
def test_class_batches_of_any_size(batch_size):
    labels = np.array([0] * 7 + [1] * 2 + [3])
    batches = class_batches(labels, batch_size, np.random.RandomState(0))
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), np.arange(10))
    assert max(map(len, batches)) - min(map(len, batches)) <= 1
    assert max(map(len, batches)) <= batch_size


def test_progress_prints_lines_without_tqdm(monkeypatch, capsys):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    progress = Progress("NCA", 10)
    progress(1, -12.5)
    progress.close()
    output = capsys.readouterr()
    assert output.out == ""
    assert "[NCA] iteration 1: objective -12.5" in output.err


def test_progress_shows_a_bar_with_tqdm(capsys):
    progress = Progress("NCA", 10)
    progress(1, -12.5)
    progress.close()
    assert "1/10" in capsys.readouterr().err


@pytest.mark.parametrize(("solver", "factor"), [(Adam(), 1), (SGD(), 10)])
def test_the_default_rate_is_in_proportion_to_the_rate_of_the_problem(solver, factor):
    traits = Traits(learning_rate=0.02, relative_steps=False, schedule="constant")
    problem = SimpleNamespace(traits=traits, runs=lambda decay: ())
    assert solver.steps(problem, START, None).rate(0.0, 0) == pytest.approx(0.02 * factor)


def test_rates_see_the_part_of_the_epoch_that_has_passed():
    passed = []

    def moved(history, gradient, epoch):
        passed.append(epoch)
        return history.x

    steps = SimpleNamespace(n_moments=0, average=True, moved=moved)
    run_epoch(lambda x, batch: (1.0, np.ones_like(x)), [0, 1, 2, 3], History(START), steps)
    assert passed == [0, 0.25, 0.5, 0.75]
