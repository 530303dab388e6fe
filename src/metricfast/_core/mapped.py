"""Memory maps, read from their files: faster than page by page, into memory that is used again."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

from metricfast._core.types import Array

__all__ = ["MappedFile", "Recycled", "release"]

# Arrays of memory that nobody has any more: more than a reader and its caller have at a time.
_FREE = 3


class Recycled:
    """Arrays in the memory of those that are gone, whose pages the system has given already."""

    def __init__(self) -> None:
        self._free: list[Array] = []

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return an array; its memory comes back when nothing refers to it any more."""
        size = int(np.prod(shape)) * dtype.itemsize
        memory = self._free.pop() if self._free else np.empty(0, np.uint8)
        if memory.nbytes < size:
            memory = np.empty(size, np.uint8)
        lease: Any = _Lease(memory, self._free)
        return np.asarray(lease)[:size].view(dtype).reshape(shape)


class _Lease:
    """Memory that is given back when the arrays in it are gone."""

    def __init__(self, memory: Array, free: list[Array]) -> None:
        self.__array_interface__ = memory.__array_interface__
        self._memory, self._free = memory, free

    def __del__(self) -> None:
        if len(self._free) < _FREE:
            self._free.append(self._memory)


class MappedFile:
    """The file behind a memory map of rows of numbers that follow each other."""

    def __init__(self, file: int, offset: int, row_bytes: int) -> None:
        self._file, self._offset, self._row_bytes = file, offset, row_bytes

    @classmethod
    def of(cls, table: Any) -> MappedFile | None:
        """Return the file, None where its rows may be others than those of the map.

        Such are changes that the map keeps to itself, and a file that has been put in the place of
        the one that was mapped: which one that was is asked of the system.
        """
        place = _place_in(table) if hasattr(os, "preadv") else None
        kept = table.flags.c_contiguous and table.dtype.isnative
        if place is None or not kept or not isinstance(table.filename, (str, os.PathLike)):
            return None
        try:
            file = os.open(table.filename, os.O_RDONLY)
        except OSError:
            return None
        _, start = place
        found = os.fstat(file)
        if _mapped_at(_address(table)) != (found.st_dev, found.st_ino):
            os.close(file)
            return None
        first = table.offset - table.offset % mmap.ALLOCATIONGRANULARITY
        return cls(file, first + start, table.strides[0])

    def read(self, start: int, out: Array) -> None:
        """Read rows from one on, as many as `out` has."""
        buffer: Any = out
        wanted = memoryview(buffer).cast("B")
        offset, done = self._offset + start * self._row_bytes, 0
        while done < len(wanted):
            count = os.preadv(self._file, [wanted[done:]], offset + done)
            if not count:
                raise ValueError(f"X: its file ends before row {start + len(out) - 1}.")
            done += count

    def __del__(self) -> None:
        os.close(self._file)


def release(table: Any, start: int, stop: int) -> None:
    """Let go of the pages of rows of a memory map, which stay in the file and in its cache."""
    if not isinstance(table, np.memmap):
        return
    rows = table[start:stop]
    place = _place_in(rows)
    if place is None or not hasattr(place[0], "madvise"):
        return
    mapping, first = place
    low = first // mmap.PAGESIZE * mmap.PAGESIZE
    high = first + sum(abs(s) * (n - 1) for s, n in zip(rows.strides, rows.shape, strict=True))
    mapping.madvise(mmap.MADV_DONTNEED, low, high + rows.itemsize - low)


def _place_in(table: Any) -> tuple[Any, int] | None:
    """Return the map that others share of a table, and where in it the table begins, in bytes."""
    mapping = getattr(table, "_mmap", None)
    if mapping is None or table.mode not in ("r", "r+", "w+"):
        return None
    ends = [stride * (n - 1) for stride, n in zip(table.strides, table.shape, strict=True)]
    base = np.frombuffer(mapping, np.uint8).__array_interface__["data"][0]
    first = _address(table) - base + sum(min(end, 0) for end in ends)
    last = first + sum(map(abs, ends)) + table.itemsize
    return (mapping, first) if 0 <= first < last <= len(mapping) else None


def _address(table: Array) -> int:
    return int(table.__array_interface__["data"][0])


def _mapped_at(address: int) -> tuple[int, int] | None:
    """Return device and inode of the file that is mapped at an address, as Linux tells it."""
    try:
        with Path("/proc/self/maps").open() as lines:
            for line in lines:
                ends, _, _, device, inode, *_ = line.split(maxsplit=5)
                low, high = (int(end, 16) for end in ends.split("-"))
                if low <= address < high:
                    major, minor = (int(part, 16) for part in device.split(":"))
                    return os.makedev(major, minor), int(inode)
    except (OSError, ValueError):
        return None
    return None
