"""The cases of losses: definitions with right gradients, which all contestants agree with."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import embedding, losses, timing
from benchmarks.case import OURS, Outcome
from benchmarks.loss_definitions import DEFINITIONS
from benchmarks.targets import GrowthAtMost


@pytest.mark.parametrize("loss", DEFINITIONS)
def test_gradients_of_definitions(loss):
    arrays = losses.batch(24, continuous=loss == "LogRatio")
    z, y = arrays["Z"].astype(float), arrays["Y" if "Y" in arrays else "y"].astype(float)
    value, gradient = DEFINITIONS[loss](z, y)
    assert value > 0
    step = 1e-6
    for direction in np.random.default_rng(1).normal(size=(3, *z.shape)):
        above, below = (DEFINITIONS[loss](z + sign * step * direction, y)[0] for sign in (1, -1))
        slope = (above - below) / (2 * step)
        assert (gradient * direction).sum() == pytest.approx(slope, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", ["loss-log-ratio-256", "loss-triplet-256"])
def test_contestants_agree_with_the_definition(name, tmp_path):
    """All that are installed, on a batch a quarter as large."""
    case = next(case for case in losses.losses() if case.name == name)
    case.arrays = lambda: losses.batch(64, continuous="log-ratio" in name)
    for entry in case.entries:
        entry.threads = (1,)
    outcomes = timing.run_case(case, tmp_path, rounds=1)
    assert {outcome.status for outcome in outcomes} <= {"ok", "missing"}, outcomes
    assert outcomes[0].status == "ok", outcomes


def test_a_wrong_gradient_is_found():
    arrays = losses.batch(64, continuous=False)
    value, gradient = DEFINITIONS["Triplet"](arrays["Z"].astype(float), arrays["y"])
    right = {"value": np.asarray(value), "gradient": gradient}
    for wrong in ({"gradient": gradient * 1.002}, {"value": np.asarray(value * 1.002)}):
        found = losses.check("Triplet", arrays, {"right": right, "wrong": right | wrong})
        assert list(found) == ["wrong"]


def test_growth_is_fitted():
    sizes = {"a": 100, "b": 200, "c": 400}
    outcomes = {name: Outcome(name, "ok", samples=[9e9, size**2.0]) for name, size in sizes.items()}
    verdict = GrowthAtMost(sizes, 2.1).judge(outcomes)
    assert (verdict.reached, verdict.text) == (True, "time grows with a power ≤ 2.1: 2.00")
    assert GrowthAtMost(sizes, 1.9).judge(outcomes).reached is False
    assert GrowthAtMost(sizes, 2.1).judge({OURS: Outcome(OURS, "ok")}).reached is None


@pytest.mark.parametrize("name", ["mlp-step", "sampler-1d"])
def test_contestants_agree_with_each_other(name, tmp_path):
    case = next(case for case in embedding.embedding() if case.name == name)
    if name == "sampler-1d":
        case.arrays = lambda: {"Y": np.random.default_rng(0).standard_normal((500, 1))}
    for entry in case.entries:
        entry.threads = (1,)
    outcomes = timing.run_case(case, tmp_path, rounds=1)
    assert {outcome.status for outcome in outcomes} <= {"ok", "missing"}, outcomes
    assert outcomes[0].status == "ok", outcomes


def test_wrong_label_neighbours_are_found():
    case = next(case for case in embedding.embedding() if case.name == "sampler-3d")
    arrays = {"Y": np.arange(6.0)[:, None]}
    right = {"anchors": np.array([0, 3]), "neighbors": np.array([[1, 2], [4, 2]])}
    wrong = right | {"neighbors": np.array([[1, 2], [4, 5]])}
    assert list(case.check(arrays, {"right": right, "wrong": wrong})) == ["wrong"]
