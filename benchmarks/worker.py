"""A worker process that prepares one call and times it on request.

Messages are JSON objects, one per line. The worker runs under the interpreter of the timed package,
with thread limits in its environment, so no two packages share a thread pool, BLAS or heap.
"""

from __future__ import annotations

__all__ = ["main", "memory", "new_peak"]

import gc
import importlib
import importlib.metadata
import json
import math
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.calls import Call

# Shorter calls (in seconds) are repeated.
SHORT = 0.02
PACKAGES = {
    "metricfast": "metricfast",
    "numpy": "numpy",
    "scipy": "scipy",
    "sklearn": "scikit-learn",
    "torch": "torch",
    "faiss": "faiss-cpu",
    "sklearnex": "scikit-learn-intelex",
    "usearch": "usearch",
    "mlpack": "mlpack",
    "metric_learn": "metric-learn",
    "pylmnn": "PyLMNN",
    "pytorch_metric_learning": "pytorch-metric-learning",
}


def memory(field: str) -> int:
    """Return a field of this process's memory status, in bytes."""
    with Path("/proc/self/status").open() as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def new_peak() -> int | None:
    """Reset the peak memory use, and return the current use; None if not on Linux."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return memory("VmRSS")


def _touch(size: int) -> None:
    """Write to `size` bytes of new memory and free it.

    A virtual machine returns unused memory to its host. Getting it back may take longer than a
    kernel, and the first call would pay for it.
    """
    np.empty(size, np.uint8)[::1024] = 1


def _versions() -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for module, distribution in PACKAGES.items():
        if module in sys.modules:
            try:
                found[distribution] = importlib.metadata.version(distribution)
            except importlib.metadata.PackageNotFoundError:
                found[distribution] = getattr(sys.modules[module], "__version__", "unknown")
    return found


class Session:
    """The call being timed."""

    call: Call
    peak: int = 0

    def open(self, function: str, arrays: dict[str, str], threads: int, params: Any) -> Any:
        """Import the package, load the arrays and prepare the call."""
        module, name = function.split(".")
        data = {key: np.load(path) for key, path in arrays.items()}
        for key, value in params.items():
            if isinstance(value, dict):  # a parameter that refers to one of the arrays
                params[key] = data[value["array"]]
        prepare = getattr(importlib.import_module(f"benchmarks.calls.{module}"), name)
        self.call = prepare(data, threads, **params)
        return {"versions": _versions()}

    def run(self, digest: str | None) -> Any:
        """Time the call once; optionally save the digest of its result."""
        gc.collect()
        _touch(self.peak)
        before = new_peak()
        cpu_start, start = time.process_time(), time.perf_counter()
        result = self.call.run()
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        peak = None if before is None else max(0, memory("VmHWM") - before)
        self.peak = max(self.peak, peak or 0)
        if digest is not None:
            numbers: dict[str, Any] = self.call.digest(result)
            np.savez(digest, **numbers)
        if isinstance(result, float):  # the call measured its own elapsed time
            seconds, cpu_seconds = result, 0.0
        elif seconds < SHORT:  # repeat, as in a training loop
            seconds, cpu_seconds = self._repeat(math.ceil(5 * SHORT / max(seconds, 1e-3)))
        return {"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_bytes": peak}

    def _repeat(self, count: int) -> tuple[float, float]:
        cpu_start, start = time.process_time(), time.perf_counter()
        for _ in range(count):
            self.call.run()
        return (time.perf_counter() - start) / count, (time.process_time() - cpu_start) / count


def main() -> None:
    """Answer requests until the input ends."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of packages must not mix with replies
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(session, request.pop("do"))(**request)
        except ImportError as error:
            answer = {"missing": str(error)}
        except Exception as error:
            traceback.print_exc()
            answer = {"failed": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(answer) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
