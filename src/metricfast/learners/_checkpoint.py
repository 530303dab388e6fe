"""Where a training stands, in a file, so that it can go on after its process was killed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

from metricfast._files import read_tensors, safetensors_module, write_atomically
from metricfast.learners._minibatch import Training

__all__ = ["Checkpoint"]

_FORMAT = "metricfast training"


class Checkpoint:
    """A file that holds a training after its last complete epoch.

    Parameters
    ----------
    path : path-like
    *of : object
        What the training depends on: a file of one that depends on something else is refused.
    """

    def __init__(self, path: Any, *of: Any) -> None:
        self._path = Path(path)
        digest = hashlib.sha256()
        _describe(digest, of)
        self._fingerprint = digest.hexdigest()

    def read(self) -> tuple[int, Training] | None:
        """Return the seed of the training and where it stands, None if there is no file.

        Raises
        ------
        ValueError
            If the file is damaged, or of another training.
        """
        if not self._path.exists():
            return None
        metadata, tensors = read_tensors(self._path)
        if metadata.get("format") != _FORMAT:
            raise ValueError(f"checkpoint {self._path} holds no training of metricfast.")
        if metadata.get("fingerprint") != self._fingerprint:
            raise ValueError(
                f"checkpoint {self._path} is of a training with other parameters or other data: "
                "name another file, or delete this one to begin anew."
            )
        state = json.loads(metadata["state"])
        rng = np.random.RandomState()
        rng.set_state((*state["rng"][:1], tensors["rng"], *state["rng"][1:]))
        training = Training(
            vector=tensors["vector"],
            moments=[tensors[f"moment{i}"] for i in range(state["moments"])],
            rng=rng,
            step=state["step"],
            curve=tensors["curve"].tolist(),
            scores=tensors["scores"].tolist(),
            best=tensors.get("best"),
        )
        return state["seed"], training

    def write(self, seed: int, training: Training) -> None:
        """Replace the file, whole."""
        kind, keys, *rest = training.rng.get_state(legacy=True)
        tensors = {
            "vector": training.vector,
            "rng": np.asarray(keys),
            "curve": np.array(training.curve, np.float64),
            "scores": np.array(training.scores, np.float64),
            **{f"moment{i}": moment for i, moment in enumerate(training.moments)},
        }
        if training.best is not None:
            tensors["best"] = training.best
        state = {
            "seed": seed,
            "step": training.step,
            "moments": len(training.moments),
            "rng": [kind, *rest],
        }
        metadata = {
            "format": _FORMAT,
            "fingerprint": self._fingerprint,
            "state": json.dumps(state),
        }
        write_atomically(self._path, safetensors_module().numpy.save(tensors, metadata))


def _describe(digest: Any, value: Any) -> None:
    """Add what a value is to a digest: the same in every process."""
    if issparse(value):
        value = value.tocsr()
        _describe(digest, [value.shape, value.indptr, value.indices, value.data])
    elif isinstance(value, np.ndarray) and value.dtype != object:
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).data)
    elif isinstance(value, BaseEstimator):
        _describe(digest, [type(value).__qualname__, value.get_params(deep=False)])
    elif isinstance(value, dict):
        _describe(digest, [[key, value[key]] for key in sorted(value)])
    elif isinstance(value, (list, tuple)):
        digest.update(f"[{len(value)}".encode())
        for item in value:
            _describe(digest, item)
    elif isinstance(value, (bool, int, float, str, type(None), np.generic)):
        digest.update(f"{type(value).__name__}:{value!r};".encode())
    else:
        name = getattr(value, "__qualname__", type(value).__qualname__)
        digest.update(f"{name};".encode())
