"""Measure rates of this machine, and compute lower bounds of times from them."""

from __future__ import annotations

__all__ = ["Rates", "measure"]

import os
from dataclasses import dataclass
from typing import Any

from benchmarks.peers import Worker

REPEATS = 7


@dataclass
class Rates:
    """Rates per second: bytes written and read, and by dtype, flops and exponentials."""

    gemm: dict[str, float]
    write: float
    first_touch: float
    read: float
    exponentials: dict[str, float]


def _best(call: str, threads: int, **params: Any) -> float:
    worker = Worker("numpy", call, {}, params, threads)
    try:
        worker.run(60)
        return min(worker.run(60).seconds for _ in range(REPEATS))
    finally:
        worker.close()


def measure(size: int = 2048, memory: int = 400_000_000, numbers: int = 1 << 26) -> Rates:
    """Measure on all cores. Uses the best of several runs, so that bounds ignore other load."""
    threads = os.cpu_count() or 1
    return Rates(
        gemm={
            dtype: 2 * size**3 / _best("blas.gemm", threads, size=size, dtype=dtype)
            for dtype in ("float32", "float64")
        },
        write=memory / _best("baseline.write", threads, size=memory),
        first_touch=memory / _best("baseline.first_touch", threads, size=memory),
        read=memory / _best("baseline.read", threads, size=memory),
        exponentials={
            dtype: numbers / _best("baseline.exponentials", threads, size=numbers, dtype=dtype)
            for dtype in ("float32", "float64")
        },
    )
