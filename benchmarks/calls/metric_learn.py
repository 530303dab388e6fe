"""metric-learn."""

from __future__ import annotations

__all__ = ["fit"]

from typing import Any

import metric_learn

from benchmarks.calls import Call, Data, fitting


def fit(data: Data, threads: int, learner: str, **params: Any) -> Call:
    """Time a learner."""
    return fitting(getattr(metric_learn, learner)(**params), data)
