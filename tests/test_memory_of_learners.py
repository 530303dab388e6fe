"""A learner keeps to `memory_limit`, or says how much it needs, which is then enough.

This file is also the program, of a process of its own, whose memory is measured.
"""

from __future__ import annotations

import sys
import warnings
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import registry
from peak_memory import BESIDE, measured, needed_and_peak
from sklearn.exceptions import NotFittedError

import metricfast as mf

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

KINDS = {"wide": (300, 550), "wide on disk": (300, 550), "long": (10_000, 30)}
BRIEF = {"output_iter": 2}
CASES = [
    each.__name__
    for each in registry.of_points()
    if "solver" not in signature(each).parameters and each is not mf.KernelizedMetricLearner
]


def data(shape: tuple[int, int], numbers: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=shape).astype(np.float32), rng.integers(5, size=shape[0])
    X[np.arange(len(X)), y] += 2
    return X, X[:, 0].astype(float) if numbers else y


def main(name: str, folder: str) -> None:
    warnings.simplefilter("ignore")
    entry = registry.REGISTRY[name]
    numbers = entry.takes == registry.VALUES
    for kind, shape in KINDS.items():
        model = registry.make(getattr(mf, name), quick=False)
        brief = BRIEF | {"max_iter": 12 if "wide" in kind else 2}
        model.set_params(**{k: v for k, v in brief.items() if k in model.get_params(deep=False)})
        model.fit(*data((200, 8), numbers))
        X, y = data(shape, numbers)
        if "disk" in kind:
            np.save(Path(folder) / "x.npy", X)
            X = np.load(Path(folder) / "x.npy", mmap_mode="r")
        fit = partial(model.fit, X, y)
        print(kind, *needed_and_peak(fit), sep=",")


@pytest.mark.parametrize("case", CASES)
def test_a_learner_keeps_to_the_limit_that_it_asks_for(case: str, tmp_path: Path) -> None:
    seen = measured(__file__, case, tmp_path)
    assert [kind for kind, *_ in seen] == list(KINDS)
    for kind, limit, peak in seen:
        assert int(peak) < int(limit) + BESIDE, (kind, limit, peak)
        assert int(limit) < 3 * int(peak) + BESIDE, (kind, limit, peak)


@pytest.mark.parametrize(
    ("learner", "limit", "what"),
    [
        (mf.ITML_Supervised(n_constraints=9000), 1_000_000, "18000 pairs"),
    ],
    ids=["ITML"],
)
def test_what_is_refused_leaves_nothing_fitted(learner: Any, limit: int, what: str) -> None:
    X, y = data((3000, 10), False)
    with mf.config_context(memory_limit=limit), pytest.raises(MemoryError, match=what):
        learner.fit(X, y)
    with pytest.raises(NotFittedError):
        learner.transform(X)


if __name__ == "__main__":
    main(*sys.argv[1:])
