"""Points of more features than points: training in their span gives the same map."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import metricfast.learners.linear as linear
from metricfast import LMNN, MCML, MLKR, NCA, NCMML, NeighborhoodGerrymandering
from metricfast.training.span import MapOfSpan, basis_of_span

RNG = np.random.default_rng(0)
N, D = 40, 90
Y = RNG.integers(0, 3, N)
X = RNG.normal(size=(N, D)) * RNG.uniform(0.2, 3, D) + 1.5 * np.eye(3, D)[Y]
STARTS = {
    "auto": {"early_stopping": "auto"},
    "identity": {"init": "identity"},
    "pca": {"init": "pca", "n_components": 5},
    "lda": {"init": "lda", "n_components": 2},
    "random": {"init": "random"},
    "a few random rows": {"init": "random", "n_components": 4},
    "array": {"init": RNG.normal(size=(7, D)) / 20},
    "validation points": {"init": "identity", "early_stopping": True},
}
few = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:The map fits:UserWarning"
)


OF_NUMBERS = [(MLKR, start) for start in STARTS if start != "lda"]


@few
@pytest.mark.parametrize(
    ("learner", "start"), [*product([LMNN, MCML, NCA, NCMML], STARTS), *OF_NUMBERS]
)
def test_the_map_is_that_of_training_on_all_features(learner, start, monkeypatch):
    few_steps = {"early_stopping": False, "max_iter": 5, "random_state": 0}
    model = learner(**few_steps | STARTS[start])
    found = model.fit(X, Y).components_
    monkeypatch.setattr(linear, "basis_of_span", lambda X: None)
    full = model.fit(X, Y).components_
    # MLKR takes the root of a singular scatter, which has half of the digits.
    precision = 1e-6 if learner is MLKR else 1e-9
    np.testing.assert_allclose(found, full, atol=precision * np.abs(full).max())


@few
def test_callbacks_and_later_fits_see_the_map_of_all_features():
    maps = []
    model = NCA(
        max_iter=3, early_stopping=False, warm_start=True,
        callbacks=[lambda state: maps.append(state.parameters[0])],
    )  # fmt: skip
    model.fit(X.astype(np.float32), Y)
    assert {L.shape for L in maps} == {(D, D)}
    first = model.components_
    assert first.dtype == np.float32
    second = model.fit(X.astype(np.float32), Y).components_
    outside = np.eye(D) - (Q := np.linalg.qr((X - X.mean(axis=0)).T)[0]) @ Q.T
    np.testing.assert_allclose(second @ outside, first @ outside, atol=1e-5)


def test_an_evaluation_sees_the_span_alone(monkeypatch):
    widths = []

    def problem(self, data):
        widths.append((data.X.shape[1], data.n_features))
        raise KeyboardInterrupt

    monkeypatch.setattr(LMNN, "_problem", problem)
    monkeypatch.setattr(NeighborhoodGerrymandering, "_problem", problem)
    for model in (LMNN(), LMNN(solver="adam"), NeighborhoodGerrymandering()):
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, Y)
    assert widths == [(N, D), (D, D), (D, D)]


def test_a_map_leaves_the_span_as_it_came():
    basis = basis_of_span(X)
    for rows in (3, D):
        L = RNG.normal(size=(rows, D))
        start = MapOfSpan(L, basis)
        np.testing.assert_allclose(start.outer(start.inner), L, atol=1e-12)
    assert basis_of_span(X.T) is None
