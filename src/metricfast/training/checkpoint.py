"""Where a training stands, in a file, so that it can go on after its process was killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from metricfast._core.files import read_tensors, safetensors_module, write_tensors
from metricfast.training.fingerprint import fingerprint
from metricfast.training.minibatch import Training

__all__ = ["Checkpoint"]

_FORMAT = "metricfast training"


class Checkpoint:
    """A file that holds a training after its last complete epoch.

    Parameters
    ----------
    path : path-like
    *of : object
        What the training depends on: a file of one that depends on something else is refused.

    Raises
    ------
    ImportError, FileNotFoundError
        If no file can be written, for there is no package safetensors, or no such folder.
    """

    def __init__(self, path: Any, *of: Any) -> None:
        self._path = Path(path)
        try:
            safetensors_module()
        except ImportError as error:
            raise ImportError(
                "checkpoint needs the package safetensors: pip install 'metricfast[io]', or set "
                "checkpoint=None."
            ) from error
        folder = self._path.resolve().parent
        if not folder.is_dir():
            raise FileNotFoundError(
                f"checkpoint {path} cannot be written: there is no folder {folder}. Make it, or "
                "name another file."
            )
        self._fingerprint = fingerprint(*of)

    def read(self, max_epochs: int) -> tuple[int, Training] | None:
        """Return the seed of the training and where it stands, None if there is no file.

        Parameters
        ----------
        max_epochs : int
            The most that the training may have done.

        Raises
        ------
        ValueError
            If the file is damaged, of another training, or of one that went on for longer.
        """
        if not self._path.exists():
            return None
        metadata, tensors = read_tensors(self._path, _FORMAT, "a training")
        if metadata.get("fingerprint") != self._fingerprint:
            raise ValueError(
                f"checkpoint {self._path} is of a training with other parameters or other data: "
                "name another file, or delete this one to begin anew."
            )
        state = json.loads(metadata["state"])
        if len(tensors["curve"]) > max_epochs:
            raise ValueError(
                f"checkpoint {self._path} holds {len(tensors['curve'])} epochs, more than "
                f"max_epochs={max_epochs}: raise max_epochs, name another file, or delete this one."
            )
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
            first=state["first"],
            stopped=state["stopped"],
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
            "first": training.first,
            "stopped": training.stopped,
            "moments": len(training.moments),
            "rng": [kind, *rest],
        }
        metadata = {
            "format": _FORMAT,
            "fingerprint": self._fingerprint,
            "state": json.dumps(state),
        }
        write_tensors(self._path, metadata, tensors)
