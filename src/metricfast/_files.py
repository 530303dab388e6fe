"""Files of arrays: safetensors, read whole and replaced whole."""

from __future__ import annotations

import importlib
import os
import uuid
from pathlib import Path
from types import ModuleType

import numpy as np

__all__ = ["read_tensors", "safetensors_module", "write_atomically"]


def safetensors_module() -> ModuleType:
    try:
        importlib.import_module("safetensors.numpy")
        return importlib.import_module("safetensors")
    except ImportError as error:
        raise ImportError(
            "saving and loading models needs the package safetensors: pip install 'metricfast[io]'"
        ) from error


def write_atomically(path: Path, content: bytes) -> None:
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        if error.filename is None:
            raise
        # The caller does not know the temporary file.
        raise OSError(error.errno, error.strerror, str(path)) from error


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    safetensors = safetensors_module()
    with Path(path).open("rb"):  # a file that cannot be opened is an OSError, not a damaged model
        pass
    try:
        with safetensors.safe_open(path, framework="np") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            return file.metadata() or {}, tensors
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} is not a readable safetensors file: {error}") from error
