"""Case: the time to import the library, compared with importing NumPy."""

from __future__ import annotations

__all__ = ["imports"]

from benchmarks.case import OURS, Case, Entry
from benchmarks.targets import TimesAtMost


def imports() -> Case:
    """Return the case of import times, each in a fresh interpreter."""
    return Case(
        "import",
        "import time in a fresh interpreter",
        dict,
        [
            Entry(OURS, "metricfast", "baseline.importing", {"name": "metricfast"}, threads=(1,)),
            Entry("numpy", "numpy", "baseline.importing", {"name": "numpy"}, threads=(1,)),
        ],
        targets=[TimesAtMost("numpy", 1.5)],
    )
