"""Files of arrays: safetensors with a digest of all bytes, read and replaced as a whole."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import math
import mmap
import os
import struct
import uuid
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

import numpy as np

try:
    import fcntl
except ImportError:  # Windows: files of killed writers are not removed
    fcntl = None  # type: ignore[assignment]

_FORMAT_VERSION = "1"
# The digest is computed with this placeholder in its place. Within a text of JSON these quotes are
# escaped.
_BLANK = "0" * 64
_PLACE = b'"checksum":"'
# The function that reads each file format.
_READERS = {
    "metricfast": "metricfast.load",
    "metricfast.database": "metricfast.Database.load",
    "metricfast training": "metricfast.callbacks.Checkpoint",
}
_DTYPES = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "u1"}

Content = bytes | mmap.mmap


def safetensors_module() -> ModuleType:
    try:
        importlib.import_module("safetensors.numpy")
        return importlib.import_module("safetensors")
    except ImportError as error:
        raise ImportError(
            "saving and loading models needs the package safetensors: pip install safetensors"
        ) from error


def write_tensors(path: Path, metadata: dict[str, str], tensors: dict[str, np.ndarray]) -> None:
    """Write arrays and texts to a file, replacing it; see :func:`read_tensors`."""
    blank = {"format_version": _FORMAT_VERSION, **metadata, "checksum": _BLANK}
    content = safetensors_module().numpy.save(tensors, blank)
    before, after = _around_digest(content)
    _replace(path, (before, _digest(content).encode(), after))


def read_tensors(
    path: str | os.PathLike[str], kind: str, what: str
) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Return the texts and arrays that `write_tensors` wrote.

    `kind`: the required "format" in the metadata.
    `what`: a description of the kind of file, for error messages.
    Raises OSError if the file cannot be read; ValueError if it is not such a file, or a bit of it
    has changed.
    """
    module = safetensors_module()
    content = Path(path).read_bytes()
    try:
        tensors = module.numpy.load(content)
        (size,) = struct.unpack("<Q", content[:8])
        metadata = json.loads(content[8 : 8 + size]).get("__metadata__") or {}
    except (module.SafetensorError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a readable safetensors file: {error}") from error
    _check(path, content, metadata, kind, what, True)
    return metadata, tensors


def map_tensors(
    path: str | os.PathLike[str], kind: str, what: str, verify: bool
) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Memory-map a file of `write_tensors`, read-only; see :func:`read_tensors`.

    `verify`: compare the digest, which reads the whole file once.
    """
    module = safetensors_module()
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a file.")
    try:
        with module.safe_open(path, "np") as file:  # checks the structure of the file
            metadata = file.metadata() or {}
        with Path(path).open("rb") as opened:
            content = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        (size,) = struct.unpack("<Q", content[:8])
        tensors = {
            name: np.frombuffer(
                content,
                _DTYPES[entry["dtype"]],
                math.prod(entry["shape"]),
                8 + size + entry["data_offsets"][0],
            ).reshape(entry["shape"])
            for name, entry in json.loads(content[8 : 8 + size]).items()
            if name != "__metadata__"
        }
        for name, array in tensors.items():
            if not array.flags.aligned:
                raise ValueError(f"{name} does not begin at a multiple of its numbers' size.")
    except (module.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a readable safetensors file: {error}") from error
    _check(path, content, metadata, kind, what, verify)
    return metadata, tensors


def _check(
    path: str | os.PathLike[str],
    content: Content,
    metadata: dict[str, str],
    kind: str,
    what: str,
    verify: bool,
) -> None:
    found = metadata.get("format")
    if found != kind:
        reader = _READERS.get(str(found))
        remedy = f" Read it by {reader}." if reader else ""
        raise ValueError(f"{path} is a safetensors file, but not {what} of metricfast.{remedy}")
    if metadata.get("format_version") != _FORMAT_VERSION:
        raise ValueError(
            f"{path} has format version {metadata.get('format_version')}, "
            f"this metricfast reads {_FORMAT_VERSION}."
        )
    if verify and (content.find(_PLACE) < 0 or metadata.get("checksum") != _digest(content)):
        raise ValueError(f"{path} is damaged: its checksum does not match its content.")


def _around_digest(content: Content) -> tuple[memoryview, memoryview]:
    start = content.find(_PLACE) + len(_PLACE)
    return memoryview(content)[:start], memoryview(content)[start + len(_BLANK) :]


def _digest(content: Content) -> str:
    before, after = _around_digest(content)
    digest = hashlib.sha256(before)
    digest.update(_BLANK.encode())
    digest.update(after)
    return digest.hexdigest()


def _replace(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Replace a file atomically, and keep its mode.

    Readers see either the old or the complete new file.
    """
    target = path.resolve()
    # A fixed length: the name of the file may have the maximum length.
    stem = f".{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}."
    try:
        mode = target.stat().st_mode & 0o777 if target.is_file() else None
        _remove_orphans(target.parent, stem)
        temporary, file = _open_locked(target.parent, stem, 0o666 if mode is None else 0o600)
        try:
            with file:
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
                if mode is not None:
                    temporary.chmod(mode)
                if fcntl is None:
                    file.close()  # Windows cannot rename an open file
                temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        if error.filename is None:
            raise
        # The caller does not know the temporary file.
        raise OSError(error.errno, error.strerror, str(path)) from error


def _open_locked(folder: Path, stem: str, mode: int) -> tuple[Path, BinaryIO]:
    """Open a new file with a unique name, which is locked while it is open."""
    while True:
        temporary = folder / f"{stem}{uuid.uuid4().hex}"
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
        file = os.fdopen(os.open(temporary, flags, mode), "wb")
        with contextlib.suppress(OSError):  # a file system without locks
            _lock(file)
        if temporary.exists():  # unless another process has just removed it as an orphan
            return temporary, file
        file.close()


def _remove_orphans(folder: Path, stem: str) -> None:
    """Remove temporary files of killed writers: those that no process has locked."""
    for orphan in folder.glob(f"{stem}*"):
        with contextlib.suppress(OSError), orphan.open("rb") as file:
            _lock(file, wait=False)
            orphan.unlink()


def _lock(file: BinaryIO, wait: bool = True) -> None:
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
