"""Targets with damaged model files and checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import metricfast as mf
from metricfast import losses


class Damage(NamedTuple):
    """A damage to a file: its position, relative to the file or its header, and its kind."""

    kind: str
    where: float
    byte: int

    def __call__(self, content: bytes) -> bytes:
        size = len(content)
        header = 8 + int.from_bytes(content[:8], "little")
        place = min(int(self.where * (header if self.kind == "header" else size)), size - 1)
        if self.kind == "cut":
            return content[:place]
        if self.kind == "longer":
            return content + bytes([self.byte]) * 8
        if self.kind == "zeros":
            return content[:place] + bytes(min(16, size - place)) + content[place + 16 :]
        if self.kind == "digit":  # a number in the header
            digits = [i for i, c in enumerate(content[:header]) if 48 <= c < 58] or [place]
            place = digits[int(self.where * (len(digits) - 1))]
            return content[:place] + bytes([48 + self.byte % 10]) + content[place + 1 :]
        return content[:place] + bytes([self.byte]) + content[place + 1 :]


def damages() -> st.SearchStrategy[Damage]:
    kinds = st.sampled_from(("byte", "byte", "header", "header", "digit", "cut", "longer", "zeros"))
    return st.builds(Damage, kinds, st.floats(0, 1, width=32), st.integers(0, 255))


def load_damaged(model: Any, damage: Damage) -> tuple[bool, Any]:
    """Return whether the damage changed the file, and the object that is loaded from it."""
    path = Path("path-of-model")
    mf.save(model, path)
    content = path.read_bytes()
    path.write_bytes(damage(content))
    return damage(content) != content, mf.load(path)


def round_trip(X: Any, y: Any) -> list[Any]:
    """Return the embedded points before and after saving the learner."""
    model = mf.EmbeddingLearner(losses.NCA(), max_epochs=1, random_state=0).fit(X, y)
    mf.save(model, "model")
    return [each.transform(X) for each in (model, mf.load("model"))]


def resume_damaged(damage: Damage) -> list[Any]:
    """Return the parameters of a training resumed from a damaged file, and of one without it."""
    rng = np.random.default_rng(0)
    X, y, path = rng.normal(size=(20, 3)), np.arange(20) % 2, Path("path-of-checkpoint")

    def train(epochs: int) -> Any:
        return mf.EmbeddingLearner(
            losses.NCA(),
            max_epochs=epochs,
            batch_size=10,
            random_state=0,
            callbacks=[mf.callbacks.Checkpoint(path)],
        ).fit(X, y)

    train(2)
    content = path.read_bytes()
    expected = train(4).parameters_
    path.write_bytes(damage(content))
    return [train(4).parameters_, expected]
