"""Pages of memory maps, which the system reads when they are used."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

__all__ = ["release_pages"]


def release_pages(rows: Any) -> None:
    """Take the pages of a part of a memory map out of this process; they stay in the file.

    Other arrays, and maps whose changes are not for the file, stay as they are.
    """
    mapping = getattr(rows, "_mmap", None)
    if mapping is None or rows.mode == "c" or not rows.size or not hasattr(mapping, "madvise"):
        return
    steps = [stride * (n - 1) for stride, n in zip(rows.strides, rows.shape, strict=True)]
    begin = np.frombuffer(mapping, np.uint8).ctypes.data
    low = rows.ctypes.data - begin + sum(step for step in steps if step < 0)
    high = low + sum(map(abs, steps)) + rows.itemsize
    if low >= 0 and high <= len(mapping):
        low -= low % mmap.PAGESIZE
        mapping.madvise(mmap.MADV_DONTNEED, low, high - low)
