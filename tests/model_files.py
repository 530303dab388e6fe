"""Read model files, and write files that the library would not write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load

from metricfast._core.files import write_tensors


def contents(file: bytes) -> tuple[dict[str, str], dict[str, Any], dict[str, np.ndarray]]:
    """Return the metadata of a file, the state among them, and its arrays."""
    size = int.from_bytes(file[:8], "little")
    metadata = json.loads(file[8 : 8 + size])["__metadata__"]
    return metadata, json.loads(metadata["state"]), load(file)


def rewritten(path: Path, metadata: dict[str, str], state: Any, arrays: dict[str, Any]) -> None:
    """Write a file with another state and other arrays, and a right checksum."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    write_tensors(path, metadata | {"state": json.dumps(state)}, contiguous)


def forged(file: bytes, path: Path, arrays: dict[str, Any] | None = None, **changes: str) -> None:
    """Write a file with other metadata and a right checksum, as an attacker would."""
    metadata, _, known = contents(file)
    write_tensors(path, metadata | changes, known | (arrays or {}))
