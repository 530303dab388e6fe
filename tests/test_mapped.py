"""Memory maps: what is read from their files, and past the system's cache, is what they hold."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metricfast as mf
from metricfast import sources
from metricfast._core import mapped as mapped_files
from metricfast._core.sources import parts


def test_pages_of_a_memory_map_are_let_go(tmp_path: Path) -> None:
    X = np.arange(200_000.0).reshape(-1, 2)
    for mode, offset in (("r", 0), ("r+", 1000), ("c", 0)):
        np.save(tmp_path / "X.npy", X)
        view = np.load(tmp_path / "X.npy", mmap_mode=mode)[offset:]
        if mode != "r":
            view[7] = -1  # also what is in no file yet is read, twice
        for _ in range(2):
            for part in (view, view[::-3], view[:, 1:], view[:, ::-1]):
                np.testing.assert_array_equal(sources.Rows(part)[:], np.array(part))


def test_a_file_in_the_place_of_the_mapped_one_is_not_read(tmp_path: Path) -> None:
    X = np.arange(6000.0).reshape(-1, 2)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "other.npy", -X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    before = sources.Rows(mapped)
    (tmp_path / "other.npy").replace(tmp_path / "X.npy")
    for source in (before, sources.Rows(mapped), pickle.loads(pickle.dumps(before))):
        np.testing.assert_array_equal(source[1000:2000], X[1000:2000])
    (tmp_path / "X.npy").unlink()
    np.testing.assert_array_equal(sources.Rows(mapped)[:], X)


def reads_of_files(monkeypatch: pytest.MonkeyPatch, refused: Callable[[int], bool]) -> set[int]:
    """Return a set that gets the files that are read, none of which is in the system's cache."""
    read, seen = os.preadv, set[int]()

    def preadv(file: int, *more: Any) -> int:
        seen.add(file)
        if refused(file):
            raise OSError(22, "these are no whole blocks")
        return read(file, *more)

    monkeypatch.setattr(os, "preadv", preadv)
    monkeypatch.setattr(mapped_files, "_in_cache", lambda *_: False)
    return seen


@pytest.mark.parametrize("refuses", [False, True])
@pytest.mark.parametrize("offset", [0, 12, 4100, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_files_that_no_cache_may_hold_are_read_past_it(
    dtype: type, offset: int, refuses: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = np.random.RandomState(0).randn(50_000, 5).astype(dtype)
    (tmp_path / "X").write_bytes(bytes(offset) + X.tobytes())
    mapped = np.memmap(tmp_path / "X", dtype, "r+", offset, X.shape)
    source = sources.Rows(mapped)
    if source._file is None:
        pytest.skip("this system does not tell which file is mapped")
    direct = source._file._direct
    seen = reads_of_files(monkeypatch, lambda file: refuses and file == direct)
    X[7] = mapped[7] = -1  # which is in no file yet
    np.testing.assert_array_equal(source[:], X)
    assert direct not in seen
    with mf.config_context(memory_limit="300 kB"):
        for start, stop in ((0, 1), (1, 1000), (777, 40_000), (49_990, 50_000), (0, 50_000)):
            found = source.read(start, stop)
            np.testing.assert_array_equal(found, X[start:stop])
            assert found.flags.aligned and found.flags.writeable
        np.testing.assert_array_equal(np.concatenate([block for _, block in parts(source)]), X)
    assert (direct in seen) == (direct >= 0)
    assert direct < 0 or offset != 3, "numbers of such a file are not where they can be used"


def test_what_is_read_again_goes_through_the_cache_if_it_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "X.npy", np.zeros((3000, 2)))
    table = np.load(tmp_path / "X.npy", mmap_mode="r")
    found = [sources.Rows(table), sources.Rows(table)]
    if found[0]._file is None or found[0]._file._direct < 0:
        pytest.skip("this system reads all files through its cache")
    direct = {source._file._direct for source in found if source._file}
    seen = reads_of_files(monkeypatch, lambda file: False)
    with mf.config_context(memory_limit="1 kB"):
        for source, past_cache in zip((*found, found[0]), (True, False, False), strict=True):
            seen.clear()
            assert not source.read(1000, 2000).any()
            assert bool(seen & direct) == past_cache
        monkeypatch.setattr(mapped_files, "usable_memory", lambda: 1000)
        found[0].read(1000, 2000)
    assert seen & direct


def test_a_single_row_of_any_view(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.arange(12.0).reshape(-1, 2))
    table = np.load(tmp_path / "X.npy", mmap_mode="r")
    for part in (table[::3][:1], table[::-1][:1], table[3:4][::-1], table[5:][::-1]):
        np.testing.assert_array_equal(sources.Rows(part)[:], np.array(part))


def test_what_the_system_holds_in_memory_is_read_from_there(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.zeros((3000, 2)))
    table = np.load(tmp_path / "X.npy", mmap_mode="r")
    if not hasattr(os, "O_DIRECT"):
        pytest.skip("this system reads all files through its cache")
    assert not np.array(table).any()
    assert mapped_files._in_cache(table.ctypes.data, table.nbytes)
    assert not mapped_files._in_cache(0, 1)


@pytest.mark.parametrize("limit", ["1 GB", "1 kB"])
def test_a_file_that_ends_too_soon_is_told(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "X.npy", np.zeros((3000, 2)))
    source = sources.Rows(np.load(tmp_path / "X.npy", mmap_mode="r"))
    os.truncate(tmp_path / "X.npy", 20_000)
    if source._file is None:
        pytest.skip("this system does not tell which file is mapped")
    reads_of_files(monkeypatch, lambda file: False)
    with mf.config_context(memory_limit=limit), pytest.raises(ValueError, match="before row 2999"):
        source.read(0, 3000)


def test_memory_of_rows_is_used_again_when_nobody_has_it(tmp_path: Path) -> None:
    X = np.random.RandomState(0).randn(3000, 4)
    np.save(tmp_path / "X.npy", X)
    source = sources.Rows(np.load(tmp_path / "X.npy", mmap_mode="r"))
    kept = [source[start : start + 100] for start in range(0, 1000, 100)]
    np.testing.assert_array_equal(np.concatenate(kept), X[:1000])
    part = kept[3][5:, 1]
    kept.clear()
    others = [source[start : start + 100] for start in range(0, 1000, 100)]
    np.testing.assert_array_equal(part, X[305:400, 1])
    assert not any(np.shares_memory(part, each) for each in others)
    place = others.pop().ctypes.data
    assert source[:100].ctypes.data == place
