"""Memory maps, read from their files: faster than page by page, into memory that is used again."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from metricfast._core.memory import memory_limit, usable_memory
from metricfast._core.types import Array

__all__ = ["MappedFile", "Recycled", "release"]

# Bytes that nobody has any more, and that are kept to be used again.
_FREE = 64 << 20
# Of each map, where in its file blocks began that were read past the cache.
_SEEN: WeakKeyDictionary[Any, set[int]] = WeakKeyDictionary()


class Recycled:
    """Arrays in the memory of those that are gone, whose pages the system has given already."""

    def __init__(self) -> None:
        self._free: list[Array] = []

    def bytes(self, size: int) -> Array:
        """Return bytes from a page's start on; they come back when nothing refers to them."""
        memory = np.empty(0, np.uint8)
        with suppress(IndexError):
            memory = self._free.pop()  # another thread may have been faster
        if not size + mmap.PAGESIZE <= memory.nbytes <= 2 * (size + mmap.PAGESIZE):
            self._free.clear()  # which are of other sizes, too
            memory = np.empty(size + mmap.PAGESIZE, np.uint8)
        lease: Any = _Lease(memory, self._free)
        first = -_address(memory) % mmap.PAGESIZE
        return np.asarray(lease)[first : first + size]

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return an array in such bytes."""
        return self.bytes(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)


class _Lease:
    """Memory that is given back when the arrays in it are gone."""

    def __init__(self, memory: Array, free: list[Array]) -> None:
        self.__array_interface__ = memory.__array_interface__
        self._memory, self._free = memory, free

    def __del__(self) -> None:
        if sum(memory.nbytes for memory in self._free) + self._memory.nbytes <= _FREE:
            self._free.append(self._memory)


class MappedFile:
    """The file behind a memory map of rows of numbers that follow each other.

    Rows that take more than a call may have of memory are read past the system's cache, where they
    are not in it yet: that takes less time, and leaves other files there. What is read once more
    goes through the cache, and stays there, unless there is too much of it.
    """

    def __init__(self, path: str | os.PathLike[str], offset: int, table: Any) -> None:
        self._file, self._direct = os.open(path, os.O_RDONLY), -1
        self._offset, self._address, self._size = offset, _address(table), table.nbytes
        self._row_bytes = table.itemsize * table.shape[1]
        self._seen = _SEEN.setdefault(table._mmap, set())
        # Numbers are where they are in the file, as seen from the start of a page.
        if hasattr(os, "O_DIRECT") and offset % table.itemsize == 0:
            with suppress(OSError):  # not by each file system
                self._direct = os.open(path, os.O_RDONLY | os.O_DIRECT)

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
        first = table.offset - table.offset % mmap.ALLOCATIONGRANULARITY
        try:
            found = cls(table.filename, first + place[1], table)
        except OSError:
            return None
        return found if found._is_mapped() else None

    def _is_mapped(self) -> bool:
        known = _mapped_at(self._address)
        files = [file for file in (self._file, self._direct) if file >= 0]
        return all((of.st_dev, of.st_ino) == known for of in map(os.fstat, files))

    def read(self, start: int, stop: int, memory: Recycled) -> Array:
        """Return the bytes of rows."""
        first = self._offset + start * self._row_bytes
        size = (stop - start) * self._row_bytes
        file, skipped, whole = self._file, 0, size
        if self._passes_cache(first) and not _in_cache(first - self._offset + self._address, size):
            self._seen.add(first)
            file, skipped = self._direct, first % mmap.PAGESIZE
            whole = _up(skipped + size)
        found = memory.bytes(whole)
        if self._fill(found, first - skipped, file) < skipped + size:
            raise ValueError(f"X: its file ends before row {stop - 1}.")
        return found[skipped : skipped + size]

    def _passes_cache(self, first: int) -> bool:
        if self._direct < 0 or self._size <= memory_limit():
            return False
        return first not in self._seen or self._size > usable_memory()

    def _fill(self, out: Array, offset: int, file: int) -> int:
        """Read as many bytes of the file, from an offset on, as there are; return how many."""
        buffer: Any = out
        wanted, done = memoryview(buffer), 0
        while done < len(wanted):
            if done % mmap.PAGESIZE:
                file = self._file  # directly, whole pages are read alone
            try:
                count = os.preadv(file, [wanted[done:]], offset + done)
            except OSError:
                if file == self._file:
                    raise
                file = self._file  # of a file system that wants larger pages
                continue
            if not count:
                break
            done += count
        return done

    def __del__(self) -> None:
        for file in (getattr(self, "_file", -1), getattr(self, "_direct", -1)):
            if file >= 0:
                os.close(file)


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


def _up(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def _in_cache(address: int, size: int) -> bool:
    """Tell whether the system has all of a part of a map in memory."""
    first = address - address % mmap.PAGESIZE
    pages = ctypes.create_string_buffer(_up(address + size - first) // mmap.PAGESIZE)
    arguments = ctypes.c_void_p(first), ctypes.c_size_t(address + size - first), pages
    return ctypes.CDLL(None).mincore(*arguments) == 0 and b"\0" not in pages.raw


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
