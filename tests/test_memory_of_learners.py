"""A learner keeps to `memory_limit`, or says how much it needs, which is then enough.

This file is also the program, of a process of its own, whose memory is measured.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import registry
from sklearn.exceptions import NotFittedError

import metricfast as mf

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# What threads, batches and modules take that are imported late.
BESIDE = 24_000_000
KINDS = {"wide": (300, 550), "wide on disk": (300, 550), "long": (10_000, 30)}
BRIEF = {"max_epochs": 1, "output_iter": 2}
MORE = {f"{name} by batches": (name, {"solver": "sgd"}) for name in ("NCA", "LMNN", "MLKR")}
CASES = {each.__name__: (each.__name__, {}) for each in registry.of_points()} | MORE


def status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024


def data(shape: tuple[int, int], numbers: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=shape).astype(np.float32), rng.integers(5, size=shape[0])
    X[np.arange(len(X)), y] += 2
    return X, X[:, 0].astype(float) if numbers else y


def needed(fit: Callable[[], object]) -> int:
    """Return a limit that is enough, of those that errors ask for."""
    limit = 100_000
    for _ in range(8):
        try:
            with mf.config_context(memory_limit=limit):
                fit()
        except MemoryError as error:
            limit = int(re.search(r"memory_limit=(\d+)", str(error))[1])
        else:
            return limit
    raise AssertionError("errors ask for ever more")


def main(case: str, folder: str) -> None:
    name, more = CASES[case]
    warnings.simplefilter("ignore")
    entry = registry.REGISTRY[name]
    numbers = entry.takes == registry.VALUES
    for kind, shape in KINDS.items():
        model = registry.make(getattr(mf, name), quick=False, **more)
        brief = BRIEF | {"max_iter": 12 if "wide" in kind else 2}
        if case != "NCA":  # whose folds, which take longest, are those of the others
            brief |= {"early_stopping": False}
        model.set_params(**{k: v for k, v in brief.items() if k in model.get_params(deep=False)})
        model.fit(*data((200, 8), numbers))
        X, y = data(shape, numbers)
        if "disk" in kind:
            np.save(Path(folder) / "x.npy", X)
            X = np.load(Path(folder) / "x.npy", mmap_mode="r")
        before = status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        limit = needed(lambda model=model, X=X, y=y: model.fit(X, y))
        print(kind, limit, status("VmHWM") - before, sep=",")


@pytest.mark.parametrize("case", CASES)
def test_a_learner_keeps_to_the_limit_that_it_asks_for(case: str, tmp_path: Path) -> None:
    # Memory that is freed goes back to the system.
    back = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    found = subprocess.run(
        [sys.executable, __file__, case, tmp_path], check=False, capture_output=True, text=True,
        env=os.environ | back,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    seen = [line.split(",") for line in found.stdout.splitlines()]
    assert [kind for kind, *_ in seen] == list(KINDS)
    for kind, limit, peak in seen:
        assert int(peak) < int(limit) + BESIDE, (kind, limit, peak)
        assert int(limit) < 3 * int(peak) + BESIDE, (kind, limit, peak)


@pytest.mark.parametrize(
    ("learner", "limit", "what"),
    [
        (mf.LMNN(), 500_000, "LMNN of 3000 points"),
        (mf.NCMML(), 3_000_000, "3000 points in 750 classes"),
        (mf.ITML_Supervised(n_constraints=9000), 1_000_000, "18000 pairs"),
    ],
    ids=["LMNN", "NCMML", "ITML"],
)
def test_what_is_refused_leaves_nothing_fitted(learner: Any, limit: int, what: str) -> None:
    X, y = data((3000, 10), False)
    y = np.arange(3000) // 4 if isinstance(learner, mf.NCMML) else y
    with mf.config_context(memory_limit=limit), pytest.raises(MemoryError, match=what):
        learner.fit(X, y)
    with pytest.raises(NotFittedError):
        learner.transform(X)


if __name__ == "__main__":
    main(*sys.argv[1:])
