"""Calls without a package: writing and reading memory and files, importing, learning nothing."""

from __future__ import annotations

__all__ = [
    "euclidean", "exponentials", "first_touch", "importing", "read", "read_file", "read_points",
    "write",
]  # fmt: skip

import mmap
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from benchmarks.calls import Call, Data, on_disk

PROGRAM = """
from time import perf_counter
start = perf_counter()
import {name}
print(perf_counter() - start)
"""


def _in_parts(work: Callable[..., object], array: np.ndarray, threads: int, *more: float) -> None:
    workers = [
        threading.Thread(target=work, args=(part, *more)) for part in np.array_split(array, threads)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def first_touch(data: Data, threads: int, size: int) -> Call:
    """Time writing a new array of `size` bytes, including page faults."""
    return Call(lambda: _in_parts(np.ndarray.fill, np.empty(size // 8), threads, 1.0))


def write(data: Data, threads: int, size: int) -> Call:
    """Time writing an array of `size` bytes whose pages are already mapped."""
    array = np.ones(size // 8)
    return Call(lambda: _in_parts(np.ndarray.fill, array, threads, 1.0))


def read(data: Data, threads: int, size: int) -> Call:
    """Time reading an array of `size` bytes by `max`. Nothing that reads each byte is faster."""
    array = np.ones(size // 8)
    return Call(lambda: _in_parts(np.max, array, threads))


def exponentials(data: Data, threads: int, size: int, dtype: str) -> Call:
    """Time `size` exponentials of numbers in the cache."""

    def run(part: np.ndarray) -> None:
        numbers = np.linspace(-8, 0, 1 << 14, dtype=dtype)
        out = np.empty_like(numbers)
        for _ in range(len(part)):
            np.exp(numbers, out=out)

    return Call(lambda: _in_parts(run, np.empty(size >> 14), threads))


def read_points(data: Data, threads: int) -> Call:
    """Time reading the database once."""
    flat = data["database"].ravel()
    return Call(lambda: _in_parts(np.max, flat, threads))


def read_file(data: Data, threads: int, past_cache: bool = False) -> Call:
    """Time reading a file in blocks; each thread reads into its own buffer repeatedly.

    `past_cache`: bypass the page cache of the system.
    """
    blocks = [mmap.mmap(-1, 32 << 20) for _ in range(threads)]

    def read(file: int, first: int) -> None:
        block = blocks[first]
        start = first * len(block)
        while os.preadv(file, [block], start):
            start += threads * len(block)

    def run() -> None:
        file = os.open(on_disk(data), os.O_RDONLY | (os.O_DIRECT if past_cache else 0))
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(partial(read, file), range(threads)))
        os.close(file)

    return Call(run)


def importing(data: Data, threads: int, name: str) -> Call:
    """Time `import name` in a fresh interpreter, excluding the start of the interpreter."""
    __import__(name)

    def run() -> float:
        program = [sys.executable, "-c", PROGRAM.format(name=name)]
        return float(subprocess.run(program, check=True, capture_output=True, text=True).stdout)

    return Call(run)


def euclidean(data: Data, threads: int) -> Call:
    """Learn nothing."""
    identity = np.eye(data["X"].shape[1])
    return Call(lambda: None, lambda _: {"components": identity})
