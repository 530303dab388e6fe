"""Files that hold the state of a training, so that it can continue in another process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from metricfast._core.arguments import check_random_state
from metricfast._core.files import read_tensors, safetensors_module, write_tensors
from metricfast._core.types import RandomState
from metricfast.training.fingerprint import fingerprint
from metricfast.training.history import History

_FORMAT = "metricfast training"


class Resumable(Protocol):
    """An object whose state can be stored: arrays, and numbers for JSON."""

    def snapshot(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the state."""


class CheckpointFile:
    """A file that holds the state of a training after its last complete epoch.

    A file of a training with other data or parameters (`of`) is refused. `seed` is the seed of the
    training's random generator. Raises ImportError without the package safetensors, and
    FileNotFoundError if the folder does not exist.
    """

    def __init__(self, path: Any, *of: Any) -> None:
        self._path = Path(path)
        try:
            safetensors_module()
        except ImportError as error:
            raise ImportError(
                "checkpoint needs the package safetensors: pip install safetensors, or leave the "
                "checkpoint out."
            ) from error
        folder = self._path.resolve().parent
        if not folder.is_dir():
            raise FileNotFoundError(
                f"checkpoint {path} cannot be written: there is no folder {folder}. Make it, or "
                "name another file."
            )
        self._fingerprint, self._found, self.seed = fingerprint(*of), dict[str, Any](), 0

    def read(self) -> dict[str, Any] | None:
        """Return the seed and the state of the training, None if there is no file.

        Raises ValueError if the file is damaged, or belongs to another training.
        """
        if not self._path.exists():
            return None
        metadata, tensors = read_tensors(self._path, _FORMAT, "a training")
        if metadata.get("fingerprint") != self._fingerprint:
            raise ValueError(
                f"checkpoint {self._path} is of a training with other parameters or other data: "
                "name another file, or delete this one to start again."
            )
        with self.reading():
            state = json.loads(metadata["state"])
            seed, numbers = state["seed"], state["numbers"]
            if type(seed) is not int or not 0 <= seed < 2**32 or not isinstance(numbers, dict):
                raise ValueError(f"seed {seed!r} and numbers of type {type(numbers).__name__}")
            return {"seed": seed, "numbers": numbers, "arrays": tensors}

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Convert errors from the content of the file to a ValueError that names the file."""
        try:
            yield
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise ValueError(
                f"checkpoint {self._path} does not describe a training "
                f"({type(error).__name__}: {error}): delete this file, or name another."
            ) from error

    def generator(self, random_state: Any) -> RandomState:
        """Return the random generator of the training in the file, or else of a new training."""
        found = self.read()
        if found is None:
            seed = random_state
            if not isinstance(seed, (int, np.integer)):
                seed = check_random_state(seed).randint(2**31 - 1)
            found = {"seed": int(seed)}
        self._found, self.seed = found, found["seed"]
        return np.random.RandomState(self.seed)

    def restore(self, history: History, solver: Any) -> None:
        """Continue from the file if there was one; raise ValueError if it does not fit."""
        if "arrays" not in self._found:
            return
        arrays, numbers = self._found["arrays"], self._found["numbers"]
        with self.reading():
            history.check(arrays, numbers, solver.n_moments)
        n_done, most = len(arrays["curve"]), solver.n_iter
        name = "max_epochs" if solver.by_batches else "max_iter"
        if n_done > most:
            raise ValueError(
                f"checkpoint {self._path} holds {n_done} epochs, more than {name}={most}: "
                f"raise {name}, name another file, or delete this one."
            )
        history.resume(arrays, numbers)

    def write(self, seed: int, history: Resumable) -> None:
        """Replace the file atomically."""
        arrays, numbers = history.snapshot()
        metadata = {
            "format": _FORMAT,
            "fingerprint": self._fingerprint,
            "state": json.dumps({"seed": seed, "numbers": numbers}),
        }
        write_tensors(self._path, metadata, arrays)
