"""Measure rates of this machine, and compute lower bounds of times from them.

``python -m benchmarks.bounds`` prints processor times of kernels beside their lower bounds.
"""

from __future__ import annotations

__all__ = ["Rates", "main", "measure"]

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import metricfast
from benchmarks.peers import Worker
from metricfast.distances.gradient import metric_gradient
from metricfast.inference import both

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
        return min(worker.run(60).cpu_seconds for _ in range(REPEATS)) / threads
    finally:
        worker.close()


def measure(
    threads: int | None = None, size: int = 2048, memory: int = 400_000_000, numbers: int = 1 << 26
) -> Rates:
    """Measure on all cores. Uses the best of several runs, so that bounds ignore other load."""
    threads = threads or os.cpu_count() or 1
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


@dataclass
class Kernel:
    """A call on one thread, and the work that no method can avoid."""

    name: str
    dtype: str
    call: Callable[[], object]
    flops: float = 0.0
    exponentials: float = 0.0
    written: float = 0.0

    def bound(self, rates: Rates) -> float:
        """Return seconds: of arithmetic, or of writing if that takes longer."""
        arithmetic = self.flops / rates.gemm[self.dtype]
        arithmetic += self.exponentials / rates.exponentials[self.dtype]
        return max(arithmetic, self.written / rates.write)

    def seconds(self) -> float:
        """Return the least processor time of a call."""
        self.call()
        times = []
        for _ in range(REPEATS):
            start, count = time.process_time(), 0
            while count == 0 or time.process_time() - start < 0.05:
                self.call()
                count += 1
            times.append((time.process_time() - start) / count)
        return min(times)


def kernels() -> Iterator[Kernel]:
    """Yield searches, distances, gradients and losses in both precisions.

    The value and gradient of a loss take three products: distances, and gradients of both roles.
    """
    losses = metricfast.losses
    n, small = 4000, 512
    for dtype in ("float32", "float64"):
        rng = np.random.default_rng(0)

        def points(n: int, d: int, rng: Any = rng, dtype: str = dtype) -> Any:
            return rng.standard_normal((n, d)).astype(dtype)

        x, out = points(n, 64), np.zeros((n, n), dtype)
        yield Kernel(
            "all pairs, d 64, out=", dtype,
            partial(metricfast.pairwise_distances, x, x[::-1].copy(), out=out, n_jobs=1),
            2 * n * n * 64, written=n * n * x.itemsize,
        )  # fmt: skip
        classes = np.arange(n) % 20
        for p in (16, 32):
            for name, loss, y in (
                ("NCA", losses.NCA(), classes),
                ("log-ratio", losses.LogRatio(), points(n, 3)),
                ("LMNN", losses.LMNN(), classes),
            ):
                has_exponentials = name != "LMNN"
                yield Kernel(
                    f"{name}, p {p}", dtype,
                    partial(loss.on(y, n_jobs=1), points(n, p)),
                    6 * n * n * p, n * n * has_exponentials,
                )  # fmt: skip
        some, positives = np.arange(small) % 64, small // 64 - 1
        # Smooth ranks have an exponential for each positive point and each other point.
        for loss, exponentials in ((losses.Triplet(), 0), (losses.SmoothAP(), positives)):
            yield Kernel(
                f"{type(loss).__name__}, 512 x 64", dtype,
                partial(loss.on(some, n_jobs=1), points(small, 64)),
                6 * small * small * 64, small * small * exponentials,
            )  # fmt: skip
        weights = rng.random((n, n)).astype(dtype)
        yield Kernel(
            "metric_gradient, dense, d 64", dtype,
            partial(metric_gradient, x, weights, M=np.eye(64), n_jobs=1), 2 * n * n * 64,
        )  # fmt: skip
        codes = rng.integers(0, 7, n)
        z = points(n, 16) + points(7, 16)[codes]
        yield Kernel(
            "inference, d 16, k 5", dtype,
            partial(both, z[: n // 4], z, codes[: n // 4], codes, 5, n_jobs=1),
            2 * n * n / 4 * 16,
        )  # fmt: skip
    database = metricfast.Database(points(100_000, 64), n_jobs=1)
    yield Kernel(
        "10 of 100,000 x 64 for 1,000", "float32",
        partial(database.kneighbors, points(1000, 64), 10, n_jobs=1),
        2 * 1000 * 100_000 * 64 / 4,  # in 8 bits
    )  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Print the table of kernels whose names contain one of the arguments, or of all."""
    names = sys.argv[1:] if argv is None else argv
    rates = measure(threads=1)
    print(f"{'kernel':34}{'dtype':10}{'ms':>9}{'bound':>9}{'ratio':>7}")
    for kernel in kernels():
        if names and not any(name in kernel.name for name in names):
            continue
        seconds, bound = kernel.seconds(), kernel.bound(rates)
        print(
            f"{kernel.name:34}{kernel.dtype:10}{1e3 * seconds:9.2f}{1e3 * bound:9.2f}"
            f"{seconds / bound:7.2f}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
